//! Every page that README.md links has a Japanese page of the same name in `docs/ja`, and both say the same.
//!
//! The pages of a pair have the same headings, paragraphs, lists, tables and code, section by section. Numbers, flags,
//! names in backquotes and links are the same too, so a change in one language alone fails here. Comments, quoted output
//! and example texts may be Japanese. `docs/ja/errata.md` is written by a test: set `CHUMOKU_UPDATE=1`.

#![allow(missing_docs, unreachable_pub, reason = "a test's own")]

mod compare;
mod errata;
mod page;

use compare::{differences, is_japanese};
use page::Page;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}")).replace("\r\n", "\n")
}

/// Names of the Japanese pages: `training.md` and so on.
fn japanese_pages() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(root().join("docs/ja"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".md"))
        .collect();
    names.sort();
    names
}

/// Splits a Japanese page into its text and its line that links the English page.
fn without_link_to_english(name: &str, text: &str) -> String {
    let link = format!("\n[English](../{name})\n\n");
    assert_eq!(text.matches(&link).count(), 1, "docs/ja/{name} links its English page once, below the title");
    text.replacen(&link, "", 1)
}

/// Targets of the links of a page, as paths from the root of the repository, with their anchors.
fn linked_files(page: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(page).parent().unwrap().to_path_buf();
    let mut found = Vec::new();
    for target in Page::parse(&read(page)).links() {
        if target.contains("://") {
            continue;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((target.as_str(), ""));
        let mut full = if path.is_empty() { PathBuf::from(page) } else { folder.clone() };
        for part in path.split('/').filter(|part| !part.is_empty()) {
            match part {
                ".." => assert!(full.pop(), "{page}: {target}"),
                part => full.push(part),
            }
        }
        found.push((full, anchor.to_owned()));
    }
    found
}

#[test]
fn every_page_that_the_readme_links_has_a_japanese_page() {
    let pages = |readme: &str, folder: &str| -> BTreeSet<String> {
        linked_files(readme)
            .into_iter()
            .filter(|(path, _)| path.parent() == Some(Path::new(folder)) && path.extension().is_some_and(|e| e == "md"))
            .map(|(path, _)| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect()
    };
    let (english, japanese) = (pages("README.md", "docs"), pages("README.ja.md", "docs/ja"));
    assert!(english.len() > 20, "{english:?}");
    assert_eq!(english, japanese, "README.md and README.ja.md link the same pages");
    let there: BTreeSet<String> = japanese_pages().into_iter().collect();
    assert!(english.is_subset(&there), "no Japanese page of {:?}", english.difference(&there).collect::<Vec<_>>());
    for name in ["articles.md", "errata.md"] {
        assert!(there.contains(name), "{name} is for readers of Japanese articles");
    }
    for name in &there {
        assert!(root().join("docs").join(name).is_file(), "docs/ja/{name} has no English page");
    }
}

#[test]
fn both_languages_say_the_same() {
    let mut problems = Vec::new();
    for name in japanese_pages() {
        let english = Page::parse(&read(&format!("docs/{name}")));
        let japanese = without_link_to_english(&name, &read(&format!("docs/ja/{name}")));
        let found = differences(&english, &Page::parse(&japanese));
        problems.extend(found.into_iter().map(|problem| format!("docs/ja/{name}: {problem}")));
    }
    let found = differences(&Page::parse(&read("README.md")), &Page::parse(&read("README.ja.md")));
    problems.extend(found.into_iter().map(|problem| format!("README.ja.md: {problem}")));
    assert!(problems.is_empty(), "{} differences:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn links_of_japanese_pages_lead_to_japanese_pages() {
    let mut problems = Vec::new();
    let pages = japanese_pages().into_iter().map(|name| format!("docs/ja/{name}")).chain(["README.ja.md".to_owned()]);
    for page in pages {
        for (path, anchor) in linked_files(&page) {
            let shown = format!("{page}: {}#{anchor}", path.display());
            if !root().join(&path).exists() {
                problems.push(format!("{shown}: no such file"));
                continue;
            }
            let is_page = path.extension().is_some_and(|extension| extension == "md");
            if is_page && !anchor.is_empty() {
                let anchors = Page::parse(&read(path.to_str().unwrap())).anchors();
                if !anchors.contains(&anchor) {
                    problems.push(format!("{shown}: no such heading"));
                }
            }
            let name = path.file_name().unwrap();
            let has_japanese = path.parent() == Some(Path::new("docs")) && root().join("docs/ja").join(name).is_file();
            let is_own_page = Path::new(&page).file_name() == Some(name) || page == "docs/ja/README.md";
            if has_japanese && !is_own_page {
                problems.push(format!("{shown}: there is a Japanese page"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn one_term_stands_for_one_thing() {
    const OTHERS: [(&str, &str); 23] = [
        ("Transformer を", "トランスフォーマー"),
        ("Transformer の", "トランスフォーマー"),
        ("変換器", "トランスフォーマー"),
        ("エンコーダ、", "エンコーダー"),
        ("デコーダ、", "デコーダー"),
        ("注意機構", "アテンション"),
        ("融合した注意", "融合カーネルのアテンション"),
        ("順伝播層", "フィードフォワード層"),
        ("検証用の行", "検証データ"),
        ("テスト用の行", "テストデータ"),
        ("閾値", "しきい値"),
        ("罰則", "正則化"),
        ("微調整", "ファインチューニング"),
        ("ソフトマックス", "softmax"),
        ("約束できる水準", "保証できる水準"),
        ("キーと値", "キーとバリュー"),
        ("フラグを", "オプションを"),
        ("カンマ", "コンマ"),
        ("ランダムな", "無作為な"),
        ("凍結", "固定"),
        ("階数", "ランク"),
        ("フォルダー", "フォルダ"),
        ("エミュレータで", "エミュレーターで"),
    ];
    let pages = japanese_pages().into_iter().map(|name| format!("docs/ja/{name}"));
    let help = "crates/chumoku-cli/src/args/japanese.txt".to_owned();
    let mut problems = Vec::new();
    for page in pages.chain(["README.ja.md".to_owned(), help]) {
        let text = read(&page);
        for (other, term) in OTHERS {
            if text.contains(other) {
                problems.push(format!("{page}: “{other}” stands for “{term}”"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn sources_use_the_terms_of_the_documents() {
    const OTHERS: [(&str, &str); 2] = [("ソフトマックス", "softmax"), ("手順", "ステップ")];
    let mut problems = Vec::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the sources") {
            let path = entry.expect("an entry").path();
            let is_test = path.file_name().is_some_and(|name| name == "tests" || name == "target");
            if path.is_dir() && !is_test {
                folders.push(path);
            } else if path.extension().is_some_and(|end| ["rs", "js", "html", "py"].iter().any(|known| end == *known)) {
                let text = std::fs::read_to_string(&path).expect("a source");
                for (other, term) in OTHERS.into_iter().filter(|(other, _)| text.contains(other)) {
                    problems.push(format!("{}: “{other}” stands for “{term}”", path.display()));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// An English page and its Japanese page, as small as the changes below need them.
const ENGLISH: &str = "# Rows\n\nReads 1,000 rows with `--rows N` ([more](rows.md)). It takes half an hour.\n\n## Split\n\n\
    | part | share |\n|---|---|\n| test | 10 % |\n\n- The first.\n- The second.\n\nThen run\n\n    chumoku train data.csv --seed 1   # a run\n\n\
    ```\nrows  700 in 2 parts\n```\n\n```console\n$ chumoku predict m \"A good film\" --top 3\ngood  87.2 %\n```\n";
const JAPANESE: &str = "# 行\n\n`--rows N` で 1,000 行を読みます（[詳しく](rows.md)）。30 分かかります。\n\n## 分割\n\n\
    | 部分 | 割合 |\n|---|---|\n| テスト | 10 % |\n\n- 一つ目。\n- 二つ目。\n\n次を実行します。\n\n    chumoku train data.csv --seed 1   # 実行\n\n\
    ```\n行数  2 つに分けて 700\n```\n\n```console\n$ chumoku predict m \"良い映画\" --top 3 --lang ja\n肯定  87.2 %\n```\n";

#[test]
fn a_change_in_one_language_alone_is_found() {
    let compare = |english: &str, japanese: &str| differences(&Page::parse(english), &Page::parse(japanese));
    assert_eq!(compare(ENGLISH, JAPANESE), [""; 0]);
    let changes = [
        ("## Split", "### Split"),
        ("## Split", "## Split\n\n## More"),
        ("## Split\n\n", ""),
        ("1,000 rows", "1,200 rows"),
        ("half an hour", "an hour"),
        ("`--rows N`", "`--lines N`"),
        (" with `--rows N`", ""),
        ("rows.md", "columns.md"),
        ("| test | 10 % |", "| test | 20 % |"),
        ("| test | 10 % |\n", ""),
        ("| test | 10 % |", "| test | 10 % |\n| rest | 10 % |"),
        ("| test | 10 % |", "| test | 10 % | new |"),
        ("- The second.\n", ""),
        ("- The second.", "- The second.\n\nAnd a paragraph."),
        ("--seed 1", "--seed 2"),
        ("--seed 1", "--seed 1 --epochs 3"),
        ("--seed 1   # a run", "--seed 1\n    chumoku info m"),
        ("rows  700", "rows  701"),
        ("```console", "```sh"),
        ("--top 3", "--top 4"),
        ("\" --top", "\" \"Another\" --top"),
        ("predict m", "predict other"),
        ("87.2 %", "87.3 %"),
    ];
    for (from, to) in changes {
        assert_eq!(ENGLISH.matches(from).count(), 1, "{from}");
        assert!(!compare(&ENGLISH.replace(from, to), JAPANESE).is_empty(), "{from} became {to}, which was not found");
    }
    let changes = [
        ("## 分割", "### 分割"),
        ("1,000 行", "1,200 行"),
        ("30 分", "40 分"),
        ("`--rows N` で ", ""),
        ("| テスト | 10 % |", "| テスト | 20 % |"),
        ("- 二つ目。\n", ""),
        ("--seed 1", "--seed 2"),
        ("700", "701"),
        ("--top 3", "--top 4"),
        ("predict m", "predict モデル other"),
        ("87.2 %", "87.3 %"),
    ];
    for (from, to) in changes {
        assert!(!compare(ENGLISH, &JAPANESE.replace(from, to)).is_empty(), "{from} became {to}, which was not found");
    }
    // In the Japanese page of a real pair.
    let (english, japanese) = (Page::parse(&read("docs/tune.md")), read("docs/ja/tune.md"));
    let japanese = without_link_to_english("tune.md", &japanese);
    assert_eq!(differences(&english, &Page::parse(&japanese)), [""; 0]);
    for line in japanese.lines().filter(|line| line.starts_with("| `") || line.starts_with("$ chumoku")) {
        let changed = Page::parse(&japanese.replacen(&format!("{line}\n"), "", 1));
        assert!(!differences(&english, &changed).is_empty(), "{line} is left out, which was not found");
    }
}

#[test]
fn numbers_are_read_in_both_languages() {
    let same = [
        ("50 million parameters", "5,000 万パラメータ"),
        ("118 million", "1 億 1,800 万"),
        ("3 billion", "30 億"),
        ("1,071,684 million", "1,071,684 百万"),
        ("27 November 2026", "2026 年 11 月 27 日"),
        ("twelve rows", "12 行"),
        ("five million steps", "500 万ステップ"),
        ("half a minute", "30 秒"),
    ];
    for (english, japanese) in same {
        assert!(compare::numbers_agree(english, japanese), "{english} {japanese}");
    }
    for (english, japanese) in [("50 million", "50 万"), ("12 rows", "13 行"), ("12 rows", "行"), ("rows", "12 行")]
    {
        assert!(!compare::numbers_agree(english, japanese), "{english} {japanese}");
    }
    assert!(is_japanese("漢") && is_japanese("かな") && is_japanese("カナ") && !is_japanese("Kana … × 10⁹"));
}
