//! Golden files: tensors computed by another program, see `golden/README.md`.

use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A golden file in memory.
#[derive(Debug)]
pub struct GoldenFile {
    path: PathBuf,
    tensors: BTreeMap<String, (Vec<usize>, Vec<f64>)>,
    attributes: BTreeMap<String, String>,
}

impl GoldenFile {
    /// Reads `golden/<name>.safetensors` of this repository.
    ///
    /// # Panics
    /// If the file is missing or invalid: a test without its golden file must not pass.
    pub fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden").join(format!("{name}.safetensors"));
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (_, metadata) = SafeTensors::read_metadata(&bytes).expect("a safetensors header");
        let attributes = metadata.metadata().clone().unwrap_or_default().into_iter().collect();
        let tensors = SafeTensors::deserialize(&bytes).expect("a valid safetensors file");
        let tensors = tensors
            .tensors()
            .into_iter()
            .map(|(name, view)| (name, (view.shape().to_vec(), numbers(view.dtype(), view.data()))))
            .collect();
        GoldenFile { path, tensors, attributes }
    }

    fn get(&self, name: &str) -> &(Vec<usize>, Vec<f64>) {
        self.tensors.get(name).unwrap_or_else(|| {
            let names: Vec<_> = self.tensors.keys().collect();
            panic!("{}: no tensor {name}, only {names:?}", self.path.display())
        })
    }

    /// Returns the tensor `name` in double precision.
    ///
    /// # Panics
    /// If there is no such tensor; this holds for every method here.
    pub fn tensor(&self, name: &str) -> &[f64] {
        &self.get(name).1
    }

    /// Returns the shape of a tensor.
    pub fn shape(&self, name: &str) -> &[usize] {
        &self.get(name).0
    }

    /// Returns the tensor as f32 (inputs and parameters are exactly f32).
    pub fn tensor_f32(&self, name: &str) -> Vec<f32> {
        self.tensor(name).iter().map(|&x| x as f32).collect()
    }

    /// Returns the tensor as integers.
    pub fn integers(&self, name: &str) -> Vec<usize> {
        self.tensor(name).iter().map(|&x| x as usize).collect()
    }

    /// Returns true if there is a tensor of that name.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Iterates over the tensor names that start with `prefix`, without the prefix.
    pub fn names<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.tensors.keys().filter_map(move |name| name.strip_prefix(prefix))
    }

    /// Returns an optional attribute.
    pub fn optional_attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    /// Returns an attribute.
    pub fn attribute(&self, name: &str) -> &str {
        self.optional_attribute(name).unwrap_or_else(|| panic!("{}: no attribute {name}", self.path.display()))
    }

    /// Returns a numeric attribute.
    pub fn numeric_attribute(&self, name: &str) -> f64 {
        self.attribute(name).parse().unwrap_or_else(|_| panic!("{}: {name} is not a number", self.path.display()))
    }
}

fn numbers(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    fn each<const N: usize>(bytes: &[u8], f: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.chunks_exact(N).map(|b| f(b.try_into().expect("N bytes"))).collect()
    }
    match dtype {
        Dtype::F64 => each(bytes, f64::from_le_bytes),
        Dtype::F32 => each(bytes, |b| f64::from(f32::from_le_bytes(b))),
        Dtype::I64 => each(bytes, |b| i64::from_le_bytes(b) as f64),
        Dtype::U8 => each(bytes, |[b]: [u8; 1]| f64::from(b)),
        other => panic!("golden files cannot contain {other:?}"),
    }
}
