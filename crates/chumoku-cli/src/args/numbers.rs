//! The arguments of the commands about numbers: checking them, showing them, counting.

use super::Precision;
use crate::output::{OutputPath, file_or_standard_output};
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, ClapArgs)]
pub(crate) struct CheckArgs {
    /// Worked examples: JSON files with inputs and claims
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Print one JSON object per file, each on one line, on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// A form of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceFormat {
    /// For a terminal
    Text,
    /// Markdown
    Md,
    /// A page that opens from disk
    Html,
    /// A LaTeX document
    Latex,
    /// Every number
    Json,
    /// A spreadsheet with working formulas
    Xlsx,
}

/// How much of a trace is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceDepth {
    /// Formulas and shapes
    Shapes,
    /// A line for each step
    Steps,
    /// Every number
    All,
}

#[derive(Debug, ClapArgs)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["example", "input", "model"]))]
pub(crate) struct TraceArgs {
    /// A built-in example (an unknown name lists all)
    #[arg(long, value_name = "NAME")]
    pub(crate) example: Option<String>,
    /// A worked example: a JSON file with inputs
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// A model's folder; --text says what it reads
    #[arg(long, value_name = "DIR", requires = "text")]
    pub(crate) model: Option<PathBuf>,
    /// The text that the model reads; of a model of two texts both, with a tab between them
    #[arg(long, value_name = "T", requires = "model")]
    pub(crate) text: Option<String>,
    /// The translation (default: the model's own); with --backward, of a classifier the class whose loss it is (default: the most
    /// probable)
    #[arg(long, value_name = "TEXT", requires = "model")]
    pub(crate) target: Option<String>,
    /// The attention of a translator (default: cross)
    #[arg(long, value_enum, requires = "model")]
    pub(crate) part: Option<AttentionPart>,
    /// The layer, from 1 (default: the last)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one, requires = "model")]
    pub(crate) layer: Option<usize>,
    /// The head, from 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = super::parse_at_least_one)]
    pub(crate) head: usize,
    /// Go on to the gradients of the loss, of an example or of a model that reads the text, back to what is given, and to a step
    /// of AdamW (of an example, if it has an optimizer)
    #[arg(long, conflicts_with_all = ["beam", "tokens"])]
    pub(crate) backward: bool,
    /// Instead of attention, the tree of a beam search so wide: what a translator considers while it writes, or a language model
    /// while it goes on from the text
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one, requires = "model", conflicts_with_all = ["target", "part", "layer"])]
    pub(crate) beam: Option<usize>,
    /// Instead of attention, how the model's tokenizer cuts the text: every merge of byte-pair encoding, in order
    #[arg(long, requires = "model", conflicts_with_all = ["beam", "target", "part", "layer", "precision"])]
    pub(crate) tokens: bool,
    /// For --beam: how many tokens a language model writes at most (default: 8)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one, requires = "beam")]
    pub(crate) steps: Option<usize>,
    /// For --beam: write the tree as SVG too
    #[arg(long, value_name = "FILE", requires = "beam")]
    pub(crate) svg: Option<OutputPath>,
    /// How exact matrix products are (default: as the model was trained; of a published one highest, or high where its
    /// weights are stored in 16 bits)
    #[arg(long, value_enum, requires = "model")]
    pub(crate) precision: Option<Precision>,
    /// Output format (default: as the name of --out ends, otherwise text)
    #[arg(long, value_enum)]
    pub(crate) format: Option<TraceFormat>,
    /// How much is shown
    #[arg(long, value_enum, default_value = "all")]
    pub(crate) depth: TraceDepth,
    /// Decimals
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = parse_decimals)]
    pub(crate) digits: usize,
    /// Most rows and columns of a matrix (default: 12, in HTML 64; JSON and spreadsheets hold all)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) size: Option<usize>,
    /// Write to a file instead of standard output
    #[arg(long, value_name = "FILE", value_parser = file_or_standard_output())]
    pub(crate) out: Option<OutputPath>,
}

impl TraceArgs {
    /// The form that is asked for, by name or by that of the file.
    pub(crate) fn format(&self) -> TraceFormat {
        let ending = self
            .out
            .as_ref()
            .and_then(|out| out.as_path().extension())
            .map(|ending| ending.to_string_lossy().to_lowercase());
        let of_file = || match ending.as_deref()? {
            "md" | "markdown" => Some(TraceFormat::Md),
            "html" | "htm" => Some(TraceFormat::Html),
            "tex" => Some(TraceFormat::Latex),
            "json" => Some(TraceFormat::Json),
            "xlsx" => Some(TraceFormat::Xlsx),
            _ => None,
        };
        self.format.or_else(of_file).unwrap_or(TraceFormat::Text)
    }
}

/// Which attention of a translator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AttentionPart {
    /// The encoder's, over the source
    Encoder,
    /// The decoder's, over the translation so far
    Decoder,
    /// The decoder's, over the source
    Cross,
}

fn parse_decimals(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=15) => Ok(n),
        _ => Err(chumoku::tr!(
            "expected a whole number from 1 to 15, found {}",
            "1 から 15 までの整数が必要ですが、{} です",
            super::values::value_or_nothing(text)
        )),
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CountedNetwork {
    /// Multi-head attention alone
    Attention,
    /// A transformer encoder, with embedding (--vocab) and head (--classes) if given
    Transformer,
    /// A language model: causal layers, and with --vocab an output layer that predicts the next token
    Decoder,
    /// A translator: an encoder, and a decoder that attends to it
    EncoderDecoder,
    /// A recurrent network instead of transformer layers
    Rnn,
    /// A recurrent network with long short-term memory
    Lstm,
    /// A recurrent network with gated recurrent units
    Gru,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CountArgs {
    /// A model folder: take its sizes, and check them against its tensors
    #[arg(long, value_name = "DIR", conflicts_with_all = MODEL_SIZE_ARGS)]
    pub(crate) model: Option<PathBuf>,
    /// The network to count step by step; others are shown beside it
    #[arg(long, value_enum, default_value = "transformer")]
    pub(crate) network: CountedNetwork,
    /// Sequences, B
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = super::parse_at_least_one)]
    pub(crate) batch: usize,
    /// Tokens of a sequence, n; of an encoder-decoder those of the source (default: 128, or the most a model reads)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) length: Option<usize>,
    /// Tokens of an encoder-decoder's target, t (default: --length)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) target_length: Option<usize>,
    /// Keys of a sequence, m, for cross-attention (default: --length)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) keys: Option<usize>,
    /// Width of a token, d
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = super::parse_at_least_one)]
    pub(crate) d_model: usize,
    /// Heads, h
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = super::parse_at_least_one)]
    pub(crate) heads: usize,
    /// Heads of keys and values, a divisor of --heads (default: --heads)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) kv_heads: Option<usize>,
    /// Width of a head, k (default: --d-model / --heads)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) head_dim: Option<usize>,
    /// Width inside the feed-forward network, f (default: 4 · --d-model)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) d_ff: Option<usize>,
    /// Layers (default: 4; attention alone is one)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) layers: Option<usize>,
    /// Layers of an encoder-decoder's decoder (default: --layers)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) decoder_layers: Option<usize>,
    /// Different tokens, V: count the embedding
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) vocab: Option<usize>,
    /// Different tokens of an encoder-decoder's target, embedded by a table of their own (default: one table for both)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one, requires = "vocab")]
    pub(crate) target_vocab: Option<usize>,
    /// Number of learned positions
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) positions: Option<usize>,
    /// Number of classes: also count the classification layer
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) classes: Option<usize>,
    /// The output layer of a decoder has a matrix of its own, not the embedding's
    #[arg(long, requires = "vocab")]
    pub(crate) untied: bool,
    /// Normalisation before each part and once more at the end, not after each part
    #[arg(long)]
    pub(crate) pre_norm: bool,
    /// Width of a recurrent network's state, s (default: --d-model)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) hidden: Option<usize>,
    /// A recurrent network that reads in both directions
    #[arg(long)]
    pub(crate) bidirectional: bool,
    /// Linear layers and recurrent layers without biases
    #[arg(long)]
    pub(crate) no_bias: bool,
    /// W_Q, W_K and W_V without biases
    #[arg(long)]
    pub(crate) no_qkv_bias: bool,
    /// Attention without W_O
    #[arg(long)]
    pub(crate) no_output_projection: bool,
    /// Print one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Sizes that a model's folder says.
const MODEL_SIZE_ARGS: [&str; 20] = [
    "network",
    "keys",
    "d_model",
    "heads",
    "kv_heads",
    "head_dim",
    "d_ff",
    "layers",
    "decoder_layers",
    "vocab",
    "target_vocab",
    "positions",
    "classes",
    "untied",
    "pre_norm",
    "hidden",
    "bidirectional",
    "no_bias",
    "no_qkv_bias",
    "no_output_projection",
];
