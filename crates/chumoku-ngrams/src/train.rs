//! Training: features, their weights, and the choice of C.

use super::NgramConfig;
use super::column_matrix::fitting_bytes;
use super::error::NgramError;
use super::features::{ColumnGroup, FeatureSelection, count_ngrams, select_features};
use super::memory_estimate::{NgramEstimate, TrainingEstimate, slice_bits_for, text_bytes};
use super::model::{NgramModel, NgramReport};
use super::newton::{NewtonSolver, StopCriteria};
use super::objective::{DualVector, LogisticObjective};
use super::sparse::SparseRows;
use super::target::{NgramTarget, label_ids_of, log_loss, num_outputs};
use super::tokens::{HashSlice, NgramScheme};
use super::vocabulary::{CountedTexts, Vocabulary};
use crate::feature_columns;
use chumoku_kernels::parallel;
use chumoku_text::lang::lang;
use chumoku_text::row::RowRef;
use chumoku_text::{failpoint, memory, tr};
use std::sync::atomic::{AtomicBool, Ordering};

/// Training data of a model.
#[derive(Debug, Clone, Copy)]
pub struct NgramData<'a, A = u32> {
    /// Training texts.
    pub texts: &'a [RowRef<'a>],
    /// The target of each training text.
    pub labels: &'a [A],
    /// Number of classes or labels; ids are below it.
    pub num_classes: usize,
    /// Validation texts and targets, for the choice of C.
    pub valid: Option<(&'a [RowRef<'a>], &'a [A])>,
    /// Weight of each training text in the loss; 1 if absent. The choice and the weights of n-grams depend on the texts
    /// alone.
    pub weights: Option<&'a [f32]>,
    /// Weight of each validation text; 1 if absent.
    pub valid_weights: Option<&'a [f32]>,
}

/// [`NgramData`] with target ids, independent of the target type.
#[derive(Clone, Copy)]
struct NgramExamples<'a> {
    texts: &'a [RowRef<'a>],
    labels: &'a [&'a [u32]],
    num_classes: usize,
    valid: Option<(&'a [RowRef<'a>], &'a [&'a [u32]])>,
    weights: Option<&'a [f32]>,
    valid_weights: Option<&'a [f32]>,
    /// True for multi-label targets.
    is_multi_label: bool,
}

/// With at least this many texts, a feature must occur in two of them.
const MANY_TEXTS: usize = 1000;

impl NgramModel {
    /// Trains a model on labeled texts.
    ///
    /// Calls `progress` with one line per event. Training stops at the next step after `cancel` is set.
    ///
    /// # Errors
    ///
    /// If texts, labels, weights or settings do not match, or with [`NgramError::Cancelled`].
    pub fn train<A: NgramTarget>(
        data: &NgramData<'_, A>,
        config: &NgramConfig,
        cancel: &AtomicBool,
        progress: &dyn Fn(&str),
    ) -> Result<NgramModel, NgramError> {
        Ok(NgramModel::train_warm(data, config, WarmStart::default(), cancel, progress)?.0)
    }

    /// Like [`NgramModel::train`], from a warm start. Also returns the warm start of a later training.
    pub fn train_warm<A: NgramTarget>(
        data: &NgramData<'_, A>,
        config: &NgramConfig,
        warm_start: WarmStart,
        cancel: &AtomicBool,
        progress: &dyn Fn(&str),
    ) -> Result<(NgramModel, WarmStart), NgramError> {
        let NgramData { texts, num_classes, weights, valid_weights, .. } = *data;
        let (labels, valid) =
            (label_ids_of(data.labels), data.valid.map(|(texts, labels)| (texts, label_ids_of(labels))));
        let (labels, valid) = (&labels[..], valid.as_ref().map(|(texts, labels)| (*texts, &labels[..])));
        let examples =
            NgramExamples { texts, labels, num_classes, valid, weights, valid_weights, is_multi_label: A::IS_SET };
        NgramModel::train_examples(&examples, config, warm_start, cancel, progress)
    }

    fn train_examples(
        data: &NgramExamples<'_>,
        config: &NgramConfig,
        warm_start: WarmStart,
        cancel: &AtomicBool,
        progress: &dyn Fn(&str),
    ) -> Result<(NgramModel, WarmStart), NgramError> {
        check(data, config)?;
        let is_cancelled = || cancel.load(Ordering::Relaxed);
        let go_on = || {
            if is_cancelled() { Err(NgramError::Cancelled) } else { Ok(()) }
        };
        let outputs = num_outputs(data.num_classes, data.is_multi_label);
        if let Some([needed, free]) = memory::shortage(fitting_bytes(data.texts.len(), outputs)) {
            return Err(NgramError::Memory { texts: data.texts.len(), classes: data.num_classes, needed, free });
        }

        let scheme = scheme_for(data.texts, config);
        let reading = |read: usize| {
            progress(&tr!("{read} of {} texts read", "{} 件中 {read} 件を読み込み済み", data.texts.len()));
        };
        let choice = FeatureSelection {
            min_document_frequency: config.min_texts(data.texts.len()),
            max_features: config.max_weights / outputs,
            relevance: config.relevance,
            labels: data.labels,
            classes: data.num_classes,
            column_features: feature_columns::num_features(&scheme.columns),
        };
        let known = warm_start.texts.filter(|(known, _)| *known == scheme).map(|(_, counted)| counted);
        let NgramCounts { mut texts, parts, has_all_ngrams: is_whole } = match known {
            Some(texts) => NgramCounts { parts: count_ngrams(&texts, &choice), texts, has_all_ngrams: true },
            None => NgramCounts::count(data.texts, &scheme, &choice, (&is_cancelled, &reading)),
        };
        go_on()?;
        let (vocabulary, x) = select_features(parts, &texts, &choice);
        failpoint::hit("ngrams");
        go_on()?;
        progress(&tr!(
            "{} n-grams from {} texts",
            "{1} 件のテキストから {0} 個の n-gram",
            vocabulary.len(),
            data.texts.len()
        ));

        let row_weights = data.weights.map_or_else(|| vec![1.0; data.texts.len()], <[f32]>::to_vec);
        let prior = class_prior(data, &row_weights);
        let bias = match prior[..] {
            [first, second] if !data.is_multi_label => vec![second - first],
            _ => prior.clone(),
        };
        let is_set = data.is_multi_label;
        let problem = LogisticObjective {
            x: &x,
            labels: data.labels,
            is_multi_label: is_set,
            row_weights: &row_weights,
            outputs,
            prior: &bias,
        };
        let valid = data.valid.filter(|(texts, _)| !texts.is_empty());
        let valid_counted = valid.filter(|_| is_whole).map(|(texts, _)| {
            let counted = CountedTexts::read(texts, &scheme, &is_cancelled, &|_| {});
            let rows = counted.rows(&vocabulary);
            (counted, rows)
        });
        go_on()?;

        let valid = valid.map(|(texts, labels)| {
            let rows = match &valid_counted {
                Some((_, rows)) => ValidationRows::Rows(rows),
                None => ValidationRows::Texts(texts, &scheme, &vocabulary),
            };
            (rows, labels)
        });
        let listener = TrainingCallbacks { is_cancelled: &is_cancelled, progress };
        let start = warm_start.start.filter(|start| start.dual.len() == data.texts.len() * outputs);
        let search = PenaltySearch {
            problem: &problem,
            solver: NewtonSolver::new(&problem),
            valid,
            data,
            tolerance: config.tolerance,
            listener,
            products: 0,
        };
        let PenaltyTrial { weights, start, report } = search.run(start, config)?;
        if let Some((valid, _)) = valid_counted {
            texts.append(valid);
        }
        let found = WarmStart { texts: is_whole.then(|| (scheme.clone(), texts)), start: Some(start) };
        Ok((NgramModel { scheme, vocabulary, weights, prior, is_multi_label: is_set, report: Some(report) }, found))
    }
}

/// The n-grams of training texts.
struct NgramCounts {
    /// The counts; if texts are read slice by slice, only the feature columns.
    texts: CountedTexts,
    /// The columns of n-grams that occur in enough texts.
    parts: Vec<ColumnGroup>,
    has_all_ngrams: bool,
}

impl NgramCounts {
    /// Reads texts once, or once per slice of hashes if all counts need too much memory.
    fn count(
        texts: &[RowRef<'_>],
        scheme: &NgramScheme,
        choice: &FeatureSelection<'_>,
        (is_cancelled, reading): (&(dyn Fn() -> bool + Sync), &dyn Fn(usize)),
    ) -> NgramCounts {
        let bits = slice_bits_for(texts, scheme);
        let read = |slice: HashSlice, done: usize| {
            let progress = |read: usize| reading((done * texts.len() + read) >> bits);
            CountedTexts::read_slice(texts, scheme, slice, is_cancelled, &progress)
        };
        let mut slices = HashSlice::all(bits).enumerate();
        let mut first = read(slices.next().map_or_else(HashSlice::default, |(_, slice)| slice), 0);
        let mut parts = count_ngrams(&first, choice);
        if bits == 0 {
            return NgramCounts { texts: first, parts, has_all_ngrams: true };
        }
        first.drop_ngrams();
        for (done, slice) in slices {
            if !is_cancelled() {
                parts.extend(count_ngrams(&read(slice, done), choice));
            }
        }
        NgramCounts { texts: first, parts, has_all_ngrams: false }
    }
}

impl NgramConfig {
    /// Returns the minimum number of training texts that contain a feature.
    fn min_texts(&self, texts: usize) -> u32 {
        self.min_document_frequency.unwrap_or(if texts < MANY_TEXTS { 1 } else { 2 })
    }

    /// Estimates an upper bound on the bytes of training from a sample of the texts: with `valid` for validation, and on
    /// all of them. `is_multi_label` is true for multi-label targets.
    pub fn training_memory(
        &self,
        train: &[RowRef<'_>],
        valid: &[RowRef<'_>],
        classes: usize,
        is_multi_label: bool,
    ) -> f64 {
        let all = [train, valid].concat();
        // The larger of both schemes, if one of them drops n-grams inside words.
        let scheme = Some(scheme_for(&all, self)).filter(|scheme| scheme.inside_words.is_some());
        let scheme = scheme.unwrap_or_else(|| scheme_for(train, self));
        let NgramEstimate { ngrams, features } = NgramEstimate::estimate(&all, &scheme, self.min_texts(train.len()));
        let share = text_bytes(train) / text_bytes(&all).max(1.0);
        let bytes = |share: f64, texts: usize| {
            let train = NgramEstimate { ngrams: share * ngrams, features };
            let estimates = [train, NgramEstimate { ngrams: ngrams - train.ngrams, features: 0.0 }];
            let max_features = self.max_weights / num_outputs(classes, is_multi_label).max(1);
            TrainingEstimate { estimates, texts, classes, is_multi_label, max_features }.bytes()
        };
        bytes(share, train.len()).max(bytes(1.0, all.len()))
    }
}

/// The warm start of a later training on the training and validation texts together.
#[derive(Default)]
pub struct WarmStart {
    /// The n-grams of all these texts.
    texts: Option<(NgramScheme, CountedTexts)>,
    start: Option<StartPoint>,
}

impl WarmStart {
    /// Drops the n-grams; the later training reads them again.
    pub fn drop_ngrams(&mut self) {
        self.texts = None;
    }
}

/// The start point of a fit: a solution as in [`DualVector`].
struct StartPoint {
    /// (texts, outputs)
    dual: Vec<f32>,
    /// (outputs)
    bias: Vec<f32>,
}

struct TrainingCallbacks<'a> {
    is_cancelled: &'a (dyn Fn() -> bool + Sync),
    progress: &'a dyn Fn(&str),
}

/// The validation rows for the choice of C.
#[derive(Clone, Copy)]
enum ValidationRows<'a> {
    Rows(&'a SparseRows),
    /// Texts that are read on each evaluation, because their rows need too much memory.
    Texts(&'a [RowRef<'a>], &'a NgramScheme, &'a Vocabulary),
}

impl ValidationRows<'_> {
    /// Returns the scores of each text.
    fn scores(self, weights: &[f32], bias: &[f32]) -> Vec<f32> {
        /// Texts whose rows are held at a time.
        const AT_A_TIME: usize = 1 << 13;
        match self {
            ValidationRows::Rows(rows) => rows.matmul_plus(weights, bias),
            ValidationRows::Texts(texts, scheme, vocabulary) => {
                let of_some = |texts: &[RowRef<'_>]| {
                    let counted = CountedTexts::read(texts, scheme, &|| false, &|_| {});
                    counted.rows(vocabulary).matmul_plus(weights, bias)
                };
                texts.chunks(AT_A_TIME).flat_map(of_some).collect()
            }
        }
    }
}

/// The search for C.
struct PenaltySearch<'a> {
    problem: &'a LogisticObjective<'a>,
    solver: NewtonSolver<'a>,
    valid: Option<(ValidationRows<'a>, &'a [&'a [u32]])>,
    data: &'a NgramExamples<'a>,
    tolerance: f64,
    listener: TrainingCallbacks<'a>,
    /// Number of products so far.
    products: usize,
}

/// The solution at one C.
struct PenaltyTrial {
    weights: Vec<f32>,
    start: StartPoint,
    report: NgramReport,
}

impl PenaltyTrial {
    fn is_better_than(&self, other: &PenaltyTrial) -> bool {
        match (self.report.valid_loss, other.report.valid_loss) {
            (Some(loss), Some(other)) => loss < other,
            _ => true,
        }
    }
}

impl PenaltySearch<'_> {
    /// Returns the weights at the C with the lowest validation loss, or at the configured C without validation rows.
    fn run(mut self, start: Option<StartPoint>, config: &NgramConfig) -> Result<PenaltyTrial, NgramError> {
        let mut at = self.problem.start();
        let is_new = start.is_none();
        if let Some(start) = start {
            self.problem.set_point(&start.dual, &start.bias, &mut at);
            self.solver.fill_scores(&mut at);
        }
        if self.valid.is_none() {
            // Small values of C are quick to solve, and their solutions are good starts for large ones.
            for &c in config.c_grid.iter().filter(|&&c| is_new && c < config.c_without_validation) {
                self.fit(&mut at, c)?;
            }
            return self.trial(&mut at, config.c_without_validation);
        }
        // The loss has a single minimum in C. The search goes up the grid from its second value while the loss falls,
        // starting each fit from the previous solution. If it never falls, the search goes down.
        let (below, above) = config.c_grid.split_at(usize::from(config.c_grid.len() > 1));
        let mut best = self.trial(&mut at, above[0])?;
        let first = at.clone();
        for &c in &above[1..] {
            let trial = self.trial(&mut at, c)?;
            if !trial.is_better_than(&best) {
                break;
            }
            best = trial;
        }
        if best.report.c == above[0] {
            at = first;
            for &c in below {
                let trial = self.trial(&mut at, c)?;
                if trial.is_better_than(&best) {
                    best = trial;
                }
            }
        }
        best.report.products = self.products;
        Ok(best)
    }

    /// Moves to the solution at `c`; returns the norm of its gradient.
    fn fit(&mut self, at: &mut DualVector, c: f32) -> Result<f64, NgramError> {
        let step = |step: usize, gradient: f64| {
            (self.listener.progress)(&tr!(
                "C {c}: step {step}, gradient {gradient:.4} of {:.4}",
                "C {c}：ステップ {step}、勾配 {gradient:.4}（目標 {:.4}）",
                self.tolerance
            ));
        };
        let stop =
            StopCriteria { tolerance: self.tolerance, is_cancelled: self.listener.is_cancelled, progress: &step };
        let outcome = self.solver.fit(at, c, &stop);
        if (self.listener.is_cancelled)() {
            return Err(NgramError::Cancelled);
        }
        self.products += outcome.products;
        Ok(outcome.relative_gradient)
    }

    /// Returns the solution at `c` with its validation scores.
    fn trial(&mut self, at: &mut DualVector, c: f32) -> Result<PenaltyTrial, NgramError> {
        let relative_gradient = self.fit(at, c)?;
        let weights = self.problem.weights(at);
        let mut dual = self.problem.unpadded(&at.dual);
        let score = self.valid.map(|(rows, labels)| {
            let (weights, bias) = weights.split_at(weights.len() - self.problem.outputs);
            let scores = rows.scores(weights, bias);
            let score = evaluate(&scores, labels, self.data);
            let percent = 100.0 * score.accuracy;
            (self.listener.progress)(&tr!(
                "C {c}: validation loss {:.4}, accuracy {percent:.2} %",
                "C {c}：検証データの損失 {:.4}、正解率 {percent:.2} %",
                score.loss
            ));
            // Validation rows do not contribute to the weights.
            dual.resize(dual.len() + scores.len(), 0.0);
            score
        });
        let report = NgramReport {
            c,
            valid_loss: score.map(|score| score.loss),
            valid_accuracy: score.map(|score| score.accuracy),
            relative_gradient,
            products: self.products,
        };
        Ok(PenaltyTrial { weights, start: StartPoint { dual, bias: at.bias.clone() }, report })
    }
}

#[derive(Clone, Copy)]
struct ValidationScore {
    loss: f64,
    accuracy: f64,
}

fn check(data: &NgramExamples<'_>, config: &NgramConfig) -> Result<(), NgramError> {
    if data.texts.is_empty() {
        return Err(NgramError::NoTexts);
    }
    if data.num_classes < 2 {
        return Err(NgramError::Classes { got: data.num_classes });
    }
    for (texts, labels) in [Some((data.texts, data.labels)), data.valid].into_iter().flatten() {
        if texts.len() != labels.len() || texts.len() > u32::MAX as usize {
            return Err(NgramError::Lengths { texts: texts.len(), labels: labels.len() });
        }
        let is_unknown = |label: &&u32| **label as usize >= data.num_classes;
        let unknown = |answer: &[u32]| answer.iter().find(is_unknown).copied();
        if let Some((row, label)) = labels.iter().enumerate().find_map(|(row, answer)| Some((row, unknown(answer)?))) {
            return Err(NgramError::Label { row, label, classes: data.num_classes });
        }
    }
    let valid_texts = data.valid.map_or(0, |(texts, _)| texts.len());
    for (weights, texts) in [(data.weights, data.texts.len()), (data.valid_weights, valid_texts)] {
        let Some(weights) = weights else { continue };
        let is_weight = |weight: &f32| weight.is_finite() && *weight >= 0.0;
        if weights.len() != texts || !weights.iter().all(is_weight) {
            let bad = weights.iter().copied().enumerate().find(|(_, weight)| !is_weight(weight));
            return Err(NgramError::Weights { texts, weights: weights.len(), bad });
        }
    }
    if data.weights.is_some_and(|weights| weights.iter().all(|&weight| weight == 0.0)) {
        return Err(NgramError::NoWeight);
    }
    config.scheme.check()?;
    let is_c = |c: &f32| *c > 0.0 && *c <= 1e6;
    if !config.c_grid.iter().chain([&config.c_without_validation]).all(is_c)
        || config.c_grid.is_empty()
        || !config.c_grid.is_sorted()
    {
        let got = format!("{:?}", config.c_grid);
        return Err(NgramError::Setting {
            setting: "c_grid",
            expected: lang()
                .pick("one or more ascending numbers above 0, at most 1e6,", "0 より大きく 1e6 以下の昇順の数"),
            got,
        });
    }
    if !(0.0..=2.0).contains(&config.relevance) {
        let got = config.relevance.to_string();
        let expected = lang().pick("a number from 0 to 2", "0 から 2 までの数");
        return Err(NgramError::Setting { setting: "relevance", expected, got });
    }
    if config.tolerance.is_nan() || config.tolerance <= 0.0 {
        let got = config.tolerance.to_string();
        return Err(NgramError::Setting {
            setting: "tolerance",
            expected: lang().pick("a number above 0", "正の数"),
            got,
        });
    }
    Ok(())
}

/// Returns the configured scheme, without character n-grams inside words if texts are long.
fn scheme_for(texts: &[RowRef<'_>], config: &NgramConfig) -> NgramScheme {
    let mut scheme = config.scheme.clone();
    let words: usize = parallel::map(texts, |row| count_words(*row)).iter().sum();
    if words as f64 > config.inside_words_up_to * texts.len() as f64 {
        scheme.inside_words = None;
    }
    scheme.pairs = texts.iter().all(|row| row.is_pair());
    scheme
}

/// Counts the words of a row. The two beside the gap of a pair count as one.
fn count_words(row: RowRef<'_>) -> usize {
    let words = row.text().split_whitespace().count();
    let Some((first, second)) = row.pair() else { return words };
    let ends = [first.chars().next_back(), second.chars().next()];
    words + 1 - ends.into_iter().flatten().filter(|end| !end.is_whitespace()).count()
}

/// Returns the logarithm of each class's weighted share, with half a row added per class. For multi-label targets,
/// returns the log-odds of each label.
fn class_prior(data: &NgramExamples<'_>, row_weights: &[f32]) -> Vec<f32> {
    let mut sums = vec![0.5_f64; data.num_classes];
    for (answer, &weight) in data.labels.iter().zip(row_weights) {
        answer.iter().for_each(|&label| sums[label as usize] += f64::from(weight));
    }
    if data.is_multi_label {
        let rows = 1.0 + row_weights.iter().map(|&weight| f64::from(weight)).sum::<f64>();
        return sums.iter().map(|sum| (sum / (rows - sum)).ln() as f32).collect();
    }
    let all: f64 = sums.iter().sum();
    sums.iter().map(|sum| (sum / all).ln() as f32).collect()
}

fn evaluate(scores: &[f32], labels: &[&[u32]], data: &NgramExamples<'_>) -> ValidationScore {
    let (mut total, mut weights, mut right) = (0.0, 0.0, 0);
    for (row, (scores, answer)) in scores.chunks_exact(scores.len() / labels.len()).zip(labels).enumerate() {
        let weight = data.valid_weights.map_or(1.0, |weights| f64::from(weights[row]));
        total += weight * log_loss(scores, answer, data.is_multi_label);
        weights += weight;
        right += usize::from(is_correct(scores, answer, data.is_multi_label));
    }
    ValidationScore {
        loss: if weights > 0.0 { total / weights } else { total },
        accuracy: right as f64 / labels.len() as f64,
    }
}

/// Returns true if the scores predict the class, or exactly these labels.
fn is_correct(scores: &[f32], answer: &[u32], is_set: bool) -> bool {
    if is_set {
        let found = (0..scores.len() as u32).filter(|&label| scores[label as usize] > 0.0);
        return found.eq(answer.iter().copied());
    }
    let predicted = match scores {
        [score] => usize::from(*score > 0.0),
        many => (0..many.len()).fold(0, |best, class| if many[class] > many[best] { class } else { best }),
    };
    answer.first().is_some_and(|&label| label as usize == predicted)
}
