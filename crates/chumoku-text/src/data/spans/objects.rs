//! Reads JSONL with spans: `{"text": "…", "spans": [{"start": 0, "end": 5, "label": "…"}]}`, in characters.

use serde_json::{Map, Value};

use super::super::error::{DataError, SourceLocation};
use super::super::format::ReadOptions;
use super::super::json_lines::json_type_name;
use super::super::limits::MAX_TEXT_BYTES;
use super::{Span, SpanExample};
use crate::lang::lang;
use crate::lang::wording::{list_names, quote};
use crate::{sorting, tr};

/// Keys whose lists count as spans by default.
const SPAN_KEYS: [&str; 4] = ["spans", "entities", "label", "labels"];

/// The names that annotation tools use for the start, the end and the label of a span.
const SPAN_PART_KEYS: [&[&str]; 3] = [
    &["start", "start_offset", "begin", "from"],
    &["end", "end_offset", "to"],
    &["label", "type", "tag", "entity", "entity_group"],
];

/// Returns start, end and label of a span, which is an object or a list of the three.
fn span_parts(value: &Value) -> Option<[&Value; 3]> {
    match value {
        Value::Object(object) => {
            let [start, end, label] = SPAN_PART_KEYS.map(|keys| keys.iter().find_map(|key| object.get(*key)));
            Some([start?, end?, label?])
        }
        Value::Array(list) => match list.as_slice() {
            [start, end, label] => Some([start, end, label]),
            _ => None,
        },
        _ => None,
    }
}

fn is_span(value: &Value) -> bool {
    span_parts(value).is_some_and(|[start, end, label]| start.is_number() && end.is_number() && label.is_string())
}

/// Returns the key whose values are lists of spans in all of these objects.
pub(crate) fn find_span_key<'a>(
    mut objects: impl Iterator<Item = &'a Map<String, Value>> + Clone,
) -> Option<&'static str> {
    let is_key = |key: &&str| {
        let mut lists = objects.clone().filter_map(|object| object.get(*key)).map(Value::as_array);
        let has_span = objects
            .clone()
            .any(|object| object.get(*key).and_then(Value::as_array).is_some_and(|list| list.iter().any(is_span)));
        has_span && lists.all(|list| list.is_some_and(|list| list.iter().all(|value| span_parts(value).is_some())))
    };
    let found = SPAN_KEYS.into_iter().find(is_key);
    objects.next().and(found)
}

/// Reads a row with its spans.
pub(super) fn parse_row(
    object: &Map<String, Value>,
    place: SourceLocation,
    key: &str,
    options: &ReadOptions,
) -> Result<SpanExample, DataError> {
    let text_key = options.text.as_deref().unwrap_or("text");
    let bad = |expected: &'static str, found: String| DataError::BadLabels { place: place.clone(), expected, found };
    let text = match object.get(text_key) {
        Some(Value::String(text)) => text.clone(),
        other => {
            let expected = lang().pick("a string under the key of the text", "テキストのキーに文字列");
            let found = other.map_or_else(
                || tr!("no {text_key}", "{text_key} なし"),
                |value| format!("{text_key}: {}", json_type_name(value)),
            );
            return Err(bad(expected, found));
        }
    };
    if text.trim().is_empty() {
        return Err(DataError::EmptyText { place, found: lang().pick("an empty text", "空").into() });
    }
    if text.len() as u64 > MAX_TEXT_BYTES {
        let what = lang().pick("a text", "テキスト");
        return Err(DataError::TooLong { place, what, limit: MAX_TEXT_BYTES, bytes: text.len() as u64 });
    }
    let list = match object.get(key) {
        Some(Value::Array(list)) => list,
        other => {
            let expected =
                lang().pick("a list of spans, empty if there is none", "スパンのリスト（なければ空のリスト）");
            let keys: Vec<&String> = object.keys().collect();
            let found = match other {
                Some(value) => format!("{key}: {}", json_type_name(value)),
                None => tr!(
                    "no {key} among {} (--label names another key)",
                    "{key} なし（キー: {}。--label で別のキーを指定できます）",
                    list_names(&keys)
                ),
            };
            return Err(bad(expected, found));
        }
    };
    let length = text.chars().count();
    let mut spans = Vec::with_capacity(list.len());
    for value in list {
        let Some([start, end, label]) = span_parts(value) else {
            let expected = lang().pick("start, end and label in each span", "各スパンに start、end、label");
            return Err(bad(expected, quote(&value.to_string())));
        };
        let [start, end] = [start, end].map(|x| x.as_u64().and_then(|x| usize::try_from(x).ok()));
        let (Some(start), Some(end)) = (start, end) else {
            let expected = lang().pick("start and end as whole numbers of characters", "start と end に文字数（整数）");
            return Err(bad(expected, quote(&value.to_string())));
        };
        let label = label.as_str().map(str::trim).filter(|label| !label.is_empty());
        let Some(label) = label else {
            let expected = lang().pick("a label in each span, as a string", "各スパンに文字列のラベル");
            return Err(bad(expected, quote(&value.to_string())));
        };
        if start >= end || end > length {
            let expected = lang().pick(
                "spans of one character or more inside the text, with the end after their last character",
                "テキストの中の 1 文字以上のスパン（end は最後の文字の次）",
            );
            let found = tr!("{start} to {end} of {length} characters", "{length} 文字のうち {start} から {end}");
            return Err(bad(expected, found));
        }
        spans.push(Span { start, end, label: label.to_owned() });
    }
    sorting::sort_by_key(&mut spans, |span| (span.start, span.end));
    if let Some(two) = spans.windows(2).find(|two| two[1].start < two[0].end) {
        let expected = lang().pick("spans that do not overlap", "重ならないスパン");
        let [a, b] = [&two[0], &two[1]].map(|span| format!("{}–{} {}", span.start, span.end, quote(&span.label)));
        return Err(bad(expected, tr!("{a} and {b}", "{a} と {b}")));
    }
    Ok(SpanExample { text, words: Vec::new(), spans, line: place.line })
}
