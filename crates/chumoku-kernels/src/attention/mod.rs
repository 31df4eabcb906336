//! Scaled dot-product attention over packed sequences:
//! `output = softmax(scale · Q Kᵀ + mask) V`, for each sequence and head by itself.
//!
//! Source: Vaswani et al., "Attention Is All You Need" (2017), equation 1; computed in blocks with a running maximum
//! and sum (Milakov and Gimelshein 2018; Dao et al., "FlashAttention", 2022), so that no query × key array exists.
//!
//! What is masked out reaches neither outputs nor gradients, even if it is NaN; a NaN that is attended to always
//! shows. A query with nothing to attend to gets output 0, gradients 0 and log-sum-exp −∞.

mod backward;
mod forward;
mod packed;

pub(crate) use backward::backward_f32;
pub(crate) use forward::forward_f32;

use crate::philox::Philox;
use crate::{Error, Real, Result, reference};

/// Rows of numbers, a fixed distance apart: `(tokens, width)` with the width given by its use.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a, T> {
    /// The numbers.
    pub data: &'a [T],
    /// Distance between the starts of rows, in elements.
    pub stride: usize,
}

/// [`Rows`] that are written.
#[derive(Debug)]
pub struct RowsMut<'a, T> {
    /// The numbers.
    pub data: &'a mut [T],
    /// Distance between the starts of rows, in elements.
    pub stride: usize,
}

impl<'a, T> RowsMut<'a, T> {
    /// Rows of `stride` numbers, one after another.
    pub fn new(data: &'a mut [T], stride: usize) -> Self {
        RowsMut { data, stride }
    }
}

impl<'a, T> Rows<'a, T> {
    /// Rows of `stride` numbers, one after another.
    pub fn new(data: &'a [T], stride: usize) -> Self {
        Rows { data, stride }
    }

    /// `width` numbers of row `row` from column `col`.
    #[inline(always)]
    pub(crate) fn part(&self, row: usize, col: usize, width: usize) -> &'a [T] {
        &self.data[row * self.stride + col..][..width]
    }
}

/// Which query may attend to which key, by position within the sequence; the same for all sequences and heads.
#[derive(Clone, Copy, Debug)]
pub enum Mask<'a, T> {
    /// `true` = attend. Row-major, a row for each query position, `cols` key positions.
    Boolean {
        /// The entries.
        data: &'a [bool],
        /// Key positions in a row.
        cols: usize,
    },
    /// Added to the scaled scores; −∞ = do not attend.
    Additive {
        /// The entries.
        data: &'a [T],
        /// Key positions in a row.
        cols: usize,
    },
}

/// Dropout of attention weights, drawn again in the backward pass instead of stored.
#[derive(Clone, Copy, Debug)]
pub struct AttentionDropout {
    /// The share of weights set to 0, in 0..1; the others are scaled up by its complement.
    pub rate: f32,
    /// Where the random numbers come from.
    pub random: Philox,
}

/// The arguments of attention over packed sequences.
#[derive(Clone, Copy, Debug)]
pub struct PackedAttention<'a, T> {
    /// Queries: (query tokens, heads · head_dim).
    pub query: Rows<'a, T>,
    /// Keys: (key tokens, heads · head_dim).
    pub key: Rows<'a, T>,
    /// Values: (key tokens, heads · value_dim).
    pub value: Rows<'a, T>,
    /// Sequence s holds the query tokens `query_offsets[s]..query_offsets[s + 1]`.
    pub query_offsets: &'a [usize],
    /// Sequence s holds the key and value tokens `key_offsets[s]..key_offsets[s + 1]`.
    pub key_offsets: &'a [usize],
    /// Number of heads.
    pub heads: usize,
    /// Width of a head's queries and keys.
    pub head_dim: usize,
    /// Width of a head's values.
    pub value_dim: usize,
    /// Factor on the scores, 1/√head_dim in the paper.
    pub scale: T,
    /// Query i sees the keys 0..=i only.
    pub causal: bool,
    /// A mask by position.
    pub mask: Option<Mask<'a, T>>,
    /// Dropout of the weights.
    pub dropout: Option<AttentionDropout>,
}

/// What the forward pass left: output (query tokens, heads · value_dim) and log-sum-exp (heads, query tokens).
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a, T> {
    pub(crate) output: Rows<'a, T>,
    pub(crate) log_sum_exp: &'a [T],
    pub(crate) d_output: Rows<'a, T>,
}

/// Where the gradients go.
#[derive(Debug)]
pub struct Grads<'a, T> {
    pub(crate) query: RowsMut<'a, T>,
    pub(crate) key: RowsMut<'a, T>,
    pub(crate) value: RowsMut<'a, T>,
}

impl<T: Real> PackedAttention<'_, T> {
    /// Number of sequences.
    pub fn sequences(&self) -> usize {
        self.query_offsets.len().saturating_sub(1)
    }

    /// Number of query tokens in all sequences.
    pub fn query_tokens(&self) -> usize {
        self.query_offsets.last().copied().unwrap_or(0)
    }

    /// Number of key tokens in all sequences.
    pub fn key_tokens(&self) -> usize {
        self.key_offsets.last().copied().unwrap_or(0)
    }

    /// First token and length of sequence `s`: of the queries and of the keys.
    pub(crate) fn spans(&self, s: usize) -> ((usize, usize), (usize, usize)) {
        let (q, k) = (self.query_offsets, self.key_offsets);
        ((q[s], q[s + 1] - q[s]), (k[s], k[s + 1] - k[s]))
    }

    /// What to add to the score of query `i` and key `j`; `None` if the query must not see the key.
    #[inline(always)]
    pub(crate) fn bias(&self, i: usize, j: usize) -> Option<T> {
        if self.causal && j > i {
            return None;
        }
        match self.mask {
            None => Some(T::ZERO),
            Some(Mask::Boolean { data, cols }) => data[i * cols + j].then_some(T::ZERO),
            Some(Mask::Additive { data, cols }) => {
                let bias = data[i * cols + j];
                (bias != T::NEG_INFINITY).then_some(bias)
            }
        }
    }

    /// Whether some query may be kept from some key.
    pub(crate) fn is_masked(&self) -> bool {
        self.causal || self.mask.is_some()
    }

    /// Multiply–adds of the forward pass, to judge whether threads are worth waking.
    pub(crate) fn work(&self) -> usize {
        (0..self.sequences())
            .map(|s| {
                let ((_, l), (_, s)) = self.spans(s);
                l * s * (self.head_dim + self.value_dim) * self.heads
            })
            .sum()
    }

    fn check(&self) -> Result<()> {
        if self.heads == 0 || self.head_dim == 0 || self.value_dim == 0 {
            let problem = format!("expected at least 1, got {}, {} and {}", self.heads, self.head_dim, self.value_dim);
            return Err(Error::value("attention: heads, head_dim and value_dim", problem));
        }
        check_offsets("attention: query_offsets", self.query_offsets)?;
        check_offsets("attention: key_offsets", self.key_offsets)?;
        Error::check_length("attention: key_offsets", self.query_offsets.len(), self.key_offsets.len())?;
        let width = |dim: usize| {
            self.heads.checked_mul(dim).ok_or_else(|| Error::value("attention: heads", "heads · width overflows"))
        };
        check_rows(
            "attention: query",
            self.query.data.len(),
            self.query.stride,
            self.query_tokens(),
            width(self.head_dim)?,
        )?;
        check_rows("attention: key", self.key.data.len(), self.key.stride, self.key_tokens(), width(self.head_dim)?)?;
        check_rows(
            "attention: value",
            self.value.data.len(),
            self.value.stride,
            self.key_tokens(),
            width(self.value_dim)?,
        )?;
        if !self.scale.is_finite() {
            return Err(Error::value("attention: scale", format!("expected a finite number, got {}", self.scale)));
        }
        if let Some(mask) = self.mask {
            let (len, cols) = match mask {
                Mask::Boolean { data, cols } => (data.len(), cols),
                Mask::Additive { data, cols } => (data.len(), cols),
            };
            let longest = |offsets: &[usize]| offsets.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0);
            let (queries, keys) = (longest(self.query_offsets), longest(self.key_offsets));
            if cols < keys || queries.checked_mul(cols).is_none_or(|need| need > len) {
                let rows = len.checked_div(cols).unwrap_or(0);
                return Err(Error::shape("attention: mask", (queries, keys), (rows, cols)));
            }
        }
        if let Some(dropout) = self.dropout {
            crate::dropout::check_rate("attention: dropout rate", dropout.rate)?;
        }
        Ok(())
    }
}

fn check_offsets(what: &'static str, offsets: &[usize]) -> Result<()> {
    if offsets.first() != Some(&0) || offsets.windows(2).any(|w| w[0] > w[1]) {
        return Err(Error::value(what, "expected 0 first and no offset below the one before it"));
    }
    Ok(())
}

fn check_rows(what: &'static str, len: usize, stride: usize, rows: usize, width: usize) -> Result<()> {
    let need = match rows {
        0 => Some(0),
        _ => (rows - 1).checked_mul(stride).and_then(|start| start.checked_add(width)),
    };
    if stride < width {
        return Err(Error::value(what, format!("expected rows at least {width} apart, got {stride}")));
    }
    match need {
        Some(need) if need <= len => Ok(()),
        need => Err(Error::length(what, need.unwrap_or(usize::MAX), len)),
    }
}

/// Attention, forward. Writes `output` and `log_sum_exp` (natural, of the scaled and masked scores).
///
/// # Shapes
/// `output` (query tokens, heads · value_dim), `log_sum_exp` (heads, query tokens).
///
/// # Errors
/// If shapes, offsets, mask or dropout rate do not fit; the error names the argument.
pub fn attention_forward<T: Real>(args: &PackedAttention<T>, output: RowsMut<T>, log_sum_exp: &mut [T]) -> Result<()> {
    args.check()?;
    let width = args.heads * args.value_dim;
    check_rows("attention: output", output.data.len(), output.stride, args.query_tokens(), width)?;
    Error::check_length("attention: log_sum_exp", args.heads * args.query_tokens(), log_sum_exp.len())?;
    T::attention_forward(args, output, log_sum_exp);
    Ok(())
}

/// Attention, backward: the gradients of query, key and value from `d_output`, overwriting what was there.
///
/// With P the weights, O the output and ∘ the product element by element (dropout aside):
/// `dV = Pᵀ dO`, `dS = P ∘ (dO Vᵀ − rowsum(dO ∘ O))`, `dQ = scale · dS K`, `dK = scale · dSᵀ Q`.
/// The weights are computed again from log-sum-exp (Dao et al. 2022, algorithm 4).
///
/// # Shapes
/// `output` and `d_output` (query tokens, heads · value_dim), `log_sum_exp` (heads, query tokens); the gradients as
/// what they are the gradients of.
///
/// # Errors
/// If shapes, offsets, mask or dropout rate do not fit; the error names the argument.
pub fn attention_backward<T: Real>(
    args: &PackedAttention<T>,
    output: Rows<T>,
    log_sum_exp: &[T],
    d_output: Rows<T>,
    [query, key, value]: [RowsMut<T>; 3],
) -> Result<()> {
    args.check()?;
    let (tokens, keys) = (args.query_tokens(), args.key_tokens());
    let (width, value_width) = (args.heads * args.head_dim, args.heads * args.value_dim);
    check_rows("attention: output", output.data.len(), output.stride, tokens, value_width)?;
    check_rows("attention: d_output", d_output.data.len(), d_output.stride, tokens, value_width)?;
    check_rows("attention: d_query", query.data.len(), query.stride, tokens, width)?;
    check_rows("attention: d_key", key.data.len(), key.stride, keys, width)?;
    check_rows("attention: d_value", value.data.len(), value.stride, keys, value_width)?;
    Error::check_length("attention: log_sum_exp", args.heads * tokens, log_sum_exp.len())?;
    T::attention_backward(args, Saved { output, log_sum_exp, d_output }, Grads { query, key, value });
    Ok(())
}

/// The attention weights of one sequence and head, before dropout: (queries, keys), each row summing to 1 (or 0 for
/// a query with nothing to attend to).
///
/// # Errors
/// If shapes, offsets or mask do not fit, or there is no such sequence or head.
pub fn attention_weights<T: Real>(args: &PackedAttention<T>, sequence: usize, head: usize) -> Result<Vec<T>> {
    args.check()?;
    if sequence >= args.sequences() || head >= args.heads {
        let problem = format!("expected below {} and {}, got {sequence} and {head}", args.sequences(), args.heads);
        return Err(Error::value("attention: sequence and head", problem));
    }
    let ((_, queries), _) = args.spans(sequence);
    Ok((0..queries).flat_map(|i| reference::attention_row(args, sequence, head, i).weights).collect())
}
