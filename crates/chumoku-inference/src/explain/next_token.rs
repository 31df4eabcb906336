//! Explanation of the next token: attention between words, and the effect of each word on the most probable next token.

use super::attention_collector::AttentionCollector;
use super::attribution::Attribution;
use super::classifier::{JOINING, log_odds};
use super::explanation::{Explanation, ExplanationKind, HeadAblation, Truncation, Word, WordPiece};
use super::inner_steps::InnerSteps;
use super::label_probability::LabelProbability;
use super::required_text::require_text;
use crate::nn::Offsets;
use crate::parallel_batches::{BATCH_TOKENS, check_head};
use crate::params::Params;
use crate::sampling::Sampling;
use crate::text::word_spans;
use crate::text_models::generator::TextGenerator;
use crate::text_models::settings::not_finite_error;
use crate::{Error, Result, sorting};
use chumoku_kernels::parallel_try_map;
use chumoku_nn::probability::log_softmax;
use std::ops::{ControlFlow, Range};

/// The number of next tokens in an explanation.
const SHOWN_TOKENS: usize = 10;

impl TextGenerator {
    /// Returns every token of the vocabulary with its probability after `text`, most probable first. `without` lists
    /// heads to switch off, as (layer, head) from 0.
    ///
    /// A text longer than the context is truncated at its start.
    ///
    /// # Errors
    /// If the text cannot be tokenized, or there is no such head.
    pub fn next_token(&self, text: &str, without: &[[usize; 2]]) -> Result<Vec<(String, f32)>> {
        let mut ids = self.encode_prompt(text)?;
        ids.drain(..ids.len().saturating_sub(self.config.model.max_length));
        let log_p = self.next_log_probabilities(&self.params_without_heads(without)?, &[ids])?.remove(0);
        let order = sorting::argsort_descending(&log_p);
        Ok(order.into_iter().map(|id| (self.tokenizer.token(id as u32), log_p[id].exp())).collect())
    }

    fn params_without_heads(&self, heads: &[[usize; 2]]) -> Result<Params<f32>> {
        let encoder = &self.config.model.encoder;
        let mut params = self.params.clone();
        for &[layer, head] in heads {
            check_head([layer, head], [encoder.num_layers, encoder.num_heads])?;
            self.model.attention(layer).ablate_head(&mut params, head);
        }
        Ok(params)
    }

    /// Returns the log-probabilities of the token after each sequence.
    fn next_log_probabilities(&self, params: &Params<f32>, sequences: &[Vec<u32>]) -> Result<Vec<Vec<f32>>> {
        let longest = sequences.iter().map(Vec::len).max().unwrap_or(0);
        let found = parallel_try_map(sequences.chunks((BATCH_TOKENS / longest.max(1)).max(1)), |batch| {
            let offsets = Offsets::from_lengths(batch.iter().map(Vec::len));
            let mut logits = self.model.next_logits(params, &batch.concat(), &offsets)?;
            // The unknown token is never generated.
            self.tokenizer
                .unknown_id()
                .into_iter()
                .for_each(|id| logits.column_mut(id as usize).fill(f32::NEG_INFINITY));
            Ok::<_, Error>(logits.rows().into_iter().map(|row| log_softmax(&row.to_vec())).collect::<Vec<_>>())
        })?;
        let found = found.concat();
        if found.iter().flatten().any(|x| x.is_nan()) {
            return Err(not_finite_error());
        }
        Ok(found)
    }

    /// Lets the model write at most `tokens` tokens after `prompt`, always the most probable one. Explains the whole text
    /// like [`TextGenerator::explain_with_steps`]. [`Explanation::prompt_words`] tells where the model's own words start.
    ///
    /// # Errors
    /// As for [`TextGenerator::explain_with_steps`].
    pub fn explain_continuation(
        &self,
        prompt: &str,
        tokens: usize,
        name: &str,
        steps: &InnerSteps<'_>,
    ) -> Result<Explanation> {
        require_text(prompt)?;
        let mut text = prompt.to_owned();
        let mut greedy = Sampling::default();
        greedy.temperature = 0.0;
        self.generate(prompt, tokens, &greedy, &mut |piece| {
            text += piece;
            ControlFlow::Continue(())
        })?;
        let mut explanation = self.explain_with_steps(&text, name, steps)?;
        // Words that start in the continuation; the search goes from the end, because long texts lose their start.
        let (mut end, mut count) = (text.len(), explanation.words.len());
        for word in explanation.words.iter().rev().filter(|word| !word.special) {
            end = text[..end].rfind(&word.text).unwrap_or(0);
            if end < prompt.len() {
                break;
            }
            count -= 1;
        }
        explanation.prompt_words = Some(count);
        Ok(explanation)
    }

    /// Explains the most probable token after `text`. `name` is the displayed name of the model.
    ///
    /// Token weights are combined into word weights, and each head is switched off in turn, as in
    /// [`TextClassifier::explain`](crate::TextClassifier::explain). The score of a word is the log-odds of the most
    /// probable next token with the word minus those without it (leave-one-out).
    ///
    /// A text longer than the context is truncated at its start.
    ///
    /// # Errors
    /// If the text is empty, or cannot be tokenized.
    pub fn explain(&self, text: &str, name: &str) -> Result<Explanation> {
        self.explain_with_steps(text, name, &InnerSteps::default())
    }

    /// Explains like [`TextGenerator::explain`]. `steps` requests the logit lens and patching.
    ///
    /// # Errors
    /// As for [`TextGenerator::explain`] and [`TextGenerator::patch`].
    pub fn explain_with_steps(&self, text: &str, name: &str, steps: &InnerSteps<'_>) -> Result<Explanation> {
        require_text(text)?;
        let patching = steps.patch(|other, aligned| self.patch(text, other.text(), aligned))?;
        let encoded = self.tokenizer.encode(text)?;
        let limit = self.config.model.max_length;
        // The special tokens before a text are read too, unless the text fills the context.
        let frame = &self.tokenizer.special_tokens().prefix;
        let is_cut = encoded.ids.len() + frame.len() > limit;
        let frame = if is_cut { &[][..] } else { frame };
        let skipped = encoded.ids.len().saturating_sub(limit);
        let ids = [frame, &encoded.ids[skipped..]].concat();
        let (before, has_boundary) = (frame.len(), !frame.is_empty());
        let mut words = word_spans(text, &encoded);
        words.retain(|word| word.tokens.end > skipped);
        let place = |tokens: &Range<usize>| {
            tokens.start.saturating_sub(skipped) + before..tokens.end.saturating_sub(skipped) + before
        };
        let of_words: Vec<Range<usize>> = words.iter().map(|word| place(&word.tokens)).collect();
        let tokens: Vec<Range<usize>> = has_boundary.then_some(0..before).into_iter().chain(of_words.clone()).collect();

        let mut sequences = vec![ids.clone()];
        sequences.extend(of_words.iter().map(|gone| [&ids[..gone.start], &ids[gone.end..]].concat()));
        // A text that loses its only token still needs one to continue from.
        sequences.iter_mut().filter(|ids| ids.is_empty()).for_each(|ids| ids.push(self.start_token()));
        let log_p = self.next_log_probabilities(&self.params, &sequences)?;
        let whole = &log_p[0];
        let mut order = sorting::argsort_descending(whole);
        order.truncate(SHOWN_TOKENS);
        let next = order[0];
        let odds = |log_p: &[f32]| log_odds(f64::from(log_p[next]).exp());
        let scores = log_p[1..].iter().map(|without| (odds(whole) - odds(without)) as f32);
        let label = |id: usize| self.tokenizer.token(id as u32);
        let likeliest =
            |log_p: &[f32]| (0..log_p.len()).fold(0, |best, id| if log_p[id] > log_p[best] { id } else { best });

        let mut look = AttentionCollector::new(&tokens);
        self.model.trace_layers(&self.params, &ids, &mut |record| look.add(record))?;
        let AttentionCollector { attention, derived, depth, .. } = look;
        let [layers, heads] = [self.config.model.encoder.num_layers, self.config.model.encoder.num_heads];
        let mut params = self.params.clone();
        let without = (0..layers * heads).map(|index| {
            let [layer, head] = [index / heads, index % heads];
            let attention = self.model.attention(layer);
            let log_p = attention
                .with_head_ablated(&mut params, head, |params| self.next_log_probabilities(params, &sequences[..1]))?;
            let log_p = &log_p[0];
            let probabilities = order.iter().map(|&id| log_p[id].exp()).collect();
            Ok(HeadAblation {
                layer,
                head,
                label: label(likeliest(log_p)),
                probabilities,
                whole: None,
                similarity: None,
            })
        });
        let without = without.collect::<Result<_>>()?;
        let recording = self.record_residual(&ids)?;
        let lens = steps.has_lens.then(|| self.logit_lens(&ids, &recording)).transpose()?;
        let residual_path = self.residual_norms(&ids, &recording)?;
        let special = has_boundary.then(|| Word { text: label(frame[0] as usize), special: true });
        let plain = words.iter().map(|word| Word { text: text[word.bytes.clone()].into(), special: false });
        let pieces = tokens.iter().enumerate().flat_map(|(word, tokens)| tokens.clone().map(move |t| (word, t)));
        Ok(Explanation {
            kind: ExplanationKind::LanguageModel,
            model: name.into(),
            text: text.into(),
            cut: is_cut.then_some(Truncation { read: ids.len(), tokens: encoded.ids.len(), is_end: true }),
            label: label(next),
            similarity: None,
            number: None,
            levels: Vec::new(),
            probabilities: order
                .iter()
                .map(|&id| LabelProbability { label: label(id), probability: whole[id].exp() })
                .collect(),
            exclusive: true,
            parts: None,
            pieces: pieces.map(|(word, t)| WordPiece { text: self.tokenizer.token(ids[t]), word }).collect(),
            words: special.clone().into_iter().chain(plain).collect(),
            layers,
            heads,
            attention,
            causal: true,
            joining: JOINING.into(),
            derived,
            depth,
            without,
            attribution: Attribution {
                method: "leave-one-out".into(),
                class: label(next),
                unit: "change in log-odds when the word is removed".into(),
                scores: special.iter().map(|_| 0.0).chain(scores).collect(),
                whole: None,
                beyond: Vec::new(),
                integral: None,
                curves: None,
            },
            columns: Vec::new(),
            prompt_words: None,
            lens,
            residual_path: Some(residual_path),
            patching,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::PatchedSite;
    use crate::models::{LanguageModel, LanguageModelConfig};
    use crate::nn::{EncoderConfig, InputEmbeddingsOptions, PositionKind};
    use crate::row::AsRow;
    use crate::text::{NormalizationForm, TextTokenizer, TokenizationUnit, TokenizerConfig};
    use crate::text_models::generator::{TextBoundaries, TextGeneratorConfig};
    use chumoku_kernels::Precision;
    use testkit::Random;

    fn generator(max_length: usize) -> TextGenerator {
        let config = TokenizerConfig {
            vocab_size: 60,
            min_frequency: 1,
            form: NormalizationForm::NfkcLowercase,
            unit: TokenizationUnit::Subwords,
        };
        let tokenizer = TextTokenizer::train(&["ab ab ab cd cd", "q w"], &config).unwrap();
        let encoder = EncoderConfig { causal: true, ..EncoderConfig::new(2, 16, 2, 24) };
        let config = LanguageModelConfig {
            vocab_size: tokenizer.vocab_size(),
            encoder,
            position: PositionKind::Learned,
            max_length,
            embedding_dropout: 0.0,
            embeddings: InputEmbeddingsOptions::default(),
            untied_output: false,
        };
        let model = LanguageModel::new(config.clone()).unwrap();
        let mut params = Params::zeros(model.layout());
        let mut random = Random::new(3);
        params.values_mut().iter_mut().for_each(|value| *value = 0.4 * random.number() as f32);
        let config = TextGeneratorConfig {
            model_type: String::new(),
            chumoku_version: String::new(),
            precision: Precision::default(),
            vocabulary_sha256: String::new(),
            model: config,
        };
        TextGenerator {
            boundaries: TextBoundaries::from_tokenizer(&tokenizer),
            config,
            model,
            params,
            tokenizer,
            origin: None,
        }
    }

    #[test]
    fn a_wrong_alignment_is_refused_before_the_explanation() {
        let mut of = generator(99);
        let steps = InnerSteps { patch: Some("ab ce q".as_row()), aligned: Some(&[[0, 99]]), ..InnerSteps::default() };
        assert!(of.explain_with_steps("ab cd q", "m", &InnerSteps::NONE).unwrap().lens.is_none());
        // The model cannot be explained, as its logits are not finite.
        of.params.values_mut().fill(f32::NAN);
        assert!(of.explain("ab cd q", "m").is_err());
        let refused = of.explain_with_steps("ab cd q", "m", &steps).unwrap_err().to_string();
        assert!(refused.contains("align: "), "{refused}");
    }

    #[test]
    fn words_that_the_model_wrote_follow_those_of_the_prompt() {
        let of = generator(99);
        let prompt = "ab cd q";
        let e = of.explain_continuation(prompt, 5, "m", &InnerSteps::default()).unwrap();
        e.validate().unwrap();
        let text = e.text.as_row().text();
        assert!(text.starts_with(prompt) && text.len() > prompt.len(), "{text}");
        let own = e.prompt_words.unwrap();
        let before: Vec<&str> =
            e.words[..own].iter().filter(|word| !word.special).map(|word| word.text.as_str()).collect();
        assert!(before.len() >= 3 && before[..2] == ["ab", "cd"] && before[2].starts_with('q'), "{before:?}");
        assert_eq!(before.len(), 3, "{before:?} of {text}");
        assert_eq!(e.attention.len(), e.layers * e.heads * e.words.len() * e.words.len());
        // The lens reads a next token at every token; the last one is the answer.
        let lens = e.lens.unwrap();
        assert_eq!(lens.tokens.len(), e.pieces.len());
        assert_eq!(lens.depths[2].last().unwrap().label, e.label);
    }

    #[test]
    fn patching_a_language_model_moves_the_next_token() {
        let of = generator(99);
        let (text, other) = ("ab wxyz cd ab", "ab wxyz cd cd");
        let Ok(found) = of.patch(text, other, None) else { panic!("both texts have as many tokens") };
        let count = found.tokens.len();
        let changed: Vec<usize> = (0..count).filter(|&i| found.tokens[i] != found.other_tokens[i]).collect();
        assert!(!changed.is_empty() && changed.len() < count);
        let moved = |depth, position| found.sites().effect(PatchedSite::Residual { depth, position });
        for i in 0..count {
            // Before the first layer, equal tokens at equal positions change nothing. After the last layer, the last
            // position is the whole difference.
            assert!(changed.contains(&i) || moved(0, i).abs() < 1e-3, "position {i}: {}", moved(0, i));
            let expected = if i == count - 1 { 1.0 } else { 0.0 };
            assert!((moved(2, i) - expected).abs() < 1e-3, "position {i}: {}", moved(2, i));
        }
        let next = |text: &str| of.next_token(text, &[]).unwrap()[0].clone();
        for (answer, text) in found.answers.iter().zip([text, other]) {
            assert_eq!(answer.label, next(text).0);
            assert!((answer.probability - next(text).1).abs() < 1e-4);
        }
        let problem = of.patch(text, "ab", None).unwrap_err().to_string();
        assert!(problem.contains("--align"), "{problem}");
    }

    #[test]
    fn the_next_token_is_explained_for_texts_of_any_length() {
        let text = "ab wxyz cd ab";
        let of = generator(99);
        let all = of.tokenizer.encode(text).unwrap().ids;
        let words = word_spans(text, &of.tokenizer.encode(text).unwrap());
        let count = all.len();
        assert!(words.len() == 4 && words[1].tokens.len() > 2, "{words:?}");
        for most in 1..count + 3 {
            let of = generator(most);
            let e = of.explain(text, "m").unwrap();
            e.validate().unwrap();
            let has_boundary = most > count;
            assert_eq!(e.words[0].special, has_boundary, "{most}");
            // The end of the text is read, up to the context length.
            let read: Vec<String> = all[count - count.min(most)..].iter().map(|&id| of.tokenizer.token(id)).collect();
            let shown: Vec<&str> = e.pieces.iter().skip(usize::from(has_boundary)).map(|p| p.text.as_str()).collect();
            assert_eq!(shown, read, "{most}");
            let left = words.iter().filter(|word| word.tokens.end > count - count.min(most)).count();
            let names: Vec<&str> = e.words.iter().filter(|w| !w.special).map(|w| w.text.as_str()).collect();
            assert_eq!(names, ["ab", "wxyz", "cd", "ab"][4 - left..], "{most}");
            let next = of.next_token(text, &[]).unwrap();
            for (shown, (token, p)) in e.probabilities.iter().zip(&next) {
                assert!(shown.label == *token && (shown.probability - p).abs() < 1e-6, "{most}");
            }
            assert_eq!(e.label, next[0].0);
            for without in &e.without {
                let next = of.next_token(text, &[[without.layer, without.head]]).unwrap();
                assert_eq!(without.label, next[0].0);
                for (shown, p) in e.probabilities.iter().zip(&without.probabilities) {
                    let expected = next.iter().find(|(token, _)| *token == shown.label).unwrap().1;
                    assert!((expected - p).abs() < 1e-6);
                }
            }
            // Rows of weights sum to 1.
            for i in 0..e.words.len() {
                assert!((e.row(1, 1, i).iter().sum::<f32>() - 1.0).abs() < 1e-5);
            }
        }
        assert!(of.next_token(text, &[[2, 0]]).unwrap_err().to_string().contains("layers 1 to 2"));
        assert!(of.explain(" \n", "m").unwrap_err().to_string().contains("empty"));
    }
}
