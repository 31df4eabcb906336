//! What a worked example says of itself, in one language or in both.

use chumoku::Lang;

/// A title, or where something was published; in Japanese too where its file has it so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caption {
    /// As it stands for every language that has no text of its own; in Japanese where there is nothing else.
    pub text: String,
    /// The same in Japanese.
    pub japanese: Option<String>,
}

impl Caption {
    /// The text for those who read this language.
    #[must_use]
    pub fn in_lang(&self, lang: Lang) -> &str {
        match (lang, &self.japanese) {
            (Lang::Ja, Some(japanese)) => japanese,
            _ => &self.text,
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

impl From<String> for Caption {
    fn from(text: String) -> Caption {
        Caption { text, japanese: None }
    }
}
