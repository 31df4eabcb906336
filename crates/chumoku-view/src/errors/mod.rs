//! What a classifier gets wrong, for people to read: the surest errors, grouped by the words that caused them.

mod page;
mod text;

pub use page::errors_to_html;
pub use text::render_errors;

use crate::phrases::known;
use chumoku::explain::{Confusion, ErrorGroup, Errors};
use chumoku::lang::{Lang, clean};

/// Confusions that are named in a list.
const CONFUSIONS: usize = 10;

/// How many rows are wrong.
fn said_rows(errors: &Errors, lang: Lang) -> String {
    let (wrong, rows, accuracy) = (errors.wrong, errors.rows, 100.0 * errors.accuracy);
    match lang {
        Lang::En if rows == 1 => format!("{wrong} of 1 row is wrong."),
        Lang::En => format!("{wrong} of {rows} rows are wrong: accuracy {accuracy:.1} %."),
        Lang::Ja => format!("{rows} 行中 {wrong} 行が誤り（正解率 {accuracy:.1} %）。"),
    }
}

/// What is shown, and how effects were found.
fn said_method(errors: &Errors, lang: Lang) -> String {
    let (shown, method, unit) = (errors.errors.len(), known(lang, &errors.method), known(lang, &errors.unit));
    let mut said = match lang {
        Lang::En => format!(
            "The {shown} surest, by the words that caused them: those whose effect towards the wrong answer is at least half of the \
             strongest in their text. {method}: {unit}; +: towards the wrong answer."
        ),
        Lang::Ja => format!(
            "確信度の高い {shown} 件を、原因となった語（誤答を支持する影響が、そのテキストで最大の影響の半分以上の語）ごとに示します。\
             {method}：{unit}。＋は誤答を支持する語。"
        ),
    };
    if errors.is_network_alone {
        said += lang.pick(
            " Effects are those on the network by itself; the answers have a part of n-grams too.",
            "影響はネットワーク単独のもので、予測には n-gram も加わっています。",
        );
    }
    said
}

/// How many errors a word caused.
fn said_group(group: &ErrorGroup, lang: Lang) -> String {
    let (word, count) = (lang.quoted(&clean(&group.word)), group.errors.len());
    match lang {
        Lang::En => format!("{word}: {count} errors"),
        Lang::Ja => format!("{word}：{count} 件"),
    }
}

/// How many errors have no word in common with another.
fn said_alone(errors: &Errors, lang: Lang) -> String {
    let count = errors.alone.len();
    match lang {
        Lang::En if count == 1 => "Alone: 1 error".into(),
        Lang::En => format!("Alone: {count} errors"),
        Lang::Ja => format!("共通の語がないもの：{count} 件"),
    }
}

/// The pairs of classes of some errors, the most frequent first.
fn pairs(errors: &Errors, own: &[usize]) -> Vec<([String; 2], usize)> {
    let mut found: Vec<([String; 2], usize)> = Vec::new();
    for error in own.iter().map(|&i| &errors.errors[i]) {
        let pair = [&error.truth, &error.answer].map(|label| clean(label));
        match found.iter_mut().find(|(other, _)| *other == pair) {
            Some((_, count)) => *count += 1,
            None => found.push((pair, 1)),
        }
    }
    found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    found
}

/// The share of a class's rows that were taken for another.
fn share(confusion: &Confusion) -> f32 {
    confusion.rows as f32 / confusion.of.max(1) as f32
}
