//! Comparison of arrays: NaN, infinities and lengths first, then the worst element.

/// The maximum deviation from expected numbers: `absolute + relative · size`. The size is the largest expected
/// magnitude of the whole array, because errors of sums scale with that and not with each element.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Share of the array's largest magnitude.
    pub relative: f64,
    /// Allowed at any magnitude.
    pub absolute: f64,
}

impl Tolerance {
    /// Builds a tolerance relative to the array's largest magnitude only.
    pub fn relative(relative: f64) -> Self {
        Tolerance { relative, absolute: 0.0 }
    }
}

/// Compares `found` with `expected`; the error names the worst element.
///
/// Infinities and NaN in `expected` require the same in `found` (any NaN matches NaN). Elsewhere they are errors.
///
/// # Errors
/// A description of what differs.
pub fn compare<T: Copy + Into<f64>>(
    name: &str,
    found: &[T],
    expected: &[f64],
    tolerance: Tolerance,
) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("{name}: expected {} values, got {}", expected.len(), found.len()));
    }
    let size = expected.iter().filter(|x| x.is_finite()).fold(0.0f64, |size, x| size.max(x.abs()));
    let allowed = tolerance.absolute + tolerance.relative * size;
    let mut worst: Option<(usize, f64)> = None;
    for (i, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let found: f64 = found.into();
        let alike = found == expected || (found.is_nan() && expected.is_nan());
        if !alike && (!found.is_finite() || !expected.is_finite()) {
            return Err(format!("{name}[{i}]: expected {expected}, got {found}"));
        }
        let error = if alike { 0.0 } else { (found - expected).abs() };
        if worst.is_none_or(|(_, worst)| error > worst) {
            worst = Some((i, error));
        }
    }
    match worst {
        Some((i, error)) if error > allowed || error.is_nan() => {
            let found: f64 = found[i].into();
            Err(format!("{name}[{i}]: expected {}, got {found}: off by {error:e}, allowed {allowed:e}", expected[i]))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Tolerance = Tolerance { relative: 1e-6, absolute: 1e-9 };

    #[test]
    fn accepts_close_values() {
        compare("x", &[1.0f32, 0.0, -2.0], &[1.000_000_1, 0.0, -2.0], NEAR).unwrap();
        compare("x", &[] as &[f32], &[], NEAR).unwrap();
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        compare("x", &odd, &odd, NEAR).unwrap();
    }

    #[test]
    fn rejects_distant_values_and_other_lengths() {
        let bad: [(&[f64], &[f64]); 10] = [
            (&[1000.0], &[0.0]),
            (&[0.0], &[1000.0]),
            (&[f64::NAN], &[0.0]),
            (&[0.0], &[f64::NAN]),
            (&[f64::INFINITY], &[1.0]),
            (&[1.0], &[f64::INFINITY]),
            (&[f64::NEG_INFINITY], &[f64::INFINITY]),
            (&[1.0], &[1.0, 2.0]),
            (&[1.0, 2.0], &[1.0]),
            (&[1.0, 2.1, f64::NAN], &[1.0, 2.0, 3.0]),
        ];
        for (found, expected) in bad {
            assert!(compare("x", found, expected, NEAR).is_err(), "{found:?} passed for {expected:?}");
        }
    }

    #[test]
    fn names_the_worst_element() {
        let message = compare("dq", &[1.0, 2.5, 3.1], &[1.0, 2.0, 3.0], NEAR).unwrap_err();
        assert!(message.starts_with("dq[1]: expected 2, got 2.5"), "{message}");
    }
}
