//! The `chumoku` command: parse, call the library, print. Exit codes: 0 well, 1 the work failed, 2 wrong usage or
//! unreadable input, 130 interrupted.

/// Talk for people, on standard error. Nobody listening is no reason to stop working. Names in it may come from anywhere, and
/// must not steer the terminal.
macro_rules! say {
    ($($talk:tt)*) => {{
        use std::io::Write as _;
        let talk: Vec<String> = format!($($talk)*).split('\n').map($crate::harmless).collect();
        let _ = writeln!(std::io::stderr(), "{}", talk.join("\n"));
    }};
}

mod args;
mod commands;
mod progress;
mod report;
mod threads;

use chumoku::{Lang, set_lang, tr};
use clap::Parser;
use clap::error::ErrorKind;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: chumoku::Allocator = chumoku::Allocator;

fn main() -> ExitCode {
    let environment = Lang::of_environment(|name| std::env::var(name).ok());
    set_lang(environment);
    let args = match args::Args::try_parse() {
        Ok(args) => {
            set_lang(args.lang.map_or(environment, Lang::from));
            args
        }
        Err(error) => return usage(&error),
    };
    match commands::run(args) {
        Ok(code) => code,
        Err(error) => {
            if is_broken_pipe(&error) {
                // The reader has gone (`… | head`): nothing is wrong.
                return ExitCode::SUCCESS;
            }
            let (is_usage, is_plain) = (is_usage(&error), error.is::<std::io::Error>() && error.chain().count() == 1);
            // What the system says of a named file comes with the name.
            let error = match is_plain {
                true => error.context(tr!("writing to standard output", "標準出力への書き込みに失敗しました")),
                false => error,
            };
            say!("error: {}", one_line(&error));
            ExitCode::from(if is_usage { 2 } else { 1 })
        }
    }
}

/// Whether the input or the use is at fault, rather than the work.
fn is_usage(error: &anyhow::Error) -> bool {
    match (error.downcast_ref::<chumoku::Error>(), error.downcast_ref::<chumoku::data::DataError>()) {
        (Some(error), _) => error.is_usage(),
        (_, Some(error)) => error.is_usage(),
        _ => error.downcast_ref::<Usage>().is_some(),
    }
}

/// Prints help and the version as they are asked for, and what is wrong with the command line as one line.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
    }
    // What is wrong, what may be meant, and how to call it stand in paragraphs.
    let said = error.to_string();
    let parts = said.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let parts: Vec<String> = parts
        .filter(|part| !part.is_empty() && !part.starts_with("Usage:") && !part.starts_with("tip: to pass"))
        .map(|part| match part.strip_prefix("For more information, try '--help'") {
            Some(_) => "all options: --help".into(),
            None => part.trim_start_matches("tip: ").trim_end_matches('.').to_owned(),
        })
        .collect();
    say!("{}", parts.join("; "));
    ExitCode::from(2)
}

/// An error and its causes, each said once, in one line that cannot steer a terminal.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if line.is_empty() {
            line = cause;
        } else if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    harmless(&line)
}

/// A text without what would break its line or steer a terminal.
fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
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
