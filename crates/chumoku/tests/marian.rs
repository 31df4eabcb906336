//! Published translators (Marian): numbers, tokens and translations are those of Hugging Face's library and of
//! SentencePiece, and what is unsound is refused.

use chumoku::models::PairBatch;
use chumoku::nn::Mode;
use chumoku::params::Params;
use chumoku::pretrained::TranslatorCheckpoint;
use chumoku::text::TextTokenizer;
use chumoku::{ModelKind, Precision, TextTranslator, TranslateOptions};
use ndarray::Array2;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::{Golden, Tolerance, compare};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/pretrained/marian")
}

/// The golden pairs; targets begin with what starts them.
fn pairs(expected: &Golden) -> PairBatch {
    let ids = |name: &str| expected.integers(name).into_iter().map(|x| x as u32).collect::<Vec<u32>>();
    let lengths = |name: &str| -> Vec<usize> {
        let ends = expected.integers(name);
        ends.windows(2).map(|pair| pair[1] - pair[0]).collect()
    };
    let mut batch = PairBatch::default();
    batch.source = ids("in.ids");
    batch.source_lengths = lengths("in.offsets");
    batch.input = ids("in.target_ids");
    batch.output = vec![0; batch.input.len()];
    batch.target_lengths = lengths("in.target_offsets");
    batch
}

fn close(what: &str, found: &Array2<f32>, expected: &[f64]) {
    let largest = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let found: Vec<f32> = found.iter().copied().collect();
    // Gradients of key biases are 0.
    let absolute = (1e-5 * largest).max(1e-5 * f64::from(u8::from(largest < 1e-9)));
    compare(what, &found, expected, Tolerance { relative: 0.0, absolute }).unwrap();
}

#[test]
fn it_computes_what_transformers_computes() {
    let expected = Golden::read("pretrained/marian/expected");
    let batch = pairs(&expected);
    let TranslatorCheckpoint { model, params, source, .. } =
        TranslatorCheckpoint::read(&golden(), Some(Precision::Highest)).unwrap();
    let states = model.hidden_states(&params, &batch).unwrap();
    for (side, states) in ["encoder.", ""].into_iter().zip(&states) {
        for (layer, state) in states.iter().enumerate() {
            close(&format!("{side} layer {layer}"), state, expected.tensor(&format!("out.{side}hidden.{layer}")));
        }
        assert!(!expected.has(&format!("out.{side}hidden.{}", states.len())), "{side} has more layers");
    }
    let logits = model.logits(&params, &batch).unwrap();
    close("logits", &logits, expected.tensor("out.logits"));
    let (last, cache) = model.forward(&params, &batch, Mode::Eval).unwrap();
    close("last", &last, expected.tensor("out.last"));
    let dout = Array2::from_shape_vec(last.dim(), expected.narrow("in.dout")).unwrap();
    let mut grads = Params::zeros(model.layout());
    model.backward(&params, &batch, &cache, dout, Mode::Eval, &mut grads).unwrap();
    let gradient = |names: &[String]| -> Vec<f64> {
        names.iter().flat_map(|name| expected.tensor(&format!("grad.{name}")).to_vec()).collect()
    };
    for (ours, _, range) in grads.layout().iter() {
        if ours == "output_bias" {
            assert!(grads.values()[range].iter().all(|&d| d == 0.0));
            continue;
        }
        let (_, source) = source.tensors.iter().find(|(name, _)| name == ours).unwrap();
        let wanted = gradient(source.names());
        let mut found = grads.values()[range].to_vec();
        // A row of padding gets none in PyTorch, where targets start with it.
        if ours == "embedding.weight" {
            found[49 * 16..].fill(0.0);
        }
        let found = Array2::from_shape_vec((1, found.len()), found).unwrap();
        close(ours, &found, &wanted);
    }
}

/// Words for tokens: "t7" is number 7, and nothing stands around a text.
fn words() -> Value {
    let vocab: serde_json::Map<String, Value> = (0..50).map(|id| (format!("t{id}"), id.into())).collect();
    json!({
        "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": { "type": "WhitespaceSplit" },
        "post_processor": null, "decoder": null,
        "model": { "type": "WordLevel", "vocab": vocab, "unk_token": "t1" },
    })
}

fn write(folder: &Path, name: &str, value: &Value) {
    std::fs::write(folder.join(name), value.to_string()).unwrap();
}

/// A copy of the golden folder whose texts are numbers.
fn of_words() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(golden().join(file), folder.path().join(file)).unwrap();
    }
    write(folder.path(), "tokenizer.json", &words());
    folder
}

fn spelled(ids: &[u64]) -> String {
    ids.iter().map(|id| format!("t{id}")).collect::<Vec<_>>().join(" ")
}

/// What transformers writes, given sources, beam and most tokens.
const GENERATE: &str = r#"
import json, os, sys
os.environ["HF_HUB_OFFLINE"] = "1"
import torch, transformers
transformers.logging.set_verbosity_error()
model = transformers.MarianMTModel.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
found = []
for source, beam, most in json.load(sys.stdin):
    out = model.generate(torch.tensor([source]), num_beams=beam, do_sample=False, max_length=most + 2, length_penalty=0.0,
                         early_stopping=True, renormalize_logits=True, bad_words_ids=[[49]], forced_eos_token_id=0)
    found.append([token for token in out[0].tolist()[1:] if token not in (0, 49)])
json.dump(found, sys.stdout)
"#;

fn asked(python: &std::ffi::OsStr, script: &str, folder: &Path, input: &Value) -> Value {
    let mut child = Command::new(python)
        .args(["-c", script])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    serde_json::to_writer(child.stdin.take().unwrap(), input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn it_writes_what_transformers_writes() {
    let folder = of_words();
    assert_eq!(ModelKind::of(folder.path()).unwrap(), ModelKind::Translator);
    let mut model = TextTranslator::load(folder.path()).unwrap();
    model.set_precision(Precision::Highest);
    let mut random = testkit::Random::new(7);
    let sources: Vec<Vec<u64>> =
        (0..40).map(|i| (0..1 + i % 9).map(|_| 2 + random.below(46) as u64).collect()).collect();
    // 2n + 20, but no more than 19, which with the start is all that the model writes.
    let most = 19;
    let written = |beam: usize| -> Vec<Vec<u64>> {
        let mut options = TranslateOptions::default();
        (options.beam, options.length_penalty) = (beam, 0.0);
        let texts: Vec<String> = sources.iter().map(|ids| spelled(ids)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let found = model.translate(&texts, &options).unwrap();
        let ids = |ids: &[u32]| ids.iter().map(|&id| u64::from(id)).collect::<Vec<_>>();
        found.iter().map(|translation| ids(&translation.hypotheses[0].1.ids)).collect()
    };
    let beams = [1, 4];
    let found: Vec<Vec<u64>> = beams.into_iter().flat_map(written).collect();
    assert!(found.iter().flatten().all(|&id| id != 49), "padding is never written");
    let Some(python) = testkit::python("torch, transformers") else { return };
    let cases: Vec<Value> = beams
        .into_iter()
        .flat_map(|beam| sources.iter().map(move |ids| json!([([&ids[..], &[0]].concat()), beam, most])))
        .collect();
    let expected = asked(&python, GENERATE, folder.path(), &json!(cases));
    let expected: Vec<Vec<u64>> = serde_json::from_value(expected).unwrap();
    for ((case, found), expected) in cases.iter().zip(&found).zip(&expected) {
        assert_eq!(found, expected, "{case}");
    }
}
