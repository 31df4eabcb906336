//! Help in Japanese: the catalog is complete, says what the English says, and fits a terminal of 80 columns.
//!
//! A new flag needs an entry in `src/args/japanese.txt`. The first test prints the English lines that are missing.

use crate::common::TestDir;
use clap::Command;
use clap::builder::StyledStr;
use std::collections::{BTreeMap, BTreeSet};
use unicode_width::UnicodeWidthStr;

const CATALOG: &str = include_str!("../../src/args/japanese.txt");

/// Texts without a Japanese word: names.
const NAMES: [&str; 2] = ["Apache Parquet", "Markdown"];

fn is_japanese(c: char) -> bool {
    ('\u{3040}'..='\u{30ff}').contains(&c) || ('\u{4e00}'..='\u{9fff}').contains(&c)
}

/// Paragraphs of a command tree, with the place where each is shown.
fn paragraphs(command: &Command) -> BTreeMap<String, String> {
    fn visit(command: &Command, path: &str, found: &mut BTreeMap<String, String>) {
        let mut add = |place: &str, text: Option<&StyledStr>| {
            let text = text.map(ToString::to_string).unwrap_or_default();
            for (number, paragraph) in text.split("\n\n").enumerate().filter(|(_, paragraph)| !paragraph.is_empty()) {
                found.insert(format!("{path}, {place}, paragraph {number}"), paragraph.to_owned());
            }
        };
        assert!(command.get_before_help().is_none() && command.get_before_long_help().is_none(), "{path}");
        add("about", command.get_about());
        add("long about", command.get_long_about());
        add("after", command.get_after_help());
        add("long after", command.get_after_long_help());
        for arg in command.get_arguments() {
            assert!(arg.get_help_heading().is_none(), "{path}: the heading of {arg} has no Japanese");
            add(&format!("{arg}"), arg.get_help());
            add(&format!("{arg}, long"), arg.get_long_help());
            for value in arg.get_possible_values() {
                add(&format!("{arg}, {}", value.get_name()), value.get_help());
            }
        }
        for child in command.get_subcommands() {
            visit(child, &format!("{path} {}", child.get_name()), found);
        }
    }
    let mut found = BTreeMap::new();
    visit(command, command.get_name(), &mut found);
    found
}

fn definition() -> Command {
    let mut command = chumoku_cli::definition();
    command.build();
    command
}

fn catalog() -> BTreeMap<&'static str, &'static str> {
    let mut entries = BTreeMap::new();
    for entry in CATALOG.trim_end().split("\n\n") {
        let (english, japanese) =
            entry.split_once('\n').unwrap_or_else(|| panic!("an entry without Japanese: {entry}"));
        assert!(!japanese.contains('\n'), "an entry of more than two lines: {entry}");
        assert!(entries.insert(english, japanese).is_none(), "two entries of one text: {english}");
    }
    entries
}

#[test]
fn the_catalog_has_every_text_of_help_and_no_other() {
    let (catalog, shown) = (catalog(), paragraphs(&definition()));
    let shown: BTreeSet<&str> = shown.values().map(String::as_str).collect();
    let known: BTreeSet<&str> = catalog.keys().copied().collect();
    let list = |texts: BTreeSet<&str>| texts.iter().map(|text| format!("{text}\n\n")).collect::<String>();
    let (missing, unused) = (list(&shown - &known), list(&known - &shown));
    assert!(
        missing.is_empty() && unused.is_empty(),
        "src/args/japanese.txt needs entries of:\n\n{missing}and has entries of no text:\n\n{unused}"
    );
}

#[test]
fn every_text_of_the_japanese_tree_is_japanese() {
    let (english, japanese) = (paragraphs(&definition()), paragraphs(&chumoku_cli::definition_in_japanese()));
    assert_eq!(english.keys().collect::<Vec<_>>(), japanese.keys().collect::<Vec<_>>());
    assert!(english.len() > 700, "{} texts", english.len());
    let is_translated = |text: &str| text.chars().any(is_japanese) || NAMES.contains(&text);
    let english: Vec<_> = japanese.iter().filter(|(_, text)| !is_translated(text)).collect();
    assert!(english.is_empty(), "{english:#?}");
}

/// Returns the flags, code, file names and numbers of a text.
fn literals(text: &str) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = text.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let words = text.split(|c: char| !c.is_ascii() || c.is_ascii_whitespace() || "(),;:`/".contains(c));
    for word in words.map(|word| word.trim_matches(['.', '?', '"', '\''])) {
        let is_file = word.split_once('.').is_some_and(|(_, end)| end.starts_with(|c: char| c.is_ascii_lowercase()));
        if word.starts_with("--") || is_file || word.contains(['=', '_']) {
            found.insert(word.to_owned());
        }
    }
    let numbers = text.split(|c: char| !c.is_ascii_digit() && c != '.').map(|number| number.trim_matches('.'));
    found.extend(numbers.filter(|number| !number.is_empty()).map(str::to_owned));
    found
}

/// Returns two English words in a row outside code and flags, if there are any.
fn english_words(text: &str) -> Option<String> {
    let prose: String = text.split('`').step_by(2).collect::<Vec<_>>().join("、");
    let words: Vec<&str> = prose.split(' ').collect();
    let is_word = |word: &str| word.len() > 1 && word.chars().all(|c| c.is_ascii_lowercase());
    words.windows(2).find(|pair| pair.iter().all(|word| is_word(word))).map(|pair| pair.join(" "))
}

#[test]
fn the_japanese_keeps_flags_names_and_numbers() {
    let mut problems = Vec::new();
    for (english, japanese) in catalog() {
        let lost = &literals(english) - &literals(japanese);
        if !lost.is_empty() {
            problems.push(format!("{japanese}: without {lost:?}"));
        }
        if let Some(words) = english_words(japanese) {
            problems.push(format!("{japanese}: {words} is English"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let lost = |english, japanese| &literals(english) - &literals(japanese);
    assert_eq!(lost("Ranks 8 to 64 of a.csv, `x y` or --z", "8 から 6、a.csv、--z").len(), 2);
    assert_eq!(english_words("これは not translated です"), Some("not translated".to_owned()));
    assert_eq!(english_words("`chumoku train` と --missing none"), None);
}

/// Calls `check` with the path of every command and its definition.
fn for_each_command(command: &Command, path: &[&str], check: &mut dyn FnMut(&[&str], &Command)) {
    check(path, command);
    for child in command.get_subcommands().filter(|child| child.get_name() != "help") {
        for_each_command(child, &[path, &[child.get_name()]].concat(), check);
    }
}

#[test]
fn japanese_help_fits_eighty_columns_and_shows_every_argument() {
    let place = TestDir::new();
    let mut commands = 0;
    for_each_command(&definition(), &[], &mut |path, command| {
        commands += 1;
        for flag in ["-h", "--help"] {
            let help = place.run(&[path, &[flag, "--lang", "ja"]].concat()).assert_success().stdout;
            let shown = format!("{path:?} {flag}\n{help}");
            for line in help.lines() {
                assert!(line.width() <= 80, "{} columns: {line}\n{shown}", line.width());
                assert!(!line.trim_start().starts_with(['、', '。', '）', '」', 'ー']), "{line}\n{shown}");
                assert!(!line.trim_end().ends_with(['（', '「']), "{line}\n{shown}");
            }
            for word in
                ["Usage", "Options", "OPTIONS", "Arguments", "Commands", "COMMAND>", "[default", "ossible values"]
            {
                assert!(!help.contains(word), "{word}: {shown}");
            }
            let usage = help.replace("使い方:\n  ", "使い方: ");
            assert!(usage.contains(&format!("使い方: {}", [&["chumoku"], path].concat().join(" "))), "{shown}");
            assert!(help.contains("\nオプション:\n"), "{shown}");
            for child in command.get_subcommands() {
                assert!(help.contains(&format!("\n  {} ", child.get_name())), "{child}: {shown}");
            }
            let args = command.get_arguments().filter(|arg| !arg.is_hide_set());
            for arg in args {
                let name = arg.get_long().map_or_else(|| arg.to_string(), |long| format!("--{long}"));
                assert!(help.contains(&name), "{name}: {shown}");
                let takes_value = arg.get_action().takes_values();
                for default in arg.get_default_values().iter().filter(|value| takes_value && !value.is_empty()) {
                    assert!(help.contains(&format!("[既定: {}]", default.to_str().unwrap())), "{name}: {shown}");
                }
                for value in arg.get_possible_values().iter().filter(|value| takes_value && !value.is_hide_set()) {
                    assert!(help.contains(value.get_name()), "{name}, {}: {shown}", value.get_name());
                }
            }
        }
    });
    assert!(commands > 20, "{commands} commands");
}

#[test]
fn language_of_help_follows_flag_and_environment() {
    let place = TestDir::new();
    let stdout = |args: &[&str], lang: Option<&str>| {
        let mut command = place.command(args);
        command.env("LANG", "C").env_remove("LC_ALL");
        if let Some(lang) = lang {
            command.env("LANG", lang);
        }
        let output = command.output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let (japanese, english) =
        ("使い方: chumoku train [オプション] [DATA] [MORE]...", "Usage: chumoku train [OPTIONS] [DATA] [MORE]...");
    for args in [&["train", "--help"][..], &["help", "train"], &["train", "x.csv", "-h"]] {
        assert!(stdout(args, Some("ja_JP.UTF-8")).contains(japanese), "{args:?}");
        assert!(stdout(args, None).contains(english), "{args:?}");
        assert!(stdout(&[&["--lang", "en"], args].concat(), Some("ja_JP.UTF-8")).contains(english), "{args:?}");
        assert!(stdout(&[&["--lang=ja"], args].concat(), None).contains(japanese), "{args:?}");
    }
    // Without a command, help goes to standard error.
    assert!(stdout(&[], Some("ja_JP.UTF-8")).contains("使い方: chumoku [オプション] <コマンド>"));
    let options = stdout(&["train", "--help"], Some("ja_JP.UTF-8"));
    assert!(options.contains("- lstm:        長・短期記憶（LSTM）の再帰型ネットワーク\n"), "{options}");
    assert!(options.contains("\n引数:\n  [DATA]\n          学習データ: CSV、TSV、"), "{options}");
}
