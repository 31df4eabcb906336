//! The `chumoku` command: it trains models of text, uses them, and shows what they look at and every step in numbers.
//!
//! This is a program, which the Python package runs too ([`run`], and [`Reader`] and [`Answerer`] for rows that go to other
//! processes), not a library. It parses flags, calls `chumoku` (training, models, explanation) and `chumoku-view`
//! (pages, pictures, traces), and prints: results to standard output, messages to standard error. A program that wants
//! what the command does calls these two crates. `chumoku --help` lists the commands, and `docs/` describes them.
//!
//! Exit codes: 0 success, 1 the work failed, 2 wrong use or unreadable input, 130 interrupted.
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

/// Talk for people, on standard error. Nobody listening is no reason to stop working. Names in it may come from anywhere, and
/// must not steer the terminal.
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

/// What a process ends with: `std`'s does not tell its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitCode(u8);

impl ExitCode {
    /// All went well.
    pub const SUCCESS: ExitCode = ExitCode(0);

    /// Its number.
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

/// The words that the command was called with, its own name first: not those of the process, which may be Python.
fn command_words() -> impl Iterator<Item = String> {
    INVOCATION.get().into_iter().flat_map(|call| call.words.iter().cloned())
}

/// This process's part in a run that several share.
fn worker_group() -> Option<WorkerGroup> {
    INVOCATION.get().and_then(|call| call.crew.clone())
}

/// Runs the command with these arguments, the first of which is its own name. It prints to the standard streams, has rayon's
/// global pool for itself, and takes Ctrl-C: a process runs it once.
pub fn run(args: Vec<OsString>) -> ExitCode {
    run_with_workers(args, None)
}

/// [`run`], where `train` shares its steps with other processes.
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
                // The reader has gone (`… | head`): nothing is wrong.
                return ExitCode::SUCCESS;
            }
            let (is_usage, is_plain) =
                (is_usage_error(&error), error.is::<std::io::Error>() && error.chain().count() == 1);
            // What the system says of a named file comes with the name.
            let error = match is_plain {
                true => error.context(tr!("writing to standard output", "標準出力への書き込みに失敗しました")),
                false => error,
            };
            say!("{}: {}", chumoku::lang::lang().pick("error", "エラー"), one_line(&error));
            ExitCode::from(if is_usage { 2 } else { 1 })
        }
    }
}

/// The command with its subcommands and flags, from which manual pages and shell completions are made.
pub fn definition() -> clap::Command {
    args::Cli::definition()
}

/// Whether the input or the use is at fault, rather than the work.
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

/// An error and its causes, each said once, in one line that cannot steer a terminal.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    // What the system and what layers say is in the language of the process, as where an error holds it.
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
