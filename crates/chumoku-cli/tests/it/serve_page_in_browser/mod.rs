//! The page of `chumoku serve` in a real browser, controlled by keyboard. The page must show the service's answers,
//! contact no other host, and report errors in plain words.
//!
//! Needs Chromium or Chrome on the path; without one, each test passes with a message. Screenshots are in
//! `target/screenshots/`.

#![cfg(unix)]

mod page;
mod panels;
mod typed_text;

use crate::browser::Browser;
use crate::common::{HoldPoint, TestDir, wait_until};
use crate::service::Server;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::OnceLock;

/// A folder with a model of each kind.
fn place() -> &'static TestDir {
    static PLACE: OnceLock<TestDir> = OnceLock::new();
    PLACE.get_or_init(|| {
        let place = TestDir::shared_by_file("serve_page");
        place.train_small("reviews", &["--epochs", "2"]);
        let (words, mots) = (["cat", "dog", "and", "the", "sees"], ["chat", "chien", "et", "le", "voit"]);
        let sentence = |i: usize| {
            let each = [i % 5, i / 5 % 5, i / 25 % 5, i / 125 % 5];
            let of = |side: [&str; 5]| each[..2 + i % 3].iter().map(|&at| side[at]).collect::<Vec<_>>().join(" ");
            format!("{}\t{}\n", of(words), of(mots))
        };
        place.write("words.tsv", format!("source\ttarget\n{}", (0..600).map(sentence).collect::<String>()));
        place.run(&["train", "words.tsv", "--task", "translate", "--out", "words", "--epochs", "8"]).assert_success();
        let [people, deeds] =
            [["the cat", "a dog", "my friend", "the old man"], ["saw", "likes", "never met", "heard"]];
        let line =
            |i: usize| format!("{} {} {}.\n", people[i * 7 % 4], deeds[i * 5 / 4 % 4], people[(i * 3 + i / 9) % 4]);
        place.write("book.txt", (0..400).map(line).collect::<String>());
        place.run(&["train", "book.txt", "--task", "lm", "--out", "book", "--epochs", "2"]).assert_success();
        let sentence = |i: usize| {
            let (who, town) = (["Anna", "Ben", "Clara", "Emma", "Hugo"][i % 5], ["Oslo", "Rome", "Kyoto"][i / 5 % 3]);
            format!("{who} B-person\n{} O\nin O\n{town} B-place\n\n", ["waits", "lives", "works"][i / 15])
        };
        place.write("names.conll", (0..45).map(sentence).collect::<String>());
        place.run(&["train", "names.conll", "--task", "tag", "--out", "names"]).assert_success();
        let pair = |i: usize| {
            let verbs = ["sleeps", "eats", "runs", "sings"];
            let (said, other) = (verbs[i % 4], verbs[(i + i / 4 % 2) % 4]);
            let label = if said == other { "yes" } else { "no" };
            format!("A dog {said} on day {i}.,A dog {other}.,{label}\n")
        };
        place.write("pairs.csv", format!("premise,hypothesis,label\n{}", (0..160).map(pair).collect::<String>()));
        place.run(&["train", "pairs.csv", "--model", "ngrams", "--out", "pairs"]).assert_success();
        let rating = |i: usize| {
            let words = ["good", "plain"];
            let picked = [i & 1, i >> 1 & 1, i >> 2 & 1];
            let [food, staff, bath] = picked.map(|at| words[at]);
            format!("{},Room {i}: food {food} and staff {staff} and bath {bath}.\n", 3 - picked.iter().sum::<usize>())
        };
        place.write("ratings.csv", format!("rating,text\n{}", (0..160).map(rating).collect::<String>()));
        place.run(&["train", "ratings.csv", "--task", "score", "--out", "ratings", "--epochs", "1"]).assert_success();
        let topics = |i: usize| {
            let (a, b) = (["soup", "music"][i % 2], ["waiter", "price"][i / 2 % 2]);
            let labels =
                json!([if a == "soup" { "food" } else { "noise" }, if b == "waiter" { "staff" } else { "price" }]);
            format!("{}\n", json!({ "text": format!("Visit {i}: we remember the {a} and the {b}."), "labels": labels }))
        };
        place.write("topics.jsonl", (0..160).map(topics).collect::<String>());
        place.run(&["train", "topics.jsonl", "--out", "topics", "--epochs", "1"]).assert_success();
        let bert = TestDir::with_bert();
        place.copy_folder(&bert.path("bert"), "bert");
        place
    })
}

const ALL_MODELS: [&str; 8] = ["reviews", "topics", "ratings", "names", "pairs", "bert", "words", "book"];
const REVIEW: &str = "Slow, cold and not worth the money.";

/// Opens the page of a service in a browser with this language.
fn open_page(server: &Server, language: &str) -> Option<Browser> {
    let mut browser = Browser::start(language)?;
    browser.open(&format!("http://{}/", server.address));
    browser.wait_until_true("document.documentElement.dataset.ready");
    Some(browser)
}

/// Asserts that the page contacted only its own service, that its policy blocked nothing, and that no errors occurred.
#[track_caller]
fn assert_quiet(browser: &mut Browser, server: &Server) {
    let own = format!("http://{}/", server.address);
    for request in browser.requests() {
        assert!([&own[..], "about:", "blob:", "data:"].iter().any(|start| request.starts_with(start)), "{request}");
    }
    let data = browser.text("JSON.stringify({...document.documentElement.dataset})");
    assert!(!data.contains("error") && !data.contains("violation"), "{data}");
    assert_eq!(browser.console_errors(), Vec::<String>::new());
}

/// Chooses a model of a panel by keyboard.
#[track_caller]
fn choose_model(browser: &mut Browser, select: &str, model: &str) {
    browser.tab_to(select);
    browser.press("Home");
    let index = browser
        .eval(&format!("[...document.getElementById('{select}').options].findIndex(o => o.value === '{model}')"));
    for _ in 0..index.as_u64().unwrap_or_else(|| panic!("{model}: not in {select}")) {
        browser.press("ArrowDown");
    }
    assert_eq!(browser.text(&format!("document.getElementById('{select}').value")), model);
}

/// Opens a panel with the arrow keys.
#[track_caller]
fn open_panel(browser: &mut Browser, panel: &str) {
    browser.focus_first_button();
    let chosen = browser.text("document.querySelector('[role=tab][aria-selected=true]').id");
    browser.tab_to(&chosen);
    browser.press("Home");
    for _ in 0..5 {
        if browser.text("document.activeElement.id") == format!("tab-{panel}") {
            break;
        }
        browser.press("ArrowRight");
    }
    assert_eq!(browser.text("document.activeElement.id"), format!("tab-{panel}"));
    assert_eq!(browser.eval(&format!("document.getElementById('panel-{panel}').hidden")), false);
    assert_eq!(browser.eval("document.querySelectorAll('[role=tabpanel]:not([hidden])').length"), 1);
}

/// Formats a probability as the page does.
fn percent(p: &Value) -> String {
    format!("{:.1} %", 100.0 * p.as_f64().unwrap())
}

/// Evaluates an expression to a text in the frame of an explanation.
#[track_caller]
fn in_frame(browser: &mut Browser, expression: &str) -> String {
    match browser.eval_in_frame(expression) {
        Value::String(text) => text,
        other => panic!("{expression}: {other}"),
    }
}
