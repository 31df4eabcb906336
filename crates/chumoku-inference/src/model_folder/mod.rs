//! Reads and writes the files common to all model folders. Input is validated.
//!
//! # Files
//!
//! - `checkpoints`: checkpoints in a folder
//! - `entry_type`: the type of a folder entry
//! - `files`: names of files, and the files of a folder
//! - `fingerprint`: the fingerprint of a model
//! - `ngrams`: the tensors of n-gram models
//! - `precision`: names of precision levels in files
//! - `replace`: replacing the old model by the new one
//! - `snapshot`: one consistent state of a folder
//! - `tensors`: reading and writing tensors

mod checkpoints;
mod entry_type;
mod files;
mod fingerprint;
mod ngrams;
pub mod precision;
mod replace;
mod snapshot;
mod tensors;

pub use checkpoints::{CHECKPOINTS, MANIFEST, STATE, checkpoints, has_checkpoint, has_checkpoints, remove_checkpoint};
pub use entry_type::EntryType;
pub use files::{
    CARD, CONFIG, LOCK, LOG, METRICS, NEXT_RUN, SPECIAL_TOKENS, TOKENIZER, TRAINED_ON, TUNE, TUNE_LOG, WEIGHTS,
    current_path, entry_names, foreign_files, foreign_model_files, has_trials, is_effectively_empty, open_file,
};
pub(crate) use files::{CHAT_TEMPLATE, GENERATION, NGRAM_WEIGHTS, SOURCE_TOKENIZER, TOKENIZER_CONFIG, check_files};
pub use fingerprint::model_fingerprint;
pub(crate) use ngrams::{NGRAMS, ngram_names, ngram_tensors, read_ngrams};
pub use replace::{finish_move, publish, remove_checkpoints, remove_work_folder, rename, sync_folder, write_file};
pub(crate) use snapshot::CHUMOKU_KEY;
pub use snapshot::{ModelIdentity, Snapshot, model_file, read_file, read_model_folder, with_snapshot, write_model};
pub(crate) use tensors::{NamedTensor, serialize_tensors};

use crate::lang::lang;
use crate::params::{ParamLayout, ParamView, Params};
use crate::text::TextTokenizer;
use crate::{Error, Result, tr};
use chumoku_kernels::Precision;
use safetensors::{Dtype, SafeTensorError, SafeTensors};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::path::{Component, Path};
use std::sync::Arc;

/// Returns `true` if a folder holds a finished model.
pub fn is_model_folder(folder: &Path) -> bool {
    EntryType::at(&current_path(folder, WEIGHTS)) != EntryType::Missing
}

/// Builds an error about a file of the folder.
pub fn model_file_error(folder: &Path, name: &str, problem: impl Into<String>) -> Error {
    Error::Model { path: folder.join(name), problem: problem.into() }
}

/// The message for a missing tensor.
pub(crate) fn missing_tensor_message(name: &str) -> String {
    tr!("there is no tensor {name}", "テンソル {name} がありません")
}

/// Parses a weights file of the folder.
pub(crate) fn parse_weights<'a>(folder: &Snapshot, name: &str, bytes: &'a [u8]) -> Result<SafeTensors<'a>> {
    let unsound = |error: SafeTensorError| {
        let problem =
            tr!("not a valid safetensors file: {error}", "safetensors ファイルとして正しくありません: {error}");
        model_file_error(folder, name, problem)
    };
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(unsound)?;
    folder.check_generation(name, header.metadata().as_ref())?;
    SafeTensors::deserialize(bytes).map_err(unsound)
}

/// Reads the folder's `config.json`.
pub(crate) fn read_config<C: DeserializeOwned>(folder: &Snapshot) -> Result<C> {
    // Parse from bytes everywhere: every other kind of reader would be compiled again for each type.
    let text = snapshot::read_text(folder, CONFIG)?;
    serde_json::from_slice(text.as_bytes()).map_err(|error| foreign_config_error(folder, &error))
}

fn foreign_config_error(folder: &Path, error: &serde_json::Error) -> Error {
    let problem = tr!(
        "not a configuration that `chumoku train` wrote: {error}",
        "`chumoku train` が書いた設定ではありません: {error}"
    );
    model_file_error(folder, CONFIG, problem)
}

/// The keys of `config.json` that determine the kind of model. Every `config.json` has `model_type`.
#[derive(Debug, Deserialize)]
pub(crate) struct ModelTypeConfig {
    pub(crate) model_type: String,
    /// The model class of Hugging Face's library, for pretrained models.
    #[serde(default)]
    architectures: Option<Vec<String>>,
    /// The key is present if Chumoku fine-tuned the model.
    #[serde(default)]
    chumoku: Option<serde::de::IgnoredAny>,
}

/// The kind of a trained model in a folder. The kind of data to train on is a
/// [`TrainingTask`](crate::data::TrainingTask).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelKind {
    /// A [`TextClassifier`](crate::TextClassifier).
    Classifier,
    /// An [`NgramClassifier`](crate::NgramClassifier).
    Ngrams,
    /// A [`TextTranslator`](crate::TextTranslator).
    Translator,
    /// A [`TextAutoencoder`](crate::TextAutoencoder).
    Autoencoder,
    /// A [`TextGenerator`](crate::TextGenerator).
    LanguageModel,
    /// A [`TextTagger`](crate::TextTagger).
    Tagger,
    /// A pretrained encoder, read by [`TextEmbedder`](crate::TextEmbedder).
    Encoder,
}

impl ModelKind {
    /// The kinds with a `config.json` format of Chumoku.
    const CHUMOKU_KINDS: [ModelKind; 6] = [
        ModelKind::Classifier,
        ModelKind::Ngrams,
        ModelKind::Translator,
        ModelKind::Autoencoder,
        ModelKind::LanguageModel,
        ModelKind::Tagger,
    ];

    /// Returns the kind of model in a folder.
    ///
    /// # Errors
    /// If the folder holds no model, or a kind that this version does not support.
    pub fn from_folder(folder: &Path) -> Result<ModelKind> {
        with_snapshot(folder, ModelKind::from_snapshot)
    }

    /// Returns the kind of the model in a snapshot.
    ///
    /// # Errors
    /// If its configuration cannot be read or names another program.
    pub fn from_snapshot(folder: &Snapshot) -> Result<ModelKind> {
        if let Some(kind) = pretrained_kind(folder) {
            return Ok(kind);
        }
        check_files(folder, &[CONFIG])?;
        let kind: ModelTypeConfig = read_config(folder)?;
        kind.kind().ok_or_else(|| {
            model_file_error(
                folder,
                CONFIG,
                kind.kind_mismatch(lang().pick("a kind that this version supports", "この版で使えるモデル")),
            )
        })
    }

    /// The value of `model_type` in Chumoku's `config.json`.
    pub fn model_type(self) -> &'static str {
        match self {
            ModelKind::Classifier => "chumoku_text_classifier",
            ModelKind::Ngrams => "chumoku_ngram_classifier",
            ModelKind::Translator => "chumoku_translator",
            ModelKind::Autoencoder => "chumoku_autoencoder",
            ModelKind::LanguageModel => "chumoku_language_model",
            ModelKind::Tagger => "chumoku_tagger",
            ModelKind::Encoder => "bert",
        }
    }

    /// A description of the model kind and its commands, in the language of the process.
    pub fn describe(self) -> &'static str {
        let lang = crate::lang::lang();
        match self {
            ModelKind::Classifier => lang.pick(
                "a text classifier, for `chumoku predict`, `eval`, `explain`, `trace`, `embed` and `nearest`",
                "テキスト分類モデル（`chumoku predict`、`eval`、`explain`、`trace`、`embed`、`nearest` で使えます）",
            ),
            ModelKind::Ngrams => lang.pick(
                "an n-gram model without attention, for `chumoku predict`, `eval` and `explain`",
                "n-gram モデル（アテンションはありません。`chumoku predict`、`eval`、`explain` で使えます）",
            ),
            ModelKind::Translator => lang.pick(
                "a translator, for `chumoku translate`, `eval`, `explain` and `trace`",
                "翻訳モデル（`chumoku translate`、`eval`、`explain`、`trace` で使えます）",
            ),
            ModelKind::Autoencoder => lang.pick(
                "an autoencoder, for `chumoku predict`, `eval`, `embed`, `nearest`, `serve` and `count`",
                "オートエンコーダー（`chumoku predict`、`eval`、`embed`、`nearest`、`serve`、`count` で使えます）",
            ),
            ModelKind::LanguageModel => lang.pick(
                "a language model, for `chumoku generate`, `eval`, `explain` and `trace`",
                "言語モデル（`chumoku generate`、`eval`、`explain`、`trace` で使えます）",
            ),
            ModelKind::Tagger => lang.pick(
                "a tagger, for `chumoku predict`, `eval` and `explain`",
                "単語にラベルを付けるモデル（`chumoku predict`、`eval`、`explain` で使えます）",
            ),
            ModelKind::Encoder => lang.pick(
                "a pretrained encoder, for `chumoku embed`, `nearest`, `explain`, `trace` and `train DATA --from`",
                "事前学習済みのエンコーダー（`chumoku embed`、`nearest`、`explain`、`trace`、`train データ --from` で使えます）",
            ),
        }
    }
}

/// Returns the kind of a folder in the format of Hugging Face, if it is one. Files in such a folder may be links.
pub fn pretrained_kind(folder: &Path) -> Option<ModelKind> {
    let path = current_path(folder, CONFIG);
    if !path.exists() {
        let first = read_small_json::<Vec<SentenceModule>>(&folder.join(MODULES))?.into_iter().next()?;
        if first.is_static_embedding() {
            return Some(ModelKind::Encoder);
        }
        let path = first.path;
        let is_plain = Path::new(&path).components().eq([Component::Normal(path.as_ref())]);
        let kind = is_plain.then(|| pretrained_kind_at(&folder.join(path).join(CONFIG)))??;
        return Some(kind).filter(|&kind| kind == ModelKind::Encoder);
    }
    pretrained_kind_at(&path)
}

fn pretrained_kind_at(path: &Path) -> Option<ModelKind> {
    read_small_json::<ModelTypeConfig>(path)?.pretrained_kind()
}

/// Returns `true` if Chumoku wrote the model in a folder.
pub fn is_chumoku_model(folder: &Path) -> bool {
    read_small_json::<ModelTypeConfig>(&current_path(folder, CONFIG)).is_some_and(|kind| kind.is_chumoku())
}

/// The file that lists the modules of a sentence-transformers model.
pub(crate) const MODULES: &str = "modules.json";

/// A module of a sentence-transformers model.
#[derive(Deserialize)]
pub(crate) struct SentenceModule {
    #[serde(default)]
    pub(crate) path: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
}

impl SentenceModule {
    /// Returns `true` for a table of static vectors.
    pub(crate) fn is_static_embedding(&self) -> bool {
        self.kind.ends_with(".StaticEmbedding")
    }
}

fn read_small_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= files::MAX_CONFIG_BYTES);
    is_file.then(|| serde_json::from_slice(&std::fs::read(path).ok()?).ok())?
}

/// The `model_type` of a static vector table. Tables of sentence-transformers have none.
pub(crate) const MODEL2VEC: &str = "model2vec";

/// Supported encoders by `model_type`.
const ENCODERS: [&str; 7] = ["bert", "roberta", "xlm-roberta", "camembert", "distilbert", "modernbert", MODEL2VEC];

/// Checks that Chumoku wrote a model of this kind, called `expected` in the message.
pub(crate) fn check_kind(folder: &Snapshot, kind: ModelKind, expected: &str) -> Result<()> {
    let found: ModelTypeConfig = read_config(folder)?;
    if found.model_type == kind.model_type() {
        return Ok(());
    }
    Err(model_file_error(folder, CONFIG, found.kind_mismatch(expected)))
}

impl ModelTypeConfig {
    /// Returns `true` if Chumoku wrote the configuration.
    pub(crate) fn is_chumoku(&self) -> bool {
        self.model_type.starts_with("chumoku_") || self.chumoku.is_some()
    }

    /// The kind of a model in the format of Hugging Face.
    fn pretrained_kind(&self) -> Option<ModelKind> {
        let is_any =
            |ends: &[&str]| self.architectures.iter().flatten().any(|name| ends.iter().any(|end| name.ends_with(end)));
        match self.model_type.as_str() {
            ours if ours.starts_with("chumoku_") => None,
            _ if is_any(&["ForSequenceClassification"]) => Some(ModelKind::Classifier),
            encoder if ENCODERS.contains(&encoder) => Some(ModelKind::Encoder),
            "marian" if is_any(&["MTModel"]) || self.architectures.is_none() => Some(ModelKind::Translator),
            _ => is_any(&["ForCausalLM", "LMHeadModel"]).then_some(ModelKind::LanguageModel),
        }
    }

    fn kind(&self) -> Option<ModelKind> {
        let ours = ModelKind::CHUMOKU_KINDS.into_iter().find(|kind| kind.model_type() == self.model_type);
        ours.or_else(|| self.pretrained_kind())
    }

    /// The message for a model of an unexpected kind, with the commands that support it.
    fn kind_mismatch(&self, expected: &str) -> String {
        let found = self.kind().map_or_else(
            || match self.model_type.starts_with("chumoku_") {
                false => tr!(
                    "a pretrained model of type \"{}\", which this version does not support",
                    "この版では使えない種類 \"{}\" の事前学習済みモデル",
                    self.model_type
                ),
                true => tr!(
                    "a model of type \"{}\", which this version does not support",
                    "この版では使えない種類 \"{}\" のモデル",
                    self.model_type
                ),
            },
            |kind| kind.describe().into(),
        );
        tr!("model_type: expected {expected}, found {found}", "model_type: {expected}が必要ですが、{found}です")
    }
}

/// Reads a tokenizer and checks its number of tokens and its vocabulary against the configuration.
pub(crate) fn read_tokenizer(
    folder: &Snapshot,
    name: &str,
    vocab_size: usize,
    vocabulary_sha256: Option<&str>,
) -> Result<TextTokenizer> {
    let tokenizer = TextTokenizer::read(&files::check_file(folder, name)?)?;
    let (tokens, ids) = (tokenizer.vocab_size(), tokenizer.id_bound());
    if tokens != vocab_size || ids != tokens {
        let problem = tr!(
            "expected tokens numbered 0 to {}, as {CONFIG} says, found {tokens} up to number {}; it belongs to another \
             model",
            "{CONFIG} によればトークンの番号は 0 から {} までのはずですが、トークンは {tokens} 個で番号は {} までです。\
             別のモデルのファイルです",
            vocab_size.saturating_sub(1),
            ids.saturating_sub(1)
        );
        return Err(model_file_error(folder, name, problem));
    }
    if let Some(sha256) = vocabulary_sha256 {
        check_vocabulary(folder, name, &tokenizer, sha256)?;
    }
    Ok(tokenizer)
}

/// Checks that the tokenizer's vocabulary has the SHA-256 in the configuration.
pub(crate) fn check_vocabulary(folder: &Path, name: &str, tokenizer: &TextTokenizer, sha256: &str) -> Result<()> {
    if sha256 == tokenizer.vocabulary_sha256() {
        return Ok(());
    }
    let problem = tr!(
        "expected the vocabulary with the SHA-256 in {CONFIG}, found another; it belongs to another model",
        "語彙の SHA-256 が {CONFIG} にある値と違います。別のモデルのファイルです"
    );
    Err(model_file_error(folder, name, problem))
}

/// Returns numbers as little-endian bytes.
#[must_use]
pub fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

pub(crate) fn f32_from_bytes(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
}

/// Returns the parameters as tensors.
pub(crate) fn param_tensors(params: &Params<f32>) -> Vec<NamedTensor> {
    let layout = params.layout().iter();
    layout.map(|ParamView { name, shape, range }| NamedTensor::floats(name, shape, &params.values()[range])).collect()
}

/// Reads the parameters of a model from the tensors of its file.
pub(crate) fn read_params(
    folder: &Path,
    tensors: &SafeTensors<'_>,
    layout: &Arc<ParamLayout>,
    precision: Precision,
) -> Result<Params<f32>> {
    let find = |name: &str, shape: &[usize]| {
        let view = tensors.tensor(name).map_err(|_| model_file_error(folder, WEIGHTS, missing_tensor_message(name)))?;
        if view.dtype() != Dtype::F32 || view.shape() != shape {
            let problem = tr!(
                "tensor {name}: expected F32 {shape:?}, as {CONFIG} says, found {:?} {:?}",
                "テンソル {name}: {CONFIG} によれば F32 {shape:?} のはずですが、{:?} {:?} です",
                view.dtype(),
                view.shape()
            );
            return Err(model_file_error(folder, WEIGHTS, problem));
        }
        Ok(view)
    };
    // Sizes come from an untrusted file. Check that all tensors are present before allocating memory.
    layout.iter().try_for_each(|param| find(param.name, param.shape).map(drop))?;
    let mut params = Params::zeros(layout);
    params.set_precision(precision);
    for ParamView { name, shape, range } in layout.iter() {
        let values = f32_from_bytes(find(name, shape)?.data());
        if let Some(value) = values.iter().find(|x| !x.is_finite()) {
            let problem = tr!(
                "tensor {name} holds {value}, expected finite numbers",
                "テンソル {name} に有限でない数 {value} があります"
            );
            return Err(model_file_error(folder, WEIGHTS, problem));
        }
        params.values_mut()[range].copy_from_slice(&values);
    }
    Ok(params)
}

/// Checks that the file holds only the parameters of the layout, if there is a network, and the tensors in `others`.
/// Other tensors mean that the weights belong to a different configuration.
pub(crate) fn check_no_extra_tensors(
    folder: &Path,
    tensors: &SafeTensors<'_>,
    layout: Option<&ParamLayout>,
    others: &[String],
) -> Result<()> {
    /// The maximum number of names in the message.
    const MAX_LISTED: usize = 4;
    let parameters = layout.into_iter().flat_map(ParamLayout::iter).map(|param| param.name);
    let known: HashSet<&str> = parameters.chain(others.iter().map(String::as_str)).collect();
    let mut found: Vec<&str> = tensors.names().into_iter().filter(|name| !known.contains(name)).collect();
    if found.is_empty() {
        return Ok(());
    }
    found.sort_unstable();
    let (count, shown) = (found.len(), found[..found.len().min(MAX_LISTED)].join(", "));
    let more = if count > MAX_LISTED { ", …" } else { "" };
    let problem = tr!(
        "expected only the tensors of the model in {CONFIG}, found {count} more: {shown}{more}; the two files belong to \
         different models",
        "{CONFIG} が示すモデルにないテンソルが {count} 個あります: {shown}{more}。二つのファイルは別々のモデルのものです"
    );
    Err(model_file_error(folder, WEIGHTS, problem))
}
