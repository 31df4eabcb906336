//! The estimated peak memory of a run, on very different files.

use crate::common::{TestDir, csv, next_random, reviews};

/// Rows of random words from a vocabulary, labeled in turn.
fn random_rows(rows: usize, words: usize, vocabulary: f64, classes: usize) -> Vec<(String, String)> {
    let mut state = 5;
    let mut word = || format!("w{}", (next_random(&mut state).powi(2) * vocabulary) as u32);
    (0..rows)
        .map(|i| ((0..words).map(|_| word()).collect::<Vec<_>>().join(" "), format!("class {}", i % classes)))
        .collect()
}

/// The Japanese half of the reviews, joined in pairs.
fn japanese() -> Vec<(String, String)> {
    let rows: Vec<(String, String)> = reviews(700).into_iter().filter(|(text, _)| !text.is_ascii()).collect();
    let pairs = (0..600).map(|i| (&rows[i % rows.len()], &rows[(i * 7 + i / rows.len()) % rows.len()]));
    pairs.map(|((a, label), (b, _))| (format!("{a}{b}"), label.clone())).collect()
}

/// The two memory estimates of a run, in MiB: before training, and after the first steps.
fn reported_estimate(stderr: &str) -> [f64; 2] {
    ["memory", "plan"].map(|begin| {
        let line = stderr.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{begin}: {stderr}"));
        let (_, rest) = line.rsplit_once("at most ").unwrap();
        rest.split(' ').next().unwrap().replace(',', "").parse().unwrap()
    })
}

#[test]
fn memory_stays_below_the_estimate() {
    let place = TestDir::new();
    let mut unbalanced = random_rows(60, 8, 40.0, 2);
    unbalanced.iter_mut().for_each(|(_, label)| *label = "common".into());
    unbalanced[..6].iter_mut().for_each(|(_, label)| *label = "rare".into());
    // More rows if tests are exhaustive.
    let thousands = |few, many| 1_000 * testkit::cases("chumoku-cli", few, many) as usize;
    for (name, rows) in [
        ("many short rows", random_rows(thousands(3, 20), 5, 20_000.0, 2)),
        ("few long rows", random_rows(60, thousands(2, 20), 20_000.0, 2)),
        ("77 classes", random_rows(thousands(1, 4), 12, 3_000.0, 77)),
        ("Japanese", japanese()),
        ("unbalanced and tiny", unbalanced),
    ] {
        place.write("x.csv", csv(&rows));
        let run = place
            .run_with_peak_memory(&["train", "x.csv", "--out", "model", "--force", "--epochs", "1"])
            .assert_success();
        let lines: Vec<&str> = run.stderr.lines().collect();
        let at = |begin: &str| lines.iter().position(|line| line.starts_with(begin)).unwrap();
        assert!(at("memory") < at("baseline"), "{name}: {}", run.stderr);
        let Some(peak) = run.peak_bytes else {
            return eprintln!("SKIPPED: the system does not say what a process holds");
        };
        let held = peak as f64 / (1 << 20) as f64;
        let [first, later] = reported_estimate(&run.stderr);
        eprintln!("{name}: said {first}, then {later} MiB, held {held:.0} MiB");
        for phrase in [first, later] {
            assert!(held <= phrase, "{name}: said {phrase} MiB, held {held:.0} MiB");
            // A bound that is far too high would be useless.
            assert!(phrase < 2.5 * held + 64.0, "{name}: said {phrase} MiB, held {held:.0} MiB");
        }
    }
}

/// An n-gram model without a network has an estimate too.
#[test]
fn memory_of_ngrams_alone_stays_below_the_estimate() {
    let place = TestDir::new();
    place.write("x.csv", csv(&random_rows(20_000, 12, 50_000.0, 2)));
    let run = place.run_with_peak_memory(&["train", "x.csv", "--out", "model", "--model", "ngrams"]).assert_success();
    let line = run.stderr.lines().find(|line| line.starts_with("memory")).unwrap_or_else(|| panic!("{run:#?}"));
    let estimate: f64 =
        line.rsplit_once("at most ").unwrap().1.split(' ').next().unwrap().replace(',', "").parse().unwrap();
    let Some(peak) = run.peak_bytes else { return };
    let held = peak as f64 / (1 << 20) as f64;
    assert!(held <= estimate && estimate < 2.5 * held + 64.0, "said {estimate} MiB, held {held:.0} MiB");
}
