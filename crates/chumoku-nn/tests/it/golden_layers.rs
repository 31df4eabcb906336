//! Every layer compared with PyTorch: outputs and all gradients, from the files in `golden/layers`.

use chumoku_kernels::*;
use chumoku_nn::attention::{hard_attention, soft_attention, soft_attention_backward};
use chumoku_nn::layers::*;
use chumoku_nn::models::{
    Classifier, ClassifierConfig, LanguageModel, LanguageModelConfig, TranslationBatch, Translator, TranslatorConfig,
    TranslatorOptions,
};
use chumoku_nn::params::{Builder, ParamView, Params};
use ndarray::{Array2, ArrayView2};
use testkit::{GoldenFile, Tolerance, compare};

/// 1e-5 of the largest magnitude, as in golden/README.md.
const RULE: Tolerance = Tolerance { relative: 1e-5, absolute: 0.0 };

/// A golden file for one number type.
struct GoldenCase<T> {
    golden: GoldenFile,
    kind: std::marker::PhantomData<T>,
}

/// `f32` runs the fast kernels, `f64` the plain reference. Both must agree with PyTorch.
trait Number: Real + Into<f64> {}
impl Number for f32 {}
impl Number for f64 {}

impl<T: Number> GoldenCase<T> {
    fn read(name: &str) -> Self {
        GoldenCase { golden: GoldenFile::read(&format!("layers/{name}")), kind: std::marker::PhantomData }
    }

    fn values(&self, name: &str) -> Vec<T> {
        self.golden.tensor(name).iter().map(|&x| T::round_from(x)).collect()
    }

    fn array(&self, name: &str) -> Array2<T> {
        let shape = self.golden.shape(name);
        Array2::from_shape_vec((shape[0], shape[1]), self.values(name)).unwrap()
    }

    fn offsets(&self, name: &str) -> Offsets {
        Offsets::from_lengths(self.golden.integers(name).windows(2).map(|w| w[1] - w[0]))
    }

    fn ids(&self, name: &str) -> Vec<u32> {
        self.golden.integers(name).iter().map(|&id| id as u32).collect()
    }

    fn assert_close(&self, name: &str, found: &[T]) {
        compare(&format!("{name} in {}", std::any::type_name::<T>()), found, self.golden.tensor(name), RULE).unwrap();
    }

    fn assert_array_close(&self, name: &str, found: ArrayView2<'_, T>) {
        self.assert_close(name, found.as_standard_layout().as_slice().unwrap());
    }

    /// Returns parameters in the layout of `builder` with the values of `param.*`, and zero gradients. Every parameter
    /// of the file must be used.
    fn params(&self, builder: Builder) -> (Params<T>, Params<T>) {
        let layout = builder.finish();
        let mut params = Params::zeros(&layout);
        for ParamView { name, shape, range } in layout.iter() {
            assert_eq!(shape, self.golden.shape(&format!("param.{name}")), "{name}");
            params.values_mut()[range].copy_from_slice(&self.values(&format!("param.{name}")));
        }
        assert_eq!(layout.iter().count(), self.golden.names("param.").count());
        let grads = Params::zeros(&layout);
        (params, grads)
    }

    fn assert_grads_close(&self, grads: &Params<T>) {
        for ParamView { name, range, .. } in grads.layout().iter() {
            self.assert_close(&format!("grad.param.{name}"), &grads.values()[range]);
        }
    }
}

/// Runs a test body for both number types.
macro_rules! both {
    ($name:ident, $body:ident $(, $argument:expr)*) => {
        #[test]
        fn $name() {
            $body::<f32>($($argument),*);
            $body::<f64>($($argument),*);
        }
    };
}

fn linear<T: Number>(name: &str, bias: bool) {
    let case = GoldenCase::<T>::read(name);
    let mut builder = Builder::new();
    let layer = Linear::new(&mut builder, 6, 5, bias);
    let (p, mut grads) = case.params(builder);
    let x = case.array("in.x");
    case.assert_array_close("out.output", layer.forward(&p, x.view()).unwrap().view());
    let dx = layer.backward(&p, x.view(), case.array("in.dout").view(), &mut grads).unwrap();
    case.assert_array_close("grad.in.x", dx.view());
    case.assert_grads_close(&grads);
    // Any memory layout is accepted.
    let turned = x.t().as_standard_layout().into_owned();
    case.assert_array_close("out.output", layer.forward(&p, turned.t()).unwrap().view());
}
both!(linear_with_bias, linear, "linear", true);
both!(linear_without_bias, linear, "linear_no_bias", false);

fn embedding<T: Number>() {
    let case = GoldenCase::<T>::read("embedding");
    let mut builder = Builder::new();
    let layer = Embedding::new(&mut builder, 10, 8);
    let (p, mut grads) = case.params(builder);
    let ids = case.ids("in.ids");
    case.assert_array_close("out.output", layer.forward(&p, &ids).unwrap().view());
    layer.backward(&ids, case.array("in.dout").view(), &mut grads).unwrap();
    case.assert_grads_close(&grads);
}
both!(embedding_scaled, embedding);

fn position<T: Number>(name: &str, kind: PositionKind) {
    let case = GoldenCase::<T>::read(name);
    let mut x = case.array("in.x");
    let mut builder = Builder::new();
    let layer = PositionEncoding::new(&mut builder, kind, 20, x.ncols());
    let (p, mut grads) = case.params(builder);
    let offsets = case.offsets("in.offsets");
    layer.forward(&p, &mut x, &offsets).unwrap();
    case.assert_array_close("out.output", x.view());
    if kind == PositionKind::Sinusoidal {
        case.assert_array_close("out.table", sinusoidal::<T>(20, x.ncols()).view());
    }
    layer.backward(case.array("in.dout").view(), &offsets, &mut grads);
    case.assert_grads_close(&grads);
}
both!(position_sinusoidal, position, "position_sinusoidal", PositionKind::Sinusoidal);
both!(position_sinusoidal_odd, position, "position_sinusoidal_odd", PositionKind::Sinusoidal);
both!(position_learned, position, "position_learned", PositionKind::Learned);

fn norm<T: Number>(name: &str) {
    let case = GoldenCase::<T>::read(name);
    let mut builder = Builder::new();
    let layer = Norm::new(&mut builder, NormKind::Layer, 8, Norm::EPSILON);
    let (p, mut grads) = case.params(builder);
    let x = case.array("in.x");
    let (y, cache) = layer.forward(&p, x.view()).unwrap();
    case.assert_array_close("out.output", y.view());
    let dx = layer.backward(&p, x.view(), &cache, case.array("in.dout").view(), None, &mut grads).unwrap();
    case.assert_array_close("grad.in.x", dx.view());
    case.assert_grads_close(&grads);
}
both!(layer_norm, norm, "layer_norm");
both!(layer_norm_low_variance, norm, "layer_norm_low_variance");

fn activation<T: Number>(name: &str, kind: Activation) {
    let case = GoldenCase::<T>::read(name);
    let x = case.values("in.x");
    let (mut y, mut dx) = (vec![T::round_from(f64::NAN); x.len()], vec![T::round_from(f64::NAN); x.len()]);
    activation_forward(kind, &x, &mut y).unwrap();
    activation_backward(kind, &x, &case.values("in.dout"), &mut dx).unwrap();
    case.assert_close("out.output", &y);
    case.assert_close("grad.in.x", &dx);
}
both!(relu, activation, "relu", Activation::Relu);
both!(gelu, activation, "gelu", Activation::Gelu);
both!(gelu_tanh, activation, "gelu_tanh", Activation::GeluTanh);

fn softmax<T: Number>() {
    let case = GoldenCase::<T>::read("softmax");
    let x = case.values("in.x");
    let (mut y, mut dx) = (vec![T::round_from(f64::NAN); x.len()], vec![T::round_from(f64::NAN); x.len()]);
    softmax_forward(&x, 5, &mut y).unwrap();
    softmax_backward(&y, 5, &case.values("in.dout"), &mut dx).unwrap();
    case.assert_close("out.output", &y);
    case.assert_close("grad.in.x", &dx);
}
both!(softmax_rows, softmax);

fn loss<T: Number>(name: &str, smoothing: f64, weighted: bool) {
    let case = GoldenCase::<T>::read(name);
    let (logits, labels) = (case.values("in.logits"), case.ids("in.labels"));
    let weights = weighted.then(|| case.values("in.class_weights"));
    let options = CrossEntropy {
        label_smoothing: T::round_from(smoothing),
        class_weights: weights.as_deref(),
        row_weights: None,
    };
    let mut d_logits = vec![T::round_from(f64::NAN); logits.len()];
    let found = cross_entropy(&logits, &labels, &options, &mut d_logits).unwrap();
    case.assert_close("out.loss", &[found]);
    case.assert_close("grad.in.logits", &d_logits);
}
both!(cross_entropy_plain, loss, "cross_entropy", 0.0, false);
both!(cross_entropy_smoothed, loss, "cross_entropy_label_smoothing", 0.1, false);
both!(cross_entropy_weighted, loss, "cross_entropy_class_weights", 0.0, true);
both!(cross_entropy_both, loss, "cross_entropy_label_smoothing_class_weights", 0.1, true);

fn packed_attention<T: Number>(name: &str) {
    let case = GoldenCase::<T>::read(name);
    let [q, k, v] = ["query", "key", "value"].map(|n| case.array(&format!("in.{n}")));
    let apart = case.golden.has("in.query_offsets");
    let (qo, ko) = if apart { ("in.query_offsets", "in.key_offsets") } else { ("in.offsets", "in.offsets") };
    let (qo, ko) = (case.offsets(qo), case.offsets(ko));
    let heads = 2;
    let value_dim = v.ncols() / heads;
    let additive = if name.ends_with("additive") { case.values("in.mask") } else { vec![] };
    let boolean: Vec<bool> =
        if name.ends_with("bool") { case.golden.tensor("in.mask").iter().map(|&x| x != 0.0).collect() } else { vec![] };
    fn view<'a, T: Number>(x: &'a Array2<T>, offsets: &'a Offsets) -> Heads<'a, T> {
        Heads::packed(x.as_slice().unwrap(), offsets.as_slice(), 2, x.ncols() / 2, x.ncols()).unwrap()
    }
    let mut args = Attention::new(view(&q, &qo), view(&k, &ko), view(&v, &ko));
    match name {
        "attention_mask_bool" => args = args.mask(Mask::Boolean(MaskView::new(&boolean, &[5, 5]).unwrap())),
        "attention_mask_additive" => args = args.mask(Mask::Additive(MaskView::new(&additive, &[5, 5]).unwrap())),
        "attention_causal" => args = args.causal(Causal::TopLeft),
        _ => {}
    }
    let nan = T::round_from(f64::NAN);
    let mut y = Array2::from_elem((qo.tokens(), v.ncols()), nan);
    let mut lse = vec![nan; heads * qo.tokens()];
    let output = HeadsMut::packed(y.as_slice_mut().unwrap(), qo.as_slice(), heads, value_dim, heads * value_dim);
    args.forward_with_log_sum_exp(output.unwrap(), &mut lse).unwrap();
    case.assert_close("out.output", y.as_slice().unwrap());
    case.assert_close("out.log_sum_exp", &lse);
    let weights: Vec<T> =
        (0..qo.sequences()).flat_map(|s| (0..heads).flat_map(move |h| args.weights(s, h).unwrap())).collect();
    case.assert_close("out.weights", &weights);
    let d = case.array("in.dout");
    let mut grads = [&q, &k, &v].map(|x| vec![nan; x.len()]);
    let mut each = grads.iter_mut();
    let [query, key, value] = [(&q, &qo), (&k, &ko), (&v, &ko)].map(|(x, offsets)| {
        let (width, data) = (x.ncols(), each.next().unwrap());
        HeadsMut::packed(data, offsets.as_slice(), heads, width / heads, width).unwrap()
    });
    let gradients = Gradients { query, key, value, mask: None, sinks: None };
    let saved =
        BackwardInputs { output: view(&y, &qo), log_sum_exp: &lse, d_output: view(&d, &qo), d_log_sum_exp: None };
    args.backward(saved, gradients).unwrap();
    for (name, grad) in ["query", "key", "value"].iter().zip(&grads) {
        case.assert_close(&format!("grad.in.{name}"), grad);
    }
}
both!(attention_plain, packed_attention, "attention_plain");
both!(attention_causal, packed_attention, "attention_causal");
both!(attention_mask_bool, packed_attention, "attention_mask_bool");
both!(attention_mask_additive, packed_attention, "attention_mask_additive");
both!(attention_cross, packed_attention, "attention_cross");
both!(attention_cross_empty, packed_attention, "attention_cross_empty");

fn multi_head<T: Number>(name: &str) {
    let case = GoldenCase::<T>::read(name);
    let option = |name| case.golden.optional_attribute(name);
    let number = |name| option(name).map(|value| value.parse::<usize>().unwrap());
    let is_set = |name| option(name) == Some("true");
    let (d_model, heads) = (number("d_model").unwrap(), number("heads").unwrap());
    let options = AttentionOptions {
        num_key_heads: number("key_heads"),
        window: number("window"),
        beta: option("beta").map(|beta| beta.parse().unwrap()),
        train_beta: is_set("train_beta"),
        hard_attention: is_set("hard"),
        position: match option("position") {
            Some("rotary") => PositionKind::Rotary,
            Some("alibi") => PositionKind::Alibi,
            _ => PositionKind::None,
        },
        ..AttentionOptions::default()
    };
    let mut config = MultiHeadAttentionConfig::new(d_model, heads).unwrap().with_options(options).unwrap();
    config.bias = option("bias") != Some("false");
    config.causal = is_set("causal") || option("causal") == Some("top_left");
    config.key_width = number("key_dim").unwrap_or(d_model);
    config.value_width = number("value_dim").unwrap_or(d_model);
    let cross = case.golden.has("in.key");
    let mut builder = Builder::new();
    let layer = MultiHeadAttention::new(&mut builder, config);
    let (p, mut grads) = case.params(builder);
    let (query, memory, qo, ko);
    let input = if cross {
        query = case.array("in.query");
        memory = [case.array("in.key"), case.array("in.value")];
        (qo, ko) = (case.offsets("in.query_offsets"), case.offsets("in.key_offsets"));
        AttentionInput {
            query: query.view(),
            query_offsets: &qo,
            memory: Some([memory[0].view(), memory[1].view()]),
            key_offsets: &ko,
            mask: None,
        }
    } else {
        query = case.array("in.x");
        qo = case.offsets("in.offsets");
        AttentionInput::self_attention(query.view(), &qo)
    };
    let (y, cache) = layer.forward(&p, &input, Mode::Eval).unwrap();
    case.assert_array_close("out.output", y.view());
    let weights: Vec<T> = (0..input.query_offsets.sequences())
        .flat_map(|s| (0..heads).map(move |h| (s, h)))
        .flat_map(|(s, h)| layer.attention_weights(&input, &cache, s, h).unwrap())
        .collect();
    case.assert_close("out.weights", &weights);
    let dout = case.array("in.dout");
    let (dq, memory) = layer.backward(&p, &input, &cache, dout.view(), Mode::Eval, &mut grads).unwrap();
    if let Some([dk, dv]) = memory {
        case.assert_array_close("grad.in.query", dq.view());
        case.assert_array_close("grad.in.key", dk.view());
        case.assert_array_close("grad.in.value", dv.view());
    } else {
        case.assert_array_close("grad.in.x", dq.view());
    }
    // The key bias does not affect the softmax: its true gradient is 0, so the tolerance is relative to the whole bias.
    case.assert_grads_close(&grads);
}
both!(mha_self, multi_head, "mha_self");
both!(mha_self_no_bias, multi_head, "mha_self_no_bias");
both!(mha_causal, multi_head, "mha_causal");
both!(mha_cross, multi_head, "mha_cross");
both!(mha_gqa, multi_head, "mha_gqa");
both!(mha_gqa_cross, multi_head, "mha_gqa_cross");
both!(mha_mqa_causal, multi_head, "mha_mqa_causal");
both!(mha_mqa_cross_widths, multi_head, "mha_mqa_cross_widths");
both!(mha_window, multi_head, "mha_window");
both!(mha_window_causal, multi_head, "mha_window_causal");
both!(mha_rotary, multi_head, "mha_rotary");
both!(mha_rotary_gqa_causal, multi_head, "mha_rotary_gqa_causal");
both!(mha_alibi, multi_head, "mha_alibi");
both!(mha_alibi_causal, multi_head, "mha_alibi_causal");
both!(mha_beta, multi_head, "mha_beta");
both!(mha_beta_trained, multi_head, "mha_beta_trained");
both!(mha_beta_trained_rotary, multi_head, "mha_beta_trained_rotary");
both!(mha_hard, multi_head, "mha_hard");
both!(mha_hard_causal, multi_head, "mha_hard_causal");

fn feed_forward<T: Number>(name: &str, kind: Activation) {
    let case = GoldenCase::<T>::read(name);
    let mut builder = Builder::new();
    let layer = FeedForward::new(&mut builder, [8, 16], kind, 0.0, 0);
    let (p, mut grads) = case.params(builder);
    let x = case.array("in.x");
    let (y, cache) = layer.forward(&p, x.view(), Mode::Eval).unwrap();
    case.assert_array_close("out.output", y.view());
    let dout = case.array("in.dout");
    let dx = layer.backward(&p, x.view(), &cache, dout.view(), Mode::Eval, &mut grads).unwrap();
    case.assert_array_close("grad.in.x", dx.view());
    case.assert_grads_close(&grads);
}
both!(feed_forward_relu, feed_forward, "feed_forward_relu", Activation::Relu);
both!(feed_forward_gelu, feed_forward, "feed_forward_gelu", Activation::Gelu);

fn config(num_layers: usize, norm_order: NormOrder, activation: &str, scale: usize) -> EncoderConfig {
    EncoderConfig {
        activation: activation.into(),
        norm_order,
        ..EncoderConfig::new(num_layers, 8 * scale, 2, 16 * scale)
    }
}

fn encoder_layer<T: Number>(name: &str, order: NormOrder, activation: &str) {
    let case = GoldenCase::<T>::read(name);
    let mut builder = Builder::new();
    let layer = EncoderLayer::new(&mut builder, &config(1, order, activation, 1), 0).unwrap();
    let (p, mut grads) = case.params(builder);
    let (x, offsets) = (case.array("in.x"), case.offsets("in.offsets"));
    let (y, cache) = layer.forward(&p, x, &offsets, Mode::Eval).unwrap();
    case.assert_array_close("out.output", y.view());
    let dx = layer.backward(&p, &cache, &offsets, case.array("in.dout"), Mode::Eval, &mut grads).unwrap();
    case.assert_array_close("grad.in.x", dx.view());
    case.assert_grads_close(&grads);
}
both!(encoder_layer_post_relu, encoder_layer, "encoder_layer_post_relu", NormOrder::Post, "relu");
both!(encoder_layer_post_gelu, encoder_layer, "encoder_layer_post_gelu", NormOrder::Post, "gelu");
both!(encoder_layer_pre_relu, encoder_layer, "encoder_layer_pre_relu", NormOrder::Pre, "relu");
both!(encoder_layer_pre_gelu, encoder_layer, "encoder_layer_pre_gelu", NormOrder::Pre, "gelu");

fn encoder<T: Number>(name: &str, order: NormOrder, activation: &str) {
    let case = GoldenCase::<T>::read(name);
    let mut builder = Builder::new();
    let encoder = Encoder::new(&mut builder, &config(2, order, activation, 1)).unwrap();
    let (p, mut grads) = case.params(builder);
    let (x, offsets) = (case.array("in.x"), case.offsets("in.offsets"));
    let (y, cache) = encoder.forward(&p, x, &offsets, Mode::Eval).unwrap();
    case.assert_array_close("out.output", y.view());
    let dx = encoder.backward(&p, &cache, &offsets, case.array("in.dout"), Mode::Eval, &mut grads).unwrap();
    case.assert_array_close("grad.in.x", dx.view());
    case.assert_grads_close(&grads);
}
both!(encoder_pre, encoder, "encoder_pre", NormOrder::Pre, "gelu");
both!(encoder_post, encoder, "encoder_post", NormOrder::Post, "relu");

/// Runs a decoder layer or a decoder on targets and memory.
fn decoder_case<T: Number, C>(
    name: &str,
    builder: Builder,
    forward: impl FnOnce(&Params<T>, Array2<T>, DecoderInput<'_, T>) -> (Array2<T>, C),
    backward: impl FnOnce(&Params<T>, &C, DecoderInput<'_, T>, Array2<T>, &mut Params<T>) -> [Array2<T>; 2],
) {
    let case = GoldenCase::<T>::read(name);
    let (p, mut grads) = case.params(builder);
    let (offsets, memory_offsets) = (case.offsets("in.offsets"), case.offsets("in.memory_offsets"));
    let memory = case.array("in.memory");
    let memory = Memory { output: memory.view(), offsets: &memory_offsets };
    let input = DecoderInput { offsets: &offsets, memory };
    let (y, cache) = forward(&p, case.array("in.x"), input);
    case.assert_array_close("out.output", y.view());
    let [dx, d_memory] = backward(&p, &cache, input, case.array("in.dout"), &mut grads);
    case.assert_array_close("grad.in.x", dx.view());
    case.assert_array_close("grad.in.memory", d_memory.view());
    case.assert_grads_close(&grads);
}

fn decoder_layer<T: Number>(name: &str, order: NormOrder, activation: &str) {
    let mut builder = Builder::new();
    let layer = DecoderLayer::new(&mut builder, &config(1, order, activation, 1), 0).unwrap();
    decoder_case::<T, _>(
        name,
        builder,
        |p, x, input| layer.forward(p, x, input, Mode::Eval).unwrap(),
        |p, cache, input, dy, grads| {
            let mut d = Array2::from_elem(input.memory.output.dim(), T::ZERO);
            let gradients = DecoderGradients { params: grads, memory: &mut d };
            let dx = layer.backward(p, cache, input, dy, Mode::Eval, gradients).unwrap();
            [dx, d]
        },
    );
}
both!(decoder_layer_post_relu, decoder_layer, "decoder_layer_post_relu", NormOrder::Post, "relu");
both!(decoder_layer_pre_gelu, decoder_layer, "decoder_layer_pre_gelu", NormOrder::Pre, "gelu");

fn decoder<T: Number>(name: &str, order: NormOrder, activation: &str) {
    let mut builder = Builder::new();
    let decoder = Decoder::new(&mut builder, &config(2, order, activation, 1)).unwrap();
    decoder_case::<T, _>(
        name,
        builder,
        |p, x, input| decoder.forward(p, x, input, Mode::Eval).unwrap(),
        |p, cache, input, dy, grads| decoder.backward(p, cache, input, dy, Mode::Eval, grads).unwrap(),
    );
}
both!(decoder_pre, decoder, "decoder_pre", NormOrder::Pre, "gelu");
both!(decoder_post, decoder, "decoder_post", NormOrder::Post, "relu");

fn recurrent<T: Number>(cell: RecurrentCell, layers: usize, bidirectional: bool) {
    let case = GoldenCase::<T>::read(&format!("{}{}", cell.name(), if bidirectional { "_bidirectional" } else { "" }));
    let mut builder = Builder::new();
    let config = RecurrentConfig { cell, num_layers: layers, d_model: 6, hidden_size: 8, bidirectional, dropout: 0.5 };
    let layer = Recurrent::new(&mut builder, &config);
    let (p, mut grads) = case.params(builder);
    let (x, offsets) = (case.array("in.x"), case.offsets("in.offsets"));
    let (y, cache) = layer.forward(&p, x.clone(), &offsets, Mode::Eval).unwrap();
    case.assert_array_close("out.output", y.view());
    case.assert_array_close("out.output", layer.infer(&p, x, &offsets).unwrap().view());
    let dx = layer.backward(&p, &cache, &offsets, case.array("in.dout"), Mode::Eval, &mut grads).unwrap();
    case.assert_array_close("grad.in.x", dx.view());
    case.assert_grads_close(&grads);
}
both!(rnn, recurrent, RecurrentCell::Rnn, 1, false);
both!(lstm, recurrent, RecurrentCell::Lstm, 1, false);
both!(gru, recurrent, RecurrentCell::Gru, 1, false);
both!(rnn_bidirectional, recurrent, RecurrentCell::Rnn, 2, true);
both!(lstm_bidirectional, recurrent, RecurrentCell::Lstm, 2, true);
both!(gru_bidirectional, recurrent, RecurrentCell::Gru, 2, true);

fn pooling<T: Number>(name: &str, pooling: Pooling) {
    let case = GoldenCase::<T>::read(name);
    let (x, offsets) = (case.array("in.x"), case.offsets("in.offsets"));
    let (y, cache) = pooling.forward(x.view(), &offsets);
    case.assert_array_close("out.output", y.view());
    case.assert_array_close("grad.in.x", pooling.backward(&cache, &offsets, case.array("in.dout").view()).view());
}
both!(pooling_mean, pooling, "pooling_mean", Pooling::Mean);
both!(pooling_max, pooling, "pooling_max", Pooling::Max);
both!(pooling_first, pooling, "pooling_first", Pooling::First);

fn hard_soft<T: Number>() {
    let case = GoldenCase::<T>::read("hard_soft");
    let x = case.array("in.x");
    let query = Array2::from_shape_vec((1, 4), case.values("in.query")).unwrap();
    let douts = case.array("in.dout");
    let (mut outputs, mut weights) = (vec![], vec![]);
    let (mut dx, mut dq) = (Array2::from_elem(x.dim(), T::ZERO), Array2::from_elem((1, 4), T::ZERO));
    for (i, beta) in case.values("in.betas").into_iter().enumerate() {
        let found = soft_attention(query.view(), x.view(), x.view(), beta).unwrap();
        let dout = douts.row(i).insert_axis(ndarray::Axis(0));
        let [d_query, d_key, d_value] =
            soft_attention_backward([query.view(), x.view(), x.view()], beta, &found, dout).unwrap();
        dq.zip_mut_with(&d_query, |a, &b| *a += b);
        dx.zip_mut_with(&d_key, |a, &b| *a += b);
        dx.zip_mut_with(&d_value, |a, &b| *a += b);
        outputs.extend(found.output);
        weights.extend(found.weights);
    }
    case.assert_close("out.output", &outputs);
    case.assert_close("out.weights", &weights);
    case.assert_array_close("grad.in.x", dx.view());
    case.assert_array_close("grad.in.query", dq.view());
    let hard = hard_attention(query.view(), x.view(), x.view()).unwrap();
    case.assert_array_close("out.hard_weights", hard.weights.view());
    case.assert_array_close("out.hard_output", hard.output.view());
}
both!(hard_and_soft, hard_soft);

fn adamw<T: Number>() {
    let case = GoldenCase::<T>::read("adamw");
    let mut param = case.values("param.weight");
    let n = param.len();
    let (mut m, mut v) = (vec![T::ZERO; n], vec![T::ZERO; n]);
    let (grads, mut after) = (case.values("in.gradients"), vec![]);
    for (step, grad) in grads.chunks_exact(n).enumerate() {
        let options = AdamW {
            learning_rate: case.golden.numeric_attribute("lr"),
            beta1: 0.9,
            beta2: 0.98,
            epsilon: case.golden.numeric_attribute("eps"),
            weight_decay: case.golden.numeric_attribute("weight_decay"),
            step: step as u64 + 1,
            grad_scale: 1.0,
        };
        adamw_step(&options, &mut param, grad, [&mut m, &mut v]).unwrap();
        after.extend(&param);
    }
    case.assert_close("out.param", &after);
    // These span many orders of magnitude, so each element is compared by itself.
    for (name, found) in [("out.exp_avg", m), ("out.exp_avg_sq", v)] {
        for (&found, &expected) in found.iter().zip(case.golden.tensor(name)) {
            compare(name, &[found], &[expected], RULE).unwrap();
        }
    }
}
both!(adamw_steps, adamw);

#[test]
fn a_classifier_trains_like_pytorch() {
    classifier_training::<f32>();
    classifier_training::<f64>();
}

/// Ten steps of AdamW with clipped gradients, as in PyTorch. `learn(step, params, grads)` returns the loss.
fn ten_steps<T: Number>(
    case: &GoldenCase<T>,
    layout: &std::sync::Arc<chumoku_nn::params::ParamLayout>,
    mut learn: impl FnMut(usize, &Params<T>, &mut Params<T>) -> T,
) {
    let mut p = Params::<T>::zeros(layout);
    for ParamView { name, range, .. } in layout.iter() {
        p.values_mut()[range].copy_from_slice(&case.values(&format!("param.{name}")));
    }
    let (mut m, mut v) = (Params::<T>::zeros(layout), Params::<T>::zeros(layout));
    let mut losses = vec![];
    for step in 0..10 {
        let mut grads = Params::zeros(layout);
        losses.push(learn(step, &p, &mut grads));
        if step == 0 {
            case.assert_grads_close(&grads);
        }
        let norm = sum_of_squares(grads.values()).sqrt();
        compare("norm", &[norm], &case.golden.tensor("out.grad_norms")[step..=step], RULE).unwrap();
        for ParamView { shape, range, .. } in layout.iter() {
            let options = AdamW {
                learning_rate: 1e-3,
                beta1: 0.9,
                beta2: 0.98,
                epsilon: 1e-8,
                weight_decay: if shape.len() > 1 { 0.01 } else { 0.0 },
                step: step as u64 + 1,
                grad_scale: (1.0 / (norm + 1e-6)).min(1.0),
            };
            let moments = [&mut m.values_mut()[range.clone()], &mut v.values_mut()[range.clone()]];
            adamw_step(&options, &mut p.values_mut()[range.clone()], &grads.values()[range], moments).unwrap();
        }
    }
    case.assert_close("out.losses", &losses);
    // AdamW turns the rounding of near-zero gradients into steps. This affects one weight of the translator, which is
    // off by 0.1 to 1.2 times the tolerance, depending on the instruction set. All others are within a quarter of the
    // tolerance.
    let mut ill_conditioned = 0;
    for ParamView { name, range, .. } in layout.iter() {
        let (found, expected) = (&p.values()[range], case.golden.tensor(&format!("out.final.{name}")));
        let third = found.len() / 3;
        // The true gradient of the key bias is 0, so that third is excluded.
        let excluded = if name.ends_with("in_proj_bias") { third..2 * third } else { 0..0 };
        for part in [0..excluded.start, excluded.end..found.len()] {
            let (found, expected) = (&found[part.clone()], &expected[part]);
            compare(name, found, expected, Tolerance::relative(2.0 * RULE.relative)).unwrap();
            let size = expected.iter().fold(0.0f64, |size, x| size.max(x.abs()));
            let is_off = |(&x, expected): (&T, &f64)| (x.into() - expected).abs() > RULE.relative / 4.0 * size;
            ill_conditioned += found.iter().zip(expected).filter(|pair| is_off(*pair)).count();
        }
    }
    assert!(ill_conditioned <= 1, "{ill_conditioned} weights are off by more than a quarter of the tolerance");
}

fn classifier_training<T: Number>() {
    let case = GoldenCase::<T>::read("classifier_training");
    let classifier = Classifier::new(ClassifierConfig {
        vocab_size: 50,
        num_classes: 3,
        backbone: config(2, NormOrder::Pre, "gelu", 2).into(),
        position: PositionKind::Sinusoidal,
        max_length: 64,
        pooling: Pooling::Mean,
        embedding_dropout: 0.0,
        head_dropout: 0.0,
        head_dense: None,
        embeddings: InputEmbeddingsOptions::default(),
    })
    .unwrap();
    ten_steps(&case, classifier.layout(), |step, p, grads| {
        let ids = case.ids(&format!("in.step{step}.ids"));
        let offsets = case.offsets(&format!("in.step{step}.offsets"));
        let labels = case.ids(&format!("in.step{step}.labels"));
        let (logits, cache) = classifier.forward(p, &ids, &offsets, Mode::Eval).unwrap();
        if step == 0 {
            case.assert_array_close("out.logits", logits.view());
        }
        let mut d_logits = Array2::from_elem(logits.dim(), T::ZERO);
        let options = CrossEntropy { label_smoothing: T::round_from(0.1), class_weights: None, row_weights: None };
        let d = d_logits.as_slice_mut().unwrap();
        let loss = cross_entropy(logits.as_slice().unwrap(), &labels, &options, d).unwrap();
        classifier.backward(p, (&ids, &offsets), &cache, d_logits.view(), Mode::Eval, grads).unwrap();
        loss
    });
}

#[test]
fn a_translator_trains_like_pytorch() {
    translator_training::<f32>();
    translator_training::<f64>();
}

fn translator_training<T: Number>() {
    let case = GoldenCase::<T>::read("translator_training");
    let translator = Translator::new(TranslatorConfig {
        source_vocab_size: 30,
        target_vocab_size: 40,
        joint_vocabulary: false,
        encoder: config(2, NormOrder::Pre, "gelu", 2),
        num_decoder_layers: 2,
        position: PositionKind::Sinusoidal,
        max_length: 64,
        embedding_dropout: 0.0,
        options: TranslatorOptions::default(),
    })
    .unwrap();
    ten_steps(&case, translator.layout(), |step, p, grads| {
        let lengths = |side: &str| {
            let offsets = case.offsets(&format!("in.step{step}.{side}_offsets"));
            offsets.ranges().map(|range| range.len()).collect()
        };
        let batch = TranslationBatch {
            source: case.ids(&format!("in.step{step}.source")),
            source_lengths: lengths("source"),
            input: case.ids(&format!("in.step{step}.input")),
            output: case.ids(&format!("in.step{step}.output")),
            target_lengths: lengths("target"),
        };
        if step == 0 {
            case.assert_array_close("out.logits", translator.logits(p, &batch).unwrap().view());
        }
        T::round_from(translator.loss(p, &batch, T::round_from(0.1), Mode::Eval, Some(grads)).unwrap())
    });
}

#[test]
fn a_language_model_trains_like_pytorch() {
    language_model_training::<f32>();
    language_model_training::<f64>();
}

fn language_model_training<T: Number>() {
    let case = GoldenCase::<T>::read("language_model_training");
    let model = LanguageModel::new(LanguageModelConfig {
        vocab_size: 40,
        encoder: config(2, NormOrder::Pre, "gelu", 2),
        position: PositionKind::Learned,
        max_length: 12,
        embedding_dropout: 0.0,
        embeddings: InputEmbeddingsOptions::default(),
        untied_output: false,
    })
    .unwrap();
    ten_steps(&case, model.layout(), |step, p, grads| {
        let offsets = case.offsets(&format!("in.step{step}.offsets"));
        let [ids, next] = ["ids", "next"].map(|name| case.ids(&format!("in.step{step}.{name}")));
        if step == 0 {
            case.assert_array_close("out.logits", model.logits(p, &ids, &offsets).unwrap().view());
        }
        T::round_from(model.loss(p, [&ids, &next], &offsets, Mode::Eval, Some(grads)).unwrap())
    });
}

/// Activation patching and the logit lens, at every site of an encoder, against PyTorch's numbers.
fn activation_patching<T: Number>(name: &str, norm_order: NormOrder, activation: &str) {
    let case = GoldenCase::<T>::read(name);
    let classifier = Classifier::new(ClassifierConfig {
        vocab_size: 20,
        num_classes: 3,
        backbone: config(2, norm_order, activation, 1).into(),
        position: PositionKind::Sinusoidal,
        max_length: 64,
        pooling: Pooling::Mean,
        embedding_dropout: 0.0,
        head_dropout: 0.0,
        head_dense: None,
        embeddings: InputEmbeddingsOptions::default(),
    })
    .unwrap();
    let mut p = Params::<T>::zeros(classifier.layout());
    for ParamView { name, range, .. } in classifier.layout().iter() {
        p.values_mut()[range].copy_from_slice(&case.values(&format!("param.{name}")));
    }
    let pairs: Vec<[usize; 2]> =
        case.ids("in.pairs").chunks_exact(2).map(|pair| [pair[0] as usize, pair[1] as usize]).collect();
    let reader = classifier.residual_reader(&p).unwrap();
    let embed = |name: &str| classifier.embed(&p, &case.ids(name)).unwrap();
    let [recording, other] = ["in.text", "in.other"].map(|name| reader.record(embed(name)).unwrap());
    let unpatched = [&recording, &other].map(|recording| reader.logits(recording).unwrap());
    case.assert_close("out.unpatched", &unpatched.iter().flatten().copied().collect::<Vec<T>>());
    let sites = reader.patch([&recording, &other], &pairs, |logits| logits.to_vec()).unwrap();
    for (kind, layers) in
        [("residual", &sites.residual), ("heads", &sites.heads), ("feed_forward", &sites.feed_forward)]
    {
        assert_eq!(layers.len(), if kind == "residual" { 3 } else { 2 });
        for (layer, logits) in layers.iter().enumerate() {
            case.assert_close(&format!("out.{kind}{layer}"), &logits.concat());
        }
    }
    let at_depth = |depth| reader.logits_at(&recording, depth, 0..recording.residual[depth].nrows()).unwrap();
    case.assert_close("out.lens", &(0..3).flat_map(at_depth).collect::<Vec<T>>());
    // A layer adds its outputs to the residual stream.
    if norm_order == NormOrder::Pre {
        for layer in 0..2 {
            let sum = &recording.residual[layer] + &recording.attention[layer] + &recording.feed_forward[layer];
            let (sum, next) = (sum.mapv(Into::<f64>::into), recording.residual[layer + 1].mapv(Into::<f64>::into));
            compare("sum", sum.as_slice().unwrap(), next.as_slice().unwrap(), RULE).unwrap();
        }
    }
}
both!(patching_of_a_pre_norm_encoder, activation_patching, "activation_patching_pre", NormOrder::Pre, "gelu");
both!(patching_of_a_post_norm_encoder, activation_patching, "activation_patching_post", NormOrder::Post, "relu");

/// Patching of a translator's encoder and decoder at every site, and the logit lens of its decoder, against PyTorch's
/// numbers.
fn translator_patching<T: Number>(name: &str, norm_order: NormOrder, activation: &str, bottleneck: Option<usize>) {
    let case = GoldenCase::<T>::read(name);
    let model = Translator::new(TranslatorConfig {
        source_vocab_size: 20,
        target_vocab_size: 15,
        joint_vocabulary: false,
        encoder: config(2, norm_order, activation, 1),
        num_decoder_layers: 2,
        position: PositionKind::Sinusoidal,
        max_length: 64,
        embedding_dropout: 0.0,
        options: TranslatorOptions { bottleneck, ..TranslatorOptions::default() },
    })
    .unwrap();
    let mut p = Params::<T>::zeros(model.layout());
    for ParamView { name, range, .. } in model.layout().iter() {
        p.values_mut()[range].copy_from_slice(&case.values(&format!("param.{name}")));
    }
    let pairs: Vec<[usize; 2]> =
        case.ids("in.pairs").chunks_exact(2).map(|pair| [pair[0] as usize, pair[1] as usize]).collect();
    let prefix = case.ids("in.prefix");
    let sources = ["in.text", "in.other"].map(|name| case.ids(name));
    let one = |ids: &[u32]| Offsets::from_lengths([ids.len()]);
    let assert_sites = |side: &str, kinds: &[(&str, &Vec<Vec<Vec<T>>>)]| {
        for (kind, layers) in kinds {
            assert_eq!(layers.len(), if *kind == "residual" { 3 } else { 2 });
            for (layer, logits) in layers.iter().enumerate() {
                case.assert_close(&format!("out.{side}{kind}{layer}"), &logits.concat());
            }
        }
    };

    let reader = model.next_token_reader(&p, &prefix);
    let recordings =
        sources.each_ref().map(|ids| reader.record(model.embed_source(&p, ids, &one(ids)).unwrap()).unwrap());
    let unpatched = recordings.each_ref().map(|recording| reader.logits(recording).unwrap());
    case.assert_close("out.unpatched", &unpatched.iter().flatten().copied().collect::<Vec<T>>());
    let [text, other] = &recordings;
    let sites = reader.patch([text, other], &pairs, |logits| logits.to_vec()).unwrap();
    assert!(sites.cross_heads.is_empty());
    assert_sites("", &[("residual", &sites.residual), ("heads", &sites.heads), ("feed_forward", &sites.feed_forward)]);

    let reader_of = |ids: &Vec<u32>| model.next_token_decoder_reader(&p, model.encode(&p, ids, &one(ids)).unwrap());
    let readers = sources.each_ref().map(reader_of);
    let recordings = readers
        .each_ref()
        .map(|reader| reader.record(model.embed_target(&p, &prefix, &one(&prefix)).unwrap()).unwrap());
    let ([reader, _], [text, other]) = (&readers, &recordings);
    let positions: Vec<[usize; 2]> = (0..prefix.len()).map(|i| [i, i]).collect();
    let sites = reader.patch([text, other], &positions, |logits| logits.to_vec()).unwrap();
    assert_sites(
        "decoder.",
        &[
            ("residual", &sites.residual),
            ("heads", &sites.heads),
            ("cross_heads", &sites.cross_heads),
            ("feed_forward", &sites.feed_forward),
        ],
    );
    let reader = model.decoder_reader(&p, model.encode(&p, &sources[0], &one(&sources[0])).unwrap());
    let at_depth = |depth| reader.logits_at(text, depth, 0..prefix.len()).unwrap();
    case.assert_close("out.decoder.lens", &(0..3).flat_map(at_depth).collect::<Vec<T>>());
    // Tokens are read alone.
    let second = reader.logits_at(text, 1, 1..2).unwrap();
    compare("second", second.as_slice().unwrap(), &case.golden.tensor("out.decoder.lens")[75..90], RULE).unwrap();
}
both!(patching_of_a_pre_norm_translator, translator_patching, "translator_patching_pre", NormOrder::Pre, "gelu", None);
both!(
    patching_of_a_post_norm_translator,
    translator_patching,
    "translator_patching_post",
    NormOrder::Post,
    "relu",
    None
);
both!(
    patching_of_an_autoencoder,
    translator_patching,
    "translator_patching_bottleneck",
    NormOrder::Pre,
    "gelu",
    Some(3)
);
