//! What a predictor gets wrong, for people to read: the surest errors, grouped by the words that caused them.
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

/// Confusions that are named in a list.
const MAX_CONFUSIONS: usize = 10;

/// How many rows are wrong.
fn accuracy_sentence(errors: &ErrorAnalysis, lang: Lang) -> String {
    let (wrong, rows, accuracy) = (errors.wrong, errors.rows, 100.0 * errors.accuracy);
    match (errors.kind, lang) {
        (ErrorKind::Labels, Lang::En) => {
            format!("{wrong} of {rows} rows have other labels than their own: {accuracy:.1} % are right.")
        }
        (ErrorKind::Labels, Lang::Ja) => {
            format!("{rows} 行中 {wrong} 行でラベルが一致しません（完全一致 {accuracy:.1} %）。")
        }
        (ErrorKind::Numbers, Lang::En) => {
            format!("{wrong} of {rows} true numbers lie outside of their intervals: {accuracy:.1} % lie inside.")
        }
        (ErrorKind::Numbers, Lang::Ja) => {
            format!("{rows} 行中 {wrong} 行で真の値が区間の外です（区間内 {accuracy:.1} %）。")
        }
        (_, Lang::En) if rows == 1 => format!("{wrong} of 1 row is wrong."),
        (_, Lang::En) => format!("{wrong} of {rows} rows are wrong: accuracy {accuracy:.1} %."),
        (_, Lang::Ja) => format!("{rows} 行中 {wrong} 行が誤り（正解率 {accuracy:.1} %）。"),
    }
}

/// What is shown, and how effects were found.
fn method_sentence(errors: &ErrorAnalysis, lang: Lang) -> String {
    let (shown, method, unit) =
        (errors.errors.len(), translate_phrase(lang, &errors.method), translate_phrase(lang, &errors.unit));
    let mut said = match (errors.kind, lang) {
        (ErrorKind::Numbers, Lang::En) => format!(
            "The {shown} that are furthest off by their intervals, by the words that caused them: those whose effect away from the true \
             number is at least half of the strongest in their text. {method}: {unit}; +: away from the true number."
        ),
        (ErrorKind::Numbers, Lang::Ja) => format!(
            "区間の幅に比べて誤差の大きい {shown} 件を、原因となった語（予測を真の値から遠ざける影響が、そのテキストで最大の影響の半分以上の語）\
             ごとに示します。{method}：{unit}。＋は真の値から遠ざける語。"
        ),
        (_, Lang::En) => format!(
            "The {shown} surest, by the words that caused them: those whose effect towards the wrong answer is at least half of the \
             strongest in their text. {method}: {unit}; +: towards the wrong answer."
        ),
        (_, Lang::Ja) => format!(
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
fn group_heading(group: &ErrorGroup, lang: Lang) -> String {
    let (word, count) = (lang.quoted(&show_controls(&group.word)), group.errors.len());
    match lang {
        Lang::En => format!("{word}: {count} errors"),
        Lang::Ja => format!("{word}：{count} 件"),
    }
}

/// How many errors have no word in common with another.
fn ungrouped_heading(errors: &ErrorAnalysis, lang: Lang) -> String {
    let count = errors.alone.len();
    match lang {
        Lang::En if count == 1 => "Alone: 1 error".into(),
        Lang::En => format!("Alone: {count} errors"),
        Lang::Ja => format!("共通の語がないもの：{count} 件"),
    }
}

/// What is true and what was told, or of a label alone what is wrong with it; of a number the number, or where it `is_brief` which way it
/// is off.
fn truth_and_answer(told: &WrongAnswer, is_brief: bool, lang: Lang) -> [String; 2] {
    match told {
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

/// What is wrong with a label.
fn label_error_name(missed: bool, lang: Lang) -> &'static str {
    match missed {
        true => lang.pick("missed", "付け忘れ"),
        false => lang.pick("not there", "余分"),
    }
}

/// Both sides with what stands between them.
fn joined_pair([truth, answer]: &[String; 2], kind: ErrorKind) -> String {
    match kind {
        ErrorKind::Labels => format!("{truth}: {answer}"),
        _ if truth.is_empty() => answer.clone(),
        _ => format!("{truth} → {answer}"),
    }
}

/// How sure the model was of an error; of a number, its interval and how far it is off by that.
fn confidence_text(told: &WrongAnswer, lang: Lang) -> String {
    match told {
        WrongAnswer::Class { probability, .. } | WrongAnswer::Label { probability, .. } => {
            format!("{:.1} %", 100.0 * probability)
        }
        WrongAnswer::Number { low, high, off, .. } => match lang {
            Lang::En => format!("{low} to {high}; error {off:.1} × its longer side"),
            Lang::Ja => format!("{low}〜{high}、誤差は長いほうの片側の {off:.1} 倍"),
        },
        _ => String::new(),
    }
}

/// What is true and told of some errors, the most frequent first.
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

/// The share of a class's rows that were taken for another.
fn error_rate(confusion: &Confusion) -> f32 {
    confusion.rows as f32 / confusion.of.max(1) as f32
}
