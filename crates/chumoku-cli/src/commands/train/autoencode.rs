//! Trains an autoencoder.

use super::translate::report_lengths;
use super::{TrainSession, load_all, load_held_out, report_sizes};
use crate::ExitCode;
use crate::args::{BuiltinData, TrainArgs};
use crate::data::{PRONOUNS_SEED, load_autoencoder_rows, read_options};
use crate::progress::print_status;
use crate::report::texts::format_reconstruction_scores;
use crate::shell::shell_quoted;
use chumoku::builtin;
use chumoku::data::{PairSplit, SentencePairs, format_thousands};
use chumoku::lang::{lang, sanitize};
use chumoku::row::AsRow;
use chumoku::train::{AutoencoderOutcome, Rows, TrainingData, train_autoencoder};
use chumoku::{ModelKind, tr};
use clap::ValueEnum;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// The default of `--bottleneck`.
const BOTTLENECK: usize = 32;

pub(super) fn run(args: &TrainArgs, threads: usize) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let (data, name) = data(args)?;
    report_sizes(["texts", "テキスト"], [&data.train, &data.valid, &data.test].map(|part| part.len()));
    report_lengths(&name, &data.train.sources);
    data.notes.iter().for_each(|note| print_status(["note", "注記"], note));
    let session = TrainSession::new(args, ModelKind::Autoencoder, threads, start)?;
    let width = args.bottleneck.unwrap_or(BOTTLENECK);
    let trained = session.train(|training| train_autoencoder(&data, name.clone(), width, training))?;
    let Some(outcome) = trained else { return Ok(session.report_interrupted()) };
    session.finish(outcome.interrupted, &outcome.metrics, |place| print_summary(&data, &outcome, place))
}

fn data(args: &TrainArgs) -> anyhow::Result<(PairSplit, String)> {
    let Some(path) = &args.data else { return Ok(builtin_texts(args.builtin.unwrap_or(BuiltinData::Pronouns))) };
    let options = read_options(&args.reading, false)?;
    let train = load_all(args, path, [&options; 2], load_autoencoder_rows)?;
    let [valid, test] = load_held_out(args, |path| load_autoencoder_rows(path, &options))?;
    let [name, _] = train.names.clone();
    Ok((PairSplit::new(&train, valid.as_ref(), test.as_ref())?, name))
}

/// Returns the texts of a built-in set, without their labels or translations, and the name of the set.
fn builtin_texts(set: BuiltinData) -> (PairSplit, String) {
    let name = set.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    let text = tr!(
        "the texts of the built-in {name} (name a file to train on your own)",
        "内蔵の {name} のテキスト（自分のデータで学習するにはファイルを指定）"
    );
    print_status(["data", "データ"], &text);
    let with_itself = |texts: Vec<String>| SentencePairs { sources: texts.clone(), targets: texts };
    let texts = |rows: Rows| rows.texts.iter().map(|row| row.as_row().text().to_owned()).collect();
    let of_classes = |data: TrainingData| [data.train, data.valid, data.test].map(texts);
    let texts = match set {
        BuiltinData::Pronouns => of_classes(builtin::pronouns(lang(), PRONOUNS_SEED)),
        BuiltinData::Reviews => of_classes(builtin::reviews()),
        BuiltinData::CoinFlips => of_classes(builtin::coin_flips()),
        BuiltinData::Dates => {
            let data = builtin::dates(super::translate::DATES_SEED);
            [data.train, data.valid, data.test].map(|pairs| pairs.sources)
        }
    };
    let [train, valid, test] = texts.map(with_itself);
    (PairSplit { train, valid, test, notes: Vec::new() }, name)
}

/// Number of texts to print after training.
const MAX_SHOWN: usize = 5;

/// Prints the scores, and some texts with their reconstructions.
fn print_summary(data: &PairSplit, outcome: &AutoencoderOutcome, place: &Path) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let (scores, width) = (&outcome.test, outcome.model.embedding_dim());
    let n = format_thousands(scores.pairs);
    let (on, texts) = match outcome.metrics["scored_on"].as_str() {
        Some("test") => {
            (tr!("On {n} test texts, not used in training", "学習に使っていない {n} 個のテキストでの結果"), &data.test)
        }
        Some("valid") => {
            let on = tr!(
                "On {n} validation texts (no test texts: the scores are optimistic)",
                "検証データ {n} 個での結果（テスト用がないため、楽観的な値です）"
            );
            (on, &data.valid)
        }
        _ => {
            let on = tr!(
                "On {n} training texts (no others: the scores are no estimate for new texts)",
                "学習データ {n} 個での結果（ほかにデータがないため、新しいテキストについては分かりません）"
            );
            (on, &data.train)
        }
    };
    writeln!(out, "{}\n", tr!("{on}, through {width} numbers:", "{on}（{width} 個の数を経由）:"))?;
    writeln!(out, "{}", format_reconstruction_scores(scores))?;
    let shown: Vec<&str> = texts.sources.iter().take(MAX_SHOWN).map(String::as_str).collect();
    for (text, found) in shown.iter().zip(outcome.model.reconstruct(&shown, &Default::default())?) {
        let sign = if found.text() == *text { "=" } else { "≠" };
        writeln!(out, "  {}\n  {sign} {}", sanitize(text), sanitize(found.text()))?;
    }
    let place = shell_quoted(&place.display().to_string());
    let text = lang().pick("some text", "テキスト");
    writeln!(out, "\n{}", tr!("Next:", "次にできること:"))?;
    writeln!(out, "  chumoku predict {place} \"{text}\"")?;
    writeln!(out, "  chumoku embed {place} \"{text}\"")?;
    writeln!(out, "  chumoku count --model {place}")?;
    Ok(())
}
