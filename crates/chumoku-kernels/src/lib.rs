//! Exact attention and transformer kernels for CPUs that work on plain slices and strided views.
//!
//! Use this crate to compute attention, matrix products and the other operations of a transformer on your own slices,
//! forward and backward. For layers and models see `chumoku-nn`. For training from files see `chumoku`.
//!
//! # Attention
//!
//! [`Attention`] computes scaled dot-product attention (Vaswani et al., "Attention Is All You Need", 2017, equation 1),
//! where d is the width of queries and keys:
//!
//! ```text
//! Attention(Q, K, V) = softmax(Q Kᵀ / √d) V
//! ```
//!
//! The forward pass goes through queries and keys in blocks, so no queries × keys array ever exists. Each query keeps
//! the sum of its weights. If its scores are large, it also keeps their running maximum. This online softmax combines
//! the blocks into the softmax over all keys (Milakov and Gimelshein, "Online normalizer calculation for softmax",
//! 2018).
//!
//! The backward pass recomputes the weights from the output and one number per query, the log-sum-exp of its scores
//! (Dao et al., "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness", 2022). "Exact" means
//! that every key counts: results differ from the formula only by rounding errors, within the limits below.
//!
//! ```
//! use chumoku_kernels::{Attention, Causal, Gradients, Heads, HeadsMut, BackwardInputs};
//!
//! // Arrays are (batch, heads, length, width): here one query and two keys, all of width 1.
//! let (one, two) = ([1, 1, 1, 1], [1, 1, 2, 1]);
//! let (query, key, value) = ([1.0f32], [0.0, f32::ln(3.0)], [4.0, 8.0]);
//! let attention = Attention::new(Heads::bhld(&query, one)?, Heads::bhld(&key, two)?, Heads::bhld(&value, two)?);
//!
//! // The scores are 0 and ln 3, so the weights are 1/4 and 3/4.
//! let (mut output, mut log_sum_exp) = ([0.0], [0.0]);
//! attention.forward_with_log_sum_exp(HeadsMut::bhld(&mut output, one)?, &mut log_sum_exp)?;
//! assert!((output[0] - 7.0).abs() < 1e-5);
//! assert!((log_sum_exp[0] - f32::ln(4.0)).abs() < 1e-5);
//!
//! // The gradient of a value is its weight.
//! let (mut d_query, mut d_key, mut d_value) = ([0.0], [0.0; 2], [0.0; 2]);
//! let saved = BackwardInputs {
//!     output: Heads::bhld(&output, one)?,
//!     log_sum_exp: &log_sum_exp,
//!     d_output: Heads::bhld(&[1.0], one)?,
//!     d_log_sum_exp: None,
//! };
//! let gradients = Gradients {
//!     query: HeadsMut::bhld(&mut d_query, one)?,
//!     key: HeadsMut::bhld(&mut d_key, two)?,
//!     value: HeadsMut::bhld(&mut d_value, two)?,
//!     mask: None,
//!     sinks: None,
//! };
//! attention.backward(saved, gradients)?;
//! assert!((d_value[0] - 0.25).abs() < 1e-5 && (d_value[1] - 0.75).abs() < 1e-5);
//!
//! // A query before all keys sees none of them.
//! let blind = attention.causal(Causal::Offset(-1));
//! blind.forward_with_log_sum_exp(HeadsMut::bhld(&mut output, one)?, &mut log_sum_exp)?;
//! assert_eq!((output, log_sum_exp), ([0.0], [f32::NEG_INFINITY]));
//! # Ok::<(), chumoku_kernels::Error>(())
//! ```
//!
//! There may be fewer heads of keys and values than of queries. Values may have their own width, and sequences may be
//! packed one after another. The methods of [`Attention`] add causal and other masks, windows, ALiBi, softcap, sinks
//! and dropout. [`KeyValueCache`] holds the keys and values of earlier tokens for decoding. [`merge_attention`]
//! combines attention over parts of the keys. [`Attention::explain`] reports which kernel a call uses, and why.
//!
//! # Accuracy of attention
//!
//! The error of a result is ‖found − expected‖₂ / ‖expected‖₂, where "expected" is computed in double precision from
//! the same inputs. The tests enforce these limits on every instruction set of the machine they run on:
//!
//! | dtype and [`Precision`] | output, log-sum-exp | gradients | typical output | typical gradients |
//! |---|---|---|---|---|
//! | f32, [`Highest`](Precision::Highest) | 1e-6 | 1e-6 | 6e-7 | 8e-7 |
//! | f32, [`High`](Precision::High) | 2e-5 | 4e-5 | 1e-5 | 2e-5 |
//! | f32, [`Medium`](Precision::Medium) | 8e-3 | 1.6e-2 | 5e-3 | 1e-2 |
//! | bf16 | 8e-3 | 1e-2 | | |
//! | f16 | 5e-4, and 6e-8 absolute | 1e-3, and 6e-8 absolute | | |
//!
//! The first two columns hold for every test case. They widen for large scores, by up to 3 times and by 2.5e-7 of the
//! largest score. If terms cancel, the error is measured against an eighth of the sum of the terms' magnitudes. The
//! typical case has 512 queries and keys of width 64. Errors in f32, bf16 and f16 are also limited to twice those of
//! PyTorch. f64 runs the reference implementation. `docs/kernels.md` in the repository covers the other operations and
//! the tests.
//!
//! The three levels of [`Precision`] all differ only with AMX. On AVX-512 with BF16, [`Medium`](Precision::Medium)
//! differs from the others. Everything that is not computed in bf16 terms is computed in f32, with the same bytes as
//! [`Highest`](Precision::Highest). The elementary functions [`exp_each`], [`erf_each`] and [`tanh_each`] are accurate
//! to 2 units in the last place and [`sigmoid_each`] to 3, within the ranges that they state.
//!
//! # Special values
//!
//! * **Nothing to attend to:** a query that has no keys, or whose keys are all masked, gets output 0, gradients 0 and
//!   log-sum-exp −∞. With a sink, the log-sum-exp is the sink's score.
//! * **NaN and infinity:** masked values never change an output or a gradient by a single bit, whatever they hold.
//!   Values that are attended to always propagate: results are NaN or infinite exactly where those of the reference
//!   implementation are.
//! * **Range:** rows with NaN, infinity or very large values (a sum of squares of 1e37 or more) are computed by the
//!   reference implementation, one query at a time in double precision, which is slow. Lengths and batches may be 0.
//!   The scale must be finite. A softcap must be finite and above 0.
//! * **Matrix product:** in [`gemm()`] a non-finite value affects only its row or column of the result. With bf16 terms
//!   an infinite value may become NaN.
//!
//! # Contract
//!
//! * **Deterministic:** the same input, instruction set and build give the same bytes for any number of threads. Work
//!   is split by shapes alone, and partial sums are added in a fixed order. Different instruction sets agree up to
//!   rounding.
//! * **Two implementations:** each operation has one module with its forward and backward pass. The reference
//!   implementation in [`mod@reference`] consists of short loops and defines the correct result. The fast
//!   implementation is vectorized for the instruction set and shared among threads. Operations are generic over
//!   [`Real`]: `f32` runs the fast implementation and `f64` the reference. Running the same code on `f64` therefore
//!   checks it in double precision.
//! * **Threads:** work runs in the caller's current `rayon` pool.
//! * **No side effects:** functions check their arguments and return [`Error`]. They do no I/O and write no logs. Only
//!   the hidden module `system` calls the operating system.
//! * **Unsafe code:** this is the only crate of the workspace that may use `unsafe`. Intrinsics appear only in its
//!   `isa` folder.
//!
//! | instruction set | vectors | tile of the matrix product |
//! |---|---|---|
//! | scalar (any machine) | 8 × f32, as arrays | 4 × 8 |
//! | AVX2 + FMA | 8 × f32 | 6 × 16 |
//! | AVX-512 | 16 × f32 | 12 × 32 |
//! | AVX-512 with BF16 | as AVX-512 | `Medium`: 8 × 32, of bf16 |
//! | AMX | as AVX-512 | 32 × 32, of bf16 terms |
//!
//! # The matrix product
//!
//! ```
//! use chumoku_kernels::{MatMut, MatRef, Precision, OutputInit, gemm};
//!
//! let a = [1.0f32, 2.0, 3.0, 4.0];
//! let x = [1.0f32, 0.5];
//! let mut y = [0.0f32; 2];
//! gemm(
//!     MatRef::new(&a, 2, 2)?,
//!     MatRef::new(&x, 2, 1)?,
//!     OutputInit::Zero,
//!     MatMut::new(&mut y, 2, 1)?,
//!     Precision::Highest,
//! )?;
//! assert_eq!(y, [2.0, 5.0]);
//! # Ok::<(), chumoku_kernels::Error>(())
//! ```
//!
//! # Files
//!
//! - `activation`: GELU, ReLU, SiLU and gated products
//! - `adamw`: AdamW, in one pass over parameters, gradients and both moments
//! - `allocator`: an allocator that aligns to cache lines and caches freed memory
//! - `attention`: scaled dot-product attention, forward, backward and decoding
//! - `cancel`: cancellation, for example on Ctrl-C
//! - `dropout`: random masks that are regenerated instead of stored
//! - `embedding`: scaled lookup of table rows
//! - `error`: argument errors, and numbers in messages
//! - `gemm`: the matrix product
//! - `isa`: instruction sets: detection, dispatch and vectors; the only place with intrinsics
//! - `loss`: cross-entropy of classes, and binary cross-entropy of labels
//! - `low_precision`: f32, bf16 and f16 as attention reads and writes them
//! - `math`: vectorized exp, erf, tanh, sigmoid and normal distribution
//! - `memory`: uninitialized buffers and scratch memory
//! - `norm`: layer norm and RMS norm
//! - `number`: number types and dtype dispatch between fast and reference implementations
//! - `parallel`: parallel loops for code outside the kernels
//! - `philox`: counter-based random numbers, and the hash of a stream's name
//! - `profile`: counts of multiply–adds and, on request, time per operation
//! - `recurrent`: RNN, LSTM and GRU over packed sequences
//! - `reference`: re-exports of all reference implementations
//! - `register_tile`: the innermost loop of vector products
//! - `roofline`: measured peak rates of the processor and its caches
//! - `rotary`: rotary position embeddings
//! - `shared_cache`: values that threads share without waiting for each other
//! - `softmax`: softmax over rows
//! - `sum`: sums in a fixed order
//! - `system`: operating-system calls
//! - `threads`: work that is split by shapes alone and runs on a rayon pool or a `ThreadTeam`

mod activation;
mod adamw;
mod allocator;
mod attention;
pub mod cancel;
mod dropout;
mod embedding;
mod error;
mod gemm;
mod isa;
mod loss;
mod low_precision;
mod math;
mod memory;
mod norm;
mod number;
pub mod parallel;
mod philox;
mod profile;
mod recurrent;
pub mod reference;
mod register_tile;
mod roofline;
mod rotary;
mod shared_cache;
mod softmax;
mod sum;
#[doc(hidden)]
pub mod system;
mod threads;

pub use activation::{Activation, activation_backward, activation_forward, gated_backward, gated_forward};
pub use adamw::{AdamW, adamw_step};
pub use allocator::{Allocator, keep_freed_memory, trim_memory};
pub use attention::{
    Attention, AttentionDropout, AttentionPlan, AttentionStatistics, BackwardInputs, Causal, Gradients, Heads,
    HeadsMut, KeyValueCache, Mask, MaskView, PartialAttention, ScoreStage, TopKeys, merge_attention,
};
pub use dropout::{Dropout, dropout, dropout_copy};
pub use embedding::{embedding_backward, embedding_forward};
pub use error::{Error, Result, format_thousands};
pub use gemm::{Epilogue, FusedGemm, MatMut, MatRef, OutputInit, PackedMatrix, Precision, Rhs, gemm};
pub use half::{bf16, f16};
pub use isa::{Isa, active as active_isa, cap as cap_isa, from_name as isa_named};
pub use loss::{CrossEntropy, binary_cross_entropy, cross_entropy};
pub use math::{erf_each, exp_each, sigmoid_each, tanh_each};
#[doc(hidden)]
pub use memory::poison_scratch;
pub use memory::zeros;
pub use norm::{
    LayerNormBackward, LayerNormOutput, RmsNormBackward, RmsNormOutput, layer_norm_forward,
    layer_norm_forward_without_bias, rms_norm_forward,
};
pub use number::{Element, Real};
pub use philox::{Philox, fnv1a};
pub use profile::{Multiplier, Operation, OperationProfile, Profile, multiply_adds, profile};
pub use recurrent::{ProjectionGradients, Recurrence, RecurrentActivations, RecurrentCell};
pub use roofline::Roofline;
pub use rotary::{RotaryTable, RotationDirection, rotary_frequencies};
pub use shared_cache::SharedCache;
pub use softmax::{softmax_backward, softmax_forward};
pub use sum::{add_column_sums, fill_zero, sum_of_squares, update_moving_average, weighted_sum};
pub use system::lower_thread_priority;
pub use threads::{ThreadTeam, num_threads, parallel_try_map, run_on_one_thread, run_on_team};
