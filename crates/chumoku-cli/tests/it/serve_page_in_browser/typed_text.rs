//! Generated output: translations and texts that grow word by word.

use super::*;

#[test]
fn a_translation_grows_with_its_alignment() {
    let server = Server::start(place(), &ALL_MODELS);
    let Some(mut browser) = open_page(&server, "en") else { return };
    open_panel(&mut browser, "translation");
    browser.tab_to("translation-in");
    browser.type_text("dog and cat");
    // An observer records each change of the growing text.
    browser.eval("self.grown = []; new MutationObserver(() => grown.push(document.getElementById('translation-target').children.length)).observe(document.getElementById('translation-target'), { childList: true })");
    browser.press("Ctrl+Enter");
    let printed = server.post_json("/translate", &json!({ "inputs": ["dog and cat"] }));
    let translation = printed[0]["translation"].as_str().unwrap();
    browser.wait_until_true(&format!("document.getElementById('translation-out').getAttribute('aria-busy') === 'false' && document.getElementById('translation-text').textContent === {}", json!(translation)));
    let words = browser.eval("[...document.querySelectorAll('#translation-target .token')].map(t => t.textContent)");
    let grown = browser.eval("grown");
    assert!(
        grown.as_array().unwrap().iter().any(|n| *n == 1) && words.as_array().unwrap().len() > 1,
        "{grown} {words}"
    );
    let source = browser.eval("[...document.querySelectorAll('#translation-source .token')].map(t => t.textContent)");
    let explained = server.post_json("/explain", &json!({ "inputs": "dog and cat", "model": "words" }));
    let named = |side: &str| explained[side].as_array().unwrap().iter().map(|w| w["text"].clone()).collect::<Vec<_>>();
    assert_eq!(source, json!(named("source_words")));
    // The last word of the explanation is the end.
    assert_eq!(words, json!(named("target_words").split_last().unwrap().1));
    // The weights of the first word are the mean over all heads of the explained alignment.
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
            .text("document.getElementById('translation-readout').textContent")
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
    browser.wait_until_true("document.querySelector('#translation-why iframe:not(.coming)')");
    assert_eq!(in_frame(&mut browser, "document.documentElement.dataset.framed"), "translator");
    assert_quiet(&mut browser, &server);
}

#[test]
fn a_text_is_generated_token_by_token() {
    let server = Server::start(place(), &ALL_MODELS);
    let Some(mut browser) = open_page(&server, "en") else { return };
    open_panel(&mut browser, "writing");
    browser.tab_to("writing-in");
    browser.type_text("the cat");
    browser.tab_to("writing-most");
    browser.replace_text("12");
    browser.tab_to("writing-seed");
    browser.replace_text("5");
    browser.tab_to("writing-go");
    browser.press("Enter");
    browser.wait_until_true("document.getElementById('writing-out').getAttribute('aria-busy') === 'false'");
    let body = json!({ "inputs": "the cat", "max_tokens": 12, "seed": 5, "model": "book" });
    let whole = server.post_json("/generate", &body);
    let written = browser.text("document.getElementById('writing-text').textContent");
    assert_eq!(written, format!("the cat{}", whole["text"].as_str().unwrap()));
    // Each token's probability matches the explanation of the preceding text.
    let tokens =
        browser.eval("[...document.querySelectorAll('#writing-text .token')].map(t => [t.textContent, t.title])");
    let tokens = tokens.as_array().unwrap();
    assert!(tokens.len() > 5, "{tokens:?}");
    let explained = server.post_json("/explain", &json!({ "inputs": "the cat", "model": "book" }));
    let likely =
        explained["probabilities"].as_array().unwrap().iter().map(|p| percent(&p["probability"])).collect::<Vec<_>>();
    assert!(likely.iter().any(|p| json!(p) == tokens[0][1]), "{likely:?} {}", tokens[0]);
    browser.tab_to("writing-text");
    browser.press("Home");
    browser.press("ArrowRight");
    let text = browser.text("document.getElementById('writing-readout').textContent");
    assert_eq!(
        text,
        format!(
            "Token 2 of {}: “{}”, {}",
            tokens.len(),
            tokens[1][0].as_str().unwrap().replace('\n', "↵"),
            tokens[1][1].as_str().unwrap()
        )
    );
    assert_quiet(&mut browser, &server);
}

#[test]
fn a_long_text_can_be_stopped() {
    let hold = HoldPoint::at("piece:6");
    let server = Server::start_held(place(), &ALL_MODELS, &hold);
    let Some(mut browser) = open_page(&server, "en") else { return };
    open_panel(&mut browser, "writing");
    browser.tab_to("writing-in");
    browser.type_text("the cat");
    browser.tab_to("writing-most");
    browser.replace_text("1024");
    browser.tab_to("writing-temperature");
    for _ in 0..7 {
        browser.press("ArrowRight");
    }
    browser.tab_to("writing-go");
    browser.press("Enter");
    browser.wait_until_true("document.querySelectorAll('#writing-text .token').length > 3");
    browser.press("Tab");
    browser.press("Enter");
    assert_eq!(browser.text("document.getElementById('writing-readout').textContent"), "Stopped.");
    let count = browser.eval("document.querySelectorAll('#writing-text .token').length");
    // The model generates one more token before it notices that the client has disconnected.
    hold.release();
    server.wait_for_line("aborted");
    browser.wait_until_idle();
    assert_eq!(browser.eval("document.querySelectorAll('#writing-text .token').length"), count);
    assert_quiet(&mut browser, &server);
}
