//! The number of pieces that each operation of a training step is divided into, as listed in `docs/cores.md`. The test
//! measures a step on as many threads.

use chumoku_kernels::{CrossEntropy, Isa, Philox, Precision, active_isa, cap_isa, profile};
use chumoku_nn::layers::{DropoutSeed, EncoderConfig, InputEmbeddingsOptions, Mode, Offsets, Pooling, PositionKind};
use chumoku_nn::models::{Classifier, ClassifierConfig};
use chumoku_nn::params::Params;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Number of threads of a very large machine.
const THREADS: usize = 64;

/// The shape of a training step: sizes of the model, and the batch.
#[derive(Clone, Copy)]
struct StepShape {
    d_model: usize,
    heads: usize,
    sequences: usize,
    length: usize,
}

/// Returns the pieces of each operation per parallel section, for a training step of one layer.
fn pieces_per_operation(shape: StepShape) -> BTreeMap<String, u64> {
    let StepShape { d_model, heads, sequences, length } = shape;
    let encoder =
        EncoderConfig { dropout: 0.1, attention_dropout: 0.1, ..EncoderConfig::new(1, d_model, heads, 4 * d_model) };
    let model = Classifier::new(ClassifierConfig {
        vocab_size: 1000,
        num_classes: 2,
        backbone: encoder.into(),
        position: PositionKind::Sinusoidal,
        max_length: length,
        pooling: Pooling::Mean,
        embedding_dropout: 0.1,
        head_dropout: 0.0,
        head_dense: None,
        embeddings: InputEmbeddingsOptions::default(),
    })
    .unwrap();
    let mut params = Params::<f32>::init(model.layout(), 1);
    params.set_precision(Precision::Highest);
    let mut grads = Params::zeros(model.layout());
    let random = Philox::new(1, 2);
    let ids: Vec<u32> = (0..sequences * length).map(|i| (random.uniform(i as u64) * 1000.0) as u32).collect();
    let labels: Vec<u32> = (0..sequences as u32).map(|i| i % 2).collect();
    let offsets = Offsets::from_lengths(vec![length; sequences]);
    let options = CrossEntropy { label_smoothing: 0.1, class_weights: None, row_weights: None };
    let mode = Mode::Train(DropoutSeed { seed: 1, step: 1 });
    let pool = rayon::ThreadPoolBuilder::new().num_threads(THREADS).build().unwrap();
    let ((), found) = pool.install(|| {
        profile(|| {
            model.loss(&params, (&ids, &offsets), &labels, &options, mode, &mut grads).unwrap();
        })
    });
    let shared = found.operations.into_iter().filter(|spent| spent.parallel_regions > 0);
    let named = shared.map(|spent| {
        let [a, b] = spent.operation.sizes;
        let sizes = if a == 0 { String::new() } else { format!(" {a}x{b}") };
        (format!("{}{sizes}", spent.operation.name), spent.pieces / spent.parallel_regions)
    });
    named.collect()
}

#[test]
fn the_page_lists_the_pieces_of_a_step() {
    // The test caps the instruction set of its process.
    testkit::in_own_process("pieces::the_page_lists_the_pieces_of_a_step", check_cores_page);
}

fn check_cores_page() {
    // The page lists AVX-512 without bf16. Blocks of bf16 terms are divided differently, and AVX2 has smaller tiles.
    cap_isa(Isa::Avx512);
    if active_isa() != Isa::Avx512 {
        eprintln!("SKIPPED: this processor has no AVX-512, which the tables of docs/cores.md require");
        return;
    }
    let shape = |d_model, heads, sequences, length| StepShape { d_model, heads, sequences, length };
    let shapes = [
        ("4 × 256, 32 × 128 tokens in 2 parts", shape(256, 8, 16, 128)),
        ("6 × 384, 32 × 32 tokens in 2 parts", shape(384, 12, 16, 32)),
        ("6 × 384, 32 × 128 tokens in 2 parts", shape(384, 12, 16, 128)),
        ("12 × 768, 16 × 512 tokens in 4 parts", shape(768, 12, 4, 512)),
    ];
    let mut table = String::new();
    for (title, shape) in shapes {
        writeln!(table, "| {title} | |\n|---|---|").unwrap();
        for (operation, pieces) in pieces_per_operation(shape) {
            writeln!(table, "| {operation} | {pieces} |").unwrap();
        }
        writeln!(table).unwrap();
    }
    let page = include_str!("../../../../docs/cores.md");
    assert!(page.contains(&table), "the tables of docs/cores.md differ from these:\n\n{table}");
}
