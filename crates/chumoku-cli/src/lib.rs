//! The `chumoku` command trains models of text, uses them, and explains them in pictures and numbers.
//!
//! This crate is a program, which the Python package also runs ([`run`]; [`ChunkReader`] and [`ChunkAnswerer`] for rows
//! that go to other processes), not a library. It parses flags, calls `chumoku` (training, models, explanation) and
//! `chumoku-view` (pages, pictures, traces), and prints: results to standard output, messages to standard error. A
//! program that needs the same features should call these two crates. `chumoku --help` lists the commands, and `docs/`
//! describes them.
//!
//! Exit codes: 0 success, 1 the work failed, 2 usage error or unreadable input, 130 interrupted.
//!
//! # Files
//!
//! - `args`: flags
//! - `commands`: one file or folder for each command
//! - `output`: checks of output files before any work
//! - `progress`: progress bar and lines
//! - `report`: score tables
//! - `threads`: number of threads
//! - `usage`: usage errors

/// Prints a message for the user on standard error, and ignores errors of the stream. Removes control characters that
/// could steer the terminal, because names in the message may come from anywhere.
macro_rules! say {
    ($($talk:tt)*) => {{
        use std::io::Write as _;
        let talk: Vec<String> = format!($($talk)*).split('\n').map(chumoku::lang::sanitize).collect();
        let _ = writeln!(std::io::stderr(), "{}", talk.join("\n"));
    }};
}

mod args;
mod commands;
mod output;
mod progress;
mod report;
mod threads;
mod usage;

pub use commands::distributed::{AnsweredChunk, ChunkAnswerer, ChunkReader, CommandError, unanswered};

use chumoku::lang::sanitize;
use chumoku::tr;
use chumoku::train::WorkerGroup;
use std::ffi::OsString;
use std::sync::OnceLock;
use usage::UsageError;

/// Exit code of a process; unlike that of `std`, it can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitCode(u8);

impl ExitCode {
    /// Success.
    pub const SUCCESS: ExitCode = ExitCode(0);

    /// Returns the number of the exit code.
    pub fn number(self) -> u8 {
        self.0
    }
}

impl From<u8> for ExitCode {
    fn from(number: u8) -> Self {
        ExitCode(number)
    }
}

/// How the command was called.
struct Invocation {
    words: Vec<String>,
    crew: Option<WorkerGroup>,
}

static INVOCATION: OnceLock<Invocation> = OnceLock::new();

/// Returns the command line, starting with the program's name. It is not that of the process, which may be Python.
fn command_words() -> impl Iterator<Item = String> {
    INVOCATION.get().into_iter().flat_map(|call| call.words.iter().cloned())
}

/// Returns this process's place in a worker group that shares a training run.
fn worker_group() -> Option<WorkerGroup> {
    INVOCATION.get().and_then(|call| call.crew.clone())
}

/// Runs the command. The first argument is the program's name. The command prints to the standard streams, uses rayon's
/// global pool, and handles Ctrl-C: call it once per process.
pub fn run(args: Vec<OsString>) -> ExitCode {
    run_with_workers(args, None)
}

/// Like [`run`], but `train` shares its steps with other processes.
pub fn run_with_workers(args: Vec<OsString>, crew: Option<WorkerGroup>) -> ExitCode {
    let _ = INVOCATION
        .set(Invocation { words: args.iter().map(|word| word.to_string_lossy().into_owned()).collect(), crew });
    usage::choose_lang(args.iter().skip(1).cloned());
    let args = match args::Cli::parse_args(args) {
        Ok(args) => args,
        Err(error) => return usage::print_parse_error(&error),
    };
    if let Some(lang) = args.lang {
        chumoku::set_lang(lang.into());
    }
    let checked = args.files.check(args.command.outputs());
    match checked.and_then(|()| commands::run(args.command)) {
        Ok(code) => code,
        Err(error) => {
            if is_broken_pipe(&error) {
                // The reader has closed the pipe (`… | head`), which is no error.
                return ExitCode::SUCCESS;
            }
            let (is_usage, is_plain) =
                (is_usage_error(&error), error.is::<std::io::Error>() && error.chain().count() == 1);
            // An I/O error without context is from standard output: errors of named files include the name.
            let error = match is_plain {
                true => error.context(tr!("writing to standard output", "標準出力への書き込みに失敗しました")),
                false => error,
            };
            say!("{}: {}", chumoku::lang::lang().pick("error", "エラー"), one_line(&error));
            ExitCode::from(if is_usage { 2 } else { 1 })
        }
    }
}

/// Returns the command with its subcommands and flags, for manual pages and shell completions.
pub fn definition() -> clap::Command {
    args::Cli::definition()
}

/// Returns true if the input or the command line is at fault, rather than the work.
fn is_usage_error(error: &anyhow::Error) -> bool {
    if let Some(error) = error.downcast_ref::<chumoku::NnError>() {
        return chumoku::Error::from(error.clone()).is_usage();
    }
    match (error.downcast_ref::<chumoku::Error>(), error.downcast_ref::<chumoku::data::DataError>()) {
        (Some(error), _) => error.is_usage(),
        (_, Some(error)) => error.is_usage(),
        _ => error.downcast_ref::<UsageError>().is_some(),
    }
}

/// Formats an error and its causes, each once, in one line without control characters.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    // Errors of the system and of layers are translated to the language of the process.
    let said = |cause: &(dyn std::error::Error + 'static)| {
        let system = cause.downcast_ref().map(chumoku::lang::system_message);
        let layers =
            || cause.downcast_ref::<chumoku::NnError>().map(|cause| chumoku::Error::from(cause.clone()).to_string());
        system.or_else(layers).unwrap_or_else(|| cause.to_string())
    };
    for cause in error.chain().map(said) {
        if line.is_empty() {
            line = cause;
        } else if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    sanitize(&line)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
            || cause.downcast_ref::<chumoku::data::DataError>().is_some_and(|e| e.is_broken_pipe())
    })
}
