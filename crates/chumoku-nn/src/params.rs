//! Parameters: one flat buffer with named views, sorted by name.
//!
//! Gradients and the optimizer's moments have the same layout. The optimizer is therefore one loop, gradient clipping
//! needs one norm, and a checkpoint is a few arrays.

mod low_rank;

pub use low_rank::LowRankConfig;

use chumoku_kernels::{MatMut, MatRef, PackedMatrix, Philox, Precision, Real, Rhs, fnv1a, zeros};
use ndarray::ArrayView2;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The initialization of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Init {
    /// All 0.
    Zeros,
    /// All 1.
    Ones,
    /// Uniform in ±bound, the value.
    Uniform(f64),
    /// Normal with mean 0 and this standard deviation.
    Normal(f64),
}

impl Init {
    /// Returns the uniform initialization of Glorot and Bengio (2010): bound √(6 / (inputs + outputs)).
    pub(crate) fn glorot(inputs: usize, outputs: usize) -> Init {
        Init::Uniform((6.0 / (inputs + outputs) as f64).sqrt())
    }
}

/// The handle of a parameter in a [`ParamLayout`], held by the layer that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamId(usize);

/// A point in a model under construction: all parameters added before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParamMark(usize);

#[derive(Clone, Debug)]
struct ParamEntry {
    name: String,
    shape: Vec<usize>,
    init: Init,
    is_frozen: bool,
    /// The low-rank update of a frozen parameter, if it has one.
    low_rank: Option<low_rank::LowRankUpdate>,
    /// The range in the buffer of trained numbers, or of frozen ones.
    range: Range<usize>,
}

/// A trained parameter: see [`ParamLayout::iter`].
#[derive(Clone, Debug)]
pub struct ParamView<'a> {
    /// The name.
    pub name: &'a str,
    /// The shape.
    pub shape: &'a [usize],
    /// The range in the buffer.
    pub range: Range<usize>,
}

/// Names, shapes and offsets of a model's parameters.
///
/// Parameters may be frozen. Frozen parameters live in a separate buffer, for which gradients, moments and averages
/// have no counterpart. The initial layout of a model freezes none. [`Params::freeze`] returns a layout with frozen
/// parameters, and [`Params::with_low_rank`] one with small trained matrices for some of them.
#[derive(Clone, Debug, Default)]
pub struct ParamLayout {
    /// Sorted by name.
    entries: Vec<ParamEntry>,
    /// Index into `entries` for each id.
    entry_indices: Vec<usize>,
    len: usize,
}

/// Collects the parameters of a model under construction. Names are joined with dots, as in PyTorch.
#[derive(Debug, Default)]
pub struct Builder {
    entries: Vec<ParamEntry>,
    prefix: String,
}

impl Builder {
    /// An empty model.
    pub fn new() -> Self {
        Builder::default()
    }

    /// Builds a part of the model whose parameter names start with `name.`.
    pub fn scope<R>(&mut self, name: &str, build: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.prefix.len();
        self.prefix.push_str(name);
        self.prefix.push('.');
        let part = build(self);
        self.prefix.truncate(before);
        part
    }

    /// Adds a parameter.
    pub fn add(&mut self, name: &str, shape: &[usize], init: Init) -> ParamId {
        let name = format!("{}{name}", self.prefix);
        self.entries.push(ParamEntry {
            name,
            shape: shape.to_vec(),
            init,
            is_frozen: false,
            low_rank: None,
            range: 0..0,
        });
        ParamId(self.entries.len() - 1)
    }

    /// Returns the current point of the construction.
    pub(crate) fn mark(&self) -> ParamMark {
        ParamMark(self.entries.len())
    }

    /// Builds the layout of all added parameters.
    pub fn finish(self) -> Arc<ParamLayout> {
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_by(|&a, &b| self.entries[a].name.cmp(&self.entries[b].name));
        let mut places = vec![0; order.len()];
        let mut entries: Vec<ParamEntry> = Vec::with_capacity(order.len());
        let mut len = 0;
        for (place, &id) in order.iter().enumerate() {
            let mut entry = self.entries[id].clone();
            let size: usize = entry.shape.iter().product();
            entry.range = len..len + size;
            len += size;
            places[id] = place;
            entries.push(entry);
        }
        Arc::new(ParamLayout { entries, entry_indices: places, len })
    }
}

impl ParamLayout {
    /// Returns the number of trained numbers.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if no parameter is trained.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Iterates over the trained parameters, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = ParamView<'_>> {
        let trained = self.entries.iter().filter(|entry| !entry.is_frozen);
        trained.map(|ParamEntry { name, shape, range, .. }| ParamView { name, shape, range: range.clone() })
    }

    /// Returns this layout with some parameters frozen, and the number of frozen numbers.
    fn with_frozen(&self, is_frozen: impl Fn(&str) -> bool) -> (ParamLayout, usize) {
        let mut frozen =
            ParamLayout { entries: self.entries.clone(), entry_indices: self.entry_indices.clone(), len: 0 };
        let mut numbers = 0;
        for entry in &mut frozen.entries {
            entry.is_frozen = is_frozen(&entry.name);
            let end = if entry.is_frozen { &mut numbers } else { &mut frozen.len };
            entry.range = *end..*end + entry.range.len();
            *end = entry.range.end;
        }
        (frozen, numbers)
    }

    /// Returns true if any frozen matrix has a low-rank update.
    fn has_low_rank(&self) -> bool {
        self.entries.iter().any(|entry| entry.low_rank.is_some())
    }

    fn entry(&self, id: ParamId) -> &ParamEntry {
        &self.entries[self.entry_indices[id.0]]
    }
}

/// A number for every element of a [`ParamLayout`]: parameters, gradients, or moments.
///
/// Matrices are packed for products at their first multiplication and stay packed until a number may change. Every
/// method that returns mutable numbers drops the packed copies.
#[derive(Debug)]
pub struct Params<T> {
    layout: Arc<ParamLayout>,
    values: Vec<T>,
    /// The numbers of frozen parameters; empty for gradients and moments.
    frozen: Arc<Vec<T>>,
    precision: Precision,
    /// Packed copies of each layout entry: the matrix, its transpose, and the transpose of its first rows.
    packed: Vec<[OnceLock<Option<PackedMatrix>>; 3]>,
    /// The frozen matrices with their low-rank updates applied, computed on demand.
    merged_weights: OnceLock<Vec<T>>,
    /// Scratch buffers that layers reuse.
    buffers: Vec<Vec<T>>,
}

impl<T: Clone> Clone for Params<T> {
    fn clone(&self) -> Self {
        let (layout, values, frozen) = (Arc::clone(&self.layout), self.values.clone(), Arc::clone(&self.frozen));
        Params {
            packed: empty_packed_cells(&layout),
            layout,
            values,
            frozen,
            precision: self.precision,
            merged_weights: OnceLock::new(),
            buffers: Vec::new(),
        }
    }
}

fn empty_packed_cells(layout: &ParamLayout) -> Vec<[OnceLock<Option<PackedMatrix>>; 3]> {
    layout.entries.iter().map(|_| Default::default()).collect()
}

impl<T: Real> Params<T> {
    /// Returns zeros for gradients and moments. Frozen parameters are left out.
    pub fn zeros(layout: &Arc<ParamLayout>) -> Self {
        Params { values: zeros(layout.len), ..Params::empty(Arc::clone(layout)) }
    }

    /// Returns a copy in which the parameters that `is_frozen` selects by name are frozen.
    #[must_use]
    pub fn freeze(&self, is_frozen: impl Fn(&str) -> bool) -> Self {
        let (layout, numbers) = self.layout.with_frozen(is_frozen);
        let (mut values, mut frozen) = (Vec::with_capacity(layout.len), Vec::with_capacity(numbers));
        for (from, to) in self.layout.entries.iter().zip(&layout.entries) {
            (if to.is_frozen { &mut frozen } else { &mut values }).extend_from_slice(self.entry_values(from));
        }
        let mut params = Params { values, frozen: Arc::new(frozen), ..Params::empty(Arc::new(layout)) };
        params.precision = self.precision;
        params
    }

    /// Returns a copy without frozen parameters. Low-rank updates are merged into their matrices.
    #[must_use]
    pub fn unfreeze(&self) -> Self {
        match self.layout.has_low_rank() {
            true => self.without_low_rank().freeze(|_| false),
            false => self.freeze(|_| false),
        }
    }

    fn empty(layout: Arc<ParamLayout>) -> Self {
        Params {
            packed: empty_packed_cells(&layout),
            layout,
            values: Vec::new(),
            frozen: Arc::default(),
            precision: Precision::Highest,
            merged_weights: OnceLock::new(),
            buffers: Vec::new(),
        }
    }

    /// Returns a copy with the trained numbers set to 0; frozen numbers stay.
    #[must_use]
    pub fn zeroed(&self) -> Self {
        let mut params = Params::empty(Arc::clone(&self.layout));
        params.values = vec![T::ZERO; self.values.len()];
        params.frozen = Arc::clone(&self.frozen);
        params.precision = self.precision;
        params
    }

    /// Returns true if a parameter is not frozen.
    pub(crate) fn is_trained(&self, id: ParamId) -> bool {
        !self.layout.entry(id).is_frozen
    }

    /// Returns true if any parameter added before a point is trained or has a low-rank update.
    pub(crate) fn has_trained_before(&self, before: ParamMark) -> bool {
        (0..before.0).any(|id| self.is_trained(ParamId(id)) || self.layout.entry(ParamId(id)).low_rank.is_some())
    }

    fn entry_values(&self, entry: &ParamEntry) -> &[T] {
        if let Some(update) = &entry.low_rank {
            return self.merged_weight(entry, update);
        }
        let numbers = if entry.is_frozen { &self.frozen[..] } else { &self.values };
        &numbers[entry.range.clone()]
    }

    /// All trained numbers, in the order of the layout.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// All trained numbers, mutable.
    pub fn values_mut(&mut self) -> &mut [T] {
        self.drop_packed();
        &mut self.values
    }

    /// Sets all numbers to 0.
    pub fn clear(&mut self) {
        chumoku_kernels::fill_zero(self.values_mut());
    }

    /// Returns a buffer of `len` numbers with unspecified contents, reusing a returned one if possible.
    pub(crate) fn take_buffer(&mut self, len: usize) -> Vec<T> {
        let mut numbers = self.buffers.pop().unwrap_or_default();
        if numbers.is_empty() {
            return chumoku_kernels::zeros(len);
        }
        numbers.resize(len, T::ZERO);
        numbers
    }

    /// Returns a buffer for reuse by the next layer.
    pub(crate) fn return_buffer(&mut self, numbers: Vec<T>) {
        const MOST: usize = 4;
        if self.buffers.len() < MOST {
            self.buffers.push(numbers);
        }
    }

    /// The precision of matrix products with these parameters.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Sets the precision of matrix products.
    pub fn set_precision(&mut self, precision: Precision) {
        self.packed.iter_mut().flatten().for_each(|packed| drop(packed.take()));
        self.precision = precision;
    }

    /// Drops the packed copies of all numbers that may change.
    fn drop_packed(&mut self) {
        self.merged_weights.take();
        let changes = |entry: &ParamEntry| !entry.is_frozen || entry.low_rank.is_some();
        let changing = self.packed.iter_mut().zip(&self.layout.entries).filter(|(_, entry)| changes(entry));
        changing.flat_map(|(packed, _)| packed).for_each(|packed| drop(packed.take()));
    }

    /// Initializes parameters, depending only on `seed` and the name of each parameter.
    pub fn init(layout: &Arc<ParamLayout>, seed: u64) -> Self {
        let mut params = Params::zeros(layout);
        for entry in layout.entries.iter().filter(|entry| !entry.is_frozen) {
            // Each parameter has the random stream of its name.
            let random = Philox::new(seed, fnv1a(entry.name.bytes()));
            for (i, value) in params.values[entry.range.clone()].iter_mut().enumerate() {
                *value = match entry.init {
                    Init::Zeros => T::ZERO,
                    Init::Ones => T::ONE,
                    Init::Uniform(bound) => T::round_from(bound * (2.0 * f64::from(random.uniform(i as u64)) - 1.0)),
                    Init::Normal(deviation) => T::round_from(deviation * f64::from(random.normal(i as u64))),
                };
            }
        }
        params
    }

    /// The layout of the parameters.
    pub fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    /// The numbers of one parameter.
    pub fn slice(&self, id: ParamId) -> &[T] {
        self.entry_values(self.layout.entry(id))
    }

    /// The numbers of one parameter, mutable.
    ///
    /// # Panics
    /// If the parameter is frozen.
    pub(crate) fn slice_mut(&mut self, id: ParamId) -> &mut [T] {
        assert!(self.is_trained(id), "the parameter is frozen and cannot be changed");
        self.packed[self.layout.entry_indices[id.0]].iter_mut().for_each(|packed| drop(packed.take()));
        &mut self.values[self.layout.entry(id).range.clone()]
    }

    /// The numbers of two different parameters, mutable.
    ///
    /// # Panics
    /// If both are the same parameter, or one is frozen.
    pub(crate) fn two_slices_mut(&mut self, a: ParamId, b: ParamId) -> [&mut [T]; 2] {
        assert!(self.is_trained(a) && self.is_trained(b), "one of the parameters is frozen and cannot be changed");
        self.drop_packed();
        let (a, b) = (self.layout.entry(a).range.clone(), self.layout.entry(b).range.clone());
        self.values.get_disjoint_mut([a, b]).expect("two parameters of a layout do not overlap")
    }

    fn matrix_shape(&self, id: ParamId) -> (usize, usize) {
        match self.layout.entry(id).shape[..] {
            [rows, cols] => (rows, cols),
            ref shape => unreachable!("a layer requested a matrix, but its parameter has the shape {shape:?}"),
        }
    }

    /// A parameter of two axes as a matrix.
    pub fn view(&self, id: ParamId) -> ArrayView2<'_, T> {
        ArrayView2::from_shape(self.matrix_shape(id), self.slice(id))
            .expect("the length of a parameter matches its shape")
    }

    pub(crate) fn matrix(&self, id: ParamId) -> MatRef<'_, T> {
        let (rows, cols) = self.matrix_shape(id);
        MatRef::new(self.slice(id), rows, cols).expect("the length of a parameter matches its shape")
    }

    /// The matrix W as the right-hand operand of products.
    pub(crate) fn operand(&self, id: ParamId) -> Rhs<'_, T> {
        self.packed_operand(id, 0, self.matrix(id))
    }

    /// Wᵀ as the right-hand operand of products.
    pub(crate) fn transposed_operand(&self, id: ParamId) -> Rhs<'_, T> {
        self.packed_operand(id, 1, self.matrix(id).t())
    }

    /// The transpose of the first `rows` rows of W as the right-hand operand of products. Only one number of rows per
    /// parameter is packed.
    pub(crate) fn transposed_rows_operand(&self, id: ParamId, rows: usize) -> Rhs<'_, T> {
        self.packed_operand(id, 2, self.matrix_rows(id, 0..rows).t())
    }

    fn packed_operand<'a>(&'a self, id: ParamId, slot: usize, matrix: MatRef<'a, T>) -> Rhs<'a, T> {
        let packed = &self.packed[self.layout.entry_indices[id.0]][slot];
        let packed = packed.get_or_init(|| PackedMatrix::new(matrix, self.precision));
        Rhs::new(matrix, packed.as_ref()).unwrap_or_else(|_| matrix.into())
    }

    /// The rows `rows` of a parameter of two axes.
    pub(crate) fn matrix_rows(&self, id: ParamId, rows: Range<usize>) -> MatRef<'_, T> {
        let cols = self.matrix_shape(id).1;
        let part = &self.slice(id)[rows.start * cols..rows.end * cols];
        MatRef::new(part, rows.len(), cols).expect("the length of a parameter matches its shape")
    }

    pub(crate) fn matrix_rows_mut(&mut self, id: ParamId, rows: Range<usize>) -> MatMut<'_, T> {
        let cols = self.matrix_shape(id).1;
        let part = &mut self.slice_mut(id)[rows.start * cols..rows.end * cols];
        MatMut::new(part, rows.len(), cols).expect("the length of a parameter matches its shape")
    }

    pub(crate) fn matrix_mut(&mut self, id: ParamId) -> MatMut<'_, T> {
        let rows = self.matrix_shape(id).0;
        self.matrix_rows_mut(id, 0..rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_sorted_by_name_and_initialization_follows_the_seed() {
        let mut builder = Builder::new();
        let z = builder.scope("z", |b| b.add("weight", &[2, 3], Init::Ones));
        let a = builder.scope("a", |b| b.scope("b", |b| b.add("bias", &[4], Init::Normal(0.1))));
        let layout = builder.finish();
        let names: Vec<_> = layout.iter().map(|param| (param.name.to_owned(), param.range)).collect();
        assert_eq!(names, [("a.b.bias".to_owned(), 0..4), ("z.weight".to_owned(), 4..10)]);
        let params = Params::<f32>::init(&layout, 1);
        assert_eq!(params.slice(z), [1.0; 6]);
        assert_eq!(params.values, Params::<f32>::init(&layout, 1).values);
        assert_ne!(params.slice(a), Params::<f32>::init(&layout, 2).slice(a));
    }

    #[test]
    fn frozen_parameters_keep_their_values_and_can_be_unfrozen() {
        let mut builder = Builder::new();
        let [a, b, c] = ["a", "b", "c"].map(|name| builder.add(name, &[2, 2], Init::Normal(1.0)));
        let whole = Params::<f32>::init(&builder.finish(), 3);
        let mut part = whole.freeze(|name| name == "b");
        assert_eq!((part.values().len(), part.layout().iter().count(), part.layout().len()), (8, 2, 8));
        assert_eq!([a, b, c].map(|id| part.slice(id).to_vec()), [a, b, c].map(|id| whole.slice(id).to_vec()));
        assert_eq!([a, b, c].map(|id| part.is_trained(id)), [true, false, true]);
        assert_eq!(Params::<f32>::zeros(part.layout()).values().len(), 8);
        assert_eq!(part.zeroed().slice(b), whole.slice(b));
        part.slice_mut(c).fill(7.0);
        let again = part.unfreeze();
        assert_eq!(again.values().len(), 12);
        assert_eq!((again.slice(b), again.slice(c)), (whole.slice(b), &[7.0; 4][..]));
        let names =
            |params: &Params<f32>| params.layout().iter().map(|param| param.name.to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&again), names(&whole));
    }
}
