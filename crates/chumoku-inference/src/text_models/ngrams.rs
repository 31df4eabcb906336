//! N-gram models without a network, for classes, labels or numbers: model folder and predictions. They have no
//! tokenizer and no attention.

use super::settings::{AnswerSettings, not_finite_error};
use crate::blend::binary_blend::log_sigmoid;
use crate::data::Example;
use crate::feature_columns::FeatureColumn;
use crate::hierarchy::Hierarchy;
use crate::lang::lang;
use crate::model_folder::{
    CONFIG, ModelKind, Snapshot, WEIGHTS, check_files, check_kind, check_no_extra_tensors, model_file_error,
    ngram_names, ngram_tensors, parse_weights, read_config, read_ngrams, serialize_tensors, with_snapshot, write_model,
};
use crate::ngram::{NgramModel, NgramScheme};
use crate::prediction::Prediction;
use crate::prediction::abstention::AbstentionCalibration;
use crate::prediction::class_thresholds::ClassThresholds;
use crate::prediction::decision_rule::DecisionRule;
use crate::prediction::target::PredictionTarget;
use crate::row::{AsRow, RowRef};
use crate::scoring::{Rows, Scores, score_log_p};
use crate::{Error, Result, sorting, tr};
use chumoku_kernels::parallel;
use chumoku_nn::probability::log_softmax;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// `config.json` of an n-gram model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NgramClassifierConfig {
    /// Always "chumoku_ngram_classifier".
    pub model_type: String,
    /// The version of Chumoku that wrote the model.
    pub chumoku_version: String,
    /// The classes or labels, ordered by index.
    pub labels: Vec<String>,
    /// The prediction target. Its blend has weight 0 for the missing network.
    #[serde(default, skip_serializing_if = "PredictionTarget::is_one_class")]
    #[serde(rename = "problem")]
    pub target: PredictionTarget,
    /// The tree of classes or labels, if they form one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hierarchy: Option<Hierarchy>,
    /// The factor of the scores before the softmax, fitted on validation rows to calibrate the probabilities. 1 for
    /// labels and numbers, whose weight is in `NgramClassifierConfig::target`.
    pub scale: f32,
    /// Abstention calibration. `None` without validation rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "caution")]
    pub abstention: Option<AbstentionCalibration>,
    /// The decision rule. `None` predicts the most probable class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "decision")]
    pub decision_rule: Option<DecisionRule>,
    /// The n-gram scheme.
    pub ngrams: NgramScheme,
}

impl NgramClassifierConfig {
    /// Returns `true` if the model reads [pairs](crate::row) of texts.
    pub fn reads_pairs(&self) -> bool {
        self.ngrams.pairs
    }

    /// Returns the feature columns of the model, in order.
    pub(crate) fn columns(&self) -> &[FeatureColumn] {
        &self.ngrams.columns
    }

    /// Returns the tree of mutually exclusive classes.
    pub(crate) fn class_hierarchy(&self) -> Option<&Hierarchy> {
        self.settings().class_hierarchy()
    }

    /// Returns the settings that models with a network have too.
    pub(crate) fn settings(&self) -> AnswerSettings<'_> {
        AnswerSettings {
            labels: &self.labels,
            target: &self.target,
            hierarchy: self.hierarchy.as_ref(),
            abstention: self.abstention.as_ref(),
            decision_rule: self.decision_rule.as_ref(),
            ngrams: Some(&self.ngrams),
            reads_pairs: self.reads_pairs(),
        }
    }

    /// Returns the factor of the n-gram scores.
    fn score_weight(&self) -> f32 {
        self.target.binary_blend().map_or(self.scale, |blend| blend.ngrams)
    }

    /// Checks the configuration.
    fn check(&self) -> Result<(), String> {
        self.settings().check()?;
        if let Some(network) = self.target.binary_blend().map(|blend| blend.network).filter(|weight| *weight != 0.0) {
            return Err(tr!(
                "problem: expected a network weight of 0, since the model has no network, found {network}",
                "problem: ネットワークがないため attention は 0 のはずですが、{network} です"
            ));
        }
        if !self.scale.is_finite() || self.scale < 0.0 {
            return Err(tr!(
                "scale: expected a number of at least 0, found {}",
                "scale: 0 以上の数が必要ですが、{} です",
                self.scale
            ));
        }
        Ok(())
    }
}

/// A linear model over n-grams that predicts a class, labels or a number.
#[derive(Debug)]
pub struct NgramClassifier {
    /// The configuration.
    pub config: NgramClassifierConfig,
    /// The n-gram model.
    pub ngrams: NgramModel,
    /// Class thresholds set by the caller.
    pub thresholds: Option<ClassThresholds>,
}

/// The effect of an n-gram on the prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NgramEffect {
    /// The n-gram: words with spaces between them, or characters. `[START]` and `[END]` mark the ends of the text, and
    /// `_` the end of a word.
    pub ngram: String,
    /// Its contribution to the scaled score of the predicted class, minus the mean contribution to the other classes.
    /// For two classes, a label or a threshold, this is exactly its part of the log-odds.
    pub effect: f32,
}

impl NgramClassifier {
    /// Returns the classes or labels, ordered by index.
    pub fn labels(&self) -> &[String] {
        &self.config.labels
    }

    /// Returns the configuration.
    pub fn config(&self) -> &NgramClassifierConfig {
        &self.config
    }

    /// Returns the feature columns of the model, in order.
    pub fn columns(&self) -> &[FeatureColumn] {
        self.config.columns()
    }

    /// Returns the number of known n-grams.
    pub fn num_features(&self) -> usize {
        self.ngrams.num_features()
    }

    /// Predicts each text, in parallel.
    ///
    /// The prediction of a text does not depend on the other texts.
    ///
    /// # Errors
    /// If a probability is not a number because the weights are too large.
    pub fn predict<R: AsRow>(&self, texts: &[R]) -> Result<Vec<Prediction>> {
        self.predictions(&self.ngrams.logits_batch(texts))
    }

    fn predictions(&self, logits: &[f32]) -> Result<Vec<Prediction>> {
        let NgramClassifierConfig { target: problem, hierarchy, scale, .. } = &self.config;
        let predict = |logits: &[f32]| {
            let binary_probabilities = problem.probabilities(hierarchy.as_ref(), logits, Some(logits));
            let (ngrams, probabilities) = match binary_probabilities {
                Some(probabilities) => (logits.iter().map(|&z| log_sigmoid(z)).collect(), probabilities),
                None => {
                    let ngrams = log_softmax(logits);
                    let scaled: Vec<f32> = ngrams.iter().map(|x| scale * x).collect();
                    (ngrams, log_softmax(&scaled).iter().map(|x| x.exp()).collect())
                }
            };
            let answer = self.config.settings().decide_class(self.thresholds.as_ref(), &probabilities);
            Prediction { probabilities, network: Vec::new(), ngrams: Some(ngrams), windows: 1, answer }
        };
        let rows: Vec<&[f32]> = logits.chunks_exact(self.labels().len()).collect();
        let found = parallel::map(&rows, |logits| predict(logits));
        if found.iter().any(|prediction| prediction.probabilities.iter().any(|p| !p.is_finite())) {
            return Err(not_finite_error());
        }
        Ok(found)
    }

    /// Sets probability thresholds like [`TextClassifier::set_thresholds`](crate::TextClassifier::set_thresholds).
    ///
    /// # Errors
    /// If the model predicts numbers, or every class has a threshold, so that a text may have no answer.
    pub(crate) fn set_thresholds(&mut self, least: &[Option<f32>]) -> Result<()> {
        let NgramClassifierConfig { target: problem, labels, hierarchy, .. } = &mut self.config;
        if let Some(thresholds) = problem.set_thresholds(least, (labels.len(), hierarchy.as_ref()))? {
            self.thresholds = Some(thresholds);
        }
        Ok(())
    }

    /// Returns the share of a text's n-grams that the model knows.
    pub(crate) fn known_share(&self, text: impl AsRow) -> f32 {
        self.ngrams.known_share(text)
    }

    /// Scores class predictions, resampled with `seed`.
    ///
    /// Examples whose label the model does not know are ignored.
    ///
    /// # Errors
    /// See [`NgramClassifier::predict`].
    pub(crate) fn score(&self, examples: &[Example], seed: u64) -> Result<Scores> {
        self.scores(&Rows::from_examples(examples, &self.config.labels), seed)
    }

    /// Returns the effect of each known n-gram of `text` on the prediction, strongest first. For a number, effects are
    /// on the threshold whose probability is nearest to ½.
    ///
    /// # Errors
    /// See [`NgramClassifier::predict`].
    pub fn ngram_effects(&self, text: impl AsRow) -> Result<Vec<NgramEffect>> {
        self.ngram_effects_on_label(text, None)
    }

    /// Returns effects like [`NgramClassifier::ngram_effects`], on a label of a multi-label model instead of the most
    /// probable one.
    ///
    /// # Errors
    /// As for [`NgramClassifier::explain_label`].
    pub fn ngram_effects_on_label(&self, text: impl AsRow, label: Option<&str>) -> Result<Vec<NgramEffect>> {
        self.effects_on_label(text.as_row(), label)
    }

    fn effects_on_label(&self, text: RowRef<'_>, label: Option<&str>) -> Result<Vec<NgramEffect>> {
        let class = self.config.settings().class_to_explain(&self.predict(&[text])?[0], label)?;
        let weight = self.config.score_weight();
        let found = self.ngrams.contributions(text, class).into_iter();
        let mut effects: Vec<NgramEffect> =
            found.map(|(ngram, effect)| NgramEffect { ngram, effect: weight * effect }).collect();
        sorting::sort_by(&mut effects, |a, b| b.effect.abs().total_cmp(&a.effect.abs()));
        Ok(effects)
    }

    /// Writes `config.json` and `model.safetensors`, replacing those of an earlier model.
    ///
    /// A kill at any moment leaves the folder with the old model or the new one.
    ///
    /// # Errors
    /// If a file cannot be written, or a file with one of these names was not written by Chumoku.
    pub fn save(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(Error::write("creating", folder))?;
        write_model(folder, self.files())
    }

    /// Scores class predictions.
    pub fn scores(&self, rows: &Rows, seed: u64) -> Result<Scores> {
        let predictions = self.predict(&rows.texts())?;
        let answered = predictions.iter().map(|p| p.class() as u32).collect();
        let log_p = predictions.iter().map(|p| p.probabilities.iter().map(|p| p.max(1e-30).ln()).collect());
        Ok(score_log_p(log_p.collect(), Some(answered), rows, (self.labels(), self.config.class_hierarchy()), seed).0)
    }

    /// Returns the files of the model, by name.
    pub fn files(&self) -> Vec<(&'static str, Vec<u8>)> {
        let config = serde_json::to_string_pretty(&self.config).expect("a configuration is plain data") + "\n";
        vec![(CONFIG, config.into_bytes()), (WEIGHTS, serialize_tensors(&ngram_tensors(&self.ngrams)))]
    }

    /// Reads a model folder. Input is validated.
    ///
    /// # Errors
    /// If a file is missing, damaged, or inconsistent with the others.
    pub fn load(folder: &Path) -> Result<NgramClassifier> {
        with_snapshot(folder, NgramClassifier::from_snapshot)
    }

    /// Reads a model from a snapshot of its folder.
    ///
    /// # Errors
    /// If a file is missing, damaged or of another model.
    pub fn from_snapshot(folder: &Snapshot) -> Result<NgramClassifier> {
        check_files(folder, &[CONFIG, WEIGHTS])?;
        check_kind(folder, ModelKind::Ngrams, lang().pick("an n-gram model", "n-gram モデル"))?;
        let config: NgramClassifierConfig = read_config(folder)?;
        config.check().map_err(|problem| model_file_error(folder, CONFIG, problem))?;
        let bytes = folder.read_weights(WEIGHTS)?;
        let tensors = parse_weights(folder, WEIGHTS, &bytes)?;
        let ngrams = read_ngrams(&tensors, &config.ngrams, config.labels.len(), !config.target.is_one_class())
            .map_err(|problem| model_file_error(folder, WEIGHTS, problem))?;
        check_no_extra_tensors(folder, &tensors, None, &ngram_names(&ngrams))?;
        Ok(NgramClassifier { config, ngrams, thresholds: None })
    }
}
