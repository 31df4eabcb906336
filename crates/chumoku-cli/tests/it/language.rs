//! The language of messages.

use crate::common::TestDir;
use unicode_width::UnicodeWidthStr;

#[test]
fn the_flag_overrides_the_environment_and_english_is_the_default() {
    let place = TestDir::new();
    let text = |args: &[&str], language: Option<&str>| {
        let mut command = place.command(args);
        if let Some(language) = language {
            command.env("LANG", language);
        }
        String::from_utf8(command.output().expect("runs").stdout).expect("UTF-8")
    };
    let example = ["trace", "--example", "book"];
    let japanese = ["trace", "--example", "book", "--lang", "ja"];
    let english = ["trace", "--example", "book", "--lang", "en"];
    // The example itself contains Japanese words; the heading above the weights is ours.
    assert!(text(&japanese, None).contains("重み") && !text(&english, None).contains("重み"));
    assert_eq!(text(&example, None), text(&english, None));
    assert_eq!(text(&example, Some("C.UTF-8")), text(&english, None));
    assert_eq!(text(&example, Some("ja_JP.UTF-8")), text(&japanese, None));
    assert_eq!(text(&english, Some("ja_JP.UTF-8")), text(&english, None));
    // The flag works before and after the command.
    assert_eq!(text(&["--lang", "ja", "trace", "--example", "book"], None), text(&japanese, None));
}

/// Returns the command's Japanese error message.
fn error_message(place: &TestDir, args: &[&str]) -> String {
    let run = crate::common::Run::from_output(place.command(args).env("LANG", "ja_JP.UTF-8").output().unwrap());
    assert_eq!(run.code, 2, "{run:#?}");
    assert!(run.stdout.is_empty() && run.stderr.lines().count() == 1, "{run:#?}");
    assert!(run.stderr.starts_with("エラー: "), "{run:#?}");
    run.stderr
}

#[test]
fn command_line_errors_are_in_japanese() {
    let place = TestDir::new();
    let says = |args: &[&str], parts: &[&str]| {
        let message = error_message(&place, args);
        for part in parts {
            assert!(message.contains(part), "{args:?}: expected {part:?} in {message}");
        }
        // Only names stay English, and no sentence comes from clap.
        for word in ["expected", "error", "invalid", "unexpected", "required", "cannot", "found", "tip:"] {
            assert!(!message.contains(word), "{args:?}: {word:?} in {message}");
        }
    };
    says(&["train", "x.csv", "--epoch", "3"], &["--epoch", "--epochs のことですか"]);
    says(&["train", "x.csv", "--epochs", "0"], &["--epochs <N>", "“0”", "1 以上の整数が必要ですが、0 です"]);
    says(&["train", "x.csv", "--seed", "x"], &["--seed <N>", "数が必要です"]);
    says(&["train", "x.csv", "--threads", "0"], &["--threads <N>", "1 から 1024 までの整数"]);
    says(&["train", "x.csv", "--precision", "low"], &["“low”", "highest, high, medium"]);
    says(&["eval", "m", "x.csv", "y.csv"], &["“y.csv”"]);
    says(&["trian", "x.csv"], &["“trian”", "train"]);
    says(&["eval", "m"], &["<DATA>", "必要な引数がありません"]);
    says(&["predict", "m", "text", "--input", "x.csv"], &["同時に使えません", "--input <FILE>"]);
    says(&["explain", "m", "t", "--lang", "fr"], &["“fr”", "en, ja"]);
    says(&["train", "--seed"], &["--seed <N>", "値がありません"]);
}

#[test]
fn file_errors_are_in_japanese() {
    let place = TestDir::new();
    place.write("bytes.csv", b"text,label\nabc,\x82\xa0\n");
    place.write("empty.csv", "");
    assert!(error_message(&place, &["train", "missing.csv"]).contains("その名前のファイルがありません"));
    assert!(error_message(&place, &["train", "empty.csv"]).contains("ファイルが空です"));
    assert!(error_message(&place, &["train", "bytes.csv"]).contains("UTF-8 でないバイト"));
}

#[test]
fn errors_in_worked_examples_are_in_japanese() {
    let place = TestDir::new();
    let says = |example: &str, part: &str| {
        place.write("example.json", example);
        let message = error_message(&place, &["trace", "--input", "example.json"]);
        assert!(message.contains(part), "{example}: expected {part:?} in {message}");
        // Only names stay English.
        for word in ["expected", "found", "known", "no claims", "reading", "tracing"] {
            assert!(!message.contains(word), "{example}: {word:?} in {message}");
        }
    };
    assert!(error_message(&place, &["trace", "--example", "bok"]).contains("bok という計算例はありません"));
    says(r#"{"input": {}}"#, "不明なキー “input” があります");
    says(r#"{"inputs": {"Z": []}}"#, "inputs に不明なキー “Z” があります");
    says(r#"{"inputs": {"Q": [[1]], "Q": [[1]]}}"#, "inputs にキー “Q” が重複しています");
    says(r#"{"claims": {}}"#, "キー “inputs”（出発点となる行列）がありません");
    says(r#"{"inputs": {"Q": [[1, 2], [3]]}}"#, "inputs.Q[2]: 1 行目と同じく数値が 2 個必要ですが、1 個です");
    says(r#"{"inputs": {"Q": [[1, "x"]]}}"#, "inputs.Q[1][2]: 0.50 のような数値が必要ですが、“x” です");
    says(r#"{"inputs": {"Q": [[1]]}, "options": {"num_heads": "2"}}"#, "options.num_heads: 1 以上の整数が必要ですが");
    says(r#"{"inputs": {"Q": [[1]]}}"#, "inputs から導けるものがありません");
    says(r#"{"positions": {"d_model": 4}}"#, "検算する値の記載がありません");
    says(r#"{"positions": {"d_model": 4}, "claims": {"wave": 1}}"#, "使えるキーは wavelength_0, wavelength_1 です");
    says(r#"{"positions": {"d_model": 400}, "claims": {"x": 1}}"#, "使えるキーは wavelength_0、…、wavelength_199 です");
    says(
        r#"{"inputs": {"Q": [[1, 2]], "K": [[1]]}, "claims": {"scores": [[1]]}}"#,
        "Q は 1×2、K は 1×1 です。クエリとキーを比べるには列の数が同じでなければなりません",
    );
}

/// Words that a Japanese text may contain unchanged. They are names of programs, formats and units, values of flags and
/// commands, and the names of the tests' files, folders and columns.
const ALLOWED_NAMES: &str = "chumoku Chumoku CSV TSV JSONL JSON Parquet fastText UTF UTF-8 UTF-16 gzip zip Excel NUL n-gram MiB nat \
    BLEU euc-jp lm classify translate predict bench iconv jq os error subwords characters label probability text nothing missing \
    reviewed ja en model words book pairs amx scalar ROC";

/// Removes the parts of a line that are not prose: quoted text, placeholders, flags with their values, the rest of a
/// command line, and signatures of scores.
fn prose(line: &str) -> String {
    let mut line: String = line.split('`').step_by(2).collect();
    for (open, close) in [("“", "”"), ("<", ">"), ("使える値: ", "。")] {
        while let Some((before, (_, behind))) =
            line.split_once(open).and_then(|(before, rest)| Some((before, rest.split_once(close)?)))
        {
            line = format!("{before} {behind}");
        }
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_said = |(at, word): &(usize, &&str)| {
        let before = at.checked_sub(1).map_or("", |at| words[at]);
        !word.contains('|') && !before.contains("--") && before != "chumoku"
    };
    words.iter().enumerate().filter(is_said).map(|(_, word)| format!("{word} ")).collect()
}

/// Returns the first line of `said` with an English word that is not a name, or with more columns than a terminal.
/// Command lines are not prose, and an error message may be one line of any length.
fn japanese_fault(message: &str) -> Option<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_./\\".contains(c);
    message.lines().filter(|line| !line.trim_start().starts_with("chumoku ")).find_map(|line| {
        let prose = prose(line);
        let mut words = prose.split(|c| !is_part(c)).map(|word| word.trim_end_matches(['.', '/', '-']));
        let is_word = |word: &&str| word.len() > 1 && word.chars().all(|c| c.is_ascii_alphabetic() || c == '-');
        let is_english =
            |word: &&str| is_word(word) && !word.starts_with('-') && !ALLOWED_NAMES.split(' ').any(|n| n == *word);
        if let Some(word) = words.find(is_english) {
            return Some(format!("“{word}” in: {line}"));
        }
        let is_wide = line.width() > 80 && !line.starts_with("エラー: ");
        is_wide.then(|| format!("{} columns: {line}", line.width()))
    })
}

#[test]
fn faults_in_japanese_text_are_found() {
    assert_eq!(japanese_fault("行数      学習 80、検証 10、テスト 10\n"), None);
    assert_eq!(japanese_fault("  chumoku predict model \"some text\"\n"), None);
    assert_eq!(japanese_fault("データ    reviews.csv: CSV、見出し行あり（--task で変更できます）\n"), None);
    assert_eq!(
        japanese_fault("エラー: --model gru: `chumoku train` が必要です（例: chumoku train x.csv --task lm）"),
        None
    );
    assert!(japanese_fault("行数      80 to train on\n").unwrap().contains("“to”"));
    assert!(japanese_fault("エラー: x.csv: expected a file\n").unwrap().contains("expected"));
    assert!(japanese_fault("rows      学習 80\n").unwrap().contains("rows"));
    assert!(japanese_fault(&"あ".repeat(41)).unwrap().contains("82 columns"));
    assert_eq!(japanese_fault(&format!("エラー: {}", "あ".repeat(41))), None);
}

/// Ways to request Japanese.
const LANGUAGE_REQUESTS: [(&[&str], Option<&str>); 2] = [(&["--lang", "ja"], None), (&[], Some("ja_JP.UTF-8"))];

/// Returns the output of a command on both streams. The command must succeed.
fn said(place: &TestDir, args: &[&str], (flags, language): (&[&str], Option<&str>)) -> String {
    let mut command = place.command(&[args, flags].concat());
    if let Some(language) = language {
        command.env("LANG", language);
    }
    let run = crate::common::Run::from_output(command.output().unwrap());
    assert_eq!(run.code, 0, "{args:?}: {run:#?}");
    run.stdout + "\n" + &run.stderr
}

/// Reviews in Japanese: one text has two labels, and one class is rare.
fn reviewed(rows: usize) -> String {
    let things = ["部屋", "朝食", "対応", "場所", "風呂"];
    let labels = [("良かったです", "良い"), ("ひどかったです", "悪い"), ("普通でした", "普通")];
    let mut out = "本文,評価\nまあまあでした,良い\nまあまあでした,悪い\n".to_owned();
    for i in 0..rows {
        let (said, label) = labels[if i % 9 == 8 { 2 } else { i % 2 }];
        out += &format!("{}は{}回目も{said}。,{label}\n", things[i * 3 % 5], i + 1);
    }
    out
}

#[test]
fn training_scores_and_answers_are_in_japanese() {
    let place = TestDir::new();
    place.write("reviewed.csv", reviewed(120));
    place.write("again.csv", reviewed(20));
    place.write("broken.csv", "本文,評価\n部屋は良かったです。,良い\n  ,悪い\n朝食,良い,余分\n\"風呂は\"ひどい,悪い\n");
    let book: String = (0..400).map(|i| format!("第{i}章。吾輩は猫である、名前はまだ無い。\n")).collect();
    place.write("book.txt", book);
    let pairs: String = (0..60).map(|i| format!("{i}番目の日\t{i}日\n")).collect();
    place.write("pairs.tsv", format!("ja\ten\n{pairs}"));
    for (asking, asked) in LANGUAGE_REQUESTS.into_iter().enumerate() {
        let out = |name: &str| format!("{name}-{asking}");
        let says = |args: &[&str], parts: &[&str]| {
            let message = said(&place, args, asked);
            if let Some(fault) = japanese_fault(&message.replace(&format!("-{asking}"), "")) {
                panic!("{args:?}: {fault}\nin\n{message}");
            }
            for part in parts {
                assert!(message.contains(part), "{args:?}: expected {part:?} in\n{message}");
            }
        };
        let model = out("model");
        says(
            &["train", "reviewed.csv", "--test", "again.csv", "--out", &model, "--epochs", "2"],
            &[
                "行数 ",
                "エポック   1  損失 ",
                "正解率",
                "計画 ",
                "複数のラベル",
                "警告: テストデータの",
                "助言",
                "完了しました",
            ],
        );
        says(&["eval", &model, "again.csv"], &["22 行", "このモデル", "正解 ↓", "警告: 22 行のうち"]);
        // Rows of a file may have any width.
        let answers = ["predict", &model, "--input", "broken.csv"];
        let reported = said(&place, &answers, asked);
        let talk: String =
            reported.lines().filter(|line| !line.contains(',')).map(|line| line.to_owned() + "\n").collect();
        assert_eq!(japanese_fault(&talk), None, "{reported}");
        assert!(reported.contains("broken.csv:3: テキストを読めません。文字が必要ですが、空です"), "{reported}");
        assert!(reported.contains("未回答") && reported.contains("最初の理由: broken.csv:3"), "{reported}");
        let skipping = [&answers[..], &["--skip-bad-rows"]].concat();
        says(&skipping, &["3 行を除きました。最初の理由: "]);
        let words = out("words");
        says(&["train", "reviewed.csv", "--model", "ngrams", "--out", &words], &["n-gram", "助言"]);
        says(&["eval", &words, "again.csv"], &["22 行"]);
        let book = out("book");
        says(
            &["train", "book.txt", "--out", &book, "--epochs", "1"],
            &["タスク", "内訳", "パープレキシティ（文字あたり）"],
        );
        says(&["eval", &book, "book.txt"], &["トークン", "損失"]);
        let pairs = out("pairs");
        says(&["train", "pairs.tsv", "--out", &pairs, "--epochs", "1"], &["組数", "完全一致", "正解"]);
        says(&["eval", &pairs, "pairs.tsv"], &["60 組、ビーム幅 5"]);
        for name in [&model, &words, &book, &pairs] {
            let card = place.read(&format!("{name}/README.md"));
            let prose: String =
                card.lines().map(|line| line.split('`').step_by(2).collect::<String>() + "\n").collect();
            // Paragraphs of Markdown are lines of any length.
            let prose = prose.replace('。', "。\n").replace('（', "\n（");
            assert_eq!(japanese_fault(&prose).filter(|fault| fault.starts_with('“')), None, "{card}");
            assert!(card.contains("## 限界"), "{card}");
        }
        // A Japanese model card is recognized, and a user of either language may replace the model.
        let again = ["train", "reviewed.csv", "--model", "ngrams", "--out"];
        for (name, (flags, language)) in
            [(&model, asked), (&words, LANGUAGE_REQUESTS[1 - asking]), (&book, (&["--lang", "en"][..], None))]
        {
            said(&place, &[&again[..], &[name, "--force"]].concat(), (flags, language));
        }
    }
}

#[test]
fn errors_are_in_japanese() {
    let place = TestDir::new();
    place.write("reviewed.csv", reviewed(40));
    said(&place, &["train", "reviewed.csv", "--model", "ngrams", "--out", "model"], (&[], None));
    place.write("ragged.csv", "text,label\n一,良い\n二\n三,悪い\n");
    place.write("open.csv", "text,label\n一,良い\n\"二,悪い\n");
    place.write("stray.csv", "text,label\n\"一\"つ,良い\n二,悪い\n");
    place.write("tabs.tsv", "text\tlabel\n一\t良い\n二\t悪い\t余分\n");
    place.write("bad.jsonl", "{\"text\": \"一\", \"label\": }\n");
    place.write("cut.jsonl", "{\"text\": \"一\"\n");
    place.write("list.jsonl", "[{\"text\": \"一\"}]\n");
    place.write(
        "nested.jsonl",
        "{\"text\": {\"a\": 1}, \"label\": \"良い\"}\n{\"text\": \"一\", \"label\": \"悪い\"}\n",
    );
    place.write("book.xlsx", b"PK\x03\x04 and more");
    place.write("cut.csv.gz", [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0x4b]);
    place.write(
        "one.csv",
        "text,label\n一,良い\n二,良い\n三,良い\n四,良い\n五,良い\n六,良い\n七,良い\n八,良い\n九,良い\n十,良い\n",
    );
    place.write("few.csv", "text,label\n一,良い\n二,悪い\n");
    place.write("header.csv", "text,label\n");
    place.write("unlike.csv", "text,label\n一,良い\n二,良くない\n");
    place.write("none.csv", "a,b\n1,2\n3,4\n");
    place.write("zero.csv", b"text,label\na\0b,1\n");
    place.write("not.parquet", "text");
    std::fs::create_dir_all(place.path("nothing")).unwrap();
    let cases: &[&[&str]] = &[
        &["train", "reviewd.csv"],
        &["train", "."],
        &["train", "ragged.csv"],
        &["train", "open.csv"],
        &["train", "stray.csv"],
        &["train", "tabs.tsv"],
        &["train", "bad.jsonl"],
        &["train", "cut.jsonl", "--task", "classify"],
        &["train", "list.jsonl"],
        &["train", "nested.jsonl", "--task", "classify"],
        &["train", "book.xlsx"],
        &["train", "cut.csv.gz"],
        &["train", "one.csv"],
        &["train", "few.csv"],
        &["train", "header.csv"],
        &["train", "none.csv"],
        &["train", "zero.csv"],
        &["train", "not.parquet"],
        &["train", "reviewed.csv", "--label", "評判"],
        &["train", "reviewed.csv", "--text", "評価", "--label", "評価"],
        &["train", "reviewed.csv", "--encoding", "shift-jis2"],
        &["train", "reviewed.csv", "--encoding", "utf-32"],
        &["train", "reviewed.csv", "--task", "translate", "--tokens", "words"],
        &["train", "--task", "lm"],
        &["train", "few.csv", "--task", "lm"],
        &["train", "few.csv", "--task", "translate"],
        &["train", "reviewed.csv", "--out", "model"],
        &["train", "reviewed.csv,few.csv"],
        &["train", "reviewed.csv", "--model", "ngrams", "--epochs", "3"],
        &["train", "reviewed.csv", "--model", "gru", "--task", "translate"],
        &["eval", "model", "unlike.csv"],
        &["eval", "nothing", "few.csv"],
        &["eval", "missing", "few.csv"],
        &["predict", "model", ""],
        &["predict", "model", "--input", "reviewed.csv", "--delimiter", ";", "--format", "jsonl"],
        &["explain", "model", "一", "--layer", "1"],
        &["explain", "model", "一", "--sort", "size"],
        &["explain", "model", "一", "--key", "2"],
        &["trace", "--model", "model", "--text", "一"],
        &["position", "--base", "10"],
        &["position", "--length", "9999999"],
        &["bench", "infer", "--lengths", "missing.txt"],
        &["film", "model"],
    ];
    for args in cases {
        // Messages about the input may come first.
        let run = crate::common::Run::from_output(place.command(args).env("LANG", "ja_JP.UTF-8").output().unwrap());
        let last = run.stderr.lines().last().unwrap_or_default();
        assert!(run.code == 2 && run.stdout.is_empty() && last.starts_with("エラー: "), "{args:?}: {run:#?}");
        assert_eq!(japanese_fault(&run.stderr), None, "{args:?}: {run:#?}");
    }
}

#[test]
fn system_errors_are_reported_once() {
    let place = TestDir::new();
    for args in [&["check", "nowhere.json"][..], &["trace", "--input", "nowhere.json"]] {
        let message = error_message(&place, args);
        assert!(message.contains("nowhere.json") && !message.contains("No such file"), "{message}");
    }
}

#[test]
fn without_a_request_there_is_no_japanese() {
    let place = TestDir::new();
    place.write("reviews.csv", crate::common::csv(&crate::common::reviews(60)));
    for (out, language) in [("none", None), ("c", Some("C")), ("english", Some("en_US.UTF-8"))] {
        let options = (&[][..], language);
        let trained = said(&place, &["train", "reviews.csv", "--out", out, "--epochs", "1"], options);
        let card = place.read(&format!("{out}/README.md"));
        // The n-grams are in the language of the texts.
        let (card, ngrams) = card.split_once("## Strongest n-grams of each class").unwrap();
        assert!(ngrams.contains("The n-gram model weighs these n-grams most"), "{ngrams}");
        let expected = [trained, said(&place, &["eval", out, "reviews.csv"], options), card.to_owned()];
        let whole = expected.concat();
        let is_japanese = |c: char| ('\u{3000}'..'\u{ff00}').contains(&c);
        assert_eq!(whole.lines().find(|line| line.contains(is_japanese)), None);
        for part in
            ["rows      ", "epoch   1  loss ", "plan      1 epoch", "done in ", "accuracy", "## Limits", "Advice: "]
        {
            assert!(whole.contains(part), "{part}: {whole}");
        }
    }
}
