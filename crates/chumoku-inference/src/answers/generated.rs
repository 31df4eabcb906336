//! Outputs of generating models: translations, continuations, vectors.

use crate::{Result, StopReason, TextTranslator, Translation};
use serde_json::{Map, Value, json};

/// Returns a text with its translation. Adds the `n_best` best translations if `n_best` exceeds 1, and the attention
/// weights if `alignment` is set.
///
/// # Errors
/// If the alignment cannot be computed.
pub fn translation(
    text: &str,
    translation: &Translation,
    model: &TextTranslator,
    n_best: usize,
    alignment: bool,
) -> Result<Map<String, Value>> {
    let mut value = Map::new();
    value.insert("text".into(), text.into());
    value.insert("translation".into(), translation.text().into());
    value.insert("score".into(), translation.rounded_score(0));
    if n_best > 1 {
        let each = translation.hypotheses.iter().take(n_best).enumerate();
        let each = each.map(|(at, (text, _))| json!({ "text": text, "score": translation.rounded_score(at) }));
        value.insert("n_best".into(), each.collect());
    }
    if translation.is_truncated {
        value.insert("is_cut".into(), true.into());
    }
    if alignment {
        let alignment = model.align(text, Some(translation.text()))?;
        let layers = alignment.layers.iter().map(|layer| {
            let heads = layer.outer_iter().map(|head| {
                let rows = head.rows().into_iter().map(|row| Value::from(row.to_vec()));
                rows.collect::<Value>()
            });
            heads.collect::<Value>()
        });
        let layers = layers.collect::<Value>();
        let shown = json!({ "source": alignment.source, "target": alignment.target, "layers": layers });
        value.insert("alignment".into(), shown);
    }
    Ok(value)
}

/// Returns a text with its reconstruction by an autoencoder.
#[must_use]
pub fn reconstruction(text: &str, found: &Translation) -> Map<String, Value> {
    let mut value = Map::new();
    value.insert("text".into(), text.into());
    value.insert("reconstruction".into(), found.text().into());
    value.insert("score".into(), found.rounded_score(0));
    if found.is_truncated {
        value.insert("is_cut".into(), true.into());
    }
    value
}

impl Translation {
    /// Returns the score of a hypothesis, rounded to six decimals.
    #[must_use]
    pub fn rounded_score(&self, at: usize) -> Value {
        json!((self.hypotheses[at].1.score * 1e6).round() / 1e6)
    }
}

/// Returns a prompt, its continuation, and the stop reason.
#[must_use]
pub fn continuation(prompt: &str, text: &str, stop: StopReason) -> Value {
    let stop = if stop == StopReason::End { "end" } else { "max_tokens" };
    json!({ "prompt": prompt, "text": text, "stop": stop })
}

/// Returns the numbers of a vector, with the shortest digits that identify each f32.
pub fn vector<'a>(vector: impl Iterator<Item = &'a f32>) -> Value {
    let short = |x: &f32| x.to_string().parse::<f64>().map_or(Value::Null, Value::from);
    vector.map(short).collect()
}
