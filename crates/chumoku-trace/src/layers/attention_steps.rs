//! The steps of attention, built from the inputs.

use crate::examples::example::WorkedExample;
use crate::examples::options::{CausalAlignment, MaskOption};
use crate::layers::program_builder::ProgramBuilder;
use crate::layers::sublayer::NormSite;
use crate::program::operation::{Operation, RotaryAngles, StepId};
use crate::program::quantity::Quantity;
use crate::program::steps::{Program, ProgramStep};
use chumoku::lang::lang;
use chumoku::nn::NormOrder;
use chumoku::tr;
use ndarray::Array2;

impl WorkedExample {
    /// Builds all steps that follow from the inputs (Vaswani et al. 2017, sections 3.1 and 3.2).
    ///
    /// # Errors
    /// If inputs do not fit each other; the error says which.
    pub(crate) fn program(&self) -> Result<Program, String> {
        self.program_with(false)
    }

    /// Builds the same steps for a page that switches options on and off: a mask and the largest score of each row are
    /// always included.
    ///
    /// # Errors
    /// If [`WorkedExample::program`] fails.
    pub(crate) fn controllable_program(&self) -> Result<Program, String> {
        self.program_with(true)
    }

    fn program_with(&self, is_controllable: bool) -> Result<Program, String> {
        let heads = self.head_counts()?;
        let mut build = ProgramBuilder { example: self, program: Program::default(), heads, is_controllable };
        build.add_steps()?;
        build.check_token_counts()?;
        Ok(build.program)
    }

    /// Returns the numbers of query heads and key heads: from the options, or from the number of matrices for each
    /// head.
    fn head_counts(&self) -> Result<[usize; 2], String> {
        use Quantity::{K, Q, ScaledScores, Scores, V, Weights};
        let mut heads = self.options.num_heads;
        for quantity in [Q, Scores, ScaledScores, Weights] {
            let Some(matrices) = self.inputs.get(&quantity).filter(|m| m.len() > 1) else { continue };
            if heads != 1 && heads != matrices.len() {
                let (name, found) = (quantity.name(), matrices.len());
                return Err(head_count_error(name, heads, found));
            }
            heads = matrices.len();
        }
        let own = [K, V].iter().filter_map(|q| self.inputs.get(q)).map(Vec::len).find(|&count| count > 1);
        let key_heads = self.options.num_key_heads.or(own).unwrap_or(heads);
        if !heads.is_multiple_of(key_heads) {
            return Err(tr!(
                "heads of keys: expected a divisor of the {heads} heads, found {key_heads}",
                "キーのヘッド: ヘッド数 {heads} の約数が必要ですが、{key_heads} です"
            ));
        }
        Ok([heads, key_heads])
    }
}

/// Returns the error that there is not one matrix for each head.
fn head_count_error(name: &str, expected: usize, found: usize) -> String {
    tr!(
        "inputs.{name}: expected {expected} matrices, one for each head, found {found}",
        "inputs.{name}: ヘッドごとに一つ、全部で {expected} 個の行列が必要ですが、{found} 個です"
    )
}

impl ProgramBuilder<'_> {
    /// Returns the step of an input of a head.
    pub(crate) fn head_input(&mut self, quantity: Quantity, head: Option<usize>) -> Result<Option<StepId>, String> {
        let Some(matrices) = self.example.inputs.get(&quantity) else { return Ok(None) };
        let (name, expected) = (quantity.name(), self.heads[0]);
        let found = matrices.len();
        if found != expected {
            return Err(head_count_error(name, expected, found));
        }
        Ok(Some(self.program.add_given(quantity, head, matrices[head.unwrap_or(0)].clone())))
    }

    /// Returns queries, keys or values: given as a whole or for each head, or projected.
    fn query_key_value(
        &mut self,
        result: Quantity,
        source: Option<StepId>,
        [weight, bias]: [Quantity; 2],
    ) -> Result<Vec<StepId>, String> {
        let count = self.heads[usize::from(result != Quantity::Q)];
        if let Some(matrices) = self.example.inputs.get(&result).filter(|m| m.len() > 1) {
            if matrices.len() != count {
                let (name, found) = (result.name(), matrices.len());
                return Err(head_count_error(name, count, found));
            }
            let matrices = matrices.iter().enumerate();
            return Ok(matrices.map(|(head, m)| self.program.add_given(result, Some(head), m.clone())).collect());
        }
        let whole = match (self.whole_input(result)?, source) {
            (Some(id), _) => Some(id),
            (None, Some(source)) => self.project(source, [weight, bias, result])?,
            (None, None) => None,
        };
        let Some(whole) = whole else { return Ok(Vec::new()) };
        if self.heads == [1, 1] {
            return Ok(vec![whole]);
        }
        let columns = self.shape(whole).1;
        if !columns.is_multiple_of(count) {
            let (name, rows) = (result.name(), self.shape(whole).0);
            return Err(tr!(
                "{name} is {rows}×{columns}: expected columns in a multiple of {count}, a part for each of its heads",
                "{name} は {rows}×{columns} です。ヘッドごとに分けるため、列の数は {count} の倍数でなければなりません"
            ));
        }
        let width = columns / count;
        let part = |head: usize| Operation::Columns { of: whole, range: head * width..(head + 1) * width };
        (0..count).map(|head| self.program.add_computed(result, Some(head), part(head))).collect()
    }

    fn add_steps(&mut self) -> Result<(), String> {
        let x = self.add_embeddings()?;
        let last = match self.add_recurrent(x)? {
            Some(outputs) => Some(outputs),
            None => {
                let attention = self.add_attention(x)?;
                self.add_feed_forward(x, attention)?
            }
        };
        let last = self.add_last_norm(last)?;
        let row = self.add_text_vector(last)?;
        self.add_classes(row.or(last))
    }

    /// Adds attention. Returns the step of its output, if it has one.
    fn add_attention(&mut self, x: Option<StepId>) -> Result<Option<StepId>, String> {
        use Quantity::{BK, BO, BQ, BV, K, Memory, Output, Q, V, WK, WO, WQ, WV};
        let options = &self.example.options;
        self.check_norm(NormSite::Attention)?;
        if x.is_none() && (options.residual || options.norm.is_some()) {
            return Err(tr!(
                "options.residual and options.norm: expected X, which is added to the output",
                "options.residual と options.norm: 出力に加える X が必要です"
            ));
        }
        if !options.is_additive && self.example.inputs.contains_key(&Quantity::ScoreVector) {
            return Err(tr!(
                "inputs.v_a: only the additive score has this vector; expected options.score as \"additive\"",
                "inputs.v_a: このベクトルを使うのは加法スコアだけです。options.score に \"additive\" が必要です"
            ));
        }
        let source = match x {
            Some(x) if self.example.options.norm == Some(NormOrder::Pre) => {
                Some(self.add_norm(x, Quantity::Norm, NormSite::Attention)?)
            }
            _ => x,
        };
        let memory = self.whole_input(Memory)?.or(source);
        let query = self.query_key_value(Q, source, [WQ, BQ])?;
        let key = self.query_key_value(K, memory, [WK, BK])?;
        let mut value = self.query_key_value(V, memory, [WV, BV])?;
        if value.is_empty() && options.is_additive && self.heads == [1, 1] {
            // The original has no values of its own: it mixes the vectors that keys are projected from.
            value.extend(memory);
        }
        let mut outputs = Vec::new();
        let has_output = self.example.inputs.contains_key(&WO);
        for head in 0..self.heads[0] {
            let shared = head / (self.heads[0] / self.heads[1]);
            let name = (self.heads[0] > 1).then_some(head);
            let pair = query.get(head).copied().zip(key.get(shared).copied());
            let weights = self.add_weights(name, pair)?;
            if let (Some(weights), Some(&value)) = (weights, value.get(shared)) {
                let (rows, keys) = (self.shape(value), self.shape(weights));
                if rows.0 != keys.1 {
                    let [expected, found] = [[keys.0, keys.1], [rows.0, rows.1]].map(|[a, b]| format!("{a}×{b}"));
                    let rows = if keys.1 == 1 { tr!("1 row", "1 行") } else { tr!("{} rows", "{} 行", keys.1) };
                    return Err(tr!(
                        "V is {found}: expected {rows}, one for each key, as the weights are {expected}",
                        "V は {found} ですが、重みが {expected} なので、キーごとに 1 行、全部で {rows}が必要です"
                    ));
                }
                let quantity = if name.is_none() && !has_output { Output } else { Quantity::HeadOutput };
                outputs.push(self.program.add_computed(quantity, name, Operation::WeightedSum([weights, value]))?);
            }
        }
        if outputs.len() < self.heads[0] {
            return Ok(None);
        }
        let mut output = outputs[0];
        if self.heads[0] > 1 {
            let quantity = if has_output { Quantity::Concat } else { Output };
            output = self.program.add_computed(quantity, None, Operation::Concat(outputs))?;
        }
        output = self.project(output, [WO, BO, Output])?.unwrap_or(output);
        self.add_residual_and_norm(x, output, NormSite::Attention, [Quantity::Residual, Quantity::FinalNorm]).map(Some)
    }

    /// Adds the attention weights of a head.
    fn add_weights(&mut self, head: Option<usize>, pair: Option<(StepId, StepId)>) -> Result<Option<StepId>, String> {
        use Quantity::{
            BiasedScores, MaskedScores, NormalizedK, NormalizedQ, RotatedK, RotatedQ, ScaledScores, ScoreExponentials,
            ScoreMax, ScoreSums, Scores, Weights,
        };
        if let Some(weights) = self.head_input(Weights, head)? {
            self.program.add_computed(ScoreSums, head, Operation::RowSums(weights))?;
            return Ok(Some(weights));
        }
        let options = &self.example.options;
        let mut pair = pair;
        if let (Some((query, key)), Some(epsilon)) = (pair, options.head_norm_epsilon) {
            let [gamma_q, gamma_k] = self.head_norms([self.shape(query).1, self.shape(key).1])?;
            let normed = |of, gamma| Operation::RmsNorm { of, gamma, epsilon };
            let query = self.program.add_computed(NormalizedQ, head, normed(query, gamma_q))?;
            let key = self.key_step(NormalizedK, head, normed(key, gamma_k))?;
            pair = Some((query, key));
        }
        if let Some((query, key)) = pair
            && let Some(angles) = self.rotary_angles(self.shape(query).1)?
        {
            let query =
                self.program.add_computed(RotatedQ, head, Operation::Rotary { of: query, angles, is_back: false })?;
            let key = self.key_step(RotatedK, head, Operation::Rotary { of: key, angles, is_back: false })?;
            pair = Some((query, key));
        }
        let scores = match (self.head_input(Scores, head)?, pair) {
            (Some(scores), _) => Some(scores),
            (None, Some((query, key))) => {
                let [(a, b), (c, d)] = [self.shape(query), self.shape(key)];
                if b != d {
                    return Err(tr!(
                        "Q is {a}×{b} and K {c}×{d}: expected the same number of columns, to compare a query with a key",
                        "Q は {a}×{b}、K は {c}×{d} です。クエリとキーを比べるには列の数が同じでなければなりません"
                    ));
                }
                Some(match options.is_additive {
                    true => self.add_additive_scores(head, [query, key])?,
                    false => self.program.add_computed(Scores, head, Operation::ProductTransposed([query, key]))?,
                })
            }
            (None, None) => None,
        };
        let scaled = match (self.head_input(ScaledScores, head)?, scores) {
            (Some(scaled), _) => scaled,
            // An additive score has no scale of its own.
            (None, Some(scores)) if options.is_additive && options.scale.or(options.beta).is_none() => scores,
            (None, Some(scores)) => {
                let own = pair.map(|(query, _)| self.shape(query).1);
                if let (Some(own), Some(given)) = (own, options.head_dim.filter(|given| Some(*given) != own)) {
                    return Err(tr!(
                        "options.d_k: expected {own}, the width of the queries, found {given}",
                        "options.d_k: クエリの幅 {own} が必要ですが、{given} です"
                    ));
                }
                let width = options.head_dim.or(own);
                let usual = width.map(|width| 1.0 / (width as f64).sqrt());
                let scale = options.scale.or(if options.beta.is_some() { Some(1.0) } else { usual });
                let Some(scale) = scale else { return Ok(None) };
                let own = options.head_factors.as_ref().and_then(|factors| factors.get(head.unwrap_or(0)));
                let factor = scale * options.beta.unwrap_or(1.0) * own.unwrap_or(&1.0);
                self.program.add_computed(ScaledScores, head, Operation::Scale { of: scores, factor })?
            }
            (None, None) => return Ok(None),
        };
        let mut last = scaled;
        let shape = self.shape(scaled);
        if let Some(bias) = self.score_bias(head, shape)? {
            last = self.program.add_computed(BiasedScores, head, Operation::AddBias { of: last, bias })?;
        }
        let all = self.is_controllable.then(|| Array2::from_elem(shape, true));
        if let Some(visible) = self.visible_keys(shape)?.or(all) {
            last = self.program.add_computed(MaskedScores, head, Operation::Mask { of: last, visible })?;
        }
        if options.hard_attention {
            return Ok(Some(self.program.add_computed(Weights, head, Operation::OneHot(last))?));
        }
        let largest = match options.subtract_max || self.is_controllable {
            true => Some(self.program.add_computed(ScoreMax, head, Operation::RowMax(last))?),
            false => None,
        };
        let exponentials = self.program.add_computed(ScoreExponentials, head, Operation::Exp { of: last, largest })?;
        let sums = self.program.add_computed(ScoreSums, head, Operation::RowSums(exponentials))?;
        Ok(Some(self.program.add_computed(Weights, head, Operation::DivideByRowSums { of: exponentials, sums })?))
    }

    /// Adds a step that depends on keys only; heads with shared keys share it.
    fn key_step(&mut self, quantity: Quantity, head: Option<usize>, operation: Operation) -> Result<StepId, String> {
        let is_same = |step: &ProgramStep| step.quantity == quantity && step.operation == operation;
        match self.program.steps().iter().position(is_same) {
            Some(id) => Ok(id),
            None => self.program.add_computed(quantity, head, operation),
        }
    }

    /// Returns γ of the norms of a head's queries and keys, if they have them; all heads share them.
    fn head_norms(&mut self, [of_queries, of_keys]: [usize; 2]) -> Result<[Option<StepId>; 2], String> {
        let mut gamma = |quantity, columns, of: Quantity| match self.program.find(quantity, None) {
            Some(id) => Ok(Some(id)),
            None => self.row_input(quantity, columns, of.name()),
        };
        Ok([gamma(Quantity::GammaQ, of_queries, Quantity::Q)?, gamma(Quantity::GammaK, of_keys, Quantity::K)?])
    }

    /// Returns the angles by which one position rotates each pair of a head, for rotary positions.
    fn rotary_angles(&mut self, width: usize) -> Result<Option<RotaryAngles>, String> {
        let (base, has_speeds) =
            (self.example.options.rotary_base, self.example.inputs.contains_key(&Quantity::RotarySpeeds));
        if base.is_none() && !has_speeds {
            return Ok(None);
        }
        if width % 2 == 1 || base.is_some_and(|base| base <= 0.0) {
            let base = base.unwrap_or(f64::NAN);
            return Err(match has_speeds {
                true => tr!(
                    "rotary positions: expected heads of an even width, found width {width}",
                    "回転位置エンコーディング: ヘッドの幅は偶数が必要ですが、幅 {width} です"
                ),
                false => tr!(
                    "rotary positions: expected heads of an even width and a base above 0, found width {width} and base {base}",
                    "回転位置エンコーディング: ヘッドの幅は偶数、base は正の数が必要ですが、幅 {width}、base {base} です"
                ),
            });
        }
        if base.is_some() && has_speeds {
            return Err(tr!(
                "rotary positions: expected options.rotary_base or inputs.rotary_speeds, found both; leave one out",
                "回転位置エンコーディング: options.rotary_base と inputs.rotary_speeds の両方があります。どちらかを外してください"
            ));
        }
        if let Some(base) = base {
            return Ok(Some(RotaryAngles::Base(base)));
        }
        let name = tr!("a head's pairs", "ヘッドの組");
        let speeds = match self.program.find(Quantity::RotarySpeeds, None) {
            found @ Some(_) => found,
            None => self.row_input(Quantity::RotarySpeeds, width / 2, &name)?,
        };
        Ok(speeds.map(RotaryAngles::Given))
    }

    /// Returns the matrix that is added to the scaled scores of a head.
    fn score_bias(&self, head: Option<usize>, shape: (usize, usize)) -> Result<Option<Array2<f64>>, String> {
        let options = &self.example.options;
        let mut sum: Option<Array2<f64>> = None;
        if let Some(MaskOption::Additive(mask)) = &options.mask {
            check_mask_shape(mask.dim(), shape)?;
            sum = Some(mask.clone());
        }
        if let Some(slopes) = &options.alibi_slopes {
            let count = self.heads[0];
            let Some(slope) = slopes.get(head.unwrap_or(0)).filter(|_| slopes.len() == count) else {
                let found = slopes.len();
                return Err(match count {
                    1 => tr!(
                        "options.alibi_slopes: expected 1 number, one for each head, found {found}",
                        "options.alibi_slopes: ヘッドごとに一つ、全部で 1 個の数値が必要ですが、{found} 個です"
                    ),
                    _ => tr!(
                        "options.alibi_slopes: expected {count} numbers, one for each head, found {found}",
                        "options.alibi_slopes: ヘッドごとに一つ、全部で {count} 個の数値が必要ですが、{found} 個です"
                    ),
                });
            };
            let distances = Array2::from_shape_fn(shape, |(i, j)| -slope * i.abs_diff(j) as f64);
            sum = Some(sum.map_or(distances.clone(), |sum| sum + &distances));
        }
        Ok(sum)
    }

    /// Returns which keys each query sees; `None` if it sees all.
    fn visible_keys(&self, shape: (usize, usize)) -> Result<Option<Array2<bool>>, String> {
        let options = &self.example.options;
        let mut visible = options.causal.map(|diagonal| {
            let offset = match diagonal {
                CausalAlignment::TopLeft => 0,
                CausalAlignment::BottomRight => shape.1 as isize - shape.0 as isize,
            };
            Array2::from_shape_fn(shape, |(i, j)| j as isize <= i as isize + offset)
        });
        if let Some(MaskOption::Visible(mask)) = &options.mask {
            check_mask_shape(mask.dim(), shape)?;
            visible = Some(visible.map_or(mask.clone(), |visible| visible & mask));
        }
        if let Some(window) = options.window {
            // A query's own position depends on the alignment of the causal mask.
            let offset = match options.causal {
                Some(CausalAlignment::BottomRight) => shape.1 as isize - shape.0 as isize,
                _ => 0,
            };
            let near = |(i, j): (usize, usize)| (i as isize + offset).abs_diff(j as isize) <= window;
            let near = Array2::from_shape_fn(shape, near);
            visible = Some(visible.map_or(near.clone(), |visible| visible & &near));
        }
        Ok(visible)
    }

    /// Checks that there are as many words as rows and columns.
    fn check_token_counts(&self) -> Result<(), String> {
        let steps = self.program.steps();
        let rows = |names: &[Quantity]| steps.iter().find(|step| names.contains(&step.quantity)).map(|s| s.value.dim());
        let example = self.example;
        let queries = rows(&[Quantity::X, Quantity::Q, Quantity::Scores, Quantity::ScaledScores, Quantity::Weights]);
        let keys = rows(&[Quantity::Scores, Quantity::ScaledScores, Quantity::Weights]).map(|shape| shape.1);
        let sides = [
            ("tokens", &example.tokens, queries.map(|shape| shape.0), ["queries", "クエリ"]),
            ("key_tokens", &example.key_tokens, keys, ["keys", "キー"]),
        ];
        for (name, tokens, count, [en, ja]) in sides {
            if let Some(count) = count.filter(|&count| !tokens.is_empty() && tokens.len() != count) {
                let (of, found) = (lang().pick(en, ja), tokens.len());
                return Err(tr!(
                    "{name}: expected {count}, one for each of the {of}, found {found}",
                    "{name}: {of}ごとに一つ、全部で {count} 個必要ですが、{found} 個です"
                ));
            }
        }
        Ok(())
    }
}

fn check_mask_shape(found: (usize, usize), scores: (usize, usize)) -> Result<(), String> {
    if found == scores {
        return Ok(());
    }
    let [(a, b), (c, d)] = [scores, found];
    Err(tr!(
        "options.mask: expected {a}×{b} (queries × keys), as the scores are, found {c}×{d}",
        "options.mask: スコアと同じ {a}×{b}（クエリ × キー）が必要ですが、{c}×{d} です"
    ))
}
