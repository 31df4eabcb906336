//! Traces of models: one attention layer during the reading of a text, the feed-forward network after it and the
//! model's answer. They include the differences from the model's own numbers.

use crate::examples::example::WorkedExample;
use crate::examples::options::{CausalAlignment, ExampleOptions};
use crate::program::operation::Operation;
use crate::program::quantity::Quantity;
use crate::traces::model_loss::{add_gradients, add_step, gradient_differences, traced_loss};
use crate::traces::trace_steps::{Agreement, Trace};
use chumoku::explain::{ForwardTrace, LossTarget, RecordedAnswer, RecordedAttention};
use chumoku::nn::{EmbeddingTrace, LinearMatrices, Norm, NormKind, NormParameters};
use chumoku::row::AsRow;
use chumoku::{Error, Result, tr};
use chumoku_kernels::Precision;
use ndarray::{Array2, Zip};

/// Converts a record of a model to a worked example.
trait ToWorkedExample {
    fn example(&self) -> WorkedExample;
    fn agreement(&self, precision: Precision) -> Result<Agreement, String>;
}

impl ToWorkedExample for ForwardTrace {
    /// Returns the record as a worked example.
    fn example(&self) -> WorkedExample {
        let of = &self.attention;
        let m = &of.matrices;
        let mut example = WorkedExample::default();
        let mut give = |quantity, matrix: Option<&Array2<f64>>| {
            matrix.into_iter().for_each(|matrix| drop(example.inputs.insert(quantity, vec![matrix.clone()])));
        };
        let embedding = self.embedding.as_ref();
        let column = |ids: &[u32]| Array2::from_shape_fn((ids.len(), 1), |(i, _)| f64::from(ids[i]));
        give(Quantity::TokenIds, embedding.map(|embedding| column(&embedding.ids)).as_ref());
        let is_plain = embedding.is_none_or(EmbeddingTrace::is_plain);
        if let Some(embedding) = embedding.filter(|_| !is_plain) {
            let own = if embedding.is_scaled { Quantity::TokenVectors } else { Quantity::Embeddings };
            give(own, Some(&embedding.vectors));
            give(Quantity::Positions, embedding.positions.as_ref());
            let types = embedding.token_types.as_ref();
            give(Quantity::TypeIds, types.map(|types| column(&types.ids)).as_ref());
            give(Quantity::TypeVectors, types.map(|types| &types.vectors));
            give(Quantity::EmbeddingGamma, embedding.norm.as_ref().map(|norm| &norm.gamma));
            give(Quantity::EmbeddingBeta, embedding.norm.as_ref().and_then(|norm| norm.beta.as_ref()));
        }
        // Cross-attention reads the output of self-attention, not the embeddings.
        give(Quantity::X, (is_plain || of.memory.is_some()).then_some(&of.x));
        give(Quantity::Memory, of.memory.as_ref());
        for (i, quantity) in [Quantity::WQ, Quantity::WK, Quantity::WV].into_iter().enumerate() {
            give(quantity, m.weights.get(i));
        }
        for (i, quantity) in [Quantity::BQ, Quantity::BK, Quantity::BV].into_iter().enumerate() {
            give(quantity, m.biases.as_ref().and_then(|biases| biases.get(i)));
        }
        give(Quantity::WO, Some(&m.output));
        give(Quantity::BO, m.output_bias.as_ref());
        give(Quantity::NormGamma, of.norm.as_ref().map(|norm| &norm.gamma));
        give(Quantity::NormBeta, of.norm.as_ref().and_then(|norm| norm.beta.as_ref()));
        if let Some(network) = &of.feed_forward {
            let (m, norm) = (&network.matrices, network.norm.as_ref());
            let layers = [
                (Quantity::W1, Quantity::B1, Some(&m.first)),
                (Quantity::WGate, Quantity::BGate, m.gate.as_ref()),
                (Quantity::W2, Quantity::B2, Some(&m.second)),
            ];
            for (weight, bias, layer) in layers {
                give(weight, layer.map(|layer| &layer.weight));
                give(bias, layer.and_then(|layer| layer.bias.as_ref()));
            }
            give(Quantity::Gamma2, norm.map(|norm| &norm.gamma));
            give(Quantity::Beta2, norm.and_then(|norm| norm.beta.as_ref()));
        }
        let row = |numbers: &[f64]| Array2::from_shape_fn((1, numbers.len()), |(_, j)| numbers[j]);
        if let Some(([queries, keys], _)) = &m.head_norms {
            give(Quantity::GammaQ, Some(&row(queries)));
            give(Quantity::GammaK, Some(&row(keys)));
        }
        // Scaled angles follow from no single base.
        let speeds = m.rotary_speeds.as_ref().filter(|_| m.options.rotary_scaling.is_some());
        give(Quantity::RotarySpeeds, speeds.map(|speeds| row(speeds)).as_ref());
        let vector = self.vector.as_ref();
        let dense = vector.and_then(|vector| vector.dense.as_ref());
        give(Quantity::Hidden, vector.map(|vector| &vector.hidden));
        give(Quantity::DenseW, dense.map(|dense| &dense.weight));
        give(Quantity::DenseB, dense.and_then(|dense| dense.bias.as_ref()));
        let network = of.feed_forward.as_ref();
        let norm_2 = network.and_then(|network| network.norm.as_ref().map(|norm| (network.order, norm)));
        let embedding_norm = embedding.and_then(|embedding| embedding.norm.as_ref());
        example.options = ExampleOptions {
            beta: m.options.beta,
            head_factors: m.betas.clone(),
            causal: m.causal.then_some(CausalAlignment::TopLeft),
            window: m.options.window,
            hard_attention: m.options.hard_attention,
            num_heads: m.num_heads,
            num_key_heads: Some(m.num_key_heads),
            norm: of.norm.as_ref().map(|_| of.order),
            rms_norm: of.norm.as_ref().is_some_and(|norm| norm.beta.is_none()),
            residual: of.norm.is_none(),
            epsilon: of.norm.as_ref().map_or(Norm::EPSILON, |norm| norm.epsilon),
            activation: network.map(|network| network.matrices.activation),
            norm_2: norm_2.map(|(order, _)| order),
            rms_norm_2: norm_2.is_some_and(|(_, norm)| norm.beta.is_none()),
            epsilon_2: norm_2.map(|(_, norm)| norm.epsilon),
            embedding_norm: embedding_norm.map(norm_kind),
            epsilon_embedding: embedding_norm.map(|norm| norm.epsilon),
            rotary_base: m.rotary_base.filter(|_| speeds.is_none()),
            alibi_slopes: m.slopes.clone(),
            head_norm_epsilon: m.head_norms.as_ref().map(|(_, epsilon)| *epsilon),
            pooling: vector.map_or_else(Vec::new, |vector| vector.pooling.clone()),
            dense_tanh: dense.is_some_and(|dense| dense.is_tanh),
            unit_length: vector.is_some_and(|vector| vector.is_unit_length),
            ..ExampleOptions::default()
        };
        if let Some(answer) = &self.answer {
            add_answer(&mut example, answer);
            if let Some(LossTarget::Class(class, _)) = self.loss.as_ref().map(|loss| &loss.target) {
                let target = Array2::from_shape_fn((1, answer.labels.len()), |(_, j)| f64::from(j == *class));
                example.inputs.insert(Quantity::Target, vec![target]);
            }
        }
        example
    }

    /// Returns the largest differences between the model's numbers and the computed ones.
    fn agreement(&self, precision: Precision) -> Result<Agreement, String> {
        let mut program = self.example().program()?;
        let mut of_gradients = Vec::new();
        if let Some(loss) = &self.loss {
            add_gradients(&mut program, self, loss)?;
            of_gradients = gradient_differences(&program, loss);
        }
        let largest = |quantity, head, own: &Array2<f64>| {
            let worked = program.find(quantity, head).map(|id| program.value(id));
            let worked = worked.ok_or_else(|| {
                tr!("a step of the model's attention is missing", "モデルのアテンションのステップが一つ欠けています")
            })?;
            let mut largest = 0.0f64;
            Zip::from(own).and(worked).for_each(|a, b| {
                let difference = (a - b).abs();
                largest = if difference.is_nan() { f64::INFINITY } else { largest.max(difference) };
            });
            Ok::<f64, String>(largest)
        };
        let mut weights = 0.0f64;
        let of = &self.attention;
        for (head, own) in of.weights.iter().enumerate() {
            let head = (of.weights.len() > 1).then_some(head);
            weights = weights.max(largest(Quantity::Weights, head, own)?);
        }
        let residual = largest(Quantity::Residual, None, &of.sum)?;
        let mut found = Vec::new();
        if program.find(Quantity::X, None).is_some_and(|x| program.step(x).operation != Operation::Given) {
            found.push((Quantity::X.name(), largest(Quantity::X, None, &of.x)?));
        }
        found.extend([(Quantity::Weights.name(), weights), (Quantity::Residual.name(), residual)]);
        if let Some(network) = &of.feed_forward {
            let last =
                [Quantity::FinalNorm2, Quantity::Residual2].into_iter().find(|&end| program.find(end, None).is_some());
            let last = last.unwrap_or(Quantity::Residual2);
            found.push((last.name(), largest(last, None, &network.output)?));
        }
        if let Some(vector) = &self.vector {
            let ends = [Quantity::Vector, Quantity::DenseTanh, Quantity::Dense, Quantity::Pooled];
            let last = ends.into_iter().find(|&end| program.find(end, None).is_some()).unwrap_or(Quantity::Pooled);
            found.push((last.name(), largest(last, None, &vector.vector)?));
        }
        if let Some(answer) = &self.answer {
            found.push((
                Quantity::Probabilities.name(),
                largest(Quantity::Probabilities, None, &softmax_rows(&answer.record.logits))?,
            ));
        }
        Ok(Agreement {
            precision: precision.name().into(),
            largest_differences: found,
            largest_gradient_differences: of_gradients,
        })
    }
}

/// Returns the kind of a normalization: RMS normalization has no β.
fn norm_kind(norm: &NormParameters) -> NormKind {
    if norm.beta.is_some() { NormKind::Layer } else { NormKind::Rms }
}

/// Adds the answer of a classifier to the worked example of its last layer.
fn add_answer(example: &mut WorkedExample, answer: &RecordedAnswer) {
    let RecordedAnswer { labels, follows_attention: is_behind, record } = answer;
    let mut give = |quantity, matrix: &Array2<f64>| example.inputs.insert(quantity, vec![matrix.clone()]);
    let mut linear = |[weight, bias]: [Quantity; 2], layer: &LinearMatrices| {
        give(weight, &layer.weight);
        layer.bias.iter().for_each(|own| drop(give(bias, own)));
    };
    linear([Quantity::ClassW, Quantity::ClassB], &record.last);
    if let Some(dense) = &record.dense {
        linear([Quantity::DenseW, Quantity::DenseB], &dense.linear);
    }
    let mut norm = |[gamma, beta]: [Quantity; 2], norm: &NormParameters| {
        give(gamma, &norm.gamma);
        norm.beta.iter().for_each(|own| drop(give(beta, own)));
        (norm_kind(norm), norm.epsilon)
    };
    // After other layers, the answer also depends on layers that are not traced.
    let last =
        record.norm.as_ref().filter(|_| *is_behind).map(|own| norm([Quantity::LastGamma, Quantity::LastBeta], own));
    let of_dense = record.dense.as_ref().and_then(|dense| dense.norm.as_ref());
    let of_dense = of_dense.map(|own| norm([Quantity::DenseGamma, Quantity::DenseBeta], own));
    if !is_behind {
        give(Quantity::Hidden, &record.hidden);
    }
    let activation = record.dense.as_ref().map(|dense| dense.activation.activation());
    example.classes.clone_from(labels);
    let options = &mut example.options;
    options.pooling = vec![record.pooling];
    (options.last_norm, options.epsilon_last) = (last.map(|(kind, _)| kind), last.map(|(_, epsilon)| epsilon));
    (options.dense_norm, options.epsilon_dense) =
        (of_dense.map(|(kind, _)| kind), of_dense.map(|(_, epsilon)| epsilon));
    // The kernels have no tanh.
    (options.dense_tanh, options.dense_activation) = (activation == Some(None), activation.flatten());
}

/// Returns the probabilities of logits.
fn softmax_rows(logits: &Array2<f64>) -> Array2<f64> {
    let most = logits.fold(f64::NEG_INFINITY, |most, x| most.max(*x));
    let exponentials = logits.mapv(|x| (x - most).exp());
    let sum = exponentials.sum();
    exponentials / sum
}

impl Trace {
    /// Returns every step of one attention layer of a model; `name` is the name of the model. If the record has a loss,
    /// gradients and an AdamW step of one matrix follow.
    ///
    /// # Errors
    /// If worked examples do not support this kind of attention.
    pub fn from_model(attention: RecordedAttention, name: &str) -> Result<Trace> {
        let fault =
            |problem: String| Error::Setting(tr!("tracing the model: {problem}", "モデルのトレース: {problem}"));
        let RecordedAttention {
            location: place,
            source,
            tokens,
            key_tokens,
            truncation: cut,
            exact,
            at_model_precision: own,
        } = attention;
        let example = WorkedExample {
            title: name.to_owned().into(),
            source: source.as_row().display().into_owned().into(),
            tokens,
            key_tokens,
            ..exact.example()
        };
        let trace = match &exact.loss {
            None => example.trace(place.head),
            Some(loss) => example.trace_with(place.head, |program| add_step(program, &exact, loss)),
        };
        let mut trace = trace.map_err(fault)?;
        (trace.place, trace.row, trace.truncation) = (Some(place), Some(source), cut);
        trace.loss = exact.loss.as_ref().map(|loss| traced_loss(&trace, loss));
        trace.agreements.push(exact.agreement(Precision::Highest).map_err(fault)?);
        if let Some((precision, own)) = own {
            trace.agreements.push(own.agreement(precision).map_err(fault)?);
        }
        Ok(trace)
    }
}
