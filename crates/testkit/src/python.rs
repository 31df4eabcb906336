//! The Python interpreter for comparisons.

use std::ffi::OsString;
use std::process::Command;

/// Returns the Python interpreter in `CHUMOKU_PYTHON` if it has these modules. Otherwise reports that the test is
/// skipped.
pub fn python(modules: &str) -> Option<OsString> {
    let named = std::env::var_os("CHUMOKU_PYTHON").filter(|python| !python.is_empty());
    let Some(python) = named else {
        eprintln!("SKIPPED: CHUMOKU_PYTHON is not set to a Python with {modules}");
        return None;
    };
    let import = format!("import {modules}");
    let is_there = Command::new(&python).args(["-c", &import]).output().is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("SKIPPED: the Python of CHUMOKU_PYTHON lacks at least one of {modules}");
    }
    is_there.then_some(python)
}
