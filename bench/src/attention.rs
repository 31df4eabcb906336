//! The kernels beside their peers. In bold is where Chumoku is ahead, and where its error is within the limit beside it.
//!
//! Ours is the `chumoku` command that lies beside this program, the peers are the scripts of `peers/`. Sides run in
//! turn, each several times; a peer that is not there is skipped, which is said on standard error and in the table.

use crate::programs::{Programs, build, load, root};
use crate::side::{Measured, Side, digits, in_turn};
use crate::{bandwidth, product};
use std::path::PathBuf;

/// A shape of the table: its name, and the flags that all sides take.
pub(crate) type Shape = (&'static str, &'static str);

pub(crate) const SHAPES: [Shape; 6] = [
    ("B1 H8 S4096 D64", "--batch 1 --heads 8 --length 4096 --dim 64"),
    ("the same, causal", "--batch 1 --heads 8 --length 4096 --dim 64 --causal"),
    ("B1 H8 S1024 D64", "--batch 1 --heads 8 --length 1024 --dim 64"),
    ("B32 H8 S100 D96", "--batch 32 --heads 8 --length 100 --dim 96"),
    ("B1 H8 S2048 D128", "--batch 1 --heads 8 --length 2048 --dim 128"),
    ("B64 H12 S32 D32", "--batch 64 --heads 12 --length 32 --dim 32"),
];

/// A row of the table.
struct Row {
    part: &'static str,
    /// Flags of both sides.
    flags: &'static str,
    /// Flags of ours alone.
    ours: &'static str,
    /// The relative error allowed; `None`: as much as PyTorch's.
    allowed: Option<f64>,
}

const ROWS: [Row; 5] = [
    Row { part: "forward-f32-highest", flags: "--dtype f32", ours: "--precision highest", allowed: None },
    Row { part: "forward-f32-high", flags: "--dtype f32", ours: "--precision high", allowed: Some(1e-5) },
    Row { part: "forward-bf16", flags: "--dtype bf16", ours: "", allowed: None },
    Row { part: "backward-f32-highest", flags: "--dtype f32 --backward", ours: "--precision highest", allowed: None },
    Row { part: "backward-bf16", flags: "--dtype bf16 --backward", ours: "", allowed: None },
];

/// The parts that are no rows of the table.
const OTHERS: [&str; 6] = ["decode", "window", "rust-peers", "memory", "products", "training"];

/// What to run, and with what.
struct Harness {
    only: Vec<String>,
    threads: Vec<usize>,
    rounds: usize,
    programs: Programs,
    /// The program of `peers/rust`.
    rust: Option<PathBuf>,
}

/// Runs the parts and prints them.
pub(crate) fn run(args: impl Iterator<Item = String>) -> Result<(), String> {
    let harness = Harness::new(args)?;
    harness.programs.head();
    println!(
        "\nTimes are medians in ms of {} processes of each side in turn (with the least and the largest median), each with \
         several runs; ratios are the peer's time by ours. **Bold**: reached. Errors are relative, against double precision, \
         of the worst of output and gradients.",
        harness.rounds
    );
    for row in ROWS.iter().filter(|row| harness.wants(row.part)) {
        harness.for_threads(row.part, |threads| harness.row(row, threads));
    }
    if harness.wants("decode") {
        harness.for_threads("decode: bf16, 32 heads over 8 key heads, 8,192 keys, D128", |n| harness.decode(n));
    }
    if harness.wants("window") {
        harness.for_threads("window: causal at 16,384, 256 keys a query", |n| harness.window(n));
    }
    if harness.wants("rust-peers") {
        harness.for_threads("rust-peers: forward, f32 `highest`", |n| harness.rust_peers(n));
    }
    if harness.wants("memory") {
        harness.memory();
    }
    if harness.wants("products") {
        harness.for_threads("products: GFLOP/s of C = A·Bᵀ", |n| harness.products(n));
    }
    if harness.wants("training") {
        harness.for_threads("training: tokens a second, 32x128 tokens a batch", |n| harness.training(n));
    }
    println!("\nLoad of the machine at the end: {}", load());
    Ok(())
}

impl Harness {
    fn new(mut args: impl Iterator<Item = String>) -> Result<Harness, String> {
        let parts: Vec<&str> = ROWS.iter().map(|row| row.part).chain(OTHERS).collect();
        let mut harness = Harness {
            only: Vec::new(),
            threads: vec![2, 1],
            rounds: 3,
            programs: Programs::default(),
            rust: Some(PathBuf::new()),
        };
        let mut python = "python3".into();
        while let Some(flag) = args.next() {
            if flag == "--no-rust" {
                harness.rust = None;
                continue;
            }
            let value = args.next().ok_or(format!("{flag}: expected a value"))?;
            let number = |text: &str| match text.parse() {
                Ok(n) if n >= 1 => Ok(n),
                _ => Err(format!("{flag}: expected numbers of at least 1, got {value}")),
            };
            match flag.as_str() {
                "--only" => harness.only = value.split(',').map(String::from).collect(),
                "--threads" => harness.threads = value.split(',').map(number).collect::<Result<_, _>>()?,
                "--rounds" => harness.rounds = number(&value)?,
                "--python" => python = value.into(),
                _ => return Err(format!("unknown flag {flag}")),
            }
        }
        if let Some(unknown) = harness.only.iter().find(|part| !parts.contains(&part.as_str())) {
            return Err(format!("--only: no part is called {unknown}; there are {}", parts.join(", ")));
        }
        harness.programs = Programs::new(python)?;
        if harness.rust.is_some() && harness.wants("rust-peers") {
            let built = build(&root().join("bench/peers/rust"), &[], "peers");
            harness.rust = built.map_err(|problem| eprintln!("SKIPPED: candle and burn: {problem}")).ok();
        }
        Ok(harness)
    }

    fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == part)
    }

    fn for_threads(&self, title: &str, part: impl Fn(usize)) {
        for &threads in &self.threads {
            println!("\n### {title}, {threads} thread{}\n", if threads == 1 { "" } else { "s" });
            part(threads);
        }
    }

    fn row(&self, row: &Row, threads: usize) {
        println!("| shape | Chumoku | PyTorch | ratio | error | PyTorch's | limit |");
        println!("|---|---|---|---|---|---|---|");
        for (shape, flags) in SHAPES {
            let flags = format!("{flags} {}", row.flags);
            let ours = self.programs.ours("attention", &format!("{flags} {}", row.ours), threads);
            let [ours, torch] =
                in_turn([ours, self.programs.torch("torch_attention.py", &flags, threads)], self.rounds);
            let errors = [&ours, &torch].map(|side| side.median("error"));
            let allowed = row.allowed.unwrap_or(errors[1]);
            println!(
                "| {shape} | {} | {} | {} | {} | {:.1e} | {} |",
                ours.with_spread("median_ms"),
                torch.with_spread("median_ms"),
                ahead(ratio(&torch, &ours)),
                bold(format!("{:.1e}", errors[0]), errors[0] <= allowed),
                errors[1],
                row.allowed.map_or("PyTorch's".into(), |allowed| format!("{allowed:.0e}")),
            );
        }
    }

    fn decode(&self, threads: usize) {
        println!(
            "| batch | Chumoku, ms | PyTorch, ms | ratio | GB/s | reading as many bytes, GB/s | 1 GiB, GB/s | \
             share of the first |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        for batch in [1, 4, 16] {
            let flags =
                format!("--batch {batch} --heads 32 --kv-heads 8 --length 1 --keys 8192 --dim 128 --dtype bf16");
            let ours = self.programs.ours("attention", &flags, threads);
            let [ours, torch] =
                in_turn([ours, self.programs.torch("torch_attention.py", &flags, threads)], self.rounds);
            // Keys and values; the rest is next to nothing.
            let bytes = batch * 8 * 8192 * 128 * 2 * 2;
            let [same, large] = [bytes, 1 << 30].map(|bytes| bandwidth::of_reading(bytes, threads));
            let reached = bytes as f64 / ours.median("median_ms") * 1e3;
            println!(
                "| {batch} | {} | {} | {} | {} | {} | {} | {} |",
                ours.with_spread("median_ms"),
                torch.with_spread("median_ms"),
                ahead(ratio(&torch, &ours)),
                digits(reached / 1e9),
                digits(same / 1e9),
                digits(large / 1e9),
                digits(reached / same),
            );
        }
    }

    fn window(&self, threads: usize) {
        let (length, keys) = (16_384u64, 256u64);
        let pairs = [length * (length + 1) / 2, length * keys - keys * (keys - 1) / 2].map(|n| n as f64);
        println!("| dtype | causal, ms | with the window, ms | time a pair, by the causal's |");
        println!("|---|---|---|---|");
        for dtype in ["f32", "bf16"] {
            let flags = format!("--length {length} --causal --dtype {dtype}");
            // Its own place and 255 before.
            let windowed = format!("{flags} --window {}", keys - 1);
            let sides = [flags, windowed].map(|flags| self.programs.ours("attention", &flags, threads));
            let [causal, windowed] = in_turn(sides, self.rounds);
            let times = [&causal, &windowed].map(|side| side.median("median_ms"));
            let share = times[1] / pairs[1] / (times[0] / pairs[0]);
            println!(
                "| {dtype} | {} | {} | {} |",
                causal.with_spread("median_ms"),
                windowed.with_spread("median_ms"),
                digits(share),
            );
        }
    }

    fn rust_peers(&self, threads: usize) {
        println!("| shape | Chumoku | candle | ratio | burn | ratio |");
        println!("|---|---|---|---|---|---|");
        for (shape, flags) in SHAPES {
            let peer = |name: &str| {
                let args = format!("{name} {flags} --threads {threads}");
                Some(Side::new(self.rust.as_ref()?, args.split_whitespace()))
            };
            let sides = [self.programs.ours("attention", flags, threads), peer("candle"), peer("burn")];
            let [ours, candle, burn] = in_turn(sides, self.rounds);
            println!(
                "| {shape} | {} | {} | {} | {} | {} |",
                ours.with_spread("median_ms"),
                candle.with_spread("median_ms"),
                ahead(ratio(&candle, &ours)),
                burn.with_spread("median_ms"),
                ahead(ratio(&burn, &ours)),
            );
        }
    }

    fn memory(&self) {
        println!("\n### memory: forward and backward of 1x8x65536x64, f32 `highest`\n");
        println!("| threads | ms | peak beyond inputs | of that results | the rest |");
        println!("|---|---|---|---|---|");
        let rows = 8.0 * 65536.0;
        // Output, three gradients, log-sum-exp.
        let results = 4.0 * (4.0 * rows * 64.0 + rows);
        for &threads in &self.threads {
            let side = self.programs.ours("attention", "--heads 8 --length 65536 --dim 64 --backward", threads);
            let [ours] = in_turn([side], 1);
            let peak = ours.median("peak_bytes");
            let mebibytes = |bytes: f64| format!("{} MiB", digits(bytes / (1 << 20) as f64));
            println!(
                "| {threads} | {} | {} | {} | {} |",
                ours.with_spread("median_ms"),
                mebibytes(peak),
                mebibytes(results),
                mebibytes(peak - results),
            );
        }
    }

    fn products(&self, threads: usize) {
        let ours = std::env::current_exe().ok();
        let ours = ours.map(|program| Side::new(program, ["product", "--threads", &threads.to_string()]));
        let [ours, torch] = in_turn([ours, self.programs.torch("torch_gemm.py", "", threads)], self.rounds);
        println!("| shape | level | Chumoku | PyTorch | ratio |");
        println!("|---|---|---|---|---|");
        for shape in product::SHAPES.map(product::name) {
            for (level, dtype) in [("highest", "float32"), ("high", "float32"), ("medium", "bfloat16")] {
                let ours = ours.only("shape", &shape).only("precision", level);
                let torch = torch.only("shape", &shape).only("dtype", dtype);
                println!(
                    "| {shape} | {level} | {} | {dtype}: {} | {} |",
                    ours.with_spread("gflops"),
                    torch.with_spread("gflops"),
                    ahead(ours.median("gflops") / torch.median("gflops")),
                );
            }
        }
    }

    fn training(&self, threads: usize) {
        println!(
            "| model | | Chumoku, `high` | PyTorch f32 | PyTorch bf16 autocast | ratio to the better | \
             Chumoku, `medium` | its ratio |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        let models = [
            ("4 layers, d_model 256, 8 heads", "--layers 4 --d-model 256 --heads 8"),
            ("6 layers, d_model 384, 12 heads", "--layers 6 --d-model 384 --heads 12"),
        ];
        let modes = [
            ("train", "training, dropout 0.1", "--dropout 0.1"),
            ("train", "training, dropout 0", "--dropout 0"),
            ("infer", "inference", ""),
        ];
        for (model, sizes) in models {
            for (mode, doing, dropout) in modes {
                let flags = format!("{sizes} {dropout}");
                let torch = |precision: &str| {
                    let flags = format!("{flags} --mode {mode} --precision {precision} --steps 10");
                    self.programs.torch("torch_train.py", &flags, threads)
                };
                let ours = |level: &str| self.programs.ours(mode, &format!("{flags} --precision {level}"), threads);
                let sides = [ours("high"), ours("medium"), torch("f32"), torch("bf16")];
                let [high, medium, f32, bf16] = in_turn(sides, self.rounds);
                let speed = |side: &Measured| side.median("tokens_per_second");
                let of_peer = speed(&f32).max(speed(&bf16));
                println!(
                    "| {model} | {doing} | {} | {} | {} | {} | {} | {} |",
                    high.with_spread("tokens_per_second"),
                    f32.with_spread("tokens_per_second"),
                    bf16.with_spread("tokens_per_second"),
                    ahead(speed(&high) / of_peer),
                    medium.with_spread("tokens_per_second"),
                    ahead(speed(&medium) / of_peer),
                );
            }
        }
    }
}

/// The peer's time by ours.
pub(crate) fn ratio(peer: &Measured, ours: &Measured) -> f64 {
    peer.median("median_ms") / ours.median("median_ms")
}

/// How many times as fast as the peer; bold where it is faster.
fn ahead(ratio: f64) -> String {
    bold(digits(ratio), ratio >= 1.0)
}

fn bold(text: String, is_good: bool) -> String {
    if is_good { format!("**{text}**") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_cannot_be() {
        let refused = |args: &str| Harness::new(args.split(' ').map(String::from)).err().unwrap();
        assert!(refused("--only swim").contains("forward-f32-highest"));
        assert!(refused("--threads 2,0").contains("--threads"));
        assert!(refused("--rounds").contains("--rounds"));
        assert!(refused("--colour x").contains("--colour"));
    }

    #[test]
    fn what_is_reached_is_bold() {
        assert_eq!([ahead(1.0), ahead(0.99), ahead(f64::NAN)], ["**1.00**", "0.990", "–"]);
    }
}
