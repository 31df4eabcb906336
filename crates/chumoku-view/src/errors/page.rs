//! Errors as one page.

use super::{joined, missed_or_extra, pairs, said_alone, said_group, said_method, said_rows, said_sure, share, sides};
use crate::coloured::{both, colours, scale, words};
use crate::figure::{Axis, Content, Figure, Map, Player, Scale, Scatter, page};
use crate::marked_up;
use chumoku::explain::{Confusion, ErrorKind, Errors, Told};
use chumoku::lang::{Lang, clean_text};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Classes of the map.
const MOST_LABELS: usize = 20;
/// Words of a text on the page.
const MOST_WORDS: usize = 2_000;

/// The page of a model's errors, in English and Japanese, starting in `lang`; like [`figures_to_html`](crate::figures_to_html) it
/// asks nothing of the network.
#[must_use]
pub fn errors_to_html(errors: &Errors, lang: Lang) -> String {
    let title = |lang: Lang| match lang {
        Lang::En => format!("The surest errors of {}", errors.model),
        Lang::Ja => format!("{} の確信度の高い誤り", errors.model),
    };
    let mut element = String::from("<section id=\"errors\">\n");
    let say = |said: &dyn Fn(Lang) -> String| both(lang, &|lang| marked_up(&said(lang)));
    let _ = writeln!(element, "<p class=\"sum\">{}</p>", say(&|lang| said_rows(errors, lang)));
    if !errors.errors.is_empty() {
        let _ = writeln!(element, "<p class=\"how\">{}</p>", say(&|lang| said_method(errors, lang)));
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
                "Colours by the strongest word of each text; point at a word for its number.",
                "色は各テキストで最大の影響を基準とします。語にポインターを合わせると数値を表示します。",
            )
            .to_owned()
        });
        let _ = writeln!(
            element,
            "<p class=\"scale\">− {} {} {} + <span class=\"note\">{note}</span></p>",
            ends(0),
            scale(),
            ends(1)
        );
    }
    for group in &errors.groups {
        let _ =
            write!(element, "<details open><summary>{} <span class=\"pairs\">", say(&|lang| said_group(group, lang)));
        // The same pairs whatever the language, and as many.
        let said = [Lang::En, Lang::Ja].map(|lang| pairs(errors, &group.errors, lang));
        for (place, (_, count)) in said[0].iter().enumerate() {
            let pair = in_words(errors.kind, lang, &|lang| {
                let sides = said[usize::from(lang == Lang::Ja)][place].0.each_ref();
                let sides = sides.map(|side| if side.is_empty() { String::new() } else { named(&marked_up(side)) });
                joined(&sides, errors.kind)
            });
            let _ = write!(element, "<span>{pair} {count}</span> ");
        }
        element.push_str("</span></summary>\n");
        group.errors.iter().for_each(|&i| article(errors, i, lang, &mut element));
        element.push_str("</details>\n");
    }
    if !errors.alone.is_empty() {
        let _ = writeln!(element, "<details open><summary>{}</summary>", say(&|lang| said_alone(errors, lang)));
        errors.alone.iter().for_each(|&i| article(errors, i, lang, &mut element));
        element.push_str("</details>\n");
    }
    element.push_str("</section>\n");
    let player = Player { element: &element, script: "", style: &(include_str!("errors.css").to_owned() + &colours()) };
    let figure = |lang: Lang| match errors.kind {
        ErrorKind::Labels => labels(errors, title(lang), lang),
        ErrorKind::Numbers => scatter(errors, title(lang), lang),
        _ => confusions(errors, title(lang), lang),
    };
    page(&title(lang), &[[Lang::En, Lang::Ja].map(figure)], player, lang)
}

/// What is said in both languages, or of classes, which have names alone and no words, once.
fn in_words(kind: ErrorKind, lang: Lang, said: &dyn Fn(Lang) -> String) -> String {
    if kind == ErrorKind::Classes { said(lang) } else { both(lang, said) }
}

/// A name, whichever way it is written.
fn named(name: &str) -> String {
    format!("<bdi>{name}</bdi>")
}

fn article(errors: &Errors, place: usize, lang: Lang, element: &mut String) {
    let error = &errors.errors[place];
    let line = both(lang, &|lang| match lang {
        Lang::En => format!("line {}", error.line),
        Lang::Ja => format!("{} 行目", error.line),
    });
    let of_truth = match &error.told {
        Told::Class { probability_of_truth, .. } => both(lang, &|lang| {
            let p = 100.0 * probability_of_truth;
            match lang {
                Lang::En => format!("true class {p:.1} %"),
                Lang::Ja => format!("正解の確率 {p:.1} %"),
            }
        }),
        _ => String::new(),
    };
    let pair = match &error.told {
        Told::Class { truth, answer, .. } => {
            let [truth, answer] = [truth, answer].map(|label| marked_up(&clean_text(label)));
            format!("{} → <ins>{}</ins>", named(&truth), named(&answer))
        }
        told => both(lang, &|lang| {
            let [first, second] = sides(told, false, lang).map(|side| named(&marked_up(&side)));
            joined(&[first, format!("<ins>{second}</ins>")], errors.kind)
        }),
    };
    let sure = in_words(errors.kind, lang, &|lang| said_sure(&error.told, lang));
    let _ = write!(
        element,
        "<article><p class=\"head\"><b>{}</b> {line} · {pair} <b>{sure}</b> <small>{of_truth}</small></p>\n\
         <p class=\"text\" dir=\"auto\">",
        place + 1,
    );
    element.push_str(&words(&error.words, 0..MOST_WORDS, &|_| (false, String::new())));
    element.push_str("</p></article>\n");
}

/// Of each label the share of the rows that have it that missed it, and of the others that were given it.
fn labels(errors: &Errors, title: String, lang: Lang) -> Figure {
    let shown = &errors.labels[..errors.labels.len().min(MOST_LABELS)];
    let values: Vec<Option<f32>> = shown
        .iter()
        .flat_map(|of| [(of.missed, of.of), (of.extra, of.of_others)])
        .map(|(wrong, of)| (of > 0).then(|| wrong as f32 / of as f32))
        .collect();
    let top = values.iter().flatten().fold(0.01_f32, |most, &x| most.max(x));
    let kinds = [true, false].iter().filter(|_| !shown.is_empty());
    let kinds = kinds.map(|&missed| missed_or_extra(missed, lang).to_owned()).collect();
    let axis = |name: &str, labels: Vec<String>| Axis { name: name.into(), labels, is_numbered: false };
    let (subtitle, note) = match lang {
        Lang::En => (
            "Of the rows that have a label the share that missed it, and of the others the share that was given it",
            "All rows of the file, not the surest errors alone.",
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
        content: Content::Map(Map {
            caption: String::new(),
            rows: axis(lang.pick("the label", "ラベル"), shown.iter().map(|of| of.label.clone()).collect()),
            columns: axis(lang.pick("the error", "誤り"), kinds),
            values,
            scale: Scale::of_shares(usize::MAX, [top].iter()),
        }),
        lang,
    }
}

/// Predicted numbers over true ones.
fn scatter(errors: &Errors, title: String, lang: Lang) -> Figure {
    let subtitle = lang.pick(
        "Predicted numbers over true ones; the line is where they are equal",
        "真の値と予測。線の上では両者が等しい",
    );
    Figure {
        title,
        subtitle: subtitle.into(),
        notes: Vec::new(),
        content: Content::Scatter(Scatter { points: errors.points.clone() }),
        lang,
    }
}

/// Of each class the share that was taken for another, for the classes with the most errors.
fn confusions(errors: &Errors, title: String, lang: Lang) -> Figure {
    let mut of_label: BTreeMap<&str, usize> = BTreeMap::new();
    for confusion in &errors.confusions {
        *of_label.entry(&confusion.truth).or_default() += confusion.rows;
        *of_label.entry(&confusion.answer).or_default() += confusion.rows;
    }
    let mut labels: Vec<(&str, usize)> = of_label.into_iter().collect();
    labels.sort_by_key(|&(_, rows)| std::cmp::Reverse(rows));
    labels.truncate(MOST_LABELS);
    let mut labels: Vec<&str> = labels.into_iter().map(|(label, _)| label).collect();
    labels.sort_unstable();
    let taken = |truth: usize, answer: usize| {
        let is_it = |found: &&Confusion| found.truth == labels[truth] && found.answer == labels[answer];
        errors.confusions.iter().find(is_it).map_or(0.0, share)
    };
    let axes = match lang {
        Lang::En => ["the true class", "the answer"],
        Lang::Ja => ["正解のクラス", "予測したクラス"],
    };
    let (subtitle, note) = match lang {
        Lang::En => (
            "Of the rows of each class, the share that was taken for another",
            "All rows of the file, not the surest errors alone.",
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
        content: Content::Map(Map::of_confusions(&labels, axes, taken)),
        lang,
    }
}
