//! `chumoku bench`: how fast it is on this machine, on random data. The answer is checked before it is timed.
//!
//! # Files
//!
//! - `attention`: attention
//! - `budget`: time of each operation
//! - `classifier`: training and inference
//! - `deviation`: errors of answers
//! - `memory`: memory of machine and process

/// A text in English and in Japanese.
macro_rules! both {
    ($en:literal, $ja:literal) => {
        [format!($en), format!($ja)]
    };
}

mod attention;
mod budget;
mod classifier;
mod deviation;
mod memory;

use crate::ExitCode;
use crate::args::Bench;
use crate::progress::{count, mebibytes};
use crate::threads;
use budget::Budget;
use chumoku::data::thousands;
use chumoku::lang::lang;
use chumoku::tr;
use deviation::Deviation;
use serde_json::json;
use std::io::{Write, stdout};
use std::time::Instant;
use unicode_width::UnicodeWidthStr;

pub(crate) fn run(args: &Bench) -> anyhow::Result<ExitCode> {
    let (threads, is_json) = match args {
        Bench::Attention(args) => (args.threads, args.json),
        Bench::Train(args) | Bench::Infer(args) => (args.threads, args.json),
    };
    let threads = threads::start(threads)?;
    // Inside the pool, as in a program that works in it: no call has to wake a thread to begin with.
    let report = rayon::scope(|_| match args {
        Bench::Attention(args) => attention::measure(args),
        Bench::Train(args) => classifier::measure(args, true),
        Bench::Infer(args) => classifier::measure(args, false),
    })?;
    let mut out = stdout().lock();
    match is_json {
        true => writeln!(out, "{}", report.json(threads))?,
        false => write!(out, "{}", report.text(threads))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What was measured.
struct Report {
    title: String,
    times: Times,
    /// Of one run.
    operations: f64,
    tokens_per_second: f64,
    /// `None` where the system does not tell.
    peak_bytes: Option<u64>,
    /// What the peak is of.
    peak_of: &'static str,
    deviation: Deviation,
    /// What computed it, as programs read it, and in Japanese.
    kernel: String,
    kernel_in_japanese: String,
    /// Where the time goes, if asked for.
    budget: Option<Budget>,
}

impl Report {
    fn gflops(&self) -> f64 {
        self.operations / self.times.median() / 1e6
    }

    fn json(&self, threads: usize) -> serde_json::Value {
        let mut report = json!({
            "median_ms": self.times.median(),
            "min_ms": self.times.min(),
            "max_ms": self.times.max(),
            "runs": self.times.runs(),
            "gflops": self.gflops(),
            "tokens_per_second": self.tokens_per_second,
            "peak_bytes": self.peak_bytes,
            "kernel": self.kernel,
            "isa": chumoku::active_isa().name(),
            "threads": threads,
            "error": self.deviation.relative(),
            "max_error": self.deviation.largest(),
        });
        if let Some(budget) = &self.budget {
            report["profile"] = budget.json();
        }
        report
    }

    fn text(&self, threads: usize) -> String {
        let Report { times, peak_of, deviation, .. } = self;
        let kernel = lang().pick(&self.kernel, &self.kernel_in_japanese);
        let title = wrapped(&self.title);
        let [median, min, max] = [times.median(), times.min(), times.max()].map(milliseconds);
        let unknown = || tr!("unknown on this system", "不明（このシステムでは測れません）");
        let memory = self.peak_bytes.map_or_else(unknown, |bytes| mebibytes(bytes as usize));
        let relative = format!("{:.1e}", deviation.relative());
        let most = format!("{:.1e}", deviation.largest());
        let (runs, gflops) = (times.runs(), format!("{:.1}", self.gflops()));
        let tokens = thousands(self.tokens_per_second.round() as usize);
        let (isa, counted) = (chumoku::active_isa(), count(threads, "thread"));
        let budget = self.budget.as_ref().map(Budget::text).unwrap_or_default();
        tr!(
            "{title}\n\
             time     {median} ms (median of {runs}; {min} to {max})\n\
             speed    {gflops} GFLOP/s, {tokens} tokens a second\n\
             memory   {memory} at the peak, {peak_of}\n\
             error    {relative} relative, {most} at most, against double precision\n\
             kernel   {kernel}\n\
             machine  {isa}, {counted}\n{budget}",
            "{title}\n\
             時間      {median} ms（{runs} 回の中央値、{min}〜{max}）\n\
             速度      {gflops} GFLOP/s、毎秒 {tokens} トークン\n\
             メモリ    最大 {memory}（{peak_of}）\n\
             誤差      倍精度に対して相対 {relative}、最大 {most}\n\
             カーネル  {kernel}\n\
             計算機    {isa}、{threads} スレッド\n{budget}"
        )
    }
}

/// A list with commas, in lines of at most 80 columns.
fn wrapped(list: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let comma = lang().pick(", ", "、");
    for part in list.split(comma) {
        match lines.last_mut() {
            Some(line) if line.width() + part.width() + 3 <= 80 => *line += &format!("{comma}{part}"),
            Some(line) => {
                line.push_str(comma.trim_end());
                lines.push(format!("  {part}"));
            }
            None => lines.push(part.to_owned()),
        }
    }
    lines.join("\n")
}

/// With as many digits as are worth reading.
fn milliseconds(x: f64) -> String {
    match x {
        ..10.0 => format!("{x:.3}"),
        10.0..1000.0 => format!("{x:.1}"),
        _ => thousands(x.round() as usize),
    }
}

/// Milliseconds of each run, the shortest first.
struct Times(Vec<f64>);

impl Times {
    fn new(mut milliseconds: Vec<f64>) -> Times {
        milliseconds.sort_by(f64::total_cmp);
        Times(milliseconds)
    }

    /// Runs `work`, already warm, for a second in all: five times at least, or three where that takes 20 seconds, or
    /// fewer where it takes a minute; a hundred times at most.
    fn of(mut work: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<Times> {
        let (mut times, mut total) = (Vec::new(), 0.0);
        let wants_more = |runs, total| match runs {
            0 => true,
            1..3 => total < 6e4,
            3..5 => total < 2e4,
            5..100 => total < 1e3,
            _ => false,
        };
        while wants_more(times.len(), total) {
            times.push(milliseconds_of(&mut work)?);
            total += times[times.len() - 1];
        }
        Ok(Times::new(times))
    }

    fn runs(&self) -> usize {
        self.0.len()
    }

    fn min(&self) -> f64 {
        self.0[0]
    }

    fn max(&self) -> f64 {
        self.0[self.runs() - 1]
    }

    fn total(&self) -> f64 {
        self.0.iter().sum()
    }

    fn median(&self) -> f64 {
        (self.0[(self.runs() - 1) / 2] + self.0[self.runs() / 2]) / 2.0
    }
}

fn milliseconds_of(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(1e3 * start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let median = |times: &[f64]| Times::new(times.to_vec()).median();
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert_eq!(median(&[9.0, 1.0, 2.0]), 2.0);
        let times = Times::new(vec![9.0, 1.0, 2.0]);
        assert_eq!((times.min(), times.max(), times.runs()), (1.0, 9.0, 3));
    }

    #[test]
    fn runs_are_several_and_end() {
        let mut calls = 0;
        let times = Times::of(|| {
            calls += 1;
            Ok(())
        });
        assert_eq!(times.unwrap().runs(), calls);
        assert_eq!(calls, 100);
    }

    #[test]
    fn lists_are_wrapped_at_commas() {
        let list = ["fifteen letters"; 7].join(", ");
        assert!(wrapped(&list).lines().all(|line| line.len() <= 80));
        assert_eq!(wrapped(&list).replace(",\n  ", ", "), list);
        assert_eq!(wrapped("one, two"), "one, two");
    }

    #[test]
    fn digits() {
        let texts = [0.01234, 12.34, 999.95, 12345.6].map(milliseconds);
        assert_eq!(texts, ["0.012", "12.3", "1000.0", "12,346"]);
    }
}
