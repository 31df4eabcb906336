//! A published translator (Marian) on the command line: translation, scores, explanation, trace and counts.

use crate::common::TestDir;
use serde_json::{Value, json};
use std::path::Path;

/// A protobuf field with fewer than 128 bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, bytes.len() as u8][..], bytes].concat()
}

/// A tiny random translator with SentencePiece files and words as tokens: "t7" has id 7.
fn place() -> TestDir {
    let place = TestDir::new();
    std::fs::create_dir(place.path("marian")).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/pretrained/marian");
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(golden.join(file), place.path("marian").join(file)).unwrap();
    }
    let special = [("</s>".to_owned(), 0), ("<unk>".into(), 1), (">>fra<<".into(), 48), ("<pad>".into(), 49)];
    let words = || (2..48u32).map(|id| (format!("▁t{id}"), id));
    let vocabulary: serde_json::Map<String, Value> =
        special.into_iter().chain(words()).map(|(token, id)| (token, id.into())).collect();
    place.write("marian/vocab.json", Value::from(vocabulary).to_string());
    let piece = |text: &str, kind: u8| {
        field(1, &[&field(1, text.as_bytes())[..], &[21], &(-1f32).to_le_bytes(), &[24, kind]].concat())
    };
    let pieces: Vec<u8> =
        [piece("<unk>", 2)].into_iter().chain(words().map(|(text, _)| piece(&text, 1))).flatten().collect();
    place.write("marian/source.spm", &pieces);
    place.write("marian/target.spm", &pieces);
    place.write("marian/generation_config.json", json!({ "max_length": 16, "bad_words_ids": [[49]] }).to_string());
    place.write("pairs.tsv", "source\ttarget\nt5 t9\tt7\nt2 t3 t4\tt8 t8\nt30\tt31\n");
    place
}

#[test]
fn it_translates() {
    let place = place();
    let run = place.run(&["translate", "marian", "t5 t9 t30", ">>fra<< t5"]).assert_success();
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        assert!(line.split(' ').all(|word| word.starts_with('t') && word[1..].parse::<u32>().is_ok()), "{line}");
        assert!(line.split(' ').count() < 16, "{line}");
    }
    let args = ["translate", "marian", "t5 t9 t30", "--json", "--alignment", "--n-best", "2", "--beam", "4"];
    let answer = place.run(&args).assert_success().json();
    assert!(answer["score"].as_f64().unwrap() < 0.0);
    assert_eq!(answer["n_best"].as_array().unwrap().len(), 2);
    assert_eq!(answer["alignment"]["source"], json!(["▁t5", "▁t9", "▁t30", "</s>"]));
    assert_eq!(answer["alignment"]["layers"][0].as_array().unwrap().len(), 4);
    place.run(&["translate", "marian", "t5", "--precision", "medium"]).assert_success();
    let piped = place.run_with_input(b"t5 t9 t30\n\nt2\n", &["translate", "marian"]).assert_success();
    assert_eq!(piped.stdout.lines().count(), 4);
    assert_eq!(piped.stdout.lines().nth(1).unwrap().split('\t').nth(1), Some(lines[0]));
    // Long sources are truncated with a message.
    let long = vec!["t7"; 40].join(" ");
    let run = place.run(&["translate", "marian", &long]).assert_success();
    assert!(run.stderr.contains("19 tokens"), "{}", run.stderr);
}

#[test]
fn it_is_scored_explained_traced_and_counted() {
    let place = place();
    let scores = place.run(&["eval", "marian", "pairs.tsv", "--json"]).assert_success().json();
    assert_eq!(scores["pairs"], 3);
    assert!(place.run(&["eval", "marian", "pairs.tsv"]).assert_success().stdout.contains("BLEU"));
    place.run(&["explain", "marian", "t5 t9 t30", "--html", "page.html"]).assert_success();
    let page = place.read("page.html");
    assert!(page.contains("<html") && page.contains("t30"));
    let explained =
        place.run(&["explain", "marian", "t5 t9 t30", "--target", "t7 t8", "--json", "-"]).assert_success().json();
    let words: Vec<&str> =
        explained["source_words"].as_array().unwrap().iter().map(|word| word["text"].as_str().unwrap()).collect();
    assert_eq!(words, ["t5", "t9", "t30", "[END]"]);
    assert_eq!((explained["layers"].as_u64(), explained["heads"].as_u64()), (Some(1), Some(4)));
    let lens = explained["lens"]["depths"].as_array().unwrap();
    assert_eq!((lens.len(), lens[0].as_array().unwrap().len()), (2, 3));
    assert_eq!(explained["lens"]["tokens"][2], "[END]");
    let shown = place.run(&["explain", "marian", "t5 t9", "--lens"]).assert_success().stdout;
    assert!(shown.contains("logit lens"), "{shown}");
    for (part, head) in [("encoder", "2"), ("decoder", "4"), ("cross", "4")] {
        let args = ["trace", "--model", "marian", "--text", "t5 t9", "--part", part, "--layer", "1", "--head", head];
        assert!(place.run(&args).assert_success().stdout.contains("W_Q"), "{part}");
    }
    let args = ["trace", "--model", "marian", "--text", "t5 t9", "--part", "encoder", "--head", "3"];
    assert_eq!(place.run(&args).code, 2);
    let counted = place.run(&["count", "--model", "marian", "--json"]).assert_success().json();
    let numbers: usize = crate::common::tensors(&place.path("marian/model.safetensors"))
        .values()
        .map(|(shape, _)| shape.iter().product::<usize>())
        .sum();
    assert!(counted.to_string().contains(&format!(":{numbers},")), "{numbers}: {counted}");
    place.run(&["position", "--model", "marian", "--json", "-"]).assert_success();
}

#[test]
fn patching_moves_the_first_token_that_differs() {
    let place = place();
    let explained = |text: &str, args: &[&str]| {
        place.run(&[&["explain", "marian", text, "--json", "-"], args].concat()).assert_success().json()
    };
    let [text, other] = ["t5 t9 t30", "t5 t40 t30"];
    // The translation of the text is given; that of the other is the model's own.
    let given = ["--target", "t7 t8"];
    let [alone, of_other] = [explained(text, &given), explained(other, &[])];
    let found = explained(text, &[&given[..], &["--patch", other]].concat());
    let patching = &found["patching"];
    // The end of the source is read too, and the tokens of a source are its words.
    assert_eq!(patching["tokens"], json!(["▁t5", "▁t9", "▁t30", "[END]"]));
    let numbers =
        |name: &str| -> Vec<f64> { patching[name].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect() };
    let position = &patching["position"]["token"];
    let index = position["index"].as_u64().unwrap() as usize;
    let words = |value: &Value| -> Vec<String> {
        value["target_words"].as_array().unwrap().iter().map(|word| word["text"].as_str().unwrap().into()).collect()
    };
    let [written, of_other] = [&alone, &of_other].map(words);
    assert_eq!(written[..index], of_other[..index]);
    assert_eq!(position["after"], written[..index].join(" "));
    for (side, words) in [&written, &of_other].into_iter().enumerate() {
        let label = patching["answers"][side]["label"].as_str().unwrap();
        assert_eq!(label.trim_start_matches('▁'), words[index]);
    }
    assert_ne!(written[index], of_other[index]);
    let p = alone["log_probabilities"][index].as_f64().unwrap().exp();
    assert!((patching["answers"][0]["probability"].as_f64().unwrap() - p).abs() < 1e-4, "{patching}");
    // The changed token is the whole difference before the first layer of the encoder.
    let residual = numbers("residual");
    for (i, x) in residual[..4].iter().enumerate() {
        assert!((x - if i == 1 { 1.0 } else { 0.0 }).abs() < 1e-3, "token {i}: {x}");
    }
    // The encoder has two layers, the decoder one.
    assert_eq!((residual.len(), numbers("feed_forward").len()), (12, 8));
    assert!(numbers("heads").iter().any(|x| x.abs() > 1e-4), "{patching}");
    // The decoder reads the same tokens for both texts, so that their embeddings move nothing. After its last layer, the
    // last token alone is read.
    let decoder = &patching["decoder"];
    let numbers =
        |name: &str| -> Vec<f64> { decoder[name].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect() };
    let tokens = decoder["tokens"].as_array().unwrap().len();
    assert_eq!((tokens, decoder["tokens"][0].as_str()), (index + 1, Some("[START]")));
    let residual = numbers("residual");
    assert_eq!(residual.len(), 2 * tokens);
    for (i, x) in residual.iter().enumerate() {
        assert!((x - if i == residual.len() - 1 { 1.0 } else { 0.0 }).abs() < 1e-2, "{decoder}");
    }
    let cross = numbers("cross_heads");
    assert_eq!((numbers("heads").len(), cross.len(), numbers("feed_forward").len()), (4, 4, tokens));
    // In the only layer, self-attention has not read the source.
    assert!(numbers("heads").iter().all(|x| x.abs() < 1e-2) && cross.iter().any(|x| x.abs() > 1e-2), "{decoder}");
    let args = [&["explain", "marian", text, "--patch", other, "--html", "why.html"], &given[..]].concat();
    let shown = place.run(&args).assert_success().stdout;
    assert!(shown.contains("Patching: from ") && shown.contains("Encoder and decoder are"), "{shown}");
    assert!(shown.contains("Output of each head of cross-attention"), "{shown}");
    let page = place.read("why.html");
    assert!(page.contains("\"patching\":{") && page.contains("\"cross_heads\":["));
    place.run_rejected(&["explain", "marian", text, "--patch", text], &["both texts get the same translation"]);
    // The target is given, so that it is not what the model writes for the text.
    let target = of_other[..of_other.len() - 1].join(" ");
    let same = ["explain", "marian", text, "--patch", other, "--target", &target];
    place.run_rejected(&same, &["translates the other text as the given translation"]);
    place.run_rejected(&[&["--lang", "ja"], &same[..]].concat(), &["指定した訳文"]);
    place.run_rejected(&["explain", "marian", text, "--patch", "t5 t9"], &["--align 1-2:1-2,4:3"]);
    explained(text, &[&["--patch", "t40 t41", "--align", "1:1,4:3"], &given[..]].concat());
}

#[test]
fn unsupported_commands_are_reported() {
    let place = place();
    place.run_rejected(&["generate", "marian", "t5"], &["a translator", "chumoku translate"]);
    place.run_rejected(&["embed", "marian", "t5"], &["marian"]);
    place.run_rejected(&["train", "pairs.tsv", "--from", "marian", "--out", "new"], &["--from"]);
    std::fs::remove_file(place.path("marian/target.spm")).unwrap();
    place.run_rejected(&["translate", "marian", "t5"], &["target.spm", "tokenizer.json"]);
    let japanese = place.run(&["--lang", "ja", "translate", "marian", "t5"]);
    assert!(japanese.stderr.contains("このファイルがありません"), "{}", japanese.stderr);
}
