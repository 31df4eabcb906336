//! Reads request bodies within limits, and parses their fields.

use crate::endpoints::Endpoint;
use crate::limits::Limits;
use crate::memory_budget::MemoryShare;
use crate::metrics::CountGuard;
use crate::model::ServerModel;
use crate::request_error::{ErrorType, RequestError, Result};
use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, StatusCode, header};
use chumoku::explain::SpanQuery;
use chumoku::lang::wording::{list_names, quote};
use chumoku::row::{AsRow, Row};
use chumoku::tr;
use serde_json::{Map, Value};
use std::future::poll_fn;
use std::pin::Pin;
use tokio::time::timeout;

/// Reads the JSON object of a body, without unknown fields. The request counts as `arriving` until the object is
/// dropped.
pub(crate) async fn read_fields(
    headers: &HeaderMap,
    body: Body,
    place: &Endpoint,
    (limits, mut share): (&Limits, MemoryShare),
    arriving: CountGuard,
) -> Result<RequestFields> {
    // Browsers send this content type from other sites only after a preflight request, which is refused.
    let is_json = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|value| {
        let kind = value.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/json")
    });
    if !is_json {
        return Err(RequestError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ErrorType::Validation,
            tr!(
                "expected JSON: send the header Content-Type: application/json",
                "JSON が必要です。ヘッダー Content-Type: application/json を付けてください"
            ),
        )
        .with_unread_body());
    }
    let most = limits.body;
    let too_large = || {
        RequestError::too_large(tr!(
            "the body has more than {most} bytes (--max-body)",
            "リクエストの本文が {most} バイト（--max-body）を超えています"
        ))
        .with_unread_body()
    };
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > most as u64) {
        return Err(too_large());
    }
    let read = timeout(limits.read, read_body(body, most, &mut share)).await.map_err(|_| {
        RequestError::new(
            StatusCode::REQUEST_TIMEOUT,
            ErrorType::Timeout,
            tr!(
                "the body did not arrive in time (--read-timeout)",
                "リクエストの本文が制限時間（--read-timeout）内に届きませんでした"
            ),
        )
        .with_unread_body()
    })?;
    let bytes = read?.ok_or_else(too_large)?;
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(mut fields)) => {
            fields.retain(|name, _| place.has_field(name));
            Ok(RequestFields { fields, _arriving: arriving })
        }
        Ok(_) => Err(RequestError::invalid(tr!(
            "expected a JSON object, such as {{\"inputs\": \"text\"}}",
            "{{\"inputs\": \"テキスト\"}} のような JSON オブジェクトが必要です"
        ))),
        Err(error) => Err(RequestError::malformed(tr!(
            "the body is not valid JSON (line {}, column {}): {}",
            "本文が JSON として正しくありません（{} 行 {} 文字目）: {}",
            error.line(),
            error.column(),
            json_error_reason(&error)
        ))),
    }
}

/// Returns the reason of a JSON error without quoting the body.
fn json_error_reason(error: &serde_json::Error) -> &'static str {
    let message = error.to_string();
    let lang = chumoku::lang::lang();
    if message.contains("recursion limit") {
        lang.pick("it is nested too deeply", "入れ子が深すぎます")
    } else if message.contains("hex") {
        lang.pick("an unpaired surrogate (\\ud800 to \\udfff)", "\\ud800 から \\udfff は単独では使えません")
    } else if message.contains("unicode") {
        lang.pick("it is not UTF-8", "UTF-8 ではありません")
    } else if message.contains("range") {
        lang.pick("a number that is too large", "数値が大きすぎます")
    } else if error.is_eof() {
        lang.pick("unexpected end", "途中で終わっています")
    } else {
        lang.pick("unexpected character", "予期しない文字があります")
    }
}

/// Reads the bytes of a body, which `share` counts; `None` if there are more than `most`.
async fn read_body(mut body: Body, most: usize, share: &mut MemoryShare) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let broken = |_| RequestError::malformed(tr!("the body is incomplete", "リクエストの本文が途中で切れました"));
        // Trailers carry no data.
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        if bytes.len() + data.len() > most {
            return Ok(None);
        }
        share.grow(data.len()).map_err(RequestError::with_unread_body)?;
        bytes.extend_from_slice(&data);
    }
    Ok(Some(bytes))
}

/// The fields of a request, which counts as arriving until this is dropped.
pub(crate) struct RequestFields {
    fields: Map<String, Value>,
    _arriving: CountGuard,
}

impl RequestFields {
    /// The error for a field of the wrong type.
    fn wrong_type(name: &str, expected: &str) -> RequestError {
        RequestError::invalid(tr!("{name}: expected {expected}", "{name}: {expected}が必要です"))
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>> {
        let wrong = || Self::wrong_type(name, chumoku::lang::lang().pick("true or false", "true か false"));
        self.get(name).map(|value| value.as_bool().ok_or_else(wrong)).transpose()
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>> {
        let wrong = || Self::wrong_type(name, chumoku::lang::lang().pick("a text", "文字列"));
        self.get(name).map(|value| value.as_str().ok_or_else(wrong)).transpose()
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>> {
        let wrong = || Self::wrong_type(name, chumoku::lang::lang().pick("a number", "数値"));
        self.get(name).map(|value| value.as_f64().ok_or_else(wrong)).transpose()
    }

    /// Returns a whole number from `least` to `most`.
    pub(crate) fn integer(&self, name: &str, [least, most]: [u64; 2]) -> Result<Option<u64>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let found = value.as_u64().filter(|n| (least..=most).contains(n));
        found.map(Some).ok_or_else(|| {
            RequestError::invalid(tr!(
                "{name}: expected a whole number from {least} to {most}",
                "{name}: {least} から {most} までの整数が必要です"
            ))
        })
    }

    /// Returns a span of characters with its optional label.
    pub(crate) fn span(&self, name: &str) -> Result<Option<SpanQuery>> {
        let wrong = || {
            Self::wrong_type(
                name,
                chumoku::lang::lang().pick(
                    "an object with the start (from 0) and end of the span in characters, and an optional label, such as \
                     {\"start\": 0, \"end\": 4, \"label\": \"person\"}",
                    "スパンの開始位置（0 から）と終了位置を文字数で示し、必要ならラベルを付けた {\"start\": 0, \"end\": 4, \"label\": \"person\"} のような\
                     オブジェクト",
                ),
            )
        };
        let Some(value) = self.get(name) else { return Ok(None) };
        let fields = value.as_object().ok_or_else(wrong)?;
        let border = |name: &str| usize::try_from(fields.get(name)?.as_u64()?).ok();
        let (Some(start), Some(end)) = (border("start"), border("end")) else { return Err(wrong()) };
        let label = match fields.get("label") {
            None | Some(Value::Null) => None,
            Some(Value::String(label)) => Some(label.clone()),
            Some(_) => return Err(wrong()),
        };
        Ok(Some(SpanQuery { start, end, label }))
    }

    /// Returns the required field of this name.
    fn inputs(&self, name: &str) -> Result<&Value> {
        self.get(name).ok_or_else(|| {
            RequestError::invalid(tr!(
                "{name} is missing: send a text or a list of texts",
                "{name} がありません。テキストかテキストの配列を送ってください"
            ))
        })
    }

    /// Returns one text or several, and true if it was one.
    pub(crate) fn texts(&self, name: &str, limits: &Limits) -> Result<(Vec<String>, bool)> {
        let (texts, is_one) = match self.inputs(name)? {
            Value::String(text) => (vec![text.clone()], true),
            Value::Array(all) => {
                let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(|| not_texts(name));
                (all.iter().map(text).collect::<Result<_>>()?, false)
            }
            _ => return Err(not_texts(name)),
        };
        check_texts(name, &texts, limits)?;
        Ok((texts, is_one))
    }

    /// Returns the texts or pairs that a model reads, joined with their feature columns, and true if it was one.
    pub(crate) fn rows(&self, model: &ServerModel, limits: &Limits) -> Result<(Vec<Row>, bool)> {
        let (given, is_one) = self.sequences("inputs", model.reads_pairs())?;
        check_rows("inputs", &given, limits)?;
        let cells = self.columns(model, limits)?;
        // Each text is read together with all column values.
        let (bytes, most) = (cells.iter().map(String::len).sum::<usize>(), limits.body);
        if bytes.saturating_mul(given.len()) > most {
            return Err(RequestError::too_large(tr!(
                "columns: the size of the values times the number of texts exceeds {most} bytes (--max-body): {bytes} bytes for each of {} texts",
                "columns: 値のバイト数とテキスト数の積は {most}（--max-body）までですが、{bytes} バイトが {} テキスト分あります",
                given.len()
            )));
        }
        let row = |parts: Vec<String>| {
            let row = join_parts(parts);
            if cells.is_empty() { row } else { row.as_row().with_values(&cells) }
        };
        Ok((given.into_iter().map(row).collect(), is_one))
    }

    /// Returns one more text or pair that a model reads, without feature columns.
    pub(crate) fn other_row(&self, name: &str, model: &ServerModel, limits: &Limits) -> Result<Option<Row>> {
        if self.get(name).is_none() {
            return Ok(None);
        }
        let (mut given, _) = self.sequences(name, model.reads_pairs())?;
        check_rows(name, &given, limits)?;
        match given.len() {
            1 => Ok(given.pop().map(join_parts)),
            _ => {
                Err(RequestError::invalid(tr!("{name}: expected one text", "{name}: テキストを 1 つ指定してください")))
            }
        }
    }

    /// Parses texts or pairs in the format of text-embeddings-inference: "a" or ["a"] is one text, ["a", "b"] one pair,
    /// and [["a"], …] or [["a", "b"], …] are many. For a model of single texts, ["a", "b"] are two texts.
    fn sequences(&self, name: &str, reads_pairs: bool) -> Result<(Vec<Vec<String>>, bool)> {
        let inputs = self.inputs(name)?;
        let strings = |values: &[Value]| -> Option<Vec<String>> {
            values.iter().map(|value| value.as_str().map(str::to_owned)).collect()
        };
        let found = match inputs {
            Value::String(text) => Some((vec![vec![text.clone()]], true)),
            Value::Array(all) if all.first().is_none_or(Value::is_string) => {
                strings(all).map(|texts| match texts.len() {
                    1 => (vec![texts], true),
                    2 if reads_pairs => (vec![texts], true),
                    _ => (texts.into_iter().map(|text| vec![text]).collect(), false),
                })
            }
            Value::Array(all) => {
                let each =
                    all.iter().map(|value| strings(value.as_array()?).filter(|parts| (1..=2).contains(&parts.len())));
                each.collect::<Option<Vec<_>>>().map(|all| (all, false))
            }
            _ => None,
        };
        let Some((given, is_one)) = found else { return Err(not_texts(name)) };
        let fits = |parts: &Vec<String>| (parts.len() == 2) == reads_pairs;
        match (given.iter().all(fits), reads_pairs) {
            (true, _) => Ok((given, is_one)),
            (false, true) => Err(RequestError::invalid(tr!(
                "{name}: this model reads pairs of texts: send [\"first\", \"second\"], or a list of such pairs",
                "{name}: このモデルは 2 つのテキストの組を読みます。[\"1 つ目\", \"2 つ目\"] か、その配列を送ってください"
            ))),
            (false, false) => Err(RequestError::invalid(tr!(
                "{name}: this model reads single texts: send \"text\" or [[\"text\"], [\"text\"]]",
                "{name}: このモデルが読むのは 1 つのテキストです。\"テキスト\" か [[\"テキスト\"], [\"テキスト\"]] を送ってください"
            ))),
        }
    }

    /// Returns the `columns` of a request: a value for each feature column of the model.
    fn columns(&self, model: &ServerModel, limits: &Limits) -> Result<Vec<String>> {
        let columns = model.columns();
        let mut cells = vec![String::new(); columns.len()];
        let Some(given) = self.get("columns") else { return Ok(cells) };
        let wrong = || {
            Self::wrong_type(
                "columns",
                chumoku::lang::lang()
                    .pick("an object with a text or number for each column", "列ごとに文字列か数値を持つオブジェクト"),
            )
        };
        for (name, value) in given.as_object().ok_or_else(wrong)? {
            let Some(at) = columns.iter().position(|column| column.name == *name) else {
                let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
                return Err(RequestError::invalid(match names.is_empty() {
                    true => tr!(
                        "columns: this model reads no feature columns",
                        "columns: このモデルはテキストだけを読みます"
                    ),
                    false => tr!(
                        "columns: expected columns that the model reads ({}), found {}",
                        "columns: モデルが読む列（{}）が必要ですが、{} です",
                        list_names(&names),
                        quote(name)
                    ),
                }));
            };
            let cell = match value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                Value::Null => continue,
                _ => return Err(wrong()),
            };
            check_length("columns", &cell, limits)?;
            if columns[at].is_unreadable(&cell) {
                return Err(RequestError::invalid(columns[at].error_message(&cell)));
            }
            cells[at] = cell;
        }
        Ok(cells)
    }
}

fn not_texts(name: &str) -> RequestError {
    RequestError::invalid(tr!(
        "{name}: expected a text or a list of texts",
        "{name}: テキストかテキストの配列が必要です"
    ))
}

fn check_count(name: &str, count: usize, limits: &Limits) -> Result<()> {
    let most = limits.texts;
    if count == 0 {
        return Err(RequestError::empty(tr!("{name} is empty", "{name} が空です")));
    }
    if count > most {
        return Err(RequestError::too_large(tr!(
            "{name}: expected at most {most} texts (--max-texts), found {count}",
            "{name}: テキストは {most} 個（--max-texts）までですが、{count} 個あります"
        )));
    }
    Ok(())
}

/// Joins a text, or the texts of a pair.
fn join_parts(mut parts: Vec<String>) -> Row {
    match &parts[..] {
        [first, second] => Row::pair(first, second),
        _ => parts.swap_remove(0).into(),
    }
}

/// Checks the texts of rows, and the number of rows.
fn check_rows(name: &str, rows: &[Vec<String>], limits: &Limits) -> Result<()> {
    for (at, parts) in rows.iter().enumerate() {
        if parts.iter().any(|part| part.trim().is_empty()) {
            return Err(empty_text(name, at, rows.len()));
        }
        check_texts(name, parts, &Limits { texts: usize::MAX, ..*limits })?;
    }
    check_count(name, rows.len(), limits)
}

/// Checks that there are texts, and that they are within the limits.
pub(crate) fn check_texts(name: &str, texts: &[String], limits: &Limits) -> Result<()> {
    check_count(name, texts.len(), limits)?;
    for (at, text) in texts.iter().enumerate() {
        if text.trim().is_empty() {
            return Err(empty_text(name, at, texts.len()));
        }
        check_length(name, text, limits)?;
    }
    Ok(())
}

/// The error for an empty text, counted from 0.
fn empty_text(name: &str, at: usize, of: usize) -> RequestError {
    let at = at + 1;
    RequestError::empty(match of {
        1 => tr!("{name}: the text is empty", "{name}: テキストが空です"),
        _ => tr!("{name}: text {at} of {of} is empty", "{name}: {of} 個のうち {at} 番目のテキストが空です"),
    })
}

fn check_length(name: &str, text: &str, limits: &Limits) -> Result<()> {
    let most = limits.characters;
    // A character has at least one byte.
    let count = if text.len() > most { text.chars().count() } else { 0 };
    if count > most {
        return Err(RequestError::too_large(tr!(
            "{name}: expected texts of at most {most} characters (--max-chars), found {count}",
            "{name}: テキストは {most} 文字（--max-chars）までですが、{count} 文字あります"
        )));
    }
    Ok(())
}
