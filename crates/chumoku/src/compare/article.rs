//! The two small classifiers of the fifth article: an LSTM, and one layer of self-attention.

use super::median_interval::MedianInterval;
use crate::Result;
use crate::nn::{
    AttentionInput, Embedding, Linear, Mode, MultiHeadAttention, MultiHeadAttentionConfig, Offsets, Pooling, Recurrent,
    RecurrentConfig,
};
use crate::params::{Builder, Params};
use crate::scoring::SIGNIFICANCE_LEVEL;
use chumoku_kernels::{Precision, RecurrentCell};
use ndarray::{Array2, Axis};
use serde::Serialize;
use std::time::Instant;

const VOCAB_SIZE: usize = 10_000;
const WIDTH: usize = 256;
const HEADS: usize = 8;
const CLASSES: usize = 2;
const BATCH: usize = 32;
const SEQUENCE_LENGTH: usize = 100;

/// Number of timed runs; the median is reported. Two warm-up runs come first.
const TIMED_RUNS: usize = 15;

/// Parameters and forward time (median milliseconds) of both classifiers, on 32 sequences of 100 tokens.
///
/// Both use embeddings of 10,000 tokens of width 256 and have two classes. The LSTM of width 256 classifies its last
/// output; self-attention with 8 heads classifies the mean of its outputs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ArticleResults {
    /// Parameters of the LSTM classifier.
    pub lstm_parameters: usize,
    /// Parameters of the attention classifier.
    pub attention_parameters: usize,
    /// Milliseconds of the LSTM's forward pass.
    pub lstm_ms: f64,
    /// Milliseconds of attention's forward pass.
    pub attention_ms: f64,
    /// The LSTM's time divided by attention's, from runs side by side.
    pub speedup: MedianInterval,
}

enum ArticleNetwork {
    Lstm(Recurrent),
    Attention(Box<MultiHeadAttention>),
}

struct ArticleClassifier {
    params: Params<f32>,
    embedding: Embedding,
    network: ArticleNetwork,
    head: Linear,
}

impl ArticleClassifier {
    fn new(precision: Precision, body: impl FnOnce(&mut Builder) -> ArticleNetwork) -> ArticleClassifier {
        let mut builder = Builder::new();
        let embedding = builder.scope("embedding", |b| Embedding::new(b, VOCAB_SIZE, WIDTH));
        let body = builder.scope("body", body);
        let head = builder.scope("head", |b| Linear::new(b, WIDTH, CLASSES, true));
        let mut params = Params::init(&builder.finish(), 1);
        params.set_precision(precision);
        ArticleClassifier { params, embedding, network: body, head }
    }

    fn num_parameters(&self) -> usize {
        self.params.values().len()
    }

    fn forward(&self, ids: &[u32], offsets: &Offsets) -> Result<Array2<f32>> {
        let x = self.embedding.forward(&self.params, ids)?;
        let pooled = match &self.network {
            ArticleNetwork::Lstm(lstm) => {
                let y = lstm.infer(&self.params, x, offsets)?;
                let last: Vec<usize> = offsets.ranges().map(|range| range.end - 1).collect();
                y.select(Axis(0), &last)
            }
            ArticleNetwork::Attention(attention) => {
                let input = AttentionInput::self_attention(x.view(), offsets);
                let (y, _) = attention.forward(&self.params, &input, Mode::Eval)?;
                Pooling::Mean.forward(y.view(), offsets).0
            }
        };
        Ok(self.head.forward(&self.params, pooled.view())?)
    }
}

/// Builds both classifiers, counts their parameters and times them in turn.
pub(super) fn measure_article(precision: Precision) -> Result<ArticleResults> {
    let sizes = RecurrentConfig {
        cell: RecurrentCell::Lstm,
        num_layers: 1,
        d_model: WIDTH,
        hidden_size: WIDTH,
        bidirectional: false,
        dropout: 0.0,
    };
    let heads = MultiHeadAttentionConfig::new(WIDTH, HEADS)?;
    let models = [
        ArticleClassifier::new(precision, |b| ArticleNetwork::Lstm(Recurrent::new(b, &sizes))),
        ArticleClassifier::new(precision, |b| ArticleNetwork::Attention(Box::new(MultiHeadAttention::new(b, heads)))),
    ];
    let ids: Vec<u32> = (0..BATCH * SEQUENCE_LENGTH).map(|i| (i * 7919 % VOCAB_SIZE) as u32).collect();
    let offsets = Offsets::from_lengths([SEQUENCE_LENGTH; BATCH]);
    let mut times = [Vec::new(), Vec::new()];
    for run in 0..TIMED_RUNS + 2 {
        for (model, times) in models.iter().zip(&mut times) {
            let start = Instant::now();
            rayon::scope(|_| model.forward(&ids, &offsets))?;
            if run >= 2 {
                times.push(1e3 * start.elapsed().as_secs_f64());
            }
        }
    }
    let ratios = times[0].iter().zip(&times[1]).map(|(lstm, attention)| lstm / attention).collect();
    let speedup = MedianInterval::from_samples(ratios, SIGNIFICANCE_LEVEL);
    let [lstm_ms, attention_ms] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[TIMED_RUNS / 2]
    });
    let [lstm, attention] = &models;
    let (lstm_parameters, attention_parameters) = (lstm.num_parameters(), attention.num_parameters());
    Ok(ArticleResults { lstm_parameters, attention_parameters, lstm_ms, attention_ms, speedup })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_counts_match_counting_by_hand() {
        let found = measure_article(Precision::Highest).unwrap();
        let (embedding, head) = (VOCAB_SIZE * WIDTH, CLASSES * WIDTH + CLASSES);
        assert_eq!(found.lstm_parameters, embedding + 4 * WIDTH * 2 * WIDTH + 2 * 4 * WIDTH + head);
        assert_eq!(found.attention_parameters, embedding + 4 * (WIDTH * WIDTH + WIDTH) + head);
        assert!(found.lstm_ms > 0.0 && found.attention_ms > 0.0);
        let MedianInterval { low, median, high } = found.speedup;
        assert!(0.0 < low && low <= median && median <= high && high.is_finite());
    }
}
