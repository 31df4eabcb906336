//! One row of a block: scores become weights `2^(score · factor − shift)`.
//!
//! Weights may be taken relative to any shift, as long as none overflows and the largest is not lost. Most rows need no
//! maximum: where no score is large the shift is 0. By Cauchy and Schwarz no score exceeds `|scale| |q| |k|`, which tells
//! it of many rows at once. The others keep a running maximum (Milakov and Gimelshein, "Online normalizer calculation for
//! softmax", 2018), rounded up to a whole number so that going to a new one multiplies by a power of two, exactly.

use super::engine::{Engine, GRAIN, STRIDE};
use crate::isa::Simd;
use std::f32::consts::LN_2;
use std::ops::Range;

/// Scores in units of log 2 up to this need no maximum: weights stay within 2^±44, far from what f32 cannot hold.
pub(super) const BOUND: f32 = 44.0;
/// Where a bound on scores is this, they stay below [`BOUND`] however they are rounded: whether a row keeps a maximum
/// depends on its scores alone, never on how that was found out.
pub(super) const SAFE_BOUND: f32 = 43.0;

/// What stands for −∞ in transformed scores: finite, so that no arithmetic makes it NaN.
pub(super) const FORBIDDEN: f32 = -1e30;
/// Transformed scores below this are forbidden.
pub(super) const FORBIDDEN_BELOW: f32 = -1e29;

/// 1.5 · 2^23: added to a number, it leaves the nearest whole number in the low bits of the sum.
const MAGIC: f32 = 12_582_912.0;

/// `2^f` for |f| ≤ 1/2, exactly 1 at 0. Largest relative errors 1.0e-4, 2.8e-6 and 2.0e-9 for degree 3, 4 and 6.
#[inline(always)]
fn exp2_fraction<S: Simd, const DEGREE: usize>(simd: S, f: S::V) -> S::V {
    let coefficients: &[f32] = match DEGREE {
        3 => &[5.500_893_3e-2, 0.242_210_97, 0.693_282_9],
        4 => &[9.582_853e-3, 5.590_642_6e-2, 0.240_240_99, 0.693_124_2],
        _ => &[1.535_336_2e-4, 1.339_887_5e-3, 9.618_437e-3, 5.550_332_4e-2, 0.240_226_48, LN_2],
    };
    let mut p = simd.splat(coefficients[0]);
    for &coefficient in &coefficients[1..] {
        p = simd.mul_add(p, f, simd.splat(coefficient));
    }
    simd.mul_add(p, f, simd.splat(1.0))
}

/// `2^(score · factor)`, where that is known to lie within 2^±126.
#[inline(always)]
pub(super) fn exp2_bounded<E: Engine>(simd: E::S, score: V<E>, factor: V<E>) -> V<E> {
    let magic = simd.splat(MAGIC);
    let whole = simd.mul_add(score, factor, magic);
    let fraction = simd.mul_add(score, factor, simd.sub(magic, whole));
    simd.ldexp(fraction_power::<E>(simd, fraction), whole)
}

/// `2^(score · factor − shift)`, about 2^−126 where it is less than that. It must be below 2^127.
#[inline(always)]
pub(super) fn exp2_clamped<E: Engine>(simd: E::S, score: V<E>, factor: V<E>, shift: V<E>) -> V<E> {
    let magic = simd.splat(MAGIC);
    let x = simd.max(simd.mul_add(score, factor, simd.sub(simd.splat(0.0), shift)), simd.splat(-126.0));
    let whole = simd.add(x, magic);
    simd.ldexp(fraction_power::<E>(simd, simd.sub(x, simd.sub(whole, magic))), whole)
}

pub(super) type V<E> = <<E as Engine>::S as Simd>::V;

#[inline(always)]
fn fraction_power<E: Engine>(simd: E::S, f: V<E>) -> V<E> {
    match E::DEGREE {
        3 => exp2_fraction::<E::S, 3>(simd, f),
        4 => exp2_fraction::<E::S, 4>(simd, f),
        _ => exp2_fraction::<E::S, 6>(simd, f),
    }
}

/// The part of a block's row that is computed, `from..to` (multiples of the grain), and the part of it that the query
/// sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) first_seen: usize,
    pub(super) end_seen: usize,
}

impl Span {
    pub(super) fn sees_all(&self) -> bool {
        self.first_seen <= self.from && self.to <= self.end_seen
    }
}

/// What a query has gathered from the blocks so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    /// Weights are 2^(score − shift): a whole number, or −∞ before the first maximum.
    pub(super) shift: f32,
    /// Whether `shift` follows the maximum. If not, it is 0.
    pub(super) follows: bool,
    /// Whether a score that is not forbidden was so low that it counts as forbidden.
    pub(super) is_low: bool,
    /// Sums of weights, lane by lane.
    pub(super) totals: [f32; 16],
}

impl Running {
    pub(super) const NEW: Running = Running { shift: 0.0, follows: false, is_low: false, totals: [0.0; 16] };
}

/// Products that are computed between rows of the softmax: the multiplier and the vector unit work side by side.
pub(super) struct Between<E: Engine> {
    engine: E,
    jobs: [Option<Job>; 2],
    done: usize,
    all: usize,
}

/// Products, panel by panel.
#[derive(Clone, Debug)]
pub(super) enum Job {
    /// See [`Engine::scores`].
    Scores { left: *const u8, keys: *const u8, depth: usize, from: usize, to: usize, out: *mut f32 },
    /// See [`Engine::weigh`].
    Weigh {
        weights: *const u8,
        from: usize,
        to: usize,
        values: *const u8,
        /// Room for the sums of one block.
        part: *mut f32,
        out: *mut f32,
        cols: usize,
        accumulate: bool,
    },
}

impl Job {
    fn panels(&self) -> usize {
        match *self {
            Job::Scores { from, to, .. } => (to - from) / GRAIN,
            Job::Weigh { cols, .. } => cols / GRAIN,
        }
    }

    /// Does the panels `panels` of it.
    ///
    /// # Safety
    /// * The operands must have been packed by `engine`, as [`Engine::scores`] and [`Engine::weigh`] ask.
    /// * `out` must be readable and writable for a block of scores, or [`Engine::QUERIES`] rows of `cols` sums, and so
    ///   must `part` for such rows of sums where `E::SUMS_APART`.
    /// * `panels` must end at the number of panels at the latest.
    #[inline(always)]
    pub(super) unsafe fn run<E: Engine>(&self, engine: E, panels: Range<usize>) {
        // SAFETY: the operands and `out` are as the caller promises; panels that exist end inside of them. `part` is as
        // large as `out`, and both are read and written row by row, in vectors that divide the panels.
        unsafe {
            match *self {
                Job::Scores { left, keys, depth, from, out, .. } => {
                    engine.scores(left, keys, depth, from + panels.start * GRAIN, from + panels.end * GRAIN, out);
                }
                Job::Weigh { weights, from, to, values, part, out, cols, accumulate } => {
                    if !(E::SUMS_APART && accumulate) {
                        engine.weigh(weights, from, to, values, panels, out, cols, accumulate);
                        return;
                    }
                    engine.weigh(weights, from, to, values, panels.clone(), part, cols, false);
                    let simd = engine.simd();
                    for row in 0..E::QUERIES {
                        let mut col = panels.start * GRAIN;
                        while col < panels.end * GRAIN {
                            let (to, from) = (out.add(row * cols + col), part.add(row * cols + col));
                            simd.store_ptr(to, simd.add(simd.load_ptr(to), simd.load_ptr(from)));
                            col += E::S::LANES;
                        }
                    }
                }
            }
        }
    }
}

impl<E: Engine> Between<E> {
    /// # Safety
    /// Until this is dropped, each job must be one that may be run: see [`Job::run`].
    pub(super) unsafe fn new(engine: E, jobs: [Option<Job>; 2]) -> Self {
        let all = jobs.iter().flatten().map(Job::panels).sum();
        Between { engine, jobs, done: 0, all }
    }

    /// Does its share when `row` of `rows` rows are done.
    #[inline(always)]
    fn advance(&mut self, row: usize, rows: usize) {
        while self.done * rows < self.all * row {
            let mut panel = self.done;
            for job in self.jobs.iter().flatten() {
                if panel < job.panels() {
                    // SAFETY: the panel is one of the job's, and that the job may be run was promised to `new`.
                    unsafe { job.run(self.engine, panel..panel + 1) };
                    break;
                }
                panel -= job.panels();
            }
            self.done += 1;
        }
    }
}

/// Whether no score of any row, times `factor`, exceeds [`BOUND`]. NaN passes.
///
/// # Safety
/// `scores` must be readable for `rows` rows of [`STRIDE`], and `span` be whole grains of them.
#[inline(always)]
pub(super) unsafe fn is_bounded<S: Simd>(simd: S, scores: *const f32, rows: usize, span: Span, factor: f32) -> bool {
    let (mut largest, mut smallest) = (simd.splat(0.0), simd.splat(0.0));
    for i in 0..rows {
        let scores = scores.wrapping_add(i * STRIDE);
        for col in (span.from..span.to).step_by(S::LANES) {
            // SAFETY: row `i` is one of those that the caller promises, and LANES divides the grains of the span.
            let score = unsafe { simd.load_ptr(scores.add(col)) };
            largest = simd.max(score, largest);
            smallest = simd.min(score, smallest);
        }
    }
    let extreme = simd.max(largest, simd.sub(simd.splat(0.0), smallest));
    simd.largest(extreme) * factor.abs() <= BOUND
}

/// Turns all rows of a block into weights relative to 0, where no score exceeds [`BOUND`] and every query sees the same
/// keys: as [`Row::bounded`], with the same results, without asking again for each row.
///
/// # Safety
/// * `span` must be whole grains, and end at the block's end at the latest.
/// * `scores` must be readable for `states.len()` rows of [`STRIDE`], at most [`Engine::QUERIES`].
/// * `weights` must be writable for a block (see [`Engine::put`]): the same block where weights are written over scores.
/// * What the jobs of `between` write must be neither.
#[inline(always)]
pub(super) unsafe fn bounded_block<E: Engine>(
    engine: E,
    scores: *const f32,
    span: Span,
    factor: f32,
    states: &mut [Running],
    weights: *mut u8,
    mut between: Between<E>,
) {
    let rows = states.len();
    let simd = engine.simd();
    let lanes = E::S::LANES;
    let factor = simd.splat(factor);
    if !E::OVERLAPS {
        between.advance(rows, rows);
    }
    // Up to here all of a pair of vectors is seen.
    let whole = span.from + (span.end_seen - span.from) / (2 * lanes) * (2 * lanes);
    for (i, state) in states.iter_mut().enumerate() {
        let scores = scores.wrapping_add(i * STRIDE);
        let mut total = simd.load(&state.totals);
        let mut col = span.from;
        while col < whole {
            // SAFETY: row `i` is one of those that the caller promises, and the pair ends at `whole` at the latest, no
            // further than `span.to`.
            let pair = unsafe { [simd.load_ptr(scores.add(col)), simd.load_ptr(scores.add(col + lanes))] };
            let pair = [exp2_bounded::<E>(simd, pair[0], factor), exp2_bounded::<E>(simd, pair[1], factor)];
            total = simd.add(simd.add(total, pair[0]), pair[1]);
            // SAFETY: the caller promises a block of weights, of which this is row `i`; columns end at `span.to`.
            unsafe { engine.put(weights, i, col, pair) };
            col += 2 * lanes;
        }
        simd.store(&mut state.totals, total);
        if whole < span.to {
            let span = Span { from: whole, ..span };
            let row = Row { engine, scores, span, factor: 0.0, kept: None, weights, row: i };
            // SAFETY: `scores` is row `i` of the block that the caller promises, and `weights` its block of weights;
            // `whole` is a multiple of two vectors from `span.from` on, so that pairs of vectors still end at `span.to`.
            unsafe { row.each::<true, false>(state, &Bounded::<E> { factor }) };
        }
        between.advance(i + 1, rows);
    }
}

/// Which weights of a row dropout keeps: a bit for each key of the block.
pub(super) type Kept<'a> = Option<&'a [u16]>;

/// What a score becomes: a trait and not a closure, which might be compiled without the engine's instructions.
trait Weigh<E: Engine> {
    fn weight(&self, simd: E::S, score: V<E>) -> V<E>;
}

/// 0
struct Zero;
impl<E: Engine> Weigh<E> for Zero {
    #[inline(always)]
    fn weight(&self, simd: E::S, _: V<E>) -> V<E> {
        simd.splat(0.0)
    }
}

/// [`exp2_bounded`]
struct Bounded<E: Engine> {
    factor: V<E>,
}
impl<E: Engine> Weigh<E> for Bounded<E> {
    #[inline(always)]
    fn weight(&self, simd: E::S, score: V<E>) -> V<E> {
        exp2_bounded::<E>(simd, score, self.factor)
    }
}

/// [`exp2_clamped`], and 0 for forbidden scores where `MASKED`.
struct Following<E: Engine, const MASKED: bool> {
    factor: V<E>,
    shift: V<E>,
}
impl<E: Engine, const MASKED: bool> Weigh<E> for Following<E, MASKED> {
    #[inline(always)]
    fn weight(&self, simd: E::S, score: V<E>) -> V<E> {
        let weight = exp2_clamped::<E>(simd, score, self.factor, self.shift);
        if MASKED { simd.select_lt(score, simd.splat(FORBIDDEN_BELOW), simd.splat(0.0), weight) } else { weight }
    }
}

/// One row of a block, to be turned into weights: see [`Row::bounded`] and [`Row::following`].
///
/// Its methods are unsafe, because they follow its pointers. Each of them asks that
///
/// * `span` is `from..to` in whole grains with `to` at most [`super::engine::KEYS`],
/// * `scores` is readable for [`STRIDE`] numbers, and nobody else writes to them meanwhile,
/// * `weights` is writable for a block of the engine (see [`Engine::put`]), of which nobody else reaches this row
///   meanwhile; where weights are written over the scores, it is the block that `scores` is row `row` of,
/// * `row` is a row of the block: below [`Engine::QUERIES`],
/// * `kept`, if any, has a bit for each key of a block.
pub(super) struct Row<'a, E: Engine> {
    pub(super) engine: E,
    /// The scores of the block's row; weights may be written over them.
    pub(super) scores: *const f32,
    pub(super) span: Span,
    /// `scale · log₂ e`, or 1 for transformed scores.
    pub(super) factor: f32,
    pub(super) kept: Kept<'a>,
    /// Where weights go, and the row there.
    pub(super) weights: *mut u8,
    pub(super) row: usize,
}

impl<E: Engine> Row<'_, E> {
    /// Weights relative to 0, where no score exceeds [`BOUND`].
    ///
    /// # Safety
    /// The row must be as [`Row`] asks.
    #[inline(always)]
    pub(super) unsafe fn bounded(&self, state: &mut Running) {
        let weigh = Bounded::<E> { factor: self.engine.simd().splat(self.factor) };
        // SAFETY: the caller promises the row, which is all that `each` asks for.
        unsafe {
            match (self.span.sees_all(), self.kept) {
                (true, None) => self.each::<false, false>(state, &weigh),
                (false, None) => self.each::<true, false>(state, &weigh),
                _ => self.each::<true, true>(state, &weigh),
            }
        }
    }

    /// The largest absolute value of the scores that are seen, NaN if one is not finite.
    ///
    /// # Safety
    /// The row must be as [`Row`] asks.
    #[inline(always)]
    pub(super) unsafe fn extreme(&self) -> f32 {
        let simd = self.engine.simd();
        let zero = simd.splat(0.0);
        let (mut largest, mut zeros) = (zero, zero);
        let mut col = self.span.from;
        while col < self.span.to {
            // SAFETY: `col` is a multiple of LANES below `to`, a multiple of GRAIN; LANES divides GRAIN, so the vector ends
            // at `to` at the latest, which is within the STRIDE scores that the caller promises.
            let score = self.seen(col, unsafe { simd.load_ptr(self.scores.add(col)) }, zero);
            largest = simd.max(simd.max(score, simd.sub(zero, score)), largest);
            // x·0 is 0 for finite x and NaN otherwise, and NaN survives adding.
            zeros = simd.mul_add(score, zero, zeros);
            col += E::S::LANES;
        }
        simd.largest(largest) + simd.sum(zeros)
    }

    /// Weights relative to the running maximum; returns what to multiply earlier sums with, or `None` if a score is not
    /// finite. `MASKED` scores are transformed ones, some of which may be [`FORBIDDEN`].
    ///
    /// # Safety
    /// The row must be as [`Row`] asks.
    #[inline(always)]
    pub(super) unsafe fn following<const MASKED: bool>(&self, state: &mut Running) -> Option<f32> {
        let simd = self.engine.simd();
        let factor = simd.splat(self.factor);
        let nothing = simd.splat(FORBIDDEN);
        let mut largest = nothing;
        let mut col = self.span.from;
        while col < self.span.to {
            // `max` gives its second operand where either is NaN; such a row shows in its sum.
            // SAFETY: as `from` and `to` are multiples of GRAIN, which LANES divides, the vector ends at `to` at the
            // latest; the caller promises STRIDE scores, which are more.
            let score = simd.mul(unsafe { simd.load_ptr(self.scores.add(col)) }, factor);
            largest = simd.max(self.seen(col, score, nothing), largest);
            col += E::S::LANES;
        }
        let largest = simd.largest(largest);
        let before = if state.follows || state.totals != [0.0; 16] { state.shift } else { f32::NEG_INFINITY };
        state.follows = true;
        if largest < FORBIDDEN_BELOW {
            state.shift = before;
            // SAFETY: what is seen lies in `from..to`, and the caller promises STRIDE scores, which are more.
            let seen = (self.span.first_seen..self.span.end_seen).map(|col| unsafe { *self.scores.add(col) });
            state.is_low |= seen.into_iter().any(|score| score != FORBIDDEN);
            // SAFETY: the caller promises the row.
            unsafe { self.nothing() };
            return MASKED.then_some(1.0);
        }
        state.shift = if largest > before { largest.ceil() } else { before };
        if !state.shift.is_finite() {
            // SAFETY: the caller promises the row.
            unsafe { self.nothing() };
            return None;
        }
        let rescale = if before == f32::NEG_INFINITY { 0.0 } else { (before - state.shift).exp2() };
        if rescale != 1.0 {
            state.totals.iter_mut().for_each(|total| *total *= rescale);
        }
        let weigh = Following::<E, MASKED> { factor, shift: simd.splat(state.shift) };
        // SAFETY: the caller promises the row.
        unsafe {
            match self.kept {
                None => self.each::<true, false>(state, &weigh),
                _ => self.each::<true, true>(state, &weigh),
            }
        }
        Some(rescale)
    }

    /// A row of zeros.
    ///
    /// # Safety
    /// The row must be as [`Row`] asks.
    #[inline(always)]
    pub(super) unsafe fn nothing(&self) {
        let mut unused = Running::NEW;
        // SAFETY: the caller promises the row.
        unsafe { self.each::<false, false>(&mut unused, &Zero) };
    }

    /// `x` where the query sees the keys from `col` on, else `other`.
    #[inline(always)]
    fn seen(&self, col: usize, x: V<E>, other: V<E>) -> V<E> {
        let simd = self.engine.simd();
        let index = simd.add(simd.load(&LANES[..]), simd.splat(col as f32));
        let x = simd.select_lt(index, simd.splat(self.span.first_seen as f32), other, x);
        simd.select_lt(index, simd.splat(self.span.end_seen as f32), x, other)
    }

    /// Every score becomes what `weigh` makes of it; with `PARTLY` 0 where the query does not see the key, with `DROPS`
    /// 0 where dropout drops the weight.
    ///
    /// # Safety
    /// The row must be as [`Row`] asks.
    #[inline(always)]
    unsafe fn each<const PARTLY: bool, const DROPS: bool>(&self, state: &mut Running, weigh: &impl Weigh<E>) {
        let simd = self.engine.simd();
        let lanes = E::S::LANES;
        let mut total = simd.load(&state.totals);
        let mut col = self.span.from;
        while col < self.span.to {
            let mut pair = [simd.splat(0.0); 2];
            for (half, p) in pair.iter_mut().enumerate() {
                let col = col + half * lanes;
                // SAFETY: two vectors are at most a grain, so that the pair from `col` ends at `to` at the latest; the
                // caller promises STRIDE scores, which are more.
                *p = weigh.weight(simd, unsafe { simd.load_ptr(self.scores.add(col)) });
                if PARTLY {
                    *p = self.seen(col, *p, simd.splat(0.0));
                }
                total = simd.add(total, *p);
                if DROPS && let Some(kept) = self.kept {
                    *p = simd.select_bits(kept[col / 16] >> (col % 16), *p);
                }
            }
            // SAFETY: the caller promises a block at `weights` and a row of it; the columns end at `to`, inside the block.
            unsafe { self.engine.put(self.weights, self.row, col, pair) };
            col += 2 * lanes;
        }
        simd.store(&mut state.totals, total);
    }
}

/// 0, 1, 2, …
pub(super) const LANES: [f32; 16] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];
