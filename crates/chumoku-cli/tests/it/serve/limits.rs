//! Slow, excessive or vanished clients, and long work: no client blocks another.

use crate::common::{HoldPoint, reviews, wait_until};
use crate::serve::place;
use crate::service::{Server, is_silent, read_reply, request};
use serde_json::json;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// An hour in milliseconds, as an unreachable limit.
const HOUR: &str = "3600000";

/// Opens a connection and sends these bytes.
fn send_raw(server: &Server, bytes: &[u8]) -> TcpStream {
    let mut stream = server.connect();
    stream.write_all(bytes).unwrap();
    stream
}

#[test]
fn slow_clients_block_no_other() {
    let server = Server::start(place(), &["ngrams"]);
    let whole = request("/predict", b"{\"inputs\": \"good\"}");
    let [head, body] = [&whole[..30], &whole[..whole.len() - 4]];
    let idle = server.connect();
    let halves: Vec<_> = [head; 8].into_iter().chain([body; 8]).map(|bytes| send_raw(&server, bytes)).collect();
    assert_eq!(server.send(&whole).status, 200);
    // This was answered while all others were still incomplete.
    assert!(halves.iter().chain([&idle]).all(is_silent));
}

#[test]
fn slow_clients_get_a_timeout() {
    let server = Server::start(place(), &["ngrams", "--read-timeout", "500ms"]);
    let whole = request("/predict", b"{\"inputs\": \"good\"}");
    for half in [&whole[..30], &whole[..whole.len() - 4]] {
        let begun = Instant::now();
        // On a busy machine the bytes may arrive too late, without an answer: try again.
        let reply = (0..50).find_map(|_| read_reply(&mut send_raw(&server, half)));
        reply.expect("an answer").assert_error(408, "Timeout");
        assert!(begun.elapsed() >= Duration::from_millis(500), "{:?}", begun.elapsed());
    }
    // A connection without any bytes gets no answer.
    assert!(read_reply(&mut server.connect()).is_none());
}

#[test]
fn excess_connections_are_refused_with_a_reason() {
    let server = Server::start(place(), &["ngrams", "--max-connections", "30"]);
    let held: Vec<_> = (0..30).map(|_| server.connect()).collect();
    read_reply(&mut server.connect()).expect("an answer").assert_error(503, "Overloaded");
    assert!(held.iter().all(is_silent));
    drop(held);
    server.wait_until_free();
}

#[test]
fn refused_connections_take_no_slot() {
    let server = Server::start(place(), &["ngrams", "--max-connections", "2"]);
    let [first, _second] = [server.connect(), server.connect()];
    // They get an answer, and stay open for a while.
    let mut refused: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for stream in &mut refused {
        read_reply(stream).expect("an answer").assert_error(503, "Overloaded");
    }
    drop(first);
    server.wait_until_free();
}

/// A text that takes days unless it is stopped.
fn endless_request(stream: bool) -> Vec<u8> {
    let body = json!({ "inputs": "the", "max_tokens": 1_000_000_000, "temperature": 0, "stream": stream });
    request("/generate", body.to_string().as_bytes())
}

const ENDLESS_GENERATION: [&str; 3] = ["book", "--max-new-tokens", "1000000000"];

#[test]
fn a_full_queue_refuses_requests() {
    let hold = HoldPoint::at("long-work");
    let server = Server::start_held(place(), &["book", "--queue", "1"], &hold);
    let short = json!({ "inputs": "the", "max_tokens": 1 });
    let asks = || send_raw(&server, &request("/generate", short.to_string().as_bytes()));
    // One request is running, and one waits.
    let mut first = asks();
    hold.wait_until_reached();
    let mut second = asks();
    server.wait_for_metric("chumoku_queue_length{model=\"book\"}", 1);
    let third = server.post_rejected("/generate", &short, 429, "Overloaded");
    assert!(third.head.to_lowercase().contains("retry-after: "), "{third:?}");
    // Quick requests do not wait for it.
    assert_eq!(server.post("/tokenize", &json!({ "inputs": "the cat" })).status, 200);
    assert!(is_silent(&first) && is_silent(&second));
    hold.release();
    for stream in [&mut first, &mut second] {
        assert_eq!(read_reply(stream).expect("an answer").status, 200);
    }
}

#[test]
fn requests_that_wait_too_long_get_a_timeout() {
    let hold = HoldPoint::at("long-work");
    let server = Server::start_held(place(), &["book", "--wait-timeout", "50ms"], &hold);
    let short = request("/generate", json!({ "inputs": "the", "max_tokens": 1 }).to_string().as_bytes());
    let mut first = send_raw(&server, &short);
    wait_until("a request that has its turn", || {
        if !is_silent(&first) {
            // On a very busy machine it may also wait too long.
            first = send_raw(&server, &short);
        }
        hold.wait_until_full()
    });
    server.send(&short).assert_error(429, "Overloaded");
    hold.release();
    assert_eq!(read_reply(&mut first).expect("an answer").status, 200);
}

#[test]
fn a_text_that_takes_too_long_is_cut_off() {
    let server = Server::start(place(), &[&ENDLESS_GENERATION[..], &["--compute-timeout", "300ms"]].concat());
    let reply = server.send(&endless_request(true));
    let end: Vec<&str> = reply.body.trim_end().rsplit("\n\n").take(2).collect();
    assert!(end[0] == "data: [DONE]" && end[1].contains("\"stop\":\"time\""), "{end:?}");
    // Without streaming, that is an error.
    server.send(&endless_request(false)).assert_error(504, "Timeout");
}

#[test]
fn a_disconnected_client_frees_its_slot() {
    let server = Server::start(place(), &ENDLESS_GENERATION);
    for (count, stream) in [(1, true), (3, false)] {
        let gone = send_raw(&server, &endless_request(stream));
        server.wait_for_metric("chumoku_queue_seconds_count", count);
        drop(gone);
        // The next request runs after the first text is stopped.
        assert_eq!(server.post("/generate", &json!({ "inputs": "the", "max_tokens": 1 })).status, 200);
    }
}

/// Requests an explanation that takes hours.
fn begin_long_explanation(server: &Server) -> TcpStream {
    let long = json!({ "inputs": "g ".repeat(200_000) });
    send_raw(server, &request("/explain", long.to_string().as_bytes()))
}

const LONG_TEXTS: [&str; 4] = ["--max-chars", "1000000", "--max-explain", "1000000000000"];

#[test]
fn long_work_blocks_no_other_requests() {
    let hold = HoldPoint::at("long-work");
    let server = Server::start_held(place(), &[&["reviews", "ngrams"], &LONG_TEXTS[..]].concat(), &hold);
    let short = json!({ "inputs": "good" });
    let long = begin_long_explanation(&server);
    hold.wait_until_reached();
    // All tests use one thread; quick requests have an additional one.
    for path in ["/predict", "/tokenize"] {
        assert_eq!(server.post(path, &short).status, 200);
    }
    assert!(is_silent(&long));
    hold.release();
    // This explanation stops because its client disconnects, so the next one need not wait.
    drop(long);
    assert_eq!(server.post("/explain", &short).status, 200);
}

#[test]
fn work_past_its_deadline_is_stopped() {
    // Typically long and typically quick work.
    for (point, path) in [("long-work", "/explain"), ("short-work", "/predict")] {
        let hold = HoldPoint::at(point);
        let args = [&["reviews", "--compute-timeout", "2s", "--max-body", "3000000"], &LONG_TEXTS[..]].concat();
        let server = Server::start_held(place(), &args, &hold);
        let mut late = match path {
            "/explain" => begin_long_explanation(&server),
            _ => {
                let many = json!({ "inputs": vec!["good ".repeat(3000); 128] });
                send_raw(&server, &request(path, many.to_string().as_bytes()))
            }
        };
        hold.wait_until_reached();
        read_reply(&mut late).expect("an answer").assert_error(504, "Timeout");
        // The work continues and is stopped. The next request does not wait for abandoned work.
        hold.release();
        let short = json!({ "inputs": "good" });
        wait_until("the next answer", || {
            let reply = server.post(path, &short);
            // On a very busy machine this may also time out.
            assert!([200, 504].contains(&reply.status), "{reply:?}");
            reply.status == 200
        });
    }
}

#[test]
fn waiting_requests_keep_only_what_they_need() {
    let hold = HoldPoint::at("long-work");
    let (name, value) = hold.environment();
    // With this setting, large blocks return to the system when freed, so resident memory is memory in use.
    let server =
        Server::start_with_environment(place(), &["book"], &[(name, &value), ("MALLOC_MMAP_THRESHOLD_", "65536")]);
    let first = json!({ "inputs": "the", "max_tokens": 1 });
    let _first = send_raw(&server, &request("/generate", first.to_string().as_bytes()));
    hold.wait_until_reached();
    // Unknown fields of two megabytes each.
    let junk = json!({ "inputs": "the", "max_tokens": 1, "junk": "x".repeat(1_900_000) }).to_string();
    let wait = |before: u64, count: u64| -> Vec<_> {
        let ask = |number| {
            let stream = send_raw(&server, &request("/generate", junk.as_bytes()));
            server.wait_for_metric("chumoku_queue_length{model=\"book\"}", number + 1);
            stream
        };
        // One after another, so that the reading memory is reused.
        (before..before + count).map(ask).collect()
    };
    // The memory that a few need while they are read. The unknown fields of thirty would take 57 MB.
    let few = wait(0, 3);
    let Some(before) = server.resident_bytes() else { return };
    let many = wait(3, 30);
    let more = server.resident_bytes().unwrap().saturating_sub(before) >> 20;
    assert!(more < 40, "30 requests that wait hold {more} MiB");
    drop((few, many));
}

#[test]
fn batches_wait_only_for_requests_being_read() {
    let server = Server::start(place(), &["ngrams", "--gather", HOUR]);
    let body = request("/predict", b"{\"inputs\": \"good\"}");
    // A single request is not delayed.
    assert_eq!(server.send(&body).status, 200);
    // With another request being read, it waits, and both share a batch.
    let mut late = server.begin_request(&body);
    let mut early = server.begin_request(&body);
    early.write_all(&body[body.len() - 3..]).unwrap();
    // Gives a faulty server time to fail.
    std::thread::sleep(Duration::from_millis(50));
    assert!(is_silent(&early) && server.metric("chumoku_batch_texts_count") == 1);
    late.write_all(&body[body.len() - 3..]).unwrap();
    for stream in [&mut late, &mut early] {
        assert_eq!(read_reply(stream).expect("an answer").status, 200);
    }
    assert_eq!((server.metric("chumoku_batch_texts_count"), server.metric("chumoku_batch_texts_sum")), (2, 3));
    // The other request is never completed.
    let mut late = server.begin_request(&body);
    let mut early = server.begin_request(&body);
    early.write_all(&body[body.len() - 3..]).unwrap();
    late.write_all(b"...").unwrap();
    read_reply(&mut late).expect("an answer").assert_error(400, "Validation");
    assert_eq!(read_reply(&mut early).expect("an answer").status, 200);
}

#[test]
fn batches_respect_their_limit() {
    let server = Server::start(place(), &["ngrams", "--gather", HOUR, "--batch-texts", "2"]);
    let body = request("/predict", b"{\"inputs\": \"good\"}");
    let _last = server.begin_request(&body);
    let mut others: Vec<_> = (0..4).map(|_| send_raw(&server, &body)).collect();
    // Two at a time, and none of them waits for the last.
    for stream in &mut others {
        assert_eq!(read_reply(stream).expect("an answer").status, 200);
    }
    assert_eq!((server.metric("chumoku_batch_texts_count"), server.metric("chumoku_batch_texts_sum")), (2, 4));
}

#[test]
fn a_failing_batch_is_answered_text_by_text() {
    let server = Server::start(place(), &["bert", "--gather", HOUR]);
    let body = |text: &str| request("/embed", json!({ "inputs": text }).to_string().as_bytes());
    let [good, long] = [body("good"), body(&reviews(1)[0].0.repeat(20))];
    let alone = server.send(&good).body;
    let mut late = server.begin_request(&long);
    let mut early = server.begin_request(&good);
    early.write_all(&good[good.len() - 3..]).unwrap();
    late.write_all(&long[long.len() - 3..]).unwrap();
    read_reply(&mut late).expect("an answer").assert_error(413, "Validation");
    assert_eq!(read_reply(&mut early).expect("an answer").body, alone);
    assert_eq!((server.metric("chumoku_batch_texts_count"), server.metric("chumoku_batch_texts_sum")), (2, 3));
}

/// Texts whose answer from `/tokenize` has about sixty bytes per character.
fn dots(texts: usize, characters: usize) -> Vec<u8> {
    request("/tokenize", json!({ "inputs": vec![".".repeat(characters); texts] }).to_string().as_bytes())
}

#[test]
fn answers_respect_their_size_limit() {
    let place = place();
    let server = Server::start(place, &["reviews", "names", "bert", "numbers", "book", "--max-answer", "300"]);
    let many = json!(vec!["good film, and the cat saw a dog"; 20]);
    for (path, body) in [
        ("/predict", json!({ "inputs": many })),
        ("/predict", json!({ "inputs": many, "full": true })),
        ("/models/names/predict", json!({ "inputs": vec!["Anna waits in Oslo"; 20] })),
        ("/tokenize", json!({ "inputs": many })),
        ("/embed", json!({ "inputs": many })),
        ("/v1/embeddings", json!({ "input": many })),
        ("/translate", json!({ "inputs": vec!["number 7"; 20] })),
        ("/explain", json!({ "inputs": "good film" })),
        ("/explain", json!({ "inputs": "good film", "html": true })),
        ("/models/names/explain", json!({ "inputs": "Anna waits in Oslo" })),
        ("/models/bert/explain", json!({ "inputs": "good film" })),
        ("/models/numbers/explain", json!({ "inputs": "number 7" })),
        ("/models/book/explain", json!({ "inputs": "the cat" })),
        ("/generate", json!({ "inputs": "the", "max_tokens": 400, "temperature": 0 })),
    ] {
        let reply = server.post_rejected(path, &body, 413, "Validation");
        assert!(reply.body.contains("--max-answer"), "{path}: {reply:?}");
    }
    assert_eq!(server.post("/predict", &json!({ "inputs": "good" })).status, 200);
    assert_eq!(server.post("/models/numbers/tokenize", &json!({ "inputs": "7" })).status, 200);
}

#[test]
fn a_request_within_the_default_limits_takes_little_memory() {
    let server = Server::start(place(), &["numbers"]);
    let Some(before) = server.resident_bytes() else { return };
    // Two megabytes, whose tokens would give an answer of more than a hundred.
    let reply = server.send(&dots(126, 15_600)).assert_error(413, "Validation");
    assert!(reply.body.contains("--max-answer"), "{reply:?}");
    let most = server.peak_resident_bytes().unwrap().saturating_sub(before) >> 20;
    assert!(most < 200, "one request took {most} MiB");
}

#[test]
fn memory_returns_to_the_system() {
    let server = Server::start(place(), &["ngrams"]);
    let whole = request("/predict", json!({ "inputs": "good", "junk": "x".repeat(1_900_000) }).to_string().as_bytes());
    let half = &whole[..whole.len() - 3];
    let Some(before) = server.resident_bytes() else { return };
    let slow: Vec<_> = (0..60).map(|_| send_raw(&server, half)).collect();
    let head = half.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    server.wait_for_metric("chumoku_held_bytes", 60 * (half.len() - head) as u64);
    let grown = server.resident_bytes().unwrap().saturating_sub(before) >> 20;
    assert!(grown > 80, "60 requests that are being read hold {grown} MiB");
    drop(slow);
    wait_until("memory that goes back", || server.resident_bytes().unwrap().saturating_sub(before) < 24 << 20);
    // The counter increases after the trim.
    wait_until("a trim that is counted", || server.metric("chumoku_trims_total") > 0);
}

#[test]
fn slow_clients_together_respect_the_memory_limit() {
    let server = Server::start(place(), &["numbers", "--max-held", "3000000"]);
    // Requests being read.
    let whole = request("/tokenize", json!({ "inputs": "7", "junk": "x".repeat(1_800_000) }).to_string().as_bytes());
    let slow = send_raw(&server, &whole[..whole.len() - 3]);
    let head = whole.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    server.wait_for_metric("chumoku_held_bytes", (whole.len() - 3 - head) as u64);
    server.send(&whole).assert_error(429, "Overloaded");
    // Small requests always fit.
    let small = request("/tokenize", b"{\"inputs\": \"7\"}");
    assert_eq!(server.send(&small).status, 200);
    drop(slow);
    server.wait_for_metric("chumoku_held_bytes", 0);
    assert_eq!(server.send(&whole).status, 200);
    // Answers being sent: more than the system's buffers hold.
    let server = Server::start(place(), &["numbers", "--max-held", "30000000"]);
    let slow = send_raw(&server, &dots(4, 100_000));
    wait_until("an answer that is not read", || server.metric("chumoku_held_bytes") > 4_000_000);
    let reply = server.send(&dots(5, 100_000));
    assert!(reply.status == 429 && reply.body.contains("--max-held"), "{reply:?}");
    drop(slow);
    server.wait_for_metric("chumoku_held_bytes", 0);
}

#[test]
fn work_for_a_disconnected_client_stops_between_two_texts() {
    // Tokenizers and taggers call no kernels, which would stop by themselves.
    for (model, path, point) in
        [("book", "/tokenize", "answer:2"), ("names", "/predict", "short-work"), ("names", "/predict", "answer:2")]
    {
        let hold = HoldPoint::at(point);
        let server = Server::start_held(place(), &[model], &hold);
        let body = json!({ "inputs": vec!["Anna waits in Oslo"; 3] }).to_string();
        let gone = send_raw(&server, &request(path, body.as_bytes()));
        hold.wait_until_reached();
        drop(gone);
        // Only the request for the metrics is left.
        server.wait_for_metric("chumoku_requests_in_flight", 1);
        hold.release();
        server.wait_for_metric("chumoku_stopped_total", 1);
    }
}

#[test]
fn an_explanation_respects_its_cost_limit() {
    let server =
        Server::start(place(), &["ngrams", "reviews", "names", "bert", "numbers", "book", "--max-explain", "1"]);
    for (model, text) in
        [("ngrams", "good "), ("reviews", "good "), ("names", "Anna "), ("numbers", "number 7 "), ("book", "the cat ")]
    {
        let path = format!("/models/{model}/explain");
        let reply = server.post_rejected(&path, &json!({ "inputs": text.repeat(9000) }), 413, "Validation");
        assert!(reply.body.contains("--max-explain"), "{model}: {reply:?}");
        assert_eq!(server.post(&path, &json!({ "inputs": text.trim() })).status, 200, "{model}");
    }
}

/// Patching runs the network once for each site. A text that can just be explained is too long to be patched.
#[test]
fn patching_respects_the_cost_limit_of_explanations() {
    let server = Server::start(place(), &["book", "--max-explain", "1"]);
    let body = |words: usize| json!({ "inputs": "the cat ".repeat(words) });
    let is_explained = |words: &usize| server.post("/explain", &body(*words)).status == 200;
    let lengths = (0..14).map(|power| 1 << power).collect::<Vec<usize>>();
    let longest = lengths.into_iter().take_while(is_explained).last().unwrap();
    let mut patched = body(longest);
    patched["patch"] = "the cat".into();
    let reply = server.post_rejected("/explain", &patched, 413, "Validation");
    assert!(reply.body.contains("--max-explain"), "{longest}: {reply:?}");
    let short = json!({ "inputs": "the cat", "patch": "the dog" });
    assert_eq!(server.post("/explain", &short).status, 200);
}

#[test]
fn explanations_have_half_of_the_threads_and_the_lowest_priority() {
    let hold = HoldPoint::at("long-work");
    let server = Server::start_held(place(), &["ngrams", "reviews", "bert", "--threads", "4"], &hold);
    let ask = |model: &str| {
        let path = format!("/models/{model}/explain");
        send_raw(&server, &request(&path, b"{\"inputs\": \"good\"}"))
    };
    let mut requests: Vec<_> = ["ngrams", "reviews", "bert", "ngrams"].map(ask).into();
    hold.wait_until_reached();
    // One at a time, across all models.
    server.wait_for_metric("chumoku_explanations_waiting", 3);
    let threads = server.threads();
    if threads.is_empty() {
        println!("SKIPPED: this system does not tell the threads of a process");
    } else {
        // A thread has its name and its priority only once it has started.
        let explaining = |threads: &[(String, i64)]| -> Vec<i64> {
            threads.iter().filter(|(name, _)| name.starts_with("explain ")).map(|(_, nice)| *nice).collect()
        };
        let mut threads = Vec::new();
        wait_until("two threads of the lowest priority", || {
            threads = server.threads();
            explaining(&threads) == [19, 19]
        });
        assert!(threads.iter().all(|(name, nice)| name.starts_with("explain ") || *nice < 19), "{threads:?}");
    }
    // Other requests continue meanwhile.
    assert_eq!(server.post("/models/reviews/predict", &json!({ "inputs": "good" })).status, 200);
    hold.release();
    for stream in &mut requests {
        assert_eq!(read_reply(stream).expect("an answer").status, 200);
    }
}
