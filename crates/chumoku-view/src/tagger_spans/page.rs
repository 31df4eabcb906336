//! Explained spans as one page.

use super::inner_steps::{patching_figures, write_lens};
use super::{
    comparison_sentence, feature_name, heading, member_sentence, method_sentence, tagged_figure, words_in_span,
};
use crate::colored_words::{bilingual_html, color_scale, colored_words, effect_styles};
use crate::explanation_figures::{ExplanationFigures, HeadOrder};
use crate::figure::{Figure, PageWidget, figures_page, page_sources};
use crate::{escape_markup, signed_number};
use chumoku::explain::{ExplainedSpan, Explanation, LabelComparison, TaggedText, TransitionEffect};
use chumoku::lang::{Lang, show_controls, show_controls_in_text};
use chumoku::tr_in;
use std::fmt::Write;
use std::ops::Range;

/// Maximum number of spans on the page.
const MAX_SPANS: usize = 200;
/// Maximum number of words shown for a span; long texts show those around it.
const MAX_WORDS: usize = 120;
/// Maximum number of features in the table of a span.
const MAX_FEATURES: usize = 30;

/// Returns the page of a tagger's spans in English and Japanese; it starts in `lang`. Like
/// [`figures_to_html`](crate::figures_to_html), it sends no request. With the `attention` of the tagger's encoder it
/// also shows all heads, the head at the given layer and index (from 0), and rollout.
///
/// # Panics
/// If there is no such head.
#[must_use]
pub fn tagged_to_html(tagged: &TaggedText, attention: Option<(&Explanation, [usize; 2])>, lang: Lang) -> String {
    let mut element = String::from("<section id=\"tagged\">\n");
    let say = |text: &dyn Fn(Lang) -> String| bilingual_html(lang, &|lang| escape_markup(&text(lang)));
    if tagged.spans.is_empty() {
        let _ = writeln!(
            element,
            "<p class=\"text\" dir=\"auto\">{}</p>",
            escape_markup(&show_controls_in_text(&tagged.text))
        );
    } else {
        let _ = writeln!(element, "<p class=\"how\">{}</p>", say(&|lang| method_sentence(tagged, lang)));
        let end = |at: usize| {
            say(&|lang| match lang {
                Lang::En => ["against the span", "for it"][at].to_owned(),
                Lang::Ja => ["スパンに反対", "支持"][at].to_owned(),
            })
        };
        let note = say(&|lang| {
            lang.pick(
                "Colors are relative to the strongest word for each span, which is underlined; point at a word for its number.",
                "色は各スパン（下線）で最大の影響を基準とします。語にポインターを合わせると数値を表示します。",
            )
            .to_owned()
        });
        let (against, favour, scale) = (end(0), end(1), color_scale());
        let _ = writeln!(element, "<p class=\"scale\">− {against} {scale} {favour} + <small>{note}</small></p>");
    }
    for (i, span) in tagged.spans.iter().take(MAX_SPANS).enumerate() {
        span_article(tagged, (span, i), lang, &mut element);
    }
    if let Some(more) = tagged.spans.len().checked_sub(MAX_SPANS).filter(|&more| more > 0) {
        let more = say(&|lang| match lang {
            Lang::En => format!("and {more} more spans (--json has all)"),
            Lang::Ja => format!("ほか {more} 個のスパン（すべては --json に）"),
        });
        let _ = writeln!(element, "<p>{more}</p>");
    }
    if let Some(lens) = &tagged.lens {
        write_lens(lens, lang, &mut element);
    }
    element.push_str("</section>\n");
    let player = PageWidget { element: &element, script: "", style: &style() };
    let both = |of: &dyn Fn(Lang) -> Option<Figure>| match [Lang::En, Lang::Ja].map(of) {
        [Some(en), Some(ja)] => Some([en, ja]),
        _ => None,
    };
    let mut figures: Vec<[Figure; 2]> = both(&|lang| Some(tagged_figure(tagged, lang))).into_iter().collect();
    if let Some(patching) = &tagged.patching {
        let [en, ja] = [Lang::En, Lang::Ja].map(|lang| patching_figures(patching, &tagged.text, lang));
        figures.extend(en.into_iter().zip(ja).map(|(en, ja)| [en, ja]));
    }
    if let Some((of, [layer, head])) = attention {
        figures.extend(both(&|lang| Some(of.grid(HeadOrder::Layer, lang))));
        figures.extend(both(&|lang| Some(of.heatmap(layer, head, lang))));
        figures.extend(both(&|lang| of.rollout(of.layers - 1, lang)));
    }
    figures_page(&heading(tagged, lang), &figures, player, lang)
}

fn style() -> String {
    include_str!("tagged.css").to_owned() + &effect_styles()
}

/// Returns the script and the style sheet of such a page.
pub(crate) fn tagged_page_sources() -> [String; 2] {
    page_sources(PageWidget { style: &style(), ..PageWidget::default() })
}

fn span_article(tagged: &TaggedText, (span, i): (&ExplainedSpan, usize), lang: Lang, element: &mut String) {
    let say = |text: &dyn Fn(Lang) -> String| bilingual_html(lang, &|lang| escape_markup(&text(lang)));
    let found = &span.span;
    let [text, label] = [&found.text, &found.span.label].map(|text| escape_markup(&show_controls_in_text(text)));
    let place = say(&|lang| {
        let (start, end) = (found.span.start, found.span.end);
        match (lang, span.is_found) {
            (Lang::En, true) => format!("characters {start}:{end}"),
            (Lang::Ja, true) => format!("文字 {start}:{end}"),
            (Lang::En, false) => format!("characters {start}:{end}, not marked"),
            (Lang::Ja, false) => format!("文字 {start}:{end}（検出されない）"),
        }
    });
    let (number, percent) = (i + 1, 100.0 * found.probability);
    let _ = writeln!(
        element,
        "<article><h2>{number} <bdi>{text}</bdi> <ins><bdi>{label}</bdi></ins> {percent:.1} % <small>{place}</small></h2>"
    );
    let own = words_in_span(tagged, span);
    let shown = visible_words(&own);
    let behind = |i: usize| {
        let halves = [&span.network, &span.crf].map(|half| half.as_ref().and_then(|half| half.effects.get(i)));
        match halves {
            // In abbreviations that work in both languages.
            [Some(network), Some(crf)] => {
                let [network, crf] = [network, crf].map(|effect| signed_number(*effect, 2));
                format!(" (NN {network}, CRF {crf})")
            }
            _ => String::new(),
        }
    };
    let text = colored_words(&span.words, shown.clone(), &|i| (own.get(i) == Some(&true), behind(i)));
    let before = if shown.start > 0 { "… " } else { "" };
    let _ = writeln!(element, "<p class=\"text\" dir=\"auto\">{before}{text}</p>");
    if span.network.is_some() {
        let halves = say(&|lang| member_sentence(span, lang).unwrap_or_default());
        let _ = writeln!(element, "<p class=\"halves\">{halves}</p>");
    }
    if let Some(against) = &span.against {
        let open = if tagged.spans.len() == 1 { " open" } else { "" };
        let sentence = say(&|lang| comparison_sentence(span, against, lang));
        let _ = writeln!(element, "<details{open}><summary>{sentence}</summary>");
        score_table(against, lang, element);
        element.push_str("</details>\n");
    }
    element.push_str("</article>\n");
}

/// Returns the range of words to show around the words of the span.
fn visible_words(own: &[bool]) -> Range<usize> {
    let first = own.iter().position(|is_own| *is_own).unwrap_or(0);
    let start = first.saturating_sub(MAX_WORDS / 2).min(own.len().saturating_sub(MAX_WORDS));
    start..(start + MAX_WORDS).min(own.len())
}

/// The table of all terms of a difference of scores, with their sum.
fn score_table(against: &LabelComparison, lang: Lang, element: &mut String) {
    let say = |text: &dyn Fn(Lang) -> String| bilingual_html(lang, &|lang| escape_markup(&text(lang)));
    let pick = |en: &'static str, ja: &'static str| say(&move |lang| lang.pick(en, ja).to_owned());
    let head = [
        pick("at the word", "語"),
        pick("label with the span", "このスパンでのラベル"),
        pick("held against", "比較対象のラベル"),
        pick("feature", "特徴"),
        pick("effect", "影響"),
    ];
    let class = |at: usize| if at == 3 { " class=\"feature\"" } else { "" };
    let cell = |(at, cell): (usize, &String)| format!("<th scope=\"col\"{}>{cell}</th>", class(at));
    let head: String = head.iter().enumerate().map(cell).collect();
    let _ = writeln!(element, "<div class=\"wide\" tabindex=\"0\"><table><thead><tr>{head}</tr></thead><tbody>");
    let mut row = |word: &str, labels: [String; 2], text: &str, effect: f64| {
        let [label, other] = labels.map(|label| escape_markup(&show_controls(&label)));
        let word = escape_markup(&show_controls(word));
        let _ = writeln!(
            element,
            "<tr><th scope=\"row\" class=\"word\"><bdi>{word}</bdi></th><td>{label}</td><td>{other}</td><td class=\"feature\">{text}</td>\
             <td>{}</td></tr>",
            signed_number(effect, 3)
        );
    };
    for at in &against.network {
        let labels = [at.label.clone(), at.other.clone()];
        row(&at.word, labels, &pick("network", "ネットワーク"), at.effect);
    }
    for at in &against.transitions {
        let named = |labels: &[Option<String>; 2]| {
            let [from, to] = labels.each_ref().map(|label| label.as_deref().unwrap_or("^"));
            format!("{from} → {to}")
        };
        let TransitionEffect { word, labels, others, effect } = at;
        row(word, [named(labels), named(others)], &pick("label before → label", "前のラベル → ラベル"), *effect);
    }
    for feature in against.features.iter().take(MAX_FEATURES) {
        let labels = [feature.label.clone(), feature.other.clone()];
        row(&feature.word, labels, &say(&|lang| feature_name(feature, lang)), feature.effect);
    }
    if let Some(rest) = against.features.get(MAX_FEATURES..).filter(|rest| !rest.is_empty()) {
        let sentence = say(&|lang| tr_in!("{} more features", "ほか {} 個の特徴", lang, rest.len()));
        row("", Default::default(), &sentence, rest.iter().map(|feature| feature.effect).sum());
    }
    let sum = pick("sum: difference of the scores", "合計：スコアの差");
    let _ = writeln!(
        element,
        "<tr class=\"sum\"><th></th><td></td><td></td><td class=\"feature\">{sum}</td><td>{}</td></tr>",
        signed_number(against.difference, 3)
    );
    element.push_str("</tbody></table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_around_the_span_are_shown() {
        let own = |n: usize, at: usize| (0..n).map(|i| i == at).collect::<Vec<bool>>();
        assert_eq!(visible_words(&own(50, 49)), 0..50);
        assert_eq!(visible_words(&own(1000, 500)), 440..560);
        assert_eq!(visible_words(&own(1000, 3)), 0..120);
        assert_eq!(visible_words(&own(1000, 999)), 880..1000);
        assert_eq!(visible_words(&[]), 0..0);
    }
}
