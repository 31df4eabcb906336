//! Reads weights from safetensors: one file, or shards with an index; F32, F16 and BF16.

use super::files;
use crate::model_folder::NamedTensor;
use crate::model_folder::Snapshot;
use crate::model_folder::WEIGHTS;
use crate::model_folder::missing_tensor_message;
use crate::model_folder::model_file_error;
use crate::params::ParamLayout;
use crate::params::ParamView;
use crate::params::Params;
use crate::{Error, Result, failpoint, memory, tr};
use chumoku_kernels::{Precision, bf16, f16, parallel};
use chumoku_nn::pretrained::TensorSource;
use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{Dtype, SafeTensorError};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

const INDEX: &str = "model.safetensors.index.json";
/// Known weight files that are not supported.
const UNSUPPORTED_FILES: [&str; 3] = ["pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5"];
/// Largest header in bytes, as in the `safetensors` crate.
const MAX_HEADER_BYTES: u64 = 100_000_000;
/// Most names listed in a message.
const MAX_NAMES: usize = 4;

/// `model.safetensors.index.json`.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// The weight files of a folder. Their headers are parsed, and tensors are read on demand, straight into the
/// parameters' memory. (The files are not memory-mapped: truncating a mapped file would crash the process.)
#[derive(Debug)]
pub(crate) struct WeightFiles {
    folder: PathBuf,
    shards: Vec<Shard>,
    /// The file of each tensor, if there is an index.
    index: Option<BTreeMap<String, String>>,
}

/// An open weight file.
#[derive(Debug)]
struct Shard {
    name: String,
    path: PathBuf,
    file: File,
    header: Metadata,
    /// Offset of the first tensor's data.
    start: u64,
}

/// How a parameter is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TensorRole {
    /// Must be in the folder.
    Required,
    /// Is read if the folder has it.
    Optional,
    /// Keeps its initial values.
    Skipped,
}

/// A tensor of the folder and its file.
#[derive(Clone, Copy)]
struct StoredTensor<'a> {
    shard: &'a Shard,
    info: &'a TensorInfo,
}

/// The tensors of the folder, by name.
type StoredTensors<'a> = HashMap<String, StoredTensor<'a>>;

/// Why a tensor cannot be read.
enum ReadFault {
    Read(std::io::Error),
    NotFinite(f32),
}

impl Shard {
    /// Opens a file of a folder and reads its header.
    fn open(folder: &Snapshot, name: &str) -> Result<Shard> {
        failpoint::hit("weights");
        let (path, bytes) = files::find(folder, name)?;
        let io = |error| Error::io("reading", &path)(error);
        let file = File::open(&path).map_err(io)?;
        let unsound = |error: SafeTensorError| {
            let problem =
                tr!("not a sound safetensors file: {error}", "safetensors ファイルとして正しくありません: {error}");
            model_file_error(folder, name, problem)
        };
        let mut length = [0; 8];
        if bytes < 8 {
            return Err(unsound(SafeTensorError::HeaderTooSmall));
        }
        files::read_at(&file, &mut length, 0).map_err(io)?;
        let length = u64::from_le_bytes(length);
        if length > MAX_HEADER_BYTES {
            return Err(unsound(SafeTensorError::HeaderTooLarge));
        }
        if length > bytes - 8 {
            return Err(unsound(SafeTensorError::InvalidHeaderLength));
        }
        let mut header = vec![0; length as usize];
        files::read_at(&file, &mut header, 8).map_err(io)?;
        let start = 8 + length;
        let header: Metadata = serde_json::from_slice(&header)
            .map_err(|error| unsound(SafeTensorError::InvalidHeaderDeserialization(error)))?;
        if header.data_len() as u64 != bytes - start {
            return Err(unsound(SafeTensorError::MetadataIncompleteBuffer));
        }
        folder.check_generation(name, header.metadata().as_ref())?;
        Ok(Shard { name: name.to_owned(), path, file, header, start })
    }
}

impl StoredTensor<'_> {
    /// Returns the number of values.
    fn len(self) -> usize {
        self.info.shape.iter().product()
    }

    /// Reads the values as f32.
    fn read(self, to: &mut [f32]) -> Result<(), ReadFault> {
        const CHUNK: usize = 1 << 15;
        /// Chunks that one task reads.
        const CHUNKS_PER_TASK: usize = 4;
        let size = self.info.dtype.bitsize() / 8;
        let start = self.shard.start + self.info.data_offsets.0 as u64;
        // Each chunk is widened and checked while it is in the cache.
        let read = |bytes: &mut Vec<u8>, piece: usize, to: &mut [f32]| {
            bytes.resize(size * to.len(), 0);
            files::read_at(&self.shard.file, bytes, start + (piece * CHUNK * size) as u64).map_err(ReadFault::Read)?;
            let read_16_bit = |to: &mut [f32], of: fn([u8; 2]) -> f32| {
                to.iter_mut().zip(bytes.as_chunks().0).for_each(|(x, &bytes)| *x = of(bytes));
            };
            match self.info.dtype {
                Dtype::F16 => read_16_bit(to, |bytes| f16::from_le_bytes(bytes).to_f32()),
                Dtype::BF16 => read_16_bit(to, |bytes| bf16::from_le_bytes(bytes).to_f32()),
                _ => to.iter_mut().zip(bytes.as_chunks().0).for_each(|(x, &bytes)| *x = f32::from_le_bytes(bytes)),
            }
            to.iter().find(|x| !x.is_finite()).map_or(Ok(()), |&x| Err(ReadFault::NotFinite(x)))
        };
        let done = parallel::map_chunks(to, CHUNKS_PER_TASK * CHUNK, |task, to| {
            let mut bytes = Vec::new();
            (task * CHUNKS_PER_TASK..).zip(to.chunks_mut(CHUNK)).try_for_each(|(piece, to)| read(&mut bytes, piece, to))
        });
        done.into_iter().collect()
    }
}

impl WeightFiles {
    /// Opens the files and reads their headers.
    ///
    /// # Errors
    /// If there are none, if they are pickled or damaged, or if the index names files outside the folder.
    pub(super) fn read(folder: &Snapshot) -> Result<WeightFiles> {
        if files::exists(folder, WEIGHTS) {
            return Ok(WeightFiles {
                folder: folder.to_path_buf(),
                shards: vec![Shard::open(folder, WEIGHTS)?],
                index: None,
            });
        }
        if !files::exists(folder, INDEX) {
            return Err(model_file_error(folder, WEIGHTS, missing_weights_message(folder)));
        }
        let Index { weight_map } = files::json(folder, INDEX)?;
        let shards: BTreeSet<&String> = weight_map.values().collect();
        if let Some(name) = shards.iter().find(|name| !files::is_plain_name(name)) {
            let problem = tr!(
                "expected names of files in this folder, found \"{name}\"",
                "このフォルダのファイル名が必要ですが、\"{name}\" です"
            );
            return Err(model_file_error(folder, INDEX, problem));
        }
        let shards = shards.into_iter().map(|name| Shard::open(folder, name)).collect::<Result<_>>()?;
        Ok(WeightFiles { folder: folder.to_path_buf(), shards, index: Some(weight_map) })
    }

    /// Returns the shape of a tensor, if the folder has it.
    pub(crate) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.shards.iter().find_map(|shard| Some(&shard.header.info(name)?.shape[..]))
    }

    fn fault(&self, name: &str, problem: String) -> crate::Error {
        model_file_error(&self.folder, name, problem)
    }

    /// Returns all tensors after checking them against the index.
    fn tensors(&self) -> Result<StoredTensors<'_>> {
        let mut found = HashMap::new();
        for shard in &self.shards {
            for (name, info) in shard.header.tensors() {
                if self.index.as_ref().is_some_and(|index| index.get(&name) != Some(&shard.name)) {
                    let problem = tr!(
                        "holds tensor {name}, which {INDEX} does not place in this file",
                        "テンソル {name} がありますが、{INDEX} ではこのファイルのものではありません"
                    );
                    return Err(self.fault(&shard.name, problem));
                }
                found.insert(name, StoredTensor { shard, info });
            }
        }
        if let Some((name, file)) = self.index.iter().flatten().find(|(name, _)| !found.contains_key(*name)) {
            return Err(self.fault(file, missing_tensor_message(name)));
        }
        Ok(found)
    }

    /// Reads the parameters of a model.
    ///
    /// # Errors
    /// If a tensor is missing, has the wrong shape or type, holds values that are not finite, or is not part of the
    /// model.
    pub(crate) fn params(
        &self,
        names: TensorNames<'_>,
        layout: &Arc<ParamLayout>,
        precision: Precision,
    ) -> Result<Params<f32>> {
        let mut params = self.load_into(names, |_| TensorRole::Required, layout, Params::zeros)?;
        params.set_precision(precision);
        Ok(params)
    }

    /// Reads the parameters of a model that the folder may contain only in part. Starts with `start` and overwrites
    /// parameters as `role` says.
    ///
    /// # Errors
    /// As for [`WeightFiles::params`].
    pub(crate) fn load_into(
        &self,
        names: TensorNames<'_>,
        role: impl Fn(&str) -> TensorRole,
        layout: &Arc<ParamLayout>,
        start: impl FnOnce(&Arc<ParamLayout>) -> Params<f32>,
    ) -> Result<Params<f32>> {
        let found = self.tensors()?;
        let prefix = names.find_prefix(&found);
        let sources: HashMap<&str, &TensorSource> =
            names.tensors.iter().map(|(name, source)| (name.as_str(), source)).collect();
        let mut used = HashSet::new();
        let mut missing = Vec::new();
        // Sizes come from an untrusted file: allocate only after checking that all data exists.
        let mut plan = Vec::new();
        for ParamView { name: ours, shape, range } in layout.iter() {
            let role = role(ours);
            if role == TensorRole::Skipped {
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
                match [name.clone(), legacy_name(&name)].into_iter().find_map(|name| Some((*found.get(&name)?, name))) {
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
            } else if role == TensorRole::Required {
                missing.extend(lacking);
            }
        }
        if !missing.is_empty() {
            let (count, shown) = (missing.len(), list_first_names(&mut missing));
            let problem = tr!(
                "{count} tensors of the model that config.json describes are missing: {shown}",
                "config.json が示すモデルのテンソルが {count} 個ありません: {shown}"
            );
            return Err(self.fault(&self.shards[0].name, problem));
        }
        let mut others: Vec<String> =
            found.keys().filter(|name| !used.contains(*name) && !is_ignored(name)).cloned().collect();
        if !others.is_empty() {
            let (count, shown) = (others.len(), list_first_names(&mut others));
            let problem = tr!(
                "holds {count} tensors that the model of config.json does not have: {shown}; the files do not belong \
                 together, or the model has parts that this version does not know",
                "config.json のモデルにないテンソルが {count} 個あります: {shown}。ファイルが組になっていないか、この版で\
                 使えない部分を持つモデルです"
            );
            return Err(self.fault(&self.shards[0].name, problem));
        }
        let numbers: usize = plan.iter().map(|(range, ..)| range.len()).sum();
        if let Some([needed, free]) = memory::shortage((size_of::<f32>() * numbers) as f64) {
            let problem = tr!(
                "the weights take {needed} in f32, and {free} of memory are free",
                "重みは f32 で {needed} になりますが、空きメモリは {free} です"
            );
            return Err(self.fault(&self.shards[0].name, problem));
        }
        let mut params = start(layout);
        let values = params.values_mut();
        for (range, parts, source) in plan {
            let mut to = &mut values[range];
            for (name, place) in parts {
                let (part, rest) = to.split_at_mut(place.len());
                self.read_tensor(name, place, part)?;
                if let (TensorSource::Transposed(_), &[rows, columns]) = (source, &place.info.shape[..]) {
                    transpose(part, [rows, columns]);
                }
                to = rest;
            }
        }
        Ok(params)
    }

    /// Checks types and shapes of tensors.
    fn check_shapes(&self, parts: &[(&String, StoredTensor<'_>)], shapes: &[Vec<usize>]) -> Result<()> {
        for ((name, StoredTensor { shard, info }), expected) in parts.iter().zip(shapes) {
            let is_float = matches!(info.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16);
            if !is_float || info.shape != *expected {
                let problem = tr!(
                    "tensor {name}: expected F32, F16 or BF16 {expected:?}, as config.json says, found {:?} {:?}",
                    "テンソル {name}: config.json によれば F32、F16、BF16 のいずれかの {expected:?} のはずですが、{:?} {:?} です",
                    info.dtype,
                    info.shape
                );
                return Err(self.fault(&shard.name, problem));
            }
        }
        Ok(())
    }

    /// Reads a tensor after its shape was checked.
    fn read_tensor(&self, name: &str, place: StoredTensor<'_>, to: &mut [f32]) -> Result<()> {
        place.read(to).map_err(|trouble| match trouble {
            ReadFault::Read(error) => Error::io("reading", &place.shard.path)(error),
            ReadFault::NotFinite(value) => {
                let problem = tr!(
                    "tensor {name} holds {value}, expected finite numbers",
                    "テンソル {name} に有限でない数 {value} があります"
                );
                self.fault(&place.shard.name, problem)
            }
        })
    }
}

/// Returns parameters as tensors under their published names, as [`WeightFiles::load_into`] reads them.
pub(super) fn published_tensors(params: &Params<f32>, sources: &[(String, TensorSource)]) -> Vec<NamedTensor> {
    let sources: HashMap<&str, &TensorSource> = sources.iter().map(|(name, source)| (name.as_str(), source)).collect();
    let mut tensors = Vec::new();
    for ParamView { name: ours, shape, range } in params.layout().iter() {
        let Some(source) = sources.get(ours) else {
            unreachable!("the table of names has no {ours}");
        };
        let mut numbers = &params.values()[range];
        for (name, shape_there) in source.names().iter().zip(source.shapes(shape)) {
            let (part, rest) = numbers.split_at(shape_there.iter().product());
            tensors.push(match (source, shape) {
                (TensorSource::Transposed(_), &[rows, columns]) => {
                    let mut part = part.to_vec();
                    transpose(&mut part, [rows, columns]);
                    NamedTensor::floats(name, &shape_there, &part)
                }
                _ => NamedTensor::floats(name, &shape_there, part),
            });
            numbers = rest;
        }
    }
    tensors
}

/// Transposes a matrix in place.
fn transpose(matrix: &mut [f32], [rows, columns]: [usize; 2]) {
    let from = matrix.to_vec();
    parallel::for_each_chunk(matrix, rows.max(1), |column, to| {
        to.iter_mut().enumerate().for_each(|(row, x)| *x = from[row * columns + column]);
    });
}

/// Published names of a model's parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TensorNames<'a> {
    /// Each of our parameters and its published tensors.
    pub(crate) tensors: &'a [(String, TensorSource)],
    /// Prefix of all tensor names except those of a head.
    pub(crate) prefix: &'a str,
}

impl<'a> TensorNames<'a> {
    /// Returns the prefix that a file uses: this one, another, or none.
    fn find_prefix(&self, found: &StoredTensors<'_>) -> &'a str {
        let first = self.tensors.iter().find_map(|(_, source)| source.names()[0].strip_prefix(self.prefix));
        let is_there = |prefix: &&str| found.contains_key(&format!("{prefix}{}", first.unwrap_or_default()));
        [self.prefix, "model."].into_iter().find(is_there).unwrap_or("")
    }
}

/// Returns the name of a normalization's γ or β in early checkpoints.
fn legacy_name(name: &str) -> String {
    name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
}

/// Returns whether a tensor can be ignored. It belongs to a head that the model lacks, or the library recomputes it:
/// position ids, causal masks, rotary frequencies.
fn is_ignored(name: &str) -> bool {
    let heads =
        ["cls.", "lm_head.", "head.", "decoder.", "classifier.", "pre_classifier.", "vocab_", "qa_outputs.", "pooler."];
    // Or a duplicate: both sides of a translator share their embeddings.
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

/// Lists the first few names.
fn list_first_names(names: &mut [String]) -> String {
    names.sort_unstable();
    let more = if names.len() > MAX_NAMES { ", …" } else { "" };
    format!("{}{more}", names[..names.len().min(MAX_NAMES)].join(", "))
}

fn missing_weights_message(folder: &Snapshot) -> String {
    // AutoModel would lose the parts of a translator outside encoder and decoder.
    let class = if files::exists(folder, "source.spm") { "AutoModelForSeq2SeqLM" } else { "AutoModel" };
    match UNSUPPORTED_FILES.into_iter().find(|name| files::exists(folder, name)) {
        Some(found) => tr!(
            "the file is missing, and {found} is not supported: opening such a file can run any code. Convert the \
             weights in a Python with transformers: python -c \"from transformers import {class} as m; \
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

/// Reads weight (outputs, inputs) and bias of a file with a single linear layer.
pub(crate) fn read_dense_matrix(folder: &Snapshot, [outputs, inputs]: [usize; 2], bias: bool) -> Result<[Vec<f32>; 2]> {
    let weights = WeightFiles::read(folder)?;
    let found = weights.tensors()?;
    let get = |name: &str, shape: &[usize]| {
        let Some(&place) = found.get(name) else { return Err(weights.fault(WEIGHTS, missing_tensor_message(name))) };
        weights.check_shapes(&[(&name.to_owned(), place)], &[shape.to_vec()])?;
        let mut to = vec![0.0; place.len()];
        weights.read_tensor(name, place, &mut to)?;
        Ok(to)
    };
    let weight = get("linear.weight", &[outputs, inputs])?;
    Ok([weight, if bias { get("linear.bias", &[outputs])? } else { Vec::new() }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_folder::f32_bytes;
    use safetensors::tensor::TensorView;
    use std::path::Path;

    /// Writes a file whose second tensor, “b”, holds these numbers. There are more than are read at a time, and every
    /// dtype represents them exactly.
    fn write_shard(folder: &Path, dtype: Dtype, numbers: &[f32]) -> Shard {
        let bytes: Vec<u8> = match dtype {
            Dtype::F16 => numbers.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
            Dtype::BF16 => numbers.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect(),
            _ => f32_bytes(numbers),
        };
        let views = [
            ("a", TensorView::new(dtype, vec![2], &bytes[..2 * dtype.bitsize() / 8]).unwrap()),
            ("b", TensorView::new(dtype, vec![numbers.len()], &bytes).unwrap()),
        ];
        std::fs::write(folder.join(WEIGHTS), safetensors::serialize(views, None).unwrap()).unwrap();
        Shard::open(&Snapshot::of(folder), WEIGHTS).unwrap()
    }

    fn read(shard: &Shard, to: &mut [f32]) -> Result<(), ReadFault> {
        StoredTensor { shard, info: shard.header.info("b").unwrap() }.read(to)
    }

    #[test]
    fn long_tensors_are_read_in_chunks() {
        let folder = tempfile::tempdir().unwrap();
        let numbers: Vec<f32> = (0..100_001).map(|i| (i * 7 % 251) as f32 - 125.0).collect();
        for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
            let shard = write_shard(folder.path(), dtype, &numbers);
            let mut found = vec![0.0; numbers.len()];
            assert!(read(&shard, &mut found).is_ok() && found == numbers, "{dtype:?}");
        }
    }

    #[test]
    fn infinite_values_and_truncated_files_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let mut numbers = vec![1.0; 70_000];
        numbers[69_999] = f32::INFINITY;
        let shard = write_shard(folder.path(), Dtype::BF16, &numbers);
        assert!(matches!(read(&shard, &mut numbers), Err(ReadFault::NotFinite(f32::INFINITY))));
        // Another process truncates the file after it was opened.
        std::fs::File::create(&shard.path).unwrap();
        assert!(matches!(read(&shard, &mut numbers), Err(ReadFault::Read(_))));
    }
}
