//! Sequence classifiers: published ones, encoders as the base of fine-tuning, and writing in Hugging Face's format.

use super::config::{FolderConfig, own_settings, pretrained_encoder};
use super::files;
use super::sentence_settings::{SentenceSettings, encoder_folder};
use super::static_vectors::static_vectors;
use super::tokenizer::{read_max_tokens, read_tokenizer, read_with_tokenizer};
use super::weights::{TensorNames, TensorRole, WeightFiles, published_tensors};
use crate::error::layer_errors::layer_error_message;
use crate::model_folder::{
    CHUMOKU_KEY, CONFIG, NamedTensor, Snapshot, TOKENIZER, TOKENIZER_CONFIG, WEIGHTS, model_file_error,
};
use crate::models::{Classifier, ClassifierConfig, TextEncoderConfig};
use crate::nn::{DenseHeadConfig, HeadActivation, NormKind, Pooling};
use crate::params::{ParamLayout, ParamView, Params};
use crate::text::TextTokenizer;
use crate::{Result, tr};
use chumoku_nn::pretrained::{PretrainedEncoder, TensorSource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// The head's first layer normalizes vectors: RMS norm of the tanh of a small multiple of the vector. The tanh of small
/// numbers is nearly the identity. The factor is a power of two, and ε is small compared with the mean square of the
/// multiple.
const DENSE_WEIGHT: &str = "head.dense.weight";
const NORM_WEIGHT: &str = "head.norm.weight";
const IDENTITY_SCALE: f32 = 1.0 / 4096.0;
const EPSILON: f64 = 1e-15;
const LINEAR_HEAD: DenseHeadConfig = DenseHeadConfig { activation: HeadActivation::Tanh, bias: false, norm: None };

/// The published form of a classifier, in which it is written again.
#[derive(Clone, Debug)]
pub struct ClassifierOrigin {
    config: Map<String, Value>,
    encoder: PretrainedEncoder,
    /// Published names of the classifier's parameters.
    tensors: Vec<(String, TensorSource)>,
    /// Pooling of the linear head that replaces the published head, if it does.
    pooling: Option<Pooling>,
    /// Files of the folder that are copied unchanged.
    copied_files: Vec<(&'static str, Vec<u8>)>,
}

/// A classifier read from a folder.
#[derive(Debug)]
pub(crate) struct PublishedClassifier<Ours> {
    pub(crate) model: Classifier,
    pub(crate) params: Params<f32>,
    pub(crate) tokenizer: TextTokenizer,
    /// Most tokens of a text, including special tokens.
    pub(crate) max_tokens: usize,
    pub(crate) origin: ClassifierOrigin,
    pub(crate) labels: Vec<String>,
    /// True if classes exclude each other (single-label).
    pub(crate) is_one_class: bool,
    /// Chumoku's own settings, which fine-tuned models have.
    pub(crate) own_settings: Option<Ours>,
}

/// An encoder to fine-tune into a classifier.
#[derive(Debug)]
pub struct FineTuningBase {
    /// The checkpoint as it was read.
    pub origin: ClassifierOrigin,
    /// The tokenizer of the checkpoint.
    pub tokenizer: TextTokenizer,
    /// Most tokens of a text, including special tokens.
    pub max_tokens: usize,
    folder: PathBuf,
    /// The folder's pooling, and whether the folder declares it.
    pub pooling: (Pooling, bool),
    /// The open weight files. They stay valid even if the folder is overwritten.
    weights: WeightFiles,
}

impl ClassifierOrigin {
    fn read(folder: &Snapshot) -> Result<(ClassifierOrigin, FolderConfig)> {
        let config = FolderConfig::read(folder)?;
        let encoder = pretrained_encoder(folder, &config)?;
        let values = config.object(folder)?.clone();
        let files = files::read_existing(folder, &[TOKENIZER, TOKENIZER_CONFIG])?;
        let origin = ClassifierOrigin {
            config: values,
            tensors: encoder.classifier_tensors(),
            encoder,
            copied_files: files,
            pooling: None,
        };
        // Chumoku wrote a folder that declares a pooling here. An invalid value is reported with the other settings.
        let pooling = origin.config.get(CHUMOKU_KEY).and_then(|ours| ours.get("pooling")).cloned();
        let pooling = pooling.and_then(|pooling| serde_json::from_value(pooling).ok());
        Ok((if let Some(pooling) = pooling { origin.with_pooling(pooling) } else { origin }, config))
    }

    /// Returns the folder's `model_type`.
    pub fn model_type(&self) -> &str {
        self.config.get("model_type").and_then(Value::as_str).unwrap_or_default()
    }

    fn tensor_names(&self) -> TensorNames<'_> {
        TensorNames { tensors: &self.tensors, prefix: self.encoder.prefix }
    }

    /// Replaces the published head with one linear layer on normalized vectors of this pooling.
    #[must_use]
    pub fn with_pooling(mut self, pooling: Pooling) -> ClassifierOrigin {
        let is_last = |name: &str| matches!(name, "head.weight" | "head.bias");
        self.tensors.retain(|(name, _)| !name.starts_with("head.") || is_last(name));
        for name in [DENSE_WEIGHT, NORM_WEIGHT] {
            self.tensors.push((name.into(), TensorSource::Tensor(name.into())));
        }
        ClassifierOrigin { pooling: Some(pooling), ..self }
    }

    /// Returns the pooling of the linear head that replaces the published head, if it does.
    pub(crate) fn pooling(&self) -> Option<Pooling> {
        self.pooling
    }

    /// Returns the configuration of a classifier with `num_classes` classes.
    pub fn classifier(&self, num_classes: usize) -> ClassifierConfig {
        let published = self.encoder.classifier(num_classes);
        match self.pooling {
            Some(pooling) => {
                let head_dense = DenseHeadConfig { norm: Some((NormKind::Rms, EPSILON)), ..LINEAR_HEAD };
                ClassifierConfig { pooling, head_dense: Some(head_dense), head_dropout: 0.0, ..published }
            }
            None => published,
        }
    }

    /// Returns the configuration of the encoder without a head.
    pub fn text_encoder(&self) -> TextEncoderConfig {
        self.encoder.config.clone()
    }

    /// Returns the text of `config.json`, including Chumoku's own settings.
    pub(crate) fn config_file(&self, labels: &[String], is_one_class: bool, ours: &impl Serialize) -> String {
        let mut config = self.config.clone();
        let numbered = labels.iter().enumerate();
        let id2label: Map<String, Value> = numbered.clone().map(|(id, label)| (id.to_string(), json!(label))).collect();
        let label2id: Map<String, Value> = numbered.map(|(id, label)| (label.clone(), json!(id))).collect();
        config.remove("num_labels");
        for (key, value) in [
            ("architectures", json!([self.encoder.head.architecture])),
            ("id2label", id2label.into()),
            ("label2id", label2id.into()),
            ("problem_type", json!(if is_one_class { SINGLE_LABEL } else { MULTI_LABEL })),
        ] {
            config.insert(key.into(), value);
        }
        config_text(config, ours)
    }

    /// Returns the number of published tensors.
    pub(crate) fn num_tensors(&self) -> usize {
        self.tensors.iter().map(|(_, source)| source.names().len()).sum()
    }

    /// Returns the parameters under their published names.
    pub(crate) fn tensors(&self, params: &Params<f32>) -> Vec<NamedTensor> {
        published_tensors(params, &self.tensors)
    }

    /// Returns the files that are copied unchanged.
    pub(crate) fn copied_files(&self) -> &[(&'static str, Vec<u8>)] {
        &self.copied_files
    }
}

impl<Ours: DeserializeOwned> PublishedClassifier<Ours> {
    /// Reads a folder and validates everything in it.
    ///
    /// # Errors
    /// If a file is missing or damaged, does not fit the others, or needs an unsupported feature.
    pub(crate) fn read(folder: &Snapshot) -> Result<Self> {
        let (origin, config) = ClassifierOrigin::read(folder)?;
        let labels = labels(folder, &origin)?;
        let is_one_class = origin.config.get("problem_type").and_then(Value::as_str) != Some(MULTI_LABEL);
        let ours = own_settings(folder, &origin.config)?;
        let model = Classifier::new(origin.classifier(labels.len()))
            .map_err(|error| model_file_error(folder, CONFIG, layer_error_message(&error)))?;
        let weights = || WeightFiles::read(folder)?.params(origin.tensor_names(), model.layout(), config.precision());
        let (params, tokenizer) = read_with_tokenizer(folder, model.config().vocab_size, weights)?;
        let tokenizer = TextTokenizer::from_pretrained(tokenizer)?;
        let limit = read_max_tokens(folder, model.config().max_length)?;
        Ok(PublishedClassifier {
            model,
            params,
            tokenizer,
            max_tokens: limit,
            origin,
            labels,
            is_one_class,
            own_settings: ours,
        })
    }
}

/// Returns the text of `config.json`, with `ours` under a key of its own, which other programs ignore.
pub(super) fn config_text(mut config: Map<String, Value>, ours: &impl Serialize) -> String {
    config.remove("torch_dtype");
    config.insert("dtype".into(), json!("float32"));
    // Via text: an f32 setting of 0.3 stays 0.3 instead of becoming the nearest f64.
    let ours = serde_json::to_vec(ours).and_then(|text| serde_json::from_slice(&text));
    config.insert(CHUMOKU_KEY.into(), ours.expect("settings are plain data"));
    serde_json::to_string_pretty(&config).expect("settings are plain data") + "\n"
}

impl FineTuningBase {
    /// Reads a folder except the values of its weights, and validates everything.
    ///
    /// # Errors
    /// If a file is missing or damaged, does not fit the others, or needs an unsupported feature.
    pub fn read(folder: &Snapshot) -> Result<FineTuningBase> {
        let (given, inner) = (folder, encoder_folder(folder)?);
        let folder = inner.as_ref().unwrap_or(folder);
        if static_vectors(folder)?.is_some() {
            let problem = tr!(
                "holds static vectors, which have no layers to train; start from an encoder (bert, modernbert …)",
                "静的なベクトルだけで、学習する層がありません。エンコーダー（bert、modernbert など）から始めてください"
            );
            return Err(model_file_error(folder, WEIGHTS, problem));
        }
        let (mut origin, _) = ClassifierOrigin::read(folder)?;
        let config = &origin.encoder.config;
        let pretrained = read_tokenizer(folder, config.vocab_size)?;
        let limit = read_max_tokens(folder, config.max_length)?;
        if !files::exists(folder, TOKENIZER) {
            origin.copied_files.push((TOKENIZER, pretrained.to_json()?.into_bytes()));
        }
        let sentence = SentenceSettings::read(given, config.encoder.d_model).ok();
        let pooling = match sentence.as_ref().map(|sentence| (&sentence.pooling[..], sentence.is_declared)) {
            Some((&[pooling], is_said)) => (pooling, is_said),
            _ => (Pooling::Mean, false),
        };
        let tokenizer = TextTokenizer::from_pretrained(pretrained)?;
        let weights = WeightFiles::read(folder)?;
        Ok(FineTuningBase { origin, tokenizer, max_tokens: limit, folder: folder.to_path_buf(), pooling, weights })
    }

    /// Returns the initial parameters of fine-tuning. They come from the folder, except the last layer and parameters
    /// that the folder lacks. `seed` initializes these.
    ///
    /// # Errors
    /// If weights are missing or damaged, or do not match the model.
    pub fn params(&self, layout: &Arc<ParamLayout>, seed: u64) -> Result<Params<f32>> {
        let role = |name: &str| match name {
            "head.weight" | "head.bias" => TensorRole::Skipped,
            DENSE_WEIGHT | NORM_WEIGHT if self.origin.pooling.is_some() => TensorRole::Skipped,
            name if name.starts_with("head.") => TensorRole::Optional,
            _ => TensorRole::Required,
        };
        let mut params = self.load_params(layout, seed, role)?;
        if self.origin.pooling.is_some() {
            for ParamView { name, shape, range } in layout.iter().filter(|param| param.name == DENSE_WEIGHT) {
                debug_assert_eq!((name, shape[0]), (DENSE_WEIGHT, shape[1]));
                let matrix = &mut params.values_mut()[range];
                matrix.fill(0.0);
                matrix.iter_mut().step_by(shape[1] + 1).for_each(|x| *x = IDENTITY_SCALE);
            }
        }
        Ok(params)
    }

    /// Returns the initial parameters of a model with a new head, which is everything under `head.`.
    ///
    /// # Errors
    /// As for [`FineTuningBase::params`].
    pub fn encoder_params(&self, layout: &Arc<ParamLayout>, seed: u64) -> Result<Params<f32>> {
        self.load_params(layout, seed, |name| {
            if name.starts_with("head.") { TensorRole::Skipped } else { TensorRole::Required }
        })
    }

    fn load_params(
        &self,
        layout: &Arc<ParamLayout>,
        seed: u64,
        role: impl Fn(&str) -> TensorRole,
    ) -> Result<Params<f32>> {
        self.weights.load_into(self.origin.tensor_names(), role, layout, |layout| Params::init(layout, seed))
    }

    /// Checks that fine-tuning can begin.
    ///
    /// # Errors
    /// As for [`FineTuningBase::params`].
    pub fn check(&self) -> Result<()> {
        let model = Classifier::new(self.origin.classifier(2));
        let model = model.map_err(|error| model_file_error(&self.folder, CONFIG, layer_error_message(&error)))?;
        self.params(model.layout(), 0).map(drop)
    }
}

/// Hugging Face's names of the two problem types.
const SINGLE_LABEL: &str = "single_label_classification";
const MULTI_LABEL: &str = "multi_label_classification";

/// Returns the classes of a published classifier, in the order of their ids.
fn labels(folder: &Snapshot, origin: &ClassifierOrigin) -> Result<Vec<String>> {
    let wrong = |problem: String| Err(model_file_error(folder, CONFIG, problem));
    let expected = origin.encoder.head.architecture;
    let architectures = origin.config.get("architectures").and_then(Value::as_array);
    let named = architectures.into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
    if !named.contains(&expected) {
        let found = named.join(", ");
        return wrong(tr!(
            "architectures: expected {expected}, found \"{found}\": this model has no classes; train a classifier \
             from it with `chumoku train DATA --from FOLDER`",
            "architectures: {expected} が必要ですが、\"{found}\" です。このモデルにはクラスがありません。\
             `chumoku train データ --from フォルダ` で分類モデルにできます"
        ));
    }
    let kind = origin.config.get("problem_type").and_then(Value::as_str).unwrap_or(SINGLE_LABEL);
    if ![SINGLE_LABEL, MULTI_LABEL].contains(&kind) {
        return wrong(tr!(
            "problem_type: expected \"{SINGLE_LABEL}\" or \"{MULTI_LABEL}\", found \"{kind}\"",
            "problem_type: \"{SINGLE_LABEL}\" か \"{MULTI_LABEL}\" が必要ですが、\"{kind}\" です"
        ));
    }
    let names = origin.config.get("id2label").and_then(Value::as_object);
    // Hugging Face's library omits the names of two unnamed classes.
    let labels: Option<Vec<String>> = match names {
        None => Some(vec!["LABEL_0".into(), "LABEL_1".into()]),
        Some(names) => {
            let label = |id: usize| Some(names.get(&id.to_string())?.as_str()?.to_owned());
            (0..names.len()).map(label).collect()
        }
    };
    match labels {
        Some(labels) => Ok(labels),
        None => wrong(tr!(
            "id2label: expected a name for each class, numbered from 0",
            "id2label: 0 から番号を付けたクラスの名前が必要です"
        )),
    }
}
