//! Trains a tagger.

use super::continued::OldRowSource;
use super::{TrainSession, continued, load_all, load_held_out, report_file_differences, report_sizes};
use crate::args::{Precision, TrainArgs};
use crate::data::{load_span_rows, read_options};
use crate::progress::print_status;
use crate::report::training::{format_changes, scored_on_heading, this_model};
use crate::report::{paragraph, spans};
use crate::shell::shell_quoted;
use crate::{ExitCode, UsageError};
use chumoku::data::{LabelOptions, ReadOptions, SpanDataset, SpanUnit, format_thousands};
use chumoku::lang::{lang, sanitize};
use chumoku::train::{BaseModel, DataSource, SourceData, TaggerData, train_tagger};
use chumoku::{ModelKind, sorting, tr};
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

pub(super) fn run(args: &TrainArgs, known: Option<&BaseModel>, threads: usize) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    check(args, known)?;
    let Some(path) = &args.data else {
        refuse!(
            "there is no built-in data with labeled words: name a file, such as chumoku train names.conll --task tag",
            "単語にラベルの付いた内蔵のデータはありません。ファイルを指定してください（例: chumoku train names.conll --task tag）"
        );
    };
    let options = read_options(&args.reading, false)?;
    let train = load_all(args, path, [&options; 2], load_span_rows)?;
    report_file_differences(args, known, train.labels_by_file(), false);
    let [valid, test] = load_held_out(args, |path| load_span_rows(path, &options))?;
    let others = [args.valid.as_deref(), args.test.as_deref()];
    let source = Some(DataSource::new(path, others, &options).with_files(&args.more));
    let data: TaggerData = match known {
        Some(known) => {
            let read = |path: &Path, options: &ReadOptions, _: &LabelOptions| load_span_rows(path, options);
            continued::continued_data(
                args,
                known,
                SourceData::new(source, train.clone(), [valid, test]),
                OldRowSource { options: &options, load: &read, built_in: Vec::new() },
            )?
        }
        None => {
            let mut data = TaggerData::new(&train, valid.as_ref(), test.as_ref())?;
            data.sources.extend(source);
            data
        }
    };
    report_data(&train, &data);
    let session = TrainSession::new(args, ModelKind::Tagger, threads, start)?;
    let trained = session.train(|training| train_tagger(&data, training))?;
    let Some(outcome) = trained else { return Ok(session.report_interrupted()) };
    session.finish(outcome.interrupted, &outcome.metrics, |place| {
        let mut out = std::io::stdout().lock();
        if let Some(warning) = outcome.test.warning() {
            writeln!(out, "{}\n", paragraph(&warning))?;
        }
        writeln!(out, "{}\n", scored_on_heading(&outcome.metrics, outcome.test.rows))?;
        let baseline = lang().pick("baseline: training names", "比較対象: 学習データの名前");
        let mut rows = vec![(this_model(), &outcome.test)];
        if let Some([crf, network]) = &outcome.parts {
            rows.push((lang().pick("network alone", "ネットワーク単独"), network));
            rows.push((lang().pick("random field alone", "条件付き確率場単独"), crf));
        }
        rows.push((baseline, &outcome.dictionary));
        writeln!(out, "{}", spans::comparison(&rows))?;
        write!(out, "{}", spans::kind_table(&outcome.test))?;
        write!(out, "{}", format_changes(&outcome.metrics["further"]))?;
        let place = shell_quoted(&place.display().to_string());
        writeln!(out, "\n{}", tr!("Next:", "次にできること:"))?;
        writeln!(out, "  chumoku predict {place} \"…\"")?;
        writeln!(out, "  chumoku explain {place} \"…\"")?;
        Ok(())
    })
}

/// Refuses flags that do not apply to taggers.
fn check(args: &TrainArgs, known: Option<&BaseModel>) -> anyhow::Result<()> {
    refuse_if!(
        args.watch.is_some(),
        "--watch: not available for taggers; leave it out",
        "--watch: 単語にラベルを付けるモデルのアテンションは記録できません。指定を外してください"
    );
    let flags = [
        ("--model", args.model.is_some()),
        ("--tokens", args.tokens.is_some()),
        ("--parts", args.parts.is_some()),
        ("--resume", args.resume),
        ("--precision", args.precision != Precision::Medium),
    ];
    let has_network = known.map_or(args.from.is_some(), |known| known.is_fine_tuned);
    match flags.into_iter().find(|(_, is_given)| *is_given && !has_network) {
        None => Ok(()),
        Some((flag, _)) if known.is_some() => Err(UsageError(tr!(
            "{flag}: a tagger without an encoder has no network and no checkpoints; leave it out",
            "{flag}: エンコーダーのない、単語にラベルを付けるモデルには、ネットワークも途中から再開する学習もありません。指定を外してください"
        ))
        .into()),
        Some((flag, _)) => Err(UsageError(tr!(
            "{flag}: a tagger has no network and no checkpoints unless it starts from an encoder; leave it out, or give --from",
            "{flag}: 単語にラベルを付けるモデルは、--from を指定しないとネットワークがなく、途中から再開する学習もありません。指定を外すか、--from \
             を指定してください"
        ))
        .into()),
    }
}

/// Reports rows and kinds of spans.
fn report_data(train: &SpanDataset, data: &TaggerData) {
    report_sizes(["rows", "行数"], [&data.train, &data.valid, &data.test].map(Vec::len));
    // Continued training also counts the old rows.
    let mut found = HashMap::new();
    let all = [&data.train, &data.valid, &data.test];
    for span in all.iter().filter(|_| data.continued.is_some()).flat_map(|rows| rows.iter()).flat_map(|row| &row.spans)
    {
        *found.entry(span.label.as_str()).or_insert(0) += 1;
    }
    let mut kinds: Vec<(&str, usize)> = match data.continued {
        Some(_) => found.into_iter().collect(),
        None => train.kinds().into_iter().collect(),
    };
    sorting::sort_by_key(&mut kinds, |(name, n)| (std::cmp::Reverse(*n), *name));
    let shown: Vec<String> =
        kinds.iter().take(12).map(|(name, n)| format!("{} {}", sanitize(name), format_thousands(*n))).collect();
    let more = if kinds.len() > 12 { ", …" } else { "" };
    let by = match (data.each_word, data.unit) {
        (true, _) => tr!("a label for each word", "単語ごとのラベル"),
        (_, SpanUnit::Words) => tr!("by words", "単語単位"),
        (_, SpanUnit::Characters) => tr!("by characters", "文字単位"),
    };
    let list = shown.join(", ");
    print_status(["spans", "スパン"], &tr!("{list}{more}; {by}", "{list}{more}。{by}"));
    data.notes.iter().for_each(|note| print_status(["note", "注記"], note));
}
