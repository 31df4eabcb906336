//! A training cache. Each version of the program trains a model once and keeps it under `target/`, since the same
//! inputs give the same files.

use super::{Run, TestDir, sha256};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The cache folder of one version of the program.
struct TrainingCache {
    folder: PathBuf,
    /// A lock held as long as the process runs, so that other processes do not remove the folder.
    _in_use: File,
}

impl TrainingCache {
    fn for_this_binary() -> &'static TrainingCache {
        static STORE: OnceLock<TrainingCache> = OnceLock::new();
        STORE.get_or_init(|| {
            let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("models");
            fs::create_dir_all(&all).unwrap();
            // Only one process at a time creates or removes folders.
            let turn = lock_file(&all.join("lock"));
            turn.lock().unwrap();
            let own = sha256(Path::new(env!("CARGO_BIN_EXE_chumoku")));
            remove_others(&all, &own);
            let in_use = lock_file(&all.join(format!("{own}.in-use")));
            in_use.lock_shared().unwrap();
            let folder = all.join(own);
            fs::create_dir_all(&folder).unwrap();
            TrainingCache { folder, _in_use: in_use }
        })
    }
}

fn lock_file(path: &Path) -> File {
    File::options().create(true).append(true).open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Removes unused folders of other versions of the program.
fn remove_others(all: &Path, own: &str) {
    for entry in fs::read_dir(all).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if name == own || !entry.path().is_dir() {
            continue;
        }
        let lock = all.join(format!("{name}.in-use"));
        if lock_file(&lock).try_lock().is_ok() {
            fs::remove_dir_all(entry.path()).unwrap();
            fs::remove_file(lock).unwrap();
        }
    }
}

/// Adds the files and folders at a path to a hash. Returns an error if something there cannot be read or is not a
/// regular file.
fn add_contents(hash: &mut Sha256, path: &Path) -> io::Result<()> {
    if path.is_dir() {
        let mut names = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        hash.update(names.len().to_le_bytes());
        for name in names {
            add(hash, name.as_encoded_bytes());
            add_contents(hash, &path.join(name))?;
        }
    } else if path.is_file() {
        add(hash, &fs::read(path)?);
    } else {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(())
}

fn add(hash: &mut Sha256, bytes: &[u8]) {
    hash.update(bytes.len().to_le_bytes());
    hash.update(bytes);
}

fn hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl TestDir {
    /// Runs a training, or copies the files of an earlier run with the same program, arguments and input files. The
    /// test may modify the copy.
    ///
    /// The cache is bypassed if the result depends on more. Without `--out`, the folder's name depends on existing
    /// names. With `--resume`, the result depends on existing files. Tests with `--threads` check how work is shared.
    /// Results with nested folders are not cached.
    pub(super) fn run_cached(&self, args: &[&str]) -> Run {
        let says = |flag: &str| args.iter().any(|arg| arg.split('=').next() == Some(flag));
        let out = args.iter().position(|&arg| arg == "--out").and_then(|at| args.get(at + 1));
        let is_fixed = args.first() == Some(&"train")
            && out.is_some_and(|out| !out.contains('/'))
            && !says("--resume")
            && !says("--threads");
        match is_fixed.then(|| self.key(args)) {
            Some(Ok(key)) => self.run_once(args, &key),
            _ => self.run_uncached(args),
        }
    }

    fn run_once(&self, args: &[&str], key: &str) -> Run {
        let store = TrainingCache::for_this_binary();
        let kept = store.folder.join(key);
        // A concurrent caller waits for the first.
        let lock = lock_file(&store.folder.join(format!("{key}.lock")));
        lock.lock().unwrap();
        if kept.is_dir() {
            drop(lock);
            return self.restore_entry(&kept);
        }
        let before = self.file_states();
        let run = self.run_uncached(args);
        if run.code != 0 {
            return run;
        }
        // Written under a temporary name, so that an aborted run leaves no partial entry.
        let new = tempfile::tempdir_in(&store.folder).unwrap();
        let files = TestDir { root: new.path().join("files"), _own: None };
        fs::create_dir(&files.root).unwrap();
        for (name, contents) in self.file_states() {
            if before.get(&name) != Some(&contents) {
                files.copy_entry(&self.path(&name), &name);
            }
        }
        fs::write(new.path().join("run.json"), serde_json::json!([run.stdout, run.stderr]).to_string()).unwrap();
        fs::rename(new.keep(), kept).unwrap();
        run
    }

    /// The hash of everything that determines the result: the arguments, the files and folders that they name, and the
    /// environment variables that the program reads. An argument may hold several files, separated by commas.
    fn key(&self, args: &[&str]) -> io::Result<String> {
        let mut hash = Sha256::new();
        for arg in args {
            add(&mut hash, arg.as_bytes());
            let named = arg.split_once('=').filter(|_| arg.starts_with("--")).map_or(*arg, |(_, value)| value);
            // `/` is a separator of labels, not the whole disk.
            for path in named.split(',').filter(|&name| !name.is_empty() && name != "/").map(|name| self.path(name)) {
                if path.symlink_metadata().is_ok() {
                    add_contents(&mut hash, &path)?;
                }
            }
        }
        // Continued training also reads the training files of its base model.
        if args.contains(&"--from") {
            for (name, contents) in self.file_states() {
                add(&mut hash, name.as_bytes());
                add(&mut hash, contents.as_bytes());
            }
        }
        let of_tests = ["CHUMOKU_EXHAUSTIVE", "CHUMOKU_PYTHON", "CHUMOKU_REQUIRE_ISA", "CHUMOKU_SHARED_DATA"];
        let is_read = |name: &str| name.starts_with("CHUMOKU_") || name.starts_with("RAYON_");
        let mut variables: Vec<(OsString, OsString)> = std::env::vars_os()
            .filter(|(name, _)| name.to_str().is_some_and(|name| is_read(name) && !of_tests.contains(&name)))
            .collect();
        variables.sort();
        for (name, value) in variables {
            add(&mut hash, name.as_encoded_bytes());
            add(&mut hash, value.as_encoded_bytes());
        }
        Ok(hexadecimal(hash))
    }

    /// The names in the folder, each with the hash of its content.
    fn file_states(&self) -> BTreeMap<String, String> {
        // Entries with unusual names or without read access are not the result of a training.
        let entry = |name: OsString| {
            let name = name.into_string().ok()?;
            let mut hash = Sha256::new();
            add_contents(&mut hash, &self.path(&name)).ok()?;
            Some((name, hexadecimal(hash)))
        };
        fs::read_dir(&self.root).unwrap().filter_map(|found| entry(found.unwrap().file_name())).collect()
    }

    fn restore_entry(&self, kept: &Path) -> Run {
        let text = fs::read_to_string(kept.join("run.json")).unwrap();
        let [stdout, stderr]: [String; 2] = serde_json::from_str(&text).unwrap();
        for entry in fs::read_dir(kept.join("files")).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if self.path(&name).is_dir() {
                fs::remove_dir_all(self.path(&name)).unwrap();
            }
            self.copy_entry(&entry.path(), &name);
        }
        Run { code: 0, stdout, stderr, peak_bytes: None }
    }

    fn copy_entry(&self, from: &Path, name: &str) {
        if from.is_dir() {
            self.copy_folder(from, name);
        } else {
            fs::copy(from, self.path(name)).unwrap();
        }
    }
}

#[test]
fn cached_results_equal_fresh_ones() {
    let train = ["train", "reviews.csv", "--model", "ngrams", "--out", "model"];
    let make = |rows: usize| {
        let place = TestDir::new();
        place.write("reviews.csv", super::csv(&super::reviews(rows)));
        let run = place.run(&train).assert_success();
        (place, run)
    };
    let ((place, run), (again, run_again), (other, _)) = (make(60), make(60), make(61));
    assert_eq!(
        (place.file_hashes(), run.stdout, run.stderr),
        (again.file_hashes(), run_again.stdout, run_again.stderr)
    );
    let model = |place: &TestDir| sha256(&place.path("model/model.safetensors"));
    assert_ne!(model(&place), model(&other));
    again.run_uncached(&[&train[..], &["--force"]].concat()).assert_success();
    assert_eq!(model(&place), model(&again));
    // The copy belongs to the test. An existing folder blocks it, and --force replaces that.
    place.write("model/model.safetensors", "damaged");
    assert_eq!(place.run(&train).code, 2);
    assert_eq!(place.run(&[&train[..], &["--force"]].concat()).assert_success().code, 0);
    assert_eq!(model(&place), model(&again));
    assert_eq!(model(&make(60).0), model(&again));
}
