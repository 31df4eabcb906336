//! `chumoku trace --beam`: the tree of a beam search.

use super::deliver;
use crate::args::{Format, Pictures, Trace};
use crate::commands::pictures::{Outcome, terminal_options};
use crate::commands::{load, model_name};
use crate::{ExitCode, Usage, output, threads};
use chumoku::explain::shorten;
use chumoku::{ModelKind, TranslateOptions, tr};
use chumoku_view::{Lang, TerminalOptions, beam_figure, figures_to_html};
use std::path::Path;

/// Tokens that a language model writes.
const STEPS: usize = 8;

pub(super) fn run(args: &Trace, beam: usize, (folder, text): (&Path, &str)) -> anyhow::Result<ExitCode> {
    if !matches!(args.format(), Format::Text | Format::Html | Format::Json) {
        let problem = tr!(
            "--format: the tree of a beam search has the forms text, html and json; and --svg",
            "--format: ビームサーチの木の形式は text、html、json です。図は --svg で書き出せます"
        );
        return Err(Usage(problem).into());
    }
    threads::start(None)?;
    let (lang, name) = (chumoku::lang::lang(), model_name(folder));
    let mut options = TranslateOptions::default();
    options.beam = beam;
    let tree = match ModelKind::of(folder)? {
        ModelKind::Translator if args.steps.is_none() => {
            load::translator(folder, args.precision)?.beam_tree(text, &name, &options)?
        }
        ModelKind::LanguageModel => {
            load::generator(folder, args.precision)?.beam_tree(text, &name, &options, args.steps.unwrap_or(STEPS))?
        }
        ModelKind::Translator => {
            let problem = tr!(
                "--steps: for a language model; a translation ends by itself; leave --steps out",
                "--steps: 言語モデルで使います。訳文はひとりでに終わるので、--steps を外してください"
            );
            return Err(Usage(problem).into());
        }
        kind => {
            let problem = tr!(
                "--beam: for a translator or a language model; this model is {}",
                "--beam: 翻訳モデルか言語モデルで使えます。このモデルは{}です",
                kind.describe()
            );
            return Err(Usage(problem).into());
        }
    };
    let figure = beam_figure(&tree, lang);
    let bytes = match args.format() {
        Format::Json => format!("{}\n", shorten(serde_json::to_value(&tree)?)),
        Format::Html => {
            let both = [Lang::En, Lang::Ja].map(|lang| beam_figure(&tree, lang));
            figures_to_html(&figure.title, &[both], lang)
        }
        _ => {
            let options =
                if output::file(&args.out).is_some() { TerminalOptions::default() } else { terminal_options(lang) };
            figure.to_text(&options)
        }
    };
    let mut outcome = Outcome::default();
    let pictures = Pictures { svg: args.svg.clone(), ..Pictures::default() };
    pictures.write(&figure, &mut outcome);
    deliver(&args.out, bytes.as_bytes())?;
    outcome.say();
    outcome.result()?;
    Ok(ExitCode::SUCCESS)
}
