//! Invalid flags and arguments give one error line, exit code 2, and no output.

use crate::common::{Run, TestDir, csv, reviews};

fn place() -> TestDir {
    let place = TestDir::new();
    place.write("x.csv", csv(&reviews(40)));
    place
}

#[test]
fn flags_out_of_range() {
    let place = place();
    for command in [&["train", "x.csv"][..], &["eval", "m", "x.csv"], &["predict", "m", "t"], &["explain", "m", "t"]] {
        for threads in ["0", "-1", "two", "1000000"] {
            // `--flag=value`, because −1 alone looks like a flag.
            let flag = format!("--threads={threads}");
            place.run_rejected(&[command, &[&flag]].concat(), &["--threads", threads, "1 to 1024"]);
        }
    }
    for (flags, words) in [
        (&["train", "x.csv", "--epochs", "0"][..], &["--epochs", "a whole number from 1, found 0"][..]),
        (&["train", "x.csv", "--epochs", "abc"], &["--epochs", "a whole number from 1, found abc"]),
        (&["train", "x.csv", "--epochs", "99999999999999999999"], &["--epochs", "a smaller number"]),
        (&["train", "x.csv", "--seed", "-1"], &["--seed", "a whole number from 0, found -1"]),
        (&["train", "x.csv", "--seed", ""], &["--seed", "a whole number from 0, found nothing"]),
        (&["train", "x.csv", "--threads", "-1"], &["--threads", "1 to 1024, found -1"]),
        (&["train", "x.csv", "--parts", "65"], &["--parts", "1 to 64, found 65"]),
        (&["train", "x.csv", "--parts", "0"], &["--parts", "1 to 64, found 0"]),
        (&["bench", "train", "--parts", "many"], &["--parts", "1 to 64, found many"]),
        (
            &["train", "x.csv", "--parts", "65", "--lang", "ja"],
            &["--parts", "1 から 64 までの整数が必要ですが、65 です"],
        ),
        (&["predict", "m", "t", "--top", "-2"], &["--top", "a whole number from 1, found -2"]),
        (&["attend", "x.npz", "--scale", "x"], &["--scale", "a number, found x"]),
        (&["attend", "x.npz", "--kv-num-heads", "1.5"], &["--kv-num-heads", "a whole number, found 1.5"]),
        (&["train", "x.csv", "--epochs", "abc", "--lang", "ja"], &["--epochs", "1 以上の整数が必要ですが、abc です"]),
        (&["train", "x.csv", "--seed", "-1", "--lang", "ja"], &["--seed", "0 以上の整数が必要ですが、-1 です"]),
        (&["attend", "x.npz", "--scale", "x", "--lang", "ja"], &["--scale", "数が必要ですが、x です"]),
    ] {
        let refused = place.run(flags);
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{refused:#?}");
        assert!(words.iter().all(|word| refused.stderr.contains(word)), "{words:?}: {refused:#?}");
        assert_eq!(refused.stderr.lines().count(), 1, "{refused:#?}");
    }
    place.run_rejected(&["train", "x.csv", "--precision", "low"], &["--precision", "low", "highest, high, medium"]);
    place.run_rejected(&["train", "x.csv", "--model", "cnn"], &["--model", "cnn", "transformer, rnn, lstm, gru"]);
    place.run_rejected(&["compare", "x.csv", "--epochs", "0"], &["--epochs", "0"]);
    place.run_rejected(&["train", "x.csv", "--task", "sing"], &["--task", "sing", "classify"]);
    place.run_rejected(&["predict", "m", "t", "--top", "0"], &["--top", "0"]);
    place.run_rejected(&["explain", "m", "t", "--lang", "fr"], &["--lang", "fr", "en, ja"]);
}

#[test]
fn an_unsupported_instruction_set() {
    let place = place();
    let run = |isa: &str| Run::from_output(place.command(&["info"]).env("CHUMOKU_ISA", isa).output().unwrap());
    let refused = run("avx3");
    assert!(refused.code == 2 && refused.stdout.is_empty(), "{refused:#?}");
    assert!(refused.stderr.contains("CHUMOKU_ISA") && refused.stderr.contains("avx3"), "{refused:#?}");
    assert!(run("scalar").assert_success().stdout.contains("scalar in use"));
    run("").assert_success();
}

#[test]
fn unknown_flags_and_commands() {
    let place = place();
    place.run_rejected(&["train", "x.csv", "--epoch", "3"], &["--epoch", "--epochs", "--help"]);
    place.run_rejected(&["train", "x.csv", "--colour"], &["unexpected argument", "--colour", "--help"]);
    place.run_rejected(&["train", "x.csv", "y.csv"], &["y.csv"]);
    for flag in ["--learning-rate", "--lr", "--learning_rate=0.1"] {
        let output = place.run(&["train", "x.csv", flag, "0.001"]);
        assert!(output.code == 2 && output.stderr.contains("--settings learning-rate=VALUE"), "{output:#?}");
        assert!(!output.stderr.contains("--lang"), "{output:#?}");
    }
    place.run_rejected(&["train", "x.csv", "--batch-size", "32"], &["--settings batch-tokens=VALUE"]);
    place.run_rejected(&["trian", "x.csv"], &["trian", "train", "--help"]);
    place.run_rejected(&["eval", "m"], &["<DATA>"]);
    place.run_rejected(&["predict", "m", "text", "--input", "x.csv"], &["--input", "cannot be used with"]);
}

#[test]
fn layers_and_heads_that_the_model_does_not_have() {
    let place = place();
    place.train_small("model", &[]);
    place.run_rejected(&["explain", "model", "text", "--layer", "99"], &["--layer 99", "layers 1 to"]);
    place.run_rejected(&["explain", "model", "text", "--head", "99"], &["--head 99", "heads 1 to"]);
    place.run_rejected(&["explain", "model", "text", "--layer", "0"], &["--layer", "0"]);
    place.run_rejected(&["explain", "model", "text", "--html", "no/such/page.html"], &["no/such/page.html"]);
    place.run_rejected(&["explain", "model", "text", "--json", "."], &["directory"]);
}

#[test]
fn help_is_not_an_error() {
    let place = place();
    for args in [&["--help"][..], &["train", "--help"], &["help", "predict"], &["--version"]] {
        let run = place.run(args).assert_success();
        assert!(run.stderr.is_empty() && !run.stdout.is_empty(), "{run:#?}");
    }
    let bare = place.run(&[]);
    assert!(bare.code == 2 && bare.stderr.contains("Usage: chumoku [OPTIONS] <COMMAND>"), "{bare:#?}");
}

#[test]
#[cfg_attr(windows, ignore = "runs a shell of Unix")]
fn a_closed_pipe_is_not_an_error() {
    let place = place();
    place.train_small("model", &[]);
    let lines = [
        "chumoku info | true",
        "chumoku predict model --input x.csv | head -1",
        "chumoku predict model one two three | true",
        "chumoku eval model x.csv | head -1",
        "chumoku eval model x.csv --json | true",
        "chumoku explain model 'a fine day' | head -1",
        "chumoku explain model 'a fine day' --json - | true",
        "chumoku train x.csv --epochs 1 --out piped | true",
        "chumoku train x.csv --epochs 1 --out talk 2>&1 | head -1",
    ];
    for line in lines {
        // The program's own exit code, despite the pipe.
        let (command, reader) = line.split_once(" |").unwrap();
        let run = place.run_shell(&format!("{{ {command}; echo \"code $?\" >&3; }} 3>&2 |{reader}"));
        assert!(run.stderr.ends_with("code 0\n"), "{line}: {run:#?}");
        assert!(!run.stderr.contains("panicked") && !run.stderr.contains("error"), "{line}: {run:#?}");
    }
    // Training continues if its messages have no reader.
    assert!(place.path("talk/model.safetensors").exists());
}
