//! Signals: shutdown and reload.

use crate::service::Service;
use chumoku::signals::{Shutdown, ShutdownSignals};
use chumoku::tr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum time to write the last lines of the log.
pub(crate) const LOG_FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// The reload signal (SIGHUP), caught from the moment of creation: until then it would end the process. Windows has
/// none.
#[derive(Debug)]
pub(crate) struct ReloadListener {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
}

impl ReloadListener {
    /// Must be called within a runtime.
    #[cfg(unix)]
    pub(crate) fn new() -> std::io::Result<ReloadListener> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(ReloadListener { signal: signal(SignalKind::hangup())? })
    }

    #[cfg(unix)]
    async fn recv(&mut self) {
        self.signal.recv().await;
    }

    #[cfg(not(unix))]
    pub(crate) fn new() -> std::io::Result<ReloadListener> {
        Ok(ReloadListener {})
    }

    #[cfg(not(unix))]
    async fn recv(&mut self) {
        std::future::pending().await
    }
}

/// The shutdown signals: SIGTERM and Ctrl-C; on Windows Ctrl-C, Ctrl-Break, closing the console and system shutdown.
#[derive(Debug)]
pub(crate) struct ShutdownListener {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 2],
    #[cfg(windows)]
    keys: (tokio::signal::windows::CtrlC, tokio::signal::windows::CtrlBreak),
    #[cfg(windows)]
    system: (tokio::signal::windows::CtrlClose, tokio::signal::windows::CtrlShutdown),
}

impl ShutdownListener {
    /// Must be called within a runtime.
    #[cfg(unix)]
    pub(crate) fn new() -> std::io::Result<ShutdownListener> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(ShutdownListener { signals: [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?] })
    }

    #[cfg(unix)]
    async fn recv(&mut self) {
        let [end, stop] = &mut self.signals;
        tokio::select! {
            _ = end.recv() => {}
            _ = stop.recv() => {}
        }
    }

    /// Must be called within a runtime.
    #[cfg(windows)]
    pub(crate) fn new() -> std::io::Result<ShutdownListener> {
        use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown};
        Ok(ShutdownListener { keys: (ctrl_c()?, ctrl_break()?), system: (ctrl_close()?, ctrl_shutdown()?) })
    }

    #[cfg(windows)]
    async fn recv(&mut self) {
        tokio::select! {
            _ = self.keys.0.recv() => {}
            _ = self.keys.1.recv() => {}
            _ = self.system.0.recv() => {}
            _ = self.system.1.recv() => {}
        }
    }
}

/// Waits for shutdown, and reloads models at each SIGHUP until then.
pub(crate) async fn wait_for_shutdown(service: &Arc<Service>, mut again: ReloadListener, mut end: ShutdownListener) {
    let mut signals = ShutdownSignals::new();
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
            // Shutdown does not wait for a reload.
            () = end.recv() => break,
            () = read => reading = None,
            // One reload at a time: a signal during a reload is kept.
            () = again.recv(), if !is_reading => {
                let service = service.clone();
                reading = Some(tokio::task::spawn_blocking(move || service.reload()));
            }
        }
    }
    signals.record(Instant::now());
    exit_on_second_signal(service.clone(), end, signals);
}

/// Exits at a further signal, unless it comes so soon after the first one that it is a repetition.
fn exit_on_second_signal(service: Arc<Service>, mut end: ShutdownListener, mut signals: ShutdownSignals) {
    tokio::spawn(async move {
        end.recv().await;
        while signals.record(Instant::now()) != Shutdown::Immediate {
            end.recv().await;
        }
        service.log.flush(LOG_FLUSH_TIMEOUT);
        std::process::exit(130);
    });
}

/// Logs that models cannot be reloaded on systems without SIGHUP.
pub(crate) fn report_no_reload(service: &Service) {
    if cfg!(not(unix)) {
        let message = tr!(
            "reload    this system has no SIGHUP: restart the service to load changed models",
            "再読込    このシステムには SIGHUP がありません。変更したモデルを読み込むには、サービスを再起動してください"
        );
        service.log.event("no_reload", [], &message);
    }
}

/// Logs that the service is shutting down.
pub(crate) fn report_shutdown(service: &Service) {
    let message = tr!(
        "ending    no new connections; open requests are answered",
        "終了      新しい接続は受けず、受け付けたリクエストに答えます"
    );
    service.log.event("ending", [], &message);
}
