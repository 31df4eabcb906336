//! Checks that the file list at the top of each `mod.rs`, `lib.rs` and `main.rs` matches the modules of its folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Names of the modules in a folder: source files, and folders with a `mod.rs`.
fn modules(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let is_module = |path: &Path| match path.is_dir() {
        true => path.join("mod.rs").exists(),
        false => path.extension().is_some_and(|extension| extension == "rs"),
    };
    let names = entries.filter(|path| is_module(path)).filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    names.filter(|name| !["mod", "lib", "main", "tests"].contains(&name.as_str())).collect()
}

/// Names under a heading in the documentation of a module.
fn listed(source: &str, heading: &str) -> BTreeSet<String> {
    let docs = source.lines().map_while(|line| line.strip_prefix("//!"));
    let section = docs.skip_while(|line| line.trim() != heading).skip(1).take_while(|line| !line.starts_with(" # "));
    let list = section.filter_map(|line| line.strip_prefix(" - `"));
    list.filter_map(|line| line.split_once("`: ")).map(|(name, _)| name.to_owned()).collect()
}

/// Compares the list of a folder with its modules, and recurses into subfolders. Returns the number of lists.
fn check(folder: &Path, found: &mut Vec<String>) -> usize {
    let mut lists = 0;
    let has_library = folder.join("lib.rs").exists();
    for name in ["mod.rs", "lib.rs", "main.rs"].into_iter().filter(|name| *name != "main.rs" || !has_library) {
        let (path, modules) = (folder.join(name), modules(folder));
        let Ok(source) = fs::read_to_string(&path) else { continue };
        let listed = listed(&source, "# Files");
        lists += usize::from(!listed.is_empty());
        let missing = modules.difference(&listed).map(|name| format!("{}: add `{name}` to # Files", path.display()));
        let gone = listed.difference(&modules).map(|name| format!("{}: no module `{name}`", path.display()));
        found.extend(missing.chain(gone));
    }
    let inside = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let folders = inside.filter(|path| path.is_dir() && !path.ends_with("tests"));
    lists + folders.map(|path| check(&path, found)).sum::<usize>()
}

#[test]
fn every_module_lists_its_files() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
    let (mut found, mut lists) = (Vec::new(), 0);
    for entry in fs::read_dir(crates).expect("crates") {
        let source = entry.expect("an entry").path().join("src");
        lists += if source.is_dir() { check(&source, &mut found) } else { 0 };
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(lists > 40, "only {lists} lists");
}

#[test]
fn the_python_package_lists_its_files() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("chumoku-py");
    let mut modules = BTreeSet::new();
    for (folder, prefix) in [("python/chumoku", ""), ("python/chumoku/ray", "ray/")] {
        for entry in fs::read_dir(package.join(folder)).expect("a folder") {
            let name = entry.expect("an entry").file_name().into_string().expect("a name in UTF-8");
            let stem = name.strip_suffix(".py").filter(|stem| *stem != "__init__");
            modules.extend(stem.map(|stem| format!("{prefix}{stem}")));
        }
    }
    let source = fs::read_to_string(package.join("src/lib.rs")).expect("the module of Python");
    assert_eq!(listed(&source, "# Python files"), modules);
}
