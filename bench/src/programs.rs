//! The compared programs: the `chumoku` command, built from the current sources, and the scripts of `peers/`.

use crate::side::Side;
use chumoku_kernels::Isa;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The programs and their environment variables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    chumoku: PathBuf,
    /// A Python that has PyTorch.
    python: Option<PathBuf>,
    environment: Vec<(&'static str, &'static str)>,
}

impl Programs {
    /// Builds the command, and checks whether a Python has PyTorch. Chumoku uses no instruction set above `isa`. If that is
    /// AVX2, PyTorch is capped to it too.
    pub(crate) fn new(python: PathBuf, isa: Isa) -> Result<Programs, String> {
        let chumoku = build(&root(), &["-p", "chumoku-cli"], "chumoku")?;
        let mut command = Command::new(&python);
        command.args(["-c", "import torch"]).stderr(Stdio::null());
        let has_torch = command.status().is_ok_and(|status| status.success());
        if !has_torch {
            eprintln!("SKIPPED: PyTorch. Name a Python that has it with --python; see bench/peers/README.md");
        }
        let mut environment = vec![("CHUMOKU_ISA", isa.name())];
        if isa <= Isa::Avx2 {
            environment.extend([
                ("ATEN_CPU_CAPABILITY", "avx2"),
                ("ONEDNN_MAX_CPU_ISA", "AVX2"),
                ("MKL_ENABLE_INSTRUCTIONS", "AVX2"),
            ]);
        }
        Ok(Programs { chumoku, python: has_torch.then_some(python), environment })
    }

    /// Prints the machine and the versions.
    pub(crate) fn head(&self) {
        let info = Side::new(&self.chumoku, ["info", "--json"]).run().unwrap_or_default();
        let field = |name: &str| info.first().and_then(|info| info[name].as_str()).unwrap_or("unknown").to_owned();
        let cores = info.first().map_or(0, |info| info["threads"].as_u64().unwrap_or(0));
        let version = "import torch; print('\"' + torch.__version__ + '\"')";
        let torch = self.python.as_ref().and_then(|python| Side::new(python, ["-c", version]).run().ok());
        let torch = torch.and_then(|lines| Some(lines.first()?.as_str()?.to_owned()));
        println!("Machine: {}, {cores} cores, {}.", field("processor"), std::env::consts::OS);
        println!(
            "Chumoku {} on {}, PyTorch {}, {}.",
            field("version"),
            chumoku_kernels::active_isa(),
            torch.unwrap_or_else(|| "not there".into()),
            tool("rustc", &["--version"])
        );
        println!("Load of the machine at the start: {}", load());
    }

    /// The side `chumoku bench WHAT FLAGS`.
    pub(crate) fn ours(&self, what: &str, flags: &str, threads: usize) -> Option<Side> {
        let args = format!("bench {what} {flags} --threads {threads} --json");
        Some(Side::new(&self.chumoku, args.split_whitespace()).with(&self.environment))
    }

    /// The example of the kernels that times matrix products.
    pub(crate) fn products(&self, threads: usize) -> Option<Side> {
        let built = build(&root(), &["-p", "chumoku-kernels", "--example", "gemm_speed"], "gemm_speed");
        let program = built.map_err(|problem| eprintln!("FAILED: {problem}")).ok()?;
        Some(Side::new(program, [threads.to_string()]).with(&self.environment))
    }

    /// A script of `peers/`.
    pub(crate) fn torch(&self, script: &str, flags: &str, threads: usize) -> Option<Side> {
        let script = root().join("bench/peers").join(script).display().to_string();
        let flags = format!("{flags} --threads {threads}");
        let args = [&script[..]].into_iter().chain(flags.split_whitespace());
        Some(Side::new(self.python.as_ref()?, args).with(&self.environment))
    }
}

/// The folder of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Builds a program of the Cargo project in `folder` from the current sources, and returns its path.
pub(crate) fn build(folder: &Path, flags: &[&str], name: &str) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "--message-format=json-render-diagnostics"]).args(flags);
    let output = command.current_dir(folder).stderr(Stdio::inherit()).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("`cargo build --release` failed in {}", folder.display()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut built = messages.filter(|message| message["target"]["name"] == name);
    let program = built.find_map(|message| message["executable"].as_str().map(PathBuf::from));
    program.ok_or_else(|| format!("cargo built no {name} in {}", folder.display()))
}

pub(crate) fn tool(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map_or_else(|_| program.into(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The load average over one, five and fifteen minutes.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = text.split(' ').take(3).collect::<Vec<_>>().join(", ");
    if load.is_empty() { "unknown".into() } else { load }
}
