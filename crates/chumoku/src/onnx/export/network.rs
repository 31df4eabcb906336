//! Builds a classifier's network from ONNX operators: from tokens to logits.
//!
//! It repeats `chumoku_nn::models::Classifier` layer by layer, over a rectangle of tokens with a mask.
//! `crates/chumoku-cli/tests/it/export.rs` compares the two.

use super::EXPORT_INPUTS;
use super::graph::{Attribute, OnnxElementType};
use super::recurrent::recurrent;
use super::writer::{GraphWriter, unsupported};
use crate::models::ClassifierConfig;
use crate::nn::{
    AttentionOptions, BackboneConfig, EncoderConfig, FeedForwardKind, HeadActivation, Norm, NormKind, NormOrder,
    Pooling, PositionKind, Rotary, alibi_slopes, sinusoidal, sinusoidal_halves,
};
use crate::params::Params;
use crate::{Result, tr};
use std::collections::HashMap;

/// Replaces masked scores: its exp is 0. It is finite because padding rows have no visible key at all.
const MASKED_SCORE: f32 = -1e30;

/// Writes a network into a graph.
pub(super) struct NetworkExporter<'a> {
    pub(super) writer: GraphWriter<'a>,
    config: &'a ClassifierConfig,
}

/// Values shared by all layers of an encoder.
struct EncoderInputs {
    /// Positions of the tokens: (sequence,).
    positions: String,
    /// Visible keys of each token, by window: (batch, 1, 1 or sequence, sequence).
    visible: HashMap<Option<usize>, String>,
}

impl<'a> NetworkExporter<'a> {
    pub(super) fn new(config: &'a ClassifierConfig, params: &'a Params<f32>) -> Self {
        NetworkExporter { writer: GraphWriter::new(params), config }
    }

    /// Adds the whole network and returns the logits: (batch, classes).
    pub(super) fn logits(&mut self) -> Result<String> {
        let tokens = self.positions();
        let x = self.embedding(&tokens)?;
        let x = match &self.config.backbone {
            BackboneConfig::Transformer(encoder) => self.encoder(encoder, x, tokens)?,
            BackboneConfig::Recurrent(network) => recurrent(&mut self.writer, network, x)?,
        };
        self.writer.graph.scope = "head.".to_owned();
        let pooled = self.pool(&x)?;
        self.head(pooled)
    }

    /// Returns the positions of the tokens of a row, counted from 0: (sequence,).
    fn positions(&mut self) -> String {
        let shape = self.writer.op("Shape", &[EXPORT_INPUTS[0]]);
        let (one, start, step) =
            (self.writer.graph.int_scalar(1), self.writer.graph.int_scalar(0), self.writer.graph.int_scalar(1));
        let length = self.writer.op("Gather", &[&shape, &one]);
        self.writer.op("Range", &[&start, &length, &step])
    }

    /// Returns the embedding of each token with its position: (batch, sequence, d_model).
    fn embedding(&mut self, tokens: &str) -> Result<String> {
        self.writer.graph.scope = "input.".to_owned();
        let options = self.config.embeddings;
        let table = self.writer.initializer("embedding.weight")?;
        let mut x = self.writer.op("Gather", &[&table, EXPORT_INPUTS[0]]);
        if options.is_scaled() {
            let scale = self.writer.scalar((self.config.backbone.d_model() as f64).sqrt() as f32);
            x = self.writer.op("Mul", &[&x, &scale]);
        }
        if let Some(table) = self.position_table(options.first_position)? {
            let rows = self.writer.op("Gather", &[&table, tokens]);
            x = self.writer.op("Add", &[&x, &rows]);
        }
        if options.token_types > 0 {
            let vectors = self.token_type_vectors()?;
            x = self.writer.op("Add", &[&x, &vectors]);
        }
        match options.norm_epsilon {
            Some(epsilon) => self.norm("input_norm", options.norm, epsilon, &x),
            None => Ok(x),
        }
    }

    /// Returns the token type embeddings: the second type after the first separator of a sentence pair, the first type
    /// before it.
    fn token_type_vectors(&mut self) -> Result<String> {
        let separator = self.config.embeddings.separator.filter(|_| self.config.embeddings.token_types > 1);
        let Some(separator) = separator else {
            let (_, values) = self.writer.parameter("token_type.weight")?;
            let width = self.config.backbone.d_model();
            return Ok(self.writer.graph.floats("token_type.first", &[width], &values[..width]));
        };
        let table = self.writer.initializer("token_type.weight")?;
        let separator = self.writer.graph.ints(&[i64::from(separator)]);
        let is_separator = self.writer.op("Equal", &[EXPORT_INPUTS[0], &separator]);
        let ones = self.writer.cast(&is_separator, OnnxElementType::Int64);
        let axis = self.writer.graph.int_scalar(1);
        let before = self.writer.graph.op("CumSum", &[&ones, &axis], &[("exclusive", Attribute::Int(1))]);
        let most = self.writer.graph.ints(&[1]);
        let kinds = self.writer.op("Min", &[&before, &most]);
        Ok(self.writer.op("Gather", &[&table, &kinds]))
    }

    /// Returns the position embeddings, if the network has them.
    fn position_table(&mut self, first: usize) -> Result<Option<String>> {
        let [length, width] = [self.config.max_length, self.config.backbone.d_model()];
        let fixed = match self.config.position {
            PositionKind::Sinusoidal => sinusoidal::<f32>(length, width),
            PositionKind::SinusoidalHalves => sinusoidal_halves::<f32>(length, width),
            PositionKind::Learned => {
                let (shape, values) = self.writer.parameter("position.weight")?;
                let rows = shape[0] - first;
                return Ok(Some(self.writer.graph.floats("position.weight", &[rows, width], &values[first * width..])));
            }
            PositionKind::None | PositionKind::Rotary | PositionKind::Alibi => return Ok(None),
            other => {
                let found = format!("{other:?}");
                return Err(unsupported(&tr!(
                    "position encoding {found} is not supported",
                    "位置 {found} には対応していません"
                )));
            }
        };
        let values: Vec<f32> = fixed.iter().copied().collect();
        Ok(Some(self.writer.graph.floats("position.fixed", &[length, width], &values)))
    }

    fn encoder(&mut self, config: &EncoderConfig, mut x: String, tokens: String) -> Result<String> {
        let mut places = EncoderInputs { positions: tokens, visible: HashMap::new() };
        let epsilon = config.options.norm_epsilon.unwrap_or(Norm::EPSILON);
        for index in 0..config.num_layers {
            let layer = format!("encoder.layers.{index}");
            self.writer.graph.scope = format!("{layer}.");
            let is_normalised = config.options.first_norm_left_out && index == 0;
            let norms = [(!is_normalised).then(|| format!("{layer}.norm1")), Some(format!("{layer}.norm2"))];
            for (part, norm) in norms.into_iter().enumerate() {
                let given = match (&norm, config.norm_order) {
                    (Some(norm), NormOrder::Pre) => self.norm(norm, config.options.norm, epsilon, &x)?,
                    _ => x.clone(),
                };
                let made = match part {
                    0 => self.attention(config, index, &given, &mut places)?,
                    _ => self.feed_forward(config, &layer, &given)?,
                };
                x = self.writer.op("Add", &[&x, &made]);
                if let (Some(norm), NormOrder::Post) = (&norm, config.norm_order) {
                    x = self.norm(norm, config.options.norm, epsilon, &x)?;
                }
            }
        }
        self.writer.graph.scope = "encoder.".to_owned();
        match config.norm_order {
            NormOrder::Pre => self.norm("encoder.norm", config.options.norm, epsilon, &x),
            NormOrder::Post => Ok(x),
        }
    }

    /// Adds a normalization of the last axis.
    fn norm(&mut self, name: &str, kind: NormKind, epsilon: f64, x: &str) -> Result<String> {
        let weight = self.writer.initializer(&format!("{name}.weight"))?;
        let axis = ("axis", Attribute::Int(-1));
        if kind != NormKind::Rms {
            let bias =
                if kind == NormKind::Layer { Some(self.writer.initializer(&format!("{name}.bias"))?) } else { None };
            let inputs: Vec<&str> = [x, &weight].into_iter().chain(bias.as_deref()).collect();
            return Ok(self.writer.graph.op(
                "LayerNormalization",
                &inputs,
                &[axis, ("epsilon", Attribute::Float(epsilon as f32))],
            ));
        }
        let square = self.writer.op("Mul", &[x, x]);
        let mean = self.writer.graph.op("ReduceMean", &[&square], &[("axes", Attribute::Ints(&[-1]))]);
        let epsilon = self.writer.scalar(epsilon as f32);
        let sum = self.writer.op("Add", &[&mean, &epsilon]);
        let root = self.writer.op("Sqrt", &[&sum]);
        let scaled = self.writer.op("Div", &[x, &root]);
        Ok(self.writer.op("Mul", &[&scaled, &weight]))
    }

    /// Adds `x Wᵀ + b` for these rows of W and b. W is written transposed.
    fn linear_rows(&mut self, [name, weight, bias]: [&str; 3], rows: &[usize], x: &str) -> Result<String> {
        let (shape, values) = self.writer.parameter(weight)?;
        let columns = shape[1];
        let turned: Vec<f32> =
            (0..columns).flat_map(|column| rows.iter().map(move |row| values[row * columns + column])).collect();
        let matrix = self.writer.graph.floats(&format!("{name}.weight_transposed"), &[columns, rows.len()], &turned);
        let product = self.writer.op("MatMul", &[x, &matrix]);
        if !self.writer.has(bias) {
            return Ok(product);
        }
        let (_, values) = self.writer.parameter(bias)?;
        let numbers: Vec<f32> = rows.iter().map(|&row| values[row]).collect();
        let bias = self.writer.graph.floats(&format!("{name}.bias"), &[rows.len()], &numbers);
        Ok(self.writer.op("Add", &[&product, &bias]))
    }

    /// Adds `x Wᵀ + b`.
    fn linear(&mut self, name: &str, x: &str) -> Result<String> {
        let [weight, bias] = ["weight", "bias"].map(|part| format!("{name}.{part}"));
        let rows: Vec<usize> = (0..self.writer.parameter(&weight)?.0[0]).collect();
        self.linear_rows([name, &weight, &bias], &rows, x)
    }

    fn attention(
        &mut self,
        config: &EncoderConfig,
        index: usize,
        x: &str,
        places: &mut EncoderInputs,
    ) -> Result<String> {
        let name = format!("encoder.layers.{index}.self_attn");
        let mut options = config.attention;
        let local = config.options.local_layers.filter(|local| !index.is_multiple_of(local.global_every.max(1)));
        if let Some(local) = local {
            (options.window, options.rotary_base) = (Some(local.window), Some(local.rotary_base));
        }
        if options.hard_attention {
            return Err(unsupported(&tr!(
                "hard attention is not supported (a model trained without --settings attention=hard can be exported)",
                "ハードアテンションには対応していません（--settings attention=hard なしで学習したモデルなら書き出せます）"
            )));
        }
        if options.head_norm_epsilon.is_some() {
            return Err(unsupported(&tr!(
                "per-head norms are not supported",
                "ヘッドごとの正規化には対応していません"
            )));
        }
        let heads = config.num_heads;
        let width = options.head_dim.unwrap_or(config.d_model / heads);
        let [query, key, value] = self.project_heads(&name, [heads, width], options, x)?;
        let [query, key] = match self.config.position {
            PositionKind::Rotary => {
                let angles = self.rotary_tables(options, width, places)?;
                [self.rotate(&query, &angles, width), self.rotate(&key, &angles, width)]
            }
            _ => [query, key],
        };
        let key = self.writer.graph.op("Transpose", &[&key], &[("perm", Attribute::Ints(&[0, 1, 3, 2]))]);
        let scores = self.writer.op("MatMul", &[&query, &key]);
        let scores = self.scale_scores(&name, options, width, heads, &scores)?;
        let scores = match self.config.position {
            PositionKind::Alibi => self.add_alibi(&scores, heads, places),
            _ => scores,
        };
        let visible = self.visible_mask(config.causal, options.window, places);
        let hidden = self.writer.scalar(MASKED_SCORE);
        let scores = self.writer.op("Where", &[&visible, &scores, &hidden]);
        let weights = self.writer.graph.op("Softmax", &[&scores], &[("axis", Attribute::Int(-1))]);
        let heads_made = self.writer.op("MatMul", &[&weights, &value]);
        let made = self.writer.graph.op("Transpose", &[&heads_made], &[("perm", Attribute::Ints(&[0, 2, 1, 3]))]);
        let shape = self.writer.graph.ints(&[0, 0, (heads * width) as i64]);
        let made = self.writer.op("Reshape", &[&made, &shape]);
        self.linear(&format!("{name}.out_proj"), &made)
    }

    /// Adds the projections to queries, keys and values: (batch, heads, sequence, width) each. Weights of shared key
    /// heads are repeated for each query head.
    fn project_heads(
        &mut self,
        name: &str,
        [heads, width]: [usize; 2],
        options: AttentionOptions,
        x: &str,
    ) -> Result<[String; 3]> {
        let key_heads = options.num_key_heads.unwrap_or(heads);
        let starts = [0, heads * width, (heads + key_heads) * width];
        let [weight, bias] = ["in_proj_weight", "in_proj_bias"].map(|part| format!("{name}.{part}"));
        let shape = self.writer.graph.ints(&[0, 0, heads as i64, width as i64]);
        let mut made = Vec::new();
        for (part, start) in ["query", "key", "value"].into_iter().zip(starts) {
            let of_head = |head: usize| if part == "query" { head } else { head * key_heads / heads };
            let rows: Vec<usize> =
                (0..heads).flat_map(|head| (0..width).map(move |row| start + of_head(head) * width + row)).collect();
            let projected = self.linear_rows([&format!("{name}.{part}"), &weight, &bias], &rows, x)?;
            let apart = self.writer.op("Reshape", &[&projected, &shape]);
            made.push(self.writer.graph.op("Transpose", &[&apart], &[("perm", Attribute::Ints(&[0, 2, 1, 3]))]));
        }
        Ok(made.try_into().expect("three parts"))
    }

    /// Multiplies the scores by β.
    fn scale_scores(
        &mut self,
        name: &str,
        options: AttentionOptions,
        width: usize,
        heads: usize,
        scores: &str,
    ) -> Result<String> {
        let fixed = options.beta.unwrap_or(1.0 / (width as f64).sqrt()) as f32;
        let beta = match options.train_beta {
            false => self.writer.scalar(fixed),
            true => {
                let (_, trained) = self.writer.parameter(&format!("{name}.beta"))?;
                let beta: Vec<f32> = trained.iter().map(|beta| beta * fixed).collect();
                self.writer.graph.floats(&format!("{name}.beta"), &[heads, 1, 1], &beta)
            }
        };
        Ok(self.writer.op("Mul", &[scores, &beta]))
    }

    /// Returns the cosines and sines of the rotary angles: (sequence, width / 2) each.
    fn rotary_tables(
        &mut self,
        options: AttentionOptions,
        width: usize,
        places: &EncoderInputs,
    ) -> Result<[String; 2]> {
        let base = options.rotary_base.unwrap_or(Rotary::BASE);
        let rotary = Rotary::new(width, base);
        let rotary = options.rotary_scaling.map_or_else(|| rotary.clone(), |scaling| rotary.scaled(scaling));
        let length = self.config.max_length;
        let shape = [length, rotary.speeds().len()];
        let table = |of: fn(f64) -> f64| -> Vec<f32> {
            let places = 0..length;
            places.flat_map(|place| rotary.speeds().iter().map(move |speed| of(place as f64 * speed) as f32)).collect()
        };
        let tables = [("cosines", table(f64::cos)), ("sines", table(f64::sin))];
        Ok(tables.map(|(name, values)| {
            let table = self.writer.graph.floats(&format!("rotary.{name}.{base}"), &shape, &values);
            self.writer.op("Gather", &[&table, &places.positions])
        }))
    }

    /// Rotates heads by these angles; pairs are half the width apart.
    fn rotate(&mut self, x: &str, [cosines, sines]: &[String; 2], width: usize) -> String {
        let half = (width / 2) as i64;
        let [a, b] = [[0, half], [half, 2 * half]].map(|range| self.slice(x, range, 3));
        let [ac, bs, as_, bc] = [(&a, cosines), (&b, sines), (&a, sines), (&b, cosines)]
            .map(|(part, factor)| self.writer.op("Mul", &[part, factor]));
        let first = self.writer.op("Sub", &[&ac, &bs]);
        let second = self.writer.op("Add", &[&as_, &bc]);
        self.writer.graph.op("Concat", &[&first, &second], &[("axis", Attribute::Int(-1))])
    }

    fn slice(&mut self, x: &str, [start, end]: [i64; 2], axis: i64) -> String {
        let [start, end, axis] = [start, end, axis].map(|value| self.writer.graph.ints(&[value]));
        self.writer.op("Slice", &[x, &start, &end, &axis])
    }

    /// Returns i − j for query token i and key token j: (sequence, sequence).
    fn distance(&mut self, places: &EncoderInputs) -> String {
        let [rows, columns] = [1, 0].map(|axis| {
            let axis = self.writer.graph.ints(&[axis]);
            self.writer.op("Unsqueeze", &[&places.positions, &axis])
        });
        self.writer.op("Sub", &[&rows, &columns])
    }

    /// Adds the ALiBi bias: `scores − slope · |i − j|`.
    fn add_alibi(&mut self, scores: &str, heads: usize, places: &EncoderInputs) -> String {
        let distance = self.distance(places);
        let far = self.writer.op("Abs", &[&distance]);
        let far = self.writer.cast(&far, OnnxElementType::Float);
        let slopes = self.writer.graph.floats("alibi.slopes", &[heads, 1, 1], &alibi_slopes(heads));
        let less = self.writer.op("Mul", &[&slopes, &far]);
        self.writer.op("Sub", &[scores, &less])
    }

    /// Returns the mask of visible keys.
    fn visible_mask(&mut self, causal: bool, window: Option<usize>, places: &mut EncoderInputs) -> String {
        if let Some(visible) = places.visible.get(&window) {
            return visible.clone();
        }
        let mask = self.writer.cast(EXPORT_INPUTS[1], OnnxElementType::Bool);
        let axes = self.writer.graph.ints(&[1, 2]);
        let mut visible = self.writer.op("Unsqueeze", &[&mask, &axes]);
        if causal || window.is_some() {
            let distance = self.distance(places);
            let mut limits = Vec::new();
            if causal {
                let zero = self.writer.graph.int_scalar(0);
                limits.push(self.writer.op("GreaterOrEqual", &[&distance, &zero]));
            }
            if let Some(window) = window {
                let (far, most) = (self.writer.op("Abs", &[&distance]), self.writer.graph.int_scalar(window as i64));
                limits.push(self.writer.op("LessOrEqual", &[&far, &most]));
            }
            for limit in limits {
                visible = self.writer.op("And", &[&visible, &limit]);
            }
        }
        places.visible.insert(window, visible.clone());
        visible
    }

    fn feed_forward(&mut self, config: &EncoderConfig, layer: &str, x: &str) -> Result<String> {
        let linear1 = format!("{layer}.linear1");
        let inner = self.linear(&linear1, x)?;
        let inner = match config.options.feed_forward {
            FeedForwardKind::Plain => self.activate(&config.activation, &inner)?,
            _ => {
                let width = config.d_ff as i64;
                let [a, b] = [[0, width], [width, 2 * width]].map(|range| self.slice(&inner, range, 2));
                let a = self.activate(&config.activation, &a)?;
                self.writer.op("Mul", &[&a, &b])
            }
        };
        self.linear(&format!("{layer}.linear2"), &inner)
    }

    /// Applies the activation of this name. (ONNX has a Gelu operator from version 20 on.)
    fn activate(&mut self, name: &str, x: &str) -> Result<String> {
        let factor = match name {
            "relu" => return Ok(self.writer.op("Relu", &[x])),
            "silu" => {
                let share = self.writer.op("Sigmoid", &[x]);
                return Ok(self.writer.op("Mul", &[x, &share]));
            }
            "gelu" => {
                let root = self.writer.scalar(std::f32::consts::FRAC_1_SQRT_2);
                let scaled = self.writer.op("Mul", &[x, &root]);
                self.writer.op("Erf", &[&scaled])
            }
            "gelu_tanh" => {
                let [cubic, scale] =
                    [0.044_715, (2.0 / std::f64::consts::PI).sqrt() as f32].map(|n| self.writer.scalar(n));
                let square = self.writer.op("Mul", &[x, x]);
                let cube = self.writer.op("Mul", &[&square, x]);
                let cube = self.writer.op("Mul", &[&cube, &cubic]);
                let sum = self.writer.op("Add", &[x, &cube]);
                let scaled = self.writer.op("Mul", &[&sum, &scale]);
                self.writer.op("Tanh", &[&scaled])
            }
            other => {
                return Err(unsupported(&tr!(
                    "activation {other} is not supported",
                    "活性化関数 {other} には対応していません"
                )));
            }
        };
        // x/2 · (1 + factor)
        let [half, one] = [0.5, 1.0].map(|n| self.writer.scalar(n));
        let sum = self.writer.op("Add", &[&factor, &one]);
        let product = self.writer.op("Mul", &[x, &sum]);
        Ok(self.writer.op("Mul", &[&product, &half]))
    }

    /// Pools the tokens of each row: (batch, width).
    fn pool(&mut self, x: &str) -> Result<String> {
        match self.config.pooling {
            Pooling::First => {
                let first = self.writer.graph.int_scalar(0);
                Ok(self.writer.graph.op("Gather", &[x, &first], &[("axis", Attribute::Int(1))]))
            }
            Pooling::Max => {
                let mask = self.writer.cast(EXPORT_INPUTS[1], OnnxElementType::Bool);
                let last = self.writer.graph.ints(&[2]);
                let mask = self.writer.op("Unsqueeze", &[&mask, &last]);
                let hidden = self.writer.scalar(MASKED_SCORE);
                let visible = self.writer.op("Where", &[&mask, x, &hidden]);
                let settings = [("axes", Attribute::Ints(&[1])), ("keepdims", Attribute::Int(0))];
                Ok(self.writer.graph.op("ReduceMax", &[&visible], &settings))
            }
            Pooling::Mean | Pooling::MeanSqrtLength => {
                let mask = self.writer.cast(EXPORT_INPUTS[1], OnnxElementType::Float);
                let (second, one) = (self.writer.graph.ints(&[1]), self.writer.scalar(1.0));
                let count = self.writer.op("ReduceSum", &[&mask, &second]);
                let count = self.writer.op("Max", &[&count, &one]);
                let count =
                    if self.config.pooling == Pooling::Mean { count } else { self.writer.op("Sqrt", &[&count]) };
                let last = self.writer.graph.ints(&[2]);
                let mask = self.writer.op("Unsqueeze", &[&mask, &last]);
                let visible = self.writer.op("Mul", &[x, &mask]);
                let sum = self.writer.graph.op("ReduceSum", &[&visible, &second], &[("keepdims", Attribute::Int(0))]);
                Ok(self.writer.op("Div", &[&sum, &count]))
            }
            Pooling::Last => {
                let found = format!("{:?}", Pooling::Last);
                Err(unsupported(&tr!("pooling {found} is not supported", "プーリング {found} には対応していません")))
            }
        }
    }

    fn head(&mut self, pooled: String) -> Result<String> {
        let x = match self.config.head_dense {
            None => pooled,
            Some(dense) => {
                let x = self.linear("head.dense", &pooled)?;
                let x = match dense.activation {
                    HeadActivation::Tanh => self.writer.op("Tanh", &[&x]),
                    HeadActivation::Relu => self.writer.op("Relu", &[&x]),
                    HeadActivation::Gelu => self.activate("gelu", &x)?,
                    _ => {
                        return Err(unsupported(&tr!(
                            "the head's activation is not supported",
                            "出力層の活性化関数には対応していません"
                        )));
                    }
                };
                match dense.norm {
                    Some((kind, epsilon)) => self.norm("head.norm", kind, epsilon, &x)?,
                    None => x,
                }
            }
        };
        self.linear("head", &x)
    }
}
