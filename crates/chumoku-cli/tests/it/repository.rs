//! The repository's files can be checked out on every system with the same bytes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The reason why a file cannot be checked out everywhere, from its mode in Git and its path.
fn problem(mode: &str, path: &str) -> Option<&'static str> {
    const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "com", "lpt"];
    let part_has = |wrong: &dyn Fn(&str) -> bool| path.split('/').any(wrong);
    let is_device = |part: &str| {
        let stem = part.split('.').next().unwrap_or_default().to_ascii_lowercase();
        DEVICES.contains(&stem.trim_end_matches(|digit: char| digit.is_ascii_digit()))
    };
    let is_refused = |letter: char| letter.is_control() || "<>:\"\\|?*".contains(letter);
    match mode {
        "120000" => Some("a symbolic link: on Windows it becomes a file with the name of its target"),
        "160000" => Some("a submodule"),
        _ if part_has(&|part| part.contains(is_refused)) => Some("a letter that Windows refuses in names"),
        _ if part_has(&|part| part.ends_with(['.', ' '])) => Some("a name that Windows shortens"),
        _ if part_has(&is_device) => Some("the name of a device on Windows"),
        // With its parent folder, the path must stay below 260 characters.
        _ if path.chars().count() > 150 => Some("a path that is too long for Windows"),
        _ => None,
    }
}

#[test]
fn every_system_can_check_out_the_repository() {
    let listed = Command::new("git").args(["ls-files", "--stage", "-z"]).current_dir(root()).output();
    let Some(listed) = listed.ok().filter(|output| output.status.success()) else {
        eprintln!("\nSKIPPED: the names of the repository's files need git and its folder .git\n");
        return;
    };
    let listed = String::from_utf8(listed.stdout).expect("names in UTF-8");
    // `mode hash stage<TAB>path`
    let files: Vec<(&str, &str)> = listed
        .split('\0')
        .filter_map(|entry| entry.split_once('\t'))
        .map(|(about, path)| (about.split(' ').next().unwrap_or_default(), path))
        .collect();
    assert!(files.len() > 500, "{} files", files.len());
    let problems: Vec<String> = files
        .iter()
        .filter_map(|(mode, path)| problem(mode, path).map(|problem| format!("{path}: {problem}")))
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    // Windows and macOS do not distinguish names that differ only in case.
    let mut names = BTreeMap::new();
    for (_, path) in files {
        if let Some(other) = names.insert(path.to_lowercase(), path) {
            assert_eq!(path, other, "differ in case alone");
        }
    }
}

#[test]
fn problematic_files_are_found() {
    let long = "long/".repeat(40);
    let found = |path| problem("100644", path).is_some();
    assert!(problem("120000", "docs/link").is_some() && problem("160000", "peer").is_some());
    assert!(
        ["a/b:c", "what?.md", "a\\b", "tab\t", "end./x", "end ", "aux", "src/Con.rs", "com1.txt"]
            .into_iter()
            .all(found)
    );
    assert!(found(&long));
    assert!(!["README.ja.md", "crates/a/src/auxiliary.rs", "docs/console.md", ".gitattributes"].into_iter().any(found));
}

#[test]
fn line_endings_are_checked_out_unchanged() {
    let attributes = std::fs::read_to_string(root().join(".gitattributes")).unwrap();
    assert!(attributes.lines().any(|line| line == "* -text"), "{attributes}");
    // Git may still have changed all of them. Tests that compare texts would then fail without an obvious reason.
    let source = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert!(!source.contains('\r'), "Git changed line ends: check out again with core.autocrlf=false");
}
