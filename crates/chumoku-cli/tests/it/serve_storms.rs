//! Stress tests: thousands of connections, clients that send nonsense or read nothing, folders that vanish, processes
//! that are killed. Nothing hangs, and every answer has a status and a reason.

#![cfg(unix)]

use crate::common::{TestDir, csv, next_random, reviews, wait_until};
use crate::service::{Reply, Server, TIMEOUT, read_reply, request};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use testkit::exhaustive;

/// A folder with one model that is quick to train.
fn place() -> &'static TestDir {
    static PLACE: OnceLock<TestDir> = OnceLock::new();
    PLACE.get_or_init(|| {
        let place = TestDir::shared_by_file("serve-storms");
        place.write("reviews.csv", csv(&reviews(100)));
        place.run(&["train", "reviews.csv", "--out", "ngrams", "--model", "ngrams"]).assert_success();
        place
    })
}

const TEXT: &str = "Slow, cold and not worth the money.";

fn body() -> Vec<u8> {
    request("/predict", json!({ "inputs": TEXT, "full": true }).to_string().as_bytes())
}

fn expected() -> &'static str {
    static EXPECTED: OnceLock<String> = OnceLock::new();
    EXPECTED.get_or_init(|| {
        place().run(&["predict", "ngrams", TEXT, "--json"]).assert_success().stdout.trim_end().to_owned()
    })
}

/// The maximum number of open files of this process and its children.
fn files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(256)
}

#[test]
fn thousands_of_connections_may_be_idle() {
    let requested = if exhaustive("chumoku-cli") { 10_000 } else { 2_000 };
    let most = requested.min(files().saturating_sub(200));
    if most < requested {
        println!("{most} connections instead of {requested}: raise `ulimit -n`");
    }
    // A limit above their number, and one below it.
    for (count, room) in [(most, most + 100), (most / 10, most / 20)] {
        let most = room.to_string();
        let server = Server::start(place(), &["ngrams", "--max-connections", &most]);
        let before = server.resident_bytes();
        let stay = count.min(room);
        let is_full = stay < count;
        let connect = |number: usize| {
            let mut stream = server.connect();
            // Not faster than the service accepts: the system queues a thousand, and delays the next for a second.
            if number >= stay {
                read_reply(&mut stream).expect("an answer").assert_error(503, "Overloaded");
            } else if number % 500 == 499 {
                stream.write_all(&body()).unwrap();
                assert_eq!(read_reply(&mut stream).expect("an answer").body, expected());
            }
            stream
        };
        let mut idle: Vec<TcpStream> = (0..count).map(connect).collect();
        // Each of those that stay can send a request.
        for stream in idle[..stay].iter_mut().step_by(97) {
            stream.write_all(&body()).unwrap();
            assert_eq!(read_reply(stream).expect("an answer").body, expected());
        }
        if is_full {
            server.send(&body()).assert_error(503, "Overloaded");
        } else {
            assert_eq!(server.metric("chumoku_connections"), count as u64 + 1);
        }
        if let (Some(before), Some(after)) = (before, server.resident_bytes()) {
            let each = after.saturating_sub(before) / stay as u64;
            assert!(each < 32 << 10, "{each} bytes for each of {stay} connections");
        }
        drop(idle);
        server.wait_until_free();
        server.wait_for_metric("chumoku_connections", 1);
    }
}

#[test]
fn the_service_survives_more_connections_than_files() {
    let place = place();
    let line = "ulimit -n 60 && exec \"$CHUMOKU\" serve ngrams --port 0 --threads 1";
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("CHUMOKU", env!("CARGO_BIN_EXE_chumoku")).env_remove("CHUMOKU_API_KEY");
    let server = Server::spawn(command.current_dir(place.path("")));
    let held: Vec<TcpStream> = (0..150).map(|_| server.connect()).collect();
    // It accepts as many as possible, if the system reports it.
    let files = format!("/proc/{}/fd", server.id());
    if std::fs::exists(&files).unwrap_or(false) {
        wait_until("no more files", || std::fs::read_dir(&files).unwrap().count() >= 60);
    }
    drop(held);
    let reply = server.send(&body());
    assert_eq!((reply.status, &*reply.body), (200, expected()));
}

/// Checks the answer to nonsense: a status, and a reason unless the input is not even HTTP.
#[track_caller]
fn check(reply: &Reply, sent: &[u8]) {
    let shown = String::from_utf8_lossy(&sent[..sent.len().min(300)]);
    match reply.status {
        200 => {}
        400 | 431 if reply.body.is_empty() => {}
        400 | 403 | 404 | 405 | 408 | 413 | 415 | 422 | 424 => {
            let body = reply.json();
            let message = body["error"].as_str().or(body["message"].as_str());
            assert!(
                body["error_type"].is_string() && message.is_some_and(|message| message.len() > 10),
                "{reply:?} to {shown}"
            );
        }
        // An unsupported expectation.
        417 | 501 | 505 => {}
        _ => panic!("{reply:?} to {shown}"),
    }
}

/// A valid request for one of some paths, with bytes changed, deleted, doubled, or cut off.
fn changed(body: &str, paths: &[&str], state: &mut u64) -> Vec<u8> {
    let below = |state: &mut u64, n: usize| (next_random(state) * n as f64) as usize;
    let path = paths[below(state, paths.len())];
    let mut bytes = request(path, body.as_bytes());
    if below(state, 3) == 0 {
        let text = String::from_utf8(bytes).unwrap();
        let head = text.split("Content-Length").next().unwrap();
        let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        bytes = format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunk}").into_bytes();
    }
    for _ in 0..1 + below(state, 3) {
        let at = below(state, bytes.len());
        match below(state, 4) {
            0 => bytes[at] = (next_random(state) * 256.0) as u8,
            1 => drop(bytes.remove(at)),
            2 => {
                let part = bytes[at..(at + 20).min(bytes.len())].to_vec();
                bytes.splice(at..at, part).for_each(drop);
            }
            _ => bytes.truncate(at.max(1)),
        }
    }
    bytes
}

/// Returns `true` if these bytes get an answer. Otherwise the connection must be closed; both must happen soon.
fn is_answered(server: &Server, bytes: &[u8]) -> bool {
    let mut stream = server.connect();
    // It may refuse before everything is sent.
    let _ = stream.write_all(bytes);
    let begun = Instant::now();
    let reply = read_reply(&mut stream);
    assert!(begun.elapsed() < TIMEOUT, "it hangs: {}", String::from_utf8_lossy(bytes));
    reply.iter().for_each(|reply| check(reply, bytes));
    reply.is_some()
}

#[test]
fn nonsense_is_rejected_and_blocks_nobody() {
    let args = ["ngrams", "--max-body", "100000", "--log", "off"];
    let server = Server::start(place(), &args);
    let deep = |open: &str, close: &str, count: usize| {
        format!("{{\"inputs\": {}{}}}", open.repeat(count), close.repeat(count))
    };
    let bodies: Vec<Vec<u8>> = vec![
        deep("[", "]", 20_000).into_bytes(),
        deep("{\"a\":", "}", 10_000).into_bytes(),
        "[".repeat(90_000).into_bytes(),
        b"{\"inputs\": \"\xff\xfe\xed\xa0\x80\"}".to_vec(),
        b"{\"inputs\": \"\\ud800\"}".to_vec(),
        b"{\"inputs\": \"\\u0000\"}".to_vec(),
        format!("{{\"inputs\": {}}}", "9".repeat(50_000)).into_bytes(),
        format!("{{\"inputs\": [{}\"\"]}}", "\"a\",".repeat(20_000)).into_bytes(),
        format!("{{{}\"inputs\": \"a\"}}", "\"inputs\": [],".repeat(5_000)).into_bytes(),
        vec![0; 90_000],
        vec![b' '; 100_001],
        vec![b'x'; 3_000_000],
    ];
    let paths = [
        "/predict",
        "/explain",
        "/embed",
        "/v1/embeddings",
        "/tokenize",
        "/translate",
        "/generate",
        "/models/ngrams/predict",
    ];
    for path in paths {
        for body in &bodies {
            let reply = server.send(&request(path, body));
            // A NUL character is valid, and for a duplicate field the last value counts.
            assert!(reply.status >= 400 || body.ends_with(b"\"a\"}") || body.len() < 50, "{reply:?}");
            check(&reply, body);
        }
    }
    // Valid requests with bytes changed, deleted, doubled, or cut off: the rest of the request may never arrive.
    let server = Server::start(place(), &[&args[..], &["--read-timeout", "500ms"]].concat());
    let sound = json!({ "inputs": [["good"], ["bad"]], "full": true, "top": 2 }).to_string();
    let [mut answered, mut closed] = [0, 0];
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..24)
            .map(|seed| {
                let (server, sound) = (&server, &sound);
                scope.spawn(move || {
                    let mut state = 11 + seed;
                    let count = 40;
                    let answered =
                        (0..count).filter(|_| is_answered(server, &changed(sound, &paths, &mut state))).count();
                    (answered, count - answered)
                })
            })
            .collect();
        for client in clients {
            let counts = client.join().unwrap();
            (answered, closed) = (answered + counts.0, closed + counts.1);
        }
    });
    // Most are long enough for an answer, if they arrive in time.
    assert!(answered > 300, "{answered} answered, {closed} closed without a word");
    wait_until("an answer as before", || {
        let mut stream = server.connect();
        let _ = stream.write_all(&body());
        read_reply(&mut stream).is_some_and(|reply| reply.body == expected())
    });
}

#[test]
fn clients_that_send_or_read_byte_by_byte_are_dropped() {
    let server = Server::start(place(), &["ngrams", "--read-timeout", "1s"]);
    let whole = body();
    std::thread::scope(|scope| {
        // Heads and bodies that arrive one byte at a time.
        for start in [0, whole.len() - 20] {
            let (server, whole) = (&server, &whole);
            scope.spawn(move || {
                let mut stream = server.connect();
                stream.write_all(&whole[..start]).unwrap();
                for byte in whole[start..].chunks(1) {
                    if stream.write_all(byte).is_err() {
                        break;
                    }
                    // Longer than the total timeout.
                    std::thread::sleep(Duration::from_millis(200));
                }
                read_reply(&mut stream).into_iter().for_each(|reply| drop(reply.assert_error(408, "Timeout")));
            });
        }
        // Answers that the client does not read.
        let mut taker = server.connect();
        taker.set_write_timeout(Some(TIMEOUT)).unwrap();
        let ask = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
        let size = server.get("/openapi.json").body.len();
        assert!(40 * 100 * size > 50 << 20, "answers of {size} bytes could fit into buffers of the system");
        (0..40).take_while(|_| taker.write_all(&ask).is_ok()).for_each(drop);
        server.wait_for_metric("chumoku_connections", 1);
    });
    assert_eq!(server.send(&whole).body, expected());
}

#[test]
fn a_folder_that_changes_or_vanishes_changes_no_answer() {
    let place = TestDir::new();
    place.copy_folder(&self::place().path("ngrams"), "ngrams");
    let server = Server::start(&place, &["ngrams"]);
    assert_eq!(server.send(&body()).body, expected());
    for entry in std::fs::read_dir(place.path("ngrams")).unwrap().map(Result::unwrap) {
        // In place, as a careless copy does, and shorter than before.
        std::fs::write(entry.path(), b"?").unwrap();
    }
    assert_eq!(server.send(&body()).body, expected());
    server.send_signal("HUP");
    server.wait_for_line("keeping the old model");
    std::fs::remove_dir_all(place.path("ngrams")).unwrap();
    assert_eq!(server.send(&body()).body, expected());
    server.send_signal("HUP");
    server.wait_for_metric("chumoku_reloads_total{result=\"kept_old\"}", 2);
    assert_eq!(server.send(&body()).body, expected());
}

#[test]
fn shutdown_under_load_answers_all_accepted_requests() {
    let mut server = Server::start(place(), &["ngrams", "--log", "off"]);
    expected();
    let (address, all) = (server.address.clone(), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (address, all) = (address.clone(), all.clone());
            std::thread::spawn(move || {
                // One connection per request until the service stops. A connection that was not accepted ends without a
                // byte.
                while let Ok(mut stream) = TcpStream::connect(&address) {
                    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
                    let last = String::from_utf8(body()).unwrap().replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
                    if stream.write_all(last.as_bytes()).is_err() {
                        continue;
                    }
                    let mut bytes = Vec::new();
                    let whole = stream.read_to_end(&mut bytes);
                    if !bytes.is_empty() {
                        let text = String::from_utf8(bytes).unwrap();
                        assert!(
                            whole.is_ok() && text.starts_with("HTTP/1.1 200") && text.ends_with(expected()),
                            "{text}"
                        );
                        all.fetch_add(1, Relaxed);
                    }
                }
            })
        })
        .collect();
    wait_until("some answers", || all.load(Relaxed) > 50);
    server.send_signal("TERM");
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert_eq!(server.wait_for_exit(), 0, "{:#?}", server.output_lines());
}

#[test]
fn a_killed_service_is_restarted() {
    let place = TestDir::new();
    place.copy_folder(&self::place().path("ngrams"), "ngrams");
    // A free port outside the range that the system assigns.
    let first = std::process::id() as u16 % 10_000;
    let mut ports = (0..10_000).map(|i| 20_000 + (first + i) % 10_000);
    let port = ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap();
    // A supervisor loop.
    let supervisor = "while [ ! -e stop ]; do \"$CHUMOKU\" serve ngrams --port $PORT 2>>log & echo $! >pid; wait $!; sleep 0.1; done";
    let mut command = Command::new("sh");
    command.args(["-c", supervisor]).current_dir(place.path("")).stdin(Stdio::null());
    command.env("CHUMOKU", env!("CARGO_BIN_EXE_chumoku")).env("PORT", port.to_string()).env_remove("CHUMOKU_API_KEY");
    let mut shell = command.spawn().unwrap();
    let (is_over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let kill = |signal: &str| {
        let id = place.read("pid");
        assert!(Command::new("kill").args([signal, id.trim()]).status().unwrap().success(), "{id}");
    };
    let asks = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(&body()).ok()?;
        read_reply(&mut stream)
    };
    let comes_back = || {
        wait_until("an answer", || {
            asks().is_some_and(|reply| {
                assert_eq!((reply.status, &*reply.body), (200, expected()));
                true
            })
        });
    };
    comes_back();
    std::thread::scope(|scope| {
        // Clients that keep coming get a right answer or none.
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    if let Some(reply) = asks() {
                        assert_eq!((reply.status, &*reply.body), (200, expected()));
                        answered.fetch_add(1, Relaxed);
                    }
                }
            });
        }
        for _ in 0..3 {
            let (before, old) = (answered.load(Relaxed), place.read("pid"));
            wait_until("some answers", || answered.load(Relaxed) > before + 20);
            kill("-9");
            wait_until("a new process", || ![old.as_str(), ""].contains(&&*place.read("pid")));
            comes_back();
        }
        is_over.store(true, Relaxed);
    });
    place.write("stop", "");
    kill("-TERM");
    assert!(shell.wait().unwrap().success());
    let starts = place.read("log").lines().filter(|line| line.contains("http://")).count();
    assert_eq!(starts, 4, "{}", place.read("log"));
    assert!(place.read("log").contains("ending"), "{}", place.read("log"));
}
