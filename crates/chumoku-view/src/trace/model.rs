//! Traces of models: the numbers of one attention while it reads a text, and how far the model's own are from them.

use super::example::{Diagonal, Options, WorkedExample};
use super::quantity::Quantity;
use super::shown::{Agreement, Trace};
use chumoku::explain::RecordedAttention;
use chumoku::nn::{AttentionRecord, LayerNorm};
use chumoku::{Error, Result, tr};
use chumoku_kernels::Precision;
use ndarray::{Array2, Zip};

/// A record, as worked examples have it.
trait Worked {
    fn example(&self) -> WorkedExample;
    fn foreign(&self) -> Option<String>;
    fn agreement(&self, precision: Precision) -> Result<Agreement, String>;
}

impl Worked for AttentionRecord {
    /// The record as an example to be worked.
    fn example(&self) -> WorkedExample {
        let m = &self.matrices;
        let mut example = WorkedExample::default();
        let mut give = |quantity, matrix: &Array2<f64>| example.inputs.insert(quantity, vec![matrix.clone()]);
        give(Quantity::X, &self.x);
        if let Some(memory) = &self.memory {
            give(Quantity::Memory, memory);
        }
        for (quantity, matrix) in [Quantity::WQ, Quantity::WK, Quantity::WV].into_iter().zip(&m.weights) {
            give(quantity, matrix);
        }
        for (quantity, matrix) in [Quantity::BQ, Quantity::BK, Quantity::BV].into_iter().zip(m.biases.iter().flatten())
        {
            give(quantity, matrix);
        }
        give(Quantity::WO, &m.output);
        if let Some(bias) = &m.output_bias {
            give(Quantity::BO, bias);
        }
        if let Some(norm) = &self.norm {
            give(Quantity::NormGamma, &norm.gamma);
            if let Some(beta) = &norm.beta {
                give(Quantity::NormBeta, beta);
            }
        }
        example.options = Options {
            beta: m.options.beta,
            head_factors: m.betas.clone(),
            causal: m.causal.then_some(Diagonal::TopLeft),
            window: m.options.window,
            hard: m.options.hard_attention,
            num_heads: m.num_heads,
            num_key_heads: Some(m.num_key_heads),
            norm: self.norm.as_ref().map(|_| self.order),
            rms_norm: self.norm.as_ref().is_some_and(|norm| norm.beta.is_none()),
            residual: self.norm.is_none(),
            epsilon: self.norm.as_ref().map_or(LayerNorm::EPSILON, |norm| norm.epsilon),
            rotary: m.rotary_base,
            alibi: m.slopes.clone(),
            ..Options::default()
        };
        example
    }

    /// What of it worked examples do not have, if anything.
    fn foreign(&self) -> Option<String> {
        let options = &self.matrices.options;
        if self.matrices.head_norms.is_some() {
            return Some(tr!("worked examples have no norms of heads", "計算例ではヘッドの正規化を扱えません"));
        }
        options
            .rotary_scaling
            .map(|_| tr!("worked examples have no scaled rotary angles", "計算例では伸縮した回転位置を扱えません"))
    }

    /// How far the model's own numbers are from those worked out.
    fn agreement(&self, precision: Precision) -> Result<Agreement, String> {
        let program = self.example().program()?;
        let largest = |quantity, head, own: &Array2<f64>| {
            let worked = program.find(quantity, head).map(|id| program.value(id));
            let worked = worked.ok_or_else(|| {
                tr!("a step of the model's attention is missing", "モデルのアテンションの手順が一つ欠けています")
            })?;
            let mut largest = 0.0f64;
            Zip::from(own).and(worked).for_each(|a, b| {
                let difference = (a - b).abs();
                largest = if difference.is_nan() { f64::INFINITY } else { largest.max(difference) };
            });
            Ok::<f64, String>(largest)
        };
        let mut weights = 0.0f64;
        for (head, own) in self.weights.iter().enumerate() {
            let head = (self.weights.len() > 1).then_some(head);
            weights = weights.max(largest(Quantity::Weights, head, own)?);
        }
        let residual = largest(Quantity::Residual, None, &self.sum)?;
        Ok(Agreement {
            precision: precision.name().into(),
            largest_differences: vec![(Quantity::Weights.name(), weights), (Quantity::Residual.name(), residual)],
        })
    }
}

impl Trace {
    /// Every step of one attention of a model; `name` is what the model is called.
    ///
    /// # Errors
    /// If the attention is of a kind that worked examples do not have.
    pub fn of_model(attention: RecordedAttention, name: &str) -> Result<Trace> {
        let fault =
            |problem: String| Error::Setting(tr!("tracing the model: {problem}", "モデルのトレース: {problem}"));
        let RecordedAttention { place, source, tokens, key_tokens, cut, exact, own } = attention;
        if let Some(problem) = exact.foreign() {
            return Err(fault(problem));
        }
        let example = WorkedExample { title: name.into(), source, tokens, key_tokens, ..exact.example() };
        let mut trace = example.trace(place.head).map_err(fault)?;
        (trace.place, trace.cut) = (Some(place), cut);
        trace.agreements.push(exact.agreement(Precision::Highest).map_err(fault)?);
        if let Some((precision, own)) = own {
            trace.agreements.push(own.agreement(precision).map_err(fault)?);
        }
        Ok(trace)
    }
}
