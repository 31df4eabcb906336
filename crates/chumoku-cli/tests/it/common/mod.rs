//! Runs the command in a temporary folder and inspects its output and files.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses its part")]

mod cache;

use chumoku::failpoint::VARIABLE;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A folder of files for one test. Commands run inside it, so paths in messages look as a user would type them.
pub struct TestDir {
    root: PathBuf,
    /// Removes the folder on drop. A folder shared by tests stays until the next run.
    _own: Option<tempfile::TempDir>,
}

/// The result of a command.
#[derive(Debug)]
pub struct Run {
    /// −1 if a signal or a failpoint ended it.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    /// Peak memory, if the system reports it.
    pub peak_bytes: Option<u64>,
}

/// Part of the system's message about a path through a folder that is missing.
pub const NO_SUCH_FOLDER: &str = if cfg!(windows) { "os error 3" } else { "No such file or directory" };
/// Part of the system's message about a path through a file.
pub const NOT_A_FOLDER: &str = if cfg!(windows) { "os error 3" } else { "Not a directory" };

impl TestDir {
    /// Runs a training command that is killed at one failpoint after another, and resumes it until it finishes.
    ///
    /// The kills happen in the middle of an epoch, in each file of the first checkpoint, and before that checkpoint is
    /// in place. Later ones happen in the second checkpoint, in a resumed epoch, while the model is written, and while
    /// it moves into place.
    pub fn run_despite_kills(&self, args: &[&str]) {
        const FIRST: [&str; 4] = ["step:2", "write:1", "write:2", "rename:1"];
        const LATER: [&str; 4] = ["write:3", "step:1", "publish", "settle:2"];
        let resumed = [args, &["--resume"]].concat();
        if testkit::exhaustive("chumoku-cli") {
            let ended =
                (1..).find(|n| !self.run_killed_at(&format!("any:{n}"), if *n > 1 { &resumed[..] } else { args }));
            return assert!(ended > Some(8), "the run passes few failpoints: {ended:?}");
        }
        for (kills, point) in FIRST.iter().chain(&LATER).enumerate() {
            if !self.run_killed_at(point, if kills > 0 { &resumed[..] } else { args }) {
                // A short run may have no second checkpoint and no further epochs.
                assert!(kills >= FIRST.len(), "{point} is not reached");
                return;
            }
        }
        self.run(&resumed).assert_success();
    }

    /// Runs a command with a kill at a failpoint (`NAME:N`, see `chumoku::failpoint`). Returns `false` if the command
    /// succeeds before reaching it.
    #[track_caller]
    pub fn run_killed_at(&self, point: &str, args: &[&str]) -> bool {
        let mut command = self.command(args);
        let run = Run::from_output(command.env(VARIABLE, format!("{point}=abort")).output().unwrap());
        let killed = run.code == -1;
        assert!(killed || run.code == 0, "{point}, {args:?}: {run:#?}");
        killed
    }

    pub fn new() -> TestDir {
        let own = tempfile::tempdir().unwrap();
        TestDir { root: own.path().to_owned(), _own: Some(own) }
    }

    /// Creates an empty folder for all tests of a file.
    pub fn shared_by_file(name: &str) -> TestDir {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        TestDir { root, _own: None }
    }

    /// Creates a folder with `bert`: a tiny random BERT with its own vocabulary.
    pub fn with_bert() -> TestDir {
        let place = TestDir::new();
        fs::create_dir(place.path("bert")).unwrap();
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/pretrained/bert");
        for file in ["config.json", "model.safetensors"] {
            fs::copy(golden.join(file), place.path("bert").join(file)).unwrap();
        }
        let words = [
            "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "food", "the", "was", "##s", "映",
            "画",
        ];
        place.write("bert/vocab.txt", words.join("\n"));
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn json(&self, name: &str) -> serde_json::Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    /// The command, ready to run, without environment variables that would change its output.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chumoku"));
        command.args(args).current_dir(&self.root).stdin(Stdio::null());
        let colours = ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "COLORTERM", "RUST_BACKTRACE"];
        for name in colours.iter().chain(&["LC_ALL", "LC_MESSAGES", "LANG", VARIABLE]) {
            command.env_remove(name);
        }
        if !cfg!(target_os = "linux") {
            // Other systems would use the language of the system's settings.
            command.env("LANG", "C");
        }
        command
    }

    /// Runs the command. A training that this program has already done comes from the cache (see `cache.rs`). Tests of
    /// the training process itself call [`TestDir::run_uncached`].
    pub fn run(&self, args: &[&str]) -> Run {
        self.run_cached(args)
    }

    pub fn run_uncached(&self, args: &[&str]) -> Run {
        Run::from_output(self.command(args).output().unwrap())
    }

    /// Runs the command with this standard input.
    pub fn run_with_input(&self, input: &[u8], args: &[&str]) -> Run {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut pipe, input) = (child.stdin.take().unwrap(), input.to_vec());
        // A command may stop reading early.
        let writer = std::thread::spawn(move || drop(pipe.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Run::from_output(output)
    }

    /// Runs a command that is held at its end, and reads its peak memory from the system.
    pub fn run_with_peak_memory(&self, args: &[&str]) -> Run {
        let hold = HoldPoint::at("exit");
        let mut command = self.command(args);
        command.envs([hold.environment()]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Read concurrently: a full pipe would block the command.
        let pipes: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        let readers = pipes.map(|mut pipe| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                pipe.read_to_end(&mut bytes).unwrap();
                bytes
            })
        });
        let peak = match hold.wait_until_reached_by(&mut child) {
            true => fs::read_to_string(format!("/proc/{}/status", child.id())).ok(),
            false => None,
        };
        let line = peak.as_ref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("VmHWM:")));
        let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        hold.release();
        let status = child.wait().unwrap();
        let [stdout, stderr] = readers.map(|reader| reader.join().unwrap());
        Run { peak_bytes: kilobytes.map(|n| n << 10), ..Run::from_output(Output { status, stdout, stderr }) }
    }

    /// Runs a command of the system's shell, `sh` or `cmd`, in which `chumoku` is the program under test.
    pub fn run_shell(&self, line: &str) -> Run {
        let mut command = shell(line);
        command.current_dir(&self.root).stdin(Stdio::null()).env_remove("RUST_BACKTRACE");
        Run::from_output(command.output().unwrap())
    }

    /// Trains a small model: `rows` reviews, two epochs unless `more` overrides it.
    pub fn train_small(&self, out: &str, more: &[&str]) -> Run {
        if !self.path("reviews.csv").exists() {
            self.write("reviews.csv", csv(&reviews(100)));
        }
        let mut args = vec!["train", "reviews.csv", "--out", out];
        args.extend(more);
        if !more.contains(&"--epochs") {
            args.extend(["--epochs", "2"]);
        }
        self.run(&args).assert_success()
    }

    /// Trains a small language model, `lm`.
    pub fn train_language_model(&self) {
        self.write("plays.txt", "to be or not to be, that is the question\n".repeat(200));
        self.run(&["train", "plays.txt", "--task", "lm", "--epochs", "1", "--out", "lm"]).assert_success();
    }

    /// Trains a small translator, `turn`, which reverses numbers.
    pub fn train_translator(&self) {
        let pairs: Vec<String> = (100..400).map(|i| i.to_string()).collect();
        self.write("pairs.a", pairs.join("\n"));
        self.write("pairs.b", pairs.iter().map(|p| p.chars().rev().collect::<String>()).collect::<Vec<_>>().join("\n"));
        self.run(&["train", "pairs.a,pairs.b", "--task", "translate", "--epochs", "1", "--out", "turn"])
            .assert_success();
    }

    /// Every file below the folder with its content (for large files, size and time).
    pub fn file_hashes(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
                let (path, data) = (entry.path(), entry.metadata().unwrap());
                let what = match (data.is_dir(), data.len() > 20 << 20) {
                    (true, _) => "folder".into(),
                    // A pipe, or the target of a link, may have no end.
                    _ if data.is_symlink() => format!("link to {}", fs::read_link(&path).unwrap().display()),
                    _ if !data.is_file() => "neither file nor folder".into(),
                    (_, true) => format!("{} bytes of {:?}", data.len(), data.modified().unwrap()),
                    _ => sha256(&path),
                };
                if data.is_dir() {
                    folders.push(path.clone());
                }
                found.insert(with_slashes(path.strip_prefix(&self.root).unwrap().display().to_string()), what);
            }
        }
        found
    }

    /// The names in a folder, sorted.
    pub fn file_names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    pub fn copy_folder(&self, from: &Path, to: &str) {
        let to = self.path(to);
        fs::create_dir_all(&to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            let name = entry.file_name();
            if entry.path().is_dir() {
                self.copy_folder(&entry.path(), to.join(name).to_str().unwrap());
            } else {
                fs::copy(entry.path(), to.join(name)).unwrap();
            }
        }
    }

    /// Runs a command that must be rejected: exit code 2, one error line that contains all of `words`, empty standard
    /// output, and unchanged files.
    #[track_caller]
    pub fn run_rejected(&self, args: &[&str], words: &[&str]) -> Run {
        let before = self.file_hashes();
        let run = self.run_uncached(args);
        assert_eq!(run.code, 2, "{args:?}: {run:#?}");
        run.assert_one_error(words);
        assert_eq!(run.stdout, "", "{args:?}");
        assert_eq!(self.file_hashes(), before, "{args:?} changed files");
        run
    }
}

/// Timeout for all waiting. On an idle machine, everything happens within moments.
pub const TIMEOUT: Duration = Duration::from_secs(180);

/// Waits until a condition is true.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A failpoint that holds a program until the test releases it.
pub struct HoldPoint {
    point: String,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl HoldPoint {
    /// Holds at pass N or later of the failpoint `NAME:N` (see `chumoku::failpoint`).
    pub fn at(point: &str) -> HoldPoint {
        let folder = tempfile::tempdir().unwrap();
        let hold = HoldPoint { point: point.to_owned(), file: folder.path().join("hold"), _folder: folder };
        hold.rearm();
        hold
    }

    /// The environment variable that the program needs.
    pub fn environment(&self) -> (&'static str, String) {
        (VARIABLE, format!("{}=hold:{}", self.point, self.file.display()))
    }

    /// Waits until the program is held.
    #[track_caller]
    pub fn wait_until_reached(&self) {
        wait_until(&self.point, || self.wait_until_full());
    }

    /// Waits until the program is held or has ended; returns `false` if it has ended.
    #[track_caller]
    pub fn wait_until_reached_by(&self, child: &mut Child) -> bool {
        // Without a timeout: one of the two happens, however long the program works.
        while !self.wait_until_full() {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }

    /// Returns `true` if the program is or was held.
    pub fn wait_until_full(&self) -> bool {
        fs::metadata(&self.file).is_ok_and(|metadata| metadata.len() > 0)
    }

    /// Releases the program, now and at later passes.
    pub fn release(&self) {
        fs::remove_file(&self.file).unwrap();
    }

    /// Holds the program again at its next pass, after a release.
    pub fn rearm(&self) {
        fs::write(&self.file, "").unwrap();
    }
}

#[cfg(not(windows))]
fn shell(line: &str) -> Command {
    let line = format!("chumoku() {{ \"$CHUMOKU\" \"$@\"; }}\n{line}");
    let mut command = Command::new("sh");
    command.args(["-c", &line]).env("CHUMOKU", env!("CARGO_BIN_EXE_chumoku"));
    command
}

#[cfg(windows)]
fn shell(line: &str) -> Command {
    use std::os::windows::process::CommandExt;
    let own = Path::new(env!("CARGO_BIN_EXE_chumoku")).parent().unwrap().to_owned();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(own).chain(std::env::split_paths(&others))).unwrap();
    let mut command = Command::new("cmd");
    command.args(["/D", "/S", "/C"]).raw_arg(format!("\"{line}\"")).env("PATH", path).env("LANG", "C");
    command
}

/// Writes the paths of Windows as those of other systems.
pub fn with_slashes(text: String) -> String {
    if cfg!(windows) { text.replace('\\', "/") } else { text }
}

impl Run {
    pub fn from_output(output: Output) -> Run {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
        let (stdout, stderr) = (text(output.stdout), with_slashes(text(output.stderr)));
        /// Exit code of `abort` on Windows, which has no signals.
        const FAST_FAIL: i32 = 0xc000_0409_u32.cast_signed();
        let code = output.status.code().filter(|&code| code != FAST_FAIL);
        Run { code: code.unwrap_or(-1), stdout, stderr, peak_bytes: None }
    }

    #[track_caller]
    pub fn assert_success(self) -> Run {
        assert!(self.code == 0 && !self.stderr.contains("error:"), "{self:#?}");
        self
    }

    /// Returns `true`, with a message, if a picture was not drawn because no installed font has its letters.
    pub fn is_missing_font(&self) -> bool {
        let lacks = self.code == 2
            && ["no font is installed", "no installed font has", "フォントがありません"]
                .iter()
                .any(|message| self.stderr.contains(message));
        if lacks {
            eprintln!("\nSKIPPED: no installed font has these letters: {}\n", self.stderr);
        }
        lacks
    }

    /// Asserts that standard error ends with one readable error line. The line contains all of `words`, repeats
    /// nothing, and exposes no internals. Returns the line.
    #[track_caller]
    pub fn assert_one_error(&self, words: &[&str]) -> &str {
        let lines: Vec<&str> = self.stderr.lines().filter(|line| !line.is_empty()).collect();
        let is_error = |line: &&str| line.starts_with("error: ") || line.starts_with("エラー: ");
        let errors = lines.iter().copied().filter(is_error).count();
        assert_eq!(errors, 1, "{self:#?}");
        let line = lines.last().unwrap();
        assert!(is_error(line) && line.chars().count() < 500, "{self:#?}");
        for inside in ["panicked", "backtrace", "RUST_", ".rs:", "Error {", "Some(", ".tmp\""] {
            assert!(!self.stderr.contains(inside), "{inside}: {self:#?}");
        }
        for part in line.split(": ").filter(|part| part.contains("os error")) {
            assert_eq!(line.matches(part).count(), 1, "said twice: {line}");
        }
        for word in words {
            assert!(line.contains(word), "“{word}” is missing: {line}");
        }
        line
    }

    /// Parses standard output as one JSON object.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        let value: serde_json::Value =
            serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"));
        assert!(value.is_object(), "{self:#?}");
        value
    }

    /// Parses each line of standard output as a JSON object.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<serde_json::Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The path of a small model that tests only read.
pub fn shared_model() -> &'static str {
    static MODEL: OnceLock<String> = OnceLock::new();
    MODEL.get_or_init(|| {
        let place = TestDir::shared_by_file("small");
        place.train_small("model", &[]);
        place.path("model").display().to_string()
    })
}

/// The first `n` built-in training reviews: (text, label).
pub fn reviews(n: usize) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../chumoku/builtin/reviews.tsv");
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().skip(1).map(|line| {
        let mut fields = line.splitn(3, '\t').skip(1);
        let label = fields.next().unwrap().to_owned();
        (fields.next().unwrap().to_owned(), label)
    });
    rows.take(n).collect()
}

/// Options for a small network, where a test is about files, kills or messages and not about the network.
pub const SMALL: [&str; 2] = ["--settings", "width=32,heads=2"];

/// Rows as CSV with the header `text,label`.
pub fn csv(rows: &[(String, String)]) -> String {
    let field = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let rows = rows.iter().map(|(text, label)| format!("{},{label}\n", field(text)));
    "text,label\n".to_owned() + &rows.collect::<String>()
}

pub fn sha256(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A reproducible random number from 0 to 1 (SplitMix64).
pub fn next_random(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as f64 / u64::MAX as f64
}

/// Metrics before and after continued training, on some rows.
pub fn key_metrics(metrics: &serde_json::Value, rows_of: &str) -> [f64; 2] {
    let figure = metrics["further"]["figure"].as_str().unwrap();
    let all = metrics["further"]["changes"].as_array().unwrap();
    let change = all.iter().find(|change| change["rows_of"] == rows_of).unwrap_or_else(|| panic!("{metrics}"));
    ["before", "after"].map(|when| change[when][figure].as_f64().unwrap())
}

/// Shape and bytes of each tensor of a file.
pub fn tensors(path: &Path) -> BTreeMap<String, (Vec<usize>, Vec<u8>)> {
    let bytes = fs::read(path).unwrap();
    let found = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let owned = |view: safetensors::tensor::TensorView<'_>| (view.shape().to_vec(), view.data().to_vec());
    found.tensors().into_iter().map(|(name, view)| (name, owned(view))).collect()
}

/// Returns `true` if a font is installed, so that pictures can be drawn.
pub fn has_fonts() -> bool {
    let found = chumoku_view::Fonts::installed().is_ok();
    if !found {
        eprintln!("\nSKIPPED: no fonts are installed\n");
    }
    found
}

/// A page of `docs` whose instructions are followed.
pub struct DocPage(String);

impl DocPage {
    pub fn read(name: &str) -> DocPage {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        DocPage(fs::read_to_string(docs.join(name)).unwrap())
    }

    /// The first code block in a language.
    pub fn code_block(&self, language: &str) -> String {
        let (_, rest) = self.0.split_once(&format!("```{language}\n")).unwrap();
        rest.split_once("```").unwrap().0.to_owned()
    }

    /// Runs the commands of the page. None may fail.
    pub fn run_commands(&self, place: &TestDir) -> Vec<Run> {
        self.code_block("console")
            .lines()
            .map(|line| place.run_shell(line.strip_prefix("$ ").unwrap()).assert_success())
            .collect()
    }
}
