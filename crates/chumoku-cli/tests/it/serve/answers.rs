//! The service gives the same answers as the commands, for single and concurrent requests.

use crate::common::{TestDir, next_random, reviews, wait_until};
use crate::serve::{ALL_MODELS, place, run_json};
use crate::service::{Server, read_reply, request};
use serde_json::{Value, json};
use std::io::Write;

/// Patching and the logit lens, in numbers and on the page.
fn check_inner_steps(server: &Server) {
    for (model, text, other, align) in [
        ("reviews", "the film was good", "the film was bad", "1-4:1-4"),
        ("book", "the cat saw", "the dog saw", "1:1,3:3"),
        ("numbers", "number 7", "number 8", "1-2:1-2"),
    ] {
        let mut args = vec!["explain", model, text, "--patch", other, "--align", align, "--json", "-"];
        let mut body = json!({ "inputs": text, "patch": other, "align": align, "lens": true, "model": model });
        if model == "numbers" {
            // The model translates alike what it has hardly learned.
            args.extend(["--target", "nom"]);
            body["target"] = "nom".into();
        }
        let printed = run_json(&args);
        let found = server.post_json("/explain", &body);
        assert_eq!(found, printed[0], "{model}");
        assert_eq!(found["patching"]["other"], other, "{model}");
        assert_eq!(found["patching"]["decoder"]["cross_heads"].is_array(), model == "numbers", "{model}");
        assert!(found["lens"]["depths"].as_array().is_some_and(|depths| depths.len() > 1), "{model}");
        body["lens"] = false.into();
        let without = server.post_json("/explain", &body);
        assert_eq!((&without["lens"], &without["patching"]), (&Value::Null, &found["patching"]), "{model}");
        body["html"] = true.into();
        let page = server.post("/explain", &body);
        assert!(page.status == 200 && page.body.contains("\"patching\":{") && !page.body.contains("\"lens\":{"));
    }
}

#[test]
fn every_answer_matches_the_command() {
    let place = place();
    let server = Server::start(place, &ALL_MODELS);
    let text = "Slow, cold and not worth the money.";
    // Objects of `predict --json`, byte for byte.
    for model in ["reviews", "ngrams", "names"] {
        let printed = place.run(&["predict", model, text, "Anna waits in Oslo", "--json"]).assert_success().stdout;
        let body = json!({ "inputs": [[text], ["Anna waits in Oslo"]], "full": true, "model": model });
        let reply = server.post("/predict", &body);
        assert_eq!(reply.body, format!("[{}]", printed.trim_end().replace('\n', ",")));
        let one = server.post(&format!("/models/{model}/predict"), &json!({ "inputs": text, "full": true }));
        assert_eq!(one.body, printed.lines().next().unwrap());
    }
    let printed = run_json(&["predict", "reviews", text, "--json", "--top", "2"]);
    assert_eq!(server.post_json("/predict", &json!({ "inputs": text, "full": true, "top": 2 })), printed[0]);
    // The format of text-embeddings-inference.
    let labels: Vec<Value> = printed[0]["top"]
        .as_array()
        .unwrap()
        .iter()
        .map(|class| json!({ "label": class["label"], "score": class["probability"] }))
        .collect();
    assert_eq!(server.post_json("/predict", &json!({ "inputs": text })), Value::from(labels.clone()));
    assert_eq!(server.post_json("/predict", &json!({ "inputs": [text] })), Value::from(labels.clone()));
    assert_eq!(server.post_json("/predict", &json!({ "inputs": [[text], [text]] })), json!([labels, labels]));
    assert_eq!(server.post_json("/predict", &json!({ "inputs": [text, text] })), json!([labels, labels]));
    let raw = server.post_json("/predict", &json!({ "inputs": text, "raw_scores": true }));
    let p = |all: &Value, at: usize| all[at]["score"].as_f64().unwrap();
    for (at, label) in labels.iter().enumerate() {
        assert!((p(&raw, at).exp() - label["score"].as_f64().unwrap()).abs() < 1e-4, "{raw}");
    }
    let spans = run_json(&["predict", "names", "Anna waits in Oslo", "--json"]);
    let found = server.post_json("/models/names/predict", &json!({ "inputs": "Anna waits in Oslo" }));
    let span = &spans[0]["spans"][0];
    let as_entity = json!({ "entity_group": span["label"], "score": span["probability"], "word": span["text"], "start": span["start"], "end": span["end"] });
    assert_eq!(found[0], as_entity);
    // Explanations, for each kind of model that supports them.
    for model in ["reviews", "ngrams", "bert", "numbers", "book"] {
        let printed = run_json(&["explain", model, "the film was good", "--json", "-"]);
        assert_eq!(
            server.post_json("/explain", &json!({ "inputs": "the film was good", "model": model })),
            printed[0],
            "{model}"
        );
    }
    let printed = run_json(&["explain", "reviews", text, "--json", "-", "--method", "integrated-gradients"]);
    assert_eq!(server.post_json("/explain", &json!({ "inputs": text, "method": "integrated-gradients" })), printed[0]);
    let printed = run_json(&["explain", "bert", "good film", "--target", "bad film", "--json", "-"]);
    let body = json!({ "inputs": "good film", "target": "bad film", "model": "bert" });
    assert_eq!(server.post_json("/explain", &body), printed[0]);
    let text = "Anna waits in Oslo";
    let printed = run_json(&["explain", "names", text, "--json", "-"]);
    assert_eq!(server.post_json("/explain", &json!({ "inputs": text, "model": "names" })), printed[0]);
    let printed = run_json(&["explain", "names", text, "--span", "5:10:place", "--json", "-"]);
    let span = json!({ "start": 5, "end": 10, "label": "place" });
    assert_eq!(server.post_json("/explain", &json!({ "inputs": text, "model": "names", "span": span })), printed[0]);
    assert_eq!(printed[0]["spans"][0]["text"], "waits");
    // The answer for a long text would repeat each of its words for each of its spans.
    let long = "Anna waits in Oslo. ".repeat(150);
    let refused = server.post_rejected("/explain", &json!({ "inputs": long, "model": "names" }), 413, "Validation");
    assert!(refused.body.contains("effects of words on spans"), "{refused:?}");
    let one = server.post_json("/explain", &json!({ "inputs": long, "model": "names", "span": span }));
    assert_eq!(one["spans"].as_array().unwrap().len(), 1);
    check_inner_steps(&server);
    // Vectors.
    let texts = ["the film was good", "映画"];
    let printed = run_json(&["embed", "bert", texts[0], texts[1]]);
    let vectors = server.post_json("/embed", &json!({ "inputs": texts }));
    assert_eq!(vectors, json!([printed[0]["embedding"], printed[1]["embedding"]]));
    assert_eq!(server.post_json("/embed", &json!({ "inputs": texts[0] })), json!([printed[0]["embedding"]]));
    let plain = run_json(&["embed", "bert", texts[0], "--no-normalize"]);
    assert_eq!(
        server.post_json("/embed", &json!({ "inputs": texts[0], "normalize": false })),
        json!([plain[0]["embedding"]])
    );
    let openai = server.post_json("/v1/embeddings", &json!({ "input": texts, "model": "text-embedding-3-small" }));
    assert_eq!((&openai["data"][1]["embedding"], &openai["data"][1]["index"]), (&vectors[1], &json!(1)));
    assert_eq!((&openai["object"], &openai["model"]), (&json!("list"), &json!("bert")));
    let tokens = server.post_json("/tokenize", &json!({ "inputs": texts, "model": "bert" }));
    let count: usize = tokens.as_array().unwrap().iter().map(|tokens| tokens.as_array().unwrap().len()).sum();
    assert_eq!(openai["usage"]["prompt_tokens"], count);
    let packed = server.post_json("/v1/embeddings", &json!({ "input": texts[1], "encoding_format": "base64" }));
    assert_eq!(
        floats(packed["data"][0]["embedding"].as_str().unwrap()),
        vectors[1].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect::<Vec<_>>()
    );
    // Tokens.
    assert_eq!(tokens[1][0], json!({ "id": 2, "text": "[CLS]", "special": true, "start": null, "stop": null }));
    assert_eq!(tokens[1][2], json!({ "id": 13, "text": "画", "special": false, "start": 1, "stop": 2 }));
    let body = json!({ "inputs": text, "model": "reviews", "add_special_tokens": false });
    let tokens = server.post_json("/tokenize", &body);
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
    let printed = run_json(&[
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
    assert_eq!(server.post_json("/translate", &body), Value::from(printed));
    // Generated texts, whole and streamed.
    let printed = run_json(&["generate", "book", "the cat", "--max-tokens", "12", "--seed", "5", "--json"]);
    let mut body = json!({ "inputs": "the cat", "max_tokens": 12, "seed": 5 });
    assert_eq!(server.post_json("/generate", &body), printed[0]);
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

/// Decodes the base64 numbers.
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
fn concurrent_requests_get_the_same_answers_as_single_ones() {
    let place = place();
    let server = Server::start(place, &[&ALL_MODELS[..], &["--log", "off"]].concat());
    let mut state = 7;
    let texts: Vec<String> = reviews(40).into_iter().map(|(text, _)| text).collect();
    let mut calls: Vec<(&str, Value)> = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        let part =
            |share: f64| text.chars().take(1 + (share * text.chars().count() as f64) as usize).collect::<String>();
        calls.push(("/predict", json!({ "inputs": part(next_random(&mut state)), "full": true })));
        calls.push((
            "/models/ngrams/predict",
            json!({ "inputs": [part(next_random(&mut state)), part(0.5)], "full": true }),
        ));
        calls.push(("/embed", json!({ "inputs": [part(0.3), part(next_random(&mut state))], "truncate": true })));
        match at % 8 {
            0 => calls.push(("/translate", json!({ "inputs": format!("number {at}"), "beam": 2 }))),
            1 => calls.push(("/models/reviews/explain", json!({ "inputs": part(0.2) }))),
            2 => calls.push(("/tokenize", json!({ "inputs": text }))),
            3 => calls.push(("/generate", json!({ "inputs": "the", "max_tokens": 5, "seed": at }))),
            // An invalid text between valid ones.
            4 => calls.push(("/predict", json!({ "inputs": [text, ""] }))),
            // Requests with other options, which must not share a batch.
            5 => calls.push(("/embed", json!({ "inputs": part(0.1), "truncate": true, "normalize": false }))),
            6 => calls.push(("/embed", json!({ "inputs": text.repeat(3) }))),
            7 => calls.push(("/translate", json!({ "inputs": format!("number {at}"), "beam": 1 }))),
            _ => {}
        }
    }
    let alone: Vec<String> = calls.iter().map(|(path, body)| server.post(path, body).body).collect();
    let ask_at_once = || {
        std::thread::scope(|scope| {
            for client in 0..16 {
                let (server, calls, alone) = (&server, &calls, &alone);
                scope.spawn(move || {
                    let mut stream = server.connect();
                    for turn in 0..calls.len() {
                        let at = (turn * 7 + client * 11) % calls.len();
                        stream.write_all(&request(calls[at].0, calls[at].1.to_string().as_bytes())).unwrap();
                        let reply = read_reply(&mut stream).unwrap();
                        assert_eq!(reply.body, alone[at], "{:?}", calls[at]);
                    }
                });
            }
        });
        16 * calls.len() as u64
    };
    // Repeats until some were batched, otherwise the test shows nothing; how many depends on the machine.
    let (batches, mut requests) = (|| server.metric("chumoku_batch_texts_count"), 0);
    let before = batches();
    wait_until("requests that are computed together", || {
        requests += ask_at_once();
        batches() - before + 50 < requests
    });
    // Single answers match the command.
    for (at, (path, body)) in calls.iter().enumerate().filter(|(_, (path, _))| *path == "/predict").take(3) {
        let printed =
            place.run(&["predict", "reviews", body["inputs"].as_str().unwrap(), "--json"]).assert_success().stdout;
        assert_eq!(alone[at], printed.trim_end(), "{path}");
    }
}

#[test]
fn pairs_columns_numbers_labels_and_trees_are_requested_as_trained() {
    let place = TestDir::new();
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
        place.run(&[&["train", &format!("{name}.csv"), "--out", name], more].concat()).assert_success();
    }
    let server = Server::start(&place, &["pairs", "columns", "numbers", "labels", "tree"]);
    let printed =
        |args: &[&str]| place.run(&[args, &["--json"]].concat()).assert_success().stdout.trim_end().to_owned();
    // The thresholds of a number are not labels of an answer.
    let info = server.get("/info").json();
    let kind = |model: &str| {
        let mut models = info["models"].as_array().unwrap().iter();
        models.find(|entry| entry["model_id"] == model).unwrap_or_else(|| panic!("{info}"))["model_type"].clone()
    };
    assert!(!kind("numbers").to_string().contains("id2label") && kind("tree").to_string().contains("id2label"));
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
    let found = server.post_json("/models/columns/explain", &json!({ "inputs": text, "columns": { "price": 310 } }));
    let expected: Value = serde_json::from_str(
        &place.run(&["explain", "columns", text, "--set", "price=310", "--json", "-"]).assert_success().stdout,
    )
    .unwrap();
    assert_eq!(found, expected);
    // In the format of text-embeddings-inference.
    let number: Value = serde_json::from_str(&printed(&["predict", "numbers", text])).unwrap();
    assert_eq!(
        server.post_json("/models/numbers/predict", &json!({ "inputs": text })),
        json!([{ "label": "score", "score": number["score"] }])
    );
    let labels = server.post_json("/models/labels/predict", &json!({ "inputs": text }));
    let raw = server.post_json("/models/labels/predict", &json!({ "inputs": text, "raw_scores": true }));
    assert_eq!(labels.as_array().unwrap().len(), 5, "{labels}");
    for (label, raw) in labels.as_array().unwrap().iter().zip(raw.as_array().unwrap()) {
        let odds = raw["score"].as_f64().unwrap().exp();
        assert!((odds / (1.0 + odds) - label["score"].as_f64().unwrap()).abs() < 1e-4, "{label} {raw}");
    }
    for (model, inputs) in
        [("pairs", json!(text)), ("pairs", json!([[text], [text, "It was good."]])), ("tree", json!([[text, text]]))]
    {
        server.post_rejected("/predict", &json!({ "inputs": inputs, "model": model }), 422, "Validation");
    }
    for columns in [json!({ "shop": "Ginza" }), json!({ "price": "many" }), json!({ "price": [1] }), json!(3)] {
        server.post_rejected(
            "/models/columns/predict",
            &json!({ "inputs": text, "columns": columns }),
            422,
            "Validation",
        );
    }
    server.post_rejected(
        "/models/numbers/predict",
        &json!({ "inputs": text, "full": true, "abstain": 0.9 }),
        422,
        "Validation",
    );
    server.post_rejected(
        "/models/numbers/predict",
        &json!({ "inputs": text, "full": true, "top": 2 }),
        422,
        "Validation",
    );
}
