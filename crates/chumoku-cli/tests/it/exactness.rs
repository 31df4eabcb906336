//! The same seed gives the same bytes: with any number of threads, run again, killed, interrupted, or resumed from a
//! damaged folder.

use crate::common::{HoldPoint, Run, SMALL, TestDir, csv, reviews, sha256};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::exhaustive;

const WEIGHTS: &str = "model.safetensors";

fn place() -> TestDir {
    let place = TestDir::new();
    place.write("reviews.csv", csv(&reviews(120)));
    place
}

fn weights(place: &TestDir, out: &str) -> String {
    sha256(&place.path(out).join(WEIGHTS))
}

fn train(place: &TestDir, out: &str, more: &[&str]) -> Run {
    place.run(&[&["train", "reviews.csv", "--out", out], more].concat())
}

/// Trains a small network.
fn train_small(place: &TestDir, out: &str, more: &[&str]) -> Run {
    train(place, out, &[&SMALL[..], more].concat())
}

/// Checkpoints, oldest first.
fn checkpoints(place: &TestDir, out: &str) -> Vec<PathBuf> {
    let folder = format!("{out}/checkpoints");
    place.file_names(&folder).into_iter().map(|name| place.path(&folder).join(name)).collect()
}

#[test]
fn the_seed_changes_the_model_and_threads_do_not() {
    threads_and_seed("transformer");
}

#[test]
fn the_seed_changes_a_recurrent_model_and_threads_do_not() {
    threads_and_seed("lstm");
}

fn threads_and_seed(model: &str) {
    let place = TestDir::new();
    // Enough texts that the vocabulary cannot hold all of their characters.
    place.write("reviews.csv", csv(&reviews(700)));
    let mut made = Vec::new();
    for (out, threads, seed) in [("a", "1", "7"), ("b", "2", "7"), ("d", "3", "7"), ("e", "2", "8")] {
        train(&place, out, &["--model", model, "--epochs", "1", "--threads", threads, "--seed", seed]).assert_success();
        made.push(weights(&place, out));
    }
    assert!(made[..3].iter().all(|hash| *hash == made[0]), "{made:?}");
    assert_ne!(made[3], made[0]);
    // The files that accompany the weights are equal too.
    for name in ["config.json", "tokenizer.json", "metrics.json", "README.md", "log.jsonl"] {
        assert_eq!(place.read(&format!("a/{name}")), place.read(&format!("d/{name}")), "{name}");
    }
}

/// Trains with this number of threads, scheduled as on a machine with as many cores.
fn run_on_cores(place: &TestDir, threads: usize, args: &[&str]) -> Run {
    let threads = threads.to_string();
    let mut command = place.command(&[args, &["--threads", &threads]].concat());
    Run::from_output(command.env("CHUMOKU_CORES", &threads).output().unwrap())
}

#[test]
fn micro_batches_do_not_depend_on_the_number_of_threads() {
    let place = place();
    let mut models = Vec::new();
    for (parts, of_threads) in [("1", &[1, 16][..]), ("3", &[1, 2, 3, 4, 8, 16]), ("64", &[1, 4, 16])] {
        // All thread counts, or the smallest, one that does not divide the micro-batches, and the largest.
        let is_tried = |threads: &&usize| exhaustive("chumoku-cli") || [1, 2, 16].contains(*threads);
        for threads in of_threads.iter().filter(is_tried) {
            let out = format!("{parts} on {threads}");
            let args = ["train", "reviews.csv", "--epochs", "1", "--parts", parts, "--out", &out];
            run_on_cores(&place, *threads, &args).assert_success();
            let metrics = place.json(&format!("{out}/metrics.json"));
            assert_eq!(metrics["plan"]["parts"].to_string(), parts);
            models.push((parts, weights(&place, &out)));
        }
        // More threads than the process has cores.
        train(&place, parts, &["--epochs", "1", "--parts", parts, "--threads", "16"]).assert_success();
        models.push((parts, weights(&place, parts)));
    }
    for [(parts, model), (other_parts, other)] in models.array_windows() {
        assert_eq!(parts == other_parts, model == other, "{models:#?}");
    }
    // By default the batch decides: these rows give one micro-batch per 512 tokens at least.
    train(&place, "default", &["--epochs", "1", "--threads", "3"]).assert_success();
    assert_eq!(place.json("default/metrics.json")["plan"]["parts"], 2);
}

#[test]
fn every_task_supports_micro_batches() {
    let place = TestDir::with_bert();
    place.write("reviews.csv", csv(&reviews(120)));
    let texts: String = reviews(60).into_iter().map(|(text, _)| text + "\n").collect();
    let reversed: String = texts.lines().map(|line| line.chars().rev().chain(['\n']).collect::<String>()).collect();
    place.write("texts.forth", &texts);
    place.write("texts.back", reversed);
    place.write("texts.txt", texts);
    let tasks: [&[&str]; 4] = [
        &["reviews.csv", "--from", "bert"],
        &["texts.forth,texts.back", "--task", "translate"],
        &["texts.txt", "--task", "lm"],
        &["texts.txt", "--task", "mlm"],
    ];
    for (i, task) in tasks.into_iter().enumerate() {
        let all = if i == 0 || exhaustive("chumoku-cli") { 3 } else { 2 };
        let hashes = [("5", 1), ("5", 8), ("2", 1)].into_iter().take(all).map(|(parts, threads)| {
            let out = format!("{i} of {parts} on {threads}");
            let args = [&["train"], task, &["--epochs", "1", "--parts", parts, "--out", &out]].concat();
            run_on_cores(&place, threads, &args).assert_success();
            assert_eq!(place.json(&format!("{out}/metrics.json"))["plan"]["parts"].to_string(), parts);
            weights(&place, &out)
        });
        let hashes: Vec<String> = hashes.collect();
        assert_eq!(hashes[0], hashes[1], "{task:?}");
        assert!(hashes.get(2) != Some(&hashes[0]), "{task:?}: the number of parts did not matter");
    }
}

#[test]
fn a_killed_run_with_micro_batches_resumes_on_other_threads() {
    let place = place();
    let settings = [&["--epochs", "3", "--parts", "3"], &SMALL[..]].concat();
    train(&place, "whole", &[&settings[..], &["--threads", "1"]].concat()).assert_success();
    place.run_despite_kills(&[&["train", "reviews.csv", "--out", "killed", "--threads", "4"], &settings[..]].concat());
    assert_eq!(weights(&place, "killed"), weights(&place, "whole"));
}

#[test]
fn threads_do_not_change_predictions() {
    let place = TestDir::with_bert();
    place.write("reviews.csv", csv(&reviews(120)));
    // Many lengths, some longer than a window, and more texts than one batch.
    let texts: Vec<String> = reviews(700).into_iter().map(|(text, _)| text).collect();
    let of_row =
        |i: usize| if i.is_multiple_of(97) { texts[i..].iter().take(40).cloned().collect() } else { texts[i].clone() };
    let rows: Vec<(String, String)> = (0..texts.len()).map(|i| (of_row(i), "positive".into())).collect();
    place.write("new.csv", csv(&rows));
    train(&place, "model", &["--epochs", "1"]).assert_success();
    let commands: [&[&str]; 4] = [
        &["predict", "model", "--input", "new.csv", "--json"],
        &["eval", "model", "new.csv", "--json"],
        &["embed", "bert", "--input", "new.csv"],
        &["explain", "model", "The food was good, and the room was clean and quiet."],
    ];
    for command in commands {
        let counts: &[usize] = if exhaustive("chumoku-cli") { &[1, 2, 3, 4, 8, 16] } else { &[1, 3, 16] };
        let output: Vec<String> =
            counts.iter().map(|&threads| run_on_cores(&place, threads, command).assert_success().stdout).collect();
        assert!(output[0].len() > 20 && output.iter().all(|other| *other == output[0]), "{command:?}");
    }
}

#[test]
fn a_repeatedly_killed_run_ends_with_the_same_bytes() {
    check_resume_after_kills("transformer");
}

#[test]
fn a_repeatedly_killed_recurrent_run_ends_with_the_same_bytes() {
    check_resume_after_kills("gru");
}

fn check_resume_after_kills(model: &str) {
    let place = place();
    let settings = [&["--model", model, "--epochs", "4", "--seed", "3"], &SMALL[..]].concat();
    train(&place, "whole", &settings).assert_success();
    let lines = |out: &str| place.read(&format!("{out}/log.jsonl")).lines().count();
    let check = |out: &str, killed_at: &str| {
        assert_eq!(weights(&place, out), weights(&place, "whole"), "{killed_at}");
        assert_eq!(place.file_names(out), place.file_names("whole"), "{killed_at}: something was left behind");
        assert_eq!(place.read(&format!("{out}/tokenizer.json")), place.read("whole/tokenizer.json"), "{killed_at}");
        assert_eq!(lines(out), lines("whole"), "{killed_at}: the log lost or repeated lines");
    };
    fn args_of<'a>(out: &'a str, settings: &[&'a str]) -> Vec<&'a str> {
        [&["train", "reviews.csv", "--out", out], settings].concat()
    }
    place.run_despite_kills(&args_of("killed", &settings));
    check("killed", "one failpoint after the other");
    if exhaustive("chumoku-cli") {
        // Killed once, at each failpoint that a run passes.
        for n in 1.. {
            let (out, point) = (format!("killed at {n}"), format!("any:{n}"));
            if !place.run_killed_at(&point, &args_of(&out, &settings)) {
                assert!(n > 50, "a run passes {n} failpoints");
                break;
            }
            place.run(&[&args_of(&out, &settings)[..], &["--resume"]].concat()).assert_success();
            check(&out, &point);
        }
    }
}

#[test]
fn a_model_is_replaced_atomically_despite_kills() {
    let place = place();
    train_small(&place, "old", &["--epochs", "2", "--seed", "1"]).assert_success();
    train_small(&place, "new", &["--epochs", "3", "--seed", "2"]).assert_success();
    // The prediction of the whole folder: weights, configuration and tokenizer together.
    let answer =
        |out: &str| place.run(&["predict", out, "A fine day, and good food.", "--json"]).assert_success().stdout;
    let answers = ["old", "new"].map(answer);
    assert_ne!(answers[0], answers[1]);
    let args = ["train", "reviews.csv", "--out", "old", "--epochs", "3", "--seed", "2", "--force"];
    let args = [&args, &SMALL[..]].concat();
    let is_killed_at = |point: &str| {
        // With --force, a run without a checkpoint starts again; a run with one continues with --resume.
        let has_begun = chumoku::has_checkpoints(&place.path("old/.chumoku-next"));
        let args = if has_begun { [&args[..], &["--resume"]].concat() } else { args.to_vec() };
        let is_killed = place.run_killed_at(point, &args);
        assert!(answers.contains(&answer("old")), "{point}: neither the old nor the new model");
        is_killed
    };
    if exhaustive("chumoku-cli") {
        assert!((1..).find(|n| !is_killed_at(&format!("any:{n}"))) > Some(20));
    } else {
        for point in ["step:2", "write:3", "publish", "publish:2", "settle:1", "settle:3", "settle:8"] {
            assert!(is_killed_at(point), "{point} is not reached");
        }
        assert!(!is_killed_at("nowhere"));
    }
    assert_eq!(weights(&place, "old"), weights(&place, "new"));
    assert_eq!(place.file_names("old"), place.file_names("new"));
}

/// Starts a run and interrupts it while it is held at a failpoint.
fn run_interrupted(place: &TestDir, args: &[&str], point: &str) -> Run {
    let hold = HoldPoint::at(point);
    let mut command = place.command(args);
    command.envs([hold.environment()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    assert!(hold.wait_until_reached_by(&mut child), "{args:?} ended without {point}");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut message = String::new();
    while !message.contains("stopping") {
        assert_ne!(lines.read_line(&mut message).unwrap(), 0, "it does not hear: {message}");
    }
    hold.release();
    lines.read_to_string(&mut message).unwrap();
    let run = Run::from_output(child.wait_with_output().unwrap());
    Run { stderr: message, ..run }
}

/// The resume command that an interrupted run prints.
fn resume_advice(run: &Run) -> &str {
    let line = run.stderr.lines().last().unwrap();
    line.strip_prefix("interrupted: continue with  ").unwrap_or_else(|| panic!("{run:#?}"))
}

#[test]
#[cfg_attr(windows, ignore = "sends a signal of Unix")]
fn ctrl_c_leaves_a_working_model_and_the_resume_command() {
    let place = place();
    let settings = [&["--epochs", "4", "--seed", "9"], &SMALL[..]].concat();
    train(&place, "whole", &settings).assert_success();
    let args = [&["train", "reviews.csv", "--out", "my model"], &settings[..]].concat();
    let run = run_interrupted(&place, &args, "evaluated:2");
    assert_eq!(run.code, 130, "{run:#?}");
    assert!(run.stderr.contains("stopping after this step") && !run.stderr.contains("error:"), "{run:#?}");
    assert!(run.stdout.contains("this model"), "it is evaluated: {run:#?}");
    assert_eq!(place.json("my model/metrics.json")["interrupted"], true);
    assert!(place.read("my model/README.md").contains("interrupted"));
    let predicted = place.run(&["predict", "my model", "Good food, bad service."]).assert_success();
    assert!(predicted.stdout.contains("positive") || predicted.stdout.contains("negative"));

    // The resume command works verbatim.
    assert!(resume_advice(&run).starts_with("chumoku train reviews.csv --out 'my model'"), "{run:#?}");
    place.run_shell(resume_advice(&run)).assert_success();
    assert_eq!(weights(&place, "my model"), weights(&place, "whole"));
    assert_eq!(place.json("my model/metrics.json")["interrupted"], false);
    assert_eq!(place.file_names("my model"), place.file_names("whole"));
}

#[test]
#[cfg_attr(windows, ignore = "sends a signal of Unix")]
fn ctrl_c_while_replacing_keeps_the_old_model_until_the_new_one_is_done() {
    let place = place();
    train_small(&place, "model", &["--epochs", "1"]).assert_success();
    let old = weights(&place, "model");
    train_small(&place, "whole", &["--epochs", "3", "--seed", "4"]).assert_success();
    let args = ["train", "reviews.csv", "--out", "model", "--epochs", "3", "--seed", "4", "--force"];
    let args = [&args, &SMALL[..]].concat();
    let run = run_interrupted(&place, &args, "evaluated:1");
    assert_eq!(run.code, 130, "{run:#?}");
    assert_eq!(weights(&place, "model"), old);
    place.run(&["predict", "model/.chumoku-next", "fine"]).assert_success();
    place.run_shell(resume_advice(&run)).assert_success();
    assert_eq!(weights(&place, "model"), weights(&place, "whole"));
    assert_eq!(place.file_names("model"), place.file_names("whole"));
}

#[test]
fn a_damaged_checkpoint_is_reported_and_the_previous_one_used() {
    let place = place();
    train_small(&place, "whole", &["--epochs", "4"]).assert_success();
    type DamageFile = fn(&Path);
    let damages: [(&str, DamageFile); 4] = [
        ("flipped bit", |path| change(&path.join("state.safetensors"), |bytes| bytes[100_000] ^= 1)),
        ("cut short", |path| change(&path.join("state.safetensors"), |bytes| bytes.truncate(5_000))),
        ("manifest cut short", |path| change(&path.join("manifest.json"), |bytes| bytes.truncate(40))),
        ("manifest gone", |path| fs::remove_file(path.join("manifest.json")).unwrap()),
    ];
    for (name, damage) in damages {
        place.copy_folder(&place.path("whole"), name);
        fs::remove_file(place.path(name).join(WEIGHTS)).unwrap();
        let [before, newest] = &checkpoints(&place, name)[..] else { panic!("two checkpoints are kept") };
        damage(newest);
        let run = train_small(&place, name, &["--epochs", "4", "--resume"]).assert_success();
        let line = run.stderr.lines().find(|line| line.contains("damaged checkpoint")).unwrap_or_default();
        assert!(line.contains(newest.file_name().unwrap().to_str().unwrap()), "{run:#?}");
        let step: u64 = before.file_name().unwrap().to_str().unwrap()[5..].parse().unwrap();
        assert!(run.stderr.contains(&format!("resuming after step {step}\n")), "{run:#?}");
        assert_eq!(weights(&place, name), weights(&place, "whole"), "{name}");

        // Without any valid checkpoint, the run cannot resume, and nothing is deleted.
        fs::remove_file(place.path(name).join(WEIGHTS)).unwrap();
        checkpoints(&place, name).iter().for_each(|path| damage(path));
        let args = [&["train", "reviews.csv", "--out", name, "--epochs", "4", "--resume"], &SMALL[..]].concat();
        place.run_rejected(&args, &["all checkpoints are damaged", "--force"]);
        train_small(&place, name, &["--epochs", "4", "--force"]).assert_success();
        assert_eq!(weights(&place, name), weights(&place, "whole"), "{name}");
    }
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_different_run_is_not_resumed() {
    let place = place();
    place.write("other.csv", csv(&reviews(121)));
    train_small(&place, "model", &["--epochs", "3", "--seed", "5"]).assert_success();
    fs::remove_file(place.path("model").join(WEIGHTS)).unwrap();
    let others = [
        ["other.csv", "3", "5", "2"],
        ["reviews.csv", "4", "5", "2"],
        ["reviews.csv", "2", "5", "2"],
        ["reviews.csv", "3", "6", "2"],
        ["reviews.csv", "3", "5", "3"],
    ];
    for [data, epochs, seed, parts] in others {
        let args = ["train", data, "--out", "model", "--epochs", epochs, "--seed", seed, "--parts", parts, "--resume"];
        place.run_rejected(&[&args, &SMALL[..]].concat(), &["other data, settings or seed", "--force"]);
    }
    // Nor is it overwritten.
    let args = ["train", "reviews.csv", "--out", "model", "--epochs", "3", "--seed", "5"];
    place.run_rejected(&[&args, &SMALL[..]].concat(), &["unfinished run", "--resume", "--force"]);
}

#[test]
fn an_error_in_a_step_ends_the_run() {
    let place = place();
    train_small(&place, "model", &["--epochs", "4"]).assert_success();
    fs::remove_file(place.path("model").join(WEIGHTS)).unwrap();
    let [before, newest] = &checkpoints(&place, "model")[..] else { panic!("two checkpoints are kept") };
    fs::remove_dir_all(newest).unwrap();
    let manifest = before.join("manifest.json");
    let mut contents: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    contents["step"] = u64::MAX.into();
    fs::write(&manifest, contents.to_string()).unwrap();
    let run = train_small(&place, "model", &["--epochs", "4", "--resume"]);
    assert_eq!(run.code, 2, "{run:#?}");
    run.assert_one_error(&["18446744073709551615", "checkpoint is damaged"]);
    assert!(!place.path("model").join(WEIGHTS).exists(), "a model came of steps that failed");
}

#[test]
fn non_finite_weights_stop_training_with_step_and_cause() {
    let place = place();
    train_small(&place, "model", &["--epochs", "4"]).assert_success();
    let [before, newest] = &checkpoints(&place, "model")[..] else { panic!("two checkpoints are kept") };
    fs::remove_dir_all(newest).unwrap();
    let (state, manifest) = (before.join("state.safetensors"), before.join("manifest.json"));
    change(&state, |bytes| {
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let tensors: Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
        let start = tensors["params"]["data_offsets"][0].as_u64().unwrap() as usize;
        bytes[8 + header + start..][..4].copy_from_slice(&f32::NAN.to_le_bytes());
    });
    let mut contents: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    contents["sha256"] = sha256(&state).into();
    fs::write(&manifest, contents.to_string()).unwrap();

    let kept = sha256(&state);
    let run = train_small(&place, "model", &["--epochs", "4", "--resume"]);
    assert_eq!(run.code, 1, "{run:#?}");
    let step = format!("step {}", contents["step"].as_u64().unwrap() + 1);
    run.assert_one_error(&[&step, "no longer finite", "checkpoint is kept in model/checkpoints"]);
    assert_eq!(sha256(&state), kept);
}
