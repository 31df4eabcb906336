//! Which tests run in full.

/// Whether the tests of an area, a crate's name, are to go through everything: `CHUMOKU_EXHAUSTIVE` is `all`, or a list of
/// areas with commas between them.
pub fn exhaustive(area: &str) -> bool {
    let wanted = std::env::var("CHUMOKU_EXHAUSTIVE").unwrap_or_default();
    wanted.split(',').map(str::trim).any(|wanted| wanted == "all" || wanted == area)
}
