//! Explanations as JSON.

use serde_json::{Map, Number, Value};

use super::explanation::{Explanation, ExplanationError};
use crate::lang::{Lang, lang};
use crate::tr;

/// Returns an explanation as JSON.
///
/// The keys are the fields of [`Explanation`]. `attention` is nested as `[layer][head][query][key]`, which `axes`
/// records. `head_statistics` holds the statistics and role of each head, and `roles` the rule for roles. Each number
/// has the shortest digits that identify its f32. Numbers that are not finite become `null`, since JSON cannot
/// represent them.
///
/// # Panics
///
/// If `attention` does not have the shape `(layers, heads, words, words)`; see [`Explanation::validate`].
#[must_use]
pub fn to_json(explanation: &Explanation) -> Value {
    let e = explanation;
    let n = e.words.len();
    let heads = [e.layers, e.heads];
    let squares = |numbers: &[f32]| to_nested(numbers, &[heads[0], heads[1], n, n]);
    let mut object = e.fields();
    object.insert("attention".to_owned(), squares(&e.attention));
    object.insert("axes".to_owned(), Value::from(["layer", "head", "query", "key"].map(Value::from).to_vec()));
    let derived = [
        ("value_weighted", squares(&e.derived.value_weighted)),
        ("rollout", to_nested(&e.derived.rollout, &[e.layers, n, n])),
    ];
    object.insert("derived".to_owned(), derived.map(|(name, value)| (name.to_owned(), value)).into_iter().collect());
    if let (Some(depth), Some(Value::Object(shown))) = (&e.depth, object.get_mut("depth")) {
        let shape = [heads[0], heads[1], e.pieces.len(), depth.dim];
        shown.insert("queries".to_owned(), to_nested(&depth.queries, &shape));
        shown.insert("keys".to_owned(), to_nested(&depth.keys, &shape));
    }
    let statistics = serde_json::to_value(e.head_statistics()).expect("figures are plain data");
    object.insert("head_statistics".to_owned(), shorten_numbers(statistics));
    object.insert("roles".to_owned(), super::roles::role_rule(Lang::En).into());
    Value::Object(object)
}

impl Explanation {
    /// Returns all fields as JSON. The large arrays are left empty.
    #[must_use]
    pub fn fields(&self) -> Map<String, Value> {
        // All other fields go through serde, so that future fields are included.
        let rest = self.without_arrays();
        let Ok(Value::Object(fields)) = serde_json::to_value(&rest) else {
            unreachable!("a struct with string keys always becomes an object");
        };
        // The score factor is written as an f64.
        let scale = self.depth.as_ref().map(|depth| depth.scale);
        let mut object: Map<String, Value> =
            fields.into_iter().map(|(key, value)| (key, shorten_numbers(value))).collect();
        if let (Some(scale), Some(Value::Object(depth))) = (scale, object.get_mut("depth")) {
            depth.insert("scale".to_owned(), scale.into());
        }
        object
    }
}

/// Returns numbers as nested arrays of this shape, last axis innermost. Without numbers, returns an empty array.
fn to_nested(numbers: &[f32], shape: &[usize]) -> Value {
    let Some((&count, inner)) = shape.split_first().filter(|_| !numbers.is_empty()) else {
        return Value::Array(Vec::new());
    };
    if inner.is_empty() {
        return numbers.iter().copied().map(json_number).collect();
    }
    numbers.chunks_exact((numbers.len() / count).max(1)).map(|part| to_nested(part, inner)).collect()
}

/// Reads the output of [`to_json`].
///
/// # Errors
///
/// If a field is missing or has another type, `attention` has another nesting, or the values are inconsistent
/// ([`Explanation::validate`]).
pub fn from_json(value: &Value) -> Result<Explanation, ExplanationError> {
    let mut value = value.clone();
    let object = value.as_object_mut().ok_or_else(|| {
        ExplanationError::new(
            lang().pick("an explanation is a JSON object", "説明は JSON のオブジェクトでなければなりません"),
        )
    })?;
    object.remove("axes");
    let attention = object.insert("attention".to_owned(), Value::Array(Vec::new())).ok_or_else(|| {
        ExplanationError::new(lang().pick("the explanation has no \"attention\"", "説明に \"attention\" がありません"))
    })?;
    // Arrays that older versions did not write stay empty.
    let mut take = |of: &str, name: &str| {
        let part = object.get_mut(of).and_then(Value::as_object_mut);
        part.and_then(|part| part.insert(name.to_owned(), Value::Array(Vec::new()))).unwrap_or_default()
    };
    let [value_weighted, rollout] = ["value_weighted", "rollout"].map(|name| take("derived", name));
    let [queries, keys] = ["queries", "keys"].map(|name| take("depth", name));
    let mut explanation: Explanation = serde_json::from_value(value).map_err(|error| {
        ExplanationError::new(tr!("not an explanation: {error}", "説明として正しくありません: {error}"))
    })?;
    let (n, tokens) = (explanation.words.len(), explanation.pieces.len());
    let [layers, heads] = [explanation.layers, explanation.heads];
    let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    let read = |what: &str, value: &Value, shape: &[usize], out: &mut Vec<f32>| match is_empty(value) {
        true => Ok(()),
        false => read_nested(what, value, shape, out),
    };
    read_nested("attention", &attention, &[layers, heads, n, n], &mut explanation.attention)?;
    let derived = &mut explanation.derived;
    read("value_weighted", &value_weighted, &[layers, heads, n, n], &mut derived.value_weighted)?;
    read("rollout", &rollout, &[layers, n, n], &mut derived.rollout)?;
    if let Some(depth) = &mut explanation.depth {
        let shape = [layers, heads, tokens, depth.dim];
        read("queries", &queries, &shape, &mut depth.queries)?;
        read("keys", &keys, &shape, &mut depth.keys)?;
    }
    explanation.validate()?;
    Ok(explanation)
}

/// Appends the numbers of nested arrays with exactly this shape.
pub(super) fn read_nested(
    what: &str,
    value: &Value,
    shape: &[usize],
    out: &mut Vec<f32>,
) -> Result<(), ExplanationError> {
    let Some((&length, inner)) = shape.split_first() else {
        let number = value.as_f64().ok_or_else(|| {
            ExplanationError::new(tr!(
                "{what} holds {value} where a number should be",
                "{what} の数値のあるべきところに {value} があります"
            ))
        })?;
        #[expect(clippy::cast_possible_truncation, reason = "the numbers were f32 when written")]
        out.push(number as f32);
        return Ok(());
    };
    let items = value.as_array().ok_or_else(|| {
        ExplanationError::new(tr!("{what} is not nested as its axes say", "{what} の入れ子が軸の数と合いません"))
    })?;
    if items.len() != length {
        return Err(ExplanationError::new(tr!(
            "{what} has {} entries where there should be {length}",
            "{what} の要素が {} 個ありますが、{length} 個のはずです",
            items.len()
        )));
    }
    items.iter().try_for_each(|item| read_nested(what, item, inner, out))
}

/// Shortens every f32 that serde widened to f64, so that 0.1 does not appear as 0.10000000149011612.
#[must_use]
pub fn shorten_numbers(value: Value) -> Value {
    match value {
        #[expect(clippy::cast_possible_truncation, reason = "every float in an explanation is an f32")]
        Value::Number(n) if n.is_f64() => n.as_f64().map_or(Value::Null, |x| json_number(x as f32)),
        Value::Array(items) => Value::Array(items.into_iter().map(shorten_numbers).collect()),
        Value::Object(fields) => Value::Object(fields.into_iter().map(|(k, v)| (k, shorten_numbers(v))).collect()),
        other => other,
    }
}

/// Returns the f64 with the fewest digits that rounds to this f32.
#[expect(clippy::cast_possible_truncation, reason = "the cast back is the check that nothing was lost")]
#[must_use]
pub fn json_number(x: f32) -> Value {
    let short = x.to_string().parse().unwrap_or(f64::NAN);
    let same = if short as f32 == x { short } else { f64::from(x) };
    Number::from_f64(same).map_or(Value::Null, Value::Number)
}
