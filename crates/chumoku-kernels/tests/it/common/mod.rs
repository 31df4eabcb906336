//! Helpers that the kernel tests share.

use chumoku_kernels::{Isa, cap_isa, poison_scratch};
use std::sync::{Condvar, Mutex, MutexGuard};

/// The instruction set that the process is locked to, and the number of tests that depend on it.
struct IsaState {
    isa: Isa,
    tests: usize,
}

static ISA_STATE: Mutex<IsaState> = Mutex::new(IsaState { isa: Isa::Scalar, tests: 0 });
static RELEASED: Condvar = Condvar::new();

fn isa_state() -> MutexGuard<'static, IsaState> {
    ISA_STATE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A lock of the process on one instruction set.
struct IsaLock(Isa);

impl IsaLock {
    /// Takes one of `to_do` and locks it: the one that other tests have locked, or the first if there is none.
    fn take(to_do: &mut Vec<Isa>) -> IsaLock {
        let mut held = isa_state();
        loop {
            let shared = (held.tests > 0).then(|| to_do.iter().position(|&isa| isa == held.isa));
            if let Some(at) = shared.unwrap_or(Some(0)) {
                let isa = to_do.remove(at);
                if held.tests == 0 {
                    assert_eq!(cap_isa(isa), isa);
                    held.isa = isa;
                }
                held.tests += 1;
                return IsaLock(isa);
            }
            held = RELEASED.wait(held).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

impl Drop for IsaLock {
    fn drop(&mut self) {
        let mut held = isa_state();
        held.tests -= 1;
        if held.tests == 0 {
            cap_isa(Isa::best());
        }
        RELEASED.notify_all();
    }
}

/// Runs `test` once for each instruction set, in any order; failures name it.
///
/// Scratch memory starts as NaN. Missing instruction sets are reported, and `CHUMOKU_REQUIRE_ISA` turns them into
/// failures. The instruction set is global to the process, so only tests of the same one run in parallel.
pub(crate) fn each_isa(mut test: impl FnMut(Isa)) {
    poison_scratch(true);
    let required = std::env::var("CHUMOKU_REQUIRE_ISA").unwrap_or_default();
    let (mut to_do, missing): (Vec<Isa>, Vec<Isa>) = Isa::ALL.into_iter().partition(|isa| isa.is_available());
    for isa in missing {
        assert!(!required.split(',').any(|name| name == isa.name()), "{isa} is required but not available");
        println!("SKIPPED: this machine has no {isa}");
    }
    while !to_do.is_empty() {
        let turn = IsaLock::take(&mut to_do);
        println!("running on {}", turn.0);
        test(turn.0);
    }
}
