//! Flags of `chumoku embed` and `chumoku nearest`.

use super::values::{parse_at_least_one, parse_up_to_1024};
use super::{Precision, ReadArgs};
use crate::output::{OutputPath, file_or_standard_output};
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

/// Output format of embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EmbeddingFormat {
    /// One JSON object per line, with the text
    Jsonl,
    /// NumPy array of f32, rows × width
    Npy,
    /// The same array as the tensor `embeddings`
    Safetensors,
}

// `--format` is the format of the embeddings, so the input format is `--input-format`.
#[derive(Debug, ClapArgs)]
#[command(mut_arg("format", |format| format.long("input-format")))]
pub(crate) struct EmbedArgs {
    /// Folder of a pretrained encoder, as Hugging Face libraries write it, or of a classifier with a network or an
    /// autoencoder trained here
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Texts; without texts or --input, reads lines or a table from standard input
    #[arg(value_name = "TEXT")]
    pub(crate) texts: Vec<String>,
    /// File to embed, row by row; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "texts")]
    pub(crate) input: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
    /// Stop at the first row that cannot be read, instead of leaving its vector empty
    #[arg(long, conflicts_with = "skip_bad_rows")]
    pub(crate) strict: bool,
    /// Format of the embeddings (default: from the extension of --out, otherwise jsonl)
    #[arg(id = "vector_format", long = "format", value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<EmbeddingFormat>,
    /// File for the embeddings (default: standard output)
    #[arg(long, value_name = "FILE", value_parser = file_or_standard_output())]
    pub(crate) out: Option<OutputPath>,
    /// Name of one of the model's prompts, put before each text
    #[arg(long, value_name = "NAME")]
    pub(crate) prompt: Option<String>,
    /// Keep the model's vector lengths, instead of normalizing vectors to length 1
    #[arg(long)]
    pub(crate) no_normalize: bool,
    /// Precision of matrix products (default: that of training; for published models highest, or high if their weights
    /// are 16-bit)
    #[arg(long, value_enum)]
    pub(crate) precision: Option<Precision>,
    /// Number of threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NearestArgs {
    /// Folder of a pretrained encoder, as Hugging Face libraries write it, or of a classifier with a network or an
    /// autoencoder trained here
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Texts to search for
    #[arg(value_name = "QUERY", required = true)]
    pub(crate) queries: Vec<String>,
    /// File whose rows are searched
    #[arg(long, value_name = "FILE")]
    pub(crate) corpus: PathBuf,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
    /// Print the N nearest rows
    #[arg(long, value_name = "N", value_parser = parse_at_least_one, default_value = "10")]
    pub(crate) top: usize,
    /// Name of the model's prompt, put before each query (default: query, if the model has it)
    #[arg(long, value_name = "NAME")]
    pub(crate) prompt: Option<String>,
    /// Name of the model's prompt, put before each row (default: document, passage or corpus, if the model has it)
    #[arg(long, value_name = "NAME")]
    pub(crate) corpus_prompt: Option<String>,
    /// Precision of matrix products (default: that of training; for published models highest, or high if their weights
    /// are 16-bit)
    #[arg(long, value_enum)]
    pub(crate) precision: Option<Precision>,
    /// Number of threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
    /// Print one JSON object per query
    #[arg(long)]
    pub(crate) json: bool,
}
