//! Recording of one attention of a model while it reads a text: all inputs and intermediate values.

use super::Truncation;
use super::forward_trace::{ForwardTrace, RecordedAnswer, of_first_layer};
use super::logit_lens::{END_NAME, START_NAME};
use super::loss::{LossTarget, RecordedLoss};
use super::required_text::is_empty;
use crate::Error;
use crate::Result;
use crate::TextClassifier;
use crate::TextEmbedder;
use crate::TextGenerator;
use crate::TextTranslator;
use crate::TranslateOptions;
use crate::lang::Lang;
use crate::models::{ClassifierTrace, TranslatorAttention};
use crate::nn::BackwardTrace;
use crate::params::Params;
use crate::row::{AsRow, Row, RowRef};
use crate::text::CLS;
use crate::text::TextTokenizer;
use crate::text_models::optimizer_defaults;
use crate::tr;
use chumoku_kernels::Precision;
use std::cell::Cell;

/// The layer and head to record, from 0. Defaults to the last layer.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadSelection {
    /// The layer.
    pub layer: Option<usize>,
    /// The head.
    pub head: usize,
}

impl HeadSelection {
    /// Returns the layer, after checking that it and the head exist.
    fn resolve_layer(self, [layers, heads]: [usize; 2]) -> Result<usize> {
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

/// The location of a recorded head in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLocation {
    /// The kind of attention.
    pub attention: AttentionKind,
    /// The layer, from 0.
    pub layer: usize,
    /// The head, from 0.
    pub head: usize,
}

/// The kinds of attention in models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionKind {
    /// Self-attention of a classifier.
    SelfAttention,
    /// Causal self-attention of a language model.
    Causal,
    /// Self-attention of a translator's encoder.
    Encoder,
    /// Causal self-attention of a translator's decoder.
    Decoder,
    /// Cross-attention from the translation to the source.
    Cross,
}

impl HeadLocation {
    /// Describes the location in a phrase.
    #[must_use]
    pub fn describe(self, lang: Lang) -> String {
        let attention = match self.attention {
            AttentionKind::SelfAttention => lang.pick("self-attention", "セルフアテンション"),
            AttentionKind::Causal => lang.pick("causal self-attention", "因果的セルフアテンション"),
            AttentionKind::Encoder => lang.pick("self-attention of the encoder", "エンコーダーのセルフアテンション"),
            AttentionKind::Decoder => lang.pick("self-attention of the decoder", "デコーダーのセルフアテンション"),
            AttentionKind::Cross => lang.pick("cross-attention", "クロスアテンション"),
        };
        let [layer, head] = [self.layer + 1, self.head + 1];
        match lang {
            Lang::En => format!("{attention}, layer {layer}, head {head}"),
            Lang::Ja => format!("{attention}、第 {layer} 層、ヘッド {head}"),
        }
    }
}

impl AttentionKind {
    /// The name in JSON, independent of the language.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AttentionKind::SelfAttention => "self",
            AttentionKind::Causal => "causal",
            AttentionKind::Encoder => "encoder",
            AttentionKind::Decoder => "decoder",
            AttentionKind::Cross => "cross",
        }
    }
}

/// The text and tokens of a recording.
struct RecordedInput {
    location: HeadLocation,
    source: Row,
    tokens: Vec<String>,
    key_tokens: Vec<String>,
    truncation: Option<Truncation>,
}

/// One attention of a model while it read a text.
#[derive(Clone, Debug)]
pub struct RecordedAttention {
    /// The location of the attention.
    pub location: HeadLocation,
    /// The text, or the source and the translation.
    pub source: Row,
    /// The query tokens.
    pub tokens: Vec<String>,
    /// The key tokens, if they differ from the query tokens.
    pub key_tokens: Vec<String>,
    /// The truncation of the text, if any.
    pub truncation: Option<Truncation>,
    /// The values at the highest f32 precision.
    pub exact: ForwardTrace,
    /// The values at the model's own precision, if it is lower.
    pub at_model_precision: Option<(Precision, ForwardTrace)>,
}

/// Calls `record` at the highest precision and, if it is lower, at the model's own precision.
fn record_at_both_precisions(
    params: &Params<f32>,
    own: Precision,
    read: RecordedInput,
    record: impl Fn(&Params<f32>) -> Result<ForwardTrace>,
) -> Result<RecordedAttention> {
    let exact = {
        let mut params = params.clone();
        params.set_precision(Precision::Highest);
        record(&params)?
    };
    let own = if own == Precision::Highest { None } else { Some((own, record(params)?)) };
    let RecordedInput { location: place, source, tokens, key_tokens, truncation: cut } = read;
    Ok(RecordedAttention {
        location: place,
        source,
        tokens,
        key_tokens,
        truncation: cut,
        exact,
        at_model_precision: own,
    })
}

fn token_names(tokenizer: &TextTokenizer, ids: &[u32]) -> Vec<String> {
    ids.iter().map(|&id| tokenizer.token(id)).collect()
}

/// Rejects empty texts, which have no attention to record.
fn check_not_empty(row: impl AsRow) -> Result<()> {
    match is_empty(row.as_row()) {
        true => Err(Error::Setting(tr!("the text to trace is empty", "トレースするテキストが空です"))),
        false => Ok(()),
    }
}

impl TextClassifier {
    /// Records one head while the model reads `text`. For models of mutually exclusive classes, also records how the
    /// network computes its answer.
    ///
    /// Only the first window of a long text is read.
    ///
    /// # Errors
    /// If the text is empty, there is no such layer or head, or the model is a recurrent network.
    pub fn record(&self, text: impl AsRow, place: HeadSelection) -> Result<RecordedAttention> {
        self.record_with_loss(text.as_row(), place, None)
    }

    /// Records like [`TextClassifier::record`], with the gradients of the loss of a class. Defaults to the network's
    /// most probable class.
    ///
    /// # Errors
    /// As for [`TextClassifier::record`], and if the classes are not mutually exclusive, or there is no class with this
    /// name.
    pub fn record_backward(
        &self,
        text: impl AsRow,
        place: HeadSelection,
        class: Option<&str>,
    ) -> Result<RecordedAttention> {
        let class = self.loss_class(class)?;
        self.record_with_loss(text.as_row(), place, Some(class))
    }

    fn record_with_loss(
        &self,
        text: RowRef<'_>,
        place: HeadSelection,
        class: Option<Option<u32>>,
    ) -> Result<RecordedAttention> {
        check_not_empty(text)?;
        let Some(encoder) = self.config.model.backbone.transformer() else {
            return Err(Error::Setting(tr!(
                "this model is a recurrent network, which has no attention to trace",
                "このモデルは再帰型ネットワークで、トレースするアテンションがありません"
            )));
        };
        let layer = place.resolve_layer([encoder.num_layers, encoder.num_heads])?;
        let mut of_text = self.tokenizer.encode(text)?.ids;
        let frame = self.tokenizer.special_tokens();
        let cut = Truncation::of(self.config.max_tokens(), of_text.len() + frame.len(), false);
        of_text.truncate(self.input_template().window_size());
        let ids = frame.wrap(&of_text);
        let label = RecordedInput {
            location: HeadLocation { attention: AttentionKind::SelfAttention, layer, head: place.head },
            source: text.to_row(),
            tokens: token_names(&self.tokenizer, &ids),
            key_tokens: Vec::new(),
            truncation: cut,
        };
        // The most probable class of the first run is used at both precisions.
        let chosen = Cell::new(class.flatten());
        record_at_both_precisions(&self.params, self.config.precision, label, |params| {
            let found = match class {
                None => self.model.trace(params, &ids, layer)?,
                Some(_) => self.model.trace_backward(params, &ids, layer, chosen.get())?,
            };
            let ClassifierTrace { attention, head, loss } = found.ok_or_else(|| {
                Error::Setting(tr!(
                    "this model has no attention to trace",
                    "このモデルにはトレースするアテンションがありません"
                ))
            })?;
            chosen.set(loss.as_ref().map(|loss| loss.class));
            let is_behind = layer + 1 == encoder.num_layers;
            let answer = RecordedAnswer { labels: self.labels().to_vec(), follows_attention: is_behind, record: head };
            let answer = self.config.target.is_one_class().then_some(answer);
            let step = if self.origin.is_some() {
                optimizer_defaults::fine_tuning(encoder)
            } else {
                optimizer_defaults::CLASSIFIER
            };
            let loss = loss.map(|loss| RecordedLoss::for_class(loss, self.labels(), step));
            let embedding = of_first_layer(layer, || Ok(self.model.trace_embeddings(params, &ids)?))?;
            Ok(ForwardTrace { embedding, answer, loss, ..ForwardTrace::from(attention) })
        })
    }
}

impl TextGenerator {
    /// Records one head while the model reads `text`.
    ///
    /// A text longer than the context is truncated at its start.
    ///
    /// # Errors
    /// If the text is empty, or there is no such layer or head.
    pub fn record(&self, text: &str, place: HeadSelection) -> Result<RecordedAttention> {
        self.record_with_loss(text, place, false)
    }

    /// Records like [`TextGenerator::record`], with the gradients of the mean next-token loss.
    ///
    /// # Errors
    /// As for [`TextGenerator::record`], and if the text has only one token.
    pub fn record_backward(&self, text: &str, place: HeadSelection) -> Result<RecordedAttention> {
        self.record_with_loss(text, place, true)
    }

    fn record_with_loss(&self, text: &str, place: HeadSelection, with_loss: bool) -> Result<RecordedAttention> {
        check_not_empty(text)?;
        let encoder = &self.config.model.encoder;
        let layer = place.resolve_layer([encoder.num_layers, encoder.num_heads])?;
        let mut ids = self.encode_prompt(text)?;
        let cut = Truncation::of(self.config.model.max_length, ids.len(), true);
        ids.drain(..ids.len().saturating_sub(self.config.model.max_length));
        let label = RecordedInput {
            location: HeadLocation { attention: AttentionKind::Causal, layer, head: place.head },
            source: text.into(),
            tokens: token_names(&self.tokenizer, &ids),
            key_tokens: Vec::new(),
            truncation: cut,
        };
        if with_loss && ids.len() < 2 {
            return Err(Error::Setting(tr!(
                "gradients: expected a text of at least 2 tokens, so that there is a next token to predict; found 1",
                "勾配: モデルが次のトークンを予測できるよう、2 トークン以上のテキストが必要ですが、1 トークンです"
            )));
        }
        record_at_both_precisions(&self.params, self.config.precision, label, |params| {
            let embedding = of_first_layer(layer, || Ok(self.model.trace_embeddings(params, &ids)?))?;
            if !with_loss {
                let attention = self.model.trace(params, &ids, layer)?;
                return Ok(ForwardTrace { embedding, ..attention.into() });
            }
            let BackwardTrace { attention, loss, gradients } = self.model.trace_backward(params, &ids, layer)?;
            let step = if self.origin.is_some() {
                optimizer_defaults::fine_tuning(encoder)
            } else {
                optimizer_defaults::LANGUAGE_MODEL
            };
            let loss = RecordedLoss::for_tokens(LossTarget::NextTokens, loss, gradients, step);
            Ok(ForwardTrace { embedding, loss: Some(loss), ..attention.into() })
        })
    }
}

impl TextEmbedder {
    /// Records one head while the encoder reads `text`, and how the text vector is computed from the token vectors.
    ///
    /// A text longer than the limit is truncated at its end.
    ///
    /// # Errors
    /// If the text is empty, the model has no layers, there is no such layer or head, or several dense layers follow
    /// pooling.
    pub fn record(&self, text: &str, place: HeadSelection) -> Result<RecordedAttention> {
        check_not_empty(text)?;
        self.check_layers()?;
        let encoder = &self.model().config().encoder;
        let layer = place.resolve_layer([encoder.num_layers, encoder.num_heads])?;
        let encoding = self.tokenizer().encode(&self.preprocess_with_default_prompt(text)?, self.max_tokens())?;
        let label = RecordedInput {
            location: HeadLocation { attention: AttentionKind::SelfAttention, layer, head: place.head },
            source: text.into(),
            tokens: encoding.ids.iter().map(|&id| self.tokenizer().display_token(id)).collect(),
            key_tokens: Vec::new(),
            truncation: Truncation::of(encoding.ids.len(), encoding.ids.len() + encoding.truncated, false),
        };
        record_at_both_precisions(self.params(), self.params().precision(), label, |params| {
            ForwardTrace::from_encoder(self, params, &encoding, layer)
        })
    }
}

impl TextTranslator {
    /// Records one head while the model reads `source` and generates `target`. Defaults to the model's own translation.
    ///
    /// A source longer than the limit is truncated at its end.
    ///
    /// # Errors
    /// If the source is empty, there is no such layer or head, or the target is longer than the model's limit.
    pub fn record(
        &self,
        source: &str,
        target: Option<&str>,
        part: TranslatorAttention,
        place: HeadSelection,
    ) -> Result<RecordedAttention> {
        self.record_with_loss((source, target), part, place, false)
    }

    /// Records like [`TextTranslator::record`], with the gradients of the mean target-token loss.
    ///
    /// # Errors
    /// As for [`TextTranslator::record`].
    pub fn record_backward(
        &self,
        source: &str,
        target: Option<&str>,
        part: TranslatorAttention,
        place: HeadSelection,
    ) -> Result<RecordedAttention> {
        self.record_with_loss((source, target), part, place, true)
    }

    fn record_with_loss(
        &self,
        (source, target): (&str, Option<&str>),
        part: TranslatorAttention,
        place: HeadSelection,
        with_loss: bool,
    ) -> Result<RecordedAttention> {
        check_not_empty(source)?;
        let model = &self.config.model;
        let layer = place.resolve_layer(match part {
            TranslatorAttention::Encoder => [model.encoder.num_layers, model.encoder.num_heads],
            _ => [model.num_decoder_layers, model.decoder_num_heads()],
        })?;
        let own = match target {
            Some(_) => None,
            None => self.translate(&[source], &TranslateOptions::default())?.pop(),
        };
        let text = target.or(own.as_ref().map(|own| own.text())).unwrap_or_default();
        let (source_ids, _) = self.encode_source(source)?;
        let all = self.tokenizers.source().encode(source)?.ids.len() + 1;
        let cut = Truncation::of(source_ids.len(), all, false);
        let target_ids = self.tokenizers.target.encode(text)?.ids;
        let limit = model.max_length - 1;
        if target_ids.len() > limit {
            let found = target_ids.len();
            let problem = tr!(
                "the translation has {found} tokens: expected at most {limit}, the model's limit; give a shorter translation",
                "訳文が {found} トークンあります。モデルが書けるのは {limit} トークンまでです。短い訳文を与えてください"
            );
            return Err(Error::Setting(problem));
        }
        let pair = self.pair_batch(&source_ids, &target_ids);
        let mut of_source = token_names(self.tokenizers.source(), &source_ids);
        // The decoder's rows are its input tokens. Each predicts the next token.
        let mut of_target = token_names(&self.tokenizers.target, &pair.input);
        // Translators of this project end a source, and start a translation, with the token of classifiers.
        for (name, own) in [(of_source.last_mut(), END_NAME), (of_target.first_mut(), START_NAME)] {
            name.filter(|name| *name == CLS).into_iter().for_each(|name| own.clone_into(name));
        }
        let (attention, tokens, key_tokens) = match part {
            TranslatorAttention::Encoder => (AttentionKind::Encoder, of_source, Vec::new()),
            TranslatorAttention::Decoder => (AttentionKind::Decoder, of_target, Vec::new()),
            TranslatorAttention::Cross => (AttentionKind::Cross, of_target, of_source),
        };
        let label = RecordedInput {
            location: HeadLocation { attention, layer, head: place.head },
            source: format!("{source} → {text}").into(),
            tokens,
            key_tokens,
            truncation: cut,
        };
        record_at_both_precisions(&self.params, self.config.precision, label, |params| {
            let embedding = of_first_layer(layer, || Ok(self.model.trace_embeddings(params, &pair, part)?))?;
            if !with_loss {
                let attention = self.model.trace(params, &pair, part, layer)?;
                return Ok(ForwardTrace { embedding, ..attention.into() });
            }
            let BackwardTrace { attention, loss, gradients } = self.model.trace_backward(params, &pair, part, layer)?;
            let step = optimizer_defaults::translator(model.encoder.d_model);
            let loss = RecordedLoss::for_tokens(LossTarget::Translation, loss, gradients, step);
            Ok(ForwardTrace { embedding, loss: Some(loss), ..attention.into() })
        })
    }
}
