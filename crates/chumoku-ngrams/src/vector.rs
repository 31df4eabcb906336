//! Sums of long vectors, the same for any number of threads.

use chumoku_kernels::parallel;

/// Numbers that one task works on.
const BLOCK: usize = 1 << 14;
/// Rows of a matrix that one task works on.
pub(crate) const ROW_BLOCK: usize = 1 << 8;
/// Sums that one block keeps side by side.
const LANES: usize = 8;

/// Σ aᵢ bᵢ in f64, by blocks of fixed size whose sums are added in order.
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

/// a ← a + scale · b.
pub(crate) fn add_scaled(a: &mut [f32], scale: f32, b: &[f32]) {
    parallel::for_each_chunk(a, BLOCK, |block, a| {
        a.iter_mut().zip(&b[block * BLOCK..]).for_each(|(a, b)| *a += scale * b);
    });
}

/// a ← b + scale · a.
pub(crate) fn scale_and_add(a: &mut [f32], scale: f32, b: &[f32]) {
    parallel::for_each_chunk(a, BLOCK, |block, a| {
        a.iter_mut().zip(&b[block * BLOCK..]).for_each(|(a, b)| *a = b + scale * *a);
    });
}
