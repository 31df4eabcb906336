//! The page of errors in a real browser, and errors in a terminal.
//!
//! Needs Chromium or Chrome on the path. Without one, the test of the page prints a notice and passes.

use crate::common::browser::visit;
use chumoku::explain::{
    ConfidentError, Confusion, ErrorAnalysis, ErrorGroup, ErrorKind, HighlightedWord, LabelErrors, WrongAnswer,
};
use chumoku_view::{ColorDepth, Lang, errors_to_html, render_errors};
use unicode_width::UnicodeWidthStr;

fn error(line: u64, words: &[(&str, f32)]) -> ConfidentError {
    let word =
        |&(text, effect): &(&str, f32)| HighlightedWord { text: text.into(), effect: Some(effect), is_spaced: true };
    ConfidentError {
        line,
        text: words.iter().map(|(text, _)| *text).collect::<Vec<_>>().join(" ").into(),
        answer: WrongAnswer::Class {
            truth: "<b>positive".into(),
            answer: "negative".into(),
            probability: 0.987,
            probability_of_truth: 0.013,
        },
        words: words.iter().map(word).collect(),
    }
}

fn errors() -> ErrorAnalysis {
    let long: Vec<(String, f32)> = (0..300).map(|i| (format!("word{i}"), if i == 200 { 3.0 } else { -0.1 })).collect();
    let long: Vec<(&str, f32)> = long.iter().map(|(text, effect)| (text.as_str(), *effect)).collect();
    ErrorAnalysis {
        model: "<model>".into(),
        rows: 40,
        wrong: 3,
        accuracy: 0.925,
        method: "leave-one-out".into(),
        unit: "change in log-odds when the word is removed".into(),
        is_network_alone: false,
        confusions: vec![Confusion { truth: "<b>positive".into(), answer: "negative".into(), rows: 3, of: 12 }],
        groups: vec![ErrorGroup { word: "not".into(), errors: vec![0, 1] }],
        alone: vec![2],
        errors: vec![
            error(
                7,
                &[("It", 0.1), ("was", 0.0), ("not", 2.0), ("</script><script>document.title='owned'</script>", -1.0)],
            ),
            error(9, &[("Not", 1.0), ("bad\u{1b}[31m", 0.75)]),
            error(11, &long),
        ],
        ..ErrorAnalysis::default()
    }
}

/// The same errors for missed and wrongly assigned labels.
fn of_labels() -> ErrorAnalysis {
    let mut errors = errors();
    let label = |missed| WrongAnswer::Label { label: "<b>food".into(), missed, probability: 0.987 };
    errors.errors.iter_mut().zip([false, true, false]).for_each(|(error, missed)| error.answer = label(missed));
    let of = LabelErrors { label: "<b>food".into(), missed: 1, of: 12, extra: 2, of_others: 28 };
    ErrorAnalysis { kind: ErrorKind::Labels, confusions: vec![], labels: vec![of], ..errors }
}

/// The same errors for numbers.
fn of_numbers() -> ErrorAnalysis {
    let mut errors = errors();
    let number = |truth| WrongAnswer::Number { truth, score: 2.5, low: 2.0, high: 3.25, off: 3.0 };
    errors.errors.iter_mut().zip([4.75, 0.25, 4.75]).for_each(|(error, truth)| error.answer = number(truth));
    ErrorAnalysis { kind: ErrorKind::Numbers, confusions: vec![], points: vec![[4.75, 2.5], [0.25, 2.5]], ..errors }
}

/// Labels and numbers replace classes, names of labels are plain text, and a page without errors works.
#[test]
fn pages_of_labels_and_numbers_send_no_request_in_both_languages() {
    for (errors, expected) in [
        (of_labels(), ["extra", "余分", "付け忘れ", "3 of 40 rows have wrong labels"]),
        (of_numbers(), ["too low", "低すぎる", "2 to 3.25", "3 of 40 true numbers lie outside"]),
    ] {
        let page = errors_to_html(&errors, Lang::En);
        let Some(visit) = visit(&page, "", &["--dump-dom".into()]) else { return };
        assert_eq!(visit.said, "", "the console is silent");
        assert!(visit.requests.is_empty(), "{:?}", visit.requests);
        let list = visit.out.split_once("id=\"errors\"").unwrap().1.split_once("</section>").unwrap().0.to_owned();
        for word in expected {
            assert!(list.contains(word), "{word}: {list}");
        }
        assert!(!list.contains("<b>food") && list.matches("<article>").count() == 3, "{list}");
    }
    for (kind, said) in [(ErrorKind::Labels, "100.0 % are right."), (ErrorKind::Numbers, "100.0 % lie inside.")] {
        let none = ErrorAnalysis {
            kind,
            rows: 2,
            accuracy: 1.0,
            points: vec![[1.0, 1.0], [2.0, 2.0]],
            ..ErrorAnalysis::default()
        };
        assert!(errors_to_html(&none, Lang::En).contains(said));
        assert!(render_errors(&none, &chumoku_view::TerminalOptions::default()).ends_with(&format!("{said}\n")));
    }
}

#[test]
fn terminal_shows_labels_and_numbers_within_its_width() {
    for (lang, width) in [(Lang::En, 80), (Lang::Ja, 80), (Lang::En, 50)] {
        let mut options = chumoku_view::TerminalOptions::default();
        (options.width, options.lang) = (width, lang);
        for errors in [of_labels(), of_numbers()] {
            let text = render_errors(&errors, &options);
            assert!(text.lines().all(|line| line.width() <= width), "{text}");
        }
    }
    let options = chumoku_view::TerminalOptions::default();
    let labels = render_errors(&of_labels(), &options);
    for expected in
        ["       1          2  <b>food  (12 rows have it)", "1. line 7: <b>food: extra  98.7 %", "<b>food: missed 1"]
    {
        assert!(labels.contains(expected), "{expected}: {labels}");
    }
    let numbers = render_errors(&of_numbers(), &options);
    for expected in ["too low 1", "too high 1", "1. line 7: 4.75 → 2.5  2 to 3.25; error 3.0 × the longer side"] {
        assert!(numbers.contains(expected), "{expected}: {numbers}");
    }
}

#[test]
fn errors_page_sends_no_request_in_both_languages() {
    for (lang, hash, words) in [
        (Lang::En, "", ["3 of 40 rows are wrong: accuracy 92.5 %.", "“not”: 2 errors"]),
        (Lang::En, "lang=ja&theme=dark", ["40 行中 3 行が誤り", "「not」：2 件"]),
    ] {
        let page = errors_to_html(&errors(), lang);
        assert!(!page.contains(" style=") && page.contains("default-src 'none'"));
        let Some(visit) = visit(&page, hash, &["--dump-dom".into()]) else { return };
        assert_eq!(visit.said, "", "the console is silent");
        assert!(visit.requests.is_empty(), "{:?}", visit.requests);
        let dom = visit.out;
        assert!(!dom.split_once("<title>").unwrap().1.starts_with("owned"));
        let list = dom.split_once("id=\"errors\"").unwrap().1.split_once("</section>").unwrap().0;
        let hidden = if hash.is_empty() { "ja" } else { "en" };
        for word in words {
            let (before, _) = list.split_once(word).unwrap_or_else(|| panic!("{word}: {list}"));
            assert!(before.ends_with("\">") && !before.ends_with("hidden=\"\">"), "{word} is shown: {list}");
        }
        assert!(list.contains(&format!("data-lang=\"{hidden}\" hidden=\"\">")));
        assert!(list.contains("<span class=\"w8\" title=\"+2.00\">not</span>"), "{list}");
        assert!(list.contains("class=\"v4\" title=\"-1.00\""), "{list}");
        assert_eq!(list.matches("<article>").count(), 3);
        assert!(list.contains("&lt;b&gt;positive") && !list.contains("<b>positive"));
    }
}

#[test]
fn terminal_shows_each_error_within_its_width() {
    for (lang, width) in [(Lang::En, 80), (Lang::Ja, 80), (Lang::En, 50)] {
        let mut options = chumoku_view::TerminalOptions::default();
        (options.width, options.lang) = (width, lang);
        let text = render_errors(&errors(), &options);
        assert!(text.lines().all(|line| line.width() <= width), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        // The word that caused an error has a number, and a long text shows what is around that word.
        for expected in ["not(+2.00)", "Not(+1.00)", "word200(+3.00)", "word195", "word210", "98.7 %"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains("word100") && !text.contains("word0 "), "{text}");
        options.color = ColorDepth::Ansi16;
        assert!(render_errors(&errors(), &options).contains("\u{1b}[94mnot(+2.00)\u{1b}[0m"));
    }
    let english = render_errors(&errors(), &chumoku_view::TerminalOptions::default());
    for expected in
        ["“not”: 2 errors", "No word in common: 1 error", "(25 % of 12)", "2. line 9: <b>positive → negative"]
    {
        assert!(english.contains(expected), "{expected}: {english}");
    }
    let none = ErrorAnalysis {
        wrong: 0,
        accuracy: 1.0,
        confusions: vec![],
        groups: vec![],
        alone: vec![],
        errors: vec![],
        ..errors()
    };
    assert_eq!(
        render_errors(&none, &chumoku_view::TerminalOptions::default()),
        "0 of 40 rows are wrong: accuracy 100.0 %.\n"
    );
    assert!(errors_to_html(&none, Lang::Ja).contains("40 行中 0 行が誤り"));
}
