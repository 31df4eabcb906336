//! Data through pipes: read completely by every command, and answered as it arrives.

use crate::common::{Run, TIMEOUT, TestDir, csv, reviews, shared_model};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// More than twice what format detection reads, and more than a pipe holds.
fn large() -> String {
    let rows = reviews(90)
        .into_iter()
        .map(|(text, label)| format!("\"{}\",{label},{}\n", text.replace('"', "\"\""), "note ".repeat(500)));
    "text,label,note\n".to_owned() + &rows.collect::<String>()
}

fn gz(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_pipe_trains_like_the_file() {
    let place = TestDir::new();
    place.write("x.csv", large());
    place.write("x.csv.gz", gz(&large()));
    let more = ["--epochs", "1", "--json"];
    let of_file = place.run(&[&["train", "x.csv", "--out", "a"], &more[..]].concat()).assert_success().json();
    let rows = ["train", "valid", "test"].map(|part| of_file["rows"][part].as_u64().unwrap());
    assert_eq!(rows.iter().sum::<u64>(), 90);
    let from = |input: &[u8], data: &str, out: &str| {
        let run = place.run_with_input(input, &[&["train", data, "--out", out], &more[..]].concat()).assert_success();
        assert!(run.stderr.contains("CSV with a header, 3 columns"), "{run:#?}");
        run.json()["data_sha256"].clone()
    };
    assert_eq!(from(large().as_bytes(), "-", "b"), of_file["data_sha256"]);
    assert_eq!(from(&gz(&large()), "-", "c"), of_file["data_sha256"]);
    if cfg!(unix) {
        assert_eq!(from(large().as_bytes(), "/dev/stdin", "d"), of_file["data_sha256"]);
    }
}

#[test]
fn every_command_accepts_a_dash() {
    let place = TestDir::new();
    let table = csv(&reviews(60));
    place.write("x.csv", &table);
    let eval = place.run(&["eval", shared_model(), "x.csv"]).assert_success();
    let piped = place.run_with_input(table.as_bytes(), &["eval", shared_model(), "-"]).assert_success();
    assert_eq!(piped.stdout, eval.stdout);
    assert!(piped.stderr.contains("standard input: CSV with a header"), "{piped:#?}");
    let zipped = place.run_with_input(&gz(&table), &["eval", shared_model(), "-"]).assert_success();
    assert_eq!(zipped.stdout, eval.stdout);
    let predict = place.run(&["predict", shared_model(), "--input", "x.csv"]).assert_success();
    for args in [&["--input", "-"][..], &["-"], &[]] {
        let piped =
            place.run_with_input(table.as_bytes(), &[&["predict", shared_model()], args].concat()).assert_success();
        assert_eq!(piped.stdout, predict.stdout, "{args:?}");
    }
    let zipped = place.run_with_input(&gz(&table), &["predict", shared_model()]).assert_success();
    assert_eq!(zipped.stdout, predict.stdout);
    let example = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../chumoku-trace/worked/by-hand.json")).unwrap();
    place.write("example.json", &example);
    for command in [&["check"][..], &["trace", "--input"]] {
        let [of_file, piped] = ["example.json", "-"].map(|file| [command, &[file]].concat());
        let (of_file, piped) = (place.run(&of_file), place.run_with_input(&example, &piped));
        let named = piped.stdout.strip_prefix("-:").map(|rest| format!("example.json:{rest}"));
        assert_eq!((piped.code, named.unwrap_or(piped.stdout)), (of_file.code, of_file.stdout));
    }
    let run = place.run_with_input(b"", &["train", "-"]);
    assert_eq!(run.code, 2, "{run:#?}");
    run.assert_one_error(&["standard input", "empty"]);
}

/// An endless stream is buffered only up to the length at which `predict` rejects an endless line.
#[cfg(unix)]
#[test]
fn an_endless_stream_does_not_fill_the_disk() {
    let place = TestDir::new();
    let all = testkit::exhaustive("chumoku-cli");
    for args in
        [&["doctor", "/dev/zero"][..], &["eval", shared_model(), "/dev/zero"], &["train", "/dev/zero", "--out", "m"]]
    {
        let run = place.run_rejected(args, &["/dev/zero:1: reading a line", "expected its end, found none within"]);
        assert!(run.stderr.contains("is it a text file?"), "{run:#?}");
        if !all {
            break;
        }
    }
}

/// A command that reads lines written one at a time.
struct PredictSession {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl PredictSession {
    fn start(place: &TestDir, args: &[&str]) -> PredictSession {
        let mut command = place.command(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        PredictSession { child, input, lines }
    }

    fn send_line(&mut self, line: &str) {
        // Written at once, because the command processes its input whenever nothing arrives for a moment.
        self.input.write_all(format!("{line}\n").as_bytes()).unwrap();
        self.input.flush().unwrap();
    }

    /// Reads the next line of output, which never precedes its input.
    fn read_line(&self) -> String {
        self.lines.recv_timeout(TIMEOUT).expect("no answer while standard input is open")
    }

    fn finish(mut self) {
        drop(self.input);
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn lines_are_answered_as_they_arrive() {
    let place = TestDir::new();
    let mut talk = PredictSession::start(&place, &["predict", shared_model()]);
    talk.send_line("good and cheap");
    assert_eq!(talk.read_line(), "text\tlabel\tprobability\terror");
    assert!(talk.read_line().starts_with("good and cheap\t"));
    for text in ["bad", "", "二度と行きません。"] {
        talk.send_line(text);
        assert!(talk.read_line().starts_with(&format!("{text}\t")));
    }
    talk.finish();

    let mut talk = PredictSession::start(&place, &["predict", shared_model(), "--json"]);
    for text in ["a first text", "a second text"] {
        talk.send_line(&json!({ "text": text, "id": 7 }).to_string());
        let answer: Value = serde_json::from_str(&talk.read_line()).unwrap();
        assert_eq!((&answer["text"], &answer["input"]["id"]), (&json!(text), &json!(7)));
    }
    talk.finish();

    // A table with a recognizable header, and one whose format is given.
    for (args, header) in [(&[][..], "id,text"), (&["--format", "csv", "--text", "b"], "a,b")] {
        let mut talk = PredictSession::start(&place, &[&["predict", shared_model()], args].concat());
        talk.send_line(&format!("{header}\n1,\"good, and cheap\""));
        assert_eq!(talk.read_line(), format!("{header},label,probability,error"));
        assert!(talk.read_line().starts_with("1,\"good, and cheap\","));
        talk.send_line("2,bad");
        assert!(talk.read_line().starts_with("2,bad,"));
        talk.finish();
    }
}

#[test]
#[cfg_attr(windows, ignore = "runs a shell of Unix")]
fn slow_input_is_read_completely() {
    let place = TestDir::new();
    let run = place.run_shell(&format!(
        "(printf 'text,id\\n'; sleep 0.4; printf '\"good, '; sleep 0.4; printf 'cheap\",1\\nbad,2\\n') | chumoku predict {}",
        shared_model()
    ));
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines.len() == 3 && lines[1].starts_with("\"good, cheap\",1,"), "{run:#?}");
}

#[test]
#[cfg_attr(windows, ignore = "runs a shell of Unix")]
fn a_closed_output_is_not_an_error() {
    let place = TestDir::new();
    place.write("x.csv", csv(&vec![reviews(700); 4].concat()));
    let run =
        place.run_shell(&format!("chumoku predict {} --input x.csv 2>talk | head -n 2; cat talk >&2", shared_model()));
    assert_eq!((run.code, run.stdout.lines().count()), (0, 2), "{run:#?}");
    assert!(!run.stderr.contains("error") && !run.stderr.contains("pipe"), "{run:#?}");
}

#[test]
fn a_piped_table_is_detected_and_reported() {
    let place = TestDir::new();
    let ask = |input: &str, args: &[&str]| -> Run {
        place.run_with_input(input.as_bytes(), &[&["predict", shared_model()], args].concat())
    };
    // Commas and line breaks in most texts, with and without a header.
    let header = "id,text\n1,\"good, cheap, near\"\n2,\"bad,\nvery bad\"\n3,\"so, so\"\n";
    let run = ask(header, &[]).assert_success();
    assert!(run.stderr.contains("standard input: CSV with a header, 2 columns"), "{run:#?}");
    assert!(run.stdout.starts_with("id,text,label,probability,error\n1,\"good, cheap, near\","), "{run:#?}");
    let run = ask("1,\"good, cheap, near\"\n2,\"bad,\nvery bad\"\n3,\"so, so\"\n", &[]).assert_success();
    assert!(run.stderr.contains("CSV without a header, 2 columns"), "{run:#?}");
    // Invalid rows below a header are invalid, however few rows there are.
    let run = ask("id,text\n1,good\n2,bad,really\n3\n4,fine\n", &["--json"]).assert_success();
    let faults: Vec<bool> = run.json_lines().iter().map(|row| row.get("error").is_some()).collect();
    assert_eq!(faults, [false, true, true, false], "{run:#?}");
    // Texts with commas are texts.
    let run = ask("good, cheap\nbad, very bad\n", &[]).assert_success();
    assert!(run.stderr.contains("standard input: plain text"), "{run:#?}");
    // A flag overrides the detection.
    let run = ask(header, &["--format", "text"]).assert_success();
    assert!(run.stdout.lines().count() == 6 && run.stderr.contains("plain text (as requested)"), "{run:#?}");
    let run = ask("a^good\nb^bad\n", &["--delimiter", "^", "--text", "2"]).assert_success();
    assert!(run.stderr.contains("CSV (^ between fields) without a header"), "{run:#?}");
    for (args, words) in [
        (["--delimiter", "ab"], ["--delimiter", "one ASCII character"]),
        (["--format", "xml"], ["--format", "csv, tsv, jsonl"]),
    ] {
        let run = ask("x\n", &args);
        assert_eq!(run.code, 2);
        assert!(words.iter().all(|word| run.stderr.contains(word)), "{run:#?}");
    }
    let run = ask("x\n", &["--format", "jsonl", "--delimiter", ";"]);
    run.assert_one_error(&["--delimiter", "jsonl"]);
}
