//! Autoencoders on the command line: trained on texts, scored, used, drawn, and refused where they make no sense.

use crate::common::{TestDir, has_fonts, sha256};
use crate::service::Server;
use serde_json::json;

/// Numbers of three digits, about half of them for training.
fn write_numbers(place: &TestDir) {
    let numbers = (0..600).map(|i| format!("{:03}\n", (i * 37 + 11) % 1000)).collect::<String>();
    place.write("numbers.txt", numbers);
}

fn train(place: &TestDir, width: &str, out: &str) -> crate::common::Run {
    let args = ["train", "numbers.txt", "--task", "autoencode", "--bottleneck", width, "--epochs", "40", "--out", out];
    place.run(&args).assert_success()
}

#[test]
fn texts_pass_the_bottleneck_and_come_back() {
    let place = TestDir::new();
    write_numbers(&place);
    let run = train(&place, "16", "wide");
    assert!(run.stderr.contains("bottleneck of 16"), "{}", run.stderr);
    for part in ["test texts, not used in training, through 16 numbers:", "exact", "characters", "chumoku predict wide"]
    {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    train(&place, "1", "narrow");
    let [wide, narrow] = ["wide", "narrow"].map(|name| place.json(&format!("{name}/metrics.json")));
    let score = |metrics: &serde_json::Value, key: &str| metrics["scores"][key].as_f64().unwrap();
    assert_eq!((&wide["task"], &wide["plan"]["model"]["bottleneck"]), (&"autoencode".into(), &16.into()));
    assert!(score(&wide, "exact") > 0.6 && score(&wide, "character_accuracy") >= score(&wide, "exact"), "{wide}");
    // A thousand numbers do not come through one.
    assert!(score(&narrow, "exact") < score(&wide, "exact") - 0.2, "{narrow}");

    // The reconstruction of a file's rows, of arguments, and as JSON.
    let rows = place.run(&["predict", "wide", "--input", "numbers.txt"]).assert_success();
    let mut lines = rows.stdout.lines().map(|line| line.split('\t').collect::<Vec<&str>>());
    assert_eq!(lines.next().unwrap(), ["text", "reconstruction", "score", "error"]);
    let right: Vec<String> = lines.filter(|line| line[0] == line[1]).map(|line| line[0].to_owned()).collect();
    assert!(right.len() > 400, "{} of 600", right.len());
    let [one, two] = [&*right[0], &*right[1]];
    assert_eq!(place.run(&["predict", "wide", one, two]).assert_success().stdout, format!("{one}\n{two}\n"));
    place.write("some.csv", format!("id,text\n7,{one}\n8,\n9,{two}\n"));
    let rows = place.run(&["predict", "wide", "--input", "some.csv", "--text", "text"]).assert_success();
    let lines: Vec<Vec<&str>> = rows.stdout.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0], ["id", "text", "reconstruction", "score", "error"]);
    assert_eq!((lines[1][2], lines[2][2], lines[3][2]), (one, "", two));
    let json = place.run(&["predict", "wide", one, "--json"]).assert_success().json();
    assert_eq!((&json["text"], &json["reconstruction"]), (&one.into(), &one.into()));
    assert!(json["score"].as_f64().unwrap() <= 0.0);
    let row = place.run(&["predict", "wide", "--input", "some.csv", "--text", "text", "--json"]).assert_success();
    assert_eq!(row.json_lines()[0]["reconstruction"], one);

    // The code: sixteen numbers, equal for equal texts, and in `nearest` the text is its own neighbor.
    let codes = place.run(&["embed", "wide", one, two, one]).assert_success();
    let codes: Vec<serde_json::Value> = codes.json_lines().iter().map(|line| line["embedding"].clone()).collect();
    assert_eq!(codes[0].as_array().unwrap().len(), 16);
    assert!(codes[0] == codes[2] && codes[0] != codes[1], "{codes:?}");
    let nearest = place.run(&["nearest", "wide", "--corpus", "numbers.txt", two, "--top", "1"]).assert_success();
    assert!(nearest.stdout.contains(two), "{}", nearest.stdout);
    let piped = ["nearest", "wide", "--corpus", "-", two, "--top", "1"];
    let piped = place.run_with_input(place.read("numbers.txt").as_bytes(), &piped).assert_success();
    assert_eq!(piped.stdout, nearest.stdout);

    // Scores of a file.
    place.write("test.txt", format!("{one}\n{two}\n"));
    let scores = place.run(&["eval", "wide", "test.txt", "--json"]).assert_success().json();
    assert_eq!(
        (&scores["pairs"], &scores["exact"], &scores["character_accuracy"]),
        (&2.into(), &1.0.into(), &1.0.into())
    );
    let shown = place.run(&["eval", "wide", "test.txt"]).assert_success().stdout;
    assert!(shown.contains("exact        100.0 %   (2 of 2 texts)"), "{shown}");
    let japanese = place.run(&["eval", "wide", "test.txt", "--lang", "ja"]).assert_success().stdout;
    assert!(japanese.contains("完全一致     100.0 %（2 個中 2 個）"), "{japanese}");

    // Model card, information, and the count, which equals the weights.
    let card = place.read("wide/README.md");
    for part in ["# Autoencoder: text, 16 numbers", "| reconstructed exactly |", "chumoku embed"] {
        assert!(card.contains(part), "{part}: {card}");
    }
    let info = place.run(&["info", "wide"]).assert_success().stdout;
    assert!(info.contains("writes texts again from 16 numbers") && info.contains("characters "), "{info}");
    let info = place.run(&["info", "wide", "--json"]).assert_success().json();
    assert_eq!((&info["task"], &info["bottleneck"]), (&"autoencode".into(), &16.into()));
    let count = place.run(&["count", "--model", "wide"]).assert_success().stdout;
    assert!(count.contains("bottleneck in") && count.contains("B·d·z"), "{count}");
    place.run(&["count", "--model", "wide", "--html", "map.html"]).assert_success();
    assert!(place.read("map.html").contains("bottleneck.down.weight"));

    // The picture of both: shares by width, whatever the order of the folders.
    if has_fonts() {
        let args = ["film", "wide", "narrow", "--curves", "--json", "-", "--svg", "widths.svg"];
        let figure = place.run(&args).assert_success().json();
        assert_eq!(figure["curves"]["x"]["labels"], json!(["1", "16"]), "{figure}");
        assert!(place.read("widths.svg").contains("Reconstruction by the width"));
    }
    place.run_rejected(&["film", "wide", "narrow"], &["--curves"]);
    place.train_translator();
    place.run_rejected(&["film", "wide", "turn", "--curves"], &["turn", "expected autoencoders", "translator"]);

    // The service gives the same reconstructions and codes.
    let server = Server::start(&place, &["wide"]);
    let printed = place.run(&["predict", "wide", one, two, "--json"]).assert_success().json_lines();
    let served = server.post_json("/reconstruct", &json!({ "inputs": [one, two] }));
    assert_eq!(served.as_array().unwrap(), &printed);
    assert_eq!(server.post_json("/reconstruct", &json!({ "inputs": one, "beam": 1 }))[0]["reconstruction"], one);
    assert_eq!(server.post_json("/embed", &json!({ "inputs": [one, two] })), json!(codes[..2]));
    let tokens = server.post_json("/tokenize", &json!({ "inputs": one }));
    assert_eq!(tokens[0].as_array().unwrap().iter().filter(|token| token["special"] == false).count(), 3, "{tokens}");
    let info = server.get("/info").json();
    assert_eq!(
        (&info["models"][0]["kind"], &info["models"][0]["model_type"]),
        (&"autoencoder".into(), &"autoencoder".into())
    );
    for (path, word) in [("/predict", "/reconstruct"), ("/translate", "/reconstruct"), ("/explain", "/reconstruct")] {
        let reply = server.post_rejected(path, &json!({ "inputs": one, "model": "wide" }), 424, "Backend");
        assert!(reply.body.contains(word), "{path}: {reply:?}");
    }
    server.post_rejected("/reconstruct", &json!({ "inputs": one, "beam": 0 }), 422, "Validation");
    server.post_rejected("/embed", &json!({ "inputs": one, "prompt_name": "query" }), 422, "Validation");
    drop(server);

    // Its encoder has positions.
    let positions = place.run(&["position", "--model", "wide"]).assert_success().stdout;
    assert!(positions.contains("Rotary positions"), "{positions}");

    // Refused elsewhere, with the commands that work.
    for args in
        [&["translate", "wide", "x"][..], &["explain", "wide", "x"], &["trace", "--model", "wide", "--text", "x"]]
    {
        place.run_rejected(args, &["autoencoder", "`chumoku predict`"]);
    }
    for flags in [&["--abstain", "0.9"][..], &["--top", "2"], &["--html", "page.html"], &["--threshold", "0.5"]] {
        place.run_rejected(&[&["predict", "wide", one], flags].concat(), &[flags[0], "autoencoder"]);
    }
    place.run_rejected(&["train", "numbers.txt", "--task", "lm", "--from", "wide", "--out", "o"], &["--from wide"]);

    // A damaged configuration.
    for (bottleneck, words) in [(json!(0), "1 to 1024"), (serde_json::Value::Null, "bottleneck")] {
        let mut config = place.json("wide/config.json");
        config["bottleneck"] = bottleneck;
        place.copy_folder(&place.path("wide"), "damaged");
        place.write("damaged/config.json", config.to_string());
        place.run_rejected(&["predict", "damaged", one], &["config.json", words]);
    }
}

#[test]
fn autoencoders_train_on_a_column_and_on_built_in_texts() {
    let place = TestDir::new();
    let rows = (0..40).map(|i| format!("{i},word {},yes\n", i * i % 23)).collect::<String>();
    place.write("rows.csv", format!("id,words,label\n{rows}"));
    let args = ["train", "rows.csv", "--bottleneck", "2", "--text", "words", "--epochs", "1"];
    let run = place.run(&[&args[..], &["--out", "one"]].concat()).assert_success();
    assert!(run.stderr.contains("words: median 6 characters"), "{}", run.stderr);
    assert_eq!(place.json("one/config.json")["names"][0], "words");
    place.run(&[&args[..], &["--out", "two", "--threads", "1", "--lang", "ja"]].concat()).assert_success();
    let [one, two] = ["one", "two"].map(|out| sha256(&place.path(out).join("model.safetensors")));
    assert_eq!(one, two);
    place.run_despite_kills(&[&args[..6], &["--epochs", "4", "--out", "killed"]].concat());
    let args_of_set = ["train", "--builtin", "reviews", "--task", "autoencode", "--epochs", "1", "--out", "reviews"];
    place.run(&args_of_set).assert_success();
    let metrics = place.json("reviews/metrics.json");
    assert_eq!((&metrics["rows"]["train"], &metrics["plan"]["model"]["bottleneck"]), (&700.into(), &32.into()));
    let refuses = |args: &[&str], words: &[&str]| drop(place.run_rejected(args, words));
    refuses(&["train", "rows.csv", "--task", "translate", "--bottleneck", "2"], &["--bottleneck", "autoencode"]);
    refuses(&[&args[..], &["--tokens", "words"]].concat(), &["--tokens words", "autoencoders"]);
    refuses(&[&args[..], &["--watch", "word 1"]].concat(), &["one vector"]);
    refuses(&[&args[..], &["--folds", "3"]].concat(), &["--folds"]);
    refuses(&["train", "rows.csv", "--bottleneck", "0"], &["--bottleneck"]);
}
