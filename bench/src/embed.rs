//! How long one text takes: loading an encoder, its first vector, and one text after another.
//!
//! ```text
//! cargo run --release -p bench -- embed FOLDER TEXTS [--threads 2] [--precision high]
//! ```
//!
//! TEXTS is a file with a text a line, of which up to 1,000 are read. Printed as one JSON object, in milliseconds. The peer
//! is `peers/torch_embed.py --one`.

use crate::side::median;
use chumoku::{EmbedOptions, Precision, TextEmbedder};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

pub(crate) fn run(mut args: impl Iterator<Item = String>) -> Result<(), String> {
    let (Some(folder), Some(texts)) = (args.next().map(PathBuf::from), args.next()) else {
        return Err("expected a model's folder and a file of texts".into());
    };
    let (mut threads, mut precision) = (2, None);
    while let Some(flag) = args.next() {
        let value = args.next().ok_or_else(|| format!("{flag}: expected a value"))?;
        match &*flag {
            "--threads" => threads = value.parse().map_err(|_| format!("--threads: expected a number, got {value}"))?,
            "--precision" => {
                let known = [Precision::Highest, Precision::High, Precision::Medium];
                let named = known.into_iter().find(|precision| precision.name() == value);
                precision =
                    Some(named.ok_or_else(|| format!("--precision: expected highest, high or medium, got {value}"))?);
            }
            _ => return Err(format!("unknown flag {flag}")),
        }
    }
    let texts = std::fs::read_to_string(&texts).map_err(|error| format!("{texts}: {error}"))?;
    let texts: Vec<&str> = texts.lines().filter(|text| !text.is_empty()).take(1_000).collect();
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().map_err(|error| error.to_string())?;
    let since = |start: Instant| start.elapsed().as_secs_f64() * 1e3;
    let start = Instant::now();
    let model = TextEmbedder::load(&folder, precision).map_err(|error| error.to_string())?;
    let loaded = since(start);
    let mut times = Vec::new();
    for text in &texts {
        let start = Instant::now();
        model.embed(&[text], EmbedOptions::default()).map_err(|error| error.to_string())?;
        times.push(since(start));
    }
    let first = times.first().copied().ok_or("expected texts, found none")?;
    times.sort_by(f64::total_cmp);
    println!(
        "{}",
        json!({ "texts": times.len(), "threads": threads, "loading": loaded, "first": first, "median": median(&times),
                "95 % within": times[(times.len() * 95).div_ceil(100) - 1] })
    );
    Ok(())
}
