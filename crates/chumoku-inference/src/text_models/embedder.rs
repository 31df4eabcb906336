//! Text embeddings by a pretrained encoder. Texts with similar meanings have nearby vectors.

use crate::model_folder::{Snapshot, with_snapshot};
use crate::models::TextEncoder;
use crate::nn::{Offsets, Tokens};
use crate::parallel_batches::{BATCH_TOKENS, batches_by_length, map_batches};
use crate::params::Params;
use crate::pretrained::{
    DenseProjection, EncoderCheckpoint, SentenceSettings, encoder_folder, no_layers_error, read_max_tokens,
};
use crate::text::{Encoding, PretrainedTokenizer};
use crate::{Error, Result, tr};
use chumoku_kernels::{Epilogue, FusedGemm, MatRef, Precision, parallel};
use ndarray::{Array2, ArrayView1, Axis, concatenate};
use std::borrow::Cow;
use std::path::Path;

/// A pretrained encoder with its tokenizer and pooling.
#[derive(Debug)]
pub struct TextEmbedder {
    pub(super) model: TextEncoder,
    pub(super) params: Params<f32>,
    tokenizer: PretrainedTokenizer,
    pub(crate) sentence: SentenceSettings,
    /// The maximum number of tokens in a text.
    max_tokens: usize,
    embedding_dim: usize,
}

/// Options of [`TextEmbedder::embed`].
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct EmbedOptions<'a> {
    /// The name of the prompt to put before each text. Defaults to the folder's default prompt.
    pub prompt: Option<&'a str>,
    /// Scales vectors to length 1. Defaults to the folder's setting, or to `true` if there is none.
    pub normalize: Option<bool>,
}

/// Vectors of texts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Embeddings {
    /// (texts, width)
    pub vectors: Array2<f32>,
    /// The number of texts that were truncated.
    pub truncated: usize,
}

impl TextEmbedder {
    /// Reads an encoder in the format of Hugging Face. Input is validated. `precision` is the precision of matrix
    /// products and defaults to the folder's setting.
    ///
    /// # Errors
    /// If a file is missing, damaged, inconsistent with the others, or requires an unsupported feature.
    pub fn load(folder: &Path, precision: Option<Precision>) -> Result<TextEmbedder> {
        with_snapshot(folder, |folder| TextEmbedder::from_snapshot(folder, precision))
    }

    fn from_snapshot(folder: &Snapshot, precision: Option<Precision>) -> Result<TextEmbedder> {
        let inner = encoder_folder(folder)?;
        let place = inner.as_ref().unwrap_or(folder);
        let (checkpoint, tokenizer) = EncoderCheckpoint::read_with_tokenizer(place, precision)?;
        let EncoderCheckpoint { model, params, .. } = checkpoint;
        let config = model.config();
        let sentence = SentenceSettings::read(folder, config.encoder.d_model)?;
        let max_tokens = match sentence.max_tokens {
            Some(limit) => limit.clamp(1, config.max_length),
            None => read_max_tokens(place, config.max_length)?,
        };
        let pooled = config.encoder.d_model * sentence.pooling.len();
        let embedding_dim = sentence.dense.last().map_or(pooled, |dense| dense.outputs);
        Ok(TextEmbedder { model, params, tokenizer, sentence, max_tokens, embedding_dim })
    }

    /// Returns the length of a text vector.
    pub fn embedding_dim(&self) -> usize {
        self.embedding_dim
    }

    /// Returns the maximum number of tokens in a text, special tokens included.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// Returns the encoder.
    pub fn model(&self) -> &TextEncoder {
        &self.model
    }

    /// Returns the encoder's parameters.
    pub fn params(&self) -> &Params<f32> {
        &self.params
    }

    /// Returns the tokenizer.
    pub(crate) fn tokenizer(&self) -> &PretrainedTokenizer {
        &self.tokenizer
    }

    /// Returns the names of the folder's prompts.
    pub fn prompts(&self) -> impl Iterator<Item = &str> {
        self.sentence.prompts.keys().map(String::as_str)
    }

    /// Returns `true` if the folder defines the pooling. Otherwise the vector is the mean of all tokens, scaled to
    /// length 1.
    pub fn has_pooling_config(&self) -> bool {
        self.sentence.is_declared
    }

    /// Checks that the model has layers.
    pub(crate) fn check_layers(&self) -> Result<()> {
        if self.model.config().encoder.num_layers == 0 { Err(no_layers_error()) } else { Ok(()) }
    }

    /// Returns the prompt to put before each text.
    fn prompt(&self, options: EmbedOptions<'_>) -> Result<&str> {
        let name = options.prompt.or(self.sentence.default_prompt.as_deref());
        let Some(name) = name else { return Ok("") };
        if let Some(text) = self.sentence.prompts.get(name) {
            return Ok(text);
        }
        let known: Vec<&str> = self.prompts().collect();
        Err(Error::Setting(match known.is_empty() {
            true => tr!(
                "prompt {name}: this model has no prompts; write the prompt into the texts instead",
                "プロンプト {name}: このモデルにはプロンプトがありません。必要ならテキストの先頭に直接書いてください"
            ),
            false => tr!(
                "prompt {name}: expected one of this model's prompts: {}",
                "プロンプト {name}: このモデルのプロンプトは次のとおりです: {}",
                known.join(", ")
            ),
        }))
    }

    /// Computes the vector of each text. It does not depend on the other texts.
    ///
    /// # Errors
    /// If there is no such prompt, a text cannot be tokenized, or a vector is not finite.
    pub fn embed(&self, texts: &[&str], options: EmbedOptions<'_>) -> Result<Embeddings> {
        let prompt = self.prompt(options)?;
        let given: Vec<Cow<'_, str>> = texts.iter().map(|text| self.preprocess(text, prompt)).collect();
        let given: Vec<&str> = given.iter().map(AsRef::as_ref).collect();
        let encodings = self.tokenizer.encode_all(&given, self.max_tokens)?;
        let vectors = self.vectors(&self.params, &encodings, options.normalize.unwrap_or(self.sentence.normalize))?;
        let cut = encodings.iter().filter(|encoding| encoding.truncated > 0).count();
        Ok(Embeddings { vectors, truncated: cut })
    }

    /// Prepares a text for the tokenizer: trimming, prompt and lowercasing.
    fn preprocess<'a>(&self, text: &'a str, prompt: &str) -> Cow<'a, str> {
        let text = if self.sentence.trim { text.trim() } else { text };
        match (prompt, self.sentence.lowercase) {
            ("", false) => Cow::Borrowed(text),
            (_, false) => format!("{prompt}{text}").into(),
            (_, true) => format!("{prompt}{text}").to_lowercase().into(),
        }
    }

    /// Prepares a text for the tokenizer with the default prompt.
    pub(crate) fn preprocess_with_default_prompt<'a>(&self, text: &'a str) -> Result<Cow<'a, str>> {
        Ok(self.preprocess(text, self.prompt(EmbedOptions::default())?))
    }

    /// Computes the vectors of tokenized texts, (texts, width).
    ///
    /// # Errors
    /// If a vector is not finite.
    pub(crate) fn vectors(&self, params: &Params<f32>, encodings: &[Encoding], normalize: bool) -> Result<Array2<f32>> {
        let lengths: Vec<usize> = encodings.iter().map(|encoding| encoding.ids.len()).collect();
        let mut vectors = Array2::zeros((encodings.len(), self.embedding_dim));
        let batches = batches_by_length(&lengths, BATCH_TOKENS);
        let found = map_batches(&batches, |batch| {
            self.embed_batch(params, &batch.iter().map(|&i| &encodings[i]).collect::<Vec<_>>())
        })?;
        for (found, batch) in found.iter().zip(&batches) {
            for (row, &i) in found.rows().into_iter().zip(batch) {
                vectors.row_mut(i).assign(&row);
            }
        }
        finish_vectors(vectors, normalize)
    }

    /// Computes the vectors of a batch without normalization, (texts, width).
    fn embed_batch(&self, params: &Params<f32>, encodings: &[&Encoding]) -> Result<Array2<f32>> {
        let ids: Vec<u32> = encodings.iter().flat_map(|encoding| encoding.ids.iter().copied()).collect();
        let types: Vec<u32> = encodings.iter().flat_map(|encoding| encoding.type_ids.iter().copied()).collect();
        let offsets = Offsets::from_lengths(encodings.iter().map(|encoding| encoding.ids.len()));
        let tokens = Tokens { ids: &ids, offsets: &offsets, types: Some(&types) };
        let parts = self.model.map_groups(params, tokens, |x, offsets| {
            let pooled: Vec<_> = self.sentence.pooling.iter().map(|p| p.forward(x.view(), offsets).0).collect();
            let views: Vec<_> = pooled.iter().map(|pooled| pooled.view()).collect();
            Ok(concatenate(Axis(1), &views).expect("each has a row for each sequence"))
        })?;
        let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
        let pooled = concatenate(Axis(0), &views).expect("rows have one width");
        self.sentence.dense.iter().try_fold(pooled, |x, dense| dense.apply(&x, params.precision()))
    }
}

/// Scales vectors to length 1 if `normalize`, and checks them.
///
/// # Errors
/// If a vector is not finite.
pub(super) fn finish_vectors(mut vectors: Array2<f32>, normalize: bool) -> Result<Array2<f32>> {
    if normalize {
        vectors.rows_mut().into_iter().for_each(|mut row| {
            let length = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
            // A zero vector stays zero, as in sentence-transformers.
            row.mapv_inplace(|x| (f64::from(x) / length.max(1e-12)) as f32);
        });
    }
    if vectors.iter().any(|x| !x.is_finite()) {
        return Err(Error::NotFinite(tr!(
            "the model computes a vector that is not finite: its weights are too large to use",
            "モデルのベクトルが有限の数になりません。重みが大きすぎて使えません"
        )));
    }
    Ok(vectors)
}

impl Embeddings {
    /// Appends vectors of the same model.
    ///
    /// # Panics
    /// If their width differs.
    pub fn append(&mut self, more: Embeddings) {
        self.vectors.append(Axis(0), more.vectors.view()).expect("vectors of one model have one width");
        self.truncated += more.truncated;
    }

    /// Returns the nearest rows of `self` for each query, as (row, cosine), nearest first. Ties keep the order of the
    /// rows.
    ///
    /// The search is exhaustive. All vectors must have length 1, so that their product is the cosine.
    ///
    /// # Panics
    /// If the widths differ.
    #[must_use]
    pub fn nearest(&self, queries: &Embeddings, top: usize) -> Vec<Vec<(usize, f32)>> {
        assert_eq!(self.vectors.ncols(), queries.vectors.ncols(), "vectors of one model have one width");
        let of_query = |query: ArrayView1<'_, f32>| {
            let products = parallel::map_indices(self.vectors.nrows(), |row| self.vectors.row(row).dot(&query));
            let mut order: Vec<usize> = (0..products.len()).collect();
            let nearer = |&a: &usize, &b: &usize| products[b].total_cmp(&products[a]).then(a.cmp(&b));
            if top < order.len() {
                order.select_nth_unstable_by(top, nearer);
                order.truncate(top);
            }
            order.sort_unstable_by(nearer);
            order.into_iter().map(|row| (row, products[row])).collect()
        };
        queries.vectors.rows().into_iter().map(of_query).collect()
    }
}

impl DenseProjection {
    /// `activation(x Wᵀ + b)`
    fn apply(&self, x: &Array2<f32>, precision: Precision) -> Result<Array2<f32>> {
        let (rows, inputs) = x.dim();
        let x = x.as_standard_layout();
        let a = MatRef::new(x.as_slice().expect("packed"), rows, inputs)?;
        let b = MatRef::new(&self.weight, self.outputs, inputs)?.t().into();
        let bias = (!self.bias.is_empty()).then_some(&self.bias[..]);
        let product = FusedGemm { a, b, bias, epilogue: Epilogue::Identity, precision };
        let mut y = Array2::from_shape_vec((rows, self.outputs), product.compute()?).expect("as many as promised");
        if self.is_tanh {
            y.mapv_inplace(f32::tanh);
        }
        Ok(y)
    }
}
