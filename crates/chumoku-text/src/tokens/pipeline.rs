//! Normalization and pre-tokenization, in the format of `tokenizer.json`.
//!
//! Normalization writes white space as one `▁` before each word. Texts for classifiers also get NFKC and lowercase.
//! Texts to be generated keep their characters. The pre-tokenizer splits into words of spaced scripts with their `▁`,
//! numbers, punctuation, and runs of unspaced scripts (Japanese, Chinese, Thai …).

use crate::Lang;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The token at the start of every sequence.
pub const CLS: &str = "[CLS]";
/// The token between the two texts of a pair.
pub const SEP: &str = "[SEP]";

/// The token for all words outside the vocabulary of a word tokenizer.
pub(crate) const UNK: &str = "[UNK]";

/// The unit of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TokenizationUnit {
    /// Subwords: frequent words are whole, rare ones are split.
    Subwords,
    /// Characters.
    Characters,
    /// Whole words, single digits and punctuation. Words outside the vocabulary become one token, `[UNK]`.
    Words,
}

impl TokenizationUnit {
    /// The name of the unit for users.
    pub fn noun_in(self, lang: Lang) -> &'static str {
        match self {
            TokenizationUnit::Subwords => lang.pick("subwords", "サブワード"),
            TokenizationUnit::Characters => lang.pick("characters", "文字"),
            TokenizationUnit::Words => lang.pick("words", "単語"),
        }
    }
}

/// The normalization of texts before they are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NormalizationForm {
    /// NFKC, lowercase, and runs of white space as one space: for classifiers.
    NfkcLowercase,
    /// NFKC, and runs of white space as one space; digits one by one: for source texts of translators.
    Nfkc,
    /// Unchanged except that runs of white space become one space; digits one by one: for target texts of translators.
    CollapsedSpaces,
    /// Unchanged, with every line end and space; digits one by one: for language models.
    Unchanged,
}

impl NormalizationForm {
    pub(super) const ALL: [NormalizationForm; 4] = [
        NormalizationForm::NfkcLowercase,
        NormalizationForm::Nfkc,
        NormalizationForm::CollapsedSpaces,
        NormalizationForm::Unchanged,
    ];

    /// Returns whether `[CLS]` ends a text, as in translators, instead of starting it.
    fn ends_with_cls(self) -> bool {
        matches!(self, NormalizationForm::Nfkc | NormalizationForm::CollapsedSpaces)
    }
}

/// The pattern that splits a text into characters. It has no groups with flags, so `fancy-regex` and Oniguruma, which
/// the Python package uses, read it alike.
const CHARACTER_PATTERN: &str = r"[\s\S]";
/// The same pattern as earlier versions wrote it.
const LEGACY_CHARACTER_PATTERN: &str = r"(?s:.)";

/// Returns the pattern of the pre-tokenizer. `fancy-regex` and Oniguruma read it alike.
fn split_pattern(form: NormalizationForm, unit: TokenizationUnit) -> String {
    if unit == TokenizationUnit::Characters {
        return CHARACTER_PATTERN.to_owned();
    }
    // Bounded runs keep merging fast on a text that is one endless word.
    const UNSPACED: &str = r"\p{Han}\p{Hiragana}\p{Katakana}ー々〆\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}";
    [
        r"[\p{Han}々〆]{1,16}|[\p{Hiragana}ー]{1,32}|[\p{Katakana}ー]{1,32}".to_owned(),
        r"[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]{1,32}".to_owned(),
        format!(
            r"▁?['’]?(?:(?![{UNSPACED}])[\p{{L}}\p{{M}}]){{1,64}}(?:['’](?:(?![{UNSPACED}])[\p{{L}}\p{{M}}]){{1,16}})*"
        ),
        // Generated numbers are made of digits, because most numbers are not in the training texts.
        if form == NormalizationForm::NfkcLowercase { r"▁?\p{N}{1,4}" } else { r"▁?\p{N}" }.to_owned(),
        r"▁?[^▁\p{L}\p{M}\p{N}]{1,16}".to_owned(),
        r"▁".to_owned(),
    ]
    .join("|")
}

/// Returns whether the pattern makes every character a token.
pub(super) fn splits_into_characters(pattern: &str) -> bool {
    [CHARACTER_PATTERN, LEGACY_CHARACTER_PATTERN].contains(&pattern)
}

/// Returns whether this or an earlier version of the program writes the pattern.
pub(super) fn is_builtin_pattern(pattern: &str) -> bool {
    pattern == LEGACY_CHARACTER_PATTERN
        || NormalizationForm::ALL.iter().any(|&form| pattern == split_pattern(form, TokenizationUnit::Subwords))
}

/// Returns the normalizer and pre-tokenizer in the format of `tokenizer.json`.
pub(super) fn pipeline(form: NormalizationForm, unit: TokenizationUnit) -> Value {
    let folding = [json!({ "type": "NFKC" }), json!({ "type": "Lowercase" })];
    let spacing = [
        json!({ "type": "Replace", "pattern": { "Regex": r"\s+" }, "content": " " }),
        json!({ "type": "Strip", "strip_left": true, "strip_right": true }),
    ];
    let prepend = [json!({ "type": "Prepend", "prepend": "▁" })];
    let underscore = [json!({ "type": "Replace", "pattern": { "String": " " }, "content": "▁" })];
    let spaces_are_kept = form == NormalizationForm::Unchanged;
    // Characters need no mark at the start of a word.
    let is_prepended = !spaces_are_kept && unit != TokenizationUnit::Characters;
    let folding = match form {
        NormalizationForm::NfkcLowercase => &folding[..],
        NormalizationForm::Nfkc => &folding[..1],
        NormalizationForm::CollapsedSpaces | NormalizationForm::Unchanged => &[],
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
            "type": "Split", "pattern": { "Regex": split_pattern(form, unit) }, "behavior": "Isolated", "invert": false
        },
        "post_processor": null,
        "decoder": { "type": "Sequence", "decoders": decoders },
        "model": { "type": "BPE", "vocab": {}, "merges": [] },
    })
}

/// Returns the entry of a special token in `tokenizer.json`.
pub(super) fn special_token_entry(id: usize, content: &str) -> Value {
    json!({
        "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": true
    })
}

/// Adds the special tokens, with their positions as ids, and the place of `[CLS]` to a `tokenizer.json`. The Python
/// package then produces the same sequences as this program.
pub(super) fn add_special_tokens(json: &mut Value, names: &[&str], form: NormalizationForm) {
    json["added_tokens"] = names.iter().enumerate().map(|(id, content)| special_token_entry(id, content)).collect();
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

#[cfg(test)]
mod tests {
    use super::super::tokenizer::TextTokenizer;
    use super::super::training::TokenizerConfig;
    use super::*;

    #[test]
    fn generated_text_is_restored() {
        let texts = ["The Film was GREAT on 20 Nov. 2026!", "２０２６年１１月２０日（金）、「よい」です。", "x"];
        let unit = TokenizationUnit::Subwords;
        let config =
            TokenizerConfig { vocab_size: 400, min_frequency: 1, form: NormalizationForm::CollapsedSpaces, unit };
        let tokenizer = TextTokenizer::train(&texts, &config).unwrap();
        for text in texts.into_iter().chain(["Zoë said: ½ €5 🎉", "(a) b", "  a\t b ", "ｶﾞ　x", ""]) {
            let ids = tokenizer.encode(text).unwrap().ids;
            let spaced = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(tokenizer.decode(&ids).unwrap(), spaced);
        }
        for unit in [TokenizationUnit::Subwords, TokenizationUnit::Characters] {
            for form in [NormalizationForm::CollapsedSpaces, NormalizationForm::Unchanged] {
                let tokenizer = TextTokenizer::train(&texts, &TokenizerConfig { form, unit, ..config }).unwrap();
                for text in texts.into_iter().chain([" a\t b \n\n c", "", "\r\n  x", "鬱 Zoë 🎉"]) {
                    let ids = tokenizer.encode(text).unwrap().ids;
                    let spaced = text.split_whitespace().collect::<Vec<_>>().join(" ");
                    assert_eq!(
                        tokenizer.decode(&ids).unwrap(),
                        if form == NormalizationForm::Unchanged { text } else { &spaced }
                    );
                    if unit == TokenizationUnit::Characters && texts.contains(&text) {
                        assert_eq!(ids.len(), text.chars().count());
                    }
                }
            }
        }
        // Each digit is a token.
        let digits = tokenizer.encode("2026").unwrap();
        assert_eq!(digits.word_ids.iter().collect::<std::collections::HashSet<_>>().len(), 4);
        // A sequence that stops inside a character.
        assert_eq!(tokenizer.decode(&tokenizer.encode("🎉").unwrap().ids[..2]).unwrap(), "\u{FFFD}");
    }

    #[test]
    fn source_texts_fold_width_but_not_case() {
        for unit in [TokenizationUnit::Subwords, TokenizationUnit::Characters] {
            let config = TokenizerConfig { vocab_size: 400, min_frequency: 1, form: NormalizationForm::Nfkc, unit };
            let tokenizer = TextTokenizer::train(&["Abc 2026 アイウ"], &config).unwrap();
            let ids = |text| tokenizer.encode(text).unwrap().ids;
            assert_eq!(ids("Ａbc　２０２６ ｱｲｳ"), ids("Abc 2026 アイウ"));
            assert_ne!(ids("abc"), ids("Abc"));
        }
    }
}
