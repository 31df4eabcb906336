//! Models in folders: loading, and reloading after a change.

use chumoku::answers::ModelTokenizer;
use chumoku::{
    EmbedOptions, Embeddings, FeatureColumn, ModelKind, NgramClassifier, Predictor, TextAutoencoder, TextClassifier,
    TextEmbedder, TextGenerator, TextTagger, TextTranslator, read_model_folder,
};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A model of any kind.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each folder that is served, on the heap")]
pub(crate) enum ServerModel {
    Classifier(TextClassifier),
    Ngrams(NgramClassifier),
    Tagger(TextTagger),
    Embedder(TextEmbedder),
    Translator(TextTranslator),
    Autoencoder(TextAutoencoder),
    Generator(TextGenerator),
}

impl ServerModel {
    fn load(folder: &Path) -> chumoku::Result<ServerModel> {
        read_model_folder(folder, || ServerModel::load_once(folder))
    }

    fn load_once(folder: &Path) -> chumoku::Result<ServerModel> {
        Ok(match ModelKind::from_folder(folder)? {
            ModelKind::Ngrams => ServerModel::Ngrams(NgramClassifier::load(folder)?),
            ModelKind::Tagger => ServerModel::Tagger(TextTagger::load(folder)?),
            ModelKind::Encoder => ServerModel::Embedder(TextEmbedder::load(folder, None)?),
            ModelKind::Translator => ServerModel::Translator(TextTranslator::load(folder)?),
            ModelKind::Autoencoder => ServerModel::Autoencoder(TextAutoencoder::load(folder)?),
            ModelKind::LanguageModel => ServerModel::Generator(TextGenerator::load(folder)?),
            // Loading fails with a message for any other kind of model.
            _ => ServerModel::Classifier(TextClassifier::load(folder)?),
        })
    }

    /// Returns the kind as JSON and the log name it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            ServerModel::Classifier(_) => "classifier",
            ServerModel::Ngrams(_) => "ngrams",
            ServerModel::Tagger(_) => "tagger",
            ServerModel::Embedder(_) => "encoder",
            ServerModel::Translator(_) => "translator",
            ServerModel::Autoencoder(_) => "autoencoder",
            ServerModel::Generator(_) => "language_model",
        }
    }

    /// Returns the predictor of classes, labels or numbers.
    pub(crate) fn predictor(&self) -> Option<Predictor<'_>> {
        match self {
            ServerModel::Classifier(model) => Some(Predictor::Classifier(model)),
            ServerModel::Ngrams(model) => Some(Predictor::Ngrams(model)),
            _ => None,
        }
    }

    /// Returns the model as a tokenizer.
    pub(crate) fn tokenized(&self) -> Option<ModelTokenizer<'_>> {
        match self {
            ServerModel::Classifier(model) => Some(ModelTokenizer::Classifier(model)),
            ServerModel::Translator(model) => Some(ModelTokenizer::Translator(model)),
            ServerModel::Autoencoder(model) => Some(ModelTokenizer::Translator(&model.0)),
            ServerModel::Generator(model) => Some(ModelTokenizer::Generator(model)),
            ServerModel::Embedder(model) => Some(ModelTokenizer::Embedder(model)),
            ServerModel::Ngrams(_) | ServerModel::Tagger(_) => None,
        }
    }

    pub(crate) fn reads_pairs(&self) -> bool {
        self.predictor().is_some_and(Predictor::reads_pairs)
    }

    /// Returns true if the model has layers that read an answer: it can be patched, and has a logit lens.
    pub(crate) fn has_readable_layers(&self) -> bool {
        match self {
            ServerModel::Classifier(model) => model.config().model.backbone.transformer().is_some(),
            ServerModel::Tagger(model) => model.has_network(),
            ServerModel::Translator(_) | ServerModel::Generator(_) => true,
            ServerModel::Ngrams(_) | ServerModel::Embedder(_) | ServerModel::Autoencoder(_) => false,
        }
    }

    pub(crate) fn columns(&self) -> &[FeatureColumn] {
        self.predictor().map_or(&[], Predictor::columns)
    }

    /// Returns the dimension of embeddings.
    pub(crate) fn embedding_dim(&self) -> Option<usize> {
        match self {
            ServerModel::Embedder(model) => Some(model.embedding_dim()),
            ServerModel::Autoencoder(model) => Some(model.embedding_dim()),
            _ => None,
        }
    }

    /// Returns the vectors of texts, for an autoencoder the codes. `None` for models without vectors.
    pub(crate) fn embed(&self, texts: &[&str], options: EmbedOptions<'_>) -> Option<chumoku::Result<Embeddings>> {
        match self {
            ServerModel::Embedder(model) => Some(model.embed(texts, options)),
            ServerModel::Autoencoder(model) => Some(model.embed(texts, options)),
            _ => None,
        }
    }

    /// Returns the maximum number of tokens that the model reads at once.
    pub(crate) fn max_tokens(&self) -> Option<usize> {
        match self {
            ServerModel::Classifier(model) => Some(model.window()),
            ServerModel::Embedder(model) => Some(model.max_tokens()),
            ServerModel::Translator(model) => Some(model.config().model.max_length - 1),
            ServerModel::Autoencoder(model) => Some(model.max_tokens()),
            ServerModel::Generator(model) => Some(model.config().model.max_length),
            ServerModel::Ngrams(_) | ServerModel::Tagger(_) => None,
        }
    }

    /// Returns the model type in the format of text-embeddings-inference.
    fn model_type(&self) -> Value {
        if let ServerModel::Embedder(model) = self {
            return json!({ "embedding": { "dimension": model.embedding_dim() } });
        }
        let labels = match self {
            ServerModel::Tagger(model) => model.labels(),
            // The labels of such a model are steps of the number, which no answer names.
            _ if self.predictor().is_some_and(Predictor::predicts_numbers) => &[],
            _ => self.predictor().map_or(&[][..], Predictor::labels),
        };
        if labels.is_empty() {
            return Value::from(self.kind());
        }
        let ids: Map<String, Value> = labels.iter().enumerate().map(|(id, label)| (label.clone(), id.into())).collect();
        let names: Map<String, Value> =
            labels.iter().enumerate().map(|(id, label)| (id.to_string(), label.as_str().into())).collect();
        let name = if matches!(self, ServerModel::Tagger(_)) { "token_classifier" } else { "classifier" };
        json!({ name: { "id2label": names, "label2id": ids } })
    }
}

/// A model loaded from a folder.
#[derive(Debug)]
pub(crate) struct LoadedModel {
    pub(crate) name: String,
    pub(crate) model: ServerModel,
    stamp: FolderStamp,
}

/// Files of a folder. The stamp differs if the model has changed.
pub(crate) type FolderStamp = Vec<FileStamp>;

/// A file with its size and modification time.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileStamp {
    path: PathBuf,
    size: u64,
    modified: Option<SystemTime>,
}

/// Returns the stamp of a folder; empty if the folder cannot be read.
pub(crate) fn folder_stamp(folder: &Path) -> FolderStamp {
    let mut found = Vec::new();
    // Training checkpoints and logs in nested folders are not part of the model; folders such as `1_Pooling` are.
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(data) = fs::metadata(entry.path()) else { continue };
            match data.is_dir() {
                true if depth == 0 => folders.push((entry.path(), 1)),
                true => {}
                false => found.push(FileStamp { path: entry.path(), size: data.len(), modified: data.modified().ok() }),
            }
        }
    }
    found.sort();
    found
}

impl LoadedModel {
    pub(crate) fn read(name: &str, folder: &Path) -> chumoku::Result<LoadedModel> {
        chumoku::failpoint::hit("load");
        // Taken before loading, so that a change during loading is seen by the next reload.
        let stamp = folder_stamp(folder);
        Ok(LoadedModel { name: name.to_owned(), model: ServerModel::load(folder)?, stamp })
    }

    pub(crate) fn has_stamp(&self, stamp: &FolderStamp) -> bool {
        self.stamp == *stamp
    }

    /// Returns the entry of the model in `/info`.
    pub(crate) fn info(&self) -> Map<String, Value> {
        let mut info = Map::new();
        info.insert("model_id".into(), self.name.as_str().into());
        info.insert("model_sha".into(), Value::Null);
        info.insert("model_dtype".into(), "float32".into());
        info.insert("model_type".into(), self.model.model_type());
        info.insert("kind".into(), self.model.kind().into());
        info.insert("max_input_length".into(), self.model.max_tokens().into());
        if self.model.predictor().is_some_and(Predictor::predicts_numbers) {
            info.insert("tells_numbers".into(), true.into());
        }
        if self.model.reads_pairs() {
            info.insert("reads_pairs".into(), true.into());
        }
        if matches!(&self.model, ServerModel::Generator(model) if model.has_chat_template()) {
            info.insert("answers_messages".into(), true.into());
        }
        let columns: Vec<&str> = self.model.columns().iter().map(|column| column.name.as_str()).collect();
        if !columns.is_empty() {
            info.insert("columns".into(), columns.into());
        }
        info
    }
}
