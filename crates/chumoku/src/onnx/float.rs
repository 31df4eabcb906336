//! The floating-point types of operators, and tensors of one as numbers of another.

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
    /// Bytes of a number.
    pub(super) fn bytes(self) -> usize {
        match self {
            Float::F64 => 8,
            Float::F32 => 4,
            Float::F16 | Float::Bf16 => 2,
        }
    }

    /// The type of a tensor, if it is one.
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

/// The same expression with `T` as the type that a [`Float`] names.
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

/// A number type that tensors can hold.
pub(super) trait FloatElement: Element {
    const FLOAT: Float;
    /// The array, if the tensor is of this type.
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

/// The numbers of a tensor in row-major order: its own if it has this type and order, else copies. What is not floating
/// point becomes 0 or 1, or the nearest number.
pub(super) fn numbers<T: FloatElement>(tensor: &Tensor) -> Cow<'_, [T]> {
    if let Some(numbers) = T::array(tensor).and_then(|array| array.as_slice()) {
        return Cow::Borrowed(numbers);
    }
    Cow::Owned(tensor.iter().map(T::round_from).collect())
}

/// Numbers as a tensor of a type, rounded to it if it is another.
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

/// Zeros of a shape; an error that names the result if there is no memory for them.
pub(super) fn room<T: Element>(name: &'static str, shape: &[usize]) -> Result<Vec<T>> {
    let no_memory = || {
        let problem =
            crate::tr!("there is no memory for its shape {shape:?}", "形 {shape:?} のためのメモリがありません");
        Error::operator(name, problem)
    };
    let size = shape.iter().try_fold(1usize, |size, &axis| size.checked_mul(axis)).ok_or_else(no_memory)?;
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(size).map_err(|_| no_memory())?;
    numbers.resize(size, T::default());
    Ok(numbers)
}
