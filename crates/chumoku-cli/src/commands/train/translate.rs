//! Trains a translator.

use super::{TrainSession, load_all, load_held_out, report_sizes};
use crate::ExitCode;
use crate::args::TrainArgs;
use crate::data::{load_translation_rows, read_options};
use crate::progress::print_status;
use crate::report::texts::format_translation_scores;
use crate::shell::shell_quoted;
use chumoku::data::{PairSplit, format_thousands};
use chumoku::lang::{lang, sanitize};
use chumoku::train::{TranslatorOutcome, train_translator};
use chumoku::{ModelKind, builtin, tr};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// Seed of the built-in dates: runs with different seeds train on the same pairs.
pub(super) const DATES_SEED: u64 = 0;

pub(super) fn run(args: &TrainArgs, threads: usize) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let (data, names) = data(args)?;
    report_data(&data, &names);
    let session = TrainSession::new(args, ModelKind::Translator, threads, start)?;
    let trained = session.train(|training| train_translator(&data, names.clone(), training))?;
    let Some(outcome) = trained else { return Ok(session.report_interrupted()) };
    session.finish(outcome.interrupted, &outcome.metrics, |place| print_summary(&data, &outcome, place))
}

fn data(args: &TrainArgs) -> anyhow::Result<(PairSplit, [String; 2])> {
    let Some(path) = &args.data else {
        let text = tr!(
            "the built-in dates: dates and times as people write them, English and Japanese, to ISO 8601 (name a file to \
             train on your own pairs)",
            "内蔵の日付。英語と日本語で書かれた日付・時刻から ISO 8601 へ（自分の対訳で学習するにはファイルを指定）"
        );
        print_status(["data", "データ"], &text);
        return Ok((builtin::dates(DATES_SEED), ["date".into(), "ISO 8601".into()]));
    };
    let options = read_options(&args.reading, false)?;
    let train = load_all(args, path, [&options; 2], load_translation_rows)?;
    let [valid, test] = load_held_out(args, |path| load_translation_rows(path, &options))?;
    let names = train.names.clone();
    Ok((PairSplit::new(&train, valid.as_ref(), test.as_ref())?, names))
}

/// Reports rows and lengths.
fn report_data(data: &PairSplit, names: &[String; 2]) {
    report_sizes(["pairs", "組数"], [&data.train, &data.valid, &data.test].map(|part| part.len()));
    report_lengths(&names[0], &data.train.sources);
    report_lengths(&names[1], &data.train.targets);
    for note in &data.notes {
        print_status(["note", "注記"], note);
    }
}

/// Reports the lengths of texts.
pub(super) fn report_lengths(name: &str, texts: &[String]) {
    let mut lengths: Vec<usize> = texts.iter().map(|text| text.chars().count()).collect();
    lengths.sort_unstable();
    let at = |share: usize| lengths.get(lengths.len() * share / 100).copied().unwrap_or(0);
    let longest = lengths.last().copied().unwrap_or(0);
    let [median, most, longest] = [at(50), at(90), longest].map(format_thousands);
    let name = sanitize(name);
    let text = tr!(
        "{name}: median {median} characters, 90 % up to {most}, longest {longest}",
        "{name}: 中央値 {median} 文字、90 % は {most} 文字以下、最長 {longest} 文字"
    );
    print_status(["lengths", "長さ"], &text);
}

/// Number of pairs to print after training.
const MAX_SHOWN: usize = 5;

/// Prints the scores, and some translations next to the expected ones.
fn print_summary(data: &PairSplit, outcome: &TranslatorOutcome, place: &Path) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let scores = &outcome.test;
    let n = format_thousands(scores.pairs);
    let (on, pairs) = match outcome.metrics["scored_on"].as_str() {
        Some("test") => {
            let on = tr!(
                "On {n} test pairs, not used in training, with a beam of 5:",
                "学習に使っていない {n} 組での結果（ビーム幅 5）:"
            );
            (on, &data.test)
        }
        Some("valid") => {
            let on = tr!(
                "On {n} validation pairs (no test pairs: the scores are optimistic), with a beam of 5:",
                "検証データ {n} 組での結果（ビーム幅 5。テスト用がないため、楽観的な値です）:"
            );
            (on, &data.valid)
        }
        _ => {
            let on = tr!(
                "On {n} training pairs (no other pairs: the scores are no estimate for new texts), with a beam of 5:",
                "学習データ {n} 組での結果（ビーム幅 5。ほかにデータがないため、新しいテキストについては\n何も分かりません）:"
            );
            (on, &data.train)
        }
    };
    writeln!(out, "{on}\n")?;
    writeln!(out, "{}", format_translation_scores(scores))?;
    if let Some(best) = outcome.best {
        let epochs = outcome.metrics["epochs"].as_u64().unwrap_or(best.epoch);
        let text = tr!(
            "The weights are those after epoch {} of {epochs}, the best.\n",
            "重みは、全 {epochs} エポック中で最良のエポック {} のものです。\n",
            best.epoch
        );
        writeln!(out, "{text}")?;
    }
    let shown = pairs.len().min(MAX_SHOWN);
    let sources: Vec<&str> = pairs.sources[..shown].iter().map(String::as_str).collect();
    let translations = outcome.model.translate(&sources, &Default::default())?;
    let right = lang().pick("  (as expected)", "（正解どおり）");
    for ((source, translation), target) in sources.iter().zip(&translations).zip(&pairs.targets) {
        writeln!(out, "  {}", sanitize(source))?;
        let is_right = translation.text() == target;
        writeln!(out, "    → {}{}", sanitize(translation.text()), if is_right { right } else { "" })?;
        if !is_right {
            writeln!(out, "    {} {}", lang().pick("expected", "正解:"), sanitize(target))?;
        }
    }
    let place = shell_quoted(&place.display().to_string());
    let text = lang().pick("some text", "テキスト");
    writeln!(out, "\n{}", tr!("Next:", "次にできること:"))?;
    writeln!(out, "  chumoku translate {place} \"{text}\"")?;
    writeln!(out, "  chumoku translate {place} --input texts.txt > translated.txt")?;
    writeln!(out, "  chumoku explain {place} \"{text}\" --html alignment.html")?;
    Ok(())
}
