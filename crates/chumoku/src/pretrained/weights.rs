//! Weights as safetensors: one file, or shards with their index; F32, F16 and BF16.

use super::files;
use crate::model_folder::{Tensors, WEIGHTS, f32_bytes, fault, no_tensor};
use crate::params::{Layout, Params};
use crate::{Result, memory, tr};
use chumoku_kernels::{Precision, bf16, f16};
use chumoku_nn::pretrained::Source;
use rayon::prelude::*;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const INDEX: &str = "model.safetensors.index.json";
/// Files of weights that are known and not read.
const PICKLED: [&str; 3] = ["pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5"];
/// Names that are listed in a message.
const SHOWN: usize = 4;

/// `model.safetensors.index.json`.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// The bytes of a folder's weights.
pub(crate) struct Weights {
    folder: PathBuf,
    /// Name and bytes of each file.
    files: Vec<(String, Vec<u8>)>,
    /// The file that each tensor is said to be in, where there is an index.
    index: Option<BTreeMap<String, String>>,
}

/// What becomes of a parameter when weights are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It is read, and must be there.
    Needed,
    /// It is read if it is there.
    Welcome,
    /// It is left as it is.
    New,
}

/// A tensor of the folder, and the file it is in.
type Found<'a> = HashMap<String, (&'a str, TensorView<'a>)>;

impl Weights {
    /// Reads the files.
    ///
    /// # Errors
    /// If there are none, they are pickled, or the index names files elsewhere.
    pub(crate) fn read(folder: &Path) -> Result<Weights> {
        if files::has(folder, WEIGHTS) {
            let files = vec![(WEIGHTS.to_owned(), files::read(folder, WEIGHTS)?)];
            return Ok(Weights { folder: folder.to_owned(), files, index: None });
        }
        if !files::has(folder, INDEX) {
            return Err(fault(folder, WEIGHTS, missing(folder)));
        }
        let Index { weight_map } = files::json(folder, INDEX)?;
        let shards: BTreeSet<&String> = weight_map.values().collect();
        if let Some(name) = shards.iter().find(|name| !files::is_plain_name(name)) {
            let problem = tr!(
                "expected names of files in this folder, found \"{name}\"",
                "このフォルダのファイル名が必要ですが、\"{name}\" です"
            );
            return Err(fault(folder, INDEX, problem));
        }
        let sizes = shards.iter().map(|name| Ok(files::find(folder, name)?.1)).collect::<Result<Vec<u64>>>()?;
        if let Some([needed, free]) = memory::lacking(sizes.iter().map(|&bytes| bytes as f64).sum()) {
            let problem = tr!(
                "the weights have {needed}, and {free} of memory are free",
                "重みは {needed} ありますが、空きメモリは {free} です"
            );
            return Err(fault(folder, INDEX, problem));
        }
        let read = shards.iter().map(|name| Ok(((*name).clone(), files::read(folder, name)?)));
        let files = read.collect::<Result<_>>()?;
        Ok(Weights { folder: folder.to_owned(), files, index: Some(weight_map) })
    }

    fn fault(&self, name: &str, problem: String) -> crate::Error {
        fault(&self.folder, name, problem)
    }

    /// All tensors, each where the index says.
    fn tensors(&self) -> Result<Found<'_>> {
        let mut found = HashMap::new();
        for (file, bytes) in &self.files {
            let tensors = SafeTensors::deserialize(bytes).map_err(|error| {
                let problem =
                    tr!("not a sound safetensors file: {error}", "safetensors ファイルとして正しくありません: {error}");
                self.fault(file, problem)
            })?;
            for (name, view) in tensors.tensors() {
                if self.index.as_ref().is_some_and(|index| index.get(&name) != Some(file)) {
                    let problem = tr!(
                        "holds tensor {name}, which {INDEX} does not place in this file",
                        "テンソル {name} がありますが、{INDEX} ではこのファイルのものではありません"
                    );
                    return Err(self.fault(file, problem));
                }
                found.insert(name, (file.as_str(), view));
            }
        }
        if let Some((name, file)) = self.index.iter().flatten().find(|(name, _)| !found.contains_key(*name)) {
            return Err(self.fault(file, no_tensor(name)));
        }
        Ok(found)
    }

    /// The parameters of a model.
    ///
    /// # Errors
    /// If a tensor is missing, has another shape or type or numbers that are not finite, or belongs to no part of such a
    /// model.
    pub(crate) fn params(&self, names: Names<'_>, layout: &Arc<Layout>, precision: Precision) -> Result<Params<f32>> {
        let mut params = self.fill(names, |_| Role::Needed, layout, Params::zeros)?;
        params.set_precision(precision);
        Ok(params)
    }

    /// The parameters of a model, some of which the folder may lack: those of `start`, with the numbers of the tensors in
    /// their place where `role` says so.
    ///
    /// # Errors
    /// As for [`Weights::params`].
    pub(crate) fn fill(
        &self,
        names: Names<'_>,
        role: impl Fn(&str) -> Role,
        layout: &Arc<Layout>,
        start: impl FnOnce(&Arc<Layout>) -> Params<f32>,
    ) -> Result<Params<f32>> {
        let found = self.tensors()?;
        let prefix = names.prefix_in(&found);
        let sources: HashMap<&str, &Source> =
            names.tensors.iter().map(|(name, source)| (name.as_str(), source)).collect();
        let mut used = HashSet::new();
        let mut missing = Vec::new();
        // Sizes come from a file: no memory is taken before all of it is there to be read.
        let mut plan = Vec::new();
        for (ours, shape, range) in layout.iter() {
            let role = role(ours);
            if role == Role::New {
                continue;
            }
            let Some(source) = sources.get(ours) else {
                unreachable!("the table of names has no {ours}");
            };
            let mut parts = Vec::new();
            let mut lacking = Vec::new();
            for theirs in source.names() {
                let name = match theirs.strip_prefix(names.prefix) {
                    Some(bare) => format!("{prefix}{bare}"),
                    None => theirs.clone(),
                };
                match [name.clone(), older(&name)].into_iter().find_map(|name| Some((found.get(&name)?, name))) {
                    Some((found, name)) => {
                        used.insert(name);
                        parts.push((theirs, found));
                    }
                    None => lacking.push(name),
                }
            }
            if lacking.is_empty() {
                self.check_shapes(&parts, &source.shapes(shape))?;
                plan.push((range, parts, *source));
            } else if role == Role::Needed {
                missing.extend(lacking);
            }
        }
        if !missing.is_empty() {
            let (count, shown) = (missing.len(), listed(&mut missing));
            let problem = tr!(
                "{count} tensors of the model that config.json describes are missing: {shown}",
                "config.json が示すモデルのテンソルが {count} 個ありません: {shown}"
            );
            return Err(self.fault(&self.files[0].0, problem));
        }
        let mut others: Vec<String> =
            found.keys().filter(|name| !used.contains(*name) && !is_of_a_head(name)).cloned().collect();
        if !others.is_empty() {
            let (count, shown) = (others.len(), listed(&mut others));
            let problem = tr!(
                "holds {count} tensors that the model of config.json does not have: {shown}; the files do not belong \
                 together, or the model has parts that this version does not know",
                "config.json のモデルにないテンソルが {count} 個あります: {shown}。ファイルが組になっていないか、この版で\
                 使えない部分を持つモデルです"
            );
            return Err(self.fault(&self.files[0].0, problem));
        }
        let mut params = start(layout);
        let values = params.values_mut();
        for (range, parts, source) in plan {
            let mut to = &mut values[range];
            for (name, (file, view)) in parts {
                let (part, rest) = to.split_at_mut(view.shape().iter().product());
                self.copy(name, file, view, part)?;
                if let (Source::Transposed(_), &[rows, columns]) = (source, view.shape()) {
                    transpose(part, [rows, columns]);
                }
                to = rest;
            }
        }
        Ok(params)
    }

    /// That tensors have these shapes.
    fn check_shapes(&self, parts: &[(&String, &(&str, TensorView<'_>))], shapes: &[Vec<usize>]) -> Result<()> {
        for ((name, (file, view)), expected) in parts.iter().zip(shapes) {
            let is_float = matches!(view.dtype(), Dtype::F32 | Dtype::F16 | Dtype::BF16);
            if !is_float || view.shape() != expected {
                let problem = tr!(
                    "tensor {name}: expected F32, F16 or BF16 {expected:?}, as config.json says, found {:?} {:?}",
                    "テンソル {name}: config.json によれば F32、F16、BF16 のいずれかの {expected:?} のはずですが、{:?} {:?} です",
                    view.dtype(),
                    view.shape()
                );
                return Err(self.fault(file, problem));
            }
        }
        Ok(())
    }

    fn copy(&self, name: &str, file: &str, view: &TensorView<'_>, to: &mut [f32]) -> Result<()> {
        widen(view, to);
        match to.par_iter().find_any(|x| !x.is_finite()) {
            None => Ok(()),
            Some(value) => {
                let problem = tr!(
                    "tensor {name} holds {value}, expected finite numbers",
                    "テンソル {name} に有限でない数 {value} があります"
                );
                Err(self.fault(file, problem))
            }
        }
    }
}

/// The numbers of a tensor, in f32.
fn widen(view: &TensorView<'_>, to: &mut [f32]) {
    const PIECE: usize = 1 << 16;
    let halves = |to: &mut [f32], of: fn([u8; 2]) -> f32| {
        to.par_chunks_mut(PIECE).zip(view.data().par_chunks(2 * PIECE)).for_each(|(to, bytes)| {
            to.iter_mut().zip(bytes.as_chunks::<2>().0).for_each(|(x, &bytes)| *x = of(bytes));
        });
    };
    match view.dtype() {
        Dtype::F16 => halves(to, |bytes| f16::from_le_bytes(bytes).to_f32()),
        Dtype::BF16 => halves(to, |bytes| bf16::from_le_bytes(bytes).to_f32()),
        _ => to.par_chunks_mut(PIECE).zip(view.data().par_chunks(4 * PIECE)).for_each(|(to, bytes)| {
            to.iter_mut().zip(bytes.as_chunks::<4>().0).for_each(|(x, &bytes)| *x = f32::from_le_bytes(bytes));
        }),
    }
}

/// Parameters as tensors under the names that a table has for them: what [`Weights::fill`] reads.
pub(super) fn published(params: &Params<f32>, sources: &[(String, Source)]) -> Tensors {
    let sources: HashMap<&str, &Source> = sources.iter().map(|(name, source)| (name.as_str(), source)).collect();
    let mut tensors = Tensors::new();
    for (ours, shape, range) in params.layout().iter() {
        let Some(source) = sources.get(ours) else {
            unreachable!("the table of names has no {ours}");
        };
        let mut numbers = &params.values()[range];
        for (name, shape_there) in source.names().iter().zip(source.shapes(shape)) {
            let (part, rest) = numbers.split_at(shape_there.iter().product());
            let bytes = match (source, shape) {
                (Source::Transposed(_), &[rows, columns]) => {
                    let mut part = part.to_vec();
                    transpose(&mut part, [rows, columns]);
                    f32_bytes(&part)
                }
                _ => f32_bytes(part),
            };
            tensors.push((name.clone(), Dtype::F32, shape_there, bytes));
            numbers = rest;
        }
    }
    tensors
}

/// Turns a matrix of so many rows and columns round, in place.
fn transpose(matrix: &mut [f32], [rows, columns]: [usize; 2]) {
    let from = matrix.to_vec();
    matrix.par_chunks_mut(rows.max(1)).enumerate().for_each(|(column, to)| {
        to.iter_mut().enumerate().for_each(|(row, x)| *x = from[row * columns + column]);
    });
}

/// The names of a model's parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    /// Each of our parameters, and where its numbers lie.
    pub(crate) tensors: &'a [(String, Source)],
    /// What stands before the names of all tensors but those of a head.
    pub(crate) prefix: &'a str,
}

impl<'a> Names<'a> {
    /// What stands there in a file that may have it, have another, or have none.
    fn prefix_in(&self, found: &Found<'_>) -> &'a str {
        let first = self.tensors.iter().find_map(|(_, source)| source.names()[0].strip_prefix(self.prefix));
        let is_there = |prefix: &&str| found.contains_key(&format!("{prefix}{}", first.unwrap_or_default()));
        [self.prefix, "model."].into_iter().find(is_there).unwrap_or("")
    }
}

/// The name that the first checkpoints have for a normalisation's γ or β.
fn older(name: &str) -> String {
    name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
}

/// Whether a tensor is of a head, which the model does not need, or what the program that wrote it computes anew: numbers
/// of positions, causal masks, speeds of rotary angles.
fn is_of_a_head(name: &str) -> bool {
    let heads =
        ["cls.", "lm_head.", "head.", "decoder.", "classifier.", "pre_classifier.", "vocab_", "qa_outputs.", "pooler."];
    // Or holds a second time: both sides of a translator share their embeddings.
    let computed = [
        "position_ids",
        ".attn.bias",
        ".attn.masked_bias",
        ".rotary_emb.inv_freq",
        ".embed_positions.weight",
        "coder.embed_tokens.weight",
    ];
    computed.iter().any(|end| name.ends_with(end))
        || name.contains(".pooler.")
        || heads.iter().any(|head| name.starts_with(head))
}

/// The first of some names.
fn listed(names: &mut [String]) -> String {
    names.sort_unstable();
    let more = if names.len() > SHOWN { ", …" } else { "" };
    format!("{}{more}", names[..names.len().min(SHOWN)].join(", "))
}

fn missing(folder: &Path) -> String {
    // A translator has more than its two bodies.
    let class = if files::has(folder, "source.spm") { "AutoModelForSeq2SeqLM" } else { "AutoModel" };
    match PICKLED.into_iter().find(|name| files::has(folder, name)) {
        Some(found) => tr!(
            "the file is missing, and {found} is not read: such files can run any code when they are opened. Write the \
             weights anew, where Python has transformers: python -c \"from transformers import {class} as m; \
             m.from_pretrained('FOLDER').save_pretrained('FOLDER')\"",
            "このファイルがありません。{found} は開くだけで任意のコードを実行しうる形式なので読みません。transformers のある \
             Python で重みを書き直してください: python -c \"from transformers import {class} as m; \
             m.from_pretrained('FOLDER').save_pretrained('FOLDER')\""
        ),
        None => tr!(
            "the file is missing: expected weights as safetensors, in one file or in shards with {INDEX}",
            "このファイルがありません。safetensors の重み（1 個のファイル、または分割されたファイルと {INDEX}）が必要です"
        ),
    }
}

/// Weight (outputs, inputs) and bias of the one linear layer that a file holds.
pub(crate) fn dense_matrix(folder: &Path, [outputs, inputs]: [usize; 2], bias: bool) -> Result<[Vec<f32>; 2]> {
    let weights = Weights::read(folder)?;
    let found = weights.tensors()?;
    let get = |name: &str, shape: &[usize]| {
        let Some((file, view)) = found.get(name) else { return Err(weights.fault(WEIGHTS, no_tensor(name))) };
        let name = name.to_owned();
        weights.check_shapes(&[(&name, &(*file, view.clone()))], &[shape.to_vec()])?;
        let mut to = vec![0.0; shape.iter().product()];
        weights.copy(&name, file, view, &mut to)?;
        Ok(to)
    };
    let weight = get("linear.weight", &[outputs, inputs])?;
    Ok([weight, if bias { get("linear.bias", &[outputs])? } else { Vec::new() }])
}
