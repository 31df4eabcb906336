//! What a network costs: parameters, multiply–adds, bytes and memory of every step, by formulas that can be read.
//!
//! The formulas are held against the kernels' own count, [`chumoku_kernels::multiply_adds`], and against the parameters
//! of the models (`tests/count.rs`). They are those of a forward pass. Sources: Vaswani et al. (2017), table 1; Dao et al.
//! (2022) for what a fused kernel does not hold.

use crate::data::wording::thousands;
use crate::{Error, Result};
use chumoku_kernels::Cell;
use serde::Serialize;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Multi-head attention alone.
    Attention,
    /// A transformer: embedding, encoder layers, a linear head.
    Transformer,
    /// A recurrent network in place of the layers.
    Recurrent(Cell),
}

impl Counted {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Counted::Attention => "attention",
            Counted::Transformer => "transformer",
            Counted::Recurrent(cell) => cell.name(),
        }
    }
}

/// The sizes of what is counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountConfig {
    /// The network.
    pub network: Counted,
    /// Sequences, B.
    pub batch: usize,
    /// Tokens of a sequence, n.
    pub length: usize,
    /// Keys of a sequence, m; n unless it is set (cross-attention).
    pub keys: Option<usize>,
    /// Width of a token, d.
    pub d_model: usize,
    /// Heads, h.
    pub num_heads: usize,
    /// Heads of keys and values, h_kv; h unless it is set.
    pub num_key_heads: Option<usize>,
    /// Width of a head, k; d / h unless it is set.
    pub head_dim: Option<usize>,
    /// Width inside the feed-forward network, f.
    pub d_ff: usize,
    /// Layers, L.
    pub num_layers: usize,
    /// Different tokens; 0 for no embedding.
    pub vocab_size: usize,
    /// Classes; 0 for no head.
    pub num_classes: usize,
    /// Whether linear layers have biases.
    pub bias: bool,
    /// Whether attention has an output projection.
    pub output_projection: bool,
    /// Learned positions, so many; 0 for none.
    pub learned_positions: usize,
    /// One more normalisation at the end of a transformer, as pre-norm has it.
    pub final_norm: bool,
    /// Width of a recurrent network's state; d unless it is set.
    pub hidden_size: Option<usize>,
    /// Whether a recurrent network reads in both directions.
    pub bidirectional: bool,
    /// Bias vectors of a recurrent layer's gates: PyTorch has two.
    pub gate_biases: usize,
    /// Bytes of a number.
    pub bytes: usize,
}

impl Default for CountConfig {
    fn default() -> Self {
        CountConfig {
            network: Counted::Transformer,
            batch: 32,
            length: 128,
            keys: None,
            d_model: 256,
            num_heads: 8,
            num_key_heads: None,
            head_dim: None,
            d_ff: 1024,
            num_layers: 4,
            vocab_size: 0,
            num_classes: 0,
            bias: true,
            output_projection: true,
            learned_positions: 0,
            final_norm: false,
            hidden_size: None,
            bidirectional: false,
            gate_biases: 2,
            bytes: 4,
        }
    }
}

/// The cost of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CountedStep {
    /// Its name.
    pub name: &'static str,
    /// Shape of the result.
    pub shape: Vec<usize>,
    /// How many such steps there are: layers, as a rule.
    pub times: usize,
    /// Parameters of one.
    pub parameters: u64,
    /// Their formula; empty for none.
    pub parameters_formula: &'static str,
    /// Multiply–adds of one.
    pub multiply_adds: u64,
    /// Their formula; empty for none.
    pub multiply_adds_formula: &'static str,
    /// How they grow with the length and the width.
    pub growth: &'static str,
    /// Bytes that one reads and writes: operands, parameters and result, each once.
    pub bytes: u64,
    /// Bytes of the result, which a plain program holds.
    pub held: u64,
    /// Whether a fused kernel does without holding the result.
    pub is_fused_away: bool,
}

/// The cost of a whole network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Count {
    /// The network's name.
    pub network: &'static str,
    /// Its steps, in order.
    pub steps: Vec<CountedStep>,
    /// Parameters.
    pub parameters: u64,
    /// Multiply–adds of a forward pass.
    pub multiply_adds: u64,
    /// Bytes that a forward pass reads and writes, step by step.
    pub bytes: u64,
    /// Bytes that training holds of a forward pass for the backward pass, if every result is kept.
    pub held: u64,
    /// The same where attention is fused and holds no array of queries × keys.
    pub held_fused: u64,
    /// The most bytes that a plain forward pass holds at a time: parameters, the layers' input, operands and result.
    pub peak: u64,
    /// The length at which the products of queries × keys cost as much as all that grows with the length alone, where
    /// there are such.
    pub quadratic_from: Option<f64>,
    /// The same of attention alone: its projections against its products.
    pub attention_quadratic_from: Option<f64>,
    /// Steps that have to wait for one another, in all layers.
    pub sequential_steps: u64,
}

/// A step of one layer.
struct Step {
    name: &'static str,
    shape: Vec<usize>,
    /// Numbers that are read beside parameters.
    reads: u64,
    parameters: (u64, &'static str),
    multiply_adds: (u64, &'static str),
    growth: &'static str,
    is_fused_away: bool,
}

impl CountConfig {
    /// Counts every step.
    ///
    /// # Errors
    /// If a size is 0 or the heads do not divide the width.
    pub fn count(&self) -> Result<Count> {
        let sizes = [
            ("batch", self.batch),
            ("length", self.length),
            ("d_model", self.d_model),
            ("heads", self.num_heads),
            ("layers", self.num_layers),
            ("keys", self.keys.unwrap_or(1)),
            ("kv-heads", self.num_key_heads.unwrap_or(1)),
            ("head-dim", self.head_dim.unwrap_or(1)),
            ("hidden", self.hidden_size.unwrap_or(1)),
        ];
        if let Some((name, size)) = sizes.into_iter().find(|(_, size)| *size == 0 || *size > 1 << 30) {
            return Err(Error::Setting(format!("{name}: expected 1 to {}, got {size}", thousands(1 << 30))));
        }
        let has_heads = !matches!(self.network, Counted::Recurrent(_));
        if has_heads && self.head_dim.is_none() && !self.d_model.is_multiple_of(self.num_heads) {
            return Err(Error::Heads { d_model: self.d_model, num_heads: self.num_heads });
        }
        if has_heads && !self.num_heads.is_multiple_of(self.num_key_heads.unwrap_or(1)) {
            let (heads, found) = (self.num_heads, self.num_key_heads.unwrap_or(1));
            return Err(Error::Setting(format!("kv-heads: expected a divisor of the {heads} heads, got {found}")));
        }
        let mut steps = Vec::new();
        let wide = |n: usize| n as u64;
        let tokens = wide(self.batch * self.length);
        let d = wide(self.d_model);
        let is_whole = self.network != Counted::Attention;
        if is_whole && self.vocab_size > 0 {
            let parameters = wide(self.vocab_size) * d;
            steps.push((
                1,
                self.step("embedding", [self.length, self.d_model], 0, (parameters, "vocabulary·d"), (0, ""), "n·d"),
            ));
        }
        if is_whole && self.learned_positions > 0 {
            let parameters = wide(self.learned_positions) * d;
            let step = self.step(
                "positions",
                [self.length, self.d_model],
                tokens * d,
                (parameters, "positions·d"),
                (0, ""),
                "n·d",
            );
            steps.push((1, step));
        }
        let width = match self.network {
            Counted::Attention => {
                steps.extend(self.attention().into_iter().map(|step| (1, step)));
                self.d_model
            }
            Counted::Transformer => {
                let layer = [self.attention(), self.around()].into_iter().flatten();
                steps.extend(layer.map(|step| (self.num_layers, step)));
                if self.final_norm {
                    steps.push((1, self.norm("final norm")));
                }
                self.d_model
            }
            Counted::Recurrent(cell) => {
                steps.extend(self.recurrent(cell));
                self.hidden_size.unwrap_or(self.d_model) * (1 + usize::from(self.bidirectional))
            }
        };
        if is_whole && self.num_classes > 0 {
            let (from, classes) = (wide(width), wide(self.num_classes));
            let parameters = from * classes + classes * u64::from(self.bias);
            let work = wide(self.batch) * from * classes;
            let mut head = self.step(
                "head",
                [1, self.num_classes],
                wide(self.batch) * from,
                (parameters, "d·classes + classes"),
                (work, "B·d·classes"),
                "d",
            );
            head.shape = vec![self.batch, self.num_classes];
            steps.push((1, head));
        }
        Ok(self.sum(steps))
    }

    /// A step whose result has so many rows and columns for each sequence.
    fn step(
        &self,
        name: &'static str,
        [rows, columns]: [usize; 2],
        reads: u64,
        parameters: (u64, &'static str),
        multiply_adds: (u64, &'static str),
        growth: &'static str,
    ) -> Step {
        let shape = vec![self.batch, rows, columns];
        Step { name, shape, reads, parameters, multiply_adds, growth, is_fused_away: false }
    }

    fn attention(&self) -> Vec<Step> {
        let [b, n, m] = [self.batch, self.length, self.keys.unwrap_or(self.length)].map(|x| x as u64);
        let (d, h) = (self.d_model as u64, self.num_heads as u64);
        let h_kv = self.num_key_heads.unwrap_or(self.num_heads) as u64;
        let head_dim = self.head_dim.unwrap_or(self.d_model / self.num_heads);
        let k = head_dim as u64;
        let bias = |outputs: u64| outputs * u64::from(self.bias);
        let linear = |name, length: usize, outputs: u64, parameters, work| {
            let rows = b * length as u64;
            let size = [length, outputs as usize];
            let costs = ((d * outputs + bias(outputs), parameters), (rows * d * outputs, work));
            self.step(name, size, rows * d, costs.0, costs.1, "n·d²")
        };
        let pairs = |name, reads, work: (u64, &'static str), growth| Step {
            name,
            shape: vec![self.batch, self.num_heads, self.length, m as usize],
            reads,
            parameters: (0, ""),
            multiply_adds: work,
            growth,
            is_fused_away: true,
        };
        let (scores, keys) = (b * h * n * m, m as usize);
        let mut steps = vec![
            linear("W_Q", self.length, h * k, "d·h·k + h·k", "B·n·d·h·k"),
            linear("W_K", keys, h_kv * k, "d·h_kv·k + h_kv·k", "B·m·d·h_kv·k"),
            linear("W_V", keys, h_kv * k, "d·h_kv·k + h_kv·k", "B·m·d·h_kv·k"),
            pairs("scores", b * (n * h * k + m * h_kv * k), (scores * k, "B·h·n·m·k"), "n²·d"),
            pairs("scaling", scores, (0, ""), "n²"),
            pairs("softmax", scores, (0, ""), "n²"),
        ];
        let mut output = self.step(
            "weighted sum",
            [self.length, (h * k) as usize],
            scores + b * m * h_kv * k,
            (0, ""),
            (scores * k, "B·h·n·m·k"),
            "n²·d",
        );
        output.shape = vec![self.batch, self.num_heads, self.length, head_dim];
        steps.push(output);
        if self.output_projection {
            let rows = b * n;
            steps.push(self.step(
                "W_O",
                [self.length, self.d_model],
                rows * h * k,
                (h * k * d + bias(d), "h·k·d + d"),
                (rows * h * k * d, "B·n·h·k·d"),
                "n·d²",
            ));
        }
        steps
    }

    /// What stands around attention in a layer: residual connections, normalisation, feed-forward network.
    fn around(&self) -> Vec<Step> {
        let tokens = (self.batch * self.length) as u64;
        let (d, f, bias) = (self.d_model as u64, self.d_ff as u64, u64::from(self.bias));
        let wide = [self.length, self.d_ff];
        let narrow = [self.length, self.d_model];
        let into = ((d * f + bias * f, "d·f + f"), (tokens * d * f, "B·n·d·f"));
        let out_of = ((f * d + bias * d, "f·d + d"), (tokens * f * d, "B·n·f·d"));
        let residual = || self.step("residual", narrow, 2 * tokens * d, (0, ""), (0, ""), "n·d");
        vec![
            residual(),
            self.norm("norm 1"),
            self.step("feed-forward in", wide, tokens * d, into.0, into.1, "n·d²"),
            self.step("activation", wide, tokens * f, (0, ""), (0, ""), "n·d"),
            self.step("feed-forward out", narrow, tokens * f, out_of.0, out_of.1, "n·d²"),
            residual(),
            self.norm("norm 2"),
        ]
    }

    fn norm(&self, name: &'static str) -> Step {
        let (tokens, d) = ((self.batch * self.length) as u64, self.d_model as u64);
        self.step(name, [self.length, self.d_model], tokens * d, (2 * d, "2·d"), (0, ""), "n·d")
    }

    fn recurrent(&self, cell: Cell) -> Vec<(usize, Step)> {
        let tokens = (self.batch * self.length) as u64;
        let hidden = self.hidden_size.unwrap_or(self.d_model);
        let directions = 1 + usize::from(self.bidirectional);
        let (s, gates) = (hidden as u64, cell.gates() as u64);
        let biases = gates * s * self.gate_biases as u64;
        let mut steps = Vec::new();
        let mut layer = |times: usize, inputs: u64| {
            let size = [self.length, cell.gates() * hidden];
            let parameters = (gates * s * inputs + biases, "g·s·d + biases");
            let work = (tokens * gates * s * inputs, "B·n·g·s·d");
            let input = self.step("input projection", size, tokens * inputs, parameters, work, "n·d²");
            let state = self.step(
                "state, step by step",
                [self.length, hidden],
                tokens * gates * s,
                (gates * s * s, "g·s²"),
                (tokens * gates * s * s, "B·n·g·s²"),
                "n·d²",
            );
            steps.extend([(times, input), (times, state)]);
        };
        layer(directions, self.d_model as u64);
        if self.num_layers > 1 {
            layer(directions * (self.num_layers - 1), (hidden * directions) as u64);
        }
        steps
    }

    fn sum(&self, steps: Vec<(usize, Step)>) -> Count {
        let bytes = self.bytes as u64;
        let finish = |(times, step): (usize, Step)| {
            let result: u64 = step.shape.iter().map(|&size| size as u64).product();
            // Of an embedding only the rows are read that are looked up.
            let read = if step.name == "embedding" { result } else { step.reads + step.parameters.0 };
            CountedStep {
                name: step.name,
                shape: step.shape,
                times,
                parameters: step.parameters.0,
                parameters_formula: step.parameters.1,
                multiply_adds: step.multiply_adds.0,
                multiply_adds_formula: step.multiply_adds.1,
                growth: step.growth,
                bytes: bytes * (read + result),
                held: bytes * result,
                is_fused_away: step.is_fused_away,
            }
        };
        let residual = bytes * (self.batch * self.length * self.d_model) as u64;
        let of_pairs = |step: &&CountedStep| step.growth == "n²·d";
        let all: Vec<CountedStep> = steps.into_iter().map(finish).collect();
        let total = |of: &dyn Fn(&CountedStep) -> u64| all.iter().map(|step| step.times as u64 * of(step)).sum::<u64>();
        let parameters = total(&|step| step.parameters);
        let work = |steps: &mut dyn Iterator<Item = &CountedStep>| -> u64 {
            steps.map(|step| step.times as u64 * step.multiply_adds).sum()
        };
        let quadratic = work(&mut all.iter().filter(of_pairs));
        let in_attention = |step: &&CountedStep| ["W_Q", "W_K", "W_V", "W_O"].contains(&step.name);
        let linear = work(&mut all.iter().filter(|step| !of_pairs(step) && step.name != "head"));
        // Both are known at this length, and one grows with its square: the other's share says where they meet.
        let meet = |linear: u64| {
            (quadratic > 0 && self.keys.is_none()).then(|| self.length as f64 * linear as f64 / quadratic as f64)
        };
        let sequential = match self.network {
            Counted::Attention => 1,
            Counted::Transformer => self.num_layers as u64,
            Counted::Recurrent(_) => (self.num_layers * self.length) as u64,
        };
        Count {
            network: self.network.name(),
            parameters,
            multiply_adds: total(&|step| step.multiply_adds),
            bytes: total(&|step| step.bytes),
            held: total(&|step| step.held),
            held_fused: total(&|step| if step.is_fused_away { 0 } else { step.held }),
            peak: bytes * parameters
                + residual
                + all
                    .iter()
                    .map(|step| step.bytes - bytes * step.parameters.min(step.bytes / bytes))
                    .max()
                    .unwrap_or(0),
            quadratic_from: meet(linear),
            attention_quadratic_from: meet(work(&mut all.iter().filter(in_attention))),
            sequential_steps: sequential,
            steps: all,
        }
    }
}
