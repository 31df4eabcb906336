//! Passes target and commit to the program. Asks the linker for packed relocations (DT_RELR), which save 1.4 MB, and
//! to keep one of identical functions, which saves 0.4 MB.

use std::env::{var, var_os};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=CHUMOKU_TARGET={}", var("TARGET").unwrap_or_default());
    println!("cargo::rerun-if-env-changed=CHUMOKU_COMMIT");
    if let Some(commit) = var("CHUMOKU_COMMIT").ok().or_else(commit_of_package) {
        println!("cargo::rustc-env=CHUMOKU_COMMIT={commit}");
    }
    let is_gnu = var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux")
        && var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    // The local linker and C library count only if the program is built for this system.
    if is_gnu && var("HOST").ok() == var("TARGET").ok() {
        // Loaders read packed relocations from glibc 2.36 on.
        if glibc_version().is_some_and(|version| version >= (2, 36)) {
            println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        }
        // Of the usual linkers, lld can do this, which is rustc's own since 1.90, and GNU ld cannot.
        let target = var("TARGET").unwrap_or_default().replace('-', "_").to_uppercase();
        println!("cargo::rerun-if-env-changed=CARGO_TARGET_{target}_LINKER");
        if can_link_with(FOLD_IDENTICAL) == Some(true) {
            println!("cargo::rustc-link-arg-bins={FOLD_IDENTICAL}");
        }
    }
}

/// Folds identical functions and constants, which then share an address. Rust promises distinct addresses to statics
/// alone. A dependency (`encoding_rs`) compares statics by address; they differ in their content and are not folded.
const FOLD_IDENTICAL: &str = "-Wl,--icf=all";

/// Returns true if an empty program can be linked with this argument, or `None` if it cannot be tried.
fn can_link_with(argument: &str) -> Option<bool> {
    let program = Path::new(&var_os("OUT_DIR")?).join("empty");
    let flags = var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let mut command = Command::new(var_os("RUSTC")?);
    command.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    if let Ok(linker) = var("RUSTC_LINKER") {
        command.arg(format!("-Clinker={linker}"));
    }
    command.arg("-").arg("-o").arg(program).arg(format!("-Clink-arg={argument}"));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    child.stdin.take()?.write_all(b"fn main() {}").ok()?;
    Some(child.wait().ok()?.success())
}

/// Returns the commit that `cargo package` wrote into a published package. A checkout returns none: asking Git would
/// change the program, and every cached test model with it, at each commit.
fn commit_of_package() -> Option<String> {
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    let commit = rest.split('"').nth(1)?;
    (commit.len() >= 40 && commit.chars().all(|c| c.is_ascii_hexdigit())).then(|| commit.to_owned())
}

/// Returns the version of this system's glibc, or `None` if the system has another C library or no `getconf`.
fn glibc_version() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
