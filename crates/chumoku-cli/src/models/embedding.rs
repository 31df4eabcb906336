//! Models that compute vectors of texts, and embedding with progress.

use super::load;
use crate::args::Precision;
use crate::data::report_skipped;
use crate::progress::{RowProgress, pluralize, print_status};
use chumoku::data::RowSource;
use chumoku::{EmbedOptions, Embeddings, ModelKind, Result, TextAutoencoder, TextClassifier, TextEmbedder, tr};
use std::path::Path;

/// Texts embedded at a time: enough for sorting by length.
const CHUNK_TEXTS: usize = 4096;

/// A model that computes vectors of texts.
#[derive(Clone, Copy)]
pub(crate) enum VectorModel {
    /// A pretrained encoder.
    Encoder(&'static TextEmbedder),
    /// The network of a trained classifier.
    Classifier(&'static TextClassifier),
    /// A trained autoencoder: the vectors are its codes.
    Autoencoder(&'static TextAutoencoder),
}

impl VectorModel {
    /// Loads a model, and reports how tokens become a vector.
    ///
    /// # Errors
    /// If the model has no vectors of texts, or cannot be read.
    pub(crate) fn load(folder: &Path, precision: Option<Precision>) -> anyhow::Result<VectorModel> {
        match ModelKind::from_folder(folder) {
            Ok(ModelKind::Classifier) => {
                let model = VectorModel::Classifier(load::classifier(folder, precision)?);
                let message = tr!(
                    "a classifier: each vector is the input of the network's last layer",
                    "分類器です。ネットワークの最後の層への入力をベクトルとします"
                );
                print_status(["vectors", "ベクトル"], &message);
                return Ok(model);
            }
            Ok(ModelKind::Autoencoder) => {
                let model = load::autoencoder(folder, precision)?;
                let width = model.embedding_dim();
                let message = tr!(
                    "an autoencoder: each vector is the {width} numbers that its decoder sees",
                    "オートエンコーダーです。デコーダーが受け取る {width} 個の数をベクトルとします"
                );
                print_status(["vectors", "ベクトル"], &message);
                return Ok(VectorModel::Autoencoder(model));
            }
            Ok(kind) if kind != ModelKind::Encoder => {
                let (folder, found) = (folder.display(), kind.describe());
                refuse!(
                    "{folder}: expected a pretrained encoder, a classifier with a network, or an autoencoder, found {found}",
                    "{folder}: 事前学習済みのエンコーダー、ネットワークのある分類器、オートエンコーダーのどれかが必要ですが、{found}です"
                );
            }
            _ => {}
        }
        let model = load::embedder(folder, precision)?;
        report_pooling(model);
        Ok(VectorModel::Encoder(model))
    }

    pub(crate) fn embedding_dim(self) -> usize {
        match self {
            VectorModel::Encoder(model) => model.embedding_dim(),
            VectorModel::Classifier(model) => model.embedding_dim(),
            VectorModel::Autoencoder(model) => model.embedding_dim(),
        }
    }

    /// Returns whether the model has a prompt of this name.
    pub(crate) fn has_prompt(self, name: &str) -> bool {
        matches!(self, VectorModel::Encoder(model) if model.prompts().any(|prompt| prompt == name))
    }

    pub(crate) fn embed(self, texts: &[&str], options: EmbedOptions<'_>) -> Result<Embeddings> {
        match self {
            VectorModel::Encoder(model) => model.embed(texts, options),
            VectorModel::Classifier(model) => model.embed(texts, options),
            VectorModel::Autoencoder(model) => model.embed(texts, options),
        }
    }
}

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
    model: VectorModel,
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
fn report_pooling(model: &TextEmbedder) {
    if !model.has_pooling_config() {
        let message = tr!(
            "the folder has no modules.json: using mean pooling and normalized vectors",
            "フォルダに modules.json がないため、平均プーリングを使い、ベクトルを長さ 1 に正規化します"
        );
        print_status(["vectors", "ベクトル"], &message);
    }
}

pub(crate) fn report_truncation(model: VectorModel, cut: usize) {
    let limit = match model {
        VectorModel::Encoder(model) => model.max_tokens(),
        VectorModel::Autoencoder(model) => model.max_tokens(),
        VectorModel::Classifier(_) => return,
    };
    if cut > 0 {
        let texts = pluralize(cut, "text");
        let message = tr!(
            "{texts} truncated to the model's maximum of {limit} tokens",
            "{cut} 個のテキストを、モデルの上限の {limit} トークンで切り詰めました"
        );
        print_status(["cut", "切り捨て"], &message);
    }
}
