//! The model cards of translators and language models: what a stranger needs to know before using them.

use super::{LanguageScores, State, TranslationScores};
use crate::data::wording::thousands;
use crate::data::{DocumentParts, PairParts};
use crate::text::Unit;
use crate::text_generator::TextGenerator;
use crate::text_translator::TextTranslator;
use std::fmt::Write;

/// What there is to say of a run beside its model and its data.
pub(super) struct Facts<'a> {
    pub(super) state: &'a State,
    pub(super) interrupted: bool,
    pub(super) seed: u64,
    /// The part that the scores are on: `test`, `valid` or `train`.
    pub(super) scored_on: &'a str,
    pub(super) data_sha256: &'a str,
    pub(super) tokens: Unit,
}

impl Facts<'_> {
    fn heading(&self, title: &str) -> String {
        let mut card = format!("# {title}\n\n");
        if self.interrupted {
            let epochs = self.state.epoch;
            let _ = writeln!(card, "**Training was interrupted after {epochs} epochs.** `--resume` continues it.\n");
        }
        card
    }

    fn part(&self, things: &str) -> String {
        match self.scored_on {
            "test" => format!("test {things}, which training never saw"),
            "valid" => format!("validation {things}, which training was chosen by: an optimistic figure"),
            _ => format!("training {things}, for want of others: this says nothing about new texts"),
        }
    }
}

pub(super) fn translator(
    model: &TextTranslator,
    data: &PairParts,
    scores: &TranslationScores,
    run: &Facts<'_>,
) -> String {
    let config = &model.config().model;
    let [source, target] = &model.config().names;
    let mut card = run.heading(&format!("Translator: {source} to {target}"));
    let (layers, more) = (config.encoder.num_layers, config.num_decoder_layers);
    let _ = writeln!(
        card,
        "A transformer encoder–decoder ({layers} + {more} layers, width {}, {} heads, {} parameters; its tokens are {}) \
         trained from scratch with Chumoku {}. It turns texts of the kind “{source}” into “{target}”.\n",
        config.encoder.d_model,
        config.encoder.num_heads,
        thousands(model.num_parameters()),
        run.tokens.noun(),
        env!("CARGO_PKG_VERSION")
    );
    let _ = writeln!(card, "## Scores\n\nOn {} {}, with a beam of 5:\n", thousands(scores.pairs), run.part("pairs"));
    let _ = writeln!(card, "| | | signature |\n|---|---|---|");
    let _ = writeln!(card, "| BLEU | {:.1} | `{}` |", scores.bleu, scores.bleu_signature);
    let _ = writeln!(card, "| chrF2 | {:.1} | `{}` |", scores.chrf, scores.chrf_signature);
    let _ = writeln!(card, "| the reference itself | {:.1} % | |\n", 100.0 * scores.exact);
    let [train, valid, test] = [&data.train, &data.valid, &data.test].map(|part| thousands(part.len()));
    let _ = writeln!(
        card,
        "## Data\n\n{train} pairs to train on, {valid} to validate, {test} to test. SHA-256 of the tokens: `{}`. Seed {}.\n",
        run.data_sha256, run.seed
    );
    for note in &data.notes {
        let _ = writeln!(card, "- {note}");
    }
    let _ = writeln!(
        card,
        "\n## Limits\n\nThe model knows nothing but its training pairs. Texts unlike them, in another language, style or \
         subject, get translations that mean little, and it does not say so. Of a text of more than {} tokens the end is \
         left out, which is counted and said. Attention shows where the model looks, not why it decides.\n\n## \
         Use\n\n```\nchumoku translate THIS_FOLDER \"some text\"\nchumoku explain THIS_FOLDER \"some text\"\nchumoku eval \
         THIS_FOLDER pairs.tsv\n```",
        config.max_length - 1
    );
    card
}

pub(super) fn language_model(
    model: &TextGenerator,
    data: &DocumentParts,
    scores: &LanguageScores,
    run: &Facts<'_>,
) -> String {
    let config = &model.config().model;
    let mut card = run.heading("Language model");
    let _ = writeln!(
        card,
        "A causal transformer ({} layers, width {}, {} heads, {} parameters, context {} tokens; its tokens are {}) trained \
         from scratch with Chumoku {}. It continues texts.\n",
        config.encoder.num_layers,
        config.encoder.d_model,
        config.encoder.num_heads,
        thousands(model.num_parameters()),
        config.max_length,
        run.tokens.noun(),
        env!("CARGO_PKG_VERSION")
    );
    let part = match run.scored_on {
        "test" => "test text, which training never saw",
        "valid" => "validation text, which training was chosen by: slightly optimistic figures",
        _ => "training text, for want of other: this says nothing about new texts",
    };
    let _ = writeln!(card, "## Scores\n\nOn {} tokens of {part}:\n", thousands(scores.tokens));
    let _ = writeln!(card, "| | |\n|---|---|\n| loss | {:.4} nats a token |", scores.loss);
    for (name, value) in scores.perplexities() {
        let _ = writeln!(card, "| perplexity per {name} | {value:.3} |");
    }
    let _ = writeln!(
        card,
        "\nText is read in windows of the context, which lie side by side: the first tokens of a window are foretold from \
         little. Perplexities per {} and per byte compare with those of models with other tokens.\n\n## Data\n\n{} SHA-256 \
         of the tokens: `{}`. Seed {}.\n",
        scores.perplexities()[1].0,
        data.description,
        run.data_sha256,
        run.seed
    );
    let _ = writeln!(
        card,
        "## Limits\n\nThe model writes what is likely after its training text, true or not, and may repeat parts of that \
         text word for word.\n\n## Use\n\n```\nchumoku generate THIS_FOLDER \"some text\"\nchumoku eval THIS_FOLDER \
         text.txt\n```"
    );
    card
}
