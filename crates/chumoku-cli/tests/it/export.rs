//! `export`: ONNX files have a valid structure, and onnxruntime computes the network's logits.
//!
//! `CHUMOKU_PYTHON` names a Python with `onnxruntime` and `numpy`; without it, the second test is skipped with a
//! message.

use crate::common::{TestDir, csv, next_random, reviews};
use chumoku::models::Classifier;
use chumoku::nn::Offsets;
use chumoku::{Precision, TextClassifier};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// A field of a protobuf message.
#[derive(Clone, Debug)]
enum ProtoField<'a> {
    Int(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message by number.
struct ProtoMessage<'a>(BTreeMap<u64, Vec<ProtoField<'a>>>);

fn varint(bytes: &mut &[u8]) -> u64 {
    let end = bytes.iter().position(|byte| byte & 0x80 == 0).expect("a whole number ends");
    let value = bytes[..=end].iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f));
    *bytes = &bytes[end + 1..];
    value
}

impl<'a> ProtoMessage<'a> {
    fn parse(mut bytes: &'a [u8]) -> Self {
        let mut fields: BTreeMap<u64, Vec<ProtoField<'a>>> = BTreeMap::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let field = match key & 7 {
                0 => ProtoField::Int(varint(&mut bytes)),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    let (value, rest) = bytes.split_at(length);
                    bytes = rest;
                    ProtoField::Bytes(value)
                }
                5 => {
                    let (value, rest) = bytes.split_at(4);
                    bytes = rest;
                    ProtoField::Bytes(value)
                }
                other => panic!("a field of kind {other}"),
            };
            fields.entry(key >> 3).or_default().push(field);
        }
        ProtoMessage(fields)
    }

    fn ints(&self, field: u64) -> Vec<u64> {
        let fields = self.0.get(&field).into_iter().flatten();
        fields.map(|value| if let ProtoField::Int(value) = value { *value } else { panic!("field {field}") }).collect()
    }

    fn all(&self, field: u64) -> Vec<&'a [u8]> {
        let fields = self.0.get(&field).into_iter().flatten();
        fields
            .map(|value| if let ProtoField::Bytes(value) = value { *value } else { panic!("field {field}") })
            .collect()
    }

    fn messages(&self, field: u64) -> Vec<ProtoMessage<'a>> {
        self.all(field).into_iter().map(ProtoMessage::parse).collect()
    }

    fn strings(&self, field: u64) -> Vec<&'a str> {
        self.all(field).into_iter().map(|bytes| std::str::from_utf8(bytes).unwrap()).collect()
    }
}

/// Texts with one label or two, the second below a third.
fn tagged(second: &str) -> String {
    let tagged = |i: usize| {
        let labels = ["food".to_owned(), format!("food|{second}")];
        format!("{} no {i}\t{}\n", ["soup", "bill"][i % 2], labels[i % 2])
    };
    format!("text\tlabels\n{}", (0..60).map(tagged).collect::<String>())
}

/// The operator that computes an output of a file.
fn maker_of(place: &TestDir, file: &str, output: &str) -> String {
    let bytes = std::fs::read(place.path(file)).unwrap();
    let nodes = ProtoMessage::parse(&bytes).messages(7)[0].messages(1);
    let mut expected = output;
    loop {
        let node = nodes.iter().find(|node| node.strings(2).contains(&expected)).unwrap();
        match node.strings(4)[0] {
            "Identity" => expected = node.strings(1)[0],
            operator => return operator.to_owned(),
        }
    }
}

/// Trains a small model of every network and a multi-label one, and adds published ones.
fn place() -> TestDir {
    let place = TestDir::new();
    place.write("reviews.csv", csv(&reviews(60)));
    let train = |args: &[&str]| place.run(&[&["train", "--epochs", "1"][..], args].concat()).assert_success();
    train(&["reviews.csv", "--out", "transformer"]);
    for network in ["rnn", "lstm", "gru"] {
        train(&["reviews.csv", "--out", network, "--model", network]);
    }
    place.write("tagged.tsv", tagged("price"));
    train(&["tagged.tsv", "--separator", "|", "--out", "labels"]);
    place.write("tree.tsv", tagged("cost/price/high"));
    train(&["tree.tsv", "--separator", "|", "--hierarchy", "/", "--out", "tree"]);
    let pair = |i: usize| format!("soup no {i},{},{}\n", ["a soup", "a bill"][i % 2], ["yes", "no"][i % 2]);
    place.write("pairs.csv", format!("premise,hypothesis,label\n{}", (0..60).map(pair).collect::<String>()));
    train(&["pairs.csv", "--out", "pairs"]);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/pretrained");
    for name in ["bert_classifier", "distilbert_classifier", "roberta_classifier", "modernbert_classifier"] {
        std::fs::create_dir(place.path(name)).unwrap();
        for file in ["config.json", "model.safetensors"] {
            std::fs::copy(golden.join(name).join(file), place.path(name).join(file)).unwrap();
        }
        let special = match name {
            "roberta_classifier" => ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"],
            _ => ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        };
        place.write(&format!("{name}/vocab.txt"), special.join("\n") + "\ngood\nbad\n");
    }
    place
}

#[test]
fn class_probabilities_sum_to_one_and_labels_are_independent() {
    let place = TestDir::new();
    let _ = place.train_small("model", &[]);
    place.write("tagged.tsv", tagged("price"));
    place.write("tree.tsv", tagged("cost/price"));
    for (file, out) in [("tagged.tsv", "labels"), ("tree.tsv", "tree")] {
        let tree = if out == "tree" { &["--hierarchy", "/"][..] } else { &[] };
        place
            .run(&[&["train", "--epochs", "1", file, "--separator", "|", "--out", out][..], tree].concat())
            .assert_success();
    }
    for (folder, operator) in [("model", "Softmax"), ("labels", "Sigmoid"), ("tree", "Min")] {
        let file = format!("{folder}.onnx");
        place.run(&["export", folder, "--out", &file]).assert_success();
        assert_eq!(maker_of(&place, &file, "probabilities"), operator);
    }
}

#[test]
fn a_file_has_the_structure_of_onnx() {
    let place = TestDir::new();
    let _ = place.train_small("model", &[]);
    let run = place.run(&["export", "model", "--out", "m.onnx", "--json"]).assert_success();
    assert!(run.stderr.contains("left out  the n-gram model"), "{run:#?}");
    let about = run.json();
    assert_eq!(about["lacks_ngrams"], true);
    let bytes = std::fs::read(place.path("m.onnx")).unwrap();
    assert_eq!(about["bytes"], bytes.len());
    let model = ProtoMessage::parse(&bytes);
    assert_eq!((model.ints(1), model.strings(2)), (vec![8], vec!["chumoku"]));
    let version = &model.messages(8)[0];
    assert_eq!((version.strings(1), version.ints(2)), (vec![""], vec![17]));
    let metadata: BTreeMap<&str, &str> =
        model.messages(14).iter().map(|entry| (entry.strings(1)[0], entry.strings(2)[0])).collect();
    assert_eq!(metadata["labels"], "[\"negative\",\"positive\"]");
    assert!(metadata["ngrams"].starts_with("left out") && metadata["probabilities"].contains("network alone"));
    let graph = &model.messages(7)[0];
    let names = |field: u64| graph.messages(field).iter().map(|value| value.strings(1)[0]).collect::<Vec<_>>();
    assert_eq!(names(11), ["input_ids", "attention_mask"]);
    assert_eq!(names(12), ["logits", "probabilities"]);
    // Every array has as many bytes as its shape says, and every input was defined before.
    let mut known: Vec<&str> = vec!["input_ids", "attention_mask"];
    let mut used: Vec<&str> = Vec::new();
    for tensor in graph.messages(5) {
        let size = if tensor.ints(2) == [7] { 8 } else { 4 };
        let name = tensor.strings(8)[0];
        let numbers: u64 = tensor.ints(1).iter().product();
        assert_eq!(tensor.all(9)[0].len() as u64, numbers * size, "{name}");
        assert!(!known.contains(&name), "{name} twice");
        known.push(name);
    }
    let given = known.clone();
    for node in graph.messages(1) {
        for input in node.strings(1) {
            assert!(known.contains(&input), "{input} comes from nowhere");
            used.push(input);
        }
        known.extend(node.strings(2));
    }
    assert!(given.iter().all(|name| used.contains(name)), "what is given and not used");
    assert!(known.contains(&"logits") && known.contains(&"probabilities"));
}

#[test]
fn models_other_than_classifiers_are_rejected() {
    let place = TestDir::new();
    place.write("reviews.csv", csv(&reviews(60)));
    place.run(&["train", "reviews.csv", "--out", "ngrams", "--model", "ngrams"]).assert_success();
    place.run_rejected(&["export", "ngrams"], &["ngrams", "an n-gram model", "--model transformer"]);
    place.run_rejected(&["export", "nothing"], &["nothing"]);
    assert!(!place.path("model.onnx").exists());
}

/// Runs a list of files, each with rows of ids; prints their logits and probabilities.
const PYTHON: &str = r#"
import json, sys
import numpy as np
import onnxruntime

for task in json.load(open(sys.argv[1])):
    session = onnxruntime.InferenceSession(task["file"], providers=["CPUExecutionProvider"])
    longest = max(map(len, task["rows"]))
    ids = np.full((len(task["rows"]), longest), 1, np.int64)
    mask = np.zeros_like(ids)
    for row, tokens in enumerate(task["rows"]):
        ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
    logits, probabilities = session.run(None, {"input_ids": ids, "attention_mask": mask})
    metadata = session.get_modelmeta().custom_metadata_map
    print(json.dumps({"logits": logits.tolist(), "probabilities": probabilities.tolist(), "metadata": metadata}))
"#;

/// A copy of the transformer's folder with other settings of the same shapes.
fn variant(place: &TestDir, name: &str, settings: &Value) {
    place.copy_folder(&place.path("transformer"), name);
    let mut config = place.json(&format!("{name}/config.json"));
    for (key, value) in settings.as_object().unwrap() {
        config[key] = value.clone();
    }
    place.write(&format!("{name}/config.json"), config.to_string());
}

#[test]
fn onnxruntime_computes_the_same_as_the_network() {
    let Some(python) = testkit::python("numpy, onnxruntime") else { return };
    let place = place();
    let mut folders: Vec<String> =
        ["transformer", "rnn", "lstm", "gru", "labels", "tree", "pairs"].map(str::to_owned).to_vec();
    folders.extend(["bert", "distilbert", "roberta", "modernbert"].map(|name| format!("{name}_classifier")));
    let variants = [
        json!({ "position": "rotary", "pooling": "max" }),
        json!({ "position": "alibi", "activation": "relu", "pooling": "first" }),
        json!({ "position": "none", "causal": true, "activation": "gelu_tanh" }),
        json!({ "position": "rotary", "attention_window": 2, "activation": "silu", "beta": 0.3 }),
    ];
    for (number, settings) in variants.iter().enumerate() {
        let name = format!("variant-{number}");
        variant(&place, &name, settings);
        folders.push(name);
    }
    let (mut tasks, mut expected) = (Vec::new(), Vec::new());
    for folder in &folders {
        let file = format!("{folder}.onnx");
        place.run(&["export", folder, "--out", &file]).assert_success();
        let mut model = TextClassifier::load(&place.path(folder)).unwrap();
        model.set_precision(Precision::Highest);
        let config = &model.config().model;
        let mut state = 7;
        let mut row = |length: usize| -> Vec<u32> {
            (0..length.min(config.max_length))
                .map(|_| (next_random(&mut state) * config.vocab_size as f64) as u32)
                .collect()
        };
        let mut rows: Vec<Vec<u32>> = [9, 1, 30, 4].into_iter().map(&mut row).collect();
        if let Some(separator) = config.embeddings.separator {
            // Two rows have a second text, with the other segment id.
            (rows[0][3], rows[2][11], rows[2][20]) = (separator, separator, separator);
        }
        assert_eq!(config.embeddings.separator.is_some(), folder == "pairs");
        let offsets = Offsets::from_lengths(rows.iter().map(Vec::len));
        let network = Classifier::new(config.clone()).unwrap();
        expected.push(network.logits(model.params(), &rows.concat(), &offsets).unwrap());
        tasks.push(json!({ "file": file, "rows": rows }));
    }
    place.write("tasks.json", Value::from(tasks).to_string());
    place.write("run.py", PYTHON);
    let output = Command::new(python).args(["run.py", "tasks.json"]).current_dir(place.path("")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answers: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), folders.len());
    for ((folder, expected), answer) in folders.iter().zip(&expected).zip(&answers) {
        let matrix = |key: &str| -> Vec<Vec<f64>> { serde_json::from_value(answer[key].clone()).unwrap() };
        let (logits, probabilities) = (matrix("logits"), matrix("probabilities"));
        assert_eq!((logits.len(), logits[0].len()), expected.dim(), "{folder}");
        for (row, found) in logits.iter().enumerate() {
            for (class, found) in found.iter().enumerate() {
                let expected = f64::from(expected[[row, class]]);
                assert!((found - expected).abs() < 1e-4, "{folder}, row {row}: {found} for {expected}");
            }
            let sum: f64 = probabilities[row].iter().sum();
            assert!((sum - 1.0).abs() < 1e-5 || ["labels", "tree"].contains(&&**folder), "{folder}: {probabilities:?}");
            if folder == "tree" {
                // cost, cost/price, cost/price/high, food: the minimum of each label's own probability and those of its
                // parents.
                let own: Vec<f64> = found.iter().map(|z| 1.0 / (1.0 + (-z).exp())).collect();
                let least = [own[0], own[0].min(own[1]), own[0].min(own[1]).min(own[2]), own[3]];
                assert!(least.iter().zip(&probabilities[row]).all(|(a, b)| (a - b).abs() < 1e-6), "{own:?}");
            }
        }
        let spread = expected.iter().fold(0.0f32, |most, x| most.max((x - expected[[0, 0]]).abs()));
        assert!(spread > 1e-3, "{folder}: logits that differ too little to tell anything");
    }
}
