//! The crates stand on floors, and so do the modules inside each: a manifest that reaches up, or modules in a circle, fail.
//!
//! Cargo refuses circles between crates; this test also refuses an arrow that skips the drawing in ARCHITECTURE.md. Inside
//! a crate the rooms are the files and folders of `src`; what a room and its own children do is theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::Visit;
use syn::{Item, UseTree};

/// Each crate, and those of ours that it may depend on.
const FLOORS: &[(&str, &[&str])] = &[
    ("chumoku-kernels", &[]),
    ("chumoku-nn", &["chumoku-kernels"]),
    ("chumoku-text", &[]),
    ("chumoku", &["chumoku-kernels", "chumoku-nn", "chumoku-text"]),
    ("chumoku-view", &["chumoku-kernels", "chumoku"]),
    ("chumoku-cli", &["chumoku-kernels", "chumoku", "chumoku-view"]),
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates").to_path_buf()
}

/// Our crates in the `[dependencies]` of a manifest.
fn dependencies(manifest: &str) -> BTreeSet<&str> {
    let (_, rest) = manifest.split_once("[dependencies]").unwrap_or_default();
    let section = rest.split("\n[").next().unwrap_or_default();
    let names = section.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| *name == "chumoku" || name.starts_with("chumoku-")).collect()
}

#[test]
fn crates_depend_on_floors_below_them() {
    for (name, allowed) in FLOORS {
        let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).expect("a manifest");
        let found = dependencies(&manifest);
        assert_eq!(found, allowed.iter().copied().collect(), "{name}: draw it in ARCHITECTURE.md first");
    }
    let folders = fs::read_dir(crates()).expect("crates").map(|entry| entry.expect("an entry").file_name());
    let known = |name: &str| FLOORS.iter().any(|(floor, _)| *floor == name) || ["testkit", "mutate"].contains(&name);
    folders.for_each(|name| assert!(known(&name.to_string_lossy()), "{}: on which floor?", name.display()));
}

/// The first names behind `crate::`, outside of tests.
#[derive(Default)]
struct Arrows(BTreeSet<String>);

/// Whether an item is there in tests alone.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    let cfg_test = |attribute: &syn::Attribute| {
        attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    };
    attributes.iter().any(cfg_test)
}

/// The first names of a tree of imports.
fn heads(tree: &UseTree, found: &mut BTreeSet<String>) {
    match tree {
        UseTree::Path(path) => drop(found.insert(path.ident.to_string())),
        UseTree::Name(name) => drop(found.insert(name.ident.to_string())),
        UseTree::Rename(name) => drop(found.insert(name.ident.to_string())),
        UseTree::Group(group) => group.items.iter().for_each(|tree| heads(tree, found)),
        UseTree::Glob(_) => {}
    }
}

impl<'a> Visit<'a> for Arrows {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Const(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            _ => return syn::visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        if let UseTree::Path(path) = &item.tree
            && path.ident == "crate"
        {
            heads(&path.tree, &mut self.0);
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        if let [first, second, ..] = path.segments.iter().collect::<Vec<_>>()[..]
            && first.ident == "crate"
        {
            self.0.insert(second.ident.to_string());
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, of: &'a syn::Macro) {
        // Arguments of macros are tokens: `crate::name` among them counts all the same.
        let text = of.tokens.to_string();
        let names = text.split("crate :: ").skip(1).filter_map(|rest| rest.split([' ', '(', ':']).next());
        self.0.extend(names.map(str::to_owned));
        syn::visit::visit_macro(self, of);
    }
}

/// The source files of a room: a file, or all in a folder.
fn sources(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        fs::read_dir(path).expect("a folder").for_each(|entry| sources(&entry.expect("an entry").path(), found));
    } else if path.extension().is_some_and(|ending| ending == "rs") {
        found.push(path.to_owned());
    }
}

/// The rooms of a crate, each with the rooms that it reaches for.
fn rooms(src: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut rooms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut names = BTreeMap::new();
    for entry in fs::read_dir(src).expect("sources") {
        let path = entry.expect("an entry").path();
        let room = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let mut files = Vec::new();
        sources(&path, &mut files);
        for file in files.iter().filter(|file| !file.to_string_lossy().contains("tests")) {
            let source = fs::read_to_string(file).expect("a source file");
            let parsed = syn::parse_file(&source).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            if room == "lib" || room == "main" {
                names.extend(handed_on(&parsed));
                continue;
            }
            let mut arrows = Arrows::default();
            arrows.visit_file(&parsed);
            rooms.entry(room.clone()).or_default().extend(arrows.0);
        }
    }
    // What the root hands on comes from a room.
    let known: BTreeSet<String> = rooms.keys().cloned().collect();
    for (room, arrows) in &mut rooms {
        let reached = arrows.iter().map(|name| names.get(name).unwrap_or(name)).filter(|name| known.contains(*name));
        *arrows = reached.filter(|name| *name != room).cloned().collect();
    }
    rooms
}

/// The names that a crate's root hands on, each with the room that it is of.
fn handed_on(root: &syn::File) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for item in &root.items {
        if let Item::Use(item) = item
            && let UseTree::Path(path) = &item.tree
        {
            let mut found = BTreeSet::new();
            heads(&path.tree, &mut found);
            names.extend(found.into_iter().map(|name| (name, path.ident.to_string())));
        }
    }
    names
}

/// Rooms that stand in a circle: each reaches the next, and the last the first.
fn circle(rooms: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    // Rooms that reach for none are taken away until none is left, or those that are left stand in circles.
    let mut left = rooms.clone();
    while let Some(room) = left.iter().find(|(_, arrows)| arrows.is_empty()).map(|(room, _)| room.clone()) {
        left.remove(&room);
        left.values_mut().for_each(|arrows| {
            arrows.remove(&room);
        });
    }
    let (first, _) = left.first_key_value()?;
    let mut way = vec![first.clone()];
    loop {
        let next = left[way.last().expect("a start")].first().expect("an arrow").clone();
        if let Some(at) = way.iter().position(|room| *room == next) {
            return Some(way.split_off(at));
        }
        way.push(next);
    }
}

/// Rooms of the kernels whose arrows are not followed: `real` and `element` choose the version of every operation for a type
/// of number, and `reference` has the plain versions, which take the operations' own types.
const SEAMS: [&str; 3] = ["real", "element", "reference"];

#[test]
fn rooms_of_a_crate_stand_in_no_circle() {
    for (name, _) in FLOORS {
        let mut rooms = rooms(&crates().join(name).join("src"));
        if *name == "chumoku-kernels" {
            SEAMS.iter().for_each(|seam| rooms.get_mut(*seam).expect("a room of the kernels").clear());
        }
        assert!(rooms.len() > 1, "{name}: {}: where have they gone?", rooms.len());
        if let Some(circle) = circle(&rooms) {
            panic!("{name}: in a circle: {}", circle.join(" → "));
        }
    }
}

#[test]
fn circles_and_arrows_are_found() {
    let rooms = |arrows: &[(&str, &[&str])]| -> BTreeMap<String, BTreeSet<String>> {
        arrows.iter().map(|(room, to)| ((*room).into(), to.iter().map(|to| (*to).into()).collect())).collect()
    };
    assert_eq!(circle(&rooms(&[("a", &["b"]), ("b", &["c"]), ("c", &[])])), None);
    assert_eq!(circle(&rooms(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])])).unwrap(), ["b", "c"]);
    let source = "use crate::{one::A, two}; use other::crate_like; fn f() { crate::three::g(tr!(crate::four::h())) } \
                  #[cfg(test)] mod tests { use crate::five; }";
    let mut arrows = Arrows::default();
    arrows.visit_file(&syn::parse_file(source).unwrap());
    assert_eq!(arrows.0.iter().map(String::as_str).collect::<Vec<_>>(), ["four", "one", "three", "two"]);
    let manifest = "[package]\nname = \"x\"\n[dependencies]\nchumoku = { workspace = true }\nchumoku-nn.workspace = \
                    true\nrayon.workspace = true\n[dev-dependencies]\nchumoku-view.workspace = true\n";
    assert_eq!(dependencies(manifest).into_iter().collect::<Vec<_>>(), ["chumoku", "chumoku-nn"]);
}
