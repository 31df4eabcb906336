//! Exports a classifier's network as an ONNX file for other programs.
//!
//! The models here need no padding, but an ONNX file does, because its batches are rectangular. Each text occupies the
//! first columns of its row, and a mask marks them. Masked columns affect no output.
//!
//! # Files
//!
//! - `graph`: the graph under construction
//! - `network`: the layers in ONNX operators; must match `chumoku-nn`
//! - `protobuf`: the encoder
//! - `recurrent`: RNN, LSTM and GRU
//! - `writer`: the graph with its parameters

mod graph;
mod network;
mod protobuf;
mod recurrent;
mod writer;

use crate::hierarchy::Hierarchy;
use crate::prediction::target::PredictionTarget;
use crate::text_models::classifier::TextClassifier;
use crate::{Error, Result, tr};
use graph::{Attribute, Graph, GraphAxis, OnnxElementType};
use network::NetworkExporter;

/// The opset: the version of ONNX's standard operators.
pub const OPSET: i64 = 17;
/// Names of the inputs: token ids (batch, sequence), and a mask of the same shape that is 1 for tokens and 0 for
/// padding.
pub const EXPORT_INPUTS: [&str; 2] = ["input_ids", "attention_mask"];
/// Names of the outputs, both (batch, classes).
pub const EXPORT_OUTPUTS: [&str; 2] = ["logits", "probabilities"];

/// Most bytes of weights: a protobuf message is limited to 2 GiB.
const MAX_BYTES: usize = (2 << 30) - (64 << 20);

/// A classifier's network as an ONNX model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExportedClassifier {
    /// The bytes of the file.
    pub bytes: Vec<u8>,
    /// The metadata entries, in order.
    pub metadata: Vec<(String, String)>,
    /// True if the classifier also has an n-gram model, which the file lacks.
    pub lacks_ngrams: bool,
}

/// Exports the network of a classifier as an ONNX model. The n-gram model, which reads characters, is left out, and
/// with it the feature columns.
///
/// `logits` are the network's. Without an n-gram model, `probabilities` equal those of [`TextClassifier::predict`].
/// Otherwise they are the network's own: the softmax of the logits, or the logistic function for multi-label models.
///
/// # Errors
/// If the network has a part that cannot be exported, or is too large for a file.
pub fn export_classifier(classifier: &TextClassifier) -> Result<ExportedClassifier> {
    let (config, params) = (&classifier.config, &classifier.params);
    if params.values().len() > MAX_BYTES / 4 {
        return Err(Error::Setting(tr!(
            "writing ONNX: expected at most 2 GiB of weights, found {} values of 4 bytes; export a smaller model",
            "ONNX を書き出せません。重みは 2 GiB 以下のはずですが、4 バイトの値が {} 個あります。より小さいモデルを書き出してください",
            params.values().len()
        )));
    }
    let lacks_ngrams = classifier.ngrams.is_some();
    let mut network = NetworkExporter::new(&config.model, params);
    let logits = network.logits()?;
    let mut graph = network.writer.graph;
    let (scale, offsets) = calibration(classifier);
    let mut probabilities = probabilities(&mut graph, &logits, &config.target, scale, &offsets);
    if let (Some(tree), PredictionTarget::Labels(_)) = (&config.hierarchy, &config.target) {
        probabilities = cap_by_parents(&mut graph, probabilities, tree);
    }
    graph.node("Identity", &[&logits], &[], EXPORT_OUTPUTS[0]);
    graph.node("Identity", &[&probabilities], &[], EXPORT_OUTPUTS[1]);
    let tokens = [GraphAxis::Symbolic("batch"), GraphAxis::Symbolic("sequence")];
    for name in EXPORT_INPUTS {
        graph.input(name, OnnxElementType::Int64, &tokens);
    }
    for name in EXPORT_OUTPUTS {
        graph.output(
            name,
            OnnxElementType::Float,
            &[GraphAxis::Symbolic("batch"), GraphAxis::Fixed(config.labels.len())],
        );
    }
    let metadata = metadata(classifier);
    Ok(ExportedClassifier { bytes: graph.into_model(OPSET, &metadata), metadata, lacks_ngrams })
}

/// Returns the calibration of the network if it is the whole predictor: a factor of its logits, and offsets.
fn calibration(classifier: &TextClassifier) -> (f32, Vec<f32>) {
    match classifier.config.target.binary_blend() {
        _ if classifier.ngrams.is_some() => (1.0, vec![0.0]),
        None => (classifier.config.blend.network, vec![0.0]),
        Some(blend) => (blend.network, blend.offsets.clone()),
    }
}

/// Adds the nodes from logits to probabilities.
fn probabilities(graph: &mut Graph, logits: &str, problem: &PredictionTarget, scale: f32, offsets: &[f32]) -> String {
    let scale = graph.scalar("calibration.scale", scale);
    let offsets = graph.floats("calibration.offsets", &[offsets.len()], offsets);
    let scaled = graph.op("Mul", &[logits, &scale], &[]);
    let calibrated = graph.op("Add", &[&scaled, &offsets], &[]);
    match problem.binary_blend() {
        None => graph.op("Softmax", &[&calibrated], &[("axis", Attribute::Int(-1))]),
        Some(_) => graph.op("Sigmoid", &[&calibrated], &[]),
    }
}

/// Caps each label's probability at that of its parent. Each level takes the minimum of the two.
fn cap_by_parents(graph: &mut Graph, mut probabilities: String, tree: &Hierarchy) -> String {
    let parents: Vec<i64> = tree.parents().iter().map(|&label| label as i64).collect();
    let parents = graph.ints(&parents);
    for _ in 1..tree.depth() {
        let above = graph.op("Gather", &[&probabilities, &parents], &[("axis", Attribute::Int(1))]);
        probabilities = graph.op("Min", &[&probabilities, &above], &[]);
    }
    probabilities
}

/// Returns what a program must know to use the file, and what the file lacks.
fn metadata(classifier: &TextClassifier) -> Vec<(String, String)> {
    let config = &classifier.config;
    let kind = match &config.target {
        PredictionTarget::OneClass => "one_class",
        PredictionTarget::Labels(_) => "labels",
        PredictionTarget::Number(_) => "number",
    };
    let mut entries = vec![
        ("labels", json(&config.labels)),
        ("problem", kind.to_owned()),
        ("model_type", config.model_type.clone()),
        ("chumoku_version", env!("CARGO_PKG_VERSION").to_owned()),
        ("max_length", config.max_tokens().to_string()),
        ("padding", "right; attention_mask is 1 for tokens, 0 behind them".to_owned()),
        ("tokenizer", "tokenizer.json of the model folder".to_owned()),
        ("vocabulary_sha256", classifier.tokenizer.vocabulary_sha256()),
    ];
    let (ngrams, probabilities) = match classifier.ngrams.is_some() {
        false => ("none", "those of `chumoku predict`"),
        true => (
            "left out: this is the network alone, and `chumoku predict` joins it with n-grams",
            "of the network alone, not those of `chumoku predict`",
        ),
    };
    entries.extend([("ngrams", ngrams.to_owned()), ("probabilities", probabilities.to_owned())]);
    if let Some(separator) = config.model.embeddings.separator {
        let frame = classifier.tokenizer.special_tokens();
        let ids = |ids: &[u32]| ids.iter().map(|id| format!("{id}, ")).collect::<String>();
        let (before, after) = (ids(&frame.prefix), ids(&frame.suffix));
        let pairs = format!("input_ids: {before}first text, {separator}, second text, {after}");
        let pairs = pairs.trim_end_matches(", ").to_owned();
        entries.push(("pairs", pairs));
    }
    if !config.columns().is_empty() {
        let names: Vec<&str> = config.columns().iter().map(|column| column.name.as_str()).collect();
        entries.push(("columns", format!("left out with the n-grams: {}", names.join(", "))));
    }
    if let (PredictionTarget::Labels(blend), None) = (&config.target, &classifier.ngrams) {
        entries.push(("thresholds", json(&blend.thresholds)));
    }
    if let PredictionTarget::Number(number) = &config.target {
        entries.extend([
            ("thresholds", json(&number.discretizer.thresholds)),
            ("values", json(&number.discretizer.values)),
        ]);
    }
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("plain data")
}
