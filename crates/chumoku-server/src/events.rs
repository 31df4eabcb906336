//! Channel for the events of a stream. The client may read more slowly than the model writes.

use axum::body::Bytes;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Backlog of a client in bytes above which it is behind.
const MAX_BACKLOG: usize = 1 << 20;

/// Sending half.
#[derive(Debug)]
pub(crate) struct EventSender {
    events: UnboundedSender<Bytes>,
    waiting: Arc<AtomicUsize>,
}

/// Receiving half.
#[derive(Debug)]
pub(crate) struct EventReceiver {
    events: UnboundedReceiver<Bytes>,
    waiting: Arc<AtomicUsize>,
}

/// The client has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientGone;

pub(crate) fn channel() -> (EventSender, EventReceiver) {
    let (sender, receiver) = unbounded_channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    (EventSender { events: sender, waiting: waiting.clone() }, EventReceiver { events: receiver, waiting })
}

impl EventSender {
    /// Sends an event.
    ///
    /// # Errors
    /// If the client has gone.
    pub(crate) fn send(&self, data: &Value) -> Result<(), ClientGone> {
        let event = event(data);
        self.waiting.fetch_add(event.len(), Relaxed);
        self.events.send(event).map_err(|_| ClientGone)
    }

    /// Returns true if the client reads more slowly than the model writes, so that too many bytes wait for it.
    pub(crate) fn is_behind(&self) -> bool {
        self.waiting.load(Relaxed) > MAX_BACKLOG
    }
}

impl EventReceiver {
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let found = self.events.poll_recv(context);
        if let Poll::Ready(Some(event)) = &found {
            self.waiting.fetch_sub(event.len(), Relaxed);
        }
        found
    }
}

/// Formats a server-sent event.
pub(crate) fn event(data: &Value) -> Bytes {
    // JSON has no line ends outside of its escapes.
    format!("data: {data}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    #[test]
    fn a_client_is_behind_while_many_bytes_wait_for_it() {
        let (sender, mut receiver) = channel();
        let large = Value::from("x".repeat(MAX_BACKLOG / 2));
        sender.send(&large).unwrap();
        assert!(!sender.is_behind());
        sender.send(&large).unwrap();
        assert!(sender.is_behind());
        let Poll::Ready(Some(event)) = receiver.poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("no event")
        };
        assert!(event.starts_with(b"data: \"x") && event.ends_with(b"x\"\n\n"));
        assert!(!sender.is_behind());
        drop(receiver);
        assert_eq!(sender.send(&large), Err(ClientGone));
    }
}
