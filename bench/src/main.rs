//! The one harness that measures Chumoku.

fn main() {}
