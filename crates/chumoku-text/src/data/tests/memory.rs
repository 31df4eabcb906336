//! Lines far over the limit are not held in memory.

use std::io::{Cursor, Read, repeat};

use super::*;

/// Set for the copy of this test program that measures its own memory.
const ALONE: &str = "CHUMOKU_TEST_MEMORY_ALONE";
const LONG: u64 = 300 << 20;

/// Returns the peak memory of this process in bytes, if the system reports it.
fn peak() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
}

fn long_line(before: &str, after: &str) -> impl Read + Send + 'static {
    Cursor::new(before.to_owned()).chain(repeat(b'a').take(LONG)).chain(Cursor::new(after.to_owned()))
}

fn error_of(name: &str, input: impl Read + Send + 'static) -> String {
    let options = ReadOptions::default();
    let source = RowSource::from_reader(Path::new(name), input, &options);
    let mut results = source.map_or_else(|error| vec![Err(error)], |source| source.records().collect::<Vec<_>>());
    results.pop().unwrap().unwrap_err().to_string()
}

#[test]
fn a_line_of_300_mib_is_refused_within_bounds() {
    if std::env::var_os(ALONE).is_none() {
        let program = std::env::current_exe().unwrap();
        let (_, module) = module_path!().split_once("::").unwrap();
        let name = format!("{module}::a_line_of_300_mib_is_refused_within_bounds");
        let mut alone = std::process::Command::new(program);
        let output = alone.args([name.as_str(), "--exact", "--nocapture"]).env(ALONE, "1").output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
        // Systems that cannot measure print a message.
        printed.lines().filter(|line| line.contains("SKIPPED")).for_each(|line| println!("{line}"));
        return;
    }
    let cut = "cut it into shorter texts, or leave such rows out with --skip-bad-rows";
    let text = format!("reading a text: expected at most 16 MiB, found 300 MiB; {cut}");
    assert_eq!(error_of("x.txt", long_line("short\n", "\nmore")), format!("x.txt:2: {text}"));
    let gap = format!("reading a line: expected at most 32 MiB, found 300.1 MiB; {cut}");
    assert_eq!(error_of("x.csv", long_line("text,label\nfine,1\n", ",1\n")), format!("x.csv:3: {gap}"));
    assert_eq!(error_of("x.tsv", long_line("text\tlabel\n", "\t1\n")), format!("x.tsv:2: {gap}"));
    assert_eq!(error_of("x.jsonl", long_line("{\"text\":\"", "\"}\n")), format!("x.jsonl:1: {gap}"));
    let fast = format!("x.txt:1: {text}").replace("300 MiB", "300.1 MiB");
    assert_eq!(error_of("x.txt", long_line("__label__a ", "\n")), fast);

    // An unclosed quote: many short lines in one endless field.
    let lines = repeat(b'\n').take(LONG);
    let open = error_of("x.csv", Cursor::new("text,label\na,1\n \"b\",c\n").chain(Cursor::new("\"d")).chain(lines));
    assert_eq!(
        open,
        "x.csv:4:1: reading a CSV field: expected a closing quote (\") for the one that opens here, found none within \
         16 MiB; close it, write a quote inside quotes twice (\"\"), or leave such rows out with --skip-bad-rows"
    );
    match peak() {
        Some(peak) => assert!(peak < LONG, "{} MiB", peak >> 20),
        None => println!("SKIPPED: this system does not tell the peak memory"),
    }
}

#[test]
fn reading_continues_after_a_long_line() {
    let options = ReadOptions { skip_bad_rows: true, ..ReadOptions::default() };
    let input = Cursor::new("one\n").chain(repeat(b'a').take(20 << 20)).chain(Cursor::new("\nthree\n"));
    let mut records = RowSource::from_reader(Path::new("x.txt"), input, &options).unwrap().records();
    let texts: Vec<String> = records.by_ref().map(|record| record.unwrap().fields[0].clone()).collect();
    assert_eq!(texts, ["one", "three"]);
    assert_eq!(records.skipped().count, 1);
    assert_eq!(records.skipped().rows[0].line, 2);
}
