//! What follows a product while its block is in the cache.

use super::matrix::OutputInit;
use crate::activation::{self, Activation};
use crate::dropout::{Dropout, DropoutMask};
use crate::error::{Error, Result};
use crate::isa::{Simd, SimdOp};
use crate::number::Real;
use crate::threads::SharedMut;

/// What is done with the sums of a product, element by element. Dropout goes by the index in the result.
#[derive(Debug, Default)]
#[non_exhaustive]
pub enum Epilogue<'a, T> {
    /// Nothing.
    #[default]
    Identity,
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
    AddResidual {
        /// Of c.
        dropout: Option<Dropout>,
        /// Of the shape of the result.
        residual: &'a [T],
    },
    /// `c · by`, and 0 where `by` is 0, whatever c is: with the slope of [`Then::Activate`], the gradient of what that was
    /// given, where c is that of its result.
    Multiply {
        /// Of the shape of the result.
        factors: &'a [T],
    },
}

impl<T: Real> Epilogue<'_, T> {
    pub(super) fn check(&self, rows: usize, cols: usize) -> Result<()> {
        let (dropout, like) = match self {
            Epilogue::Identity => (None, None),
            Epilogue::Activate { dropout, .. } => (*dropout, None),
            Epilogue::AddResidual { dropout, residual } => (*dropout, Some(("product: residual", residual.len()))),
            Epilogue::Multiply { factors: by } => (None, Some(("product: by", by.len()))),
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
const STREAMING_SIZE: usize = 1 << 20;

/// Numbers in a cache line.
#[cfg(target_arch = "x86_64")]
pub(super) const LINE: usize = 16;

/// Start and [`Then`] of a product of f32 numbers.
#[derive(Debug)]
pub(super) struct BlockEpilogue<'a> {
    pub(super) init: OutputInit<'a, f32>,
    step: EpilogueStep<'a>,
    dropout_mask: Option<DropoutMask>,
    cols: usize,
    /// Whether results are written past the cache.
    streams_output: bool,
}

#[derive(Debug)]
enum EpilogueStep<'a> {
    Identity,
    Activate(Activation, Option<SharedMut<f32>>),
    Add(&'a [f32]),
    Multiply(&'a [f32]),
}

impl<'a> BlockEpilogue<'a> {
    /// Nothing but the start.
    pub(super) fn new(start: OutputInit<'a, f32>, cols: usize) -> Self {
        BlockEpilogue { init: start, step: EpilogueStep::Identity, dropout_mask: None, cols, streams_output: false }
    }

    /// Takes up what follows; hands back the vector whose spare memory the product will fill with `len` numbers.
    pub(super) fn set_epilogue<'b>(&mut self, then: Epilogue<'b, f32>, len: usize) -> Option<&'b mut Vec<f32>>
    where
        'b: 'a,
    {
        self.streams_output = len >= STREAMING_SIZE;
        let mut filled = None;
        let (step, dropout) = match then {
            Epilogue::Identity => (EpilogueStep::Identity, None),
            Epilogue::Activate { activation, dropout, mut slope } => {
                let spare = slope.as_deref_mut().map(|slope| SharedMut::from_spare_capacity(slope, len));
                filled = slope;
                (EpilogueStep::Activate(activation, spare), dropout)
            }
            Epilogue::AddResidual { dropout, residual } => (EpilogueStep::Add(residual), dropout),
            Epilogue::Multiply { factors: by } => (EpilogueStep::Multiply(by), None),
        };
        (self.step, self.dropout_mask) = (step, dropout.and_then(DropoutMask::from_dropout));
        filled
    }

    /// Whether the sums are the result, but for [`Start::Keep`].
    pub(super) fn is_identity(&self) -> bool {
        matches!((&self.step, self.init), (EpilogueStep::Identity, OutputInit::Zero | OutputInit::Keep))
    }

    /// Asks for what the finish of these rows and columns will read, while the sums are still being computed.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn prefetch(&self, rows: std::ops::Range<usize>, cols: &std::ops::Range<usize>) {
        if let EpilogueStep::Add(other) | EpilogueStep::Multiply(other) = &self.step {
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
    pub(super) unsafe fn apply<S: Simd>(
        &self,
        simd: S,
        place: (usize, usize),
        sums: &mut [f32],
        c: SharedMut<f32>,
        c_stride: usize,
    ) {
        simd.run(ApplyEpilogue { epilogue: self, place, sums, c, c_stride });
    }

    /// What [`Finish::segment`] does.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn apply_to<S: Simd>(
        &self,
        simd: S,
        (i, j): (usize, usize),
        sums: &mut [f32],
        c: SharedMut<f32>,
        c_stride: usize,
    ) {
        let (count, at, first) = (sums.len(), i * c_stride + j, i * self.cols + j);
        match self.init {
            OutputInit::Zero => {}
            // SAFETY: there and the caller's alone, as the caller promises, and holding numbers, as it does with `Keep`.
            OutputInit::Keep => add(simd, sums, unsafe { c.slice(at, count) }),
            OutputInit::Bias(bias) => add(simd, sums, &bias[j..j + count]),
        }
        match &self.step {
            EpilogueStep::Identity => {}
            EpilogueStep::Activate(kind, None) => {
                activation::activate(simd, *kind, sums);
                self.apply_dropout(simd, first, [sums]);
            }
            EpilogueStep::Activate(kind, Some(to)) => {
                let mut slope = [0.0; SEGMENT];
                let slope = &mut slope[..count];
                activation::activate_with_slope(simd, *kind, sums, slope);
                self.apply_dropout(simd, first, [sums, slope]);
                // SAFETY: the memory of the slope is there, and these elements the caller's alone, as it promises.
                unsafe { self.write(simd, *to, first, slope) };
            }
            EpilogueStep::Add(residual) => {
                self.apply_dropout(simd, first, [sums]);
                add(simd, sums, &residual[first..first + count]);
            }
            EpilogueStep::Multiply(by) => multiply(simd, sums, &by[first..first + count]),
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
        if !self.streams_output || !sums.len().is_multiple_of(S::LANES) || !c.is_aligned(at, S::LANES) {
            // SAFETY: the memory is there and these elements the caller's alone, as the caller promises.
            return unsafe { c.copy_from(at, sums) };
        }
        // SAFETY: there and the caller's alone, as the caller promises; all of the part is written below.
        let to = unsafe { c.slice_uninit(at, sums.len()) };
        for (to, part) in to.chunks_exact_mut(S::LANES).zip(sums.chunks_exact(S::LANES)) {
            // SAFETY: the chunk has room for LANES numbers. It is aligned to them: the first was found to be, and each
            // starts a vector after the one before.
            unsafe { simd.stream_ptr(to.as_mut_ptr().cast(), simd.load(part)) };
        }
    }

    /// Called by each task when its part is written.
    #[inline(always)]
    pub(super) fn fence<S: Simd>(&self, simd: S) {
        if self.streams_output {
            simd.fence();
        }
    }

    #[inline(always)]
    fn apply_dropout<S: Simd, const N: usize>(&self, simd: S, first: usize, x: [&mut [f32]; N]) {
        if let Some(keep) = &self.dropout_mask {
            keep.apply(simd, first, x);
        }
    }
}

/// A segment to be finished, by one function for all kernels. [`Finish::segment`] alone makes it, whose caller makes the
/// promises.
struct ApplyEpilogue<'a, 'b> {
    epilogue: &'a BlockEpilogue<'b>,
    place: (usize, usize),
    sums: &'a mut [f32],
    c: SharedMut<f32>,
    c_stride: usize,
}

impl SimdOp for ApplyEpilogue<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let ApplyEpilogue { epilogue: finish, place, sums, c, c_stride } = self;
        // SAFETY: it asks for what the caller of `segment` has promised.
        unsafe { finish.apply_to(simd, place, sums, c, c_stride) };
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
