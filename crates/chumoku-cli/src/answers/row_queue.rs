//! The queue between the thread that reads rows and the one that answers them. A row costs one lock; the answering
//! thread is woken once per chunk.

use chumoku::data::{DataError, Record};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Rows per chunk at first.
pub(super) const FIRST_CHUNK_ROWS: usize = 256;
/// Maximum rows per chunk and in the queue, which bounds memory: some hundred batches, for many cores.
pub(super) const MAX_CHUNK_ROWS: usize = 4096;
/// Maximum memory of the rows in the queue, in bytes. A larger row is alone in it.
const MAX_QUEUE_BYTES: usize = 16 << 20;
/// Maximum time to gather a chunk of more than [`FIRST_CHUNK_ROWS`] rows, so that slow rows do not wait for each other.
const GATHER_TIME: Duration = Duration::from_millis(50);
/// Time without a new row that ends a chunk, because the user may be waiting for an answer. A row that arrives during
/// this time starts it again.
const NEXT_ROW_TIMEOUT: Duration = Duration::from_millis(5);

/// A row of the input.
pub(super) struct StreamRow {
    /// Number of input rows before it.
    pub(super) index: u64,
    pub(super) record: Record,
    /// The error that prevents an answer.
    pub(super) fault: Option<DataError>,
}

/// The end of a stream: the end of the input, or an error.
pub(super) type StreamEnd = Result<(), DataError>;

#[derive(Default)]
struct QueueState {
    rows: VecDeque<StreamRow>,
    /// The memory of `rows`.
    bytes: usize,
    /// Set once no row follows those in the queue.
    end: Option<StreamEnd>,
    /// The number of rows that the answering thread waits for.
    wanted: Option<usize>,
    /// True while the reading thread waits for room.
    is_full: bool,
    /// True once the answering thread has ended.
    is_closed: bool,
}

impl QueueState {
    fn has_room_for(&self, bytes: usize) -> bool {
        self.rows.is_empty() || self.rows.len() < MAX_CHUNK_ROWS && self.bytes + bytes <= MAX_QUEUE_BYTES
    }

    /// Returns true if waiting would bring no more rows to a chunk of `size`.
    fn is_chunk_whole(&self, size: usize) -> bool {
        self.rows.len() >= size || self.is_full || self.end.is_some()
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<QueueState>,
    /// The answering thread waits for rows.
    arrived: Condvar,
    /// The reading thread waits for room.
    taken: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if a chunk of this many rows may wait for more.
fn may_wait(rows: usize, gathered: Duration) -> bool {
    rows < FIRST_CHUNK_ROWS || gathered < GATHER_TIME
}

/// Returns both ends of an empty queue.
pub(super) fn row_queue() -> (RowSender, RowReceiver) {
    let shared = Arc::<Shared>::default();
    (RowSender(Arc::clone(&shared)), RowReceiver(shared))
}

/// The end of the queue for the thread that reads rows. Dropping it ends the stream.
pub(super) struct RowSender(Arc<Shared>);

impl RowSender {
    /// Appends a row and waits for room if need be. Returns `false` if no one takes rows any more.
    pub(super) fn send(&self, row: StreamRow) -> bool {
        let (bytes, mut state) = (row.record.memory_bytes(), self.0.lock());
        if !state.has_room_for(bytes) {
            state.is_full = true;
            self.0.arrived.notify_one();
            let waits = |state: &mut QueueState| !state.is_closed && !state.has_room_for(bytes);
            state = self.0.taken.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
            state.is_full = false;
        }
        state.rows.push_back(row);
        state.bytes += bytes;
        if state.wanted.is_some_and(|wanted| state.rows.len() >= wanted) {
            state.wanted = None;
            self.0.arrived.notify_one();
        }
        !state.is_closed
    }

    /// Ends the stream.
    pub(super) fn end(self, end: StreamEnd) {
        self.0.lock().end = Some(end);
    }
}

impl Drop for RowSender {
    fn drop(&mut self) {
        self.0.lock().end.get_or_insert(Ok(()));
        self.0.arrived.notify_one();
    }
}

/// The end of the queue for the thread that answers rows.
pub(super) struct RowReceiver(Arc<Shared>);

impl RowReceiver {
    /// Takes at most `size` rows to answer next, and the end of the stream if it was reached. Calls `before_waiting` if
    /// no row has arrived.
    ///
    /// # Errors
    /// Those of `before_waiting`.
    pub(super) fn take<E>(
        &self,
        size: usize,
        before_waiting: impl FnOnce() -> Result<(), E>,
    ) -> Result<(Vec<StreamRow>, Option<StreamEnd>), E> {
        let mut state = self.0.lock();
        if state.rows.is_empty() && state.end.is_none() {
            drop(state);
            before_waiting()?;
            state = self.0.lock();
            state.wanted = Some(1);
            let waits = |state: &mut QueueState| state.rows.is_empty() && state.end.is_none();
            state = self.0.arrived.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        }
        let start = Instant::now();
        while !state.is_chunk_whole(size) && may_wait(state.rows.len(), start.elapsed()) {
            let before = state.rows.len();
            state.wanted = Some(size);
            let waits = |state: &mut QueueState| !state.is_chunk_whole(size);
            let waited = self.0.arrived.wait_timeout_while(state, NEXT_ROW_TIMEOUT, waits);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.rows.len() == before {
                break;
            }
        }
        state.wanted = None;
        let count = size.min(state.rows.len());
        let rows: Vec<StreamRow> = state.rows.drain(..count).collect();
        state.bytes -= rows.iter().map(|row| row.record.memory_bytes()).sum::<usize>();
        let is_empty = state.rows.is_empty();
        state.is_full &= !is_empty;
        let end = if is_empty { state.end.take() } else { None };
        drop(state);
        self.0.taken.notify_one();
        Ok((rows, end))
    }
}

impl Drop for RowReceiver {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.taken.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::thread;

    fn row(index: u64, bytes: usize) -> StreamRow {
        StreamRow { index, record: Record { line: 1, fields: vec!["x".repeat(bytes)], object: None }, fault: None }
    }

    fn take(receiver: &RowReceiver, size: usize) -> (Vec<u64>, bool) {
        let (rows, end) = receiver.take(size, || Ok::<(), Infallible>(())).unwrap_or_else(|never| match never {});
        (rows.iter().map(|row| row.index).collect(), end.is_some())
    }

    fn wait_until_full(receiver: &RowReceiver) {
        while !receiver.0.lock().is_full {
            thread::yield_now();
        }
    }

    #[test]
    fn rows_arrive_in_order_and_the_end_comes_with_the_last() {
        let (sender, receiver) = row_queue();
        assert!((0..5).all(|index| sender.send(row(index, 1))));
        assert_eq!(take(&receiver, 2), (vec![0, 1], false));
        drop(sender);
        assert_eq!(take(&receiver, 2), (vec![2, 3], false));
        assert_eq!(take(&receiver, 2), (vec![4], true));
    }

    #[test]
    fn an_error_ends_the_stream_after_the_rows_before_it() {
        let (sender, receiver) = row_queue();
        sender.send(row(0, 1));
        sender.end(Err(DataError::Write { source: std::io::Error::other("disk") }));
        let (rows, end) = receiver.take(9, || Ok::<(), Infallible>(())).unwrap_or_else(|never| match never {});
        assert!(rows.len() == 1 && end.is_some_and(|end| end.is_err()));
    }

    #[test]
    fn answers_are_flushed_only_before_a_wait() {
        let (sender, receiver) = row_queue();
        sender.send(row(0, 1));
        drop(sender);
        assert!(receiver.take(1, || Err("flushed")).is_ok());
        let (_sender, receiver) = row_queue();
        assert_eq!(receiver.take(1, || Err("flushed")).err(), Some("flushed"));
    }

    #[test]
    fn a_full_queue_holds_the_reader_and_a_large_row_is_alone() {
        // A failed assertion drops the receiver, which frees the sender.
        thread::scope(|scope| {
            let (sender, receiver) = row_queue();
            scope.spawn(move || {
                let sizes = [MAX_QUEUE_BYTES - 2000, 1, MAX_QUEUE_BYTES - 2000, MAX_QUEUE_BYTES, 1];
                assert!((0..).zip(sizes).all(|(index, size)| sender.send(row(index, size))));
            });
            for expected in [vec![0, 1], vec![2], vec![3]] {
                wait_until_full(&receiver);
                assert_eq!(take(&receiver, MAX_CHUNK_ROWS), (expected, false));
            }
            assert_eq!(take(&receiver, 1).0, [4]);
        });
        let rows = MAX_CHUNK_ROWS as u64;
        thread::scope(|scope| {
            let (sender, receiver) = row_queue();
            scope.spawn(move || assert!((0..=rows).all(|index| sender.send(row(index, 0)))));
            wait_until_full(&receiver);
            assert_eq!(take(&receiver, 2 * MAX_CHUNK_ROWS), ((0..rows).collect(), false));
            assert_eq!(take(&receiver, 2 * MAX_CHUNK_ROWS).0, [rows]);
        });
    }

    #[test]
    fn chunks_end_early_if_rows_are_slow() {
        assert!(may_wait(MAX_CHUNK_ROWS - 1, Duration::ZERO) && may_wait(FIRST_CHUNK_ROWS - 1, GATHER_TIME));
        assert!(!may_wait(FIRST_CHUNK_ROWS, GATHER_TIME));
    }

    #[test]
    fn a_reader_ends_if_no_one_takes_its_rows() {
        let (sender, receiver) = row_queue();
        assert!(sender.send(row(0, MAX_QUEUE_BYTES)));
        thread::scope(|scope| {
            let reader = scope.spawn(move || sender.send(row(1, 1)));
            drop(receiver);
            assert!(!reader.join().unwrap_or(true));
        });
    }
}
