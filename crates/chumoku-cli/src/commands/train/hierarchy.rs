//! Classes that stand in a tree: as asked for, or as labels say it.

use crate::harmless;
use crate::progress::tell;
use chumoku::data::{Dataset, thousands};
use chumoku::hierarchy::{Hierarchy, Paths};
use chumoku::lang::lang;
use chumoku::tr;

/// The tree of the classes of a file, if they stand in one, which is said; its labels and those of the other files are then written
/// as those of the tree.
pub(super) fn of(
    asked: Option<&str>,
    dataset: &mut Dataset,
    others: [&mut Option<Dataset>; 2],
) -> anyhow::Result<Option<Hierarchy>> {
    let Some((tree, paths)) = Paths::tree_of(asked, dataset, others)? else { return Ok(None) };
    tell(["levels", "階層"], &said(&tree, &paths, asked.is_none()));
    Ok(Some(tree))
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
