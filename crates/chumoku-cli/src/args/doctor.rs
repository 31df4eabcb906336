//! Flags of `chumoku doctor`.

use super::ReadArgs;
use super::values::{parse_folds, parse_from_zero, parse_up_to_1024};
use crate::output::OutputPath;
use clap::Args as ClapArgs;
use std::path::PathBuf;

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct DoctorArgs {
    /// Labeled file with one class per text; - for standard input
    #[arg(value_name = "DATA")]
    pub(crate) data: PathBuf,
    /// Folder for the findings: doctor.csv to work through, doctor.html to look at
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<OutputPath>,
    /// Test texts of a model: reports texts that DATA contains too
    #[arg(long, value_name = "FILE")]
    pub(crate) test: Option<PathBuf>,
    /// Unlabeled texts: suggests which ones to label next
    #[arg(long, value_name = "FILE")]
    pub(crate) unlabelled: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
    /// Number of folds; a model of the other folds judges the rows of each fold
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = parse_folds)]
    pub(crate) folds: usize,
    /// Random seed: decides which rows share a fold
    #[arg(long, value_name = "N", default_value_t = 42, value_parser = parse_from_zero::<u64>)]
    pub(crate) seed: u64,
    /// Replace doctor.csv and doctor.html in the folder of --out
    #[arg(long, requires = "out")]
    pub(crate) force: bool,
    /// Start doctor.csv with a byte order mark, so that Excel recognizes UTF-8
    #[arg(long, requires = "out")]
    pub(crate) bom: bool,
    /// Number of threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
    /// Print the findings as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
