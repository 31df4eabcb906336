//! The reference implementations of all operations: short loops that are generic over the number type.
//!
//! They define the correct results: the fast implementations are tested against them in double precision, and `f64`
//! runs them. They are not tuned. The functions of the same name at the top of the crate check the shapes.

// Each is defined next to its fast implementation and re-exported from there.
pub use crate::attention::reference::*;
pub use crate::dropout::reference::*;
pub use crate::gemm::reference::*;
pub use crate::loss::reference::*;
pub use crate::math::{erf_f64, erfc_f64};
pub use crate::softmax::reference::*;
