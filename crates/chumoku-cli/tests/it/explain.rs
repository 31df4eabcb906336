//! `explain`: the picture, the page and the numbers, in both languages.

use crate::common::{TestDir, shared_model};

const TEXT: &str = "The room was not clean, 部屋は汚かったです。";

#[test]
fn the_picture_shows_prediction_words_and_scale() {
    let place = TestDir::new();
    let run = place.run(&["explain", shared_model(), TEXT]).assert_success();
    for word in ["Prediction", "negative", "positive", "room", "clean", "Layer", "leave-one-out"] {
        assert!(run.stdout.to_lowercase().contains(&word.to_lowercase()), "“{word}” is missing: {}", run.stdout);
    }
    assert!(!run.stdout.contains('\u{1b}'), "no terminal, no colour");
    let predicted = place.run(&["predict", shared_model(), "--json", TEXT]).assert_success().json();
    assert!(run.stdout.contains(&format!("Prediction: {}", predicted["label"].as_str().unwrap())), "{}", run.stdout);
    let japanese = place.run(&["explain", shared_model(), TEXT, "--lang", "ja"]).assert_success();
    assert!(japanese.stdout.contains("予測") && !japanese.stdout.contains("Prediction"), "{}", japanese.stdout);
    let heads = ["1", "2"].map(|head| {
        place.run(&["explain", shared_model(), TEXT, "--layer", "1", "--head", head]).assert_success().stdout
    });
    assert_ne!(heads[0], heads[1]);
}

#[test]
fn color_is_used_when_forced_and_not_when_disabled() {
    let place = TestDir::new();
    let run = |name: &str| {
        let mut command = place.command(&["explain", shared_model(), TEXT]);
        command.env(name, "1").env("TERM", "xterm-256color");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(!run("NO_COLOR").contains('\u{1b}'));
    let plain = place.run(&["explain", shared_model(), TEXT]).assert_success().stdout;
    assert_eq!(run("NO_COLOR"), plain);
}

#[test]
fn the_numbers_are_consistent_json() {
    let place = TestDir::new();
    let value = place.run(&["explain", shared_model(), TEXT, "--json", "-"]).assert_success().json();
    let words = value["words"].as_array().unwrap().len();
    let attention = value["attention"].as_array().unwrap();
    assert_eq!(
        attention.len(),
        value["layers"].as_array().map_or_else(|| value["layers"].as_u64().unwrap() as usize, Vec::len)
    );
    let mut rows = 0;
    for heads in attention {
        for head in heads.as_array().unwrap() {
            let queries = head.as_array().unwrap();
            assert_eq!(queries.len(), words);
            for query in queries {
                let keys: Vec<f64> = query.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
                assert_eq!(keys.len(), words);
                assert!((keys.iter().sum::<f64>() - 1.0).abs() < 1e-4 && keys.iter().all(|x| *x >= 0.0), "{keys:?}");
                rows += 1;
            }
        }
    }
    assert!(rows >= 2 * words);
    let probabilities: f64 =
        value["probabilities"].as_array().unwrap().iter().map(|class| class["probability"].as_f64().unwrap()).sum();
    assert!((probabilities - 1.0).abs() < 1e-5);
    assert_eq!(value["text"], TEXT);
    assert_eq!(value["attribution"]["scores"].as_array().unwrap().len(), words);

    let predicted = place.run(&["predict", shared_model(), "--json", TEXT]).assert_success().json();
    assert_eq!(value["label"], predicted["label"]);
    let file = place.run(&["explain", shared_model(), TEXT, "--json", "why.json"]).assert_success();
    assert_eq!(place.json("why.json"), value);
    assert!(file.stderr.contains("wrote why.json") && file.stdout.contains("Prediction"), "{file:#?}");
}

#[test]
fn the_scores_are_leave_one_out_effects() {
    let place = TestDir::new();
    let text = "The room was clean";
    let value = place.run(&["explain", shared_model(), text, "--json", "-"]).assert_success().json();
    let class = value["attribution"]["class"].as_str().unwrap();
    let odds = |p: f64| (p / (1.0 - p)).ln();
    let of = |list: &serde_json::Value| {
        let list = list.as_array().unwrap();
        odds(list.iter().find(|one| one["label"] == class).unwrap()["probability"].as_f64().unwrap())
    };
    // The prediction of the ensemble, and of the transformer alone.
    let both = |text: &str| {
        let row = place.run(&["predict", shared_model(), "--json", "--top", "2", text]).assert_success().json();
        let alone = place.run(&["explain", shared_model(), text, "--json", "-"]).assert_success().json();
        [of(&alone["parts"]["attention"]), of(&row["top"])]
    };
    let words = value["words"].as_array().unwrap();
    assert_eq!(words.len(), 5);
    let with = both(text);
    let texts = ["", " room was clean", "The  was clean", "The room  clean", "The room was "];
    for (i, left) in texts.iter().enumerate().skip(1) {
        let without = both(left);
        for (half, name) in ["scores", "whole"].into_iter().enumerate() {
            let found = value["attribution"][name][i].as_f64().unwrap();
            let expected = with[half] - without[half];
            assert!((found - expected).abs() < 1e-3, "{name} of {}: {found} and {expected}", words[i]);
        }
    }
    // The n-grams contribute, so the two differ.
    assert_ne!(value["attribution"]["scores"], value["attribution"]["whole"]);
    let shown = place.run(&["explain", shared_model(), text]).assert_success().stdout;
    assert!(shown.contains("the transformer by itself") && shown.contains("Share of this decision"), "{shown}");
    // The words are shown with both effects in this order.
    for (i, word) in words.iter().enumerate().skip(1) {
        let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let (number, name) = ((i + 1).to_string(), word["text"].as_str().unwrap());
        let line = shown.lines().map(cells).find(|cells| cells.len() > 3 && cells[0] == number && cells[1] == name);
        let line = line.unwrap_or_else(|| panic!("{name}: {shown}"));
        for (cell, half) in line[2..4].iter().zip(["scores", "whole"]) {
            let expected = value["attribution"][half][i].as_f64().unwrap();
            assert!((cell.parse::<f64>().unwrap() - expected).abs() < 0.006, "{half} of {name}: {shown}");
        }
    }
}

#[test]
fn words_after_the_first_window_have_both_effects() {
    let place = TestDir::new();
    place.copy_folder(std::path::Path::new(shared_model()), "m");
    // The ensemble equals the n-grams here, which read the whole text.
    let mut config = place.json("m/config.json");
    config["blend"] = serde_json::json!({ "attention": 0.0, "ngrams": 1.0 });
    place.write("m/config.json", config.to_string());
    let filler: String = (0..250).map(|i| format!("zq{i} ")).collect();
    let end = ["The", "room", "was", "not", "clean"];
    let value = place.run(&["explain", "m", &(filler.clone() + &end.join(" ")), "--json", "-"]).assert_success().json();
    let class = value["attribution"]["class"].as_str().unwrap();
    let log_odds = |text: &str| {
        let row = place.run(&["predict", "m", "--json", "--top", "2", text]).assert_success().json();
        let p =
            row["top"].as_array().unwrap().iter().find(|one| one["label"] == class).unwrap()["probability"].as_f64();
        (p.unwrap() / (1.0 - p.unwrap())).ln()
    };
    let with = log_odds(&(filler.clone() + &end.join(" ")));
    let beyond = value["attribution"]["beyond"].as_array().unwrap();
    let mut differ = 0;
    for (i, word) in beyond[beyond.len() - end.len()..].iter().enumerate() {
        assert_eq!(word["text"], end[i]);
        let left: Vec<&str> = end.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, word)| *word).collect();
        let expected = with - log_odds(&(filler.clone() + &left.join(" ")));
        let [own, whole] = ["score", "whole"].map(|name| word[name].as_f64().unwrap());
        assert!((whole - expected).abs() < 1e-3, "{word}: {expected}");
        differ += usize::from((own - whole).abs() > 0.01);
    }
    assert!(differ > 0, "nothing tells the two apart: {beyond:?}");
}

#[test]
fn the_share_of_the_ngrams_is_as_reported() {
    let place = TestDir::new();
    let value = place.run(&["explain", shared_model(), TEXT, "--json", "-"]).assert_success().json();
    let labels: Vec<&serde_json::Value> =
        value["probabilities"].as_array().unwrap().iter().map(|class| &class["label"]).collect();
    let parts = &value["parts"];
    let moved = |half: &str, weight: f64| {
        let p = |label: &serde_json::Value| {
            let class = parts[half].as_array().unwrap().iter().find(|class| class["label"] == *label).unwrap();
            class["probability"].as_f64().unwrap()
        };
        weight * (p(labels[0]) / p(labels[1])).ln()
    };
    let weight = parts["attention_weight"].as_f64().unwrap();
    let [network, ngrams] = [moved("attention", weight), moved("ngrams", 1.0 - weight)];
    let expected = ngrams.abs() / (network.abs() + ngrams.abs());
    let found = parts["ngram_share"].as_f64().unwrap();
    assert!((found - expected).abs() < 1e-3, "{found} and {expected}");
    assert_eq!(parts["against"], serde_json::json!([network < 0.0, ngrams < 0.0]));
    let shown = place.run(&["explain", shared_model(), TEXT, "--lang", "ja"]).assert_success().stdout;
    assert!(shown.contains(&format!("n-gram モデル {:.0} %", 100.0 * found)), "{shown}");
}

#[test]
fn the_page_is_self_contained() {
    let place = TestDir::new();
    for lang in ["en", "ja"] {
        let run = place.run(&["explain", shared_model(), TEXT, "--html", "why.html", "--lang", lang]).assert_success();
        assert!(run.stderr.contains("why.html"), "{run:#?}");
        let page = place.read("why.html");
        assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"));
        assert!(page.contains(&format!("<html lang=\"{lang}\"")) && page.contains("Content-Security-Policy"));
        assert!(page.contains("default-src 'none'"), "the policy must refuse what it does not name");
        assert!(!page.contains("unsafe-inline") && !page.contains("unsafe-eval"));
        // The name of an XML namespace is not requested from the network.
        let addresses = page.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xhtml", "");
        for word in ["http://", "https://", "src=\"//", "@import", "url("] {
            assert!(!addresses.contains(word), "the page holds {word}");
        }
        assert!(page.contains("部屋") || page.contains("\\u90e8\\u5c4b"));
    }
    assert_eq!(place.file_names("."), ["why.html"]);
    // A text is data, whatever it contains.
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>";
    place.run(&["explain", shared_model(), hostile, "--html", "why.html"]).assert_success();
    let page = place.read("why.html");
    assert!(!page.contains("</script><script>alert") && !page.contains("<img src=x"));
}

#[test]
fn long_and_unusual_texts_are_explained() {
    let place = TestDir::new();
    let long = "good but not cheap ".repeat(100);
    for text in [long.as_str(), "。", "🎉", "a", "\u{301}", "\u{1f3fb}\u{200d}", "a\r\n\tb", "[CLS] <0x41>"] {
        let run =
            place.run(&["explain", shared_model(), text, "--html", "why.html", "--json", "why.json"]).assert_success();
        if text != long {
            continue;
        }
        // Every word has an effect, including those after the first window.
        let value = place.json("why.json");
        let texts = |list: &serde_json::Value| -> Vec<String> {
            list.as_array().unwrap().iter().map(|word| word["text"].as_str().unwrap().to_owned()).collect()
        };
        let (read, beyond) = (texts(&value["words"]), texts(&value["attribution"]["beyond"]));
        assert!(read.len() > 50 && beyond.len() > 200);
        assert_eq!([&read[1..], &beyond].concat().join(" "), long.trim());
        let scores = value["attribution"]["beyond"].as_array().unwrap().iter().map(|word| &word["score"]);
        assert!(scores.clone().all(|score| score.as_f64().unwrap().is_finite()));
        assert!(scores.clone().any(|score| score.as_f64().unwrap() != 0.0));
        assert!(run.stdout.contains("of 400"), "{}", run.stdout);
    }
}

#[test]
fn pictures_are_written_or_a_letter_without_a_font_is_named() {
    let place = TestDir::new();
    let english = "The room was not clean.";
    let run = place.run(&["explain", shared_model(), english, "--svg", "a.svg", "--png", "a.png"]);
    if run.code == 2 && run.stderr.contains("no font is installed") {
        eprintln!("SKIPPED: no fonts are installed");
        return;
    }
    assert_eq!(run.code, 0, "{run:?}");
    let svg = place.read("a.svg");
    assert!(svg.starts_with("<svg") && !svg.contains("<text") && svg.contains("layer"), "{svg}");
    assert!(std::fs::read(place.path("a.png")).unwrap().starts_with(b"\x89PNG"));
    // The same bytes each time.
    place.run(&["explain", shared_model(), english, "--svg", "b.svg", "--png", "b.png"]).assert_success();
    assert_eq!(svg, place.read("b.svg"));
    assert_eq!(std::fs::read(place.path("a.png")).unwrap(), std::fs::read(place.path("b.png")).unwrap());
    let odd = place.run(&["explain", shared_model(), "room \u{10fffd} clean", "--png", "c.png"]);
    assert_eq!(odd.code, 2, "{odd:?}");
    assert!(odd.stderr.contains("U+10FFFD"), "{}", odd.stderr);
    assert!(!place.path("c.png").exists());
}

/// Numbers of a JSON array.
fn numbers(value: &serde_json::Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

#[test]
fn patching_moves_the_answer_to_that_of_the_other_text() {
    let place = TestDir::new();
    // Both words are tokens of their own.
    let (text, other) = ("The room was clean", "The room the clean");
    let args = ["explain", shared_model(), text, "--patch", other, "--html", "why.html", "--json", "why.json"];
    let shown = place.run(&args).assert_success().stdout;
    for words in ["Patching", "Residual stream", "Output of each head", "Feed-forward"] {
        assert!(shown.contains(words), "“{words}” is missing: {shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let value = place.json("why.json");
    let found = &value["patching"];
    let aligned = found["aligned"].as_array().unwrap().len();
    let (layers, heads) = (value["layers"].as_u64().unwrap() as usize, value["heads"].as_u64().unwrap() as usize);
    let residual = numbers(&found["residual"]);
    assert_eq!(residual.len(), (layers + 1) * aligned);
    assert_eq!(numbers(&found["heads"]).len(), layers * heads);
    assert_eq!(numbers(&found["feed_forward"]).len(), layers * aligned);
    // Before the first layer, the embedding of the changed token is the whole difference, and others change nothing.
    let tokens = ["tokens", "other_tokens"].map(|name| found[name].as_array().unwrap().clone());
    let changed: Vec<usize> = (0..aligned).filter(|&i| tokens[0][i] != tokens[1][i]).collect();
    assert_eq!(tokens[0].len(), value["pieces"].as_array().unwrap().len());
    assert!(!changed.is_empty() && changed.len() < aligned, "{changed:?}");
    for (i, x) in residual[..aligned].iter().enumerate().filter(|(i, _)| !changed.contains(i)) {
        assert!(x.abs() < 1e-3, "token {i}: {x}");
    }
    if let [i] = changed[..] {
        assert!((residual[i] - 1.0).abs() < 1e-3, "token {i}: {}", residual[i]);
    }
    // The unpatched answers are those of the network alone.
    let alone = place.run(&["explain", shared_model(), other, "--json", "-"]).assert_success().json();
    let answers = found["answers"].as_array().unwrap();
    for (answer, of) in answers.iter().zip([&value, &alone]) {
        let first = &of["parts"]["attention"][0];
        assert_eq!(answer["label"], first["label"]);
        let [a, b] = [answer, first].map(|one| one["probability"].as_f64().unwrap());
        assert!((a - b).abs() < 1e-4, "{a} and {b}");
    }
    assert!(place.read("why.html").contains("\"patching\":{"));
    // The text itself moves nothing, and texts of different lengths need an alignment.
    place.run_rejected(&["explain", shared_model(), text, "--patch", text], &["answers both texts alike"]);
    let longer = "The room was clean , but not the bath";
    let named = ["--align", "[CLS]", "Tokens of the other text"];
    place.run_rejected(&["explain", shared_model(), text, "--patch", longer], &named);
    place.run(&["explain", shared_model(), text, "--patch", longer, "--align", "1-3:1-3,4:4"]).assert_success();
    place.run_rejected(&["explain", shared_model(), text, "--patch", longer, "--align", "99:1"], &["99"]);
    let huge = "1-9999999999:1-9999999999";
    place.run_rejected(&["explain", shared_model(), text, "--patch", longer, "--align", huge], &[huge]);
    place.run_rejected(&["explain", shared_model(), text, "--patch", longer, "--align", "1-2:1-3"], &["1-2:1-3"]);
    place.run_rejected(&["explain", shared_model(), text, "--align", "1:1"], &["--patch"]);
    place.run_rejected(&["explain", shared_model(), text, "--patch", " "], &["--patch: the other text is empty"]);
}

#[test]
fn the_logit_lens_ends_with_the_answer_of_the_network() {
    let place = TestDir::new();
    let value = place.run(&["explain", shared_model(), TEXT, "--json", "-"]).assert_success().json();
    let depths = value["lens"]["depths"].as_array().unwrap();
    assert_eq!(depths.len(), value["layers"].as_u64().unwrap() as usize + 1);
    for depth in depths {
        let sum: f64 = numbers(&depth[0]["probabilities"]).iter().sum();
        assert!((sum - 1.0).abs() < 1e-4, "{depth}");
    }
    let last = &depths[depths.len() - 1][0];
    let own = &value["parts"]["attention"][0];
    assert_eq!(last["label"], own["label"]);
    let [a, b] = [last, own].map(|one| one["probability"].as_f64().unwrap());
    assert!((a - b).abs() < 1e-4, "{a} and {b}");
    assert_eq!(last["probability"], last["of_last"]);
    // The path of a token: as many lengths as tokens at each depth.
    let path = &value["residual_path"];
    let tokens = value["pieces"].as_array().unwrap().len();
    assert_eq!(path["ids"].as_array().unwrap().len(), tokens);
    assert_eq!(numbers(&path["residual"]).len(), depths.len() * tokens);
    let shown = place.run(&["explain", shared_model(), TEXT, "--lens"]).assert_success().stdout;
    assert!(shown.contains("logit lens") && shown.contains("emb."), "{shown}");
    let plain = place.run(&["explain", shared_model(), TEXT]).assert_success().stdout;
    assert!(!plain.contains("logit lens"));
}

/// Each label and each threshold of a number has one logit, so the answer whose logit is subtracted is left out.
#[test]
fn labels_and_numbers_are_patched() {
    let place = TestDir::new();
    let words = [["bad", "dirty", "rude", "slow"], ["good", "clean", "kind", "quick"]];
    let rows = |answer: fn(bool, bool) -> String| -> String {
        let row = |i: usize| {
            let (room, staff) = (!i.is_multiple_of(2), !i.is_multiple_of(3));
            let [a, b] = [words[usize::from(room)][i / 2 % 4], words[usize::from(staff)][i / 3 % 4]];
            format!("the room was {a} and the staff {b},{}\n", answer(room, staff))
        };
        (0..160).map(row).collect()
    };
    let stars = rows(|room, staff| (1 + 2 * usize::from(room) + 2 * usize::from(staff)).to_string());
    place.write("stars.csv", format!("text,stars\n{stars}"));
    let tags =
        rows(|room, staff| ["", "room", "staff", "room|staff"][usize::from(room) + 2 * usize::from(staff)].into());
    place.write("tags.csv", format!("text,labels\n{tags}"));
    let settings = "layers=2,heads=2,width=32,tokens=words,min-count=1";
    let (text, other) = ("the room was good and the staff rude", "the room was bad and the staff rude");
    for (model, flags) in [("stars", ["--task", "score"]), ("tags", ["--separator", "|"])] {
        let file = format!("{model}.csv");
        let train = ["train", &file, "--out", model, "--model", "transformer", "--settings", settings, "--epochs", "4"];
        place.run(&[&train[..], &flags].concat()).assert_success();
        let value = place.run(&["explain", model, text, "--patch", other, "--json", "-"]).assert_success().json();
        let alone = place.run(&["explain", model, other, "--json", "-"]).assert_success().json();
        let found = &value["patching"];
        assert!(found.get("away").is_none() && found["toward"] == value["label"], "{model}: {found}");
        let shown = place.run(&["explain", model, text, "--patch", other, "--lens"]).assert_success().stdout;
        let label = value["label"].as_str().unwrap();
        for words in [format!("Patching: the probability of “{label}”"), "The probability of".into()] {
            assert!(shown.contains(&words), "{model}: {words}: {shown}");
        }
        let tokens = found["tokens"].as_array().unwrap().len();
        let layers = value["layers"].as_u64().unwrap() as usize;
        let residual = numbers(&found["residual"]);
        assert_eq!(residual.len(), (layers + 1) * tokens, "{model}");
        assert_eq!(numbers(&found["feed_forward"]).len(), layers * tokens, "{model}");
        // The embedding of the changed word is the whole difference.
        for (i, x) in residual[..tokens].iter().enumerate() {
            let expected = f64::from(u8::from(found["tokens"][i] != found["other_tokens"][i]));
            assert!((x - expected).abs() < 1e-3, "{model}, token {i}: {x}");
        }
        assert_eq!(residual[..tokens].iter().filter(|x| **x > 0.5).count(), 1, "{model}");
        // The logits are those of the network's probability of the label, for both texts.
        let logits = numbers(&found["differences"]);
        for (k, of) in [&value, &alone].into_iter().enumerate() {
            assert_eq!(found["answers"][k]["label"], found["toward"], "{model}");
            let of_network = of["parts"]["attention"].as_array().unwrap();
            let own = of_network.iter().find(|one| one["label"] == found["toward"]).unwrap();
            let [p, own] = [&found["answers"][k], own].map(|one| one["probability"].as_f64().unwrap());
            assert!((p - own).abs() < 1e-4, "{model}: {p} and {own}");
            assert!((logits[k] - (p / (1.0 - p)).ln()).abs() < 1e-3, "{model}: {} and {p}", logits[k]);
        }
    }
}

#[test]
fn a_language_model_explains_what_it_writes() {
    let place = TestDir::new();
    place.train_language_model();
    let prompt = "to be or";
    let value = place.run(&["explain", "lm", prompt, "--generate", "3", "--json", "-"]).assert_success().json();
    // The most probable tokens, as `generate` writes them at temperature 0.
    let greedy = ["generate", "lm", prompt, "--max-tokens", "3", "--temperature", "0", "--json"];
    let written = place.run(&greedy).assert_success().json()["text"].as_str().unwrap().to_owned();
    assert!(!written.is_empty());
    assert_eq!(value["text"], format!("{prompt}{written}"));
    // The words of the prompt come first.
    let words: Vec<&str> =
        value["words"].as_array().unwrap().iter().map(|word| word["text"].as_str().unwrap()).collect();
    let own = value["prompt_words"].as_u64().unwrap() as usize;
    let joined = |words: &[&str]| words.concat().replace(char::is_whitespace, "");
    assert_eq!(joined(&words[1..own]), joined(&[prompt]), "{words:?}");
    assert_eq!(joined(&words[own..]), joined(&[written.as_str()]), "{words:?}");
    let without = place.run(&["explain", "lm", prompt, "--json", "-"]).assert_success().json();
    assert!(without.get("prompt_words").is_none() && without["text"] == prompt, "{without}");
    // The terminal tells the two parts of the text apart.
    let shown = place.run(&["explain", "lm", prompt, "--generate", "3"]).assert_success().stdout;
    for words in ["Prompt: “to be or”\n", "Written by the model: “", "The model wrote word"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    place.run_rejected(&["explain", shared_model(), TEXT, "--generate", "3"], &["--generate", "language models"]);
    place.run_rejected(&["explain", "lm", prompt, "--generate", "0"], &["--generate", "from 1, found 0"]);
}
