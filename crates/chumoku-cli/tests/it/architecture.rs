//! ARCHITECTURE.md stays short, and names only files and items that exist, in the files where it says they are.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Paths of the repository's files and folders, each with the text of a Rust source and nothing for the others.
fn files(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).expect("a folder of the repository") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("a name in UTF-8");
            let path = folder.join(&name);
            let shown = path.to_str().expect("a path in UTF-8").replace('\\', "/");
            if entry.path().is_dir() {
                if !["target", ".git", "node_modules"].contains(&name.as_str()) {
                    found.insert(format!("{shown}/"), String::new());
                    folders.push(path);
                }
            } else {
                let is_source = name.ends_with(".rs") && shown.contains("/src/");
                let source =
                    if is_source { fs::read_to_string(entry.path()).expect("a source") } else { String::new() };
                found.insert(shown, source);
            }
        }
    }
    found
}

/// A code span, and the path in the brackets after it.
struct Mention<'a> {
    code: &'a str,
    path: Option<&'a str>,
}

/// Returns the code spans of a page. Blocks of code are skipped.
fn mentions(page: &str) -> Vec<Mention<'_>> {
    let prose = page.split("```").step_by(2);
    let mut mentions: Vec<Mention> = Vec::new();
    for text in prose {
        let pieces: Vec<&str> = text.split('`').collect();
        for at in (1..pieces.len()).step_by(2) {
            let is_in_brackets = pieces[at - 1].split_whitespace().eq(["("]) && is_path(pieces[at]);
            match mentions.last_mut().filter(|_| is_in_brackets) {
                Some(before) => before.path = Some(pieces[at]),
                None => mentions.push(Mention { code: pieces[at], path: None }),
            }
        }
    }
    mentions
}

fn is_path(code: &str) -> bool {
    let is_file = [".rs", ".toml", ".json", ".md", ".py"].iter().any(|end| code.ends_with(end));
    is_file || code.contains('/') && !code.contains(' ')
}

/// Returns the words of a text that can be names.
fn names(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|name| name.len() > 1)
}

/// Returns the problems of a page.
fn problems(page: &str, files: &BTreeMap<String, String>) -> Vec<String> {
    let ends_with = |path: &str, end: &str| path == end || path.ends_with(&format!("/{end}"));
    let sources = files.iter().filter(|(_, source)| !source.is_empty());
    let sources: Vec<(&String, HashSet<&str>)> = sources.map(|(file, text)| (file, names(text).collect())).collect();
    let mut problems = Vec::new();
    for Mention { code, path } in mentions(page) {
        // Files of model folders are not files of the repository.
        if ["config.json", "model.safetensors"].contains(&code) {
            continue;
        }
        let cited = path.or(Some(code).filter(|code| is_path(code)));
        if let Some(cited) = cited.filter(|cited| !files.keys().any(|file| ends_with(file, cited))) {
            problems.push(format!("`{cited}`: no such file"));
        }
        if cited == Some(code) {
            continue;
        }
        let place = path.map_or("any source".to_owned(), |path| format!("`{path}`"));
        for name in names(code) {
            let mut candidates = sources.iter().filter(|(file, _)| path.is_none_or(|path| ends_with(file, path)));
            if !candidates.any(|(_, words)| words.contains(name)) {
                problems.push(format!("`{code}`: {name} is not in {place}"));
            }
        }
    }
    problems
}

#[test]
fn architecture_page_names_what_exists() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap().replace("\r\n", "\n");
    assert!(page.len() <= 12_288, "ARCHITECTURE.md has {} bytes; at most 12,288", page.len());
    let found = mentions(&page);
    assert!(found.len() > 100 && found.iter().filter(|mention| mention.path.is_some()).count() > 20);
    let problems = problems(&page, &files(&root()));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn wrong_names_are_found() {
    let mut files = BTreeMap::new();
    files.insert("crates/a/src/".to_owned(), String::new());
    files.insert("crates/a/src/loss.rs".to_owned(), "pub fn cross_entropy() { Loss::new() }".to_owned());
    files.insert("crates/a/src/run.rs".to_owned(), "struct Run;".to_owned());
    let check = |page: &str| problems(page, &files).len();
    assert_eq!(
        check("`cross_entropy` (`loss.rs`) and `Loss::new`\n(`src/loss.rs`), `a/src/`\n```\n`gone.rs`\n```\n"),
        0
    );
    assert_eq!(check("`cross_entropy` (`run.rs`)"), 1);
    assert_eq!(check("`loss.rs` has `cross_entropies`"), 1);
    assert_eq!(check("`Run` in `ran.rs`, `Run` (`gone/run.rs`)"), 3);
}
