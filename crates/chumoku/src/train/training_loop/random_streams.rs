//! The random streams of a training run. The number of a stream is one of these plus the epoch; tuning has no epochs.
//!
//! Dropout numbers its streams by step and site, which are smaller numbers. Those of initial parameters are hashes of
//! their names.

/// The width of each range of streams.
const RANGE: u64 = 1 << 56;

/// The windows that are read of long texts.
pub(crate) const WINDOWS: u64 = 1 << 60;
/// The tokens that a classifier does not read.
pub(crate) const TOKEN_DROPOUT: u64 = WINDOWS + RANGE;
/// The masked tokens of pretraining, which has no token dropout.
pub(crate) const MASKED_TOKENS: u64 = WINDOWS + RANGE;
/// The order of the sequences.
pub(crate) const SEQUENCES: u64 = 1 << 62;
/// The order of the batches.
pub(crate) const BATCHES: u64 = SEQUENCES + RANGE;
/// The changes that tuning tries.
pub(crate) const TUNING: u64 = 0x7475_6e65 << 24;

/// The epoch of evaluations, which always mask the same tokens.
pub(crate) const EVALUATION_EPOCH: u64 = RANGE - 1;
