//! Read options from the shared flags.

use crate::args::{DataFormat, HeaderMode, ReadArgs};
use chumoku::data::{Format, ReadOptions};

/// Returns the read options that the shared flags request.
pub(crate) fn read_options(reading: &ReadArgs, require_label: bool) -> anyhow::Result<ReadOptions> {
    let (format, find_delimiter) = match (reading.format, reading.delimiter) {
        (None, None) => (None, false),
        (None | Some(DataFormat::Tsv), Some('\t')) | (Some(DataFormat::Tsv), None) => (Some(Format::Tsv), false),
        (None | Some(DataFormat::Csv), Some(delimiter)) => (Some(Format::Csv { delimiter }), false),
        (Some(DataFormat::Csv), None) => (Some(Format::Csv { delimiter: ',' }), true),
        (Some(format), Some(_)) => {
            let name =
                clap::ValueEnum::to_possible_value(&format).map_or_else(String::new, |value| value.get_name().into());
            refuse!(
                "--delimiter: only CSV has a delimiter to choose, and the format is --format {name}; leave one of them out",
                "--delimiter: 区切り文字を選べるのは CSV だけですが、--format {name} が指定されています。どちらかを外してください"
            );
        }
        (Some(DataFormat::Jsonl), None) => (Some(Format::JsonLines), false),
        (Some(DataFormat::Json), None) => (Some(Format::Json), false),
        (Some(DataFormat::Parquet), None) => (Some(Format::Parquet), false),
        (Some(DataFormat::Excel), None) => (Some(Format::Excel), false),
        (Some(DataFormat::Fasttext), None) => (Some(Format::FastText), false),
        (Some(DataFormat::Text), None) => (Some(Format::PlainText), false),
    };
    let mut options = ReadOptions::default();
    options.text = reading.text.clone();
    options.label = reading.label.clone();
    options.encoding = reading.encoding.clone();
    options.skip_bad_rows = reading.skip_bad_rows;
    options.require_label = require_label;
    options.require_text = true;
    options.format = format;
    options.find_delimiter = find_delimiter;
    options.copies = reading.pipe_buffer.clone();
    options.sheet = reading.sheet.clone();
    options.features = reading.feature_columns.clone();
    options.header = match reading.header {
        None | Some(HeaderMode::Auto) => None,
        Some(header) => Some(header == HeaderMode::Yes),
    };
    options.missing = reading.missing.as_ref().map(|values| {
        let is_none = matches!(values.as_slice(), [only] if only.eq_ignore_ascii_case("none"));
        if is_none { Vec::new() } else { values.clone() }
    });
    options.merge_labels = reading.merge_labels.then(Vec::new);
    options.training_options = reading.training_source.as_ref().map(|source| Box::new(source.options()));
    Ok(options)
}
