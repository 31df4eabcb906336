//! Training: stochastic ascent of the penalized likelihood, sentence by sentence (AdaGrad; Duchi, Hazan and Singer
//! 2011).
//!
//! Sentences are processed in sequence, so the result does not depend on threads. The penalty on features that a
//! sentence does not have is applied later, when they next occur.

use super::Crf;
use super::chain::{ForwardBackward, Transitions, path_score, viterbi};
use super::tags::TagScheme;
use chumoku_kernels::Philox;
use std::collections::HashMap;

/// The initial sum of squared gradients.
const INITIAL_SQUARE: f32 = 0.1;
/// The maximum number of weights. Larger data drops rare features.
const MAX_WEIGHTS: usize = 1 << 23;

/// A training sentence.
pub struct CrfSentence {
    /// The feature hashes of each unit.
    pub features: Vec<Vec<u64>>,
    /// The label of each unit.
    pub labels: Vec<usize>,
}

/// Returns the score of each label at each unit.
pub(super) fn emissions(weights: &[f32], known: &[Vec<u32>], labels: usize) -> Vec<f32> {
    let mut out = vec![0.0; known.len() * labels];
    for (row, features) in out.chunks_exact_mut(labels).zip(known) {
        for &feature in features {
            let weights = &weights[feature as usize * labels..][..labels];
            row.iter_mut().zip(weights).for_each(|(e, w)| *e += w);
        }
    }
    out
}

/// Training sentences with feature indices.
pub struct Corpus {
    tags: TagScheme,
    /// In strictly ascending order. The position of a hash is the index of its feature.
    hashes: Vec<u64>,
    /// The feature indices by sentence and unit.
    features: Vec<Vec<Vec<u32>>>,
    labels: Vec<Vec<usize>>,
}

impl Corpus {
    /// Builds the corpus, and drops rare features if there are too many weights.
    pub fn new(sentences: Vec<CrfSentence>, tags: TagScheme) -> Corpus {
        Corpus::with_max_weights(sentences, tags, MAX_WEIGHTS)
    }

    fn with_max_weights(sentences: Vec<CrfSentence>, tags: TagScheme, most: usize) -> Corpus {
        let mut counts: HashMap<u64, u32> = HashMap::new();
        sentences.iter().flat_map(|s| &s.features).flatten().for_each(|hash| *counts.entry(*hash).or_default() += 1);
        let mut least = 1;
        while counts.len() * tags.count() > most && !counts.is_empty() {
            least += 1;
            counts.retain(|_, n| *n >= least);
        }
        let mut hashes: Vec<u64> = counts.into_keys().collect();
        hashes.sort_unstable();
        let mut corpus = Corpus { tags, hashes, features: Vec::new(), labels: Vec::new() };
        for sentence in sentences {
            corpus.features.push(corpus.feature_ids(&sentence.features));
            corpus.labels.push(sentence.labels);
        }
        corpus
    }

    /// Returns the feature indices of each unit. Unknown features are skipped.
    pub fn feature_ids(&self, seen: &[Vec<u64>]) -> Vec<Vec<u32>> {
        let find = |hash: &u64| self.hashes.binary_search(hash).ok().map(|at| at as u32);
        seen.iter().map(|seen| seen.iter().filter_map(find).collect()).collect()
    }
}

/// Training settings.
#[derive(Clone, Copy, Debug)]
pub struct CrfSettings {
    /// The initial step size.
    pub rate: f32,
    /// The L2 penalty.
    pub penalty: f32,
}

/// The state of training.
pub struct CrfTrainer<'a> {
    corpus: &'a Corpus,
    rate: f32,
    /// The penalty per sentence.
    penalty: f32,
    seed: u64,
    epoch: u64,
    /// The number of processed sentences.
    step: u32,
    weights: Vec<f32>,
    /// The sums of squared gradients.
    squares: Vec<f32>,
    /// The step at which each feature last occurred.
    last_seen: Vec<u32>,
    transitions: Transitions,
    transition_squares: Vec<f64>,
}

impl<'a> CrfTrainer<'a> {
    /// Starts training on a corpus from zero weights.
    pub fn new(corpus: &'a Corpus, settings: CrfSettings, seed: u64) -> CrfTrainer<'a> {
        let (features, labels) = (corpus.hashes.len(), corpus.tags.count());
        CrfTrainer {
            corpus,
            rate: settings.rate,
            penalty: settings.penalty / corpus.features.len().max(1) as f32,
            seed,
            epoch: 0,
            step: 0,
            weights: vec![0.0; features * labels],
            squares: vec![INITIAL_SQUARE; features * labels],
            last_seen: vec![0; features],
            transitions: corpus.tags.transitions(&vec![0.0; (labels + 1) * labels]),
            transition_squares: vec![f64::from(INITIAL_SQUARE); (labels + 1) * labels],
        }
    }

    /// Trains on each sentence once, in a random order. Returns the mean loss per sentence, or `None` if a loss is not
    /// finite.
    pub fn train_epoch(&mut self) -> Option<f64> {
        self.epoch += 1;
        let n = self.corpus.features.len();
        let mut loss = 0.0;
        for at in Philox::new(self.seed, 0x6372_6600 + self.epoch).permutation(n) {
            let (known, labels) = (&self.corpus.features[at], &self.corpus.labels[at]);
            if !known.is_empty() {
                loss += self.train_step(known, labels)?;
            }
        }
        Some(loss / n.max(1) as f64)
    }

    fn train_step(&mut self, known: &[Vec<u32>], truth: &[usize]) -> Option<f64> {
        let labels = self.corpus.tags.count();
        self.step = self.step.saturating_add(1);
        self.apply_penalty(known);
        let e = emissions(&self.weights, known, labels);
        let sums = ForwardBackward::new(&e, &self.transitions)?;
        let loss = sums.log_z - path_score(&e, &self.transitions, truth);
        let mut gradient = vec![0.0_f32; labels];
        for (t, features) in known.iter().enumerate() {
            gradient.iter_mut().zip(sums.marginals(t, labels)).for_each(|(g, p)| *g = p as f32);
            gradient[truth[t]] -= 1.0;
            for &feature in features {
                let row = feature as usize * labels..(feature as usize + 1) * labels;
                let all = self.weights[row.clone()].iter_mut().zip(&mut self.squares[row]).zip(&gradient);
                for ((w, square), g) in all {
                    *square += g * g;
                    *w -= self.rate * g / square.sqrt();
                }
            }
        }
        let mut pairs = vec![0.0; self.transitions.scores.len()];
        sums.add_pairs(&self.transitions, &mut pairs);
        for (t, &label) in truth.iter().enumerate() {
            let from = if t == 0 { labels } else { truth[t - 1] };
            pairs[from * labels + label] -= 1.0;
        }
        for (at, gradient) in pairs.into_iter().enumerate() {
            let score = self.transitions.scores[at];
            if score.is_finite() && gradient != 0.0 {
                let gradient = gradient + f64::from(self.penalty) * score;
                self.transition_squares[at] += gradient * gradient;
                self.transitions.set(at, score - f64::from(self.rate) * gradient / self.transition_squares[at].sqrt());
            }
        }
        loss.is_finite().then_some(loss)
    }

    /// Applies the penalty of the steps since these features last occurred.
    fn apply_penalty(&mut self, known: &[Vec<u32>]) {
        let labels = self.corpus.tags.count();
        for &feature in known.iter().flatten() {
            let feature = feature as usize;
            let since = self.step - self.last_seen[feature];
            if since > 0 {
                self.last_seen[feature] = self.step;
                let row = feature * labels..(feature + 1) * labels;
                let all = self.weights[row.clone()].iter_mut().zip(&self.squares[row]);
                all.for_each(|(w, square)| *w /= 1.0 + self.rate * self.penalty * since as f32 / square.sqrt());
            }
        }
    }

    /// Returns the best labels of a text, from the feature indices of its units.
    pub fn decode(&self, known: &[Vec<u32>]) -> Vec<usize> {
        viterbi(&emissions(&self.weights, known, self.corpus.tags.count()), &self.transitions)
    }

    /// Converts the state into a model.
    pub fn into_model(self) -> Crf {
        let finite = |x: &f64| if x.is_finite() { *x as f32 } else { 0.0 };
        Crf {
            hashes: self.corpus.hashes.clone(),
            weights: self.weights,
            transitions: self.transitions.scores.iter().map(finite).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAGS: TagScheme = TagScheme { kinds: 1, each_word: false };

    /// Feature 7 begins a span, 8 continues it, 9 is outside. Features from 100 occur once.
    fn corpus() -> Corpus {
        let sentence = |i: u64| CrfSentence {
            features: vec![vec![9, 100 + i], vec![7], vec![8], vec![9]],
            labels: vec![0, 1, 2, 0],
        };
        Corpus::new((0..20).map(sentence).collect(), TAGS)
    }

    #[test]
    fn training_fits_the_data() {
        let corpus = corpus();
        let mut fit = CrfTrainer::new(&corpus, CrfSettings { rate: 0.3, penalty: 0.1 }, 1);
        let first = fit.train_epoch().unwrap();
        let later = (0..9).map(|_| fit.train_epoch().unwrap()).last().unwrap();
        assert!(later < 0.1 * first, "{first} {later}");
        assert_eq!(
            fit.decode(&corpus.feature_ids(&[vec![9], vec![7], vec![8], vec![8], vec![9], vec![7]])),
            [0, 1, 2, 2, 0, 1]
        );
        // An inside label needs a beginning before it.
        assert_ne!(fit.decode(&corpus.feature_ids(&[vec![8]])), [2]);
    }

    #[test]
    fn a_penalty_keeps_weights_small() {
        let corpus = corpus();
        let most = |penalty: f32| {
            let mut fit = CrfTrainer::new(&corpus, CrfSettings { rate: 0.3, penalty }, 1);
            (0..5).for_each(|_| assert!(fit.train_epoch().is_some()));
            fit.into_model().weights.iter().fold(0.0, |most: f32, w| most.max(w.abs()))
        };
        assert!(most(50.0) < 0.7 * most(0.0), "{} {}", most(50.0), most(0.0));
    }

    #[test]
    fn rare_features_of_large_data_are_dropped() {
        let sentence = |i: u64| CrfSentence { features: vec![vec![9, 100 + i]], labels: vec![0] };
        let corpus = Corpus::with_max_weights((0..20).map(sentence).collect(), TAGS, 20 * TAGS.count());
        assert_eq!(corpus.hashes, [9]);
        assert_eq!(corpus.features[3], [[0]]);
    }
}
