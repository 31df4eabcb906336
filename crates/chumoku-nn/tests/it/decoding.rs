//! Step-by-step decoding with a cache equals a pass over all tokens.

use chumoku_kernels::{KeyValueCache, Real};
use chumoku_nn::layers::*;
use chumoku_nn::params::{Builder, Params};
use ndarray::{Array2, ArrayView2, Axis, concatenate};
use std::ops::Range;
use testkit::{Random, Tolerance, compare};

/// The target is 1e-5 in the logits of a whole model.
const SINGLE: Tolerance = Tolerance { relative: 2e-6, absolute: 1e-6 };
const DOUBLE: Tolerance = Tolerance { relative: 1e-13, absolute: 1e-14 };

trait Number: Real + Into<f64> {
    const CLOSE: Tolerance;
}
impl Number for f32 {
    const CLOSE: Tolerance = SINGLE;
}
impl Number for f64 {
    const CLOSE: Tolerance = DOUBLE;
}

macro_rules! both {
    ($name:ident, $body:ident $(, $argument:expr)*) => {
        #[test]
        fn $name() {
            $body::<f32>($($argument),*);
            $body::<f64>($($argument),*);
        }
    };
}

fn array<T: Real>(rows: usize, cols: usize, seed: u64) -> Array2<T> {
    let mut random = Random::new(seed);
    Array2::from_shape_simple_fn((rows, cols), || T::round_from(random.number()))
}

fn random_params<T: Real>(builder: Builder) -> Params<T> {
    let mut params = Params::zeros(&builder.finish());
    let mut random = Random::new(99);
    params.values_mut().iter_mut().for_each(|value| *value = T::round_from(0.5 * random.number()));
    params
}

fn rows_of<T>(x: &Array2<T>, rows: Range<usize>) -> ArrayView2<'_, T> {
    x.slice_axis(Axis(0), rows.into())
}

fn assert_close<T: Number>(what: &str, found: &Array2<T>, expected: &Array2<T>) {
    assert_eq!(found.dim(), expected.dim(), "{what}");
    let expected: Vec<f64> = expected.iter().map(|&x| x.into()).collect();
    compare(what, found.as_slice().unwrap(), &expected, T::CLOSE).unwrap();
}

/// Growing sequences: all tokens of each, and how many are in the cache.
struct GrowingSequences<T> {
    sequences: Vec<Array2<T>>,
    cached: Vec<usize>,
}

impl<T: Number> GrowingSequences<T> {
    fn new(lengths: &[usize], width: usize) -> Self {
        let sequences = lengths.iter().enumerate().map(|(s, &length)| array(length, width, 7 + s as u64)).collect();
        GrowingSequences { sequences, cached: vec![0; lengths.len()] }
    }

    /// Returns up to `counts` next tokens of each sequence, and their start positions.
    fn next(&mut self, counts: &[usize]) -> (Array2<T>, Offsets, Vec<usize>) {
        let starts = self.cached.clone();
        let mut rows = Vec::new();
        let mut lengths = Vec::new();
        for ((x, given), count) in self.sequences.iter().zip(&mut self.cached).zip(counts.iter().cycle()) {
            let end = x.nrows().min(*given + count);
            rows.push(rows_of(x, *given..end));
            lengths.push(end - *given);
            *given = end;
        }
        (concatenate(Axis(0), &rows).unwrap(), Offsets::from_lengths(lengths), starts)
    }

    /// Returns the rows of the outputs over all tokens that belong to the new tokens.
    fn expected(&self, starts: &[usize], forward: impl Fn(&Array2<T>) -> Array2<T>) -> Array2<T> {
        let rows: Vec<_> = (self.sequences.iter().zip(starts).zip(&self.cached))
            .map(|((x, &start), &end)| rows_of(&forward(x), start..end).to_owned())
            .collect();
        concatenate(Axis(0), &rows.iter().map(|x| x.view()).collect::<Vec<_>>()).unwrap()
    }

    fn select(&mut self, sequences: &[usize]) {
        self.sequences = sequences.iter().map(|&s| self.sequences[s].clone()).collect();
        self.cached = sequences.iter().map(|&s| self.cached[s]).collect();
    }
}

/// A prompt, single tokens, several at once, none for some sequences; sequences reordered, duplicated and dropped.
const STEPS: [(&[usize], Option<&[usize]>); 9] = [
    (&[4, 1, 6, 2], None),
    (&[1], None),
    (&[1], Some(&[2, 2, 0, 3, 1])),
    (&[1, 0, 2, 0, 1], None),
    (&[1], Some(&[1, 0, 3])),
    (&[3, 9, 0], None),
    (&[1], Some(&[2, 0])),
    (&[1], None),
    (&[9], Some(&[1])),
];

const LENGTHS: [usize; 4] = [23, 9, 19, 12];

fn self_attention<T: Number>(config: MultiHeadAttentionConfig) {
    let mut builder = Builder::new();
    let layer = MultiHeadAttention::new(&mut builder, config);
    let p = random_params::<T>(builder);
    let mut growing = GrowingSequences::<T>::new(&LENGTHS, config.d_model);
    let mut cache: KeyValueCache<T> = layer.key_value_cache(LENGTHS.len(), 5).unwrap();
    for (counts, order) in STEPS {
        if let Some(order) = order {
            growing.select(order);
            cache.select(order).unwrap();
        }
        let (x, offsets, starts) = growing.next(counts);
        let y = layer.step(&p, x.view(), &offsets, &mut cache).unwrap();
        let expected = growing.expected(&starts, |x| {
            let offsets = Offsets::from_lengths([x.nrows()]);
            layer.forward(&p, &AttentionInput::self_attention(x.view(), &offsets), Mode::Eval).unwrap().0
        });
        assert_close("step", &y, &expected);
        assert_eq!(cache.positions(), growing.cached);
    }
}

fn causal() -> MultiHeadAttentionConfig {
    MultiHeadAttentionConfig { causal: true, ..MultiHeadAttentionConfig::new(24, 4).unwrap() }
}

both!(plain, self_attention, causal());
both!(
    values_of_another_width_and_no_bias,
    self_attention,
    MultiHeadAttentionConfig { value_dim: 5, bias: false, ..causal() }
);

fn cross_attention<T: Number>(config: MultiHeadAttentionConfig) {
    let mut builder = Builder::new();
    let layer = MultiHeadAttention::new(&mut builder, config);
    let p = random_params::<T>(builder);
    let keys = Offsets::from_lengths([7, 3, 0, 20]);
    let (key, value) = (array::<T>(30, config.key_width, 1), array::<T>(30, config.value_width, 2));
    let mut memory = layer.project_memory(&p, [key.view(), value.view()], &keys).unwrap();
    // The sequences in the memory, and the number of queries of each.
    let mut held = vec![0, 1, 2, 3];
    for (round, (lengths, order)) in
        [(vec![1, 1, 1, 1], None), (vec![4, 0, 1, 3], None), (vec![5, 5, 2], Some([3, 0, 3]))].into_iter().enumerate()
    {
        if let Some(order) = order {
            memory.select(&order).unwrap();
            held = order.iter().map(|&s| held[s]).collect();
        }
        let offsets = Offsets::from_lengths(lengths);
        let x = array::<T>(offsets.tokens(), config.d_model, 10 + round as u64);
        let y = layer.step_cross_attention(&p, x.view(), &offsets, &memory).unwrap();
        let taken = |x: &Array2<T>| {
            let rows: Vec<_> = held.iter().map(|&s| rows_of(x, keys.range(s))).collect();
            concatenate(Axis(0), &rows).unwrap()
        };
        let (key, value) = (taken(&key), taken(&value));
        let key_offsets = Offsets::from_lengths(held.iter().map(|&s| keys.range(s).len()));
        assert_eq!(memory.offsets(), &key_offsets);
        let input = AttentionInput {
            query: x.view(),
            query_offsets: &offsets,
            memory: Some([key.view(), value.view()]),
            key_offsets: &key_offsets,
            mask: None,
        };
        assert_close("step across", &y, &layer.forward(&p, &input, Mode::Eval).unwrap().0);
    }
    assert!(memory.select(&[0, 3]).is_err());
}

both!(across, cross_attention, MultiHeadAttentionConfig::new(24, 4).unwrap());
both!(
    across_from_other_widths,
    cross_attention,
    MultiHeadAttentionConfig { key_width: 10, value_width: 7, value_dim: 3, ..bidirectional() }
);

fn variant(options: AttentionOptions) -> MultiHeadAttentionConfig {
    causal().with_options(options).unwrap()
}

const NONE: AttentionOptions = AttentionOptions {
    num_key_heads: None,
    window: None,
    beta: None,
    train_beta: false,
    hard_attention: false,
    rotary_base: None,
    rotary_scaling: None,
    head_dim: None,
    bias: AttentionBias::All,
    head_norm_epsilon: None,
    position: PositionKind::None,
};

both!(grouped_queries, self_attention, variant(AttentionOptions { num_key_heads: Some(2), ..NONE }));
both!(one_key_head, self_attention, variant(AttentionOptions { num_key_heads: Some(1), ..NONE }));
both!(rotary, self_attention, variant(AttentionOptions { position: PositionKind::Rotary, ..NONE }));
both!(alibi, self_attention, variant(AttentionOptions { position: PositionKind::Alibi, ..NONE }));
both!(window, self_attention, variant(AttentionOptions { window: Some(3), ..NONE }));
both!(beta, self_attention, variant(AttentionOptions { beta: Some(0.7), train_beta: true, ..NONE }));
both!(
    heads_of_another_width,
    self_attention,
    variant(AttentionOptions { head_dim: Some(6), num_key_heads: Some(2), bias: AttentionBias::Inputs, ..NONE })
);
both!(
    normalised_heads,
    self_attention,
    variant(AttentionOptions {
        num_key_heads: Some(2),
        head_norm_epsilon: Some(1e-3),
        rotary_scaling: Some(RotaryScaling::Linear { factor: 2.0 }),
        position: PositionKind::Rotary,
        bias: AttentionBias::None,
        ..NONE
    })
);
both!(hard, self_attention, variant(AttentionOptions { hard_attention: true, ..NONE }));
both!(
    all_with_rotary,
    self_attention,
    variant(AttentionOptions {
        num_key_heads: Some(2),
        window: Some(2),
        beta: Some(0.7),
        train_beta: true,
        rotary_base: Some(100.0),
        position: PositionKind::Rotary,
        ..NONE
    })
);
both!(
    all_with_alibi,
    self_attention,
    variant(AttentionOptions {
        num_key_heads: Some(1),
        window: Some(4),
        train_beta: true,
        hard_attention: true,
        position: PositionKind::Alibi,
        ..NONE
    })
);
both!(
    variants_across,
    cross_attention,
    bidirectional()
        .with_options(AttentionOptions {
            num_key_heads: Some(2),
            beta: Some(0.4),
            train_beta: true,
            head_norm_epsilon: Some(1e-2),
            ..NONE
        })
        .unwrap()
);
both!(
    hard_across,
    cross_attention,
    bidirectional().with_options(AttentionOptions { num_key_heads: Some(1), hard_attention: true, ..NONE }).unwrap()
);

/// An encoder with the positions of its model, step by step.
fn encoder<T: Number>(position: PositionKind, norm_order: NormOrder) {
    let config = EncoderConfig {
        num_layers: 3,
        d_model: 24,
        num_heads: 6,
        d_ff: 40,
        activation: "gelu".into(),
        norm_order,
        dropout: 0.1,
        attention_dropout: 0.1,
        causal: true,
        attention: AttentionOptions { num_key_heads: Some(3), position, ..NONE },
        options: LayerOptions::default(),
    };
    let mut builder = Builder::new();
    let positions = builder.scope("position", |b| PositionEncoding::new(b, position, 23, 24));
    let encoder = Encoder::new(&mut builder, &config).unwrap();
    let p = random_params::<T>(builder);
    let mut growing = GrowingSequences::<T>::new(&LENGTHS, 24);
    let mut caches = encoder.key_value_caches(LENGTHS.len(), 0).unwrap();
    for (counts, order) in STEPS {
        if let Some(order) = order {
            growing.select(order);
            caches.iter_mut().for_each(|cache| cache.select(order).unwrap());
        }
        let (mut x, offsets, starts) = growing.next(counts);
        assert_eq!(caches[0].positions(), starts);
        positions.forward_at(&p, &mut x, &offsets, &starts).unwrap();
        let y = encoder.step(&p, x, &offsets, &mut caches).unwrap();
        let expected = growing.expected(&starts, |x| {
            let (mut x, offsets) = (x.clone(), Offsets::from_lengths([x.nrows()]));
            positions.forward(&p, &mut x, &offsets).unwrap();
            encoder.forward(&p, x, &offsets, Mode::Eval).unwrap().0
        });
        assert_close("encoder", &y, &expected);
    }
    assert!(encoder.step(&p, array(0, 24, 1), &Offsets::from_lengths([0]), &mut caches[1..]).is_err());
    let (mut x, offsets) = (array::<T>(2, 24, 1), Offsets::from_lengths([0, 2]));
    let beyond = positions.forward_at(&p, &mut x, &offsets, &[0, 22]);
    assert_eq!(beyond.is_err(), position == PositionKind::Learned);
}

both!(encoder_learned, encoder, PositionKind::Learned, NormOrder::Pre);
both!(encoder_sinusoidal, encoder, PositionKind::Sinusoidal, NormOrder::Post);
both!(encoder_rotary, encoder, PositionKind::Rotary, NormOrder::Pre);
both!(encoder_alibi, encoder, PositionKind::Alibi, NormOrder::Post);

/// The output at a position does not depend on later tokens, not even in a single bit or for large inputs.
#[test]
fn later_tokens_do_not_affect_earlier_outputs() {
    let options = [
        NONE,
        AttentionOptions { num_key_heads: Some(2), ..NONE },
        AttentionOptions { window: Some(5), ..NONE },
        AttentionOptions { position: PositionKind::Rotary, ..NONE },
        AttentionOptions { position: PositionKind::Alibi, ..NONE },
        AttentionOptions { beta: Some(2.0), train_beta: true, ..NONE },
        AttentionOptions { hard_attention: true, ..NONE },
    ];
    for options in options {
        let mut builder = Builder::new();
        let config = MultiHeadAttentionConfig::new(64, 4).unwrap();
        let config = MultiHeadAttentionConfig { causal: true, ..config }.with_options(options).unwrap();
        let layer = MultiHeadAttention::new(&mut builder, config);
        let p = random_params::<f32>(builder);
        let offsets = Offsets::from_lengths([50, 300]);
        let x = array::<f32>(350, 64, 1);
        let forward = |x: &Array2<f32>| {
            layer.forward(&p, &AttentionInput::self_attention(x.view(), &offsets), Mode::Eval).unwrap().0
        };
        let before = forward(&x);
        for (place, factor) in [(51, 2.0), (60, 0.0), (130, 1e4), (349, -3.0)] {
            let mut changed = x.clone();
            changed.slice_axis_mut(Axis(0), (place..).into()).mapv_inplace(|x| x * factor + 0.1);
            let after = forward(&changed);
            assert_eq!(rows_of(&after, 0..place), rows_of(&before, 0..place), "{options:?} at {place}");
            assert_ne!(rows_of(&after, place..350), rows_of(&before, place..350));
        }
    }
}

fn bidirectional() -> MultiHeadAttentionConfig {
    MultiHeadAttentionConfig { causal: false, ..causal() }
}

#[test]
fn invalid_decoding_steps_are_errors() {
    let mut builder = Builder::new();
    let [open, closed] = [bidirectional(), causal()].map(|config| MultiHeadAttention::new(&mut builder, config));
    let p = random_params::<f32>(builder);
    let (x, offsets) = (array::<f32>(3, 24, 1), Offsets::from_lengths([3]));
    let mut cache = open.key_value_cache(1, 0).unwrap();
    let error = open.step(&p, x.view(), &offsets, &mut cache).unwrap_err().to_string();
    assert!(error.contains("needs causal attention"), "{error}");
    let other = Offsets::from_lengths([2]);
    let error = closed.step(&p, x.view(), &other, &mut cache).unwrap_err().to_string();
    assert!(error.starts_with("attention: new tokens"), "{error}");
    assert!(closed.step(&p, x.view(), &Offsets::from_lengths([1, 2]), &mut cache).is_err());
    assert_eq!(cache.lengths(), [0]);
    let memory = open.project_memory(&p, [x.view(), x.view()], &offsets).unwrap();
    assert!(closed.step_cross_attention(&p, x.view(), &offsets, &memory).unwrap_err().to_string().contains("causal"));
    assert!(open.step_cross_attention(&p, x.view(), &Offsets::from_lengths([1, 2]), &memory).is_err());
    assert!(open.project_memory(&p, [x.view(), x.view()], &other).is_err());
    // Positions in a memory.
    for options in [
        AttentionOptions { window: Some(2), ..NONE },
        AttentionOptions { position: PositionKind::Rotary, ..NONE },
        AttentionOptions { position: PositionKind::Alibi, ..NONE },
    ] {
        let mut builder = Builder::new();
        let layer = MultiHeadAttention::new(&mut builder, bidirectional().with_options(options).unwrap());
        let p = random_params::<f32>(builder);
        let memory = layer.project_memory(&p, [x.view(), x.view()], &offsets).unwrap();
        assert!(
            layer.step_cross_attention(&p, x.view(), &offsets, &memory).unwrap_err().to_string().contains("positions")
        );
        let memory = Some([x.view(), x.view()]);
        let input = AttentionInput { memory, ..AttentionInput::self_attention(x.view(), &offsets) };
        assert_eq!(layer.forward(&p, &input, Mode::Eval).is_err(), options.window.is_none());
    }
}

/// With a window, the cache does not grow with the decoded text.
#[test]
fn a_window_limits_the_cache() {
    let mut builder = Builder::new();
    let options = AttentionOptions { window: Some(4), position: PositionKind::Rotary, ..NONE };
    let layer = MultiHeadAttention::new(&mut builder, variant(options));
    let p = random_params::<f32>(builder);
    let x = array::<f32>(100, 24, 1);
    let offsets = Offsets::from_lengths([100]);
    let all = layer.forward(&p, &AttentionInput::self_attention(x.view(), &offsets), Mode::Eval).unwrap().0;
    let mut cache = layer.key_value_cache(1, 0).unwrap();
    for token in 0..100 {
        let one = Offsets::from_lengths([1]);
        let y = layer.step(&p, rows_of(&x, token..token + 1), &one, &mut cache).unwrap();
        assert_close("window", &y, &rows_of(&all, token..token + 1).to_owned());
        assert!(cache.capacity() <= 8);
    }
    assert_eq!(cache.positions(), [100]);
}
