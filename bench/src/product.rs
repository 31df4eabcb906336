//! Speed of the matrix product `C = A Bᵀ`, as `peers/torch_gemm.py` measures PyTorch's.

use crate::side::median;
use chumoku_kernels::{MatMut, MatRef, Philox, Precision, Start, gemm};
use serde_json::json;
use std::time::Instant;

/// Rows, columns and depth.
pub(crate) const SHAPES: [[usize; 3]; 3] = [[4096, 1024, 256], [4096, 256, 1024], [2048, 2048, 2048]];

pub(crate) fn name(shape: [usize; 3]) -> String {
    shape.map(|n| n.to_string()).join("x")
}

/// One JSON object for each shape and level.
pub(crate) fn run(args: impl Iterator<Item = String>) -> Result<(), String> {
    let threads = match &args.collect::<Vec<_>>()[..] {
        [] => 2,
        [flag, n] if flag == "--threads" => n.parse().map_err(|_| format!("--threads: expected a number, got {n}"))?,
        _ => return Err("expected nothing but --threads N".into()),
    };
    for shape in SHAPES {
        for precision in Precision::ALL {
            let gflops = gflops(shape, precision, threads)?;
            let precision = precision.name();
            println!(
                "{}",
                json!({ "shape": name(shape), "precision": precision, "gflops": gflops, "threads": threads })
            );
        }
    }
    Ok(())
}

/// GFLOP/s, the median of 15 runs after three to warm up; checks some numbers of the answer first.
fn gflops(shape: [usize; 3], precision: Precision, threads: usize) -> Result<f64, String> {
    let [rows, columns, depth] = shape;
    let normals = |n: usize, stream| (0..n as u64).map(|i| Philox::new(1, stream).normal(i)).collect::<Vec<_>>();
    let (a, b) = (normals(rows * depth, 0), normals(columns * depth, 1));
    let mut c = vec![f32::NAN; rows * columns];
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| error.to_string())?;
    pool.install(|| {
        let mut run = || -> chumoku_kernels::Result<f64> {
            let (a, b) = (MatRef::new(&a, rows, depth)?, MatRef::new(&b, columns, depth)?.t());
            let start = Instant::now();
            gemm(a, b, Start::Zero, MatMut::new(&mut c, rows, columns)?, precision)?;
            Ok(start.elapsed().as_secs_f64())
        };
        let mut times = (0..18).map(|_| run()).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        times.drain(..3);
        times.sort_by(f64::total_cmp);
        let [mut wrong, mut size] = [0.0; 2];
        for at in (0..rows * columns).step_by(9973) {
            let (a, b) = (&a[at / columns * depth..][..depth], &b[at % columns * depth..][..depth]);
            let expected: f64 = a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
            wrong += (f64::from(c[at]) - expected).powi(2);
            size += expected * expected;
        }
        let error = f64::sqrt(wrong / size);
        let allowed = [3e-2, 1e-4, 1e-5][precision as usize];
        if error.is_nan() || error > allowed {
            return Err(format!("the product {shape:?} is off by {error:e} at {}", precision.name()));
        }
        Ok(2e-9 * (rows * columns * depth) as f64 / median(&times))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_right() {
        for precision in Precision::ALL {
            assert!(gflops([65, 33, 70], precision, 1).unwrap() > 0.0);
        }
    }
}
