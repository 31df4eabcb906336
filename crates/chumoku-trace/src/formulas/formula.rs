//! The formulas of steps.

use crate::program::operation::{EntrywiseFunction, NormGradient, Operation, RotaryAngles, StepId};
use crate::program::quantity::Quantity;
use crate::program::step_kind::StepKind;
use crate::program::steps::Program;
use chumoku::nn::Pooling;
use chumoku_kernels::Activation;

/// A formula in two spellings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formula {
    /// For terminals and pages: `S = Q Kᵀ`.
    pub text: String,
    /// For LaTeX math: `S = Q K^{\top}`.
    pub latex: String,
}

/// Returns a symbol in LaTeX.
pub(crate) fn latex_symbol(symbol: &str) -> String {
    // A modified symbol: restricted to a path, after a step, or with an operator in front.
    if let Some((of, through)) = symbol.split_once('|') {
        return format!("{}|_{{{}}}", latex_symbol(of), latex_symbol(through));
    }
    if let Some(of) = symbol.strip_suffix('⁺') {
        return format!("{{{}}}^{{+}}", latex_symbol(of));
    }
    if let Some((operator, of)) = symbol.strip_suffix(')').and_then(|symbol| symbol.split_once('(')) {
        return format!("{}({})", latex_symbol(operator), latex_symbol(of));
    }
    // A gradient has a d in front of its symbol.
    if let Some(of) = symbol.strip_prefix('d').filter(|of| !of.is_empty()) {
        return format!("\\mathrm{{d}}{}", latex_symbol(of));
    }
    let (symbol, head) = match symbol.strip_suffix(']').and_then(|s| s.split_once('[')) {
        Some((symbol, head)) => (symbol, Some(head)),
        None => (symbol, None),
    };
    let (letter, index) = symbol.split_once('_').unwrap_or((symbol, ""));
    let (letter, prime) = match letter.strip_suffix('′') {
        Some(letter) => (letter, "'"),
        None => (letter, ""),
    };
    let (letter, is_hat) = match letter.strip_suffix('\u{302}') {
        Some(letter) => (letter, true),
        None => (letter, false),
    };
    let letter = match letter {
        "m₀" => "m_0",
        "v₀" => "v_0",
        "Δ" => "\\Delta",
        "γ" => "\\gamma",
        "β" => "\\beta",
        "ω" => "\\omega",
        "ℒ" => "\\mathcal{L}",
        letter => letter,
    };
    let letter = if is_hat { format!("\\hat{{{letter}}}") } else { letter.to_owned() };
    let index = if index.len() > 2 { format!("\\mathrm{{{index}}}") } else { index.to_owned() };
    let lower: Vec<&str> = [index.as_str(), head.unwrap_or("")].into_iter().filter(|s| !s.is_empty()).collect();
    match lower.is_empty() {
        true => format!("{letter}{prime}"),
        false => format!("{letter}{prime}_{{{}}}", lower.join(",")),
    }
}

/// Returns a number in LaTeX.
pub(crate) fn latex_number(text: &str) -> String {
    let text = text.replace('∞', "\\infty ").replace("NaN", "\\mathrm{NaN}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if exponent.parse::<i32>().is_ok() => format!("{mantissa}\\cdot 10^{{{exponent}}}"),
        _ => text,
    }
}

/// Returns n if a factor is 1/√n for a whole number n.
pub(crate) fn inverse_sqrt_of(factor: f64) -> Option<usize> {
    let n = (1.0 / (factor * factor)).round();
    let is_root = (1.0..1e9).contains(&n) && factor > 0.0 && (factor - n.sqrt().recip()).abs() < 1e-15 * 4.0;
    is_root.then_some(n as usize)
}

/// The right side of a formula before its symbols are filled in: `{0}` is the first symbol.
pub(crate) struct FormulaTemplate {
    pub(crate) symbols: Vec<String>,
    pub(crate) text: String,
    latex: String,
}

impl FormulaTemplate {
    fn new(symbols: &[String], [text, latex]: [&str; 2]) -> FormulaTemplate {
        FormulaTemplate { symbols: symbols.to_vec(), text: text.to_owned(), latex: latex.to_owned() }
    }
}

/// Returns the formula of a step; `None` for an input.
pub(crate) fn formula(program: &Program, id: StepId) -> Option<Formula> {
    let template = formula_template(program, id)?;
    let [text, latex] =
        fill_templates(&program.step(id).symbol(), &template.symbols, [&template.text, &template.latex]);
    Some(Formula { text, latex })
}

/// Returns the template of a step's formula; `None` for an input.
pub(crate) fn formula_template(program: &Program, id: StepId) -> Option<FormulaTemplate> {
    let name = |id: &StepId| program.step(*id).symbol();
    let step = program.step(id);
    let fill = FormulaTemplate::new;
    let with =
        |ids: &[&StepId], templates: [&str; 2]| fill(&ids.iter().map(|id| name(id)).collect::<Vec<_>>(), templates);
    Some(match &step.operation {
        Operation::Given => return None,
        Operation::Sum([a, b]) => with(&[a, b], ["{0} + {1}", "{0} + {1}"]),
        Operation::Hadamard([a, b]) => with(&[a, b], ["{0} ∘ {1}", "{0} \\odot {1}"]),
        Operation::Product { factors: [a, b], bias: None } | Operation::WeightedSum([a, b]) => {
            with(&[a, b], ["{0} {1}", "{0} {1}"])
        }
        Operation::Product { factors: [a, b], bias: Some(c) } => with(&[a, b, c], ["{0} {1} + {2}", "{0} {1} + {2}"]),
        Operation::ProductTransposed([a, b]) => with(&[a, b], ["{0} {1}ᵀ", "{0} {{1}}^{\\top}"]),
        Operation::TransposedProduct([a, b]) => with(&[a, b], ["{0}ᵀ {1}", "{{0}}^{\\top} {1}"]),
        Operation::PairSums([a, b]) => {
            with(&[a, b], ["{0}(i, :) + {1}(j, :)", "\\left({0}\\right)_{i,:} + \\left({1}\\right)_{j,:}"])
        }
        Operation::PairGradient { of, is_second: false, .. } => with(&[of], ["Σⱼ {0}(i, j)", "\\textstyle\\sum_j {0}"]),
        Operation::PairGradient { of, .. } => with(&[of], ["Σᵢ {0}(i, j)", "\\textstyle\\sum_i {0}"]),
        Operation::Reshape { of, .. } => with(&[of], ["reshape({0})", "\\mathrm{reshape}({0})"]),
        Operation::ProductsTransposed { pairs, added } => {
            let letters: Vec<String> = pairs.iter().flatten().chain(added).map(name).collect();
            let place = |i: usize| format!("{{{i}}}");
            let [text, latex] = [false, true].map(|is_latex| {
                let pair = |k: usize| match is_latex {
                    true => format!("{} {{{}}}^{{\\top}}", place(2 * k), place(2 * k + 1)),
                    false => format!("{} {}ᵀ", place(2 * k), place(2 * k + 1)),
                };
                let plain = (2 * pairs.len()..letters.len()).map(place);
                (0..pairs.len()).map(pair).chain(plain).collect::<Vec<_>>().join(" + ")
            });
            fill(&letters, [&text, &latex])
        }
        Operation::Difference { of: [a, b], over } => match *over == 1.0 {
            true => with(&[a, b], ["{0} − {1}", "{0} - {1}"]),
            false => with(&[a, b], ["({0} − {1}) / n", "({0} - {1}) / n"]),
        },
        Operation::SoftmaxGradient { shares, gradient } => {
            with(&[shares, gradient], ["{0} ∘ ({1} − Σⱼ {0} ∘ {1})", "{0}\\odot\\,({1}-\\sum_j{0}\\odot\\,{1})"])
        }
        Operation::BroadcastRow { of, rows, over } => match *over == *rows as f64 {
            true => with(&[of], ["{0} / n", "{0} / n"]),
            false => with(&[of], ["{0} / √n", "{0} / \\sqrt{n}"]),
        },
        Operation::ColumnSums(of) => with(&[of], ["Σᵢ {0}", "\\textstyle\\sum_i {0}"]),
        Operation::Columns { of, range } => {
            let (first, last) = (range.start + 1, range.end);
            fill(
                &[name(of), first.to_string(), last.to_string()],
                ["{0}(:, {1}…{2})", "\\left({0}\\right)_{:,\\,{1}\\ldots{2}}"],
            )
        }
        Operation::Rotary { of, angles, is_back } => {
            let (letter, power) = match angles {
                RotaryAngles::Given(speeds) => (name(speeds), ["", ""]),
                RotaryAngles::Base(base) => (base.to_string(), ["^(−2i/d_k)", "^{-2i/d_k}"]),
            };
            let [minus, dash] = if *is_back { ["−", "-"] } else { [""; 2] };
            let text = format!("rotate({{0}}; {minus}position · {{1}}{})", power[0]);
            let latex =
                format!("\\mathrm{{rotate}}\\left({{0}};\\ {dash}\\mathrm{{position}}\\cdot {{1}}{}\\right)", power[1]);
            fill(&[name(of), letter], [&text, &latex])
        }
        Operation::Scale { of, factor } => match inverse_sqrt_of(*factor) {
            Some(1) => with(&[of], ["{0}", "{0}"]),
            Some(n) => fill(&[name(of), n.to_string()], ["{0} / √{1}", "{0} / \\sqrt{{1}}"]),
            // Embeddings are multiplied by √d_model.
            None if matches!(step.quantity, Quantity::TokenVectors | Quantity::Embeddings | Quantity::X) => {
                let n = factor.powi(2).round();
                fill(&[name(of), n.to_string()], ["√{1} · {0}", "\\sqrt{{1}} \\cdot {0}"])
            }
            None => fill(&[name(of), factor.to_string()], ["{1} · {0}", "{1} \\cdot {0}"]),
        },
        Operation::AddBias { of, .. } => with(&[of], ["{0} + b", "{0} + b"]),
        Operation::Mask { of, .. } => with(&[of], ["{0} + (0 | −∞)", "{0} + (0 \\mid -\\infty)"]),
        Operation::RowMax(of) => with(&[of], ["maxⱼ {0}", "\\max_j {0}"]),
        Operation::Exp { of, largest: Some(m) } => with(&[of, m], ["exp({0} − {1})", "\\exp({0} - {1})"]),
        Operation::Exp { of, largest: None } => with(&[of], ["exp({0})", "\\exp({0})"]),
        Operation::RowSums(of) => with(&[of], ["Σⱼ {0}", "\\textstyle\\sum_j {0}"]),
        Operation::DivideByRowSums { of, sums } => with(&[of, sums], ["{0} / {1}", "{0} / {1}"]),
        Operation::OneHot(of) => {
            with(&[of], ["onehot(argmaxⱼ {0})", "\\mathrm{onehot}\\left(\\arg\\max_j {0}\\right)"])
        }
        Operation::Concat(parts) => {
            let names: Vec<String> = parts.iter().map(name).collect();
            match &names[..] {
                [first, .., last] if names.len() > 2 => {
                    fill(&[first.clone(), last.clone()], ["[{0} … {1}]", "[\\,{0}\\ \\cdots\\ {1}\\,]"])
                }
                _ => fill(&[names.join(" ")], ["[{0}]", "[\\,{0}\\,]"]),
            }
        }
        Operation::RmsNorm { of, gamma, .. } => match gamma {
            Some(gamma) => with(
                &[of, gamma],
                ["{1} · {0} / √(mean({0}²) + ε)", "{1} \\odot \\frac{{0}}{\\sqrt{\\overline{{0}^2} + \\varepsilon}}"],
            ),
            None => with(&[of], ["{0} / √(mean({0}²) + ε)", "\\frac{{0}}{\\sqrt{\\overline{{0}^2} + \\varepsilon}}"]),
        },
        Operation::Pool { of, poolings } => {
            let each: Vec<[&str; 2]> = poolings
                .iter()
                .map(|pooling| match pooling {
                    Pooling::First => ["{0}(1, :)", "\\left({0}\\right)_{1,:}"],
                    Pooling::Last => ["{0}(n, :)", "\\left({0}\\right)_{n,:}"],
                    Pooling::Max => ["maxᵢ {0}", "\\max_i {0}"],
                    Pooling::MeanSqrtLength => ["Σᵢ {0} / √n", "\\textstyle\\sum_i {0}/\\sqrt{n}"],
                    Pooling::Mean => ["Σᵢ {0} / n", "\\textstyle\\sum_i {0}/n"],
                })
                .collect();
            match &each[..] {
                [one] => with(&[of], *one),
                all => {
                    let joined = |i: usize, between: &str| {
                        all.iter().map(|pooling| pooling[i]).collect::<Vec<_>>().join(between)
                    };
                    let [text, latex] = [joined(0, "; "), joined(1, ",\\ ")];
                    with(&[of], [&format!("[{text}]"), &format!("[\\,{latex}\\,]")])
                }
            }
        }
        Operation::Activation { of, activation } => with(&[of], activation_formula(*activation)),
        Operation::Tanh(of) => with(&[of], ["tanh({0})", "\\tanh({0})"]),
        Operation::StateRecurrence(before) => {
            let first = before.first[usize::from(before.is_state)].map_or("0".to_owned(), |id| name(&id));
            let letters = [first, step.kind.symbol(before.source_quantity().symbol(), "")];
            fill(&letters, ["[{0}; {1}(1…n−1, :)]", "[\\,{0};\\ \\left({1}\\right)_{1\\ldots n-1,:}\\,]"])
        }
        Operation::Gate { terms, width, is_tanh } => {
            let mut letters = Vec::new();
            let [first, second] = terms.map(|(id, from)| {
                let at = letters.len();
                letters.push(name(&id));
                if program.value(id).ncols() == *width {
                    return [format!("{{{at}}}"), format!("{{{at}}}")];
                }
                letters.extend([(from + 1).to_string(), (from + width).to_string()]);
                let (a, b) = (at + 1, at + 2);
                [
                    format!("{{{at}}}(:, {{{a}}}…{{{b}}})"),
                    format!("\\left({{{at}}}\\right)_{{:,\\,{{{a}}}\\ldots{{{b}}}}}"),
                ]
            });
            let [text, latex] = if *is_tanh { ["tanh", "\\tanh"] } else { ["σ", "\\sigma"] };
            let [text, latex] = [(text, 0), (latex, 1)].map(|(f, i)| format!("{f}({} + {})", first[i], second[i]));
            fill(&letters, [&text, &latex])
        }
        Operation::GatedSum { pairs: [[a, b], [c, d]], is_complement } => {
            let letters = [name(a), name(b), name(c), name(d)];
            match is_complement {
                true => fill(&letters, ["(1 − {0}) ∘ {1} + {2} ∘ {3}", "(1-{0})\\odot\\,{1}+{2}\\odot\\,{3}"]),
                false => fill(&letters, ["{0} ∘ {1} + {2} ∘ {3}", "{0}\\odot\\,{1}+{2}\\odot\\,{3}"]),
            }
        }
        Operation::StateGradient(later) => {
            let letter = StepKind::Gradient.symbol(later.recurrence.result_quantity().symbol(), "");
            fill(&[letter], ["[{0}(2…n, :); 0]", "[\\,\\left({0}\\right)_{2\\ldots n,:};\\ 0\\,]"])
        }
        Operation::GateGradient { gate, gradient, is_tanh } => {
            let letters = [name(gradient), name(gate)];
            match is_tanh {
                true => fill(&letters, ["{0} ∘ (1 − {1}²)", "{0}\\odot\\,(1-{{1}}^2)"]),
                false => fill(&letters, ["{0} ∘ {1} ∘ (1 − {1})", "{0}\\odot\\,{1}\\odot\\,(1-{1})"]),
            }
        }
        Operation::ComplementProduct([a, g]) => with(&[a, g], ["(1 − {0}) ∘ {1}", "(1-{0})\\odot\\,{1}"]),
        Operation::DifferenceProduct { gradient, of: [a, b] } => {
            with(&[gradient, a, b], ["{0} ∘ ({1} − {2})", "{0}\\odot\\,({1}-{2})"])
        }
        Operation::Log(of) => with(&[of], ["ln {0}", "\\ln {0}"]),
        Operation::CrossEntropy { target, logarithms } => {
            let pattern = match program.value(*target).nrows() {
                1 => ["−Σⱼ {0} {1}", "-\\textstyle\\sum_j {0} {1}"],
                _ => ["−Σᵢⱼ {0} {1} / n", "-\\textstyle\\sum_{i,j} {0} {1} / n"],
            };
            with(&[target, logarithms], pattern)
        }
        Operation::UnitLength(of) => with(&[of], ["{0} / ‖{0}‖", "{0}/\\lVert {0} \\rVert"]),
        Operation::LayerNorm { of, gamma, beta, .. } => {
            let ([before, after], mut letters) = ([gamma, beta], vec![name(of)]);
            let mut place = |id: &Option<StepId>| {
                letters.extend(id.iter().map(name));
                format!("{{{}}}", letters.len() - 1)
            };
            let (before, after) = (before.map(|_| place(before)), after.map(|_| place(after)));
            let around = |core: &str, times: &str| {
                let factor = before.as_ref().map_or(String::new(), |gamma| format!("{gamma} {times} "));
                format!("{factor}{core}{}", after.as_ref().map_or(String::new(), |beta| format!(" + {beta}")))
            };
            let text = around("({0} − μ) / √(σ² + ε)", "·");
            let latex = around("\\frac{{0} - \\mu}{\\sqrt{\\sigma^2 + \\varepsilon}}", "\\odot");
            fill(&letters, [&text, &latex])
        }
        Operation::ActivationDerivative { of, curve } => with(&[of], derivative_formula(*curve)),
        Operation::NormGradient(made) => norm_gradient_formula(program, made),
        Operation::ColumnDotProducts([a, b]) => with(&[a, b], ["Σᵢ {0} ∘ {1}", "\\textstyle\\sum_i {0}\\odot {1}"]),
        Operation::PoolingGradient { of, gradient, pooling } => {
            let pattern = match pooling {
                Pooling::First => ["{0} · [i = 1]", "{0}\\ [i = 1]"],
                Pooling::Last => ["{0} · [i = n]", "{0}\\ [i = n]"],
                _ => ["{0} · [i = argmaxᵢ {1}]", "{0}\\ [i = \\arg\\max_i {1}]"],
            };
            with(&[gradient, of], pattern)
        }
        Operation::UnitGradient { of, unit, gradient } => with(
            &[of, unit, gradient],
            [
                "({2} − {1} Σⱼ {1} ∘ {2}) / ‖{0}‖",
                "({2} - {1}\\,\\textstyle\\sum_j {1}\\odot {2}) / \\lVert {0} \\rVert",
            ],
        ),
        Operation::SoftmaxJacobian { shares, row } => fill(
            &[name(shares), (row + 1).to_string()],
            ["diag(a) − aᵀ a, a = {0}({1}, :)", "\\mathrm{diag}(a) - {a}^{\\top} a,\\ a = \\left({0}\\right)_{{1},:}"],
        ),
        Operation::Moment { before, gradient, keep, is_square } => {
            let letters = [name(gradient), format_setting(*keep), before.as_ref().map_or_else(String::new, &name)];
            let [text, latex] = match is_square {
                true => ["(1 − {1}) · {0}²", "(1 - {1})\\,({0})^2"],
                false => ["(1 − {1}) · {0}", "(1 - {1})\\,{0}"],
            };
            match before {
                Some(_) => fill(&letters, [&format!("{{1}} · {{2}} + {text}"), &format!("{{1}}\\,{{2}} + {latex}")]),
                None => fill(&letters, [text, latex]),
            }
        }
        Operation::BiasCorrection { of, keep, step } => {
            fill(&[name(of), format_setting(*keep), step.to_string()], ["{0} / (1 − {1}^{2})", "{0} / (1 - {1}^{{2}})"])
        }
        Operation::AdamUpdate { moments: [m, v], rate, epsilon } => fill(
            &[name(m), name(v), format_setting(*rate), format_setting(*epsilon)],
            ["{2} · {0} / (√{1} + {3})", "{2}\\cdot {0} / (\\sqrt{{1}} + {3})"],
        ),
        Operation::AdamWStep { of, update, rate, weight_decay } => match *weight_decay == 0.0 {
            true => with(&[of, update], ["{0} − {1}", "{0} - {1}"]),
            false => fill(
                &[name(of), name(update), format_setting(*rate), format_setting(*weight_decay)],
                ["(1 − {2} · {3}) · {0} − {1}", "(1 - {2}\\cdot {3})\\,{0} - {1}"],
            ),
        },
    })
}

/// Returns the definition of an activation, in both spellings.
fn activation_formula(activation: Activation) -> [&'static str; 2] {
    match activation {
        Activation::Relu => ["max(0, {0})", "\\max(0, {0})"],
        Activation::Gelu => [
            "gelu({0}) = {0}/2 · (1 + erf({0}/√2))",
            "\\mathrm{gelu}({0}) = \\tfrac{1}{2}{0}\\left(1 + \\mathrm{erf}({0}/\\sqrt{2})\\right)",
        ],
        Activation::GeluTanh => [
            "{0}/2 · (1 + tanh(√(2/π)({0} + 0.044715 {0}³)))",
            "\\tfrac{1}{2}{0}\\left(1 + \\tanh\\left(\\sqrt{2/\\pi}\\,({0} + 0.044715\\,{0}^3)\\right)\\right)",
        ],
        Activation::Silu => ["silu({0}) = {0} / (1 + exp(−{0}))", "\\mathrm{silu}({0}) = {0} / (1 + \\exp(-{0}))"],
        _ => ["f({0})", "f({0})"],
    }
}

/// Formats a setting; small ones as a power of ten.
fn format_setting(x: f64) -> String {
    if x != 0.0 && x.abs() < 1e-3 { format!("{x:e}") } else { x.to_string() }
}

/// Returns a derivative, in both spellings.
fn derivative_formula(curve: EntrywiseFunction) -> [&'static str; 2] {
    match curve {
        EntrywiseFunction::Tanh => ["1 − tanh²({0})", "1 - \\tanh^2({0})"],
        EntrywiseFunction::Activation(Activation::Relu) => ["[{0} > 0]", "\\left[{0} > 0\\right]"],
        EntrywiseFunction::Activation(Activation::Gelu) => {
            ["Φ({0}) + {0} · φ({0})", "\\Phi({0}) + {0}\\,\\varphi({0})"]
        }
        EntrywiseFunction::Activation(Activation::GeluTanh) => [
            "(1 + t)/2 + {0}/2 · (1 − t²) · √(2/π) · (1 + 0.134145 {0}²), t = tanh(√(2/π)({0} + 0.044715 {0}³))",
            "\\tfrac{1}{2}(1 + t) + \\tfrac{1}{2}{0}\\,(1 - t^2)\\sqrt{2/\\pi}\\,(1 + 0.134145\\,{0}^2),\\ t = \
             \\tanh\\left(\\sqrt{2/\\pi}\\,({0} + 0.044715\\,{0}^3)\\right)",
        ],
        EntrywiseFunction::Activation(Activation::Silu) => {
            ["σ({0}) · (1 + {0} · (1 − σ({0})))", "\\sigma({0})\\left(1 + {0}\\,(1 - \\sigma({0}))\\right)"]
        }
        EntrywiseFunction::Activation(_) => ["f′({0})", "f'({0})"],
    }
}

/// Returns the gradient of a normalization, in both spellings.
fn norm_gradient_formula(program: &Program, made: &NormGradient) -> FormulaTemplate {
    let NormGradient { of, plain, gamma, gradient, is_rms, .. } = made;
    let mut letters = [*of, *plain, *gradient].map(|id| program.step(id).symbol()).to_vec();
    letters.extend(gamma.map(|gamma| program.step(gamma).symbol()));
    let [g, g_latex] = if gamma.is_some() { ["{2} ∘ {3}", "{2}\\odot {3}"] } else { ["{2}"; 2] };
    let [under, under_latex] = match is_rms {
        true => ["mean({0}²) + ε", "\\overline{{0}^2} + \\varepsilon"],
        false => ["σ² + ε", "\\sigma^2 + \\varepsilon"],
    };
    let [center, center_latex] = match is_rms {
        true => [String::new(), String::new()],
        false => [format!(" − mean({g})"), format!(" - \\overline{{{g_latex}}}")],
    };
    let text = format!("({g}{center} − {{1}} · mean({g} ∘ {{1}})) / √({under})");
    let latex = format!(
        "\\frac{{{g_latex}{center_latex} - {{1}}\\,\\overline{{{g_latex}\\odot {{1}}}}}}{{\\sqrt{{{under_latex}}}}}"
    );
    FormulaTemplate::new(&letters, [&text, &latex])
}

/// Fills symbols into the templates of both spellings: `{0}` is the first symbol.
fn fill_templates(own: &str, letters: &[String], [text, latex]: [&str; 2]) -> [String; 2] {
    // In one pass, because a symbol may itself contain braces and a digit.
    let put = |pattern: &str, spelt: &dyn Fn(&str) -> String| {
        let mut done = String::new();
        let mut rest = pattern;
        while let Some(start) = rest.find('{') {
            let inside = rest.as_bytes().get(start + 1..start + 3);
            let place = match inside {
                Some([digit @ b'0'..=b'9', b'}']) => letters.get(usize::from(digit - b'0')),
                _ => None,
            };
            match place {
                Some(letter) => {
                    done.push_str(&rest[..start]);
                    done.push_str(&spelt(letter));
                    rest = &rest[start + 3..];
                }
                None => {
                    done.push_str(&rest[..=start]);
                    rest = &rest[start + 1..];
                }
            }
        }
        done + rest
    };
    let in_latex = |letter: &str| match letter.parse::<f64>() {
        Ok(_) => latex_number(letter),
        Err(_) => letter.split(' ').map(latex_symbol).collect::<Vec<_>>().join("\\ "),
    };
    [format!("{own} = {}", put(text, &str::to_owned)), format!("{} = {}", latex_symbol(own), put(latex, &in_latex))]
}
