//! The `.safetensors` format, through the crate of that name.

use super::{NumberType, Tensor, TensorFault, TensorFile, to_little_endian};
use crate::tr;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use std::io::{self, Write};

pub(super) fn parse(bytes: &[u8]) -> Result<TensorFile, TensorFault> {
    let damaged = |error: safetensors::SafeTensorError| TensorFault::Damaged(error.to_string());
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
    let metadata = header.metadata().iter().flatten().map(|(key, text)| (key.clone(), text.clone())).collect();
    let mut file = TensorFile { metadata, ..TensorFile::default() };
    for (name, view) in SafeTensors::deserialize(bytes).map_err(damaged)?.iter() {
        let number = match view.dtype() {
            Dtype::F32 => NumberType::F32,
            Dtype::F64 => NumberType::F64,
            Dtype::F16 => NumberType::F16,
            Dtype::BF16 => NumberType::Bf16,
            Dtype::BOOL => NumberType::Bool,
            Dtype::I8 => NumberType::Signed(1),
            Dtype::I16 => NumberType::Signed(2),
            Dtype::I32 => NumberType::Signed(4),
            Dtype::I64 => NumberType::Signed(8),
            Dtype::U8 => NumberType::Unsigned(1),
            Dtype::U16 => NumberType::Unsigned(2),
            Dtype::U32 => NumberType::Unsigned(4),
            Dtype::U64 => NumberType::Unsigned(8),
            other => {
                let problem = tr!(
                    "expected f32, f64, f16, bf16, bool or whole numbers, got {other:?}",
                    "f32、f64、f16、bf16、bool、整数のいずれかが必要ですが、{other:?} です"
                );
                return Err(TensorFault::Tensor(name.to_owned(), problem));
            }
        };
        let array = number.array(view.shape(), view.data());
        file.tensors.insert(name.to_owned(), array.map_err(|problem| TensorFault::Tensor(name.to_owned(), problem))?);
    }
    Ok(file)
}

pub(super) fn write(file: &TensorFile, out: &mut impl Write) -> io::Result<()> {
    let dtype = |tensor: &Tensor| match tensor {
        Tensor::F32(_) => Dtype::F32,
        Tensor::F64(_) => Dtype::F64,
        Tensor::F16(_) => Dtype::F16,
        Tensor::Bf16(_) => Dtype::BF16,
        Tensor::Bool(_) => Dtype::BOOL,
        Tensor::I64(_) => Dtype::I64,
    };
    let bytes: Vec<Vec<u8>> = file.tensors.values().map(to_little_endian).collect();
    let views = file.tensors.iter().zip(&bytes).map(|((name, tensor), bytes)| {
        let view = TensorView::new(dtype(tensor), tensor.shape().to_vec(), bytes);
        (name, view.expect("bytes of as many numbers"))
    });
    let metadata = (!file.metadata.is_empty()).then(|| file.metadata.clone().into_iter().collect());
    out.write_all(&safetensors::serialize(views, metadata).map_err(io::Error::other)?)
}
