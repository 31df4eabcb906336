//! Runs the `chumoku` command on damaged files and folders, with senseless flags and in unusual environments. It looks
//! for failures that must never happen: panics, signals, hangs, unbounded memory, exit codes other than 0, 1, 2 and
//! 130, errors of more than one line, and lost user files.
//!
//! ```text
//! cargo build --release
//! cargo run --release -p mutate -- --runs 2000
//! ```
//!
//! A run depends only on the seed and its number. Failures are kept: the folder as it was before the run, the command's
//! output, and `again.sh`, which repeats the run.
//!
//! # Files
//!
//! - `bytes`: damage to bytes
//! - `flags`: valid and senseless flags
//! - `json`: damage to JSON
//! - `limits`: limits of time and memory
//! - `published`: valid folders of published models
//! - `random`: random choices
//! - `scenario`: one run, and the checks after it
//! - `seeds`: valid input files

#![allow(clippy::disallowed_methods, reason = "a developer tool that writes to the folder given by the user")]

mod bytes;
mod flags;
mod json;
mod limits;
mod published;
mod random;
mod scenario;
mod seeds;

use clap::Parser;
use limits::{CommandOutcome, RunLimits};
use random::Random;
use scenario::Scenario;
use seeds::Seeds;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Runs `chumoku` on damaged input and looks for panics, signals and hangs.
#[derive(Debug, Parser)]
#[command(name = "mutate")]
struct Args {
    /// Number of runs
    #[arg(long, value_name = "N", default_value_t = 1000)]
    runs: u64,
    /// Stop after this many seconds, even if runs remain
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// Random seed that determines every run
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Repeat only the run with this number
    #[arg(long, value_name = "N")]
    only: Option<u64>,
    /// The command to test (default: the one in the folder of this program)
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Folder for the inputs and outputs of failed runs
    #[arg(long, value_name = "DIR", default_value = "target/mutate")]
    keep: PathBuf,
    /// Maximum seconds without output; a run that keeps writing may take six times as long
    #[arg(long, value_name = "S", default_value_t = 30)]
    timeout: u64,
    /// Limit of the address space of a run, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    memory: u64,
    /// Number of parallel runs (default: the number of processors)
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::from(2)
        }
    }
}

/// Totals of all runs.
#[derive(Default)]
struct RunTally {
    /// Runs by exit code.
    codes: BTreeMap<i32, u64>,
    /// Runs by kind.
    kinds: BTreeMap<&'static str, u64>,
    faults: u64,
}

fn run(args: &Args) -> Result<bool, String> {
    if cfg!(not(unix)) {
        return Err("runs need a POSIX shell with `ulimit -v`; use Linux".into());
    }
    let program = find_program(args)?;
    let folder = tempfile::tempdir().map_err(|error| format!("creating a temporary folder: {error}"))?;
    let limits = RunLimits { program: &program, timeout: Duration::from_secs(args.timeout), mebibytes: args.memory };
    let start = Instant::now();
    let seeds = Seeds::create(&program, &folder.path().join("seeds"))?;
    println!("seed {}; inputs made in {:.1} s", args.seed, start.elapsed().as_secs_f64());
    let start = Instant::now();
    let numbers = args.only.map_or(0..args.runs, |only| only..only + 1);
    let next = AtomicU64::new(numbers.start);
    let tally = Mutex::new(RunTally::default());
    let jobs = args.jobs.or(std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while args.seconds.is_none_or(|most| start.elapsed().as_secs() < most) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        break;
                    }
                    run_one(args, number, &limits, &seeds, folder.path(), &tally);
                }
            });
        }
    });
    let RunTally { codes, kinds, faults } = tally.into_inner().map_err(|_| "a run did not finish")?;
    let runs: u64 = kinds.values().sum();
    let shown = |counts: Vec<String>| counts.join(", ");
    println!("{runs} runs in {:.1} s, {faults} faults", start.elapsed().as_secs_f64());
    println!("exit codes: {}", shown(codes.iter().map(|(code, count)| format!("{code} ({count})")).collect()));
    println!("kinds: {}", shown(kinds.iter().map(|(kind, count)| format!("{kind} ({count})")).collect()));
    if runs == 0 {
        return Err("no run was made; allow more time with --seconds".into());
    }
    Ok(faults == 0)
}

/// Returns the command under test.
fn find_program(args: &Args) -> Result<PathBuf, String> {
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("chumoku"));
    let program = args.program.clone().or_else(beside).ok_or("cannot find the command; name it with --program")?;
    let hint = "build it with `cargo build --release`, or name it with --program";
    program.canonicalize().map_err(|error| format!("{}: {error}; {hint}", program.display()))
}

/// Performs one run: creates its files, runs the command, checks the outcome, and keeps failures.
fn run_one(args: &Args, number: u64, limits: &RunLimits<'_>, seeds: &Seeds, folder: &Path, tally: &Mutex<RunTally>) {
    let mut random = Random::new(args.seed, number);
    let place = folder.join(format!("run-{number}"));
    fs::create_dir(&place).expect("a folder for the run");
    let scenario = Scenario::random(&mut random, seeds, &place);
    let before = folder.join(format!("before-{number}"));
    limits::copy_folder(&place, &before);
    let ended = limits.run(&scenario, &place);
    let faults = find_faults(&scenario, &ended, &place);
    if let Ok(mut tally) = tally.lock() {
        *tally.codes.entry(ended.code.unwrap_or(-1)).or_default() += 1;
        *tally.kinds.entry(scenario.kind).or_default() += 1;
        tally.faults += u64::from(!faults.is_empty());
    }
    if !faults.is_empty() || args.only.is_some() {
        let kept = args.keep.join(format!("seed-{}-run-{number}", args.seed));
        let _ = fs::remove_dir_all(&kept);
        limits::copy_folder(&before, &kept.join("input"));
        let _ = fs::write(kept.join("stdout"), &ended.stdout);
        let _ = fs::write(kept.join("stderr"), &ended.stderr);
        let _ = fs::write(kept.join("again.sh"), limits.script(&scenario));
        let what = if faults.is_empty() { "nothing is wrong".into() } else { faults.join("; ") };
        let again = format!("--seed {} --only {number}", args.seed);
        println!(
            "run {number} ({}): {what}\n  {}\n  again: {again}; kept in {}",
            scenario.kind,
            scenario.display_command(),
            kept.display()
        );
    }
    limits::remove_folder(&place);
    limits::remove_folder(&before);
}

/// Returns the failures of a run.
fn find_faults(scenario: &Scenario, ended: &CommandOutcome, place: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    let stderr = String::from_utf8_lossy(&ended.stderr);
    match ended.code {
        _ if ended.timed_out => faults.push("hangs".into()),
        None => faults.push("ended by a signal".into()),
        Some(0 | 1 | 2 | 130) => {}
        Some(code) => faults.push(format!("exit code {code}")),
    }
    if stderr.contains("panicked at") {
        faults.push("panics".into());
    }
    let errors = stderr.lines().filter(|line| line.starts_with("error:") || line.starts_with("エラー:")).count();
    // `check` reports one error per file, and exits with 1 if a claim does not hold.
    let is_check = scenario.args.first().is_some_and(|command| command == "check");
    let is_one = errors == 1 || (is_check && errors > 0);
    if ended.code == Some(2) && !is_one && !stderr.contains("Usage:") {
        faults.push(format!("exit code 2 with {errors} lines of error"));
    }
    if ended.code == Some(1) && !is_one && !is_check {
        faults.push(format!("exit code 1 with {errors} lines of error"));
    }
    if ended.code == Some(0) && errors > 0 && scenario.args.first().is_some_and(|command| command != "--help") {
        faults.push("an error, but exit code 0".into());
    }
    if let Some(control) = stderr.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        // Messages contain no control characters. Colors, which some environments request, are for terminals only.
        faults.push(format!("control character {control:?} in the messages"));
    }
    for (name, bytes) in &scenario.user_files {
        match fs::read(place.join(name)) {
            Ok(found) if found == *bytes => {}
            _ => faults.push(format!("the user's {name} was lost")),
        }
    }
    faults
}
