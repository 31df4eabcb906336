//! Published translators: model, tokenizers, start and end tokens, and banned tokens.

use super::config::FolderConfig;
use super::config::pretrained_translator;
use super::generator::TokenIds;
use super::tokenizer::{check_ids, read_max_tokens, read_tokenizer};
use super::{TranslatorCheckpoint, files};
use crate::model_folder::{CONFIG, GENERATION, SOURCE_TOKENIZER, Snapshot, TOKENIZER_CONFIG, model_file_error};
use crate::text::{PretrainedTokenizer, TextTokenizer};
use crate::{Result, tr};
use chumoku_kernels::Precision;
use serde::Deserialize;

/// The SentencePiece files of source and target, and the vocabulary that numbers all pieces.
const PIECE_FILES: [&str; 2] = ["source.spm", "target.spm"];
const VOCABULARY_FILE: &str = "vocab.json";

/// A translator read from a folder.
#[derive(Debug)]
pub(crate) struct PublishedTranslator {
    pub(crate) model_type: String,
    pub(crate) precision: Precision,
    pub(crate) checkpoint: TranslatorCheckpoint,
    /// The source tokenizer; `None` if both sides share the target tokenizer.
    pub(crate) source: Option<TextTokenizer>,
    pub(crate) target: TextTokenizer,
    /// Names of the source and target languages.
    pub(crate) languages: [String; 2],
    pub(crate) rules: TranslationRules,
    /// Most tokens of a source, including the end token.
    pub(crate) max_length: usize,
}

/// Rules for generating translations.
#[derive(Clone, Debug)]
pub struct TranslationRules {
    /// The tokens that start and end a translation. The end token also ends a source.
    pub(crate) start_and_end: [u32; 2],
    /// Tokens that are never generated.
    pub(crate) banned: Vec<u32>,
    /// Most tokens of a translation, including the end token.
    pub(crate) max_length: usize,
}

/// The settings read from `generation_config.json`, or from `config.json` if they are missing there.
#[derive(Default, Deserialize)]
struct GenerationSettings {
    decoder_start_token_id: Option<u32>,
    eos_token_id: Option<TokenIds>,
    pad_token_id: Option<u32>,
    bad_words_ids: Option<Vec<Vec<u32>>>,
    forced_bos_token_id: Option<u32>,
    max_length: Option<usize>,
}

/// The settings read from `tokenizer_config.json`.
#[derive(Default, Deserialize)]
struct LanguageSettings {
    source_lang: Option<String>,
    target_lang: Option<String>,
    separate_vocabs: Option<bool>,
}

impl PublishedTranslator {
    /// Reads a folder and validates everything in it.
    ///
    /// # Errors
    /// If a file is missing or damaged, does not fit the others, or needs an unsupported feature.
    pub(crate) fn read(folder: &Snapshot) -> Result<PublishedTranslator> {
        let config = FolderConfig::read(folder)?;
        // The small files first: their errors are reported before the large one is read.
        let model = pretrained_translator(folder, &config)?.config;
        let vocab_size = model.target_vocab_size;
        let languages: LanguageSettings = files::optional_json(folder, TOKENIZER_CONFIG)?.unwrap_or_default();
        if languages.separate_vocabs == Some(true) {
            let problem = tr!(
                "separate_vocabs: expected a translator with one vocabulary for both sides",
                "separate_vocabs: この版で読めるのは、原文と訳文で語彙が共通の翻訳モデルです"
            );
            return Err(model_file_error(folder, TOKENIZER_CONFIG, problem));
        }
        let (source, target) = tokenizers(folder, vocab_size)?;
        let of_generation: GenerationSettings = files::optional_json(folder, GENERATION)?.unwrap_or_default();
        let of_model: GenerationSettings = config.parse(folder)?;
        let writing = translation_rules(folder, of_generation, of_model, vocab_size, model.max_length)?;
        let max_length = read_max_tokens(folder, model.max_length)?;
        let checkpoint = TranslatorCheckpoint::from_snapshot(folder, None)?;
        let name = |name: Option<String>, other: &str| name.unwrap_or_else(|| other.to_owned());
        Ok(PublishedTranslator {
            model_type: config.model_type().to_owned(),
            precision: checkpoint.params.precision(),
            checkpoint,
            source,
            target,
            languages: [name(languages.source_lang, "source"), name(languages.target_lang, "target")],
            rules: writing,
            max_length,
        })
    }
}

/// Reads the tokenizers of both sides: the SentencePiece files with the vocabulary, or a `tokenizer.json`, with a
/// `source_tokenizer.json` if the source has its own.
fn tokenizers(folder: &Snapshot, vocab_size: usize) -> Result<(Option<TextTokenizer>, TextTokenizer)> {
    if PIECE_FILES.iter().all(|name| files::exists(folder, name)) && files::exists(folder, VOCABULARY_FILE) {
        let vocabulary = files::find(folder, VOCABULARY_FILE)?.0;
        let of = |name: &str| -> Result<TextTokenizer> {
            let tokenizer = TextTokenizer::read_marian(&files::find(folder, name)?.0, &vocabulary)?;
            check_ids(folder, VOCABULARY_FILE, tokenizer.id_bound(), vocab_size)?;
            Ok(tokenizer)
        };
        return Ok((Some(of(PIECE_FILES[0])?), of(PIECE_FILES[1])?));
    }
    if let Some(missing) = missing_file(folder) {
        let problem = tr!(
            "the file is missing: expected source.spm, target.spm and vocab.json, as translators are published, or \
             tokenizer.json",
            "このファイルがありません。公開されている翻訳モデルの source.spm、target.spm、vocab.json か、tokenizer.json が\
             必要です"
        );
        return Err(model_file_error(folder, missing, problem));
    }
    let target = TextTokenizer::from_pretrained(read_tokenizer(folder, vocab_size)?)?;
    if !files::exists(folder, SOURCE_TOKENIZER) {
        return Ok((None, target));
    }
    let source = PretrainedTokenizer::read(&files::find(folder, SOURCE_TOKENIZER)?.0)?;
    check_ids(folder, SOURCE_TOKENIZER, source.id_bound(), vocab_size)?;
    Ok((Some(TextTokenizer::from_pretrained(source)?), target))
}

/// Returns the first missing file of a published translator, unless another tokenizer file replaces them.
fn missing_file(folder: &Snapshot) -> Option<&'static str> {
    let others = ["tokenizer.json", "vocab.txt"];
    if others.iter().any(|name| files::exists(folder, name)) {
        return None;
    }
    [PIECE_FILES[0], PIECE_FILES[1], VOCABULARY_FILE].into_iter().find(|name| !files::exists(folder, name))
}

fn translation_rules(
    folder: &Snapshot,
    of_generation: GenerationSettings,
    of_model: GenerationSettings,
    vocab_size: usize,
    positions: usize,
) -> Result<TranslationRules> {
    let wrong = |problem: String| Err(model_file_error(folder, CONFIG, problem));
    if of_generation.forced_bos_token_id.or(of_model.forced_bos_token_id).is_some() {
        return wrong(tr!(
            "forced_bos_token_id: translators with a forced first token are not supported",
            "forced_bos_token_id: 最初のトークンを固定する翻訳モデルには対応していません"
        ));
    }
    let ends = of_generation.eos_token_id.or(of_model.eos_token_id).map(TokenIds::into_vec).unwrap_or_default();
    let pad = of_generation.pad_token_id.or(of_model.pad_token_id);
    let start = of_generation.decoder_start_token_id.or(of_model.decoder_start_token_id).or(pad);
    let (Some(start), &[end]) = (start, &ends[..]) else {
        return wrong(tr!(
            "expected one decoder_start_token_id and one eos_token_id",
            "decoder_start_token_id と eos_token_id が一つずつ必要です"
        ));
    };
    let bad = of_generation.bad_words_ids.or(of_model.bad_words_ids).unwrap_or_default();
    if bad.iter().any(|words| words.len() != 1) {
        return wrong(tr!(
            "bad_words_ids: expected single tokens; banned sequences are not supported",
            "bad_words_ids: 禁止できるのは単独のトークンだけです（トークン列には対応していません）"
        ));
    }
    let mut never: Vec<u32> = bad.into_iter().flatten().chain(pad).collect();
    never.sort_unstable();
    never.dedup();
    if let Some(id) = [start, end].into_iter().chain(never.clone()).find(|&id| id as usize >= vocab_size) {
        return wrong(tr!(
            "expected special tokens below vocab_size, {vocab_size}, found {id}",
            "特別なトークンの番号は vocab_size ({vocab_size}) 未満のはずですが、{id} です"
        ));
    }
    if never.contains(&end) {
        return wrong(tr!(
            "expected an eos_token_id that may be generated, found {end}, which pad_token_id or bad_words_ids forbids",
            "eos_token_id は書けるトークンのはずですが、{end} は pad_token_id か bad_words_ids で禁じられています"
        ));
    }
    let most = of_generation.max_length.or(of_model.max_length).map_or(positions, |most| most.min(positions)).max(2);
    Ok(TranslationRules { start_and_end: [start, end], banned: never, max_length: most })
}
