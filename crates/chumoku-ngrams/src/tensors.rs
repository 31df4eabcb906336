//! Conversion of a model to named arrays for a file, and back.

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
/// output, the log-odds of class 1. Otherwise there is one output per class or label.
#[derive(Debug, Clone, PartialEq)]
pub struct NgramTensors<'a> {
    /// The features' hashes as signed numbers with the same 64 bits; strictly ascending as unsigned numbers.
    pub hashes: Cow<'a, [i64]>,
    /// Weight of each feature in a row (idf · √s in the formula), above 0.
    pub idf: Cow<'a, [f32]>,
    /// W.
    pub weights: Cow<'a, [f32]>,
    /// The rows of W for the feature columns, (column features, outputs); empty without columns.
    pub columns: Cow<'a, [f32]>,
    /// b.
    pub bias: Cow<'a, [f32]>,
    /// The logarithm of each class's share of the training rows, the prediction for a text without features.
    pub prior: Cow<'a, [f32]>,
}

impl NgramTensors<'_> {
    /// Returns name and shape of each array: `hashes`, `idf`, `weights`, `bias`, `prior` and, with feature columns,
    /// `columns`.
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
    /// Returns the model's arrays.
    ///
    /// Together with [`NgramModel::scheme`] they are the whole model.
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

    /// Builds a model from its scheme and arrays, which may come from an untrusted file. `is_multi_label` is true for
    /// multi-label models.
    ///
    /// # Errors
    ///
    /// [`NgramError::Setting`] or [`NgramError::Tensor`] if lengths contradict each other, hashes are not strictly
    /// ascending, or a number is not finite.
    pub fn from_tensors(
        scheme: NgramScheme,
        tensors: NgramTensors<'_>,
        is_multi_label: bool,
    ) -> Result<Self, NgramError> {
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
        let outputs = num_outputs(classes, is_multi_label);
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
                tr!("a decrease after index {at}", "位置 {at} の後で減少"),
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
            is_multi_label,
            report: None,
        })
    }
}

/// Smallest and largest weight of a feature in a file. The range is far wider than what training produces, but no
/// square or sum of squares overflows or underflows.
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
