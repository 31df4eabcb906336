//! Error messages of layers and models, in the language of the process.

use crate::data::format_thousands;
use crate::lang::{Lang, lang};
use chumoku_nn::Error;

/// Returns the message of an error of layers or models.
pub(crate) fn layer_error_message(error: &Error) -> String {
    match lang() {
        Lang::En => error.to_string(),
        Lang::Ja => japanese(error),
    }
}

fn japanese(error: &Error) -> String {
    match error {
        Error::TooLong { limit, found } => {
            format!("{found} トークンの系列は、モデルの位置の数 {limit} を超えています")
        }
        Error::HeadCount { d_model, num_heads } => {
            format!("d_model は num_heads の倍数で、どちらも 1 以上でなければなりません: {d_model} と {num_heads}")
        }
        Error::KeyHeadCount { name, num_heads, found } => {
            format!("{name}: ヘッド数 {num_heads} の約数が必要ですが、{found} です")
        }
        Error::Size { name, most, found } => format!("{name}: 1 から {most} までが必要ですが、{found} です"),
        Error::Activation(found) => format!("activation: \"gelu\"、\"gelu_tanh\"、\"relu\"、\"silu\" のいずれかが必要ですが、\"{found}\" です"),
        Error::OddHeadWidth(width) => format!(
            "回転位置エンコーディング: ヘッドの幅（d_model / num_heads）は偶数のはずですが、{width} です"
        ),
        Error::Beta(found) => format!("beta: 有限の数が必要ですが、{found} です"),
        Error::NormEpsilon(found) => format!("norm_epsilon: 正の有限の数が必要ですが、{found} です"),
        Error::Unsupported { setting, found, expected } => {
            format!("{setting}: {expected} が必要ですが、{found} です")
        }
        Error::RotaryBase(found) => format!("rotary_base: 正の有限の数が必要ですが、{found} です"),
        Error::RotaryScaling(found) => format!(
            "rotary_scaling: 正の有限の数で、high_freq_factor は low_freq_factor より大きい必要がありますが、{found} です"
        ),
        Error::PositionsInCrossAttention => "回転位置エンコーディングと ALiBi は 1 本の系列の中の位置を区別するもので、2 本の系列にまたがるクロスアテンションでは使えません".to_owned(),
        Error::NotCausal => "1 トークンずつの生成には因果的なアテンションが必要ですが、ここでは前のトークンが後のトークンを見ています".to_owned(),
        Error::PositionsInMemory => {
            "メモリへのアテンションに因果マスク、窓、位置は使えません。クエリはその中に位置を持ちません".to_owned()
        }
        Error::UnknownSequence { count, found } => format!("memory: {count} 未満の系列番号が必要ですが、{found} です"),
        Error::CacheMismatch => "backward: このネットワークの順伝播で得たキャッシュが必要ですが、別のネットワークのものです".to_owned(),
        Error::NoAttention => "再帰型ネットワークにアテンションの重みはありません".to_owned(),
        Error::BeamWidth { vocabulary, found } => {
            format!("ビーム幅: 1 から語彙の大きさ {vocabulary} までが必要ですが、{found} です")
        }
        Error::LengthPenalty(found) => format!("長さペナルティ: -10 から 10 までの数が必要ですが、{found} です"),
        Error::Temperature(found) => format!("temperature: 0 以上の有限の数が必要ですが、{found} です"),
        Error::TopP(found) => format!("top-p: 0 より大きく 1 以下の数が必要ですが、{found} です"),
        Error::NoLogits => "サンプリング: ロジットが 1 つもありません".to_owned(),
        Error::NanLogit => "モデルのロジットが数になりません（NaN）。重みが大きすぎて使えません".to_owned(),
        Error::CountSize { name, least, most, found } => {
            format!("{name}: {least} から {} までの値が必要です: {found}", format_thousands(*most))
        }
        Error::CountOverflow(what) => {
            format!("count: この大きさでは {what} が 2^128 (3.4e38) を超え、数えられません。より小さい値を指定してください")
        }
        // Kernel messages are English: their errors are mistakes of the caller, not the user.
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One error of each kind that a user can cause.
    fn faults() -> Vec<Error> {
        vec![
            Error::TooLong { limit: 64, found: 65 },
            Error::HeadCount { d_model: 6, num_heads: 4 },
            Error::KeyHeadCount { name: "num_key_heads", num_heads: 4, found: 3 },
            Error::Size { name: "num_layers", most: 1024, found: 0 },
            Error::Activation("tanh".into()),
            Error::OddHeadWidth(3),
            Error::Beta(f64::NAN),
            Error::NormEpsilon(-1.0),
            Error::Unsupported { setting: "hidden_act", found: "mish".into(), expected: "\"gelu\"" },
            Error::RotaryBase(0.5),
            Error::RotaryScaling("factor -1".into()),
            Error::PositionsInCrossAttention,
            Error::NotCausal,
            Error::PositionsInMemory,
            Error::UnknownSequence { count: 2, found: 3 },
            Error::CacheMismatch,
            Error::NoAttention,
            Error::BeamWidth { vocabulary: 9, found: 10 },
            Error::LengthPenalty(0.25),
            Error::Temperature(-0.5),
            Error::TopP(1.5),
            Error::NoLogits,
            Error::NanLogit,
            Error::CountSize { name: "d_ff", least: 1, most: 1 << 30, found: 7 },
            Error::CountOverflow("parameters"),
        ]
    }

    /// The numbers and names in a message.
    fn values(message: &str) -> Vec<&str> {
        let mut values: Vec<_> = message.split(|c: char| !(c.is_ascii_alphanumeric() || "._-,^".contains(c))).collect();
        values
            .retain(|value| value.starts_with(|c: char| c.is_ascii_digit()) || value.contains('_') || *value == "NaN");
        values.sort_unstable();
        values
    }

    #[test]
    fn every_layer_error_has_a_japanese_message() {
        let source = include_str!("../../../chumoku-nn/src/error.rs");
        // Kernel errors are passed through.
        let messages = source.matches("#[error(").count() - source.matches("#[error(transparent").count();
        assert_eq!(faults().len(), messages);
        for fault in faults() {
            let (english, japanese) = (fault.to_string(), japanese(&fault));
            assert!(japanese.chars().any(|c| ('\u{3041}'..='\u{30ff}').contains(&c)), "{japanese}");
            assert!(english.is_ascii(), "{english}");
            let (english, japanese) = (values(&english), values(&japanese));
            for value in english.iter().filter(|value| !matches!(value.trim_matches(','), "3.4e38" | "1" | "0" | "2")) {
                assert!(
                    japanese.iter().any(|found| found.trim_matches(',') == value.trim_matches(',')),
                    "{value}: {fault}"
                );
            }
        }
    }
}
