//! Turning a panic in a dependency into an error, without its message on stderr.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`; if it panics, returns what it said.
///
/// The value that `work` was changing must not be used again after a panic. The panic hook in force at the first call
/// stays in force for every panic outside `work`.
pub(crate) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let outer = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                outer(info);
            }
        }));
    });
    QUIET.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    QUIET.set(false);
    result.map_err(|payload| {
        let said = payload.downcast_ref::<String>().map(String::as_str);
        said.or(payload.downcast_ref::<&str>().copied())
            .unwrap_or("no more is known")
            .to_owned()
    })
}
