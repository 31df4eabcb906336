//! Other encodings than UTF-8, turned into UTF-8 as they stream by; nothing is replaced or guessed on the way.

use std::io::{self, Read};

use encoding_rs::{Decoder, DecoderResult, Encoding};

use super::gzip::Fault;

/// Bytes taken from the input at a time.
const CHUNK: usize = 16 * 1024;

/// The encoding to name in a hint for a line that is not UTF-8: the first of the common ones that makes sense of it.
pub(crate) fn likely_encoding(line: &[u8]) -> &'static str {
    for (encoding, name) in [(encoding_rs::SHIFT_JIS, "shift_jis"), (encoding_rs::EUC_JP, "euc-jp")] {
        if let Some(text) = encoding.decode_without_bom_handling_and_without_replacement(line) {
            // Either of the two makes characters of almost anything; Japanese text has kana in it.
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

/// A reader of UTF-8 over bytes in another encoding; a byte order mark wins over the encoding named.
pub(crate) struct Decoding<R> {
    input: R,
    encoding: &'static Encoding,
    decoder: Decoder,
    chunk: Vec<u8>,
    chunk_start: usize,
    chunk_end: usize,
    at_end: bool,
    /// Bytes of the input that the decoder has taken.
    offset: u64,
    out: Vec<u8>,
    out_start: usize,
    fault: Option<Fault>,
    finished: bool,
}

impl<R: Read> Decoding<R> {
    pub(crate) fn new(input: R, encoding: &'static Encoding) -> Self {
        Decoding {
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
        }
    }

    /// Decodes what is left of the chunk into `out`.
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
                self.fault = Some(Fault::Encoding { encoding: self.encoding.name(), offset });
                self.finished = true;
            }
        }
    }
}

impl<R: Read> Read for Decoding<R> {
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
            }
            self.decode_chunk();
        }
    }
}
