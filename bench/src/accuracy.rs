//! Test accuracy of the defaults on real data: what `chumoku train` does, for several seeds.
//!
//! ```text
//! cargo run --release -p bench -- accuracy FOLDER [--sets sst2,trec] [--seeds 1,2,3] [--threads 2]
//!     [--precision medium] [--from ENCODER] [--keep MODELS]
//! ```
//!
//! FOLDER holds a folder for each set, with files `train.*`, perhaps `dev.*`, and `test.*` in any format that Chumoku
//! reads. One JSON object a run, then one with the means of each set. `--from` fine-tunes a pretrained encoder.
//! `--keep` leaves the models as `MODELS/SET-SEED`.

use chumoku::Precision;
use chumoku::data::{Dataset, ReadOptions, load_labelled};
use chumoku::train::{TrainOptions, Training, TrainingData, train};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What is measured of a run: percentages on the test rows, then the weights of the two halves, then seconds.
const FIGURES: [&str; 9] = [
    "accuracy",
    "macro_f1",
    "attention_accuracy",
    "attention_macro_f1",
    "ngrams_accuracy",
    "ngrams_macro_f1",
    "blend_attention",
    "blend_ngrams",
    "seconds",
];

/// Where the file of a set is whose name starts with `stem.`.
fn file(folder: &Path, stem: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.sort();
    found.into_iter().find(|path| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.split('.').next() == Some(stem))
    })
}

/// The file of a set whose name starts with `stem.`, read; none if there is none.
pub(crate) fn load(folder: &Path, stem: &str) -> Result<Option<Dataset>, String> {
    let mut options = ReadOptions::default();
    options.require_label = true;
    file(folder, stem).map(|path| load_labelled(&path, &options).map_err(|error| error.to_string())).transpose()
}

/// Runs every set with every seed.
pub(crate) fn run(mut args: impl Iterator<Item = String>) -> Result<(), String> {
    let folder = PathBuf::from(args.next().ok_or("expected a folder of data sets")?);
    let mut sets: Vec<String> = ["sst2", "trec", "banking77", "ja_jrte_sentiment", "imdb"].map(String::from).to_vec();
    let (mut seeds, mut threads, mut precision) = (vec![1u64, 2, 3], 2usize, TrainOptions::default().precision);
    let (mut keep, mut from) = (None, None);
    while let Some(flag) = args.next() {
        let value = args.next().ok_or(format!("{flag}: expected a value"))?;
        let wrong = |_| format!("{flag}: expected numbers, got {value}");
        match flag.as_str() {
            "--sets" => sets = value.split(',').map(String::from).collect(),
            "--seeds" => seeds = value.split(',').map(str::parse).collect::<Result<_, _>>().map_err(wrong)?,
            "--precision" => {
                precision = Precision::named(&value).ok_or(format!("{flag}: no level is called {value}"))?
            }
            "--from" => from = Some(PathBuf::from(&value)),
            "--keep" => keep = Some(PathBuf::from(&value)),
            "--threads" => threads = value.parse().map_err(wrong)?,
            _ => return Err(format!("unknown flag {flag}")),
        }
    }
    chumoku::keep_freed_memory();
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().map_err(|error| error.to_string())?;
    for set in &sets {
        let at = folder.join(set);
        let training = load(&at, "train")?.ok_or(format!("{}: there is no train file", at.display()))?;
        let (valid, test) = (load(&at, "dev")?, load(&at, "test")?);
        let data = TrainingData::new(&training, valid.as_ref(), test.as_ref()).map_err(|error| error.to_string())?;
        let mut all: Vec<[f64; FIGURES.len()]> = Vec::new();
        for &seed in &seeds {
            let passing = tempfile::tempdir().map_err(|error| error.to_string())?;
            let out = keep.as_ref().map_or(passing.path().to_owned(), |keep| keep.join(format!("{set}-{seed}")));
            let start = Instant::now();
            let mut training = Training::to(&out);
            training.options.seed = seed;
            training.options.precision = precision;
            training.options.from.clone_from(&from);
            let outcome = train(&data, training).map_err(|error| error.to_string())?;
            let [attention, ngrams, _] = &outcome.parts;
            let seconds = start.elapsed().as_secs_f64();
            let blend = outcome.model.config().blend;
            let percentages = [&outcome.test, attention, ngrams].map(|scores| [scores.accuracy, scores.macro_f1]);
            let percentages = percentages.as_flattened().iter().map(|share| 100.0 * share);
            let figures: Vec<f64> =
                percentages.chain([f64::from(blend.attention), f64::from(blend.ngrams), seconds]).collect();
            let figures = figures.try_into().expect("six percentages, two weights and the seconds");
            println!("{}", line(set, &seed.to_string(), figures));
            if let Some(scratch) = &outcome.from_scratch {
                println!("{}", json!({ "set": set, "seed": seed, "from_scratch_accuracy": 100.0 * scratch.accuracy }));
            }
            all.push(figures);
        }
        let mean = std::array::from_fn(|i| all.iter().map(|figures| figures[i]).sum::<f64>() / all.len() as f64);
        println!("{}", line(set, "mean", mean));
    }
    Ok(())
}

fn line(set: &str, seed: &str, figures: [f64; FIGURES.len()]) -> String {
    let isa = chumoku::active_isa().name();
    let mut line: Map<String, Value> = Map::from_iter(
        [("set", set), ("seed", seed), ("isa", isa)].map(|(name, value)| (name.to_owned(), json!(value))),
    );
    line.extend(FIGURES.iter().zip(figures).map(|(name, x)| (name.to_string(), json!((1e2 * x).round() / 1e2))));
    Value::Object(line).to_string()
}
