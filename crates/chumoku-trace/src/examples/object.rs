//! JSON objects with known keys, whose values keep their original text.

use chumoku::lang::lang;
use chumoku::lang::wording::{did_you_mean, quote};
use chumoku::tr;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The keys and raw values of a JSON object.
pub(crate) struct JsonObject<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for JsonObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = JsonObject<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object { … }")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(JsonObject(entries))
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

/// Lists the known keys; hundreds of numbered keys are given as a range.
fn known_keys(known: &[&str]) -> String {
    match known {
        [first, .., last] if known.len() > 40 => tr!("{first}, …, {last}", "{first}、…、{last}"),
        _ => known.join(", "),
    }
}

impl<'a> JsonObject<'a> {
    pub(crate) fn read(text: &'a str, place: &str, known: &[&str]) -> Result<JsonObject<'a>, String> {
        JsonObject::read_with_aliases(text, place, known, |_| None)
    }

    /// Like [`JsonObject::read`]; for an unknown key that is an alias, such as a symbol, the error names its key.
    pub(crate) fn read_with_aliases(
        text: &'a str,
        place: &str,
        known: &[&str],
        alias: impl Fn(&str) -> Option<&'static str>,
    ) -> Result<JsonObject<'a>, String> {
        let object: JsonObject<'a> = serde_json::from_str(text).map_err(|error| match place {
            // The position refers to the file.
            "" => {
                tr!("not a worked example in JSON: {error}", "計算例の JSON として正しくありません: {error}")
            }
            _ => tr!(
                "{place}: expected an object {{ … }}, found {}",
                "{place}: オブジェクト {{ … }} が必要ですが、{} です",
                quote(text)
            ),
        })?;
        for (i, (key, _)) in object.0.iter().enumerate() {
            let within = if place.is_empty() { String::new() } else { tr!(" in {place}", "{place} に") };
            if !known.contains(&key.as_str()) {
                let hint = match alias(key) {
                    Some(meant) => did_you_mean(meant, [meant]),
                    None => did_you_mean(key, known.iter().copied()),
                };
                return Err(tr!(
                    "unknown key {}{within}{hint}; known keys: {}",
                    "{within}不明なキー {} があります{hint}。使えるキーは {} です",
                    quote(key),
                    known_keys(known)
                ));
            }
            if object.0[..i].iter().any(|(other, _)| other == key) {
                return Err(tr!("the key {}{within} occurs twice", "{within}キー {} が重複しています", quote(key)));
            }
        }
        Ok(object)
    }

    pub(crate) fn raw_value(&self, key: &str) -> Option<&'a str> {
        let found = self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.get());
        found.filter(|value| *value != "null")
    }

    /// Reads a value with serde. `en` and `ja` describe the expected value.
    pub(crate) fn value<T: Deserialize<'a>>(
        &self,
        key: &str,
        place: &str,
        [en, ja]: [&str; 2],
    ) -> Result<Option<T>, String> {
        let read = |text: &'a str| {
            serde_json::from_str(text).map_err(|_| {
                let found = quote(text);
                tr!(
                    "{place}{key}: expected {}, found {found}",
                    "{place}{key}: {}が必要ですが、{found} です",
                    lang().pick(en, ja)
                )
            })
        };
        self.raw_value(key).map(read).transpose()
    }
}
