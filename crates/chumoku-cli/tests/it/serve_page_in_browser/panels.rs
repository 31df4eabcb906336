//! User input: one text, two texts, a table; and the error messages.

use super::*;

#[test]
fn a_text_is_classified_and_explained_while_typing() {
    let server = Server::start(place(), &ALL_MODELS);
    let Some(mut browser) = open_page(&server, "en-GB") else { return };
    choose_model(&mut browser, "text-model", "reviews");
    browser.press("Tab");
    assert_eq!(browser.text("document.activeElement.id"), "text-in");
    for part in ["Slow, cold", " and not worth", " the money."] {
        browser.type_text(part);
    }
    let answer = server.post_json("/predict", &json!({ "inputs": REVIEW, "model": "reviews" }));
    let shown = format!("{} {}", answer[0]["label"].as_str().unwrap(), percent(&answer[0]["score"]));
    browser.wait_until_true(&format!("document.querySelector('#text-answer .verdict')?.textContent === '{shown}'"));
    let rows = browser.text("[...document.querySelectorAll('#text-answer tr')].map(r => r.textContent).join()");
    for class in answer.as_array().unwrap() {
        let row = format!("{}{}", class["label"].as_str().unwrap(), percent(&class["score"]));
        assert!(rows.contains(&row), "{row}: {rows}");
    }
    assert!(
        browser
            .text("document.getElementById('announcement').textContent")
            .contains(answer[0]["label"].as_str().unwrap())
    );
    // Every word has its effect, as in `explain`.
    browser.wait_until_true("document.querySelector('#text-why iframe:not(.coming)')");
    let explained = server.post_json("/explain", &json!({ "inputs": REVIEW, "model": "reviews" }));
    let words: Vec<String> = explained["words"].as_array().unwrap()[1..]
        .iter()
        .zip(&explained["attribution"]["whole"].as_array().unwrap()[1..])
        .map(|(word, effect)| {
            let x = effect.as_f64().unwrap();
            let shown = if x.abs() < 0.005 { "0.00".into() } else { format!("{x:+.2}").replace('-', "−") };
            format!("{}: {shown}", word["text"].as_str().unwrap())
        })
        .collect();
    let titles = browser.eval("[...document.querySelectorAll('.colored span')].map(w => w.title)");
    assert_eq!(titles, json!(words));
    assert_eq!(browser.text("document.querySelector('.colored').textContent"), REVIEW);
    // The explanation page in the frame is interactive, and taller than at first.
    assert_eq!(
        in_frame(&mut browser, "document.documentElement.dataset.ready + document.documentElement.dataset.framed"),
        "1classifier"
    );
    assert!(in_frame(&mut browser, "document.getElementById('tiles').textContent").contains("money"));
    let height = in_frame(&mut browser, "String(Math.ceil(document.body.getBoundingClientRect().height))");
    browser
        .wait_until_true(&format!("Math.abs(document.querySelector('#text-why iframe').clientHeight - {height}) < 3"));
    assert_eq!(in_frame(&mut browser, "getComputedStyle(document.querySelector('.top')).display"), "none");
    // It is reachable by Tab, and its own keys choose the head. The choice stays for the next text.
    let head = in_frame(&mut browser, "document.getElementById('head-now').textContent");
    browser.eval("document.querySelector('#text-why iframe').focus()");
    browser.press("Tab");
    assert_eq!(browser.text("document.activeElement.tagName"), "IFRAME");
    browser.call(
        "Input.dispatchKeyEvent",
        json!({ "type": "keyDown", "key": ".", "code": "Period", "windowsVirtualKeyCode": 190, "text": "." }),
    );
    wait_until("another head in the frame", || {
        in_frame(&mut browser, "document.getElementById('head-now').textContent") != head
    });
    let chosen = in_frame(&mut browser, "document.getElementById('head-now').textContent");
    browser.eval("document.getElementById('text-in').focus()");
    browser.press("End");
    browser.type_text(" Never again.");
    browser.wait_until_true("document.querySelector('.colored')?.textContent.endsWith('again.') && document.querySelectorAll('iframe').length === 1");
    assert_eq!(in_frame(&mut browser, "document.getElementById('head-now').textContent"), chosen);
    // Empty input, then other kinds of answers.
    browser.replace_text("");
    browser.wait_until_true("!document.querySelector('#text-answer .verdict') && !document.querySelector('iframe')");
    for (model, text) in [
        ("topics", "We remember the soup and the waiter."),
        ("ratings", "food good and staff plain"),
        ("names", "Emma waits in Kyoto"),
    ] {
        browser.focus_first_button();
        choose_model(&mut browser, "text-model", model);
        browser.tab_to("text-in");
        browser.replace_text(text);
        let answer = server.post_json("/predict", &json!({ "inputs": text, "model": model, "full": true }));
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
        browser.wait_until_true(&format!(
            "document.querySelector('#text-answer .verdict')?.textContent.trim() === '{expected}'"
        ));
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
                // Below them is the page of `explain --html`, without its heading, in this page's language.
                browser.wait_until_true("document.querySelector('iframe:not(.coming)')");
                let explained = in_frame(
                    &mut browser,
                    "[...document.querySelectorAll('#tagged h2')].map(h => h.querySelector('bdi').textContent + h.querySelector('ins').textContent).join('|')",
                );
                assert_eq!(explained, expected.join("|"));
                let heading = "String(getComputedStyle(document.querySelector('header')).display) + document.documentElement.lang";
                assert_eq!(in_frame(&mut browser, heading), "noneen");
                let height = in_frame(&mut browser, "String(Math.ceil(document.body.getBoundingClientRect().height))");
                browser.wait_until_true(&format!(
                    "document.querySelector('iframe:not(.coming)').clientHeight === {height}"
                ));
            }
            _ => browser.wait_until_true("document.querySelectorAll('#text-answer tbody tr').length === 4"),
        }
    }
    assert_quiet(&mut browser, &server);
}

#[test]
fn texts_stay_texts_and_the_last_one_counts() {
    let server = Server::start(place(), &["reviews"]);
    let Some(mut browser) = open_page(&server, "en") else { return };
    browser.tab_to("text-in");
    let hostile = "</script><img src=x onerror=alert(1)>{{7*7}} & \u{202e}good";
    browser.type_text(hostile);
    browser.wait_until_true("document.querySelector('.colored') && document.querySelector('iframe:not(.coming)')");
    assert_eq!(browser.text("document.querySelector('.colored').textContent"), hostile);
    assert_eq!(browser.eval("document.querySelectorAll('img, main script').length"), 0);
    assert_eq!(in_frame(&mut browser, "String(document.querySelectorAll('img').length)"), "0");
    // Typed without a pause: the final answer belongs to the whole text.
    browser.replace_text("bad");
    for _ in 0..30 {
        browser.type_text(" good");
    }
    let text = format!("bad{}", " good".repeat(30));
    browser.wait_until_true(&format!("document.querySelector('.colored')?.textContent === '{text}'"));
    let answer = server.post_json("/predict", &json!({ "inputs": text }));
    let shown = format!("{} {}", answer[0]["label"].as_str().unwrap(), percent(&answer[0]["score"]));
    assert_eq!(browser.text("document.querySelector('#text-answer .verdict').textContent"), shown);
    // A reload keeps the input.
    browser.call("Page.reload", json!({}));
    browser.wait_until_true(&format!(
        "document.getElementById('text-in')?.value === '{text}' && document.querySelector('#text-answer .verdict')"
    ));
    assert_quiet(&mut browser, &server);
}

#[test]
fn two_texts_are_compared() {
    let server = Server::start(place(), &ALL_MODELS);
    let Some(mut browser) = open_page(&server, "en") else { return };
    open_panel(&mut browser, "two");
    let fill = |browser: &mut Browser, model: &str, texts: [&str; 2]| {
        browser.focus_first_button();
        choose_model(browser, "two-model", model);
        for (field, text) in ["two-first", "two-second"].into_iter().zip(texts) {
            browser.tab_to(field);
            browser.replace_text(text);
        }
    };
    // A classifier: an answer for each, and the difference.
    fill(&mut browser, "reviews", ["It was good.", "It was bad and cold."]);
    browser.wait_until_true("document.querySelector('#two-answer .compare')");
    let answers = server
        .post_json("/predict", &json!({ "inputs": ["It was good.", "It was bad and cold."], "model": "reviews" }));
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
        server.post_json("/predict", &json!({ "inputs": ["A dog runs on day 3.", "A dog runs."], "model": "pairs" }));
    let shown = format!("{} {}", answer[0]["label"].as_str().unwrap(), percent(&answer[0]["score"]));
    browser.wait_until_true(&format!("document.querySelector('#two-answer .verdict')?.textContent === '{shown}' && document.querySelectorAll('#two-answer .verdict').length === 1"));
    browser.wait_until_true("document.querySelector('#two-why iframe:not(.coming)')");
    // Vectors of an encoder.
    fill(&mut browser, "bert", ["good film", "bad food"]);
    let explained =
        server.post_json("/explain", &json!({ "inputs": "good film", "target": "bad food", "model": "bert" }));
    let cosine = format!("{:.3}", explained["similarity"].as_f64().unwrap()).replace('-', "−");
    browser.wait_until_true(&format!("document.querySelector('#two-answer .verdict')?.textContent === '{cosine}'"));
    browser.wait_until_true("document.querySelectorAll('#two-why .colored span').length === 2 && document.querySelector('#two-why iframe:not(.coming)')");
    assert_eq!(in_frame(&mut browser, "document.documentElement.dataset.framed"), "encoder");
    browser.tab_to("two-second");
    browser.replace_text(&"good ".repeat(30));
    browser.wait_until_true("document.getElementById('two-answer').textContent.includes('truncated')");
    assert_quiet(&mut browser, &server);
}

#[test]
fn a_table_is_classified_and_downloaded() {
    let server = Server::start(place(), &ALL_MODELS);
    let Some(mut browser) = open_page(&server, "en") else { return };
    let downloads = browser.folder.path().join("downloads");
    let behaviour = json!({ "behavior": "allow", "downloadPath": downloads });
    browser.call("Page.setDownloadBehavior", behaviour);
    open_panel(&mut browser, "table");
    browser.tab_to("table-in");
    // As spreadsheets copy: tabs, and quotes around fields with line breaks or quotes.
    let texts = ["It was good.", "Cold, slow and \"bad\".", "", "とても良い\n映画でした。", "=1+1"];
    let many = (0..70).map(|i| format!("r{i}\tGood film number {i}, once more.\n")).collect::<String>();
    browser.type_text(&format!(
        "id\ttext\na\tIt was good.\nb\t\"Cold, slow and \"\"bad\"\".\"\nc\t\nd\t\"とても良い\n映画でした。\"\ne\t=1+1\n{many}"
    ));
    assert_eq!(browser.text("document.getElementById('table-found').textContent"), "75 rows, 2 columns.");
    assert_eq!(browser.eval("document.getElementById('table-header').checked"), true);
    assert_eq!(browser.text("document.getElementById('table-first').selectedOptions[0].textContent"), "text");
    browser.tab_to("table-go");
    browser.press("Enter");
    browser.wait_until_true("document.getElementById('table-progress-text').textContent === 'Done: 75 rows.'");
    browser.focus_first_button();
    browser.tab_to("table-save");
    browser.press("Enter");
    let file = downloads.join("table-reviews.csv");
    wait_until("the download", || file.is_file());
    let saved = fs::read_to_string(&file).unwrap();
    let answers = server.post_json(
        "/predict",
        &json!({ "inputs": [[texts[0]], [texts[1]], [texts[3]], [texts[4]]], "full": true, "model": "reviews" }),
    );
    let answer = |i: usize| format!("{},{}", answers[i]["label"].as_str().unwrap(), answers[i]["probability"]);
    let expected = format!(
        "\u{feff}id,text,predicted label,probability\r\na,It was good.,{}\r\nb,\"Cold, slow and \"\"bad\"\".\",{}\r\nc,,,\r\nd,\"とても良い\n映画でした。\",{}\r\ne,=1+1,{}\r\nr0,",
        answer(0),
        answer(1),
        answer(2),
        answer(3)
    );
    assert!(saved.starts_with(&expected), "{}\n{expected}", &saved[..expected.len().min(saved.len())]);
    assert_eq!(saved.matches("Good film number").count(), 70);
    assert!(!saved.contains(",,\r\nr"), "a row has no answer: {saved}");
    assert_quiet(&mut browser, &server);
}

#[test]
fn labels_of_a_downloaded_table_are_not_formulas() {
    let place = TestDir::new();
    let row = |i: usize| format!("{} number {i},{}\n", ["sum", "less"][i % 2], ["=1+1", "-1"][i % 2]);
    place.write("rows.csv", format!("text,label\n{}", (0..60).map(row).collect::<String>()));
    place.run(&["train", "rows.csv", "--out", "formulas", "--model", "ngrams"]).assert_success();
    let server = Server::start(&place, &["formulas"]);
    let Some(mut browser) = open_page(&server, "en") else { return };
    let downloads = browser.folder.path().join("downloads");
    browser.call("Page.setDownloadBehavior", json!({ "behavior": "allow", "downloadPath": downloads }));
    open_panel(&mut browser, "table");
    browser.tab_to("table-in");
    browser.type_text("id\ttext\na\tsum number 3\nb\tless number 4\n");
    browser.tab_to("table-go");
    browser.press("Enter");
    browser.wait_until_true("document.getElementById('table-progress-text').textContent === 'Done: 2 rows.'");
    browser.focus_first_button();
    browser.tab_to("table-save");
    browser.press("Enter");
    let file = downloads.join("table-formulas.csv");
    wait_until("the download", || file.is_file());
    let saved = fs::read_to_string(&file).unwrap();
    // As in the command's tables for spreadsheets. A number is not a formula.
    assert!(saved.contains("a,sum number 3,'=1+1,") && saved.contains("b,less number 4,-1,"), "{saved}");
    assert_quiet(&mut browser, &server);
}

#[test]
fn a_table_can_be_stopped_and_continued() {
    // After two of its parts.
    let hold = HoldPoint::at("short-work:3");
    let server = Server::start_held(place(), &ALL_MODELS, &hold);
    let Some(mut browser) = open_page(&server, "en") else { return };
    open_panel(&mut browser, "table");
    choose_model(&mut browser, "table-model", "pairs");
    browser.tab_to("table-in");
    let rows = (0..20_000).map(|i| format!("A dog runs on day {i}.\tA dog sings.\n")).collect::<String>();
    browser.press("Ctrl+a");
    browser.paste_text(&format!("premise\thypothesis\n{rows}"));
    browser.wait_until_true("document.getElementById('table-found').textContent === '20000 rows, 2 columns.'");
    assert_eq!(browser.text("document.getElementById('table-second').selectedOptions[0].textContent"), "hypothesis");
    browser.tab_to("table-go");
    browser.press("Enter");
    browser.wait_until_true("document.getElementById('table-progress').value > 0");
    browser.tab_to("table-cancel");
    browser.press("Enter");
    browser.wait_until_true("document.getElementById('table-progress-text').textContent.startsWith('Stopped after')");
    hold.release();
    let before = browser.eval("document.getElementById('table-progress').value").as_u64().unwrap();
    assert!(before > 0 && before < 20_000, "{before}");
    browser
        .wait_until_true("document.activeElement.id === 'table-go' && document.activeElement.textContent === 'Resume'");
    browser.press("Enter");
    browser.wait_until_true("document.getElementById('table-progress-text').textContent === 'Done: 20000 rows.'");
    assert_quiet(&mut browser, &server);
}

#[test]
fn errors_are_reported_in_plain_words() {
    let place = place();
    let mut server = Server::start(place, &["reviews", "--max-chars", "300"]);
    let Some(mut browser) = open_page(&server, "en") else { return };
    browser.tab_to("text-in");
    browser.type_text("good soup");
    browser.wait_until_true(
        "document.querySelector('#text-answer .verdict') && document.querySelector('#text-why iframe')",
    );
    browser.replace_text(&"good ".repeat(80));
    browser.wait_until_true(
        "document.getElementById('problem-text').textContent.includes('the maximum is 300 characters')",
    );
    // The answer to another text is not shown with it.
    for of_another in ["#text-answer .verdict", "#text-why iframe"] {
        assert_eq!(browser.eval(&format!("document.querySelector('{of_another}')")), Value::Null, "{of_another}");
    }
    browser.replace_text(REVIEW);
    browser.wait_until_true(
        "document.getElementById('problem').hidden && document.querySelector('#text-answer .verdict')",
    );
    // The service stops, and starts again at the same address.
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit(), 0);
    browser.type_text(" Never.");
    browser.wait_until_true(
        "document.getElementById('problem-text').textContent.startsWith('The service does not answer.')",
    );
    assert_eq!(browser.text("document.getElementById('text-in').value"), format!("{REVIEW} Never."));
    let (_, port) = server.address.rsplit_once(':').unwrap();
    let again = Server::start_with_environment(place, &["reviews", "--port", port], &[]);
    browser.focus_first_button();
    browser.tab_to("problem-again");
    browser.press("Enter");
    browser.wait_until_true("document.getElementById('problem').hidden && document.querySelector('.colored')?.textContent.endsWith('Never.')");
    drop(again);
    // In Japanese too.
    browser.focus_first_button();
    browser.tab_to("lang-ja");
    browser.press("Enter");
    browser.tab_to("text-in");
    browser.type_text("!");
    browser
        .wait_until_true("document.getElementById('problem-text').textContent.startsWith('サービスが応答しません。')");
    assert_eq!(browser.console_errors(), Vec::<String>::new());
}

#[test]
fn the_page_asks_for_the_key() {
    let server = Server::start_with_environment(place(), &["reviews"], &[("CHUMOKU_API_KEY", "open-sesame")]);
    let Some(mut browser) = Browser::start("en") else { return };
    browser.open(&format!("http://{}/", server.address));
    browser.wait_until_true("document.getElementById('key-dialog').open && document.activeElement.id === 'key-in'");
    assert_eq!(browser.eval("document.getElementById('key-wrong').hidden"), true);
    browser.type_text("sesame");
    browser.press("Enter");
    browser
        .wait_until_true("document.getElementById('key-dialog').open && !document.getElementById('key-wrong').hidden");
    assert_eq!(browser.text("document.getElementById('key-in').value"), "");
    browser.press("Escape");
    browser.wait_until_true(
        "document.getElementById('problem-text').textContent.startsWith('The service does not answer without')",
    );
    browser.tab_to("problem-again");
    browser.press("Enter");
    browser.wait_until_true("document.getElementById('key-dialog').open");
    browser.type_text("open-sesame");
    browser.press("Enter");
    browser.wait_until_true("document.documentElement.dataset.ready");
    browser.tab_to("text-in");
    browser.type_text(REVIEW);
    browser.wait_until_true("document.querySelector('#text-answer .verdict')");
    // It is kept as long as the tab is open, and is never part of an address.
    browser.call("Page.reload", json!({}));
    browser
        .wait_until_true("document.documentElement.dataset.ready && document.querySelector('#text-answer .verdict')");
    assert!(browser.requests().iter().all(|address| !address.contains("sesame")));
    assert_eq!(browser.eval("Object.keys(localStorage).length"), 0);
    assert_quiet(&mut browser, &server);
}
