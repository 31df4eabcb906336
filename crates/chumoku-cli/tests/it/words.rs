//! Tagging: files are detected, a tagger is trained, used and scored, and invalid input is rejected.

use crate::common::{DocPage, TestDir, next_random, sha256, tensors};
use serde_json::{Value, json};

/// Sentences with names of people and places: words, and their tags.
fn sentences(n: usize, seed: u64) -> Vec<Vec<(&'static str, &'static str)>> {
    let mut state = seed;
    let mut pick = |list: &[&'static str]| list[(next_random(&mut state) * list.len() as f64) as usize];
    let first = ["Anna", "Ben", "Clara", "David", "Emma", "Felix", "Greta", "Hugo"];
    let last = ["Brown", "Fischer", "Keller", "Moore", "Rossi"];
    let places = ["London", "Oslo", "Rome", "Kyoto", "Lima", "Cairo"];
    let does = ["lives", "works", "waits"];
    let day = ["today", "now", "often"];
    let one = |i: usize| match i % 4 {
        0 => vec![(pick(&first), "B-person"), (pick(&does), "O"), ("in", "O"), (pick(&places), "B-place"), (".", "O")],
        1 => vec![
            (pick(&first), "B-person"),
            (pick(&last), "I-person"),
            (pick(&does), "O"),
            ("in", "O"),
            (pick(&places), "B-place"),
            (pick(&day), "O"),
            (".", "O"),
        ],
        2 => vec![("In", "O"), (pick(&places), "B-place"), ("it", "O"), ("rains", "O"), (pick(&day), "O"), (".", "O")],
        _ => vec![("Nobody", "O"), (pick(&does), "O"), (pick(&day), "O"), (".", "O")],
    };
    (0..n).map(one).collect()
}

fn conll(n: usize, seed: u64) -> String {
    let sentence =
        |words: Vec<(&str, &str)>| words.iter().map(|(word, tag)| format!("{word}\t{tag}\n")).collect::<String>();
    sentences(n, seed).into_iter().map(|words| sentence(words) + "\n").collect()
}

/// The same as texts with spans in characters.
fn objects(n: usize, seed: u64) -> String {
    let row = |words: Vec<(&str, &str)>| {
        let (mut text, mut spans) = (String::new(), Vec::<(usize, usize, &str)>::new());
        for (word, tag) in words {
            if !text.is_empty() && word != "." {
                text.push(' ');
            }
            let (start, end) = (text.len(), text.len() + word.len());
            text.push_str(word);
            match tag.split_once('-') {
                Some(("B", kind)) => spans.push((start, end, kind)),
                Some(_) => spans.last_mut().unwrap().1 = end,
                None => {}
            }
        }
        format!("{}\n", json!({ "text": text, "spans": spans }))
    };
    sentences(n, seed).into_iter().map(row).collect()
}

fn trained(place: &TestDir, file: &str, out: &str, more: &[&str]) -> crate::common::Run {
    place.run(&[&["train", file, "--out", out][..], more].concat()).assert_success()
}

/// Start, end, label and text of each span.
fn spans(row: &Value) -> Vec<(u64, u64, &str, &str)> {
    let spans = row["spans"].as_array().unwrap_or_else(|| panic!("{row}"));
    let number = |span: &Value, key: &str| span[key].as_u64().unwrap();
    let one = |span| (number(span, "start"), number(span, "end"), span["label"].as_str(), span["text"].as_str());
    spans.iter().map(one).map(|(start, end, label, text)| (start, end, label.unwrap(), text.unwrap())).collect()
}

#[test]
fn a_tagger_is_trained_and_used() {
    let place = TestDir::new();
    place.write("train.conll", conll(160, 1));
    place.write("test.txt", conll(60, 2));
    let run = trained(&place, "train.conll", "model", &["--test", "test.txt"]);
    assert!(run.stderr.contains("task      tag") && run.stderr.contains("IOB2"), "{run:#?}");
    assert!(run.stdout.contains("this model") && run.stdout.contains("baseline: training names"), "{run:#?}");
    let metrics = place.json("model/metrics.json");
    assert_eq!((&metrics["task"], &metrics["labels"]), (&json!("tag"), &json!(["person", "place"])));
    assert!(metrics["span_f1"].as_f64().unwrap() > 0.95, "{metrics}");
    let card = place.read("model/README.md");
    assert!(card.contains("conditional random field") && card.contains("| person |"), "{card}");

    // From the command line.
    let text = "Greta Moore works in Oslo now.";
    let found = place.run(&["predict", "model", "--json", text]).assert_success().json();
    assert_eq!(found["text"], text);
    assert_eq!(spans(&found), [(0, 11, "person", "Greta Moore"), (21, 25, "place", "Oslo")]);
    let probabilities = found["spans"].as_array().unwrap().iter().map(|span| span["probability"].as_f64().unwrap());
    assert!(probabilities.into_iter().all(|p| p > 0.5 && p <= 1.0), "{found}");
    let shown = place.run(&["predict", "model", text, "Nobody waits now."]).assert_success();
    assert_eq!(shown.stdout, "[Greta Moore](person) works in [Oslo](place) now.\nNobody waits now.\n");

    // From files: tagged words, objects, columns, lines; all with the same answers.
    let rows = place.run(&["predict", "model", "--json", "--input", "test.txt"]).assert_success().json_lines();
    assert_eq!(rows.len(), 60);
    assert!(rows[0]["text"].as_str().unwrap().ends_with(" ."), "{}", rows[0]);
    place.write("new.jsonl", format!("{}\n{}\n", json!({ "text": text }), json!({ "text": "" })));
    let rows = place.run(&["predict", "model", "--json", "--input", "new.jsonl"]).assert_success().json_lines();
    assert_eq!(rows[0]["spans"], found["spans"]);
    assert!(rows[1]["spans"].is_null() && rows[1]["error"].is_string(), "{}", rows[1]);
    place.write("new.csv", format!("id,text\n7,{text}\n"));
    let rows = place.run(&["predict", "model", "--input", "new.csv", "--json"]).assert_success().json_lines();
    assert_eq!(rows[0]["spans"], found["spans"]);
    let table = place.run(&["predict", "model", "--input", "new.csv"]).assert_success();
    assert!(table.stdout.contains("spans") && table.stdout.contains("Greta Moore"), "{table:#?}");
    place.write("lines.txt", format!("{text}\n"));
    let rows = place.run(&["predict", "model", "--input", "lines.txt", "--json"]).assert_success().json_lines();
    assert_eq!(rows[0]["spans"], found["spans"]);

    for piped in if cfg!(unix) { &["-", "/dev/stdin"][..] } else { &["-"] } {
        let run =
            place.run_shell(&format!("chumoku predict model --input {piped} --json < lines.txt")).assert_success();
        assert_eq!(run.json()["spans"], found["spans"], "{piped}");
    }

    // As a page.
    place.run(&["predict", "model", "<b>Anna & Ben</b>", text, "--html", "page.html"]).assert_success();
    let page = place.read("page.html");
    let span = page.split("<mark").find(|part| part.contains("Greta Moore")).unwrap_or_else(|| panic!("{page}"));
    assert!(
        span.contains("title=\"person ") && span.contains(">Greta Moore<small>person</small></mark> works in "),
        "{span}"
    );
    assert!(page.contains("&lt;") && page.contains("&amp;") && !page.contains("<b>"), "{page}");
    assert!(page.contains("default-src 'none'") && !page.contains("<script"), "{page}");
    place.run(&["predict", "model", "--input", "new.csv", "--html", "table.html"]).assert_success();
    assert!(place.read("table.html").contains("<small>place</small>"));
    for out in ["new.csv", "model/config.json"] {
        place.run_rejected(
            &["predict", "model", "--input", "new.csv", "--html", out],
            &["--html", out, "an input file"],
        );
    }
    assert!(
        place
            .run(&["predict", "model", "--input", "test.txt", "--html", "words.html"])
            .assert_success()
            .stdout
            .contains("](")
    );
    assert_eq!(place.read("words.html").matches("<li dir").count(), 60);

    let scores = place.run(&["eval", "model", "test.txt", "--json"]).assert_success().json();
    assert_eq!(scores["span_f1"], metrics["span_f1"]);
    assert_eq!(scores["rows"], 60);
    let shown = place.run(&["eval", "model", "test.txt"]).assert_success();
    assert!(shown.stdout.contains("95 % interval of F1") && shown.stdout.contains("place"), "{shown:#?}");
    assert!(shown.stdout.lines().all(|line| line.chars().count() <= 80), "{shown:#?}");
}

#[test]
fn objects_with_spans_train_the_same_model() {
    let place = TestDir::new();
    place.write("train.jsonl", objects(160, 1));
    place.write("test.jsonl", objects(60, 2));
    let run = trained(&place, "train.jsonl", "model", &["--test", "test.jsonl", "--json"]);
    assert!(run.stderr.contains("task      tag") && run.stderr.contains("spans = “spans”"), "{run:#?}");
    assert!(run.json()["span_f1"].as_f64().unwrap() > 0.95, "{run:#?}");
    // Another key, and objects instead of lists.
    let named = objects(160, 1).replace("\"spans\"", "\"entities\"");
    place.write("named.jsonl", named);
    let run = trained(&place, "named.jsonl", "named", &["--test", "test.jsonl", "--json"]);
    assert_eq!(run.json()["data_sha256"], place.json("model/metrics.json")["data_sha256"]);
    // The keys that other tools use for the parts of a span.
    for [start, end, label] in [["start_offset", "end_offset", "type"], ["begin", "to", "entity_group"]] {
        let rows = objects(160, 1);
        let named = rows.lines().map(|line| {
            let mut row: Value = serde_json::from_str(line).unwrap();
            for span in row["spans"].as_array_mut().unwrap() {
                *span = json!({ start: span[0], end: span[1], label: span[2] });
            }
            format!("{row}\n")
        });
        place.write("named.jsonl", named.collect::<String>());
        let run = trained(&place, "named.jsonl", "named", &["--test", "test.jsonl", "--json", "--force"]);
        assert_eq!(run.json()["data_sha256"], place.json("model/metrics.json")["data_sha256"]);
    }
    // Without any known key, the message lists the existing ones.
    place.write("other.jsonl", objects(10, 1).replace("\"spans\"", "\"names\""));
    let args = ["train", "other.jsonl", "--task", "tag", "--out", "x"];
    place.run_rejected(&args, &["other.jsonl:1", "no spans among", "“names”", "--label"]);
}

#[test]
fn spans_that_cut_words_are_reported() {
    let place = TestDir::new();
    let row = |i: usize| {
        let [start, end] = if i.is_multiple_of(4) { [1, 5] } else { [0, 7] };
        format!("{}\n", json!({ "text": format!("Annabel waits {i}"), "spans": [[start, end, "person"]] }))
    };
    place.write("train.jsonl", (0..40).map(row).collect::<String>());
    let output = trained(&place, "train.jsonl", "model", &[]).stderr;
    let output = output.split_whitespace().collect::<Vec<_>>().join(" ");
    let words =
        "warning: 10 of 40 spans begin or end within a word, such as “nnab” (train.jsonl:1, 1 to 5): training uses";
    assert!(output.contains(words), "{output}");
    // If all spans are whole words, there is no message.
    place.write("whole.jsonl", objects(160, 1));
    assert!(!trained(&place, "whole.jsonl", "whole", &[]).stderr.contains("within a word"));
}

/// Texts without spaces are read and counted by characters.
#[test]
fn japanese_is_tagged_by_characters() {
    let place = TestDir::new();
    let (people, places) = (["田中", "佐藤", "高橋", "山本"], ["東京", "大阪", "札幌", "京都", "神戸"]);
    let row = |i: usize| {
        let (who, town) = (people[i % 4], places[i % 5]);
        let text = format!("{who}さんは{town}に住んでいる。");
        json!({ "text": text, "spans": [{ "start": 0, "end": 2, "label": "人名" }, { "start": 5, "end": 7, "label": "地名" }] })
    };
    place.write("train.jsonl", (0..60).map(|i| format!("{}\n", row(i))).collect::<String>());
    let run = trained(&place, "train.jsonl", "model", &[]);
    assert!(run.stderr.contains("by characters"), "{run:#?}");
    let found = place.run(&["predict", "model", "--json", "佐藤さんは神戸に住んでいる。"]).assert_success().json();
    assert_eq!(spans(&found), [(0, 2, "人名", "佐藤"), (5, 7, "地名", "神戸")]);
    let shown = place.run(&["--lang", "ja", "predict", "model", "佐藤さんは神戸に住んでいる。"]).assert_success();
    assert_eq!(shown.stdout, "[佐藤](人名)さんは[神戸](地名)に住んでいる。\n");
}

/// A label for each word: parts of speech.
#[test]
fn each_word_may_have_a_label() {
    let place = TestDir::new();
    let mut state = 5;
    let mut pick = |list: &[&'static str]| list[(next_random(&mut state) * list.len() as f64) as usize];
    let mut rows = String::new();
    for _ in 0..80 {
        let (noun, verb) = (pick(&["dog", "cat", "man", "bird"]), pick(&["runs", "sleeps", "eats"]));
        rows += &format!("the DET\n{} ADJ\n{noun} NOUN\n{verb} VERB\n. PUNCT\n\n", pick(&["old", "big", "red"]));
    }
    place.write("pos.conll", &rows);
    let run = trained(&place, "pos.conll", "model", &[]);
    assert!(run.stderr.contains("a label for each word"), "{run:#?}");
    let found = place.run(&["predict", "model", "--json", "the red cat sleeps."]).assert_success().json();
    let labels: Vec<&str> = spans(&found).iter().map(|span| span.2).collect();
    assert_eq!(labels, ["DET", "ADJ", "NOUN", "VERB", "PUNCT"]);
}

/// For texts without spaces, segmentation is learned together with parts of speech.
#[test]
fn japanese_words_are_segmented_and_labeled() {
    let place = TestDir::new();
    let mut state = 5;
    let mut pick = |list: &[&'static str]| list[(next_random(&mut state) * list.len() as f64) as usize];
    let mut rows = String::new();
    for _ in 0..80 {
        let (who, what) = (pick(&["私", "先生", "学生"]), pick(&["本", "手紙", "新聞"]));
        rows += &format!("{who} 名詞\nは 助詞\n{what} 名詞\nを 助詞\n{} 動詞\n\n", pick(&["読む", "書く", "送る"]));
    }
    place.write("pos.conll", &rows);
    let run = trained(&place, "pos.conll", "model", &[]);
    assert!(run.stderr.contains("by characters"), "{run:#?}");
    let found = place.run(&["predict", "model", "--json", "学生は手紙を読む"]).assert_success().json();
    let words: Vec<(&str, &str)> = spans(&found).iter().map(|span| (span.3, span.2)).collect();
    let expected = [("学生", "名詞"), ("は", "助詞"), ("手紙", "名詞"), ("を", "助詞"), ("読む", "動詞")];
    assert_eq!(words, expected);
}

#[test]
fn the_same_bytes_for_any_number_of_threads() {
    let place = TestDir::new();
    place.write("train.conll", conll(160, 1));
    for threads in ["1", "2"] {
        trained(&place, "train.conll", threads, &["--threads", threads]);
    }
    for name in ["model.safetensors", "config.json", "metrics.json", "trained-on.bin"] {
        let of = |folder: &str| sha256(&place.path(folder).join(name));
        assert_eq!(of("1"), of("2"), "{name}");
    }
    trained(&place, "train.conll", "other", &["--seed", "2"]);
    assert_ne!(sha256(&place.path("1/model.safetensors")), sha256(&place.path("other/model.safetensors")));
}

#[test]
fn invalid_files_are_rejected_with_their_position() {
    let place = TestDir::new();
    let good = objects(20, 1);
    let refuse = |row: &str, words: &[&str]| {
        place.write("bad.jsonl", format!("{good}{row}\n"));
        place
            .run_rejected(&["train", "bad.jsonl", "--task", "tag", "--out", "x"], &[&["bad.jsonl:21"], words].concat());
    };
    refuse(r#"{"text": "Anna Brown", "spans": [[0, 4, "a"], [2, 6, "b"]]}"#, &["overlap"]);
    refuse(r#"{"text": "Anna", "spans": [[0, 9, "person"]]}"#, &["inside the text", "0 to 9 of 4"]);
    refuse(r#"{"text": "Anna", "spans": [[2, 2, "person"]]}"#, &["one character or more"]);
    refuse(r#"{"text": "Anna", "spans": [[0, 4]]}"#, &["start, end and label"]);
    refuse(r#"{"text": "Anna", "spans": [[0, -1, "person"]]}"#, &["whole numbers"]);
    refuse(r#"{"text": "Anna", "spans": "person"}"#, &["list of spans"]);
    refuse(r#"{"text": "Anna"}"#, &["list of spans", "no spans"]);
    refuse(r#"{"text": "", "spans": []}"#, &["empty"]);

    let good = conll(20, 1);
    let last = good.lines().count() + 1;
    let refuse = |lines: &str, at: usize, words: &[&str]| {
        place.write("bad.conll", format!("{good}{lines}\n"));
        let place_of = format!("bad.conll:{}", last + at);
        place.run_rejected(&["train", "bad.conll", "--out", "x"], &[&[place_of.as_str()], words].concat());
    };
    refuse("Anna\tB-person\nwaits", 1, &["give each word its tag"]);
    refuse("Anna\tNOUN", 0, &["NOUN", "B- or I-"]);
    refuse("Anna\t", 0, &["a word and its tag"]);
    let run = place.run(&["train", "bad.conll", "--skip-bad-rows", "--out", "x"]).assert_success();
    assert!(run.stderr.contains("skipped") && run.stderr.contains("a word and its tag"), "{run:#?}");

    place.write("few.conll", conll(3, 1));
    place.run_rejected(&["train", "few.conll", "--out", "y"], &["few.conll", "3"]);
    place.write("none.conll", "Nobody\tO\nwaits\tO\n\n".repeat(20));
    place.run_rejected(&["train", "none.conll", "--task", "tag", "--out", "y"], &["none.conll"]);
    place.write("table.csv", "text,label\ngood,pos\nbad,neg\n");
    place.run_rejected(&["train", "table.csv", "--task", "tag", "--out", "y"], &["table.csv"]);
    place.run_rejected(&["train", "--task", "tag", "--out", "y"], &["names.conll"]);
}

#[test]
fn unsupported_requests_to_taggers_are_rejected() {
    let place = TestDir::new();
    place.write("train.conll", conll(40, 1));
    trained(&place, "train.conll", "model", &[]);
    for flags in [
        &["--resume"][..],
        &["--watch", "Anna"],
        &["--precision", "high"],
        &["--model", "transformer", "--task", "tag"],
        &["--tokens", "words"],
        &["--sheet", "names"],
    ] {
        place.run_rejected(&[&["train", "train.conll", "--out", "x"], flags].concat(), &[flags[0], "leave it out"]);
    }
    for flags in [["--precision", "high"], ["--top", "2"], ["--abstain", "0.9"]] {
        place.run_rejected(&[&["predict", "model", "Anna"], &flags[..]].concat(), &[flags[0], "leave it out"]);
    }
    for args in [
        &["trace", "--model", "model", "--text", "Anna"][..],
        &["film", "model"],
        &["export", "model", "--out", "m.onnx"],
        &["generate", "model", "Anna"],
        &["translate", "model", "Anna"],
        &["embed", "model", "Anna"],
    ] {
        place.run_rejected(args, &["a tagger"]);
    }
    place.write("other.conll", conll(20, 1).replace("place", "planet"));
    place.run_rejected(&["eval", "model", "other.conll"], &["other.conll:1", "planet", "place"]);
    place.run_rejected(&["train", "train.conll", "--test", "other.conll", "--out", "x"], &["other.conll:1", "planet"]);
}

/// Creates a folder with `bert`: a tiny random encoder that knows the words of `sentences`, and reads 20 tokens at a
/// time.
fn with_encoder() -> TestDir {
    let place = TestDir::with_bert();
    let mut words: Vec<String> = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "."].map(str::to_owned).to_vec();
    for (word, _) in sentences(200, 3).concat() {
        let word = word.to_lowercase();
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.extend(["東", "京", "田", "中", "さん", "##は", "##が", "いる", "大", "阪"].map(str::to_owned));
    place.write("bert/vocab.txt", words.join("\n"));
    place.write("train.conll", conll(160, 1));
    place.write("test.conll", conll(60, 2));
    place
}

const FROM: [&str; 5] = ["--from", "bert", "--test", "test.conll", "--epochs"];

#[test]
fn a_pretrained_encoder_is_combined_with_the_random_field() {
    let place = with_encoder();
    let run = trained(&place, "train.conll", "model", &[&FROM[..], &["100"]].concat());
    assert!(run.stdout.contains("network alone") && run.stdout.contains("random field alone"), "{run:#?}");
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80 || line.contains("predict")), "{run:#?}");
    let metrics = place.json("model/metrics.json");
    let f1 = |part: &str| metrics["parts"][part]["f1"].as_f64().unwrap();
    assert!(metrics["span_f1"].as_f64().unwrap() > 0.95 && f1("crf") > 0.95 && f1("network") > 0.8, "{metrics}");
    assert!(metrics["parts"]["dictionary"].is_object());
    let network = &metrics["network"];
    assert_eq!(network["plan"]["fine_tuning"]["model_type"], "bert");
    let config = place.json("model/config.json");
    assert_eq!(config["network"]["blend"], network["blend"]);
    assert!(network["blend"]["network"].as_f64().unwrap() > 0.0, "{network}");
    let card = place.read("model/README.md");
    assert!(card.contains("pretrained encoder (bert") && card.contains("| network alone |"), "{card}");
    // The encoder has been trained from its pretrained weights.
    let [before, after] = ["bert", "model"].map(|folder| tensors(&place.path(folder).join("model.safetensors")));
    let name = "encoder.layers.0.self_attn.in_proj_weight";
    assert!(after.keys().any(|key| key == name) && after.contains_key("crf.weights"), "{:?}", after.keys());
    assert!(before.keys().all(|key| !key.starts_with("crf.")));

    // The model in the folder is the one that was scored.
    let scores = place.run(&["eval", "model", "test.conll", "--json"]).assert_success().json();
    assert_eq!(scores["span_f1"], metrics["span_f1"]);
    let text = "Greta Moore works in Oslo now.";
    let found = place.run(&["predict", "model", "--json", text]).assert_success().json();
    assert_eq!(spans(&found), [(0, 11, "person", "Greta Moore"), (21, 25, "place", "Oslo")]);
    place.run(&["predict", "model", "--precision", "highest", text]).assert_success();

    let positions = place.run(&["position", "--model", "model"]).assert_success().stdout;
    assert!(positions.contains("learned positions"), "{positions}");

    // A text with many windows is read completely, and no answer depends on other texts.
    let long = [text; 12].join(" ");
    let of_long = place.run(&["predict", "model", "--json", &long, text, "\u{301}"]).assert_success().json_lines();
    let names: Vec<&str> = spans(&of_long[0]).iter().map(|span| span.3).collect();
    assert_eq!(names, ["Greta Moore", "Oslo"].repeat(12));
    assert_eq!(of_long[1]["spans"], found["spans"]);

    // Damage.
    let with = |key: &str, value: Value| {
        let mut config = config.clone();
        config["network"][key] = value;
        place.write("model/config.json", config.to_string());
    };
    let refuse = |words: &[&str]| place.run_rejected(&["predict", "model", "Anna waits."], words);
    with("num_tags", json!(4));
    refuse(&["config.json", "num_tags"]);
    with("blend", json!({ "network": -1.0, "crf": 1.0 }));
    refuse(&["config.json", "blend"]);
    with("d_model", json!(8));
    refuse(&["model.safetensors", "expected"]);
    with("max_tokens", json!(1000));
    refuse(&["config.json", "max_tokens"]);
    with("vocabulary_sha256", json!("0"));
    refuse(&["tokenizer.json", "SHA-256"]);
    let mut bare = config.clone();
    bare.as_object_mut().unwrap().remove("network");
    place.write("model/config.json", bare.to_string());
    refuse(&["model.safetensors", "tensors"]);
    place.write("model/config.json", config.to_string());
    std::fs::remove_file(place.path("model/tokenizer.json")).unwrap();
    refuse(&["tokenizer.json"]);
}

#[test]
fn threads_and_kills_change_nothing_with_a_network() {
    let place = with_encoder();
    let files = |out: &str| ["model.safetensors", "config.json"].map(|name| sha256(&place.path(out).join(name)));
    trained(&place, "train.conll", "one", &[&FROM[..], &["20", "--threads", "1"]].concat());
    let on_two = [&["train", "train.conll", "--out", "killed", "--threads", "2"], &FROM[..], &["20"]].concat();
    place.run_despite_kills(&on_two);
    assert_eq!(files("one"), files("killed"));
    trained(&place, "train.conll", "other", &[&FROM[..], &["2", "--seed", "7"]].concat());
    trained(&place, "train.conll", "frozen", &[&FROM[..], &["2", "--freeze", "all"]].concat());
    let of = |out: &str| tensors(&place.path(out).join("model.safetensors"));
    let name = "encoder.layers.0.linear1.weight";
    let (one, other, frozen) = (of("one"), of("other"), of("frozen"));
    assert!(one[name] != other[name] && frozen[name] != other[name], "{:?}", one.keys());
    let published = of("bert");
    assert_eq!(frozen[name], published["encoder.layer.0.intermediate.dense.weight"]);
    for flags in [&["--watch", "Anna"][..], &["--tokens", "words"], &["--model", "lstm"]] {
        place.run_rejected(&[&["train", "train.conll", "--out", "x", "--from", "bert"], flags].concat(), &[flags[0]]);
    }
    place.run_rejected(&["train", "train.conll", "--out", "x", "--from", "nowhere"], &["nowhere", "no such folder"]);
}

/// Characters inside one token are distinguished.
#[test]
fn japanese_is_tagged_with_an_encoder() {
    let place = with_encoder();
    let (people, places) = (["田中", "中田"], ["東京", "大阪", "京大"]);
    let row = |i: usize| {
        let (who, town) = (people[i % 2], places[i % 3]);
        // The span extends into a token that it does not fill.
        let text = format!("{who}さんは{town}がいる");
        json!({ "text": text, "spans": [[0, 3, "人"], [5, 7, "町"]] })
    };
    place.write("ja.jsonl", (0..80).map(|i| format!("{}\n", row(i))).collect::<String>());
    trained(&place, "ja.jsonl", "model", &["--from", "bert", "--epochs", "60"]);
    let metrics = place.json("model/metrics.json");
    assert!(metrics["parts"]["network"]["f1"].as_f64().unwrap() > 0.9, "{metrics}");
    let found = place.run(&["predict", "model", "--json", "田中さんは東京がいる"]).assert_success().json();
    assert_eq!(spans(&found), [(0, 3, "人", "田中さ"), (5, 7, "町", "東京")]);
}

#[test]
fn a_damaged_folder_is_rejected() {
    let place = TestDir::new();
    place.write("train.conll", conll(40, 1));
    trained(&place, "train.conll", "model", &[]);
    let config = place.json("model/config.json");
    let with = |key: &str, value: Value| {
        let mut config = config.clone();
        config[key] = value;
        place.write("model/config.json", config.to_string());
    };
    let refuse = |words: &[&str]| place.run_rejected(&["predict", "model", "Anna waits."], words);
    with("labels", json!(["person"]));
    refuse(&["model.safetensors", "crf.weights", "expected"]);
    with("labels", json!(["person", "person"]));
    refuse(&["config.json"]);
    with("labels", json!([]));
    refuse(&["config.json"]);
    with("unit", json!("syllables"));
    refuse(&["config.json", "syllables"]);
    with("model_type", json!("chumoku_text_classifier"));
    refuse(&["tokenizer.json"]);
    place.write("model/config.json", config.to_string());
    let weights = std::fs::read(place.path("model/model.safetensors")).unwrap();
    place.write("model/model.safetensors", &weights[..weights.len() - 8]);
    refuse(&["model.safetensors"]);
    let mut broken = weights.clone();
    let at = broken.len() - 4;
    broken[at..].copy_from_slice(&f32::NAN.to_le_bytes());
    place.write("model/model.safetensors", &broken);
    refuse(&["model.safetensors", "crf."]);
    std::fs::remove_file(place.path("model/model.safetensors")).unwrap();
    refuse(&["model.safetensors"]);
}

/// Runs the file and the commands of `docs/words.md` as given.
#[test]
fn the_page_is_true() {
    let place = TestDir::new();
    let page = DocPage::read("words.md");
    place.write("names.jsonl", page.code_block("jsonl"));
    assert_eq!(page.run_commands(&place).len(), 5);
}
