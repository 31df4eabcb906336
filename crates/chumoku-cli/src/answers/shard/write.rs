//! Writes shards.

use super::{InputSummary, ShardFooter, ShardHeader, ShardRun};
use crate::args::{PredictArgs, Shard};
use chumoku::data::{DataError, Fingerprint};
use chumoku::{lang, model_fingerprint, read_model_folder};
use serde_json::{Value, json};
use std::io::{BufWriter, IsTerminal, StdoutLock, Write, stdout};

/// Size of the rows from which a portion is written. Slow streams are flushed earlier.
const MAX_PORTION_BYTES: usize = 1 << 20;

/// The shard to write, and its run.
pub(crate) struct ShardPlan {
    pub(crate) shard: Shard,
    run: ShardRun,
}

/// Loads the model, and plans the requested shard, if any.
///
/// # Errors
/// Errors of `load`; or if the shard would be written to a terminal, or the model cannot be read.
pub(crate) fn load_with_shard<M>(
    args: &PredictArgs,
    mut load: impl FnMut() -> anyhow::Result<M>,
) -> anyhow::Result<(M, Option<ShardPlan>)> {
    read_model_folder(&args.model, || Ok((load()?, plan_shard(args)?)))
}

/// Plans the requested shard, if any.
///
/// # Errors
/// If it would be written to a terminal, or the model cannot be read.
fn plan_shard(args: &PredictArgs) -> anyhow::Result<Option<ShardPlan>> {
    let Some(shard) = args.shard else { return Ok(None) };
    refuse_if!(
        stdout().is_terminal(),
        "--shard {shard}: the output is a file for `chumoku join`, not for a terminal: redirect it, as in … --shard {shard} > shard-{}",
        "--shard {shard}: 分割した結果はそのまま読むものではなく、`chumoku join` に渡すものです。… --shard {shard} > shard-{} のように\
             ファイルに書き出してください",
        shard.index
    );
    let run = ShardRun {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        model: model_fingerprint(&args.model)?,
        flags: args.answer_flags(),
        lang: lang::lang().pick("en", "ja").to_owned(),
    };
    Ok(Some(ShardPlan { shard, run }))
}

/// Writes the rows of a shard in portions.
pub(crate) struct ShardWriter<'a> {
    out: BufWriter<StdoutLock<'a>>,
    header: ShardHeader,
    has_begun: bool,
    /// Lengths of the rows of the portion.
    lengths: Vec<usize>,
    rows: Vec<u8>,
    shard_rows: u64,
    output_hash: Fingerprint,
}

impl ShardWriter<'_> {
    /// Creates a writer; `head` is the output before all rows.
    pub(crate) fn new(piece: ShardPlan, head: &[u8]) -> Self {
        let ShardPlan { shard, run } = piece;
        // The output contains only text.
        let head = String::from_utf8_lossy(head).into_owned();
        ShardWriter {
            out: BufWriter::new(stdout().lock()),
            header: ShardHeader { shard, run, head },
            has_begun: false,
            lengths: Vec::new(),
            rows: Vec::new(),
            shard_rows: 0,
            output_hash: Fingerprint::new(),
        }
    }

    /// Adds the output of a row.
    pub(crate) fn add_row(&mut self, row: &[u8]) -> Result<(), DataError> {
        self.lengths.push(row.len());
        self.rows.extend_from_slice(row);
        self.shard_rows += 1;
        if self.rows.len() < MAX_PORTION_BYTES { Ok(()) } else { self.write_portion() }
    }

    /// Writes out the rows added so far.
    pub(crate) fn flush(&mut self) -> Result<(), DataError> {
        self.write_portion()?;
        self.out.flush().map_err(|source| DataError::Write { source })
    }

    /// Writes the rows added so far as a portion.
    fn write_portion(&mut self) -> Result<(), DataError> {
        if !std::mem::replace(&mut self.has_begun, true) {
            let header = self.header.to_json();
            self.write_line(&header)?;
        }
        if !self.lengths.is_empty() {
            let lengths = json!({ "rows": std::mem::take(&mut self.lengths) });
            self.write_line(&lengths)?;
            let rows = std::mem::take(&mut self.rows);
            self.output_hash.add_bytes(&rows);
            self.out.write_all(&rows).map_err(|source| DataError::Write { source })?;
        }
        Ok(())
    }

    /// Ends the shard after the whole input was read.
    pub(crate) fn finish(mut self, input: InputSummary) -> Result<(), DataError> {
        self.flush()?;
        let written = std::mem::take(&mut self.output_hash).hex();
        let footer = ShardFooter {
            rows: input.rows,
            shard_rows: self.shard_rows,
            input_hash: input.fingerprint.hex(),
            output_hash: written,
        };
        self.write_line(&footer.to_json())?;
        self.out.flush().map_err(|source| DataError::Write { source })
    }

    fn write_line(&mut self, line: &Value) -> Result<(), DataError> {
        writeln!(self.out, "{line}").map_err(|source| DataError::Write { source })
    }
}
