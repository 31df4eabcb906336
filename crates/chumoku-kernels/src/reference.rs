//! The plain version of every operation: short loops, shapes in comments, generic over the number type.
//!
//! These decide what is right: the fast versions are tested against them in double precision, and `f64` runs them.
//! They are not tuned. Shapes are checked by the functions of the same name at the top of the crate.

// Each stands beside its fast version, and is handed on from there.
pub use crate::activation::reference::*;
pub use crate::adamw::reference::*;
pub use crate::attention::reference::*;
pub use crate::dropout::reference::*;
pub use crate::embedding::reference::*;
pub use crate::gemm::reference::*;
pub use crate::loss::reference::*;
pub use crate::math::{erf_f64, erfc_f64};
pub use crate::norm::reference::*;
pub use crate::recurrent::reference::*;
pub use crate::rotary::reference::*;
pub use crate::softmax::reference::*;
pub use crate::sum::reference::*;
