//! Recurrent models: trained, used and explained like transformers, and compared with them.

use crate::common::{TestDir, csv, reviews};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

const TEXT: &str = "The room was not clean, 部屋は汚かったです。";

#[test]
fn a_recurrent_model_works_like_any_other() {
    let place = TestDir::new();
    place.write("reviews.csv", csv(&reviews(100)));
    for (model, noun) in [("rnn", "RNN"), ("lstm", "LSTM"), ("gru", "GRU")] {
        let run =
            place.run(&["train", "reviews.csv", "--out", model, "--model", model, "--epochs", "2"]).assert_success();
        assert!(run.stderr.contains(&format!("model     {noun}, 1 layer, width")), "{run:#?}");
        assert!(run.stdout.contains(&format!("its {noun} alone")), "{run:#?}");
        assert!(!run.stdout.contains("transformer"), "{run:#?}");
        let config = place.json(&format!("{model}/config.json"));
        assert_eq!(config["cell"], model);
        assert_eq!(config["position"], "none");
        assert!(config["bidirectional"] == true && config["num_heads"] == Value::Null, "{config}");
        let card = place.read(&format!("{model}/README.md"));
        assert!(card.contains(noun) && !card.contains("ransformer") && !card.contains("attention"), "{card}");

        let predicted = place.run(&["predict", model, "--json", TEXT]).assert_success().json();
        assert!(["positive", "negative"].contains(&predicted["label"].as_str().unwrap()));
        let scored = place.run(&["eval", model, "reviews.csv"]).assert_success();
        assert!(scored.stdout.contains(&format!("{noun} alone")), "{scored:#?}");

        let shown = place.run(&["explain", model, TEXT]).assert_success();
        assert!(shown.stderr.contains(&format!("a recurrent network, {noun} (1 layer")), "{shown:#?}");
        for words in ["there is no attention to show", "clean", "leave-one-out", "network"] {
            assert!(shown.stdout.contains(words), "{words}: {shown:#?}");
        }
        let value = place.run(&["explain", model, TEXT, "--json", "-"]).assert_success().json();
        assert_eq!((&value["layers"], &value["attention"]), (&0.into(), &Value::Array(vec![])));
        let scores = value["attribution"]["scores"].as_array().unwrap();
        assert_eq!(scores.len(), value["words"].as_array().unwrap().len());
        assert!(scores.iter().any(|score| score.as_f64().unwrap() != 0.0), "{scores:?}");
    }
    let japanese = place.run(&["explain", "gru", TEXT, "--lang", "ja"]).assert_success();
    let unwrapped = japanese.stdout.replace("\n  ", "");
    assert!(unwrapped.contains("アテンションはありません"), "{japanese:#?}");
    let shown = place.run(&["explain", "lstm", TEXT, "--view", "effects", "--html", "why.html"]).assert_success();
    assert!(shown.stdout.contains("Effect of each word on") && !shown.stderr.contains("recurrent"), "{shown:#?}");
    assert!(place.read("why.html").contains("id=\"curves\""));
    let shown = place.run(&["explain", "gru", TEXT, "--view", "curves"]).assert_success().stdout;
    assert!(shown.contains("Insertion") && shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    for flag in [&["--layer", "1"][..], &["--head", "1"], &["--view", "lines"]] {
        let args = [&["explain", "lstm", TEXT][..], flag].concat();
        place.run_rejected(&args, &[flag[0], "recurrent network", "LSTM", "no attention"]);
    }
    // Neither the terminal nor the page speaks of a transformer or of layers to read.
    for flag in [&["--lens"][..], &["--patch", "The room was dirty."]] {
        let args = [&["explain", "lstm", TEXT][..], flag].concat();
        place.run_rejected(&args, &[flag[0], "recurrent network", "LSTM", "no residual stream"]);
    }
    let shown = place.run(&["explain", "lstm", TEXT]).assert_success().stdout.replace("\n  ", " ");
    assert!(shown.contains("the network by itself") && !shown.contains("transformer"), "{shown}");
}

#[test]
fn a_run_resumes_only_with_its_own_network() {
    let place = TestDir::new();
    place.write("reviews.csv", csv(&reviews(100)));
    place.run(&["train", "reviews.csv", "--out", "model", "--model", "lstm", "--epochs", "2"]).assert_success();
    std::fs::remove_file(place.path("model/model.safetensors")).unwrap();
    for other in ["transformer", "gru"] {
        let args = ["train", "reviews.csv", "--out", "model", "--model", other, "--epochs", "2", "--resume"];
        place.run_rejected(&args, &["other data, settings or seed", "--force"]);
    }
    place
        .run(&["train", "reviews.csv", "--out", "model", "--model", "lstm", "--epochs", "2", "--resume"])
        .assert_success();
}

#[test]
fn configurations_of_recurrent_models_are_checked() {
    let place = TestDir::new();
    place.train_small("model", &["--model", "gru"]);
    let config = place.json("model/config.json");
    type Edit = fn(&mut Value);
    let edits: [(Edit, &str); 6] = [
        (|c| c["cell"] = "transistor".into(), "expected rnn, lstm or gru, got \"transistor\""),
        (|c| c["hidden_size"] = 0.into(), "hidden_size: expected 1 to 65536, found 0"),
        (|c| c["hidden_size"] = (1u64 << 40).into(), "hidden_size: expected 1 to 65536"),
        (|c| c["num_layers"] = 100_000.into(), "num_layers: expected 1 to 1024"),
        (|c| drop(c.as_object_mut().unwrap().remove("bidirectional")), "missing field `bidirectional`"),
        (|c| drop(c.as_object_mut().unwrap().remove("cell")), "missing field `num_heads`"),
    ];
    for (edit, words) in edits {
        let mut edited = config.clone();
        edit(&mut edited);
        place.write("model/config.json", edited.to_string());
        place.run_rejected(&["predict", "model", "fine"], &["config.json", words]);
    }
    // Sizes that do not match the weights.
    let mut edited = config.clone();
    edited["bidirectional"] = false.into();
    place.write("model/config.json", edited.to_string());
    place.run_rejected(&["predict", "model", "fine"], &["model.safetensors", "head.weight"]);
}

#[test]
fn comparing_trains_every_model_and_then_measures_all() {
    let place = TestDir::new();
    place.write("reviews.csv", csv(&reviews(100)));
    let mut command = place.command(&["compare", "reviews.csv", "--epochs", "1"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let report: Vec<String> = lines.take_while(|line| !line.starts_with("timing")).collect();
    assert!(child.try_wait().unwrap().is_none(), "it ends without timing: {report:#?}");
    child.kill().unwrap();
    child.wait().unwrap();
    let trained = report.iter().filter_map(|line| line.strip_prefix("training  ")).map(str::to_lowercase);
    let trained: Vec<String> = trained.collect();
    assert_eq!(trained.len(), 5, "{report:#?}");
    for (report, name) in trained.iter().zip(["transformer", "transformer", "rnn", "lstm", "gru"]) {
        assert!(report.contains(name), "{trained:?}");
    }
}

#[test]
fn comparing_shows_every_model_with_consistent_numbers() {
    // Timing takes minutes: five models at six lengths, twelve times each.
    if !testkit::exhaustive("chumoku-cli") {
        return;
    }
    let place = TestDir::new();
    place.write("reviews.csv", csv(&reviews(100)));
    let run = place.run(&["compare", "reviews.csv", "--epochs", "1", "--json", "--svg", "time.svg"]).assert_success();
    let found = run.json();
    let models = found["models"].as_array().unwrap();
    let names: Vec<_> =
        models.iter().map(|m| (m["network"].as_str().unwrap(), m["position"].as_str().unwrap())).collect();
    let recurrent = ["rnn", "lstm", "gru"].map(|name| (name, "none"));
    assert_eq!(names, [&[("transformer", "sinusoidal"), ("transformer", "learned")], &recurrent[..]].concat());
    let size = models[0]["parameters"].as_f64().unwrap();
    for model in models {
        assert!((model["parameters"].as_f64().unwrap() / size - 1.0).abs() < 0.05, "of one size: {model}");
        for (step, length) in model["steps"].as_array().unwrap().iter().zip([32, 64, 128, 256, 512, 1024]) {
            let [low, median, high] = ["min_ms", "median_ms", "max_ms"].map(|name| step[name].as_f64().unwrap());
            assert!(step["length"] == length && 0.0 < low && low <= median && median <= high, "{step}");
        }
        assert!((0.0..=1.0).contains(&model["accuracy"].as_f64().unwrap()));
    }
    let claims = found["claims"].as_array().unwrap();
    assert_eq!(claims.len(), 10);
    for claim in claims {
        let verdict = claim["verdict"].as_str().unwrap();
        assert!(["holds", "does_not_hold", "open"].contains(&verdict), "{claim}");
        assert_eq!(claim.get("would_decide").is_some(), verdict == "open", "{claim}");
    }
    // Ten rows cannot show that two models are within two points.
    assert_eq!(claims[6]["verdict"], "open", "{}", claims[6]);
    assert!(claims[6]["would_decide"].as_str().unwrap().contains("rows"), "{}", claims[6]);
    let growth = &models[3]["growth"];
    let [low, power, high] = ["low", "median", "high"].map(|name| growth["power"][name].as_f64().unwrap());
    assert!(low <= power && power <= high && (growth["expected"].as_f64().unwrap() - 1.0).abs() < 0.01, "{growth}");
    let svg = place.read("time.svg");
    // Six points for each network except the one with learned positions, each with its numbers.
    let points: Vec<_> = svg.lines().filter(|line| line.starts_with("<rect") && line.contains("<title>")).collect();
    assert_eq!(points.len(), 24, "{svg}");
    for step in models[3]["steps"].as_array().unwrap() {
        let start = format!("<title>LSTM, {}: ", step["length"]);
        let message = points.iter().find_map(|point| point.split(&start).nth(1)).unwrap();
        let shown: Vec<f64> = message.split(['(', ')', '–', ' ', '<']).filter_map(|part| part.parse().ok()).collect();
        for (shown, name) in shown.iter().zip(["median_ms", "min_ms", "max_ms"]) {
            let ms = step[name].as_f64().unwrap();
            assert!((shown - ms).abs() < 1e-4 + 1e-6 * ms, "{name}: {shown} for {step}");
        }
        assert_eq!(shown.len(), 3, "{message}");
    }
    // Nothing else is left.
    assert_eq!(place.file_names("."), ["reviews.csv", "time.svg"]);
    place.run_rejected(&["compare", "missing.csv"], &["missing.csv"]);
    place.run_rejected(&["compare", "reviews.csv", "--svg", "no/such/time.svg"], &["no/such"]);
}
