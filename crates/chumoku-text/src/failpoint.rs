//! Failpoints: named places at which a test stops or pauses the process, so that tests do not depend on timing.
//!
//! Failpoints are for tests only and are set through the environment. `CHUMOKU_FAILPOINT=NAME:N=ACTION` acts when the
//! process passes the failpoint NAME for the Nth time. `:N` is optional and defaults to 1. NAME may be `any`, which
//! matches every failpoint. Actions:
//!
//! * `abort` ends the process at once, like a kill: nothing is flushed and no destructor runs;
//! * `hold:FILE` appends NAME to FILE and waits until FILE is removed. Nothing happens if FILE does not exist. Later
//!   passes wait too.
//!
//! A failpoint does not change results. If the variable is not set, a pass costs one load of a static.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The environment variable that sets a failpoint.
pub const VARIABLE: &str = "CHUMOKU_FAILPOINT";

/// The name that matches every failpoint.
const ANY: &str = "any";

/// Stops or pauses the process here if the environment asks for it.
pub fn hit(name: &str) {
    static SET: OnceLock<Option<Failpoint>> = OnceLock::new();
    if let Some(failpoint) = SET.get_or_init(|| Failpoint::parse(&std::env::var(VARIABLE).ok()?)) {
        failpoint.pass(name);
    }
}

/// A failpoint that is set.
#[derive(Debug)]
struct Failpoint {
    name: String,
    /// The first pass on which it acts, from 1.
    first: u64,
    action: Action,
    passes: AtomicU64,
}

#[derive(Debug, PartialEq, Eq)]
enum Action {
    Abort,
    Hold(PathBuf),
}

impl Failpoint {
    /// Parses `NAME:N=ACTION`. Returns `None` if the text has another form.
    fn parse(text: &str) -> Option<Failpoint> {
        let (place, action) = text.split_once('=')?;
        let (name, first) = place.split_once(':').unwrap_or((place, "1"));
        let action = match action.split_once(':') {
            None if action == "abort" => Action::Abort,
            Some(("hold", file)) => Action::Hold(file.into()),
            _ => return None,
        };
        Some(Failpoint { name: name.to_owned(), first: first.parse().ok()?, action, passes: AtomicU64::new(0) })
    }

    fn pass(&self, name: &str) {
        if self.is_due(name) {
            match &self.action {
                Action::Abort => std::process::abort(),
                Action::Hold(file) => hold(name, file),
            }
        }
    }

    /// Counts a pass and returns whether the failpoint acts on it.
    fn is_due(&self, name: &str) -> bool {
        (self.name == name || self.name == ANY) && self.passes.fetch_add(1, Ordering::Relaxed) + 1 >= self.first
    }
}

/// Appends the name to the file and waits until the file is removed.
fn hold(name: &str, file: &Path) {
    #[expect(clippy::disallowed_methods, reason = "the file is a test's, and there already")]
    let Ok(mut log) = std::fs::OpenOptions::new().append(true).open(file) else {
        return;
    };
    // If the write fails, the test that waits for this line reports it.
    let _ = writeln!(log, "{name}");
    drop(log);
    while file.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failpoint_acts_on_the_given_pass_and_later_ones() {
        let due = |set: &str, names: &[&str]| -> Vec<bool> {
            let failpoint = Failpoint::parse(set).unwrap();
            names.iter().map(|name| failpoint.is_due(name)).collect()
        };
        assert_eq!(due("step:2=abort", &["step", "write", "step", "step"]), [false, false, true, true]);
        assert_eq!(due("step=abort", &["write", "step"]), [false, true]);
        assert_eq!(due("any:3=abort", &["step", "write", "rename"]), [false, false, true]);
        assert_eq!(Failpoint::parse("load=hold:C:\\a=b").unwrap().action, Action::Hold("C:\\a=b".into()));
        for other in ["", "step", "step:x=abort", "step=stop", "step=hold", "step:1:2=abort"] {
            assert!(Failpoint::parse(other).is_none(), "{other}");
        }
    }

    #[test]
    fn a_process_waits_while_the_hold_file_exists() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hold");
        let failpoint = Failpoint::parse(&format!("step=hold:{}", file.display())).unwrap();
        // No file, no hold.
        failpoint.pass("step");
        std::fs::write(&file, "").unwrap();
        std::thread::scope(|scope| {
            let held = scope.spawn(|| {
                failpoint.pass("step");
                file.exists()
            });
            while std::fs::read_to_string(&file).unwrap() != "step\n" {
                std::thread::yield_now();
            }
            assert!(!held.is_finished());
            std::fs::remove_file(&file).unwrap();
            assert!(!held.join().unwrap());
        });
    }
}
