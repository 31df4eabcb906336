//! Data through pipes: read completely by every command, and answered as it arrives.

use crate::common::{PATIENCE, Place, Run, csv, model, reviews};
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
    let place = Place::new();
    place.write("x.csv", large());
    place.write("x.csv.gz", gz(&large()));
    let more = ["--epochs", "1", "--json"];
    let of_file = place.run(&[&["train", "x.csv", "--out", "a"], &more[..]].concat()).ok().json();
    let rows = ["train", "valid", "test"].map(|part| of_file["rows"][part].as_u64().unwrap());
    assert_eq!(rows.iter().sum::<u64>(), 90);
    let from = |input: &[u8], data: &str, out: &str| {
        let run = place.run_on(input, &[&["train", data, "--out", out], &more[..]].concat()).ok();
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
    let place = Place::new();
    let table = csv(&reviews(60));
    place.write("x.csv", &table);
    let eval = place.run(&["eval", model(), "x.csv"]).ok();
    let piped = place.run_on(table.as_bytes(), &["eval", model(), "-"]).ok();
    assert_eq!(piped.stdout, eval.stdout);
    assert!(piped.stderr.contains("standard input: CSV with a header"), "{piped:#?}");
    let zipped = place.run_on(&gz(&table), &["eval", model(), "-"]).ok();
    assert_eq!(zipped.stdout, eval.stdout);
    let predict = place.run(&["predict", model(), "--input", "x.csv"]).ok();
    for args in [&["--input", "-"][..], &["-"], &[]] {
        let piped = place.run_on(table.as_bytes(), &[&["predict", model()], args].concat()).ok();
        assert_eq!(piped.stdout, predict.stdout, "{args:?}");
    }
    let zipped = place.run_on(&gz(&table), &["predict", model()]).ok();
    assert_eq!(zipped.stdout, predict.stdout);
    let example = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../chumoku-view/worked/by-hand.json")).unwrap();
    place.write("example.json", &example);
    for command in [&["check"][..], &["trace", "--input"]] {
        let [of_file, piped] = ["example.json", "-"].map(|file| [command, &[file]].concat());
        let (of_file, piped) = (place.run(&of_file), place.run_on(&example, &piped));
        let named = piped.stdout.strip_prefix("-:").map(|rest| format!("example.json:{rest}"));
        assert_eq!((piped.code, named.unwrap_or(piped.stdout)), (of_file.code, of_file.stdout));
    }
    let run = place.run_on(b"", &["train", "-"]);
    assert_eq!(run.code, 2, "{run:#?}");
    run.has_one_error(&["standard input", "empty"]);
}

/// An endless stream is buffered only up to the length at which `predict` rejects an endless line.
#[cfg(unix)]
#[test]
fn an_endless_stream_does_not_fill_the_disk() {
    let place = Place::new();
    let all = testkit::exhaustive("chumoku-cli");
    for args in [&["doctor", "/dev/zero"][..], &["eval", model(), "/dev/zero"], &["train", "/dev/zero", "--out", "m"]] {
        let run = place.refuses(args, &["/dev/zero:1: reading a line", "expected its end, found none within"]);
        assert!(run.stderr.contains("is it a text file?"), "{run:#?}");
        if !all {
            break;
        }
    }
}

/// A command that reads lines written one at a time.
struct Talk {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Talk {
    fn with(place: &Place, args: &[&str]) -> Talk {
        let mut command = place.command(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Talk { child, input, lines }
    }

    fn say(&mut self, line: &str) {
        // Written at once, because the command processes its input whenever nothing arrives for a moment.
        self.input.write_all(format!("{line}\n").as_bytes()).unwrap();
        self.input.flush().unwrap();
    }

    /// Reads the next line of output, which never precedes its input.
    fn hear(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("no answer while standard input is open")
    }

    fn end(mut self) {
        drop(self.input);
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn lines_are_answered_as_they_arrive() {
    let place = Place::new();
    let mut talk = Talk::with(&place, &["predict", model()]);
    talk.say("good and cheap");
    assert_eq!(talk.hear(), "text\tlabel\tprobability\terror");
    assert!(talk.hear().starts_with("good and cheap\t"));
    for text in ["bad", "", "二度と行きません。"] {
        talk.say(text);
        assert!(talk.hear().starts_with(&format!("{text}\t")));
    }
    talk.end();

    let mut talk = Talk::with(&place, &["predict", model(), "--json"]);
    for text in ["a first text", "a second text"] {
        talk.say(&json!({ "text": text, "id": 7 }).to_string());
        let answer: Value = serde_json::from_str(&talk.hear()).unwrap();
        assert_eq!((&answer["text"], &answer["input"]["id"]), (&json!(text), &json!(7)));
    }
    talk.end();

    // A table with a recognizable header, and one whose format is given.
    for (args, header) in [(&[][..], "id,text"), (&["--format", "csv", "--text", "b"], "a,b")] {
        let mut talk = Talk::with(&place, &[&["predict", model()], args].concat());
        talk.say(&format!("{header}\n1,\"good, and cheap\""));
        assert_eq!(talk.hear(), format!("{header},label,probability,error"));
        assert!(talk.hear().starts_with("1,\"good, and cheap\","));
        talk.say("2,bad");
        assert!(talk.hear().starts_with("2,bad,"));
        talk.end();
    }
}

#[test]
fn slow_input_is_read_completely() {
    let place = Place::new();
    let run = place.shell(&format!(
        "(printf 'text,id\\n'; sleep 0.4; printf '\"good, '; sleep 0.4; printf 'cheap\",1\\nbad,2\\n') | chumoku predict {}",
        model()
    ));
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines.len() == 3 && lines[1].starts_with("\"good, cheap\",1,"), "{run:#?}");
}

#[test]
fn a_closed_output_is_not_an_error() {
    let place = Place::new();
    place.write("x.csv", csv(&vec![reviews(700); 4].concat()));
    let run = place.shell(&format!("chumoku predict {} --input x.csv 2>talk | head -n 2; cat talk >&2", model()));
    assert_eq!((run.code, run.stdout.lines().count()), (0, 2), "{run:#?}");
    assert!(!run.stderr.contains("error") && !run.stderr.contains("pipe"), "{run:#?}");
}

#[test]
fn a_piped_table_is_detected_and_reported() {
    let place = Place::new();
    let ask =
        |input: &str, args: &[&str]| -> Run { place.run_on(input.as_bytes(), &[&["predict", model()], args].concat()) };
    // Commas and line breaks in most texts, with and without a header.
    let header = "id,text\n1,\"good, cheap, near\"\n2,\"bad,\nvery bad\"\n3,\"so, so\"\n";
    let run = ask(header, &[]).ok();
    assert!(run.stderr.contains("standard input: CSV with a header, 2 columns"), "{run:#?}");
    assert!(run.stdout.starts_with("id,text,label,probability,error\n1,\"good, cheap, near\","), "{run:#?}");
    let run = ask("1,\"good, cheap, near\"\n2,\"bad,\nvery bad\"\n3,\"so, so\"\n", &[]).ok();
    assert!(run.stderr.contains("CSV without a header, 2 columns"), "{run:#?}");
    // Invalid rows below a header are invalid, however few rows there are.
    let run = ask("id,text\n1,good\n2,bad,really\n3\n4,fine\n", &["--json"]).ok();
    let faults: Vec<bool> = run.json_lines().iter().map(|row| row.get("error").is_some()).collect();
    assert_eq!(faults, [false, true, true, false], "{run:#?}");
    // Texts with commas are texts.
    let run = ask("good, cheap\nbad, very bad\n", &[]).ok();
    assert!(run.stderr.contains("standard input: plain text"), "{run:#?}");
    // A flag overrides the detection.
    let run = ask(header, &["--format", "text"]).ok();
    assert!(run.stdout.lines().count() == 6 && run.stderr.contains("plain text (as requested)"), "{run:#?}");
    let run = ask("a^good\nb^bad\n", &["--delimiter", "^", "--text", "2"]).ok();
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
    run.has_one_error(&["--delimiter", "jsonl"]);
}
