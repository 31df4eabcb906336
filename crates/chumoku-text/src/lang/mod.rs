//! The language of messages.
//!
//! Pictures, pages and tables take a [`Lang`] argument. Errors and training messages are created far from the caller,
//! so they use the language of the process, like a locale. It is English unless the program calls [`set_lang`] at
//! startup.
//!
//! # Files
//!
//! - `clean`: makes text from users and files safe for messages
//! - `flag_names`: flags in messages, renamed for callers that do not use the command line
//! - `wording`: quotes, lists and numbers in sentences

mod clean;
mod flag_names;
pub mod wording;

pub use clean::{escape_markdown, is_harmful, sanitize, show_controls, show_controls_in_text};
pub use flag_names::FlagNames;
use std::io::{self, ErrorKind};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The language of messages and output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lang {
    /// English.
    #[default]
    En,
    /// Japanese.
    Ja,
}

impl Lang {
    /// The code of the language, as in `--lang` and HTML.
    #[must_use]
    pub fn code(self) -> &'static str {
        self.pick("en", "ja")
    }

    /// Returns the text for this language.
    #[must_use]
    pub fn pick<'a>(self, en: &'a str, ja: &'a str) -> &'a str {
        match self {
            Self::En => en,
            Self::Ja => ja,
        }
    }

    /// Puts a text between the quotation marks of this language.
    pub fn quoted(self, text: &str) -> String {
        match self {
            Self::En => format!("“{text}”"),
            Self::Ja => format!("「{text}」"),
        }
    }

    /// Returns the user's language: from the environment or, if it names none, from the system settings.
    /// English if that language is not supported.
    ///
    /// The environment is the first of `LC_ALL`, `LC_MESSAGES` and `LANG` that is set and not empty, as POSIX specifies.
    ///
    /// Callers pass [`std::env::var`] and `chumoku_kernels::system::user_language`. The settings matter on Windows and
    /// macOS, and for programs that are not started from a shell and so have no such variables.
    #[must_use]
    pub fn from_user(variable: impl Fn(&str) -> Option<String>, settings: impl FnOnce() -> Option<String>) -> Lang {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(set).or_else(settings).unwrap_or_default();
        let language = locale.split(['_', '.', '@', '-']).next().unwrap_or_default();
        match language.eq_ignore_ascii_case("ja") || language.eq_ignore_ascii_case("japanese") {
            true => Lang::Ja,
            false => Lang::En,
        }
    }
}

impl FromStr for Lang {
    type Err = String;

    fn from_str(code: &str) -> Result<Self, Self::Err> {
        match code {
            "en" => Ok(Self::En),
            "ja" => Ok(Self::Ja),
            other => {
                Err(crate::tr!("the languages are en and ja; got {other:?}", "使える言語は en と ja です: {other:?}"))
            }
        }
    }
}

static IS_JAPANESE: AtomicBool = AtomicBool::new(false);

/// Sets the language of this process's messages.
pub fn set_lang(lang: Lang) {
    IS_JAPANESE.store(lang == Lang::Ja, Ordering::Relaxed);
}

/// Returns the language of this process's messages.
#[must_use]
pub fn lang() -> Lang {
    if IS_JAPANESE.load(Ordering::Relaxed) { Lang::Ja } else { Lang::En }
}

/// Describes a system error in the language of the process, with the error number of the system.
///
/// The standard library has English messages only. The kind and number of an error carry the same information.
#[must_use]
pub fn system_message(error: &io::Error) -> String {
    let known = match (lang(), error.kind()) {
        (Lang::En, _) => None,
        (Lang::Ja, ErrorKind::NotFound) => Some("ファイルまたはフォルダが見つかりません"),
        (Lang::Ja, ErrorKind::PermissionDenied) => Some("アクセスが許可されていません"),
        (Lang::Ja, ErrorKind::AlreadyExists) => Some("すでに存在します"),
        (Lang::Ja, ErrorKind::IsADirectory) => Some("フォルダです"),
        (Lang::Ja, ErrorKind::NotADirectory) => Some("パスの途中にフォルダ以外のものがあります"),
        (Lang::Ja, ErrorKind::InvalidFilename) => Some("ファイル名として使えない名前です"),
        (Lang::Ja, ErrorKind::StorageFull) => Some("ディスクに空きがありません"),
        (Lang::Ja, ErrorKind::QuotaExceeded) => Some("割り当てられた容量を超えています"),
        (Lang::Ja, ErrorKind::ReadOnlyFilesystem) => Some("読み取り専用のファイルシステムです"),
        (Lang::Ja, ErrorKind::FileTooLarge) => Some("ファイルが大きすぎます"),
        (Lang::Ja, ErrorKind::BrokenPipe) => Some("パイプの読み取り側が閉じられています"),
        (Lang::Ja, ErrorKind::UnexpectedEof) => Some("途中で終わっています"),
        (Lang::Ja, ErrorKind::OutOfMemory) => Some("メモリが足りません"),
        (Lang::Ja, _) => None,
    };
    match (known, error.raw_os_error()) {
        (Some(known), Some(number)) => format!("{known}（os error {number}）"),
        (Some(known), None) => known.to_owned(),
        (None, _) => error.to_string(),
    }
}

/// Returns the name of a file action in the process's language: "reading" or 読み込み.
pub fn action(action: &'static str) -> &'static str {
    lang().pick(action, japanese_action(action))
}

fn japanese_action(action: &'static str) -> &'static str {
    match action {
        "reading" | "reading the data" | "reading the tensors" => "読み込み",
        "opening" | "opening the data" => "オープン",
        "writing" | "writing to" | "writing the file" | "writing the tensors" => "書き込み",
        "creating" | "creating the folder" | "creating a folder in" => "作成",
        "replacing" => "置き換え",
        "renaming" => "名前の変更",
        "removing" => "削除",
        "locking" => "ロック",
        "flushing" => "ディスクへの書き出し",
        "shortening" => "切り詰め",
        "tracing" => "トレース",
        "checking" => "検算",
        other => other,
    }
}

/// Formats a message in the language of the process. Takes the English and the Japanese format string, then their
/// arguments.
///
/// Both strings may use named arguments in any order.
///
/// ```
/// let rows = 3;
/// let said = chumoku_text::tr!("{rows} rows in {}", "{} に {rows} 行", "reviews.tsv");
/// assert_eq!(said, "3 rows in reviews.tsv");
/// ```
#[macro_export]
macro_rules! tr {
    ($en:literal, $ja:literal $(, $argument:expr)* $(,)?) => {
        match $crate::lang::lang() {
            $crate::lang::Lang::En => ::std::format!($en $(, $argument)*),
            $crate::lang::Lang::Ja => ::std::format!($ja $(, $argument)*),
        }
    };
}

/// Formats a message in a given language. Takes the English and the Japanese format string, the language, then their
/// arguments.
#[macro_export]
macro_rules! tr_in {
    ($en:literal, $ja:literal, $lang:expr $(, $argument:expr)* $(,)?) => {
        match $lang {
            $crate::lang::Lang::En => ::std::format!($en $(, $argument)*),
            $crate::lang::Lang::Ja => ::std::format!($ja $(, $argument)*),
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_read_as_posix_specifies() {
        let of = |set: &[(&str, &str)]| {
            Lang::from_user(|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()), || None)
        };
        assert_eq!(of(&[]), Lang::En);
        assert_eq!(of(&[("LANG", "ja_JP.UTF-8")]), Lang::Ja);
        assert_eq!(of(&[("LANG", "ja")]), Lang::Ja);
        assert_eq!(of(&[("LANG", "japanese")]), Lang::Ja);
        assert_eq!(of(&[("LANG", "jam_JM")]), Lang::En);
        assert_eq!(of(&[("LANG", "ja_JP.UTF-8"), ("LC_ALL", "C")]), Lang::En);
        assert_eq!(of(&[("LANG", "ja_JP.UTF-8"), ("LC_ALL", "")]), Lang::Ja);
        assert_eq!(of(&[("LANG", "en_GB.UTF-8"), ("LC_MESSAGES", "ja_JP.eucJP")]), Lang::Ja);
    }

    #[test]
    fn system_settings_apply_if_the_environment_is_empty() {
        let of = |lang: Option<&str>, settings: Option<&str>| {
            Lang::from_user(|name| lang.filter(|_| name == "LANG").map(str::to_owned), || settings.map(str::to_owned))
        };
        assert_eq!(of(None, Some("ja-JP")), Lang::Ja);
        assert_eq!(of(Some(""), Some("ja")), Lang::Ja);
        assert_eq!(of(None, Some("en-US")), Lang::En);
        assert_eq!(of(None, None), Lang::En);
        assert_eq!(of(Some("C.UTF-8"), Some("ja-JP")), Lang::En);
        assert_eq!(of(Some("ja_JP.UTF-8"), Some("en-US")), Lang::Ja);
    }

    /// Collects the Rust files of a folder and its subfolders.
    fn sources(folder: &std::path::Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("lang/mod.rs") {
                found.push(std::fs::read_to_string(path).unwrap());
            }
        }
    }

    #[test]
    fn every_file_action_has_a_japanese_name() {
        let mut files = Vec::new();
        for member in ["chumoku-text", "chumoku-inference", "chumoku", "chumoku-view", "chumoku-trace"] {
            let member = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(member);
            sources(&member.join("src"), &mut files);
        }
        let mut seen = 0;
        for file in &files {
            for start in ["Error::io(\"", "Error::writing(\"", "doing: \""] {
                for (at, _) in file.match_indices(start) {
                    let verb = file[at + start.len()..].split('"').next().unwrap();
                    // `action` takes a `'static` name. The leak is a few dozen short strings.
                    let japanese = japanese_action(verb.to_owned().leak());
                    assert_ne!(japanese, verb, "say it in Japanese in `doing`");
                    seen += 1;
                }
            }
        }
        assert!(seen > 20, "{seen}: where have they gone?");
    }
}
