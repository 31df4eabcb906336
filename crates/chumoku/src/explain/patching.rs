//! The result of activation patching: how far the answer moves at each site.

use super::label_probability::LabelProbability;
use crate::lang::lang;
use crate::sorting::argsort_descending;
use crate::tr;
use serde::{Deserialize, Serialize};

/// A limit on aligned tokens and their positions. It bounds the memory that a short request takes.
const MAX_ALIGNED: usize = 1 << 14;

/// The largest difference of logits that is small. It changes a probability by at most 2.5 points.
const SMALL_DIFFERENCE: f32 = 0.1;

/// The place at which the compared answers are read, for models that answer more than once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerPosition {
    /// A word of the text, whose tags are compared.
    Word {
        /// Its index in the text, from 0.
        index: usize,
        /// The word.
        text: String,
    },
    /// The first token that differs between the translations of both texts.
    Token {
        /// Its index in the translations, from 0.
        index: usize,
        /// The translation before it, which both have in common.
        after: String,
    },
}

/// The change of the answer when each site of the network has the values of another text.
///
/// Each number is `(d − d_text) / (d_other − d_text)` for a difference of logits d. It is 0 if the answer is unchanged,
/// and 1 if it is that of the other text. It may be below 0 or above 1. For ensembles, this is the answer of the
/// network alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Patching {
    /// The other text.
    pub other: String,
    /// The tokens of the text, as in [`Explanation::pieces`](super::Explanation::pieces).
    pub tokens: Vec<String>,
    /// The tokens of the other text.
    pub other_tokens: Vec<String>,
    /// The positions that are patched, from 0: that of the text, and that of the other text.
    pub aligned: Vec<[usize; 2]>,
    /// The network's most probable answer to each text, with its probability.
    pub answers: [LabelProbability; 2],
    /// The answer whose logit counts positively: that of the other text. If both texts get the same answer, this is the one
    /// whose distance to it changes most.
    pub toward: String,
    /// The answer whose logit is subtracted: that of the text. `None` for labels and numbers, which have a logit each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away: Option<String>,
    /// The place at which the answers are read. `None` for models with one answer to a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<AnswerPosition>,
    /// The difference of logits for the text and for the other text, without patching.
    pub differences: [f32; 2],
    /// The residual stream at each position, before each layer and after the last: (layers + 1, positions).
    pub residual: Vec<f32>,
    /// The output of each head at all positions together: (layers, heads).
    pub heads: Vec<f32>,
    /// The output of the feed-forward network at each position: (layers, positions).
    pub feed_forward: Vec<f32>,
}

/// The kind of site with its numbers, for lists of the strongest sites.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PatchedSite {
    /// The residual stream before a layer, or after the last one, at a position.
    Residual {
        /// The number of layers that ran before.
        depth: usize,
        /// The index in [`Patching::aligned`].
        position: usize,
    },
    /// The output of a head.
    Head {
        /// The layer, from 0.
        layer: usize,
        /// The head, from 0.
        head: usize,
    },
    /// The output of a feed-forward network at a position.
    FeedForward {
        /// The layer, from 0.
        layer: usize,
        /// The index in [`Patching::aligned`].
        position: usize,
    },
}

/// Reads the aligned tokens of two texts, such as `1-4:1-4,6:7`. They count from 1 in the list, and from 0 in
/// the returned pairs.
///
/// # Errors
/// If the list has another form, or a range has more tokens than the other.
pub fn parse_aligned_tokens(list: &str) -> Result<Vec<[usize; 2]>, String> {
    let range = |text: &str| {
        let (first, last) = text.trim().split_once('-').unwrap_or((text.trim(), text.trim()));
        let [first, last] =
            [first, last].map(|number| number.parse::<usize>().ok().filter(|n| (1..MAX_ALIGNED).contains(n)));
        first.zip(last).filter(|(first, last)| first <= last).map(|(first, last)| first - 1..last)
    };
    let mut pairs = Vec::new();
    for part in list.split(',') {
        let both = part.split_once(':').and_then(|(text, other)| range(text).zip(range(other)));
        let Some((text, other)) =
            both.filter(|(text, other)| text.len() == other.len() && pairs.len() + text.len() <= MAX_ALIGNED)
        else {
            let found = if part.trim().is_empty() { lang().pick("nothing", "（空）") } else { part };
            return Err(tr!(
                "expected tokens of the text and as many of the other text, counted from 1, such as 1-4:1-4 or 6:7, found {found}",
                "テキストのトークンと、それと同じ数のもう一方のトークンを 1-4:1-4 や 6:7 のように（1 から）指定してください: {found}"
            ));
        };
        pairs.extend(text.zip(other).map(|(text, other)| [text, other]));
    }
    Ok(pairs)
}

impl Patching {
    /// Returns the effect of patching a site.
    ///
    /// # Panics
    /// If there is no such site.
    #[must_use]
    pub fn effect(&self, site: PatchedSite) -> f32 {
        match site {
            PatchedSite::Residual { depth, position } => self.residual[depth * self.aligned.len() + position],
            PatchedSite::Head { layer, head } => self.heads[layer * self.heads_per_layer() + head],
            PatchedSite::FeedForward { layer, position } => self.feed_forward[layer * self.aligned.len() + position],
        }
    }

    /// Returns true if the network gives both texts the same answer. Labels and numbers have no other answer.
    #[must_use]
    pub fn has_same_answer(&self) -> bool {
        self.away.is_some() && self.answers[0].label == self.answers[1].label
    }

    /// Returns true if the texts differ so little that a share of their difference means little.
    #[must_use]
    pub fn has_small_difference(&self) -> bool {
        let [text, other] = self.differences;
        (other - text).abs() < SMALL_DIFFERENCE
    }

    /// Returns the number of layers.
    #[must_use]
    pub fn layers(&self) -> usize {
        self.feed_forward.len() / self.aligned.len().max(1)
    }

    /// Returns the number of heads in each layer.
    #[must_use]
    pub fn heads_per_layer(&self) -> usize {
        self.heads.len() / self.layers().max(1)
    }

    /// Returns the heads and the positions of feed-forward networks that move the answer most toward the other text,
    /// strongest first.
    #[must_use]
    pub fn strongest(&self, count: usize) -> Vec<PatchedSite> {
        let (heads, positions) = (self.heads_per_layer(), self.aligned.len());
        let all: Vec<f32> = self.heads.iter().chain(&self.feed_forward).copied().collect();
        let site = |index: usize| match index.checked_sub(self.heads.len()) {
            None => PatchedSite::Head { layer: index / heads, head: index % heads },
            Some(index) => PatchedSite::FeedForward { layer: index / positions, position: index % positions },
        };
        argsort_descending(&all).into_iter().take(count).map(site).collect()
    }

    /// Checks the lengths of all lists against each other.
    pub(super) fn has_consistent_lists(&self) -> bool {
        self.is_consistent(self.layers(), self.heads_per_layer())
    }

    /// Checks the lengths of all lists against the shape of the model.
    pub(super) fn is_consistent(&self, layers: usize, heads: usize) -> bool {
        let positions = self.aligned.len();
        let counts = [self.tokens.len(), self.other_tokens.len()];
        let is_there = |pair: &[usize; 2]| pair.iter().zip(counts).all(|(&at, count)| at < count);
        positions > 0
            && self.residual.len() == (layers + 1) * positions
            && self.heads.len() == layers * heads
            && self.feed_forward.len() == layers * positions
            && self.aligned.iter().all(is_there)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_tokens_count_from_one_and_match_in_number() {
        assert_eq!(parse_aligned_tokens("1-2:2-3, 7:7").unwrap(), [[0, 1], [1, 2], [6, 6]]);
        let wrong = ["", "1", "0:1", "2-1:2-1", "1-2:1", "1:1,", "a:b", "1-9999999999:1-9999999999"];
        for list in wrong {
            assert!(parse_aligned_tokens(list).unwrap_err().contains("such as 1-4:1-4"), "{list}");
        }
        // Long ranges are refused before there are too many pairs.
        assert_eq!(parse_aligned_tokens("1-10000:1-10000").unwrap().len(), 10_000);
        assert!(parse_aligned_tokens(&["1-10000:1-10000"; 2].join(",")).is_err());
        assert!(parse_aligned_tokens("1-20000:1-20000").is_err());
    }
}
