//! Inputs that a claimed quantity needs and that are missing.

use crate::examples::example::WorkedExample;
use crate::examples::options::MaskOption;
use crate::program::quantity::Quantity;
use chumoku::nn::NormOrder;
use chumoku::tr;

impl WorkedExample {
    /// Returns advice for a claim about a quantity that does not follow: the missing inputs.
    pub(crate) fn missing_advice(&self, quantity: Quantity) -> String {
        let missing = self.missing_inputs(quantity);
        let heads = self.options.num_heads;
        match (quantity, missing.is_empty()) {
            (_, false) => {
                let list = missing.join(&tr!(" and ", "と"));
                tr!("give {list}", "{list}を与えてください")
            }
            (Quantity::HeadOutput | Quantity::Concat, true) => tr!(
                "without W_O, the result of the {heads} heads is called output",
                "W_O を与えないとき、{heads} 個のヘッドの結果の名前は output です"
            ),
            _ => tr!("it is an input, not a result", "これは出発点として与える値です"),
        }
    }

    /// Returns the inputs that scores need and that are missing.
    pub(crate) fn missing_for_scores(&self) -> Vec<String> {
        self.missing_inputs(if self.options.is_additive { Quantity::Scores } else { Quantity::ScaledScores })
    }

    fn has_input(&self, quantity: Quantity) -> bool {
        self.inputs.contains_key(&quantity)
    }

    /// Returns the missing inputs of a quantity, each with its alternatives.
    fn missing_inputs(&self, quantity: Quantity) -> Vec<String> {
        use Quantity::*;
        if self.has_input(quantity) {
            return Vec::new();
        }
        let options = &self.options;
        let or = |needed: String, other: &str| tr!("{needed} (or {other})", "{needed}（または {other}）");
        let option = |is_set: bool, text: &str| if is_set { Vec::new() } else { vec![text.to_owned()] };
        let has_x = [X, TokenVectors, Embeddings].iter().any(|of| self.has_input(*of));
        let projected = |own: Quantity, weight: Quantity, has_source: bool, source: &str| {
            let (own, name) = (own.name(), weight.name());
            let and = tr!("{source} and {name}", "{source} と {name}");
            vec![match (has_source, self.has_input(weight)) {
                // A projection follows if its source and its weight exist.
                (true, true) => return Vec::new(),
                (true, false) => or(name.into(), own),
                (false, true) => or(source.into(), own),
                (false, false) => or(own.into(), &and),
            }]
        };
        let (has_memory, source) = (self.has_input(Memory) || has_x, tr!("X or memory", "X か memory"));
        let both = |a: Quantity, b: Quantity| [self.missing_inputs(a), self.missing_inputs(b)].concat();
        let order = |which: usize, order: NormOrder| {
            let (key, found) = if which == 1 { ("norm", options.norm) } else { ("norm_2", options.norm_2) };
            let name = if order == NormOrder::Pre { "pre" } else { "post" };
            let needed = tr!("options.{key} as \"{name}\"", "options.{key} に \"{name}\" ");
            option(found == Some(order), &needed)
        };
        let needs = |of: Quantity, is_set: bool, text: &str| [self.missing_inputs(of), option(is_set, text)].concat();
        // An additive score has no scale unless an option asks for one.
        let is_scaled = !options.is_additive || options.scale.or(options.beta).is_some();
        let is_turned = options.rotary_base.is_some() || self.has_input(RotarySpeeds);
        let before_softmax = if is_scaled { ScaledScores } else { Scores };
        match quantity {
            X if self.has_input(Embeddings) => option(self.has_input(Positions), "positions"),
            Embeddings => option(false, "token_vectors"),
            X if self.has_input(Positions) => option(self.has_input(Embeddings), "embeddings"),
            X => vec![tr!("embeddings and positions", "embeddings と positions")],
            PositionSum | EmbeddingSum => {
                let has_embeddings = self.has_input(TokenVectors) || self.has_input(Embeddings);
                let (has_positions, has_types) = (self.has_input(Positions), self.has_input(TypeVectors));
                let is_sum = quantity == PositionSum;
                let positions = option(has_positions || has_types && !is_sum, Positions.name());
                let more = match is_sum {
                    true => option(has_types, TypeVectors.name()),
                    false => option(options.embedding_norm.is_some(), "options.embedding_norm"),
                };
                [option(has_embeddings, "embeddings"), positions, more].concat()
            }
            Q => projected(Q, WQ, has_x, "X"),
            K => projected(K, WK, has_memory, &source),
            V if options.is_additive && has_memory && self.options.num_heads == 1 => Vec::new(),
            V => projected(V, WV, has_memory, &source),
            NormalizedQ => needs(Q, options.head_norm_epsilon.is_some(), "options.head_norm_epsilon"),
            NormalizedK => needs(K, options.head_norm_epsilon.is_some(), "options.head_norm_epsilon"),
            RotatedQ => needs(Q, is_turned, "options.rotary_base"),
            RotatedK => needs(K, is_turned, "options.rotary_base"),
            Pooled if self.has_input(Hidden) => option(!options.pooling.is_empty(), "options.pooling"),
            Pooled => needs(Output, !options.pooling.is_empty(), "options.pooling"),
            Dense => needs(Pooled, self.has_input(DenseW), DenseW.name()),
            DenseTanh => needs(Dense, options.dense_tanh, "options.dense_tanh"),
            DenseActivated => needs(Dense, options.dense_activation.is_some(), "options.dense_activation"),
            DenseNorm => needs(Dense, options.dense_norm.is_some(), "options.dense_norm"),
            LastNorm => needs(Output, options.last_norm.is_some(), "options.last_norm"),
            Vector => needs(Pooled, options.unit_length, "options.unit_length"),
            Logits | ClassMax | ClassExponentials | ClassSums | Probabilities => {
                option(self.has_input(ClassW), "W_class")
            }
            LogProbabilities | Loss => {
                let target = option(self.has_input(Target), "target");
                [option(self.has_input(ClassW) || self.has_input(Logits), "W_class"), target].concat()
            }
            PairSums | PairTanh | PairScores => needs(
                Scores,
                options.is_additive,
                &tr!("options.score as \"additive\"", "options.score に \"additive\" "),
            ),
            Scores if options.is_additive => [both(Q, K), option(self.has_input(ScoreVector), "v_a")].concat(),
            Scores => both(Q, K),
            ScaledScores if self.has_input(Scores) => {
                option(options.scale.or(options.beta).is_some() || options.head_dim.is_some(), "options.d_k")
            }
            ScaledScores => needs(Scores, is_scaled, "options.beta"),
            BiasedScores | MaskedScores | ScoreMax | ScoreExponentials if self.has_input(Weights) => {
                vec![tr!("scores or scaled instead of weights", "weights の代わりに scores か scaled")]
            }
            BiasedScores => {
                let is_added = options.alibi_slopes.is_some() || matches!(options.mask, Some(MaskOption::Additive(_)));
                needs(before_softmax, is_added, &tr!("options.mask of numbers", "数値の options.mask"))
            }
            MaskedScores => {
                let is_masked = options.causal.is_some()
                    || options.window.is_some()
                    || matches!(options.mask, Some(MaskOption::Visible(_)));
                let needed = tr!(
                    "options.causal, options.window or options.mask",
                    "options.causal、options.window か options.mask"
                );
                needs(before_softmax, is_masked, &needed)
            }
            ScoreMax | ScoreExponentials | ScoreSums if options.hard_attention => {
                needs(before_softmax, false, &tr!("options.hard as false", "options.hard に false "))
            }
            ScoreMax => {
                let needed = tr!("options.subtract_max as true", "options.subtract_max に true ");
                needs(before_softmax, options.subtract_max, &needed)
            }
            ScoreExponentials | ScoreSums | Weights if !self.has_input(Weights) => self.missing_inputs(before_softmax),
            HeadOutput | Concat | Output => both(V, Weights),
            Norm2 | Inner | Activated | Gate | Gated | FeedForward | Residual2 | FinalNorm2 => {
                let weights: &[Quantity] = match quantity {
                    Norm2 | Inner | Activated => &[W1],
                    Gate | Gated => &[W1, WGate],
                    _ => &[W1, W2],
                };
                // An example with W_1 already has an input for it.
                let x = option(has_x || self.has_input(W1), "X");
                let weights =
                    weights.iter().flat_map(|weight| option(self.has_input(*weight), weight.name())).collect();
                let activation = option(options.activation.is_some(), "options.activation");
                let order = match quantity {
                    Norm2 => order(2, NormOrder::Pre),
                    FinalNorm2 => order(2, NormOrder::Post),
                    _ => Vec::new(),
                };
                [x, weights, activation, order].concat()
            }
            Residual | FinalNorm | Norm => {
                let x = option(has_x, "X");
                match quantity {
                    Norm => [x, order(1, NormOrder::Pre)].concat(),
                    FinalNorm => [x, self.missing_inputs(Output), order(1, NormOrder::Post)].concat(),
                    _ => [x, self.missing_inputs(Output)].concat(),
                }
            }
            PreviousOutput | HiddenSums | InputSums | InputGate | ForgetGate | NewContent | OutputGate
            | PreviousState | CellState | CellTanh | ResetGate | UpdateGate | CandidateSums | ResetSums | Candidate
            | StepOutput => {
                let x = option(has_x || self.has_input(InputSums), "X");
                let weights =
                    [InputW, HiddenW].iter().flat_map(|weight| option(self.has_input(*weight), weight.name()));
                let cell = match quantity {
                    InputGate | ForgetGate | NewContent | OutputGate | PreviousState | CellState | CellTanh => "lstm",
                    ResetGate | UpdateGate | CandidateSums | ResetSums | Candidate => "gru",
                    _ => "",
                };
                let is_it = options.cell.is_some_and(|found| cell.is_empty() || found.name() == cell);
                let needed = match cell.is_empty() {
                    true => "options.cell".to_owned(),
                    false => tr!("options.cell as \"{cell}\"", "options.cell に \"{cell}\" "),
                };
                [x, weights.collect(), option(is_it, &needed)].concat()
            }
            _ => Vec::new(),
        }
    }
}
