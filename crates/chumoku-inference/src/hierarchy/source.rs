//! Sources of a class tree: labels that are paths, or a file of children and parents.

use super::{Hierarchy, HierarchyNode};
use crate::data::{DataError, Dataset, MultiLabelDataset, ReadOptions, RowSource, SourceLocation};
use crate::lang::wording::{did_you_mean, quote};
use crate::{Error, Result, tr};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// The separators that are detected automatically.
const SEPARATORS: [&str; 3] = [" > ", "/", "／"];

/// The option value for no tree.
const NO_HIERARCHY: &str = "none";

/// Headings of a column of parents.
const PARENT_HEADINGS: [&str; 5] = ["parent", "parents", "parent_label", "親", "上位"];

/// The source of a class tree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HierarchySource {
    /// Labels are paths: names from the top, with this separator.
    Separator(String),
    /// A file lists the parent of each label.
    Parents(ParentTable),
}

/// The parents of names, from a file or a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentTable {
    path: PathBuf,
    /// `true` if `path` is a model folder, whose tree this is.
    is_model: bool,
    /// For each name in the first column: its parent, if any, and the position of the row.
    parents: HashMap<String, (Option<String>, SourceLocation)>,
}

/// Splits a path into trimmed names. `None` if a name is empty.
fn names<'a>(label: &'a str, separator: &str) -> Option<Vec<&'a str>> {
    let names: Vec<&str> = label.split(separator).map(str::trim).collect();
    names.iter().all(|name| !name.is_empty()).then_some(names)
}

/// Returns a path with trimmed names. `None` if a name is empty.
pub(super) fn normalize_path(label: &str, separator: &str) -> Option<String> {
    names(label, separator).map(|names| names.join(separator))
}

impl HierarchySource {
    /// Detects whether labels are paths: most must have a separator between names, and at least two must share their
    /// first name.
    #[must_use]
    pub(crate) fn detect(labels: &[String]) -> Option<HierarchySource> {
        let is_tree = |separator: &&str| {
            let paths: Vec<Vec<&str>> = labels.iter().filter_map(|label| names(label, separator)).collect();
            let paths: Vec<&Vec<&str>> = paths.iter().filter(|path| path.len() > 1).collect();
            let tops: HashSet<&str> = paths.iter().map(|path| path[0]).collect();
            2 * paths.len() > labels.len() && tops.len() < paths.len()
        };
        SEPARATORS
            .iter()
            .find(|separator| is_tree(separator))
            .map(|separator| HierarchySource::Separator((*separator).to_owned()))
    }

    /// Builds the tree of a file's classes, if there is one. Also normalizes the labels of the file and of the
    /// `others`. `spec` is a separator, a file of parents or `none`. By default, the labels decide.
    ///
    /// # Errors
    /// If the labels do not match `spec`, or the file cannot be read.
    pub fn build_class_tree(
        requested: Option<&str>,
        dataset: &mut Dataset,
        others: [&mut Option<Dataset>; 2],
    ) -> Result<Option<(Hierarchy, HierarchySource)>> {
        let paths = match requested {
            Some(NO_HIERARCHY) => None,
            None => HierarchySource::detect(&dataset.labels()),
            Some(requested) => Some(HierarchySource::parse(requested)?),
        };
        let Some(paths) = paths else { return Ok(None) };
        paths.normalize_labels(dataset)?;
        for other in others.into_iter().flatten() {
            paths.normalize_labels(other)?;
        }
        Ok(Some((paths.build(&dataset.labels())?, paths)))
    }

    /// Builds the tree of a multi-label file, if there is one. Also adds all ancestors to each row of the file and of
    /// the `others`. `spec` has the meaning of [`build_class_tree`](Self::build_class_tree).
    ///
    /// # Errors
    /// If the labels do not match `spec`, or the file cannot be read.
    pub fn build_label_tree(
        requested: Option<&str>,
        sets: &mut MultiLabelDataset,
        others: [&mut Option<MultiLabelDataset>; 2],
    ) -> Result<Option<(Hierarchy, HierarchySource)>> {
        let paths = match requested {
            Some(NO_HIERARCHY) => None,
            None => HierarchySource::detect(&sets.labels()),
            Some(requested) => Some(HierarchySource::parse(requested)?),
        };
        let Some(paths) = paths else { return Ok(None) };
        paths.add_ancestors(sets)?;
        for other in others.into_iter().flatten() {
            paths.add_ancestors(other)?;
        }
        Ok(Some((paths.build(&sets.labels())?, paths)))
    }

    /// Adds the ancestors of its labels to each row.
    fn add_ancestors(&self, sets: &mut MultiLabelDataset) -> Result<()> {
        let mut bad = None;
        for (row, example) in sets.examples.iter_mut().enumerate() {
            let mut all: Vec<String> = Vec::new();
            for label in &example.labels {
                match self.normalized_label(label) {
                    Some(label) => all.extend(self.path_names(&label)),
                    None => bad = bad.or_else(|| Some((row, label.clone()))),
                }
            }
            let mut seen = HashSet::new();
            all.retain(|label| seen.insert(label.clone()));
            example.labels = all;
        }
        match bad {
            Some((row, label)) => Err(self.unplaced_label_error(&sets.location(row), &label)),
            None => Ok(()),
        }
    }

    /// Returns a label in the form of the tree. `None` if it is not a path, or not in the file of parents.
    fn normalized_label(&self, label: &str) -> Option<String> {
        match self {
            HierarchySource::Separator(separator) => normalize_path(label, separator),
            HierarchySource::Parents(parents) => parents.contains(label).then(|| label.to_owned()),
        }
    }

    /// Returns the names on the path to a label, from the top.
    fn path_names(&self, label: &str) -> Vec<String> {
        match self {
            HierarchySource::Separator(separator) => {
                let parts: Vec<&str> = label.split(separator.as_str()).collect();
                (1..=parts.len()).map(|count| parts[..count].join(separator)).collect()
            }
            HierarchySource::Parents(parents) => parents.path_to(label),
        }
    }

    /// Parses the option value. A separator contains no letters and no digits.
    fn parse(requested: &str) -> Result<HierarchySource> {
        if requested.is_empty() {
            return Err(Error::Setting(tr!(
                "hierarchy: expected the separator of paths (such as /), a file of children and parents, or none; found nothing",
                "階層: パスの区切り（/ など）、親子の表のファイル、none のいずれかが必要ですが、空です"
            )));
        }
        match Path::new(requested).is_file() || requested.chars().any(char::is_alphanumeric) {
            true => HierarchySource::from_file(Path::new(requested)),
            false => Ok(HierarchySource::Separator(requested.to_owned())),
        }
    }

    /// Reads a table of names and their parents from the first two columns. A name without a parent is at the top.
    ///
    /// # Errors
    /// If the file cannot be read, a name has two parents, or names form a cycle.
    pub fn from_file(path: &Path) -> Result<HierarchySource> {
        ParentTable::read(path).map(HierarchySource::Parents)
    }

    /// Returns the source that matches the tree of a model, for placing new labels.
    pub fn from_tree(tree: &Hierarchy, folder: &Path) -> HierarchySource {
        if let Some(separator) = tree.separator() {
            return HierarchySource::Separator(separator.to_owned());
        }
        let place = SourceLocation::line(folder, 0);
        let parent = |node: &HierarchyNode| node.parent.map(|parent| tree.nodes()[parent].name.clone());
        let of = tree.nodes().iter().map(|node| (node.name.clone(), (parent(node), place.clone()))).collect();
        HierarchySource::Parents(ParentTable { path: folder.to_owned(), is_model: true, parents: of })
    }

    /// Normalizes the labels of a multi-label file, and adds their ancestors.
    ///
    /// # Errors
    /// As for [`normalize_labels`](Self::normalize_labels).
    pub fn normalize_sets(&self, sets: &mut MultiLabelDataset) -> Result<()> {
        self.add_ancestors(sets)
    }

    /// Normalizes the labels of a file: removes white space around the names of a path.
    ///
    /// # Errors
    /// The first row whose path has an empty name, or whose label is not in the file of parents.
    pub fn normalize_labels(&self, dataset: &mut Dataset) -> Result<()> {
        let mut bad = None;
        for (row, example) in dataset.examples.iter_mut().enumerate() {
            match self.normalized_label(&example.label) {
                Some(label) => example.label = label,
                None => bad = bad.or(Some(row)),
            }
        }
        match bad {
            Some(row) => Err(self.unplaced_label_error(&dataset.location(row), &dataset.examples[row].label)),
            None => Ok(()),
        }
    }

    /// The error for a label without a place in the tree.
    fn unplaced_label_error(&self, place: &SourceLocation, label: &str) -> Error {
        let shown = quote(label);
        Error::Setting(match self {
            HierarchySource::Separator(separator) => tr!(
                "{place}: reading the path {shown}: expected a name before and after each {}, found none; fill it in, or give --hierarchy none if the labels are not paths",
                "{place}: パス {shown} を読めません。{} の前後にはそれぞれ名前が必要ですが、空です。名前を入れてください。ラベルがパスでないときは --hierarchy none を指定してください",
                quote(separator)
            ),
            HierarchySource::Parents(parents) if parents.is_model => {
                let (folder, hint) = (parents.path.display(), did_you_mean(label, parents.names()));
                tr!(
                    "{place}: looking up the parent of {shown}: the tree of {folder} does not contain it{hint}; give --hierarchy FILE, a table of children and parents that lists it and every label of the model",
                    "{place}: {shown} の親が {folder} の階層にありません{hint}。このラベルとモデルの知るすべてのラベルの親を書いた表を --hierarchy で指定してください"
                )
            }
            HierarchySource::Parents(parents) => {
                let (file, hint) = (parents.path.display(), did_you_mean(label, parents.names()));
                tr!(
                    "{place}: looking up the parent of {shown}: {file} does not list it{hint}; add a row for it, with an empty parent if it is at the top",
                    "{place}: {shown} の親が {file} にありません{hint}。行を加えてください。最上位なら親の欄は空にします"
                )
            }
        })
    }

    /// Builds the tree of these classes.
    ///
    /// # Errors
    /// If no class has a parent.
    pub fn build(&self, labels: &[String]) -> Result<Hierarchy> {
        let separator = match self {
            HierarchySource::Separator(separator) => Some(separator.clone()),
            HierarchySource::Parents(_) => None,
        };
        let tree = Hierarchy::from_paths(labels, separator, |label| self.path_names(label));
        if tree.depth() > 1 {
            return Ok(tree);
        }
        let count = labels.len();
        Err(Error::Setting(match self {
            HierarchySource::Separator(separator) => tr!(
                "hierarchy: expected paths with {} between names, found none among {count} labels, such as {}; give the right separator, or leave the option out",
                "hierarchy: 名前の間に {} のあるパスが必要ですが、{count} 個のラベルにはありません（例: {}）。区切りを指定し直すか、指定を外してください",
                quote(separator),
                labels.first().map_or_else(String::new, |label| quote(label))
            ),
            HierarchySource::Parents(parents) => tr!(
                "hierarchy: {} gives none of the {count} labels a parent; write a row for each, child,parent",
                "hierarchy: {} には、{count} 個のラベルのどれにも親がありません。行ごとに「子,親」を書いてください",
                parents.path.display()
            ),
        }))
    }
}

impl ParentTable {
    fn read(path: &Path) -> Result<ParentTable> {
        let mut options = ReadOptions::default();
        (options.text, options.label, options.header) = (Some("1".into()), Some("2".into()), Some(false));
        let source = RowSource::open(path, &options).map_err(|error| match error {
            DataError::NoSuchColumn { .. } | DataError::NoColumn { .. } => Error::Setting(tr!(
                "{}: reading parents: expected two columns, a name and its parent, found one; write child,parent on each line",
                "{}: 親子の表を読めません。名前とその親の 2 列が必要ですが、1 列です。各行に「子,親」を書いてください",
                path.display()
            )),
            other => other.into(),
        })?;
        let (first, second) = (source.columns().text, source.columns().label.unwrap_or(1));
        let mut of: HashMap<String, (Option<String>, SourceLocation)> = HashMap::new();
        let (mut records, mut is_first) = (source.records(), true);
        while let Some(record) = records.next() {
            let record = record?;
            let is_heading = std::mem::take(&mut is_first);
            let [child, parent] = [first, second].map(|column| record.field(column).trim().to_owned());
            if is_heading && PARENT_HEADINGS.contains(&parent.to_lowercase().as_str()) {
                continue;
            }
            let place = records.source().location(record.line);
            if child.is_empty() {
                return Err(Error::Setting(tr!(
                    "{place}: reading parents: expected a name in the first column, found none; fill it in, or remove the row",
                    "{place}: 親子の表を読めません。1 列目に名前が必要ですが、空です。名前を入れるか、行を消してください"
                )));
            }
            let parent = (!parent.is_empty()).then_some(parent);
            if let Some((other, before)) = of.get(&child).filter(|(other, _)| *other != parent) {
                let name = |parent: &Option<String>| match parent {
                    Some(name) => quote(name),
                    None => tr!("none", "なし"),
                };
                let (child, one, two, line) = (quote(&child), name(other), name(&parent), before.line);
                return Err(Error::Setting(tr!(
                    "{place}: reading parents: {child} has the parent {one} on line {line} and {two} here; a name can have only one parent: remove one of the rows",
                    "{place}: {child} の親が {line} 行目では {one}、ここでは {two} です。親は 1 つだけです。どちらかの行を消してください"
                )));
            }
            of.entry(child).or_insert((parent, place));
        }
        let parents = ParentTable { path: path.to_owned(), is_model: false, parents: of };
        parents.check_acyclic()?;
        Ok(parents)
    }

    /// Iterates over all names.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.parents.iter().flat_map(|(child, (parent, _))| std::iter::once(child.as_str()).chain(parent.as_deref()))
    }

    fn contains(&self, name: &str) -> bool {
        self.parents.contains_key(name) || self.parents.values().any(|(parent, _)| parent.as_deref() == Some(name))
    }

    fn parent(&self, name: &str) -> Option<&str> {
        self.parents.get(name).and_then(|(parent, _)| parent.as_deref())
    }

    /// Checks that this file keeps the tree of a model: each name must have the same parent here.
    ///
    /// # Errors
    /// The first name that is missing or has another parent.
    pub fn check_extends(&self, tree: &Hierarchy) -> Result<()> {
        for node in tree.nodes() {
            let of_model = node.parent.map(|parent| tree.nodes()[parent].name.as_str());
            if self.contains(&node.name) && self.parent(&node.name) == of_model {
                continue;
            }
            let top = || tr!("the top", "最上位");
            let (file, name) = (self.path.display(), quote(&node.name));
            let [expected, found] = [of_model, self.parent(&node.name)].map(|parent| parent.map_or_else(top, quote));
            return Err(Error::Setting(match self.contains(&node.name) {
                true => tr!(
                    "{file}: {name} is below {found}, but below {expected} in the model's tree; the labels of a model cannot move: put it back, or train from scratch on the old and new rows together",
                    "{file}: {name} の親は {found} ですが、モデルの階層では {expected} です。モデルの知るラベルの親は変えられません。元に戻すか、元のデータと新しいデータを合わせて学習し直してください"
                ),
                false => tr!(
                    "{file}: expected every label of the model, found no row for {name}; add one with the parent {expected}",
                    "{file}: モデルの知るすべてのラベルが必要ですが、{name} の行がありません。親を {expected} として加えてください"
                ),
            }));
        }
        Ok(())
    }

    /// Returns the names on the path to a name, from the top. There are no cycles.
    fn path_to(&self, name: &str) -> Vec<String> {
        let mut path: Vec<String> =
            std::iter::successors(Some(name), |name| self.parent(name)).map(str::to_owned).collect();
        path.reverse();
        path
    }

    /// Checks that no name is its own ancestor.
    fn check_acyclic(&self) -> Result<()> {
        let mut is_free: HashSet<&str> = HashSet::new();
        let mut children: Vec<(&u64, &str)> =
            self.parents.iter().map(|(child, (_, place))| (&place.line, child.as_str())).collect();
        children.sort_unstable();
        for (_, child) in children {
            let mut way: Vec<&str> = Vec::new();
            let mut at = Some(child);
            while let Some(name) = at.filter(|name| !is_free.contains(name)) {
                if let Some(begin) = way.iter().position(|before| *before == name) {
                    return Err(self.cycle_error(&way[begin..]));
                }
                way.push(name);
                at = self.parent(name);
            }
            is_free.extend(way);
        }
        Ok(())
    }

    /// The error for names that form a cycle.
    fn cycle_error(&self, names: &[&str]) -> Error {
        const MOST: usize = 4;
        let place = |name: &str| self.parents.get(name).map(|(_, place)| place.clone());
        let link = |name: &&str| {
            let (line, parent) = (place(name).map_or(0, |place| place.line), self.parent(name).unwrap_or_default());
            let [name, parent] = [name, parent].map(quote);
            tr!("{name} is below {parent} (line {line})", "{name} の親は {parent}（{line} 行目）")
        };
        let mut links: Vec<String> = names.iter().take(MOST).map(link).collect();
        if names.len() > MOST {
            links.push(tr!("and {} more", "ほか {} 件", names.len() - MOST));
        }
        let (links, first) = (crate::lang::wording::join_names(&links), names.first().and_then(|name| place(name)));
        let at = first.map_or_else(|| self.path.display().to_string(), |place| place.to_string());
        Error::Setting(tr!(
            "{at}: reading parents: the parents form a cycle: {links}; remove one of these rows, or leave its parent empty",
            "{at}: 親子の関係が循環しています: {links}。どれかの行を消すか、親の欄を空にしてください"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recognised(labels: &[&str]) -> Option<String> {
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        HierarchySource::detect(&labels).map(|paths| match paths {
            HierarchySource::Separator(separator) => separator,
            HierarchySource::Parents(_) => unreachable!("there is no file"),
        })
    }

    #[test]
    fn paths_are_detected_if_most_labels_are_paths_and_share_a_first_name() {
        assert_eq!(recognised(&["a/x", "a/y", "b"]).as_deref(), Some("/"));
        assert_eq!(recognised(&["a > x", "a > y", "b > x"]).as_deref(), Some(" > "));
        assert_eq!(recognised(&["家具／椅子", "家具／机", "服／靴"]).as_deref(), Some("／"));
        // No shared first name; half of the labels are not paths; an empty name.
        assert_eq!(recognised(&["a/x", "b/y", "c/z"]), None);
        assert_eq!(recognised(&["a/x", "a/y", "b", "c"]), None);
        assert_eq!(recognised(&["https://x", "https://y"]), None);
        assert_eq!(recognised(&["positive", "negative"]), None);
    }

    #[test]
    fn white_space_around_names_is_ignored() {
        assert_eq!(normalize_path(" a / b/c ", "/").as_deref(), Some("a/b/c"));
        assert_eq!(normalize_path("a >  b", " > ").as_deref(), Some("a > b"));
        assert_eq!(
            [normalize_path("a//b", "/"), normalize_path("/a", "/"), normalize_path("a/ ", "/")],
            [None, None, None]
        );
    }

    fn read(content: &str) -> Result<ParentTable> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("parents.csv");
        std::fs::write(&path, content).unwrap();
        ParentTable::read(&path)
    }

    #[test]
    fn parents_come_from_a_table() {
        let parents = read("child,parent\nChair,Seats\nSofa,Seats\nSeats,Furniture\nShoes,\n").unwrap();
        assert_eq!(parents.path_to("Chair"), ["Furniture", "Seats", "Chair"]);
        assert_eq!(parents.path_to("Shoes"), ["Shoes"]);
        assert!(parents.contains("Furniture") && !parents.contains("Table"));
        let labels = ["Chair", "Seats", "Shoes"].map(String::from);
        let tree = HierarchySource::Parents(parents).build(&labels).unwrap();
        assert_eq!((tree.depth(), tree.nodes().len()), (3, 4));
        tree.check(&labels).unwrap();
        // Without a heading, and with a duplicate row.
        assert_eq!(read("a,b\na,b\nb,c\n").unwrap().path_to("a"), ["c", "b", "a"]);
    }

    #[test]
    fn cycles_and_second_parents_are_rejected_with_their_line() {
        let message = |content: &str| read(content).unwrap_err().to_string();
        let circle = message("child,parent\nx,a\na,b\nb,c\nc,a\n");
        for part in ["parents.csv:3", "“a” is below “b” (line 3)", "“c” is below “a” (line 5)", "remove one"]
        {
            assert!(circle.contains(part), "{part}: {circle}");
        }
        assert!(!circle.contains("“x”"), "{circle}");
        assert!(message("a,a\nb,a\n").contains("“a” is below “a” (line 1)"));
        let two = message("child,parent\na,b\na,c\n");
        assert!(two.contains("parents.csv:3") && two.contains("“b” on line 2 and “c” here"), "{two}");
        assert!(message("child,parent\n,b\nc,b\n").contains("parents.csv:2"));
    }
}
