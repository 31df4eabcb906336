//! One module per command.
//!
//! # Files
//!
//! - `attend`: `attend`
//! - `bench`: `bench`
//! - `check`: `check`
//! - `columns`: feature columns of a model
//! - `compare`: `compare`
//! - `count`: `count`
//! - `coverage`: the risk–coverage curve
//! - `distributed`: rows that are answered in other processes
//! - `doctor`: `doctor`
//! - `embed`: `embed`
//! - `errors`: `eval --errors`
//! - `eval`: `eval`
//! - `explain`: `explain`
//! - `export`: `export`
//! - `film`: `film`
//! - `generate`: `generate`
//! - `info`: `info`
//! - `load`: loading models
//! - `nearest`: `nearest`
//! - `pairs`: models of pairs
//! - `pictures`: figures in files and terminals
//! - `position`: `position`
//! - `predict`: `predict`
//! - `row_output`: output formats of rows
//! - `serve`: `serve`
//! - `shard`: `--shard` and `join`
//! - `stage_profile`: `--profile`
//! - `stream`: rows through a model
//! - `table`: terminal tables
//! - `tagger`: `predict` and `eval` of taggers
//! - `thresholds`: `--threshold` and `--precision-at-least`
//! - `trace`: `trace`; `--tokens` and `--beam` in `trace/`
//! - `train`: `train`
//! - `training_overlap`: test rows that a model was trained on
//! - `translate`: `translate`

mod attend;
mod bench;
mod check;
mod columns;
mod compare;
mod count;
mod coverage;
pub(crate) mod distributed;
mod doctor;
mod embed;
mod errors;
mod eval;
mod explain;
mod export;
mod film;
mod generate;
mod info;
mod load;
mod nearest;
mod pairs;
mod pictures;
mod position;
mod predict;
mod row_output;
mod serve;
mod shard;
mod stage_profile;
mod stream;
mod table;
mod tagger;
mod thresholds;
mod trace;
mod train;
mod training_overlap;
mod translate;

use crate::ExitCode;
use crate::UsageError;
use crate::args::{Command, DataFormat, HeaderMode, ReadArgs};
use chumoku::data::{Format, ReadOptions};
use chumoku::lang::{is_harmful, sanitize};
use std::path::Path;

/// Runs a command.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    let isa = std::env::var_os("CHUMOKU_ISA").unwrap_or_default();
    if isa.to_str().and_then(chumoku::isa_named).is_none() {
        let got = isa.display();
        let problem = chumoku::tr!(
            "CHUMOKU_ISA: expected scalar, avx2, avx512, avx512bf16 or amx, got {got}; unset it",
            "CHUMOKU_ISA: scalar、avx2、avx512、avx512bf16、amx のいずれかが必要ですが、{got} です。設定を外してください"
        );
        return Err(UsageError(problem).into());
    }
    match command {
        Command::Train(args) => stage_profile::with_profile(args.profile, || train::run(&args)),
        Command::Eval(args) => eval::run(&args),
        Command::Predict(mut args) => {
            args.reading.use_training_source(&args.model);
            stage_profile::with_profile(args.profile, || predict::run(&args))
        }
        Command::Join(args) => shard::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Embed(args) => embed::run(&args),
        Command::Nearest(args) => nearest::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Translate(mut args) => {
            args.reading.use_training_source(&args.model);
            translate::run(&args)
        }
        Command::Explain(mut args) => {
            args.reading.use_training_source(&args.model);
            explain::run(&args)
        }
        Command::Serve(args) => serve::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Attend(args) => attend::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Count(args) => count::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Position(args) => position::run(&args),
        Command::Film(args) => film::run(&args),
        Command::Info(args) => info::run(&args),
    }
}

fn read_options(reading: &ReadArgs, require_label: bool) -> anyhow::Result<ReadOptions> {
    let (format, find_delimiter) = match (reading.format, reading.delimiter) {
        (None, None) => (None, false),
        (None | Some(DataFormat::Tsv), Some('\t')) | (Some(DataFormat::Tsv), None) => (Some(Format::Tsv), false),
        (None | Some(DataFormat::Csv), Some(delimiter)) => (Some(Format::Csv { delimiter }), false),
        (Some(DataFormat::Csv), None) => (Some(Format::Csv { delimiter: ',' }), true),
        (Some(format), Some(_)) => {
            let name =
                clap::ValueEnum::to_possible_value(&format).map_or_else(String::new, |value| value.get_name().into());
            let problem = chumoku::tr!(
                "--delimiter: only CSV has a delimiter to choose, and the format is --format {name}; leave one of them out",
                "--delimiter: 区切り文字を選べるのは CSV だけですが、--format {name} が指定されています。どちらかを外してください"
            );
            return Err(UsageError(problem).into());
        }
        (Some(DataFormat::Jsonl), None) => (Some(Format::JsonLines), false),
        (Some(DataFormat::Json), None) => (Some(Format::Json), false),
        (Some(DataFormat::Parquet), None) => (Some(Format::Parquet), false),
        (Some(DataFormat::Excel), None) => (Some(Format::Excel), false),
        (Some(DataFormat::Fasttext), None) => (Some(Format::FastText), false),
        (Some(DataFormat::Text), None) => (Some(Format::PlainText), false),
    };
    let mut options = ReadOptions::default();
    options.text = reading.text.clone();
    options.label = reading.label.clone();
    options.encoding = reading.encoding.clone();
    options.skip_bad_rows = reading.skip_bad_rows;
    options.require_label = require_label;
    options.require_text = true;
    options.format = format;
    options.find_delimiter = find_delimiter;
    options.copies = reading.pipe_buffer.clone();
    options.sheet = reading.sheet.clone();
    options.features = reading.feature_columns.clone();
    options.header = match reading.header {
        None | Some(HeaderMode::Auto) => None,
        Some(header) => Some(header == HeaderMode::Yes),
    };
    options.missing = reading.missing.as_ref().map(|values| {
        let is_none = matches!(values.as_slice(), [only] if only.eq_ignore_ascii_case("none"));
        if is_none { Vec::new() } else { values.clone() }
    });
    options.merge_labels = reading.merge_labels.then(Vec::new);
    options.training_options = reading.training_source.as_ref().map(|source| Box::new(source.options()));
    Ok(options)
}

/// Returns the display name of a model: the name of its folder.
fn model_name(folder: &Path) -> String {
    let full = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    full.file_name().map_or_else(|| chumoku::tr!("model", "モデル"), |name| name.to_string_lossy().into_owned())
}

/// Quotes a word of a command line for the system's usual shell, if needed.
fn shell_quoted(word: &str) -> String {
    if cfg!(windows) { quoted_for_windows(word) } else { quoted_for_posix(word) }
}

fn is_plain(letter: char) -> bool {
    letter.is_alphanumeric() || "-_=./:,+@%".contains(letter)
}

/// Quotes for `cmd` and PowerShell, where a backslash separates folders and `"` quotes.
fn quoted_for_windows(word: &str) -> String {
    match !word.is_empty() && word.chars().all(|letter| letter == '\\' || is_plain(letter)) {
        true => word.to_owned(),
        false => {
            let word = sanitize(word).replace('"', "\\\"");
            // A backslash before the closing quote would escape it.
            let slashes = word.len() - word.trim_end_matches('\\').len();
            format!("\"{word}{}\"", "\\".repeat(slashes))
        }
    }
}

/// Quotes for POSIX shells: `$'…'` with escapes if a character could steer a terminal.
fn quoted_for_posix(word: &str) -> String {
    if word.contains(is_harmful) {
        let escaped = |c: char| match c {
            c if is_harmful(c) => format!("\\u{:04x}", u32::from(c)),
            '\'' | '\\' => format!("\\{c}"),
            c => c.to_string(),
        };
        return format!("$'{}'", word.chars().map(escaped).collect::<String>());
    }
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_the_shell_of_the_system() {
        let words = ["model", "my model", r"C:\models\a", "it's", "say \"x\"", "", "感想.csv"];
        let posix = ["model", "'my model'", r"'C:\models\a'", r"'it'\''s'", "'say \"x\"'", "''", "感想.csv"];
        let windows = ["model", "\"my model\"", r"C:\models\a", "\"it's\"", r#""say \"x\"""#, "\"\"", "感想.csv"];
        assert_eq!(words.map(quoted_for_posix), posix);
        assert_eq!(words.map(quoted_for_windows), windows);
        assert_eq!(words.map(shell_quoted), if cfg!(windows) { windows } else { posix });
        assert_eq!(quoted_for_posix("a\u{1b}b"), r"$'a\u001bb'");
        assert_eq!(quoted_for_windows(r"C:\my models\"), r#""C:\my models\\""#);
        assert!(!quoted_for_windows("a\u{1b}b").contains('\u{1b}'));
    }
}
