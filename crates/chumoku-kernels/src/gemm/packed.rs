//! Second operands that are packed once and multiplied with many times.

use super::matrix::MatRef;
#[cfg(target_arch = "x86_64")]
use super::matrix::Precision;
use crate::error::{Error, Result};
#[cfg(target_arch = "x86_64")]
use crate::isa::bf16::Bf16;
use crate::low_precision::StorageDtype;
use crate::memory::AlignedBuffer;
use crate::number::Real;

/// How a product is computed: which depends on its columns, depth and precision, never on its rows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kernel {
    /// Blocks of bf16 terms.
    #[cfg(target_arch = "x86_64")]
    Bf16Blocks(Bf16, Precision),
    /// Vectors, in register tiles so wide.
    Vectors { width: usize },
}

impl Kernel {
    fn packs_like(self, other: Kernel) -> bool {
        match (self, other) {
            #[cfg(target_arch = "x86_64")]
            (Kernel::Bf16Blocks(_, a), Kernel::Bf16Blocks(_, b)) => a == b,
            (Kernel::Vectors { width: a }, Kernel::Vectors { width: b }) => a == b,
            #[cfg(target_arch = "x86_64")]
            _ => false,
        }
    }
}

/// A matrix packed as the second operand of products. It knows its kernel and shape, and where a product is computed
/// by another kernel it is passed over.
#[derive(Debug)]
pub struct PackedMatrix {
    pub(super) kernel: Kernel,
    pub(super) shape: (usize, usize),
    /// Of the numbers in vectors' panels.
    pub(super) dtype: StorageDtype,
    pub(super) panels: AlignedBuffer,
}

/// The second operand of a product: a matrix, and its packed form where that is at hand.
#[derive(Clone, Copy, Debug)]
pub struct Rhs<'a, T> {
    pub(super) matrix: MatRef<'a, T>,
    packed: Option<&'a PackedMatrix>,
}

impl<'a, T> From<MatRef<'a, T>> for Rhs<'a, T> {
    fn from(matrix: MatRef<'a, T>) -> Self {
        Rhs { matrix, packed: None }
    }
}

impl<'a, T: Real> Rhs<'a, T> {
    /// A matrix, and what [`PackedMatrix::new`] made of it.
    ///
    /// The caller keeps the two in step.
    ///
    /// # Errors
    /// If they differ in shape.
    pub fn new(matrix: MatRef<'a, T>, packed: Option<&'a PackedMatrix>) -> Result<Self> {
        match packed {
            Some(packed) if packed.shape != (matrix.rows, matrix.cols) => {
                Err(Error::shape("packed matrix", (matrix.rows, matrix.cols), packed.shape))
            }
            _ => Ok(Rhs { matrix, packed }),
        }
    }

    /// The matrix itself.
    pub fn matrix(&self) -> MatRef<'a, T> {
        self.matrix
    }
}

impl<'a> Rhs<'a, f32> {
    /// The panels for `kernel`: those at hand, or packed into `scratch`; and the form of vectors' numbers.
    pub(super) fn panels<'b>(
        &self,
        kernel: Kernel,
        scratch: &'b mut AlignedBuffer,
        pack: impl FnOnce(MatRef<f32>, &mut AlignedBuffer),
    ) -> (&'b AlignedBuffer, StorageDtype)
    where
        'a: 'b,
    {
        match self.packed {
            Some(packed) if packed.kernel.packs_like(kernel) => (&packed.panels, packed.dtype),
            _ => {
                pack(self.matrix, scratch);
                (scratch, StorageDtype::F32)
            }
        }
    }
}
