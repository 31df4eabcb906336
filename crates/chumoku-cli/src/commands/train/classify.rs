//! Trains a classifier.

use super::continued::OldRowSource;
use super::{
    TrainSession, check_watch_text, continued, hierarchy, load_all, load_held_out, masked, report_file_differences,
    report_variants,
};
use crate::args::{Architecture, BuiltinData, TrainArgs};
use crate::data::{
    builtin_class_rows, builtin_coin_flips, builtin_pronouns, builtin_reviews, load_class_rows, read_options,
    report_class_rows,
};
use crate::report::training::{optional_sections, scored_on_heading};
use crate::report::{abstain_summary, classes, free_lines, paragraph};
use crate::shell::shell_quoted;
use crate::{ExitCode, UsageError};
use chumoku::builtin::{self, PronounAttention, PronounExample};
use chumoku::data::{LabelOptions, ReadOptions, merge_labels, options_for_all_files};
use chumoku::lang::lang;
use chumoku::train::{
    BaseModel, DataSource, Scores, SourceData, TrainOptions, TrainingData, check_tune, network_name, train,
    train_ngram_classifier, tune, tune_ngrams,
};
use chumoku::{ModelKind, stage_timer, tr};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

pub(super) fn run(args: &TrainArgs, known: Option<&BaseModel>, threads: usize) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let reading = stage_timer::begin(stage_timer::READING);
    let data = data(args, known)?;
    drop(reading);
    report_class_rows(&data);
    // Checked before the output folder is created.
    args.class_weights.as_ref().map(|weights| weights.for_data(&data)).transpose()?;
    data.check_optimize(args.optimize.map(Into::into))?;
    if args.tune.is_some() {
        check_tune(&data, &TrainOptions::default())?;
    }
    if args.architecture() == Architecture::Ngrams {
        return ngrams(args, &data, threads, start);
    }
    check_watch_text(args, &data)?;
    let texts = masked::pretraining_texts(args, &data)?;
    let mut session = TrainSession::new(args, ModelKind::Classifier, threads, start)?;
    if let Some(texts) = texts {
        let Some(base) = masked::pretrain_base(&session, &texts, threads)? else {
            return Ok(session.report_interrupted());
        };
        session.options.from = Some(base);
    }
    let trained = session.train(|training| match args.tune {
        Some(budget) => tune(&data, budget, training),
        None => train(&data, training),
    })?;
    let Some(outcome) = trained else { return Ok(session.report_interrupted()) };
    session.finish(outcome.interrupted, &outcome.metrics, |place| {
        let noun = network_name(outcome.model.config().model.backbone.kind());
        let advice = with_choice(outcome.choice.as_deref(), outcome.advice.as_deref().unwrap_or_default());
        let mut details = classes::chance_line(&outcome.metrics, noun)?;
        let commands = match builtin_data(args) {
            Some(BuiltinData::Pronouns) => {
                let examples = builtin::pronoun_examples(lang());
                let found = PronounAttention::measure(&outcome.model, &examples[0])?;
                let found = found.filter(|found| found.weight >= MIN_NOUN_WEIGHT);
                details += &found.as_ref().map(|found| pronoun_line(&examples[0], found)).unwrap_or_default();
                pronoun_commands(place, &examples, found.as_ref())
            }
            _ => own_commands(place, true, data.reads_pairs()),
        };
        let next = next_commands(place, &commands, args.data.is_none());
        print_summary(&outcome.metrics, noun, &details, &next, &advice)
    })
}

/// Appends the chosen training method to the advice.
fn with_choice(choice: Option<&str>, advice: &str) -> String {
    choice.map_or_else(|| advice.to_owned(), |choice| tr!("{advice} Chosen: {choice}.", "{advice}選択: {choice}。"))
}

/// Refuses flags that need a network.
pub(super) fn check_ngrams(args: &TrainArgs) -> Result<(), UsageError> {
    refuse_if!(
        args.epochs.is_some(),
        "--epochs: an n-gram model is not trained in epochs; leave it out",
        "--epochs: n-gram モデルの学習にエポックはありません。指定を外してください"
    );
    refuse_if!(
        args.parts.is_some(),
        "--parts: an n-gram model is not trained in batches; leave it out",
        "--parts: n-gram モデルの学習にバッチはありません。指定を外してください"
    );
    Ok(())
}

/// Trains the n-gram model alone.
fn ngrams(args: &TrainArgs, data: &TrainingData, threads: usize, start: Instant) -> anyhow::Result<ExitCode> {
    check_ngrams(args)?;
    let session = TrainSession::new(args, ModelKind::Ngrams, threads, start)?;
    let trained = session.train(|training| match args.tune {
        Some(budget) => tune_ngrams(data, budget, training),
        None => train_ngram_classifier(data, training),
    })?;
    let Some(outcome) = trained else { return Ok(session.report_interrupted()) };
    session.finish(false, &outcome.metrics, |place| {
        let next = next_commands(place, &own_commands(place, false, data.reads_pairs()), args.data.is_none());
        print_summary(&outcome.metrics, "", "", &next, outcome.advice.as_deref().unwrap_or_default())
    })
}

/// Prints the short report, which fits a screen unless more was requested, and the next commands.
///
/// `details` has the lines below the predictors.
fn print_summary(metrics: &Value, noun: &str, details: &str, next: &str, advice: &str) -> anyhow::Result<()> {
    let found = classes::predictor_scores(metrics, noun)?;
    let rows: Vec<(&str, &Scores)> = found.iter().map(|(name, scores)| (name.as_str(), scores)).collect();
    let whole = rows[0].1;
    let warning = whole.warning().map_or(String::new(), |warning| paragraph(&warning) + "\n");
    let sure = abstain_summary(&metrics["abstain"]);
    let above = format!(
        "{warning}{}\n{}{details}{sure}",
        scored_on_heading(metrics, whole.rows),
        classes::predictor_table(&rows)
    );
    let levels = classes::level_table(&rows);
    let sections = optional_sections(metrics);
    let below = format!("{sections}\n{next}{}\n", paragraph(advice));
    let room = free_lines(&[&above, &levels, &below]);
    write!(std::io::stdout().lock(), "{above}{levels}{}{below}", classes::short_class_table(whole, room))?;
    Ok(())
}

/// Returns the built-in data of a run on classes, if it has no file.
fn builtin_data(args: &TrainArgs) -> Option<BuiltinData> {
    args.data.is_none().then(|| args.builtin.unwrap_or(BuiltinData::Pronouns))
}

/// The smallest attention to the noun that the report mentions.
const MIN_NOUN_WEIGHT: f32 = 0.5;

/// Describes the attention of a model of the built-in pronouns from the deciding word to the noun.
fn pronoun_line(example: &PronounExample, found: &PronounAttention) -> String {
    let [word, noun] = [example.quality, example.noun].map(|word| lang().quoted(word));
    let (layer, head, percent) = (found.layer + 1, found.head + 1, 100.0 * found.weight);
    let text = tr!(
        "In layer {layer}, head {head}, {word} looks at {noun} ({percent:.0} %).",
        "第 {layer} 層のヘッド {head} では、{word}が{noun}を見ています（{percent:.0} %）。"
    );
    paragraph(&text) + "\n"
}

/// Lists the commands for a sentence of the built-in pronouns with both endings, and for the head that attends to
/// the noun.
fn pronoun_commands(place: &Path, [tired, wet]: &[PronounExample; 2], found: Option<&PronounAttention>) -> [String; 2] {
    let place = shell_quoted(&place.display().to_string());
    let head = found.map(|found| format!(" --layer {} --head {}", found.layer + 1, found.head + 1)).unwrap_or_default();
    let (tired, wet) = (&tired.text, &wet.text);
    [
        format!("chumoku predict {place} \"{tired}\" \"{wet}\""),
        format!("chumoku explain {place} \"{tired}\"{head} --html why.html"),
    ]
}

/// Lists the commands for the user's own texts.
pub(super) fn own_commands(place: &Path, has_page: bool, reads_pairs: bool) -> [String; 2] {
    let place = shell_quoted(&place.display().to_string());
    let page = if has_page { " --html why.html" } else { "" };
    let [text, first, second] = [["some text", "テキスト"], ["first text", "1 つ目"], ["second text", "2 つ目"]]
        .map(|[en, ja]| lang().pick(en, ja));
    let [predict, explain] = match reads_pairs {
        false => [format!("\"{text}\""), format!("\"{text}\"")],
        true => [format!("\"{first}\" \"{second}\""), format!("\"{first}\" --target \"{second}\"")],
    };
    [format!("chumoku predict {place} {predict}"), format!("chumoku explain {place} {explain}{page}")]
}

/// Lists the next commands: predict and explain, the full report, and training on the user's own texts.
pub(super) fn next_commands(place: &Path, commands: &[String; 2], is_builtin: bool) -> String {
    let mut lines = vec![tr!("Next:", "次にできること:")];
    lines.extend(commands.iter().map(|command| format!("  {command}")));
    let place = shell_quoted(&place.display().to_string());
    lines.push(tr!(
        "  chumoku info {place} --report   every class, calibration",
        "  chumoku info {place} --report   全クラス、較正など"
    ));
    if is_builtin {
        lines.push(tr!(
            "  chumoku train your-file.csv   your texts: CSV, TSV, JSONL, Parquet, Excel, .gz",
            "  chumoku train your-file.csv   自分のテキスト（CSV、Excel、JSONL など）"
        ));
    }
    lines.join("\n") + "\n"
}

fn data(args: &TrainArgs, known: Option<&BaseModel>) -> anyhow::Result<TrainingData> {
    let options = read_options(&args.reading, true)?;
    let Some(path) = &args.data else {
        refuse_if!(
            args.hierarchy.is_some(),
            "--hierarchy: the built-in data has two classes and no tree; leave it out, or give a file",
            "--hierarchy: 内蔵のデータは 2 クラスで、階層はありません。指定を外すか、ファイルを指定してください"
        );
        return Ok(match args.builtin {
            Some(BuiltinData::Reviews) => builtin_reviews(),
            Some(BuiltinData::CoinFlips) => builtin_coin_flips(),
            _ => builtin_pronouns(),
        });
    };
    let others = [args.valid.as_deref(), args.test.as_deref()];
    let source = Some(DataSource::new(path, others, &options).with_files(&args.more));
    let mut options = options;
    let known_labels: &[String] = known.map_or(&[], |known| &known.labels[..]);
    options.use_label_spellings(known_labels);
    let like = options_for_all_files(path, &args.more, &options)?;
    let mut dataset = load_all(args, path, [&options, &like], load_class_rows)?;
    if options.merge_labels.is_some() {
        merge_labels(dataset.examples.iter_mut().map(|example| &mut example.label), known_labels);
        options.use_label_spellings(&dataset.labels());
    }
    report_variants(dataset.examples.iter().map(|example| example.label.as_str()));
    report_file_differences(args, known, dataset.labels_by_file(), true);
    // Other files may name their columns differently: the same options apply to each.
    let [mut valid, mut test] = load_held_out(args, |path| load_class_rows(path, &options))?;
    if let Some(known) = known {
        let new = SourceData::new(source, dataset, [valid, test]);
        let read = |path: &Path, options: &ReadOptions, _: &LabelOptions| load_class_rows(path, options);
        let old = OldRowSource { options: &options, load: &read, built_in: builtin_class_rows() };
        return continued::continued_data(args, known, new, old);
    }
    let tree = hierarchy::class_tree(args.hierarchy.as_deref(), &mut dataset, [&mut valid, &mut test])?;
    let mut data = TrainingData::new(&dataset, valid.as_ref(), test.as_ref())?;
    data.hierarchy = tree;
    data.sources.extend(source);
    Ok(data)
}
