//! The language in which people are spoken to.

mod common;

use common::Place;

#[test]
fn the_flag_goes_before_the_environment_and_english_is_the_default() {
    let place = Place::new();
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
    // Of the example's own words some are Japanese; the heading over the weights is ours.
    assert!(text(&japanese, None).contains("重み") && !text(&english, None).contains("重み"));
    assert_eq!(text(&example, None), text(&english, None));
    assert_eq!(text(&example, Some("C.UTF-8")), text(&english, None));
    assert_eq!(text(&example, Some("ja_JP.UTF-8")), text(&japanese, None));
    assert_eq!(text(&english, Some("ja_JP.UTF-8")), text(&english, None));
    // Before the command as well as behind it.
    assert_eq!(text(&["--lang", "ja", "trace", "--example", "book"], None), text(&japanese, None));
}

/// What the command says in Japanese, and that it refuses.
fn refused(place: &Place, args: &[&str]) -> String {
    let run = common::Run::of(place.command(args).env("LANG", "ja_JP.UTF-8").output().unwrap());
    assert_eq!(run.code, 2, "{run:#?}");
    assert!(run.stdout.is_empty() && run.stderr.lines().count() == 1, "{run:#?}");
    assert!(run.stderr.starts_with("エラー: "), "{run:#?}");
    run.stderr
}

#[test]
fn what_is_wrong_with_a_command_line_is_said_in_japanese() {
    let place = Place::new();
    let says = |args: &[&str], parts: &[&str]| {
        let said = refused(&place, args);
        for part in parts {
            assert!(said.contains(part), "{args:?}: expected {part:?} in {said}");
        }
        // Only names are left of English: no sentence of clap's.
        for word in ["expected", "error", "invalid", "unexpected", "required", "cannot", "found", "tip:"] {
            assert!(!said.contains(word), "{args:?}: {word:?} in {said}");
        }
    };
    says(&["train", "x.csv", "--epoch", "3"], &["--epoch", "--epochs のことですか"]);
    says(&["train", "x.csv", "--epochs", "0"], &["--epochs <N>", "“0”", "範囲"]);
    says(&["train", "x.csv", "--seed", "x"], &["--seed <N>", "数が必要です"]);
    says(&["train", "x.csv", "--threads", "0"], &["--threads <N>", "1 から 1024 までの整数"]);
    says(&["train", "x.csv", "--precision", "low"], &["“low”", "highest, high, medium"]);
    says(&["train", "x.csv", "y.csv"], &["“y.csv”"]);
    says(&["trian", "x.csv"], &["“trian”", "train"]);
    says(&["eval", "m"], &["<DATA>", "必要な引数がありません"]);
    says(&["predict", "m", "text", "--input", "x.csv"], &["同時に使えません", "--input <FILE>"]);
    says(&["explain", "m", "t", "--lang", "fr"], &["“fr”", "en, ja"]);
    says(&["train", "--seed"], &["--seed <N>", "値がありません"]);
}

#[test]
fn faults_of_files_are_said_in_japanese() {
    let place = Place::new();
    place.write("bytes.csv", b"text,label\nabc,\x82\xa0\n");
    place.write("empty.csv", "");
    assert!(refused(&place, &["train", "missing.csv"]).contains("その名前のファイルがありません"));
    assert!(refused(&place, &["train", "empty.csv"]).contains("ファイルが空です"));
    assert!(refused(&place, &["train", "bytes.csv"]).contains("UTF-8 でないバイト"));
}

#[test]
fn faults_of_worked_examples_are_said_in_japanese() {
    let place = Place::new();
    let says = |example: &str, part: &str| {
        place.write("example.json", example);
        let said = refused(&place, &["trace", "--input", "example.json"]);
        assert!(said.contains(part), "{example}: expected {part:?} in {said}");
        // Only names are left of English.
        for word in ["expected", "found", "known", "no claims", "reading", "tracing"] {
            assert!(!said.contains(word), "{example}: {word:?} in {said}");
        }
    };
    assert!(refused(&place, &["trace", "--example", "bok"]).contains("bok という計算例はありません"));
    says(r#"{"input": {}}"#, "不明なキー “input” があります");
    says(r#"{"inputs": {"Z": []}}"#, "inputs に不明なキー “Z” があります");
    says(r#"{"inputs": {"Q": [[1]], "Q": [[1]]}}"#, "inputs にキー “Q” が二つあります");
    says(r#"{"claims": {}}"#, "キー “inputs”（出発点となる行列）がありません");
    says(r#"{"inputs": {"Q": [[1, 2], [3]]}}"#, "inputs.Q[2]: 1 行目と同じく数値が 2 個必要ですが、1 個です");
    says(r#"{"inputs": {"Q": [[1, "x"]]}}"#, "inputs.Q[1][2]: 0.50 のような数値が必要ですが、“x” です");
    says(r#"{"inputs": {"Q": [[1]]}, "options": {"num_heads": "2"}}"#, "options.num_heads: 1 以上の整数が必要ですが");
    says(r#"{"inputs": {"Q": [[1]]}}"#, "inputs から導けるものがありません");
    says(r#"{"positions": {"d_model": 4}}"#, "主張がありません");
    says(r#"{"positions": {"d_model": 4}, "claims": {"wave": 1}}"#, "使えるキーは wavelength_0, wavelength_1 です");
    says(r#"{"positions": {"d_model": 400}, "claims": {"x": 1}}"#, "wavelength_0 から wavelength_199 まで");
    says(
        r#"{"inputs": {"Q": [[1, 2]], "K": [[1]]}, "claims": {"scores": [[1]]}}"#,
        "Q は 1×2、K は 1×1 です。Q と Kᵀ を掛けるには列の数が同じでなければなりません",
    );
}
