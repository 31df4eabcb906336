//! Milliseconds of one text: loading an encoder, its first vector, and one text after another. TEXTS is a file with one
//! text per line. Up to 1,000 are read. Prints one JSON object. The peer is `peers/torch_embed.py --one`.

use crate::flags::Flags;
use crate::side::median;
use chumoku::{EmbedOptions, Precision, TextEmbedder};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

pub(crate) fn run(mut flags: Flags) -> Result<(), String> {
    let folder = PathBuf::from(flags.positional("a model's folder")?);
    let file = flags.positional("a file of texts")?;
    let precision = flags.named("--precision", Precision::from_name)?;
    let threads = flags.start_threads()?;
    let texts = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    let since = |start: Instant| start.elapsed().as_secs_f64() * 1e3;
    let start = Instant::now();
    let model = TextEmbedder::load(&folder, precision).map_err(|error| error.to_string())?;
    let loaded = since(start);
    let mut times = Vec::new();
    for text in texts.lines().filter(|text| !text.is_empty()).take(1_000) {
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
