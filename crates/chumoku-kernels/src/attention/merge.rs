//! Merges attention over parts of the keys into attention over all of them.

use super::heads::{Heads, HeadsMut};
use super::params::check_same_shape;
use crate::error::{Error, Result};
use crate::number::{Element, Real};

/// Attention over a part of the keys: the results of [`super::Attention::forward_with_log_sum_exp`].
#[derive(Clone, Copy, Debug)]
pub struct PartialAttention<'a, T: Element> {
    /// The output: (batch, heads, L, value dim).
    pub output: Heads<'a, T>,
    /// The log-sum-exp: (batch, heads, L), or (heads, tokens) if sequences are packed.
    pub log_sum_exp: &'a [T::Sum],
}

/// Merges attention of the same queries over disjoint parts of the keys: `lse = ln Σ_p exp(lse_p)` and
/// `output = Σ_p exp(lse_p − lse) · output_p`.
///
/// A part in which a query has nothing to attend to (log-sum-exp −∞) is ignored, whatever its output holds. If this is
/// the case for all parts, or there are none, the output is 0 and the log-sum-exp −∞. A log-sum-exp of +∞ stands for a
/// score beyond the largest number, and that part outweighs all others. Two such parts cannot be compared and give NaN.
/// A NaN in any other part propagates. Parts are added in order, in double precision, and rounded once.
///
/// # Shapes
/// All outputs (batch, heads, L, value dim), each with its own layout; all log-sum-exp have the same shape.
///
/// # Errors
/// If shapes do not match. The error names the argument.
///
/// Source: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018), section 3.1.
///
/// ```
/// use chumoku_kernels::{Heads, HeadsMut, PartialAttention, merge_attention};
///
/// let part = |output, log_sum_exp| Ok(PartialAttention { output: Heads::bhld(output, [1, 1, 1, 1])?, log_sum_exp });
/// // Three keys of equal score with mean value 2, and one key of the same score with value 6.
/// let (three, one) = (f32::ln(3.0), 0.0);
/// let parts = [part(&[2.0], std::slice::from_ref(&three))?, part(&[6.0], std::slice::from_ref(&one))?];
/// let (mut output, mut log_sum_exp) = ([0.0f32], [0.0]);
/// merge_attention(&parts, HeadsMut::bhld(&mut output, [1, 1, 1, 1])?, Some(&mut log_sum_exp))?;
/// assert!((output[0] - 3.0).abs() < 1e-6 && (log_sum_exp[0] - f32::ln(4.0)).abs() < 1e-6);
/// # Ok::<(), chumoku_kernels::Error>(())
/// ```
pub fn merge_attention<T: Element>(
    parts: &[PartialAttention<'_, T>],
    mut output: HeadsMut<'_, T>,
    mut log_sum_exp: Option<&mut [T::Sum]>,
) -> Result<()> {
    let layout = output.layout;
    let rows = layout.row_count().unwrap_or(usize::MAX);
    for part in parts {
        check_same_shape("merge: output of a part", part.output, output.as_heads(), layout.heads, layout.dim)?;
        if part.output.layout.is_packed() != layout.is_packed() {
            return Err(Error::value("merge: output of a part", "expected all outputs packed, or none"));
        }
        Error::check_length("merge: log_sum_exp of a part", rows, part.log_sum_exp.len())?;
    }
    if let Some(log_sum_exp) = &log_sum_exp {
        Error::check_length("merge: log_sum_exp", rows, log_sum_exp.len())?;
    }
    let mut sums = vec![0.0; layout.dim];
    for s in 0..layout.sequence_count() {
        for h in 0..layout.heads {
            for i in 0..layout.length(s) {
                let at = layout.row_index(s, h, i);
                let counting = || {
                    let parts = parts.iter().map(|part| (part, part.log_sum_exp[at].to_f64()));
                    parts.filter(|&(_, lse)| lse != f64::NEG_INFINITY)
                };
                let largest = counting().map(|(_, lse)| lse).fold(f64::NEG_INFINITY, Real::max);
                // ∞ − ∞ is NaN.
                let is_alone = counting().filter(|&(_, lse)| lse == f64::INFINITY).count() == 1;
                let weight = |lse: f64| if is_alone && lse == largest { 1.0 } else { (lse - largest).exp() };
                let total: f64 = counting().map(|(_, lse)| weight(lse)).sum();
                sums.fill(0.0);
                for (part, lse) in counting() {
                    let share = weight(lse) / total;
                    sums.iter_mut().zip(part.output.row(s, h, i)).for_each(|(y, x)| *y += share * x.to_f64());
                }
                output.row_mut(s, h, i).iter_mut().zip(&sums).for_each(|(y, &x)| *y = T::round_from(x));
                if let Some(log_sum_exp) = &mut log_sum_exp {
                    let is_empty = counting().next().is_none();
                    log_sum_exp[at] =
                        T::Sum::round_from(if is_empty { f64::NEG_INFINITY } else { largest + total.ln() });
                }
            }
        }
    }
    Ok(())
}
