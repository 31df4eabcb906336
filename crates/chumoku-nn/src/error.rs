//! Errors of configurations, sequences and model numbers.

use chumoku_kernels::format_thousands;

/// The result type of layers and models.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a layer or model: which setting, what was expected, and what was found.
///
/// Each variant holds its values, so that a program can react to it or translate its message.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument of a kernel is invalid.
    #[error(transparent)]
    Kernel(#[from] chumoku_kernels::Error),
    /// A sequence is longer than the model's positions.
    #[error("a sequence of {found} tokens is longer than the {limit} positions of the model")]
    TooLong {
        /// Positions of the model.
        limit: usize,
        /// Tokens of the sequence.
        found: usize,
    },
    /// The number of heads does not divide the width.
    #[error("d_model must be a multiple of num_heads, and both at least 1: got {d_model} and {num_heads}")]
    HeadCount {
        /// The width.
        d_model: usize,
        /// The heads.
        num_heads: usize,
    },
    /// The number of key–value heads does not divide the number of heads.
    #[error("{name}: expected a divisor of the {num_heads} heads, got {found}")]
    KeyHeadCount {
        /// The name of the setting.
        name: &'static str,
        /// The number of query heads.
        num_heads: usize,
        /// The number of key–value heads.
        found: usize,
    },
    /// A size of the model is out of range.
    #[error("{name}: expected 1 to {most}, found {found}")]
    Size {
        /// The name of the setting.
        name: &'static str,
        /// The maximum.
        most: usize,
        /// The size found.
        found: usize,
    },
    /// An unknown activation.
    #[error("activation: expected \"gelu\", \"gelu_tanh\", \"relu\" or \"silu\", found \"{0}\"")]
    Activation(String),
    /// An ε of normalization that is not a finite number above 0.
    #[error("norm_epsilon: expected a finite number above 0, got {0}")]
    NormEpsilon(f64),
    /// A setting of a pretrained model that is not supported.
    #[error("{setting}: expected {expected}, found {found}")]
    Unsupported {
        /// The name of the setting.
        setting: &'static str,
        /// The value in the model.
        found: String,
        /// The supported values.
        expected: &'static str,
    },
    /// An odd head width with rotary positions, which rotate pairs of numbers.
    #[error("rotary positions: expected heads of an even width (d_model / num_heads), got {0}")]
    OddHeadWidth(usize),
    /// A factor of the scores that is not a finite number.
    #[error("beta: expected a finite number, got {0}")]
    Beta(f64),
    /// A base of rotary positions that is not a finite number above 0.
    #[error("rotary_base: expected a finite number above 0, got {0}")]
    RotaryBase(f64),
    /// Invalid numbers for scaled rotary angles.
    #[error("rotary_scaling: expected finite numbers above 0, and high_freq_factor above low_freq_factor, got {0}")]
    RotaryScaling(String),
    /// Rotary positions or ALiBi in cross-attention.
    #[error("rotary positions and ALiBi compare positions within one sequence, but cross-attention has two sequences")]
    PositionsInCrossAttention,
    /// Step-by-step decoding with attention that is not causal.
    #[error("decoding step by step needs causal attention, but here earlier tokens see later ones")]
    NotCausal,
    /// Cross-attention to a memory with an option that needs queries and keys in one sequence.
    #[error(
        "attention to a memory cannot use causal masks, windows or positions: queries have no position in the memory"
    )]
    PositionsInMemory,
    /// A sequence of a memory that does not exist.
    #[error("memory: expected sequences below {count}, got {found}")]
    UnknownSequence {
        /// The sequences of the memory.
        count: usize,
        /// The requested sequence.
        found: usize,
    },
    /// A cache that belongs to another kind of network.
    #[error("backward: expected the cache of this network's forward pass, got a cache of another network")]
    CacheMismatch,
    /// Attention weights requested from a recurrent network.
    #[error("attention weights: a recurrent network has none")]
    NoAttention,
    /// A beam width that does not fit the vocabulary.
    #[error("beam: expected 1 to {vocabulary} (the size of the vocabulary), got {found}")]
    BeamWidth {
        /// The size of the vocabulary.
        vocabulary: usize,
        /// The beam width.
        found: usize,
    },
    /// A length penalty out of range.
    #[error("length penalty: expected a number from -10 to 10, got {0}")]
    LengthPenalty(f64),
    /// A temperature that is negative or not finite.
    #[error("temperature: expected a finite number of at least 0, got {0}")]
    Temperature(f64),
    /// A top-p probability out of range.
    #[error("top-p: expected a number above 0 and up to 1, got {0}")]
    TopP(f64),
    /// No logit to sample from.
    #[error("sampling: expected at least one logit, got none")]
    NoLogits,
    /// A logit that is NaN.
    #[error("the model returned a logit that is not a number: its weights are too large to use")]
    NanLogit,
    /// A size for counting costs that is out of range.
    #[error("{name}: expected {least} to {}, got {found}", format_thousands(*most as u128))]
    CountSize {
        /// The name of the size.
        name: &'static str,
        /// The minimum.
        least: usize,
        /// The maximum.
        most: usize,
        /// The size found.
        found: usize,
    },
    /// A count too large to be exact.
    #[error(
        "count: the {0} of these sizes are more than 2^128 (3.4e38), which cannot be counted exactly; use smaller sizes"
    )]
    CountOverflow(&'static str),
}
