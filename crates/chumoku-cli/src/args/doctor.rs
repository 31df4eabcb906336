//! The flags of `doctor`.

use super::ReadArgs;
use super::values::{parse_folds, parse_from_zero, parse_up_to_1024};
use crate::output::OutputPath;
use clap::Args as ClapArgs;
use std::path::PathBuf;

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct DoctorArgs {
    /// A labelled file, one class a text; - for standard input
    #[arg(value_name = "DATA")]
    pub(crate) data: PathBuf,
    /// Write what was found to this folder: doctor.csv to work through, doctor.html to look at
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<OutputPath>,
    /// Texts that are to test a model: those that DATA has too are told
    #[arg(long, value_name = "FILE")]
    pub(crate) test: Option<PathBuf>,
    /// Unlabelled texts, of which those are chosen that are most worth a label
    #[arg(long, value_name = "FILE")]
    pub(crate) unlabelled: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
    /// Parts of the rows, each judged by a model of the others
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = parse_folds)]
    pub(crate) folds: usize,
    /// Decides which rows are judged together
    #[arg(long, value_name = "N", default_value_t = 42, value_parser = parse_from_zero::<u64>)]
    pub(crate) seed: u64,
    /// Replace doctor.csv and doctor.html in the folder of --out
    #[arg(long, requires = "out")]
    pub(crate) force: bool,
    /// Begin doctor.csv with a byte order mark, so that Excel recognises UTF-8
    #[arg(long, requires = "out")]
    pub(crate) bom: bool,
    /// Threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
    /// Print what was found as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
