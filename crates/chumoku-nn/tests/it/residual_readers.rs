//! Readers of the residual stream of taggers and translators: patching against other computations of the same logits.

use chumoku_nn::layers::*;
use chumoku_nn::models::{
    TaggedUnits, TextEncoderConfig, TokenTagger, TokenTaggerConfig, Translator, TranslatorConfig, TranslatorOptions,
};
use chumoku_nn::params::{ParamLayout, Params};
use std::sync::Arc;
use testkit::{Random, Tolerance, compare};

const RULE: Tolerance = Tolerance { relative: 1e-11, absolute: 1e-11 };

fn encoder_config(norm_order: NormOrder) -> EncoderConfig {
    EncoderConfig { norm_order, dropout: 0.2, attention_dropout: 0.2, ..EncoderConfig::new(2, 16, 4, 24) }
}

fn random_params(layout: &Arc<ParamLayout>) -> Params<f64> {
    let mut params = Params::zeros(layout);
    let mut random = Random::new(7);
    params.values_mut().iter_mut().for_each(|value| *value = 0.5 * random.number());
    params
}

/// After the last layer, only the patched row of the memory changes. The decoder then computes step by step from a memory
/// with that row of the other source.
#[test]
fn a_patched_source_gives_the_logits_of_the_patched_memory() {
    for norm_order in [NormOrder::Pre, NormOrder::Post] {
        let model = Translator::new(TranslatorConfig {
            source_vocab_size: 23,
            target_vocab_size: 21,
            joint_vocabulary: false,
            encoder: encoder_config(norm_order),
            num_decoder_layers: 2,
            position: PositionKind::Sinusoidal,
            max_length: 40,
            embedding_dropout: 0.2,
            options: TranslatorOptions::default(),
        })
        .unwrap();
        let p = random_params(model.layout());
        let (sources, prefix) = ([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]], [0, 8, 9]);
        let offsets = Offsets::from_lengths([5]);
        let reader = model.next_token_reader(&p, &prefix);
        let [text, other] = sources.map(|ids| reader.record(model.embed_source(&p, &ids, &offsets).unwrap()).unwrap());
        let memories = sources.map(|ids| model.encode(&p, &ids, &offsets).unwrap());
        let next_logits = |memory: &ndarray::Array2<f64>| {
            let mut state = model.start_decoding(&p, Memory { output: memory.view(), offsets: &offsets }, 8).unwrap();
            let steps = prefix.map(|id| model.step(&p, &[id], &[1], &mut state).unwrap());
            steps[2].iter().copied().collect::<Vec<f64>>()
        };
        let unpatched = reader.logits(&text).unwrap();
        compare("unpatched", unpatched.as_slice().unwrap(), &next_logits(&memories[0]), RULE).unwrap();
        let positions = [[0, 0], [1, 3], [4, 4]];
        let sites = reader.patch([&text, &other], &positions, |logits| logits.to_vec()).unwrap();
        assert_eq!((sites.residual.len(), sites.heads[0].len(), sites.feed_forward.len()), (3, 4, 2));
        for ([to, from], found) in positions.into_iter().zip(&sites.residual[2]) {
            let mut memory = memories[0].clone();
            memory.row_mut(to).assign(&memories[1].row(from));
            compare(&format!("position {to}"), found, &next_logits(&memory), RULE).unwrap();
        }
        // The logits before the first layer depend on the patched embedding.
        let first = &sites.residual[0][1];
        assert!(compare("first", first, unpatched.as_slice().unwrap(), RULE).is_err());
    }
}

/// A unit's logits come from its token alone after the last layer, and from the whole sequence before.
#[test]
fn patching_a_tagger_changes_the_tags_of_a_unit() {
    for norm_order in [NormOrder::Pre, NormOrder::Post] {
        let encoder = TextEncoderConfig {
            vocab_size: 9,
            encoder: encoder_config(norm_order),
            position: PositionKind::Learned,
            max_length: 6,
            embedding_dropout: 0.2,
            embeddings: InputEmbeddingsOptions::default(),
        };
        let config = TokenTaggerConfig { num_tags: 3, num_places: 2, head_dropout: 0.2, head_dense: None, encoder };
        let model = TokenTagger::new(config).unwrap();
        let p = random_params(model.layout());
        let (texts, offsets) = ([[1, 8, 3, 2], [1, 5, 3, 7]], Offsets::from_lengths([4]));
        // Two units share the second token.
        let units = TaggedUnits { tokens: &[1, 1, 3], positions: &[0, 1, 0] };
        let all = model.residual_reader(&p, units);
        let [text, other] =
            texts.each_ref().map(|ids| all.record(model.embed(&p, Tokens::new(ids, &offsets)).unwrap()).unwrap());
        let [own, of_other] = texts.each_ref().map(|ids| model.logits(&p, Tokens::new(ids, &offsets), units).unwrap());
        compare("all units", all.logits(&text).unwrap().as_slice().unwrap(), own.as_slice().unwrap(), RULE).unwrap();
        assert_eq!((text.residual.len(), all.logits_at(&text, 0, 0..4).unwrap().dim()), (3, (3, 3)));

        let unit = TaggedUnits { tokens: &[1], positions: &[1] };
        let positions = [[0, 0], [1, 1], [2, 2], [3, 3]];
        let reader = model.residual_reader(&p, unit);
        let sites = reader.patch([&text, &other], &positions, |logits| logits.to_vec()).unwrap();
        for (position, found) in sites.residual[2].iter().enumerate() {
            let expected = if position == 1 { of_other.row(1) } else { own.row(1) };
            compare(&format!("position {position}"), found, &expected.to_vec(), RULE).unwrap();
        }
        // Equal tokens change nothing before the first layer, and each of the others changes the unit.
        for (position, is_equal) in [true, false, true, false].into_iter().enumerate() {
            let same = compare("first", &sites.residual[0][position], &own.row(1).to_vec(), RULE).is_ok();
            assert_eq!(same, is_equal, "position {position}");
        }
    }
}
