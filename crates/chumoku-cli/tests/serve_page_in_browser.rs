//! The page of `chumoku serve` in a real browser, driven by keyboard: what it shows is what the service answers, it asks
//! nobody else, and what goes wrong is said in plain words.
//!
//! Needs Chromium or Chrome on the path; without one each test says so loudly and passes. Screenshots are in
//! `target/screenshots/`.

#![cfg(unix)]

mod browser;
mod common;
mod service;

use browser::Browser;
use common::Place;
use serde_json::{Value, json};
use service::Server;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A folder with a model of each kind.
fn place() -> &'static Place {
    static PLACE: OnceLock<Place> = OnceLock::new();
    PLACE.get_or_init(|| {
        let place = Place::shared("serve_page");
        place.train_small("reviews", &["--epochs", "2"]);
        let (words, mots) = (["cat", "dog", "and", "the", "sees"], ["chat", "chien", "et", "le", "voit"]);
        let sentence = |i: usize| {
            let each = [i % 5, i / 5 % 5, i / 25 % 5, i / 125 % 5];
            let of = |side: [&str; 5]| each[..2 + i % 3].iter().map(|&at| side[at]).collect::<Vec<_>>().join(" ");
            format!("{}\t{}\n", of(words), of(mots))
        };
        place.write("words.tsv", format!("source\ttarget\n{}", (0..600).map(sentence).collect::<String>()));
        place.run(&["train", "words.tsv", "--task", "translate", "--out", "words", "--epochs", "8"]).ok();
        let [people, deeds] =
            [["the cat", "a dog", "my friend", "the old man"], ["saw", "likes", "never met", "heard"]];
        let line =
            |i: usize| format!("{} {} {}.\n", people[i * 7 % 4], deeds[i * 5 / 4 % 4], people[(i * 3 + i / 9) % 4]);
        place.write("book.txt", (0..400).map(line).collect::<String>());
        place.run(&["train", "book.txt", "--task", "lm", "--out", "book", "--epochs", "2"]).ok();
        let sentence = |i: usize| {
            let (who, town) = (["Anna", "Ben", "Clara", "Emma", "Hugo"][i % 5], ["Oslo", "Rome", "Kyoto"][i / 5 % 3]);
            format!("{who} B-person\n{} O\nin O\n{town} B-place\n\n", ["waits", "lives", "works"][i / 15])
        };
        place.write("names.conll", (0..45).map(sentence).collect::<String>());
        place.run(&["train", "names.conll", "--task", "tag", "--out", "names"]).ok();
        let pair = |i: usize| {
            let verbs = ["sleeps", "eats", "runs", "sings"];
            let (said, other) = (verbs[i % 4], verbs[(i + i / 4 % 2) % 4]);
            let label = if said == other { "yes" } else { "no" };
            format!("A dog {said} on day {i}.,A dog {other}.,{label}\n")
        };
        place.write("pairs.csv", format!("premise,hypothesis,label\n{}", (0..160).map(pair).collect::<String>()));
        place.run(&["train", "pairs.csv", "--model", "ngrams", "--out", "pairs"]).ok();
        let rating = |i: usize| {
            let words = ["good", "plain"];
            let picked = [i & 1, i >> 1 & 1, i >> 2 & 1];
            let [food, staff, bath] = picked.map(|at| words[at]);
            format!("{},Room {i}: food {food} and staff {staff} and bath {bath}.\n", 3 - picked.iter().sum::<usize>())
        };
        place.write("ratings.csv", format!("rating,text\n{}", (0..160).map(rating).collect::<String>()));
        place.run(&["train", "ratings.csv", "--task", "score", "--out", "ratings", "--epochs", "1"]).ok();
        let topics = |i: usize| {
            let (a, b) = (["soup", "music"][i % 2], ["waiter", "price"][i / 2 % 2]);
            let labels =
                json!([if a == "soup" { "food" } else { "noise" }, if b == "waiter" { "staff" } else { "price" }]);
            format!("{}\n", json!({ "text": format!("Visit {i}: we remember the {a} and the {b}."), "labels": labels }))
        };
        place.write("topics.jsonl", (0..160).map(topics).collect::<String>());
        place.run(&["train", "topics.jsonl", "--out", "topics", "--epochs", "1"]).ok();
        let bert = Place::with_bert();
        place.copy(&bert.path("bert"), "bert");
        place
    })
}

const ALL: [&str; 8] = ["reviews", "topics", "ratings", "names", "pairs", "bert", "words", "book"];
const REVIEW: &str = "Slow, cold and not worth the money.";

/// The page of a service, in a browser of this language.
fn visit(server: &Server, language: &str) -> Option<Browser> {
    let mut browser = Browser::start(language)?;
    browser.open(&format!("http://{}/", server.address));
    browser.until("document.documentElement.dataset.ready");
    Some(browser)
}

/// That the page asked its own service alone, that its policy forbade nothing, and that nothing went wrong in it.
#[track_caller]
fn assert_quiet(browser: &mut Browser, server: &Server) {
    let own = format!("http://{}/", server.address);
    for asked in browser.requests() {
        assert!([&own[..], "about:", "blob:", "data:"].iter().any(|start| asked.starts_with(start)), "{asked}");
    }
    let data = browser.text("JSON.stringify({...document.documentElement.dataset})");
    assert!(!data.contains("error") && !data.contains("violation"), "{data}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Chooses a model of a room by keyboard.
#[track_caller]
fn choose(browser: &mut Browser, select: &str, model: &str) {
    browser.tab_to(select);
    browser.press("Home");
    let wanted = browser
        .eval(&format!("[...document.getElementById('{select}').options].findIndex(o => o.value === '{model}')"));
    for _ in 0..wanted.as_u64().unwrap_or_else(|| panic!("{model}: not in {select}")) {
        browser.press("ArrowDown");
    }
    assert_eq!(browser.text(&format!("document.getElementById('{select}').value")), model);
}

/// Goes to a room with the arrow keys.
#[track_caller]
fn enter(browser: &mut Browser, room: &str) {
    browser.scroll_up();
    let chosen = browser.text("document.querySelector('[role=tab][aria-selected=true]').id");
    browser.tab_to(&chosen);
    browser.press("Home");
    for _ in 0..5 {
        if browser.text("document.activeElement.id") == format!("tab-{room}") {
            break;
        }
        browser.press("ArrowRight");
    }
    assert_eq!(browser.text("document.activeElement.id"), format!("tab-{room}"));
    assert_eq!(browser.eval(&format!("document.getElementById('panel-{room}').hidden")), false);
    assert_eq!(browser.eval("document.querySelectorAll('[role=tabpanel]:not([hidden])').length"), 1);
}

/// A probability as the page shows it.
fn percent(p: &Value) -> String {
    format!("{:.1} %", 100.0 * p.as_f64().unwrap())
}

/// A text in the frame of an explanation.
#[track_caller]
fn in_frame(browser: &mut Browser, expression: &str) -> String {
    match browser.in_frame(expression) {
        Value::String(text) => text,
        other => panic!("{expression}: {other}"),
    }
}

#[test]
fn a_text_is_classified_and_explained_as_it_is_typed() {
    let server = Server::start(place(), &ALL);
    let Some(mut browser) = visit(&server, "en-GB") else { return };
    choose(&mut browser, "text-model", "reviews");
    browser.press("Tab");
    assert_eq!(browser.text("document.activeElement.id"), "text-in");
    for part in ["Slow, cold", " and not worth", " the money."] {
        browser.types(part);
    }
    let answer = server.asks("/predict", &json!({ "inputs": REVIEW, "model": "reviews" }));
    let shown = format!("{} {}", answer[0]["label"].as_str().unwrap(), percent(&answer[0]["score"]));
    browser.until(&format!("document.querySelector('#text-answer .verdict')?.textContent === '{shown}'"));
    let rows = browser.text("[...document.querySelectorAll('#text-answer tr')].map(r => r.textContent).join()");
    for class in answer.as_array().unwrap() {
        let row = format!("{}{}", class["label"].as_str().unwrap(), percent(&class["score"]));
        assert!(rows.contains(&row), "{row}: {rows}");
    }
    assert!(browser.text("document.getElementById('said').textContent").contains(answer[0]["label"].as_str().unwrap()));
    // Every word with its effect, as explain has it.
    browser.until("document.querySelector('#text-why iframe:not(.coming)')");
    let explained = server.asks("/explain", &json!({ "inputs": REVIEW, "model": "reviews" }));
    let words: Vec<String> = explained["words"].as_array().unwrap()[1..]
        .iter()
        .zip(&explained["attribution"]["whole"].as_array().unwrap()[1..])
        .map(|(word, effect)| {
            let x = effect.as_f64().unwrap();
            let said = if x.abs() < 0.005 { "0.00".into() } else { format!("{x:+.2}").replace('-', "−") };
            format!("{}: {said}", word["text"].as_str().unwrap())
        })
        .collect();
    let titles = browser.eval("[...document.querySelectorAll('.coloured span')].map(w => w.title)");
    assert_eq!(titles, json!(words));
    assert_eq!(browser.text("document.querySelector('.coloured').textContent"), REVIEW);
    // The page of explain in the frame is alive, and higher than it was at first.
    assert_eq!(
        in_frame(&mut browser, "document.documentElement.dataset.ready + document.documentElement.dataset.framed"),
        "1classifier"
    );
    assert!(in_frame(&mut browser, "document.getElementById('tiles').textContent").contains("money"));
    let height = in_frame(&mut browser, "String(Math.ceil(document.body.getBoundingClientRect().height))");
    browser.until(&format!("Math.abs(document.querySelector('#text-why iframe').clientHeight - {height}) < 3"));
    assert_eq!(in_frame(&mut browser, "getComputedStyle(document.querySelector('.top')).display"), "none");
    // It is reached by Tab, and its own keys choose the head; that stays for the next text.
    let head = in_frame(&mut browser, "document.getElementById('head-now').textContent");
    browser.eval("document.querySelector('#text-why iframe').focus()");
    browser.press("Tab");
    assert_eq!(browser.text("document.activeElement.tagName"), "IFRAME");
    browser.call(
        "Input.dispatchKeyEvent",
        json!({ "type": "keyDown", "key": ".", "code": "Period", "windowsVirtualKeyCode": 190, "text": "." }),
    );
    let until = Instant::now() + Duration::from_secs(20);
    while in_frame(&mut browser, "document.getElementById('head-now').textContent") == head {
        assert!(Instant::now() < until, "the key does nothing in the frame");
        std::thread::sleep(Duration::from_millis(50));
    }
    let chosen = in_frame(&mut browser, "document.getElementById('head-now').textContent");
    browser.eval("document.getElementById('text-in').focus()");
    browser.press("End");
    browser.types(" Never again.");
    browser.until("document.querySelector('.coloured')?.textContent.endsWith('again.') && document.querySelectorAll('iframe').length === 1");
    assert_eq!(in_frame(&mut browser, "document.getElementById('head-now').textContent"), chosen);
    // Nothing, and then other kinds of answers.
    browser.types_over("");
    browser.until("!document.querySelector('#text-answer .verdict') && !document.querySelector('iframe')");
    for (model, text) in [
        ("topics", "We remember the soup and the waiter."),
        ("ratings", "food good and staff plain"),
        ("names", "Emma waits in Kyoto"),
    ] {
        browser.scroll_up();
        choose(&mut browser, "text-model", model);
        browser.tab_to("text-in");
        browser.types_over(text);
        let answer = server.asks("/predict", &json!({ "inputs": text, "model": model, "full": true }));
        let expected = match model {
            "topics" => match answer["labels"].as_array().unwrap() {
                none if none.is_empty() => "No label".to_owned(),
                some => some.iter().map(|l| l["label"].as_str().unwrap()).collect::<Vec<_>>().join(", "),
            },
            "ratings" => answer["score"].to_string().trim_end_matches(".0").to_owned(),
            _ => match answer["spans"].as_array().unwrap().len() {
                1 => "1 span".to_owned(),
                n => format!("{n} spans"),
            },
        };
        browser.until(&format!("document.querySelector('#text-answer .verdict')?.textContent.trim() === '{expected}'"));
        match model {
            "ratings" => {
                let interval = format!(
                    "90 % interval: {} to {}",
                    answer["low"].to_string().trim_end_matches(".0"),
                    answer["high"].to_string().trim_end_matches(".0")
                );
                assert!(browser.text("document.getElementById('text-answer').innerText").contains(&interval));
            }
            "names" => {
                let marks = browser.eval("[...document.querySelectorAll('mark')].map(m => m.textContent)");
                let spans = answer["spans"].as_array().unwrap().iter();
                let expected: Vec<String> =
                    spans.map(|s| format!("{}{}", s["text"].as_str().unwrap(), s["label"].as_str().unwrap())).collect();
                assert!(!expected.is_empty());
                assert_eq!(marks, json!(expected));
                // Below them stands the page of `explain --html`, without its heading, in this page's language.
                browser.until("document.querySelector('iframe:not(.coming)')");
                let explained = in_frame(
                    &mut browser,
                    "[...document.querySelectorAll('#tagged h2')].map(h => h.querySelector('bdi').textContent + h.querySelector('ins').textContent).join('|')",
                );
                assert_eq!(explained, expected.join("|"));
                let heading = "String(getComputedStyle(document.querySelector('header')).display) + document.documentElement.lang";
                assert_eq!(in_frame(&mut browser, heading), "noneen");
                let height = in_frame(&mut browser, "String(Math.ceil(document.body.getBoundingClientRect().height))");
                browser.until(&format!("document.querySelector('iframe:not(.coming)').clientHeight === {height}"));
            }
            _ => browser.until("document.querySelectorAll('#text-answer tbody tr').length === 4"),
        }
    }
    assert_quiet(&mut browser, &server);
}

#[test]
fn texts_are_texts_and_the_last_one_counts() {
    let server = Server::start(place(), &["reviews"]);
    let Some(mut browser) = visit(&server, "en") else { return };
    browser.tab_to("text-in");
    let hostile = "</script><img src=x onerror=alert(1)>{{7*7}} & \u{202e}good";
    browser.types(hostile);
    browser.until("document.querySelector('.coloured') && document.querySelector('iframe:not(.coming)')");
    assert_eq!(browser.text("document.querySelector('.coloured').textContent"), hostile);
    assert_eq!(browser.eval("document.querySelectorAll('img, main script').length"), 0);
    assert_eq!(in_frame(&mut browser, "String(document.querySelectorAll('img').length)"), "0");
    // Typed without a pause: what is shown at last is the answer to all of it.
    browser.types_over("bad");
    for _ in 0..30 {
        browser.types(" good");
    }
    let text = format!("bad{}", " good".repeat(30));
    browser.until(&format!("document.querySelector('.coloured')?.textContent === '{text}'"));
    let answer = server.asks("/predict", &json!({ "inputs": text }));
    let shown = format!("{} {}", answer[0]["label"].as_str().unwrap(), percent(&answer[0]["score"]));
    assert_eq!(browser.text("document.querySelector('#text-answer .verdict').textContent"), shown);
    // A reload loses nothing.
    browser.call("Page.reload", json!({}));
    browser.until(&format!(
        "document.getElementById('text-in')?.value === '{text}' && document.querySelector('#text-answer .verdict')"
    ));
    assert_quiet(&mut browser, &server);
}

#[test]
fn two_texts_are_compared() {
    let server = Server::start(place(), &ALL);
    let Some(mut browser) = visit(&server, "en") else { return };
    enter(&mut browser, "two");
    let fill = |browser: &mut Browser, model: &str, texts: [&str; 2]| {
        browser.scroll_up();
        choose(browser, "two-model", model);
        for (field, text) in ["two-first", "two-second"].into_iter().zip(texts) {
            browser.tab_to(field);
            browser.types_over(text);
        }
    };
    // A classifier: an answer for each, and the difference.
    fill(&mut browser, "reviews", ["It was good.", "It was bad and cold."]);
    browser.until("document.querySelector('#two-answer .compare')");
    let answers =
        server.asks("/predict", &json!({ "inputs": ["It was good.", "It was bad and cold."], "model": "reviews" }));
    let verdicts: Vec<String> = (0..2)
        .map(|i| format!("{} {}", answers[i][0]["label"].as_str().unwrap(), percent(&answers[i][0]["score"])))
        .collect();
    assert_eq!(
        browser.eval("[...document.querySelectorAll('#two-answer .verdict')].map(v => v.textContent)"),
        json!(verdicts)
    );
    let row = browser.text("document.querySelector('#two-answer .compare tbody tr').textContent");
    let of = |i: usize, label: &str| {
        answers[i].as_array().unwrap().iter().find(|c| c["label"] == label).unwrap()["score"].as_f64().unwrap()
    };
    let label = if row.starts_with("negative") { "negative" } else { "positive" };
    let difference = 100.0 * (of(1, label) - of(0, label));
    assert!(row.ends_with(&format!("{difference:+.1}").replace('-', "−")), "{row}");
    // A pair is read together.
    fill(&mut browser, "pairs", ["A dog runs on day 3.", "A dog runs."]);
    let answer =
        server.asks("/predict", &json!({ "inputs": ["A dog runs on day 3.", "A dog runs."], "model": "pairs" }));
    let shown = format!("{} {}", answer[0]["label"].as_str().unwrap(), percent(&answer[0]["score"]));
    browser.until(&format!("document.querySelector('#two-answer .verdict')?.textContent === '{shown}' && document.querySelectorAll('#two-answer .verdict').length === 1"));
    browser.until("document.querySelector('#two-why iframe:not(.coming)')");
    // Vectors of an encoder.
    fill(&mut browser, "bert", ["good film", "bad food"]);
    let explained = server.asks("/explain", &json!({ "inputs": "good film", "target": "bad food", "model": "bert" }));
    let cosine = format!("{:.3}", explained["similarity"].as_f64().unwrap()).replace('-', "−");
    browser.until(&format!("document.querySelector('#two-answer .verdict')?.textContent === '{cosine}'"));
    browser.until("document.querySelectorAll('#two-why .coloured span').length === 2 && document.querySelector('#two-why iframe:not(.coming)')");
    assert_eq!(in_frame(&mut browser, "document.documentElement.dataset.framed"), "encoder");
    browser.tab_to("two-second");
    browser.types_over(&"good ".repeat(30));
    browser.until("document.getElementById('two-answer').textContent.includes('left out')");
    assert_quiet(&mut browser, &server);
}

#[test]
fn a_translation_grows_with_its_alignment() {
    let server = Server::start(place(), &ALL);
    let Some(mut browser) = visit(&server, "en") else { return };
    enter(&mut browser, "translation");
    browser.tab_to("translation-in");
    browser.types("dog and cat");
    // How it grows is seen by whoever looks each time that it changes.
    browser.eval("self.grown = []; new MutationObserver(() => grown.push(document.getElementById('translation-target').children.length)).observe(document.getElementById('translation-target'), { childList: true })");
    browser.press("Ctrl+Enter");
    let printed = server.asks("/translate", &json!({ "inputs": ["dog and cat"] }));
    let translation = printed[0]["translation"].as_str().unwrap();
    browser.until(&format!("document.getElementById('translation-out').getAttribute('aria-busy') === 'false' && document.getElementById('translation-text').textContent === {}", json!(translation)));
    let words = browser.eval("[...document.querySelectorAll('#translation-target .token')].map(t => t.textContent)");
    let grown = browser.eval("grown");
    assert!(
        grown.as_array().unwrap().iter().any(|n| *n == 1) && words.as_array().unwrap().len() > 1,
        "{grown} {words}"
    );
    let source = browser.eval("[...document.querySelectorAll('#translation-source .token')].map(t => t.textContent)");
    let explained = server.asks("/explain", &json!({ "inputs": "dog and cat", "model": "words" }));
    let named = |side: &str| explained[side].as_array().unwrap().iter().map(|w| w["text"].clone()).collect::<Vec<_>>();
    assert_eq!(source, json!(named("source_words")));
    // The explanation's last word is the end.
    assert_eq!(words, json!(named("target_words").split_last().unwrap().1));
    // The weights of the first word are the mean of all heads of the explained alignment.
    browser.tab_to("translation-grown");
    browser.press("Home");
    let heads: Vec<&Value> =
        explained["attention"].as_array().unwrap().iter().flat_map(|layer| layer.as_array().unwrap()).collect();
    let mean = |key: usize| heads.iter().map(|head| head[0][key].as_f64().unwrap()).sum::<f64>() / heads.len() as f64;
    let shares: Vec<f64> = (0..named("source_words").len()).map(mean).collect();
    let shown = browser.eval("[...document.querySelectorAll('#translation-source .token')].map(t => parseFloat(t.style.getPropertyValue('--share')))");
    for (shown, share) in shown.as_array().unwrap().iter().zip(&shares) {
        assert!((shown.as_f64().unwrap() - 100.0 * share).abs() < 0.11, "{shown} {shares:?}");
    }
    assert!(
        browser
            .text("document.getElementById('translation-said').textContent")
            .starts_with(&format!("“{}” looks at", words[0].as_str().unwrap()))
    );
    browser.press("ArrowRight");
    assert_eq!(
        browser.eval(
            "[...document.querySelectorAll('#translation-target .token')].findIndex(t => t.classList.contains('now'))"
        ),
        1
    );
    browser.tab_to_text("Explain the whole translation");
    browser.press("Enter");
    browser.until("document.querySelector('#translation-why iframe:not(.coming)')");
    assert_eq!(in_frame(&mut browser, "document.documentElement.dataset.framed"), "translator");
    assert_quiet(&mut browser, &server);
}

#[test]
fn a_text_is_written_token_by_token() {
    let server = Server::start(place(), &ALL);
    let Some(mut browser) = visit(&server, "en") else { return };
    enter(&mut browser, "writing");
    browser.tab_to("writing-in");
    browser.types("the cat");
    browser.tab_to("writing-most");
    browser.types_over("12");
    browser.tab_to("writing-seed");
    browser.types_over("5");
    browser.tab_to("writing-go");
    browser.press("Enter");
    browser.until("document.getElementById('writing-out').getAttribute('aria-busy') === 'false'");
    let body = json!({ "inputs": "the cat", "max_tokens": 12, "seed": 5, "model": "book" });
    let whole = server.asks("/generate", &body);
    let written = browser.text("document.getElementById('writing-text').textContent");
    assert_eq!(written, format!("the cat{}", whole["text"].as_str().unwrap()));
    // Each token's probability is that which the explanation of the text before it gives.
    let tokens =
        browser.eval("[...document.querySelectorAll('#writing-text .token')].map(t => [t.textContent, t.title])");
    let tokens = tokens.as_array().unwrap();
    assert!(tokens.len() > 5, "{tokens:?}");
    let explained = server.asks("/explain", &json!({ "inputs": "the cat", "model": "book" }));
    let likely =
        explained["probabilities"].as_array().unwrap().iter().map(|p| percent(&p["probability"])).collect::<Vec<_>>();
    assert!(likely.iter().any(|p| json!(p) == tokens[0][1]), "{likely:?} {}", tokens[0]);
    browser.tab_to("writing-text");
    browser.press("Home");
    browser.press("ArrowRight");
    let said = browser.text("document.getElementById('writing-said').textContent");
    assert_eq!(
        said,
        format!(
            "Token 2 of {}: “{}”, {}",
            tokens.len(),
            tokens[1][0].as_str().unwrap().replace('\n', "↵"),
            tokens[1][1].as_str().unwrap()
        )
    );
    // A long text is stopped.
    browser.scroll_up();
    browser.tab_to("writing-most");
    browser.types_over("1024");
    browser.tab_to("writing-temperature");
    for _ in 0..7 {
        browser.press("ArrowRight");
    }
    browser.tab_to("writing-go");
    browser.press("Enter");
    browser.until("document.querySelectorAll('#writing-text .token').length > 3 || document.getElementById('writing-stop').disabled");
    if browser.eval("document.getElementById('writing-stop').disabled") == false {
        browser.press("Tab");
        browser.press("Enter");
        assert_eq!(browser.text("document.getElementById('writing-said').textContent"), "Stopped.");
        let count = browser.eval("document.querySelectorAll('#writing-text .token').length");
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(browser.eval("document.querySelectorAll('#writing-text .token').length"), count);
    }
    assert_quiet(&mut browser, &server);
}

#[test]
fn a_table_is_classified_and_downloaded() {
    let server = Server::start(place(), &ALL);
    let Some(mut browser) = visit(&server, "en") else { return };
    let downloads = browser.folder.path().join("downloads");
    let behaviour = json!({ "behavior": "allow", "downloadPath": downloads });
    browser.call("Page.setDownloadBehavior", behaviour);
    enter(&mut browser, "table");
    browser.tab_to("table-in");
    // As spreadsheets copy: tabs, and quotation marks around what has lines or marks of its own.
    let texts = ["It was good.", "Cold, slow and \"bad\".", "", "とても良い\n映画でした。", "=1+1"];
    let many = (0..70).map(|i| format!("r{i}\tGood film number {i}, once more.\n")).collect::<String>();
    browser.types(&format!(
        "id\ttext\na\tIt was good.\nb\t\"Cold, slow and \"\"bad\"\".\"\nc\t\nd\t\"とても良い\n映画でした。\"\ne\t=1+1\n{many}"
    ));
    assert_eq!(browser.text("document.getElementById('table-found').textContent"), "75 rows, 2 columns.");
    assert_eq!(browser.eval("document.getElementById('table-header').checked"), true);
    assert_eq!(browser.text("document.getElementById('table-first').selectedOptions[0].textContent"), "text");
    browser.tab_to("table-go");
    browser.press("Enter");
    browser.until("document.getElementById('table-progress-said').textContent === 'Done: 75 rows.'");
    browser.scroll_up();
    browser.tab_to("table-save");
    browser.press("Enter");
    let file = downloads.join("table-reviews.csv");
    let until = Instant::now() + Duration::from_secs(20);
    while !file.is_file() {
        assert!(Instant::now() < until, "nothing is downloaded");
        std::thread::sleep(Duration::from_millis(50));
    }
    let saved = fs::read_to_string(&file).unwrap();
    let answers = server.asks(
        "/predict",
        &json!({ "inputs": [[texts[0]], [texts[1]], [texts[3]], [texts[4]]], "full": true, "model": "reviews" }),
    );
    let told = |i: usize| format!("{},{}", answers[i]["label"].as_str().unwrap(), answers[i]["probability"]);
    let expected = format!(
        "\u{feff}id,text,predicted label,probability\r\na,It was good.,{}\r\nb,\"Cold, slow and \"\"bad\"\".\",{}\r\nc,,,\r\nd,\"とても良い\n映画でした。\",{}\r\ne,=1+1,{}\r\nr0,",
        told(0),
        told(1),
        told(2),
        told(3)
    );
    assert!(saved.starts_with(&expected), "{}\n{expected}", &saved[..expected.len().min(saved.len())]);
    assert_eq!(saved.matches("Good film number").count(), 70);
    assert!(!saved.contains(",,\r\nr"), "a row has no answer: {saved}");
    // Pairs, and a cancel in between.
    browser.scroll_up();
    choose(&mut browser, "table-model", "pairs");
    browser.tab_to("table-in");
    let rows = (0..20_000).map(|i| format!("A dog runs on day {i}.\tA dog sings.\n")).collect::<String>();
    browser.press("Ctrl+a");
    browser.pastes(&format!("premise\thypothesis\n{rows}"));
    browser.until("document.getElementById('table-found').textContent === '20000 rows, 2 columns.'");
    assert_eq!(browser.text("document.getElementById('table-second').selectedOptions[0].textContent"), "hypothesis");
    browser.tab_to("table-go");
    browser.press("Enter");
    browser.until("document.getElementById('table-progress').value > 0");
    browser.tab_to("table-cancel");
    browser.press("Enter");
    browser.until("document.getElementById('table-progress-said').textContent.startsWith('Stopped after')");
    let before = browser.eval("document.getElementById('table-progress').value").as_u64().unwrap();
    assert!(before > 0 && before < 20_000, "{before}");
    browser.until("document.activeElement.id === 'table-go' && document.activeElement.textContent === 'Go on'");
    browser.press("Enter");
    browser.until("document.getElementById('table-progress-said').textContent === 'Done: 20000 rows.'");
    assert_quiet(&mut browser, &server);
}

#[test]
fn what_goes_wrong_is_said_in_plain_words() {
    let place = place();
    let mut server = Server::start(place, &["reviews", "--max-chars", "300"]);
    let Some(mut browser) = visit(&server, "en") else { return };
    browser.tab_to("text-in");
    browser.types(&"good ".repeat(80));
    browser.until("document.getElementById('problem-said').textContent.includes('it takes 300 characters at most')");
    browser.types_over(REVIEW);
    browser.until("document.getElementById('problem').hidden && document.querySelector('#text-answer .verdict')");
    // The service ends, and comes back under the same address.
    server.signal("TERM");
    assert_eq!(server.ends(), 0);
    browser.types(" Never.");
    browser.until("document.getElementById('problem-said').textContent.startsWith('The service does not answer.')");
    assert_eq!(browser.text("document.getElementById('text-in').value"), format!("{REVIEW} Never."));
    let (_, port) = server.address.rsplit_once(':').unwrap();
    let again = Server::with(place, &["reviews", "--port", port], &[]);
    browser.scroll_up();
    browser.tab_to("problem-again");
    browser.press("Enter");
    browser.until("document.getElementById('problem').hidden && document.querySelector('.coloured')?.textContent.endsWith('Never.')");
    drop(again);
    // In Japanese too.
    browser.scroll_up();
    browser.tab_to("lang-ja");
    browser.press("Enter");
    browser.tab_to("text-in");
    browser.types("!");
    browser.until("document.getElementById('problem-said').textContent.startsWith('サービスが応答しません。')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_key_is_asked_for() {
    let server = Server::with(place(), &["reviews"], &[("CHUMOKU_API_KEY", "open-sesame")]);
    let Some(mut browser) = Browser::start("en") else { return };
    browser.open(&format!("http://{}/", server.address));
    browser.until("document.getElementById('key-dialog').open && document.activeElement.id === 'key-in'");
    assert_eq!(browser.eval("document.getElementById('key-wrong').hidden"), true);
    browser.types("sesame");
    browser.press("Enter");
    browser.until("document.getElementById('key-dialog').open && !document.getElementById('key-wrong').hidden");
    assert_eq!(browser.text("document.getElementById('key-in').value"), "");
    browser.press("Escape");
    browser.until("document.getElementById('problem-said').textContent.startsWith('Without the key')");
    browser.tab_to("problem-again");
    browser.press("Enter");
    browser.until("document.getElementById('key-dialog').open");
    browser.types("open-sesame");
    browser.press("Enter");
    browser.until("document.documentElement.dataset.ready");
    browser.tab_to("text-in");
    browser.types(REVIEW);
    browser.until("document.querySelector('#text-answer .verdict')");
    // It is kept as long as the tab is open, and stands in no address.
    browser.call("Page.reload", json!({}));
    browser.until("document.documentElement.dataset.ready && document.querySelector('#text-answer .verdict')");
    assert!(browser.requests().iter().all(|address| !address.contains("sesame")));
    assert_eq!(browser.eval("Object.keys(localStorage).length"), 0);
    assert_quiet(&mut browser, &server);
}

#[test]
fn both_languages_and_themes_at_every_width() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("screenshots");
    fs::create_dir_all(&folder).unwrap();
    let server = Server::start(place(), &ALL);
    for (language, other, scheme, review) in
        [("en", "ja", "light", REVIEW), ("ja", "en", "dark", "遅くて冷たくて、お金を払う価値がありません。")]
    {
        let Some(mut browser) = visit(&server, language) else { return };
        assert_eq!(browser.text("document.documentElement.lang"), language);
        let texts = "[...document.querySelectorAll('button, label > span, h2, h3, #serving')].map(n => n.textContent).join('|')";
        let before = browser.text(texts);
        assert_eq!(before.contains("翻訳"), language == "ja", "{before}");
        // Every room is filled; then it is looked at.
        let rows = format!("id\ttext\n1\t{review}\n2\tIt was good.\n3\tとても良い映画でした。");
        for (room, field, text, key, done) in [
            ("text", "text-in", review, "", "document.querySelector('#text-why iframe:not(.coming)')"),
            ("two", "two-first", review, "", "true"),
            ("two", "two-second", "It was good.", "", "document.querySelector('#two-answer .compare')"),
            (
                "translation",
                "translation-in",
                "the cat sees the dog",
                "Ctrl+Enter",
                "document.getElementById('translation-out').getAttribute('aria-busy') === 'false'",
            ),
            (
                "writing",
                "writing-in",
                "the old man",
                "Ctrl+Enter",
                "document.getElementById('writing-out').getAttribute('aria-busy') === 'false'",
            ),
            ("table", "table-in", rows.as_str(), "", "!document.getElementById('table-go').disabled"),
        ] {
            enter(&mut browser, room);
            browser.tab_to(field);
            browser.types_over(text);
            if !key.is_empty() {
                browser.press(key);
            }
            browser.until(done);
        }
        browser.tab_to("table-go");
        browser.press("Enter");
        browser.until("document.querySelector('#table-rows .told')");
        for (width, scheme) in [
            (1200, scheme),
            (360, scheme),
            (360, if scheme == "dark" { "light" } else { "dark" }),
            (1200, if scheme == "dark" { "light" } else { "dark" }),
        ] {
            browser.look(width, 900, scheme);
            browser.until(&format!("document.documentElement.dataset.theme === '{scheme}'"));
            for room in ["text", "two", "translation", "writing", "table"] {
                enter(&mut browser, room);
                std::thread::sleep(Duration::from_millis(400));
                let wide = browser.eval("document.documentElement.scrollWidth");
                assert!(wide.as_u64().unwrap() <= u64::from(width), "{room} at {width}: {wide}");
                let light = browser.text("getComputedStyle(document.body).backgroundColor");
                assert_eq!(light, if scheme == "light" { "rgb(245, 244, 240)" } else { "rgb(17, 21, 27)" });
                browser.picture(&folder.join(format!("serve-{room}-{language}-{scheme}-{width}.png")));
            }
        }
        // The switch is remembered, also against the browser's language; the theme likewise.
        browser.scroll_up();
        browser.tab_to(&format!("lang-{other}"));
        browser.press("Enter");
        assert_eq!(browser.text("document.documentElement.lang"), other);
        assert_ne!(browser.text(texts), before);
        browser.tab_to("theme");
        browser.press("Enter");
        browser.press("Enter");
        assert_eq!(browser.text("document.documentElement.dataset.theme"), "dark");
        browser.look(1200, 900, "light");
        browser.call("Page.reload", json!({}));
        browser.until("document.documentElement.dataset.ready");
        assert_eq!(
            browser.text("document.documentElement.lang + document.documentElement.dataset.theme"),
            format!("{other}dark")
        );
        assert_quiet(&mut browser, &server);
    }
    eprintln!("screenshots in {}", folder.display());
}

#[test]
fn only_what_fits_is_shown() {
    let cases: [(&[&str], &[&str]); 5] = [
        (&["words"], &["translation"]),
        (&["book"], &["writing"]),
        (&["bert"], &["two"]),
        (&["pairs"], &["two", "table"]),
        (&["names", "words"], &["text", "two", "translation", "table"]),
    ];
    for (models, rooms) in cases {
        let server = Server::start(place(), models);
        let Some(mut browser) = visit(&server, "en") else { return };
        let shown = browser.eval("[...document.querySelectorAll('[role=tab]:not([hidden])')].map(t => t.id.slice(4))");
        assert_eq!(shown, json!(rooms), "{models:?}");
        // One model needs no selector.
        assert_eq!(browser.eval("[...document.querySelectorAll('.choice')].every(c => c.hidden)"), models.len() < 3);
        assert_quiet(&mut browser, &server);
    }
}

#[test]
fn what_the_page_asks_for_is_there_for_programs_too() {
    let server = Server::start(place(), &ALL);
    // The page of an explanation is the command's, but for the path of its model.
    let body = json!({ "inputs": REVIEW, "html": true, "model": "reviews" });
    let reply = server.post("/explain", &body);
    assert!(reply.status == 200 && reply.head.contains("text/html"), "{reply:?}");
    place().run(&["explain", "reviews", REVIEW, "--html", "why.html"]).ok();
    assert_eq!(reply.body, place().read("why.html"));
    // A stream of a translation leads to the translation; its words and weights are those of the last step.
    let body = json!({ "inputs": "dog and cat", "stream": true });
    let reply = server.post("/translate", &body);
    let events: Vec<&str> = reply.body.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect();
    assert_eq!(events.last(), Some(&"[DONE]"));
    let events: Vec<Value> =
        events[..events.len() - 1].iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let whole = server.asks("/translate", &json!({ "inputs": ["dog and cat"] }));
    assert_eq!(events.last(), Some(&whole[0]));
    let mut words: Vec<Value> = Vec::new();
    for event in &events[..events.len() - 1] {
        words.truncate(event["kept"].as_u64().unwrap() as usize);
        words.extend(event["words"].as_array().unwrap().iter().cloned());
        assert_eq!(event["words"].as_array().unwrap().len(), event["weights"].as_array().unwrap().len());
        for row in event["weights"].as_array().unwrap() {
            let sum: f64 = row.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).sum();
            assert!((sum - 1.0).abs() < 0.01, "{row}");
        }
    }
    let text: String = words.iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(text, whole[0]["translation"].as_str().unwrap().replace(' ', ""));
    for body in [
        json!({ "inputs": ["a", "b"], "stream": true }),
        json!({ "inputs": "a", "stream": true, "alignment": true }),
        json!({ "inputs": "a", "stream": true, "n_best": 2 }),
    ] {
        server.refuses("/translate", &body, 422, "Validation");
    }
    // Pieces of a text have the probability that the model gives their tokens, whatever the temperature.
    let streamed = |temperature: f64| {
        let body = json!({ "inputs": "the cat", "stream": true, "max_tokens": 1, "temperature": temperature });
        let reply = server.post("/generate", &body).body;
        serde_json::from_str::<Value>(reply.split("\n\n").next().unwrap().strip_prefix("data: ").unwrap()).unwrap()
    };
    let explained = server.asks("/explain", &json!({ "inputs": "the cat", "model": "book" }));
    let likeliest = explained["probabilities"][0]["probability"].as_f64().unwrap();
    assert!((streamed(0.0)["probability"].as_f64().unwrap() - likeliest).abs() < 1e-3, "{likeliest}");
    let info = server.get("/info").json();
    assert_eq!((&info["max_new_tokens"], &info["max_body_bytes"]), (&json!(1024), &json!(2_000_000)));
}

#[test]
fn the_page_is_for_browsers_and_the_list_for_programs() {
    let server = Server::with(place(), &["reviews"], &[("CHUMOKU_API_KEY", "secret")]);
    let get = |accept: &str, more: &str| {
        server.sends(format!("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n{more}\r\n").as_bytes())
    };
    let page = get("text/html,*/*;q=0.8", "");
    assert_eq!(page.status, 200);
    let head = page.head.to_lowercase();
    for part in [
        "content-type: text/html",
        "content-security-policy: default-src 'none'",
        "connect-src 'self'",
        "vary: accept",
        "frame-ancestors 'none'",
        "nosniff",
    ] {
        assert!(head.contains(part), "{part}: {head}");
    }
    assert!(!page.body.contains("secret") && !page.body.contains("reviews"));
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned();
    // The tag keeps its letters' case.
    let at = head.find(&tag).unwrap();
    let tag = &page.head[at..at + tag.len()];
    let mut stream = server.connect();
    let again = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nIf-None-Match: {tag}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(again.as_bytes()).unwrap();
    let mut known = String::new();
    stream.read_to_string(&mut known).unwrap();
    assert!(known.starts_with("HTTP/1.1 304 ") && known.ends_with("\r\n\r\n"), "{known}");
    get("*/*", "").is(401, "Unauthorized");
    assert_eq!(get("*/*", "Authorization: Bearer secret\r\n").json()["models"], json!(["reviews"]));
    // Another machine's name gets no page either.
    let other = server.sends(b"GET / HTTP/1.1\r\nHost: evil.example\r\nAccept: text/html\r\n\r\n");
    other.is(403, "Validation");
}
