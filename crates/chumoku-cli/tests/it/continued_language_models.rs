//! `train --from` with a language model: it is trained further and written in its published format.

use crate::common::{TestDir, sha256, tensors};
use chumoku::TextGenerator;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const MODELS: [&str; 4] = ["llama", "llama_scaled", "gpt2", "qwen3"];

/// Tiny random language models with words as tokens, and a text with a learnable order.
fn place() -> TestDir {
    let place = TestDir::new();
    let vocab: serde_json::Map<String, Value> = (0..50).map(|id| (format!("t{id}"), id.into())).collect();
    let tokenizer = json!({
        "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": { "type": "WhitespaceSplit" },
        "post_processor": null, "decoder": null, "model": { "type": "WordLevel", "vocab": vocab, "unk_token": "t0" },
    });
    for name in MODELS {
        std::fs::create_dir(place.path(name)).unwrap();
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/pretrained").join(name);
        for file in ["config.json", "model.safetensors"] {
            std::fs::copy(golden.join(file), place.path(name).join(file)).unwrap();
        }
        place.write(&format!("{name}/tokenizer.json"), tokenizer.to_string());
        place.write(&format!("{name}/tokenizer_config.json"), json!({ "model_max_length": 64 }).to_string());
        place.write(&format!("{name}/chat_template.jinja"), "{{ messages[0].content }}");
        place.write(&format!("{name}/generation_config.json"), json!({ "eos_token_id": 7 }).to_string());
    }
    let words: Vec<String> = (0..6000usize).map(|i| format!("t{}", 3 + (i * i / 5 + i) % 11 * 4 % 47)).collect();
    let lines: Vec<String> = words.chunks(12).map(|line| line.join(" ")).collect();
    place.write("book.txt", lines.join("\n"));
    place
}

fn train(place: &TestDir, from: &str, out: &str, more: &[&str]) -> String {
    place
        .run(&[&["train", "book.txt", "--from", from, "--out", out, "--epochs", "2"], more].concat())
        .assert_success()
        .stderr
}

#[test]
fn the_output_has_the_published_format() {
    let place = place();
    for from in MODELS {
        let out = format!("from-{from}");
        let output = train(&place, from, &out, &[]);
        assert!(output.contains("lm: --from is a language model"), "{output}");
        assert!(output.contains("before it is trained further"), "{output}");
        let published = tensors(&place.path(from).join("model.safetensors"));
        let written = tensors(&place.path(&out).join("model.safetensors"));
        // GPT-2's golden folder has names with the prefix of transformers.
        let names: Vec<&String> = written.keys().collect();
        assert_eq!(names, published.keys().collect::<Vec<_>>(), "{from}");
        for (name, (shape, numbers)) in &written {
            assert_eq!(shape, &published[name].0, "{from}: {name}");
            assert_ne!(numbers, &published[name].1, "{from}: {name}");
        }
        let (before, after) = (place.json(&format!("{from}/config.json")), place.json(&format!("{out}/config.json")));
        for key in
            ["model_type", "architectures", "vocab_size", "rope_parameters", "layer_norm_epsilon", "eos_token_id"]
        {
            assert_eq!(before[key], after[key], "{from}: {key}");
        }
        for file in ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"] {
            assert_eq!(place.read(&format!("{from}/{file}")), place.read(&format!("{out}/{file}")), "{from}: {file}");
        }
        // It has learned, and its folder alone reproduces the scores of the run.
        let metrics = place.json(&format!("{out}/metrics.json"));
        let loss = |part: &str| metrics[part]["loss"].as_f64().unwrap();
        assert!(loss("scores") < loss("before"), "{from}: {metrics}");
        let book = place.read("book.txt");
        let held_out = &book[book.len() * 9 / 10..];
        place.write("rest.txt", held_out.split_once('\n').unwrap().1);
        let found = place.run(&["eval", &out, "rest.txt", "--json"]).assert_success().json();
        assert!((found["loss"].as_f64().unwrap() - loss("scores")).abs() < 0.1, "{from}: {found} {metrics}");
        assert!(
            !place
                .run(&["generate", &out, "t3 t7", "--no-chat", "--max-tokens", "9"])
                .assert_success()
                .stdout
                .is_empty()
        );
        // A second continuation.
        train(&place, &out, &format!("again-{from}"), &[]);
        let again = place.json(&format!("again-{from}/metrics.json"));
        assert!((again["before"]["loss"].as_f64().unwrap() - loss("scores")).abs() < 1e-9, "{from}: {again}");
    }
    let card = place.read("from-llama/README.md");
    assert!(card.contains("trained further") && card.contains("Before it was trained further: loss"), "{card}");
}

#[test]
fn a_model_trained_by_chumoku_is_trained_further() {
    let place = place();
    place.run(&["train", "book.txt", "--task", "lm", "--epochs", "1", "--out", "own"]).assert_success();
    train(&place, "own", "more", &[]);
    let [mut before, mut after] = ["own", "more"].map(|name| place.json(&format!("{name}/config.json")));
    let ids = [&mut before, &mut after].map(|config| config.as_object_mut().unwrap().remove("chumoku_generation"));
    assert!(before == after && ids[0] != ids[1], "{before} {after} {ids:?}");
    let metrics = place.json("more/metrics.json");
    assert_eq!(metrics["before"], place.json("own/metrics.json")["scores"]);
    assert!(metrics["scores"]["loss"].as_f64() < metrics["before"]["loss"].as_f64(), "{metrics}");
}

#[test]
fn threads_and_kills_change_nothing_and_the_seed_does() {
    let place = place();
    let weights = |out: &str| sha256(&place.path(out).join("model.safetensors"));
    train(&place, "llama", "a", &[]);
    train(&place, "llama", "c", &["--seed", "7"]);
    assert_ne!(weights("a"), weights("c"));
    let settings = ["train", "book.txt", "--from", "gpt2", "--epochs", "4"];
    place.run(&[&settings[..], &["--out", "whole", "--threads", "1"]].concat()).assert_success();
    place.run_despite_kills(&[&settings[..], &["--out", "killed", "--threads", "2"]].concat());
    assert_eq!(weights("whole"), weights("killed"));
}

#[test]
fn frozen_weights_stay_as_published() {
    let place = place();
    for (from, freeze, frozen) in [
        ("llama", "embeddings", vec!["model.embed_tokens."]),
        ("llama_scaled", "1", vec!["model.embed_tokens.", "model.layers.0."]),
        ("gpt2", "1", vec!["transformer.wte.", "transformer.wpe.", "transformer.h.0."]),
    ] {
        let out = format!("frozen-{from}");
        train(&place, from, &out, &["--freeze", freeze]);
        let published = tensors(&place.path(from).join("model.safetensors"));
        let written = tensors(&place.path(&out).join("model.safetensors"));
        assert_eq!(written.keys().collect::<Vec<_>>(), published.keys().collect::<Vec<_>>());
        for (name, found) in written {
            let is_frozen = frozen.iter().any(|part| name.starts_with(part));
            assert_eq!(found == published[&name], is_frozen, "{from}: {name}");
        }
    }
}

#[test]
fn lora_changes_only_the_matrices_of_layers() {
    let place = place();
    for from in MODELS {
        let out = format!("low-{from}");
        train(&place, from, &out, &["--lora", "4"]);
        let published = tensors(&place.path(from).join("model.safetensors"));
        let written = tensors(&place.path(&out).join("model.safetensors"));
        assert_eq!(written.keys().collect::<Vec<_>>(), published.keys().collect::<Vec<_>>());
        for (name, found) in written {
            let is_updated = found.0.len() == 2 && (name.contains(".layers.") || name.contains(".h."));
            assert_eq!(found != published[&name], is_updated, "{from}: {name}");
        }
        let metrics = place.json(&format!("{out}/metrics.json"));
        assert!(metrics["scores"]["loss"].as_f64() < metrics["before"]["loss"].as_f64(), "{from}: {metrics}");
    }
}

#[test]
fn unsupported_models_are_rejected_before_anything_is_written() {
    let place = place();
    let refuses = |args: &[&str], words: &[&str]| {
        place.run_rejected(&[&["train", "book.txt", "--out", "x"], args].concat(), words);
        assert!(!place.path("x").exists());
    };
    refuses(&["--from", "llama", "--freeze", "all"], &["--freeze all", "no new part"]);
    refuses(&["--from", "llama", "--tokens", "characters"], &["--tokens", "pretrained model"]);
    refuses(&["--from", "llama", "--task", "mlm"], &["--from", "--task lm"]);
    refuses(&["--from", "nowhere", "--task", "lm"], &["nowhere", "no such folder"]);
    std::fs::remove_file(place.path("llama/tokenizer.json")).unwrap();
    refuses(&["--from", "llama", "--task", "lm"], &["tokenizer.json"]);
}

const TRANSFORMERS: &str = r#"
import json, sys
import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
folder, *texts = sys.argv[1:]
model, loading = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
assert not any(loading.values()), loading
tokenizer = PreTrainedTokenizerFast(tokenizer_file=folder + "/tokenizer.json")
for text in texts:
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    found = model.eval().generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False)
    print(json.dumps(tokenizer.convert_ids_to_tokens(found[0, ids.shape[1]:])))
"#;

#[test]
fn transformers_loads_the_output() {
    let Some(python) = testkit::python("torch, transformers") else { return };
    let place = place();
    let texts = ["t3 t7 t11", "t30", "t2 t44 t19 t3 t7"];
    for from in MODELS {
        train(&place, from, &format!("out-{from}"), &["--precision", "highest"]);
        let folder = place.path(&format!("out-{from}"));
        let output = Command::new(&python).args(["-c", TRANSFORMERS]).arg(&folder).args(texts).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let model = TextGenerator::load(&folder).unwrap();
        let mut sampling = chumoku::sampling::Sampling::default();
        sampling.temperature = 0.0;
        for (line, text) in String::from_utf8(output.stdout).unwrap().lines().zip(texts) {
            let mut expected: Vec<String> = serde_json::from_str(line).unwrap();
            // The end-of-text token is not printed.
            expected.truncate(expected.iter().position(|token| token == "t7").unwrap_or(expected.len()));
            let mut found = String::new();
            let mut write = |piece: &str| {
                found.push_str(piece);
                std::ops::ControlFlow::Continue(())
            };
            model.generate(text, 12, &sampling, &mut write).unwrap();
            assert_eq!(found.split_whitespace().collect::<Vec<_>>(), expected, "{from}: {text}");
        }
    }
}
