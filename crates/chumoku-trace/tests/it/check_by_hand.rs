//! Hand calculations: each step is computed from the previous printed numbers and rounded. Correct calculations must
//! raise no error, and an error must be found in its step.

use crate::common::draw::Draw;
use chumoku_trace::{CheckReport, ClaimResult, ClaimVerdict, WorkedExample};
use std::collections::HashMap;
use std::fmt::Write;

type Matrix = Vec<Vec<f64>>;
type Values = HashMap<&'static str, Matrix>;

/// Returns numbers as people choose them: multiples of a half or of a tenth.
fn matrix(draw: &mut Draw, rows: usize, columns: usize, unit: f64) -> Matrix {
    let mut number = || (draw.unit() * 4.0 / unit - 2.0 / unit).round() * unit;
    (0..rows).map(|_| (0..columns).map(|_| number()).collect()).collect()
}

fn map(a: &Matrix, mut f: impl FnMut(usize, usize, f64) -> f64) -> Matrix {
    let mut number = |i: usize, row: &Vec<f64>| row.iter().enumerate().map(|(j, x)| f(i, j, *x)).collect();
    a.iter().enumerate().map(|(i, row)| number(i, row)).collect()
}

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    let cell = |row: &Vec<f64>, j: usize| row.iter().zip(b).map(|(x, other)| x * other[j]).sum();
    a.iter().map(|row| (0..b[0].len()).map(|j| cell(row, j)).collect()).collect()
}

fn transposed(a: &Matrix) -> Matrix {
    (0..a[0].len()).map(|j| a.iter().map(|row| row[j]).collect()).collect()
}

/// Reduces each row to one number.
fn rows(a: &Matrix, f: impl Fn(&[f64]) -> f64) -> Matrix {
    a.iter().map(|row| vec![f(row)]).collect()
}

fn normalized(a: &Matrix) -> Matrix {
    let row = |row: &Vec<f64>| {
        let n = row.len() as f64;
        let mean = row.iter().sum::<f64>() / n;
        let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
        row.iter().map(|x| (x - mean) / (variance + 1e-5).sqrt()).collect()
    };
    a.iter().map(row).collect()
}

/// Rotates the pairs (i, i + half) by position · 100^(−2i/width).
fn turned(a: &Matrix) -> Matrix {
    let half = a[0].len() / 2;
    map(a, |position, j, x| {
        let angle = position as f64 * 100f64.powf(-((j % half) as f64) / half as f64);
        let other = a[position][(j + half) % (2 * half)];
        if j < half { x * angle.cos() - other * angle.sin() } else { x * angle.cos() + other * angle.sin() }
    })
}

/// A step: its name, and its computation from previous steps.
type Step = (&'static str, Box<dyn Fn(&Values) -> Matrix>);

/// An example with its steps.
struct Example {
    inputs: Vec<(&'static str, Matrix)>,
    options: String,
    steps: Vec<Step>,
}

impl Example {
    fn draw(draw: &mut Draw) -> Example {
        let (n, d_model, d_k) = (2 + draw.below(3), 3 + draw.below(2), 2 * (1 + draw.below(2)));
        let d_v = 2 + draw.below(2);
        let [rotary, alibi, causal, shifted, projects, normed] = [0.3, 0.3, 0.5, 0.6, 0.5, 0.3].map(|x| draw.is(x));
        let mut inputs = vec![("X", matrix(draw, n, d_model, 0.1))];
        for (name, columns) in [("W_Q", d_k), ("W_K", d_k), ("W_V", d_v)] {
            inputs.push((name, matrix(draw, d_model, columns, 0.5)));
        }
        let has_bias = draw.is(0.5);
        if has_bias {
            inputs.push(("b_Q", matrix(draw, 1, d_k, 0.5)));
        }
        let projects = projects || normed;
        if projects {
            inputs.push(("W_O", matrix(draw, d_v, d_model, 0.5)));
        }
        let mut options = format!("\"causal\": {causal}, \"subtract_max\": {shifted}");
        let mut steps: Vec<Step> = Vec::new();
        steps.push((
            "Q",
            Box::new(move |v| {
                let plain = product(&v["X"], &v["W_Q"]);
                if has_bias { map(&plain, |_, j, x| x + v["b_Q"][0][j]) } else { plain }
            }),
        ));
        steps.push(("K", Box::new(|v| product(&v["X"], &v["W_K"]))));
        steps.push(("V", Box::new(|v| product(&v["X"], &v["W_V"]))));
        let [mut query, mut key] = ["Q", "K"];
        if rotary {
            options += ", \"rotary_base\": 100";
            steps.push(("rotated_Q", Box::new(|v| turned(&v["Q"]))));
            steps.push(("rotated_K", Box::new(|v| turned(&v["K"]))));
            [query, key] = ["rotated_Q", "rotated_K"];
        }
        steps.push(("scores", Box::new(move |v| product(&v[query], &transposed(&v[key])))));
        steps.push(("scaled", Box::new(move |v| map(&v["scores"], |_, _, x| x / (d_k as f64).sqrt()))));
        let mut last = "scaled";
        if alibi {
            options += ", \"alibi_slopes\": [0.5]";
            steps.push(("biased", Box::new(|v| map(&v["scaled"], |i, j, x| x - 0.5 * i.abs_diff(j) as f64))));
            last = "biased";
        }
        if causal {
            let from = last;
            let seen = |i: usize, j: usize, x: f64| if j <= i { x } else { f64::NEG_INFINITY };
            steps.push(("masked", Box::new(move |v| map(&v[from], seen))));
            last = "masked";
        }
        if shifted {
            let largest = |row: &[f64]| row.iter().fold(f64::NEG_INFINITY, |most, x| most.max(*x));
            steps.push(("max", Box::new(move |v| rows(&v[last], largest))));
            steps.push(("exponentials", Box::new(move |v| map(&v[last], |i, _, x| (x - v["max"][i][0]).exp()))));
        } else {
            steps.push(("exponentials", Box::new(move |v| map(&v[last], |_, _, x| x.exp()))));
        }
        steps.push(("sums", Box::new(|v| rows(&v["exponentials"], |row| row.iter().sum()))));
        steps.push(("weights", Box::new(|v| map(&v["exponentials"], |i, _, x| x / v["sums"][i][0]))));
        let mixed = if projects { "heads" } else { "output" };
        steps.push((mixed, Box::new(|v| product(&v["weights"], &v["V"]))));
        if projects {
            steps.push(("output", Box::new(|v| product(&v["heads"], &v["W_O"]))));
        }
        if normed {
            options += ", \"norm\": \"post\"";
            steps.push(("residual", Box::new(|v| map(&v["X"], |i, j, x| x + v["output"][i][j]))));
            steps.push(("final_norm", Box::new(|v| normalized(&v["residual"]))));
        }
        Example { inputs, options, steps }
    }

    /// Computes every step; `goes_on` maps the numbers of a step to those that the next steps use.
    fn compute(&self, mut goes_on: impl FnMut(usize, &Matrix) -> Matrix) -> Values {
        let mut values: Values = self.inputs.iter().cloned().collect();
        for (k, (name, step)) in self.steps.iter().enumerate() {
            let own = step(&values);
            let used = goes_on(k, &own);
            values.insert(name, used);
        }
        values
    }
}

fn printed(x: f64, decimals: usize) -> String {
    if x.is_finite() { format!("{x:.decimals$}") } else { "-inf".into() }
}

/// A number that is added to one entry of a step.
#[derive(Clone, Copy)]
struct PlantedError {
    step: usize,
    at: [usize; 2],
    by: f64,
}

/// A hand calculation: the printed numbers of each step, if any.
struct Hand {
    decimals: usize,
    is_printed: Vec<bool>,
    /// True if the next steps use the printed numbers instead of the exact ones.
    is_copied: Vec<bool>,
}

impl Hand {
    fn draw(draw: &mut Draw, steps: usize, decimals: usize) -> Hand {
        let mut is_printed: Vec<bool> = (0..steps).map(|_| draw.is(0.8)).collect();
        is_printed[draw.below(steps)] = true;
        Hand { decimals, is_printed, is_copied: (0..steps).map(|_| draw.is(0.85)).collect() }
    }

    /// Returns whether the rounded numbers allow the calculation to continue. If all exponentials round to almost zero,
    /// the division by their sum is meaningless.
    fn can_go_on(&self, example: &Example) -> bool {
        let claims = self.work(example, None);
        let least = 20.0 * 10f64.powi(-(self.decimals as i32));
        let is_enough =
            |row: &Vec<String>| row.iter().map(|number| number.parse::<f64>().unwrap()).sum::<f64>() >= least;
        let mut steps =
            example.steps.iter().zip(&claims).filter_map(|((name, _), claim)| Some((*name, claim.as_ref()?)));
        steps.all(|(name, claim)| match name {
            "masked" => true,
            "exponentials" | "sums" => claim.iter().all(is_enough),
            _ => claim.iter().flatten().all(|number| number != "-inf"),
        })
    }

    /// Works the example out. With `error`, one entry of a step is wrong.
    fn work(&self, example: &Example, error: Option<PlantedError>) -> Vec<Option<Vec<Vec<String>>>> {
        let mut claims = vec![None; example.steps.len()];
        example.compute(|k, own| {
            let mut own = own.clone();
            if let Some(error) = error.filter(|error| error.step == k) {
                own[error.at[0]][error.at[1]] += error.by;
            }
            if !self.is_printed[k] {
                return own;
            }
            let text: Vec<Vec<String>> =
                own.iter().map(|row| row.iter().map(|x| printed(*x, self.decimals)).collect()).collect();
            let rounded = text.iter().map(|row| row.iter().map(|x| x.parse().unwrap()).collect()).collect();
            claims[k] = Some(text);
            if self.is_copied[k] { rounded } else { own }
        });
        claims
    }

    /// Returns the change of a step's number that the rounding of previous numbers can explain.
    fn explained(&self, example: &Example, draw: &mut Draw, step: usize, [i, j]: [usize; 2]) -> f64 {
        let half = 0.5 * 10f64.powi(-(self.decimals as i32));
        let mut ends = [f64::INFINITY, f64::NEG_INFINITY];
        for _ in 0..60 {
            let mut found = f64::NAN;
            example.compute(|k, own| {
                if k == step {
                    found = own[i][j];
                }
                match self.is_printed[k] {
                    true => map(own, |_, _, x| {
                        let rounded: f64 = printed(x, self.decimals).parse().unwrap();
                        rounded + if draw.is(0.5) { half } else { -half }
                    }),
                    false => own.clone(),
                }
            });
            ends = [ends[0].min(found), ends[1].max(found)];
        }
        ends[1] - ends[0]
    }
}

fn check(example: &Example, claims: &[Option<Vec<Vec<String>>>]) -> (CheckReport, String) {
    let mut file = String::from("{\"inputs\": {");
    for (k, (name, matrix)) in example.inputs.iter().enumerate() {
        let _ = write!(file, "{}\"{name}\": {matrix:?}", if k > 0 { ", " } else { "" });
    }
    let _ = write!(file, "}}, \"options\": {{{}}}, \"claims\": {{", example.options);
    let stated = example.steps.iter().zip(claims).filter_map(|((name, _), claim)| Some((name, claim.as_ref()?)));
    for (k, (name, claim)) in stated.enumerate() {
        let _ = write!(file, "{}\"{name}\": {claim:?}", if k > 0 { ", " } else { "" });
    }
    file += "}}";
    let checked = WorkedExample::parse(&file).and_then(|example| example.check());
    (checked.unwrap_or_else(|problem| panic!("{problem}: {file}")), file)
}

fn wrong(checked: &CheckReport) -> Vec<&str> {
    checked.steps.iter().filter(|step| step.verdict == ClaimVerdict::Wrong).map(|step| step.name.as_str()).collect()
}

#[test]
fn rounding_is_not_called_an_error() {
    let mut draw = Draw::new(31);
    let mut rounded = 0;
    for trial in 0..1_000 {
        for decimals in [2, 3, 4] {
            let (example, hand) = loop {
                let example = Example::draw(&mut draw);
                let hand = Hand::draw(&mut draw, example.steps.len(), decimals);
                if hand.can_go_on(&example) {
                    break (example, hand);
                }
            };
            let (checked, file) = check(&example, &hand.work(&example, None));
            let blamed: Vec<&ClaimResult> =
                checked.steps.iter().filter(|step| step.verdict > ClaimVerdict::Rounded).collect();
            assert!(checked.ok && blamed.is_empty(), "trial {trial}, {decimals} decimals: {blamed:?}: {file}");
            assert!(checked.steps.iter().all(|step| step.wrong == 0));
            rounded += usize::from(checked.steps.iter().any(|step| step.verdict == ClaimVerdict::Rounded));
        }
    }
    // Without a verdict of its own, all of these would be called wrong.
    assert!(rounded > 1_500, "{rounded}");
}

#[test]
fn thousand_hand_errors_are_found_in_their_steps() {
    let mut draw = Draw::new(32);
    let mut steps: HashMap<&str, usize> = HashMap::new();
    for trial in 0..1_000 {
        let decimals = 2 + trial % 3;
        let unit = 10f64.powi(-(decimals as i32));
        // Several times the effect of rounding the previous numbers, and more. The error points away from the truth, so
        // that it cannot cancel another.
        let (example, hand, step, at, by) = loop {
            let example = Example::draw(&mut draw);
            let step = draw.below(example.steps.len());
            let name = example.steps[step].0;
            let truth = &example.compute(|_, own| own.clone())[name];
            let at = [draw.below(truth.len()), draw.below(truth[0].len())];
            let own = truth[at[0]][at[1]];
            let mut hand = Hand::draw(&mut draw, example.steps.len(), decimals);
            hand.is_printed[step] = true;
            if !own.is_finite() || !hand.can_go_on(&example) {
                continue;
            }
            let size = 6.0 * hand.explained(&example, &mut draw, step, at) + unit * (3.0 + 400.0 * draw.unit());
            let honest: f64 = hand.work(&example, None)[step].as_ref().unwrap()[at[0]][at[1]].parse().unwrap();
            // Nobody continues with a negative exponential.
            let is_positive = ["exponentials", "sums"].contains(&name);
            let by = if honest < own && !is_positive { -size } else { size };
            if size.is_finite() {
                break (example, hand, step, at, by);
            }
        };
        let name = example.steps[step].0;
        let (checked, file) = check(&example, &hand.work(&example, Some(PlantedError { step, at, by })));
        assert_eq!(wrong(&checked), [name], "trial {trial}: {by} at {name}{at:?}: {checked:#?}: {file}");
        let found = checked.steps.iter().find(|step| step.name == name).unwrap();
        assert_eq!(found.worst.as_ref().unwrap().index, at, "trial {trial}: {file}");
        assert!(!checked.ok);
        for before in checked.steps.iter().take_while(|step| step.name != name) {
            assert!(before.verdict <= ClaimVerdict::Rounded, "trial {trial}: {before:?}: {file}");
        }
        *steps.entry(name).or_default() += 1;
    }
    // Every kind of step had errors.
    assert_eq!(steps.len(), 17, "{steps:?}");
    assert!(steps.values().all(|&count| count >= 10), "{steps:?}");
}

fn of(file: &str) -> CheckReport {
    WorkedExample::parse(file).unwrap().check().unwrap()
}

fn verdicts(checked: &CheckReport) -> Vec<(&str, ClaimVerdict)> {
    checked.steps.iter().map(|step| (step.name.as_str(), step.verdict)).collect()
}

use ClaimVerdict::{Holds, Inherited, Rounded, Wrong};

#[test]
fn consequences_of_rounding_are_not_errors() {
    // 1.156 · 3 = 3.468, and 1.16 · 3 = 3.48.
    let file = r#"{"inputs": {"Q": [["1.156"]], "K": [[1]]}, "options": {"scale": 3},
        "claims": {"scores": [["1.16"]], "scaled": [["3.48"]]}}"#;
    let checked = of(file);
    assert_eq!(verdicts(&checked), [("scores", Holds), ("scaled", Rounded)]);
    assert!(checked.ok && checked.first_wrong().is_none());
    let step = &checked.steps[1];
    assert_eq!((step.claimed, step.wrong, step.rounded), (1, 0, 1));
    let worst = step.worst.as_ref().unwrap();
    assert!((worst.truth - 3.468).abs() < 1e-12 && worst.from_claims.is_none(), "{worst:?}");
    // An error that rounding cannot explain is wrong: 1.165 · 3 = 3.495, which may be 3.50.
    assert_eq!(verdicts(&of(&file.replace("3.48", "3.50")))[1], ("scaled", Rounded));
    assert_eq!(verdicts(&of(&file.replace("3.48", "3.51")))[1], ("scaled", Wrong));
    assert_eq!(verdicts(&of(&file.replace("3.48", "3.47")))[1], ("scaled", Holds));
    // Without the rounded number before it, it follows from nothing.
    assert_eq!(verdicts(&of(&file.replace(r#""scores": [["1.16"]], "#, ""))), [("scaled", Wrong)]);
    // After a wrong number it is inherited.
    let wrong = of(&file.replace("1.16", "1.20").replace("3.48", "3.60"));
    assert_eq!(verdicts(&wrong), [("scores", Wrong), ("scaled", Inherited)]);
}

#[test]
fn errors_do_not_spread_between_rows() {
    // Row 1 of the scores is wrong and row 2 rounded; the same holds for their consequences.
    let file = r#"{"inputs": {"Q": [["1.156"], ["1.156"]], "K": [[1]]}, "options": {"scale": 3},
        "claims": {"scores": [["1.36"], ["1.16"]], "scaled": [["4.08"], ["3.48"]]}}"#;
    let checked = of(file);
    assert_eq!(verdicts(&checked), [("scores", Wrong), ("scaled", Inherited)]);
    let step = &checked.steps[1];
    assert_eq!((step.wrong, step.inherited, step.rounded), (0, 1, 1));
    assert_eq!(
        checked.steps[1].worst.as_ref().unwrap().index,
        [0, 0],
        "what is inherited counts before what is rounded"
    );
    // A wrong number multiplied by 0 has no consequences.
    let file = r#"{"inputs": {"Q": [["1.156", 0]], "W_K": [[1, 0], [0, 1]], "X": [[1, 2]]}, "options": {"scale": 3},
        "claims": {"K": [[1, 7]], "scores": [["1.16"]], "scaled": [["3.48"]]}}"#;
    assert_eq!(verdicts(&of(file)), [("K", Wrong), ("scores", Holds), ("scaled", Rounded)]);
    // The same holds for the other side of the product.
    let file = r#"{"inputs": {"K": [["1.156", 0]], "W_Q": [[1, 0], [0, 1]], "X": [[1, 2]]}, "options": {"scale": 3},
        "claims": {"Q": [[1, 7]], "scores": [["1.16"]], "scaled": [["3.48"]]}}"#;
    assert_eq!(verdicts(&of(file)), [("Q", Wrong), ("scores", Holds), ("scaled", Rounded)]);
}

#[test]
fn softmax_uses_one_value_for_numerator_and_denominator() {
    // 10.0 may be 9.95 to 10.05 in both places, so a weight is between 0.475 and 0.525. Step by step it could be 0.41
    // to 0.61.
    let file = |claims: &str| {
        format!(
            r#"{{"inputs": {{"Q": [[10]], "K": [[1], [1]]}}, "options": {{"scale": 1}}, "claims": {{"scaled": [["10.0", "10.0"]], {claims}}}}}"#
        )
    };
    let last = |claims: &str| of(&file(claims)).steps.last().unwrap().verdict;
    assert_eq!(last(r#""weights": [["0.52", "0.48"]]"#), Rounded);
    assert_eq!(last(r#""weights": [["0.55", "0.45"]]"#), Wrong);
    // The maximum is one of the numbers, so no exponential is above 1.
    assert_eq!(last(r#""exponentials": [["0.91", "1.00"]]"#), Rounded);
    assert_eq!(last(r#""exponentials": [["1.10", "1.00"]]"#), Wrong);
    // A printed exponential is the same number in its share.
    let shares = |weights: &str| last(&format!(r#""exponentials": [["1.0", "1.0"]], "weights": {weights}"#));
    assert_eq!(shares(r#"[["0.52", "0.48"]]"#), Rounded);
    assert_eq!(shares(r#"[["0.55", "0.45"]]"#), Wrong);
}

#[test]
fn whole_numbers_may_follow_from_rounded_ones() {
    // 2.45 is printed as 2.5. 4 · 2.5 = 10, although 4 · 2.45 = 9.8; the calculation continues from 10 or from 9.9.
    let file = r#"{"inputs": {"Q": [["2.45"]], "K": [[1], [4]], "W_V": [[1]], "X": [[1], [1]]}, "options": {"scale": 2},
        "claims": {"scores": [["2.5", "9.4"]], "scaled": [[5, "LAST"]]}}"#;
    assert_eq!(verdicts(&of(&file.replace("LAST", "19")))[1], ("scaled", Inherited));
    let file = file.replace("9.4", "9.8");
    assert_eq!(verdicts(&of(&file.replace("LAST", "19.7")))[1], ("scaled", Rounded));
    assert_eq!(verdicts(&of(&file.replace("LAST", "20")))[1], ("scaled", Holds));
    assert_eq!(verdicts(&of(&file.replace("LAST", "21")))[1], ("scaled", Wrong));
}

#[test]
fn ties_caused_by_rounding_allow_either_maximum() {
    // 1.004 and 1.001 are both printed as 1.00, and the first of two equal numbers is the maximum.
    let file = r#"{"inputs": {"Q": [["1.001", "1.004"]], "K": [[1, 0], [0, 1]], "V": [[1], [2]]}, "options": {"scale": 1, "hard": true},
        "claims": {"scaled": [["1.00", "1.00"]], "weights": [[1, 0]], "output": [[1]]}}"#;
    assert_eq!(verdicts(&of(file)), [("scaled", Holds), ("weights", Rounded), ("output", Rounded)]);
    let apart = file.replace(r#"["1.00", "1.00"]"#, r#"["1.0010", "1.0040"]"#);
    assert_eq!(verdicts(&of(&apart)), [("scaled", Holds), ("weights", Wrong), ("output", Inherited)]);
    let misled = file.replace(r#"["1.00", "1.00"]"#, r#"["1.10", "1.00"]"#);
    assert_eq!(verdicts(&of(&misled)), [("scaled", Wrong), ("weights", Inherited), ("output", Inherited)]);
}

#[test]
fn weights_with_wrong_sums_are_noted() {
    let file = |weights: &str| {
        format!(
            r#"{{"inputs": {{"scaled": [[0, 0], [1, 1], [0, 0]]}}, "options": {{"mask": [[true, true], [true, true], [false, false]]}},
            "claims": {{"weights": {weights}}}}}"#
        )
    };
    let sums = |weights: &str| of(&file(weights)).steps[0].row_sums.clone();
    assert!(sums(r#"[["0.50", "0.50"], ["0.50", "0.50"], [0, 0]]"#).is_empty());
    let found = sums(r#"[["0.50", "0.60"], ["0.50", "0.50"], [0, 0]]"#);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].index, [0]);
    assert!((found[0].sum - 1.1).abs() < 1e-9);
    // Wrong numbers that sum to 1, rounded numbers, and incomplete rows raise no note.
    for weights in [
        r#"[["0.60", "0.40"], ["0.50", "0.50"], [0, 0]]"#,
        r#"[["0.60", "0.41"], ["0.50", "0.50"], [0, 0]]"#,
        r#"[["0.60", null], ["0.50", "0.50"], [0, 0]]"#,
    ] {
        assert!(sums(weights).is_empty(), "{weights}");
    }
    // Whole numbers are exact.
    assert_eq!(sums(r#"[[1, 1], ["0.50", "0.50"], [0, 0]]"#)[0].sum, 2.0, "though 1 may stand for 0.5");
    // With two heads, the head is named.
    let heads = r#"{"inputs": {"Q": [[0, 0]], "K": [[0, 0], [0, 0]]}, "options": {"num_heads": 2},
        "claims": {"weights": [[["0.5", "0.5"]], [["0.5", "0.9"]]]}}"#;
    let example = WorkedExample::parse(heads).unwrap();
    let checked = example.check().unwrap();
    assert_eq!(checked.steps[0].row_sums[0].index, [1, 0]);
    let text = checked.to_text("two.json", &example);
    assert!(text.contains("head 2, row 1 sums to 1.4000, not to 1"), "{text}");
}

#[test]
fn two_names_of_a_step_are_checked_separately() {
    let file =
        r#"{"inputs": {"Q": [[0]], "K": [[0], [0]], "V": [[1], [3]]}, "claims": {"heads": [[5]], "output": [[2]]}}"#;
    assert_eq!(verdicts(&of(file)), [("heads", Wrong), ("output", Holds)]);
    let file = file.replace("[[5]]", "[[2]]").replace("\"output\": [[2]]", "\"output\": [[5]]");
    assert_eq!(verdicts(&of(&file)), [("heads", Holds), ("output", Wrong)]);
}

#[test]
fn advice_does_not_ask_for_given_inputs() {
    let advice = |inputs: &str, options: &str, claim: &str| {
        let file = format!(r#"{{"inputs": {{{inputs}}}, "options": {{{options}}}, "claims": {{"{claim}": [[1]]}}}}"#);
        let problem = WorkedExample::parse(&file).unwrap().check().unwrap_err();
        let start = format!("claims.{claim} does not follow from the inputs: ");
        problem.strip_prefix(&start).unwrap_or_else(|| panic!("{problem}")).to_owned()
    };
    for (inputs, options, claim, expected) in [
        (r#""X": [[1]]"#, "", "Q", "give W_Q (or Q)"),
        (r#""W_Q": [[1]]"#, "", "Q", "give X (or Q)"),
        (r#""V": [[1]]"#, "", "Q", "give Q (or X and W_Q)"),
        (r#""memory": [[1]]"#, "", "K", "give W_K (or K)"),
        (r#""embeddings": [[1]]"#, "", "X", "give positions"),
        (r#""Q": [[1]]"#, "", "scores", "give K (or X or memory and W_K)"),
        (r#""Q": [[1]], "X": [[1]]"#, "", "weights", "give W_K (or K)"),
        (r#""Q": [[1]], "K": [[1]]"#, "", "masked", "give options.causal, options.window or options.mask"),
        (r#""Q": [[1]], "K": [[1]]"#, "", "biased", "give options.mask of numbers"),
        (r#""Q": [[1]], "K": [[1]]"#, r#""mask": [[true]]"#, "biased", "give options.mask of numbers"),
        (r#""Q": [[1]], "K": [[1]]"#, r#""hard": true"#, "exponentials", "give options.hard as false"),
        (r#""Q": [[1]], "K": [[1]]"#, r#""subtract_max": false"#, "max", "give options.subtract_max as true"),
        (r#""weights": [[1]]"#, "", "exponentials", "give scores or scaled instead of weights"),
        (r#""scores": [[1]]"#, "", "weights", "give options.d_k"),
        (r#""Q": [[1]], "K": [[1]]"#, "", "rotated_Q", "give options.rotary_base"),
        (r#""Q": [[1]], "K": [[1]], "V": [[1]]"#, "", "residual", "give X"),
        (r#""Q": [[1]], "K": [[1]], "V": [[1]], "X": [[1]]"#, "", "final_norm", "give options.norm as \"post\""),
        (
            r#""Q": [[1]], "K": [[1]], "V": [[1]], "X": [[1]]"#,
            r#""norm": "post""#,
            "norm",
            "give options.norm as \"pre\"",
        ),
        (r#""X": [[1]]"#, "", "W_Q", "it is an input, not a result"),
    ] {
        assert_eq!(advice(inputs, options, claim), expected, "{claim} of {inputs}, {options}");
    }
    let said =
        |inputs: &str| WorkedExample::parse(&format!("{{\"inputs\": {{{inputs}}}}}")).unwrap().trace(0).unwrap_err();
    assert_eq!(said(r#""Q": [[1]], "V": [[1]]"#), "nothing follows from the inputs: give K (or X or memory and W_K)");
    assert_eq!(said(r#""scores": [[1]]"#), "nothing follows from the inputs: give options.d_k");
}
