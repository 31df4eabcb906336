//! What follows a product while its block is in the cache.

use super::matrix::Start;
use crate::activation::{self, Activation};
use crate::dropout::{Dropout, Keep};
use crate::error::{Error, Result};
use crate::isa::{Op, Simd};
use crate::number::Real;
use crate::threads::SharedMut;

/// What is done with the sums of a product, element by element. Dropout goes by the index in the result.
#[derive(Debug, Default)]
#[non_exhaustive]
pub enum Then<'a, T> {
    /// Nothing.
    #[default]
    Nothing,
    /// `dropout(f(c))`
    Activate {
        /// f
        activation: Activation,
        /// After it.
        dropout: Option<Dropout>,
        /// If wanted, the slope of all this, `dropout(f′(c))`: what was in there is replaced. It takes the memory that
        /// c would, and spares the backward pass computing f and drawing random numbers again.
        slope: Option<&'a mut Vec<T>>,
    },
    /// `residual + dropout(c)`
    Add {
        /// Of c.
        dropout: Option<Dropout>,
        /// Of the shape of the result.
        residual: &'a [T],
    },
    /// `c · by`, and 0 where `by` is 0, whatever c is: with the slope of [`Then::Activate`], the gradient of what that was
    /// given, where c is that of its result.
    Multiply {
        /// Of the shape of the result.
        by: &'a [T],
    },
}

impl<T: Real> Then<'_, T> {
    pub(super) fn check(&self, rows: usize, cols: usize) -> Result<()> {
        let (dropout, like) = match self {
            Then::Nothing => (None, None),
            Then::Activate { dropout, .. } => (*dropout, None),
            Then::Add { dropout, residual } => (*dropout, Some(("product: residual", residual.len()))),
            Then::Multiply { by } => (None, Some(("product: by", by.len()))),
        };
        if let Some(dropout) = dropout {
            crate::dropout::check_rate("product: dropout", dropout.rate)?;
        }
        like.map_or(Ok(()), |(what, len)| Error::check_length(what, rows * cols, len))
    }
}

/// Numbers of a row that are finished at a time: those of a group of dropout.
pub(super) const SEGMENT: usize = crate::dropout::GROUP;

/// Results from so many numbers on are written past the cache: they would not stay in it until they are read.
const STREAMED: usize = 1 << 20;

/// Numbers in a cache line.
#[cfg(target_arch = "x86_64")]
pub(super) const LINE: usize = 16;

/// Start and [`Then`] of a product of f32 numbers.
#[derive(Debug)]
pub(super) struct Finish<'a> {
    pub(super) start: Start<'a, f32>,
    step: Step<'a>,
    keep: Option<Keep>,
    cols: usize,
    /// Whether results are written past the cache.
    is_streamed: bool,
}

#[derive(Debug)]
enum Step<'a> {
    Nothing,
    Activate(Activation, Option<SharedMut<f32>>),
    Add(&'a [f32]),
    Multiply(&'a [f32]),
}

impl<'a> Finish<'a> {
    /// Nothing but the start.
    pub(super) fn new(start: Start<'a, f32>, cols: usize) -> Self {
        Finish { start, step: Step::Nothing, keep: None, cols, is_streamed: false }
    }

    /// Takes up what follows; hands back the vector whose spare memory the product will fill with `len` numbers.
    pub(super) fn then<'b>(&mut self, then: Then<'b, f32>, len: usize) -> Option<&'b mut Vec<f32>>
    where
        'b: 'a,
    {
        self.is_streamed = len >= STREAMED;
        let mut filled = None;
        let (step, dropout) = match then {
            Then::Nothing => (Step::Nothing, None),
            Then::Activate { activation, dropout, mut slope } => {
                let spare = slope.as_deref_mut().map(|slope| SharedMut::spare(slope, len));
                filled = slope;
                (Step::Activate(activation, spare), dropout)
            }
            Then::Add { dropout, residual } => (Step::Add(residual), dropout),
            Then::Multiply { by } => (Step::Multiply(by), None),
        };
        (self.step, self.keep) = (step, dropout.and_then(Keep::of));
        filled
    }

    /// Whether the sums are the result, but for [`Start::Keep`].
    pub(super) fn is_plain(&self) -> bool {
        matches!((&self.step, self.start), (Step::Nothing, Start::Zero | Start::Keep))
    }

    /// Asks for what the finish of these rows and columns will read, while the sums are still being computed.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn prefetch(&self, rows: std::ops::Range<usize>, cols: &std::ops::Range<usize>) {
        if let Step::Add(other) | Step::Multiply(other) = &self.step {
            for i in rows {
                for j in cols.clone().step_by(LINE) {
                    crate::isa::prefetch(other.as_ptr().wrapping_add(i * self.cols + j));
                }
            }
        }
    }

    /// Finishes `sums`, those of row `i` from column `j` on, and writes them to `c`.
    ///
    /// # Safety
    /// * The memory of `c`, and that of the slope of [`Then::Activate`], must still be there.
    /// * These elements of both must be the caller's alone, until [`Finish::done`] has been called.
    /// * With [`Start::Keep`], these elements of `c` must hold numbers. Otherwise nothing of `c` is read.
    #[inline(always)]
    pub(super) unsafe fn segment<S: Simd>(
        &self,
        simd: S,
        place: (usize, usize),
        sums: &mut [f32],
        c: SharedMut<f32>,
        c_stride: usize,
    ) {
        simd.run(Segment { finish: self, place, sums, c, c_stride });
    }

    /// What [`Finish::segment`] does.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn run<S: Simd>(
        &self,
        simd: S,
        (i, j): (usize, usize),
        sums: &mut [f32],
        c: SharedMut<f32>,
        c_stride: usize,
    ) {
        let (count, at, first) = (sums.len(), i * c_stride + j, i * self.cols + j);
        match self.start {
            Start::Zero => {}
            // SAFETY: there and the caller's alone, as the caller promises, and holding numbers, as it does with `Keep`.
            Start::Keep => add(simd, sums, unsafe { c.slice(at, count) }),
            Start::Bias(bias) => add(simd, sums, &bias[j..j + count]),
        }
        match &self.step {
            Step::Nothing => {}
            Step::Activate(kind, None) => {
                activation::activate(simd, *kind, sums);
                self.drop(simd, first, [sums]);
            }
            Step::Activate(kind, Some(to)) => {
                let mut slope = [0.0; SEGMENT];
                let slope = &mut slope[..count];
                activation::activate_with_slope(simd, *kind, sums, slope);
                self.drop(simd, first, [sums, slope]);
                // SAFETY: the memory of the slope is there, and these elements the caller's alone, as it promises.
                unsafe { self.write(simd, *to, first, slope) };
            }
            Step::Add(residual) => {
                self.drop(simd, first, [sums]);
                add(simd, sums, &residual[first..first + count]);
            }
            Step::Multiply(by) => multiply(simd, sums, &by[first..first + count]),
        }
        // SAFETY: the memory of `c` is there, and these elements the caller's alone, as it promises.
        unsafe { self.write(simd, c, at, sums) };
    }

    /// Writes `sums` to `c` from `at` on, of which nothing is read.
    ///
    /// # Safety
    /// * The memory of `c` must still be there.
    /// * These elements of `c` must be the caller's alone, until [`Finish::done`] has been called.
    #[inline(always)]
    unsafe fn write<S: Simd>(&self, simd: S, c: SharedMut<f32>, at: usize, sums: &[f32]) {
        if !self.is_streamed || !sums.len().is_multiple_of(S::LANES) || !c.is_aligned(at, S::LANES) {
            // SAFETY: the memory is there and these elements the caller's alone, as the caller promises.
            return unsafe { c.write(at, sums) };
        }
        // SAFETY: there and the caller's alone, as the caller promises; all of the part is written below.
        let to = unsafe { c.unwritten(at, sums.len()) };
        for (to, part) in to.chunks_exact_mut(S::LANES).zip(sums.chunks_exact(S::LANES)) {
            // SAFETY: the chunk has room for LANES numbers. It is aligned to them: the first was found to be, and each
            // starts a vector after the one before.
            unsafe { simd.stream_ptr(to.as_mut_ptr().cast(), simd.load(part)) };
        }
    }

    /// Called by each task when its part is written.
    #[inline(always)]
    pub(super) fn done<S: Simd>(&self, simd: S) {
        if self.is_streamed {
            simd.fence();
        }
    }

    #[inline(always)]
    fn drop<S: Simd, const N: usize>(&self, simd: S, first: usize, x: [&mut [f32]; N]) {
        if let Some(keep) = &self.keep {
            keep.apply(simd, first, x);
        }
    }
}

/// A segment to be finished, by one function for all kernels. [`Finish::segment`] alone makes it, whose caller makes the promises.
struct Segment<'a, 'b> {
    finish: &'a Finish<'b>,
    place: (usize, usize),
    sums: &'a mut [f32],
    c: SharedMut<f32>,
    c_stride: usize,
}

impl Op for Segment<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let Segment { finish, place, sums, c, c_stride } = self;
        // SAFETY: it asks for what the caller of `segment` has promised.
        unsafe { finish.run(simd, place, sums, c, c_stride) };
    }
}

/// `x *= y`; 0 where y is 0, whatever x is.
#[inline(always)]
fn multiply<S: Simd>(simd: S, x: &mut [f32], y: &[f32]) {
    let zero = simd.splat(0.0);
    for (x, y) in x.chunks_mut(S::LANES).zip(y.chunks(S::LANES)) {
        let y = simd.load_up_to(y, 0.0);
        let product = simd.mul(simd.load_up_to(x, 0.0), y);
        // What is neither above nor below 0 is 0, or NaN and shows.
        let product = simd.select_lt(zero, y, product, simd.select_lt(y, zero, product, y));
        simd.store_up_to(x, product);
    }
}

/// `x += y`
#[inline(always)]
fn add<S: Simd>(simd: S, x: &mut [f32], y: &[f32]) {
    for (x, y) in x.chunks_mut(S::LANES).zip(y.chunks(S::LANES)) {
        let sum = simd.add(simd.load_up_to(x, 0.0), simd.load_up_to(y, 0.0));
        simd.store_up_to(x, sum);
    }
}
