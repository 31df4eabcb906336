//! Reads the folder's tokenizer and the maximum text length.

use super::files;
use crate::model_folder::{Snapshot, TOKENIZER, TOKENIZER_CONFIG, model_file_error};
use crate::text::{PretrainedTokenizer, WordPieceOptions};
use crate::{Result, tr};
use chumoku_kernels::parallel;
use serde::Deserialize;

const WORD_PIECE_FILE: &str = "vocab.txt";
const SENTENCE_PIECE_FILES: [&str; 4] = ["sentencepiece.bpe.model", "spiece.model", "tokenizer.model", "source.spm"];

/// The settings read from `tokenizer_config.json`.
#[derive(Deserialize)]
struct TokenizerSettings {
    tokenizer_class: Option<String>,
    do_lower_case: Option<bool>,
    strip_accents: Option<bool>,
    tokenize_chinese_chars: Option<bool>,
    /// Often a huge number that means no limit.
    model_max_length: Option<f64>,
}

/// Reads the tokenizer from `tokenizer.json`, or from BERT's `vocab.txt`.
///
/// # Errors
/// If there is no supported tokenizer, or it has more tokens than the model.
pub(crate) fn read_tokenizer(folder: &Snapshot, vocab_size: usize) -> Result<PretrainedTokenizer> {
    let settings: Option<TokenizerSettings> = files::optional_json(folder, TOKENIZER_CONFIG)?;
    let class = settings.as_ref().and_then(|settings| settings.tokenizer_class.as_deref()).unwrap_or_default();
    let (name, tokenizer) = if files::exists(folder, TOKENIZER) {
        (TOKENIZER, PretrainedTokenizer::read(&files::find(folder, TOKENIZER)?.0)?)
    } else if class.starts_with("BertJapanese") {
        return Err(model_file_error(folder, TOKENIZER, mecab_message(class)));
    } else if files::exists(folder, WORD_PIECE_FILE) {
        let mut options = WordPieceOptions::default();
        if let Some(settings) = &settings {
            options.lowercase = settings.do_lower_case.unwrap_or(options.lowercase);
            options.strip_accents = settings.strip_accents;
            options.split_chinese = settings.tokenize_chinese_chars.unwrap_or(options.split_chinese);
        }
        (WORD_PIECE_FILE, PretrainedTokenizer::read_word_pieces(&files::find(folder, WORD_PIECE_FILE)?.0, options)?)
    } else {
        return Err(model_file_error(folder, TOKENIZER, missing_tokenizer_message(folder)));
    };
    check_ids(folder, name, tokenizer.id_bound(), vocab_size)?;
    Ok(tokenizer)
}

/// Checks that the model has an embedding for each token id of a file.
pub(super) fn check_ids(folder: &Snapshot, name: &str, ids: usize, vocab_size: usize) -> Result<()> {
    if ids <= vocab_size {
        return Ok(());
    }
    let problem = tr!(
        "has token ids up to {}, but the model has {vocab_size} embeddings; it belongs to another model",
        "トークンの番号は {} までありますが、モデルのベクトルは {vocab_size} 個です。別のモデルのファイルです",
        ids - 1
    );
    Err(model_file_error(folder, name, problem))
}

/// Reads a model's weights and its tokenizer in parallel, since both take about equally long.
///
/// # Errors
/// As for either of them.
pub(super) fn read_with_tokenizer<T: Send>(
    folder: &Snapshot,
    vocab_size: usize,
    weights: impl FnOnce() -> Result<T> + Send,
) -> Result<(T, PretrainedTokenizer)> {
    let (weights, tokenizer) = parallel::join(weights, || read_tokenizer(folder, vocab_size));
    Ok((weights?, tokenizer?))
}

/// Returns the most tokens of a text, including special tokens.
pub(crate) fn read_max_tokens(folder: &Snapshot, positions: usize) -> Result<usize> {
    let settings: Option<TokenizerSettings> = files::optional_json(folder, TOKENIZER_CONFIG)?;
    let max_length = settings.and_then(|settings| settings.model_max_length).filter(|&most| most >= 1.0);
    Ok(max_length.map_or(positions, |most| most.min(positions as f64) as usize))
}

fn mecab_message(class: &str) -> String {
    tr!(
        "the file is missing, and {class} needs MeCab, which is not supported; models that read Japanese without it: \
         multilingual-e5, ruri-v3, modernbert-ja",
        "このファイルがありません。{class} に必要な MeCab には対応していません。MeCab なしで日本語を読めるモデル: \
         multilingual-e5、ruri-v3、modernbert-ja"
    )
}

fn missing_tokenizer_message(folder: &Snapshot) -> String {
    match SENTENCE_PIECE_FILES.into_iter().find(|name| files::exists(folder, name)) {
        Some(found) => tr!(
            "the file is missing, and {found} is not supported; convert it in a Python with transformers: python -c \"from \
             transformers import AutoTokenizer as t; t.from_pretrained('FOLDER').save_pretrained('FOLDER')\"",
            "このファイルがありません。{found} には対応していません。transformers のある Python で変換してください: python -c \"from \
             transformers import AutoTokenizer as t; t.from_pretrained('FOLDER').save_pretrained('FOLDER')\""
        ),
        None => tr!(
            "the file is missing: expected tokenizer.json, or BERT's vocab.txt",
            "このファイルがありません。tokenizer.json か BERT の vocab.txt が必要です"
        ),
    }
}
