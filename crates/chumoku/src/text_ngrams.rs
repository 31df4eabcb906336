//! A predictor of n-grams alone, of a class, labels or a number: its folder, and what it is asked. It has no network, no tokenizer
//! and no attention.

use crate::abstention::AbstentionCalibration;
use crate::class_thresholds::ClassThresholds;
use crate::data::{Example, MultiLabelExample, ScoreExample};
use crate::decision_rule::DecisionRule;
use crate::feature_columns::{self, FeatureColumn};
use crate::hierarchy::Hierarchy;
use crate::label_blend::log_sigmoid;
use crate::lang::lang;
use crate::model_folder::{
    CONFIG, ModelKind, ModelTypeConfig, Snapshot, WEIGHTS, check_files, check_no_extra_tensors, model_file_error,
    ngram_names, ngram_tensors, parse_weights, read_config, read_ngrams, serialize_tensors, with_snapshot, write_model,
};
use crate::ngram::{NgramModel, NgramScheme};
use crate::number::{Estimate, NumberLabel};
use crate::prediction::Prediction;
use crate::prediction_target::PredictionTarget;
use crate::scoring::{LabelScores, NumberScores, Rows, Scores, of_log_p};
use crate::text_classifier::{check_hierarchy, check_labels, decide_class};
use crate::{Error, Result, sorting, tr};
use chumoku_kernels::parallel;
use chumoku_nn::probability::log_softmax;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// `config.json` of an n-gram model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NgramClassifierConfig {
    /// Always "chumoku_ngram_classifier".
    pub model_type: String,
    /// The version that wrote it.
    pub chumoku_version: String,
    /// The classes or labels, in the order of their numbers.
    pub labels: Vec<String>,
    /// What a text is told. What joins the two halves of other predictors has no weight for a network here.
    #[serde(default, skip_serializing_if = "PredictionTarget::is_one_class")]
    #[serde(rename = "problem")]
    pub target: PredictionTarget,
    /// The tree that classes or labels stand in, if they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hierarchy: Option<Hierarchy>,
    /// By what the scores are multiplied before their softmax: fitted on validation rows, so that probabilities are
    /// calibrated. 1 where a text is told labels or a number: [`NgramClassifierConfig::problem`] has the weight then.
    pub scale: f32,
    /// When to say "I do not know"; none where there were no validation rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "caution")]
    pub abstention: Option<AbstentionCalibration>,
    /// Which class is the answer; none if it is the most probable one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "decision")]
    pub decision_rule: Option<DecisionRule>,
    /// Which n-grams are read.
    pub ngrams: NgramScheme,
}

impl NgramClassifierConfig {
    /// Whether the model reads [pairs](crate::pair) of texts.
    pub fn reads_pairs(&self) -> bool {
        self.ngrams.pairs
    }

    /// The columns beside the text that the model reads, in order.
    pub fn columns(&self) -> &[FeatureColumn] {
        &self.ngrams.columns
    }

    /// The tree that classes stand in which exclude each other.
    pub fn tree(&self) -> Option<&Hierarchy> {
        self.hierarchy.as_ref().filter(|_| self.target.is_one_class())
    }

    /// By what the scores of n-grams are multiplied.
    fn score_weight(&self) -> f32 {
        self.target.binary_blend().map_or(self.scale, |blend| blend.ngrams)
    }

    /// What is wrong with it, if anything.
    fn check(&self) -> Result<(), String> {
        check_labels(&self.labels)?;
        self.abstention.as_ref().map_or(Ok(()), AbstentionCalibration::check)?;
        check_hierarchy(self.hierarchy.as_ref(), self.abstention.as_ref(), &self.labels)?;
        self.decision_rule.as_ref().map_or(Ok(()), |decision| decision.check(self.labels.len()))?;
        feature_columns::check(&self.ngrams.columns, self.ngrams.column_scale)?;
        self.target.check(self.labels.len(), self.hierarchy.as_ref())?;
        if let Some(network) = self.target.binary_blend().map(|blend| blend.attention).filter(|weight| *weight != 0.0) {
            return Err(tr!(
                "problem: expected a weight of 0 for a network, there being none, found {network}",
                "problem: ネットワークがないため attention は 0 のはずですが、{network} です"
            ));
        }
        if !self.scale.is_finite() || self.scale < 0.0 {
            return Err(tr!(
                "scale: expected a number of at least 0, found {}",
                "scale：0 以上の数値が必要です（{}）",
                self.scale
            ));
        }
        Ok(())
    }
}

/// A linear model of n-grams, and what it tells of a text: a class, labels, or a number.
#[derive(Debug)]
pub struct NgramClassifier {
    pub(crate) config: NgramClassifierConfig,
    pub(crate) ngrams: NgramModel,
    /// When a class is the answer, where that was asked for.
    pub(crate) thresholds: Option<ClassThresholds>,
}

/// What an n-gram of a text does to the prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NgramEffect {
    /// The n-gram: words with spaces between them, or characters. `[START]` and `[END]` are the ends of the text, `_` is
    /// the end of a word.
    pub ngram: String,
    /// What it adds to the scaled score of the predicted class, less the mean of what it adds to the others: of two
    /// classes, of a label and of a threshold exactly its part of the log-odds.
    pub effect: f32,
}

impl NgramClassifier {
    /// The classes, in the order of their numbers.
    pub fn labels(&self) -> &[String] {
        &self.config.labels
    }

    /// What the model is.
    pub fn config(&self) -> &NgramClassifierConfig {
        &self.config
    }

    /// The columns beside the text that the model reads, in order.
    pub fn columns(&self) -> &[FeatureColumn] {
        self.config.columns()
    }

    /// N-grams that the model knows.
    pub fn num_features(&self) -> usize {
        self.ngrams.num_features()
    }

    /// Predicts each text, on all threads.
    ///
    /// A text's prediction does not depend on the others.
    ///
    /// # Errors
    /// If weights are so large that a probability is not a number.
    pub fn predict(&self, texts: &[&str]) -> Result<Vec<Prediction>> {
        let logits = self.ngrams.logits_batch(texts);
        let NgramClassifierConfig { target: problem, hierarchy, scale, .. } = &self.config;
        let predict = |logits: &[f32]| {
            let of_questions = problem.probabilities(hierarchy.as_ref(), logits, Some(logits));
            let (ngrams, probabilities) = match of_questions {
                Some(probabilities) => (logits.iter().map(|&z| log_sigmoid(z)).collect(), probabilities),
                None => {
                    let ngrams = log_softmax(logits);
                    let scaled: Vec<f32> = ngrams.iter().map(|x| scale * x).collect();
                    (ngrams, log_softmax(&scaled).iter().map(|x| x.exp()).collect())
                }
            };
            let by_model = (self.config.decision_rule.as_ref(), self.config.tree());
            let answer = decide_class(self.thresholds.as_ref(), by_model, &probabilities);
            Prediction { probabilities, attention: Vec::new(), ngrams: Some(ngrams), windows: 1, answer }
        };
        let rows: Vec<&[f32]> = logits.chunks_exact(self.labels().len()).collect();
        let found = parallel::map(&rows, |logits| predict(logits));
        if found.iter().any(|prediction| prediction.probabilities.iter().any(|p| !p.is_finite())) {
            let problem = tr!(
                "the model gives a probability that is not a number: its weights are too large to use",
                "モデルの確率が数値になりません。重みが大きすぎて使えません"
            );
            return Err(Error::NotFinite(problem));
        }
        Ok(found)
    }

    /// As [`TextClassifier::set_thresholds`](crate::TextClassifier::set_thresholds).
    ///
    /// # Errors
    /// If the model tells numbers, or every class has a threshold, so that there may be no answer.
    pub fn set_thresholds(&mut self, least: &[Option<f32>]) -> Result<()> {
        let NgramClassifierConfig { target: problem, labels, hierarchy, .. } = &mut self.config;
        if let Some(thresholds) = problem.set_thresholds(least, (labels.len(), hierarchy.as_ref()))? {
            self.thresholds = Some(thresholds);
        }
        Ok(())
    }

    /// The labels that are predicted, the most probable first: those above their thresholds, or the class.
    pub fn predicted_labels(&self, prediction: &Prediction) -> Vec<usize> {
        self.config.target.predicted_labels(prediction)
    }

    /// The number that a prediction stands for, and its interval, where the model tells numbers.
    pub fn estimate(&self, prediction: &Prediction) -> Option<Estimate> {
        self.config.target.estimate(prediction)
    }

    /// The share of a text's n-grams that the model knows.
    pub fn known_share(&self, text: &str) -> f32 {
        self.ngrams.known_share(text)
    }

    /// Scores on labelled examples, resampled with `seed`.
    ///
    /// Examples whose label the model does not know are left out.
    ///
    /// # Errors
    /// See [`NgramClassifier::predict`].
    pub fn score(&self, examples: &[Example], seed: u64) -> Result<Scores> {
        self.scores(&Rows::of(examples, &self.config.labels), seed)
    }

    /// Scores on texts with any number of labels each, resampled with `seed`. Labels that the model does not know are left out.
    ///
    /// # Errors
    /// If the model tells no labels; else see [`NgramClassifier::predict`].
    pub fn score_labels(&self, examples: &[MultiLabelExample], seed: u64) -> Result<LabelScores> {
        self.label_scores(&Rows::of_sets(examples, &self.config.labels).closed(self.config.hierarchy.as_ref()), seed)
    }

    pub(crate) fn label_scores(&self, rows: &Rows<Vec<u32>>, seed: u64) -> Result<LabelScores> {
        let known = (self.labels(), self.config.hierarchy.as_ref());
        self.config.target.label_scores(rows, self.predict(&rows.texts())?, known, seed)
    }

    /// Scores on texts with a number each, resampled with `seed`; and the true and the predicted number of each.
    ///
    /// # Errors
    /// If the model tells no numbers; else see [`NgramClassifier::predict`].
    pub fn score_numbers(&self, examples: &[ScoreExample], seed: u64) -> Result<(NumberScores, Vec<[f64; 2]>)> {
        let scale = &self.config.target.require_number()?.scale;
        self.number_scores(&Rows::of_scores(examples, scale), seed)
    }

    pub(crate) fn number_scores(&self, rows: &Rows<NumberLabel>, seed: u64) -> Result<(NumberScores, Vec<[f64; 2]>)> {
        self.config.target.number_scores(rows, &self.predict(&rows.texts())?, seed)
    }

    /// What each n-gram of `text` that the model knows does to the prediction, the strongest first: of a number, to the threshold
    /// that it is least certain to lie above.
    ///
    /// # Errors
    /// See [`NgramClassifier::predict`].
    pub fn ngram_effects(&self, text: &str) -> Result<Vec<NgramEffect>> {
        self.ngram_effects_on_label(text, None)
    }

    /// As [`NgramClassifier::ngram_effects`], on the label of this name instead of the most probable one, where a text may have
    /// several.
    ///
    /// # Errors
    /// As for [`NgramClassifier::explain_label`].
    pub fn ngram_effects_on_label(&self, text: &str, label: Option<&str>) -> Result<Vec<NgramEffect>> {
        let class = self.class_to_explain(&self.predict(&[text])?[0], label)?;
        let weight = self.config.score_weight();
        let found = self.ngrams.contributions(text, class).into_iter();
        let mut effects: Vec<NgramEffect> =
            found.map(|(ngram, effect)| NgramEffect { ngram, effect: weight * effect }).collect();
        sorting::sort_by(&mut effects, |a, b| b.effect.abs().total_cmp(&a.effect.abs()));
        Ok(effects)
    }

    /// Writes `config.json` and `model.safetensors`, in the place of those of a model that is there.
    ///
    /// Killed at any moment, it leaves the folder with the old model or with the new one.
    ///
    /// # Errors
    /// If a file cannot be written, or one of these names is that of a file that Chumoku did not write.
    pub fn save(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(Error::write("creating", folder))?;
        write_model(folder, self.files())
    }

    /// Scores of one class a text.
    pub(crate) fn scores(&self, rows: &Rows, seed: u64) -> Result<Scores> {
        let texts = rows.texts();
        let predictions = self.predict(&texts)?;
        let answered = predictions.iter().map(|p| p.class() as u32).collect();
        let log_p = predictions.iter().map(|p| p.probabilities.iter().map(|p| p.max(1e-30).ln()).collect());
        Ok(of_log_p(log_p.collect(), Some(answered), rows, (&texts, self.labels(), self.config.tree()), seed).0)
    }

    /// The files that are needed to use it.
    pub(crate) fn files(&self) -> Vec<(&'static str, Vec<u8>)> {
        let config = serde_json::to_string_pretty(&self.config).expect("a configuration is plain data") + "\n";
        vec![(CONFIG, config.into_bytes()), (WEIGHTS, serialize_tensors(&ngram_tensors(&self.ngrams)))]
    }

    /// Reads a model folder, trusting nothing in it.
    ///
    /// # Errors
    /// If a file is missing, damaged, or does not fit the others.
    pub fn load(folder: &Path) -> Result<NgramClassifier> {
        with_snapshot(folder, NgramClassifier::from_snapshot)
    }

    pub(crate) fn from_snapshot(folder: &Snapshot) -> Result<NgramClassifier> {
        check_files(folder, &[CONFIG, WEIGHTS])?;
        let kind: ModelTypeConfig = read_config(folder)?;
        if kind.model_type != ModelKind::Ngrams.model_type() {
            return Err(model_file_error(
                folder,
                CONFIG,
                kind.kind_mismatch(lang().pick("an n-gram model", "n-gram モデル")),
            ));
        }
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
