//! Hand calculations with a planted mistake of a known kind, and correct ones. The mistakes are made in plain loops, as
//! a student makes them, and all later steps follow from the numbers that the student wrote down.

use crate::common::draw::Draw;
use chumoku_trace::{CheckReport, ClaimVerdict, LikelyMistake, MistakeKind, WorkedExample};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

type Matrix = Vec<Vec<f64>>;

fn matrix(draw: &mut Draw, rows: usize, columns: usize, unit: f64) -> Matrix {
    let mut number = || (draw.unit() * 3.0 / unit - 1.5 / unit).round() * unit;
    (0..rows).map(|_| (0..columns).map(|_| number()).collect()).collect()
}

/// The planted mistakes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Planted {
    Nothing,
    DividesByWidth,
    ForgetsScale,
    DividesByRootOfInputWidth,
    NormalizesColumns,
    ForgetsToTransposeKeys,
    ComparesQueriesWithQueries,
    ProjectsKeysLikeQueries,
    AddsBias,
    DoesNotShiftExponents,
    LooksAtTheFuture,
    ForgetsExponential,
    ForgetsToNormalize,
    SumsOverQueries,
    MixesKeys,
}

use Planted::*;

/// Each kind with its planted forms.
const KINDS: [(MistakeKind, &[Planted]); 12] = [
    (MistakeKind::DividedByDk, &[DividesByWidth]),
    (MistakeKind::NotScaled, &[ForgetsScale]),
    (MistakeKind::DividedByRootOfModel, &[DividesByRootOfInputWidth]),
    (MistakeKind::SoftmaxOverColumns, &[NormalizesColumns]),
    (MistakeKind::KeysNotTransposed, &[ForgetsToTransposeKeys]),
    (MistakeKind::WrongMatrix, &[ComparesQueriesWithQueries, ProjectsKeysLikeQueries, MixesKeys]),
    (MistakeKind::AddedBias, &[AddsBias]),
    (MistakeKind::NoMaximum, &[DoesNotShiftExponents]),
    (MistakeKind::MaskIgnored, &[LooksAtTheFuture]),
    (MistakeKind::ForgotExponential, &[ForgetsExponential]),
    (MistakeKind::NotNormalized, &[ForgetsToNormalize]),
    (MistakeKind::WeightsTransposed, &[SumsOverQueries]),
];

/// The student: writes a step down, rounded, and goes on with what is written.
struct Student {
    decimals: usize,
    claims: Vec<(&'static str, Vec<Vec<String>>)>,
}

impl Student {
    fn write(&mut self, name: &'static str, is_stated: bool, numbers: Matrix) -> Matrix {
        if !is_stated {
            return numbers;
        }
        let text = |x: &f64| if x.is_finite() { format!("{x:.*}", self.decimals) } else { "-inf".to_owned() };
        let printed: Vec<Vec<String>> = numbers.iter().map(|row| row.iter().map(text).collect()).collect();
        let read = printed.iter().map(|row| row.iter().map(|x| x.parse().unwrap()).collect()).collect();
        self.claims.push((name, printed));
        read
    }
}

fn times(a: &Matrix, b: impl Fn(usize, usize) -> f64, columns: usize) -> Matrix {
    let cell = |row: &Vec<f64>, j: usize| (0..row.len()).map(|k| row[k] * b(k, j)).sum();
    a.iter().map(|row| (0..columns).map(|j| cell(row, j)).collect()).collect()
}

/// Works an example out with a mistake. Returns the file.
fn work(draw: &mut Draw, planted: Planted) -> String {
    // Widths whose root is not a whole number, so that every scale differs.
    let d_k = [2, 3, 5][draw.below(3)];
    let n = if planted == ForgetsToTransposeKeys { d_k } else { 3 + draw.below(2) };
    let d_model = [6, 7][draw.below(2)];
    let d_v = if planted == MixesKeys { d_k } else { 2 + draw.below(2) };
    let x = matrix(draw, n, d_model, 0.5);
    let weights = [d_k, d_k, d_v].map(|columns| matrix(draw, d_model, columns, 0.5));
    let is_causal = planted == LooksAtTheFuture || planted != SumsOverQueries && draw.below(4) == 0;
    let mut student = Student { decimals: 3 + draw.below(2), claims: Vec::new() };
    let is_brief = draw.below(3) == 0;

    let bias: Vec<f64> = (0..d_k).map(|_| 0.5 + (draw.unit() * 4.0).round() / 2.0).collect();
    let mut q = times(&x, |k, j| weights[0][k][j], d_k);
    if planted == AddsBias {
        q.iter_mut().for_each(|row| row.iter_mut().zip(&bias).for_each(|(x, b)| *x += b));
    }
    let q = student.write("Q", !is_brief || planted == AddsBias, q);
    let of_keys = usize::from(planted != ProjectsKeysLikeQueries);
    let k = student.write("K", !is_brief, times(&x, |k, j| weights[of_keys][k][j], d_k));
    let v = student.write("V", !is_brief, times(&x, |k, j| weights[2][k][j], d_v));
    let scores = match planted {
        ForgetsToTransposeKeys => times(&q, |a, b| k[a][b], n),
        ComparesQueriesWithQueries => times(&q, |a, b| q[b][a], n),
        _ => times(&q, |a, b| k[b][a], n),
    };
    let scores = student.write("scores", true, scores);
    let divisor = match planted {
        DividesByWidth => d_k as f64,
        ForgetsScale => 1.0,
        DividesByRootOfInputWidth => (d_model as f64).sqrt(),
        _ => (d_k as f64).sqrt(),
    };
    let mut scaled: Matrix = scores.iter().map(|row| row.iter().map(|x| x / divisor).collect()).collect();
    scaled = student.write("scaled", !is_brief, scaled);
    if is_causal {
        let is_hidden = |i: usize, j: usize| j > i && planted != LooksAtTheFuture;
        let hide = |(i, row): (usize, &Vec<f64>)| {
            row.iter().enumerate().map(|(j, x)| if is_hidden(i, j) { f64::NEG_INFINITY } else { *x }).collect()
        };
        scaled = scaled.iter().enumerate().map(hide).collect();
    }
    let largest: Vec<f64> = scaled.iter().map(|row| row.iter().copied().fold(f64::NEG_INFINITY, f64::max)).collect();
    let shows_exponentials = !is_brief || planted == DoesNotShiftExponents;
    let power = |(i, row): (usize, &Vec<f64>)| {
        let shift = if planted == DoesNotShiftExponents { 0.0 } else { largest[i] };
        row.iter().map(|x| if planted == ForgetsExponential { *x } else { (x - shift).exp() }).collect()
    };
    let exponentials: Matrix = scaled.iter().enumerate().map(power).collect();
    let exponentials = student.write("exponentials", shows_exponentials, exponentials);
    let share = |(i, row): (usize, &Vec<f64>)| {
        let sum: f64 = row.iter().sum();
        let column = |j: usize| exponentials.iter().map(|row| row[j]).sum::<f64>();
        let share = |(j, x): (usize, &f64)| match planted {
            ForgetsToNormalize => *x,
            NormalizesColumns => exponentials[i][j] / column(j),
            _ => x / sum,
        };
        row.iter().enumerate().map(share).collect()
    };
    let shares: Matrix = exponentials.iter().enumerate().map(share).collect();
    let shares = student.write("weights", true, shares);
    let output = match planted {
        SumsOverQueries => {
            let turned: Matrix = (0..n).map(|j| shares.iter().map(|row| row[j]).collect()).collect();
            times(&turned, |a, b| v[a][b], d_v)
        }
        MixesKeys => times(&shares, |a, b| k[a][b], d_v),
        _ => times(&shares, |a, b| v[a][b], d_v),
    };
    student.write("output", true, output);

    let mut file = format!("{{\"inputs\": {{\"X\": {x:?}");
    for (name, weight) in ["W_Q", "W_K", "W_V"].iter().zip(&weights) {
        let _ = write!(file, ", \"{name}\": {weight:?}");
    }
    let _ = write!(file, "}}, \"options\": {{\"causal\": {is_causal}}}, \"claims\": {{");
    for (i, (name, claim)) in student.claims.iter().enumerate() {
        let _ = write!(file, "{}\"{name}\": {claim:?}", if i > 0 { ", " } else { "" });
    }
    file + "}}"
}

fn check(file: &str) -> CheckReport {
    WorkedExample::parse(file).and_then(|example| example.check()).unwrap_or_else(|problem| panic!("{problem}: {file}"))
}

fn first_named(checked: &CheckReport) -> Option<&LikelyMistake> {
    checked.first_wrong()?.mistake.as_ref()
}

#[test]
fn planted_mistakes_are_named() {
    let mut draw = Draw::new(46);
    let (mut right, mut alone, mut missed) = (HashMap::<MistakeKind, usize>::new(), 0, Vec::new());
    for trial in 0..17 * KINDS.len() {
        let (kind, forms) = KINDS[trial % KINDS.len()];
        let planted = forms[draw.below(forms.len())];
        let (checked, file) = loop {
            let file = work(&mut draw, planted);
            let checked = check(&file);
            // Some mistakes change nothing.
            if !checked.ok {
                break (checked, file);
            }
        };
        match first_named(&checked) {
            Some(found) if found.kind == kind => *right.entry(kind).or_default() += 1,
            found => missed.push(format!("{planted:?} was called {found:?}: {file}")),
        }
        // Later steps follow from the numbers that the student wrote down, so they inherit the mistake. Without the
        // exponential, the weights may be wrong too.
        let wrong = checked.steps.iter().filter(|step| step.verdict == ClaimVerdict::Wrong).count();
        assert!(wrong == 1 || wrong == 2, "{planted:?}: {wrong} steps: {file}");
        alone += usize::from(wrong == 1);
    }
    // At least nine in ten, and each kind at least 13 of 17 times.
    let total: usize = right.values().sum();
    assert!(total >= 184 && alone >= 184, "{total}, {alone}: {}", missed.join("\n"));
    for (kind, _) in KINDS {
        let count = right.get(&kind).copied().unwrap_or(0);
        assert!(count >= 13, "{kind:?}: {count} of 17: {}", missed.join("\n"));
    }
    println!("{total} of {}; {}", 17 * KINDS.len(), missed.join("\n"));
}

#[test]
fn no_mistake_is_named_in_correct_calculations() {
    let mut draw = Draw::new(47);
    for _ in 0..500 {
        let file = work(&mut draw, Nothing);
        // Every number is finite, so no case is left out.
        assert!(!file.contains("inf") && !file.contains("NaN"), "{file}");
        let checked = check(&file);
        assert!(checked.ok, "{checked:#?}: {file}");
        assert!(checked.steps.iter().all(|step| step.mistake.is_none() && step.wrong == 0 && step.inherited == 0));
    }
}

/// Returns the kinds of all mistakes, which the source lists one a line.
fn count_kinds() -> usize {
    let list = include_str!("../../src/checks/mistakes.rs").split("\nmistakes! {").nth(1).unwrap();
    list.split("\n}").next().unwrap().lines().filter(|line| !line.trim().is_empty()).count()
}

fn named(file: &str) -> Vec<Option<MistakeKind>> {
    check(file).steps.iter().map(|step| step.mistake.as_ref().map(|mistake| mistake.kind)).collect()
}

/// Names every kind that no planted mistake has. The wrong numbers were computed by hand.
#[test]
fn mistakes_of_other_kinds_are_named() {
    use MistakeKind as Kind;
    let file = |inputs: &str, options: &str, claims: &str| {
        format!(r#"{{"inputs": {{{inputs}}}, "options": {{{options}}}, "claims": {{{claims}}}}}"#)
    };
    let mut seen: HashSet<Kind> = KINDS.iter().map(|(kind, _)| *kind).collect();
    // exp: 1, e = 2.7183, e² = 7.3891; sums 11.1073, 11.1073, 6.4366, together 28.6512. Without the largest score of the
    // row: e⁻² = 0.1353, e⁻¹ = 0.3679, 1; sums 1.5032, 1.5032, 2.3679, and of the columns 2.1353, 1.5032, 1.7358.
    let scores = r#""scaled": [[0, 1, 2], [2, 0, 1], [1, 1, 0]], "V": [[1, 2, 4], [3, 1, 1], [0, 5, 2]]"#;
    for (options, claims, kind) in [
        (
            "",
            r#""weights": [["0.50", "0.73", "0.88"], ["0.88", "0.50", "0.73"], ["0.73", "0.73", "0.50"]]"#,
            Kind::Sigmoid,
        ),
        (r#""subtract_max": false"#, r#""exponentials": [[1, 2, 4], [4, 1, 2], [2, 2, 1]]"#, Kind::OtherBase),
        (
            "",
            r#""weights": [["0.00", "0.00", "1.00"], ["1.00", "0.00", "0.00"], ["1.00", "0.00", "0.00"]]"#,
            Kind::HardForSoft,
        ),
        (
            r#""causal": true"#,
            r#""masked": [[0, "-inf", "-inf"], [2, 0, "-inf"], [1, 1, 0]],
               "weights": [["0.0900", 0, 0], ["0.6652", "0.0900", 0], ["0.4223", "0.4223", "0.1554"]]"#,
            Kind::MaskAfterSoftmax,
        ),
        (r#""causal": true"#, r#""masked": [[0, 0, 0], [2, 0, 0], [1, 1, 0]]"#, Kind::MaskAsZero),
        (r#""causal": true"#, r#""masked": [[0, 1, 2], ["-inf", 0, 1], ["-inf", "-inf", 0]]"#, Kind::MaskReversed),
        ("", r#""output": [[3, 11, 5], [2, 9, 10], [4, 3, 5]]"#, Kind::NoSoftmax),
        ("", r#""max": [2, 2, 2]"#, Kind::MaximumOfMatrix),
        (
            "",
            r#""weights": [["0.6652", "1.8083", "4.9155"], ["4.9155", "0.6652", "1.8083"], ["1.1480", "1.1480", "0.4223"]]"#,
            Kind::NormalizedWithoutMaximum,
        ),
        (
            "",
            r#""weights": [["0.0122", "0.0331", "0.0900"], ["0.0900", "0.0122", "0.0331"], ["0.1554", "0.1554", "0.0572"]]"#,
            Kind::NormalizedWithoutMaximum,
        ),
        ("", r#""sums": [["2.1353"], ["1.5032"], ["1.7358"]]"#, Kind::ColumnSums),
        (
            "",
            r#""weights": [["0.0349", "0.0949", "0.2579"], ["0.2579", "0.0349", "0.0949"], ["0.0949", "0.0949", "0.0349"]]"#,
            Kind::SoftmaxOverMatrix,
        ),
        // With the largest score subtracted, these would be the exponentials themselves.
        (
            r#""subtract_max": false"#,
            r#""weights": [["0.1353", "0.3679", 1], [1, "0.1353", "0.3679"], [1, 1, "0.3679"]]"#,
            Kind::DividedByLargest,
        ),
        (
            "",
            r#""weights": [["9.00", "24.47", "66.52"], ["66.52", "9.00", "24.47"], ["42.23", "42.23", "15.54"]]"#,
            Kind::Percentages,
        ),
        ("", r#""weights": [["9", "24", "67"], ["67", "9", "24"], ["42", "42", "16"]]"#, Kind::Percentages),
        // The means of the columns of V are 4/3, 8/3 and 7/3.
        (
            "",
            r#""output": [["1.333", "2.667", "2.333"], ["1.333", "2.667", "2.333"], ["1.333", "2.667", "2.333"]]"#,
            Kind::WeightsIgnored,
        ),
    ] {
        let found = named(&file(scores, options, claims));
        assert_eq!(found.into_iter().flatten().next(), Some(kind), "{claims}");
        seen.insert(kind);
    }
    // X W_Q = 16, 17; 34, 29. First a wrong sign, a term left out, and two numbers that changed places.
    let product = r#""X": [[1, 2], [3, 4]], "W_Q": [[2, -5], [7, 11]]"#;
    let with_bias = format!("{product}, \"b_Q\": [1, 2]");
    // Scores 7, 3, 5 of width 2.
    let keys = r#""Q": [[1, 1]], "K": [[3, 4], [1, 2], [2, 3]]"#;
    // X + V = 0, 0, 6: mean 2, deviations −2, −2, 4, variance 8, of the sample 12; normalized −0.707, −0.707, 1.414.
    let sum = r#""Q": [[0]], "K": [[0]], "V": [[2, 0, 4]], "X": [[-2, 0, 2]]"#;
    let with_gamma = format!("{sum}, \"gamma\": [2, 3, 0.5]");
    let post = r#""residual": true, "norm": "post""#;
    for (inputs, options, claims, kind) in [
        (product, "", r#""Q": [[16, -17], [34, 29]]"#, Some(Kind::WrongSign)),
        (product, "", r#""Q": [[16, 17], [34, 44]]"#, Some(Kind::LeftOutTerm)),
        (product, "", r#""Q": [[16, 17], [29, 34]]"#, Some(Kind::SwappedNumbers)),
        (product, "", r#""Q": [[16, 34], [17, 29]]"#, Some(Kind::TransposedMatrix)),
        (product, "", r#""Q": [[16, 17], [34, 36]]"#, None),
        (product, "", r#""Q": [[1, 2], [3, 4]]"#, Some(Kind::ProjectionLeftOut)),
        (&with_bias[..], "", r#""Q": [[16, 17], [34, 29]]"#, Some(Kind::LeftOutBias)),
        // 7/√2 = 4.950, and 7√2 = 9.899.
        (keys, "", r#""scores": [["4.950", "2.121", "3.536"]]"#, Some(Kind::ScaledEarly)),
        (keys, "", r#""scaled": [["9.899", "4.243", "7.071"]]"#, Some(Kind::MultipliedByRoot)),
        (keys, "", r#""scaled": [["2.333", "1.000", "1.667"]]"#, Some(Kind::DividedByLength)),
        (sum, post, r#""residual": [[2, 0, 4]]"#, Some(Kind::ResidualLeftOut)),
        (sum, post, r#""final_norm": [["-0.577", "-0.577", "1.155"]]"#, Some(Kind::SampleVariance)),
        (sum, post, r#""final_norm": [["-0.250", "-0.250", "0.500"]]"#, Some(Kind::RootLeftOut)),
        (sum, post, r#""final_norm": [["0.000", "0.000", "1.732"]]"#, Some(Kind::MeanNotSubtracted)),
        (&with_gamma[..], post, r#""final_norm": [["-0.707", "-0.707", "1.414"]]"#, Some(Kind::LeftOutGamma)),
        (
            r#""X": [[1, 2]], "W_1": [[1, -1], [1, -1]]"#,
            r#""activation": "relu""#,
            r#""activated": [[3, -3]]"#,
            Some(Kind::ActivationLeftOut),
        ),
        (
            r#""Q": [[1, 2], [0, 1]], "K": [[1, 1], [2, 0]], "v_a": [1, 1]"#,
            r#""score": "additive""#,
            r#""scores": [[3, 2], [1, 0]]"#,
            Some(Kind::DotForAdditive),
        ),
        // The probabilities are 0.0900, 0.2447 and 0.6652. These are logarithms to base 2.
        (
            r#""logits": [[0, 1, 2]], "target": [[0, 0, 1]]"#,
            "",
            r#""log_probabilities": [["-3.4734", "-2.0307", "-0.5881"]]"#,
            Some(Kind::OtherLogarithm),
        ),
    ] {
        assert_eq!(named(&file(inputs, options, claims)), [kind], "{claims}");
        seen.extend(kind);
    }
    assert_eq!(seen.len(), count_kinds(), "{seen:?}");
}

#[test]
fn a_mistake_in_a_step_that_is_not_stated_is_found_in_the_next_claim() {
    // Scores 0 and 4 of width 4: scaled 0 and 2, divided by d_k 0 and 1.
    let file = r#"{"inputs": {"Q": [[1, 1, 1, 1]], "K": [[0, 0, 0, 0], [1, 1, 1, 1]]},
        "claims": {"weights": [["0.269", "0.731"]]}}"#;
    let checked = check(file);
    let mistake = checked.steps[0].mistake.as_ref().unwrap();
    assert_eq!((mistake.kind, mistake.step.as_deref()), (MistakeKind::DividedByDk, Some("scaled")));
    assert_eq!(mistake.text(), "likely mistake, in scaled: divided by d_k instead of √d_k");
}

/// The scaled scores are right, but softmax takes those before the division. Softmax of 7 and 3 is 0.982 and 0.018, of
/// 6 and 2 the same.
#[test]
fn softmax_of_scores_that_were_not_scaled_is_named() {
    use MistakeKind::{NotScaled, Percentages};
    let file = |options: &str, claims: &str| {
        format!(
            r#"{{"inputs": {{"Q": [[1, 1], [2, 0]], "K": [[3, 4], [1, 2]]}}, "options": {{{options}}}, "claims": {{{claims}}}}}"#
        )
    };
    let scaled = r#""scaled": [["4.950", "2.121"], ["4.243", "1.414"]]"#;
    let weights = r#""weights": [["0.982", "0.018"], ["0.982", "0.018"]]"#;
    assert_eq!(named(&file("", weights)), [Some(NotScaled)]);
    assert_eq!(named(&file("", &format!("{scaled}, {weights}"))), [None, Some(NotScaled)]);
    // The later parts of softmax follow from the first.
    let parts =
        format!(r#"{scaled}, "max": [[7], [6]], "exponentials": [["1.000", "0.018"], ["1.000", "0.018"]], {weights}"#);
    assert_eq!(named(&file("", &parts)), [None, Some(NotScaled), Some(NotScaled), None]);
    let masked = r#""masked": [["4.950", "-inf"], ["4.243", "1.414"]], "weights": [[1, 0], ["0.982", "0.018"]]"#;
    assert_eq!(named(&file(r#""causal": true"#, masked)), [None, Some(NotScaled)]);
    // With the scale, the weights are 0.944, 0.056; 0.944, 0.056.
    let percent = r#""weights": [["94.4", "5.6"], ["94.4", "5.6"]]"#;
    assert_eq!(named(&file("", &format!("{scaled}, {percent}"))), [None, Some(Percentages)]);
}

/// Random calculations whose weights are percentages, or come from scores that were not scaled.
#[test]
fn planted_percentages_and_unscaled_weights_are_named() {
    let mut draw = Draw::new(48);
    for trial in 0..40 {
        let (d_k, n) = ([2, 3, 5][draw.below(3)], 3 + draw.below(2));
        let [q, k] = [(); 2].map(|()| matrix(&mut draw, n, d_k, 0.5));
        let scores = times(&q, |a, b| k[b][a], n);
        let scaled: Matrix = scores.iter().map(|row| row.iter().map(|x| x / (d_k as f64).sqrt()).collect()).collect();
        let (kind, of, unit) = match trial % 2 {
            0 => (MistakeKind::Percentages, &scaled, 100.0),
            _ => (MistakeKind::NotScaled, &scores, 1.0),
        };
        let share = |row: &Vec<f64>| {
            let sum: f64 = row.iter().map(|x| x.exp()).sum();
            row.iter().map(|x| unit * x.exp() / sum).collect()
        };
        let mut student = Student { decimals: 4, claims: Vec::new() };
        if draw.below(2) == 0 {
            student.write("scaled", true, scaled.clone());
        }
        student.write("weights", true, of.iter().map(share).collect());
        let claims: Vec<String> =
            student.claims.iter().map(|(name, numbers)| format!("\"{name}\": {numbers:?}")).collect();
        let claims = claims.join(", ");
        let file = format!("{{\"inputs\": {{\"Q\": {q:?}, \"K\": {k:?}}}, \"claims\": {{{claims}}}}}");
        assert_eq!(named(&file).last(), Some(&Some(kind)), "{file}");
    }
}

/// The errors of a column are equal, because each is infinite or NaN; that is no bias.
#[test]
fn numbers_that_are_not_finite_have_no_likely_mistake() {
    for wrong in ["nan", "inf", "-inf"] {
        for claims in [
            format!(r#""Q": [["{wrong}", 2], ["{wrong}", 4]]"#),
            format!(r#""Q": [["{wrong}", "{wrong}"], ["{wrong}", "{wrong}"]]"#),
            format!(r#""scores": [["{wrong}", 2], ["{wrong}", 4]]"#),
            format!(r#""weights": [["{wrong}", "{wrong}"], ["{wrong}", "{wrong}"]]"#),
        ] {
            let file = format!(
                r#"{{"inputs": {{"X": [[1, 2], [3, 4]], "W_Q": [[1, 0], [0, 1]], "K": [[1, 0], [0, 1]]}}, "claims": {{{claims}}}}}"#
            );
            assert!(!check(&file).ok, "{claims}");
            assert_eq!(named(&file), [None], "{claims}");
        }
    }
}

/// The square of a factor is 1/d_k only if the factor is 1/√d_k.
#[test]
fn another_factor_is_not_called_a_mistake_with_d_k() {
    let kind = |options: &str, claims: &str| {
        let file = format!(
            r#"{{"inputs": {{"Q": [[1, 1]], "K": [[3, 4], [1, 2]]}}{options}, "claims": {{"scaled": [[{claims}]]}}}}"#
        );
        check(&file).steps[0].mistake.as_ref().map(|mistake| mistake.kind)
    };
    // Scores 7 and 3 of width 2.
    assert_eq!(kind("", r#""3.5", "1.5""#), Some(MistakeKind::DividedByDk));
    for options in [r#", "options": {"beta": 0.5}"#, r#", "options": {"scale": 0.3}"#] {
        for claims in [r#""1.75", "0.75""#, r#""0.63", "0.27""#, r#""14", "6""#, r#""23.3", "10""#] {
            let found = kind(options, claims);
            let about_width = [MistakeKind::DividedByDk, MistakeKind::MultipliedByRoot];
            assert!(found.is_none_or(|kind| !about_width.contains(&kind)), "{options} {claims}: {found:?}");
        }
    }
}

#[test]
fn usual_roundings_of_constants_are_no_errors() {
    // 7/√2 = 4.9497, and 7/1.41 = 4.9645; 3/√2 = 2.1213, and 3/1.41 = 2.1277.
    let file =
        |claims: &str| format!(r#"{{"inputs": {{"Q": [[1, 1]], "K": [[3, 4], [1, 2]]}}, "claims": {{{claims}}}}}"#);
    let checked = check(&file(r#""scaled": [["4.9645", "2.1277"]]"#));
    assert!(checked.ok, "{checked:?}");
    assert_eq!(checked.steps[0].verdict, ClaimVerdict::Rounded);
    assert_eq!(checked.constants, ["√2 ≈ 1.41"]);
    // 7 · 0.71 and 3 · 0.71.
    assert_eq!(check(&file(r#""scaled": [["4.97", "2.13"]]"#)).constants, ["1/√2 ≈ 0.71"]);
    // One number with another constant is an error.
    assert!(!check(&file(r#""scaled": [["4.9645", "2.1213"]]"#)).ok);
    // Exact numbers need no rounded constant.
    let exact = check(&file(r#""scaled": [["4.9497", "2.1213"]]"#));
    assert!(exact.ok && exact.constants.is_empty());
    // 2.72² = 7.3984.
    let powers = |claim: &str| {
        check(&format!(
            r#"{{"inputs": {{"scaled": [[2, 1]]}}, "options": {{"subtract_max": false}}, "claims": {{"exponentials": [[{claim}]]}}}}"#
        ))
    };
    assert_eq!(powers(r#""7.3984", "2.7200""#).constants, ["e ≈ 2.72"]);
    assert!(powers(r#""7.3891", "2.7183""#).constants.is_empty());
    // 2 · 3.14 · 10,000^(1/2).
    let waves =
        |claim: &str| check(&format!(r#"{{"positions": {{"d_model": 4}}, "claims": {{"wavelength_1": "{claim}"}}}}"#));
    assert_eq!(waves("628.0").constants, ["π ≈ 3.14"]);
    assert!(waves("628.3").constants.is_empty() && !waves("627.0").ok);
}

#[test]
fn only_new_errors_are_counted() {
    // Q is wrong in one number, and two scores follow from it; a third is wrong by itself.
    let file = r#"{"inputs": {"X": [[1, 2], [3, 4]], "W_Q": [[1, 0], [0, 1]], "K": [[1, 1], [0, 1]]},
        "claims": {"Q": [[1, 2], [3, 5]], "scores": [[9, 2], [8, 5]]}}"#;
    let checked = check(file);
    let counts: Vec<[usize; 2]> = checked.steps.iter().map(|step| [step.wrong, step.inherited]).collect();
    assert_eq!(counts, [[1, 0], [1, 2]]);
    let example = WorkedExample::parse(file).unwrap();
    let text = checked.to_text("a.json", &example);
    assert!(text.contains("scores        wrong here  1 of 4 numbers, 2 more inherited\n"), "{text}");
}

#[test]
fn the_articles_mistakes_are_named() {
    let mistake = |name: &str, step: &str| {
        let checked = chumoku_trace::builtin(name).unwrap().check().unwrap();
        let found = checked.steps.iter().find(|found| found.name == step).unwrap();
        found.mistake.as_ref().map(|mistake| (mistake.kind, mistake.used.clone()))
    };
    // 1 · 1 + 1 · 1 is printed as 1.
    assert_eq!(mistake("two-tokens", "Q"), Some((MistakeKind::LeftOutTerm, None)));
    // The scores of the first example with concrete tokens are those of Q and Q.
    let used = Some(["Q", "K"].map(str::to_owned));
    assert_eq!(mistake("school", "scores"), Some((MistakeKind::WrongMatrix, used)));
    assert_eq!(mistake("book", "exponentials"), None);
}
