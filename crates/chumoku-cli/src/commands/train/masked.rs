//! Pretrains an encoder on unlabeled text.

use super::{TrainSession, language};
use crate::ExitCode;
use crate::args::TrainArgs;
use crate::data::{load_text_documents, read_options};
use crate::output::OutputPath;
use crate::progress::{format_duration, print_status};
use crate::report::{fit, wrap};
use crate::shell::shell_quoted;
use chumoku::data::{DocumentSplit, VALIDATION_FRACTION, format_thousands};
use chumoku::lang::lang;
use chumoku::row::AsRow;
use chumoku::train::{FillExample, MaskedOutcome, MaskedScores, OutputFolder, TrainingData, pretrain};
use chumoku::{ModelKind, is_model_folder, tr};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub(super) fn run(args: &TrainArgs, threads: usize) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    refuse_if!(
        args.data.is_none(),
        "there is no built-in data for pretraining: name a file, such as chumoku train texts.txt --task mlm",
        "事前学習用の内蔵データはありません。テキストのファイルを指定してください（例: chumoku train texts.txt --task mlm）"
    );
    let data = language::data(args)?;
    let session = TrainSession::new(args, ModelKind::Encoder, threads, start)?;
    let trained = session.train(|training| pretrain(&data, training))?;
    let Some(outcome) = trained else { return Ok(session.report_interrupted()) };
    session.finish(outcome.interrupted, &outcome.metrics, |place| print_summary(&outcome, place))
}

/// Returns the folder of the encoder that the model in this folder starts from.
fn base_folder(folder: &Path) -> PathBuf {
    // Resolves “.”, which has no file name.
    let whole = if folder.file_name().is_none() { folder.canonicalize().ok() } else { None };
    let folder = whole.as_deref().unwrap_or(folder);
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push("-base");
    folder.with_file_name(name)
}

/// Collects the texts to pretrain on: those of `--unlabelled` and the training texts. Returns `None` without
/// `--unlabelled`. Fails before any change if the encoder's folder cannot be written.
pub(super) fn pretraining_texts(args: &TrainArgs, data: &TrainingData) -> anyhow::Result<Option<DocumentSplit>> {
    if let Some(out) = args.out.as_ref().map(OutputPath::as_path).filter(|_| !args.unlabelled.is_empty()) {
        let base = base_folder(out);
        if !(args.resume && is_model_folder(&base)) {
            OutputFolder::check(&base, args.resume, args.force)?;
        }
    }
    let mut parts = DocumentSplit::default();
    for path in &args.unlabelled {
        let found = load_text_documents(path, &read_options(&args.reading, false)?)?.split(0, VALIDATION_FRACTION, 0.0);
        parts.train.extend(found.train);
        parts.valid.extend(found.valid);
        parts.description = found.description;
    }
    // Adds both texts of a pair separately.
    let texts = data.train.texts.iter().flat_map(|row| row.as_row().texts());
    parts.train.extend(texts.map(String::from));
    Ok((!args.unlabelled.is_empty()).then_some(parts))
}

/// Pretrains the encoder that a classifier starts from, in a folder next to the classifier's. Returns `None` if
/// training was interrupted.
pub(super) fn pretrain_base(
    of: &TrainSession<'_>,
    texts: &DocumentSplit,
    threads: usize,
) -> anyhow::Result<Option<PathBuf>> {
    let base = base_folder(&of.folder.path);
    if of.args.resume && is_model_folder(&base) {
        OutputFolder::settle(&base)?;
        return Ok(Some(base));
    }
    let mut args = of.args.clone();
    (args.out, args.epochs, args.watch) = (Some(base.clone().into()), None, None);
    let session = TrainSession::new(&args, ModelKind::Encoder, threads, Instant::now())?;
    let Some(outcome) = session.train(|training| pretrain(texts, training))? else { return Ok(None) };
    if outcome.interrupted {
        return Ok(None);
    }
    session.folder.finish()?;
    let (accuracy, time) = (100.0 * outcome.test.accuracy, format_duration(session.start.elapsed()));
    let text = tr!(
        "{}: {accuracy:.1} % of masked tokens predicted correctly, after {time}",
        "{}: マスクしたトークンの正解率 {accuracy:.1} %（{time}）",
        base.display()
    );
    print_status(["base", "ベース"], &text);
    Ok(Some(base))
}

/// Prints the scores, and predictions of masked tokens.
fn print_summary(outcome: &MaskedOutcome, place: &Path) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let scores = &outcome.test;
    let hidden = format_thousands(scores.hidden);
    let on = match outcome.metrics["scored_on"].as_str() {
        Some("test") => tr!(
            "On {hidden} masked tokens of test text, not used in training:",
            "学習に使っていないテキストの、マスクした {hidden} トークンでの結果:"
        ),
        Some("valid") => tr!(
            "On {hidden} masked tokens of the validation text (no test text: the scores are a little \
             optimistic):",
            "検証用テキストの、マスクした {hidden} トークンでの結果（テスト用がないため、やや楽観的な値です）:"
        ),
        _ => tr!(
            "On {hidden} masked tokens of the training text (no other text: the scores are no estimate for new \
             texts):",
            "学習用テキストの、マスクした {hidden} トークンでの結果（ほかにないため、新しいテキストについては\n何も分かりません）:"
        ),
    };
    writeln!(out, "{}\n", crate::report::paragraph(&on))?;
    write!(out, "{}", format_scores(scores))?;
    if !outcome.filled.is_empty() {
        writeln!(out, "{}", tr!("\nPredictions of masked tokens:\n", "\nマスクしたトークンの予測:\n"))?;
    }
    for filled in &outcome.filled {
        writeln!(out, "{}", format_guesses(filled))?;
    }
    let place = shell_quoted(&place.display().to_string());
    let [data, text] = [lang().pick("data.csv", "データ.csv"), lang().pick("some text", "テキスト")];
    writeln!(out, "{}", tr!("Next:", "次にできること:"))?;
    writeln!(out, "  chumoku train {data} --from {place}")?;
    writeln!(out, "  chumoku embed {place} \"{text}\"")?;
    Ok(())
}

fn format_scores(scores: &MaskedScores) -> String {
    let accuracy = 100.0 * scores.accuracy;
    let [right, loss] = [lang().pick("accuracy", "正解率"), lang().pick("loss", "損失")];
    let unit = lang().pick("nats per token", "nat/トークン");
    format!("{}{accuracy:>8.1} %\n{}{:>8.4} {unit}\n", fit(right, 24), fit(loss, 24), scores.loss)
}

/// Formats a text with the predictions for its gap.
fn format_guesses(filled: &FillExample) -> String {
    let FillExample { around: [before, behind], hidden, guesses, .. } = filled;
    let text = wrap(&chumoku::lang::sanitize(&format!("{before} [{hidden}] {behind}")), 76).replace('\n', "\n  ");
    let each = guesses.iter().map(|(token, p)| format!("{} {:.0} %", chumoku::lang::sanitize(token), 100.0 * p));
    format!("  {text}\n    {}\n", each.collect::<Vec<_>>().join(", "))
}
