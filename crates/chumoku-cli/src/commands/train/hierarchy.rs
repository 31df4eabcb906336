//! Classes that stand in a tree: as asked for, or as labels say it.

use crate::progress::tell;
use crate::{Usage, harmless};
use chumoku::data::{Dataset, thousands};
use chumoku::hierarchy::{Hierarchy, Paths};
use chumoku::lang::lang;
use chumoku::tr;
use std::path::Path;

/// The word that turns it off.
const NONE: &str = "none";

/// The tree of the classes of a file, if they stand in one; its labels and those of the other files are then written as those of
/// the tree.
pub(super) fn of(
    asked: Option<&str>,
    dataset: &mut Dataset,
    others: [&mut Option<Dataset>; 2],
) -> anyhow::Result<Option<Hierarchy>> {
    let paths = match asked {
        Some(NONE) => None,
        None => Paths::recognise(&dataset.labels()),
        Some(asked) => Some(named(asked)?),
    };
    let Some(paths) = paths else { return Ok(None) };
    paths.tidy(dataset)?;
    for other in others.into_iter().flatten() {
        paths.tidy(other)?;
    }
    let tree = paths.hierarchy(&dataset.labels())?;
    tell(["levels", "階層"], &said(&tree, &paths, asked.is_none()));
    Ok(Some(tree))
}

/// What was asked for: a separator has no letters and no digits.
fn named(asked: &str) -> anyhow::Result<Paths> {
    if asked.is_empty() {
        return Err(Usage(tr!(
            "--hierarchy: expected what stands between the names of a path (such as /), a file of children and parents, or none; found \
             nothing",
            "--hierarchy: パスの区切り（/ など）、親子の表のファイル、none のいずれかが必要ですが、空です"
        ))
        .into());
    }
    match Path::new(asked).is_file() || asked.chars().any(char::is_alphanumeric) {
        true => Ok(Paths::of_file(Path::new(asked))?),
        false => Ok(Paths::Separator(asked.to_owned())),
    }
}

/// The tree in a line.
fn said(tree: &Hierarchy, paths: &Paths, is_found: bool) -> String {
    let counts: Vec<String> = (1..=tree.depth()).map(|level| thousands(tree.nodes_at(level))).collect();
    let (depth, counts) = (tree.depth(), counts.join(lang().pick(", ", "、")));
    match paths {
        Paths::Separator(separator) => {
            let separator = harmless(separator.trim());
            let off = match is_found {
                true => tr!("; --hierarchy none takes them as plain names", "。ただの名前なら --hierarchy none"),
                false => String::new(),
            };
            tr!(
                "labels are paths with {separator} between names: {depth} levels of {counts} classes{off}",
                "ラベルは {separator} で区切ったパス: {depth} 段、クラス数は {counts}{off}"
            )
        }
        _ => tr!("{depth} levels of {counts} classes", "{depth} 段、クラス数は {counts}"),
    }
}
