//! Buffers that start as NaN between guard bands.

const BAND: usize = 64;
const PATTERN: f32 = -123_456.79;

/// A buffer of NaN with a known pattern before and behind it.
#[derive(Debug)]
pub struct Guarded {
    data: Vec<f32>,
}

impl Guarded {
    /// `len` NaN between two bands.
    pub fn new(len: usize) -> Self {
        let mut data = vec![PATTERN; len + 2 * BAND];
        data[BAND..BAND + len].fill(f32::NAN);
        Guarded { data }
    }

    /// The buffer, to be written.
    pub fn inner(&mut self) -> &mut [f32] {
        let end = self.data.len() - BAND;
        &mut self.data[BAND..end]
    }

    /// The contents, after checking that nothing was written outside.
    ///
    /// # Panics
    /// If a band was touched.
    pub fn take(self) -> Vec<f32> {
        let end = self.data.len() - BAND;
        let bands = self.data[..BAND].iter().chain(&self.data[end..]);
        assert!(bands.copied().all(|x| x == PATTERN), "written outside the buffer");
        self.data[BAND..end].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "written outside")]
    fn a_touched_band_is_found() {
        let mut guarded = Guarded::new(3);
        guarded.data[BAND + 3] = 0.0;
        guarded.take();
    }

    #[test]
    fn what_is_not_written_is_nan() {
        let mut guarded = Guarded::new(2);
        guarded.inner()[0] = 1.0;
        let taken = guarded.take();
        assert!(taken[0] == 1.0 && taken[1].is_nan());
    }
}
