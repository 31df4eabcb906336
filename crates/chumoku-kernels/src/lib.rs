//! Exact attention and transformer kernels for CPUs: slices and views in, results out.
//!
//! Every operation stands here once, forward and backward together, in two versions: the plain one in [`mod@reference`],
//! short loops that decide arguments, and the fast one, vectorised for the instruction set at hand and shared among
//! threads. Operations are generic over [`Real`]: `f32` runs the fast version, `f64` the plain one, so whatever is
//! built on these functions can be checked in double precision by running the same code on `f64`.
//!
//! # Contract
//!
//! * Same input, instruction set and build: same bytes, whatever the number of threads. Work is cut into pieces that
//!   depend on shapes alone, and partial sums are added in a fixed order.
//! * Threads are the caller's choice: work runs in the current `rayon` pool.
//! * Functions check their arguments and return [`Error`]; they do no I/O and log nothing.
//! * This is the only crate of the workspace that may use `unsafe`, and intrinsics appear only in its `isa` folder.
//!
//! | instruction set | vectors | tile of the matrix product |
//! |---|---|---|
//! | scalar (any machine) | 8 × f32, as arrays | 4 × 8 |
//! | AVX2 + FMA | 8 × f32 | 6 × 16 |
//! | AVX-512 | 16 × f32 | 12 × 32 |
//! | AMX | as AVX-512 | 32 × 32, of bf16 terms |
//!
//! ```
//! use chumoku_kernels::{MatMut, MatRef, Precision, Start, gemm};
//!
//! let a = [1.0f32, 2.0, 3.0, 4.0];
//! let x = [1.0f32, 0.5];
//! let mut y = [0.0f32; 2];
//! gemm(
//!     MatRef::new(&a, 2, 2)?,
//!     MatRef::new(&x, 2, 1)?,
//!     Start::Zero,
//!     MatMut::new(&mut y, 2, 1)?,
//!     Precision::Highest,
//! )?;
//! assert_eq!(y, [2.0, 5.0]);
//! # Ok::<(), chumoku_kernels::Error>(())
//! ```

mod activation;
mod adamw;
mod attention;
mod dropout;
mod embedding;
mod error;
mod gemm;
mod isa;
mod loss;
mod math;
mod memory;
mod narrow;
mod norm;
mod number;
mod philox;
mod recurrent;
pub mod reference;
mod register_tile;
mod rotary;
mod softmax;
mod sum;
mod threads;
mod work;

pub use activation::{Activation, activation_backward, activation_forward};
pub use adamw::{AdamW, adamw_step};
pub use attention::{
    Attention, AttentionDropout, AttentionPlan, Causal, Gradients, Heads, HeadsMut, KeyValueCache, Mask, MaskView,
    Partial, Saved, Stage, Statistics, Top, merge_attention,
};
pub use dropout::{Dropout, dropout, dropped};
pub use embedding::{embedding_backward, embedding_forward};
pub use error::{Error, Result};
pub use gemm::{MatMut, MatRef, Operand, PackedMatrix, Precision, Product, Start, Then, gemm};
pub use half::{bf16, f16};
pub use isa::{Isa, active as active_isa, cap as cap_isa, named as isa_named};
pub use loss::{CrossEntropy, cross_entropy};
pub use math::{erf_each, exp_each, sigmoid_each, tanh_each};
#[doc(hidden)]
pub use memory::poison_scratch;
pub use memory::{Allocator, keep_freed_memory, zeros};
pub use norm::{LayerNormBackward, Normalised, layer_norm_forward};
pub use number::{Element, Real};
pub use philox::Philox;
pub use recurrent::{Cell, Deltas, Recurrence, Trace};
pub use rotary::{RotaryTable, Turn};
pub use softmax::{softmax_backward, softmax_forward};
pub use sum::{add_column_sums, sum_of_squares};
pub use threads::{num_threads, on_one_thread};
pub use work::multiply_adds;
