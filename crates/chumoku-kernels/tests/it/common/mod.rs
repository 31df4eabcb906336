//! What the tests of the kernels share.

use chumoku_kernels::{Isa, cap_isa, poison_scratch};
use std::sync::Mutex;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs `test` once for each instruction set; failures name it.
///
/// Working memory starts as NaN. An instruction set that the machine lacks is named loudly, and `CHUMOKU_REQUIRE_ISA` makes it a failure. The choice
/// concerns the whole process, so tests that make it wait for one another.
pub(crate) fn each_isa(mut test: impl FnMut(Isa)) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    poison_scratch(true);
    let required = std::env::var("CHUMOKU_REQUIRE_ISA").unwrap_or_default();
    for isa in Isa::ALL {
        if isa.is_available() {
            assert_eq!(cap_isa(isa), isa);
            println!("running on {isa}");
            test(isa);
        } else {
            assert!(!required.split(',').any(|name| name == isa.name()), "{isa} is required but not available");
            println!("SKIPPED: this machine has no {isa}");
        }
    }
    cap_isa(Isa::best());
}
