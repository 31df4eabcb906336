//! The result of activation patching: how far the answer moves at each site.

use super::label_probability::LabelProbability;
use crate::lang::lang;
use crate::row::Row;
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
    pub other: Row,
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
    /// The sites of the decoder. `None` for all models but translators, whose other sites are those of the encoder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoder: Option<DecoderPatching>,
}

/// The change of a translator's answer when each site of its decoder has the values for the other text.
///
/// The decoder reads the same tokens for both texts, and attends to the one or the other. The numbers are on the scale
/// of [`Patching`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecoderPatching {
    /// The tokens that the decoder reads: its start token, and the translation before the first difference.
    pub tokens: Vec<String>,
    /// The residual stream at each token, before each layer and after the last: (layers + 1, tokens).
    pub residual: Vec<f32>,
    /// The output of each head of self-attention at all tokens together: (layers, heads).
    pub heads: Vec<f32>,
    /// The output of each head of cross-attention at all tokens together: (layers, heads).
    pub cross_heads: Vec<f32>,
    /// The output of the feed-forward network at each token: (layers, tokens).
    pub feed_forward: Vec<f32>,
}

/// The effects of patching the sites of one stack of layers. The arrays are those of [`Patching`] or
/// [`DecoderPatching`].
#[derive(Clone, Copy, Debug)]
pub struct SiteEffects<'a> {
    /// The number of patched positions.
    pub positions: usize,
    /// The residual stream: (layers + 1, positions).
    pub residual: &'a [f32],
    /// The heads of self-attention: (layers, heads).
    pub heads: &'a [f32],
    /// The heads of cross-attention: (layers, heads). Empty without cross-attention.
    pub cross_heads: &'a [f32],
    /// The feed-forward networks: (layers, positions).
    pub feed_forward: &'a [f32],
}

/// The kind of site with its numbers, for lists of the strongest sites.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PatchedSite {
    /// The residual stream before a layer, or after the last one, at a position.
    Residual {
        /// The number of layers that ran before.
        depth: usize,
        /// The index of the patched position.
        position: usize,
    },
    /// The output of a head of self-attention.
    Head {
        /// The layer, from 0.
        layer: usize,
        /// The head, from 0.
        head: usize,
    },
    /// The output of a head of cross-attention.
    CrossHead {
        /// The layer, from 0.
        layer: usize,
        /// The head, from 0.
        head: usize,
    },
    /// The output of a feed-forward network at a position.
    FeedForward {
        /// The layer, from 0.
        layer: usize,
        /// The index of the patched position.
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

impl SiteEffects<'_> {
    /// Returns the effect of patching a site.
    ///
    /// # Panics
    /// If there is no such site.
    #[must_use]
    pub fn effect(&self, site: PatchedSite) -> f32 {
        let of_head = |layer: usize, head: usize| layer * self.heads_per_layer() + head;
        match site {
            PatchedSite::Residual { depth, position } => self.residual[depth * self.positions + position],
            PatchedSite::Head { layer, head } => self.heads[of_head(layer, head)],
            PatchedSite::CrossHead { layer, head } => self.cross_heads[of_head(layer, head)],
            PatchedSite::FeedForward { layer, position } => self.feed_forward[layer * self.positions + position],
        }
    }

    /// Returns the number of layers.
    #[must_use]
    pub fn layers(&self) -> usize {
        self.feed_forward.len() / self.positions.max(1)
    }

    /// Returns the number of heads of each attention.
    #[must_use]
    pub fn heads_per_layer(&self) -> usize {
        self.heads.len() / self.layers().max(1)
    }

    /// Returns the heads and the positions of feed-forward networks that move the answer most toward the other text,
    /// strongest first.
    #[must_use]
    pub fn strongest(&self, count: usize) -> Vec<PatchedSite> {
        let in_row = |values: &[f32], width: usize| {
            (0..values.len()).map(move |index| [index / width, index % width]).collect::<Vec<_>>()
        };
        let heads = |values: &[f32]| in_row(values, self.heads_per_layer());
        let of_self = heads(self.heads).into_iter().map(|[layer, head]| PatchedSite::Head { layer, head });
        let of_cross = heads(self.cross_heads).into_iter().map(|[layer, head]| PatchedSite::CrossHead { layer, head });
        let networks = in_row(self.feed_forward, self.positions).into_iter();
        let networks = networks.map(|[layer, position]| PatchedSite::FeedForward { layer, position });
        let sites: Vec<PatchedSite> = of_self.chain(of_cross).chain(networks).collect();
        let effects: Vec<f32> = sites.iter().map(|&site| self.effect(site)).collect();
        argsort_descending(&effects).into_iter().take(count).map(|index| sites[index]).collect()
    }

    /// Returns the layer and head, from 0, that move the answer most toward the other text: of cross-attention if there
    /// is one. `None` if no head moves it there.
    #[must_use]
    pub(crate) fn strongest_head(&self) -> Option<[usize; 2]> {
        let values = if self.cross_heads.is_empty() { self.heads } else { self.cross_heads };
        let moving = values.iter().enumerate().filter(|(_, x)| x.is_finite() && **x > 0.0);
        let (index, _) = moving.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
        Some([index / self.heads_per_layer(), index % self.heads_per_layer()])
    }

    /// Checks the lengths of all arrays against a number of layers and heads.
    fn is_consistent(&self, layers: usize, heads: usize) -> bool {
        self.positions > 0
            && self.residual.len() == (layers + 1) * self.positions
            && self.heads.len() == layers * heads
            && [0, self.heads.len()].contains(&self.cross_heads.len())
            && self.feed_forward.len() == layers * self.positions
    }
}

impl DecoderPatching {
    /// Returns the effects of all sites.
    #[must_use]
    pub fn sites(&self) -> SiteEffects<'_> {
        SiteEffects {
            positions: self.tokens.len(),
            residual: &self.residual,
            heads: &self.heads,
            cross_heads: &self.cross_heads,
            feed_forward: &self.feed_forward,
        }
    }

    /// Checks the lengths of all lists against each other.
    fn has_consistent_lists(&self) -> bool {
        let sites = self.sites();
        sites.is_consistent(sites.layers(), sites.heads_per_layer()) && sites.cross_heads.len() == sites.heads.len()
    }
}

impl Patching {
    /// Returns the effects of all sites but those of a decoder.
    #[must_use]
    pub fn sites(&self) -> SiteEffects<'_> {
        SiteEffects {
            positions: self.aligned.len(),
            residual: &self.residual,
            heads: &self.heads,
            cross_heads: &[],
            feed_forward: &self.feed_forward,
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

    /// Checks the lengths of all lists against each other.
    pub(super) fn has_consistent_lists(&self) -> bool {
        let sites = self.sites();
        self.is_consistent(sites.layers(), sites.heads_per_layer())
    }

    /// Checks the lengths of all lists against the shape of the model.
    pub(super) fn is_consistent(&self, layers: usize, heads: usize) -> bool {
        let counts = [self.tokens.len(), self.other_tokens.len()];
        let is_there = |pair: &[usize; 2]| pair.iter().zip(counts).all(|(&at, count)| at < count);
        self.sites().is_consistent(layers, heads)
            && self.aligned.iter().all(is_there)
            && self.decoder.as_ref().is_none_or(DecoderPatching::has_consistent_lists)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoder_has_heads_of_two_attentions() {
        let decoder = DecoderPatching {
            tokens: vec!["[START]".into(), "a".into(), "b".into()],
            residual: vec![0.0; 9],
            heads: vec![0.1, 0.4, 0.2, 0.3],
            cross_heads: vec![0.0, 0.7, 0.8, 0.1],
            feed_forward: vec![0.0, 0.1, 0.2, 0.3, 0.75, 0.0],
        };
        let sites = decoder.sites();
        assert_eq!((sites.layers(), sites.heads_per_layer()), (2, 2));
        let strongest = [
            PatchedSite::CrossHead { layer: 1, head: 0 },
            PatchedSite::FeedForward { layer: 1, position: 1 },
            PatchedSite::CrossHead { layer: 0, head: 1 },
            PatchedSite::Head { layer: 0, head: 1 },
        ];
        assert_eq!(sites.strongest(4), strongest);
        assert_eq!(strongest.map(|site| sites.effect(site)), [0.8, 0.75, 0.7, 0.4]);
        assert_eq!(sites.strongest_head(), Some([1, 0]));
        let of_encoder = SiteEffects { cross_heads: &[], ..sites };
        assert_eq!(of_encoder.strongest_head(), Some([0, 1]));
        assert_eq!(SiteEffects { heads: &[-0.1, 0.0, f32::NAN, 0.0], ..of_encoder }.strongest_head(), None);
        assert!(decoder.has_consistent_lists());
        let cut = |change: fn(&mut DecoderPatching)| {
            let mut decoder = decoder.clone();
            change(&mut decoder);
            decoder.has_consistent_lists()
        };
        let changes: [fn(&mut DecoderPatching); 4] = [
            |decoder| decoder.cross_heads.clear(),
            |decoder| decoder.cross_heads.truncate(2),
            |decoder| decoder.tokens.clear(),
            |decoder| decoder.residual.truncate(8),
        ];
        assert_eq!(changes.map(cut), [false; 4]);
    }

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
