//! Exact confidence intervals of a proportion (Clopper–Pearson).

/// ln Γ(x) for x > 0 (Lanczos 1964, with g = 7 and nine terms; relative error below 1e-13).
fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let sum = (1..9).fold(TERMS[0], |sum, i| sum + TERMS[i] / (x + i as f64));
    let t = x + 7.5;
    0.5 * std::f64::consts::TAU.ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// The regularized incomplete beta function I_x(a, b), for a, b > 0 and x from 0 to 1. It is evaluated by its continued
/// fraction (DLMF 8.17.22) with Lentz's method.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges fast below the mean.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    const TINY: f64 = 1e-300;
    let away = |x: f64| if x.abs() < TINY { TINY } else { x };
    let mut c = 1.0;
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for m in 1..100_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / away(1.0 + term * d);
            c = away(1.0 + term / c);
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0).abs() < 1e-14 {
            break;
        }
    }
    let front = a * x.ln() + b * (-x).ln_1p() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
    front.exp() * fraction / a
}

/// The confidence interval of a proportion after `successes` of `trials`. It misses the true proportion with
/// probability `level` at most, half of it on each side (Clopper and Pearson 1934).
pub(super) fn clopper_pearson(successes: usize, trials: usize, level: f64) -> [f64; 2] {
    let (k, n) = (successes as f64, trials as f64);
    let below = |share: f64, a: f64, b: f64| incomplete_beta(share, a, b);
    // Finds the argument at which a function rising from 0 to 1 reaches a value.
    let find = |value: f64, a: f64, b: f64| {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if below(middle, a, b) < value { low = middle } else { high = middle }
        }
        0.5 * (low + high)
    };
    let low = if successes == 0 { 0.0 } else { find(level / 2.0, k, n - k + 1.0) };
    let high = if successes >= trials { 1.0 } else { find(1.0 - level / 2.0, k + 1.0, n - k) };
    [low, high]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{a} for {b}");
    }

    #[test]
    fn special_functions_match_known_values() {
        close(ln_gamma(1.0), 0.0);
        close(ln_gamma(0.5), std::f64::consts::PI.ln() / 2.0);
        close(ln_gamma(11.0), 3_628_800f64.ln());
        // I_x(1, b) = 1 − (1 − x)^b, I_x(a, 1) = x^a, and I_½(a, a) = ½.
        close(incomplete_beta(0.3, 1.0, 5.0), 1.0 - 0.7f64.powi(5));
        close(incomplete_beta(0.9, 7.0, 1.0), 0.9f64.powi(7));
        close(incomplete_beta(0.5, 1234.5, 1234.5), 0.5);
        assert_eq!([0.0, 1.0].map(|x| incomplete_beta(x, 2.0, 3.0)), [0.0, 1.0]);
    }

    #[test]
    fn limits_leave_half_the_level_in_each_binomial_tail() {
        let tail = |n: i32, from: i32, p: f64| -> f64 {
            let term = |k: i32| {
                let choose: f64 = (0..k).map(|i| f64::from(n - i) / f64::from(i + 1)).product();
                choose * p.powi(k) * (1.0 - p).powi(n - k)
            };
            (from..=n).map(term).sum()
        };
        for (seen, trials) in [(1, 10), (5, 10), (9, 10), (30, 40)] {
            let [low, high] = clopper_pearson(seen, trials, 0.04);
            close(tail(trials as i32, seen as i32, low), 0.02);
            close(1.0 - tail(trials as i32, seen as i32 + 1, high), 0.02);
        }
        // None of n: 1 − (level / 2)^(1/n).
        let [low, high] = clopper_pearson(0, 20, 0.01);
        close(low, 0.0);
        close(high, 1.0 - 0.005f64.powf(0.05));
        close(clopper_pearson(20, 20, 0.01)[0], 1.0 - high);
        assert_eq!(clopper_pearson(0, 0, 0.05), [0.0, 1.0]);
        let [low, high] = clopper_pearson(500_000, 1_000_000, 0.05);
        assert!((low - 0.49902).abs() < 1e-5 && (high - 0.50098).abs() < 1e-5, "{low} {high}");
    }
}
