//! Expansions: one number of a step, term by term.

use crate::program::operation::{EntrywiseFunction, NormGradient, Operation, RotaryAngles, StepId, pair_rows};
use crate::program::steps::Program;
use chumoku::lang::Lang;
use chumoku::nn::Pooling;
use chumoku::tr_in;
use chumoku_kernels::Activation;
use ndarray::Array2;

/// The computation of one number.
#[derive(Clone, Debug, PartialEq)]
pub struct Expansion {
    /// Row and column, from 0.
    pub index: [usize; 2],
    /// Symbol of the matrix.
    pub(crate) symbol: String,
    /// The expression.
    pub form: ExpansionForm,
    /// The result.
    pub result: f64,
}

/// An arithmetic expression.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ExpansionForm {
    /// `a₁·b₁ + a₂·b₂ + … + bias`.
    Products {
        /// The factors of each term.
        terms: Vec<[f64; 2]>,
        /// The bias, added at the end.
        bias: Option<f64>,
    },
    /// `a·b + c·g²`, or `c·g²`.
    WithSquare {
        /// a and b.
        product: Option<[f64; 2]>,
        /// c and g.
        square: [f64; 2],
    },
    /// `a + b + …`.
    Terms(Vec<f64>),
    /// `(a + b + …) / n`.
    Average(Vec<f64>, f64),
    /// `tanh(a)`.
    Tanh(f64),
    /// `σ(a + b)`, or `tanh(a + b)`.
    Gate {
        /// The summands.
        terms: [f64; 2],
        /// True for tanh, false for σ.
        is_tanh: bool,
    },
    /// `ln(a)`.
    Logarithm(f64),
    /// `−(a₁·b₁ + a₂·b₂ + …) / n`.
    NegativeMean {
        /// The factors of each term.
        terms: Vec<[f64; 2]>,
        /// n.
        over: f64,
    },
    /// `(a − b) / n`.
    Difference([f64; 2], f64),
    /// `a · (b − c)`: in the gradient of softmax, c is the sum over the row of shares times their gradients.
    SoftmaxGradient([f64; 3]),
    /// `g · y · (1 − y)`, or `g · (1 − y²)`: the gradient at the input of a gate with output y.
    GateGradient {
        /// g and y.
        of: [f64; 2],
        /// True if y is a tanh, false if it is a σ.
        is_tanh: bool,
    },
    /// An activation of a, such as `max(0, a)`.
    Activation(Activation, f64),
    /// `a / √n`.
    OverSqrt(f64, usize),
    /// `a / b`.
    Quotient(f64, f64),
    /// `a · cos θ ± b · sin θ`, with a sign and an angle in radians.
    Rotation {
        /// The rotated pair.
        pair: [f64; 2],
        /// −1 for the first of a pair, 1 for the second.
        sign: f64,
        /// The angle θ.
        angle: f64,
    },
    /// `exp(a − b)`.
    Exponential(f64, Option<f64>),
    /// `max(a, b, …)`.
    Max(Vec<f64>),
    /// `γ · (x − mean) / √(variance + ε) + β`.
    LayerNorm {
        /// The number, its row's mean and variance, and ε.
        of: [f64; 4],
        /// γ and β.
        affine: [Option<f64>; 2],
    },
    /// `γ · x / √(mean(x²) + ε)`.
    RmsNorm {
        /// The number, its row's mean square, and ε.
        of: [f64; 3],
        /// γ.
        gamma: Option<f64>,
    },
    /// `[a > 0]`, the derivative of relu.
    IsPositive(f64),
    /// `1 − tanh²(a)`.
    TanhDerivative(f64),
    /// `Φ(a) + a · φ(a)`, the derivative of gelu.
    GeluDerivative(f64),
    /// `s · (1 + a · (1 − s))` with `s = 1 / (1 + exp(−a))`, the derivative of silu.
    SiluDerivative(f64),
    /// `(g − center − x · along) / √(spread + ε)`: the gradient of a normalization with the result x.
    NormGradient {
        /// g, x and the mean of g·x.
        of: [f64; 3],
        /// The mean of g, if the normalization subtracts the mean.
        center: Option<f64>,
        /// The variance or the mean square, and ε.
        under: [f64; 2],
    },
    /// `(g − u · along) / length`: the gradient of a division by the length.
    UnitGradient([f64; 4]),
    /// `a · (1 − a)` for one share, or `−a · b` for two.
    Jacobian(f64, Option<f64>),
    /// `rate · m / (√v + ε)`.
    Update([f64; 4]),
}

/// An expanded number is in the first rows and columns, which every form shows.
const CORNER_SIZE: usize = 6;
/// Relative margin of a larger number, so that the choice does not depend on the last digit of an exponential.
const TIE_MARGIN: f64 = 1e-9;

/// Expands one number of a step: the largest finite one in the corner, the first of several. Exponentials of the
/// largest score are left out, because they are all `exp(0) = 1`.
pub(crate) fn expand(program: &Program, id: StepId) -> Option<Expansion> {
    let step = program.step(id);
    let is_trivial =
        |x: f64| matches!(step.operation, Operation::Exp { largest: Some(_), .. }) && (x == 1.0 || x == 0.0);
    let corner = step.value.indexed_iter().filter(|((i, j), x)| *i < CORNER_SIZE && *j < CORNER_SIZE && x.is_finite());
    let is_larger = |next: &f64, best: &f64| match [*best, *next].map(is_trivial) {
        [true, false] => true,
        [false, true] => false,
        _ => next.abs() > best.abs() * (1.0 + TIE_MARGIN),
    };
    let (at, _) = corner.reduce(|best, next| if is_larger(next.1, best.1) { next } else { best })?;
    let form = expansion_form(&step.operation, at, step.value.ncols(), &|id| program.value(id))?;
    Some(Expansion { index: [at.0, at.1], symbol: step.symbol(), form, result: step.value[at] })
}

/// Returns the expression of one number of an operation's result, which has the given number of columns.
pub(crate) fn expansion_form<'a>(
    operation: &Operation,
    at: (usize, usize),
    columns: usize,
    of: &dyn Fn(StepId) -> &'a Array2<f64>,
) -> Option<ExpansionForm> {
    let (row, column) = at;
    let products = |a: StepId, b: &dyn Fn(usize) -> f64| -> Vec<[f64; 2]> {
        of(a).row(row).iter().enumerate().map(|(k, x)| [*x, b(k)]).collect()
    };
    let entry = |id: &StepId| of(*id)[at];
    let length_of = |id: &StepId| of(*id).row(row).iter().map(|x| x * x).sum::<f64>().sqrt();
    let column_pairs = |[(a, i), (b, j)]: [(&StepId, usize); 2]| -> Vec<[f64; 2]> {
        of(*a).column(i).into_iter().zip(of(*b).column(j)).map(|(x, y)| [*x, *y]).collect()
    };
    let plain = |terms| ExpansionForm::Products { terms, bias: None };
    Some(match operation {
        Operation::Given
        | Operation::Columns { .. }
        | Operation::Concat(_)
        | Operation::OneHot(_)
        | Operation::StateRecurrence(_)
        | Operation::StateGradient(_)
        | Operation::Reshape { .. }
        | Operation::Mask { .. }
        | Operation::PoolingGradient { .. } => return None,
        Operation::Sum([a, b]) => ExpansionForm::Terms(vec![entry(a), entry(b)]),
        Operation::Hadamard([a, b]) => plain(vec![[entry(a), entry(b)]]),
        Operation::Product { factors: [a, b], bias } => ExpansionForm::Products {
            terms: products(*a, &|k| of(*b)[[k, column]]),
            bias: bias.map(|bias| of(bias)[[0, column]]),
        },
        Operation::WeightedSum([a, b]) => {
            // A share of 0 contributes nothing, whatever its value is.
            let mut terms = products(*a, &|k| of(*b)[[k, column]]);
            terms.retain(|[share, value]| *share != 0.0 || value.is_finite());
            plain(terms)
        }
        Operation::ProductTransposed([a, b]) => plain(products(*a, &|k| of(*b)[[column, k]])),
        Operation::TransposedProduct([a, b]) => plain(column_pairs([(a, row), (b, column)])),
        Operation::PairSums([a, b]) => {
            let keys = of(*b).nrows();
            ExpansionForm::Terms(vec![of(*a)[[row / keys, column]], of(*b)[[row % keys, column]]])
        }
        Operation::PairGradient { of: a, keys, is_second } => {
            let rows = pair_rows(of(*a).nrows(), *keys, row, *is_second);
            ExpansionForm::Terms(rows.map(|i| of(*a)[[i, column]]).collect())
        }
        Operation::ProductsTransposed { pairs, added } if pairs.is_empty() => {
            ExpansionForm::Terms(added.iter().map(entry).collect())
        }
        Operation::ProductsTransposed { pairs, added } => {
            let terms = pairs.iter().flat_map(|[a, b]| products(*a, &|k| of(*b)[[column, k]])).collect();
            let bias = added.iter().map(entry).reduce(|sum, x| sum + x);
            ExpansionForm::Products { terms, bias }
        }
        Operation::Difference { of: [a, b], over } => ExpansionForm::Difference([entry(a), entry(b)], *over),
        Operation::SoftmaxGradient { shares, gradient } => {
            let terms = of(*shares).row(row).into_iter().zip(of(*gradient).row(row));
            let mean = terms.map(|(share, g)| if *share == 0.0 { 0.0 } else { share * g }).sum();
            ExpansionForm::SoftmaxGradient([entry(shares), entry(gradient), mean])
        }
        Operation::BroadcastRow { of: a, over, .. } => ExpansionForm::Quotient(of(*a)[[0, column]], *over),
        Operation::ColumnSums(a) => ExpansionForm::Terms(of(*a).column(column).to_vec()),
        Operation::Rotary { of: a, angles, is_back } => {
            let (width, half) = (columns, columns / 2);
            let (i, is_first) = (column % half.max(1), column < half);
            let speed = match angles {
                RotaryAngles::Base(base) => base.powf(-2.0 * i as f64 / width as f64),
                RotaryAngles::Given(speeds) => of(*speeds)[[0, i]],
            };
            let angle = row as f64 * speed;
            let other = if is_first { column + half } else { i };
            let pair = [of(*a)[[row, column]], of(*a)[[row, other]]];
            ExpansionForm::Rotation {
                pair,
                sign: if is_first { -1.0 } else { 1.0 },
                angle: if *is_back { -angle } else { angle },
            }
        }
        Operation::Scale { of: a, factor } => match crate::formulas::formula::inverse_sqrt_of(*factor) {
            Some(1) => ExpansionForm::Terms(vec![entry(a)]),
            Some(n) => ExpansionForm::OverSqrt(entry(a), n),
            None => plain(vec![[*factor, entry(a)]]),
        },
        Operation::AddBias { of: a, bias } => ExpansionForm::Terms(vec![entry(a), bias[at]]),
        Operation::RowMax(a) => ExpansionForm::Max(of(*a).row(row).to_vec()),
        Operation::Exp { of: a, largest } => {
            let largest = largest.map(|largest| of(largest)[[row, 0]]);
            if largest == Some(f64::NEG_INFINITY) {
                return None;
            }
            ExpansionForm::Exponential(entry(a), largest)
        }
        Operation::RowSums(a) => ExpansionForm::Terms(of(*a).row(row).to_vec()),
        Operation::DivideByRowSums { of: a, sums } => ExpansionForm::Quotient(entry(a), of(*sums)[[row, 0]]),
        Operation::LayerNorm { of: a, gamma, beta, epsilon } => {
            let numbers = of(*a).row(row);
            let n = numbers.len() as f64;
            let mean = numbers.sum() / n;
            let variance = numbers.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
            let affine = [gamma, beta].map(|id| id.map(|id| of(id)[[0, column]]));
            ExpansionForm::LayerNorm { of: [numbers[column], mean, variance, *epsilon], affine }
        }
        Operation::RmsNorm { of: a, gamma, epsilon } => {
            let numbers = of(*a).row(row);
            let square = numbers.iter().map(|x| x * x).sum::<f64>() / numbers.len() as f64;
            let gamma = gamma.map(|id| of(id)[[0, column]]);
            ExpansionForm::RmsNorm { of: [numbers[column], square, *epsilon], gamma }
        }
        Operation::Pool { of: a, poolings } => {
            let width = of(*a).ncols().max(1);
            let numbers = of(*a).column(column % width).to_vec();
            let count = numbers.len() as f64;
            match poolings.get(column / width)? {
                Pooling::First | Pooling::Last => return None,
                Pooling::Max => ExpansionForm::Max(numbers),
                Pooling::MeanSqrtLength => ExpansionForm::Average(numbers, count.sqrt()),
                Pooling::Mean => ExpansionForm::Average(numbers, count),
            }
        }
        Operation::Activation { of: a, activation } => ExpansionForm::Activation(*activation, entry(a)),
        Operation::Tanh(a) => ExpansionForm::Tanh(entry(a)),
        Operation::Gate { terms, is_tanh, .. } => {
            ExpansionForm::Gate { terms: terms.map(|(id, from)| of(id)[[row, from + column]]), is_tanh: *is_tanh }
        }
        Operation::GatedSum { pairs, is_complement } => {
            let mut terms = pairs.map(|pair| pair.map(|id| of(id)[at])).to_vec();
            if *is_complement {
                terms[0][0] = 1.0 - terms[0][0];
            }
            plain(terms)
        }
        Operation::GateGradient { gate, gradient, is_tanh } => {
            ExpansionForm::GateGradient { of: [entry(gradient), entry(gate)], is_tanh: *is_tanh }
        }
        Operation::ComplementProduct([a, g]) => plain(vec![[1.0 - entry(a), entry(g)]]),
        Operation::DifferenceProduct { gradient, of: [a, b] } => {
            ExpansionForm::SoftmaxGradient([entry(gradient), entry(a), entry(b)])
        }
        Operation::Log(a) => ExpansionForm::Logarithm(entry(a)),
        Operation::CrossEntropy { target, logarithms } => {
            // A share of 0 contributes nothing: a one-hot target leaves one term.
            let terms = of(*target).iter().zip(of(*logarithms)).map(|(share, x)| [*share, *x]);
            let terms = terms.filter(|[share, _]| *share != 0.0).collect();
            ExpansionForm::NegativeMean { terms, over: of(*target).nrows() as f64 }
        }
        Operation::UnitLength(a) => ExpansionForm::Quotient(entry(a), length_of(a)),
        Operation::ActivationDerivative { of: a, curve } => match (curve, entry(a)) {
            (EntrywiseFunction::Tanh, x) => ExpansionForm::TanhDerivative(x),
            (EntrywiseFunction::Activation(Activation::Relu), x) => ExpansionForm::IsPositive(x),
            (EntrywiseFunction::Activation(Activation::Gelu), x) => ExpansionForm::GeluDerivative(x),
            (EntrywiseFunction::Activation(Activation::Silu), x) => ExpansionForm::SiluDerivative(x),
            _ => return None,
        },
        Operation::NormGradient(made) => norm_gradient_form(of, made, at),
        Operation::ColumnDotProducts([a, b]) => plain(column_pairs([(a, column), (b, column)])),
        Operation::UnitGradient { of: a, unit, gradient } => {
            let length = length_of(a);
            if length == 0.0 {
                return None;
            }
            let along = of(*unit).row(row).iter().zip(of(*gradient).row(row)).map(|(u, g)| u * g).sum();
            ExpansionForm::UnitGradient([entry(gradient), entry(unit), along, length])
        }
        Operation::SoftmaxJacobian { shares, row: of_row } => {
            let own = of(*shares).row(*of_row);
            ExpansionForm::Jacobian(own[row], (row != column).then(|| own[column]))
        }
        Operation::Moment { before, gradient, keep, is_square } => {
            let g = entry(gradient);
            let (product, new) = (before.as_ref().map(|before| [*keep, entry(before)]), [1.0 - keep, g]);
            match is_square {
                true => ExpansionForm::WithSquare { product, square: new },
                false => plain(product.into_iter().chain([new]).collect()),
            }
        }
        Operation::BiasCorrection { of: a, keep, step } => {
            ExpansionForm::Quotient(entry(a), 1.0 - keep.powf(f64::from(*step)))
        }
        Operation::AdamUpdate { moments: [m, v], rate, epsilon } => {
            ExpansionForm::Update([*rate, entry(m), entry(v), *epsilon])
        }
        Operation::AdamWStep { of: a, update, rate, weight_decay } => match *weight_decay == 0.0 {
            true => ExpansionForm::Difference([entry(a), entry(update)], 1.0),
            false => {
                let terms = vec![[1.0 - rate * weight_decay, entry(a)]];
                ExpansionForm::Products { terms, bias: Some(-entry(update)) }
            }
        },
    })
}

/// Returns the expression of a number of a normalization's gradient.
fn norm_gradient_form<'a>(
    of: &dyn Fn(StepId) -> &'a Array2<f64>,
    made: &NormGradient,
    at: (usize, usize),
) -> ExpansionForm {
    let [x, plain, gradient] = [made.of, made.plain, made.gradient].map(|id| of(id).row(at.0));
    let n = x.len() as f64;
    let g = |j: usize| gradient[j] * made.gamma.map_or(1.0, |gamma| of(gamma)[[0, j]]);
    let mean = |term: &dyn Fn(usize) -> f64| (0..x.len()).map(term).sum::<f64>() / n;
    let middle = if made.is_rms { 0.0 } else { mean(&|j| x[j]) };
    ExpansionForm::NormGradient {
        of: [g(at.1), plain[at.1], mean(&|j| g(j) * plain[j])],
        center: (!made.is_rms).then(|| mean(&g)),
        under: [mean(&|j| (x[j] - middle) * (x[j] - middle)), made.epsilon],
    }
}

/// Spelling of numbers and signs.
pub(crate) struct ExpansionFormat<'a> {
    pub(crate) number: &'a dyn Fn(f64) -> String,
    pub(crate) is_latex: bool,
    pub(crate) lang: Lang,
    /// Maximum number of written terms; the others are counted.
    pub(crate) terms: usize,
}

impl Expansion {
    /// Returns the symbol of the number with its row and column, counted from 1.
    pub(crate) fn element_symbol(&self, is_latex: bool) -> String {
        let [row, column] = self.index.map(|i| i + 1);
        match is_latex {
            true => {
                format!("\\left({}\\right)_{{{row},{column}}}", crate::formulas::formula::latex_symbol(&self.symbol))
            }
            false => format!("{}({row},{column})", self.symbol),
        }
    }

    /// Returns the expression without the result.
    pub(crate) fn expression_text(&self, spelling: &ExpansionFormat<'_>) -> String {
        let ExpansionFormat { number, is_latex, lang, terms: most } = *spelling;
        let [times, minus, root] = match is_latex {
            true => ["\\cdot ", " - ", "\\sqrt"],
            false => ["·", " − ", "√"],
        };
        let more = |count: usize| match is_latex {
            true => format!("\\underbrace{{\\cdots}}_{{{count}}}"),
            false => more_terms_note(lang, count),
        };
        // A negative number after a sign is put in parentheses.
        let signed = |x: f64| if x < 0.0 { format!("({})", number(x)) } else { number(x) };
        let braced = |x: String| if is_latex { format!("{{{x}}}") } else { x };
        let root_of = |x: f64, epsilon: f64| {
            let under = format!("{} + {}", number(x), number(epsilon));
            if is_latex { format!("{root}{{{under}}}") } else { format!("{root}({under})") }
        };
        let function = |name: &str| if is_latex { format!("\\{name}") } else { name.to_owned() };
        // Only the first number of a sum has no sign in front.
        let leading = |k: usize, x: f64| if k == 0 { number(x) } else { signed(x) };
        let summands = |terms: &[f64]| terms.iter().enumerate().map(|(k, x)| leading(k, *x)).collect::<Vec<_>>();
        let products = |terms: &[[f64; 2]]| -> Vec<String> {
            let product = |(k, [a, b]): (usize, &[f64; 2])| format!("{}{times}{}", leading(k, *a), signed(*b));
            terms.iter().enumerate().map(product).collect()
        };
        let joined = |parts: Vec<String>| {
            if parts.len() <= most {
                return parts.join(" + ");
            }
            let left = more(parts.len() - most);
            format!("{} + {left} + {}", parts[..most - 1].join(" + "), parts[parts.len() - 1])
        };
        match &self.form {
            ExpansionForm::Products { terms, bias } => {
                let mut parts = products(terms);
                parts.extend(bias.map(signed));
                if parts.is_empty() { number(0.0) } else { joined(parts) }
            }
            ExpansionForm::WithSquare { product, square: [c, g] } => {
                let square = format!("{}{times}({}){}", number(*c), number(*g), if is_latex { "^2" } else { "²" });
                product.iter().flat_map(|pair| products(&[*pair])).chain([square]).collect::<Vec<_>>().join(" + ")
            }
            ExpansionForm::Terms(terms) => joined(summands(terms)),
            ExpansionForm::Average(terms, over) => format!("({}) / {}", joined(summands(terms)), number(*over)),
            ExpansionForm::Tanh(a) => format!("{}({})", function("tanh"), number(*a)),
            ExpansionForm::Gate { terms: [a, b], is_tanh } => {
                let name = match (is_tanh, is_latex) {
                    (true, _) => &function("tanh"),
                    (false, true) => "\\sigma",
                    (false, false) => "σ",
                };
                format!("{name}({} + {})", number(*a), signed(*b))
            }
            ExpansionForm::Logarithm(a) => format!("{}({})", function("ln"), number(*a)),
            ExpansionForm::NegativeMean { terms, over } => {
                let over = if *over == 1.0 { String::new() } else { format!(" / {}", number(*over)) };
                format!("{}({}){over}", minus.trim(), joined(products(terms)))
            }
            ExpansionForm::Difference([a, b], over) => match *over == 1.0 {
                true => format!("{}{minus}{}", number(*a), signed(*b)),
                false => format!("({}{minus}{}) / {}", number(*a), signed(*b), number(*over)),
            },
            ExpansionForm::SoftmaxGradient([a, g, mean]) => {
                format!("{}{times}({}{minus}{})", number(*a), number(*g), signed(*mean))
            }
            ExpansionForm::GateGradient { of: [g, y], is_tanh } => {
                let square = if is_latex { "^2" } else { "²" };
                let own = signed(*y);
                match is_tanh {
                    true => format!("{}{times}(1{minus}{own}{square})", number(*g)),
                    false => format!("{}{times}{own}{times}(1{minus}{own})", number(*g)),
                }
            }
            ExpansionForm::Activation(activation, a) => {
                let (a, own) = (number(*a), signed(*a));
                match (activation, is_latex) {
                    (Activation::Relu, false) => format!("max(0, {a})"),
                    (Activation::Relu, true) => format!("\\max(0, {a})"),
                    (Activation::Gelu, false) => format!("{a}/2 · (1 + erf({a}/√2))"),
                    (Activation::Gelu, true) => {
                        format!("\\tfrac{{1}}{{2}}\\cdot {own}\\left(1 + \\mathrm{{erf}}({a}/\\sqrt{{2}})\\right)")
                    }
                    (Activation::GeluTanh, false) => format!("{a}/2 · (1 + tanh(√(2/π)·({a} + 0.044715·{own}³)))"),
                    (Activation::GeluTanh, true) => format!(
                        "\\tfrac{{1}}{{2}}\\cdot {own}\\left(1 + \\tanh\\left(\\sqrt{{2/\\pi}}\\,({a} + \
                         0.044715\\cdot {own}^3)\\right)\\right)"
                    ),
                    (Activation::Silu, false) => format!("{a} / (1 + exp(−{own}))"),
                    (Activation::Silu, true) => format!("{a} / (1 + \\exp(-{own}))"),
                    _ => format!("f({a})"),
                }
            }
            ExpansionForm::OverSqrt(a, n) => format!("{} / {root}{}", number(*a), braced(n.to_string())),
            ExpansionForm::Quotient(a, b) => format!("{} / {}", number(*a), signed(*b)),
            ExpansionForm::Rotation { pair: [a, b], sign, angle } => {
                let sign = if *sign < 0.0 { minus } else { " + " };
                let ([cos, sin], angle) = (["cos", "sin"].map(function), number(*angle));
                format!("{}{times}{cos} {angle}{sign}{}{times}{sin} {angle}", number(*a), signed(*b))
            }
            ExpansionForm::Exponential(a, b) => {
                let less = b.map_or(String::new(), |b| format!("{minus}{}", signed(b)));
                format!("{}({}{less})", function("exp"), number(*a))
            }
            ExpansionForm::Max(numbers) => {
                let max = function("max");
                let list = |numbers: &[f64]| numbers.iter().map(|x| number(*x)).collect::<Vec<_>>().join(", ");
                if numbers.len() <= most {
                    return format!("{max}({})", list(numbers));
                }
                let (first, last) = (list(&numbers[..most - 1]), number(numbers[numbers.len() - 1]));
                format!("{max}({first}, {}, {last})", more(numbers.len() - most))
            }
            ExpansionForm::LayerNorm { of: [x, mean, variance, epsilon], affine: [gamma, beta] } => {
                let core = format!("({}{minus}{}) / {}", number(*x), signed(*mean), root_of(*variance, *epsilon));
                let factor = gamma.map_or(String::new(), |gamma| format!("{}{times}", number(gamma)));
                let offset = beta.map_or(String::new(), |beta| format!(" + {}", signed(beta)));
                format!("{factor}{core}{offset}")
            }
            ExpansionForm::RmsNorm { of: [x, square, epsilon], gamma } => {
                let factor = gamma.map_or(String::new(), |gamma| format!("{}{times}", number(gamma)));
                format!("{factor}{} / {}", signed(*x), root_of(*square, *epsilon))
            }
            ExpansionForm::IsPositive(a) => format!("[{} > 0]", number(*a)),
            ExpansionForm::TanhDerivative(a) => match is_latex {
                true => format!("1 - \\tanh({})^2", number(*a)),
                false => format!("1 − tanh({})²", number(*a)),
            },
            ExpansionForm::GeluDerivative(a) => {
                let [phi, density] = if is_latex { ["\\Phi", "\\varphi"] } else { ["Φ", "φ"] };
                let a = number(*a);
                format!("{phi}({a}) + {a}{times}{density}({a})")
            }
            ExpansionForm::SiluDerivative(a) => {
                let share = number(1.0 / (1.0 + (-a).exp()));
                format!("{share}{times}(1 + {}{times}(1{minus}{share}))", number(*a))
            }
            ExpansionForm::NormGradient { of: [g, x, along], center, under: [spread, epsilon] } => {
                let under = root_of(*spread, *epsilon);
                let center = center.map_or(String::new(), |center| format!("{minus}{}", signed(center)));
                format!("({}{center}{minus}{}{times}{}) / {under}", number(*g), signed(*x), signed(*along))
            }
            ExpansionForm::UnitGradient([g, u, along, length]) => {
                format!("({}{minus}{}{times}{}) / {}", number(*g), signed(*u), signed(*along), number(*length))
            }
            ExpansionForm::Jacobian(a, None) => format!("{}{times}(1{minus}{})", number(*a), number(*a)),
            ExpansionForm::Jacobian(a, Some(b)) => format!("{}{}{times}{}", minus.trim(), number(*a), number(*b)),
            ExpansionForm::Update([rate, m, v, epsilon]) => {
                let v = braced(number(*v));
                format!("{}{times}{} / ({root}{v} + {})", number(*rate), signed(*m), number(*epsilon))
            }
        }
    }
}

/// States how many terms of a sum are left out.
fn more_terms_note(lang: Lang, count: usize) -> String {
    tr_in!("… ({count} more)", "…（他 {count} 項）", lang)
}
