//! The flags of `embed` and `nearest`.

use super::values::{parse_at_least_one, parse_up_to_1024};
use super::{Precision, ReadArgs};
use crate::output::{OutputPath, file_or_standard_output};
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

/// The form of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EmbeddingFormat {
    /// A JSON object per line, with the text
    Jsonl,
    /// NumPy's array of f32, rows × width
    Npy,
    /// The same array as the tensor `embeddings`
    Safetensors,
}

// The form of vectors has the name `--format`.
#[derive(Debug, ClapArgs)]
#[command(mut_arg("format", |format| format.long("input-format")))]
pub(crate) struct EmbedArgs {
    /// The folder of a pretrained encoder, as Hugging Face's libraries write it
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Texts; without texts or --input, standard input is read: lines or a table
    #[arg(value_name = "TEXT")]
    pub(crate) texts: Vec<String>,
    /// A file whose rows become vectors, - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "texts")]
    pub(crate) input: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
    /// Stop at the first row that cannot be read, instead of leaving its vector empty
    #[arg(long, conflicts_with = "skip_bad_rows")]
    pub(crate) strict: bool,
    /// The form of the vectors (default: by the ending of --out, else jsonl)
    #[arg(id = "vector_format", long = "format", value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<EmbeddingFormat>,
    /// A file for the vectors (default: standard output)
    #[arg(long, value_name = "FILE", value_parser = file_or_standard_output())]
    pub(crate) out: Option<OutputPath>,
    /// The name of one of the model's prompts, to be put before each text
    #[arg(long, value_name = "NAME")]
    pub(crate) prompt: Option<String>,
    /// Leave vectors as long as the model makes them, instead of giving them length 1
    #[arg(long)]
    pub(crate) no_normalize: bool,
    /// How exact matrix products are (default: highest, or high where the weights are stored in 16 bits)
    #[arg(long, value_enum)]
    pub(crate) precision: Option<Precision>,
    /// Threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NearestArgs {
    /// The folder of a pretrained encoder, as Hugging Face's libraries write it
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// What is looked for
    #[arg(value_name = "QUERY", required = true)]
    pub(crate) queries: Vec<String>,
    /// The file whose rows are searched
    #[arg(long, value_name = "FILE")]
    pub(crate) corpus: PathBuf,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
    /// Give the N nearest rows
    #[arg(long, value_name = "N", value_parser = parse_at_least_one, default_value = "10")]
    pub(crate) top: usize,
    /// The model's prompt to be put before each query (default: the one named query, if there is one)
    #[arg(long, value_name = "NAME")]
    pub(crate) prompt: Option<String>,
    /// The model's prompt to be put before each row (default: document, passage or corpus, if there is one)
    #[arg(long, value_name = "NAME")]
    pub(crate) corpus_prompt: Option<String>,
    /// How exact matrix products are (default: highest, or high where the weights are stored in 16 bits)
    #[arg(long, value_enum)]
    pub(crate) precision: Option<Precision>,
    /// Threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
    /// Print one JSON object per query
    #[arg(long)]
    pub(crate) json: bool,
}
