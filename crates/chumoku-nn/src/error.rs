//! What can be wrong with a configuration, a sequence or a model's numbers.

/// The result of a layer or model.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What does not fit: which setting, what was expected, and what came.
///
/// Each fault is a variant with its numbers, so that a program can answer it, or say it in another language.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument of a kernel does not fit.
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
    /// Heads that do not divide the width.
    #[error("d_model must be a multiple of num_heads, and both at least 1: got {d_model} and {num_heads}")]
    HeadCount {
        /// The width.
        d_model: usize,
        /// The heads.
        num_heads: usize,
    },
    /// Heads of keys and values that do not divide the heads.
    #[error("{name}: expected a divisor of the {num_heads} heads, got {found}")]
    KeyHeadCount {
        /// What the setting is called.
        name: &'static str,
        /// The heads of the queries.
        num_heads: usize,
        /// Those of keys and values.
        found: usize,
    },
    /// A size of a model out of its range.
    #[error("{name}: expected 1 to {most}, found {found}")]
    Size {
        /// What the setting is called.
        name: &'static str,
        /// The largest allowed.
        most: usize,
        /// The size found.
        found: usize,
    },
    /// An activation that nothing knows.
    #[error("activation: expected \"gelu\", \"gelu_tanh\", \"relu\" or \"silu\", found \"{0}\"")]
    Activation(String),
    /// An ε of normalisations that is no finite number above 0.
    #[error("norm_epsilon: expected a finite number above 0, got {0}")]
    NormEpsilon(f64),
    /// A setting of a pretrained model asks for what is not there.
    #[error("{setting}: expected {expected}, found {found}")]
    Unsupported {
        /// What the setting is called.
        setting: &'static str,
        /// What the model has.
        found: String,
        /// What would do.
        expected: &'static str,
    },
    /// Rotary positions turn pairs of numbers, and a head has an odd one.
    #[error("rotary positions: expected heads of an even width (d_model / num_heads), got {0}")]
    OddHeadWidth(usize),
    /// A factor of the scores that is no finite number.
    #[error("beta: expected a finite number, got {0}")]
    Beta(f64),
    /// A base of rotary positions that is no finite number above 0.
    #[error("rotary_base: expected a finite number above 0, got {0}")]
    RotaryBase(f64),
    /// Slowed rotary angles whose numbers cannot be used.
    #[error("rotary_scaling: expected finite numbers above 0, and high_freq_factor above low_freq_factor, got {0}")]
    RotaryScaling(String),
    /// Rotary positions or ALiBi in cross-attention.
    #[error("rotary positions and ALiBi compare places in one sequence: cross-attention has two sequences")]
    PositionsInCrossAttention,
    /// Decoding step by step with attention that is not causal.
    #[error("decoding step by step needs causal attention: here earlier tokens see later ones")]
    NotCausal,
    /// Attention to a memory with an option that needs both sides in one sequence.
    #[error("attention to a memory cannot use causal masks, windows or positions: queries have no place in it")]
    PositionsInMemory,
    /// A sequence of a memory that does not exist.
    #[error("memory: expected sequences below {count}, got {found}")]
    UnknownSequence {
        /// The sequences of the memory.
        count: usize,
        /// The one that was asked for.
        found: usize,
    },
    /// What another kind of network remembers.
    #[error("backward: expected the cache of this network's forward pass, got another network's")]
    CacheMismatch,
    /// Attention weights of a recurrent network.
    #[error("attention weights: a recurrent network has none")]
    NoAttention,
    /// A beam that does not fit the vocabulary.
    #[error("beam: expected 1 to {vocabulary} (the size of the vocabulary), got {found}")]
    BeamWidth {
        /// Tokens of the vocabulary.
        vocabulary: usize,
        /// The beam's width.
        found: usize,
    },
    /// A length penalty out of its range.
    #[error("length penalty: expected a number from -10 to 10, got {0}")]
    LengthPenalty(f64),
    /// A temperature that is negative or no finite number.
    #[error("temperature: expected a finite number of at least 0, got {0}")]
    Temperature(f64),
    /// A total probability out of its range.
    #[error("top p: expected a number above 0 and up to 1, got {0}")]
    TopP(f64),
    /// No logit to choose from.
    #[error("sampling: expected at least one logit, got none")]
    NoLogits,
    /// A model's logit is not a number.
    #[error("the model gives a logit that is not a number: its weights are too large to use")]
    NanLogit,
    /// A size to count with out of its range.
    #[error("{name}: expected {least} to {}, got {found}", group_thousands(*most))]
    CountSize {
        /// What the size is called.
        name: &'static str,
        /// The smallest allowed.
        least: usize,
        /// The largest allowed.
        most: usize,
        /// The size found.
        found: usize,
    },
    /// A figure too large to be exact.
    #[error("count: the {0} of these sizes are more than 2^128 (3.4e38), which is not counted; take smaller sizes")]
    CountOverflow(&'static str),
}

/// A whole number with its thousands set apart, as `chumoku-text` has it for sentences: the two crates stand side by side,
/// and the one below both is for arithmetic.
fn group_thousands(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
