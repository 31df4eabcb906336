//! Every command of `docs/articles.md` runs, in the order of the page, and every name on it is known.

mod common;

use common::Place;
use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The words of a command line; quotes keep them together.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn every_command_of_the_page_runs() {
    let page = fs::read_to_string(root().join("docs/articles.md")).unwrap();
    let place = Place::new();
    fs::create_dir_all(place.path("examples/worked")).unwrap();
    for file in fs::read_dir(root().join("examples/worked")).unwrap() {
        let path = file.unwrap().path();
        fs::copy(&path, place.path("examples/worked").join(path.file_name().unwrap())).unwrap();
    }
    place.write("examples/words.txt", "the cat sat on the mat. the dog sat on the log.\n".repeat(100));
    let commands: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("    chumoku ")).collect();
    assert!(commands.len() > 35, "{}", commands.len());
    for command in commands {
        let args = words(command);
        let run = place.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
        // Of published numbers some are wrong, which is what `check` is there to say.
        let is_well = run.code == 0 || (args[0] == "check" && run.code == 1);
        assert!(is_well, "chumoku {command}: {run:?}");
        assert!(!run.stdout.is_empty() || args.iter().any(|arg| arg == "--out"), "chumoku {command}: {run:?}");
    }
}

#[test]
fn every_example_of_the_page_is_there_and_every_example_is_on_it() {
    let page = fs::read_to_string(root().join("docs/articles.md")).unwrap();
    let mut named: Vec<&str> = page
        .split("examples/worked/")
        .skip(1)
        .filter_map(|rest| rest.split_once(".json").map(|(name, _)| name))
        .filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '-'))
        .collect();
    named.sort_unstable();
    named.dedup();
    let mut files: Vec<String> = fs::read_dir(root().join("examples/worked"))
        .unwrap()
        .filter_map(|file| file.unwrap().file_name().to_str()?.strip_suffix(".json").map(str::to_owned))
        .collect();
    files.sort();
    assert_eq!(named, files);
    // Types that are named exist: each is a word of the library's public interface.
    let library = fs::read_to_string(root().join("crates/chumoku/src/nn/mod.rs")).unwrap()
        + &fs::read_to_string(root().join("crates/chumoku/src/models/mod.rs")).unwrap()
        + &fs::read_to_string(root().join("crates/chumoku/src/attention.rs")).unwrap();
    for module in ["`nn::", "`models::", "`attention::"] {
        for rest in page.split(module).skip(1) {
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            assert!(library.contains(&name), "{module}{name} is named, but not there");
        }
    }
}
