//! Implements `chumoku info`: this machine and build, or the contents of a model folder.
//!
//! # Files
//!
//! - `model`: contents of a model folder
//! - `training`: the training report

mod model;
mod training;

use crate::ExitCode;
use crate::args::InfoArgs;
use crate::threads::physical_cores;
use chumoku::tr;
use chumoku_kernels::system::processor_name;
use serde_json::json;
use std::io::{Write, stdout};

/// Target that this program was compiled for, such as `x86_64-unknown-linux-gnu`.
const TARGET: &str = env!("CHUMOKU_TARGET");

/// Commit that this program was built from, if the build names one (`build.rs`).
const COMMIT: Option<&str> = option_env!("CHUMOKU_COMMIT");

/// Returns the processor's name, as the system reports it.
fn processor() -> String {
    processor_name().unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

pub(crate) fn run(args: &InfoArgs) -> anyhow::Result<ExitCode> {
    if let Some(folder) = args.model.as_ref().filter(|_| args.report) {
        return training::run(folder);
    }
    if let Some(folder) = &args.model {
        return model::run(folder, args.json);
    }
    let (best, active) = (chumoku::best_isa(), chumoku::active_isa());
    let version = env!("CARGO_PKG_VERSION");
    let allowed = std::thread::available_parallelism().map_or(1, |n| n.get());
    if args.json {
        let info = json!({
            "version": version,
            "commit": COMMIT,
            "target": TARGET,
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
    let unknown = || tr!("unknown: this build recorded none", "不明（このビルドには記録がありません）");
    let commit = COMMIT.map_or_else(unknown, str::to_owned);
    let text = tr!(
        "chumoku       {version}
commit        {commit}
platform      {TARGET}",
        "chumoku       {version}
コミット      {commit}
環境          {TARGET}"
    );
    writeln!(out, "{text}")?;
    let (processor, architecture, system) = (processor(), std::env::consts::ARCH, std::env::consts::OS);
    let cores = physical_cores();
    let text = tr!(
        "processor     {processor} ({architecture}, {system})
instructions  {active} in use, {best} is the best here
              (CHUMOKU_ISA=scalar|avx2|avx512|avx512bf16|amx caps it)
threads       {cores} by default ({allowed} logical processors allowed)",
        "プロセッサー  {processor}（{architecture}、{system}）
命令セット    {active} を使用、ここでの最良は {best}
              （CHUMOKU_ISA=scalar|avx2|avx512|avx512bf16|amx で制限できます）
スレッド      既定は {cores}（使える論理プロセッサーは {allowed}）"
    );
    writeln!(out, "{text}")?;
    if cfg!(target_arch = "aarch64") {
        let text = tr!(
            "              this version has no SIMD kernels for ARM and uses plain Rust",
            "              このバージョンには ARM 用の SIMD カーネルがなく、通常の Rust で計算します"
        );
        writeln!(out, "{text}")?;
    }
    let precision = match active {
        chumoku::Isa::Amx => tr!(
            "precision     highest, high and medium use six, three and one bf16 products per f32 product in AMX tiles",
            "精度          highest、high、medium は AMX タイルで bf16 の項の組をそれぞれ 6、3、1 つ\n              \
             掛けます"
        ),
        chumoku::Isa::Avx512Bf16 => tr!(
            "precision     medium multiplies in bf16, highest and high in plain f32",
            "精度          medium は bf16 で、highest と high は通常の f32 で掛けます"
        ),
        _ => tr!(
            "precision     highest, high and medium are all plain f32 on these instructions",
            "精度          この命令セットでは highest、high、medium のどれも通常の f32 です"
        ),
    };
    writeln!(out, "{precision}")?;
    Ok(ExitCode::SUCCESS)
}
