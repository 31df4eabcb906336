//! The extent of tests: a quick selection, or every case.

/// The environment variable with the crates whose tests try every case: `all`, or names separated by commas.
const VARIABLE: &str = "CHUMOKU_EXHAUSTIVE";

/// Returns true if the tests of the crate `area` must try every case, as `CHUMOKU_EXHAUSTIVE` says: `all`, or crate
/// names separated by commas. Otherwise they try a selection that takes a few seconds.
pub fn exhaustive(area: &str) -> bool {
    std::env::var(VARIABLE).is_ok_and(|areas| is_named(&areas, area))
}

fn is_named(areas: &str, area: &str) -> bool {
    areas.split(',').map(str::trim).any(|name| name == area || name == "all")
}

/// Returns `few`, or `many` if the tests of `area` are [`exhaustive`].
pub fn cases(area: &str, few: u32, many: u32) -> u32 {
    if exhaustive(area) { many } else { few }
}

#[cfg(test)]
mod tests {
    use super::is_named;

    #[test]
    fn areas_match_whole_names() {
        assert!(is_named("all", "chumoku-nn"));
        assert!(is_named("chumoku-kernels, chumoku-nn", "chumoku-nn"));
        assert!(is_named("chumoku", "chumoku"));
        assert!(!is_named("chumoku", "chumoku-nn") && !is_named("chumoku-nn", "chumoku"));
        assert!(!is_named("", "chumoku") && !is_named("1", "chumoku"));
    }
}
