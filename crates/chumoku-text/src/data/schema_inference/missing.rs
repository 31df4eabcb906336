//! Values that stand for a missing value: `NaN`, `NULL`, `N/A`, `?`.

use super::super::format::ReadOptions;

/// The missing values of pandas, R, SQL, Excel and Weka. `None` is a class in many data sets, so it is not one of them.
const WORDS: [&str; 14] =
    ["nan", "-nan", "null", "n/a", "n.a.", "#n/a", "#na", "#nv", "#null!", "<na>", "<null>", "nat", "\\n", "?"];
/// Matched with its case only, because `na` is a word.
const EXACT: &str = "NA";

/// The values that count as missing.
#[derive(Clone, Debug, Default)]
pub(crate) struct MissingValues {
    /// The values that the options name, in lowercase. `None` means the usual ones.
    words: Option<Vec<String>>,
}

/// Reads labels like those of a file: trimmed, with `None` for missing ones.
///
/// `missing` names the values that stand for a missing label. The default is the usual ones, such as `NaN`.
pub fn read_labels<S: AsRef<str>>(labels: &[S], missing: Option<&[String]>) -> Vec<Option<String>> {
    let missing = MissingValues::from_words(missing);
    labels.iter().map(|label| missing.label(label.as_ref()).map(str::to_owned)).collect()
}

impl MissingValues {
    pub(crate) fn from_options(options: &ReadOptions) -> Self {
        let remembered = options.training_options().and_then(|options| options.missing.as_deref());
        MissingValues::from_words(options.missing.as_deref().or(remembered))
    }

    fn from_words(words: Option<&[String]>) -> Self {
        MissingValues { words: words.map(|words| words.iter().map(|word| word.trim().to_lowercase()).collect()) }
    }

    /// Returns whether a field is missing.
    pub(crate) fn is_missing(&self, field: &str) -> bool {
        let field = field.trim();
        field.is_empty() || self.is_missing_word(field)
    }

    /// Returns the trimmed label, or `None` if it is missing.
    pub(crate) fn label<'a>(&self, field: &'a str) -> Option<&'a str> {
        (!self.is_missing(field)).then(|| field.trim())
    }

    /// Returns whether a non-empty field stands for a missing value.
    pub(crate) fn is_missing_word(&self, field: &str) -> bool {
        let field = field.trim();
        // Missing values are short.
        if field.is_empty() || field.len() > 64 {
            return false;
        }
        let folded = field.to_lowercase();
        match &self.words {
            Some(named) => named.contains(&folded),
            None => field == EXACT || WORDS.contains(&folded.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_values_are_recognized() {
        let usual = MissingValues::default();
        for field in ["", "  ", "NaN", "nan", "NULL", "N/A", "n/a", "NA", "?", "<NA>", "#N/A"] {
            assert!(usual.is_missing(field), "{field}");
        }
        for field in ["none", "None", "na", "nah", "unknown", "??", "-", "0"] {
            assert!(!usual.is_missing(field), "{field}");
        }
        let named = MissingValues::from_options(&ReadOptions {
            missing: Some(vec!["None".into(), "-".into()]),
            ..Default::default()
        });
        assert!(named.is_missing("none") && named.is_missing("-") && named.is_missing("") && !named.is_missing("NaN"));
        let nothing = MissingValues::from_options(&ReadOptions { missing: Some(Vec::new()), ..Default::default() });
        assert!(!nothing.is_missing("NA") && nothing.is_missing(" "));
        let read = |missing: Option<&[String]>| -> Vec<String> {
            let labels = read_labels(&[" spam", "N/A", "x", ""], missing);
            labels.into_iter().map(|label| label.unwrap_or_else(|| "-".to_owned())).collect()
        };
        assert_eq!(read(None), ["spam", "-", "x", "-"]);
        assert_eq!(read(Some(&["X".to_owned()])), ["spam", "N/A", "-", "-"]);
        assert_eq!(read(Some(&[])), ["spam", "N/A", "x", "-"]);
    }
}
