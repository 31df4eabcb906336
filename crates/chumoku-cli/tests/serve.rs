//! The service: its answers are the command's, alone and among others, and whatever comes is answered or refused.

#![cfg(unix)]

mod common;
mod service;

use common::{Place, random, reviews};
use serde_json::{Value, json};
use service::{Server, read, request};
use std::io::Write;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A folder with a model of each kind.
fn place() -> &'static Place {
    static PLACE: OnceLock<Place> = OnceLock::new();
    PLACE.get_or_init(|| {
        let place = Place::shared("serve");
        place.train_small("reviews", &["--epochs", "1"]);
        place.run(&["train", "reviews.csv", "--out", "ngrams", "--model", "ngrams"]).ok();
        let rows = (0..60).map(|i| format!("number {i}\tnombre {i}\n")).collect::<String>();
        place.write("numbers.tsv", format!("source\ttarget\n{rows}"));
        place.run(&["train", "numbers.tsv", "--task", "translate", "--out", "numbers", "--epochs", "1"]).ok();
        let [people, deeds] =
            [["the cat", "a dog", "my friend", "the old man"], ["saw", "likes", "never met", "heard"]];
        let line =
            |i: usize| format!("{} {} {}.\n", people[i * 7 % 4], deeds[i * 5 / 4 % 4], people[(i * 3 + i / 9) % 4]);
        place.write("book.txt", (0..400).map(line).collect::<String>());
        place.run(&["train", "book.txt", "--task", "lm", "--out", "book", "--epochs", "1"]).ok();
        let sentence = |i: usize| {
            let (who, town) = (["Anna", "Ben", "Clara", "Emma", "Hugo"][i % 5], ["Oslo", "Rome", "Kyoto"][i / 5 % 3]);
            format!("{who} B-person\n{} O\nin O\n{town} B-place\n\n", ["waits", "lives", "works"][i / 15])
        };
        place.write("names.conll", (0..45).map(sentence).collect::<String>());
        place.run(&["train", "names.conll", "--task", "tag", "--out", "names"]).ok();
        let bert = Place::with_bert();
        place.copy(&bert.path("bert"), "bert");
        place
    })
}

const ALL: [&str; 6] = ["reviews", "ngrams", "names", "bert", "numbers", "book"];

/// What a command prints as JSON.
fn told(args: &[&str]) -> Vec<Value> {
    place().run(args).ok().json_lines()
}

#[test]
fn every_answer_is_the_commands() {
    let place = place();
    let server = Server::start(place, &ALL);
    let text = "Slow, cold and not worth the money.";
    // Objects of `predict --json`, to the byte.
    for model in ["reviews", "ngrams", "names"] {
        let printed = place.run(&["predict", model, text, "Anna waits in Oslo", "--json"]).ok().stdout;
        let body = json!({ "inputs": [[text], ["Anna waits in Oslo"]], "full": true, "model": model });
        let reply = server.post("/predict", &body);
        assert_eq!(reply.body, format!("[{}]", printed.trim_end().replace('\n', ",")));
        let one = server.post(&format!("/models/{model}/predict"), &json!({ "inputs": text, "full": true }));
        assert_eq!(one.body, printed.lines().next().unwrap());
    }
    let printed = told(&["predict", "reviews", text, "--json", "--top", "2"]);
    assert_eq!(server.asks("/predict", &json!({ "inputs": text, "full": true, "top": 2 })), printed[0]);
    // The form of text-embeddings-inference.
    let labels: Vec<Value> = printed[0]["top"]
        .as_array()
        .unwrap()
        .iter()
        .map(|class| json!({ "label": class["label"], "score": class["probability"] }))
        .collect();
    assert_eq!(server.asks("/predict", &json!({ "inputs": text })), Value::from(labels.clone()));
    assert_eq!(server.asks("/predict", &json!({ "inputs": [text] })), Value::from(labels.clone()));
    assert_eq!(server.asks("/predict", &json!({ "inputs": [[text], [text]] })), json!([labels, labels]));
    assert_eq!(server.asks("/predict", &json!({ "inputs": [text, text] })), json!([labels, labels]));
    let raw = server.asks("/predict", &json!({ "inputs": text, "raw_scores": true }));
    let p = |all: &Value, at: usize| all[at]["score"].as_f64().unwrap();
    for (at, label) in labels.iter().enumerate() {
        assert!((p(&raw, at).exp() - label["score"].as_f64().unwrap()).abs() < 1e-4, "{raw}");
    }
    let spans = told(&["predict", "names", "Anna waits in Oslo", "--json"]);
    let found = server.asks("/models/names/predict", &json!({ "inputs": "Anna waits in Oslo" }));
    let span = &spans[0]["spans"][0];
    let as_entity = json!({ "entity_group": span["label"], "score": span["probability"], "word": span["text"], "start": span["start"], "end": span["end"] });
    assert_eq!(found[0], as_entity);
    // Explanations, of each kind that has them.
    for model in ["reviews", "ngrams", "bert", "numbers", "book"] {
        let printed = told(&["explain", model, "the film was good", "--json", "-"]);
        assert_eq!(
            server.asks("/explain", &json!({ "inputs": "the film was good", "model": model })),
            printed[0],
            "{model}"
        );
    }
    let printed = told(&["explain", "reviews", text, "--json", "-", "--method", "integrated-gradients"]);
    assert_eq!(server.asks("/explain", &json!({ "inputs": text, "method": "integrated-gradients" })), printed[0]);
    let printed = told(&["explain", "bert", "good film", "--target", "bad film", "--json", "-"]);
    let body = json!({ "inputs": "good film", "target": "bad film", "model": "bert" });
    assert_eq!(server.asks("/explain", &body), printed[0]);
    // Vectors.
    let texts = ["the film was good", "映画"];
    let printed = told(&["embed", "bert", texts[0], texts[1]]);
    let vectors = server.asks("/embed", &json!({ "inputs": texts }));
    assert_eq!(vectors, json!([printed[0]["embedding"], printed[1]["embedding"]]));
    assert_eq!(server.asks("/embed", &json!({ "inputs": texts[0] })), json!([printed[0]["embedding"]]));
    let plain = told(&["embed", "bert", texts[0], "--no-normalize"]);
    assert_eq!(
        server.asks("/embed", &json!({ "inputs": texts[0], "normalize": false })),
        json!([plain[0]["embedding"]])
    );
    let openai = server.asks("/v1/embeddings", &json!({ "input": texts, "model": "text-embedding-3-small" }));
    assert_eq!((&openai["data"][1]["embedding"], &openai["data"][1]["index"]), (&vectors[1], &json!(1)));
    assert_eq!((&openai["object"], &openai["model"]), (&json!("list"), &json!("bert")));
    let tokens = server.asks("/tokenize", &json!({ "inputs": texts, "model": "bert" }));
    let count: usize = tokens.as_array().unwrap().iter().map(|tokens| tokens.as_array().unwrap().len()).sum();
    assert_eq!(openai["usage"]["prompt_tokens"], count);
    let packed = server.asks("/v1/embeddings", &json!({ "input": texts[1], "encoding_format": "base64" }));
    assert_eq!(
        floats(packed["data"][0]["embedding"].as_str().unwrap()),
        vectors[1].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect::<Vec<_>>()
    );
    // Tokens.
    assert_eq!(tokens[1][0], json!({ "id": 2, "text": "[CLS]", "special": true, "start": null, "stop": null }));
    assert_eq!(tokens[1][2], json!({ "id": 13, "text": "画", "special": false, "start": 1, "stop": 2 }));
    let body = json!({ "inputs": text, "model": "reviews", "add_special_tokens": false });
    let tokens = server.asks("/tokenize", &body);
    let letters: Vec<char> = text.chars().collect();
    let place_of = |token: &Value, key: &str| token[key].as_u64().unwrap() as usize;
    let covered: String = tokens[0]
        .as_array()
        .unwrap()
        .iter()
        .map(|token| letters[place_of(token, "start")..place_of(token, "stop")].iter().collect::<String>())
        .collect();
    assert_eq!(covered.replace(' ', ""), text.replace(' ', ""));
    // Translations.
    let printed = told(&[
        "translate",
        "numbers",
        "number 7",
        "number 8",
        "--json",
        "--beam",
        "3",
        "--n-best",
        "2",
        "--alignment",
    ]);
    let body = json!({ "inputs": ["number 7", "number 8"], "beam": 3, "n_best": 2, "alignment": true });
    assert_eq!(server.asks("/translate", &body), Value::from(printed));
    // Texts that go on, whole and in pieces.
    let printed = told(&["generate", "book", "the cat", "--max-tokens", "12", "--seed", "5", "--json"]);
    let mut body = json!({ "inputs": "the cat", "max_tokens": 12, "seed": 5 });
    assert_eq!(server.asks("/generate", &body), printed[0]);
    body["stream"] = true.into();
    let reply = server.post("/generate", &body);
    assert!(reply.status == 200 && reply.head.contains("text/event-stream"), "{reply:?}");
    let events: Vec<&str> = reply.body.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect();
    assert_eq!(events.last(), Some(&"[DONE]"));
    let events: Vec<Value> =
        events[..events.len() - 1].iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let text: String = events.iter().map(|event| event["text"].as_str().unwrap()).collect();
    let last = events.last().unwrap();
    assert_eq!(
        (&json!(text), &last["generated_text"], &last["stop"]),
        (&printed[0]["text"], &printed[0]["text"], &printed[0]["stop"])
    );
    assert!(events.len() > 3, "{events:?}");
}

/// The numbers in base64.
fn floats(text: &str) -> Vec<f32> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for letter in text.bytes().filter(|&letter| letter != b'=') {
        bits = bits << 6 | LETTERS.iter().position(|&other| other == letter).unwrap() as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

#[test]
fn pages_tell_what_there_is() {
    let server = Server::start(place(), &["reviews", "judge=ngrams", "bert", "--max-texts", "7"]);
    let info = server.get("/info").json();
    assert_eq!((&info["model_id"], &info["max_client_batch_size"]), (&json!("reviews"), &json!(7)));
    assert!(info["model_type"]["classifier"]["label2id"]["negative"].as_u64().unwrap() < 2, "{info}");
    let names: Vec<&str> =
        info["models"].as_array().unwrap().iter().map(|model| model["model_id"].as_str().unwrap()).collect();
    assert_eq!(names, ["reviews", "judge", "bert"]);
    assert_eq!(info["models"][2]["model_type"]["embedding"]["dimension"], 16);
    assert_eq!(server.get("/health").json(), json!({ "status": "ok" }));
    let openapi = server.get("/openapi.json").json();
    let paths: Vec<&String> = openapi["paths"].as_object().unwrap().keys().collect();
    let overview = server.get("/").json();
    assert_eq!(overview["models"], json!(["reviews", "judge", "bert"]));
    let docs = server.get("/docs");
    assert!(docs.head.contains("text/html") && !docs.body.contains("https://"), "{docs:?}");
    for place in overview["endpoints"].as_array().unwrap() {
        let (method, path) = place.as_str().unwrap().split_once(' ').unwrap();
        assert!(paths.iter().any(|known| *known == path), "{path}");
        assert!(docs.body.contains(&format!("{method} {path}")), "{path}");
        // What is listed is there.
        let status = if method == "GET" { server.get(path).status } else { server.post(path, &json!({})).status };
        assert!([200, 422, 424].contains(&status), "{path}: {status}");
    }
    server.asks("/predict", &json!({ "inputs": "good", "model": "judge" }));
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("chumoku_requests_total{path=\"/predict\",status=\"200\"} 1\n"), "{metrics}");
    assert!(metrics.contains("chumoku_queue_length{model=\"judge\"} 0\n"), "{metrics}");
    assert!(metrics.contains("chumoku_batch_texts_count "), "{metrics}");
}

#[test]
fn what_cannot_be_answered_is_refused_with_a_reason() {
    let place = place();
    let limits = ["--max-body", "5000", "--max-texts", "3", "--max-chars", "100", "--max-new-tokens", "20"];
    let server = Server::start(place, &[&ALL[..], &limits].concat());
    let text = json!({ "inputs": "good" });
    server.get("/nothing").is(404, "NotFound");
    server.refuses("/models/nobody/predict", &text, 404, "NotFound");
    server.refuses("/predict", &json!({ "inputs": "good", "model": "nobody" }), 404, "NotFound");
    server.get("/predict").is(405, "Validation");
    server.refuses("/info", &text, 405, "Validation");
    for (path, body) in [
        ("/predict", json!({})),
        ("/predict", json!({ "inputs": 3 })),
        ("/predict", json!({ "inputs": ["good", 3] })),
        ("/predict", json!({ "inputs": [["a", "b"]] })),
        ("/predict", json!({ "inputs": "good", "raw_scores": "yes" })),
        ("/predict", json!({ "inputs": "good", "top": 2 })),
        ("/predict", json!({ "inputs": "good", "full": true, "top": 0 })),
        ("/predict", json!({ "inputs": "good", "full": true, "abstain": 2 })),
        ("/predict", json!({ "inputs": "good", "columns": { "price": 3 } })),
        ("/models/names/predict", json!({ "inputs": "good", "raw_scores": true })),
        ("/explain", json!({ "inputs": ["a", "b"] })),
        ("/explain", json!({ "inputs": "a", "target": "b", "model": "reviews" })),
        ("/explain", json!({ "inputs": "a", "method": "guessing" })),
        ("/explain", json!({ "inputs": "a", "method": "integrated-gradients", "model": "ngrams" })),
        ("/embed", json!({ "inputs": "good", "prompt_name": "query" })),
        ("/v1/embeddings", json!({ "input": "good", "encoding_format": "hex" })),
        ("/translate", json!({ "inputs": "a", "n_best": 9 })),
        ("/translate", json!({ "inputs": "a", "beam": -1 })),
        ("/generate", json!({ "inputs": "a", "max_tokens": 21 })),
        ("/generate", json!({ "inputs": "a", "temperature": -1 })),
        ("/generate", json!({ "inputs": "a", "system": "be kind" })),
    ] {
        server.refuses(path, &body, 422, "Validation");
    }
    for inputs in [json!([]), json!(""), json!(["good", ""])] {
        server.refuses("/predict", &json!({ "inputs": inputs }), 400, "Empty");
    }
    server.refuses("/predict", &json!({ "inputs": ["a", "b", "c", "d"] }), 413, "Validation");
    server.refuses("/predict", &json!({ "inputs": "x".repeat(101) }), 413, "Validation");
    assert_eq!(server.post("/predict", &json!({ "inputs": "あ".repeat(100) })).status, 200);
    for (path, model) in [
        ("/predict", "bert"),
        ("/embed", "reviews"),
        ("/translate", "book"),
        ("/generate", "names"),
        ("/explain", "names"),
        ("/tokenize", "ngrams"),
    ] {
        server.refuses(path, &json!({ "inputs": "good", "model": model }), 424, "Backend");
    }
    // Longer than the encoder reads.
    let long = "good ".repeat(20);
    server.refuses("/embed", &json!({ "inputs": long }), 413, "Validation");
    assert_eq!(server.post("/embed", &json!({ "inputs": long, "truncate": true })).status, 200);
    // No JSON, and no text.
    let deep = format!("{{\"inputs\": {}{}}}", "[".repeat(1000), "]".repeat(1000));
    for body in [b"{\"inputs\": \"\xff\xfe\"}".as_slice(), b"{\"inputs\": ", b"inputs=good", deep.as_bytes(), b""] {
        let reply = server.sends(&request("/predict", body)).is(400, "Validation");
        assert!(!reply.body.contains("good"), "{reply:?}");
    }
    server.sends(&request("/predict", b"[\"good\"]")).is(422, "Validation");
    let plain = String::from_utf8(request("/predict", b"{}")).unwrap().replace("application/json", "text/plain");
    server.sends(plain.as_bytes()).is(415, "Validation");
    // Too much, announced or not.
    server.sends(&request("/predict", &[b' '; 5001])).is(413, "Validation");
    let chunks = format!("{:x}\r\n{}\r\n", 4000, " ".repeat(4000)).repeat(3);
    let head = "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    server.sends(format!("{head}{chunks}0\r\n\r\n").as_bytes()).is(413, "Validation");
    let announced = head.replace("Transfer-Encoding: chunked", "Content-Length: 99999999999");
    server.sends(announced.as_bytes()).is(413, "Validation");
    assert_eq!(server.sends(b"NONSENSE\r\n\r\n").status, 400);
    assert_eq!(server.sends(format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(200_000)).as_bytes()).status, 431);
    // A page of another name that leads here.
    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example"] {
        server.sends(format!("GET /info HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).is(403, "Validation");
    }
    let reply = server.sends(b"OPTIONS /predict HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n");
    assert!(reply.status == 405 && !reply.head.to_lowercase().contains("access-control"), "{reply:?}");
    // All that came of it is a log without a text.
    assert_eq!(server.post("/predict", &text).status, 200);
    server.hears("POST /predict 200 model=reviews texts=1");
    assert!(server.said().iter().all(|line| !line.contains("good")), "{:#?}", server.said());
}

#[test]
fn many_at_once_get_what_each_would_get_alone() {
    let place = place();
    let server = Server::start(place, &[&ALL[..], &["--log", "off"]].concat());
    let mut state = 7;
    let texts: Vec<String> = reviews(40).into_iter().map(|(text, _)| text).collect();
    let mut asked: Vec<(&str, Value)> = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        let part =
            |share: f64| text.chars().take(1 + (share * text.chars().count() as f64) as usize).collect::<String>();
        asked.push(("/predict", json!({ "inputs": part(random(&mut state)), "full": true })));
        asked
            .push(("/models/ngrams/predict", json!({ "inputs": [part(random(&mut state)), part(0.5)], "full": true })));
        asked.push(("/embed", json!({ "inputs": [part(0.3), part(random(&mut state))], "truncate": true })));
        match at % 8 {
            0 => asked.push(("/translate", json!({ "inputs": format!("number {at}"), "beam": 2 }))),
            1 => asked.push(("/models/reviews/explain", json!({ "inputs": part(0.2) }))),
            2 => asked.push(("/tokenize", json!({ "inputs": text }))),
            3 => asked.push(("/generate", json!({ "inputs": "the", "max_tokens": 5, "seed": at }))),
            // A bad one between good ones.
            4 => asked.push(("/predict", json!({ "inputs": [text, ""] }))),
            // Others than the rest of their kind: not to be computed with them.
            5 => asked.push(("/embed", json!({ "inputs": part(0.1), "truncate": true, "normalize": false }))),
            6 => asked.push(("/embed", json!({ "inputs": text.repeat(3) }))),
            7 => asked.push(("/translate", json!({ "inputs": format!("number {at}"), "beam": 1 }))),
            _ => {}
        }
    }
    let alone: Vec<String> = asked.iter().map(|(path, body)| server.post(path, body).body).collect();
    let before = server.get("/metrics").body;
    std::thread::scope(|scope| {
        for client in 0..16 {
            let (server, asked, alone) = (&server, &asked, &alone);
            scope.spawn(move || {
                let mut stream = server.connect();
                for turn in 0..asked.len() {
                    let at = (turn * 7 + client * 11) % asked.len();
                    stream.write_all(&request(asked[at].0, asked[at].1.to_string().as_bytes())).unwrap();
                    let reply = read(&mut stream).unwrap();
                    assert_eq!(reply.body, alone[at], "{:?}", asked[at]);
                }
            });
        }
    });
    // Some were computed together, or this shows nothing; how many depends on the machine.
    let batches = |text: &str| {
        let count = text.lines().find_map(|line| line.strip_prefix("chumoku_batch_texts_count ")).unwrap();
        count.parse::<usize>().unwrap()
    };
    let (batches, requests) = (batches(&server.get("/metrics").body) - batches(&before), 16 * asked.len());
    assert!(batches + 50 < requests, "{batches} batches of {requests} requests");
    // And what stands alone is what the command says.
    for (at, (path, body)) in asked.iter().enumerate().filter(|(_, (path, _))| *path == "/predict").take(3) {
        let printed = place.run(&["predict", "reviews", body["inputs"].as_str().unwrap(), "--json"]).ok().stdout;
        assert_eq!(alone[at], printed.trim_end(), "{path}");
    }
}

#[test]
fn slow_clients_hold_nobody_up() {
    let server = Server::start(place(), &["ngrams", "--read-timeout", "1s", "--max-connections", "30"]);
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
    assert!(begun.elapsed() < Duration::from_millis(900), "{:?}", begun.elapsed());
    for stream in heads.iter_mut().chain(&mut bodies) {
        read(stream).expect("an answer").is(408, "Timeout");
    }
    let late = begun.elapsed();
    assert!(late > Duration::from_millis(900) && late < Duration::from_secs(6), "{late:?}");
    // Whoever says nothing is told nothing.
    assert!(read(&mut idle).is_none());
    // More than may be are told so; once there is room, all is well.
    let held: Vec<_> = (0..30).map(|_| server.connect()).collect();
    std::thread::sleep(Duration::from_millis(50));
    read(&mut server.connect()).expect("an answer").is(503, "Overloaded");
    drop(held);
    let until = Instant::now() + Duration::from_secs(5);
    while server.sends(&whole).status != 200 {
        assert!(Instant::now() < until, "no room again");
    }
}

#[test]
fn a_full_queue_refuses_and_what_takes_too_long_is_told() {
    let place = place();
    let args =
        ["book", "--queue", "1", "--wait-timeout", "400ms", "--max-new-tokens", "100000", "--compute-timeout", "2s"];
    let server = Server::start(place, &args);
    let long = json!({ "inputs": "the", "max_tokens": 100_000, "temperature": 0, "stream": true });
    // One is written, and its client reads on until it is cut for its time; one waits.
    let mut first = server.connect();
    first.write_all(&request("/generate", long.to_string().as_bytes())).unwrap();
    let until = Instant::now() + Duration::from_secs(5);
    while !server.get("/metrics").body.contains("chumoku_queue_seconds_count 1") {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(5));
    }
    let short = json!({ "inputs": "the", "max_tokens": 1 });
    let mut second = server.connect();
    second.write_all(&request("/generate", short.to_string().as_bytes())).unwrap();
    while !server.get("/metrics").body.contains("chumoku_queue_length{model=\"book\"} 1") {
        assert!(Instant::now() < until);
    }
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
fn told_to_end_it_answers_what_it_has_taken() {
    let place = place();
    let mut server = Server::start(place, &["reviews", "--log", "json"]);
    let text = reviews(3)[0].0.clone();
    let body = request("/predict", json!({ "inputs": text }).to_string().as_bytes());
    let expected = server.sends(&body).body;
    let idle = server.connect();
    let (mut answered, mut refused) = (0, 0);
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (mut stream, body, expected) = (server.connect(), body.clone(), expected.clone());
            std::thread::spawn(move || {
                let mut answered = 0;
                loop {
                    // Once a connection is told to close, no more is sent on it; until then every request is answered.
                    stream.write_all(&body).unwrap();
                    let reply = read(&mut stream).expect("every request is answered");
                    assert_eq!(reply.body, expected);
                    answered += 1;
                    if reply.head.to_lowercase().contains("connection: close") {
                        return answered;
                    }
                }
            })
        })
        .collect();
    // Half a request, whose rest comes later.
    let mut late = server.connect();
    late.write_all(&body[..body.len() - 5]).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    server.signal("TERM");
    server.hears("\"event\":\"ending\"");
    std::thread::sleep(Duration::from_millis(50));
    late.write_all(&body[body.len() - 5..]).unwrap();
    assert_eq!(read(&mut late).expect("an answer").body, expected);
    for client in clients {
        answered += client.join().unwrap();
    }
    assert!(answered >= 8, "{answered}");
    assert_eq!(server.ends(), 0, "{:#?}", server.said());
    drop(idle);
    for _ in 0..3 {
        refused += usize::from(std::net::TcpStream::connect(&server.address).is_err());
    }
    assert_eq!(refused, 3);
    // Each line of the log is an object, and holds no text.
    for line in server.said() {
        let line: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["time"].is_string() && line["event"].is_string(), "{line}");
        assert!(!line.to_string().contains(&text));
    }
}

#[test]
fn models_are_read_again_and_bad_ones_are_not() {
    let place = Place::new();
    place.copy(&self::place().path("ngrams"), "model");
    place.copy(&self::place().path("reviews"), "other");
    let mut server = Server::start(&place, &["model"]);
    let asked = json!({ "inputs": "Slow, cold and not worth the money.", "full": true });
    let first = server.asks("/predict", &asked);
    let next = place.run(&["predict", "other", asked["inputs"].as_str().unwrap(), "--json"]).ok().json();
    assert_ne!(first, next);
    server.signal("HUP");
    server.hears("unchanged");
    // A bad one, while requests come.
    let swap = |with: &str| {
        std::fs::rename(place.path("model"), place.path(&format!("old{with}"))).unwrap();
        std::fs::rename(place.path(with), place.path("model")).unwrap();
    };
    place.copy(&place.path("other"), "bad");
    place.write("bad/model.safetensors", b"no weights");
    swap("bad");
    std::thread::scope(|scope| {
        let (server, asked, first, next) = (&server, &asked, &first, &next);
        let client = scope.spawn(move || {
            let (mut seen, mut count) = (Vec::new(), 0);
            while count < 2000 && seen.len() < 2 {
                let found = server.asks("/predict", asked);
                assert!(found == *first || found == *next, "{found}");
                if seen.last() != Some(&found) {
                    seen.push(found);
                }
                count += 1;
            }
            seen
        });
        server.signal("HUP");
        let line = server.hears("the old model is kept");
        assert!(line.contains("model.safetensors"), "{line}");
        assert_eq!(server.asks("/predict", asked), *first);
        swap("other");
        server.signal("HUP");
        server.hears("new model (classifier)");
        let seen = client.join().unwrap();
        assert_eq!(seen, [first.clone(), next.clone()]);
    });
    let metrics = server.get("/metrics").body;
    for line in ["chumoku_reloads_total{result=\"kept_old\"} 1", "chumoku_reloads_total{result=\"new\"} 1"] {
        assert!(metrics.contains(line), "{metrics}");
    }
    server.signal("INT");
    assert_eq!(server.ends(), 0);
}

#[test]
fn a_key_is_asked_for_and_demanded_beyond_this_machine() {
    let place = place();
    let server = Server::with(place, &["ngrams"], &[("CHUMOKU_API_KEY", "open-sesame")]);
    let with = |key: &str| {
        let head = format!("GET /info HTTP/1.1\r\nHost: localhost\r\nAuthorization: {key}\r\n\r\n");
        server.sends(head.as_bytes())
    };
    assert_eq!(with("Bearer open-sesame").status, 200);
    for wrong in ["Bearer open-sesam", "Bearer open-sesame2", "Basic open-sesame", "open-sesame"] {
        assert!(with(wrong).is(401, "Unauthorized").head.to_lowercase().contains("www-authenticate: bearer"));
    }
    server.refuses("/predict", &json!({ "inputs": "good" }), 401, "Unauthorized");
    assert_eq!(server.get("/health").status, 200);
    assert!(server.said().iter().all(|line| !line.contains("sesame")));
    place.refuses(
        &["serve", "ngrams", "--host", "0.0.0.0", "--port", "0"],
        &["--host 0.0.0.0", "CHUMOKU_API_KEY", "--no-key"],
    );
    let open = Server::start(place, &["ngrams", "--host", "0.0.0.0", "--no-key"]);
    open.hears("anybody who reaches this address may ask");
    let open = Server::start(place, &["ngrams", "--lang", "ja"]);
    open.hears("待受");
    assert!(open.post("/predict", &json!({})).body.contains("ありません"));
}

#[test]
fn what_cannot_be_served_is_said_at_once() {
    let place = place();
    place.refuses(&["serve"], &["MODEL"]);
    place.refuses(&["serve", "nowhere"], &["nowhere"]);
    place.refuses(&["serve", "ngrams", "./ngrams"], &["two models are called ngrams"]);
    place.refuses(&["serve", "ngrams", "--host", "no such host"], &["--host no such host"]);
    place.refuses(&["serve", "ngrams", "--read-timeout", "0s"], &["--read-timeout", "10s"]);
    let server = Server::start(place, &["ngrams"]);
    let port = server.address.rsplit_once(':').unwrap().1;
    place.refuses(&["serve", "ngrams", "--port", port], &["listening on 127.0.0.1", port, "--port"]);
}

#[test]
fn the_page_of_documentation_names_every_flag_and_place() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serve.md")).unwrap();
    let help = place().run(&["serve", "--help"]).ok().stdout;
    let flags: Vec<&str> = help.split_whitespace().filter(|word| word.starts_with("--")).collect();
    assert!(flags.len() > 15, "{flags:?}");
    for flag in flags.iter().filter(|flag| !["--help", "--lang", "--threads"].contains(*flag)) {
        assert!(page.contains(*flag), "{flag} is not in docs/serve.md");
    }
    let words = page.split(|c: char| c.is_whitespace() || "`,;:()|".contains(c));
    for flag in words.filter(|word| word.starts_with("--") && word.len() > 3 && !["--json", "--out"].contains(word)) {
        assert!(help.contains(flag), "docs/serve.md names {flag}");
    }
    let server = Server::start(place(), &["ngrams"]);
    for place in server.get("/").json()["endpoints"].as_array().unwrap() {
        let path = place.as_str().unwrap().split_once(' ').unwrap().1;
        assert!(page.contains(&format!("{path}`")), "{path} is not in docs/serve.md");
    }
}

#[test]
fn pairs_columns_numbers_labels_and_trees_are_asked_for_as_they_are_trained() {
    let place = Place::new();
    let words = ["good", "kind", "poor", "stale"];
    let word = |i: usize| words[i * 7 / 3 % 4];
    let rows = |header: &str, row: &dyn Fn(usize) -> String| {
        format!("{header}\n{}", (0..240).map(|i| row(i) + "\n").collect::<String>())
    };
    let kind = |i: usize| ["kind", "unkind"][usize::from(i * 7 / 3 % 4 > 1)];
    place.write(
        "pairs.csv",
        rows("premise,hypothesis,label", &|i| format!("Meal {i} was {}.,It was {}.,{}", word(i), word(i / 5), kind(i))),
    );
    place.write(
        "columns.csv",
        rows("text,price,label", &|i| {
            format!(
                "Meal {i}.,{},{}",
                if i % 3 == 0 { 300 + i } else { 3000 + i },
                ["cheap", "dear"][usize::from(i % 3 > 0)]
            )
        }),
    );
    place.write("numbers.csv", rows("text,rating", &|i| format!("Meal {i} was {}.,{}", word(i), 1 + i * 7 / 3 % 4)));
    place.write("labels.csv", rows("text,label", &|i| format!("Meal {i} was {}.,{}|{}", word(i), kind(i), word(i))));
    place.write("tree.csv", rows("text,label", &|i| format!("Meal {i} was {}.,{}/{}", word(i), kind(i), word(i))));
    for (name, more) in [
        ("pairs", &["--model", "ngrams"][..]),
        ("columns", &["--model", "ngrams", "--columns", "price"]),
        ("numbers", &["--epochs", "1"]),
        ("labels", &["--epochs", "1", "--separator", "|"]),
        ("tree", &["--model", "ngrams"]),
    ] {
        place.run(&[&["train", &format!("{name}.csv"), "--out", name], more].concat()).ok();
    }
    let server = Server::start(&place, &["pairs", "columns", "numbers", "labels", "tree"]);
    let printed = |args: &[&str]| place.run(&[args, &["--json"]].concat()).ok().stdout.trim_end().to_owned();
    let text = "Meal 5 was kind.";
    for (model, inputs, columns, args) in [
        ("pairs", json!([text, "It was good."]), Value::Null, vec![text, "It was good."]),
        ("pairs", json!([[text, "It was good."]]), Value::Null, vec![text, "It was good."]),
        ("columns", json!(text), json!({ "price": 310 }), vec![text, "--set", "price=310"]),
        ("columns", json!(text), json!({ "price": "3100" }), vec![text, "--set", "price=3100"]),
        ("numbers", json!(text), Value::Null, vec![text]),
        ("labels", json!(text), Value::Null, vec![text]),
        ("tree", json!(text), Value::Null, vec![text]),
    ] {
        let is_many = inputs[0].is_array();
        let body = json!({ "inputs": inputs, "columns": columns, "model": model, "full": true });
        let expected = printed(&[&["predict", model], &args[..]].concat());
        let expected = if is_many { format!("[{expected}]") } else { expected };
        let reply = server.post("/predict", &body);
        assert_eq!((reply.status, &*reply.body), (200, &*expected), "{body}");
    }
    for model in ["pairs", "tree"] {
        let inputs = if model == "pairs" { json!([text, "It was good."]) } else { json!(text) };
        let args = if model == "pairs" { vec![text, "It was good."] } else { vec![text] };
        let body = json!({ "inputs": inputs, "model": model, "full": true, "abstain": 0.6 });
        let expected = printed(&[&["predict", model, "--abstain", "0.6"], &args[..]].concat());
        assert!(expected.contains("abstained"), "{expected}");
        assert_eq!(server.post("/predict", &body).body, expected);
    }
    let found = server.asks("/models/columns/explain", &json!({ "inputs": text, "columns": { "price": 310 } }));
    let expected: Value = serde_json::from_str(
        &place.run(&["explain", "columns", text, "--set", "price=310", "--json", "-"]).ok().stdout,
    )
    .unwrap();
    assert_eq!(found, expected);
    // In the form of text-embeddings-inference.
    let number: Value = serde_json::from_str(&printed(&["predict", "numbers", text])).unwrap();
    assert_eq!(
        server.asks("/models/numbers/predict", &json!({ "inputs": text })),
        json!([{ "label": "score", "score": number["score"] }])
    );
    let labels = server.asks("/models/labels/predict", &json!({ "inputs": text }));
    let raw = server.asks("/models/labels/predict", &json!({ "inputs": text, "raw_scores": true }));
    assert_eq!(labels.as_array().unwrap().len(), 5, "{labels}");
    for (label, raw) in labels.as_array().unwrap().iter().zip(raw.as_array().unwrap()) {
        let odds = raw["score"].as_f64().unwrap().exp();
        assert!((odds / (1.0 + odds) - label["score"].as_f64().unwrap()).abs() < 1e-4, "{label} {raw}");
    }
    for (model, inputs) in
        [("pairs", json!(text)), ("pairs", json!([[text], [text, "It was good."]])), ("tree", json!([[text, text]]))]
    {
        server.refuses("/predict", &json!({ "inputs": inputs, "model": model }), 422, "Validation");
    }
    for columns in [json!({ "shop": "Ginza" }), json!({ "price": "many" }), json!({ "price": [1] }), json!(3)] {
        server.refuses("/models/columns/predict", &json!({ "inputs": text, "columns": columns }), 422, "Validation");
    }
    server.refuses(
        "/models/numbers/predict",
        &json!({ "inputs": text, "full": true, "abstain": 0.9 }),
        422,
        "Validation",
    );
    server.refuses("/models/numbers/predict", &json!({ "inputs": text, "full": true, "top": 2 }), 422, "Validation");
}
