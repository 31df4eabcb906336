//! Traces of models: the numbers of one attention while it reads a text, and how far the model's own are from them.

use super::example::{Diagonal, Options, WorkedExample};
use super::quantity::Quantity;
use super::shown::{Agreement, ModelAttention, ModelPlace, Trace};
use crate::explain::TextCut;
use crate::models::{PairBatch, TranslatorPart};
use crate::nn::{AttentionRecord, LayerNorm};
use crate::params::Params;
use crate::text::TextTokenizer;
use crate::text_classifier::TextClassifier;
use crate::text_generator::TextGenerator;
use crate::text_translator::{TextTranslator, TranslateOptions};
use crate::{Error, Result, tr};
use chumoku_kernels::Precision;
use ndarray::{Array2, Zip};

/// The layer and head to trace, from 0; the last layer unless it is said.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracePlace {
    /// The layer.
    pub layer: Option<usize>,
    /// The head.
    pub head: usize,
}

impl TracePlace {
    /// The layer, and whether it and the head are there.
    fn check(self, [layers, heads]: [usize; 2]) -> Result<usize> {
        let layer = self.layer.unwrap_or(layers.saturating_sub(1));
        if layer >= layers {
            return Err(Error::Setting(tr!(
                "layer {}: this model has layers 1 to {layers}",
                "層 {}: このモデルの層は 1 から {layers} までです",
                layer + 1
            )));
        }
        if self.head >= heads {
            return Err(Error::Setting(tr!(
                "head {}: this model has heads 1 to {heads}",
                "ヘッド {}: このモデルのヘッドは 1 から {heads} までです",
                self.head + 1
            )));
        }
        Ok(layer)
    }
}

/// What a trace of a model is called and of which words.
struct Label {
    name: String,
    place: ModelPlace,
    source: String,
    tokens: Vec<String>,
    key_tokens: Vec<String>,
    cut: Option<TextCut>,
}

/// A record, as worked examples have it.
trait Worked {
    fn example(&self) -> WorkedExample;
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
        let [gamma, beta] = &self.norm;
        give(Quantity::NormGamma, gamma);
        give(Quantity::NormBeta, beta);
        example.options = Options {
            beta: m.options.beta,
            head_factors: m.betas.clone(),
            causal: m.causal.then_some(Diagonal::TopLeft),
            window: m.options.window,
            hard: m.options.hard_attention,
            num_heads: m.num_heads,
            num_key_heads: Some(m.num_key_heads),
            norm: Some(self.order),
            epsilon: LayerNorm::EPSILON,
            rotary: m.rotary_base,
            alibi: m.slopes.clone(),
            ..Options::default()
        };
        example
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

/// The trace of what `record` finds, once as exactly as f32 can and, if that is less, as the model is used.
fn traced(
    params: &Params<f32>,
    own: Precision,
    label: Label,
    record: impl Fn(&Params<f32>) -> Result<AttentionRecord>,
) -> Result<Trace> {
    let fault = |problem: String| Error::Setting(tr!("tracing the model: {problem}", "モデルのトレース: {problem}"));
    let exact = {
        let mut params = params.clone();
        params.set_precision(Precision::Highest);
        record(&params)?
    };
    let Label { name, place, source, tokens, key_tokens, cut } = label;
    let example = WorkedExample { title: name, source, tokens, key_tokens, ..exact.example() };
    let mut trace = example.trace(place.head).map_err(fault)?;
    (trace.place, trace.cut) = (Some(place), cut);
    trace.agreements.push(exact.agreement(Precision::Highest).map_err(fault)?);
    if own != Precision::Highest {
        trace.agreements.push(record(params)?.agreement(own).map_err(fault)?);
    }
    Ok(trace)
}

fn words(tokenizer: &TextTokenizer, ids: &[u32]) -> Vec<String> {
    ids.iter().map(|&id| tokenizer.token(id)).collect()
}

/// A text with nothing in it has no attention to show.
fn not_empty(text: &str) -> Result<()> {
    match text.trim().is_empty() {
        true => Err(Error::Setting(tr!("the text to trace is empty", "トレースするテキストが空です"))),
        false => Ok(()),
    }
}

impl TextClassifier {
    /// Every step of one head while the model reads `text`; `name` is what the model is called.
    ///
    /// Of a text longer than the model's window the first window is read.
    ///
    /// # Errors
    /// If the text is empty, there is no such layer or head, or the model is a recurrent network.
    pub fn trace(&self, text: &str, place: TracePlace, name: &str) -> Result<Trace> {
        not_empty(text)?;
        let Some(encoder) = self.config.model.body.transformer() else {
            return Err(Error::Setting(tr!(
                "this model is a recurrent network, which has no attention to trace",
                "このモデルは再帰型ネットワークで、トレースするアテンションがありません"
            )));
        };
        let layer = place.check([encoder.num_layers, encoder.num_heads])?;
        let mut ids = vec![self.tokenizer.cls()];
        ids.extend(self.tokenizer.encode(text)?.ids);
        let cut = TextCut::of(self.config.model.max_length, ids.len(), false);
        ids.truncate(self.config.model.max_length);
        let label = Label {
            name: name.into(),
            place: ModelPlace { attention: ModelAttention::SelfAttention, layer, head: place.head },
            source: text.into(),
            tokens: words(&self.tokenizer, &ids),
            key_tokens: Vec::new(),
            cut,
        };
        traced(&self.params, self.config.precision, label, |params| {
            let record = self.model.record(params, &ids, layer)?;
            record.ok_or_else(|| {
                Error::Setting(tr!(
                    "this model has no attention to trace",
                    "このモデルにはトレースするアテンションがありません"
                ))
            })
        })
    }
}

impl TextGenerator {
    /// Every step of one head while the model reads `text`; `name` is what the model is called.
    ///
    /// Of a text longer than the model's context the end is read.
    ///
    /// # Errors
    /// If the text is empty, or there is no such layer or head.
    pub fn trace(&self, text: &str, place: TracePlace, name: &str) -> Result<Trace> {
        not_empty(text)?;
        let encoder = &self.config.model.encoder;
        let layer = place.check([encoder.num_layers, encoder.num_heads])?;
        let mut ids = vec![self.tokenizer.cls()];
        ids.extend(self.tokenizer.encode(text)?.ids);
        let cut = TextCut::of(self.config.model.max_length, ids.len(), true);
        ids.drain(..ids.len().saturating_sub(self.config.model.max_length));
        let label = Label {
            name: name.into(),
            place: ModelPlace { attention: ModelAttention::Causal, layer, head: place.head },
            source: text.into(),
            tokens: words(&self.tokenizer, &ids),
            key_tokens: Vec::new(),
            cut,
        };
        let record = |params: &Params<f32>| Ok(self.model.record(params, &ids, layer)?);
        traced(&self.params, self.config.precision, label, record)
    }
}

impl TextTranslator {
    /// Every step of one head while the model reads `source` and writes `target` or, without it, its own translation;
    /// `name` is what the model is called.
    ///
    /// Of a source longer than the model reads, the end is left out.
    ///
    /// # Errors
    /// If the source is empty, there is no such layer or head, or the target is longer than the model writes.
    pub fn trace(
        &self,
        source: &str,
        target: Option<&str>,
        part: TranslatorPart,
        place: TracePlace,
        name: &str,
    ) -> Result<Trace> {
        not_empty(source)?;
        let model = &self.config.model;
        let layers = if part == TranslatorPart::Encoder { model.encoder.num_layers } else { model.num_decoder_layers };
        let layer = place.check([layers, model.encoder.num_heads])?;
        let own = match target {
            Some(_) => None,
            None => self.translate(&[source], &TranslateOptions::default())?.pop(),
        };
        let text = target.or(own.as_ref().map(|own| own.text())).unwrap_or_default();
        let (source_ids, _) = self.read(source)?;
        let all = self.tokenizers.source().encode(source)?.ids.len() + 1;
        let cut = TextCut::of(source_ids.len(), all, false);
        let target_ids = self.tokenizers.target.encode(text)?.ids;
        let limit = model.max_length - 1;
        if target_ids.len() > limit {
            let found = target_ids.len();
            let problem = tr!(
                "the translation has {found} tokens: expected at most {limit}, as many as the model writes; give a shorter one",
                "訳文が {found} トークンあります。モデルが書けるのは {limit} トークンまでです。短い訳文を与えてください"
            );
            return Err(Error::Setting(problem));
        }
        let mut pair = PairBatch::default();
        pair.push(&source_ids, &target_ids, self.tokenizers.target.cls());
        let of_source = words(self.tokenizers.source(), &source_ids);
        // The decoder's rows are what it is given: each looks from there to say the next.
        let of_target = words(&self.tokenizers.target, &pair.input);
        let (attention, tokens, key_tokens) = match part {
            TranslatorPart::Encoder => (ModelAttention::Encoder, of_source, Vec::new()),
            TranslatorPart::Decoder => (ModelAttention::Decoder, of_target, Vec::new()),
            TranslatorPart::Cross => (ModelAttention::Cross, of_target, of_source),
        };
        let label = Label {
            name: name.into(),
            place: ModelPlace { attention, layer, head: place.head },
            source: format!("{source} → {text}"),
            tokens,
            key_tokens,
            cut,
        };
        let record = |params: &Params<f32>| Ok(self.model.record(params, &pair, part, layer)?);
        traced(&self.params, self.config.precision, label, record)
    }
}
