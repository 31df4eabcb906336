//! Every backward pass compared with central differences of its forward pass, in double precision, including dropout.

use chumoku_kernels::{Activation, CrossEntropy, Mask, MaskView, RecurrentCell, cross_entropy};
use chumoku_nn::attention::{hard_attention, hard_attention_backward, soft_attention, soft_attention_backward};
use chumoku_nn::layers::*;
use chumoku_nn::models::{
    Classifier, ClassifierConfig, LanguageModel, LanguageModelConfig, MaskedLanguageModel, TaggedUnits,
    TextEncoderConfig, TokenTagger, TokenTaggerConfig,
};
use chumoku_nn::params::{Builder, ParamLayout, Params};
use ndarray::{Array2, ArrayView2};
use std::sync::Arc;
use testkit::{Random, Tolerance, central_difference, compare, exhaustive};

/// The error of central differences is about the square of the step.
const STEP: f64 = 1e-5;
const RULE: Tolerance = Tolerance { relative: 2e-8, absolute: 1e-9 };

/// Training mode: every pass draws the same dropout again.
const TRAINING: Mode = Mode::Train(DropoutSeed { seed: 5, step: 17 });

fn array(rows: usize, cols: usize, seed: u64) -> Array2<f64> {
    let mut random = Random::new(seed);
    Array2::from_shape_simple_fn((rows, cols), || random.number())
}

/// Parameters without zeros and ones.
fn random_params(layout: &Arc<ParamLayout>) -> Params<f64> {
    let mut params = Params::zeros(layout);
    let mut random = Random::new(99);
    params.values_mut().iter_mut().for_each(|value| *value = 0.7 * random.number());
    params
}

fn dot(a: &Array2<f64>, b: &Array2<f64>) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn reshaped(x: &[f64], like: &Array2<f64>) -> Array2<f64> {
    Array2::from_shape_vec(like.dim(), x.to_vec()).unwrap()
}

/// Checks a layer with one input: `forward(params, x) → y` and `backward(params, x, dy, grads) → dx`.
fn check(
    name: &str,
    layout: &Arc<ParamLayout>,
    x: &Array2<f64>,
    forward: impl Fn(&Params<f64>, &Array2<f64>) -> Array2<f64>,
    backward: impl Fn(&Params<f64>, &Array2<f64>, &Array2<f64>, &mut Params<f64>) -> Array2<f64>,
) {
    check_at(name, &random_params(layout), x, forward, backward);
}

/// Like [`check`], with given parameters.
fn check_at(
    name: &str,
    params: &Params<f64>,
    x: &Array2<f64>,
    forward: impl Fn(&Params<f64>, &Array2<f64>) -> Array2<f64>,
    backward: impl Fn(&Params<f64>, &Array2<f64>, &Array2<f64>, &mut Params<f64>) -> Array2<f64>,
) {
    let y = forward(params, x);
    let dy = array(y.nrows(), y.ncols(), 3);
    let mut grads = Params::zeros(params.layout());
    let dx = backward(params, x, &dy, &mut grads);
    let expected = central_difference(x.as_slice().unwrap(), STEP, |x_| dot(&forward(params, &reshaped(x_, x)), &dy));
    compare(&format!("{name} dx"), dx.as_slice().unwrap(), &expected, RULE).unwrap();
    let expected = central_difference(params.values(), STEP, |values| {
        let mut moved = params.clone();
        moved.values_mut().copy_from_slice(values);
        dot(&forward(&moved, x), &dy)
    });
    compare(&format!("{name} parameters"), grads.values(), &expected, RULE).unwrap();
}

/// Layer norm and RMS norm cache other numbers of each token.
#[test]
fn norms_refuse_the_cache_of_another_kind() {
    let x = array(2, 3, 1);
    let mut builder = Builder::new();
    let kinds = [("layer", NormKind::Layer), ("rms", NormKind::Rms)];
    let norms = kinds.map(|(name, kind)| builder.scope(name, |b| Norm::new(b, kind, 3, 1e-5)));
    let p = random_params(&builder.finish());
    let caches = norms.each_ref().map(|norm| norm.forward(&p, x.view()).unwrap().1);
    for (norm, own, other) in [(&norms[0], &caches[0], &caches[1]), (&norms[1], &caches[1], &caches[0])] {
        let mut grads = p.clone();
        let mut backward = |cache| norm.backward(&p, x.view(), cache, x.view(), None, &mut grads);
        assert!(backward(own).is_ok() && backward(other).is_err());
    }
}

#[test]
fn gradients_of_linear_norm_and_feed_forward() {
    let x = array(5, 6, 1);
    for bias in [true, false] {
        let mut builder = Builder::new();
        let layer = Linear::new(&mut builder, 6, 4, bias);
        check(
            "linear",
            &builder.finish(),
            &x,
            |p, x| layer.forward(p, x.view()).unwrap(),
            |p, x, dy, g| layer.backward(p, x.view(), dy.view(), g).unwrap(),
        );
    }
    for (name, kind) in
        [("layer norm", NormKind::Layer), ("without bias", NormKind::LayerWithoutBias), ("RMS norm", NormKind::Rms)]
    {
        let mut builder = Builder::new();
        let layer = Norm::new(&mut builder, kind, 6, 1e-3);
        check(
            name,
            &builder.finish(),
            &x,
            |p, x| layer.forward(p, x.view()).unwrap().0,
            |p, x, dy, g| {
                let (_, cache) = layer.forward(p, x.view()).unwrap();
                layer.backward(p, x.view(), &cache, dy.view(), None, g).unwrap()
            },
        );
    }
    for activation in [Activation::Gelu, Activation::GeluTanh, Activation::Silu, Activation::Relu] {
        for mode in [Mode::Eval, TRAINING] {
            let mut builder = Builder::new();
            let layer = FeedForward::new(&mut builder, [6, 10], activation, 0.3, 4);
            check(
                "feed-forward",
                &builder.finish(),
                &x,
                |p, x| layer.forward(p, x.view(), mode).unwrap().0,
                |p, x, dy, g| {
                    let (_, cache) = layer.forward(p, x.view(), mode).unwrap();
                    layer.backward(p, x.view(), &cache, dy.view(), mode, g).unwrap()
                },
            );
        }
    }
}

#[test]
fn gradients_of_embedding_and_learned_positions() {
    let mut builder = Builder::new();
    let embedding = builder.scope("embedding", |b| Embedding::new(b, 7, 4));
    let position = builder.scope("position", |b| PositionEncoding::new(b, PositionKind::Learned, 5, 4));
    let (ids, offsets) = ([3, 0, 3, 6, 1, 3], Offsets::from_lengths([2, 0, 4]));
    // The only input is ids, so an empty array stands for x.
    check(
        "embedding and positions",
        &builder.finish(),
        &array(0, 1, 1),
        |p, _| {
            let mut x = embedding.forward(p, &ids).unwrap();
            position.forward(p, &mut x, &offsets).unwrap();
            x
        },
        |_, x, dy, g| {
            position.backward(dy.view(), &offsets, g);
            embedding.backward(&ids, dy.view(), g).unwrap();
            x.clone()
        },
    );
}

#[test]
fn gradients_of_self_attention() {
    let offsets = Offsets::from_lengths([4, 0, 1, 3]);
    let (boolean, mut additive) = (
        vec![true, false, true, true, true, true, false, true, false, false, false, false, true, true, true, true],
        vec![0.5; 16],
    );
    additive[6] = f64::NEG_INFINITY;
    let masks = [
        None,
        Some(Mask::Boolean(MaskView::new(&boolean, &[4, 4]).unwrap())),
        Some(Mask::Additive(MaskView::new(&additive, &[4, 4]).unwrap())),
    ];
    for mask in masks {
        for (causal, bias, mode) in [(false, true, Mode::Eval), (true, false, Mode::Eval), (false, true, TRAINING)] {
            let config = MultiHeadAttentionConfig {
                bias,
                causal,
                dropout: 0.3,
                value_dim: 5,
                ..MultiHeadAttentionConfig::new(6, 2).unwrap()
            };
            let mut builder = Builder::new();
            let layer = MultiHeadAttention::new(&mut builder, config);
            fn input<'a>(
                x: ArrayView2<'a, f64>,
                offsets: &'a Offsets,
                mask: Option<Mask<'a, f64>>,
            ) -> AttentionInput<'a, f64> {
                AttentionInput { mask, ..AttentionInput::self_attention(x, offsets) }
            }
            check(
                "self-attention",
                &builder.finish(),
                &array(8, 6, 1),
                |p, x| layer.forward(p, &input(x.view(), &offsets, mask), mode).unwrap().0,
                |p, x, dy, g| {
                    let (_, cache) = layer.forward(p, &input(x.view(), &offsets, mask), mode).unwrap();
                    layer.backward(p, &input(x.view(), &offsets, mask), &cache, dy.view(), mode, g).unwrap().0
                },
            );
        }
    }
}

#[test]
fn gradients_of_cross_attention() {
    // Equal widths (one fused weight) and different widths (three weights).
    for (key_width, value_width) in [(6, 6), (4, 3)] {
        let config =
            MultiHeadAttentionConfig { key_width, value_width, ..MultiHeadAttentionConfig::new(6, 2).unwrap() };
        let mut builder = Builder::new();
        let layer = MultiHeadAttention::new(&mut builder, config);
        let layout = builder.finish();
        let (query_offsets, key_offsets) = (Offsets::from_lengths([2, 3]), Offsets::from_lengths([4, 1]));
        let (query, key, value) = (array(5, 6, 1), array(5, key_width, 2), array(5, value_width, 3));
        for which in 0..3 {
            let moved = [&query, &key, &value][which];
            let inputs = |x: &Array2<f64>| {
                let mut all = [query.clone(), key.clone(), value.clone()];
                all[which] = x.clone();
                all
            };
            fn input<'a>(all: &'a [Array2<f64>; 3], q: &'a Offsets, k: &'a Offsets) -> AttentionInput<'a, f64> {
                let memory = Some([all[1].view(), all[2].view()]);
                AttentionInput { query: all[0].view(), query_offsets: q, memory, key_offsets: k, mask: None }
            }
            check(
                "cross-attention",
                &layout,
                moved,
                |p, x| layer.forward(p, &input(&inputs(x), &query_offsets, &key_offsets), Mode::Eval).unwrap().0,
                |p, x, dy, g| {
                    let all = inputs(x);
                    let input = input(&all, &query_offsets, &key_offsets);
                    let (_, cache) = layer.forward(p, &input, Mode::Eval).unwrap();
                    let (dq, memory) = layer.backward(p, &input, &cache, dy.view(), Mode::Eval, g).unwrap();
                    let [dk, dv] = memory.unwrap();
                    [dq, dk, dv][which].clone()
                },
            );
        }
    }
}

/// Each option of soft attention, and several at once.
fn variants() -> Vec<AttentionOptions> {
    let none = AttentionOptions::default();
    vec![
        AttentionOptions { num_key_heads: Some(2), ..none },
        AttentionOptions { num_key_heads: Some(1), ..none },
        AttentionOptions { window: Some(1), ..none },
        AttentionOptions { beta: Some(-0.4), ..none },
        AttentionOptions { train_beta: true, ..none },
        AttentionOptions { position: PositionKind::Rotary, ..none },
        AttentionOptions { position: PositionKind::Alibi, ..none },
        AttentionOptions {
            num_key_heads: Some(2),
            window: Some(2),
            beta: Some(0.9),
            train_beta: true,
            rotary_base: Some(3.0),
            position: PositionKind::Rotary,
            ..none
        },
        AttentionOptions { num_key_heads: Some(1), train_beta: true, position: PositionKind::Alibi, ..none },
        AttentionOptions { head_dim: Some(6), bias: AttentionBias::None, ..none },
        AttentionOptions { num_key_heads: Some(2), bias: AttentionBias::Inputs, ..none },
        AttentionOptions { head_norm_epsilon: Some(0.1), train_beta: true, ..none },
        AttentionOptions {
            num_key_heads: Some(2),
            head_dim: Some(4),
            head_norm_epsilon: Some(0.1),
            rotary_base: Some(3.0),
            rotary_scaling: Some(RotaryScaling::Llama3 {
                factor: 8.0,
                low_freq_factor: 0.5,
                high_freq_factor: 1.5,
                original_positions: 4.0,
            }),
            position: PositionKind::Rotary,
            ..none
        },
    ]
}

#[test]
fn gradients_of_attention_variants() {
    let offsets = Offsets::from_lengths([4, 0, 1, 3]);
    for options in variants() {
        for (causal, mode) in [(false, Mode::Eval), (true, TRAINING)] {
            let config = MultiHeadAttentionConfig {
                causal,
                dropout: 0.3,
                value_dim: 3,
                ..MultiHeadAttentionConfig::self_attention(8, 4, options).unwrap()
            };
            let mut builder = Builder::new();
            let layer = MultiHeadAttention::new(&mut builder, config);
            let layout = builder.finish();
            let mut params = random_params(&layout);
            for is_flat in [false, true] {
                // At β = 0 all weights are equal, but β still has a gradient.
                let beta = layout.iter().find(|param| param.name == "beta").map(|param| param.range);
                match (is_flat, beta) {
                    (true, None) => continue,
                    (true, Some(beta)) => params.values_mut()[beta].fill(0.0),
                    _ => {}
                }
                check_at(
                    &format!("{options:?}"),
                    &params,
                    &array(8, 8, 1),
                    |p, x| layer.forward(p, &AttentionInput::self_attention(x.view(), &offsets), mode).unwrap().0,
                    |p, x, dy, g| {
                        let input = AttentionInput::self_attention(x.view(), &offsets);
                        let (_, cache) = layer.forward(p, &input, mode).unwrap();
                        layer.backward(p, &input, &cache, dy.view(), mode, g).unwrap().0
                    },
                );
            }
        }
    }
}

/// Returns `x Wᵀ + b` of one head, with the rows from `first` on.
fn projected(x: &Array2<f64>, weight: ArrayView2<'_, f64>, bias: &[f64], first: usize, dim: usize) -> Array2<f64> {
    Array2::from_shape_fn((x.nrows(), dim), |(i, c)| x.row(i).dot(&weight.row(first + c)) + bias[first + c])
}

/// The straight-through estimator: hard attention has the gradients of a function with the weights
/// `hard + soft − constant(soft)`.
#[test]
fn hard_attention_is_straight_through() {
    let (heads, dim, tokens) = (2, 3, 5);
    let width = heads * dim;
    let options = AttentionOptions { hard_attention: true, ..AttentionOptions::default() };
    let mut builder = Builder::new();
    let config = MultiHeadAttentionConfig::new(width, heads).unwrap().with_options(options).unwrap();
    let layer = MultiHeadAttention::new(&mut builder, config);
    let layout = builder.finish();
    let offsets = Offsets::from_lengths([tokens]);
    let part = |p: &Params<f64>, name: &str| {
        let param = layout.iter().find(|param| param.name == name).unwrap();
        p.values()[param.range].to_vec()
    };
    let soft = |p: &Params<f64>, x: &Array2<f64>, head: usize| {
        let (w, b) = (part(p, "in_proj_weight"), part(p, "in_proj_bias"));
        let w = ArrayView2::from_shape((3 * width, width), &w).unwrap();
        let [q, k, v] = [0, 1, 2].map(|i| projected(x, w, &b, i * width + head * dim, dim));
        (soft_attention(q.view(), k.view(), v.view(), 1.0 / (dim as f64).sqrt()).unwrap().weights, q, k, v)
    };
    let (params, x) = (random_params(&layout), array(tokens, width, 1));
    // The constant part: hard − soft of each head.
    let constants: Vec<Array2<f64>> = (0..heads)
        .map(|head| {
            let (weights, q, k, v) = soft(&params, &x, head);
            hard_attention(q.view(), k.view(), v.view()).unwrap().weights - weights
        })
        .collect();
    check_at(
        "hard attention",
        &params,
        &x,
        |p, x| {
            let all: Vec<Array2<f64>> = (0..heads)
                .map(|head| {
                    let (weights, .., v) = soft(p, x, head);
                    (weights + &constants[head]).dot(&v)
                })
                .collect();
            let y = Array2::from_shape_fn((tokens, width), |(i, c)| all[c / dim][[i, c % dim]]);
            let (w, b) = (part(p, "out_proj.weight"), part(p, "out_proj.bias"));
            projected(&y, ArrayView2::from_shape((width, width), &w).unwrap(), &b, 0, width)
        },
        |p, x, dy, g| {
            let input = AttentionInput::self_attention(x.view(), &offsets);
            let (_, cache) = layer.forward(p, &input, Mode::Eval).unwrap();
            layer.backward(p, &input, &cache, dy.view(), Mode::Eval, g).unwrap().0
        },
    );
}

fn encoder_config(order: NormOrder, causal: bool) -> EncoderConfig {
    EncoderConfig { norm_order: order, dropout: 0.2, attention_dropout: 0.2, causal, ..EncoderConfig::new(2, 6, 2, 8) }
}

#[test]
fn gradients_of_an_encoder_with_dropout() {
    let offsets = Offsets::from_lengths([3, 2]);
    for order in [NormOrder::Pre, NormOrder::Post] {
        for (causal, mode) in [(false, TRAINING), (true, TRAINING), (false, Mode::Eval)] {
            let mut builder = Builder::new();
            let encoder = Encoder::new(&mut builder, &encoder_config(order, causal)).unwrap();
            check(
                &format!("encoder {order:?}"),
                &builder.finish(),
                &array(5, 6, 1),
                |p, x| encoder.forward(p, x.clone(), &offsets, mode).unwrap().0,
                |p, x, dy, g| {
                    let (_, cache) = encoder.forward(p, x.clone(), &offsets, mode).unwrap();
                    encoder.backward(p, &cache, &offsets, dy.clone(), mode, g).unwrap()
                },
            );
        }
    }
}

/// The options of published language models, separately and combined.
fn published() -> Vec<(LayerOptions, AttentionOptions, &'static str)> {
    let (none, attention) = (LayerOptions::default(), AttentionOptions::default());
    let llama = LayerOptions {
        norm: NormKind::Rms,
        norm_epsilon: Some(1e-3),
        feed_forward: FeedForwardKind::Gated,
        ..LayerOptions::default()
    };
    let qwen = AttentionOptions {
        num_key_heads: Some(1),
        head_dim: Some(4),
        head_norm_epsilon: Some(1e-3),
        position: PositionKind::Rotary,
        bias: AttentionBias::None,
        ..attention
    };
    vec![
        (LayerOptions { norm: NormKind::Rms, ..none }, attention, "gelu"),
        (LayerOptions { feed_forward: FeedForwardKind::GatedWithBias, ..none }, attention, "gelu_tanh"),
        (llama, AttentionOptions { bias: AttentionBias::Inputs, ..attention }, "silu"),
        (llama, qwen, "silu"),
    ]
}

#[test]
fn gradients_of_published_architectures() {
    let offsets = Offsets::from_lengths([3, 2]);
    for (options, attention, activation) in published() {
        for (order, mode) in [(NormOrder::Pre, TRAINING), (NormOrder::Post, TRAINING), (NormOrder::Pre, Mode::Eval)] {
            let activation = activation.into();
            let config = EncoderConfig { options, attention, activation, ..encoder_config(order, true) };
            let mut builder = Builder::new();
            let encoder = Encoder::new(&mut builder, &config).unwrap();
            check(
                &format!("{options:?} {order:?}"),
                &builder.finish(),
                &array(5, 6, 1),
                |p, x| encoder.forward(p, x.clone(), &offsets, mode).unwrap().0,
                |p, x, dy, g| {
                    let (_, cache) = encoder.forward(p, x.clone(), &offsets, mode).unwrap();
                    encoder.backward(p, &cache, &offsets, dy.clone(), mode, g).unwrap()
                },
            );
        }
    }
}

#[test]
fn gradients_of_language_models_with_tied_and_untied_output() {
    let (ids, next, offsets) = ([3, 0, 3, 6, 1], [0, 3, 6, 1, 2], Offsets::from_lengths([2, 3]));
    for (options, attention, activation) in published() {
        for untied_output in [false, true] {
            let activation = activation.into();
            let encoder = EncoderConfig { options, attention, activation, ..encoder_config(NormOrder::Pre, true) };
            let config = LanguageModelConfig {
                vocab_size: 7,
                encoder,
                position: PositionKind::Rotary,
                max_length: 9,
                embedding_dropout: 0.2,
                embeddings: InputEmbeddingsOptions { unscaled: true, ..InputEmbeddingsOptions::default() },
                untied_output,
            };
            // Heads of odd width 3 cannot use rotary positions.
            let position = if attention.head_dim.is_some() { PositionKind::Rotary } else { PositionKind::Learned };
            let model = LanguageModel::new(LanguageModelConfig { position, ..config }).unwrap();
            assert_eq!(model.layout().iter().any(|param| param.name == "output.weight"), untied_output);
            let params = random_params(model.layout());
            let mut grads = Params::zeros(model.layout());
            let loss = |p: &Params<f64>, grads| model.loss(p, [&ids, &next], &offsets, TRAINING, grads).unwrap();
            let found = loss(&params, Some(&mut grads));
            assert_eq!(found, loss(&params, None));
            let expected = central_difference(params.values(), STEP, |values| {
                let mut moved = params.clone();
                moved.values_mut().copy_from_slice(values);
                loss(&moved, None)
            });
            compare(&format!("{options:?}"), grads.values(), &expected, RULE).unwrap();
        }
    }
}

#[test]
fn gradients_of_a_decoder_with_dropout() {
    let (offsets, source) = (Offsets::from_lengths([3, 1, 2]), Offsets::from_lengths([2, 4, 1]));
    let (target, memory) = (array(6, 6, 1), array(7, 6, 2));
    for order in [NormOrder::Pre, NormOrder::Post] {
        for mode in [TRAINING, Mode::Eval] {
            let mut builder = Builder::new();
            let decoder = Decoder::new(&mut builder, &encoder_config(order, true)).unwrap();
            let layout = builder.finish();
            let run = |p: &Params<f64>, x: &Array2<f64>, memory: &Array2<f64>| {
                let memory = Memory { output: memory.view(), offsets: &source };
                decoder.forward(p, x.clone(), DecoderInput { offsets: &offsets, memory }, mode).unwrap()
            };
            let back = |p: &Params<f64>, x: &Array2<f64>, memory: &Array2<f64>, dy: &Array2<f64>, g: &mut _| {
                let cache = run(p, x, memory).1;
                let memory = Memory { output: memory.view(), offsets: &source };
                let input = DecoderInput { offsets: &offsets, memory };
                decoder.backward(p, &cache, input, dy.clone(), mode, g).unwrap()
            };
            check(
                &format!("decoder {order:?}: target"),
                &layout,
                &target,
                |p, x| run(p, x, &memory).0,
                |p, x, dy, g| {
                    let [dx, _] = back(p, x, &memory, dy, g);
                    dx
                },
            );
            check(
                &format!("decoder {order:?}: memory"),
                &layout,
                &memory,
                |p, memory| run(p, &target, memory).0,
                |p, memory, dy, g| {
                    let [_, d_memory] = back(p, &target, memory, dy, g);
                    d_memory
                },
            );
        }
    }
}

#[test]
fn gradients_of_recurrent_layers_with_dropout() {
    let offsets = Offsets::from_lengths([3, 0, 1, 4]);
    for cell in RecurrentCell::ALL {
        for (bidirectional, mode) in [(false, TRAINING), (true, TRAINING), (true, Mode::Eval)] {
            let config =
                RecurrentConfig { cell, num_layers: 2, d_model: 4, hidden_size: 5, bidirectional, dropout: 0.3 };
            let mut builder = Builder::new();
            let network = Recurrent::new(&mut builder, &config);
            check(
                &format!("{cell:?} bidirectional {bidirectional}"),
                &builder.finish(),
                &array(8, 4, 1),
                |p, x| network.forward(p, x.clone(), &offsets, mode).unwrap().0,
                |p, x, dy, g| {
                    let (_, cache) = network.forward(p, x.clone(), &offsets, mode).unwrap();
                    network.backward(p, &cache, &offsets, dy.clone(), mode, g).unwrap()
                },
            );
        }
    }
}

#[test]
fn gradients_of_pooling() {
    let offsets = Offsets::from_lengths([3, 0, 1, 2]);
    let kinds = [Pooling::Mean, Pooling::Max, Pooling::First, Pooling::Last, Pooling::MeanSqrtLength];
    for pooling in kinds {
        check(
            "pooling",
            &Builder::new().finish(),
            &array(6, 4, 1),
            |_, x| pooling.forward(x.view(), &offsets).0,
            |_, x, dy, _| pooling.backward(&pooling.forward(x.view(), &offsets).1, &offsets, dy.view()),
        );
    }
}

#[test]
fn gradients_of_a_classifier_with_its_loss() {
    let recurrent = |cell| {
        let sizes =
            RecurrentConfig { cell, num_layers: 2, d_model: 6, hidden_size: 4, bidirectional: true, dropout: 0.2 };
        BackboneConfig::from(sizes)
    };
    let bodies =
        [encoder_config(NormOrder::Pre, false).into(), recurrent(RecurrentCell::Lstm), recurrent(RecurrentCell::Gru)];
    let poolings = [Pooling::Mean, Pooling::Max, Pooling::First];
    let all = poolings.into_iter().flat_map(|pooling| bodies.clone().map(|body| (pooling, body)));
    // Every second pair still covers every pooling and every backbone.
    let step = if exhaustive("chumoku-nn") { 1 } else { 2 };
    for (pooling, body) in all.step_by(step) {
        let classifier = Classifier::new(ClassifierConfig {
            vocab_size: 9,
            num_classes: 3,
            backbone: body,
            position: PositionKind::Learned,
            max_length: 4,
            pooling,
            embedding_dropout: 0.2,
            head_dropout: 0.2,
            head_dense: match pooling {
                Pooling::Mean => None,
                Pooling::Max => Some(DenseHeadConfig {
                    activation: HeadActivation::Gelu,
                    bias: false,
                    norm: Some((NormKind::LayerWithoutBias, 1e-3)),
                }),
                _ => Some(DenseHeadConfig::new(HeadActivation::Tanh)),
            },
            embeddings: match pooling {
                Pooling::First => InputEmbeddingsOptions {
                    norm_epsilon: Some(1e-3),
                    token_types: 2,
                    separator: Some(3),
                    first_position: 1,
                    ..InputEmbeddingsOptions::default()
                },
                _ => InputEmbeddingsOptions::default(),
            },
        })
        .unwrap();
        let (ids, offsets) = ([1, 8, 3, 3, 0, 2, 5], Offsets::from_lengths([3, 4]));
        let (weights, row_weights) = ([0.5, 1.0, 2.0], [0.7, 1.9]);
        let options =
            CrossEntropy { label_smoothing: 0.1, class_weights: Some(&weights), row_weights: Some(&row_weights) };
        let loss = |p: &Params<f64>, grads: Option<&mut Params<f64>>| {
            let (logits, cache) = classifier.forward(p, &ids, &offsets, TRAINING).unwrap();
            let mut d = Array2::zeros(logits.dim());
            let logits = logits.as_slice().unwrap();
            let loss = cross_entropy(logits, &[2, 0], &options, d.as_slice_mut().unwrap()).unwrap();
            if let Some(grads) = grads {
                classifier.backward(p, (&ids, &offsets), &cache, d.view(), TRAINING, grads).unwrap();
            }
            loss
        };
        let params = random_params(classifier.layout());
        let mut grads = Params::zeros(classifier.layout());
        loss(&params, Some(&mut grads));
        let expected = central_difference(params.values(), STEP, |values| {
            let mut moved = params.clone();
            moved.values_mut().copy_from_slice(values);
            loss(&moved, None)
        });
        compare("classifier", grads.values(), &expected, RULE).unwrap();
        // The token vectors, as used by integrated gradients.
        let x = classifier.token_embeddings(&params, &ids).unwrap();
        let of_vectors = |x: &Array2<f64>| classifier.forward_embedded(&params, x.clone(), (&ids, &offsets)).unwrap();
        let (logits, cache) = of_vectors(&x);
        let (plain, _) = classifier.forward(&params, &ids, &offsets, Mode::Eval).unwrap();
        assert_eq!(logits, plain, "the table's vectors give the logits of the tokens");
        let d_logits = array(2, 3, 4);
        let mut scratch = Params::zeros(classifier.layout());
        let dx = classifier.backward_embedded(&params, &offsets, &cache, d_logits.view(), &mut scratch).unwrap();
        let expected = central_difference(x.as_slice().unwrap(), STEP, |moved| {
            dot(&of_vectors(&reshaped(moved, &x)).0, &d_logits)
        });
        compare("classifier: vectors of tokens", dx.as_slice().unwrap(), &expected, RULE).unwrap();
        assert!(classifier.forward_embedded(&params, array(6, 6, 1), (&ids, &offsets)).is_err());
        // Multi-label targets: one with two labels, one with none.
        let labels = [vec![0, 2], vec![]];
        let mut grads_of_labels = Params::zeros(classifier.layout());
        let of_weights = |p: &Params<f64>, weights: Option<&[f64]>, grads: &mut Params<f64>| {
            classifier.multi_label_loss(p, (&ids, &offsets), (&labels, weights), TRAINING, grads)
        };
        let of_labels = |p: &Params<f64>, grads: &mut Params<f64>| of_weights(p, Some(&row_weights), grads).unwrap();
        let found = of_labels(&params, &mut grads_of_labels);
        // The weighted mean of the losses of both sequences; weights of 1 change no bit.
        let mut unused = Params::zeros(classifier.layout());
        let [first, second] = [[1.0, 0.0], [0.0, 1.0]].map(|w| of_weights(&params, Some(&w), &mut unused).unwrap());
        assert!((found - (0.7 * first + 1.9 * second) / 2.6).abs() < 1e-12, "{found} {first} {second}");
        let [mut plain, mut of_ones] = [(); 2].map(|()| Params::zeros(classifier.layout()));
        let both = (of_weights(&params, None, &mut plain), of_weights(&params, Some(&[1.0, 1.0]), &mut of_ones));
        assert_eq!((both.0.unwrap(), plain.values()), (both.1.unwrap(), of_ones.values()));
        for wrong in [&[1.0][..], &[1.0, -1.0], &[0.0, 0.0], &[f64::NAN, 1.0]] {
            assert!(of_weights(&params, Some(wrong), &mut unused).is_err(), "{wrong:?}");
        }
        let expected = central_difference(params.values(), STEP, |values| {
            let mut moved = params.clone();
            moved.values_mut().copy_from_slice(values);
            of_labels(&moved, &mut Params::zeros(classifier.layout()))
        });
        compare("classifier of labels", grads_of_labels.values(), &expected, RULE).unwrap();
        for wrong in [&labels[..1], &[vec![3], vec![]]] {
            let found = classifier.multi_label_loss(&params, (&ids, &offsets), (wrong, None), TRAINING, &mut unused);
            assert!(found.is_err());
        }
        let plain = CrossEntropy { class_weights: None, row_weights: None, ..options };
        let found = classifier.loss(&params, (&ids, &offsets), &[2], &plain, TRAINING, &mut unused);
        assert!(found.is_err(), "two sequences have two labels");
        // Frozen parameters have no gradient and do not change the other gradients.
        for prefixes in
            [&["embedding."][..], &["embedding.", "position.", "token_type.", "input_norm.", "encoder.layers.0."]]
        {
            let is_frozen = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
            let partly = params.freeze(is_frozen);
            let mut of_rest = Params::zeros(partly.layout());
            loss(&partly, Some(&mut of_rest));
            let mut places = of_rest.layout().iter();
            for own in classifier.layout().iter().filter(|param| !is_frozen(param.name)) {
                let found = places.next().unwrap();
                assert_eq!((found.name, &of_rest.values()[found.range]), (own.name, &grads.values()[own.range]));
            }
            assert!(places.next().is_none());
        }
    }
}

#[test]
fn gradients_of_a_masked_language_model_with_its_loss() {
    let bert = |norm_epsilon| TextEncoderConfig {
        vocab_size: 9,
        encoder: encoder_config(NormOrder::Post, false),
        position: PositionKind::Learned,
        max_length: 4,
        embedding_dropout: 0.2,
        embeddings: InputEmbeddingsOptions { norm_epsilon, ..InputEmbeddingsOptions::default() },
    };
    // As in ModernBERT: no biases, no first norm, and a window and its own rotary base in every other layer.
    let mut layers = encoder_config(NormOrder::Pre, false);
    (layers.num_layers, layers.d_model) = (3, 8);
    layers.attention = AttentionOptions { bias: AttentionBias::None, ..AttentionOptions::default() };
    layers.options = LayerOptions {
        norm: NormKind::LayerWithoutBias,
        norm_epsilon: Some(1e-3),
        feed_forward: FeedForwardKind::Gated,
        first_norm_left_out: true,
        local_layers: Some(LocalLayers { global_every: 2, window: 1, rotary_base: 7.0 }),
    };
    let modern = TextEncoderConfig {
        vocab_size: 9,
        encoder: layers,
        position: PositionKind::Rotary,
        max_length: 4,
        embedding_dropout: 0.2,
        embeddings: InputEmbeddingsOptions {
            norm_epsilon: Some(1e-3),
            norm: NormKind::LayerWithoutBias,
            ..InputEmbeddingsOptions::default()
        },
    };
    for config in [bert(None), bert(Some(1e-3)), modern] {
        let model = MaskedLanguageModel::new(config).unwrap();
        let (ids, offsets) = ([1, 8, 3, 3, 0, 2, 5], Offsets::from_lengths([3, 4]));
        let (at, hidden) = ([1, 4, 6, 1], [7, 2, 0, 3]);
        let params = random_params(model.layout());
        let loss = |p: &Params<f64>, grads: Option<&mut Params<f64>>| {
            model.loss(p, Tokens::new(&ids, &offsets), (&at, &hidden), TRAINING, grads).unwrap()
        };
        let mut grads = Params::zeros(model.layout());
        loss(&params, Some(&mut grads));
        let expected = central_difference(params.values(), STEP, |values| {
            let mut moved = params.clone();
            moved.values_mut().copy_from_slice(values);
            loss(&moved, None)
        });
        compare("masked language model", grads.values(), &expected, RULE).unwrap();
    }
}

#[test]
fn gradients_of_a_tagger_with_its_loss() {
    let encoder = TextEncoderConfig {
        vocab_size: 9,
        encoder: encoder_config(NormOrder::Post, false),
        position: PositionKind::Learned,
        max_length: 4,
        embedding_dropout: 0.2,
        embeddings: InputEmbeddingsOptions::default(),
    };
    for head_dense in [None, Some(DenseHeadConfig::new(HeadActivation::Gelu))] {
        let config =
            TokenTaggerConfig { num_tags: 3, num_places: 2, head_dropout: 0.2, head_dense, encoder: encoder.clone() };
        let model = TokenTagger::new(config).unwrap();
        let (ids, offsets) = ([1, 8, 3, 3, 0, 2, 5], Offsets::from_lengths([3, 4]));
        // Three units share a token, and the third uses the position of the second. Some tokens have no unit.
        let units = TaggedUnits { tokens: &[1, 1, 1, 3, 5], positions: &[0, 1, 2, 0, 0] };
        let tags = [2, 0, 1, 1, 2];
        let params = random_params(model.layout());
        let loss = |p: &Params<f64>, grads: &mut Params<f64>| {
            let options = CrossEntropy { label_smoothing: 0.1, class_weights: None, row_weights: None };
            model.loss(p, Tokens::new(&ids, &offsets), (units, &tags), &options, TRAINING, grads).unwrap()
        };
        let mut grads = Params::zeros(model.layout());
        loss(&params, &mut grads);
        let expected = central_difference(params.values(), STEP, |values| {
            let mut moved = params.clone();
            moved.values_mut().copy_from_slice(values);
            loss(&moved, &mut Params::zeros(model.layout()))
        });
        compare("tagger", grads.values(), &expected, RULE).unwrap();

        let tokens = Tokens::new(&ids, &offsets);
        let (whole, _) = model.forward(&params, tokens, units, Mode::Eval).unwrap();
        assert_eq!(model.logits(&params, tokens, units).unwrap(), whole);
        assert!(whole.row(0) != whole.row(1) && whole.row(1) == whole.row(2));
        for wrong in [TaggedUnits { tokens: &[7], positions: &[0] }, TaggedUnits { tokens: &[1], positions: &[] }] {
            assert!(model.logits(&params, tokens, wrong).is_err());
        }
    }
}

#[test]
fn gradients_of_soft_and_hard_attention() {
    let (q, k, v) = (array(3, 4, 1), array(5, 4, 2), array(5, 2, 3));
    let dy = array(3, 2, 4);
    let attended = soft_attention(q.view(), k.view(), v.view(), 1.7).unwrap();
    let found = soft_attention_backward([q.view(), k.view(), v.view()], 1.7, &attended, dy.view()).unwrap();
    for (which, (name, x)) in [("dq", &q), ("dk", &k), ("dv", &v)].into_iter().enumerate() {
        let expected = central_difference(x.as_slice().unwrap(), STEP, |moved| {
            let mut all = [q.clone(), k.clone(), v.clone()];
            all[which] = reshaped(moved, x);
            dot(&soft_attention(all[0].view(), all[1].view(), all[2].view(), 1.7).unwrap().output, &dy)
        });
        compare(name, found[which].as_slice().unwrap(), &expected, RULE).unwrap();
    }
    let attended = hard_attention(q.view(), k.view(), v.view()).unwrap();
    let found = hard_attention_backward(&attended, dy.view()).unwrap();
    let expected = central_difference(v.as_slice().unwrap(), STEP, |moved| {
        dot(&hard_attention(q.view(), k.view(), reshaped(moved, &v).view()).unwrap().output, &dy)
    });
    compare("hard dv", found.as_slice().unwrap(), &expected, RULE).unwrap();
}
