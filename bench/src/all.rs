//! Everything that speed is asked of, as one table: what is reached, and what is asked.
//!
//! What is asked depends on the instruction set in force: AMX, AVX-512 without it, or AVX2 alone. Capped to AVX2, both sides
//! are (`--isa avx2`), which stands in for a processor that has no more.

use crate::attention::{SHAPES, ratio};
use crate::bandwidth;
use crate::programs::{Programs, load};
use crate::side::{Measured, digits, in_turn, median};
use chumoku_kernels::{Isa, Philox};
use std::io::Write;

/// What is asked with AMX, with AVX-512 alone, and with AVX2 alone; 0 where nothing is.
type Asked = [f64; 3];
/// AVX2's place in it.
const AVX2: usize = 2;

/// Rows of the first table: forward and backward passes of attention.
struct Pass {
    name: &'static str,
    flags: &'static str,
    /// Flags of ours alone.
    ours: &'static str,
    asked: fn(&str) -> Asked,
}

const PASSES: [Pass; 5] = [
    Pass {
        name: "forward f32 `highest`",
        flags: "--dtype f32",
        ours: "--precision highest",
        asked: |_| [1.5, 1.3, 1.4],
    },
    Pass {
        name: "forward f32 `high`",
        flags: "--dtype f32",
        ours: "--precision high",
        asked: |shape| [if is_short(shape) { 2.0 } else { 2.8 }, 0.0, 0.0],
    },
    Pass {
        name: "forward bf16",
        flags: "--dtype bf16",
        ours: "",
        asked: |shape| [if shape.contains("D128") { 1.7 } else { 2.2 }, 1.5, 1.5],
    },
    Pass {
        name: "forward and backward f32 `highest`",
        flags: "--dtype f32 --backward",
        ours: "--precision highest",
        asked: |shape| [1.5, 1.4, if is_short(shape) { 1.8 } else { 1.4 }],
    },
    Pass {
        name: "forward and backward bf16",
        flags: "--dtype bf16 --backward",
        ours: "",
        asked: |shape| [if is_short(shape) { 5.0 } else { 2.5 }, 2.0, 4.0],
    },
];

fn is_short(shape: &str) -> bool {
    shape.contains("S32 ")
}

/// Rows of the second table: a classifier's encoder.
struct Task {
    name: &'static str,
    /// `train` or `infer`.
    mode: &'static str,
    flags: &'static str,
    /// Whether sentences have the lengths of real ones.
    is_real: bool,
    /// Our level of precision.
    precision: &'static str,
    asked: Asked,
    /// The share of the multipliers' limit that is asked.
    share: Asked,
}

const LARGE: &str = "--layers 4 --d-model 256 --heads 8 --dropout 0.1";
const SMALL: &str = "--layers 2 --d-model 128 --heads 4 --dropout 0.1";

const TASKS: [Task; 8] = [
    Task {
        name: "training 4 x 256, 32 x 128 tokens",
        mode: "train",
        flags: LARGE,
        is_real: false,
        precision: "medium",
        asked: [3.5, 1.6, 2.0],
        share: [0.0, 0.0, 0.6],
    },
    Task {
        name: "training 2 x 128, lengths of sst2",
        mode: "train",
        flags: SMALL,
        is_real: true,
        precision: "medium",
        asked: [3.0, 2.0, 2.5],
        share: [0.0; 3],
    },
    Task {
        name: "inference 4 x 256, 32 x 128 tokens",
        mode: "infer",
        flags: LARGE,
        is_real: false,
        precision: "medium",
        asked: [2.5, 1.8, 2.0],
        share: [0.0, 0.0, 0.6],
    },
    Task {
        name: "inference 4 x 256 at `high`",
        mode: "infer",
        flags: LARGE,
        is_real: false,
        precision: "high",
        asked: [1.8, 0.0, 0.0],
        share: [0.0; 3],
    },
    Task {
        name: "inference 2 x 128, lengths of sst2",
        mode: "infer",
        flags: SMALL,
        is_real: true,
        precision: "medium",
        asked: [2.5, 1.8, 2.0],
        share: [0.0, 0.0, 0.6],
    },
    Task {
        name: "inference 2 x 128 at `high`",
        mode: "infer",
        flags: SMALL,
        is_real: true,
        precision: "high",
        asked: [1.8, 0.0, 0.0],
        share: [0.0; 3],
    },
    Task {
        name: "training 4 x 256 at `highest`",
        mode: "train",
        flags: LARGE,
        is_real: false,
        precision: "highest",
        asked: [0.0; 3],
        share: [0.0; 3],
    },
    Task {
        name: "inference 4 x 256 at `highest`",
        mode: "infer",
        flags: LARGE,
        is_real: false,
        precision: "highest",
        asked: [0.0; 3],
        share: [0.0; 3],
    },
];

/// How many of sst2's 6,920 training sentences have 1, 2, … words.
const SENTENCES: [usize; 51] = [
    15, 70, 105, 130, 176, 162, 184, 220, 244, 222, 238, 254, 268, 272, 277, 273, 291, 275, 275, 262, 239, 253, 218,
    226, 191, 158, 203, 154, 132, 147, 116, 102, 111, 88, 55, 53, 47, 45, 22, 28, 30, 16, 16, 14, 14, 4, 6, 8, 2, 8, 1,
];
/// Sentences that are timed.
const TIMED: usize = 640;

/// The harness at work.
struct All {
    programs: Programs,
    only: Vec<String>,
    threads: usize,
    rounds: usize,
    /// Of the table above.
    column: usize,
    reached: usize,
    asked: usize,
}

/// Runs everything; whether all that is asked was reached.
pub(crate) fn run(mut args: impl Iterator<Item = String>) -> Result<bool, String> {
    let (mut python, mut isa, mut only) = ("python3".into(), None, Vec::new());
    let (mut threads, mut rounds) = (2, 3);
    while let Some(flag) = args.next() {
        let value = args.next().ok_or(format!("{flag}: expected a value"))?;
        let number = || match value.parse() {
            Ok(n) if n >= 1 => Ok(n),
            _ => Err(format!("{flag}: expected a number of at least 1, got {value}")),
        };
        match flag.as_str() {
            "--python" => python = value.into(),
            "--threads" => threads = number()?,
            "--rounds" => rounds = number()?,
            "--only" => only = value.split(',').map(String::from).collect(),
            "--isa" => {
                isa = Some(
                    chumoku_kernels::isa_named(&value).ok_or(format!("--isa: no instruction set is called {value}"))?,
                );
            }
            _ => return Err(format!("unknown flag {flag}")),
        }
    }
    let isa = chumoku_kernels::cap_isa(isa.unwrap_or(chumoku_kernels::active_isa()));
    let mut programs = Programs::new(python)?;
    programs.environment.push(("CHUMOKU_ISA", isa.name().into()));
    if isa <= Isa::Avx2 {
        for (name, value) in
            [("ATEN_CPU_CAPABILITY", "avx2"), ("ONEDNN_MAX_CPU_ISA", "AVX2"), ("MKL_ENABLE_INSTRUCTIONS", "AVX2")]
        {
            programs.environment.push((name, value.into()));
        }
    }
    let column = match isa {
        Isa::Amx => 0,
        Isa::Avx512 | Isa::Avx512Bf16 => 1,
        _ => AVX2,
    };
    let mut all = All { programs, only, threads, rounds, column, reached: 0, asked: 0 };
    all.programs.head();
    println!(
        "\n{threads} threads on {isa}{}; medians of {rounds} processes of each side in turn. Ratios are how many times as fast \
         as the peer; **bold**: as much as is asked.",
        if isa <= Isa::Avx2 { " on both sides" } else { "" }
    );
    all.passes();
    all.tasks()?;
    all.decoding();
    println!("\nReached: {} of {}. Load of the machine at the end: {}", all.reached, all.asked, load());
    Ok(all.reached == all.asked)
}

impl All {
    fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| part.contains(wanted.as_str()))
    }

    /// The cells of what is reached and what is asked.
    fn judge(&mut self, reached: f64, asked: f64) -> String {
        if asked == 0.0 {
            return format!("{} | –", digits(reached));
        }
        self.asked += 1;
        // NaN reaches nothing.
        let is_reached = reached >= asked;
        self.reached += usize::from(is_reached);
        let figure = if is_reached { format!("**{}**", digits(reached)) } else { digits(reached) };
        format!("{figure} | {}", digits(asked))
    }

    fn passes(&mut self) {
        for pass in PASSES {
            if !self.wants(pass.name) || SHAPES.iter().all(|(shape, _)| (pass.asked)(shape)[self.column] == 0.0) {
                continue;
            }
            println!(
                "\n### {}\n\n| shape | Chumoku, ms | PyTorch, ms | ratio | asked | error | PyTorch's |",
                pass.name
            );
            println!("|---|---|---|---|---|---|---|");
            for (shape, flags) in SHAPES {
                let flags = format!("{flags} {}", pass.flags);
                let ours = self.programs.ours("attention", &format!("{flags} {}", pass.ours), self.threads);
                let torch = self.programs.torch("torch_attention.py", &flags, self.threads);
                let [ours, torch] = in_turn([ours, torch], self.rounds);
                println!(
                    "| {shape} | {} | {} | {} | {:.1e} | {:.1e} |",
                    ours.with_spread("median_ms"),
                    torch.with_spread("median_ms"),
                    self.judge(ratio(&torch, &ours), (pass.asked)(shape)[self.column]),
                    ours.median("error"),
                    torch.median("error"),
                );
            }
        }
    }

    fn tasks(&mut self) -> Result<(), String> {
        if !TASKS.iter().any(|task| self.wants(task.name)) {
            return Ok(());
        }
        let (_folder, lengths) = lengths()?;
        println!(
            "\n### a classifier's encoder, tokens a second\n\n| what | Chumoku | PyTorch f32 | PyTorch bf16 | ratio to the \
             better | asked | share of the multipliers' limit | asked |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        for task in TASKS {
            if !self.wants(task.name) {
                continue;
            }
            let real = format!("--lengths {lengths}");
            let (real, steps) =
                if task.is_real { (real, "--lengths-sorted --steps 0") } else { (String::new(), "--steps 10") };
            let flags = format!("{} {real}", task.flags);
            let ours = format!("{flags} --precision {} --profile", task.precision);
            let torch = |precision: &str| {
                let flags = format!("{flags} {steps} --mode {} --precision {precision}", task.mode);
                self.programs.torch("torch_train.py", &flags, self.threads)
            };
            // Where no instruction multiplies bf16, PyTorch takes minutes for what it does in seconds in f32.
            let bf16 = if self.column == AVX2 { None } else { torch("bf16") };
            let [ours, f32, bf16] =
                in_turn([self.programs.ours(task.mode, &ours, self.threads), torch("f32"), bf16], self.rounds);
            let speed = |side: &Measured| side.median("tokens_per_second");
            let ratio = speed(&ours) / speed(&f32).max(speed(&bf16));
            println!(
                "| {} | {} | {} | {} | {} | {} |",
                task.name,
                ours.with_spread("tokens_per_second"),
                f32.with_spread("tokens_per_second"),
                bf16.with_spread("tokens_per_second"),
                self.judge(ratio, task.asked[self.column]),
                self.judge(share_of_limit(&ours, self.threads), task.share[self.column]),
            );
        }
        Ok(())
    }

    fn decoding(&mut self) {
        if !self.wants("decoding") {
            return;
        }
        println!(
            "\n### decoding: bf16, 32 heads over 8 key heads, 8,192 keys, D128\n\n| batch | Chumoku, ms | PyTorch, ms | ratio | \
             GB/s | reading as many bytes, GB/s | share | asked |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        for batch in [1, 4, 16] {
            let flags =
                format!("--batch {batch} --heads 32 --kv-heads 8 --length 1 --keys 8192 --dim 128 --dtype bf16");
            let ours = self.programs.ours("attention", &flags, self.threads);
            let torch = self.programs.torch("torch_attention.py", &flags, self.threads);
            let [ours, torch] = in_turn([ours, torch], self.rounds);
            // Keys and values; the rest is next to nothing.
            let bytes = batch * 8 * 8192 * 128 * 2 * 2;
            let reading = bandwidth::of_reading(bytes, self.threads);
            let reached = bytes as f64 / ours.median("median_ms") * 1e3;
            println!(
                "| {batch} | {} | {} | {} | {} | {} | {} |",
                ours.with_spread("median_ms"),
                torch.with_spread("median_ms"),
                digits(ratio(&torch, &ours)),
                digits(reached / 1e9),
                digits(reading / 1e9),
                self.judge(reached / reading, 0.8),
            );
        }
    }
}

/// The time that the multipliers need for a step at least, by the step's time.
fn share_of_limit(ours: &Measured, threads: usize) -> f64 {
    median(&ours.of(|report| {
        let profile = &report["profile"];
        let multiplying: f64 =
            profile["operations"].as_array()?.iter().filter_map(|row| row["ms_multiplying"].as_f64()).sum();
        Some(multiplying / threads as f64 / profile["ms_without_profile"].as_f64()?)
    }))
}

/// A file with the lengths of sentences in words, in random order, and the folder that holds it until it is dropped.
fn lengths() -> Result<(tempfile::TempDir, String), String> {
    let mut lengths: Vec<usize> =
        SENTENCES.iter().zip(1..).flat_map(|(&count, words)| std::iter::repeat_n(words, count)).collect();
    let random = Philox::new(1, 0);
    for i in (1..lengths.len()).rev() {
        lengths.swap(i, (f64::from(random.uniform(i as u64)) * (i + 1) as f64) as usize);
    }
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("lengths.txt");
    let mut file = std::fs::File::create(&path).map_err(|error| error.to_string())?;
    lengths.iter().take(TIMED).try_for_each(|length| writeln!(file, "{length}")).map_err(|error| error.to_string())?;
    Ok((folder, path.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::side::Side;

    #[test]
    fn what_is_not_measured_is_not_reached() {
        let mut all = All {
            programs: Programs::default(),
            only: vec!["decoding".into()],
            threads: 1,
            rounds: 1,
            column: 0,
            reached: 0,
            asked: 0,
        };
        assert_eq!(all.judge(1.5, 1.5), "**1.50** | 1.50");
        assert_eq!(all.judge(1.49, 1.5), "1.49 | 1.50");
        assert_eq!(all.judge(f64::NAN, 1.5), "– | 1.50");
        assert_eq!(all.judge(9.0, 0.0), "9.00 | –");
        assert_eq!((all.reached, all.asked), (1, 3));
        assert!(all.wants("decoding") && !all.wants("forward bf16"));
    }

    #[test]
    fn lengths_are_those_of_sentences() {
        assert_eq!(SENTENCES.iter().sum::<usize>(), 6920);
        let (_folder, path) = lengths().unwrap();
        let lengths: Vec<usize> =
            std::fs::read_to_string(path).unwrap().lines().map(|line| line.parse().unwrap()).collect();
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
