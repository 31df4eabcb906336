//! What a request may ask for, and how long anything may take.

use std::time::Duration;

/// The bounds of a service. Each is a flag of `chumoku serve`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a request's body.
    pub body: usize,
    /// Texts of a request.
    pub texts: usize,
    /// Characters of a text.
    pub characters: usize,
    /// Tokens that a request may have written.
    pub new_tokens: usize,
    /// Bytes of an answer.
    pub answer: usize,
    /// Bytes that requests hold while they are read, and answers while they are sent, together.
    pub held: usize,
    /// Billions of multiply-adds that an explanation may need.
    pub explain: u64,
    /// Requests that wait for a model, as many again for texts of it, and as many for explanations by all models; one more is
    /// refused.
    pub queue: usize,
    /// Texts that are computed together.
    pub batch_texts: usize,
    /// Characters that are computed together.
    pub batch_characters: usize,
    /// How long a batch waits for requests that are being read.
    pub gather: Duration,
    /// How long a client may take to send a request's head, as long again for its body, and as long to take the next bytes of the
    /// answer.
    pub read: Duration,
    /// How long a request may wait for its model.
    pub wait: Duration,
    /// How long it may be computed.
    pub compute: Duration,
    /// How long the last requests get when the service ends.
    pub drain: Duration,
    /// Connections at a time.
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
