//! Checks generated worked examples, whose true numbers are computed again here in plain loops.

use crate::common::draw::Draw;
use chumoku_trace::{CheckReport, ClaimVerdict, WorkedExample};
use std::fmt::Write;

type Matrix = Vec<Vec<f64>>;

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    let column = |j: usize| b.iter().map(move |row| row[j]);
    a.iter().map(|row| (0..b[0].len()).map(|j| row.iter().zip(column(j)).map(|(x, y)| x * y).sum()).collect()).collect()
}

fn transposed(a: &Matrix) -> Matrix {
    (0..a[0].len()).map(|j| a.iter().map(|row| row[j]).collect()).collect()
}

/// Returns a matrix of numbers with few digits, as people write them.
fn matrix(draw: &mut Draw, rows: usize, columns: usize) -> Matrix {
    let mut number = || (draw.unit() * 40.0 - 20.0).round() / 10.0;
    (0..rows).map(|_| (0..columns).map(|_| number()).collect()).collect()
}

/// The steps of an example; those before `first` are given, and the others are computed from each other.
const STEPS: [&str; 7] = ["Q", "K", "V", "scores", "scaled", "weights", "output"];

struct Example {
    inputs: Vec<(&'static str, Matrix)>,
    causal: bool,
    /// In the order of [`STEPS`].
    steps: Vec<Matrix>,
}

impl Example {
    fn new(draw: &mut Draw) -> Example {
        // Neither square nor symmetric, so a transposed matrix would be noticed.
        let [n, d_model, d_k, d_v] = [2 + draw.below(4), 2 + draw.below(4), 1 + draw.below(4), 1 + draw.below(4)];
        let shapes = [("X", n, d_model), ("W_Q", d_model, d_k), ("W_K", d_model, d_k), ("W_V", d_model, d_v)];
        let inputs = shapes.map(|(name, rows, columns)| (name, matrix(draw, rows, columns))).to_vec();
        let mut example = Example { inputs, causal: draw.below(2) == 1, steps: Vec::new() };
        (0..STEPS.len()).for_each(|step| example.compute(step));
        example
    }

    /// Computes a step from the previous ones.
    fn compute(&mut self, step: usize) {
        let (inputs, steps) = (&self.inputs, &self.steps);
        let value = match STEPS[step] {
            "Q" | "K" | "V" => product(&inputs[0].1, &inputs[1 + step].1),
            "scores" => product(&steps[0], &transposed(&steps[1])),
            "scaled" => {
                let root = (steps[0][0].len() as f64).sqrt();
                steps[3].iter().map(|row| row.iter().map(|x| x / root).collect()).collect()
            }
            "weights" => {
                let row = |(i, row): (usize, &Vec<f64>)| {
                    let seen = |j: usize| !self.causal || j <= i;
                    let most = row.iter().enumerate().filter(|(j, _)| seen(*j)).fold(f64::MIN, |m, (_, &x)| m.max(x));
                    let e: Vec<f64> =
                        row.iter().enumerate().map(|(j, x)| if seen(j) { (x - most).exp() } else { 0.0 }).collect();
                    let sum: f64 = e.iter().sum();
                    e.iter().map(|e| e / sum).collect()
                };
                steps[4].iter().enumerate().map(row).collect()
            }
            _ => product(&steps[5], &steps[2]),
        };
        match self.steps.get_mut(step) {
            Some(old) => *old = value,
            None => self.steps.push(value),
        }
    }

    /// Returns the file with these claims.
    fn file(&self, claims: &[Vec<Vec<String>>]) -> String {
        let mut text = String::from("{\"inputs\": {");
        for (i, (name, matrix)) in self.inputs.iter().enumerate() {
            let _ = write!(text, "{}\"{name}\": {matrix:?}", if i > 0 { ", " } else { "" });
        }
        let _ = write!(text, "}}, \"options\": {{\"causal\": {}}}, \"claims\": {{", self.causal);
        for (i, (name, claim)) in STEPS.iter().zip(claims).enumerate() {
            let _ = write!(text, "{}\"{name}\": {claim:?}", if i > 0 { ", " } else { "" });
        }
        text + "}}"
    }

    fn printed(&self, decimals: usize) -> Vec<Vec<Vec<String>>> {
        let text = |x: &f64| format!("{x:.decimals$}");
        self.steps.iter().map(|step| step.iter().map(|row| row.iter().map(text).collect()).collect()).collect()
    }

    fn check(&self, claims: &[Vec<Vec<String>>]) -> CheckReport {
        let file = self.file(claims);
        WorkedExample::parse(&file).and_then(|example| example.check()).unwrap_or_else(|e| panic!("{e}: {file}"))
    }
}

fn wrong(checked: &CheckReport) -> Vec<&str> {
    checked.steps.iter().filter(|step| step.verdict == ClaimVerdict::Wrong).map(|step| step.name.as_str()).collect()
}

#[test]
fn thousand_correct_examples_raise_no_error() {
    let mut draw = Draw::new(11);
    for trial in 0..1_000 {
        let example = Example::new(&mut draw);
        for decimals in [2, 3, 4] {
            let checked = example.check(&example.printed(decimals));
            assert!(checked.ok, "trial {trial}, {decimals} decimals: {checked:?}");
            assert_eq!(checked.steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), STEPS);
        }
    }
}

/// Returns the units of the last digit that rounding of previous steps cannot explain. One or two units may come from a
/// number halfway between two roundings. A product of printed numbers adds half a unit of each, times the other factor.
fn least(step: &str) -> usize {
    match step {
        "scores" | "output" => 150,
        _ => 5,
    }
}

#[test]
fn thousand_altered_numbers_are_found_in_their_steps() {
    let mut draw = Draw::new(12);
    for trial in 0..1_000 {
        let example = Example::new(&mut draw);
        let decimals = 2 + draw.below(3);
        let mut claims = example.printed(decimals);
        let step = draw.below(STEPS.len());
        let [row, column] = [draw.below(claims[step].len()), draw.below(claims[step][0].len())];
        let units = (least(STEPS[step]) + draw.below(500)) as f64 * if draw.below(2) == 0 { 1.0 } else { -1.0 };
        let altered = example.steps[step][row][column] + units / 10f64.powi(decimals as i32);
        claims[step][row][column] = format!("{altered:.decimals$}");
        let checked = example.check(&claims);
        assert_eq!(wrong(&checked), [STEPS[step]], "trial {trial}: {checked:?}");
        for found in &checked.steps {
            let expected = if found.name == STEPS[step] { ClaimVerdict::Wrong } else { ClaimVerdict::Holds };
            assert_eq!(found.verdict, expected, "trial {trial}: {found:?}");
        }
        let found = &checked.steps[step];
        let worst = found.worst.as_ref().unwrap();
        assert_eq!((found.wrong, &worst.index[..]), (1, &[row, column][..]), "trial {trial}");
        assert_eq!(worst.claimed, claims[step][row][column]);
        assert!((worst.truth - example.steps[step][row][column]).abs() < 1e-9);
    }
}

#[test]
fn consequences_of_altered_numbers_are_inherited() {
    let mut draw = Draw::new(13);
    let mut inherited = 0;
    for trial in 0..1_000 {
        let mut example = Example::new(&mut draw);
        let decimals = 2 + draw.below(3);
        let step = draw.below(STEPS.len());
        let [row, column] = [draw.below(example.steps[step].len()), draw.below(example.steps[step][0].len())];
        let truth = example.steps.clone();
        example.steps[step][row][column] += (least(STEPS[step]) + draw.below(500)) as f64 / 10f64.powi(decimals as i32);
        // The author continues with the wrong number.
        (step + 1..STEPS.len()).filter(|&later| later >= 3).for_each(|later| example.compute(later));
        let checked = example.check(&example.printed(decimals));
        assert_eq!(wrong(&checked), [STEPS[step]], "trial {trial}: {checked:?}");
        for (found, truth) in checked.steps.iter().zip(truth).skip(step + 1) {
            inherited += usize::from(found.verdict == ClaimVerdict::Inherited);
            assert_eq!(found.claimed, truth.len() * truth[0].len());
        }
    }
    assert!(inherited > 500, "{inherited}");
}

#[test]
fn second_errors_are_found_after_a_first() {
    let mut draw = Draw::new(14);
    for trial in 0..300 {
        let mut example = Example::new(&mut draw);
        example.steps[3][0][0] += 3.0;
        example.compute(4);
        let other = example.steps[4].len() - 1;
        example.steps[4][other][0] += 0.5;
        let checked = example.check(&example.printed(4));
        assert_eq!(wrong(&checked)[..2], ["scores", "scaled"], "trial {trial}: {checked:?}");
    }
}

#[test]
fn invalid_examples_are_reported() {
    let cases = [
        ("", "not a worked example in JSON: "),
        ("[1]", "not a worked example in JSON: "),
        ("{}", "the key “inputs” is missing"),
        (r#"{"inputs": {}}"#, "no claims"),
        (r#"{"imputs": {}}"#, "unknown key “imputs”; did you mean “inputs”?"),
        (r#"{"inputs": {"W_q": [[1]]}}"#, "unknown key “W_q” in inputs; did you mean “W_Q”?"),
        (r#"{"inputs": {"X": [[1]], "X": [[1]]}}"#, "the key “X” in inputs occurs twice"),
        (r#"{"inputs": {"X": [[1, 2], [3]]}}"#, "inputs.X[2]: expected 2 numbers, as in row 1, found 1"),
        (r#"{"inputs": {"X": [[1, "a"]]}}"#, "inputs.X[1][2]: expected a number such as 0.50, found “a”"),
        (r#"{"inputs": {"X": [[1, true]]}}"#, "inputs.X[1][2]: expected a number"),
        (r#"{"inputs": {"X": [[1, null]]}}"#, "inputs.X[1][2]: expected a number, found null"),
        (r#"{"inputs": {"X": []}}"#, "inputs.X: expected at least one row"),
        (r#"{"inputs": {"X": [[]]}}"#, "inputs.X: expected 1 to"),
        (r#"{"inputs": {"X": 3}}"#, "inputs.X: expected a matrix"),
        (r#"{"inputs": {"X": [[1, [2]]]}}"#, "inputs.X[1][2]: expected a number"),
        (r#"{"inputs": 3}"#, "inputs: expected an object"),
        (r#"{"inputs": {"Q": [[1]]}, "options": {"beta": "x"}}"#, "options.beta: expected a number, found"),
        (r#"{"inputs": {"Q": [[1]]}, "options": {"casual": true}}"#, "did you mean “causal”?"),
        (r#"{"inputs": {"Q": [[1]]}, "options": {"causal": 3}}"#, "options.causal: expected true, false"),
        (r#"{"inputs": {"Q": [[1]]}, "options": {"pooling": "sum"}}"#, "options.pooling: expected \"mean\", \"max\""),
        (r#"{"inputs": {"Q": [[1]]}, "options": {"head_norm_epsilon": -1}}"#, "head_norm_epsilon: expected 0 or more"),
        (r#"{"inputs": {"hidden": [[1]]}, "claims": {"pooled": [[1]]}}"#, "options.pooling: expected a pooling"),
        (
            r#"{"inputs": {"Q": [[1, 2]], "K": [[1, 2]], "rotary_speeds": [1, 2]}, "claims": {"scores": [[1]]}}"#,
            "inputs.rotary_speeds is 1×2: expected 1×1",
        ),
        (
            r#"{"inputs": {"Q": [[1, 2]], "K": [[1, 2]], "rotary_speeds": [1]}, "options": {"rotary_base": 9},
                "claims": {"scores": [[1]]}}"#,
            "found both; leave one out",
        ),
        (
            r#"{"inputs": {"Q": [[1, 2]], "K": [[1, 2]]}, "claims": {"normalised_Q": [[1, 2]]}}"#,
            "give options.head_norm_epsilon",
        ),
        (
            r#"{"inputs": {"hidden": [[1]]}, "options": {"pooling": "mean"}, "claims": {"vector": [[1]]}}"#,
            "give options.unit_length",
        ),
        (
            r#"{"inputs": {"Q": [[1, 2]], "K": [[1, 2]], "gamma_Q": [1]}, "options": {"head_norm_epsilon": 0},
                "claims": {"scores": [[1]]}}"#,
            "inputs.gamma_Q is 1×1: expected 1×2",
        ),
        (
            r#"{"inputs": {"Q": [[1]]}, "options": {"num_heads": 0}}"#,
            "options.num_heads: expected a whole number from 1",
        ),
        (r#"{"inputs": {"Q": [[1]], "K": [[1, 2]]}, "claims": {"scores": [[1]]}}"#, "Q is 1×1 and K 1×2"),
        (
            r#"{"inputs": {"X": [[1, 2]], "W_Q": [[1]]}, "claims": {"Q": [[1]]}}"#,
            "inputs.W_Q is 1×1: expected 2 rows, as X is 1×2",
        ),
        (
            r#"{"inputs": {"Q": [[1]], "K": [[1]]}, "claims": {"scores": [[1, 2]]}}"#,
            "claims.scores: expected 1×1 numbers, as follows from the inputs, found 1×2",
        ),
        (
            r#"{"inputs": {"Q": [[1]], "K": [[1]]}, "claims": {"output": [[1]]}}"#,
            "claims.output does not follow from the inputs: give V",
        ),
        (r#"{"inputs": {"Q": [[1]]}, "claims": {"Q": [[1]]}}"#, "claims.Q: Q is given in inputs"),
        (
            r#"{"inputs": {"Q": [[1]], "K": [[1]]}, "claims": {"scores": [[null]]}}"#,
            "claims.scores: expected at least one number",
        ),
        (
            r#"{"inputs": {"Q": [[1, 2]], "K": [[1, 2]]}, "options": {"d_k": 7}, "claims": {"scaled": [[1]]}}"#,
            "options.d_k: expected 2",
        ),
        (
            r#"{"inputs": {"Q": [[1]], "K": [[1]], "gamma": [1]}, "claims": {"scores": [[1]]}}"#,
            "gamma and norm_beta: expected options.norm",
        ),
        (
            r#"{"inputs": {"X": [[1]], "norm_beta": [1]}, "options": {"norm": "pre", "rms_norm": true}, "claims": {"norm": [[1]]}}"#,
            "no norm_beta",
        ),
        (r#"{"inputs": {"Q": [[1]]}, "options": {"residual": true}, "claims": {"scores": [[1]]}}"#, "expected X"),
        (
            r#"{"inputs": {"Q": [[1]]}, "options": {"epsilon": -1}, "claims": {"scores": [[1]]}}"#,
            "options.epsilon: expected 0 or more",
        ),
        (r#"{"inputs": {"Q": [[1e400]]}, "claims": {"scores": [[1]]}}"#, "within ±1.8e308"),
        (r#"{"inputs": {"scores": [[1]]}, "claims": {"scaled": [[1]]}}"#, "options.d_k"),
        (
            r#"{"inputs": {"Q": [[1], [2]], "K": [[1]], "V": [[1], [2]]}, "claims": {"output": [[1], [2]]}}"#,
            "V is 2×1: expected 1 row, one for each key, as the weights are 2×1",
        ),
        (
            r#"{"tokens": ["a"], "inputs": {"Q": [[1], [2]], "K": [[1]]}, "claims": {"scores": [[1], [2]]}}"#,
            "tokens: expected 2, one for each of the queries, found 1",
        ),
        (
            r#"{"inputs": {"Q": [[1, 2]], "K": [[1, 2]]}, "options": {"num_heads": 2}, "claims": {"scores": [[1]]}}"#,
            "claims.scores: expected 2 matrices, one for each head, found 1",
        ),
    ];
    for (text, expected) in cases {
        let problem = WorkedExample::parse(text).and_then(|example| example.check()).unwrap_err();
        assert!(problem.contains(expected), "{text}: {problem}");
        assert!(problem.chars().count() < 450, "{problem}");
    }
}

#[test]
fn heads_are_checked_separately() {
    // Two heads of width 1: Q = [1 2], so head 1 has q = 1 and head 2 q = 2.
    let example = |last: &str| {
        format!(
            r#"{{"inputs": {{"Q": [[1, 2], [3, 4]], "K": [[1, 1], [2, 0]], "V": [[1, 0], [0, 1]], "W_O": [[1, 2], [3, 4]]}},
                "options": {{"num_heads": 2}},
                "claims": {{"scores": [[[1, 2], [3, 6]], [[2, 0], [4, {last}]]], "weights": [[["0.27", "0.73"], ["0.05", "0.95"]],
                [["0.88", "0.12"], ["0.98", "0.02"]]], "concat": [["0.27", "0.12"], ["0.05", "0.02"]],
                "output": [["0.63", "1.01"], ["0.10", "0.17"]]}}}}"#
        )
    };
    let right = WorkedExample::parse(&example("0")).unwrap().check().unwrap();
    assert!(right.ok, "{right:?}");
    let checked = WorkedExample::parse(&example("5")).unwrap().check().unwrap();
    assert_eq!(wrong(&checked), ["scores"]);
    assert_eq!(checked.steps[0].worst.as_ref().unwrap().index, [1, 1, 1]);
}

#[test]
fn windows_are_centered_on_the_query() {
    // The last of two queries is at the position of the last of four keys, and sees it and one before.
    let file = r#"{"inputs": {"Q": [[0], [0]], "K": [[1], [1], [1], [1]], "V": [[1], [2], [3], [4]]},
        "options": {"causal": "bottom-right", "window": 1},
        "claims": {"weights": [[0, "0.5", "0.5", 0], [0, 0, "0.5", "0.5"]], "output": [["2.5"], ["3.5"]]}}"#;
    let checked = WorkedExample::parse(file).unwrap().check().unwrap();
    assert!(checked.ok, "{checked:?}");
}

#[test]
fn options_match_their_documentation() {
    let check = |options: &str, claims: &str| {
        let file = format!(
            r#"{{"inputs": {{"Q": [[2, 0], [0, 1]], "K": [[1, 1], [3, 1]], "V": [[1], [2]]}}, "options": {{{options}}},
                "claims": {{"scores": {}, {claims}}}}}"#,
            if options.contains("rotary") { "[[null, null], [null, null]]" } else { "[[2, 6], [1, 1]]" }
        );
        let file = file.replace(r#""scores": [[null, null], [null, null]], "#, "");
        let checked = WorkedExample::parse(&file).unwrap().check().unwrap();
        assert!(checked.ok, "{options}: {checked:?}");
    };
    check("", r#""scaled": [["1.4142", "4.2426"], ["0.7071", "0.7071"]]"#);
    // β replaces 1/√d_k, unless a scale is given too.
    check(r#""beta": 0.5"#, r#""scaled": [["1.000", "3.000"], ["0.500", "0.500"]]"#);
    check(r#""beta": 0.5, "scale": 3"#, r#""scaled": [["3.000", "9.000"], ["1.500", "1.500"]]"#);
    check(r#""scale": 3"#, r#""scaled": [["6.000", "18.000"], ["3.000", "3.000"]]"#);
    // ALiBi subtracts the slope for each step of distance; a mask of numbers is added.
    check(r#""scale": 1, "alibi_slopes": [0.25]"#, r#""biased": [["2.000", "5.750"], ["0.750", "1.000"]]"#);
    check(r#""scale": 1, "mask": [[0, 1], [0, "-inf"]]"#, r#""biased": [["2.000", "7.000"], ["1.000", "-inf"]]"#);
    // All weight is on the first maximum.
    check(r#""hard": true"#, r#""weights": [[0, 1], [1, 0]], "output": [[2], [1]]"#);
    // The second position is rotated by 1 radian: (x, y) → (x cos 1 − y sin 1, x sin 1 + y cos 1).
    check(
        r#""rotary_base": 100"#,
        r#""rotated_Q": [["2.0000", "0.0000"], ["-0.8415", "0.5403"]], "rotated_K": [["1.0000", "1.0000"], ["0.7794", "3.0647"]]"#,
    );
}

#[test]
fn rows_without_visible_keys_have_zero_weights() {
    let file = r#"{"inputs": {"Q": [[1], [1]], "K": [[1], [2]], "V": [[1], ["nan"]]},
        "options": {"mask": [[true, false], [false, false]], "subtract_max": true},
        "claims": {"masked": [[1, "-inf"], ["-inf", "-inf"]], "max": [1, "-inf"], "weights": [[1, 0], [0, 0]],
                   "output": [[1], [0]]}}"#;
    let checked = WorkedExample::parse(file).unwrap().check().unwrap();
    assert!(checked.ok, "{checked:?}");
    let seen = file.replace("[[true, false], [false, false]]", "[[true, true], [false, false]]");
    let checked = WorkedExample::parse(&seen).unwrap().check().unwrap();
    let output = checked.steps.last().unwrap();
    assert_eq!(output.verdict, ClaimVerdict::Inherited, "the weights were claimed to be 0");
    assert!(output.worst.as_ref().unwrap().truth.is_nan());
}

#[test]
fn rms_norm_divides_by_the_root_mean_square() {
    let of = |order: &str, claim: &str| {
        let file = format!(
            r#"{{"inputs": {{"X": [[3, 4]], "gamma": [2, 1], "W_Q": [[1, 0], [0, 1]], "W_K": [[1, 0], [0, 1]],
                "W_V": [[1, 0], [0, 1]]}}, "options": {{"norm": "{order}", "rms_norm": true, "epsilon": 0}},
                "claims": {{{claim}}}}}"#
        );
        WorkedExample::parse(&file).unwrap().check().unwrap()
    };
    // 3 and 4 have the mean square 12.5: 2 · 3/3.53553 and 4/3.53553. One token attends only to itself.
    let right = of("pre", r#""norm": [[1.6971, 1.1314]], "residual": [[4.6971, 5.1314]]"#);
    assert!(right.ok, "{right:?}");
    // The result of a layer norm.
    assert_eq!(wrong(&of("pre", r#""norm": [[-2.0000, 1.0000]]"#)), ["norm"]);
    let behind = of("post", r#""residual": [[6, 8]], "final_norm": [[1.6971, 1.1314]]"#);
    assert!(behind.ok, "{behind:?}");
}

#[test]
fn queries_and_keys_are_normalized_and_rotated() {
    let check = |inputs: &str, options: &str, claims: &str| {
        let file = format!(
            r#"{{"inputs": {{"Q": [[3, 4], [0, 1]], "K": [[3, 4], [1, 1]], {inputs}}}, "options": {{{options}}},
                "claims": {{{claims}}}}}"#
        );
        WorkedExample::parse(&file).unwrap().check().unwrap()
    };
    // 3 and 4 have the mean square 12.5, 0 and 1 have 0.5; only the queries have γ.
    let norms =
        r#""normalised_Q": [["1.6971", "1.1314"], [0, "1.4142"]], "normalised_K": [["0.8485", "1.1314"], [1, 1]]"#;
    let right = check(r#""gamma_Q": [2, 1]"#, r#""head_norm_epsilon": 0"#, norms);
    assert!(right.ok, "{right:?}");
    assert_eq!(
        wrong(&check(r#""gamma_K": [2, 1]"#, r#""head_norm_epsilon": 0"#, norms)),
        ["normalised_Q", "normalised_K"]
    );
    // Half a radian for each position, after the normalization.
    let turned = check(
        r#""rotary_speeds": [0.5]"#,
        r#""head_norm_epsilon": 0"#,
        r#""rotated_Q": [["0.8485", "1.1314"], ["-0.6780", "1.2411"]]"#,
    );
    assert!(turned.ok, "{turned:?}");
    let of_two_heads = r#"{"inputs": {"Q": [[3, 4, 1, 0]], "K": [[3, 4]], "gamma_Q": [2, 1], "gamma_K": [1, 3]},
        "options": {"num_heads": 2, "num_key_heads": 1, "head_norm_epsilon": 0},
        "claims": {"normalised_Q": [[["1.6971", "1.1314"]], [["2.8284", 0]]]}}"#;
    let checked = WorkedExample::parse(of_two_heads).unwrap().check().unwrap();
    assert!(checked.ok, "{checked:?}");
    // Heads that share keys share the steps of the keys.
    let trace = WorkedExample::parse(of_two_heads).unwrap().trace(1).unwrap();
    let steps = trace.steps.iter().chain(&trace.hidden_steps);
    assert_eq!(steps.filter(|step| step.name() == "normalised_K").count(), 1);
}

#[test]
fn vectors_are_pooled_projected_and_normalized() {
    let check = |more: &str, options: &str, claims: &str| {
        let file = format!(
            r#"{{"inputs": {{"hidden": [[1, 2], [3, -4]]{more}}}, "options": {{{options}}}, "claims": {{{claims}}}}}"#
        );
        let checked = WorkedExample::parse(&file).unwrap().check().unwrap();
        assert!(checked.ok, "{options}: {checked:?}");
    };
    check("", r#""pooling": "mean", "unit_length": true"#, r#""pooled": [2, -1], "vector": [["0.8944", "-0.4472"]]"#);
    check("", r#""pooling": "max""#, r#""pooled": [3, 2]"#);
    check("", r#""pooling": "first""#, r#""pooled": [1, 2]"#);
    check("", r#""pooling": "last""#, r#""pooled": [3, -4]"#);
    check("", r#""pooling": "mean_sqrt_length""#, r#""pooled": [["2.8284", "-1.4142"]]"#);
    check(
        r#", "W_dense": [[1], [2]], "b_dense": [0.5]"#,
        r#""pooling": "mean", "dense_tanh": true, "unit_length": true"#,
        r#""dense": [["0.5"]], "dense_tanh": [["0.4621"]], "vector": [[1]]"#,
    );
    // The output of attention is pooled if nothing else is given.
    let file = r#"{"inputs": {"weights": [[0.5, 0.5], [1, 0]], "V": [[1, 2], [3, 4]]}, "options": {"pooling": "mean"},
        "claims": {"output": [[2, 3], [1, 2]], "pooled": [["1.5", "2.5"]]}}"#;
    assert!(WorkedExample::parse(file).unwrap().check().unwrap().ok);
}
