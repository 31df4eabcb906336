//! Worked examples from files: inputs and claims.

use crate::examples::caption::Caption;
use crate::examples::matrices::{ClaimedMatrices, orient_list, read_numbers, require_complete};
use crate::examples::object::JsonObject;
use crate::examples::optimizer::AdamWSettings;
use crate::examples::options::ExampleOptions;
use crate::examples::size_claims::{SizeClaim, size_claims};
use crate::program::quantity::Quantity;
use crate::program::step_kind::StepKind;
use chumoku::{Error, Result, tr};
use ndarray::Array2;
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

/// A worked example of attention: matrices, and claims about what follows from them.
///
/// `docs/worked-examples.md` describes the file format.
#[derive(Clone, Debug, Default)]
pub struct WorkedExample {
    /// Title.
    pub title: Caption,
    /// The publication that the example comes from.
    pub source: Caption,
    /// The words of the queries.
    pub tokens: Vec<String>,
    /// The words of the keys; by default those of the queries.
    pub(crate) key_tokens: Vec<String>,
    /// The names of the classes of a classifier.
    pub(crate) classes: Vec<String>,
    pub(crate) inputs: HashMap<Quantity, Vec<Array2<f64>>>,
    pub(crate) options: ExampleOptions,
    /// Kind, quantity and numbers of each claim, in the order of a trace.
    pub(crate) claims: Vec<(StepKind, Quantity, ClaimedMatrices)>,
    /// The settings of the optimizer step, if there is one.
    pub(crate) optimizer: Option<AdamWSettings>,
    /// The claims of an example about sizes.
    pub(crate) size_claims: Vec<SizeClaim>,
}

const KEYS: [&str; 13] = [
    "title",
    "title_ja",
    "source",
    "source_ja",
    "tokens",
    "key_tokens",
    "classes",
    "inputs",
    "options",
    "optimizer",
    "claims",
    "count",
    "positions",
];

impl WorkedExample {
    /// Reads a file, or standard input for the path `-`.
    ///
    /// # Errors
    /// If the file cannot be read or is not a worked example; the error names the place, the expectation and the
    /// finding.
    pub fn open(path: &Path) -> Result<WorkedExample> {
        let bytes = match path.as_os_str() == "-" {
            true => {
                let mut bytes = Vec::new();
                std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
            }
            false => {
                chumoku::data::check_path(path)?;
                std::fs::read(path)
            }
        };
        let bytes = bytes.map_err(Error::io("reading", path))?;
        let fault = |problem: String| Error::Example { action: "reading", file: path.display().to_string(), problem };
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            fault(tr!(
                "expected UTF-8, found another byte at offset {}; save the file as UTF-8",
                "UTF-8 ではありません（オフセット {}）。ファイルを UTF-8 で保存してください",
                error.valid_up_to()
            ))
        })?;
        WorkedExample::parse(text.trim_start_matches('\u{feff}')).map_err(fault)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// If the text is not a worked example; the error says why.
    pub fn parse(text: &str) -> Result<WorkedExample, String> {
        let file = JsonObject::read(text, "", &KEYS)?;
        let names: Vec<&str> = Quantity::all().map(Quantity::name).collect();
        let (text_kind, texts) = (["a text", "文字列"], ["a list of texts", "文字列の配列"]);
        let caption = |key: &str, japanese: &str| -> Result<Caption, String> {
            let text: Option<String> = file.value(key, "", text_kind)?;
            let japanese: Option<String> = file.value(japanese, "", text_kind)?;
            Ok(Caption { text: text.or_else(|| japanese.clone()).unwrap_or_default(), japanese })
        };
        let mut example = WorkedExample {
            title: caption("title", "title_ja")?,
            source: caption("source", "source_ja")?,
            tokens: file.value("tokens", "", texts)?.unwrap_or_default(),
            key_tokens: file.value("key_tokens", "", texts)?.unwrap_or_default(),
            classes: file.value("classes", "", texts)?.unwrap_or_default(),
            ..WorkedExample::default()
        };
        if let Some(figures) = size_claims(&file)? {
            return Ok(WorkedExample { size_claims: figures, ..example });
        }
        let inputs = file.raw_value("inputs").ok_or_else(|| {
            tr!(
                "the key “inputs” is missing: the matrices to start from",
                "キー “inputs”（出発点となる行列）がありません"
            )
        })?;
        let inputs = JsonObject::read(inputs, "inputs", &names)?;
        for quantity in Quantity::all() {
            let Some(text) = inputs.raw_value(quantity.name()) else { continue };
            let place = format!("inputs.{}", quantity.name());
            let claim = orient_list(quantity, read_numbers(text, &place)?);
            example.inputs.insert(
                quantity,
                claim.into_iter().map(|matrix| require_complete(matrix, &place)).collect::<Result<_, _>>()?,
            );
        }
        if let Some(options) = file.raw_value("options") {
            example.options = ExampleOptions::read(options)?;
        }
        if let Some(optimizer) = file.raw_value("optimizer") {
            example.optimizer = Some(AdamWSettings::read(optimizer)?);
        }
        if let Some(claims) = file.raw_value("claims") {
            let claimed = |kind: StepKind| {
                let prefix = kind.claim_prefix();
                Quantity::all().filter_map(move |of| Some((kind, of, format!("{}{}", prefix?, of.name()))))
            };
            let known: Vec<(StepKind, Quantity, String)> = StepKind::all().flat_map(claimed).collect();
            let names: Vec<&str> = known.iter().map(|(_, _, name)| &name[..]).collect();
            let claims = JsonObject::read_with_aliases(claims, "claims", &names, |key| {
                // Symbols of other parts, such as z of a gate, come first.
                Quantity::all().filter(|of| of.symbol() == key).last().map(Quantity::name)
            })?;
            for (kind, quantity, name) in &known {
                let Some(text) = claims.raw_value(name) else { continue };
                if *kind == StepKind::Value && example.inputs.contains_key(quantity) {
                    return Err(tr!(
                        "claims.{name}: {name} is given in inputs; claims are about quantities that follow",
                        "claims.{name}: {name} は inputs で与えられています。claims に書けるのは、そこから導かれる値です"
                    ));
                }
                let claim = orient_list(*quantity, read_numbers(text, &format!("claims.{name}"))?);
                example.claims.push((*kind, *quantity, claim));
            }
        }
        Ok(example)
    }
}
