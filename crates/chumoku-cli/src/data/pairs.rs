//! Text pairs: joins two texts of the command line, and checks that a file has as many texts per row as the model
//! reads.

use crate::UsageError;
use chumoku::row::{Row, RowRef};
use chumoku::tr;

/// Joins the texts of a command line as the model reads them: for a model of pairs, each two consecutive texts become
/// one.
pub(crate) fn from_arguments(texts: Vec<&str>, reads_pairs: bool) -> anyhow::Result<Vec<Row>> {
    if !reads_pairs {
        return Ok(texts.into_iter().map(Row::from).collect());
    }
    if texts.len().is_multiple_of(2) {
        return Ok(texts.chunks_exact(2).map(|two| Row::pair(two[0], two[1])).collect());
    }
    let n = texts.len();
    let problem = tr!(
        "this model reads pairs of texts: expected an even number of texts, found {n}; give each pair as \"first text\" \"second text\"",
        "このモデルは 2 つのテキストの組を読みますが、テキストの数 {n} は奇数です。\"1 つ目\" \"2 つ目\" の順に指定してください"
    );
    Err(UsageError(problem).into())
}

/// Parses a line as the model reads it: for a model of pairs, two texts with a tab between them. `flag` is the source
/// of the line.
pub(crate) fn from_line(flag: &str, line: &str, reads_pairs: bool) -> anyhow::Result<Row> {
    Row::from_line(line, reads_pairs).ok_or_else(|| {
        let problem = tr!(
            "{flag}: this model reads pairs of texts; give two texts with a tab between them",
            "{flag}: このモデルは 2 つのテキストの組を読みます。2 つのテキストをタブで区切って指定してください"
        );
        UsageError(problem).into()
    })
}

/// Refuses rows of single texts for a model of pairs, and rows of pairs for a model of single texts.
pub(crate) fn check_rows(reads_pairs: bool, are_pairs: bool) -> anyhow::Result<()> {
    let problem = match (reads_pairs, are_pairs) {
        (true, false) => tr!(
            "this model reads pairs of texts, but the file has one text per row; name both columns, as --text premise,hypothesis \
             or --text 1,2",
            "このモデルは 2 つのテキストの組を読みますが、ファイルの各行のテキストは 1 つです。--text 前提,仮説 や --text 1,2 のように、\
             両方の列を指定してください"
        ),
        (false, true) => tr!(
            "this model reads single texts, but the file has two texts per row; name the column of one of them with --text",
            "このモデルが読むのは 1 つのテキストですが、ファイルの各行には 2 つあります。どちらかの列を --text で指定してください"
        ),
        _ => return Ok(()),
    };
    Err(UsageError(problem).into())
}

/// Returns true if the first row is a pair.
pub(crate) fn are_pairs(rows: &[RowRef<'_>]) -> bool {
    rows.first().is_some_and(|row| row.is_pair())
}
