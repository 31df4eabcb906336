//! The integration tests of `chumoku-view` and `chumoku-trace`, whose pages look alike: one module for each subject.

#![allow(clippy::disallowed_methods, reason = "tests write files of their own")]

mod additive_attention;
mod article_examples;
mod backward;
mod check_by_hand;
mod classes;
mod common;
mod doctor_in_browser;
mod embeddings;
mod errata;
mod errors_in_browser;
mod feed_forward;
#[cfg(feature = "pictures")]
mod figure_files;
mod figures;
#[cfg(feature = "pictures")]
mod figures_in_browser;
mod network_map_in_browser;
mod page_in_browser;
mod planted_mistakes;
mod recurrent;
mod snapshots;
#[cfg(feature = "spreadsheets")]
mod spreadsheet;
mod tagged_in_browser;
mod token_path_in_browser;
mod trace;
mod trace_answers_in_browser;
mod trace_in_browser;
mod view;
mod worked_examples;
