//! Speed of the matrix product on shapes of linear layers, forward and backward:
//! `cargo run --release -p chumoku-kernels --example gemm_speed [-- THREADS]`.
//!
//! Prints one JSON object per line. `bench/peers/torch_gemm.py` is the PyTorch counterpart.

use chumoku_kernels::*;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Rows, columns, depth, and the operand that is transposed.
const SHAPES: [(usize, usize, usize, &str); 6] = [
    (4096, 1024, 256, "A·Bᵀ"),
    (4096, 256, 1024, "A·Bᵀ"),
    (4096, 256, 1024, "A·B"),
    (1024, 256, 4096, "Aᵀ·B"),
    (2048, 2048, 2048, "A·B"),
    (2048, 2048, 2048, "A·Bᵀ"),
];

fn main() -> Result<()> {
    keep_freed_memory();
    let threads = std::env::args().nth(1).map_or(1, |n| n.parse().expect("THREADS is a number"));
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().expect("the system has threads");
    for precision in Precision::ALL {
        for (rows, columns, depth, product) in SHAPES {
            let normals =
                |n: usize, stream| (0..n as u64).map(|i| Philox::new(1, stream).normal(i)).collect::<Vec<_>>();
            let (a, b) = (normals(rows * depth, 0), normals(columns * depth, 1));
            let mut c = vec![f32::NAN; rows * columns];
            let a =
                if product == "Aᵀ·B" { MatRef::new(&a, depth, rows)?.t() } else { MatRef::new(&a, rows, depth)? };
            let b = if product == "A·Bᵀ" {
                MatRef::new(&b, columns, depth)?.t()
            } else {
                MatRef::new(&b, depth, columns)?
            };
            // The first three runs are warm-up.
            let mut times = [0.0; 18];
            for time in &mut times {
                let start = Instant::now();
                gemm(a, b, OutputInit::Zero, MatMut::new(&mut c, rows, columns)?, precision)?;
                *time = start.elapsed().as_secs_f64();
            }
            times[3..].sort_by(f64::total_cmp);
            let (mut wrong, mut size) = (0.0, 0.0);
            for at in (0..rows * columns).step_by(9973) {
                let product = |k| f64::from(a.at(at / columns, k)) * f64::from(b.at(k, at % columns));
                let expected: f64 = (0..depth).map(product).sum();
                wrong += (f64::from(c[at]) - expected).powi(2);
                size += expected * expected;
            }
            let (error, allowed) = (f64::sqrt(wrong / size), [3e-2, 1e-4, 1e-5][precision as usize]);
            assert!(error <= allowed, "{rows}x{columns}x{depth} {product} is off by {error:e} at {}", precision.name());
            println!(
                "{{\"shape\":\"{rows}x{columns}x{depth}\",\"product\":\"{product}\",\"precision\":\"{}\",\"isa\":\"{}\",\
                 \"threads\":{threads},\"gflops\":{:.1},\"error\":{error:.1e}}}",
                precision.name(),
                active_isa(),
                2e-9 * (rows * columns * depth) as f64 / times[10],
            );
        }
    }
    Ok(())
}
