//! Products of bf16 values with f32 sums. Blocks of 32 × 32 are multiplied by AMX tiles or, without AMX, by pairwise
//! dot products of AVX-512.
//!
//! f32 values are represented as sums of bf16 terms ([`split`]). A product with two terms each drops only the product
//! of the two small terms. A product with three terms each is as accurate as f32. Both multipliers read the same
//! panels.
//!
//! # Files
//!
//! - `amx`: AMX tiles
//! - `copy`: bf16 values copied into panels
//! - `dots`: pairwise dot products of AVX-512
//! - `split`: f32 values split into bf16 terms

pub(crate) mod amx;
pub(crate) mod copy;
mod dots;
pub(crate) mod split;

use super::Isa;
use super::avx512::Avx512;
use amx::{Amx, TileRegisters};

/// Bytes of a tile: 16 rows of 64.
pub(crate) const TILE_BYTES: usize = 1024;
/// Rows and columns of a block of C: two tiles in each direction.
pub(crate) const BLOCK_SIDE: usize = 32;
/// Depth of a tile: 32 values.
pub(crate) const STEP_DEPTH: usize = 32;

/// Token that proves AVX-512 with BF16, and AMX if that is active too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bf16 {
    simd: Avx512,
    amx: Option<Amx>,
}

impl Bf16 {
    /// Returns the token, if processor and system support this instruction set.
    pub(crate) fn new(isa: Isa) -> Option<Self> {
        let simd = Avx512::new().filter(|_| is_x86_feature_detected!("avx512bf16"))?;
        match isa {
            Isa::Avx512Bf16 => Some(Bf16 { simd, amx: None }),
            Isa::Amx => Some(Bf16 { simd, amx: Some(Amx::new()?) }),
            _ => None,
        }
    }

    /// Returns the token of the active instruction set, if products with this number of terms are faster with it than
    /// in f32. Without tiles only products of one term are. A pairwise dot product does twice the work of a fused
    /// multiply–add, but two terms need three products.
    pub(crate) fn if_faster(terms: usize) -> Option<Self> {
        Self::new(super::active()).filter(|bf16| terms == 1 || bf16.amx.is_some())
    }

    /// Prepares the block multiplier of this thread, until it is dropped.
    pub(crate) fn block_multiplier(self) -> BlockMultiplier {
        BlockMultiplier { bf16: self, tiles: self.amx.map(Amx::tile_registers) }
    }

    /// Runs `op` with a prepared block multiplier.
    pub(crate) fn run<O: BlockMultiplierOp>(self, op: O) {
        let blocks = self.block_multiplier();
        self.run_with(&blocks, op);
    }

    /// Runs `op` with an existing block multiplier.
    #[inline(always)]
    pub(crate) fn run_with<O: BlockMultiplierOp>(self, blocks: &BlockMultiplier, op: O) {
        // SAFETY: the token proves AVX-512 with BF16.
        unsafe { entry(self, blocks, op) };
    }
}

/// An operation that multiplies blocks.
pub(crate) trait BlockMultiplierOp {
    /// Runs the body. Implementations are `#[inline(always)]`.
    fn eval(self, bf16: Bf16, simd: Avx512, blocks: &BlockMultiplier);
}

/// Runs `op` as a separate function, so that operations with several callers are compiled once.
///
/// # Safety
/// The processor must support the enabled features.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
unsafe fn entry<O: BlockMultiplierOp>(bf16: Bf16, blocks: &BlockMultiplier, op: O) {
    op.eval(bf16, bf16.simd, blocks);
}

/// The block multiplier of this thread: configured tiles, or vectors.
#[derive(Debug)]
pub(crate) struct BlockMultiplier {
    bf16: Bf16,
    tiles: Option<TileRegisters>,
}

impl BlockMultiplier {
    /// Computes a [`BlockProduct`] of panels with `TERMS` terms. It multiplies terms i and j with i + j ≤ `TERMS` + 1,
    /// counted from 1, which are 1, 3 or 6 products.
    ///
    /// # Safety
    /// * The panels must hold `steps` steps and be aligned to 64 bytes.
    /// * `c` must be writable for 32 rows of 32, initialized if it is added to, and not overlap the panels.
    #[inline(always)]
    pub(crate) unsafe fn block<const TERMS: usize>(&self, block: BlockProduct) {
        // SAFETY: both require what the caller promises here. The token proves AVX-512 with BF16.
        unsafe {
            match &self.tiles {
                Some(tiles) => tiles.block::<TERMS>(block),
                None if TERMS == 1 => self.bf16.dots(block),
                None => unreachable!("without tiles only one term is supported: see `Bf16::if_faster`"),
            }
        }
    }

    /// Returns the tiles, if they are the multiplier.
    pub(crate) fn tiles(&self) -> Option<&TileRegisters> {
        self.tiles.as_ref()
    }
}

/// The product of one block: `C (+)= Σ_steps A·B`, with C of 32 × 32 f32.
///
/// Panels hold the tiles of both halves for each step, term by term: `[step][term][half]`, `TILE_BYTES` bytes each. A
/// tile of A holds 16 rows of 32 values. A tile of B holds 16 rows of 16 pairs, each pair with the values `(2r, c)` and
/// `(2r + 1, c)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockProduct {
    /// Steps of 32 values.
    pub(crate) steps: usize,
    /// The panel of A.
    pub(crate) a: *const u8,
    /// The panel of B.
    pub(crate) b: *const u8,
    /// The result: 32 rows of 32.
    pub(crate) c: *mut f32,
    /// Stride of the rows of `c`, in elements.
    pub(crate) c_stride: usize,
    /// Number of required rows, at most 32. The others may be computed or left unchanged.
    pub(crate) rows: usize,
    /// True if products are added to `c` instead of overwriting it.
    pub(crate) accumulate: bool,
}
