//! Sequence classifiers: as published, as they start fine-tuning from an encoder, and as they are written so that Hugging
//! Face's library reads them.

use super::config::{Config, encoder_of};
use super::files;
use super::sentence::{Sentence, folder_of_encoder};
use super::static_vectors::static_vectors;
use super::tokenizer::{beside_tokenizer, read_limit, read_tokenizer};
use super::weights::{Names, Role, Weights, published};
use crate::layer_errors::layer_error_message;
use crate::model_folder::{
    CHUMOKU_KEY, CONFIG, Snapshot, TOKENIZER, TOKENIZER_CONFIG, Tensors, WEIGHTS, model_file_error,
};
use crate::models::{Classifier, ClassifierConfig, TextEncoderConfig};
use crate::nn::{DenseHeadConfig, HeadActivation, NormKind, Pooling};
use crate::params::{ParamLayout, Params};
use crate::text::TextTokenizer;
use crate::{Result, tr};
use chumoku_nn::pretrained::{PretrainedEncoder, TensorSource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// The head's first layer gives vectors one length: RMS norm of tanh of a small multiple of the vector. The tanh of small
/// numbers changes nothing. The factor is a power of two, and ε is small beside the mean square of the multiple.
const DENSE: &str = "head.dense.weight";
const NORM: &str = "head.norm.weight";
const FACTOR: f32 = 1.0 / 4096.0;
const EPSILON: f64 = 1e-15;
const LINEAR: DenseHeadConfig = DenseHeadConfig { activation: HeadActivation::Tanh, bias: false, norm: None };

/// The form in which a classifier was published, and in which it is written again.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    config: Map<String, Value>,
    encoder: PretrainedEncoder,
    /// The names of the classifier's parameters.
    tensors: Vec<(String, TensorSource)>,
    /// How tokens become the vector that the last layer is given, where it is not what the published head makes.
    pooling: Option<Pooling>,
    /// Files of the folder that are written again as they are.
    files: Vec<(&'static str, Vec<u8>)>,
}

/// A classifier out of a folder.
#[derive(Debug)]
pub(crate) struct ClassifierCheckpoint<Ours> {
    pub(crate) model: Classifier,
    pub(crate) params: Params<f32>,
    pub(crate) tokenizer: TextTokenizer,
    /// The most tokens of a text, those around it included.
    pub(crate) limit: usize,
    pub(crate) origin: Origin,
    pub(crate) labels: Vec<String>,
    /// Whether classes exclude each other.
    pub(crate) is_one_class: bool,
    /// What a fine-tuned model has beside.
    pub(crate) ours: Option<Ours>,
}

/// An encoder that is to become a classifier.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) origin: Origin,
    pub(crate) tokenizer: TextTokenizer,
    /// The most tokens of a text, those around it included.
    pub(crate) limit: usize,
    folder: PathBuf,
    /// How the folder pools tokens into the vector of a text, and whether it says so itself.
    pub(crate) pooling: (Pooling, bool),
    /// The open files of weights: they stay those of this model, whatever takes their place in the folder.
    weights: Weights,
}

impl Origin {
    fn read(folder: &Snapshot) -> Result<(Origin, Config)> {
        let config = Config::read(folder)?;
        let encoder = encoder_of(folder, &config)?;
        let values = config.object(folder)?.clone();
        let files = files::kept(folder, &[TOKENIZER, TOKENIZER_CONFIG])?;
        let origin = Origin { config: values, tensors: encoder.classifier_tensors(), encoder, files, pooling: None };
        // A folder that says how its tokens are pooled was written by Chumoku; another value is refused with the rest.
        let pooling = origin.config.get(CHUMOKU_KEY).and_then(|ours| ours.get("pooling")).cloned();
        let pooling = pooling.and_then(|pooling| serde_json::from_value(pooling).ok());
        Ok((if let Some(pooling) = pooling { origin.pooled(pooling) } else { origin }, config))
    }

    /// The kind of model, as the folder has it.
    pub(crate) fn model_type(&self) -> &str {
        self.config.get("model_type").and_then(Value::as_str).unwrap_or_default()
    }

    fn names(&self) -> Names<'_> {
        Names { tensors: &self.tensors, prefix: self.encoder.prefix }
    }

    /// The same encoder with one linear layer on vectors that are pooled in this way and have one length, in place of the
    /// published head.
    #[must_use]
    pub(crate) fn pooled(mut self, pooling: Pooling) -> Origin {
        let is_last = |name: &str| matches!(name, "head.weight" | "head.bias");
        self.tensors.retain(|(name, _)| !name.starts_with("head.") || is_last(name));
        for name in [DENSE, NORM] {
            self.tensors.push((name.into(), TensorSource::Tensor(name.into())));
        }
        Origin { pooling: Some(pooling), ..self }
    }

    /// How tokens become the vector that the last layer is given, where it is not what the published head makes.
    pub(crate) fn pooling(&self) -> Option<Pooling> {
        self.pooling
    }

    /// The classifier for so many classes.
    pub(crate) fn classifier(&self, num_classes: usize) -> ClassifierConfig {
        let published = self.encoder.classifier(num_classes);
        match self.pooling {
            Some(pooling) => {
                let head_dense = DenseHeadConfig { norm: Some((NormKind::Rms, EPSILON)), ..LINEAR };
                ClassifierConfig { pooling, head_dense: Some(head_dense), head_dropout: 0.0, ..published }
            }
            None => published,
        }
    }

    /// The encoder without a head.
    pub(crate) fn text_encoder(&self) -> TextEncoderConfig {
        self.encoder.config.clone()
    }

    /// The text of `config.json`, with what is ours.
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
            ("problem_type", json!(if is_one_class { ONE_CLASS } else { LABELS })),
        ] {
            config.insert(key.into(), value);
        }
        config_text(config, ours)
    }

    /// Tensors of a classifier under the names that they were published with.
    pub(crate) fn num_tensors(&self) -> usize {
        self.tensors.iter().map(|(_, source)| source.names().len()).sum()
    }

    /// The parameters under the names that they were published with.
    pub(crate) fn tensors(&self, params: &Params<f32>) -> Tensors {
        published(params, &self.tensors)
    }

    /// The files that are written again as they are.
    pub(crate) fn files(&self) -> &[(&'static str, Vec<u8>)] {
        &self.files
    }
}

impl<Ours: DeserializeOwned> ClassifierCheckpoint<Ours> {
    /// Reads a folder, trusting nothing in it.
    ///
    /// # Errors
    /// If a file is missing or damaged, does not fit the others, or asks for what this version does not have.
    pub(crate) fn read(folder: &Snapshot) -> Result<Self> {
        let (origin, config) = Origin::read(folder)?;
        let labels = labels(folder, &origin)?;
        let is_one_class = origin.config.get("problem_type").and_then(Value::as_str) != Some(LABELS);
        let ours = match origin.config.get(CHUMOKU_KEY) {
            None => None,
            Some(ours) => Some(serde_json::from_value(ours.clone()).map_err(|error| {
                model_file_error(
                    folder,
                    CONFIG,
                    tr!("{CHUMOKU_KEY}: {error}", "{CHUMOKU_KEY} の内容が正しくありません: {error}"),
                )
            })?),
        };
        let model = Classifier::new(origin.classifier(labels.len()))
            .map_err(|error| model_file_error(folder, CONFIG, layer_error_message(&error)))?;
        let weights = || Weights::read(folder)?.params(origin.names(), model.layout(), config.precision());
        let (params, tokenizer) = beside_tokenizer(folder, model.config().vocab_size, weights)?;
        let tokenizer = TextTokenizer::from_pretrained(tokenizer)?;
        let limit = read_limit(folder, model.config().max_length)?;
        Ok(ClassifierCheckpoint { model, params, tokenizer, limit, origin, labels, is_one_class, ours })
    }
}

/// The text of `config.json`, with `ours` under a key of its own, which other programs pass over.
pub(super) fn config_text(mut config: Map<String, Value>, ours: &impl Serialize) -> String {
    config.remove("torch_dtype");
    config.insert("dtype".into(), json!("float32"));
    // By way of the text: a setting of 0.3 stays 0.3 instead of becoming the f64 nearest its f32.
    let ours = serde_json::to_vec(ours).and_then(|text| serde_json::from_slice(&text));
    config.insert(CHUMOKU_KEY.into(), ours.expect("settings are plain data"));
    serde_json::to_string_pretty(&config).expect("settings are plain data") + "\n"
}

impl Start {
    /// Reads all of a folder but the numbers of its weights, trusting nothing in it.
    ///
    /// # Errors
    /// If a file is missing or damaged, does not fit the others, or asks for what this version does not have.
    pub(crate) fn read(folder: &Snapshot) -> Result<Start> {
        let (given, inner) = (folder, folder_of_encoder(folder)?);
        let folder = inner.as_ref().unwrap_or(folder);
        if static_vectors(folder)?.is_some() {
            let problem = tr!(
                "holds static vectors, which have no layers to train; start from an encoder (bert, modernbert …)",
                "静的なベクトルだけで、学習する層がありません。エンコーダー（bert、modernbert など）から始めてください"
            );
            return Err(model_file_error(folder, WEIGHTS, problem));
        }
        let (mut origin, _) = Origin::read(folder)?;
        let config = &origin.encoder.config;
        let pretrained = read_tokenizer(folder, config.vocab_size)?;
        let limit = read_limit(folder, config.max_length)?;
        if !files::has(folder, TOKENIZER) {
            origin.files.push((TOKENIZER, pretrained.to_json()?.into_bytes()));
        }
        let sentence = Sentence::read(given, config.encoder.d_model).ok();
        let pooling = match sentence.as_ref().map(|sentence| (&sentence.pooling[..], sentence.is_said)) {
            Some((&[pooling], is_said)) => (pooling, is_said),
            _ => (Pooling::Mean, false),
        };
        let tokenizer = TextTokenizer::from_pretrained(pretrained)?;
        let weights = Weights::read(folder)?;
        Ok(Start { origin, tokenizer, limit, folder: folder.to_path_buf(), pooling, weights })
    }

    /// The parameters of a classifier that fine-tuning begins with: the folder's, those aside that `seed` decides because
    /// the folder has none, and the last layer's, which is for other classes.
    ///
    /// # Errors
    /// If weights are missing or damaged, or are not those of the model.
    pub(crate) fn params(&self, layout: &Arc<ParamLayout>, seed: u64) -> Result<Params<f32>> {
        let role = |name: &str| match name {
            "head.weight" | "head.bias" => Role::New,
            DENSE | NORM if self.origin.pooling.is_some() => Role::New,
            name if name.starts_with("head.") => Role::Welcome,
            _ => Role::Needed,
        };
        let mut params = self.fill(layout, seed, role)?;
        if self.origin.pooling.is_some() {
            for (name, shape, range) in layout.iter().filter(|(name, ..)| *name == DENSE) {
                debug_assert_eq!((name, shape[0]), (DENSE, shape[1]));
                let matrix = &mut params.values_mut()[range];
                matrix.fill(0.0);
                matrix.iter_mut().step_by(shape[1] + 1).for_each(|x| *x = FACTOR);
            }
        }
        Ok(params)
    }

    /// The same of a model whose head, all that begins with `head.`, is another than the folder's.
    ///
    /// # Errors
    /// As for [`Start::params`].
    pub(crate) fn params_of_encoder(&self, layout: &Arc<ParamLayout>, seed: u64) -> Result<Params<f32>> {
        self.fill(layout, seed, |name| if name.starts_with("head.") { Role::New } else { Role::Needed })
    }

    fn fill(&self, layout: &Arc<ParamLayout>, seed: u64, role: impl Fn(&str) -> Role) -> Result<Params<f32>> {
        self.weights.fill(self.origin.names(), role, layout, |layout| Params::init(layout, seed))
    }

    /// Whether training could begin.
    ///
    /// # Errors
    /// As for [`Start::params`].
    pub(crate) fn check(&self) -> Result<()> {
        let model = Classifier::new(self.origin.classifier(2));
        let model = model.map_err(|error| model_file_error(&self.folder, CONFIG, layer_error_message(&error)))?;
        self.params(model.layout(), 0).map(drop)
    }
}

/// What Hugging Face's library calls the two problems.
const ONE_CLASS: &str = "single_label_classification";
const LABELS: &str = "multi_label_classification";

/// The classes of a published classifier, in the order of their numbers.
fn labels(folder: &Snapshot, origin: &Origin) -> Result<Vec<String>> {
    let wrong = |problem: String| Err(model_file_error(folder, CONFIG, problem));
    let expected = origin.encoder.head.architecture;
    let architectures = origin.config.get("architectures").and_then(Value::as_array);
    let named = architectures.into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
    if !named.contains(&expected) {
        let found = named.join(", ");
        return wrong(tr!(
            "architectures: expected {expected}, found \"{found}\": this model has no classes; make a classifier of it \
             with `chumoku train DATA --from FOLDER`",
            "architectures: {expected} が必要ですが、\"{found}\" です。このモデルにはクラスがありません。\
             `chumoku train データ --from フォルダ` で分類モデルにできます"
        ));
    }
    let kind = origin.config.get("problem_type").and_then(Value::as_str).unwrap_or(ONE_CLASS);
    if ![ONE_CLASS, LABELS].contains(&kind) {
        return wrong(tr!(
            "problem_type: expected \"{ONE_CLASS}\" or \"{LABELS}\", found \"{kind}\", which this version does not read",
            "problem_type: \"{ONE_CLASS}\" か \"{LABELS}\" が必要ですが、この版では読めない \"{kind}\" です"
        ));
    }
    let names = origin.config.get("id2label").and_then(Value::as_object);
    // Hugging Face's library leaves out the names of two classes without names.
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
