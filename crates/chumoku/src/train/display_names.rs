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

/// The topic label of a message. Japanese labels have at most four characters, the width of the column.
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
        "workers" => "分散",
        "memory" => "メモリ",
        same => same,
    };
    lang().pick(english, japanese)
}
