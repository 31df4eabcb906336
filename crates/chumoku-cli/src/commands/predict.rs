//! `chumoku predict`: the class, labels or number of texts given, or of every row of a file or of standard input, as a stream.

use super::stream::{Form, Given, stream};
use super::{columns, load, pairs};
use crate::ExitCode;
use crate::args::{Predict, Reading};
use crate::progress::tell;
use crate::{Usage, harmless, threads};
use chumoku::data::Source;
use chumoku::hierarchy::Hierarchy;
use chumoku::lang::lang;
use chumoku::{
    Caution, Estimate, ModelKind, NgramClassifier, Prediction, SideColumn, Step, SureLevels, TextClassifier, level_of,
    pair, tr,
};
use serde_json::{Map, Value, json};
use std::io::{Write, stdout};

/// Between the labels of a row, in a column: what `chumoku train --separator` takes.
const SEPARATOR: &str = "|";

/// What a number has, in JSON and in columns.
const NUMBER: [&str; 3] = ["score", "low", "high"];

/// When a class is not answered.
struct Bounds {
    /// The least confidence of a class; of a tree of classes, what counts are its levels.
    confidence: f32,
    /// Where classes stand in a tree, from which confidence on answers are given down to each level.
    steps: Vec<Option<Step>>,
    /// The least share of known n-grams.
    least_known: f32,
}

impl Bounds {
    /// Those at which this share of the answers is right.
    fn of(model: &Model, level: f64) -> anyhow::Result<Bounds> {
        let is_one_class = !model.has_several() && !model.tells_numbers();
        let Some(caution) = model.caution().filter(|_| is_one_class) else {
            let problem = match is_one_class {
                false => tr!(
                    "--abstain: only for models that give each text one class; labels have thresholds of their own, and numbers intervals",
                    "--abstain: テキストごとに 1 つのクラスを答えるモデルだけで使えます。複数のラベルにはしきい値が、数値には区間があります"
                ),
                true => tr!(
                    "--abstain: this folder does not say how sure the model was of validation rows: train it again, with validation rows",
                    "--abstain: 検証データでの確信度がこのフォルダにありません。検証データのある学習をやり直してください"
                ),
            };
            return Err(Usage(problem).into());
        };
        let (rows, percent) = (caution.rows, 100.0 * level);
        let least_known = caution.least_known.unwrap_or(f32::NEG_INFINITY);
        let steps = caution.level_steps(level);
        if steps.iter().any(Option::is_some) {
            tell(["answers", "回答"], &of_levels(caution, &steps));
            return Ok(Bounds { confidence: f32::INFINITY, steps, least_known });
        }
        let Some(step) = caution.step(level) else {
            let problem = tr!(
                "--abstain {level}: none of the {rows} validation rows allow to promise that {percent} % of the answers are right: ask \
                 for less, or train with more validation rows",
                "--abstain {level}: {rows} 行の検証データからは、答えの {percent} % が正しいとは約束できません。値を下げるか、検証データを\
                 増やして学習してください"
            );
            return Err(Usage(problem).into());
        };
        let covers = 100.0 * step.answered as f64 / rows as f64;
        let wrong = 100.0 * step.wrong as f64 / step.answered as f64;
        let sure = 100.0 * step.confidence;
        tell(
            ["answers", "回答"],
            &tr!(
                "from a probability of {sure:.1} % on: {covers:.1} % of the {rows} validation rows, {wrong:.1} % of them wrong",
                "確率 {sure:.1} % 以上: 検証データ {rows} 行の {covers:.1} %、そのうち誤りは {wrong:.1} %"
            ),
        );
        Ok(Bounds { confidence: step.confidence, steps, least_known })
    }

    /// How far a text is answered.
    fn verdict(&self, model: &Model, text: &str, prediction: &Prediction) -> Verdict {
        if model.known_share(text).is_some_and(|known| known < self.least_known) {
            return Verdict::Not(Objection::Unlike);
        }
        let class = prediction.class();
        if let (Some(tree), false) = (model.hierarchy(), self.steps.is_empty()) {
            let level = level_of(&tree.sureness(&prediction.probabilities, class), &self.steps);
            return level.map_or(Verdict::Not(Objection::Unsure), Verdict::Down);
        }
        match prediction.probabilities[class] < self.confidence {
            true => Verdict::Not(Objection::Unsure),
            false => Verdict::Whole,
        }
    }
}

/// From where on answers are given, in a sentence.
fn of_levels(caution: &Caution, steps: &[Option<Step>]) -> String {
    let of_level = |(at, step): (usize, &Option<Step>)| {
        let (level, sure) = (at + 1, 100.0 * step.as_ref()?.confidence);
        Some(match level == steps.len() {
            true => tr!("whole paths from {sure:.1} % on", "パス全体は確率 {sure:.1} % 以上"),
            false => tr!("down to level {level} from {sure:.1} % on", "{level} 段目までは確率 {sure:.1} % 以上"),
        })
    };
    let said: Vec<String> = steps.iter().enumerate().rev().filter_map(of_level).collect();
    let answered = caution.levels.iter().filter(|SureLevels(sure, _)| level_of(sure, steps).is_some()).count();
    let (said, rows) = (said.join(lang().pick(", ", "、")), caution.levels.len());
    let covers = 100.0 * answered as f64 / rows.max(1) as f64;
    tr!("{said}: {covers:.1} % of the {rows} validation rows", "{said}: 検証データ {rows} 行の {covers:.1} %")
}

/// How far a text is answered.
#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    /// As it is.
    Whole,
    /// Down to this level of the tree, from 1.
    Down(usize),
    /// Not at all.
    Not(Objection),
}

impl Verdict {
    fn objection(self) -> Option<Objection> {
        match self {
            Verdict::Not(objection) => Some(objection),
            Verdict::Whole | Verdict::Down(_) => None,
        }
    }
}

/// Why a text is not answered.
#[derive(Clone, Copy, PartialEq)]
enum Objection {
    /// The probability is too low.
    Unsure,
    /// The text is unlike those of training.
    Unlike,
}

impl Objection {
    fn name(self) -> &'static str {
        match self {
            Objection::Unsure => "unsure",
            Objection::Unlike => "unlike_training",
        }
    }
}

/// What predicts classes, labels or numbers.
enum Model {
    Classifier(&'static TextClassifier),
    Ngrams(&'static NgramClassifier),
}

impl Model {
    fn load(args: &Predict) -> anyhow::Result<Model> {
        let (folder, precision, asked) = (&args.model, args.precision, &args.thresholds);
        Ok(match ModelKind::of(folder)? {
            ModelKind::Ngrams => Model::Ngrams(load::ngrams_at(folder, precision, asked)?),
            // Says what is wrong with a model of another kind.
            _ => Model::Classifier(load::classifier_at(folder, precision, asked)?),
        })
    }

    fn labels(&self) -> &[String] {
        match self {
            Model::Classifier(model) => model.labels(),
            Model::Ngrams(model) => model.labels(),
        }
    }

    /// Whether texts are pairs.
    fn reads_pairs(&self) -> bool {
        match self {
            Model::Classifier(model) => model.config().reads_pairs(),
            Model::Ngrams(model) => model.config().reads_pairs(),
        }
    }

    /// The columns beside the text that it reads.
    fn columns(&self) -> &[SideColumn] {
        match self {
            Model::Classifier(model) => model.config().columns(),
            Model::Ngrams(model) => model.columns(),
        }
    }

    /// Whether a text may have several labels.
    fn has_several(&self) -> bool {
        matches!(self, Model::Classifier(model) if model.config().problem.labels().is_some())
    }

    /// The number, where that is what the model tells.
    fn estimate(&self, prediction: &Prediction) -> Option<Estimate> {
        match self {
            Model::Classifier(model) => model.estimate(prediction),
            Model::Ngrams(_) => None,
        }
    }

    fn caution(&self) -> Option<&Caution> {
        match self {
            Model::Classifier(model) => model.config().caution.as_ref(),
            Model::Ngrams(model) => model.config().caution.as_ref(),
        }
    }

    /// The tree that classes stand in, if they do.
    fn hierarchy(&self) -> Option<&Hierarchy> {
        match self {
            Model::Classifier(model) => model.config().tree(),
            Model::Ngrams(model) => model.config().hierarchy.as_ref(),
        }
    }

    /// The nodes down to the class that is the answer, as far as it is answered; nothing without a tree.
    fn levels(&self, prediction: &Prediction, verdict: Option<Verdict>) -> Vec<(&str, f32)> {
        let Some(tree) = self.hierarchy() else { return Vec::new() };
        let mut levels = tree.levels(&prediction.probabilities, prediction.class());
        match verdict {
            Some(Verdict::Down(level)) => levels.truncate(level),
            Some(Verdict::Not(_)) => levels.clear(),
            Some(Verdict::Whole) | None => {}
        }
        levels
    }

    /// What is answered, with its probability: the class, or the node above it that is sure. What is not answered has the
    /// probability that was too low.
    fn told<'a>(&'a self, prediction: &Prediction, verdict: Option<Verdict>) -> (&'a str, f32) {
        let class = prediction.class();
        let whole = (self.labels()[class].as_str(), prediction.probabilities[class]);
        let level = match (self.hierarchy(), verdict) {
            (Some(_), Some(Verdict::Down(level))) => level,
            (Some(_), Some(Verdict::Not(_))) => 1,
            _ => return whole,
        };
        let Some(tree) = self.hierarchy() else { return whole };
        // Below the end of its path it is the class itself.
        tree.levels(&prediction.probabilities, class).get(level - 1).copied().unwrap_or(whole)
    }

    /// The share of a text's n-grams that the model knows.
    fn known_share(&self, text: &str) -> Option<f32> {
        match self {
            Model::Classifier(model) => model.known_share(text),
            Model::Ngrams(model) => Some(model.known_share(text)),
        }
    }

    /// Whether texts get numbers.
    fn tells_numbers(&self) -> bool {
        matches!(self, Model::Classifier(model) if model.config().problem.number().is_some())
    }

    /// The classes or labels that are the answer, the most probable first: those that are predicted, or so many as were asked
    /// for.
    fn answer<'a>(&'a self, prediction: &Prediction, top: Option<usize>) -> Vec<(&'a str, f32)> {
        let found = match (self, top) {
            (_, Some(n)) => prediction.ranked().into_iter().take(n).collect(),
            (Model::Classifier(model), None) => model.predicted(prediction),
            (Model::Ngrams(_), None) => vec![prediction.class()],
        };
        found.into_iter().map(|class| (self.labels()[class].as_str(), prediction.probabilities[class])).collect()
    }

    fn predict(&self, texts: &[&str]) -> chumoku::Result<Vec<Prediction>> {
        match self {
            Model::Classifier(model) => model.predict(texts),
            Model::Ngrams(model) => model.predict(texts),
        }
    }
}

pub(crate) fn run(args: &Predict) -> anyhow::Result<ExitCode> {
    threads::start(args.threads)?;
    if ModelKind::of(&args.model)? == ModelKind::Tagger {
        columns::asked_of(&[], &args.set)?;
        return super::tagged::predict(args);
    }
    if args.html.is_some() {
        let problem = tr!(
            "--html: only models that mark spans have such a page; chumoku explain --html shows the answers of others",
            "--html: このページを書けるのは、スパンを示すモデルだけです。ほかのモデルの答えは chumoku explain --html で表示できます"
        );
        return Err(Usage(problem).into());
    }
    let model = Model::load(args)?;
    if args.top.is_some() && model.tells_numbers() {
        let problem = tr!(
            "--top: this model gives each text a number and no classes; leave it out",
            "--top: このモデルが答えるのはクラスではなく数値です。指定を外してください"
        );
        return Err(Usage(problem).into());
    }
    let bounds = args.abstain.map(|level| Bounds::of(&model, level)).transpose()?;
    let reads_pairs = model.reads_pairs();
    let reading = Reading { beside: columns::asked_of(model.columns(), &args.set)?, ..args.reading.clone() };
    let texts = match Given::of("predict", args.input.as_deref(), &args.texts, &reading, reads_pairs)? {
        Given::Rows(source) => return rows(args, &model, bounds.as_ref(), *source),
        Given::Texts(texts) => columns::beside(pairs::of_arguments(texts, reads_pairs)?, model.columns(), &args.set)?,
    };
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut out = stdout().lock();
    for (text, prediction) in texts.iter().zip(model.predict(&texts)?) {
        let verdict = bounds.as_ref().map(|bounds| bounds.verdict(&model, text, &prediction));
        if args.json {
            writeln!(out, "{}", Value::Object(object(text, &model, &prediction, (args.top, verdict))))?;
        } else if let Some(objection) = verdict.and_then(Verdict::objection) {
            let said = match objection {
                Objection::Unsure => tr!("(not sure)", "（確信なし）"),
                Objection::Unlike => tr!("(unlike the training texts)", "（学習データと似ていない）"),
            };
            let p = 100.0 * model.told(&prediction, verdict).1;
            writeln!(out, "{said}\t{p:.1} %\t{}", harmless(&pair::shown(text)))?;
        } else if let (Some(Verdict::Down(_)), None) = (verdict, args.top) {
            let (label, p) = model.told(&prediction, verdict);
            writeln!(out, "{}\t{:.1} %\t{}", harmless(label), 100.0 * p, harmless(&pair::shown(text)))?;
        } else if let Some(estimate) = model.estimate(&prediction) {
            let [score, low, high] = estimate.rounded().map(|x| x.to_string());
            let interval = tr!("{low} to {high}", "{low}〜{high}");
            writeln!(out, "{score}\t{interval}\t{}", harmless(&pair::shown(text)))?;
        } else {
            let answer = model.answer(&prediction, args.top).into_iter();
            let mut line: Vec<String> =
                answer.map(|(label, p)| format!("{}\t{:.1} %", harmless(label), 100.0 * p)).collect();
            if line.is_empty() {
                line.push(tr!("(no label)\t", "（ラベルなし）\t"));
            }
            writeln!(out, "{}\t{}", line.join("\t"), harmless(&pair::shown(text)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A probability with as many digits as it is worth.
fn rounded(p: f32) -> Value {
    json!((f64::from(p) * 1e6).round() / 1e6)
}

/// The answer of `--json` to a text, the same wherever the text came from; `asked` if so many classes are asked for, and with
/// --abstain how far it is answered.
fn object(
    text: &str,
    model: &Model,
    prediction: &Prediction,
    (asked, verdict): (Option<usize>, Option<Verdict>),
) -> Map<String, Value> {
    let class = |(label, p): (&str, f32)| json!({ "label": label, "probability": rounded(p) });
    let mut object = Map::new();
    pairs::put(&mut object, text);
    if let Some(estimate) = model.estimate(prediction) {
        object.extend(NUMBER.into_iter().zip(estimate.rounded()).map(|(key, x)| (key.to_owned(), json!(x))));
        return object;
    }
    if model.has_several() {
        object.insert("labels".into(), model.answer(prediction, asked).into_iter().map(class).collect());
        return object;
    }
    let (label, probability) = model.told(prediction, verdict);
    let objection = verdict.map(Verdict::objection);
    object.insert("label".into(), if objection.flatten().is_some() { Value::Null } else { label.into() });
    object.insert("probability".into(), rounded(probability));
    if model.hierarchy().is_some() {
        object.insert("levels".into(), model.levels(prediction, verdict).into_iter().map(class).collect());
    }
    if let Some(objection) = objection {
        object.insert("abstained".into(), objection.is_some().into());
        objection.into_iter().for_each(|why| drop(object.insert("why".into(), why.name().into())));
    }
    if let Some(n) = asked {
        object.insert("top".into(), model.answer(prediction, Some(n)).into_iter().map(class).collect());
    }
    object
}

/// The same for a row without an answer, its text aside.
fn unanswered(model: &Model, asked: Option<usize>) -> Map<String, Value> {
    if model.tells_numbers() {
        return NUMBER.into_iter().map(|key| (key.to_owned(), Value::Null)).collect();
    }
    if model.has_several() {
        return Map::from_iter([("labels".to_owned(), Value::Null)]);
    }
    let keys = ["label", "probability"].into_iter().map(|key| (key.to_owned(), Value::Null));
    let levels = model.hierarchy().map(|_| ("levels".to_owned(), json!([])));
    keys.chain(levels).chain(asked.map(|_| ("top".to_owned(), json!([])))).collect()
}

/// The rows of a source, each with its label.
fn rows(args: &Predict, model: &Model, bounds: Option<&Bounds>, source: Source) -> anyhow::Result<ExitCode> {
    let mut unread = columns::Unread::of(model.columns());
    let ended = answered(args, model, bounds, source, &mut |texts| {
        unread.see(texts);
        model.predict(texts)
    });
    unread.tell();
    ended
}

/// The rows of a source with what `predict` says of them.
fn answered(
    args: &Predict,
    model: &Model,
    bounds: Option<&Bounds>,
    source: Source,
    predict: &mut dyn FnMut(&[&str]) -> chumoku::Result<Vec<Prediction>>,
) -> anyhow::Result<ExitCode> {
    if args.json {
        let form = Form::Objects { unanswered: unanswered(model, args.top) };
        return stream(source, form, args.strict, |texts| {
            let predictions = predict(texts)?;
            let answers = texts.iter().zip(&predictions);
            let answer = |(text, prediction): (&&str, &Prediction)| {
                let verdict = bounds.map(|bounds| bounds.verdict(model, text, prediction));
                vec![object(text, model, prediction, (args.top, verdict)).into()]
            };
            Ok(answers.map(answer).collect())
        });
    }
    if model.tells_numbers() {
        return stream(source, Form::Columns { names: &NUMBER, bom: args.bom }, args.strict, |texts| {
            let numbers = |p: &Prediction| {
                model.estimate(p).map(|estimate| estimate.rounded().map(Value::from).to_vec()).unwrap_or_default()
            };
            Ok(predict(texts)?.iter().map(numbers).collect())
        });
    }
    if model.has_several() && args.top.is_none() {
        return stream(source, Form::Columns { names: &["labels"], bom: args.bom }, args.strict, |texts| {
            let joined = |prediction: &Prediction| {
                let names: Vec<&str> = model.answer(prediction, None).into_iter().map(|(label, _)| label).collect();
                vec![Value::from(names.join(SEPARATOR))]
            };
            Ok(predict(texts)?.iter().map(joined).collect())
        });
    }
    if let Some(bounds) = bounds {
        let names = ["label", "probability", "abstained"];
        return stream(source, Form::Columns { names: &names, bom: args.bom }, args.strict, |texts| {
            let predictions = predict(texts)?;
            let added = |(text, prediction): (&&str, &Prediction)| {
                let verdict = bounds.verdict(model, text, prediction);
                let (told, probability) = model.told(prediction, Some(verdict));
                let objection = verdict.objection();
                let label = if objection.is_some() { "" } else { told };
                vec![Value::from(label), rounded(probability), objection.map_or("", Objection::name).into()]
            };
            Ok(texts.iter().zip(&predictions).map(added).collect())
        });
    }
    let n = args.top.unwrap_or(1).min(model.labels().len());
    let names: Vec<String> = (1..=n)
        .flat_map(|i| {
            let suffix = if i == 1 { String::new() } else { format!("_{i}") };
            [format!("label{suffix}"), format!("probability{suffix}")]
        })
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    stream(source, Form::Columns { names: &names, bom: args.bom }, args.strict, |texts| {
        let predictions = predict(texts)?;
        let added = |prediction: &Prediction| {
            let top = model.answer(prediction, args.top).into_iter();
            top.flat_map(|(label, p)| [Value::from(label), rounded(p)]).collect()
        };
        Ok(predictions.iter().map(added).collect())
    })
}
