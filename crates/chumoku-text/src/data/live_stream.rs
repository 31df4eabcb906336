//! A stream whose format is detected without waiting for more input.
//!
//! A user who types lines into a pipe wants each answer before sending the next line. So the format is detected from
//! the data received when the stream pauses for a moment.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// A pause of this length ends the data for format detection.
const IDLE_TIMEOUT: Duration = Duration::from_millis(100);
/// Bytes per read.
const CHUNK_BYTES: usize = 64 * 1024;
/// Chunks read ahead.
const CHUNKS_AHEAD: usize = 2;

/// A stream that a thread reads.
///
/// During format detection, a read that would wait returns [`io::ErrorKind::WouldBlock`], once some data has been
/// received. Afterwards, reads wait as usual.
pub(crate) struct LiveStream {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    at: usize,
    has_begun: bool,
    detection: DetectionPhase,
}

/// A flag shared with the stream: true during format detection.
#[derive(Clone)]
pub(crate) struct DetectionPhase(Arc<AtomicBool>);

impl DetectionPhase {
    /// Ends the detection phase. From now on, reads wait.
    pub(crate) fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl LiveStream {
    pub(crate) fn new(mut input: impl Read + Send + 'static) -> (Self, DetectionPhase) {
        let (sender, pieces) = sync_channel(CHUNKS_AHEAD);
        // The thread ends with the stream, when the receiver is dropped, or with the program.
        thread::spawn(move || {
            loop {
                let mut piece = vec![0; CHUNK_BYTES];
                let read = match input.read(&mut piece) {
                    Ok(0) => return,
                    Ok(n) => {
                        piece.truncate(n);
                        Ok(piece)
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let failed = read.is_err();
                if sender.send(read).is_err() || failed {
                    return;
                }
            }
        });
        let looking = DetectionPhase(Arc::new(AtomicBool::new(true)));
        (LiveStream { pieces, piece: Vec::new(), at: 0, has_begun: false, detection: looking.clone() }, looking)
    }
}

impl Read for LiveStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            let is_looked_at = self.has_begun && self.detection.0.load(Ordering::Relaxed);
            let next = match is_looked_at {
                true => self.pieces.recv_timeout(IDLE_TIMEOUT),
                false => self.pieces.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match next {
                Ok(piece) => self.piece = piece?,
                Err(RecvTimeoutError::Timeout) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
            (self.at, self.has_begun) = (0, true);
        }
        let n = out.len().min(self.piece.len() - self.at);
        out[..n].copy_from_slice(&self.piece[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}
