//! The commands `check` and `trace`.

use crate::common::TestDir;
use serde_json::Value;

const RIGHT: &str = r#"{"title": "t", "inputs": {"Q": [[1, 0], [0, 2]], "K": [[1, 0], [0, 1], [1, 1]],
    "V": [[1, 2, 3], [4, 5, 6], [7, 8, 9]]},
    "claims": {"scores": [[1, 0, 1], [0, 2, 2]], "scaled": [["0.71", 0, "0.71"], [0, "1.41", "1.41"]]}}"#;

#[test]
fn check_reports_each_claim_and_sets_the_exit_code() {
    let place = TestDir::new();
    place.write("right.json", RIGHT);
    place.write("wrong.json", RIGHT.replace("[0, 2, 2]", "[0, 2, 3]"));
    place.write("broken.json", "{");
    let right = place.run(&["check", "right.json", "--json"]).assert_success();
    let json: Value = serde_json::from_str(&right.stdout).unwrap();
    assert_eq!(json["file"], "right.json");
    assert_eq!(json["ok"], true);
    assert_eq!(json["steps"][1]["name"], "scaled");
    assert_eq!(json["steps"][1]["verdict"], "holds");
    let both = place.run(&["check", "right.json", "wrong.json", "--json"]);
    assert_eq!(both.code, 1, "{both:?}");
    let lines: Vec<Value> = both.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    let step = &lines[1]["steps"][0];
    assert_eq!(step["verdict"], "wrong");
    assert_eq!(step["worst"]["index"], serde_json::json!([1, 2]));
    assert_eq!(step["worst"]["claimed"], "3");
    assert_eq!(step["worst"]["true"], 2.0);
    let text = place.run(&["check", "wrong.json"]);
    assert_eq!(text.code, 1);
    for said in ["scores", "wrong here", "1 of 6 numbers", "row 2, column 3: claimed 3, true 2"] {
        assert!(text.stdout.contains(said), "{said}: {}", text.stdout);
    }
    // The other files are still checked.
    let all = place.run(&["check", "broken.json", "nowhere.json", "wrong.json", "--json"]);
    assert_eq!(all.code, 2, "{all:?}");
    assert_eq!(all.stdout.lines().count(), 1);
    for said in
        ["error: reading broken.json: not a worked example in JSON: ", "error: nowhere.json: opening the data: "]
    {
        assert!(all.stderr.contains(said), "{said}: {}", all.stderr);
    }
    place.run_rejected(&["check"], &["<FILE>"]);
}

/// 1.156 · 3 = 3.468, but 1.16 · 3 = 3.48: continuing from the printed value is not an error.
const ROUNDED: &str = r#"{"title": "A title of many words that would run far beyond the last column of a terminal if nobody broke it",
    "source": "a source that is as long, so that it would run beyond the last column of a terminal too, if nobody did",
    "tokens": ["猫"], "inputs": {"Q": [["1.156"]], "K": [[1]]}, "options": {"scale": 3},
    "claims": {"scores": [["1.16"]], "scaled": [["3.48"]]}}"#;

#[test]
fn results_from_rounded_numbers_are_not_errors() {
    let place = TestDir::new();
    place.write("rounded.json", ROUNDED);
    let text = place.run(&["check", "rounded.json"]).assert_success().stdout;
    for said in [
        "  scaled        rounded     1 of 1 number\n",
        "row 1 (猫), column 1 (猫): claimed 3.48, true 3.4680\n",
        "  2 claims: 1 of 2 hold, 1 follows from rounded ones\n",
        "rounded: follows from earlier steps as printed (rounded); not an error",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let japanese = place.run(&["check", "rounded.json", "--lang", "ja"]).assert_success().stdout;
    for said in ["丸め", "1 行目（猫）、1 列目（猫）: 記載 3.48、正しくは 3.4680", "1 件は丸めによる"]
    {
        assert!(japanese.contains(said), "{said}: {japanese}");
    }
    assert!(!japanese.contains("claim") && !japanese.contains("rounded:"), "{japanese}");
    let json = place.run(&["check", "rounded.json", "--json", "--lang", "ja"]).assert_success().json();
    assert_eq!(json["ok"], true);
    let step = &json["steps"][1];
    assert_eq!((&step["verdict"], &step["wrong"], &step["rounded"]), (&"rounded".into(), &0.into(), &1.into()));
    assert!(step.get("row_sums").is_none());
    // Other wrong numbers are still wrong.
    place.write("wrong.json", ROUNDED.replace("3.48", "3.58"));
    assert_eq!(place.run(&["check", "rounded.json", "wrong.json"]).code, 1);
}

#[test]
fn no_report_line_is_wider_than_a_terminal() {
    let place = TestDir::new();
    place.write("rounded.json", ROUNDED);
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../chumoku-trace/worked");
    let files = std::fs::read_dir(root).unwrap().map(|file| file.unwrap().path().to_str().unwrap().to_owned());
    let mut lines = 0;
    for file in files.chain(["rounded.json".to_owned()]) {
        for lang in ["en", "ja"] {
            let run = place.run(&["check", &file, "--lang", lang]);
            assert!(run.code < 2, "{run:?}");
            for line in run.stdout.lines() {
                let wide = |c: char| matches!(c, '\u{3000}'..='\u{9fff}' | '\u{ff01}'..='\u{ff60}');
                let width: usize = line.chars().map(|c| 1 + usize::from(wide(c))).sum();
                assert!(width <= 80, "{width}: {line}");
                lines += 1;
            }
        }
    }
    assert!(lines > 200, "{lines}");
}

#[test]
fn weights_that_do_not_sum_to_one_are_noted() {
    let place = TestDir::new();
    let file = r#"{"inputs": {"scaled": [[0, 0]]}, "claims": {"weights": [["0.50", "0.60"]]}}"#;
    place.write("weights.json", file);
    let run = place.run(&["check", "weights.json"]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("                row 1 sums to 1.1000, not to 1\n"), "{}", run.stdout);
    let japanese = place.run(&["check", "weights.json", "--lang", "ja"]).stdout;
    assert!(japanese.contains("1 行目の和は 1.1000（1 ではない）"), "{japanese}");
    let json: Value = serde_json::from_str(&place.run(&["check", "weights.json", "--json"]).stdout).unwrap();
    assert_eq!(json["steps"][0]["row_sums"][0]["index"], serde_json::json!([0]));
    assert!((json["steps"][0]["row_sums"][0]["sum"].as_f64().unwrap() - 1.1).abs() < 1e-9);
}

#[test]
fn steps_that_exceed_memory_are_rejected_before_they_are_computed() {
    let place = TestDir::new();
    let rows = |n: usize| format!("[{}]", vec!["[1]"; n].join(","));
    // A quarter of a million scores for each of as many queries.
    let n = 250_000;
    place.write(
        "long.json",
        format!(r#"{{"inputs": {{"Q": {0}, "K": {0}, "V": {0}}}, "claims": {{"scores": [[1]]}}}}"#, rows(n)),
    );
    for command in [["trace", "--input"].as_slice(), &["check"]] {
        let said = ["long.json: scores would be 250000×250000, which takes 4.0 TB of memory", "give smaller matrices"];
        place.run_rejected(&[command, &["long.json"]].concat(), &said);
    }
}

/// Errors in a file name the step, the place, the expected and actual values, and a suggestion.
#[test]
fn every_error_in_a_file_is_named_with_its_place() {
    let place = TestDir::new();
    let claims = |claims: &str| RIGHT.replace(r#""claims": {"#, &format!(r#""claims": {{{claims}, "#));
    let options = |options: &str| RIGHT.replace(r#""claims""#, &format!(r#""options": {{{options}}}, "claims""#));
    let cases: Vec<(String, &str, &[&str])> = vec![
        // Matrices: ragged, missing, with inconsistent shapes, or with invalid numbers.
        (RIGHT.replace("[4, 5, 6]", "[4, 5]"), "reading", &["inputs.V[2]: expected 3 numbers, as in row 1, found 2"]),
        (
            RIGHT.replace("[0, 2, 2]", "[0, 2]"),
            "reading",
            &["claims.scores[2]: expected 3 numbers, as in row 1, found 2"],
        ),
        (RIGHT.replace("\"inputs\"", "\"count\""), "reading", &["unknown key “Q” in count; known keys: network, "]),
        (RIGHT.replace("\"K\": ", "\"memory\": "), "checking", &["claims.scores does not follow", "give W_K (or K)"]),
        (
            RIGHT.replace("[1, 0, 1]", "[1, 0]").replace("[0, 2, 2]", "[0, 2]"),
            "checking",
            &["claims.scores: expected 2×3", "found 2×2"],
        ),
        (
            RIGHT.replace("[1, 1]]", "[1, 1], [2, 2]]"),
            "checking",
            &["V is 3×3: expected 4 rows, one for each key, as the weights are 2×4"],
        ),
        (
            RIGHT.replace("[[1, 0], [0, 2]]", "[[1], [0]]"),
            "checking",
            &["Q is 2×1 and K 3×2: expected the same number of columns"],
        ),
        (
            RIGHT.replace("[4, 5, 6]", "[4, \"five\", 6]"),
            "reading",
            &["inputs.V[2][2]: expected a number such as 0.50, found “five”"],
        ),
        (
            RIGHT.replace("[4, 5, 6]", "[4, \"0,5\", 6]"),
            "reading",
            &["inputs.V[2][2]: expected a number such as 0.50, found “0,5”"],
        ),
        (
            RIGHT.replace("\"0.71\", 0", "true, 0"),
            "reading",
            &["claims.scaled[1][1]: expected a number", "found “true”"],
        ),
        (RIGHT.replace("\"0.71\", 0", "{}, 0"), "reading", &["claims.scaled[1][1]: expected a number", "found “{}”"]),
        (
            RIGHT.replace("[0, 2, 2]", "7"),
            "reading",
            &["claims.scores[2]: expected a matrix [[…], […]] or a list […] of numbers, found “7”"],
        ),
        // Unknown keys: the nearest known one, and all of them.
        (
            RIGHT.replace("\"claims\"", "\"claim\""),
            "reading",
            &["unknown key “claim”; did you mean “claims”?", "known keys: title, title_ja, source"],
        ),
        (
            claims(r#""wieghts": [[1]]"#),
            "reading",
            &["unknown key “wieghts” in claims; did you mean “weights”?", "known keys: "],
        ),
        (claims(r#""A": [[1]]"#), "reading", &["unknown key “A” in claims; did you mean “weights”?"]),
        (options(r#""mask_": []"#), "reading", &["unknown key “mask_” in options; did you mean “mask”?"]),
        (RIGHT.replacen("\"K\"", "\"Q\"", 1), "reading", &["the key “Q” in inputs occurs twice"]),
        // Masks: the entry, and its value.
        (
            options(r#""mask": [[true, true, false], [true, 0, true]]"#),
            "reading",
            &["options.mask[2][2]: expected true (the key is seen) or false, as at the mask's first place, found “0”"],
        ),
        (
            options(r#""mask": [[true, true, false], [true, "true", null]]"#),
            "reading",
            &["options.mask[2][2]: expected true (the key is seen) or false", "found “\"true\"”"],
        ),
        (
            options(r#""mask": [[0, 1, "-inf"], [true, 0, 0]]"#),
            "reading",
            &[
                "options.mask[2][1]: expected a number, which is added to the score, as at the mask's first place, found “true”",
            ],
        ),
        (
            options(r#""mask": [[0, 1, "x"], [0, 0, 0]]"#),
            "reading",
            &["options.mask[1][3]: expected a number", "found “x”; a mask holds true and false, or numbers"],
        ),
        (
            options(r#""mask": [[0, 1, null], [0, 0, 0]]"#),
            "reading",
            &["options.mask[1][3]: expected a number", "found “null”"],
        ),
        (
            options(r#""mask": [[true, true, true], [true]]"#),
            "reading",
            &["options.mask[2]: expected 3 entries, as in row 1, found 1"],
        ),
        (
            options(r#""mask": [[true, true, true]]"#),
            "checking",
            &["options.mask: expected 2×3 (queries × keys), as the scores are, found 1×3"],
        ),
        (
            options(r#""mask": [[0, 0], [0, 0], [0, 0]]"#),
            "checking",
            &["options.mask: expected 2×3 (queries × keys), as the scores are, found 3×2"],
        ),
        (
            options(r#""mask": [[[true, true, true]], [[true, true, true]]]"#),
            "reading",
            &["options.mask: expected one matrix for all heads, found 2"],
        ),
        (
            options(r#""mask": true"#),
            "reading",
            &["options.mask: expected a matrix [[…], […]] or a list […] of entries, found “true”"],
        ),
        (options(r#""mask": []"#), "reading", &["options.mask: expected at least one row"]),
        // Unequal heads.
        (
            r#"{"inputs": {"Q": [[[1]], [[1], [2]]], "K": [[[1]], [[1]]], "V": [[[1]], [[2]]]}, "claims": {}}"#.into(),
            "reading",
            &["inputs.Q[2]: expected 1×1 numbers, as of head 1, found 2×1"],
        ),
        (
            r#"{"inputs": {"Q": [[[1]], [[1]]], "K": [[1]]}, "claims": {"scores": [[[1]], [[1]]]}}"#.into(),
            "checking",
            &["K is 1×1: expected columns in a multiple of 2, a part for each of its heads"],
        ),
        (
            r#"{"inputs": {"Q": [[[1]], [[1]], [[1]]], "K": [[[1]], [[1]]]}, "claims": {"scores": [[[1]]]}}"#.into(),
            "checking",
            &["heads of keys: expected a divisor of the 3 heads, found 2"],
        ),
        // Other options.
        (
            options(r#""num_heads": "2""#),
            "reading",
            &["options.num_heads: expected a whole number from 1, found “\"2\"”"],
        ),
        (
            options(r#""num_heads": 4"#),
            "checking",
            &["Q is 2×2: expected columns in a multiple of 4, a part for each of its heads"],
        ),
        (options(r#""norm": "both""#), "reading", &["options.norm: expected \"pre\" or \"post\", found “\"both\"”"]),
        (options(r#""window": -1"#), "reading", &["options.window: expected a whole number, found “-1”"]),
        (options(r#""d_k": 3"#), "checking", &["options.d_k: expected 2, the width of the queries, found 3"]),
        (RIGHT.replace("\"t\"", "3"), "reading", &["title: expected a text, found “3”"]),
        (
            RIGHT.replace("\"inputs\"", "\"tokens\": [\"a\"], \"inputs\""),
            "checking",
            &["tokens: expected 2, one for each of the queries, found 1"],
        ),
        (RIGHT.replace("]]}", "]]"), "reading", &["not a worked example in JSON: ", "line 3 column "]),
        (String::new(), "reading", &["not a worked example in JSON: ", "line 1 column 0"]),
    ];
    for (file, doing, said) in cases {
        place.write("mine.json", &file);
        let start = format!("error: {doing} mine.json: ");
        let said: Vec<&str> = [&[start.as_str()], said].concat();
        place.run_rejected(&["check", "mine.json"], &said);
    }
    place.write("latin.json", b"{\"title\": \"\xe9\"}");
    place.run_rejected(
        &["check", "latin.json"],
        &["error: reading latin.json: expected UTF-8", "offset 11", "save the file as UTF-8"],
    );
    place.run_rejected(
        &["check", "none.json"],
        &["error: none.json: opening the data: expected a file, found nothing of that name; "],
    );
    place.run_rejected(&["check", "."], &["error: .: opening the data: expected a file, found a folder"]);
}

#[test]
fn count_shows_every_step_and_its_cost() {
    let place = TestDir::new();
    let text =
        place.run(&["count", "--network", "attention", "--d-model", "512", "--heads", "8"]).assert_success().stdout;
    for said in ["W_Q", "262,656", "1,050,624", "From length 1,024 on", "n²·d", "lstm"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let args = ["count", "--vocab", "10000", "--classes", "2", "--layers", "1", "--json"];
    let json = place.run(&args).assert_success().json();
    assert_eq!(json["count"]["parameters"], 3_350_274);
    let steps = json["count"]["steps"].as_array().unwrap();
    let sum: u64 = steps.iter().map(|s| s["parameters"].as_u64().unwrap() * s["times"].as_u64().unwrap()).sum();
    assert_eq!(sum, 3_350_274);
    let names: Vec<&str> =
        json["side_by_side"].as_array().unwrap().iter().map(|n| n["network"].as_str().unwrap()).collect();
    assert_eq!(names, ["transformer", "rnn", "lstm", "gru"]);
    place.run_rejected(&["count", "--heads", "3"], &["multiple of num_heads"]);
    place.run_rejected(&["count", "--kv-heads", "3"], &["kv-heads: expected a divisor of the 8 heads, got 3"]);
    place.run_rejected(&["count", "--length", "0"], &["a whole number from 1, found 0"]);
}

#[test]
fn counts_are_checked_too() {
    let place = TestDir::new();
    let file = |claims: &str| {
        format!(r#"{{"count": {{"network": "attention", "d_model": 512, "heads": 8}}, "claims": {claims}}}"#)
    };
    place.write("a.json", file(r#"{"W_Q": 262656, "parameters": "1050624"}"#));
    place.run(&["check", "a.json"]).assert_success();
    place.write("b.json", file(r#"{"parameters": 1048576}"#));
    let found = place.run(&["check", "b.json", "--json"]);
    assert_eq!(found.code, 1);
    let json: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(json["steps"][0]["worst"]["true"], 1_050_624.0);
    // Three layers have three of each, with their biases.
    let layers = r#"{"count": {"d_model": 8, "heads": 2, "layers": 3}, "claims": {"W_Q": NUMBER}}"#;
    place.write("layers.json", layers.replace("NUMBER", "216"));
    place.run(&["check", "layers.json"]).assert_success();
    place.write("layers.json", layers.replace("NUMBER", "72"));
    assert_eq!(place.run(&["check", "layers.json"]).code, 1);
    place.write("c.json", file(r#"{"W_q": 1}"#));
    place.run_rejected(&["check", "c.json"], &["unknown key “W_q” in claims; did you mean “W_Q”?"]);
    place.write("d.json", r#"{"positions": {"d_model": 512}, "claims": {"wavelength_256": "62832"}}"#);
    place.run_rejected(
        &["check", "d.json"],
        &["unknown key “wavelength_256”", "known keys: wavelength_0, …, wavelength_255"],
    );
    place.write("e.json", r#"{"positions": {"d_model": 4}, "inputs": {}, "claims": {}}"#);
    place.run_rejected(&["check", "e.json"], &["found several"]);
    place.write("f.json", file("{}"));
    place.run_rejected(&["check", "f.json"], &["no claims"]);
    place.run_rejected(&["trace", "--input", "a.json"], &["about sizes"]);
}

#[test]
fn trace_shows_an_example_in_every_format() {
    let place = TestDir::new();
    place.write("right.json", RIGHT);
    let text = place.run(&["trace", "--input", "right.json"]).assert_success().stdout;
    for said in ["4. Scores", "S = Q Kᵀ", "S(2,2) = 0·0 + 2·1 = 2", "n × m = 2 × 3", "each row sums to 1"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let japanese = place.run(&["trace", "--example", "book", "--lang", "ja"]).assert_success().stdout;
    assert!(japanese.starts_with("注目するトークン\n") && japanese.contains("（記事 3）、例 3"), "{japanese}");
    assert!(japanese.contains("「彼」が最もよく見ているのは「本を」"), "{japanese}");
    let shapes = place.run(&["trace", "--example", "heads", "--depth", "shapes"]).assert_success().stdout;
    for said in
        ["(B, n, h·d_k) = (1, 3, 4)", "(B, h, n, n) = (1, 2, 3, 3)", "(B, h, n, d_v) = (1, 2, 3, 2)", "Here B = 1."]
    {
        assert!(shapes.contains(said) && !shapes.contains("2.4000"), "{said}: {shapes}");
    }
    assert!(text.contains("n × m = 2 × 3, (B, n, m)"), "{text}");
    for (format, said) in [("md", "# t\n"), ("html", "<!doctype html>"), ("latex", "\\begin{document}"), ("json", "{")]
    {
        let shown = place.run(&["trace", "--input", "right.json", "--format", format]).assert_success().stdout;
        assert!(shown.starts_with(said) || shown.contains(said), "{format}: {shown}");
        place.run(&["trace", "--input", "right.json", "--format", format, "--out", "shown"]).assert_success();
        assert_eq!(place.read("shown"), shown);
    }
    let backward =
        place.run(&["trace", "--example", "review-loss", "--backward", "--depth", "steps"]).assert_success().stdout;
    assert!(backward.contains("dX = dQ W_Qᵀ + dK W_Kᵀ + dV W_Vᵀ + dR"), "{backward}");
    let step =
        place.run(&["trace", "--example", "training-step", "--backward", "--depth", "steps"]).assert_success().stdout;
    assert!(step.contains("W_C⁺ = (1 − 0.1 · 0.01) · W_C − Δ(W_C)") && step.contains("ℒ⁺ = "), "{step}");
    place.run(&["trace", "--example", "book", "--format", "xlsx", "--out", "book.xlsx"]).assert_success();
    assert!(std::fs::read(place.path("book.xlsx")).unwrap().starts_with(b"PK"));
}

#[test]
fn color_is_used_on_terminals_and_on_request() {
    let place = TestDir::new();
    let run = |vars: &[(&str, &str)], more: &[&str]| {
        let mut command = place.command(&[&["trace", "--example", "causal"], more].concat());
        command.envs(vars.iter().copied()).env("TERM", "xterm-256color");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let plain = run(&[], &[]);
    assert!(plain.contains("Attention weights") && !plain.contains('\u{1b}'), "no terminal, no colour");
    let forced = run(&[("CLICOLOR_FORCE", "1")], &[]);
    assert!(forced.contains("\u{1b}[1m14. Attention weights\u{1b}[0m") && forced.contains("\u{1b}[48;5;"), "{forced}");
    assert!(run(&[("FORCE_COLOR", "3")], &[]).contains("\u{1b}[48;2;"));
    assert_eq!(run(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], &[]), plain);
    // A file is not a terminal.
    run(&[("CLICOLOR_FORCE", "1")], &["--out", "causal.txt"]);
    assert_eq!(place.read("causal.txt"), plain);
    // The file extension chooses the format unless a flag does.
    for (format, name) in
        [("md", "a.md"), ("html", "a.HTML"), ("latex", "a.tex"), ("json", "a.json"), ("text", "a.text")]
    {
        run(&[], &["--out", name]);
        assert_eq!(place.read(name), run(&[], &["--format", format]), "{name}");
    }
    run(&[], &["--out", "page.html", "--format", "md"]);
    assert_eq!(place.read("page.html"), run(&[], &["--format", "md"]));
    for format in ["md", "html", "latex", "json"] {
        assert!(!run(&[("CLICOLOR_FORCE", "1")], &["--format", format]).contains('\u{1b}'), "{format}");
    }
}

#[test]
fn impossible_traces_are_reported() {
    let place = TestDir::new();
    place.write("right.json", RIGHT);
    place.run_rejected(&["trace"], &["--example", "--input", "--model"]);
    place.run_rejected(
        &["trace", "--example", "bok"],
        &["no example is called bok", "did you mean “book”", "two-tokens"],
    );
    // A name without a similar one still gets the full list.
    place.run_rejected(
        &["trace", "--example", "zzzzzz"],
        &["no example is called zzzzzz; trace can show two-tokens, ", ", mat-sat-cat"],
    );
    place.run_rejected(&["trace", "--example", "waves"], &["tracing waves: this example is about sizes, not matrices"]);
    place.run_rejected(&["trace", "--example", "book", "--layer", "0", "--model", "x"], &["--layer"]);
    place.run_rejected(&["trace", "--example", "book", "--digits", "16"], &["--digits", "whole number from 1 to 15"]);
    place.run_rejected(&["trace", "--example", "book", "--head", "2"], &["tracing book: head 2: expected at most 1"]);
    place.run_rejected(&["trace", "--example", "book", "--layer", "2"], &["--model"]);
    place.run_rejected(&["trace", "--example", "book", "--backward"], &["tracing book: gradients: expected a loss"]);
    place.run_rejected(&["trace", "--example", "waves", "--backward"], &["this example is about sizes, not matrices"]);
    place.run_rejected(
        &["trace", "--input", "none.json"],
        &["none.json: opening the data: expected a file, found nothing of that name; "],
    );
    place.run_rejected(&["trace", "--model", "none"], &["--text"]);
    place.run_rejected(&["trace", "--model", "none", "--text", "x"], &["none"]);
    place.write("misfit.json", r#"{"inputs": {"Q": [[1, 2]], "K": [[1]]}}"#);
    place.run_rejected(
        &["trace", "--input", "misfit.json"],
        &["tracing misfit.json: Q is 1×2 and K 1×1: expected the same number of columns"],
    );
}

#[test]
fn merges_end_with_the_tokens_of_an_attention_trace() {
    let place = TestDir::new();
    place.train_small("model", &["--epochs", "1", "--tokens", "subwords"]);
    let text = "The staff was wonderful";
    let args = ["trace", "--model", "model", "--tokens", "--text", text];
    let found = place.run(&[&args[..], &["--format", "json"]].concat()).assert_success().json();
    let words = found["words"].as_array().unwrap();
    let tokens: Vec<&str> =
        words.iter().flat_map(|word| word["tokens"].as_array().unwrap()).map(|token| token.as_str().unwrap()).collect();
    let whole = place.run(&["trace", "--model", "model", "--text", text, "--format", "json"]).assert_success().json();
    let own: Vec<&str> = whole["tokens"].as_array().unwrap().iter().map(|token| token.as_str().unwrap()).collect();
    assert_eq!(own[1..], tokens, "after [CLS]");
    let shown = place.run(&args).assert_success().stdout;
    assert!(shown.contains("4 words, ") && shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    place.run(&["train", "reviews.csv", "--model", "ngrams", "--out", "ngrams"]).assert_success();
    let run = place.run(&["trace", "--model", "ngrams", "--tokens", "--text", text]);
    assert!(run.code == 2 && run.stderr.contains("tokenizer.json"), "{run:?}");
    place.run_rejected(&[&args[..], &["--format", "xlsx"]].concat(), &["--format"]);
}

#[cfg(unix)]
#[test]
fn output_files_keep_their_kind() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let place = TestDir::new();
    let args = |out: &'static str| ["trace", "--example", "by-hand", "--depth", "steps", "--out", out];
    place.write("real", "old");
    std::fs::set_permissions(place.path("real"), std::fs::Permissions::from_mode(0o600)).unwrap();
    symlink("real", place.path("link")).unwrap();
    place.run(&args("link")).assert_success();
    assert!(std::fs::symlink_metadata(place.path("link")).unwrap().is_symlink());
    assert!(place.read("real").contains("S = Q Kᵀ"));
    assert_eq!(std::fs::metadata(place.path("real")).unwrap().permissions().mode() & 0o777, 0o600);
    let shown = place.run(&args("/dev/stdout")).assert_success();
    assert!(shown.stdout.contains("S = Q Kᵀ"), "{shown:?}");
    place.write("mine.json", RIGHT);
    place.run_rejected(
        &["trace", "--input", "mine.json", "--out", "mine.json"],
        &["mine.json", "this is an input file", "choose another output"],
    );
    assert_eq!(place.read("mine.json"), RIGHT);
}

/// Returns a whole number without a decimal point.
fn json_whole(x: &Value) -> Value {
    (x.as_f64().unwrap() as u64).into()
}

/// The largest difference from the model's own computation at precision highest.
fn difference(trace: &Value) -> f64 {
    let agreement = &trace["agreements"][0];
    assert_eq!(agreement["precision"], "highest");
    let differences = agreement["largest_differences"].as_object().unwrap();
    assert!(differences.len() >= 2);
    differences.values().map(|x| x.as_f64().unwrap()).fold(0.0, f64::max)
}

#[test]
fn a_trace_of_a_model_is_consistent() {
    let place = TestDir::new();
    let mut rows = String::from("text,label\n");
    for i in 0..60 {
        rows.push_str(&format!("good film number {i},pos\nbad film number {i},neg\n"));
    }
    place.write("films.csv", rows);
    place.run(&["train", "films.csv", "--epochs", "1", "--out", "films"]).assert_success();
    let trace =
        place.run(&["trace", "--model", "films", "--text", "a good film", "--format", "json"]).assert_success().json();
    assert!(difference(&trace) < 1e-5, "{}", trace["agreements"]);
    let step = trace["steps"].as_array().unwrap().iter().find(|step| step["name"] == "weights").unwrap();
    let tokens = trace["tokens"].as_array().unwrap().len();
    assert_eq!(step["shape"], serde_json::json!([tokens, tokens]));
    // It continues to the network's output from any layer.
    assert_eq!(trace["classes"], serde_json::json!(["neg", "pos"]));
    let steps = |trace: &Value| trace["steps"].as_array().unwrap().iter().rev().take(5).cloned().collect::<Vec<_>>();
    let first = ["trace", "--model", "films", "--text", "a good film", "--format", "json", "--layer", "1"];
    let first = place.run(&first).assert_success().json();
    assert!(difference(&first) < 1e-5, "{}", first["agreements"]);
    let names = ["probabilities", "class_sums", "class_exponentials", "class_max", "logits"];
    for (trace, k) in [&trace, &first].into_iter().flat_map(|trace| (0..5).map(move |k| (trace, k))) {
        assert_eq!(steps(trace)[k]["name"], names[k]);
    }
    let p = |trace: &Value, k: usize| steps(trace)[0]["matrix"][0][k].as_f64().unwrap();
    assert!((0..2).all(|k| (p(&trace, k) - p(&first, k)).abs() < 1e-5), "{trace}");
    // The first layer begins with ids and embeddings, whose lengths are those of `explain`.
    let path =
        place.run(&["explain", "films", "a good film", "--json", "-"]).assert_success().json()["residual_path"].clone();
    let of_name = |trace: &Value, name: &str| {
        let step =
            trace["steps"].as_array().unwrap().iter().find(|step| step["name"] == name && step["kind"] == "value");
        step.map(|step| step["matrix"].as_array().unwrap().clone())
    };
    let ids: Vec<Value> = of_name(&first, "ids").unwrap().iter().map(|row| json_whole(&row[0])).collect();
    assert_eq!(path["ids"], Value::Array(ids));
    let x = of_name(&first, "embeddings").or_else(|| of_name(&first, "X")).unwrap();
    for (row, length) in x.iter().zip(path["embedding"].as_array().unwrap()) {
        let squares: f64 = row.as_array().unwrap().iter().map(|x| x.as_f64().unwrap().powi(2)).sum();
        assert!((squares.sqrt() - length.as_f64().unwrap()).abs() < 1e-4, "{row}: {length}");
    }
    assert!(of_name(&first, "token_vectors").is_some());
    let second = ["trace", "--model", "films", "--text", "a good film", "--format", "json", "--layer", "2"];
    assert!(of_name(&place.run(&second).assert_success().json(), "ids").is_none());
    place.run_rejected(
        &["trace", "--model", "films", "--text", "x", "--layer", "9"],
        &["layer 9: this model has layers 1 to"],
    );
    place.run_rejected(
        &["trace", "--model", "films", "--text", "x", "--head", "99"],
        &["head 99: this model has heads 1 to"],
    );
    // The first index out of range, too.
    for flag in ["--layer", "--head"] {
        let said = place.run(&["trace", "--model", "films", "--text", "x", flag, "99"]).stderr;
        let count: usize = said.trim().rsplit(' ').next().unwrap().parse().unwrap();
        place
            .run(&["trace", "--model", "films", "--text", "x", flag, &count.to_string(), "--depth", "steps"])
            .assert_success();
        let name = flag.trim_start_matches('-');
        let said = format!("{name} {}: this model has {name}s 1 to {count}", count + 1);
        place.run_rejected(&["trace", "--model", "films", "--text", "x", flag, &(count + 1).to_string()], &[&said]);
    }
    place.run_rejected(&["trace", "--model", "films", "--text", " "], &["empty"]);
    assert_eq!(trace["title"], format!("films: self-attention, layer {}, head 1", trace["model"]["layer"]));
    let long = "a good film ".repeat(1000);
    let cut = place
        .run(&["trace", "--model", "films", "--text", &long, "--depth", "shapes", "--lang", "ja"])
        .assert_success()
        .stdout;
    assert!(cut.contains(" トークンのうち最初の "), "{cut}");
    place.run_rejected(&["trace", "--model", "films", "--text", "x", "--part", "cross"], &["--part", "classifier"]);

    // Several independent answers have no shares.
    let rows: String = (0..60).map(|i| format!("good film number {i},4.{i}\nbad film number {i},1.{i}\n")).collect();
    place.write("ratings.csv", format!("text,rating\n{rows}"));
    place.run(&["train", "ratings.csv", "--task", "score", "--epochs", "1", "--out", "ratings"]).assert_success();
    let trace = place
        .run(&["trace", "--model", "ratings", "--text", "a good film", "--format", "json"])
        .assert_success()
        .json();
    assert_eq!(trace["steps"].as_array().unwrap().last().unwrap()["name"], "residual_2");
    assert_eq!(trace["classes"], serde_json::json!([]));

    place.run(&["train", "films.csv", "--epochs", "1", "--out", "gru", "--model", "gru"]).assert_success();
    place.run_rejected(&["trace", "--model", "gru", "--text", "x"], &["recurrent network"]);

    place.train_translator();
    for part in ["encoder", "decoder", "cross"] {
        let args = ["trace", "--model", "turn", "--text", "123", "--target", "32", "--part", part, "--format", "json"];
        let trace = place.run(&args).assert_success().json();
        assert_eq!(trace["model"]["attention"], part);
        let said = ["self-attention of the encoder", "self-attention of the decoder", "cross-attention"];
        assert!(
            said.iter().any(|said| said.contains(part) && trace["title"].as_str().unwrap().contains(said)),
            "{}",
            trace["title"]
        );
        assert!(difference(&trace) < 1e-5, "{part}: {}", trace["agreements"]);
        let names: Vec<&str> = trace["steps"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
        assert_eq!(names.contains(&"rotated_Q"), part != "cross", "{names:?}");
        assert_eq!(names.contains(&"masked"), part == "decoder", "{names:?}");
        // The feed-forward network follows the last attention of a layer.
        assert_eq!(names.contains(&"feed_forward"), part != "decoder", "{names:?}");
        let weights = trace["steps"].as_array().unwrap().iter().find(|step| step["name"] == "weights").unwrap();
        let expected = match part {
            "encoder" => [4, 4],
            "decoder" => [3, 3],
            _ => [3, 4],
        };
        assert_eq!(weights["shape"], serde_json::json!(expected), "{part}");
        // The tokens around the texts have names of their own.
        let (queries, keys) = (trace["tokens"].as_array().unwrap(), trace["key_tokens"].as_array().unwrap());
        match part {
            "encoder" => assert_eq!(queries.last().unwrap(), "[END]"),
            "decoder" => assert_eq!(queries[0], "[START]"),
            _ => assert_eq!((&queries[0], keys.last().unwrap()), (&"[START]".into(), &"[END]".into())),
        }
    }

    // The first layer begins with the tokens of its side.
    let names = |part: &str| {
        let args = ["trace", "--model", "turn", "--text", "123", "--target", "32", "--part", part, "--layer", "1"];
        let trace = place.run(&[&args[..], &["--format", "json"]].concat()).assert_success().json();
        let steps = trace["steps"].as_array().unwrap().iter();
        steps.map(|step| step["name"].as_str().unwrap().to_owned()).take(4).collect::<Vec<_>>()
    };
    for part in ["encoder", "decoder", "cross"] {
        // The rotary positions are not added to the embeddings, but the sinusoidal ones are.
        assert_eq!(names(part), ["ids", "token_vectors", "embeddings", "positions"], "{part}");
    }

    let long = "12".repeat(2000);
    place.run_rejected(
        &["trace", "--model", "turn", "--text", "123", "--target", &long],
        &["the translation has ", " tokens: expected at most ", "the model's limit; give a shorter translation"],
    );
    let cut = place
        .run(&["trace", "--model", "turn", "--text", &long, "--target", "32", "--depth", "steps"])
        .assert_success()
        .stdout;
    assert!(cut.contains("The text is longer than the model reads: the first "), "{cut}");

    place.train_language_model();
    let trace =
        place.run(&["trace", "--model", "lm", "--text", "to be or", "--format", "json"]).assert_success().json();
    assert!(difference(&trace) < 1e-5, "{}", trace["agreements"]);
    let long = "to be or not to be ".repeat(40);
    let cut = place.run(&["trace", "--model", "lm", "--text", &long, "--depth", "steps"]).assert_success().stdout;
    assert!(cut.contains("the last 64 of 7"), "{cut}");
    // The heading contains only the beginning of a long text.
    assert!(cut.lines().position(|line| line.contains("given")).unwrap() < 10, "{cut}");
    assert!(trace["cut"].is_null());
    assert_eq!(
        trace["model"],
        serde_json::json!({"name": "lm", "attention": "causal", "layer": trace["model"]["layer"], "head": 1})
    );
    let cut = place
        .run(&["trace", "--model", "lm", "--text", &long, "--format", "json", "--lang", "ja"])
        .assert_success()
        .json();
    assert_eq!((&cut["cut"]["read"], &cut["cut"]["part"]), (&64.into(), &"last".into()));
    assert!(cut["title"].as_str().unwrap().starts_with("lm: 因果的セルフアテンション、第 "), "{}", cut["title"]);
    // No query sees later keys.
    let weights = trace["steps"].as_array().unwrap().iter().find(|step| step["name"] == "weights").unwrap();
    for (i, row) in weights["matrix"].as_array().unwrap().iter().enumerate() {
        assert!(row.as_array().unwrap().iter().skip(i + 1).all(|x| x == 0.0), "{row}");
    }
}

#[test]
fn an_encoder_trace_ends_at_the_vector_of_embed() {
    let place = TestDir::with_bert();
    let text = "The foods was good";
    let trace = |flags: &[&str]| {
        let args = ["trace", "--model", "bert", "--text", text, "--format", "json"];
        place.run(&[&args[..], flags].concat()).assert_success().json()
    };
    let embedding = |flags: &[&str]| -> Vec<f64> {
        let found = place.run(&[&["embed", "bert", text], flags].concat()).assert_success().json();
        found["embedding"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    };
    let last = |trace: &Value, name: &str| -> Vec<f64> {
        let step = trace["steps"].as_array().unwrap().last().unwrap();
        assert_eq!(step["name"], name);
        step["matrix"][0].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    };
    let near = |a: &[f64], b: &[f64]| {
        assert_eq!(a.len(), b.len());
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6), "{a:?} {b:?}");
    };
    for layer in ["1", "2"] {
        let found = trace(&["--layer", layer, "--head", "2"]);
        assert!(difference(&found) < 1e-5, "{}", found["agreements"]);
        let differences = &found["agreements"][0]["largest_differences"];
        assert!(differences["vector"].is_number());
        // The first layer begins with the sum of tokens, positions and token types, and its normalization.
        assert_eq!(differences["X"].is_number(), layer == "1");
        let names: Vec<&str> =
            found["steps"].as_array().unwrap().iter().map(|step| step["name"].as_str().unwrap()).take(10).collect();
        let expected =
            ["ids", "embeddings", "positions", "embeddings_positions", "type_ids", "type_vectors", "embedding_sum"];
        assert_eq!(names.starts_with(&expected), layer == "1", "{names:?}");
        // Pooling applies to the last layer's output.
        let matrix = |name: &str| {
            let of = found["steps"].as_array().unwrap().iter().find(|step| step["name"] == name).unwrap();
            let rows = of["matrix"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
            rows.map(|x| x.as_f64().unwrap()).collect::<Vec<f64>>()
        };
        let is_same = matrix("final_norm_2").iter().zip(matrix("hidden")).all(|(a, b)| (a - b).abs() < 1e-5);
        assert_eq!(is_same, layer == "2");
        assert_eq!(found["tokens"], serde_json::json!(["[CLS]", "the", "food", "##s", "was", "good", "[SEP]"]));
        near(&last(&found, "vector"), &embedding(&[]));
    }
    // As in the folder: max pooling, a dense layer with tanh, and no normalization.
    let module = |kind: &str, path: &str| serde_json::json!({ "type": format!("sentence_transformers.models.{kind}"), "path": path });
    let modules = serde_json::json!([module("Transformer", ""), module("Pooling", "1"), module("Dense", "2")]);
    place.write("bert/modules.json", modules.to_string());
    for folder in ["bert/1", "bert/2"] {
        std::fs::create_dir(place.path(folder)).unwrap();
    }
    place.write("bert/1/config.json", r#"{ "pooling_mode_max_tokens": true, "pooling_mode_mean_tokens": true }"#);
    let dense = r#"{ "in_features": 32, "out_features": 3, "bias": true, "activation_function": "torch.nn.modules.activation.Tanh" }"#;
    place.write("bert/2/config.json", dense);
    let bytes =
        |count: usize| (0..count).flat_map(|i| ((i as f32 * 0.7).sin() * 0.2).to_le_bytes()).collect::<Vec<u8>>();
    let (weight, bias) = (bytes(96), bytes(3));
    let tensor = |shape, data| safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape, data).unwrap();
    let tensors = [("linear.weight", tensor(vec![3, 32], &weight)), ("linear.bias", tensor(vec![3], &bias))];
    place.write("bert/2/model.safetensors", safetensors::serialize(tensors, None).unwrap());
    let found = trace(&[]);
    assert!(difference(&found) < 1e-5, "{}", found["agreements"]);
    near(&last(&found, "dense_tanh"), &embedding(&[]));
    let shown = place.run(&["trace", "--model", "bert", "--text", text, "--lang", "ja"]).assert_success().stdout;
    for said in ["プーリング", "最後の層を出たベクトル", "p = [maxᵢ L; Σᵢ L / n]", "D′ = tanh(D)"]
    {
        assert!(shown.contains(said), "“{said}” is missing: {shown}");
    }
    for (form, name) in [("xlsx", "x.xlsx"), ("html", "x.html"), ("latex", "x.tex"), ("md", "x.md")] {
        place.run(&["trace", "--model", "bert", "--text", text, "--format", form, "--out", name]).assert_success();
    }
    place.run_rejected(&["trace", "--model", "bert", "--text", "x", "--layer", "9"], &["layers 1 to"]);
    place.run_rejected(&["trace", "--model", "bert", "--text", " "], &["empty"]);
}

#[test]
fn saturation_of_softmax_is_drawn_with_its_numbers() {
    let place = TestDir::new();
    let run = place.run(&["trace", "--saturation", "--format", "json"]).assert_success().json();
    let widths = run["widths"].as_array().unwrap();
    assert_eq!(widths.len(), 11);
    let number = |row: &Value, which: &str, what: &str| row[which][what].as_f64().unwrap();
    let last = &widths[10];
    assert_eq!(last["d_k"], 1024);
    assert!(number(last, "plain", "largest") > 0.95 && number(last, "scaled", "largest") < 0.5, "{last}");
    assert!(number(last, "plain", "jacobian") < 0.1 && number(last, "scaled", "jacobian") > 0.15, "{last}");
    let text = place.run(&["trace", "--saturation"]).assert_success().stdout;
    assert!(text.contains("Softmax saturates") && text.contains("1024"), "{text}");
    let japanese = place.run(&["trace", "--saturation", "--lang", "ja"]).assert_success().stdout;
    assert!(japanese.contains("飽和する"), "{japanese}");
    place.run_rejected(&["trace", "--saturation", "--format", "latex"], &["--format", "text, html or json"]);
    place.run_rejected(&["trace", "--saturation", "--example", "book"], &["--example"]);
    place.run_rejected(&["trace", "--example", "book", "--svg", "a.svg"], &["--beam <N>|--saturation"]);
    place.run(&["trace", "--saturation", "--out", "a.html"]).assert_success();
    assert!(place.read("a.html").contains("d_k"));
}

#[test]
fn likely_mistakes_are_named_in_both_languages() {
    let place = TestDir::new();
    place.write(
        "hand.json",
        r#"{"inputs": {"Q": [[1, 1, 1, 1]], "K": [[0, 0, 0, 0], [1, 1, 1, 1]]}, "claims": {"scaled": [["0.0", "1.0"]]}}"#,
    );
    let run = place.run(&["check", "hand.json"]);
    assert!(run.code == 1 && run.stdout.contains("likely mistake: divided by d_k instead of √d_k"), "{run:?}");
    let japanese = place.run(&["check", "hand.json", "--lang", "ja"]).stdout;
    assert!(japanese.contains("考えられる間違い: √d_k ではなく d_k で割っている"), "{japanese}");
    let json: Value = serde_json::from_str(&place.run(&["check", "hand.json", "--json"]).stdout).unwrap();
    assert_eq!(json["steps"][0]["mistake"]["kind"], "divided_by_d_k", "{json}");
    assert_eq!((&json["ok"], &json["file"]), (&false.into(), &"hand.json".into()));
}
