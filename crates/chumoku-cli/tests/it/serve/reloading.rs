//! Models that are read again while the service answers.

use crate::common::Place;
use crate::serve::place;
use crate::service::{PATIENCE, Server};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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

/// The same model under many names, so that reading all of them takes a while.
fn many(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("m{number}=model")).collect()
}

/// Signals that a process catches, as the system has them.
fn caught(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or_default();
    u64::from_str_radix(line.trim(), 16).unwrap_or(0)
}

#[test]
fn a_signal_to_read_again_is_kept_while_models_are_read() {
    const HANGUP: u64 = 1;
    let place = Place::new();
    place.copy(&self::place().path("reviews"), "model");
    if caught(std::process::id()) == 0 {
        // Not a system that tells.
        return;
    }
    let models = many(60);
    let mut args = vec!["serve", "--port", "0"];
    args.extend(models.iter().map(String::as_str));
    let mut child = place.command(&args).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + PATIENCE;
    while caught(child.id()) >> (HANGUP - 1) & 1 == 0 {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(1));
    }
    let id = child.id().to_string();
    let kill = |name: &str| {
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
        Instant::now()
    };
    let signalled = kill("-HUP");
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let first = lines.next().expect("it is still there");
    assert!(first.contains("http://") && signalled.elapsed() > Duration::from_millis(20), "{first}");
    assert!(lines.any(|line| line.contains("m59: unchanged")));
    kill("-TERM");
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_end_does_not_wait_for_models_that_are_read() {
    let place = Place::new();
    place.copy(&self::place().path("reviews"), "model");
    // Reading them takes a while, on any machine.
    let models = many(200);
    let last = format!("{}: new model", models.last().unwrap().split_once('=').unwrap().0);
    let mut server = Server::start(&place, &models.iter().map(String::as_str).collect::<Vec<_>>());
    place.write("model/changed", "");
    server.signal("HUP");
    server.hears(&last);
    place.write("model/changed", "again");
    let before = server.said().len();
    server.signal("HUP");
    while server.said().len() == before {
        std::thread::sleep(Duration::from_millis(1));
    }
    server.signal("TERM");
    assert_eq!(server.ends(), 0);
    let read = server.said()[before..].iter().filter(|line| line.contains("new model")).count();
    assert!((1..models.len()).contains(&read), "{read} of {} models", models.len());
}
