//! What the system tells a service: to end, or to read its models again.

use crate::service::Service;
use chumoku::tr;
use std::sync::Arc;

/// Waits for the signal to end (SIGTERM, or Ctrl-C), and reads models again at each SIGHUP until then.
#[cfg(unix)]
pub(crate) async fn until_the_end(service: &Arc<Service>) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut end = signal(SignalKind::terminate())?;
    let mut stop = signal(SignalKind::interrupt())?;
    let mut again = signal(SignalKind::hangup())?;
    loop {
        tokio::select! {
            _ = end.recv() => break,
            _ = stop.recv() => break,
            _ = again.recv() => {
                let service = service.clone();
                // One after the other: a signal that comes meanwhile is kept.
                let _ = tokio::task::spawn_blocking(move || service.reload()).await;
            }
        }
    }
    leave_at_once(end, stop);
    Ok(())
}

/// A second signal does not wait.
#[cfg(unix)]
fn leave_at_once(mut end: tokio::signal::unix::Signal, mut stop: tokio::signal::unix::Signal) {
    tokio::spawn(async move {
        tokio::select! {
            _ = end.recv() => {}
            _ = stop.recv() => {}
        }
        std::process::exit(130);
    });
}

/// Waits for Ctrl-C.
#[cfg(not(unix))]
pub(crate) async fn until_the_end(_: &Arc<Service>) -> std::io::Result<()> {
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
