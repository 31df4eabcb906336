//! Outputs are checked before any work and never replace inputs. A run leaves nothing in other places.

use crate::common::{HoldPoint, NO_SUCH_FOLDER, NOT_A_FOLDER, Run, SMALL, TestDir, csv, reviews};
use chumoku::failpoint::VARIABLE;
use std::fs;
use std::process::{Command, Stdio};

/// A model with a film, an encoder, tensors, a table, a worked example and a shard: everything that commands read.
fn place() -> TestDir {
    let place = TestDir::with_bert();
    place.train_small("model", &["--epochs", "1", "--watch", "a fine day"]);
    let tensor = || {
        let bytes = [1f32, 0.0, 0.0, 1.0].map(f32::to_le_bytes).concat();
        let bytes: &'static [u8] = bytes.leak();
        safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![1, 1, 2, 2], bytes).unwrap()
    };
    let tensors = safetensors::serialize(["Q", "K", "V"].map(|name| (name, tensor())), None).unwrap();
    place.write("in.safetensors", tensors);
    place.write("table.csv", csv(&reviews(40)));
    place.write("texts.txt", "a fine day\n");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../chumoku-trace/worked/school.json");
    fs::copy(example, place.path("example.json")).unwrap();
    let shard = place.run(&["predict", "model", "--input", "table.csv", "--shard", "1/1"]).assert_success();
    place.write("shard", shard.stdout);
    place
}

#[test]
fn no_command_overwrites_its_inputs() {
    let place = place();
    fs::hard_link(place.path("table.csv"), place.path("hard.csv")).unwrap();
    fs::hard_link(place.path("model/model.safetensors"), place.path("outside.safetensors")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("model/config.json", place.path("soft.json")).unwrap();
    let expected = ["this is an input file; choose another output"];
    let explain = |more: &[&'static str]| [&["explain", "model", "a fine day"], more].concat();
    let mut commands = vec![
        vec!["embed", "bert", "--input", "table.csv", "--format", "jsonl", "--out", "table.csv"],
        vec!["embed", "bert", "--input", "table.csv", "--format", "jsonl", "--out", "hard.csv"],
        vec!["embed", "bert", "good", "--out", "bert/model.safetensors"],
        vec!["attend", "in.safetensors", "-o", "in.safetensors"],
        vec!["trace", "--input", "example.json", "--out", "example.json"],
        vec!["trace", "--model", "model", "--text", "fine", "--tokens", "--out", "model/config.json"],
        vec!["position", "--model", "model", "--svg", "model/model.safetensors"],
        vec!["position", "--model", "model", "--json", "outside.safetensors"],
        vec!["film", "model", "--html", "model/log.jsonl"],
        vec!["film", "model", "--json", "model/metrics.json"],
        vec!["eval", "model", "table.csv", "--errors", "table.csv"],
        vec!["eval", "model", "table.csv", "--svg", "model/README.md"],
        vec!["explain", "model", "--errors", "table.csv", "--html", "hard.csv"],
        vec!["explain", "model", "--faithfulness", "table.csv", "--json", "table.csv"],
        explain(&["--html", "model/tokenizer.json"]),
        explain(&["--compare-model", "bert", "--svg", "bert/vocab.txt"]),
        vec!["export", "model", "-o", "model/checkpoints/../config.json"],
        vec!["join", "shard", "--out", "shard"],
    ];
    for form in ["text", "md", "html", "latex", "json", "xlsx"] {
        commands.push(vec![
            "trace",
            "--model",
            "model",
            "--text",
            "fine",
            "--format",
            form,
            "--out",
            "model/config.json",
        ]);
    }
    #[cfg(unix)]
    commands.push(vec!["film", "model", "--svg", "soft.json"]);
    for command in commands {
        place.run_rejected(&command, &expected);
    }
    // A table in the folder of the findings, and one that the shell opens.
    fs::create_dir(place.path("findings")).unwrap();
    place.copy_folder(&place.path("model"), "other");
    fs::copy(place.path("table.csv"), place.path("findings/doctor.csv")).unwrap();
    place.run_rejected(&["doctor", "findings/doctor.csv", "--out", "findings", "--force"], &expected);
    #[cfg(target_os = "linux")]
    {
        let before = place.read("table.csv");
        let run = place.run_shell("chumoku embed bert --format jsonl --out table.csv < table.csv");
        assert_eq!((run.code, place.read("table.csv")), (2, before));
        run.assert_one_error(&expected);
    }
    // Other files may be replaced.
    place.run(&["position", "--model", "model", "--json", "other/metrics.json"]).assert_success();
    // Two outputs with the same path would overwrite each other.
    place.run_rejected(&explain(&["--html", "page", "--json", "./page"]), &["page", "the name of two output files"]);
    if cfg!(any(windows, target_os = "macos")) {
        place.run_rejected(&explain(&["--html", "page", "--json", "PAGE"]), &["PAGE", "the name of two output files"]);
    }
}

#[test]
#[cfg(unix)]
fn standard_output_must_not_be_an_input() {
    let place = place();
    fs::hard_link(place.path("table.csv"), place.path("hard.csv")).unwrap();
    let before = place.file_hashes();
    for command in [
        "predict model --input table.csv >> table.csv",
        "predict model --input table.csv --json >> hard.csv",
        "embed bert --input table.csv >> table.csv",
        "embed bert --input table.csv --format npy >> table.csv",
        "nearest bert fine --corpus table.csv >> table.csv",
        "eval model table.csv >> table.csv",
        "doctor table.csv >> table.csv",
        "explain model --faithfulness table.csv >> table.csv",
        "compare table.csv >> table.csv",
        "train table.csv --out new >> table.csv",
        "train reviews.csv --test table.csv --out new >> table.csv",
        "train reviews.csv --hierarchy table.csv --out new >> table.csv",
        "attend in.safetensors >> in.safetensors",
        "check example.json >> example.json",
        "join shard >> shard",
        #[cfg(target_os = "linux")]
        "predict model < table.csv >> table.csv",
    ] {
        let run = place.run_shell(&format!("chumoku {command}"));
        assert_eq!(run.code, 2, "{command}: {run:#?}");
        run.assert_one_error(&["the input file is also the output file"]);
        assert_eq!(place.file_hashes(), before, "{command}");
    }
    // The shell empties the file before the command starts; the message explains that the input is empty for this
    // reason.
    fs::copy(place.path("table.csv"), place.path("emptied.csv")).unwrap();
    let run = place.run_shell("chumoku predict model --input emptied.csv --lang ja > emptied.csv");
    run.assert_one_error(&["emptied.csv", "標準出力"]);
    // If a command does not read standard input, it may be any file, such as the log that it writes to.
    fs::write(place.path("log.txt"), "started\n").unwrap();
    place.run_shell("chumoku info < log.txt >> log.txt").assert_success();
    // Other files may receive the output, also in the model's folder.
    for _ in 0..2 {
        place.run_shell("chumoku predict model --input table.csv >> model/answers.csv").assert_success();
        place.run_shell("chumoku eval model table.csv >> scores.txt").assert_success();
    }
}

#[test]
fn outputs_are_checked_before_inputs_are_read() {
    let place = TestDir::new();
    place.write("file", "mine");
    let commands = [
        "embed none x --out missing/x",
        "trace --model none --text x --out missing/x",
        "eval none none.csv --errors missing/x",
        "eval none none.csv --pdf missing/x",
        "predict none x --html missing/x",
        "explain none x --svg missing/x",
        "explain none --errors none.csv --html missing/x",
        "export none -o missing/x",
        "attend none.safetensors -o missing/x.safetensors",
        "position --model none --png missing/x",
        "film none --html missing/x",
        "compare none.csv --svg missing/x",
        "join none --out missing/x",
        "doctor none.csv --out file/x",
        "explain none --input none.txt --png file/x",
        "train none.csv --out file/x",
    ];
    for command in commands {
        let args: Vec<&str> = command.split(' ').collect();
        let path = *args.last().unwrap();
        let reason = if path.starts_with("file") { NOT_A_FOLDER } else { NO_SUCH_FOLDER };
        place.run_rejected(&args, &[path, reason]);
    }
    // The same for a run that would be lost.
    place.train_small("model", &[]);
    place.run_rejected(&["train", "none.csv", "--out", "model"], &["model", "finished model"]);
}

#[test]
fn a_dash_is_standard_output_or_rejected() {
    let place = place();
    let same = [
        (vec!["trace", "--example", "school"], "--out"),
        (vec!["embed", "bert", "good"], "--out"),
        (vec!["join", "shard"], "--out"),
    ];
    for (args, flag) in same {
        let plain = place.run(&args).assert_success();
        let dashed = place.run(&[&args[..], &[flag, "-"]].concat()).assert_success();
        assert_eq!(dashed.stdout, plain.stdout, "{args:?}");
    }
    for args in [&["explain", "model", "fine"][..], &["position"], &["film", "model"]] {
        place.run(&[args, &["--json", "-"]].concat()).assert_success().json();
    }
    let refused = [
        "explain model fine --html -",
        "explain model fine --svg -",
        "position --html -",
        "film model --html -",
        "predict model fine --html -",
        "eval model table.csv --errors -",
        "eval model table.csv --png -",
        "export model -o -",
        "attend in.safetensors -o -",
        "compare table.csv --svg -",
        "doctor table.csv --out -",
        "train table.csv --out -",
    ];
    for command in refused {
        let args: Vec<&str> = command.split(' ').collect();
        let run = place.run(&args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{command}: {run:#?}");
        run.assert_one_error(&["expected the name of a file", "./-"]);
    }
    assert!(!place.path("-").exists());
    place.run(&["position", "--json", "./-"]).assert_success();
    assert!(place.path("-").exists());
}

/// A name of another format would get the text of a trace, or the JSON lines of vectors.
#[test]
fn file_names_of_other_formats_are_refused() {
    let place = place();
    for name in ["a.pdf", "a.svg", "a.docx"] {
        place.run_rejected(&["trace", "--example", "school", "--out", name], &[name, ".html", ".xlsx", "--format"]);
        place.run_rejected(&["trace", "--saturation", "--out", name], &[name, ".html"]);
        place.run_rejected(&["embed", "bert", "good", "--out", name], &[name, ".npy", "--format"]);
    }
    for name in ["a", "a.TXT", "a.html"] {
        place.run(&["trace", "--example", "school", "--out", name]).assert_success();
    }
    place.run(&["trace", "--example", "school", "--out", "a.pdf", "--format", "text"]).assert_success();
    place.run(&["embed", "bert", "good", "--out", "a.NPY"]).assert_success();
    assert!(std::fs::read(place.path("a.NPY")).unwrap().starts_with(b"\x93NUMPY"));
}

/// The environment variables for the temporary folder, on Unix and on Windows.
const TEMPORARY: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];

/// Runs a command without a usable temporary folder.
fn without_temporary_folder(place: &TestDir, args: &[&str]) -> Run {
    Run::from_output(place.command(args).envs(TEMPORARY.map(|name| (name, place.path("nowhere")))).output().unwrap())
}

/// The work folders in a folder.
fn work_folders(place: &TestDir, folder: &str) -> Vec<String> {
    place.file_names(folder).into_iter().filter(|name| name.starts_with(".chumoku-work-")).collect()
}

#[test]
fn temporary_files_of_training_are_beside_the_model() {
    let place = TestDir::with_bert();
    place.write("reviews.csv", csv(&reviews(60)));
    let train = ["train", "reviews.csv", "--out"];
    let ways: [(&str, &[&str]); 4] = [
        ("from", &["--from", "bert", "--epochs", "1"]),
        ("folds", &["--folds", "2", "--epochs", "1"]),
        ("ngram-folds", &["--folds", "2", "--model", "ngrams"]),
        ("tune", &["--tune", "3", "--model", "ngrams"]),
    ];
    for (out, more) in ways {
        let run = without_temporary_folder(&place, &[&train[..], &[out], more].concat()).assert_success();
        assert!(place.path(out).join("config.json").exists(), "{run:#?}");
        assert_eq!(work_folders(&place, out), [""; 0], "{out}");
    }
}

#[test]
fn leftovers_of_a_killed_run_are_removed_by_the_next() {
    let place = TestDir::new();
    place.write("reviews.csv", csv(&reviews(60)));
    let args = [&["train", "reviews.csv", "--epochs", "2", "--folds", "2"], &SMALL[..], &["--out"]].concat();
    place.run(&[&args[..], &["whole"]].concat()).assert_success();
    for again in ["--resume", "--force"] {
        let args = [&args[..], &["killed"]].concat();
        let _ = fs::remove_dir_all(place.path("killed"));
        assert!(place.run_killed_at("step:2", &args));
        assert_eq!(work_folders(&place, "killed").len(), 1);
        place.run_uncached(&[&args[..], &[again]].concat()).assert_success();
        assert_eq!(place.file_names("killed"), place.file_names("whole"), "{again}");
        // The same for a run that replaces a model.
        assert!(place.run_killed_at("step:2", &[&args[..], &["--force"]].concat()));
        assert_eq!(work_folders(&place, "killed/.chumoku-next").len(), 1);
        place.run_uncached(&[&args[..], &["--force"]].concat()).assert_success();
        assert_eq!(place.file_names("killed"), place.file_names("whole"), "{again}");
    }
    // A comparison has a picture but no model.
    fs::create_dir(place.path("pictures")).unwrap();
    let mut left = Vec::new();
    for _ in 0..2 {
        let mut command = place.command(&["compare", "reviews.csv", "--svg", "pictures/x.svg", "--epochs", "1"]);
        command.envs(TEMPORARY.map(|name| (name, place.path("nowhere")))).env(VARIABLE, "step:1=abort");
        assert_eq!(Run::from_output(command.output().unwrap()).code, -1);
        left.extend(work_folders(&place, "pictures"));
    }
    assert_eq!(work_folders(&place, "pictures"), left[1..], "{left:?}");
}

#[test]
#[cfg(unix)]
fn two_signals_at_once_count_as_one() {
    let place = TestDir::new();
    place.write("reviews.csv", csv(&reviews(100)));
    let args = [&["train", "reviews.csv", "--out", "model", "--epochs", "3"], &SMALL[..]].concat();
    let hold = HoldPoint::at("step:2");
    let mut command = place.command(&args);
    command.envs([hold.environment()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    assert!(hold.wait_until_reached_by(&mut child));
    let kill = |name: &str| {
        let id = child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    };
    // Both signals wait until the process continues, however slow this test is.
    ["-STOP", "-TERM", "-INT", "-CONT"].into_iter().for_each(kill);
    let run = {
        let mut errors = std::io::BufReader::new(child.stderr.take().unwrap());
        let mut message = String::new();
        while !message.contains("stopping") {
            assert_ne!(std::io::BufRead::read_line(&mut errors, &mut message).unwrap(), 0, "{message}");
        }
        hold.release();
        std::io::Read::read_to_string(&mut errors, &mut message).unwrap();
        Run { stderr: message, ..Run::from_output(child.wait_with_output().unwrap()) }
    };
    assert_eq!(run.code, 130, "{run:#?}");
    assert!(run.stderr.contains("continue with") && place.path("model/model.safetensors").exists(), "{run:#?}");
    // The next run names the flag that resumes it.
    let words = ["model", "interrupted", "--resume", "--force"];
    place.run_rejected(&args, &words);
    place.run_uncached(&[&args[..], &["--resume"]].concat()).assert_success();
    place.run_rejected(&args, &["holds a finished model"]);
    assert!(place.run_killed_at("evaluated:2", &[&args[..], &["--force"]].concat()));
    place.run_rejected(&args, &["finished model", "unfinished run", "--resume"]);
}

#[test]
fn a_run_that_cannot_write_its_model_names_the_resume_command() {
    let place = TestDir::new();
    place.write("reviews.csv", csv(&reviews(60)));
    let args = ["train", "reviews.csv", "--out", "model", "--epochs", "1"];
    let hold = HoldPoint::at("evaluated:1");
    let mut command = place.command(&args);
    command.envs([hold.environment()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    assert!(hold.wait_until_reached_by(&mut child));
    // A file occupies the name of the folder that the model is written to.
    place.write("model/.chumoku-staged", "mine");
    hold.release();
    let run = Run::from_output(child.wait_with_output().unwrap());
    assert_ne!(run.code, 0);
    run.assert_one_error(&["the training so far is saved", "--resume", ".chumoku-staged"]);
    fs::remove_file(place.path("model/.chumoku-staged")).unwrap();
    place.run_uncached(&[&args[..], &["--resume"]].concat()).assert_success();
}

#[test]
fn a_different_run_reports_what_differs() {
    let place = TestDir::new();
    place.train_small("model", &["--epochs", "2", "--seed", "5"]);
    place.write("other.csv", csv(&reviews(101)));
    fs::remove_file(place.path("model/model.safetensors")).unwrap();
    let resume = |data: &str, epochs: &str, seed: &str, words: &[&str]| {
        let args = ["train", data, "--out", "model", "--epochs", epochs, "--seed", seed, "--resume"];
        place.run_rejected(&args, words);
    };
    resume("reviews.csv", "3", "5", &["epochs: 2 then, 3 now", "--force"]);
    resume("reviews.csv", "2", "6", &["(seed: 5 then, 6 now)"]);
    resume("other.csv", "3", "5", &["(other rows, epochs: 2 then, 3 now)"]);
}
