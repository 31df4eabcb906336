//! Training a language model.

use super::{TrainSession, load_all};
use crate::ExitCode;
use crate::UsageError;
use crate::args::TrainArgs;
use crate::commands::{read_options, shell_quoted};
use crate::progress::print_status;
use crate::report::{fit, wrap};
use chumoku::Lang;
use chumoku::ModelKind;
use chumoku::data::format_thousands;
use chumoku::data::{
    DocumentBreaks, DocumentSplit, Documents, MIN_CHARACTERS, ReadOptions, VALIDATION_FRACTION, load_documents,
};
use chumoku::lang::lang;
use chumoku::sampling::Sampling;
use chumoku::tr;
use chumoku::train::{LanguageModelOutcome, LanguageScores, train_language_model};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

pub(super) fn run(args: &TrainArgs, threads: usize) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let data = data(args)?;
    let session = TrainSession::new(args, ModelKind::LanguageModel, threads, start)?;
    let trained = session.train(|training| train_language_model(&data, training))?;
    let Some(outcome) = trained else { return Ok(session.report_interrupted()) };
    session.finish(outcome.interrupted, &outcome.metrics, |place| print_summary(&outcome, place))
}

/// The documents of a file.
pub(super) fn load(path: &Path, options: &ReadOptions) -> anyhow::Result<Documents> {
    let documents = load_documents(path, DocumentBreaks::Auto, options)?;
    print_status(["data", "データ"], &documents.description);
    if documents.skipped.count > 0 {
        print_status(["skipped", "除外"], &documents.skipped.to_string());
    }
    Ok(documents)
}

pub(super) fn data(args: &TrainArgs) -> anyhow::Result<DocumentSplit> {
    let Some(path) = &args.data else {
        let problem = tr!(
            "a language model has no built-in data: give a file of text, e.g. chumoku train book.txt --task lm",
            "言語モデルには内蔵のデータがありません。テキストのファイルを指定してください（例: chumoku train book.txt --task lm）"
        );
        return Err(UsageError(problem).into());
    };
    let options = read_options(&args.reading, false)?;
    let documents = load_all(args, path, [&options; 2], load)?;
    let texts = |path: &Path| Ok::<_, anyhow::Error>(load(path, &options)?.texts);
    let valid = args.valid.as_deref().map(texts).transpose()?;
    let test = args.test.as_deref().map(texts).transpose()?;
    let characters: usize = documents.texts.iter().map(|text| text.chars().count()).sum();
    if characters < MIN_CHARACTERS {
        let problem = tr!(
            "{}: read as plain text to train a language model: expected at least {} characters, found \
             {characters}; for a classifier give texts with labels (CSV, TSV, JSONL, fastText lines)",
            "{}: 言語モデルが続きを書くプレーンテキストとみなしました。{} 文字以上が必要ですが、{characters} 文字です。分類モデルには\
             ラベル付きのテキスト（CSV、TSV、JSONL、fastText 形式の行）を指定してください",
            path.display(),
            format_thousands(MIN_CHARACTERS)
        );
        return Err(UsageError(problem).into());
    }
    let mut parts = documents.split(0, if valid.is_some() { 0.0 } else { VALIDATION_FRACTION }, 0.0);
    print_status(["parts", "内訳"], &parts.description);
    parts.valid = valid.unwrap_or(parts.valid);
    parts.test = test.unwrap_or(parts.test);
    Ok(parts)
}

/// The scores, and how the model goes on.
fn print_summary(outcome: &LanguageModelOutcome, place: &Path) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let scores = &outcome.test;
    let tokens = format_thousands(scores.tokens);
    let on = match outcome.metrics["scored_on"].as_str() {
        Some("test") => tr!(
            "On {tokens} tokens of text that training never saw:",
            "学習に使っていないテキスト {tokens} トークンでの結果:"
        ),
        Some("valid") => tr!(
            "On {tokens} tokens of the validation text (there is no test text: the figures are a little optimistic):",
            "検証用テキスト {tokens} トークンでの結果（テスト用がないため、やや楽観的な値です）:"
        ),
        _ => tr!(
            "On {tokens} tokens of the training text (there is no other: the figures say nothing about new texts):",
            "学習用テキスト {tokens} トークンでの結果（ほかにないため、新しいテキストについては\n何も分かりません）:"
        ),
    };
    writeln!(out, "{on}\n")?;
    write!(out, "{}", format_scores(scores))?;
    if let Some(best) = outcome.best {
        let epochs = outcome.metrics["epochs"].as_u64().unwrap_or(best.epoch);
        let text = tr!(
            "\nThe weights are those after epoch {} of {epochs}, the best.",
            "\n重みは、全 {epochs} エポック中で最良のエポック {} のものです。",
            best.epoch
        );
        writeln!(out, "{text}")?;
    }
    writeln!(out, "{}", tr!("\nWhat the model writes:\n", "\nモデルが書いたテキスト:\n"))?;
    let mut sampling = Sampling::default();
    sampling.temperature = 0.8;
    let mut text = String::new();
    outcome.model.generate("", 200, &sampling, &mut |piece| {
        text.push_str(piece);
        ControlFlow::Continue(())
    })?;
    for line in text.lines() {
        let line = crate::sanitize(line);
        // As the rest of the report: Japanese, which has no spaces for a terminal to break at, in lines of 80 columns.
        let line = if lang() == Lang::Ja { wrap(&line, 78).replace('\n', "\n  ") } else { line };
        writeln!(out, "  {line}")?;
    }
    let place = shell_quoted(&place.display().to_string());
    let text = lang().pick("some text", "テキスト");
    writeln!(out, "\n{}", tr!("Next:", "次にできること:"))?;
    writeln!(out, "  chumoku generate {place} \"{text}\"")?;
    Ok(())
}

/// Scores, one a line.
pub(crate) fn format_scores(scores: &LanguageScores) -> String {
    let mut text = tr!(
        "loss                    {:>9.4} nats a token\n",
        "損失                                {:>9.4} nat/トークン\n",
        scores.loss
    );
    for (name, value) in scores.perplexities() {
        // What a model has never seen the like of needs no decimals.
        let value = if value < 1e6 { format!("{value:.3}") } else { format!("{value:.1e}") };
        let japanese = fit(&format!("パープレキシティ（{name}あたり）"), 36);
        text += &tr!("perplexity per {name:<9}{value:>9}\n", "{japanese}{value:>9}\n");
    }
    if scores.unknown > 0 {
        let share = 100.0 * scores.unknown as f64 / scores.tokens.max(1) as f64;
        text += &tr!(
            "unknown words           {share:>9.1} %   (counted as one word in the perplexities)\n",
            "未知語                              {share:>9.1} %（すべて同じ 1 語として計算）\n"
        );
    }
    text
}
