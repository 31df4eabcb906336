//! Reads Parquet row by row through the record API of the `parquet` crate.
//!
//! That crate panics on some damaged files, so every call to it is caught (`panics.rs`).

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::basic::{Compression, ConvertedType, LogicalType, Type as PhysicalType};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use serde_json::{Map, Number, Value};

use super::error::{DataError, SourceLocation};
use super::record::Record;
use crate::lang::wording::list_names;
use crate::panics;
use crate::tr;

/// Reads the rows of a Parquet file.
pub(crate) struct ParquetReader {
    path: PathBuf,
    rows: Option<RowIter<'static>>,
    /// The column names, in order.
    pub(crate) columns: Vec<String>,
    row: u64,
}

impl ParquetReader {
    /// Opens a Parquet file and checks that it has a column of strings.
    pub(crate) fn open(path: &Path, file: File) -> Result<Self, DataError> {
        let reader = catch_panics(path, || SerializedFileReader::new(file))?;
        let chunks = reader.metadata().row_groups().iter().flat_map(|group| group.columns());
        if chunks.into_iter().any(|chunk| chunk.compression() == Compression::LZO) {
            return Err(DataError::ParquetCodec { path: path.to_owned(), codec: "LZO" });
        }
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let fields = schema.root_schema().get_fields();
        let columns: Vec<String> = fields.iter().map(|field| field.name().to_owned()).collect();
        if !fields.iter().any(|field| holds_strings(field)) {
            let columns = match columns.is_empty() {
                true => tr!("none", "列がありません"),
                false => tr!("only {}", "{} しかありません", list_names(&columns)),
            };
            return Err(DataError::NoStringColumns { path: path.to_owned(), columns });
        }
        let rows = catch_panics(path, || Ok(reader.into_iter()))?;
        Ok(ParquetReader { path: path.to_owned(), rows: Some(rows), columns, row: 0 })
    }

    pub(crate) fn location(&self, row: u64) -> SourceLocation {
        SourceLocation::row(&self.path, row)
    }

    pub(crate) fn next_row(&mut self) -> Result<Option<Record>, DataError> {
        // Taken out during the call, so that it is gone after an error. Otherwise it would repeat the error forever.
        let Some(mut rows) = self.rows.take() else {
            return Ok(None);
        };
        let row = catch_panics(&self.path, || rows.next().transpose())?;
        let Some(row) = row else { return Ok(None) };
        self.rows = Some(rows);
        self.row += 1;
        let object = catch_panics(&self.path, || Ok(row_to_object(&row)))?;
        Ok(Some(Record::from_object(self.row, object)))
    }
}

/// Runs a step of the `parquet` crate and converts its errors and panics.
fn catch_panics<T>(path: &Path, work: impl FnOnce() -> parquet::errors::Result<T>) -> Result<T, DataError> {
    let detail = match panics::catch_silently(work) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => panic,
    };
    // Keeps the message on one line.
    let detail = detail.split_whitespace().collect::<Vec<_>>().join(" ");
    Err(DataError::Parquet { path: path.to_owned(), detail })
}

/// Returns whether a column holds strings, or groups of several strings, such as translations in two languages.
fn holds_strings(field: &Type) -> bool {
    match field.is_group() {
        true => field.get_fields().iter().filter(|field| is_string(field)).count() > 1,
        false => is_string(field),
    }
}

/// Returns whether a column holds strings. Older writers do not mark their bytes as text.
fn is_string(field: &Type) -> bool {
    if !field.is_primitive() || field.get_physical_type() != PhysicalType::BYTE_ARRAY {
        return false;
    }
    let info = field.get_basic_info();
    match info.logical_type_ref() {
        Some(LogicalType::String | LogicalType::Enum | LogicalType::Json) => true,
        Some(_) => false,
        None => matches!(
            info.converted_type(),
            ConvertedType::NONE | ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON
        ),
    }
}

fn row_to_object(row: &Row) -> Map<String, Value> {
    row.get_column_iter().map(|(name, field)| (name.clone(), field_to_value(field))).collect()
}

/// Converts a field to JSON. Non-finite numbers become null, times become text, and bytes that are not text become
/// their count.
fn field_to_value(field: &Field) -> Value {
    let float = |value: f64| Number::from_f64(value).map_or(Value::Null, Value::Number);
    match field {
        Field::Null => Value::Null,
        Field::Bool(value) => Value::Bool(*value),
        Field::Byte(value) => (*value).into(),
        Field::Short(value) => (*value).into(),
        Field::Int(value) => (*value).into(),
        Field::Long(value) => (*value).into(),
        Field::UByte(value) => (*value).into(),
        Field::UShort(value) => (*value).into(),
        Field::UInt(value) => (*value).into(),
        Field::ULong(value) => (*value).into(),
        Field::Float16(value) => float(f64::from(value.to_f32())),
        // Converts the decimal digits, so that 0.1 stays 0.1.
        Field::Float(value) => float(value.to_string().parse().unwrap_or(f64::from(*value))),
        Field::Double(value) => float(*value),
        Field::Str(value) => Value::String(value.clone()),
        Field::Bytes(value) => match std::str::from_utf8(value.data()) {
            Ok(text) => Value::String(text.to_owned()),
            Err(_) => Value::String(format!("<{} bytes>", value.len())),
        },
        Field::Group(row) => Value::Object(row_to_object(row)),
        Field::ListInternal(list) => list.elements().iter().map(field_to_value).collect(),
        Field::MapInternal(map) => {
            let key = |field: &Field| super::record::value_to_text(&field_to_value(field));
            Value::Object(map.entries().iter().map(|(k, v)| (key(k), field_to_value(v))).collect())
        }
        Field::Decimal(_)
        | Field::Date(_)
        | Field::TimeMillis(_)
        | Field::TimeMicros(_)
        | Field::TimestampMillis(_)
        | Field::TimestampMicros(_) => {
            // The library panics on times outside its calendar. The other columns of the row are still usable.
            panics::catch_silently(|| field.to_string()).map_or(Value::Null, Value::String)
        }
    }
}
