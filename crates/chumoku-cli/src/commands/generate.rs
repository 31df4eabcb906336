//! `chumoku generate`: a text that goes on, streamed as it is written.

use crate::args::Generate;
use crate::threads;
use chumoku::sampling::Sampling;
use chumoku::{Stop, TextGenerator};
use serde_json::json;
use std::io::{Write, stdout};
use std::ops::ControlFlow;
use std::process::ExitCode;

pub(crate) fn run(args: &Generate) -> anyhow::Result<ExitCode> {
    threads::start(args.threads)?;
    let model = TextGenerator::load(&args.model)?;
    let mut sampling = Sampling::default();
    sampling.temperature = args.temperature;
    sampling.top_k = args.top_k;
    sampling.top_p = args.top_p;
    sampling.seed = args.seed;
    // Before the prompt is printed.
    sampling.check()?;
    let mut out = stdout().lock();
    if args.json {
        let mut text = String::new();
        let stop = model.generate(&args.prompt, args.max_tokens, &sampling, &mut |piece| {
            text.push_str(piece);
            ControlFlow::Continue(())
        })?;
        let stop = if stop == Stop::End { "end" } else { "max_tokens" };
        writeln!(out, "{}", json!({ "prompt": args.prompt, "text": text, "stop": stop }))?;
        return Ok(ExitCode::SUCCESS);
    }
    // A text of many lines: what would steer a terminal is left out, line ends are not.
    let plain = |c: char| if c.is_control() && c != '\n' && c != '\t' { ' ' } else { c };
    let mut put = |piece: &str| {
        let piece: String = piece.chars().map(plain).collect();
        out.write_all(piece.as_bytes()).and_then(|()| out.flush())
    };
    put(&args.prompt)?;
    let mut written = Ok(());
    let stop = model.generate(&args.prompt, args.max_tokens, &sampling, &mut |piece| {
        written = put(piece);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written?;
    put("\n")?;
    if stop == Stop::Enough {
        say!(
            "{}",
            chumoku::tr!(
                "stopped after {} tokens (--max-tokens)",
                "{} トークンで止めました（--max-tokens）",
                args.max_tokens
            )
        );
    }
    Ok(ExitCode::SUCCESS)
}
