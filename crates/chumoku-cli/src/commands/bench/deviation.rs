//! Deviation of a result from the correct one.

use anyhow::{Result, bail};

/// Deviation of results from their expected values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deviation {
    /// Σ (found − expected)²
    squared_error: f64,
    /// Σ expected²
    squared_norm: f64,
    /// Number of values.
    count: f64,
    /// Largest |found − expected|
    max_error: f64,
}

impl Deviation {
    pub(super) fn of(found: impl IntoIterator<Item = f64>, expected: &[f64]) -> Deviation {
        found.into_iter().zip(expected).fold(Deviation::default(), |sum, (found, expected)| {
            let wrong = (found - expected).abs();
            sum.merge(Deviation {
                squared_error: wrong * wrong,
                squared_norm: expected * expected,
                count: 1.0,
                max_error: wrong,
            })
        })
    }

    /// Combines the deviations of two sets of values.
    pub(super) fn merge(self, other: Deviation) -> Deviation {
        let largest = self.max_error.max(other.max_error);
        let (wrong, size) = (self.squared_error + other.squared_error, self.squared_norm + other.squared_norm);
        Deviation { squared_error: wrong, squared_norm: size, count: self.count + other.count, max_error: largest }
    }

    /// Returns the worse of two deviations by relative error; NaN is the worst.
    pub(super) fn worse(self, other: Deviation) -> Deviation {
        let largest = self.max_error.max(other.max_error);
        let is_worse = other.relative_error().is_nan() || other.relative_error() > self.relative_error();
        Deviation { max_error: largest, ..if is_worse { other } else { self } }
    }

    /// Returns √Σ (found − expected)² / √Σ expected². If all expected values cancel (gradients of queries that see one
    /// key each are 0), returns the absolute error: the values they come from are about 1.
    pub(super) fn relative_error(&self) -> f64 {
        const CANCELLED: f64 = 1e-10;
        let size = if self.squared_norm < CANCELLED * self.count { self.count } else { self.squared_norm };
        if self.squared_error == 0.0 { 0.0 } else { (self.squared_error / size).sqrt() }
    }

    /// Returns the largest absolute error.
    pub(super) fn max_error(&self) -> f64 {
        self.max_error
    }

    /// Checks the relative error.
    ///
    /// # Errors
    pub(super) fn require(&self, allowed: f64) -> Result<()> {
        let relative = self.relative_error();
        if relative.is_nan() || relative > allowed {
            bail!(
                "{}",
                chumoku::tr!(
                    "the result is wrong: relative error {relative:.1e}, expected at most {allowed:.0e}",
                    "答えが誤っています。相対誤差は {relative:.1e} で、{allowed:.0e} 以下のはずです"
                )
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_relative_and_nan_is_the_worst() {
        let found = Deviation::of([3.0, 4.5], &[3.0, 4.0]);
        assert_eq!((found.relative_error(), found.max_error()), (0.1, 0.5));
        assert!(found.require(0.1).is_ok() && found.require(0.09).is_err());
        let right = Deviation::of([0.0], &[0.0]);
        assert_eq!(right.relative_error(), 0.0);
        assert_eq!(right.worse(found).relative_error(), 0.1);
        let broken = Deviation::of([f64::NAN], &[1.0]);
        assert!(broken.require(1.0).is_err());
        assert!(found.worse(broken).require(1.0).is_err() && broken.worse(found).require(1.0).is_err());
        assert!(Deviation::of([1000.0], &[0.0]).require(1.0).is_err());
    }
}
