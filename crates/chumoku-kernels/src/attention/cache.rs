//! Key–value cache: keys and values of earlier tokens for the queries of later ones.

use super::heads::Heads;
use crate::error::{Error, Result};
use crate::number::Element;

/// Keys and values of a batch of sequences that grow token by token during decoding.
///
/// New rows are appended in place, and sequences may have different lengths. When the capacity runs out, it doubles. A
/// token therefore costs its own copy plus, on average, at most two more. A cache that is created with the final
/// capacity never moves anything. A [limit](KeyValueCache::limit) makes it return an error instead of exceeding the
/// memory or the positions of a model. The cache holds batch · heads · capacity · (dim + value dim) values, and
/// temporarily three times the old amount while it grows.
///
/// ```
/// use chumoku_kernels::{Attention, Causal, Heads, HeadsMut, KeyValueCache};
///
/// let mut cache = KeyValueCache::new(1, 1, [2, 1], 64)?.limit(4096);
/// for token in 0..3 {
///     let value = [token as f32];
///     cache.append(Heads::bhld(&[0.0, 1.0], [1, 1, 1, 2])?, Heads::bhld(&value, [1, 1, 1, 1])?)?;
///     let mut output = [0.0];
///     Attention::new(Heads::bhld(&[1.0, 1.0], [1, 1, 1, 2])?, cache.key(), cache.value())
///         .key_lengths(cache.lengths())
///         .causal(Causal::BottomRight)
///         .forward(HeadsMut::bhld(&mut output, [1, 1, 1, 1])?)?;
///     // All keys are equal, so the output is the mean of the values so far.
///     assert!((output[0] - token as f32 / 2.0).abs() < 1e-6);
/// }
/// # Ok::<(), chumoku_kernels::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct KeyValueCache<T> {
    /// Both are (batch, heads, capacity, own width).
    key: Vec<T>,
    value: Vec<T>,
    heads: usize,
    dims: [usize; 2],
    capacity: usize,
    limit: usize,
    window: Option<usize>,
    lengths: Vec<usize>,
    /// Number of evicted tokens of each sequence, before those that are held.
    evicted: Vec<usize>,
}

impl<T: Element> KeyValueCache<T> {
    /// Creates an empty cache with capacity for `capacity` tokens of `batch` sequences. `dims` are the widths of keys
    /// and values.
    ///
    /// # Errors
    /// If heads or a width is 0, or memory allocation fails.
    pub fn new(batch: usize, heads: usize, dims: [usize; 2], capacity: usize) -> Result<Self> {
        if heads == 0 || dims.contains(&0) {
            let problem = format!("expected at least one head of width 1, got {heads} of {} and {}", dims[0], dims[1]);
            return Err(Error::value("cache: heads", problem));
        }
        let mut lengths = Vec::new();
        lengths.try_reserve_exact(batch).map_err(|_| out_of_memory(batch, heads, dims, capacity))?;
        lengths.resize(batch, 0);
        let mut cache = KeyValueCache {
            key: Vec::new(),
            value: Vec::new(),
            heads,
            dims,
            capacity: 0,
            limit: usize::MAX,
            window: None,
            evicted: lengths.clone(),
            lengths,
        };
        cache.reserve(capacity)?;
        Ok(cache)
    }

    /// Limits each sequence to `tokens` tokens in total: beyond that, [`KeyValueCache::append`] returns an error.
    pub fn limit(self, tokens: usize) -> Self {
        KeyValueCache { limit: tokens, ..self }
    }

    /// Lets the cache evict all but the last `tokens` tokens of a sequence when the capacity runs out. Memory then
    /// stays constant for sequences of any length. Use it for attention with a window of that size
    /// ([`crate::Attention::window`]), aligned [`crate::Causal::BottomRight`].
    ///
    /// The cache then has capacity for twice as many tokens, and moves each token about once.
    pub fn window(self, tokens: usize) -> Self {
        KeyValueCache { window: Some(tokens), ..self }
    }

    /// Appends the keys and values of new tokens: one row per token, head and sequence.
    ///
    /// With packed views, each sequence may get a different number of tokens, including none.
    ///
    /// # Shapes
    /// `key` (batch, heads, new tokens, dim), `value` (batch, heads, new tokens, value dim).
    ///
    /// # Errors
    /// If shapes do not match, a sequence would exceed the limit, or memory allocation fails. On error nothing is
    /// appended.
    pub fn append(&mut self, key: Heads<'_, T>, value: Heads<'_, T>) -> Result<()> {
        let (batch, heads) = (self.lengths.len(), self.heads);
        for (what, view, dim) in [("cache: key", key, self.dims[0]), ("cache: value", value, self.dims[1])] {
            if (view.sequences(), view.heads(), view.dim()) != (batch, heads, dim) {
                let problem = format!(
                    "expected {batch} sequences, {heads} heads of width {dim}, got {}, {} of {}",
                    view.sequences(),
                    view.heads(),
                    view.dim()
                );
                return Err(Error::value(what, problem));
            }
        }
        let added = |s: usize| key.length(s);
        let mut needed = self.capacity;
        for (s, &held) in self.lengths.iter().enumerate() {
            if value.length(s) != key.length(s) {
                let problem =
                    format!("expected {} rows in sequence {s} as of the keys, got {}", key.length(s), value.length(s));
                return Err(Error::value("cache: value", problem));
            }
            let length = held.saturating_add(added(s));
            if self.evicted[s].saturating_add(length) > self.limit {
                let problem = format!(
                    "expected at most {} tokens in sequence {s}, got {} after the {} held",
                    self.limit,
                    added(s),
                    self.evicted[s] + held
                );
                return Err(Error::value("cache: limit", problem));
            }
            needed = needed.max(length);
        }
        if needed > self.capacity
            && let Some(window) = self.window
        {
            self.evict(window);
            let longest = (0..batch).map(|s| self.lengths[s] + added(s)).max().unwrap_or(0);
            needed = longest.max(self.capacity).max(window.saturating_mul(2).min(needed));
        }
        if needed > self.capacity {
            let most = self.window.map_or(self.limit, |window| window.saturating_mul(2).min(self.limit));
            self.reserve(needed.max(self.capacity.saturating_mul(2).min(most)))?;
        }
        for s in 0..batch {
            for h in 0..heads {
                for i in 0..key.length(s) {
                    let row = (s * heads + h) * self.capacity + self.lengths[s] + i;
                    for (data, view, dim) in
                        [(&mut self.key, key, self.dims[0]), (&mut self.value, value, self.dims[1])]
                    {
                        data[row * dim..][..dim].copy_from_slice(view.row(s, h, i));
                    }
                }
            }
        }
        self.lengths.iter_mut().enumerate().for_each(|(s, held)| *held += key.length(s));
        Ok(())
    }

    /// Evicts all but the last `window` tokens of each sequence.
    fn evict(&mut self, window: usize) {
        for s in 0..self.lengths.len() {
            let held = self.lengths[s];
            let kept = held.min(window);
            for h in 0..self.heads {
                for (data, dim) in [(&mut self.key, self.dims[0]), (&mut self.value, self.dims[1])] {
                    let head = (s * self.heads + h) * self.capacity;
                    data.copy_within((head + held - kept) * dim..(head + held) * dim, head * dim);
                }
            }
            self.evicted[s] += held - kept;
            self.lengths[s] = kept;
        }
    }

    /// Removes the tokens of sequence `s` from position `length` on, for example to reject speculative tokens. Does
    /// nothing if the sequence is not longer.
    ///
    /// # Panics
    /// If the sequence does not exist.
    pub fn truncate(&mut self, s: usize, length: usize) {
        self.lengths[s] = self.lengths[s].min(length);
    }

    /// Reorders the batch: sequence `sequences[i]` becomes sequence i. Use it to reorder beams, to duplicate sequences
    /// and to drop finished ones.
    ///
    /// Copies only the held tokens, and only of sequences that move.
    ///
    /// # Errors
    /// If a sequence does not exist, or memory allocation fails. On error nothing changes.
    pub fn select(&mut self, sequences: &[usize]) -> Result<()> {
        let (old, new) = (self.lengths.len(), sequences.len());
        if let Some(bad) = sequences.iter().find(|&&from| from >= old) {
            return Err(Error::value("cache: sequences", format!("expected below {old}, got {bad}")));
        }
        for (data, dim) in [(&mut self.key, self.dims[0]), (&mut self.value, self.dims[1])] {
            let size = new.checked_mul(self.heads * self.capacity * dim).map(|size| size.saturating_sub(data.len()));
            let room = size.and_then(|more| data.try_reserve_exact(more).ok());
            room.ok_or_else(|| out_of_memory(new, self.heads, self.dims, self.capacity))?;
        }
        for (data, dim) in [(&mut self.key, self.dims[0]), (&mut self.value, self.dims[1])] {
            let head = self.capacity * dim;
            data.resize(old.max(new) * self.heads * head, T::default());
            reorder_rows(data, [self.heads, head, dim], &self.lengths, sequences);
            data.truncate(new * self.heads * head);
        }
        self.lengths = sequences.iter().map(|&from| self.lengths[from]).collect();
        self.evicted = sequences.iter().map(|&from| self.evicted[from]).collect();
        Ok(())
    }

    /// Returns the number of tokens that each sequence holds, for [`crate::Attention::key_lengths`].
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Returns the position of each sequence's next token: the number of held and evicted tokens.
    pub fn positions(&self) -> Vec<usize> {
        self.lengths.iter().zip(&self.evicted).map(|(held, forgotten)| held + forgotten).collect()
    }

    /// Returns the number of tokens that fit without reallocation.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the keys: (batch, heads, longest length, dim).
    ///
    /// Rows beyond a sequence's own length are undefined.
    pub fn key(&self) -> Heads<'_, T> {
        self.view(&self.key, self.dims[0])
    }

    /// Returns the values: (batch, heads, longest length, value dim).
    ///
    /// Rows beyond a sequence's own length are undefined.
    pub fn value(&self) -> Heads<'_, T> {
        self.view(&self.value, self.dims[1])
    }

    fn view<'a>(&self, data: &'a [T], dim: usize) -> Heads<'a, T> {
        let longest = self.lengths.iter().copied().max().unwrap_or(0);
        let head = self.capacity * dim;
        let view = Heads::strided(data, [self.lengths.len(), self.heads, longest, dim], [self.heads * head, head, dim]);
        view.expect("the cache has the size of its capacity, which no length exceeds")
    }

    /// Grows the capacity to `capacity` tokens, and moves the held rows to their new positions.
    fn reserve(&mut self, capacity: usize) -> Result<()> {
        let (batch, heads, old) = (self.lengths.len(), self.heads, self.capacity);
        let grown = |from: &[T], dim: usize| -> Option<Vec<T>> {
            let size = batch.checked_mul(heads)?.checked_mul(capacity)?.checked_mul(dim)?;
            let mut to = Vec::new();
            to.try_reserve_exact(size).ok()?;
            to.resize(size, T::default());
            for pair in 0..batch * heads {
                let held = self.lengths[pair / heads] * dim;
                to[pair * capacity * dim..][..held].copy_from_slice(&from[pair * old * dim..][..held]);
            }
            Some(to)
        };
        let both = grown(&self.key, self.dims[0]).zip(grown(&self.value, self.dims[1]));
        (self.key, self.value) = both.ok_or_else(|| out_of_memory(batch, heads, self.dims, capacity))?;
        self.capacity = capacity;
        Ok(())
    }
}

/// Moves the held rows of sequence `sequences[i]` to sequence i, for each i. Consecutive heads are `head` values apart.
fn reorder_rows<T: Copy>(data: &mut [T], [heads, head, dim]: [usize; 3], lengths: &[usize], sequences: &[usize]) {
    // The last destination of each sequence: it must not be overwritten before that.
    let mut last = vec![0; lengths.len()];
    sequences.iter().enumerate().for_each(|(to, &from)| last[from] = to);
    let mut kept: Vec<Vec<T>> = vec![Vec::new(); lengths.len()];
    let parts = |s: usize, held: usize| (0..heads).map(move |h| (s * heads + h) * head..(s * heads + h) * head + held);
    for (to, &from) in sequences.iter().enumerate() {
        if from == to {
            continue;
        }
        if to < lengths.len() && last[to] > to {
            kept[to] = parts(to, lengths[to] * dim).flat_map(|part| data[part].to_vec()).collect();
        }
        let held = lengths[from] * dim;
        for (h, (source, target)) in parts(from, held).zip(parts(to, held)).enumerate() {
            // An earlier sequence was overwritten only if it did not keep its position.
            if from < to && sequences[from] != from {
                data[target].copy_from_slice(&kept[from][h * held..][..held]);
            } else {
                data.copy_within(source, target.start);
            }
        }
    }
}

fn out_of_memory(batch: usize, heads: usize, dims: [usize; 2], capacity: usize) -> Error {
    let [dim, value_dim] = dims;
    let problem = format!(
        "no memory for {batch} sequences · {heads} heads · {capacity} tokens · ({dim} + {value_dim}); lower the limit"
    );
    Error::value("cache: capacity", problem)
}
