//! Quotes words of command lines for shells.

use chumoku::lang::{is_harmful, sanitize};

/// Quotes a word of a command line for the system's usual shell, if needed.
pub(crate) fn shell_quoted(word: &str) -> String {
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
