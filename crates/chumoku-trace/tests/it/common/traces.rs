//! Traces for tests, and a reader for their numbers.

use chumoku_trace::{Agreement, AttentionKind, HeadLocation, Trace, Truncation, WorkedExample};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// A trace with everything that is hard to show: 2 queries over 3 keys, a row without visible keys, NaN, ∞, and words
/// with HTML markup.
pub(crate) fn odd() -> Trace {
    WorkedExample::parse(ODD).unwrap().trace(0).unwrap()
}

/// The file of [`odd`].
pub(crate) const ODD: &str = r#"{
        "title": "<b>&</b> \\input{x} $ | * _", "source": "a </script> b", "tokens": ["</td><script>alert(1)</script>", "\u202eabc"],
        "key_tokens": ["a|b", "50% #_{}", "令和"],
        "inputs": {"Q": [[1, "nan"], [2, 0.5]], "K": [[1, 0], ["inf", 1], [3, 1]], "V": [[1, 2, 3, 4], [5, 6, 7, 8], [9, 1, 2, 3]]},
        "options": {"mask": [[false, false, false], [true, false, true]]}}"#;

/// Given scores with ∞, −∞ and NaN, one row for each.
pub(crate) fn infinite() -> Trace {
    WorkedExample::parse(INFINITE).unwrap().trace(0).unwrap()
}

/// The file of [`infinite`].
pub(crate) const INFINITE: &str = r#"{"title": "Infinite",
    "inputs": {"scores": [["inf", 1], ["-inf", "-inf"], [2, "nan"], [0, -0.5]], "V": [[1], ["-inf"]]}, "options": {"d_k": 1}}"#;

/// One token of width 1.
pub(crate) fn one_token() -> Trace {
    let file =
        r#"{"title": "One", "tokens": ["一"], "inputs": {"X": [[2]], "W_Q": [[3]], "W_K": [[-1]], "W_V": [[0.5]]}}"#;
    WorkedExample::parse(file).unwrap().trace(0).unwrap()
}

/// A published model of the golden files, with words as tokens: "t7" is token 7.
pub(crate) fn published_folder(name: &str) -> tempfile::TempDir {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/pretrained").join(name);
    let folder = tempfile::tempdir().unwrap();
    for name in ["config.json", "model.safetensors"] {
        std::fs::copy(golden.join(name), folder.path().join(name)).unwrap();
    }
    let vocab: serde_json::Map<String, Value> = (0..50).map(|id| (format!("t{id}"), id.into())).collect();
    let tokenizer = json!({
        "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": { "type": "WhitespaceSplit" },
        "post_processor": null, "decoder": null,
        "model": { "type": "WordLevel", "vocab": vocab, "unk_token": "t0" },
    });
    std::fs::write(folder.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    folder
}

/// A trace like that of a model, wider than any terminal: 30 words in two scripts, causal attention, width 24.
pub(crate) fn wide() -> Trace {
    let mut numbers = super::Numbers::new(30);
    let words: Vec<String> =
        (0..30).map(|i| ["注目", "attention", "は", "サウンドトラック", "you"][i % 5].to_owned()).collect();
    let mut matrix = |rows: usize, columns: usize| {
        let mut number = || (f64::from(numbers.next()) - 0.5) * 3.0;
        let rows: Vec<Vec<f64>> = (0..rows).map(|_| (0..columns).map(|_| number()).collect()).collect();
        format!("{rows:?}")
    };
    let mut file =
        format!("{{\"title\": \"reviews-model\", \"source\": \"{}\", \"tokens\": {words:?}", words.join(" "));
    let _ = write!(file, ", \"inputs\": {{\"X\": {}", matrix(30, 24));
    for name in ["W_Q", "W_K", "W_V"] {
        let _ = write!(file, ", \"{name}\": {}", matrix(24, 24));
    }
    let _ = write!(
        file,
        ", \"W_O\": {}}}, \"options\": {{\"causal\": true, \"num_heads\": 2, \"norm\": \"pre\"}}}}",
        matrix(24, 24)
    );
    let mut trace = WorkedExample::parse(&file).unwrap().trace(1).unwrap();
    trace.place = Some(HeadLocation { attention: AttentionKind::Causal, layer: 2, head: 1 });
    trace.truncation = Some(Truncation { read: 30, tokens: 47, is_end: true });
    trace.agreements = vec![Agreement {
        precision: "highest".into(),
        largest_differences: vec![("weights", 1.5e-8), ("residual", 2.1e-7)],
        largest_gradient_differences: Vec::new(),
    }];
    trace
}

/// Returns the figure of each step on a trace's page, in the order of the trace.
pub(crate) fn figures<'a>(page: &'a str, trace: &Trace) -> Vec<&'a str> {
    let program = super::browser::between(page, "id=\"program\">", "</script>");
    let program: serde_json::Value = serde_json::from_str(program).unwrap();
    let all = program["steps"].as_array().unwrap();
    let figure = |symbol: &str| {
        let step = all.iter().find(|step| step["sym"] == symbol && step["at"].is_string());
        let at = step.unwrap_or_else(|| panic!("no {symbol}"))["at"].as_str().unwrap();
        super::browser::between(page, &format!("\" id=\"{at}\"><figcaption>"), "</figure>")
    };
    trace.steps.iter().map(|step| figure(&step.symbol)).collect()
}

/// A script that reads a trace's page. `shown` returns the formula, the equation with all its numbers, and the expansion
/// of each step. Remainders of cancellation count as zero: they come from the last digit of an exponential. `put` changes
/// an input, and `edited` tells the state of the page.
pub(crate) const SHOWN: &str = "
    const bare = e => e.textContent.replace(/\\s+/g, '');
    const cells = e => [...e.querySelectorAll('.op, figcaption, th, td')].map(bare).join(' ');
    const shown = () => all('.step:not([hidden])').map(d => d.querySelector('h3').id + ': '
      + [...d.querySelectorAll('.formula, .expanded')].map(bare).join(' | ') + [...d.querySelectorAll('.eq')].map(cells).join(' | '))
      .map(line => line.replace(/\\(?-?\\d(\\.\\d+)?e-(1[5-9]|2\\d)\\)?/g, '0'));
    const put = (at, i, j, text) => { const cell = document.getElementById(at).querySelectorAll('tbody tr')[i].querySelectorAll('td')[j];
      cell.focus(); cell.textContent = text; cell.dispatchEvent(new Event('input')); cell.blur(); };
    const edited = () => [document.body.classList.contains('edited') ? 'edited' : '', $('#undo').disabled, $('#bad').hidden, all('.bad').length].join();";

/// Parses a number in the spelling of any form.
pub(crate) fn number(text: &str) -> f64 {
    match text.trim() {
        "∞" | "\\infty" => f64::INFINITY,
        "-∞" | "-\\infty" => f64::NEG_INFINITY,
        "NaN" | "\\mathrm{NaN}" => f64::NAN,
        text => text
            .replace("\\cdot 10^{", "e")
            .trim_end_matches('}')
            .parse()
            .unwrap_or_else(|_| panic!("no number: {text:?}")),
    }
}
