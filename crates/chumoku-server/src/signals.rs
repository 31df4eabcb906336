//! What the system tells a service: to end, or to read its models again.

use crate::service::Service;
use chumoku::signals::{EndSignals, Shutdown};
use chumoku::tr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the last lines of the log may take.
pub(crate) const LAST_LINES: Duration = Duration::from_millis(500);

/// The signal to read models again, kept from the moment that this is made: until then it would end the process. Windows has
/// none.
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

    #[cfg(unix)]
    async fn come(&mut self) {
        self.signal.recv().await;
    }

    #[cfg(not(unix))]
    pub(crate) fn new() -> std::io::Result<Again> {
        Ok(Again {})
    }

    #[cfg(not(unix))]
    async fn come(&mut self) {
        std::future::pending().await
    }
}

/// The signals to end: SIGTERM and Ctrl-C; on Windows Ctrl-C, Ctrl-Break, a closed console and the end of the system.
#[derive(Debug)]
pub(crate) struct End {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 2],
    #[cfg(windows)]
    keys: (tokio::signal::windows::CtrlC, tokio::signal::windows::CtrlBreak),
    #[cfg(windows)]
    system: (tokio::signal::windows::CtrlClose, tokio::signal::windows::CtrlShutdown),
}

impl End {
    /// Within a runtime.
    #[cfg(unix)]
    pub(crate) fn new() -> std::io::Result<End> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(End { signals: [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?] })
    }

    #[cfg(unix)]
    async fn come(&mut self) {
        let [end, stop] = &mut self.signals;
        tokio::select! {
            _ = end.recv() => {}
            _ = stop.recv() => {}
        }
    }

    /// Within a runtime.
    #[cfg(windows)]
    pub(crate) fn new() -> std::io::Result<End> {
        use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown};
        Ok(End { keys: (ctrl_c()?, ctrl_break()?), system: (ctrl_close()?, ctrl_shutdown()?) })
    }

    #[cfg(windows)]
    async fn come(&mut self) {
        tokio::select! {
            _ = self.keys.0.recv() => {}
            _ = self.keys.1.recv() => {}
            _ = self.system.0.recv() => {}
            _ = self.system.1.recv() => {}
        }
    }
}

/// Waits for the signal to end, and reads models again at each SIGHUP until then.
pub(crate) async fn until_the_end(service: &Arc<Service>, mut again: Again, mut end: End) {
    let mut signals = EndSignals::none();
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
            () = again.come(), if !is_reading => {
                let service = service.clone();
                reading = Some(tokio::task::spawn_blocking(move || service.reload()));
            }
        }
    }
    signals.count(Instant::now());
    leave_at_once(service.clone(), end, signals);
}

/// A further signal does not wait, unless it comes so soon that it is the first once more.
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

/// Says that models are not read again, on a system without a signal for it.
pub(crate) fn tell_of_reloading(service: &Service) {
    if cfg!(not(unix)) {
        let said = tr!(
            "reload    this system has no SIGHUP: restart the service to read models that have changed",
            "再読込    このシステムには SIGHUP がありません。変更したモデルを読み込むには、サービスを再起動してください"
        );
        service.log.event("no_reload", [], &said);
    }
}

/// Says that the service ends.
pub(crate) fn tell_of_end(service: &Service) {
    let said = tr!(
        "ending    no new connections; open requests are answered",
        "終了      新しい接続は受けず、受け付けたリクエストに答えます"
    );
    service.log.event("ending", [], &said);
}
