//! Built-in worked examples: the files of the folder `worked` next to `src`.

use crate::examples::example::WorkedExample;
use chumoku::data::DataError;
use chumoku::lang::wording::{did_you_mean, nearest_name};
use chumoku::{Error, Result};
use std::path::Path;

macro_rules! examples {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../worked/", $name, ".json")))),*]
    };
}

const EXAMPLES: [(&str, &str); 38] = examples![
    "two-tokens",
    "school",
    "cat-and-fish",
    "book",
    "film",
    "by-hand",
    "scaling",
    "five-shares",
    "four-shares",
    "causal",
    "heads",
    "review-loss",
    "training-step",
    "rnn-steps",
    "lstm-steps",
    "gru-steps",
    "recipe-book",
    "recipe-book-hard",
    "masked-row",
    "masked-row-with-numbers",
    "binary-loss",
    "autoencoder",
    "position-shift",
    "length-of-ones",
    "not-a-rotation",
    "cat-sat-mat",
    "mat-sat-cat",
    "additive",
    "input-numbers",
    "one-head-parameters",
    "heads-parameters",
    "heads-listing-parameters",
    "embedding-parameters",
    "classifier-parameters",
    "lstm-parameters",
    "attention-parameters",
    "film-classifier-parameters",
    "waves",
];

/// Returns the names of the built-in worked examples.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    EXAMPLES.iter().map(|(name, _)| *name)
}

/// Returns the names of the built-in worked examples that have matrices.
fn traceable_names() -> Vec<&'static str> {
    let has_matrices = |text| WorkedExample::parse(text).is_ok_and(|example| example.size_claims.is_empty());
    EXAMPLES.iter().filter(|(_, text)| has_matrices(text)).map(|(name, _)| *name).collect()
}

/// Returns a built-in worked example.
///
/// # Errors
/// If no example has this name; the error lists the names of those with matrices.
pub fn builtin(name: &str) -> Result<WorkedExample> {
    let Some((_, text)) = EXAMPLES.iter().find(|(known, _)| *known == name) else {
        let hint = did_you_mean(name, builtin_names());
        return Err(Error::Setting(chumoku::tr!(
            "no example is called {name}{hint}; trace can show {}",
            "{name} という計算例はありません{hint}。trace で表示できるのは {} です",
            traceable_names().join(", ")
        )));
    };
    WorkedExample::parse(text).map_err(|problem| Error::Example { action: "reading", file: name.into(), problem })
}

/// Reads a worked example from a file, as [`WorkedExample::open`] does. If the file is missing and its name resembles
/// that of a built-in example, the error names the example.
///
/// # Errors
/// As for [`WorkedExample::open`].
pub fn open_example(path: &Path) -> Result<WorkedExample> {
    WorkedExample::open(path).map_err(|error| match error {
        Error::Data(DataError::FileNotFound { path, hint }) => {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let hint = match nearest_name(&stem, traceable_names()) {
                Some(name) => chumoku::tr!(
                    "{hint}. A built-in example is called {name}: chumoku trace --example {name}",
                    "{hint}。{name} という内蔵の計算例なら chumoku trace --example {name} で表示できます"
                ),
                None => hint,
            };
            Error::Data(DataError::FileNotFound { path, hint })
        }
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_examples_parse() {
        for name in builtin_names() {
            let example = builtin(name).unwrap();
            assert!(!example.title.is_empty() && !example.source.is_empty(), "{name}");
            example.check().unwrap_or_else(|problem| panic!("{name}: {problem}"));
        }
        assert!(builtin("bock").unwrap_err().to_string().contains("did you mean “book”"));
    }

    #[test]
    fn a_missing_file_is_referred_to_the_example_of_its_name() {
        let error = |name: &str| open_example(&Path::new("no-such-folder").join(name)).unwrap_err().to_string();
        for name in ["school.json", "schol.json", "school"] {
            assert!(error(name).ends_with("chumoku trace --example school"), "{}", error(name));
        }
        assert!(!error("nope.json").contains("--example"), "{}", error("nope.json"));
    }
}
