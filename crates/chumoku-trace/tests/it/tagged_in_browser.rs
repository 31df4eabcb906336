//! The page of explained spans in a real browser, and spans in a terminal.
//!
//! Needs Chromium or Chrome on the path. Without one, the test of the page prints a notice and passes.

use crate::common::browser::visit;
use chumoku::PredictedSpan;
use chumoku::data::Span;
use chumoku::explain::{
    AlternativeSpan, AnswerPosition, ExplainedSpan, FeatureEffect, HighlightedWord, LabelComparison, LabelProbability,
    LensAnswer, LogitLens, MemberSpanScore, NetworkEffect, Patching, TaggedText, TransitionEffect,
};
use chumoku_view::{ColorDepth, Lang, render_tagged, tagged_figure, tagged_to_html};
use unicode_width::UnicodeWidthStr;

const SCRIPT: &str = "</script><script>document.title='owned'</script>";

fn feature(feature: &str, at: Option<[isize; 2]>, value: &str, effect: f64) -> FeatureEffect {
    FeatureEffect {
        word: "Oslo".into(),
        start: 14,
        label: "B-<b>place".into(),
        other: "O".into(),
        feature: feature.into(),
        at,
        value: value.into(),
        weight: effect as f32,
        other_weight: 0.0,
        effect,
    }
}

/// A span over "Oslo", the second to last word of `text`.
fn span(text: &str) -> ExplainedSpan {
    let start = text.find("Oslo").unwrap();
    let words: Vec<HighlightedWord> = text
        .split(' ')
        .enumerate()
        .map(|(i, word)| HighlightedWord {
            text: word.into(),
            effect: Some(match word {
                "Oslo" => 2.0,
                "in" => -1.0,
                _ => 0.0,
            }),
            is_spaced: i > 0,
        })
        .collect();
    let features = vec![
        feature("lower", Some([-1, -1]), "in", 2.0),
        feature("word", None, SCRIPT, -0.5),
        feature("length", None, "12", 0.25),
        feature("characters", Some([-1, 1]), "<border>大\u{1b}[31m阪", 0.125),
    ];
    let half = MemberSpanScore { probability: 0.25, effects: vec![0.5; words.len()] };
    let place = Span { start, end: start + 4, label: "<b>place".into() };
    ExplainedSpan {
        span: PredictedSpan { span: place.clone(), text: "Oslo".into(), probability: 0.987 },
        is_found: true,
        words,
        network: Some(half.clone()),
        crf: Some(half),
        against: Some(LabelComparison {
            spans: vec![AlternativeSpan { span: Span { label: "person".into(), ..place }, text: "Oslo".into() }],
            score: 3.0,
            other_score: 0.5,
            difference: 2.5,
            from_features: 1.875,
            from_transitions: 0.5,
            from_network: 0.125,
            features,
            transitions: vec![TransitionEffect {
                word: "Oslo".into(),
                labels: [None, Some("B-<b>place".into())],
                others: [Some("O".into()), Some("O".into())],
                effect: 0.5,
            }],
            network: vec![NetworkEffect {
                word: "Oslo".into(),
                label: "B-<b>place".into(),
                other: "O".into(),
                effect: 0.125,
            }],
        }),
    }
}

fn tagged(count: usize) -> TaggedText {
    let text = format!("{SCRIPT} waits in Oslo now");
    TaggedText {
        lens: None,
        patching: None,
        model: "<model>".into(),
        spans: (0..count).map(|_| span(&text)).collect(),
        text,
        method: "leave-one-out".into(),
        unit: "change in the span's log-odds when the word is hidden".into(),
        hidden_by: Some("[MASK]".into()),
        blend: None,
    }
}

/// The page shows the tags after every layer, and patching as heatmaps with their numbers as tables.
#[test]
fn spans_page_shows_steps_inside_the_network() {
    let mut tagged = tagged(1);
    let answer = |label: &str, probability: f32| LensAnswer {
        label: label.into(),
        probability,
        last_layer_probability: probability,
        probabilities: Vec::new(),
    };
    tagged.lens = Some(LogitLens {
        tokens: vec!["in".into(), "<b>Oslo".into()],
        depths: vec![vec![answer("O", 0.4), answer("O", 0.51)], vec![answer("O", 0.9), answer("B-<b>place", 0.973)]],
    });
    let label = |label: &str| LabelProbability { label: label.into(), probability: 0.875 };
    tagged.patching = Some(Patching {
        other: "nobody waits".into(),
        tokens: vec!["in".into(), "Oslo".into()],
        other_tokens: vec!["in".into(), "it".into()],
        aligned: vec![[0, 0], [1, 1]],
        answers: [label("B-<b>place"), label("O")],
        toward: "O".into(),
        away: Some("B-<b>place".into()),
        position: Some(AnswerPosition::Word { index: 3, text: "Oslo".into() }),
        differences: [-3.0, 2.0],
        residual: vec![0.0, 1.0, 0.125, 0.75],
        heads: vec![0.5, -0.25],
        feed_forward: vec![0.0625, 1.5],
        decoder: None,
    });
    for (lang, words) in [
        (Lang::En, ["The answer after every layer", "The tags of word 4, “Oslo”, are compared."]),
        (Lang::Ja, ["各層の後での答え", "4 番目の語「Oslo」のタグを比べます。"]),
    ] {
        let page = tagged_to_html(&tagged, None, lang);
        for word in words {
            assert!(page.contains(word), "{word}: {page}");
        }
        let lens = page.split_once("id=\"lens\"").unwrap().1.split_once("</table>").unwrap().0;
        assert!(lens.contains("<bdi>B-&lt;b&gt;place</bdi> 97 %") && lens.contains("class=\"w8\""), "{lens}");
        assert_eq!((lens.matches("<tr>").count(), lens.matches("<td class=").count()), (3, 4), "{lens}");
        // Three figures of patching in each language after the effects of words.
        assert_eq!(page.matches("<div class=\"figure\"").count(), 8);
        for number in ["0.1250", "0.7500", "-0.2500", "0.0625", "1.5000"] {
            assert!(page.replace('−', "-").contains(&format!("<td>{number}</td>")), "{number}");
        }
        let Some(visit) = visit(&page, "", &["--dump-dom".into()]) else { return };
        assert!(visit.said.is_empty() && visit.requests.is_empty(), "{}", visit.said);
    }
}

#[test]
fn spans_page_sends_no_request_in_both_languages() {
    for (lang, hash, words) in [
        (Lang::En, "", ["reads [MASK] in its place", "likeliest labels without “&lt;b&gt;place” there"]),
        (
            Lang::En,
            "lang=ja&theme=dark",
            ["ネットワークはその位置で [MASK] を読みます", "そこに「&lt;b&gt;place」のない最有力のラベル"],
        ),
    ] {
        let page = tagged_to_html(&tagged(2), None, lang);
        assert!(!page.contains(" style=") && page.contains("default-src 'none'"));
        let Some(visit) = visit(&page, hash, &["--dump-dom".into()]) else { return };
        assert_eq!(visit.said, "", "the console is silent");
        assert!(visit.requests.is_empty(), "{:?}", visit.requests);
        let dom = visit.out;
        assert!(!dom.split_once("<title>").unwrap().1.starts_with("owned"));
        let list = dom.split_once("id=\"tagged\"").unwrap().1.split_once("</section>").unwrap().0;
        let hidden = if hash.is_empty() { "ja" } else { "en" };
        for word in words {
            let (before, _) = list.split_once(word).unwrap_or_else(|| panic!("{word}: {list}"));
            let (_, tag) = before.rsplit_once("<span lang=").unwrap();
            assert!(!tag.contains("hidden=\"\""), "{word} is shown: {list}");
        }
        assert!(list.contains(&format!("data-lang=\"{hidden}\" hidden=\"\">")));
        let oslo = "<span class=\"w8\" title=\"+2.00 (NN +0.50, CRF +0.50)\"><u>Oslo</u></span>";
        assert!(list.contains(oslo) && list.contains("class=\"v4\" title=\"-1.00"), "{list}");
        assert_eq!((list.matches("<article>").count(), list.matches("<u>").count()), (2, 2));
        assert!(list.contains("<td>+0.125</td>") && list.contains("<td>+2.500</td>"), "{list}");
        assert!(list.contains("&lt;b&gt;place") && !list.contains("<b>place"));
    }
    let none = tagged_to_html(&tagged(0), None, Lang::En);
    assert!(none.contains("marks nothing in this text") && !none.contains("<script>document"), "{none}");
}

#[test]
fn terminal_shows_each_span_within_its_width() {
    for (lang, width) in [(Lang::En, 80), (Lang::Ja, 80), (Lang::En, 50), (Lang::Ja, 40)] {
        let mut options = chumoku_view::TerminalOptions::default();
        (options.width, options.lang) = (width, lang);
        for count in [0, 1, 12] {
            let text = render_tagged(&tagged(count), &options);
            assert!(text.lines().all(|line| line.width() <= width), "{text}");
            assert!(!text.contains('\u{1b}'), "{text}");
            let figure = tagged_figure(&tagged(count), lang).to_text(&options);
            assert!(figure.lines().all(|line| line.width() <= width), "{figure}");
        }
        options.color = ColorDepth::Ansi16;
        assert!(render_tagged(&tagged(1), &options).contains("\u{1b}[94mOslo(+2.00)\u{1b}[0m"));
    }
    let text = render_tagged(&tagged(12), &chumoku_view::TerminalOptions::default());
    for expected in [
        "Why <model> marks these 12 spans",
        "10. “Oslo” <b>place  98.7 %",
        "Network alone: 25.0 %",
        "+2.50 = features",
        "Oslo B-<b>place / O",
        "previous word “in”",
        "12 letters or more",
        "and 2 more spans",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("11. "), "{text}");
}
