//! The `chumoku` command: parse, call the library, print. Exit codes: 0 well, 1 the work failed, 2 wrong usage or
//! unreadable input, 130 interrupted.

mod args;
mod commands;
mod progress;
mod report;
mod threads;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = args::Args::parse();
    match commands::run(args) {
        Ok(code) => code,
        Err(error) => {
            if is_broken_pipe(&error) {
                // The reader has gone (`… | head`): nothing is wrong.
                return ExitCode::SUCCESS;
            }
            eprintln!("error: {error:#}");
            let is_usage = match error.downcast_ref::<chumoku::Error>() {
                Some(error) => error.is_usage(),
                None => {
                    error.downcast_ref::<Usage>().is_some()
                        || error.downcast_ref::<chumoku::data::DataError>().is_some()
                }
            };
            ExitCode::from(if is_usage { 2 } else { 1 })
        }
    }
}

/// A use of the command that cannot work; exit code 2.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
            || cause.downcast_ref::<chumoku::data::DataError>().is_some_and(|e| e.is_broken_pipe())
    })
}
