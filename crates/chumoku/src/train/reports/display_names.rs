//! Display names, in the user's language.

use crate::lang::{Lang, lang};
use crate::nn::{BackboneConfig, BackboneKind};

/// The name of a network for sentences.
#[must_use]
pub fn network_name(network: BackboneKind) -> &'static str {
    match network {
        BackboneKind::Transformer => lang().pick("transformer", "トランスフォーマー"),
        // The abbreviation is the same in both languages.
        BackboneKind::Recurrent(_) => network.display_name(),
    }
}

/// The sizes of a network in a few words.
#[must_use]
pub fn network_sizes(body: &BackboneConfig, lang: Lang) -> String {
    match (lang, body) {
        (Lang::En, _) => body.describe(),
        (Lang::Ja, BackboneConfig::Transformer(c)) => {
            format!("{} 層、幅 {}、ヘッド {}", c.num_layers, c.d_model, c.num_heads)
        }
        (Lang::Ja, BackboneConfig::Recurrent(c)) => {
            let directions = if c.bidirectional { "両方向" } else { "一方向" };
            format!("{} 層、幅 {}、{directions}", c.num_layers, c.hidden_size)
        }
    }
}
