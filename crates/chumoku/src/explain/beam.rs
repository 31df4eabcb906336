//! The tree of a beam search: every token that was considered at each step, and what became of it.

use crate::decoding::{BeamCandidate, BeamSearch, CandidateFate, NextTokenModel};
use crate::nn::Offsets;
use crate::text::TextTokenizer;
use crate::{Error, Result, TextGenerator, TextTranslator, TranslateOptions, sorting, tr};
use ndarray::Array2;
use serde::Serialize;

/// Tokens that a language model may go on by.
const MAX_STEPS: usize = 256;

/// Every token that a beam search considered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BeamTree {
    /// What the model is called.
    pub model: String,
    /// The text that was translated, or gone on from.
    pub text: String,
    /// Hypotheses that were followed at a time.
    pub beam: usize,
    /// α of the length normalisation.
    pub length_penalty: f64,
    /// The tokens, step by step, of each step those with the highest sums first.
    pub nodes: Vec<BeamNode>,
    /// What was found, the best first.
    pub found: Vec<BeamResult>,
}

/// A token that was considered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BeamNode {
    /// The token before it, as a place in [`BeamTree::nodes`]; none at the first step.
    pub parent: Option<usize>,
    /// The step, from 1.
    pub step: usize,
    /// The token.
    pub token: String,
    /// Its probability after those before it.
    pub probability: f64,
    /// ln p of all tokens up to it.
    pub log_probability: f64,
    /// What became of it.
    pub fate: CandidateFate,
    /// What a hypothesis that ended is ranked by: its ln p by the length penalty.
    pub score: Option<f64>,
}

/// A text that a search found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BeamResult {
    /// Where it ended, as a place in [`BeamTree::nodes`].
    pub node: usize,
    /// The text; of a language model what comes after the text that was given.
    pub text: String,
    /// ln p of its tokens.
    pub log_probability: f64,
    /// What it is ranked by.
    pub score: f64,
}

/// Steps of a search, as they come, become a tree.
struct BeamTreeBuilder<'a> {
    tokenizer: &'a TextTokenizer,
    end: u32,
    /// Of the hypotheses that are followed the last node.
    live: Vec<Option<usize>>,
    /// Each node's token.
    ids: Vec<u32>,
    nodes: Vec<BeamNode>,
}

impl BeamTreeBuilder<'_> {
    fn add_step(&mut self, considered: &[BeamCandidate]) {
        let step = self.live.iter().flatten().next().map_or(1, |&node| self.nodes[node].step + 1);
        let mut live = Vec::new();
        for one in considered {
            let parent = self.live.get(one.hypothesis).copied().flatten();
            if one.fate == CandidateFate::Followed {
                live.push(Some(self.nodes.len()));
            }
            self.ids.push(one.token);
            self.nodes.push(BeamNode {
                parent,
                step,
                token: if one.token == self.end { "[END]".into() } else { self.tokenizer.token(one.token) },
                probability: one.log_probability.exp(),
                log_probability: one.total_log_probability,
                fate: one.fate,
                score: one.score,
            });
        }
        self.live = live;
    }

    /// The tokens up to a node, without the end.
    fn tokens(&self, node: usize) -> Vec<u32> {
        let mut found = Vec::new();
        let mut next = Some(node);
        while let Some(at) = next {
            found.extend((self.ids[at] != self.end).then_some(self.ids[at]));
            next = self.nodes[at].parent;
        }
        found.reverse();
        found
    }

    fn finish(self, of: (&str, &str), search: &BeamSearch) -> Result<BeamTree> {
        let ended = (0..self.nodes.len()).filter_map(|node| Some((node, self.nodes[node].score?)));
        let mut ended: Vec<(usize, f64)> = ended.collect();
        sorting::sort_by(&mut ended, |a, b| b.1.total_cmp(&a.1));
        ended.truncate(search.beam);
        let found = ended.into_iter().map(|(node, score)| {
            let text = self.tokenizer.decode(&self.tokens(node))?;
            Ok(BeamResult { node, text, log_probability: self.nodes[node].log_probability, score })
        });
        let found = found.collect::<Result<Vec<BeamResult>>>()?;
        Ok(BeamTree {
            model: of.0.into(),
            text: of.1.into(),
            beam: search.beam,
            length_penalty: search.length_penalty,
            nodes: self.nodes,
            found,
        })
    }
}

/// The tree of a search for one text.
fn tree(
    search: &BeamSearch,
    tokenizer: &TextTokenizer,
    limit: usize,
    of: (&str, &str),
    run: impl FnOnce(&[usize], &mut dyn FnMut(&[BeamCandidate])) -> Result<()>,
) -> Result<BeamTree> {
    let end = search.boundary_tokens[1];
    let mut growing = BeamTreeBuilder { tokenizer, end, live: vec![None], ids: Vec::new(), nodes: Vec::new() };
    run(&[limit], &mut |considered| growing.add_step(considered))?;
    growing.finish(of, search)
}

impl TextTranslator {
    /// The tree of the beam search for the translation of `text`; `name` is what the model is called. What it finds is what
    /// [`TextTranslator::translate`] does.
    ///
    /// # Errors
    /// As for [`TextTranslator::translate`].
    pub fn beam_tree(&self, text: &str, name: &str, options: &TranslateOptions) -> Result<BeamTree> {
        let (ids, _) = self.encode_source(text)?;
        let search = self.beam_search(options);
        tree(&search, &self.tokenizers.target, self.max_target_tokens(ids.len()), (name, text), |limits, told| {
            let offsets = Offsets::from_lengths([ids.len()]);
            self.search_observed(&self.params, (&ids[..], &offsets), limits, options, told).map(|_| ())
        })
    }
}

/// A language model that goes on from a text, read anew at each step.
struct ContinuationModel<'a> {
    generator: &'a TextGenerator,
    prompt: &'a [u32],
    sequences: Vec<Vec<u32>>,
    /// Whether a step was taken: the first token is the search's own, and is not read.
    has_begun: bool,
}

impl NextTokenModel for ContinuationModel<'_> {
    fn step(&mut self, ids: &[u32], _: &[usize]) -> chumoku_nn::Result<Array2<f32>> {
        if self.has_begun {
            self.sequences.iter_mut().zip(ids).for_each(|(sequence, &id)| sequence.push(id));
        }
        self.has_begun = true;
        let most = self.generator.config.model.max_length;
        let all: Vec<Vec<u32>> = self.sequences.iter().map(|ids| [self.prompt, ids].concat()).collect();
        let read: Vec<&[u32]> = all.iter().map(|ids| &ids[ids.len().saturating_sub(most)..]).collect();
        let offsets = Offsets::from_lengths(read.iter().map(|ids| ids.len()));
        let mut logits = self.generator.model.next_logits(&self.generator.params, &read.concat(), &offsets)?;
        // A word that is unknown cannot be written.
        self.generator
            .tokenizer
            .unknown_id()
            .into_iter()
            .for_each(|id| logits.column_mut(id as usize).fill(f32::NEG_INFINITY));
        Ok(logits)
    }

    fn select(&mut self, sequences: &[usize], _: &[usize]) -> chumoku_nn::Result<()> {
        self.sequences = sequences.iter().map(|&s| self.sequences[s].clone()).collect();
        Ok(())
    }
}

impl TextGenerator {
    /// The tree of a beam search for what comes after `text`, of at most `steps` tokens; `name` is what the model is called.
    ///
    /// # Errors
    /// If the beam is 0 or wider than the vocabulary, `steps` is 0 or above 256, or the text cannot be read as tokens.
    pub fn beam_tree(&self, text: &str, name: &str, options: &TranslateOptions, steps: usize) -> Result<BeamTree> {
        if steps == 0 || steps > MAX_STEPS {
            return Err(Error::Setting(tr!(
                "steps: expected 1 to {MAX_STEPS}, found {steps}",
                "ステップ数: 1 から {MAX_STEPS} までですが、{steps} です"
            )));
        }
        let prompt = self.encode_prompt(text)?;
        let bounds = [self.start_token(), self.end_token()];
        let search = BeamSearch { beam: options.beam, length_penalty: options.length_penalty, boundary_tokens: bounds };
        tree(&search, &self.tokenizer, steps, (name, text), |limits, told| {
            let mut model =
                ContinuationModel { generator: self, prompt: &prompt, sequences: vec![Vec::new()], has_begun: false };
            search.search_observed(&mut model, limits, &mut |_, considered| told(considered))?;
            Ok(())
        })
    }
}
