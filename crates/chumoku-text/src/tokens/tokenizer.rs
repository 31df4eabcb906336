//! Sub-word tokenizers, trained on the user's texts: byte-pair encoding (Sennrich, Haddow and Birch 2016) with byte
//! fallback, so that no text holds anything unknown. Kept as a `tokenizer.json` that Hugging Face's library reads.
//!
//! Texts are normalised (white space as one `▁` before each word; to be understood also NFKC and lower case, to be written
//! as they are) and cut before merging: words of
//! spaced scripts with their `▁`, numbers, punctuation, and runs of unspaced scripts (Japanese, Chinese, Thai …).

use super::error::TokenizerError as Error;
use super::script::unspaced_share;
use super::tokenizer_file;
use crate::{Lang, quiet, tr};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use tokenizers::models::bpe::BpeTrainerBuilder;
use tokenizers::models::{ModelWrapper, TrainerWrapper};
use tokenizers::{
    EncodeInput, Model, NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
    Tokenizer,
};

/// The token that every sequence starts with.
pub const CLS: &str = "[CLS]";

/// The token of all words that a tokenizer of words does not know.
pub const UNK: &str = "[UNK]";

/// How to train a tokenizer.
#[derive(Clone, Copy, Debug)]
pub struct TokenizerConfig {
    /// The largest number of tokens wanted, the 257 fixed ones (`[CLS]` and all bytes) included.
    pub vocab_size: usize,
    /// Pairs rarer than this are not merged.
    pub min_frequency: u64,
    /// What is done to texts.
    pub form: TextForm,
    /// What tokens are.
    pub unit: Unit,
}

/// What the tokens of a text are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Unit {
    /// Parts of words: frequent words whole, rare ones in pieces.
    Subwords,
    /// Characters.
    Characters,
    /// Whole words, numbers digit by digit, punctuation; those not in the vocabulary are one token, `[UNK]`.
    Words,
}

impl Unit {
    /// What they are called in files, which are English.
    pub fn noun(self) -> &'static str {
        self.noun_in(Lang::En)
    }

    /// What people call them.
    pub fn noun_in(self, lang: Lang) -> &'static str {
        match self {
            Unit::Subwords => lang.pick("parts of words", "サブワード"),
            Unit::Characters => lang.pick("characters", "文字"),
            Unit::Words => lang.pick("words", "単語"),
        }
    }
}

/// What is done to texts before they are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextForm {
    /// NFKC, lower case, and white space as one space: to be understood.
    Folded,
    /// NFKC and white space as one space; digits one by one: to be turned into another text.
    Compatible,
    /// As they are, but for white space; digits one by one: to be written.
    Kept,
    /// As they are, each line end and space too; digits one by one: to be continued.
    Exact,
}

impl TextForm {
    const ALL: [TextForm; 4] = [TextForm::Folded, TextForm::Compatible, TextForm::Kept, TextForm::Exact];

    /// Whether `[CLS]` ends a text, as translators have it, or begins it.
    fn ends_with_cls(self) -> bool {
        matches!(self, TextForm::Compatible | TextForm::Kept)
    }
}

/// A text as tokens, without the leading `[CLS]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Encoded {
    /// The token ids.
    pub ids: Vec<u32>,
    /// Each token's bytes in the text.
    pub spans: Vec<(usize, usize)>,
    /// For each token the number of the unit that the text was cut into before merging.
    pub units: Vec<u32>,
    /// Whether each character is a token, by the tokenizer's design.
    pub is_by_character: bool,
}

/// A trained tokenizer.
#[derive(Clone, Debug)]
pub struct TextTokenizer {
    inner: Tokenizer,
    cls: u32,
    /// The file it was read from.
    path: Option<Arc<Path>>,
    is_by_character: bool,
}

/// The regular expression that cuts a text into characters. It means the same to `fancy-regex` and to Oniguruma, with which
/// the Python package reads it: no groups with flags.
const CHARACTER: &str = r"[\s\S]";
/// The same as it was written before.
const EARLIER_CHARACTER: &str = r"(?s:.)";

/// The regular expression of the pieces that texts are cut into before merging, of the same means.
fn cut(form: TextForm, unit: Unit) -> String {
    if unit == Unit::Characters {
        return CHARACTER.to_owned();
    }
    // Runs are bounded, so that merging stays fast on a text that is one endless word.
    const UNSPACED: &str = r"\p{Han}\p{Hiragana}\p{Katakana}ー々〆\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}";
    [
        r"[\p{Han}々〆]{1,16}|[\p{Hiragana}ー]{1,32}|[\p{Katakana}ー]{1,32}".to_owned(),
        r"[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]{1,32}".to_owned(),
        format!(
            r"▁?['’]?(?:(?![{UNSPACED}])[\p{{L}}\p{{M}}]){{1,64}}(?:['’](?:(?![{UNSPACED}])[\p{{L}}\p{{M}}]){{1,16}})*"
        ),
        // Numbers that are written are made of digits, as every number is that training has not seen.
        if form == TextForm::Folded { r"▁?\p{N}{1,4}" } else { r"▁?\p{N}" }.to_owned(),
        r"▁?[^▁\p{L}\p{M}\p{N}]{1,16}".to_owned(),
        r"▁".to_owned(),
    ]
    .join("|")
}

/// Whether this program writes the regular expression, or did.
fn is_ours(pattern: &str) -> bool {
    pattern == EARLIER_CHARACTER || TextForm::ALL.iter().any(|&form| pattern == cut(form, Unit::Subwords))
}

/// How texts are normalised and cut, in the format of `tokenizer.json`.
fn pipeline(form: TextForm, unit: Unit) -> Value {
    let folding = [json!({ "type": "NFKC" }), json!({ "type": "Lowercase" })];
    let spacing = [
        json!({ "type": "Replace", "pattern": { "Regex": r"\s+" }, "content": " " }),
        json!({ "type": "Strip", "strip_left": true, "strip_right": true }),
    ];
    let prepend = [json!({ "type": "Prepend", "prepend": "▁" })];
    let underscore = [json!({ "type": "Replace", "pattern": { "String": " " }, "content": "▁" })];
    let spaces_are_kept = form == TextForm::Exact;
    // A character needs no sign of the word's beginning.
    let is_prepended = !spaces_are_kept && unit != Unit::Characters;
    let folding = match form {
        TextForm::Folded => &folding[..],
        TextForm::Compatible => &folding[..1],
        TextForm::Kept | TextForm::Exact => &[],
    };
    let spacing = if spaces_are_kept { &[][..] } else { &spacing };
    let normalizers = [folding, spacing, if is_prepended { &prepend } else { &[] }, &underscore].concat();
    let mut decoders = vec![
        json!({ "type": "Replace", "pattern": { "String": "▁" }, "content": " " }),
        json!({ "type": "ByteFallback" }),
        json!({ "type": "Fuse" }),
    ];
    if is_prepended {
        decoders.push(json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 }));
    }
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [],
        "normalizer": { "type": "Sequence", "normalizers": normalizers },
        "pre_tokenizer": {
            "type": "Split", "pattern": { "Regex": cut(form, unit) }, "behavior": "Isolated", "invert": false
        },
        "post_processor": null,
        "decoder": { "type": "Sequence", "decoders": decoders },
        "model": { "type": "BPE", "vocab": {}, "merges": [] },
    })
}

fn problem(doing: &str) -> impl Fn(tokenizers::Error) -> Error + '_ {
    move |error| Error::Unusable(format!("{doing}: {error}"))
}

/// What is said where the library that runs tokenizers gave up without a word.
fn contradiction() -> String {
    tr!("the tokenizer contradicts itself, so that it cannot be used", "トークナイザーの内容が矛盾していて使えません")
}

/// A message of another library as the part of a line.
fn one_line(message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().collect();
    words.join(" ").chars().take(300).collect()
}

/// The `most` most frequent characters of the normalised texts, the lower code first among equals; the others are
/// left to the bytes. Chosen here because the trainer's own choice among equals changes from run to run.
fn alphabet(learner: &Tokenizer, texts: &[&str], most: usize) -> HashSet<char> {
    let mut counts: BTreeMap<char, u64> = BTreeMap::new();
    for text in texts {
        let mut normal = NormalizedString::from(*text);
        if let Some(normalizer) = learner.get_normalizer() {
            // A text that cannot be normalised is told of when the trainer meets it.
            let _ = normalizer.normalize(&mut normal);
        }
        normal.get().chars().for_each(|c| *counts.entry(c).or_default() += 1);
    }
    let mut order: Vec<(char, u64)> = counts.into_iter().collect();
    order.sort_by_key(|&(c, count)| (std::cmp::Reverse(count), c));
    order.into_iter().take(most).map(|(c, _)| c).collect()
}

/// Adds to a `tokenizer.json` its special tokens, whose ids are their places, and where `[CLS]` goes: what the Python
/// package makes of a text is then what the model is given.
fn finish(json: &mut Value, special: &[&str], form: TextForm) {
    let added = special.iter().enumerate().map(|(id, content)| {
        json!({
            "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": true
        })
    });
    json["added_tokens"] = added.collect();
    let cls = |type_id: u32| json!({ "SpecialToken": { "id": CLS, "type_id": type_id } });
    let text = |id: &str, type_id: u32| json!({ "Sequence": { "id": id, "type_id": type_id } });
    let (single, pair) = match form.ends_with_cls() {
        true => (json!([text("A", 0), cls(0)]), json!([text("A", 0), cls(0), text("B", 1), cls(1)])),
        false => (json!([cls(0), text("A", 0)]), json!([cls(0), text("A", 0), text("B", 1)])),
    };
    json["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": single,
        "pair": pair,
        "special_tokens": { CLS: { "id": CLS, "ids": [0], "tokens": [CLS] } }
    });
}

/// The `most` most frequent pieces that texts are cut into, the first in the alphabet among equals.
fn frequent_words(learner: &Tokenizer, texts: &[&str], most: usize, least: u64) -> Result<Vec<String>, Error> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for text in texts {
        let mut normal = NormalizedString::from(*text);
        if let Some(normalizer) = learner.get_normalizer() {
            normalizer.normalize(&mut normal).map_err(problem("training"))?;
        }
        let mut cut = PreTokenizedString::from(normal);
        if let Some(cutter) = learner.get_pre_tokenizer() {
            cutter.pre_tokenize(&mut cut).map_err(problem("training"))?;
        }
        for (word, _, _) in cut.get_splits(OffsetReferential::Normalized, OffsetType::None) {
            *counts.entry(word.to_owned()).or_default() += 1;
        }
    }
    let mut order: Vec<(String, u64)> = counts.into_iter().filter(|(_, count)| *count >= least).collect();
    order.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Ok(order.into_iter().take(most).map(|(word, _)| word).collect())
}

impl TextTokenizer {
    /// A tokenizer of whole words.
    fn of_words(texts: &[&str], config: &TokenizerConfig) -> Result<Self, Error> {
        let mut json = pipeline(config.form, config.unit);
        let learner = Tokenizer::from_str(&json.to_string()).map_err(problem("preparing"))?;
        let words = frequent_words(&learner, texts, config.vocab_size.saturating_sub(2).max(1), config.min_frequency)?;
        let all = [CLS, UNK].map(str::to_owned).into_iter().chain(words);
        let vocab: serde_json::Map<String, Value> = all.enumerate().map(|(id, token)| (token, id.into())).collect();
        json["model"] = json!({ "type": "WordLevel", "vocab": vocab, "unk_token": UNK });
        finish(&mut json, &[CLS, UNK], config.form);
        TextTokenizer::from_json(&json.to_string())
    }

    /// Trains on `texts`; the result depends on nothing else.
    ///
    /// # Errors
    /// If there is nothing to learn from.
    pub fn train(texts: &[&str], config: &TokenizerConfig) -> Result<Self, Error> {
        if config.unit == Unit::Words {
            return TextTokenizer::of_words(texts, config);
        }
        const FIXED: usize = 257;
        let mut learner =
            Tokenizer::from_str(&pipeline(config.form, config.unit).to_string()).map_err(problem("preparing"))?;
        let wanted = config.vocab_size.saturating_sub(FIXED).max(1);
        // Characters are never merged: all of the vocabulary is alphabet.
        let most = if config.unit == Unit::Characters { wanted } else { (wanted / 2).max(64) };
        let alphabet = alphabet(&learner, texts, most);
        let mut trainer: TrainerWrapper = BpeTrainerBuilder::new()
            .vocab_size(wanted)
            .min_frequency(config.min_frequency)
            .limit_alphabet(alphabet.len())
            .initial_alphabet(alphabet)
            .show_progress(false)
            .build()
            .into();
        learner.train(&mut trainer, texts.iter()).map_err(problem("training"))?;
        let learned = learner.to_string(false).map_err(problem("training"))?;
        let mut learned: Value = serde_json::from_str(&learned).map_err(|error| Error::Unusable(error.to_string()))?;

        // Ids: [CLS], the 256 bytes, then what was learned, in its order.
        let mut tokens: Vec<(String, u64)> = learned["model"]["vocab"]
            .as_object()
            .map(|vocab| vocab.iter().map(|(token, id)| (token.clone(), id.as_u64().unwrap_or(0))).collect())
            .unwrap_or_default();
        tokens.sort_by_key(|(_, id)| *id);
        let bytes = (0..256).map(|byte| format!("<0x{byte:02X}>"));
        let all = std::iter::once(CLS.to_owned()).chain(bytes).chain(tokens.into_iter().map(|(token, _)| token));
        let vocab: serde_json::Map<String, Value> = all.enumerate().map(|(id, token)| (token, id.into())).collect();
        learned["model"]["vocab"] = vocab.into();
        learned["model"]["byte_fallback"] = true.into();
        finish(&mut learned, &[CLS], config.form);
        TextTokenizer::from_json(&learned.to_string())
    }

    /// A vocabulary size that suits texts of so many characters: one for each 100 of a spaced script or each 60 of an
    /// unspaced one, 1,000 to 16,000.
    ///
    /// Few tokens that are seen often generalise better than many rare ones.
    pub fn suitable_vocab_size(texts: &[&str]) -> usize {
        let characters: usize = texts.iter().map(|text| text.chars().count()).sum();
        let per_token = if unspaced_share(texts.iter().copied()) > 0.3 { 60 } else { 100 };
        (characters / per_token).clamp(1_000, 16_000)
    }

    /// Reads the text of a `tokenizer.json`, trusting nothing in it.
    ///
    /// # Errors
    /// If it is not one, has no `[CLS]`, or could take all memory or all time.
    pub fn from_json(json: &str) -> Result<Self, Error> {
        let sound = || {
            let mut file: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
            tokenizer_file::check(&mut file, &is_ours)?;
            Tokenizer::from_str(&file.to_string()).map_err(|error| error.to_string())
        };
        // What the library does not expect of a file it panics on.
        let read = quiet::catch(sound).unwrap_or_else(|_| Err(contradiction()));
        let mut inner = read.map_err(|problem| Error::Unusable(one_line(&problem)))?;
        let Some(cls) = inner.token_to_id(CLS) else {
            return Err(Error::Unusable(tr!(
                "expected a token {CLS} in the vocabulary, found none",
                "語彙にトークン {CLS} が必要ですが、ありません"
            )));
        };
        // A text that spells "[CLS]" is text.
        inner.set_encode_special_tokens(true);
        let cutter = serde_json::to_value(inner.get_pre_tokenizer()).unwrap_or_default();
        let pattern = cutter["pattern"]["Regex"].as_str();
        let is_by_character = pattern.is_some_and(|regex| [CHARACTER, EARLIER_CHARACTER].contains(&regex));
        Ok(TextTokenizer { inner, cls, path: None, is_by_character })
    }

    /// Reads a `tokenizer.json`, trusting nothing in it.
    ///
    /// # Errors
    /// If the file cannot be read, or as for [`TextTokenizer::from_json`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let unread = |source| Error::Io { path: path.to_owned(), source };
        let bytes = std::fs::metadata(path).map_err(unread)?.len();
        if bytes > tokenizer_file::LARGEST_FILE {
            let problem = tr!(
                "expected a tokenizer of at most {} bytes, found {bytes}",
                "トークナイザーは {} バイトまでですが、{bytes} バイトあります",
                tokenizer_file::LARGEST_FILE
            );
            return Err(Error::File { path: path.to_owned(), problem });
        }
        let json = std::fs::read_to_string(path).map_err(unread)?;
        match TextTokenizer::from_json(&json) {
            Ok(tokenizer) => Ok(TextTokenizer { path: Some(path.into()), ..tokenizer }),
            Err(error) => Err(Error::File { path: path.to_owned(), problem: error.to_string() }),
        }
    }

    /// What the library makes of `work` with this tokenizer. What it does not expect of its file it panics on.
    fn ask<T>(&self, doing: &str, work: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, Error> {
        let answer = quiet::catch(work).unwrap_or_else(|_| Err(contradiction().into()));
        answer.map_err(|error| {
            let problem = format!("{doing}: {}", one_line(&error.to_string()));
            match &self.path {
                Some(path) => Error::File { path: path.to_path_buf(), problem },
                None => Error::Unusable(problem),
            }
        })
    }

    /// The text of its `tokenizer.json`.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    pub fn to_json(&self) -> Result<String, Error> {
        self.inner.to_string(true).map_err(problem("writing"))
    }

    /// Number of token ids.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// One more than the largest token id.
    pub fn end_of_ids(&self) -> usize {
        self.inner.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1)
    }

    /// SHA-256 of the tokens in the order of their ids, in hexadecimal digits.
    pub fn vocabulary_sha256(&self) -> String {
        let mut tokens: Vec<(u32, String)> = self.inner.get_vocab(true).into_iter().map(|(t, id)| (id, t)).collect();
        tokens.sort_unstable();
        let mut hash = Sha256::new();
        for (id, token) in tokens {
            hash.update(id.to_le_bytes());
            hash.update((token.len() as u64).to_le_bytes());
            hash.update(token);
        }
        crate::checksum::hex(hash.finalize())
    }

    /// The id of the words that it does not know, if it is one of words.
    pub fn unknown(&self) -> Option<u32> {
        match self.inner.get_model() {
            ModelWrapper::WordLevel(words) => words.token_to_id(UNK),
            _ => None,
        }
    }

    /// The id of `[CLS]`.
    pub fn cls(&self) -> u32 {
        self.cls
    }

    /// The tokens of a text.
    ///
    /// # Errors
    /// If the tokenizer cannot cut the text (never for one that was trained here).
    pub fn encode(&self, text: &str) -> Result<Encoded, Error> {
        let doing = || tr!("cutting a text into tokens", "文章をトークンに分ける");
        let encoding = self.ask(&doing(), || self.inner.encode(EncodeInput::from(text), false))?;
        // A tokenizer that puts in what the text does not hold counts past its characters, or its end.
        let whole = |&(start, end): &(usize, usize)| {
            let is_border = |&at: &usize| text.is_char_boundary(at);
            let start = (0..=start.min(text.len())).rev().find(is_border).unwrap_or(0);
            (start, (end.min(text.len())..=text.len()).find(is_border).unwrap_or(text.len()).max(start))
        };
        Ok(Encoded {
            ids: encoding.get_ids().to_vec(),
            spans: encoding.get_offsets().iter().map(whole).collect(),
            units: encoding.get_word_ids().iter().map(|unit| unit.unwrap_or(0)).collect(),
            is_by_character: self.is_by_character,
        })
    }

    /// The token ids of many texts, on all threads.
    ///
    /// # Errors
    /// As for [`TextTokenizer::encode`].
    pub fn encode_all(&self, texts: &[&str]) -> Result<Vec<Vec<u32>>, Error> {
        texts.par_iter().map(|text| Ok(self.encode(text)?.ids)).collect()
    }

    /// The text of tokens.
    ///
    /// Bytes that are no UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// If the tokenizer cannot put them together (never for one that was trained here).
    pub fn decode(&self, ids: &[u32]) -> Result<String, Error> {
        self.ask(&tr!("putting tokens together", "トークンを文章に戻す"), || self.inner.decode(ids, true))
    }

    /// The token of an id, as it stands in the vocabulary.
    pub fn token(&self, id: u32) -> String {
        self.inner.id_to_token(id).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trained() -> TextTokenizer {
        let texts = [
            "The film was great, really great! I didn't expect it.",
            "the food was not good and the film was slow.",
            "この映画はとても良かったです。また見たい！",
            "この店の料理はあまり美味しくなかったです。",
        ];
        TextTokenizer::train(
            &texts,
            &TokenizerConfig { vocab_size: 400, min_frequency: 2, form: TextForm::Folded, unit: Unit::Subwords },
        )
        .unwrap()
    }

    #[test]
    fn nothing_is_unknown_and_spans_lie_in_the_text() {
        let tokenizer = trained();
        let hard = [
            "",
            " ",
            "\u{0}",
            "zzz 🎉👨‍👩‍👧 e\u{301} ｶﾞｷﾞｸﾞ",
            "[CLS] <0x41>",
            "鬱陶しい",
            "\t a \n b ",
            "المطار",
            "a\u{200d}b",
            "９９９",
        ];
        for text in hard {
            let encoded = tokenizer.encode(text).unwrap();
            assert_eq!(encoded.ids.len(), encoded.spans.len());
            assert_eq!(encoded.ids.len(), encoded.units.len());
            assert!(encoded.ids.iter().all(|&id| id != tokenizer.cls() && (id as usize) < tokenizer.vocab_size()));
            assert!(encoded.spans.iter().all(|&(a, b)| a <= b && text.get(a..b).is_some()), "{text:?} {encoded:?}");
            if text.chars().any(char::is_alphanumeric) {
                assert!(!encoded.ids.is_empty(), "{text:?}");
            }
        }
    }

    #[test]
    fn case_width_and_white_space_do_not_matter() {
        let tokenizer = trained();
        let ids = |text| tokenizer.encode(text).unwrap().ids;
        assert_eq!(ids("The  FILM"), ids(" the film\n"));
        assert_eq!(ids("ｶﾞ"), ids("ガ"));
        assert_ne!(ids("thefilm"), ids("the film"));
    }

    #[test]
    fn texts_to_be_written_come_back() {
        let texts = ["The Film was GREAT on 20 Nov. 2026!", "２０２６年１１月２０日（金）、「よい」です。", "x"];
        let unit = Unit::Subwords;
        let config = TokenizerConfig { vocab_size: 400, min_frequency: 1, form: TextForm::Kept, unit };
        let tokenizer = TextTokenizer::train(&texts, &config).unwrap();
        for text in texts.into_iter().chain(["Zoë said: ½ €5 🎉", "(a) b", "  a\t b ", "ｶﾞ　x", ""]) {
            let ids = tokenizer.encode(text).unwrap().ids;
            let spaced = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(tokenizer.decode(&ids).unwrap(), spaced);
        }
        for unit in [Unit::Subwords, Unit::Characters] {
            for form in [TextForm::Kept, TextForm::Exact] {
                let tokenizer = TextTokenizer::train(&texts, &TokenizerConfig { form, unit, ..config }).unwrap();
                for text in texts.into_iter().chain([" a\t b \n\n c", "", "\r\n  x", "鬱 Zoë 🎉"]) {
                    let ids = tokenizer.encode(text).unwrap().ids;
                    let spaced = text.split_whitespace().collect::<Vec<_>>().join(" ");
                    assert_eq!(tokenizer.decode(&ids).unwrap(), if form == TextForm::Exact { text } else { &spaced });
                    if unit == Unit::Characters && texts.contains(&text) {
                        assert_eq!(ids.len(), text.chars().count());
                    }
                }
            }
        }
        // Each digit is a token of its own.
        let digits = tokenizer.encode("2026").unwrap();
        assert_eq!(digits.units.iter().collect::<std::collections::HashSet<_>>().len(), 4);
        // A sequence that stops within a character.
        assert_eq!(tokenizer.decode(&tokenizer.encode("🎉").unwrap().ids[..2]).unwrap(), "\u{FFFD}");
    }

    #[test]
    fn words_are_whole_or_unknown() {
        let texts = ["the cat saw the dog.\nthe dog saw 12 cats.", "猫が寝た。犬が寝た。"];
        let config = TokenizerConfig { vocab_size: 100, min_frequency: 1, form: TextForm::Exact, unit: Unit::Words };
        let tokenizer = TextTokenizer::train(&texts, &config).unwrap();
        let unknown = tokenizer.unknown().unwrap();
        for text in texts {
            let ids = tokenizer.encode(text).unwrap().ids;
            assert!(!ids.contains(&unknown));
            assert_eq!(tokenizer.decode(&ids).unwrap(), text);
        }
        let ids = tokenizer.encode("the cow saw the dog.").unwrap().ids;
        assert_eq!((ids.len(), ids[1]), (6, unknown));
        // The frequent ones where there is no room for all; the same each time.
        let small = TextTokenizer::train(&texts, &TokenizerConfig { vocab_size: 5, ..config }).unwrap();
        assert_eq!((small.vocab_size(), small.end_of_ids()), (5, 5));
        assert_ne!(small.encode("the").unwrap().ids, [unknown]);
        assert_eq!(
            small.to_json().unwrap(),
            TextTokenizer::train(&texts, &TokenizerConfig { vocab_size: 5, ..config }).unwrap().to_json().unwrap()
        );
        assert_eq!(trained().unknown(), None);
    }

    #[test]
    fn sources_are_read_alike_in_every_width_but_not_in_every_case() {
        for unit in [Unit::Subwords, Unit::Characters] {
            let config = TokenizerConfig { vocab_size: 400, min_frequency: 1, form: TextForm::Compatible, unit };
            let tokenizer = TextTokenizer::train(&["Abc 2026 アイウ"], &config).unwrap();
            let ids = |text| tokenizer.encode(text).unwrap().ids;
            assert_eq!(ids("Ａbc　２０２６ ｱｲｳ"), ids("Abc 2026 アイウ"));
            assert_ne!(ids("abc"), ids("Abc"));
        }
    }

    #[test]
    fn training_is_repeatable_and_json_reads_back() {
        let (a, b) = (trained(), trained());
        let json = a.to_json().unwrap();
        assert_eq!(json, b.to_json().unwrap());
        let again = TextTokenizer::from_json(&json).unwrap();
        let text = "この映画 was great 🎉";
        assert_eq!(again.encode(text).unwrap(), a.encode(text).unwrap());
        assert!(TextTokenizer::from_json("{}").is_err());
    }

    #[test]
    fn ties_among_characters_do_not_change_the_vocabulary() {
        // Hundreds of characters that occur once each, and room for a few: which stay must not be chance.
        let texts: Vec<String> =
            (0..40u32).map(|row| (0..20).filter_map(|i| char::from_u32(0x4E00 + 20 * row + i)).collect()).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let train = || {
            let config =
                TokenizerConfig { vocab_size: 400, min_frequency: 2, form: TextForm::Folded, unit: Unit::Subwords };
            TextTokenizer::train(&texts, &config).unwrap().to_json().unwrap()
        };
        let first = train();
        assert!((0..8).all(|_| train() == first));
    }

    #[test]
    fn a_text_that_is_one_endless_word_is_cut() {
        let tokenizer = trained();
        let long = "あ".repeat(200_000);
        assert!(tokenizer.encode(&long).unwrap().ids.len() > 1_000);
    }

    /// Every form of text with every unit that can be trained.
    fn every_kind() -> Vec<(TextForm, Unit, TextTokenizer)> {
        let texts = ["the film was 12 great,\nthe film.", "この映画はとても良かった。この映画。"];
        let units = [Unit::Subwords, Unit::Characters, Unit::Words];
        let all = TextForm::ALL.into_iter().flat_map(|form| units.map(|unit| (form, unit)));
        let train = |(form, unit)| {
            let config = TokenizerConfig { vocab_size: 330, min_frequency: 1, form, unit };
            (form, unit, TextTokenizer::train(&texts, &config).unwrap())
        };
        all.map(train).collect()
    }

    /// All regular expressions of a file.
    fn regexes(value: &Value) -> Vec<String> {
        match value {
            Value::Array(values) => values.iter().flat_map(regexes).collect(),
            Value::Object(values) => {
                let own = values.get("Regex").and_then(Value::as_str).map(str::to_owned);
                own.into_iter().chain(values.values().flat_map(regexes)).collect()
            }
            _ => Vec::new(),
        }
    }

    #[test]
    fn regexes_mean_the_same_in_oniguruma() {
        for (form, unit, tokenizer) in every_kind() {
            let file: Value = serde_json::from_str(&tokenizer.to_json().unwrap()).unwrap();
            let found = regexes(&file);
            assert!(!found.is_empty(), "{form:?} {unit:?}");
            for regex in found {
                // What both engines read alike: groups without a name or flags, classes without set operations,
                // properties of Unicode, white space, counts.
                let mut rest = regex.as_str();
                while let Some(at) = rest.find("(?") {
                    rest = &rest[at + 2..];
                    assert!(rest.starts_with([':', '!']), "{regex}");
                }
                assert!(!regex.contains("&&") && !regex.contains("[[") && !regex.contains("--"), "{regex}");
                let mut rest = regex.as_str();
                while let Some(at) = rest.find('\\') {
                    rest = &rest[at + 1..];
                    assert!(["p{", "s", "S"].iter().any(|class| rest.starts_with(class)), "{regex}");
                }
            }
        }
    }

    #[test]
    fn the_template_gives_what_models_are_fed() {
        for (form, unit, tokenizer) in every_kind() {
            // As the Python package would be asked: with special tokens.
            let asked = tokenizer.inner.encode(EncodeInput::from("the film 映画"), true).unwrap().get_ids().to_vec();
            let (ids, cls) = (tokenizer.encode("the film 映画").unwrap().ids, [tokenizer.cls()]);
            let fed = match form {
                // Classifiers and language models are given `[CLS]` first (`inference::pack`), sources of translators
                // `[CLS]` last (`TextTranslator::read`), targets end with it (`PairBatch::push`).
                TextForm::Folded | TextForm::Exact => [&cls[..], &ids].concat(),
                TextForm::Compatible | TextForm::Kept => [&ids[..], &cls].concat(),
            };
            assert_eq!(asked, fed, "{form:?} {unit:?}");
            let pair = tokenizer.inner.encode(EncodeInput::from(("the", "film")), true).unwrap();
            assert!(pair.get_ids().contains(&tokenizer.cls()), "{form:?} {unit:?}");
        }
    }

    #[test]
    fn folders_of_earlier_versions_are_read() {
        for (form, unit, tokenizer) in every_kind() {
            let mut file: Value = serde_json::from_str(&tokenizer.to_json().unwrap()).unwrap();
            if unit == Unit::Characters {
                file["pre_tokenizer"]["pattern"]["Regex"] = r"(?s:.)".into();
            }
            let cls = json!({ "SpecialToken": { "id": CLS, "type_id": 0 } });
            file["post_processor"]["single"] = json!([cls, { "Sequence": { "id": "A", "type_id": 0 } }]);
            let earlier = TextTokenizer::from_json(&file.to_string()).unwrap();
            for text in ["the film\n was", "この映画 x", "\r\n", ""] {
                assert_eq!(earlier.encode(text).unwrap(), tokenizer.encode(text).unwrap(), "{form:?} {unit:?}");
            }
        }
    }
}
