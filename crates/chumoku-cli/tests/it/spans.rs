//! Explanations of a tagger's spans: effects of words, features that add up, requested spans, and invalid requests.

use crate::common::{TestDir, has_fonts};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

const TEXT: &str = "Greta Moore works in Oslo now.";

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

fn spans(row: &Value) -> &Vec<Value> {
    row["spans"].as_array().unwrap_or_else(|| panic!("{row}"))
}

/// Sentences with names in CoNLL format; the same for the same seed.
fn conll(n: usize, seed: u64) -> String {
    let mut state = seed;
    let mut pick = |list: &[&'static str]| list[(crate::common::next_random(&mut state) * list.len() as f64) as usize];
    let mut out = String::new();
    for i in 0..n {
        let (first, last) = (pick(&["Anna", "Ben", "Clara", "Greta", "Hugo"]), pick(&["Brown", "Keller", "Moore"]));
        let (place, does) = (pick(&["London", "Oslo", "Rome", "Lima"]), pick(&["lives", "works", "waits"]));
        out += &match i % 3 {
            0 => format!("{first} B-person\n{last} I-person\n{does} O\nin O\n{place} B-place\n. O\n\n"),
            1 => format!("In O\n{place} B-place\nit O\nrains O\nnow O\n. O\n\n"),
            _ => format!("Nobody O\n{does} O\nnow O\n. O\n\n"),
        };
    }
    out
}

/// Checks that every part of a difference is the product of a weight and a share, and that the parts sum to the
/// difference.
fn check_sums(span: &Value, blend: &Value) {
    let against = &span["against"];
    let sum =
        |key: &str| against[key].as_array().into_iter().flatten().map(|part| number(&part["effect"])).sum::<f64>();
    let parts = [sum("features"), sum("transitions"), sum("network")];
    for (part, key) in parts.iter().zip(["from_features", "from_transitions", "from_network"]) {
        assert!((part - number(&against[key])).abs() < 1e-3, "{key}: {part} {against}");
    }
    let difference = number(&against["difference"]);
    assert!((parts.iter().sum::<f64>() - difference).abs() < 1e-3, "{parts:?} {against}");
    assert!((number(&against["score"]) - number(&against["other_score"]) - difference).abs() < 1e-3, "{against}");
    let share = blend["crf"].as_f64().unwrap_or(1.0);
    let features = against["features"].as_array().unwrap();
    assert!(!features.is_empty());
    for feature in features {
        let weight = number(&feature["weight"]) - number(&feature["other_weight"]);
        assert!((share * weight - number(&feature["effect"])).abs() < 1e-4, "{feature}");
        assert!(feature["label"] != feature["other"], "{feature}");
    }
}

/// Checks that the explained spans equal the answer of `predict`.
fn check_answers(place: &TestDir, model: &str, text: &str, found: &Value) {
    let predicted = place.run(&["predict", model, "--json", text]).assert_success().json();
    assert_eq!(spans(found).len(), spans(&predicted).len());
    for (span, answer) in spans(found).iter().zip(spans(&predicted)) {
        for key in ["start", "end", "label", "text"] {
            assert_eq!(span[key], answer[key]);
        }
        assert!((number(&span["probability"]) - number(&answer["probability"])).abs() < 2e-6, "{span} {answer}");
        assert_eq!(span["is_found"], true);
    }
}

fn effect(span: &Value, word: &str) -> f64 {
    let words = span["words"].as_array().unwrap();
    number(&words.iter().find(|found| found["text"] == word).unwrap_or_else(|| panic!("{span}"))["effect"])
}

#[test]
fn a_random_field_is_explained() {
    let place = TestDir::new();
    place.write("train.conll", conll(120, 1));
    place.run(&["train", "train.conll", "--out", "model"]).assert_success();
    let explained =
        |more: &[&str]| place.run(&[&["explain", "model", TEXT, "--json", "-"], more].concat()).assert_success().json();
    let found = explained(&[]);
    assert_eq!((&found["text"], &found["method"]), (&json!(TEXT), &json!("leave-one-out")));
    assert!(found.get("blend").is_none() && found.get("hidden_by").is_none(), "{found}");
    assert_eq!(spans(&found).len(), 2);
    check_answers(&place, "model", TEXT, &found);
    spans(&found).iter().for_each(|span| check_sums(span, &Value::Null));

    let [person, oslo] = [&found["spans"][0], &found["spans"][1]];
    let words: Vec<&str> =
        oslo["words"].as_array().unwrap().iter().map(|word| word["text"].as_str().unwrap()).collect();
    assert_eq!(words, ["Greta", "Moore", "works", "in", "Oslo", "now", "."]);
    assert!(effect(oslo, "Oslo") > 0.5 && effect(person, "Greta") > 0.5, "{found}");
    // No feature of Oslo, or of its neighbors in the span, reaches that far.
    assert!(effect(oslo, "Greta").abs() < effect(oslo, "Oslo").abs() / 4.0, "{oslo}");
    let names: Vec<&str> =
        oslo["against"]["features"].as_array().unwrap().iter().map(|f| f["feature"].as_str().unwrap()).collect();
    for name in ["word", "lower", "shape", "begins", "ends"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    let word = oslo["against"]["features"].as_array().unwrap().iter().find(|f| f["feature"] == "word").unwrap();
    assert_eq!((&word["value"], &word["word"], &word["label"]), (&json!("Oslo"), &json!("Oslo"), &json!("B-place")));
    assert_eq!(oslo["against"]["features"][0]["start"], 21);
    let before = |f: &&Value| f["feature"] == "lower" && f["at"] == json!([-1, -1]);
    let before = oslo["against"]["features"].as_array().unwrap().iter().find(before).unwrap();
    assert_eq!(before["value"], "in");

    // Requested spans: a predicted one by its boundaries alone, and others.
    assert_eq!(explained(&["--span", "21:25"])["spans"][0], *oslo);
    let other = explained(&["--span", "21:25:person"])["spans"][0].clone();
    assert_eq!((&other["is_found"], &other["label"]), (&json!(false), &json!("person")));
    assert!(number(&other["against"]["difference"]) < 0.0, "{other}");
    let instead = &other["against"]["spans"][0];
    assert_eq!((&instead["text"], &instead["label"]), (&json!("Oslo"), &json!("place")));
    check_sums(&other, &Value::Null);
    let [own, wrong] = [oslo, &other].map(|span| number(&span["probability"]));
    assert!(own + wrong <= 1.0 && wrong < 0.5, "{own} {wrong}");
    check_sums(&explained(&["--span", "0:5:person"])["spans"][0], &Value::Null);
    for (span, words) in [
        ("0:4", &["0:4", "0:5", "Greta"][..]),
        ("5:6", &["no word"]),
        ("9:99", &["30 characters"]),
        ("4:4", &["30 characters"]),
        ("0:5:planet", &["planet", "person, place"]),
        ("0", &["--span", "0:4:person"]),
        ("a:b", &["--span", "0:4:person"]),
    ] {
        place.run_rejected(&["explain", "model", TEXT, "--span", span], words);
    }

    // On a terminal.
    for (lang, words) in [
        ("en", ["Why model marks these 2 spans", "2. “Oslo” place", "previous word “in”"]),
        ("ja", ["model が 2 個のスパンを検出する理由", "2. 「Oslo」 place", "前の語「in」"]),
    ] {
        let shown = place.run(&["--lang", lang, "explain", "model", TEXT]).assert_success().stdout;
        assert!(words.iter().all(|word| shown.contains(word)), "{shown}");
        assert!(shown.lines().all(|line| line.width() <= 80), "{shown}");
    }
    let nothing = place.run(&["explain", "model", "Nobody waits now."]).assert_success().stdout;
    assert!(nothing.contains("marks nothing") && nothing.contains("--span"), "{nothing}");
    assert_eq!(
        spans(&place.run(&["explain", "model", "Nobody waits now.", "--json", "-"]).assert_success().json()).len(),
        0
    );

    // A page, and pictures.
    place.run(&["explain", "model", TEXT, "--html", "why.html", "--json", "why.json"]).assert_success();
    let page = place.read("why.html");
    assert!(page.contains("<u>Oslo</u>") && page.contains("id=\"tagged\"") && page.contains("default-src 'none'"));
    assert_eq!(place.json("why.json"), found);
    place.run_rejected(&["explain", "model", "  "], &["empty"]);

    // Row by row.
    place.write("rows.jsonl", format!("{}\n{}\n", json!({ "text": TEXT }), json!({ "text": "" })));
    let rows = place.run(&["explain", "model", "--input", "rows.jsonl", "--json", "-"]).assert_success().json_lines();
    assert_eq!(rows[0]["spans"][1]["words"], oslo["words"]);
    assert_eq!(rows[0]["spans"][1]["against"]["features"].as_array().unwrap().len(), 20);
    assert!(rows[1]["spans"].is_null() && rows[1]["error"].is_string(), "{}", rows[1]);
    place.write("test.conll", conll(3, 5));
    let rows = place.run(&["explain", "model", "--input", "test.conll", "--json", "-"]).assert_success().json_lines();
    assert_eq!((rows.len(), spans(&rows[0]).len()), (3, 2));
    place.write("lines.txt", format!("{TEXT}\nNobody waits now.\n"));
    if has_fonts() {
        place.run(&["explain", "model", "--input", "lines.txt", "--svg", "pictures"]).assert_success();
        assert_eq!(place.file_names("pictures"), ["001.svg", "002.svg"]);
        place
            .run(&["explain", "model", TEXT, "--span", "21:25", "--view", "effects", "--png", "one.png"])
            .assert_success();
    }

    // Requests that taggers do not support.
    for flags in [
        &["--layer", "1"][..],
        &["--view", "heatmap"],
        &["--view", "curves"],
        &["--target", "x"],
        &["--without", "1.1"],
        &["--set", "price=1"],
        &["--method", "integrated-gradients"],
        &["--precision", "high"],
    ] {
        place.run_rejected(&[&["explain", "model", TEXT], flags].concat(), &[flags[0]]);
    }
    for mode in ["--errors", "--faithfulness"] {
        place.run_rejected(&["explain", "model", mode, "rows.jsonl"], &["a tagger", "explain"]);
    }
    for (lang, words) in [("en", ["a tagger", "`explain`"]), ("ja", ["単語にラベルを付けるモデル", "`explain`"])]
    {
        for args in [&["trace", "--model", "model", "--text", "Anna"][..], &["export", "model", "--out", "m.onnx"]] {
            let error = place.run(&[&["--lang", lang], args].concat()).stderr;
            assert!(words.iter().all(|word| error.contains(word)), "{args:?}: {error}");
        }
    }
    place.write("table.csv", "text,label\n".to_owned() + &"good,pos\nbad,neg\nso good,pos\nso bad,neg\n".repeat(10));
    place.run(&["train", "table.csv", "--model", "ngrams", "--out", "classes"]).assert_success();
    place.run_rejected(&["explain", "classes", "good", "--span", "0:4"], &["--span", "tagger", "leave it out"]);
}

/// With a network, both ensemble members are shown, and texts with many windows are read as in `predict`.
#[test]
fn a_network_with_a_random_field_is_explained() {
    let place = TestDir::with_bert();
    let words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\nanna\nben\nclara\ngreta\nhugo\nbrown\nkeller\nmoore\nlondon\noslo\nrome\nlima\n\
                 lives\nworks\nwaits\nin\nit\nrains\nnow\nnobody\n";
    place.write("bert/vocab.txt", words);
    place.write("train.conll", conll(120, 1));
    place.run(&["train", "train.conll", "--from", "bert", "--out", "model", "--epochs", "40"]).assert_success();
    let explained = |text: &str| place.run(&["explain", "model", text, "--json", "-"]).assert_success().json();
    let found = explained(TEXT);
    assert_eq!(found["hidden_by"], "[MASK]");
    assert_eq!(found["blend"], place.json("model/config.json")["network"]["blend"]);
    check_answers(&place, "model", TEXT, &found);
    for span in spans(&found) {
        check_sums(span, &found["blend"]);
        assert_eq!(span["against"]["network"].as_array().unwrap().len(), {
            let marked = span["text"].as_str().unwrap();
            marked.split(' ').count()
        });
        for half in ["network", "crf"] {
            let half = &span[half];
            assert!((0.0..=1.0).contains(&number(&half["probability"])), "{half}");
            assert_eq!(half["effects"].as_array().unwrap().len(), 7);
        }
    }
    // The random field alone matches its own explanation: words outside its reach have no effect.
    let oslo = &found["spans"][1];
    assert!(number(&oslo["network"]["effects"][0]).abs() > 0.0, "the network reads the whole text: {oslo}");
    let shown = place.run(&["explain", "model", TEXT]).assert_success().stdout;
    assert!(shown.contains("Network alone") && shown.contains("[MASK]") && shown.contains(", network "), "{shown}");
    assert!(shown.lines().all(|line| line.width() <= 80), "{shown}");

    // In a long text, windows without the hidden word do not change.
    let long = [TEXT; 6].join(" ");
    let of_long = explained(&long);
    check_answers(&place, "model", &long, &of_long);
    let last = spans(&of_long).last().unwrap();
    check_sums(last, &of_long["blend"]);
    let effects = last["network"]["effects"].as_array().unwrap();
    assert!(number(&effects[0]) == 0.0 && number(&effects[effects.len() - 3]) != 0.0, "{effects:?}");
    place.run(&["explain", "model", TEXT, "--precision", "highest", "--html", "why.html"]).assert_success();
    assert!(place.read("why.html").contains("(NN "));
    // The page and pictures have the attention of the network.
    let page = place.read("why.html");
    assert!(page.matches("<svg").count() >= 6 && page.contains("[CLS]"), "{}", page.len());
    for view in ["heatmap", "lines", "grid", "values", "rollout", "depth"] {
        let shown = place.run(&["explain", "model", TEXT, "--view", view, "--layer", "1"]).assert_success().stdout;
        assert!(shown.contains("[CLS]") || view == "grid" || view == "depth", "{view}: {shown}");
    }
    place.run_rejected(&["explain", "model", TEXT, "--layer", "9"], &["--layer 9", "layers 1 to"]);
    place.run_rejected(&["explain", "model", TEXT, "--without", "1.1"], &["--without", "leave it out"]);
    // The head reads a tag for each word after every layer.
    let lens = &found["lens"];
    assert_eq!(lens["tokens"].as_array().unwrap().len(), 7);
    let last = lens["depths"].as_array().unwrap().last().unwrap();
    assert!(
        last.as_array().unwrap().iter().any(|answer| answer["label"].as_str().unwrap().starts_with("B-")),
        "{last}"
    );
    let shown = place.run(&["explain", "model", TEXT, "--lens"]).assert_success().stdout;
    assert!(shown.contains("logit lens"), "{shown}");
    check_patching(&place, &found);
}

/// Patches the network with a text in which another word stands for a place. `found` explains [`TEXT`].
fn check_patching(place: &TestDir, found: &Value) {
    let other = TEXT.replace("Oslo", "it");
    let explained = |args: &[&str]| {
        let args = [&["explain", "model", TEXT, "--patch", &other, "--json", "-"], args].concat();
        place.run(&args).assert_success().json()["patching"].clone()
    };
    let patching = explained(&[]);
    let names = |name: &str| patching[name].as_array().unwrap().clone();
    let (tokens, other_tokens, aligned) = (names("tokens"), names("other_tokens"), names("aligned"));
    let changed: Vec<usize> = (0..tokens.len()).filter(|&i| tokens[i] != other_tokens[i]).collect();
    let [changed] = changed[..] else { panic!("one token differs: {patching}") };
    // The first word whose tag changes is compared. Its answers are those of the lens after the last layer.
    let word = &patching["position"]["word"];
    let index = word["index"].as_u64().unwrap() as usize;
    assert_eq!(word["text"], found["lens"]["tokens"][index]);
    let last = found["lens"]["depths"].as_array().unwrap().last().unwrap();
    let answers = &patching["answers"];
    assert_eq!(answers[0]["label"], last[index]["label"]);
    assert!((number(&answers[0]["probability"]) - number(&last[index]["probability"])).abs() < 1e-4, "{patching}");
    // Before the first layer, the changed token is the whole difference. After the last, the token of the word is.
    let residual: Vec<f64> = names("residual").iter().map(number).collect();
    let last_row = &residual[residual.len() - aligned.len()..];
    let token = last_row.iter().position(|x| (x - 1.0).abs() < 1e-3).unwrap_or_else(|| panic!("{last_row:?}"));
    for i in 0..aligned.len() {
        let expected = [i == changed, i == token].map(|is_whole| if is_whole { 1.0 } else { 0.0 });
        for (x, expected) in [residual[i], last_row[i]].into_iter().zip(expected) {
            assert!((x - expected).abs() < 1e-3, "token {i}: {x}, not {expected}");
        }
    }
    // A span chooses the word.
    let start = TEXT.find("Oslo").unwrap();
    let span = format!("{start}:{}:place", start + 4);
    let chosen = explained(&["--span", &span]);
    assert_eq!(chosen["position"]["word"]["text"], "Oslo");
    let args = ["explain", "model", TEXT, "--patch", &other, "--html", "patched.html"];
    let shown = place.run(&args).assert_success().stdout;
    assert!(shown.contains("Patching: ") && shown.contains("The tags of word "), "{shown}");
    assert!(shown.lines().all(|line| line.width() <= 80), "{shown}");
    let page = place.read("patched.html");
    for text in ["id=\"lens\"", "· residual stream", "· output of each head", "· フィードフォワード層"] {
        assert!(page.contains(text), "{text}");
    }
    place.run_rejected(&["explain", "model", TEXT, "--patch", TEXT], &["answers both texts alike"]);
    place.run_rejected(&["explain", "model", TEXT, "--patch", "Rome"], &["--align"]);
    place.run_rejected(&["explain", "model", TEXT, "--patch", &other, "--align", "1:1"], &["aligned"]);
    // The alignment is refused before the span is looked for.
    let wrong = ["--align", "99:1", "--span", "0:9999"];
    place.run_rejected(&[&["explain", "model", TEXT, "--patch", &other], &wrong[..]].concat(), &["align: "]);
}

/// For parts of speech, each word is a span; for Japanese, words are segmented.
#[test]
fn parts_of_speech_and_japanese_are_explained() {
    let place = TestDir::new();
    let nouns = ["dog", "cat", "man"];
    let rows = |i: usize| format!("the DET\n{} NOUN\n{} VERB\n. PUNCT\n\n", nouns[i % 3], ["runs", "eats"][i % 2]);
    place.write("pos.conll", (0..60).map(rows).collect::<String>());
    place.run(&["train", "pos.conll", "--out", "pos"]).assert_success();
    let found = place.run(&["explain", "pos", "the cat runs.", "--json", "-"]).assert_success().json();
    check_answers(&place, "pos", "the cat runs.", &found);
    spans(&found).iter().for_each(|span| check_sums(span, &Value::Null));
    place.run_rejected(&["explain", "pos", "the cat runs.", "--span", "0:7"], &["one word"]);

    let row = |i: usize| {
        let (who, town) = (["田中", "佐藤", "高橋", "山本"][i % 4], ["東京", "大阪", "札幌"][i % 3]);
        json!({ "text": format!("{who}さんは{town}に住んでいる。"), "spans": [[0, 2, "人名"], [5, 7, "地名"]] })
    };
    place.write("train.jsonl", (0..48).map(|i| format!("{}\n", row(i))).collect::<String>());
    place.run(&["train", "train.jsonl", "--out", "ja"]).assert_success();
    let text = "佐藤さんは大阪に住んでいる。";
    let found = place.run(&["explain", "ja", text, "--json", "-"]).assert_success().json();
    check_answers(&place, "ja", text, &found);
    spans(&found).iter().for_each(|span| check_sums(span, &Value::Null));
    let words: Vec<&str> =
        found["spans"][0]["words"].as_array().unwrap().iter().map(|word| word["text"].as_str().unwrap()).collect();
    assert_eq!(words.concat(), text);
    assert!(words.contains(&"大阪"), "{words:?}");
    let features = found["spans"][1]["against"]["features"].as_array().unwrap();
    let two = features.iter().find(|f| f["feature"] == "characters" && f["at"] == json!([0, 1]) && f["word"] == "大");
    assert_eq!(two.unwrap_or_else(|| panic!("{features:?}"))["value"], "大阪");
}
