//! Explanations of answers: their numbers, and the pages that show them.

use crate::row::RowArgument;
use chumoku::Lang;
use chumoku::explain::{InnerSteps, TaggedText, parse_aligned_tokens, shorten_numbers};
use chumoku::row::AsRow;
use chumoku_view::{Alignment, Explanation, alignment_to_html, from_json, tagged_to_html, to_html, to_json};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::Value;

/// Parses a language name: "en" or "ja".
pub(crate) fn parse_language(name: &str) -> PyResult<Lang> {
    name.parse().map_err(|_| PyValueError::new_err(format!("lang: expected \"en\" or \"ja\", got {name:?}")))
}

/// Options for steps inside the network: `patch`, `align` and `lens` of the estimators.
#[derive(FromPyObject)]
pub(crate) struct InnerStepOptions(Option<RowArgument>, Option<String>, Option<bool>);

/// The checked options, whose values [`InnerSteps`] borrows.
pub(crate) struct CheckedSteps {
    /// The text whose values replace those of the explained one.
    patch: Option<RowArgument>,
    /// The aligned tokens of both texts.
    aligned: Option<Vec<[usize; 2]>>,
    /// False to leave the logit lens out.
    has_lens: bool,
}

impl InnerStepOptions {
    /// Checks the options against a model, which may have no layers that read an answer.
    pub(crate) fn check(self, has_readable_layers: bool) -> PyResult<CheckedSteps> {
        let InnerStepOptions(patch, align, lens) = self;
        let wrong = |problem: String| PyValueError::new_err(problem);
        let requested = [("patch", patch.is_some()), ("lens", lens == Some(true))];
        match requested.into_iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) if !has_readable_layers => {
                return Err(wrong(format!("{name}: only for models with a transformer that give answers")));
            }
            _ => {}
        }
        if align.is_some() && patch.is_none() {
            return Err(wrong("align: only with patch, the other text".to_owned()));
        }
        let aligned =
            align.map(|list| parse_aligned_tokens(&list).map_err(|problem| wrong(format!("align: {problem}"))));
        Ok(CheckedSteps { patch, aligned: aligned.transpose()?, has_lens: lens.unwrap_or(true) })
    }
}

impl CheckedSteps {
    /// Returns the requested steps.
    pub(crate) fn requested(&self) -> InnerSteps<'_> {
        InnerSteps {
            has_lens: self.has_lens,
            patch: self.patch.as_ref().map(AsRow::as_row),
            aligned: self.aligned.as_deref(),
        }
    }
}

enum PageContent {
    Text(Explanation),
    /// An n-gram model, with the effect of each n-gram.
    Ngrams(Explanation, Value),
    Translation(Alignment),
    /// A tagger, with the attention of its network if it has one.
    Spans(Box<TaggedText>, Option<Explanation>),
}

/// The explanation of an answer: the effect of each word, and the attention of every head.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct Page(PageContent);

impl Page {
    pub(crate) fn from_explanation(explanation: Explanation) -> Self {
        Page(PageContent::Text(explanation))
    }

    pub(crate) fn from_ngrams(explanation: Explanation, ngrams: Value) -> Self {
        Page(PageContent::Ngrams(explanation, ngrams))
    }

    pub(crate) fn from_alignment(alignment: Alignment) -> Self {
        Page(PageContent::Translation(alignment))
    }

    pub(crate) fn from_spans(tagged: TaggedText, attention: Option<Explanation>) -> Self {
        Page(PageContent::Spans(Box::new(tagged), attention))
    }
}

#[pymethods]
impl Page {
    /// Reads the output of `json`, except for taggers.
    #[staticmethod]
    fn read(json: &str) -> PyResult<Self> {
        let wrong = |problem: &dyn std::fmt::Display| PyValueError::new_err(problem.to_string());
        let value: Value = serde_json::from_str(json).map_err(|problem| wrong(&problem))?;
        let page = match value.get("source_words") {
            Some(_) => Alignment::from_json(&value).map(Page::from_alignment),
            None => from_json(&value).map(Page::from_explanation),
        };
        page.map_err(|problem| wrong(&problem))
    }

    /// The output of `chumoku explain --json`.
    fn json(&self) -> String {
        match &self.0 {
            PageContent::Text(explanation) => to_json(explanation),
            PageContent::Ngrams(explanation, ngrams) => {
                let mut json = to_json(explanation);
                json["ngrams"] = ngrams.clone();
                json
            }
            PageContent::Translation(alignment) => alignment.to_json(),
            PageContent::Spans(tagged, _) => shorten_numbers(serde_json::to_value(tagged).unwrap_or_default()),
        }
        .to_string()
    }

    /// The HTML page of `chumoku explain --html`, in English ("en") or Japanese ("ja").
    fn html(&self, lang: &str) -> PyResult<String> {
        let lang = parse_language(lang)?;
        let explanation = match &self.0 {
            PageContent::Translation(alignment) => {
                return Ok(alignment_to_html(alignment, alignment.most_important_head(), lang));
            }
            PageContent::Spans(tagged, attention) => {
                let of_network = attention.as_ref().map(|found| (found, [found.layers.saturating_sub(1), 0]));
                return Ok(tagged_to_html(tagged, of_network, lang));
            }
            PageContent::Text(explanation) | PageContent::Ngrams(explanation, _) => explanation,
        };
        if explanation.layers == 0 {
            return Err(PyValueError::new_err("this model has no attention to show on a page"));
        }
        Ok(to_html(explanation, explanation.most_important_head(), lang))
    }
}
