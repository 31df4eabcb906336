//! Time and test accuracy of the n-gram model: what `chumoku train DATA --model ngrams` does, from the files to the
//! written folder.
//!
//! ```text
//! cargo run --release -p bench -- ngrams FOLDER [--sets sst2,trec] [--threads 2] [--rounds 3] [--stages]
//! ```
//!
//! FOLDER is that of `accuracy`. One JSON object a set, with the median, least and most seconds. `--stages` tells on
//! standard error when each step of the training began. `peers/fasttext_classify.py --rounds 3` times fastText on the
//! same rows, and `peers/made_news.py` makes long Japanese texts.

use crate::accuracy::load;
use chumoku::train::{Event, Training, TrainingData, train_ngram_classifier};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Trains on every set.
pub(crate) fn run(mut args: impl Iterator<Item = String>) -> Result<(), String> {
    let folder = PathBuf::from(args.next().ok_or("expected a folder of data sets")?);
    let mut sets: Vec<String> = ["sst2", "trec", "banking77", "ja_jrte_sentiment", "imdb"].map(String::from).to_vec();
    let (mut threads, mut rounds, mut stages) = (2usize, 3usize, false);
    while let Some(flag) = args.next() {
        if flag == "--stages" {
            stages = true;
            continue;
        }
        let value = args.next().ok_or(format!("{flag}: expected a value"))?;
        let number = || value.parse().map_err(|_| format!("{flag}: expected a number, got {value}"));
        match flag.as_str() {
            "--sets" => sets = value.split(',').map(String::from).collect(),
            "--threads" => threads = number()?,
            "--rounds" => rounds = number()?.max(1),
            _ => return Err(format!("unknown flag {flag}")),
        }
    }
    chumoku::keep_freed_memory();
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().map_err(|error| error.to_string())?;
    for set in &sets {
        let at = folder.join(set);
        let mut seconds = Vec::new();
        let mut figures = json!({});
        for _ in 0..rounds {
            let passing = tempfile::tempdir().map_err(|error| error.to_string())?;
            let start = Instant::now();
            let tell = |line: &str| {
                if stages {
                    eprintln!("{set} {:7.3} s  {line}", start.elapsed().as_secs_f64());
                }
            };
            tell("reading the files");
            let training = load(&at, "train")?.ok_or(format!("{}: there is no train file", at.display()))?;
            let (valid, test) = (load(&at, "dev")?, load(&at, "test")?);
            let data =
                TrainingData::new(&training, valid.as_ref(), test.as_ref()).map_err(|error| error.to_string())?;
            tell("training");
            let mut training = Training::to(passing.path());
            let mut observe = |event: Event<'_>| match event {
                Event::Said(_, line) | Event::Working(_, line) => tell(&line),
                _ => {}
            };
            training.observe = Box::new(&mut observe);
            let outcome = train_ngram_classifier(&data, training).map_err(|error| error.to_string())?;
            tell("written");
            seconds.push(start.elapsed().as_secs_f64());
            figures = outcome.metrics;
        }
        seconds.sort_by(f64::total_cmp);
        let rounded = |x: f64| (1e3 * x).round() / 1e3;
        let percent = |name: &str| figures[name].as_f64().map(|share| (1e4 * share).round() / 1e2);
        let line = json!({
            "set": set,
            "accuracy": percent("accuracy"),
            "macro_f1": percent("macro_f1"),
            "valid_log_loss": figures["valid"]["log_loss"],
            "features": figures["features"],
            "c": figures["c"],
            "median_seconds": rounded(seconds[seconds.len() / 2]),
            "min_seconds": rounded(seconds[0]),
            "max_seconds": rounded(seconds[seconds.len() - 1]),
            "runs": rounds,
            "threads": threads,
        });
        println!("{line}");
    }
    Ok(())
}
