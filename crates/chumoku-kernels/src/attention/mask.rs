//! Masks: which query may attend to which key, by entries, by position and by key length.

use crate::error::{Error, Result};
use std::ops::Range;

/// Alignment of the diagonal of a causal mask or window: query i is at the position of key `i + offset`.
///
/// The alignments differ if there are more keys than queries, as with a cache of earlier keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Causal {
    /// The first query is at the first key, as with `is_causal=True` in PyTorch.
    TopLeft,
    /// The last query is at the last key within the key length. Use this with a cache.
    #[default]
    BottomRight,
    /// Query i is at key `i + offset`. Queries before the first key have nothing to attend to.
    Offset(i64),
}

/// The entries of a mask, broadcast to (batch, heads, queries, keys): missing leading axes and axes of size 1 apply to
/// every index.
#[derive(Clone, Copy, Debug)]
pub struct MaskView<'a, M> {
    pub(crate) data: &'a [M],
    pub(crate) shape: [usize; 4],
    pub(crate) strides: [usize; 4],
}

impl<'a, M: Copy> MaskView<'a, M> {
    /// Creates a view of a contiguous array of rank 0 to 4.
    ///
    /// # Errors
    /// If the rank is above 4, or `data` has a different number of entries.
    pub fn new(data: &'a [M], shape: &[usize]) -> Result<Self> {
        let mut strides = [0; 4];
        let mut size = Some(1usize);
        for (stride, &axis) in strides.iter_mut().rev().zip(shape.iter().rev()) {
            *stride = size.unwrap_or(usize::MAX);
            size = size.and_then(|size| size.checked_mul(axis));
        }
        if shape.len() <= 4 && size != Some(data.len()) {
            return Err(Error::length("attention: mask", size.unwrap_or(usize::MAX), data.len()));
        }
        MaskView::strided(data, shape, &strides[4 - shape.len().min(4)..])
    }

    /// Creates a view of an array of rank 0 to 4 with the given strides, in elements.
    ///
    /// # Errors
    /// If the rank is above 4, or the last entry is beyond `data`.
    pub fn strided(data: &'a [M], shape: &[usize], strides: &[usize]) -> Result<Self> {
        if shape.len() > 4 || strides.len() != shape.len() {
            let problem = format!(
                "expected rank 0 to 4 and one stride per axis, got rank {} and {} strides",
                shape.len(),
                strides.len()
            );
            return Err(Error::value("attention: mask", problem));
        }
        let mut view = MaskView { data, shape: [1; 4], strides: [0; 4] };
        let first = 4 - shape.len();
        view.shape[first..].copy_from_slice(shape);
        for axis in first..4 {
            // An axis of size 1 is broadcast.
            view.strides[axis] = if view.shape[axis] == 1 { 0 } else { strides[axis - first] };
        }
        if !view.shape.contains(&0) {
            let end = (0..4)
                .try_fold(1usize, |end, axis| end.checked_add((view.shape[axis] - 1).checked_mul(view.strides[axis])?));
            if end.is_none_or(|end| end > data.len()) {
                return Err(Error::length("attention: mask", end.unwrap_or(usize::MAX), data.len()));
            }
        }
        Ok(view)
    }

    /// Returns the index of the entry (batch, head, query, key) in `data`.
    #[inline(always)]
    pub(crate) fn entry_index(&self, b: usize, h: usize, i: usize, j: usize) -> usize {
        b * self.strides[0] + h * self.strides[1] + i * self.strides[2] + j * self.strides[3]
    }

    /// Returns a contiguous view of the same shape without data: the layout of a gradient.
    pub(crate) fn contiguous(&self) -> MaskView<'static, M> {
        let mut strides = [0; 4];
        let mut size = 1;
        for axis in (0..4).rev() {
            strides[axis] = if self.shape[axis] == 1 { 0 } else { size };
            size *= self.shape[axis];
        }
        MaskView { data: &[], shape: self.shape, strides }
    }

    /// Checks that the view broadcasts to `[batch, heads, queries, keys]`. Packed sequences read a corner of the last
    /// two axes, so larger axes are allowed too.
    fn check(&self, sizes: [usize; 4], is_packed: bool) -> Result<()> {
        let fits = (0..4).all(|axis| match self.shape[axis] {
            1 => true,
            n if axis >= 2 && is_packed => n >= sizes[axis],
            n => n == sizes[axis],
        });
        if fits {
            return Ok(());
        }
        let problem = format!(
            "expected a shape that broadcasts to (batch, heads, queries, keys) = {sizes:?}, got {:?}",
            self.shape
        );
        Err(Error::value("attention: mask", problem))
    }
}

/// A mask by entries. `S` is the type of sums ([`crate::Element::Sum`]).
#[derive(Clone, Copy, Debug)]
pub enum Mask<'a, S> {
    /// `true` allows the query to attend to the key.
    Boolean(MaskView<'a, bool>),
    /// Added to the scores; −∞ masks the key.
    Additive(MaskView<'a, S>),
}

impl<S: Copy> Mask<'_, S> {
    pub(crate) fn check(&self, sizes: [usize; 4], is_packed: bool) -> Result<()> {
        match self {
            Mask::Boolean(view) => view.check(sizes, is_packed),
            Mask::Additive(view) => view.check(sizes, is_packed),
        }
    }
}

/// The keys that each query may see by position: a band along the diagonal.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Band {
    /// Maximum number of keys before the diagonal.
    pub(crate) left: Option<usize>,
    /// Maximum number of keys after the diagonal; 0 is causal.
    pub(crate) right: Option<usize>,
    /// Alignment of the diagonal.
    pub(crate) diagonal: Causal,
}

impl Band {
    /// Returns the key position of query 0, for the given number of queries and keys.
    pub(crate) fn offset(&self, queries: usize, keys: usize) -> i64 {
        match self.diagonal {
            Causal::TopLeft => 0,
            Causal::BottomRight => keys as i64 - queries as i64,
            Causal::Offset(offset) => offset,
        }
    }

    /// Returns the range of keys that query `i` sees.
    #[inline(always)]
    pub(crate) fn range(&self, i: usize, offset: i64, keys: usize) -> Range<usize> {
        // Wide enough for any offset and any bound.
        let at = i128::from(offset) + i as i128;
        let clamp = |x: i128| usize::try_from(x).map_or(if x < 0 { 0 } else { keys }, |x| x.min(keys));
        let end = self.right.map_or(keys, |right| clamp(at + right as i128 + 1));
        let start = self.left.map_or(0, |left| clamp(at - left as i128));
        start.min(end)..end
    }
}
