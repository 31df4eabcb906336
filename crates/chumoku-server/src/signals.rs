//! What the system tells a service: to end, or to read its models again.

use crate::service::Service;
#[cfg(unix)]
use chumoku::signals::{EndSignals, Shutdown};
use chumoku::tr;
use std::sync::Arc;
use std::time::Duration;
#[cfg(unix)]
use std::time::Instant;

/// How long the last lines of the log may take.
pub(crate) const LAST_LINES: Duration = Duration::from_millis(500);

/// The signal to read models again, kept from the moment that this is made: until then it would end the process.
#[derive(Debug)]
pub(crate) struct Again {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
}

impl Again {
    /// Within a runtime.
    #[cfg(unix)]
    pub(crate) fn new() -> std::io::Result<Again> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Again { signal: signal(SignalKind::hangup())? })
    }

    #[cfg(not(unix))]
    pub(crate) fn new() -> std::io::Result<Again> {
        Ok(Again {})
    }
}

/// The signals to end: SIGTERM and Ctrl-C.
#[derive(Debug)]
pub(crate) struct End {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 2],
}

impl End {
    /// Within a runtime.
    #[cfg(unix)]
    pub(crate) fn new() -> std::io::Result<End> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(End { signals: [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?] })
    }

    #[cfg(not(unix))]
    pub(crate) fn new() -> std::io::Result<End> {
        Ok(End {})
    }

    #[cfg(unix)]
    async fn come(&mut self) {
        let [end, stop] = &mut self.signals;
        tokio::select! {
            _ = end.recv() => {}
            _ = stop.recv() => {}
        }
    }
}

/// Waits for the signal to end, and reads models again at each SIGHUP until then.
#[cfg(unix)]
pub(crate) async fn until_the_end(service: &Arc<Service>, again: Again, mut end: End) -> std::io::Result<()> {
    let (mut again, mut signals) = (again.signal, EndSignals::none());
    let mut reading: Option<tokio::task::JoinHandle<()>> = None;
    loop {
        let is_reading = reading.is_some();
        let read = async {
            match &mut reading {
                Some(reading) => drop(reading.await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Nobody waits for models that are no longer needed.
            () = end.come() => break,
            () = read => reading = None,
            // One after the other: a signal that comes meanwhile is kept.
            _ = again.recv(), if !is_reading => {
                let service = service.clone();
                reading = Some(tokio::task::spawn_blocking(move || service.reload()));
            }
        }
    }
    signals.count(Instant::now());
    leave_at_once(service.clone(), end, signals);
    Ok(())
}

/// A further signal does not wait, unless it comes so soon that it is the first once more.
#[cfg(unix)]
fn leave_at_once(service: Arc<Service>, mut end: End, mut signals: EndSignals) {
    tokio::spawn(async move {
        end.come().await;
        while signals.count(Instant::now()) != Shutdown::Immediate {
            end.come().await;
        }
        service.log.flush(LAST_LINES);
        std::process::exit(130);
    });
}

/// Waits for Ctrl-C.
#[cfg(not(unix))]
pub(crate) async fn until_the_end(_: &Arc<Service>, _: Again, _: End) -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}

/// Says that the service ends.
pub(crate) fn tell_of_end(service: &Service) {
    let said = tr!(
        "ending    no new connections; open requests are answered",
        "終了      新しい接続は受けず、受け付けたリクエストに答えます"
    );
    service.log.event("ending", [], &said);
}
