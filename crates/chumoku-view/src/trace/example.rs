//! Worked examples from files: what is given, and what is claimed to follow.

use super::figures::{ClaimedNumber, figures};
use super::number::Printed;
use super::object::Object;
use super::quantity::Quantity;
use chumoku::lang::lang;
use chumoku::lang::wording::quoted;
use chumoku::nn::{ACTIVATIONS, NormKind, NormOrder, Pooling};
use chumoku::{Error, Result, tr};
use chumoku_kernels::{Activation, Cell};
use ndarray::Array2;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

/// A worked example of attention: matrices, and what someone says follows from them.
///
/// `docs/worked-examples.md` describes the file.
#[derive(Clone, Debug, Default)]
pub struct WorkedExample {
    /// What it is called.
    pub title: String,
    /// Where it was published.
    pub source: String,
    /// The words of the queries.
    pub tokens: Vec<String>,
    /// The words of the keys: those of the queries unless it is set.
    pub key_tokens: Vec<String>,
    /// The names of the classes, where it ends in some.
    pub classes: Vec<String>,
    pub(crate) inputs: HashMap<Quantity, Vec<Array2<f64>>>,
    pub(crate) options: Options,
    /// In the order of a trace.
    pub(crate) claims: Vec<(Quantity, Claim)>,
    /// Of an example of sizes.
    pub(crate) figures: Vec<ClaimedNumber>,
}

/// The numbers claimed of a quantity, a matrix for each head; none where nothing is claimed.
pub(crate) type Claim = Vec<Array2<Option<Printed>>>;

/// Where causality counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Diagonal {
    /// Query i sees the keys up to i.
    TopLeft,
    /// The last query sees all keys.
    BottomRight,
}

/// Who may see what.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MaskOption {
    /// Where it is true, the key is seen.
    Seen(Array2<bool>),
    /// Is added to the scaled scores.
    Added(Array2<f64>),
}

/// How attention is computed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) scale: Option<f64>,
    pub(crate) beta: Option<f64>,
    /// Factors of the scores of each head: a trained β.
    pub(crate) head_factors: Option<Vec<f64>>,
    pub(crate) causal: Option<Diagonal>,
    pub(crate) mask: Option<MaskOption>,
    /// A query sees keys at most so far away.
    pub(crate) window: Option<usize>,
    pub(crate) hard: bool,
    pub(crate) num_heads: usize,
    pub(crate) num_key_heads: Option<usize>,
    pub(crate) head_dim: Option<usize>,
    pub(crate) subtract_max: bool,
    /// Whether its input is added to what attention comes to, and to what the feed-forward network comes to.
    pub(crate) residual: bool,
    /// Where layer normalisation stands; with it there is a residual connection.
    pub(crate) norm: Option<NormOrder>,
    /// Whether it is RMS normalisation.
    pub(crate) rms_norm: bool,
    pub(crate) epsilon: f64,
    /// What the feed-forward network applies to its first layer.
    pub(crate) activation: Option<Activation>,
    /// Where the normalisation of the feed-forward network stands; with it there is a residual connection.
    pub(crate) norm_2: Option<NormOrder>,
    /// Whether it is RMS normalisation.
    pub(crate) rms_norm_2: bool,
    /// Its ε, if it is another.
    pub(crate) epsilon_2: Option<f64>,
    /// The normalisation behind the last layer, if there is one, and its ε, if it is another.
    pub(crate) last_norm: Option<NormKind>,
    pub(crate) epsilon_last: Option<f64>,
    /// The base of rotary positions.
    pub(crate) rotary: Option<f64>,
    /// What ALiBi takes off the score for each step of distance, a number for each head.
    pub(crate) alibi: Option<Vec<f64>>,
    /// ε of the RMS norm of each head's queries and keys, if they have one.
    pub(crate) head_norm_epsilon: Option<f64>,
    /// The cell of a recurrent network, in the place of attention.
    pub(crate) cell: Option<Cell>,
    /// How one row is made of the last ones: these, side by side.
    pub(crate) pooling: Vec<Pooling>,
    /// Whether the dense layer after pooling ends with tanh.
    pub(crate) dense_tanh: bool,
    /// What else is applied to it.
    pub(crate) dense_activation: Option<Activation>,
    /// The normalisation behind that, if there is one, and its ε, if it is another.
    pub(crate) dense_norm: Option<NormKind>,
    pub(crate) epsilon_dense: Option<f64>,
    /// Whether that row is divided by its length.
    pub(crate) unit_length: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            scale: None,
            beta: None,
            head_factors: None,
            causal: None,
            mask: None,
            window: None,
            hard: false,
            num_heads: 1,
            num_key_heads: None,
            head_dim: None,
            subtract_max: true,
            residual: false,
            norm: None,
            rms_norm: false,
            epsilon: 1e-5,
            activation: None,
            norm_2: None,
            rms_norm_2: false,
            epsilon_2: None,
            last_norm: None,
            epsilon_last: None,
            rotary: None,
            alibi: None,
            head_norm_epsilon: None,
            cell: None,
            pooling: Vec::new(),
            dense_tanh: false,
            dense_activation: None,
            dense_norm: None,
            epsilon_dense: None,
            unit_length: false,
        }
    }
}

/// Entries of one, two or three dimensions.
struct Nested<T> {
    matrices: Vec<Array2<T>>,
    /// Whether it was written as a single list.
    is_list: bool,
}

/// Most numbers of a matrix: more is no worked example, and no machine's memory is to be filled by a file.
const MOST: usize = 1 << 24;

/// Reads matrices of what `of` says; `entry` reads one of them, from its text.
fn nested<T>(
    text: &str,
    place: &str,
    of: &str,
    entry: impl Fn(&str) -> Result<T, String>,
) -> Result<Nested<T>, String> {
    let whole: &RawValue = serde_json::from_str(text).map_err(|error| format!("{place}: {error}"))?;
    let list = |raw: &RawValue| serde_json::from_str::<Vec<Box<RawValue>>>(raw.get()).ok();
    let fault = |where_: &str, found: &RawValue| {
        tr!(
            "{place}{where_}: expected a matrix [[…], […]] or a list […] of {of}, found {}",
            "{place}{where_}: {of}の行列 [[…], […]] か配列 […] が必要ですが、{} です",
            quoted(found.get())
        )
    };
    let rows = list(whole).ok_or_else(|| fault("", whole))?;
    if rows.is_empty() {
        return Err(tr!(
            "{place}: expected at least one row, found an empty list",
            "{place}: 1 行以上が必要ですが、空の配列です"
        ));
    }
    let row = |raw: &RawValue, at: String| -> Result<Vec<T>, String> {
        let entries = list(raw).ok_or_else(|| fault(&at, raw))?;
        let read = |(j, raw): (usize, &RawValue)| {
            entry(raw.get()).map_err(|problem| format!("{place}{at}[{}]: {problem}", j + 1))
        };
        entries.iter().map(AsRef::as_ref).enumerate().map(read).collect()
    };
    let matrix = |rows: Vec<Vec<T>>, at: &str| -> Result<Array2<T>, String> {
        let (count, columns) = (rows.len(), rows.first().map_or(0, Vec::len));
        if let Some(i) = rows.iter().position(|row| row.len() != columns) {
            let found = rows[i].len();
            return Err(tr!(
                "{place}{at}[{}]: expected {columns} {of}, as in row 1, found {found}",
                "{place}{at}[{}]: 1 行目と同じく{of}が {columns} 個必要ですが、{found} 個です",
                i + 1
            ));
        }
        if columns == 0 || count.saturating_mul(columns) > MOST {
            return Err(tr!(
                "{place}{at}: expected 1 to {MOST} {of}, found {count}×{columns}",
                "{place}{at}: {of}は 1 個から {MOST} 個までですが、{count}×{columns} です"
            ));
        }
        Ok(Array2::from_shape_vec((count, columns), rows.into_iter().flatten().collect()).expect("even rows"))
    };
    let Some(first) = list(&rows[0]) else {
        let list = row(whole, String::new())?;
        return Ok(Nested { matrices: vec![matrix(vec![list], "")?], is_list: true });
    };
    let is_deep = first.first().is_some_and(|inner| list(inner).is_some());
    if !is_deep {
        let rows = rows.iter().enumerate().map(|(i, raw)| row(raw, format!("[{}]", i + 1)));
        return Ok(Nested { matrices: vec![matrix(rows.collect::<Result<_, _>>()?, "")?], is_list: false });
    }
    let head = |(h, raw): (usize, &RawValue)| {
        let at = format!("[{}]", h + 1);
        let rows = list(raw).ok_or_else(|| fault(&at, raw))?;
        let rows = rows.iter().enumerate().map(|(i, raw)| row(raw, format!("{at}[{}]", i + 1)));
        matrix(rows.collect::<Result<_, _>>()?, &at)
    };
    let matrices: Vec<Array2<T>> =
        rows.iter().map(AsRef::as_ref).enumerate().map(head).collect::<Result<_, String>>()?;
    let (rows, columns) = matrices[0].dim();
    if let Some(h) = matrices.iter().position(|matrix| matrix.dim() != (rows, columns)) {
        let found = matrices[h].dim();
        return Err(tr!(
            "{place}[{}]: expected {rows}×{columns} {of}, as of head 1, found {}×{}",
            "{place}[{}]: ヘッド 1 と同じ {rows}×{columns} の{of}が必要ですが、{}×{} です",
            h + 1,
            found.0,
            found.1
        ));
    }
    Ok(Nested { matrices, is_list: false })
}

/// A number as a file writes it: plain, or as a text, which keeps its last zeros.
fn printed(text: &str) -> Result<Printed, String> {
    match text.starts_with('"') {
        true => Printed::parse(&serde_json::from_str::<String>(text).map_err(|error| error.to_string())?),
        false => Printed::parse(text),
    }
}

/// Numbers, with gaps.
fn numbers(text: &str, place: &str) -> Result<Nested<Option<Printed>>, String> {
    nested(text, place, lang().pick("numbers", "数値"), |text| {
        if text == "null" { Ok(None) } else { printed(text).map(Some) }
    })
}

/// A mask is all true and false, or all numbers.
fn mask(text: &str) -> Result<MaskOption, String> {
    fn one<T>(read: Nested<T>) -> Result<Array2<T>, String> {
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
    // Which of both it is: what stands first decides.
    let first = text.trim_start_matches(|c: char| c == '[' || c.is_whitespace());
    if first.starts_with("true") || first.starts_with("false") {
        let entry = |text: &str| match text {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(tr!(
                "expected true (the key is seen) or false, as at the mask's first place, found {}",
                "マスクの先頭と同じく true（キーが見える）か false が必要ですが、{} です",
                quoted(other)
            )),
        };
        return Ok(MaskOption::Seen(one(nested(text, "options.mask", entries, entry)?)?));
    }
    let entry = |text: &str| match text {
        "true" | "false" => Err(tr!(
            "expected a number, which is added to the score, as at the mask's first place, found {}; a mask is all numbers, \
             or all true and false",
            "マスクの先頭と同じく、スコアに加える数値が必要ですが、{} です。マスクはすべて数値か、すべて true と false です",
            quoted(text)
        )),
        text => {
            let number = printed(text).map(|printed| printed.value);
            number.map_err(|problem| {
                tr!(
                    "{problem}; a mask holds true and false, or numbers",
                    "{problem}。マスクに書けるのは true と false か、数値です"
                )
            })
        }
    };
    Ok(MaskOption::Added(one(nested(text, "options.mask", entries, entry)?)?))
}

/// A list stands for a column of what has one number a row, and for a row of everything else.
fn upright(quantity: Quantity, numbers: Nested<Option<Printed>>) -> Claim {
    match numbers.is_list
        && matches!(quantity, Quantity::Sums | Quantity::Largest | Quantity::ClassSums | Quantity::ClassLargest)
    {
        true => numbers.matrices.into_iter().map(|m| m.reversed_axes()).collect(),
        false => numbers.matrices,
    }
}

const KEYS: [&str; 10] =
    ["title", "source", "tokens", "key_tokens", "classes", "inputs", "options", "claims", "count", "positions"];
const OPTIONS: [&str; 30] = [
    "scale",
    "causal",
    "mask",
    "window",
    "beta",
    "hard",
    "num_heads",
    "num_key_heads",
    "d_k",
    "subtract_max",
    "residual",
    "norm",
    "rms_norm",
    "epsilon",
    "activation",
    "norm_2",
    "rms_norm_2",
    "epsilon_2",
    "last_norm",
    "epsilon_last",
    "rotary_base",
    "alibi_slopes",
    "head_norm_epsilon",
    "cell",
    "pooling",
    "dense_tanh",
    "dense_activation",
    "dense_norm",
    "epsilon_dense",
    "unit_length",
];

impl WorkedExample {
    /// Reads a file, or standard input if it is called `-`.
    ///
    /// # Errors
    /// If it cannot be read, or is no worked example: where, what was expected, and what was found.
    pub fn open(path: &Path) -> Result<WorkedExample> {
        let bytes = match path.as_os_str() == "-" {
            true => {
                let mut bytes = Vec::new();
                std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
            }
            false => {
                chumoku::data::check_name(path)?;
                std::fs::read(path)
            }
        };
        let bytes = bytes.map_err(Error::io("reading", path))?;
        let fault = |problem: String| Error::Example { doing: "reading", file: path.display().to_string(), problem };
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            fault(tr!(
                "expected UTF-8, found another byte at offset {}; save the file as UTF-8",
                "UTF-8 ではありません（オフセット {}）。ファイルを UTF-8 で保存してください",
                error.valid_up_to()
            ))
        })?;
        WorkedExample::parse(text.trim_start_matches('\u{feff}')).map_err(fault)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<WorkedExample, String> {
        let file = Object::read(text, "", &KEYS)?;
        let names: Vec<&str> = Quantity::ALL.into_iter().map(Quantity::name).collect();
        let (text_kind, texts) = (["a text", "文字列"], ["a list of texts", "文字列の配列"]);
        let mut example = WorkedExample {
            title: file.plain("title", "", text_kind)?.unwrap_or_default(),
            source: file.plain("source", "", text_kind)?.unwrap_or_default(),
            tokens: file.plain("tokens", "", texts)?.unwrap_or_default(),
            key_tokens: file.plain("key_tokens", "", texts)?.unwrap_or_default(),
            classes: file.plain("classes", "", texts)?.unwrap_or_default(),
            ..WorkedExample::default()
        };
        if let Some(figures) = figures(&file)? {
            return Ok(WorkedExample { figures, ..example });
        }
        let inputs = file.get("inputs").ok_or_else(|| {
            tr!(
                "the key “inputs” is missing: the matrices to start from",
                "キー “inputs”（出発点となる行列）がありません"
            )
        })?;
        let inputs = Object::read(inputs, "inputs", &names)?;
        for quantity in Quantity::ALL {
            let Some(text) = inputs.get(quantity.name()) else { continue };
            let place = format!("inputs.{}", quantity.name());
            let claim = upright(quantity, numbers(text, &place)?);
            let full = |matrix: Array2<Option<Printed>>| -> Result<Array2<f64>, String> {
                if let Some(((i, j), _)) = matrix.indexed_iter().find(|(_, entry)| entry.is_none()) {
                    return Err(tr!(
                        "{place}[{}][{}]: expected a number, found null",
                        "{place}[{}][{}]: 数値が必要ですが、null です",
                        i + 1,
                        j + 1
                    ));
                }
                Ok(matrix.mapv(|entry| entry.map_or(f64::NAN, |printed| printed.value)))
            };
            example.inputs.insert(quantity, claim.into_iter().map(full).collect::<Result<_, _>>()?);
        }
        if let Some(options) = file.get("options") {
            example.options = Options::read(options)?;
        }
        if let Some(claims) = file.get("claims") {
            let claims = Object::read(claims, "claims", &names)?;
            for quantity in Quantity::ALL {
                let Some(text) = claims.get(quantity.name()) else { continue };
                if example.inputs.contains_key(&quantity) {
                    let name = quantity.name();
                    return Err(tr!(
                        "claims.{name}: {name} is given in inputs; a claim is about what follows",
                        "claims.{name}: {name} は inputs で与えられています。主張できるのは、そこから導かれる値です"
                    ));
                }
                let claim = upright(quantity, numbers(text, &format!("claims.{}", quantity.name()))?);
                example.claims.push((quantity, claim));
            }
        }
        Ok(example)
    }
}

/// Values of options.
impl Object<'_> {
    fn number(&self, key: &str) -> Result<Option<f64>, String> {
        let found: Option<f64> = self.plain(key, "options.", ["a number", "数値"])?;
        Ok(found)
    }

    fn count(&self, key: &str) -> Result<Option<usize>, String> {
        let found: Option<usize> = self.plain(key, "options.", ["a whole number from 1", "1 以上の整数"])?;
        if found == Some(0) {
            return Err(tr!(
                "options.{key}: expected a whole number from 1, found 0",
                "options.{key}: 1 以上の整数が必要ですが、0 です"
            ));
        }
        Ok(found)
    }
}

impl Options {
    fn read(text: &str) -> Result<Options, String> {
        let file = Object::read(text, "options", &OPTIONS)?;
        let defaults = Options::default();
        let activations =
            ["\"relu\", \"gelu\", \"gelu_tanh\" or \"silu\"", "\"relu\"、\"gelu\"、\"gelu_tanh\"、\"silu\" のどれか"];
        let kinds = ["\"layer\" or \"rms\"", "\"layer\" か \"rms\" "];
        let orders = ["\"pre\" or \"post\"", "\"pre\" か \"post\" "];
        let truth = |key: &str| file.plain::<bool>(key, "options.", ["true or false", "true か false "]);
        let finite = |key: &str| match file.number(key)? {
            Some(x) if !x.is_finite() => Err(tr!(
                "options.{key}: expected a finite number, found {x}",
                "options.{key}: 有限の数が必要ですが、{x} です"
            )),
            found => Ok(found),
        };
        let causal = match file.get("causal") {
            None | Some("false") => None,
            Some("true" | "\"top-left\"") => Some(Diagonal::TopLeft),
            Some("\"bottom-right\"") => Some(Diagonal::BottomRight),
            Some(other) => {
                return Err(tr!(
                    "options.causal: expected true, false, \"top-left\" or \"bottom-right\", found {}",
                    "options.causal: true、false、\"top-left\"、\"bottom-right\" のいずれかが必要ですが、{} です",
                    quoted(other)
                ));
            }
        };
        let mask = file.get("mask").map(mask).transpose()?;
        let small = |key: &str| match finite(key)? {
            Some(epsilon) if epsilon < 0.0 => Err(tr!(
                "options.{key}: expected 0 or more, found {epsilon}",
                "options.{key}: 0 以上の数が必要ですが、{epsilon} です"
            )),
            found => Ok(found),
        };
        let epsilon = small("epsilon")?.unwrap_or(defaults.epsilon);
        let activation = |key: &str| match file.plain::<String>(key, "options.", activations)? {
            None => Ok(None),
            Some(name) => match ACTIVATIONS.into_iter().find(|(known, _)| *known == name) {
                Some((_, activation)) => Ok(Some(activation)),
                None => {
                    let (expected, found) = (lang().pick(activations[0], activations[1]), quoted(&name));
                    Err(tr!(
                        "options.{key}: expected {expected}, found {found}",
                        "options.{key}: {expected}が必要ですが、{found} です"
                    ))
                }
            },
        };
        let cells = ["\"rnn\", \"lstm\" or \"gru\"", "\"rnn\"、\"lstm\"、\"gru\" のどれか"];
        let cell = match file.plain::<String>("cell", "options.", cells)? {
            None => None,
            Some(name) => match Cell::named(&name) {
                Some(cell) => Some(cell),
                None => {
                    let (expected, found) = (lang().pick(cells[0], cells[1]), quoted(&name));
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
        Ok(Options {
            scale: finite("scale")?,
            beta: finite("beta")?,
            head_factors: None,
            causal,
            mask,
            window: file.plain("window", "options.", ["a whole number", "0 以上の整数"])?,
            hard: truth("hard")?.unwrap_or(false),
            num_heads: file.count("num_heads")?.unwrap_or(1),
            num_key_heads: file.count("num_key_heads")?,
            head_dim: file.count("d_k")?,
            subtract_max: truth("subtract_max")?.unwrap_or(defaults.subtract_max),
            residual: truth("residual")?.unwrap_or(false),
            norm: file.plain("norm", "options.", orders)?,
            rms_norm: truth("rms_norm")?.unwrap_or(false),
            epsilon,
            activation: activation("activation")?,
            norm_2: file.plain("norm_2", "options.", orders)?,
            rms_norm_2: truth("rms_norm_2")?.unwrap_or(false),
            epsilon_2: small("epsilon_2")?,
            last_norm: file.plain("last_norm", "options.", kinds)?,
            epsilon_last: small("epsilon_last")?,
            rotary: finite("rotary_base")?,
            alibi: file.plain(
                "alibi_slopes",
                "options.",
                ["a list of numbers, one for each head", "ヘッドごとの数値の配列"],
            )?,
            head_norm_epsilon: small("head_norm_epsilon")?,
            cell,
            pooling: file.plain::<Pooling>("pooling", "options.", ways)?.into_iter().collect(),
            dense_tanh: truth("dense_tanh")?.unwrap_or(false),
            dense_activation: activation("dense_activation")?,
            dense_norm: file.plain("dense_norm", "options.", kinds)?,
            epsilon_dense: small("epsilon_dense")?,
            unit_length: truth("unit_length")?.unwrap_or(false),
        })
    }
}
