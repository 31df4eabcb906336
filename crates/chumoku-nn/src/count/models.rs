//! Cost configurations derived from model configurations.

use super::{CountConfig, NetworkKind};
use crate::layers::{AttentionBias, BackboneConfig, EncoderConfig, NormKind, PositionKind};
use crate::models::{ClassifierConfig, LanguageModelConfig, TextEncoderConfig, TranslatorConfig};

impl CountConfig {
    /// Returns the sizes of a classifier.
    pub fn for_classifier(model: &ClassifierConfig) -> CountConfig {
        let base = CountConfig {
            vocab_size: model.vocab_size,
            num_classes: model.num_classes,
            learned_positions: num_learned_positions(
                model.position,
                model.embeddings.first_position + model.max_length,
            ),
            token_types: model.embeddings.token_types,
            input_norm: model.embeddings.norm_epsilon.is_some(),
            dense_head: model.head_dense,
            ..CountConfig::default()
        };
        match &model.backbone {
            BackboneConfig::Transformer(encoder) => {
                CountConfig { network: NetworkKind::Transformer, ..base.with_encoder(encoder) }
            }
            BackboneConfig::Recurrent(c) => CountConfig {
                network: NetworkKind::Recurrent(c.cell),
                d_model: c.d_model,
                d_ff: 4 * c.d_model,
                num_layers: c.num_layers,
                hidden_size: Some(c.hidden_size),
                bidirectional: c.bidirectional,
                ..base
            },
        }
    }

    /// Returns the sizes of an encoder without a head.
    pub fn for_text_encoder(model: &TextEncoderConfig) -> CountConfig {
        let base = CountConfig {
            vocab_size: model.vocab_size,
            learned_positions: num_learned_positions(
                model.position,
                model.embeddings.first_position + model.max_length,
            ),
            token_types: model.embeddings.token_types,
            input_norm: model.embeddings.norm_epsilon.is_some(),
            ..CountConfig::default()
        };
        base.with_encoder(&model.encoder)
    }

    /// Returns the sizes of a translator.
    pub fn for_translator(model: &TranslatorConfig) -> CountConfig {
        let base = CountConfig {
            network: NetworkKind::EncoderDecoder,
            vocab_size: if model.joint_vocabulary { model.target_vocab_size } else { model.source_vocab_size },
            target_vocab_size: (!model.joint_vocabulary).then_some(model.target_vocab_size),
            num_decoder_layers: Some(model.num_decoder_layers),
            decoder_num_heads: model.options.decoder_num_heads,
            decoder_d_ff: model.options.decoder_d_ff,
            logit_bias: model.options.output_bias,
            bottleneck: model.options.bottleneck,
            learned_positions: num_learned_positions(model.position, model.max_length),
            ..CountConfig::default()
        };
        base.with_encoder(&model.encoder)
    }

    /// Returns the sizes of a language model.
    pub fn for_language_model(model: &LanguageModelConfig) -> CountConfig {
        let base = CountConfig {
            network: NetworkKind::Decoder,
            vocab_size: model.vocab_size,
            learned_positions: num_learned_positions(
                model.position,
                model.embeddings.first_position + model.max_length,
            ),
            untied: model.untied_output,
            ..CountConfig::default()
        };
        base.with_encoder(&model.encoder)
    }

    fn with_encoder(self, encoder: &EncoderConfig) -> CountConfig {
        CountConfig {
            d_model: encoder.d_model,
            num_heads: encoder.num_heads,
            num_key_heads: encoder.attention.num_key_heads,
            d_ff: encoder.d_ff,
            num_layers: encoder.num_layers,
            norm_order: encoder.norm_order,
            head_dim: encoder.attention.head_dim,
            trained_beta: encoder.attention.train_beta,
            qkv_bias: (encoder.attention.bias == AttentionBias::None).then_some(false),
            output_bias: (encoder.attention.bias != AttentionBias::All).then_some(false),
            head_norms: encoder.attention.head_norm_epsilon.is_some(),
            gated: encoder.options.feed_forward.is_gated(),
            feed_forward_bias: (!encoder.options.feed_forward.has_bias()).then_some(false),
            norm_bias: encoder.options.norm == NormKind::Layer,
            first_norm_left_out: encoder.options.first_norm_left_out,
            ..self
        }
    }
}

fn num_learned_positions(position: PositionKind, max_length: usize) -> usize {
    if position == PositionKind::Learned { max_length } else { 0 }
}
