//! Measures the time of a training step and fits its growth with sequence length.

use super::median_interval::MedianInterval;
use super::{BATCH, CompareEvent};
use crate::Result;
use crate::count::CountConfig;
use crate::models::{Classifier, ClassifierConfig};
use crate::nn::{DropoutSeed, Mode, Offsets};
use crate::params::Params;
use crate::scoring::SIGNIFICANCE_LEVEL;
use crate::train::{
    DataShape, MicroBatchGradients, Plan, StepOutput, TrainOptions, TrainSettings, TrainState, default_micro_batches,
};
use chumoku_kernels::{CrossEntropy, Philox};
use serde::Serialize;
use std::time::Instant;

/// Timed sweeps over all lengths, after one warm-up sweep. One of eleven may be disturbed, and the limits of four
/// medians together still hold in 95 of 100 cases.
const SWEEPS: usize = 11;

/// Fewest lengths to fit a growth to.
const MIN_LENGTHS: usize = 3;

/// Milliseconds of a training step: forward, loss, backward and optimizer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepTime {
    /// Tokens per sequence.
    pub length: usize,
    /// Median time.
    pub median_ms: f64,
    /// Shortest time.
    pub min_ms: f64,
    /// Longest time.
    pub max_ms: f64,
    /// Number of timed runs.
    pub runs: usize,
    /// All times, one per sweep. Times with the same index were measured side by side.
    pub all_ms: Vec<f64>,
}

impl StepTime {
    pub(super) fn from_runs(length: usize, all_ms: Vec<f64>) -> StepTime {
        let mut times = all_ms.clone();
        times.sort_by(f64::total_cmp);
        let runs = times.len();
        StepTime { length, median_ms: times[runs / 2], min_ms: times[0], max_ms: times[runs - 1], runs, all_ms }
    }
}

/// The growth of the step time: time is about a constant times length to this power.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeGrowth {
    /// The lengths.
    pub lengths: Vec<usize>,
    /// The power, fitted to each sweep (least squares of logarithms).
    pub(crate) power: MedianInterval,
    /// The power by which the network's multiply–adds grow over these lengths at its width, fitted in the same way.
    pub(crate) expected: f64,
    /// The length from which multiply–adds grow at least with the power 1.85, measured by doubling the length. `None`
    /// if they never do.
    pub(crate) square_from: Option<usize>,
}

/// The least-squares slope of a line through points.
fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let (mean_x, mean_y) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0 / n, y + p.1 / n));
    let products = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>();
    products / points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>()
}

impl TimeGrowth {
    /// The power from which growth counts as quadratic.
    pub(super) const QUADRATIC_POWER: f64 = 1.85;

    /// Fits the growth over the steps of at least `shortest` tokens. Returns `None` if there are too few.
    pub(super) fn fit(steps: &[StepTime], sizes: &CountConfig, shortest: usize) -> Result<Option<TimeGrowth>> {
        let steps: Vec<&StepTime> = steps.iter().filter(|step| step.length >= shortest).collect();
        if steps.len() < MIN_LENGTHS {
            return Ok(None);
        }
        let log = |length: usize| (length as f64).ln();
        let sweeps = steps.iter().map(|step| step.all_ms.len()).min().unwrap_or(0);
        let of_sweep = |sweep: usize| {
            slope(&steps.iter().map(|step| (log(step.length), step.all_ms[sweep].ln())).collect::<Vec<_>>())
        };
        let work = |length: usize| -> Result<f64> {
            Ok((CountConfig { batch: BATCH, length, ..*sizes }.count()?.multiply_adds as f64).ln())
        };
        let lengths: Vec<usize> = steps.iter().map(|step| step.length).collect();
        let points = lengths.iter().map(|&length| Ok((log(length), work(length)?))).collect::<Result<Vec<_>>>()?;
        let mut square_from = None;
        for length in (4..26).map(|power| 1 << power) {
            if (work(2 * length)? - work(length)?) / 2f64.ln() >= Self::QUADRATIC_POWER {
                square_from = Some(length);
                break;
            }
        }
        let power = MedianInterval::from_samples((0..sweeps).map(of_sweep).collect(), SIGNIFICANCE_LEVEL);
        Ok(Some(TimeGrowth { lengths, power, expected: slope(&points), square_from }))
    }
}

/// A model in training, on random tokens.
struct TimedModel {
    model: Classifier,
    state: TrainState,
    micro_batches: MicroBatchGradients,
    settings: TrainSettings,
}

impl TimedModel {
    fn new(config: &ClassifierConfig, options: &TrainOptions, longest: usize) -> Result<TimedModel> {
        let config = ClassifierConfig { max_length: longest.max(config.max_length), ..config.clone() };
        let class_rows = vec![1; config.num_classes];
        let shape = DataShape { lengths: &[longest], class_rows: &class_rows, vocab_size: config.vocab_size };
        let Plan { settings, .. } = Plan::new(&shape);
        let model = Classifier::new(config)?;
        let mut state = TrainState::new(Params::init(model.layout(), options.seed));
        state.set_precision(options.precision);
        Ok(TimedModel {
            micro_batches: MicroBatchGradients::new(model.layout(), default_micro_batches(BATCH * longest)),
            model,
            state,
            settings,
        })
    }

    /// Runs one training step on a batch of sequences of `length` tokens. Returns its milliseconds.
    fn time_step(&mut self, length: usize) -> Result<f64> {
        let config = self.model.config();
        let random = Philox::new(1, length as u64);
        let draw = |i: usize, n: usize| (f64::from(random.uniform(i as u64)) * n as f64) as u32;
        let ids: Vec<u32> = (0..BATCH * length).map(|i| draw(i, config.vocab_size)).collect();
        let labels: Vec<u32> = (0..BATCH).map(|i| draw(i, config.num_classes)).collect();
        let options =
            CrossEntropy { label_smoothing: self.settings.label_smoothing, class_weights: None, row_weights: None };

        let start = Instant::now();
        let (model, params, step) = (&self.model, &self.state.params, self.state.step);
        self.micro_batches.train_step(&Vec::from_iter(0..BATCH), |rows, part, grads| {
            let ids: Vec<u32> = rows.iter().flat_map(|&row| &ids[row * length..][..length]).copied().collect();
            let labels: Vec<u32> = rows.iter().map(|&row| labels[row]).collect();
            let offsets = Offsets::from_lengths(rows.iter().map(|_| length));
            let mode = Mode::Train(DropoutSeed { seed: part as u64, step });
            let loss = model.loss(params, (&ids, &offsets), &labels, &options, mode, grads)?;
            Ok(StepOutput::new(loss.into(), rows.len() as f64, ids.len()))
        })?;
        self.state.optimizer_step(self.micro_batches.grads(), &self.settings, 1000)?;
        Ok(1e3 * start.elapsed().as_secs_f64())
    }
}

/// Times a training step of each model at each length. Each sweep visits all lengths, and the models take turns at each
/// length, so that other load on the machine affects all of them alike. Calls `observe` for each sweep, and with the
/// expected time after the first.
pub(super) fn time_steps(
    configs: &[ClassifierConfig],
    options: &TrainOptions,
    lengths: &[usize],
    observe: &mut dyn FnMut(CompareEvent<'_>),
) -> Result<Vec<Vec<StepTime>>> {
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let subjects = configs.iter().map(|config| TimedModel::new(config, options, longest));
    let mut subjects: Vec<TimedModel> = subjects.collect::<Result<_>>()?;
    let mut times: Vec<Vec<Vec<f64>>> = vec![vec![Vec::new(); lengths.len()]; subjects.len()];
    for sweep in 0..SWEEPS + 1 {
        observe(CompareEvent::Timing([sweep + 1, SWEEPS + 1]));
        let start = Instant::now();
        for (i, &length) in lengths.iter().enumerate() {
            for (subject, times) in subjects.iter_mut().zip(&mut times) {
                let time = subject.time_step(length)?;
                if sweep > 0 {
                    times[i].push(time);
                }
            }
        }
        if sweep == 0 {
            observe(CompareEvent::TimingEstimated(start.elapsed() * SWEEPS as u32));
        }
    }
    let of_model =
        |times: Vec<Vec<f64>>| lengths.iter().zip(times).map(|(&n, times)| StepTime::from_runs(n, times)).collect();
    Ok(times.into_iter().map(of_model).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::NetworkKind;
    use chumoku_kernels::RecurrentCell;

    #[test]
    fn a_step_time_reports_the_median() {
        let all_ms = vec![9.0, 1.0, 2.0, 3.0, 100.0];
        let time = StepTime::from_runs(32, all_ms.clone());
        assert_eq!(time, StepTime { length: 32, median_ms: 3.0, min_ms: 1.0, max_ms: 100.0, runs: 5, all_ms });
    }

    #[test]
    fn the_expected_time_is_reported_after_the_first_sweep() {
        let shape = DataShape { lengths: &[4], class_rows: &[1, 1], vocab_size: 50 };
        let config = Plan::new(&shape).model;
        let mut events = Vec::new();
        let mut observe = |event: CompareEvent<'_>| events.push(format!("{event:?}"));
        time_steps(&[config], &TrainOptions::default(), &[2, 4], &mut observe).unwrap();
        assert_eq!(events.len(), SWEEPS + 2);
        assert_eq!(events[0], "Timing([1, 12])");
        assert!(events[1].starts_with("TimingEstimated(") && events[2] == "Timing([2, 12])", "{events:?}");
    }

    #[test]
    fn growth_is_the_slope_of_logarithms_next_to_the_expected_one() {
        let steps = |time: &dyn Fn(f64) -> f64| -> Vec<StepTime> {
            let step = |n: usize| {
                StepTime::from_runs(n, (0..11).map(|i| time(n as f64) * (1.0 + 0.001 * f64::from(i))).collect())
            };
            [32, 64, 128, 256, 512, 1024].map(step).into()
        };
        let sizes = CountConfig { d_model: 128, d_ff: 512, num_layers: 2, ..CountConfig::default() };
        let found = TimeGrowth::fit(&steps(&|n| 3.0 * n * n), &sizes, 128).unwrap().unwrap();
        assert_eq!(found.lengths, [128, 256, 512, 1024]);
        for power in [found.power.low, found.power.median, found.power.high] {
            assert!((power - 2.0).abs() < 1e-9, "{found:?}");
        }
        // A layer's work is 12·n·d² + 2·n²·d. With r = n / (6 d), doubling the length multiplies it by (2 + 4 r) / (1 +
        // r). The power reaches 1.85 at r = 4.1, which is 3,120 tokens; the next power of two is 4,096.
        let work = |n: f64| (12.0 * n * 128.0 * 128.0 + 2.0 * n * n * 128.0).ln();
        let points = [128.0f64, 256.0, 512.0, 1024.0].map(|n| (n.ln(), work(n)));
        assert!((found.expected - slope(&points)).abs() < 1e-9 && found.expected < 1.4, "{found:?}");
        assert_eq!(found.square_from, Some(4096));
        let lstm = CountConfig { network: NetworkKind::Recurrent(RecurrentCell::Lstm), ..sizes };
        let found = TimeGrowth::fit(&steps(&|n| 3.0 * n), &lstm, 128).unwrap().unwrap();
        assert!((found.expected - 1.0).abs() < 1e-9 && (found.power.median - 1.0).abs() < 1e-9);
        assert_eq!(found.square_from, None);
        assert_eq!(TimeGrowth::fit(&steps(&|n| n), &sizes, 512).unwrap(), None);
    }
}
