//! Checks the claims of a worked example, and finds where they first go wrong.
//!
//! A claim holds if it is within half a unit of its last printed digit. Any other claim may still follow from the
//! previous claims as printed. If one of those is wrong, the error was made there. If none is, nobody made an error,
//! and rounding explains the difference. The consequences of rounded numbers are intervals, computed with interval
//! arithmetic, which is never too narrow (`implications.rs`).

use crate::checks::implications::{ClaimMatrix, ClaimVerdict, Constants, Implications};
use crate::checks::mistakes::{LikelyMistake, MistakeSearch};
use crate::examples::example::WorkedExample;
use crate::examples::matrices::ClaimedMatrices;
use crate::examples::size_claims::SizeClaim;
use crate::program::operation::{Operation, StepId};
use crate::program::printed_number::{PrintedNumber, Scalar};
use crate::program::quantity::Quantity;
use crate::program::step_kind::StepKind;
use crate::program::steps::Program;
use chumoku::tr;
use ndarray::Array2;
use serde::Serialize;
use std::f64::consts::{E, PI};

/// The claimed number that is furthest from the truth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorstNumber {
    /// Row and column from 0, preceded by the head if each head has its own matrix; empty for a single number.
    pub index: Vec<usize>,
    /// The printed text.
    pub claimed: String,
    /// The true value.
    #[serde(rename = "true")]
    pub truth: f64,
    /// The value that follows from the previous claims, if it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_claims: Option<f64>,
}

/// Verdict on a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimResult {
    /// Name of the claim.
    pub name: String,
    /// The verdict.
    pub verdict: ClaimVerdict,
    /// Number of claimed numbers.
    pub claimed: usize,
    /// Number of wrong numbers: those that do not follow from previous claims.
    pub wrong: usize,
    /// Number of numbers that follow from wrong numbers of previous steps.
    pub inherited: usize,
    /// Number of numbers that are off in the last digit because previous steps were rounded.
    pub rounded: usize,
    /// The number furthest from the truth, if any is not true; wrong numbers take precedence.
    pub worst: Option<WorstNumber>,
    /// The mistake that explains the wrong numbers, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mistake: Option<LikelyMistake>,
    /// Rows of claimed weights whose sum is not 1, even allowing for rounding.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub row_sums: Vec<RowSum>,
}

/// The sum of a row of claimed weights.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowSum {
    /// The row from 0, preceded by the head if each head has its own matrix.
    pub index: Vec<usize>,
    /// The sum of the printed numbers.
    pub sum: f64,
}

/// Result of checking a worked example.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckReport {
    /// True if no claim is wrong or inherited: each holds or follows from rounded numbers.
    pub ok: bool,
    /// The claims, in the order of the computation.
    pub steps: Vec<ClaimResult>,
    /// The rounded constants that the numbers were computed with, such as `√2 ≈ 1.41`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub constants: Vec<String>,
}

impl WorkedExample {
    /// Checks every claimed number.
    ///
    /// # Errors
    /// If the matrices do not fit each other, or a claim names a quantity that does not follow from them.
    pub fn check(&self) -> Result<CheckReport, String> {
        if !self.size_claims.is_empty() {
            return Ok(self.check_size_claims());
        }
        if self.claims.is_empty() {
            return Err(tr!(
                "no claims: expected the key “claims” with at least one of Q, K, V, scores, …",
                "検算する値の記載がありません。Q、K、V、scores などを一つ以上書いたキー “claims” が必要です"
            ));
        }
        let program = self.program_for_claims()?;
        let mut claims: Vec<ClaimMatrix<'_>> = vec![None; program.steps().len()];
        let mut named = Vec::new();
        for (kind, quantity, claim) in &self.claims {
            if claim.iter().flatten().all(Option::is_none) {
                let name = claim_name(*kind, *quantity);
                return Err(tr!(
                    "claims.{name}: expected at least one number, found null throughout",
                    "claims.{name}: 数値が一つ以上必要ですが、すべて null です"
                ));
            }
            let ids = self.claimed_steps(&program, *kind, *quantity, claim)?;
            ids.iter().zip(claim).for_each(|(&id, matrix)| claims[id] = Some(matrix));
            named.push(ids);
        }
        let (believed, constants) = with_constants(&program, &claims);
        let mut steps = Vec::new();
        for (ids, (kind, quantity, claim)) in named.into_iter().zip(&self.claims) {
            let what = (*kind, *quantity);
            let is_own = |(&id, matrix): (&StepId, &Array2<Option<PrintedNumber>>)| {
                claims[id].is_some_and(|other| std::ptr::eq(other, matrix))
            };
            let step = match ids.iter().zip(claim).all(is_own) {
                true => check_claim(&believed, &program, what, &ids, &claims),
                // Another claim is about the same step: the output of a single head may be claimed as heads, concat and
                // output.
                false => {
                    let mut claims = claims.clone();
                    ids.iter().zip(claim).for_each(|(&id, matrix)| claims[id] = Some(matrix));
                    let believed = Implications::compute(&program, &claims, believed.constants);
                    check_claim(&believed, &program, what, &ids, &claims)
                }
            };
            steps.push((ids[0], step));
        }
        steps.sort_by_key(|(id, _)| *id);
        let steps: Vec<ClaimResult> = steps.into_iter().map(|(_, step)| step).collect();
        Ok(CheckReport::new(steps, constants))
    }
}

impl CheckReport {
    fn new(steps: Vec<ClaimResult>, constants: Vec<String>) -> CheckReport {
        CheckReport { ok: steps.iter().all(|step| step.verdict <= ClaimVerdict::Rounded), steps, constants }
    }
}

/// Returns the implications of claims, and the roundings of constants that they were computed with.
///
/// People divide by 1.41 instead of √2. A rounding counts only if it explains all numbers of a wrong claim, and makes no
/// other number wrong.
fn with_constants(program: &Program, claims: &[ClaimMatrix<'_>]) -> (Implications, Vec<String>) {
    let mut found = Implications::compute(program, claims, Constants::EXACT);
    let mut used = Vec::new();
    let all_wrong = |of: &Implications| -> Vec<usize> {
        (0..claims.len()).filter(|&id| claims[id].is_some()).map(|id| of.count_wrong(id)).collect()
    };
    for roundings in [root_roundings(program), e_roundings()] {
        let mut wrong = all_wrong(&found);
        if wrong.iter().all(|&count| count == 0) {
            break;
        }
        let exact = found.constants;
        let mut best = None;
        for (constants, text) in roundings {
            let constants = Constants { scale: constants.scale * exact.scale, e: constants.e };
            let other = Implications::compute(program, claims, constants);
            let less = all_wrong(&other);
            let explains = |id: &usize| {
                let numbers = claims[*id].into_iter().flat_map(|claim| claim.indexed_iter());
                let mut printed = numbers.filter_map(|(at, printed)| Some((at, printed.as_ref()?)));
                printed.all(|(at, printed)| other.implied[*id][at].range.can_round_to(printed))
            };
            let claimed = (0..claims.len()).filter(|&id| claims[id].is_some());
            let turns_right = claimed.zip(&wrong).any(|(id, before)| *before > 0 && explains(&id));
            if turns_right && wrong.iter().zip(&less).all(|(before, after)| after <= before) {
                wrong = less;
                best = Some((other, text));
            }
        }
        if let Some((other, text)) = best {
            found = other;
            used.push(text);
        }
    }
    (found, used)
}

fn rounded(x: f64, decimals: i32) -> f64 {
    (x * 10f64.powi(decimals)).round() / 10f64.powi(decimals)
}

/// Returns the usual roundings of √d_k and of 1/√d_k, finest first.
fn root_roundings(program: &Program) -> Vec<(Constants, String)> {
    let factor = program.steps().iter().find_map(|step| match step.operation {
        Operation::Scale { factor, .. } if step.quantity == Quantity::ScaledScores => Some(factor),
        _ => None,
    });
    let width = factor.map_or(0.0, |factor| (1.0 / (factor * factor)).round());
    let root = width.sqrt();
    // Another scale than that of d_k has no usual roundings.
    if root.fract() == 0.0 || factor.is_none_or(|factor| (factor * root - 1.0).abs() > 1e-12) {
        return Vec::new();
    }
    let of_root = [4, 3, 2, 1]
        .map(|decimals| (root / rounded(root, decimals), format!("√{width} ≈ {}", rounded(root, decimals))));
    let inverse = 1.0 / root;
    let of_inverse = [4, 3, 2]
        .map(|decimals| (rounded(inverse, decimals) / inverse, format!("1/√{width} ≈ {}", rounded(inverse, decimals))));
    let all = of_root.into_iter().chain(of_inverse).filter(|(scale, _)| *scale > 0.0);
    all.map(|(scale, text)| (Constants { scale, ..Constants::EXACT }, text)).collect()
}

/// Returns the usual roundings of e, finest first.
fn e_roundings() -> Vec<(Constants, String)> {
    let rounding = |decimals| {
        let e = rounded(E, decimals);
        (Constants { e, ..Constants::EXACT }, format!("e ≈ {e}"))
    };
    [4, 3, 2].map(rounding).to_vec()
}

impl WorkedExample {
    /// Checks the claims of an example about sizes.
    fn check_size_claims(&self) -> CheckReport {
        let mut constants = Vec::new();
        let mut step = |SizeClaim { name, claim, truth }: &SizeClaim| {
            let mut verdict = if claim.agrees_with(*truth) { ClaimVerdict::Holds } else { ClaimVerdict::Wrong };
            // Wavelengths are multiples of 2π.
            let pi = [4, 3, 2].map(|decimals| rounded(PI, decimals));
            let pi = pi.into_iter().find(|pi| claim.agrees_with(truth * pi / PI));
            if let Some(pi) = pi.filter(|_| verdict == ClaimVerdict::Wrong && name.starts_with("wavelength")) {
                verdict = ClaimVerdict::Rounded;
                let text = format!("π ≈ {pi}");
                if !constants.contains(&text) {
                    constants.push(text);
                }
            }
            let holds = verdict == ClaimVerdict::Holds;
            let worst =
                WorstNumber { index: Vec::new(), claimed: claim.text.clone(), truth: *truth, from_claims: None };
            ClaimResult {
                name: name.clone(),
                verdict,
                claimed: 1,
                wrong: usize::from(verdict == ClaimVerdict::Wrong),
                inherited: 0,
                rounded: usize::from(verdict == ClaimVerdict::Rounded),
                worst: (!holds).then_some(worst),
                mistake: None,
                row_sums: Vec::new(),
            }
        };
        let steps = self.size_claims.iter().map(&mut step).collect();
        CheckReport::new(steps, constants)
    }

    /// Builds the steps that claims refer to, including gradients and the optimizer step if claims need them.
    fn program_for_claims(&self) -> Result<Program, String> {
        let mut program = self.program()?;
        let kinds = || self.claims.iter().map(|(kind, ..)| *kind);
        if kinds().any(|kind| kind != StepKind::Value) {
            program.add_gradients(None)?;
        }
        if let Some((kind, quantity, _)) = self.claims.iter().find(|(kind, ..)| kind.is_of_optimizer()) {
            let Some(optimizer) = &self.optimizer else {
                let name = claim_name(*kind, *quantity);
                return Err(tr!(
                    "claims.{name}: expected the key “optimizer” too, the settings of the step (an empty object for the \
                     defaults)",
                    "claims.{name}: 更新の設定を示すキー “optimizer” も必要です（既定値でよければ空のオブジェクト）"
                ));
            };
            program.add_optimizer_step(optimizer)?;
        }
        Ok(program)
    }

    /// Returns the steps that a claim refers to, one for each of its matrices.
    fn claimed_steps(
        &self,
        program: &Program,
        kind: StepKind,
        quantity: Quantity,
        claim: &ClaimedMatrices,
    ) -> Result<Vec<StepId>, String> {
        let name = claim_name(kind, quantity);
        let find = |quantity, head| program.find_kind(kind, quantity, head);
        let whole = |quantity| find(quantity, None).map(|id| vec![id]);
        let of_heads = |quantity| -> Vec<StepId> { (0..).map_while(|head| find(quantity, Some(head))).collect() };
        let not_one_each = |expected: usize, found: usize| {
            Err(tr!(
                "claims.{name}: expected {expected} matrices, one for each head, found {found}",
                "claims.{name}: ヘッドごとに一つ、全部で {expected} 個の行列が必要ですが、{found} 個です"
            ))
        };
        let mut ids = if claim.len() > 1 { of_heads(quantity) } else { whole(quantity).unwrap_or_default() };
        // The output of a single head, or the concatenated heads, may be the output.
        let is_last =
            |id: StepId| matches!(program.step(id).operation, Operation::WeightedSum(_) | Operation::Concat(_));
        let is_of_heads = kind == StepKind::Value && matches!(quantity, Quantity::HeadOutput | Quantity::Concat);
        if ids.is_empty() && claim.len() == 1 && is_of_heads {
            ids = whole(Quantity::Output)
                .filter(|ids| is_last(ids[0]))
                .or(whole(Quantity::HeadOutput))
                .unwrap_or_default();
        }
        if ids.is_empty() {
            let heads = of_heads(quantity).len();
            if heads > 0 {
                return not_one_each(heads, 1);
            }
            if whole(quantity).is_some() {
                return Err(tr!(
                    "claims.{name}: expected one matrix, found {}",
                    "claims.{name}: 行列は一つだけ必要ですが、{} 個です",
                    claim.len()
                ));
            }
            if kind != StepKind::Value {
                return Err(tr!(
                    "claims.{name}: expected a quantity whose gradient the trace has (softmax counts as a whole) or, after a \
                     training step, a parameter or a quantity that follows from one; {} is none of these here",
                    "claims.{name}: 勾配がトレースにある値（softmax は全体で一つ。更新については、パラメータかそこから導かれる値）が\
                     必要ですが、ここでは {} はどれでもありません",
                    quantity.name()
                ));
            }
            let missing = self.missing_advice(quantity);
            return Err(tr!(
                "claims.{name} does not follow from the inputs: {missing}",
                "claims.{name} は inputs から導けません: {missing}"
            ));
        }
        if ids.len() != claim.len() {
            return not_one_each(ids.len(), claim.len());
        }
        for (head, (id, matrix)) in ids.iter().zip(claim).enumerate() {
            let (expected, found) = (program.value(*id).dim(), matrix.dim());
            if expected != found {
                let of =
                    if claim.len() > 1 { tr!(" of head {}", "（ヘッド {}）", head + 1) } else { String::new() };
                return Err(tr!(
                    "claims.{name}{of}: expected {}×{} numbers, as follows from the inputs, found {}×{}",
                    "claims.{name}{of}: inputs から {}×{} 個の数値になるはずですが、{}×{} です",
                    expected.0,
                    expected.1,
                    found.0,
                    found.1
                ));
            }
        }
        Ok(ids)
    }
}

/// Returns the name of a claim.
pub(crate) fn claim_name(kind: StepKind, quantity: Quantity) -> String {
    kind.claim_prefix().unwrap_or_default().to_owned() + quantity.name()
}

/// Returns the verdict on a claim.
fn check_claim(
    implications: &Implications,
    program: &Program,
    (kind, quantity): (StepKind, Quantity),
    ids: &[StepId],
    claims: &[ClaimMatrix<'_>],
) -> ClaimResult {
    let name = claim_name(kind, quantity);
    let mut found = ClaimResult {
        name,
        verdict: ClaimVerdict::Holds,
        claimed: 0,
        wrong: 0,
        inherited: 0,
        rounded: 0,
        worst: None,
        mistake: MistakeSearch { program, claims, implications, ids }.likely_mistake(),
        row_sums: Vec::new(),
    };
    let mut largest = (ClaimVerdict::Holds, f64::NEG_INFINITY);
    for (head, &id) in ids.iter().enumerate() {
        let Some(claim) = claims[id] else { continue };
        let (value, follows) = (program.value(id), &implications.implied[id]);
        let place = |at: &[usize]| if ids.len() > 1 { [&[head], at].concat() } else { at.to_vec() };
        for ((i, j), printed) in claim.indexed_iter() {
            let (Some(printed), Some(verdict)) = (printed, implications.verdicts[id][[i, j]]) else { continue };
            let (truth, implied) = (value[[i, j]], follows[[i, j]]);
            found.claimed += 1;
            found.wrong += usize::from(verdict == ClaimVerdict::Wrong);
            found.inherited += usize::from(verdict == ClaimVerdict::Inherited);
            found.rounded += usize::from(verdict == ClaimVerdict::Rounded);
            found.verdict = found.verdict.max(verdict);
            if verdict == ClaimVerdict::Holds {
                continue;
            }
            // Wrong numbers take precedence over inherited ones, and these over rounded ones.
            let distance = (printed.value - truth).abs();
            let rank = (verdict, if distance.is_nan() { f64::INFINITY } else { distance });
            if found.worst.is_none() || rank > largest {
                largest = rank;
                let other = implied.midpoint();
                let is_other = !printed.agrees_with(other) && other != truth;
                let from_claims = (implied.follows_error && is_other).then_some(other);
                found.worst =
                    Some(WorstNumber { index: place(&[i, j]), claimed: printed.text.clone(), truth, from_claims });
            }
        }
        if quantity == Quantity::Weights && matches!(kind, StepKind::Value | StepKind::AfterStep) {
            let rows = claim.rows().into_iter().enumerate();
            let sums = rows.filter_map(|(i, row)| Some((i, unexpected_sum(&row.to_vec())?)));
            found.row_sums.extend(sums.map(|(i, sum)| RowSum { index: place(&[i]), sum }));
        }
    }
    found
}

/// Returns the sum of a row of printed weights if it is not 1 even allowing for rounding. A row without visible keys
/// has the weights 0.
fn unexpected_sum(row: &[Option<PrintedNumber>]) -> Option<f64> {
    let row: Vec<&PrintedNumber> = row.iter().map(Option::as_ref).collect::<Option<_>>()?;
    let sum: f64 = row.iter().map(|x| x.value).sum();
    let room: f64 = row.iter().filter(|x| x.unit < 1.0).map(|x| x.unit / 2.0).sum();
    let sees_nothing = row.iter().all(|x| x.value == 0.0);
    (!sees_nothing && (sum - 1.0).abs() > room + 1e-9).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkedExample;

    fn check(text: &str) -> CheckReport {
        WorkedExample::parse(text).unwrap().check().unwrap()
    }

    fn verdicts(checked: &CheckReport) -> Vec<(&str, ClaimVerdict)> {
        checked.steps.iter().map(|step| (step.name.as_str(), step.verdict)).collect()
    }

    #[test]
    fn errors_are_distinguished_from_their_consequences() {
        // Q is wrong, scores follow from it as claimed, scaled is wrong by itself, and weights are true.
        let checked = check(
            r#"{"inputs": {"X": [[1, 2], [3, 4]], "W_Q": [[1, 0], [0, 1]], "K": [[1, 0], [0, 1]]},
                "claims": {"Q": [[1, 2], [3, 5]], "scores": [[1, 2], [3, 5]],
                           "scaled": [["0.71", "1.41"], ["2.12", "3.51"]], "sums": [["1.49"], ["1.49"]]}}"#,
        );
        use ClaimVerdict::{Holds, Inherited, Wrong};
        assert_eq!(verdicts(&checked), [("Q", Wrong), ("scores", Inherited), ("scaled", Wrong), ("sums", Holds)]);
        let worst = checked.steps[2].worst.as_ref().unwrap();
        assert_eq!((&worst.index[..], worst.claimed.as_str()), (&[1, 1][..], "3.51"));
        assert!((worst.truth - 8f64.sqrt()).abs() < 1e-12, "{worst:?}");
        assert!((worst.from_claims.unwrap() - 12.5f64.sqrt()).abs() < 1e-6, "{worst:?}");
        assert!(!checked.ok);
    }

    /// NaN and the infinities hold only where the true value is the same one, or follow from a wrong claim.
    #[test]
    fn non_finite_claims_hold_only_where_the_truth_is_the_same() {
        use ClaimVerdict::{Holds, Inherited, Wrong};
        let product = |claims: &str| {
            check(&format!(
                r#"{{"inputs": {{"X": [[1, 2], [3, "nan"]], "W_Q": [[1, 0], [0, 1]], "K": [[1, 1]]}}, "claims": {{{claims}}}}}"#
            ))
        };
        for wrong in ["nan", "inf", "-inf"] {
            let checked = product(&format!(r#""Q": [["{wrong}", 2], [null, null]]"#));
            assert_eq!((verdicts(&checked), checked.ok), (vec![("Q", Wrong)], false), "{wrong}");
            assert_eq!(checked.steps[0].mistake, None, "{wrong}");
        }
        assert!(product(r#""Q": [[1, 2], ["nan", "nan"]], "scores": [[3], ["nan"]]"#).ok);
        assert!(!product(r#""Q": [[1, 2], ["nan", 4]]"#).ok, "a number where the truth is NaN");
        assert!(!product(r#""Q": [[1, 2], ["inf", "nan"]]"#).ok, "another number that is not finite");
        let follows = product(r#""Q": [["nan", 2], [null, null]], "scores": [["nan"], [null]]"#);
        assert_eq!(verdicts(&follows), [("Q", Wrong), ("scores", Inherited)]);
        // The probability 2e-9 is printed as 0.00, but its logarithm is finite.
        let rounded = check(
            r#"{"inputs": {"logits": [[0, 20]], "target": [[0, 1]]},
                "claims": {"probabilities": [["0.00", "1.00"]], "log_probabilities": [["-inf", "0.00"]]}}"#,
        );
        assert_eq!(verdicts(&rounded), [("probabilities", Holds), ("log_probabilities", Wrong)]);
        let masked = r#"{"inputs": {"scaled": [[1, 2], [3, 4]]}, "options": {"causal": true},
            "claims": {"masked": [[1, "-inf"], [3, 4]], "weights": [[1, 0], ["0.27", "0.73"]]}}"#;
        assert!(
            check(masked).ok && !check(&masked.replace("-inf", "inf")).ok && !check(&masked.replace("-inf", "nan")).ok
        );
    }

    #[test]
    fn gaps_are_filled_with_implied_numbers() {
        let checked = check(
            r#"{"inputs": {"Q": [[2, 0], [0, 2]], "K": [[1, 0], [0, 1]], "V": [[1, 2, 3], [4, 5, 6]]},
                "claims": {"scores": [[3, null], [null, null]], "scaled": [["2.12", 0], [0, "1.41"]],
                           "output": [[null, null, null], [null, null, "5.41"]]}}"#,
        );
        use ClaimVerdict::{Holds, Inherited, Wrong};
        assert_eq!(verdicts(&checked), [("scores", Wrong), ("scaled", Inherited), ("output", Holds)]);
        assert_eq!((checked.steps[1].claimed, checked.steps[1].wrong, checked.steps[1].inherited), (4, 0, 1));
    }
}
