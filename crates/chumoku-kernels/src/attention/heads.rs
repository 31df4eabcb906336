//! Memory layout of queries, keys, values and outputs: strided views, dense or packed.

use crate::error::{Error, Result};

/// A query: its sequence, its head, and its position in the sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueryIndex {
    pub(super) sequence: usize,
    pub(super) head: usize,
    pub(super) query: usize,
}

/// Arrangement of the sequences of a view.
#[derive(Clone, Copy, Debug)]
enum SequenceLayout<'a> {
    /// `batch` sequences of the same length, `stride` elements apart.
    Dense { batch: usize, length: usize, stride: usize },
    /// Sequence s holds the rows `offsets[s]..offsets[s + 1]`.
    Packed { offsets: &'a [usize] },
}

/// Offsets of rows: `dim` consecutive elements for each sequence, head and position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadsLayout<'a> {
    sequences: SequenceLayout<'a>,
    pub(crate) heads: usize,
    pub(crate) dim: usize,
    head_stride: usize,
    pub(crate) row_stride: usize,
}

impl<'a> HeadsLayout<'a> {
    fn dense([batch, heads, length, dim]: [usize; 4], [batch_stride, head_stride, row_stride]: [usize; 3]) -> Self {
        let sequences = SequenceLayout::Dense { batch, length, stride: batch_stride };
        HeadsLayout { sequences, heads, dim, head_stride, row_stride }
    }

    fn packed(offsets: &'a [usize], heads: usize, dim: usize, [head_stride, row_stride]: [usize; 2]) -> Self {
        HeadsLayout { sequences: SequenceLayout::Packed { offsets }, heads, dim, head_stride, row_stride }
    }

    /// Returns the number of sequences.
    pub(crate) fn sequence_count(&self) -> usize {
        match self.sequences {
            SequenceLayout::Dense { batch, .. } => batch,
            SequenceLayout::Packed { offsets } => offsets.len().saturating_sub(1),
        }
    }

    /// Returns the length of sequence `s`.
    pub(crate) fn length(&self, s: usize) -> usize {
        match self.sequences {
            SequenceLayout::Dense { length, .. } => length,
            SequenceLayout::Packed { offsets } => offsets[s + 1] - offsets[s],
        }
    }

    /// Returns the length of the longest sequence. A dense view has a length even without sequences.
    pub(crate) fn longest(&self) -> usize {
        match self.sequences {
            SequenceLayout::Dense { length, .. } => length,
            SequenceLayout::Packed { offsets } => offsets.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0),
        }
    }

    /// Returns the offset of row `i` of sequence `s` and head `h`.
    #[inline(always)]
    pub(crate) fn row_offset(&self, s: usize, h: usize, i: usize) -> usize {
        let (start, row) = match self.sequences {
            SequenceLayout::Dense { stride, .. } => (s * stride, i),
            SequenceLayout::Packed { offsets } => (0, offsets[s] + i),
        };
        start + h * self.head_stride + row * self.row_stride
    }

    /// Returns whether the sequences are packed, so that their lengths may differ.
    pub(crate) fn is_packed(&self) -> bool {
        matches!(self.sequences, SequenceLayout::Packed { .. })
    }

    /// Returns the number of sequence, head and row triples, which is the size of the log-sum-exp. `None` if it
    /// overflows.
    pub(crate) fn row_count(&self) -> Option<usize> {
        match self.sequences {
            SequenceLayout::Dense { batch, length, .. } => batch.checked_mul(self.heads)?.checked_mul(length),
            SequenceLayout::Packed { offsets } => self.heads.checked_mul(offsets.last().copied().unwrap_or(0)),
        }
    }

    /// Returns the index of a row among [`HeadsLayout::row_count`]: (batch, heads, length), packed (heads, tokens).
    #[inline(always)]
    pub(crate) fn row_index(&self, s: usize, h: usize, i: usize) -> usize {
        match self.sequences {
            SequenceLayout::Dense { length, .. } => (s * self.heads + h) * length + i,
            SequenceLayout::Packed { offsets } => h * offsets[offsets.len() - 1] + offsets[s] + i,
        }
    }

    /// Returns the end of the last element, or 0 if there is none. `None` if it overflows.
    fn end(&self) -> Option<usize> {
        let (starts, rows) = match self.sequences {
            SequenceLayout::Dense { batch: 0, .. } => (0, 0),
            SequenceLayout::Dense { batch, length, stride } => ((batch - 1).checked_mul(stride)?, length),
            SequenceLayout::Packed { offsets } => (0, offsets.last().copied().unwrap_or(0)),
        };
        if rows == 0 || self.heads == 0 {
            return Some(0);
        }
        let heads = (self.heads - 1).checked_mul(self.head_stride)?;
        let rows = (rows - 1).checked_mul(self.row_stride)?;
        starts.checked_add(heads)?.checked_add(rows)?.checked_add(self.dim)
    }

    fn check(&self, what: &'static str, len: usize) -> Result<()> {
        if self.heads == 0 || self.dim == 0 {
            let problem = format!("expected at least one head of width 1, got {} of {}", self.heads, self.dim);
            return Err(Error::value(what, problem));
        }
        if let SequenceLayout::Packed { offsets } = self.sequences
            && (offsets.first() != Some(&0) || offsets.windows(2).any(|w| w[0] > w[1]))
        {
            return Err(Error::value(what, "offsets: expected non-decreasing numbers that start with 0"));
        }
        match self.end() {
            Some(end) if end <= len => Ok(()),
            end => Err(Error::length(what, end.unwrap_or(usize::MAX), len)),
        }
    }

    /// Checks that no two rows share an element.
    fn check_no_overlap(&self, what: &'static str) -> Result<()> {
        let (batch, length, stride) = match self.sequences {
            SequenceLayout::Dense { batch, length, stride } => (batch, length, stride),
            SequenceLayout::Packed { offsets } => (1, offsets.last().copied().unwrap_or(0), 0),
        };
        if batch == 0 || length == 0 {
            return Ok(());
        }
        let mut axes = [(stride, batch), (self.head_stride, self.heads), (self.row_stride, length)];
        axes.sort_unstable();
        let mut extent = self.dim;
        for (stride, size) in axes {
            if size > 1 {
                if stride < extent {
                    return Err(Error::value(what, format!("expected rows that do not overlap, got strides {axes:?}")));
                }
                extent += (size - 1) * stride;
            }
        }
        Ok(())
    }
}

/// A read-only view of queries, keys, values or outputs. It has a row of `dim` consecutive values for each sequence,
/// head and position. All other strides are arbitrary.
#[derive(Clone, Copy, Debug)]
pub struct Heads<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) layout: HeadsLayout<'a>,
}

/// A writable view like [`Heads`]. No two rows may overlap.
#[derive(Debug)]
pub struct HeadsMut<'a, T> {
    pub(crate) data: &'a mut [T],
    pub(crate) layout: HeadsLayout<'a>,
}

/// The constructors that both kinds of view share.
macro_rules! constructors {
    ($data:ty, $what:literal, |$view:ident| $check:expr) => {
        /// Creates a view of a contiguous array of shape (batch, heads, length, dim).
        ///
        /// # Errors
        /// If heads or dim is 0, or `data` is too short.
        pub fn bhld(data: $data, [batch, heads, length, dim]: [usize; 4]) -> Result<Self> {
            let row = dim;
            let head = length.saturating_mul(row);
            Self::strided(data, [batch, heads, length, dim], [heads.saturating_mul(head), head, row])
        }

        /// Creates a view of a contiguous array of shape (batch, length, heads, dim).
        ///
        /// # Errors
        /// If heads or dim is 0, or `data` is too short.
        pub fn blhd(data: $data, [batch, length, heads, dim]: [usize; 4]) -> Result<Self> {
            let row = heads.saturating_mul(dim);
            Self::strided(data, [batch, heads, length, dim], [length.saturating_mul(row), dim, row])
        }

        /// Creates a view of shape (batch, heads, length, dim). Its first three axes have the given strides, in
        /// elements. The last axis is contiguous.
        ///
        /// # Errors
        /// If heads or dim is 0, the last element is beyond `data`, or rows of a writable view overlap.
        pub fn strided(data: $data, shape: [usize; 4], strides: [usize; 3]) -> Result<Self> {
            let $view = Self { layout: HeadsLayout::dense(shape, strides), data };
            $view.layout.check($what, $view.data.len())?;
            $check?;
            Ok($view)
        }

        /// Creates a view of packed sequences in an array of shape (tokens, heads · dim) whose rows are `row_stride`
        /// elements apart. Sequence s holds the rows `offsets[s]..offsets[s + 1]`, possibly none.
        ///
        /// # Errors
        /// If heads or dim is 0, offsets do not start with 0 or decrease, or `data` is too short.
        pub fn packed(data: $data, offsets: &'a [usize], heads: usize, dim: usize, row_stride: usize) -> Result<Self> {
            Self::packed_strided(data, offsets, [heads, dim], [dim, row_stride])
        }

        /// Creates a view like `packed`, of an array of shape (tokens, heads, dim) with the given strides of heads and
        /// tokens. They are `[dim, heads · dim]` for a contiguous array, and `[tokens · dim, dim]` if the rows of each
        /// head are contiguous.
        ///
        /// # Errors
        /// Same as for `packed`.
        pub fn packed_strided(
            data: $data,
            offsets: &'a [usize],
            [heads, dim]: [usize; 2],
            strides: [usize; 2],
        ) -> Result<Self> {
            let $view = Self { layout: HeadsLayout::packed(offsets, heads, dim, strides), data };
            $view.layout.check($what, $view.data.len())?;
            $check?;
            Ok($view)
        }

        /// Returns the number of sequences.
        pub fn sequences(&self) -> usize {
            self.layout.sequence_count()
        }

        /// Returns the number of heads.
        pub fn heads(&self) -> usize {
            self.layout.heads
        }

        /// Returns the number of rows in sequence `s`.
        ///
        /// # Panics
        /// If `s` is not the index of a packed sequence.
        pub fn length(&self, s: usize) -> usize {
            self.layout.length(s)
        }

        /// Returns the width of a row.
        pub fn dim(&self) -> usize {
            self.layout.dim
        }
    };
}

impl<'a, T> Heads<'a, T> {
    constructors!(&'a [T], "attention: view", |view| Ok::<(), Error>(()));

    /// Returns row `i` of sequence `s` and head `h`.
    ///
    /// # Panics
    /// If the row does not exist.
    #[inline(always)]
    pub fn row(&self, s: usize, h: usize, i: usize) -> &'a [T] {
        &self.data[self.layout.row_offset(s, h, i)..][..self.layout.dim]
    }
}

impl<'a, T> HeadsMut<'a, T> {
    constructors!(&'a mut [T], "attention: view to write", |view| view
        .layout
        .check_no_overlap("attention: view to write"));

    /// Returns a read-only view of the same data.
    pub(crate) fn as_heads(&self) -> Heads<'_, T> {
        Heads { data: self.data, layout: self.layout }
    }

    /// Reborrows the view for a shorter lifetime.
    pub(crate) fn reborrow(&mut self) -> HeadsMut<'_, T> {
        HeadsMut { data: self.data, layout: self.layout }
    }

    /// Returns row `i` of sequence `s` and head `h`.
    ///
    /// # Panics
    /// If the row does not exist.
    #[inline(always)]
    pub fn row_mut(&mut self, s: usize, h: usize, i: usize) -> &mut [T] {
        let at = self.layout.row_offset(s, h, i);
        &mut self.data[at..][..self.layout.dim]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_views_support_both_orders_of_heads_and_tokens() {
        let data: Vec<f32> = (0..24).map(|x| x as f32).collect();
        let by_token = Heads::packed(&data, &[0, 1, 4], 3, 2, 6).unwrap();
        let by_head = Heads::packed_strided(&data, &[0, 1, 4], [3, 2], [8, 2]).unwrap();
        assert_eq!((by_token.row(1, 2, 0), by_head.row(1, 2, 0)), (&[10.0, 11.0][..], &[18.0, 19.0][..]));
        assert!(Heads::packed_strided(&data, &[0, 1, 4], [3, 2], [9, 2]).is_err(), "the view exceeds the array");
        let mut data = data;
        assert!(HeadsMut::packed_strided(&mut data, &[0, 4], [3, 2], [8, 2]).is_ok());
        assert!(HeadsMut::packed_strided(&mut data, &[0, 4], [3, 2], [6, 2]).is_err(), "writable rows overlap");
    }
}
