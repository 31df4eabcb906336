//! Checks the inputs and attributes of the operator `Attention`, and derives its parameters.

use super::float::FloatType;
use super::operator_schema::{Attributes, Inputs};
use crate::lang::lang;
use crate::tensors::Tensor;
use crate::tr;
use crate::{Error, Result};
use chumoku_kernels::{Heads, ScoreStage};

/// Checked parameters: inputs fit one another, and attributes are in range.
#[derive(Debug)]
pub(super) struct OperatorParams {
    pub(super) query: OperandLayout,
    /// Layout of the new keys, without the past.
    pub(super) key: OperandLayout,
    pub(super) value: OperandLayout,
    /// Number of past keys, if past inputs are given.
    pub(super) past_keys: Option<usize>,
    /// Number of past and new keys.
    pub(super) total_keys: usize,
    /// Number of keys that the mask covers; the others are hidden from every query.
    pub(super) mask_keys: usize,
    pub(super) key_lengths: Option<Vec<usize>>,
    pub(super) scale: f64,
    pub(super) softcap: Option<f64>,
    pub(super) is_causal: bool,
    /// Window size to the left and to the right.
    pub(super) window: [Option<usize>; 2],
    /// Stage of the scores in `qk_matmul_output`.
    pub(super) stage: ScoreStage,
    /// Type of Q, and of the results.
    pub(super) float_type: FloatType,
    /// Type of V.
    pub(super) value_type: FloatType,
    /// Type to compute in.
    pub(super) compute_type: FloatType,
    /// Requested type of softmax.
    pub(super) softmax_type: FloatType,
}

/// The layout of heads in a contiguous tensor of three or four axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OperandLayout {
    pub(super) batch: usize,
    pub(super) heads: usize,
    pub(super) length: usize,
    pub(super) dim: usize,
    /// Length of the stored tensor; only the first `length` rows are used.
    stored_length: usize,
    /// True if a row holds all heads: (B, L, H · dim) rather than (B, H, L, dim).
    heads_in_rows: bool,
}

impl OperandLayout {
    fn from_tensor(name: &'static str, tensor: &Tensor, heads: (&'static str, Option<i64>)) -> Result<OperandLayout> {
        let (flag, given) = heads;
        let shape = tensor.shape();
        let place = match *shape {
            [batch, heads, length, dim] => {
                if given.is_some_and(|given| usize::try_from(given) != Ok(heads)) {
                    let given = given.unwrap_or_default();
                    let problem = tr!(
                        "{name} has the {heads} heads of its shape {shape:?}, got {given}; leave it out",
                        "{name} のヘッド数は形 {shape:?} から {heads} と決まりますが、{given} が指定されています。指定を外してください"
                    );
                    return Err(Error::operator(flag, problem));
                }
                OperandLayout { batch, heads, length, dim, stored_length: length, heads_in_rows: false }
            }
            [batch, length, width] => {
                let given = given.ok_or_else(|| {
                    Error::operator(
                        flag,
                        tr!(
                            "required, because {name} has three axes: {shape:?}",
                            "{name} は 3 軸（{shape:?}）なので指定が必要です"
                        ),
                    )
                })?;
                let heads = usize::try_from(given).ok().filter(|&heads| heads > 0 && width % heads == 0);
                let heads = heads.ok_or_else(|| {
                    Error::operator(
                        flag,
                        tr!(
                            "expected a divisor of the width {width} of {name}, got {given}",
                            "{name} の幅 {width} の約数が必要ですが、{given} です"
                        ),
                    )
                })?;
                OperandLayout { batch, heads, length, dim: width / heads, stored_length: length, heads_in_rows: true }
            }
            _ => {
                let problem = tr!(
                    "expected three axes (batch, length, width) or four (batch, heads, length, dim), got shape {shape:?}",
                    "3 軸（バッチ、長さ、幅）か 4 軸（バッチ、ヘッド、長さ、次元）が必要ですが、形は {shape:?} です"
                );
                return Err(Error::operator(name, problem));
            }
        };
        if place.heads == 0 || place.dim == 0 {
            return Err(Error::operator(
                name,
                tr!(
                    "expected at least one head of width 1, got shape {shape:?}",
                    "幅 1 以上のヘッドが 1 つ以上必要ですが、形は {shape:?} です"
                ),
            ));
        }
        Ok(place)
    }

    /// Returns the contiguous layout (B, H, `length`, dim).
    pub(super) fn contiguous(self, length: usize) -> OperandLayout {
        OperandLayout { length, stored_length: length, heads_in_rows: false, ..self }
    }

    /// Keeps the first rows of each head.
    pub(super) fn first_rows(self, length: usize) -> OperandLayout {
        OperandLayout { length, ..self }
    }

    /// Changes the width of the rows.
    pub(super) fn with_dim(self, dim: usize) -> OperandLayout {
        OperandLayout { dim, ..self }
    }

    pub(super) fn bhld(self) -> [usize; 4] {
        [self.batch, self.heads, self.length, self.dim]
    }

    /// Returns the shape of the tensor.
    pub(super) fn shape(self) -> Vec<usize> {
        match self.heads_in_rows {
            true => vec![self.batch, self.stored_length, self.heads.saturating_mul(self.dim)],
            false => vec![self.batch, self.heads, self.stored_length, self.dim],
        }
    }

    pub(super) fn strides(self) -> [usize; 3] {
        let (all, head) = (self.heads.saturating_mul(self.dim), self.stored_length.saturating_mul(self.dim));
        let batch = head.saturating_mul(self.heads);
        if self.heads_in_rows { [batch, self.dim, all] } else { [batch, head, self.dim] }
    }

    pub(super) fn heads<T>(self, numbers: &[T]) -> Result<Heads<'_, T>> {
        Ok(Heads::strided(numbers, self.bhld(), self.strides())?)
    }
}

impl OperatorParams {
    pub(super) fn new(inputs: &Inputs<'_>, attributes: &Attributes) -> Result<OperatorParams> {
        let float = float_type("Q", inputs.query)?;
        check_type("K", inputs.key, "Q", inputs.query)?;
        let value_float = self::float_type("V", inputs.value)?;
        let [query, key, value] = layouts(inputs, attributes)?;
        let past = past_keys(inputs, key, value)?;
        let total = past.unwrap_or(0).checked_add(key.length);
        let total = total.ok_or_else(|| {
            Error::operator(
                "past_key",
                tr!("the number of past and new keys overflows", "過去のキーと新しいキーの合計が大きすぎます"),
            )
        })?;
        let key_lengths = key_lengths(inputs, query.batch, total)?;
        let reach = mask_keys(inputs.mask, [query.batch, query.heads, query.length], total)?;
        if let Some(longest) = key_lengths.iter().flatten().copied().max().filter(|&longest| longest > reach) {
            let problem = tr!(
                "expected a last axis of at least nonpad_kv_seqlen, {longest}, got {reach}",
                "最後の軸は nonpad_kv_seqlen（{longest}）以上が必要ですが、{reach} です"
            );
            return Err(Error::operator("attn_mask", problem));
        }
        let softmax_in = softmax_type(attributes, float)?;
        let has_f64 = softmax_in == FloatType::F64
            || [Some(inputs.value), inputs.mask]
                .into_iter()
                .flatten()
                .any(|tensor| FloatType::of(tensor) == Some(FloatType::F64));
        let compute_in = if float == FloatType::F32 && has_f64 { FloatType::F64 } else { float };
        let scale = scale(attributes, query.dim)?;
        let softcap = softcap(attributes)?;
        Ok(OperatorParams {
            query,
            key,
            value,
            past_keys: past,
            total_keys: total,
            mask_keys: reach,
            key_lengths,
            scale,
            softcap,
            is_causal: attributes.is_causal.unwrap_or(false),
            window: [
                window_size("left_window_size", attributes.left_window_size)?,
                window_size("right_window_size", attributes.right_window_size)?,
            ],
            stage: stage(attributes)?,
            float_type: float,
            value_type: value_float,
            compute_type: compute_in,
            softmax_type: softmax_in,
        })
    }

    /// Returns the number of keys of sequence `s` that a query may see.
    pub(super) fn visible_keys(&self, s: usize) -> usize {
        self.key_lengths.as_ref().map_or(self.mask_keys, |lengths| lengths[s])
    }

    /// Returns the shape of `qk_matmul_output`: (B, H, L, P + S).
    pub(super) fn scores_shape(&self) -> [usize; 4] {
        [self.query.batch, self.query.heads, self.query.length, self.total_keys]
    }

    /// Returns the value of `qk_matmul_output` for hidden keys.
    pub(super) fn hidden_value(&self) -> f64 {
        if self.stage == ScoreStage::Masked { f64::NEG_INFINITY } else { 0.0 }
    }
}

fn float_type(name: &'static str, tensor: &Tensor) -> Result<FloatType> {
    let problem = || {
        tr!(
            "expected f32, f64, f16 or bf16, got {}",
            "f32、f64、f16、bf16 のいずれかが必要ですが、{} です",
            tensor.type_name()
        )
    };
    FloatType::of(tensor).ok_or_else(|| Error::operator(name, problem()))
}

fn check_type(name: &'static str, tensor: &Tensor, other: &str, like: &Tensor) -> Result<()> {
    if tensor.type_name() == like.type_name() {
        return Ok(());
    }
    let problem = tr!(
        "expected {} as {other}, got {}; convert one of them",
        "{other} と同じ {} が必要ですが、{} です。どちらかを変換してください",
        like.type_name(),
        tensor.type_name()
    );
    Err(Error::operator(name, problem))
}

fn check_size(name: &'static str, what: &str, found: usize, expected: usize, other: &str) -> Result<()> {
    match found == expected {
        true => Ok(()),
        false => Err(Error::operator(
            name,
            tr!(
                "expected {expected} {what} as {other}, got {found}",
                "{what}は {other} と同じ {expected} のはずですが、{found} です"
            ),
        )),
    }
}

/// Returns the layouts of Q, K and V after checking that they fit one another.
fn layouts(inputs: &Inputs<'_>, attributes: &Attributes) -> Result<[OperandLayout; 3]> {
    let query = OperandLayout::from_tensor("Q", inputs.query, ("q_num_heads", attributes.q_num_heads))?;
    let key = OperandLayout::from_tensor("K", inputs.key, ("kv_num_heads", attributes.kv_num_heads))?;
    let value = OperandLayout::from_tensor("V", inputs.value, ("kv_num_heads", attributes.kv_num_heads))?;
    for (name, tensor, place) in [("K", inputs.key, key), ("V", inputs.value, value)] {
        if place.heads_in_rows != query.heads_in_rows {
            let problem = tr!(
                "expected as many axes as Q, got shapes {:?} and {:?}",
                "Q と同じ数の軸が必要ですが、形は {:?} と {:?} です",
                tensor.shape(),
                inputs.query.shape()
            );
            return Err(Error::operator(name, problem));
        }
        check_size(name, lang().pick("sequences", "系列の数"), place.batch, query.batch, "Q")?;
    }
    check_size("K", lang().pick("numbers in a head", "ヘッド内の数の個数"), key.dim, query.dim, "Q")?;
    check_size("V", lang().pick("heads", "ヘッド数"), value.heads, key.heads, "K")?;
    check_size("V", lang().pick("rows", "行数"), value.length, key.length, "K")?;
    if !query.heads.is_multiple_of(key.heads) {
        let problem = tr!(
            "expected a divisor of the {} heads of Q, got {} heads",
            "Q のヘッド数 {} の約数が必要ですが、{} です",
            query.heads,
            key.heads
        );
        return Err(Error::operator("K", problem));
    }
    Ok([query, key, value])
}

/// Returns the requested type of softmax; by default that of Q.
fn softmax_type(attributes: &Attributes, float: FloatType) -> Result<FloatType> {
    match attributes.softmax_precision {
        None => Ok(float),
        Some(1) => Ok(FloatType::F32),
        Some(10) => Ok(FloatType::F16),
        Some(11) => Ok(FloatType::F64),
        Some(16) => Ok(FloatType::Bf16),
        Some(other) => {
            let problem = tr!(
                "expected 1 (f32), 10 (f16), 11 (f64) or 16 (bf16), got {other}",
                "1（f32）、10（f16）、11（f64）、16（bf16）のいずれかが必要ですが、{other} です"
            );
            Err(Error::operator("softmax_precision", problem))
        }
    }
}

fn check_finite(name: &'static str, x: f64) -> Result<f64> {
    match x.is_finite() {
        true => Ok(x),
        false => Err(Error::operator(name, tr!("expected a finite number, got {x}", "有限の数が必要ですが、{x} です"))),
    }
}

fn scale(attributes: &Attributes, dim: usize) -> Result<f64> {
    let scale = check_finite("scale", attributes.scale.unwrap_or(1.0 / (dim as f64).sqrt()))?;
    if scale < 0.0 {
        let problem = tr!(
            "expected 0 or above, as its square root is taken, got {scale}",
            "平方根を取るため 0 以上が必要ですが、{scale} です"
        );
        return Err(Error::operator("scale", problem));
    }
    Ok(scale)
}

fn softcap(attributes: &Attributes) -> Result<Option<f64>> {
    let softcap = check_finite("softcap", attributes.softcap.unwrap_or(0.0))?;
    if softcap < 0.0 {
        let problem = tr!(
            "expected 0 for none, or a number above, got {softcap}",
            "0（なし）か正の数が必要ですが、{softcap} です"
        );
        return Err(Error::operator("softcap", problem));
    }
    Ok(Some(softcap).filter(|&cap| cap > 0.0))
}

/// Returns the requested stage of `qk_matmul_output`.
fn stage(attributes: &Attributes) -> Result<ScoreStage> {
    match attributes.qk_matmul_output_mode.unwrap_or(0) {
        0 => Ok(ScoreStage::Scaled),
        1 => Ok(ScoreStage::Capped),
        2 => Ok(ScoreStage::Masked),
        3 => Ok(ScoreStage::Weights),
        other => {
            let problem = tr!("expected 0, 1, 2 or 3, got {other}", "0、1、2、3 のいずれかが必要ですが、{other} です");
            Err(Error::operator("qk_matmul_output_mode", problem))
        }
    }
}

/// Returns the number of past keys after checking the past inputs.
fn past_keys(inputs: &Inputs<'_>, key: OperandLayout, value: OperandLayout) -> Result<Option<usize>> {
    let (past_key, past_value) = match (inputs.past_key, inputs.past_value) {
        (None, None) => return Ok(None),
        (Some(key), Some(value)) => (key, value),
        (Some(_), None) => {
            return Err(Error::operator(
                "past_value",
                tr!("required together with past_key", "past_key と一緒に指定する必要があります"),
            ));
        }
        (None, Some(_)) => {
            return Err(Error::operator(
                "past_key",
                tr!("required together with past_value", "past_value と一緒に指定する必要があります"),
            ));
        }
    };
    if inputs.key_lengths.is_some() {
        let problem = tr!(
            "cannot be combined with past_key: K and V are then the whole cache",
            "past_key と同時には指定できません。このとき K と V はキャッシュ全体です"
        );
        return Err(Error::operator("nonpad_kv_seqlen", problem));
    }
    check_type("past_key", past_key, "K", inputs.key)?;
    check_type("past_value", past_value, "V", inputs.value)?;
    let &[_, _, past, _] = past_key.shape() else {
        let problem = tr!(
            "expected four axes (batch, heads, length, dim), got shape {:?}",
            "4 軸（バッチ、ヘッド、長さ、次元）が必要ですが、形は {:?} です",
            past_key.shape()
        );
        return Err(Error::operator("past_key", problem));
    };
    for (name, tensor, new) in [("past_key", past_key, key), ("past_value", past_value, value)] {
        let expected = [new.batch, new.heads, past, new.dim];
        if tensor.shape() != expected {
            let problem =
                tr!("expected shape {expected:?}, got {:?}", "形 {expected:?} が必要ですが、{:?} です", tensor.shape());
            return Err(Error::operator(name, problem));
        }
    }
    Ok(Some(past))
}

fn key_lengths(inputs: &Inputs<'_>, batch: usize, total: usize) -> Result<Option<Vec<usize>>> {
    let Some(tensor) = inputs.key_lengths else { return Ok(None) };
    let Tensor::I64(lengths) = tensor else {
        let problem = tr!("expected whole numbers, got {}", "整数が必要ですが、{} です", tensor.type_name());
        return Err(Error::operator("nonpad_kv_seqlen", problem));
    };
    if lengths.shape() != [batch] {
        let problem = tr!(
            "expected one number for each of {batch} sequences, got shape {:?}",
            "{batch} 本の系列に 1 つずつの数が必要ですが、形は {:?} です",
            lengths.shape()
        );
        return Err(Error::operator("nonpad_kv_seqlen", problem));
    }
    let checked = lengths.iter().enumerate().map(|(s, &length)| {
        usize::try_from(length).ok().filter(|&length| length <= total).ok_or_else(|| {
            let problem = tr!(
                "expected 0 to the {total} keys, got {length} for sequence {s}",
                "0 からキーの数 {total} までが必要ですが、系列 {s} では {length} です"
            );
            Error::operator("nonpad_kv_seqlen", problem)
        })
    });
    checked.collect::<Result<_>>().map(Some)
}

/// Returns the length of the mask's last axis, or the number of keys without a mask. Checks its type and shape.
fn mask_keys(mask: Option<&Tensor>, sizes: [usize; 3], total: usize) -> Result<usize> {
    let Some(mask) = mask else { return Ok(total) };
    if let Tensor::I64(_) = mask {
        let problem = tr!(
            "expected bool (true = attend) or floating point (added to the scores), got whole numbers; convert it",
            "bool（true で注目）か浮動小数点数（スコアに加算）が必要ですが、整数です。変換してください"
        );
        return Err(Error::operator("attn_mask", problem));
    }
    let shape = mask.shape();
    let [batch, heads, queries] = sizes;
    let problem = || {
        let problem = tr!(
            "expected one to four axes that broadcast to (batch, heads, queries, keys) = ({batch}, {heads}, {queries}, \
             {total}), the last one maybe shorter, got shape {shape:?}",
            "（バッチ、ヘッド、クエリ、キー）=（{batch}, {heads}, {queries}, {total}）にブロードキャストできる 1 から 4 軸（最後の軸は短くてもよい）が必要ですが、形は {shape:?} です"
        );
        Error::operator("attn_mask", problem)
    };
    let (&reach, others) = shape.split_last().ok_or_else(problem)?;
    let fits = others.iter().rev().zip(sizes.iter().rev()).all(|(&axis, &size)| axis == 1 || axis == size);
    if others.len() > 3 || !fits || reach > total { Err(problem()) } else { Ok(reach) }
}

fn window_size(name: &'static str, size: Option<i64>) -> Result<Option<usize>> {
    match size {
        None | Some(-1) => Ok(None),
        Some(size) => match usize::try_from(size) {
            Ok(size) => Ok(Some(size)),
            Err(_) => Err(Error::operator(
                name,
                tr!(
                    "expected -1 for no bound, or 0 and above, got {size}",
                    "-1（制限なし）か 0 以上が必要ですが、{size} です"
                ),
            )),
        },
    }
}
