//! The n-grams that speak most for each class, by name: a model folder has only their hashes.

use super::TrainingData;
use crate::lang::{escape_markdown, sanitize};
use crate::ngram::{NgramModel, NgramTarget, label_ids_of};
use crate::{stages, tr};
use serde_json::{Map, Value, json};

/// N-grams of each class.
const NGRAMS_PER_CLASS: usize = 10;

/// Training texts that are looked at, at most.
const MAX_TEXTS: usize = 10_000;

/// For each class or label, the n-grams that speak most for it in its training texts: what the n-gram model adds to its score for
/// them on average there, less the mean of what it adds to the others.
pub(super) fn strongest_ngrams<A: NgramTarget>(model: Option<&NgramModel>, data: &TrainingData<A>) -> Value {
    model.map_or(Value::Null, |model| {
        by_class(model, &data.labels, &data.train.texts, &label_ids_of(&data.train.labels))
    })
}

fn by_class(model: &NgramModel, labels: &[String], texts: &[String], answers: &[&[u32]]) -> Value {
    let _stage = stages::begin(stages::REPORT);
    let of_class = |found: Vec<(String, f32)>| -> Value {
        found.into_iter().map(|(ngram, strength)| json!({ "ngram": ngram, "strength": strength })).collect()
    };
    let step = texts.len().div_ceil(MAX_TEXTS).max(1);
    let (texts, answers): (Vec<&str>, Vec<&[u32]>) =
        texts.iter().map(String::as_str).zip(answers.iter().copied()).step_by(step).unzip();
    let all = model.strongest_ngrams(&texts, &answers, NGRAMS_PER_CLASS).into_iter().map(of_class);
    Value::Object(labels.iter().cloned().zip(all).collect::<Map<_, _>>())
}

/// The section of the model card.
pub(super) fn strongest_section(strongest: &Value) -> String {
    let mut out = String::new();
    for (label, ngrams) in strongest.as_object().into_iter().flatten() {
        let names = ngrams.as_array().into_iter().flatten().filter_map(|of| of["ngram"].as_str());
        // Within backticks nothing can be escaped.
        let plain = |name: &str| sanitize(&name.replace(['`', '|'], "")).trim().to_owned();
        let names = names.map(plain).filter(|name| !name.is_empty());
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        out += &format!("| {} | {} |\n", escape_markdown(label), names.join(" "));
    }
    if out.is_empty() {
        return out;
    }
    tr!(
        "\n## What speaks for each class\n\nThe strongest n-grams of the n-gram model (`_` is the end of a word):\n\n| class | n-grams |\n|---|---|\n{out}",
        "\n## 各クラスの手がかり\n\nn-gram モデルで最も強い n-gram です（`_` は語の終わり）。\n\n| クラス | n-gram |\n|---|---|\n{out}"
    )
}
