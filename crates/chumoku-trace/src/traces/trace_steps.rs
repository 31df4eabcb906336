//! Traces: the steps of a program as they are shown, independent of the form.

use crate::examples::caption::Caption;
use crate::examples::example::WorkedExample;
use crate::formulas::batch_shape::{BatchAxis, batch_axes};
use crate::formulas::equation::{EquationPart, equation};
use crate::formulas::expansion::{Expansion, expand};
use crate::formulas::formula::{Formula, formula};
use crate::program::operation::{Operation, StepId};
use crate::program::quantity::{MatrixAxis, Quantity};
use crate::program::step_kind::StepKind;
use crate::program::steps::{Program, ProgramStep};
use crate::traces::attention_controls::{AttentionControls, MAX_NUMBERS};
use crate::traces::traced_loss::TracedLoss;
use chumoku::explain::{HeadLocation, Truncation};
use chumoku::lang::Lang;
use chumoku::row::Row;
use chumoku_kernels::RecurrentCell;
use ndarray::Array2;

/// Attention and the feed-forward network after it, computed step by step. Of several heads, a trace shows one.
///
/// Rows are tokens, and columns their numbers, or rows are queries and columns keys. All numbers are f64.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Title of the worked example, or name of the model.
    pub title: Caption,
    /// Place within a model; `None` for a worked example.
    pub place: Option<HeadLocation>,
    /// Source of the worked example.
    pub(crate) source: Caption,
    /// The row that the model read.
    pub(crate) row: Option<Row>,
    /// The words of the queries.
    pub tokens: Vec<String>,
    /// The words of the keys.
    pub(crate) key_tokens: Vec<String>,
    /// The names of the classes of a classifier.
    pub classes: Vec<String>,
    /// The displayed steps, in order.
    pub steps: Vec<TraceStep>,
    /// The steps of the other heads and the hidden steps after a training step, in order. Spreadsheets and pages need
    /// them for their computations.
    pub hidden_steps: Vec<TraceStep>,
    /// Differences between a model's own numbers and these, by precision.
    pub agreements: Vec<Agreement>,
    /// The part of a long text that the model read.
    pub truncation: Option<Truncation>,
    /// Description of the gradients of a model's trace, if it has them.
    pub(crate) loss: Option<TracedLoss>,
    /// The same steps with those that a page can switch on, if it recomputes them.
    pub(crate) controlled: Option<ControlledProgram>,
}

/// The steps of a trace with those that options leave out, and the options of attention that decide.
#[derive(Clone, Debug)]
pub(crate) struct ControlledProgram {
    pub(crate) controls: AttentionControls,
    pub(crate) steps: Vec<TraceStep>,
    pub(crate) hidden_steps: Vec<TraceStep>,
}

/// A step of a [`Trace`].
#[derive(Clone, Debug)]
pub struct TraceStep {
    /// Number among all steps, including hidden ones.
    pub(crate) id: StepId,
    pub(crate) quantity: Quantity,
    /// The meaning of the matrix: the quantity itself, its gradient, or another kind.
    pub kind: StepKind,
    /// The head, from 0, if each head has its own.
    pub head: Option<usize>,
    /// Symbol in formulas.
    pub symbol: String,
    /// Shape in letters.
    pub shape_letters: [String; 2],
    /// Axes in a batch of texts.
    pub batch_axes: Vec<BatchAxis>,
    /// The matrix.
    pub value: Array2<f64>,
    /// The formula; `None` for an input.
    pub formula: Option<Formula>,
    /// One of the numbers, term by term.
    pub expansion: Option<Expansion>,
    /// Properties that were checked on the whole matrix.
    pub checks: Vec<TraceCheck>,
    pub(crate) operation: Operation,
    /// The operands in the order of the formula.
    pub(crate) equation: Vec<EquationPart>,
}

/// A checked property of a matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceCheck {
    /// The property.
    pub(crate) kind: CheckKind,
    /// The deviation or count that was found.
    pub value: f64,
    /// True if the property holds.
    pub holds: bool,
}

/// A property of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum CheckKind {
    /// Each row sums to 1; the value is the largest deviation.
    RowsSumToOne,
    /// Rows without visible keys; the value is their number.
    EmptyRows,
    /// The largest exponential of each row is 1; the value is the largest deviation.
    LargestIsOne,
    /// Each row has mean 0 and variance 1 before γ and β; the value is the largest deviation.
    Normalised,
    /// Each row has the mean square 1 before γ; the value is the largest deviation.
    RmsNormalised,
    /// Each row has the length 1; the value is the largest deviation.
    UnitLength,
    /// Given numbers that are not finite; the value is their number.
    NotFinite,
}

/// Differences between a model's own numbers and those of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// The precision of the model's matrix products.
    pub precision: String,
    /// The largest difference of each quantity, by its name.
    pub largest_differences: Vec<(&'static str, f64)>,
    /// The largest difference of each gradient, by the quantity's name, relative to the largest number of that
    /// gradient. Empty if there are no gradients.
    pub largest_gradient_differences: Vec<(&'static str, f64)>,
}

impl TraceStep {
    /// Returns the name in files of worked examples.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.quantity.name()
    }

    /// Returns the title.
    #[must_use]
    pub fn title(&self, lang: Lang) -> String {
        let title = self.kind.title_prefix(lang).to_owned() + self.quantity.title(lang);
        match self.head {
            Some(head) => format!("{title} ({})", lang.pick("head", "ヘッド").to_owned() + &format!(" {}", head + 1)),
            None => title,
        }
    }

    /// Returns whether the rows are attention weights.
    pub(crate) fn is_weights(&self) -> bool {
        self.quantity == Quantity::Weights && self.kind == StepKind::Value
    }

    pub(crate) fn axes(&self) -> [MatrixAxis; 2] {
        match (self.quantity, &self.operation) {
            (_, Operation::SoftmaxJacobian { .. }) => [MatrixAxis::Keys; 2],
            // A classifier has one row for the text or, without pooling, one for each token.
            (quantity, _) if quantity.axes()[0] == MatrixAxis::Answers => {
                [if self.value.nrows() == 1 { MatrixAxis::One } else { MatrixAxis::Queries }, quantity.axes()[1]]
            }
            // Without W_O the output has the width of the values.
            (Quantity::Output, Operation::WeightedSum(_) | Operation::Concat(_)) => Quantity::HeadOutput.axes(),
            _ => self.quantity.axes(),
        }
    }
}

impl WorkedExample {
    /// Returns all steps that follow from the inputs. Of several heads it shows the given one (from 0).
    ///
    /// # Errors
    /// If the matrices do not fit each other, or the head does not exist.
    pub fn trace(&self, head: usize) -> Result<Trace, String> {
        self.trace_with(head, |_| Ok(()))
    }

    /// Returns the steps of [`WorkedExample::trace`], followed by the gradients of the loss with respect to every step
    /// that it depends on. If the example has an optimizer, its step for each parameter and the loss after it follow.
    ///
    /// # Errors
    /// If [`WorkedExample::trace`] fails, there is no loss, or a step that the loss depends on has no gradient rule.
    pub fn trace_backward(&self, head: usize) -> Result<Trace, String> {
        self.trace_with(head, |program| {
            program.add_gradients(None)?;
            self.optimizer.as_ref().map_or(Ok(()), |optimizer| program.add_optimizer_step(optimizer))
        })
    }

    /// Returns the steps and those that `more` adds to them.
    pub(crate) fn trace_with(
        &self,
        head: usize,
        more: impl Fn(&mut Program) -> Result<(), String>,
    ) -> Result<Trace, String> {
        if !self.size_claims.is_empty() {
            return Err(chumoku::tr!(
                "this example is about sizes, not matrices: `chumoku check` checks it, `chumoku count` counts",
                "この計算例は行列ではなく大きさについてのものです。検算は `chumoku check`、集計は `chumoku count` です"
            ));
        }
        let mut program = self.program()?;
        more(&mut program)?;
        if program.steps().iter().all(|step| step.operation == Operation::Given) {
            let missing = self.missing_for_scores().join(&chumoku::tr!(" and ", "と"));
            return Err(chumoku::tr!(
                "nothing follows from the inputs: give {missing}",
                "inputs から導けるものがありません。{missing}を与えてください"
            ));
        }
        let (steps, hidden_steps) = self.shown_and_hidden_steps(&program, head)?;
        let controlled = match self.attention_controls(&program) {
            Some(controls) if program.steps().iter().map(|step| step.value.len()).sum::<usize>() <= MAX_NUMBERS => {
                let mut all = self.controllable_program()?;
                more(&mut all)?;
                let (steps, hidden_steps) = self.shown_and_hidden_steps(&all, head)?;
                Some(ControlledProgram { controls, steps, hidden_steps })
            }
            _ => None,
        };
        let key_tokens = if self.key_tokens.is_empty() { self.tokens.clone() } else { self.key_tokens.clone() };
        Ok(Trace {
            title: self.title.clone(),
            place: None,
            source: self.source.clone(),
            tokens: self.tokens.clone(),
            key_tokens,
            classes: self.classes.clone(),
            steps,
            hidden_steps,
            agreements: Vec::new(),
            row: None,
            truncation: None,
            loss: None,
            controlled,
        })
    }

    /// Returns the steps that a trace of the head (from 0) shows, and the others.
    fn shown_and_hidden_steps(
        &self,
        program: &Program,
        head: usize,
    ) -> Result<(Vec<TraceStep>, Vec<TraceStep>), String> {
        let heads = program.steps().iter().filter_map(|step| step.head).max().map_or(1, |last| last + 1);
        if head >= heads {
            return Err(chumoku::tr!(
                "head {}: expected at most {heads}",
                "ヘッド {}: {heads} 以下でなければなりません",
                head + 1
            ));
        }
        // Heads that share keys and values show the shared ones.
        let key_heads = [Quantity::K, Quantity::V].into_iter().map(|quantity| {
            let is_of_head =
                |step: &&ProgramStep| step.kind == StepKind::Value && step.quantity == quantity && step.head.is_some();
            program.steps().iter().filter(is_of_head).count()
        });
        let group = heads / key_heads.max().unwrap_or(0).clamp(1, heads);
        let of_keys = |quantity| matches!(quantity, Quantity::K | Quantity::V);
        let is_shown = |step: &ProgramStep| match step.head {
            // Only the results of the steps that are repeated after a training step are shown.
            _ if step.kind == StepKind::AfterStep && !step.quantity.is_shown_after() => false,
            // Rotated keys have the number of the first head that reads them.
            Some(own) if step.quantity == Quantity::RotatedK => own / group == head / group,
            Some(own) if of_keys(step.quantity) => own == head / group,
            Some(own) => own == head,
            None => true,
        };
        let (shown, others): (Vec<StepId>, Vec<StepId>) =
            (0..program.steps().len()).partition(|&id| is_shown(program.step(id)));
        let displayed = |ids: Vec<StepId>| ids.into_iter().map(|id| trace_step(program, id, heads)).collect();
        Ok((displayed(shown), displayed(others)))
    }
}

/// Returns a step in its displayed form.
fn trace_step(program: &Program, id: StepId, heads: usize) -> TraceStep {
    let ProgramStep { quantity, head, kind, operation, value, .. } = program.step(id);
    let mut shown = TraceStep {
        id,
        quantity: *quantity,
        kind: *kind,
        head: *head,
        symbol: program.step(id).symbol(),
        shape_letters: Default::default(),
        batch_axes: Vec::new(),
        value: value.clone(),
        formula: formula(program, id),
        expansion: expand(program, id),
        checks: trace_checks(program, id),
        operation: operation.clone(),
        equation: equation(program, id),
    };
    // Queries and keys are the same tokens unless the example says otherwise.
    let has_memory = program.find(Quantity::Memory, None).is_some();
    let is_wide =
        |step: &ProgramStep| step.quantity.axes() == [MatrixAxis::Queries, MatrixAxis::Keys] && !step.value.is_square();
    let keys = if has_memory || program.steps().iter().any(is_wide) { "m" } else { "n" };
    let of_all = head.is_none() && heads > 1;
    let is_many =
        |step: &ProgramStep| matches!(&step.operation, Operation::Pool { poolings, .. } if poolings.len() > 1);
    let cell = program.steps().iter().find_map(|step| match &step.operation {
        Operation::StateRecurrence(before) => Some(before.cell),
        _ => None,
    });
    let gates = match cell.map_or(1, RecurrentCell::gates) {
        1 => "d_h".to_owned(),
        gates => format!("{gates}·d_h"),
    };
    let model = if cell.is_some() { "d_h" } else { "d_model" };
    let pooled = if program.steps().iter().any(is_many) { "d_pooled" } else { model };
    let has_dense = program.find(Quantity::DenseW, None).is_some();
    shown.shape_letters = shown.axes().map(|axis| {
        let width = |letter: &str| if of_all { format!("h·{letter}") } else { letter.into() };
        match axis {
            MatrixAxis::Queries => "n".into(),
            MatrixAxis::Keys => keys.into(),
            MatrixAxis::Model => "d_model".into(),
            MatrixAxis::Memory => if has_memory { "d_memory" } else { "d_model" }.into(),
            MatrixAxis::KeyWidth => width("d_k"),
            MatrixAxis::QueryKeyPairs => format!("n·{keys}"),
            MatrixAxis::HeadWidth => "d_k".into(),
            MatrixAxis::Pairs => "d_k/2".into(),
            MatrixAxis::Inner => "d_ff".into(),
            MatrixAxis::Pooled => pooled.into(),
            MatrixAxis::Vector => if has_dense { "d" } else { pooled }.into(),
            MatrixAxis::ValueWidth => width("d_v"),
            MatrixAxis::Classes => "c".into(),
            MatrixAxis::State => "d_h".into(),
            MatrixAxis::Gates => gates.clone(),
            MatrixAxis::One | MatrixAxis::Answers => "1".into(),
        }
    });
    shown.batch_axes = batch_axes(program, id, shown.axes(), &shown.shape_letters, heads);
    shown
}

/// Tolerance for sums of f64 numbers around 1.
const TOLERANCE: f64 = 1e-9;

fn trace_checks(program: &Program, id: StepId) -> Vec<TraceCheck> {
    let ProgramStep { quantity, kind, operation, value, .. } = program.step(id);
    let is_value = *kind == StepKind::Value;
    let most = |of_row: &dyn Fn(ndarray::ArrayView1<'_, f64>) -> f64| {
        value.rows().into_iter().map(of_row).fold(0.0, |most: f64, x| if x.is_nan() { x } else { most.max(x) })
    };
    let near = |kind, value: f64| TraceCheck { kind, value, holds: value <= TOLERANCE };
    let sees_nothing = value.iter().all(|&x| x == 0.0);
    let is_empty = |row: ndarray::ArrayView1<'_, f64>| row.iter().all(|&x| x == 0.0);
    let mut found = Vec::new();
    match (quantity, operation) {
        (Quantity::Weights | Quantity::Probabilities | Quantity::Target, _) if is_value && !sees_nothing => {
            let differs = |row: ndarray::ArrayView1<'_, f64>| if is_empty(row) { 0.0 } else { (row.sum() - 1.0).abs() };
            // Given weights have the digits that they were printed with.
            let room = if *operation == Operation::Given { 5e-3 } else { TOLERANCE };
            let value = most(&differs);
            found.push(TraceCheck { kind: CheckKind::RowsSumToOne, value, holds: value <= room });
        }
        (_, Operation::Exp { largest: Some(_), .. }) if !sees_nothing => {
            let largest = |row: ndarray::ArrayView1<'_, f64>| match is_empty(row) {
                true => 0.0,
                false => (row.iter().fold(f64::NEG_INFINITY, |most, x| most.max(*x)) - 1.0).abs(),
            };
            found.push(near(CheckKind::LargestIsOne, most(&largest)));
        }
        (_, Operation::UnitLength(_)) if !sees_nothing => {
            let differs =
                |row: ndarray::ArrayView1<'_, f64>| (row.iter().map(|x| x * x).sum::<f64>().sqrt() - 1.0).abs();
            found.push(near(CheckKind::UnitLength, most(&differs)));
        }
        (_, Operation::RmsNorm { of, epsilon, .. }) => {
            let plain = Operation::RmsNorm { of: *of, gamma: None, epsilon: *epsilon };
            let plain = plain.apply(|id| program.value(id).view());
            let mut differs = 0.0f64;
            for (row, from) in plain.rows().into_iter().zip(program.value(*of).rows()) {
                let [square, before] =
                    [row, from].map(|row| row.iter().map(|x| x * x).sum::<f64>() / row.len().max(1) as f64);
                // ε reduces the mean square.
                let off = (square - before / (before + epsilon)).abs();
                differs = if off.is_nan() { f64::NAN } else { differs.max(off) };
            }
            found.push(near(CheckKind::RmsNormalised, differs));
        }
        (_, Operation::LayerNorm { of, epsilon, .. }) => {
            let plain = Operation::LayerNorm { of: *of, gamma: None, beta: None, epsilon: *epsilon };
            let plain = plain.apply(|id| program.value(id).view());
            let input = program.value(*of);
            let mut differs = 0.0f64;
            for (row, from) in plain.rows().into_iter().zip(input.rows()) {
                let n = row.len() as f64;
                let [mean, square] = [row.sum() / n, row.iter().map(|x| x * x).sum::<f64>() / n];
                // ε reduces the variance.
                let center = from.sum() / n;
                let variance = from.iter().map(|x| (x - center) * (x - center)).sum::<f64>() / n;
                let row = mean.abs().max((square - variance / (variance + epsilon)).abs());
                differs = if (mean + square).is_nan() { f64::NAN } else { differs.max(row) };
            }
            found.push(near(CheckKind::Normalised, differs));
        }
        _ => {}
    }
    let empty = value.rows().into_iter().filter(|row| is_empty(*row)).count();
    if is_value && *quantity == Quantity::Weights && empty > 0 {
        found.push(TraceCheck { kind: CheckKind::EmptyRows, value: empty as f64, holds: true });
    }
    let is_odd = |x: &f64| x.is_nan() || *x == f64::INFINITY || (*x == f64::NEG_INFINITY && !is_masking(operation));
    let odd = value.iter().filter(|x| is_odd(x)).count();
    if odd > 0 {
        found.push(TraceCheck { kind: CheckKind::NotFinite, value: odd as f64, holds: false });
    }
    found
}

/// Returns whether −∞ is an expected value of the operation.
pub(crate) fn is_masking(operation: &Operation) -> bool {
    matches!(operation, Operation::Mask { .. } | Operation::RowMax(_) | Operation::AddBias { .. } | Operation::Log(_))
}
