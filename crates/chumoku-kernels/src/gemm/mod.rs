//! The matrix product `C = A·B (+ C or a bias)` with fused epilogues of layers.
//!
//! Two kernels compute it: `vectors` runs on any machine (around [`crate::register_tile`]), and `tiles` needs AMX or
//! AVX-512 with BF16. Both pack their operands into panels in which the values of one step of the depth are contiguous.
//! B is packed once and shared, or comes packed ([`PackedMatrix`]). Each task packs the rows of A that it needs. The
//! `epilogue` then adds the bias, applies activation and dropout or adds the residual, while the block is in the cache.
//!
//! ```text
//! pack B, unless it is a PackedMatrix                    panels of columns, shared by all threads
//! for each block of C, in parallel:
//!     for each block of the depth:
//!         pack the block's rows of A                     panels of rows, private to the task
//!         for each panel of B and each panel of A:
//!             C_tile (+)= A_panel · B_panel              register tile or AMX tiles
//!     C = epilogue(C + bias)                             while the block is in the cache
//! ```
//!
//! Every element of C is one sum over the depth in a fixed order, independent of its block and task. Results therefore
//! do not depend on the number of threads or on the other rows of the product.
//!
//! The blocking follows Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).
//!
//! # Files
//!
//! - `epilogue`: bias, activation, dropout and residual while a block is in the cache
//! - `fused`: a product with its epilogue
//! - `matrix`: views of operands and results
//! - `packed`: RHS matrices that are packed once, in 16 bits if that is exact
//! - `reference`: the reference implementation
//! - `tiles`: products of bf16 terms
//! - `vectors`: products in vectors, around the register tile

// A file may use those before it: matrix; packed, epilogue; fused; reference; vectors, tiles.
mod epilogue;
mod fused;
mod matrix;
mod packed;
pub(crate) mod reference;
#[cfg(target_arch = "x86_64")]
mod tiles;
mod vectors;

pub use epilogue::Epilogue;
pub use fused::FusedGemm;
pub use matrix::{MatMut, MatRef, OutputInit, Precision};
pub use packed::{PackedMatrix, Rhs};

use crate::error::{Error, Result};
#[cfg(target_arch = "x86_64")]
use crate::isa::bf16::Bf16;
use crate::low_precision::StorageDtype;
use crate::memory::AlignedBuffer;
use crate::number::{Real, implementations};
use crate::profile::{self, Cost, Operation};
use crate::threads::SharedMut;
use epilogue::BlockEpilogue;
use packed::Kernel;

/// Computes the matrix product `C = init + A·B`.
///
/// A non-finite value affects only its row (of A) or column (of B). With bf16 terms an infinite value may become NaN.
///
/// # Shapes
/// `a` (m, k), `b` (k, n), `c` (m, n). Each size may be 0.
///
/// # Errors
/// If the shapes do not match.
pub fn gemm<T: Real>(
    a: MatRef<T>,
    b: MatRef<T>,
    start: OutputInit<T>,
    c: MatMut<T>,
    precision: Precision,
) -> Result<()> {
    check("gemm: b", &a, &b, start)?;
    if (c.rows, c.cols) != (a.rows, b.cols) {
        return Err(Error::shape("gemm: c", (a.rows, b.cols), (c.rows, c.cols)));
    }
    let _timed = timed(&a, &b, precision, if matches!(start, OutputInit::Keep) { 2 } else { 1 });
    T::run::<Gemm>((a, b, start, c, precision));
    Ok(())
}

/// Counts and times a product that passes over `results` arrays of the result's shape.
fn timed<T: Real>(a: &MatRef<T>, b: &MatRef<T>, precision: Precision, results: usize) -> profile::OperationGuard {
    profile::count_multiply_adds(&[a.rows, a.cols, b.cols]);
    profile::operation(|| {
        let (name, sizes) = if a.row_stride == 1 && a.col_stride > 1 {
            ("product Aᵀ·B", [a.rows, b.cols])
        } else if b.row_stride == 1 && b.col_stride > 1 {
            ("product A·Bᵀ", [a.cols, b.cols])
        } else {
            ("product A·B", [a.cols, b.cols])
        };
        let bytes = (a.rows * a.cols + b.rows * b.cols + results * a.rows * b.cols) * size_of::<T>();
        let terms = match select_kernel(b.cols, a.cols, precision) {
            #[cfg(target_arch = "x86_64")]
            Kernel::Bf16Blocks(_, precision) if size_of::<T>() == size_of::<f32>() => Some(precision.bf16_terms()),
            _ => None,
        };
        let multiply_adds = profile::saturating_product(&[a.rows, a.cols, b.cols]);
        (Operation::new(name, sizes), Cost::products(multiply_adds, terms, bytes))
    })
}

fn check<T>(what: &'static str, a: &MatRef<T>, b: &MatRef<T>, start: OutputInit<T>) -> Result<()> {
    if a.cols != b.rows {
        return Err(Error::shape(what, (a.cols, b.cols), (b.rows, b.cols)));
    }
    match start {
        OutputInit::Bias(bias) => Error::check_length("gemm: bias", b.cols, bias.len()),
        _ => Ok(()),
    }
}

impl<T: Real> FusedGemm<'_, T> {
    /// Computes C, (m, n) in row-major order.
    ///
    /// # Errors
    /// If the shapes do not match, or a dropout rate is out of range.
    pub fn compute(self) -> Result<Vec<T>> {
        check("product: b", &self.a, &self.b.matrix, self.init())?;
        self.epilogue.check(self.a.rows, self.b.matrix.cols)?;
        let results = match self.epilogue {
            Epilogue::Identity | Epilogue::Activate { slope: None, .. } => 1,
            Epilogue::Activate { .. } | Epilogue::AddResidual { .. } | Epilogue::Multiply { .. } => 2,
        };
        let _timed = timed(&self.a, &self.b.matrix, self.precision, results);
        Ok(T::run::<ComputeFusedGemm>((self,)))
    }
}

impl PackedMatrix {
    /// Packs `b` for products at a level of precision on the active instruction set. Returns `None` for number types
    /// whose products need no packing.
    pub fn new<T: Real>(b: MatRef<T>, precision: Precision) -> Option<PackedMatrix> {
        let _timed = profile::memory_bound::<T>("packing of weights", 2 * b.rows * b.cols);
        T::run::<PackRhsMatrix>((b, precision))
    }
}

implementations! {
    /// Both implementations of [`gemm`].
    Gemm<'a, T>(
        a: MatRef<'a, T>, b: MatRef<'a, T>, start: OutputInit<'a, T>, c: MatMut<'a, T>, precision: Precision
    ) -> () { fast: gemm_f32, reference: |a, b, start, c, _| reference::gemm(a, b, start, c) }
}

implementations! {
    /// Both implementations of [`FusedGemm::compute`].
    ComputeFusedGemm<'a, T>(product: FusedGemm<'a, T>) -> Vec<T> {
        fast: fused_gemm_f32,
        reference: reference::fused_gemm,
    }
}

implementations! {
    /// Both implementations of [`PackedMatrix::new`].
    PackRhsMatrix<'a, T>(b: MatRef<'a, T>, precision: Precision) -> Option<PackedMatrix> {
        fast: |b, precision| Some(pack_f32(b, precision)),
        reference: |_, _| None,
    }
}

/// The fast f32 product. The caller has checked the shapes.
fn gemm_f32(a: MatRef<f32>, b: MatRef<f32>, start: OutputInit<f32>, c: MatMut<f32>, precision: Precision) {
    let (c, c_stride) = (SharedMut::new(c.data), c.row_stride);
    // SAFETY: `c` is exclusively borrowed for the whole call, has the checked shape of the product, and is initialized.
    // Nothing else is written.
    unsafe { run(a, b.into(), c, c_stride, &BlockEpilogue::new(start, b.cols), precision) };
}

/// Computes the f32 product like [`gemm_f32`], with an RHS that may be packed.
pub(crate) fn gemm_packed(a: MatRef<f32>, b: Rhs<f32>, start: OutputInit<f32>, c: MatMut<f32>, precision: Precision) {
    let (c, c_stride, epilogue) = (SharedMut::new(c.data), c.row_stride, BlockEpilogue::new(start, b.matrix.cols));
    // SAFETY: `c` is exclusively borrowed for the whole call, has the checked shape of the product, and is initialized.
    // Nothing else is written.
    unsafe { run(a, b, c, c_stride, &epilogue, precision) };
}

/// The fast f32 product into new memory. The caller has checked the shapes.
fn fused_gemm_f32(p: FusedGemm<f32>) -> Vec<f32> {
    let (m, n) = (p.a.rows, p.b.matrix.cols);
    let mut finish = BlockEpilogue::new(p.init(), n);
    let mut slope = finish.set_epilogue(p.epilogue, m * n);
    let mut c = Vec::new();
    // SAFETY: the spare capacity of both is used only by the product and holds m rows of n. The initial value is not
    // `Keep`.
    unsafe { run(p.a, p.b, SharedMut::from_spare_capacity(&mut c, m * n), n, &finish, p.precision) };
    // SAFETY: both have capacity for m rows of n, and the product has written every element.
    unsafe {
        c.set_len(m * n);
        if let Some(slope) = &mut slope {
            slope.set_len(m * n);
        }
    }
    c
}

/// Computes the product into `c`. It reads nothing of `c` unless the initial value is [`OutputInit::Keep`], and writes
/// everything.
///
/// # Safety
/// * `c` must hold a row of C for each row of `a`, `c_stride` apart, and `epilogue` must be made for a result of this
///   shape.
/// * No other code may access these rows, or the memory of the slope in `epilogue`, until this returns.
/// * With [`OutputInit::Keep`] the rows must be initialized.
unsafe fn run(
    a: MatRef<f32>,
    b: Rhs<f32>,
    c: SharedMut<f32>,
    c_stride: usize,
    epilogue: &BlockEpilogue,
    precision: Precision,
) {
    if a.rows == 0 || b.matrix.cols == 0 {
        return;
    }
    // SAFETY: both kernels require what the caller promises here. There are rows and columns, as was just checked.
    unsafe {
        match select_kernel(b.matrix.cols, a.cols, precision) {
            #[cfg(target_arch = "x86_64")]
            Kernel::Bf16Blocks(bf16, precision) => match precision {
                Precision::Medium => tiles::run::<1>(bf16, a, b, c, c_stride, epilogue),
                Precision::High => tiles::run::<2>(bf16, a, b, c, c_stride, epilogue),
                Precision::Highest => tiles::run::<3>(bf16, a, b, c, c_stride, epilogue),
            },
            Kernel::Vectors { .. } => vectors::run(a, b, c, c_stride, epilogue),
        }
    }
}

/// Selects the kernel for a product with this number of columns and depth.
fn select_kernel(cols: usize, depth: usize, precision: Precision) -> Kernel {
    #[cfg(target_arch = "x86_64")]
    if tiles::is_worthwhile(cols, depth)
        && let Some(bf16) = Bf16::if_faster(precision.bf16_terms())
    {
        return Kernel::Bf16Blocks(bf16, precision);
    }
    let _ = (cols, depth, precision);
    Kernel::Vectors { width: vectors::tile_size().1 }
}

/// Packs `b` for products at a level of precision on the active instruction set.
fn pack_f32(b: MatRef<f32>, precision: Precision) -> PackedMatrix {
    let kernel = select_kernel(b.cols, b.rows, precision);
    let mut panels = AlignedBuffer::new();
    let form = match kernel {
        #[cfg(target_arch = "x86_64")]
        Kernel::Bf16Blocks(bf16, precision) => {
            tiles::pack_b(bf16, b, precision, &mut panels);
            StorageDtype::F32
        }
        Kernel::Vectors { .. } => {
            let form = StorageDtype::smallest_exact(b.data);
            vectors::pack_b_with_dtype(form, b, &mut panels);
            form
        }
    };
    PackedMatrix { kernel, shape: (b.rows, b.cols), dtype: form, panels }
}
