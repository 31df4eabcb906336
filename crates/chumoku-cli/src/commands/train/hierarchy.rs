//! Trees of classes: requested by the user, or recognized from the labels.

use crate::progress::print_status;
use chumoku::data::{Dataset, MultiLabelDataset, format_thousands};
use chumoku::hierarchy::{Hierarchy, HierarchySource};
use chumoku::lang::{lang, sanitize};
use chumoku::tr;

/// Returns the tree of a file's classes, if they form one, and reports it. Renames the labels of all files to those of
/// the tree.
pub(super) fn class_tree(
    requested: Option<&str>,
    dataset: &mut Dataset,
    others: [&mut Option<Dataset>; 2],
) -> anyhow::Result<Option<Hierarchy>> {
    let Some((tree, paths)) = HierarchySource::build_class_tree(requested, dataset, others)? else { return Ok(None) };
    let counts: Vec<usize> = (1..=tree.depth()).map(|level| tree.count_at_level(level)).collect();
    let counts = format_counts(&counts);
    let what = tr!("{counts} classes", "クラス数は {counts}");
    print_status(["levels", "階層"], &describe_tree(&tree, &paths, &what, requested.is_none()));
    Ok(Some(tree))
}

/// Returns the tree of a file's labels for multi-label data, if they form one, and reports it. Adds the ancestors of
/// each label to its row.
pub(super) fn label_tree(
    requested: Option<&str>,
    sets: &mut MultiLabelDataset,
    others: [&mut Option<MultiLabelDataset>; 2],
) -> anyhow::Result<Option<Hierarchy>> {
    let Some((tree, paths)) = HierarchySource::build_label_tree(requested, sets, others)? else { return Ok(None) };
    let mut counts = vec![0; tree.depth()];
    tree.nodes().iter().enumerate().for_each(|(label, _)| counts[tree.path(label).len() - 1] += 1);
    let counts = format_counts(&counts);
    let what = tr!("{counts} labels", "ラベル数は {counts}");
    let above = lang().pick("; rows also get the ancestors of their labels", "。各行には上位のラベルも付けます");
    print_status(["levels", "階層"], &(describe_tree(&tree, &paths, &what, requested.is_none()) + above));
    Ok(Some(tree))
}

fn format_counts(counts: &[usize]) -> String {
    counts.iter().map(|count| format_thousands(*count)).collect::<Vec<_>>().join(lang().pick(", ", "、"))
}

/// Describes the tree in a line; `what` gives the counts per level.
fn describe_tree(tree: &Hierarchy, paths: &HierarchySource, what: &str, is_found: bool) -> String {
    let depth = tree.depth();
    match paths {
        HierarchySource::Separator(separator) => {
            let separator = sanitize(separator.trim());
            let off = match is_found {
                true => tr!("; --hierarchy none treats them as plain names", "。ただの名前なら --hierarchy none"),
                false => String::new(),
            };
            tr!(
                "labels are paths with {separator} between names: {depth} levels of {what}{off}",
                "ラベルは {separator} で区切ったパス: {depth} 段、{what}{off}"
            )
        }
        _ => tr!("{depth} levels of {what}", "{depth} 段、{what}"),
    }
}
