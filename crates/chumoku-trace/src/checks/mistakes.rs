//! Likely mistakes behind wrong claims.
//!
//! Each kind of mistake is another computation of a step, such as a softmax of columns. A mistake explains a claim if
//! every claimed number follows from that other computation. The computation starts from the claims before it, and the
//! step may also be one before the claim that was not stated itself. If several mistakes explain a claim, the closest
//! one is named.

use crate::checks::implications::{ClaimMatrix, ClaimVerdict, Implications, ImpliedNumber, shares, softmax};
use crate::program::operation::{Operation, StepId};
use crate::program::printed_number::{Interval, PrintedNumber, Scalar};
use crate::program::quantity::Quantity;
use crate::program::step_kind::StepKind;
use crate::program::steps::Program;
use chumoku::lang::lang;
use chumoku::tr;
use ndarray::Array2;
use serde::{Serialize, Serializer};

/// Defines the kinds of mistakes with their descriptions in English and Japanese.
macro_rules! mistakes {
    ($($kind:ident: $name:literal, ($en:literal, $ja:literal);)*) => {
        /// A kind of mistake.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum MistakeKind { $(#[doc = $en] $kind),* }

        impl MistakeKind {
            /// Returns the name in JSON.
            #[must_use]
            pub(crate) fn name(self) -> &'static str {
                match self { $(MistakeKind::$kind => $name),* }
            }

            fn texts(self) -> (&'static str, &'static str) {
                match self { $(MistakeKind::$kind => ($en, $ja)),* }
            }
        }
    };
}

mistakes! {
    WrongMatrix: "wrong_matrix", ("another matrix was used", "別の行列を使っている");
    TransposedMatrix: "transposed_matrix", ("a matrix was transposed", "行列を転置している");
    ProjectionLeftOut: "projection_left_out", ("not multiplied by the weights", "重み行列を掛けていない");
    AddedBias: "added_bias", ("a bias was added to every row", "各行にバイアスを加えている");
    LeftOutBias: "left_out_bias", ("the bias was left out", "バイアスを加えていない");
    KeysNotTransposed: "keys_not_transposed", ("Q K instead of Q Kᵀ: K was not transposed", "Q Kᵀ ではなく Q K（K を転置していない）");
    ScaledEarly: "scaled_early", ("divided by √d_k already in this step", "この段ですでに √d_k で割っている");
    DividedByDk: "divided_by_d_k", ("divided by d_k instead of √d_k", "√d_k ではなく d_k で割っている");
    NotScaled: "not_scaled", ("not divided by √d_k", "√d_k で割っていない");
    MultipliedByRoot: "multiplied_by_root", ("multiplied by √d_k instead of divided", "√d_k で割らずに掛けている");
    DividedByRootOfModel: "divided_by_root_of_d_model", ("divided by √d_model instead of √d_k", "√d_k ではなく √d_model で割っている");
    DividedByLength: "divided_by_length", ("divided by the number of keys instead of √d_k", "√d_k ではなくキーの数で割っている");
    MaskIgnored: "mask_ignored", ("the mask was left out", "マスクを適用していない");
    MaskReversed: "mask_reversed", ("the mask is the wrong way round", "マスクの向きが逆");
    MaskAsZero: "mask_as_zero", ("masked scores were set to 0 instead of −∞", "マスクしたスコアを −∞ ではなく 0 にしている");
    MaskAfterSoftmax: "mask_after_softmax", ("masked after softmax: the rows no longer sum to 1", "softmax の後でマスクしている（行の和が 1 にならない）");
    MaximumOfMatrix: "maximum_of_matrix", ("the largest number of the whole matrix instead of the row", "行ではなく行列全体の最大値を使っている");
    NoMaximum: "no_maximum", ("the largest score of the row was not subtracted", "行の最大値を引いていない");
    NormalizedWithoutMaximum: "normalized_without_maximum", ("the largest score was subtracted in the exponentials or in their sum, but not in both", "最大値を引いたのは指数か和の一方だけ");
    ForgotExponential: "forgot_exponential", ("the exponential was left out", "指数関数を適用していない");
    OtherBase: "other_base", ("powers of another number than e", "e 以外の底で累乗を計算している");
    OtherLogarithm: "other_logarithm", ("a logarithm to another base than e", "自然対数ではない対数を使っている");
    ColumnSums: "column_sums", ("the columns were summed instead of the rows", "行ではなく列の和を取っている");
    SoftmaxOverColumns: "softmax_over_columns", ("softmax over the columns instead of the rows", "softmax を行ではなく列に適用している");
    SoftmaxOverMatrix: "softmax_over_matrix", ("softmax over the whole matrix instead of each row", "softmax を行ごとではなく行列全体に適用している");
    NotNormalized: "not_normalized", ("not divided by the sum of the row", "行の和で割っていない");
    DividedByLargest: "divided_by_largest", ("divided by the largest number of the row instead of the sum", "行の和ではなく最大値で割っている");
    Sigmoid: "sigmoid", ("a sigmoid of each number instead of softmax", "softmax ではなくシグモイドを適用している");
    HardForSoft: "hard_for_soft", ("only the largest number counts: argmax instead of softmax", "最大の要素だけを選んでいる（softmax ではなく argmax）");
    Percentages: "percentages", ("percentages instead of numbers from 0 to 1", "0 から 1 の数ではなく百分率で書いている");
    NoSoftmax: "no_softmax", ("the scores themselves were used as weights, without softmax", "softmax を適用せず、スコアをそのまま重みにしている");
    WeightsTransposed: "weights_transposed", ("Aᵀ V instead of A V: the weights were transposed", "A V ではなく Aᵀ V を計算している（重みを転置している）");
    WeightsIgnored: "weights_ignored", ("all rows of V were weighted equally", "V のすべての行に同じ重みを掛けている");
    ResidualLeftOut: "residual_left_out", ("the residual connection was left out", "残差接続を加えていない");
    MeanNotSubtracted: "mean_not_subtracted", ("the mean was not subtracted", "平均を引いていない");
    SampleVariance: "sample_variance", ("the variance was divided by n − 1 instead of n", "分散を n ではなく n − 1 で割っている");
    RootLeftOut: "root_left_out", ("divided by the variance instead of its root", "標準偏差ではなく分散で割っている");
    LeftOutGamma: "left_out_gamma", ("γ or β was left out", "γ または β を適用していない");
    DotForAdditive: "dot_for_additive", ("a dot product instead of vᵀ tanh(q + k)", "vᵀ tanh(q + k) ではなく内積を計算している");
    ActivationLeftOut: "activation_left_out", ("the activation was left out", "活性化関数を適用していない");
    WrongSign: "wrong_sign", ("wrong sign", "符号が逆");
    LeftOutTerm: "left_out_term", ("a product of the sum was left out", "積の一つを足し忘れている");
    SwappedNumbers: "swapped_numbers", ("two numbers changed places", "二つの数が入れ替わっている");
}

impl Serialize for MistakeKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A mistake that explains the wrong numbers of a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LikelyMistake {
    /// The kind.
    pub kind: MistakeKind,
    /// The step in which the mistake was made, if it is not the claim's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The symbols of the matrix that was used, and of the one in whose place it was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<[String; 2]>,
}

impl LikelyMistake {
    /// Describes the mistake in the language of the process.
    #[must_use]
    pub fn text(&self) -> String {
        let (en, ja) = self.kind.texts();
        let what = match (&self.used, self.kind) {
            (Some([used, instead]), MistakeKind::WrongMatrix) => {
                tr!("used {used} in place of {instead}", "{instead} の代わりに {used} を使っている")
            }
            (Some([used, _]), _) => tr!("{used} was transposed", "{used} を転置している"),
            _ => lang().pick(en, ja).to_owned(),
        };
        match &self.step {
            Some(step) => tr!("likely mistake, in {step}: {what}", "考えられる間違い（{step}）: {what}"),
            None => tr!("likely mistake: {what}", "考えられる間違い: {what}"),
        }
    }
}

/// Computes a step from the believed values of all steps before it.
type Computation<'a> = Box<dyn Fn(&[Array2<ImpliedNumber>]) -> Array2<ImpliedNumber> + 'a>;

/// Another computation of a step.
struct Alternative<'a> {
    kind: MistakeKind,
    used: Option<[String; 2]>,
    compute: Computation<'a>,
}

/// The alternatives of a step.
struct Alternatives<'a> {
    program: &'a Program,
    dim: (usize, usize),
    found: Vec<Alternative<'a>>,
}

/// The base of alternative exponentials, and of logarithms.
const OTHER_BASES: [f64; 2] = [2.0, 10.0];

impl<'a> Alternatives<'a> {
    fn push(&mut self, kind: MistakeKind, compute: impl Fn(&[Array2<ImpliedNumber>]) -> Array2<ImpliedNumber> + 'a) {
        self.found.push(Alternative { kind, used: None, compute: Box::new(compute) });
    }

    /// Adds another operation on the same steps, if its shapes fit.
    fn push_operation(&mut self, kind: MistakeKind, operation: Operation) {
        self.push_with(kind, None, operation);
    }

    fn push_with(&mut self, kind: MistakeKind, used: Option<[StepId; 2]>, operation: Operation) {
        let dim = |id: StepId| self.program.value(id).dim();
        let fits = match &operation {
            Operation::Product { factors: [a, b], .. } | Operation::WeightedSum([a, b]) => dim(*a).1 == dim(*b).0,
            Operation::ProductTransposed([a, b]) => dim(*a).1 == dim(*b).1,
            Operation::TransposedProduct([a, b]) => dim(*a).0 == dim(*b).0,
            _ => true,
        };
        if fits && operation.dim(dim) == self.dim {
            let used = used.map(|ids| ids.map(|id| self.program.step(id).symbol()));
            let compute = move |b: &[Array2<ImpliedNumber>]| operation.apply(|id| b[id].view());
            self.found.push(Alternative { kind, used, compute: Box::new(compute) });
        }
    }

    /// Adds the alternatives in which another matrix takes the place of one.
    fn push_wrong(&mut self, used: StepId, instead: StepId, operation: Operation) {
        if used != instead {
            self.push_with(MistakeKind::WrongMatrix, Some([used, instead]), operation);
        }
    }

    fn of(program: &'a Program, id: StepId) -> Vec<Alternative<'a>> {
        use MistakeKind as Kind;
        let step = program.step(id);
        let mut all = Alternatives { program, dim: step.value.dim(), found: Vec::new() };
        let same = |of: StepId| Operation::Scale { of, factor: 1.0 };
        let find = |quantity| program.find(quantity, step.head).or(program.find(quantity, None));
        let find_all = |quantities: &[Quantity]| quantities.iter().filter_map(|q| find(*q)).collect::<Vec<StepId>>();
        match &step.operation {
            Operation::Product { factors: [a, weight], bias } => {
                let (a, weight, bias) = (*a, *weight, *bias);
                for other in find_all(&[Quantity::WQ, Quantity::WK, Quantity::WV]) {
                    all.push_wrong(other, weight, Operation::Product { factors: [a, other], bias });
                }
                if bias.is_some() {
                    all.push_operation(Kind::LeftOutBias, Operation::Product { factors: [a, weight], bias: None });
                }
                let turned = Operation::ProductTransposed([a, weight]);
                all.push_with(Kind::TransposedMatrix, Some([weight; 2]), turned);
                all.push_operation(Kind::ProjectionLeftOut, same(a));
            }
            Operation::ProductTransposed([query, key]) if step.quantity == Quantity::Scores => {
                let [query, key] = [*query, *key];
                let product = |a, b| Operation::ProductTransposed([a, b]);
                all.push_operation(Kind::KeysNotTransposed, Operation::Product { factors: [query, key], bias: None });
                all.push_wrong(query, key, product(query, query));
                all.push_wrong(key, query, product(key, key));
                all.push_operation(Kind::TransposedMatrix, product(key, query));
                all.push_operation(Kind::KeysNotTransposed, Operation::TransposedProduct([query, key]));
                for other in find_all(&[Quantity::V, Quantity::X, Quantity::Q, Quantity::K]) {
                    all.push_wrong(other, key, product(query, other));
                    all.push_wrong(other, query, product(other, key));
                }
                if let Some(x) = find(Quantity::X) {
                    all.push_wrong(x, query, product(x, x));
                }
                let scale = program.steps().iter().find_map(|step| match step.operation {
                    Operation::Scale { of, factor } if of == id => Some(factor),
                    _ => None,
                });
                if let Some(factor) = scale {
                    all.push(Kind::ScaledEarly, move |b| {
                        let scores = product(query, key).apply(|id| b[id].view());
                        scores.mapv(|x: ImpliedNumber| x.mul(ImpliedNumber::from_f64(factor)))
                    });
                }
            }
            Operation::Scale { of, factor } if step.quantity == Quantity::ScaledScores => {
                let (of, factor) = (*of, *factor);
                let d_k = find(Quantity::Q).map(|query| program.value(query).ncols());
                let mut other = |kind, factor| all.push_operation(kind, Operation::Scale { of, factor });
                other(Kind::NotScaled, 1.0);
                // Another factor, such as β, says nothing about d_k.
                if crate::formulas::formula::inverse_sqrt_of(factor)
                    .is_some_and(|width| d_k.is_none_or(|d_k| d_k == width))
                {
                    other(Kind::DividedByDk, factor * factor);
                    other(Kind::MultipliedByRoot, 1.0 / factor);
                }
                if let Some(x) = find_all(&[Quantity::X, Quantity::Embeddings]).first() {
                    other(Kind::DividedByRootOfModel, 1.0 / (program.value(*x).ncols() as f64).sqrt());
                }
                other(Kind::DividedByLength, 1.0 / step.value.ncols() as f64);
            }
            Operation::Mask { of, visible } => {
                let of = *of;
                all.push_operation(Kind::MaskIgnored, same(of));
                if visible.is_square() {
                    let visible = visible.t().to_owned();
                    all.push_operation(Kind::MaskReversed, Operation::Mask { of, visible });
                }
                all.push(Kind::MaskAsZero, move |b| zero_masked(&b[of], visible));
            }
            Operation::RowMax(of) => {
                let of = *of;
                all.push(Kind::MaximumOfMatrix, move |b| {
                    let lowest = ImpliedNumber::from_f64(f64::NEG_INFINITY);
                    let largest = b[of].iter().fold(lowest, |most, x| Scalar::max(most, *x));
                    Array2::from_elem((b[of].nrows(), 1), largest)
                });
            }
            Operation::Exp { of, largest } => {
                let of = *of;
                if largest.is_some() {
                    all.push_operation(Kind::NoMaximum, Operation::Exp { of, largest: None });
                }
                all.push_operation(Kind::ForgotExponential, same(of));
                for base in OTHER_BASES {
                    let factor = ImpliedNumber::from_f64(base.ln());
                    all.push(Kind::OtherBase, move |b| b[of].mapv(|x| x.mul(factor).exp()));
                }
            }
            Operation::RowSums(of) => {
                let of = *of;
                if program.value(of).is_square() {
                    all.push(Kind::ColumnSums, move |b| Operation::RowSums(0).apply(|_| b[of].t()));
                }
            }
            Operation::DivideByRowSums { of, .. } => all.push_softmax(id, *of),
            Operation::WeightedSum([weights, value]) => {
                let [weights, value] = [*weights, *value];
                all.push_operation(Kind::WeightsTransposed, Operation::TransposedProduct([weights, value]));
                for other in find_all(&[Quantity::K, Quantity::Q, Quantity::X, Quantity::RotatedK]) {
                    all.push_wrong(other, value, Operation::WeightedSum([weights, other]));
                }
                for other in find_all(&[Quantity::MaskedScores, Quantity::ScaledScores, Quantity::Scores]) {
                    let factors = [other, value];
                    all.push_operation(Kind::NoSoftmax, Operation::Product { factors, bias: None });
                }
                if let Some(other) = find(Quantity::ScoreExponentials) {
                    all.push_operation(Kind::NotNormalized, Operation::WeightedSum([other, value]));
                }
                all.push(Kind::HardForSoft, move |b| {
                    let hard = Operation::OneHot(0).apply(|_| b[weights].view());
                    weighted_sum(&hard, &b[value])
                });
                all.push(Kind::WeightsIgnored, move |b| {
                    let rows = b[weights].nrows();
                    let share = ImpliedNumber::from_f64(1.0 / b[value].nrows() as f64);
                    let equal = Array2::from_elem((rows, b[value].nrows()), share);
                    weighted_sum(&equal, &b[value])
                });
                let turned = Operation::ProductTransposed([weights, value]);
                all.push_with(Kind::TransposedMatrix, Some([value; 2]), turned);
            }
            Operation::Sum([x, output]) if matches!(step.quantity, Quantity::Residual | Quantity::Residual2) => {
                all.push_operation(Kind::ResidualLeftOut, same(*output));
                all.push_operation(Kind::ResidualLeftOut, same(*x));
            }
            Operation::LayerNorm { of, gamma, beta, epsilon } => {
                let (of, gamma, beta, epsilon) = (*of, *gamma, *beta, *epsilon);
                let norm = |gamma, beta| Operation::LayerNorm { of, gamma, beta, epsilon };
                for (gamma, beta) in [(None, None), (None, beta), (gamma, None)] {
                    if norm(gamma, beta) != step.operation {
                        all.push_operation(Kind::LeftOutGamma, norm(gamma, beta));
                    }
                }
                if beta.is_none() {
                    all.push_operation(Kind::MeanNotSubtracted, Operation::RmsNorm { of, gamma, epsilon });
                }
                for (kind, power) in [(Kind::SampleVariance, 0.5), (Kind::RootLeftOut, 1.0)] {
                    all.push(kind, move |b| {
                        // The deviation of each row turns the normalized numbers into the alternative ones.
                        let normal =
                            Operation::LayerNorm { of: 0, gamma: None, beta: None, epsilon }.apply(|_| b[of].view());
                        let factor: Vec<f64> = b[of]
                            .rows()
                            .into_iter()
                            .map(|row| deviation_ratio(&row.to_vec(), power, epsilon))
                            .collect();
                        let scaled = Array2::from_shape_fn(normal.dim(), |(i, j)| {
                            normal[[i, j]].mul(ImpliedNumber::from_f64(factor[i]))
                        });
                        affine(scaled, gamma.map(|id| &b[id]), beta.map(|id| &b[id]))
                    });
                }
            }
            Operation::Activation { of, .. } | Operation::Tanh(of) => {
                all.push_operation(Kind::ActivationLeftOut, same(*of));
            }
            Operation::Reshape { .. } if step.quantity == Quantity::Scores => {
                if let (Some(query), Some(key)) = (find(Quantity::Q), find(Quantity::K)) {
                    let product = Operation::ProductTransposed([query, key]);
                    all.push_operation(Kind::DotForAdditive, product);
                }
            }
            Operation::PairSums([query, key]) => {
                let [query, key] = [*query, *key];
                all.push_wrong(query, key, Operation::PairSums([query, query]));
                all.push_wrong(key, query, Operation::PairSums([key, key]));
            }
            Operation::Log(of) => {
                let of = *of;
                for base in OTHER_BASES {
                    let factor = ImpliedNumber::from_f64(1.0 / base.ln());
                    all.push(Kind::OtherLogarithm, move |b| b[of].mapv(|x| x.ln().mul(factor)));
                }
            }
            _ => {}
        }
        all.found
    }

    /// Adds the alternatives of a softmax: the division of exponentials by their sums.
    fn push_softmax(&mut self, id: StepId, exponentials: StepId) {
        use MistakeKind as Kind;
        let program = self.program;
        let last = match program.step(exponentials).operation {
            Operation::Exp { of, .. } => of,
            _ => return,
        };
        let rows = |of: &Array2<ImpliedNumber>| of.t().to_owned();
        self.push(Kind::SoftmaxOverColumns, move |b| rows(&softmax(&rows(&b[last]))));
        self.push(Kind::SoftmaxOverColumns, move |b| rows(&shares(&rows(&b[exponentials]))));
        self.push(Kind::SoftmaxOverMatrix, move |b| {
            let all =
                Array2::from_shape_fn((1, b[last].len()), |(_, j)| b[last][[j / b[last].ncols(), j % b[last].ncols()]]);
            let found = softmax(&all);
            Array2::from_shape_fn(b[last].dim(), |(i, j)| found[[0, i * b[last].ncols() + j]])
        });
        self.push(Kind::NotNormalized, move |b| b[exponentials].clone());
        self.push(Kind::NotNormalized, move |b| b[last].mapv(|x| x.exp()));
        self.push(Kind::DividedByLargest, move |b| shifted_exponentials(&b[last]));
        self.push(Kind::ForgotExponential, move |b| {
            let sums = Operation::RowSums(0).apply(|_| b[last].view());
            divide(&b[last], &sums)
        });
        for is_above in [true, false] {
            self.push(Kind::NormalizedWithoutMaximum, move |b| {
                let [shifted, plain] = [shifted_exponentials(&b[last]), b[last].mapv(|x| x.exp())];
                let [above, below] = if is_above { [shifted, plain] } else { [plain, shifted] };
                let sums = Operation::RowSums(0).apply(|_| below.view());
                divide(&above, &sums)
            });
        }
        for base in OTHER_BASES {
            let factor = ImpliedNumber::from_f64(base.ln());
            self.push(Kind::OtherBase, move |b| softmax(&b[last].mapv(|x| x.mul(factor))));
        }
        self.push(Kind::Sigmoid, move |b| {
            let one = ImpliedNumber::from_f64(1.0);
            b[last].mapv(|x| one.div(one.add(ImpliedNumber::from_f64(0.0).sub(x).exp())))
        });
        self.push(Kind::HardForSoft, move |b| Operation::OneHot(0).apply(|_| b[last].view()));
        if let Operation::Mask { of, visible } = &program.step(last).operation {
            let of = *of;
            self.push(Kind::MaskAfterSoftmax, move |b| zero_masked(&softmax(&b[of]), visible));
            self.push(Kind::MaskIgnored, move |b| softmax(&b[of]));
        }
        debug_assert_eq!(self.dim, program.value(id).dim());
    }
}

/// Computes the exponentials of scores after the largest of their row was subtracted.
fn shifted_exponentials(scores: &Array2<ImpliedNumber>) -> Array2<ImpliedNumber> {
    let largest = Operation::RowMax(0).apply(|_| scores.view());
    Operation::Exp { of: 0, largest: Some(1) }.apply(|id| if id == 0 { scores.view() } else { largest.view() })
}

fn weighted_sum(weights: &Array2<ImpliedNumber>, values: &Array2<ImpliedNumber>) -> Array2<ImpliedNumber> {
    Operation::WeightedSum([0, 1]).apply(|id| if id == 0 { weights.view() } else { values.view() })
}

fn divide(of: &Array2<ImpliedNumber>, sums: &Array2<ImpliedNumber>) -> Array2<ImpliedNumber> {
    Operation::DivideByRowSums { of: 0, sums: 1 }.apply(|id| if id == 0 { of.view() } else { sums.view() })
}

fn zero_masked(of: &Array2<ImpliedNumber>, visible: &Array2<bool>) -> Array2<ImpliedNumber> {
    Array2::from_shape_fn(of.dim(), |at| if visible[at] { of[at] } else { ImpliedNumber::from_f64(0.0) })
}

/// Returns the ratio of a row's standard deviation to that of a sample (`power` 1/2), or to the variance (`power` 1).
fn deviation_ratio(row: &[ImpliedNumber], power: f64, epsilon: f64) -> f64 {
    let n = row.len() as f64;
    let mean = row.iter().map(|x| x.midpoint()).sum::<f64>() / n;
    let squares: f64 = row.iter().map(|x| (x.midpoint() - mean).powi(2)).sum();
    let divisor = if power == 1.0 { n } else { n - 1.0 };
    (squares / n + epsilon).sqrt() / (squares / divisor + epsilon).powf(power)
}

/// Multiplies each column by γ and adds β.
fn affine(
    of: Array2<ImpliedNumber>,
    gamma: Option<&Array2<ImpliedNumber>>,
    beta: Option<&Array2<ImpliedNumber>>,
) -> Array2<ImpliedNumber> {
    Array2::from_shape_fn(of.dim(), |(i, j)| {
        let x = gamma.map_or(of[[i, j]], |gamma| of[[i, j]].mul(gamma[[0, j]]));
        beta.map_or(x, |beta| x.add(beta[[0, j]]))
    })
}

/// Returns whether the interval is one whole number.
fn is_whole(range: Interval) -> bool {
    range.high - range.low < 1e-9 && (range.midpoint() - range.midpoint().round()).abs() < 1e-9
}

/// Returns whether a printed number follows from a mistake. A whole number is not the rounding of another one.
/// An infinite number follows only from the same one, and NaN from no mistake.
fn explains(range: Interval, printed: &PrintedNumber) -> bool {
    if !printed.value.is_finite() {
        return range.low == printed.value && range.high == printed.value;
    }
    match printed.unit >= 1.0 && is_whole(range) {
        true => (range.midpoint() - printed.value).abs() < 1e-9,
        false => range.can_round_to(printed),
    }
}

/// The most numbers of a program for which mistakes in earlier steps are searched.
const LARGEST_SEARCH: usize = 50_000;

/// The search for the mistake in a claim.
pub(crate) struct MistakeSearch<'a> {
    pub(crate) program: &'a Program,
    pub(crate) claims: &'a [ClaimMatrix<'a>],
    pub(crate) implications: &'a Implications,
    /// The steps of the claim.
    pub(crate) ids: &'a [StepId],
}

impl MistakeSearch<'_> {
    /// Returns the mistake that explains the wrong numbers of the claim, if there is one.
    pub(crate) fn likely_mistake(&self) -> Option<LikelyMistake> {
        let last = *self.ids.iter().max()?;
        if self.ids.iter().all(|&id| self.implications.count_wrong(id) == 0) {
            return None;
        }
        let steps = &self.program.steps()[..=last];
        let is_small = steps.iter().map(|step| step.value.len()).sum::<usize>() <= LARGEST_SEARCH;
        let own = (self.program.step(self.ids[0]).kind, self.program.step(self.ids[0]).quantity);
        // The own step comes first, then the steps before it, so that the nearest of equal explanations is named.
        let mut sites: Vec<(StepKind, Quantity)> = vec![own];
        for (id, step) in steps.iter().enumerate().rev() {
            let site = (step.kind, step.quantity);
            let is_open = self.claims[id].is_none() && step.kind == StepKind::Value && is_small;
            if is_open && !sites.contains(&site) {
                sites.push(site);
            }
        }
        let mut best: Option<(f64, LikelyMistake)> = None;
        for site in sites {
            let is_own = site == own;
            let ids: Vec<StepId> = match is_own {
                true => self.ids.to_vec(),
                false => (0..last).filter(|&id| (steps[id].kind, steps[id].quantity) == site).collect(),
            };
            let mut alternatives: Vec<Vec<Alternative<'_>>> =
                ids.iter().map(|&id| Alternatives::of(self.program, id)).collect();
            if is_own {
                for (&id, all) in ids.iter().zip(&mut alternatives) {
                    self.push_transposed(id, all);
                    self.push_percentages(id, all);
                    self.push_unscaled(id, all);
                }
            }
            let count = alternatives.iter().map(Vec::len).min().unwrap_or(0);
            for k in 0..count {
                let replaced: Vec<(StepId, Array2<ImpliedNumber>)> = ids
                    .iter()
                    .zip(&alternatives)
                    .map(|(&id, all)| (id, (all[k].compute)(&self.implications.believed)))
                    .collect();
                let distance = match is_own {
                    true => self.distance(|id| replaced.iter().find(|(other, _)| *other == id).map(|(_, m)| m)),
                    false => {
                        let implied = self.implications.with_replaced(self.program, self.claims, &replaced, last);
                        self.distance(|id| implied.get(id))
                    }
                };
                let Some(distance) = distance else { continue };
                if best.as_ref().is_none_or(|(least, _)| distance < least * (1.0 - 1e-6) - 1e-12) {
                    let Alternative { kind, used, .. } = &alternatives[0][k];
                    let step = (!is_own).then(|| site.1.name().to_owned());
                    best = Some((distance, LikelyMistake { kind: *kind, step, used: used.clone() }));
                }
            }
        }
        let slip = |kind| Some(LikelyMistake { kind, step: None, used: None });
        match best {
            Some((_, mistake)) => Some(mistake),
            None if self.has_added_bias() => slip(MistakeKind::AddedBias),
            None => slip(self.slip()?),
        }
    }

    /// Adds the transposed result of a square matrix.
    fn push_transposed<'b>(&'b self, id: StepId, all: &mut Vec<Alternative<'b>>) {
        let implied = &self.implications.implied[id];
        if implied.is_square() && implied.nrows() > 1 {
            let used = Some([self.program.step(id).symbol(), self.program.step(id).symbol()]);
            let compute = Box::new(move |_: &[Array2<ImpliedNumber>]| implied.t().to_owned());
            all.push(Alternative { kind: MistakeKind::TransposedMatrix, used, compute });
        }
    }

    /// Adds weights or probabilities as percentages.
    fn push_percentages<'b>(&'b self, id: StepId, all: &mut Vec<Alternative<'b>>) {
        let step = self.program.step(id);
        if matches!(step.quantity, Quantity::Weights | Quantity::Probabilities)
            && matches!(step.kind, StepKind::Value | StepKind::AfterStep)
        {
            let implied = &self.implications.implied[id];
            let hundred = ImpliedNumber::from_f64(100.0);
            let compute = Box::new(move |_: &[Array2<ImpliedNumber>]| implied.mapv(|x| x.mul(hundred)));
            all.push(Alternative { kind: MistakeKind::Percentages, used: None, compute });
        }
    }

    /// Adds a part of softmax of scores that were not scaled, although the scaled or masked ones are claimed.
    ///
    /// Without such a claim, `scaled` has this alternative itself.
    fn push_unscaled<'b>(&'b self, id: StepId, all: &mut Vec<Alternative<'b>>) {
        let program = self.program;
        let own = &program.step(id).operation;
        let part = match own {
            Operation::DivideByRowSums { of, .. } => &program.step(*of).operation,
            _ => own,
        };
        let (Operation::Exp { of, .. } | Operation::RowMax(of)) = part else { return };
        // The bias and the mask between the scaled scores and softmax, last first.
        let (mut last, mut later, mut is_claimed) = (*of, Vec::new(), false);
        let unscaled = loop {
            is_claimed |= self.claims[last].is_some();
            let step = program.step(last);
            match &step.operation {
                Operation::Scale { of, .. } if step.quantity == Quantity::ScaledScores => break *of,
                Operation::AddBias { of, .. } | Operation::Mask { of, .. } => {
                    later.push(&step.operation);
                    last = *of;
                }
                _ => return,
            }
        };
        if !is_claimed {
            return;
        }
        let compute = move |b: &[Array2<ImpliedNumber>]| {
            let apply = |scores: Array2<ImpliedNumber>, next: &&Operation| next.apply(|_| scores.view());
            let scores = later.iter().rev().fold(b[unscaled].clone(), apply);
            match own {
                Operation::RowMax(_) => own.apply(|_| scores.view()),
                Operation::Exp { largest: None, .. } => scores.mapv(|x| x.exp()),
                Operation::Exp { .. } => shifted_exponentials(&scores),
                _ => softmax(&scores),
            }
        };
        all.push(Alternative { kind: MistakeKind::NotScaled, used: None, compute: Box::new(compute) });
    }

    /// Returns the claimed numbers of a step with their positions.
    fn printed(&self, id: StepId) -> impl Iterator<Item = ([usize; 2], &PrintedNumber)> {
        let claim = self.claims[id].into_iter().flat_map(|claim| claim.indexed_iter());
        claim.filter_map(|((i, j), printed)| Some(([i, j], printed.as_ref()?)))
    }

    /// Returns the distance of the claimed numbers from alternative ones. `None` if these do not explain all of them
    /// much better than the right computation.
    fn distance<'b>(&self, alternative: impl Fn(StepId) -> Option<&'b Array2<ImpliedNumber>>) -> Option<f64> {
        let (mut distance, mut usual) = (0.0, 0.0);
        for &id in self.ids {
            let other = alternative(id)?;
            for (at, printed) in self.printed(id) {
                let range = other[at].range;
                if !explains(range, printed) {
                    return None;
                }
                let far = |x: Interval| match (x.midpoint(), printed.value) {
                    (x, value) if x == value => 0.0,
                    (x, value) => ((x - value).abs() / (1.0 + value.abs())).min(1.0),
                };
                distance += far(range);
                usual += far(self.implications.implied[id][at].range);
            }
        }
        (distance <= usual / 2.0).then_some(distance)
    }

    /// Returns whether the errors of the claim are the same in all rows of each column. For scores, they may instead be
    /// the same in all columns of each row.
    fn has_added_bias(&self) -> bool {
        self.ids.iter().all(|&id| {
            let step = self.program.step(id);
            let is_linear = match &step.operation {
                Operation::Product { bias, .. } => bias.is_none(),
                Operation::ProductTransposed(_) | Operation::WeightedSum(_) | Operation::Scale { .. } => true,
                _ => false,
            };
            let is_of_scores = matches!(step.quantity, Quantity::Scores | Quantity::ScaledScores);
            is_linear
                && step.kind == StepKind::Value
                && (self.is_constant(id, 1) || is_of_scores && self.is_constant(id, 0))
        })
    }

    /// Returns whether the errors of a step are equal along all lines of an axis: 1 for columns, 0 for rows.
    fn is_constant(&self, id: StepId, axis: usize) -> bool {
        let dim = self.implications.implied[id].dim();
        let lines = if axis == 1 { dim.1 } else { dim.0 };
        let mut offsets = vec![[f64::NEG_INFINITY, f64::INFINITY]; lines];
        let mut count = 0;
        for (at, printed) in self.printed(id) {
            let range = self.implications.implied[id][at].range;
            if ![printed.value, range.low, range.high].into_iter().all(f64::is_finite) {
                return false;
            }
            let room = if is_whole(range) && printed.unit >= 1.0 { 0.0 } else { printed.tolerance() };
            let offset = &mut offsets[at[axis]];
            *offset =
                [offset[0].max(printed.value - room - range.high), offset[1].min(printed.value + room - range.low)];
            count += 1;
        }
        // One number of each line determines the offset, and the others confirm it.
        count >= 2 * lines && count - lines >= 2 && offsets.iter().all(|[low, high]| low <= high)
    }

    /// Returns the slip that explains each wrong number by itself.
    fn slip(&self) -> Option<MistakeKind> {
        let wrong: Vec<(StepId, [usize; 2], &PrintedNumber)> = (self.ids.iter())
            .flat_map(|&id| self.printed(id).map(move |(at, printed)| (id, at, printed)))
            .filter(|&(id, at, _)| self.implications.verdicts[id][at] == Some(ClaimVerdict::Wrong))
            .collect();
        let implied = |id: StepId, at: [usize; 2]| self.implications.implied[id][at];
        let negated = |x: ImpliedNumber| ImpliedNumber::from_f64(0.0).sub(x).range;
        if wrong.iter().all(|&(id, at, printed)| explains(negated(implied(id, at)), printed)) {
            return Some(MistakeKind::WrongSign);
        }
        if let [(id, at, printed), (other, place, text)] = wrong[..]
            && explains(implied(other, place).range, printed)
            && explains(implied(id, at).range, text)
        {
            return Some(MistakeKind::SwappedNumbers);
        }
        let lacks_term = |&(id, at, printed): &(StepId, [usize; 2], &PrintedNumber)| {
            self.partial_sums(id, at).iter().any(|sum| explains(*sum, printed))
        };
        wrong.iter().all(lacks_term).then_some(MistakeKind::LeftOutTerm)
    }

    /// Returns the sums of all but one term of a product's number.
    fn partial_sums(&self, id: StepId, [i, j]: [usize; 2]) -> Vec<Interval> {
        let believed = &self.implications.believed;
        let (a, b, is_transposed) = match &self.program.step(id).operation {
            Operation::Product { factors: [a, b], bias: None } | Operation::WeightedSum([a, b]) => (*a, *b, false),
            Operation::ProductTransposed([a, b]) => (*a, *b, true),
            _ => return Vec::new(),
        };
        let column = if is_transposed { believed[b].row(j) } else { believed[b].column(j) };
        let terms: Vec<ImpliedNumber> = believed[a].row(i).iter().zip(column).map(|(x, y)| x.mul(*y)).collect();
        let without = |k: usize| {
            let others = terms.iter().enumerate().filter(|(l, _)| *l != k);
            others.fold(ImpliedNumber::from_f64(0.0), |sum, (_, x)| sum.add(*x)).range
        };
        (0..terms.len()).filter(|_| terms.len() > 1).map(without).collect()
    }
}
