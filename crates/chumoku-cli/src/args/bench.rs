//! Flags of `chumoku bench`.

use super::Precision;
use super::values::{parse_at_least_one, parse_dropout, parse_micro_batches, parse_up_to_1024};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use std::path::PathBuf;

/// What is measured.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Scaled dot-product attention of random queries, keys and values
    Attention(BenchAttentionArgs),
    /// Training steps of a classifier on random tokens
    Train(BenchClassifierArgs),
    /// The forward pass of a classifier on random tokens
    Infer(BenchClassifierArgs),
}

/// A number format of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dtype {
    /// 32 bits
    F32,
    /// 16 bits, 8 of them digits
    Bf16,
    /// 16 bits, 11 of them digits
    F16,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct BenchAttentionArgs {
    /// Sequences
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_at_least_one)]
    pub(crate) batch: usize,
    /// Heads of the queries
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = parse_at_least_one)]
    pub(crate) heads: usize,
    /// Heads of keys and values, a divisor of --heads (default: --heads)
    #[arg(long, value_name = "N", value_parser = parse_at_least_one)]
    pub(crate) kv_heads: Option<usize>,
    /// Queries in a sequence
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = parse_at_least_one)]
    pub(crate) length: usize,
    /// Keys in a sequence (default: --length)
    #[arg(long, value_name = "N", value_parser = parse_at_least_one)]
    pub(crate) keys: Option<usize>,
    /// Width of a head
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = parse_at_least_one)]
    pub(crate) dim: usize,
    /// Width of a head of values (default: --dim)
    #[arg(long, value_name = "N", value_parser = parse_at_least_one)]
    pub(crate) value_dim: Option<usize>,
    /// Number format of inputs and output
    #[arg(long, value_enum, default_value = "f32")]
    pub(crate) dtype: Dtype,
    /// How exact products of f32 numbers are
    #[arg(long, value_enum, default_value = "highest")]
    pub(crate) precision: Precision,
    /// Each query sees the keys up to its own place; the last query is at the place of the last key
    #[arg(long)]
    pub(crate) causal: bool,
    /// Each query sees its own place, N keys before it and, without --causal, N after it
    #[arg(long, value_name = "N")]
    pub(crate) window: Option<usize>,
    /// The forward and the backward pass
    #[arg(long)]
    pub(crate) backward: bool,
    /// Threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
    /// Print one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct BenchClassifierArgs {
    /// Layers of the encoder
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = parse_at_least_one)]
    pub(crate) layers: usize,
    /// Width of a token; the feed-forward layers are four times as wide
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = parse_at_least_one)]
    pub(crate) d_model: usize,
    /// Heads, a divisor of --d-model
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = parse_at_least_one)]
    pub(crate) heads: usize,
    /// Sequences in a batch
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = parse_at_least_one)]
    pub(crate) batch: usize,
    /// Tokens in a sequence
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = parse_at_least_one)]
    pub(crate) length: usize,
    /// A file with one length per line, in place of --length; each batch runs once
    #[arg(long, value_name = "FILE", conflicts_with = "length")]
    pub(crate) lengths: Option<PathBuf>,
    /// Different tokens
    #[arg(long, value_name = "N", default_value_t = 8000, value_parser = parse_at_least_one)]
    pub(crate) vocab: usize,
    /// Share of numbers set to 0 in training, of attention weights too
    #[arg(long, value_name = "X", default_value_t = 0.1, value_parser = parse_dropout)]
    pub(crate) dropout: f32,
    /// How exact matrix products are
    #[arg(long, value_enum, default_value = "highest")]
    pub(crate) precision: Precision,
    /// For training, parts of a batch that are learnt from side by side, 1 to 64 (default: 1, 2 or 4 by its tokens)
    #[arg(long, value_name = "N", value_parser = parse_micro_batches)]
    pub(crate) parts: Option<usize>,
    /// Also show where the time goes, beside the limits of this processor
    #[arg(long)]
    pub(crate) profile: bool,
    /// Threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
    /// Print one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
