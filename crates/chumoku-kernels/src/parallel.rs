//! Parallel loops on the current rayon pool, for code outside the kernels: over indices, slices and chunks.
//!
//! The part that shares work among threads takes a pointer to the closure and is compiled once, not once for each caller.
//! Results come in the order of their items, whatever the number of threads.

use rayon::prelude::*;
use std::sync::{Mutex, PoisonError};

/// Calls `f(0)`, …, `f(count − 1)`, in any order.
pub fn for_each(count: usize, f: &(dyn Fn(usize) + Sync)) {
    match count {
        0 | 1 => (0..count).for_each(f),
        _ => (0..count).into_par_iter().for_each(f),
    }
}

/// Returns `f` of each item, in their order.
pub fn map<'a, T: Sync, R: Send>(items: &'a [T], f: impl Fn(&'a T) -> R + Sync) -> Vec<R> {
    map_indices(items.len(), |i| f(&items[i]))
}

/// Returns `f(0)`, …, `f(count − 1)`, in this order.
pub fn map_indices<R: Send>(count: usize, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    // A few blocks for each thread, so that none waits long for the last.
    let block = count.div_ceil(8 * rayon::current_num_threads()).max(1);
    let blocks: Vec<Mutex<Vec<R>>> = (0..count.div_ceil(block)).map(|_| Mutex::default()).collect();
    for_each(blocks.len(), &|b| {
        let results = (b * block..count.min((b + 1) * block)).map(&f).collect();
        *blocks[b].lock().unwrap_or_else(PoisonError::into_inner) = results;
    });
    let mut all = Vec::with_capacity(count);
    all.extend(blocks.into_iter().flat_map(|block| block.into_inner().unwrap_or_else(PoisonError::into_inner)));
    all
}

/// Calls `f` with the number and the elements of each chunk of `size` elements, the last of which may be shorter.
///
/// # Panics
/// If `size` is 0.
pub fn for_each_chunk<T: Send>(data: &mut [T], size: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let chunks: Vec<Mutex<&mut [T]>> = data.chunks_mut(size).map(Mutex::new).collect();
    for_each(chunks.len(), &|i| f(i, &mut chunks[i].lock().unwrap_or_else(PoisonError::into_inner)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_for_any_number_of_threads() {
        for threads in 1..4 {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                for count in [0, 1, 2, 7, 1000] {
                    let squares: Vec<usize> = (0..count).map(|i| i * i).collect();
                    assert_eq!(map_indices(count, |i| i * i), squares);
                    assert_eq!(map(&squares, |&square| square + 1), squares.iter().map(|x| x + 1).collect::<Vec<_>>());
                }
            });
        }
    }

    #[test]
    fn each_chunk_is_given_once_with_its_number() {
        let mut data = vec![0; 10];
        for_each_chunk(&mut data, 4, |i, chunk| {
            let len = chunk.len();
            chunk.iter_mut().for_each(|x| *x += 10 * i + len)
        });
        assert_eq!(data, [4, 4, 4, 4, 14, 14, 14, 14, 22, 22]);
        for_each_chunk(&mut Vec::<u8>::new(), 3, |_, _| panic!("there is none"));
    }
}
