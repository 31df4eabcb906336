//! The cost formulas, compared with the models' parameters and the kernels' own count. The count is process-wide, so
//! that test runs in its own process.

use chumoku_kernels::RecurrentCell;
use chumoku_kernels::multiply_adds;
use chumoku_nn::count::{CountConfig, NetworkKind};
use chumoku_nn::layers::{
    AttentionBias, AttentionInput, AttentionOptions, DenseHeadConfig, EncoderConfig, FeedForwardKind, HeadActivation,
    InputEmbeddingsOptions, LayerOptions, Mode, MultiHeadAttention, MultiHeadAttentionConfig, NormKind, NormOrder,
    Offsets, Pooling, PositionKind, RecurrentConfig,
};
use chumoku_nn::models::{
    Classifier, ClassifierConfig, LanguageModel, LanguageModelConfig, TextEncoder, TextEncoderConfig, TranslationBatch,
    Translator, TranslatorConfig, TranslatorOptions,
};
use chumoku_nn::params::{Builder, ParamLayout, ParamView, Params};
use ndarray::Array2;

/// Returns the parameters of a classifier, and the multiply–adds of its forward pass as counted by the kernels.
fn measured(config: ClassifierConfig, batch: usize, length: usize) -> [u128; 2] {
    let sizes = CountConfig::for_classifier(&config);
    let model = Classifier::new(config).unwrap();
    check_steps_of_parameters(&sizes, model.layout());
    let params = Params::<f32>::init(model.layout(), 1);
    let ids: Vec<u32> = (0..batch * length).map(|i| (i % 50) as u32).collect();
    let offsets = Offsets::from_lengths(vec![length; batch]);
    let before = multiply_adds();
    model.forward(&params, &ids, &offsets, Mode::Eval).unwrap();
    [model.layout().len() as u128, (multiply_adds() - before).into()]
}

/// Checks that the parameters of every step, found by their names, are as many as the step counts.
fn check_steps_of_parameters(config: &CountConfig, layout: &ParamLayout) {
    let mut found = std::collections::BTreeMap::new();
    for ParamView { name, shape, .. } in layout.iter() {
        // A bias of logits is a row.
        let (rows, columns) = if shape.len() == 1 { (shape[0], 1) } else { (shape[0], shape[1]) };
        let steps = config.steps_of_parameter(name, rows);
        assert_eq!(steps.iter().map(|step| step.rows.len()).sum::<usize>(), rows, "{name}: {steps:?}");
        for step in steps {
            *found.entry((step.part, step.step)).or_insert(0) += (step.rows.len() * columns) as u128;
        }
    }
    let mut expected = std::collections::BTreeMap::new();
    for step in config.count().unwrap().steps.iter().filter(|step| step.parameters > 0) {
        *expected.entry((step.part, step.name)).or_insert(0) += step.parameters * step.times as u128;
    }
    assert_eq!(found, expected);
}

fn classifier(body: impl Into<chumoku_nn::layers::BackboneConfig>, position: PositionKind) -> ClassifierConfig {
    ClassifierConfig {
        vocab_size: 50,
        num_classes: 3,
        backbone: body.into(),
        position,
        max_length: 40,
        pooling: Pooling::Mean,
        embedding_dropout: 0.0,
        head_dropout: 0.0,
        head_dense: None,
        embeddings: InputEmbeddingsOptions::default(),
    }
}

/// Every option that changes the cost, in two models.
fn encoders() -> impl Iterator<Item = (EncoderConfig, PositionKind)> {
    let plain = EncoderConfig { norm_order: NormOrder::Post, ..EncoderConfig::new(3, 24, 4, 56) };
    let grouped = AttentionOptions { num_key_heads: Some(2), train_beta: true, ..AttentionOptions::default() };
    let pre = EncoderConfig { norm_order: NormOrder::Pre, attention: grouped, ..plain.clone() };
    [(plain, PositionKind::Sinusoidal), (pre, PositionKind::Learned)].into_iter()
}

/// Published architectures: Qwen3 with some biases, and ModernBERT.
fn published() -> [(EncoderConfig, PositionKind); 2] {
    let (plain, _) = encoders().next().unwrap();
    let attention = AttentionOptions {
        num_key_heads: Some(2),
        bias: AttentionBias::Inputs,
        head_dim: Some(10),
        head_norm_epsilon: Some(1e-6),
        ..AttentionOptions::default()
    };
    let options = LayerOptions { norm: NormKind::Rms, feed_forward: FeedForwardKind::Gated, ..LayerOptions::default() };
    let qwen = EncoderConfig { norm_order: NormOrder::Pre, attention, options, ..plain };
    let attention = AttentionOptions { bias: AttentionBias::None, ..AttentionOptions::default() };
    let options = LayerOptions {
        norm: NormKind::LayerWithoutBias,
        feed_forward: FeedForwardKind::GatedWithBias,
        first_norm_left_out: true,
        ..options
    };
    let modern = EncoderConfig { attention, options, ..qwen.clone() };
    [(qwen, PositionKind::Rotary), (modern, PositionKind::Rotary)]
}

fn published_models() {
    for (encoder, position) in published() {
        let norm = encoder.options.norm;
        let input = InputEmbeddingsOptions {
            norm_epsilon: Some(1e-5),
            norm,
            token_types: 2,
            ..InputEmbeddingsOptions::default()
        };
        let dense = DenseHeadConfig { activation: HeadActivation::Gelu, bias: false, norm: Some((norm, 1e-5)) };
        let config =
            ClassifierConfig { head_dense: Some(dense), embeddings: input, ..classifier(encoder.clone(), position) };
        let sizes = CountConfig { batch: 3, length: 11, ..CountConfig::for_classifier(&config) };
        let count = sizes.count().unwrap();
        assert_eq!([count.parameters, count.multiply_adds], measured(config, 3, 11), "{norm:?}");
        let config = LanguageModelConfig {
            vocab_size: 50,
            encoder: encoder.clone(),
            position,
            max_length: 40,
            embedding_dropout: 0.0,
            embeddings: InputEmbeddingsOptions { unscaled: true, ..InputEmbeddingsOptions::default() },
            untied_output: true,
        };
        let sizes = CountConfig::for_language_model(&config);
        let model = LanguageModel::new(config).unwrap();
        assert_eq!(sizes.count().unwrap().parameters, model.layout().len() as u128, "{norm:?}");
        check_steps_of_parameters(&sizes, model.layout());
        let config = TextEncoderConfig {
            vocab_size: 50,
            encoder,
            position,
            max_length: 40,
            embedding_dropout: 0.0,
            embeddings: input,
        };
        let sizes = CountConfig::for_text_encoder(&config);
        let model = TextEncoder::new(config).unwrap();
        assert_eq!(sizes.count().unwrap().parameters, model.layout().len() as u128, "{norm:?}");
        check_steps_of_parameters(&sizes, model.layout());
    }
}

fn language_models() {
    for (encoder, position) in encoders() {
        let config = LanguageModelConfig {
            vocab_size: 50,
            encoder,
            position,
            max_length: 40,
            embedding_dropout: 0.0,
            embeddings: InputEmbeddingsOptions::default(),
            untied_output: false,
        };
        let model = LanguageModel::new(config.clone()).unwrap();
        let params = Params::<f32>::init(model.layout(), 1);
        let (batch, length) = (3, 11);
        let ids: Vec<u32> = (0..batch * length).map(|i| (i % 50) as u32).collect();
        let before = multiply_adds();
        model.logits(&params, &ids, &Offsets::from_lengths(vec![length; batch])).unwrap();
        let found = [model.layout().len(), (multiply_adds() - before) as usize].map(|n| n as u128);
        let sizes = CountConfig { batch, length, ..CountConfig::for_language_model(&config) };
        let count = sizes.count().unwrap();
        assert_eq!([count.parameters, count.multiply_adds], found, "language model, {position:?}");
        // Keys and values of three layers, 4 or 2 heads of width 6, 33 tokens, 4 bytes each.
        let heads = if position == PositionKind::Learned { 2 } else { 4 };
        assert_eq!(count.key_value_cache, 2 * 3 * heads * 6 * 33 * 4);
        let untied = CountConfig { untied: true, ..sizes }.count().unwrap();
        assert_eq!(untied.parameters, count.parameters + 50 * 24);
        assert_eq!(untied.multiply_adds, count.multiply_adds);
    }
}

fn translators() {
    for (encoder, position) in encoders() {
        for (joint_vocabulary, target_vocab_size, bottleneck) in
            [(true, 50, None), (false, 70, None), (true, 50, Some(5))]
        {
            let config = TranslatorConfig {
                source_vocab_size: 50,
                target_vocab_size,
                joint_vocabulary,
                encoder: encoder.clone(),
                num_decoder_layers: 2,
                position,
                max_length: 40,
                embedding_dropout: 0.0,
                // The decoder equals the encoder in one case and differs in the other.
                options: TranslatorOptions {
                    decoder_num_heads: (!joint_vocabulary).then_some(2 * encoder.num_heads),
                    decoder_d_ff: (!joint_vocabulary).then_some(20),
                    output_bias: !joint_vocabulary,
                    bottleneck,
                    absolute_positions: false,
                },
            };
            let model = Translator::new(config.clone()).unwrap();
            let params = Params::<f32>::init(model.layout(), 1);
            let mut pairs = TranslationBatch::default();
            // Sources of 9 tokens; targets of 5, including the start or end token.
            (0..3).for_each(|_| pairs.push(&[1, 2, 3, 4, 5, 6, 7, 8, 9], &[10, 11, 12, 13], 0));
            let before = multiply_adds();
            model.logits(&params, &pairs).unwrap();
            let found = [model.layout().len(), (multiply_adds() - before) as usize].map(|n| n as u128);
            let sizes =
                CountConfig { batch: 3, length: 9, target_length: Some(5), ..CountConfig::for_translator(&config) };
            let count = sizes.count().unwrap();
            assert_eq!([count.parameters, count.multiply_adds], found, "{config:?}");
            check_steps_of_parameters(&sizes, model.layout());
            // The keys and values of the target, and those of the source.
            let of_decoder = if joint_vocabulary { 4 } else { 8 };
            let heads = if position == PositionKind::Learned { 2 } else { of_decoder };
            let memory = if bottleneck.is_some() { 1 } else { 9 };
            assert_eq!(count.key_value_cache, 2 * 2 * heads * (24 / of_decoder) * 3 * (memory + 5) * 4);
            assert_eq!((count.sequential_steps, count.quadratic_from), (3 + 2, None));
            let of_one_length = CountConfig { target_length: None, ..sizes }.count().unwrap();
            assert_eq!(of_one_length.quadratic_from.is_some(), bottleneck.is_none());
            let parts: Vec<&str> = count.steps.iter().map(|step| step.part).collect();
            for part in ["encoder", "decoder", "cross"] {
                assert!(parts.contains(&part), "{part}");
            }
        }
    }
}

/// Returns the parameters of all steps with a name.
fn step_parameters(config: CountConfig, name: &str) -> u128 {
    let steps = config.count().unwrap().steps;
    steps.iter().filter(|step| step.name == name).map(|step| step.parameters * step.times as u128).sum()
}

#[test]
fn every_size_changes_its_own_figures() {
    let base = CountConfig { d_model: 24, num_heads: 4, d_ff: 56, num_layers: 2, ..CountConfig::default() };
    // Attention alone, with embedding and head: the classifier of the article.
    let article = CountConfig {
        network: NetworkKind::Attention,
        d_model: 256,
        num_heads: 8,
        vocab_size: 10_000,
        num_classes: 2,
        ..base
    };
    assert_eq!(article.count().unwrap().parameters, 2_823_682);
    let learned = CountConfig { learned_positions: 512, ..article };
    assert_eq!(learned.count().unwrap().parameters, 2_823_682 + 512 * 256);
    // Without biases a recurrent network has only matrices, like PyTorch's with bias=False.
    for cell in [RecurrentCell::Rnn, RecurrentCell::Lstm, RecurrentCell::Gru] {
        let plain = CountConfig { network: NetworkKind::Recurrent(cell), bias: false, num_classes: 3, ..base };
        let matrices = 2 * cell.gates() as u128 * 2 * 24 * 24;
        assert_eq!(plain.count().unwrap().parameters, matrices + 3 * 24, "{}", cell.name());
        let one_bias = CountConfig { bias: true, gate_biases: 1, num_classes: 0, ..plain };
        assert_eq!(one_bias.count().unwrap().parameters, matrices + 2 * cell.gates() as u128 * 24);
    }
    // Biases of W_Q, W_K and W_V only, and of all projections.
    let no_qkv = CountConfig { qkv_bias: Some(false), ..base };
    assert_eq!(base.count().unwrap().parameters - no_qkv.count().unwrap().parameters, 2 * 3 * 24);
    assert_eq!((step_parameters(no_qkv, "W_Q"), step_parameters(no_qkv, "W_O")), (2 * 576, 2 * 600));
    let none = CountConfig { bias: false, ..base };
    assert_eq!(base.count().unwrap().parameters - none.count().unwrap().parameters, 2 * (4 * 24 + 56 + 24));
    let only_qkv = CountConfig { bias: false, qkv_bias: Some(true), ..base };
    assert_eq!((step_parameters(only_qkv, "W_Q"), step_parameters(only_qkv, "W_O")), (2 * 600, 2 * 576));
    // Pre-norm: norms before their sublayers, and a final norm.
    let pre = CountConfig { norm_order: NormOrder::Pre, ..base }.count().unwrap();
    assert_eq!(pre.parameters, base.count().unwrap().parameters + 48);
    assert_eq!((pre.steps[0].name, pre.steps[pre.steps.len() - 1].name), ("norm 1", "final norm"));
    assert_eq!((pre.steps[pre.steps.len() - 1].times, pre.steps[0].times), (1, 2));
    // A different number of keys has its own growth.
    let cross = CountConfig { network: NetworkKind::Attention, keys: Some(7), ..base }.count().unwrap();
    let growth = |name: &str| cross.steps.iter().find(|step| step.name == name).unwrap().growth.clone();
    let names = ["W_Q", "W_K", "scores", "softmax", "W_O"];
    assert_eq!(names.map(growth), ["n·d²", "m·d²", "n·m·d", "n·m", "n·d²"]);
}

#[test]
fn tables_count_only_the_rows_read_and_layers_are_sequential() {
    let base = CountConfig { vocab_size: 10_000, learned_positions: 512, num_layers: 3, ..CountConfig::default() };
    let bytes = |config: CountConfig, name: &str| {
        let count = config.count().unwrap();
        count.steps.iter().find(|step| step.name == name).unwrap().bytes
    };
    let [b, n, d, v] = [32u128, 128, 256, 10_000];
    for untied in [false, true] {
        let decoder = CountConfig { network: NetworkKind::Decoder, untied, ..base };
        // The embedding reads the looked-up rows and writes the result; the output layer reads the whole table.
        assert_eq!(bytes(decoder, "embedding"), 4 * 2 * b * n * d);
        assert_eq!(bytes(decoder, "output"), 4 * (b * n * d + v * d + b * n * v));
        // Each position is read once for the whole batch.
        assert_eq!(bytes(decoder, "positions"), 4 * (2 * b * n * d + n * d));
    }
    for (network, steps) in [
        (NetworkKind::Attention, 1),
        (NetworkKind::Transformer, 3),
        (NetworkKind::Decoder, 3),
        (NetworkKind::EncoderDecoder, 6),
        (NetworkKind::Recurrent(RecurrentCell::Gru), 3 * 128),
    ] {
        assert_eq!(CountConfig { network, ..base }.count().unwrap().sequential_steps, steps, "{network:?}");
    }
}

#[test]
fn figures_above_two_to_the_64_are_exact() {
    let long = CountConfig { length: 10_000_000, d_model: 16_384, d_ff: 65_536, ..CountConfig::default() };
    let count = long.count().unwrap();
    // 4 layers of 32 sequences: two products of n²·d, four of n·d², two of n·d·f.
    let [n, d] = [10_000_000u128, 16_384];
    assert_eq!(count.multiply_adds, 4 * 32 * (2 * n * n * d + 4 * n * d * d + 2 * n * d * 4 * d));
    assert!(count.multiply_adds > u128::from(u64::MAX));
    let scores = count.steps.iter().find(|step| step.name == "scores").unwrap();
    assert_eq!(scores.multiply_adds, 32 * n * n * d);
    assert_eq!(scores.held, 4 * 32 * 8 * n * n);
    assert_eq!(scores.bytes, 4 * 32 * (8 * n * n + 2 * n * d));
    let sum = count.steps.iter().map(|step| step.times as u128 * step.bytes).sum::<u128>();
    assert_eq!(count.bytes, sum);
    assert_eq!(count.held - count.held_fused, 4 * 3 * scores.held);
    assert_eq!(count.peak, 4 * (count.parameters + 32 * n * d + 32 * 8 * n * n * 2));
    // W_Q reads its parameters and the tokens.
    let query = count.steps.iter().find(|step| step.name == "W_Q").unwrap();
    assert_eq!(query.bytes, 4 * (2 * 32 * n * d + d * d + d));
    // Figures above 128 bits are errors; all sizes below the limit are accepted.
    let huge = 1 << 30;
    let wide = CountConfig { batch: huge, length: huge, d_model: huge, num_heads: 1, d_ff: huge, ..long };
    assert_eq!(wide.count().unwrap().multiply_adds, 4 * 8 * (1 << 120));
    let largest = CountConfig { num_layers: huge, ..wide };
    let error = largest.count().unwrap_err().to_string();
    assert!(error.contains("2^128"), "{error}");
    let one =
        CountConfig { network: NetworkKind::Attention, head_dim: Some(1), d_model: 1, ..largest }.count().unwrap();
    assert_eq!(one.multiply_adds, (1 << 60) * (4 + (1 << 31)));
    let fault = |config: CountConfig| config.count().unwrap_err().to_string();
    assert!(
        fault(CountConfig { d_ff: huge + 1, ..long }).contains("d_ff: expected 1 to 1,073,741,824, got 1073741825")
    );
    assert!(fault(CountConfig { vocab_size: usize::MAX, ..long }).contains("vocab: expected 0 to"));
}

#[test]
fn formulas_match_the_kernels() {
    testkit::in_own_process("count::formulas_match_the_kernels", check_formulas);
}

fn check_formulas() {
    language_models();
    published_models();
    translators();
    for (batch, length, key_heads, norm_order) in
        [(1, 7, None, NormOrder::Pre), (3, 20, Some(2), NormOrder::Post), (2, 33, Some(1), NormOrder::Pre)]
    {
        let encoder = EncoderConfig {
            norm_order,
            attention: AttentionOptions { num_key_heads: key_heads, ..AttentionOptions::default() },
            ..EncoderConfig::new(3, 24, 4, 56)
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
            norm_order,
            ..CountConfig::default()
        };
        let count = base.count().unwrap();
        let found = measured(classifier(encoder.clone(), PositionKind::Sinusoidal), batch, length);
        assert_eq!([count.parameters, count.multiply_adds], found, "transformer");
        let learned = CountConfig { learned_positions: 40, ..base };
        let found = measured(classifier(encoder, PositionKind::Learned), batch, length);
        assert_eq!(learned.count().unwrap().parameters, found[0], "learned positions");

        for cell in [RecurrentCell::Rnn, RecurrentCell::Lstm, RecurrentCell::Gru] {
            for bidirectional in [false, true] {
                let body =
                    RecurrentConfig { cell, num_layers: 2, d_model: 24, hidden_size: 20, bidirectional, dropout: 0.0 };
                let config = CountConfig {
                    network: NetworkKind::Recurrent(cell),
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

    // Cross-attention without biases, 5 queries and 9 keys.
    let mut builder = Builder::new();
    let config = MultiHeadAttentionConfig { bias: false, ..MultiHeadAttentionConfig::new(24, 4).unwrap() };
    let attention = MultiHeadAttention::new(&mut builder, config);
    let params = Params::<f32>::init(&builder.finish(), 1);
    let (queries, keys) = (Offsets::from_lengths([5, 5]), Offsets::from_lengths([9, 9]));
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
    let found = [params.values().len() as u128, (multiply_adds() - before).into()];
    let config = CountConfig {
        network: NetworkKind::Attention,
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

    // At the crossover both terms are equal: 4·n·d² = 2·n²·d for attention alone at n = 2·d.
    let at =
        CountConfig { network: NetworkKind::Attention, batch: 1, length: 48, keys: None, ..config }.count().unwrap();
    assert_eq!(at.attention_quadratic_from, Some(48.0));
    let work = |names: &[&str]| -> u128 {
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

#[test]
fn additive_attention_is_counted_by_hand() {
    let config = CountConfig {
        network: NetworkKind::AdditiveAttention,
        batch: 2,
        length: 3,
        keys: Some(5),
        d_model: 4,
        hidden_size: Some(7),
        ..CountConfig::default()
    };
    let count = config.count().unwrap();
    // W_Q with its bias, W_K, v.
    assert_eq!(count.parameters, (4 * 7 + 7) + 4 * 7 + 7);
    let [queries, keys, scores, sum] = [2 * 3 * 4 * 7, 2 * 5 * 4 * 7, 2 * 3 * 5 * 7, 2 * 3 * 5 * 4];
    assert_eq!(count.multiply_adds, queries + keys + scores + sum);
    assert_eq!(count.sequential_steps, 1);
    let tanh = count.steps.iter().find(|step| step.name == "sums, tanh").unwrap();
    // Each pair of query and key has its own vector, which dot-product attention does not have.
    assert_eq!((tanh.shape.as_slice(), tanh.held), (&[2, 3, 5, 7][..], 4 * 2 * 3 * 5 * 7));
    assert_eq!(NetworkKind::from_name("additive-attention"), Some(NetworkKind::AdditiveAttention));
}
