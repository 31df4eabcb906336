//! Tests that run in their own process, because they use process-wide state such as a counter.

use std::process::Command;

/// The environment variable with the name of the test that a process runs.
const VARIABLE: &str = "CHUMOKU_TEST_ALONE";

/// Runs `body` in its own process: starts this test program again with only the test `name`. The name includes the
/// module, as listed by the test program: `module::test`.
///
/// # Panics
/// If the test fails in its process, or if no test has that name.
#[track_caller]
pub fn in_own_process(name: &str, body: impl FnOnce()) {
    if std::env::var(VARIABLE).is_ok_and(|running| running == name) {
        return body();
    }
    let program = std::env::current_exe().expect("the path of the test program");
    let mut command = Command::new(program);
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(VARIABLE, name);
    let output = command.output().expect("the test program can be started again");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let has_passed = output.status.success() && stdout.contains("1 passed");
    assert!(has_passed, "{name} failed, alone in a process:\n{stdout}\n{stderr}");
    print!("{stdout}");
    eprint!("{stderr}");
}

#[cfg(test)]
mod tests {
    use super::in_own_process;

    #[test]
    fn the_body_runs_in_another_process() {
        let is_there = std::env::var(super::VARIABLE).is_ok();
        let mut has_run_here = false;
        in_own_process("alone::tests::the_body_runs_in_another_process", || has_run_here = true);
        assert_eq!(has_run_here, is_there);
    }

    #[test]
    #[should_panic(expected = "alone in a process")]
    fn a_failure_in_the_other_process_fails_the_test() {
        in_own_process("alone::tests::a_failure_in_the_other_process_fails_the_test", || panic!("it fails there"));
    }

    #[test]
    #[should_panic(expected = "alone in a process")]
    fn a_missing_test_fails() {
        in_own_process("alone::tests::no_such_test", || ());
    }
}
