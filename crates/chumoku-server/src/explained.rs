//! Why a text got its answer: as JSON, and as the page of `chumoku explain --html`.

use crate::model::{Loaded, Model};
use crate::refusal::{Refusal, Result};
use chumoku::explain::{Alignment, AskedSpan, Explanation, Method, TaggedText, shorten, to_json};
use chumoku::lang::lang;
use chumoku::{TextTagger, tr};
use chumoku_view::{alignment_to_html, tagged_to_html, to_html};
use serde_json::Value;

/// Effects of words on spans that an answer may have: some 100 MB while they are written.
const MOST_EFFECTS: usize = 100_000;

/// What is asked.
#[derive(Debug)]
pub(crate) struct Explain {
    pub(crate) text: String,
    /// For an encoder a text to compare with, for a translator a translation.
    pub(crate) target: Option<String>,
    /// For a tagger a span, whether it is marked or not.
    pub(crate) span: Option<AskedSpan>,
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
    Tagged(Box<TaggedText>),
}

fn find(loaded: &Loaded, asked: &Explain) -> Result<Found> {
    let Explain { text, target, span, method, .. } = asked;
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
        Model::Tagger(model) => {
            check_size(model, text, span.is_some())?;
            return Ok(Found::Tagged(Box::new(model.explain(text, name, span.as_ref(), &mut |_, _| {})?)));
        }
    };
    Ok(Found::Explanation(Box::new(explanation)))
}

/// Refuses texts whose spans have more effects than fit into an answer: each word has one on each span.
fn check_size(model: &TextTagger, text: &str, is_one: bool) -> Result<()> {
    let words = model.config().unit.cut(text).len();
    if words <= MOST_EFFECTS && is_one || words == 0 {
        return Ok(());
    }
    let spans = if is_one { 1 } else { model.predict(&[text])?.concat().len() };
    if spans * words <= MOST_EFFECTS {
        return Ok(());
    }
    Err(Refusal::too_large(tr!(
        "inputs: expected at most {MOST_EFFECTS} effects of words on spans, found {spans} spans times {words} words; ask for one span, as with \
         \"span\": {{\"start\": 0, \"end\": 4}}, or for a shorter text",
        "inputs: スパンへの語の影響は {MOST_EFFECTS} 個までですが、{spans} スパン × {words} 語あります。\"span\": {{\"start\": 0, \"end\": 4}} のように\
         1 つのスパンを指定するか、短いテキストを送ってください"
    )))
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
        Found::Tagged(tagged) => shorten(serde_json::to_value(&tagged).unwrap_or_default()),
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
        Found::Tagged(tagged) => {
            let attention = match &loaded.model {
                Model::Tagger(model) => model.attention(&asked.text, &loaded.name)?,
                _ => None,
            };
            let attention = attention.as_ref().map(|found| (found, [found.layers.saturating_sub(1), 0]));
            tagged_to_html(&tagged, attention, lang())
        }
    })
}
