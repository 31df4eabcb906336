//! What follows a product while its block is in the cache.

use super::{SharedMut, Start};
use crate::activation::{self, Activation};
use crate::dropout::{Dropout, Keep};
use crate::isa::Simd;
use crate::{Error, Real, Result};

/// What is done with the sums of a product, element by element. Dropout goes by the index in the result.
#[derive(Debug, Default)]
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
        /// If wanted, c itself: what was in there is replaced.
        before: Option<&'a mut Vec<T>>,
    },
    /// `residual + dropout(c)`
    Add {
        /// Of c.
        dropout: Option<Dropout>,
        /// Of the shape of the result.
        residual: &'a [T],
    },
    /// `dropout(c) · f′(before)`: the gradient of what [`Then::Activate`] was given, where c is that of its result.
    Slope {
        /// f
        activation: Activation,
        /// As in the forward pass.
        dropout: Option<Dropout>,
        /// As in the forward pass.
        before: &'a [T],
    },
}

impl<T: Real> Then<'_, T> {
    pub(super) fn check(&self, rows: usize, cols: usize) -> Result<()> {
        let (dropout, like) = match self {
            Then::Nothing => (None, None),
            Then::Activate { dropout, .. } => (*dropout, None),
            Then::Add { dropout, residual } => (*dropout, Some(("product: residual", residual.len()))),
            Then::Slope { dropout, before, .. } => (*dropout, Some(("product: before", before.len()))),
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
    Slope(Activation, &'a [f32]),
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
            Then::Activate { activation, dropout, mut before } => {
                let spare = before.as_deref_mut().map(|before| SharedMut::spare(before, len));
                filled = before;
                (Step::Activate(activation, spare), dropout)
            }
            Then::Add { dropout, residual } => (Step::Add(residual), dropout),
            Then::Slope { activation, dropout, before } => (Step::Slope(activation, before), dropout),
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
        if let Step::Add(other) | Step::Slope(_, other) = &self.step {
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
    /// These elements of `c` (and of what else is written) are the caller's alone. Nothing of `c` is read but with
    /// [`Start::Keep`].
    #[inline(always)]
    pub(super) unsafe fn segment<S: Simd>(
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
            // SAFETY: the caller's alone; with `Keep` it holds numbers.
            Start::Keep => add(simd, sums, unsafe { c.slice(at, count) }),
            Start::Bias(bias) => add(simd, sums, &bias[j..j + count]),
        }
        match &self.step {
            Step::Nothing => {}
            Step::Activate(kind, before) => {
                if let Some(before) = before {
                    // SAFETY: the caller's alone.
                    unsafe { self.write(simd, *before, first, sums) };
                }
                activation::activate(simd, *kind, sums);
                self.drop(simd, first, sums);
            }
            Step::Add(residual) => {
                self.drop(simd, first, sums);
                add(simd, sums, &residual[first..first + count]);
            }
            Step::Slope(kind, before) => {
                self.drop(simd, first, sums);
                activation::multiply_slope(simd, *kind, &before[first..first + count], sums);
            }
        }
        // SAFETY: the caller's alone.
        unsafe { self.write(simd, c, at, sums) };
    }

    /// # Safety
    /// These elements of `c` are the caller's alone.
    #[inline(always)]
    unsafe fn write<S: Simd>(&self, simd: S, c: SharedMut<f32>, at: usize, sums: &[f32]) {
        // SAFETY: passed on from the caller; vectors stay inside the part, which `slice` checks, and are aligned.
        unsafe {
            if !self.is_streamed || !sums.len().is_multiple_of(S::LANES) || !c.is_aligned(at, S::LANES) {
                return c.write(at, sums);
            }
            let to = c.slice(at, sums.len()).as_mut_ptr();
            for (vector, part) in sums.chunks_exact(S::LANES).enumerate() {
                simd.stream_ptr(to.add(vector * S::LANES), simd.load(part));
            }
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
    fn drop<S: Simd>(&self, simd: S, first: usize, sums: &mut [f32]) {
        if let Some(keep) = &self.keep {
            keep.apply(simd, first, sums);
        }
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
