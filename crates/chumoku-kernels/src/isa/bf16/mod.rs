//! Products of bf16 numbers whose sums are f32: blocks of 32 × 32, multiplied by AMX tiles or, where there are none, by
//! dot products of pairs in vectors of AVX-512.
//!
//! f32 numbers take part as sums of bf16 terms ([`split`]): a product of two terms each drops only the product of the
//! two small ones, one of three terms each is as good as f32. Both multipliers read the same panels.
//!
//! # Files
//!
//! - `amx`: AMX tiles
//! - `dots`: dot products of pairs in AVX-512
//! - `split`: f32 numbers split into bf16 terms
//! - `take`: bf16 numbers copied into panels

pub(crate) mod amx;
pub(crate) mod copy;
mod dots;
pub(crate) mod split;

use super::Isa;
use super::avx512::Avx512;
use amx::{Amx, TileRegisters};

/// Bytes of a tile: 16 rows of 64.
pub(crate) const TILE_BYTES: usize = 1024;
/// Rows, and columns, of a block of C: two tiles each way.
pub(crate) const BLOCK_SIDE: usize = 32;
/// Depth of a tile: 32 numbers.
pub(crate) const STEP_DEPTH: usize = 32;

/// The token of AVX-512 with BF16, and of AMX where that is in force too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bf16 {
    simd: Avx512,
    amx: Option<Amx>,
}

impl Bf16 {
    /// The token, if processor and system have what this instruction set is made of.
    pub(crate) fn new(isa: Isa) -> Option<Self> {
        let simd = Avx512::new().filter(|_| is_x86_feature_detected!("avx512bf16"))?;
        match isa {
            Isa::Avx512Bf16 => Some(Bf16 { simd, amx: None }),
            Isa::Amx => Some(Bf16 { simd, amx: Some(Amx::new()?) }),
            _ => None,
        }
    }

    /// The token of the instruction set in force, if products of so many terms are faster with it than in f32. Without
    /// tiles only those of one term are: a dot product of pairs does twice the work of a fused multiply–add, and two
    /// terms ask for three of them.
    pub(crate) fn if_faster(terms: usize) -> Option<Self> {
        Self::new(super::active()).filter(|bf16| terms == 1 || bf16.amx.is_some())
    }

    /// What multiplies blocks, ready in this thread until it is dropped.
    pub(crate) fn block_multiplier(self) -> BlockMultiplier {
        BlockMultiplier { bf16: self, tiles: self.amx.map(Amx::tile_registers) }
    }

    /// Runs `op` with what multiplies blocks ready.
    pub(crate) fn run<O: BlockMultiplierOp>(self, op: O) {
        let blocks = self.block_multiplier();
        self.run_with(&blocks, op);
    }

    /// The same with blocks that are at hand.
    #[inline(always)]
    pub(crate) fn run_with<O: BlockMultiplierOp>(self, blocks: &BlockMultiplier, op: O) {
        // SAFETY: the token proves AVX-512 with BF16.
        unsafe { entry(self, blocks, op) };
    }
}

/// What runs on blocks.
pub(crate) trait BlockMultiplierOp {
    /// The body; implementations are `#[inline(always)]`.
    fn eval(self, bf16: Bf16, simd: Avx512, blocks: &BlockMultiplier);
}

/// A function of its own wherever it is called, so that what several callers run is compiled once.
///
/// # Safety
/// The processor must have the features named.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
unsafe fn entry<O: BlockMultiplierOp>(bf16: Bf16, blocks: &BlockMultiplier, op: O) {
    op.eval(bf16, bf16.simd, blocks);
}

/// What multiplies blocks in this thread: tiles that are set up, else vectors.
#[derive(Debug)]
pub(crate) struct BlockMultiplier {
    bf16: Bf16,
    tiles: Option<TileRegisters>,
}

impl BlockMultiplier {
    /// Computes a [`BlockProduct`] of panels of `TERMS` terms: of the products of terms i and j those with i + j ≤ `TERMS`,
    /// counted from 1 and 1 (so 1, 3 or 6 of them).
    ///
    /// # Safety
    /// * The panels must hold `steps` steps and be aligned to 64 bytes.
    /// * `c` must be writable, and hold numbers where it is added to, for 32 rows of 32, and not overlap the panels.
    #[inline(always)]
    pub(crate) unsafe fn block<const TERMS: usize>(&self, block: BlockProduct) {
        // SAFETY: both ask for what the caller promises here; the token proves AVX-512 with BF16.
        unsafe {
            match &self.tiles {
                Some(tiles) => tiles.block::<TERMS>(block),
                None if TERMS == 1 => self.bf16.dots(block),
                None => unreachable!("without tiles, more terms than one are not worth it: see `Bf16::worth`"),
            }
        }
    }

    /// The tiles, where they are what multiplies.
    pub(crate) fn tiles(&self) -> Option<&TileRegisters> {
        self.tiles.as_ref()
    }
}

/// The product of one block: `C (+)= Σ_steps A·B`, C of 32 × 32 f32.
///
/// Panels hold for each step the tiles of both halves, term by term: `[step][term][half]`, `TILE` bytes each. A tile of
/// A holds 16 rows of 32 numbers; one of B holds, as 16 rows of 16 pairs, the numbers `(2r, c)` and `(2r + 1, c)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockProduct {
    /// Steps of 32 numbers.
    pub(crate) steps: usize,
    /// The panel of A.
    pub(crate) a: *const u8,
    /// The panel of B.
    pub(crate) b: *const u8,
    /// The result: 32 rows of 32.
    pub(crate) c: *mut f32,
    /// Distance of the rows of `c`, in elements.
    pub(crate) c_stride: usize,
    /// Rows that are wanted, at most 32. The others may be computed or left as they are.
    pub(crate) rows: usize,
    /// Whether `c` is added to rather than overwritten.
    pub(crate) accumulate: bool,
}
