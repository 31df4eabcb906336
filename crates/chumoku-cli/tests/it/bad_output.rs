//! Unwritable output folders are reported early or when writing fails, and no existing file is lost.

use crate::common::{HoldPoint, NO_SUCH_FOLDER, NOT_A_FOLDER, Run, SMALL, TestDir, csv, reviews, sha256};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

#[test]
fn existing_files_are_kept() {
    let place = TestDir::new();
    place.train_small("model", &[]);
    fs::create_dir(place.path("full")).unwrap();
    place.write("full/notes.txt", "mine");
    place.write("file", "mine");
    let train = |out: &str, words: &[&str]| place.run_rejected(&["train", "reviews.csv", "--out", out], words);
    let force =
        |out: &str, words: &[&str]| place.run_rejected(&["train", "reviews.csv", "--out", out, "--force"], words);
    train("model", &["model", "finished model", "--out", "--force"]);
    train("full", &["full", "not empty", "notes.txt", "--out"]);
    train("file", &["file", "is a file", "--out"]);
    train("reviews.csv", &["reviews.csv", "this is an input file"]);
    // Even --force does not replace files that are not a model's.
    force("full", &["did not write", "notes.txt"]);
    force("file", &["is a file"]);
    // Not even if the folder also contains a model.
    place.copy_folder(&place.path("model"), "mixed");
    place.write("mixed/thesis.tex", "mine");
    force("mixed", &["did not write", "thesis.tex"]);
    // Invalid data with --force loses nothing either.
    place.write("bad.csv", "text,label\na,b,c\n");
    place.run_rejected(&["train", "bad.csv", "--out", "model", "--force"], &["bad.csv:2"]);
    // These are not runs: they are neither resumed nor overwritten.
    place.run_rejected(&["train", "reviews.csv", "--out", "full", "--resume"], &["full", "not empty"]);
    fs::remove_dir_all(place.path("model/checkpoints")).unwrap();
    place.run_rejected(&["train", "reviews.csv", "--out", "model", "--resume"], &["model", "finished model"]);
}

#[test]
fn an_unrelated_working_folder_is_never_replaced() {
    let place = TestDir::new();
    place.write("reviews.csv", csv(&reviews(100)));
    place.write("thesis.tex", "mine");
    for _ in 0..2 {
        let words = ["did not write", "reviews.csv, thesis.tex"];
        place.run_rejected(&["train", "reviews.csv", "--out", ".", "--force"], &words);
    }
}

#[test]
fn folders_that_cannot_be_created() {
    let place = TestDir::new();
    place.train_small("model", &[]);
    place.run_rejected(&["train", "reviews.csv", "--out", "reviews.csv/model"], &["reviews.csv/model", NOT_A_FOLDER]);
    if cfg!(target_os = "linux") {
        place.run_rejected(&["train", "reviews.csv", "--out", "/proc/model"], &["/proc/model", "creating the folder"]);
    }
    let long = "x".repeat(300);
    place.run_rejected(
        &["train", "reviews.csv", "--out", &long],
        &[if cfg!(windows) { "os error" } else { "too long" }],
    );
}

/// A small in-memory disk that is unmounted on drop.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Returns `None`, with a message, if this process may not mount.
    fn new(place: &TestDir, name: &str, options: &str) -> Option<SmallDisk> {
        let path = place.path(name);
        fs::create_dir(&path).unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&path).output();
        if mount.is_ok_and(|output| output.status.success()) {
            return Some(SmallDisk(path));
        }
        eprintln!("SKIPPED: mounting a small disk needs root, so a full or read-only disk was not tested");
        None
    }

    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        let done = Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap();
        assert!(done.success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_read_only_folder() {
    let place = TestDir::new();
    place.train_small("model", &[]);
    let Some(disk) = SmallDisk::new(&place, "disk", "size=64m") else { return };
    place.copy_folder(&place.path("model"), "disk/model");
    disk.remount("ro");
    let words = ["Read-only file system"];
    place.run_rejected(&["train", "reviews.csv", "--out", "disk/new"], &words);
    place.run_rejected(&["train", "reviews.csv", "--out", "disk/model", "--force"], &words);
    place.run_rejected(&["explain", "disk/model", "text", "--html", "disk/page.html"], &words);
    // Prediction needs no write access.
    place.run(&["predict", "disk/model", "text"]).assert_success();
}

#[test]
fn a_full_disk_loses_neither_the_old_model_nor_the_run() {
    let place = TestDir::new();
    place.train_small("whole", &[&["--epochs", "4"], &SMALL[..]].concat());
    place.train_small("old", &[&["--epochs", "1", "--seed", "1"], &SMALL[..]].concat());
    fs::remove_dir_all(place.path("old/checkpoints")).unwrap();
    let bytes = |path: PathBuf| fs::metadata(path).unwrap().len();
    let whole = place.path("whole");
    let newest = whole.join("checkpoints").join(place.file_names("whole/checkpoints").pop().unwrap());
    let (model, checkpoint) = (bytes(whole.join("model.safetensors")), bytes(newest.join("state.safetensors")));
    let old = sha256(&place.path("old/model.safetensors"));
    // The space runs out in the first checkpoint, in the third, and in the model.
    let room = [checkpoint / 2, checkpoint * 5 / 2, checkpoint * 5 / 2 + model];
    for (i, room) in room.into_iter().enumerate() {
        let name = format!("disk{i}");
        let size = 2 * model + room;
        let Some(disk) = SmallDisk::new(&place, &name, &format!("size={size}")) else { return };
        let out = format!("{name}/old");
        place.copy_folder(&place.path("old"), &out);
        let args = [&["train", "reviews.csv", "--out", &out, "--epochs", "4", "--force"], &SMALL[..]].concat();
        let run = place.run(&args);
        if run.code == 0 {
            // Two checkpoints are kept, so the last size may suffice.
            assert_eq!(i, 2, "{run:#?}");
            continue;
        }
        assert_eq!(run.code, 1, "{run:#?}");
        run.assert_one_error(&["disk is full", "--resume", "No space left"]);
        assert_eq!(sha256(&place.path(&out).join("model.safetensors")), old);
        place.run(&["predict", &out, "text"]).assert_success();
        let left = place.file_names(&format!("{out}/.chumoku-next/checkpoints"));
        assert!(left.iter().all(|name| !name.ends_with(".tmp")), "half a checkpoint stays in the way: {left:?}");

        disk.remount(&format!("size={}", size + 8 * checkpoint));
        place.run(&[&args[..], &["--resume"]].concat()).assert_success();
        let [made, wanted] = [place.path(&out), whole.clone()].map(|path| sha256(&path.join("model.safetensors")));
        assert_eq!(made, wanted);
        assert_eq!(place.file_names(&out), place.file_names("whole"));
    }
}

#[test]
fn neighboring_folders_are_untouched_when_a_model_is_replaced() {
    let place = TestDir::new();
    place.train_small("m", &[]);
    // A backup and a user's folder, with names that a program might choose.
    place.copy_folder(&place.path("m"), "m.old");
    fs::create_dir(place.path("m.new")).unwrap();
    place.write("m.new/notes.txt", "mine");
    let kept = |place: &TestDir| {
        let of = |name: &String| !name.starts_with("m/") && name != "m";
        place.file_hashes().into_iter().filter(|(name, _)| of(name)).collect::<Vec<_>>()
    };
    let (before, old) = (kept(&place), sha256(&place.path("m/model.safetensors")));
    place.train_small("m", &["--seed", "7", "--force"]);
    assert_eq!(kept(&place), before);
    assert_ne!(sha256(&place.path("m/model.safetensors")), old);
    assert_eq!(sha256(&place.path("m.old/model.safetensors")), old);
}

/// Starts a run, then a second one with the same arguments while the first is working. Returns both results.
fn two_at_once(place: &TestDir, args: &[&str]) -> [Run; 2] {
    let hold = HoldPoint::at("step:2");
    let mut command = place.command(args);
    command.envs([hold.environment()]).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut first = command.spawn().unwrap();
    assert!(hold.wait_until_reached_by(&mut first));
    let second = place.run(args);
    hold.release();
    [Run::from_output(first.wait_with_output().unwrap()), second]
}

/// Starts two runs at the same time, in no particular order.
fn two_together(place: &TestDir, args: &[&str]) -> [Run; 2] {
    let start = || {
        let mut command = place.command(args);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
    };
    let [first, second] = [start(), start()];
    [second, first].map(|child| Run::from_output(child.wait_with_output().unwrap()))
}

#[test]
fn two_runs_never_write_to_one_folder() {
    let place = TestDir::new();
    place.train_small("whole", &[&["--epochs", "3"], &SMALL[..]].concat());
    let weights = |out: &str| sha256(&place.path(out).join("model.safetensors"));
    for (round, flags) in
        [&["--epochs", "3"][..], &["--epochs", "3", "--resume"], &["--epochs", "3", "--force"]].into_iter().enumerate()
    {
        let out = if round == 1 { "resumed" } else { "fresh" };
        let args = [&["train", "reviews.csv", "--out", out], flags, &SMALL].concat();
        let runs = two_at_once(&place, &args);
        assert_eq!(runs.each_ref().map(|run| run.code), [0, 2], "{runs:#?}");
        assert!(runs[1].assert_one_error(&[out]).contains("another run"), "{runs:#?}");
        assert_eq!(weights(out), weights("whole"));
        assert_eq!(place.file_names(out), place.file_names("whole"));
    }
    // Both start at the same time. One is rejected, since the other is running or, on some machines, has finished.
    let args = [&["train", "reviews.csv", "--epochs", "3"], &SMALL[..]].concat();
    let mut runs = two_together(&place, &[&args[..], &["--out", "race"]].concat());
    runs.sort_by_key(|run| run.code);
    assert_eq!(runs.each_ref().map(|run| run.code), [0, 2], "{runs:#?}");
    let refused = runs[1].assert_one_error(&["race"]);
    assert!(refused.contains("another run") || refused.contains("finished model"), "{refused}");
    assert_eq!(weights("race"), weights("whole"));
    // Without a name, each gets its own folder.
    let runs = two_together(&place, &args);
    assert!(runs.iter().all(|run| run.code == 0), "{runs:#?}");
    assert_eq!([weights("chumoku-model"), weights("chumoku-model-2")], [weights("whole"), weights("whole")]);
}

#[test]
fn a_killed_run_leaves_no_lock() {
    let place = TestDir::new();
    place.train_small("whole", &[&["--epochs", "3"], &SMALL[..]].concat());
    let args = [&["train", "reviews.csv", "--out", "model", "--epochs", "3"], &SMALL[..]].concat();
    assert!(place.run_killed_at("step:1", &args) && place.path("model/.chumoku-lock").exists());
    place.run(&[&args[..], &["--resume"]].concat()).assert_success();
    assert_eq!(place.file_names("model"), place.file_names("whole"));
}

/// Exit code 2 if a named output cannot be written to; 1 if writing started and then failed.
#[test]
#[cfg_attr(windows, ignore = "runs a shell of Unix")]
fn all_commands_report_write_failures_in_the_same_way() {
    if !std::path::Path::new("/dev/full").exists() {
        eprintln!("SKIPPED: there is no /dev/full here");
        return;
    }
    let place = TestDir::new();
    place.train_small("model", &["--epochs", "1", "--watch", "a fine day"]);
    fs::create_dir(place.path("folder")).unwrap();
    place.write("file", "mine");
    place.run_shell("ln -s /dev/full full.safetensors && ln -s /dev/full full.xlsx").assert_success();
    let tensors = safetensors_file(&["Q", "K", "V"]);
    place.write("in.safetensors", tensors);
    let explain = |flag| vec!["explain", "model", "a fine day", flag];
    let mut commands = vec![
        vec!["trace", "--example", "school", "--out"],
        vec!["trace", "--example", "school", "--format", "xlsx", "--out"],
        vec!["attend", "in.safetensors", "-o"],
    ];
    for flag in ["--html", "--json", "--svg", "--png", "--pdf"] {
        commands.extend([explain(flag), vec!["position", flag], vec!["film", "model", flag]]);
    }
    for command in commands {
        let is_attend = command[0] == "attend";
        let of = |out: &'static str| [&command[..], &[out]].concat();
        let nowhere = if is_attend { "missing/x.safetensors" } else { "missing/x" };
        place.run_rejected(&of(nowhere), &[nowhere, NO_SUCH_FOLDER]);
        let below = if is_attend { "file/x.safetensors" } else { "file/x" };
        place.run_rejected(&of(below), &[below, NOT_A_FOLDER]);
        if !is_attend {
            place.run_rejected(&of("folder"), &["folder", "is a directory"]);
        }
        let full = if is_attend { "full.safetensors" } else { "/dev/full" };
        let run = place.run(&of(full));
        assert_eq!(run.code, 1, "{command:?}: {run:#?}");
        run.assert_one_error(&[full, "No space left"]);
    }
    place.run_rejected(&["compare", "reviews.csv", "--svg", "missing/x.svg"], &["missing/x.svg", NO_SUCH_FOLDER]);
    place.write("texts.txt", "a fine day\n");
    place.run_rejected(&["explain", "model", "--input", "texts.txt", "--png", "file/x"], &["file/x", NOT_A_FOLDER]);
    // Standard output is not a named output.
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../chumoku-trace/worked/school.json");
    fs::copy(example, place.path("example.json")).unwrap();
    let printing = [
        "info",
        "info --json",
        "predict model hello",
        "predict model --input reviews.csv",
        "predict model --input reviews.csv --json",
        "predict model hello --json",
        "eval model reviews.csv",
        "eval model reviews.csv --json",
        "explain model hi",
        "explain model hi --json -",
        "trace --example school",
        "trace --example school --format xlsx",
        "check example.json",
        "count",
        "count --json",
        "position",
        "film model",
    ];
    for command in printing {
        let run = place.run_shell(&format!("chumoku {command} > /dev/full"));
        assert_eq!(run.code, 1, "{command}: {run:#?}");
        run.assert_one_error(&["No space left"]);
    }
}

/// Arrays of shape (1, 1, 2, 2) under these names.
fn safetensors_file(names: &[&str]) -> Vec<u8> {
    let bytes: Vec<u8> = [1f32, 0.0, 0.0, 1.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let view = || safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![1, 1, 2, 2], &bytes).unwrap();
    safetensors::serialize(names.iter().map(|name| (*name, view())), None).unwrap()
}
