//! Implements `chumoku generate`: continues a text, and streams it as it is generated.

use crate::args::GenerateArgs;
use crate::models::load;
use crate::{ExitCode, threads};
use chumoku::answers::continuation;
use chumoku::lang::is_harmful;
use chumoku::sampling::Sampling;
use chumoku::{ChatMessage, StopReason};
use std::io::{Write, stdout};
use std::ops::ControlFlow;

pub(crate) fn run(args: &GenerateArgs) -> anyhow::Result<ExitCode> {
    threads::start_pool(args.threads)?;
    let model = load::generator(&args.model, args.precision)?;
    let mut sampling = Sampling::default();
    sampling.temperature = args.temperature;
    sampling.top_k = args.top_k;
    sampling.top_p = args.top_p;
    sampling.seed = args.seed;
    // Before the prompt is printed.
    sampling.check()?;
    let is_chat = !args.no_chat && (model.has_chat_template() || args.system.is_some());
    let system = args.system.iter().map(|text| ChatMessage::new("system", text));
    let messages: Vec<ChatMessage> = system.chain([ChatMessage::new("user", &args.prompt)]).collect();
    let write = |write: &mut dyn FnMut(&str) -> ControlFlow<()>| match is_chat {
        true => model.reply(&messages, args.max_tokens, &sampling, write),
        false => model.generate(&args.prompt, args.max_tokens, &sampling, write),
    };
    let mut out = stdout().lock();
    if args.json {
        let mut text = String::new();
        let stop = write(&mut |piece| {
            text.push_str(piece);
            ControlFlow::Continue(())
        })?;
        writeln!(out, "{}", continuation(&args.prompt, &text, stop))?;
        return Ok(ExitCode::SUCCESS);
    }
    // Replaces control characters that could steer a terminal, except line ends and tabs.
    let plain = |c: char| if is_harmful(c) && c != '\n' && c != '\t' { ' ' } else { c };
    let mut put = |piece: &str| {
        let piece: String = piece.chars().map(plain).collect();
        out.write_all(piece.as_bytes()).and_then(|()| out.flush())
    };
    if !is_chat {
        put(&args.prompt)?;
    }
    let mut written = Ok(());
    let stop = write(&mut |piece| {
        written = put(piece);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written?;
    put("\n")?;
    if stop == StopReason::MaxTokens {
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
