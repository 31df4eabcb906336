//! Validates a `tokenizer.json`. Model folders may come from anyone, and the `tokenizers` library trusts its file: some
//! files make it panic, use all memory or run forever. The file is checked before the library sees it. Harmful content
//! is refused with its path in the file, and everything else is accepted.

use super::pattern;
use super::sentencepiece::character_map::CharacterMap;
use crate::lang::lang;
use crate::tr;
use base64::prelude::{BASE64_STANDARD as BASE64, Engine};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Largest file that is read, in bytes. The largest in use has 40 million.
pub(super) const MAX_FILE_BYTES: u64 = 64 << 20;
/// One more than the largest token id.
pub(super) const MAX_IDS: u64 = 1 << 24;
/// Longest token, in bytes.
const MAX_TOKEN_BYTES: usize = 4096;
/// Most bytes of all added tokens. The library builds an automaton from them that takes many times as much.
const MAX_ADDED_BYTES: usize = 1 << 20;
/// Longest setting, such as a pattern, in bytes.
const MAX_SETTING_BYTES: usize = 4096;
/// Longest prefix or suffix of each word, in bytes.
const MAX_AFFIX_BYTES: usize = 64;
/// Most normalizers, pre-tokenizers, decoders or post-processors.
const MAX_STEPS: usize = 64;
/// Deepest nesting of sequences.
const MAX_SEQUENCE_DEPTH: usize = 4;
/// The largest factor by which a text may grow before it is split, or a token when it is decoded.
const MAX_GROWTH: f64 = 64.0;

/// A normalizer, pre-tokenizer, decoder or post-processor, and its path in the file.
struct PipelineStep<'a> {
    path: String,
    kind: &'a str,
    settings: &'a Map<String, Value>,
}

/// Quotes the start of a token or of another text of the file, for a message.
fn quote_start(text: &str) -> String {
    let start: String = text.chars().take(30).collect();
    if start.len() < text.len() { format!("“{start}…”") } else { format!("“{start}”") }
}

fn expected_error(place: &str, what_en: &str, what_ja: &str) -> String {
    let what = lang().pick(what_en, what_ja);
    tr!("{place}: expected {what}", "{place}: {what}が必要です")
}

/// Validates a file and prepares it for the library. `is_known` accepts the patterns that this program writes.
///
/// Truncation and padding are removed, because the model decides about both.
///
/// # Errors
/// A one-line message with the path in the file.
pub(super) fn validate(file: &mut Value, is_known: &dyn Fn(&str) -> bool) -> Result<(), String> {
    let Some(root) = file.as_object_mut() else {
        return Err(tr!("expected a JSON object", "JSON のオブジェクトが必要です"));
    };
    root.insert("truncation".into(), Value::Null);
    root.insert("padding".into(), Value::Null);
    let Some(model) = root.get_mut("model").and_then(Value::as_object_mut) else {
        return Err(expected_error("model", "an object", "オブジェクト"));
    };
    if !model.contains_key("type") {
        // Early files have no type. Without one, the library would try every kind in turn.
        let kind = match model.get("vocab") {
            Some(Value::Array(_)) => "Unigram",
            _ if model.contains_key("merges") => "BPE",
            _ if model.contains_key("max_input_chars_per_word") => "WordPiece",
            _ => "WordLevel",
        };
        model.insert("type".into(), kind.into());
    }
    let root = &*root;
    let mut vocabulary = check_model(&root["model"])?;
    check_added_tokens(root.get("added_tokens"), &mut vocabulary)?;

    let normalizers = pipeline_steps(root, "normalizer", "normalizers")?;
    let pre_tokenizers = pipeline_steps(root, "pre_tokenizer", "pretokenizers")?;
    let mut growth = 1.0;
    for part in normalizers.iter().chain(&pre_tokenizers) {
        growth *= step_growth(part, is_known)?;
        check_growth(growth, part)?;
    }
    let mut growth = 1.0;
    for part in pipeline_steps(root, "decoder", "decoders")? {
        growth *= step_growth(&part, is_known)?;
        check_growth(growth, &part)?;
    }
    for part in pipeline_steps(root, "post_processor", "processors")? {
        check_setting_lengths(&part.path, &Value::Object(part.settings.clone()))?;
        if part.kind == "TemplateProcessing" {
            check_template(&part, &vocabulary)?;
        }
    }
    Ok(())
}

fn check_growth(growth: f64, part: &PipelineStep<'_>) -> Result<(), String> {
    if growth <= MAX_GROWTH {
        return Ok(());
    }
    let place = &part.path;
    Err(tr!(
        "{place}: up to here a text may become {growth:.0} times as long, expected at most {MAX_GROWTH}",
        "{place}: ここまでで文章が {growth:.0} 倍の長さになりえます。{MAX_GROWTH} 倍までです"
    ))
}

/// Returns the tokens and their ids if the model is valid.
fn check_model(model: &Value) -> Result<HashMap<&str, u64>, String> {
    let text = |key: &str| model.get(key).and_then(Value::as_str);
    let kind = text("type").unwrap_or_default();
    let vocabulary =
        if kind == "Unigram" { parse_unigram_vocabulary(&model["vocab"])? } else { parse_vocabulary(&model["vocab"])? };
    for key in ["continuing_subword_prefix", "end_of_word_suffix"] {
        if text(key).is_some_and(|affix| affix.len() > MAX_AFFIX_BYTES) {
            let (en, ja) =
                (format!("at most {MAX_AFFIX_BYTES} bytes"), format!("{MAX_AFFIX_BYTES} バイトまでの文字列"));
            return Err(expected_error(&format!("model.{key}"), &en, &ja));
        }
    }
    let has_unknown = text("unk_token").is_some_and(|token| vocabulary.contains_key(token));
    let must_have_unknown = kind == "WordLevel" || kind == "WordPiece" || text("unk_token").is_some();
    if must_have_unknown && !has_unknown {
        return Err(expected_error("model.unk_token", "a token of the vocabulary", "語彙にあるトークン"));
    }
    match kind {
        "BPE" => {
            if model.get("dropout").is_some_and(|dropout| !dropout.is_null() && dropout.as_f64() != Some(0.0)) {
                return Err(tr!(
                    "model.dropout: expected null; with dropout the same text would not always have the same tokens",
                    "model.dropout: null が必要です。ドロップアウトがあると同じ文章が同じトークンになりません"
                ));
            }
            check_merges(&model["merges"], text("continuing_subword_prefix").unwrap_or_default(), &vocabulary)?;
        }
        "WordPiece" => {
            // The time for a word grows with the square of this number.
            if model.get("max_input_chars_per_word").and_then(Value::as_u64).is_none_or(|most| most > 400) {
                return Err(expected_error("model.max_input_chars_per_word", "a number up to 400", "400 までの数"));
            }
        }
        "Unigram" => {
            let unknown = model.get("unk_id").and_then(Value::as_u64);
            if unknown.is_none_or(|id| id >= vocabulary.len() as u64) {
                return Err(expected_error("model.unk_id", "the number of a token", "トークンの番号"));
            }
        }
        "WordLevel" => {}
        _ => {
            return Err(expected_error(
                "model.type",
                "BPE, WordLevel, WordPiece or Unigram",
                "BPE, WordLevel, WordPiece, Unigram のどれか",
            ));
        }
    }
    Ok(vocabulary)
}

fn check_token(place: &str, token: &str) -> Result<(), String> {
    if token.len() <= MAX_TOKEN_BYTES {
        return Ok(());
    }
    let (found, token) = (token.len(), quote_start(token));
    Err(tr!(
        "{place}: token {token} has {found} bytes, expected at most {MAX_TOKEN_BYTES}",
        "{place}: トークン {token} が {found} バイトあります。{MAX_TOKEN_BYTES} バイトまでです"
    ))
}

fn parse_vocabulary(vocab: &Value) -> Result<HashMap<&str, u64>, String> {
    let Some(tokens) = vocab.as_object() else {
        return Err(expected_error(
            "model.vocab",
            "an object of tokens and their numbers",
            "トークンと番号のオブジェクト",
        ));
    };
    let mut by_id: HashMap<u64, &str> = HashMap::with_capacity(tokens.len());
    for (token, id) in tokens {
        check_token("model.vocab", token)?;
        let Some(id) = id.as_u64().filter(|&id| id < MAX_IDS) else {
            let token = quote_start(token);
            return Err(tr!(
                "model.vocab: token {token} has number {id}, expected 0 to {}",
                "model.vocab: トークン {token} の番号が {id} です。0 から {} までの数が必要です",
                MAX_IDS - 1
            ));
        };
        if let Some(other) = by_id.insert(id, token) {
            let (a, b) = (quote_start(other), quote_start(token));
            return Err(tr!(
                "model.vocab: tokens {a} and {b} have the same number {id}",
                "model.vocab: トークン {a} と {b} の番号がどちらも {id} です"
            ));
        }
    }
    Ok(by_id.into_iter().map(|(id, token)| (token, id)).collect())
}

fn parse_unigram_vocabulary(vocab: &Value) -> Result<HashMap<&str, u64>, String> {
    let Some(tokens) = vocab.as_array().filter(|tokens| (tokens.len() as u64) < MAX_IDS) else {
        return Err(expected_error("model.vocab", "a list of tokens and their scores", "トークンとスコアの配列"));
    };
    let mut found = HashMap::with_capacity(tokens.len());
    for (id, entry) in tokens.iter().enumerate() {
        let entry = entry.as_array().map(Vec::as_slice).unwrap_or_default();
        let [Value::String(token), Value::Number(_)] = entry else {
            return Err(expected_error(&format!("model.vocab[{id}]"), "a token and its score", "トークンとスコア"));
        };
        check_token("model.vocab", token)?;
        found.insert(token.as_str(), id as u64);
    }
    Ok(found)
}

/// Checks that each merge joins two tokens into a third. The library strips the prefix of the second token without
/// checking.
fn check_merges(merges: &Value, prefix: &str, vocabulary: &HashMap<&str, u64>) -> Result<(), String> {
    let Some(merges) = merges.as_array() else {
        return Err(expected_error("model.merges", "a list", "配列"));
    };
    for (rank, merge) in merges.iter().enumerate() {
        let pair = match merge {
            // The first line of the older format.
            Value::String(line) if line.starts_with("#version") => continue,
            Value::String(line) => line.split_once(' '),
            Value::Array(pair) => match &pair[..] {
                [Value::String(a), Value::String(b)] => Some((a.as_str(), b.as_str())),
                _ => None,
            },
            _ => None,
        };
        let is_sound = pair.is_some_and(|(a, b)| {
            let joined = b.strip_prefix(prefix).map(|rest| [a, rest].concat());
            [Some(a), Some(b), joined.as_deref()]
                .into_iter()
                .all(|token| token.is_some_and(|token| vocabulary.contains_key(token)))
        });
        if !is_sound {
            return Err(expected_error(
                &format!("model.merges[{rank}]"),
                "two tokens that make a third, all in the vocabulary",
                "語彙にある二つのトークン (つなぐと第三のトークンになるもの)",
            ));
        }
    }
    Ok(())
}

fn check_added_tokens<'a>(added: Option<&'a Value>, vocabulary: &mut HashMap<&'a str, u64>) -> Result<(), String> {
    let Some(added) = added.filter(|added| !added.is_null()) else { return Ok(()) };
    let Some(added) = added.as_array() else { return Err(expected_error("added_tokens", "a list", "配列")) };
    let mut bytes = 0;
    for (i, token) in added.iter().enumerate() {
        let content = token.get("content").and_then(Value::as_str).filter(|content| !content.is_empty());
        let id = token.get("id").and_then(Value::as_u64).filter(|&id| id < MAX_IDS);
        let (Some(content), Some(id)) = (content, id) else {
            return Err(expected_error(&format!("added_tokens[{i}]"), "a text and its number", "文字列と番号"));
        };
        check_token("added_tokens", content)?;
        bytes += content.len();
        if bytes > MAX_ADDED_BYTES {
            let (en, ja) = (
                format!("at most {MAX_ADDED_BYTES} bytes in all"),
                format!("全部で {MAX_ADDED_BYTES} バイトまでのトークン"),
            );
            return Err(expected_error("added_tokens", &en, &ja));
        }
        vocabulary.entry(content).or_insert(id);
    }
    Ok(())
}

/// Returns the steps in order, with nested sequences flattened.
fn pipeline_steps<'a>(root: &'a Map<String, Value>, key: &str, list: &str) -> Result<Vec<PipelineStep<'a>>, String> {
    fn collect<'a>(
        value: &'a Value,
        place: String,
        list: &str,
        depth: usize,
        found: &mut Vec<PipelineStep<'a>>,
    ) -> Result<(), String> {
        let settings = value.as_object();
        let (Some(settings), Some(kind)) = (settings, value.get("type").and_then(Value::as_str)) else {
            return Err(expected_error(&place, "an object with a type", "type のあるオブジェクト"));
        };
        if kind != "Sequence" {
            found.push(PipelineStep { path: place, kind, settings });
            return match found.len() <= MAX_STEPS {
                true => Ok(()),
                false => {
                    let (en, ja) = (format!("at most {MAX_STEPS} parts"), format!("{MAX_STEPS} 個までの部品"));
                    Err(expected_error(&found[0].path, &en, &ja))
                }
            };
        }
        if depth == MAX_SEQUENCE_DEPTH {
            let (en, ja) = (
                format!("at most {MAX_SEQUENCE_DEPTH} sequences in one another"),
                format!("{MAX_SEQUENCE_DEPTH} 重までの Sequence"),
            );
            return Err(expected_error(&place, &en, &ja));
        }
        let Some(members) = settings.get(list).and_then(Value::as_array) else {
            return Err(expected_error(&format!("{place}.{list}"), "a list", "配列"));
        };
        for (i, member) in members.iter().enumerate() {
            collect(member, format!("{place}.{list}[{i}]"), list, depth + 1, found)?;
        }
        Ok(())
    }
    let mut found = Vec::new();
    if let Some(value) = root.get(key).filter(|value| !value.is_null()) {
        collect(value, key.to_owned(), list, 0, &mut found)?;
    }
    Ok(found)
}

fn check_setting_lengths(place: &str, value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) if text.len() > MAX_SETTING_BYTES => {
            let (en, ja) =
                (format!("at most {MAX_SETTING_BYTES} bytes"), format!("{MAX_SETTING_BYTES} バイトまでの文字列"));
            Err(expected_error(place, &en, &ja))
        }
        Value::Array(values) => values.iter().try_for_each(|value| check_setting_lengths(place, value)),
        Value::Object(values) => {
            values.iter().try_for_each(|(key, value)| check_setting_lengths(&format!("{place}.{key}"), value))
        }
        _ => Ok(()),
    }
}

/// The largest factor by which this step may increase the number of bytes.
fn step_growth(part: &PipelineStep<'_>, is_known: &dyn Fn(&str) -> bool) -> Result<f64, String> {
    let PipelineStep { path: place, kind, settings } = part;
    if *kind == "Precompiled" {
        let map = settings.get("precompiled_charsmap").and_then(Value::as_str).and_then(|map| BASE64.decode(map).ok());
        let Some(map) = map else {
            let place = format!("{place}.precompiled_charsmap");
            return Err(expected_error(&place, "a character map in base64", "base64 で書かれた文字の対応表"));
        };
        let growth = CharacterMap::new(&map).and_then(|map| map.max_growth());
        return growth.map_err(|problem| format!("{place}.{problem}"));
    }
    check_setting_lengths(place, &Value::Object((*settings).clone()))?;
    let text = |key: &str| settings.get(key).and_then(Value::as_str);
    // The least number of bytes that a match has, if there is a pattern.
    let pattern = settings.get("pattern");
    let matched = match (pattern.and_then(|p| p.get("String")), pattern.and_then(|p| p.get("Regex"))) {
        (Some(Value::String(text)), _) => text.len(),
        (_, Some(Value::String(regex))) => pattern::check_pattern(regex, is_known(regex))
            .map_err(|problem| format!("{place}.pattern.Regex {}: {problem}", quote_start(regex)))?,
        _ => 1,
    };
    let replaced = |by: usize, bytes: usize| match bytes {
        // An empty pattern inserts the replacement between all characters.
        0 => 1.0 + by as f64,
        _ => (by as f64 / bytes as f64).max(1.0),
    };
    Ok(match *kind {
        "Replace" => replaced(text("content").unwrap_or_default().len(), matched),
        "Metaspace" => replaced(text("replacement").unwrap_or_default().len(), 1),
        "ByteLevel" | "BertNormalizer" | "Bert" => 2.0,
        "BPEDecoder" => replaced(1, text("suffix").unwrap_or_default().len()),
        "CTC" => replaced(1, text("word_delimiter_token").unwrap_or_default().len()),
        "Prepend" if text("prepend").is_some_and(|text| text.len() > MAX_AFFIX_BYTES) => {
            let (en, ja) =
                (format!("at most {MAX_AFFIX_BYTES} bytes"), format!("{MAX_AFFIX_BYTES} バイトまでの文字列"));
            return Err(expected_error(&format!("{place}.prepend"), &en, &ja));
        }
        "FixedLength" if settings.get("length").is_some_and(|length| length.as_u64().unwrap_or(0) == 0) => {
            return Err(expected_error(&format!("{place}.length"), "at least 1", "1 以上の数"));
        }
        _ => 1.0,
    })
}

/// Checks that the templates contain each text once, and that their special tokens are in the vocabulary.
fn check_template(part: &PipelineStep<'_>, vocabulary: &HashMap<&str, u64>) -> Result<(), String> {
    let PipelineStep { path: place, settings, .. } = part;
    for (template, texts) in [("single", &["A"][..]), ("pair", &["A", "B"])] {
        let place = format!("{place}.{template}");
        let pieces = settings.get(template).and_then(Value::as_array).filter(|pieces| pieces.len() <= MAX_STEPS);
        let Some(pieces) = pieces else {
            let (en, ja) = (format!("a list of at most {MAX_STEPS}"), format!("{MAX_STEPS} 個までの配列"));
            return Err(expected_error(&place, &en, &ja));
        };
        let id = |piece: &Value, kind: &str| Some(piece.get(kind)?.get("id")?.as_str()?.to_owned());
        let mut of_texts: Vec<String> = pieces.iter().filter_map(|piece| id(piece, "Sequence")).collect();
        of_texts.sort_unstable();
        if of_texts != texts {
            let names = texts.join(", ");
            return Err(tr!(
                "{place}: expected each text once ({names}), found {}",
                "{place}: 各文章 ({names}) が一度ずつ必要ですが、{} でした",
                quote_start(&of_texts.join(", "))
            ));
        }
        for name in pieces.iter().filter_map(|piece| id(piece, "SpecialToken")) {
            let token = settings.get("special_tokens").and_then(|tokens| tokens.get(&name));
            let array = |key: &str| token.and_then(|token| token.get(key)).and_then(Value::as_array);
            let is_sound = matches!((array("ids"), array("tokens")), (Some(ids), Some(tokens))
            if ids.len() == tokens.len()
                && ids.len() <= MAX_STEPS
                && ids.iter().zip(tokens).all(|(id, token)| {
                    token.as_str().is_some_and(|token| vocabulary.get(token).copied() == id.as_u64())
                }));
            if !is_sound {
                let name = quote_start(&name);
                return Err(tr!(
                    "{place}: expected tokens of the vocabulary with their numbers for {name}",
                    "{place}: {name} に、語彙にあるトークンとその番号が必要です"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
