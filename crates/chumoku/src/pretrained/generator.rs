//! Published language models as they write texts: model, tokenizer, the tokens at which a text ends, and how messages
//! become a prompt.

use super::chat::ChatTemplate;
use super::config::{Config, decoder_of};
use super::tokenizer::read_tokenizer;
use super::{DecoderCheckpoint, files};
use crate::Result;
use crate::text::TextTokenizer;
use chumoku_kernels::Precision;
use serde::Deserialize;
use std::path::Path;

const GENERATION: &str = "generation_config.json";

/// A language model out of a folder.
#[derive(Debug)]
pub(crate) struct GeneratorCheckpoint {
    /// What the folder calls it.
    pub(crate) model_type: String,
    pub(crate) precision: Precision,
    pub(crate) decoder: DecoderCheckpoint,
    pub(crate) tokenizer: TextTokenizer,
    /// What is read where there is nothing to read.
    pub(crate) first: u32,
    /// At each of these a text ends.
    pub(crate) ends: Vec<u32>,
    pub(crate) chat: Option<ChatTemplate>,
}

/// What is read of `generation_config.json`; `config.json` has the same where that is missing.
#[derive(Default, Deserialize)]
struct Bounds {
    bos_token_id: Option<Ids>,
    eos_token_id: Option<Ids>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Ids {
    One(u32),
    Several(Vec<u32>),
}

impl Ids {
    fn list(self) -> Vec<u32> {
        match self {
            Ids::One(id) => vec![id],
            Ids::Several(ids) => ids,
        }
    }
}

impl GeneratorCheckpoint {
    /// Reads a folder, trusting nothing in it.
    ///
    /// # Errors
    /// If a file is missing or damaged, does not fit the others, or asks for what this version does not have.
    pub(crate) fn read(folder: &Path) -> Result<GeneratorCheckpoint> {
        let config = Config::read(folder)?;
        // The small files first: what is wrong with them is said before the large one is read.
        let vocab_size = decoder_of(folder, &config)?.config.vocab_size;
        let pretrained = read_tokenizer(folder, vocab_size)?.reading_special_tokens();
        let tokenizer = TextTokenizer::of_pretrained(pretrained)?;
        let chat = ChatTemplate::read(folder)?;
        let of_generation: Bounds = files::optional_json(folder, GENERATION)?.unwrap_or_default();
        let of_model: Bounds = config.parse(folder)?;
        let known = |ids: Option<Ids>| ids.map(Ids::list).unwrap_or_default().into_iter();
        let known = |ids| known(ids).filter(|&id| (id as usize) < vocab_size).collect::<Vec<u32>>();
        let either = |ids: Vec<u32>, others: Vec<u32>| if ids.is_empty() { others } else { ids };
        let ends = either(known(of_generation.eos_token_id), known(of_model.eos_token_id));
        let begins = either(known(of_generation.bos_token_id), known(of_model.bos_token_id));
        let first = begins.first().or(ends.first()).copied().unwrap_or(0);
        let decoder = DecoderCheckpoint::read(folder, None)?;
        let model_type = config.model_type().to_owned();
        Ok(GeneratorCheckpoint { model_type, precision: config.precision(), decoder, tokenizer, first, ends, chat })
    }
}
