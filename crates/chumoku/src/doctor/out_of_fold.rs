//! Out-of-fold probabilities: each row is predicted by n-gram models that have not seen its text.

use super::DoctorOptions;
use crate::blend::Blend;
use crate::ngram::{NgramConfig, NgramData, NgramModel};
use crate::row::RowRef;
use crate::train::assign_folds;
use crate::{Result, sorting, tr};
use chumoku_nn::probability::log_softmax;
use std::sync::atomic::AtomicBool;

/// Models and out-of-fold probabilities of all rows.
pub(super) struct OutOfFoldModels {
    /// For each fold of the first round, a model trained on the other folds.
    pub(super) models: Vec<NgramModel>,
    /// The fold of each row in the first round.
    pub(super) fold_of: Vec<usize>,
    /// Factor of the scores before softmax, which calibrates the probabilities against the given labels.
    scale: f32,
    /// (rows, classes)
    pub(super) probabilities: Vec<f32>,
    pub(super) classes: usize,
}

/// Values of C to try, ascending, beginning with the second. Wrong labels need a stronger penalty than right ones.
const C_GRID: [f32; 5] = [0.25, 1.0, 4.0, 16.0, 64.0];

impl OutOfFoldModels {
    /// Divides the rows into folds several times, and fits a model for each fold on all others. The penalty is chosen
    /// once, on the first fold.
    pub(super) fn fit(
        texts: &[RowRef<'_>],
        labels: &[u32],
        classes: usize,
        options: &DoctorOptions,
        observe: &dyn Fn(&str),
    ) -> Result<OutOfFoldModels> {
        let folds = options.folds.clamp(2, texts.len().max(2));
        let rounds = options.rounds.max(1);
        let are_pairs = texts.iter().all(|row| row.is_pair());
        let mut fitting = FoldTrainer { texts, labels, classes, config: NgramConfig::default_for(are_pairs) };
        fitting.config.c_grid = C_GRID.to_vec();
        let mut log_p = vec![vec![0.0; classes]; texts.len()];
        let (mut models, mut first_deal) = (Vec::with_capacity(folds), Vec::new());
        for round in 0..rounds {
            let fold_of = assign_folds(texts, labels, folds, [options.seed, round as u64]);
            for fold in 0..folds {
                let [at, all] = [round * folds + fold + 1, rounds * folds];
                observe(&tr!("labels: model {at} of {all}", "ラベル（{all} 個のうち {at} 個目のモデル）"));
                let rows: Vec<usize> = (0..texts.len()).filter(|&row| fold_of[row] == fold).collect();
                if rows.is_empty() {
                    // There are fewer texts than folds.
                    break;
                }
                let others: Vec<usize> = (0..texts.len()).filter(|&row| fold_of[row] != fold).collect();
                let model = fitting.train(&rows, &others)?;
                let own: Vec<RowRef<'_>> = rows.iter().map(|&row| texts[row]).collect();
                for (&row, logits) in rows.iter().zip(model.logits_batch(&own).chunks_exact(classes)) {
                    let mean = log_p[row].iter_mut().zip(log_softmax(logits));
                    mean.for_each(|(mean, x)| *mean += x / rounds as f32);
                }
                if round == 0 {
                    models.push(model);
                }
            }
            if round == 0 {
                first_deal = fold_of;
            }
        }
        let scale = Blend::fit(&log_p, &[], labels, None).network.max(0.0);
        let probabilities = log_p.iter().flat_map(|log_p| scaled_probabilities(log_p, scale)).collect();
        Ok(OutOfFoldModels { models, fold_of: first_deal, scale, probabilities, classes })
    }

    /// Returns the class probabilities of a row.
    pub(super) fn row(&self, row: usize) -> &[f32] {
        &self.probabilities[row * self.classes..][..self.classes]
    }

    /// Predicts texts that no model has seen, as the mean over the models. (texts, classes)
    pub(super) fn predict(&self, texts: &[RowRef<'_>]) -> Vec<f32> {
        let mut sums = vec![0.0; texts.len() * self.classes];
        for model in &self.models {
            let logits = model.logits_batch(texts);
            for (sums, logits) in sums.chunks_exact_mut(self.classes).zip(logits.chunks_exact(self.classes)) {
                let found = scaled_probabilities(&log_softmax(logits), self.scale);
                sums.iter_mut().zip(found).for_each(|(sum, p)| *sum += p / self.models.len() as f32);
            }
        }
        sums
    }

    /// Returns the contribution of each n-gram of a row to the log-odds of class `one` against class `other`, the
    /// largest first.
    pub(super) fn ngram_effects(&self, row: usize, text: RowRef<'_>, [one, other]: [u32; 2]) -> Vec<(String, f32)> {
        let model = &self.models[self.fold_of[row]];
        let [for_one, for_other] = [one, other].map(|class| model.contributions(text, class as usize));
        // A contribution is relative to the mean of the other n − 1 classes, so a difference of two is n / (n − 1)
        // times the log-odds.
        let share = self.scale * (self.classes - 1) as f32 / self.classes as f32;
        let effects = for_one.into_iter().zip(for_other).map(|((name, one), (_, other))| (name, share * (one - other)));
        let mut effects: Vec<(String, f32)> = effects.collect();
        sorting::sort_by(&mut effects, |a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        effects
    }
}

/// Trains the models of all folds.
struct FoldTrainer<'a> {
    texts: &'a [RowRef<'a>],
    labels: &'a [u32],
    classes: usize,
    config: NgramConfig,
}

impl FoldTrainer<'_> {
    /// Trains the model of all rows except one fold. The first call chooses the penalty on that fold and keeps it.
    fn train(&mut self, fold: &[usize], others: &[usize]) -> Result<NgramModel> {
        let part = |rows: &[usize]| -> (Vec<RowRef<'_>>, Vec<u32>) {
            rows.iter().map(|&row| (self.texts[row], self.labels[row])).unzip()
        };
        let (own, others) = (part(fold), part(others));
        // All rows may have the same text.
        let train = if others.0.is_empty() { &own } else { &others };
        let choose = self.config.c_grid.len() > 1 && !others.0.is_empty();
        let data = NgramData {
            texts: &train.0,
            labels: &train.1,
            num_classes: self.classes,
            valid: choose.then_some((&own.0[..], &own.1[..])),
            weights: None,
            valid_weights: None,
        };
        let model = NgramModel::train(&data, &self.config, &AtomicBool::new(false), &|_| ())?;
        if choose && let Some(report) = model.report() {
            (self.config.c_grid, self.config.c_without_validation) = (vec![report.c], report.c);
        }
        Ok(model)
    }
}

fn scaled_probabilities(log_p: &[f32], scale: f32) -> Vec<f32> {
    let scaled: Vec<f32> = log_p.iter().map(|x| scale * x).collect();
    log_softmax(&scaled).iter().map(|x| x.exp()).collect()
}
