//! A hash that shows whether runs on different machines have the same input.

use sha2::{Digest, Sha256};

use super::record::Record;
use crate::checksum::hex;

/// A SHA-256 of parts or rows in order.
#[derive(Clone, Debug, Default)]
pub struct Fingerprint(Sha256);

impl Fingerprint {
    /// Creates the hash of no input.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a part and its length, so that the boundaries of parts count.
    pub fn add(&mut self, part: &[u8]) {
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    /// Adds bytes without their length, so that boundaries do not count.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds a row: its line and its fields, or its object if it has one.
    pub fn add_row(&mut self, record: &Record) {
        self.0.update(record.line.to_le_bytes());
        match &record.object {
            Some(object) => self.add(&serde_json::to_vec(object).unwrap_or_default()),
            None => record.fields.iter().for_each(|field| self.add(field.as_bytes())),
        }
    }

    /// Finishes the hash, in hexadecimal.
    pub fn hex(self) -> String {
        hex(self.0.finalize())
    }
}
