//! Embeds texts with progress.

use crate::data::report_skipped;
use crate::progress::{RowProgress, pluralize, print_status};
use chumoku::data::RowSource;
use chumoku::{EmbedOptions, Embeddings, TextEmbedder, tr};

/// Texts embedded at a time: enough for sorting by length.
const CHUNK_TEXTS: usize = 4096;

/// Reads the texts of a file's rows.
pub(crate) fn read_texts(source: RowSource) -> anyhow::Result<Vec<String>> {
    let column = source.columns().text;
    let mut records = source.records();
    let mut texts = Vec::new();
    for record in records.by_ref() {
        texts.push(record?.field(column).to_owned());
    }
    report_skipped(records.skipped());
    Ok(texts)
}

/// Embeds many texts, with progress.
pub(crate) fn embed_texts(
    model: &TextEmbedder,
    texts: &[String],
    options: EmbedOptions<'_>,
) -> anyhow::Result<Embeddings> {
    let mut progress = RowProgress::new();
    let mut all = model.embed(&[], options)?;
    for chunk in texts.chunks(CHUNK_TEXTS) {
        let chunk: Vec<&str> = chunk.iter().map(String::as_str).collect();
        all.append(model.embed(&chunk, options)?);
        progress.add(chunk.len());
    }
    progress.finish();
    report_truncation(model, all.truncated);
    Ok(all)
}

/// Reports how tokens become a vector if the folder does not say.
pub(crate) fn report_pooling(model: &TextEmbedder) {
    if !model.has_pooling_config() {
        let message = tr!(
            "the folder has no modules.json: using mean pooling and normalized vectors",
            "フォルダに modules.json がないため、平均プーリングを使い、ベクトルを長さ 1 に正規化します"
        );
        print_status(["vectors", "ベクトル"], &message);
    }
}

pub(crate) fn report_truncation(model: &TextEmbedder, cut: usize) {
    if cut > 0 {
        let (texts, limit) = (pluralize(cut, "text"), model.limit());
        let message = tr!(
            "{texts} truncated to the model's maximum of {limit} tokens",
            "{cut} 個のテキストを、モデルの上限の {limit} トークンで切り詰めました"
        );
        print_status(["cut", "切り捨て"], &message);
    }
}
