//! Whether the numbers of a worked example are true, and where they first go wrong.
//!
//! A claim holds if it is within half a unit of its last printed digit. What does not hold may still follow from the
//! claims before it: then the error was made there. Because those were rounded too, what follows from them is not one
//! number but an interval, which is computed with interval arithmetic and is never too narrow.

use super::example::{Claim, WorkedExample};
use super::figures::Figure;
use super::number::{Interval, Printed, Scalar};
use super::operation::{Operation, StepId};
use super::program::Program;
use super::quantity::Quantity;
use ndarray::Array2;
use serde::Serialize;

/// What is to be said of the claimed numbers of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All are true.
    Holds,
    /// They follow from the steps before as claimed, but those were wrong.
    Inherited,
    /// They are wrong, and follow from nothing before.
    Wrong,
}

/// The claimed number that is furthest from the truth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Worst {
    /// Its place: row and column from 0, after the head where each has its own; empty for a single figure.
    pub index: Vec<usize>,
    /// As it was printed.
    pub claimed: String,
    /// What it should be.
    #[serde(rename = "true")]
    pub truth: f64,
    /// What it should be after the steps before as claimed, where that is something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_claims: Option<f64>,
}

/// What is to be said of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckedStep {
    /// The claim's name.
    pub name: String,
    /// Whether it is true.
    pub verdict: Verdict,
    /// How many numbers are claimed.
    pub claimed: usize,
    /// How many of them are not true.
    pub wrong: usize,
    /// The number that is furthest from the truth, if one is not true.
    pub worst: Option<Worst>,
}

/// What is to be said of a worked example.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// Whether every claim holds.
    pub ok: bool,
    /// The claims, in the order of the computation.
    pub steps: Vec<CheckedStep>,
}

impl WorkedExample {
    /// Checks every claimed number.
    ///
    /// # Errors
    /// If the matrices do not fit each other, or a claim is about what does not follow from them.
    pub fn check(&self) -> Result<Checked, String> {
        if !self.figures.is_empty() {
            return Ok(self.check_figures());
        }
        if self.claims.is_empty() {
            return Err("no claims: expected the key “claims” with at least one of Q, K, V, scores, …".into());
        }
        let program = self.program()?;
        let mut claims: Vec<Option<&Array2<Option<Printed>>>> = vec![None; program.steps().len()];
        let mut named = Vec::new();
        for (quantity, claim) in &self.claims {
            if claim.iter().flatten().all(Option::is_none) {
                let name = quantity.name();
                return Err(format!("claims.{name}: expected at least one number, found null throughout"));
            }
            let ids = place(&program, *quantity, claim)?;
            ids.iter().zip(claim).for_each(|(&id, matrix)| claims[id] = Some(matrix));
            named.push((*quantity, ids));
        }
        let believed = Beliefs::of(&program, &claims);
        let mut steps: Vec<(StepId, CheckedStep)> = named
            .into_iter()
            .map(|(quantity, ids)| (ids[0], believed.step(&program, quantity, &ids, &claims)))
            .collect();
        steps.sort_by_key(|(id, _)| *id);
        let steps: Vec<CheckedStep> = steps.into_iter().map(|(_, step)| step).collect();
        Ok(Checked { ok: steps.iter().all(|step| step.verdict == Verdict::Holds), steps })
    }
}

impl WorkedExample {
    /// Holds the figures of an example of sizes against the truth.
    fn check_figures(&self) -> Checked {
        let step = |Figure { name, claim, truth }: &Figure| {
            let holds = claim.holds(*truth);
            let worst = Worst { index: Vec::new(), claimed: claim.text.clone(), truth: *truth, from_claims: None };
            CheckedStep {
                name: name.clone(),
                verdict: if holds { Verdict::Holds } else { Verdict::Wrong },
                claimed: 1,
                wrong: usize::from(!holds),
                worst: (!holds).then_some(worst),
            }
        };
        let steps: Vec<CheckedStep> = self.figures.iter().map(step).collect();
        Checked { ok: steps.iter().all(|step| step.verdict == Verdict::Holds), steps }
    }
}

/// The steps that a claim is about, one for each of its matrices.
fn place(program: &Program, quantity: Quantity, claim: &Claim) -> Result<Vec<StepId>, String> {
    let name = quantity.name();
    let whole = |quantity| program.find(quantity, None).map(|id| vec![id]);
    let of_heads = |quantity| -> Vec<StepId> { (0..).map_while(|head| program.find(quantity, Some(head))).collect() };
    let mut ids = if claim.len() > 1 { of_heads(quantity) } else { whole(quantity).unwrap_or_default() };
    // One head's output, or the heads side by side, may already be the output.
    let is_last = |id: StepId| matches!(program.step(id).operation, Operation::Mixture(_) | Operation::Joined(_));
    if ids.is_empty() && claim.len() == 1 && matches!(quantity, Quantity::HeadOutput | Quantity::Concat) {
        ids = whole(Quantity::Output).filter(|ids| is_last(ids[0])).or(whole(Quantity::HeadOutput)).unwrap_or_default();
    }
    if ids.is_empty() {
        let heads = of_heads(quantity).len();
        if heads > 0 {
            return Err(format!("claims.{name}: expected {heads} matrices, one for each head, found 1"));
        }
        if whole(quantity).is_some() {
            return Err(format!("claims.{name}: expected one matrix, found {}", claim.len()));
        }
        return Err(format!("claims.{name} does not follow from the inputs: {}", needs(quantity)));
    }
    if ids.len() != claim.len() {
        let (expected, found) = (ids.len(), claim.len());
        return Err(format!("claims.{name}: expected {expected} matrices, one for each head, found {found}"));
    }
    for (head, (id, matrix)) in ids.iter().zip(claim).enumerate() {
        let (expected, found) = (program.value(*id).dim(), matrix.dim());
        if expected != found {
            let of = if claim.len() > 1 { format!(" of head {}", head + 1) } else { String::new() };
            return Err(format!(
                "claims.{name}{of}: expected {}×{} numbers, as follows from the inputs, found {}×{}",
                expected.0, expected.1, found.0, found.1
            ));
        }
    }
    Ok(ids)
}

/// What the inputs must give for a quantity.
fn needs(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Q => "give Q, or X and W_Q",
        Quantity::K => "give K, or X (or memory) and W_K",
        Quantity::V => "give V, or X (or memory) and W_V",
        Quantity::Scores => "give Q and K, or what they are made from",
        Quantity::Scaled => "give Q and K, or scores and options.d_k",
        Quantity::Masked => "give Q and K, and options.causal or options.mask",
        Quantity::Output | Quantity::HeadOutput | Quantity::Concat => "give V and what the weights are made from",
        Quantity::Residual => "give X and what the output is made from",
        Quantity::Norm | Quantity::FinalNorm => "give X, and options.norm",
        Quantity::Weights | Quantity::Exponentials | Quantity::Sums | Quantity::Largest | Quantity::Biased => {
            "give Q and K, or scaled"
        }
        _ => "it is something to start from",
    }
}

/// What is true if every claim is taken for what it says.
struct Beliefs {
    /// What follows from the claims before a step.
    follows: Vec<Array2<Interval>>,
    /// Whether one of them is not true.
    is_misled: Vec<bool>,
}

impl Beliefs {
    fn of(program: &Program, claims: &[Option<&Array2<Option<Printed>>>]) -> Beliefs {
        let mut believed: Vec<Array2<Interval>> = Vec::new();
        let (mut follows, mut is_misled) = (Vec::new(), Vec::new());
        // Whether what is believed of a step, or of one before it, is not true.
        let mut is_false: Vec<bool> = Vec::new();
        for (step, claim) in program.steps().iter().zip(claims) {
            let result = match step.operation {
                Operation::Given => step.value.mapv(Interval::of),
                ref operation => operation.apply(|id| believed[id].view()),
            };
            let misled = step.operation.operands().iter().any(|&id| is_false[id]);
            let mut belief = result.clone();
            let mut wrong = false;
            for (at, printed) in claim.iter().flat_map(|claim| claim.indexed_iter()) {
                let Some(printed) = printed else { continue };
                let truth = step.value[at];
                wrong |= !printed.holds(truth);
                belief[at] = printed.range(truth);
            }
            // After rounding, what follows from a wrong number may look true: it is still not the truth.
            is_false.push(wrong || misled);
            is_misled.push(misled);
            believed.push(belief);
            follows.push(result);
        }
        Beliefs { follows, is_misled }
    }

    fn step(
        &self,
        program: &Program,
        quantity: Quantity,
        ids: &[StepId],
        claims: &[Option<&Array2<Option<Printed>>>],
    ) -> CheckedStep {
        let name = quantity.name().to_owned();
        let mut found = CheckedStep { name, verdict: Verdict::Holds, claimed: 0, wrong: 0, worst: None };
        let mut largest = (false, f64::NEG_INFINITY);
        for (head, &id) in ids.iter().enumerate() {
            let (value, follows) = (program.value(id), &self.follows[id]);
            for ((i, j), printed) in claims[id].iter().flat_map(|claim| claim.indexed_iter()) {
                let Some(printed) = printed else { continue };
                let (truth, implied) = (value[[i, j]], follows[[i, j]]);
                found.claimed += 1;
                if printed.holds(truth) {
                    continue;
                }
                found.wrong += 1;
                let is_inherited = self.is_misled[id] && implied.may_be(printed);
                found.verdict = match is_inherited && found.verdict != Verdict::Wrong {
                    true => Verdict::Inherited,
                    false => Verdict::Wrong,
                };
                // What is wrong here counts before what was wrong already.
                let distance = (printed.value - truth).abs();
                let rank = (!is_inherited, if distance.is_nan() { f64::INFINITY } else { distance });
                if found.worst.is_none() || rank > largest {
                    largest = rank;
                    let index = if ids.len() > 1 { vec![head, i, j] } else { vec![i, j] };
                    let other = implied.middle();
                    let from_claims = (self.is_misled[id] && !printed.holds(other) && other != truth).then_some(other);
                    found.worst = Some(Worst { index, claimed: printed.text.clone(), truth, from_claims });
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::WorkedExample;

    fn check(text: &str) -> Checked {
        WorkedExample::parse(text).unwrap().check().unwrap()
    }

    fn verdicts(checked: &Checked) -> Vec<(&str, Verdict)> {
        checked.steps.iter().map(|step| (step.name.as_str(), step.verdict)).collect()
    }

    #[test]
    fn an_error_is_told_from_what_it_causes() {
        // Q is wrong; scores follow from it as claimed; scaled are wrong by themselves; weights are true.
        let checked = check(
            r#"{"inputs": {"X": [[1, 2], [3, 4]], "W_Q": [[1, 0], [0, 1]], "K": [[1, 0], [0, 1]]},
                "claims": {"Q": [[1, 2], [3, 5]], "scores": [[1, 2], [3, 5]],
                           "scaled": [["0.71", "1.41"], ["2.12", "3.53"]], "sums": [["1.49"], ["1.49"]]}}"#,
        );
        use Verdict::{Holds, Inherited, Wrong};
        assert_eq!(verdicts(&checked), [("Q", Wrong), ("scores", Inherited), ("scaled", Wrong), ("sums", Holds)]);
        let worst = checked.steps[2].worst.as_ref().unwrap();
        assert_eq!((&worst.index[..], worst.claimed.as_str()), (&[1, 1][..], "3.53"));
        assert!((worst.truth - 8f64.sqrt()).abs() < 1e-12, "{worst:?}");
        assert!((worst.from_claims.unwrap() - 12.5f64.sqrt()).abs() < 1e-6, "{worst:?}");
        assert!(!checked.ok);
    }

    #[test]
    fn gaps_are_filled_with_what_follows() {
        let checked = check(
            r#"{"inputs": {"Q": [[2, 0], [0, 2]], "K": [[1, 0], [0, 1]], "V": [[1, 2, 3], [4, 5, 6]]},
                "claims": {"scores": [[3, null], [null, null]], "scaled": [["2.12", 0], [0, "1.41"]],
                           "output": [[null, null, null], [null, null, "5.41"]]}}"#,
        );
        use Verdict::{Holds, Inherited, Wrong};
        assert_eq!(verdicts(&checked), [("scores", Wrong), ("scaled", Inherited), ("output", Holds)]);
        assert_eq!((checked.steps[1].claimed, checked.steps[1].wrong), (4, 1));
    }
}
