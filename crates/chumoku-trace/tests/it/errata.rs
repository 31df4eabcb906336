//! Compares `docs/errata.md` with the checker's findings in `crates/chumoku-trace/worked`. `CHUMOKU_UPDATE=1` rewrites
//! the page.

use chumoku_trace::{ClaimVerdict, builtin, builtin_names};
use std::fmt::Write;
use std::path::Path;

/// The heading of the part that is written by hand.
const BY_HAND: &str = "\n## Claims in words\n";

fn page() -> String {
    let mut page = String::from(
        "# Errata of published examples\n\nThis page lists what worked examples claim, what is true, and where they \
         first go wrong, as found by `chumoku check`.\nThe files are in [`crates/chumoku-trace/worked`](../crates/chumoku-trace/worked); \
         [`worked-examples.md`](worked-examples.md) says what the\nverdicts mean. The articles are listed in \
         [`articles.md`](articles.md). A test writes the tables of\nnumbers (`crates/chumoku-trace/tests/it/errata.rs`). Claims in words are at the end.\n",
    );
    for name in builtin_names() {
        let example = builtin(name).unwrap();
        let checked = example.check().unwrap();
        let _ = write!(page, "\n## {}\n\n{} (`{name}.json`). ", example.title.text, example.source.text);
        let _ = writeln!(
            page,
            "{}\n",
            match checked.first_wrong() {
                Some(first) => format!("The first error is in **{}**.", first.name),
                None if checked.steps.iter().any(|step| step.verdict == ClaimVerdict::Rounded) =>
                    "Every number holds, or follows from rounded numbers before it.".into(),
                None => "Every number holds.".into(),
            }
        );
        let _ = writeln!(
            page,
            "| step | verdict | numbers | wrong | inherited | largest error |\n|---|---|---:|---:|---:|---|"
        );
        for step in &checked.steps {
            let verdict = match step.verdict {
                ClaimVerdict::Holds => "holds",
                ClaimVerdict::Rounded => "rounded",
                ClaimVerdict::Inherited => "inherited",
                ClaimVerdict::Wrong => "**wrong**",
            };
            let mut worst =
                step.worst.as_ref().map_or(String::new(), |worst| example.describe_worst(&step.name, worst));
            if let Some(mistake) = &step.mistake {
                worst += &format!("; {}", mistake.text());
            }
            let counts = format!("{} | {} | {}", step.claimed, step.wrong, step.inherited);
            let _ = writeln!(page, "| {} | {verdict} | {counts} | {worst} |", step.name);
        }
    }
    page
}

#[test]
fn errata_page_matches_the_checker() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errata.md");
    let page = page();
    let read = || std::fs::read_to_string(&path).unwrap().replace("\r\n", "\n");
    if std::env::var_os("CHUMOKU_UPDATE").is_some() {
        let by_hand = read().split_once(BY_HAND).map_or(String::new(), |(_, rest)| BY_HAND.to_owned() + rest);
        std::fs::write(&path, page.clone() + &by_hand).unwrap();
    }
    let found = read();
    let found = found.split_once(BY_HAND).expect("the part by hand follows").0;
    assert_eq!(found, page, "run this test with CHUMOKU_UPDATE=1 and look at the difference");
}

#[test]
fn every_file_of_the_folder_is_built_in() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("worked");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
        .collect();
    let mut names: Vec<String> = builtin_names().map(str::to_owned).collect();
    files.sort();
    names.sort();
    assert_eq!(files, names);
}
