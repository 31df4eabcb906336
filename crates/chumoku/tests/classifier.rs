//! The classifier's two ways to logits, and what is packed of its weights.

use chumoku::models::{Classifier, ClassifierConfig};
use chumoku::nn::{EncoderConfig, Mode, NormOrder, Offsets, Pooling, PositionKind};
use chumoku::params::Params;
use chumoku::{Cell, Isa, Precision};
use ndarray::Array2;

fn model() -> Classifier {
    Classifier::new(ClassifierConfig {
        vocab_size: 50,
        num_classes: 3,
        body: EncoderConfig {
            num_layers: 2,
            d_model: 64,
            num_heads: 4,
            d_ff: 100,
            activation: "gelu".into(),
            norm_order: NormOrder::Pre,
            dropout: 0.1,
            attention_dropout: 0.1,
            causal: false,
        }
        .into(),
        position: PositionKind::Sinusoidal,
        max_length: 300,
        pooling: Pooling::Mean,
        embedding_dropout: 0.1,
        head_dropout: 0.0,
    })
    .unwrap()
}

/// The same with recurrent networks of its size.
fn recurrent() -> [Classifier; 3] {
    Cell::ALL.map(|cell| Classifier::new(model().config().with_cell(cell).unwrap()).unwrap())
}

#[test]
fn recurrent_models_are_of_one_size_with_the_transformer() {
    let size = model().layout().len() as f64;
    for other in recurrent() {
        let ratio = other.layout().len() as f64 / size;
        assert!((0.97..1.03).contains(&ratio), "{ratio}: {:?}", other.config());
        assert_eq!(other.config().position, PositionKind::None);
    }
    // Nor are they larger than need be where even the smallest is.
    let tiny = ClassifierConfig { vocab_size: 1, ..model().config().clone() };
    let mut body = tiny.body.transformer().unwrap().clone();
    (body.num_layers, body.d_model, body.num_heads, body.d_ff) = (1, 2, 1, 1);
    let tiny = ClassifierConfig { body: body.into(), ..tiny }.with_cell(Cell::Lstm).unwrap();
    assert_eq!(tiny.body.width(), 2 * 4);
}

fn in_threads<R: Send>(threads: usize, run: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(run)
}

#[test]
fn logits_alone_are_those_of_the_forward_pass() {
    logits_of(model());
    recurrent().into_iter().for_each(logits_of);
}

fn logits_of(model: Classifier) {
    let mut params = Params::<f32>::init(model.layout(), 1);
    // Sequences longer and shorter than a group, empty ones among them; and nothing at all.
    for lengths in [&[0, 300, 1, 0, 200, 90, 17, 256, 3, 0][..], &[5], &[]] {
        let offsets = Offsets::of_lengths(lengths.iter().copied());
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
fn changed_weights_are_never_multiplied_with_as_they_were() {
    let model = model();
    let offsets = Offsets::of_lengths([20, 30]);
    let ids: Vec<u32> = (0..50).collect();
    let logits = |params: &Params<f32>| model.logits(params, &ids, &offsets).unwrap();
    let mut params = Params::<f32>::init(model.layout(), 1);
    let change: [fn(&mut Params<f32>); 3] = [
        |params| params.values_mut().iter_mut().for_each(|x| *x *= 1.5),
        |params| params.set_precision(Precision::Medium),
        |params| params.clear(),
    ];
    let mut before = Array2::zeros((2, 3));
    for change in change {
        assert_ne!(logits(&params), before);
        before = logits(&params);
        change(&mut params);
        // A copy has packed nothing yet.
        assert_eq!(logits(&params), logits(&params.clone()));
    }
}
