//! Describes the kernel that a call of attention uses, and why.

use super::blocks::units;
use super::decode;
use super::engine::{Engine, EngineOp, GRAIN, KEY_BLOCK, SCORE_STRIDE};
use super::engine_choice::run_on_engine;
use super::plan::AttentionPlan;
use super::type_erased::AnyAttention;
use crate::isa::{self, Isa};

/// Returns the plan of `args`.
pub(super) fn explain(args: &AnyAttention) -> AttentionPlan {
    if let Some(plan) = decode::explain(args) {
        return plan;
    }
    struct DescribePlan<'a, 'b>(&'a AnyAttention<'b>, &'a mut AttentionPlan);
    impl EngineOp for DescribePlan<'_, '_> {
        #[inline(always)]
        fn eval<E: Engine>(self, _: E) {
            let (units, per_task) = units(self.0);
            let rows = units.iter().map(|unit| unit.blocks(self.0, E::QUERY_BLOCK).len()).max().unwrap_or(0);
            let (dim, value_dim) = (self.0.query.dim(), self.0.value.dim());
            let rows_bytes = E::lhs_bytes(dim) + E::QUERY_BLOCK * value_dim.next_multiple_of(GRAIN) * 4;
            let block_bytes = 2 * (E::lhs_bytes(KEY_BLOCK) + E::QUERY_BLOCK * SCORE_STRIDE * 4);
            *self.1 = AttentionPlan {
                kernel: match E::TERMS {
                    0 => "f32 registers",
                    _ if isa::active() == Isa::Avx512Bf16 => "bf16 dot products",
                    _ => "bf16 tiles",
                },
                isa: isa::active(),
                tile: (E::QUERY_BLOCK, KEY_BLOCK),
                terms: E::TERMS,
                tasks: units.len().div_ceil(per_task),
                scratch_bytes: rows * rows_bytes + block_bytes + E::rhs_transposed_bytes(dim) + E::rhs_bytes(value_dim),
                reason: match E::TERMS {
                    0 if isa::active() == Isa::Avx512Bf16 => "without AMX, two or three bf16 terms are slower than f32",
                    0 if Isa::Avx512Bf16.is_available() => "the instruction set is capped below AVX-512 with BF16",
                    0 => "this machine has neither AMX nor AVX-512 with BF16",
                    1 if isa::active() == Isa::Avx512Bf16 => {
                        "AVX-512 with BF16 is available, and the dtype or the precision needs one bf16 term"
                    }
                    1 => "AMX is available, and the dtype or the precision needs one bf16 term",
                    2 => "AMX is available; two bf16 terms per value need three products each",
                    _ => "AMX is available; three bf16 terms per value need six products each",
                },
            };
        }
    }
    let mut plan = AttentionPlan::reference();
    run_on_engine(args, DescribePlan(args, &mut plan));
    plan
}
