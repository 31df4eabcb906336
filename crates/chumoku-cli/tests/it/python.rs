//! Compares model folders with Python. Hugging Face's `tokenizers` must read the same tokens. `examples/recompute.py`,
//! which was written from `docs/model-folder.md` alone, must compute the same results.
//!
//! `CHUMOKU_PYTHON` names a Python with `numpy` and `tokenizers`; without it, these tests are skipped with a message.

use crate::common::{TestDir, csv, reviews};
use chumoku::text::TextTokenizer;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The Python to use, if there is one.
fn python() -> Option<PathBuf> {
    testkit::python("numpy, tokenizers").map(PathBuf::from)
}

fn ask(python: &Path, place: &TestDir, args: &[&str]) -> Vec<Value> {
    let mut command = Command::new(python);
    let output = command.args(args).current_dir(place.path("")).env("PYTHONIOENCODING", "utf-8").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn recompute(python: &Path, place: &TestDir, model: &str, texts: &[&str]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/recompute.py");
    let found = ask(python, place, &[&[script.to_str().unwrap(), model][..], texts].concat());
    assert_eq!(found.len(), texts.len());
    found
}

/// A small model of every kind and network, and of every kind of token. Matrix products use full precision, as Python's
/// do.
fn trained() -> &'static TestDir {
    static PLACE: OnceLock<TestDir> = OnceLock::new();
    PLACE.get_or_init(|| {
        let place = TestDir::shared_by_file("python");
        let train = |args: &str| {
            let args: Vec<&str> = args.split(' ').chain(["--precision", "highest", "--epochs", "1"]).collect();
            place.run(&[&["train"][..], &args[..]].concat()).assert_success();
        };
        place.write("reviews.csv", csv(&reviews(160)));
        for network in ["transformer", "rnn", "lstm", "gru"] {
            train(&format!("reviews.csv --out {network} --model {network}"));
        }
        place.run(&["train", "reviews.csv", "--out", "ngrams", "--model", "ngrams"]).assert_success();
        let three: Vec<(String, String)> =
            reviews(90).into_iter().zip(0..).map(|((text, _), i)| (text, format!("class {}", i % 3))).collect();
        place.write("three.csv", csv(&three));
        train("three.csv --out three");
        let tagged = |i: usize| {
            format!(
                "{} number {i}\t{}\n",
                ["soup", "bill", "soup and bill"][i % 3],
                ["food", "price", "food|price"][i % 3]
            )
        };
        place.write("tagged.tsv", format!("text\tlabels\n{}", (0..90).map(tagged).collect::<String>()));
        train("tagged.tsv --separator | --out labels");
        let of_ngrams = "train tagged.tsv --separator | --model ngrams --out labels-by-ngrams";
        place.run(&of_ngrams.split(' ').collect::<Vec<_>>()).assert_success();
        let book = "the cat saw a dog.\nmy friend, the old man, never met the 12 cats.\n".repeat(60);
        place.write("book.txt", &book);
        for tokens in ["characters", "subwords", "words"] {
            train(&format!("reviews.csv --tokens {tokens} --out of-{tokens}"));
            train(&format!("book.txt --task lm --tokens {tokens} --out lm-{tokens}"));
        }
        // Languages with similar scripts share a vocabulary, others have one each.
        let dates = |i: usize| {
            (format!("{} May {}", 1 + i % 28, 1990 + i % 40), format!("{}-05-{:02}", 1990 + i % 40, 1 + i % 28))
        };
        let joint: String = (0..80).map(dates).map(|(a, b)| format!("{a}\t{b}\n")).collect();
        place.write("joint.tsv", format!("en\tiso\n{joint}"));
        train("joint.tsv --task translate --out joint");
        let people = ["猫", "犬", "友人", "先生"];
        let apart =
            |i: usize| format!("{}は{}を見た。\tthe {} saw {} cats.\n", people[i % 4], people[i / 4 % 4], i % 7, i % 5);
        place.write("apart.tsv", format!("ja\ten\n{}", (0..80).map(apart).collect::<String>()));
        for tokens in ["characters", "subwords"] {
            train(&format!("apart.tsv --task translate --tokens {tokens} --out apart-{tokens}"));
        }
        place
    })
}

const TEXTS: [&str; 9] = [
    "What a fine day, isn't it?",
    "この店の料理は、とても美味しかった！ 2度目です。",
    "Don't go there — it’s “awful”, really… №5 ½ ＡＢＣ ｶﾞ",
    "mixed 日本語 and English 100%!",
    "a\u{301} e\u{301} 👨‍👩‍👧 🎉",
    " the cat\n saw \r\n\t a dog. ",
    "very good, not bad. very slow and cold indeed! ",
    "[CLS] [UNK] <0x41>",
    "ไทย ພາສາ የአማርኛ العربية",
];

#[test]
fn the_python_package_reads_the_same_tokens() {
    let Some(python) = python() else { return };
    let place = trained();
    const SCRIPT: &str = "
import json, sys, tokenizers
for path in sys.argv[2:]:
    tokenizer = tokenizers.Tokenizer.from_file(path)
    tokenizer.encode_special_tokens = True
    for text in json.loads(sys.argv[1]):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        print(json.dumps([path, text, ids, tokenizer.encode(text).ids, tokenizer.decode(ids)]))
";
    let mut files = Vec::new();
    let mut regexes = 0;
    for folder in place.file_names("").iter().filter(|name| place.path(name).is_dir()) {
        for name in ["tokenizer.json", "source_tokenizer.json"] {
            let file = format!("{folder}/{name}");
            if place.path(&file).exists() {
                regexes += place.read(&file).matches("\"Regex\"").count();
                files.push(file);
            }
        }
    }
    // Nine classifiers, three language models, and three translators; two translators have two tokenizers.
    assert_eq!(files.len(), 17, "{files:?}");
    assert!(regexes >= files.len());
    let texts = json!(TEXTS).to_string();
    let names: Vec<&str> = files.iter().map(String::as_str).collect();
    let answers = ask(&python, place, &[&["-c", SCRIPT, &texts][..], &names[..]].concat());
    assert_eq!(answers.len(), files.len() * TEXTS.len());
    for answer in answers {
        let [file, text] = [0, 1].map(|i| answer[i].as_str().unwrap());
        let ids = |i: usize| -> Vec<u32> { serde_json::from_value(answer[i].clone()).unwrap() };
        let tokenizer = TextTokenizer::read(&place.path(file)).unwrap();
        let ours = tokenizer.encode(text).unwrap().ids;
        assert_eq!(ids(2), ours, "{file}: {text:?}");
        // With special tokens, as the model reads them: a translator's source and target end with [CLS].
        let cls = [tokenizer.cls_id()];
        let is_translator = file.starts_with("joint") || file.starts_with("apart");
        let fed = if is_translator { [&ours[..], &cls].concat() } else { [&cls[..], &ours].concat() };
        assert_eq!(ids(3), fed, "{file}: {text:?}");
        assert_eq!(answer[4].as_str().unwrap(), tokenizer.decode(&ours).unwrap(), "{file}: {text:?}");
    }
}

/// The largest difference between `predict` and the script over some texts.
fn difference(python: &Path, place: &TestDir, model: &str, texts: &[&str]) -> f64 {
    let found = recompute(python, place, model, texts);
    let output = place.run(&[&["predict", model, "--json"][..], texts].concat()).assert_success().json_lines();
    assert_eq!(output.len(), found.len());
    let apart = output.iter().zip(&found).map(|(output, found)| {
        let label = output["label"].as_str().unwrap();
        (output["probability"].as_f64().unwrap() - found["probabilities"][label].as_f64().unwrap()).abs()
    });
    apart.fold(0.0, f64::max)
}

#[test]
fn classifiers_are_recomputed() {
    let Some(python) = python() else { return };
    let place = trained();
    // Longer than the model's windows.
    let long = "It was good, but the food was cold. ".repeat(40);
    let texts = [&TEXTS[..], &[&long, "x"]].concat();
    for model in ["transformer", "rnn", "lstm", "gru", "three", "of-characters", "of-subwords", "of-words", "ngrams"] {
        let apart = difference(&python, place, model, &texts);
        assert!(apart < 1e-5, "{model}: {apart:e}");
    }
}

#[test]
fn labels_are_recomputed() {
    let Some(python) = python() else { return };
    let place = trained();
    let texts = [&TEXTS[..], &["the soup and the bill", "the soup"]].concat();
    for model in ["labels", "labels-by-ngrams"] {
        labels_are_recomputed_of(model, &python, place, &texts);
    }
}

fn labels_are_recomputed_of(model: &str, python: &Path, place: &TestDir, texts: &[&str]) {
    let found = recompute(python, place, model, texts);
    let all =
        place.run(&[&["predict", model, "--json", "--top", "2"][..], texts].concat()).assert_success().json_lines();
    let output = place.run(&[&["predict", model, "--json"][..], texts].concat()).assert_success().json_lines();
    let named = |labels: &Value| -> Vec<String> {
        let name = |label: &Value| label["label"].as_str().or(label.as_str()).unwrap().to_owned();
        let mut names: Vec<String> = labels.as_array().unwrap().iter().map(name).collect();
        names.sort();
        names
    };
    for ((all, output), found) in all.iter().zip(&output).zip(&found) {
        for label in all["labels"].as_array().unwrap() {
            let name = label["label"].as_str().unwrap();
            let apart = label["probability"].as_f64().unwrap() - found["probabilities"][name].as_f64().unwrap();
            assert!(apart.abs() < 1e-5, "{name}: {apart:e}");
        }
        assert_eq!(named(&output["labels"]), named(&found["labels"]), "{output}");
    }
    assert_eq!(named(&output[texts.len() - 2]["labels"]), ["food", "price"]);
}

/// Tensors of f32 by name: shape, bytes.
type Tensors = BTreeMap<String, (Vec<usize>, Vec<u8>)>;

/// A copy of a model with some settings changed and its tensors edited.
fn variant(model: &str, settings: &Value, edit: impl FnOnce(&mut Tensors)) -> TestDir {
    let place = TestDir::new();
    place.copy_folder(&trained().path(model), "model");
    let mut config = place.json("model/config.json");
    config.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    place.write("model/config.json", config.to_string());
    let bytes = std::fs::read(place.path("model/model.safetensors")).unwrap();
    let read = SafeTensors::deserialize(&bytes).unwrap();
    let is_float = |view: &TensorView<'_>| view.dtype() == Dtype::F32;
    let mut tensors: Tensors = read
        .tensors()
        .into_iter()
        .filter(|(_, view)| is_float(view))
        .map(|(name, view)| (name, (view.shape().to_vec(), view.data().to_vec())))
        .collect();
    edit(&mut tensors);
    // The file has no tensors for a part that a setting removes.
    let without_last_norm = settings.get("norm_order").is_some_and(|order| order == "post");
    let without_ngrams = settings.get("ngrams").is_some_and(Value::is_null);
    let stays = |name: &str| {
        let is_last_norm = ["encoder.norm.", "decoder.norm."].iter().any(|norm| name.starts_with(norm));
        !(without_last_norm && is_last_norm || without_ngrams && name.starts_with("ngrams."))
    };
    tensors.retain(|name, _| stays(name));
    let floats = tensors
        .iter()
        .map(|(name, (shape, data))| (name.clone(), TensorView::new(Dtype::F32, shape.clone(), data).unwrap()));
    let others = read.tensors().into_iter().filter(|(name, view)| !is_float(view) && stays(name));
    let all: Vec<_> = floats.chain(others).collect();
    std::fs::write(place.path("model/model.safetensors"), safetensors::serialize(all, None).unwrap()).unwrap();
    place
}

#[test]
fn every_network_setting_matches_the_documentation() {
    let Some(python) = python() else { return };
    let texts = &TEXTS[..4];
    let probability = |place: &TestDir, model: &str| {
        let output = place.run(&["predict", model, "--json", texts[0]]).assert_success().json();
        output["probability"].as_f64().unwrap()
    };
    // Uses the network alone, so the effect of a setting is visible.
    let alone = json!({ "blend": { "attention": 3.0, "ngrams": 0.0 } });
    let as_it_is = probability(&variant("transformer", &alone, |_| ()), "model");
    let check = |settings: Value, edit: fn(&mut Tensors)| {
        let mut all = alone.clone();
        all.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        let place = variant("transformer", &all, edit);
        let apart = difference(&python, &place, "model", texts);
        assert!(apart < 1e-5, "{settings}: {apart:e}");
        assert_ne!(probability(&place, "model"), as_it_is, "{settings} changes nothing");
    };
    for settings in [
        json!({ "norm_order": "post" }),
        json!({ "position": "rotary" }),
        json!({ "position": "rotary", "rotary_base": 500.0 }),
        json!({ "position": "alibi" }),
        json!({ "position": "alibi", "num_heads": 1 }),
        json!({ "position": "none" }),
        json!({ "pooling": "max" }),
        json!({ "pooling": "first" }),
        json!({ "pooling": "mean_sqrt_length" }),
        json!({ "activation": "relu" }),
        json!({ "causal": true }),
        json!({ "attention_window": 2 }),
        json!({ "attention_window": 2, "causal": true }),
        json!({ "beta": 0.9 }),
        json!({ "hard_attention": true }),
        json!({ "max_length": 6 }),
        json!({ "ngrams": null, "blend": { "attention": 0.5, "ngrams": 0.0 } }),
    ] {
        check(settings, |_| ());
    }
    check(json!({ "num_key_heads": 2 }), |tensors| {
        for (name, (shape, data)) in tensors {
            if name.contains("in_proj") {
                // Queries, keys and values have d rows each; keys and values are cut to half of theirs.
                let rows = shape[0];
                data.truncate(data.len() / rows * (rows / 3 * 2));
                shape[0] = rows / 3 * 2;
            }
        }
    });
    check(json!({ "train_beta": true }), |tensors| {
        for layer in 0..2 {
            let beta = [0.5f32, 1.0, 2.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
            tensors.insert(format!("encoder.layers.{layer}.self_attn.beta"), (vec![4], beta));
        }
    });
    check(json!({ "position": "learned", "max_length": 8 }), |tensors| {
        let width = tensors["encoder.norm.bias"].0[0];
        let table = (0..8 * width).flat_map(|i| (i as f32).sin().to_le_bytes()).collect();
        tensors.insert("position.weight".into(), (vec![8, width], table));
    });
}

#[test]
fn translators_are_recomputed() {
    let Some(python) = python() else { return };
    let sources = ["3 May 1999", "猫は犬を見た。", "先生 2024", "x"];
    let check = |place: &TestDir, model: &str| {
        let found = recompute(&python, place, model, &sources);
        let output = place
            .run(&[&["translate", model, "--beam", "1", "--json"][..], &sources[..]].concat())
            .assert_success()
            .json_lines();
        for (output, found) in output.iter().zip(&found) {
            assert_eq!(output["translation"], found["translation"], "{model}");
            let apart = output["score"].as_f64().unwrap() - found["score"].as_f64().unwrap();
            assert!(apart.abs() < 1e-5, "{model}: {apart:e}");
        }
    };
    for model in ["joint", "apart-characters", "apart-subwords"] {
        check(trained(), model);
        for settings in [
            json!({ "norm_order": "post" }),
            json!({ "position": "sinusoidal" }),
            json!({ "position": "rotary" }),
            json!({ "position": "alibi", "attention_window": 2 }),
            json!({ "max_length": 6 }),
        ] {
            check(&variant(model, &settings, |_| ()), "model");
        }
    }
}

#[test]
fn language_models_are_recomputed() {
    let Some(python) = python() else { return };
    let place = trained();
    // Longer than the context.
    let document = "the cat saw a dog.\nmy friend likes the old man. zebra!\n".repeat(5);
    place.write("document.txt", &document);
    for tokens in ["characters", "subwords", "words"] {
        let model = format!("lm-{tokens}");
        let found = recompute(&python, place, &model, &[&document, "the cat"]);
        let output = place.run(&["eval", &model, "document.txt", "--json"]).assert_success().json();
        assert_eq!(output["tokens"], found[0]["tokens"]);
        let apart = output["loss"].as_f64().unwrap() - found[0]["loss"].as_f64().unwrap();
        assert!(apart.abs() < 1e-5, "{model}: {apart:e}");
        let args = ["generate", &model, "the cat", "--temperature", "0", "--max-tokens", "20"];
        let continued = format!("the cat{}", found[1]["continued"].as_str().unwrap());
        assert_eq!(place.run(&args).assert_success().stdout.trim_end(), continued.trim_end());
    }
}
