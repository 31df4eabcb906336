//! Flags of `chumoku bench`.

use super::Precision;
use super::values::{parse_at_least_one, parse_dropout, parse_micro_batches, parse_up_to_1024};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use std::path::PathBuf;

/// The benchmark to run.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Scaled dot-product attention on random queries, keys and values
    Attention(BenchAttentionArgs),
    /// Training steps of a classifier on random tokens
    Train(BenchClassifierArgs),
    /// Forward pass of a classifier on random tokens
    Infer(BenchClassifierArgs),
}

/// Number format of attention inputs and outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dtype {
    /// 32 bits
    F32,
    /// 16 bits, 8 of them for the significand
    Bf16,
    /// 16 bits, 11 of them for the significand
    F16,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct BenchAttentionArgs {
    /// Batch size
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_at_least_one)]
    pub(crate) batch: usize,
    /// Number of query heads
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = parse_at_least_one)]
    pub(crate) heads: usize,
    /// Number of key and value heads, a divisor of --heads (default: --heads)
    #[arg(long, value_name = "N", value_parser = parse_at_least_one)]
    pub(crate) kv_heads: Option<usize>,
    /// Queries per sequence
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = parse_at_least_one)]
    pub(crate) length: usize,
    /// Keys per sequence (default: --length)
    #[arg(long, value_name = "N", value_parser = parse_at_least_one)]
    pub(crate) keys: Option<usize>,
    /// Width of a head
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = parse_at_least_one)]
    pub(crate) dim: usize,
    /// Width of a value head (default: --dim)
    #[arg(long, value_name = "N", value_parser = parse_at_least_one)]
    pub(crate) value_dim: Option<usize>,
    /// Number format of inputs and output
    #[arg(long, value_enum, default_value = "f32")]
    pub(crate) dtype: Dtype,
    /// Precision of f32 products
    #[arg(long, value_enum, default_value = "highest")]
    pub(crate) precision: Precision,
    /// Let each query see only keys up to its own position; the last query is aligned with the last key
    #[arg(long)]
    pub(crate) causal: bool,
    /// Let each query see its own position, N keys before it and, without --causal, N keys after it
    #[arg(long, value_name = "N")]
    pub(crate) window: Option<usize>,
    /// Run the backward pass too
    #[arg(long)]
    pub(crate) backward: bool,
    /// Number of threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
    /// Print one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct BenchClassifierArgs {
    /// Number of encoder layers
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = parse_at_least_one)]
    pub(crate) layers: usize,
    /// Width of a token vector; the feed-forward layers are four times as wide
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = parse_at_least_one)]
    pub(crate) d_model: usize,
    /// Number of heads, a divisor of --d-model
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = parse_at_least_one)]
    pub(crate) heads: usize,
    /// Sequences per batch
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = parse_at_least_one)]
    pub(crate) batch: usize,
    /// Tokens per sequence
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = parse_at_least_one)]
    pub(crate) length: usize,
    /// Read sequence lengths from a file, one per line, instead of --length; each batch runs once
    #[arg(long, value_name = "FILE", conflicts_with = "length")]
    pub(crate) lengths: Option<PathBuf>,
    /// Vocabulary size
    #[arg(long, value_name = "N", default_value_t = 8000, value_parser = parse_at_least_one)]
    pub(crate) vocab: usize,
    /// Dropout rate in training, also for attention weights
    #[arg(long, value_name = "X", default_value_t = 0.1, value_parser = parse_dropout)]
    pub(crate) dropout: f32,
    /// Precision of matrix products
    #[arg(long, value_enum, default_value = "highest")]
    pub(crate) precision: Precision,
    /// Micro-batches that training computes in parallel, 1 to 64 (default: 1, 2 or 4, depending on the tokens of a
    /// batch)
    #[arg(long, value_name = "N", value_parser = parse_micro_batches)]
    pub(crate) parts: Option<usize>,
    /// Also show where the time goes, next to the limits of this processor
    #[arg(long)]
    pub(crate) profile: bool,
    /// Number of threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
    /// Print one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
