//! Information about the service: pages, metrics, the log, its documentation, API keys, and models that cannot be
//! served.

use crate::common::wait_until;
use crate::serve::place;
use crate::service::{Server, TIMEOUT, read_reply, request};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Instant;

#[test]
fn pages_describe_the_service() {
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
        // Every listed endpoint exists.
        let status = if method == "GET" { server.get(path).status } else { server.post(path, &json!({})).status };
        assert!([200, 422, 424].contains(&status), "{path}: {status}");
    }
    server.post_json("/predict", &json!({ "inputs": "good", "model": "judge" }));
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("chumoku_requests_total{path=\"/predict\",status=\"200\"} 1\n"), "{metrics}");
    let queues: Vec<&str> = metrics.lines().filter_map(|line| line.strip_prefix("chumoku_queue_length")).collect();
    assert_eq!(queues, ["{model=\"reviews\"} 0", "{model=\"judge\"} 0", "{model=\"bert\"} 0"]);
    // All these requests computed one text.
    assert_eq!((server.metric("chumoku_batch_texts_count"), server.metric("chumoku_batch_texts_sum")), (1, 1));
    // Examples use the host that the page was requested from.
    let page = server.send(b"GET /docs HTTP/1.1\r\nHost: LOCALHOST:4711\r\n\r\n").body;
    assert!(page.contains("curl http://LOCALHOST:4711/predict ") && !page.contains("Bearer"), "{page}");
}

#[test]
fn the_log_reports_each_finished_request() {
    let server = Server::start(place(), &["book", "ngrams", "--max-new-tokens", "1000000000"]);
    let log = |word: &str| server.output_lines().into_iter().filter(|line| line.contains(word)).count();
    // A thousand tokens take more than the 0.1 ms that the log rounds to.
    let mut body = json!({ "inputs": "the", "max_tokens": 1_000, "stream": true });
    assert_eq!(server.post("/generate", &body).status, 200);
    let line = server.wait_for_line("POST /generate 200 model=book texts=1 queue=");
    let milliseconds = |line: &str, name: &str| {
        let (_, rest) = line.split_once(&format!(" {name}=")).unwrap();
        rest.split_once("ms").unwrap().0.parse::<f64>().unwrap()
    };
    assert!(milliseconds(&line, "compute") > 0.0 && !line.contains("aborted"), "{line}");
    // A stream is logged when it ends; here its client disconnects.
    body["max_tokens"] = 1_000_000_000.into();
    let mut stream = server.connect();
    stream.write_all(&request("/generate", body.to_string().as_bytes())).unwrap();
    stream.read_exact(&mut [0; 100]).unwrap();
    let begun = Instant::now();
    assert_eq!(log("POST /generate"), 1);
    assert!(server.metric("chumoku_requests_in_flight") >= 2);
    let least = begun.elapsed().as_secs_f64() * 1e3;
    drop(stream);
    let line = server.wait_for_line("aborted");
    assert!(line.contains("POST /generate 200 model=book texts=1 "), "{line}");
    assert!(milliseconds(&line, "compute") >= least - 0.1, "{least}: {line}");
    // A client's made-up method does not fill the log.
    server
        .send(format!("{} / HTTP/1.1\r\nHost: localhost\r\n\r\n", "M".repeat(3000)).as_bytes())
        .assert_error(405, "Validation");
    assert!(server.wait_for_line("MMMM").len() < 100);
}

#[cfg(unix)]
#[test]
fn without_a_request_log_only_events_are_logged() {
    let mut server = Server::start(place(), &["ngrams", "--log", "off"]);
    server.post_json("/predict", &json!({ "inputs": "good" }));
    server.get("/nothing").assert_error(404, "NotFound");
    server.send_signal("HUP");
    server.wait_for_line("unchanged");
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit(), 0);
    let output = server.output_lines();
    assert!(output.iter().any(|line| line.starts_with("ending")), "{output:#?}");
    assert!(output.iter().all(|line| !line.contains("/predict") && !line.contains("404")), "{output:#?}");
}

#[cfg(unix)]
#[test]
fn a_slow_log_reader_blocks_nothing() {
    let mut command = place().command(&["serve", "ngrams", "--port", "0", "--log", "json"]);
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    // Reads one line, then no more.
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    log.read_line(&mut line).unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    let address = line["url"].as_str().unwrap().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let asks = |stream: &mut TcpStream| {
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        assert_eq!(read_reply(stream).expect("an answer").status, 200);
    };
    // More than a pipe holds and the service buffers.
    (0..4000).for_each(|_| asks(&mut stream));
    // When reading resumes, the log reports the number of missing lines and continues.
    let lines: Arc<Mutex<Vec<Value>>> = Arc::default();
    let (kept, all) = (lines.clone(), log.lines().map_while(Result::ok));
    let reader = std::thread::spawn(move || {
        all.for_each(|line| kept.lock().unwrap().push(serde_json::from_str(&line).unwrap()));
    });
    let report = || {
        let lines = lines.lock().unwrap();
        let of = |event: &str| lines.iter().filter(|line| line["event"] == event).cloned().collect::<Vec<Value>>();
        (of("request").len() as u64, of("dropped").iter().filter_map(|line| line["lines"].as_u64()).sum::<u64>())
    };
    wait_until("a line for each request, or its loss", || report().0 + report().1 == 4000);
    asks(&mut stream);
    let kill = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(kill.success() && child.wait().unwrap().success());
    reader.join().unwrap();
    let (requests, dropped) = report();
    assert!(dropped > 0, "all {requests} were read");
    assert_eq!(requests + dropped, 4001);
    assert_eq!(lines.lock().unwrap().last().unwrap()["event"], "ending");
}

#[test]
fn a_key_is_checked_and_required_beyond_this_machine() {
    let place = place();
    let server = Server::start_with_environment(place, &["ngrams"], &[("CHUMOKU_API_KEY", "open-sesame")]);
    let with = |key: &str| {
        let head = format!("GET /info HTTP/1.1\r\nHost: localhost\r\nAuthorization: {key}\r\n\r\n");
        server.send(head.as_bytes())
    };
    assert_eq!(with("Bearer open-sesame").status, 200);
    for wrong in ["Bearer open-sesam", "Bearer open-sesame2", "Basic open-sesame", "open-sesame"] {
        assert!(with(wrong).assert_error(401, "Unauthorized").head.to_lowercase().contains("www-authenticate: bearer"));
    }
    assert!(with("Bearer open-sesam").body.contains("the key is wrong"));
    server.post_rejected("/predict", &json!({ "inputs": "good" }), 401, "Unauthorized");
    // A browser cannot send a key when following a link.
    for path in ["/health", "/docs", "/openapi.json"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    assert_eq!(server.get("/metrics").status, 401);
    assert!(server.output_lines().iter().all(|line| !line.contains("sesame")));
    place.run_rejected(
        &["serve", "ngrams", "--host", "0.0.0.0", "--port", "0"],
        &["--host 0.0.0.0", "CHUMOKU_API_KEY", "--no-key"],
    );
    // With a key, --no-key has no effect, and the warning says so.
    let key = [("CHUMOKU_API_KEY", "secret")];
    let keyed = Server::start_with_environment(place, &["ngrams", "--host", "0.0.0.0", "--no-key"], &key);
    keyed.wait_for_line("--no-key has no effect");
    assert_eq!(keyed.get("/info").status, 401);
    assert!(keyed.output_lines().iter().all(|line| !line.contains("all machines")), "{:#?}", keyed.output_lines());
    let open = Server::start(place, &["ngrams", "--host", "0.0.0.0", "--no-key"]);
    open.wait_for_line("all machines that can reach this address can send requests");
    let open = Server::start(place, &["ngrams", "--lang", "ja"]);
    open.wait_for_line("待受");
    assert!(open.post("/predict", &json!({})).body.contains("ありません"));
}

#[test]
fn models_that_cannot_be_served_are_reported_at_once() {
    let place = place();
    place.run_rejected(&["serve"], &["MODEL"]);
    place.run_rejected(&["serve", "nowhere"], &["nowhere"]);
    place.run_rejected(&["serve", "ngrams", "./ngrams"], &["two models are named ngrams"]);
    place.run_rejected(&["serve", "ngrams", "--host", "no such host"], &["--host no such host"]);
    place.run_rejected(&["serve", "ngrams", "--read-timeout", "0s"], &["--read-timeout", "10s"]);
    let server = Server::start(place, &["ngrams"]);
    let port = server.address.rsplit_once(':').unwrap().1;
    place.run_rejected(&["serve", "ngrams", "--port", port], &["listening on 127.0.0.1", port, "--port"]);
}

#[test]
fn the_documentation_page_names_every_flag_and_endpoint() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serve.md")).unwrap();
    let help = place().run(&["serve", "--help"]).assert_success().stdout;
    let flags: Vec<&str> = help.split_whitespace().filter(|word| word.starts_with("--")).collect();
    assert!(flags.len() > 15, "{flags:?}");
    for flag in flags.iter().filter(|flag| !["--help", "--lang", "--threads"].contains(*flag)) {
        assert!(page.contains(*flag), "{flag} is not in docs/serve.md");
    }
    // Lines that train a model have flags of `train`.
    let lines = page.lines().filter(|line| !line.trim_start().starts_with("$ chumoku train"));
    let words = lines.flat_map(|line| line.split(|c: char| c.is_whitespace() || "`,;:()|".contains(c)));
    // Other commands have `--json` and `--html`.
    for flag in words.filter(|word| word.starts_with("--") && word.len() > 3 && !["--json", "--html"].contains(word)) {
        assert!(flags.contains(&flag), "docs/serve.md names {flag}");
    }
    let server = Server::start(place(), &["ngrams"]);
    for place in server.get("/").json()["endpoints"].as_array().unwrap() {
        let path = place.as_str().unwrap().split_once(' ').unwrap().1;
        assert!(page.contains(&format!("{path}`")), "{path} is not in docs/serve.md");
    }
}
