//! Language models: step-by-step decoding, separation of documents, and gradients of the loss.

use chumoku_kernels::Real;
use chumoku_nn::layers::*;
use chumoku_nn::models::{LanguageModel, LanguageModelConfig};
use chumoku_nn::params::Params;
use ndarray::{Array2, Axis};
use testkit::{Random, Tolerance, central_difference, compare};

const VOCABULARY: usize = 23;

fn models() -> Vec<LanguageModel> {
    let positions = [PositionKind::Learned, PositionKind::Sinusoidal, PositionKind::Rotary, PositionKind::Alibi];
    let model = |position| {
        let encoder =
            EncoderConfig { dropout: 0.1, attention_dropout: 0.1, causal: true, ..EncoderConfig::new(2, 16, 4, 24) };
        let config = LanguageModelConfig {
            vocab_size: VOCABULARY,
            encoder,
            position,
            max_length: 32,
            embedding_dropout: 0.1,
            embeddings: InputEmbeddingsOptions::default(),
            untied_output: false,
        };
        LanguageModel::new(config).unwrap()
    };
    positions.map(model).into()
}

fn random_params<T: Real>(model: &LanguageModel) -> Params<T> {
    let mut params = Params::zeros(model.layout());
    let mut random = Random::new(99);
    params.values_mut().iter_mut().for_each(|value| *value = T::round_from(0.5 * random.number()));
    params
}

fn ids(count: usize, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    (0..count).map(|_| (f64::from(VOCABULARY as u32) * random.number().abs()) as u32 % VOCABULARY as u32).collect()
}

fn numbers<T: Real + Into<f64>>(x: &Array2<T>) -> Vec<f64> {
    x.iter().map(|&x| x.into()).collect()
}

#[test]
fn logits_are_the_same_with_and_without_a_cache() {
    let (ids, whole) = (ids(40, 1), Offsets::from_lengths([17, 23]));
    for model in models() {
        let p = random_params::<f32>(&model);
        let expected = model.logits(&p, &ids, &whole).unwrap();
        let mut state = model.start_decoding::<f32>(2).unwrap();
        // Each sequence in chunks of its own sizes: several tokens at once, or single tokens.
        let mut given = [0, 0];
        for counts in [[5, 1], [1, 1], [1, 9], [7, 2], [1, 1], [1, 1], [1, 8]] {
            let parts = [0, 1].map(|s| whole.range(s).start + given[s]..whole.range(s).start + given[s] + counts[s]);
            let new: Vec<u32> = parts.iter().flat_map(|part| ids[part.clone()].iter().copied()).collect();
            let found = model.step(&p, &new, &Offsets::from_lengths(counts), &mut state).unwrap();
            let expected: Vec<f64> = parts
                .iter()
                .flat_map(|part| numbers(&expected.slice_axis(Axis(0), part.clone().into()).to_owned()))
                .collect();
            compare("logits", &numbers(&found), &expected, Tolerance { relative: 1e-5, absolute: 0.0 }).unwrap();
            given = [given[0] + counts[0], given[1] + counts[1]];
        }
        assert_eq!(given, [17, 23]);
    }
}

#[test]
fn other_documents_and_later_tokens_do_not_affect_logits() {
    let (first, second) = (ids(9, 2), ids(14, 3));
    for model in models() {
        let p = random_params::<f64>(&model);
        let logits = |ids: &[u32], lengths: &[usize]| {
            numbers(&model.logits(&p, ids, &Offsets::from_lengths(lengths.iter().copied())).unwrap())
        };
        let alone = logits(&second, &[14]);
        let packed = logits(&[&first[..], &second].concat(), &[9, 14]);
        let rule = Tolerance { relative: 1e-12, absolute: 0.0 };
        compare("a document among others", &packed[9 * VOCABULARY..], &alone, rule).unwrap();
        // Joined into one document, the text is different.
        let joined = logits(&[&first[..], &second].concat(), &[23]);
        assert!(compare("a document after another", &joined[9 * VOCABULARY..], &alone, rule).is_err());
        // Only its own position sees the last token.
        let mut changed = second.clone();
        changed[13] = (changed[13] + 1) % VOCABULARY as u32;
        let after = logits(&changed, &[14]);
        compare("tokens before", &after[..13 * VOCABULARY], &alone[..13 * VOCABULARY], rule).unwrap();
        assert_ne!(after[13 * VOCABULARY..], alone[13 * VOCABULARY..]);
    }
}

#[test]
fn gradients_match_central_differences_of_the_loss() {
    let (ids, next, offsets) = (ids(12, 4), ids(12, 5), Offsets::from_lengths([5, 7]));
    let mode = Mode::Train(DropoutSeed { seed: 1, step: 2 });
    for model in models() {
        // As small as possible: every parameter needs two passes.
        let mut config = model.config().clone();
        (config.encoder.num_layers, config.encoder.d_model, config.encoder.d_ff) = (1, 8, 10);
        let model = LanguageModel::new(config).unwrap();
        let p = random_params::<f64>(&model);
        let mut grads = Params::zeros(model.layout());
        let loss = model.loss(&p, [&ids, &next], &offsets, mode, Some(&mut grads)).unwrap();
        let expected = central_difference(p.values(), 1e-5, |values| {
            let mut moved = p.clone();
            moved.values_mut().copy_from_slice(values);
            model.loss(&moved, [&ids, &next], &offsets, mode, None).unwrap()
        });
        assert!(loss.is_finite());
        compare("gradients", grads.values(), &expected, Tolerance { relative: 2e-8, absolute: 1e-9 }).unwrap();
    }
}
