//! Reads JSON files with one array, one element per row. The array may be the value of a key of an object.
//!
//! The elements are objects, as in JSONL, texts, or lists. Lists are rows of a table, and the first may name the
//! columns. Elements are read one at a time, however they are spread over lines, so memory does not grow with the file.

use serde_json::{Map, Value};

use super::decode::guess_encoding;
use super::error::{ColumnRole, DataError, SourceLocation};
use super::json_lines::{error_detail, json_type_name};
use super::limits::MAX_ROW_BYTES;
use super::lines::{BytePosition, LineReader, column_at};
use super::record::{Record, value_to_text};
use super::schema_inference::names::role_of_name;
use super::width::RowWidth;
use crate::lang::lang;
use crate::lang::wording::{join_names, quote};
use crate::tr;

/// The type of the elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ElementKind {
    Objects,
    Texts,
    Lists,
}

impl ElementKind {
    fn of_value(value: &Value) -> Option<Self> {
        match value {
            Value::Object(_) => Some(ElementKind::Objects),
            Value::String(_) => Some(ElementKind::Texts),
            Value::Array(_) => Some(ElementKind::Lists),
            _ => None,
        }
    }

    /// The name of an element, for messages.
    fn noun(self) -> &'static str {
        json_type_name(&match self {
            ElementKind::Objects => Value::Object(serde_json::Map::new()),
            ElementKind::Texts => Value::String(String::new()),
            ElementKind::Lists => Value::Array(Vec::new()),
        })
    }

    /// The name of such an array, for descriptions.
    pub(crate) fn array_noun(self) -> &'static str {
        match self {
            ElementKind::Objects => lang().pick("an array of objects", "オブジェクトの配列"),
            ElementKind::Texts => lang().pick("an array of strings", "文字列の配列"),
            ElementKind::Lists => lang().pick("an array of lists", "リストの配列"),
        }
    }
}

/// The position of the reader in the array.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ArrayPosition {
    BeforeArray,
    /// After the opening bracket.
    BeforeFirst,
    /// After an element.
    AfterElement,
    End,
}

/// Reads the elements of an array.
pub(crate) struct JsonArrayReader {
    lines: LineReader,
    position: ArrayPosition,
    /// The key that holds the array, if an object surrounds it.
    key: Option<String>,
    /// The type of the first element. All others must have the same.
    pub(crate) elements: Option<ElementKind>,
    /// Number of elements started so far.
    element: u64,
    width: RowWidth,
}

impl JsonArrayReader {
    pub(crate) fn new(lines: LineReader) -> Self {
        JsonArrayReader {
            lines,
            position: ArrayPosition::BeforeArray,
            key: None,
            elements: None,
            element: 0,
            width: RowWidth::default(),
        }
    }

    /// Number of lines started so far.
    pub(crate) fn lines_begun(&self) -> u64 {
        self.lines.lines_begun()
    }

    /// Returns the next element as a row. Reading may continue after a row error, but not after any other error.
    pub(crate) fn next_row(&mut self) -> Result<Option<Record>, DataError> {
        if self.position == ArrayPosition::End {
            return Ok(None);
        }
        let result = self.read_element();
        if !matches!(&result, Ok(Some(_))) && !result.as_ref().is_err_and(DataError::is_row_error) {
            self.position = ArrayPosition::End;
        }
        result
    }

    fn read_element(&mut self) -> Result<Option<Record>, DataError> {
        if self.position == ArrayPosition::BeforeArray {
            self.open_array()?;
        }
        let first = self.lines.peek_non_space()?;
        match (self.position, first) {
            (_, Some(b']')) => return self.close_array().map(|()| None),
            (ArrayPosition::AfterElement, Some(b',')) => {
                self.lines.skip_byte();
                self.lines.peek_non_space()?;
            }
            (ArrayPosition::AfterElement, found) => {
                let expected = lang().pick("a comma or ]", "コンマか ]");
                return Err(self.broken_array(expected, found));
            }
            _ => {}
        }
        self.position = ArrayPosition::AfterElement;
        self.element += 1;
        let BytePosition { line, column, offset } = self.lines.position();
        let text = self.read_value()?;
        let text = String::from_utf8(text).map_err(|error| {
            let (at, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
            let place = self.lines.location(line + count_lines(&bytes[..at]));
            DataError::NotUtf8 { place, offset: offset + at as u64, guess: guess_encoding(bytes) }
        })?;
        let value: Value = serde_json::from_str(&text).map_err(|error| {
            let place = self.lines.location(line + (error.line() as u64).saturating_sub(1));
            let before = if error.line() <= 1 { column } else { 1 };
            let place = place.at_column(before + characters_before(&text, error.line(), error.column()));
            DataError::BadElement { place, element: self.element, detail: error_detail(&error) }
        })?;
        self.record_from(value).map(Some)
    }

    /// Skips everything before the first element. In an object, these are keys whose values are not rows, such as a
    /// version.
    fn open_array(&mut self) -> Result<(), DataError> {
        self.position = ArrayPosition::BeforeFirst;
        let rows = lang().pick("an array of rows ([…])", "行の配列（[…]）");
        if self.lines.peek_non_space()? == Some(b'{') {
            self.lines.skip_byte();
            loop {
                self.key = Some(self.read_key()?);
                match self.lines.peek_non_space()? {
                    Some(b'[') => break,
                    Some(b'{') => return Err(self.broken_array(rows, Some(b'{'))),
                    _ => drop(self.read_value()?),
                }
                self.expect(b',', rows)?;
            }
        }
        self.expect(b'[', rows)
    }

    /// Reads a key of the surrounding object and its colon.
    fn read_key(&mut self) -> Result<String, DataError> {
        let mut key = String::new();
        if self.lines.peek_non_space()? == Some(b'"') {
            key = String::from_utf8_lossy(&self.read_value()?).trim_matches('"').to_owned();
        }
        self.expect(b':', lang().pick("a colon after a key that holds an array", "配列を持つキーの後のコロン"))?;
        Ok(key)
    }

    /// Checks that no other rows follow the array.
    fn close_array(&mut self) -> Result<(), DataError> {
        self.lines.skip_byte();
        if let Some(first) = self.key.clone() {
            while self.lines.peek_non_space()? == Some(b',') {
                self.lines.skip_byte();
                let key = self.read_key()?;
                if matches!(self.lines.peek_non_space()?, Some(b'[' | b'{')) {
                    let keys = join_names(&[quote(&first), quote(&key)]);
                    let keys = tr!("the keys {keys}", "キー {keys}");
                    let first = format!(".{first}");
                    return Err(DataError::SeveralArrays { path: self.lines.path().to_owned(), keys, first });
                }
                self.read_value()?;
            }
            self.expect(b'}', lang().pick("the end of the object around the array", "配列を囲むオブジェクトの終わり"))?;
        }
        match self.lines.peek_non_space()? {
            None => Ok(()),
            found => Err(self.broken_array(lang().pick("the end of the file", "ファイルの終わり"), found)),
        }
    }

    fn expect(&mut self, requested: u8, expected: &'static str) -> Result<(), DataError> {
        match self.lines.peek_non_space()? {
            Some(byte) if byte == requested => {
                self.lines.skip_byte();
                Ok(())
            }
            found => Err(self.broken_array(expected, found)),
        }
    }

    /// Reads the bytes of a value. It ends when its brackets are closed, or before a comma or bracket outside of it.
    fn read_value(&mut self) -> Result<Vec<u8>, DataError> {
        let line = self.lines.position().line;
        let (mut text, mut bytes, mut depth) = (Vec::new(), 0_u64, 0_u64);
        let (mut is_quoted, mut is_escaped) = (false, false);
        loop {
            let Some(byte) = self.lines.peek_byte()? else {
                let expected = match (is_quoted, depth) {
                    (true, _) => lang().pick("the end of a string", "文字列の終わり"),
                    _ => lang().pick("the end of the array (])", "配列の終わり（]）"),
                };
                return Err(self.broken_array(expected, None));
            };
            if !is_quoted && depth == 0 && (matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace()) {
                break;
            }
            self.lines.skip_byte();
            bytes += 1;
            // If the value is too long, the error reports only its length.
            match bytes <= MAX_ROW_BYTES {
                true => text.push(byte),
                false => text.clear(),
            }
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_quoted => is_escaped = true,
                b'"' => is_quoted = !is_quoted,
                _ if is_quoted => {}
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth -= 1,
                _ => {}
            }
            let is_whole = depth == 0 && !is_quoted && matches!(byte, b'"' | b']' | b'}');
            if is_whole {
                break;
            }
        }
        if bytes > MAX_ROW_BYTES {
            let (what, place) = (lang().pick("a row", "行"), self.lines.location(line));
            return Err(DataError::TooLong { place, what, limit: MAX_ROW_BYTES, bytes });
        }
        Ok(text)
    }

    fn record_from(&mut self, value: Value) -> Result<Record, DataError> {
        let number = self.element;
        let place = SourceLocation::row(self.lines.path(), number);
        let found = ElementKind::of_value(&value);
        self.elements = self.elements.or(found);
        if found.is_none() || found != self.elements {
            let any = lang().pick("an object, a string or a list", "オブジェクト・文字列・リストのいずれか");
            let expected = self.elements.map_or(any, ElementKind::noun);
            return Err(DataError::MixedElements { place, expected, found: json_type_name(&value) });
        }
        match value {
            Value::Object(object) => Ok(Record::from_object(number, object)),
            Value::Array(values) => {
                let count = values.len();
                let fields: Vec<String> = values.iter().map(value_to_text).collect();
                self.width.check("JSON", || place, number, count)?;
                Ok(Record::from_fields(number, fields))
            }
            other => Ok(Record::from_fields(number, vec![value_to_text(&other)])),
        }
    }

    /// The error for unexpected input, which cannot be skipped.
    fn broken_array(&self, expected: &'static str, found: Option<u8>) -> DataError {
        let BytePosition { line, column, .. } = self.lines.position();
        let found = match found {
            None => tr!("the end of the file", "ファイルの終わり"),
            Some(byte) if byte.is_ascii_graphic() => quote(&char::from(byte).to_string()),
            Some(_) => tr!("something else", "別のもの"),
        };
        DataError::BrokenArray {
            place: self.lines.location(line).at_column(column),
            after: self.element,
            expected,
            found,
        }
    }
}

/// Counts the line ends in these bytes.
fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// Counts the characters of a line of `text` before this column, which counts bytes from 1.
fn characters_before(text: &str, line: usize, column: usize) -> u64 {
    let line = text.split('\n').nth(line.saturating_sub(1)).unwrap_or_default();
    column_at(line, column.saturating_sub(1)) - 1
}

/// Returns whether the start of a file shows a JSON array, alone or in an object. Its first element must be valid, and
/// the lines must not be values on their own.
///
/// With the extension of a JSON file, a damaged first element is accepted.
pub(crate) fn is_array(head: &str, whole: bool, is_json_name: bool) -> bool {
    let text = head.trim_start();
    let Some(array) = text.strip_prefix('[').or_else(|| wrapped_array(text)) else { return false };
    let is_rows =
        |value: &Value| value.as_array().is_some_and(|items| items.iter().all(Value::is_object) && !items.is_empty());
    // An object on a line is a row, unless it holds a single array, or several arrays of rows. Beside one array of rows,
    // it may hold values that are no texts.
    let is_one_line = |value: &Value| {
        let is_wrapper = |object: &Map<String, Value>| {
            let (rows, others): (Vec<_>, Vec<_>) = object.iter().partition(|(_, value)| is_rows(value));
            let is_text = |name: &str| role_of_name(name) == Some(ColumnRole::Text);
            rows.len() > 1 || rows.len() == 1 && others.iter().all(|(name, value)| !is_text(name) && !value.is_array())
        };
        value.as_object().is_none_or(|object| object.len() == 1 || is_wrapper(object))
    };
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().and_then(|line| serde_json::from_str::<Value>(line).ok());
    if let Some(value) = first {
        // A line that is a complete value: it must be the whole file.
        return whole && lines.next().is_none() && is_one_line(&value);
    }
    if is_json_name {
        return true;
    }
    let mut elements = serde_json::Deserializer::from_str(array).into_iter::<Value>();
    match elements.next() {
        None => !whole,
        Some(Ok(value)) => {
            let behind = array[elements.byte_offset()..].trim_start();
            ElementKind::of_value(&value).is_some() && (behind.starts_with([',', ']']) || (behind.is_empty() && !whole))
        }
        Some(Err(error)) => {
            let begins = array.trim_start();
            begins.starts_with('{') || (begins.starts_with(['[', '"']) && error.is_eof() && !whole)
        }
    }
}

/// Returns the elements of an array inside an object, after keys that hold no rows.
fn wrapped_array(text: &str) -> Option<&str> {
    let mut rest = text.strip_prefix('{')?;
    let mut is_first = true;
    loop {
        let mut keys = serde_json::Deserializer::from_str(rest.trim_start()).into_iter::<String>();
        keys.next()?.ok()?;
        rest = rest.trim_start()[keys.byte_offset()..].trim_start().strip_prefix(':')?.trim_start();
        if let Some(elements) = rest.strip_prefix('[').filter(|rest| is_first || rest.trim_start().starts_with('{')) {
            return Some(elements);
        }
        is_first = false;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let value = values.next()?.ok()?;
        if value.is_object() {
            return None;
        }
        rest = rest[values.byte_offset()..].trim_start().strip_prefix(',')?;
    }
}
