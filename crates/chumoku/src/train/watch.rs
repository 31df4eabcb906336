//! The attention to one text, recorded as training goes on, for [`Film`](crate::view::Film).

use super::TrainOptions;
use crate::look::{Look, Reading, by_word};
use crate::models::{Classifier, LanguageModel, PairBatch, Translator};
use crate::nn::Network;
use crate::params::Params;
use crate::text::{TextTokenizer, words_of};
use crate::view::Frame;
use crate::{Error, ModelKind, Result};
use std::ops::Range;

/// What weights make of the text that is watched.
pub(super) type Watch<'a> = Box<dyn Fn(&Params<f32>) -> Result<Frame> + 'a>;

impl TrainOptions {
    /// Whether the text to watch, if there is one, can be watched in a model of this kind.
    ///
    /// # Errors
    /// If it is empty, the network has no attention, or a translator's has no tab in it.
    pub fn check_watch(&self, kind: ModelKind) -> Result<()> {
        let fault = |problem: &str| Err(Error::Setting(problem.into()));
        match (&self.watch, kind) {
            (None, _) => Ok(()),
            (Some(text), _) if text.trim().is_empty() => fault("the text to watch is empty"),
            (Some(_), ModelKind::Classifier) if self.network != Network::Transformer => {
                fault("watching attention: a recurrent network has none")
            }
            (Some(text), ModelKind::Translator) if !text.contains('\t') => fault(
                "watching a translator: expected a source and its translation with a tab between them, found no tab",
            ),
            _ => Ok(()),
        }
    }
}

/// Of a classifier; a recurrent network has no attention to record.
pub(super) fn classifier<'a>(model: &'a Classifier, tokenizer: &TextTokenizer, text: &str) -> Result<Watch<'a>> {
    let config = model.config();
    let (size, causal) = config.body.transformer().map_or(([0; 2], false), |c| ([c.num_layers, c.num_heads], c.causal));
    let reading = Reading::of(text, tokenizer, config.max_length)?;
    let words = reading.names(text);
    Ok(Box::new(move |params| {
        let mut look = Look::new(&reading.tokens);
        model.each_record(params, &reading.ids, &mut |record| look.add(record))?;
        Ok(frame([words.clone(), words.clone()], size, causal, look.attention))
    }))
}

/// Of a language model.
pub(super) fn language_model<'a>(model: &'a LanguageModel, tokenizer: &TextTokenizer, text: &str) -> Result<Watch<'a>> {
    let config = model.config();
    let size = [config.encoder.num_layers, config.encoder.num_heads];
    let reading = Reading::of(text, tokenizer, config.max_length)?;
    let words = reading.names(text);
    Ok(Box::new(move |params| {
        let mut look = Look::new(&reading.tokens);
        model.each_record(params, &reading.ids, &mut |record| look.add(record))?;
        Ok(frame([words.clone(), words.clone()], size, true, look.attention))
    }))
}

/// Of a translator: cross-attention, of a source and its translation with a tab between them.
pub(super) fn translator<'a>(
    model: &'a Translator,
    [reader, writer]: [&TextTokenizer; 2],
    text: &str,
) -> Result<Watch<'a>> {
    let (source, target) = text.split_once('\t').unwrap_or((text, ""));
    let limit = model.config().max_length - 1;
    let mut pair = PairBatch::default();
    let mut sides = Vec::new();
    for (text, tokenizer) in [(source, reader), (target, writer)] {
        let encoded = tokenizer.encode(text)?;
        if encoded.ids.len() > limit {
            return Err(Error::TooLong { limit, found: encoded.ids.len() });
        }
        let words = words_of(text, &encoded);
        // The token that ends each side is a word of its own.
        let end = encoded.ids.len()..encoded.ids.len() + 1;
        let tokens: Vec<Range<usize>> = words.iter().map(|word| word.tokens.clone()).chain([end]).collect();
        let names = words.iter().map(|word| text[word.bytes.clone()].to_owned()).chain(["[END]".to_owned()]);
        sides.push((names.collect::<Vec<String>>(), tokens, encoded.ids));
    }
    pair.push(&[&sides[0].2[..], &[reader.cls()]].concat(), &sides[1].2, writer.cls());
    let words = [sides[1].0.clone(), sides[0].0.clone()];
    Ok(Box::new(move |params| {
        let layers = model.alignment(params, &pair)?;
        let heads = layers.iter().flat_map(|layer| layer.outer_iter());
        let attention: Vec<f32> =
            heads.flat_map(|head| by_word(&head.mapv(f64::from), [&sides[1].1, &sides[0].1])).collect();
        Ok(frame(words.clone(), [layers.len(), model.config().encoder.num_heads], false, attention))
    }))
}

fn frame(words: [Vec<String>; 2], [layers, heads]: [usize; 2], causal: bool, attention: Vec<f32>) -> Frame {
    Frame { step: 0, epoch: 0, words, layers, heads, causal, attention }
}
