//! Checked integer arithmetic for the cost formulas.

use crate::{Error, Result};
use std::iter::{Product, Sum};
use std::ops::{Add, Mul};

/// A whole number below 2¹²⁸, or `None` after an overflow. Formulas read as on paper, and the result is either exact or
/// an error; it never wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CheckedU128(Option<u128>);

impl CheckedU128 {
    pub(super) const ZERO: CheckedU128 = CheckedU128(Some(0));

    /// Returns the number.
    ///
    /// # Errors
    /// If it is 2¹²⁸ or more; `what` names the number.
    pub(super) fn get(self, what: &'static str) -> Result<u128> {
        self.0.ok_or(Error::CountOverflow(what))
    }

    /// The larger of two numbers.
    pub(super) fn max(self, other: CheckedU128) -> CheckedU128 {
        CheckedU128(self.0.zip(other.0).map(|(a, b)| a.max(b)))
    }

    /// Returns the number if the condition holds, else 0.
    pub(super) fn only_if(self, condition: bool) -> CheckedU128 {
        if condition { self } else { CheckedU128::ZERO }
    }
}

impl From<usize> for CheckedU128 {
    fn from(n: usize) -> CheckedU128 {
        CheckedU128(Some(n as u128))
    }
}

impl Add for CheckedU128 {
    type Output = CheckedU128;

    fn add(self, other: CheckedU128) -> CheckedU128 {
        CheckedU128(self.0.zip(other.0).and_then(|(a, b)| a.checked_add(b)))
    }
}

impl Mul for CheckedU128 {
    type Output = CheckedU128;

    fn mul(self, other: CheckedU128) -> CheckedU128 {
        // An absent part costs nothing, however large its other factor is.
        if self == CheckedU128::ZERO || other == CheckedU128::ZERO {
            return CheckedU128::ZERO;
        }
        CheckedU128(self.0.zip(other.0).and_then(|(a, b)| a.checked_mul(b)))
    }
}

impl Sum for CheckedU128 {
    fn sum<I: Iterator<Item = CheckedU128>>(numbers: I) -> CheckedU128 {
        numbers.fold(CheckedU128::ZERO, Add::add)
    }
}

impl Product for CheckedU128 {
    fn product<I: Iterator<Item = CheckedU128>>(numbers: I) -> CheckedU128 {
        numbers.fold(CheckedU128::from(1), Mul::mul)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_or_errors() {
        let big = CheckedU128::from(1 << 62);
        assert_eq!((big * big).get("parameters").unwrap(), 1 << 124);
        assert_eq!((big * big + CheckedU128::from(1)).get("parameters").unwrap(), (1 << 124) + 1);
        let too_big = big * big * CheckedU128::from(16);
        for wrong in
            [too_big, too_big + CheckedU128::from(1), too_big * CheckedU128::from(2), [big, too_big].into_iter().sum()]
        {
            let error = wrong.get("bytes").unwrap_err().to_string();
            assert!(error.contains("the bytes of these sizes are more than 2^128"), "{error}");
        }
        let largest = [CheckedU128(Some(u128::MAX)), CheckedU128::from(1)];
        assert_eq!(largest.into_iter().product::<CheckedU128>(), largest[0]);
        assert!(largest.into_iter().sum::<CheckedU128>().get("bytes").is_err());
        assert_eq!((big.max(CheckedU128::from(1)), big.max(too_big)), (big, too_big));
        assert_eq!(too_big * CheckedU128::ZERO, CheckedU128::ZERO);
        assert_eq!((big.only_if(true), too_big.only_if(false)), (big, CheckedU128::ZERO));
    }
}
