//! Floating-point types of operators, and conversion between them.

use crate::tensors::Tensor;
use crate::{Error, Result};
use chumoku_kernels::{Element, bf16, f16};
use ndarray::ArrayD;
use std::borrow::Cow;

/// A floating-point type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FloatType {
    F32,
    F64,
    F16,
    Bf16,
}

impl FloatType {
    /// Returns the bytes per number.
    pub(super) fn bytes(self) -> usize {
        match self {
            FloatType::F64 => 8,
            FloatType::F32 => 4,
            FloatType::F16 | FloatType::Bf16 => 2,
        }
    }

    /// Returns the type of a tensor, if it is a floating-point type.
    pub(super) fn of(tensor: &Tensor) -> Option<FloatType> {
        match tensor {
            Tensor::F32(_) => Some(FloatType::F32),
            Tensor::F64(_) => Some(FloatType::F64),
            Tensor::F16(_) => Some(FloatType::F16),
            Tensor::Bf16(_) => Some(FloatType::Bf16),
            Tensor::Bool(_) | Tensor::I64(_) => None,
        }
    }
}

/// Evaluates an expression with `T` as the type that a [`FloatType`] names.
macro_rules! for_float {
    ($float:expr, $T:ident => $result:expr) => {
        match $float {
            $crate::onnx::float::FloatType::F32 => {
                type $T = f32;
                $result
            }
            $crate::onnx::float::FloatType::F64 => {
                type $T = f64;
                $result
            }
            $crate::onnx::float::FloatType::F16 => {
                type $T = chumoku_kernels::f16;
                $result
            }
            $crate::onnx::float::FloatType::Bf16 => {
                type $T = chumoku_kernels::bf16;
                $result
            }
        }
    };
}
pub(super) use for_float;

/// A floating-point type that tensors can hold.
pub(super) trait FloatElement: Element {
    const FLOAT: FloatType;
    /// Returns the array if the tensor is of this type.
    fn array(tensor: &Tensor) -> Option<&ArrayD<Self>>;
    fn tensor(shape: &[usize], numbers: Vec<Self>) -> Tensor;
}

macro_rules! float_elements {
    ($($number:ty => $variant:ident),*) => {$(
        impl FloatElement for $number {
            const FLOAT: FloatType = FloatType::$variant;
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
pub(super) fn values<T: FloatElement>(tensor: &Tensor) -> Cow<'_, [T]> {
    if let Some(numbers) = T::array(tensor).and_then(|array| array.as_slice()) {
        return Cow::Borrowed(numbers);
    }
    Cow::Owned(tensor.iter().map(T::round_from).collect())
}

/// Builds a tensor of type `float`, rounding the numbers if necessary.
pub(super) fn tensor<T: FloatElement>(numbers: Vec<T>, shape: &[usize], float: FloatType) -> Tensor {
    let tensor = T::tensor(shape, numbers);
    if float == T::FLOAT {
        return tensor;
    }
    for_float!(float, To => {
        let numbers = self::values::<To>(&tensor).into_owned();
        self::tensor(numbers, shape, float)
    })
}

/// Allocates zeros of a shape. The error names the result if memory does not suffice.
pub(super) fn zero_vec<T: Element>(name: &'static str, shape: &[usize]) -> Result<Vec<T>> {
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
