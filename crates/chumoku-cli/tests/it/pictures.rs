//! Pictures: attention views, differences, disabled heads, positions, and films of training.

use crate::common::{TestDir, has_fonts};
use std::sync::OnceLock;

const TEXT: &str = "The room was not clean at all.";

fn model() -> &'static str {
    static MODEL: OnceLock<String> = OnceLock::new();
    MODEL.get_or_init(|| {
        let place = TestDir::shared_by_file("pictures");
        place.train_small("model", &["--epochs", "3", "--watch", TEXT]);
        place.path("model").display().to_string()
    })
}

#[test]
fn every_view_shows_the_numbers_of_the_explanation() {
    let place = TestDir::new();
    let value = place.run(&["explain", model(), TEXT, "--json", "-"]).assert_success().json();
    let weight = |layer: usize, head: usize, i: usize, j: usize| {
        value["attention"][layer][head][i][j].as_f64().expect("a weight")
    };
    let view = |args: &[&str]| place.run(&[&["explain", model(), TEXT][..], args].concat()).assert_success().stdout;
    // The strongest line has the largest weight of the head.
    let lines = view(&["--view", "lines", "--layer", "1", "--head", "2", "--threshold", "0.05"]);
    let words = value["words"].as_array().unwrap().len();
    let all = || (0..words).flat_map(|i| (0..words).map(move |j| (i, j)));
    let most = all().map(|(i, j)| weight(0, 1, i, j)).fold(0.0, f64::max);
    let first = lines.lines().skip_while(|line| !line.contains("weight")).nth(1).unwrap();
    let shown: f64 = first.split_whitespace().last().unwrap().parse().unwrap();
    assert!((shown - most).abs() <= 0.000_05, "{first} for {most}");
    let above = all().filter(|&(i, j)| weight(0, 1, i, j) >= 0.05).count();
    let rows = lines.lines().filter(|line| line.split_whitespace().last().is_some_and(|x| x.starts_with("0."))).count();
    assert_eq!(rows, above);
    // A single-token word has the weight of the head.
    let pieces = value["pieces"].as_array().unwrap();
    let of_word = |word: usize| pieces.iter().filter(|piece| piece["word"] == word).count();
    assert_eq!([of_word(0), of_word(1)], [1, 1], "the test needs words of one token");
    let depth = view(&["--view", "depth", "--layer", "2", "--head", "1", "--query", "2", "--key", "1"]);
    let row = depth.lines().find(|line| line.trim_start().starts_with("1 [CLS]")).unwrap();
    let shown: f64 = row.split_whitespace().last().unwrap().parse().unwrap();
    assert!((shown - weight(1, 0, 1, 0)).abs() <= 0.000_06, "{row}");
    for (name, said) in [("values", "Derived"), ("rollout", "Derived"), ("grid", "L1·H1"), ("heatmap", "queries")] {
        assert!(view(&["--view", name]).contains(said), "{name}");
    }
    let sorted = view(&["--view", "grid", "--sort", "entropy", "--lang", "ja"]);
    assert!(sorted.contains("エントロピーの小さい順"), "{sorted}");
}

#[test]
fn disabled_heads_change_the_prediction_as_on_the_page() {
    let place = TestDir::new();
    let value = place.run(&["explain", model(), TEXT, "--json", "-"]).assert_success().json();
    let without = value["without"].as_array().unwrap();
    assert_eq!(without.len(), 8);
    let label = value["label"].as_str().unwrap();
    let percent = |x: &serde_json::Value| format!("{:.1} %", 100.0 * x.as_f64().unwrap());
    let said = place.run(&["explain", model(), TEXT, "--without", "2.3"]).assert_success().stdout;
    // First the transformer alone, which has the heads, then the ensemble.
    let of = |list: &serde_json::Value, label: &str| {
        list.as_array().unwrap().iter().position(|class| class["label"] == label).unwrap()
    };
    let own = value["parts"]["attention"][0]["label"].as_str().unwrap();
    let alone = format!(
        "Without head 2.3:\n  transformer alone: “{own}” goes from {} to {}",
        percent(&value["parts"]["attention"][0]["probability"]),
        percent(&without[6]["probabilities"][of(&value["probabilities"], own)])
    );
    let whole = format!(
        "\n  with n-grams: “{label}” goes from {} to {}",
        percent(&value["probabilities"][0]["probability"]),
        percent(&without[6]["whole"]["probabilities"][0])
    );
    assert!(said.contains(&alone) && said.contains(&whole), "{alone}{whole}: {said}");
    let all = "1.1,1.2,1.3,1.4,2.1,2.2,2.3,2.4";
    let said = place.run(&["explain", model(), TEXT, "--without", all, "--lang", "ja"]).assert_success().stdout;
    assert!(said.contains("1.1、1.2") && said.contains("無効にすると"), "{said}");
    place.run_rejected(&["explain", model(), TEXT, "--without", "3.1"], &["layer 3, head 1", "layers 1 to 2"]);
    place.run_rejected(&["explain", model(), TEXT, "--without", "3"], &["--without", "2.1"]);
}

#[test]
fn texts_heads_and_models_are_compared() {
    let place = TestDir::new();
    let value = place.run(&["explain", model(), TEXT, "--json", "-"]).assert_success().json();
    let weight = |head: usize, i: usize, j: usize| value["attention"][0][head][i][j].as_f64().unwrap();
    let args = ["explain", model(), TEXT, "--layer", "1", "--head", "1", "--compare-head", "1.4", "--json", "-"];
    let difference = place.run(&args).assert_success().json();
    for (i, j) in [(0, 0), (2, 5), (7, 1)] {
        let shown = difference["map"]["values"][i][j].as_f64().unwrap();
        assert!((shown - (weight(3, i, j) - weight(0, i, j))).abs() < 1e-6);
    }
    let other = "The room was clean at all.";
    let run =
        place.run(&["explain", model(), TEXT, "--compare-text", other, "--html", "difference.html"]).assert_success();
    assert!(run.stdout.contains("only one of the texts (1)"), "{}", run.stdout);
    assert!(place.read("difference.html").contains("Content-Security-Policy"));
    // A model does not differ from itself.
    let same =
        place.run(&["explain", model(), TEXT, "--compare-model", model(), "--json", "-"]).assert_success().json();
    let rows = same["map"]["values"].as_array().unwrap();
    assert!(rows.iter().flat_map(|row| row.as_array().unwrap()).all(|x| x.as_f64() == Some(0.0)));
    place.run_rejected(&["explain", model(), TEXT, "--compare-head", "9.1"], &["layer 9", "layers 1 to 2"]);
    place.run_rejected(&["explain", model(), TEXT, "--compare-model", "nowhere"], &["nowhere"]);
    place.run_rejected(&["explain", model(), TEXT, "--compare-head", "1.1", "--view", "lines"], &["heatmap"]);
}

#[test]
fn one_or_many_pictures_are_written() {
    if !has_fonts() {
        return;
    }
    let place = TestDir::new();
    let files = ["--svg", "a.svg", "--png", "a.png", "--pdf", "a.pdf"];
    let run = place.run(&[&["explain", model(), TEXT, "--view", "lines"][..], &files].concat()).assert_success();
    assert_eq!(run.stderr.matches("wrote ").count(), 3, "{}", run.stderr);
    assert!(place.read("a.svg").starts_with("<svg"));
    for (name, start) in [("a.png", &b"\x89PNG"[..]), ("a.pdf", b"%PDF-")] {
        assert!(std::fs::read(place.path(name)).unwrap().starts_with(start), "{name}");
    }
    place.write("texts.txt", "one text\n\nanother </svg> text\n");
    let run = place.run(&["explain", model(), "--input", "texts.txt", "--png", "pictures"]).assert_success();
    assert!(run.stderr.contains("wrote 2 pictures"), "{}", run.stderr);
    assert_eq!(place.file_names("pictures"), ["001.png", "002.png"]);
    place.run_rejected(&["explain", model(), "--input", "texts.txt"], &["--png"]);
    for (view, said) in [("effects", "Effect of each word"), ("curves", "answer rest on these words")] {
        let flags = ["--view", view, "--svg", "b.svg"];
        place.run(&[&["explain", model(), TEXT][..], &flags].concat()).assert_success();
        assert!(place.read("b.svg").contains(said), "{view}");
        place.run(&["explain", model(), "--input", "texts.txt", "--view", view, "--svg", view]).assert_success();
        assert_eq!(place.file_names(view), ["001.svg", "002.svg"]);
        assert!(place.read(&format!("{view}/002.svg")).contains(said), "{view}");
        for name in [view, "b.svg"] {
            let path = place.path(name);
            if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }.unwrap();
        }
    }
    place.run_rejected(&["explain", model(), "--input", "none.txt", "--png", "p"], &["none.txt"]);
    place.write("empty.txt", "\n \n");
    place.run_rejected(&["explain", model(), "--input", "empty.txt", "--png", "p"], &["empty.txt", "expected rows"]);
    place.run_rejected(&["explain", model(), TEXT, "--png", "b.png", "--font", "texts.txt"], &["texts.txt", "no font"]);
    place.run_rejected(&["explain", model()], &["TEXT"]);
    for (flag, value, view) in [("--sort", "role", "grid"), ("--threshold", "0.5", "lines"), ("--key", "1", "depth")] {
        place.run_rejected(&["explain", model(), TEXT, flag, value], &[flag, view]);
    }
    place.run_rejected(&["explain", model(), TEXT, "--view", "lines", "--threshold", "-1"], &["0 to 1"]);
    place.run_rejected(&["explain", model(), "--input", "texts.txt", "--png", "a.svg"], &["a.svg"]);
    // Lines are counted as in editors, including blank ones.
    place.write("private.txt", "one text\n\nanother \u{10fffd}\n");
    let run = place.run(&["explain", model(), "--input", "private.txt", "--png", "p"]);
    assert_ne!(run.code, 0);
    run.assert_one_error(&["line 3 of private.txt", "U+10FFFD"]);
    for flag in [["--without", "1.1"], ["--compare-head", "1.1"], ["--compare-text", "x"]] {
        let args = [&["explain", model(), "--input", "texts.txt", "--png", "p"][..], &flag].concat();
        place.run_rejected(&args, &[flag[0], "--input"]);
    }
    place.run_rejected(&["explain", model(), TEXT, "--without", "1.1", "--compare-head", "1.2"], &["--compare-head"]);
}

/// The size of a PNG from its header.
fn png_size(place: &TestDir, name: &str) -> [u32; 2] {
    let png = std::fs::read(place.path(name)).unwrap();
    [16, 20].map(|at| u32::from_be_bytes(png[at..at + 4].try_into().unwrap()))
}

#[test]
fn a_png_has_twice_the_pixels_of_its_svg() {
    if !has_fonts() {
        return;
    }
    let place = TestDir::new();
    place.run(&["position", "--length", "8", "--d-model", "4", "--svg", "a.svg", "--png", "a.png"]).assert_success();
    let svg = place.read("a.svg");
    let size = ["width", "height"].map(|name| -> u32 {
        svg.split_once(&format!(" {name}=\"")).unwrap().1.split('"').next().unwrap().parse().unwrap()
    });
    assert_eq!(png_size(&place, "a.png"), size.map(|x| 2 * x));
}

/// All possible files are written, and only the others fail.
#[test]
fn a_picture_that_cannot_be_drawn_affects_no_other_file() {
    let place = TestDir::new();
    // A private-use character is in no font. Without any font, no picture can be drawn either.
    let text = "clean \u{10fffd}";
    let fails = |args: &[&str], written: &[&str]| {
        let run = place.run(args);
        assert_eq!(run.stderr.matches("error: ").count(), 1, "{args:?}: {}", run.stderr);
        assert_ne!(run.code, 0, "{args:?}");
        assert_eq!(run.stderr.matches("wrote ").count(), written.len(), "{args:?}: {}", run.stderr);
        for name in written {
            assert!(!place.read(name).is_empty(), "{args:?}: {name}");
            std::fs::remove_file(place.path(name)).unwrap();
        }
        run
    };
    let all = ["--png", "a.png", "--svg", "a.svg", "--html", "a.html", "--json", "a.json"];
    let run = fails(&[&["explain", model(), text][..], &all].concat(), &["a.html", "a.json"]);
    assert!(run.stdout.contains("Prediction"), "{}", run.stdout);
    assert!(!place.path("a.png").exists() && !place.path("a.svg").exists());
    // The JSON on standard output is complete.
    let run = fails(&["explain", model(), text, "--png", "a.png", "--json", "-"], &[]);
    assert_eq!(run.json()["text"], text);
    let other = ["--compare-text", text, "--pdf", "a.pdf", "--html", "a.html"];
    fails(&[&["explain", model(), text][..], &other].concat(), &["a.html"]);
    // An invalid font file, and a missing folder.
    place.write("no.ttf", "no font");
    let font = ["--font", "no.ttf", "--png", "a.png", "--html", "a.html", "--json", "a.json"];
    fails(&[&["position", "--length", "8", "--d-model", "4"][..], &font].concat(), &["a.html", "a.json"]);
    fails(&[&["film", model()][..], &font].concat(), &["a.html", "a.json"]);
    // An unwritable path is reported before anything is written.
    let run = fails(&["position", "--html", "nowhere/a.html", "--json", "a.json"], &[]);
    run.assert_one_error(&["nowhere"]);
    // A problem shared by several files is reported once.
    let run = fails(&["position", "--font", "no.ttf", "--png", "a.png", "--svg", "a.svg", "--pdf", "a.pdf"], &[]);
    assert!(!run.stderr.contains("also not written"), "{}", run.stderr);
    let run = fails(&[&["explain", model(), text][..], &all].concat(), &["a.html", "a.json"]);
    assert!(!run.stderr.contains("also not written"), "{}", run.stderr);
    if has_fonts() {
        fails(&["position", "--png", "nowhere/a.png", "--svg", "a.svg", "--html", "a.html"], &[]);
        // With many texts, the others are drawn.
        place.write("texts.txt", format!("one text\n{text}\nanother text\n"));
        let run = place.run(&["explain", model(), "--input", "texts.txt", "--png", "many"]);
        run.assert_one_error(&["line 2 of texts.txt", "U+10FFFD"]);
        assert!(run.stderr.contains("wrote 2 of 3 pictures into many"), "{}", run.stderr);
        assert_eq!(place.file_names("many"), ["001.png", "003.png"]);
    }
}

#[test]
fn positions_of_encodings_and_models_are_shown() {
    let place = TestDir::new();
    let args = ["position", "--d-model", "8", "--length", "12", "--view", "wavelengths", "--json", "-"];
    let json = place.run(&args).assert_success().json();
    let shown = json["curves"]["series"][0]["values"].as_array().unwrap();
    for (i, x) in shown.iter().enumerate() {
        let expected = std::f64::consts::TAU * 10f64.powi(i as i32);
        assert!((x.as_f64().unwrap() / expected - 1.0).abs() < 1e-6, "{x} for {expected}");
    }
    let json = place.run(&["position", "--d-model", "4", "--length", "3", "--json", "-"]).assert_success().json();
    assert!((json["map"]["values"][2][2].as_f64().unwrap() - 0.02f64.sin()).abs() < 1e-7);
    place.run(&["position", "--kind", "rotary", "--base", "500", "--html", "p.html", "--lang", "ja"]).assert_success();
    assert_eq!(place.read("p.html").matches("<svg").count(), 8);
    let of_model = place.run(&["position", "--model", model()]).assert_success().stdout;
    assert!(of_model.contains("Sinusoidal encoding, d = 128"), "{of_model}");
    place.run_rejected(&["position", "--base", "500"], &["--kind rotary"]);
    // Pages of several gigabytes, and pictures too large for any program.
    for (size, drawn) in [(["4096", "4096"], "--html"), (["600", "1000"], "--png"), (["1000", "8"], "--html")] {
        let args = ["position", "--length", size[0], "--d-model", size[1], drawn, "large"];
        place.run_rejected(&args, &["numbers is too large to show (at most 524288)", "--json"]);
    }
    let args = ["position", "--length", "1000", "--d-model", "8", "--view", "similarity", "--svg", "large.svg"];
    place.run_rejected(&args, &["1000×1000 = 1000000 numbers"]);
    place
        .run(&["position", "--length", "1000", "--d-model", "8", "--view", "curves", "--json", "curves.json"])
        .assert_success();
    place.run_rejected(&["position", "--kind", "rotary", "--d-model", "5"], &["even", "5"]);
    place.run_rejected(&["position", "--length", "100000"], &["--length 100000", "4096"]);
    place.run_rejected(&["position", "--model", "nowhere"], &["nowhere"]);
}

#[test]
fn a_film_is_recorded_during_training_and_ends_with_the_model() {
    let place = TestDir::new();
    let json = place.run(&["film", model(), "--layer", "2", "--head", "3", "--json", "-"]).assert_success().json();
    let strip = json["strip"]["sheet"].as_array().unwrap();
    // Before training, and after each of three epochs.
    assert_eq!(strip.len(), 4);
    assert!(strip[0]["caption"].as_str().unwrap().starts_with("epoch 0, step 0"));
    assert!(strip[3]["caption"].as_str().unwrap().starts_with("epoch 3"));
    assert_ne!(strip[0]["values"], strip[3]["values"]);
    for map in strip {
        for row in map["values"].as_array().unwrap() {
            let sum: f64 = row.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).sum();
            assert!((sum - 1.0).abs() < 1e-4, "{sum}");
        }
    }
    // One of the frames shows the weights that were kept.
    let value = place.run(&["explain", model(), TEXT, "--json", "-"]).assert_success().json();
    let kept = value["attention"][1][2].as_array().unwrap();
    let is_kept = |map: &serde_json::Value| {
        let shown = map["values"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
        let kept = kept.iter().flat_map(|row| row.as_array().unwrap());
        shown.zip(kept).all(|(a, b)| (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-5)
    };
    assert!(strip[1..].iter().any(is_kept) && !is_kept(&strip[0]));
    let text = place.run(&["film", model(), "--html", "film.html", "--lang", "ja"]).assert_success().stdout;
    assert!(text.contains("エポック 3"), "{text}");
    // A strip for each head, the difference and the curves, in two languages.
    assert_eq!(place.read("film.html").matches("<svg").count(), 12);
    place.run_rejected(&["film", model(), "--layer", "3"], &["--layer 3", "layers 1 to 2"]);
    place.train_small("plain", &["--epochs", "1"]);
    place.run_rejected(&["film", "plain"], &["log.jsonl", "--watch TEXT"]);
    // Recording does not change the model.
    place.train_small("again", &["--epochs", "1", "--watch", TEXT]);
    let weights = |name: &str| crate::common::sha256(&place.path(&format!("{name}/model.safetensors")));
    assert_eq!(weights("plain"), weights("again"));
    place.run_rejected(&["train", "--epochs", "1", "--out", "none", "--watch", " "], &["watch is empty"]);
    place.run_rejected(&["train", "--task", "translate", "--epochs", "1", "--out", "none", "--watch", "x"], &["tab"]);
}

#[test]
fn language_models_and_translators_have_pictures() {
    let place = TestDir::new();
    let text: String =
        (0..300).map(|i| format!("the {} saw a {}.\n", ["cat", "dog"][i % 2], ["bird", "fish"][i % 3 % 2])).collect();
    place.write("book.txt", text);
    let watched = ["--watch", "the cat"];
    let train = ["train", "book.txt", "--task", "lm", "--out", "lm", "--epochs", "2"];
    place.run(&[&train[..], &watched].concat()).assert_success();
    let value = place.run(&["explain", "lm", "the cat sa", "--json", "-", "--html", "lm.html"]).assert_success().json();
    assert_eq!((&value["kind"], &value["causal"]), (&"language_model".into(), &true.into()));
    // The next token matches what `generate` writes at temperature 0.
    let next =
        place.run(&["generate", "lm", "the cat sa", "--max-tokens", "1", "--temperature", "0"]).assert_success().stdout;
    assert!(next.trim_end().ends_with(value["label"].as_str().unwrap()), "{next} {}", value["label"]);
    assert!(place.run(&["explain", "lm", "the cat", "--view", "depth"]).assert_success().stdout.contains("exp(score"));
    assert!(
        place
            .run(&["explain", "lm", "the cat", "--without", "1.1"])
            .assert_success()
            .stdout
            .contains("Without head 1.1")
    );
    assert!(place.run(&["film", "lm"]).assert_success().stdout.contains("epoch 2"));
    place.run_rejected(
        &["explain", "lm", "the cat", "--view", "depth", "--query", "2", "--key", "4"],
        &["--key 4", "1 to 2"],
    );

    let lines =
        |words: [&str; 3]| -> String { (0..200).map(|i| format!("{} {}\n", words[i % 3], words[i / 3 % 3])).collect() };
    place.write("t.a", lines(["one", "two", "three"]));
    place.write("t.b", lines(["1", "2", "3"]));
    place.run(&["train", "t.a,t.b", "--out", "tr", "--epochs", "2", "--watch", "one two\t1 2"]).assert_success();
    assert!(place.run(&["film", "tr"]).assert_success().stdout.contains("→ 1 2 [END]"));
    let run = place.run(&["explain", "tr", "one two", "--view", "grid", "--without", "1.1"]).assert_success();
    assert!(run.stdout.contains("L1·H1") && run.stdout.contains("the model writes"), "{}", run.stdout);
    place.run_rejected(&["explain", "tr", "one", "--view", "grid", "--sort", "effect"], &["--sort", "align"]);
    place.run_rejected(&["explain", "tr", "one", "--view", "rollout"], &["heatmap, lines and grid"]);
    place.run_rejected(
        &["explain", "tr", "one", "--compare-text", "two"],
        &["classifiers, language models and encoders"],
    );
}

#[test]
fn positions_show_the_requested_dimensions() {
    let place = TestDir::new();
    let figure = |args: &[&str]| {
        place.run(&[&["position", "--length", "6", "--json", "-"], args].concat()).assert_success().json()
    };
    let (all, some) = (figure(&[]), figure(&["--dimensions", "0-3,10,20"]));
    let dimensions = [0usize, 1, 2, 3, 10, 20];
    assert_eq!(some["map"]["columns"]["labels"], serde_json::json!(dimensions.map(|dimension| dimension.to_string())));
    assert_eq!(all["map"]["columns"]["labels"].as_array().unwrap().len(), 32);
    for position in 0..6usize {
        let row = &some["map"]["values"][position];
        assert_eq!(row.as_array().unwrap().len(), dimensions.len());
        for (j, dimension) in dimensions.into_iter().enumerate() {
            assert_eq!(row[j], all["map"]["values"][position][dimension], "position {position}, dimension {dimension}");
        }
    }
    let curves = figure(&["--view", "curves", "--dimensions", "1,2"]);
    let series = curves["curves"]["series"].as_array().unwrap();
    let names: Vec<&str> = series.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["dimension 1", "dimension 2"]);
    for (dimensions, words) in [
        ("0-99", ["0 to 31", "found 32"]),
        ("32", ["0 to 31", "found 32"]),
        ("5-2", ["--dimensions", "found 5-2"]),
        ("x", ["--dimensions", "found x"]),
    ] {
        place.run_rejected(&["position", "--dimensions", dimensions], &words);
    }
}
