//! Hashes of scripts and style sheets for a content security policy.

use base64::prelude::{BASE64_STANDARD, Engine};
use sha2::{Digest, Sha256};

/// Returns the hash of an inline script or style sheet.
pub fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}

/// Returns the hash of a script or style sheet in a page, in the form of a content security policy.
#[must_use]
pub fn content_hash(text: &str) -> String {
    // Browsers turn CR LF into LF before they compute the hash.
    hash(&text.replace("\r\n", "\n"))
}
