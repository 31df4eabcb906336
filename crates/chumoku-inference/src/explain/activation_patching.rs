//! Activation patching: runs the network on one text with some activations of another text.
//!
//! One site at a time takes its values from the run on the other text, and the network computes the rest. A site that
//! carries the difference between the texts moves the answer from that of the first text to that of the second.
//!
//! - Vig et al. 2020, "Investigating Gender Bias in Language Models Using Causal Mediation Analysis"
//! - Meng et al. 2022, "Locating and Editing Factual Associations in GPT"
//! - Wang et al. 2022, "Interpretability in the Wild"

use super::attention_collector::FramedText;
use super::label_probability::LabelProbability;
use super::logit_lens::{END_NAME, START_NAME, answer_probabilities};
use super::patching::{AnswerPosition, DecoderPatching, Patching};
use super::required_text::{empty_text_error, is_empty, require_text};
use crate::characters::CharacterOffsets;
use crate::models::{ResidualReader, ResidualRecording, TaggedUnits};
use crate::nn::Offsets;
use crate::row::{AsRow, RowRef};
use crate::scoring::argmax;
use crate::text_models::classifier::TextClassifier;
use crate::text_models::generator::TextGenerator;
use crate::text_models::tagger::TextTagger;
use crate::text_models::translator::{TextTranslator, TranslateOptions};
use crate::{Error, Result, tr};
use chumoku_nn::probability::log_softmax;
use ndarray::{Array2, ArrayView1, Axis};

/// The largest number of tokens of a text that an error lists.
const LISTED_TOKENS: usize = 200;

/// The smallest difference of logits that counts as a difference between two texts.
const SMALLEST_DIFFERENCE: f64 = 1e-4;

/// The logits that distinguish the two texts.
struct ComparedLogits {
    toward: usize,
    away: Option<usize>,
}

impl ComparedLogits {
    /// Compares the answers of both texts. If they are the same, compares that answer with the one whose distance to it
    /// changes most, up or down.
    fn between(logits: &Array2<f32>) -> ComparedLogits {
        let [text, other] = [0, 1].map(|row| best(logits.row(row)));
        let toward = if text == other {
            let change = |class: usize| {
                let distance = |row: usize| logits[[row, class]] - logits[[row, text]];
                (distance(1) - distance(0)).abs()
            };
            (0..logits.ncols())
                .filter(|&class| class != text)
                .max_by(|&a, &b| change(a).total_cmp(&change(b)))
                .unwrap_or(other)
        } else {
            other
        };
        ComparedLogits { toward, away: Some(text) }
    }

    fn difference(&self, logits: ArrayView1<'_, f32>) -> f64 {
        f64::from(logits[self.toward]) - self.away.map_or(0.0, |away| f64::from(logits[away]))
    }
}

/// Checks that there is a text to take values from.
fn require_other_text(other: impl AsRow) -> Result<()> {
    if is_empty(other.as_row()) {
        return Err(Error::Setting(tr!(
            "patching: the other text is empty; expected a text to take values from",
            "パッチング: もう一方のテキストが空です。値を取り出すテキストを指定してください"
        )));
    }
    Ok(())
}

fn best(logits: ArrayView1<'_, f32>) -> usize {
    argmax(&logits.to_vec()) as usize
}

/// Both texts as token names, with the other text.
struct PatchedTexts<'a> {
    other: RowRef<'a>,
    tokens: [Vec<String>; 2],
}

impl PatchedTexts<'_> {
    /// Returns the positions to patch: those that the user gives, or without any all positions of texts with as many
    /// tokens.
    fn positions(&self, aligned: Option<&[[usize; 2]]>) -> Result<Vec<[usize; 2]>> {
        let counts = self.tokens.each_ref().map(Vec::len);
        let Some(aligned) = aligned.filter(|aligned| !aligned.is_empty()) else {
            return match counts[0] == counts[1] {
                true => Ok((0..counts[0]).map(|i| [i, i]).collect()),
                false => Err(Error::Setting(self.unequal_lengths())),
            };
        };
        for (i, pair) in aligned.iter().enumerate() {
            for (side, (&position, count)) in pair.iter().zip(counts).enumerate() {
                if position >= count {
                    let (position, list) = (position + 1, list_tokens(&self.tokens[side]));
                    return Err(Error::Setting(match side {
                        0 => tr!(
                            "align: expected tokens 1 to {count} of the text, found {position}; its tokens: {list}",
                            "align: テキストのトークンは 1〜{count} ですが、{position} です。トークン: {list}"
                        ),
                        _ => tr!(
                            "align: expected tokens 1 to {count} of the other text, found {position}; its tokens: {list}",
                            "align: もう一方のテキストのトークンは 1〜{count} ですが、{position} です。トークン: {list}"
                        ),
                    }));
                }
            }
            if aligned[..i].iter().any(|earlier| earlier[0] == pair[0]) {
                let position = pair[0] + 1;
                return Err(Error::Setting(tr!(
                    "align: token {position} of the text is given twice; give each token once",
                    "align: テキストのトークン {position} が 2 回指定されています。1 回だけ指定してください"
                )));
            }
        }
        Ok(aligned.to_vec())
    }

    /// The error for texts of different lengths, with a proposal: equal tokens at the start and at the end.
    fn unequal_lengths(&self) -> String {
        let [text, other] = &self.tokens;
        let [count, other_count] = [text.len(), other.len()];
        let least = count.min(other_count);
        let start = text.iter().zip(other).take_while(|(a, b)| a == b).count().min(least);
        let equal_at_end = text.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
        let end = equal_at_end.min(least - start);
        let range = |start: usize, end: usize| match end - start {
            1 => end.to_string(),
            _ => format!("{}-{end}", start + 1),
        };
        let mut proposal = Vec::new();
        if start > 0 {
            proposal.push(format!("{0}:{0}", range(0, start)));
        }
        if end > 0 {
            proposal.push(format!("{}:{}", range(count - end, count), range(other_count - end, other_count)));
        }
        if proposal.is_empty() {
            proposal.push("1:1".to_owned());
        }
        let (proposal, text, other) = (proposal.join(","), list_tokens(text), list_tokens(other));
        tr!(
            "patching needs texts with the same number of tokens, found {count} and {other_count}; align the tokens, for \
             example with --align {proposal}. Tokens of the text: {text}. Tokens of the other text: {other}",
            "パッチングには同じ数のトークンが必要ですが、{count} 個と {other_count} 個です。対応するトークンを、たとえば --align {proposal} \
             のように指定してください。テキストのトークン: {text}。もう一方のトークン: {other}"
        )
    }
}

/// Both texts in a network, with its logits for them: (2, answers).
struct RecordedTexts<'a> {
    reader: ResidualReader<'a, f32>,
    recordings: [ResidualRecording<f32>; 2],
    logits: Array2<f32>,
}

impl<'a> RecordedTexts<'a> {
    fn record(reader: ResidualReader<'a, f32>, embedded: [Array2<f32>; 2]) -> Result<Self> {
        let [text, other] = embedded.map(|x| reader.record(x));
        let recordings = [text?, other?];
        let [first, second] = recordings.each_ref().map(|recording| reader.logits(recording));
        let logits = ndarray::concatenate(Axis(0), &[first?.view(), second?.view()]).expect("as many answers");
        Ok(RecordedTexts { reader, recordings, logits })
    }

    /// Patches every site, and normalizes the difference of logits that follows.
    fn patch(
        &self,
        texts: PatchedTexts<'_>,
        aligned: Vec<[usize; 2]>,
        compared: &ComparedLogits,
        answers: [LabelProbability; 2],
        label: impl Fn(usize) -> String,
    ) -> Result<Patching> {
        let differences = LogitDifferences::new(compared, &self.logits)?;
        let [text, other] = &self.recordings;
        let sites = self.reader.patch([text, other], &aligned, |logits| differences.effect(logits))?;
        let PatchedTexts { other, tokens: [tokens, other_tokens] } = texts;
        Ok(Patching {
            other: other.to_row(),
            tokens,
            other_tokens,
            aligned,
            answers,
            toward: label(compared.toward),
            away: compared.away.map(label),
            position: None,
            differences: [differences.text as f32, differences.other as f32],
            residual: sites.residual.concat(),
            heads: sites.heads.concat(),
            feed_forward: sites.feed_forward.concat(),
            decoder: None,
        })
    }
}

/// The differences of logits of both texts, which normalize those after patching.
struct LogitDifferences<'a> {
    compared: &'a ComparedLogits,
    text: f64,
    other: f64,
}

impl<'a> LogitDifferences<'a> {
    /// # Errors
    /// If the texts have the same difference of logits.
    fn new(compared: &'a ComparedLogits, logits: &Array2<f32>) -> Result<Self> {
        let [text, other] = [0, 1].map(|row| compared.difference(logits.row(row)));
        let change = other - text;
        if change.is_nan() || change.abs() <= SMALLEST_DIFFERENCE {
            return Err(Error::Setting(tr!(
                "patching: the network answers both texts alike (a difference of logits of {text:.4} and {other:.4}), so no \
                 place in it can move the answer; give a text with another answer",
                "パッチング: 2 つのテキストへのネットワークの答えが同じため（ロジットの差は {text:.4} と {other:.4}）、答えを動かす場所が\
                 ありません。答えの異なるテキストを指定してください"
            )));
        }
        Ok(LogitDifferences { compared, text, other })
    }

    /// Returns 0 for the logits of the text, and 1 for those of the other text.
    fn effect(&self, logits: ArrayView1<'_, f32>) -> f32 {
        ((self.compared.difference(logits) - self.text) / (self.other - self.text)) as f32
    }
}

/// Lists tokens with their positions, from 1.
fn list_tokens(tokens: &[String]) -> String {
    let mut list: Vec<String> =
        tokens.iter().take(LISTED_TOKENS).enumerate().map(|(i, token)| format!("{} {token}", i + 1)).collect();
    if tokens.len() > LISTED_TOKENS {
        list.push("…".to_owned());
    }
    list.join(", ")
}

impl TextClassifier {
    /// Patches every site of the network that reads `text` with the values of `other`, and returns how far the answer
    /// moves toward that of `other`. `aligned` has pairs of token positions, from 0, of the text and of the other text.
    /// Texts with the same number of tokens are aligned by position.
    ///
    /// `label` names the label of a multi-label model, or the threshold of a number; by default the one that
    /// [`TextClassifier::explain`] explains. Long texts are truncated to one window.
    ///
    /// # Errors
    /// If a text is empty or cannot be tokenized, or the network is recurrent. If the texts have different numbers of
    /// tokens and no alignment, a position or label does not exist, or the answers do not differ.
    pub fn patch(
        &self,
        text: impl AsRow,
        other: impl AsRow,
        label: Option<&str>,
        aligned: Option<&[[usize; 2]]>,
    ) -> Result<Patching> {
        self.patch_rows([text.as_row(), other.as_row().without_values()], label, aligned)
    }

    fn patch_rows(
        &self,
        [text, other]: [RowRef<'_>; 2],
        label: Option<&str>,
        aligned: Option<&[[usize; 2]]>,
    ) -> Result<Patching> {
        let Some(reader) = self.model.residual_reader(&self.params) else {
            return Err(Error::Setting(tr!(
                "patching: only for transformers; this model is a recurrent network",
                "パッチング: トランスフォーマーで使えます。このモデルは再帰型ネットワークです"
            )));
        };
        require_text(text)?;
        require_other_text(other)?;
        let read = |text| FramedText::read(text, &self.tokenizer, self.config.max_tokens());
        let ids = [read(text)?.ids, read(other)?.ids];
        let tokens = ids.each_ref().map(|ids| ids.iter().map(|&id| self.tokenizer.token(id)).collect());
        let texts = PatchedTexts { other, tokens };
        let positions = texts.positions(aligned)?;
        let [first, second] = ids.each_ref().map(|ids| self.model.embed(&self.params, ids));
        let recorded = RecordedTexts::record(reader, [first?, second?])?;
        let logits = &recorded.logits;
        let (labels, target) = (&self.config.labels, &self.config.target);
        let answer = |row: usize, class: usize| {
            let probabilities = answer_probabilities(&logits.row(row).to_vec(), target.is_one_class());
            LabelProbability { label: labels[class].clone(), probability: probabilities[class] }
        };
        let (compared, answers) = if target.is_one_class() {
            let classes = [0, 1].map(|row| best(logits.row(row)));
            (ComparedLogits::between(logits), [answer(0, classes[0]), answer(1, classes[1])])
        } else {
            let class = match label {
                // The threshold of a number is named like a label.
                Some(label) => match labels.iter().position(|known| known == label) {
                    Some(class) => class,
                    None => target.label_to_explain(labels, label)?,
                },
                None => target.class_to_explain(&self.predict(&[text])?.remove(0)),
            };
            (ComparedLogits { toward: class, away: None }, [answer(0, class), answer(1, class)])
        };
        recorded.patch(texts, positions, &compared, answers, |class| labels[class].clone())
    }
}

impl TextGenerator {
    /// Patches every site of the network that reads `text` with the values of `other`, like [`TextClassifier::patch`].
    /// Returns how far the next token moves toward that of `other`.
    ///
    /// Texts longer than the context are truncated at their start.
    ///
    /// # Errors
    /// If a text is empty or cannot be tokenized. If the texts have different numbers of tokens and no alignment, a
    /// position does not exist, or the next tokens do not differ.
    pub fn patch(&self, text: &str, other: &str, aligned: Option<&[[usize; 2]]>) -> Result<Patching> {
        require_text(text)?;
        require_other_text(other)?;
        let limit = self.config.model.max_length;
        let read = |text: &str| -> Result<Vec<u32>> {
            let ids = self.encode_prompt(text)?;
            Ok(ids[ids.len().saturating_sub(limit)..].to_vec())
        };
        let ids = [read(text)?, read(other)?];
        let tokens = ids.each_ref().map(|ids| ids.iter().map(|&id| self.tokenizer.token(id)).collect());
        let texts = PatchedTexts { other: other.as_row(), tokens };
        let positions = texts.positions(aligned)?;
        let [first, second] = ids.each_ref().map(|ids| self.model.embed(&self.params, ids));
        let mut recorded = RecordedTexts::record(self.model.next_token_reader(&self.params), [first?, second?])?;
        // The unknown token is never generated.
        if let Some(id) = self.tokenizer.unknown_id() {
            recorded.logits.column_mut(id as usize).fill(f32::MIN);
        }
        let logits = &recorded.logits;
        let label = |id: usize| self.tokenizer.token(id as u32);
        let answers = [0, 1].map(|row| {
            let id = best(logits.row(row));
            LabelProbability { label: label(id), probability: log_softmax(&logits.row(row).to_vec())[id].exp() }
        });
        let compared = ComparedLogits::between(logits);
        recorded.patch(texts, positions, &compared, answers, label)
    }
}

impl TextTagger {
    /// Patches every site of the network that reads `text` with the values of `other`, like [`TextClassifier::patch`].
    /// Returns how far the tag of one word moves toward that of the aligned word in `other`.
    ///
    /// This is the word at `character` of the text, from 0. Without a character, it is the first word that gets another
    /// tag, or else the one whose tags move most. Long texts are truncated to one window.
    ///
    /// # Errors
    /// If a text is empty or cannot be tokenized, or there is no network. If the texts have different numbers of tokens
    /// and no alignment, a position does not exist, no aligned word is there, or its tags do not differ.
    pub fn patch(
        &self,
        text: &str,
        other: &str,
        character: Option<usize>,
        aligned: Option<&[[usize; 2]]>,
    ) -> Result<Patching> {
        let Some(network) = &self.network else {
            return Err(Error::Setting(tr!(
                "patching: only for transformers; this tagger has no network",
                "パッチング: トランスフォーマーで使えます。このモデルは条件付き確率場だけです"
            )));
        };
        require_text(text)?;
        require_other_text(other)?;
        let (model, params) = (&network.model, &network.params);
        let words = [text, other].map(|text| self.config.unit.split(text));
        let window =
            |side: usize| network.first_window([text, other][side], &words[side])?.ok_or_else(empty_text_error);
        let [(first, shown), (second, _)] = [window(0)?, window(1)?];
        let windows = [&first, &second];
        let token_names =
            windows.map(|window| window.ids.iter().map(|&id| network.tokenizer.token(id)).collect::<Vec<_>>());
        let texts = PatchedTexts { other: other.as_row(), tokens: token_names };
        let aligned = texts.positions(aligned)?;

        let units = windows.map(|window| window.units());
        let read = |side: usize| -> Result<_> {
            let reader = model.residual_reader(params, units[side]);
            let recording = reader.record(model.embed(params, windows[side].tokens())?)?;
            let logits = reader.logits(&recording)?;
            Ok((recording, logits))
        };
        let [(recording, logits), (other_recording, other_logits)] = [read(0)?, read(1)?];
        // Words whose tokens are aligned, and that start at the same place in them.
        let counterpart = |word: usize| -> Option<[usize; 2]> {
            let (token, place) = (units[0].tokens[word], units[0].positions[word]);
            let of_other = aligned.iter().find(|pair| pair[0] == token)?[1];
            let mut others = units[1].tokens.iter().zip(units[1].positions);
            Some([word, others.position(|(&token, &at)| token == of_other && at == place)?])
        };
        let of_both = |[word, other]: [usize; 2]| {
            ndarray::stack(Axis(0), &[logits.row(word), other_logits.row(other)]).expect("as many tags")
        };
        let pairs: Vec<[usize; 2]> = (0..units[0].tokens.len()).filter_map(counterpart).collect();
        let compared_word = match character {
            Some(character) => {
                let byte = CharacterOffsets::new(text).byte(character);
                pairs.iter().find(|[word, _]| words[0][shown.start + word].contains(&byte))
            }
            None => {
                let change = |&pair: &[usize; 2]| {
                    let logits = of_both(pair);
                    let compared = ComparedLogits::between(&logits);
                    (compared.difference(logits.row(1)) - compared.difference(logits.row(0))).abs()
                };
                let differs = |&&[word, other]: &&[usize; 2]| best(logits.row(word)) != best(other_logits.row(other));
                pairs.iter().find(differs).or_else(|| pairs.iter().max_by(|a, b| change(a).total_cmp(&change(b))))
            }
        };
        let Some(&[word, other_word]) = compared_word else {
            return Err(Error::Setting(tr!(
                "patching: expected a word whose first token is aligned with that of a word in the other text, found none",
                "パッチング: 最初のトークンが、もう一方のテキストの語の最初のトークンと対応する語が必要ですが、見つかりません"
            )));
        };
        let logits = of_both([word, other_word]);
        let answers = [0, 1].map(|row| {
            let probabilities = answer_probabilities(&logits.row(row).to_vec(), true);
            let tag = best(logits.row(row));
            LabelProbability { label: self.tag_name(tag), probability: probabilities[tag] }
        });
        let unit = TaggedUnits { tokens: &units[0].tokens[word..=word], positions: &units[0].positions[word..=word] };
        let reader = model.residual_reader(params, unit);
        let compared = ComparedLogits::between(&logits);
        let recorded = RecordedTexts { reader, recordings: [recording, other_recording], logits };
        let found = recorded.patch(texts, aligned, &compared, answers, |tag| self.tag_name(tag))?;
        let index = shown.start + word;
        let position = AnswerPosition::Word { index, text: text[words[0][index].clone()].to_owned() };
        Ok(Patching { position: Some(position), ..found })
    }
}

impl TextTranslator {
    /// Patches every site of the encoder that reads `source` with the values of `other`, like [`TextClassifier::patch`].
    /// Returns how far the translation moves toward that of `other`.
    ///
    /// The measure is the difference of logits of the first token that differs between both translations, given the
    /// tokens before it. `target` is the translation of `source`, by default the model's own. Then patches every site of
    /// the decoder, which reads these tokens, with its values for `other`.
    ///
    /// # Errors
    /// If a text is empty or cannot be tokenized, or the target is longer than the model's limit. If the sources have
    /// different numbers of tokens and no alignment, a position does not exist, or the translations do not differ.
    pub fn patch(
        &self,
        source: &str,
        other: &str,
        target: Option<&str>,
        aligned: Option<&[[usize; 2]]>,
    ) -> Result<Patching> {
        require_text(source)?;
        require_other_text(other)?;
        let ids = [self.encode_source(source)?.0, self.encode_source(other)?.0];
        let tokens = ids.each_ref().map(|ids| {
            let (_, words) = ids.split_last().expect("a source has an end token");
            let names = words.iter().map(|&id| self.tokenizers.source().token(id));
            names.chain([END_NAME.to_owned()]).collect()
        });
        let texts = PatchedTexts { other: other.as_row(), tokens };
        let positions = texts.positions(aligned)?;
        let [start, end] = self.start_and_end_tokens();
        let translated = |source: &str, target: Option<&str>| -> Result<Vec<u32>> {
            let ids = match target {
                Some(target) => self.tokenizers.target.encode(target)?.ids,
                None => {
                    let found = self.translate(&[source], &TranslateOptions::default())?.pop();
                    found.and_then(|found| Some(found.hypotheses.into_iter().next()?.1.ids)).unwrap_or_default()
                }
            };
            let limit = self.config.model.max_length - 1;
            match ids.len() > limit {
                true => Err(chumoku_nn::Error::TooLong { limit, found: ids.len() }.into()),
                false => Ok([&ids[..], &[end]].concat()),
            }
        };
        let targets = [translated(source, target)?, translated(other, None)?];
        let Some(index) = targets[0].iter().zip(&targets[1]).position(|(token, other)| token != other) else {
            return Err(Error::Setting(match target {
                None => tr!(
                    "patching: both texts get the same translation, so no place can change it; give a text with another \
                     translation",
                    "パッチング: 2 つのテキストの訳が同じため、訳を変える場所がありません。訳の異なるテキストを指定してください"
                ),
                Some(_) => tr!(
                    "patching: the model translates the other text as the given translation (the target), so no place can change \
                     it; give another translation, or a text with another translation",
                    "パッチング: もう一方のテキストの訳が、指定した訳文（target）と同じため、訳を変える場所がありません。別の訳文か、訳の\
                     異なるテキストを指定してください"
                ),
            }));
        };
        let before = &targets[0][..index];
        let prefix = [&[start], before].concat();
        let embed = |ids: &[u32]| self.model.embed_source(&self.params, ids, &Offsets::from_lengths([ids.len()]));
        let reader = self.model.next_token_reader(&self.params, &prefix);
        let recorded = RecordedTexts::record(reader, [embed(&ids[0])?, embed(&ids[1])?])?;
        let written = targets.each_ref().map(|target| target[index] as usize);
        let answers = [0, 1].map(|side| {
            let log_p = log_softmax(&recorded.logits.row(side).to_vec());
            let id = written[side];
            LabelProbability { label: self.target_token_name(id), probability: log_p[id].exp() }
        });
        let compared = ComparedLogits { toward: written[1], away: Some(written[0]) };
        let found = recorded.patch(texts, positions, &compared, answers, |id| self.target_token_name(id))?;
        let position = AnswerPosition::Token { index, after: self.tokenizers.target.decode(before)? };
        let differences = LogitDifferences::new(&compared, &recorded.logits)?;
        let decoder = self.patch_decoder(ids.each_ref().map(Vec::as_slice), &prefix, &differences)?;
        Ok(Patching { position: Some(position), decoder: Some(decoder), ..found })
    }

    /// Patches every site of the decoder that attends to the first source with its values for the second. It reads the
    /// same tokens for both, so that positions correspond.
    fn patch_decoder(
        &self,
        sources: [&[u32]; 2],
        prefix: &[u32],
        differences: &LogitDifferences<'_>,
    ) -> Result<DecoderPatching> {
        let (model, params) = (&self.model, &self.params);
        let one = |ids: &[u32]| Offsets::from_lengths([ids.len()]);
        let read = |source: &[u32]| -> Result<_> {
            let reader = model.next_token_decoder_reader(params, model.encode(params, source, &one(source))?);
            let recording = reader.record(model.embed_target(params, prefix, &one(prefix))?)?;
            Ok((reader, recording))
        };
        let [(reader, text), (_, other)] = [read(sources[0])?, read(sources[1])?];
        let positions: Vec<[usize; 2]> = (0..prefix.len()).map(|i| [i, i]).collect();
        let sites = reader.patch([&text, &other], &positions, |logits| differences.effect(logits))?;
        let names = prefix[1..].iter().map(|&id| self.target_token_name(id as usize));
        Ok(DecoderPatching {
            tokens: std::iter::once(START_NAME.to_owned()).chain(names).collect(),
            residual: sites.residual.concat(),
            heads: sites.heads.concat(),
            cross_heads: sites.cross_heads.concat(),
            feed_forward: sites.feed_forward.concat(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::PatchedSite;

    fn texts(text: &[&str], other: &[&str]) -> PatchedTexts<'static> {
        let owned = |tokens: &[&str]| tokens.iter().map(|&token| token.to_owned()).collect();
        PatchedTexts { other: "other".as_row(), tokens: [owned(text), owned(other)] }
    }

    #[test]
    fn texts_of_different_lengths_need_an_alignment_and_the_error_proposes_one() {
        let texts = texts(&["[CLS]", "not", "good", "."], &["[CLS]", "very", "very", "good", "."]);
        let problem = texts.positions(None).unwrap_err().to_string();
        assert!(problem.contains("--align 1:1,3-4:4-5"), "{problem}");
        assert!(problem.contains("1 [CLS], 2 not, 3 good, 4 .") && problem.contains("3 very, 4 good"), "{problem}");
        assert_eq!(texts.positions(Some(&[[0, 0], [2, 3]])).unwrap(), [[0, 0], [2, 3]]);
        for wrong in [[[0, 0], [4, 3]], [[0, 0], [1, 5]], [[0, 0], [0, 1]]] {
            texts.positions(Some(&wrong)).unwrap_err();
        }
    }

    #[test]
    fn an_empty_other_text_is_named() {
        for empty in ["", " \t"] {
            let problem = require_other_text(empty).unwrap_err().to_string();
            assert!(problem.contains("the other text is empty"), "{problem}");
        }
        require_other_text("a").unwrap();
    }

    #[test]
    fn texts_with_as_many_tokens_are_aligned_by_position() {
        let texts = texts(&["a", "b"], &["c", "d"]);
        assert_eq!(texts.positions(None).unwrap(), [[0, 0], [1, 1]]);
    }

    #[test]
    fn movement_is_zero_for_the_text_and_one_for_the_other() {
        let unpatched = ndarray::array![[2.0f32, 0.0, 1.0], [-1.0, 0.5, 4.0]];
        let compared = ComparedLogits::between(&unpatched);
        assert_eq!((compared.toward, compared.away), (2, Some(0)));
        let differences = LogitDifferences::new(&compared, &unpatched).unwrap();
        let moved =
            |rows: &Array2<f32>| rows.outer_iter().map(|logits| differences.effect(logits)).collect::<Vec<f32>>();
        let answer = LabelProbability { label: String::new(), probability: 0.5 };
        let [tokens, other_tokens] = [["a", "b"], ["c", "d"]].map(|tokens| tokens.map(str::to_owned).to_vec());
        let patching = Patching {
            other: "other".into(),
            tokens,
            other_tokens,
            aligned: vec![[0, 0], [1, 1]],
            answers: [answer.clone(), answer],
            toward: "2".into(),
            away: Some("0".into()),
            position: None,
            differences: [differences.text as f32, differences.other as f32],
            residual: [moved(&unpatched), moved(&ndarray::array![[0.5f32, 9.0, 2.5], [2.0, 0.0, 1.0]])].concat(),
            heads: moved(&ndarray::array![[2.0f32, 5.0, 0.0]]),
            feed_forward: moved(&unpatched),
            decoder: None,
        };
        assert_eq!((patching.differences, patching.residual.as_slice()), ([-1.0, 5.0], &[0.0, 1.0, 0.5, 0.0][..]));
        // −1 becomes −2, and the other text has 5.
        assert_eq!(patching.heads, [-1.0 / 6.0]);
        assert_eq!((patching.sites().layers(), patching.sites().heads_per_layer()), (1, 1));
        assert!(patching.is_consistent(1, 1) && !patching.is_consistent(2, 1));
        assert_eq!(patching.sites().strongest(1), [PatchedSite::FeedForward { layer: 0, position: 1 }]);
        assert!(!patching.has_small_difference());
        let close = Patching { differences: [1.0, 1.09], ..patching };
        assert!(close.has_small_difference());
    }

    #[test]
    fn the_same_answer_twice_is_compared_with_the_one_that_changes_most() {
        let compared = ComparedLogits::between(&ndarray::array![[3.0f32, 0.0, 1.0], [3.0, 2.0, 1.5]]);
        assert_eq!((compared.toward, compared.away), (1, Some(0)));
        // The last answer loses 3 on the first, and the second gains 2.
        let compared = ComparedLogits::between(&ndarray::array![[3.0f32, 0.0, 1.0], [4.0, 3.0, -1.0]]);
        assert_eq!((compared.toward, compared.away), (2, Some(0)));
    }
}
