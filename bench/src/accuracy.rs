//! Training on real data with the defaults of `chumoku train`. `accuracy` measures test accuracy for several seeds, and
//! `ngrams` time and accuracy of the n-gram model alone, from the files to the written folder.
//!
//! FOLDER holds a folder for each set, with files `train.*`, optionally `dev.*`, and `test.*` in any format that
//! Chumoku reads. `accuracy` prints one JSON object per run, then one with the means of each set. `--from` fine-tunes a
//! pretrained encoder. `--keep` leaves the models as `MODELS/SET-SEED`. `ngrams` prints one JSON object per set, with
//! the median, minimum and maximum of the seconds. `--stages` reports on standard error when each step of the training
//! began. `peers/fasttext_classify.py --rounds 3` times fastText on the same rows, and `peers/made_news.py` makes long
//! Japanese texts.

use crate::flags::Flags;
use crate::side::median;
use chumoku::Precision;
use chumoku::data::{Dataset, ReadOptions, load_labeled};
use chumoku::train::{TrainEvent, Training, TrainingData, train, train_ngram_classifier};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The figures of a run in `metrics.json`: percentages on the test rows, then the weights of the two ensemble members.
const FIGURES: [(&str, &str, f64); 8] = [
    ("accuracy", "/accuracy", 100.0),
    ("macro_f1", "/macro_f1", 100.0),
    ("attention_accuracy", "/parts/attention/accuracy", 100.0),
    ("attention_macro_f1", "/parts/attention/macro_f1", 100.0),
    ("ngrams_accuracy", "/parts/ngrams/accuracy", 100.0),
    ("ngrams_macro_f1", "/parts/ngrams/macro_f1", 100.0),
    ("blend_attention", "/blend/attention", 1.0),
    ("blend_ngrams", "/blend/ngrams", 1.0),
];

/// Data sets: the name and folder of each.
struct Sets(Vec<(String, PathBuf)>);

impl Sets {
    fn new(flags: &mut Flags) -> Result<Sets, String> {
        let folder = PathBuf::from(flags.positional("a folder of data sets")?);
        let sets = flags.list::<String>("--sets")?;
        let sets = sets
            .unwrap_or_else(|| ["sst2", "trec", "banking77", "ja_jrte_sentiment", "imdb"].map(String::from).to_vec());
        Ok(Sets(sets.into_iter().map(|set| (set.clone(), folder.join(set))).collect()))
    }

    /// The rows of a set.
    fn read(folder: &Path) -> Result<TrainingData, String> {
        let training = load(folder, "train")?.ok_or(format!("{}: there is no train file", folder.display()))?;
        let [valid, test] = [load(folder, "dev")?, load(folder, "test")?];
        TrainingData::new(&training, valid.as_ref(), test.as_ref()).map_err(|error| error.to_string())
    }
}

/// Reads the file whose name starts with `stem.`, if it exists.
fn load(folder: &Path, stem: &str) -> Result<Option<Dataset>, String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_of_stem =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().split('.').next() == Some(stem));
    let mut options = ReadOptions::default();
    options.require_label = true;
    let file = entries.filter(is_of_stem).min();
    file.map(|path| load_labeled(&path, &options).map_err(|error| error.to_string())).transpose()
}

/// Trains on every set with every seed.
pub(crate) fn run(mut flags: Flags) -> Result<(), String> {
    let sets = Sets::new(&mut flags)?;
    let seeds = flags.list::<u64>("--seeds")?.unwrap_or(vec![1, 2, 3]);
    let precision = flags.named("--precision", Precision::from_name)?;
    let [from, keep] = [flags.value::<PathBuf>("--from")?, flags.value("--keep")?];
    flags.start_threads()?;
    chumoku::keep_freed_memory();
    for (set, folder) in &sets.0 {
        let data = Sets::read(folder)?;
        let mut all: Vec<Vec<f64>> = Vec::new();
        for &seed in &seeds {
            let passing = tempfile::tempdir().map_err(|error| error.to_string())?;
            let out = keep.as_ref().map_or(passing.path().to_owned(), |keep| keep.join(format!("{set}-{seed}")));
            let start = Instant::now();
            let mut training = Training::new(&out);
            training.options.seed = seed;
            training.options.precision = precision.unwrap_or(training.options.precision);
            training.options.from.clone_from(&from);
            let metrics = train(&data, training).map_err(|error| error.to_string())?.metrics;
            let figure = |path: &str| metrics.pointer(path).and_then(Value::as_f64);
            let figures = FIGURES.iter().map(|(_, path, unit)| figure(path).map_or(f64::NAN, |x| unit * x));
            all.push(figures.chain([start.elapsed().as_secs_f64()]).collect());
            println!("{}", line(set, &seed.to_string(), &all[all.len() - 1]));
            if let Some(accuracy) = figure("/parts/from_scratch/accuracy") {
                println!("{}", json!({ "set": set, "seed": seed, "from_scratch_accuracy": 100.0 * accuracy }));
            }
        }
        let means = (0..=FIGURES.len()).map(|i| all.iter().map(|figures| figures[i]).sum::<f64>() / all.len() as f64);
        println!("{}", line(set, "mean", &means.collect::<Vec<_>>()));
    }
    Ok(())
}

/// The figures as a JSON object; the last one is the seconds.
fn line(set: &str, seed: &str, figures: &[f64]) -> Value {
    let mut line = json!({ "set": set, "seed": seed, "isa": chumoku::active_isa().name() });
    for (name, x) in FIGURES.iter().map(|(name, ..)| *name).chain(["seconds"]).zip(figures) {
        line[name] = json!((1e2 * x).round() / 1e2);
    }
    line
}

/// Trains the n-gram model on every set.
pub(crate) fn ngrams(mut flags: Flags) -> Result<(), String> {
    let sets = Sets::new(&mut flags)?;
    let (rounds, has_stages) = (flags.number("--rounds", 3)?, flags.is_given("--stages"));
    let threads = flags.start_threads()?;
    chumoku::keep_freed_memory();
    for (set, folder) in &sets.0 {
        let (mut seconds, mut metrics) = (Vec::new(), Value::Null);
        for _ in 0..rounds {
            let passing = tempfile::tempdir().map_err(|error| error.to_string())?;
            let start = Instant::now();
            let tell = |line: &str| {
                if has_stages {
                    eprintln!("{set} {:7.3} s  {line}", start.elapsed().as_secs_f64());
                }
            };
            tell("reading the files");
            let data = Sets::read(folder)?;
            tell("training");
            let mut training = Training::new(passing.path());
            training.observe = Box::new(|event: TrainEvent<'_>| match event {
                TrainEvent::Message(_, line) | TrainEvent::Progress(_, line) => tell(&line),
                _ => {}
            });
            metrics = train_ngram_classifier(&data, training).map_err(|error| error.to_string())?.metrics;
            tell("written");
            seconds.push(start.elapsed().as_secs_f64());
        }
        seconds.sort_by(f64::total_cmp);
        let rounded = |x: f64| (1e3 * x).round() / 1e3;
        let percent = |name: &str| metrics[name].as_f64().map(|share| (1e4 * share).round() / 1e2);
        let line = json!({
            "set": set,
            "accuracy": percent("accuracy"),
            "macro_f1": percent("macro_f1"),
            "valid_log_loss": metrics["valid"]["log_loss"],
            "features": metrics["features"],
            "c": metrics["c"],
            "median_seconds": rounded(median(&seconds)),
            "min_seconds": rounded(seconds[0]),
            "max_seconds": rounded(seconds[rounds - 1]),
            "runs": rounds,
            "threads": threads,
        });
        println!("{line}");
    }
    Ok(())
}
