//! `chumoku explain --errors`: what a predictor gets wrong, the surest first, by the words that caused it.

use super::model::LeftOut;
use crate::args::{Explain, Reading};
use crate::commands::columns::{asked_of, tell_of};
use crate::commands::pictures::{Outcome, terminal_options};
use crate::commands::train::{labels, score};
use crate::commands::{load, model_name, pairs, read_options};
use crate::progress::tell;
use crate::{ExitCode, Usage};
use chumoku::answers::Predictor;
use chumoku::data::{Example, LabelledText, ReadOptions, ScoredText, load_labelled};
use chumoku::explain::shorten;
use chumoku::{Lang, ModelKind, Unread, tr};
use chumoku_view::{errors_to_html, render_errors};
use std::io::{Write, stdout};
use std::path::Path;

pub(super) fn run(args: &Explain, file: Option<&Path>, lang: Lang) -> anyhow::Result<ExitCode> {
    let Some(file) = file else {
        let problem = tr!(
            "--errors: name a file of labelled rows, as `chumoku explain {} --errors test.csv`; a model's folder does not hold the \
             rows it was tested on",
            "--errors: ラベルの付いたファイルを `chumoku explain {} --errors test.csv` のように指定してください。モデルのフォルダには評価に\
             使った行が含まれていません",
            args.model.display()
        );
        return Err(Usage(problem).into());
    };
    let (name, top) = (model_name(&args.model), args.of_errors.top());
    let mut progress = LeftOut::of_errors();
    let mut told = |done, all| progress.show(done, all);
    let (model, method) = (with_answers(args)?, args.method.into());
    let errors = if model.has_several() {
        let rows = labelled(args, file, model)?;
        match model {
            Predictor::Ngrams(model) => model.label_errors(&rows, &name, top, &mut told)?,
            Predictor::Classifier(model) => model.label_errors(&rows, &name, top, method, &mut told)?,
        }
    } else if model.tells_numbers() {
        let rows = numbered(args, file, model)?;
        match model {
            Predictor::Ngrams(model) => model.number_errors(&rows, &name, top, &mut told)?,
            Predictor::Classifier(model) => model.number_errors(&rows, &name, top, method, &mut told)?,
        }
    } else {
        let rows = classes(args, file, model)?;
        match model {
            Predictor::Ngrams(model) => model.errors(&rows, &name, top, &mut told)?,
            Predictor::Classifier(model) => model.errors(&rows, &name, top, method, &mut told)?,
        }
    };
    let json = || shorten(serde_json::to_value(&errors).expect("plain data"));
    let mut outcome = Outcome::default();
    if let Some(path) = &args.html {
        outcome.write(path, || Ok(errors_to_html(&errors, lang)));
    }
    match &args.json {
        Some(path) if path.is_standard_output() => writeln!(stdout(), "{}", json())?,
        other => {
            if let Some(path) = other {
                outcome.write(path, || Ok(format!("{}\n", json())));
            }
            write!(stdout(), "{}", render_errors(&errors, &terminal_options(lang)))?;
        }
    }
    outcome.say();
    outcome.result()?;
    Ok(ExitCode::SUCCESS)
}

/// The model, which tells classes, labels or numbers.
fn with_answers(args: &Explain) -> anyhow::Result<Predictor<'static>> {
    Ok(match ModelKind::of(&args.model)? {
        ModelKind::Ngrams => Predictor::Ngrams(load::ngrams(&args.model, args.precision)?),
        ModelKind::Classifier => Predictor::Classifier(load::classifier(&args.model, args.precision)?),
        kind => {
            let what = kind.describe();
            return Err(Usage(tr!(
                "--errors: for models that tell classes, labels or numbers; this model is {what}. `chumoku eval` has the scores of its \
                 answers",
                "--errors: クラス、複数のラベル、数値を答えるモデルで使えます。このモデルは{what}です。予測の評価は `chumoku eval` で\
                 表示できます"
            ))
            .into());
        }
    })
}

/// How the file is read, with the columns that the model reads.
fn options_of(args: &Explain, model: Predictor<'_>, require_label: bool) -> anyhow::Result<ReadOptions> {
    let reading = Reading { beside: asked_of(model.columns(), &args.set)?, ..args.reading.clone() };
    let mut options = read_options(&reading, require_label)?;
    options.merge_into(model.labels());
    Ok(options)
}

/// Refuses rows that are pairs where the model reads texts, or the other way round, and says which values of columns cannot be read.
fn check<'a>(model: Predictor<'_>, texts: impl Iterator<Item = &'a str>) -> anyhow::Result<()> {
    let texts: Vec<&str> = texts.collect();
    pairs::check_rows(model.reads_pairs(), pairs::is_pair(texts.first().copied()))?;
    let mut unread = Unread::of(model.columns());
    unread.see(&texts);
    tell_of(&unread);
    Ok(())
}

/// The rows of a file with a class each, all of classes that the model knows.
fn classes(args: &Explain, file: &Path, model: Predictor<'_>) -> anyhow::Result<Vec<Example>> {
    let mut dataset = load_labelled(file, &options_of(args, model, true)?)?;
    tell(["data", "データ"], &dataset.description);
    if dataset.skipped.count > 0 {
        tell(["skipped", "除外"], &dataset.skipped.to_string());
    }
    if let Some(tree) = model.hierarchy() {
        dataset.examples.iter_mut().for_each(|example| example.label = tree.tidy(&example.label));
    }
    check(model, dataset.examples.iter().map(|example| example.text.as_str()))?;
    dataset.check_known_labels(model.labels())?;
    Ok(dataset.examples)
}

/// The rows of a file with any number of labels each, all of which the model knows, with those above them in a tree.
fn labelled(args: &Explain, file: &Path, model: Predictor<'_>) -> anyhow::Result<Vec<LabelledText>> {
    let mut sets =
        labels::load(file, &options_of(args, model, false)?, &args.of_errors.several.options_like(&args.reading))?;
    if let Some(tree) = model.tree_of_labels() {
        for example in &mut sets.examples {
            example.labels.iter_mut().for_each(|label| *label = tree.tidy(label));
        }
    }
    check(model, sets.examples.iter().map(|example| example.text.as_str()))?;
    sets.check_known_labels(model.labels())?;
    if let Some(tree) = model.tree_of_labels() {
        sets.examples.iter_mut().for_each(|example| example.labels = tree.complete(&example.labels));
    }
    Ok(sets.examples)
}

/// The rows of a file with a number each.
fn numbered(args: &Explain, file: &Path, model: Predictor<'_>) -> anyhow::Result<Vec<ScoredText>> {
    let scores = score::load(file, &options_of(args, model, false)?)?;
    check(model, scores.examples.iter().map(|example| example.text.as_str()))?;
    Ok(scores.examples)
}
