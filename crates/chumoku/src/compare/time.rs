//! The time of a training step.

use super::BATCH;
use crate::Result;
use crate::models::{Classifier, ClassifierConfig};
use crate::nn::{Mode, Noise, Offsets};
use crate::train::{Learnt, Parts, Plan, Settings, Shape, State, TrainOptions};
use chumoku_kernels::{CrossEntropy, Philox};
use serde::Serialize;
use std::time::Instant;

/// Runs of which the median counts, after one that does not.
const RUNS: usize = 5;

/// Milliseconds of a training step: forward, loss, backward and optimiser.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StepTime {
    /// Tokens of each sequence.
    pub length: usize,
    /// The median.
    pub median_ms: f64,
    /// The shortest.
    pub min_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// Runs.
    pub runs: usize,
}

impl StepTime {
    fn of(length: usize, mut times: Vec<f64>) -> StepTime {
        times.sort_by(f64::total_cmp);
        let runs = times.len();
        StepTime { length, median_ms: times[runs / 2], min_ms: times[0], max_ms: times[runs - 1], runs }
    }
}

/// A model in training, on random tokens.
struct Subject {
    model: Classifier,
    state: State,
    parts: Parts,
    settings: Settings,
}

impl Subject {
    fn new(config: &ClassifierConfig, options: &TrainOptions, longest: usize) -> Result<Subject> {
        let config = ClassifierConfig { max_length: longest.max(config.max_length), ..config.clone() };
        let class_rows = vec![1; config.num_classes];
        let shape = Shape { lengths: &[longest], class_rows: &class_rows, vocab_size: config.vocab_size };
        let Plan { settings, .. } = Plan::new(&shape);
        let model = Classifier::new(config)?;
        let mut state = State::new(model.layout(), options.seed);
        state.set_precision(options.precision);
        Ok(Subject { parts: Parts::new(model.layout(), BATCH * longest), model, state, settings })
    }

    /// One step on as many sequences of `length` tokens as there are in a batch; its milliseconds.
    fn step(&mut self, length: usize) -> Result<f64> {
        let config = self.model.config();
        let random = Philox::new(1, length as u64);
        let draw = |i: usize, n: usize| (f64::from(random.uniform(i as u64)) * n as f64) as u32;
        let ids: Vec<u32> = (0..BATCH * length).map(|i| draw(i, config.vocab_size)).collect();
        let labels: Vec<u32> = (0..BATCH).map(|i| draw(i, config.num_classes)).collect();
        let options = CrossEntropy { label_smoothing: self.settings.label_smoothing, class_weights: None };

        let start = Instant::now();
        let (model, params, step) = (&self.model, &self.state.params, self.state.step);
        self.parts.learn(&Vec::from_iter(0..BATCH), |rows, part, grads| {
            let ids: Vec<u32> = rows.iter().flat_map(|&row| &ids[row * length..][..length]).copied().collect();
            let labels: Vec<u32> = rows.iter().map(|&row| labels[row]).collect();
            let offsets = Offsets::of_lengths(rows.iter().map(|_| length));
            let mode = Mode::Train(Noise { seed: part as u64, step });
            let loss = model.loss(params, (&ids, &offsets), &labels, &options, mode, grads)?;
            Ok(Learnt { loss: loss.into(), weight: rows.len() as f64, tokens: ids.len() })
        })?;
        self.state.apply(self.parts.grads(), &self.settings, 1000)?;
        Ok(1e3 * start.elapsed().as_secs_f64())
    }
}

/// Times of a step of each length, for each model. At each length models take turns, so that what else the machine does
/// meets all alike.
pub(super) fn steps(
    configs: &[ClassifierConfig],
    options: &TrainOptions,
    lengths: &[usize],
    observe: &mut dyn FnMut(usize),
) -> Result<Vec<Vec<StepTime>>> {
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let subjects = configs.iter().map(|config| Subject::new(config, options, longest));
    let mut subjects: Vec<Subject> = subjects.collect::<Result<_>>()?;
    let mut found: Vec<Vec<StepTime>> = vec![Vec::new(); subjects.len()];
    for &length in lengths {
        observe(length);
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); subjects.len()];
        for run in 0..RUNS + 1 {
            for (subject, times) in subjects.iter_mut().zip(&mut times) {
                let time = subject.step(length)?;
                if run > 0 {
                    times.push(time);
                }
            }
        }
        for (found, times) in found.iter_mut().zip(times) {
            found.push(StepTime::of(length, times));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_counts() {
        let time = StepTime::of(32, vec![9.0, 1.0, 2.0, 3.0, 100.0]);
        assert_eq!(time, StepTime { length: 32, median_ms: 3.0, min_ms: 1.0, max_ms: 100.0, runs: 5 });
    }
}
