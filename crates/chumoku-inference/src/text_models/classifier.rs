//! Text classification: model folder and predictions.

use super::embedder::{EmbedOptions, Embeddings, finish_vectors};
use super::settings::{AnswerSettings, INPUT_LENGTHS, VOCABULARY_SIZES, check_labels, check_size, not_finite_error};
use crate::blend::Blend;
use crate::blend::binary_blend::{BinaryBlend, log_sigmoid};
use crate::data::Example;
use crate::error::layer_errors::layer_error_message;
use crate::feature_columns::FeatureColumn;
use crate::hierarchy::Hierarchy;
use crate::lang::lang;
use crate::model_folder::{
    CONFIG, ModelKind, NGRAM_WEIGHTS, Snapshot, TOKENIZER, WEIGHTS, check_files, check_kind, check_no_extra_tensors,
    check_vocabulary, model_file_error, ngram_names, ngram_tensors, param_tensors, parse_weights, pretrained_kind,
    read_config, read_ngrams, read_params, read_tokenizer, serialize_tensors, with_snapshot, write_model,
};
use crate::models::{Classifier, ClassifierConfig};
use crate::ngram::{NgramModel, NgramScheme};
use crate::nn::Pooling;
use crate::parallel_batches::{InputTemplate, check_head};
use crate::params::Params;
use crate::prediction::Prediction;
use crate::prediction::abstention::{AbstentionCalibration, LevelConfidences};
use crate::prediction::class_thresholds::ClassThresholds;
use crate::prediction::decision_rule::DecisionRule;
use crate::prediction::target::PredictionTarget;
use crate::pretrained::{ClassifierOrigin, PublishedClassifier};
use crate::row::{AsRow, RowRef, as_rows};
use crate::scoring::{Advice, Rows, Scores, argmax, score_log_p};
use crate::text::TextTokenizer;
use crate::{Error, Result, parallel_batches, stage_timer, tr};
use chumoku_kernels::{Precision, parallel};
use chumoku_nn::probability::log_softmax;
use ndarray::Array2;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::path::Path;

/// The `config.json` of a text classifier.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TextClassifierConfig {
    /// Always "chumoku_text_classifier".
    pub model_type: String,
    /// The version of Chumoku that wrote the model.
    pub chumoku_version: String,
    /// The classes or labels, ordered by index.
    pub labels: Vec<String>,
    /// The prediction target.
    #[serde(default, skip_serializing_if = "PredictionTarget::is_one_class")]
    #[serde(rename = "problem")]
    pub target: PredictionTarget,
    /// The tree of classes or labels, if they form one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hierarchy: Option<Hierarchy>,
    /// The weights of the ensemble members.
    pub blend: Blend,
    /// The n-gram scheme of the n-gram model, if there is one.
    pub ngrams: Option<NgramScheme>,
    /// The precision of matrix products, as in training and scoring.
    #[serde(with = "crate::model_folder::precision", default)]
    pub precision: Precision,
    /// The maximum number of tokens in one input, special tokens included. Defaults to the network's limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<usize>,
    /// Abstention calibration. `None` without validation rows, and for numbers that are not levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "caution")]
    pub abstention: Option<AbstentionCalibration>,
    /// The decision rule. `None` predicts the most probable class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "decision")]
    pub decision_rule: Option<DecisionRule>,
    /// The network.
    #[serde(flatten)]
    pub model: ClassifierConfig,
}

/// [`TextClassifierConfig`] as written to the file, with the vocabulary hash that ties it to `tokenizer.json`.
#[derive(Serialize, Deserialize)]
struct ConfigFile<'a> {
    #[serde(flatten)]
    config: Cow<'a, TextClassifierConfig>,
    /// The hash of the vocabulary. Not checked if absent.
    #[serde(default)]
    vocabulary_sha256: Option<String>,
}

/// Scores of a single-class model.
pub struct ClassifierScores {
    /// Scores of the network blended with the n-grams.
    pub ensemble: Scores,
    /// Scores of the network alone and the n-gram model alone.
    pub members: [Scores; 2],
    /// The member or blend to recommend.
    pub advice: Advice,
    /// The confidence of each row, and whether the prediction is right.
    pub confidences: Vec<(f32, bool)>,
    /// The confidence at each level, for classes in a tree.
    pub levels: Vec<LevelConfidences>,
}

/// A text classifier: network, tokenizer, classes, and optionally an n-gram model.
#[derive(Debug)]
pub struct TextClassifier {
    /// The configuration.
    pub config: TextClassifierConfig,
    /// The network.
    pub model: Classifier,
    /// The weights.
    pub params: Params<f32>,
    /// The tokenizer.
    pub tokenizer: TextTokenizer,
    /// The n-gram model.
    pub ngrams: Option<NgramModel>,
    /// The original format of a pretrained network, in which the model is saved again.
    pub origin: Option<ClassifierOrigin>,
    /// Class thresholds set by the caller.
    pub thresholds: Option<ClassThresholds>,
}

/// The entries that Chumoku adds to a fine-tuned model's `config.json` in the format of Hugging Face.
#[derive(Debug, Serialize, Deserialize)]
struct FineTunedConfig {
    chumoku_version: String,
    #[serde(default, skip_serializing_if = "PredictionTarget::is_one_class")]
    #[serde(rename = "problem")]
    target: PredictionTarget,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hierarchy: Option<Hierarchy>,
    blend: Blend,
    ngrams: Option<NgramScheme>,
    #[serde(with = "crate::model_folder::precision")]
    precision: Precision,
    max_tokens: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "caution")]
    abstention: Option<AbstentionCalibration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "decision")]
    decision_rule: Option<DecisionRule>,
    /// `true` if the model reads text pairs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pairs: bool,
    /// The pooling before the last layer, if it differs from the published head's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pooling: Option<Pooling>,
    vocabulary_sha256: String,
}

/// Returns the level confidences of each row, and at how many levels the prediction is right.
pub fn level_confidences(tree: &Hierarchy, predictions: &[Prediction], labels: &[u32]) -> Vec<LevelConfidences> {
    let rows = predictions.iter().zip(labels);
    rows.map(|(p, &label)| LevelConfidences::new(tree, &p.probabilities, p.class(), label)).collect()
}

/// Returns a tokenizer for text pairs, and configures the network's separator token.
pub fn tokenizer_for_pairs(tokenizer: TextTokenizer, model: &mut ClassifierConfig) -> TextTokenizer {
    let tokenizer = tokenizer.with_pair_separator();
    model.embeddings.separator = tokenizer.pair_separator();
    tokenizer
}

impl TextClassifierConfig {
    /// Returns `true` if the model reads [pairs](crate::row) of texts.
    pub fn reads_pairs(&self) -> bool {
        self.model.embeddings.separator.is_some()
    }

    /// Returns the feature columns of the model, in order.
    pub fn columns(&self) -> &[FeatureColumn] {
        self.settings().columns()
    }

    /// Returns the tree of mutually exclusive classes.
    pub(crate) fn class_hierarchy(&self) -> Option<&Hierarchy> {
        self.settings().class_hierarchy()
    }

    /// Returns the settings that n-gram models have too.
    pub(crate) fn settings(&self) -> AnswerSettings<'_> {
        AnswerSettings {
            labels: &self.labels,
            target: &self.target,
            hierarchy: self.hierarchy.as_ref(),
            abstention: self.abstention.as_ref(),
            decision_rule: self.decision_rule.as_ref(),
            ngrams: self.ngrams.as_ref(),
            reads_pairs: self.reads_pairs(),
        }
    }

    /// Returns the maximum number of tokens in one input, special tokens included.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens.map_or(self.model.max_length, |most| most.min(self.model.max_length))
    }
}

impl TextClassifier {
    /// Sets the precision of matrix products.
    pub fn set_precision(&mut self, precision: Precision) {
        self.config.precision = precision;
        self.params.set_precision(precision);
    }

    /// Sets probability thresholds of classes or labels. Entries of `None` keep the current behavior. Thresholds of
    /// classes are not saved with the model. Thresholds of labels are.
    ///
    /// # Errors
    /// If the model predicts numbers, or every class has a threshold, so that a text may have no answer.
    pub(crate) fn set_thresholds(&mut self, least: &[Option<f32>]) -> Result<()> {
        let TextClassifierConfig { target: problem, labels, hierarchy, .. } = &mut self.config;
        if let Some(thresholds) = problem.set_thresholds(least, (labels.len(), hierarchy.as_ref()))? {
            self.thresholds = Some(thresholds);
        }
        Ok(())
    }

    /// Returns the maximum number of text tokens in one input, without special tokens.
    pub fn window(&self) -> usize {
        self.input_template().window_size()
    }

    /// Returns how the network reads a text: special tokens, longest window, padding.
    pub fn input_template(&self) -> InputTemplate<'_> {
        InputTemplate { special_tokens: self.tokenizer.special_tokens(), max_tokens: self.config.max_tokens() }
    }

    /// Returns the classes or labels, ordered by index.
    pub fn labels(&self) -> &[String] {
        &self.config.labels
    }

    /// Returns the network's parameters.
    pub fn params(&self) -> &Params<f32> {
        &self.params
    }

    /// Returns the configuration.
    pub fn config(&self) -> &TextClassifierConfig {
        &self.config
    }

    /// Returns `true` if the model includes an n-gram model.
    pub(crate) fn has_ngrams(&self) -> bool {
        self.ngrams.is_some()
    }

    /// Returns the number of known n-grams, if the model includes an n-gram model.
    pub fn num_features(&self) -> Option<usize> {
        self.ngrams.as_ref().map(NgramModel::num_features)
    }

    /// Returns the number of network parameters.
    pub fn num_parameters(&self) -> usize {
        self.params.values().len()
    }

    /// Predicts each text.
    ///
    /// The prediction of a text does not depend on the other texts.
    ///
    /// # Errors
    /// If a text cannot be tokenized.
    pub fn predict<R: AsRow>(&self, texts: &[R]) -> Result<Vec<Prediction>> {
        self.predict_with(&self.params, &as_rows(texts))
    }

    /// Predicts each text with these network heads switched off. Each head is (layer, head), counted from 0. A head
    /// that is switched off adds nothing to the output of its layer. The n-gram model is unaffected.
    ///
    /// # Errors
    /// If a text cannot be tokenized, or there is no such head.
    pub fn predict_without_heads<R: AsRow>(&self, texts: &[R], heads: &[[usize; 2]]) -> Result<Vec<Prediction>> {
        self.predict_with(&self.params_without_heads(heads)?, &as_rows(texts))
    }

    fn params_without_heads(&self, heads: &[[usize; 2]]) -> Result<Params<f32>> {
        let [layers, count] = self.config.model.backbone.transformer().map_or([0; 2], |c| [c.num_layers, c.num_heads]);
        let mut params = self.params.clone();
        for &[layer, head] in heads {
            check_head([layer, head], [layers, count])?;
            self.model.attention(layer).into_iter().for_each(|attention| attention.ablate_head(&mut params, head));
        }
        Ok(params)
    }

    fn predict_with(&self, params: &Params<f32>, texts: &[RowRef<'_>]) -> Result<Vec<Prediction>> {
        let cutting = stage_timer::begin(stage_timer::TOKENS);
        let rows = self.tokenizer.encode_all(texts)?;
        drop(cutting);
        let network = stage_timer::begin(stage_timer::NETWORK);
        let logits = parallel_batches::logits(&self.model, params, self.input_template(), &rows)?;
        drop(network);
        let limit = self.window();
        let windows: Vec<usize> = rows.iter().map(|ids| ids.len().div_ceil(limit).max(1)).collect();
        self.predictions(&logits, texts, &windows)
    }

    /// Computes predictions from the network's logits, (texts, classes).
    pub(crate) fn predictions(
        &self,
        logits: &Array2<f32>,
        texts: &[RowRef<'_>],
        windows: &[usize],
    ) -> Result<Vec<Prediction>> {
        let classes = self.config.labels.len();
        let _stage = stage_timer::begin(stage_timer::NGRAMS);
        let ngrams = self.ngrams.as_ref().map(|ngrams| ngrams.logits_batch(texts));
        let each = parallel::map_indices(windows.len(), |i| {
            let network = logits.row(i).to_vec();
            let ngrams = ngrams.as_ref().map(|all| &all[i * classes..(i + 1) * classes]);
            let binary_probabilities =
                self.config.target.probabilities(self.config.hierarchy.as_ref(), &network, ngrams);
            let (network, ngrams, probabilities) = match binary_probabilities {
                None => {
                    let (network, ngrams) = (log_softmax(&network), ngrams.map(log_softmax));
                    let probabilities = self.config.blend.probabilities(&network, ngrams.as_deref());
                    (network, ngrams, probabilities)
                }
                Some(probabilities) => {
                    let logs = |z: &[f32]| z.iter().map(|&z| log_sigmoid(z)).collect::<Vec<f32>>();
                    (logs(&network), ngrams.map(logs), probabilities)
                }
            };
            // Checks each member too: its weight may be 0, and capping in a label tree hides NaN.
            let members = network.iter().chain(ngrams.iter().flatten());
            if probabilities.iter().any(|p| !p.is_finite()) || members.into_iter().any(|p| p.is_nan()) {
                return Err(not_finite_error());
            }
            let answer = self.config.settings().decide_class(self.thresholds.as_ref(), &probabilities);
            Ok(Prediction { probabilities, network, ngrams, windows: windows[i], answer })
        });
        each.into_iter().collect()
    }

    /// Returns the length of the vectors of [`TextClassifier::embed`].
    pub fn embedding_dim(&self) -> usize {
        self.config.model.backbone.width()
    }

    /// Computes the vector of each text: the input of the network's last layer, by default scaled to length 1.
    ///
    /// Texts of one class have nearby vectors. Long texts are read in windows, so none is truncated. The vector of a
    /// text does not depend on the other texts.
    ///
    /// # Errors
    /// If `options` name a prompt, which classifiers do not have, a text cannot be tokenized, or a vector is not
    /// finite.
    pub fn embed<R: AsRow>(&self, texts: &[R], options: EmbedOptions<'_>) -> Result<Embeddings> {
        self.embed_rows(&as_rows(texts), options)
    }

    fn embed_rows(&self, texts: &[RowRef<'_>], options: EmbedOptions<'_>) -> Result<Embeddings> {
        if let Some(name) = options.prompt {
            return Err(Error::Setting(tr!(
                "prompt {name}: a classifier has no prompts; leave it out",
                "プロンプト {name}: 分類器にプロンプトはありません。指定を外してください"
            )));
        }
        let rows = self.tokenizer.encode_all(texts)?;
        let vectors = parallel_batches::vectors(&self.model, &self.params, self.input_template(), &rows)?;
        Ok(Embeddings { vectors: finish_vectors(vectors, options.normalize.unwrap_or(true))?, truncated: 0 })
    }

    /// Returns the share of a text's n-grams that the model knows, if it includes an n-gram model.
    pub fn known_share(&self, text: impl AsRow) -> Option<f32> {
        self.ngrams.as_ref().map(|ngrams| ngrams.known_share(text))
    }

    /// Scores class predictions, resampled with `seed`. Returns the scores of the ensemble, then those of the network
    /// and the n-gram model alone.
    ///
    /// Examples whose label the model does not know are ignored.
    ///
    /// # Errors
    /// If a text cannot be tokenized.
    pub(crate) fn score(&self, examples: &[Example], seed: u64) -> Result<(Scores, [Scores; 2])> {
        let found = self.scores(&Rows::from_examples(examples, &self.config.labels), seed)?;
        Ok((found.ensemble, found.members))
    }

    /// Writes `config.json`, `tokenizer.json` and `model.safetensors`, replacing those of an earlier model.
    ///
    /// A kill at any moment leaves the folder with the old model or the new one.
    ///
    /// # Errors
    /// If a file cannot be written, or a file with one of these names was not written by Chumoku.
    pub fn save(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(Error::write("creating", folder))?;
        write_model(folder, self.files()?)
    }

    /// Scores the ensemble, the network and the n-gram model, and recommends one of them.
    pub fn scores(&self, rows: &Rows, seed: u64) -> Result<ClassifierScores> {
        let (texts, tree) = (rows.texts(), self.config.class_hierarchy());
        let predictions = self.predict(&texts)?;
        let logs = |p: &[f32]| p.iter().map(|p| p.max(1e-30).ln()).collect::<Vec<_>>();
        let whole = predictions.iter().map(|p| logs(&p.probabilities)).collect();
        let network = predictions.iter().map(|p| p.network.clone()).collect();
        let ngrams = predictions.iter().map(|p| p.ngrams.clone().unwrap_or_else(|| p.network.clone())).collect();
        let answered = predictions.iter().map(|p| p.class() as u32).collect();
        let [network, ngrams] =
            [network, ngrams].map(|log_p| score_log_p(log_p, None, rows, (self.labels(), tree), seed));
        let whole = score_log_p(whole, Some(answered), rows, (self.labels(), tree), seed);
        // The members predict their most probable classes. For a fair comparison, the ensemble does too.
        let plain: Vec<u32> = match self.config.decision_rule {
            Some(_) => predictions.iter().map(|p| argmax(&p.probabilities)).collect(),
            None => whole.1,
        };
        let scored = rows.predicted_rows(&plain, &texts);
        let advice = Advice::compare(&scored, [&network.1, &ngrams.1], self.labels().len(), seed);
        let sure =
            predictions.iter().zip(&rows.labels).map(|(p, &label)| p.confidence_and_correctness(label)).collect();
        let levels = tree.map_or_else(Vec::new, |tree| level_confidences(tree, &predictions, &rows.labels));
        Ok(ClassifierScores { ensemble: whole.0, members: [network.0, ngrams.0], advice, confidences: sure, levels })
    }

    /// Counts the network tensors in a folder in the format of Hugging Face, and the tensors and values of the n-gram
    /// model.
    pub(crate) fn published_tensors(&self) -> (usize, [usize; 2]) {
        let of_network = self.origin.as_ref().map_or(0, ClassifierOrigin::num_tensors);
        let shapes = self.ngrams.iter().flat_map(|ngrams| ngrams.tensors().shapes());
        let sizes = shapes.map(|(_, shape)| shape.iter().product::<usize>());
        (of_network, sizes.fold([0, 0], |[tensors, numbers], size| [tensors + 1, numbers + size]))
    }

    /// Returns the files of the model, by name.
    pub fn files(&self) -> Result<Vec<(&'static str, Vec<u8>)>> {
        if let Some(origin) = &self.origin {
            return Ok(self.files_as_published(origin));
        }
        let config = ConfigFile {
            config: Cow::Borrowed(&self.config),
            vocabulary_sha256: Some(self.tokenizer.vocabulary_sha256()),
        };
        let config = serde_json::to_string_pretty(&config).expect("a configuration is plain data") + "\n";
        let tokenizer = self.tokenizer.to_json()?;
        Ok(vec![(CONFIG, config.into_bytes()), (TOKENIZER, tokenizer.into_bytes()), (WEIGHTS, self.tensors())])
    }

    /// Returns the files in the format of Hugging Face, with the n-gram model in a separate file.
    fn files_as_published(&self, origin: &ClassifierOrigin) -> Vec<(&'static str, Vec<u8>)> {
        let ours = FineTunedConfig {
            chumoku_version: self.config.chumoku_version.clone(),
            target: self.config.target.clone(),
            hierarchy: self.config.hierarchy.clone(),
            blend: self.config.blend,
            ngrams: self.config.ngrams.clone(),
            precision: self.config.precision,
            max_tokens: self.config.max_tokens(),
            abstention: self.config.abstention.clone(),
            decision_rule: self.config.decision_rule.clone(),
            pairs: self.config.reads_pairs(),
            pooling: origin.pooling(),
            vocabulary_sha256: self.tokenizer.vocabulary_sha256(),
        };
        let config = origin.config_file(&self.config.labels, self.config.target.is_one_class(), &ours);
        let mut files = origin.copied_files().to_vec();
        files.extend([(CONFIG, config.into_bytes()), (WEIGHTS, serialize_tensors(&origin.tensors(&self.params)))]);
        files.extend(self.ngrams.iter().map(|ngrams| (NGRAM_WEIGHTS, serialize_tensors(&ngram_tensors(ngrams)))));
        files
    }

    /// Reads a published or fine-tuned model in the format of Hugging Face. Input is validated.
    fn load_published(folder: &Snapshot) -> Result<TextClassifier> {
        let PublishedClassifier {
            mut model,
            mut params,
            mut tokenizer,
            max_tokens: limit,
            origin,
            labels,
            is_one_class,
            own_settings: ours,
        } = PublishedClassifier::<FineTunedConfig>::read(folder)?;
        check_labels(&labels).map_err(|problem| model_file_error(folder, CONFIG, problem))?;
        if let Some(ours) = &ours {
            check_vocabulary(folder, TOKENIZER, &tokenizer, &ours.vocabulary_sha256)?;
            params.set_precision(ours.precision);
            if ours.pairs {
                let mut config = model.config().clone();
                tokenizer = tokenizer_for_pairs(tokenizer, &mut config);
                model = Classifier::new(config)?;
            }
        }
        let problem = match (&ours, is_one_class) {
            (Some(ours), _) => ours.target.clone(),
            (None, true) => PredictionTarget::OneClass,
            (None, false) => PredictionTarget::Labels(BinaryBlend::network_only(labels.len())),
        };
        let ngrams = match ours.as_ref().and_then(|ours| ours.ngrams.clone()) {
            None => None,
            Some(scheme) => {
                let bytes = folder.read_weights(NGRAM_WEIGHTS)?;
                let tensors = parse_weights(folder, NGRAM_WEIGHTS, &bytes)?;
                let ngrams = read_ngrams(&tensors, &scheme, labels.len(), !problem.is_one_class());
                Some(ngrams.map_err(|problem| model_file_error(folder, NGRAM_WEIGHTS, problem))?)
            }
        };
        let config = TextClassifierConfig {
            model_type: origin.model_type().to_owned(),
            chumoku_version: ours.as_ref().map(|ours| ours.chumoku_version.clone()).unwrap_or_default(),
            labels,
            target: problem,
            hierarchy: ours.as_ref().and_then(|ours| ours.hierarchy.clone()),
            blend: ours.as_ref().map_or(Blend::NETWORK_ONLY, |ours| ours.blend),
            ngrams: ngrams.as_ref().map(|ngrams| ngrams.scheme().clone()),
            precision: params.precision(),
            abstention: ours.as_ref().and_then(|ours| ours.abstention.clone()),
            decision_rule: ours.as_ref().and_then(|ours| ours.decision_rule.clone()),
            max_tokens: Some(ours.map_or(limit, |ours| ours.max_tokens)),
            model: model.config().clone(),
        };
        config.check().map_err(|problem| model_file_error(folder, CONFIG, problem))?;
        Ok(TextClassifier { config, model, params, tokenizer, ngrams, origin: Some(origin), thresholds: None })
    }

    fn tensors(&self) -> Vec<u8> {
        let mut arrays = param_tensors(&self.params);
        arrays.extend(self.ngrams.iter().flat_map(ngram_tensors));
        serialize_tensors(&arrays)
    }

    /// Reads a model folder. Input is validated.
    ///
    /// # Errors
    /// If a file is missing, damaged, or inconsistent with the others.
    pub fn load(folder: &Path) -> Result<TextClassifier> {
        with_snapshot(folder, TextClassifier::from_snapshot)
    }

    /// Reads a model from a snapshot of its folder.
    ///
    /// # Errors
    /// If a file is missing, damaged or of another model.
    pub fn from_snapshot(folder: &Snapshot) -> Result<TextClassifier> {
        if pretrained_kind(folder) == Some(ModelKind::Classifier) {
            return TextClassifier::load_published(folder);
        }
        let fault = |name: &str, problem: String| model_file_error(folder, name, problem);
        if pretrained_kind(folder).is_none() {
            check_files(folder, &[CONFIG])?;
        }
        check_kind(folder, ModelKind::Classifier, lang().pick("a text classifier", "テキスト分類モデル"))?;
        if pretrained_kind(folder).is_none() {
            check_files(folder, &[TOKENIZER, WEIGHTS])?;
        }
        let config: ConfigFile<'_> = read_config(folder)?;
        let (vocabulary_sha256, config) = (config.vocabulary_sha256, config.config.into_owned());
        config.check().map_err(|problem| fault(CONFIG, problem))?;
        let vocab_size = config.model.vocab_size;
        let mut tokenizer = read_tokenizer(folder, TOKENIZER, vocab_size, vocabulary_sha256.as_deref())?;
        if let Some(separator) = config.model.embeddings.separator {
            tokenizer = tokenizer.with_pair_separator();
            if tokenizer.pair_separator() != Some(separator) {
                let problem = tr!(
                    "separator: expected the separator token of {TOKENIZER}, found token {separator}",
                    "separator: {TOKENIZER} の区切りトークンが必要ですが、トークン {separator} です"
                );
                return Err(fault(CONFIG, problem));
            }
        }
        let bytes = folder.read_weights(WEIGHTS)?;
        let tensors = parse_weights(folder, WEIGHTS, &bytes)?;
        let model = Classifier::new(config.model.clone()).map_err(|error| fault(CONFIG, error.to_string()))?;
        let params = read_params(folder, &tensors, model.layout(), config.precision)?;
        let ngrams = match &config.ngrams {
            None => None,
            Some(scheme) => Some(
                read_ngrams(&tensors, scheme, config.labels.len(), !config.target.is_one_class())
                    .map_err(|e| fault(WEIGHTS, e))?,
            ),
        };
        let others = ngrams.as_ref().map(ngram_names).unwrap_or_default();
        check_no_extra_tensors(folder, &tensors, Some(model.layout()), &others)?;
        Ok(TextClassifier { config, model, params, tokenizer, ngrams, origin: None, thresholds: None })
    }
}

impl TextClassifierConfig {
    /// Checks the configuration.
    pub(crate) fn check(&self) -> Result<(), String> {
        let m = &self.model;
        if self.labels.len() != m.num_classes || self.labels.len() < 2 {
            return Err(tr!(
                "labels: expected {} (at least 2), found {}",
                "labels: {} 個（2 個以上）が必要ですが、{} 個です",
                m.num_classes,
                self.labels.len()
            ));
        }
        self.settings().check()?;
        check_size("vocab_size", m.vocab_size, VOCABULARY_SIZES)?;
        check_size("max_length", m.max_length, INPUT_LENGTHS)?;
        check_size("max_tokens", self.max_tokens(), INPUT_LENGTHS)?;
        m.backbone.check().map_err(|error| layer_error_message(&error))?;
        let blend = [self.blend.network, self.blend.ngrams];
        if blend.iter().any(|w| !w.is_finite() || *w < 0.0) {
            return Err(tr!(
                "blend: expected two weights of at least 0, found {blend:?}",
                "blend: 0 以上の重みが二つ必要ですが、{blend:?} です"
            ));
        }
        Ok(())
    }
}
