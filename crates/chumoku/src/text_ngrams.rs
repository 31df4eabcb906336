//! A classifier of n-grams alone: its folder, and what it is asked. It has no network, no tokenizer and no attention.

use crate::beside::{self, SideColumn};
use crate::caution::Caution;
use crate::data::Example;
use crate::hierarchy::Hierarchy;
use crate::lang::lang;
use crate::model_folder::{
    CONFIG, ModelKind, ModelType, WEIGHTS, check_files, check_no_others, fault, ngram_names, ngram_tensors,
    parse_weights, read, read_config, read_ngrams, serialize, write_model,
};
use crate::ngram::{NgramModel, NgramScheme};
use crate::prediction::Prediction;
use crate::scoring::{Rows, Scores, of_log_p};
use crate::text_classifier::{answer, check_hierarchy, check_labels, checked};
use crate::thresholds::Thresholds;
use crate::{Error, Result, tr};
use chumoku_nn::probability::log_softmax;
use rayon::prelude::*;
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
    /// The classes, in the order of their numbers.
    pub labels: Vec<String>,
    /// The tree that classes stand in, if they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hierarchy: Option<Hierarchy>,
    /// By what the scores are multiplied before their softmax: fitted on validation rows, so that probabilities are
    /// calibrated.
    pub scale: f32,
    /// When to say "I do not know"; none where there were no validation rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caution: Option<Caution>,
    /// Which n-grams are read.
    pub ngrams: NgramScheme,
}

impl NgramClassifierConfig {
    /// Whether the model reads [pairs](crate::pair) of texts.
    pub fn reads_pairs(&self) -> bool {
        self.ngrams.pairs
    }

    /// The columns beside the text that the model reads, in order.
    pub fn columns(&self) -> &[SideColumn] {
        &self.ngrams.columns
    }
}

/// A linear classifier of n-grams, and its classes.
#[derive(Debug)]
pub struct NgramClassifier {
    pub(crate) config: NgramClassifierConfig,
    pub(crate) ngrams: NgramModel,
    /// When a class is the answer, where that was asked for.
    pub(crate) thresholds: Option<Thresholds>,
}

/// What an n-gram of a text does to the prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NgramEffect {
    /// The n-gram: words with spaces between them, or characters. `[START]` and `[END]` are the ends of the text, `_` is
    /// the end of a word.
    pub ngram: String,
    /// What it adds to the scaled score of the predicted class, less the mean of what it adds to the others: of two
    /// classes exactly its part of the log-odds.
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
    pub fn columns(&self) -> &[SideColumn] {
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
        let logits = self.ngrams.logits_of(texts);
        let predict = |logits: &[f32]| {
            let ngrams = log_softmax(logits);
            let scaled: Vec<f32> = ngrams.iter().map(|x| self.config.scale * x).collect();
            let probabilities: Vec<f32> = log_softmax(&scaled).iter().map(|x| x.exp()).collect();
            let answer = answer(self.thresholds.as_ref(), self.config.hierarchy.as_ref(), &probabilities);
            Prediction { probabilities, attention: Vec::new(), ngrams: Some(ngrams), windows: 1, answer }
        };
        let found: Vec<Prediction> =
            logits.par_chunks_exact(self.labels().len()).with_min_len(256).map(predict).collect();
        if found.iter().any(|prediction| prediction.probabilities.iter().any(|p| !p.is_finite())) {
            let problem = tr!(
                "the model gives a probability that is not a number: its weights are too large to use",
                "モデルの確率が数値になりません。重みが大きすぎて使えません"
            );
            return Err(Error::NotFinite(problem));
        }
        Ok(found)
    }

    /// Sets from which probability on each class is the answer; those without one stay as they are. Not saved with the model.
    ///
    /// # Errors
    /// If every class has a threshold, so that there may be no answer.
    pub fn set_thresholds(&mut self, least: &[Option<f32>]) -> Result<()> {
        self.thresholds = Some(checked(least, self.config.labels.len())?);
        Ok(())
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

    /// What each n-gram of `text` that the model knows does to the prediction, the strongest first.
    ///
    /// # Errors
    /// See [`NgramClassifier::predict`].
    pub fn ngram_effects(&self, text: &str) -> Result<Vec<NgramEffect>> {
        let class = self.predict(&[text])?.first().map_or(0, Prediction::class);
        let found = self.ngrams.contributions(text, class).into_iter();
        let mut effects: Vec<NgramEffect> =
            found.map(|(ngram, effect)| NgramEffect { ngram, effect: self.config.scale * effect }).collect();
        effects.sort_by(|a, b| b.effect.abs().total_cmp(&a.effect.abs()));
        Ok(effects)
    }

    /// Writes `config.json` and `model.safetensors`, in the place of those of a model that is there.
    ///
    /// Killed at any moment, it leaves the folder with the old model or with the new one.
    ///
    /// # Errors
    /// If a file cannot be written, or one of these names is that of a file that Chumoku did not write.
    pub fn save(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(Error::writing("creating", folder))?;
        write_model(folder, &self.files())
    }

    /// Scores of an n-gram self.
    pub(crate) fn scores(&self, rows: &Rows, seed: u64) -> Result<Scores> {
        let texts = rows.texts();
        let predictions = self.predict(&texts)?;
        let answered = predictions.iter().map(|p| p.class() as u32).collect();
        let log_p = predictions.iter().map(|p| p.probabilities.iter().map(|p| p.max(1e-30).ln()).collect());
        Ok(of_log_p(
            log_p.collect(),
            Some(answered),
            rows,
            (&texts, self.labels(), self.config.hierarchy.as_ref()),
            seed,
        )
        .0)
    }

    /// The files that are needed to use it.
    pub(crate) fn files(&self) -> Vec<(&'static str, Vec<u8>)> {
        let config = serde_json::to_string_pretty(&self.config).expect("a configuration is plain data") + "\n";
        vec![(CONFIG, config.into_bytes()), (WEIGHTS, serialize(&ngram_tensors(&self.ngrams)))]
    }

    /// Reads a model folder, trusting nothing in it.
    ///
    /// # Errors
    /// If a file is missing, damaged, or does not fit the others.
    pub fn load(folder: &Path) -> Result<NgramClassifier> {
        check_files(folder, &[CONFIG, WEIGHTS])?;
        let kind: ModelType = read_config(folder)?;
        if kind.model_type != ModelKind::Ngrams.model_type() {
            return Err(fault(folder, CONFIG, kind.is_not(lang().pick("an n-gram model", "n-gram モデル"))));
        }
        let config: NgramClassifierConfig = read_config(folder)?;
        check_labels(&config.labels).map_err(|problem| fault(folder, CONFIG, problem))?;
        let caution = config.caution.as_ref().map_or(Ok(()), Caution::check);
        caution.map_err(|problem| fault(folder, CONFIG, problem))?;
        let hierarchy = check_hierarchy(config.hierarchy.as_ref(), config.caution.as_ref(), &config.labels);
        hierarchy.map_err(|problem| fault(folder, CONFIG, problem))?;
        let columns = beside::check(&config.ngrams.columns, config.ngrams.column_scale);
        columns.map_err(|problem| fault(folder, CONFIG, problem))?;
        if !config.scale.is_finite() || config.scale < 0.0 {
            let problem = tr!(
                "scale: expected a number of at least 0, found {}",
                "scale：0 以上の数値が必要です（{}）",
                config.scale
            );
            return Err(fault(folder, CONFIG, problem));
        }
        let bytes = read(folder, WEIGHTS)?;
        let tensors = parse_weights(folder, &bytes)?;
        let ngrams = read_ngrams(&tensors, &config.ngrams, config.labels.len(), false)
            .map_err(|problem| fault(folder, WEIGHTS, problem))?;
        check_no_others(folder, &tensors, None, &ngram_names(&ngrams))?;
        Ok(NgramClassifier { config, ngrams, thresholds: None })
    }
}
