//! Training a classifier.

use super::{Session, check_watched, further, hierarchy, masked};
use crate::ExitCode;
use crate::args::{Model, Train};
use crate::commands::pictures::terminal_options;
use crate::commands::{quoted, read_options};
use crate::progress::tell;
use crate::{Usage, harmless, report};
use chumoku::ModelKind;
use chumoku::builtin;
use chumoku::data::thousands;
use chumoku::data::{Dataset, LabelOptions, ReadOptions, load_labelled};
use chumoku::lang::lang;
use chumoku::train::{
    Known, Outcome, Scores, Source, SourceData, TrainOptions, TrainingData, check_tune, network_name, train,
    train_ngram_classifier, tune, tune_ngrams,
};
use chumoku::{SideColumn, row, sorting, stages, tr};
use chumoku_view::render;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

pub(super) fn run(args: &Train, known: Option<&Known>, threads: usize) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let reading = stages::begin(stages::READING);
    let data = data(args, known)?;
    drop(reading);
    describe(&data);
    // Before there is a folder.
    args.class_weights.as_ref().map(|weights| weights.of(&data)).transpose()?;
    if args.tune.is_some() {
        check_tune(&data, &TrainOptions::default())?;
    }
    if args.model() == Model::Ngrams {
        return ngrams(args, &data, threads, start);
    }
    check_watched(args, &data)?;
    let texts = masked::texts(args, &data)?;
    let mut session = Session::new(args, ModelKind::Classifier, threads, start)?;
    if let Some(texts) = texts {
        let Some(base) = masked::base_of(&session, &texts, threads)? else { return Ok(session.interrupted()) };
        session.options.from = Some(base);
    }
    let trained = session.train(|training| match args.tune {
        Some(budget) => tune(&data, budget, training),
        None => train(&data, training),
    })?;
    let Some(outcome) = trained else { return Ok(session.interrupted()) };
    session.finish(outcome.interrupted, &outcome.metrics, |place| show(&data, &outcome, place, args.data.is_none()))
}

/// Refuses what only a network has.
pub(super) fn check_ngrams(args: &Train) -> Result<(), Usage> {
    if args.epochs.is_some() {
        let problem = tr!(
            "--epochs: an n-gram model is not trained in epochs; leave it out",
            "--epochs: n-gram モデルの学習にエポックはありません。指定を外してください"
        );
        return Err(Usage(problem));
    }
    if args.parts.is_some() {
        let problem = tr!(
            "--parts: an n-gram model is not trained in batches; leave it out",
            "--parts: n-gram モデルの学習にバッチはありません。指定を外してください"
        );
        return Err(Usage(problem));
    }
    Ok(())
}

/// Trains the n-gram model alone.
fn ngrams(args: &Train, data: &TrainingData, threads: usize, start: Instant) -> anyhow::Result<ExitCode> {
    check_ngrams(args)?;
    let session = Session::new(args, ModelKind::Ngrams, threads, start)?;
    let trained = session.train(|training| match args.tune {
        Some(budget) => tune_ngrams(data, budget, training),
        None => train_ngram_classifier(data, training),
    })?;
    let Some(outcome) = trained else { return Ok(session.interrupted()) };
    session.finish(false, &outcome.metrics, |place| {
        let mut out = std::io::stdout().lock();
        let rows = [(this_model(), &outcome.test), (most_frequent(), &outcome.majority)];
        write!(out, "{}", scores(&outcome.metrics, &rows)?)?;
        writeln!(out, "{}", next(place, args.data.is_none(), false, data.reads_pairs()))?;
        writeln!(out, "{}", report::filled(&outcome.advice))?;
        Ok(())
    })
}

/// Of which rows the scores are.
pub(super) fn scored_on(metrics: &serde_json::Value, rows: usize) -> String {
    let count = thousands(rows);
    match metrics["scored_on"].as_str() {
        Some("test") => tr!("On {count} rows that training never saw:", "学習に使っていない {count} 行での結果:"),
        Some("valid") => tr!(
            "On {count} validation rows (there are no test rows: the figure is optimistic):",
            "検証データ {count} 行での結果（テスト用の行がないため、楽観的な値です）:"
        ),
        _ => tr!(
            "On {count} training rows (there are no others: the figure says nothing about new texts):",
            "学習データ {count} 行での結果（ほかに行がないため、新しいテキストについては\n何も分かりません）:"
        ),
    }
}

/// Predictors side by side and each class of the first, with what must be known before.
fn scores(metrics: &serde_json::Value, rows: &[(&str, &Scores)]) -> anyhow::Result<String> {
    let whole = rows[0].1;
    let warning = whole.warning().map_or(String::new(), |warning| report::filled(&warning) + "\n\n");
    let on = scored_on(metrics, whole.rows);
    let classes = report::classes(whole, "metrics.json");
    let classes = report::levels(rows) + &classes;
    let sure = report::sure_answers(&metrics["abstain"]);
    let folds = report::folds(&metrics["folds"]);
    let tuned = super::tune::shown(&metrics["tuning"]);
    let further = further::shown(&metrics["further"]);
    Ok(format!("{warning}{on}\n\n{}\n{classes}{sure}{folds}{tuned}{further}\n", report::comparison(rows)))
}

/// What tables call the model.
pub(crate) fn this_model() -> &'static str {
    lang().pick("this model", "このモデル")
}

fn most_frequent() -> &'static str {
    lang().pick("baseline: most frequent class", "比較対象: 最も多いクラス")
}

/// What to do next.
pub(super) fn next(place: &Path, is_builtin: bool, has_page: bool, reads_pairs: bool) -> String {
    let mut lines = vec![tr!("Next:", "次にできること:")];
    if is_builtin {
        lines.push(tr!(
            "  chumoku train your-file.csv   your texts: CSV, TSV, JSONL, Parquet, Excel, .gz",
            "  chumoku train your-file.csv   自分のテキスト（CSV、TSV、JSONL、Parquet、Excel、.gz）"
        ));
    }
    let place = quoted(&place.display().to_string());
    let page = if has_page { " --html why.html" } else { "" };
    let [text, first, second] = [["some text", "テキスト"], ["first text", "1 つ目"], ["second text", "2 つ目"]]
        .map(|[en, ja]| lang().pick(en, ja));
    let [predict, explain] = match reads_pairs {
        false => [format!("\"{text}\""), format!("\"{text}\"")],
        true => [format!("\"{first}\" \"{second}\""), format!("\"{first}\" --target \"{second}\"")],
    };
    lines.push(format!("  chumoku predict {place} {predict}"));
    lines.push(format!("  chumoku explain {place} {explain}{page}"));
    lines.join("\n") + "\n"
}

pub(crate) fn load(path: &Path, options: &ReadOptions) -> anyhow::Result<Dataset> {
    let dataset = load_labelled(path, options)?;
    tell(["data", "データ"], &dataset.description);
    if dataset.skipped.count > 0 {
        tell(["skipped", "除外"], &dataset.skipped.to_string());
    }
    Ok(dataset)
}

/// The data where no file is given.
pub(crate) fn built_in() -> TrainingData {
    let text = tr!(
        "the built-in reviews: 1,000 short texts, half English and half Japanese (give a file to train on your own)",
        "内蔵のレビュー。短いテキスト 1,000 件で、半分は英語、半分は日本語（自分のデータで学習するにはファイルを指定）"
    );
    tell(["data", "データ"], &text);
    builtin::reviews()
}

fn data(args: &Train, known: Option<&Known>) -> anyhow::Result<TrainingData> {
    let options = read_options(&args.reading, true)?;
    let Some(path) = &args.data else {
        if args.hierarchy.is_some() {
            return Err(Usage(tr!(
                "--hierarchy: the built-in reviews have two classes and no tree; leave it out, or give a file",
                "--hierarchy: 内蔵のレビューは 2 クラスで、階層はありません。指定を外すか、ファイルを指定してください"
            ))
            .into());
        }
        return Ok(built_in());
    };
    let mut dataset = load(path, &options)?;
    // Other files may name their columns differently: what was asked for is asked of each.
    let mut valid = args.valid.as_deref().map(|path| load(path, &options)).transpose()?;
    let mut test = args.test.as_deref().map(|path| load(path, &options)).transpose()?;
    // What came through a pipe cannot be read again.
    let others = [args.valid.as_deref(), args.test.as_deref()];
    let source = args.reading.kept.is_empty().then(|| Source::new(path, others, &options));
    if let Some(known) = known {
        let new = SourceData::new(source, dataset, [valid, test]);
        let read = |path: &Path, options: &ReadOptions, _: &LabelOptions| load(path, options);
        return further::data(args, known, &options, new, (&read, Some(builtin::reviews())));
    }
    let tree = hierarchy::of(args.hierarchy.as_deref(), &mut dataset, [&mut valid, &mut test])?;
    let mut data = TrainingData::new(&dataset, valid.as_ref(), test.as_ref())?;
    data.hierarchy = tree;
    data.sources.extend(source);
    Ok(data)
}

/// Rows, classes and lengths.
pub(crate) fn describe(data: &TrainingData) {
    let (train, valid, test) = (data.train.len(), data.valid.len(), data.test.len());
    let [train, valid, test] = [train, valid, test].map(thousands);
    let text =
        tr!("{train} to train on, {valid} to validate, {test} to test", "学習 {train}、検証 {valid}、テスト {test}");
    tell(["rows", "行数"], &text);
    let mut counts: Vec<(usize, &str)> =
        data.class_rows().into_iter().zip(data.labels.iter().map(String::as_str)).collect();
    sorting::by_key(&mut counts, |(n, _)| std::cmp::Reverse(*n));
    let shown: Vec<String> =
        counts.iter().take(6).map(|(n, label)| format!("{} {}", harmless(label), thousands(*n))).collect();
    let more = if counts.len() > 6 {
        let (n, last) = counts[counts.len() - 1];
        tr!(", … {} {n}", "、… {} {n}", harmless(last))
    } else {
        String::new()
    };
    let shown = shown.join(lang().pick(", ", "、"));
    tell(["classes", "クラス"], &format!("{}: {shown}{more}", counts.len()));
    let mut lengths: Vec<usize> = data.train.texts.iter().map(|text| row::text_of(text).chars().count()).collect();
    lengths.sort_unstable();
    let at = |share: usize| lengths.get(lengths.len() * share / 100).copied().unwrap_or(0);
    let longest = lengths.last().copied().unwrap_or(0);
    let [median, most, longest] = [at(50), at(90), longest].map(thousands);
    let text = tr!(
        "median {median} characters, 90 % up to {most}, longest {longest}",
        "中央値 {median} 文字、90 % は {most} 文字以下、最長 {longest} 文字"
    );
    tell(["lengths", "長さ"], &text);
    tell_of_columns(&data.columns);
    for note in &data.notes {
        tell(["note", "注記"], note);
    }
}

/// What the columns beside the texts hold.
pub(super) fn tell_of_columns(columns: &[SideColumn]) {
    for column in columns {
        tell(["column", "列"], &column.describe());
    }
}

/// The scores beside the baselines and, for the built-in data, one held-out text explained.
fn show(data: &TrainingData, outcome: &Outcome, place: &Path, is_builtin: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let [attention, ngrams, majority] = &outcome.parts;
    let noun = network_name(outcome.model.config().model.body.network());
    let alone = tr!("  its {noun} alone", "  {noun}単独");
    let mut rows = vec![
        (this_model(), &outcome.test),
        (&alone, attention),
        (lang().pick("baseline: n-grams, linear", "比較対象: n-gram の線形モデル"), ngrams),
    ];
    let scratch = lang().pick("baseline: transformer, from scratch", "比較対象: ゼロから学習したもの");
    rows.extend(outcome.from_scratch.iter().map(|scores| (scratch, scores)));
    rows.push((most_frequent(), majority));
    let shown = scores(&outcome.metrics, &rows)?;
    write!(out, "{shown}")?;
    if let Some(best) = outcome.best {
        let epochs = outcome.metrics["epochs"].as_u64().unwrap_or(best.epoch);
        let text = tr!(
            "The {noun}'s weights are those after epoch {} of {epochs}, the best.\n",
            "{noun}の重みは、全 {epochs} エポック中で最良のエポック {} のものです。\n",
            best.epoch
        );
        writeln!(out, "{text}")?;
    }
    if let Some(choice) = &outcome.choice {
        writeln!(out, "{}\n", report::filled(choice))?;
    }
    let name = place.display();
    if is_builtin {
        let text = held_out(data, outcome)?;
        writeln!(out, "{}\n", tr!("One of them, explained:", "そのうちの 1 つの説明:"))?;
        let explanation = outcome.model.explain(text, &name.to_string())?;
        let layer = explanation.layers.saturating_sub(1);
        writeln!(out, "{}", render(&explanation, layer, 0, &terminal_options(lang())))?;
    }
    writeln!(out, "{}", next(place, is_builtin, true, data.reads_pairs()))?;
    writeln!(out, "{}", report::filled(&outcome.advice))?;
    Ok(())
}

/// A short held-out text that the model gets right, with a negation in it if there is one.
fn held_out<'a>(data: &'a TrainingData, outcome: &Outcome) -> anyhow::Result<&'a str> {
    let texts = data.test.texts();
    let predictions = outcome.model.predict(&texts)?;
    let right = |i: &usize| predictions[*i].class() as u32 == data.test.labels[*i];
    let suits = |i: &usize| (5..=12).contains(&texts[*i].split_whitespace().count()) && right(i);
    let negated = |i: &usize| texts[*i].contains(" not ") || texts[*i].contains("n't ");
    let found = (0..texts.len()).find(|i| suits(i) && negated(i)).or_else(|| (0..texts.len()).find(suits));
    Ok(texts[found.unwrap_or(0)])
}
