//! What is wrong with a command line, in one line of the language that people are spoken to in.

use crate::ExitCode;
use chumoku::{Lang, lang, set_lang};
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use std::error::Error as _;
use std::ffi::OsString;

/// A use of the command that cannot work; exit code 2.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Sets the language of messages: that of `--lang`, or the environment's. It is looked for before the command line is
/// understood, because what is wrong with the command line is a message too.
pub(crate) fn choose_lang(args: impl Iterator<Item = OsString>) {
    let args: Vec<String> = args.map(|arg| arg.to_string_lossy().into_owned()).take_while(|arg| arg != "--").collect();
    let pairs =
        args.iter().zip(args.iter().skip(1)).filter(|(flag, _)| *flag == "--lang").map(|(_, value)| value.as_str());
    let given =
        pairs.chain(args.iter().filter_map(|arg| arg.strip_prefix("--lang="))).find_map(|code| code.parse().ok());
    set_lang(given.unwrap_or_else(|| Lang::of_environment(|name| std::env::var(name).ok())));
}

/// Prints help and the version as they are asked for, and what is wrong with the command line as one line.
pub(crate) fn refuse(error: &Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
    }
    say!("{}", said(error));
    ExitCode::from(2)
}

/// What is wrong, in one line.
pub(crate) fn said(error: &Error) -> String {
    let line = match lang::lang() {
        Lang::En => english(error),
        Lang::Ja => japanese(error),
    };
    crate::harmless(&line)
}

/// clap's own words: what is wrong, what may be meant, and how to call it stand in paragraphs.
fn english(error: &Error) -> String {
    let said = error.to_string();
    let parts = said.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let parts: Vec<String> = parts
        .filter(|part| !part.is_empty() && !part.starts_with("Usage:") && !part.starts_with("tip: to pass"))
        .map(|part| match part.strip_prefix("For more information, try '--help'") {
            Some(_) => "all options: --help".into(),
            None => part.trim_start_matches("tip: ").trim_end_matches('.').to_owned(),
        })
        .collect();
    parts.join("; ")
}

/// clap speaks English alone, but says what it found.
fn japanese(error: &Error) -> String {
    let found = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let list = |kind| match error.get(kind) {
        Some(ContextValue::Strings(names)) => names.join(", "),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let (argument, value) = (found(ContextKind::InvalidArg), found(ContextKind::InvalidValue));
    let mut line = match error.kind() {
        ErrorKind::InvalidValue if value.is_empty() => format!("{argument} に値がありません"),
        ErrorKind::InvalidValue => format!("{argument} に “{value}” は使えません"),
        ErrorKind::ValueValidation => {
            // What is wrong with a number is said by `args`, in Japanese already.
            let why = error.source().map(|why| format!(": {why}")).unwrap_or_default();
            format!("{argument} に “{value}” は使えません{why}")
        }
        ErrorKind::UnknownArgument => format!("“{argument}” という引数はありません"),
        ErrorKind::InvalidSubcommand => {
            format!("“{}” というコマンドはありません", found(ContextKind::InvalidSubcommand))
        }
        ErrorKind::MissingSubcommand => "コマンドがありません".to_owned(),
        ErrorKind::MissingRequiredArgument => format!("必要な引数がありません: {}", list(ContextKind::InvalidArg)),
        ErrorKind::ArgumentConflict => {
            format!("{argument} は {} と同時に使えません", list(ContextKind::PriorArg))
        }
        ErrorKind::NoEquals => format!("{argument} の値は = に続けて書いてください"),
        ErrorKind::TooManyValues => format!("{argument} に値が多すぎます: “{value}”"),
        ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => format!("{argument} の値の数が合いません"),
        ErrorKind::InvalidUtf8 => "引数に UTF-8 でない文字があります".to_owned(),
        _ => english(error).trim_start_matches("error: ").to_owned(),
    };
    let choices = list(ContextKind::ValidValue);
    if !choices.is_empty() {
        line += &format!("。使える値: {choices}");
    }
    let suggested = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    if let Some(name) = suggested.map(list).into_iter().find(|name| !name.is_empty()) {
        line += &format!("。{name} のことですか");
    }
    format!("エラー: {line}。オプションの一覧: --help")
}
