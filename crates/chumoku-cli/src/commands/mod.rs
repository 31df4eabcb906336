//! One module per command. A command never imports another.
//!
//! # Files
//!
//! - `attend`: `attend`
//! - `bench`: `bench`
//! - `check`: `check`
//! - `compare`: `compare`
//! - `count`: `count`
//! - `doctor`: `doctor`
//! - `embed`: `embed`
//! - `eval`: `eval`
//! - `explain`: `explain`
//! - `export`: `export`
//! - `film`: `film`
//! - `generate`: `generate`
//! - `info`: `info`
//! - `join`: `join`
//! - `nearest`: `nearest`
//! - `position`: `position`
//! - `predict`: `predict`
//! - `serve`: `serve`
//! - `trace`: `trace`; `--tokens`, `--beam` and `--saturation` in `trace/`
//! - `train`: `train`
//! - `translate`: `translate`

mod attend;
mod bench;
mod check;
mod compare;
mod count;
mod doctor;
mod embed;
mod eval;
pub(crate) mod explain;
mod export;
mod film;
mod generate;
mod info;
mod join;
mod nearest;
mod position;
pub(crate) mod predict;
mod serve;
mod trace;
mod train;
mod translate;

use crate::ExitCode;
use crate::args::Command;
use crate::stage_profile::with_profile;

/// Runs a command.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Train(args) => with_profile(args.profile, || train::run(&args)),
        Command::Eval(args) => eval::run(&args),
        Command::Predict(args) => with_profile(args.profile, || predict::run(args)),
        Command::Join(args) => join::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Embed(args) => embed::run(&args),
        Command::Nearest(args) => nearest::run(args),
        Command::Generate(args) => generate::run(&args),
        Command::Translate(args) => translate::run(args),
        Command::Explain(args) => explain::run(*args),
        Command::Serve(args) => serve::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Attend(args) => attend::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Count(args) => count::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Position(args) => position::run(&args),
        Command::Film(args) => film::run(&args),
        Command::Info(args) => info::run(&args),
    }
}
