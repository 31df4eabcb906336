//! A tagger: labelled spans in texts, by a conditional random field and, where it started from one, a pretrained encoder. Its
//! folder, and what it is asked.

use crate::crf::{Crf, ForwardBackward, MemberEmissions, TagScheme, TaggerBlend, Transitions, viterbi};
use crate::data::{Span, SpanExample, SpanUnit};
use crate::lang::lang;
use crate::layer_errors::layer_error_message;
use crate::model_folder::{
    CONFIG, ModelKind, ModelTypeConfig, Snapshot, TOKENIZER, Tensors, WEIGHTS, check_files, check_no_extra_tensors,
    check_vocabulary, f32_bytes, f32_from_bytes, missing_tensor_message, model_file_error, param_tensors,
    parse_weights, read_config, read_params, serialize_tensors, with_snapshot, write_model,
};
use crate::models::TokenTagger;
use crate::pretrained::read_tokenizer;
use crate::scoring::SpanScores;
use crate::tagger_network::{TaggerNetwork, TaggerNetworkConfig, not_finite_error};
use crate::text::TextTokenizer;
use crate::text_classifier::check_labels;
use crate::{Error, Result, tr};
use chumoku_kernels::{Precision, parallel};
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;

/// `config.json` of a tagger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaggerConfig {
    /// Always "chumoku_tagger".
    pub model_type: String,
    /// The version that wrote it.
    pub chumoku_version: String,
    /// The kinds of spans, in the order of their numbers.
    pub labels: Vec<String>,
    /// What gets a label.
    pub unit: SpanUnit,
    /// Whether each word has one, as with parts of speech.
    pub each_word: bool,
    /// The network beside the conditional random field, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<TaggerNetworkConfig>,
}

/// A conditional random field, the network beside it, if there is one, and the kinds of spans that they find.
#[derive(Debug)]
pub struct TextTagger {
    pub(crate) config: TaggerConfig,
    pub(crate) crf: Crf,
    pub(crate) network: Option<TaggerNetwork>,
}

/// A span that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PredictedSpan {
    /// Where it is, and what.
    #[serde(flatten)]
    pub span: Span,
    /// Its text.
    pub text: String,
    /// The probability that just this is a span of this kind.
    pub probability: f64,
}

const TENSOR_NAMES: [&str; 3] = ["crf.features", "crf.weights", "crf.transitions"];

impl TextTagger {
    /// The kinds of spans.
    pub fn labels(&self) -> &[String] {
        &self.config.labels
    }

    /// What the model is.
    pub fn config(&self) -> &TaggerConfig {
        &self.config
    }

    /// Features that the model knows.
    pub fn num_features(&self) -> usize {
        self.crf.hashes.len()
    }

    /// Whether a network stands beside the conditional random field.
    pub fn has_network(&self) -> bool {
        self.network.is_some()
    }

    /// Numbers in the network; 0 without one.
    pub fn num_parameters(&self) -> usize {
        self.network.as_ref().map_or(0, |network| network.params.values().len())
    }

    /// Sets how exact matrix products are.
    pub fn set_precision(&mut self, precision: Precision) {
        if let Some(network) = &mut self.network {
            network.config.precision = precision;
            network.params.set_precision(precision);
        }
        if let Some(network) = &mut self.config.network {
            network.precision = precision;
        }
    }

    pub(crate) fn tags(&self) -> TagScheme {
        TagScheme { kinds: self.config.labels.len(), each_word: self.config.each_word }
    }

    /// How much the two halves count.
    pub(crate) fn blend(&self) -> TaggerBlend {
        self.network.as_ref().map_or(TaggerBlend::CRF, |network| network.config.blend)
    }

    /// Finds the spans of each text, on all threads. They do not overlap, and a text's do not depend on the other texts.
    ///
    /// # Errors
    /// If a text cannot be read as tokens, or weights are so large that a probability is not a number.
    pub fn predict(&self, texts: &[&str]) -> Result<Vec<Vec<PredictedSpan>>> {
        let rows: Vec<TextUnits<'_>> = parallel::map(texts, |text| (*text, self.config.unit.split(text)));
        self.decode_all(&rows, &self.member_scores(&rows)?, self.blend())
    }

    /// The same of texts that a file has cut into words, whose words are kept.
    ///
    /// # Errors
    /// See [`TextTagger::predict`].
    pub fn predict_rows(&self, rows: &[SpanExample]) -> Result<Vec<Vec<PredictedSpan>>> {
        let rows = self.rows_with_units(rows);
        self.decode_all(&rows, &self.member_scores(&rows)?, self.blend())
    }

    /// Rows with their units.
    pub(crate) fn rows_with_units<'a>(&self, rows: &'a [SpanExample]) -> Vec<TextUnits<'a>> {
        parallel::map(rows, |row| (row.text.as_str(), units_of_row(row, self.config.unit)))
    }

    /// What both halves say of each text.
    pub(crate) fn member_scores(&self, rows: &[TextUnits<'_>]) -> Result<Vec<MemberEmissions>> {
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

    /// The spans of each text, where the halves count so much.
    pub(crate) fn decode_all(
        &self,
        rows: &[TextUnits<'_>],
        halves: &[MemberEmissions],
        shares: TaggerBlend,
    ) -> Result<Vec<Vec<PredictedSpan>>> {
        let transitions = shares.transitions(&self.crf, self.tags());
        let find = |row: usize| {
            let (text, units) = &rows[row];
            self.decode_spans(text, units, &shares.emissions(&halves[row]), &transitions)
        };
        parallel::map_indices(rows.len().min(halves.len()), find).into_iter().collect()
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
        let mut places = CharacterCounter { text, bytes: 0, characters: 0 };
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

    /// Scores on rows with spans, resampled with `seed`.
    ///
    /// # Errors
    /// See [`TextTagger::predict`].
    pub fn score(&self, rows: &[SpanExample], seed: u64) -> Result<SpanScores> {
        Ok(self.score_with_blends(rows, &[self.blend()], seed)?.remove(0))
    }

    /// Scores where the halves count so much, for each of these shares.
    pub(crate) fn score_with_blends(
        &self,
        rows: &[SpanExample],
        shares: &[TaggerBlend],
        seed: u64,
    ) -> Result<Vec<SpanScores>> {
        let cut = self.rows_with_units(rows);
        let halves = self.member_scores(&cut)?;
        let score = |&shares: &TaggerBlend| {
            let found = self.decode_all(&cut, &halves, shares)?;
            let found: Vec<Vec<Span>> =
                found.into_iter().map(|spans| spans.into_iter().map(|span| span.span).collect()).collect();
            Ok(SpanScores::of(rows.iter().map(|row| &row.spans[..]).zip(found.iter().map(Vec::as_slice)), seed))
        };
        shares.iter().map(score).collect()
    }

    /// Writes `config.json` and `model.safetensors`, in the place of those of a model that is there.
    ///
    /// # Errors
    /// If a file cannot be written, or one of these names is that of a file that Chumoku did not write.
    pub fn save(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(Error::write("creating", folder))?;
        write_model(folder, self.files()?)
    }

    /// The files that are needed to use it.
    pub(crate) fn files(&self) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let config = serde_json::to_string_pretty(&self.config).expect("a configuration is plain data") + "\n";
        let (features, labels) = (self.crf.hashes.len(), self.tags().count());
        let hashes = self.crf.hashes.iter().flat_map(|x| (*x as i64).to_le_bytes()).collect();
        let mut tensors: Tensors = vec![
            (TENSOR_NAMES[0].into(), Dtype::I64, vec![features], hashes),
            (TENSOR_NAMES[1].into(), Dtype::F32, vec![features, labels], f32_bytes(&self.crf.weights)),
            (TENSOR_NAMES[2].into(), Dtype::F32, vec![labels + 1, labels], f32_bytes(&self.crf.transitions)),
        ];
        let mut files = vec![(CONFIG, config.into_bytes())];
        if let Some(network) = &self.network {
            tensors.extend(param_tensors(&network.params));
            files.push((TOKENIZER, network.tokenizer.to_json()?.into_bytes()));
        }
        files.push((WEIGHTS, serialize_tensors(&tensors)));
        Ok(files)
    }

    /// Reads a model folder, trusting nothing in it.
    ///
    /// # Errors
    /// If a file is missing, damaged, or does not fit the others.
    pub fn load(folder: &Path) -> Result<TextTagger> {
        with_snapshot(folder, TextTagger::from_snapshot)
    }

    pub(crate) fn from_snapshot(folder: &Snapshot) -> Result<TextTagger> {
        check_files(folder, &[CONFIG, WEIGHTS])?;
        let kind: ModelTypeConfig = read_config(folder)?;
        if kind.model_type != ModelKind::Tagger.model_type() {
            return Err(model_file_error(
                folder,
                CONFIG,
                kind.kind_mismatch(lang().pick("a tagger", "単語にラベルを付けるモデル")),
            ));
        }
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

/// A text and its units, in bytes.
pub(crate) type TextUnits<'a> = (&'a str, Vec<Range<usize>>);

/// The network of a folder, and its tokenizer.
fn read_network(folder: &Snapshot, tensors: &SafeTensors<'_>, config: &TaggerNetworkConfig) -> Result<TaggerNetwork> {
    check_files(folder, &[TOKENIZER])?;
    let model = TokenTagger::new(config.model.clone())
        .map_err(|error| model_file_error(folder, CONFIG, layer_error_message(&error)))?;
    let params = read_params(folder, tensors, model.layout(), config.precision)?;
    let tokenizer = TextTokenizer::from_pretrained(read_tokenizer(folder, config.model.encoder.vocab_size)?)?;
    check_vocabulary(folder, TOKENIZER, &tokenizer, &config.vocabulary_sha256)?;
    Ok(TaggerNetwork { config: config.clone(), model, params, tokenizer })
}

/// The units of a row: the words that its file has, else those of its text.
pub(crate) fn units_of_row(row: &SpanExample, unit: SpanUnit) -> Vec<Range<usize>> {
    match unit == SpanUnit::Words && !row.words.is_empty() {
        true => row.words.clone(),
        false => unit.split(&row.text),
    }
}

/// Bytes to characters, from the front to the back.
struct CharacterCounter<'a> {
    text: &'a str,
    bytes: usize,
    characters: usize,
}

impl CharacterCounter<'_> {
    fn character(&mut self, at: usize) -> usize {
        self.characters += self.text[self.bytes..at].chars().count();
        self.bytes = at;
        self.characters
    }
}
