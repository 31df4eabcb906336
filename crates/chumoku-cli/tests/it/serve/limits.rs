//! Clients that are slow, too many or gone, and work that takes too long: nobody holds up anybody else.

use crate::common::reviews;
use crate::serve::place;
use crate::service::{Server, is_silent, read, request};
use serde_json::{Value, json};
use std::io::Write;
use std::time::{Duration, Instant};

#[test]
fn slow_clients_hold_nobody_up() {
    let server = Server::start(place(), &["ngrams", "--read-timeout", "4s"]);
    let half = |bytes: &[u8]| {
        let mut stream = server.connect();
        stream.write_all(bytes).unwrap();
        stream
    };
    let whole = request("/predict", b"{\"inputs\": \"good\"}");
    let begun = Instant::now();
    let mut heads: Vec<_> = (0..8).map(|_| half(&whole[..30])).collect();
    let mut bodies: Vec<_> = (0..8).map(|_| half(&whole[..whole.len() - 4])).collect();
    let mut idle = server.connect();
    assert_eq!(server.sends(&whole).status, 200);
    // That was answered while all the others were still waited for.
    for stream in heads.iter().chain(&bodies) {
        assert!(is_silent(stream));
    }
    for stream in heads.iter_mut().chain(&mut bodies) {
        read(stream).expect("an answer").is(408, "Timeout");
    }
    assert!(begun.elapsed() > Duration::from_millis(3900), "{:?}", begun.elapsed());
    // Whoever says nothing is told nothing.
    assert!(read(&mut idle).is_none());
}

#[test]
fn more_connections_than_may_be_are_told_so() {
    let server = Server::start(place(), &["ngrams", "--read-timeout", "60s", "--max-connections", "30"]);
    let held: Vec<_> = (0..30).map(|_| server.connect()).collect();
    read(&mut server.connect()).expect("an answer").is(503, "Overloaded");
    assert!(held.iter().all(is_silent));
    drop(held);
    server.has_room_again();
}

#[test]
fn who_is_told_that_there_is_no_room_takes_none() {
    let server = Server::start(place(), &["ngrams", "--read-timeout", "60s", "--max-connections", "2"]);
    let [first, _second] = [server.connect(), server.connect()];
    // They are told so, and stay for a while.
    let mut refused: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for stream in &mut refused {
        read(stream).expect("an answer").is(503, "Overloaded");
    }
    drop(first);
    server.has_room_again();
}

#[test]
fn a_full_queue_refuses_and_what_takes_too_long_is_told() {
    let place = place();
    let args =
        ["book", "--queue", "1", "--wait-timeout", "2s", "--max-new-tokens", "100000", "--compute-timeout", "6s"];
    let server = Server::start(place, &args);
    let long = json!({ "inputs": "the", "max_tokens": 100_000, "temperature": 0, "stream": true });
    // One is written, and its client reads on until it is cut for its time; one waits.
    let mut first = server.connect();
    first.write_all(&request("/generate", long.to_string().as_bytes())).unwrap();
    server.comes_to("chumoku_queue_seconds_count", 1);
    let short = json!({ "inputs": "the", "max_tokens": 1 });
    let mut second = server.connect();
    second.write_all(&request("/generate", short.to_string().as_bytes())).unwrap();
    server.comes_to("chumoku_queue_length{model=\"book\"}", 1);
    let third = server.refuses("/generate", &short, 429, "Overloaded");
    // What is soon done does not wait for it.
    assert_eq!(server.post("/tokenize", &json!({ "inputs": "the cat" })).status, 200);
    assert!(third.head.to_lowercase().contains("retry-after: "), "{third:?}");
    // The second has waited as long as it may.
    read(&mut second).expect("an answer").is(429, "Overloaded");
    let reply = read(&mut first).expect("an answer");
    let end: Vec<&str> = reply.body.trim_end().rsplit("\n\n").take(2).collect();
    assert!(end[0] == "data: [DONE]" && end[1].contains("\"stop\":\"time\""), "{end:?}");
    // Without a stream, that is an error; a client that goes away makes room.
    let mut whole = long.clone();
    whole["stream"] = false.into();
    server.refuses("/generate", &whole, 504, "Timeout");
    let mut gone = server.connect();
    gone.write_all(&request("/generate", long.to_string().as_bytes())).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    drop(gone);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(server.post("/generate", &short).status, 200);
}

#[test]
fn what_takes_too_long_is_stopped_and_holds_up_none() {
    let args = ["reviews", "ngrams", "--compute-timeout", "4s", "--wait-timeout", "30s", "--max-body", "20000000"];
    let server = Server::start(place(), &args);
    let [short, long] = [3, 4000].map(|words| json!({ "inputs": "good ".repeat(words) }));
    let explains = |body: &Value| {
        let mut stream = server.connect();
        stream.write_all(&request("/explain", body.to_string().as_bytes())).unwrap();
        stream
    };
    let begun = Instant::now();
    let mut late = explains(&long);
    server.comes_to("chumoku_queue_seconds_count", 1);
    // On one thread, as all tests are: what is soon done has a thread beside it.
    for path in ["/predict", "/tokenize"] {
        assert_eq!(server.post(path, &short).status, 200);
    }
    assert!(is_silent(&late));
    read(&mut late).expect("an answer").is(504, "Timeout");
    assert!(begun.elapsed() > Duration::from_secs(4), "{:?}", begun.elapsed());
    // The next does not wait for what nobody waits for.
    assert_eq!(server.post("/explain", &short).status, 200);
    // Nor for one whose client has gone.
    let gone = explains(&long);
    server.comes_to("chumoku_queue_seconds_count", 5);
    drop(gone);
    assert_eq!(server.post("/explain", &short).status, 200);
    // What is computed for several is stopped when the last of them has gone, and so is what is soon done as a rule.
    let texts = vec!["good ".repeat(15_000); 128];
    server.refuses("/predict", &json!({ "inputs": texts }), 504, "Timeout");
    assert_eq!(server.post("/predict", &short).status, 200);
}

#[test]
fn requests_that_wait_keep_only_what_is_needed() {
    let server = Server::start(
        place(),
        &["book", "--max-new-tokens", "1000000", "--compute-timeout", "120s", "--wait-timeout", "120s"],
    );
    let mut first = server.connect();
    let long = json!({ "inputs": "the", "max_tokens": 1_000_000, "stream": true });
    first.write_all(&request("/generate", long.to_string().as_bytes())).unwrap();
    server.comes_to("chumoku_queue_seconds_count", 1);
    // Fields that nobody knows, of two megabytes each.
    let junk = json!({ "inputs": "the", "max_tokens": 1, "junk": "x".repeat(1_900_000) }).to_string();
    let wait = |before: u64, count: u64| -> Vec<_> {
        let ask = |number| {
            let mut stream = server.connect();
            stream.write_all(&request("/generate", junk.as_bytes())).unwrap();
            server.comes_to("chumoku_queue_length{model=\"book\"}", number + 1);
            stream
        };
        // One after the other: what is needed to read one serves the next.
        (before..before + count).map(ask).collect()
    };
    // What a few need while they are read. The junk of thirty would be 57 MB.
    let few = wait(0, 3);
    let Some(before) = server.resident() else { return };
    let many = wait(3, 30);
    let more = server.resident().unwrap().saturating_sub(before) >> 20;
    assert!(more < 40, "30 requests that wait hold {more} MiB");
    drop((few, many));
}

#[test]
fn batches_wait_for_what_is_being_read_and_no_longer() {
    let server = Server::start(place(), &["ngrams", "--gather", "60000"]);
    let body = request("/predict", b"{\"inputs\": \"good\"}");
    let begun = Instant::now();
    // Alone, it loses no time.
    assert_eq!(server.sends(&body).status, 200);
    let half = |bytes: &[u8]| {
        let mut stream = server.connect();
        stream.write_all(&bytes[..bytes.len() - 3]).unwrap();
        server.comes_to("chumoku_requests_in_flight", 2);
        stream
    };
    let send = |bytes: &[u8]| {
        let mut stream = server.connect();
        stream.write_all(bytes).unwrap();
        stream
    };
    // Beside another that is being read, it waits, and both are computed together.
    let mut late = half(&body);
    let mut early = send(&body);
    server.comes_to("chumoku_requests_in_flight", 3);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(server.counts("chumoku_batch_texts_count"), 1);
    late.write_all(&body[body.len() - 3..]).unwrap();
    for stream in [&mut late, &mut early] {
        assert_eq!(read(stream).expect("an answer").status, 200);
    }
    assert_eq!((server.counts("chumoku_batch_texts_count"), server.counts("chumoku_batch_texts_sum")), (2, 3));
    // The other comes to nothing.
    drop((late, early));
    let mut late = half(&body);
    let mut early = send(&body);
    server.comes_to("chumoku_requests_in_flight", 3);
    std::thread::sleep(Duration::from_millis(100));
    late.write_all(b"...").unwrap();
    read(&mut late).expect("an answer").is(400, "Validation");
    assert_eq!(read(&mut early).expect("an answer").status, 200);
    assert!(begun.elapsed() < Duration::from_secs(50), "{:?}", begun.elapsed());
}

#[test]
fn no_more_texts_are_computed_together_than_may_be() {
    let server = Server::start(place(), &["ngrams", "--gather", "60000", "--batch-texts", "2"]);
    let body = request("/predict", b"{\"inputs\": \"good\"}");
    let mut last = server.connect();
    last.write_all(&body[..body.len() - 3]).unwrap();
    server.comes_to("chumoku_requests_in_flight", 2);
    let mut others: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(&body).unwrap();
            stream
        })
        .collect();
    let begun = Instant::now();
    // Two and two, and none of them waits for the last.
    for stream in &mut others {
        assert_eq!(read(stream).expect("an answer").status, 200);
    }
    assert_eq!((server.counts("chumoku_batch_texts_count"), server.counts("chumoku_batch_texts_sum")), (2, 4));
    assert!(begun.elapsed() < Duration::from_secs(50), "{:?}", begun.elapsed());
}

#[test]
fn a_batch_is_answered_one_by_one_where_one_of_it_fails() {
    let server = Server::start(place(), &["bert", "--gather", "60000"]);
    let body = |text: &str| request("/embed", json!({ "inputs": text }).to_string().as_bytes());
    let [good, long] = [body("good"), body(&reviews(1)[0].0.repeat(20))];
    let alone = server.sends(&good).body;
    let mut late = server.connect();
    late.write_all(&long[..long.len() - 3]).unwrap();
    server.comes_to("chumoku_requests_in_flight", 2);
    let mut early = server.connect();
    early.write_all(&good).unwrap();
    server.comes_to("chumoku_requests_in_flight", 3);
    std::thread::sleep(Duration::from_millis(100));
    late.write_all(&long[long.len() - 3..]).unwrap();
    read(&mut late).expect("an answer").is(413, "Validation");
    assert_eq!(read(&mut early).expect("an answer").body, alone);
    assert_eq!((server.counts("chumoku_batch_texts_count"), server.counts("chumoku_batch_texts_sum")), (2, 3));
}
