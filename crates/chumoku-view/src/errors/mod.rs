//! Errors of a predictor: the most confident ones, grouped by the words that caused them.
//!
//! # Files
//!
//! - `page`: errors as a page
//! - `text`: errors in a terminal

mod page;
mod text;

pub use page::errors_to_html;
pub use text::render_errors;

use crate::phrases::translate_phrase;
use chumoku::explain::{Confusion, ErrorAnalysis, ErrorGroup, ErrorKind, WrongAnswer};
use chumoku::lang::{Lang, show_controls};
use chumoku::tr_in;

/// Maximum number of confusions in the list.
const MAX_CONFUSIONS: usize = 10;

/// States how many rows are wrong.
fn accuracy_sentence(errors: &ErrorAnalysis, lang: Lang) -> String {
    let (wrong, rows, accuracy) = (errors.wrong, errors.rows, 100.0 * errors.accuracy);
    match (errors.kind, lang) {
        (ErrorKind::Labels, Lang::En) => {
            format!("{wrong} of {rows} rows have wrong labels: {accuracy:.1} % are right.")
        }
        (ErrorKind::Labels, Lang::Ja) => {
            format!("{rows} 行中 {wrong} 行でラベルが一致しません（完全一致 {accuracy:.1} %）。")
        }
        (ErrorKind::Numbers, Lang::En) => {
            format!("{wrong} of {rows} true numbers lie outside their intervals: {accuracy:.1} % lie inside.")
        }
        (ErrorKind::Numbers, Lang::Ja) => {
            format!("{rows} 行中 {wrong} 行で真の値が区間の外です（区間内 {accuracy:.1} %）。")
        }
        (_, Lang::En) if rows == 1 => format!("{wrong} of 1 row is wrong."),
        (_, Lang::En) => format!("{wrong} of {rows} rows are wrong: accuracy {accuracy:.1} %."),
        (_, Lang::Ja) => format!("{rows} 行中 {wrong} 行が誤り（正解率 {accuracy:.1} %）。"),
    }
}

/// States which errors are shown and how effects were measured.
fn method_sentence(errors: &ErrorAnalysis, lang: Lang) -> String {
    let (shown, method, unit) =
        (errors.errors.len(), translate_phrase(lang, &errors.method), translate_phrase(lang, &errors.unit));
    let mut message = match (errors.kind, lang) {
        (ErrorKind::Numbers, Lang::En) => format!(
            "The {shown} largest errors relative to their intervals, grouped by the words that caused them: words whose effect away from the \
             true number is at least half of the strongest in their text. {method}: {unit}; +: away from the true number."
        ),
        (ErrorKind::Numbers, Lang::Ja) => format!(
            "区間の幅に比べて誤差の大きい {shown} 件を、原因となった語（予測を真の値から遠ざける影響が、そのテキストで最大の影響の半分以上の語）\
             ごとに示します。{method}：{unit}。+ は真の値から遠ざける語。"
        ),
        (_, Lang::En) => format!(
            "The {shown} most confident errors, grouped by the words that caused them: words whose effect towards the wrong answer is at \
             least half of the strongest in their text. {method}: {unit}; +: towards the wrong answer."
        ),
        (_, Lang::Ja) => format!(
            "確信度の高い {shown} 件を、原因となった語（誤答を支持する影響が、そのテキストで最大の影響の半分以上の語）ごとに示します。\
             {method}：{unit}。+ は誤答を支持する語。"
        ),
    };
    if errors.is_network_alone {
        message += lang.pick(
            " Effects are on the network by itself; the answers also depend on n-grams.",
            "影響はネットワーク単独のもので、予測には n-gram も加わっています。",
        );
    }
    message
}

/// Heading of a group: a word and the number of errors that it caused.
fn group_heading(group: &ErrorGroup, lang: Lang) -> String {
    let (word, count) = (lang.quoted(&show_controls(&group.word)), group.errors.len());
    tr_in!("{word}: {count} errors", "{word}：{count} 件", lang)
}

/// Heading of the errors that share no word with another error.
fn ungrouped_heading(errors: &ErrorAnalysis, lang: Lang) -> String {
    let count = errors.alone.len();
    match lang {
        Lang::En if count == 1 => "No word in common: 1 error".into(),
        Lang::En => format!("No word in common: {count} errors"),
        Lang::Ja => format!("共通の語がないもの：{count} 件"),
    }
}

/// Returns the true value and the answer. For one label of a multi-label model the second text says what is wrong. For
/// a number it is the number, or the direction of the error if `is_brief`.
fn truth_and_answer(answer: &WrongAnswer, is_brief: bool, lang: Lang) -> [String; 2] {
    match answer {
        WrongAnswer::Class { truth, answer, .. } => [truth, answer].map(|label| show_controls(label)),
        WrongAnswer::Label { label, missed, .. } => [show_controls(label), label_error_name(*missed, lang).into()],
        WrongAnswer::Number { truth, score, .. } if is_brief => {
            let way = match score > truth {
                true => lang.pick("too high", "高すぎる"),
                false => lang.pick("too low", "低すぎる"),
            };
            [String::new(), way.into()]
        }
        WrongAnswer::Number { truth, score, .. } => [truth.to_string(), score.to_string()],
        _ => Default::default(),
    }
}

/// Names the error of a label: missed or wrongly assigned.
fn label_error_name(missed: bool, lang: Lang) -> &'static str {
    match missed {
        true => lang.pick("missed", "付け忘れ"),
        false => lang.pick("extra", "余分"),
    }
}

/// Joins the true value and the answer with a separator.
fn joined_pair([truth, answer]: &[String; 2], kind: ErrorKind) -> String {
    match kind {
        ErrorKind::Labels => format!("{truth}: {answer}"),
        _ if truth.is_empty() => answer.clone(),
        _ => format!("{truth} → {answer}"),
    }
}

/// States the model's confidence in an error; for a number, its interval and the error relative to it.
fn confidence_text(answer: &WrongAnswer, lang: Lang) -> String {
    match answer {
        WrongAnswer::Class { probability, .. } | WrongAnswer::Label { probability, .. } => {
            format!("{:.1} %", 100.0 * probability)
        }
        WrongAnswer::Number { low, high, off, .. } => match lang {
            Lang::En => format!("{low} to {high}; error {off:.1} × the longer side"),
            Lang::Ja => format!("{low}〜{high}、誤差は長いほうの片側の {off:.1} 倍"),
        },
        _ => String::new(),
    }
}

/// Counts the pairs of true value and answer among some errors, most frequent first.
fn confusion_counts(errors: &ErrorAnalysis, own: &[usize], lang: Lang) -> Vec<([String; 2], usize)> {
    let mut found: Vec<([String; 2], usize)> = Vec::new();
    for error in own.iter().map(|&i| &errors.errors[i]) {
        let pair = truth_and_answer(&error.answer, true, lang);
        match found.iter_mut().find(|(other, _)| *other == pair) {
            Some((_, count)) => *count += 1,
            None => found.push((pair, 1)),
        }
    }
    found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    found
}

/// The share of a class's rows that were predicted as another class.
fn error_rate(confusion: &Confusion) -> f32 {
    confusion.rows as f32 / confusion.of.max(1) as f32
}
