"""The yardstick: the processor time of one fixed compilation, in which other times are expressed.

A build that takes 600 s on one machine takes 1,100 s on another. Both take about as many yardsticks.
"""

import os
import subprocess
import tempfile

FUNCTIONS = 16

PRELUDE = """
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
"""

# One function: generic collections, sorting, formatting and a loop over floats, each for a separate type.
FUNCTION = """
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key@(pub u64, pub String);

pub fn group@(rows: &[(Key@, f64)]) -> Result<String, std::num::ParseIntError> {
    let mut groups: BTreeMap<Key@, Vec<f64>> = BTreeMap::new();
    let mut counts: HashMap<Key@, usize> = HashMap::new();
    for (key, value) in rows {
        groups.entry(key.clone()).or_default().push(value * @.5);
        *counts.entry(key.clone()).or_insert(0) += key.1.trim().parse::<usize>()?;
    }
    let mut order: Vec<(Key@, usize)> = counts.into_iter().collect();
    order.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let mut text = String::new();
    for (key, count) in &order {
        let sum: f64 = groups[key].iter().map(|x| (x * x + 1.0).sqrt()).sum();
        let _ = writeln!(text, "{key:?} {count:>8} {sum:.3}");
    }
    Ok(text)
}
"""


def source():
    """The compiled source, the same on every machine."""
    return PRELUDE + "".join(FUNCTION.replace("@", str(n)) for n in range(FUNCTIONS))


def measure():
    """Compiles the source once and returns the processor seconds of the compiler."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "yardstick.rs")
        with open(path, "w") as file:
            file.write(source())
        options = ["--edition=2021", "--crate-type=rlib", "-O", "-Ccodegen-units=1", "--out-dir", folder]
        process = subprocess.Popen([os.environ.get("RUSTC", "rustc"), *options, path])
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError("rustc could not compile the yardstick")
    return usage.ru_utime + usage.ru_stime


def describe(seconds, unit):
    """Writes a time in seconds and in yardsticks: "610 s = 41 yardsticks"."""
    return f"{seconds:,.0f} s = {seconds / unit:,.1f} yardsticks"


if __name__ == "__main__":
    print(f"one yardstick: {measure():.1f} s of processor time")
