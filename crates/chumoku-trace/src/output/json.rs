//! Traces as JSON, with every number.

use crate::formulas::expansion::{Expansion, ExpansionForm};
use crate::output::grid::format_plain;
use crate::traces::trace_steps::{Trace, TraceStep};
use crate::traces::traced_loss::TracedLoss;
use chumoku::explain::LossTarget;
use chumoku::lang::Lang;
use ndarray::Array2;
use serde_json::{Value, json};

/// Returns a number; numbers that JSON cannot represent are texts, as in worked examples.
pub(crate) fn json_number(x: f64) -> Value {
    match x {
        x if x.is_finite() => x.into(),
        x if x.is_nan() => "nan".into(),
        x if x > 0.0 => "inf".into(),
        _ => "-inf".into(),
    }
}

pub(crate) fn json_matrix(value: &Array2<f64>) -> Value {
    value.rows().into_iter().map(|row| row.iter().copied().map(json_number).collect::<Value>()).collect()
}

impl Trace {
    /// Returns the trace as JSON, with every number of every step.
    ///
    /// `steps[i].matrix` is nested as `[row][column]`. NaN and the infinities are the texts `nan`, `inf` and `-inf`.
    #[must_use]
    pub fn to_json(&self, lang: Lang) -> Value {
        let agreements = self.agreements.iter().map(|agreement| {
            let differences = agreement.largest_differences.iter();
            let differences: serde_json::Map<_, _> =
                differences.map(|(name, x)| ((*name).into(), json_number(*x))).collect();
            let gradients = agreement.largest_gradient_differences.iter();
            let gradients: serde_json::Map<_, _> =
                gradients.map(|(name, x)| ((*name).into(), json_number(*x))).collect();
            json!({
                "precision": agreement.precision,
                "largest_differences": differences,
                "largest_gradient_differences": gradients,
            })
        });
        let model = self.place.map(|place| {
            let [layer, head] = [place.layer + 1, place.head + 1];
            json!({ "name": self.title.text, "attention": place.attention.name(), "layer": layer, "head": head })
        });
        let cut = self.truncation.map(|cut| {
            let part = if cut.is_end { "last" } else { "first" };
            json!({ "read": cut.read, "tokens": cut.tokens, "part": part, "text": cut.describe(lang) })
        });
        json!({
            "title": self.heading(lang),
            "model": model,
            "source": self.row.as_ref().map_or_else(|| self.source.in_lang(lang).into(), |row| json!(row)),
            "tokens": self.tokens,
            "key_tokens": self.key_tokens,
            "classes": self.classes,
            "steps": self.steps.iter().map(|step| step.to_json(lang)).collect::<Value>(),
            "cut": cut,
            "loss": self.loss.as_ref().map(|loss| loss.to_json(lang)),
            "agreements": agreements.collect::<Value>(),
        })
    }
}

impl TracedLoss {
    fn to_json(&self, lang: Lang) -> Value {
        let (target, class) = match &self.target {
            LossTarget::Class(_, label) => ("class", Some(label)),
            LossTarget::NextTokens => ("next_tokens", None),
            LossTarget::Translation => ("translation", None),
        };
        let (matrix, step) = &self.step;
        json!({
            "of": target,
            "class": class,
            "value": json_number(self.value),
            "arriving": self.arriving,
            "partial": self.partial,
            "step": {
                "of": matrix,
                "learning_rate": step.learning_rate,
                "beta1": step.beta1,
                "beta2": step.beta2,
                "epsilon": step.epsilon,
                "weight_decay": step.weight_decay,
                "step": step.step,
            },
            "text": self.to_text(lang),
        })
    }
}

impl TraceStep {
    fn to_json(&self, lang: Lang) -> Value {
        let checks = self.checks.iter().map(
            |check| json!({ "text": check.to_text(lang), "value": json_number(check.value), "holds": check.holds }),
        );
        json!({
            "name": self.name(),
            "kind": self.kind.name(),
            "head": self.head.map(|head| head + 1),
            "title": self.title(lang),
            "symbol": self.symbol,
            "formula": self.formula.as_ref().map(|formula| &formula.text),
            "latex": self.formula.as_ref().map(|formula| &formula.latex),
            "letters": self.shape_letters,
            "batch_letters": self.batch_axes.iter().map(|axis| &axis.letter[..]).collect::<Value>(),
            "batch_shape": self.batch_axes.iter().map(|axis| axis.length).collect::<Value>(),
            "shape": [self.value.nrows(), self.value.ncols()],
            "matrix": json_matrix(&self.value),
            "expansion": self.expansion.as_ref().map(Expansion::to_json),
            "checks": checks.collect::<Value>(),
        })
    }
}

impl Expansion {
    fn to_json(&self) -> Value {
        let full = |x: f64| format_plain(x, 17);
        let spelling = crate::formulas::expansion::ExpansionFormat {
            number: &full,
            is_latex: false,
            lang: Lang::En,
            terms: usize::MAX,
        };
        let mut object =
            json!({ "index": self.index, "text": self.expression_text(&spelling), "result": json_number(self.result) });
        if let ExpansionForm::Products { terms, bias } = &self.form {
            object["terms"] =
                terms.iter().map(|pair| pair.map(json_number).to_vec().into()).collect::<Vec<Value>>().into();
            object["bias"] = bias.map(json_number).into();
        }
        object
    }
}
