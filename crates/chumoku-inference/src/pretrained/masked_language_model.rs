//! Writes an encoder pretrained here as a masked language model in Hugging Face's format.

use super::weights::published_tensors;
use crate::Result;
use crate::model_folder::{CHUMOKU_KEY, CONFIG, NamedTensor, TOKENIZER, TOKENIZER_CONFIG, WEIGHTS, serialize_tensors};
use crate::params::Params;
use crate::text::{CLS, TextTokenizer};
use chumoku_nn::pretrained::ModernBertConfig;
use serde_json::{Value, json};

/// The mask token.
pub const MASK: &str = "[MASK]";
/// The padding token, for other programs.
pub const PAD: &str = "[PAD]";

/// Returns the files of the encoder's folder: config.json, tokenizer.json, tokenizer_config.json, model.safetensors.
///
/// # Errors
/// If the tokenizer has no JSON form.
pub fn masked_model_files(
    settings: &ModernBertConfig,
    params: &Params<f32>,
    tokenizer: &TextTokenizer,
) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let mut config = serde_json::to_string(settings)
        .and_then(|text| serde_json::from_slice::<Value>(text.as_bytes()))
        .expect("settings are plain data");
    config["architectures"] = json!(["ModernBertForMaskedLM"]);
    config["pad_token_id"] = json!(tokenizer.id(PAD));
    for name in ["cls_token_id", "bos_token_id", "eos_token_id", "sep_token_id"] {
        config[name] = json!(tokenizer.cls_id());
    }
    config["tie_word_embeddings"] = true.into();
    config["dtype"] = "float32".into();
    config[CHUMOKU_KEY] = json!({ "chumoku_version": env!("CARGO_PKG_VERSION") });
    let of_tokenizer = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "cls_token": CLS,
        "mask_token": MASK,
        "pad_token": PAD,
        "model_max_length": settings.max_position_embeddings,
    });
    let mut tensors = published_tensors(params, &settings.masked_tensors()?);
    let bias = vec![0.0; settings.vocab_size];
    tensors.push(NamedTensor::floats("decoder.bias", &[settings.vocab_size], &bias));
    let text =
        |value: &Value| (serde_json::to_string_pretty(value).expect("settings are plain data") + "\n").into_bytes();
    Ok(vec![
        (CONFIG, text(&config)),
        (TOKENIZER, tokenizer.to_json()?.into_bytes()),
        (TOKENIZER_CONFIG, text(&of_tokenizer)),
        (WEIGHTS, serialize_tensors(&tensors)),
    ])
}
