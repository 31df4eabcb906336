//! Invalid requests are rejected with a status and a reason.

use crate::common::TestDir;
use crate::serve::{ALL_MODELS, place};
use crate::service::{Server, read_reply, request};
use serde_json::json;
use std::io::Write;
use std::time::Duration;

#[test]
fn invalid_requests_are_rejected_with_a_reason() {
    let place = place();
    let limits = ["--max-body", "5000", "--max-texts", "3", "--max-chars", "100", "--max-new-tokens", "20"];
    let server = Server::start(place, &[&ALL_MODELS[..], &limits].concat());
    let text = json!({ "inputs": "good" });
    server.get("/nothing").assert_error(404, "NotFound");
    server.post_rejected("/models/nobody/predict", &text, 404, "NotFound");
    server.post_rejected("/predict", &json!({ "inputs": "good", "model": "nobody" }), 404, "NotFound");
    server.get("/predict").assert_error(405, "Validation");
    server.post_rejected("/info", &text, 405, "Validation");
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
        ("/explain", json!({ "inputs": "a", "span": { "start": 0, "end": 1 }, "model": "reviews" })),
        ("/explain", json!({ "inputs": "a", "span": "0:1", "model": "names" })),
        ("/explain", json!({ "inputs": "a", "span": { "start": 0, "end": -1 }, "model": "names" })),
        ("/explain", json!({ "inputs": "a", "span": { "start": 0, "end": 1, "label": 3 }, "model": "names" })),
        ("/explain", json!({ "inputs": "a", "span": { "start": 0, "end": 9 }, "model": "names" })),
        ("/explain", json!({ "inputs": "a", "span": { "start": 0, "end": 1, "label": "planet" }, "model": "names" })),
        ("/explain", json!({ "inputs": "a", "method": "integrated-gradients", "model": "ngrams" })),
        ("/explain", json!({ "inputs": "a", "patch": 3, "model": "reviews" })),
        ("/explain", json!({ "inputs": "a", "patch": ["b", "c"], "model": "reviews" })),
        ("/explain", json!({ "inputs": "a", "patch": "a", "model": "reviews" })),
        ("/explain", json!({ "inputs": "a", "patch": "b", "align": "1-2:1", "model": "reviews" })),
        ("/explain", json!({ "inputs": "a", "patch": "b", "align": "999:1", "model": "reviews" })),
        ("/explain", json!({ "inputs": "a", "align": "1:1", "model": "reviews" })),
        ("/explain", json!({ "inputs": "a", "lens": "yes", "model": "reviews" })),
        ("/explain", json!({ "inputs": "a", "lens": true, "model": "ngrams" })),
        ("/explain", json!({ "inputs": "a", "patch": "b", "model": "bert" })),
        ("/explain", json!({ "inputs": "a", "patch": "b", "model": "names" })),
        ("/embed", json!({ "inputs": "good", "prompt_name": "query" })),
        ("/v1/embeddings", json!({ "input": "good", "encoding_format": "hex" })),
        ("/v1/embeddings", json!({ "input": "good", "dimensions": 8 })),
        ("/translate", json!({ "inputs": "a", "n_best": 9 })),
        ("/translate", json!({ "inputs": "a", "beam": -1 })),
        ("/translate", json!({ "inputs": "a", "length_penalty": 1e308 })),
        ("/translate", json!({ "inputs": "a", "length_penalty": -1e308 })),
        ("/explain", json!({ "inputs": "a", "label": "positive", "model": "reviews" })),
        ("/explain", json!({ "inputs": "a", "label": "x", "model": "book" })),
        ("/generate", json!({})),
        ("/generate", json!({ "inputs": null })),
        ("/generate", json!({ "inputs": "a", "max_tokens": 21 })),
        ("/generate", json!({ "inputs": "a", "temperature": -1 })),
        ("/generate", json!({ "inputs": "a", "system": "be kind" })),
    ] {
        server.post_rejected(path, &body, 422, "Validation");
    }
    let both = json!({ "inputs": "a", "system": "be kind", "no_chat": true });
    assert!(server.post_rejected("/generate", &both, 422, "Validation").body.contains("no_chat"));
    server.post_json("/v1/embeddings", &json!({ "input": "good", "dimensions": 16 }));
    // A model name in the path must exist; one in the body, which clients of OpenAI's interface must send, need not.
    let named = json!({ "input": "good", "model": "nobody" });
    let reply = server.post_rejected("/models/nobody/v1/embeddings", &named, 404, "NotFound");
    assert_eq!(reply.json()["error"]["code"], 404);
    assert_eq!(server.post_json("/v1/embeddings", &named), server.post_json("/models/bert/v1/embeddings", &named));
    server.post_rejected("/models/%FF/predict", &text, 404, "NotFound");
    server.post_rejected("/models/50%/predict", &text, 404, "NotFound");
    for inputs in [json!([]), json!(""), json!(["good", ""]), json!(" \t\n"), json!(["good", "\u{3000}"])] {
        for path in ["/predict", "/embed", "/explain"] {
            server.post_rejected(path, &json!({ "inputs": inputs }), 400, "Empty");
        }
    }
    let reply = server.post_rejected("/predict", &json!({ "inputs": ["good", " "] }), 400, "Empty");
    assert!(reply.body.contains("text 2 of 2 is empty"), "{reply:?}");
    server.post_rejected("/predict", &json!({ "inputs": ["a", "b", "c", "d"] }), 413, "Validation");
    server.post_rejected("/predict", &json!({ "inputs": "x".repeat(101) }), 413, "Validation");
    assert_eq!(server.post("/predict", &json!({ "inputs": "あ".repeat(100) })).status, 200);
    for (path, model) in [
        ("/predict", "bert"),
        ("/embed", "reviews"),
        ("/translate", "book"),
        ("/generate", "names"),
        ("/tokenize", "ngrams"),
    ] {
        server.post_rejected(path, &json!({ "inputs": "good", "model": model }), 424, "Backend");
    }
    // A translation that is too long is the client's error, not the model's.
    let long = |times: usize| json!({ "inputs": "number 7", "target": "7 ".repeat(times) });
    let wide = Server::start(place, &["numbers"]);
    assert_eq!(wide.post("/explain", &long(1)).status, 200);
    assert!(wide.post_rejected("/explain", &long(9000), 413, "Validation").body.contains("target: "));
    // An alignment is refused before the translation is explained.
    let mut patched = long(9000);
    (patched["patch"], patched["align"]) = ("number 8".into(), "99:1".into());
    assert!(wide.post_rejected("/explain", &patched, 422, "Validation").body.contains("align: "));
    // Texts of different lengths: the error proposes the field, not the flag.
    for model in ["reviews", "book"] {
        let body = json!({ "inputs": "the cat", "patch": "the", "model": model });
        let reply = server.post_rejected("/explain", &body, 422, "Validation");
        let message = reply.json()["error"].as_str().unwrap().to_owned();
        assert!(message.contains("\"align\": \"1") && !message.contains("--"), "{message}");
    }
    patched.as_object_mut().unwrap().remove("align");
    assert!(wide.post_rejected("/explain", &patched, 413, "Validation").body.contains("target: "));
    // Longer than the encoder reads.
    let long = "good ".repeat(20);
    server.post_rejected("/embed", &json!({ "inputs": long }), 413, "Validation");
    assert_eq!(server.post("/embed", &json!({ "inputs": long, "truncate": true })).status, 200);
    let reply = server.post("/v1/embeddings", &json!({ "input": long, "model": "bert" }));
    assert!(reply.status == 413 && reply.body.contains("input: a text is longer"), "{reply:?}");
    assert!(!reply.body.contains("truncate"), "{reply:?}");
    // Invalid JSON, and invalid text.
    let deep = format!("{{\"inputs\": {}{}}}", "[".repeat(1000), "]".repeat(1000));
    for body in [b"{\"inputs\": \"\xff\xfe\"}".as_slice(), b"{\"inputs\": ", b"inputs=good", deep.as_bytes(), b""] {
        let reply = server.send(&request("/predict", body)).assert_error(400, "Validation");
        assert!(!reply.body.contains("good"), "{reply:?}");
    }
    for (body, reason) in
        [(&br#"{"inputs": "\ud800"}"#[..], "unpaired surrogate"), (br#"{"inputs": 1e400}"#, "too large")]
    {
        let reply = server.send(&request("/predict", body)).assert_error(400, "Validation");
        assert!(reply.body.contains(reason), "{reply:?}");
    }
    server.send(&request("/predict", b"[\"good\"]")).assert_error(422, "Validation");
    let plain = String::from_utf8(request("/predict", b"{}")).unwrap().replace("application/json", "text/plain");
    server.send(plain.as_bytes()).assert_error(415, "Validation");
    // Too large, with and without a declared length.
    server.send(&request("/predict", &[b' '; 5001])).assert_error(413, "Validation");
    let chunks = format!("{:x}\r\n{}\r\n", 4000, " ".repeat(4000)).repeat(3);
    let head = "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    server.send(format!("{head}{chunks}0\r\n\r\n").as_bytes()).assert_error(413, "Validation");
    let announced = head.replace("Transfer-Encoding: chunked", "Content-Length: 99999999999");
    server.send(announced.as_bytes()).assert_error(413, "Validation");
    assert_eq!(server.send(b"NONSENSE\r\n\r\n").status, 400);
    assert_eq!(server.send(format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(200_000)).as_bytes()).status, 431);
    // A page on another host name that resolves to this machine.
    for host in
        ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost:evil.example", "[::1]evil.example"]
    {
        server.send(format!("GET /info HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).assert_error(403, "Validation");
    }
    server.send(b"GET /info HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n").assert_error(400, "Validation");
    server.send(b"GET /info HTTP/1.1\r\n\r\n").assert_error(400, "Validation");
    assert_eq!(server.send(b"GET /info HTTP/1.0\r\n\r\n").status, 200);
    // A body with an unsupported encoding.
    let body = "12\r\n{\"inputs\": \"good\"}\r\n0\r\n\r\n";
    assert_eq!(server.send(format!("{head}{body}").as_bytes()).status, 200);
    for coding in ["gzip, chunked", "chunked\r\nTransfer-Encoding: chunked", "chunked, chunked"] {
        let coded = head.replace("Encoding: chunked", &format!("Encoding: {coding}"));
        server.send(format!("{coded}{body}").as_bytes()).assert_error(501, "Validation");
    }
    let reply = server.send(b"OPTIONS /predict HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n");
    assert!(reply.status == 405 && !reply.head.to_lowercase().contains("access-control"), "{reply:?}");
    // All of this produced only log lines without any text.
    assert_eq!(server.post("/predict", &text).status, 200);
    server.wait_for_line("POST /predict 200 model=reviews texts=1");
    assert!(server.output_lines().iter().all(|line| !line.contains("good")), "{:#?}", server.output_lines());
}

#[test]
fn a_connection_continues_after_a_refusal_or_announces_its_end() {
    let server = Server::start(place(), &["ngrams", "--max-body", "5000"]);
    let sound = request("/predict", b"{\"inputs\": \"good\"}");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let typed = text(sound.clone()).replace("application/json", "text/plain");
    let elsewhere = text(sound.clone()).replace("localhost", "evil.example");
    for (bytes, status) in [
        (request("/predict", b"{\"inputs\": 3}"), 422),
        (request("/predict", b"{"), 400),
        (request("/nothing", b"{}"), 404),
        (request("/info", b"{}"), 405),
        (typed.into_bytes(), 415),
        (elsewhere.into_bytes(), 403),
        (request("/predict", &[b' '; 5001]), 413),
        (b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), 404),
    ] {
        let mut stream = server.connect();
        let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        stream.write_all(&bytes[..head]).unwrap();
        // The request decides whether its body is read, not the timing.
        std::thread::sleep(Duration::from_millis(20));
        let _ = stream.write_all(&bytes[head..]);
        let reply = read_reply(&mut stream).unwrap_or_else(|| panic!("no answer instead of {status}"));
        assert_eq!(reply.status, status, "{reply:?}");
        if reply.head.to_lowercase().contains("connection: close") {
            assert!([403, 404, 405, 413, 415].contains(&status) && head < bytes.len(), "{reply:?}");
        } else {
            stream.write_all(&sound).unwrap();
            assert_eq!(read_reply(&mut stream).unwrap_or_else(|| panic!("no answer after {status}")).status, 200);
        }
    }
}

#[test]
fn names_in_paths_are_percent_decoded() {
    let server = Server::start(place(), &["映画 1=ngrams", "50%=names"]);
    let text = json!({ "inputs": "good" });
    assert_eq!(server.post("/models/%E6%98%A0%E7%94%BB%201/predict", &text).status, 200);
    assert_eq!(server.post("/models/50%25/predict", &text).status, 200);
    server.wait_for_line("model=映画 1 texts=1");
}

#[test]
fn feature_columns_have_the_limits_of_texts() {
    let place = TestDir::new();
    let row = |i: usize| format!("Meal {i}.,{},{}\n", 300 + i % 2 * 900, ["cheap", "dear"][i % 2]);
    place.write("columns.csv", format!("text,price,label\n{}", (0..90).map(row).collect::<String>()));
    place
        .run(&["train", "columns.csv", "--out", "columns", "--model", "ngrams", "--columns", "price"])
        .assert_success();
    let server = Server::start(&place, &["columns", "--max-chars", "1000", "--max-body", "20000"]);
    let ask = |texts: usize, digits: usize| {
        let inputs: Vec<[&str; 1]> = vec![["Meal."]; texts];
        let body = json!({ "inputs": inputs, "columns": { "price": format!("{:0>digits$}", 300) } });
        server.post("/predict", &body)
    };
    assert_eq!(ask(20, 1000).status, 200);
    assert!(ask(1, 1001).assert_error(413, "Validation").body.contains("--max-chars"));
    assert!(ask(21, 1000).assert_error(413, "Validation").body.contains("--max-body"));
}

#[test]
fn a_failing_model_rejects_and_continues() {
    let place = TestDir::new();
    place.copy_folder(&self::place().path("bert"), "bert");
    // Finite weights whose products are not finite.
    let mut bytes = std::fs::read(place.path("bert/model.safetensors")).unwrap();
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[header..].chunks_exact_mut(4).for_each(|four| four.copy_from_slice(&3e38f32.to_le_bytes()));
    place.write("bert/model.safetensors", bytes);
    let server = Server::start(&place, &["bert"]);
    for _ in 0..2 {
        server.post_rejected("/embed", &json!({ "inputs": "good film" }), 424, "Backend");
        assert_eq!(server.post("/tokenize", &json!({ "inputs": "good film" })).status, 200);
    }
}
