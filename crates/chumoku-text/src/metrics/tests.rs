//! Tests of the metrics: agreement with sacreBLEU, properties of arbitrary texts, and errors.

use super::*;
use proptest::prelude::*;
use serde_json::Value;
use std::path::Path;

const TOKENIZERS: [BleuTokenizer; 2] = [BleuTokenizer::V13a, BleuTokenizer::Char];

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn close(what: &str, found: f64, expected: &Value) {
    let expected = expected.as_f64().unwrap();
    assert!((found - expected).abs() <= 1e-9, "{what}: {found} is not {expected}");
}

/// Removes the version from a signature.
fn unversioned(signature: &str) -> &str {
    signature.rsplit_once("|version:").unwrap().0
}

/// Calls `check` for each case of the golden file: its name, hypotheses, reference sets and JSON.
fn golden(check: impl Fn(&str, &[&str], &[&[&str]], &Value)) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/metrics/translation.json");
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let cases = file["cases"].as_array().unwrap();
    for case in cases {
        let references: Vec<Vec<&str>> = case["references"].as_array().unwrap().iter().map(strings).collect();
        let references: Vec<&[&str]> = references.iter().map(Vec::as_slice).collect();
        check(case["name"].as_str().unwrap(), &strings(&case["hypotheses"]), &references, case);
    }
    cases.len()
}

#[test]
fn bleu_matches_sacrebleu() {
    let cases = golden(|name, hypotheses, references, case| {
        for tokenizer in TOKENIZERS {
            let expected = &case["bleu"][tokenizer.name()];
            let name = format!("{name}, {}", tokenizer.name());
            let tokens: Vec<String> = hypotheses.iter().map(|line| tokenizer.tokenize(line)).collect();
            assert_eq!(tokens, strings(&expected["tokens"]), "{name}");
            let bleu = Bleu::new(tokenizer);
            let found = bleu.corpus(hypotheses, references).unwrap();
            let counts = found.counts;
            assert_eq!(counts.matches.map(|n| n as f64).to_vec(), numbers(&expected["matches"]), "{name}");
            assert_eq!(counts.totals.map(|n| n as f64).to_vec(), numbers(&expected["totals"]), "{name}");
            assert_eq!(Value::from(counts.hypothesis_length), expected["hypothesis_length"], "{name}");
            assert_eq!(Value::from(counts.reference_length), expected["reference_length"], "{name}");
            close(&name, found.score, &expected["score"]);
            close(&name, found.brevity_penalty, &expected["brevity_penalty"]);
            for (precision, expected) in found.precisions.iter().zip(expected["precisions"].as_array().unwrap()) {
                close(&name, *precision, expected);
            }
            assert_eq!(found.to_string(), expected["text"], "{name}");
            let signature = bleu.signature(references.len());
            assert_eq!(unversioned(&signature), unversioned(expected["signature"].as_str().unwrap()));
            assert!(signature.ends_with(&format!("|version:chumoku-{}", env!("CARGO_PKG_VERSION"))));
        }
    });
    assert_eq!(cases, 28);
}

#[test]
fn chrf_matches_sacrebleu() {
    golden(|name, hypotheses, references, case| {
        let expected = &case["chrf"]["0"];
        let found = Chrf.corpus(hypotheses, references).unwrap();
        close(name, found.score, &expected["score"]);
        assert_eq!(found.to_string(), expected["text"], "{name}");
        let signature = Chrf.signature(references.len());
        assert_eq!(unversioned(&signature), unversioned(expected["signature"].as_str().unwrap()));
    });
}

#[test]
fn lines_without_a_counterpart_are_an_error() {
    let (two, three, none): ([&str; 2], [&str; 3], [&str; 0]) = (["a", "b"], ["a", "b", "c"], []);
    let bleu =
        |hypotheses: &[&str], references: &[&[&str]]| Bleu::default().corpus(hypotheses, references).unwrap_err();
    let unpaired = |hypotheses, references, line, longer: &str| MetricError::Unpaired {
        hypotheses,
        references,
        line,
        longer: longer.to_owned(),
    };
    assert_eq!(bleu(&two, &[&three]), unpaired(2, 3, 3, "references"));
    assert_eq!(bleu(&three, &[&two]), unpaired(3, 2, 3, "hypotheses"));
    assert_eq!(bleu(&two, &[&two, &three]), unpaired(2, 3, 3, "references (set 2)"));
    assert_eq!(bleu(&two, &[&none]), unpaired(2, 0, 1, "hypotheses"));
    assert_eq!(bleu(&none, &[&none]), MetricError::NoLines);
    assert_eq!(bleu(&two, &[]), MetricError::NoReferences);
    let error = Chrf.corpus(&two, &[&three]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "scoring translations: expected as many references as hypotheses, found 3 and 2: line 3 of the references has \
         no partner"
    );
}

#[test]
fn a_line_without_references_matches_nothing() {
    let counts = Bleu::default().count("a b", &[] as &[&str]);
    assert_eq!((counts.matches, counts.totals, counts.reference_length), ([0; 4], [2, 1, 0, 0], 0));
    assert_eq!(Chrf.count("a b", &[] as &[&str]).score().score, 0.0);
}

/// A line of characters that the tokenizers treat specially.
fn line() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        proptest::sample::select(" \u{3000}\t\u{1c}abcあ語。😊é0159.,-'\"&;!?()".chars().collect::<Vec<_>>()),
        0..30,
    )
    .prop_map(String::from_iter)
}

proptest! {
    #[test]
    fn scores_stay_in_their_range(lines in proptest::collection::vec((line(), line()), 1..6)) {
        let (hypotheses, references): (Vec<String>, Vec<String>) = lines.into_iter().unzip();
        for tokenizer in TOKENIZERS {
            let found = Bleu::new(tokenizer).corpus(&hypotheses, &[&references]).unwrap();
            prop_assert!((0.0..=100.000_001).contains(&found.score), "{}", found);
            prop_assert!((0.0..=1.0).contains(&found.brevity_penalty));
            prop_assert!(found.counts.matches.iter().zip(&found.counts.totals).all(|(matches, total)| matches <= total));
        }
        let found = Chrf.corpus(&hypotheses, &[&references]).unwrap();
        prop_assert!((0.0..=100.000_001).contains(&found.score), "{}", found);
    }

    #[test]
    fn a_text_scores_100_against_itself(lines in proptest::collection::vec(line(), 1..6), other in line()) {
        let same: Vec<String> = lines.iter().map(|text| format!("{text} four more words here")).collect();
        let others = vec![other; same.len()];
        // A second, worse reference does not lower the score.
        for sets in [vec![same.as_slice()], vec![others.as_slice(), same.as_slice()]] {
            let score = Bleu::default().corpus(&same, &sets).unwrap().score;
            prop_assert!((score - 100.0).abs() < 1e-9 && score <= 100.0, "BLEU {}", score);
            let score = Chrf.corpus(&same, &sets).unwrap().score;
            prop_assert!((score - 100.0).abs() < 1e-9, "chrF2 {}", score);
        }
    }

    #[test]
    fn the_order_of_lines_does_not_matter(
        (lines, shuffled) in proptest::collection::vec((line(), line()), 1..6)
            .prop_flat_map(|lines| (Just(lines.clone()), Just(lines).prop_shuffle())),
    ) {
        let score = |lines: &[(String, String)]| {
            let (hypotheses, references): (Vec<&String>, Vec<&String>) = lines.iter().map(|(h, r)| (h, r)).unzip();
            let bleu = Bleu::default().corpus(&hypotheses, &[&references]).unwrap();
            (bleu, Chrf.corpus(&hypotheses, &[&references]).unwrap())
        };
        prop_assert_eq!(score(&lines), score(&shuffled));
    }

    #[test]
    fn tokenizers_keep_every_character_except_spaces(text in line(), tail in line()) {
        // Entities become characters, so the text must not contain any.
        let text = format!("{text}{tail}").replace('&', "+");
        let kept = |text: &str| text.chars().filter(|&c| !is_space(c)).collect::<String>();
        for tokenizer in TOKENIZERS {
            let tokens = tokenizer.tokenize(&text);
            prop_assert_eq!(kept(&tokens), kept(&text));
            prop_assert_eq!(words(&tokens).collect::<Vec<_>>().join(" "), tokens);
        }
    }
}
