//! SentencePiece model files (`source.spm`, `spiece.model`): protocol buffers, read with bounds. Only the fields that
//! segmentation needs are kept.

use super::normalizer::Normalizer;
use crate::tr;

/// Largest file that is read, in bytes.
pub(super) const MAX_FILE_BYTES: u64 = 64 << 20;
/// Most pieces.
const MAX_PIECES: usize = 1 << 20;
/// Longest piece, in bytes.
const MAX_PIECE_BYTES: usize = 512;

/// The content of a model file.
#[derive(Debug)]
pub(super) struct ModelFile {
    pub(super) pieces: Vec<VocabularyPiece>,
    pub(super) normalizer: Normalizer,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct VocabularyPiece {
    pub(super) text: String,
    /// ln p.
    pub(super) score: f32,
    pub(super) kind: PieceKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceKind {
    Normal,
    Unknown,
    /// Control tokens, such as the end of a sequence. They never occur in texts.
    Control,
    /// Never split.
    UserDefined,
    Unused,
    Byte,
}

/// The value of a protocol buffer field.
enum FieldValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Four bytes.
    Four([u8; 4]),
    Eight,
}

fn damaged_file() -> String {
    tr!(
        "not a valid SentencePiece file: it ends inside a field or has other content",
        "SentencePiece のファイルとして正しくありません。途中で終わっているか、別の内容です"
    )
}

/// Reads the fields of a message in order, each with its number.
struct FieldReader<'a>(&'a [u8]);

impl<'a> FieldReader<'a> {
    fn next(&mut self) -> Result<Option<(u64, FieldValue<'a>)>, String> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.number()?;
        let value = match tag & 7 {
            0 => FieldValue::Number(self.number()?),
            1 => self.take(8).map(|_| FieldValue::Eight)?,
            2 => {
                let length = self.number()?;
                FieldValue::Bytes(self.take(usize::try_from(length).map_err(|_| damaged_file())?)?)
            }
            5 => FieldValue::Four(self.take(4)?.try_into().map_err(|_| damaged_file())?),
            _ => return Err(damaged_file()),
        };
        Ok(Some((tag >> 3, value)))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(damaged_file)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads a varint: seven bits per byte, the lowest first.
    fn number(&mut self) -> Result<u64, String> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(damaged_file())
    }
}

fn parse_text(bytes: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| tr!("expected pieces in UTF-8, found other bytes", "UTF-8 でないピースがあります"))?;
    Ok(text.to_owned())
}

fn parse_piece(message: &[u8], number: usize) -> Result<VocabularyPiece, String> {
    let mut piece = VocabularyPiece { text: String::new(), score: 0.0, kind: PieceKind::Normal };
    let mut fields = FieldReader(message);
    while let Some(field) = fields.next()? {
        match field {
            (1, FieldValue::Bytes(bytes)) => piece.text = parse_text(bytes)?,
            (2, FieldValue::Four(bytes)) => piece.score = f32::from_le_bytes(bytes),
            (3, FieldValue::Number(kind)) => {
                piece.kind = match kind {
                    1 => PieceKind::Normal,
                    2 => PieceKind::Unknown,
                    3 => PieceKind::Control,
                    4 => PieceKind::UserDefined,
                    5 => PieceKind::Unused,
                    6 => PieceKind::Byte,
                    _ => return Err(damaged_file()),
                }
            }
            _ => {}
        }
    }
    if piece.text.is_empty() || piece.text.len() > MAX_PIECE_BYTES {
        let bytes = piece.text.len();
        return Err(tr!(
            "piece {number}: expected 1 to {MAX_PIECE_BYTES} bytes, found {bytes}",
            "ピース {number}: 1 から {MAX_PIECE_BYTES} バイトのはずですが、{bytes} バイトです"
        ));
    }
    if !piece.score.is_finite() {
        let score = piece.score;
        return Err(tr!(
            "piece {number}: expected a finite score, found {score}",
            "ピース {number}: スコアが有限の数ではありません ({score})"
        ));
    }
    Ok(piece)
}

/// Checks that the model type is unigram, the only one that is supported.
fn check_trainer_spec(message: &[u8]) -> Result<(), String> {
    const KINDS: [&str; 5] = ["", "UNIGRAM", "BPE", "WORD", "CHAR"];
    let mut fields = FieldReader(message);
    while let Some(field) = fields.next()? {
        let refused = match field {
            (3, FieldValue::Number(kind)) if kind != 1 => {
                let found = usize::try_from(kind).ok().and_then(|kind| KINDS.get(kind).copied()).unwrap_or("");
                tr!("model_type: expected UNIGRAM, found {found}", "model_type: UNIGRAM が必要ですが、{found} です")
            }
            (24, FieldValue::Number(1..)) => tr!(
                "treat_whitespace_as_suffix: this version does not support it",
                "treat_whitespace_as_suffix: このバージョンでは対応していません"
            ),
            (35, FieldValue::Number(1..)) => {
                tr!(
                    "byte_fallback: this version does not support it",
                    "byte_fallback: このバージョンでは対応していません"
                )
            }
            _ => continue,
        };
        return Err(refused);
    }
    Ok(())
}

fn parse_normalizer(message: &[u8]) -> Result<Normalizer, String> {
    let (mut map, mut dummy, mut extra, mut escape) = (&[][..], true, true, true);
    let mut fields = FieldReader(message);
    while let Some(field) = fields.next()? {
        match field {
            (2, FieldValue::Bytes(bytes)) => map = bytes,
            (3, FieldValue::Number(is_set)) => dummy = is_set != 0,
            (4, FieldValue::Number(is_set)) => extra = is_set != 0,
            (5, FieldValue::Number(is_set)) => escape = is_set != 0,
            _ => {}
        }
    }
    Normalizer::new(map, [dummy, extra, escape])
}

impl ModelFile {
    /// Parses the bytes of a file. Sizes in the file are never trusted.
    pub(super) fn parse(bytes: &[u8]) -> Result<ModelFile, String> {
        let mut pieces = Vec::new();
        let mut read = parse_normalizer(&[])?;
        let mut fields = FieldReader(bytes);
        while let Some(field) = fields.next()? {
            match field {
                (1, FieldValue::Bytes(_)) if pieces.len() == MAX_PIECES => {
                    return Err(tr!("expected at most {MAX_PIECES} pieces", "ピースは {MAX_PIECES} 個までです"));
                }
                (1, FieldValue::Bytes(message)) => pieces.push(parse_piece(message, pieces.len())?),
                (2, FieldValue::Bytes(message)) => check_trainer_spec(message)?,
                (3, FieldValue::Bytes(message)) => read = parse_normalizer(message)?,
                (5, FieldValue::Bytes(message)) if parse_normalizer(message)?.has_map() => {
                    return Err(tr!(
                        "denormalizer_spec: this version does not support it",
                        "denormalizer_spec: このバージョンでは対応していません"
                    ));
                }
                (1..=5, FieldValue::Number(_) | FieldValue::Four(_) | FieldValue::Eight) => return Err(damaged_file()),
                _ => {}
            }
        }
        let unknown = pieces.iter().filter(|piece| piece.kind == PieceKind::Unknown).count();
        if unknown != 1 {
            return Err(tr!(
                "expected one piece for unknown characters, found {unknown}",
                "未知語のピースが一つ必要ですが、{unknown} 個です"
            ));
        }
        Ok(ModelFile { pieces, normalizer: read })
    }
}
