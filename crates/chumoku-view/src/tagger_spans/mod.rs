//! Explanations of a tagger's spans: the words and the features that support each span.
//!
//! # Files
//!
//! - `inner_steps`: the logit lens and patching on the page
//! - `page`: spans as a page
//! - `text`: spans in a terminal

mod inner_steps;
mod page;
mod text;

pub(crate) use page::tagged_page_sources;
pub use page::tagged_to_html;
pub use text::render_tagged;

use crate::figure::{ColorScale, ColoredText, Content, Figure, FigureAxis, Heatmap};
use crate::phrases::translate_phrase;
use chumoku::characters::CharacterOffsets;
use chumoku::explain::{ExplainedSpan, FeatureEffect, HighlightedWord, LabelComparison, TaggedText, TransitionEffect};
use chumoku::lang::{Lang, show_controls, show_controls_in_text};
use chumoku::tr_in;

/// Maximum width of a span's text within a sentence.
const MAX_SPAN_WIDTH: usize = 40;
/// Maximum numbers of spans and words in the map.
const MAX_MAP_SIZE: [usize; 2] = [40, 120];

/// Heading with the number of spans.
fn heading(tagged: &TaggedText, lang: Lang) -> String {
    let model = show_controls_in_text(&tagged.model);
    match (lang, tagged.spans.len(), &tagged.spans[..]) {
        (Lang::En, 1, [span]) if !span.is_found => format!("A span that {model} does not mark"),
        (Lang::Ja, 1, [span]) if !span.is_found => format!("{model} が検出しないスパン"),
        (Lang::En, 0, _) => format!("{model} marks nothing in this text"),
        (Lang::Ja, 0, _) => format!("{model} がこのテキストで検出するスパンはありません"),
        (Lang::En, 1, _) => format!("Why {model} marks this span"),
        (Lang::Ja, 1, _) => format!("{model} がこのスパンを検出する理由"),
        (Lang::En, n, _) => format!("Why {model} marks these {n} spans"),
        (Lang::Ja, n, _) => format!("{model} が {n} 個のスパンを検出する理由"),
    }
}

/// States how effects were measured.
fn method_sentence(tagged: &TaggedText, lang: Lang) -> String {
    let (method, unit) = (translate_phrase(lang, &tagged.method), translate_phrase(lang, &tagged.unit));
    let token = tagged.hidden_by.as_ref().map(|token| show_controls(token));
    match (lang, token) {
        (Lang::En, None) => format!(
            "{method}: {unit}: every feature that looks at it is dropped, those of its neighbors too. + (blue): the word speaks for \
             the span; - (orange): against it."
        ),
        (Lang::En, Some(token)) => format!(
            "{method}: {unit}: of the random field, every feature that looks at it is dropped, those of its neighbors too; the network \
             reads {token} in its place. + (blue): the word speaks for the span; - (orange): against it."
        ),
        (Lang::Ja, None) => format!(
            "{method}：{unit}。隣の語のものも含め、その語を見る特徴をすべて除きます。+（青）はスパンを支持する語、-（橙）は反対する語。"
        ),
        (Lang::Ja, Some(token)) => format!(
            "{method}：{unit}。条件付き確率場では、隣の語のものも含め、その語を見る特徴をすべて除き、ネットワークはその位置で {token} を\
             読みます。+（青）はスパンを支持する語、-（橙）は反対する語。"
        ),
    }
}

/// Formats a span with its label.
fn span_name(text: &str, label: &str, lang: Lang) -> String {
    format!(
        "{} {}",
        lang.quoted(&crate::truncate(&show_controls_in_text(text), MAX_SPAN_WIDTH)),
        crate::truncate(&show_controls_in_text(label), MAX_SPAN_WIDTH)
    )
}

/// States the probability from each ensemble member; `None` if there is only one.
fn member_sentence(span: &ExplainedSpan, lang: Lang) -> Option<String> {
    let (network, crf) = (span.network.as_ref()?, span.crf.as_ref()?);
    let [network, crf] = [network, crf].map(|half| 100.0 * half.probability);
    Some(match lang {
        Lang::En => format!("Network alone: {network:.1} %. Random field alone: {crf:.1} %."),
        Lang::Ja => format!("ネットワーク単独：{network:.1} %。条件付き確率場単独：{crf:.1} %。"),
    })
}

/// States the alternative that the span is compared with, and the difference of the scores.
fn comparison_sentence(span: &ExplainedSpan, comparison: &LabelComparison, lang: Lang) -> String {
    let spans: Vec<String> =
        comparison.spans.iter().map(|found| span_name(&found.text, &found.span.label, lang)).collect();
    let spans = match spans.is_empty() {
        true => lang.pick("nothing marked", "スパンなし").to_owned(),
        false => spans.join(lang.pick(", ", "、")),
    };
    let label = lang.quoted(&crate::truncate(&show_controls_in_text(&span.span.span.label), MAX_SPAN_WIDTH));
    let LabelComparison { difference, from_features, from_transitions, from_network, .. } = comparison;
    let [difference, from_features, from_transitions, from_network] =
        [difference, from_features, from_transitions, from_network].map(|x| crate::signed_number(*x, 2));
    let mut message = match (lang, span.is_found) {
        (Lang::En, true) => format!("Against the likeliest labels without {label} there ({spans})"),
        (Lang::En, false) => format!("Against the labels that the model gives ({spans})"),
        (Lang::Ja, true) => format!("そこに{label}のない最有力のラベル（{spans}）との差"),
        (Lang::Ja, false) => format!("モデルが予測するラベル（{spans}）との差"),
    };
    message += &tr_in!(
        ": score {difference} = features {from_features}, transitions {from_transitions}",
        "：スコア {difference} ＝ 特徴 {from_features}、遷移 {from_transitions}",
        lang
    );
    if span.network.is_some() {
        message += &tr_in!(", network {from_network}", "、ネットワーク {from_network}", lang);
    }
    message + lang.pick(".", "。")
}

/// Names a feature and its value.
fn feature_name(feature: &FeatureEffect, lang: Lang) -> String {
    let place = feature.at.map_or(0, |[first, _]| first);
    let near = |of_itself: [&'static str; 2], others: [[&'static str; 2]; 4]| match place {
        -2 => others[0],
        -1 => others[1],
        1 => others[2],
        2 => others[3],
        _ => of_itself,
    };
    let range = || match feature.at {
        Some([first, last]) if first != last => format!(" {first:+}…{last:+}").replace('-', "−").replace("+0", "0"),
        Some([first, _]) => format!(" {first:+}").replace('-', "−").replace("+0", "0"),
        None => String::new(),
    };
    let [en, ja] = match feature.feature.as_str() {
        "bias" => return lang.pick("any word (bias)", "どの語でも（バイアス）").to_owned(),
        "length" | "capitals" => return length_feature_name(feature, lang),
        "word" => ["word", "語"],
        "lower" => near(
            ["in small letters", "小文字で"],
            [
                ["word before the previous", "2 つ前の語"],
                ["previous word", "前の語"],
                ["next word", "次の語"],
                ["word after the next", "2 つ後の語"],
            ],
        ),
        "shape" => near(
            ["shape", "字形"],
            [
                ["shape of the word before the previous", "2 つ前の語の字形"],
                ["shape of the previous word", "前の語の字形"],
                ["shape of the next word", "次の語の字形"],
                ["shape of the word after the next", "2 つ後の語の字形"],
            ],
        ),
        "before-word" => ["previous word and this word", "前の語と自身"],
        "word-behind" => ["this word and next word", "自身と次の語"],
        "shapes" => ["shapes of previous and this word", "前の語と自身の字形"],
        "shapes-behind" => ["shapes of this and next word", "自身と次の語の字形"],
        "three-shapes" => ["shapes of previous, this and next word", "前の語から次の語までの字形"],
        "before-shape" => ["previous word and own shape", "前の語と自身の字形"],
        "behind-shape" => ["next word and own shape", "次の語と自身の字形"],
        "begins" => ["begins with", "先頭"],
        "ends" => ["ends in", "末尾"],
        "ends-before" => ["previous word ends in", "前の語の末尾"],
        "ends-behind" => ["next word ends in", "次の語の末尾"],
        "characters" => ["characters", "文字"],
        "classes" => ["classes of characters", "文字種"],
        "run" => ["run of one class", "同じ文字種の連なり"],
        "run-place" => ["run of one class, and position in it", "連なりとその中の位置"],
        "place" => ["class, and position in its run", "文字種と連なりの中の位置"],
        "left" => ["class, and characters left in its run", "文字種と連なりの残りの文字数"],
        "place-left" => ["class, position in its run, characters left", "文字種、連なりの中の位置、残りの文字数"],
        "run-before" => ["previous run", "前の連なり"],
        "run-behind" => ["next run", "次の連なり"],
        "run-behind-class" => ["class and next run", "文字種と次の連なり"],
        "run-before-class" => ["class and previous run", "文字種と前の連なり"],
        "run-ends" => ["class, and how its run ends", "文字種と連なりの末尾"],
        other => return format!("{other} {}", lang.quoted(&show_controls(&feature.value))),
    };
    let range = if matches!(feature.feature.as_str(), "characters" | "classes") { range() } else { String::new() };
    let value = feature.value.replace("<border>", lang.pick("(border)", "（端）"));
    format!("{}{range}{}{}", lang.pick(en, ja), lang.pick(" ", ""), lang.quoted(&show_controls(&value)))
}

/// Names a feature of word length: the number of letters, all capitals or not. The last number stands for it and more.
fn length_feature_name(feature: &FeatureEffect, lang: Lang) -> String {
    let (count, is_capitals) = (&feature.value, feature.feature == "capitals");
    let is_last = count == if is_capitals { "4" } else { "12" };
    match lang {
        Lang::En => {
            let front = if is_capitals { "capitals alone, " } else { "" };
            let letters = if count == "1" { "letter" } else { "letters" };
            format!("{front}{count} {letters}{}", if is_last { " or more" } else { "" })
        }
        Lang::Ja => {
            let front = if is_capitals { "大文字のみ " } else { "" };
            format!("{front}{count} 文字{}", if is_last { "以上" } else { "" })
        }
    }
}

/// Lists the words with different labels with and without the span.
fn changed_labels(against: &LabelComparison, lang: Lang) -> String {
    let one = |at: &TransitionEffect| {
        let [label, other] =
            [&at.labels[1], &at.others[1]].map(|label| show_controls(label.as_deref().unwrap_or_default()));
        (label != other).then(|| format!("{} {label} / {other}", show_controls(&at.word)))
    };
    against.transitions.iter().filter_map(one).collect::<Vec<String>>().join(lang.pick(", ", "、"))
}

/// Marks the words that overlap the span.
fn words_in_span(tagged: &TaggedText, span: &ExplainedSpan) -> Vec<bool> {
    let characters = CharacterOffsets::new(&tagged.text);
    let own = characters.byte(span.span.span.start)..characters.byte(span.span.span.end);
    let mut end = 0;
    let is_inside = |word: &HighlightedWord| {
        let start = tagged.text[end..].find(&word.text).map_or(end, |at| end + at);
        end = (start + word.text.len()).min(tagged.text.len());
        start < own.end && own.start < end
    };
    span.words.iter().map(is_inside).collect()
}

/// The picture of the effects: for one span the text in colors, for several a heatmap of spans by words.
#[must_use]
pub fn tagged_figure(tagged: &TaggedText, lang: Lang) -> Figure {
    let title = heading(tagged, lang);
    let percent = |span: &ExplainedSpan| format!("{:.1} %", 100.0 * span.span.probability);
    let (subtitle, content) = match &tagged.spans[..] {
        [] => {
            let word = |text: &str| HighlightedWord { text: text.into(), effect: Some(0.0), is_spaced: true };
            let words = tagged.text.split_whitespace().map(word).collect();
            (String::new(), Content::ColoredText(ColoredText { words, legend: Default::default() }))
        }
        [span] => {
            let name = span_name(&span.span.text, &span.span.span.label, lang);
            let ends = match lang {
                Lang::En => [format!("for {name}"), "against it".to_owned()],
                Lang::Ja => [format!("{name}を支持"), "反対".to_owned()],
            };
            let subtitle = format!("{name}  {}", percent(span));
            (subtitle, Content::ColoredText(ColoredText { words: span.words.clone(), legend: ends }))
        }
        spans => {
            let row = |span: &ExplainedSpan| {
                let (text, label) =
                    (show_controls_in_text(&span.span.text), show_controls_in_text(&span.span.span.label));
                format!("{text} {label}")
            };
            let spans = &spans[..spans.len().min(MAX_MAP_SIZE[0])];
            let words = spans[0].words.iter().take(MAX_MAP_SIZE[1]).map(|word| show_controls(&word.text)).collect();
            let of_span =
                |span: &ExplainedSpan| span.words.iter().take(MAX_MAP_SIZE[1]).map(|word| word.effect).collect();
            let values: Vec<Option<f32>> =
                spans.iter().flat_map(|span| -> Vec<Option<f32>> { of_span(span) }).collect();
            let most = values.iter().flatten().fold(0.0_f32, |most, x| most.max(x.abs()));
            let axis = |name: &str, labels, is_numbered| FigureAxis { name: name.to_owned(), labels, is_numbered };
            let map = Heatmap {
                caption: String::new(),
                rows: axis(lang.pick("span", "スパン"), spans.iter().map(row).collect(), true),
                columns: axis(lang.pick("word", "語"), words, true),
                values,
                scale: ColorScale::Signed(most.max(f32::MIN_POSITIVE)),
            };
            (
                lang.pick("Each word's effect on each span", "各語が各スパンに与える影響").to_owned(),
                Content::Heatmap(map),
            )
        }
    };
    let mut notes = if tagged.spans.is_empty() { Vec::new() } else { vec![method_sentence(tagged, lang)] };
    let is_cut = tagged.spans.len() > MAX_MAP_SIZE[0]
        || tagged.spans.first().is_some_and(|span| span.words.len() > MAX_MAP_SIZE[1]);
    if is_cut && tagged.spans.len() > 1 {
        let [spans, words] = MAX_MAP_SIZE;
        notes.push(match lang {
            Lang::En => format!("The first {spans} spans and {words} words at most; --json has all."),
            Lang::Ja => format!("最初の {spans} スパン、{words} 語まで（すべては --json に）。"),
        });
    }
    Figure { title, subtitle, notes, content, lang }
}
