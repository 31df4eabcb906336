//! Implications of printed numbers.
//!
//! Printed numbers are rounded, so their consequences are [`Interval`]s instead of numbers. A consequence of a wrong
//! number is not a second error, so each implied number records whether it depends on an error.

use crate::program::operation::{Operation, StepId};
use crate::program::printed_number::{Interval, PrintedNumber, Scalar};
use crate::program::quantity::Quantity;
use crate::program::step_kind::StepKind;
use crate::program::steps::Program;
use chumoku_kernels::Activation;
use ndarray::Array2;
use serde::Serialize;
use std::f64::consts::E;

/// An implied number: its possible values, and whether it depends on an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImpliedNumber {
    pub(crate) range: Interval,
    pub(crate) follows_error: bool,
}

impl ImpliedNumber {
    fn combine(range: Interval, a: ImpliedNumber, b: ImpliedNumber) -> ImpliedNumber {
        ImpliedNumber { range, follows_error: a.follows_error || b.follows_error }
    }

    /// Returns whether the number is 0 and depends on no error.
    fn is_sound_zero(self) -> bool {
        self.range.is_zero() && !self.follows_error
    }
}

/// A function of one number depends on an error if the number does.
macro_rules! unary {
    ($($name:ident),*) => {$(
        fn $name(self) -> ImpliedNumber {
            ImpliedNumber { range: self.range.$name(), ..self }
        }
    )*};
}

impl Scalar for ImpliedNumber {
    fn from_f64(x: f64) -> ImpliedNumber {
        ImpliedNumber { range: Interval::from_f64(x), follows_error: false }
    }
    fn add(self, other: ImpliedNumber) -> ImpliedNumber {
        ImpliedNumber::combine(self.range.add(other.range), self, other)
    }
    fn sub(self, other: ImpliedNumber) -> ImpliedNumber {
        ImpliedNumber::combine(self.range.sub(other.range), self, other)
    }
    fn mul(self, other: ImpliedNumber) -> ImpliedNumber {
        // A factor of 0 makes a wrong number irrelevant.
        let is_misled =
            (self.follows_error && !other.is_sound_zero()) || (other.follows_error && !self.is_sound_zero());
        ImpliedNumber { range: self.range.mul(other.range), follows_error: is_misled }
    }
    fn div(self, other: ImpliedNumber) -> ImpliedNumber {
        ImpliedNumber::combine(self.range.div(other.range), self, other)
    }
    unary!(exp, sqrt, tanh, ln, square);
    fn activate(self, activation: Activation) -> ImpliedNumber {
        ImpliedNumber { range: self.range.activate(activation), ..self }
    }
    fn activation_derivative(self, activation: Activation) -> ImpliedNumber {
        ImpliedNumber { range: self.range.activation_derivative(activation), ..self }
    }
    fn max(self, other: ImpliedNumber) -> ImpliedNumber {
        ImpliedNumber::combine(Scalar::max(self.range, other.range), self, other)
    }
    fn mul_share(self, value: ImpliedNumber) -> ImpliedNumber {
        // A claimed share of 0 excludes the value.
        if self.range.is_zero() { self } else { self.mul(value) }
    }
    fn is_argmax(row: &[ImpliedNumber], j: usize) -> ImpliedNumber {
        let ranges: Vec<Interval> = row.iter().map(|belief| belief.range).collect();
        let is_misled = row.iter().any(|belief| belief.follows_error);
        ImpliedNumber { range: Interval::is_argmax(&ranges, j), follows_error: is_misled }
    }
    fn is_negative_infinity(self) -> bool {
        self.range.is_negative_infinity()
    }
    fn is_zero(self) -> bool {
        self.range.is_zero()
    }
    fn midpoint(self) -> f64 {
        self.range.midpoint()
    }
}

/// Verdict on the claimed numbers of a step, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimVerdict {
    /// All numbers are true.
    Holds,
    /// The numbers follow from the previous steps as printed, which were rounded: nobody made an error.
    Rounded,
    /// The numbers follow from the previous steps as claimed, but those were wrong.
    Inherited,
    /// The numbers are wrong and follow from no previous claim.
    Wrong,
}

/// The claim about a step, if any.
pub(crate) type ClaimMatrix<'a> = Option<&'a Array2<Option<PrintedNumber>>>;

/// Constants of a hand calculation, which people round before they use them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Constants {
    /// The factor of scaled scores, as a multiple of the exact one.
    pub(crate) scale: f64,
    /// The base of exponentials.
    pub(crate) e: f64,
}

impl Constants {
    pub(crate) const EXACT: Constants = Constants { scale: 1.0, e: E };
}

/// The implications of claims, and the verdicts on them.
pub(crate) struct Implications {
    /// The constants of the calculation.
    pub(crate) constants: Constants,
    /// The value of each step that the claims before it imply.
    pub(crate) implied: Vec<Array2<ImpliedNumber>>,
    /// The value of each step that the following steps use: the claims where there are any.
    pub(crate) believed: Vec<Array2<ImpliedNumber>>,
    /// The verdict on each claimed number.
    pub(crate) verdicts: Vec<Array2<Option<ClaimVerdict>>>,
}

impl Implications {
    pub(crate) fn compute(program: &Program, claims: &[ClaimMatrix<'_>], constants: Constants) -> Implications {
        // Each token of a recurrent network depends on the previous one, whose row belongs to a later step. Each pass
        // carries the claims one token further.
        let tokens = program.steps().iter().filter(|step| matches!(step.operation, Operation::StateRecurrence(_)));
        let mut passes = tokens.map(|step| step.value.nrows()).max().unwrap_or(1);
        // Gradients flow from the last token to the first, once their operands are known.
        if program.steps().iter().any(|step| matches!(step.operation, Operation::StateGradient(_))) {
            passes *= 2;
        }
        let mut found = Implications::pass(program, claims, constants, None);
        for _ in 1..passes {
            found = Implications::pass(program, claims, constants, Some(&found.believed));
        }
        found
    }

    fn pass(
        program: &Program,
        claims: &[ClaimMatrix<'_>],
        constants: Constants,
        last: Option<&[Array2<ImpliedNumber>]>,
    ) -> Implications {
        let mut found = Implications { constants, implied: Vec::new(), believed: Vec::new(), verdicts: Vec::new() };
        for (id, step) in program.steps().iter().enumerate() {
            let mut result = implied_matrix(program, id, &found.believed, claims, constants);
            if let (Operation::StateRecurrence(before), Some(last)) = (&step.operation, last)
                && let Some(of) = program.find_kind(step.kind, before.source_quantity(), None)
            {
                result
                    .rows_mut()
                    .into_iter()
                    .skip(1)
                    .zip(last[of].rows())
                    .for_each(|(mut row, before)| row.assign(&before));
            }
            if let (Operation::StateGradient(later), Some(last)) = (&step.operation, last)
                && let Some(of) = program.find_kind(StepKind::Gradient, later.recurrence.result_quantity(), None)
            {
                let after = last[of].rows().into_iter().skip(1);
                result.rows_mut().into_iter().zip(after).for_each(|(mut row, after)| row.assign(&after));
            }
            let (belief, verdict) = believe(&step.value, claims[id], &result);
            found.believed.push(belief);
            found.implied.push(result);
            found.verdicts.push(verdict);
        }
        found
    }

    /// Returns the implied values of the steps up to `last`, if the steps of `replaced` had other values than those
    /// that follow from the claims.
    pub(crate) fn with_replaced(
        &self,
        program: &Program,
        claims: &[ClaimMatrix<'_>],
        replaced: &[(StepId, Array2<ImpliedNumber>)],
        last: StepId,
    ) -> Vec<Array2<ImpliedNumber>> {
        let first = replaced.iter().map(|(id, _)| *id).min().unwrap_or(0);
        let mut believed = self.believed[..first].to_vec();
        let mut implied = self.implied[..first].to_vec();
        for id in first..=last {
            let step = program.step(id);
            let result = match replaced.iter().find(|(other, _)| *other == id) {
                Some((_, other)) => other.clone(),
                // These depend on later steps.
                None if matches!(step.operation, Operation::StateRecurrence(_) | Operation::StateGradient(_)) => {
                    self.implied[id].clone()
                }
                None => implied_matrix(program, id, &believed, claims, self.constants),
            };
            believed.push(believe(&step.value, claims[id], &result).0);
            implied.push(result);
        }
        implied
    }

    /// Returns the number of wrong numbers of a step.
    pub(crate) fn count_wrong(&self, id: StepId) -> usize {
        self.verdicts[id].iter().filter(|verdict| **verdict == Some(ClaimVerdict::Wrong)).count()
    }
}

/// Returns the value of a step that the following steps use, and the verdicts on its claimed numbers.
fn believe(
    truth: &Array2<f64>,
    claim: ClaimMatrix<'_>,
    implied: &Array2<ImpliedNumber>,
) -> (Array2<ImpliedNumber>, Array2<Option<ClaimVerdict>>) {
    let mut belief = implied.clone();
    let mut verdict = Array2::from_elem(implied.dim(), None);
    for (at, printed) in claim.iter().flat_map(|claim| claim.indexed_iter()) {
        let Some(printed) = printed else { continue };
        let (truth, implied) = (truth[at], implied[at]);
        let found = judge(printed, truth, implied);
        let source = match found {
            ClaimVerdict::Wrong => Interval::from_f64(printed.value),
            ClaimVerdict::Holds => implied.range.extended_to(truth),
            ClaimVerdict::Rounded | ClaimVerdict::Inherited => implied.range,
        };
        // After rounding, a consequence of a wrong number may look true, but it still depends on an error.
        let is_misled = implied.follows_error || found == ClaimVerdict::Wrong;
        belief[at] = ImpliedNumber { range: printed.range(source), follows_error: is_misled };
        verdict[at] = Some(found);
    }
    (belief, verdict)
}

/// Returns the verdict on a printed number.
fn judge(printed: &PrintedNumber, truth: f64, implied: ImpliedNumber) -> ClaimVerdict {
    match implied.range.can_round_to(printed) {
        _ if printed.agrees_with(truth) => ClaimVerdict::Holds,
        false => ClaimVerdict::Wrong,
        true if implied.follows_error => ClaimVerdict::Inherited,
        // Rounding makes no finite number NaN or infinite.
        true if !printed.value.is_finite() => ClaimVerdict::Wrong,
        true => ClaimVerdict::Rounded,
    }
}

/// Returns the value of a step that the previous steps imply.
///
/// A softmax without claims about its parts is computed as a whole. Computed part by part, one score could have
/// different values in numerator and denominator.
fn implied_matrix(
    program: &Program,
    id: StepId,
    believed: &[Array2<ImpliedNumber>],
    claims: &[ClaimMatrix<'_>],
    constants: Constants,
) -> Array2<ImpliedNumber> {
    let step = program.step(id);
    let operation = |id: StepId| &program.step(id).operation;
    let is_silent = |id: &StepId| claims[*id].is_none();
    match &step.operation {
        Operation::Given => step.value.mapv(ImpliedNumber::from_f64),
        Operation::Scale { of, factor } if step.quantity == Quantity::ScaledScores && constants.scale != 1.0 => {
            Operation::Scale { of: *of, factor: factor * constants.scale }.apply(|id| believed[id].view())
        }
        Operation::Exp { of, largest: Some(largest) } if is_silent(largest) => {
            map_rows(&to_base(&believed[*of], constants.e), row_exponentials)
        }
        Operation::Exp { of, largest } if constants.e != E => {
            let of = to_base(&believed[*of], constants.e);
            let largest = largest.map(|id| to_base(&believed[id], constants.e));
            let operation = Operation::Exp { of: 0, largest: largest.as_ref().map(|_| 1) };
            operation.apply(|id| largest.as_ref().filter(|_| id == 1).unwrap_or(&of).view())
        }
        Operation::DivideByRowSums { of, sums } if is_silent(sums) && *operation(*sums) == Operation::RowSums(*of) => {
            match operation(*of) {
                Operation::Exp { of: scores, largest } if is_silent(of) && largest.iter().all(is_silent) => {
                    softmax(&to_base(&believed[*scores], constants.e))
                }
                _ => shares(&believed[*of]),
            }
        }
        operation => operation.apply(|id| believed[id].view()),
    }
}

/// Returns exponents whose powers of `e` are those of the constant `base`.
fn to_base(of: &Array2<ImpliedNumber>, base: f64) -> Array2<ImpliedNumber> {
    if base == E { of.clone() } else { of.mapv(|x| x.mul(ImpliedNumber::from_f64(base.ln()))) }
}

/// Computes the softmax of each row.
pub(crate) fn softmax(of: &Array2<ImpliedNumber>) -> Array2<ImpliedNumber> {
    map_rows(of, row_softmax)
}

/// Divides each row by its sum.
pub(crate) fn shares(of: &Array2<ImpliedNumber>) -> Array2<ImpliedNumber> {
    map_rows(of, |row| row_shares(&row.iter().map(|x| [x.low, x.high]).collect::<Vec<_>>()))
}

/// Computes each row from a row of operands. The results are from 0 to 1; a NaN makes the whole row NaN.
fn map_rows(of: &Array2<ImpliedNumber>, compute: impl Fn(&[Interval]) -> Vec<Interval>) -> Array2<ImpliedNumber> {
    let mut found = of.clone();
    for mut row in found.rows_mut() {
        let ranges: Vec<Interval> = row.iter().map(|belief| belief.range).collect();
        let is_misled = row.iter().any(|belief| belief.follows_error);
        let is_nan = ranges.iter().any(|x| x.low.is_nan() || x.high.is_nan() || x.low == f64::INFINITY);
        let is_open = ranges.iter().any(|x| x.high == f64::INFINITY);
        let computed = match (is_nan, is_open) {
            (true, _) => vec![Interval::from_f64(f64::NAN); ranges.len()],
            // A number without an upper bound may be the largest or not.
            (false, true) => vec![Interval { low: 0.0, high: 1.0 }; ranges.len()],
            (false, false) => compute(&ranges),
        };
        for (belief, range) in row.iter_mut().zip(computed) {
            *belief = match belief.is_negative_infinity() {
                // A masked key has the weight 0, whatever the other numbers are.
                true => ImpliedNumber { range: Interval::from_f64(0.0), ..*belief },
                false => ImpliedNumber { range, follows_error: is_misled },
            };
        }
    }
    found
}

/// Computes `exp(x − row max)`; x itself takes part in the maximum.
fn row_exponentials(row: &[Interval]) -> Vec<Interval> {
    let largest_of_others = |end: fn(&Interval) -> f64| {
        let best = (0..row.len()).reduce(|best, j| if end(&row[j]) > end(&row[best]) { j } else { best });
        let second =
            (0..row.len()).filter(|&j| Some(j) != best).map(|j| end(&row[j])).fold(f64::NEG_INFINITY, f64::max);
        move |i: usize| if Some(i) == best { second } else { best.map_or(f64::NEG_INFINITY, |best| end(&row[best])) }
    };
    let (lows, highs) = (largest_of_others(|x| x.low), largest_of_others(|x| x.high));
    let below = |x: f64, others: f64| if x == f64::NEG_INFINITY { 0.0 } else { (x - others.max(x)).exp() };
    (0..row.len()).map(|i| Interval { low: below(row[i].low, highs(i)), high: below(row[i].high, lows(i)) }).collect()
}

/// Computes bounds of `exp(x) / Σ exp` from bounds of x, which the kernels' softmax cannot.
fn row_softmax(row: &[Interval]) -> Vec<Interval> {
    let most = row.iter().fold(f64::NEG_INFINITY, |most, x| most.max(x.high));
    let exp = |x: f64| if x == f64::NEG_INFINITY { 0.0 } else { (x - most).exp() };
    row_shares(&row.iter().map(|x| [exp(x.low), exp(x.high)]).collect::<Vec<_>>())
}

/// Computes `x / Σ x`: smallest for the smallest x and the largest others. Numbers below 0 count as 0.
fn row_shares(row: &[[f64; 2]]) -> Vec<Interval> {
    let part = |x: &[f64; 2]| x.map(|x| x.max(0.0));
    let sums = row.iter().map(part).fold([0.0; 2], |sums, x| [sums[0] + x[0], sums[1] + x[1]]);
    let share = |x: f64, others: f64| if x > 0.0 { x / (x + others.max(0.0)) } else { 0.0 };
    let both = |x: &[f64; 2]| {
        let [low, high] = part(x);
        Interval { low: share(low, sums[1] - high), high: share(high, sums[0] - low) }
    };
    row.iter().map(both).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All results for numbers from the intervals lie within the computed intervals, which are no wider than the
    /// results at the ends.
    #[test]
    fn row_intervals_are_tight() {
        let random = chumoku_kernels::Philox::new(5, 5);
        let mut count = 0;
        let mut next = || {
            count += 1;
            f64::from(random.uniform(count))
        };
        for _ in 0..300 {
            let row: Vec<Interval> = (0..4).map(|_| Interval::around(next() * 4.0 - 2.0, next() / 4.0)).collect();
            let [e, a] = [row_exponentials(&row), row_softmax(&row)];
            let mut reached = [[f64::INFINITY, f64::NEG_INFINITY]; 4];
            // All corners, and points inside.
            for draw in 0..64 {
                let x: Vec<f64> = row
                    .iter()
                    .enumerate()
                    .map(|(j, x)| match (draw < 16, draw >> j & 1) {
                        (true, 0) => x.low,
                        (true, _) => x.high,
                        (false, _) => x.low + (x.high - x.low) * next(),
                    })
                    .collect();
                let most = x.iter().fold(f64::NEG_INFINITY, |most, x| most.max(*x));
                let sum: f64 = x.iter().map(|x| (x - most).exp()).sum();
                for (j, x) in x.iter().enumerate() {
                    let (own, share) = ((x - most).exp(), (x - most).exp() / sum);
                    assert!(e[j].low - 1e-12 <= own && own <= e[j].high + 1e-12, "{:?} {own}", e[j]);
                    assert!(a[j].low - 1e-12 <= share && share <= a[j].high + 1e-12, "{:?} {share}", a[j]);
                    reached[j] = [reached[j][0].min(share), reached[j][1].max(share)];
                }
            }
            for (a, [low, high]) in a.iter().zip(reached) {
                assert!((a.low - low).abs() < 1e-9 && (a.high - high).abs() < 1e-9, "{a:?} {low} {high}");
            }
        }
    }

    #[test]
    fn masked_keys_have_weight_zero_and_nan_spreads() {
        let belief = |range| ImpliedNumber { range, follows_error: false };
        let nothing = Interval::from_f64(f64::NEG_INFINITY);
        let row = ndarray::array![
            [belief(nothing), belief(Interval::from_f64(1.0))],
            [belief(Interval::from_f64(f64::NAN)), belief(Interval::from_f64(1.0))],
            [belief(nothing), belief(nothing)],
            [belief(Interval { low: 0.0, high: f64::INFINITY }), belief(Interval::from_f64(1.0))],
        ];
        let ends = map_rows(&row, row_softmax).mapv(|belief| [belief.range.low, belief.range.high]);
        assert_eq!(ends.row(0).to_vec(), [[0.0; 2], [1.0; 2]]);
        assert!(ends.row(1).iter().flatten().all(|x| x.is_nan()));
        assert_eq!(ends.row(2).to_vec(), [[0.0; 2]; 2]);
        assert_eq!(ends.row(3).to_vec(), [[0.0, 1.0]; 2], "a number without an upper bound is not NaN");
    }
}
