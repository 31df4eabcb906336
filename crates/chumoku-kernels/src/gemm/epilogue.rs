//! The epilogue of a product, applied while its block is in the cache.

use super::matrix::OutputInit;
use crate::activation::{self, Activation};
use crate::dropout::{Dropout, DropoutMask};
use crate::error::{Error, Result};
use crate::isa::{Simd, SimdOp};
use crate::number::Real;
use crate::threads::SharedMut;

/// The epilogue: an elementwise operation on the sums of a product. Dropout uses the index in the result.
#[derive(Debug, Default)]
#[non_exhaustive]
pub enum Epilogue<'a, T> {
    /// No operation.
    #[default]
    Identity,
    /// `dropout(f(c))`
    Activate {
        /// The function f.
        activation: Activation,
        /// Dropout after f.
        dropout: Option<Dropout>,
        /// Receives the slope `dropout(f′(c))`, if set; previous contents are replaced. It takes as much memory as c,
        /// but saves the backward pass from computing f and drawing random numbers again.
        slope: Option<&'a mut Vec<T>>,
    },
    /// `residual + dropout(c)`
    AddResidual {
        /// Dropout of c.
        dropout: Option<Dropout>,
        /// Same shape as the result.
        residual: &'a [T],
    },
    /// `c · factors`, and 0 where `factors` is 0, whatever c holds. If `factors` is the slope of [`Epilogue::Activate`]
    /// and c the gradient of its result, this is the gradient of its input.
    Multiply {
        /// Same shape as the result.
        factors: &'a [T],
    },
}

impl<T: Real> Epilogue<'_, T> {
    pub(super) fn check(&self, rows: usize, cols: usize) -> Result<()> {
        let (dropout, like) = match self {
            Epilogue::Identity => (None, None),
            Epilogue::Activate { dropout, .. } => (*dropout, None),
            Epilogue::AddResidual { dropout, residual } => (*dropout, Some(("product: residual", residual.len()))),
            Epilogue::Multiply { factors: by } => (None, Some(("product: factors", by.len()))),
        };
        if let Some(dropout) = dropout {
            crate::dropout::check_rate("product: dropout", dropout.rate)?;
        }
        like.map_or(Ok(()), |(what, len)| Error::check_length(what, rows * cols, len))
    }
}

/// Values of a row that are processed at a time: those of a dropout group.
pub(super) const SEGMENT: usize = crate::dropout::GROUP;

/// Results of at least this many values are written past the cache, because they would be evicted before they are read.
const STREAMING_SIZE: usize = 1 << 20;

/// Values in a cache line.
#[cfg(target_arch = "x86_64")]
pub(super) const LINE: usize = 16;

/// Initial value and [`Epilogue`] of an f32 product.
#[derive(Debug)]
pub(super) struct BlockEpilogue<'a> {
    pub(super) init: OutputInit<'a, f32>,
    step: EpilogueStep<'a>,
    dropout_mask: Option<DropoutMask>,
    cols: usize,
    /// True if results are written past the cache.
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
    /// Creates an epilogue with only an initial value.
    pub(super) fn new(start: OutputInit<'a, f32>, cols: usize) -> Self {
        BlockEpilogue { init: start, step: EpilogueStep::Identity, dropout_mask: None, cols, streams_output: false }
    }

    /// Sets the epilogue. Returns the vector whose spare capacity the product will fill with `len` values.
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

    /// Returns whether the sums are the result, apart from [`OutputInit::Keep`].
    pub(super) fn is_identity(&self) -> bool {
        matches!((&self.step, self.init), (EpilogueStep::Identity, OutputInit::Zero | OutputInit::Keep))
    }

    /// Prefetches the inputs of the epilogue for these rows and columns, while the sums are still being computed.
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

    /// Applies the epilogue to `sums`, the sums of row `i` from column `j`, and writes them to `c`.
    ///
    /// # Safety
    /// * The memory of `c`, and that of the slope of [`Epilogue::Activate`], must still be valid.
    /// * The caller must have exclusive access to these elements of both, until [`BlockEpilogue::fence`] has been
    ///   called.
    /// * With [`OutputInit::Keep`], these elements of `c` must be initialized. Otherwise nothing of `c` is read.
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

    /// Body of [`BlockEpilogue::apply`].
    ///
    /// # Safety
    /// Same as [`BlockEpilogue::apply`].
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
            // SAFETY: valid and exclusive as the caller promises, and initialized, as it promises for `Keep`.
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
                // SAFETY: the slope is valid and these elements are exclusive, as the caller promises.
                unsafe { self.write(simd, *to, first, slope) };
            }
            EpilogueStep::Add(residual) => {
                self.apply_dropout(simd, first, [sums]);
                add(simd, sums, &residual[first..first + count]);
            }
            EpilogueStep::Multiply(by) => multiply(simd, sums, &by[first..first + count]),
        }
        // SAFETY: `c` is valid and these elements are exclusive, as the caller promises.
        unsafe { self.write(simd, c, at, sums) };
    }

    /// Writes `sums` to `c` from `at` on, without reading `c`.
    ///
    /// # Safety
    /// * The memory of `c` must still be valid.
    /// * The caller must have exclusive access to these elements of `c`, until [`BlockEpilogue::fence`] has been
    ///   called.
    #[inline(always)]
    unsafe fn write<S: Simd>(&self, simd: S, c: SharedMut<f32>, at: usize, sums: &[f32]) {
        if !self.streams_output || !sums.len().is_multiple_of(S::LANES) || !c.is_aligned(at, S::LANES) {
            // SAFETY: the memory is valid and these elements are exclusive, as the caller promises.
            return unsafe { c.copy_from(at, sums) };
        }
        // SAFETY: valid and exclusive as the caller promises. All of the part is written below.
        let to = unsafe { c.slice_uninit(at, sums.len()) };
        for (to, part) in to.chunks_exact_mut(S::LANES).zip(sums.chunks_exact(S::LANES)) {
            // SAFETY: the chunk has space for LANES values. It is aligned: the first was checked above, and each chunk
            // starts one vector after the previous one.
            unsafe { simd.stream_ptr(to.as_mut_ptr().cast(), simd.load(part)) };
        }
    }

    /// Makes streamed results visible to other threads. Each task calls it after writing its part.
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

/// The operation of [`BlockEpilogue::apply`], compiled once for all kernels. That method is the only constructor, and
/// its caller gives the guarantees.
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
        // SAFETY: it requires what the caller of `apply` has promised.
        unsafe { finish.apply_to(simd, place, sums, c, c_stride) };
    }
}

/// Computes `x *= y`; 0 where y is 0, whatever x holds.
#[inline(always)]
fn multiply<S: Simd>(simd: S, x: &mut [f32], y: &[f32]) {
    let zero = simd.splat(0.0);
    for (x, y) in x.chunks_mut(S::LANES).zip(y.chunks(S::LANES)) {
        let y = simd.load_up_to(y, 0.0);
        let product = simd.mul(simd.load_up_to(x, 0.0), y);
        // A value that is neither above nor below 0 is 0, or NaN, which must propagate.
        let product = simd.select_lt(zero, y, product, simd.select_lt(y, zero, product, y));
        simd.store_up_to(x, product);
    }
}

/// Computes `x += y`.
#[inline(always)]
fn add<S: Simd>(simd: S, x: &mut [f32], y: &[f32]) {
    for (x, y) in x.chunks_mut(S::LANES).zip(y.chunks(S::LANES)) {
        let sum = simd.add(simd.load_up_to(x, 0.0), simd.load_up_to(y, 0.0));
        simd.store_up_to(x, sum);
    }
}
