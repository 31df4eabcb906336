//! Models are reloaded while the service answers.

use crate::common::{Hold, Place};
use crate::serve::place;
use crate::service::Server;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[test]
fn valid_models_are_reloaded_and_invalid_ones_are_not() {
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
    // An invalid model, while requests arrive.
    let swap = |with: &str| {
        std::fs::rename(place.path("model"), place.path(&format!("old{with}"))).unwrap();
        std::fs::rename(place.path(with), place.path("model")).unwrap();
    };
    place.copy(&place.path("other"), "bad");
    place.write("bad/model.safetensors", b"no weights");
    swap("bad");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (server, asked, first, next, is_over) = (&server, &asked, &first, &next, &is_over);
        let client = scope.spawn(move || {
            let mut seen = Vec::new();
            loop {
                // A request after the reload gets the new model's answer.
                let is_last = is_over.load(Relaxed);
                let found = server.asks("/predict", asked);
                assert!(found == *first || found == *next, "{found}");
                if seen.last() != Some(&found) {
                    seen.push(found);
                }
                if is_last {
                    return seen;
                }
            }
        });
        server.signal("HUP");
        let line = server.hears("keeping the old model");
        assert!(line.contains("model.safetensors"), "{line}");
        assert_eq!(server.asks("/predict", asked), *first);
        swap("other");
        server.signal("HUP");
        server.hears("new model (classifier)");
        is_over.store(true, Relaxed);
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
fn a_reload_signal_during_loading_is_remembered() {
    let place = Place::new();
    place.copy(&self::place().path("ngrams"), "model");
    let hold = Hold::at("load");
    let mut command = place.command(&["serve", "--port", "0", "model"]);
    let mut child = command.envs([hold.variable()]).stderr(Stdio::piped()).spawn().unwrap();
    let id = child.id().to_string();
    let kill = |name: &str| assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    assert!(hold.is_reached_by(&mut child));
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
    let place = Place::new();
    place.copy(&self::place().path("ngrams"), "model");
    // Two models load at the start, and one reloads.
    let hold = Hold::at("load:4");
    let mut server = Server::held(&place, &["a=model", "b=model"], &hold);
    place.write("model/changed", "");
    server.signal("HUP");
    server.hears("a: new model");
    hold.is_reached();
    server.signal("TERM");
    assert_eq!(server.ends(), 0);
    assert!(!server.said().iter().any(|line| line.contains("b: new model")), "{:#?}", server.said());
}
