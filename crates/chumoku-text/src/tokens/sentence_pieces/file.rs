//! SentencePiece's model files (`source.spm`, `spiece.model`): protocol buffers, read with bounds. Only what cutting texts
//! needs is kept.

use super::normalizer::Normalizer;
use crate::tr;

/// Bytes of the largest file that is read.
pub(super) const LARGEST_FILE: u64 = 64 << 20;
/// The most pieces.
const MOST_PIECES: usize = 1 << 20;
/// Bytes of the longest piece.
const LONGEST_PIECE: usize = 512;

/// What a file says.
#[derive(Debug)]
pub(super) struct File {
    pub(super) pieces: Vec<Piece>,
    pub(super) normalizer: Normalizer,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) text: String,
    /// ln p.
    pub(super) score: f32,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    Unknown,
    /// Such as the end of a text: no text is cut into it.
    Control,
    /// Always kept whole.
    UserDefined,
    Unused,
    Byte,
}

/// The value of a field.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Four bytes.
    Four([u8; 4]),
    Eight,
}

fn damaged() -> String {
    tr!(
        "not a sound SentencePiece file: it ends within a field, or holds what such files do not",
        "SentencePiece のファイルとして正しくありません。途中で終わっているか、別の内容です"
    )
}

/// The fields of a message, one after another: numbers and values.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<Option<(u64, Field<'a>)>, String> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.number()?;
        let value = match tag & 7 {
            0 => Field::Number(self.number()?),
            1 => self.take(8).map(|_| Field::Eight)?,
            2 => {
                let length = self.number()?;
                Field::Bytes(self.take(usize::try_from(length).map_err(|_| damaged())?)?)
            }
            5 => Field::Four(self.take(4)?.try_into().map_err(|_| damaged())?),
            _ => return Err(damaged()),
        };
        Ok(Some((tag >> 3, value)))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Seven bits a byte, the lowest first.
    fn number(&mut self) -> Result<u64, String> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(damaged())
    }
}

fn text(bytes: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| tr!("expected pieces in UTF-8, found other bytes", "UTF-8 でないピースがあります"))?;
    Ok(text.to_owned())
}

fn piece(message: &[u8], number: usize) -> Result<Piece, String> {
    let mut piece = Piece { text: String::new(), score: 0.0, kind: Kind::Normal };
    let mut fields = Fields(message);
    while let Some(field) = fields.next()? {
        match field {
            (1, Field::Bytes(bytes)) => piece.text = text(bytes)?,
            (2, Field::Four(bytes)) => piece.score = f32::from_le_bytes(bytes),
            (3, Field::Number(kind)) => {
                piece.kind = match kind {
                    1 => Kind::Normal,
                    2 => Kind::Unknown,
                    3 => Kind::Control,
                    4 => Kind::UserDefined,
                    5 => Kind::Unused,
                    6 => Kind::Byte,
                    _ => return Err(damaged()),
                }
            }
            _ => {}
        }
    }
    if piece.text.is_empty() || piece.text.len() > LONGEST_PIECE {
        let bytes = piece.text.len();
        return Err(tr!(
            "piece {number}: expected 1 to {LONGEST_PIECE} bytes, found {bytes}",
            "ピース {number}: 1 から {LONGEST_PIECE} バイトのはずですが、{bytes} バイトです"
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

/// That cutting is what this version does: by a unigram model.
fn check_training(message: &[u8]) -> Result<(), String> {
    const KINDS: [&str; 5] = ["", "UNIGRAM", "BPE", "WORD", "CHAR"];
    let mut fields = Fields(message);
    while let Some(field) = fields.next()? {
        let refused = match field {
            (3, Field::Number(kind)) if kind != 1 => {
                let found = usize::try_from(kind).ok().and_then(|kind| KINDS.get(kind).copied()).unwrap_or("");
                tr!("model_type: expected UNIGRAM, found {found}", "model_type: UNIGRAM が必要ですが、{found} です")
            }
            (24, Field::Number(1..)) => tr!(
                "treat_whitespace_as_suffix: this version does not read it",
                "treat_whitespace_as_suffix: この版では読めません"
            ),
            (35, Field::Number(1..)) => {
                tr!("byte_fallback: this version does not read it", "byte_fallback: この版では読めません")
            }
            _ => continue,
        };
        return Err(refused);
    }
    Ok(())
}

fn normalizer(message: &[u8]) -> Result<Normalizer, String> {
    let (mut map, mut dummy, mut extra, mut escape) = (&[][..], true, true, true);
    let mut fields = Fields(message);
    while let Some(field) = fields.next()? {
        match field {
            (2, Field::Bytes(bytes)) => map = bytes,
            (3, Field::Number(is_set)) => dummy = is_set != 0,
            (4, Field::Number(is_set)) => extra = is_set != 0,
            (5, Field::Number(is_set)) => escape = is_set != 0,
            _ => {}
        }
    }
    Normalizer::new(map, [dummy, extra, escape])
}

impl File {
    /// Reads the bytes of a file. What it says of sizes is never taken for true.
    pub(super) fn parse(bytes: &[u8]) -> Result<File, String> {
        let mut pieces = Vec::new();
        let mut read = normalizer(&[])?;
        let mut fields = Fields(bytes);
        while let Some(field) = fields.next()? {
            match field {
                (1, Field::Bytes(_)) if pieces.len() == MOST_PIECES => {
                    return Err(tr!("expected at most {MOST_PIECES} pieces", "ピースは {MOST_PIECES} 個までです"));
                }
                (1, Field::Bytes(message)) => pieces.push(piece(message, pieces.len())?),
                (2, Field::Bytes(message)) => check_training(message)?,
                (3, Field::Bytes(message)) => read = normalizer(message)?,
                (5, Field::Bytes(message)) if normalizer(message)?.has_map() => {
                    return Err(tr!(
                        "denormalizer_spec: this version does not read it",
                        "denormalizer_spec: この版では読めません"
                    ));
                }
                (1..=5, Field::Number(_) | Field::Four(_) | Field::Eight) => return Err(damaged()),
                _ => {}
            }
        }
        let unknown = pieces.iter().filter(|piece| piece.kind == Kind::Unknown).count();
        if unknown != 1 {
            return Err(tr!(
                "expected one piece for what is unknown, found {unknown}",
                "未知語のピースが一つ必要ですが、{unknown} 個です"
            ));
        }
        Ok(File { pieces, normalizer: read })
    }
}
