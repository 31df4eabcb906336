//! Models of pairs: two texts from the command line as one, and files that have as many texts a row as a model reads.

use crate::UsageError;
use chumoku::{pair, tr};
use std::borrow::Cow;

/// The texts of a command line as a model reads them: of a model of pairs each two that follow each other are one.
pub(super) fn from_arguments(texts: Vec<&str>, reads_pairs: bool) -> anyhow::Result<Vec<String>> {
    if !reads_pairs {
        return Ok(texts.into_iter().map(|text| pair::remove_separators(text).into_owned()).collect());
    }
    if texts.len().is_multiple_of(2) {
        return Ok(texts.chunks_exact(2).map(|two| pair::join(two[0], two[1])).collect());
    }
    let n = texts.len();
    let problem = tr!(
        "this model reads pairs of texts, and {n} cannot be divided by two: give each pair as \"first text\" \"second text\"",
        "このモデルは 2 つのテキストの組を読みますが、{n} 個は 2 で割り切れません。\"1 つ目\" \"2 つ目\" の順に指定してください"
    );
    Err(UsageError(problem).into())
}

/// A line as a model reads it: of a model of pairs two texts with a tab between them; `flag` is where it comes from.
pub(super) fn from_line<'a>(flag: &str, line: &'a str, reads_pairs: bool) -> anyhow::Result<Cow<'a, str>> {
    pair::from_line(line, reads_pairs).ok_or_else(|| {
        let problem = tr!(
            "{flag}: this model reads pairs of texts: give two, with a tab between them",
            "{flag}: このモデルは 2 つのテキストの組を読みます。2 つのテキストをタブで区切って指定してください"
        );
        UsageError(problem).into()
    })
}

/// Refuses rows of single texts for a model of pairs, and rows of pairs for a model of single texts.
pub(super) fn check_rows(reads_pairs: bool, are_pairs: bool) -> anyhow::Result<()> {
    let problem = match (reads_pairs, are_pairs) {
        (true, false) => tr!(
            "this model reads pairs of texts, and the file has one text a row: name both columns, as --text premise,hypothesis \
             or --text 1,2",
            "このモデルは 2 つのテキストの組を読みますが、ファイルの各行のテキストは 1 つです。--text 前提,仮説 や --text 1,2 のように、\
             両方の列を指定してください"
        ),
        (false, true) => tr!(
            "this model reads single texts, and the file has two texts a row: name the column of one of them with --text",
            "このモデルが読むのは 1 つのテキストですが、ファイルの各行には 2 つあります。どちらかの列を --text で指定してください"
        ),
        _ => return Ok(()),
    };
    Err(UsageError(problem).into())
}

/// Whether a text is a pair.
pub(super) fn is_pair(text: Option<&str>) -> bool {
    text.is_some_and(|text| pair::split(text).is_some())
}
