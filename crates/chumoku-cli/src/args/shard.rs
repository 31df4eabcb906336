//! Shards: N runs divide the rows of a file. Also the flags of `chumoku join`.

use super::PredictArgs;
use crate::output::{OutputPath, file_or_standard_output};
use chumoku::answers::LabelThreshold;
use chumoku::tr;
use clap::Args as ClapArgs;
use std::fmt;
use std::path::PathBuf;

/// Larger numbers of shards are taken for a typing error.
const MAX_SHARDS: usize = 100_000;

/// Shard `index` of `count`, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) index: usize,
    pub(crate) count: usize,
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

/// Parses `I/N`.
pub(super) fn parse_shard(text: &str) -> Result<Shard, String> {
    let numbers = text.split_once('/').and_then(|(at, of)| Some((at.trim().parse().ok()?, of.trim().parse().ok()?)));
    match numbers {
        Some((at, of)) if (1..=of).contains(&at) && of <= MAX_SHARDS => Ok(Shard { index: at, count: of }),
        _ => Err(tr!(
            "expected I/N (shard I of N, such as 2/8) with I from 1 to N and N up to 100,000, found {}",
            "I/N（N 個のうち I 番目。I は 1 から N、N は 100,000 まで。例: 2/8）が必要ですが、{} です",
            super::values::value_or_nothing(text)
        )),
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct JoinArgs {
    /// Files that `chumoku predict … --shard 1/N` to `--shard N/N` wrote, in any order
    #[arg(value_name = "SHARD", required = true)]
    pub(crate) shards: Vec<PathBuf>,
    /// File to write (default: standard output)
    #[arg(short, long, value_name = "FILE", value_parser = file_or_standard_output())]
    pub(crate) out: Option<OutputPath>,
}

impl PredictArgs {
    /// Returns the flags that determine the answers and the rows to answer, as on a command line.
    pub(crate) fn answer_flags(&self) -> String {
        let reading = &self.reading;
        let text = |value: &Option<String>| value.clone();
        let of_labels = |all: &[LabelThreshold]| {
            let each = all.iter().map(|of| match &of.label {
                Some(label) => format!("{label}={}", of.value),
                None => of.value.to_string(),
            });
            Some(each.collect::<Vec<_>>().join(" ")).filter(|all| !all.is_empty())
        };
        let set: Vec<String> = self.set.values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let is_on = |on: bool| on.then(String::new);
        let given = [
            ("--text", text(&reading.text)),
            ("--label", text(&reading.label)),
            ("--header", reading.header.map(|header| format!("{header:?}").to_lowercase())),
            ("--missing", reading.missing.as_ref().map(|values| values.join(","))),
            ("--merge-labels", is_on(reading.merge_labels)),
            ("--encoding", text(&reading.encoding)),
            ("--format", reading.format.map(|format| format!("{format:?}").to_lowercase())),
            ("--delimiter", reading.delimiter.map(String::from)),
            ("--sheet", text(&reading.sheet)),
            ("--skip-bad-rows", is_on(reading.skip_bad_rows)),
            ("--set", Some(set.join(" ")).filter(|set| !set.is_empty())),
            ("--strict", is_on(self.strict)),
            ("--bom", is_on(self.bom)),
            ("--abstain", self.abstain.map(|share| share.to_string())),
            ("--threshold", of_labels(&self.thresholds.threshold)),
            ("--precision-at-least", of_labels(&self.thresholds.precision_at_least)),
            ("--top", self.top.map(|n| n.to_string())),
            ("--precision", self.precision.map(|precision| format!("{precision:?}").to_lowercase())),
            ("--json", is_on(self.json)),
        ];
        let given = given.into_iter().filter_map(|(flag, value)| Some((flag, value?)));
        given.map(|(flag, value)| format!("{flag} {value}").trim_end().to_owned()).collect::<Vec<_>>().join(" ")
    }
}
