//! The number types, and the dispatch of an operation to the implementation for its type.

// `Element::match_dtype` and `Real::run` are private to this crate, although the traits are public.
#![allow(private_bounds, private_interfaces)]

use half::{bf16, f16};
use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

/// A floating-point type that attention reads and writes: `f32`, `bf16`, `f16`, or `f64` for verification.
///
/// Sums have the type [`Element::Sum`]: f32, or f64 for f64.
pub trait Element: sealed::Sealed + Copy + Debug + Default + PartialEq + Send + Sync + 'static {
    /// The type of sums, of the log-sum-exp, of additive masks and of their gradient.
    type Sum: Real;
    /// The name of the type.
    const NAME: &'static str;

    /// Returns the nearest value to `x`.
    fn round_from(x: f64) -> Self;
    /// Returns the value in double precision.
    fn to_f64(self) -> f64;

    /// Wraps arguments in the variant of this type. (Code outside the crate cannot name a [`DtypeDispatch`].)
    #[doc(hidden)]
    fn match_dtype<F: DtypeDispatch>(args: F::Args<'_, Self>) -> DtypeMatch<'_, F>;
}

mod sealed {
    pub(crate) trait Sealed {}
}

/// Defines the element types: type of sums, name, variant of [`DtypeMatch`], and the conversion from f64.
macro_rules! elements {
    ($($type:ident: $sum:ident, $name:literal, $variant:ident, $x:ident => $rounded:expr;)*) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            type Sum = $sum;
            const NAME: &'static str = $name;
            fn match_dtype<F: DtypeDispatch>(args: F::Args<'_, $type>) -> DtypeMatch<'_, F> {
                DtypeMatch::$variant(args)
            }
            fn round_from($x: f64) -> $type {
                $rounded
            }
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
        }
    )*};
}

elements! {
    f64: f64, "f64", F64, x => x;
    f32: f32, "f32", F32, x => x as f32;
    bf16: f32, "bf16", Bf16, x => bf16::from_f32(round_to_odd(x));
    f16: f32, "f16", F16, x => f16::from_f32(round_to_odd(x));
}

/// Converts `x` to f32. If it is not exact, the last bit is rounded to odd, so that a second rounding gives the result
/// of rounding once. (`from_f64` of the `half` crate reads only the upper half of an f64, and mistakes a value just
/// above a tie for a tie.) Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums" (2008).
fn round_to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    let bits = nearest.to_bits();
    if !nearest.is_finite() || f64::from(nearest) == x || bits & 1 == 1 {
        return nearest;
    }
    f32::from_bits(if f64::from(nearest).abs() < x.abs() { bits + 1 } else { bits - 1 })
}

/// Arguments that are dispatched by dtype, so that code generic over [`Element`] can call functions that are not
/// generic. Those are compiled as part of this crate, not in the crate of each caller.
pub(crate) trait DtypeDispatch {
    /// The type of the arguments.
    type Args<'a, T: Element>;
}

/// Arguments matched by dtype.
pub(crate) enum DtypeMatch<'a, F: DtypeDispatch> {
    F32(F::Args<'a, f32>),
    F64(F::Args<'a, f64>),
    Bf16(F::Args<'a, bf16>),
    F16(F::Args<'a, f16>),
}

/// A floating-point type that all operations support.
///
/// `f32` runs the fast implementation of each, `f64` the reference implementation of [`mod@crate::reference`].
pub trait Real:
    Element<Sum = Self>
    + Display
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + Sum
{
    /// The value 0.
    const ZERO: Self;
    /// The value 1.
    const ONE: Self;
    /// The value −∞.
    const NEG_INFINITY: Self;

    /// Computes eˣ.
    fn exp(self) -> Self;
    /// Computes the natural logarithm.
    fn ln(self) -> Self;
    /// Computes √x.
    fn sqrt(self) -> Self;
    /// Returns whether the value is neither NaN nor infinite.
    fn is_finite(self) -> bool;
    /// Returns the larger of two values; NaN if either is NaN.
    fn max(self, other: Self) -> Self {
        let is_nan = self.partial_cmp(&self).is_none();
        if self > other || is_nan { self } else { other }
    }

    /// Runs the implementation of an operation for this type. (Code outside the crate cannot name an operation.)
    #[doc(hidden)]
    fn run<V: Implementations>(args: V::Args<'_, Self>) -> V::Output<Self>;
}

/// Implements [`Real`] for a type, with the implementation that it runs.
macro_rules! reals {
    ($($type:ident: $implementation:ident;)*) => {$(
        impl Real for $type {
            const ZERO: $type = 0.0;
            const ONE: $type = 1.0;
            const NEG_INFINITY: $type = $type::NEG_INFINITY;

            fn exp(self) -> $type {
                $type::exp(self)
            }
            fn ln(self) -> $type {
                $type::ln(self)
            }
            fn sqrt(self) -> $type {
                $type::sqrt(self)
            }
            fn is_finite(self) -> bool {
                $type::is_finite(self)
            }
            fn run<V: Implementations>(args: V::Args<'_, $type>) -> V::Output<$type> {
                V::$implementation(args)
            }
        }
    )*};
}

reals! {
    f64: reference;
    f32: fast;
}

/// The fast and the reference implementation of an operation. Neither is generic, so both are compiled as part of this
/// crate, like the functions behind [`DtypeDispatch`].
pub(crate) trait Implementations {
    /// The checked arguments.
    type Args<'a, T: Real>;
    /// The result.
    type Output<T: Real>;

    /// The fast implementation: vectorized and shared among threads.
    fn fast(args: Self::Args<'_, f32>) -> Self::Output<f32>;
    /// The reference implementation: short loops.
    fn reference(args: Self::Args<'_, f64>) -> Self::Output<f64>;
}

/// Defines an operation by its arguments, and the functions for f32 and for f64.
macro_rules! implementations {
    ($(#[$docs:meta])* $name:ident<$a:lifetime, $t:ident>($($arg:ident: $type:ty),+) -> $output:ty {
        fast: $fast:expr, reference: $reference:expr $(,)?
    }) => {
        $(#[$docs])*
        struct $name;

        #[allow(clippy::redundant_closure_call, reason = "a function may be a closure")]
        impl crate::number::Implementations for $name {
            type Args<$a, $t: Real> = ($($type,)+);
            type Output<$t: Real> = $output;
            fn fast(($($arg,)+): Self::Args<'_, f32>) -> Self::Output<f32> {
                ($fast)($($arg),+)
            }
            fn reference(($($arg,)+): Self::Args<'_, f64>) -> Self::Output<f64> {
                ($reference)($($arg),+)
            }
        }
    };
}
pub(crate) use implementations;

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that `x as T` is the nearest of its neighbors to `x`, the even one at a tie.
    fn check<T: Element>(next: impl Fn(u16) -> T, bits: impl Fn(T) -> u16, x: f64) {
        let found = bits(T::round_from(x));
        for other in [found.wrapping_sub(1), found.wrapping_add(1)] {
            let (near, far) = ((next(found).to_f64() - x).abs(), (next(other).to_f64() - x).abs());
            let is_nearest = near < far || (near == far && found & 1 == 0) || far.is_nan();
            assert!(is_nearest, "{} {x:e} became {:e}, not {:e}", T::NAME, next(found).to_f64(), next(other).to_f64());
        }
    }

    #[test]
    fn f64_rounds_to_the_nearest_16_bit_float() {
        let steps = (0..2000).map(|n| 1.0 + f64::from(n) / 4096.0);
        for tie in steps.flat_map(|x| [x, -x, x * 1e-3, x * 1e-7, x * 900.0]) {
            for scale in [0.0, 1e-16, -1e-16, 1e-9, -1e-9, 1e-6, -1e-6] {
                let x = tie * (1.0 + scale);
                check(bf16::from_bits, bf16::to_bits, x);
                check(f16::from_bits, f16::to_bits, x);
            }
        }
        for x in [0.0, -0.0, f64::INFINITY, 1e300, -1e300, 1e-300] {
            assert_eq!(bf16::round_from(x).to_f64(), f64::from(x as f32));
            assert_eq!(f16::round_from(x).to_f64(), f64::from(x as f32));
        }
        assert!(bf16::round_from(f64::NAN).is_nan() && f16::round_from(f64::NAN).is_nan());
    }
}
