//! Runs the command with limits on time and memory.

use crate::scenario::Scenario;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The limits of a run.
pub(crate) struct RunLimits<'a> {
    pub(crate) program: &'a Path,
    /// Maximum time without output. A run that reports progress does not count as hung.
    pub(crate) timeout: Duration,
    /// Limit of the address space.
    pub(crate) mebibytes: u64,
}

/// The maximum total time, as a multiple of the timeout. Runs over thousands of rows or pictures need it.
const MAX_TIMEOUTS: u32 = 6;

/// Returns true if a failpoint ended the run.
#[cfg(unix)]
fn is_aborted(status: ExitStatus) -> bool {
    const SIGABRT: i32 = 6;
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(SIGABRT)
}

/// Without a shell there are no limits and no runs: see `main`.
#[cfg(not(unix))]
fn is_aborted(_: ExitStatus) -> bool {
    false
}

/// The outcome of a run.
pub(crate) struct CommandOutcome {
    /// The exit code, or `None` after a signal.
    pub(crate) code: Option<i32>,
    pub(crate) timed_out: bool,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// Environment variables of the caller that would change the command's behavior.
const CLEARED_VARIABLES: [&str; 13] = [
    "CHUMOKU_FAILPOINT",
    "CHUMOKU_ISA",
    "NO_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "FORCE_COLOR",
    "COLORTERM",
    "COLUMNS",
    "LC_ALL",
    "LC_MESSAGES",
    "LANG",
    "RAYON_NUM_THREADS",
    "RUST_BACKTRACE",
];

impl RunLimits<'_> {
    /// Runs the command in the folder `place`.
    pub(crate) fn run(&self, scenario: &Scenario, place: &Path) -> CommandOutcome {
        let output = tempfile::tempdir().expect("a folder for output");
        let file = |name: &str| output.path().join(name);
        let create = |name: &str| Stdio::from(fs::File::create(file(name)).expect("a file for output"));
        fs::write(file("stdin"), &scenario.stdin).expect("a file for input");
        // The shell sets the memory limit, then becomes the command.
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v \"$1\" && shift && exec \"$@\"", "sh"]);
        command.arg((self.mebibytes << 10).to_string()).arg(self.program).args(&scenario.args);
        for name in CLEARED_VARIABLES {
            command.env_remove(name);
        }
        command.envs(scenario.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(place).stdout(create("stdout")).stderr(create("stderr"));
        command.stdin(fs::File::open(file("stdin")).expect("the file for input"));
        let start = Instant::now();
        let mut child = command.spawn().expect("a shell");
        let (mut heard, mut quiet_since) = ([0; 2], start);
        let mut timed_out = false;
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child to wait for") {
                break status;
            }
            let size = ["stdout", "stderr"].map(|name| fs::metadata(file(name)).map_or(0, |found| found.len()));
            if size != heard {
                (heard, quiet_since) = (size, Instant::now());
            }
            if quiet_since.elapsed() > self.timeout || start.elapsed() > MAX_TIMEOUTS * self.timeout {
                timed_out = true;
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        if scenario.is_killed && is_aborted(status) {
            return CommandOutcome { code: Some(0), timed_out: false, stdout: Vec::new(), stderr: Vec::new() };
        }
        let read = |name: &str| fs::read(file(name)).unwrap_or_default();
        CommandOutcome { code: status.code(), timed_out, stdout: read("stdout"), stderr: read("stderr") }
    }

    /// Returns a script that repeats the run in the folder `input` next to it.
    pub(crate) fn script(&self, scenario: &Scenario) -> String {
        let environment: String =
            scenario.environment.iter().map(|(n, v)| format!("{n}={} ", shell_quote(v))).collect();
        let stdin = format!("printf %b {}", shell_quote(&printf_escape(&scenario.stdin)));
        format!(
            "#!/bin/sh\n# Modifies the files in `input`.\ncd \"$(dirname \"$0\")/input\" || exit\nulimit -v {}\n{stdin} | {environment}{} {}\n",
            self.mebibytes << 10,
            shell_quote(&self.program.display().to_string()),
            scenario.shell_words()
        )
    }
}

/// Escapes bytes for `printf %b`.
fn printf_escape(bytes: &[u8]) -> String {
    let one = |&byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b' ' => (byte as char).to_string(),
        _ => format!("\\0{byte:03o}"),
    };
    bytes.iter().map(one).collect()
}

/// Quotes a word for a shell.
pub(crate) fn shell_quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Copies a folder including links, and creates pipes again.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    let _ = fs::create_dir_all(to);
    let _ = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).stderr(Stdio::null()).status();
}

/// Removes a folder regardless of its permissions.
pub(crate) fn remove_folder(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
}
