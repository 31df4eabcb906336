//! The steps of each network, with the formulas of their costs.

use super::exact::CheckedU128;
use super::{CountConfig, NetworkKind};
use crate::layers::{DenseHeadConfig, NormOrder};
use chumoku_kernels::RecurrentCell;

/// A step with its formulas and the number of its occurrences.
pub(super) struct StepFormulas {
    pub(super) part: &'static str,
    pub(super) name: &'static str,
    pub(super) times: usize,
    pub(super) shape: Vec<usize>,
    /// Numbers read besides parameters.
    pub(super) reads: CheckedU128,
    /// Parameters read; for an embedding, only the rows that are looked up.
    pub(super) parameters_read: CheckedU128,
    pub(super) parameters: (CheckedU128, String),
    pub(super) multiply_adds: (CheckedU128, String),
    pub(super) growth: String,
    pub(super) kind: StepRole,
}

/// The role of a step in the totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepRole {
    /// One of attention's four linear layers.
    Projection,
    /// An array of queries × keys, which fused attention does not hold.
    Scores,
    /// A product over query–key pairs whose result has one row per token.
    WeightedSum,
    /// The head, whose cost does not grow with the length.
    Head,
    /// Any other step.
    Other,
}

impl StepRole {
    /// Returns true if the multiply–adds grow with the square of the length.
    pub(super) fn is_quadratic(self) -> bool {
        matches!(self, StepRole::Scores | StepRole::WeightedSum)
    }
}

/// A number of tokens and its letter in formulas.
#[derive(Clone, Copy)]
struct TokenCount {
    count: usize,
    letter: char,
}

/// A cost and its formula.
type CostFormula<'a> = (CheckedU128, &'a str);

const NO_COST: CostFormula<'static> = (CheckedU128::ZERO, "");

fn exact(n: usize) -> CheckedU128 {
    n.into()
}

/// Returns all steps of a network.
pub(super) fn network_steps(config: &CountConfig) -> Vec<StepFormulas> {
    let source = TokenCount { count: config.length, letter: 'n' };
    let layers = config.num_layers;
    let mut steps = Vec::new();
    match config.network {
        NetworkKind::Attention => {
            let all = LayerStack { config, name: "", tokens: source };
            let keys = TokenCount { count: config.keys.unwrap_or(config.length), letter: 'm' };
            steps.extend(all.input(config.vocab_size));
            steps.extend(all.attention(keys));
            steps.extend(all.head(config.d_model));
        }
        NetworkKind::AdditiveAttention => {
            let all = LayerStack { config, name: "", tokens: source };
            let keys = TokenCount { count: config.keys.unwrap_or(config.length), letter: 'm' };
            steps.extend(all.input(config.vocab_size));
            steps.extend(all.additive_attention(keys));
            steps.extend(all.head(config.d_model));
        }
        NetworkKind::Transformer => {
            let all = LayerStack { config, name: "", tokens: source };
            let keys = TokenCount { count: config.keys.unwrap_or(config.length), letter: 'm' };
            steps.extend(all.input(config.vocab_size));
            steps.extend(all.layers(layers, vec![all.attention(keys), all.feed_forward()]));
            steps.extend(config.dense_head.into_iter().flat_map(|dense| all.dense_head(dense)));
            steps.extend(all.head(config.d_model));
        }
        NetworkKind::Decoder => {
            let all = LayerStack { config, name: "", tokens: source };
            steps.extend(all.input(config.vocab_size));
            let keys = TokenCount { letter: 'm', ..source };
            steps.extend(all.layers(layers, vec![all.attention(keys), all.feed_forward()]));
            steps.extend(all.output(config.vocab_size));
        }
        NetworkKind::EncoderDecoder => {
            let encoder = LayerStack { config, name: "encoder", tokens: source };
            steps.extend(encoder.input(config.vocab_size));
            steps.extend(encoder.layers(layers, vec![encoder.attention(source), encoder.feed_forward()]));
            let target = TokenCount { count: config.target_length(), letter: 't' };
            let of_decoder = config.decoder();
            let decoder = LayerStack { name: "decoder", tokens: target, config: &of_decoder };
            let cross = LayerStack { name: "cross", ..decoder };
            steps.extend(decoder.input(config.target_vocab_size.unwrap_or(config.vocab_size)).map(|mut step| {
                if step.name == "embedding" && config.target_vocab_size.is_none() {
                    // The decoder shares the encoder's table.
                    step.parameters = (CheckedU128::ZERO, String::new());
                }
                step
            }));
            let parts = vec![decoder.attention(target), cross.attention(source), decoder.feed_forward()];
            steps.extend(decoder.layers(config.num_decoder_layers(), parts));
            steps.extend(decoder.output(config.target_vocab_size.unwrap_or(config.vocab_size)));
        }
        NetworkKind::Recurrent(cell) => {
            let all = LayerStack { config, name: "", tokens: source };
            steps.extend(all.input(config.vocab_size));
            steps.extend(all.recurrent(cell));
            let hidden = config.hidden_size.unwrap_or(config.d_model);
            steps.extend(all.head(hidden * (1 + usize::from(config.bidirectional))));
        }
    }
    steps
}

fn repeat_steps(times: usize, steps: Vec<StepFormulas>) -> impl Iterator<Item = StepFormulas> {
    steps.into_iter().map(move |step| StepFormulas { times, ..step })
}

/// A stack of layers that processes one kind of tokens.
#[derive(Clone, Copy)]
struct LayerStack<'a> {
    config: &'a CountConfig,
    name: &'static str,
    tokens: TokenCount,
}

impl LayerStack<'_> {
    /// Tokens of all sequences, B·n.
    fn tokens(&self) -> CheckedU128 {
        exact(self.config.batch) * exact(self.tokens.count)
    }

    /// Builds a step with a result of `rows` × `columns` for each sequence. It reads `reads` numbers besides its
    /// parameters.
    fn step(
        &self,
        name: &'static str,
        [rows, columns]: [usize; 2],
        reads: CheckedU128,
        parameters: CostFormula<'_>,
        multiply_adds: CostFormula<'_>,
        growth: impl Into<String>,
    ) -> StepFormulas {
        StepFormulas {
            part: self.name,
            name,
            times: 1,
            shape: vec![self.config.batch, rows, columns],
            reads,
            parameters_read: parameters.0,
            parameters: (parameters.0, parameters.1.into()),
            multiply_adds: (multiply_adds.0, multiply_adds.1.into()),
            growth: growth.into(),
            kind: StepRole::Other,
        }
    }

    /// The steps of the input embeddings: tokens, learned positions, token types and norm, as far as present.
    fn input(&self, vocab_size: usize) -> impl Iterator<Item = StepFormulas> + use<> {
        let (d, size) = (exact(self.config.d_model), [self.tokens.count, self.config.d_model]);
        let growth = format!("{}·d", self.tokens.letter);
        let embedding = (vocab_size > 0).then(|| {
            let parameters = (exact(vocab_size) * d, "V·d");
            // Only the rows that are looked up are read.
            let read = self.tokens() * d;
            let step = self.step("embedding", size, CheckedU128::ZERO, parameters, NO_COST, growth.clone());
            StepFormulas { parameters_read: read, ..step }
        });
        let learned = self.config.learned_positions;
        let positions = (learned > 0).then(|| {
            let parameters = (exact(learned) * d, "positions·d");
            let read = exact(self.tokens.count) * d;
            let step = self.step("positions", size, self.tokens() * d, parameters, NO_COST, growth.clone());
            StepFormulas { parameters_read: read, ..step }
        });
        let types = self.config.token_types;
        let types = (types > 0).then(|| {
            let parameters = (exact(types) * d, "types·d");
            self.step("token types", size, self.tokens() * d, parameters, NO_COST, growth)
        });
        let norm = self.config.input_norm.then(|| self.norm("input norm"));
        embedding.into_iter().chain(positions).chain(types).chain(norm)
    }

    /// The steps of `times` layers, with a residual connection and a normalization around each of `parts`. The last
    /// part is the feed-forward network.
    fn layers(&self, times: usize, parts: Vec<Vec<StepFormulas>>) -> Vec<StepFormulas> {
        let is_pre = self.config.norm_order == NormOrder::Pre;
        let mut layer = Vec::new();
        for (part, name) in parts.into_iter().zip(["norm 1", "norm 2", "norm 3"]) {
            layer.extend(is_pre.then(|| self.norm(name)));
            layer.extend(part);
            layer.push(self.residual());
            layer.extend((!is_pre).then(|| self.norm(name)));
        }
        let mut steps: Vec<StepFormulas> = repeat_steps(times, layer).collect();
        if self.config.first_norm_left_out {
            steps.iter_mut().filter(|step| step.name == "norm 1").for_each(|step| step.times -= 1);
            steps.retain(|step| step.times > 0);
        }
        steps.extend(is_pre.then(|| self.norm("final norm")));
        steps
    }

    fn residual(&self) -> StepFormulas {
        let (letter, d) = (self.tokens.letter, self.config.d_model);
        let reads = exact(2) * self.tokens() * exact(d);
        self.step("residual", [self.tokens.count, d], reads, NO_COST, NO_COST, format!("{letter}·d"))
    }

    fn norm(&self, name: &'static str) -> StepFormulas {
        let (letter, d) = (self.tokens.letter, exact(self.config.d_model));
        let size = [self.tokens.count, self.config.d_model];
        let parameters = if self.config.norm_bias { (exact(2) * d, "2·d") } else { (d, "d") };
        self.step(name, size, self.tokens() * d, parameters, NO_COST, format!("{letter}·d"))
    }

    /// The steps of attention from this part's tokens to `keys`.
    fn attention(&self, keys: TokenCount) -> Vec<StepFormulas> {
        let c = self.config;
        let (n, m) = (self.tokens.letter, keys.letter);
        // If there are as many keys as queries, the growth formula needs no second letter.
        let is_own = keys.count == self.tokens.count && c.keys.is_none() && (m == n || m == 'm');
        let [pairs, of_keys] = match is_own {
            true => [format!("{n}²"), n.to_string()],
            false => [format!("{n}·{m}"), m.to_string()],
        };
        let [b, d, h, k] = [c.batch, c.d_model, c.num_heads, c.head_dim()].map(exact);
        let (h_kv, key_heads) = (exact(c.num_key_heads.unwrap_or(c.num_heads)), c.num_key_heads.unwrap_or(c.num_heads));
        let has_bias = c.qkv_bias.unwrap_or(c.bias);
        let linear = |name, of: TokenCount, heads: usize, formulas: [&str; 2], letter: &str| {
            let (rows, outputs) = (b * exact(of.count), exact(heads) * k);
            let parameters = d * outputs + outputs.only_if(has_bias);
            let costs = [(parameters, formulas[0]), (rows * d * outputs, formulas[1])];
            let size = [of.count, heads * c.head_dim()];
            let step = self.step(name, size, rows * d, costs[0], costs[1], format!("{letter}·d²"));
            StepFormulas { kind: StepRole::Projection, ..step }
        };
        let to_queries = if has_bias { "d·h·k + h·k" } else { "d·h·k" };
        let to_keys = if has_bias { "d·h_kv·k + h_kv·k" } else { "d·h_kv·k" };
        let shape = vec![c.batch, c.num_heads, self.tokens.count, keys.count];
        let of_pairs = |name, reads, work: CostFormula<'_>, growth: String| {
            let step = self.step(name, [0, 0], reads, NO_COST, work, growth);
            StepFormulas { shape: shape.clone(), kind: StepRole::Scores, ..step }
        };
        let scores = b * h * exact(self.tokens.count) * exact(keys.count);
        let values = b * exact(keys.count) * h_kv * k;
        let product = format!("B·h·{n}·{m}·k");
        let mut steps = vec![
            linear("W_Q", self.tokens, c.num_heads, [to_queries, &format!("B·{n}·d·h·k")], &n.to_string()),
            linear("W_K", keys, key_heads, [to_keys, &format!("B·{m}·d·h_kv·k")], &of_keys),
            linear("W_V", keys, key_heads, [to_keys, &format!("B·{m}·d·h_kv·k")], &of_keys),
        ];
        if c.head_norms {
            let size = [self.tokens.count, c.num_heads * c.head_dim()];
            let read = self.tokens() * h * k + b * exact(keys.count) * h_kv * k;
            steps.push(self.step("head norms", size, read, (exact(2) * k, "2·k"), NO_COST, format!("{n}·d")));
        }
        if c.trained_beta {
            let size = [self.tokens.count, c.num_heads * c.head_dim()];
            let queries = self.tokens() * h * k;
            steps.push(self.step("beta", size, queries, (h, "h"), NO_COST, format!("{n}·d")));
        }
        let read = self.tokens() * h * k + values;
        steps.push(of_pairs("scores", read, (scores * k, &product), format!("{pairs}·d")));
        steps.push(of_pairs("scaling", scores, NO_COST, pairs.clone()));
        steps.push(of_pairs("softmax", scores, NO_COST, pairs.clone()));
        let sum = self.step("weighted sum", [0, 0], scores + values, NO_COST, (scores * k, &product), pairs + "·d");
        let shape = vec![c.batch, c.num_heads, self.tokens.count, c.head_dim()];
        steps.push(StepFormulas { shape, kind: StepRole::WeightedSum, ..sum });
        if c.output_projection {
            let rows = self.tokens();
            let has_bias = c.output_bias.unwrap_or(c.bias);
            let parameters = (h * k * d + d.only_if(has_bias), if has_bias { "h·k·d + d" } else { "h·k·d" });
            let work = format!("B·{n}·h·k·d");
            let work = (rows * h * k * d, work.as_str());
            let size = [self.tokens.count, c.d_model];
            let step = self.step("W_O", size, rows * h * k, parameters, work, format!("{n}·d²"));
            steps.push(StepFormulas { kind: StepRole::Projection, ..step });
        }
        steps
    }

    /// The steps of additive attention: `softmax(vᵀ tanh(W_Q q + W_K k)) K`.
    fn additive_attention(&self, keys: TokenCount) -> Vec<StepFormulas> {
        let c = self.config;
        let inner = c.hidden_size.unwrap_or(c.d_model);
        let [b, n, m, d, s] = [c.batch, self.tokens.count, keys.count, c.d_model, inner].map(exact);
        let pairs = b * n * m;
        let growth = |of: &str| if c.keys.is_none() { format!("n²{of}") } else { format!("n·m{of}") };
        let linear = |name, of: TokenCount, has_bias: bool, letter: &str| {
            let (rows, biases) = (b * exact(of.count), s.only_if(has_bias));
            let parameters = (d * s + biases, if has_bias { "d·s + s" } else { "d·s" });
            let formula = format!("B·{}·d·s", of.letter);
            let work = (rows * d * s, formula.as_str());
            let step = self.step(name, [of.count, inner], rows * d, parameters, work, format!("{letter}·d²"));
            StepFormulas { kind: StepRole::Projection, ..step }
        };
        let letter = if c.keys.is_none() { "n" } else { "m" };
        let of_pairs = |name, reads, parameters, work, growth, width: Option<usize>, kind| {
            let shape = [c.batch, self.tokens.count, keys.count].into_iter().chain(width).collect();
            StepFormulas { shape, kind, ..self.step(name, [0, 0], reads, parameters, work, growth) }
        };
        let sums = b * (n + m) * s;
        let values = b * m * d;
        let sum = self.step(
            "weighted sum",
            [self.tokens.count, c.d_model],
            pairs + values,
            NO_COST,
            (pairs * d, "B·n·m·d"),
            growth("·d"),
        );
        vec![
            // One bias is enough, since both products are added.
            linear("W_Q", self.tokens, c.bias, "n"),
            linear("W_K", keys, false, letter),
            of_pairs("sums, tanh", sums, NO_COST, NO_COST, growth("·d"), Some(inner), StepRole::Other),
            of_pairs("scores", pairs * s, (s, "s"), (pairs * s, "B·n·m·s"), growth("·d"), None, StepRole::WeightedSum),
            of_pairs("softmax", pairs, NO_COST, NO_COST, growth(""), None, StepRole::Other),
            StepFormulas { kind: StepRole::WeightedSum, ..sum },
        ]
    }

    fn feed_forward(&self) -> Vec<StepFormulas> {
        let (c, n) = (self.config, self.tokens.letter);
        let (tokens, d, f) = (self.tokens(), exact(c.d_model), exact(c.d_ff));
        let [inner, outer] = [[self.tokens.count, c.d_ff], [self.tokens.count, c.d_model]];
        let has_bias = c.feed_forward_bias.unwrap_or(c.bias);
        let formulas = if has_bias { ["d·f + f", "f·d + d"] } else { ["d·f", "f·d"] };
        let work = [format!("B·{n}·d·f"), format!("B·{n}·f·d")];
        let [into, out_of] = [f, d].map(|outputs| d * f + outputs.only_if(has_bias));
        let products = work.each_ref().map(|formula| (tokens * d * f, formula.as_str()));
        let into = |name| self.step(name, inner, tokens * d, (into, formulas[0]), products[0], format!("{n}·d²"));
        let factors = exact(1 + usize::from(c.gated));
        let activation = self.step("activation", inner, factors * tokens * f, NO_COST, NO_COST, format!("{n}·d"));
        let out =
            self.step("feed-forward out", outer, tokens * f, (out_of, formulas[1]), products[1], format!("{n}·d²"));
        let gate = c.gated.then(|| into("feed-forward gate"));
        std::iter::once(into("feed-forward in")).chain(gate).chain([activation, out]).collect()
    }

    /// The steps of recurrent layers. Layers after the first read the states of all directions.
    fn recurrent(&self, cell: RecurrentCell) -> Vec<StepFormulas> {
        let c = self.config;
        let hidden = c.hidden_size.unwrap_or(c.d_model);
        let directions = 1 + usize::from(c.bidirectional);
        let (s, gates) = (exact(hidden), exact(cell.gates()));
        let biases = (gates * s * exact(c.gate_biases)).only_if(c.bias);
        let tokens = self.tokens();
        let layers = |times: usize, inputs: usize| {
            let inputs = exact(inputs);
            let formula = if biases == CheckedU128::ZERO { "g·s·d" } else { "g·s·d + biases" };
            let parameters = (gates * s * inputs + biases, formula);
            let work = (tokens * gates * s * inputs, "B·n·g·s·d");
            let size = [self.tokens.count, cell.gates() * hidden];
            let input = self.step("input projection", size, tokens * inputs, parameters, work, "n·d²");
            let costs = [(gates * s * s, "g·s²"), (tokens * gates * s * s, "B·n·g·s²")];
            let size = [self.tokens.count, hidden];
            let state = self.step("state, step by step", size, tokens * gates * s, costs[0], costs[1], "n·d²");
            repeat_steps(times, vec![input, state])
        };
        let mut steps: Vec<StepFormulas> = layers(directions, c.d_model).collect();
        if c.num_layers > 1 {
            steps.extend(layers(directions * (c.num_layers - 1), hidden * directions));
        }
        steps
    }

    /// The dense layer of a head, for one vector per sequence, and its normalization.
    fn dense_head(&self, dense: DenseHeadConfig) -> impl Iterator<Item = StepFormulas> + use<> {
        let c = self.config;
        let (b, d) = (exact(c.batch), exact(c.d_model));
        let parameters = (d * d + d.only_if(dense.bias), if dense.bias { "d² + d" } else { "d²" });
        let step = self.step("head, dense", [0, 0], b * d, parameters, (b * d * d, "B·d²"), "d");
        let of_norm = if c.norm_bias { (exact(2) * d, "2·d") } else { (d, "d") };
        let norm = dense.norm.map(|_| self.step("head, norm", [0, 0], b * d, of_norm, NO_COST, "d"));
        let shape = vec![c.batch, c.d_model];
        std::iter::once(step).chain(norm).map(move |step| StepFormulas {
            shape: shape.clone(),
            kind: StepRole::Head,
            ..step
        })
    }

    /// The classification layer, from one vector of `width` per sequence, if there are classes.
    fn head(&self, width: usize) -> Option<StepFormulas> {
        let c = self.config;
        let (b, from, classes) = (exact(c.batch), exact(width), exact(c.num_classes));
        let parameters = from * classes + classes.only_if(c.bias);
        let formula = if c.bias { "d·classes + classes" } else { "d·classes" };
        let work = (b * from * classes, "B·d·classes");
        let step = self.step("head", [0, 0], b * from, (parameters, formula), work, "d");
        (c.num_classes > 0).then(|| StepFormulas { shape: vec![c.batch, c.num_classes], kind: StepRole::Head, ..step })
    }

    /// The output layer that predicts the next token at each position, if there is a vocabulary. It uses the
    /// embedding's matrix or its own.
    fn output(&self, vocab_size: usize) -> Option<StepFormulas> {
        let (c, letter) = (self.config, self.tokens.letter);
        let (d, vocabulary) = (exact(c.d_model), exact(vocab_size));
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
        (vocab_size > 0)
            .then(|| StepFormulas { parameters_read: vocabulary * d + vocabulary.only_if(c.logit_bias), ..step })
    }
}
