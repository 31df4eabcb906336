//! Taggers: labeled spans in texts, predicted by a conditional random field, optionally blended with a pretrained
//! encoder. Model folder and predictions.

use super::settings::{check_labels, not_finite_error};
use crate::characters::CharacterOffsets;
use crate::crf::{Crf, ForwardBackward, MemberEmissions, TagScheme, TaggerBlend, Transitions, viterbi};
use crate::data::{Span, SpanExample, SpanUnit};
use crate::error::layer_errors::layer_error_message;
use crate::lang::lang;
use crate::model_folder::{
    CONFIG, ModelKind, NamedTensor, Snapshot, TOKENIZER, WEIGHTS, check_files, check_kind, check_no_extra_tensors,
    check_vocabulary, f32_from_bytes, missing_tensor_message, model_file_error, param_tensors, parse_weights,
    read_config, read_params, serialize_tensors, with_snapshot,
};
use crate::models::TokenTagger;
use crate::pretrained::read_tokenizer;
use crate::scoring::SpanScores;
use crate::text::TextTokenizer;
use crate::text_models::tagger_network::{TaggerNetwork, TaggerNetworkConfig};
use crate::{Result, tr};
use chumoku_kernels::{Precision, parallel};
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;

/// The `config.json` of a tagger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaggerConfig {
    /// Always "chumoku_tagger".
    pub model_type: String,
    /// The version of Chumoku that wrote the model.
    pub chumoku_version: String,
    /// The kinds of spans, ordered by index.
    pub labels: Vec<String>,
    /// The unit that gets a label.
    pub unit: SpanUnit,
    /// `true` if every word gets a label, as in part-of-speech tagging.
    pub each_word: bool,
    /// The network, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<TaggerNetworkConfig>,
}

/// A tagger: a conditional random field, optionally a network, and the kinds of spans.
#[derive(Debug)]
pub struct TextTagger {
    /// The configuration.
    pub config: TaggerConfig,
    /// The conditional random field.
    pub crf: Crf,
    /// The network, if the model has one.
    pub network: Option<TaggerNetwork>,
}

/// A predicted span.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PredictedSpan {
    /// Its position and label.
    #[serde(flatten)]
    pub span: Span,
    /// The text of the span.
    pub text: String,
    /// The probability that exactly this is a span of this kind.
    pub probability: f64,
}

const TENSOR_NAMES: [&str; 3] = ["crf.features", "crf.weights", "crf.transitions"];

impl TextTagger {
    /// Returns the kinds of spans.
    pub fn labels(&self) -> &[String] {
        &self.config.labels
    }

    /// Returns the configuration.
    pub fn config(&self) -> &TaggerConfig {
        &self.config
    }

    /// Returns the number of known features.
    pub fn num_features(&self) -> usize {
        self.crf.hashes.len()
    }

    /// Returns `true` if the model includes a network.
    pub fn has_network(&self) -> bool {
        self.network.is_some()
    }

    /// Returns the number of network parameters. 0 without a network.
    pub fn num_parameters(&self) -> usize {
        self.network.as_ref().map_or(0, |network| network.params.values().len())
    }

    /// Sets the precision of matrix products.
    pub(crate) fn set_precision(&mut self, precision: Precision) {
        if let Some(network) = &mut self.network {
            network.config.precision = precision;
            network.params.set_precision(precision);
        }
        if let Some(network) = &mut self.config.network {
            network.precision = precision;
        }
    }

    /// Returns how labels of spans become tags of units.
    pub fn tags(&self) -> TagScheme {
        TagScheme { kinds: self.config.labels.len(), each_word: self.config.each_word }
    }

    /// Returns the weights of the random field and the network.
    pub fn blend(&self) -> TaggerBlend {
        self.network.as_ref().map_or(TaggerBlend::CRF, |network| network.config.blend)
    }

    /// Predicts the spans of each text, in parallel. Spans do not overlap. The spans of a text do not depend on the
    /// other texts.
    ///
    /// # Errors
    /// If a text cannot be tokenized, or a probability is not a number because the weights are too large.
    pub fn predict(&self, texts: &[&str]) -> Result<Vec<Vec<PredictedSpan>>> {
        let rows: Vec<TextUnits<'_>> = parallel::map(texts, |text| (*text, self.config.unit.split(text)));
        self.decode_all(&rows, &self.member_scores(&rows)?, self.blend())
    }

    /// Predicts spans like [`TextTagger::predict`], for rows with given words.
    ///
    /// # Errors
    /// See [`TextTagger::predict`].
    pub fn predict_rows(&self, rows: &[SpanExample]) -> Result<Vec<Vec<PredictedSpan>>> {
        let rows = self.rows_with_units(rows);
        self.decode_all(&rows, &self.member_scores(&rows)?, self.blend())
    }

    /// Returns the rows with their units.
    pub fn rows_with_units<'a>(&self, rows: &'a [SpanExample]) -> Vec<TextUnits<'a>> {
        parallel::map(rows, |row| (row.text.as_str(), units_of_row(row, self.config.unit)))
    }

    /// Returns the emissions of both members for each text.
    pub fn member_scores(&self, rows: &[TextUnits<'_>]) -> Result<Vec<MemberEmissions>> {
        let network = match &self.network {
            Some(network) => network.log_probabilities(rows)?,
            None => vec![Vec::new(); rows.len()],
        };
        let labels = self.tags().count();
        let crf = parallel::map(rows, |(text, units)| {
            self.crf.emissions(&self.crf.known_features(text, units, self.config.unit), labels)
        });
        Ok(crf.into_iter().zip(network).map(|(crf, network)| MemberEmissions { crf, network }).collect())
    }

    /// Returns the spans of each text with these member weights.
    pub(crate) fn decode_all(
        &self,
        rows: &[TextUnits<'_>],
        emissions: &[MemberEmissions],
        shares: TaggerBlend,
    ) -> Result<Vec<Vec<PredictedSpan>>> {
        let transitions = shares.transitions(&self.crf, self.tags());
        let find = |row: usize| {
            let (text, units) = &rows[row];
            self.decode_spans(text, units, &shares.emissions(&emissions[row]), &transitions)
        };
        parallel::map_indices(rows.len().min(emissions.len()), find).into_iter().collect()
    }

    fn decode_spans(
        &self,
        text: &str,
        units: &[Range<usize>],
        emissions: &[f32],
        transitions: &Transitions,
    ) -> Result<Vec<PredictedSpan>> {
        if units.is_empty() {
            return Ok(Vec::new());
        }
        let tags = self.tags();
        let sums = ForwardBackward::new(emissions, transitions).ok_or_else(not_finite_error)?;
        let places = CharacterOffsets::new(text);
        let span = |(range, kind): (Range<usize>, usize)| {
            let bytes = units[range.start].start..units[range.end - 1].end;
            let [start, end] = [bytes.start, bytes.end].map(|at| places.character(at));
            let path = tags.span_tags(kind, range.len());
            let probability = sums.probability(transitions, range.start, &path, tags.inside_tag(kind));
            let label = self.config.labels[kind].clone();
            PredictedSpan { span: Span { start, end, label }, text: text[bytes].to_owned(), probability }
        };
        Ok(tags.decode(&viterbi(emissions, transitions)).into_iter().map(span).collect())
    }

    /// Scores the model on rows with spans, resampled with `seed`.
    ///
    /// # Errors
    /// See [`TextTagger::predict`].
    pub fn score(&self, rows: &[SpanExample], seed: u64) -> Result<SpanScores> {
        Ok(self.score_with_blends(rows, &[self.blend()], seed)?.remove(0))
    }

    /// Scores the model with each of these member weights.
    pub fn score_with_blends(
        &self,
        rows: &[SpanExample],
        shares: &[TaggerBlend],
        seed: u64,
    ) -> Result<Vec<SpanScores>> {
        let cut = self.rows_with_units(rows);
        let emissions = self.member_scores(&cut)?;
        let score = |&shares: &TaggerBlend| {
            let found = self.decode_all(&cut, &emissions, shares)?;
            let found: Vec<Vec<Span>> =
                found.into_iter().map(|spans| spans.into_iter().map(|span| span.span).collect()).collect();
            Ok(SpanScores::of(rows.iter().map(|row| &row.spans[..]).zip(found.iter().map(Vec::as_slice)), seed))
        };
        shares.iter().map(score).collect()
    }

    /// Returns the files of the model, by name.
    pub fn files(&self) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let config = serde_json::to_string_pretty(&self.config).expect("a configuration is plain data") + "\n";
        let (features, labels) = (self.crf.hashes.len(), self.tags().count());
        let bytes = self.crf.hashes.iter().flat_map(|x| (*x as i64).to_le_bytes()).collect();
        let mut tensors = vec![
            NamedTensor { name: TENSOR_NAMES[0].into(), dtype: Dtype::I64, shape: vec![features], bytes },
            NamedTensor::floats(TENSOR_NAMES[1], &[features, labels], &self.crf.weights),
            NamedTensor::floats(TENSOR_NAMES[2], &[labels + 1, labels], &self.crf.transitions),
        ];
        let mut files = vec![(CONFIG, config.into_bytes())];
        if let Some(network) = &self.network {
            tensors.extend(param_tensors(&network.params));
            files.push((TOKENIZER, network.tokenizer.to_json()?.into_bytes()));
        }
        files.push((WEIGHTS, serialize_tensors(&tensors)));
        Ok(files)
    }

    /// Reads a model folder. Input is validated.
    ///
    /// # Errors
    /// If a file is missing, damaged, or inconsistent with the others.
    pub fn load(folder: &Path) -> Result<TextTagger> {
        with_snapshot(folder, TextTagger::from_snapshot)
    }

    /// Reads a model from a snapshot of its folder.
    ///
    /// # Errors
    /// If a file is missing, damaged or of another model.
    pub fn from_snapshot(folder: &Snapshot) -> Result<TextTagger> {
        check_files(folder, &[CONFIG, WEIGHTS])?;
        check_kind(folder, ModelKind::Tagger, lang().pick("a tagger", "単語にラベルを付けるモデル"))?;
        let config: TaggerConfig = read_config(folder)?;
        let is_one_kind = config.labels.len() == 1 && !config.labels[0].is_empty();
        if !is_one_kind {
            check_labels(&config.labels).map_err(|problem| model_file_error(folder, CONFIG, problem))?;
        }
        let labels = TagScheme { kinds: config.labels.len(), each_word: config.each_word }.count();
        config
            .network
            .iter()
            .try_for_each(|network| network.check(labels))
            .map_err(|e| model_file_error(folder, CONFIG, e))?;
        let bytes = folder.read_weights(WEIGHTS)?;
        let tensors = parse_weights(folder, WEIGHTS, &bytes)?;
        let get = |name: &str, dtype: Dtype, shape: &[usize]| {
            let view =
                tensors.tensor(name).map_err(|_| model_file_error(folder, WEIGHTS, missing_tensor_message(name)))?;
            if view.dtype() != dtype || view.shape() != shape {
                let problem = tr!(
                    "tensor {name}: expected {dtype:?} {shape:?}, as {CONFIG} says, found {:?} {:?}",
                    "テンソル {name}: {CONFIG} によれば {dtype:?} {shape:?} のはずですが、{:?} {:?} です",
                    view.dtype(),
                    view.shape()
                );
                return Err(model_file_error(folder, WEIGHTS, problem));
            }
            Ok(view.data().to_vec())
        };
        let features = tensors.tensor(TENSOR_NAMES[0]).map_or(0, |view| view.shape().iter().product());
        let hashes = get(TENSOR_NAMES[0], Dtype::I64, &[features])?;
        let hashes: Vec<u64> = hashes.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect();
        let weights = f32_from_bytes(&get(TENSOR_NAMES[1], Dtype::F32, &[features, labels])?);
        let transitions = f32_from_bytes(&get(TENSOR_NAMES[2], Dtype::F32, &[labels + 1, labels])?);
        if !hashes.is_sorted_by(|a, b| a < b) {
            let problem =
                tr!("tensor {}: expected ascending numbers", "テンソル {}: 昇順の数が必要です", TENSOR_NAMES[0]);
            return Err(model_file_error(folder, WEIGHTS, problem));
        }
        for (name, array) in [(TENSOR_NAMES[1], &weights), (TENSOR_NAMES[2], &transitions)] {
            if let Some(value) = array.iter().find(|x| !x.is_finite()) {
                let problem = tr!(
                    "tensor {name} holds {value}, expected finite numbers",
                    "テンソル {name} に有限でない数 {value} があります"
                );
                return Err(model_file_error(folder, WEIGHTS, problem));
            }
        }
        let network = config.network.as_ref().map(|network| read_network(folder, &tensors, network)).transpose()?;
        let layout = network.as_ref().map(|network| &**network.model.layout());
        check_no_extra_tensors(folder, &tensors, layout, &TENSOR_NAMES.map(str::to_owned))?;
        Ok(TextTagger { config, crf: Crf { hashes, weights, transitions }, network })
    }
}

/// A text with the byte ranges of its units.
pub type TextUnits<'a> = (&'a str, Vec<Range<usize>>);

/// Reads the network of a folder and its tokenizer.
fn read_network(folder: &Snapshot, tensors: &SafeTensors<'_>, config: &TaggerNetworkConfig) -> Result<TaggerNetwork> {
    check_files(folder, &[TOKENIZER])?;
    let model = TokenTagger::new(config.model.clone())
        .map_err(|error| model_file_error(folder, CONFIG, layer_error_message(&error)))?;
    let params = read_params(folder, tensors, model.layout(), config.precision)?;
    let tokenizer = TextTokenizer::from_pretrained(read_tokenizer(folder, config.model.encoder.vocab_size)?)?;
    check_vocabulary(folder, TOKENIZER, &tokenizer, &config.vocabulary_sha256)?;
    Ok(TaggerNetwork { config: config.clone(), model, params, tokenizer })
}

/// Returns the units of a row: its given words, or those of its text.
pub fn units_of_row(row: &SpanExample, unit: SpanUnit) -> Vec<Range<usize>> {
    match unit == SpanUnit::Words && !row.words.is_empty() {
        true => row.words.clone(),
        false => unit.split(&row.text),
    }
}
