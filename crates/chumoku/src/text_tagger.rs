//! A tagger: labelled spans in texts, by a conditional random field. Its folder, and what it is asked.

use crate::crf::{Crf, Sums, Tags, best};
use crate::data::{Span, SpanUnit, SpannedText};
use crate::lang::lang;
use crate::model_folder::{
    CONFIG, ModelKind, ModelType, Tensors, WEIGHTS, check_files, check_no_others, f32_bytes, fault, floats, no_tensor,
    parse_weights, read, read_config, serialize, write_model,
};
use crate::scoring::SpanScores;
use crate::text_classifier::check_labels;
use crate::{Error, Result, tr};
use rayon::prelude::*;
use safetensors::Dtype;
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
}

/// A conditional random field, and the kinds of spans that it finds.
#[derive(Debug)]
pub struct TextTagger {
    pub(crate) config: TaggerConfig,
    pub(crate) crf: Crf,
}

/// A span that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FoundSpan {
    /// Where it is, and what.
    #[serde(flatten)]
    pub span: Span,
    /// Its text.
    pub text: String,
    /// The probability that just this is a span of this kind.
    pub probability: f64,
}

const NAMES: [&str; 3] = ["crf.features", "crf.weights", "crf.transitions"];

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

    fn tags(&self) -> Tags {
        Tags { kinds: self.config.labels.len(), each_word: self.config.each_word }
    }

    /// Finds the spans of each text, on all threads. They do not overlap, and a text's do not depend on the other texts.
    ///
    /// # Errors
    /// If weights are so large that a probability is not a number.
    pub fn predict(&self, texts: &[&str]) -> Result<Vec<Vec<FoundSpan>>> {
        texts.par_iter().map(|text| self.find(text, &self.config.unit.cut(text))).collect()
    }

    /// The same of texts that a file has cut into words, whose words are kept.
    ///
    /// # Errors
    /// See [`TextTagger::predict`].
    pub fn predict_rows(&self, rows: &[SpannedText]) -> Result<Vec<Vec<FoundSpan>>> {
        rows.par_iter().map(|row| self.find(&row.text, &units(row, self.config.unit))).collect()
    }

    fn find(&self, text: &str, units: &[Range<usize>]) -> Result<Vec<FoundSpan>> {
        if units.is_empty() {
            return Ok(Vec::new());
        }
        let tags = self.tags();
        let transitions = tags.transitions(&self.crf.transitions);
        let known = self.crf.known(text, units, self.config.unit);
        let emissions = self.crf.emissions(&known, tags.count());
        let Some(sums) = Sums::of(&emissions, &transitions) else {
            let problem = tr!(
                "the model gives a probability that is not a number: its weights are too large to use",
                "モデルの確率が数値になりません。重みが大きすぎて使えません"
            );
            return Err(Error::NotFinite(problem));
        };
        let mut places = Places { text, bytes: 0, characters: 0 };
        let span = |(range, kind): (Range<usize>, usize)| {
            let bytes = units[range.start].start..units[range.end - 1].end;
            let [start, end] = [bytes.start, bytes.end].map(|at| places.character(at));
            let path = tags.path(kind, range.len());
            let probability = sums.probability(&transitions, range.start, &path, tags.inside(kind));
            let label = self.config.labels[kind].clone();
            FoundSpan { span: Span { start, end, label }, text: text[bytes].to_owned(), probability }
        };
        Ok(tags.decode(&best(&emissions, &transitions)).into_iter().map(span).collect())
    }

    /// Scores on rows with spans, resampled with `seed`.
    ///
    /// # Errors
    /// See [`TextTagger::predict`].
    pub fn score(&self, rows: &[SpannedText], seed: u64) -> Result<SpanScores> {
        let found = self.predict_rows(rows)?;
        let found: Vec<Vec<Span>> =
            found.into_iter().map(|spans| spans.into_iter().map(|span| span.span).collect()).collect();
        Ok(SpanScores::of(rows.iter().map(|row| &row.spans[..]).zip(found.iter().map(Vec::as_slice)), seed))
    }

    /// Writes `config.json` and `model.safetensors`, in the place of those of a model that is there.
    ///
    /// # Errors
    /// If a file cannot be written, or one of these names is that of a file that Chumoku did not write.
    pub fn save(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(Error::writing("creating", folder))?;
        write_model(folder, &self.files())
    }

    /// The files that are needed to use it.
    pub(crate) fn files(&self) -> Vec<(&'static str, Vec<u8>)> {
        let config = serde_json::to_string_pretty(&self.config).expect("a configuration is plain data") + "\n";
        let (features, labels) = (self.crf.hashes.len(), self.tags().count());
        let hashes = self.crf.hashes.iter().flat_map(|x| (*x as i64).to_le_bytes()).collect();
        let tensors: Tensors = vec![
            (NAMES[0].into(), Dtype::I64, vec![features], hashes),
            (NAMES[1].into(), Dtype::F32, vec![features, labels], f32_bytes(&self.crf.weights)),
            (NAMES[2].into(), Dtype::F32, vec![labels + 1, labels], f32_bytes(&self.crf.transitions)),
        ];
        vec![(CONFIG, config.into_bytes()), (WEIGHTS, serialize(&tensors))]
    }

    /// Reads a model folder, trusting nothing in it.
    ///
    /// # Errors
    /// If a file is missing, damaged, or does not fit the others.
    pub fn load(folder: &Path) -> Result<TextTagger> {
        check_files(folder, &[CONFIG, WEIGHTS])?;
        let kind: ModelType = read_config(folder)?;
        if kind.model_type != ModelKind::Tagger.model_type() {
            return Err(fault(folder, CONFIG, kind.is_not(lang().pick("a tagger", "単語にラベルを付けるモデル"))));
        }
        let config: TaggerConfig = read_config(folder)?;
        let is_one_kind = config.labels.len() == 1 && !config.labels[0].is_empty();
        if !is_one_kind {
            check_labels(&config.labels).map_err(|problem| fault(folder, CONFIG, problem))?;
        }
        let labels = Tags { kinds: config.labels.len(), each_word: config.each_word }.count();
        let bytes = read(folder, WEIGHTS)?;
        let tensors = parse_weights(folder, &bytes)?;
        let get = |name: &str, dtype: Dtype, shape: &[usize]| {
            let view = tensors.tensor(name).map_err(|_| fault(folder, WEIGHTS, no_tensor(name)))?;
            if view.dtype() != dtype || view.shape() != shape {
                let problem = tr!(
                    "tensor {name}: expected {dtype:?} {shape:?}, as {CONFIG} says, found {:?} {:?}",
                    "テンソル {name}: {CONFIG} によれば {dtype:?} {shape:?} のはずですが、{:?} {:?} です",
                    view.dtype(),
                    view.shape()
                );
                return Err(fault(folder, WEIGHTS, problem));
            }
            Ok(view.data().to_vec())
        };
        let features = tensors.tensor(NAMES[0]).map_or(0, |view| view.shape().iter().product());
        let hashes = get(NAMES[0], Dtype::I64, &[features])?;
        let hashes: Vec<u64> = hashes.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect();
        let weights = floats(&get(NAMES[1], Dtype::F32, &[features, labels])?);
        let transitions = floats(&get(NAMES[2], Dtype::F32, &[labels + 1, labels])?);
        if !hashes.is_sorted_by(|a, b| a < b) {
            let problem = tr!("tensor {}: expected ascending numbers", "テンソル {}: 昇順の数が必要です", NAMES[0]);
            return Err(fault(folder, WEIGHTS, problem));
        }
        for (name, array) in [(NAMES[1], &weights), (NAMES[2], &transitions)] {
            if let Some(value) = array.iter().find(|x| !x.is_finite()) {
                let problem = tr!(
                    "tensor {name} holds {value}, expected finite numbers",
                    "テンソル {name} に有限でない数 {value} があります"
                );
                return Err(fault(folder, WEIGHTS, problem));
            }
        }
        check_no_others(folder, &tensors, None, &NAMES.map(str::to_owned))?;
        Ok(TextTagger { config, crf: Crf { hashes, weights, transitions } })
    }
}

/// The units of a row: the words that its file has, else those of its text.
pub(crate) fn units(row: &SpannedText, unit: SpanUnit) -> Vec<Range<usize>> {
    match unit == SpanUnit::Words && !row.words.is_empty() {
        true => row.words.clone(),
        false => unit.cut(&row.text),
    }
}

/// Bytes to characters, from the front to the back.
struct Places<'a> {
    text: &'a str,
    bytes: usize,
    characters: usize,
}

impl Places<'_> {
    fn character(&mut self, at: usize) -> usize {
        self.characters += self.text[self.bytes..at].chars().count();
        self.bytes = at;
        self.characters
    }
}
