//! How much the kernels multiply, counted where they are called: what formulas of cost are held against.

use std::sync::atomic::{AtomicU64, Ordering};

static MULTIPLY_ADDS: AtomicU64 = AtomicU64::new(0);

/// Multiply–adds of all matrix products, attention and recurrences that this process has asked for so far, of all threads.
///
/// Attention counts both of its products for every pair of query and key, whatever a mask leaves out. Backward passes
/// count as the products that they call.
pub fn multiply_adds() -> u64 {
    MULTIPLY_ADDS.load(Ordering::Relaxed)
}

/// Adds the product of `sizes`.
pub(crate) fn count(sizes: &[usize]) {
    let product = sizes.iter().fold(1u64, |product, &size| product.saturating_mul(size as u64));
    MULTIPLY_ADDS.fetch_add(product, Ordering::Relaxed);
}
