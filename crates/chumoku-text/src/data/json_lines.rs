//! Reads JSONL: one JSON object per line. Blank lines are not rows. Objects may have different keys.

use serde_json::Value;

use super::error::DataError;
use super::lines::{LineReader, column_at};
use super::record::Record;
use crate::lang::lang;

/// Reads the objects of a JSONL file.
pub(crate) struct JsonLinesReader {
    pub(crate) lines: LineReader,
}

impl JsonLinesReader {
    pub(crate) fn new(lines: LineReader) -> Self {
        JsonLinesReader { lines }
    }

    pub(crate) fn next_row(&mut self) -> Result<Option<Record>, DataError> {
        let line = loop {
            match self.lines.next_line()? {
                None => return Ok(None),
                Some(line) if line.text.trim().is_empty() => {}
                Some(line) => break line,
            }
        };
        let place = self.lines.location(line.number);
        match serde_json::from_str::<Value>(&line.text) {
            Ok(Value::Object(object)) => Ok(Some(Record::from_object(line.number, object))),
            Ok(other) => Err(not_an_object(place, &other)),
            // An array over several lines starts with a line that holds only its bracket.
            Err(_) if line.text.trim_start().starts_with('[') => Err(not_an_object(place, &Value::Array(Vec::new()))),
            Err(error) => {
                let at = error.column().saturating_sub(1);
                let detail = error_detail(&error);
                Err(DataError::BadJson { place: place.at_column(column_at(&line.text, at)), detail })
            }
        }
    }
}

/// Returns the error message of `serde_json` without its location, which our message gives in another form.
pub(crate) fn error_detail(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(detail, _)| detail);
    lang().pick(message, japanese_detail(message)).to_owned()
}

/// Translates the common messages of `serde_json` and summarizes the others.
fn japanese_detail(message: &str) -> &'static str {
    match message {
        "EOF while parsing an object" => "オブジェクトが途中で終わっています",
        "EOF while parsing a list" => "リストが途中で終わっています",
        "EOF while parsing a string" => "文字列が途中で終わっています",
        "EOF while parsing a value" => "値が途中で終わっています",
        "expected value" => "値がありません",
        "expected `:`" => "`:` が必要です",
        "expected `,` or `}`" => "`,` か `}` が必要です",
        "expected `,` or `]`" => "`,` か `]` が必要です",
        "key must be a string" => "キーは文字列でなければなりません",
        "trailing comma" => "余分なコンマがあります",
        "trailing characters" => "終わりの後に余分な文字があります",
        "invalid escape" => "\\ の後の文字が正しくありません",
        "invalid number" => "数値の書き方が正しくありません",
        "number out of range" => "数値が大きすぎます",
        "recursion limit exceeded" => "入れ子が深すぎます",
        _ if message.starts_with("control character") => "文字列に制御文字があります",
        _ => "JSON の書き方が正しくありません",
    }
}

fn not_an_object(place: super::SourceLocation, value: &Value) -> DataError {
    let advice = match value {
        Value::Array(_) => lang().pick(
            "write one object per line (jq -c '.[]' does it), or leave such rows out with --skip-bad-rows",
            "1 行に 1 つのオブジェクトを書いてください（jq -c '.[]' で直せます）。--skip-bad-rows を付けると、このような行を除いて続けます",
        ),
        _ => lang().pick(
            "write it as {\"text\": …}, or leave such rows out with --skip-bad-rows",
            "{\"text\": …} の形で書いてください。--skip-bad-rows を付けると、このような行を除いて続けます",
        ),
    };
    DataError::NotAnObject { place, found: json_type_name(value), advice }
}

/// Returns the name of a JSON type.
pub(crate) fn json_type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => lang().pick("true or false", "真偽値"),
        Value::Number(_) => lang().pick("a number", "数値"),
        Value::String(_) => lang().pick("a string", "文字列"),
        Value::Array(_) => lang().pick("a list", "リスト"),
        Value::Object(_) => lang().pick("an object", "オブジェクト"),
    }
}
