//! The path of a token through a page: its rows in each step, and the vectors that it becomes.

use crate::output::grid::{format_plain, label, number_format};
use crate::output::json::json_number;
use crate::program::operation::{Operation, StepId};
use crate::program::quantity::{MatrixAxis, Quantity};
use crate::program::step_kind::StepKind;
use crate::traces::trace_steps::{Trace, TraceStep};
use ndarray::{ArrayView1, Axis, Slice};
use serde_json::{Value, json};

impl Trace {
    /// Returns the number of tokens: the rows of the first step with a row for each.
    pub(crate) fn token_count(&self) -> Option<usize> {
        self.steps.iter().find(|step| step.axes()[0] == MatrixAxis::Queries).map(|step| step.value.nrows())
    }

    /// Adds how many rows belong to each token, and whether the step is on a token's path.
    pub(crate) fn add_token_rows(&self, step: &TraceStep, is_shown: bool, object: &mut Value) {
        let (Some(tokens), rows) = (self.token_count(), step.value.nrows()) else { return };
        let has_memory = self.steps.iter().any(|step| step.quantity == Quantity::Memory);
        match step.axes()[0] {
            MatrixAxis::Queries if rows == tokens => object["tokenRows"] = 1.into(),
            MatrixAxis::QueryKeyPairs => object["tokenRows"] = (rows / tokens).into(),
            MatrixAxis::Keys if rows == tokens && !has_memory && self.key_tokens == self.tokens => {
                object["keyRows"] = 1.into();
            }
            _ => {}
        }
        if is_shown && step.kind == StepKind::Value && step.head.is_none() && is_on_path(step.quantity) {
            object["path"] = match step.quantity {
                Quantity::Probabilities => 2,
                Quantity::TokenIds | Quantity::TypeIds => 3,
                _ => 1,
            }
            .into();
        }
    }

    /// Returns the data of a page that recomputes nothing: the rows of each token, and the vectors on its path.
    pub(crate) fn fixed_path_json(&self, digits: usize) -> Value {
        let [mut steps, mut path] = [(); 2].map(|()| Vec::new());
        for step in &self.steps {
            let mut object = json!({ "id": step.id, "at": step.anchor(), "sym": step.symbol });
            self.add_token_rows(step, true, &mut object);
            if !object["path"].is_null() {
                if let Operation::Concat(heads) = &step.operation {
                    path.extend(self.contributions(step.id, heads, digits));
                }
                let has_length = object["path"] == 1;
                let mut rows: Vec<Value> =
                    step.value.rows().into_iter().map(|row| vector_json(row, digits, has_length)).collect();
                if object["path"] == 2 {
                    for (object, row) in rows.iter_mut().zip(step.value.rows()) {
                        let best = (0..row.len()).reduce(|best, j| if row[j] > row[best] { j } else { best });
                        let best = best.unwrap_or(0);
                        let share = number_format(&row.to_owned().insert_axis(Axis(0)), digits)(row[best]);
                        object["answer"] = format!("{} {share}", label(self, MatrixAxis::Classes, best)).into();
                    }
                }
                path.push(json!({ "at": step.anchor(), "rows": rows }));
            }
            steps.push(object);
        }
        json!({ "steps": steps, "path": path })
    }

    /// Returns the output of each head, times its rows of the weights that follow.
    fn contributions(&self, joined: StepId, heads: &[StepId], digits: usize) -> Vec<Value> {
        let all = || self.steps.iter().chain(&self.hidden_steps);
        let by_id = |id: StepId| all().find(|step| step.id == id);
        let weights = all().find_map(|step| match step.operation {
            Operation::Product { factors: [of, weights], .. } if of == joined => by_id(weights),
            _ => None,
        });
        let mut from = 0;
        let head = |id: &StepId| {
            let step = by_id(*id)?;
            let range = Slice::from(from..from + step.value.ncols());
            from += step.value.ncols();
            let added = weights.map(|weights| step.value.dot(&weights.value.slice_axis(Axis(0), range)));
            let rows = added.as_ref().unwrap_or(&step.value);
            let rows: Vec<Value> = rows.rows().into_iter().map(|row| vector_json(row, digits, true)).collect();
            let is_shown = self.steps.iter().any(|own| own.id == *id);
            let (at, after) = (is_shown.then(|| step.anchor()), weights.map(|weights| &weights.symbol[..]));
            Some(json!({ "at": at, "sym": step.symbol, "after": after, "rows": rows }))
        };
        heads.iter().filter_map(head).collect()
    }
}

/// The first numbers of a vector that a page lists.
const LISTED_NUMBERS: usize = 6;

/// Returns the first numbers of a vector, and its length if it has one.
fn vector_json(row: ArrayView1<'_, f64>, digits: usize, has_length: bool) -> Value {
    let write = number_format(&row.to_owned().insert_axis(Axis(0)), digits);
    let mut numbers = row.iter().take(LISTED_NUMBERS).map(|x| write(*x)).collect::<Vec<_>>().join("  ");
    if row.len() > LISTED_NUMBERS {
        numbers += "  …";
    }
    let mut object = json!({ "numbers": numbers });
    if has_length {
        let length = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        object["x"] = json_number(length);
        object["long"] = format_plain(length, digits).into();
    }
    object
}

/// Returns whether a quantity holds the vector of a token between two layers, or its answer.
fn is_on_path(quantity: Quantity) -> bool {
    use Quantity::{
        Concat, EmbeddingSum, Embeddings, FeedForward, FinalNorm, FinalNorm2, HeadOutput, Hidden, LastNorm, Norm,
        Norm2, Output, Pooled, PositionSum, Positions, Probabilities, Residual, Residual2, StepOutput, TokenIds,
        TokenVectors, TypeIds, TypeVectors, Vector, X,
    };
    matches!(
        quantity,
        TokenIds
            | TokenVectors
            | Embeddings
            | Positions
            | PositionSum
            | TypeIds
            | TypeVectors
            | EmbeddingSum
            | X
            | StepOutput
            | Norm
            | HeadOutput
            | Concat
            | Output
            | Residual
            | FinalNorm
            | Norm2
            | FeedForward
            | Residual2
            | FinalNorm2
            | LastNorm
            | Hidden
            | Pooled
            | Vector
            | Probabilities
    )
}
