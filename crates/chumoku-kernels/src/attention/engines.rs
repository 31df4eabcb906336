//! Which engine there is for a call.

use super::any::AnyAttention;
use super::engine::EngineOp;
use super::registers::OnRegisters;
#[cfg(target_arch = "x86_64")]
use super::tiles;
use crate::isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::bf16::Bf16;

/// Runs `task` on the best engine that the instruction set in force has for the numbers.
pub(super) fn on_engine(args: &AnyAttention, task: impl EngineOp) {
    #[cfg(target_arch = "x86_64")]
    {
        let terms = args.precision.terms().min(args.query.numbers.terms());
        if let Some(bf16) = Bf16::worth(terms) {
            return match terms {
                1 => tiles::run::<1>(bf16, task),
                2 => tiles::run::<2>(bf16, task),
                _ => tiles::run::<3>(bf16, task),
            };
        }
    }
    let _ = args;
    isa::dispatch(OnRegisters(task));
}
