//! Whole numbers that are exact, or known to be too large.

use crate::{Error, Result};
use std::iter::{Product, Sum};
use std::ops::{Add, Mul};

/// A whole number below 2¹²⁸, or nothing once a sum or product went beyond: formulas are written as on paper, and the
/// result says whether it is exact. It never wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exact(Option<u128>);

impl Exact {
    pub(super) const ZERO: Exact = Exact(Some(0));

    /// The number.
    ///
    /// # Errors
    /// If it is 2¹²⁸ or more; `what` says which number it is.
    pub(super) fn get(self, what: &'static str) -> Result<u128> {
        self.0.ok_or(Error::Uncountable(what))
    }

    /// The larger of two.
    pub(super) fn max(self, other: Exact) -> Exact {
        Exact(self.0.zip(other.0).map(|(a, b)| a.max(b)))
    }

    /// The number, or 0.
    pub(super) fn only_if(self, condition: bool) -> Exact {
        if condition { self } else { Exact::ZERO }
    }
}

impl From<usize> for Exact {
    fn from(n: usize) -> Exact {
        Exact(Some(n as u128))
    }
}

impl Add for Exact {
    type Output = Exact;

    fn add(self, other: Exact) -> Exact {
        Exact(self.0.zip(other.0).and_then(|(a, b)| a.checked_add(b)))
    }
}

impl Mul for Exact {
    type Output = Exact;

    fn mul(self, other: Exact) -> Exact {
        // What is not there costs nothing, however large it would be.
        if self == Exact::ZERO || other == Exact::ZERO {
            return Exact::ZERO;
        }
        Exact(self.0.zip(other.0).and_then(|(a, b)| a.checked_mul(b)))
    }
}

impl Sum for Exact {
    fn sum<I: Iterator<Item = Exact>>(numbers: I) -> Exact {
        numbers.fold(Exact::ZERO, Add::add)
    }
}

impl Product for Exact {
    fn product<I: Iterator<Item = Exact>>(numbers: I) -> Exact {
        numbers.fold(Exact::from(1), Mul::mul)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_or_refused() {
        let big = Exact::from(1 << 62);
        assert_eq!((big * big).get("parameters").unwrap(), 1 << 124);
        assert_eq!((big * big + Exact::from(1)).get("parameters").unwrap(), (1 << 124) + 1);
        let too_big = big * big * Exact::from(16);
        for wrong in [too_big, too_big + Exact::from(1), too_big * Exact::from(2), [big, too_big].into_iter().sum()] {
            let error = wrong.get("bytes").unwrap_err().to_string();
            assert!(error.contains("the bytes of these sizes are more than 2^128"), "{error}");
        }
        let largest = [Exact(Some(u128::MAX)), Exact::from(1)];
        assert_eq!(largest.into_iter().product::<Exact>(), largest[0]);
        assert!(largest.into_iter().sum::<Exact>().get("bytes").is_err());
        assert_eq!((big.max(Exact::from(1)), big.max(too_big)), (big, too_big));
        assert_eq!(too_big * Exact::ZERO, Exact::ZERO);
        assert_eq!((big.only_if(true), too_big.only_if(false)), (big, Exact::ZERO));
    }
}
