//! Captions of worked examples, in one language or in both.

use chumoku::Lang;

/// A title or source, with its Japanese translation if the file has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caption {
    /// The text for all languages without a translation; Japanese if the file has no other.
    pub text: String,
    /// The Japanese translation.
    pub(crate) japanese: Option<String>,
}

impl Caption {
    /// Returns the text in a language.
    #[must_use]
    pub fn in_lang(&self, lang: Lang) -> &str {
        match (lang, &self.japanese) {
            (Lang::Ja, Some(japanese)) => japanese,
            _ => &self.text,
        }
    }

    /// Returns whether the caption is empty.
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
