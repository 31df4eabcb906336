//! Profiling of the kernels. Multiply–adds are always counted. On request, the time and the bytes read and written of
//! each operation are recorded as well.
//!
//! A thread is in one operation at a time. The time of a nested operation is subtracted from the outer one, and a
//! thread that waits for others is in no operation. The times of all operations therefore add up to the busy time of
//! the threads.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

static MULTIPLY_ADDS: AtomicU64 = AtomicU64::new(0);

/// Returns the multiply–adds of all matrix products, attention and recurrences of this process so far, over all
/// threads.
///
/// Attention counts both of its products for every pair of query and key, regardless of masks. Backward passes count
/// the products that they call.
pub fn multiply_adds() -> u64 {
    MULTIPLY_ADDS.load(Ordering::Relaxed)
}

/// Counts the product of `sizes`.
pub(crate) fn count_multiply_adds(sizes: &[usize]) {
    MULTIPLY_ADDS.fetch_add(saturating_product(sizes), Ordering::Relaxed);
}

/// Returns the product of `sizes`, saturated at the largest u64.
pub(crate) fn saturating_product(sizes: &[usize]) -> u64 {
    sizes.iter().fold(1u64, |product, &size| product.saturating_mul(size as u64))
}

/// An operation in a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operation {
    /// The name of the operation.
    pub name: &'static str,
    /// Distinguishes operations of the same name, for example by depth and columns of a product; otherwise 0.
    pub sizes: [usize; 2],
}

impl Operation {
    /// The code between operations that calls them.
    pub const BETWEEN_OPERATIONS: Operation = Operation { name: "between operations", sizes: [0, 0] };

    pub(crate) fn new(name: &'static str, sizes: [usize; 2]) -> Operation {
        Operation { name, sizes }
    }
}

/// The hardware that multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Multiplier {
    /// Fused multiply–adds of f32 in vectors.
    Vectors,
    /// Blocks of bf16 terms, in tiles or dot products.
    Blocks,
}

/// The minimum work of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Multiply–adds of the formula.
    pub(crate) multiply_adds: u64,
    pub(crate) multiplier: Multiplier,
    /// Term products that the multiplier computes for each of them.
    pub(crate) term_products: u64,
    /// Bytes of operands and results, each counted once.
    pub(crate) bytes: usize,
}

impl Cost {
    /// Returns the cost of an operation that is limited by memory.
    pub(crate) fn memory(bytes: usize) -> Cost {
        Cost { multiply_adds: 0, multiplier: Multiplier::Vectors, term_products: 1, bytes }
    }

    /// Returns the cost of products with the given number of bf16 terms per value, or of f32 products if `terms` is
    /// `None`.
    pub(crate) fn products(multiply_adds: u64, terms: Option<usize>, bytes: usize) -> Cost {
        match terms {
            None => Cost { multiply_adds, ..Cost::memory(bytes) },
            // Terms i and j with i + j ≤ terms + 1.
            Some(terms) => Cost {
                multiply_adds,
                multiplier: Multiplier::Blocks,
                term_products: (terms * (terms + 1) / 2) as u64,
                bytes,
            },
        }
    }
}

/// The totals of one operation in a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationProfile {
    /// The operation.
    pub operation: Operation,
    /// Number of calls.
    pub calls: u64,
    /// Thread-seconds: two threads that are in the operation for a second spend two.
    pub seconds: f64,
    /// Number of times that the operation was split among threads, which joined at its end.
    pub parallel_regions: u64,
    /// Number of pieces over all parallel regions.
    pub pieces: u64,
    /// Multiply–adds of the formula.
    pub multiply_adds: u64,
    /// The hardware that multiplied.
    pub multiplier: Multiplier,
    /// Multiply–adds of the hardware, which computes several per formula multiply–add if values are split into terms.
    pub hardware_multiply_adds: u64,
    /// Bytes of operands and results, each counted once per call. `bytes[n]` belongs to calls with less than 2ⁿ bytes
    /// and at least half of that.
    pub bytes: [u64; 48],
}

/// The result of [`profile`](fn@profile).
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// All operations, most expensive first.
    pub operations: Vec<OperationProfile>,
    /// Seconds from beginning to end.
    pub seconds: f64,
}

static IS_ENABLED: AtomicBool = AtomicBool::new(false);
static TOTALS: Mutex<BTreeMap<Operation, OperationProfile>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// The operations of this thread, innermost last.
    static STACK: RefCell<Vec<ProfileFrame>> = const { RefCell::new(Vec::new()) };
}

struct ProfileFrame {
    /// `None` while the thread waits.
    operation: Option<Operation>,
    start: Instant,
    /// Time that was spent on nested operations.
    inside: Duration,
}

/// Runs `work` and returns the cost of the operations that it called, over all threads that shared them.
///
/// Only one profile runs at a time: the second of two concurrent profiles is empty.
pub fn profile<R>(work: impl FnOnce() -> R) -> (R, Profile) {
    /// Stops profiling even if `work` panics.
    struct DisableProfile;
    impl Drop for DisableProfile {
        fn drop(&mut self) {
            IS_ENABLED.store(false, Ordering::SeqCst);
        }
    }
    if IS_ENABLED.swap(true, Ordering::SeqCst) {
        let start = Instant::now();
        return (work(), Profile { operations: Vec::new(), seconds: start.elapsed().as_secs_f64() });
    }
    let off = DisableProfile;
    totals().clear();
    let start = Instant::now();
    let result = {
        let _between = enter(Some(Operation::BETWEEN_OPERATIONS), None);
        work()
    };
    let seconds = start.elapsed().as_secs_f64();
    drop(off);
    let mut operations: Vec<OperationProfile> = std::mem::take(&mut *totals()).into_values().collect();
    operations.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    (result, Profile { operations, seconds })
}

fn totals() -> std::sync::MutexGuard<'static, BTreeMap<Operation, OperationProfile>> {
    TOTALS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread is in an operation until this guard is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct OperationGuard {
    is_on: bool,
    /// Guards belong to their thread.
    not_send: PhantomData<*const ()>,
}

impl Drop for OperationGuard {
    fn drop(&mut self) {
        if self.is_on {
            leave();
        }
    }
}

/// Begins an operation, which ends when the guard is dropped.
#[inline(always)]
pub(crate) fn operation(what: impl FnOnce() -> (Operation, Cost)) -> OperationGuard {
    if current().is_none() {
        return OperationGuard { is_on: false, not_send: PhantomData };
    }
    let (operation, cost) = what();
    enter(Some(operation), Some(cost))
}

/// Begins an operation that reads and writes the given number of values of a type.
#[inline(always)]
pub(crate) fn memory_bound<T>(name: &'static str, numbers: usize) -> OperationGuard {
    operation(|| (Operation::new(name, [0, 0]), Cost::memory(numbers.saturating_mul(size_of::<T>()))))
}

/// Returns the current operation of this thread, if it is being profiled.
#[inline(always)]
pub(crate) fn current() -> Option<Operation> {
    if !IS_ENABLED.load(Ordering::Relaxed) {
        return None;
    }
    STACK.with_borrow(|open| open.last().and_then(|frame| frame.operation))
}

/// Records that the current operation is split among threads, in `pieces` pieces.
#[inline(always)]
pub(crate) fn record_parallel_region(pieces: usize) {
    if let Some(operation) = current() {
        add(operation, |spent| {
            spent.parallel_regions += 1;
            spent.pieces += pieces as u64;
        });
    }
}

/// Resumes an operation that another thread has begun; does nothing for `None`.
#[inline(always)]
pub(crate) fn resume(operation: Option<Operation>) -> OperationGuard {
    match operation {
        None => OperationGuard { is_on: false, not_send: PhantomData },
        Some(_) => enter(operation, None),
    }
}

/// Marks the thread as waiting for others until the guard is dropped. Work that it does for them meanwhile is counted
/// as usual.
#[inline(always)]
pub(crate) fn pause() -> OperationGuard {
    if current().is_none() {
        return OperationGuard { is_on: false, not_send: PhantomData };
    }
    enter(None, None)
}

#[cold]
fn enter(operation: Option<Operation>, cost: Option<Cost>) -> OperationGuard {
    if let (Some(operation), Some(cost)) = (operation, cost) {
        add(operation, |spent| {
            spent.calls += 1;
            spent.multiply_adds += cost.multiply_adds;
            spent.multiplier = cost.multiplier;
            spent.hardware_multiply_adds += cost.multiply_adds.saturating_mul(cost.term_products);
            let size = (usize::BITS - cost.bytes.leading_zeros()) as usize;
            spent.bytes[size.min(spent.bytes.len() - 1)] += cost.bytes as u64;
        });
    }
    let frame = ProfileFrame { operation, start: Instant::now(), inside: Duration::ZERO };
    STACK.with_borrow_mut(|open| open.push(frame));
    OperationGuard { is_on: true, not_send: PhantomData }
}

#[cold]
fn leave() {
    let Some(frame) = STACK.with_borrow_mut(Vec::pop) else { return };
    let passed = frame.start.elapsed();
    STACK.with_borrow_mut(|open| {
        if let Some(outer) = open.last_mut() {
            outer.inside += passed;
        }
    });
    if let Some(operation) = frame.operation {
        add(operation, |spent| spent.seconds += passed.saturating_sub(frame.inside).as_secs_f64());
    }
}

fn add(operation: Operation, change: impl FnOnce(&mut OperationProfile)) {
    change(totals().entry(operation).or_insert(OperationProfile {
        operation,
        calls: 0,
        seconds: 0.0,
        parallel_regions: 0,
        pieces: 0,
        multiply_adds: 0,
        multiplier: Multiplier::Vectors,
        hardware_multiply_adds: 0,
        bytes: [0; 48],
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::{for_each, parallel_try_map};
    use std::sync::atomic::AtomicUsize;
    use std::thread::{sleep, yield_now};

    const TIME: Duration = Duration::from_millis(5);

    fn named(name: &'static str) -> (Operation, Cost) {
        (Operation::new(name, [3, 4]), Cost::products(7, Some(2), 1000))
    }

    /// Minimum seconds of some work: a thread may be kept waiting before and after it.
    fn timed(work: impl FnOnce()) -> f64 {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    }

    /// A single test, because there is only one profile at a time.
    #[test]
    fn operation_times_are_exclusive_and_add_up() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let found = |profile: &Profile, name: &str| {
            profile.operations.iter().find(|spent| spent.operation.name == name).cloned().unwrap()
        };
        // Rounding of sums in double precision.
        let small = 1e-9;

        // Nested operations: each has at least the time measured inside of it, and at most the time measured around it.
        let [mut between_least, mut outer_least, mut inner_least] = [0.0; 3];
        let [mut outer_most, mut inner_most] = [0.0; 2];
        let start = Instant::now();
        let ((), profile) = super::profile(|| {
            between_least = timed(|| sleep(TIME));
            outer_most = timed(|| {
                let _outer = operation(|| named("outer"));
                for _ in 0..2 {
                    outer_least += timed(|| sleep(TIME));
                    inner_most += timed(|| {
                        let _inner = operation(|| named("inner"));
                        inner_least += timed(|| sleep(TIME));
                    });
                }
            });
        });
        let whole = start.elapsed().as_secs_f64();
        let [between, outer, inner] = ["between operations", "outer", "inner"].map(|name| found(&profile, name));
        for (spent, least, most) in [
            (&between, between_least, whole - outer_least - inner_least),
            (&outer, outer_least, outer_most - inner_least),
            (&inner, inner_least, inner_most),
        ] {
            assert!(spent.seconds >= least - small && spent.seconds <= most + small, "{least} {most}: {spent:?}");
        }
        assert_eq!((inner.calls, inner.multiply_adds, inner.hardware_multiply_adds), (2, 14, 42));
        assert_eq!((inner.operation.sizes, inner.multiplier, inner.bytes[10]), ([3, 4], Multiplier::Blocks, 2000));
        assert_eq!(inner.bytes.iter().sum::<u64>(), 2000);
        let sum: f64 = profile.operations.iter().map(|spent| spent.seconds).sum();
        assert!(sum <= profile.seconds + small && profile.seconds <= whole, "{sum}, {profile:?} of {whole}");
        assert!(profile.operations.is_sorted_by(|a, b| a.seconds >= b.seconds));

        // Split among threads: the time of other threads belongs to the operation, and waiting belongs to none.
        let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let has_left = || super::totals().values().any(|spent| spent.operation.name == "shared" && spent.seconds > 0.0);
        let ((), profile) = pool.install(|| {
            super::profile(|| {
                let _shared = operation(|| named("shared"));
                for_each(2, usize::MAX, |_| {
                    begun.fetch_add(1, Ordering::SeqCst);
                    while begun.load(Ordering::SeqCst) < 2 {
                        yield_now();
                    }
                    sleep(TIME);
                    // The second thread continues when the first has nothing left to do.
                    if ended.fetch_add(1, Ordering::SeqCst) == 1 {
                        while !has_left() {
                            yield_now();
                        }
                        sleep(4 * TIME);
                    }
                });
            })
        });
        let shared = found(&profile, "shared");
        let time = TIME.as_secs_f64();
        assert!(shared.seconds >= 6.0 * time && shared.calls == 1, "{profile:?}");
        assert_eq!((shared.parallel_regions, shared.pieces), (1, 2));
        assert!(shared.seconds <= 2.0 * profile.seconds - 4.0 * time, "waiting counts: {profile:?}");

        // Parallel items: the time between the operations of an item is attributed to "between operations".
        let (sums, profile) = pool.install(|| {
            super::profile(|| {
                parallel_try_map(0..2u32, |i| {
                    sleep(TIME);
                    let _part = operation(|| named("part"));
                    for_each(2, usize::MAX, |_| sleep(TIME));
                    Ok::<_, ()>(i + 1)
                })
            })
        });
        assert_eq!(sums, Ok(vec![1, 2]));
        let [between, part] = ["between operations", "part"].map(|name| found(&profile, name));
        assert!(between.seconds >= 2.0 * time && part.seconds >= 4.0 * time && part.calls == 2, "{profile:?}");
        assert!(inner.parallel_regions == 0 && inner.pieces == 0);

        // A nested profile is empty, and does not disturb the outer one.
        let (inner, outer) = super::profile(|| {
            let inner = super::profile(|| drop(operation(|| named("one")))).1;
            drop(operation(|| named("two")));
            inner
        });
        assert!(inner.operations.is_empty());
        assert_eq!((found(&outer, "one").calls, found(&outer, "two").calls), (1, 1));

        // Profiling is off again, even after a panic.
        let panicked = std::panic::catch_unwind(|| super::profile(|| panic!("on purpose")));
        assert!(panicked.is_err() && current().is_none());
        drop(operation(|| unreachable!("profiling is off")));
    }
}
