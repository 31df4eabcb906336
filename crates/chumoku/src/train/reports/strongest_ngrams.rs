//! The strongest n-grams of each class, as text: a model folder has only their hashes.

use crate::lang::{escape_markdown, sanitize};
use crate::ngram::{NgramModel, NgramTarget, label_ids_of};
use crate::row::{AsRow, Row, RowRef};
use crate::train::data::training_data::TrainingData;
use crate::{stage_timer, tr};
use serde_json::{Map, Value, json};

/// The number of n-grams per class.
const NGRAMS_PER_CLASS: usize = 10;

/// The maximum number of training texts to search.
const MAX_TEXTS: usize = 10_000;

/// Returns the strongest n-grams of each class or label in its training texts. The strength of an n-gram is its mean
/// contribution to the score of the class, minus its mean contribution to the other classes.
pub(crate) fn strongest_ngrams<A: NgramTarget>(model: Option<&NgramModel>, data: &TrainingData<A>) -> Value {
    model.map_or(Value::Null, |model| {
        by_class(model, &data.labels, &data.train.texts, &label_ids_of(&data.train.labels))
    })
}

fn by_class(model: &NgramModel, labels: &[String], texts: &[Row], answers: &[&[u32]]) -> Value {
    let _stage = stage_timer::begin(stage_timer::REPORT);
    let of_class = |found: Vec<(String, f32)>| -> Value {
        found.into_iter().map(|(ngram, strength)| json!({ "ngram": ngram, "strength": strength })).collect()
    };
    let step = texts.len().div_ceil(MAX_TEXTS).max(1);
    let (texts, answers): (Vec<RowRef<'_>>, Vec<&[u32]>) =
        texts.iter().map(AsRow::as_row).zip(answers.iter().copied()).step_by(step).unzip();
    let all = model.strongest_ngrams(&texts, &answers, NGRAMS_PER_CLASS).into_iter().map(of_class);
    Value::Object(labels.iter().cloned().zip(all).collect::<Map<_, _>>())
}

/// The section of the model card.
pub(crate) fn strongest_section(strongest: &Value) -> String {
    let mut out = String::new();
    for (label, ngrams) in strongest.as_object().into_iter().flatten() {
        let names = ngrams.as_array().into_iter().flatten().filter_map(|of| of["ngram"].as_str());
        // Backticks and pipes cannot be escaped within backticks.
        let plain = |name: &str| sanitize(&name.replace(['`', '|'], "")).trim().to_owned();
        let names = names.map(plain).filter(|name| !name.is_empty());
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        out += &format!("| {} | {} |\n", escape_markdown(label), names.join(" "));
    }
    if out.is_empty() {
        return out;
    }
    tr!(
        "\n## Strongest n-grams of each class\n\nThe n-gram model weighs these n-grams most (`_` is the end of a \
         word):\n\n| class | n-grams |\n|---|---|\n{out}",
        "\n## 各クラスの手がかり\n\nn-gram モデルで最も強い n-gram です（`_` は語の終わり）。\n\n| クラス | n-gram |\n|---|---|\n{out}"
    )
}
