//! The harness that compares Chumoku with its peers and keeps the record. (`chumoku bench` alone times Chumoku.)
//!
//! ```text
//! cargo run --release -p bench -- all [--python PATH] [--isa avx2] [--threads 2] [--rounds 3] [--only WORD,…]
//! cargo run --release -p bench -- attention [--only PART,…] [--threads 2,1] [--rounds 3] [--python PATH] [--no-rust]
//! cargo run --release -p bench -- product [--threads 2]
//! cargo run --release -p bench -- accuracy FOLDER …
//! cargo run --release -p bench -- embed FOLDER TEXTS [--threads 2] [--precision high]
//! cargo run --release -p bench -- ngrams FOLDER [--sets sst2,trec] [--threads 2] [--rounds 3] [--stages]
//! cargo run --release -p bench -- pages --python PATH …
//! cargo run --release -p bench -- pictures
//! ```
//!
//! `all` prints what is reached of what is asked, and ends with exit code 1 where anything falls short: see `all.rs`.
//! `attention` prints figures beside those of peers, as Markdown for `record/`: see `attention.rs`.
//! `product` times the matrix product alone, as `peers/torch_gemm.py` does.
//! `accuracy` measures the defaults of `chumoku train` on real data: see `accuracy.rs`.
//! `embed` times one text after another through a pretrained encoder: see `embed.rs`.
//! `ngrams` times the training of the n-gram model: see `ngrams.rs`.
//! `pages` measures pages of attention in a browser, ours and BertViz's, `pictures` draws heatmaps: see `pages.rs`.

mod accuracy;
mod all;
mod attention;
mod bandwidth;
mod embed;
mod ngrams;
mod pages;
mod product;
mod programs;
mod side;

fn main() -> std::process::ExitCode {
    let mut args = std::env::args().skip(1);
    let result = match args.next().as_deref() {
        Some("all") => match all::run(args) {
            Ok(true) => Ok(()),
            Ok(false) => return std::process::ExitCode::FAILURE,
            Err(problem) => Err(problem),
        },
        Some("attention") => attention::run(args),
        Some("product") => product::run(args),
        Some("accuracy") => accuracy::run(args),
        Some("embed") => embed::run(args),
        Some("ngrams") => ngrams::run(args),
        Some("pages") => pages::run(args),
        Some("pictures") => pages::pictures(args),
        _ => Err(
            "expected `all`, `attention`, `product`, `accuracy`, `embed`, `ngrams`, `pages` or `pictures`; `chumoku \
                  bench` times Chumoku alone"
                .into(),
        ),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            std::process::ExitCode::from(2)
        }
    }
}
