//! `embed` and `nearest`: vectors of a pretrained encoder, in every format, independent of the other texts.

use crate::common::TestDir;
use serde_json::{Value, json};

fn place() -> TestDir {
    TestDir::with_bert()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn numbers(line: &Value) -> Vec<f32> {
    line["embedding"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

const TEXTS: [&str; 4] = ["the film was good", "the foods was bad", "映画", "good"];

#[test]
fn every_format_holds_the_same_unit_vectors() {
    let place = place();
    let run = place.run(&[&["embed", "bert"], &TEXTS[..]].concat()).assert_success();
    let found = lines(&run.stdout);
    assert_eq!(found.iter().map(|line| line["text"].as_str().unwrap()).collect::<Vec<_>>(), TEXTS);
    let vectors: Vec<f32> = found.iter().flat_map(numbers).collect();
    assert_eq!(vectors.len(), 4 * 16);
    for vector in vectors.chunks(16) {
        assert!((vector.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
    }
    place.write("texts.txt", TEXTS.join("\n"));
    for name in ["x.npy", "x.safetensors", "x.jsonl"] {
        place.run(&["embed", "bert", "--input", "texts.txt", "--out", name]).assert_success();
    }
    assert_eq!(std::fs::read_to_string(place.path("x.jsonl")).unwrap(), run.stdout);
    let floats = |bytes: &[u8]| -> Vec<f32> {
        bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    };
    let npy = std::fs::read(place.path("x.npy")).unwrap();
    assert!(npy.starts_with(b"\x93NUMPY"));
    let header = String::from_utf8_lossy(&npy[..128]).into_owned();
    assert!(header.contains("'<f4'") && header.contains("(4,16,)"), "{header}");
    assert_eq!(floats(&npy[npy.len() - 4 * vectors.len()..]), vectors);
    let bytes = std::fs::read(place.path("x.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let tensor = tensors.tensor("embeddings").unwrap();
    assert_eq!((tensor.shape(), floats(tensor.data())), (&[4, 16][..], vectors));
}

#[test]
fn texts_are_independent_and_rows_keep_their_columns() {
    let place = place();
    let together = lines(&place.run(&[&["embed", "bert"], &TEXTS[..]].concat()).assert_success().stdout);
    for (text, together) in TEXTS.iter().zip(&together) {
        for threads in ["1", "2"] {
            let alone = place.run(&["embed", "bert", text, "--threads", threads]).assert_success();
            assert_eq!(lines(&alone.stdout), std::slice::from_ref(together));
        }
    }
    place.write("rows.csv", format!("id,text\n7,{}\n8,\n9,{}\n", TEXTS[0], TEXTS[1]));
    let rows = lines(&place.run(&["embed", "bert", "--input", "rows.csv"]).assert_success().stdout);
    assert_eq!(rows[0]["input"], json!({ "id": "7", "text": TEXTS[0] }));
    assert_eq!(rows[0]["embedding"], together[0]["embedding"]);
    assert_eq!((&rows[1]["embedding"], rows[1]["error"].is_string()), (&Value::Null, true));
    assert_eq!(rows[2]["embedding"], together[1]["embedding"]);
}

#[test]
fn pooling_and_prompts_follow_the_folder() {
    let place = place();
    let mean = numbers(&lines(&place.run(&["embed", "bert", "--no-normalize", TEXTS[0]]).assert_success().stdout)[0]);
    let transformer = json!({ "idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer" });
    let pooling = json!({ "idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling" });
    place.write("bert/modules.json", json!([transformer, pooling]).to_string());
    std::fs::create_dir(place.path("bert/1_Pooling")).unwrap();
    let pool = |modes: Value| place.write("bert/1_Pooling/config.json", modes.to_string());
    pool(json!({ "pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true }));
    let both = numbers(&lines(&place.run(&["embed", "bert", TEXTS[0]]).assert_success().stdout)[0]);
    assert_eq!(both[16..], mean[..]);
    pool(json!({ "pooling_mode_weightedmean_tokens": true }));
    let refused = place.run(&["embed", "bert", TEXTS[0]]);
    assert!(refused.code == 2 && refused.stderr.contains("weightedmean"), "{}", refused.stderr);
    pool(json!({ "pooling_mode": "mean" }));
    place.write("bert/config_sentence_transformers.json", json!({ "prompts": { "query": "the " } }).to_string());
    let prompted = numbers(
        &lines(&place.run(&["embed", "bert", "--prompt", "query", "film was good"]).assert_success().stdout)[0],
    );
    assert_eq!(prompted, mean);
    let refused = place.run(&["embed", "bert", "--prompt", "passage", "film"]);
    assert!(refused.code == 2 && refused.stderr.contains("query"), "{}", refused.stderr);
    place.write("bert/modules.json", json!([transformer, { "path": "../x", "type": "Pooling" }]).to_string());
    let refused = place.run(&["embed", "bert", "film"]);
    assert!(refused.code == 2 && refused.stderr.contains("../x"), "{}", refused.stderr);
}

#[test]
fn nearest_ranks_by_cosine() {
    let place = place();
    place.write("corpus.txt", TEXTS.join("\n"));
    let vectors = lines(&place.run(&[&["embed", "bert"], &TEXTS[..]].concat()).assert_success().stdout);
    let vectors: Vec<Vec<f32>> = vectors.iter().map(numbers).collect();
    let cosine = |row: usize| vectors[1].iter().zip(&vectors[row]).map(|(a, b)| f64::from(a * b)).sum::<f64>();
    let mut expected: Vec<usize> = (0..4).collect();
    expected.sort_by(|&a, &b| cosine(b).total_cmp(&cosine(a)));
    let run =
        place.run(&["nearest", "bert", "--corpus", "corpus.txt", TEXTS[1], "--top", "3", "--json"]).assert_success();
    let found = &lines(&run.stdout)[0];
    assert_eq!(found["query"], TEXTS[1]);
    let found = found["nearest"].as_array().unwrap();
    assert_eq!(found.len(), 3);
    for (found, &row) in found.iter().zip(&expected) {
        assert_eq!((&found["row"], &found["text"]), (&json!(row + 1), &json!(TEXTS[row])));
        assert!((found["score"].as_f64().unwrap() - cosine(row)).abs() < 1e-5);
    }
    let empty = place.run(&["nearest", "bert", "--corpus", "corpus.txt", TEXTS[1], " "]);
    assert!(empty.code == 2 && empty.stderr.contains("query 2 of 2 is empty"), "{}", empty.stderr);
    let plain = place.run(&["nearest", "bert", "--corpus", "corpus.txt", TEXTS[1], "--top", "1"]).assert_success();
    assert_eq!(plain.stdout, format!("1.0000\t2\t{}\n", TEXTS[1]));
}

#[test]
fn white_space_around_a_text_is_ignored() {
    let place = place();
    let [plain, spaced] = ["good film", " \u{3000}good film\n"]
        .map(|text| numbers(&lines(&place.run(&["embed", "bert", text]).assert_success().stdout)[0]));
    assert_eq!(plain, spaced);
}

#[test]
fn an_unwritable_output_is_reported_before_the_work() {
    let place = place();
    let run = place.run(&["embed", "missing", "good", "--out", "no/such/x.npy"]);
    assert!(run.code == 2 && run.stderr.contains("x.npy"), "{}", run.stderr);
}

#[test]
fn long_texts_are_truncated_with_a_message() {
    let place = place();
    let run = place.run(&["embed", "bert", &"good ".repeat(50)]).assert_success();
    assert!(run.stderr.contains("1 text truncated to the model's maximum of 20 tokens"), "{}", run.stderr);
    let within = place.run(&["embed", "bert", &"good ".repeat(18)]).assert_success();
    assert_eq!(lines(&run.stdout)[0]["embedding"], lines(&within.stdout)[0]["embedding"]);
    assert!(!within.stderr.contains("truncated"), "{}", within.stderr);
}

#[test]
fn other_models_are_referred_to_their_command() {
    let place = place();
    let run = place.run(&["predict", "bert", "film"]);
    assert!(run.code == 2 && run.stderr.contains("chumoku embed"), "{}", run.stderr);
    place.write("bert/vocab.txt", "[UNK]\n");
    let run = place.run(&["embed", "bert", "film"]);
    assert!(run.code == 2 && run.stderr.contains("[CLS]") && run.stderr.lines().count() == 1, "{}", run.stderr);
    std::fs::remove_file(place.path("bert/vocab.txt")).unwrap();
    place.write("bert/tokenizer_config.json", json!({ "tokenizer_class": "BertJapaneseTokenizer" }).to_string());
    let run = place.run(&["embed", "bert", "film"]);
    assert!(run.code == 2 && run.stderr.contains("MeCab"), "{}", run.stderr);
}

#[test]
fn classifiers_embed_texts_and_find_the_nearest() {
    let place = TestDir::new();
    place.train_small("model", &["--model", "transformer"]);
    let run = place.run(&["embed", "model", "good", "bad", "good"]).assert_success();
    let found: Vec<Vec<f32>> = lines(&run.stdout).iter().map(numbers).collect();
    assert!(run.stderr.contains("the input of the network's last layer"), "{}", run.stderr);
    assert_eq!(found[0], found[2]);
    assert_ne!(found[0], found[1]);
    for vector in &found {
        assert!((vector.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
    }
    // Without normalization, the vector has another length and the same direction.
    let plain = numbers(&lines(&place.run(&["embed", "model", "good", "--no-normalize"]).assert_success().stdout)[0]);
    let length = plain.iter().map(|x| x * x).sum::<f32>().sqrt();
    assert!((length - 1.0).abs() > 1e-3, "{length}");
    assert!(plain.iter().zip(&found[0]).all(|(x, unit)| (x / length - unit).abs() < 1e-5));
    // The nearest row of a text is the text itself.
    let text = "I would buy it again tomorrow.";
    place.write("corpus.txt", format!("Slow, cold and not worth the money.\n{text}\nA good film.\n"));
    let nearest = place.run(&["nearest", "model", text, "--corpus", "corpus.txt", "--top", "1", "--json"]);
    let nearest = nearest.assert_success().json();
    assert_eq!((&nearest["nearest"][0]["row"], &nearest["nearest"][0]["text"]), (&json!(2), &json!(text)));
    assert!((nearest["nearest"][0]["score"].as_f64().unwrap() - 1.0).abs() < 1e-5, "{nearest}");
    place.run_rejected(&["embed", "model", "good", "--prompt", "query"], &["query", "has no prompts"]);
    // A model without a network has no vectors.
    place.run(&["train", "reviews.csv", "--model", "ngrams", "--out", "ngrams"]).assert_success();
    let expected = ["pretrained encoder, a classifier with a network", "an n-gram model"];
    place.run_rejected(&["embed", "ngrams", "good"], &expected);
    place.run_rejected(&["nearest", "ngrams", "good", "--corpus", "corpus.txt"], &expected);
    let help = place.run(&["embed", "--help"]).assert_success().stdout;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("a classifier with a network or an autoencoder trained here"), "{help}");
}
