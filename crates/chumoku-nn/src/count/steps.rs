//! The steps of each network, with the formulas of their costs.

use super::exact::Exact;
use super::{CountConfig, Counted};
use crate::layers::{DenseHead, NormOrder};
use chumoku_kernels::Cell;

/// A step, as often as there is one.
pub(super) struct Step {
    pub(super) part: &'static str,
    pub(super) name: &'static str,
    pub(super) times: usize,
    pub(super) shape: Vec<usize>,
    /// Numbers that are read beside parameters.
    pub(super) reads: Exact,
    /// Parameters that are read; of an embedding those that are looked up.
    pub(super) parameters_read: Exact,
    pub(super) parameters: (Exact, String),
    pub(super) multiply_adds: (Exact, String),
    pub(super) growth: String,
    pub(super) kind: Kind,
}

/// What a step is to the totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One of attention's four linear layers.
    Projection,
    /// An array of queries × keys, which fused attention does not hold.
    Pairs,
    /// A product over pairs whose result is one of tokens.
    FromPairs,
    /// The head, whose cost does not grow with the length.
    Head,
    /// Anything else.
    Other,
}

impl Kind {
    /// Whether its multiply–adds grow with the square of the length.
    pub(super) fn is_quadratic(self) -> bool {
        matches!(self, Kind::Pairs | Kind::FromPairs)
    }
}

/// So many tokens, and the letter that formulas have for them.
#[derive(Clone, Copy)]
struct Tokens {
    count: usize,
    letter: char,
}

/// Costs of a step and their formula.
type Cost<'a> = (Exact, &'a str);

const NOTHING: Cost<'static> = (Exact::ZERO, "");

fn wide(n: usize) -> Exact {
    n.into()
}

/// All steps of a network.
pub(super) fn of(config: &CountConfig) -> Vec<Step> {
    let source = Tokens { count: config.length, letter: 'n' };
    let layers = config.num_layers;
    let mut steps = Vec::new();
    match config.network {
        Counted::Attention => {
            let all = Part { config, name: "", tokens: source };
            let keys = Tokens { count: config.keys.unwrap_or(config.length), letter: 'm' };
            steps.extend(all.input(config.vocab_size));
            steps.extend(all.attention(keys));
            steps.extend(all.head(config.d_model));
        }
        Counted::Transformer => {
            let all = Part { config, name: "", tokens: source };
            let keys = Tokens { count: config.keys.unwrap_or(config.length), letter: 'm' };
            steps.extend(all.input(config.vocab_size));
            steps.extend(all.layers(layers, vec![all.attention(keys), all.feed_forward()]));
            steps.extend(config.dense_head.into_iter().flat_map(|dense| all.dense_head(dense)));
            steps.extend(all.head(config.d_model));
        }
        Counted::Decoder => {
            let all = Part { config, name: "", tokens: source };
            steps.extend(all.input(config.vocab_size));
            let keys = Tokens { letter: 'm', ..source };
            steps.extend(all.layers(layers, vec![all.attention(keys), all.feed_forward()]));
            steps.extend(all.output(config.vocab_size));
        }
        Counted::EncoderDecoder => {
            let encoder = Part { config, name: "encoder", tokens: source };
            steps.extend(encoder.input(config.vocab_size));
            steps.extend(encoder.layers(layers, vec![encoder.attention(source), encoder.feed_forward()]));
            let target = Tokens { count: config.target_length(), letter: 't' };
            let of_decoder = config.decoder();
            let decoder = Part { name: "decoder", tokens: target, config: &of_decoder };
            let cross = Part { name: "cross", ..decoder };
            steps.extend(decoder.input(config.target_vocab_size.unwrap_or(config.vocab_size)).map(|mut step| {
                if step.name == "embedding" && config.target_vocab_size.is_none() {
                    // The encoder's table.
                    step.parameters = (Exact::ZERO, String::new());
                }
                step
            }));
            let parts = vec![decoder.attention(target), cross.attention(source), decoder.feed_forward()];
            steps.extend(decoder.layers(config.num_decoder_layers(), parts));
            steps.extend(decoder.output(config.target_vocab_size.unwrap_or(config.vocab_size)));
        }
        Counted::Recurrent(cell) => {
            let all = Part { config, name: "", tokens: source };
            steps.extend(all.input(config.vocab_size));
            steps.extend(all.recurrent(cell));
            let hidden = config.hidden_size.unwrap_or(config.d_model);
            steps.extend(all.head(hidden * (1 + usize::from(config.bidirectional))));
        }
    }
    steps
}

fn repeated(times: usize, steps: Vec<Step>) -> impl Iterator<Item = Step> {
    steps.into_iter().map(move |step| Step { times, ..step })
}

/// A part of a network, in which tokens of one kind go through.
#[derive(Clone, Copy)]
struct Part<'a> {
    config: &'a CountConfig,
    name: &'static str,
    tokens: Tokens,
}

impl Part<'_> {
    /// Tokens of all sequences, B·n.
    fn tokens(&self) -> Exact {
        wide(self.config.batch) * wide(self.tokens.count)
    }

    /// A step whose result has so many rows and columns for each sequence, and of which `reads` numbers are read beside
    /// its parameters.
    fn step(
        &self,
        name: &'static str,
        [rows, columns]: [usize; 2],
        reads: Exact,
        parameters: Cost<'_>,
        multiply_adds: Cost<'_>,
        growth: impl Into<String>,
    ) -> Step {
        Step {
            part: self.name,
            name,
            times: 1,
            shape: vec![self.config.batch, rows, columns],
            reads,
            parameters_read: parameters.0,
            parameters: (parameters.0, parameters.1.into()),
            multiply_adds: (multiply_adds.0, multiply_adds.1.into()),
            growth: growth.into(),
            kind: Kind::Other,
        }
    }

    /// Embedding and learned positions, where there are such.
    fn input(&self, vocab_size: usize) -> impl Iterator<Item = Step> + use<> {
        let (d, size) = (wide(self.config.d_model), [self.tokens.count, self.config.d_model]);
        let growth = format!("{}·d", self.tokens.letter);
        let embedding = (vocab_size > 0).then(|| {
            let parameters = (wide(vocab_size) * d, "V·d");
            // Of the table only the rows are read that are looked up.
            let read = self.tokens() * d;
            let step = self.step("embedding", size, Exact::ZERO, parameters, NOTHING, growth.clone());
            Step { parameters_read: read, ..step }
        });
        let learned = self.config.learned_positions;
        let positions = (learned > 0).then(|| {
            let parameters = (wide(learned) * d, "positions·d");
            let read = wide(self.tokens.count) * d;
            let step = self.step("positions", size, self.tokens() * d, parameters, NOTHING, growth.clone());
            Step { parameters_read: read, ..step }
        });
        let types = self.config.token_types;
        let types = (types > 0).then(|| {
            let parameters = (wide(types) * d, "types·d");
            self.step("token types", size, self.tokens() * d, parameters, NOTHING, growth)
        });
        let norm = self.config.input_norm.then(|| self.norm("input norm"));
        embedding.into_iter().chain(positions).chain(types).chain(norm)
    }

    /// So many layers of `parts`, the last of which is the feed-forward network, each with its residual connection and
    /// normalisation.
    fn layers(&self, times: usize, parts: Vec<Vec<Step>>) -> Vec<Step> {
        let is_pre = self.config.norm_order == NormOrder::Pre;
        let mut layer = Vec::new();
        for (part, name) in parts.into_iter().zip(["norm 1", "norm 2", "norm 3"]) {
            layer.extend(is_pre.then(|| self.norm(name)));
            layer.extend(part);
            layer.push(self.residual());
            layer.extend((!is_pre).then(|| self.norm(name)));
        }
        let mut steps: Vec<Step> = repeated(times, layer).collect();
        if self.config.first_norm_left_out {
            steps.iter_mut().filter(|step| step.name == "norm 1").for_each(|step| step.times -= 1);
            steps.retain(|step| step.times > 0);
        }
        steps.extend(is_pre.then(|| self.norm("final norm")));
        steps
    }

    fn residual(&self) -> Step {
        let (letter, d) = (self.tokens.letter, self.config.d_model);
        let reads = wide(2) * self.tokens() * wide(d);
        self.step("residual", [self.tokens.count, d], reads, NOTHING, NOTHING, format!("{letter}·d"))
    }

    fn norm(&self, name: &'static str) -> Step {
        let (letter, d) = (self.tokens.letter, wide(self.config.d_model));
        let size = [self.tokens.count, self.config.d_model];
        let parameters = if self.config.norm_bias { (wide(2) * d, "2·d") } else { (d, "d") };
        self.step(name, size, self.tokens() * d, parameters, NOTHING, format!("{letter}·d"))
    }

    /// Attention of this part's tokens to `keys`.
    fn attention(&self, keys: Tokens) -> Vec<Step> {
        let c = self.config;
        let (n, m) = (self.tokens.letter, keys.letter);
        // Keys that are as many as the queries are no second number in what grows.
        let is_own = keys.count == self.tokens.count && c.keys.is_none() && (m == n || m == 'm');
        let [pairs, of_keys] = match is_own {
            true => [format!("{n}²"), n.to_string()],
            false => [format!("{n}·{m}"), m.to_string()],
        };
        let [b, d, h, k] = [c.batch, c.d_model, c.num_heads, c.head_dim()].map(wide);
        let (h_kv, key_heads) = (wide(c.num_key_heads.unwrap_or(c.num_heads)), c.num_key_heads.unwrap_or(c.num_heads));
        let has_bias = c.qkv_bias.unwrap_or(c.bias);
        let linear = |name, of: Tokens, heads: usize, formulas: [&str; 2], letter: &str| {
            let (rows, outputs) = (b * wide(of.count), wide(heads) * k);
            let parameters = d * outputs + outputs.only_if(has_bias);
            let costs = [(parameters, formulas[0]), (rows * d * outputs, formulas[1])];
            let size = [of.count, heads * c.head_dim()];
            let step = self.step(name, size, rows * d, costs[0], costs[1], format!("{letter}·d²"));
            Step { kind: Kind::Projection, ..step }
        };
        let to_queries = if has_bias { "d·h·k + h·k" } else { "d·h·k" };
        let to_keys = if has_bias { "d·h_kv·k + h_kv·k" } else { "d·h_kv·k" };
        let shape = vec![c.batch, c.num_heads, self.tokens.count, keys.count];
        let of_pairs = |name, reads, work: Cost<'_>, growth: String| {
            let step = self.step(name, [0, 0], reads, NOTHING, work, growth);
            Step { shape: shape.clone(), kind: Kind::Pairs, ..step }
        };
        let scores = b * h * wide(self.tokens.count) * wide(keys.count);
        let values = b * wide(keys.count) * h_kv * k;
        let product = format!("B·h·{n}·{m}·k");
        let mut steps = vec![
            linear("W_Q", self.tokens, c.num_heads, [to_queries, &format!("B·{n}·d·h·k")], &n.to_string()),
            linear("W_K", keys, key_heads, [to_keys, &format!("B·{m}·d·h_kv·k")], &of_keys),
            linear("W_V", keys, key_heads, [to_keys, &format!("B·{m}·d·h_kv·k")], &of_keys),
        ];
        if c.head_norms {
            let size = [self.tokens.count, c.num_heads * c.head_dim()];
            let read = self.tokens() * h * k + b * wide(keys.count) * h_kv * k;
            steps.push(self.step("head norms", size, read, (wide(2) * k, "2·k"), NOTHING, format!("{n}·d")));
        }
        if c.trained_beta {
            let size = [self.tokens.count, c.num_heads * c.head_dim()];
            let queries = self.tokens() * h * k;
            steps.push(self.step("beta", size, queries, (h, "h"), NOTHING, format!("{n}·d")));
        }
        let read = self.tokens() * h * k + values;
        steps.push(of_pairs("scores", read, (scores * k, &product), format!("{pairs}·d")));
        steps.push(of_pairs("scaling", scores, NOTHING, pairs.clone()));
        steps.push(of_pairs("softmax", scores, NOTHING, pairs.clone()));
        let sum = self.step("weighted sum", [0, 0], scores + values, NOTHING, (scores * k, &product), pairs + "·d");
        let shape = vec![c.batch, c.num_heads, self.tokens.count, c.head_dim()];
        steps.push(Step { shape, kind: Kind::FromPairs, ..sum });
        if c.output_projection {
            let rows = self.tokens();
            let has_bias = c.output_bias.unwrap_or(c.bias);
            let parameters = (h * k * d + d.only_if(has_bias), if has_bias { "h·k·d + d" } else { "h·k·d" });
            let work = format!("B·{n}·h·k·d");
            let work = (rows * h * k * d, work.as_str());
            let size = [self.tokens.count, c.d_model];
            let step = self.step("W_O", size, rows * h * k, parameters, work, format!("{n}·d²"));
            steps.push(Step { kind: Kind::Projection, ..step });
        }
        steps
    }

    fn feed_forward(&self) -> Vec<Step> {
        let (c, n) = (self.config, self.tokens.letter);
        let (tokens, d, f) = (self.tokens(), wide(c.d_model), wide(c.d_ff));
        let [inner, outer] = [[self.tokens.count, c.d_ff], [self.tokens.count, c.d_model]];
        let has_bias = c.feed_forward_bias.unwrap_or(c.bias);
        let formulas = if has_bias { ["d·f + f", "f·d + d"] } else { ["d·f", "f·d"] };
        let work = [format!("B·{n}·d·f"), format!("B·{n}·f·d")];
        let [into, out_of] = [f, d].map(|outputs| d * f + outputs.only_if(has_bias));
        let products = work.each_ref().map(|formula| (tokens * d * f, formula.as_str()));
        let into = |name| self.step(name, inner, tokens * d, (into, formulas[0]), products[0], format!("{n}·d²"));
        let factors = wide(1 + usize::from(c.gated));
        let activation = self.step("activation", inner, factors * tokens * f, NOTHING, NOTHING, format!("{n}·d"));
        let out =
            self.step("feed-forward out", outer, tokens * f, (out_of, formulas[1]), products[1], format!("{n}·d²"));
        let gate = c.gated.then(|| into("feed-forward gate"));
        std::iter::once(into("feed-forward in")).chain(gate).chain([activation, out]).collect()
    }

    /// A recurrent network's layers; layers after the first read the state of all directions.
    fn recurrent(&self, cell: Cell) -> Vec<Step> {
        let c = self.config;
        let hidden = c.hidden_size.unwrap_or(c.d_model);
        let directions = 1 + usize::from(c.bidirectional);
        let (s, gates) = (wide(hidden), wide(cell.gates()));
        let biases = (gates * s * wide(c.gate_biases)).only_if(c.bias);
        let tokens = self.tokens();
        let layers = |times: usize, inputs: usize| {
            let inputs = wide(inputs);
            let formula = if biases == Exact::ZERO { "g·s·d" } else { "g·s·d + biases" };
            let parameters = (gates * s * inputs + biases, formula);
            let work = (tokens * gates * s * inputs, "B·n·g·s·d");
            let size = [self.tokens.count, cell.gates() * hidden];
            let input = self.step("input projection", size, tokens * inputs, parameters, work, "n·d²");
            let costs = [(gates * s * s, "g·s²"), (tokens * gates * s * s, "B·n·g·s²")];
            let size = [self.tokens.count, hidden];
            let state = self.step("state, step by step", size, tokens * gates * s, costs[0], costs[1], "n·d²");
            repeated(times, vec![input, state])
        };
        let mut steps: Vec<Step> = layers(directions, c.d_model).collect();
        if c.num_layers > 1 {
            steps.extend(layers(directions * (c.num_layers - 1), hidden * directions));
        }
        steps
    }

    /// A head's layer before the last, for one vector of each sequence, and its normalisation.
    fn dense_head(&self, dense: DenseHead) -> impl Iterator<Item = Step> + use<> {
        let c = self.config;
        let (b, d) = (wide(c.batch), wide(c.d_model));
        let parameters = (d * d + d.only_if(dense.bias), if dense.bias { "d² + d" } else { "d²" });
        let step = self.step("head, dense", [0, 0], b * d, parameters, (b * d * d, "B·d²"), "d");
        let of_norm = if c.norm_bias { (wide(2) * d, "2·d") } else { (d, "d") };
        let norm = dense.norm.map(|_| self.step("head, norm", [0, 0], b * d, of_norm, NOTHING, "d"));
        let shape = vec![c.batch, c.d_model];
        std::iter::once(step).chain(norm).map(move |step| Step { shape: shape.clone(), kind: Kind::Head, ..step })
    }

    /// The linear layer that tells classes from one vector of `width` for each sequence, where there is one.
    fn head(&self, width: usize) -> Option<Step> {
        let c = self.config;
        let (b, from, classes) = (wide(c.batch), wide(width), wide(c.num_classes));
        let parameters = from * classes + classes.only_if(c.bias);
        let formula = if c.bias { "d·classes + classes" } else { "d·classes" };
        let work = (b * from * classes, "B·d·classes");
        let step = self.step("head", [0, 0], b * from, (parameters, formula), work, "d");
        (c.num_classes > 0).then(|| Step { shape: vec![c.batch, c.num_classes], kind: Kind::Head, ..step })
    }

    /// The layer that tells the next token from each, where there is a vocabulary. It has the embedding's matrix, or one
    /// of its own.
    fn output(&self, vocab_size: usize) -> Option<Step> {
        let (c, letter) = (self.config, self.tokens.letter);
        let (d, vocabulary) = (wide(c.d_model), wide(vocab_size));
        let parameters = (vocabulary * d).only_if(c.untied) + vocabulary.only_if(c.logit_bias);
        let formula = match (c.untied, c.logit_bias) {
            (true, true) => "V·d + V",
            (true, false) => "V·d",
            (false, true) => "V",
            (false, false) => "",
        };
        let work = format!("B·{letter}·d·V");
        let work = (self.tokens() * d * vocabulary, work.as_str());
        let size = [self.tokens.count, vocab_size];
        let step = self.step("output", size, self.tokens() * d, (parameters, formula), work, format!("{letter}·d"));
        (vocab_size > 0).then(|| Step { parameters_read: vocabulary * d + vocabulary.only_if(c.logit_bias), ..step })
    }
}
