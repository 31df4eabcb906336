//! Compares Chumoku's speed with its peers'. The target of `attention` is to be ahead of every peer; `all` has target
//! ratios.
//!
//! Chumoku's side is the `chumoku bench` command, PyTorch's are the scripts of `peers/`. Sides run alternately, each
//! several times. A missing peer is skipped, which standard error and the table report.
//!
//! The target ratios depend on the instruction set in use. `--isa avx2` caps both sides to AVX2, to simulate a
//! processor without more.

use crate::flags::Flags;
use crate::programs::{Programs, build, load, root};
use crate::side::{Measured, Side, digits, in_turn, median};
use chumoku_kernels::{Isa, Philox, Roofline};
use std::io::Write;
use std::path::PathBuf;

/// The name and the flags of a shape.
const SHAPES: [(&str, &str); 6] = [
    ("B1 H8 S4096 D64", "--batch 1 --heads 8 --length 4096 --dim 64"),
    ("the same, causal", "--batch 1 --heads 8 --length 4096 --dim 64 --causal"),
    ("B1 H8 S1024 D64", "--batch 1 --heads 8 --length 1024 --dim 64"),
    ("B32 H8 S100 D96", "--batch 32 --heads 8 --length 100 --dim 96"),
    ("B1 H8 S2048 D128", "--batch 1 --heads 8 --length 2048 --dim 128"),
    ("B64 H12 S32 D32", "--batch 64 --heads 12 --length 32 --dim 32"),
];

/// Target figures with AMX, with AVX-512 alone, and with AVX2 alone; 0 means no target.
type Promised = [f64; 3];
const NOTHING: Promised = [0.0; 3];

/// A forward pass of attention, or a forward and a backward pass.
struct Pass {
    name: &'static str,
    title: &'static str,
    flags: &'static str,
    /// The level of f32 products.
    precision: &'static str,
    /// The tolerated relative error; `None` means PyTorch's.
    allowed: Option<f64>,
    /// The target ratio of a shape.
    promised: fn(&str) -> Promised,
}

const PASSES: [Pass; 5] = [
    Pass {
        name: "forward-f32-highest",
        title: "forward f32 `highest`",
        flags: "--dtype f32",
        precision: "highest",
        allowed: None,
        promised: |_| [1.5, 1.3, 1.4],
    },
    Pass {
        name: "forward-f32-high",
        title: "forward f32 `high`",
        flags: "--dtype f32",
        precision: "high",
        allowed: Some(1e-5),
        promised: |shape| [if is_short(shape) { 2.0 } else { 2.8 }, 0.0, 0.0],
    },
    Pass {
        name: "forward-bf16",
        title: "forward bf16",
        flags: "--dtype bf16",
        precision: "highest",
        allowed: None,
        promised: |shape| [if shape.contains("D128") { 1.7 } else { 2.2 }, 1.5, 1.5],
    },
    Pass {
        name: "backward-f32-highest",
        title: "forward and backward f32 `highest`",
        flags: "--dtype f32 --backward",
        precision: "highest",
        allowed: None,
        promised: |shape| [1.5, 1.4, if is_short(shape) { 1.8 } else { 1.4 }],
    },
    Pass {
        name: "backward-bf16",
        title: "forward and backward bf16",
        flags: "--dtype bf16 --backward",
        precision: "highest",
        allowed: None,
        promised: |shape| [if is_short(shape) { 5.0 } else { 2.5 }, 2.0, 4.0],
    },
];

fn is_short(shape: &str) -> bool {
    shape.contains("S32 ")
}

/// The encoder of a classifier.
struct Encoder {
    title: &'static str,
    /// `train` or `infer`.
    mode: &'static str,
    flags: &'static str,
    /// True if sentences have the lengths of real ones; false if each has 128 tokens.
    is_real: bool,
    /// Chumoku's levels of precision, each with its target ratio and target share of the multipliers' limit.
    levels: &'static [(&'static str, Promised, Promised)],
}

impl Encoder {
    /// An encoder without a target.
    const fn further(title: &'static str, mode: &'static str, flags: &'static str) -> Encoder {
        let levels = &[("medium", NOTHING, NOTHING), ("high", NOTHING, NOTHING)];
        Encoder { title, mode, flags, is_real: false, levels }
    }

    fn has_promise(&self) -> bool {
        self.levels.iter().any(|&(_, ratio, share)| [ratio, share] != [NOTHING; 2])
    }
}

static ENCODERS: [Encoder; 8] = [
    Encoder {
        title: "training 4 x 256, 32 x 128 tokens",
        mode: "train",
        flags: "--layers 4 --d-model 256 --heads 8 --dropout 0.1",
        is_real: false,
        levels: &[
            ("medium", [3.5, 1.6, 2.0], [0.0, 0.0, 0.6]),
            ("high", NOTHING, NOTHING),
            ("highest", NOTHING, NOTHING),
        ],
    },
    Encoder {
        title: "training 2 x 128, lengths of sst2",
        mode: "train",
        flags: "--layers 2 --d-model 128 --heads 4 --dropout 0.1",
        is_real: true,
        levels: &[("medium", [3.0, 2.0, 2.5], NOTHING)],
    },
    Encoder {
        title: "inference 4 x 256, 32 x 128 tokens",
        mode: "infer",
        flags: "--layers 4 --d-model 256 --heads 8",
        is_real: false,
        levels: &[
            ("medium", [2.5, 1.8, 2.0], [0.0, 0.0, 0.6]),
            ("high", [1.8, 0.0, 0.0], NOTHING),
            ("highest", NOTHING, NOTHING),
        ],
    },
    Encoder {
        title: "inference 2 x 128, lengths of sst2",
        mode: "infer",
        flags: "--layers 2 --d-model 128 --heads 4",
        is_real: true,
        levels: &[("medium", [2.5, 1.8, 2.0], [0.0, 0.0, 0.6]), ("high", [1.8, 0.0, 0.0], NOTHING)],
    },
    Encoder::further("training 4 x 256 without dropout", "train", "--layers 4 --d-model 256 --heads 8 --dropout 0"),
    Encoder::further("training 6 x 384", "train", "--layers 6 --d-model 384 --heads 12 --dropout 0.1"),
    Encoder::further("training 6 x 384 without dropout", "train", "--layers 6 --d-model 384 --heads 12 --dropout 0"),
    Encoder::further("inference 6 x 384", "infer", "--layers 6 --d-model 384 --heads 12"),
];

/// The numbers of sst2's 6,920 training sentences that have 1, 2, … words.
const SENTENCES: [usize; 51] = [
    15, 70, 105, 130, 176, 162, 184, 220, 244, 222, 238, 254, 268, 272, 277, 273, 291, 275, 275, 262, 239, 253, 218,
    226, 191, 158, 203, 154, 132, 147, 116, 102, 111, 88, 55, 53, 47, 45, 22, 28, 30, 16, 16, 14, 14, 4, 6, 8, 2, 8, 1,
];
/// The number of timed sentences.
const TIMED: usize = 640;

/// Prints the table of a part for a number of threads.
type Table = fn(&mut Harness, usize);

/// Name, title and function of the parts after the passes. `all` includes the first two.
const PARTS: [(&str, &str, Table); 6] = [
    ("training", "training and inference of a classifier's encoder, tokens a second", Harness::encode),
    ("decode", "decoding: bf16, 32 heads over 8 key heads, 8,192 keys, D128", Harness::decode),
    ("window", "window: causal at 16,384, 256 keys a query", Harness::window),
    ("rust-peers", "rust-peers: forward, f32 `highest`", Harness::rust_peers),
    ("memory", "memory: forward and backward of 1x8x65536x64, f32 `highest`", Harness::memory),
    ("products", "products: GFLOP/s of C = A·Bᵀ", Harness::products),
];

/// The parts to run, their threads and rounds, and the programs of all sides.
struct Harness {
    programs: Programs,
    /// Names of parts or, for `all`, words of titles; empty means everything.
    only: Vec<String>,
    threads: Vec<usize>,
    rounds: usize,
    isa: Isa,
    /// True if the target ratios apply, as in `all`; false if the target is a ratio of 1.
    is_all: bool,
    /// The program of `peers/rust`.
    rust: Option<PathBuf>,
    /// See [`lengths`].
    lengths: tempfile::NamedTempFile,
    reached: usize,
    asked: usize,
}

/// Prints the tables of `attention` or `all`. Returns `false` if `all` misses a target.
pub(crate) fn run(flags: Flags, is_all: bool) -> Result<bool, String> {
    let mut harness = Harness::new(flags, is_all)?;
    harness.programs.head();
    println!(
        "\nOn {}{}. Times are medians in ms of {} processes of each side in turn (with the least and the largest median), \
         each with several runs; ratios are how many times as fast as the peer. **Bold**: the target is reached. Errors are \
         relative, against double precision, of the worst of output and gradients.",
        harness.isa,
        if harness.isa <= Isa::Avx2 { ", to which PyTorch is capped too" } else { "" },
        harness.rounds
    );
    for pass in &PASSES {
        let is_asked = SHAPES.iter().any(|(shape, _)| harness.ratio_asked((pass.promised)(shape)) > 0.0);
        if is_asked && harness.wants(pass.name, pass.title) {
            harness.tables(pass.title, |harness, threads| harness.pass(pass, threads));
        }
    }
    for (name, title, table) in &PARTS[..if is_all { 2 } else { PARTS.len() }] {
        let is_wanted = match *name {
            "training" => harness.encoders().next().is_some(),
            _ => harness.wants(name, title),
        };
        if is_wanted {
            harness.tables(title, table);
        }
    }
    println!("\nReached: {} of {}. Load of the machine at the end: {}", harness.reached, harness.asked, load());
    Ok(!is_all || harness.reached == harness.asked)
}

impl Harness {
    fn new(mut flags: Flags, is_all: bool) -> Result<Harness, String> {
        let python = flags.value("--python")?.unwrap_or("python3".into());
        let isa = flags.named("--isa", chumoku_kernels::isa_named)?.unwrap_or(chumoku_kernels::active_isa());
        let threads = flags.numbers("--threads", if is_all { &[2] } else { &[2, 1] })?;
        let (rounds, has_rust) = (flags.number("--rounds", 3)?, !flags.is_given("--no-rust"));
        let only = flags.list("--only")?.unwrap_or_default();
        flags.end()?;
        let parts: Vec<&str> = PASSES.iter().map(|pass| pass.name).chain(PARTS.map(|(name, ..)| name)).collect();
        if let Some(unknown) = only.iter().find(|name: &&String| !is_all && !parts.contains(&name.as_str())) {
            return Err(format!("--only: no part is called {unknown}; there are {}", parts.join(", ")));
        }
        let isa = chumoku_kernels::cap_isa(isa);
        let mut harness = Harness {
            programs: Programs::new(python, isa)?,
            only,
            threads,
            rounds,
            isa,
            is_all,
            rust: None,
            lengths: lengths().map_err(|error| format!("a file of lengths: {error}"))?,
            reached: 0,
            asked: 0,
        };
        if has_rust && !is_all && harness.wants("rust-peers", "") {
            let built = build(&root().join("bench/peers/rust"), &[], "peers");
            harness.rust = built.map_err(|problem| eprintln!("SKIPPED: candle and burn: {problem}")).ok();
        }
        Ok(harness)
    }

    fn wants(&self, name: &str, title: &str) -> bool {
        let is_wanted = |word: &String| if self.is_all { title.contains(word) } else { name == word };
        self.only.is_empty() || self.only.iter().any(is_wanted)
    }

    /// The selected encoders.
    fn encoders(&self) -> impl Iterator<Item = &'static Encoder> {
        let is_asked = |encoder: &Encoder| !self.is_all || encoder.has_promise();
        ENCODERS.iter().filter(move |encoder| is_asked(encoder) && self.wants("training", encoder.title))
    }

    /// Prints a table for each number of threads.
    fn tables(&mut self, title: &str, table: impl Fn(&mut Harness, usize)) {
        for threads in self.threads.clone() {
            println!("\n### {title}, {threads} thread{}\n", if threads == 1 { "" } else { "s" });
            table(self, threads);
        }
    }

    /// The target of `all`; 0 if there is none.
    fn promise(&self, promised: Promised) -> f64 {
        match self.isa {
            _ if !self.is_all => 0.0,
            Isa::Amx => promised[0],
            Isa::Avx512 | Isa::Avx512Bf16 => promised[1],
            _ => promised[2],
        }
    }

    /// The target ratio. The target of `attention` is to be ahead.
    fn ratio_asked(&self, promised: Promised) -> f64 {
        if self.is_all { self.promise(promised) } else { 1.0 }
    }

    /// The cells of a figure and its target. `all` counts missed targets.
    fn judge(&mut self, figure: f64, asked: f64) -> String {
        if asked == 0.0 {
            return format!("{} | –", digits(figure));
        }
        self.asked += 1;
        // NaN misses every target.
        self.reached += usize::from(figure >= asked);
        format!("{} | {}", bold(digits(figure), figure >= asked), digits(asked))
    }

    fn pass(&mut self, pass: &Pass, threads: usize) {
        head("shape | Chumoku | PyTorch | ratio | target | error | PyTorch's | limit");
        for (shape, flags) in SHAPES {
            let flags = format!("{flags} {}", pass.flags);
            let ours = self.programs.ours("attention", &format!("{flags} --precision {}", pass.precision), threads);
            let torch = self.programs.torch("torch_attention.py", &flags, threads);
            let [ours, torch] = in_turn([ours, torch], self.rounds);
            let [error, of_torch] = [&ours, &torch].map(|side| side.median("error"));
            println!(
                "| {shape} | {} | {} | {} | {} | {of_torch:.1e} | {} |",
                ours.with_spread("median_ms"),
                torch.with_spread("median_ms"),
                self.judge(ratio(&torch, &ours), self.ratio_asked((pass.promised)(shape))),
                bold(format!("{error:.1e}"), error <= pass.allowed.unwrap_or(of_torch)),
                pass.allowed.map_or("PyTorch's".into(), |allowed| format!("{allowed:.0e}")),
            );
        }
    }

    fn encode(&mut self, threads: usize) {
        head(
            "what | Chumoku | PyTorch f32 | PyTorch bf16 | ratio to the better | target | share of the limit | target",
        );
        for Encoder { title, mode, flags, is_real, levels } in self.encoders().collect::<Vec<_>>() {
            let (real, steps) = match is_real {
                true => (format!("--lengths {}", self.lengths.path().display()), "--lengths-sorted --steps 0"),
                false => (String::new(), "--steps 10"),
            };
            let ours = |level: usize| {
                let flags = format!("{flags} {real} --precision {} --profile", levels.get(level)?.0);
                self.programs.ours(mode, &flags, threads)
            };
            let torch = |precision: &str| {
                let flags = format!("{flags} {real} {steps} --mode {mode} --precision {precision}");
                self.programs.torch("torch_train.py", &flags, threads)
            };
            // Without bf16 instructions, PyTorch takes minutes for work that takes seconds in f32.
            let bf16 = if self.isa <= Isa::Avx2 { None } else { torch("bf16") };
            let [f32, bf16, ours @ ..] = in_turn([torch("f32"), bf16, ours(0), ours(1), ours(2)], self.rounds);
            let speed = |side: &Measured| side.median("tokens_per_second");
            for (&(level, promised, share), ours) in levels.iter().zip(&ours) {
                println!(
                    "| {title}, `{level}` | {} | {} | {} | {} | {} |",
                    ours.with_spread("tokens_per_second"),
                    f32.with_spread("tokens_per_second"),
                    bf16.with_spread("tokens_per_second"),
                    self.judge(speed(ours) / speed(&f32).max(speed(&bf16)), self.ratio_asked(promised)),
                    self.judge(share_of_limit(ours, threads), self.promise(share)),
                );
            }
        }
    }

    fn decode(&mut self, threads: usize) {
        head(
            "batch | Chumoku | PyTorch | ratio | GB/s | reading as many bytes, GB/s | 1 GiB, GB/s | share of the first | target",
        );
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("the system has threads");
        let reading = |bytes: usize| pool.install(|| threads as f64 * Roofline::measure_reading(bytes / threads));
        for batch in [1, 4, 16] {
            let flags =
                format!("--batch {batch} --heads 32 --kv-heads 8 --length 1 --keys 8192 --dim 128 --dtype bf16");
            let ours = self.programs.ours("attention", &flags, threads);
            let torch = self.programs.torch("torch_attention.py", &flags, threads);
            let [ours, torch] = in_turn([ours, torch], self.rounds);
            // Keys and values; the rest is negligible.
            let bytes = batch * 8 * 8192 * 128 * 2 * 2;
            let reached = bytes as f64 / ours.median("median_ms") * 1e3;
            let [same, large] = [bytes, 1 << 30].map(reading);
            println!(
                "| {batch} | {} | {} | {} | {} | {} | {} | {} |",
                ours.with_spread("median_ms"),
                torch.with_spread("median_ms"),
                ahead(ratio(&torch, &ours)),
                digits(reached / 1e9),
                digits(same / 1e9),
                digits(large / 1e9),
                self.judge(reached / same, self.promise([0.8; 3])),
            );
        }
    }

    fn window(&mut self, threads: usize) {
        let (length, keys) = (16_384u64, 256u64);
        let pairs = [length * (length + 1) / 2, length * keys - keys * (keys - 1) / 2].map(|n| n as f64);
        head("dtype | causal, ms | with the window, ms | time a pair, by the causal's");
        for dtype in ["f32", "bf16"] {
            let flags = format!("--length {length} --causal --dtype {dtype}");
            // Its own position and 255 before it.
            let windowed = format!("{flags} --window {}", keys - 1);
            let sides = [flags, windowed].map(|flags| self.programs.ours("attention", &flags, threads));
            let [causal, windowed] = in_turn(sides, self.rounds);
            println!(
                "| {dtype} | {} | {} | {} |",
                causal.with_spread("median_ms"),
                windowed.with_spread("median_ms"),
                digits(ratio(&windowed, &causal) * pairs[0] / pairs[1]),
            );
        }
    }

    fn rust_peers(&mut self, threads: usize) {
        head("shape | Chumoku | candle | ratio | burn | ratio");
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

    fn memory(&mut self, threads: usize) {
        head("ms | peak beyond inputs | of that results | the rest");
        // Output, three gradients, log-sum-exp.
        let results = 4.0 * 8.0 * 65536.0 * (4.0 * 64.0 + 1.0);
        let [ours] = in_turn([self.programs.ours("attention", "--length 65536 --backward", threads)], 1);
        let peak = ours.median("peak_bytes");
        let [peak, results, rest] =
            [peak, results, peak - results].map(|bytes| format!("{} MiB", digits(bytes / f64::from(1 << 20))));
        println!("| {} | {peak} | {results} | {rest} |", ours.with_spread("median_ms"));
    }

    fn products(&mut self, threads: usize) {
        let ours = self.programs.products(threads);
        let [ours, torch] = in_turn([ours, self.programs.torch("torch_gemm.py", "", threads)], self.rounds);
        head("shape | level | Chumoku | PyTorch | ratio");
        for shape in ["4096x1024x256", "4096x256x1024", "2048x2048x2048"] {
            for (level, dtype) in [("highest", "float32"), ("high", "float32"), ("medium", "bfloat16")] {
                let ours = ours.only("shape", shape).only("precision", level).only("product", "A·Bᵀ");
                let torch = torch.only("shape", shape).only("dtype", dtype);
                println!(
                    "| {shape} | {level} | {} | {dtype}: {} | {} |",
                    ours.with_spread("gflops"),
                    torch.with_spread("gflops"),
                    ahead(ours.median("gflops") / torch.median("gflops")),
                );
            }
        }
    }
}

/// Prints the header of a Markdown table.
fn head(columns: &str) {
    println!("| {columns} |\n|{}", "---|".repeat(columns.split(" | ").count()));
}

/// The speed as a multiple of the peer's.
fn ratio(peer: &Measured, ours: &Measured) -> f64 {
    peer.median("median_ms") / ours.median("median_ms")
}

/// A ratio, in bold if Chumoku is ahead.
fn ahead(ratio: f64) -> String {
    bold(digits(ratio), ratio >= 1.0)
}

fn bold(text: String, is_good: bool) -> String {
    if is_good { format!("**{text}**") } else { text }
}

/// The minimum time of the multipliers for a step, divided by the step's time.
fn share_of_limit(ours: &Measured, threads: usize) -> f64 {
    median(&ours.of(|report| {
        let profile = &report["profile"];
        let multiplying: f64 =
            profile["operations"].as_array()?.iter().filter_map(|row| row["ms_multiplying"].as_f64()).sum();
        Some(multiplying / threads as f64 / profile["ms_without_profile"].as_f64()?)
    }))
}

/// Writes a file with the lengths of [`TIMED`] sentences in words, in random order.
fn lengths() -> std::io::Result<tempfile::NamedTempFile> {
    let mut lengths: Vec<usize> =
        SENTENCES.iter().zip(1..).flat_map(|(&count, words)| std::iter::repeat_n(words, count)).collect();
    let random = Philox::new(1, 0);
    for i in (1..lengths.len()).rev() {
        lengths.swap(i, (f64::from(random.uniform(i as u64)) * (i + 1) as f64) as usize);
    }
    let mut file = tempfile::NamedTempFile::new()?;
    lengths.iter().take(TIMED).try_for_each(|length| writeln!(file, "{length}"))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn harness(only: &str) -> Harness {
        Harness {
            programs: Programs::default(),
            only: vec![only.into()],
            threads: vec![1],
            rounds: 1,
            isa: Isa::Avx2,
            is_all: true,
            rust: None,
            lengths: lengths().unwrap(),
            reached: 0,
            asked: 0,
        }
    }

    #[test]
    fn parts_that_do_not_exist_are_refused() {
        let flags = Flags::new(["--only", "swim"].map(String::from));
        assert!(Harness::new(flags, false).err().unwrap().contains("forward-f32-highest"));
    }

    #[test]
    fn parts_are_wanted_by_name_or_by_words_of_their_title() {
        let mut harness = harness("training");
        let encoders = |harness: &Harness| harness.encoders().map(|encoder| encoder.title).collect::<Vec<_>>();
        assert_eq!(encoders(&harness), ["training 4 x 256, 32 x 128 tokens", "training 2 x 128, lengths of sst2"]);
        harness.is_all = false;
        assert_eq!(encoders(&harness).len(), ENCODERS.len());
        assert!(harness.wants("training", "") && !harness.wants("decode", "not training"));
    }

    #[test]
    fn what_is_not_measured_is_not_reached() {
        let mut all = harness("");
        let promised = all.ratio_asked([0.0, 0.0, 1.5]);
        assert_eq!(all.judge(1.5, promised), "**1.50** | 1.50");
        assert_eq!(all.judge(1.49, promised), "1.49 | 1.50");
        assert_eq!(all.judge(f64::NAN, promised), "– | 1.50");
        assert_eq!(all.judge(9.0, 0.0), "9.00 | –");
        assert_eq!((all.reached, all.asked), (1, 3));
        assert_eq!([ahead(1.0), ahead(0.99), ahead(f64::NAN)], ["**1.00**", "0.990", "–"]);
    }

    #[test]
    fn lengths_are_those_of_sentences() {
        assert_eq!(SENTENCES.iter().sum::<usize>(), 6920);
        let text = std::fs::read_to_string(lengths().unwrap().path()).unwrap();
        let lengths: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(lengths.len(), TIMED);
        let mean = lengths.iter().sum::<usize>() as f64 / TIMED as f64;
        assert!((18.0..21.0).contains(&mean), "{mean}");
        assert!(lengths[..9].windows(2).any(|pair| pair[0] > pair[1]));
    }

    #[test]
    fn the_share_of_the_limit_is_that_of_multiplying() {
        let report = r#"{"profile": {"ms_without_profile": 10.0, "operations": [{"ms_multiplying": 4.0}, {"ms_multiplying": 6.0}]}}"#;
        let [ours] = in_turn([Some(Side::new("echo", [report]))], 1);
        assert_eq!(share_of_limit(&ours, 2), 0.5);
    }
}
