//! Hashes of the texts that a model was trained on. `eval` uses them to warn about training texts in a file.
//!
//! `trained-on.bin` holds one 64-bit number for each distinct text of the training and validation rows: the first eight
//! bytes of the SHA-256 of the text, little-endian, ascending. Case and white space do not count. The file reveals no
//! text, but tells for a given text whether the model was trained on it. It may be deleted.

use crate::Result;
use crate::data::normalize;
use crate::model_folder::{EntryType, Snapshot, TRAINED_ON, current_path, model_file_error, read_file, with_snapshot};
use crate::row::{AsRow, RowRef};
use chumoku_kernels::parallel;
use sha2::{Digest, Sha256};
use std::path::Path;

/// The hashes of the texts that a model was trained on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrainingTexts {
    /// Strictly ascending.
    hashes: Vec<u64>,
}

fn text_hash(row: RowRef<'_>) -> u64 {
    let mut hasher = Sha256::new();
    normalize(row).as_row().joined().for_each(|part| hasher.update(part));
    let digest: [u8; 32] = hasher.finalize().into();
    let (first, _) = digest.split_at(8);
    u64::from_le_bytes(first.try_into().expect("eight bytes"))
}

impl TrainingTexts {
    /// Hashes texts.
    pub(crate) fn from_texts(texts: &[RowRef<'_>]) -> TrainingTexts {
        let mut hashes: Vec<u64> = parallel::map(texts, |text| text_hash(*text));
        hashes.sort_unstable();
        hashes.dedup();
        TrainingTexts { hashes }
    }

    /// Adds texts.
    #[must_use]
    pub fn with(self, texts: &[RowRef<'_>]) -> TrainingTexts {
        let mut hashes = [self.hashes, TrainingTexts::from_texts(texts).hashes].concat();
        hashes.sort_unstable();
        hashes.dedup();
        TrainingTexts { hashes }
    }

    /// Returns how many of `texts` are among them.
    pub fn count(&self, texts: &[RowRef<'_>]) -> usize {
        parallel::map(texts, |text| self.hashes.binary_search(&text_hash(*text)).is_ok())
            .into_iter()
            .filter(|&is_known| is_known)
            .count()
    }

    /// The content of the file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect()
    }

    /// Reads the hashes of a model folder. `None` if the folder has none.
    ///
    /// # Errors
    /// If the file cannot be read, or is damaged.
    pub fn load(folder: &Path) -> Result<Option<TrainingTexts>> {
        with_snapshot(folder, TrainingTexts::from_snapshot)
    }

    pub(crate) fn from_snapshot(folder: &Snapshot) -> Result<Option<TrainingTexts>> {
        if EntryType::at(&current_path(folder, TRAINED_ON)) == EntryType::Missing {
            return Ok(None);
        }
        let bytes = read_file(folder, TRAINED_ON)?;
        let (parts, rest) = bytes.as_chunks::<8>();
        let hashes: Vec<u64> = parts.iter().map(|part| u64::from_le_bytes(*part)).collect();
        if !rest.is_empty() || !hashes.is_sorted_by(|a, b| a < b) {
            let problem = crate::tr!(
                "expected ascending 64-bit numbers, as `chumoku train` writes them, found other content ({} bytes); \
                 the file may be deleted",
                "`chumoku train` が書いた昇順の 64 ビット整数ではありません（{} バイト）。このファイルは削除しても構いません",
                bytes.len()
            );
            return Err(model_file_error(folder, TRAINED_ON, problem));
        }
        Ok(Some(TrainingTexts { hashes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_match_regardless_of_case_and_white_space() {
        let texts = TrainingTexts::from_texts(&["A fine  day.", "a fine day.", "二度と行きません。"].map(str::as_row));
        assert_eq!(texts.hashes.len(), 2);
        assert_eq!(texts.count(&["a FINE day. ", "another day", "二度と行きません。"].map(str::as_row)), 2);
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(TrainingTexts::load(folder.path()).unwrap(), None);
        std::fs::write(folder.path().join(TRAINED_ON), texts.to_bytes()).unwrap();
        assert_eq!(TrainingTexts::load(folder.path()).unwrap(), Some(texts));
        for damaged in [&[1u8; 9][..], &[[7u8; 8], [7u8; 8]].concat()] {
            std::fs::write(folder.path().join(TRAINED_ON), damaged).unwrap();
            assert!(TrainingTexts::load(folder.path()).unwrap_err().to_string().contains("trained-on.bin"));
        }
    }
}
