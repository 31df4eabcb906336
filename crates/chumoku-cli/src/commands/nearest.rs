//! Implements `chumoku nearest`: semantic search over the rows of a file.

use crate::args::NearestArgs;
use crate::data::read_options;
use crate::models::embedding::{VectorModel, embed_texts, read_texts};
use crate::progress::print_status;
use crate::{ExitCode, UsageError, threads};
use chumoku::data::RowSource;
use chumoku::lang::sanitize;
use chumoku::{EmbedOptions, tr};
use serde_json::json;
use std::io::{Write, stdout};

pub(crate) fn run(mut args: NearestArgs) -> anyhow::Result<ExitCode> {
    args.reading.buffer_pipe(&mut args.corpus)?;
    threads::start_pool(args.threads)?;
    if let Some(at) = args.queries.iter().position(|query| query.trim().is_empty()) {
        refuse!(
            "query {} of {} is empty; expected a text to search for",
            "{1} 個のうち {0} 番目の検索文が空です。探すものを指定してください",
            at + 1,
            args.queries.len()
        );
    }
    let model = VectorModel::load(&args.model, args.precision)?;
    let source = RowSource::open(&args.corpus, &read_options(&args.reading, false)?)?;
    print_status(["corpus", "検索対象"], &source.describe());
    let corpus = read_texts(source)?;
    if corpus.is_empty() {
        let path = args.corpus.display();
        return Err(
            UsageError(tr!("{path}: the file has no rows to search", "{path}: 検索対象の行がありません")).into()
        );
    }
    // Models that distinguish queries from documents have named prompts for them.
    let prompt = |named: Option<&str>, usual: &[&str]| -> Option<String> {
        let usual = || usual.iter().find(|&&name| model.has_prompt(name)).copied();
        named.or_else(usual).map(String::from)
    };
    let of_query = prompt(args.prompt.as_deref(), &["query"]);
    let of_corpus = prompt(args.corpus_prompt.as_deref(), &["document", "passage", "corpus"]);
    let embed = |texts: &[String], prompt: &Option<String>| {
        let mut options = EmbedOptions::default();
        (options.prompt, options.normalize) = (prompt.as_deref(), Some(true));
        embed_texts(model, texts, options)
    };
    // Embeds the queries first, so that a missing prompt is reported before the work.
    let queries = embed(&args.queries, &of_query)?;
    let found = embed(&corpus, &of_corpus)?.nearest(&queries, args.top);
    let mut out = stdout().lock();
    for (query, found) in args.queries.iter().zip(found) {
        if args.json {
            let found: Vec<_> = found
                .iter()
                .map(|&(row, score)| {
                    let score = (f64::from(score) * 1e6).round() / 1e6;
                    json!({ "row": row + 1, "score": score, "text": corpus[row] })
                })
                .collect();
            writeln!(out, "{}", json!({ "query": query, "nearest": found }))?;
            continue;
        }
        if args.queries.len() > 1 {
            writeln!(out, "{}", sanitize(query))?;
        }
        for (row, score) in found {
            writeln!(out, "{score:.4}\t{}\t{}", row + 1, sanitize(&corpus[row]))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
