//! Samples of a model's weights for display: statistics of each matrix, with its first rows and columns.

use super::model_network::ModelNetwork;
use super::model_size::ModelSize;
use crate::Result;
use crate::count::{CountConfig, StepParameter};
use crate::params::{ParamView, Params};
use serde::Serialize;
use std::path::Path;

/// The largest number of parameters of a model whose weights are read.
const MAX_PARAMETERS: u128 = 1_000_000_000;

/// The largest number of weights in all samples together.
const MAX_SHOWN: usize = 32_000;

/// The largest number of rows and columns of a sample.
const MAX_SIDE: usize = 12;

/// The rows of a parameter that a step of the network uses, with some of their weights.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WeightSample {
    /// The step that uses them.
    #[serde(skip)]
    pub step: StepParameter,
    /// The name of the parameter.
    pub name: String,
    /// The numbers of rows and columns. A vector has one row.
    pub shape: [usize; 2],
    /// The smallest, the largest and the mean weight, and the standard deviation.
    pub statistics: [f64; 4],
    /// The weights in the first rows and columns.
    pub first: Vec<Vec<f32>>,
}

impl WeightSample {
    /// Reads the weights of the model in a folder, whose size is known. `None` if the model is too large to be read for a
    /// display.
    ///
    /// # Errors
    /// If the model cannot be read.
    pub fn read_all(folder: &Path, size: &ModelSize) -> Result<Option<Vec<WeightSample>>> {
        if size.parameters > MAX_PARAMETERS {
            return Ok(None);
        }
        Ok(Some(sample(&ModelNetwork::load(folder)?.params, &size.config)))
    }
}

/// Samples all parameters, in the order of their names.
fn sample(params: &Params<f32>, config: &CountConfig) -> Vec<WeightSample> {
    let columns = |shape: &[usize]| if let [_, columns] = shape { *columns } else { 1 };
    let used: Vec<(ParamView<'_>, StepParameter)> = params
        .layout()
        .iter()
        .flat_map(|view| {
            let rows = view.range.len() / columns(view.shape).max(1);
            let steps = config.steps_of_parameter(view.name, rows);
            steps.into_iter().map(move |step| (view.clone(), step))
        })
        .collect();
    let side = (MAX_SHOWN / used.len().max(1)).isqrt().clamp(2, MAX_SIDE);
    let sample = |(view, step): (ParamView<'_>, StepParameter)| {
        let width = columns(view.shape).max(1);
        let all = &params.values()[view.range];
        let weights = &all[step.rows.start * width..step.rows.end * width];
        // A vector is a row.
        let shape = if view.shape.len() == 1 { [1, step.rows.len()] } else { [step.rows.len(), width] };
        let rows = weights.chunks_exact(shape[1].max(1)).take(side);
        WeightSample {
            step,
            name: view.name.to_owned(),
            shape,
            statistics: statistics(weights),
            first: rows.map(|row| row[..side.min(row.len())].to_vec()).collect(),
        }
    };
    used.into_iter().map(sample).collect()
}

/// Returns the smallest, the largest and the mean number, and the standard deviation.
fn statistics(numbers: &[f32]) -> [f64; 4] {
    let count = numbers.len().max(1) as f64;
    let all = || numbers.iter().map(|&x| f64::from(x));
    let mean = all().sum::<f64>() / count;
    let variance = all().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    let [least, most] = [all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max)];
    [least, most, mean, variance.sqrt()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{Classifier, ClassifierConfig};
    use crate::nn::{EncoderConfig, InputEmbeddingsOptions, Pooling, PositionKind};

    #[test]
    fn every_weight_is_in_the_statistics_of_one_step() {
        let encoder = EncoderConfig::new(2, 16, 2, 24);
        let config = ClassifierConfig {
            vocab_size: 30,
            num_classes: 3,
            backbone: encoder.into(),
            position: PositionKind::Learned,
            max_length: 8,
            pooling: Pooling::Mean,
            embedding_dropout: 0.0,
            head_dropout: 0.0,
            head_dense: None,
            embeddings: InputEmbeddingsOptions::default(),
        };
        let model = Classifier::new(config.clone()).unwrap();
        let mut params = Params::<f32>::zeros(model.layout());
        params.values_mut().iter_mut().enumerate().for_each(|(i, x)| *x = i as f32);
        let found = sample(&params, &CountConfig::for_classifier(&config));
        let count: usize = found.iter().map(|sample| sample.shape[0] * sample.shape[1]).sum();
        assert_eq!(count, params.values().len());
        let keys = found
            .iter()
            .find(|sample| sample.step.step == "W_K" && sample.step.layer == Some(1) && sample.shape[0] > 1)
            .unwrap();
        // The fused matrix has 16 rows of queries, then those of keys. Its numbers are consecutive.
        assert_eq!((keys.name.as_str(), keys.shape), ("encoder.layers.1.self_attn.in_proj_weight", [16, 16]));
        let view = model.layout().iter().find(|view| view.name == keys.name).unwrap();
        let first = (view.range.start + 16 * 16) as f32;
        assert_eq!((keys.first[0][0], keys.first[1][2]), (first, first + 18.0));
        assert_eq!((keys.first.len(), keys.first[0].len()), (MAX_SIDE, MAX_SIDE));
        let [least, most, mean, deviation] = keys.statistics;
        assert_eq!([least, most, mean], [f64::from(first), f64::from(first) + 255.0, f64::from(first) + 127.5]);
        assert!((deviation - ((256.0f64 * 256.0 - 1.0) / 12.0).sqrt()).abs() < 1e-6, "{deviation}");
        let bias = found.iter().find(|sample| sample.name == "head.bias").unwrap();
        assert_eq!((bias.shape, bias.first[0].len()), ([1, 3], 3));
    }
}
