//! A trained text classifier as a whole: its folder, and what it is asked.

use crate::data::{AtomicOutput, Example};
use crate::models::{Classifier, ClassifierConfig};
use crate::ngram::{NgramModel, NgramScheme, NgramTensors};
use crate::params::Params;
use crate::text::TextTokenizer;
use crate::train::{Blend, Rows, Scores, log_softmax};
use crate::{Error, Result, inference};
use chumoku_kernels::Precision;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

/// `config.json`: what kind of model the folder holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModelConfig {
    /// Always "chumoku_text_classifier".
    pub model_type: String,
    /// The version that wrote it.
    pub chumoku_version: String,
    /// The classes, in the order of their numbers.
    pub labels: Vec<String>,
    /// How the two halves of the predictor are joined.
    pub blend: Blend,
    /// Which n-grams the n-gram half reads, if there is one.
    pub ngrams: Option<NgramScheme>,
    /// How exact matrix products are: what the model was trained and scored with.
    #[serde(with = "crate::precision", default)]
    pub precision: Precision,
    /// The network.
    #[serde(flatten)]
    pub model: ClassifierConfig,
}

/// [`ModelConfig`] as it is written: with what ties it to the `tokenizer.json` beside it.
#[derive(Serialize, Deserialize)]
struct ConfigFile<'a> {
    #[serde(flatten)]
    config: Cow<'a, ModelConfig>,
    /// Of the vocabulary; not checked where it is left out.
    #[serde(default)]
    vocabulary_sha256: Option<String>,
}

/// The `model_type` of a text classifier.
pub(crate) const MODEL_TYPE: &str = "chumoku_text_classifier";

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
const TOKENIZER: &str = "tokenizer.json";
const NGRAMS: &str = "ngrams.";

/// A predicted distribution over the classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Calibrated probabilities of the whole predictor, by class number.
    pub probabilities: Vec<f32>,
    /// The network's own log-probabilities.
    pub attention: Vec<f32>,
    /// The n-gram model's log-probabilities.
    pub ngrams: Option<Vec<f32>>,
    /// Windows that the text was read in.
    pub windows: usize,
}

impl Prediction {
    /// The most probable class (the first of equals).
    pub fn class(&self) -> usize {
        let p = &self.probabilities;
        (0..p.len()).fold(0, |best, class| if p[class] > p[best] { class } else { best })
    }

    /// Classes by falling probability.
    pub fn ranked(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.probabilities.len()).collect();
        order.sort_by(|&a, &b| self.probabilities[b].total_cmp(&self.probabilities[a]));
        order
    }
}

/// A network, its tokenizer and classes, and the n-gram model beside it.
#[derive(Debug)]
pub struct TextClassifier {
    pub(crate) config: ModelConfig,
    pub(crate) model: Classifier,
    pub(crate) params: Params<f32>,
    pub(crate) tokenizer: TextTokenizer,
    pub(crate) ngrams: Option<NgramModel>,
}

/// Whether a folder holds a finished model.
pub fn is_model_folder(folder: &Path) -> bool {
    folder.join(WEIGHTS).exists()
}

impl TextClassifier {
    /// The classes, in the order of their numbers.
    pub fn labels(&self) -> &[String] {
        &self.config.labels
    }

    /// What the model is.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Numbers that training changed in the network.
    pub fn num_parameters(&self) -> usize {
        self.params.values().len()
    }

    /// Predicts each text. A text's prediction does not depend on the others.
    ///
    /// # Errors
    /// If a text cannot be read as tokens.
    pub fn predict(&self, texts: &[&str]) -> Result<Vec<Prediction>> {
        let rows = self.tokenizer.encode_all(texts)?;
        let logits = inference::logits(&self.model, &self.params, self.tokenizer.cls(), &rows)?;
        let classes = self.config.labels.len();
        let ngrams = self.ngrams.as_ref().map(|ngrams| ngrams.logits_of(texts));
        let limit = self.config.model.max_length - 1;
        let each = logits.rows().into_iter().zip(&rows).enumerate().map(|(i, (logits, ids))| {
            let attention = log_softmax(&logits.to_vec());
            let ngrams = ngrams.as_ref().map(|all| log_softmax(&all[i * classes..(i + 1) * classes]));
            let probabilities = self.config.blend.probabilities(&attention, ngrams.as_deref());
            if probabilities.iter().any(|p| !p.is_finite()) {
                let problem = "the model gives a probability that is not a number: its weights are too large to use";
                return Err(Error::NotFinite(problem.into()));
            }
            Ok(Prediction { probabilities, attention, ngrams, windows: ids.len().div_ceil(limit).max(1) })
        });
        each.collect()
    }

    /// Scores on labelled examples, resampled with `seed`: of the whole predictor, then of the network and of the
    /// n-grams alone. Examples whose label the model does not know are left out.
    ///
    /// # Errors
    /// If a text cannot be read as tokens.
    pub fn score(&self, examples: &[Example], seed: u64) -> Result<(Scores, [Scores; 2])> {
        crate::train::score(self, &Rows::of(examples, &self.config.labels), seed)
    }

    /// Writes `config.json`, `tokenizer.json` and, last, `model.safetensors`: each appears whole or not at all, and
    /// a folder without the last is no model.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn save(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(Error::io("creating", folder))?;
        let config = ConfigFile {
            config: Cow::Borrowed(&self.config),
            vocabulary_sha256: Some(self.tokenizer.vocabulary_sha256()),
        };
        let config = serde_json::to_string_pretty(&config).expect("a configuration is plain data") + "\n";
        write(&folder.join(CONFIG), config.as_bytes())?;
        write(&folder.join(TOKENIZER), self.tokenizer.to_json()?.as_bytes())?;
        write(&folder.join(WEIGHTS), &self.tensors())
    }

    fn tensors(&self) -> Vec<u8> {
        let f32_bytes = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let mut arrays: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = Vec::new();
        for (name, shape, range) in self.params.layout().iter() {
            arrays.push((name.into(), Dtype::F32, shape.to_vec(), f32_bytes(&self.params.values()[range])));
        }
        if let Some(ngrams) = &self.ngrams {
            let tensors = ngrams.tensors();
            let data = [
                (Dtype::I64, tensors.hashes.iter().flat_map(|x| x.to_le_bytes()).collect()),
                (Dtype::F32, f32_bytes(&tensors.idf)),
                (Dtype::F32, f32_bytes(&tensors.weights)),
                (Dtype::F32, f32_bytes(&tensors.bias)),
                (Dtype::F32, f32_bytes(&tensors.prior)),
            ];
            for ((name, shape), (dtype, bytes)) in tensors.shapes().into_iter().zip(data) {
                arrays.push((format!("{NGRAMS}{name}"), dtype, shape, bytes));
            }
        }
        let views = arrays.iter().map(|(name, dtype, shape, bytes)| {
            (name.as_str(), TensorView::new(*dtype, shape.clone(), bytes).expect("bytes of its shape"))
        });
        // No metadata: its order in the file would not be fixed.
        safetensors::serialize(views, None).expect("plain arrays can be written")
    }

    /// Reads a model folder, trusting nothing in it.
    ///
    /// # Errors
    /// If a file is missing, damaged, or does not fit the others.
    pub fn load(folder: &Path) -> Result<TextClassifier> {
        let at = |name: &str| folder.join(name);
        let fault = |name: &str, problem: String| Error::Model { path: at(name), problem };
        if !folder.is_dir() {
            let problem = if folder.exists() {
                "expected a model folder, found a file; a model folder is what `chumoku train` writes"
            } else {
                "there is no such folder; `chumoku train` writes one"
            };
            return Err(Error::Model { path: folder.to_owned(), problem: problem.into() });
        }
        for name in [CONFIG, TOKENIZER, WEIGHTS] {
            if !at(name).is_file() {
                let problem = match has_checkpoints(folder) {
                    true => {
                        "the file is missing: training has not finished; continue it with `chumoku train … --resume`"
                    }
                    false => "the file is missing: expected a model folder as `chumoku train` writes it",
                };
                return Err(fault(name, problem.into()));
            }
        }
        let config = std::fs::read_to_string(at(CONFIG)).map_err(Error::io("reading", at(CONFIG)))?;
        let config: ConfigFile<'_> = serde_json::from_str(&config)
            .map_err(|error| fault(CONFIG, format!("not a configuration that `chumoku train` wrote: {error}")))?;
        let (vocabulary_sha256, config) = (config.vocabulary_sha256, config.config.into_owned());
        config.check().map_err(|problem| fault(CONFIG, problem))?;
        let tokenizer = TextTokenizer::read(&at(TOKENIZER))?;
        let (tokens, ids) = (tokenizer.vocab_size(), tokenizer.end_of_ids());
        if tokens != config.model.vocab_size || ids != tokens {
            let problem = format!(
                "expected tokens numbered 0 to {}, as {CONFIG} says, found {tokens} up to number {}; it belongs to \
                 another model",
                config.model.vocab_size - 1,
                ids.saturating_sub(1)
            );
            return Err(fault(TOKENIZER, problem));
        }
        if vocabulary_sha256.is_some_and(|sha256| sha256 != tokenizer.vocabulary_sha256()) {
            let problem = format!(
                "expected the vocabulary that {CONFIG} names by its SHA-256, found another; it belongs to another model"
            );
            return Err(fault(TOKENIZER, problem));
        }
        let bytes = std::fs::read(at(WEIGHTS)).map_err(Error::io("reading", at(WEIGHTS)))?;
        let tensors = SafeTensors::deserialize(&bytes)
            .map_err(|error| fault(WEIGHTS, format!("not a sound safetensors file: {error}")))?;
        let model = Classifier::new(config.model.clone()).map_err(|error| fault(CONFIG, error.to_string()))?;
        let find = |name: &str, shape: &[usize]| {
            let view = tensors.tensor(name).map_err(|_| fault(WEIGHTS, format!("there is no tensor {name}")))?;
            if view.dtype() != Dtype::F32 || view.shape() != shape {
                let problem = format!(
                    "tensor {name}: expected F32 {shape:?}, as {CONFIG} says, found {:?} {:?}",
                    view.dtype(),
                    view.shape()
                );
                return Err(fault(WEIGHTS, problem));
            }
            Ok(view)
        };
        // Sizes come from a file: no memory is taken before all of it is there to be read.
        model.layout().iter().try_for_each(|(name, shape, _)| find(name, shape).map(drop))?;
        let mut params = Params::zeros(model.layout());
        params.set_precision(config.precision);
        for (name, shape, range) in model.layout().iter() {
            let values = floats(find(name, shape)?.data());
            if let Some(value) = values.iter().find(|x| !x.is_finite()) {
                return Err(fault(WEIGHTS, format!("tensor {name} holds {value}, expected finite numbers")));
            }
            params.values_mut()[range].copy_from_slice(&values);
        }
        let ngrams = match &config.ngrams {
            None => None,
            Some(scheme) => Some(read_ngrams(&tensors, scheme, config.labels.len()).map_err(|e| fault(WEIGHTS, e))?),
        };
        Ok(TextClassifier { config, model, params, tokenizer, ngrams })
    }
}

impl ModelConfig {
    /// What is wrong with it, if anything.
    fn check(&self) -> Result<(), String> {
        let m = &self.model;
        if self.model_type != MODEL_TYPE {
            return Err(format!("model_type: expected \"{MODEL_TYPE}\", found \"{}\"", self.model_type));
        }
        if self.labels.len() != m.num_classes || self.labels.len() < 2 {
            return Err(format!("labels: expected {} (at least 2), found {}", m.num_classes, self.labels.len()));
        }
        if let Some(label) = self.labels.iter().find(|label| label.trim().is_empty()) {
            return Err(format!("labels: expected a name for each class, found \"{label}\""));
        }
        let mut seen = HashSet::new();
        if let Some(label) = self.labels.iter().find(|label| !seen.insert(label.as_str())) {
            return Err(format!("labels: expected each once, found \"{label}\" twice"));
        }
        for (name, size, most) in [("vocab_size", m.vocab_size, 1 << 24), ("max_length", m.max_length, 1 << 20)] {
            if size == 0 || size > most || (name == "max_length" && size < 2) {
                return Err(format!("{name}: expected 1 to {most}, found {size}"));
            }
        }
        m.body.check()?;
        let blend = [self.blend.attention, self.blend.ngrams];
        if blend.iter().any(|w| !w.is_finite() || *w < 0.0) {
            return Err(format!("blend: expected two weights of at least 0, found {blend:?}"));
        }
        Ok(())
    }
}

/// Whether the folder is of a run that has not finished.
pub fn has_checkpoints(folder: &Path) -> bool {
    crate::train::has_checkpoint(&folder.join("checkpoints"))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
}

fn read_ngrams(tensors: &SafeTensors<'_>, scheme: &NgramScheme, classes: usize) -> Result<NgramModel, String> {
    let get = |name: &str, dtype: Dtype| {
        let name = format!("{NGRAMS}{name}");
        let view = tensors.tensor(&name).map_err(|_| format!("there is no tensor {name}"))?;
        if view.dtype() != dtype {
            return Err(format!("tensor {name}: expected {dtype:?}, found {:?}", view.dtype()));
        }
        Ok(view.data().to_vec())
    };
    let array = |name: &str| get(name, Dtype::F32).map(|bytes| Cow::Owned(floats(&bytes)));
    let hashes = get("hashes", Dtype::I64)?;
    let hashes = hashes.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().expect("eight bytes"))).collect();
    let tensors = NgramTensors {
        hashes: Cow::Owned(hashes),
        idf: array("idf")?,
        weights: array("weights")?,
        bias: array("bias")?,
        prior: array("prior")?,
    };
    let model = NgramModel::from_tensors(scheme.clone(), tensors).map_err(|error| error.to_string())?;
    if model.num_classes() != classes {
        return Err(format!("the n-gram model has {} classes, expected {classes}", model.num_classes()));
    }
    Ok(model)
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = AtomicOutput::create(path)?;
    file.write_all(bytes).map_err(Error::io("writing", path))?;
    Ok(file.commit()?)
}
