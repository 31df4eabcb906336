//! Shutdown: the service answers the accepted requests, and nothing delays its end.

use crate::common::{reviews, wait_until};
use crate::serve::place;
use crate::service::{Server, TIMEOUT, read_reply, request};
use chumoku::signals::REPEAT_WINDOW;
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

#[test]
fn shutdown_answers_accepted_requests() {
    let place = place();
    let mut server = Server::start(place, &["reviews", "--log", "json"]);
    let text = reviews(3)[0].0.clone();
    let body = request("/predict", json!({ "inputs": text }).to_string().as_bytes());
    let expected = server.send(&body).body;
    let idle = server.connect();
    let all = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (mut stream, body, expected, all) = (server.connect(), body.clone(), expected.clone(), all.clone());
            std::thread::spawn(move || {
                // Every accepted request is answered. An idle connection of a slow client is closed at shutdown.
                while stream.write_all(&body).is_ok() {
                    let Some(reply) = read_reply(&mut stream) else { break };
                    assert_eq!(reply.body, expected);
                    all.fetch_add(1, Relaxed);
                    // After a reply that closes the connection, nothing more is sent on it.
                    if reply.head.to_lowercase().contains("connection: close") {
                        break;
                    }
                }
            })
        })
        .collect();
    // Half a request; the rest comes later.
    let mut late = server.begin_request(&body);
    wait_until("some answers", || all.load(Relaxed) > 40);
    server.send_signal("TERM");
    server.wait_for_line("\"event\":\"ending\"");
    // New connections are refused, though shutdown is not complete.
    wait_until("no more connections", || TcpStream::connect(&server.address).is_err());
    late.write_all(&body[body.len() - 3..]).unwrap();
    assert_eq!(read_reply(&mut late).expect("an answer").body, expected);
    clients.into_iter().for_each(|client| client.join().unwrap());
    let answered = all.load(Relaxed);
    assert_eq!(server.wait_for_exit(), 0, "{:#?}", server.output_lines());
    drop(idle);
    // The log has all of them, with the first and the late one.
    let log_lines =
        server.output_lines().iter().filter(|line| line.contains("\"path\":\"/predict\",\"status\":200")).count();
    assert_eq!(log_lines, answered + 2);
    // Each line of the log is an object without the request's text.
    for line in server.output_lines() {
        let line: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["time"].is_string() && line["event"].is_string(), "{line}");
        assert!(!line.to_string().contains(&text));
    }
}

#[test]
fn requests_during_shutdown_are_refused_with_a_reason() {
    let asks = || {
        let mut server = Server::start(place(), &["ngrams"]);
        let mut idle = server.connect();
        assert_eq!(server.get("/health").status, 200);
        server.send_signal("TERM");
        server.wait_for_line("ending");
        let sent = idle.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let reply = sent.ok().and_then(|()| read_reply(&mut idle));
        assert_eq!(server.wait_for_exit(), 0);
        reply
    };
    // A connection is kept for a third of a second, which may pass on a busy machine.
    let reply = (0..50).find_map(|_| asks()).expect("an answer").assert_error(503, "Unhealthy");
    let head = reply.head.to_lowercase();
    assert!(head.contains("connection: close") && head.contains("retry-after: "), "{reply:?}");
}

#[test]
fn incomplete_requests_are_dropped() {
    let mut server = Server::start(place(), &["ngrams", "--drain-timeout", "700ms"]);
    let mut half = server.connect();
    half.write_all(&request("/predict", b"{}")[..40]).unwrap();
    // The held request is accepted, since this one came later.
    assert_eq!(server.get("/health").status, 200);
    let begun = Instant::now();
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit(), 1, "{:#?}", server.output_lines());
    assert!(begun.elapsed() > Duration::from_millis(700), "{:?}", begun.elapsed());
    let output = server.output_lines().join("\n");
    assert!(output.contains("--drain-timeout") && output.contains("0.7 s"), "{output}");
}

#[test]
fn a_second_signal_stops_at_once() {
    let mut server = Server::start(place(), &["ngrams"]);
    let mut half = server.connect();
    half.write_all(&request("/predict", b"{}")[..40]).unwrap();
    // The held request is accepted, since this one came later.
    assert_eq!(server.get("/health").status, 200);
    server.send_signal("TERM");
    server.wait_for_line("ending");
    std::thread::sleep(REPEAT_WINDOW);
    server.send_signal("INT");
    assert_eq!(server.wait_for_exit(), 130);
}

#[test]
fn simultaneous_signals_count_as_one() {
    let mut server = Server::start(place(), &["ngrams"]);
    let text = reviews(1)[0].0.clone();
    let body = request("/predict", json!({ "inputs": text }).to_string().as_bytes());
    let mut late = server.begin_request(&body);
    // The held request is accepted, since this one came later.
    assert_eq!(server.get("/health").status, 200);
    // All signals wait until the service continues, however slow this test is.
    ["STOP", "TERM", "INT", "CONT"].into_iter().for_each(|name| server.send_signal(name));
    server.wait_for_line("ending");
    late.write_all(&body[body.len() - 3..]).unwrap();
    assert_eq!(read_reply(&mut late).expect("an answer").status, 200);
    assert_eq!(server.wait_for_exit(), 0, "{:#?}", server.output_lines());
}

#[test]
fn a_steady_flow_of_clients_does_not_delay_shutdown() {
    let mut server = Server::start(place(), &["ngrams", "--log", "off"]);
    let (until, count) = (Instant::now() + TIMEOUT, AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let come = || {
            while TcpStream::connect(&server.address).is_ok() {
                count.fetch_add(1, Relaxed);
                assert!(Instant::now() < until, "connections are still taken");
                std::thread::yield_now();
            }
        };
        let clients = [come; 4].map(|come| scope.spawn(come));
        wait_until("some connections", || count.load(Relaxed) > 100);
        server.send_signal("TERM");
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
    assert_eq!(server.wait_for_exit(), 0);
}
