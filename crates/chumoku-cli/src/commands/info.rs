//! `chumoku info`: what this machine and this build are.

use crate::args::Info;
use crate::threads::physical_cores;
use serde_json::json;
use std::io::{Write, stdout};
use std::process::ExitCode;

/// The processor's name, as the system tells it.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

pub(crate) fn run(args: &Info) -> anyhow::Result<ExitCode> {
    let (best, active) = (chumoku::best_isa(), chumoku::active_isa());
    let version = env!("CARGO_PKG_VERSION");
    let allowed = std::thread::available_parallelism().map_or(1, |n| n.get());
    if args.json {
        let info = json!({
            "version": version,
            "processor": processor(),
            "architecture": std::env::consts::ARCH,
            "system": std::env::consts::OS,
            "isa": { "best": best.name(), "active": active.name() },
            "threads": physical_cores(),
            "logical_processors": allowed,
        });
        writeln!(stdout(), "{info}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = stdout().lock();
    writeln!(out, "chumoku       {version}")?;
    writeln!(out, "processor     {} ({}, {})", processor(), std::env::consts::ARCH, std::env::consts::OS)?;
    writeln!(
        out,
        "instructions  {active} in use, {best} is the best here (CHUMOKU_ISA=scalar|avx2|avx512|amx caps it)"
    )?;
    writeln!(out, "threads       {} by default ({allowed} logical processors allowed)", physical_cores())?;
    let precision = match active >= chumoku::Isa::Amx {
        true => "highest, high and medium multiply six, three and one pairs of bf16 terms in AMX tiles",
        false => "highest, high and medium are all plain f32 on these instructions",
    };
    writeln!(out, "precision     {precision}")?;
    Ok(ExitCode::SUCCESS)
}
