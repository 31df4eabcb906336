//! JSONL: one JSON object a line. Blank lines are no rows; each object may have keys of its own.

use serde_json::Value;

use super::error::DataError;
use super::lines::{LineReader, column_of};
use super::record::Record;

/// Reads the objects of a JSONL file.
pub(crate) struct JsonReader {
    pub(crate) lines: LineReader,
}

impl JsonReader {
    pub(crate) fn new(lines: LineReader) -> Self {
        JsonReader { lines }
    }

    pub(crate) fn next_row(&mut self) -> Result<Option<Record>, DataError> {
        let line = loop {
            match self.lines.next_line()? {
                None => return Ok(None),
                Some(line) if line.text.trim().is_empty() => {}
                Some(line) => break line,
            }
        };
        let place = self.lines.place(line.number);
        match serde_json::from_str::<Value>(&line.text) {
            Ok(Value::Object(object)) => Ok(Some(Record::of_object(line.number, object))),
            Ok(other) => Err(not_an_object(place, &other)),
            // A list over many lines begins with a line that holds its bracket alone.
            Err(_) if line.text.trim_start().starts_with('[') => Err(not_an_object(place, &Value::Array(Vec::new()))),
            Err(error) => {
                let at = error.column().saturating_sub(1);
                let said = error.to_string();
                let detail = said.rsplit_once(" at line ").map_or(said.as_str(), |(detail, _)| detail).to_owned();
                Err(DataError::BadJson { place: place.at_column(column_of(&line.text, at)), detail })
            }
        }
    }
}

fn not_an_object(place: super::Place, value: &Value) -> DataError {
    let advice = match value {
        Value::Array(_) => {
            "write one object per line (jq -c '.[]' does it), or leave such rows out with --skip-bad-rows"
        }
        _ => "write it as {\"text\": …}, or leave such rows out with --skip-bad-rows",
    };
    DataError::NotAnObject { place, found: kind(value), advice }
}

/// What a JSON value is, in words.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
