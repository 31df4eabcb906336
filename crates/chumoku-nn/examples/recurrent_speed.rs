//! Times recurrent layers, forward and backward: `cargo run --release -p chumoku-nn --example recurrent_speed`.
//!
//! `bench/peers/torch_recurrent.py` times PyTorch on the same shapes. `RAYON_NUM_THREADS` sets the number of threads.

use chumoku_kernels::{Precision, RecurrentCell};
use chumoku_nn::layers::{DropoutSeed, Mode, Offsets, Recurrent, RecurrentConfig};
use chumoku_nn::params::{Builder, Params};
use ndarray::Array2;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: chumoku_kernels::Allocator = chumoku_kernels::Allocator;

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Milliseconds of the forward pass, and of the forward and backward passes together.
fn time(config: &RecurrentConfig, [batch, length]: [usize; 2], precision: Precision) -> chumoku_nn::Result<[f64; 2]> {
    let mut builder = Builder::new();
    let layer = Recurrent::new(&mut builder, config);
    let layout = builder.finish();
    let (mut params, mut grads) = (Params::<f32>::init(&layout, 1), Params::<f32>::zeros(&layout));
    params.set_precision(precision);
    let offsets = Offsets::from_lengths(vec![length; batch]);
    let x =
        Array2::from_shape_fn((batch * length, config.d_model), |(i, j)| ((i * 7 + j * 13) % 101) as f32 / 50.0 - 1.0);
    let mode = Mode::Train(DropoutSeed { seed: 1, step: 1 });
    let (mut forward, mut both) = (vec![], vec![]);
    for run in 0..12 {
        let input = x.clone();
        let start = Instant::now();
        let (y, cache) = layer.forward(&params, input, &offsets, mode)?;
        let first = start.elapsed();
        layer.backward(&params, &cache, &offsets, y, mode, &mut grads)?;
        if run > 1 {
            forward.push(1e3 * first.as_secs_f64());
            both.push(1e3 * start.elapsed().as_secs_f64());
        }
    }
    Ok([median(forward), median(both)])
}

fn main() -> chumoku_nn::Result<()> {
    chumoku_kernels::keep_freed_memory();
    println!(
        "{:<6}{:>7}{:>8}{:>7}{:>8}{:>10}{:>12}{:>12}",
        "cell", "batch", "length", "width", "hidden", "precision", "forward ms", "both ms"
    );
    for cell in RecurrentCell::ALL {
        for [batch, length, width] in
            [[32, 100, 256], [32, 128, 128], [32, 1024, 128], [8, 128, 256], [64, 64, 512], [1, 256, 256]]
        {
            let config = RecurrentConfig {
                cell,
                num_layers: 1,
                d_model: width,
                hidden_size: width,
                bidirectional: false,
                dropout: 0.0,
            };
            for precision in [Precision::Highest, Precision::Medium] {
                let [forward, both] = rayon::scope(|_| time(&config, [batch, length], precision))?;
                println!(
                    "{:<6}{batch:>7}{length:>8}{width:>7}{width:>8}{:>10}{forward:>12.2}{both:>12.2}",
                    cell.name(),
                    precision.name()
                );
            }
        }
    }
    Ok(())
}
