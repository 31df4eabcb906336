//! Speed of the matrix product, forward and backward shapes of a linear layer.
use chumoku_kernels::*;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() {
    keep_freed_memory();
    let threads = std::env::args().nth(1).map_or(1, |x| x.parse().unwrap());
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().unwrap();
    for precision in [Precision::Highest, Precision::High, Precision::Medium] {
        println!("{} {precision:?}", active_isa());
        for (m, n, k, ta, tb) in [
            (4096, 1024, 256, false, true),
            (4096, 256, 1024, false, true),
            (4096, 256, 1024, false, false),
            (1024, 256, 4096, true, false),
            (2048, 2048, 2048, false, false),
        ] {
            let (a, b) = (vec![0.5f32; m * k], vec![0.25f32; k * n]);
            let mut c = vec![0.0f32; m * n];
            let mut times = vec![];
            for _ in 0..12 {
                let a = if ta { MatRef::new(&a, k, m).unwrap().t() } else { MatRef::new(&a, m, k).unwrap() };
                let b = if tb { MatRef::new(&b, n, k).unwrap().t() } else { MatRef::new(&b, k, n).unwrap() };
                let start = Instant::now();
                gemm(a, b, Start::Zero, MatMut::new(&mut c, m, n).unwrap(), precision).unwrap();
                times.push(start.elapsed().as_secs_f64());
            }
            times.sort_by(f64::total_cmp);
            println!("{m}x{n}x{k} ta={ta} tb={tb}: {:.1} GFLOP/s", 2e-9 * (m * n * k) as f64 / times[5]);
        }
    }
}
