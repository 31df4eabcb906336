//! The trained model: from a text to class scores.

use super::sparse::{SparseRows, multiply_row};
use super::target::num_outputs;
use super::tokens::{NgramReader, NgramScheme};
use super::vocabulary::{CountedTexts, Vocabulary};
use crate::feature_columns;
use chumoku_kernels::cancel::CancelFlag;
use chumoku_kernels::parallel;
use std::collections::HashMap;

/// A trained linear classifier on n-grams.
#[derive(Debug, Clone)]
pub struct NgramModel {
    pub(super) scheme: NgramScheme,
    pub(super) vocabulary: Vocabulary,
    /// W by rows (features, outputs), those of columns behind those of n-grams, then b (outputs).
    pub(super) weights: Vec<f32>,
    /// Logarithm of each class's share; of labels that do not exclude each other, the log-odds of each.
    pub(super) prior: Vec<f32>,
    /// Whether labels do not exclude each other.
    pub(super) is_multi_label: bool,
    pub(super) report: Option<NgramReport>,
}

/// How training went.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct NgramReport {
    /// The weight of the data against the penalty that was taken.
    pub c: f32,
    /// Mean log-loss in nats on the validation texts, weighted as the classes are.
    pub valid_loss: Option<f64>,
    /// Share of the validation texts classified rightly.
    pub valid_accuracy: Option<f64>,
    /// Norm of the gradient at the solution, relative to its norm where all weights are 0.
    pub relative_gradient: f64,
    /// Products with the Gram matrix of the training texts that training took.
    pub products: usize,
}

impl NgramModel {
    /// Number of classes.
    pub fn num_classes(&self) -> usize {
        self.prior.len()
    }

    /// Number of n-grams that the model knows.
    pub fn num_features(&self) -> usize {
        self.vocabulary.len()
    }

    /// Features of a row: n-grams, then what stands beside the text.
    pub(super) fn num_inputs(&self) -> usize {
        self.vocabulary.len() + feature_columns::num_features(&self.scheme.columns)
    }

    /// Bytes that the model holds.
    pub fn bytes(&self) -> usize {
        16 * self.vocabulary.len() + 4 * (self.weights.len() + self.prior.len())
    }

    /// Which n-grams the model reads.
    pub fn scheme(&self) -> &NgramScheme {
        &self.scheme
    }

    /// How training went; none for a model made from tensors.
    pub fn report(&self) -> Option<&NgramReport> {
        self.report.as_ref()
    }

    /// Scores of the classes, whose softmax is their probability: x W + b, or the logarithm of the classes' shares in
    /// training where the text has no known n-gram. Of labels that do not exclude each other, the log-odds of each.
    ///
    /// Two classes get −z/2 and z/2, z being the log-odds of class 1.
    ///
    /// # Shapes
    ///
    /// Returns (classes).
    pub fn logits(&self, text: &str) -> Vec<f32> {
        let mut logits = vec![0.0; self.num_classes()];
        self.write_logits(text, &mut Scratch::default(), &mut logits);
        logits
    }

    /// [`NgramModel::logits`] of many texts, on all threads of the current rayon pool; the same numbers.
    ///
    /// # Shapes
    ///
    /// Returns (texts, classes).
    pub fn logits_batch(&self, texts: &[&str]) -> Vec<f32> {
        let classes = self.num_classes();
        let mut logits = vec![0.0; texts.len() * classes];
        /// Texts that one task reads.
        const TEXTS_PER_TASK: usize = 16;
        let halting = CancelFlag::current();
        parallel::for_each_chunk(&mut logits, TEXTS_PER_TASK * classes, |task, logits| {
            let mut scratch = Scratch::default();
            for (row, text) in logits.chunks_exact_mut(classes).zip(&texts[task * TEXTS_PER_TASK..]) {
                halting.check();
                self.write_logits(text, &mut scratch, row);
            }
        });
        logits
    }

    fn write_logits(&self, text: &str, scratch: &mut Scratch, logits: &mut [f32]) {
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

    /// The share of a text's different n-grams that the model knows; 1 of a text without any.
    pub fn known_share(&self, text: &str) -> f32 {
        let mut scratch = Scratch::default();
        let mut count = 0;
        let hashes = scratch.reader.read(text, &self.scheme).chunk_by(|a, b| a == b);
        self.vocabulary
            .push_row(hashes.inspect(|_| count += 1).map(|run| (run[0], run.len() as u32)), &mut scratch.row);
        if count == 0 { 1.0 } else { scratch.row.indices.len() as f32 / count as f32 }
    }

    /// What each n-gram of a text that the model knows adds to the score of a class, less the mean of what it adds to the
    /// others; of two classes its part of the log-odds. They add up to the score of the text without its bias.
    pub fn contributions(&self, text: &str, class: usize) -> Vec<(String, f32)> {
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

    /// What a feature's weights do for a class, less the mean of what they do for the others.
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

    /// The n-grams that speak most for each class in texts of it, at most `most` of each, the strongest first: what they add to its
    /// score there on average, less the mean of what they add to the others. Of n-grams that are part of each other only the
    /// strongest is given.
    pub fn strongest_ngrams(&self, texts: &[&str], answers: &[&[u32]], most: usize) -> Vec<Vec<(String, f32)>> {
        /// Candidates for each that is wanted: many are parts of others.
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
            for (hash, name) in NgramReader::read_named(text, &self.scheme) {
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
    /// Of what stands beside the text.
    columns: SparseRows,
}
