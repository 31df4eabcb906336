//! Decodes other encodings to UTF-8 while streaming. Malformed bytes are errors, never replaced.

use std::io::{self, Read};

use encoding_rs::{Decoder, DecoderResult, Encoding};

use super::gzip::StreamFault;

/// Bytes per read.
const CHUNK: usize = 16 * 1024;

/// Guesses the encoding of a line that is not UTF-8, for a hint: the first common encoding that decodes it plausibly.
pub(crate) fn guess_encoding(line: &[u8]) -> &'static str {
    for (encoding, name) in [(encoding_rs::SHIFT_JIS, "shift_jis"), (encoding_rs::EUC_JP, "euc-jp")] {
        if let Some(text) = encoding.decode_without_bom_handling_and_without_replacement(line) {
            // Both decode almost any bytes. Japanese text contains kana.
            let beyond_ascii = text.chars().filter(|c| !c.is_ascii()).count();
            let kana = text.chars().filter(|c| ('\u{3041}'..='\u{30ff}').contains(c)).count();
            if kana > 0 && kana * 8 >= beyond_ascii {
                return name;
            }
        }
    }
    let multibyte = line.windows(2).any(|pair| pair[0] >= 0x80 && pair[1] >= 0x80);
    if multibyte { "shift_jis" } else { "windows-1252" }
}

/// Returns the place of an escape sequence of ISO-2022-JP, whose bytes are ASCII and therefore valid UTF-8.
pub(crate) fn find_iso_2022_jp(text: &str) -> Option<usize> {
    ["\u{1b}$B", "\u{1b}$@"].iter().filter_map(|escape| text.find(escape)).min()
}

/// Multi-byte UTF-8 characters after which a text is taken as UTF-8.
const CONCLUSIVE_CHARACTERS: usize = 8;
/// Fewer suffice if the whole text is known. The second number is for multi-byte encodings, whose bytes can look like
/// UTF-8 by chance.
const SUFFICIENT_CHARACTERS: [usize; 2] = [1, 4];

/// Collects evidence that bytes are UTF-8 with non-ASCII characters. Texts in other encodings almost never look like
/// that.
#[derive(Default)]
pub(crate) struct Utf8Evidence {
    /// Bytes of an incomplete character.
    pending: Vec<u8>,
    characters: usize,
    is_broken: bool,
}

impl Utf8Evidence {
    /// Adds bytes to the evidence.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        if self.is_broken || self.characters >= CONCLUSIVE_CHARACTERS {
            return;
        }
        let joined;
        let mut rest = match self.pending.is_empty() {
            true => bytes,
            false => {
                joined = [&std::mem::take(&mut self.pending)[..], bytes].concat();
                &joined[..]
            }
        };
        let valid = match std::str::from_utf8(rest) {
            Ok(text) => {
                rest = &[];
                text
            }
            Err(error) => {
                self.is_broken = error.error_len().is_some();
                let (valid, tail) = rest.split_at(error.valid_up_to());
                rest = tail;
                std::str::from_utf8(valid).unwrap_or_default()
            }
        };
        self.characters += valid.chars().filter(|c| !c.is_ascii()).take(CONCLUSIVE_CHARACTERS).count();
        self.pending.extend_from_slice(&rest[..rest.len().min(4)]);
    }

    /// Returns whether the text is UTF-8 rather than `encoding`. `whole` says that all of it has been seen.
    pub(crate) fn contradicts(&self, encoding: &'static Encoding, whole: bool) -> bool {
        let is_wide = [encoding_rs::UTF_16LE, encoding_rs::UTF_16BE, encoding_rs::ISO_2022_JP].contains(&encoding);
        let enough = SUFFICIENT_CHARACTERS[usize::from(!encoding.is_single_byte())];
        let is_enough =
            self.characters >= CONCLUSIVE_CHARACTERS || whole && self.pending.is_empty() && self.characters >= enough;
        !self.is_broken && !is_wide && is_enough
    }

    /// Returns whether the text is valid UTF-8 without zero bytes, even if it is ASCII only. `bytes` are the bytes seen
    /// so far.
    pub(crate) fn is_valid_text(&self, bytes: &[u8]) -> bool {
        // The last character may be incomplete.
        let is_utf8 = std::str::from_utf8(bytes).map_or_else(|error| error.error_len().is_none(), |_| true);
        !self.is_broken && bytes.len() > 1 && is_utf8 && !bytes.contains(&0)
    }

    /// Returns whether the text is UTF-8 so far and has a non-ASCII character.
    pub(crate) fn is_likely(&self) -> bool {
        !self.is_broken && self.characters > 0
    }
}

/// Returns whether text looks as if it was decoded with a wrong encoding. Such text has control characters, or nearly
/// all of its letters are accented, half-width kana, or from rare scripts.
pub(crate) fn looks_garbled(text: &str) -> bool {
    let letters: Vec<char> = text.chars().filter(|c| c.is_alphabetic() || !c.is_ascii()).take(20_000).collect();
    let share =
        |of: &dyn Fn(char) -> bool| letters.iter().filter(|&&c| of(c)).count() as f64 / letters.len().max(1) as f64;
    let is_odd = |c: char| matches!(c, '\u{80}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fffd}');
    let is_accented =
        |c: char| matches!(c, '\u{a0}'..='\u{ff}' | '\u{152}'..='\u{178}' | '\u{2013}'..='\u{203a}' | '\u{20ac}');
    let is_half = |c: char| matches!(c, '\u{ff61}'..='\u{ff9f}');
    // UTF-16 with swapped bytes moves every Latin letter into another script.
    let is_swapped = |c: char| c as u32 > 0xff && c as u32 & 0xff == 0;
    letters.len() >= 8
        && (share(&is_odd) > 0.02 || share(&is_accented) > 0.5 || share(&is_half) > 0.4 || share(&is_swapped) > 0.4)
}

/// A reader that decodes another encoding to UTF-8. A byte order mark takes precedence over the named encoding.
pub(crate) struct DecodingReader<R> {
    input: R,
    encoding: &'static Encoding,
    decoder: Decoder,
    chunk: Vec<u8>,
    chunk_start: usize,
    chunk_end: usize,
    at_end: bool,
    /// Input bytes decoded so far.
    offset: u64,
    out: Vec<u8>,
    out_start: usize,
    fault: Option<StreamFault>,
    finished: bool,
    evidence: Utf8Evidence,
}

impl<R: Read> DecodingReader<R> {
    pub(crate) fn new(input: R, encoding: &'static Encoding) -> Self {
        DecodingReader {
            input,
            encoding,
            decoder: encoding.new_decoder(),
            chunk: vec![0; CHUNK],
            chunk_start: 0,
            chunk_end: 0,
            at_end: false,
            offset: 0,
            out: Vec::new(),
            out_start: 0,
            fault: None,
            finished: false,
            evidence: Utf8Evidence::default(),
        }
    }

    /// Decodes the rest of the chunk into `out`.
    fn decode_chunk(&mut self) {
        self.out.resize(2 * CHUNK, 0);
        let bytes = &self.chunk[self.chunk_start..self.chunk_end];
        let (result, taken, written) =
            self.decoder.decode_to_utf8_without_replacement(bytes, &mut self.out, self.at_end);
        self.offset += taken as u64;
        self.chunk_start += taken;
        self.out.truncate(written);
        self.out_start = 0;
        match result {
            DecoderResult::InputEmpty => self.finished = self.at_end,
            DecoderResult::OutputFull => {}
            DecoderResult::Malformed(bad, beyond) => {
                let offset = self.offset.saturating_sub(u64::from(bad) + u64::from(beyond));
                self.fault = Some(StreamFault::Encoding { encoding: self.encoding.name(), offset });
                self.finished = true;
            }
        }
    }
}

impl<R: Read> Read for DecodingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let ready = &self.out[self.out_start..];
            if !ready.is_empty() || buffer.is_empty() {
                let n = ready.len().min(buffer.len());
                buffer[..n].copy_from_slice(&ready[..n]);
                self.out_start += n;
                return Ok(n);
            }
            if let Some(fault) = self.fault.take() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, fault));
            }
            if self.finished {
                return Ok(0);
            }
            if self.chunk_start == self.chunk_end && !self.at_end {
                self.chunk_end = self.input.read(&mut self.chunk)?;
                self.chunk_start = 0;
                self.at_end = self.chunk_end == 0;
                self.evidence.feed(&self.chunk[..self.chunk_end]);
                if self.evidence.contradicts(self.encoding, self.at_end) {
                    self.finished = true;
                    let fault = StreamFault::Utf8 { encoding: self.encoding.name() };
                    return Err(io::Error::new(io::ErrorKind::InvalidData, fault));
                }
            }
            self.decode_chunk();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use encoding_rs::{EUC_JP, SHIFT_JIS, WINDOWS_1251, WINDOWS_1252};

    fn speaks(bytes: &[u8], encoding: &'static Encoding, piece: usize) -> bool {
        let mut evidence = Utf8Evidence::default();
        bytes.chunks(piece).for_each(|bytes| evidence.feed(bytes));
        evidence.contradicts(encoding, true)
    }

    #[test]
    fn utf8_is_detected_in_chunks_of_any_size() {
        let (german, japanese) = ("Grüße aus Köln, schön war es", "とても良い宿でした。");
        for piece in 1..8 {
            assert!(speaks(german.as_bytes(), encoding_rs::WINDOWS_1252, piece));
            assert!(speaks(japanese.as_bytes(), encoding_rs::SHIFT_JIS, piece));
            let latin = encoding_rs::WINDOWS_1252.encode(german).0;
            assert!(!speaks(&latin, encoding_rs::WINDOWS_1252, piece));
            let shift_jis = encoding_rs::SHIFT_JIS.encode(japanese).0;
            assert!(!speaks(&shift_jis, encoding_rs::SHIFT_JIS, piece));
            assert!(!speaks(b"nothing beyond ASCII", encoding_rs::WINDOWS_1252, piece));
        }
        // Two GBK characters whose bytes are valid UTF-8 by chance.
        assert!(!speaks(&encoding_rs::GBK.encode("联通").0, encoding_rs::GBK, 2));
    }

    #[test]
    fn wrongly_decoded_texts_look_garbled() {
        let read = |text: &str, written: &'static Encoding, read: &'static Encoding| {
            looks_garbled(&read.decode_without_bom_handling(&written.encode(text).0).0)
        };
        assert!(read("Очень хорошая гостиница, спасибо", WINDOWS_1251, WINDOWS_1252));
        assert!(read("とても良い宿でした。また来ます", SHIFT_JIS, WINDOWS_1252));
        assert!(read("とても良い宿でした。また来ます", EUC_JP, SHIFT_JIS));
        for text in [
            "Très bien, à bientôt, très près de l’été où ça naît",
            "ｱｲｽ美味しい。接客も良い店でした",
            "Größe, Öl, Übermut",
        ] {
            assert!(!looks_garbled(text), "{text}");
        }
    }
}
