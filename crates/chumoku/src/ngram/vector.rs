//! Sums and updates of long vectors, the same for any number of threads.

use rayon::prelude::*;

/// Numbers that one task works on.
pub(crate) const BLOCK: usize = 1 << 14;

/// Sums that one block keeps side by side.
const LANES: usize = 8;

/// Σ aᵢ bᵢ in f64, by blocks of fixed size whose sums are added in order.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f64 {
    let blocks = a.par_chunks(BLOCK).zip(b.par_chunks(BLOCK));
    let multiply = |(a, b): (&[f32], &[f32])| {
        let mut sums = [0.0_f64; LANES];
        for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
            for ((a, b), sum) in a.iter().zip(b).zip(&mut sums) {
                *sum += f64::from(*a) * f64::from(*b);
            }
        }
        sums.iter().sum::<f64>()
    };
    blocks.map(multiply).collect::<Vec<_>>().iter().sum()
}

/// a ← a − scale · b. Returns Σ aᵢ² mᵢ of the new a, summed as [`dot`] does.
pub(crate) fn subtract_scaled(a: &mut [f32], scale: f32, b: &[f32], m: &[f32]) -> f64 {
    let blocks = a.par_chunks_mut(BLOCK).zip(b.par_chunks(BLOCK)).zip(m.par_chunks(BLOCK));
    let subtract = |((a, b), m): ((&mut [f32], &[f32]), &[f32])| {
        let mut sums = [0.0_f64; LANES];
        for ((a, b), m) in a.chunks_mut(LANES).zip(b.chunks(LANES)).zip(m.chunks(LANES)) {
            for (((a, b), m), sum) in a.iter_mut().zip(b).zip(m).zip(&mut sums) {
                *a -= scale * b;
                *sum += f64::from(*a) * f64::from(*a * m);
            }
        }
        sums.iter().sum::<f64>()
    };
    blocks.map(subtract).collect::<Vec<_>>().iter().sum()
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
