//! Running the sides of a comparison in turn: each run is a process that prints one JSON object.

use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// One side: a program that measures, and its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    environment: Vec<(&'static str, &'static str)>,
}

impl Side {
    pub(crate) fn new(program: impl Into<PathBuf>, args: impl IntoIterator<Item = impl Into<String>>) -> Side {
        let args = args.into_iter().map(Into::into).collect();
        Side { program: program.into(), args, environment: Vec::new() }
    }

    /// Adds variables to its environment.
    pub(crate) fn with(self, environment: &[(&'static str, &'static str)]) -> Side {
        Side { environment: environment.to_vec(), ..self }
    }

    /// Runs the program and returns its output: JSON objects, one per line.
    pub(crate) fn run(&self) -> Result<Vec<Value>, String> {
        let output = Command::new(&self.program).args(&self.args).envs(self.environment.iter().cloned()).output();
        let output = output.map_err(|error| format!("{}: {error}", self.program.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("`{}` failed: {}", self.command(), said.lines().last().unwrap_or("it says nothing")));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let parse = |line| serde_json::from_str(line).map_err(|error| format!("`{}`: {error}", self.command()));
        text.lines().map(parse).collect()
    }

    fn command(&self) -> String {
        format!("{} {}", self.program.display(), self.args.join(" "))
    }
}

/// The reports of one side in all rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured(Vec<Value>);

impl Measured {
    /// The values of a field in ascending order; empty if the side failed.
    fn all(&self, field: &str) -> Vec<f64> {
        self.of(|report| report[field].as_f64())
    }

    /// The values that `read` finds in the reports, in ascending order.
    pub(crate) fn of(&self, read: impl Fn(&Value) -> Option<f64>) -> Vec<f64> {
        let mut values: Vec<f64> = self.0.iter().filter_map(read).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The reports whose field has this value.
    pub(crate) fn only(&self, field: &str, value: &str) -> Measured {
        Measured(self.0.iter().filter(|report| report[field] == value).cloned().collect())
    }

    /// The median over the rounds, NaN if the side failed.
    pub(crate) fn median(&self, field: &str) -> f64 {
        median(&self.all(field))
    }

    /// The median and the range of the rounds.
    pub(crate) fn with_spread(&self, field: &str) -> String {
        with_spread(&self.all(field))
    }
}

/// The median of sorted numbers, and their range.
pub(crate) fn with_spread(sorted: &[f64]) -> String {
    match sorted {
        [] => "–".into(),
        [one] => digits(*one),
        [first, .., last] => format!("{} ({} to {})", digits(median(sorted)), digits(*first), digits(*last)),
    }
}

/// The median of sorted numbers; NaN if there are none.
pub(crate) fn median(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => f64::NAN,
        n => (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0,
    }
}

/// Runs every side once per round, alternately, so that disturbances affect all sides. `None` is a missing side. A side
/// that fails is reported and left out.
pub(crate) fn in_turn<const N: usize>(sides: [Option<Side>; N], rounds: usize) -> [Measured; N] {
    let mut sides = sides;
    let mut measured = [const { Measured(Vec::new()) }; N];
    for _ in 0..rounds {
        for (side, measured) in sides.iter_mut().zip(&mut measured) {
            match side.as_ref().map(Side::run) {
                None => {}
                Some(Ok(reports)) => measured.0.extend(reports),
                Some(Err(problem)) => {
                    eprintln!("FAILED: {problem}");
                    *side = None;
                }
            }
        }
    }
    measured
}

/// Formats three digits, which is more than a noisy machine can measure.
pub(crate) fn digits(x: f64) -> String {
    match x.abs() {
        _ if !x.is_finite() => "–".into(),
        100.0.. => format!("{x:.0}"),
        10.0.. => format!("{x:.1}"),
        1.0.. => format!("{x:.2}"),
        _ => format!("{x:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn echo(json: &str) -> Option<Side> {
        Some(Side::new("echo", [json]))
    }

    #[test]
    fn sides_run_in_turn_and_failures_are_left_out() {
        let failing = Some(Side::new("false", [""; 0]));
        let missing = Some(Side::new("no such program", [""; 0]));
        let [a, b, c, d] = in_turn([echo("{\"x\": 2.5}"), failing, missing, None], 3);
        assert_eq!((a.median("x"), a.with_spread("x").as_str()), (2.5, "2.50 (2.50 to 2.50)"));
        assert!([b, c, d].iter().all(|side| side.median("x").is_nan() && side.with_spread("x") == "–"));
        assert!(a.median("y").is_nan());
        let two = || echo("{\"name\": \"a\", \"x\": 1}\n{\"name\": \"b\", \"x\": 2}");
        let [both] = in_turn([two()], 1);
        assert_eq!((both.median("x"), both.only("name", "b").median("x")), (1.5, 2.0));
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[1.0, 4.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn as_many_digits_as_count() {
        assert_eq!([0.01234, 1.234, 12.34, 1234.5].map(digits), ["0.012", "1.23", "12.3", "1234"]);
        assert_eq!(digits(f64::NAN), "–");
    }
}
