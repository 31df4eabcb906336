//! Hashes of n-grams. They are part of the model file's format and must never change.

/// The FNV-1a hash (Fowler, Noll, Vo).
pub fn fnv1a(bytes: &[u8]) -> u64 {
    chumoku_kernels::fnv1a(bytes.iter().copied())
}

/// The 64-bit finalizer of MurmurHash3 (Appleby).
pub fn finalize(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}
