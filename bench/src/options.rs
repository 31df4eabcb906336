//! The flags of the harness, as the peer's script has them.

use chumoku::Precision;

/// What to measure.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) is_training: bool,
    pub(crate) layers: usize,
    pub(crate) d_model: usize,
    pub(crate) heads: usize,
    pub(crate) batch: usize,
    pub(crate) length: usize,
    pub(crate) vocab: usize,
    pub(crate) classes: usize,
    pub(crate) steps: usize,
    pub(crate) warmup: usize,
    pub(crate) threads: usize,
    pub(crate) dropout: f32,
    pub(crate) precision: Precision,
    /// Lengths of sequences, in batches of `batch`.
    pub(crate) lengths: Option<Vec<usize>>,
}

impl Options {
    /// Reads `train|infer` and flags.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut o = Options {
            is_training: true,
            layers: 4,
            d_model: 256,
            heads: 8,
            batch: 32,
            length: 128,
            vocab: 8000,
            classes: 4,
            steps: 20,
            warmup: 3,
            threads: 2,
            dropout: 0.1,
            precision: Precision::Highest,
            lengths: None,
        };
        while let Some(flag) = args.next() {
            match flag.as_str() {
                "train" => o.is_training = true,
                "infer" => o.is_training = false,
                _ => {
                    let value = args.next().ok_or(format!("{flag}: expected a value"))?;
                    let number =
                        || value.parse::<usize>().map_err(|_| format!("{flag}: expected a number, got {value}"));
                    match flag.as_str() {
                        "--layers" => o.layers = number()?,
                        "--d-model" => o.d_model = number()?,
                        "--heads" => o.heads = number()?,
                        "--batch" => o.batch = number()?,
                        "--length" => o.length = number()?,
                        "--vocab" => o.vocab = number()?,
                        "--classes" => o.classes = number()?,
                        "--steps" => o.steps = number()?,
                        "--warmup" => o.warmup = number()?,
                        "--threads" => o.threads = number()?,
                        "--dropout" => o.dropout = value.parse().map_err(|_| format!("{flag}: {value}"))?,
                        "--precision" => {
                            o.precision =
                                Precision::named(&value).ok_or(format!("{flag}: no level is called {value}"))?
                        }
                        "--lengths" => o.lengths = Some(read_lengths(&value)?),
                        _ => return Err(format!("unknown flag {flag}")),
                    }
                }
            }
        }
        Ok(o)
    }
}

/// One length a line.
fn read_lengths(path: &str) -> Result<Vec<usize>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    text.split_whitespace().map(|n| n.parse().map_err(|_| format!("{path}: expected numbers, got {n}"))).collect()
}
