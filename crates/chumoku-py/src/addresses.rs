//! Memory that Python passes by address: arrays that Python owns, as slices, and the threads of OpenMP. This is the
//! only file of the crate that may use `unsafe`.
//!
//! Python passes the address, shape, strides and element type of an array. It keeps the array alive during the call,
//! because it holds the objects as arguments.
//!
//! This module checks the alignment, that shape and strides stay within the address space, and that booleans
//! are 0 or 1. It also checks that no output overlaps any other array of the call. Two conditions remain with Python, as for
//! every native module that takes arrays. The address must belong to that many elements, and no other thread may write
//! to an array during the call.

#![allow(unsafe_code)]

use chumoku_kernels::{Element, ThreadTeam, bf16, f16};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::any::Any;
use std::ffi::{c_uint, c_void};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

/// The element type of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ElementType {
    F32,
    F64,
    Bf16,
    F16,
    Bool,
    I64,
}

impl ElementType {
    fn size(self) -> usize {
        match self {
            ElementType::F64 | ElementType::I64 => 8,
            ElementType::F32 => 4,
            ElementType::Bf16 | ElementType::F16 => 2,
            ElementType::Bool => 1,
        }
    }

    fn from_name(name: &str) -> PyResult<Self> {
        Ok(match name {
            "float32" => ElementType::F32,
            "float64" => ElementType::F64,
            "bfloat16" => ElementType::Bf16,
            "float16" => ElementType::F16,
            "bool" => ElementType::Bool,
            "int64" => ElementType::I64,
            _ => {
                let known = "float32, float64, bfloat16 or float16";
                return Err(PyTypeError::new_err(format!("expected an array of {known}, got {name}")));
            }
        })
    }
}

/// A Rust type that can represent an array's elements.
///
/// # Safety
///
/// Every bit pattern must be a valid value of the type, unless the type is `bool`.
pub(crate) unsafe trait ArrayElement: Copy + Send + Sync + 'static {
    const KIND: ElementType;
}

// SAFETY: a number type; every bit pattern is a valid value.
unsafe impl ArrayElement for f32 {
    const KIND: ElementType = ElementType::F32;
}
// SAFETY: as above.
unsafe impl ArrayElement for f64 {
    const KIND: ElementType = ElementType::F64;
}
// SAFETY: as above.
unsafe impl ArrayElement for bf16 {
    const KIND: ElementType = ElementType::Bf16;
}
// SAFETY: as above.
unsafe impl ArrayElement for f16 {
    const KIND: ElementType = ElementType::F16;
}
// SAFETY: as above.
unsafe impl ArrayElement for i64 {
    const KIND: ElementType = ElementType::I64;
}
// SAFETY: `bool`, whose bytes `Array::slice` checks.
unsafe impl ArrayElement for bool {
    const KIND: ElementType = ElementType::Bool;
}

/// An array that Python owns: `(address, type, shape, strides)`. Strides count elements.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    address: usize,
    pub(crate) kind: ElementType,
    pub(crate) shape: Vec<usize>,
    pub(crate) strides: Vec<usize>,
    /// Number of elements from the first to the last, including the gaps between them.
    len: usize,
}

impl<'py> FromPyObject<'_, 'py> for Array {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (address, kind, shape, strides): (usize, DtypeName, Vec<usize>, Vec<isize>) = object.extract()?;
        Array::new(address, ElementType::from_name(&kind)?, shape, &strides)
    }
}

type DtypeName = pyo3::pybacked::PyBackedStr;

impl Array {
    fn new(address: usize, kind: ElementType, shape: Vec<usize>, strides: &[isize]) -> PyResult<Self> {
        let wrong = |problem: String| Err(PyValueError::new_err(problem));
        if shape.len() != strides.len() {
            return wrong(format!("expected a stride for each of {} axes, got {}", shape.len(), strides.len()));
        }
        // The stride of an axis of size 1 is never used.
        let step = |(&size, &stride): (&usize, &isize)| if size <= 1 { Some(0) } else { usize::try_from(stride).ok() };
        let Some(strides) = shape.iter().zip(strides).map(step).collect::<Option<Vec<usize>>>() else {
            return wrong("expected an array whose strides are not negative: copy it first".into());
        };
        let reach = |end: usize, (&size, &stride): (&usize, &usize)| end.checked_add((size - 1).checked_mul(stride)?);
        let len = if shape.contains(&0) { Some(0) } else { shape.iter().zip(&strides).try_fold(1, reach) };
        // A slice holds at most isize::MAX bytes and ends within the address space.
        let bytes = len.and_then(|len| len.checked_mul(kind.size())).filter(|&bytes| isize::try_from(bytes).is_ok());
        let (Some(len), Some(_)) = (len, bytes.and_then(|bytes| address.checked_add(bytes))) else {
            return wrong(format!("expected an array within memory, got shape {shape:?} with strides {strides:?}"));
        };
        if len > 0 && (address == 0 || !address.is_multiple_of(kind.size())) {
            return wrong(format!("expected an array at a multiple of {} bytes, got {address:#x}", kind.size()));
        }
        Ok(Array { address, kind, shape, strides, len })
    }

    /// The range of bytes that the array spans.
    fn byte_range(&self) -> Range<usize> {
        self.address..self.address + self.len * self.kind.size()
    }

    /// Checks that the elements are of type `T`.
    fn check_type<T: ArrayElement>(&self, what: &str) -> PyResult<()> {
        if self.kind == T::KIND {
            return Ok(());
        }
        Err(PyTypeError::new_err(format!("{what}: expected elements of type {:?}, got {:?}", T::KIND, self.kind)))
    }

    /// Returns the elements from the first to the last, including the gaps between them.
    pub(crate) fn slice<T: ArrayElement>(&self, what: &str) -> PyResult<&[T]> {
        self.check_type::<T>(what)?;
        if self.len == 0 {
            return Ok(&[]);
        }
        if T::KIND == ElementType::Bool {
            // SAFETY: as below, for bytes, and every byte is a valid u8.
            let bytes = unsafe { std::slice::from_raw_parts(self.address as *const u8, self.len) };
            if bytes.iter().fold(0, |all, byte| all | byte) > 1 {
                return Err(PyValueError::new_err(format!("{what}: expected True and False, got other bytes")));
            }
        }
        // SAFETY: the checks above cover a non-null, aligned address, a length that fits, and bytes that are valid for
        // this type (0 or 1 for `bool`). Python guarantees that the array exists, keeps it alive during the call, and
        // lets no thread write to it.
        Ok(unsafe { std::slice::from_raw_parts(self.address as *const T, self.len) })
    }
}

/// Checks that no output overlaps an input or another output.
fn check_no_overlap(outputs: &[&Array], inputs: &[&Array]) -> PyResult<()> {
    let overlap = |a: &Array, b: &Array| {
        let (a, b) = (a.byte_range(), b.byte_range());
        a.start < b.end && b.start < a.end
    };
    for (i, out) in outputs.iter().enumerate() {
        let is_shared = |other: &&Array| overlap(out, other);
        if outputs[i + 1..].iter().any(is_shared) || inputs.iter().any(is_shared) {
            return Err(PyValueError::new_err("expected output arrays that overlap no other array"));
        }
    }
    Ok(())
}

/// The output arrays of a call. None overlaps any other array; they are taken in order.
pub(crate) struct OutputArrays<'a> {
    arrays: Vec<&'a Array>,
    next_index: usize,
}

impl<'a> OutputArrays<'a> {
    pub(crate) fn new(arrays: Vec<&'a Array>, read: &[&Array]) -> PyResult<Self> {
        check_no_overlap(&arrays, read)?;
        Ok(OutputArrays { arrays, next_index: 0 })
    }

    /// Returns the elements of the next array for writing.
    pub(crate) fn next<T: ArrayElement>(&mut self, what: &str) -> PyResult<&'a mut [T]> {
        let array = self.arrays[self.next_index];
        array.check_type::<T>(what)?;
        self.next_index += 1;
        if array.len == 0 || T::KIND == ElementType::Bool {
            return Ok(&mut []);
        }
        // SAFETY: as in `Array::slice`. The array overlaps no other array of the call, which `new` checked, and it is
        // taken once.
        Ok(unsafe { std::slice::from_raw_parts_mut(array.address as *mut T, array.len) })
    }
}

/// Element types that attention computes with.
pub(crate) trait AttentionElement: Element<Sum: ArrayElement> + ArrayElement {}

impl AttentionElement for f32 {}
impl AttentionElement for f64 {}
impl AttentionElement for bf16 {}
impl AttentionElement for f16 {}

/// `GOMP_parallel` of the GNU OpenMP runtime; the runtimes of Intel and LLVM have it too. It calls a function with a
/// pointer on the requested number of threads, including the calling one. It returns when all threads have returned.
type GompParallel = unsafe extern "C" fn(extern "C" fn(*mut c_void), *mut c_void, c_uint, c_uint);

/// The OpenMP threads that another library of the process has started. These threads spin for a while after their work.
/// Threads of our own pool would compete with them for the cores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenMp {
    parallel: GompParallel,
    threads: usize,
}

impl OpenMp {
    /// Creates it from the address of `GOMP_parallel`, which Python has looked up in the loaded library. Returns `None`
    /// for 0.
    pub(crate) fn from_address(address: usize, threads: usize) -> Option<Self> {
        // SAFETY: a function pointer has the size of an address and is not null. Python guarantees that the address is
        // that of this function.
        let parallel = (address != 0).then(|| unsafe { std::mem::transmute::<usize, GompParallel>(address) })?;
        Some(OpenMp { parallel, threads })
    }
}

/// The work that each thread of a team runs, and the first panic.
struct ParallelCall<'a> {
    work: &'a (dyn Fn() + Sync),
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

extern "C" fn run_shared(shared: *mut c_void) {
    // SAFETY: `OpenMp::run` passes the address of a `ParallelCall` that lives until all threads have returned. All
    // threads may read it at once: the work is `Sync` and the panic is behind a lock.
    let shared = unsafe { &*shared.cast_const().cast::<ParallelCall<'_>>() };
    // A panic must not unwind through frames of another language.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(shared.work)) {
        shared.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
    }
}

impl ThreadTeam for OpenMp {
    fn threads(&self) -> usize {
        self.threads
    }

    fn run(&self, work: &(dyn Fn() + Sync)) {
        let shared = ParallelCall { work, panic: Mutex::new(None) };
        let data = (&raw const shared).cast_mut().cast();
        // SAFETY: meets the contract of `GOMP_parallel`. It takes a function and data, and may call the function with
        // the data on several threads until it returns. It returns after all of them. 0 stands for no flags.
        unsafe { (self.parallel)(run_shared, data, self.threads.min(1024) as c_uint, 0) };
        if let Some(panic) = shared.panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(panic);
        }
    }
}
