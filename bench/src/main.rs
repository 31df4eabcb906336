//! The harness that compares Chumoku with its peers and keeps the record. (`chumoku bench` alone times Chumoku.)
//!
//! ```text
//! cargo run --release -p bench -- all [--python PATH] [--isa avx2] [--threads 2] [--rounds 3] [--only WORD,…]
//! cargo run --release -p bench -- attention [--only PART,…] [--threads 2,1] [--rounds 3] [--python PATH] [--isa avx2] [--no-rust]
//! cargo run --release -p bench -- accuracy FOLDER [--sets sst2,trec] [--seeds 1,2,3] [--threads 2] [--precision medium]
//!     [--from ENCODER] [--keep MODELS]
//! cargo run --release -p bench -- ngrams FOLDER [--sets sst2,trec] [--threads 2] [--rounds 3] [--stages]
//! cargo run --release -p bench -- embed FOLDER TEXTS [--threads 2] [--precision high]
//! cargo run --release -p bench -- pages --python PATH [--scripts FOLDER] [--tokens 16,128,512] [--runs 5] [--timeout 120]
//!     [--wait 0] [--keep FOLDER] [--no-peer]
//! cargo run --release -p bench -- pictures [--count 100] [--runs 3] [--keep FOLDER]
//! ```
//! `all` compares speeds with the target ratios and exits with 1 if one is missed: see `speed.rs`. `attention` prints
//! figures of Chumoku and its peers, as Markdown for `record/`: see `speed.rs`. `accuracy` measures the defaults of
//! `chumoku train` on real data, `ngrams` times the n-gram model: see `accuracy.rs`. `embed` times one text after
//! another through a pretrained encoder: see `embed.rs`. `pages` measures pages of attention in a browser, ours and
//! BertViz's, `pictures` draws heatmaps: see `pages.rs`.

#![allow(clippy::disallowed_methods, reason = "a tool for developers, which writes where it is told")]

mod accuracy;
mod embed;
mod flags;
mod pages;
mod programs;
mod side;
mod speed;

use flags::Flags;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let command = args.next().unwrap_or_default();
    let flags = Flags::new(args);
    let result = match &*command {
        "all" => speed::run(flags, true),
        "attention" => speed::run(flags, false),
        "accuracy" => accuracy::run(flags).map(|()| true),
        "ngrams" => accuracy::ngrams(flags).map(|()| true),
        "embed" => embed::run(flags).map(|()| true),
        "pages" => pages::run(flags).map(|()| true),
        "pictures" => pages::pictures(flags).map(|()| true),
        _ => Err(
            "expected `all`, `attention`, `accuracy`, `ngrams`, `embed`, `pages` or `pictures`; `chumoku bench` times \
                  Chumoku alone"
                .into(),
        ),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::from(2)
        }
    }
}
