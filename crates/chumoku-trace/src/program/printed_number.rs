//! Printed numbers, and the intervals of values that rounding allows.

use chumoku_kernels::{Activation, activation_backward, activation_forward};
use std::fmt;

/// A number type of computations: f64 or [`Interval`].
pub(crate) trait Scalar: Copy {
    fn from_f64(x: f64) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn exp(self) -> Self;
    fn sqrt(self) -> Self;
    fn tanh(self) -> Self;
    /// The natural logarithm: −∞ for 0.
    fn ln(self) -> Self;
    /// Applies an activation.
    fn activate(self, activation: Activation) -> Self;
    /// The derivative of an activation.
    fn activation_derivative(self, activation: Activation) -> Self;
    /// The maximum; NaN if either number is.
    fn max(self, other: Self) -> Self;
    /// The square.
    fn square(self) -> Self {
        self.mul(self)
    }
    /// A share times a value: 0 for the share 0, whatever the value is.
    fn mul_share(self, value: Self) -> Self {
        if self.is_zero() { Self::from_f64(0.0) } else { self.mul(value) }
    }
    /// Returns 1 if the number at `j` is the first maximum of a row and not −∞, otherwise 0.
    fn is_argmax(row: &[Self], j: usize) -> Self {
        let visible = (0..row.len()).filter(|&j| !row[j].is_negative_infinity());
        let best = visible.reduce(|best, j| if row[j].midpoint() > row[best].midpoint() { j } else { best });
        Self::from_f64(if best == Some(j) { 1.0 } else { 0.0 })
    }
    /// Returns whether the number is certainly −∞.
    fn is_negative_infinity(self) -> bool;
    /// Returns whether the number is certainly 0.
    fn is_zero(self) -> bool;
    /// The number itself, or the midpoint of an interval.
    fn midpoint(self) -> f64;
}

impl Scalar for f64 {
    fn from_f64(x: f64) -> f64 {
        x
    }
    fn add(self, other: f64) -> f64 {
        self + other
    }
    fn sub(self, other: f64) -> f64 {
        self - other
    }
    fn mul(self, other: f64) -> f64 {
        self * other
    }
    fn div(self, other: f64) -> f64 {
        self / other
    }
    fn exp(self) -> f64 {
        f64::exp(self)
    }
    fn sqrt(self) -> f64 {
        f64::sqrt(self)
    }
    fn tanh(self) -> f64 {
        f64::tanh(self)
    }
    fn ln(self) -> f64 {
        f64::ln(self)
    }
    fn activate(self, activation: Activation) -> f64 {
        let mut y = [f64::NAN];
        activation_forward(activation, &[self], &mut y).expect("one number becomes one");
        y[0]
    }
    fn activation_derivative(self, activation: Activation) -> f64 {
        let mut slope = [f64::NAN];
        activation_backward(activation, &[self], &[1.0], &mut slope).expect("one number has one slope");
        slope[0]
    }
    fn max(self, other: f64) -> f64 {
        if self.is_nan() || self > other { self } else { other }
    }
    fn is_negative_infinity(self) -> bool {
        self == f64::NEG_INFINITY
    }
    fn is_zero(self) -> bool {
        self == 0.0
    }
    fn midpoint(self) -> f64 {
        self
    }
}

/// All numbers from `low` to `high`: the possible values of a printed number before rounding, and those of its
/// consequences. Every operation returns an interval that contains all results, and possibly more (Moore 1966).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Interval {
    pub(crate) fn around(middle: f64, half_width: f64) -> Interval {
        Interval { low: middle - half_width, high: middle + half_width }
    }

    /// Returns the smallest interval that contains this one and a number.
    pub(crate) fn extended_to(self, x: f64) -> Interval {
        Interval { low: self.low.min(x), high: self.high.max(x) }
    }

    /// Returns whether some number of the interval rounds to `printed`. NaN follows only from NaN.
    pub(crate) fn can_round_to(self, printed: &PrintedNumber) -> bool {
        let is_nan = self.low.is_nan() || self.high.is_nan();
        if is_nan || printed.value.is_nan() {
            return is_nan && printed.value.is_nan();
        }
        let room = printed.tolerance();
        printed.value >= self.low - room - rounding_error(self.low)
            && printed.value <= self.high + room + rounding_error(self.high)
    }
}

/// The rounding error of a product of f64.
fn rounding_error(x: f64) -> f64 {
    if x.is_finite() { 1e-12 * (1.0 + x.abs()) } else { 0.0 }
}

impl Scalar for Interval {
    fn from_f64(x: f64) -> Interval {
        Interval { low: x, high: x }
    }
    fn add(self, other: Interval) -> Interval {
        Interval { low: self.low + other.low, high: self.high + other.high }
    }
    fn sub(self, other: Interval) -> Interval {
        Interval { low: self.low - other.high, high: self.high - other.low }
    }
    fn mul(self, other: Interval) -> Interval {
        // An infinite end of a wide interval stands for a large number, and 0 times that is 0. Only 0 · ∞ is NaN.
        let product = |x: f64, y: f64| {
            let is_open = x.is_infinite() && self.low != self.high || y.is_infinite() && other.low != other.high;
            if is_open && (x == 0.0 || y == 0.0) { 0.0 } else { x * y }
        };
        hull([
            product(self.low, other.low),
            product(self.low, other.high),
            product(self.high, other.low),
            product(self.high, other.high),
        ])
    }
    fn div(self, other: Interval) -> Interval {
        if other.low <= 0.0 && other.high >= 0.0 && other.low != other.high {
            return Interval { low: f64::NEG_INFINITY, high: f64::INFINITY };
        }
        hull([self.low / other.low, self.low / other.high, self.high / other.low, self.high / other.high])
    }
    fn exp(self) -> Interval {
        Interval { low: self.low.exp(), high: self.high.exp() }
    }
    fn sqrt(self) -> Interval {
        Interval { low: f64::max(self.low, 0.0).sqrt(), high: self.high.sqrt() }
    }
    fn tanh(self) -> Interval {
        Interval { low: self.low.tanh(), high: self.high.tanh() }
    }
    fn ln(self) -> Interval {
        // Rounding may have moved an end below 0, which no probability can be.
        Interval { low: f64::max(self.low, 0.0).ln(), high: self.high.ln() }
    }
    fn activate(self, activation: Activation) -> Interval {
        // The activation falls to its minimum and rises from there.
        let [low, high] = [self.low, self.high].map(|x| x.activate(activation));
        let lowest = minimum_point(activation).filter(|x| (self.low..=self.high).contains(x));
        hull([low, high, lowest.map_or(low, |x| x.activate(activation)), high])
    }
    fn activation_derivative(self, activation: Activation) -> Interval {
        // The derivative is monotonic between its minimum and its maximum.
        let [low, high] = [self.low, self.high].map(|x| x.activation_derivative(activation));
        let turns = max_derivative_point(activation).map_or([f64::NAN; 2], |x| [-x, x]);
        let inner =
            turns.map(|x| if (self.low..=self.high).contains(&x) { x.activation_derivative(activation) } else { low });
        hull([low, high, inner[0], inner[1]])
    }
    fn max(self, other: Interval) -> Interval {
        Interval { low: Scalar::max(self.low, other.low), high: Scalar::max(self.high, other.high) }
    }
    fn square(self) -> Interval {
        let square = self.mul(self);
        // Both factors are the same number, so the product is never below 0.
        Interval { low: if square.low < 0.0 { 0.0 } else { square.low }, high: square.high }
    }
    fn is_argmax(row: &[Interval], j: usize) -> Interval {
        // Considers whether the number may be the first maximum, for all possible values of the others.
        let may = |j: usize| {
            let beats = |k: usize| if k < j { row[j].high > row[k].low } else { row[j].high >= row[k].low };
            !row[j].is_negative_infinity()
                && (0..row.len()).filter(|&k| k != j && !row[k].is_negative_infinity()).all(beats)
        };
        let others = (0..row.len()).filter(|&k| k != j && may(k)).count();
        match (may(j), others) {
            (false, _) => Interval::from_f64(0.0),
            (true, 0) => Interval::from_f64(1.0),
            (true, _) => Interval { low: 0.0, high: 1.0 },
        }
    }
    fn is_negative_infinity(self) -> bool {
        self.high == f64::NEG_INFINITY
    }
    fn is_zero(self) -> bool {
        self.low == 0.0 && self.high == 0.0
    }
    fn midpoint(self) -> f64 {
        (self.low + self.high) / 2.0
    }
}

/// Returns the minimum point of an activation, if it is not monotonic. An error in the last digits does not change the
/// minimum, because the curve is flat there.
///
/// x Φ(x) falls where Φ(x)/φ(x) < −x, and the left side rises with x. x σ(u(x)) falls where −x u′(x) σ(−u(x)) > 1, and
/// the left side falls as x rises to 0.
fn minimum_point(activation: Activation) -> Option<f64> {
    Some(match activation {
        Activation::Gelu => -0.751_791_524_694,
        Activation::GeluTanh => -0.752_461_422_071,
        Activation::Silu => -1.278_464_542_761,
        _ => return None,
    })
}

/// Returns the point where the derivative of an activation is largest, if there is one. The derivative is smallest at
/// the mirrored point, because f′(x) + f′(−x) = 1. An error in the last digits does not change the value.
///
/// For gelu, f″ is φ(x) (2 − x²).
fn max_derivative_point(activation: Activation) -> Option<f64> {
    Some(match activation {
        Activation::Gelu => std::f64::consts::SQRT_2,
        Activation::GeluTanh => 1.418_504_008_791,
        Activation::Silu => 2.399_357_280_515,
        _ => return None,
    })
}

fn hull(ends: [f64; 4]) -> Interval {
    if ends.iter().any(|x| x.is_nan()) {
        return Interval::from_f64(f64::NAN);
    }
    Interval {
        low: ends.into_iter().fold(f64::INFINITY, f64::min),
        high: ends.into_iter().fold(f64::NEG_INFINITY, f64::max),
    }
}

/// A number with its printed digits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PrintedNumber {
    /// The printed text.
    pub text: String,
    /// The value of the digits.
    pub value: f64,
    /// The unit of the last digit: 0.01 for `0.50`, 1 for `3`.
    pub unit: f64,
}

impl PrintedNumber {
    /// Parses a decimal number: `-1.50`, `2e-3`, `inf`, `NaN`. A typographic minus is allowed.
    ///
    /// # Errors
    /// If the text is not a number; the error states what was expected.
    pub(crate) fn parse(text: &str) -> Result<PrintedNumber, String> {
        let plain = text.trim().replace('\u{2212}', "-");
        let found = chumoku::lang::wording::quote(text);
        let fault = || {
            chumoku::tr!("expected a number such as 0.50, found {found}", "0.50 のような数値が必要ですが、{found} です")
        };
        let value: f64 = plain.parse().map_err(|_| fault())?;
        if !value.is_finite() {
            let is_named = plain.trim_start_matches(['-', '+']).chars().all(char::is_alphabetic);
            if !is_named {
                return Err(chumoku::tr!(
                    "expected a number within ±1.8e308, found {found}",
                    "±1.8e308 に収まる数値が必要ですが、{found} です"
                ));
            }
            return Ok(PrintedNumber { text: plain, value, unit: 0.0 });
        }
        let (mantissa, exponent) = plain.split_once(['e', 'E']).unwrap_or((&plain, "0"));
        let decimals = mantissa.split_once('.').map_or(0, |(_, decimals)| decimals.len() as i32);
        let exponent: i32 = exponent.parse().map_err(|_| fault())?;
        let unit = power_of_ten(exponent.saturating_sub(decimals));
        Ok(PrintedNumber { text: plain, value, unit })
    }

    /// Half a unit of the last digit, plus the rounding error of f64.
    pub(crate) fn tolerance(&self) -> f64 {
        self.unit / 2.0 * (1.0 + 1e-9) + if self.value.is_finite() { rounding_error(self.value) } else { 0.0 }
    }

    /// Returns whether `truth` rounds to the printed number: it is within half a unit of the last digit.
    pub(crate) fn agrees_with(&self, truth: f64) -> bool {
        if self.value.is_finite() && truth.is_finite() {
            return (self.value - truth).abs() <= self.tolerance();
        }
        self.value == truth || (self.value.is_nan() && truth.is_nan())
    }

    /// Returns the possible values before rounding. A whole number is usually exact: the interval contains only the
    /// number itself and the part of `source`, its expected value, that rounds to it.
    pub(crate) fn range(&self, source: Interval) -> Interval {
        if !self.value.is_finite() {
            return Interval::from_f64(self.value);
        }
        let rounded = Interval::around(self.value, self.tolerance());
        if self.unit < 1.0 {
            return rounded;
        }
        let (low, high) = (source.low.max(rounded.low), source.high.min(rounded.high));
        match low <= high {
            true => Interval { low: low.min(self.value), high: high.max(self.value) },
            false => Interval::from_f64(self.value),
        }
    }
}

/// Returns 10 to an exponent. Windows rounds negative powers of `powi` in another way.
pub(crate) fn power_of_ten(exponent: i32) -> f64 {
    let power = 10f64.powi(exponent.saturating_abs());
    if exponent < 0 { 1.0 / power } else { power }
}

impl fmt::Display for PrintedNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerance_is_half_a_unit_of_the_last_digit() {
        let number = |text: &str| PrintedNumber::parse(text).unwrap();
        assert_eq!((number("0.50").value, number("0.50").unit), (0.5, 0.01));
        assert_eq!((number(" \u{2212}3 ").value, number("-3").unit), (-3.0, 1.0));
        assert_eq!(number("1.5e-3").unit, 1e-4);
        assert_eq!(number("2E2").unit, 100.0);
        assert!(
            number("0.67").agrees_with(0.665)
                && number("0.67").agrees_with(0.675)
                && !number("0.67").agrees_with(0.6751)
        );
        assert!(number("0.5").agrees_with(0.52) && !number("0.50").agrees_with(0.52));
        assert!(
            number("-inf").agrees_with(f64::NEG_INFINITY)
                && !number("-inf").agrees_with(-1e300)
                && !number("1").agrees_with(f64::NAN)
        );
        assert!(number("nan").agrees_with(f64::NAN));
        for bad in ["", "a", "1,5", "0x1", "1e999", "--1", "1e", "."] {
            let problem = PrintedNumber::parse(bad).unwrap_err();
            assert!(problem.contains("expected a number"), "{bad}: {problem}");
        }
    }

    /// Computes erf by its series (Abramowitz and Stegun 7.1.5), for numbers around 0.
    fn erf(x: f64) -> f64 {
        let mut power = x;
        let mut sum = 0.0;
        for n in 0..200 {
            sum += power / f64::from(2 * n + 1);
            power *= -x * x / f64::from(n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    }

    #[test]
    fn activations_of_intervals_reach_their_minimum() {
        let wide = Interval { low: -3.0, high: 1.0 };
        let cases = [
            (Activation::Relu, 0.0, 1.0),
            (Activation::Gelu, -0.169_971_207_48, 0.841_344_746_07),
            (Activation::GeluTanh, -0.170_040_750_57, 0.841_191_990_61),
            (Activation::Silu, -0.278_464_542_76, 0.731_058_578_63),
        ];
        for (activation, low, high) in cases {
            let found = wide.activate(activation);
            assert!((found.low - low).abs() < 1e-10 && (found.high - high).abs() < 1e-10, "{activation:?}: {found:?}");
            // On one side of the minimum, the ends of the interval map to the ends of the result.
            for side in [Interval { low: -3.0, high: -2.0 }, Interval { low: 0.5, high: 1.0 }] {
                let found = side.activate(activation);
                let mut ends = [side.low, side.high].map(|x| x.activate(activation));
                ends.sort_by(f64::total_cmp);
                assert_eq!([found.low, found.high], ends, "{activation:?}");
            }
            let open = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY }.activate(activation);
            assert!((open.low - low).abs() < 1e-10 && open.high == f64::INFINITY, "{activation:?}: {open:?}");
            assert!(Interval::from_f64(f64::NAN).activate(activation).low.is_nan());
        }
    }

    #[test]
    fn derivatives_of_intervals_reach_their_extremes() {
        for activation in [Activation::Gelu, Activation::GeluTanh, Activation::Silu] {
            let found = Interval { low: -6.0, high: 5.0 }.activation_derivative(activation);
            let all = (-60_000..=50_000).map(|i| (f64::from(i) / 10_000.0).activation_derivative(activation));
            let [low, high] = all.fold([0.0, 0.0], |[low, high]: [f64; 2], x| [low.min(x), high.max(x)]);
            assert!(found.low <= low && low - found.low < 1e-8, "{activation:?}: {found:?} {low}");
            assert!(found.high >= high && found.high - high < 1e-8, "{activation:?}: {found:?} {high}");
            let part = Interval { low: -1.0, high: 1.0 }.activation_derivative(activation);
            assert_eq!(
                [part.low, part.high],
                [-1.0, 1.0].map(|x: f64| x.activation_derivative(activation)),
                "{activation:?}"
            );
        }
        assert_eq!(
            Interval { low: -1.0, high: 1.0 }.activation_derivative(Activation::Relu),
            Interval { low: 0.0, high: 1.0 }
        );
    }

    #[test]
    fn intervals_contain_all_results() {
        let random = chumoku_kernels::Philox::new(3, 5);
        let mut count = 0;
        let mut next = || {
            count += 1;
            f64::from(random.uniform(count)) * 4.0 - 2.0
        };
        for _ in 0..2_000 {
            let [x, y, wx, wy] = [next(), next(), next().abs() / 9.0, next().abs() / 9.0];
            let [a, b] = [Interval::around(x, wx), Interval::around(y, wy)];
            let [p, q] = [x + wx * next() / 2.0, y + wy * next() / 2.0];
            let all = [
                (a.add(b), p + q),
                (a.sub(b), p - q),
                (a.mul(b), p * q),
                (a.div(b), p / q),
                (a.exp(), p.exp()),
                (a.tanh(), p.tanh()),
                (a.exp().ln(), p),
                (a.activate(Activation::Relu), p.max(0.0)),
                (a.activate(Activation::Gelu), p * (1.0 + erf(p / 2f64.sqrt())) / 2.0),
                (a.activate(Activation::GeluTanh), {
                    p / 2.0 * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (p + 0.044715 * p * p * p)).tanh())
                }),
                (a.activate(Activation::Silu), p / (1.0 + (-p).exp())),
                (a.activation_derivative(Activation::Relu), f64::from(p > 0.0)),
                (a.activation_derivative(Activation::Gelu), p.activation_derivative(Activation::Gelu)),
                (a.activation_derivative(Activation::GeluTanh), p.activation_derivative(Activation::GeluTanh)),
                (a.activation_derivative(Activation::Silu), p.activation_derivative(Activation::Silu)),
                (Scalar::max(a, b), p.max(q)),
            ];
            for (k, (interval, inner)) in all.into_iter().enumerate() {
                let room = rounding_error(inner);
                assert!(interval.low - room <= inner && inner <= interval.high + room, "{k}: {interval:?} {inner}");
            }
        }
        assert_eq!(Interval { low: -1.0, high: 2.0 }.square(), Interval { low: 0.0, high: 4.0 });
        // If two numbers may both be the maximum, each may be it; among equal ones it is the first.
        let row = [
            Interval::around(1.0, 0.1),
            Interval::around(1.1, 0.1),
            Interval::from_f64(0.5),
            Interval::from_f64(f64::NEG_INFINITY),
        ];
        let largest: Vec<Interval> = (0..4).map(|j| Interval::is_argmax(&row, j)).collect();
        let maybe = Interval { low: 0.0, high: 1.0 };
        assert_eq!(largest, [maybe, maybe, Interval::from_f64(0.0), Interval::from_f64(0.0)]);
        let equal = [Interval::from_f64(1.0); 2];
        assert_eq!([0, 1].map(|j| Interval::is_argmax(&equal, j)), [1.0, 0.0].map(Interval::from_f64));
        assert!(Interval { low: 0.4, high: 0.6 }.can_round_to(&PrintedNumber::parse("1").unwrap()));
        assert!(!Interval { low: 0.4, high: 0.49 }.can_round_to(&PrintedNumber::parse("1").unwrap()));
    }

    #[test]
    fn only_nan_rounds_to_nan() {
        let [nan, one, infinite] = ["nan", "1", "inf"].map(|text| PrintedNumber::parse(text).unwrap());
        let open = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY };
        for range in [Interval::from_f64(1.0), open, Interval::from_f64(f64::INFINITY)] {
            assert!(!range.can_round_to(&nan), "{range:?}");
        }
        let not_a_number = Interval::from_f64(f64::NAN);
        assert!(not_a_number.can_round_to(&nan) && !not_a_number.can_round_to(&one));
        assert!(!not_a_number.can_round_to(&infinite));
        // An unknown number times 0 is 0, but an infinite one is NaN.
        let zero = Interval::from_f64(0.0);
        assert_eq!(open.mul(zero), zero);
        assert_eq!(zero.mul(open), zero);
        assert!(Interval::from_f64(f64::INFINITY).mul(zero).low.is_nan());
        assert_eq!(open.mul(Interval { low: 0.0, high: 1.0 }), open);
    }

    #[test]
    fn whole_numbers_are_treated_as_exact() {
        let range = |text: &str, truth| PrintedNumber::parse(text).unwrap().range(Interval::from_f64(truth));
        assert_eq!(range("2", 5.0), Interval::from_f64(2.0));
        assert_eq!(range("2", 2.25), Interval { low: 2.0, high: 2.25 });
        let of_interval = PrintedNumber::parse("2").unwrap().range(Interval { low: 2.25, high: 2.375 });
        assert_eq!(of_interval, Interval { low: 2.0, high: 2.375 });
        let rounded = range("0.50", 9.0);
        assert!((rounded.low - 0.495).abs() < 1e-6 && (rounded.high - 0.505).abs() < 1e-6);
    }
}
