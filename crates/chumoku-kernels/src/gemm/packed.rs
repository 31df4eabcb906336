//! RHS matrices that are packed once and used in many products.

use super::matrix::MatRef;
#[cfg(target_arch = "x86_64")]
use super::matrix::Precision;
use crate::error::{Error, Result};
#[cfg(target_arch = "x86_64")]
use crate::isa::bf16::Bf16;
use crate::low_precision::StorageDtype;
use crate::memory::AlignedBuffer;
use crate::number::Real;

/// The kernel of a product. It depends on the columns, depth and precision, never on the rows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kernel {
    /// Blocks of bf16 terms.
    #[cfg(target_arch = "x86_64")]
    Bf16Blocks(Bf16, Precision),
    /// Vectors, in register tiles of this width.
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

/// A matrix that is packed as the RHS of products. It stores its kernel and shape. Products that use a different kernel
/// ignore it.
#[derive(Debug)]
pub struct PackedMatrix {
    pub(super) kernel: Kernel,
    pub(super) shape: (usize, usize),
    /// The dtype of the values in panels of the vector kernel.
    pub(super) dtype: StorageDtype,
    pub(super) panels: AlignedBuffer,
}

/// The RHS of a product: a matrix and, optionally, its packed form.
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
    /// Combines a matrix with the result of [`PackedMatrix::new`] for it.
    ///
    /// The caller must keep the two in sync.
    ///
    /// # Errors
    /// If their shapes differ.
    pub fn new(matrix: MatRef<'a, T>, packed: Option<&'a PackedMatrix>) -> Result<Self> {
        match packed {
            Some(packed) if packed.shape != (matrix.rows, matrix.cols) => {
                Err(Error::shape("packed matrix", (matrix.rows, matrix.cols), packed.shape))
            }
            _ => Ok(Rhs { matrix, packed }),
        }
    }

    /// Returns the matrix itself.
    pub fn matrix(&self) -> MatRef<'a, T> {
        self.matrix
    }
}

impl<'a> Rhs<'a, f32> {
    /// Returns the panels for `kernel`, packed earlier or now into `scratch`, and the dtype of their values.
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
