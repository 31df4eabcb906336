//! Compares `docs/errata.md` with the checker's findings in `crates/chumoku-view/worked`. `CHUMOKU_UPDATE=1` rewrites
//! the page.

use chumoku_view::trace::{ClaimVerdict, builtin, builtin_names};
use std::fmt::Write;
use std::path::Path;

fn page() -> String {
    let mut page = String::from(
        "# Errata of published examples\n\nThis page lists what worked examples claim, what is true, and where they \
         first go wrong, as found by `chumoku check`.\nThe files are in [`crates/chumoku-view/worked`](../crates/chumoku-view/worked); \
         [`worked-examples.md`](worked-examples.md) says what the\nverdicts mean. The articles are listed in \
         [`articles.md`](articles.md). A test writes this page\n(`crates/chumoku-view/tests/it/errata.rs`).\n",
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
        let _ = writeln!(page, "| step | verdict | numbers | wrong | largest error |\n|---|---|---:|---:|---|");
        for step in &checked.steps {
            let verdict = match step.verdict {
                ClaimVerdict::Holds => "holds",
                ClaimVerdict::Rounded => "rounded",
                ClaimVerdict::Inherited => "inherited",
                ClaimVerdict::Wrong => "**wrong**",
            };
            let worst = step.worst.as_ref().map_or(String::new(), |worst| example.describe_worst(&step.name, worst));
            let _ = writeln!(page, "| {} | {verdict} | {} | {} | {worst} |", step.name, step.claimed, step.wrong);
        }
    }
    page
}

#[test]
fn errata_page_matches_the_checker() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errata.md");
    let page = page();
    if std::env::var_os("CHUMOKU_UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap().replace("\r\n", "\n");
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
