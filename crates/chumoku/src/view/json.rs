//! An explanation as JSON, every number in it, and back.

use serde_json::{Map, Number, Value};

use super::explanation::{Explanation, ExplanationError};

/// Writes an explanation as JSON.
///
/// The keys are the fields of [`Explanation`]; `attention` is nested `[layer][head][query][key]`, and `axes`
/// says so; `head_statistics` holds the figures of each head and its role. A number has the fewest digits that name the same f32. Numbers that are not finite, which JSON
/// cannot hold, become `null`.
///
/// # Panics
///
/// If `attention` is not of shape `(layers, heads, words, words)`; see [`Explanation::validate`].
#[must_use]
pub fn to_json(explanation: &Explanation) -> Value {
    let e = explanation;
    let nested = (0..e.layers).map(|layer| {
        let heads = (0..e.heads).map(|head| {
            let rows = (0..e.words.len()).map(|query| e.row(layer, head, query).iter().copied().map(number));
            Value::Array(rows.map(|row| Value::Array(row.collect())).collect())
        });
        Value::Array(heads.collect())
    });
    let mut nested = Value::Array(nested.collect());

    // All but the large array goes through serde, so that a field added later is not forgotten here.
    let rest = Explanation { attention: Vec::new(), ..e.clone() };
    let mut object = Map::new();
    let Ok(Value::Object(fields)) = serde_json::to_value(&rest) else {
        unreachable!("a struct with string keys always becomes an object");
    };
    for (key, value) in fields {
        if key == "attention" {
            let axes = ["layer", "head", "query", "key"];
            object.insert("axes".to_owned(), Value::from(axes.map(Value::from).to_vec()));
            object.insert(key, nested.take());
        } else {
            object.insert(key, shorten(value));
        }
    }
    let statistics = serde_json::to_value(e.head_statistics()).expect("figures are plain data");
    object.insert("head_statistics".to_owned(), shorten(statistics));
    Value::Object(object)
}

/// Reads what [`to_json`] wrote.
///
/// # Errors
///
/// Where a field is missing or of another type, `attention` is not nested as the other fields say, or the
/// parts do not fit together ([`Explanation::validate`]).
pub fn from_json(value: &Value) -> Result<Explanation, ExplanationError> {
    let mut value = value.clone();
    let object = value.as_object_mut().ok_or_else(|| ExplanationError::new("an explanation is a JSON object"))?;
    object.remove("axes");
    let nested = object
        .insert("attention".to_owned(), Value::Array(Vec::new()))
        .ok_or_else(|| ExplanationError::new("the explanation has no \"attention\""))?;
    let mut explanation: Explanation =
        serde_json::from_value(value).map_err(|error| ExplanationError::new(format!("not an explanation: {error}")))?;
    let n = explanation.words.len();
    flatten(&nested, &[explanation.layers, explanation.heads, n, n], &mut explanation.attention)?;
    explanation.validate()?;
    Ok(explanation)
}

/// Appends the numbers of nested arrays of exactly the given shape.
fn flatten(value: &Value, shape: &[usize], out: &mut Vec<f32>) -> Result<(), ExplanationError> {
    let Some((&length, inner)) = shape.split_first() else {
        let number = value
            .as_f64()
            .ok_or_else(|| ExplanationError::new(format!("attention holds {value} where a number should be")))?;
        #[expect(clippy::cast_possible_truncation, reason = "the numbers were f32 when written")]
        out.push(number as f32);
        return Ok(());
    };
    let items =
        value.as_array().ok_or_else(|| ExplanationError::new("attention is not nested [layer][head][query][key]"))?;
    if items.len() != length {
        return Err(ExplanationError::new(format!(
            "attention has {} entries where there should be {length}",
            items.len()
        )));
    }
    items.iter().try_for_each(|item| flatten(item, inner, out))
}

/// Rewrites every f32 that serde widened to f64, so that 0.1 does not read 0.10000000149011612.
fn shorten(value: Value) -> Value {
    match value {
        #[expect(clippy::cast_possible_truncation, reason = "every float in an explanation is an f32")]
        Value::Number(n) if n.is_f64() => n.as_f64().map_or(Value::Null, |x| number(x as f32)),
        Value::Array(items) => Value::Array(items.into_iter().map(shorten).collect()),
        Value::Object(fields) => Value::Object(fields.into_iter().map(|(k, v)| (k, shorten(v))).collect()),
        other => other,
    }
}

/// The f64 with the fewest digits that is the same f32.
#[expect(clippy::cast_possible_truncation, reason = "the cast back is the check that nothing was lost")]
pub(super) fn number(x: f32) -> Value {
    let short = x.to_string().parse().unwrap_or(f64::NAN);
    let same = if short as f32 == x { short } else { f64::from(x) };
    Number::from_f64(same).map_or(Value::Null, Value::Number)
}
