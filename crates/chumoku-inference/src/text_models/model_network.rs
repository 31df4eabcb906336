//! The network of a model of any kind: its parameters and its positional encoding.

use super::autoencoder::TextAutoencoder;
use super::classifier::TextClassifier;
use super::embedder::TextEmbedder;
use super::generator::TextGenerator;
use super::tagger::TextTagger;
use super::translator::TextTranslator;
use crate::model_folder::ModelKind;
use crate::nn::{EncoderConfig, PositionKind};
use crate::params::Params;
use crate::{Error, Result, tr};
use ndarray::{Array2, Axis};
use std::path::Path;

/// The network of a model, for a translator and an autoencoder with the sizes of its encoder.
#[derive(Debug)]
pub struct ModelNetwork {
    pub(super) params: Params<f32>,
    /// The kind of positional encoding.
    pub position: PositionKind,
    /// The width of the model.
    pub d_model: usize,
    /// The number of attention heads in a layer, or 1 if there are none.
    pub num_heads: usize,
    /// The base of rotary positions.
    pub rotary_base: Option<f64>,
    /// The number of rows of a learned encoding before the row of the first token.
    first_position: usize,
}

impl ModelNetwork {
    /// Reads a model folder.
    ///
    /// # Errors
    /// If the model cannot be read, or has no network.
    pub fn load(folder: &Path) -> Result<ModelNetwork> {
        let kind = ModelKind::from_folder(folder)?;
        let of = |params, position, encoder: &EncoderConfig, first_position| ModelNetwork {
            params,
            position,
            d_model: encoder.d_model,
            num_heads: encoder.num_heads,
            rotary_base: encoder.attention.rotary_base,
            first_position,
        };
        let of_translator = |TextTranslator { params, config, .. }: TextTranslator| {
            of(params, config.model.position, &config.model.encoder, 0)
        };
        Ok(match kind {
            ModelKind::Translator => of_translator(TextTranslator::load(folder)?),
            ModelKind::Autoencoder => of_translator(TextAutoencoder::load(folder)?.0),
            ModelKind::LanguageModel => {
                let TextGenerator { params, config, .. } = TextGenerator::load(folder)?;
                of(params, config.model.position, &config.model.encoder, 0)
            }
            ModelKind::Encoder => {
                let TextEmbedder { model, params, .. } = TextEmbedder::load(folder, None)?;
                let config = model.config();
                of(params, config.position, &config.encoder, config.embeddings.first_position)
            }
            ModelKind::Classifier => {
                let TextClassifier { params, config, .. } = TextClassifier::load(folder)?;
                let (config, first_position) = (&config.model, config.model.embeddings.first_position);
                match config.backbone.transformer() {
                    Some(encoder) => of(params, config.position, encoder, first_position),
                    None => {
                        let (position, d_model) = (config.position, config.backbone.d_model());
                        ModelNetwork { params, position, d_model, num_heads: 1, rotary_base: None, first_position }
                    }
                }
            }
            ModelKind::Tagger => match TextTagger::load(folder)?.network {
                Some(network) => {
                    let config = &network.config.model.encoder;
                    of(network.params, config.position, &config.encoder, config.embeddings.first_position)
                }
                None => return Err(no_network(folder, kind)),
            },
            ModelKind::Ngrams => return Err(no_network(folder, kind)),
        })
    }

    /// Returns the vectors of the first positions, (at most `length`, d_model), or `None` if they are not learned.
    pub fn learned_positions(&self, length: usize) -> Option<Array2<f32>> {
        let weight = self.params.layout().iter().find(|param| param.name.ends_with("position.weight"))?;
        let values = self.params.values()[weight.range].to_vec();
        let table = Array2::from_shape_vec((weight.shape[0], weight.shape[1]), values).ok()?;
        let (first, rows) = (self.first_position, table.nrows());
        let shown = first..rows.min(first.saturating_add(length));
        Some(table.slice_axis(Axis(0), shown.into()).to_owned())
    }
}

fn no_network(folder: &Path, kind: ModelKind) -> Error {
    let problem = match kind {
        ModelKind::Tagger => tr!(
            "expected a model with a network, found a tagger without one",
            "ネットワークのあるモデルが必要ですが、ネットワークのないラベル付けモデルです"
        ),
        _ => {
            let found = kind.describe();
            tr!("expected a model with a network, found {found}", "ネットワークのあるモデルが必要です：{found}")
        }
    };
    Error::Model { path: folder.to_owned(), problem }
}
