//! The options of attention that the reader of a page can change: β, scaling, masks, and the subtracted maximum.

use crate::examples::example::WorkedExample;
use crate::examples::options::{CausalAlignment, MaskOption};
use crate::program::operation::Operation;
use crate::program::quantity::Quantity;
use crate::program::steps::{Program, ProgramStep};
use ndarray::Array2;

/// Maximum count of numbers of a trace that its page recomputes.
pub(crate) const MAX_NUMBERS: usize = 60_000;

/// The options of attention at the start, and the choices that a page offers.
#[derive(Clone, Debug)]
pub(crate) struct AttentionControls {
    /// The factors of the scores; `None` if scaled scores are given.
    pub(crate) scale: Option<ScaleControl>,
    /// True if each query sees only the keys up to its own position.
    pub(crate) is_causal: bool,
    /// Query i of a causal mask sees the keys up to i plus this number.
    pub(crate) causal_offset: isize,
    /// The keys that each query sees by the given mask and window, if there are any.
    pub(crate) visible: Option<Array2<bool>>,
    /// True if numbers are added to the scores.
    pub(crate) has_bias: bool,
    /// True if the largest score is subtracted before the exponential; `None` for hard attention.
    pub(crate) subtracts_max: Option<bool>,
}

/// The factors of the scores.
#[derive(Clone, Debug)]
pub(crate) struct ScaleControl {
    /// β at the start.
    pub(crate) beta: f64,
    /// The scale, usually 1/√d_k; `None` if there is none but 1.
    pub(crate) scale: Option<f64>,
    /// True if scores have this scale at the start.
    pub(crate) is_scaled: bool,
    /// The factor of each head, if heads have their own.
    pub(crate) head_factors: Vec<f64>,
}

impl WorkedExample {
    /// Returns the controls of the attention of a program; `None` if it computes no weights from scores.
    pub(crate) fn attention_controls(&self, program: &Program) -> Option<AttentionControls> {
        let options = &self.options;
        let weights = program.steps().iter().find(|step| step.quantity == Quantity::Weights)?;
        if weights.operation == Operation::Given {
            return None;
        }
        let shape = weights.value.dim();
        let find =
            |condition: &dyn Fn(&Operation) -> bool| program.steps().iter().find(|step| condition(&step.operation));
        let width = program.steps().iter().find_map(|step| match step.operation {
            Operation::ProductTransposed([query, _]) | Operation::PairSums([query, _]) => {
                Some(program.value(query).ncols())
            }
            _ => None,
        });
        let is_scale = |step: &ProgramStep| {
            step.quantity == Quantity::ScaledScores && matches!(step.operation, Operation::Scale { .. })
        };
        let has_scale = program.steps().iter().any(is_scale);
        let scale = has_scale.then(|| {
            let usual = options.head_dim.or(width).map(|width| 1.0 / (width as f64).sqrt());
            let scale = options.scale.filter(|scale| *scale != 1.0).or(usual).filter(|scale| *scale != 1.0);
            let is_scaled = scale.is_some() && options.scale.map_or(options.beta.is_none(), |scale| scale != 1.0);
            let head_factors = options.head_factors.clone().unwrap_or_default();
            ScaleControl { beta: options.beta.unwrap_or(1.0), scale, is_scaled, head_factors }
        });
        let causal_offset = match options.causal {
            Some(CausalAlignment::BottomRight) => shape.1 as isize - shape.0 as isize,
            _ => 0,
        };
        let window = options.window.map(|window| {
            let near = |(i, j): (usize, usize)| (i as isize + causal_offset).abs_diff(j as isize) <= window;
            Array2::from_shape_fn(shape, near)
        });
        let mask = match &options.mask {
            Some(MaskOption::Visible(mask)) => Some(mask.clone()),
            _ => None,
        };
        let visible = match (mask, window) {
            (Some(mask), Some(window)) => Some(mask & window),
            (mask, window) => mask.or(window),
        };
        Some(AttentionControls {
            scale,
            is_causal: options.causal.is_some(),
            causal_offset,
            visible,
            has_bias: find(&|operation| matches!(operation, Operation::AddBias { .. })).is_some(),
            subtracts_max: (!options.hard_attention).then_some(options.subtract_max),
        })
    }
}
