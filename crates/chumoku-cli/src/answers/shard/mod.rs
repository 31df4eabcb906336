//! Shards: runs of `chumoku predict` divide the rows of a file, and `chumoku join` joins their outputs.
//!
//! Shard I of N answers row I and every N-th row after it. No run needs to know the number of rows, all have the same
//! amount of work, and joining takes a row of each in turn.
//!
//! A shard file starts with a line of JSON that identifies its run. The rows follow as `predict` would have written
//! them, in portions with their lengths in front. The last line is missing if the run was interrupted.
//!
//! # Files
//!
//! - `read`: reading shards
//! - `write`: writing shards

mod read;
mod write;

pub(crate) use read::ShardFile;
pub(crate) use write::{ShardPlan, ShardWriter, load_with_shard};

use crate::args::Shard;
use chumoku::data::Fingerprint;
use serde_json::{Map, Value, json};

/// Version of the file format.
const FORMAT_VERSION: u64 = 1;
/// JSON key of the first line that identifies a shard.
const KEY: &str = "chumoku_shard";

/// First line of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardHeader {
    pub(crate) shard: Shard,
    pub(crate) run: ShardRun,
    /// Output before all rows: column names, byte order mark.
    pub(crate) head: String,
}

/// Identity of a run: the same in all of its shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardRun {
    pub(crate) version: String,
    /// Checksum of the model folder.
    pub(crate) model: String,
    /// Flags that determine the answers.
    pub(crate) flags: String,
    /// Language of the reasons for missing answers.
    pub(crate) lang: String,
}

/// Last line of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardFooter {
    /// Number of rows of the whole input.
    pub(crate) rows: u64,
    /// Number of rows of this shard.
    pub(crate) shard_rows: u64,
    /// Checksum of the input rows.
    pub(crate) input_hash: String,
    /// Checksum of the output of this shard.
    pub(crate) output_hash: String,
}

impl ShardHeader {
    fn to_json(&self) -> Value {
        let ShardHeader { shard, run, head } = self;
        json!({
            KEY: FORMAT_VERSION, "shard": shard.index, "of": shard.count, "version": run.version, "model": run.model,
            "flags": run.flags, "lang": run.lang, "head": head,
        })
    }

    /// Parses the first line of a shard.
    fn from_json(line: &Map<String, Value>) -> Option<ShardHeader> {
        let text = |key: &str| line.get(key)?.as_str().map(str::to_owned);
        let number = |key: &str| usize::try_from(line.get(key)?.as_u64()?).ok();
        let run =
            ShardRun { version: text("version")?, model: text("model")?, flags: text("flags")?, lang: text("lang")? };
        let shard = Shard { index: number("shard")?, count: number("of")? };
        let is_one = (1..=shard.count).contains(&shard.index);
        is_one.then_some(ShardHeader { shard, run, head: text("head")? })
    }
}

impl ShardFooter {
    fn to_json(&self) -> Value {
        json!({ "rows": self.rows, "own": self.shard_rows, "input": self.input_hash, "sha256": self.output_hash })
    }

    fn from_json(line: &Map<String, Value>) -> Option<ShardFooter> {
        let text = |key: &str| line.get(key)?.as_str().map(str::to_owned);
        let number = |key: &str| line.get(key)?.as_u64();
        Some(ShardFooter {
            rows: number("rows")?,
            shard_rows: number("own")?,
            input_hash: text("input")?,
            output_hash: text("sha256")?,
        })
    }
}

/// Returns the number of rows of a shard, if the input has `rows` rows.
fn shard_rows(shard: Shard, rows: u64) -> u64 {
    (rows + shard.count as u64 - shard.index as u64) / shard.count as u64
}

/// Summary of the whole input of a shard's run.
#[derive(Debug, Default)]
pub(crate) struct InputSummary {
    pub(crate) rows: u64,
    pub(crate) fingerprint: Fingerprint,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_belongs_to_one_shard() {
        for of in 1..9 {
            for rows in 0..40 {
                let each = (1..=of).map(|at| shard_rows(Shard { index: at, count: of }, rows));
                assert_eq!(each.sum::<u64>(), rows, "{rows} rows in {of}");
                let counted = |at: usize| (0..rows).filter(|row| row % of as u64 == at as u64 - 1).count() as u64;
                (1..=of).for_each(|at| assert_eq!(shard_rows(Shard { index: at, count: of }, rows), counted(at)));
            }
        }
    }
}
