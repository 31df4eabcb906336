//! What people call the things that training speaks of, in the language of the process.

use crate::lang::{Lang, lang};
use crate::nn::{BackboneConfig, BackboneKind};

/// What a network is called in sentences.
#[must_use]
pub fn network_name(network: BackboneKind) -> &'static str {
    match network {
        BackboneKind::Transformer => lang().pick("transformer", "トランスフォーマー"),
        // The letters by which they are known in both.
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

/// What the lines are called that speak of something: of Japanese at most four letters, which is what the column holds.
pub(crate) fn topic_label(english: &'static str) -> &'static str {
    let japanese = match english {
        "note" => "注記",
        "tokens" => "トークン",
        "model" => "モデル",
        "long" => "長文",
        "weights" => "重み",
        "n-grams" => "n-gram",
        "baseline" => "比較対象",
        "fold" => "交差検証",
        "offer" => "提案",
        "columns" => "列",
        "choice" => "選択",
        "tune" => "調整",
        "trial" => "試行",
        "crew" => "分散",
        "memory" => "メモリ",
        same => same,
    };
    lang().pick(english, japanese)
}
