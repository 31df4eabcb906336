//! Probabilities of every row by n-gram models that have not seen its text.

use super::folds::deal;
use crate::blend::Blend;
use crate::ngram::{NgramConfig, NgramData, NgramModel};
use crate::{Result, tr};
use chumoku_nn::probability::log_softmax;
use std::sync::atomic::AtomicBool;

/// What the labels of the other folds say of each row.
pub(super) struct OutOfFold {
    /// A model for each fold, which has seen the others.
    pub(super) models: Vec<NgramModel>,
    /// The fold of each row.
    pub(super) fold_of: Vec<usize>,
    /// By what scores are multiplied before their softmax, so that probabilities agree with the given labels on average.
    scale: f32,
    /// (rows, classes)
    pub(super) probabilities: Vec<f32>,
    pub(super) classes: usize,
}

/// C to try, ascending; the second first. Wrong labels want a stronger penalty than right ones.
const C: [f32; 5] = [0.25, 1.0, 4.0, 16.0, 64.0];

/// Rows of the given folds, or of all others.
fn part<'a>(texts: &[&'a str], labels: &[u32], is_in: impl Fn(usize) -> bool) -> (Vec<&'a str>, Vec<u32>) {
    (0..texts.len()).filter(|&row| is_in(row)).map(|row| (texts[row], labels[row])).unzip()
}

impl OutOfFold {
    /// Fits a model for each fold on all others. The penalty is chosen once, on the first fold.
    pub(super) fn fit(
        texts: &[&str],
        labels: &[u32],
        classes: usize,
        [folds, seed]: [u64; 2],
        observe: &dyn Fn(&str),
    ) -> Result<OutOfFold> {
        let folds = (folds as usize).clamp(2, texts.len().max(2));
        let fold_of = deal(texts, labels, folds, seed);
        let go_on = AtomicBool::new(false);
        let mut config = NgramConfig { c_grid: C.to_vec(), ..NgramConfig::default() };
        let mut log_p = vec![Vec::new(); texts.len()];
        let mut models = Vec::with_capacity(folds);
        for fold in 0..folds {
            observe(&tr!("fold {} of {folds}", "{folds} 分割のうち {} 個目", fold + 1));
            let (own, own_labels) = part(texts, labels, |row| fold_of[row] == fold);
            let (others, other_labels) = part(texts, labels, |row| fold_of[row] != fold);
            let (train, train_labels) = match others.is_empty() {
                // All rows have one text.
                true => (&own, &own_labels),
                false => (&others, &other_labels),
            };
            let data = NgramData {
                texts: train,
                labels: train_labels,
                num_classes: classes,
                valid: (fold == 0 && !others.is_empty() && !own.is_empty()).then_some((&own[..], &own_labels[..])),
                class_weights: None,
            };
            let model = NgramModel::train(&data, &config, &go_on, &|_| ())?;
            if fold == 0 {
                let c = model.report().map_or(config.c_without_validation, |report| report.c);
                (config.c_grid, config.c_without_validation) = (vec![c], c);
            }
            let rows = (0..texts.len()).filter(|&row| fold_of[row] == fold);
            let logits = model.logits_of(&own);
            rows.zip(logits.chunks_exact(classes)).for_each(|(row, logits)| log_p[row] = log_softmax(logits));
            models.push(model);
        }
        let scale = Blend::fit(&log_p, &[], labels).attention.max(0.0);
        let probabilities = log_p.iter().flat_map(|log_p| scaled(log_p, scale)).collect();
        Ok(OutOfFold { models, fold_of, scale, probabilities, classes })
    }

    /// Probabilities of the classes for a row.
    pub(super) fn of(&self, row: usize) -> &[f32] {
        &self.probabilities[row * self.classes..][..self.classes]
    }

    /// Probabilities for texts that no model has seen: the mean of all models'. (texts, classes)
    pub(super) fn of_new(&self, texts: &[&str]) -> Vec<f32> {
        let mut sums = vec![0.0; texts.len() * self.classes];
        for model in &self.models {
            let logits = model.logits_of(texts);
            for (sums, logits) in sums.chunks_exact_mut(self.classes).zip(logits.chunks_exact(self.classes)) {
                let found = scaled(&log_softmax(logits), self.scale);
                sums.iter_mut().zip(found).for_each(|(sum, p)| *sum += p / self.models.len() as f32);
            }
        }
        sums
    }

    /// What each n-gram of a row adds to the log-odds of class `one` against class `other`, the strongest for `one` first.
    pub(super) fn effects(&self, row: usize, text: &str, [one, other]: [u32; 2]) -> Vec<(String, f32)> {
        let model = &self.models[self.fold_of[row]];
        let [for_one, for_other] = [one, other].map(|class| model.contributions(text, class as usize));
        // Each is less the mean of the others' (n − 1): the difference of two is n / (n − 1) of what is asked.
        let share = self.scale * (self.classes - 1) as f32 / self.classes as f32;
        let effects = for_one.into_iter().zip(for_other).map(|((name, one), (_, other))| (name, share * (one - other)));
        let mut effects: Vec<(String, f32)> = effects.collect();
        effects.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        effects
    }
}

fn scaled(log_p: &[f32], scale: f32) -> Vec<f32> {
    let scaled: Vec<f32> = log_p.iter().map(|x| scale * x).collect();
    log_softmax(&scaled).iter().map(|x| x.exp()).collect()
}
