//! Floating-point types of operators, and conversion between them.

use crate::tensors::Tensor;
use crate::{Error, Result};
use chumoku_kernels::{Element, bf16, f16};
use ndarray::ArrayD;
use std::borrow::Cow;

/// A floating-point type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Float {
    F32,
    F64,
    F16,
    Bf16,
}

impl Float {
    /// Returns the bytes per number.
    pub(super) fn bytes(self) -> usize {
        match self {
            Float::F64 => 8,
            Float::F32 => 4,
            Float::F16 | Float::Bf16 => 2,
        }
    }

    /// Returns the type of a tensor, if it is a floating-point type.
    pub(super) fn of(tensor: &Tensor) -> Option<Float> {
        match tensor {
            Tensor::F32(_) => Some(Float::F32),
            Tensor::F64(_) => Some(Float::F64),
            Tensor::F16(_) => Some(Float::F16),
            Tensor::Bf16(_) => Some(Float::Bf16),
            Tensor::Bool(_) | Tensor::I64(_) => None,
        }
    }
}

/// Evaluates an expression with `T` as the type that a [`FloatType`] names.
macro_rules! for_float {
    ($float:expr, $T:ident => $result:expr) => {
        match $float {
            $crate::onnx::float::Float::F32 => {
                type $T = f32;
                $result
            }
            $crate::onnx::float::Float::F64 => {
                type $T = f64;
                $result
            }
            $crate::onnx::float::Float::F16 => {
                type $T = chumoku_kernels::f16;
                $result
            }
            $crate::onnx::float::Float::Bf16 => {
                type $T = chumoku_kernels::bf16;
                $result
            }
        }
    };
}
pub(super) use for_float;

/// A floating-point type that tensors can hold.
pub(super) trait FloatElement: Element {
    const FLOAT: Float;
    /// Returns the array if the tensor is of this type.
    fn array(tensor: &Tensor) -> Option<&ArrayD<Self>>;
    fn tensor(shape: &[usize], numbers: Vec<Self>) -> Tensor;
}

macro_rules! float_elements {
    ($($number:ty => $variant:ident),*) => {$(
        impl FloatElement for $number {
            const FLOAT: Float = Float::$variant;
            fn array(tensor: &Tensor) -> Option<&ArrayD<Self>> {
                match tensor {
                    Tensor::$variant(array) => Some(array),
                    _ => None,
                }
            }
            fn tensor(shape: &[usize], numbers: Vec<Self>) -> Tensor {
                Tensor::new(shape, numbers).expect("as many numbers as the shape has")
            }
        }
    )*};
}
float_elements!(f32 => F32, f64 => F64, f16 => F16, bf16 => Bf16);

/// Returns the numbers of a tensor in row-major order. Borrows them if type and order match, otherwise copies. Integers
/// and booleans are converted; `true` becomes 1.
pub(super) fn numbers<T: FloatElement>(tensor: &Tensor) -> Cow<'_, [T]> {
    if let Some(numbers) = T::array(tensor).and_then(|array| array.as_slice()) {
        return Cow::Borrowed(numbers);
    }
    Cow::Owned(tensor.iter().map(T::round_from).collect())
}

/// Builds a tensor of type `float`, rounding the numbers if necessary.
pub(super) fn tensor<T: FloatElement>(numbers: Vec<T>, shape: &[usize], float: Float) -> Tensor {
    let tensor = T::tensor(shape, numbers);
    if float == T::FLOAT {
        return tensor;
    }
    for_float!(float, To => {
        let numbers = self::numbers::<To>(&tensor).into_owned();
        self::tensor(numbers, shape, float)
    })
}

/// Allocates zeros of a shape. The error names the result if memory does not suffice.
pub(super) fn room<T: Element>(name: &'static str, shape: &[usize]) -> Result<Vec<T>> {
    let no_memory = || {
        let problem = crate::tr!("not enough memory for shape {shape:?}", "形 {shape:?} に必要なメモリが足りません");
        Error::operator(name, problem)
    };
    let size = shape.iter().try_fold(1usize, |size, &axis| size.checked_mul(axis)).ok_or_else(no_memory)?;
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(size).map_err(|_| no_memory())?;
    numbers.resize(size, T::default());
    Ok(numbers)
}
