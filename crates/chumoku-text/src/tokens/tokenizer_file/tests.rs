//! Files that would make the `tokenizers` library panic, use all memory or run forever.

use super::{BASE64, Engine};
use crate::tokens::sentencepiece::character_map::tests::table;
use crate::tokens::{NormalizationForm, PretrainedTokenizer, TextTokenizer, TokenizationUnit, TokenizerConfig};
use serde_json::{Value, json};

fn file(unit: TokenizationUnit, form: NormalizationForm) -> Value {
    let texts = ["the film was great, the film.", "この映画はとても良かった。この映画。"];
    let config = TokenizerConfig { vocab_size: 330, min_frequency: 1, form, unit };
    serde_json::from_str(&TextTokenizer::train(&texts, &config).unwrap().to_json().unwrap()).unwrap()
}

fn subwords() -> Value {
    file(TokenizationUnit::Subwords, NormalizationForm::NfkcLowercase)
}

#[track_caller]
fn refused(file: &Value, word: &str) {
    let error = TextTokenizer::from_json(&file.to_string()).unwrap_err().to_string();
    assert!(error.contains(word), "“{word}” is missing: {error}");
    assert!(!error.contains('\n') && error.chars().count() < 450, "{error}");
}

fn edited(edit: impl FnOnce(&mut Value)) -> Value {
    let mut file = subwords();
    edit(&mut file);
    file
}

#[test]
fn harmful_models_are_refused() {
    let model = |key: &'static str, value: Value, word: &str| {
        refused(&edited(|file| file["model"][key] = value), word);
    };
    // The library strips the prefix of the second token without checking: a panic, or bytes that are not UTF-8.
    model("continuing_subword_prefix", "x".repeat(100).into(), "model.continuing_subword_prefix");
    model("continuing_subword_prefix", "x".repeat(40).into(), "model.merges[0]");
    model("continuing_subword_prefix", "##".into(), "model.merges[0]");
    model("end_of_word_suffix", "x".repeat(1_000_000).into(), "model.end_of_word_suffix");
    model("unk_token", "nowhere".into(), "model.unk_token");
    model("dropout", 0.5.into(), "model.dropout");
    model("merges", json!([["t", "nowhere"]]), "model.merges[0]");
    model("merges", json!(["t h e"]), "model.merges[0]");
    model("merges", json!(["t", 7]), "model.merges[0]");
    model("merges", json!(7), "model.merges");
    model("merges", json!([["", ""]]), "model.merges[0]");
    model("vocab", json!([]), "model.vocab");
    model("vocab", Value::Null, "model.vocab");
    model("type", "Markov".into(), "model.type");
    model("type", 7.into(), "model.type");
    for id in [json!(-1), json!(1.5), json!(u64::MAX), json!(4_000_000_000u64), json!(1 << 24), json!("1"), json!(null)]
    {
        refused(&edited(|file| file["model"]["vocab"]["a"] = id), "model.vocab: token “a”");
    }
    refused(&edited(|file| file["model"]["vocab"]["a"] = 0.into()), "the same number 0");
    refused(&edited(|file| file["model"]["vocab"]["b".repeat(5000)] = 999.into()), "bytes");
    refused(&edited(|file| file["model"] = Value::Null), "model");
    refused(&Value::Null, "object");
    let mut words = file(TokenizationUnit::Words, NormalizationForm::Unchanged);
    words["model"]["unk_token"] = "nowhere".into();
    refused(&words, "model.unk_token");
    words["model"].as_object_mut().unwrap().remove("unk_token");
    refused(&words, "model.unk_token");
    for most in [json!(1_000_000_000_000u64), json!(-1), Value::Null] {
        let pieces = json!({ "type": "WordPiece", "vocab": { "[CLS]": 0, "[UNK]": 1, "a": 2 }, "unk_token": "[UNK]",
            "continuing_subword_prefix": "##", "max_input_chars_per_word": most });
        refused(&edited(|file| file["model"] = pieces), "max_input_chars_per_word");
    }
    for unknown in [json!(9), json!(-1), Value::Null] {
        let scored = json!({ "type": "Unigram", "vocab": [["[CLS]", 0.0], ["a", -1.0]], "unk_id": unknown });
        refused(&edited(|file| file["model"] = scored), "model.unk_id");
    }
    // A trie as deep as a token is long is dropped recursively.
    let deep = json!({ "type": "Unigram", "vocab": [["[CLS]", 0.0], ["a".repeat(1_000_000), -1.0]], "unk_id": 0 });
    refused(&edited(|file| file["model"] = deep), "bytes");
}

#[test]
fn harmful_steps_are_refused() {
    let part = |key: &'static str, value: Value, word: &str| refused(&edited(|file| file[key] = value), word);
    let regex = |regex: &str| json!({ "type": "Split", "pattern": { "Regex": regex }, "behavior": "Isolated", "invert": false });
    let replace = |what: &str, by: String| json!({ "type": "Replace", "pattern": { "String": what }, "content": by });
    let sequence = |list: &str, member: Value, times: usize| json!({ "type": "Sequence", list: vec![member; times] });
    part("pre_tokenizer", regex("((("), "pre_tokenizer.pattern.Regex “(((”");
    part("pre_tokenizer", regex(r"(?:(?=x)|a)*"), "pre_tokenizer.pattern.Regex");
    part("pre_tokenizer", regex(r"(a|a)*\1(?!b)"), "pre_tokenizer.pattern.Regex");
    part("pre_tokenizer", regex(r"(?:\p{L}{1000}){1000}"), "pre_tokenizer.pattern.Regex");
    part("pre_tokenizer", regex("[z-a]"), "pre_tokenizer.pattern.Regex “[z-a]”");
    part("pre_tokenizer", regex(&"a".repeat(5000)), "pre_tokenizer.pattern.Regex");
    part("pre_tokenizer", json!({ "type": "FixedLength", "length": 0 }), "pre_tokenizer.length");
    part("pre_tokenizer", json!({ "type": "Nowhere" }), "");
    part("pre_tokenizer", json!({}), "pre_tokenizer");
    part("pre_tokenizer", json!([]), "pre_tokenizer");
    let bytes = json!({ "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": false });
    part("pre_tokenizer", sequence("pretokenizers", bytes, 7), "times as long, expected at most 64");
    let mut nested = json!({ "type": "Whitespace" });
    for _ in 0..50 {
        nested = sequence("pretokenizers", nested, 1);
    }
    part("pre_tokenizer", nested, "sequences");
    part("pre_tokenizer", sequence("pretokenizers", json!({ "type": "Whitespace" }), 65), "at most 64");
    part("pre_tokenizer", json!({ "type": "Sequence", "pretokenizers": 7 }), "pre_tokenizer.pretokenizers");

    part("normalizer", replace("a", "b".repeat(1000)), "normalizer");
    part("normalizer", replace("", "b".repeat(100)), "normalizer");
    part("normalizer", sequence("normalizers", replace("a", "aa".into()), 7), "normalizer.normalizers[6]");
    part("normalizer", sequence("normalizers", replace("a", "b".repeat(5000)), 1), "bytes");
    let behind = json!({ "type": "Replace", "pattern": { "Regex": "(?=a)" }, "content": "b".repeat(64) });
    part("normalizer", behind, "65 times");
    part("normalizer", json!({ "type": "Prepend", "prepend": "b".repeat(100) }), "normalizer.prepend");
    let precompiled = |map: &[u8]| json!({ "type": "Precompiled", "precompiled_charsmap": BASE64.encode(map) });
    let beyond = [&table()[..0x41 * 4 + 4], &[0xff, 0xff, 0xff, 0x7f], &table()[0x42 * 4 + 4..]].concat();
    part("normalizer", precompiled(&[255; 3]), "normalizer.precompiled_charsmap");
    part("normalizer", precompiled(&beyond), "normalizer.precompiled_charsmap");
    part(
        "normalizer",
        sequence("normalizers", precompiled(&[b"\x04\0\0\0\0\0\0\0", &[b'x'; 300][..]].concat()), 1),
        "300 bytes",
    );
    part("normalizer", json!({ "type": "Precompiled", "precompiled_charsmap": "not base64 at all" }), "base64");
    part("normalizer", json!({ "type": "Precompiled" }), "base64");
    part("normalizer", json!({ "type": "Replace" }), "");

    part("decoder", replace("a", "b".repeat(1000)), "decoder");
    let ctc = json!({ "type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": true });
    part("decoder", sequence("decoders", ctc, 7), "decoder.decoders[6]");
    part("decoder", sequence("decoders", json!({ "type": "BPEDecoder", "suffix": "" }), 64), "decoder.decoders[6]");
    part("decoder", json!(7), "decoder");

    let template = |key: &'static str, value: Value| {
        refused(&edited(|file| file["post_processor"][key] = value), "post_processor");
    };
    let text = |id: &str| json!({ "Sequence": { "id": id, "type_id": 0 } });
    template("single", json!([text("B")]));
    template("single", json!([text("A"), text("A")]));
    template("single", json!([]));
    template("single", json!([text("A"), { "SpecialToken": { "id": "[SEP]", "type_id": 0 } }]));
    template("single", Value::Array(vec![text("A"); 100_000]));
    template("pair", json!([text("A")]));
    for token in [
        json!({ "id": "[CLS]", "ids": [0, 1], "tokens": ["[CLS]"] }),
        json!({ "id": "[CLS]", "ids": [7], "tokens": ["[CLS]"] }),
        json!({ "id": "[CLS]", "ids": [9_999_999], "tokens": ["nowhere"] }),
        json!({ "id": "[CLS]", "ids": vec![0; 1000], "tokens": vec!["[CLS]"; 1000] }),
        json!(null),
    ] {
        template("special_tokens", json!({ "[CLS]": token }));
    }

    part("added_tokens", json!(7), "added_tokens");
    part("added_tokens", json!([{ "id": 0, "content": "" }]), "added_tokens[0]");
    part("added_tokens", json!([{ "id": u64::MAX, "content": "x" }]), "added_tokens[0]");
    part("added_tokens", json!([{ "id": 9, "content": "x".repeat(5000) }]), "bytes");
    let many: Vec<Value> =
        (0..300).map(|i| json!({ "id": i, "content": format!("{i}{}", "x".repeat(4000)) })).collect();
    part("added_tokens", Value::Array(many), "added_tokens");
}

#[test]
fn truncation_and_padding_are_ignored() {
    let plain = TextTokenizer::from_json(&subwords().to_string()).unwrap().encode("the film").unwrap();
    let cut = edited(|file| {
        file["truncation"] = json!({ "direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 9 });
        file["padding"] = json!({ "strategy": { "Fixed": 1_000_000_000_000u64 }, "direction": "Right",
            "pad_to_multiple_of": 0, "pad_id": 0, "pad_type_id": 0, "pad_token": "[CLS]" });
    });
    assert_eq!(TextTokenizer::from_json(&cut.to_string()).unwrap().encode("the film").unwrap(), plain);
}

#[test]
fn valid_files_of_others_are_accepted() {
    let added = |content: &str, id: u32| {
        json!({ "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true })
    };
    let shell = |model: Value| {
        json!({ "version": "1.0", "truncation": null, "padding": null, "added_tokens": [added("[CLS]", 0)],
            "normalizer": { "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                "strip_accents": null, "lowercase": true },
            "pre_tokenizer": { "type": "BertPreTokenizer" },
            "post_processor": { "type": "BertProcessing", "sep": ["[CLS]", 0], "cls": ["[CLS]", 0] },
            "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": true }, "model": model })
    };
    let pieces = json!({ "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100, "vocab": { "[CLS]": 0, "[UNK]": 1, "fil": 2, "##m": 3 } });
    assert_eq!(TextTokenizer::from_json(&shell(pieces).to_string()).unwrap().encode("Film x").unwrap().ids, [2, 3, 1]);
    let scored = json!({ "type": "Unigram", "unk_id": 1, "vocab": [["[CLS]", 0.0], ["?", 0.0], ["film", -1.0]] });
    assert_eq!(TextTokenizer::from_json(&shell(scored).to_string()).unwrap().encode("film x").unwrap().ids, [2, 1]);
    // GPT-2's bytes in the older format: no type, merges as lines, an empty prefix.
    let mut bytes = shell(json!({ "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
        "end_of_word_suffix": "", "fuse_unk": false, "merges": ["#version: 0.2", "f i", "fi l"],
        "vocab": { "[CLS]": 0, "f": 1, "i": 2, "l": 3, "m": 4, "fi": 5, "fil": 6, "Ġ": 7 } }));
    let level = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true });
    for key in ["pre_tokenizer", "post_processor", "decoder"] {
        bytes[key] = level.clone();
    }
    bytes["normalizer"] = Value::Null;
    let bytes = TextTokenizer::from_json(&bytes.to_string()).unwrap();
    let ids = bytes.encode("film fil").unwrap().ids;
    assert_eq!((&ids[..], bytes.decode(&ids).unwrap().as_str()), (&[6, 4, 7, 6][..], "film fil"));
}

/// Values that a hostile file might contain anywhere.
fn hostile(choice: usize) -> Value {
    let values = [
        json!(null),
        json!(0),
        json!(-1),
        json!(u64::MAX),
        json!(1e300),
        json!(""),
        json!("é"),
        json!("x".repeat(3000)),
        json!([]),
        json!({}),
        json!([[[[]]]]),
        json!(true),
        json!({ "String": "" }),
        json!({ "Regex": "" }),
        json!({ "type": "Strip", "content": " ", "start": 9, "stop": 9 }),
        json!({ "type": "Sequence", "normalizers": [], "decoders": [], "pretokenizers": [], "processors": [] }),
        json!("Removed"),
        json!({ "type": "Metaspace", "replacement": "é", "prepend_scheme": "always" }),
        json!({ "type": "Punctuation", "behavior": "MergedWithNext" }),
    ];
    values[choice % values.len()].clone()
}

/// Collects JSON pointers to a value and its content, with a few entries of each list.
fn places(value: &Value, at: String, found: &mut Vec<String>) {
    found.push(at.clone());
    match value {
        Value::Array(values) => {
            values.iter().enumerate().take(3).for_each(|(i, value)| places(value, format!("{at}/{i}"), found));
        }
        Value::Object(values) => values.iter().take(20).for_each(|(key, value)| {
            places(value, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found)
        }),
        _ => {}
    }
}

#[test]
fn no_value_causes_a_panic_or_an_endless_wait() {
    for (unit, form) in
        [(TokenizationUnit::Subwords, NormalizationForm::Nfkc), (TokenizationUnit::Words, NormalizationForm::Unchanged)]
    {
        let sound = file(unit, form);
        let mut all = Vec::new();
        places(&sound, String::new(), &mut all);
        assert!(all.len() > 50, "{all:?}");
        for (i, place) in all.iter().enumerate() {
            // The step covers every value everywhere, or every fifth, with different ones at each place.
            let step = testkit::cases("chumoku-text", 5, 1) as usize;
            for choice in (i % step..19).step_by(step) {
                // One changed value, and in a third of the cases a second.
                let mut changed = sound.clone();
                *changed.pointer_mut(place).unwrap() = hostile(choice);
                let second = &all[(i * 7 + choice * 13) % all.len()];
                if let Some(other) = changed.pointer_mut(second).filter(|_| choice % 3 == 0) {
                    *other = hostile(i + choice);
                }
                let Ok(tokenizer) = TextTokenizer::from_json(&changed.to_string()) else { continue };
                let _ = tokenizer.to_json();
                for text in ["", " the film é 映画\n12", "[CLS] a\u{301} 🎉"] {
                    let Ok(encoded) = tokenizer.encode(text) else { continue };
                    assert!(encoded.spans.iter().all(|&(a, b)| text.get(a..b).is_some()), "{place} {choice}");
                    let _ = tokenizer.decode(&encoded.ids);
                }
                let _ = tokenizer.decode(&[0, 1, 2, u32::MAX]);
            }
        }
    }
}

#[test]
fn a_character_map_is_applied() {
    let file = json!({
        "version": "1.0",
        "added_tokens": [],
        "normalizer": { "type": "Precompiled", "precompiled_charsmap": BASE64.encode(table()) },
        "model": { "type": "Unigram", "unk_id": 0, "vocab": [["?", 0.0], ["a", -1.0], ["ee", -1.0], ["b", -1.0]] }
    });
    let tokenizer = PretrainedTokenizer::from_json(&file.to_string()).unwrap();
    let tokens = tokenizer.encode("Abé", 9).unwrap();
    assert_eq!(tokens.ids, [1, 3, 2]);
    assert_eq!(tokens.spans, [(0, 1), (1, 2), (2, 4)]);
    // The character map is written with the file.
    let again = PretrainedTokenizer::from_json(&tokenizer.to_json().unwrap()).unwrap();
    assert_eq!(again.encode("Abé", 9).unwrap(), tokens);
}
