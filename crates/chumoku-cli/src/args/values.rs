//! Parsers of flag values, with their error messages.

use chumoku::answers::LabelThreshold;
use chumoku::row::FeatureRequest;
use chumoku::tr;
use chumoku::train::{ClassWeights, Freeze, SettingOverrides, TuneBudget};
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

pub(super) fn parse_delimiter(text: &str) -> Result<char, String> {
    let named = match text {
        "tab" | "\\t" => Some('\t'),
        "comma" => Some(','),
        "semicolon" => Some(';'),
        "pipe" => Some('|'),
        "space" => Some(' '),
        _ => None,
    };
    let mut characters = text.chars();
    let one = characters.next().filter(|_| characters.next().is_none());
    let can_be = |c: &char| c.is_ascii() && !c.is_ascii_alphanumeric() && !['"', '\n', '\r'].contains(c);
    named.or(one.filter(can_be)).ok_or_else(|| {
        tr!(
            "expected tab, or one ASCII character other than a letter, digit or quote (such as ; or |)",
            "英数字と引用符以外の ASCII 文字 1 つ（; や | など）か tab を指定してください"
        )
    })
}

/// Parses a whole number that is at least `least`.
pub(super) fn parse_whole_number<N: FromStr + PartialOrd + Display>(text: &str, least: N) -> Result<N, String> {
    match text.parse() {
        Ok(n) if n >= least => Ok(n),
        Err(_) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(tr!("expected a smaller number, found {text}", "もっと小さな数が必要ですが、{text} です"))
        }
        _ => Err(tr!(
            "expected a whole number from {least}, found {}",
            "{least} 以上の整数が必要ですが、{} です",
            value_or_nothing(text)
        )),
    }
}

/// Shows a value in a message.
pub(super) fn value_or_nothing(text: &str) -> String {
    if text.is_empty() { tr!("nothing", "空") } else { text.to_owned() }
}

pub(super) fn parse_from_one<N: FromStr + PartialOrd + Display + From<u8>>(text: &str) -> Result<N, String> {
    parse_whole_number(text, N::from(1))
}

pub(super) fn parse_from_zero<N: FromStr + PartialOrd + Display + From<u8>>(text: &str) -> Result<N, String> {
    parse_whole_number(text, N::from(0))
}

pub(super) fn parse_at_least_one(text: &str) -> Result<usize, String> {
    parse_from_one(text)
}

/// Parses a whole number with or without a sign. Callers check its range.
pub(super) fn parse_integer(text: &str) -> Result<i64, String> {
    text.parse()
        .map_err(|_| tr!("expected a whole number, found {}", "整数が必要ですが、{} です", value_or_nothing(text)))
}

/// Parses a decimal number.
pub(super) fn parse_number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| tr!("expected a number, found {}", "数が必要ですが、{} です", value_or_nothing(text)))
}

/// Parses a share strictly between 0 and 1.
pub(super) fn parse_target_share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(x) if x > 0.0 && x < 1.0 => Ok(x),
        _ => Err(tr!(
            "expected a number between 0 and 1, such as 0.95, found {}",
            "0 と 1 の間の数（0.95 など）が必要ですが、{} です",
            value_or_nothing(text)
        )),
    }
}

/// Parses a feature column: its name, optionally with a colon and its type.
pub(super) fn parse_feature_column(text: &str) -> Result<FeatureRequest, String> {
    let kind = text.rsplit_once(':').filter(|(_, kind)| ["number", "category", "date"].contains(kind));
    let (name, kind) = kind.map_or((text, None), |(name, kind)| (name, Some(kind.to_owned())));
    match name.trim() {
        "" => Err(tr!(
            "expected the names of columns, such as price,shop, found {}",
            "列名（price,shop など）が必要ですが、{} です",
            value_or_nothing(text)
        )),
        name if name.ends_with(':') => Err(tr!(
            "expected number, category or date after the colon, found {}",
            "コロンの後には number、category、date のいずれかが必要ですが、{} です",
            value_or_nothing(text)
        )),
        name => Ok(FeatureRequest { name: name.to_owned(), kind, ..FeatureRequest::default() }),
    }
}

/// Parses `COLUMN=VALUE`.
pub(super) fn parse_column_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=').filter(|(name, _)| !name.trim().is_empty()) {
        Some((name, value)) => Ok((name.trim().to_owned(), value.to_owned())),
        None => Err(tr!(
            "expected a column and its value, such as price=12, found {}",
            "列とその値（price=12 など）が必要ですが、{} です",
            value_or_nothing(text)
        )),
    }
}

/// Parses `LABEL=SHARE` or `SHARE`.
pub(super) fn parse_label_threshold(text: &str) -> Result<LabelThreshold, String> {
    // A label may contain an equals sign itself.
    let (label, value) = text.rsplit_once('=').map_or((None, text), |(label, value)| (Some(label), value));
    Ok(LabelThreshold { label: label.map(str::to_owned), value: parse_target_share(value)? })
}

pub(super) fn parse_dropout(text: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(x) if (0.0..1.0).contains(&x) => Ok(x),
        _ => Err(tr!(
            "expected a number from 0 to below 1, found {}",
            "0 以上 1 未満の数が必要ですが、{} です",
            value_or_nothing(text)
        )),
    }
}

/// Parses a number of threads or a rank. Larger values are taken for typing errors: no machine or matrix has so much.
pub(super) fn parse_up_to_1024(text: &str) -> Result<usize, String> {
    parse_up_to(1024, text)
}

pub(super) fn parse_micro_batches(text: &str) -> Result<usize, String> {
    parse_up_to(chumoku::train::MAX_MICRO_BATCHES, text)
}

pub(super) fn parse_folds(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (2..=100).contains(&n) => Ok(n),
        _ => Err(tr!(
            "expected a whole number from 2 to 100, found {}",
            "2 から 100 までの整数が必要ですが、{} です",
            value_or_nothing(text)
        )),
    }
}

pub(super) fn parse_up_to(most: usize, text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=most).contains(&n) => Ok(n),
        _ => Err(tr!(
            "expected a whole number from 1 to {most}, found {}",
            "1 から {most} までの整数が必要ですが、{} です",
            value_or_nothing(text)
        )),
    }
}

/// Parses settings with their values: `dropout=0.2,words=2`.
pub(super) fn parse_settings(text: &str) -> Result<SettingOverrides, String> {
    let settings: SettingOverrides = text.parse()?;
    match settings.is_empty() {
        true => Err(tr!(
            "expected settings such as dropout=0.2,words=2, found nothing",
            "dropout=0.2,words=2 のような設定が必要ですが、空です"
        )),
        false => Ok(settings),
    }
}

/// Parses the budget of a search for settings: `30s`, `10m`, `2h`, or a number of trials.
pub(super) fn parse_tune_budget(text: &str) -> Result<TuneBudget, String> {
    let unit = text.chars().last().and_then(|unit| match unit {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3600),
        _ => None,
    });
    let budget = match unit {
        Some(seconds) => {
            let count = text[..text.len() - 1].parse::<u32>().ok().filter(|&count| count > 0);
            count.map(|count| TuneBudget::Time(Duration::from_secs(u64::from(count) * seconds)))
        }
        None => text.parse::<u32>().ok().filter(|&trials| trials > 0).map(|trials| TuneBudget::Trials(trials.into())),
    };
    budget.ok_or_else(|| {
        tr!(
            "expected a time such as 30s, 10m or 2h, or a number of trials from 1, found {}",
            "30s、10m、2h のような時間か、1 以上の試行回数が必要ですが、{} です",
            value_or_nothing(text)
        )
    })
}

/// Parses class weights: `balanced`, `equal`, or `spam=5,ham=1`.
pub(super) fn parse_class_weights(value: &str) -> Result<ClassWeights, String> {
    match value {
        "balanced" => return Ok(ClassWeights::Balanced),
        "equal" => return Ok(ClassWeights::Equal),
        _ => {}
    }
    let mut given = Vec::new();
    // A comma may be part of a name: a part without an equals sign continues in the next part.
    let mut name = String::new();
    for part in value.split(',') {
        if !name.is_empty() {
            name.push(',');
        }
        let Some((end, times)) = part.rsplit_once('=') else {
            name.push_str(part);
            continue;
        };
        name.push_str(end);
        given.push((std::mem::take(&mut name), parse_number(times)? as f32));
    }
    if !name.is_empty() || given.iter().any(|(name, _)| name.is_empty()) {
        return Err(tr!(
            "expected balanced, equal, or classes with numbers such as spam=5,ham=1",
            "balanced、equal、または spam=5,ham=1 のようなクラスと数の組を指定してください"
        ));
    }
    Ok(ClassWeights::Times(given))
}

/// Parses what fine-tuning freezes: `none`, `embeddings`, a number of layers, or `all`.
pub(super) fn parse_freeze(value: &str) -> Result<Freeze, String> {
    match value {
        "none" => Ok(Freeze::Nothing),
        "embeddings" => Ok(Freeze::Embeddings),
        "all" => Ok(Freeze::All),
        _ => value.parse().map(Freeze::Layers).map_err(|_| {
            tr!(
                "expected none, embeddings, a number of layers, or all",
                "none、embeddings、層の数、all のいずれかを指定してください"
            )
        }),
    }
}

/// Parses a time: 10s, 500ms, 2m, or seconds without a unit.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let milliseconds = match &text[digits.len()..] {
        "ms" => Some(1),
        "s" | "" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let count = digits.parse::<u32>().ok().filter(|&count| count > 0);
    milliseconds.zip(count).map(|(unit, count)| Duration::from_millis(unit * u64::from(count))).ok_or_else(|| {
        tr!(
            "expected a time of at least 1ms, such as 10s, 500ms or 2m, found {}",
            "10s、500ms、2m のような 1ms 以上の時間が必要ですが、{} です",
            value_or_nothing(text)
        )
    })
}
