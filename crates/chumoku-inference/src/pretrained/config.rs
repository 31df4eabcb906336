//! Reads `config.json`: the architecture of a folder, and checks for unsupported features.

use super::files;
use crate::error::layer_errors::layer_error_message;
use crate::model_folder::{CHUMOKU_KEY, CONFIG, Snapshot, model_file_error};
use crate::{Result, tr};
use chumoku_kernels::Precision;
use chumoku_nn::pretrained::{
    BertConfig, DistilBertConfig, Gpt2Config, LlamaConfig, MarianConfig, ModernBertConfig, PretrainedDecoder,
    PretrainedEncoder, PretrainedTranslator,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The folder's `config.json`.
pub(crate) struct FolderConfig {
    value: Value,
}

impl FolderConfig {
    /// Reads the file.
    ///
    /// # Errors
    /// If it is missing or invalid, or needs an unsupported feature.
    pub(super) fn read(folder: &Snapshot) -> Result<FolderConfig> {
        if !folder.is_dir() {
            let problem = match folder.exists() {
                true => tr!("expected a folder, found a file", "フォルダではなくファイルです"),
                false => tr!("there is no such folder", "このフォルダはありません"),
            };
            return Err(crate::Error::Model { path: folder.to_path_buf(), problem });
        }
        if !files::exists(folder, CONFIG) {
            let problem = tr!(
                "the file is missing: expected a folder as Hugging Face's libraries write it (config.json, \
                 model.safetensors, tokenizer.json)",
                "このファイルがありません。Hugging Face のライブラリが書くフォルダ (config.json、model.safetensors、\
                 tokenizer.json) が必要です"
            );
            return Err(model_file_error(folder, CONFIG, problem));
        }
        let config = FolderConfig { value: files::json(folder, CONFIG)? };
        if config.value.get("quantization_config").is_some_and(|setting| !setting.is_null()) {
            let problem = tr!(
                "quantization_config: quantized weights are not supported; use the folder of the unquantized model",
                "quantization_config: 量子化された重みは読めません。量子化する前のモデルのフォルダを使ってください"
            );
            return Err(model_file_error(folder, CONFIG, problem));
        }
        Ok(config)
    }

    /// Returns all settings as a JSON object.
    ///
    /// # Errors
    /// If the file is not a JSON object.
    pub(super) fn object(&self, folder: &Snapshot) -> Result<&Map<String, Value>> {
        self.value.as_object().ok_or_else(|| {
            model_file_error(folder, CONFIG, tr!("expected a JSON object", "JSON のオブジェクトが必要です"))
        })
    }

    /// Returns the architecture (`model_type`).
    pub(crate) fn model_type(&self) -> &str {
        self.value.get("model_type").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the default precision of matrix products, from the dtype of the stored weights.
    pub(crate) fn precision(&self) -> Precision {
        let stored = self.value.get("dtype").or_else(|| self.value.get("torch_dtype")).and_then(Value::as_str);
        match stored {
            Some("float16" | "bfloat16") => Precision::High,
            _ => Precision::Highest,
        }
    }

    /// Parses the settings into `T`.
    ///
    /// # Errors
    /// If a setting is missing or has another type.
    pub(super) fn parse<T: DeserializeOwned>(&self, folder: &Snapshot) -> Result<T> {
        serde_json::from_value(self.value.clone()).map_err(|error| {
            let kind = self.model_type();
            let problem = tr!(
                "invalid settings of a model of type \"{kind}\": {error}",
                "種類 \"{kind}\" のモデルの設定として正しくありません: {error}"
            );
            model_file_error(folder, CONFIG, problem)
        })
    }
}

/// Reads Chumoku's own settings. Only models that Chumoku fine-tuned have them.
///
/// # Errors
/// If they are invalid.
pub(super) fn own_settings<T: DeserializeOwned>(folder: &Snapshot, config: &Map<String, Value>) -> Result<Option<T>> {
    let read = |settings: &Value| {
        serde_json::from_value(settings.clone()).map_err(|error| {
            let problem = tr!("{CHUMOKU_KEY}: {error}", "{CHUMOKU_KEY} の内容が正しくありません: {error}");
            model_file_error(folder, CONFIG, problem)
        })
    };
    config.get(CHUMOKU_KEY).map(read).transpose()
}

/// Returns the encoder that a folder contains.
///
/// # Errors
/// If the architecture is not supported, or its settings are out of range.
pub(crate) fn pretrained_encoder(folder: &Snapshot, config: &FolderConfig) -> Result<PretrainedEncoder> {
    let encoder = match config.model_type() {
        "bert" | "roberta" | "xlm-roberta" | "camembert" => config.parse::<BertConfig>(folder)?.encoder(),
        "modernbert" => config.parse::<ModernBertConfig>(folder)?.encoder(),
        "distilbert" => config.parse::<DistilBertConfig>(folder)?.encoder(),
        other => {
            let problem = tr!(
                "model_type: this version reads encoders of type bert, roberta, xlm-roberta, camembert, distilbert and \
                 modernbert, found \"{other}\"",
                "model_type: この版で読めるエンコーダーは bert、roberta、xlm-roberta、camembert、distilbert、modernbert \
                 ですが、\"{other}\" です"
            );
            return Err(model_file_error(folder, CONFIG, problem));
        }
    };
    encoder.map_err(|error| model_file_error(folder, CONFIG, layer_error_message(&error)))
}

/// Returns the language model that a folder contains.
///
/// # Errors
/// If the architecture is not supported, or its settings are out of range.
pub(crate) fn pretrained_decoder(folder: &Snapshot, config: &FolderConfig) -> Result<PretrainedDecoder> {
    let experts = ["num_local_experts", "num_experts", "n_routed_experts"];
    if let Some(name) = experts.into_iter().find(|name| config.value.get(*name).is_some_and(|n| !n.is_null())) {
        let problem = tr!(
            "{name}: mixture-of-experts models are not supported",
            "{name}: この版は MoE（Mixture of Experts）モデルに対応していません"
        );
        return Err(model_file_error(folder, CONFIG, problem));
    }
    let decoder = match config.model_type() {
        "llama" | "mistral" | "qwen2" | "qwen3" => config.parse::<LlamaConfig>(folder)?.decoder(),
        "gpt2" => config.parse::<Gpt2Config>(folder)?.decoder(),
        other => {
            let problem = tr!(
                "model_type: this version reads language models of type llama, mistral, qwen2, qwen3 and gpt2, found \
                 \"{other}\"",
                "model_type: この版で読める言語モデルは llama、mistral、qwen2、qwen3、gpt2 ですが、\"{other}\" です"
            );
            return Err(model_file_error(folder, CONFIG, problem));
        }
    };
    decoder.map_err(|error| model_file_error(folder, CONFIG, layer_error_message(&error)))
}

/// Returns the translator that a folder contains.
///
/// # Errors
/// If the architecture is not supported, or its settings are out of range.
pub(crate) fn pretrained_translator(folder: &Snapshot, config: &FolderConfig) -> Result<PretrainedTranslator> {
    let translator = match config.model_type() {
        "marian" => config.parse::<MarianConfig>(folder)?.translator(),
        other => {
            let problem = tr!(
                "model_type: this version reads translators of type marian, found \"{other}\"",
                "model_type: この版で読める翻訳モデルは marian ですが、\"{other}\" です"
            );
            return Err(model_file_error(folder, CONFIG, problem));
        }
    };
    translator.map_err(|error| model_file_error(folder, CONFIG, layer_error_message(&error)))
}
