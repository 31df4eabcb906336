//! Buffers filled with NaN between guard bands.

const BAND: usize = 64;
const PATTERN: f32 = -123_456.79;

/// A buffer with a known pattern before and after it.
#[derive(Debug)]
pub struct GuardedBuffer<T = f32> {
    data: Vec<T>,
    pattern: T,
}

impl GuardedBuffer {
    /// Builds a buffer of `len` NaN between two bands.
    pub fn new(len: usize) -> Self {
        GuardedBuffer::filled(len, f32::NAN, PATTERN)
    }
}

impl<T: Copy + PartialEq> GuardedBuffer<T> {
    /// Builds a buffer of `len` times `inside` between two bands of `pattern`.
    pub fn filled(len: usize, inside: T, pattern: T) -> Self {
        let mut data = vec![pattern; len + 2 * BAND];
        data[BAND..BAND + len].fill(inside);
        GuardedBuffer { data, pattern }
    }

    /// The mutable contents.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        let end = self.data.len() - BAND;
        &mut self.data[BAND..end]
    }

    /// Returns the contents after checking that nothing was written outside.
    ///
    /// # Panics
    /// If a band was overwritten.
    pub fn into_checked(self) -> Vec<T> {
        let end = self.data.len() - BAND;
        let bands = self.data[..BAND].iter().chain(&self.data[end..]);
        assert!(bands.copied().all(|x| x == self.pattern), "written outside the buffer");
        self.data[BAND..end].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "written outside")]
    fn an_overwritten_band_is_detected() {
        let mut guarded = GuardedBuffer::new(3);
        guarded.data[BAND + 3] = 0.0;
        guarded.into_checked();
    }

    #[test]
    fn unwritten_elements_are_nan() {
        let mut guarded = GuardedBuffer::new(2);
        guarded.as_mut_slice()[0] = 1.0;
        let taken = guarded.into_checked();
        assert!(taken[0] == 1.0 && taken[1].is_nan());
    }
}
