//! The terminal output of `trace` and `explain`, as it was reviewed. `CHUMOKU_UPDATE=1` rewrites the files of
//! `tests/snapshots`; review the difference. The files write an escape character as `␛`.

use crate::common::{strip, terminal, with};
use chumoku_trace::{Trace, TraceDetail, TraceOptions, builtin};
use chumoku_view::{ColorDepth, Lang, TerminalOptions, render, render_alignment};
use std::path::Path;
use unicode_width::UnicodeWidthStr;

/// Compares output with its files: at two widths, with and without color, in the given languages.
fn assert_snapshots(name: &str, languages: &[Lang], show: impl Fn(&TerminalOptions) -> String) {
    for &lang in languages {
        for width in [80, 120] {
            for (color, ending) in [(ColorDepth::None, ""), (ColorDepth::Ansi256, "-colour")] {
                let text = show(&terminal(width, color, lang));
                let plain = strip(&text);
                assert_eq!(plain == text, color == ColorDepth::None, "{name}: escapes are color, and color escapes");
                for line in plain.lines() {
                    assert!(line.width() <= width, "{name}: {} columns instead of {width}: {line}", line.width());
                    assert!(line == line.trim_end() && !line.chars().any(char::is_control), "{name}: {line:?}");
                }
                assert_snapshot(&format!("{name}-{}-{width}{ending}", lang.code()), &text);
            }
        }
    }
}

fn assert_snapshot(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/snapshots/{name}.txt"));
    assert!(!text.contains('␛'), "{name}");
    let text = text.replace('\u{1b}', "␛");
    if std::env::var_os("CHUMOKU_UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    let differs = found.lines().zip(text.lines()).position(|(a, b)| a != b);
    let line = differs.unwrap_or(found.lines().count().min(text.lines().count()));
    assert!(
        found == text,
        "{}: line {} is\n{}\ninstead of\n{}\nrun this test with CHUMOKU_UPDATE=1 and look at the difference",
        path.display(),
        line + 1,
        text.lines().nth(line).unwrap_or("the end"),
        found.lines().nth(line).unwrap_or("the end"),
    );
}

const BOTH: [Lang; 2] = [Lang::En, Lang::Ja];

fn assert_trace(name: &str, trace: &Trace, depth: TraceDetail) {
    assert_snapshots(name, &BOTH, |&TerminalOptions { width, color, lang, .. }| {
        trace.to_text(&with(TraceOptions::default(), |o| {
            (o.depth, o.lang, o.width, o.color) = (depth, lang, width, color)
        }))
    });
}

#[test]
fn trace_of_an_example() {
    assert_trace("trace", &builtin("causal").unwrap().trace(0).unwrap(), TraceDetail::All);
}

#[test]
fn trace_with_nan_and_infinities() {
    assert_trace("trace-odd", &crate::common::traces::odd(), TraceDetail::All);
}

#[test]
fn trace_of_one_token() {
    assert_trace("trace-one", &crate::common::traces::one_token(), TraceDetail::All);
}

#[test]
fn trace_of_a_model_wider_than_the_terminal() {
    let mut trace = crate::common::traces::wide();
    assert_trace("trace-steps", &trace, TraceDetail::Steps);
    // The weights, and the widest matrices.
    trace.steps.retain(|step| ["X", "masked", "weights"].contains(&step.name()));
    assert_trace("trace-wide", &trace, TraceDetail::All);
}

#[test]
fn explanation_of_a_text() {
    for (lang, explanation) in [(Lang::En, crate::common::english()), (Lang::Ja, crate::common::japanese())] {
        assert_snapshots("explain", &[lang], |options| render(&explanation, 1, 2, options));
    }
}

#[test]
fn explanation_of_a_translation() {
    assert_snapshots("alignment", &BOTH, |options| render_alignment(&crate::common::alignment(), None, options));
}
