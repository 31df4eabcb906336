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

/// Trains SentencePiece models and numbers their pieces as Marian's converter does; prints the tokens of texts, and what
/// tokens are written as. A part of the pieces has no number.
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
fn tokens_are_those_of_sentencepiece() {
    let Some(python) = testkit::python("sentencepiece, transformers") else { return };
    let folder = tempfile::tempdir().unwrap();
    // Words of the lines in other orders: enough to learn from, and to compare.
    let mut random = testkit::Random::new(3);
    let words: Vec<&str> = LINES.iter().flat_map(|line| line.split(' ')).collect();
    let mut mixed = |count: usize| -> Vec<String> {
        (0..count)
            .map(|_| (0..1 + random.below(15)).map(|_| words[random.below(words.len())]).collect::<Vec<_>>().join(" "))
            .collect()
    };
    let train: Vec<String> = LINES.iter().map(|line| (*line).to_owned()).chain(mixed(600)).collect();
    let texts: Vec<String> = LINES.iter().chain(&ODD).map(|line| (*line).to_owned()).chain(mixed(400)).collect();
    let answers = asked(&python, SENTENCE_PIECE, folder.path(), &json!({ "train": train, "texts": texts }));
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
