//! How fast this machine reads memory: what decoding is held against.

use rayon::prelude::*;
use std::time::Instant;

/// Bytes a second of reading `bytes` again and again with `threads`, the median of several readings.
pub(crate) fn of_reading(bytes: usize, threads: usize) -> f64 {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads can be had");
    pool.install(|| {
        let numbers: Vec<u64> = (0..bytes as u64 / 8).into_par_iter().collect();
        let piece = numbers.len().div_ceil(4 * threads);
        let read = || {
            let sum = |piece: &[u64]| piece.iter().fold(0, |sum: u64, x| sum.wrapping_add(*x));
            let start = Instant::now();
            std::hint::black_box(numbers.par_chunks(piece).map(sum).reduce(|| 0, u64::wrapping_add));
            bytes as f64 / start.elapsed().as_secs_f64()
        };
        read();
        let mut speeds: Vec<f64> = (0..21).map(|_| read()).collect();
        speeds.sort_by(f64::total_cmp);
        crate::side::median(&speeds)
    })
}
