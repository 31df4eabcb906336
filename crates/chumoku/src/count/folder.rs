//! The sizes of a trained model, and that its file holds what the formulas say.

use super::{CountConfig, Counted};
use crate::model_folder::{CONFIG, ModelKind, WEIGHTS, check_files, fault, parse_weights, read_config};
use crate::models::{ClassifierConfig, LanguageModelConfig, TranslatorConfig};
use crate::nn::{BodyConfig, EncoderConfig, PositionKind};
use crate::text_classifier::NGRAMS;
use crate::{Error, ModelConfig, Result, TextGeneratorConfig, TextTranslatorConfig};
use serde::Serialize;
use std::path::Path;

/// A model folder, counted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CountedFolder {
    /// What it holds: `classifier`, `translator` or `language model`.
    pub kind: &'static str,
    /// The sizes of its network, for the batch and length of [`CountConfig::default`], or the longest it reads.
    #[serde(skip)]
    pub config: CountConfig,
    /// The most tokens that it reads at a time.
    pub max_length: usize,
    /// Tensors of the network in `model.safetensors`.
    pub tensors: usize,
    /// Their numbers: as many as the formulas say.
    pub parameters: u128,
    /// Tensors of the n-gram model beside it.
    pub ngram_tensors: usize,
    /// Their numbers.
    pub ngram_numbers: u128,
    /// Bytes of `model.safetensors`.
    pub bytes: u128,
}

impl CountConfig {
    /// The sizes of a classifier's network.
    pub fn of_classifier(model: &ClassifierConfig) -> CountConfig {
        let base = CountConfig {
            vocab_size: model.vocab_size,
            num_classes: model.num_classes,
            learned_positions: learned(model.position, model.max_length),
            ..CountConfig::default()
        };
        match &model.body {
            BodyConfig::Transformer(encoder) => CountConfig { network: Counted::Transformer, ..base.layers(encoder) },
            BodyConfig::Recurrent(c) => CountConfig {
                network: Counted::Recurrent(c.cell),
                d_model: c.d_model,
                d_ff: 4 * c.d_model,
                num_layers: c.num_layers,
                hidden_size: Some(c.hidden_size),
                bidirectional: c.bidirectional,
                ..base
            },
        }
    }

    /// The sizes of a translator.
    pub fn of_translator(model: &TranslatorConfig) -> CountConfig {
        let base = CountConfig {
            network: Counted::EncoderDecoder,
            vocab_size: if model.joint_vocabulary { model.target_vocab_size } else { model.source_vocab_size },
            target_vocab_size: (!model.joint_vocabulary).then_some(model.target_vocab_size),
            num_decoder_layers: Some(model.num_decoder_layers),
            learned_positions: learned(model.position, model.max_length),
            ..CountConfig::default()
        };
        base.layers(&model.encoder)
    }

    /// The sizes of a language model.
    pub fn of_language_model(model: &LanguageModelConfig) -> CountConfig {
        let base = CountConfig {
            network: Counted::Decoder,
            vocab_size: model.vocab_size,
            learned_positions: learned(model.position, model.max_length),
            ..CountConfig::default()
        };
        base.layers(&model.encoder)
    }

    fn layers(self, encoder: &EncoderConfig) -> CountConfig {
        CountConfig {
            d_model: encoder.d_model,
            num_heads: encoder.num_heads,
            num_key_heads: encoder.attention.num_key_heads,
            d_ff: encoder.d_ff,
            num_layers: encoder.num_layers,
            norm_order: encoder.norm_order,
            trained_beta: encoder.attention.train_beta,
            ..self
        }
    }
}

fn learned(position: PositionKind, max_length: usize) -> usize {
    if position == PositionKind::Learned { max_length } else { 0 }
}

impl CountedFolder {
    /// Reads the sizes of the model in a folder and the names and shapes of its tensors.
    ///
    /// # Errors
    /// If it is no model folder, or its weights are not as many as its configuration says.
    pub fn read(folder: &Path) -> Result<CountedFolder> {
        let kind = ModelKind::of(folder)?;
        check_files(folder, &[WEIGHTS])?;
        let wrong = |problem| fault(folder, CONFIG, problem);
        let (kind, config, max_length) = match kind {
            ModelKind::Classifier => {
                let config: ModelConfig = read_config(folder)?;
                config.check().map_err(wrong)?;
                ("classifier", CountConfig::of_classifier(&config.model), config.model.max_length)
            }
            ModelKind::Ngrams => {
                return Err(wrong(crate::tr!(
                    "expected a model with a network, found an n-gram model, which has no layers to count",
                    "ネットワークのあるモデルが必要ですが、層のない n-gram モデルです"
                )));
            }
            ModelKind::Translator => {
                let config: TextTranslatorConfig = read_config(folder)?;
                config.check().map_err(wrong)?;
                ("translator", CountConfig::of_translator(&config.model), config.model.max_length)
            }
            ModelKind::LanguageModel => {
                let config: TextGeneratorConfig = read_config(folder)?;
                config.check().map_err(wrong)?;
                ("language model", CountConfig::of_language_model(&config.model), config.model.max_length)
            }
        };
        let config = CountConfig { length: config.length.min(max_length), ..config };
        let path = folder.join(WEIGHTS);
        let bytes = std::fs::read(&path).map_err(Error::io("reading", &path))?;
        let tensors = parse_weights(folder, &bytes)?;
        let [mut of_network, mut of_ngrams] = [(0, 0); 2];
        for (name, tensor) in tensors.tensors() {
            let (tensors, numbers) = if name.starts_with(NGRAMS) { &mut of_ngrams } else { &mut of_network };
            *tensors += 1;
            *numbers += tensor.shape().iter().map(|&size| size as u128).product::<u128>();
        }
        let (tensors, parameters) = of_network;
        let expected = config.count().map_err(|error| fault(folder, CONFIG, error.to_string()))?.parameters;
        if parameters != expected {
            let problem = crate::tr!(
                "expected {expected} numbers in the network's tensors, as {} says, found {parameters}",
                "ネットワークのテンソルには {} によれば {expected} 個の数が必要ですが、{parameters} 個あります",
                CONFIG
            );
            return Err(fault(folder, WEIGHTS, problem));
        }
        let (ngram_tensors, ngram_numbers) = of_ngrams;
        let bytes = bytes.len() as u128;
        Ok(CountedFolder { kind, config, max_length, tensors, parameters, ngram_tensors, ngram_numbers, bytes })
    }
}
