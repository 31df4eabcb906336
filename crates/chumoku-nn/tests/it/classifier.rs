//! The two ways to compute a classifier's logits, and the packed copies of its weights.

use chumoku_kernels::{Isa, Precision, RecurrentCell, active_isa};
use chumoku_nn::layers::{
    AttentionOptions, BackboneConfig, EncoderConfig, InputEmbeddingsOptions, Mode, Offsets, Pooling, PositionKind,
};
use chumoku_nn::models::{Classifier, ClassifierConfig};
use chumoku_nn::params::Params;
use ndarray::Array2;

/// Returns the mutable encoder configuration.
fn encoder(config: &mut ClassifierConfig) -> &mut EncoderConfig {
    match &mut config.backbone {
        BackboneConfig::Transformer(encoder) => encoder,
        other => panic!("{other:?} is not a transformer"),
    }
}

fn model() -> Classifier {
    Classifier::new(ClassifierConfig {
        vocab_size: 50,
        num_classes: 3,
        backbone: EncoderConfig { dropout: 0.1, attention_dropout: 0.1, ..EncoderConfig::new(2, 64, 4, 100) }.into(),
        position: PositionKind::Sinusoidal,
        max_length: 300,
        pooling: Pooling::Mean,
        embedding_dropout: 0.1,
        head_dropout: 0.0,
        head_dense: None,
        embeddings: InputEmbeddingsOptions::default(),
    })
    .unwrap()
}

/// The same with recurrent backbones of the same size.
fn recurrent() -> [Classifier; 3] {
    RecurrentCell::ALL.map(|cell| Classifier::new(model().config().with_cell(cell).unwrap()).unwrap())
}

#[test]
fn recurrent_models_match_the_size_of_the_transformer() {
    let size = model().layout().len() as f64;
    for other in recurrent() {
        let ratio = other.layout().len() as f64 / size;
        assert!((0.97..1.03).contains(&ratio), "{ratio}: {:?}", other.config());
        assert_eq!(other.config().position, PositionKind::None);
    }
    // They are no larger than necessary if even the smallest exceeds the transformer.
    let tiny = ClassifierConfig { vocab_size: 1, ..model().config().clone() };
    let mut body = tiny.backbone.transformer().unwrap().clone();
    (body.num_layers, body.d_model, body.num_heads, body.d_ff) = (1, 2, 1, 1);
    let tiny = ClassifierConfig { backbone: body.into(), ..tiny }.with_cell(RecurrentCell::Lstm).unwrap();
    assert_eq!(tiny.backbone.width(), 2 * 4);
}

fn in_threads<R: Send>(threads: usize, run: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(run)
}

#[test]
fn logits_equal_those_of_the_forward_pass() {
    logits_of(model());
    recurrent().into_iter().for_each(logits_of);
}

fn logits_of(model: Classifier) {
    let mut params = Params::<f32>::init(model.layout(), 1);
    // Sequences longer and shorter than a group, including empty ones; and an empty batch.
    for lengths in [&[0, 300, 1, 0, 200, 90, 17, 256, 3, 0][..], &[5], &[]] {
        let offsets = Offsets::from_lengths(lengths.iter().copied());
        let ids: Vec<u32> = (0..offsets.tokens()).map(|i| (i * 7 % 50) as u32).collect();
        for precision in Precision::ALL {
            params.set_precision(precision);
            let (expected, _) = model.forward(&params, &ids, &offsets, Mode::Eval).unwrap();
            for threads in [1, 2, 3] {
                let found = in_threads(threads, || model.logits(&params, &ids, &offsets)).unwrap();
                assert_eq!(found, expected, "{} {precision:?} {threads} threads", Isa::best());
            }
        }
        assert!(model.logits(&params, &[ids, vec![1]].concat(), &offsets).is_err());
    }
}

#[test]
fn changed_weights_drop_their_packed_copies() {
    let model = model();
    let offsets = Offsets::from_lengths([20, 30]);
    let ids: Vec<u32> = (0..50).collect();
    let logits = |params: &Params<f32>| model.logits(params, &ids, &offsets).unwrap();
    let mut params = Params::<f32>::init(model.layout(), 1);
    let changes: [fn(&mut Params<f32>); 3] = [
        |params| params.values_mut().iter_mut().for_each(|x| *x *= 1.5),
        |params| params.set_precision(Precision::Medium),
        |params| params.clear(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let before = logits(&params);
        change(&mut params);
        let after = logits(&params);
        // A clone has no packed copies.
        assert_eq!(after, logits(&params.clone()), "change {number}");
        // Without bf16, every level is plain f32.
        let tells = number != 1 || active_isa() >= Isa::Avx512Bf16;
        assert_eq!(after != before, tells, "change {number} at {}", active_isa().name());
    }
}

/// Old model folders have no options, and default options are not written.
#[test]
fn default_options_are_not_serialized() {
    let config = model().config().clone();
    let json = serde_json::to_value(&config).unwrap();
    let names: Vec<&String> = json.as_object().unwrap().keys().collect();
    let expected = [
        "vocab_size",
        "num_classes",
        "num_layers",
        "d_model",
        "num_heads",
        "d_ff",
        "activation",
        "norm_order",
        "dropout",
        "attention_dropout",
        "causal",
        "position",
        "max_length",
        "pooling",
        "embedding_dropout",
        "head_dropout",
    ];
    assert_eq!(names, expected);
    assert_eq!(serde_json::from_value::<ClassifierConfig>(json).unwrap(), config);
    let mut changed = config;
    changed.position = PositionKind::Rotary;
    encoder(&mut changed).attention = AttentionOptions {
        num_key_heads: Some(2),
        window: Some(30),
        beta: Some(0.2),
        train_beta: true,
        hard_attention: true,
        rotary_base: Some(500.0),
        ..AttentionOptions::default()
    };
    let json = serde_json::to_string(&changed).unwrap();
    assert!(json.contains(r#""num_key_heads":2,"attention_window":30,"beta":0.2,"train_beta":true"#), "{json}");
    assert!(json.contains(r#""hard_attention":true,"rotary_base":500.0"#) && json.contains(r#""position":"rotary""#));
    assert_eq!(serde_json::from_str::<ClassifierConfig>(&json).unwrap(), changed);
}

#[test]
fn invalid_options_are_errors() {
    let fault = |change: fn(&mut ClassifierConfig)| {
        let mut config = model().config().clone();
        change(&mut config);
        Classifier::new(config).unwrap_err().to_string()
    };
    for (change, expected) in [
        (
            (|c| encoder(c).attention.num_key_heads = Some(3)) as fn(&mut ClassifierConfig),
            "num_key_heads: expected a divisor of the 4 heads, got 3",
        ),
        (|c| encoder(c).attention.num_key_heads = Some(0), "num_key_heads: expected a divisor of the 4 heads, got 0"),
        (|c| encoder(c).attention.beta = Some(f64::NAN), "beta: expected a finite number, got NaN"),
        (|c| encoder(c).attention.rotary_base = Some(-1.0), "rotary_base: expected a finite number above 0, got -1"),
        (
            |c| {
                encoder(c).d_model = 60;
                c.position = PositionKind::Rotary;
            },
            "rotary positions: expected heads of an even width (d_model / num_heads), got 15",
        ),
    ] {
        assert_eq!(fault(change), expected);
    }
}

/// Every option changes the logits, and none reaches what it should not.
#[test]
fn options_change_the_logits() {
    let logits = |position: PositionKind, attention: AttentionOptions, ids: &[u32]| {
        let mut config = model().config().clone();
        config.position = position;
        encoder(&mut config).attention = attention;
        let model = Classifier::new(config).unwrap();
        let params = Params::<f32>::init(model.layout(), 1);
        model.logits(&params, ids, &Offsets::from_lengths([ids.len()])).unwrap()
    };
    let none = AttentionOptions::default();
    let ids: Vec<u32> = (0..40).map(|i| i * 7 % 50).collect();
    let turned: Vec<u32> = ids.iter().rev().copied().collect();
    let distance = |a: Array2<f32>, b: Array2<f32>| (a - b).mapv(f32::abs).sum();
    let bag = |ids: &[u32]| logits(PositionKind::None, none, ids);
    assert!(distance(bag(&ids), bag(&turned)) < 1e-4);
    // ALiBi treats both directions alike, so reversing the order has no effect, but swapping two tokens has.
    let mut exchanged = ids.clone();
    exchanged.swap(0, 20);
    for position in [PositionKind::Sinusoidal, PositionKind::Learned, PositionKind::Rotary, PositionKind::Alibi] {
        assert!(distance(logits(position, none, &ids), logits(position, none, &exchanged)) > 1e-4, "{position:?}");
    }
    for options in [
        AttentionOptions { num_key_heads: Some(2), ..none },
        AttentionOptions { window: Some(3), ..none },
        AttentionOptions { beta: Some(2.0), ..none },
        AttentionOptions { hard_attention: true, ..none },
    ] {
        assert!(distance(logits(PositionKind::None, options, &ids), bag(&ids)) > 1e-4, "{options:?}");
    }
    let base = AttentionOptions { rotary_base: Some(10.0), ..none };
    let rotary = |options| logits(PositionKind::Rotary, options, &ids);
    assert!(distance(rotary(base), rotary(none)) > 1e-4);
    // A window as long as the text has no effect, and β starts at the fixed value.
    let whole = AttentionOptions { window: Some(40), ..none };
    assert!(distance(logits(PositionKind::None, whole, &ids), bag(&ids)) < 1e-5);
    let trained = AttentionOptions { train_beta: true, ..none };
    assert!(distance(logits(PositionKind::None, trained, &ids), bag(&ids)) < 1e-5);
}
