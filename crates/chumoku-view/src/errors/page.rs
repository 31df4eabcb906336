//! The page of errors.

use super::{
    accuracy_sentence, confidence_text, confusion_counts, error_rate, group_heading, joined_pair, label_error_name,
    method_sentence, truth_and_answer, ungrouped_heading,
};
use crate::colored_words::{bilingual_html, color_scale, colored_words, effect_styles};
use crate::escape_markup;
use crate::figure::{ColorScale, Content, Figure, FigureAxis, Heatmap, PageWidget, Scatter, figures_page};
use chumoku::explain::{Confusion, ErrorAnalysis, ErrorKind, WrongAnswer};
use chumoku::lang::{Lang, show_controls_in_text};
use chumoku::tr_in;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Maximum number of classes in the confusion map.
const MAX_LABELS: usize = 20;
/// Maximum number of words of a text on the page.
const MAX_WORDS: usize = 2_000;

/// Returns the page of a model's errors in English and Japanese; it starts in `lang`. Like
/// [`figures_to_html`](crate::figures_to_html), it sends no request.
#[must_use]
pub fn errors_to_html(errors: &ErrorAnalysis, lang: Lang) -> String {
    let title = |lang: Lang| tr_in!("Most confident errors of {}", "{} の確信度の高い誤り", lang, errors.model);
    let mut element = String::from("<section id=\"errors\">\n");
    let say = |text: &dyn Fn(Lang) -> String| bilingual_html(lang, &|lang| escape_markup(&text(lang)));
    let _ = writeln!(element, "<p class=\"sum\">{}</p>", say(&|lang| accuracy_sentence(errors, lang)));
    if !errors.errors.is_empty() {
        let _ = writeln!(element, "<p class=\"how\">{}</p>", say(&|lang| method_sentence(errors, lang)));
        let ends = |at: usize| {
            say(&|lang| {
                let ends = match (errors.kind, lang) {
                    (ErrorKind::Numbers, Lang::En) => ["towards the true number", "away from it"],
                    (ErrorKind::Numbers, Lang::Ja) => ["真の値に近づける", "遠ざける"],
                    (_, Lang::En) => ["against the wrong answer", "for it"],
                    (_, Lang::Ja) => ["誤答に反対", "誤答を支持"],
                };
                ends[at].to_owned()
            })
        };
        let note = say(&|lang| {
            lang.pick(
                "Colors are relative to the strongest word of each text; point at a word for its number.",
                "色は各テキストで最大の影響を基準とします。語にポインターを合わせると数値を表示します。",
            )
            .to_owned()
        });
        let _ = writeln!(
            element,
            "<p class=\"scale\">− {} {} {} + <span class=\"note\">{note}</span></p>",
            ends(0),
            color_scale(),
            ends(1)
        );
    }
    for group in &errors.groups {
        let _ = write!(
            element,
            "<details open><summary>{} <span class=\"pairs\">",
            say(&|lang| group_heading(group, lang))
        );
        // The pairs and their number are the same in both languages.
        let counts = [Lang::En, Lang::Ja].map(|lang| confusion_counts(errors, &group.errors, lang));
        for (place, (_, count)) in counts[0].iter().enumerate() {
            let pair = bilingual_unless_names(errors.kind, lang, &|lang| {
                let sides = counts[usize::from(lang == Lang::Ja)][place].0.each_ref();
                let sides =
                    sides.map(|side| if side.is_empty() { String::new() } else { isolated_name(&escape_markup(side)) });
                joined_pair(&sides, errors.kind)
            });
            let _ = write!(element, "<span>{pair} {count}</span> ");
        }
        element.push_str("</span></summary>\n");
        group.errors.iter().for_each(|&i| error_article(errors, i, lang, &mut element));
        element.push_str("</details>\n");
    }
    if !errors.alone.is_empty() {
        let _ = writeln!(element, "<details open><summary>{}</summary>", say(&|lang| ungrouped_heading(errors, lang)));
        errors.alone.iter().for_each(|&i| error_article(errors, i, lang, &mut element));
        element.push_str("</details>\n");
    }
    element.push_str("</section>\n");
    let player = PageWidget {
        element: &element,
        script: "",
        style: &(include_str!("errors.css").to_owned() + &effect_styles()),
    };
    let figure = |lang: Lang| match errors.kind {
        ErrorKind::Labels => label_errors_figure(errors, title(lang), lang),
        ErrorKind::Numbers => scatter_figure(errors, title(lang), lang),
        _ => confusion_figure(errors, title(lang), lang),
    };
    figures_page(&title(lang), &[[Lang::En, Lang::Ja].map(figure)], player, lang)
}

/// Returns a text in both languages, or once if it consists of class names only.
fn bilingual_unless_names(kind: ErrorKind, lang: Lang, text: &dyn Fn(Lang) -> String) -> String {
    if kind == ErrorKind::Classes { text(lang) } else { bilingual_html(lang, text) }
}

/// Isolates a name from the writing direction of the text around it.
fn isolated_name(name: &str) -> String {
    format!("<bdi>{name}</bdi>")
}

fn error_article(errors: &ErrorAnalysis, place: usize, lang: Lang, element: &mut String) {
    let error = &errors.errors[place];
    let line = bilingual_html(lang, &|lang| tr_in!("line {}", "{} 行目", lang, error.line));
    let of_truth = match &error.answer {
        WrongAnswer::Class { probability_of_truth, .. } => bilingual_html(lang, &|lang| {
            let p = 100.0 * probability_of_truth;
            tr_in!("true class {p:.1} %", "正解の確率 {p:.1} %", lang)
        }),
        _ => String::new(),
    };
    let pair = match &error.answer {
        WrongAnswer::Class { truth, answer, .. } => {
            let [truth, answer] = [truth, answer].map(|label| escape_markup(&show_controls_in_text(label)));
            format!("{} → <ins>{}</ins>", isolated_name(&truth), isolated_name(&answer))
        }
        answer => bilingual_html(lang, &|lang| {
            let [first, second] =
                truth_and_answer(answer, false, lang).map(|side| isolated_name(&escape_markup(&side)));
            joined_pair(&[first, format!("<ins>{second}</ins>")], errors.kind)
        }),
    };
    let sure = bilingual_unless_names(errors.kind, lang, &|lang| confidence_text(&error.answer, lang));
    let _ = write!(
        element,
        "<article><p class=\"head\"><b>{}</b> {line} · {pair} <b>{sure}</b> <small>{of_truth}</small></p>\n\
         <p class=\"text\" dir=\"auto\">",
        place + 1,
    );
    element.push_str(&colored_words(&error.words, 0..MAX_WORDS, &|_| (false, String::new())));
    element.push_str("</p></article>\n");
}

/// The error rates of each label: the share of its rows that missed it, and the share of the other rows that got it.
fn label_errors_figure(errors: &ErrorAnalysis, title: String, lang: Lang) -> Figure {
    let shown = &errors.labels[..errors.labels.len().min(MAX_LABELS)];
    let values: Vec<Option<f32>> = shown
        .iter()
        .flat_map(|of| [(of.missed, of.of), (of.extra, of.of_others)])
        .map(|(wrong, of)| (of > 0).then(|| wrong as f32 / of as f32))
        .collect();
    let top = values.iter().flatten().fold(0.01_f32, |most, &x| most.max(x));
    let kinds = [true, false].iter().filter(|_| !shown.is_empty());
    let kinds = kinds.map(|&missed| label_error_name(missed, lang).to_owned()).collect();
    let axis = |name: &str, labels: Vec<String>| FigureAxis { name: name.into(), labels, is_numbered: false };
    let (subtitle, note) = match lang {
        Lang::En => (
            "Share of a label's rows that missed it, and share of the other rows that got it",
            "All rows of the file, not only the most confident errors.",
        ),
        Lang::Ja => (
            "ラベルの付く行のうち付け忘れた割合と、付かない行のうち余分に付けた割合",
            "確信度の高い誤りだけでなく、ファイルのすべての行についてのものです。",
        ),
    };
    Figure {
        title,
        subtitle: subtitle.into(),
        notes: vec![note.into()],
        content: Content::Heatmap(Heatmap {
            caption: String::new(),
            rows: axis(lang.pick("label", "ラベル"), shown.iter().map(|of| of.label.clone()).collect()),
            columns: axis(lang.pick("error", "誤り"), kinds),
            values,
            scale: ColorScale::for_shares(usize::MAX, [top].iter()),
        }),
        lang,
    }
}

/// Predicted numbers over true ones.
fn scatter_figure(errors: &ErrorAnalysis, title: String, lang: Lang) -> Figure {
    let subtitle =
        lang.pick("Predicted over true numbers; they are equal on the line", "真の値と予測。線の上では両者が等しい");
    Figure {
        title,
        subtitle: subtitle.into(),
        notes: Vec::new(),
        content: Content::Scatter(Scatter { points: errors.points.clone() }),
        lang,
    }
}

/// The confusion map of the classes with the most errors.
fn confusion_figure(errors: &ErrorAnalysis, title: String, lang: Lang) -> Figure {
    let mut of_label: BTreeMap<&str, usize> = BTreeMap::new();
    for confusion in &errors.confusions {
        *of_label.entry(&confusion.truth).or_default() += confusion.rows;
        *of_label.entry(&confusion.answer).or_default() += confusion.rows;
    }
    let mut labels: Vec<(&str, usize)> = of_label.into_iter().collect();
    labels.sort_by_key(|&(_, rows)| std::cmp::Reverse(rows));
    labels.truncate(MAX_LABELS);
    let mut labels: Vec<&str> = labels.into_iter().map(|(label, _)| label).collect();
    labels.sort_unstable();
    let taken = |truth: usize, answer: usize| {
        let is_it = |found: &&Confusion| found.truth == labels[truth] && found.answer == labels[answer];
        errors.confusions.iter().find(is_it).map_or(0.0, error_rate)
    };
    let axes = match lang {
        Lang::En => ["true class", "answer"],
        Lang::Ja => ["正解のクラス", "予測したクラス"],
    };
    let (subtitle, note) = match lang {
        Lang::En => (
            "Share of each class's rows that were predicted as another class",
            "All rows of the file, not only the most confident errors.",
        ),
        Lang::Ja => (
            "各クラスの行のうち、別のクラスと予測された割合",
            "確信度の高い誤りだけでなく、ファイルのすべての行についてのものです。",
        ),
    };
    Figure {
        title,
        subtitle: subtitle.into(),
        notes: vec![note.into()],
        content: Content::Heatmap(Heatmap::from_confusions(&labels, axes, taken)),
        lang,
    }
}
