//! `chumoku trace --tokens`: how byte-pair encoding cuts a text.

use super::deliver;
use crate::args::{Format, Trace};
use crate::report::wrap;
use crate::{ExitCode, Usage};
use chumoku::explain::merges_of;
use chumoku::lang::clean;
use chumoku::text::MergedWord;
use chumoku::tr;
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;

pub(super) fn run(args: &Trace, folder: &Path, text: &str) -> anyhow::Result<ExitCode> {
    if !matches!(args.format(), Format::Text | Format::Json) {
        let problem = tr!(
            "--format: the merges of a tokenizer have the forms text and json",
            "--format: トークナイザーのマージの形式は text と json です"
        );
        return Err(Usage(problem).into());
    }
    let words = merges_of(folder, text)?;
    let bytes = match args.format() {
        Format::Json => format!("{}\n", json!({ "text": text, "words": words })),
        _ => shown(&words),
    };
    deliver(&args.out, bytes.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Symbols with a bar between them.
fn joined(symbols: &[String]) -> String {
    symbols.iter().map(|symbol| clean(symbol)).collect::<Vec<_>>().join(" | ")
}

/// Each word, and below it each merge with what stands there then.
fn shown(words: &[MergedWord]) -> String {
    let tokens: usize = words.iter().map(|word| word.tokens.len()).sum();
    let n = words.len();
    let heading = tr!(
        "{n} words, {tokens} tokens. Of all merges that apply the one that was learnt first is taken; before each its rank.",
        "{n} 語、{tokens} トークン。適用できるマージのうち、先に学習したものから適用します（数値は順位）。"
    );
    let mut out = wrap(&heading, 80) + "\n";
    for word in words {
        let _ = write!(out, "\n{}\n", wrap(&clean(&word.text), 80));
        let mut symbols = word.symbols.clone();
        let mut line = |rank: &str, symbols: &[String]| {
            for (i, part) in wrap(&joined(symbols), 68).lines().enumerate() {
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
