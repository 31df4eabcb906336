//! Models are reloaded while the service answers.

use crate::common::{HoldPoint, TestDir};
use crate::serve::place;
use crate::service::Server;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[test]
fn valid_models_are_reloaded_and_invalid_ones_are_not() {
    let place = TestDir::new();
    place.copy_folder(&self::place().path("ngrams"), "model");
    place.copy_folder(&self::place().path("reviews"), "other");
    let mut server = Server::start(&place, &["model"]);
    let request = json!({ "inputs": "Slow, cold and not worth the money.", "full": true });
    let first = server.post_json("/predict", &request);
    let next = place.run(&["predict", "other", request["inputs"].as_str().unwrap(), "--json"]).assert_success().json();
    assert_ne!(first, next);
    server.send_signal("HUP");
    server.wait_for_line("unchanged");
    // An invalid model, while requests arrive.
    let swap = |with: &str| {
        std::fs::rename(place.path("model"), place.path(&format!("old{with}"))).unwrap();
        std::fs::rename(place.path(with), place.path("model")).unwrap();
    };
    place.copy_folder(&place.path("other"), "bad");
    place.write("bad/model.safetensors", b"no weights");
    swap("bad");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (server, request, first, next, is_over) = (&server, &request, &first, &next, &is_over);
        let client = scope.spawn(move || {
            let mut seen = Vec::new();
            loop {
                // A request after the reload gets the new model's answer.
                let is_last = is_over.load(Relaxed);
                let found = server.post_json("/predict", request);
                assert!(found == *first || found == *next, "{found}");
                if seen.last() != Some(&found) {
                    seen.push(found);
                }
                if is_last {
                    return seen;
                }
            }
        });
        server.send_signal("HUP");
        let line = server.wait_for_line("keeping the old model");
        assert!(line.contains("model.safetensors"), "{line}");
        assert_eq!(server.post_json("/predict", request), *first);
        swap("other");
        server.send_signal("HUP");
        server.wait_for_line("new model (classifier)");
        is_over.store(true, Relaxed);
        let seen = client.join().unwrap();
        assert_eq!(seen, [first.clone(), next.clone()]);
    });
    let metrics = server.get("/metrics").body;
    for line in ["chumoku_reloads_total{result=\"kept_old\"} 1", "chumoku_reloads_total{result=\"new\"} 1"] {
        assert!(metrics.contains(line), "{metrics}");
    }
    server.send_signal("INT");
    assert_eq!(server.wait_for_exit(), 0);
}

#[test]
fn a_reload_signal_during_loading_is_remembered() {
    let place = TestDir::new();
    place.copy_folder(&self::place().path("ngrams"), "model");
    let hold = HoldPoint::at("load");
    let mut command = place.command(&["serve", "--port", "0", "model"]);
    let mut child = command.envs([hold.environment()]).stderr(Stdio::piped()).spawn().unwrap();
    let id = child.id().to_string();
    let kill = |name: &str| assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    assert!(hold.wait_until_reached_by(&mut child));
    // The signal would end a process that does not handle it.
    kill("-HUP");
    hold.release();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let first = lines.next().expect("it is still there");
    assert!(first.contains("http://"), "{first}");
    assert!(lines.any(|line| line.contains("model: unchanged")));
    kill("-TERM");
    assert!(child.wait().unwrap().success());
}

#[test]
fn shutdown_does_not_wait_for_loading_models() {
    let place = TestDir::new();
    place.copy_folder(&self::place().path("ngrams"), "model");
    // Two models load at the start, and one reloads.
    let hold = HoldPoint::at("load:4");
    let mut server = Server::start_held(&place, &["a=model", "b=model"], &hold);
    place.write("model/changed", "");
    server.send_signal("HUP");
    server.wait_for_line("a: new model");
    hold.wait_until_reached();
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit(), 0);
    assert!(!server.output_lines().iter().any(|line| line.contains("b: new model")), "{:#?}", server.output_lines());
}
