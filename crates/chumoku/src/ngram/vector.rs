//! Sums and updates of long vectors, the same for any number of threads.

use rayon::prelude::*;

/// Numbers that one task works on.
pub(crate) const BLOCK: usize = 1 << 14;

/// Σ aᵢ bᵢ in f64, by blocks of fixed size whose sums are added in order.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f64 {
    let blocks = a.par_chunks(BLOCK).zip(b.par_chunks(BLOCK));
    let sums: Vec<f64> = blocks
        .map(|(a, b)| {
            a.iter()
                .zip(b)
                .map(|(&a, &b)| f64::from(a) * f64::from(b))
                .sum()
        })
        .collect();
    sums.iter().sum()
}

/// Σ aᵢ² mᵢ, as [`dot`].
pub(crate) fn dot_scaled(a: &[f32], m: &[f32]) -> f64 {
    let blocks = a.par_chunks(BLOCK).zip(m.par_chunks(BLOCK));
    let sums: Vec<f64> = blocks
        .map(|(a, m)| {
            a.iter()
                .zip(m)
                .map(|(&a, &m)| f64::from(a) * f64::from(a * m))
                .sum()
        })
        .collect();
    sums.iter().sum()
}

/// ‖a‖.
pub(crate) fn norm(a: &[f32]) -> f64 {
    dot(a, a).sqrt()
}

/// a ← a + scale · b.
pub(crate) fn add_scaled(a: &mut [f32], scale: f32, b: &[f32]) {
    let blocks = a.par_chunks_mut(BLOCK).zip(b.par_chunks(BLOCK));
    blocks.for_each(|(a, b)| a.iter_mut().zip(b).for_each(|(a, b)| *a += scale * b));
}
