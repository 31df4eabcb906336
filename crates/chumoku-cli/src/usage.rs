//! Errors in one line of the user's language, and exit codes.

use chumoku::lang::sanitize;
use chumoku::lang::wording::nearest_name;
use chumoku::train::Setting;
use chumoku::{Lang, lang, set_lang, tr};
use chumoku_kernels::system::user_language;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use std::error::Error as _;
use std::ffi::OsString;

/// Exit code of a process; unlike that of `std`, it can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitCode(u8);

impl ExitCode {
    /// Success.
    pub(crate) const SUCCESS: ExitCode = ExitCode(0);

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

/// A usage error; exit code 2.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Sets the language of messages: from `--lang`, the environment, or the system's settings. Runs before the command
/// line is parsed, because parse errors are messages too.
pub(crate) fn choose_lang(args: impl Iterator<Item = OsString>) {
    let args: Vec<String> = args.map(|arg| arg.to_string_lossy().into_owned()).take_while(|arg| arg != "--").collect();
    let pairs =
        args.iter().zip(args.iter().skip(1)).filter(|(flag, _)| *flag == "--lang").map(|(_, value)| value.as_str());
    let given =
        pairs.chain(args.iter().filter_map(|arg| arg.strip_prefix("--lang="))).find_map(|code| code.parse().ok());
    set_lang(given.unwrap_or_else(|| Lang::from_user(|name| std::env::var(name).ok(), user_language)));
}

/// Prints requested help or the version, or a parse error in one line.
pub(crate) fn print_parse_error(error: &Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
    }
    say!("{}", error_line(error));
    ExitCode::from(2)
}

/// Formats a parse error in one line.
pub(crate) fn error_line(error: &Error) -> String {
    let line = match lang::lang() {
        Lang::En => english(error),
        Lang::Ja => japanese(error),
    };
    sanitize(&line)
}

/// Returns the setting of `--settings` that an unknown flag seems to mean, also under its common names elsewhere.
fn setting_of_flag(error: &Error) -> Option<&'static str> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let argument = error.get(ContextKind::InvalidArg)?.to_string();
    let name = argument.strip_prefix("--")?.split('=').next()?.replace('_', "-");
    let name = match name.as_str() {
        "lr" => "learning-rate",
        "batch-size" => "batch-tokens",
        "num-layers" | "n-layers" => "layers",
        "num-heads" | "n-heads" => "heads",
        "hidden-size" | "d-model" => "width",
        other => other,
    };
    Setting::ALL.iter().map(|setting| setting.name()).find(|setting| *setting == name)
}

/// Explains where a setting is given.
fn setting_hint(name: &str) -> String {
    tr!("this is a setting of train: --settings {name}=VALUE", "train の設定です: --settings {name}=値")
}

/// Returns the suggested argument or command, if it is close to what was typed.
fn suggestion(error: &Error) -> Option<String> {
    let kinds = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    let found = kinds.iter().find_map(|kind| match error.get(*kind)? {
        // clap lists the most similar one last.
        ContextValue::Strings(names) => names.last().cloned(),
        other => Some(other.to_string()),
    })?;
    let invalid = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand, ContextKind::InvalidValue];
    let is_near = match error.kind() {
        ErrorKind::UnknownArgument => invalid.iter().filter_map(|kind| error.get(*kind)).any(|invalid| {
            let (invalid, found) = (invalid.to_string(), found.as_str());
            nearest_name(invalid.trim_start_matches('-'), [found.trim_start_matches('-')]).is_some()
                || found.trim_start_matches('-').starts_with(invalid.trim_start_matches('-'))
        }),
        _ => true,
    };
    is_near.then_some(found)
}

/// Rewrites clap's message, whose problem, suggestion and usage are paragraphs.
fn english(error: &Error) -> String {
    let message = error.to_string();
    let has_suggestion = suggestion(error).is_some();
    let setting = setting_of_flag(error);
    let parts = message.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let parts: Vec<String> = parts
        .filter(|part| !part.is_empty() && !part.starts_with("Usage:") && !part.starts_with("tip: to pass"))
        .filter(|part| !part.starts_with("tip:") || has_suggestion && setting.is_none())
        .map(|part| match part.strip_prefix("For more information, try '--help'") {
            Some(_) => "all options: --help".into(),
            None => part.trim_start_matches("tip: ").trim_end_matches('.').to_owned(),
        })
        .collect();
    let mut parts = parts;
    if let Some(setting) = setting {
        parts.insert(parts.len().min(1), setting_hint(setting));
    }
    parts.join("; ")
}

/// Formats the error in Japanese from clap's context, because clap has English messages only.
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
            // Errors of value parsers are already in Japanese.
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
    match (setting_of_flag(error), suggestion(error)) {
        (Some(setting), _) => line += &format!("。{}", setting_hint(setting)),
        (None, Some(name)) => line += &format!("。{name} のことですか"),
        (None, None) => {}
    }
    format!("エラー: {line}。オプションの一覧: --help")
}

/// Returns true if the input or the command line is at fault, rather than the work.
pub(crate) fn is_usage_error(error: &anyhow::Error) -> bool {
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
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    // Errors of the system and of layers are translated to the language of the process.
    let message = |cause: &(dyn std::error::Error + 'static)| {
        let system = cause.downcast_ref().map(chumoku::lang::system_message);
        let layers =
            || cause.downcast_ref::<chumoku::NnError>().map(|cause| chumoku::Error::from(cause.clone()).to_string());
        system.or_else(layers).unwrap_or_else(|| cause.to_string())
    };
    for cause in error.chain().map(message) {
        if line.is_empty() {
            line = cause;
        } else if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    sanitize(&line)
}

pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
            || cause.downcast_ref::<chumoku::data::DataError>().is_some_and(|e| e.is_broken_pipe())
    })
}
