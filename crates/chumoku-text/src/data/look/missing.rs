//! Values that programs write where there is none: `NaN`, `NULL`, `N/A`, `?`.

use super::super::format::ReadOptions;

/// The words of pandas, R, SQL, Excel and Weka for a missing value. `None` is a class of many data sets, and not among them.
const WORDS: [&str; 14] =
    ["nan", "-nan", "null", "n/a", "n.a.", "#n/a", "#na", "#nv", "#null!", "<na>", "<null>", "nat", "\\n", "?"];
/// Counts as it stands alone, because `na` is a word.
const EXACT: &str = "NA";

/// Which values mean that there is none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Missing {
    /// The values that the options name, in lower case; the usual ones if nothing is named.
    named: Option<Vec<String>>,
}

impl Missing {
    pub(crate) fn of(options: &ReadOptions) -> Self {
        let remembered = options.remembered().and_then(|options| options.missing.as_ref());
        let named = options.missing.as_ref().or(remembered);
        Missing { named: named.map(|words| words.iter().map(|word| word.trim().to_lowercase()).collect()) }
    }

    /// Checks whether a field holds no value.
    pub(crate) fn is_none(&self, field: &str) -> bool {
        let field = field.trim();
        field.is_empty() || self.is_word(field)
    }

    /// Checks whether a field that is not empty stands for an empty one.
    pub(crate) fn is_word(&self, field: &str) -> bool {
        let field = field.trim();
        // Values that stand for none are short.
        if field.is_empty() || field.len() > 64 {
            return false;
        }
        let folded = field.to_lowercase();
        match &self.named {
            Some(named) => named.contains(&folded),
            None => field == EXACT || WORDS.contains(&folded.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_stand_for_none_are_known() {
        let usual = Missing::default();
        for field in ["", "  ", "NaN", "nan", "NULL", "N/A", "n/a", "NA", "?", "<NA>", "#N/A"] {
            assert!(usual.is_none(field), "{field}");
        }
        for field in ["none", "None", "na", "nah", "unknown", "??", "-", "0"] {
            assert!(!usual.is_none(field), "{field}");
        }
        let named = Missing::of(&ReadOptions { missing: Some(vec!["None".into(), "-".into()]), ..Default::default() });
        assert!(named.is_none("none") && named.is_none("-") && named.is_none("") && !named.is_none("NaN"));
        let nothing = Missing::of(&ReadOptions { missing: Some(Vec::new()), ..Default::default() });
        assert!(!nothing.is_none("NA") && nothing.is_none(" "));
    }
}
