//! The arguments of attention: what is asked for, and whether it fits together.

use super::heads::{Heads, HeadsLayout, HeadsMut};
use super::mask::{Band, Causal, Mask};
use crate::dropout::check_rate;
use crate::error::{Error, Result};
use crate::gemm::Precision;
use crate::number::Element;
use crate::philox::Philox;
use std::ops::Range;

/// Dropout of attention weights, drawn again in the backward pass instead of stored.
#[derive(Clone, Copy, Debug)]
pub struct AttentionDropout {
    /// The share of weights set to 0, in 0..1; the others are scaled up by its complement.
    pub rate: f32,
    /// Where the random numbers come from.
    pub random: Philox,
}

/// Attention of queries over keys and values, with everything that it can be told; see the methods for each.
///
/// Query head h reads key and value head `h / (query heads / key heads)`: grouped queries where there are fewer key
/// heads, multi-query attention where there is one.
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
/// // The first query sees the first key alone, the second both alike.
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

/// All that attention is asked for, but for the numbers of queries, keys and values: where they lie, and what is done
/// with them.
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
    /// Attention without masks, scaled by 1/√dim.
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

    /// The same of another problem.
    fn with(self, problem: AttentionParams<'a, T::Sum>) -> Self {
        Attention { params: problem, ..self }
    }

    /// The factor on the products of queries and keys; 1/√dim unless it is set.
    pub fn scale(self, scale: f64) -> Self {
        self.with(AttentionParams { scale, ..self.params })
    }

    /// Scaled scores s become `cap · tanh(s / cap)`, before masks are added.
    pub fn softcap(self, cap: f64) -> Self {
        self.with(AttentionParams { softcap: Some(cap), ..self.params })
    }

    /// Query i sees no key after its own place on the diagonal.
    pub fn causal(self, diagonal: Causal) -> Self {
        let band = Band { right: Some(0), diagonal, ..self.params.band };
        self.with(AttentionParams { band, ..self.params })
    }

    /// Query i sees `left` keys before its place on the diagonal and `right` after it; `None` sets no bound.
    ///
    /// With [`Attention::causal`] the bound on the right stays 0. The diagonal of the last call counts.
    pub fn window(self, left: Option<usize>, right: Option<usize>, diagonal: Causal) -> Self {
        let right = match (self.params.band.right, right) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.with(AttentionParams { band: Band { left, right, diagonal }, ..self.params })
    }

    /// Sequence s has `lengths[s]` keys; what lies beyond is never read.
    pub fn key_lengths(self, lengths: &'a [usize]) -> Self {
        self.with(AttentionParams { key_lengths: Some(lengths), ..self.params })
    }

    /// A mask by entries, which broadcasts to (batch, heads, L, S).
    ///
    /// It is read in place, never expanded. For packed sequences the last two axes count positions within a sequence
    /// and reach at least the longest.
    pub fn mask(self, mask: Mask<'a, T::Sum>) -> Self {
        self.with(AttentionParams { mask: Some(mask), ..self.params })
    }

    /// Attention with linear biases: `slopes[h] · −|i + offset − j|` is added to the scores of head h.
    ///
    /// `i + offset` is the place of query i on the diagonal (of [`Attention::causal`] or [`Attention::window`], else
    /// bottom right).
    ///
    /// Source: Press, Smith and Lewis, "Train Short, Test Long" (2022).
    pub fn alibi(self, slopes: &'a [f32]) -> Self {
        self.with(AttentionParams { alibi: Some(slopes), ..self.params })
    }

    /// Attention sinks: each query of head h attends with score `logits[h]` to a key whose value is 0.
    ///
    /// A query with no other key gets output 0 and log-sum-exp `logits[h]`.
    pub fn sinks(self, logits: &'a [f32]) -> Self {
        self.with(AttentionParams { sinks: Some(logits), ..self.params })
    }

    /// Dropout of the weights.
    pub fn dropout(self, dropout: AttentionDropout) -> Self {
        self.with(AttentionParams { dropout: Some(dropout), ..self.params })
    }

    /// How exact products of f32 numbers are; [`Precision::Highest`] unless it is set.
    pub fn precision(self, precision: Precision) -> Self {
        self.with(AttentionParams { precision, ..self.params })
    }

    /// Number of values of log-sum-exp: one for each sequence, head and query.
    pub fn rows(&self) -> usize {
        self.query.layout.row_count().unwrap_or(usize::MAX)
    }

    /// Checks that the arguments fit together.
    pub(super) fn check(&self) -> Result<()> {
        let Attention { query, key, value, params: problem } = *self;
        // First, since below sequences are gone through one after another.
        if query.layout.row_count().is_none() {
            let problem = "expected fewer rows in all, got more than can be counted";
            return Err(Error::value("attention: query", problem));
        }
        check_same_shape("attention: value", value, key, key.heads(), value.dim())?;
        if query.dim() != key.dim() {
            let problem = format!("expected width {} as of the queries, got {}", query.dim(), key.dim());
            return Err(Error::value("attention: key", problem));
        }
        if !query.heads().is_multiple_of(key.heads()) {
            let problem = format!("expected a divisor of the {} query heads, got {} heads", query.heads(), key.heads());
            return Err(Error::value("attention: key", problem));
        }
        if key.sequences() != query.sequences() {
            let problem =
                format!("expected {} sequences as of the queries, got {}", query.sequences(), key.sequences());
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

    /// Checks a view that is of the shape of the output.
    pub(super) fn check_like_output(&self, what: &'static str, view: Heads<'_, T>) -> Result<()> {
        check_same_shape(what, view, self.query, self.query.heads(), self.value.dim())
    }

    /// Checks the number of values where there is one for each query, as of log-sum-exp.
    pub(super) fn check_rows(&self, what: &'static str, found: usize) -> Result<()> {
        Error::check_length(what, self.rows(), found)
    }
}

impl<S> AttentionParams<'_, S> {
    /// The head of keys and values that query head `h` reads.
    #[inline(always)]
    pub(crate) fn key_head(&self, h: usize) -> usize {
        h / self.group_size()
    }

    /// Query heads for each head of keys.
    pub(crate) fn group_size(&self) -> usize {
        self.query.heads / self.key.heads
    }

    /// Number of keys of sequence `s`.
    #[inline(always)]
    pub(crate) fn key_count(&self, s: usize) -> usize {
        self.key_lengths.map_or_else(|| self.key.length(s), |lengths| lengths[s])
    }

    /// The key at which query 0 of sequence `s` stands.
    #[inline(always)]
    pub(crate) fn diagonal_offset(&self, s: usize) -> i64 {
        self.band.offset(self.query.length(s), self.key_count(s))
    }

    /// Whether sequence `s` has one query, of the kind that is decoded.
    pub(super) fn is_decode_step(&self, s: usize) -> bool {
        self.query.length(s) == 1 && self.mask.is_none() && self.dropout.is_none()
    }

    /// The keys that query `i` of sequence `s` sees by position; a mask may forbid some of them.
    #[inline(always)]
    pub(crate) fn visible_keys(&self, s: usize, i: usize) -> Range<usize> {
        self.band.range(i, self.diagonal_offset(s), self.key_count(s))
    }

    /// Multiply–adds of the forward pass if every query saw every key, to judge whether threads are worth waking.
    pub(crate) fn multiply_adds(&self) -> usize {
        let width = (self.query.dim + self.value.dim) * self.query.heads;
        (0..self.query.sequence_count())
            .map(|s| self.query.length(s).saturating_mul(self.key_count(s)).saturating_mul(width))
            .fold(0, usize::saturating_add)
    }
}

/// Checks that `view` has the sequences of `like`, and so many heads and columns.
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

/// Where the results of the forward pass go.
#[derive(Debug)]
pub struct ForwardOutputs<'a, T: Element> {
    pub(crate) output: HeadsMut<'a, T>,
    pub(crate) log_sum_exp: Option<&'a mut [T::Sum]>,
}

/// What the forward pass left, and the gradients of its results.
#[derive(Clone, Copy, Debug)]
pub struct BackwardInputs<'a, T: Element> {
    /// The output: (batch, heads, L, value dim).
    pub output: Heads<'a, T>,
    /// The log-sum-exp: (batch, heads, L), or (heads, tokens) where sequences are packed.
    pub log_sum_exp: &'a [T::Sum],
    /// The gradient of the output.
    pub d_output: Heads<'a, T>,
    /// The gradient of log-sum-exp, if anything was computed from it.
    pub d_log_sum_exp: Option<&'a [T::Sum]>,
}

/// Where the gradients go.
#[derive(Debug)]
pub struct Gradients<'a, T: Element> {
    /// Of the queries.
    pub query: HeadsMut<'a, T>,
    /// Of the keys. Keys beyond a key length get 0.
    pub key: HeadsMut<'a, T>,
    /// Of the values.
    pub value: HeadsMut<'a, T>,
    /// Of the additive mask, summed over the axes along which it broadcasts: contiguous, of the mask's own shape.
    pub mask: Option<&'a mut [T::Sum]>,
    /// Of the sinks: (heads,).
    pub sinks: Option<&'a mut [T::Sum]>,
}
