//! Addresses that Python gives: arrays that it owns, as slices, and the threads of OpenMP. The one file of this crate that may
//! use `unsafe`.
//!
//! Python gives the address, the shape, the strides and the type of an array, and keeps it alive while the call runs, for
//! it holds the objects as arguments. What can be checked is checked here: the alignment, that shape and strides stay within
//! the address space, that booleans are 0 or 1, and that nothing that is written overlaps anything else of the call. That
//! the address is one of so many numbers is Python's to say, as for every module that takes arrays; and as for every such
//! module, another thread must not write to an array of a call that runs.

#![allow(unsafe_code)]

use chumoku_kernels::{Element, ThreadTeam, bf16, f16};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::any::Any;
use std::ffi::{c_uint, c_void};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

/// The type of an array's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    F32,
    F64,
    Bf16,
    F16,
    Bool,
    I64,
}

impl Kind {
    fn size(self) -> usize {
        match self {
            Kind::F64 | Kind::I64 => 8,
            Kind::F32 => 4,
            Kind::Bf16 | Kind::F16 => 2,
            Kind::Bool => 1,
        }
    }

    fn named(name: &str) -> PyResult<Self> {
        Ok(match name {
            "float32" => Kind::F32,
            "float64" => Kind::F64,
            "bfloat16" => Kind::Bf16,
            "float16" => Kind::F16,
            "bool" => Kind::Bool,
            "int64" => Kind::I64,
            _ => {
                let known = "float32, float64, bfloat16 or float16";
                return Err(PyTypeError::new_err(format!("expected an array of {known}, got {name}")));
            }
        })
    }
}

/// A type that an array's numbers can be read as.
///
/// # Safety
/// Any bytes must be a value of it, unless it is `bool`.
pub(crate) unsafe trait Number: Copy + Send + Sync + 'static {
    const KIND: Kind;
}

// SAFETY: numbers, all of whose bit patterns are values.
unsafe impl Number for f32 {
    const KIND: Kind = Kind::F32;
}
// SAFETY: as above.
unsafe impl Number for f64 {
    const KIND: Kind = Kind::F64;
}
// SAFETY: as above.
unsafe impl Number for bf16 {
    const KIND: Kind = Kind::Bf16;
}
// SAFETY: as above.
unsafe impl Number for f16 {
    const KIND: Kind = Kind::F16;
}
// SAFETY: as above.
unsafe impl Number for i64 {
    const KIND: Kind = Kind::I64;
}
// SAFETY: `bool`, whose bytes `Array::slice` checks.
unsafe impl Number for bool {
    const KIND: Kind = Kind::Bool;
}

/// An array that Python owns: `(address, type, shape, strides)`, with strides in numbers.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    address: usize,
    pub(crate) kind: Kind,
    pub(crate) shape: Vec<usize>,
    pub(crate) strides: Vec<usize>,
    /// Numbers from the first to one beyond the last.
    len: usize,
}

impl<'py> FromPyObject<'_, 'py> for Array {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (address, kind, shape, strides): (usize, PyBackedName, Vec<usize>, Vec<isize>) = object.extract()?;
        Array::new(address, Kind::named(&kind)?, shape, &strides)
    }
}

type PyBackedName = pyo3::pybacked::PyBackedStr;

impl Array {
    fn new(address: usize, kind: Kind, shape: Vec<usize>, strides: &[isize]) -> PyResult<Self> {
        let wrong = |problem: String| Err(PyValueError::new_err(problem));
        if shape.len() != strides.len() {
            return wrong(format!("expected a stride for each of {} axes, got {}", shape.len(), strides.len()));
        }
        // An axis of size 1 is never stepped along.
        let step = |(&size, &stride): (&usize, &isize)| if size <= 1 { Some(0) } else { usize::try_from(stride).ok() };
        let Some(strides) = shape.iter().zip(strides).map(step).collect::<Option<Vec<usize>>>() else {
            return wrong("expected an array whose strides are not negative: copy it first".into());
        };
        let reach = |end: usize, (&size, &stride): (&usize, &usize)| end.checked_add((size - 1).checked_mul(stride)?);
        let len = if shape.contains(&0) { Some(0) } else { shape.iter().zip(&strides).try_fold(1, reach) };
        // Slices are of at most isize::MAX bytes, and end within the address space.
        let bytes = len.and_then(|len| len.checked_mul(kind.size())).filter(|&bytes| isize::try_from(bytes).is_ok());
        let (Some(len), Some(_)) = (len, bytes.and_then(|bytes| address.checked_add(bytes))) else {
            return wrong(format!("expected an array within memory, got shape {shape:?} with strides {strides:?}"));
        };
        if len > 0 && (address == 0 || !address.is_multiple_of(kind.size())) {
            return wrong(format!("expected an array at a multiple of {} bytes, got {address:#x}", kind.size()));
        }
        Ok(Array { address, kind, shape, strides, len })
    }

    /// The bytes that it reaches over.
    fn bytes(&self) -> Range<usize> {
        self.address..self.address + self.len * self.kind.size()
    }

    /// Checks that its numbers are of type `T`.
    fn check<T: Number>(&self, what: &str) -> PyResult<()> {
        if self.kind == T::KIND {
            return Ok(());
        }
        Err(PyTypeError::new_err(format!("{what}: expected numbers of {:?}, got {:?}", T::KIND, self.kind)))
    }

    /// Its numbers from the first to the last, with what lies between them.
    pub(crate) fn slice<T: Number>(&self, what: &str) -> PyResult<&[T]> {
        self.check::<T>(what)?;
        if self.len == 0 {
            return Ok(&[]);
        }
        if T::KIND == Kind::Bool {
            // SAFETY: as below, of bytes, any of which is a u8.
            let bytes = unsafe { std::slice::from_raw_parts(self.address as *const u8, self.len) };
            if bytes.iter().fold(0, |all, byte| all | byte) > 1 {
                return Err(PyValueError::new_err(format!("{what}: expected True and False, got other bytes")));
            }
        }
        // SAFETY: the address is not null and aligned, the length fits, and the bytes are of this type (for `bool`, 0 or 1),
        // as was checked. Python says that an array is there, keeps it while the call runs, and lets nobody write to it.
        Ok(unsafe { std::slice::from_raw_parts(self.address as *const T, self.len) })
    }
}

/// Checks that what is written overlaps neither what is read nor anything else that is written.
fn check_apart(written: &[&Array], read: &[&Array]) -> PyResult<()> {
    let overlap = |a: &Array, b: &Array| {
        let (a, b) = (a.bytes(), b.bytes());
        a.start < b.end && b.start < a.end
    };
    for (i, out) in written.iter().enumerate() {
        let is_shared = |other: &&Array| overlap(out, other);
        if written[i + 1..].iter().any(is_shared) || read.iter().any(is_shared) {
            return Err(PyValueError::new_err("expected results in memory of their own, got some that overlap"));
        }
    }
    Ok(())
}

/// The arrays of a call that are written, found to lie apart from everything else, to be taken one after another.
pub(crate) struct Written<'a> {
    arrays: Vec<&'a Array>,
    taken: usize,
}

impl<'a> Written<'a> {
    pub(crate) fn new(arrays: Vec<&'a Array>, read: &[&Array]) -> PyResult<Self> {
        check_apart(&arrays, read)?;
        Ok(Written { arrays, taken: 0 })
    }

    /// The numbers of the next array.
    pub(crate) fn next<T: Number>(&mut self, what: &str) -> PyResult<&'a mut [T]> {
        let array = self.arrays[self.taken];
        array.check::<T>(what)?;
        self.taken += 1;
        if array.len == 0 || T::KIND == Kind::Bool {
            return Ok(&mut []);
        }
        // SAFETY: as in `Array::slice`. It overlaps no other array of the call, as `new` has found, and is taken once.
        Ok(unsafe { std::slice::from_raw_parts_mut(array.address as *mut T, array.len) })
    }
}

/// Numbers that attention computes with.
pub(crate) trait Floating: Element<Sum: Number> + Number {}

impl Floating for f32 {}
impl Floating for f64 {}
impl Floating for bf16 {}
impl Floating for f16 {}

/// `GOMP_parallel` of the GNU OpenMP runtime, which Intel's and LLVM's have as well: calls a function with a pointer on each of
/// so many threads, this one among them, and returns when all have returned.
type Parallel = unsafe extern "C" fn(extern "C" fn(*mut c_void), *mut c_void, c_uint, c_uint);

/// The threads of OpenMP that another library of the process has started: they spin for a while after its work, so that threads
/// of our own would wait for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenMp {
    parallel: Parallel,
    threads: usize,
}

impl OpenMp {
    /// From the address of `GOMP_parallel`, which Python has looked up in the loaded library. `None` for 0.
    pub(crate) fn at(address: usize, threads: usize) -> Option<Self> {
        // SAFETY: a pointer to a function is as large as an address, and is not null. That the address is that of this
        // function is Python's to say.
        let parallel = (address != 0).then(|| unsafe { std::mem::transmute::<usize, Parallel>(address) })?;
        Some(OpenMp { parallel, threads })
    }
}

/// What each thread of a team runs, and the first panic.
struct Shared<'a> {
    work: &'a (dyn Fn() + Sync),
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

extern "C" fn run_shared(shared: *mut c_void) {
    // SAFETY: `OpenMp::run` gives the address of a `Shared`, which it keeps until all threads have returned, and which all
    // may read at once: the work is `Sync`, the panic behind a lock.
    let shared = unsafe { &*shared.cast_const().cast::<Shared<'_>>() };
    // A panic must not cross the frames of another language.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(shared.work)) {
        shared.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
    }
}

impl ThreadTeam for OpenMp {
    fn threads(&self) -> usize {
        self.threads
    }

    fn run(&self, work: &(dyn Fn() + Sync)) {
        let shared = Shared { work, panic: Mutex::new(None) };
        let data = (&raw const shared).cast_mut().cast();
        // SAFETY: as `GOMP_parallel` asks: a function, and data that it may be called with on several threads until this
        // returns, as it does after all of them. 0 are no flags.
        unsafe { (self.parallel)(run_shared, data, self.threads.min(1024) as c_uint, 0) };
        if let Some(panic) = shared.panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(panic);
        }
    }
}
