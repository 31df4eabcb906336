//! The identity of a run: everything that decides its results. Only the same run may resume a checkpoint. For another
//! run, the error names the differences.

use crate::tr;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Display;

/// The key of the rows and their answers.
const DATA: &str = "data";
/// The key of the initial weights.
const START: &str = "start";
/// The key of the tokenizer's vocabulary.
const TOKENS: &str = "tokens";

/// The number of differences that a message names. The others are counted.
const MAX_NAMED: usize = 4;

/// Everything that decides the results of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunIdentity {
    /// The checksum of everything. Two runs with the same fingerprint are the same run.
    pub(crate) fingerprint: String,
    /// The components by name, for messages. Checkpoints of older versions have none.
    #[serde(default)]
    parts: BTreeMap<String, String>,
}

impl RunIdentity {
    pub(crate) fn new(fingerprint: String) -> RunIdentity {
        RunIdentity { fingerprint, parts: BTreeMap::new() }
    }

    /// Adds a component.
    pub(crate) fn with(mut self, name: &str, value: impl Display) -> RunIdentity {
        self.parts.insert(name.to_owned(), value.to_string());
        self
    }

    /// Adds the rows and their answers, as a checksum.
    pub(crate) fn with_data(self, data: &str) -> RunIdentity {
        self.with(DATA, checksum(data))
    }

    /// Adds a checksum of the initial weights, if they depend on more than the seed.
    pub(crate) fn with_start(self, start: &str) -> RunIdentity {
        self.with(START, checksum(start))
    }

    /// Adds the vocabulary, or its checksum.
    pub(super) fn with_tokens(self, tokens: &str) -> RunIdentity {
        self.with(TOKENS, checksum(tokens))
    }

    /// Adds every value of a plan in JSON.
    pub(super) fn with_plan(mut self, plan: &str) -> RunIdentity {
        let plan = serde_json::from_str(plan).unwrap_or(Value::Null);
        self.add_values("", &plan);
        self
    }

    fn add_values(&mut self, name: &str, value: &Value) {
        match value {
            Value::Object(inner) => inner.iter().for_each(|(key, value)| {
                let is_top = name.is_empty() || name == "settings";
                self.add_values(&if is_top { key.clone() } else { format!("{name}.{key}") }, value);
            }),
            Value::String(text) => drop(self.parts.insert(name.to_owned(), text.clone())),
            other => drop(self.parts.insert(name.to_owned(), other.to_string())),
        }
    }

    /// Returns the message that this run cannot resume a checkpoint or trial of an `earlier` run, and why.
    pub(crate) fn mismatch_message(&self, earlier: &RunIdentity, what: &str) -> String {
        let differences = self.differences(earlier);
        let differences = match differences.is_empty() {
            true => String::new(),
            false => tr!(" ({})", "（{}）", differences.join(", ")),
        };
        tr!(
            "{what} made with other data, settings or seed{differences}; use the same ones again, or start over with \
             --force",
            "{what}のデータ・設定・シードは今回と異なります{differences}。当時と同じものを指定するか、--force で最初からやり直してください"
        )
    }

    /// Lists the differences from an earlier run, if it recorded its components.
    fn differences(&self, earlier: &RunIdentity) -> Vec<String> {
        if earlier.parts.is_empty() {
            return Vec::new();
        }
        let names = self.parts.keys().chain(earlier.parts.keys().filter(|name| !self.parts.contains_key(*name)));
        let mut differing: Vec<&String> =
            names.filter(|name| self.parts.get(*name) != earlier.parts.get(*name)).collect();
        let has = |differing: &[&String], part: &str| differing.iter().any(|name| *name == part);
        if has(&differing, DATA) {
            // Most settings are chosen from the data, so other differences may be consequences.
            differing.retain(|name| [DATA, "seed", "epochs", "precision"].contains(&name.as_str()));
        }
        let of =
            |identity: &RunIdentity, name: &str| identity.parts.get(name).cloned().unwrap_or_else(|| "-".to_owned());
        let message = |name: &&String| match name.as_str() {
            DATA => tr!("other rows", "データの行"),
            START => tr!("other weights to start from", "開始時の重み"),
            TOKENS => tr!("other tokens", "トークン"),
            name => {
                let (then, now) = (of(earlier, name), of(self, name));
                tr!("{name}: {then} then, {now} now", "{name}: 当時 {then}、今回 {now}")
            }
        };
        let mut messages: Vec<String> = differing.iter().take(MAX_NAMED).map(message).collect();
        if let more @ 1.. = differing.len().saturating_sub(MAX_NAMED) {
            messages.push(tr!("{more} more", "ほか {more} 個"));
        }
        messages
    }
}

fn checksum(text: &str) -> String {
    crate::checksum::hex(Sha256::digest(text))
}

/// The SHA-256 of rows of tokens, each preceded by its length.
pub(crate) fn sha256_of_rows<'a>(rows: impl IntoIterator<Item = &'a Vec<u32>>) -> String {
    let mut hash = Sha256::new();
    for ids in rows {
        hash.update((ids.len() as u64).to_le_bytes());
        ids.iter().for_each(|id| hash.update(id.to_le_bytes()));
    }
    crate::checksum::hex(hash.finalize())
}

/// The SHA-256 of numbers.
pub(crate) fn sha256_of_numbers(numbers: &[f32]) -> String {
    let mut hash = Sha256::new();
    for piece in numbers.chunks(1 << 14) {
        hash.update(piece.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
    }
    crate::checksum::hex(hash.finalize())
}

/// Converts a plan to JSON through text, so that 0.3 stays 0.3. A direct conversion would give the f64 nearest to the
/// f32.
pub(crate) fn plan_json(plan: &impl Serialize) -> Value {
    serde_json::to_vec(plan).and_then(|plan| serde_json::from_slice(&plan)).expect("a plan is plain data")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mismatch_message_names_the_differences() {
        let run = |data: &str, seed: u64, plan: &str| {
            RunIdentity::new("x".into()).with_data(data).with("seed", seed).with_plan(plan)
        };
        let plan = |epochs: u64, width: u64| {
            format!("{{\"settings\":{{\"epochs\":{epochs},\"label_smoothing\":0.1}},\"model\":{{\"width\":{width}}}}}")
        };
        let then = run("a", 42, &plan(4, 64));
        let differences = |now: &RunIdentity| now.differences(&then);
        assert_eq!(differences(&run("a", 7, &plan(4, 64))), ["seed: 42 then, 7 now"]);
        assert_eq!(differences(&run("a", 42, &plan(6, 64))), ["epochs: 4 then, 6 now"]);
        assert_eq!(differences(&run("a", 42, &plan(4, 32))), ["model.width: 64 then, 32 now"]);
        // The width follows from the rows; the seed does not.
        assert_eq!(differences(&run("b", 7, &plan(4, 32))), ["other rows", "seed: 42 then, 7 now"]);
        let older = RunIdentity::new("y".into());
        let message = run("a", 42, "{}").mismatch_message(&older, "the checkpoint was");
        assert!(
            message.starts_with("the checkpoint was made with other data, settings or seed; use the same"),
            "{message}"
        );
        let back: RunIdentity = serde_json::from_str(&serde_json::to_string(&then).unwrap()).unwrap();
        assert!(back.differences(&then).is_empty());
    }
}
