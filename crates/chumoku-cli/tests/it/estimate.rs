//! What a run says of itself before it is over: memory within a factor of 1.5, on files as unlike as can be.

use crate::common::{Place, csv, random, reviews};

/// Rows of words drawn from so many, labelled in turn.
fn drawn(rows: usize, words: usize, vocabulary: f64, classes: usize) -> Vec<(String, String)> {
    let mut state = 5;
    let mut word = || format!("w{}", (random(&mut state).powi(2) * vocabulary) as u32);
    (0..rows)
        .map(|i| ((0..words).map(|_| word()).collect::<Vec<_>>().join(" "), format!("class {}", i % classes)))
        .collect()
}

/// Japanese, as are half of the reviews, put together two and two.
fn japanese() -> Vec<(String, String)> {
    let rows: Vec<(String, String)> = reviews(700).into_iter().filter(|(text, _)| !text.is_ascii()).collect();
    let pairs = (0..600).map(|i| (&rows[i % rows.len()], &rows[(i * 7 + i / rows.len()) % rows.len()]));
    pairs.map(|((a, label), (b, _))| (format!("{a}{b}"), label.clone())).collect()
}

/// Megabytes that a run said it would hold at the most.
fn said(stderr: &str) -> f64 {
    let line = stderr.lines().find(|line| line.starts_with("plan")).unwrap_or_else(|| panic!("no plan: {stderr}"));
    let (_, rest) = line.split_once("memory ").unwrap();
    rest.split(' ').next().unwrap().replace(',', "").parse().unwrap()
}

#[test]
fn memory_is_as_said() {
    let place = Place::new();
    let mut unbalanced = drawn(60, 8, 40.0, 2);
    unbalanced.iter_mut().for_each(|(_, label)| *label = "common".into());
    unbalanced[..6].iter_mut().for_each(|(_, label)| *label = "rare".into());
    // So many times as much where tests are exhaustive.
    let more = testkit::cases("chumoku-cli", 1, 4) as usize;
    for (name, rows) in [
        ("many short rows", drawn(5_000 * more, 5, 20_000.0, 2)),
        ("few long rows", drawn(60, 5_000 * more, 20_000.0, 2)),
        ("77 classes", drawn(1_000 * more, 12, 3_000.0, 77)),
        ("Japanese", japanese()),
        ("unbalanced and tiny", unbalanced),
    ] {
        place.write("x.csv", csv(&rows));
        let run = place.run_watched(&["train", "x.csv", "--out", "model", "--force", "--epochs", "1"]).ok();
        let Some(peak) = run.peak_bytes else {
            return eprintln!("SKIPPED: the system does not say what a process holds");
        };
        let (said, held) = (said(&run.stderr), peak as f64 / (1 << 20) as f64);
        assert!(said < 1.5 * held && held < 1.5 * said, "{name}: said {said} MB, held {held:.0} MB");
        eprintln!("{name}: said {said} MB, held {held:.0} MB");
    }
}
