//! The size of a trained model, checked against the parameter formulas.

use crate::count::CountConfig;
use crate::model_folder::{
    CONFIG, ModelKind, NGRAMS, Snapshot, WEIGHTS, check_files, current_path, model_file_error, parse_weights,
    pretrained_kind, read_config, with_snapshot,
};
use crate::pretrained::{DecoderCheckpoint, EncoderCheckpoint, TranslatorCheckpoint, encoder_folder, no_layers_error};
use crate::{Error, Result, TextClassifier, TextClassifierConfig, TextGeneratorConfig, TextTranslatorConfig};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// The size of the model in a folder.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelSize {
    /// The kind of model: `classifier`, `encoder`, `translator`, `autoencoder` or `language model`.
    pub kind: &'static str,
    /// The network's sizes for the batch and length of [`CountConfig::default`]. The length is capped at the longest
    /// input.
    #[serde(skip)]
    pub config: CountConfig,
    /// The maximum number of tokens in one input.
    pub max_length: usize,
    /// The number of network tensors in `model.safetensors`.
    pub tensors: usize,
    /// The number of network parameters, which equals the count by formula.
    pub parameters: u128,
    /// The number of tensors of the n-gram model.
    pub ngram_tensors: usize,
    /// The number of values in these tensors.
    pub ngram_numbers: u128,
    /// The size of `model.safetensors` in bytes.
    pub bytes: u128,
}

impl ModelSize {
    /// Reads the model's configuration and the names and shapes of its tensors.
    ///
    /// # Errors
    /// If the folder holds no model, or the number of weights contradicts the configuration.
    pub fn read(folder: &Path) -> Result<ModelSize> {
        with_snapshot(folder, ModelSize::from_snapshot)
    }

    fn from_snapshot(folder: &Snapshot) -> Result<ModelSize> {
        let kind = ModelKind::from_snapshot(folder)?;
        if pretrained_kind(folder).is_some() {
            return ModelSize::from_pretrained(folder, kind);
        }
        check_files(folder, &[WEIGHTS])?;
        let wrong = |problem| model_file_error(folder, CONFIG, problem);
        let (kind, config, max_length) = match kind {
            ModelKind::Classifier => {
                let config: TextClassifierConfig = read_config(folder)?;
                config.check().map_err(wrong)?;
                ("classifier", CountConfig::for_classifier(&config.model), config.model.max_length)
            }
            ModelKind::Tagger => {
                return Err(wrong(crate::tr!(
                    "expected a classifier, a translator, a language model or an encoder, found a tagger, whose layers cannot be counted",
                    "分類モデル、翻訳モデル、言語モデル、エンコーダーのどれかが必要ですが、単語にラベルを付けるモデルの層は数えられません"
                )));
            }
            ModelKind::Ngrams => {
                return Err(wrong(crate::tr!(
                    "expected a model with a network, found an n-gram model, which has no layers to count",
                    "ネットワークのあるモデルが必要ですが、層のない n-gram モデルです"
                )));
            }
            ModelKind::Translator | ModelKind::Autoencoder => {
                let config: TextTranslatorConfig = read_config(folder)?;
                config.check().map_err(wrong)?;
                let name = if kind == ModelKind::Autoencoder { "autoencoder" } else { "translator" };
                (name, CountConfig::for_translator(&config.model), config.model.max_length)
            }
            ModelKind::Encoder => unreachable!("{} is a pretrained model", folder.display()),
            ModelKind::LanguageModel => {
                let config: TextGeneratorConfig = read_config(folder)?;
                config.check().map_err(wrong)?;
                ("language model", CountConfig::for_language_model(&config.model), config.model.max_length)
            }
        };
        let config = CountConfig { length: config.length.min(max_length), ..config };
        let bytes = folder.read_weights(WEIGHTS)?;
        let tensors = parse_weights(folder, WEIGHTS, &bytes)?;
        let [mut of_network, mut of_ngrams] = [(0, 0); 2];
        for (name, tensor) in tensors.tensors() {
            let (tensors, numbers) = if name.starts_with(NGRAMS) { &mut of_ngrams } else { &mut of_network };
            *tensors += 1;
            *numbers += tensor.shape().iter().map(|&size| size as u128).product::<u128>();
        }
        let (tensors, parameters) = of_network;
        let expected = config.count().map_err(|error| model_file_error(folder, CONFIG, error.to_string()))?.parameters;
        if parameters != expected {
            return Err(model_file_error(folder, WEIGHTS, parameter_count_mismatch(expected, parameters)));
        }
        let (ngram_tensors, ngram_numbers) = of_ngrams;
        let bytes = bytes.len() as u128;
        Ok(ModelSize { kind, config, max_length, tensors, parameters, ngram_tensors, ngram_numbers, bytes })
    }

    /// Reads a folder in the format of Hugging Face. Files that are not part of the model are not counted.
    fn from_pretrained(folder: &Snapshot, kind: ModelKind) -> Result<ModelSize> {
        let inner = if kind == ModelKind::Encoder { encoder_folder(folder)? } else { None };
        let place = inner.as_ref().unwrap_or(folder);
        let (name, config, max_length, layout, tensors, ngrams) = if kind == ModelKind::Classifier {
            let model = TextClassifier::from_snapshot(folder)?;
            let config = CountConfig::for_classifier(&model.config().model);
            let (tensors, ngrams) = model.published_tensors();
            ("classifier", config, model.config().max_tokens(), Arc::clone(model.params().layout()), tensors, ngrams)
        } else if kind == ModelKind::LanguageModel {
            let DecoderCheckpoint { model, source, .. } = DecoderCheckpoint::from_snapshot(folder, None)?;
            let tensors = source.tensors.iter().map(|(_, source)| source.names().len()).sum();
            let config = CountConfig::for_language_model(model.config());
            ("language model", config, model.config().max_length, Arc::clone(model.layout()), tensors, [0; 2])
        } else if kind == ModelKind::Translator {
            let TranslatorCheckpoint { model, source, .. } = TranslatorCheckpoint::from_snapshot(folder, None)?;
            let tensors = source.tensors.iter().map(|(_, source)| source.names().len()).sum();
            let config = CountConfig::for_translator(model.config());
            ("translator", config, model.config().max_length, Arc::clone(model.layout()), tensors, [0; 2])
        } else {
            let EncoderCheckpoint { model, source, .. } = EncoderCheckpoint::from_snapshot(place, None)?;
            if source.is_static() {
                return Err(no_layers_error());
            }
            let tensors = source.tensors.iter().map(|(_, source)| source.names().len()).sum();
            let config = CountConfig::for_text_encoder(model.config());
            ("encoder", config, model.config().max_length, Arc::clone(model.layout()), tensors, [0; 2])
        };
        let config = CountConfig { length: config.length.min(max_length), ..config };
        let expected = config.count().map_err(|error| model_file_error(folder, CONFIG, error.to_string()))?.parameters;
        let parameters = layout.len() as u128;
        if parameters != expected {
            return Err(model_file_error(folder, WEIGHTS, parameter_count_mismatch(expected, parameters)));
        }
        let files = std::fs::read_dir(&**place).map_err(Error::io("reading", &**place))?.flatten();
        let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        let weights = names.filter(|name| name.ends_with(".safetensors"));
        let sizes = weights.filter_map(|name| std::fs::metadata(current_path(place, &name)).ok());
        let bytes = sizes.map(|file| u128::from(file.len())).sum();
        let [ngram_tensors, ngram_numbers] = ngrams;
        Ok(ModelSize {
            kind: name,
            config,
            max_length,
            tensors,
            parameters,
            ngram_tensors,
            ngram_numbers: ngram_numbers as u128,
            bytes,
        })
    }
}

fn parameter_count_mismatch(expected: u128, found: u128) -> String {
    crate::tr!(
        "expected {expected} numbers in the network's tensors, as {CONFIG} says, found {found}",
        "ネットワークのテンソルには {CONFIG} によれば {expected} 個の数が必要ですが、{found} 個あります"
    )
}
