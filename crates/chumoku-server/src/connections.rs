//! Connections: accepted up to a limit, with timeouts, and finished at shutdown.

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

/// Time that idle connections stay open at shutdown, because a request may be on its way.
const IDLE_GRACE: Duration = Duration::from_millis(300);

/// The error for too many open connections.
fn too_many() -> RequestError {
    let message = tr!(
        "too many open connections (--max-connections); try again later",
        "接続数が上限（--max-connections）に達しています。しばらくしてからやり直してください"
    );
    RequestError::new(StatusCode::SERVICE_UNAVAILABLE, ErrorType::Overloaded, message)
}

/// The error for an incomplete request.
fn too_slow() -> RequestError {
    let message = tr!(
        "the request did not arrive in time (--read-timeout)",
        "リクエストが制限時間（--read-timeout）内に届きませんでした"
    );
    RequestError::new(StatusCode::REQUEST_TIMEOUT, ErrorType::Timeout, message)
}

/// Accepts connections until `ending` is set, then waits for the open ones. Returns true if all of them ended within
/// the limit.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    service: Arc<Service>,
    mut ending: watch::Receiver<bool>,
) -> bool {
    // Clones of `gone` count the connections: the sender sees when all are dropped.
    let (alive, gone) = watch::channel(());
    loop {
        tokio::select! {
            biased;
            _ = ending.changed() => break,
            taken = listener.accept() => accept(taken, &router, &service, &ending, &gone).await,
        }
    }
    // Connections that the system has already accepted, for a limited time.
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
        // For example too many open files: wait for some connections to close.
        return sleep(Duration::from_millis(20)).await;
    };
    let _ = stream.set_nodelay(true);
    let open = CountGuard::new(&service.metrics.connections);
    let (router, service, ending, gone) = (router.clone(), service.clone(), ending.clone(), gone.clone());
    tokio::spawn(async move {
        if open.number <= service.limits.connections as u64 {
            serve_connection(stream, router, &service, ending).await;
        } else {
            // Frees the slot before refusing.
            drop(open);
            send_error(stream, &too_many()).await;
        }
        drop(gone);
    });
}

/// Sends a last response, and gives the client a moment to read it.
async fn send_error(mut stream: TcpStream, refusal: &RequestError) {
    let (status, body) = (refusal.status, refusal.as_json().to_string());
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let reply = async {
        stream.writable().await?;
        // The response is smaller than any socket buffer.
        stream.try_write(answer.as_bytes())?;
        poll_fn(|context| Pin::new(&mut stream).poll_shutdown(context)).await?;
        // Closing with unread bytes would discard the response, so the rest of the request is read for a moment.
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
    let _ = timeout(Duration::from_secs(1), reply).await;
}

/// Serves a connection from its first request to its last.
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
        // A connection that is idle between two requests is closed silently. An incomplete request gets an error.
        if !parts.read_buf.is_empty() {
            send_error(parts.io.into_inner().into_inner(), &too_slow()).await;
        }
    }
}
