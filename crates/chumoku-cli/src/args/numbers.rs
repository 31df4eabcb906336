//! Flags of the commands about numbers: `check`, `trace`, `count`.

use super::{PictureArgs, Precision};
use crate::UsageError;
use crate::output::{OutputPath, file_or_standard_output};
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, ClapArgs)]
pub(crate) struct CheckArgs {
    /// Worked examples: JSON files with inputs and claims
    ///
    /// For example `{"inputs": {"Q": [[1, 0]], "K": [[1, 0], [0, 1]]}, "claims": {"weights": [[0.67, 0.33]]}}`.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Print one JSON object per file, each on one line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Output format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceFormat {
    /// Text for a terminal
    Text,
    /// Markdown
    Md,
    /// Self-contained HTML page
    Html,
    /// A LaTeX document
    Latex,
    /// All numbers
    Json,
    /// A spreadsheet with working formulas
    Xlsx,
}

/// Level of detail of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceDepth {
    /// Formulas and shapes
    Shapes,
    /// One line per step
    Steps,
    /// All numbers
    All,
}

same_values!(TraceDepth, chumoku_trace::TraceDetail: Shapes, Steps, All);

#[derive(Debug, ClapArgs)]
#[command(group = clap::ArgGroup::new("what").args(["example", "input", "model"]))]
pub(crate) struct TraceArgs {
    /// Built-in example (an unknown name lists all)
    #[arg(long, value_name = "NAME")]
    pub(crate) example: Option<String>,
    /// Worked example: a JSON file with inputs
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Model folder; --text gives its input
    #[arg(long, value_name = "DIR", requires = "text")]
    pub(crate) model: Option<PathBuf>,
    /// Text for the model; for a model of text pairs, both texts with a tab between them
    #[arg(long, value_name = "T", requires = "model")]
    pub(crate) text: Option<String>,
    /// Target of the trace: a translation, or with --backward a class
    ///
    /// For a translator, the translation (default: the model's own). For a classifier with --backward, the class whose
    /// loss is traced (default: the most probable one).
    #[arg(long, value_name = "TEXT", requires = "model")]
    pub(crate) target: Option<String>,
    /// Attention of a translator to show
    #[arg(long, value_enum, requires = "model")]
    pub(crate) part: Option<AttentionPart>,
    /// Layer, from 1 (default: the last)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one, requires = "model")]
    pub(crate) layer: Option<usize>,
    /// Head, from 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = super::parse_at_least_one)]
    pub(crate) head: usize,
    /// Also show the backward pass: gradients of the loss, and a step of AdamW if the example has an optimizer
    #[arg(long, conflicts_with_all = ["beam", "tokens"])]
    pub(crate) backward: bool,
    /// Show the tree of a beam search of this width instead of attention
    ///
    /// The tree has the hypotheses of a translator, or the continuations of a language model.
    #[arg(long, group = "drawn", value_name = "N", value_parser = super::parse_at_least_one, requires = "model", conflicts_with_all = ["target", "part", "layer"])]
    pub(crate) beam: Option<usize>,
    /// Show how the tokenizer splits the text instead of attention: every merge of byte-pair encoding, in order
    #[arg(long, requires = "model", conflicts_with_all = ["beam", "target", "part", "layer", "precision"])]
    pub(crate) tokens: bool,
    /// With --beam, maximum number of tokens that a language model generates (default: 8)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one, requires = "beam")]
    pub(crate) steps: Option<usize>,
    /// Show how softmax saturates as the width of queries and keys grows, with and without the scale 1/√d_k
    #[arg(long, group = "drawn", conflicts_with_all = ["example", "input", "model", "backward"])]
    pub(crate) saturation: bool,
    /// With --beam or --saturation, also write the picture as SVG
    #[arg(long, value_name = "FILE", requires = "drawn")]
    pub(crate) svg: Option<OutputPath>,
    /// Precision of matrix products (default: that of training; for published models highest, or high if their weights
    /// are 16-bit)
    #[arg(long, value_enum, requires = "model")]
    pub(crate) precision: Option<Precision>,
    /// Output format (default: from the extension of --out, otherwise text)
    #[arg(long, value_enum)]
    pub(crate) format: Option<TraceFormat>,
    /// Level of detail
    #[arg(long, value_enum, default_value = "all")]
    pub(crate) depth: TraceDepth,
    /// Number of decimals
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = parse_decimals)]
    pub(crate) digits: usize,
    /// Maximum rows and columns of a matrix (default: 12, in HTML 64; JSON and spreadsheets have all)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) size: Option<usize>,
    /// Write to a file instead of standard output
    #[arg(long, value_name = "FILE", value_parser = file_or_standard_output())]
    pub(crate) out: Option<OutputPath>,
}

impl TraceArgs {
    /// Returns the format of `--format` or, without it, that of the extension of `--out`.
    pub(crate) fn format(&self) -> TraceFormat {
        let of_file = || match self.out.as_ref()?.extension()?.as_str() {
            "md" | "markdown" => Some(TraceFormat::Md),
            "html" | "htm" => Some(TraceFormat::Html),
            "tex" => Some(TraceFormat::Latex),
            "json" => Some(TraceFormat::Json),
            "xlsx" => Some(TraceFormat::Xlsx),
            _ => None,
        };
        self.format.or_else(of_file).unwrap_or(TraceFormat::Text)
    }

    /// Refuses a file name of a format that traces do not have, such as `trace.pdf`.
    pub(crate) fn check_out(&self) -> Result<(), UsageError> {
        match &self.out {
            Some(out) if self.format.is_none() && self.format() == TraceFormat::Text => {
                out.check_extension(&["txt", "text"], &[".txt", ".md", ".html", ".tex", ".json", ".xlsx"])
            }
            _ => Ok(()),
        }
    }
}

/// The attention of a translator to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AttentionPart {
    /// Encoder self-attention over the source
    Encoder,
    /// Decoder self-attention over the translation so far
    Decoder,
    /// Decoder cross-attention over the source
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

/// The network to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CountedNetwork {
    /// Multi-head attention alone
    Attention,
    /// Additive attention: a small network compares each query with each key
    AdditiveAttention,
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
    /// Model folder: use its sizes, and check them against its tensors
    #[arg(long, value_name = "DIR", conflicts_with_all = MODEL_SIZE_ARGS)]
    pub(crate) model: Option<PathBuf>,
    /// Network to count step by step; others are shown next to it
    #[arg(long, value_enum, default_value = "transformer")]
    pub(crate) network: CountedNetwork,
    /// Batch size, B
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = super::parse_at_least_one)]
    pub(crate) batch: usize,
    /// Tokens per sequence, n; for an encoder-decoder, of the source (default: 128, or the maximum of the model)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) length: Option<usize>,
    /// Tokens per target sequence of an encoder-decoder, t (default: --length)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) target_length: Option<usize>,
    /// Keys per sequence, m, for cross-attention (default: --length)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) keys: Option<usize>,
    /// Width of a token vector, d
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = super::parse_at_least_one)]
    pub(crate) d_model: usize,
    /// Number of heads, h
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = super::parse_at_least_one)]
    pub(crate) heads: usize,
    /// Number of key and value heads, a divisor of --heads (default: --heads)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) kv_heads: Option<usize>,
    /// Width of a head, k (default: --d-model / --heads)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) head_dim: Option<usize>,
    /// Width inside the feed-forward network, f (default: 4 · --d-model)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) d_ff: Option<usize>,
    /// Number of layers (default: 4; attention alone has one)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) layers: Option<usize>,
    /// Number of decoder layers of an encoder-decoder (default: --layers)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) decoder_layers: Option<usize>,
    /// Vocabulary size, V: also count the embedding
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) vocab: Option<usize>,
    /// Target vocabulary size of an encoder-decoder, with a separate embedding (default: one embedding for both)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one, requires = "vocab")]
    pub(crate) target_vocab: Option<usize>,
    /// Number of learned positions
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) positions: Option<usize>,
    /// Number of classes: also count the classification layer
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) classes: Option<usize>,
    /// Give the decoder's output layer its own matrix instead of the embedding's
    #[arg(long, requires = "vocab")]
    pub(crate) untied: bool,
    /// Normalize before each sublayer and at the end, instead of after each sublayer
    #[arg(long)]
    pub(crate) pre_norm: bool,
    /// Width of a recurrent network's state, or inside the tanh of additive attention, s (default: --d-model)
    #[arg(long, value_name = "N", value_parser = super::parse_at_least_one)]
    pub(crate) hidden: Option<usize>,
    /// Let a recurrent network read in both directions
    #[arg(long)]
    pub(crate) bidirectional: bool,
    /// Leave out the biases of linear and recurrent layers
    #[arg(long)]
    pub(crate) no_bias: bool,
    /// Leave out the biases of W_Q, W_K and W_V
    #[arg(long)]
    pub(crate) no_qkv_bias: bool,
    /// Leave out W_O
    #[arg(long)]
    pub(crate) no_output_projection: bool,
    /// Print one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with a map of the network: a block for every step, with its shape and parameters
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<OutputPath>,
    /// Files for the map of the network.
    #[command(flatten)]
    pub(crate) pictures: PictureArgs,
}

/// Sizes that a model folder determines.
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
