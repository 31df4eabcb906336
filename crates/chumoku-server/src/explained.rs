//! Why a text got its answer: as JSON, and as the page of `chumoku explain --html`.

use crate::model::{Loaded, Model};
use crate::refusal::{Refusal, Result};
use chumoku::explain::{Alignment, Explanation, Method, to_json};
use chumoku::lang::lang;
use chumoku_view::{alignment_to_html, to_html};
use serde_json::Value;

/// What is asked.
#[derive(Debug)]
pub(crate) struct Explain {
    pub(crate) text: String,
    /// For an encoder a text to compare with, for a translator a translation.
    pub(crate) target: Option<String>,
    pub(crate) method: Method,
    /// Whether the page is asked for.
    pub(crate) as_page: bool,
}

/// What is found.
enum Found {
    Explanation(Box<Explanation>),
    /// One that has n-grams beside it in JSON.
    WithNgrams(Box<Explanation>, Value),
    Alignment(Box<Alignment>),
}

fn find(loaded: &Loaded, asked: &Explain) -> Result<Found> {
    let Explain { text, target, method, .. } = asked;
    let (target, name) = (target.as_deref(), loaded.name.as_str());
    let explanation = match &loaded.model {
        Model::Classifier(model) => {
            let mut explanation = model.explain_by(text, name, *method, &mut |_, _| {})?;
            explanation.attribution.curves = Some(model.curves(&explanation)?);
            explanation
        }
        Model::Ngrams(model) => {
            let ngrams = serde_json::to_value(model.ngram_effects(text)?).unwrap_or_default();
            return Ok(Found::WithNgrams(Box::new(model.explain(text, name)?), ngrams));
        }
        Model::Generator(model) => model.explain(text, name)?,
        Model::Embedder(model) => model.explain(text, target, name)?,
        Model::Translator(model) => return Ok(Found::Alignment(Box::new(model.explain(text, target, name)?))),
        Model::Tagger(_) => return Err(Refusal::broken()),
    };
    Ok(Found::Explanation(Box::new(explanation)))
}

/// What `chumoku explain --json` prints.
pub(crate) fn as_json(loaded: &Loaded, asked: &Explain) -> Result<Value> {
    Ok(match find(loaded, asked)? {
        Found::Explanation(explanation) => to_json(&explanation),
        Found::WithNgrams(explanation, ngrams) => {
            let mut found = to_json(&explanation);
            found["ngrams"] = ngrams;
            found
        }
        Found::Alignment(alignment) => alignment.to_json(),
    })
}

/// What `chumoku explain --html` writes.
pub(crate) fn as_page(loaded: &Loaded, asked: &Explain) -> Result<String> {
    Ok(match find(loaded, asked)? {
        Found::Explanation(explanation) | Found::WithNgrams(explanation, _) => {
            // The first head of the last layer, as the command shows it.
            to_html(&explanation, [explanation.layers.saturating_sub(1), 0], lang())
        }
        Found::Alignment(alignment) => {
            let best = alignment.ranking.first().map_or([0, 0], |best| [best.layer, best.head]);
            alignment_to_html(&alignment, best, lang())
        }
    })
}
