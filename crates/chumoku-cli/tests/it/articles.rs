//! Runs every command of `docs/articles.md` in the order of the page, and checks every name on it. Runs the commands of
//! the claims in words in `docs/errata.md`, and checks their numbers.

use crate::common::TestDir;
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use testkit::exhaustive;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Splits a command line into words, respecting quotes.
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

/// Returns a folder with the files that are shipped, and no others.
fn shipped_files() -> TestDir {
    let place = TestDir::new();
    for folder in ["examples", "crates/chumoku-trace/worked"] {
        fs::create_dir_all(place.path(folder)).unwrap();
        for file in fs::read_dir(root().join(folder)).unwrap().map(|file| file.unwrap().path()) {
            if file.is_file() {
                fs::copy(&file, place.path(folder).join(file.file_name().unwrap())).unwrap();
            }
        }
    }
    place
}

/// Dates as people write them, each with its numeric form.
fn some_dates() -> String {
    const MONTHS: [&str; 4] = ["Jan.", "May", "July", "Nov."];
    let date = |i: usize| {
        let (month, day, year) = (MONTHS[i % 4], 4 + i % 17, 1990 + i % 40);
        format!("\"{month} {day}th, {year}\",{year}-{:02}-{day:02}\n", [1, 5, 7, 11][i % 4])
    };
    (0..120).map(date).fold("source,target\n".to_owned(), |rows, row| rows + &row)
}

/// On Windows, git writes a symbolic link as a text file that holds its target.
#[test]
fn the_repository_has_no_symbolic_links() {
    let listed = std::process::Command::new("git").args(["ls-files", "-s"]).current_dir(root()).output();
    let Some(listed) = listed.ok().filter(|listed| listed.status.success() && !listed.stdout.is_empty()) else {
        eprintln!("SKIPPED: this is no checkout of git, which knows the links of the repository");
        return;
    };
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let links: Vec<&str> = listed.lines().filter(|line| line.starts_with("120000")).collect();
    assert!(links.is_empty(), "{links:?}");
}

#[test]
fn every_command_of_the_page_runs() {
    let page = fs::read_to_string(root().join("docs/articles.md")).unwrap();
    let place = shipped_files();
    let commands: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("    chumoku ")).collect();
    assert!(commands.len() > 35, "{}", commands.len());
    place.write("some-dates.csv", some_dates());
    for command in commands {
        let mut args = words(command);
        // An epoch of the built-in dates takes most of a minute.
        if args.iter().any(|arg| arg == "translate") && args[0] == "train" && !exhaustive("chumoku-cli") {
            args.insert(1, "some-dates.csv".to_owned());
        }
        let run = place.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
        // Some published numbers are wrong, and `check` reports them.
        let is_well = run.code == 0 || (args[0] == "check" && run.code == 1);
        assert!(is_well, "chumoku {command}: {run:?}");
        assert!(!run.stdout.is_empty() || args.iter().any(|arg| arg == "--out"), "chumoku {command}: {run:?}");
    }
}

/// Every number with four decimals is printed by a command of its row, or claimed in the file of the example.
#[test]
fn commands_of_the_claims_in_words_show_their_numbers() {
    let page = fs::read_to_string(root().join("docs/errata.md")).unwrap().replace("\r\n", "\n");
    let (_, table) = page.split_once("\n## Claims in words\n").unwrap();
    let place = shipped_files();
    let mut checked = 0;
    for row in table.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 4, "{row}");
        let mut shown = String::new();
        for command in cells[3].split('`').skip(1).step_by(2) {
            let args = words(command.strip_prefix("chumoku ").unwrap_or_else(|| panic!("{row}")));
            let run = place.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
            assert!(run.code == 0 || (args[0] == "check" && run.code == 1), "{command}: {run:?}");
            shown += &run.stdout;
            for (flag, name) in args.iter().zip(&args[1..]).filter(|(flag, _)| *flag == "--example") {
                let file = place.path(&format!("crates/chumoku-trace/worked/{name}.json"));
                shown += &fs::read_to_string(file).unwrap_or_else(|error| panic!("{flag} {name}: {error}"));
            }
        }
        assert!(!shown.is_empty() || cells[3] == "–", "{row}");
        let numbers = cells[2].split(|c: char| !c.is_ascii_digit() && c != '.').map(|number| number.trim_matches('.'));
        for number in numbers.filter(|number| number.split_once('.').is_some_and(|(_, decimals)| decimals.len() == 4)) {
            assert!(shown.contains(number), "{number} is not shown\n{row}");
            checked += 1;
        }
    }
    assert!(checked > 15, "{checked}");
}

#[test]
fn the_page_and_the_example_files_list_each_other() {
    let page = fs::read_to_string(root().join("docs/articles.md")).unwrap();
    let mut named: Vec<&str> = page
        .split("crates/chumoku-trace/worked/")
        .skip(1)
        .filter_map(|rest| rest.split_once(".json").map(|(name, _)| name))
        .filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '-'))
        .collect();
    named.sort_unstable();
    named.dedup();
    let mut files: Vec<String> = fs::read_dir(root().join("crates/chumoku-trace/worked"))
        .unwrap()
        .filter_map(|file| file.unwrap().file_name().to_str()?.strip_suffix(".json").map(str::to_owned))
        .collect();
    files.sort();
    assert_eq!(named, files);
    // Names on the page must be public and complete.
    let source = |path: &str| fs::read_to_string(root().join("crates").join(path)).unwrap();
    let modules = [
        ("nn", source("chumoku-nn/src/layers/mod.rs")),
        ("models", source("chumoku-nn/src/models/mod.rs")),
        ("attention", source("chumoku-nn/src/attention.rs")),
        ("chumoku_kernels", source("chumoku-kernels/src/lib.rs")),
        ("AttentionOptions", source("chumoku-nn/src/layers/multi_head_attention/config.rs")),
        ("MultiHeadAttentionConfig", source("chumoku-nn/src/layers/multi_head_attention/config.rs")),
        ("Attention", source("chumoku-kernels/src/attention/params.rs")),
    ];
    let mut count = 0;
    for rest in page.split('`').skip(1).step_by(2) {
        let Some((module, name)) = rest.split_once("::") else { continue };
        let (_, text) = modules.iter().find(|(known, _)| *known == module).unwrap_or_else(|| panic!("{rest}: which?"));
        assert!(public(text).contains(name), "{rest} is named, but {module} has no public {name}");
        count += 1;
    }
    assert!(count > 25, "{count}");
}

/// The public names of a source: `pub` definitions and names in `pub use`.
fn public(source: &str) -> HashSet<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut names = HashSet::new();
    for (at, _) in source.match_indices("pub ") {
        // rustfmt puts `pub` at the beginning of its line.
        if !source[..at].lines().last().is_none_or(|line| line.trim().is_empty() || source[..at].ends_with('\n')) {
            continue;
        }
        let rest = &source[at + 4..];
        if let Some(list) = rest.strip_prefix("use ") {
            let list = list.split(';').next().unwrap();
            names.extend(list.split(|c| !is_name(c)).filter(|name| !name.is_empty()).map(str::to_owned));
        } else {
            // The name of a field comes first.
            let kinds = ["fn", "struct", "enum", "trait", "type", "const", "unsafe", "mod", "static"];
            let mut words = rest.split(|c| !is_name(c)).filter(|word| !word.is_empty() && !kinds.contains(word));
            names.extend(words.next().map(str::to_owned));
        }
    }
    names
}

#[test]
fn a_part_of_a_name_does_not_count_as_the_name() {
    let source = "pub use a::{\n    EncoderLayer, Decoder,\n};\nuse b::Hidden;\npub struct Offsets(Vec<usize>);\n    pub beta: Option<f64>,\n\
                  pub(crate) fn inner() {}\n    pub fn whole<T>(x: T) {}\n// not pub lic\n";
    let names = public(source);
    for name in ["EncoderLayer", "Decoder", "Offsets", "beta", "whole"] {
        assert!(names.contains(name), "{name}: {names:?}");
    }
    for name in ["Encoder", "Layer", "Hidden", "inner", "Offset", "lic"] {
        assert!(!names.contains(name), "{name}: {names:?}");
    }
}

/// Without positions the order of the words does not matter; with them it does.
#[test]
fn order_matters_only_with_positions() {
    let place = TestDir::new();
    let answers = |name: &str, settings: &str| -> Vec<String> {
        place.train_small(name, &["--model", "transformer", "--settings", settings]);
        let run = place
            .run(&["predict", name, "it is not worth the price", "price the worth not is it", "--json"])
            .assert_success();
        run.json_lines().iter().map(|line| line["probability"].to_string()).collect()
    };
    let without =
        answers("none", "positions=none,words=1,inside-words=none,tokens=words,min-count=1,layers=1,width=32");
    assert_eq!(without[0], without[1]);
    let with =
        answers("sines", "positions=sinusoidal,words=1,inside-words=none,tokens=words,min-count=1,layers=1,width=32");
    assert_ne!(with[0], with[1]);
}

/// Hard attention and a learned β are settings of training, and the model remembers them.
#[test]
fn hard_attention_and_beta_are_settings_of_training() {
    let place = TestDir::new();
    let settings = "layers=1,width=32,attention=hard,beta=0.5,learn-beta=yes";
    place.train_small("hard", &["--model", "transformer", "--settings", settings]);
    let config = place.json("hard/config.json").to_string();
    for entry in ["\"hard_attention\":true", "\"beta\":0.5", "\"train_beta\":true"] {
        assert!(config.contains(entry), "{entry}: {config}");
    }
    let traced = place.run(&["trace", "--model", "hard", "--text", "good and cheap", "--format", "json"]);
    let traced = traced.assert_success().json();
    let weights = traced["steps"].as_array().unwrap().iter().find(|step| step["name"] == "weights").unwrap();
    for row in weights["matrix"].as_array().unwrap() {
        let row: Vec<f64> = row.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
        assert!(row.iter().all(|x| *x == 0.0 || *x == 1.0) && row.iter().sum::<f64>() == 1.0, "{row:?}");
    }
    // The model refuses requests for these, and names the alternative.
    place.run_rejected(&["export", "hard"], &["hard attention", "trained without --settings attention=hard"]);
    let backward = ["trace", "--model", "hard", "--text", "good and cheap", "--backward"];
    place.run_rejected(&backward, &["hard attention", "without --backward"]);
}
