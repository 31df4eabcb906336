//! Explanations as JSON, and as the page of `chumoku explain --html`.

use crate::answer_body::AnswerBody;
use crate::limits::Limits;
use crate::model::{LoadedModel, ServerModel};
use crate::request_error::{RequestError, Result};
use chumoku::explain::{
    Alignment, AttributionMethod, ExplainCost, Explanation, InnerSteps, SpanQuery, TaggedText, shorten_numbers, to_json,
};
use chumoku::lang::lang;
use chumoku::row::{AsRow, Row};
use chumoku::{NnError, TextTagger, tr};
use chumoku_view::{alignment_to_html, tagged_to_html, to_html};
use serde_json::Value;

/// Maximum number of effects of words on spans in an answer: some 100 MB while they are written.
const MAX_EFFECTS: usize = 100_000;

/// A request for an explanation.
#[derive(Debug)]
pub(crate) struct ExplainRequest {
    pub(crate) row: Row,
    /// Text to compare with (encoder), or translation (translator).
    pub(crate) target: Option<String>,
    /// Span to explain (tagger), marked or not.
    pub(crate) span: Option<SpanQuery>,
    pub(crate) method: AttributionMethod,
    /// Label to explain (multi-label models).
    pub(crate) label: Option<String>,
    /// Row whose values replace those of `row` inside the network.
    pub(crate) patch: Option<Row>,
    /// The aligned tokens of `row` and `patch`.
    pub(crate) aligned: Option<Vec<[usize; 2]>>,
    /// False to leave the logit lens out.
    pub(crate) has_lens: bool,
    /// True if the HTML page was requested.
    pub(crate) as_page: bool,
}

/// An explanation.
enum ExplanationResult {
    Explanation(Box<Explanation>),
    /// An explanation with the effects of n-grams for the JSON.
    WithNgrams(Box<Explanation>, Value),
    Alignment(Box<Alignment>),
    Tagged(Box<TaggedText>),
}

fn explain(loaded: &LoadedModel, request: &ExplainRequest) -> Result<ExplanationResult> {
    let ExplainRequest { row, target, span, method, label, .. } = request;
    let text = row.as_row().text();
    let (target, label, name) = (target.as_deref(), label.as_deref(), loaded.name.as_str());
    let (patch, aligned) = (request.patch.as_ref().map(AsRow::as_row), request.aligned.as_deref());
    let steps = InnerSteps { has_lens: request.has_lens, patch, aligned };
    let explanation = match &loaded.model {
        ServerModel::Classifier(model) => {
            let mut explanation = model.explain_label(row, name, (*method, label), &steps, &mut |_, _| {})?;
            explanation.attribution.curves = Some(model.curves(&explanation)?);
            explanation
        }
        ServerModel::Ngrams(model) => {
            let ngrams = serde_json::to_value(model.ngram_effects_on_label(row, label)?).unwrap_or_default();
            return Ok(ExplanationResult::WithNgrams(Box::new(model.explain_label(row, name, label)?), ngrams));
        }
        ServerModel::Generator(model) => model.explain_with_steps(text, name, &steps)?,
        ServerModel::Embedder(model) => model.explain(text, target, name)?,
        ServerModel::Translator(model) => {
            let found = model.explain_with_steps(text, target, name, &steps).map_err(target_error)?;
            return Ok(ExplanationResult::Alignment(Box::new(found)));
        }
        ServerModel::Tagger(model) => {
            check_size(model, text, span.is_some())?;
            let found = model.explain_with_steps(text, name, span.as_ref(), &steps, &mut |_, _| {})?;
            return Ok(ExplanationResult::Tagged(Box::new(found)));
        }
        ServerModel::Autoencoder(_) => return Err(no_explanation(name)),
    };
    Ok(ExplanationResult::Explanation(Box::new(explanation)))
}

/// The error for an autoencoder.
fn no_explanation(name: &str) -> RequestError {
    RequestError::wrong_model(tr!(
        "{name}: the decoder of an autoencoder sees one vector, so there is nothing to explain; use /reconstruct for its \
         texts or /embed for their codes",
        "{name}: オートエンコーダーのデコーダーが見るのは 1 つのベクトルだけなので、説明できるものがありません。復元したテキストは \
         /reconstruct、コードは /embed で得られます"
    ))
}

/// Maps an error of a translator: only the given translation can be too long.
fn target_error(error: chumoku::Error) -> RequestError {
    match error {
        chumoku::Error::Nn(NnError::TooLong { .. }) => RequestError::too_large(format!("target: {error}")),
        error => error.into(),
    }
}

/// Refuses texts with more effects than fit into an answer: each word has an effect on each span.
fn check_size(model: &TextTagger, text: &str, is_one: bool) -> Result<()> {
    let words = model.config().unit.split(text).len();
    if words <= MAX_EFFECTS && is_one || words == 0 {
        return Ok(());
    }
    let spans = if is_one { 1 } else { model.predict(&[text])?.concat().len() };
    if spans * words <= MAX_EFFECTS {
        return Ok(());
    }
    Err(RequestError::too_large(tr!(
        "inputs: expected at most {MAX_EFFECTS} effects of words on spans, found {spans} spans times {words} words; request one span, such as \
         \"span\": {{\"start\": 0, \"end\": 4}}, or send a shorter text",
        "inputs: スパンへの語の影響は {MAX_EFFECTS} 個までですが、{spans} スパン × {words} 語あります。\"span\": {{\"start\": 0, \"end\": 4}} のように\
         1 つのスパンを指定するか、短いテキストを送ってください"
    )))
}

/// Writes the object of `chumoku explain --json`, or the page of `--html`.
///
/// # Errors
/// If the explanation costs too much, or the model cannot explain the text.
pub(crate) fn write_answer(loaded: &LoadedModel, request: &ExplainRequest, limits: &Limits) -> Result<AnswerBody> {
    check_cost(loaded, request, limits)?;
    match request.as_page {
        false => AnswerBody::json(&as_json(loaded, request)?, limits.answer),
        true => AnswerBody::page(&as_page(loaded, request)?, limits.answer),
    }
}

/// Refuses an explanation above the limits of cost or answer size.
fn check_cost(loaded: &LoadedModel, request: &ExplainRequest, limits: &Limits) -> Result<()> {
    /// Approximate bytes of a number in JSON.
    const NUMBER: u128 = 8;
    let (row, target, aligned) = (&request.row, request.target.as_deref(), request.aligned.as_deref());
    let text = row.as_row().text();
    let mut cost = match &loaded.model {
        ServerModel::Classifier(model) => model.explain_cost(row, request.method)?,
        ServerModel::Ngrams(model) => model.explain_cost(row),
        ServerModel::Generator(model) => model.explain_cost(text)?,
        ServerModel::Embedder(model) => model.explain_cost(text)?,
        ServerModel::Translator(model) => model.explain_cost(text, target)?,
        ServerModel::Tagger(model) => model.explain_cost(text)?,
        ServerModel::Autoencoder(_) => return Err(no_explanation(&loaded.name)),
    };
    if let Some(patch) = &request.patch {
        let other = patch.as_row().text();
        cost += match &loaded.model {
            ServerModel::Classifier(model) => model.patch_cost(row, patch, aligned)?,
            ServerModel::Generator(model) => model.patch_cost(text, other, aligned)?,
            ServerModel::Translator(model) => model.patch_cost(text, other, target, aligned)?,
            ServerModel::Tagger(model) => model.patch_cost(text, other, aligned)?,
            ServerModel::Ngrams(_) | ServerModel::Embedder(_) | ServerModel::Autoencoder(_) => ExplainCost::default(),
        };
    }
    let (needed, most) = (cost.multiply_adds.div_ceil(1_000_000_000), limits.explain);
    if needed > u128::from(most) {
        return Err(RequestError::too_large(tr!(
            "inputs: the explanation needs {needed} billion multiply-adds, expected at most {most} billion (--max-explain); \
             send a shorter text",
            "inputs: 説明に使える積和演算は {most} × 10 億回（--max-explain）までですが、{needed} × 10 億回かかります。短いテキストを送って\
             ください"
        )));
    }
    let (numbers, most) = (cost.numbers, limits.answer);
    if numbers * NUMBER > most as u128 {
        return Err(RequestError::too_large(tr!(
            "inputs: the explanation has {numbers} numbers and exceeds {most} bytes (--max-answer); send a shorter text",
            "inputs: 数値が {numbers} 個ある説明は {most} バイト（--max-answer）を超えます。短いテキストを送ってください"
        )));
    }
    Ok(())
}

/// Returns the JSON of `chumoku explain --json`.
fn as_json(loaded: &LoadedModel, request: &ExplainRequest) -> Result<Value> {
    Ok(match explain(loaded, request)? {
        ExplanationResult::Explanation(explanation) => to_json(&explanation),
        ExplanationResult::WithNgrams(explanation, ngrams) => {
            let mut found = to_json(&explanation);
            found["ngrams"] = ngrams;
            found
        }
        ExplanationResult::Alignment(alignment) => alignment.to_json(),
        ExplanationResult::Tagged(tagged) => shorten_numbers(serde_json::to_value(&tagged).unwrap_or_default()),
    })
}

/// Returns the page of `chumoku explain --html`.
fn as_page(loaded: &LoadedModel, request: &ExplainRequest) -> Result<String> {
    Ok(match explain(loaded, request)? {
        ExplanationResult::Explanation(explanation) | ExplanationResult::WithNgrams(explanation, _) => {
            to_html(&explanation, explanation.most_important_head(), lang())
        }
        ExplanationResult::Alignment(alignment) => {
            alignment_to_html(&alignment, alignment.most_important_head(), lang())
        }
        ExplanationResult::Tagged(tagged) => {
            let attention = match &loaded.model {
                ServerModel::Tagger(model) => model.attention(request.row.as_row().text(), &loaded.name)?,
                _ => None,
            };
            let attention = attention.as_ref().map(|found| (found, [found.layers.saturating_sub(1), 0]));
            tagged_to_html(&tagged, attention, lang())
        }
    })
}
