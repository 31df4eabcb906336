//! Systems that this crate does not support.

use super::ProcessMemory;

pub(super) fn available_memory() -> Option<u64> {
    None
}

pub(super) fn process_memory() -> Option<ProcessMemory> {
    None
}

pub(super) fn physical_cores() -> Option<usize> {
    None
}

pub(super) fn processor_name() -> Option<String> {
    None
}

pub(super) fn user_language() -> Option<String> {
    None
}

pub(super) fn lower_thread_priority() {}
