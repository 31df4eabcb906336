//! All kinds of figures of the generated explanations and alignments.

use chumoku::explain::{FaithfulnessCurves, OrderCurves};
use chumoku_view::{
    Alignment, AlignmentFigures as _, Explanation, ExplanationFigures as _, Figure, HeadOrder, Lang,
    PositionalEncoding, TranslationHeadAblation, Word,
};

/// An alignment of three source words with two target words and an end token, which is not square.
pub(crate) fn alignment() -> Alignment {
    let words = |texts: &[&str]| {
        let plain = texts.iter().map(|text| Word { text: (*text).into(), special: false });
        plain.chain([Word { text: "[END]".into(), special: true }]).collect::<Vec<_>>()
    };
    let weight = |i: usize| [0.1, 0.2, 0.3, 0.4][(i + i / 4) % 4];
    let mut alignment = Alignment {
        model: "model".into(),
        source: "a b c".into(),
        target: "A B".into(),
        is_given: false,
        is_cut: false,
        lens: None,
        patching: None,
        source_words: words(&["a", "b", "c"]),
        target_words: words(&["A", "B"]),
        layers: 1,
        heads: 2,
        log_probabilities: vec![-0.1; 3],
        effects: vec![vec![Some(0.5), Some(2.0), Some(0.1), None]; 3],
        ranking: Vec::new(),
        without: vec![TranslationHeadAblation {
            layer: 0,
            head: 1,
            log_probabilities: vec![-1.0; 3],
            translation: "B".into(),
        }],
        joining: "sum over keys, mean over queries".into(),
        attention: (0..24).map(weight).collect(),
    };
    alignment.ranking = alignment.rank_heads();
    alignment
}

pub(crate) fn causal() -> Explanation {
    super::deep(&["what", "follows", "each", "word", "unseen"], true)
}

/// An explanation with deletion and insertion curves.
pub(crate) fn measured() -> Explanation {
    let mut e = super::english();
    let curve = |order: &str, from: f32| OrderCurves {
        order: order.into(),
        deletion: vec![0.9, from, 0.2],
        insertion: vec![0.2, 1.0 - from, 0.9],
        deletion_area: from,
        insertion_area: 1.0 - from,
    };
    let orders = vec![curve("leave-one-out", 0.25), curve("attention", 0.5), curve("random", 0.625)];
    e.attribution.curves = Some(FaithfulnessCurves { words: vec![0, 2, 5], orders });
    e
}

/// Returns all kinds of figures in a language.
pub(crate) fn figures(lang: Lang) -> Vec<Figure> {
    let (english, japanese, deep, a) = (super::english(), super::japanese(), causal(), alignment());
    let hostile = super::hostile();
    let mut figures = vec![
        english.heatmap(1, 2, lang),
        japanese.heatmap(0, 1, lang),
        deep.heatmap(1, 0, lang),
        hostile.heatmap(0, 1, lang),
        english.value_weighted(1, 2, lang).unwrap(),
        deep.rollout(1, lang).unwrap(),
        english.lines(0, 3, 0.08, lang),
        deep.products(1, 2, [4, 2], lang).unwrap(),
        english.difference([0, 0], &super::example(&["The", "film", "was", "good", "."], 2, 4), [1, 1], lang).unwrap(),
        a.heatmap(0, 1, lang),
        a.lines(0, 0, 0.0, lang),
        a.grid(true, lang),
        english.effects(lang),
        japanese.effects(lang),
        hostile.effects(lang),
        measured().curves(lang).unwrap(),
    ];
    figures.extend(HeadOrder::ALL.map(|(_, order)| english.grid(order, lang)));
    figures.extend(PositionalEncoding::sinusoidal(20, 10).figures(lang));
    figures.extend(PositionalEncoding::rotary(9, 6, Some(100.0)).unwrap().figures(lang));
    figures
}

pub(crate) fn assert_near(found: f64, expected: f64, most: f64) {
    assert!((found - expected).abs() <= most, "{found} for {expected}");
}
