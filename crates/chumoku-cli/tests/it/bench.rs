//! `chumoku bench`: what it prints, and what it rejects. Speed is not tested here.

use crate::common::TestDir;
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

const FIELDS: [&str; 10] =
    ["median_ms", "min_ms", "max_ms", "runs", "gflops", "tokens_per_second", "peak_bytes", "kernel", "isa", "threads"];

/// Returns the one JSON object on standard output, with all fields present and the times in order.
#[track_caller]
fn run_bench(args: &[&str]) -> Value {
    let run = TestDir::new().run(&[&["bench"], args, &["--json"]].concat()).assert_success();
    assert_eq!(run.stdout.lines().count(), 1, "{run:#?}");
    assert!(run.stderr.is_empty(), "{run:#?}");
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    for field in FIELDS {
        assert!(report.get(field).is_some(), "{field} is missing in {report}");
    }
    let [min, median, max] = ["min_ms", "median_ms", "max_ms"].map(|field| number(&report, field));
    assert!(0.0 < min && min <= median && median <= max, "{report}");
    assert!(report["runs"].as_u64() >= Some(3), "{report}");
    assert!(report["kernel"].is_string() && report["isa"].is_string(), "{report}");
    if cfg!(any(target_os = "linux", target_os = "macos", windows)) {
        assert!(report["peak_bytes"].is_u64(), "{report}");
    }
    report
}

#[track_caller]
fn number(report: &Value, field: &str) -> f64 {
    report[field].as_f64().unwrap_or_else(|| panic!("{field} is no number in {report}"))
}

/// Operations and tokens per run, computed from the rates per second.
#[track_caller]
fn work(report: &Value) -> (f64, f64) {
    let median = number(report, "median_ms");
    ((number(report, "gflops") * median * 1e6).round(), (number(report, "tokens_per_second") * median / 1e3).round())
}

const SMALL: [&str; 7] = ["attention", "--heads", "4", "--length", "12", "--dim", "8"];

#[test]
fn attention_counts_operations_by_the_formula() {
    let forward = 4.0 * (4 * 12 * 12 * 8) as f64;
    let work_of = |more: &[&str]| work(&run_bench(&[&SMALL, more].concat()));
    assert_eq!(work_of(&[]), (forward, 12.0));
    assert_eq!(work_of(&["--causal"]), (forward / 2.0, 12.0));
    assert_eq!(work_of(&["--backward"]), (3.5 * forward, 12.0));
    assert_eq!(work_of(&["--batch", "3", "--keys", "24"]), (6.0 * forward, 36.0));
    // The first query sees only its own position; all others also see the one before.
    assert_eq!(work_of(&["--causal", "--window", "1"]), (forward * 23.0 / 144.0, 12.0));
    // The widths of keys and values count by their mean.
    assert_eq!(work_of(&["--value-dim", "16"]), (1.5 * forward, 12.0));
}

#[test]
fn attention_supports_every_option() {
    let options: [&[&str]; 8] = [
        &["--kv-heads", "2", "--backward"],
        &["--kv-heads", "1", "--keys", "7", "--causal", "--backward"],
        &["--window", "3", "--causal"],
        &["--window", "0", "--backward"],
        &["--dtype", "bf16", "--backward", "--value-dim", "5"],
        &["--dtype", "f16", "--keys", "40"],
        &["--precision", "high", "--backward"],
        &["--precision", "medium"],
    ];
    for more in options {
        let report = run_bench(&[&SMALL, more].concat());
        assert!(number(&report, "error") < 5e-2, "{more:?}: {report}");
        assert!(number(&report, "max_error") < 1.0, "{more:?}: {report}");
    }
    assert_eq!(number(&run_bench(&[&SMALL, &["--threads", "1"][..]].concat()), "threads"), 1.0);
}

#[test]
fn training_and_inference() {
    let small = ["--layers", "1", "--d-model", "16", "--heads", "2", "--vocab", "50", "--threads", "1"];
    let sizes = ["--batch", "3", "--length", "5"];
    for doing in ["train", "infer"] {
        let report = run_bench(&[&[doing], &small[..], &sizes].concat());
        assert_eq!(work(&report).1, 15.0, "{report}");
        assert!(number(&report, "error") < 1e-4, "{report}");
    }
    let place = TestDir::new();
    place.write("lengths", "3\n9\n1\n4\n");
    let run = place.run(&[&["bench", "infer", "--json", "--lengths", "lengths", "--batch", "3"], &small[..]].concat());
    let report: Value = serde_json::from_str(&run.assert_success().stdout).unwrap();
    assert_eq!(report["runs"], 2, "a batch of three and one of the rest: {report}");
}

#[test]
fn profile_times_add_up() {
    let small = ["--layers", "1", "--d-model", "16", "--heads", "2", "--vocab", "50", "--batch", "3", "--length", "5"];
    for (doing, threads) in [("train", 1.0), ("train", 2.0), ("infer", 2.0)] {
        let report = run_bench(&[&[doing, "--profile", "--threads", &threads.to_string()], &small[..]].concat());
        let profile = &report["profile"];
        let operations = profile["operations"].as_array().unwrap();
        let sum = |field: &str| operations.iter().map(|row| number(row, field)).sum::<f64>();
        let (whole, idle) = (threads * number(profile, "ms"), number(profile, "ms_idle"));
        assert!((sum("ms") + idle - whole).abs() < 1e-6 * whole, "{profile}");
        assert!(idle >= -1e-6 * whole, "{profile}");
        // The formula counts two operations for each multiply-add.
        assert_eq!((2.0 * sum("multiply_adds")).round(), work(&report).0, "{profile}");
        for name in ["product A·Bᵀ", "attention", "layer norm", "embedding", "between operations"] {
            assert!(operations.iter().any(|row| row["operation"] == name), "{name} is missing in {profile}");
        }
        let is_training = operations.iter().any(|row| row["operation"] == "AdamW");
        assert_eq!(is_training, doing == "train", "{profile}");
        for row in operations.iter().filter(|row| row["operation"] != "between operations") {
            assert!(number(row, "calls") >= 1.0 && number(row, "bytes") > 0.0, "{row}");
            assert!(number(row, "ms_passing") > 0.0, "{row}");
            let multiplies = row["operation"]
                .as_str()
                .is_some_and(|name| ["product", "attention"].iter().any(|start| name.starts_with(start)));
            assert_eq!(number(row, "ms_multiplying") > 0.0, multiplies, "{row}");
        }
        let limits = &profile["limits"];
        assert!(number(limits, "vectors") > 0.0 && limits["reading"].as_array().is_some_and(|sizes| sizes.len() == 4));
    }
    // The text output shows it as a table.
    for (language, words) in
        [("en", ["Where the time goes", "idle threads", "total"]), ("ja", ["時間の内訳", "待っているスレッド", "合計"])]
    {
        let run = TestDir::new()
            .run(&[&["bench", "train", "--profile", "--lang", language], &small[..]].concat())
            .assert_success();
        assert!(words.iter().all(|word| run.stdout.contains(word)), "{}", run.stdout);
        assert!(run.stdout.lines().all(|line| line.width() <= 80), "{}", run.stdout);
    }
}

#[test]
fn the_text_output_has_a_few_lines() {
    let long = ["--kv-heads", "2", "--keys", "30", "--value-dim", "3", "--window", "5", "--causal", "--backward"];
    let place = TestDir::new();
    let attention = place.run(&[&["bench"], &SMALL[..], &long].concat()).assert_success();
    let train = place
        .run(&["bench", "train", "--layers", "1", "--d-model", "16", "--heads", "1", "--length", "4"])
        .assert_success();
    for (run, title) in [(attention, "attention 1x4x12x8"), (train, "training, 1 layer, d_model 16, 1 head")] {
        assert!(run.stdout.starts_with(title), "{}", run.stdout);
        assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{}", run.stdout);
        for word in ["time", "speed", "GFLOP/s", "memory", "error", "kernel", "machine"] {
            assert!(run.stdout.contains(word), "{word} is missing in {}", run.stdout);
        }
    }
}

#[test]
fn invalid_sizes() {
    let place = TestDir::new();
    let refuses = |args: &str, words: &[&str]| {
        let args: Vec<&str> = args.split(' ').collect();
        place.run_rejected(&[&["bench"], &args[..]].concat(), words);
    };
    let most = usize::MAX.to_string();
    for flag in ["--batch", "--heads", "--length", "--keys", "--dim", "--value-dim"] {
        refuses(&format!("attention {flag} {most}"), &["of memory", "smaller"]);
        refuses(&format!("attention --backward --dtype f16 {flag} {most}"), &["of memory", "smaller"]);
        refuses(&format!("attention {flag} 0"), &[flag, "a whole number from 1, found 0"]);
        refuses(&format!("attention {flag} {most}0"), &[flag, "expected a smaller number"]);
    }
    refuses(&format!("attention --batch {most} --heads {most} --length {most} --dim {most}"), &["of memory"]);
    // The error names the oversized value.
    refuses("attention --length 1000000000", &["attention 1x8x1000000000x64, ", " TB of memory", "smaller"]);
    refuses("attention --heads 8 --kv-heads 3", &["--kv-heads", "8", "3"]);
    refuses("attention --dtype f64", &["--dtype", "f64", "bf16"]);
    refuses("attention --precision low", &["--precision", "low"]);
    refuses("attention --window=-1", &["--window", "-1"]);
    refuses("attention --threads 0", &["--threads", "0", "1 to 1024"]);
    for flag in ["--layers", "--d-model", "--heads", "--batch", "--length", "--vocab"] {
        refuses(&format!("train {flag} 0"), &[flag, "a whole number from 1, found 0"]);
    }
    for flag in ["--layers", "--d-model", "--batch", "--length", "--vocab"] {
        refuses(&format!("train {flag} {most}"), &["of memory", "smaller"]);
        refuses(&format!("infer {flag} {most}"), &["of memory", "smaller"]);
    }
    refuses("train --d-model 30", &["d_model", "30", "8"]);
    refuses("infer --dropout 1", &["--dropout", "1"]);
    refuses("train --lengths missing", &["--lengths missing"]);
    place.write("lengths", "3\nfour\n");
    refuses("train --lengths lengths", &["lengths", "line 2", "four"]);
    place.write("empty", "");
    refuses("train --lengths empty", &["empty", "one length per line"]);
    refuses("swim", &["swim", "--help"]);
}
