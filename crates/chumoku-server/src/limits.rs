//! Limits of requests and times.

use std::time::Duration;

/// The limits of the service. Each is a flag of `chumoku serve`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum size of a request body, in bytes.
    pub body: usize,
    /// Maximum number of texts per request.
    pub texts: usize,
    /// Maximum number of characters per text.
    pub characters: usize,
    /// Maximum number of tokens that a request may generate.
    pub new_tokens: usize,
    /// Maximum size of an answer, in bytes.
    pub answer: usize,
    /// Maximum size of all requests being read and answers being sent, in bytes.
    pub held: usize,
    /// Maximum cost of an explanation, in billions of multiply-adds.
    pub explain: u64,
    /// Maximum number of waiting requests: per model for short requests, per model for text generation, and in total
    /// for explanations.
    pub queue: usize,
    /// Maximum number of texts in a batch.
    pub batch_texts: usize,
    /// Maximum number of characters in a batch.
    pub(crate) batch_characters: usize,
    /// Time that a batch waits for requests that are still being read.
    pub gather: Duration,
    /// Maximum time for a client to send a request's head, to send its body, and to take the next bytes of an answer.
    pub read: Duration,
    /// Maximum time that a request waits for its model.
    pub wait: Duration,
    /// Maximum time to compute an answer.
    pub compute: Duration,
    /// Maximum time for open requests to finish at shutdown.
    pub drain: Duration,
    /// Maximum number of open connections.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body: 2_000_000,
            texts: 128,
            characters: 100_000,
            new_tokens: 1024,
            answer: 64_000_000,
            held: 512_000_000,
            explain: 1000,
            queue: 512,
            batch_texts: 256,
            batch_characters: 200_000,
            gather: Duration::from_millis(2),
            read: Duration::from_secs(10),
            wait: Duration::from_secs(30),
            compute: Duration::from_secs(60),
            drain: Duration::from_secs(30),
            connections: 1024,
        }
    }
}
