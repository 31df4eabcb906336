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
//! - `answers`: rows through a model
//! - `args`: flags
//! - `commands`: one file or folder for each command
//! - `data`: files of rows
//! - `distributed`: rows that are answered in other processes
//! - `invocation`: the command line
//! - `models`: loading models
//! - `output`: checks of output files before any work
//! - `pictures`: figures in files and terminals
//! - `progress`: progress bar and lines
//! - `report`: score tables
//! - `shell`: quoting for shells
//! - `stage_profile`: `--profile`
//! - `terminal`: size and colors of the terminal
//! - `threads`: instruction set and number of threads
//! - `usage`: usage errors and exit codes

/// Prints a message for the user on standard error, and ignores errors of the stream. Removes control characters that
/// could steer the terminal, because names in the message may come from anywhere.
macro_rules! say {
    ($($talk:tt)*) => {{
        use std::io::Write as _;
        let talk: Vec<String> = format!($($talk)*).split('\n').map(chumoku::lang::sanitize).collect();
        let _ = writeln!(std::io::stderr(), "{}", talk.join("\n"));
    }};
}

/// Returns a usage error with a message in English and Japanese.
macro_rules! refuse {
    ($($message:tt)*) => {
        return Err($crate::UsageError(chumoku::tr!($($message)*)).into())
    };
}

/// Returns a usage error if the condition holds.
macro_rules! refuse_if {
    ($condition:expr, $($message:tt)*) => {
        if $condition {
            refuse!($($message)*);
        }
    };
}

mod answers;
mod args;
mod commands;
mod data;
mod distributed;
mod invocation;
mod models;
mod output;
mod pictures;
mod progress;
mod report;
mod shell;
mod stage_profile;
mod terminal;
mod threads;
mod usage;

pub use distributed::{AnsweredChunk, ChunkAnswerer, ChunkReader, CommandError, unanswered};

pub use usage::ExitCode;

use chumoku::tr;
use chumoku::train::WorkerGroup;
use std::ffi::OsString;
use usage::{UsageError, is_broken_pipe, is_usage_error, one_line};

/// Runs the command. The first argument is the program's name. The command prints to the standard streams, uses rayon's
/// global pool, and handles Ctrl-C: call it once per process.
pub fn run(args: Vec<OsString>) -> ExitCode {
    run_with_workers(args, None)
}

/// Like [`run`], but `train` shares its steps with other processes.
pub fn run_with_workers(args: Vec<OsString>, workers: Option<WorkerGroup>) -> ExitCode {
    invocation::set(&args, workers);
    usage::choose_lang(args.iter().skip(1).cloned());
    let args = match args::Cli::parse_args(args) {
        Ok(args) => args,
        Err(error) => return usage::print_parse_error(&error),
    };
    if let Some(lang) = args.lang {
        chumoku::set_lang(lang.into());
    }
    let checked = args.files.check(args.command.outputs());
    let ready = checked.and_then(|()| Ok(threads::check_instruction_set()?));
    match ready.and_then(|()| commands::run(args.command)) {
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

/// Like [`definition`], with descriptions in Japanese.
pub fn definition_in_japanese() -> clap::Command {
    args::Cli::definition_in_japanese()
}
