//! Which engine there is for a call.

use super::engine::EngineOp;
use super::problem::Attention;
use super::registers::OnRegisters;
#[cfg(target_arch = "x86_64")]
use super::tiles;
use crate::isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::bf16::Bf16;
use crate::narrow::Narrow;

/// Runs `task` on the best engine that the instruction set in force has for numbers of type `T`.
pub(super) fn on_engine<T: Narrow>(args: &Attention<'_, T>, task: impl EngineOp) {
    #[cfg(target_arch = "x86_64")]
    {
        // More terms than a number has are not compiled.
        let terms = args.precision.terms().min(T::TERMS);
        if let Some(bf16) = Bf16::worth(terms) {
            if const { T::TERMS >= 3 } && terms >= 3 {
                return tiles::run::<3>(bf16, task);
            }
            if const { T::TERMS >= 2 } && terms >= 2 {
                return tiles::run::<2>(bf16, task);
            }
            return tiles::run::<1>(bf16, task);
        }
    }
    let _ = args;
    isa::dispatch(OnRegisters(task));
}
