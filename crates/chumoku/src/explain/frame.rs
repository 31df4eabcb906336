//! Attention to one text at one time of training, as `train` records it and a film shows it.

use crate::tr;
use serde::{Deserialize, Serialize};

/// The attention to one text at one time of training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// Steps taken before.
    pub step: u64,
    /// Epochs done before.
    pub epoch: u64,
    /// The words that look, and those that are looked at.
    pub words: [Vec<String>; 2],
    /// Number of layers.
    pub layers: usize,
    /// Heads of a layer.
    pub heads: usize,
    /// Whether a word sees none of those after it.
    pub causal: bool,
    /// (layers, heads, words that look, words that are looked at).
    pub attention: Vec<f32>,
}

/// The key of a line of `log.jsonl` that holds a frame.
pub(crate) const WATCHED: &str = "watched";

impl Frame {
    pub(crate) fn size(&self) -> usize {
        self.words[0].len() * self.words[1].len()
    }

    /// Its fields, each number with the digits it has.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let mut value = serde_json::to_value(Frame { attention: Vec::new(), ..self.clone() }).expect("plain data");
        value["attention"] = self.attention.iter().map(|&x| super::json::number(x)).collect();
        value
    }

    /// Whether numbers and words fit together.
    pub(crate) fn check(&self) -> Result<(), String> {
        let expected = self.layers.checked_mul(self.heads).and_then(|m| m.checked_mul(self.size()));
        if expected != Some(self.attention.len()) || self.attention.is_empty() {
            return Err(tr!(
                "{} layers, {} heads and {} by {} words do not fit {} weights",
                "{} 層、{} ヘッド、{}×{} 語に対して、重みの数 {} が合いません",
                self.layers,
                self.heads,
                self.words[0].len(),
                self.words[1].len(),
                self.attention.len()
            ));
        }
        Ok(())
    }

    /// The weights of a head.
    #[must_use]
    pub fn head(&self, layer: usize, head: usize) -> &[f32] {
        &self.attention[(layer * self.heads + head) * self.size()..][..self.size()]
    }
}
