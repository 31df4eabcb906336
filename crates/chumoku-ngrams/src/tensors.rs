//! A model as plain named arrays, for a file, and back.

use super::error::NgramError;
use super::model::NgramModel;
use super::target::num_outputs;
use super::tokens::NgramScheme;
use super::vocabulary::Vocabulary;
use crate::feature_columns;
use chumoku_text::tr;
use std::borrow::Cow;

/// The arrays of a model, all row-major.
///
/// # Shapes
///
/// `hashes`, `idf` (features); `weights` (features, outputs); `bias` (outputs); `prior` (classes). Two classes have one
/// output, the log-odds of class 1; otherwise there are as many outputs as classes. Labels that do not exclude each other have
/// an output each.
#[derive(Debug, Clone, PartialEq)]
pub struct NgramTensors<'a> {
    /// The features' hashes, their 64 bits read as a signed number; strictly ascending as unsigned numbers.
    pub hashes: Cow<'a, [i64]>,
    /// Weight of each feature in a text's row (the formula's idf · √s), above 0.
    pub idf: Cow<'a, [f32]>,
    /// W.
    pub weights: Cow<'a, [f32]>,
    /// The rows of W for what stands beside the text, (features of the columns, outputs); empty where no columns are read.
    pub columns: Cow<'a, [f32]>,
    /// b.
    pub bias: Cow<'a, [f32]>,
    /// Logarithm of each class's share of the training rows: the answer to a text without any feature.
    pub prior: Cow<'a, [f32]>,
}

impl NgramTensors<'_> {
    /// Name and shape of each array: `hashes`, `idf`, `weights`, `bias`, `prior` and, where columns are read, `columns`.
    pub fn shapes(&self) -> Vec<(&'static str, Vec<usize>)> {
        let outputs = self.bias.len();
        let mut shapes = vec![
            ("hashes", vec![self.hashes.len()]),
            ("idf", vec![self.idf.len()]),
            ("weights", vec![self.hashes.len(), outputs]),
            ("bias", vec![outputs]),
            ("prior", vec![self.prior.len()]),
        ];
        if !self.columns.is_empty() {
            shapes.push(("columns", vec![self.columns.len() / outputs.max(1), outputs]));
        }
        shapes
    }
}

impl NgramModel {
    /// The model's arrays.
    ///
    /// With [`NgramModel::scheme`] they are all of it.
    pub fn tensors(&self) -> NgramTensors<'_> {
        let (weights, bias) = self.weights.split_at(self.num_inputs() * self.outputs());
        let (weights, beside) = weights.split_at(self.vocabulary.len() * self.outputs());
        NgramTensors {
            hashes: self.vocabulary.hashes().iter().map(|&hash| hash as i64).collect(),
            idf: self.vocabulary.idf().into(),
            weights: weights.into(),
            columns: beside.into(),
            bias: bias.into(),
            prior: self.prior.as_slice().into(),
        }
    }

    /// A model from its n-gram scheme and arrays, which may come from a file that nobody vouches for; `is_set` if its labels
    /// do not exclude each other.
    ///
    /// # Errors
    ///
    /// [`NgramError::Setting`] or [`NgramError::Tensor`] where lengths do not agree, hashes are not strictly ascending,
    /// or a number is not finite.
    pub fn from_tensors(scheme: NgramScheme, tensors: NgramTensors<'_>, is_set: bool) -> Result<Self, NgramError> {
        scheme.check()?;
        let classes = tensors.prior.len();
        let features = tensors.hashes.len();
        if classes < 2 {
            return Err(tensor_error("prior", tr!("at least two classes", "2 つ以上のクラス"), classes.to_string()));
        }
        if features > u32::MAX as usize {
            return Err(tensor_error(
                "hashes",
                tr!("at most {} features", "{} 個以下の特徴", u32::MAX),
                features.to_string(),
            ));
        }
        let outputs = num_outputs(classes, is_set);
        let weights = features.checked_mul(outputs);
        check_length("idf", &tensors.idf, Some(features))?;
        check_length("weights", &tensors.weights, weights)?;
        check_length("columns", &tensors.columns, feature_columns::num_features(&scheme.columns).checked_mul(outputs))?;
        check_length("bias", &tensors.bias, Some(outputs))?;
        let weights = [("weights", &tensors.weights), ("columns", &tensors.columns)];
        for (name, array) in weights.into_iter().chain([("bias", &tensors.bias), ("prior", &tensors.prior)]) {
            if let Some(at) = array.iter().position(|x| !x.is_finite()) {
                return Err(tensor_error(
                    name,
                    tr!("finite numbers", "有限の数"),
                    tr!("{} at index {at}", "{}（位置 {at}）", array[at]),
                ));
            }
        }
        let is_weight = |x: &f32| (IDF_RANGE.0..=IDF_RANGE.1).contains(x);
        if let Some(at) = tensors.idf.iter().position(|x| !is_weight(x)) {
            let expected = tr!("numbers from {:e} to {:e}", "{:e} から {:e} までの数", IDF_RANGE.0, IDF_RANGE.1);
            return Err(tensor_error("idf", expected, tr!("{} at index {at}", "{}（位置 {at}）", tensors.idf[at])));
        }
        let hashes: Vec<u64> = tensors.hashes.iter().map(|&hash| hash as u64).collect();
        if let Some(at) = hashes.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(tensor_error(
                "hashes",
                tr!("strictly ascending numbers", "狭義の昇順の数"),
                tr!("a fall after index {at}", "位置 {at} の後で減少"),
            ));
        }
        let mut weights = tensors.weights.into_owned();
        weights.extend_from_slice(&tensors.columns);
        weights.extend_from_slice(&tensors.bias);
        Ok(NgramModel {
            scheme,
            vocabulary: Vocabulary::new(hashes, tensors.idf.into_owned()),
            weights,
            prior: tensors.prior.into_owned(),
            is_multi_label: is_set,
            report: None,
        })
    }
}

/// Smallest and largest weight of a feature that a file may hold: far outside of what training makes, and such that no
/// square or sum of squares overflows or vanishes.
const IDF_RANGE: (f32, f32) = (1e-6, 1e6);

fn check_length(tensor: &'static str, array: &[f32], expected: Option<usize>) -> Result<(), NgramError> {
    if Some(array.len()) == expected {
        return Ok(());
    }
    let expected = expected
        .map_or_else(|| tr!("a length that memory can hold", "メモリに入る長さ"), |n| tr!("{n} numbers", "{n} 個の数"));
    Err(tensor_error(tensor, expected, array.len().to_string()))
}

fn tensor_error(tensor: &'static str, expected: String, got: String) -> NgramError {
    NgramError::Tensor { tensor, expected, got }
}
