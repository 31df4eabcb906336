use chumoku_kernels::*;
fn numbers<T: Element>(n: usize, stream: u64) -> Vec<T> {
    let random = Philox::new(1, stream);
    (0..n).map(|i| T::of(f64::from(random.normal(i as u64)))).collect()
}
fn go<T: Element>(shape: [usize; 4], back: bool, secs: f64, p: Precision) {
    let [b, h, l, d] = shape;
    let n = b * h * l * d;
    let (q, k, v, dy) = (numbers::<T>(n, 1), numbers::<T>(n, 2), numbers::<T>(n, 3), numbers::<T>(n, 4));
    let mut y = vec![T::of(0.0); n];
    let mut lse = vec![T::Sum::ZERO; b * h * l];
    let (mut dq, mut dk, mut dv) = (vec![T::of(0.0); n], vec![T::of(0.0); n], vec![T::of(0.0); n]);
    let args = Attention::new(
        Heads::bhld(&q, shape).unwrap(),
        Heads::bhld(&k, shape).unwrap(),
        Heads::bhld(&v, shape).unwrap(),
    )
    .precision(p);
    let s = std::time::Instant::now();
    let mut times = vec![];
    while s.elapsed().as_secs_f64() < secs {
        let t = std::time::Instant::now();
        args.forward_with_log_sum_exp(HeadsMut::bhld(&mut y, shape).unwrap(), &mut lse).unwrap();
        if back {
            let saved = Saved {
                output: Heads::bhld(&y, shape).unwrap(),
                log_sum_exp: &lse,
                d_output: Heads::bhld(&dy, shape).unwrap(),
                d_log_sum_exp: None,
            };
            args.backward(
                saved,
                Gradients {
                    query: HeadsMut::bhld(&mut dq, shape).unwrap(),
                    key: HeadsMut::bhld(&mut dk, shape).unwrap(),
                    value: HeadsMut::bhld(&mut dv, shape).unwrap(),
                    mask: None,
                    sinks: None,
                },
            )
            .unwrap();
        }
        times.push(t.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    println!("{} {:?} back {} {:?}: {:.3} ms", T::NAME, shape, back, p, times[times.len() / 2]);
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let n = |i: usize| a[i].parse::<usize>().unwrap();
    rayon::ThreadPoolBuilder::new().num_threads(n(1)).build_global().unwrap();
    chumoku_kernels::keep_freed_memory();
    let shape = [n(2), n(3), n(4), n(5)];
    let back = a[7] == "b";
    let secs = a[8].parse().unwrap();
    match a[6].as_str() {
        "bf16" => go::<bf16>(shape, back, secs, Precision::Highest),
        "f16" => go::<f16>(shape, back, secs, Precision::Highest),
        "high" => go::<f32>(shape, back, secs, Precision::High),
        _ => go::<f32>(shape, back, secs, Precision::Highest),
    }
}
