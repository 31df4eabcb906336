//! Pretrained encoders and language models: hidden states and gradients match Hugging Face's library, and invalid
//! folders are rejected.

use chumoku::explain::{AttributionMethod, InnerSteps};
use chumoku::nn::{Mode, Offsets, Tokens};
use chumoku::params::Params;
use chumoku::pretrained::{DecoderCheckpoint, EncoderCheckpoint};
use chumoku::row::AsRow;
use chumoku::sampling::Sampling;
use chumoku::{ChatMessage, EmbedOptions, Precision, StopReason, TextClassifier, TextEmbedder, TextGenerator};
use chumoku_nn::pretrained::TensorSource;
use ndarray::Array2;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::{GoldenFile, Tolerance, compare};

/// Tiny random encoders with outputs of transformers.
const ENCODERS: [&str; 7] = [
    "bert",
    "bert_pair",
    "bert_classifier",
    "distilbert_classifier",
    "roberta_classifier",
    "xlm_roberta",
    "modernbert_classifier",
];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/pretrained").join(name)
}

/// Tiny random language models with outputs of transformers.
const DECODERS: [&str; 6] = ["llama", "llama_scaled", "mistral", "qwen2", "qwen3", "gpt2"];

/// A test case: the model, its expected results, and its tokens.
struct Case<Checkpoint> {
    checkpoint: Checkpoint,
    expected: GoldenFile,
    ids: Vec<u32>,
    types: Option<Vec<u32>>,
    offsets: Offsets,
}

impl<Checkpoint> Case<Checkpoint> {
    fn of(name: &str, checkpoint: Checkpoint) -> Self {
        let expected = GoldenFile::read(&format!("pretrained/{name}/expected"));
        let integers = |name: &str| expected.integers(name).into_iter().map(|x| x as u32).collect::<Vec<u32>>();
        let ends = expected.integers("in.offsets");
        let offsets = Offsets::from_lengths(ends.windows(2).map(|pair| pair[1] - pair[0]));
        let (ids, types) = (integers("in.ids"), expected.has("in.types").then(|| integers("in.types")));
        Case { checkpoint, ids, types, offsets, expected }
    }

    fn tokens(&self) -> Tokens<'_> {
        Tokens { types: self.types.as_deref(), ..Tokens::new(&self.ids, &self.offsets) }
    }
}

fn close(what: &str, found: &Array2<f32>, expected: &[f64]) {
    let largest = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let found: Vec<f32> = found.iter().copied().collect();
    compare(what, &found, expected, Tolerance { relative: 0.0, absolute: 1e-5 * largest }).unwrap();
}

impl Case<EncoderCheckpoint> {
    fn read(name: &str) -> Self {
        Case::of(name, EncoderCheckpoint::read(&golden(name), Some(Precision::Highest)).unwrap())
    }
}

impl Case<DecoderCheckpoint> {
    fn read(name: &str) -> Self {
        Case::of(name, DecoderCheckpoint::read(&golden(name), Some(Precision::Highest)).unwrap())
    }
}

/// Checks gradients against the expected ones, under the published tensor names.
fn check_gradients(
    name: &str,
    grads: &Params<f32>,
    tensors: &[(String, TensorSource)],
    expected: impl Fn(&str) -> Vec<f64>,
) {
    for param in grads.layout().iter() {
        let (ours, shape, range) = (param.name, param.shape, param.range);
        let (_, source) = tensors.iter().find(|(name, _)| name == ours).unwrap();
        let mut expected: Vec<f64> = source.names().iter().flat_map(|theirs| expected(theirs)).collect();
        if let TensorSource::Transposed(_) = source {
            let theirs = Array2::from_shape_vec((shape[1], shape[0]), expected).unwrap();
            expected = theirs.t().iter().copied().collect();
        }
        let found = Array2::from_shape_vec((1, range.len()), grads.values()[range].to_vec()).unwrap();
        close(&format!("{name}: {ours}"), &found, &expected);
    }
}

#[test]
fn language_models_match_transformers() {
    for name in DECODERS {
        let case = Case::<DecoderCheckpoint>::read(name);
        let DecoderCheckpoint { model, params, source, .. } = &case.checkpoint;
        let states = model.backbone().hidden_states(params, case.tokens()).unwrap();
        for (layer, state) in states.iter().enumerate() {
            close(&format!("{name}, layer {layer}"), state, case.expected.tensor(&format!("out.hidden.{layer}")));
        }
        assert!(!case.expected.has(&format!("out.hidden.{}", states.len())), "{name} has more layers");
        let logits = model.logits(params, &case.ids, &case.offsets).unwrap();
        close(&format!("{name}, logits"), &logits, case.expected.tensor("out.logits"));
        // Token by token, all sequences in parallel.
        let mut state = model.start_decoding(case.offsets.sequences()).unwrap();
        let longest = case.offsets.ranges().map(|range| range.len()).max().unwrap();
        for place in 0..longest {
            let new = case.offsets.ranges().map(|range| range.start + place).zip(case.offsets.ranges());
            let new: Vec<Option<usize>> = new.map(|(at, range)| (at < range.end).then_some(at)).collect();
            let ids: Vec<u32> = new.iter().flatten().map(|&at| case.ids[at]).collect();
            let lengths = Offsets::from_lengths(new.iter().map(|at| usize::from(at.is_some())));
            let found = model.step_last(params, &ids, &lengths, &mut state).unwrap();
            for (row, at) in found.rows().into_iter().zip(new.into_iter().flatten()) {
                let row = row.to_owned().insert_axis(ndarray::Axis(0));
                close(&format!("{name}, step {place}"), &row, &logits.row(at).mapv(f64::from).to_vec());
            }
        }
        let (last, cache) = model.backbone().forward(params, case.tokens(), Mode::Eval).unwrap();
        let dout = Array2::from_shape_vec(last.dim(), case.expected.tensor_f32("in.dout")).unwrap();
        let mut grads = Params::zeros(model.layout());
        model.backbone().backward(params, case.tokens(), &cache, dout, Mode::Eval, &mut grads).unwrap();
        check_gradients(name, &grads, &source.tensors, |theirs| {
            case.expected.tensor(&format!("grad.{theirs}")).to_vec()
        });
    }
}

#[test]
fn hidden_states_match_transformers() {
    for name in ENCODERS {
        let case = Case::<EncoderCheckpoint>::read(name);
        let states = case.checkpoint.model.hidden_states(&case.checkpoint.params, case.tokens()).unwrap();
        for (layer, state) in states.iter().enumerate() {
            close(&format!("{name}, layer {layer}"), state, case.expected.tensor(&format!("out.hidden.{layer}")));
        }
        assert!(!case.expected.has(&format!("out.hidden.{}", states.len())), "{name} has more layers");
        let (last, _) = case.checkpoint.model.forward(&case.checkpoint.params, case.tokens(), Mode::Eval).unwrap();
        close(name, &last, case.expected.tensor("out.last"));
        let model = &case.checkpoint.model;
        let groups = model.map_groups(&case.checkpoint.params, case.tokens(), |x, _| Ok(x)).unwrap();
        assert_eq!(
            ndarray::concatenate(ndarray::Axis(0), &groups.iter().map(|x| x.view()).collect::<Vec<_>>()).unwrap(),
            last
        );
    }
}

#[test]
fn gradients_match_transformers() {
    for name in ENCODERS {
        let case = Case::<EncoderCheckpoint>::read(name);
        let EncoderCheckpoint { model, params, source, .. } = &case.checkpoint;
        let (last, cache) = model.forward(params, case.tokens(), Mode::Eval).unwrap();
        let dout = Array2::from_shape_vec(last.dim(), case.expected.tensor_f32("in.dout")).unwrap();
        let mut grads = Params::zeros(model.layout());
        model.backward(params, case.tokens(), &cache, dout, Mode::Eval, &mut grads).unwrap();
        let named = |theirs: &str| {
            let names = [format!("grad.{theirs}"), format!("grad.{}{theirs}", source.prefix)];
            let name = names.iter().find(|name| case.expected.has(name)).unwrap_or_else(|| panic!("{name}: {theirs}"));
            case.expected.tensor(name).to_vec()
        };
        check_gradients(name, &grads, &source.tensors, named);
    }
}

/// A tokenizer of words: "t7" has id 7, and there are no special tokens around a text.
fn words() -> String {
    let vocab: serde_json::Map<String, serde_json::Value> = (0..50).map(|id| (format!("t{id}"), id.into())).collect();
    let model = serde_json::json!({ "type": "WordLevel", "vocab": vocab, "unk_token": "t0" });
    serde_json::json!({
        "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": { "type": "WhitespaceSplit" },
        "post_processor": null, "decoder": null, "model": model,
    })
    .to_string()
}

#[test]
fn published_classifiers_match_transformers() {
    for name in ["bert_classifier", "distilbert_classifier", "roberta_classifier", "modernbert_classifier"] {
        let folder = copy(name);
        std::fs::write(folder.path().join("tokenizer.json"), words()).unwrap();
        let model = TextClassifier::load(folder.path()).unwrap();
        assert_eq!(model.labels(), ["negative", "neutral", "positive"]);
        let expected = GoldenFile::read(&format!("pretrained/{name}/expected"));
        let logits = expected.tensor("out.logits");
        let (ids, ends) = (expected.integers("in.ids"), expected.integers("in.offsets"));
        let text = |ids: &[usize]| ids.iter().map(|id| format!("t{id}")).collect::<Vec<_>>().join(" ");
        let texts: Vec<String> = ends.windows(2).map(|pair| text(&ids[pair[0]..pair[1]])).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let found = model.predict(&texts).unwrap();
        for (prediction, logits) in found.iter().zip(logits.chunks(3)) {
            let total: f64 = logits.iter().map(|x| x.exp()).sum();
            for (p, x) in prediction.probabilities.iter().zip(logits) {
                assert!((f64::from(*p) - x.exp() / total).abs() < 1e-6, "{name}: {prediction:?} {logits:?}");
            }
            assert_eq!((prediction.ngrams.as_ref(), prediction.windows), (None, 1));
        }
        assert_eq!(found.len(), ends.len() - 1);
    }
}

/// Patching is refused before a word is left out.
#[test]
fn a_wrong_alignment_is_refused_before_a_classifier_explains() {
    let folder = copy("bert_classifier");
    std::fs::write(folder.path().join("tokenizer.json"), words()).unwrap();
    let model = TextClassifier::load(folder.path()).unwrap();
    let requested = (AttributionMethod::LeaveOneOut, None);
    let mut left_out = 0;
    let mut explain = |steps: &InnerSteps<'_>| {
        let found = model.explain_label("t5 t9 t3", "m", requested, steps, &mut |done, _| left_out = done);
        (found, std::mem::take(&mut left_out))
    };
    let steps = InnerSteps { patch: Some("t5 t8 t3".as_row()), ..InnerSteps::default() };
    let (refused, left_out) = explain(&InnerSteps { aligned: Some(&[[99, 0]]), ..steps });
    assert!(refused.unwrap_err().to_string().contains("align: ") && left_out == 0, "{left_out}");
    let (found, left_out) = explain(&steps);
    let found = found.unwrap();
    assert!(found.patching.is_some_and(|patching| patching.other == "t5 t8 t3"));
    assert_eq!(left_out, 3);
    assert_eq!(found.lens.unwrap().depths.len(), found.layers + 1);
    let (without, _) = explain(&InnerSteps::NONE);
    let without = without.unwrap();
    assert!(without.lens.is_none() && without.patching.is_none() && without.residual_path.is_some());
}

/// Copies a golden folder, to be modified.
fn copy(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(golden(name).join(file), folder.path().join(file)).unwrap();
    }
    folder
}

fn load_error(folder: &Path) -> String {
    error_message(EncoderCheckpoint::read(folder, None), folder)
}

/// Returns the one-line error of loading a folder, which must name the file.
fn error_message<T>(found: chumoku::Result<T>, folder: &Path) -> String {
    let Err(error) = found else { panic!("expected an error") };
    assert!(error.is_usage(), "{error}");
    let message = error.to_string();
    assert!(!message.contains('\n') && message.contains(folder.to_str().unwrap()), "{message}");
    message
}

fn with_setting(name: &str, key: &str, value: serde_json::Value) -> tempfile::TempDir {
    let folder = copy(name);
    let path = folder.path().join("config.json");
    let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    config[key] = value;
    std::fs::write(path, config.to_string()).unwrap();
    folder
}

#[test]
fn unsupported_settings_are_rejected_by_name() {
    for (key, value, said) in [
        ("model_type", "t5".into(), "\"t5\""),
        ("hidden_act", "mish".into(), "hidden_act"),
        ("position_embedding_type", "relative_key".into(), "position_embedding_type"),
        ("is_decoder", true.into(), "is_decoder"),
        ("quantization_config", serde_json::json!({ "bits": 4 }), "quantization_config"),
        ("num_hidden_layers", 1_000_000_000u64.into(), "num_layers"),
        ("vocab_size", u64::MAX.into(), "vocab_size"),
        ("vocab_size", 51.into(), "expected F32, F16 or BF16 [51, 16]"),
        ("hidden_size", 0.into(), "d_model"),
        ("hidden_size", "x".into(), "invalid type"),
        ("num_attention_heads", 3.into(), "num_heads"),
        ("layer_norm_eps", (-1.0).into(), "norm_epsilon"),
        ("num_hidden_layers", 3.into(), "encoder.layer.2.attention.output.LayerNorm.bias"),
        ("num_hidden_layers", 1.into(), "encoder.layer.1.attention.output.LayerNorm.bias"),
    ] {
        let folder = with_setting("bert", key, value);
        let found = load_error(folder.path());
        assert!(found.contains(said), "{key}: {found}");
    }
    let pad = with_setting("roberta_classifier", "pad_token_id", 1_000_000.into());
    assert!(load_error(pad.path()).contains("max_position_embeddings"));
    let pad = with_setting("roberta_classifier", "pad_token_id", u64::MAX.into());
    assert!(load_error(pad.path()).contains("max_position_embeddings"));
}

#[test]
fn unsupported_language_models_are_rejected_by_name() {
    let rope = |kind: &str| serde_json::json!({ "rope_type": kind, "rope_theta": 10000.0, "factor": 2.0 });
    for (name, key, value, expected) in [
        ("llama", "model_type", "gemma".into(), "\"gemma\""),
        ("llama", "hidden_act", "mish".into(), "hidden_act"),
        ("llama", "quantization_config", serde_json::json!({ "bits": 4 }), "quantization_config"),
        ("llama", "num_local_experts", 8.into(), "num_local_experts"),
        ("qwen3", "num_experts", 128.into(), "num_experts"),
        (
            "llama",
            "rope_parameters",
            rope("yarn"),
            "rope_type: expected \"default\", \"linear\", \"llama3\", found \"yarn\"",
        ),
        ("llama", "rope_parameters", rope("llama3"), "low_freq_factor NaN"),
        ("llama", "num_hidden_layers", 1_000_000_000u64.into(), "num_layers"),
        ("llama", "vocab_size", u64::MAX.into(), "vocab_size"),
        ("llama", "vocab_size", 51.into(), "expected F32, F16 or BF16 [51, 16]"),
        ("llama", "hidden_size", 0.into(), "d_model"),
        ("llama", "num_attention_heads", 0.into(), "num_heads"),
        ("llama", "num_attention_heads", 3.into(), "num_key_heads"),
        ("llama", "num_key_value_heads", 3.into(), "num_key_heads"),
        ("llama", "num_key_value_heads", 4.into(), "k_proj.weight: expected F32, F16 or BF16 [16, 16]"),
        ("llama", "num_key_value_heads", 0.into(), "num_key_heads"),
        ("llama", "head_dim", 3.into(), "even width"),
        ("llama", "head_dim", u64::MAX.into(), "head_dim"),
        ("llama", "rms_norm_eps", (-1.0).into(), "norm_epsilon"),
        ("llama", "rms_norm_eps", "x".into(), "invalid type"),
        ("llama", "attention_bias", true.into(), "self_attn.k_proj.bias"),
        ("llama", "mlp_bias", true.into(), "mlp.down_proj.bias"),
        ("llama", "tie_word_embeddings", false.into(), "lm_head.weight"),
        ("llama", "num_hidden_layers", 1.into(), "model.layers.1.input_layernorm.weight"),
        ("qwen2", "model_type", "llama".into(), "self_attn.k_proj.bias"),
        ("qwen3", "model_type", "llama".into(), "self_attn.k_norm.weight"),
        ("gpt2", "scale_attn_by_inverse_layer_idx", true.into(), "scale_attn_by_inverse_layer_idx"),
        ("gpt2", "scale_attn_weights", false.into(), "scale_attn_weights"),
        ("gpt2", "n_inner", 24.into(), "h.0.mlp.c_fc.bias: expected F32, F16 or BF16 [24]"),
        ("gpt2", "n_embd", u64::MAX.into(), "d_model"),
    ] {
        let folder = with_setting(name, key, value);
        let found = error_message(DecoderCheckpoint::read(folder.path(), None), folder.path());
        assert!(found.contains(expected), "{name}, {key}: {found}");
    }
    let mut config: serde_json::Value =
        serde_json::from_slice(&std::fs::read(golden("qwen2").join("config.json")).unwrap()).unwrap();
    config["use_sliding_window"] = true.into();
    config["sliding_window"] = 4.into();
    config["layer_types"] = serde_json::json!(["full_attention", "sliding_attention"]);
    let folder = copy("qwen2");
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let found = error_message(DecoderCheckpoint::read(folder.path(), None), folder.path());
    assert!(found.contains("sliding_window") && found.contains("4 in 1 of 2 layers"), "{found}");
    // A window in every layer is supported. The token itself is one of the four.
    config["layer_types"] = serde_json::json!(["sliding_attention", "sliding_attention"]);
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let read = DecoderCheckpoint::read(folder.path(), None).unwrap();
    assert_eq!(read.model.config().encoder.attention.window, Some(3));
}

/// Creates a tiny Llama with words for tokens and these additional files. The last token is special.
fn generator(files: &[(&str, serde_json::Value)]) -> tempfile::TempDir {
    let folder = copy("llama");
    let mut tokenizer: serde_json::Value = serde_json::from_str(&words()).unwrap();
    let vocab = tokenizer["model"]["vocab"].as_object_mut().unwrap();
    vocab.remove("t49");
    vocab.insert("<end>".into(), 49.into());
    tokenizer["added_tokens"] = serde_json::json!([{ "id": 49, "content": "<end>", "single_word": false,
        "lstrip": false, "rstrip": false, "normalized": false, "special": true }]);
    let tokenizer = ("tokenizer.json", tokenizer);
    for (name, content) in files.iter().chain([&tokenizer]) {
        std::fs::write(folder.path().join(name), content.to_string()).unwrap();
    }
    folder
}

/// Returns the most probable continuation of `ids`, computed without a cache.
fn likeliest(checkpoint: &DecoderCheckpoint, ids: &[u32], count: usize) -> Vec<u32> {
    let mut all = ids.to_vec();
    for _ in 0..count {
        let logits = checkpoint.model.logits(&checkpoint.params, &all, &Offsets::from_lengths([all.len()])).unwrap();
        let last = logits.row(all.len() - 1).to_vec();
        let best = (0..last.len()).fold(0, |best, id| if last[id] > last[best] { id } else { best });
        all.push(best as u32);
    }
    all.split_off(ids.len())
}

fn spell(ids: &[u32]) -> String {
    ids.iter().filter(|&&id| id != 49).map(|id| format!(" t{id}")).collect()
}

#[test]
fn a_published_language_model_generates_greedily_and_stops() {
    let checkpoint = DecoderCheckpoint::read(&golden("llama"), None).unwrap();
    let expected = likeliest(&checkpoint, &[5, 6, 49], 12);
    let no_end = serde_json::json!({ "eos_token_id": [] });
    let mut config: serde_json::Value =
        serde_json::from_slice(&std::fs::read(golden("llama").join("config.json")).unwrap()).unwrap();
    config["eos_token_id"] = serde_json::Value::Null;
    let settings = [("generation_config.json", no_end), ("config.json", config)];
    let folder = generator(&settings);
    let model = TextGenerator::load(folder.path()).unwrap();
    assert_eq!(greedy(&model, "t5 t6 <end>", 12), (spell(&expected), StopReason::MaxTokens));
    // The first new token ends the text if the folder declares it as end token.
    let at = (1..expected.len()).find(|&at| !expected[..at].contains(&expected[at])).unwrap();
    let end = serde_json::json!({ "eos_token_id": [48, expected[at]] });
    let folder = generator(&[("generation_config.json", end), settings[1].clone()]);
    let ended = TextGenerator::load(folder.path()).unwrap();
    assert_eq!(greedy(&ended, "t5 t6 <end>", 12), (spell(&expected[..at]), StopReason::End));
    // An empty prompt begins with the start token.
    let first = spell(&likeliest(&checkpoint, &[1], 3));
    assert_eq!(greedy(&model, "", 3).0, first);
    // Without a template there is no chat.
    assert!(!model.has_chat_template());
    let sampling = Sampling::default();
    let error = model.reply(&[ChatMessage::new("user", "t5")], 1, &sampling, &mut |_| ControlFlow::Continue(()));
    assert!(error.unwrap_err().to_string().contains("chat template"));
}

#[test]
fn the_chat_template_renders_the_prompt() {
    let template = "{% for m in messages %}{{ '<end>' if m.role == 'user' else 't7' }} {{ m.content }} {% endfor %}\
                    {% if messages | length > 2 %}{{ raise_exception('too many') }}{% endif %}";
    let settings = serde_json::json!({ "chat_template": template, "model_max_length": 64 });
    let folder = generator(&[("tokenizer_config.json", settings)]);
    let model = TextGenerator::load(folder.path()).unwrap();
    let mut sampling = Sampling::default();
    sampling.temperature = 0.0;
    let reply = |messages: &[ChatMessage]| {
        let mut text = String::new();
        let stop = model.reply(messages, 4, &sampling, &mut |piece| {
            text.push_str(piece);
            ControlFlow::Continue(())
        });
        stop.map(|_| text)
    };
    let [system, user] = [ChatMessage::new("system", "t8"), ChatMessage::new("user", "t5 t6")];
    // A new text begins without the space of a continuation.
    let continued = |prompt: &str| greedy(&model, prompt, 4).0.trim_start().to_owned();
    assert_eq!(reply(std::slice::from_ref(&user)).unwrap(), continued("<end> t5 t6"));
    assert_eq!(reply(&[system.clone(), user.clone()]).unwrap(), continued("t7 t8 <end> t5 t6"));
    let error = reply(&[user.clone(), system, user]).unwrap_err();
    assert!(error.is_usage() && error.to_string().contains("too many"), "{error}");
    std::fs::write(folder.path().join("chat_template.jinja"), "{% for %}").unwrap();
    let error = TextGenerator::load(folder.path()).unwrap_err().to_string();
    assert!(error.contains("chat_template.jinja") && !error.contains('\n'), "{error}");
}

#[test]
fn damaged_and_unmatched_weights_are_rejected() {
    let folder = copy("bert");
    let path = folder.path().join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    for end in [0, 7, 100, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..end]).unwrap();
        assert!(load_error(folder.path()).contains("safetensors"));
    }
    std::fs::remove_file(&path).unwrap();
    assert!(load_error(folder.path()).contains("missing"));
    std::fs::write(folder.path().join("pytorch_model.bin"), b"x").unwrap();
    assert!(load_error(folder.path()).contains("any code"));
    let mut holed = bytes;
    // After the header: the embeddings of tokens or positions.
    let start = 8 + u64::from_le_bytes(holed[..8].try_into().unwrap()) as usize;
    holed[start..start + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&path, holed).unwrap();
    assert!(load_error(folder.path()).contains("NaN"));
}

/// Writes the tensors of a golden model as shards with an index.
fn sharded(name: &str) -> tempfile::TempDir {
    let folder = copy(name);
    let path = folder.path().join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let all = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut map = serde_json::Map::new();
    let (mut halves, mut tensors) = ([Vec::new(), Vec::new()], all.tensors());
    tensors.sort_by(|a, b| a.0.cmp(&b.0));
    for (i, (name, view)) in tensors.into_iter().enumerate() {
        map.insert(name.clone(), format!("model-{}.safetensors", i % 2).into());
        halves[i % 2].push((name, view));
    }
    for (i, half) in halves.into_iter().enumerate() {
        let bytes = safetensors::serialize(half, None).unwrap();
        std::fs::write(folder.path().join(format!("model-{i}.safetensors")), bytes).unwrap();
    }
    let index = serde_json::json!({ "metadata": {}, "weight_map": map }).to_string();
    std::fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
    folder
}

#[test]
fn shards_form_one_model_and_stay_in_their_folder() {
    let whole = EncoderCheckpoint::read(&golden("bert"), None).unwrap();
    let folder = sharded("bert");
    let found = EncoderCheckpoint::read(folder.path(), None).unwrap();
    assert_eq!(found.params.values(), whole.params.values());
    let index = folder.path().join("model.safetensors.index.json");
    let text = std::fs::read_to_string(&index).unwrap();
    for outside in ["../model-1.safetensors", "/etc/passwd", "sub/model.safetensors", "..", ""] {
        std::fs::write(&index, text.replace("model-1.safetensors", outside)).unwrap();
        assert!(load_error(folder.path()).contains("files in this folder"), "{outside}");
    }
    std::fs::write(&index, text.replacen("model-1.safetensors", "model-0.safetensors", 1)).unwrap();
    load_error(folder.path());
    std::fs::write(&index, text.replace("model-1.safetensors", "model-2.safetensors")).unwrap();
    assert!(EncoderCheckpoint::read(folder.path(), None).is_err());
}

#[test]
fn halves_are_widened_exactly() {
    let folder = copy("bert");
    let path = folder.path().join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let all = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let floats = |data: &[u8]| -> Vec<f32> { data.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect() };
    let exact = EncoderCheckpoint::read(&golden("bert"), None).unwrap();
    for dtype in [safetensors::Dtype::BF16, safetensors::Dtype::F16] {
        let is_half = dtype == safetensors::Dtype::F16;
        let narrow = |x: f32| match is_half {
            true => chumoku::f16::from_f32(x).to_le_bytes(),
            false => chumoku::bf16::from_f32(x).to_le_bytes(),
        };
        let narrowed: Vec<(String, Vec<usize>, Vec<u8>)> = all
            .tensors()
            .into_iter()
            .map(|(name, view)| {
                let bytes = floats(view.data()).into_iter().flat_map(narrow).collect();
                (name, view.shape().to_vec(), bytes)
            })
            .collect();
        let views = narrowed.iter().map(|(name, shape, bytes)| {
            (name.clone(), safetensors::tensor::TensorView::new(dtype, shape.clone(), bytes).unwrap())
        });
        std::fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
        let found = EncoderCheckpoint::read(folder.path(), None).unwrap();
        for (&found, &exact) in found.params.values().iter().zip(exact.params.values()) {
            let expected =
                if is_half { chumoku::f16::from_f32(exact).to_f32() } else { chumoku::bf16::from_f32(exact).to_f32() };
            assert_eq!(found, expected);
        }
    }
}

/// Returns the folder of a real checkpoint, which is not in the repository.
fn real_checkpoint(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("CHUMOKU_CHECKPOINTS").map(|folder| PathBuf::from(folder).join(name));
    match folder.filter(|folder| folder.join("config.json").is_file()) {
        Some(folder) => Some(folder),
        None => {
            eprintln!("SKIPPED: CHUMOKU_CHECKPOINTS names no folder with {name}, so no real weights were read");
            None
        }
    }
}

#[test]
fn a_real_model_finds_texts_of_the_same_meaning() {
    let Some(folder) = real_checkpoint("minilm") else { return };
    let model = TextEmbedder::load(&folder, None).unwrap();
    let texts = ["A man is eating food.", "Someone is having a meal.", "The stock market fell today."];
    let found = model.embed(&texts, EmbedOptions::default()).unwrap();
    let cosine = |a: usize, b: usize| found.vectors.row(a).dot(&found.vectors.row(b));
    assert!(cosine(0, 1) > 0.5 && cosine(0, 2) < 0.2, "{} {}", cosine(0, 1), cosine(0, 2));
    // A text's vector does not depend on the batch.
    for (i, text) in texts.iter().enumerate() {
        let alone = model.embed(&[text], EmbedOptions::default()).unwrap();
        assert_eq!(alone.vectors.row(0), found.vectors.row(i));
    }
}

/// A chat template with many of the common features.
const TEMPLATE: &str = r#"{%- set ns = namespace(turns=0) -%}
{%- if messages[0]['role'] == 'system' -%}
    {%- set told = messages[0].content.strip() -%}{%- set messages = messages[1:] -%}
{%- else -%}
    {%- set told = 'You are a helpful assistant.' -%}
{%- endif -%}
{{ bos_token + 'system\n' + told + '<|im_end|>\n' }}
{%- for message in messages %}
    {%- set ns.turns = ns.turns + 1 %}
    {% if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('roles must alternate') }}
    {% endif %}
    {{- '<|im_start|>' ~ message['role'] ~ '\n' ~ message['content'] | trim ~ '<|im_end|>\n' }}
{%- endfor %}
{% if add_generation_prompt and tools is none and ns.turns > 0 %}
{{ '<|im_start|>assistant\n' }}
{%- endif %}
"#;

/// Generates greedy continuations of prompts and answers to messages, as JSON.
const TRANSFORMERS: &str = r#"
import json, os, sys
os.environ["HF_HUB_OFFLINE"] = "1"
import torch, transformers
transformers.logging.set_verbosity_error()
folder, count, template = sys.argv[1], int(sys.argv[2]), sys.argv[3]
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
tokenizer.chat_template, tokenizer.bos_token = template, "<|im_start|>"
model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
texts = []
for prompt in json.load(sys.stdin):
    if isinstance(prompt, list):
        inputs = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    else:
        inputs = tokenizer(prompt, return_tensors="pt")
    with torch.no_grad():
        new = model.generate(**inputs, do_sample=False, max_new_tokens=count)[0, inputs["input_ids"].shape[1]:]
    texts.append(tokenizer.decode(new, skip_special_tokens=True, clean_up_tokenization_spaces=False))
json.dump(texts, sys.stdout)
"#;

/// Prompts of many kinds: prose, lists, code, other languages, dialogues with special tokens, unusual white space.
fn prompts() -> Vec<String> {
    let plain = [
        "The capital of France is",
        "Water boils at",
        "Once upon a time, in a village by the sea,",
        "The three primary colours are",
        "def fibonacci(n):\n",
        "fn main() {\n    let numbers = vec![1, 2, 3];\n",
        "SELECT name, age FROM users WHERE",
        "Dear Ms. Tanaka,\n\nThank you for your letter.",
        "Ingredients:\n- 200 g flour\n- 2 eggs\n",
        "1, 1, 2, 3, 5, 8,",
        "Q: What is 12 times 12?\nA:",
        "Il était une fois",
        "日本の首都は",
        "こんにちは。今日は",
        "Привет! Как",
        "El perro de mi vecino",
        "Photosynthesis is the process by which",
        "In 1969,",
        "The train from Osaka to Tokyo takes",
        "To be, or not to be,",
        "A haiku about rain:\n",
        "The opposite of hot is",
        "# Release notes\n\n## 1.2.0\n",
        "{\"name\": \"Ada\", \"age\":",
        "<html>\n<body>\n<h1>",
        "The quick brown fox",
        "I have two apples and buy three more. Now I have",
        "Isaac Newton was born in",
        "   leading spaces",
        "trailing space ",
        "tabs\tand\nlines\n\n\n",
        "emoji 🎉🎈 and more",
        "UPPER CASE WORDS ARE",
        "a",
        "42",
        "...",
        "The moon is",
        "Why do cats purr?",
        "My favourite season is",
        "The recipe for a good life is",
        "An octopus has",
        "In machine learning, attention is",
        "The Pacific Ocean is",
        "She opened the door and",
    ];
    let prompts = [
        "What is gravity?",
        "Write a short poem about the sea.",
        "Name three fruits.",
        "Translate 'good morning' to French.",
        "What is 7 + 5?",
        "Who are you?",
    ];
    let dialogue = |text: &&str| format!("<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n");
    plain.iter().map(|text| (*text).to_owned()).chain(prompts.iter().map(dialogue)).collect()
}

fn greedy(model: &TextGenerator, prompt: &str, count: usize) -> (String, StopReason) {
    let mut sampling = Sampling::default();
    sampling.temperature = 0.0;
    let mut text = String::new();
    let stop = model.generate(prompt, count, &sampling, &mut |piece| {
        text.push_str(piece);
        ControlFlow::Continue(())
    });
    (text, stop.unwrap())
}

#[test]
fn a_real_language_model_matches_transformers() {
    let Some(folder) = real_checkpoint("smollm2") else { return };
    let Some(python) = testkit::python("torch, transformers") else { return };
    const COUNT: usize = 32;
    let prompts = prompts();
    let [system, user] =
        [ChatMessage::new("system", " You are a pirate. "), ChatMessage::new("user", "Who are you?\n")];
    let answer = ChatMessage::new("assistant", "A helpful one.");
    let more = ChatMessage::new("user", "Name two colours 🎨 and 日本の首都.");
    let dialogues = [vec![user.clone()], vec![system, user.clone()], vec![user, answer, more]];
    let as_json = |message: &ChatMessage| serde_json::json!({ "role": message.role, "content": message.content });
    let messages = dialogues.iter().map(|dialogue| dialogue.iter().map(as_json).collect::<serde_json::Value>());
    let all: Vec<serde_json::Value> = prompts.iter().map(|prompt| prompt.as_str().into()).chain(messages).collect();
    let mut child = Command::new(&python)
        .args(["-c", TRANSFORMERS])
        .arg(&folder)
        .args([&COUNT.to_string(), TEMPLATE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    serde_json::to_writer(child.stdin.take().unwrap(), &all).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let expected: Vec<String> = serde_json::from_slice(&output.stdout).unwrap();
    let mut model = TextGenerator::load(&folder).unwrap();
    model.set_precision(Precision::Highest);
    assert_eq!(expected.len(), all.len());
    // The folder with a chat template.
    let with_template = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        let (from, to) = (folder.join(file), with_template.path().join(file));
        #[cfg(unix)]
        std::os::unix::fs::symlink(from, to).unwrap();
        #[cfg(not(unix))]
        std::fs::copy(from, to).unwrap();
    }
    let settings = serde_json::json!({ "bos_token": "<|im_start|>", "chat_template": TEMPLATE });
    std::fs::write(with_template.path().join("tokenizer_config.json"), settings.to_string()).unwrap();
    let mut chat = TextGenerator::load(with_template.path()).unwrap();
    chat.set_precision(Precision::Highest);
    for (dialogue, expected) in dialogues.iter().zip(&expected[prompts.len()..]) {
        let (mut sampling, mut found) = (Sampling::default(), String::new());
        sampling.temperature = 0.0;
        let stop = chat.reply(dialogue, COUNT, &sampling, &mut |piece| {
            found.push_str(piece);
            ControlFlow::Continue(())
        });
        assert!(stop.is_ok() && found == *expected, "{found:?}\n{expected:?}");
    }
    let differ = prompts.iter().zip(&expected).filter_map(|(prompt, expected)| {
        let (found, _) = greedy(&model, prompt, COUNT);
        (found != *expected).then(|| format!("{prompt:?}\n  {found:?}\n  {expected:?}"))
    });
    let differ: Vec<String> = differ.collect();
    assert!(differ.is_empty(), "{} of {} prompts:\n{}", differ.len(), prompts.len(), differ.join("\n"));
}
