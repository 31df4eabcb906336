//! Why a text got its answer: as JSON, and as the page of `chumoku explain --html`.

use crate::limits::Limits;
use crate::model::{Loaded, Model};
use crate::refusal::{Refusal, Result};
use crate::written::Written;
use chumoku::explain::{Alignment, AskedSpan, Explanation, Method, TaggedText, shorten, to_json};
use chumoku::lang::lang;
use chumoku::{NnError, TextTagger, tr};
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
    /// The label, where a text may have several.
    pub(crate) label: Option<String>,
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
    let Explain { text, target, span, method, label, .. } = asked;
    let (target, label, name) = (target.as_deref(), label.as_deref(), loaded.name.as_str());
    let explanation = match &loaded.model {
        Model::Classifier(model) => {
            let mut explanation = model.explain_label(text, name, (*method, label), &mut |_, _| {})?;
            explanation.attribution.curves = Some(model.curves(&explanation)?);
            explanation
        }
        Model::Ngrams(model) => {
            let ngrams = serde_json::to_value(model.ngram_effects_on(text, label)?).unwrap_or_default();
            return Ok(Found::WithNgrams(Box::new(model.explain_label(text, name, label)?), ngrams));
        }
        Model::Generator(model) => model.explain(text, name)?,
        Model::Embedder(model) => model.explain(text, target, name)?,
        Model::Translator(model) => {
            let found = model.explain(text, target, name).map_err(of_target)?;
            return Ok(Found::Alignment(Box::new(found)));
        }
        Model::Tagger(model) => {
            check_size(model, text, span.is_some())?;
            return Ok(Found::Tagged(Box::new(model.explain(text, name, span.as_ref(), &mut |_, _| {})?)));
        }
    };
    Ok(Found::Explanation(Box::new(explanation)))
}

/// Maps an error of a translator: only the given translation can be too long.
fn of_target(error: chumoku::Error) -> Refusal {
    match error {
        chumoku::Error::Nn(NnError::TooLong { .. }) => Refusal::too_large(format!("target: {error}")),
        error => error.into(),
    }
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

/// Writes the object of `chumoku explain --json`, or the page of `--html`.
///
/// # Errors
/// If it costs more than it may, or the model cannot explain it.
pub(crate) fn answer(loaded: &Loaded, asked: &Explain, limits: &Limits) -> Result<Written> {
    check_cost(loaded, asked, limits)?;
    match asked.as_page {
        false => Written::json(&as_json(loaded, asked)?, limits.answer),
        true => Written::page(&as_page(loaded, asked)?, limits.answer),
    }
}

/// Refuses an explanation that needs more computing than one may, or would be larger than an answer may be.
fn check_cost(loaded: &Loaded, asked: &Explain, limits: &Limits) -> Result<()> {
    /// Bytes of a number in JSON, about.
    const NUMBER: u128 = 8;
    let (text, target) = (&asked.text, asked.target.as_deref());
    let cost = match &loaded.model {
        Model::Classifier(model) => model.explain_cost(text, asked.method)?,
        Model::Ngrams(model) => model.explain_cost(text),
        Model::Generator(model) => model.explain_cost(text)?,
        Model::Embedder(model) => model.explain_cost(text)?,
        Model::Translator(model) => model.explain_cost(text, target)?,
        Model::Tagger(model) => model.explain_cost(text)?,
    };
    let (needed, most) = (cost.multiply_adds.div_ceil(1_000_000_000), limits.explain);
    if needed > u128::from(most) {
        return Err(Refusal::too_large(tr!(
            "inputs: expected an explanation that needs at most {most} billion multiply-adds (--max-explain), found one of {needed} billion; \
             send a shorter text",
            "inputs: 説明に使える積和演算は {most} × 10 億回（--max-explain）までですが、{needed} × 10 億回かかります。短いテキストを送って\
             ください"
        )));
    }
    let (numbers, most) = (cost.numbers, limits.answer);
    if numbers * NUMBER > most as u128 {
        return Err(Refusal::too_large(tr!(
            "inputs: an explanation with {numbers} numbers has more than {most} bytes (--max-answer); send a shorter text",
            "inputs: 数値が {numbers} 個ある説明は {most} バイト（--max-answer）を超えます。短いテキストを送ってください"
        )));
    }
    Ok(())
}

/// What `chumoku explain --json` prints.
fn as_json(loaded: &Loaded, asked: &Explain) -> Result<Value> {
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
fn as_page(loaded: &Loaded, asked: &Explain) -> Result<String> {
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
