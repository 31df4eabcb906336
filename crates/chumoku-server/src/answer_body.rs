//! Answers as bytes. The thread that computed an answer writes it piece by piece, up to a size limit. The connection
//! sends it in chunks and frees each one afterwards.

use crate::memory_budget::MemoryShare;
use crate::request_error::{RequestError, Result};
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use chumoku::{failpoint, tr};
use chumoku_kernels::cancel;
use hyper::body::{Frame, SizeHint};
use serde::Serialize;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Size of a chunk in bytes.
const CHUNK_BYTES: usize = 64 << 10;

/// An answer in JSON or HTML.
#[derive(Debug)]
pub(crate) struct AnswerBody {
    chunks: VecDeque<Vec<u8>>,
    length: usize,
    limit: usize,
    content_type: &'static str,
}

impl AnswerBody {
    fn new(most: usize, content_type: &'static str) -> AnswerBody {
        AnswerBody { chunks: VecDeque::new(), length: 0, limit: most, content_type }
    }

    /// Writes a value as JSON.
    ///
    /// # Errors
    /// If the answer is too large.
    pub(crate) fn json(value: &impl Serialize, most: usize) -> Result<AnswerBody> {
        let mut written = AnswerBody::new(most, "application/json");
        written.push(value)?;
        Ok(written)
    }

    /// Writes values as a list, or a single one by itself if `is_one`. Each value is dropped before the next is made.
    ///
    /// # Errors
    /// The first error of a value, or if the answer is too large.
    pub(crate) fn list<T: Serialize>(
        values: impl Iterator<Item = Result<T>>,
        is_one: bool,
        most: usize,
    ) -> Result<AnswerBody> {
        let mut written = AnswerBody::new(most, "application/json");
        if !is_one {
            written.text("[")?;
        }
        for (at, value) in values.enumerate() {
            failpoint::hit("answer");
            cancel::check();
            if at > 0 {
                written.text(",")?;
            }
            written.push(&value?)?;
        }
        if !is_one {
            written.text("]")?;
        }
        Ok(written)
    }

    /// Writes an HTML page.
    ///
    /// # Errors
    /// If the answer is too large.
    pub(crate) fn page(html: &str, most: usize) -> Result<AnswerBody> {
        let mut written = AnswerBody::new(most, "text/html; charset=utf-8");
        written.text(html)?;
        Ok(written)
    }

    fn text(&mut self, text: &str) -> Result<()> {
        io::Write::write_all(self, text.as_bytes()).map_err(|_| self.too_large())
    }

    /// Appends a value as JSON.
    fn push(&mut self, value: &impl Serialize) -> Result<()> {
        serde_json::to_writer(&mut *self, value).map_err(|_| self.too_large())
    }

    fn too_large(&self) -> RequestError {
        let most = self.limit;
        RequestError::too_large(tr!(
            "the answer has more than {most} bytes (--max-answer); request less at a time",
            "答えが {most} バイト（--max-answer）を超えました。一度に求める量を減らしてください"
        ))
    }

    /// Returns the response with these bytes, which `share` counts until they are sent.
    ///
    /// # Errors
    /// If the answers being sent hold too many bytes.
    pub(crate) fn into_response(self, mut share: MemoryShare) -> Result<Response> {
        share.grow(self.length)?;
        let content_type = HeaderValue::from_static(self.content_type);
        let is_page = self.content_type != "application/json";
        let AnswerBody { chunks, length, .. } = self;
        let mut response = Response::new(Body::new(ChunkedBody { chunks, left: length as u64, share }));
        response.headers_mut().insert(header::CONTENT_TYPE, content_type);
        if is_page {
            response.headers_mut().insert("X-Content-Type-Options", HeaderValue::from_static("nosniff"));
        }
        Ok(response)
    }
}

impl io::Write for AnswerBody {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.length + bytes.len() > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let has_room = |last: &Vec<u8>| last.len() < CHUNK_BYTES;
        if !self.chunks.back().is_some_and(has_room) {
            // The first chunk grows with the answer, which is usually small.
            let room = if self.chunks.is_empty() { 0 } else { CHUNK_BYTES };
            self.chunks.push_back(Vec::with_capacity(room));
        }
        let Some(last) = self.chunks.back_mut() else { return Ok(0) };
        let count = bytes.len().min(CHUNK_BYTES - last.len());
        last.extend_from_slice(&bytes[..count]);
        self.length += count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The body of a response.
struct ChunkedBody {
    chunks: VecDeque<Vec<u8>>,
    left: u64,
    share: MemoryShare,
}

impl HttpBody for ChunkedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(chunk) = self.chunks.pop_front() else { return Poll::Ready(None) };
        self.left -= chunk.len() as u64;
        self.share.shrink(chunk.len());
        Poll::Ready(Some(Ok(Frame::data(chunk.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.chunks.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(written: &AnswerBody) -> Vec<u8> {
        written.chunks.iter().flatten().copied().collect()
    }

    #[test]
    fn lists_of_any_size_equal_those_of_serde() {
        for (count, length) in [(0, 1), (1, 1), (3, 10), (40, 9_999)] {
            let values: Vec<String> = (0..count).map(|i| format!("{i}\"\n").repeat(length)).collect();
            let written = AnswerBody::list(values.iter().map(Ok), false, usize::MAX).unwrap();
            assert_eq!(bytes(&written), serde_json::to_vec(&values).unwrap());
            assert!(written.chunks.iter().all(|chunk| chunk.len() <= CHUNK_BYTES));
        }
        let one = AnswerBody::list([Ok("a")].into_iter(), true, 99).unwrap();
        assert_eq!(bytes(&one), b"\"a\"");
    }

    #[test]
    fn an_answer_that_is_too_large_stops_early() {
        let mut made = 0;
        let values = (0..1_000_000).map(|i| {
            made = i;
            Ok(i)
        });
        let refusal = AnswerBody::list(values, false, 100_000).unwrap_err();
        assert_eq!(refusal.status, 413);
        assert!(made < 20_000, "{made} of 1,000,000 values were made");
        assert_eq!(bytes(&AnswerBody::json(&"abc", 5).unwrap()), b"\"abc\"");
        assert!(AnswerBody::json(&"abc", 4).is_err() && AnswerBody::page("abc", 2).is_err());
    }
}
