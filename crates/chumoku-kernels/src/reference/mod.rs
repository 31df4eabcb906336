//! The plain version of every operation: short loops, shapes in comments, generic over the number type.
//!
//! These decide what is right: the fast versions are tested against them in double precision, and `f64` runs them.
//! They are not tuned. Shapes are checked by the functions of the same name at the top of the crate.

mod attention;
mod layers;
mod recurrent;

pub use crate::math::{erf_f64, erfc_f64};
pub(crate) use attention::bias;
pub use attention::{Row, RowGradients, attention_backward, attention_forward, attention_row, attention_row_backward};
pub use layers::*;
pub use recurrent::*;
