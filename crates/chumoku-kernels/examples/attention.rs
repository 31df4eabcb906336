//! Attention of random values, and the kernel that it uses.
//!
//! ```text
//! cargo run --release -p chumoku-kernels --example attention
//! ```

use chumoku_kernels::{Attention, Causal, Heads, HeadsMut, Philox};

fn main() -> chumoku_kernels::Result<()> {
    // One sequence of 1,024 tokens, eight heads of width 64.
    let shape = [1, 8, 1024, 64];
    let size = shape.iter().product();
    let normal = |stream| -> Vec<f32> { (0..size as u64).map(|i| Philox::new(1, stream).normal(i)).collect() };
    let (query, key, value) = (normal(0), normal(1), normal(2));
    let mut output = vec![0.0; size];

    let attention = Attention::new(Heads::bhld(&query, shape)?, Heads::bhld(&key, shape)?, Heads::bhld(&value, shape)?)
        .causal(Causal::TopLeft);
    attention.forward(HeadsMut::bhld(&mut output, shape)?)?;
    println!("{}", attention.explain()?);
    println!("the last query's first numbers: {:.3?}", &output[size - 64..][..4]);
    Ok(())
}
