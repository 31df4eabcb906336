//! Published translators: model, tokenizers, the tokens that start and end a translation, and those that are never written.

use super::config::Config;
use super::config::translator_of;
use super::generator::Ids;
use super::tokenizer::{read_limit, read_tokenizer};
use super::{TranslatorCheckpoint, files};
use crate::model_folder::{CONFIG, GENERATION, SOURCE_TOKENIZER, Snapshot, TOKENIZER_CONFIG, model_file_error};
use crate::text::{PretrainedTokenizer, TextTokenizer};
use crate::{Result, tr};
use chumoku_kernels::Precision;
use serde::Deserialize;

/// SentencePiece's files of source and target, and the numbers of all pieces.
const PIECES: [&str; 2] = ["source.spm", "target.spm"];
const VOCABULARY: &str = "vocab.json";

/// A translator out of a folder.
#[derive(Debug)]
pub(crate) struct PublishedTranslator {
    pub(crate) model_type: String,
    pub(crate) precision: Precision,
    pub(crate) checkpoint: TranslatorCheckpoint,
    /// The tokenizer of the source, unless the target's is for both.
    pub(crate) source: Option<TextTokenizer>,
    pub(crate) target: TextTokenizer,
    /// What source and target are called.
    pub(crate) names: [String; 2],
    pub(crate) writing: Writing,
    /// The most tokens of a source, its end included.
    pub(crate) max_length: usize,
}

/// How a published translator writes.
#[derive(Clone, Debug)]
pub(crate) struct Writing {
    /// The tokens that start and end a translation; the last ends a source too.
    pub(crate) bounds: [u32; 2],
    /// Tokens that it never writes.
    pub(crate) never: Vec<u32>,
    /// The most tokens of a translation, its end included.
    pub(crate) most: usize,
}

/// What is read of `generation_config.json`; `config.json` has the same where that is missing.
#[derive(Default, Deserialize)]
struct Generation {
    decoder_start_token_id: Option<u32>,
    eos_token_id: Option<Ids>,
    pad_token_id: Option<u32>,
    bad_words_ids: Option<Vec<Vec<u32>>>,
    forced_bos_token_id: Option<u32>,
    max_length: Option<usize>,
}

/// What is read of `tokenizer_config.json`.
#[derive(Default, Deserialize)]
struct Languages {
    source_lang: Option<String>,
    target_lang: Option<String>,
    separate_vocabs: Option<bool>,
}

impl PublishedTranslator {
    /// Reads a folder, trusting nothing in it.
    ///
    /// # Errors
    /// If a file is missing or damaged, does not fit the others, or asks for what this version does not have.
    pub(crate) fn read(folder: &Snapshot) -> Result<PublishedTranslator> {
        let config = Config::read(folder)?;
        // The small files first: what is wrong with them is said before the large one is read.
        let model = translator_of(folder, &config)?.config;
        let vocab_size = model.target_vocab_size;
        let languages: Languages = files::optional_json(folder, TOKENIZER_CONFIG)?.unwrap_or_default();
        if languages.separate_vocabs == Some(true) {
            let problem = tr!(
                "separate_vocabs: this version reads translators with one vocabulary for both sides",
                "separate_vocabs: この版で読めるのは、原文と訳文で語彙が共通の翻訳モデルです"
            );
            return Err(model_file_error(folder, TOKENIZER_CONFIG, problem));
        }
        let (source, target) = tokenizers(folder, vocab_size)?;
        let of_generation: Generation = files::optional_json(folder, GENERATION)?.unwrap_or_default();
        let of_model: Generation = config.parse(folder)?;
        let writing = writing(folder, of_generation, of_model, vocab_size, model.max_length)?;
        let max_length = read_limit(folder, model.max_length)?;
        let checkpoint = TranslatorCheckpoint::of_snapshot(folder, None)?;
        let name = |name: Option<String>, other: &str| name.unwrap_or_else(|| other.to_owned());
        Ok(PublishedTranslator {
            model_type: config.model_type().to_owned(),
            precision: checkpoint.params.precision(),
            checkpoint,
            source,
            target,
            names: [name(languages.source_lang, "source"), name(languages.target_lang, "target")],
            writing,
            max_length,
        })
    }
}

/// The tokenizers of both sides: SentencePiece's files with the vocabulary, or else a `tokenizer.json`, and a
/// `source_tokenizer.json` where the source has its own.
fn tokenizers(folder: &Snapshot, vocab_size: usize) -> Result<(Option<TextTokenizer>, TextTokenizer)> {
    if PIECES.iter().all(|name| files::has(folder, name)) && files::has(folder, VOCABULARY) {
        let vocabulary = files::find(folder, VOCABULARY)?.0;
        let of = |name: &str| -> Result<TextTokenizer> {
            let tokenizer = TextTokenizer::read_marian(&files::find(folder, name)?.0, &vocabulary)?;
            check_ids(folder, VOCABULARY, tokenizer.id_bound(), vocab_size)?;
            Ok(tokenizer)
        };
        return Ok((Some(of(PIECES[0])?), of(PIECES[1])?));
    }
    if let Some(missing) = missing(folder) {
        let problem = tr!(
            "the file is missing: expected source.spm, target.spm and vocab.json, as translators are published, or \
             tokenizer.json",
            "このファイルがありません。公開されている翻訳モデルの source.spm、target.spm、vocab.json か、tokenizer.json が\
             必要です"
        );
        return Err(model_file_error(folder, missing, problem));
    }
    let target = TextTokenizer::from_pretrained(read_tokenizer(folder, vocab_size)?)?;
    if !files::has(folder, SOURCE_TOKENIZER) {
        return Ok((None, target));
    }
    let source = PretrainedTokenizer::read(&files::find(folder, SOURCE_TOKENIZER)?.0)?;
    check_ids(folder, SOURCE_TOKENIZER, source.id_bound(), vocab_size)?;
    Ok((Some(TextTokenizer::from_pretrained(source)?), target))
}

/// Of the files that a translator is published with, one that is not there, where nothing else can take its place.
fn missing(folder: &Snapshot) -> Option<&'static str> {
    let others = ["tokenizer.json", "vocab.txt"];
    if others.iter().any(|name| files::has(folder, name)) {
        return None;
    }
    [PIECES[0], PIECES[1], VOCABULARY].into_iter().find(|name| !files::has(folder, name))
}

fn check_ids(folder: &Snapshot, name: &str, ids: usize, vocab_size: usize) -> Result<()> {
    if ids <= vocab_size {
        return Ok(());
    }
    let problem = tr!(
        "has tokens up to number {}, and the model has a vector for {vocab_size}; it belongs to another model",
        "トークンの番号は {} までありますが、モデルのベクトルは {vocab_size} 個です。別のモデルのファイルです",
        ids - 1
    );
    Err(model_file_error(folder, name, problem))
}

fn writing(
    folder: &Snapshot,
    of_generation: Generation,
    of_model: Generation,
    vocab_size: usize,
    positions: usize,
) -> Result<Writing> {
    let wrong = |problem: String| Err(model_file_error(folder, CONFIG, problem));
    if of_generation.forced_bos_token_id.or(of_model.forced_bos_token_id).is_some() {
        return wrong(tr!(
            "forced_bos_token_id: this version does not read translators that force a first token",
            "forced_bos_token_id: 最初のトークンを固定する翻訳モデルは、この版では読めません"
        ));
    }
    let ends = of_generation.eos_token_id.or(of_model.eos_token_id).map(Ids::list).unwrap_or_default();
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
            "bad_words_ids: this version reads single tokens that are never written, and no sequences",
            "bad_words_ids: この版で読めるのは、書かない単独のトークンだけです"
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
            "expected an eos_token_id that may be written, found {end}, which pad_token_id or bad_words_ids forbids",
            "eos_token_id は書けるトークンのはずですが、{end} は pad_token_id か bad_words_ids で禁じられています"
        ));
    }
    let most = of_generation.max_length.or(of_model.max_length).map_or(positions, |most| most.min(positions)).max(2);
    Ok(Writing { bounds: [start, end], never, most })
}
