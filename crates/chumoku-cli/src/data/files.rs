//! Loads files of rows, and reports how they were read.

use crate::progress::{RowProgress, print_status};
use chumoku::data::{
    DataFiles, Dataset, DocumentBreaks, Documents, LabelOptions, MultiLabelDataset, PairDataset, ReadOptions,
    ScoreDataset, SkippedRows, SpanDataset, load_documents, load_labeled, load_multi_label, load_pairs, load_scores,
    load_spans, load_texts_as_pairs,
};
use std::path::Path;

/// Reports how a file was read, and the skipped rows.
fn report_file(description: &str, skipped: &SkippedRows) {
    print_status(["data", "データ"], description);
    report_skipped(skipped);
}

/// Reports skipped rows, if there are any.
pub(crate) fn report_skipped(skipped: &SkippedRows) {
    if skipped.count > 0 {
        print_status(["skipped", "除外"], &skipped.to_string());
    }
}

/// Loads texts with one class each.
pub(crate) fn load_class_rows(path: &Path, options: &ReadOptions) -> anyhow::Result<Dataset> {
    let rows = RowProgress::while_reading(&options.rows_read, || load_labeled(path, options))?;
    report_file(&rows.description, &rows.skipped);
    Ok(rows)
}

/// Loads texts with several labels each.
pub(crate) fn load_label_rows(
    path: &Path,
    options: &ReadOptions,
    label_options: &LabelOptions,
) -> anyhow::Result<MultiLabelDataset> {
    let rows = RowProgress::while_reading(&options.rows_read, || load_multi_label(path, options, label_options))?;
    report_file(&rows.description, &rows.skipped);
    Ok(rows)
}

/// Loads texts with a number each.
pub(crate) fn load_number_rows(path: &Path, options: &ReadOptions) -> anyhow::Result<ScoreDataset> {
    let rows = RowProgress::while_reading(&options.rows_read, || load_scores(path, options))?;
    report_file(&rows.description, &rows.skipped);
    Ok(rows)
}

/// Loads texts with spans.
pub(crate) fn load_span_rows(path: &Path, options: &ReadOptions) -> anyhow::Result<SpanDataset> {
    refuse_if!(
        options.sheet.is_some(),
        "--sheet: texts with spans are read from JSONL and CoNLL files, which have no sheets; leave it out",
        "--sheet: スパン付きのテキストは JSONL か CoNLL のファイルから読みます。シートはないので、指定を外してください"
    );
    let rows = RowProgress::while_reading(&options.rows_read, || load_spans(path, options))?;
    report_file(&rows.description, &rows.skipped);
    Ok(rows)
}

/// Loads source texts with their translations.
pub(crate) fn load_translation_rows(path: &Path, options: &ReadOptions) -> anyhow::Result<PairDataset> {
    let rows = RowProgress::while_reading(&options.rows_read, || load_pairs(&DataFiles::from_argument(path), options))?;
    report_file(&rows.description, &rows.skipped);
    Ok(rows)
}

/// Loads texts, each paired with itself.
pub(crate) fn load_autoencoder_rows(path: &Path, options: &ReadOptions) -> anyhow::Result<PairDataset> {
    let rows = RowProgress::while_reading(&options.rows_read, || load_texts_as_pairs(path, options))?;
    report_file(&rows.description, &rows.skipped);
    Ok(rows)
}

/// Loads documents.
pub(crate) fn load_text_documents(path: &Path, options: &ReadOptions) -> anyhow::Result<Documents> {
    let documents =
        RowProgress::while_reading(&options.rows_read, || load_documents(path, DocumentBreaks::Auto, options))?;
    report_file(&documents.description, &documents.skipped);
    Ok(documents)
}
