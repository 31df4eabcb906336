//! `chumoku bench`: the speed on this machine, on random data. Results are checked before they are timed.
//!
//! # Files
//!
//! - `attention`: attention
//! - `classifier`: training and inference
//! - `deviation`: errors of answers
//! - `memory`: memory of machine and process
//! - `profile`: time of each operation

/// A text in English and in Japanese.
macro_rules! both {
    ($en:literal, $ja:literal) => {
        [format!($en), format!($ja)]
    };
}

mod attention;
mod classifier;
mod deviation;
mod memory;
mod profile;

use crate::ExitCode;
use crate::args::BenchCommand;
use crate::progress::{format_mebibytes, pluralize};
use crate::threads;
use chumoku::data::format_thousands;
use chumoku::lang::lang;
use chumoku::tr;
use deviation::Deviation;
use profile::StepProfile;
use serde_json::json;
use std::io::{Write, stdout};
use std::time::Instant;
use unicode_width::UnicodeWidthStr;

pub(crate) fn run(args: &BenchCommand) -> anyhow::Result<ExitCode> {
    let (threads, is_json) = match args {
        BenchCommand::Attention(args) => (args.threads, args.json),
        BenchCommand::Train(args) | BenchCommand::Infer(args) => (args.threads, args.json),
    };
    let threads = threads::start_pool(threads)?;
    // Runs inside the pool, like a program that works in it: no call has to wake a thread first.
    let report = rayon::scope(|_| match args {
        BenchCommand::Attention(args) => attention::measure(args),
        BenchCommand::Train(args) => classifier::measure(args, true),
        BenchCommand::Infer(args) => classifier::measure(args, false),
    })?;
    let mut out = stdout().lock();
    match is_json {
        true => writeln!(out, "{}", report.json(threads))?,
        false => write!(out, "{}", report.text(threads))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Results of a benchmark.
struct BenchReport {
    title: String,
    times: RunTimes,
    /// Floating-point operations of one run.
    flops: f64,
    tokens_per_second: f64,
    /// Peak memory; `None` if the system does not report it.
    peak_bytes: Option<u64>,
    /// Scope of the peak.
    peak_scope: &'static str,
    deviation: Deviation,
    /// Description of the kernel for programs, and in Japanese.
    kernel: String,
    kernel_in_japanese: String,
    /// Time of each operation, if requested.
    profile: Option<StepProfile>,
}

impl BenchReport {
    fn gflops(&self) -> f64 {
        self.flops / self.times.median() / 1e6
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
            "error": self.deviation.relative_error(),
            "max_error": self.deviation.max_error(),
        });
        if let Some(budget) = &self.profile {
            report["profile"] = budget.json();
        }
        report
    }

    fn text(&self, threads: usize) -> String {
        let BenchReport { times, peak_scope: peak_of, deviation, .. } = self;
        let kernel = lang().pick(&self.kernel, &self.kernel_in_japanese);
        let title = wrap_list(&self.title);
        let [median, min, max] = [times.median(), times.min(), times.max()].map(format_milliseconds);
        let unknown = || tr!("unknown on this system", "不明（このシステムでは測れません）");
        let memory = self.peak_bytes.map_or_else(unknown, |bytes| format_mebibytes(bytes as usize));
        let relative = format!("{:.1e}", deviation.relative_error());
        let most = format!("{:.1e}", deviation.max_error());
        let (runs, gflops) = (times.runs(), format!("{:.1}", self.gflops()));
        let tokens = format_thousands(self.tokens_per_second.round() as usize);
        let (isa, counted) = (chumoku::active_isa(), pluralize(threads, "thread"));
        let budget = self.profile.as_ref().map(StepProfile::text).unwrap_or_default();
        tr!(
            "{title}\n\
             time     {median} ms (median of {runs}; {min} to {max})\n\
             speed    {gflops} GFLOP/s, {tokens} tokens a second\n\
             memory   {memory} at the peak, {peak_of}\n\
             error    {relative} relative, {most} at most, compared with double precision\n\
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

/// Wraps a comma-separated list into lines of at most 80 columns.
fn wrap_list(list: &str) -> String {
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

/// Formats milliseconds with the significant digits only.
fn format_milliseconds(x: f64) -> String {
    match x {
        ..10.0 => format!("{x:.3}"),
        10.0..1000.0 => format!("{x:.1}"),
        _ => format_thousands(x.round() as usize),
    }
}

/// Milliseconds of each run, shortest first.
struct RunTimes(Vec<f64>);

impl RunTimes {
    fn new(mut milliseconds: Vec<f64>) -> RunTimes {
        milliseconds.sort_by(f64::total_cmp);
        RunTimes(milliseconds)
    }

    /// Times `work`, already warm, for about a second. Takes five to a hundred runs, but only three if those take 20
    /// seconds, and fewer if they take a minute.
    fn measure(mut work: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<RunTimes> {
        let (mut times, mut total) = (Vec::new(), 0.0);
        let wants_more = |runs, total| match runs {
            0 => true,
            1..3 => total < 6e4,
            3..5 => total < 2e4,
            5..100 => total < 1e3,
            _ => false,
        };
        while wants_more(times.len(), total) {
            times.push(time_ms(&mut work)?);
            total += times[times.len() - 1];
        }
        Ok(RunTimes::new(times))
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

fn time_ms(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(1e3 * start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_time() {
        let median = |times: &[f64]| RunTimes::new(times.to_vec()).median();
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert_eq!(median(&[9.0, 1.0, 2.0]), 2.0);
        let times = RunTimes::new(vec![9.0, 1.0, 2.0]);
        assert_eq!((times.min(), times.max(), times.runs()), (1.0, 9.0, 3));
    }

    #[test]
    fn a_quick_benchmark_runs_a_hundred_times() {
        let mut calls = 0;
        let times = RunTimes::measure(|| {
            calls += 1;
            Ok(())
        });
        assert_eq!(times.unwrap().runs(), calls);
        assert_eq!(calls, 100);
    }

    #[test]
    fn lists_are_wrapped_at_commas() {
        let list = ["fifteen letters"; 7].join(", ");
        assert!(wrap_list(&list).lines().all(|line| line.len() <= 80));
        assert_eq!(wrap_list(&list).replace(",\n  ", ", "), list);
        assert_eq!(wrap_list("one, two"), "one, two");
    }

    #[test]
    fn milliseconds_have_few_digits() {
        let texts = [0.01234, 12.34, 999.95, 12345.6].map(format_milliseconds);
        assert_eq!(texts, ["0.012", "12.3", "1000.0", "12,346"]);
    }
}
