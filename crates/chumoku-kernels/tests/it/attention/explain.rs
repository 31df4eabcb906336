//! Descriptions of the kernel that a call uses.

use crate::common::each_isa;
use chumoku_kernels::*;

const NUMBERS: [f32; 4096] = [0.5; 4096];

fn attention(queries: usize) -> Attention<'static, f32> {
    let view = |shape| Heads::bhld(&NUMBERS, shape).unwrap();
    Attention::new(view([1, 4, queries, 32]), view([1, 2, 40, 32]), view([1, 2, 40, 16]))
}

#[test]
fn plan_names_the_kernel() {
    each_isa(|isa| {
        for (precision, terms) in [(Precision::Highest, 3), (Precision::High, 2), (Precision::Medium, 1)] {
            let kernel = match isa {
                Isa::Amx => "bf16 tiles",
                Isa::Avx512Bf16 if terms == 1 => "bf16 dot products",
                _ => "f32 registers",
            };
            let has_terms = kernel != "f32 registers";
            let plan = attention(8).precision(precision).explain().unwrap();
            assert_eq!(plan.isa, isa);
            assert_eq!(plan.kernel, kernel);
            assert_eq!(plan.terms, if has_terms { terms } else { 0 });
            assert_eq!(plan.tile, (if has_terms { 32 } else { 48 }, 128));
            assert!(plan.tasks > 0 && plan.scratch_bytes > 0, "{plan:?}");
            let text = plan.to_string();
            assert!(text.contains(plan.kernel) && text.contains(isa.name()) && text.contains(plan.reason), "{text}");
        }
    });
}

#[test]
fn single_queries_are_decoded_without_mask_and_dropout() {
    let narrow = [bf16::ONE; 4096];
    let view = |shape| Heads::bhld(&narrow, shape).unwrap();
    let one_of_bf16 = Attention::new(view([1, 4, 1, 32]), view([1, 2, 40, 32]), view([1, 2, 40, 16]));
    let allowed = [true; 40];
    let mask = MaskView::new(&allowed, &[40]).unwrap();
    let dropout = AttentionDropout { rate: 0.5, random: Philox::new(1, 2) };
    each_isa(|isa| {
        let plan = attention(1).explain().unwrap();
        assert_eq!((plan.kernel, plan.tile, plan.tasks), ("decoding, f32 registers", (2, 512), 2));
        let in_tiles = one_of_bf16.explain().unwrap().kernel == "decoding, keys in bf16 tiles";
        assert_eq!(in_tiles, isa == Isa::Amx);
        for other in [attention(2), attention(1).dropout(dropout), attention(1).mask(Mask::Boolean(mask))] {
            let plan = other.explain().unwrap();
            assert!(!plan.kernel.contains("decoding"), "{plan}");
        }
    });
}

#[test]
fn f64_uses_the_reference_and_invalid_arguments_are_rejected() {
    let numbers = [0.5f64; 64];
    let view = |shape| Heads::bhld(&numbers, shape).unwrap();
    let plan = Attention::new(view([1, 1, 4, 4]), view([1, 1, 4, 4]), view([1, 1, 4, 4])).explain().unwrap();
    assert_eq!(plan.kernel, "plain");
    assert!(attention(3).scale(f64::NAN).explain().is_err());
}
