//! The formulas of cost against the models' parameters and the kernels' own count. One test: the count is the process's.

use chumoku::Cell;
use chumoku::count::{CountConfig, Counted};
use chumoku::models::{Classifier, ClassifierConfig};
use chumoku::nn::{
    AttentionInput, AttentionOptions, EncoderConfig, Mode, MultiHeadAttention, MultiHeadAttentionConfig, NormOrder,
    Offsets, Pooling, PositionKind, RecurrentConfig,
};
use chumoku::params::{Builder, Params};
use chumoku_kernels::multiply_adds;
use ndarray::Array2;

/// Multiply–adds of a classifier's forward pass, as the kernels count them, and its parameters.
fn measured(config: ClassifierConfig, batch: usize, length: usize) -> [u64; 2] {
    let model = Classifier::new(config).unwrap();
    let params = Params::<f32>::init(model.layout(), 1);
    let ids: Vec<u32> = (0..batch * length).map(|i| (i % 50) as u32).collect();
    let offsets = Offsets::of_lengths(vec![length; batch]);
    let before = multiply_adds();
    model.forward(&params, &ids, &offsets, Mode::Eval).unwrap();
    [model.layout().len() as u64, multiply_adds() - before]
}

fn classifier(body: impl Into<chumoku::nn::BodyConfig>, position: PositionKind) -> ClassifierConfig {
    ClassifierConfig {
        vocab_size: 50,
        num_classes: 3,
        body: body.into(),
        position,
        max_length: 40,
        pooling: Pooling::Mean,
        embedding_dropout: 0.0,
        head_dropout: 0.0,
    }
}

#[test]
fn formulas_are_what_the_kernels_do() {
    for (batch, length, key_heads, norm_order) in
        [(1, 7, None, NormOrder::Pre), (3, 20, Some(2), NormOrder::Post), (2, 33, Some(1), NormOrder::Pre)]
    {
        let encoder = EncoderConfig {
            num_layers: 3,
            d_model: 24,
            num_heads: 4,
            d_ff: 56,
            activation: "gelu".into(),
            norm_order,
            dropout: 0.0,
            attention_dropout: 0.0,
            causal: false,
            attention: AttentionOptions { num_key_heads: key_heads, ..AttentionOptions::default() },
        };
        let base = CountConfig {
            batch,
            length,
            d_model: 24,
            num_heads: 4,
            num_key_heads: key_heads,
            d_ff: 56,
            num_layers: 3,
            vocab_size: 50,
            num_classes: 3,
            final_norm: norm_order == NormOrder::Pre,
            ..CountConfig::default()
        };
        let count = base.count().unwrap();
        let found = measured(classifier(encoder.clone(), PositionKind::Sinusoidal), batch, length);
        assert_eq!([count.parameters, count.multiply_adds], found, "transformer");
        let learned = CountConfig { learned_positions: 40, ..base };
        let found = measured(classifier(encoder, PositionKind::Learned), batch, length);
        assert_eq!(learned.count().unwrap().parameters, found[0], "learned positions");

        for cell in [Cell::Rnn, Cell::Lstm, Cell::Gru] {
            for bidirectional in [false, true] {
                let body =
                    RecurrentConfig { cell, num_layers: 2, d_model: 24, hidden_size: 20, bidirectional, dropout: 0.0 };
                let config = CountConfig {
                    network: Counted::Recurrent(cell),
                    num_layers: 2,
                    hidden_size: Some(20),
                    bidirectional,
                    ..base
                };
                let count = config.count().unwrap();
                let found = measured(classifier(body, PositionKind::None), batch, length);
                assert_eq!([count.parameters, count.multiply_adds], found, "{} {bidirectional}", cell.name());
            }
        }
    }

    // Cross-attention without biases, of 5 queries and 9 keys.
    let mut builder = Builder::new();
    let config = MultiHeadAttentionConfig { bias: false, ..MultiHeadAttentionConfig::new(24, 4).unwrap() };
    let attention = MultiHeadAttention::new(&mut builder, config);
    let params = Params::<f32>::init(&builder.finish(), 1);
    let (queries, keys) = (Offsets::of_lengths([5, 5]), Offsets::of_lengths([9, 9]));
    let [x, memory] = [10, 18].map(|rows| Array2::from_shape_fn((rows, 24), |(i, j)| (i + 3 * j) as f32 / 50.0));
    let input = AttentionInput {
        query: x.view(),
        query_offsets: &queries,
        memory: Some([memory.view(); 2]),
        key_offsets: &keys,
        mask: None,
    };
    let before = multiply_adds();
    attention.forward(&params, &input, Mode::Eval).unwrap();
    let found = [params.values().len() as u64, multiply_adds() - before];
    let config = CountConfig {
        network: Counted::Attention,
        batch: 2,
        length: 5,
        keys: Some(9),
        d_model: 24,
        num_heads: 4,
        bias: false,
        ..CountConfig::default()
    };
    let count = config.count().unwrap();
    assert_eq!([count.parameters, count.multiply_adds], found, "cross-attention");
    assert_eq!(count.quadratic_from, None);

    // Where both terms meet they are equal: 4·n·d² = 2·n²·d for attention alone at n = 2·d.
    let at = CountConfig { network: Counted::Attention, batch: 1, length: 48, keys: None, ..config }.count().unwrap();
    assert_eq!(at.attention_quadratic_from, Some(48.0));
    let work = |names: &[&str]| -> u64 {
        at.steps.iter().filter(|step| names.contains(&step.name)).map(|step| step.multiply_adds).sum()
    };
    assert_eq!(work(&["W_Q", "W_K", "W_V", "W_O"]), work(&["scores", "weighted sum"]));

    for config in [
        CountConfig { num_heads: 5, ..config },
        CountConfig { num_key_heads: Some(3), ..config },
        CountConfig { length: 0, ..config },
        CountConfig { batch: usize::MAX, ..config },
    ] {
        assert!(config.count().is_err());
    }
}
