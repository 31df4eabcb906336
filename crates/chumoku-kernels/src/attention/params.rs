//! The arguments of attention and their checks.

use super::heads::{Heads, HeadsLayout, HeadsMut};
use super::mask::{Band, Causal, Mask};
use crate::dropout::check_rate;
use crate::error::{Error, Result};
use crate::gemm::Precision;
use crate::number::Element;
use crate::philox::Philox;
use std::ops::Range;

/// Dropout of attention weights. The backward pass regenerates the mask instead of storing it.
#[derive(Clone, Copy, Debug)]
pub struct AttentionDropout {
    /// The fraction of weights set to 0, in 0..1. The other weights are scaled by 1/(1 − rate).
    pub rate: f32,
    /// The source of random numbers.
    pub random: Philox,
}

/// Builder for attention of queries over keys and values. The methods set its options.
///
/// Query head h reads key and value head `h / (query heads / key heads)`. With fewer key heads this is grouped-query
/// attention, and with one key head multi-query attention.
///
/// ```
/// use chumoku_kernels::{Attention, Causal, Heads, HeadsMut};
///
/// // One sequence, one head: two queries, two keys of width 1, values of width 2.
/// let query = Heads::bhld(&[1.0f32, 1.0], [1, 1, 2, 1])?;
/// let key = Heads::bhld(&[0.0, 0.0], [1, 1, 2, 1])?;
/// let value = Heads::bhld(&[2.0, 4.0, 6.0, 8.0], [1, 1, 2, 2])?;
/// let mut output = [0.0; 4];
/// Attention::new(query, key, value)
///     .causal(Causal::TopLeft)
///     .forward(HeadsMut::bhld(&mut output, [1, 1, 2, 2])?)?;
/// // The first query sees only the first key, the second sees both equally.
/// assert_eq!(output, [2.0, 4.0, 4.0, 6.0]);
/// # Ok::<(), chumoku_kernels::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a, T: Element> {
    pub(crate) query: Heads<'a, T>,
    pub(crate) key: Heads<'a, T>,
    pub(crate) value: Heads<'a, T>,
    pub(super) params: AttentionParams<'a, T::Sum>,
}

/// The parameters of attention without the values of queries, keys and values: memory layouts and options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttentionParams<'a, S> {
    pub(crate) query: HeadsLayout<'a>,
    pub(crate) key: HeadsLayout<'a>,
    pub(crate) value: HeadsLayout<'a>,
    pub(crate) scale: f64,
    pub(crate) softcap: Option<f64>,
    pub(crate) band: Band,
    pub(crate) key_lengths: Option<&'a [usize]>,
    pub(crate) mask: Option<Mask<'a, S>>,
    pub(crate) alibi: Option<&'a [f32]>,
    pub(crate) sinks: Option<&'a [f32]>,
    pub(crate) dropout: Option<AttentionDropout>,
    pub(crate) precision: Precision,
}

impl<'a, T: Element> Attention<'a, T> {
    /// Creates attention without masks, scaled by 1/√dim.
    ///
    /// # Shapes
    /// `query` (batch, heads, L, dim), `key` (batch, key heads, S, dim), `value` (batch, key heads, S, value dim).
    pub fn new(query: Heads<'a, T>, key: Heads<'a, T>, value: Heads<'a, T>) -> Self {
        let problem = AttentionParams {
            query: query.layout,
            key: key.layout,
            value: value.layout,
            scale: 1.0 / (query.dim() as f64).sqrt(),
            softcap: None,
            band: Band::default(),
            key_lengths: None,
            mask: None,
            alibi: None,
            sinks: None,
            dropout: None,
            precision: Precision::Highest,
        };
        Attention { query, key, value, params: problem }
    }

    /// Replaces the parameters.
    fn with(self, problem: AttentionParams<'a, T::Sum>) -> Self {
        Attention { params: problem, ..self }
    }

    /// Sets the factor of the query–key products; the default is 1/√dim.
    pub fn scale(self, scale: f64) -> Self {
        self.with(AttentionParams { scale, ..self.params })
    }

    /// Caps scaled scores s to `cap · tanh(s / cap)`, before masks are added.
    pub fn softcap(self, cap: f64) -> Self {
        self.with(AttentionParams { softcap: Some(cap), ..self.params })
    }

    /// Masks the keys after the position of query i on the diagonal.
    pub fn causal(self, diagonal: Causal) -> Self {
        let band = Band { right: Some(0), diagonal, ..self.params.band };
        self.with(AttentionParams { band, ..self.params })
    }

    /// Limits query i to `left` keys before its position on the diagonal and `right` keys after it. `None` means no
    /// limit.
    ///
    /// Together with [`Attention::causal`], the right limit stays 0. The last call determines the diagonal.
    pub fn window(self, left: Option<usize>, right: Option<usize>, diagonal: Causal) -> Self {
        let right = match (self.params.band.right, right) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.with(AttentionParams { band: Band { left, right, diagonal }, ..self.params })
    }

    /// Limits sequence s to `lengths[s]` keys. Keys beyond that are never read.
    pub fn key_lengths(self, lengths: &'a [usize]) -> Self {
        self.with(AttentionParams { key_lengths: Some(lengths), ..self.params })
    }

    /// Sets a mask by entries, which broadcasts to (batch, heads, L, S).
    ///
    /// The mask is read in place and never expanded. For packed sequences, the last two axes are positions within a
    /// sequence and cover at least the longest sequence.
    pub fn mask(self, mask: Mask<'a, T::Sum>) -> Self {
        self.with(AttentionParams { mask: Some(mask), ..self.params })
    }

    /// Adds linear biases (ALiBi): `slopes[h] · −|i + offset − j|` is added to the scores of head h.
    ///
    /// `i + offset` is the position of query i on the diagonal of [`Attention::causal`] or [`Attention::window`].
    /// Without either, the alignment is bottom right.
    ///
    /// Source: Press, Smith and Lewis, "Train Short, Test Long" (2022).
    pub fn alibi(self, slopes: &'a [f32]) -> Self {
        self.with(AttentionParams { alibi: Some(slopes), ..self.params })
    }

    /// Adds attention sinks: each query of head h also attends, with score `logits[h]`, to a key whose value is 0.
    ///
    /// A query without any other key gets output 0 and log-sum-exp `logits[h]`.
    pub fn sinks(self, logits: &'a [f32]) -> Self {
        self.with(AttentionParams { sinks: Some(logits), ..self.params })
    }

    /// Applies dropout to the weights.
    pub fn dropout(self, dropout: AttentionDropout) -> Self {
        self.with(AttentionParams { dropout: Some(dropout), ..self.params })
    }

    /// Sets the precision of f32 products; the default is [`Precision::Highest`].
    pub fn precision(self, precision: Precision) -> Self {
        self.with(AttentionParams { precision, ..self.params })
    }

    /// Returns the size of the log-sum-exp: one value per sequence, head and query.
    pub fn rows(&self) -> usize {
        self.query.layout.row_count().unwrap_or(usize::MAX)
    }

    /// Checks that the arguments are consistent.
    pub(super) fn check(&self) -> Result<()> {
        let Attention { query, key, value, params: problem } = *self;
        // This check comes first because the ones below iterate over sequences.
        if query.layout.row_count().is_none() {
            let problem = "expected a row count that fits in memory, got an overflow";
            return Err(Error::value("attention: query", problem));
        }
        check_same_shape("attention: value", value, key, key.heads(), value.dim())?;
        if query.dim() != key.dim() {
            let problem = format!("expected width {} like the queries, got {}", query.dim(), key.dim());
            return Err(Error::value("attention: key", problem));
        }
        if !query.heads().is_multiple_of(key.heads()) {
            let problem = format!("expected a divisor of the {} query heads, got {} heads", query.heads(), key.heads());
            return Err(Error::value("attention: key", problem));
        }
        if key.sequences() != query.sequences() {
            let problem = format!("expected {} sequences like the queries, got {}", query.sequences(), key.sequences());
            return Err(Error::value("attention: key", problem));
        }
        if !problem.scale.is_finite() {
            return Err(Error::value("attention: scale", format!("expected a finite number, got {}", problem.scale)));
        }
        if let Some(cap) = problem.softcap
            && !(cap.is_finite() && cap > 0.0)
        {
            return Err(Error::value("attention: softcap", format!("expected a finite number above 0, got {cap}")));
        }
        if let Some(lengths) = problem.key_lengths {
            Error::check_length("attention: key_lengths", key.sequences(), lengths.len())?;
            for (s, &length) in lengths.iter().enumerate() {
                if length > key.length(s) {
                    let problem = format!("expected at most {} keys in sequence {s}, got {length}", key.length(s));
                    return Err(Error::value("attention: key_lengths", problem));
                }
            }
        }
        if let Some(mask) = &problem.mask {
            let sizes = [query.sequences(), query.heads(), query.layout.longest(), key.layout.longest()];
            mask.check(sizes, query.layout.is_packed() || key.layout.is_packed())?;
        }
        for (what, numbers) in [("attention: alibi", problem.alibi), ("attention: sinks", problem.sinks)] {
            let Some(numbers) = numbers else { continue };
            Error::check_length(what, query.heads(), numbers.len())?;
            if let Some(bad) = numbers.iter().find(|x| !x.is_finite()) {
                return Err(Error::value(what, format!("expected finite numbers, got {bad}")));
            }
        }
        if let Some(dropout) = problem.dropout {
            check_rate("attention: dropout rate", dropout.rate)?;
        }
        Ok(())
    }

    /// Checks that a view has the shape of the output.
    pub(super) fn check_like_output(&self, what: &'static str, view: Heads<'_, T>) -> Result<()> {
        check_same_shape(what, view, self.query, self.query.heads(), self.value.dim())
    }

    /// Checks the length of an array with one value per query, like the log-sum-exp.
    pub(super) fn check_rows(&self, what: &'static str, found: usize) -> Result<()> {
        Error::check_length(what, self.rows(), found)
    }
}

impl<S> AttentionParams<'_, S> {
    /// Returns the head of keys and values that query head `h` reads.
    #[inline(always)]
    pub(crate) fn key_head(&self, h: usize) -> usize {
        h / self.group_size()
    }

    /// Returns the number of query heads per head of keys.
    pub(crate) fn group_size(&self) -> usize {
        self.query.heads / self.key.heads
    }

    /// Returns the number of keys of sequence `s`.
    #[inline(always)]
    pub(crate) fn key_count(&self, s: usize) -> usize {
        self.key_lengths.map_or_else(|| self.key.length(s), |lengths| lengths[s])
    }

    /// Returns the key position of query 0 of sequence `s`.
    #[inline(always)]
    pub(crate) fn diagonal_offset(&self, s: usize) -> i64 {
        self.band.offset(self.query.length(s), self.key_count(s))
    }

    /// Returns whether sequence `s` has one query and no mask or dropout, so that the decoding kernel applies.
    pub(super) fn is_decode_step(&self, s: usize) -> bool {
        self.query.length(s) == 1 && self.mask.is_none() && self.dropout.is_none()
    }

    /// Returns the keys that query `i` of sequence `s` sees by position. A mask may exclude some of them.
    #[inline(always)]
    pub(crate) fn visible_keys(&self, s: usize, i: usize) -> Range<usize> {
        self.band.range(i, self.diagonal_offset(s), self.key_count(s))
    }

    /// Returns the multiply–adds of the forward pass without masks, to decide whether threads are worthwhile.
    pub(crate) fn multiply_adds(&self) -> usize {
        let width = (self.query.dim + self.value.dim) * self.query.heads;
        (0..self.query.sequence_count())
            .map(|s| self.query.length(s).saturating_mul(self.key_count(s)).saturating_mul(width))
            .fold(0, usize::saturating_add)
    }
}

/// Checks that `view` has the sequences of `like`, and the given number of heads and columns.
pub(super) fn check_same_shape<T>(
    what: &'static str,
    view: Heads<'_, T>,
    like: Heads<'_, T>,
    heads: usize,
    dim: usize,
) -> Result<()> {
    if view.sequences() != like.sequences() {
        let problem = format!("expected {} sequences, got {}", like.sequences(), view.sequences());
        return Err(Error::value(what, problem));
    }
    for s in 0..view.sequences() {
        if view.length(s) != like.length(s) {
            let problem = format!("expected {} rows in sequence {s}, got {}", like.length(s), view.length(s));
            return Err(Error::value(what, problem));
        }
    }
    if (view.heads(), view.dim()) != (heads, dim) {
        let problem = format!("expected {heads} heads of width {dim}, got {} of {}", view.heads(), view.dim());
        return Err(Error::value(what, problem));
    }
    Ok(())
}

/// The destination of the results of the forward pass.
#[derive(Debug)]
pub(crate) struct ForwardOutputs<'a, T: Element> {
    pub(crate) output: HeadsMut<'a, T>,
    pub(crate) log_sum_exp: Option<&'a mut [T::Sum]>,
}

/// The results of the forward pass and their gradients, as inputs of the backward pass.
#[derive(Clone, Copy, Debug)]
pub struct BackwardInputs<'a, T: Element> {
    /// The output: (batch, heads, L, value dim).
    pub output: Heads<'a, T>,
    /// The log-sum-exp: (batch, heads, L), or (heads, tokens) if sequences are packed.
    pub log_sum_exp: &'a [T::Sum],
    /// The gradient of the output.
    pub d_output: Heads<'a, T>,
    /// The gradient of the log-sum-exp, if later computations use it.
    pub d_log_sum_exp: Option<&'a [T::Sum]>,
}

/// The destination of the gradients.
#[derive(Debug)]
pub struct Gradients<'a, T: Element> {
    /// Gradient of the queries.
    pub query: HeadsMut<'a, T>,
    /// Gradient of the keys; 0 for keys beyond a key length.
    pub key: HeadsMut<'a, T>,
    /// Gradient of the values.
    pub value: HeadsMut<'a, T>,
    /// Gradient of the additive mask, summed over the axes along which it broadcasts: contiguous, in the shape of the
    /// mask.
    pub mask: Option<&'a mut [T::Sum]>,
    /// Gradient of the sinks: (heads,).
    pub sinks: Option<&'a mut [T::Sum]>,
}
