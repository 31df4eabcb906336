//! Translators: decoding with a cache equals a pass over all tokens, and later tokens have no effect on earlier ones.

use chumoku_kernels::Real;
use chumoku_nn::layers::*;
use chumoku_nn::models::{TranslationBatch, Translator, TranslatorAttention, TranslatorConfig, TranslatorOptions};
use chumoku_nn::params::Params;
use ndarray::Array2;
use testkit::{Random, Tolerance, central_difference, compare};

const BOUNDARY: u32 = 0;

fn config(order: NormOrder, position: PositionKind, joint_vocabulary: bool) -> TranslatorConfig {
    TranslatorConfig {
        source_vocab_size: 23,
        target_vocab_size: 23,
        joint_vocabulary,
        encoder: EncoderConfig {
            norm_order: order,
            dropout: 0.2,
            attention_dropout: 0.2,
            ..EncoderConfig::new(2, 16, 4, 24)
        },
        num_decoder_layers: 2,
        position,
        max_length: 40,
        embedding_dropout: 0.2,
        options: TranslatorOptions::default(),
    }
}

fn random_params<T: Real>(model: &Translator) -> Params<T> {
    let mut params = Params::zeros(model.layout());
    let mut random = Random::new(99);
    params.values_mut().iter_mut().for_each(|value| *value = T::round_from(0.5 * random.number()));
    params
}

fn ids(random: &mut Random, count: usize) -> Vec<u32> {
    (0..count).map(|_| 1 + random.below(22) as u32).collect()
}

/// Returns pairs with these lengths.
fn batch(lengths: &[[usize; 2]], seed: u64) -> TranslationBatch {
    let mut random = Random::new(seed);
    let mut batch = TranslationBatch::default();
    for &[source, target] in lengths {
        let source = ids(&mut random, source);
        batch.push(&source, &ids(&mut random, target), BOUNDARY);
    }
    batch
}

const LENGTHS: [[usize; 2]; 4] = [[3, 7], [9, 2], [1, 12], [17, 5]];

fn variants() -> Vec<Translator> {
    let orders = [NormOrder::Pre, NormOrder::Post, NormOrder::Pre];
    let positions = [PositionKind::Sinusoidal, PositionKind::Learned, PositionKind::Rotary];
    let all = orders.into_iter().zip(positions).zip([true, false, false]);
    let mut all: Vec<_> = all.map(|((order, position), joint)| config(order, position, joint)).collect();
    // As in Marian: a decoder with its own sizes, and a bias of the logits.
    let options = TranslatorOptions {
        decoder_num_heads: Some(2),
        decoder_d_ff: Some(32),
        output_bias: true,
        ..TranslatorOptions::default()
    };
    all.push(TranslatorConfig { options, ..config(NormOrder::Post, PositionKind::SinusoidalHalves, true) });
    // Sinusoidal positions that cross-attention sees, beside those inside self-attention.
    let options = TranslatorOptions { absolute_positions: true, ..TranslatorOptions::default() };
    all.push(TranslatorConfig { options, ..config(NormOrder::Pre, PositionKind::Rotary, true) });
    // An autoencoder.
    let options = TranslatorOptions { bottleneck: Some(3), ..TranslatorOptions::default() };
    all.push(TranslatorConfig { options, ..config(NormOrder::Pre, PositionKind::Rotary, true) });
    all.into_iter().map(|config| Translator::new(config).unwrap()).collect()
}

/// Returns the logits of all target tokens, step by step. Sequences leave the batch when they end.
fn stepwise<T: Real>(model: &Translator, p: &Params<T>, batch: &TranslationBatch) -> Array2<T> {
    let source = Offsets::from_lengths(batch.source_lengths.iter().copied());
    let target = Offsets::from_lengths(batch.target_lengths.iter().copied());
    let memory = model.encode(p, &batch.source, &source).unwrap();
    let offsets = model.memory_offsets(&source);
    let mut state = model.start_decoding(p, Memory { output: memory.view(), offsets: &offsets }, 2).unwrap();
    let mut logits = Array2::from_elem((target.tokens(), 23), T::ZERO);
    let mut there: Vec<usize> = (0..target.sequences()).collect();
    for step in 0.. {
        let left: Vec<usize> = (0..there.len()).filter(|&at| target.range(there[at]).len() > step).collect();
        if left.is_empty() {
            return logits;
        }
        if left.len() < there.len() {
            state.select(&left, &left).unwrap();
            there = left.iter().map(|&at| there[at]).collect();
        }
        let rows: Vec<usize> = there.iter().map(|&s| target.range(s).start + step).collect();
        let ids: Vec<u32> = rows.iter().map(|&row| batch.input[row]).collect();
        let found = model.step(p, &ids, &vec![1; ids.len()], &mut state).unwrap();
        for (found, row) in found.rows().into_iter().zip(rows) {
            logits.row_mut(row).assign(&found);
        }
    }
    unreachable!()
}

#[test]
fn logits_are_the_same_with_and_without_a_cache() {
    for model in variants() {
        let batch = batch(&LENGTHS, 1);
        let p = random_params::<f32>(&model);
        let expected: Vec<f64> = model.logits(&p, &batch).unwrap().iter().map(|&x| x.into()).collect();
        let found = stepwise(&model, &p, &batch);
        let rule = Tolerance { relative: 1e-5, absolute: 0.0 };
        compare("logits", found.as_slice().unwrap(), &expected, rule).unwrap();
        // Greedy decoding takes the same tokens.
        let largest = |row: &[f64]| (0..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best });
        for (found, expected) in found.rows().into_iter().zip(expected.chunks_exact(23)) {
            let found: Vec<f64> = found.iter().map(|&x| x.into()).collect();
            assert_eq!(largest(&found), largest(expected));
        }
        let p = random_params::<f64>(&model);
        let expected = model.logits(&p, &batch).unwrap();
        let rule = Tolerance { relative: 1e-12, absolute: 0.0 };
        let found = stepwise(&model, &p, &batch);
        compare("logits in f64", found.as_slice().unwrap(), expected.as_slice().unwrap(), rule).unwrap();
    }
}

#[test]
fn hypotheses_share_their_source() {
    let model = &variants()[0];
    let p = random_params::<f64>(model);
    let pairs = batch(&[[3, 1], [5, 1]], 2);
    let source = Offsets::from_lengths(pairs.source_lengths.iter().copied());
    let memory = model.encode(&p, &pairs.source, &source).unwrap();
    let memory = Memory { output: memory.view(), offsets: &source };
    let mut shared = model.start_decoding(&p, memory, 4).unwrap();
    model.step(&p, &[BOUNDARY; 2], &[1, 1], &mut shared).unwrap();
    // Two hypotheses of the first source, three of the second.
    shared.select(&[0, 0, 1, 1, 1], &[0, 1]).unwrap();
    let tokens = [4, 9, 7, 1, 20];
    let found = model.step(&p, &tokens, &[2, 3], &mut shared).unwrap();
    for (row, (token, source)) in tokens.into_iter().zip([0, 0, 1, 1, 1]).enumerate() {
        let mut alone = model.start_decoding(&p, memory, 4).unwrap();
        alone.select(&[source], &[source]).unwrap();
        model.step(&p, &[BOUNDARY], &[1], &mut alone).unwrap();
        let expected = model.step(&p, &[token], &[1], &mut alone).unwrap();
        let rule = Tolerance { relative: 1e-12, absolute: 0.0 };
        compare("shared", found.row(row).as_slice().unwrap(), expected.as_slice().unwrap(), rule).unwrap();
    }
}

#[test]
fn later_tokens_and_other_pairs_do_not_affect_logits() {
    for model in variants() {
        let p = random_params::<f32>(&model);
        let whole = batch(&LENGTHS, 3);
        let logits = model.logits(&p, &whole).unwrap();
        // Change the last token of the first target.
        let mut other = whole.clone();
        other.input[7] = 1 + other.input[7] % 22;
        let changed = model.logits(&p, &other).unwrap();
        let bits = |x: &Array2<f32>, row: usize| x.row(row).iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        for row in 0..logits.nrows() {
            assert_eq!(bits(&logits, row) == bits(&changed, row), row != 7, "row {row}");
        }
        // The first pair alone.
        let alone = batch(&LENGTHS[..1], 3);
        let alone = model.logits(&p, &alone).unwrap();
        (0..alone.nrows()).for_each(|row| assert_eq!(bits(&alone, row), bits(&logits, row)));
    }
}

#[test]
fn gradients_match_central_differences_of_the_loss() {
    let mode = Mode::Train(DropoutSeed { seed: 5, step: 17 });
    for model in variants() {
        // As small as possible: every parameter needs two passes. Two stacked decoder layers suffice.
        let mut config = model.config().clone();
        (config.encoder.num_layers, config.encoder.d_model, config.encoder.d_ff) = (1, 8, 10);
        config.options.decoder_d_ff = config.options.decoder_d_ff.map(|_| 12);
        let model = Translator::new(config).unwrap();
        let (p, batch) = (random_params::<f64>(&model), batch(&[[2, 3], [4, 1]], 4));
        let mut grads = Params::zeros(model.layout());
        let loss = model.loss(&p, &batch, 0.1, mode, Some(&mut grads)).unwrap();
        let expected = central_difference(p.values(), 1e-5, |values| {
            let mut moved = p.clone();
            moved.values_mut().copy_from_slice(values);
            model.loss(&moved, &batch, 0.1, mode, None).unwrap()
        });
        assert!(loss.is_finite());
        compare("gradients", grads.values(), &expected, Tolerance { relative: 2e-8, absolute: 1e-9 }).unwrap();
    }
}

#[test]
fn the_decoder_sees_nothing_of_the_source_but_the_code() {
    let all = variants();
    let (translator, model) = (&all[0], all.last().unwrap());
    let mut p = random_params::<f64>(model);
    let (pairs, mut others) = (batch(&LENGTHS, 7), batch(&LENGTHS, 7));
    others.source = ids(&mut Random::new(8), others.source.len());
    let offsets = Offsets::from_lengths(pairs.source_lengths.iter().copied());
    let code = |p: &Params<f64>, batch: &TranslationBatch| model.codes(p, &batch.source, &offsets).unwrap().unwrap();
    assert_eq!(code(&p, &pairs).dim(), (4, 3));
    assert_eq!(model.encode(&p, &pairs.source, &offsets).unwrap().dim(), (4, 16));
    assert_eq!(translator.codes(&random_params::<f64>(translator), &pairs.source, &offsets).unwrap(), None);
    assert_ne!(code(&p, &pairs), code(&p, &others));
    assert_ne!(model.logits(&p, &pairs).unwrap(), model.logits(&p, &others).unwrap());
    // With an equal code for all sources, all have the same logits, whatever their tokens and lengths.
    let weight = model.layout().iter().find(|view| view.name == "bottleneck.down.weight").unwrap();
    p.values_mut()[weight.range.clone()].fill(0.0);
    assert_eq!(code(&p, &pairs), code(&p, &others));
    assert_eq!(model.logits(&p, &pairs).unwrap(), model.logits(&p, &others).unwrap());
    let trace = model.trace(&p, &batch(&LENGTHS[1..2], 7), TranslatorAttention::Cross, 0).unwrap();
    assert_eq!(trace.weights[0].ncols(), 1, "one key");
}

/// The traced vectors of both sides add up to what each stack reads, for every kind of position and number.
fn assert_embeddings_are_traced<T: Real>(tolerance: f64) {
    let kinds = [PositionKind::Sinusoidal, PositionKind::SinusoidalHalves, PositionKind::Learned, PositionKind::Rotary];
    let cases = kinds.into_iter().flat_map(|kind| [(kind, false, false), (kind, true, false), (kind, true, true)]);
    for (position, is_joint, absolute_positions) in cases {
        let options = TranslatorOptions { absolute_positions, ..TranslatorOptions::default() };
        let config = TranslatorConfig { options, ..config(NormOrder::Pre, position, is_joint) };
        let model = Translator::new(config).unwrap();
        let p = random_params::<T>(&model);
        let pair = batch(&[[6, 4]], 5);
        let states = model.hidden_states(&p, &pair).unwrap();
        let parts = [TranslatorAttention::Encoder, TranslatorAttention::Decoder, TranslatorAttention::Cross];
        for (part, ids, side) in [(parts[0], &pair.source, 0), (parts[1], &pair.input, 1), (parts[2], &pair.input, 1)] {
            let trace = model.trace_embeddings(&p, &pair, part).unwrap();
            let mut sum = &trace.vectors * 4.0;
            trace.positions.iter().for_each(|positions| sum += positions);
            let own = states[side][0].mapv(|x| x.to_f64());
            let difference = (&sum - &own).iter().fold(0.0f64, |most, x| most.max(x.abs()));
            assert!(difference < tolerance, "{position:?}, {part:?}: {difference}");
            assert!(trace.is_scaled && !trace.is_plain() && trace.token_types.is_none() && trace.norm.is_none());
            let has_positions = position != PositionKind::Rotary || absolute_positions;
            assert_eq!((&trace.ids, trace.positions.is_some()), (ids, has_positions));
        }
    }
}

#[test]
fn traced_embeddings_are_the_input_of_each_side() {
    assert_embeddings_are_traced::<f64>(1e-13);
    assert_embeddings_are_traced::<f32>(4e-6);
}

#[test]
fn absolute_positions_are_added_once() {
    let logits = |position, absolute_positions| {
        let options = TranslatorOptions { absolute_positions, ..TranslatorOptions::default() };
        let config = TranslatorConfig { options, ..config(NormOrder::Pre, position, true) };
        let model = Translator::new(config).unwrap();
        model.logits(&random_params::<f64>(&model), &batch(&LENGTHS, 1)).unwrap()
    };
    // Positions that are added already stay as they are.
    assert_eq!(logits(PositionKind::Sinusoidal, true), logits(PositionKind::Sinusoidal, false));
    // Without other positions, these are the sinusoidal ones.
    assert_eq!(logits(PositionKind::None, true), logits(PositionKind::Sinusoidal, false));
    assert_ne!(logits(PositionKind::Rotary, true), logits(PositionKind::Rotary, false));
    assert_ne!(logits(PositionKind::Rotary, true), logits(PositionKind::Sinusoidal, false));
}

#[test]
fn alignment_rows_sum_to_one() {
    let model = &variants()[1];
    let p = random_params::<f32>(model);
    let layers = model.alignment(&p, &batch(&[[6, 4]], 5)).unwrap();
    assert_eq!(layers.len(), 2);
    for layer in layers {
        assert_eq!(layer.dim(), (4, 5, 6));
        for row in layer.rows() {
            assert!((row.sum() - 1.0).abs() < 1e-5 && row.iter().all(|&weight| weight >= 0.0));
        }
    }
}

#[test]
fn invalid_batches_are_rejected() {
    let model = &variants()[1];
    let p = random_params::<f32>(model);
    let mut bad = batch(&[[3, 3]], 6);
    bad.output[1] = 23;
    assert!(model.loss(&p, &bad, 0.0, Mode::Eval, None).is_err());
    let mut bad = batch(&[[3, 3]], 6);
    bad.source[0] = 400;
    assert!(model.loss(&p, &bad, 0.0, Mode::Eval, None).is_err());
    // Learned positions have a maximum.
    assert!(model.loss(&p, &batch(&[[41, 3]], 6), 0.0, Mode::Eval, None).unwrap_err().to_string().contains("40"));
    assert!(model.loss(&p, &TranslationBatch::default(), 0.0, Mode::Eval, None).is_err());
}
