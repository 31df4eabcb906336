//! `chumoku explain`: why a text got its class, or where a translation comes from.

use super::model_name;
use crate::args::{Explain, Language};
use crate::{Usage, threads};
use anyhow::Context;
use chumoku::data::AtomicOutput;
use chumoku::view::{
    ColourDepth, Explanation, Fonts, Lang, Scene, TerminalOptions, alignment_to_html, render, render_alignment,
    to_html, to_json,
};
use chumoku::{ModelKind, TextClassifier, TextGenerator, TextTranslator};
use serde_json::Value;
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

/// Writes a file, all of it or nothing.
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut file = AtomicOutput::create(path)?;
    file.write_all(bytes.as_ref()).with_context(|| format!("writing {}", path.display()))?;
    Ok(file.commit()?)
}

/// The layer and head that were asked for, counted from 0, in a model of so many.
fn place(args: &Explain, [layers, heads]: [usize; 2], default: [usize; 2]) -> anyhow::Result<[usize; 2]> {
    let [layer, head] = [args.layer.unwrap_or(default[0]), args.head.unwrap_or(default[1])];
    if layer > layers || head > heads {
        let problem =
            format!("--layer {layer} --head {head}: this model has layers 1 to {layers} and heads 1 to {heads}");
        return Err(Usage(problem).into());
    }
    Ok([layer - 1, head - 1])
}

/// The layer and head to show of a classifier; both 0 for a recurrent network, which has none.
fn place_in_classifier(model: &TextClassifier, args: &Explain) -> anyhow::Result<[usize; 2]> {
    let body = &model.config().model.body;
    if let Some(encoder) = body.transformer() {
        return place(args, [encoder.num_layers, encoder.num_heads], [encoder.num_layers, 1]);
    }
    let flags = [
        ("--layer", args.layer.is_some()),
        ("--head", args.head.is_some()),
        ("--html", args.html.is_some()),
        ("--svg", args.svg.is_some()),
        ("--png", args.png.is_some()),
    ];
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
    Ok([0, 0])
}

/// Writes the page, the heatmap and the JSON where they are asked for, and the text unless the JSON goes to standard
/// output.
fn show(
    args: &Explain,
    page: impl FnOnce() -> String,
    heatmap: impl FnOnce() -> Scene,
    json: &Value,
    picture: &str,
) -> anyhow::Result<ExitCode> {
    if args.svg.is_some() || args.png.is_some() {
        let (fonts, scene) = (Fonts::installed()?, heatmap());
        if let Some(path) = &args.svg {
            write(path, fonts.svg(&scene)?)?;
            say!("wrote {}", path.display());
        }
        if let Some(path) = &args.png {
            // Twice as many pixels as points: sharp on the screens of today, and in print.
            write(path, fonts.png(&scene, 2.0)?)?;
            say!("wrote {}", path.display());
        }
    }
    if let Some(path) = &args.html {
        write(path, page())?;
        say!("wrote {}", path.display());
    }
    match &args.json {
        Some(path) if path.as_os_str() == "-" => {
            writeln!(stdout(), "{json}")?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(path) => {
            write(path, format!("{json}\n"))?;
            say!("wrote {}", path.display());
        }
        None => {}
    }
    write!(stdout(), "{picture}")?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn run(args: &Explain) -> anyhow::Result<ExitCode> {
    threads::start(args.threads)?;
    let lang = match args.lang {
        Language::En => Lang::En,
        Language::Ja => Lang::Ja,
    };
    match ModelKind::of(&args.model)? {
        ModelKind::Translator => translation(args, lang),
        kind if args.target.is_some() => {
            let problem =
                format!("--target: a translation is explained by a translator; this model is {}", kind.describe());
            Err(Usage(problem).into())
        }
        ModelKind::LanguageModel => next_token(args, lang),
        ModelKind::Classifier => prediction(args, lang),
    }
}

/// What comes next in a text.
fn next_token(args: &Explain, lang: Lang) -> anyhow::Result<ExitCode> {
    let model = TextGenerator::load(&args.model)?;
    let encoder = &model.config().model.encoder;
    let [layer, head] = place(args, [encoder.num_layers, encoder.num_heads], [encoder.num_layers, 1])?;
    let explanation = model.explain(&args.text, &model_name(&args.model))?;
    if !explanation.words.first().is_some_and(|word| word.special) {
        say!(
            "note: the text is longer than the {} tokens that the model reads; what is shown is of the last of them.",
            model.config().model.max_length
        );
    }
    show_explanation(args, &explanation, [layer, head], lang)
}

/// Where a translation comes from.
fn translation(args: &Explain, lang: Lang) -> anyhow::Result<ExitCode> {
    let model = TextTranslator::load(&args.model)?;
    let alignment = model.explain(&args.text, args.target.as_deref(), &model_name(&args.model))?;
    if alignment.is_cut {
        say!(
            "note: the text is longer than the {} tokens that the model reads; what is shown is of the words that it read.",
            model.config().model.max_length - 1
        );
    }
    let best = alignment.ranking.first().map_or([1, 1], |best| [best.layer + 1, best.head + 1]);
    // A layer without a head means its best head, and a head without a layer its best layer.
    let among = alignment.ranking.iter().find(|found| {
        args.layer.is_none_or(|layer| layer == found.layer + 1) && args.head.is_none_or(|head| head == found.head + 1)
    });
    let default = among.map_or(best, |found| [found.layer + 1, found.head + 1]);
    let place = place(args, [alignment.layers, alignment.heads], default)?;
    let picture = render_alignment(&alignment, Some(place), &terminal_options(lang));
    let heatmap = || alignment.heatmap(place[0], place[1], lang);
    show(args, || alignment_to_html(&alignment, place, lang), heatmap, &alignment.to_json(), &picture)
}

/// Why a text got its class.
fn prediction(args: &Explain, lang: Lang) -> anyhow::Result<ExitCode> {
    let model = TextClassifier::load(&args.model)?;
    let [layer, head] = place_in_classifier(&model, args)?;
    let explanation = model.explain(&args.text, &model_name(&args.model))?;
    let windows = model.predict(&[&args.text])?.first().map_or(1, |prediction| prediction.windows);
    if windows > 1 {
        say!(
            "note: the text is longer than the {} tokens that the model reads at a time. The prediction is the mean of \
             {windows} windows; attention and the effect of words are shown for the words of the first.",
            model.config().model.max_length - 1
        );
    }
    show_explanation(args, &explanation, [layer, head], lang)
}

fn show_explanation(
    args: &Explain,
    explanation: &Explanation,
    [layer, head]: [usize; 2],
    lang: Lang,
) -> anyhow::Result<ExitCode> {
    let picture = render(explanation, layer, head, &terminal_options(lang));
    let heatmap = || explanation.heatmap(layer, head, lang);
    show(args, || to_html(explanation, [layer, head], lang), heatmap, &to_json(explanation), &picture)
}
