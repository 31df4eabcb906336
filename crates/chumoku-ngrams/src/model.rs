//! The trained model: from text to class scores.

use super::sparse::{SparseRows, multiply_row};
use super::target::num_outputs;
use super::tokens::{NgramReader, NgramScheme};
use super::vocabulary::{CountedTexts, Vocabulary};
use crate::feature_columns;
use chumoku_kernels::cancel::CancelFlag;
use chumoku_kernels::parallel;
use chumoku_text::row::{AsRow, RowRef, as_rows};
use std::collections::HashMap;

/// A trained linear classifier on n-grams.
#[derive(Debug, Clone)]
pub struct NgramModel {
    pub(super) scheme: NgramScheme,
    pub(super) vocabulary: Vocabulary,
    /// W by row (features, outputs), with column features after n-grams, then b (outputs).
    pub(super) weights: Vec<f32>,
    /// The logarithm of each class's share; in multi-label models, the log-odds of each label.
    pub(super) prior: Vec<f32>,
    /// True for multi-label models.
    pub(super) is_multi_label: bool,
    pub(super) report: Option<NgramReport>,
}

/// Results of training.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct NgramReport {
    /// The chosen C, the weight of the data relative to the penalty.
    pub c: f32,
    /// Mean log-loss in nats on the validation texts, with their weights.
    pub valid_loss: Option<f64>,
    /// Accuracy on the validation texts.
    pub(crate) valid_accuracy: Option<f64>,
    /// Norm of the gradient at the solution, relative to its norm at zero weights.
    pub(crate) relative_gradient: f64,
    /// Number of products with the Gram matrix during training.
    pub products: usize,
}

impl NgramModel {
    /// Number of classes.
    pub fn num_classes(&self) -> usize {
        self.prior.len()
    }

    /// Number of n-grams in the vocabulary.
    pub fn num_features(&self) -> usize {
        self.vocabulary.len()
    }

    /// Number of inputs of a row: n-grams and column features.
    pub(super) fn num_inputs(&self) -> usize {
        self.vocabulary.len() + feature_columns::num_features(&self.scheme.columns)
    }

    /// The n-grams that the model reads.
    pub fn scheme(&self) -> &NgramScheme {
        &self.scheme
    }

    /// The results of training; `None` for a model loaded from tensors.
    pub fn report(&self) -> Option<&NgramReport> {
        self.report.as_ref()
    }

    /// Returns the class scores, whose softmax is the class probability. They are x W + b, or the logarithm of the
    /// class shares if the text has no known n-gram. In multi-label models they are the log-odds of each label.
    ///
    /// With two classes they are −z/2 and z/2, where z is the log-odds of class 1.
    ///
    /// # Shapes
    ///
    /// Returns (classes).
    pub fn logits(&self, row: impl AsRow) -> Vec<f32> {
        let mut logits = vec![0.0; self.num_classes()];
        self.write_logits(row.as_row(), &mut Scratch::default(), &mut logits);
        logits
    }

    /// Returns [`NgramModel::logits`] of many rows, with the same numbers, on all threads of the current rayon pool.
    ///
    /// # Shapes
    ///
    /// Returns (rows, classes).
    pub fn logits_batch<R: AsRow>(&self, rows: &[R]) -> Vec<f32> {
        self.write_logits_batch(&as_rows(rows))
    }

    fn write_logits_batch(&self, texts: &[RowRef<'_>]) -> Vec<f32> {
        let classes = self.num_classes();
        let mut logits = vec![0.0; texts.len() * classes];
        /// Texts per task.
        const TEXTS_PER_TASK: usize = 16;
        let halting = CancelFlag::current();
        parallel::for_each_chunk(&mut logits, TEXTS_PER_TASK * classes, |task, logits| {
            let mut scratch = Scratch::default();
            for (row, text) in logits.chunks_exact_mut(classes).zip(&texts[task * TEXTS_PER_TASK..]) {
                halting.check();
                self.write_logits(*text, &mut scratch, row);
            }
        });
        logits
    }

    fn write_logits(&self, text: RowRef<'_>, scratch: &mut Scratch, logits: &mut [f32]) {
        let row = &mut scratch.row;
        row.starts.clear();
        row.indices.clear();
        row.values.clear();
        let hashes = scratch.reader.read(text, &self.scheme).chunk_by(|a, b| a == b);
        self.vocabulary.push_row(hashes.map(|run| (run[0], run.len() as u32)), row);
        let beside = &mut scratch.columns;
        beside.indices.clear();
        beside.values.clear();
        let NgramScheme { columns, column_scale, .. } = &self.scheme;
        feature_columns::push_features(columns, *column_scale, text, &mut beside.indices, &mut beside.values);
        self.vocabulary.push_columns((&beside.indices, &beside.values), row);
        if row.indices.is_empty() {
            logits.copy_from_slice(&self.prior);
            return;
        }
        let (weights, bias) = self.weights.split_at(self.num_inputs() * self.outputs());
        let scores = &mut logits[..bias.len()];
        scores.copy_from_slice(bias);
        multiply_row(&row.indices, &row.values, weights, scores);
        if let ([first, second], [_], false) = (logits, bias, self.is_multi_label) {
            (*first, *second) = (*first * -0.5, *first * 0.5);
        }
    }

    /// Returns the share of a text's distinct n-grams that the model knows, or 1 for a text without n-grams.
    pub fn known_share(&self, row: impl AsRow) -> f32 {
        self.known_share_of_row(row.as_row())
    }

    fn known_share_of_row(&self, row: RowRef<'_>) -> f32 {
        let mut scratch = Scratch::default();
        let mut count = 0;
        let hashes = scratch.reader.read(row, &self.scheme).chunk_by(|a, b| a == b);
        self.vocabulary
            .push_row(hashes.inspect(|_| count += 1).map(|run| (run[0], run.len() as u32)), &mut scratch.row);
        if count == 0 { 1.0 } else { scratch.row.indices.len() as f32 / count as f32 }
    }

    /// Returns the contribution of each known n-gram to a class score, less its mean contribution to the other classes.
    /// With two classes it is the n-gram's part of the log-odds. The contributions add up to the score without the
    /// bias.
    pub fn contributions(&self, row: impl AsRow, class: usize) -> Vec<(String, f32)> {
        self.contributions_of_row(row.as_row(), class)
    }

    fn contributions_of_row(&self, text: RowRef<'_>, class: usize) -> Vec<(String, f32)> {
        let mut scratch = Scratch::default();
        let mut logits = vec![0.0; self.num_classes()];
        self.write_logits(text, &mut scratch, &mut logits);
        let outputs = self.outputs();
        let row = &scratch.row;
        let named: HashMap<u64, String> = NgramReader::read_named(text, &self.scheme).into_iter().collect();
        let parts = row.indices.iter().zip(&row.values).filter_map(|(&feature, &value)| {
            let feature = feature as usize;
            let name = named.get(self.vocabulary.hashes().get(feature)?)?;
            Some((name.clone(), value * self.class_weight(&self.weights[feature * outputs..][..outputs], class)))
        });
        parts.collect()
    }

    /// Returns the weight of a feature for a class, less its mean weight for the other classes.
    fn class_weight(&self, weights: &[f32], class: usize) -> f32 {
        match weights {
            [one] if !self.is_multi_label => {
                if class == 1 {
                    *one
                } else {
                    -one
                }
            }
            many if self.is_multi_label => many[class],
            many => {
                let others = many.iter().sum::<f32>() - many[class];
                many[class] - others / (many.len() - 1) as f32
            }
        }
    }

    /// Returns up to `most` n-grams per class that speak most for it in its texts, strongest first. The strength is the
    /// average contribution to the class score, less the mean contribution to the other classes. Among n-grams that
    /// contain each other, only the strongest is returned.
    pub fn strongest_ngrams(&self, texts: &[RowRef<'_>], answers: &[&[u32]], most: usize) -> Vec<Vec<(String, f32)>> {
        /// Candidates per returned n-gram, since many contain each other.
        const CANDIDATES: usize = 20;
        let outputs = self.outputs();
        let rows = CountedTexts::read(texts, &self.scheme, &|| false, &|_| {}).rows(&self.vocabulary);
        let of_class = |class: usize| {
            let mut sums = vec![0.0_f32; self.num_inputs()];
            let of_it = (0..texts.len()).filter(|&row| answers[row].contains(&(class as u32)));
            let mut count = 0.0;
            for row in of_it {
                count += 1.0;
                let range = rows.starts[row]..rows.starts[row + 1];
                rows.indices[range.clone()].iter().zip(&rows.values[range]).for_each(|(&f, x)| sums[f as usize] += x);
            }
            let strength =
                |f: usize| sums[f] / count * self.class_weight(&self.weights[f * outputs..][..outputs], class);
            let mut all: Vec<(usize, f32)> =
                (0..self.num_features()).filter(|&f| sums[f] > 0.0).map(|f| (f, strength(f))).collect();
            all.retain(|of| of.1 > 0.0);
            all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            all.truncate(CANDIDATES * most);
            all
        };
        let candidates: Vec<Vec<(usize, f32)>> = parallel::map_indices(self.num_classes(), of_class);
        let hash = |feature: usize| self.vocabulary.hashes()[feature];
        let mut names: HashMap<u64, Option<String>> =
            candidates.iter().flatten().map(|&(feature, _)| (hash(feature), None)).collect();
        let mut missing = names.len();
        for text in texts {
            if missing == 0 {
                break;
            }
            for (hash, name) in NgramReader::read_named(*text, &self.scheme) {
                if let Some(slot @ None) = names.get_mut(&hash) {
                    *slot = Some(name);
                    missing -= 1;
                }
            }
        }
        let chosen = |candidates: &Vec<(usize, f32)>| {
            let mut found: Vec<(String, f32)> = Vec::new();
            let bare = |name: &str| name.trim_matches(|c: char| c == '_' || c.is_whitespace()).to_owned();
            for &(feature, strength) in candidates {
                let Some(Some(name)) = names.get(&hash(feature)) else { continue };
                let own = bare(name);
                let is_part = |(other, _): &(String, f32)| other.contains(&own) || own.contains(&bare(other));
                if found.len() < most && !own.is_empty() && !found.iter().any(is_part) {
                    found.push((name.clone(), strength));
                }
            }
            found
        };
        candidates.iter().map(chosen).collect()
    }

    pub(super) fn outputs(&self) -> usize {
        num_outputs(self.num_classes(), self.is_multi_label)
    }
}

#[derive(Default)]
struct Scratch {
    reader: NgramReader,
    row: SparseRows,
    /// The features of the feature columns.
    columns: SparseRows,
}
