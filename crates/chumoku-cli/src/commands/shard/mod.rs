//! Shards: the rows of a file divided among runs of `chumoku predict`, and put together again by `chumoku join`.
//!
//! Shard I of N answers row I and every N-th row behind it. So no run needs to know how many rows there are, each has as much
//! to do, and joining takes a row of each in turn. A shard is a file of its own kind: a line of JSON that says what run it is
//! of, the rows as `predict` would have written them, in portions whose lengths stand before them, and a line at the end
//! which a run that broke off has not written.
//!
//! # Files
//!
//! - `join`: `join`
//! - `read`: reading shards
//! - `write`: writing shards

mod join;
mod read;
mod write;

pub(super) use join::run;
pub(super) use write::{ShardPlan, ShardWriter, load_with_shard};

use crate::args::Shard;
use chumoku::data::Fingerprint;
use serde_json::{Map, Value, json};

/// The version of the form.
const FORMAT_VERSION: u64 = 1;
/// The key of the first line, by which a shard is recognised.
const KEY: &str = "chumoku_shard";

/// What a shard says of itself before its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ShardHeader {
    shard: Shard,
    run: ShardRun,
    /// What stands before all rows: the names of the columns, a byte order mark.
    head: String,
}

/// What the shards of one run have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ShardRun {
    version: String,
    /// The checksum of the model's folder.
    model: String,
    /// The flags that answers depend on.
    flags: String,
    /// The language of the reasons why rows have no answer.
    lang: String,
}

/// What a shard says behind its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ShardFooter {
    /// Rows of the whole input.
    rows: u64,
    /// Those of this shard.
    own: u64,
    /// The checksum of the input's rows.
    input: String,
    /// The checksum of this shard's rows as they are written.
    written: String,
}

impl ShardHeader {
    fn to_json(&self) -> Value {
        let ShardHeader { shard, run, head } = self;
        json!({
            KEY: FORMAT_VERSION, "shard": shard.index, "of": shard.count, "version": run.version, "model": run.model,
            "flags": run.flags, "lang": run.lang, "head": head,
        })
    }

    /// Nothing, if the line is not that of a shard.
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
        json!({ "rows": self.rows, "own": self.own, "input": self.input, "sha256": self.written })
    }

    fn from_json(line: &Map<String, Value>) -> Option<ShardFooter> {
        let text = |key: &str| line.get(key)?.as_str().map(str::to_owned);
        let number = |key: &str| line.get(key)?.as_u64();
        Some(ShardFooter {
            rows: number("rows")?,
            own: number("own")?,
            input: text("input")?,
            written: text("sha256")?,
        })
    }
}

/// How many of so many rows a shard has.
fn shard_rows(shard: Shard, rows: u64) -> u64 {
    (rows + shard.count as u64 - shard.index as u64) / shard.count as u64
}

/// What was seen of the input, by a run that reads all of it.
#[derive(Debug, Default)]
pub(super) struct InputSummary {
    pub(super) rows: u64,
    pub(super) fingerprint: Fingerprint,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_divided_without_a_rest() {
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
