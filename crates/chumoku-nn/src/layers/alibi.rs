//! Attention with linear biases (ALiBi): the slopes of the heads.

/// Returns the slope of each head. With n heads, n a power of two: `2^(−8/n), 2^(−16/n), …, 2^(−8)`.
///
/// For other numbers of heads, the slopes are those of the next lower power of two, m, followed by every second one of
/// 2m heads. The paper's own code does the same.
///
/// `−slope · |i − j|` is added to the score of query i and key j. The paper defines causal attention only. If tokens
/// also see later ones, both directions count equally.
///
/// Source: Press, Smith and Lewis, "Train Short, Test Long: Attention with Linear Biases Enables Input Length
/// Extrapolation" (2022), section 3.
///
/// ```
/// use chumoku_nn::layers::alibi_slopes;
/// assert_eq!(alibi_slopes(4), [0.25, 0.0625, 0.015625, 0.00390625]);
/// assert_eq!(alibi_slopes(3), [0.0625, 0.00390625, 0.25]);
/// ```
pub fn alibi_slopes(num_heads: usize) -> Vec<f32> {
    let of_power = |n: usize| (1..=n).map(move |head| (-8.0 * head as f64 / n as f64).exp2() as f32);
    let below = if num_heads == 0 { 0 } else { 1 << num_heads.ilog2() };
    of_power(below).chain(of_power(2 * below).step_by(2)).take(num_heads).collect()
}
