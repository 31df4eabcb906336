//! Peak rates of this processor (roofline): multiply–adds, and reads from each cache and from memory.
//!
//! Profiles are compared with these rates. Measuring takes about a second and uses all threads of the current pool at
//! once, because cores share a clock, a last-level cache and memory.

#[cfg(target_arch = "x86_64")]
use crate::isa::avx512::Avx512;
#[cfg(target_arch = "x86_64")]
use crate::isa::bf16::{BLOCK_SIDE, Bf16, BlockMultiplier, BlockMultiplierOp, BlockProduct, STEP_DEPTH, TILE_BYTES};
use crate::isa::{self, Simd, SimdOp, TileOp};
#[cfg(target_arch = "x86_64")]
use crate::memory::AlignedBuffer;
use crate::profile::{Multiplier, OperationProfile};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Array sizes in bytes that fit the first-level cache, the second-level, the last-level, and none of them.
const READ_SIZES: [usize; 4] = [16 << 10, 256 << 10, 4 << 20, 64 << 20];

/// Duration of the measurement of each rate.
const MEASURE_TIME: Duration = Duration::from_millis(150);

/// Peak rates of one thread while all threads of the pool are busy with the same work.
#[derive(Clone, Debug, PartialEq)]
pub struct Roofline {
    /// Multiply–adds per second of f32 in vectors, with sums and factors in registers.
    pub vector_rate: f64,
    /// Multiply–adds per second of bf16 values in blocks, with operands in the first-level cache; `None` without bf16
    /// blocks.
    pub block_rate: Option<f64>,
    /// Pairs of array size and bytes per second that are read from it, smallest array first.
    pub read_rates: [(usize, f64); 4],
}

impl Roofline {
    /// Measures the rates on the active instruction set.
    pub fn measure() -> Roofline {
        let (vectors, blocks) = Roofline::measure_multipliers();
        Roofline {
            vector_rate: vectors,
            block_rate: blocks,
            read_rates: READ_SIZES.map(|size| (size, Roofline::measure_reading(size))),
        }
    }

    /// Measures the bytes per second that each thread reads from its own array of `bytes`, with all threads at once.
    pub fn measure_reading(bytes: usize) -> f64 {
        // Long enough to be timed.
        let times = ((1 << 20) / bytes.max(1)).max(1);
        peak_rate(|| {
            let numbers = vec![1.0f32; bytes / size_of::<f32>()];
            move || {
                for _ in 0..times {
                    black_box(isa::dispatch(ReadArray(black_box(&numbers))));
                }
                (times * bytes) as f64
            }
        })
    }

    /// Measures [`Roofline::vector_rate`] and [`Roofline::block_rate`], which needs no memory. Reading takes 64 MiB per
    /// thread.
    pub fn measure_multipliers() -> (f64, Option<f64>) {
        (peak_rate(|| || isa::dispatch(MultiplyInRegisters) as f64), measure_blocks())
    }

    /// Returns the rate in bytes per second for arrays of this size.
    pub(crate) fn read_rate(&self, bytes: usize) -> f64 {
        self.read_rates.iter().find(|(size, _)| bytes <= *size).unwrap_or(&self.read_rates[3]).1
    }

    /// Returns the minimum time of the multiplications in thread-seconds.
    pub fn multiply_seconds(&self, spent: &OperationProfile) -> f64 {
        let rate = match spent.multiplier {
            Multiplier::Vectors => self.vector_rate,
            Multiplier::Blocks => self.block_rate.unwrap_or(self.vector_rate),
        };
        spent.hardware_multiply_adds as f64 / rate
    }

    /// Returns the minimum time to read operands and results in thread-seconds. Those of a call come from the smallest
    /// cache that holds them.
    pub fn read_seconds(&self, spent: &OperationProfile) -> f64 {
        spent.bytes.iter().enumerate().map(|(n, &bytes)| bytes as f64 / self.read_rate(1 << n)).sum()
    }
}

/// Measures the rate of a thread. `start` creates the work that each thread repeats, which returns its amount.
fn peak_rate<W: FnMut() -> f64>(start: impl Fn() -> W + Sync) -> f64 {
    let one = |_: rayon::BroadcastContext<'_>| {
        let mut work = start();
        work();
        let (begin, mut best) = (Instant::now(), 0.0f64);
        while begin.elapsed() < MEASURE_TIME {
            let start = Instant::now();
            let done = work();
            best = best.max(done / start.elapsed().as_secs_f64().max(1e-9));
        }
        best
    };
    let rates = rayon::broadcast(one);
    rates.iter().sum::<f64>() / rates.len() as f64
}

/// Multiply–adds with as many sums as a register tile.
struct MultiplyInRegisters;

impl SimdOp for MultiplyInRegisters {
    /// Number of multiply–adds.
    type Output = usize;
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) -> usize {
        const STEPS: usize = 1 << 14;
        let mut done = 0;
        simd.on_tile(MultiplyTile { steps: STEPS, done: &mut done });
        done
    }
}

struct MultiplyTile<'a> {
    steps: usize,
    done: &'a mut usize,
}

impl TileOp for MultiplyTile<'_> {
    #[inline(always)]
    fn eval<S: Simd, const ROWS: usize, const VECTORS: usize>(self, simd: S) {
        let (a, b) = (simd.splat(black_box(0.5)), simd.splat(black_box(0.25)));
        let mut sums = [[simd.splat(1.0); VECTORS]; ROWS];
        for _ in 0..self.steps {
            for row in &mut sums {
                for sum in row {
                    *sum = simd.mul_add(a, *sum, b);
                }
            }
        }
        for row in sums {
            for sum in row {
                black_box(simd.sum(sum));
            }
        }
        *self.done = self.steps * ROWS * VECTORS * S::LANES;
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn measure_blocks() -> Option<f64> {
    None
}

#[cfg(target_arch = "x86_64")]
fn measure_blocks() -> Option<f64> {
    let bf16 = Bf16::if_faster(1)?;
    Some(peak_rate(|| {
        let mut room = [const { AlignedBuffer::new() }; 3];
        move || {
            bf16.run(MultiplyBlocks { room: &mut room });
            (MultiplyBlocks::ROUNDS * MultiplyBlocks::STEPS * STEP_DEPTH * BLOCK_SIDE * BLOCK_SIDE) as f64
        }
    }))
}

/// Repeats one block product.
#[cfg(target_arch = "x86_64")]
struct MultiplyBlocks<'a> {
    room: &'a mut [AlignedBuffer; 3],
}

#[cfg(target_arch = "x86_64")]
impl MultiplyBlocks<'_> {
    const ROUNDS: usize = 256;
    const STEPS: usize = 4;
}

#[cfg(target_arch = "x86_64")]
impl BlockMultiplierOp for MultiplyBlocks<'_> {
    #[inline(always)]
    fn eval(self, _: Bf16, _: Avx512, blocks: &BlockMultiplier) {
        let [a, b, c] = self.room;
        let product = BlockProduct {
            steps: Self::STEPS,
            a: a.bytes(Self::STEPS * 2 * TILE_BYTES).as_ptr(),
            b: b.bytes(Self::STEPS * 2 * TILE_BYTES).as_ptr(),
            c: c.floats(BLOCK_SIDE * BLOCK_SIDE).as_mut_ptr(),
            c_stride: BLOCK_SIDE,
            rows: BLOCK_SIDE,
            accumulate: false,
        };
        for _ in 0..Self::ROUNDS {
            // SAFETY: the panels hold STEPS steps of two tiles of one term and are aligned to 64 bytes. `c` has 32 rows
            // of 32, overlaps neither, and is exclusively borrowed.
            unsafe { blocks.block::<1>(black_box(product)) };
        }
    }
}

struct ReadArray<'a>(&'a [f32]);

impl SimdOp for ReadArray<'_> {
    type Output = f32;
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) -> f32 {
        // Enough that no sum waits for the previous addition.
        const SUMS: usize = 8;
        let mut sums = [simd.splat(0.0); SUMS];
        for part in self.0.chunks_exact(SUMS * S::LANES) {
            for (sum, part) in sums.iter_mut().zip(part.chunks_exact(S::LANES)) {
                *sum = simd.add(*sum, simd.load(part));
            }
        }
        let mut total = 0.0;
        for sum in sums {
            total += simd.sum(sum);
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Operation;

    #[test]
    fn minimum_times_follow_from_rates() {
        let limits = Roofline {
            vector_rate: 10.0,
            block_rate: Some(40.0),
            read_rates: [(16, 8.0), (64, 4.0), (256, 2.0), (1024, 1.0)],
        };
        let mut spent = OperationProfile {
            operation: Operation::BETWEEN_OPERATIONS,
            calls: 1,
            seconds: 1.0,
            parallel_regions: 0,
            pieces: 0,
            multiply_adds: 100,
            multiplier: Multiplier::Vectors,
            hardware_multiply_adds: 300,
            bytes: [0; 48],
        };
        assert_eq!(limits.multiply_seconds(&spent), 30.0);
        spent.multiplier = Multiplier::Blocks;
        assert_eq!(limits.multiply_seconds(&spent), 7.5);
        assert_eq!(Roofline { block_rate: None, ..limits.clone() }.multiply_seconds(&spent), 30.0);
        (spent.bytes[4], spent.bytes[5], spent.bytes[20]) = (80, 40, 7);
        assert_eq!(limits.read_seconds(&spent), 10.0 + 10.0 + 7.0);
    }

    #[test]
    fn measured_rates_are_plausible() {
        let limits = Roofline::measure();
        // From a slow processor in an emulator to more than any core can do.
        assert!(limits.vector_rate > 1e7 && limits.vector_rate < 1e12, "{limits:?}");
        assert!(limits.block_rate.is_none_or(|blocks| blocks > 1e7 && blocks < 1e14), "{limits:?}");
        assert!(limits.read_rates.iter().all(|&(_, rate)| rate > 1e7 && rate < 1e13), "{limits:?}");
    }
}
