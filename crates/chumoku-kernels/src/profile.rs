//! What the kernels do: their multiply–adds, counted always; and where somebody asks, how long each operation takes and how
//! many bytes it reads and writes.
//!
//! A thread is in one operation at a time: an operation that another calls takes its time from that one, and a thread that
//! waits for others is in none. The times of all operations therefore add up to what the threads did.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

static MULTIPLY_ADDS: AtomicU64 = AtomicU64::new(0);

/// Multiply–adds of all matrix products, attention and recurrences that this process has asked for so far, of all threads.
///
/// Attention counts both of its products for every pair of query and key, whatever a mask leaves out. Backward passes
/// count as the products that they call.
pub fn multiply_adds() -> u64 {
    MULTIPLY_ADDS.load(Ordering::Relaxed)
}

/// Adds the product of `sizes`.
pub(crate) fn count_multiply_adds(sizes: &[usize]) {
    MULTIPLY_ADDS.fetch_add(saturating_product(sizes), Ordering::Relaxed);
}

/// As far as it can be counted.
pub(crate) fn saturating_product(sizes: &[usize]) -> u64 {
    sizes.iter().fold(1u64, |product, &size| product.saturating_mul(size as u64))
}

/// An operation, as a profile lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operation {
    /// What it is.
    pub name: &'static str,
    /// What tells operations of one name apart, such as the depth and the columns of a product; 0 where nothing does.
    pub sizes: [usize; 2],
}

impl Operation {
    /// What is between operations: the code that calls them.
    pub const BETWEEN_OPERATIONS: Operation = Operation { name: "between operations", sizes: [0, 0] };

    pub(crate) fn new(name: &'static str, sizes: [usize; 2]) -> Operation {
        Operation { name, sizes }
    }
}

/// What multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Multiplier {
    /// Fused multiply–adds of f32 in vectors.
    Vectors,
    /// Blocks of bf16 terms, in tiles or dot products.
    Blocks,
}

/// What an operation must do at least.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Products of the operation.
    pub(crate) multiply_adds: u64,
    pub(crate) multiplier: Multiplier,
    /// Products of terms that the multiplier computes for each of them.
    pub(crate) term_products: u64,
    /// Operands and results, each once.
    pub(crate) bytes: usize,
}

impl Cost {
    /// Of what does not multiply, or next to nothing.
    pub(crate) fn memory(bytes: usize) -> Cost {
        Cost { multiply_adds: 0, multiplier: Multiplier::Vectors, term_products: 1, bytes }
    }

    /// Products of numbers of so many bf16 terms; of f32 where there are none.
    pub(crate) fn products(multiply_adds: u64, terms: Option<usize>, bytes: usize) -> Cost {
        match terms {
            None => Cost { multiply_adds, ..Cost::memory(bytes) },
            // Of terms i and j those with i + j ≤ terms + 1.
            Some(terms) => Cost {
                multiply_adds,
                multiplier: Multiplier::Blocks,
                term_products: (terms * (terms + 1) / 2) as u64,
                bytes,
            },
        }
    }
}

/// What was spent on an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationProfile {
    /// The operation.
    pub operation: Operation,
    /// How often it was called.
    pub calls: u64,
    /// Seconds of threads: two threads that are in it for a second spend two.
    pub seconds: f64,
    /// How often it was shared among threads, which met when it was done.
    pub parallel_regions: u64,
    /// Pieces that it was cut into to be shared, of all meetings.
    pub pieces: u64,
    /// Multiply–adds of the formula.
    pub multiply_adds: u64,
    /// What multiplied.
    pub multiplier: Multiplier,
    /// Multiply–adds of the multiplier, which computes several for one where numbers are split into terms.
    pub hardware_multiply_adds: u64,
    /// Bytes of operands and results, each counted once a call. `bytes[n]` are of calls with less than 2ⁿ of them, and at
    /// least half as many.
    pub bytes: [u64; 48],
}

/// What `profile` found.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Every operation, the one on which most was spent first.
    pub operations: Vec<OperationProfile>,
    /// Seconds from beginning to end.
    pub seconds: f64,
}

static IS_ENABLED: AtomicBool = AtomicBool::new(false);
static TOTALS: Mutex<BTreeMap<Operation, OperationProfile>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// What this thread is in, the innermost last.
    static STACK: RefCell<Vec<ProfileFrame>> = const { RefCell::new(Vec::new()) };
}

struct ProfileFrame {
    /// `None`: the thread waits.
    operation: Option<Operation>,
    start: Instant,
    /// What was spent on operations inside.
    inside: Duration,
}

/// Runs `work` and tells what the operations took that it called, in all threads that it shared them with.
///
/// Of two profiles at a time, the second finds nothing.
pub fn profile<R>(work: impl FnOnce() -> R) -> (R, Profile) {
    /// Even where `work` panics.
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

/// The thread is in an operation until this is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct OperationGuard {
    is_on: bool,
    /// Frames are of their thread.
    not_send: PhantomData<*const ()>,
}

impl Drop for OperationGuard {
    fn drop(&mut self) {
        if self.is_on {
            leave();
        }
    }
}

/// Begins an operation, which ends when the result is dropped.
#[inline(always)]
pub(crate) fn operation(what: impl FnOnce() -> (Operation, Cost)) -> OperationGuard {
    if current().is_none() {
        return OperationGuard { is_on: false, not_send: PhantomData };
    }
    let (operation, cost) = what();
    enter(Some(operation), Some(cost))
}

/// Begins an operation that reads and writes so many numbers of a type.
#[inline(always)]
pub(crate) fn memory_bound<T>(name: &'static str, numbers: usize) -> OperationGuard {
    operation(|| (Operation::new(name, [0, 0]), Cost::memory(numbers.saturating_mul(size_of::<T>()))))
}

/// What this thread is in, if that is profiled.
#[inline(always)]
pub(crate) fn current() -> Option<Operation> {
    if !IS_ENABLED.load(Ordering::Relaxed) {
        return None;
    }
    STACK.with_borrow(|open| open.last().and_then(|frame| frame.operation))
}

/// What this thread is in is shared among threads, in so many pieces.
#[inline(always)]
pub(crate) fn record_parallel_region(pieces: usize) {
    if let Some(operation) = current() {
        add(operation, |spent| {
            spent.parallel_regions += 1;
            spent.pieces += pieces as u64;
        });
    }
}

/// Goes on with an operation that another thread has begun; with `None` nothing changes.
#[inline(always)]
pub(crate) fn resume(operation: Option<Operation>) -> OperationGuard {
    match operation {
        None => OperationGuard { is_on: false, not_send: PhantomData },
        Some(_) => enter(operation, None),
    }
}

/// The thread waits for others until the result is dropped. What it does for them meanwhile is counted as what it is.
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

    /// Seconds that some work took at least: a thread may be kept waiting before and after it.
    fn timed(work: impl FnOnce()) -> f64 {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    }

    /// In one test, since there is one profile at a time.
    #[test]
    fn times_are_each_operations_own_and_add_up() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let found = |profile: &Profile, name: &str| {
            profile.operations.iter().find(|spent| spent.operation.name == name).cloned().unwrap()
        };
        // Rounding of sums in double precision.
        let small = 1e-9;

        // One inside another: each has the time that it is timed inside, and no more than is timed around it.
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

        // Shared out: what another thread does is the operation's, waiting is nobody's.
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
                    // The second goes on when the first has nothing left to do.
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

        // Side by side: what is between the operations of a part is named so.
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

        // A profile inside another finds nothing, and spoils nothing.
        let (inner, outer) = super::profile(|| {
            let inner = super::profile(|| drop(operation(|| named("one")))).1;
            drop(operation(|| named("two")));
            inner
        });
        assert!(inner.operations.is_empty());
        assert_eq!((found(&outer, "one").calls, found(&outer, "two").calls), (1, 1));

        // Off again, also after a panic.
        let panicked = std::panic::catch_unwind(|| super::profile(|| panic!("on purpose")));
        assert!(panicked.is_err() && current().is_none());
        drop(operation(|| unreachable!("nobody asks")));
    }
}
