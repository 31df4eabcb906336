//! Gradients by central differences.

/// Returns `(f(x + h e_i) − f(x − h e_i)) / 2h` for each i, in double precision.
pub fn central_difference(x: &[f64], h: f64, f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let mut x = x.to_vec();
    (0..x.len())
        .map(|i| {
            let at = x[i];
            x[i] = at + h;
            let above = f(&x);
            x[i] = at - h;
            let below = f(&x);
            x[i] = at;
            (above - below) / (2.0 * h)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn central_differences_match_a_polynomial() {
        let gradient = central_difference(&[2.0, 3.0], 1e-5, |x| x[0] * x[0] * x[1]);
        assert!((gradient[0] - 12.0).abs() < 1e-8 && (gradient[1] - 4.0).abs() < 1e-8);
    }
}
