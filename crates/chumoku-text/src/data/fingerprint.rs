//! A checksum by which runs on different machines see that they were given the same.

use sha2::{Digest, Sha256};

use super::record::Record;
use crate::checksum::hex;

/// A SHA-256 of parts or of rows, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Fingerprint(Sha256);

impl Fingerprint {
    /// Of nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a part; where it ends counts too.
    pub fn add(&mut self, part: &[u8]) {
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    /// Adds bytes whose parts do not count.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds a row: its line, its fields, and its object if it has one.
    pub fn add_row(&mut self, record: &Record) {
        self.0.update(record.line.to_le_bytes());
        match &record.object {
            Some(object) => self.add(&serde_json::to_vec(object).unwrap_or_default()),
            None => record.fields.iter().for_each(|field| self.add(field.as_bytes())),
        }
    }

    /// In the usual hexadecimal form.
    pub fn hex(self) -> String {
        hex(self.0.finalize())
    }
}
