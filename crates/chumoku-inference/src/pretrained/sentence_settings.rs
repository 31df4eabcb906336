//! Reads the settings of sentence-transformers: pooling, projections, and prompts.

use super::files;
use super::weights::read_dense_matrix;
use crate::model_folder::{MODULES, SentenceModule, Snapshot, model_file_error};
use crate::nn::Pooling;
use crate::{Result, tr};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const CONFIG: &str = "config.json";
/// Most values of a linear layer: about a gigabyte.
const MAX_DENSE_VALUES: usize = 1 << 28;

/// `config_sentence_transformers.json`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PromptSettings {
    prompts: BTreeMap<String, String>,
    default_prompt_name: Option<String>,
}

/// `sentence_bert_config.json`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct LengthSettings {
    max_seq_length: Option<usize>,
    do_lower_case: bool,
}

#[derive(Deserialize)]
struct DenseConfig {
    in_features: usize,
    out_features: usize,
    #[serde(default = "default_true")]
    bias: bool,
    activation_function: String,
}

fn default_true() -> bool {
    true
}

/// A linear layer after pooling: `activation(x Wᵀ + b)`.
#[derive(Clone, Debug)]
pub(crate) struct DenseProjection {
    /// (outputs, inputs), row-major.
    pub(crate) weight: Vec<f32>,
    /// Empty if there is none.
    pub(crate) bias: Vec<f32>,
    pub(crate) outputs: usize,
    pub(crate) is_tanh: bool,
}

/// Settings of the steps from token vectors to a text vector.
#[derive(Clone, Debug)]
pub(crate) struct SentenceSettings {
    /// Pooling methods; their vectors are concatenated.
    pub(crate) pooling: Vec<Pooling>,
    pub(crate) dense: Vec<DenseProjection>,
    pub(crate) normalize: bool,
    /// Prompts to put before a text, by name.
    pub(crate) prompts: BTreeMap<String, String>,
    pub(crate) default_prompt: Option<String>,
    /// Most tokens of a text.
    pub(crate) max_tokens: Option<usize>,
    pub(crate) lowercase: bool,
    /// True if surrounding white space is trimmed; not for static vectors.
    pub(crate) trim: bool,
    /// True if the folder declares these settings. The default is the normalized mean of all tokens.
    pub(crate) is_declared: bool,
}

impl SentenceSettings {
    /// Reads the folder's settings. `width` is the width of token vectors.
    ///
    /// # Errors
    /// If a step is not supported, or does not fit the one before.
    pub(crate) fn read(folder: &Snapshot, width: usize) -> Result<SentenceSettings> {
        let PromptSettings { prompts, default_prompt_name } =
            files::optional_json(folder, "config_sentence_transformers.json")?.unwrap_or_default();
        let mut sentence = SentenceSettings {
            pooling: vec![Pooling::Mean],
            dense: Vec::new(),
            normalize: true,
            prompts,
            default_prompt: default_prompt_name,
            max_tokens: None,
            lowercase: false,
            trim: true,
            is_declared: false,
        };
        let Some(modules) = files::optional_json::<Vec<SentenceModule>>(folder, MODULES)? else { return Ok(sentence) };
        (sentence.is_declared, sentence.normalize) = (true, false);
        let mut columns = width;
        // Static embeddings are pooled during lookup.
        let is_static = modules.first().is_some_and(|module| module.is_static_embedding());
        let rest = if is_static { 1 } else { 2 };
        for (step, SentenceModule { path, kind }) in modules.iter().enumerate() {
            let place = folder.subfolder(check_path(folder, path)?);
            match (step, kind.rsplit('.').next().unwrap_or_default()) {
                (0, "Transformer") => {
                    let limit: LengthSettings =
                        files::optional_json(&place, "sentence_bert_config.json")?.unwrap_or_default();
                    (sentence.max_tokens, sentence.lowercase) = (limit.max_seq_length, limit.do_lower_case);
                }
                (0, "StaticEmbedding") => sentence.trim = false,
                (1, "Pooling") if !is_static => {
                    sentence.pooling = read_pooling(&place)?;
                    columns *= sentence.pooling.len();
                }
                (step, "Dense") if step >= rest && !sentence.normalize => {
                    let dense = read_dense(&place, columns)?;
                    columns = dense.outputs;
                    sentence.dense.push(dense);
                }
                (step, "Normalize") if step >= rest => sentence.normalize = true,
                _ => {
                    let problem = tr!(
                        "expected Transformer, Pooling, then Dense and Normalize, found \"{kind}\" at step {step}",
                        "Transformer、Pooling、続いて Dense と Normalize が必要ですが、{step} 番に \"{kind}\" があります"
                    );
                    return Err(model_file_error(folder, MODULES, problem));
                }
            }
        }
        Ok(sentence)
    }
}

/// Returns the subfolder with the encoder's files, if `modules.json` names one.
pub(crate) fn encoder_folder(folder: &Snapshot) -> Result<Option<Snapshot>> {
    let modules: Option<Vec<SentenceModule>> = files::optional_json(folder, MODULES)?;
    let Some([SentenceModule { path, .. }, ..]) = modules.as_deref() else { return Ok(None) };
    let path = check_path(folder, path)?;
    Ok((!path.is_empty() && path != ".").then(|| folder.subfolder(path)))
}

fn check_path<'a>(folder: &Snapshot, path: &'a str) -> Result<&'a str> {
    if path.is_empty() || path == "." || files::is_plain_name(path) {
        return Ok(path);
    }
    let problem = tr!(
        "expected paths to be names of folders in this one, found \"{path}\"",
        "path: このフォルダの中のフォルダ名が必要ですが、\"{path}\" です"
    );
    Err(model_file_error(folder, MODULES, problem))
}

/// Reads the pooling methods of a pooling folder.
fn read_pooling(folder: &Snapshot) -> Result<Vec<Pooling>> {
    let settings: Map<String, Value> = files::json(folder, CONFIG)?;
    let is_on = |key: &str| settings.get(key).and_then(Value::as_bool).unwrap_or(false);
    if settings.get("include_prompt").and_then(Value::as_bool) == Some(false) {
        let problem = tr!(
            "include_prompt: pooling without the prompt is not supported; expected true",
            "include_prompt: プロンプトを除くプーリングには対応していません。true が必要です"
        );
        return Err(model_file_error(folder, CONFIG, problem));
    }
    // In the order in which sentence-transformers concatenates them.
    let known = [
        ("pooling_mode_cls_token", "cls", Some(Pooling::First)),
        ("pooling_mode_max_tokens", "max", Some(Pooling::Max)),
        ("pooling_mode_mean_tokens", "mean", Some(Pooling::Mean)),
        ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", Some(Pooling::MeanSqrtLength)),
        ("pooling_mode_weightedmean_tokens", "weightedmean", None),
        ("pooling_mode_lasttoken", "lasttoken", Some(Pooling::Last)),
    ];
    let named = settings.get("pooling_mode").and_then(Value::as_str);
    let mut found = Vec::new();
    for (flag, name, pooling) in known {
        if is_on(flag) || named == Some(name) {
            found.push(pooling.ok_or_else(|| {
                model_file_error(
                    folder,
                    CONFIG,
                    tr!("{flag}: this pooling is not supported", "{flag}: このプーリングには対応していません"),
                )
            })?);
        }
    }
    match found.is_empty() {
        false => Ok(found),
        true => Err(model_file_error(
            folder,
            CONFIG,
            tr!("expected a pooling mode, found none", "プーリングの種類が指定されていません"),
        )),
    }
}

fn read_dense(folder: &Snapshot, inputs: usize) -> Result<DenseProjection> {
    let config: DenseConfig = files::json(folder, CONFIG)?;
    let fault = |problem: String| model_file_error(folder, CONFIG, problem);
    if config.in_features != inputs {
        let found = config.in_features;
        return Err(fault(tr!(
            "in_features: expected {inputs}, the width of the step before, found {found}",
            "in_features: 前の段の {inputs} が必要ですが、{found} です"
        )));
    }
    if config.out_features == 0 || config.out_features.saturating_mul(inputs) > MAX_DENSE_VALUES {
        let found = config.out_features;
        return Err(fault(tr!("out_features: {found} is out of range", "out_features: {found} は範囲外です")));
    }
    let activation = config.activation_function.rsplit('.').next().unwrap_or_default();
    if !["Tanh", "Identity"].contains(&activation) {
        return Err(fault(tr!(
            "activation_function: expected Tanh or Identity, found \"{activation}\"",
            "activation_function: Tanh か Identity が必要ですが、\"{activation}\" です"
        )));
    }
    let [weight, bias] = read_dense_matrix(folder, [config.out_features, inputs], config.bias)?;
    Ok(DenseProjection { weight, bias, outputs: config.out_features, is_tanh: activation == "Tanh" })
}
