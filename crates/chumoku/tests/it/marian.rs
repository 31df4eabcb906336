//! Published translators (Marian): values, tokens and translations match Hugging Face's library and SentencePiece, and
//! invalid folders are rejected.

use chumoku::explain::InnerSteps;
use chumoku::models::TranslationBatch;
use chumoku::nn::Mode;
use chumoku::params::Params;
use chumoku::pretrained::TranslatorCheckpoint;
use chumoku::row::AsRow;
use chumoku::text::TextTokenizer;
use chumoku::{ModelKind, Precision, TextTranslator, TranslateOptions};
use ndarray::Array2;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::{GoldenFile, Tolerance, compare};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/pretrained/marian")
}

/// The golden pairs; targets begin with the start token.
fn pairs(expected: &GoldenFile) -> TranslationBatch {
    let ids = |name: &str| expected.integers(name).into_iter().map(|x| x as u32).collect::<Vec<u32>>();
    let lengths = |name: &str| -> Vec<usize> {
        let ends = expected.integers(name);
        ends.windows(2).map(|pair| pair[1] - pair[0]).collect()
    };
    let mut batch = TranslationBatch::default();
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
fn outputs_and_gradients_match_transformers() {
    let expected = GoldenFile::read("pretrained/marian/expected");
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
    let dout = Array2::from_shape_vec(last.dim(), expected.tensor_f32("in.dout")).unwrap();
    let mut grads = Params::zeros(model.layout());
    model.backward(&params, &batch, &cache, dout, Mode::Eval, &mut grads).unwrap();
    let gradient = |names: &[String]| -> Vec<f64> {
        names.iter().flat_map(|name| expected.tensor(&format!("grad.{name}")).to_vec()).collect()
    };
    for param in grads.layout().iter() {
        let (ours, range) = (param.name, param.range);
        if ours == "output_bias" {
            assert!(grads.values()[range].iter().all(|&d| d == 0.0));
            continue;
        }
        let (_, source) = source.tensors.iter().find(|(name, _)| name == ours).unwrap();
        let expected = gradient(source.names());
        let mut found = grads.values()[range].to_vec();
        // In PyTorch the padding row gets no gradient, although targets start with it.
        if ours == "embedding.weight" {
            found[49 * 16..].fill(0.0);
        }
        let found = Array2::from_shape_vec((1, found.len()), found).unwrap();
        close(ours, &found, &expected);
    }
}

/// A tokenizer of words: "t7" has id 7, and there are no special tokens around a text.
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

/// Copies the golden folder with the tokenizer of words.
fn folder_of_words() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(golden().join(file), folder.path().join(file)).unwrap();
    }
    write(folder.path(), "tokenizer.json", &words());
    folder
}

fn spell(ids: &[u64]) -> String {
    ids.iter().map(|id| format!("t{id}")).collect::<Vec<_>>().join(" ")
}

/// Generates translations with transformers, given sources, beam size and maximum length.
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

fn run_python(python: &std::ffi::OsStr, script: &str, folder: &Path, input: &Value) -> Value {
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

/// Randomizes the weights so that translations end and differ from each other.
fn randomize_weights(folder: &Path) {
    let path = folder.join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let mut random = testkit::Random::new(11);
    let mut tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap().tensors();
    tensors.sort_by(|a, b| a.0.cmp(&b.0));
    let drawn: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .into_iter()
        .map(|(name, view)| {
            let is_matrix = view.shape().len() == 2;
            let size = match name.as_str() {
                "model.shared.weight" => 0.9,
                "final_logits_bias" => 0.2,
                _ if is_matrix => 2.6,
                _ if name.ends_with("norm.weight") => 1.7,
                _ => 0.1,
            };
            let mut numbers = random.numbers(view.shape().iter().product());
            numbers.iter_mut().for_each(|x| *x *= size);
            match name.as_str() {
                "model.shared.weight" => numbers[..16].fill(0.0),
                "final_logits_bias" => numbers[0] = 3.0,
                _ => {}
            }
            (name, view.shape().to_vec(), numbers.iter().flat_map(|x| x.to_le_bytes()).collect())
        })
        .collect();
    let views = drawn.iter().map(|(name, shape, bytes)| {
        (name, safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.clone(), bytes).unwrap())
    });
    // In the format that transformers reads.
    let format = std::collections::HashMap::from([("format".to_owned(), "pt".to_owned())]);
    std::fs::write(path, safetensors::serialize(views, Some(format)).unwrap()).unwrap();
}

#[test]
fn translations_match_transformers() {
    let folder = folder_of_words();
    randomize_weights(folder.path());
    assert_eq!(ModelKind::from_folder(folder.path()).unwrap(), ModelKind::Translator);
    let mut model = TextTranslator::load(folder.path()).unwrap();
    model.set_precision(Precision::Highest);
    let mut random = testkit::Random::new(7);
    let sources: Vec<Vec<u64>> =
        (0..40).map(|i| (0..1 + i % 9).map(|_| 2 + random.below(46) as u64).collect()).collect();
    // 2n + 20, but at most 19, which with the start token is the model's limit.
    let most = 19;
    let written = |beam: usize| -> Vec<Vec<u64>> {
        let mut options = TranslateOptions::default();
        (options.beam, options.length_penalty) = (beam, 0.0);
        let texts: Vec<String> = sources.iter().map(|ids| spell(ids)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let found = model.translate(&texts, &options).unwrap();
        let ids = |ids: &[u32]| ids.iter().map(|&id| u64::from(id)).collect::<Vec<_>>();
        found.iter().map(|translation| ids(&translation.hypotheses[0].1.ids)).collect()
    };
    let beams = [1, 4];
    let found: Vec<Vec<u64>> = beams.into_iter().flat_map(written).collect();
    assert!(found.iter().flatten().all(|&id| id != 49), "padding is never generated");
    let different: std::collections::HashSet<_> = found.iter().collect();
    let ended = found.iter().filter(|ids| ids.len() < most).count();
    assert!(different.len() > 30 && ended > 10, "{} of {} differ, {ended} end", different.len(), found.len());
    let Some(python) = testkit::python("torch, transformers") else { return };
    let cases: Vec<Value> = beams
        .into_iter()
        .flat_map(|beam| sources.iter().map(move |ids| json!([([&ids[..], &[0]].concat()), beam, most])))
        .collect();
    let expected = run_python(&python, GENERATE, folder.path(), &json!(cases));
    let expected: Vec<Vec<u64>> = serde_json::from_value(expected).unwrap();
    for ((case, found), expected) in cases.iter().zip(&found).zip(&expected) {
        assert_eq!(found, expected, "{case}");
    }
}

/// Trains SentencePiece models and numbers their pieces as Marian's converter does. Prints the tokens of texts and the
/// texts of tokens. Some of the pieces have no id.
const SENTENCE_PIECE: &str = r#"
import json, os, sys, warnings
os.environ["HF_HUB_OFFLINE"] = "1"
warnings.simplefilter("ignore")
import sentencepiece as spm
from transformers import MarianTokenizer
folder = sys.argv[1]
given = json.load(sys.stdin)
kinds = {
    "default": {},
    "identity": dict(normalization_rule_name="identity"),
    "folded": dict(normalization_rule_name="nmt_nfkc_cf"),
    "nfkc": dict(normalization_rule_name="nfkc", user_defined_symbols=["<br>", "good", "日本"]),
    "spaces": dict(remove_extra_whitespaces=False),
    "bare": dict(add_dummy_prefix=False, character_coverage=0.98),
}
answers = {}
for kind, options in kinds.items():
    place = os.path.join(folder, kind)
    os.makedirs(place)
    for side, texts in (("source", given["train"]), ("target", given["train"][::2])):
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(texts), model_prefix=os.path.join(place, side), vocab_size=300, hard_vocab_limit=False,
            bos_id=-1, eos_id=0, unk_id=1, minloglevel=2, num_threads=1, **options)
        os.rename(os.path.join(place, side + ".model"), os.path.join(place, side + ".spm"))
    pieces = {"</s>": 0, "<unk>": 1, ">>fra<<": 2}
    for side in ("source", "target"):
        model = spm.SentencePieceProcessor(model_file=os.path.join(place, side + ".spm"))
        for i in range(2, model.get_piece_size()):
            if i % 17:
                pieces.setdefault(model.id_to_piece(i), len(pieces))
    pieces["<pad>"] = len(pieces)
    with open(os.path.join(place, "vocab.json"), "w") as file:
        json.dump(pieces, file)
    files = [os.path.join(place, name) for name in ("source.spm", "target.spm", "vocab.json")]
    tokenizer = MarianTokenizer(*files)
    tokenizer.punc_normalizer = lambda text: text
    ids = [tokenizer.convert_tokens_to_ids(tokenizer._tokenize(text)) for text in given["texts"]]
    answers[kind] = {"ids": ids, "texts": [tokenizer.decode(each, skip_special_tokens=True) for each in ids]}
json.dump(answers, sys.stdout)
"#;

const LINES: [&str; 12] = [
    "The room was clean and quiet, and the staff was very friendly.",
    "Good food, good people: we will come again in 2026!",
    "Never again; it broke after two days (and nobody answered).",
    "「海辺の良い一日。」と、日本の友人が言いました。",
    "料理がおいしく、また来たいです。ﾊﾝｶｸとＺＥＮＫＡＫＵ。",
    "Привет! Как дела? Хорошо, спасибо.",
    "Il était une fois, dans un village près de la mer…",
    "Größe, Straße, Ärger, naïve café, e\u{301}te\u{301}.",
    "3½ cups, 5 km², № 7, ﬁne ﬂour, Ⅳ, ㍿, ﷺ",
    "<br>line breaks<br> and symbols: € $ % & @ #",
    "to be, or not to be, that is the question",
    "good morning, good evening, good night",
];

const ODD: [&str; 14] = [
    "",
    " ",
    "   leading and   inner   spaces  ",
    "tabs\tand\nlines\r\n",
    "\u{3000}全角スペース\u{3000}です\u{3000}",
    ">>fra<< The room was clean.",
    ">>fra<<The room",
    ">>xyz<< unknown language",
    ">> not a code",
    "emoji 🎉🎈 👨‍👩‍👧 and \u{200b}zero\u{200d}width\u{feff}",
    "\u{0}\u{1}\u{7f}control",
    "한국어 नमस्ते العربية ไทย",
    "▁already▁marked▁",
    "ﷺ㍿㌫ﬃ Å Å é é ｶﾞ ゙",
];

#[test]
fn tokens_match_sentencepiece() {
    let Some(python) = testkit::python("sentencepiece, transformers") else { return };
    let folder = tempfile::tempdir().unwrap();
    // Shuffled words of the lines: enough to train on and to compare.
    let mut random = testkit::Random::new(3);
    let words: Vec<&str> = LINES.iter().flat_map(|line| line.split(' ')).collect();
    let mut mixed = |count: usize| -> Vec<String> {
        (0..count)
            .map(|_| (0..1 + random.below(15)).map(|_| words[random.below(words.len())]).collect::<Vec<_>>().join(" "))
            .collect()
    };
    let train: Vec<String> = LINES.iter().map(|line| (*line).to_owned()).chain(mixed(600)).collect();
    let texts: Vec<String> = LINES.iter().chain(&ODD).map(|line| (*line).to_owned()).chain(mixed(400)).collect();
    let answers = run_python(&python, SENTENCE_PIECE, folder.path(), &json!({ "train": train, "texts": texts }));
    for (kind, expected) in answers.as_object().unwrap() {
        let place = folder.path().join(kind);
        let read = |side: &str| TextTokenizer::read_marian(&place.join(side), &place.join("vocab.json")).unwrap();
        let (source, target) = (read("source.spm"), read("target.spm"));
        let ids: Vec<Vec<u32>> = serde_json::from_value(expected["ids"].clone()).unwrap();
        let written: Vec<String> = serde_json::from_value(expected["texts"].clone()).unwrap();
        for ((text, ids), written) in texts.iter().zip(&ids).zip(&written) {
            let found = source.encode(text).unwrap();
            let names = |ids: &[u32]| ids.iter().map(|&id| source.token(id)).collect::<Vec<_>>();
            assert_eq!(found.ids, *ids, "{kind}: {text:?}\n{:?}\n{:?}", names(&found.ids), names(ids));
            assert_eq!(target.decode(ids).unwrap(), *written, "{kind}: {text:?}");
            assert!(found.spans.iter().all(|&(start, end)| text.get(start..end).is_some()), "{kind}: {text:?}");
        }
        assert_eq!(ids.len(), texts.len());
        let unknown = ids.iter().flatten().filter(|&&id| id == 1).count();
        let all = ids.iter().map(Vec::len).sum::<usize>();
        assert!(unknown > 0 && unknown < all / 2, "{kind}: {unknown} of {all} are unknown");
    }
}

/// Encodes a protobuf field: its number, and bytes.
fn message(field: u8, bytes: &[u8]) -> Vec<u8> {
    let mut length = bytes.len();
    let mut all = vec![field << 3 | 2];
    while length >= 0x80 {
        all.push(length as u8 | 0x80);
        length >>= 7;
    }
    [&all[..], &[length as u8], bytes].concat()
}

/// Returns a SentencePiece file of words.
fn pieces() -> Vec<u8> {
    let piece = |text: &str, score: f32, kind: u8| {
        message(1, &[&message(1, text.as_bytes())[..], &[21], &score.to_le_bytes(), &[24, kind]].concat())
    };
    let words = (2..48).map(|id| piece(&format!("▁t{id}"), -(id as f32), 1));
    [piece("</s>", 0.0, 3), piece("<unk>", 0.0, 2)].into_iter().chain(words).flatten().collect()
}

/// Creates the golden folder in the published form, with words for tokens.
fn published() -> tempfile::TempDir {
    let folder = folder_of_words();
    std::fs::remove_file(folder.path().join("tokenizer.json")).unwrap();
    let special = [("</s>".to_owned(), 0), ("<unk>".into(), 1), (">>fra<<".into(), 48), ("<pad>".into(), 49)];
    let words = (2..48).map(|id| (format!("▁t{id}"), id));
    let vocabulary: serde_json::Map<String, Value> =
        special.into_iter().chain(words).map(|(token, id)| (token, id.into())).collect();
    write(folder.path(), "vocab.json", &vocabulary.into());
    for side in ["source.spm", "target.spm"] {
        std::fs::write(folder.path().join(side), pieces()).unwrap();
    }
    folder
}

#[test]
fn a_published_folder_translates_like_one_with_tokenizer_json() {
    let folder = published();
    let mut model = TextTranslator::load(folder.path()).unwrap();
    let by_words = TextTranslator::load(folder_of_words().path()).unwrap();
    let options = TranslateOptions::default();
    let ids = |model: &TextTranslator, text: &str| {
        let found = model.translate(&[text], &options).unwrap().remove(0);
        assert!(!found.text().contains("<pad>") && !found.text().contains('▁'), "{}", found.text());
        found.hypotheses[0].1.ids.clone()
    };
    for text in ["t5 t9 t30", "t2", "t40 t41 t42 t43 t44"] {
        assert_eq!(ids(&model, text), ids(&by_words, text));
    }
    // A language tag before a text is a token, called t48 here.
    assert_eq!(ids(&model, ">>fra<< t5 t9"), ids(&by_words, "t48 t5 t9"));
    // Long texts are truncated, and an empty text is allowed.
    let long = spell(&[7; 60]);
    let found = model.translate(&[&long, ""], &options).unwrap();
    assert!(found[0].is_truncated && !found[1].is_truncated);
    assert_eq!(model.config().names, ["source", "target"]);
    // The trace lists the attended words and the effect of each word.
    let alignment = model.align("t5 t9 t30", Some("t7 t8")).unwrap();
    assert_eq!(alignment.source, ["▁t5", "▁t9", "▁t30", "</s>"]);
    assert_eq!(alignment.target, ["▁t7", "▁t8", "</s>"]);
    assert_eq!(alignment.layers.len(), 1);
    assert_eq!(alignment.layers[0].dim(), (4, 3, 4));
    let explained = model.explain("t5 t9 t30", Some("t7 t8"), "golden").unwrap();
    assert_eq!((explained.layers, explained.heads), (1, 4));
    assert_eq!(explained.source_words.len(), 4);
    assert_eq!(explained.lens.as_ref().map(|lens| lens.tokens.len()), Some(3));
    let without = model.explain_with_steps("t5 t9 t30", Some("t7 t8"), "golden", &InnerSteps::NONE).unwrap();
    assert_eq!(without, chumoku::explain::Alignment { lens: None, ..explained });
    // A wrong alignment is refused before the translation is looked at, which is too long.
    let steps = InnerSteps { patch: Some("t5 t8 t30".as_row()), aligned: Some(&[[99, 0]]), ..InnerSteps::default() };
    let refused = model.explain_with_steps("t5 t9 t30", Some(&"t7 ".repeat(99)), "golden", &steps).unwrap_err();
    assert!(refused.to_string().contains("align: "), "{refused}");
    let error = model.save(&folder.path().join("new")).unwrap_err().to_string();
    assert!(error.contains("copy its folder"), "{error}");
    model.set_precision(Precision::Medium);
    assert_eq!(model.translate(&["t5"], &options).unwrap().len(), 1);
    write(folder.path(), "tokenizer_config.json", &json!({ "source_lang": "eng", "target_lang": "fra" }));
    assert_eq!(TextTranslator::load(folder.path()).unwrap().config().names, ["eng", "fra"]);
}

/// Returns the one-line error of loading a folder, which must name the file.
fn load_error(folder: &Path) -> String {
    let Err(error) = TextTranslator::load(folder) else { panic!("expected an error") };
    assert!(error.is_usage(), "{error}");
    let message = error.to_string();
    assert!(!message.contains('\n') && message.contains(folder.to_str().unwrap()), "{message}");
    message
}

#[test]
fn unsupported_settings_are_rejected_by_name() {
    let folder = published();
    let path = folder.path().join("config.json");
    let sound: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for (key, value, said) in [
        ("scale_embedding", json!(false), "scale_embedding"),
        ("static_position_embeddings", json!(false), "static_position_embeddings"),
        ("normalize_before", json!(true), "normalize_before"),
        ("normalize_embedding", json!(true), "normalize_embedding"),
        ("add_final_layer_norm", json!(true), "add_final_layer_norm"),
        ("share_encoder_decoder_embeddings", json!(false), "share_encoder_decoder_embeddings"),
        ("tie_word_embeddings", json!(false), "tie_word_embeddings"),
        ("decoder_vocab_size", json!(60), "decoder_vocab_size"),
        ("activation_function", json!("mish"), "activation_function"),
        ("encoder_layers", json!(1_000_000_000), "num_layers"),
        ("decoder_layers", json!(1_000_000_000), "num_layers"),
        ("decoder_layers", json!(0), "num_layers"),
        ("encoder_layers", json!(3), "model.encoder.layers.2.fc1.bias"),
        ("encoder_layers", json!(1), "model.encoder.layers.1.fc1.bias"),
        ("decoder_layers", json!(2), "model.decoder.layers.1.encoder_attn.k_proj.bias"),
        ("encoder_attention_heads", json!(3), "num_heads"),
        ("decoder_attention_heads", json!(0), "num_heads"),
        ("decoder_attention_heads", json!(u64::MAX), "num_heads"),
        ("decoder_ffn_dim", json!(31), "fc1.bias: expected F32, F16 or BF16 [31]"),
        ("encoder_ffn_dim", json!(u64::MAX), "d_ff"),
        ("d_model", json!(0), "d_model"),
        ("d_model", json!(24), "expected F32, F16 or BF16"),
        ("vocab_size", json!(u64::MAX), "vocab_size"),
        ("vocab_size", json!(40), "vocab.json"),
        ("max_position_embeddings", json!(0), "max_position_embeddings"),
        ("max_position_embeddings", json!(u64::MAX), "max_position_embeddings"),
        ("eos_token_id", json!([0, 3]), "eos_token_id"),
        ("eos_token_id", json!(49), "eos_token_id"),
        ("eos_token_id", json!(50), "found 50"),
        ("decoder_start_token_id", json!(4_000_000_000u32), "found 4000000000"),
        ("forced_bos_token_id", json!(3), "forced_bos_token_id"),
        ("bad_words_ids", json!([[1, 2]]), "bad_words_ids"),
        ("bad_words_ids", json!([[0]]), "eos_token_id"),
        ("quantization_config", json!({ "bits": 8 }), "quantization_config"),
    ] {
        let mut config = sound.clone();
        config[key] = value.clone();
        config["decoder_vocab_size"] =
            if key == "vocab_size" { Value::Null } else { config["decoder_vocab_size"].clone() };
        write(folder.path(), "config.json", &config);
        let found = load_error(folder.path());
        assert!(found.contains(said), "{key} {value}: {found}");
    }
}

#[test]
fn damaged_folders_are_rejected() {
    for (missing, said) in [
        ("source.spm", "source.spm"),
        ("target.spm", "target.spm"),
        ("vocab.json", "vocab.json"),
        ("model.safetensors", "model.safetensors"),
    ] {
        let folder = published();
        std::fs::remove_file(folder.path().join(missing)).unwrap();
        assert!(load_error(folder.path()).contains(said), "{missing}");
    }
    let folder = published();
    let damaged = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        let sound = std::fs::read(&path).unwrap();
        std::fs::write(&path, bytes).unwrap();
        let message = load_error(folder.path());
        assert!(message.contains(name), "{message}");
        std::fs::write(&path, sound).unwrap();
        message
    };
    let sound = pieces();
    damaged("source.spm", b"");
    damaged("target.spm", &sound[..sound.len() - 1]);
    damaged("target.spm", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f");
    damaged("vocab.json", b"[]");
    damaged("vocab.json", b"{}");
    damaged("vocab.json", br#"{"<unk>": 1, "a": -1}"#);
    damaged("vocab.json", br#"{"<unk>": 1, "a": 1}"#);
    damaged("vocab.json", br#"{"<unk>": 1, "a": 16000000}"#);
    damaged("vocab.json", br#"{"<unk>": 1, "a": 1.5}"#);
    // Weights of another model.
    let other = std::fs::read(golden().join("../bert/model.safetensors")).unwrap();
    assert!(damaged("model.safetensors", &other).contains("missing"));
    write(folder.path(), "tokenizer_config.json", &json!({ "separate_vocabs": true }));
    assert!(load_error(folder.path()).contains("separate_vocabs"));
}
