//! The page as a whole: languages, themes, widths, panels that fit the models, and the interface for programs.

use super::*;

#[test]
fn both_languages_and_themes_at_every_width() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("screenshots");
    fs::create_dir_all(&folder).unwrap();
    let server = Server::start(place(), &ALL_MODELS);
    for (language, other, scheme, review) in
        [("en", "ja", "light", REVIEW), ("ja", "en", "dark", "遅くて冷たくて、お金を払う価値がありません。")]
    {
        let Some(mut browser) = open_page(&server, language) else { return };
        assert_eq!(browser.text("document.documentElement.lang"), language);
        let texts = "[...document.querySelectorAll('button, label > span, h2, h3, #serving')].map(n => n.textContent).join('|')";
        let before = browser.text(texts);
        assert_eq!(before.contains("翻訳"), language == "ja", "{before}");
        // Every panel is filled, then checked.
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
            open_panel(&mut browser, room);
            browser.tab_to(field);
            browser.replace_text(text);
            if !key.is_empty() {
                browser.press(key);
            }
            browser.wait_until_true(done);
        }
        browser.tab_to("table-go");
        browser.press("Enter");
        browser.wait_until_true("document.querySelector('#table-rows .told')");
        for (width, scheme) in [
            (1200, scheme),
            (360, scheme),
            (360, if scheme == "dark" { "light" } else { "dark" }),
            (1200, if scheme == "dark" { "light" } else { "dark" }),
        ] {
            browser.set_viewport(width, 900, scheme);
            browser.wait_until_true(&format!("document.documentElement.dataset.theme === '{scheme}'"));
            for room in ["text", "two", "translation", "writing", "table"] {
                open_panel(&mut browser, room);
                browser.wait_until_true(&format!("document.documentElement.scrollWidth <= {width}"));
                let light = if scheme == "light" { "rgb(245, 244, 240)" } else { "rgb(17, 21, 27)" };
                browser.wait_until_true(&format!("getComputedStyle(document.body).backgroundColor === '{light}'"));
                browser.wait_until_idle();
                browser.screenshot(&folder.join(format!("serve-{room}-{language}-{scheme}-{width}.png")));
            }
        }
        // The switch is remembered and overrides the browser's language; the theme likewise.
        browser.focus_first_button();
        browser.tab_to(&format!("lang-{other}"));
        browser.press("Enter");
        assert_eq!(browser.text("document.documentElement.lang"), other);
        assert_ne!(browser.text(texts), before);
        browser.tab_to("theme");
        browser.press("Enter");
        browser.press("Enter");
        assert_eq!(browser.text("document.documentElement.dataset.theme"), "dark");
        browser.set_viewport(1200, 900, "light");
        browser.call("Page.reload", json!({}));
        browser.wait_until_true("document.documentElement.dataset.ready");
        assert_eq!(
            browser.text("document.documentElement.lang + document.documentElement.dataset.theme"),
            format!("{other}dark")
        );
        assert_quiet(&mut browser, &server);
    }
    eprintln!("screenshots in {}", folder.display());
}

/// A change of language on one tab also reaches the explanation on another, which the browser does not render meanwhile.
#[test]
fn hidden_panels_follow_the_language() {
    let server = Server::start(place(), &["reviews", "words"]);
    let Some(mut browser) = open_page(&server, "en") else { return };
    open_panel(&mut browser, "text");
    browser.tab_to("text-in");
    browser.type_text(REVIEW);
    browser.wait_until_true("document.querySelector('#text-why iframe:not(.coming)')");
    open_panel(&mut browser, "translation");
    browser.focus_first_button();
    browser.tab_to("lang-ja");
    browser.press("Enter");
    open_panel(&mut browser, "text");
    browser.wait_until_true(
        "document.querySelectorAll('#text-why iframe').length === 1 && document.querySelector('#text-why iframe:not(.coming)')",
    );
    assert_eq!(in_frame(&mut browser, "document.documentElement.lang"), "ja");
    assert_quiet(&mut browser, &server);
}

#[test]
fn only_panels_for_the_models_are_shown() {
    let cases: [(&[&str], &[&str]); 5] = [
        (&["words"], &["translation"]),
        (&["book"], &["writing"]),
        (&["bert"], &["two"]),
        (&["pairs"], &["two", "table"]),
        (&["names", "words"], &["text", "two", "translation", "table"]),
    ];
    for (models, rooms) in cases {
        let server = Server::start(place(), models);
        let Some(mut browser) = open_page(&server, "en") else { return };
        let shown = browser.eval("[...document.querySelectorAll('[role=tab]:not([hidden])')].map(t => t.id.slice(4))");
        assert_eq!(shown, json!(rooms), "{models:?}");
        // A single model needs no selector.
        assert_eq!(browser.eval("[...document.querySelectorAll('.choice')].every(c => c.hidden)"), models.len() < 3);
        assert_quiet(&mut browser, &server);
    }
}

#[test]
fn requests_of_the_page_are_available_to_programs() {
    let server = Server::start(place(), &ALL_MODELS);
    // The page of an explanation equals the command's, except for the path of its model.
    let body = json!({ "inputs": REVIEW, "html": true, "model": "reviews" });
    let reply = server.post("/explain", &body);
    assert!(reply.status == 200 && reply.head.contains("text/html"), "{reply:?}");
    place().run(&["explain", "reviews", REVIEW, "--html", "why.html"]).assert_success();
    assert_eq!(reply.body, place().read("why.html"));
    // A translation stream ends with the translation; its words and weights match the last step.
    let body = json!({ "inputs": "dog and cat", "stream": true });
    let reply = server.post("/translate", &body);
    let events: Vec<&str> = reply.body.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect();
    assert_eq!(events.last(), Some(&"[DONE]"));
    let events: Vec<Value> =
        events[..events.len() - 1].iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let whole = server.post_json("/translate", &json!({ "inputs": ["dog and cat"] }));
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
        server.post_rejected("/translate", &body, 422, "Validation");
    }
    // Streamed tokens have the model's probability, independent of the temperature.
    let streamed = |temperature: f64| {
        let body = json!({ "inputs": "the cat", "stream": true, "max_tokens": 1, "temperature": temperature });
        let reply = server.post("/generate", &body).body;
        serde_json::from_str::<Value>(reply.split("\n\n").next().unwrap().strip_prefix("data: ").unwrap()).unwrap()
    };
    let explained = server.post_json("/explain", &json!({ "inputs": "the cat", "model": "book" }));
    let likeliest = explained["probabilities"][0]["probability"].as_f64().unwrap();
    assert!((streamed(0.0)["probability"].as_f64().unwrap() - likeliest).abs() < 1e-3, "{likeliest}");
    let info = server.get("/info").json();
    assert_eq!((&info["max_new_tokens"], &info["max_body_bytes"]), (&json!(1024), &json!(2_000_000)));
}

#[test]
fn browsers_get_the_page_and_programs_the_list() {
    let server = Server::start_with_environment(place(), &["reviews"], &[("CHUMOKU_API_KEY", "secret")]);
    let get = |accept: &str, more: &str| {
        server.send(format!("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n{more}\r\n").as_bytes())
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
    get("*/*", "").assert_error(401, "Unauthorized");
    assert_eq!(get("*/*", "Authorization: Bearer secret\r\n").json()["models"], json!(["reviews"]));
    // Another machine's host name gets no page either.
    let other = server.send(b"GET / HTTP/1.1\r\nHost: evil.example\r\nAccept: text/html\r\n\r\n");
    other.assert_error(403, "Validation");
}
