//! The figures of word effects: the text in colors, and the deletion and insertion curves.

use crate::figure::{ColoredText, Content, CurvePanels, Curves, Figure, FigureAxis};
use crate::phrases::{self, order_name, translate_phrase};
use chumoku::explain::{Explanation, ExplanationKind};
use chumoku::lang::{Lang, show_controls_in_text};
use chumoku::row::AsRow;
use chumoku::tr_in;

/// The text, colored by the effect of each word.
pub(crate) fn effects_figure(e: &Explanation, lang: Lang) -> Figure {
    let class = show_controls_in_text(&e.attribution.class);
    let class = if e.similarity.is_some() { crate::truncate(&class, 40) } else { class };
    let quoted = lang.quoted(&class);
    let ends = match (lang, e.kind, e.is_compared_with_itself()) {
        (Lang::En, ExplanationKind::Encoder, true) => ["turns the vector".into(), String::new()],
        (Lang::Ja, ExplanationKind::Encoder, true) => ["ベクトルを動かす".into(), String::new()],
        (Lang::En, ExplanationKind::Encoder, false) => ["brings the texts nearer".into(), "takes them apart".into()],
        (Lang::Ja, ExplanationKind::Encoder, false) => ["近づける".into(), "遠ざける".into()],
        (Lang::En, ..) => [format!("for {quoted}"), "against it".into()],
        (Lang::Ja, ..) => [format!("{quoted}を支持"), "反対".into()],
    };
    let (method, unit) = (translate_phrase(lang, &e.attribution.method), translate_phrase(lang, &e.attribution.unit));
    let mut notes = vec![tr_in!("{method}: {unit}.", "{method}：{unit}。", lang)];
    if e.parts.is_some() {
        let note = match e.attribution.whole.is_some() {
            true => lang.pick(
                "Effects on the whole predictor: the network with the n-gram model.",
                "ネットワークと n-gram モデルを合わせた予測全体での影響です。",
            ),
            false => lang.pick(
                "Effects on the network by itself, without the n-gram model.",
                "n-gram モデルを除いた、ネットワーク単独での影響です。",
            ),
        };
        notes.push(note.into());
    }
    if let Some(integral) = &e.attribution.integral {
        notes.push(phrases::integral_note(lang, integral));
    }
    // All words of a long text are shown for a classifier.
    if let Some(cut) =
        e.cut.as_ref().filter(|_| !matches!(e.kind, ExplanationKind::Classifier | ExplanationKind::Ngrams))
    {
        notes.push(phrases::truncation_note(lang, cut, e.kind));
    }
    let chance = e.probabilities.iter().find(|p| p.label == e.label);
    let chance = chance.map_or(String::new(), |p| format!("  {:.1} %", 100.0 * p.probability));
    let message = match (e.number, e.similarity) {
        (Some(number), _) => phrases::number_with_interval(lang, number),
        (None, Some(cosine)) if !e.is_compared_with_itself() => format!("{cosine:.4}"),
        (None, Some(_)) => String::new(),
        (None, None) => format!("{}{chance}", crate::truncate(&show_controls_in_text(&e.label), 60)),
    };
    let colon = if message.is_empty() { "" } else { ": " };
    Figure {
        title: phrases::effect_heading(lang, e, &class),
        subtitle: format!(
            "{}{}{}{colon}{message}",
            show_controls_in_text(&e.model),
            lang.pick(", ", "、"),
            lowercase_first(phrases::prediction_heading(lang, e))
        ),
        notes,
        content: Content::ColoredText(ColoredText { words: e.highlighted_words(), legend: ends }),
        lang,
    }
}

/// Lowercases the first letter of a phrase for use within a sentence.
fn lowercase_first(phrase: &str) -> String {
    let mut letters = phrase.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// The deletion and insertion curves; `None` if they were not measured.
pub(crate) fn deletion_insertion_figure(e: &Explanation, lang: Lang) -> Option<Figure> {
    let curves = e.attribution.curves.as_ref()?;
    let class = lang.quoted(&show_controls_in_text(&e.attribution.class));
    let y = tr_in!("the network's probability of {class}", "ネットワークの{class}の確率", lang);
    let panel = |[en, ja]: [&str; 2], of: &dyn Fn(&chumoku::explain::OrderCurves) -> (Vec<f32>, f32)| {
        let series = curves.orders.iter().map(|curve| {
            let (numbers, area) = of(curve);
            // The number comes first, because a long name is truncated.
            (format!("{:.0} % {}", 100.0 * area, order_name(lang, &curve.order)), numbers)
        });
        let x = FigureAxis {
            name: lang.pick("words", "語数").into(),
            labels: curves.words.iter().map(usize::to_string).collect(),
            is_numbered: false,
        };
        let series = series.collect();
        let curves = Curves { x, y: y.clone(), series, is_logarithmic: false, spread: Vec::new(), between: Vec::new() };
        (lang.pick(en, ja).into(), curves)
    };
    let panels = vec![
        panel(
            ["Deletion: words are removed, in each order from the first", "削除：各順序で先頭の語から取り除く"],
            &|curve| (curve.deletion.clone(), curve.deletion_area),
        ),
        panel(
            [
                "Insertion: words are added to an empty text, in the same order",
                "挿入：空のテキストに同じ順序で語を加える",
            ],
            &|curve| (curve.insertion.clone(), curve.insertion_area),
        ),
    ];
    let note = lang.pick(
        "If an order starts with the decisive words, its deletion curve falls early and its insertion curve rises early (Petsiuk, Das and Saenko 2018). \
         Percentages are areas under the curves, which are mean probabilities: smaller is better for deletion, larger for insertion.",
        "予測の根拠となる語から始まる順序ほど、削除の曲線は早く下がり、挿入の曲線は早く上がります（Petsiuk, Das and Saenko 2018）。% は曲線の下の面積（確率の平均）で、\
         削除では小さいほど、挿入では大きいほど良い順序です。",
    );
    let title =
        lang.pick("Does the network's answer rest on these words?", "ネットワークの予測の根拠はこれらの語か").into();
    let content = Content::Panels(CurvePanels { panels, range: Some([0.0, 1.0]) });
    Some(Figure { title, subtitle: e.text.as_row().display().into(), notes: vec![note.into()], content, lang })
}
