//! Tokenizers of Marian translators: SentencePiece models (`source.spm`, `target.spm`) segment texts, and `vocab.json`
//! assigns ids to the pieces of both sides.

use super::error::TokenizerError as Error;
use super::sentencepiece::{PieceSpan, SentencePieceModel, join_pieces, starts_word};
use super::token_sequence::TokenSequence;
use super::tokenizer_file::{MAX_FILE_BYTES, MAX_IDS};
use crate::tr;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::Path;

const UNKNOWN: &str = "<unk>";
/// Tokens that are left out of decoded text.
const SPECIAL_TOKENS: [&str; 3] = [UNKNOWN, "</s>", "<pad>"];

/// The tokenizer of one side of a Marian translator.
#[derive(Clone, Debug)]
pub(super) struct MarianTokenizer {
    pieces: SentencePieceModel,
    ids: HashMap<String, u32>,
    tokens: HashMap<u32, String>,
    unknown: u32,
}

impl MarianTokenizer {
    /// Reads and validates both files.
    ///
    /// # Errors
    /// If a file cannot be read or is damaged, or the vocabulary has no `<unk>`.
    pub(super) fn read(pieces: &Path, vocabulary: &Path) -> Result<MarianTokenizer, Error> {
        let pieces = SentencePieceModel::read(pieces)?;
        let unread = |source| Error::Io { path: vocabulary.to_owned(), source };
        let wrong = |problem| Error::File { path: vocabulary.to_owned(), problem };
        let bytes = std::fs::metadata(vocabulary).map_err(unread)?.len();
        if bytes > MAX_FILE_BYTES {
            return Err(wrong(tr!(
                "expected at most {MAX_FILE_BYTES} bytes, found {bytes}",
                "{MAX_FILE_BYTES} バイトまでですが、{bytes} バイトあります"
            )));
        }
        let text = std::fs::read(vocabulary).map_err(unread)?;
        let (ids, tokens) = parse_vocabulary(&text).map_err(wrong)?;
        let unknown = *ids.get(UNKNOWN).ok_or_else(|| {
            wrong(tr!("expected a token {UNKNOWN}, found none", "トークン {UNKNOWN} が必要ですが、ありません"))
        })?;
        Ok(MarianTokenizer { pieces, ids, tokens, unknown })
    }

    pub(super) fn ids(&self) -> &HashMap<String, u32> {
        &self.ids
    }

    pub(super) fn token(&self, id: u32) -> String {
        self.tokens.get(&id).cloned().unwrap_or_default()
    }

    /// Encodes a text. A prefix between `>>` and `<<` names the target language and is one token.
    pub(super) fn encode(&self, text: &str) -> TokenSequence {
        let code = match text.starts_with(">>") {
            true => text.find("<<").map_or(0, |at| at + 2),
            false => 0,
        };
        let mut encoded = TokenSequence::default();
        let mut unit = 0;
        let mut push = |piece: &str, span: (usize, usize)| {
            if starts_word(piece) {
                unit += 1;
            }
            encoded.ids.push(self.ids.get(piece).copied().unwrap_or(self.unknown));
            encoded.spans.push(span);
            encoded.word_ids.push(unit);
        };
        if code > 0 {
            push(&text[..code], (0, code));
        }
        for PieceSpan { piece, span: (start, end) } in self.pieces.encode(&text[code..]) {
            push(&piece, (code + start, code + end));
        }
        encoded
    }

    /// Decodes token ids.
    pub(super) fn decode(&self, ids: &[u32]) -> String {
        let pieces = ids.iter().filter_map(|id| self.tokens.get(id)).map(String::as_str);
        join_pieces(pieces.filter(|piece| !SPECIAL_TOKENS.contains(piece)))
    }
}

/// The ids of the tokens of a `vocab.json`, and the tokens by id.
type VocabularyMaps = (HashMap<String, u32>, HashMap<u32, String>);

fn parse_vocabulary(json: &[u8]) -> Result<VocabularyMaps, String> {
    let vocabulary: Map<String, Value> = serde_json::from_slice(json).map_err(|error| {
        tr!(
            "expected an object of tokens and their numbers: {error}",
            "トークンと番号のオブジェクトが必要です: {error}"
        )
    })?;
    let (mut ids, mut tokens) = (HashMap::new(), HashMap::new());
    for (token, id) in vocabulary {
        let shown: String = token.chars().take(30).collect();
        let Some(id) = id.as_u64().filter(|&id| id < MAX_IDS) else {
            return Err(tr!(
                "token “{shown}” has number {id}, expected 0 to {}",
                "トークン「{shown}」の番号が {id} です。0 から {} までの数が必要です",
                MAX_IDS - 1
            ));
        };
        let id = id as u32;
        if tokens.insert(id, token.clone()).is_some() {
            return Err(tr!(
                "token “{shown}” has number {id}, which another token has too",
                "トークン「{shown}」の番号 {id} は別のトークンと同じです"
            ));
        }
        ids.insert(token, id);
    }
    Ok((ids, tokens))
}
