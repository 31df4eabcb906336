//! `chumoku explain`: why a text got its class.

use super::model_name;
use crate::args::{Explain, Language};
use crate::{Usage, threads};
use anyhow::Context;
use chumoku::TextClassifier;
use chumoku::data::AtomicOutput;
use chumoku::view::{ColourDepth, Lang, TerminalOptions, render, to_html, to_json};
use std::io::{IsTerminal, Write, stdout};
use std::path::Path;
use std::process::ExitCode;

/// Columns of the terminal, 80 if it does not say.
pub(crate) fn terminal_options(lang: Lang) -> TerminalOptions {
    let is_terminal = stdout().is_terminal();
    let width = match terminal_size::terminal_size() {
        Some((width, _)) if is_terminal => usize::from(width.0),
        _ => 80,
    };
    TerminalOptions { width, colour: ColourDepth::detect(is_terminal, |name| std::env::var(name).ok()), lang }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut file = AtomicOutput::create(path)?;
    file.write_all(text.as_bytes()).with_context(|| format!("writing {}", path.display()))?;
    Ok(file.commit()?)
}

/// The layer and head to show, counted from 0; both 0 for a recurrent network, which has none.
fn place(model: &TextClassifier, args: &Explain) -> anyhow::Result<(usize, usize)> {
    let body = &model.config().model.body;
    if let Some(encoder) = body.transformer() {
        let (layers, heads) = (encoder.num_layers, encoder.num_heads);
        let (layer, head) = (args.layer.unwrap_or(layers), args.head.unwrap_or(1));
        if layer > layers || head > heads {
            let problem =
                format!("--layer {layer} --head {head}: this model has layers 1 to {layers} and heads 1 to {heads}");
            return Err(Usage(problem).into());
        }
        return Ok((layer - 1, head - 1));
    }
    let flags = [("--layer", args.layer.is_some()), ("--head", args.head.is_some()), ("--html", args.html.is_some())];
    if let Some((flag, _)) = flags.into_iter().find(|(_, given)| *given) {
        let problem = format!(
            "{flag}: this model is a recurrent network, {} ({}), and has no attention to show; the effect of each word is \
             shown without {flag}, and by --json",
            body.network().noun(),
            body.sizes()
        );
        return Err(Usage(problem).into());
    }
    say!(
        "note: this model is a recurrent network, {} ({}); it has no attention to show",
        body.network().noun(),
        body.sizes()
    );
    Ok((0, 0))
}

pub(crate) fn run(args: &Explain) -> anyhow::Result<ExitCode> {
    threads::start(args.threads)?;
    let model = TextClassifier::load(&args.model)?;
    let (layer, head) = place(&model, args)?;
    let explanation = model.explain(&args.text, &model_name(&args.model))?;
    let windows = model.predict(&[&args.text])?.first().map_or(1, |prediction| prediction.windows);
    if windows > 1 {
        say!(
            "note: the text is longer than the {} tokens that the model reads at a time. The prediction is the mean of \
             {windows} windows; attention and the effect of words are shown for the words of the first.",
            model.config().model.max_length - 1
        );
    }
    let lang = match args.lang {
        Language::En => Lang::En,
        Language::Ja => Lang::Ja,
    };
    if let Some(path) = &args.html {
        write(path, &to_html(&explanation, lang))?;
        say!("wrote {}", path.display());
    }
    match &args.json {
        Some(path) if path.as_os_str() == "-" => {
            writeln!(stdout(), "{}", to_json(&explanation))?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(path) => {
            write(path, &format!("{}\n", to_json(&explanation)))?;
            say!("wrote {}", path.display());
        }
        None => {}
    }
    write!(stdout(), "{}", render(&explanation, layer, head, &terminal_options(lang)))?;
    Ok(ExitCode::SUCCESS)
}
