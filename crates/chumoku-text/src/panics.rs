//! Turns panics of dependencies into errors, without their message on stderr.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static IS_SILENT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`. If it panics, returns the panic message.
///
/// The caller must not use a value that `work` was changing after a panic. Panics outside `work` still reach the hook
/// that was set before the first call.
pub(crate) fn catch_silently<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let outer = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_SILENT.get() {
                outer(info);
            }
        }));
    });
    let outer = IS_SILENT.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    IS_SILENT.set(outer);
    result.map_err(|payload| {
        let message = payload.downcast_ref::<String>().map(String::as_str);
        message
            .or(payload.downcast_ref::<&str>().copied())
            .unwrap_or(crate::lang::lang().pick("no details are known", "詳しいことはわかりません"))
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message() {
        let numbers: Vec<u8> = Vec::new();
        assert_eq!(catch_silently(|| 3), Ok(3));
        assert_eq!(catch_silently(|| panic!("said {}", "so")), Err::<(), _>("said so".to_owned()));
        assert_eq!(catch_silently(|| panic!("plainly")), Err::<(), _>("plainly".to_owned()));
        assert!(catch_silently(|| numbers[std::hint::black_box(1)]).is_err());
        assert_eq!(catch_silently(|| catch_silently(|| panic!("inside"))), Ok(Err::<(), _>("inside".to_owned())));
        assert!(!IS_SILENT.get());
    }
}
