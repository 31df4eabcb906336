//! Folders that a model cannot be written to: said before or as it happens, and nothing that was there is lost.

mod common;

use common::{Place, sha256};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

#[test]
fn what_is_in_the_way_stays() {
    let place = Place::new();
    place.train_small("model", &["--epochs", "1"]);
    fs::create_dir(place.path("full")).unwrap();
    place.write("full/notes.txt", "mine");
    place.write("file", "mine");
    let train = |out: &str, words: &[&str]| place.refuses(&["train", "reviews.csv", "--out", out], words);
    train("model", &["model", "finished model", "--out", "--force"]);
    train("full", &["full", "not empty", "--out", "--force"]);
    train("file", &["file", "is a file", "--out"]);
    train("reviews.csv", &["reviews.csv", "is a file"]);
    // Bad data with --force costs nothing either.
    place.write("bad.csv", "text,label\na,b,c\n");
    place.refuses(&["train", "bad.csv", "--out", "model", "--force"], &["bad.csv:2"]);
    // Neither resumed nor overwritten: these are no runs.
    place.refuses(&["train", "reviews.csv", "--out", "full", "--resume"], &["full", "not empty"]);
    fs::remove_dir_all(place.path("model/checkpoints")).unwrap();
    place.refuses(&["train", "reviews.csv", "--out", "model", "--resume"], &["model", "finished model"]);
}

#[test]
fn folders_that_cannot_be_made() {
    let place = Place::new();
    place.train_small("model", &["--epochs", "1"]);
    place.refuses(&["train", "reviews.csv", "--out", "reviews.csv/model"], &["reviews.csv/model", "Not a directory"]);
    place.refuses(&["train", "reviews.csv", "--out", "/proc/model"], &["/proc/model", "creating the folder"]);
    let long = "x".repeat(300);
    place.refuses(&["train", "reviews.csv", "--out", &long], &["too long"]);
}

/// A small disk in memory, unmounted at the end.
struct Disk(PathBuf);

impl Disk {
    /// `None`, said aloud, where this process may not mount.
    fn new(place: &Place, name: &str, options: &str) -> Option<Disk> {
        let path = place.path(name);
        fs::create_dir(&path).unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&path).output();
        if mount.is_ok_and(|output| output.status.success()) {
            return Some(Disk(path));
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

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_read_only_folder() {
    let place = Place::new();
    place.train_small("model", &["--epochs", "1"]);
    let Some(disk) = Disk::new(&place, "disk", "size=64m") else { return };
    place.copy(&place.path("model"), "disk/model");
    disk.remount("ro");
    let words = ["Read-only file system"];
    place.refuses(&["train", "reviews.csv", "--out", "disk/new"], &words);
    place.refuses(&["train", "reviews.csv", "--out", "disk/model", "--force"], &words);
    place.refuses(&["explain", "disk/model", "text", "--html", "disk/page.html"], &words);
    // Reading needs no more than reading.
    place.run(&["predict", "disk/model", "text"]).ok();
}

#[test]
fn a_full_disk_loses_neither_the_old_model_nor_the_run() {
    let place = Place::new();
    place.train_small("whole", &["--epochs", "4"]);
    place.train_small("old", &["--epochs", "1", "--seed", "1"]);
    fs::remove_dir_all(place.path("old/checkpoints")).unwrap();
    let bytes = |path: PathBuf| fs::metadata(path).unwrap().len();
    let whole = place.path("whole");
    let newest = whole.join("checkpoints").join(place.names("whole/checkpoints").pop().unwrap());
    let (model, checkpoint) = (bytes(whole.join("model.safetensors")), bytes(newest.join("state.safetensors")));
    let old = sha256(&place.path("old/model.safetensors"));
    // The space runs out in the first checkpoint, in the third, and in the model.
    let room = [checkpoint / 2, checkpoint * 5 / 2, checkpoint * 5 / 2 + model];
    for (i, room) in room.into_iter().enumerate() {
        let name = format!("disk{i}");
        let size = 2 * model + room;
        let Some(disk) = Disk::new(&place, &name, &format!("size={size}")) else { return };
        let out = format!("{name}/old");
        place.copy(&place.path("old"), &out);
        let args = ["train", "reviews.csv", "--out", &out, "--epochs", "4", "--force"];
        let run = place.run(&args);
        if run.code == 0 {
            // Two checkpoints are kept, so the last size may be enough.
            assert_eq!(i, 2, "{run:#?}");
            continue;
        }
        assert_eq!(run.code, 2, "{run:#?}");
        run.has_one_error(&["disk is full", "--resume", "No space left"]);
        assert_eq!(sha256(&place.path(&out).join("model.safetensors")), old);
        place.run(&["predict", &out, "text"]).ok();
        let left = place.names(&format!("{out}.new/checkpoints"));
        assert!(left.iter().all(|name| !name.ends_with(".tmp")), "half a checkpoint stays in the way: {left:?}");

        disk.remount(&format!("size={}", size + 8 * checkpoint));
        place.run(&[&args[..], &["--resume"]].concat()).ok();
        let [made, wanted] = [place.path(&out), whole.clone()].map(|path| sha256(&path.join("model.safetensors")));
        assert_eq!(made, wanted);
        assert!(!place.path(&format!("{out}.new")).exists());
    }
}
