//! Implements `chumoku explain --input --json -`: the effect of each word, for every row of a file.

use super::model::{AttentionModel, Explainer};
use crate::answers::row_output::RowAnswers;
use crate::answers::stream::{StreamOptions, open_rows, stream};
use crate::args::{ExplainArgs, Method, ReadArgs};
use crate::data::columns::required_columns;
use crate::models::{load, model_name};
use crate::{ExitCode, UsageError};
use chumoku::answers::{AnswerFormat, ModelInputs, insert_text};
use chumoku::explain::{InnerSteps, json_number, shorten_numbers};
use chumoku::row::RowRef;
use chumoku::{Estimate, ModelKind, NgramClassifier};
use chumoku_view::Explanation;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Number of n-grams per text, strongest first.
const MAX_NGRAMS: usize = 20;

/// The model that explains each row.
enum RowModel {
    Network(AttentionModel),
    Ngrams(&'static NgramClassifier),
}

/// Checks that the output is JSON on standard output, without pictures.
pub(super) fn check(args: &ExplainArgs) -> Result<(), UsageError> {
    refuse_if!(
        args.pictures.is_any_given() || args.json.as_ref().is_some_and(|path| !path.is_standard_output()),
        "--json with --input writes one object per row to standard output, and no pictures: give --json - alone",
        "--input と --json の組み合わせは、行ごとに 1 つのオブジェクトを標準出力に書き、図は描きません。--json - だけを指定してください"
    );
    Ok(())
}

/// Returns an explainer of rows, and the inputs of the model.
pub(super) fn row_explainer(args: &ExplainArgs) -> anyhow::Result<(RowAnswers<'static>, ModelInputs)> {
    check(args)?;
    let model = match ModelKind::from_folder(&args.model)? {
        ModelKind::Ngrams => RowModel::Ngrams(load::ngrams(&args.model, args.precision)?),
        ModelKind::Translator => {
            refuse!(
                "--input with --json: not available for translators; leave --json out to draw pictures, or give one text",
                "--input と --json: 訳文の説明は 1 文ずつか、図だけです。--json を外すか、テキストを 1 つ指定してください"
            );
        }
        _ => RowModel::Network(AttentionModel::load(&args.model, args.precision)?),
    };
    let reads_pairs = match &model {
        RowModel::Network(model) => model.reads_pairs(),
        RowModel::Ngrams(model) => model.config().reads_pairs(),
    };
    let columns = match &model {
        RowModel::Network(model) => model.columns(),
        RowModel::Ngrams(model) => model.columns(),
    };
    let reads = ModelInputs { pairs: reads_pairs, feature_columns: required_columns(columns, &args.set)? };
    let (name, label) = (model_name(&args.model), args.of_label.clone());
    let explainer = RowExplainer { model, name, method: args.method, label };
    let answer = move |rows: &[RowRef<'_>]| rows.iter().map(|row| Ok(vec![explainer.explain(*row)?])).collect();
    Ok((RowAnswers { form: AnswerFormat::objects(&["label", "words"]), answer: Box::new(answer) }, reads))
}

/// Prints one object per row, in the order of the file.
pub(super) fn run(args: &ExplainArgs, input: &Path) -> anyhow::Result<ExitCode> {
    let (answering, reads) = row_explainer(args)?;
    let reading = ReadArgs { feature_columns: reads.feature_columns, ..args.reading.clone() };
    stream(open_rows(input, &reading, reads.pairs)?, StreamOptions::new(answering.form), answering.answer)
}

/// Explains rows.
struct RowExplainer {
    model: RowModel,
    name: String,
    method: Method,
    /// The label to explain, for multi-label models.
    label: Option<String>,
}

impl RowExplainer {
    fn explain(&self, text: RowRef<'_>) -> anyhow::Result<Value> {
        let (name, method, label) = (&self.name, self.method, self.label.as_deref());
        match &self.model {
            RowModel::Network(model) => {
                let explainer = Explainer { model, target: None, name: name.clone(), method, label };
                Ok(object(text, &explainer.explain(text, &InnerSteps::NONE)?).into())
            }
            RowModel::Ngrams(model) => {
                let mut found = object(text, &model.explain_label(text, name, label)?);
                let mut effects = model.ngram_effects_on_label(text, label)?;
                effects.truncate(MAX_NGRAMS);
                found.insert("ngrams".into(), serde_json::to_value(effects)?);
                Ok(found.into())
            }
        }
    }
}

/// Returns the prediction and the effect of each word, without attention, which is large.
fn object(text: RowRef<'_>, e: &Explanation) -> Map<String, Value> {
    let mut found = Map::new();
    insert_text(&mut found, text);
    found.insert("label".into(), e.label.as_str().into());
    if let Some(p) = e.probabilities.iter().find(|p| p.label == e.label) {
        found.insert("probability".into(), json_number(p.probability));
    }
    if let Some([score, low, high]) = e.number.map(Estimate::rounded) {
        found.insert("number".into(), json!({ "score": score, "low": low, "high": high }));
    }
    let effect = |text: &str, own: f32, whole: Option<f32>| match whole {
        None => json!({ "text": text, "effect": json_number(own) }),
        Some(whole) => json!({ "text": text, "effect": json_number(own), "whole": json_number(whole) }),
    };
    let whole = e.attribution.whole.as_deref();
    let words = e.words.iter().zip(&e.attribution.scores).enumerate().filter(|(_, (word, _))| !word.special);
    let read = words.map(|(i, (word, &own))| effect(&word.text, own, whole.and_then(|whole| whole.get(i).copied())));
    // Words beyond those whose attention is shown.
    let beyond = e.attribution.beyond.iter().map(|word| effect(&word.text, word.score, word.whole));
    found.insert("words".into(), read.chain(beyond).collect());
    if !e.columns.is_empty() {
        found.insert(
            "columns".into(),
            shorten_numbers(serde_json::to_value(&e.columns).expect("columns are plain data")),
        );
    }
    found.insert("method".into(), e.attribution.method.as_str().into());
    found.insert("unit".into(), e.attribution.unit.as_str().into());
    if let Some(integral) = e.attribution.integral {
        found.insert(
            "integral".into(),
            shorten_numbers(serde_json::to_value(integral).expect("numbers are plain data")),
        );
    }
    found
}
