//! Parallel loops on the current rayon pool, for code outside the kernels: over indices, slices and chunks.
//!
//! The code that shares work among threads takes a pointer to the closure, so it is compiled only once. Results come in
//! the order of their items, for any number of threads. Each item begins with [`cancel::check`], so canceled work ends
//! between two items.

use crate::cancel::{self, CancelFlag};
use rayon::prelude::*;
use std::sync::{Mutex, PoisonError};

/// Calls `f(0)`, …, `f(count − 1)`, in any order.
pub(crate) fn for_each(count: usize, f: &(dyn Fn(usize) + Sync)) {
    let item = |i| {
        cancel::check();
        f(i);
    };
    match count {
        0 | 1 => (0..count).for_each(item),
        _ => {
            let cancel_flag = CancelFlag::current();
            (0..count).into_par_iter().for_each(|i| {
                let _same = cancel_flag.enter();
                item(i);
            });
        }
    }
}

/// Returns the results of `f` for each item, in order.
pub fn map<'a, T: Sync, R: Send>(items: &'a [T], f: impl Fn(&'a T) -> R + Sync) -> Vec<R> {
    map_indices(items.len(), |i| f(&items[i]))
}

/// Returns `f(0)`, …, `f(count − 1)`, in order.
pub fn map_indices<R: Send>(count: usize, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    map_indices_dyn(count, &f)
}

/// The body of [`map_indices`], compiled once for each result type.
fn map_indices_dyn<R: Send>(count: usize, f: &(dyn Fn(usize) -> R + Sync)) -> Vec<R> {
    // A few blocks per thread, so that none waits long for the last one.
    let block = count.div_ceil(8 * rayon::current_num_threads()).max(1);
    let blocks: Vec<Mutex<Vec<R>>> = (0..count.div_ceil(block)).map(|_| Mutex::default()).collect();
    for_each(blocks.len(), &|b| {
        let item = |i| {
            cancel::check();
            f(i)
        };
        let results = (b * block..count.min((b + 1) * block)).map(item).collect();
        *blocks[b].lock().unwrap_or_else(PoisonError::into_inner) = results;
    });
    let mut all = Vec::with_capacity(count);
    all.extend(blocks.into_iter().flat_map(|block| block.into_inner().unwrap_or_else(PoisonError::into_inner)));
    all
}

/// Calls `f` with the index and the elements of each chunk of `size` elements. The last chunk may be shorter.
///
/// # Panics
/// If `size` is 0.
pub fn for_each_chunk<T: Send>(data: &mut [T], size: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let chunks: Vec<Mutex<&mut [T]>> = data.chunks_mut(size).map(Mutex::new).collect();
    for_each(chunks.len(), &|i| f(i, &mut chunks[i].lock().unwrap_or_else(PoisonError::into_inner)));
}

/// Calls `f` like [`for_each_chunk`], and returns its results in the order of the chunks.
///
/// # Panics
/// If `size` is 0.
pub fn map_chunks<T: Send, R: Send>(data: &mut [T], size: usize, f: impl Fn(usize, &mut [T]) -> R + Sync) -> Vec<R> {
    let chunks: Vec<Mutex<&mut [T]>> = data.chunks_mut(size).map(Mutex::new).collect();
    map_indices(chunks.len(), |i| f(i, &mut chunks[i].lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Runs `pass` on a thread of the pool. From outside of the pool, each operation would have to wake it and wait for it.
pub fn in_pool<R: Send>(pass: impl FnOnce() -> R + Send) -> R {
    let (mut pass, mut result) = (Some(pass), None);
    scope_dyn(&mut || result = pass.take().map(|pass| pass()));
    result.expect("the pass ran")
}

fn scope_dyn(pass: &mut (dyn FnMut() + Send)) {
    rayon::scope(|_| pass());
}

/// Runs `a` and `b`, on two threads if one is free.
pub fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    let (mut a, mut b, mut results) = (Some(a), Some(b), (None, None));
    let (first, second) = (&mut results.0, &mut results.1);
    join_dyn(&mut || *first = a.take().map(|a| a()), &mut || *second = b.take().map(|b| b()));
    (results.0.expect("the first ran"), results.1.expect("the second ran"))
}

fn join_dyn(a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send)) {
    rayon::join(a, b);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

    #[test]
    fn canceled_work_ends_between_two_items_on_every_thread() {
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let (flag, done) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
            let item = |_| {
                if done.fetch_add(1, SeqCst) == 10 {
                    flag.store(true, SeqCst);
                }
                // The thread that sets the flag may be slow.
                while done.load(SeqCst) > 10 && !flag.load(SeqCst) {
                    std::thread::yield_now();
                }
            };
            let found = pool.install(|| cancel::run_cancelable(&flag, || map_indices(10_000, item).len()));
            assert_eq!(found, Err(cancel::Cancellation));
            assert!(done.load(SeqCst) < 20, "{done:?} of 10,000 items started");
        }
    }

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
    fn join_returns_both_results_and_in_pool_runs_in_the_pool() {
        assert_eq!(join(|| 1, || "two"), (1, "two"));
        assert!(in_pool(rayon::current_thread_index).is_some());
    }

    #[test]
    fn each_chunk_is_visited_once_with_its_index() {
        let mut data = vec![0; 10];
        for_each_chunk(&mut data, 4, |i, chunk| {
            let len = chunk.len();
            chunk.iter_mut().for_each(|x| *x += 10 * i + len)
        });
        assert_eq!(data, [4, 4, 4, 4, 14, 14, 14, 14, 22, 22]);
        for_each_chunk(&mut Vec::<u8>::new(), 3, |_, _| panic!("there is no chunk"));
        assert_eq!(map_chunks(&mut data, 8, |i, chunk| (i, chunk.len())), [(0, 8), (1, 2)]);
    }
}
