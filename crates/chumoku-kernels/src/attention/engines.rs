//! Which engine there is for a call.

use super::engine::EngineOp;
use super::problem::Attention;
use super::registers::OnRegisters;
#[cfg(target_arch = "x86_64")]
use super::tiles;
use crate::isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::Isa;
use crate::narrow::Narrow;

/// Runs `task` on the best engine that the instruction set in force has for numbers of type `T`.
pub(super) fn on_engine<T: Narrow>(args: &Attention<'_, T>, task: impl EngineOp) {
    #[cfg(target_arch = "x86_64")]
    if isa::active() == Isa::Amx
        && let Some(amx) = isa::amx::Amx::new()
    {
        // Constants: more terms than a number has are not compiled.
        let terms = args.precision.terms();
        if const { T::TERMS >= 3 } && terms >= 3 {
            return tiles::run::<3>(amx, task);
        }
        if const { T::TERMS >= 2 } && terms >= 2 {
            return tiles::run::<2>(amx, task);
        }
        return tiles::run::<1>(amx, task);
    }
    let _ = args;
    isa::dispatch(OnRegisters(task));
}
