//! Errors as one page.

use super::{pairs, said_alone, said_group, said_method, said_rows, share};
use crate::coloured::{both, colours, scale, words};
use crate::figure::{Axis, Content, Figure, Map, Player, Scale, page};
use crate::marked_up;
use chumoku::explain::{ConfidentError, Errors};
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
                let ends = match lang {
                    Lang::En => ["against the wrong answer", "for it"],
                    Lang::Ja => ["誤答に反対", "誤答を支持"],
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
        for ([truth, answer], count) in pairs(errors, &group.errors) {
            let _ = write!(
                element,
                "<span><bdi>{}</bdi> → <bdi>{}</bdi> {count}</span> ",
                marked_up(&truth),
                marked_up(&answer)
            );
        }
        element.push_str("</span></summary>\n");
        group.errors.iter().for_each(|&i| article(&errors.errors[i], i, lang, &mut element));
        element.push_str("</details>\n");
    }
    if !errors.alone.is_empty() {
        let _ = writeln!(element, "<details open><summary>{}</summary>", say(&|lang| said_alone(errors, lang)));
        errors.alone.iter().for_each(|&i| article(&errors.errors[i], i, lang, &mut element));
        element.push_str("</details>\n");
    }
    element.push_str("</section>\n");
    let player = Player { element: &element, script: "", style: &(include_str!("errors.css").to_owned() + &colours()) };
    page(&title(lang), &[[Lang::En, Lang::Ja].map(|lang| confusions(errors, title(lang), lang))], player, lang)
}

fn article(error: &ConfidentError, place: usize, lang: Lang, element: &mut String) {
    let line = both(lang, &|lang| match lang {
        Lang::En => format!("line {}", error.line),
        Lang::Ja => format!("{} 行目", error.line),
    });
    let of_truth = both(lang, &|lang| {
        let p = 100.0 * error.probability_of_truth;
        match lang {
            Lang::En => format!("true class {p:.1} %"),
            Lang::Ja => format!("正解の確率 {p:.1} %"),
        }
    });
    let [truth, answer] = [&error.truth, &error.answer].map(|label| marked_up(&clean_text(label)));
    let _ = write!(
        element,
        "<article><p class=\"head\"><b>{}</b> {line} · <bdi>{truth}</bdi> → <ins><bdi>{answer}</bdi></ins> <b>{:.1} %</b> <small>{of_truth}</small></p>\n\
         <p class=\"text\" dir=\"auto\">",
        place + 1,
        100.0 * error.probability,
    );
    element.push_str(&words(&error.words, 0..MOST_WORDS, &|_| (false, String::new())));
    element.push_str("</p></article>\n");
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
    let value = |truth: &str, answer: &str| match truth == answer {
        true => None,
        false => {
            let found = errors.confusions.iter().find(|found| found.truth == truth && found.answer == answer);
            Some(found.map_or(0.0, share))
        }
    };
    let values: Vec<Option<f32>> =
        labels.iter().flat_map(|truth| labels.iter().map(|answer| value(truth, answer))).collect();
    let top = values.iter().flatten().fold(0.01_f32, |most, &x| most.max(x));
    let axis = |en: &str, ja: &str| Axis {
        name: lang.pick(en, ja).into(),
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        is_numbered: false,
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
        content: Content::Map(Map {
            caption: String::new(),
            rows: axis("the true class", "正解のクラス"),
            columns: axis("the answer", "予測したクラス"),
            values,
            scale: Scale::of_shares(usize::MAX, [top].iter()),
        }),
        lang,
    }
}
