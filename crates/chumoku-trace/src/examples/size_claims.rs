//! Claims about sizes: parameters and cost of a network, and wavelengths of positional encodings.

use crate::examples::object::JsonObject;
use crate::program::printed_number::PrintedNumber;
use chumoku::count::{CountConfig, NetworkKind};
use chumoku::lang::wording::quote;
use chumoku::nn::NormOrder;
use chumoku::tr;
use std::f64::consts::TAU;

const COUNT_KEYS: [&str; 24] = [
    "network",
    "batch",
    "length",
    "keys",
    "target_length",
    "d_model",
    "heads",
    "kv_heads",
    "head_dim",
    "d_ff",
    "layers",
    "decoder_layers",
    "vocab",
    "target_vocab",
    "classes",
    "untied",
    "bias",
    "qkv_bias",
    "output_projection",
    "hidden",
    "gate_biases",
    "bidirectional",
    "positions",
    "pre_norm",
];

/// A claimed number of a network, such as its parameters, and the true value.
#[derive(Clone, Debug)]
pub(crate) struct SizeClaim {
    pub(crate) name: String,
    pub(crate) claim: PrintedNumber,
    pub(crate) truth: f64,
}

/// Reads the claims of a file about sizes; `None` for a file of matrices.
pub(crate) fn size_claims(file: &JsonObject<'_>) -> Result<Option<Vec<SizeClaim>>, String> {
    let (count, positions) = (file.raw_value("count"), file.raw_value("positions"));
    let truths = match (count, positions, file.raw_value("inputs")) {
        (None, None, _) => return Ok(None),
        (Some(count), None, None) => network_counts(count)?,
        (None, Some(positions), None) => encoding_wavelengths(positions)?,
        _ => {
            return Err(tr!(
                "expected one of the keys inputs, count and positions, found several",
                "キー inputs、count、positions のうち一つだけが必要ですが、複数あります"
            ));
        }
    };
    let known: Vec<&str> = truths.iter().map(|(name, _)| name.as_str()).collect();
    let claims = file.raw_value("claims").ok_or_else(|| {
        tr!(
            "no claims: expected the key “claims” with the figures that are stated",
            "検算する値の記載がありません。述べられている数値を書いたキー “claims” が必要です"
        )
    })?;
    let raw = JsonObject::read(claims, "claims", &known)?;
    let mut found = Vec::new();
    for (name, truth) in &truths {
        let Some(text) = raw.raw_value(name) else { continue };
        let plain = match serde_json::from_str::<String>(text) {
            Ok(plain) => plain,
            Err(_) => text.to_owned(),
        };
        let claim = PrintedNumber::parse(&plain).map_err(|problem| format!("claims.{name}: {problem}"))?;
        found.push(SizeClaim { name: name.clone(), claim, truth: *truth });
    }
    if found.is_empty() {
        return Err(tr!(
            "no claims: expected at least one figure in “claims”",
            "検算する値の記載がありません。“claims” には数値が一つ以上必要です"
        ));
    }
    Ok(Some(found))
}

/// Returns the counts of a network: the parameters of each step, all parameters, and the multiply–adds.
fn network_counts(text: &str) -> Result<Vec<(String, f64)>, String> {
    let file = JsonObject::read(text, "count", &COUNT_KEYS)?;
    let size = |key: &str| file.value::<usize>(key, "count.", ["a whole number", "0 以上の整数"]);
    let truth = |key: &str| file.value::<bool>(key, "count.", ["true or false", "true か false "]);
    let defaults = CountConfig::default();
    let network = match file.value::<String>("network", "count.", ["a name", "名前"])? {
        None => NetworkKind::Transformer,
        Some(name) => NetworkKind::from_name(&name).ok_or_else(|| {
            let found = quote(&name);
            tr!(
                "count.network: expected attention, additive-attention, transformer, decoder, encoder-decoder, rnn, lstm or gru, found \
                 {found}",
                "count.network: attention、additive-attention、transformer、decoder、encoder-decoder、rnn、lstm、gru のいずれかが必要です: \
                 {found}"
            )
        })?,
    };
    let num_layers = size("layers")?.unwrap_or(1);
    if matches!(network, NetworkKind::Attention | NetworkKind::AdditiveAttention) && num_layers != 1 {
        return Err(tr!(
            "count.layers: attention alone is one layer, found {num_layers}; leave it out, or name another network",
            "count.layers: attention は一層だけです ({num_layers} とあります)。外すか、別のネットワークを指定してください"
        ));
    }
    let d_model = size("d_model")?.unwrap_or(defaults.d_model);
    let config = CountConfig {
        network,
        batch: size("batch")?.unwrap_or(1),
        length: size("length")?.unwrap_or(1),
        keys: size("keys")?,
        target_length: size("target_length")?,
        d_model,
        num_heads: size("heads")?.unwrap_or(1),
        num_key_heads: size("kv_heads")?,
        head_dim: size("head_dim")?,
        d_ff: size("d_ff")?.unwrap_or_else(|| d_model.saturating_mul(4)),
        num_layers,
        num_decoder_layers: size("decoder_layers")?,
        vocab_size: size("vocab")?.unwrap_or(0),
        target_vocab_size: size("target_vocab")?,
        num_classes: size("classes")?.unwrap_or(0),
        untied: truth("untied")?.unwrap_or(false),
        bias: truth("bias")?.unwrap_or(true),
        qkv_bias: truth("qkv_bias")?,
        output_projection: truth("output_projection")?.unwrap_or(true),
        hidden_size: size("hidden")?,
        bidirectional: truth("bidirectional")?.unwrap_or(false),
        gate_biases: size("gate_biases")?.unwrap_or(defaults.gate_biases),
        learned_positions: size("positions")?.unwrap_or(0),
        norm_order: if truth("pre_norm")?.unwrap_or(false) { NormOrder::Pre } else { NormOrder::Post },
        ..defaults
    };
    let count = config.count().map_err(|error| format!("count: {error}"))?;
    let mut truths: Vec<(String, f64)> = Vec::new();
    for step in count.steps.iter().filter(|step| step.parameters > 0) {
        let name = if step.part.is_empty() { step.name.into() } else { format!("{} {}", step.part, step.name) };
        truths.push((name.replace([' ', ','], "_"), step.parameters as f64 * step.times as f64));
    }
    // Sizes are at most 2^30 each; counting has checked that.
    let input = [config.batch, config.length, config.d_model].map(|size| size as f64).iter().product();
    truths.extend([
        ("parameters".into(), count.parameters as f64),
        ("multiply_adds".into(), count.multiply_adds as f64),
        ("input_numbers".into(), input),
    ]);
    Ok(truths)
}

/// Returns the wavelength 2π · base^(2i/d) of each pair i of dimensions 2i and 2i + 1 of the sinusoidal encoding
/// (Vaswani et al. 2017, section 3.5).
fn encoding_wavelengths(text: &str) -> Result<Vec<(String, f64)>, String> {
    let file = JsonObject::read(text, "positions", &["d_model", "base"])?;
    let d_model: usize = file.value("d_model", "positions.", ["a whole number", "整数"])?.ok_or_else(|| {
        tr!(
            "positions.d_model: expected a whole number, found nothing",
            "positions.d_model: 整数が必要ですが、書かれていません"
        )
    })?;
    let base: f64 = file.value("base", "positions.", ["a number", "数値"])?.unwrap_or(10_000.0);
    if d_model == 0 || d_model > 1 << 20 || !base.is_finite() || base <= 0.0 {
        return Err(tr!(
            "positions: expected d_model from 1 to {} and a base above 0, found {d_model} and {base}",
            "positions: d_model は 1 から {} まで、base は正の数が必要ですが、{d_model} と {base} です",
            1 << 20
        ));
    }
    let wave = |i: usize| TAU * base.powf(2.0 * i as f64 / d_model as f64);
    Ok((0..d_model.div_ceil(2)).map(|i| (format!("wavelength_{i}"), wave(i))).collect())
}
