//! Options of worked examples: how attention and the other layers are computed.

use crate::examples::matrices::{NestedMatrices, read_nested, read_number};
use crate::examples::object::JsonObject;
use chumoku::lang::lang;
use chumoku::lang::wording::quote;
use chumoku::nn::{ACTIVATIONS, NormKind, NormOrder, Pooling};
use chumoku::tr;
use chumoku_kernels::{Activation, RecurrentCell};
use ndarray::Array2;

/// Alignment of the causal mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CausalAlignment {
    /// Query i sees the keys up to i.
    TopLeft,
    /// The last query sees all keys.
    BottomRight,
}

/// Restriction on the keys that queries see.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MaskOption {
    /// The key is visible where the entry is true.
    Visible(Array2<bool>),
    /// Numbers that are added to the scaled scores.
    Additive(Array2<f64>),
}

/// Options of the computation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExampleOptions {
    pub(crate) scale: Option<f64>,
    pub(crate) beta: Option<f64>,
    /// Factors of the scores of each head: a learned β.
    pub(crate) head_factors: Option<Vec<f64>>,
    pub(crate) causal: Option<CausalAlignment>,
    pub(crate) mask: Option<MaskOption>,
    /// Maximum distance of the keys that a query sees.
    pub(crate) window: Option<usize>,
    pub(crate) hard_attention: bool,
    /// True for the additive score vᵀ tanh(q + k) instead of the dot product (Bahdanau et al. 2014).
    pub(crate) is_additive: bool,
    pub(crate) num_heads: usize,
    pub(crate) num_key_heads: Option<usize>,
    pub(crate) head_dim: Option<usize>,
    pub(crate) subtract_max: bool,
    /// True if the inputs of attention and of the feed-forward network are added to their outputs.
    pub(crate) residual: bool,
    /// Position of the layer normalization of attention; it implies a residual connection.
    pub(crate) norm: Option<NormOrder>,
    /// True if the normalization of attention is RMS normalization.
    pub(crate) rms_norm: bool,
    pub(crate) epsilon: f64,
    /// Activation after the first linear layer of the feed-forward network.
    pub(crate) activation: Option<Activation>,
    /// Position of the normalization of the feed-forward network; it implies a residual connection.
    pub(crate) norm_2: Option<NormOrder>,
    /// True if the normalization of the feed-forward network is RMS normalization.
    pub(crate) rms_norm_2: bool,
    /// ε of that normalization, if it differs.
    pub(crate) epsilon_2: Option<f64>,
    /// The normalization after the last layer, if any, and its ε, if it differs.
    pub(crate) last_norm: Option<NormKind>,
    pub(crate) epsilon_last: Option<f64>,
    /// The normalization of the sum of embeddings, if any, and its ε, if it differs.
    pub(crate) embedding_norm: Option<NormKind>,
    pub(crate) epsilon_embedding: Option<f64>,
    /// Base of rotary positions.
    pub(crate) rotary_base: Option<f64>,
    /// ALiBi's distance penalty: one slope for each head.
    pub(crate) alibi_slopes: Option<Vec<f64>>,
    /// ε of the RMS normalization of each head's queries and keys, if there is one.
    pub(crate) head_norm_epsilon: Option<f64>,
    /// The cell of a recurrent network, which replaces attention.
    pub(crate) cell: Option<RecurrentCell>,
    /// The poolings whose results are concatenated to one row.
    pub(crate) pooling: Vec<Pooling>,
    /// True if the dense layer after pooling ends with tanh.
    pub(crate) dense_tanh: bool,
    /// The activation of the dense layer, if it is not tanh.
    pub(crate) dense_activation: Option<Activation>,
    /// The normalization of the dense layer, if any, and its ε, if it differs.
    pub(crate) dense_norm: Option<NormKind>,
    pub(crate) epsilon_dense: Option<f64>,
    /// True if the pooled row is divided by its length.
    pub(crate) unit_length: bool,
}

impl Default for ExampleOptions {
    fn default() -> Self {
        ExampleOptions::read("{}").expect("all options may be left out")
    }
}

/// Reads a mask, which has only booleans or only numbers.
fn read_mask(text: &str) -> Result<MaskOption, String> {
    fn one<T>(read: NestedMatrices<T>) -> Result<Array2<T>, String> {
        let mut matrices = read.matrices;
        let found = matrices.len();
        let matrix = matrices.pop().filter(|_| found == 1);
        matrix.ok_or_else(|| {
            tr!(
                "options.mask: expected one matrix for all heads, found {found}",
                "options.mask: すべてのヘッドに一つの行列が必要ですが、{found} 個です"
            )
        })
    }
    let entries = lang().pick("entries", "要素");
    // The first entry decides between the two.
    let first = text.trim_start_matches(|c: char| c == '[' || c.is_whitespace());
    if first.starts_with("true") || first.starts_with("false") {
        let entry = |text: &str| match text {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(tr!(
                "expected true (the key is seen) or false, as at the mask's first place, found {}",
                "マスクの先頭と同じく true（キーが見える）か false が必要ですが、{} です",
                quote(other)
            )),
        };
        return Ok(MaskOption::Visible(one(read_nested(text, "options.mask", entries, entry)?)?));
    }
    let entry = |text: &str| match text {
        "true" | "false" => Err(tr!(
            "expected a number, which is added to the score, as at the mask's first place, found {}; a mask is all numbers, \
             or all true and false",
            "マスクの先頭と同じく、スコアに加える数値が必要ですが、{} です。マスクはすべて数値か、すべて true と false です",
            quote(text)
        )),
        text => {
            let number = read_number(text).map(|printed| printed.value);
            number.map_err(|problem| {
                tr!(
                    "{problem}; a mask holds true and false, or numbers",
                    "{problem}。マスクに書けるのは true と false か、数値です"
                )
            })
        }
    };
    Ok(MaskOption::Additive(one(read_nested(text, "options.mask", entries, entry)?)?))
}

/// The names of the options in files.
const OPTION_KEYS: &str = "score scale causal mask window beta hard num_heads num_key_heads d_k subtract_max residual norm rms_norm \
    epsilon activation norm_2 rms_norm_2 epsilon_2 last_norm epsilon_last embedding_norm epsilon_embedding \
    rotary_base alibi_slopes head_norm_epsilon cell pooling dense_tanh dense_activation dense_norm epsilon_dense unit_length";

/// Readers for the values of options.
impl JsonObject<'_> {
    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>, String> {
        let found: Option<f64> = self.value(key, "options.", ["a number", "数値"])?;
        Ok(found)
    }

    fn count(&self, key: &str) -> Result<Option<usize>, String> {
        let found: Option<usize> = self.value(key, "options.", ["a whole number from 1", "1 以上の整数"])?;
        if found == Some(0) {
            return Err(tr!(
                "options.{key}: expected a whole number from 1, found 0",
                "options.{key}: 1 以上の整数が必要ですが、0 です"
            ));
        }
        Ok(found)
    }
}

impl ExampleOptions {
    pub(crate) fn read(text: &str) -> Result<ExampleOptions, String> {
        let file = JsonObject::read(text, "options", &OPTION_KEYS.split(' ').collect::<Vec<_>>())?;
        let activations =
            ["\"relu\", \"gelu\", \"gelu_tanh\" or \"silu\"", "\"relu\"、\"gelu\"、\"gelu_tanh\"、\"silu\" のどれか"];
        let kinds = ["\"layer\" or \"rms\"", "\"layer\" か \"rms\" "];
        let orders = ["\"pre\" or \"post\"", "\"pre\" か \"post\" "];
        let truth = |key: &str| file.value::<bool>(key, "options.", ["true or false", "true か false "]);
        let finite = |key: &str| match file.number(key)? {
            Some(x) if !x.is_finite() => Err(tr!(
                "options.{key}: expected a finite number, found {x}",
                "options.{key}: 有限の数が必要ですが、{x} です"
            )),
            found => Ok(found),
        };
        let causal = match file.raw_value("causal") {
            None | Some("false") => None,
            Some("true" | "\"top-left\"") => Some(CausalAlignment::TopLeft),
            Some("\"bottom-right\"") => Some(CausalAlignment::BottomRight),
            Some(other) => {
                return Err(tr!(
                    "options.causal: expected true, false, \"top-left\" or \"bottom-right\", found {}",
                    "options.causal: true、false、\"top-left\"、\"bottom-right\" のいずれかが必要ですが、{} です",
                    quote(other)
                ));
            }
        };
        let mask = file.raw_value("mask").map(read_mask).transpose()?;
        let is_additive = match file.raw_value("score") {
            None | Some("\"dot\"") => false,
            Some("\"additive\"") => true,
            Some(other) => {
                return Err(tr!(
                    "options.score: expected \"dot\" or \"additive\", found {}",
                    "options.score: \"dot\" か \"additive\" が必要ですが、{} です",
                    quote(other)
                ));
            }
        };
        let small = |key: &str| match finite(key)? {
            Some(epsilon) if epsilon < 0.0 => Err(tr!(
                "options.{key}: expected 0 or more, found {epsilon}",
                "options.{key}: 0 以上の数が必要ですが、{epsilon} です"
            )),
            found => Ok(found),
        };
        let epsilon = small("epsilon")?.unwrap_or(1e-5);
        let activation = |key: &str| match file.value::<String>(key, "options.", activations)? {
            None => Ok(None),
            Some(name) => match ACTIVATIONS.into_iter().find(|(known, _)| *known == name) {
                Some((_, activation)) => Ok(Some(activation)),
                None => {
                    let (expected, found) = (lang().pick(activations[0], activations[1]), quote(&name));
                    Err(tr!(
                        "options.{key}: expected {expected}, found {found}",
                        "options.{key}: {expected}が必要ですが、{found} です"
                    ))
                }
            },
        };
        let cells = ["\"rnn\", \"lstm\" or \"gru\"", "\"rnn\"、\"lstm\"、\"gru\" のどれか"];
        let cell = match file.value::<String>("cell", "options.", cells)? {
            None => None,
            Some(name) => match RecurrentCell::from_name(&name) {
                Some(cell) => Some(cell),
                None => {
                    let (expected, found) = (lang().pick(cells[0], cells[1]), quote(&name));
                    return Err(tr!(
                        "options.cell: expected {expected}, found {found}",
                        "options.cell: {expected}が必要ですが、{found} です"
                    ));
                }
            },
        };
        let ways = [
            "\"mean\", \"max\", \"first\", \"last\" or \"mean_sqrt_length\"",
            "\"mean\"、\"max\"、\"first\"、\"last\"、\"mean_sqrt_length\" のどれか",
        ];
        Ok(ExampleOptions {
            scale: finite("scale")?,
            beta: finite("beta")?,
            head_factors: None,
            causal,
            mask,
            window: file.value("window", "options.", ["a whole number", "0 以上の整数"])?,
            hard_attention: truth("hard")?.unwrap_or(false),
            is_additive,
            num_heads: file.count("num_heads")?.unwrap_or(1),
            num_key_heads: file.count("num_key_heads")?,
            head_dim: file.count("d_k")?,
            subtract_max: truth("subtract_max")?.unwrap_or(true),
            residual: truth("residual")?.unwrap_or(false),
            norm: file.value("norm", "options.", orders)?,
            rms_norm: truth("rms_norm")?.unwrap_or(false),
            epsilon,
            activation: activation("activation")?,
            norm_2: file.value("norm_2", "options.", orders)?,
            rms_norm_2: truth("rms_norm_2")?.unwrap_or(false),
            epsilon_2: small("epsilon_2")?,
            last_norm: file.value("last_norm", "options.", kinds)?,
            epsilon_last: small("epsilon_last")?,
            embedding_norm: file.value("embedding_norm", "options.", kinds)?,
            epsilon_embedding: small("epsilon_embedding")?,
            rotary_base: finite("rotary_base")?,
            alibi_slopes: file.value(
                "alibi_slopes",
                "options.",
                ["a list of numbers, one for each head", "ヘッドごとの数値の配列"],
            )?,
            head_norm_epsilon: small("head_norm_epsilon")?,
            cell,
            pooling: file.value::<Pooling>("pooling", "options.", ways)?.into_iter().collect(),
            dense_tanh: truth("dense_tanh")?.unwrap_or(false),
            dense_activation: activation("dense_activation")?,
            dense_norm: file.value("dense_norm", "options.", kinds)?,
            epsilon_dense: small("epsilon_dense")?,
            unit_length: truth("unit_length")?.unwrap_or(false),
        })
    }
}
