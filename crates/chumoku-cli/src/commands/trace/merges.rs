//! Implements `chumoku trace --tokens`: how byte-pair encoding splits a text.

use super::write_output;
use crate::ExitCode;
use crate::args::{TraceArgs, TraceFormat};
use crate::report::wrap;
use chumoku::explain::merges_of;
use chumoku::lang::show_controls;
use chumoku::text::MergedWord;
use chumoku::tr;
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;

pub(super) fn run(args: &TraceArgs, folder: &Path, text: &str) -> anyhow::Result<ExitCode> {
    refuse_if!(
        !matches!(args.format(), TraceFormat::Text | TraceFormat::Json),
        "--format: expected text or json for the merges of a tokenizer",
        "--format: トークナイザーのマージの形式は text と json です"
    );
    let words = merges_of(folder, text)?;
    let bytes = match args.format() {
        TraceFormat::Json => format!("{}\n", json!({ "text": text, "words": words })),
        _ => format_merges(&words),
    };
    write_output(&args.out, bytes.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Joins symbols with bars.
fn join_symbols(symbols: &[String]) -> String {
    symbols.iter().map(|symbol| show_controls(symbol)).collect::<Vec<_>>().join(" | ")
}

/// Formats each word, and below it each merge with the resulting symbols.
fn format_merges(words: &[MergedWord]) -> String {
    let tokens: usize = words.iter().map(|word| word.tokens.len()).sum();
    let n = words.len();
    let heading = tr!(
        "{n} words, {tokens} tokens. Each step applies the merge of the lowest rank, shown on the left.",
        "{n} 語、{tokens} トークン。各ステップで、順位の最も小さいマージを適用します（左の数値が順位）。"
    );
    let mut out = wrap(&heading, 80) + "\n";
    for word in words {
        let _ = write!(out, "\n{}\n", wrap(&show_controls(&word.text), 80));
        let mut symbols = word.symbols.clone();
        let mut line = |rank: &str, symbols: &[String]| {
            for (i, part) in wrap(&join_symbols(symbols), 68).lines().enumerate() {
                let _ = writeln!(out, "{:>9}  {part}", if i == 0 { rank } else { "" });
            }
        };
        line("", &symbols);
        for merge in &word.merges {
            symbols.splice(merge.at..merge.at + 2, [merge.joined.clone()]);
            line(&merge.rank.to_string(), &symbols);
        }
    }
    out
}
