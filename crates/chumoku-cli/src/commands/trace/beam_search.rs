//! Implements `chumoku trace --beam`: the tree of a beam search.

use super::write_figure;
use crate::args::{TraceArgs, TraceFormat};
use crate::models::{load, model_name};
use crate::{ExitCode, threads};
use chumoku::explain::shorten_numbers;
use chumoku::{ModelKind, TranslateOptions};
use chumoku_view::beam_figure;
use std::path::Path;

/// Default number of tokens that a language model generates.
const DEFAULT_STEPS: usize = 8;

pub(super) fn run(args: &TraceArgs, beam: usize, (folder, text): (&Path, &str)) -> anyhow::Result<ExitCode> {
    refuse_if!(
        !matches!(args.format(), TraceFormat::Text | TraceFormat::Html | TraceFormat::Json),
        "--format: expected text, html or json for the tree of a beam search; --svg also draws it",
        "--format: ビームサーチの木の形式は text、html、json です。図は --svg で書き出せます"
    );
    threads::start_pool(None)?;
    let name = model_name(folder);
    let mut options = TranslateOptions::default();
    options.beam = beam;
    let tree = match ModelKind::from_folder(folder)? {
        ModelKind::Translator if args.steps.is_none() => {
            load::translator(folder, args.precision)?.beam_tree(text, &name, &options)?
        }
        ModelKind::LanguageModel => load::generator(folder, args.precision)?.beam_tree(
            text,
            &name,
            &options,
            args.steps.unwrap_or(DEFAULT_STEPS),
        )?,
        ModelKind::Translator => {
            refuse!(
                "--steps: only for language models, because translations end by themselves; leave --steps out",
                "--steps: 言語モデルだけで使えます。翻訳は自動的に終わるので、--steps を外してください"
            );
        }
        kind => {
            refuse!(
                "--beam: only for translators and language models; this model is {}",
                "--beam: 翻訳モデルか言語モデルで使えます。このモデルは{}です",
                kind.describe()
            );
        }
    };
    let json = || anyhow::Ok(shorten_numbers(serde_json::to_value(&tree)?));
    write_figure(args, |lang| beam_figure(&tree, lang), json)
}
