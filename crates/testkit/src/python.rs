//! A Python to hold results against.

use std::ffi::OsString;
use std::process::Command;

/// The Python that `CHUMOKU_PYTHON` names, if it has these modules. Otherwise it is said that a test is skipped.
pub fn python(modules: &str) -> Option<OsString> {
    let named = std::env::var_os("CHUMOKU_PYTHON").filter(|python| !python.is_empty());
    let Some(python) = named else {
        eprintln!("SKIPPED: CHUMOKU_PYTHON names no Python with {modules}");
        return None;
    };
    let import = format!("import {modules}");
    let is_there = Command::new(&python).args(["-c", &import]).output().is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("SKIPPED: the Python of CHUMOKU_PYTHON lacks one of {modules}");
    }
    is_there.then_some(python)
}
