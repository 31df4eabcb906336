//! How fast attention runs here: `cargo run --release -p chumoku-kernels --example attention_speed [threads]`.

use chumoku_kernels::*;
use std::time::Instant;

fn numbers<T: Element>(n: usize, stream: u64) -> Vec<T> {
    let random = Philox::new(1, stream);
    (0..n).map(|i| T::of(f64::from(random.normal(i as u64)))).collect()
}

fn run<T: Element>(shape: [usize; 4], causal: bool, precision: Precision) {
    let [b, h, l, d] = shape;
    let n = b * h * l * d;
    let (q, k, v, dy) = (numbers::<T>(n, 1), numbers::<T>(n, 2), numbers::<T>(n, 3), numbers::<T>(n, 4));
    let mut y = vec![T::of(0.0); n];
    let mut lse = vec![T::Sum::ZERO; b * h * l];
    fn view<T>(x: &[T], shape: [usize; 4]) -> Heads<'_, T> {
        Heads::bhld(x, shape).unwrap()
    }
    let mut args = Attention::new(view(&q, shape), view(&k, shape), view(&v, shape)).precision(precision);
    if causal {
        args = args.causal(Causal::TopLeft);
    }
    let mut times = Vec::new();
    let start = Instant::now();
    while times.len() < 3 || (start.elapsed().as_secs_f64() < 0.7 && times.len() < 200) {
        let start = Instant::now();
        args.forward_with_log_sum_exp(HeadsMut::bhld(&mut y, shape).unwrap(), &mut lse).unwrap();
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let (mut error, mut size) = (0.0, 0.0);
    for row in 0..20 {
        let (s, h, i) = (row % b, row * 7 % h, row * 7919 % l);
        let truth = reference::attention_row(&args, s, h, i);
        let found = Heads::bhld(&y, shape).unwrap();
        for (y, t) in found.row(s, h, i).iter().zip(&truth.output) {
            error += (y.to_f64() - t).powi(2);
            size += t * t;
        }
    }
    let (dq, dk, dv) = (&mut vec![T::of(0.0); n], &mut vec![T::of(0.0); n], &mut vec![T::of(0.0); n]);
    let mut both = Vec::new();
    if std::env::args().nth(2).is_some() {
        for _ in 0..times.len().min(20) {
            let start = Instant::now();
            args.forward_with_log_sum_exp(HeadsMut::bhld(&mut y, shape).unwrap(), &mut lse).unwrap();
            let saved =
                Saved { output: view(&y, shape), log_sum_exp: &lse, d_output: view(&dy, shape), d_log_sum_exp: None };
            let [query, key, value] = [&mut *dq, dk, dv].map(|x| HeadsMut::bhld(x, shape).unwrap());
            args.backward(saved, Gradients { query, key, value, mask: None, sinks: None }).unwrap();
            both.push(start.elapsed().as_secs_f64() * 1e3);
        }
        both.sort_by(f64::total_cmp);
    }
    println!(
        "{} {shape:?} causal {causal} {}: forward {:.3} ms (best {:.3}), relative error {:.1e}; both {:.3} ms",
        T::NAME,
        precision.name(),
        times[times.len() / 2],
        times[0],
        (error / size).sqrt(),
        both.get(both.len() / 2).copied().unwrap_or(f64::NAN),
    );
}

fn main() {
    let threads = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(2);
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().unwrap();
    println!("{}, {threads} threads", active_isa());
    let shapes = [
        ([1, 8, 4096, 64], false),
        ([1, 8, 4096, 64], true),
        ([1, 8, 1024, 64], false),
        ([32, 8, 100, 96], false),
        ([1, 8, 2048, 128], false),
        ([64, 12, 32, 32], false),
    ];
    for (shape, causal) in shapes {
        for precision in [Precision::Highest, Precision::High] {
            run::<f32>(shape, causal, precision);
        }
        run::<bf16>(shape, causal, Precision::Highest);
        run::<f16>(shape, causal, Precision::Highest);
    }
}
