//! Reads and writes files of named arrays: `.safetensors`, and NumPy's `.npz`.
//!
//! Reading arbitrary bytes returns arrays or an error, and takes memory in proportion to their size.
//!
//! # Files
//!
//! - `npy`: NumPy's `.npy`
//! - `npz`: NumPy's `.npz`
//! - `safetensors`: `.safetensors`

use crate::lang::{action as doing_of, lang, system_message};

mod npy;
mod npz;
mod safetensors;
#[cfg(test)]
mod tests;

use crate::data::DataError;
use crate::output::{AtomicOutput, InputFiles};
use crate::tr;
use chumoku_kernels::{bf16, f16};
use ndarray::{ArrayD, IxDyn};
use std::collections::BTreeMap;
use std::io::{self, Write};
pub use std::path::{Path, PathBuf};

/// An array whose type is known only at run time.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the types say it")]
pub enum Tensor {
    F32(ArrayD<f32>),
    F64(ArrayD<f64>),
    F16(ArrayD<f16>),
    Bf16(ArrayD<bf16>),
    Bool(ArrayD<bool>),
    /// Integers of any width.
    I64(ArrayD<i64>),
}

/// Evaluates the same expression for an array of any type.
macro_rules! for_any {
    ($tensor:expr, $array:ident => $result:expr) => {
        match $tensor {
            Tensor::F32($array) => $result,
            Tensor::F64($array) => $result,
            Tensor::F16($array) => $result,
            Tensor::Bf16($array) => $result,
            Tensor::Bool($array) => $result,
            Tensor::I64($array) => $result,
        }
    };
}
use for_any;

impl Tensor {
    /// Returns the bytes of an `.npy` file. bf16, which NumPy lacks, is written as two raw bytes per number.
    pub fn to_npy(&self) -> Vec<u8> {
        npy::serialize(self)
    }

    /// Creates an array from numbers in row-major order.
    ///
    /// # Errors
    /// If the shape does not match the number of values.
    pub fn new<T>(shape: &[usize], numbers: Vec<T>) -> Result<Self, ndarray::ShapeError>
    where
        Tensor: From<ArrayD<T>>,
    {
        ArrayD::from_shape_vec(IxDyn(shape), numbers).map(Tensor::from)
    }

    /// Iterates over the numbers in row-major order, in f64. `true` becomes 1, and integers beyond 2⁵³ are rounded.
    pub fn iter(&self) -> Box<dyn Iterator<Item = f64> + '_> {
        match self {
            Tensor::F32(array) => Box::new(array.iter().map(|&x| f64::from(x))),
            Tensor::F64(array) => Box::new(array.iter().copied()),
            Tensor::F16(array) => Box::new(array.iter().map(|&x| f64::from(x))),
            Tensor::Bf16(array) => Box::new(array.iter().map(|&x| f64::from(x))),
            Tensor::Bool(array) => Box::new(array.iter().map(|&x| f64::from(u8::from(x)))),
            Tensor::I64(array) => Box::new(array.iter().map(|&x| x as f64)),
        }
    }

    /// Returns the lengths of the axes.
    pub fn shape(&self) -> &[usize] {
        for_any!(self, array => array.shape())
    }

    /// Returns the name of the element type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Tensor::F32(_) => "f32",
            Tensor::F64(_) => "f64",
            Tensor::F16(_) => "f16",
            Tensor::Bf16(_) => "bf16",
            Tensor::Bool(_) => "bool",
            Tensor::I64(_) => lang().pick("whole numbers", "整数"),
        }
    }

    /// Describes type, shape and values: `f32 (2, 3, 4, 8), -0.8100 to 0.9300, mean 0.0400`.
    pub fn summary(&self) -> String {
        let axes: Vec<String> = self.shape().iter().map(ToString::to_string).collect();
        let mut summary = format!("{} ({})", self.type_name(), axes.join(", "));
        let (mut least, mut largest, mut sum, mut finite, mut others) =
            (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0u64, 0u64);
        for x in self.iter() {
            if x.is_finite() {
                (least, largest, sum, finite) = (least.min(x), largest.max(x), sum + x, finite + 1);
            } else {
                others += 1;
            }
        }
        if finite > 0 {
            let mean = sum / finite as f64;
            summary.push_str(&tr!(
                ", {least:.4} to {largest:.4}, mean {mean:.4}",
                "、{least:.4} から {largest:.4}、平均 {mean:.4}"
            ));
        }
        if others > 0 {
            summary.push_str(&tr!(", {others} not finite", "、有限でない数 {others} 個"));
        }
        summary
    }
}

macro_rules! from_arrays {
    ($($number:ty => $variant:ident),*) => {$(
        impl From<ArrayD<$number>> for Tensor {
            fn from(array: ArrayD<$number>) -> Tensor {
                Tensor::$variant(array)
            }
        }
    )*};
}
from_arrays!(f32 => F32, f64 => F64, f16 => F16, bf16 => Bf16, bool => Bool, i64 => I64);

/// The contents of a file of tensors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TensorFile {
    /// The arrays, by name.
    pub tensors: BTreeMap<String, Tensor>,
    /// Metadata entries; `.npz` has none.
    pub metadata: BTreeMap<String, String>,
}

/// An error of a file of tensors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The file could not be read.
    #[error("{}", tr!("{}: {}: {}", "{}: {}に失敗しました: {}", path.display(), doing_of(doing), system_message(source)))]
    Io {
        /// The file.
        path: PathBuf,
        /// The failed operation.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The file name has another extension.
    #[error("{}", tr!("{}: expected a name that ends in .safetensors or .npz", "{}: .safetensors か .npz で終わる名前が必要です", path.display()))]
    Ending {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged or has another format than its name says.
    #[error("{}", tr!("{}: reading {format}: {problem}; write or download the file again", "{}: {format} を読めません。{problem}。ファイルを書き出すかダウンロードし直してください", path.display()))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The format that the name says.
        format: &'static str,
        /// The expected and the actual content.
        problem: String,
    },
    /// A tensor of the file cannot be used.
    #[error("{}", tr!("{}: tensor “{name}”: {problem}", "{}: テンソル “{name}”: {problem}", path.display()))]
    Tensor {
        /// The file.
        path: PathBuf,
        /// Name of the tensor, safe to print.
        name: String,
        /// The expected and the actual content, and what to do.
        problem: String,
    },
    /// The output file could not be written.
    #[error(transparent)]
    Output(Box<DataError>),
}

impl TensorError {
    /// Returns the system's error, if there is one.
    pub(crate) fn system(&self) -> Option<&io::Error> {
        match self {
            TensorError::Io { source, .. } => Some(source),
            TensorError::Output(error) => error.system_error(),
            _ => None,
        }
    }

    /// Returns whether the input or the usage is at fault (exit code 2) rather than the system (exit code 1); see
    /// [`Error::is_usage`](crate::Error::is_usage).
    pub(crate) fn is_usage(&self) -> bool {
        match self {
            TensorError::Output(error) => error.is_usage(),
            _ => true,
        }
    }
}

impl From<DataError> for TensorError {
    fn from(error: DataError) -> Self {
        TensorError::Output(Box::new(error))
    }
}

/// A file format for tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorFormat {
    /// Hugging Face's safetensors.
    Safetensors,
    /// NumPy's zip archive of arrays.
    Npz,
}

impl TensorFormat {
    /// Detects the format from the file extension.
    ///
    /// # Errors
    /// If it is neither `.safetensors` nor `.npz`.
    pub fn from_path(path: &Path) -> Result<Self, TensorError> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        match ending.as_deref() {
            Some("safetensors") => Ok(TensorFormat::Safetensors),
            Some("npz") => Ok(TensorFormat::Npz),
            _ => Err(TensorError::Ending { path: path.to_owned() }),
        }
    }

    /// Checks that this format supports the type of a tensor. `path` and `name` are for the message.
    ///
    /// # Errors
    /// If it does not: NumPy has no bf16.
    pub fn check_type(self, path: &Path, name: &str, tensor: &Tensor) -> Result<(), TensorError> {
        if self == TensorFormat::Npz && matches!(tensor, Tensor::Bf16(_)) {
            let problem = tr!(
                "NumPy has no type for bf16; write a .safetensors file instead",
                "bf16 です。NumPy にはこの型がないので、.safetensors に書き出してください"
            );
            return Err(TensorError::Tensor { path: path.to_owned(), name: name.to_owned(), problem });
        }
        Ok(())
    }
}

/// A fault inside a file. The caller adds the path.
#[derive(Debug)]
enum TensorFault {
    Damaged(String),
    Tensor(String, String),
}

impl TensorFile {
    /// Reads the tensors of a file.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or has a tensor of a type that [`Tensor`] lacks.
    pub fn read(path: &Path) -> Result<Self, TensorError> {
        let format = TensorFormat::from_path(path)?;
        let io = |source| TensorError::Io { path: path.to_owned(), doing: "reading the tensors", source };
        TensorFile::parse(path, format, &std::fs::read(path).map_err(io)?)
    }

    /// Parses the bytes of a file; `path` is for messages.
    ///
    /// # Errors
    /// As for [`TensorFile::read`].
    pub fn parse(path: &Path, format: TensorFormat, bytes: &[u8]) -> Result<Self, TensorError> {
        let (result, name) = match format {
            TensorFormat::Safetensors => (safetensors::parse(bytes), "safetensors"),
            TensorFormat::Npz => (npz::parse(bytes), ".npz"),
        };
        result.map_err(|fault| match fault {
            TensorFault::Damaged(problem) => TensorError::Damaged { path: path.to_owned(), format: name, problem },
            TensorFault::Tensor(name, problem) => {
                TensorError::Tensor { path: path.to_owned(), name: crate::lang::show_controls(&name), problem }
            }
        })
    }

    /// Returns the bytes of a `.safetensors` file.
    pub fn to_safetensors(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        safetensors::write(self, &mut bytes).expect("memory can be written to");
        bytes
    }

    /// Writes the file atomically. `inputs` are the files that the program reads.
    ///
    /// # Errors
    /// If the format does not support a type or metadata, if the file is one of `inputs`, or on a system error.
    pub fn write(&self, path: &Path, inputs: &InputFiles) -> Result<(), TensorError> {
        let format = TensorFormat::from_path(path)?;
        for (name, tensor) in &self.tensors {
            format.check_type(path, name, tensor)?;
        }
        let mut file = AtomicOutput::create(path, inputs)?;
        let written = match format {
            TensorFormat::Safetensors => safetensors::write(self, &mut file),
            TensorFormat::Npz => npz::write(self, &mut file),
        };
        written.and_then(|()| file.flush()).map_err(|source| DataError::Output {
            path: path.to_owned(),
            doing: "writing the tensors",
            source,
        })?;
        Ok(file.commit()?)
    }
}

/// Number types in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberType {
    F32,
    F64,
    F16,
    Bf16,
    Bool,
    /// Signed integers with this many bytes.
    Signed(usize),
    Unsigned(usize),
}

impl NumberType {
    fn bytes(self) -> usize {
        match self {
            NumberType::F64 => 8,
            NumberType::F32 => 4,
            NumberType::F16 | NumberType::Bf16 => 2,
            NumberType::Bool => 1,
            NumberType::Signed(bytes) | NumberType::Unsigned(bytes) => bytes,
        }
    }

    /// Converts little-endian bytes to an array, or returns what is wrong with them.
    fn array(self, shape: &[usize], bytes: &[u8]) -> Result<Tensor, String> {
        fn numbers<const N: usize, T>(bytes: &[u8], shape: &[usize], of: fn([u8; N]) -> T) -> Result<Tensor, String>
        where
            Tensor: From<ArrayD<T>>,
        {
            let numbers: Vec<T> = bytes.as_chunks().0.iter().map(|&bytes| of(bytes)).collect();
            Tensor::new(shape, numbers)
                .map_err(|error| tr!("invalid shape {shape:?}: {error}", "形 {shape:?} が正しくありません: {error}"))
        }
        let size = shape.iter().try_fold(self.bytes(), |size, &axis| size.checked_mul(axis));
        if size != Some(bytes.len()) {
            let per = self.bytes();
            return Err(tr!(
                "expected shape {shape:?} times {per} bytes, got {} bytes",
                "形 {shape:?} × {per} バイトが必要ですが、{} バイトです",
                bytes.len()
            ));
        }
        match self {
            NumberType::F32 => numbers(bytes, shape, f32::from_le_bytes),
            NumberType::F64 => numbers(bytes, shape, f64::from_le_bytes),
            NumberType::F16 => numbers(bytes, shape, f16::from_le_bytes),
            NumberType::Bf16 => numbers(bytes, shape, bf16::from_le_bytes),
            NumberType::Bool => numbers(bytes, shape, |[byte]: [u8; 1]| byte != 0),
            NumberType::Signed(1) => numbers(bytes, shape, |byte| i64::from(i8::from_le_bytes(byte))),
            NumberType::Signed(2) => numbers(bytes, shape, |bytes| i64::from(i16::from_le_bytes(bytes))),
            NumberType::Signed(4) => numbers(bytes, shape, |bytes| i64::from(i32::from_le_bytes(bytes))),
            NumberType::Signed(_) => numbers(bytes, shape, i64::from_le_bytes),
            NumberType::Unsigned(1) => numbers(bytes, shape, |byte| i64::from(u8::from_le_bytes(byte))),
            NumberType::Unsigned(2) => numbers(bytes, shape, |bytes| i64::from(u16::from_le_bytes(bytes))),
            NumberType::Unsigned(4) => numbers(bytes, shape, |bytes| i64::from(u32::from_le_bytes(bytes))),
            NumberType::Unsigned(_) => {
                if bytes.as_chunks().0.iter().any(|&bytes| u64::from_le_bytes(bytes) > i64::MAX as u64) {
                    return Err(tr!(
                        "expected whole numbers below 2^63, got larger ones",
                        "2^63 未満の整数が必要ですが、それより大きな数があります"
                    ));
                }
                numbers(bytes, shape, i64::from_le_bytes)
            }
        }
    }
}

/// Returns the numbers of a tensor in row-major order as little-endian bytes.
fn to_little_endian(tensor: &Tensor) -> Vec<u8> {
    match tensor {
        Tensor::F32(array) => array.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Tensor::F64(array) => array.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Tensor::F16(array) => array.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Tensor::Bf16(array) => array.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Tensor::Bool(array) => array.iter().map(|&x| u8::from(x)).collect(),
        Tensor::I64(array) => array.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}
