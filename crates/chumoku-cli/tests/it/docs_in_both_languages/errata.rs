//! `docs/ja/errata.md`, from the checker's findings. The English page is tested in `chumoku-view`.

use chumoku::Lang;
use chumoku_trace::{ClaimVerdict, builtin, builtin_names};
use std::fmt::Write;

/// The heading of the part that is written by hand.
const BY_HAND: &str = "\n## 文章での主張\n";

fn page() -> String {
    let mut page = String::from(
        "# 公表された例の正誤表\n\n[English](../errata.md)\n\n`chumoku check` で調べた計算例について、記載された数値、正しい数値、\
         最初に誤った段を示します。\nファイルは [`crates/chumoku-trace/worked`](../../crates/chumoku-trace/worked) に、判定の意味は \
         [`worked-examples.md`](worked-examples.md) にあります。\n記事の一覧は [`articles.md`](articles.md) です。\
         数値の表はテストが書きます（英語のページは `crates/chumoku-trace/tests/it/errata.rs`）。文章での主張は最後にあります。\n",
    );
    for name in builtin_names() {
        let example = builtin(name).unwrap();
        let checked = example.check().unwrap();
        let (title, source) = (example.title.in_lang(Lang::Ja), example.source.in_lang(Lang::Ja));
        let _ = write!(page, "\n## {title}\n\n{source}（`{name}.json`）。");
        let _ = writeln!(
            page,
            "{}\n",
            match checked.first_wrong() {
                Some(first) => format!("最初の誤りは **{}** です。", first.name),
                None if checked.steps.iter().any(|step| step.verdict == ClaimVerdict::Rounded) =>
                    "どの数値も、正しいか、前の段の丸められた値から正しく計算されています。".into(),
                None => "どの数値も正しい値です。".into(),
            }
        );
        let _ = writeln!(page, "| 段 | 判定 | 数値 | 誤り | 引き継ぎ | 最大の誤差 |\n|---|---|---:|---:|---:|---|");
        for step in &checked.steps {
            let verdict = match step.verdict {
                ClaimVerdict::Holds => "正しい",
                ClaimVerdict::Rounded => "丸め",
                ClaimVerdict::Inherited => "引き継ぎ",
                ClaimVerdict::Wrong => "**誤り**",
            };
            let mut worst =
                step.worst.as_ref().map_or(String::new(), |worst| example.describe_worst(&step.name, worst));
            if let Some(mistake) = &step.mistake {
                worst += &format!("。{}", mistake.text());
            }
            let counts = format!("{} | {} | {}", step.claimed, step.wrong, step.inherited);
            let _ = writeln!(page, "| {} | {verdict} | {counts} | {worst} |", step.name);
        }
    }
    page
}

#[test]
fn the_japanese_errata_match_the_checker() {
    // The language belongs to the process.
    testkit::in_own_process("docs_in_both_languages::errata::the_japanese_errata_match_the_checker", || {
        chumoku::lang::set_lang(Lang::Ja);
        let path = super::root().join("docs/ja/errata.md");
        let page = page();
        let read = || std::fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
        if std::env::var_os("CHUMOKU_UPDATE").is_some() {
            let by_hand = read().split_once(BY_HAND).map_or(String::new(), |(_, rest)| BY_HAND.to_owned() + rest);
            std::fs::write(&path, page.clone() + &by_hand).unwrap();
        }
        let found = read();
        let found = found.split_once(BY_HAND).expect("the part by hand follows").0;
        assert_eq!(found, page, "run this test with CHUMOKU_UPDATE=1 and look at the difference");
    });
}
