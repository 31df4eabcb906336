//! AMX: tiles of bf16 values whose products are accumulated in f32.
//!
//! A tile register holds 16 rows of 64 bytes. One instruction multiplies a tile of 16 × 32 values by one of 32 × 16 and
//! adds the result to 16 × 16 sums. Stable Rust has no intrinsics for AMX, so this file uses inline assembly. Each
//! block loads, multiplies and stores, and leaves nothing in tile registers for the next.

use super::BlockProduct;
use std::arch::asm;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Rows that [`TileRegisters::multiply_in_place`] multiplies: four tiles.
pub(crate) const IN_PLACE_ROWS: usize = 64;

/// Token that proves AMX with bf16: the processor supports it, and the system permits it for this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amx(());

impl Amx {
    /// Returns the token, if processor and system support AMX. Requests the permission for tile data from Linux.
    pub(super) fn new() -> Option<Self> {
        static ALLOWED: OnceLock<bool> = OnceLock::new();
        ALLOWED.get_or_init(|| is_supported() && is_permitted()).then_some(Amx(()))
    }

    /// Configures this thread's tile registers until the guard is dropped. Guards may overlap: a task with a guard may
    /// wait, and its thread may run another task with its own guard meanwhile. The registers stay configured until the
    /// last guard is dropped.
    pub(super) fn tile_registers(self) -> TileRegisters {
        let tiles = TileRegisters { _guard: Guard::new(release), not_send: PhantomData };
        if Guard::count() == 1 {
            self.configure();
        }
        tiles
    }

    /// Configures this thread's tile registers.
    fn configure(self) {
        #[repr(align(64))]
        struct Config([u8; 64]);
        let mut config = Config([0; 64]);
        // Palette 1; eight tiles with 64 bytes per row (a little-endian u16 each from byte 16) and 16 rows (from byte
        // 48).
        config.0[0] = 1;
        for tile in 0..8 {
            config.0[16 + 2 * tile] = 64;
            config.0[48 + tile] = 16;
        }
        // SAFETY: the token proves that AMX may be used; the 64 bytes are a valid configuration.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const config, options(nostack, preserves_flags)) };
    }
}

/// Releases this thread's tile registers.
fn release() {
    // SAFETY: this is called only when the last guard of this thread is dropped, and the first one exists only if AMX
    // may be used. Nothing is kept in tile registers between blocks.
    unsafe { asm!("tilerelease", options(nostack, preserves_flags)) };
}

/// Checks CPUID for AMX tiles with BF16, and XCR0 for an operating system that saves all tile state.
fn is_supported() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    if __cpuid(0).eax < 7 || __cpuid(1).ecx & (1 << 27) == 0 {
        return false;
    }
    let (bf16, tile) = (1 << 22, 1 << 24);
    let features = __cpuid_count(7, 0).edx;
    let (low, _high): (u32, u32);
    // SAFETY: CPUID has just reported OSXSAVE, which implies XGETBV.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") _high, options(nomem, nostack, preserves_flags)) };
    let tile_state = 0b11 << 17;
    features & (bf16 | tile) == (bf16 | tile) && low & tile_state == tile_state
}

/// Requests permission to use tile data. A hypervisor may report AMX although the system refuses it.
fn is_permitted() -> bool {
    #[cfg(target_os = "linux")]
    {
        const ARCH_PRCTL: usize = 158;
        const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
        const XFEATURE_XTILEDATA: usize = 18;
        let answer: isize;
        // SAFETY: this system call reads two numbers and does not touch our memory.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") ARCH_PRCTL => answer,
                in("rdi") ARCH_REQ_XCOMP_PERM,
                in("rsi") XFEATURE_XTILEDATA,
                out("rcx") _,
                out("r11") _,
                options(nostack),
            );
        }
        answer == 0
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// Tile registers of this thread that stay configured while this value lives. It is therefore not `Send`.
#[derive(Debug)]
pub(crate) struct TileRegisters {
    _guard: Guard,
    not_send: PhantomData<*const ()>,
}

thread_local! {
    /// Number of live guards of this thread.
    static GUARDS: Cell<usize> = const { Cell::new(0) };
}

/// A guard of this thread; the last one to be dropped calls a function.
#[derive(Debug)]
struct Guard(fn());

impl Guard {
    fn new(last: fn()) -> Self {
        GUARDS.set(GUARDS.get() + 1);
        Guard(last)
    }

    /// Returns the number of guards of this thread.
    fn count() -> usize {
        GUARDS.get()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        GUARDS.set(GUARDS.get() - 1);
        if GUARDS.get() == 0 {
            (self.0)();
        }
    }
}

/// The assembly of a block. `$products` is the body of a step.
macro_rules! block {
    ($block:expr, $bytes:expr, $($products:expr),+ $(,)?) => {{
        let block: BlockProduct = $block;
        let c_low = block.c;
        let c_high = block.c.wrapping_add(16 * block.c_stride);
        asm!(
            "test {accumulate}, {accumulate}",
            "jz 2f",
            "tileloadd tmm0, [{c_low} + {stride}]",
            "tileloadd tmm1, [{c_low} + {stride} + 64]",
            "tileloadd tmm2, [{c_high} + {stride}]",
            "tileloadd tmm3, [{c_high} + {stride} + 64]",
            "jmp 3f",
            "2:",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "3:",
            "test {steps}, {steps}",
            "jz 5f",
            "4:",
            $($products,)+
            concat!("add {a}, ", $bytes),
            concat!("add {b}, ", $bytes),
            "dec {steps}",
            "jnz 4b",
            "5:",
            "tilestored [{c_low} + {stride}], tmm0",
            "tilestored [{c_low} + {stride} + 64], tmm1",
            "tilestored [{c_high} + {stride}], tmm2",
            "tilestored [{c_high} + {stride} + 64], tmm3",
            accumulate = in(reg) usize::from(block.accumulate),
            steps = inout(reg) block.steps => _,
            a = inout(reg) block.a => _,
            b = inout(reg) block.b => _,
            c_low = in(reg) c_low,
            c_high = in(reg) c_high,
            stride = in(reg) 4 * block.c_stride,
            row = in(reg) 64usize,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }};
}

/// Loads both halves of a term of A into tmm4 and tmm5.
macro_rules! load_a {
    ($at:literal) => {
        concat!("tileloadd tmm4, [{a} + {row} + ", $at, "]\ntileloadd tmm5, [{a} + {row} + ", $at, " + 1024]")
    };
}

/// Loads both halves of a term of B into tmm6 and tmm7.
macro_rules! load_b {
    ($at:literal) => {
        concat!("tileloadd tmm6, [{b} + {row} + ", $at, "]\ntileloadd tmm7, [{b} + {row} + ", $at, " + 1024]")
    };
}

/// Multiplies the loaded tiles.
macro_rules! multiply {
    () => {
        "tdpbf16ps tmm0, tmm4, tmm6\ntdpbf16ps tmm1, tmm4, tmm7\ntdpbf16ps tmm2, tmm5, tmm6\ntdpbf16ps tmm3, tmm5, tmm7"
    };
}

impl TileRegisters {
    /// Computes a [`BlockProduct`] of panels with `TERMS` terms. It multiplies terms i and j with i + j ≤ `TERMS` + 1,
    /// counted from 1, which are 1, 3 or 6 products.
    ///
    /// # Safety
    /// The panels must hold `steps` steps. `c` must be writable for 32 rows of 32, initialized if the block
    /// accumulates, and not overlap the panels.
    #[inline(always)]
    pub(super) unsafe fn block<const TERMS: usize>(&self, block: BlockProduct) {
        // SAFETY: `self` proves that the registers are configured. The caller promises the memory.
        unsafe {
            match TERMS {
                1 => block!(block, "2048", load_a!("0"), load_b!("0"), multiply!()),
                2 => block!(
                    block,
                    "4096",
                    // a₁b₂, a₁b₁, a₂b₁
                    load_a!("0"),
                    load_b!("2048"),
                    multiply!(),
                    load_b!("0"),
                    multiply!(),
                    load_a!("2048"),
                    multiply!(),
                ),
                _ => block!(
                    block,
                    "6144",
                    // a₁b₃, a₁b₂, a₁b₁, a₂b₁, a₃b₁, a₂b₂
                    load_a!("0"),
                    load_b!("4096"),
                    multiply!(),
                    load_b!("2048"),
                    multiply!(),
                    load_b!("0"),
                    multiply!(),
                    load_a!("2048"),
                    multiply!(),
                    load_a!("4096"),
                    multiply!(),
                    load_a!("2048"),
                    load_b!("2048"),
                    multiply!(),
                ),
            }
        }
    }

    /// Computes `c = a · b` for [`IN_PLACE_ROWS`] rows of bf16 that are read in place: `stride` bytes apart, `steps`
    /// steps of 32 values. `b` holds a tile for each step. `c` receives rows of 16.
    ///
    /// # Safety
    /// The rows must be readable, `b` must hold `steps` tiles, and `c` must be writable for 16 · [`IN_PLACE_ROWS`]
    /// values.
    #[inline(always)]
    pub(crate) unsafe fn multiply_in_place(
        &self,
        a: *const u8,
        stride: usize,
        steps: usize,
        b: *const u8,
        c: *mut f32,
    ) {
        // SAFETY: `self` proves that the registers are configured. The caller promises the memory.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "4:",
                "tileloadd tmm7, [{b} + {row}]",
                "tileloadd tmm4, [{a0} + {stride}]",
                "tdpbf16ps tmm0, tmm4, tmm7",
                "tileloadd tmm5, [{a1} + {stride}]",
                "tdpbf16ps tmm1, tmm5, tmm7",
                "tileloadd tmm6, [{a2} + {stride}]",
                "tdpbf16ps tmm2, tmm6, tmm7",
                "tileloadd tmm4, [{a3} + {stride}]",
                "tdpbf16ps tmm3, tmm4, tmm7",
                "add {b}, 1024",
                "add {a0}, 64",
                "add {a1}, 64",
                "add {a2}, 64",
                "add {a3}, 64",
                "dec {steps}",
                "jnz 4b",
                "tilestored [{c} + {row}], tmm0",
                "tilestored [{c} + {row} + 1024], tmm1",
                "tilestored [{c} + {row} + 2048], tmm2",
                "tilestored [{c} + {row} + 3072], tmm3",
                steps = inout(reg) steps => _,
                b = inout(reg) b => _,
                a0 = inout(reg) a => _,
                a1 = inout(reg) a.wrapping_add(16 * stride) => _,
                a2 = inout(reg) a.wrapping_add(32 * stride) => _,
                a3 = inout(reg) a.wrapping_add(48 * stride) => _,
                c = in(reg) c,
                stride = in(reg) stride,
                row = in(reg) 64usize,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BLOCK_SIDE, STEP_DEPTH};
    use super::*;

    #[test]
    fn last_guard_releases_in_any_drop_order() {
        thread_local! {
            static RELEASED: Cell<usize> = const { Cell::new(0) };
        }
        let released = || RELEASED.set(RELEASED.get() + 1);
        let [first, second, third] = [(); 3].map(|()| Guard::new(released));
        assert_eq!(Guard::count(), 3);
        drop(second);
        drop(first);
        assert_eq!((Guard::count(), RELEASED.get()), (1, 0));
        drop(third);
        assert_eq!((Guard::count(), RELEASED.get()), (0, 1));
        drop(Guard::new(released));
        assert_eq!((Guard::count(), RELEASED.get()), (0, 2));
    }

    #[test]
    fn tiles_stay_configured_while_a_guard_lives() {
        #[repr(align(64))]
        struct Panel([u16; 32 * STEP_DEPTH]);
        let Some(amx) = Amx::new() else {
            eprintln!("SKIPPED: this machine has no AMX");
            return;
        };
        // 1 as bf16 everywhere: each sum is the depth.
        let ones = Panel([0x3F80; 32 * STEP_DEPTH]);
        let product = |tiles: &TileRegisters| {
            let mut c = [0.0f32; BLOCK_SIDE * BLOCK_SIDE];
            let panel = ones.0.as_ptr().cast();
            // SAFETY: the panels hold a step of both halves, and c is 32 rows of 32.
            unsafe {
                tiles.block::<1>(BlockProduct {
                    steps: 1,
                    a: panel,
                    b: panel,
                    c: c.as_mut_ptr(),
                    c_stride: BLOCK_SIDE,
                    rows: BLOCK_SIDE,
                    accumulate: false,
                })
            };
            c
        };
        let outer = amx.tile_registers();
        let inner = amx.tile_registers();
        assert_eq!(product(&inner), [STEP_DEPTH as f32; BLOCK_SIDE * BLOCK_SIDE]);
        drop(inner);
        // Without configured tiles this would be an illegal instruction.
        assert_eq!(product(&outer), [STEP_DEPTH as f32; BLOCK_SIDE * BLOCK_SIDE]);
        let later = amx.tile_registers();
        drop(outer);
        assert_eq!(product(&later), [STEP_DEPTH as f32; BLOCK_SIDE * BLOCK_SIDE]);
        drop(later);
        assert_eq!(product(&amx.tile_registers()), [STEP_DEPTH as f32; BLOCK_SIDE * BLOCK_SIDE]);
    }
}
