//! Flags in messages, renamed for callers that do not use the command line.

/// The names by which callers of an interface know the flags of the command.
///
/// Messages of the library name the flags, since they are written where the caller is not known. A service renames them
/// to fields of its requests, and a package to parameters.
///
/// ```
/// use chumoku_text::lang::FlagNames;
///
/// let fields = FlagNames { phrases: &[], names: &[("top-k", "top_k"), ("align", "\"align\": \"{}\"")] };
/// assert_eq!(fields.rename("--top-k: expected 1"), "top_k: expected 1");
/// assert_eq!(fields.rename("try --align 1:1,3:2. See `chumoku explain --align`"),
///            "try \"align\": \"1:1,3:2\". See `chumoku explain --align`");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FlagNames {
    /// Whole phrases and their replacements, in this order, before flags are renamed.
    pub phrases: &'static [(&'static str, &'static str)],
    /// Flags without their dashes, with their names. In a name with `{}`, this stands for the value that follows the
    /// flag.
    pub names: &'static [(&'static str, &'static str)],
}

/// The beginning of a whole command in a message, in which flags keep their names.
const COMMAND_START: &str = "`chumoku ";

impl FlagNames {
    /// Renames the flags in a message. Unknown flags stay, as do whole commands (`` `chumoku train --from X` ``).
    #[must_use]
    pub fn rename(&self, message: &str) -> String {
        let mut message = message.to_owned();
        for (of_command, other) in self.phrases {
            message = message.replace(of_command, other);
        }
        let mut found = String::with_capacity(message.len());
        let mut rest = message.as_str();
        while let Some(at) = rest.find(COMMAND_START) {
            let end = rest[at + 1..].find('`').map_or(rest.len(), |end| at + 1 + end);
            self.rename_outside_commands(&rest[..at], &mut found);
            found.push_str(&rest[at..end]);
            rest = &rest[end..];
        }
        self.rename_outside_commands(rest, &mut found);
        found
    }

    fn rename_outside_commands(&self, text: &str, found: &mut String) {
        let mut rest = text;
        while let Some(at) = rest.find("--") {
            let (before, flag) = rest.split_at(at);
            let name = flag[2..].split(|c: char| !(c.is_ascii_lowercase() || c == '-')).next().unwrap_or("");
            let is_flag = !before.ends_with(|c: char| c.is_alphanumeric() || c == '-') && !name.starts_with('-');
            let after = &flag[2 + name.len()..];
            let own = self.names.iter().find(|(known, _)| *known == name).filter(|_| is_flag);
            found.push_str(before);
            rest = match own.map(|(_, own)| own.split_once("{}").ok_or(*own)) {
                None => {
                    found.push_str(&flag[..2 + name.len()]);
                    after
                }
                Some(Err(own)) => {
                    found.push_str(own);
                    after
                }
                Some(Ok((start, end))) => match split_value(after) {
                    Some((value, after)) => {
                        found.extend([start, value, end]);
                        after
                    }
                    // The flag alone, as in the beginning of a message.
                    None => {
                        found.push_str(&name.replace('-', "_"));
                        after
                    }
                },
            };
        }
        found.push_str(rest);
    }
}

/// Splits the value that follows a flag from the text after it. Punctuation at its end belongs to the sentence.
fn split_value(after: &str) -> Option<(&str, &str)> {
    let text = after.strip_prefix(' ')?;
    let word = text.split(char::is_whitespace).next()?;
    let is_punctuation = |c: char| matches!(c, '.' | ',' | ';' | ':' | ')' | '。' | '、' | '）');
    let value = word.trim_end_matches(is_punctuation);
    (!value.is_empty()).then(|| text.split_at(value.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: FlagNames = FlagNames {
        phrases: &[("; replace it with --force", "")],
        names: &[("out", "out"), ("no-chat", "no_chat"), ("align", "align=\"{}\"")],
    };

    #[test]
    fn flags_are_renamed_outside_whole_commands() {
        for (message, renamed) in [
            ("--out x: not empty; replace it with --force", "out x: not empty"),
            ("--out, --no-chat: not together", "out, no_chat: not together"),
            ("a--out, ---out, --other and --outer", "a--out, ---out, --other and --outer"),
            ("run `chumoku train --out x`, or give --out", "run `chumoku train --out x`, or give out"),
            ("`chumoku train --out x", "`chumoku train --out x"),
        ] {
            assert_eq!(NAMES.rename(message), renamed);
        }
    }

    #[test]
    fn the_value_of_a_flag_moves_with_it() {
        for (message, renamed) in [
            ("for example with --align 1-4:1-4,6:7. Tokens", "for example with align=\"1-4:1-4,6:7\". Tokens"),
            ("たとえば --align 1:1 のように", "たとえば align=\"1:1\" のように"),
            ("--align: expected tokens", "align: expected tokens"),
            ("leave out --align", "leave out align"),
            ("leave out --align .", "leave out align ."),
        ] {
            assert_eq!(NAMES.rename(message), renamed);
        }
    }
}
