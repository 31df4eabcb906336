//! Memory layouts of rows, with independent index computations.

use crate::attention::fence::{Fenced, Side};
use chumoku_kernels::{Element, Heads, HeadsMut};
use testkit::GuardedBuffer;

/// The order of rows in the tests' data: sequence after sequence, each (heads, length, dim).
#[derive(Clone, Debug)]
pub(crate) struct RowShape {
    pub(crate) lengths: Vec<usize>,
    pub(crate) heads: usize,
    pub(crate) dim: usize,
}

impl RowShape {
    pub(crate) fn row(&self, s: usize, h: usize, i: usize) -> usize {
        self.lengths[..s].iter().sum::<usize>() * self.heads + h * self.lengths[s] + i
    }

    pub(crate) fn rows(&self) -> usize {
        self.lengths.iter().sum::<usize>() * self.heads
    }

    /// Iterates over every (sequence, head, position), in order.
    pub(crate) fn places(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        (0..self.lengths.len())
            .flat_map(move |s| (0..self.heads).flat_map(move |h| (0..self.lengths[s]).map(move |i| (s, h, i))))
    }
}

/// The order of the axes of one array, and whether it has gaps between the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AxisOrder {
    HeadsFirst,
    RowsFirst,
    HeadsFirstWithGaps,
    RowsFirstWithGaps,
    Packed,
}

/// The layout of an array: its shape, its order, and the first row of each sequence.
#[derive(Clone, Debug)]
pub(crate) struct ArrayLayout {
    pub(crate) shape: RowShape,
    order: AxisOrder,
    offsets: Vec<usize>,
}

impl ArrayLayout {
    pub(crate) fn new(shape: RowShape, order: AxisOrder) -> Self {
        let mut offsets = vec![0];
        for length in &shape.lengths {
            offsets.push(offsets[offsets.len() - 1] + length);
        }
        assert!(order == AxisOrder::Packed || shape.lengths.windows(2).all(|pair| pair[0] == pair[1]));
        ArrayLayout { shape, order, offsets }
    }

    pub(crate) fn is_packed(&self) -> bool {
        self.order == AxisOrder::Packed
    }

    /// Returns the strides of sequences, heads and rows.
    fn strides(&self) -> [usize; 3] {
        let (heads, dim) = (self.shape.heads, self.shape.dim);
        let length = self.shape.lengths.first().copied().unwrap_or(0);
        match self.order {
            AxisOrder::HeadsFirst => [heads * length * dim, length * dim, dim],
            AxisOrder::RowsFirst => [length * heads * dim, dim, heads * dim],
            AxisOrder::HeadsFirstWithGaps => {
                let head = length * (dim + 5) + 3;
                [heads * head + 7, head, dim + 5]
            }
            AxisOrder::RowsFirstWithGaps => {
                let row = heads * (dim + 2) + 1;
                [length * row, dim + 2, row]
            }
            AxisOrder::Packed => [0, dim, heads * dim + 3],
        }
    }

    /// Returns the offset of the first element of a row.
    fn start(&self, s: usize, h: usize, i: usize) -> usize {
        let [sequence, head, row] = self.strides();
        let i = if self.is_packed() { self.offsets[s] + i } else { i };
        s * sequence + h * head + i * row
    }

    /// Returns the number of elements up to the end of the last row, and no more.
    fn len(&self) -> usize {
        self.shape.places().map(|(s, h, i)| self.start(s, h, i) + self.shape.dim).max().unwrap_or(0)
    }

    /// Copies the values into this layout, with NaN between the rows.
    pub(crate) fn copy_in<T: Element>(&self, numbers: &[f64], side: Side) -> Fenced<T> {
        let mut data = vec![T::round_from(f64::NAN); self.len()];
        for (at, (s, h, i)) in self.shape.places().enumerate() {
            let row = &mut data[self.start(s, h, i)..][..self.shape.dim];
            row.iter_mut().zip(&numbers[at * self.shape.dim..]).for_each(|(to, &from)| *to = T::round_from(from));
        }
        Fenced::new(&data, side)
    }

    pub(crate) fn view<'a, T>(&'a self, data: &'a [T]) -> Heads<'a, T> {
        let (heads, dim) = (self.shape.heads, self.shape.dim);
        let (batch, length) = (self.shape.lengths.len(), self.shape.lengths.first().copied().unwrap_or(0));
        match self.order {
            AxisOrder::HeadsFirst => Heads::bhld(data, [batch, heads, length, dim]),
            AxisOrder::RowsFirst => Heads::blhd(data, [batch, length, heads, dim]),
            AxisOrder::Packed => Heads::packed(data, &self.offsets, heads, dim, self.strides()[2]),
            _ => Heads::strided(data, [batch, heads, length, dim], self.strides()),
        }
        .unwrap()
    }

    pub(crate) fn view_mut<'a, T>(&'a self, data: &'a mut [T]) -> HeadsMut<'a, T> {
        let (heads, dim) = (self.shape.heads, self.shape.dim);
        let (batch, length) = (self.shape.lengths.len(), self.shape.lengths.first().copied().unwrap_or(0));
        match self.order {
            AxisOrder::HeadsFirst => HeadsMut::bhld(data, [batch, heads, length, dim]),
            AxisOrder::RowsFirst => HeadsMut::blhd(data, [batch, length, heads, dim]),
            AxisOrder::Packed => HeadsMut::packed(data, &self.offsets, heads, dim, self.strides()[2]),
            _ => HeadsMut::strided(data, [batch, heads, length, dim], self.strides()),
        }
        .unwrap()
    }
}

/// An output array: NaN in its rows, and a pattern between and around them.
pub(crate) struct OutputArray<T> {
    layout: ArrayLayout,
    guarded: GuardedBuffer<T>,
}

impl<T: Element> OutputArray<T> {
    pub(crate) fn new(place: ArrayLayout) -> Self {
        let (nan, pattern) = (T::round_from(f64::NAN), T::round_from(-1234.0));
        let mut guarded = GuardedBuffer::filled(place.len(), pattern, pattern);
        for (s, h, i) in place.shape.places() {
            guarded.as_mut_slice()[place.start(s, h, i)..][..place.shape.dim].fill(nan);
        }
        OutputArray { layout: place, guarded }
    }

    pub(crate) fn view(&mut self) -> HeadsMut<'_, T> {
        self.layout.view_mut(self.guarded.as_mut_slice())
    }

    /// Returns the rows in the tests' order, after checking that nothing else was overwritten.
    pub(crate) fn take(self) -> Vec<f64> {
        let (place, mut data) = (self.layout, self.guarded.into_checked());
        let mut numbers = Vec::new();
        for (s, h, i) in place.shape.places() {
            let row = &mut data[place.start(s, h, i)..][..place.shape.dim];
            numbers.extend(row.iter().map(|x| x.to_f64()));
            row.fill(T::round_from(-1234.0));
        }
        assert!(data.iter().all(|&x| x == T::round_from(-1234.0)), "the gap between rows was overwritten");
        numbers
    }
}
