//! Properties that hold for any numbers: symmetries, limits, sums.

use chumoku_nn::attention::{hard_attention, soft_attention};
use chumoku_nn::layers::*;
use chumoku_nn::models::{Classifier, ClassifierConfig};
use chumoku_nn::params::{Builder, Params};
use ndarray::Array2;
use proptest::prelude::*;
use testkit::Random;

fn array(rows: usize, cols: usize, seed: u64) -> Array2<f32> {
    let mut random = Random::new(seed);
    Array2::from_shape_simple_fn((rows, cols), || random.number() as f32)
}

fn classifier(position: PositionKind, pooling: Pooling) -> (Classifier, Params<f32>) {
    let classifier = Classifier::new(ClassifierConfig {
        vocab_size: 40,
        num_classes: 3,
        backbone: EncoderConfig { dropout: 0.1, attention_dropout: 0.1, ..EncoderConfig::new(2, 24, 3, 40) }.into(),
        position,
        max_length: 64,
        pooling,
        embedding_dropout: 0.1,
        head_dropout: 0.1,
        head_dense: None,
        embeddings: InputEmbeddingsOptions::default(),
    })
    .unwrap();
    let params = Params::init(classifier.layout(), 3);
    (classifier, params)
}

/// Returns the logits of sequences, packed in the given order.
fn logits((model, params): &(Classifier, Params<f32>), sequences: &[Vec<u32>]) -> Vec<Vec<f32>> {
    let offsets = Offsets::from_lengths(sequences.iter().map(Vec::len));
    let (logits, _) = model.forward(params, &sequences.concat(), &offsets, Mode::Eval).unwrap();
    logits.rows().into_iter().map(|row| row.to_vec()).collect()
}

fn sequences() -> impl Strategy<Value = Vec<Vec<u32>>> {
    prop::collection::vec(prop::collection::vec(0u32..40, 1..60), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn permuting_the_sequences_of_a_batch_permutes_the_results_exactly(batch in sequences(), turn in 0usize..8) {
        let model = classifier(PositionKind::Sinusoidal, Pooling::Mean);
        let mut turned = batch.clone();
        turned.rotate_left(turn % batch.len());
        let mut expected = logits(&model, &batch);
        expected.rotate_left(turn % batch.len());
        prop_assert_eq!(logits(&model, &turned), expected);
    }

    #[test]
    fn a_sequence_does_not_depend_on_its_batch(batch in sequences()) {
        let model = classifier(PositionKind::Sinusoidal, Pooling::Mean);
        let together = logits(&model, &batch);
        for (sequence, expected) in batch.iter().zip(&together) {
            prop_assert_eq!(&logits(&model, std::slice::from_ref(sequence))[0], expected);
        }
    }

    #[test]
    fn attention_weights_sum_to_one(batch in sequences()) {
        let (model, params) = classifier(PositionKind::Sinusoidal, Pooling::Mean);
        let offsets = Offsets::from_lengths(batch.iter().map(Vec::len));
        let (_, cache) = model.forward(&params, &batch.concat(), &offsets, Mode::Eval).unwrap();
        for layer in 0..2 {
            for (sequence, ids) in batch.iter().enumerate() {
                for head in 0..3 {
                    let weights = model.attention_weights(&cache, &offsets, layer, sequence, head).unwrap();
                    prop_assert_eq!(weights.dim(), (ids.len(), ids.len()));
                    for row in weights.rows() {
                        prop_assert!((row.sum() - 1.0).abs() < 1e-5 && row.iter().all(|&w| w >= 0.0));
                    }
                }
            }
        }
    }
}

/// Returns the encoder's output for one sequence of embeddings, with or without positions.
fn encode(x: &Array2<f32>, kind: PositionKind) -> Array2<f32> {
    let mut builder = Builder::new();
    let position = PositionEncoding::new(&mut builder, kind, 64, 24);
    let (model, _) = classifier(kind, Pooling::Mean);
    let encoder = Encoder::new(&mut builder, model.config().backbone.transformer().unwrap()).unwrap();
    let params = Params::init(&builder.finish(), 1);
    let offsets = Offsets::from_lengths([x.nrows()]);
    let mut x = x.clone();
    position.forward(&params, &mut x, &offsets).unwrap();
    encoder.forward(&params, x, &offsets, Mode::Eval).unwrap().0
}

fn reversed(x: &Array2<f32>) -> Array2<f32> {
    Array2::from_shape_fn(x.dim(), |(i, j)| x[[x.nrows() - 1 - i, j]])
}

fn largest_difference(a: &Array2<f32>, b: &Array2<f32>) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn order_matters_only_with_positions() {
    let x = array(17, 24, 1);
    let plain =
        largest_difference(&reversed(&encode(&x, PositionKind::None)), &encode(&reversed(&x), PositionKind::None));
    assert!(plain < 1e-5, "{plain}");
    for kind in [PositionKind::Sinusoidal, PositionKind::Learned] {
        let ordered = largest_difference(&reversed(&encode(&x, kind)), &encode(&reversed(&x), kind));
        assert!(ordered > 1e-3, "{kind:?}: {ordered}");
    }
}

#[test]
fn soft_attention_approaches_hard_attention_as_beta_grows() {
    let (q, k, v) = (array(6, 8, 1), array(9, 8, 2), array(9, 5, 3));
    let hard = hard_attention(q.view(), k.view(), v.view()).unwrap();
    assert!(hard.weights.rows().into_iter().all(|row| row.iter().filter(|&&w| w == 1.0).count() == 1));
    let distance = |beta: f32| {
        let soft = soft_attention(q.view(), k.view(), v.view(), beta).unwrap();
        largest_difference(&soft.weights, &hard.weights)
    };
    let distances = [0.1f32, 1.0, 10.0, 100.0, 1000.0].map(distance);
    assert!(distances.windows(2).all(|pair| pair[1] <= pair[0]), "{distances:?}");
    assert!(distances[4] < 1e-3, "{distances:?}");
    // At β = 0 all keys have equal weight.
    let flat = soft_attention(q.view(), k.view(), v.view(), 0.0).unwrap();
    assert!(flat.weights.iter().all(|&w| (w - 1.0 / 9.0).abs() < 1e-6));
}

/// As β grows, the layer approaches its hard variant, and hard weights are one-hot.
#[test]
fn a_soft_attention_layer_approaches_the_hard_one() {
    let (x, offsets) = (array(40, 24, 1), Offsets::from_lengths([25, 15]));
    let run = |options: AttentionOptions| {
        let mut builder = Builder::new();
        let config = MultiHeadAttentionConfig::new(24, 4).unwrap().with_options(options).unwrap();
        let layer = MultiHeadAttention::new(&mut builder, config);
        let params = Params::<f32>::init(&builder.finish(), 1);
        let input = AttentionInput::self_attention(x.view(), &offsets);
        let (y, cache) = layer.forward(&params, &input, Mode::Eval).unwrap();
        let weights = layer.attention_weights(&input, &cache, 1, 2).unwrap();
        (y, weights)
    };
    let none = AttentionOptions { num_key_heads: Some(2), ..AttentionOptions::default() };
    let (hard, weights) = run(AttentionOptions { hard_attention: true, ..none });
    assert_eq!(weights.dim(), (15, 15));
    for row in weights.rows() {
        assert!(row.iter().all(|&w| w == 0.0 || w == 1.0) && row.sum() == 1.0);
    }
    let distances =
        [0.1, 10.0, 1e5].map(|beta| largest_difference(&run(AttentionOptions { beta: Some(beta), ..none }).0, &hard));
    assert!(distances[0] > distances[1] && distances[1] > distances[2] && distances[2] < 1e-4, "{distances:?}");
}

#[test]
fn alibi_slopes_match_the_paper() {
    // The numbers of the paper for 8 heads, and for 16, where the ratio is the square root.
    assert_eq!(alibi_slopes(8), [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625]);
    let sixteen = alibi_slopes(16);
    assert!(sixteen.windows(2).all(|pair| (pair[1] / pair[0] - 0.5f32.sqrt()).abs() < 1e-6));
    // 12 heads: those of 8, then the first, third, fifth and seventh of 16.
    let expected: Vec<f32> = alibi_slopes(8).into_iter().chain([0, 2, 4, 6].map(|i| sixteen[i])).collect();
    assert_eq!(alibi_slopes(12), expected);
    assert_eq!((alibi_slopes(0), alibi_slopes(1)), (vec![], vec![0.00390625]));
}

/// The last layer is linear, so dropout before it keeps the mean of the logits. Dropout differs from step to step.
#[test]
fn dropout_keeps_the_expectation_and_depends_on_the_step() {
    let (model, params) = classifier(PositionKind::Sinusoidal, Pooling::Mean);
    let mut config = model.config().clone();
    let BackboneConfig::Transformer(encoder) = &mut config.backbone else { panic!("a transformer") };
    (encoder.dropout, encoder.attention_dropout, config.embedding_dropout, config.head_dropout) = (0.0, 0.0, 0.0, 0.4);
    let model = Classifier::new(config).unwrap();
    let ids: Vec<u32> = (0..30).collect();
    let offsets = Offsets::from_lengths([30]);
    let run = |mode| model.forward(&params, &ids, &offsets, mode).unwrap().0;
    let step = |step| run(Mode::Train(DropoutSeed { seed: 1, step }));
    assert_eq!(step(1), step(1));
    assert_ne!(step(1), step(2));

    let expected = run(Mode::Eval);
    const STEPS: u64 = 4_000;
    let (mut sum, mut squares) = (Array2::<f64>::zeros(expected.dim()), Array2::<f64>::zeros(expected.dim()));
    for logits in (0..STEPS).map(step) {
        sum.zip_mut_with(&logits, |sum, &x| *sum += f64::from(x));
        squares.zip_mut_with(&logits, |sum, &x| *sum += f64::from(x) * f64::from(x));
    }
    for ((sum, squares), &expected) in sum.iter().zip(&squares).zip(&expected) {
        let (n, mean) = (STEPS as f64, sum / STEPS as f64);
        let deviation = (squares / n - mean * mean).sqrt();
        assert!(deviation > 1e-3, "the noise changes the logits: {deviation}");
        // Five standard errors of the mean; without the factor 1/(1 − rate) the difference would be far larger.
        let error = (mean - f64::from(expected)).abs();
        assert!(error < 5.0 * deviation / n.sqrt(), "{mean} for {expected}: {error}, {deviation}");
    }
}
