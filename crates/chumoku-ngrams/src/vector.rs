//! Operations on long vectors with results that do not depend on the number of threads.

use chumoku_kernels::parallel;

/// Numbers per task.
const BLOCK: usize = 1 << 14;
/// Matrix rows per task.
pub(crate) const ROW_BLOCK: usize = 1 << 8;
/// Parallel sums within a block.
const LANES: usize = 8;

/// Returns Σ aᵢ bᵢ in f64. Blocks have a fixed size, and their sums are added in order.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f64 {
    let length = a.len().min(b.len());
    let multiply = |block: usize| {
        let range = block * BLOCK..length.min((block + 1) * BLOCK);
        let (a, b) = (&a[range.clone()], &b[range]);
        let mut sums = [0.0_f64; LANES];
        let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
        for (a, b) in a.iter().zip(b) {
            for lane in 0..LANES {
                sums[lane] += f64::from(a[lane]) * f64::from(b[lane]);
            }
        }
        sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
    };
    parallel::map_indices(length.div_ceil(BLOCK), multiply).iter().sum()
}

/// Computes a ← a + scale · b.
pub(crate) fn add_scaled(a: &mut [f32], scale: f32, b: &[f32]) {
    parallel::for_each_chunk(a, BLOCK, |block, a| {
        a.iter_mut().zip(&b[block * BLOCK..]).for_each(|(a, b)| *a += scale * b);
    });
}

/// Computes a ← b + scale · a.
pub(crate) fn scale_and_add(a: &mut [f32], scale: f32, b: &[f32]) {
    parallel::for_each_chunk(a, BLOCK, |block, a| {
        a.iter_mut().zip(&b[block * BLOCK..]).for_each(|(a, b)| *a = b + scale * *a);
    });
}
