//! Attention to one text at one point in training. `train` records it, and a film shows it.

use super::statistics::measure_rows;
use crate::model_folder::{LOG, open_file};
use crate::{Error, Result, tr};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The attention to one text at one point in training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttentionFrame {
    /// The number of completed steps.
    pub step: u64,
    /// The number of completed epochs.
    pub epoch: u64,
    /// The query words and the key words.
    pub words: [Vec<String>; 2],
    /// The number of layers.
    pub layers: usize,
    /// The number of heads in a layer.
    pub heads: usize,
    /// `true` if words cannot see later words.
    pub causal: bool,
    /// (layers, heads, query words, key words).
    pub attention: Vec<f32>,
}

/// The key of a frame in a line of `log.jsonl`.
pub const FRAME_KEY: &str = "watched";

impl AttentionFrame {
    pub(crate) fn weights_per_head(&self) -> usize {
        self.words[0].len() * self.words[1].len()
    }

    /// Returns the fields as JSON, with the shortest digits of each number.
    pub fn to_json(&self) -> serde_json::Value {
        let mut value =
            serde_json::to_value(AttentionFrame { attention: Vec::new(), ..self.clone() }).expect("plain data");
        value["attention"] = self.attention.iter().map(|&x| super::json::json_number(x)).collect();
        value
    }

    /// Checks that the number of weights matches layers, heads and words.
    pub(crate) fn check(&self) -> Result<(), String> {
        let expected = self.layers.checked_mul(self.heads).and_then(|m| m.checked_mul(self.weights_per_head()));
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

    /// Returns the weights of a head.
    #[must_use]
    pub fn head_weights(&self, layer: usize, head: usize) -> &[f32] {
        &self.attention[(layer * self.heads + head) * self.weights_per_head()..][..self.weights_per_head()]
    }

    /// Returns the mean entropy of a head's rows, as a share of the entropy of uniform attention.
    ///
    /// # Panics
    /// If there is no such layer or head.
    #[must_use]
    pub fn entropy(&self, layer: usize, head: usize) -> f32 {
        let columns = self.words[1].len();
        let rows = self.head_weights(layer, head).chunks_exact(columns).enumerate();
        let seen = rows.map(|(i, row)| (i, if self.causal { &row[..(i + 1).min(columns)] } else { row }));
        measure_rows(columns, seen).entropy
    }
}

/// Reads the frames that `train --watch` recorded in a model folder, in the order of the steps.
///
/// # Errors
/// If the log cannot be read, or contains no frames.
pub fn load_frames(folder: &Path) -> Result<Vec<AttentionFrame>> {
    let (path, file) = (folder.join(LOG), open_file(folder, LOG)?);
    let mut frames: Vec<AttentionFrame> = Vec::new();
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(Error::io("reading", &path))?;
        if !line.contains(FRAME_KEY) {
            continue;
        }
        let fault = |problem: String| Error::Model {
            path: path.clone(),
            problem: tr!(
                "line {}: not the attention that `train --watch` records: {problem}",
                "{} 行目: `train --watch` が記録したアテンションではありません: {problem}",
                index + 1
            ),
        };
        let mut value: serde_json::Value =
            serde_json::from_slice(line.as_bytes()).map_err(|error| fault(error.to_string()))?;
        let Some(value) = value.get_mut(FRAME_KEY) else {
            return Err(fault(tr!(
                "expected an object with \"{FRAME_KEY}\" in it",
                "\"{FRAME_KEY}\" のあるオブジェクトが必要です"
            )));
        };
        let frame: AttentionFrame = serde_json::from_value(value.take()).map_err(|error| fault(error.to_string()))?;
        frame.check().map_err(fault)?;
        if frames.first().is_some_and(|first| {
            [first.layers, first.heads] != [frame.layers, frame.heads] || first.words != frame.words
        }) {
            return Err(fault(tr!(
                "its words or heads differ from those of the first record, perhaps because training continued with \
                 another text: train again with one `--watch TEXT`",
                "語やヘッドが最初の記録と違います（途中で別のテキストに変えて学習を続けた場合など）。一つの \
                 `--watch TEXT` で初めから学習してください"
            )));
        }
        frames.push(frame);
    }
    if frames.is_empty() {
        let problem = tr!(
            "no attention was recorded in training: train with `--watch TEXT`",
            "学習中のアテンションが記録されていません。`--watch TEXT` を付けて学習してください"
        );
        return Err(Error::Model { path, problem });
    }
    Ok(frames)
}
