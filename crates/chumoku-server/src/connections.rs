//! Connections: taken up to a limit, none waited for without end, and brought to their end when the service ends.

use crate::metrics::CountGuard;
use crate::request_error::{ErrorType, RequestError};
use crate::service::Service;
use crate::write_timeout::WriteTimeout;
use axum::Router;
use axum::http::StatusCode;
use chumoku::tr;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncWrite, Interest};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// How long connections that stand idle are kept once the service ends: a request may be on its way.
const IDLE_GRACE: Duration = Duration::from_millis(300);

/// That as many connections are open as may be.
fn too_many() -> RequestError {
    let message = tr!(
        "as many connections are open as may be (--max-connections); try again a little later",
        "接続数が上限（--max-connections）に達しています。しばらくしてからやり直してください"
    );
    RequestError::new(StatusCode::SERVICE_UNAVAILABLE, ErrorType::Overloaded, message)
}

/// That half a request came, and no more.
fn too_slow() -> RequestError {
    let message = tr!(
        "the request did not come in time (--read-timeout)",
        "リクエストが制限時間（--read-timeout）内に届きませんでした"
    );
    RequestError::new(StatusCode::REQUEST_TIMEOUT, ErrorType::Timeout, message)
}

/// Takes connections until `ending` says so; then no more, and waits for those that there are. Whether all came to their end
/// within the limit.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    service: Arc<Service>,
    mut ending: watch::Receiver<bool>,
) -> bool {
    // Its copies count the connections: once all are gone, the receiver is told.
    let (alive, gone) = watch::channel(());
    loop {
        tokio::select! {
            biased;
            _ = ending.changed() => break,
            taken = listener.accept() => accept(taken, &router, &service, &ending, &gone).await,
        }
    }
    // Those that the system has already taken for us; not for as long as clients come.
    let until = Instant::now() + IDLE_GRACE;
    while Instant::now() < until
        && let Ok(taken) = timeout(Duration::from_millis(1), listener.accept()).await
    {
        accept(taken, &router, &service, &ending, &gone).await;
    }
    drop((listener, gone));
    timeout(service.limits.drain, alive.closed()).await.is_ok()
}

async fn accept(
    taken: std::io::Result<(TcpStream, std::net::SocketAddr)>,
    router: &Router,
    service: &Arc<Service>,
    ending: &watch::Receiver<bool>,
    gone: &watch::Receiver<()>,
) {
    let Ok((stream, _)) = taken else {
        // No more files may be open, say: those that there are come to an end.
        return sleep(Duration::from_millis(20)).await;
    };
    let _ = stream.set_nodelay(true);
    let open = CountGuard::new(&service.metrics.connections);
    let (router, service, ending, gone) = (router.clone(), service.clone(), ending.clone(), gone.clone());
    tokio::spawn(async move {
        if open.number <= service.limits.connections as u64 {
            serve_connection(stream, router, &service, ending).await;
        } else {
            // What is only told so takes nobody's room.
            drop(open);
            send_error(stream, &too_many()).await;
        }
        drop(gone);
    });
}

/// Writes a last answer, and gives the client a moment to read it.
async fn send_error(mut stream: TcpStream, refusal: &RequestError) {
    let (status, body) = (refusal.status, refusal.as_json().to_string());
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let said = async {
        stream.writable().await?;
        // Less than any buffer of the system.
        stream.try_write(answer.as_bytes())?;
        poll_fn(|context| Pin::new(&mut stream).poll_shutdown(context)).await?;
        // Closing with bytes unread would throw the answer away: they are read for a moment.
        let mut rest = [0; 4096];
        for _ in 0..64 {
            stream.ready(Interest::READABLE).await?;
            match stream.try_read(&mut rest) {
                Ok(0) => break,
                Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => break,
                _ => {}
            }
        }
        std::io::Result::Ok(())
    };
    let _ = timeout(Duration::from_secs(1), said).await;
}

/// A connection from its first request to its last.
async fn serve_connection(stream: TcpStream, router: Router, service: &Service, mut ending: watch::Receiver<bool>) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(service.limits.read).max_buf_size(64 << 10);
    let io = WriteTimeout::new(TokioIo::new(stream), service.limits.read);
    let mut connection = builder.serve_connection(io, TowerToHyperService::new(router));
    let is_ending = *ending.borrow_and_update();
    let at_end = async {
        if !is_ending {
            let _ = ending.changed().await;
        }
        sleep(IDLE_GRACE).await;
    };
    let ended = tokio::select! {
        biased;
        ended = &mut connection => ended,
        () = at_end => {
            Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
    };
    let Err(error) = ended else { return };
    if error.is_timeout() {
        let parts = connection.into_parts();
        // A client that stands idle between two requests is left in peace; half a request is answered.
        if !parts.read_buf.is_empty() {
            send_error(parts.io.into_inner().into_inner(), &too_slow()).await;
        }
    }
}
