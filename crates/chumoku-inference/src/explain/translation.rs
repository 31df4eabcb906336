//! Explanation of a translation: cross-attention between words, and the effect of each source word on each target word.

use super::alignment::{Alignment, TranslationHeadAblation};
use super::classifier::JOINING;
use super::explanation::Word;
use super::inner_steps::InnerSteps;
use super::logit_lens::END_NAME;
use super::required_text::require_text;
use crate::decoding::{BeamCandidate, CandidateFate};
use crate::models::TranslationBatch;
use crate::nn::Offsets;
use crate::params::Params;
use crate::text::{TextTokenizer, WordSpan, word_spans};
use crate::text_models::translator::{TextTranslator, TranslateOptions, Translation};
use crate::{Error, Result};
use chumoku_nn::probability::log_softmax;
use std::ops::{ControlFlow, Range};

/// The maximum number of target tokens whose logits are in memory.
const TARGET_TOKENS: usize = 1024;

/// The words and tokens of a text.
struct WordsAndTokens {
    words: Vec<WordSpan>,
    /// The tokens, without the end token.
    ids: Vec<u32>,
    /// `true` if words and tokens were truncated.
    is_cut: bool,
}

impl WordsAndTokens {
    /// Tokenizes a text and truncates it to `limit` tokens.
    fn read(text: &str, tokenizer: &TextTokenizer, limit: usize) -> Result<WordsAndTokens> {
        let mut encoded = tokenizer.encode(text)?;
        let mut words = word_spans(text, &encoded);
        let is_cut = encoded.ids.len() > limit;
        encoded.ids.truncate(limit);
        words.retain(|word| word.tokens.start < limit);
        words.iter_mut().for_each(|word| word.tokens.end = word.tokens.end.min(limit));
        Ok(WordsAndTokens { words, ids: encoded.ids, is_cut })
    }

    /// Returns the tokens of each word, followed by the end token.
    fn tokens(&self) -> Vec<Range<usize>> {
        let end = self.ids.len()..self.ids.len() + 1;
        self.words.iter().map(|word| word.tokens.clone()).chain([end]).collect()
    }

    fn display_words(&self, text: &str) -> Vec<Word> {
        let plain = self.words.iter().map(|word| Word { text: text[word.bytes.clone()].into(), special: false });
        plain.chain([Word { text: END_NAME.into(), special: true }]).collect()
    }
}

/// A partial translation during beam search: the best hypothesis of a step, and its attention.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PartialTranslation<'a> {
    /// The words of the source, and its end token.
    pub source_words: &'a [Word],
    /// The partial text.
    pub text: &'a str,
    /// The words of the partial text. Later steps may replace them, if another hypothesis becomes the best.
    pub words: Vec<String>,
    /// The attention of each word to each source word, averaged over all layers and heads.
    pub weights: Vec<Vec<f32>>,
}

impl TextTranslator {
    /// Translates a text like [`TextTranslator::translate`], and reports partial results. `observe` receives the best
    /// hypothesis of each step, and finally the translation. After it returns `Break`, it is not called again.
    ///
    /// # Errors
    /// As for [`TextTranslator::translate`].
    pub fn translate_streaming(
        &self,
        source: &str,
        options: &TranslateOptions,
        observe: &mut dyn FnMut(PartialTranslation<'_>) -> ControlFlow<()>,
    ) -> Result<Translation> {
        let (ids, is_cut) = self.encode_source(source)?;
        let read = WordsAndTokens::read(source, self.tokenizers.source(), self.config.model.max_length - 1)?;
        let source_words = read.display_words(source);
        let mut tell = |text: &str| -> Result<ControlFlow<()>> {
            let (words, weights) = self.attention_by_word(&read, text)?;
            Ok(observe(PartialTranslation { source_words: &source_words, text, words, weights }))
        };
        let (mut live, mut going) = (vec![Vec::new()], Ok(ControlFlow::Continue(())));
        let mut step = |considered: &[BeamCandidate]| {
            let followed = considered.iter().filter(|one| one.fate == CandidateFate::Followed);
            live = followed
                .map(|one| [live.get(one.parent).map_or(&[][..], Vec::as_slice), &[one.token]].concat())
                .collect();
            if let (Ok(ControlFlow::Continue(())), Some(best)) = (&going, live.first()) {
                going = self.tokenizers.target.decode(best).map_err(Error::from).and_then(|text| tell(&text));
            }
        };
        let offsets = Offsets::from_lengths([ids.len()]);
        let limits = [self.max_target_tokens(ids.len())];
        let found = self.search_observed(&self.params, (&ids, &offsets), &limits, options, &mut step)?;
        let texts = found.into_iter().flatten().map(|found| Ok((self.tokenizers.target.decode(&found.ids)?, found)));
        let hypotheses = texts.collect::<Result<Vec<_>>>()?;
        let translation = Translation { hypotheses, source_tokens: ids.len() - 1, is_truncated: is_cut };
        if going?.is_continue() {
            let _ = tell(translation.text())?;
        }
        Ok(translation)
    }

    /// Returns the words of a translation, and the attention of each word to each source word and the end token.
    fn attention_by_word(&self, read: &WordsAndTokens, text: &str) -> Result<(Vec<String>, Vec<Vec<f32>>)> {
        let written = WordsAndTokens::read(text, &self.tokenizers.target, self.config.model.max_length - 1)?;
        let pair = self.pair_batch(&[&read.ids[..], &[self.end_of_source()]].concat(), &written.ids);
        let layers = self.model.alignment(&self.params, &pair)?;
        let heads: Vec<_> = layers.iter().flat_map(|layer| layer.outer_iter()).collect();
        let columns = read.tokens();
        let share = |row: &Range<usize>, column: &Range<usize>| {
            let pairs = row.clone().flat_map(|r| column.clone().map(move |c| [r, c]));
            let sum: f32 = pairs.map(|at| heads.iter().map(|head| head[at]).sum::<f32>()).sum();
            sum / (row.len() * heads.len()).max(1) as f32
        };
        let of_word = |word: &WordSpan| columns.iter().map(|column| share(&word.tokens, column)).collect();
        let words = written.words.iter().map(|word| text[word.bytes.clone()].to_owned()).collect();
        Ok((words, written.words.iter().map(of_word).collect()))
    }

    /// Explains the translation of `source` into `target`, or into the model's own translation without a target. `name`
    /// is the displayed name of the model.
    ///
    /// Token weights are combined into word weights: summed over the tokens of a source word, averaged over those of a
    /// target word. Each row therefore still sums to 1.
    ///
    /// The effect of a source word on a target word is the target word's log-probability with the source word minus
    /// that without it. Earlier target words are given (leave-one-out; Li, Monroe and Jurafsky 2016). Heads are ranked
    /// by how often their largest weight is on the source word with the largest effect.
    ///
    /// A source longer than the limit is truncated at its end, and the alignment is marked.
    ///
    /// # Errors
    /// If the source is empty, a text cannot be tokenized, or the target is longer than the model's limit.
    pub fn explain(&self, source: &str, target: Option<&str>, name: &str) -> Result<Alignment> {
        self.explain_with_steps(source, target, name, &InnerSteps::default())
    }

    /// Explains like [`TextTranslator::explain`]. `steps` requests the logit lens and patching.
    ///
    /// # Errors
    /// As for [`TextTranslator::explain`] and [`TextTranslator::patch`].
    pub fn explain_with_steps(
        &self,
        source: &str,
        target: Option<&str>,
        name: &str,
        steps: &InnerSteps<'_>,
    ) -> Result<Alignment> {
        require_text(source)?;
        let patching = steps.patch(|other, aligned| self.patch(source, other.text(), target, aligned))?;
        let own = match target {
            Some(_) => None,
            None => self.translate(&[source], &TranslateOptions::default())?.pop(),
        };
        let text = target.or(own.as_ref().map(|own| own.text())).unwrap_or_default();
        let limit = self.config.model.max_length - 1;
        let (reader, writer) = (self.tokenizers.source(), &self.tokenizers.target);
        let read = WordsAndTokens::read(source, reader, limit)?;
        let written = WordsAndTokens::read(text, writer, usize::MAX)?;
        if written.ids.len() > limit {
            return Err(chumoku_nn::Error::TooLong { limit, found: written.ids.len() }.into());
        }

        // The whole source, then the source without each of its words. Truncated words do not move into view.
        let end = if read.is_cut { read.words.last().map_or(0, |word| word.bytes.end) } else { source.len() };
        let mut sources = vec![read.ids.clone()];
        for word in &read.words {
            let without = format!("{}{}", &source[..word.bytes.start], &source[word.bytes.end..end]);
            sources.push(WordsAndTokens::read(&without, reader, limit)?.ids);
        }
        let rows = written.tokens();
        let log_p = self.log_probabilities(&self.params, &sources, &written.ids, &rows)?;
        let effect = |row: usize, without: &Vec<f64>| (log_p[0][row] - without[row]) as f32;
        let effects = (0..rows.len()).map(|row| {
            let known = log_p[1..].iter().map(|without| Some(effect(row, without)));
            known.chain([None]).collect()
        });

        let pair = self.pair_batch(&[&sources[0][..], &[self.end_of_source()]].concat(), &written.ids);
        let layers = self.model.alignment(&self.params, &pair)?;
        let mut attention = Vec::new();
        for head in layers.iter().flat_map(|layer| layer.outer_iter()) {
            for row in &rows {
                for column in read.tokens() {
                    let pairs = row.clone().flat_map(|r| column.clone().map(move |c| [r, c]));
                    attention.push(pairs.map(|at| head[at]).sum::<f32>() / row.len() as f32);
                }
            }
        }
        let [layers, heads] = [layers.len(), self.config.model.decoder_num_heads()];
        let without = (0..layers * heads).map(|index| {
            let [layer, head] = [index / heads, index % heads];
            let params = self.params_without_heads(&[[layer, head]])?;
            let log_p = self.log_probabilities(&params, &sources[..1], &written.ids, &rows)?.remove(0);
            let translation = self.translate_with(&params, &[source], &TranslateOptions::default())?.pop();
            Ok(TranslationHeadAblation {
                layer,
                head,
                log_probabilities: log_p.into_iter().map(|x| x as f32).collect(),
                translation: translation.map_or_else(String::new, |translation| translation.text().to_owned()),
            })
        });
        let without = without.collect::<Result<_>>()?;
        let mut alignment = Alignment {
            model: name.into(),
            source: source.into(),
            target: text.into(),
            is_given: target.is_some(),
            is_cut: read.is_cut,
            lens: steps.has_lens.then(|| self.logit_lens(&pair)).transpose()?,
            patching,
            source_words: read.display_words(source),
            target_words: written.display_words(text),
            layers,
            heads,
            log_probabilities: log_p[0].iter().map(|&x| x as f32).collect(),
            effects: effects.collect(),
            ranking: Vec::new(),
            without,
            joining: JOINING.into(),
            attention,
        };
        alignment.ranking = alignment.rank_heads();
        Ok(alignment)
    }

    /// Returns, for each source, the log-probability of each part of the target, given the target before it.
    fn log_probabilities(
        &self,
        params: &Params<f32>,
        sources: &[Vec<u32>],
        target: &[u32],
        parts: &[Range<usize>],
    ) -> Result<Vec<Vec<f64>>> {
        let (end, bounds) = (self.end_of_source(), self.start_and_end_tokens());
        let mut found = Vec::new();
        for sources in sources.chunks((TARGET_TOKENS / (target.len() + 1)).max(1)) {
            let mut batch = TranslationBatch::default();
            sources.iter().for_each(|ids| batch.push_with_boundaries(&[&ids[..], &[end]].concat(), target, bounds));
            let logits = self.model.logits(params, &batch)?;
            let of_token = |(row, &id): (usize, &u32)| f64::from(log_softmax(&logits.row(row).to_vec())[id as usize]);
            let of_tokens: Vec<f64> = batch.output.iter().enumerate().map(of_token).collect();
            let each = of_tokens.chunks_exact(target.len() + 1);
            found.extend(
                each.map(|tokens| parts.iter().map(|part| tokens[part.clone()].iter().sum()).collect::<Vec<f64>>()),
            );
        }
        Ok(found)
    }
}
