//! Runs the `chumoku` command on damaged files and folders, with senseless flags and in odd environments, and looks for
//! what must never happen: a panic, a signal, a hang, memory without bound, an exit code other than 0, 1, 2 and 130, an
//! error that is not said in one line, and a user's file that is lost.
//!
//! ```text
//! cargo build --release
//! cargo run --release -p mutate -- --runs 2000
//! ```
//!
//! Every run follows from the seed and its number alone. What fails is kept: the folder as it was before the run, what
//! the command said, and `again.sh`, which runs it once more.
//!
//! # Files
//!
//! - `bytes`: damage to bytes
//! - `flags`: senseless flags
//! - `json`: damage to JSON
//! - `limits`: limits of a run
//! - `published`: sound folders of published models
//! - `random`: random choices
//! - `scenario`: one run, and the checks after it
//! - `seeds`: sound input files

#![allow(clippy::disallowed_methods, reason = "a tool for developers, which writes where it is told")]

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
    /// Runs
    #[arg(long, value_name = "N", default_value_t = 1000)]
    runs: u64,
    /// Stop after this many seconds, even if not all runs are done
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// Decides everything about every run
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Only the run of this number
    #[arg(long, value_name = "N")]
    only: Option<u64>,
    /// The command (default: the one that was built beside this program)
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Where what fails is kept
    #[arg(long, value_name = "DIR", default_value = "target/mutate")]
    keep: PathBuf,
    /// Seconds that a run may say nothing; six times as many if it goes on telling of itself
    #[arg(long, value_name = "S", default_value_t = 30)]
    timeout: u64,
    /// MiB of address space that a run may take
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    memory: u64,
    /// Runs at a time (default: the processors)
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

/// What came of all runs.
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
    let RunTally { codes, kinds, faults } = tally.into_inner().map_err(|_| "a run was not finished")?;
    let runs: u64 = kinds.values().sum();
    let shown = |counts: Vec<String>| counts.join(", ");
    println!("{runs} runs in {:.1} s, {faults} faults", start.elapsed().as_secs_f64());
    println!("exit codes: {}", shown(codes.iter().map(|(code, count)| format!("{code} ({count})")).collect()));
    println!("kinds: {}", shown(kinds.iter().map(|(kind, count)| format!("{kind} ({count})")).collect()));
    if runs == 0 {
        return Err("no run was made: give it more time".into());
    }
    Ok(faults == 0)
}

/// The command under test.
fn find_program(args: &Args) -> Result<PathBuf, String> {
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("chumoku"));
    let program = args.program.clone().or_else(beside).ok_or("give the command with --program")?;
    let hint = "build it with `cargo build --release`, or name it with --program";
    program.canonicalize().map_err(|error| format!("{}: {error}; {hint}", program.display()))
}

/// One run: made, run, judged, and kept if it fails.
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

/// What is wrong with how a run ended.
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
    // `check` says of each file what is wrong with it, and ends with 1 where a claim does not hold.
    let is_check = scenario.args.first().is_some_and(|command| command == "check");
    let is_one = errors == 1 || (is_check && errors > 0);
    if ended.code == Some(2) && !is_one && !stderr.contains("Usage:") {
        faults.push(format!("exit code 2 with {errors} lines of error"));
    }
    if ended.code == Some(1) && !is_one && !is_check {
        faults.push(format!("exit code 1 with {errors} lines of error"));
    }
    if ended.code == Some(0) && errors > 0 && scenario.args.first().is_some_and(|command| command != "--help") {
        faults.push("an error, and exit code 0".into());
    }
    if let Some(control) = stderr.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        // Colours are asked for by some environments, and are for the terminal; a message holds none.
        faults.push(format!("control character {control:?} in what is said"));
    }
    for (name, bytes) in &scenario.kept {
        match fs::read(place.join(name)) {
            Ok(found) if found == *bytes => {}
            _ => faults.push(format!("the user's {name} was lost")),
        }
    }
    faults
}
