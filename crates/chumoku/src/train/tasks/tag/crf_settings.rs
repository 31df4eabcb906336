//! The choice of the settings and number of epochs of the CRF, on the validation rows.

use super::{TaggerData, not_finite, unit_positions};
use crate::crf::{Corpus, CrfSettings, CrfTrainer, TagScheme, features};
use crate::data::SpanExample;
use crate::text_models::tagger::units_of_row;
use crate::train::settings::options::TrainOptions;
use crate::train::training_loop::train_event::{TrainEvent, topic_label};
use crate::{Error, Result, tr};
use chumoku_kernels::parallel;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// The candidate settings: small steps for many epochs, and large ones.
const CANDIDATES: [CrfSettings; 3] = [
    CrfSettings { rate: 0.1, penalty: 0.1 },
    CrfSettings { rate: 0.3, penalty: 1.0 },
    CrfSettings { rate: 0.3, penalty: 5.0 },
];
/// The settings and epochs without validation rows.
const DEFAULT: (CrfSettings, u64) = (CANDIDATES[1], 15);
/// The maximum number of epochs.
const MAX_EPOCHS: u64 = 25;
/// The number of epochs without improvement after which a candidate is dropped.
const PATIENCE: u64 = 5;

/// Settings and a number of epochs.
#[derive(Clone, Copy, Debug)]
pub(super) struct CrfChoice {
    pub(super) settings: CrfSettings,
    pub(super) epochs: u64,
    /// F1 on the validation rows, if any of them has spans.
    pub(super) f1: Option<f64>,
}

/// Returns the settings that are best on the validation rows, or the default ones if no validation row has spans.
///
/// # Errors
/// If a likelihood is not finite. [`Error::Interrupted`] if `stop` was set.
pub(super) fn choose_crf_settings(
    data: &TaggerData,
    options: &TrainOptions,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<CrfChoice> {
    // With a network, the option for epochs applies to the network.
    let requested = options.epochs.filter(|_| options.from.is_none());
    if data.valid.iter().all(|row| row.spans.is_empty()) {
        return Ok(CrfChoice { settings: DEFAULT.0, epochs: requested.unwrap_or(DEFAULT.1), f1: None });
    }
    let (settings, epochs, f1) = best_trial(data, options.seed, requested.unwrap_or(MAX_EPOCHS), |epoch, best| {
        let (CrfSettings { rate, penalty }, best, f1) = best;
        observe(TrainEvent::Progress(
            topic_label("model"),
            tr!(
                "epoch {epoch}; best so far: learning rate {rate}, penalty {penalty}, epoch {best}, F1 {f1:.3}",
                "エポック {epoch}。これまでの最良: 学習率 {rate}、正則化 {penalty}、エポック {best}、F1 {f1:.3}"
            ),
        ));
        if stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    })?;
    let CrfSettings { rate, penalty } = settings;
    observe(TrainEvent::Message(
        topic_label("model"),
        tr!(
            "learning rate {rate}, penalty {penalty}, epochs {epochs}; validation F1 {f1:.3}",
            "学習率 {rate}、正則化 {penalty}、{epochs} エポック。検証データの F1 {f1:.3}"
        ),
    ));
    Ok(CrfChoice { settings, epochs, f1: Some(f1) })
}

/// The true spans of a row, and the positions of its units.
pub(super) struct TrueSpans {
    places: Vec<(usize, usize)>,
    /// Start, end and kind.
    spans: Vec<(usize, usize, usize)>,
}

impl TrueSpans {
    pub(super) fn new(data: &TaggerData, row: &SpanExample, units: &[Range<usize>]) -> TrueSpans {
        let kind = |label: &String| data.labels.binary_search(label).expect("kinds are known");
        TrueSpans {
            places: unit_positions(&row.text, units),
            spans: row.spans.iter().map(|span| (span.start, span.end, kind(&span.label))).collect(),
        }
    }

    /// Returns twice the number of correct spans, and the number of true plus predicted spans, for units with these
    /// labels.
    fn count(&self, labels: &[usize], tags: TagScheme) -> [usize; 2] {
        let found = tags.decode(labels);
        let place =
            |(units, kind): &(Range<usize>, usize)| (self.places[units.start].0, self.places[units.end - 1].1, *kind);
        let right = found.iter().map(place).filter(|span| self.spans.contains(span)).count();
        [2 * right, self.spans.len() + found.len()]
    }
}

/// The F1 of spans over rows, each with the labels of its units.
pub(super) fn span_f1<'a>(rows: impl Iterator<Item = (&'a TrueSpans, Vec<usize>)>, tags: TagScheme) -> f64 {
    let counts = rows.map(|(truth, labels)| truth.count(&labels, tags));
    let [twice, all] = counts.fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    twice as f64 / all.max(1) as f64
}

/// Settings, a number of epochs, and the F1 on the validation rows.
type CrfTrial = (CrfSettings, u64, f64);

/// Returns the best settings on the validation rows. Candidates run in parallel; `report` receives the best after each
/// epoch.
fn best_trial(
    data: &TaggerData,
    seed: u64,
    most: u64,
    mut report: impl FnMut(u64, CrfTrial) -> Result<()>,
) -> Result<CrfTrial> {
    let corpus = Corpus::new(data.sentences(&[&data.train]), data.tags());
    let prepare = |row: &SpanExample| {
        let units = units_of_row(row, data.unit);
        (TrueSpans::new(data, row, &units), corpus.feature_ids(&features(&row.text, &units, data.unit)))
    };
    let rows: Vec<(TrueSpans, Vec<Vec<u32>>)> = parallel::map(&data.valid, prepare);
    // Each candidate with its best epoch and F1.
    let mut runs: Vec<(CrfTrainer<'_>, CrfTrial)> =
        CANDIDATES.iter().map(|&settings| (CrfTrainer::new(&corpus, settings, seed), (settings, 0, -1.0))).collect();
    let mut best = (DEFAULT.0, 0, -1.0);
    for epoch in 1..=most {
        let trained = parallel::map_chunks(&mut runs, 1, |_, run| {
            let (fit, mine) = &mut run[0];
            fit.train_epoch()?;
            let f1 = span_f1(rows.iter().map(|(truth, known)| (truth, fit.decode(known))), data.tags());
            if f1 > mine.2 {
                (mine.1, mine.2) = (epoch, f1);
            }
            Some(())
        });
        trained.into_iter().collect::<Option<()>>().ok_or_else(not_finite)?;
        best = runs.iter().fold(best, |best, (_, mine)| if mine.2 > best.2 { *mine } else { best });
        report(epoch, best)?;
        runs.retain(|(_, mine)| epoch < mine.1 + PATIENCE);
        if runs.is_empty() {
            break;
        }
    }
    Ok(best)
}
