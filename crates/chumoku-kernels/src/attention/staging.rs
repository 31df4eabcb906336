//! Conversion of rows of queries, keys and values for an engine, and detection of non-finite rows.

use super::engine::{Engine, EngineOp, KEY_BLOCK, SourceMatrix};
use super::engine_choice::run_on_engine;
use super::heads::Heads;
use super::type_erased::{AnyAttention, AnyHeads};
use crate::isa::{Simd, SimdOp};
use crate::low_precision::{DtypeSlice, F32Compute};
use crate::memory::{Scratch, ScratchBuffer};

/// Rows `first..first + count` of a sequence and head.
pub(super) struct SourceRows<'a> {
    pub(super) from: AnyHeads<'a>,
    pub(super) sequence: usize,
    pub(super) head: usize,
    pub(super) first: usize,
    pub(super) count: usize,
}

/// Rows with a sum of squares above this count as non-finite, because their products may overflow.
pub(super) const MAX_SUM_OF_SQUARES: f32 = 1e37;

impl<'a> SourceRows<'a> {
    /// Converts the rows to the format that the engine reads, and computes their sums of squares. Non-finite rows, and
    /// rows with a norm above 3e18, are replaced by 0 and reported to `on_nonfinite`. Rows that the engine can read in
    /// place are not copied.
    ///
    /// `buffer` holds `count` rows of f32. Without `checks`, rows are taken unchanged and their sums are set to 0.
    #[inline(always)]
    pub(super) fn stage<'b, E: Engine>(
        &self,
        engine: E,
        checks: bool,
        buffer: &'b mut [f32],
        squares: &mut [f32],
        on_nonfinite: &mut dyn FnMut(usize),
    ) -> SourceMatrix<'b>
    where
        'a: 'b,
    {
        let (simd, staging) = (engine.simd(), StagingArgs { checks, buffer, squares, on_nonfinite });
        match self.from.data {
            DtypeSlice::F32(data) => simd.run(StageRows { rows: self, data, in_place: true, staging }),
            DtypeSlice::Bf16(data) => simd.run(StageRows { rows: self, data, in_place: E::READS_BF16, staging }),
            DtypeSlice::F16(data) => simd.run(StageRows { rows: self, data, in_place: false, staging }),
        }
    }
}

/// The operation of [`SourceRows::stage`], compiled once per dtype and instruction set instead of per caller.
struct StageRows<'a, 'b, T> {
    rows: &'a SourceRows<'b>,
    /// The values of the rows.
    data: &'b [T],
    in_place: bool,
    staging: StagingArgs<'a, 'b>,
}

/// The arguments of [`SourceRows::stage`] other than the rows.
struct StagingArgs<'a, 'b> {
    checks: bool,
    buffer: &'b mut [f32],
    squares: &'a mut [f32],
    on_nonfinite: &'a mut dyn FnMut(usize),
}

impl<'b, T: F32Compute> SimdOp for StageRows<'_, 'b, T> {
    type Output = SourceMatrix<'b>;

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) -> SourceMatrix<'b> {
        let StageRows {
            rows: SourceRows { from, sequence, head, first, count },
            data,
            in_place,
            staging: StagingArgs { checks, buffer, squares, on_nonfinite },
        } = self;
        let from = Heads { data, layout: from.layout };
        let (width, squares) = (from.dim(), &mut squares[..*count]);
        if !checks {
            squares.fill(0.0);
        }
        let mut all_fine = true;
        for (group, squares) in squares.chunks_mut(16).enumerate().take(if checks { usize::MAX } else { 0 }) {
            let mut sums = [simd.splat(0.0); 16];
            for (i, sum) in sums.iter_mut().enumerate().take(squares.len()) {
                *sum = sum_of_squares(simd, from.row(*sequence, *head, first + group * 16 + i));
            }
            squares.copy_from_slice(&simd.sums(&sums)[..squares.len()]);
            all_fine &= squares.iter().all(|&square| square < MAX_SUM_OF_SQUARES);
        }
        let at = from.layout.row_offset(*sequence, *head, *first);
        if in_place && all_fine {
            let data = &from.data[at.min(from.data.len())..];
            return SourceMatrix::from_slice(data, *count, width, from.layout.row_stride);
        }
        for (i, (square, staged)) in squares.iter_mut().zip(buffer.chunks_exact_mut(width)).enumerate() {
            // Not `>=`: NaN must be rejected too.
            if *square < MAX_SUM_OF_SQUARES {
                T::widen(from.row(*sequence, *head, first + i), staged);
            } else {
                *square = 0.0;
                on_nonfinite(i);
                staged.fill(0.0);
            }
        }
        SourceMatrix::from_slice(buffer, *count, width, width)
    }
}

/// Computes Σ x², lane by lane.
#[inline(always)]
pub(super) fn sum_of_squares<T: F32Compute, S: Simd>(simd: S, x: &[T]) -> S::V {
    let mut sum = simd.splat(0.0);
    let mut vectors = x.chunks_exact(S::LANES);
    for x in vectors.by_ref() {
        // SAFETY: the chunk has LANES values.
        let x = unsafe { T::load(simd, x.as_ptr()) };
        sum = simd.mul_add(x, x, sum);
    }
    let rest = vectors.remainder();
    if !rest.is_empty() {
        let mut numbers = [0.0; 16];
        T::widen(rest, &mut numbers[..rest.len()]);
        let x = simd.load(&numbers);
        sum = simd.mul_add(x, x, sum);
    }
    sum
}

/// Returns the keys of one sequence and head whose key or value row is not finite.
pub(super) fn nonfinite_keys(args: &AnyAttention, sequence: usize, head: usize) -> Vec<usize> {
    struct ScanRows<'a, 'b> {
        args: &'a AnyAttention<'a>,
        sequence: usize,
        head: usize,
        bad: &'b mut Vec<usize>,
    }
    impl EngineOp for ScanRows<'_, '_> {
        #[inline(always)]
        fn eval<E: Engine>(self, engine: E) {
            let (args, keys) = (self.args, self.args.key_count(self.sequence));
            let mut scratch = Scratch::take();
            let [buffer] =
                scratch.split([KEY_BLOCK * args.key.dim().max(args.value.dim()) * 4]).map(ScratchBuffer::into_f32);
            let mut squares = [0.0; KEY_BLOCK];
            for first in (0..keys).step_by(KEY_BLOCK) {
                let count = KEY_BLOCK.min(keys - first);
                for from in [args.key, args.value] {
                    let rows = SourceRows { from, sequence: self.sequence, head: self.head, first, count };
                    rows.stage(engine, true, buffer, &mut squares, &mut |j| self.bad.push(first + j));
                }
            }
        }
    }
    let mut bad = Vec::new();
    run_on_engine(args, ScanRows { args, sequence, head, bad: &mut bad });
    bad
}
