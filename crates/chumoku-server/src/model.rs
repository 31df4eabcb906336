//! A model as it stands in a folder: read, and read again when the folder has changed.

use chumoku::answers::{Predictor, Tokenized};
use chumoku::{
    ModelKind, NgramClassifier, SideColumn, TextClassifier, TextEmbedder, TextGenerator, TextTagger, TextTranslator,
    read_model_folder,
};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A model of one of the kinds.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each folder that is served, on the heap")]
pub(crate) enum Model {
    Classifier(TextClassifier),
    Ngrams(NgramClassifier),
    Tagger(TextTagger),
    Embedder(TextEmbedder),
    Translator(TextTranslator),
    Generator(TextGenerator),
}

impl Model {
    fn load(folder: &Path) -> chumoku::Result<Model> {
        read_model_folder(folder, || Model::load_once(folder))
    }

    fn load_once(folder: &Path) -> chumoku::Result<Model> {
        Ok(match ModelKind::of(folder)? {
            ModelKind::Ngrams => Model::Ngrams(NgramClassifier::load(folder)?),
            ModelKind::Tagger => Model::Tagger(TextTagger::load(folder)?),
            ModelKind::Encoder => Model::Embedder(TextEmbedder::load(folder, None)?),
            ModelKind::Translator => Model::Translator(TextTranslator::load(folder)?),
            ModelKind::LanguageModel => Model::Generator(TextGenerator::load(folder)?),
            // Says what is wrong with a model of another kind.
            _ => Model::Classifier(TextClassifier::load(folder)?),
        })
    }

    /// As JSON and the log name it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Model::Classifier(_) => "classifier",
            Model::Ngrams(_) => "ngrams",
            Model::Tagger(_) => "tagger",
            Model::Embedder(_) => "encoder",
            Model::Translator(_) => "translator",
            Model::Generator(_) => "language_model",
        }
    }

    /// What predicts classes, labels or numbers.
    pub(crate) fn predictor(&self) -> Option<Predictor<'_>> {
        match self {
            Model::Classifier(model) => Some(Predictor::Classifier(model)),
            Model::Ngrams(model) => Some(Predictor::Ngrams(model)),
            _ => None,
        }
    }

    /// What cuts texts into tokens.
    pub(crate) fn tokenized(&self) -> Option<Tokenized<'_>> {
        match self {
            Model::Classifier(model) => Some(Tokenized::Classifier(model)),
            Model::Translator(model) => Some(Tokenized::Translator(model)),
            Model::Generator(model) => Some(Tokenized::Generator(model)),
            Model::Embedder(model) => Some(Tokenized::Embedder(model)),
            Model::Ngrams(_) | Model::Tagger(_) => None,
        }
    }

    pub(crate) fn reads_pairs(&self) -> bool {
        self.predictor().is_some_and(Predictor::reads_pairs)
    }

    pub(crate) fn columns(&self) -> &[SideColumn] {
        self.predictor().map_or(&[], Predictor::columns)
    }

    /// Numbers of a vector.
    pub(crate) fn width(&self) -> Option<usize> {
        match self {
            Model::Embedder(model) => Some(model.width()),
            _ => None,
        }
    }

    /// Tokens that are read at a time.
    fn limit(&self) -> Option<usize> {
        match self {
            Model::Classifier(model) => Some(model.window()),
            Model::Embedder(model) => Some(model.limit()),
            Model::Translator(model) => Some(model.config().model.max_length - 1),
            Model::Generator(model) => Some(model.config().model.max_length),
            Model::Ngrams(_) | Model::Tagger(_) => None,
        }
    }

    /// What text-embeddings-inference calls the model's type.
    fn model_type(&self) -> Value {
        if let Model::Embedder(model) = self {
            return json!({ "embedding": { "dimension": model.width() } });
        }
        let labels = match self {
            Model::Tagger(model) => model.labels(),
            // Its labels are steps of the number, which no answer names.
            _ if self.predictor().is_some_and(Predictor::tells_numbers) => &[],
            _ => self.predictor().map_or(&[][..], Predictor::labels),
        };
        if labels.is_empty() {
            return Value::from(self.kind());
        }
        let ids: Map<String, Value> = labels.iter().enumerate().map(|(id, label)| (label.clone(), id.into())).collect();
        let names: Map<String, Value> =
            labels.iter().enumerate().map(|(id, label)| (id.to_string(), label.as_str().into())).collect();
        let name = if matches!(self, Model::Tagger(_)) { "token_classifier" } else { "classifier" };
        json!({ name: { "id2label": names, "label2id": ids } })
    }
}

/// A model that was read from a folder.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) name: String,
    pub(crate) model: Model,
    stamp: Stamp,
}

/// The files of a folder, with their sizes and times: what changes when the model is another.
pub(crate) type Stamp = Vec<(PathBuf, u64, Option<SystemTime>)>;

/// The stamp of a folder; empty if it cannot be read.
pub(crate) fn stamp(folder: &Path) -> Stamp {
    let mut found = Vec::new();
    // Checkpoints and logs of training below it are not the model; folders such as `1_Pooling` are.
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(data) = fs::metadata(entry.path()) else { continue };
            match data.is_dir() {
                true if depth == 0 => folders.push((entry.path(), 1)),
                true => {}
                false => found.push((entry.path(), data.len(), data.modified().ok())),
            }
        }
    }
    found.sort();
    found
}

impl Loaded {
    pub(crate) fn read(name: &str, folder: &Path) -> chumoku::Result<Loaded> {
        chumoku::failpoint::hit("load");
        // Before the model: a change while it is read is seen the next time.
        let stamp = stamp(folder);
        Ok(Loaded { name: name.to_owned(), model: Model::load(folder)?, stamp })
    }

    pub(crate) fn is_of(&self, stamp: &Stamp) -> bool {
        self.stamp == *stamp
    }

    /// What `/info` says of it.
    pub(crate) fn info(&self) -> Map<String, Value> {
        let mut info = Map::new();
        info.insert("model_id".into(), self.name.as_str().into());
        info.insert("model_sha".into(), Value::Null);
        info.insert("model_dtype".into(), "float32".into());
        info.insert("model_type".into(), self.model.model_type());
        info.insert("kind".into(), self.model.kind().into());
        info.insert("max_input_length".into(), self.model.limit().into());
        if self.model.predictor().is_some_and(Predictor::tells_numbers) {
            info.insert("tells_numbers".into(), true.into());
        }
        if self.model.reads_pairs() {
            info.insert("reads_pairs".into(), true.into());
        }
        if matches!(&self.model, Model::Generator(model) if model.has_chat_template()) {
            info.insert("answers_messages".into(), true.into());
        }
        let columns: Vec<&str> = self.model.columns().iter().map(|column| column.name.as_str()).collect();
        if !columns.is_empty() {
            info.insert("columns".into(), columns.into());
        }
        info
    }
}
