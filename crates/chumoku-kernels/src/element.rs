//! The number types of attention's inputs and outputs.

use crate::attention::{Forward, Gradients, Saved};
use crate::{Attention, Real, reference};
use half::{bf16, f16};
use std::fmt::Debug;

/// A floating-point type that attention reads and writes: `f32`, `bf16`, `f16`, or `f64` for checking.
///
/// Sums are kept in [`Element::Sum`]: f32, or f64 for f64.
pub trait Element: sealed::Sealed + Copy + Debug + Default + PartialEq + Send + Sync + 'static {
    /// The type of sums: of log-sum-exp, of additive masks and of their gradient.
    type Sum: Real;
    /// Its name.
    const NAME: &'static str;

    /// The nearest value to `x`.
    fn of(x: f64) -> Self;
    /// The value in double precision.
    fn to_f64(self) -> f64;

    #[doc(hidden)]
    fn attention_forward(args: &Attention<Self>, results: Forward<Self>) {
        reference::attention_forward(args, results);
    }
    #[doc(hidden)]
    fn attention_backward(args: &Attention<Self>, saved: Saved<Self>, gradients: Gradients<Self>) {
        reference::attention_backward(args, saved, gradients);
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for half::bf16 {}
    impl Sealed for half::f16 {}
}

impl Element for f64 {
    type Sum = f64;
    const NAME: &'static str = "f64";
    fn of(x: f64) -> f64 {
        x
    }
    fn to_f64(self) -> f64 {
        self
    }
}

impl Element for f32 {
    type Sum = f32;
    const NAME: &'static str = "f32";
    fn of(x: f64) -> f32 {
        x as f32
    }
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

impl Element for bf16 {
    type Sum = f32;
    const NAME: &'static str = "bf16";
    fn of(x: f64) -> bf16 {
        bf16::from_f64(x)
    }
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

impl Element for f16 {
    type Sum = f32;
    const NAME: &'static str = "f16";
    fn of(x: f64) -> f16 {
        f16::from_f64(x)
    }
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}
