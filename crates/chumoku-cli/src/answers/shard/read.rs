//! Reads shards. Shard files are not trusted.

use super::{KEY, ShardFooter, ShardHeader, shard_rows};
use crate::UsageError;
use chumoku::data::{DataError, Fingerprint};
use chumoku::lang::system_message;
use chumoku::tr;
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Maximum size of a line between rows; the lengths of a portion take far less.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// Maximum size of the last line.
const MAX_FOOTER_BYTES: u64 = 1 << 20;

/// A shard whose rows are complete, judging by their lengths.
pub(crate) struct ShardFile {
    pub(crate) path: PathBuf,
    pub(crate) header: ShardHeader,
    pub(crate) footer: ShardFooter,
    file: BufReader<File>,
    /// Lengths of the remaining rows of the portion.
    lengths: VecDeque<u64>,
    read: Fingerprint,
    buffer: Vec<u8>,
}

impl ShardFile {
    /// Opens a shard, and checks that all its rows are present.
    ///
    /// # Errors
    /// If the file cannot be read, is not a shard, or is incomplete.
    pub(crate) fn open(path: &Path) -> anyhow::Result<ShardFile> {
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        let size = file.metadata().map_err(|error| unreadable(path, &error))?;
        if !size.is_file() {
            return Err(not_a_shard(path).into());
        }
        let mut file = BufReader::new(file);
        let first = read_line(&mut file).map_err(|error| unreadable(path, &error))?;
        let first = first.filter(|line| line.contains_key(KEY)).ok_or_else(|| not_a_shard(path))?;
        let header = ShardHeader::from_json(&first).ok_or_else(|| {
            UsageError(tr!(
                "{}: the shard has a format that this version does not support: join it with the version that wrote it",
                "{}: このバージョンが対応していない形式です。書き出したバージョンの chumoku で結合してください",
                path.display()
            ))
        })?;
        let begin = file.stream_position().map_err(|error| unreadable(path, &error))?;
        let footer = find_footer(&mut file, size.len()).map_err(|error| unreadable(path, &error))?;
        let footer = match footer {
            Some(footer) => footer,
            // The last line exists, so the rows were changed afterwards.
            None if ends_with_footer(&mut file, size.len()).map_err(|error| unreadable(path, &error))? => {
                return Err(damaged(path, &header).into());
            }
            None => return Err(incomplete(path, &header).into()),
        };
        if footer.shard_rows != shard_rows(header.shard, footer.rows) {
            return Err(damaged(path, &header).into());
        }
        file.seek(SeekFrom::Start(begin)).map_err(|error| unreadable(path, &error))?;
        let path = path.to_owned();
        let (lengths, read, buffer) = (VecDeque::new(), Fingerprint::new(), Vec::new());
        Ok(ShardFile { path, header, footer, file, lengths, read, buffer })
    }

    /// Copies the next row.
    ///
    /// # Errors
    /// If the row cannot be read, does not exist, or cannot be written.
    pub(crate) fn copy_row(&mut self, out: &mut impl Write) -> anyhow::Result<()> {
        while self.lengths.is_empty() {
            let next = read_line(&mut self.file).map_err(|error| unreadable(&self.path, &error))?;
            let lengths = next.as_ref().and_then(row_lengths).ok_or_else(|| damaged(&self.path, &self.header))?;
            self.lengths = lengths.into();
        }
        let length = self.lengths.pop_front().unwrap_or_default();
        self.buffer.clear();
        let read = self.file.by_ref().take(length).read_to_end(&mut self.buffer);
        if read.map_err(|error| unreadable(&self.path, &error))? as u64 != length {
            return Err(damaged(&self.path, &self.header).into());
        }
        self.read.add_bytes(&self.buffer);
        out.write_all(&self.buffer).map_err(|source| DataError::Write { source })?;
        Ok(())
    }

    /// Checks that the rows are those that the run wrote.
    ///
    /// # Errors
    /// If the checksum differs.
    pub(crate) fn check_rows(self) -> anyhow::Result<()> {
        match self.read.hex() == self.footer.output_hash {
            true => Ok(()),
            false => Err(damaged(&self.path, &self.header).into()),
        }
    }
}

/// Skips the rows and parses the last line. Returns `None` if the shard is incomplete.
fn find_footer(file: &mut BufReader<File>, size: u64) -> io::Result<Option<ShardFooter>> {
    loop {
        let Some(next) = read_line(file)? else { return Ok(None) };
        let Some(lengths) = row_lengths(&next) else {
            let is_end = file.fill_buf()?.is_empty();
            return Ok(ShardFooter::from_json(&next).filter(|_| is_end));
        };
        let sum = lengths.iter().try_fold(0_u64, |sum, &length| sum.checked_add(length));
        let end = sum.and_then(|sum| file.stream_position().ok()?.checked_add(sum)).filter(|&end| end <= size);
        match end {
            Some(end) => file.seek(SeekFrom::Start(end))?,
            None => return Ok(None),
        };
    }
}

/// Returns true if the last line is that of a complete shard.
fn ends_with_footer(file: &mut BufReader<File>, size: u64) -> io::Result<bool> {
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(size.saturating_sub(MAX_FOOTER_BYTES)))?;
    file.by_ref().take(MAX_FOOTER_BYTES).read_to_end(&mut end)?;
    if end.last() != Some(&b'\n') {
        return Ok(false);
    }
    let last = end.trim_ascii_end().rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
    Ok(serde_json::from_slice(last).is_ok_and(|line: Map<String, Value>| ShardFooter::from_json(&line).is_some()))
}

/// Reads a line of JSON. Returns `None` at the end, or if the line is not an object.
fn read_line(file: &mut BufReader<File>) -> io::Result<Option<Map<String, Value>>> {
    let mut bytes = Vec::new();
    file.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes)?;
    // A line without a line end may be truncated.
    let is_whole = bytes.last() == Some(&b'\n');
    Ok(is_whole.then(|| serde_json::from_slice(&bytes).ok()).flatten())
}

fn row_lengths(line: &Map<String, Value>) -> Option<Vec<u64>> {
    line.get("rows")?.as_array()?.iter().map(Value::as_u64).collect()
}

fn unreadable(path: &Path, error: &io::Error) -> UsageError {
    let (path, error) = (path.display(), system_message(error));
    UsageError(tr!("reading {path}: {error}; expected a shard", "{path} を読めません: {error}"))
}

fn not_a_shard(path: &Path) -> UsageError {
    UsageError(tr!(
        "{}: expected a file that `chumoku predict … --shard I/N > FILE` wrote, but it is not such a file",
        "{}: `chumoku predict … --shard I/N > ファイル` で書き出したファイルではありません",
        path.display()
    ))
}

fn incomplete(path: &Path, header: &ShardHeader) -> UsageError {
    let (path, shard) = (path.display(), header.shard);
    UsageError(tr!(
        "{path}: shard {shard} is incomplete, because its run did not finish: run it again with --shard {shard}",
        "{path}: 分割 {shard} は途中で切れています。実行が最後まで終わっていません。--shard {shard} でもう一度実行してください"
    ))
}

fn damaged(path: &Path, header: &ShardHeader) -> UsageError {
    let (path, shard) = (path.display(), header.shard);
    UsageError(tr!(
        "{path}: shard {shard} is damaged (its checksum does not match): copy it again, or run --shard {shard} again",
        "{path}: 分割 {shard} が壊れています（チェックサムが一致しません）。コピーし直すか、--shard {shard} でもう一度実行してください"
    ))
}
