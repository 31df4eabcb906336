//! Attention in numbers: traces, checks of worked examples, counts.

use crate::explanations::parse_language;
use crate::messages::to_py_err;
use crate::models::{TraceTarget, trace_model};
use crate::outputs::ReadPath;
use crate::pool;
use crate::row::RowArgument;
use chumoku::count::{CountConfig, NetworkKind};
use chumoku::explain::HeadSelection;
use chumoku::nn::NormOrder;
use chumoku::row::AsRow;
use chumoku::{Error, ModelSize};
use chumoku_trace::{CheckReport, TraceDetail, TraceOptions, WorkedExample};
use chumoku_view::CountReport;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Loads a worked example: a built-in one by name, a file, or JSON text in the format of a file.
fn load_example(source: &str, value: &str) -> PyResult<(String, WorkedExample)> {
    let found = match source {
        "name" => chumoku_trace::builtin(value).map(|example| (value.to_owned(), example)),
        "file" => WorkedExample::open(&ReadPath::new(value.into())).map(|example| (value.to_owned(), example)),
        _ => WorkedExample::parse(value).map(|example| ("the example".to_owned(), example)).map_err(Error::Setting),
    };
    found.map_err(|failed| to_py_err(&failed))
}

/// The names of the built-in worked examples.
#[pyfunction]
pub(crate) fn example_names() -> Vec<&'static str> {
    chumoku_trace::builtin_names().collect()
}

/// A step-by-step trace of attention.
#[pyclass(frozen, module = "chumoku._chumoku")]
pub(crate) struct Trace(chumoku_trace::Trace);

#[pymethods]
impl Trace {
    /// Traces a worked example. `name` replaces a missing title, and `head` counts from 1. `backward` adds the
    /// gradients of the example's loss.
    #[staticmethod]
    fn of_example(source: &str, given: &str, head: usize, backward: bool, name: Option<String>) -> PyResult<Self> {
        let (own, example) = load_example(source, given)?;
        let name = name.unwrap_or(own);
        let head = head.checked_sub(1).ok_or_else(|| PyValueError::new_err("head: expected at least 1, got 0"))?;
        let traced = if backward { example.trace_backward(head) } else { example.trace(head) };
        let mut trace = traced.map_err(|problem| PyValueError::new_err(format!("{name}: {problem}")))?;
        if trace.title.is_empty() {
            trace.title = name.into();
        }
        Ok(Trace(trace))
    }

    /// Traces the model in a folder on one text. `layer` and `head` count from 1. `backward` adds the gradients of the
    /// model's loss.
    #[staticmethod]
    #[allow(clippy::too_many_arguments)]
    fn of_model(
        py: Python<'_>,
        folder: ReadPath,
        text: RowArgument,
        target: Option<String>,
        part: String,
        layer: Option<usize>,
        head: usize,
        backward: bool,
    ) -> PyResult<Self> {
        let from_zero = |what: &str, place: usize| {
            place.checked_sub(1).ok_or_else(|| PyValueError::new_err(format!("{what}: expected at least 1, got 0")))
        };
        let layer = layer.map(|layer| from_zero("layer", layer)).transpose()?;
        let place = HeadSelection { layer, head: from_zero("head", head)? };
        let traced = TraceTarget { part, position: place, backward };
        let found = pool::run_long(py, || trace_model(&folder, text.as_row(), target.as_deref(), &traced))?;
        found.map(Trace).map_err(|failed| to_py_err(&failed))
    }

    /// Returns every number of every step, in the format of `chumoku trace --format json`.
    fn json(&self, lang: &str) -> PyResult<String> {
        Ok(self.0.to_json(parse_language(lang)?).to_string())
    }

    /// Renders the trace in a format: "text", "md", "html", "latex", "json" or "xlsx".
    fn bytes<'py>(
        &self,
        py: Python<'py>,
        format: &str,
        lang: &str,
        depth: &str,
        digits: usize,
        size: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut options = TraceOptions::default();
        options.lang = parse_language(lang)?;
        options.depth = match depth {
            "shapes" => TraceDetail::Shapes,
            "steps" => TraceDetail::Steps,
            "all" => TraceDetail::All,
            other => {
                let problem = format!("depth: expected one of shapes, steps, all, got {other:?}");
                return Err(PyValueError::new_err(problem));
            }
        };
        (options.digits, options.size) = (digits, size);
        let bytes = match format {
            "text" => self.0.to_text(&options).into_bytes(),
            "md" => self.0.to_markdown(&options).into_bytes(),
            "html" => self.0.to_html(&options).into_bytes(),
            "latex" => self.0.to_latex(&options).into_bytes(),
            "json" => format!("{}\n", self.0.to_json(options.lang)).into_bytes(),
            "xlsx" => self.0.to_xlsx(&options).map_err(|failed| to_py_err(&failed))?,
            other => {
                let problem = format!("format: expected one of text, md, html, latex, json, xlsx, got {other:?}");
                return Err(PyValueError::new_err(problem));
            }
        };
        Ok(PyBytes::new(py, &bytes))
    }
}

/// Checks the numbers of a worked example. Returns the JSON of `chumoku check --json` and a text report.
#[pyfunction]
pub(crate) fn check(source: &str, given: &str) -> PyResult<(String, String)> {
    let (name, example) = load_example(source, given)?;
    let wrong = |problem: String| PyValueError::new_err(format!("{name}: {problem}"));
    let checked: CheckReport = example.check().map_err(wrong)?;
    let steps = serde_json::to_value(&checked.steps).map_err(|problem| wrong(problem.to_string()))?;
    let json = serde_json::json!({ "file": name, "ok": checked.ok, "steps": steps });
    Ok((json.to_string(), checked.to_text(&name, &example)))
}

/// The parameters of `count`; None stands for the default.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct CountParams {
    network: String,
    model: Option<ReadPath>,
    batch: Option<usize>,
    length: Option<usize>,
    target_length: Option<usize>,
    keys: Option<usize>,
    width: Option<usize>,
    heads: Option<usize>,
    key_heads: Option<usize>,
    head_width: Option<usize>,
    feed_forward: Option<usize>,
    layers: Option<usize>,
    decoder_layers: Option<usize>,
    vocabulary: Option<usize>,
    target_vocabulary: Option<usize>,
    classes: Option<usize>,
    hidden: Option<usize>,
    bidirectional: bool,
    untied: bool,
    pre_norm: bool,
    bias: bool,
}

impl CountParams {
    fn count_config(&self) -> PyResult<CountConfig> {
        let network = NetworkKind::from_name(&self.network).ok_or_else(|| {
            let known = "attention, additive-attention, transformer, decoder, encoder-decoder, rnn, lstm, gru";
            PyValueError::new_err(format!("network: expected one of {known}, got {:?}", self.network))
        })?;
        let defaults = CountConfig::default();
        let d_model = self.width.unwrap_or(defaults.d_model);
        let layers = if matches!(network, NetworkKind::Attention | NetworkKind::AdditiveAttention) {
            1
        } else {
            defaults.num_layers
        };
        Ok(CountConfig {
            network,
            batch: self.batch.unwrap_or(defaults.batch),
            length: self.length.unwrap_or(defaults.length),
            keys: self.keys,
            target_length: self.target_length,
            d_model,
            num_heads: self.heads.unwrap_or(defaults.num_heads),
            num_key_heads: self.key_heads,
            head_dim: self.head_width,
            d_ff: self.feed_forward.unwrap_or_else(|| d_model.saturating_mul(4)),
            num_layers: self.layers.unwrap_or(layers),
            num_decoder_layers: self.decoder_layers,
            vocab_size: self.vocabulary.unwrap_or(0),
            target_vocab_size: self.target_vocabulary,
            num_classes: self.classes.unwrap_or(0),
            untied: self.untied,
            bias: self.bias,
            norm_order: if self.pre_norm { NormOrder::Pre } else { NormOrder::Post },
            hidden_size: self.hidden,
            bidirectional: self.bidirectional,
            ..defaults
        })
    }
}

/// Computes the cost of a network. Returns the JSON of `chumoku count --json` and text tables.
#[pyfunction]
pub(crate) fn count(sizes: CountParams) -> PyResult<(String, String)> {
    let (config, model) = match &sizes.model {
        Some(folder) => {
            let model = ModelSize::read(folder).map_err(|failed| to_py_err(&failed))?;
            let name = folder.file_name().map_or_else(|| "model".into(), |name| name.to_string_lossy().into_owned());
            let config = CountConfig {
                batch: sizes.batch.unwrap_or(model.config.batch),
                length: sizes.length.unwrap_or(model.config.length),
                target_length: sizes.target_length,
                ..model.config
            };
            (config, Some((name, model)))
        }
        None => (sizes.count_config()?, None),
    };
    let report = CountReport::new(config, model).map_err(|failed| to_py_err(&failed))?;
    Ok((report.to_json(), report.to_text()))
}
