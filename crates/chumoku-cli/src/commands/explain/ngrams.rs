//! Implements `chumoku explain` for n-gram models: the effect of each word and of each n-gram. They have no attention.

use super::model::join_second_text;
use super::{attention_flag, figure};
use crate::args::ExplainArgs;
use crate::models::{load, model_name};
use crate::pictures::FigureOutputs;
use crate::report::fit;
use crate::terminal::terminal_options;
use crate::{ExitCode, UsageError};
use chumoku::lang::sanitize;
use chumoku::{ModelKind, NgramEffect, tr};
use chumoku_view::{Lang, render, to_html, to_json};
use std::fmt::Write as _;

/// Number of n-grams to show; `--json` has all.
const MAX_SHOWN: usize = 20;

/// The error for a flag that needs attention.
pub(super) fn no_attention(flag: &str) -> UsageError {
    UsageError(tr!(
        "{flag}: this is an n-gram model and has no attention to show; the effects of words and n-grams are shown \
             without {flag}, by --view effects and by --json",
        "{flag}: n-gram モデルには表示できるアテンションがありません。単語と n-gram の効果は、{flag} なしの表示、--view effects、--json に\
             あります"
    ))
}

pub(super) fn run(args: &ExplainArgs, text: &str, lang: Lang) -> anyhow::Result<ExitCode> {
    if let Some(flag) = attention_flag(args) {
        return Err(no_attention(flag).into());
    }
    let model = load::ngrams(&args.model, args.precision)?;
    let text = join_second_text(text, args.target.as_deref(), model.config().reads_pairs(), ModelKind::Ngrams)?;
    let text = super::with_set_columns(text, model.columns(), args)?;
    let label = args.of_label.as_deref();
    let explanation = model.explain_label(&text, &model_name(&args.model), label)?;
    let effects = model.ngram_effects_on_label(&text, label)?;
    let mut json = to_json(&explanation);
    json["ngrams"] = serde_json::to_value(&effects)?;
    let picture = figure(args, &explanation, [0, 0], lang)?;
    let text = match args.view {
        Some(_) => picture.to_text(&terminal_options(lang)),
        None => render(&explanation, 0, 0, &terminal_options(lang)) + &table(&explanation.label, &effects),
    };
    let shown = FigureOutputs { html: args.html.as_ref(), json: args.json.as_ref(), text: Some(text) };
    shown.write_all(&args.pictures, &picture, || Ok(to_html(&explanation, [0, 0], lang)), || json.clone())
}

/// Formats the strongest n-grams, one per line.
fn table(label: &str, effects: &[NgramEffect]) -> String {
    let label = sanitize(label);
    let mut out = tr!(
        "\nN-grams, strongest first (+ supports “{label}”, - opposes it)\n",
        "\nn-gram（効果の大きい順。+ は「{label}」に有利、- は不利）\n"
    );
    if effects.is_empty() {
        out += &tr!(
            "  The model knows none of the n-grams; it predicts the class frequencies of its training rows.\n",
            "  モデルが知っている n-gram はありません。予測は学習データでのクラスの割合です\n"
        );
    }
    for effect in effects.iter().take(MAX_SHOWN) {
        let _ = writeln!(out, "  {:+8.3}  {}", effect.effect, fit(&effect.ngram, 60).trim_end());
    }
    if let Some(more) = effects.len().checked_sub(MAX_SHOWN).filter(|&more| more > 0) {
        out += &tr!("  and {more} more (--json has all)\n", "  ほか {more} 個（すべては --json に）\n");
    }
    out
}
