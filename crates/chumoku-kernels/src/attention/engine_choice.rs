//! Choice of the engine for a call.

#[cfg(target_arch = "x86_64")]
use super::bf16_engine;
use super::engine::EngineOp;
use super::register_engine::RegisterEngineOp;
use super::type_erased::AnyAttention;
use crate::isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::bf16::Bf16;

/// Runs `task` on the best engine of the active instruction set for the dtype and precision.
pub(super) fn run_on_engine(args: &AnyAttention, task: impl EngineOp) {
    #[cfg(target_arch = "x86_64")]
    {
        let terms = args.precision.bf16_terms().min(args.query.data.bf16_terms());
        if let Some(bf16) = Bf16::if_faster(terms) {
            return match terms {
                1 => bf16_engine::run::<1>(bf16, task),
                2 => bf16_engine::run::<2>(bf16, task),
                _ => bf16_engine::run::<3>(bf16, task),
            };
        }
    }
    let _ = args;
    isa::dispatch(RegisterEngineOp(task));
}
