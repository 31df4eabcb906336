//! Counter-based random numbers: the same seed, stream and index give the same number, in any order, on any thread.

/// Philox4x32-10, keyed by a seed; the counter is (index, stream).
///
/// Source: Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (2011).
///
/// ```
/// use chumoku_kernels::Philox;
/// let random = Philox::new(42, 7);
/// assert_eq!(random.block(3), Philox::new(42, 7).block(3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Philox {
    seed: u64,
    stream: u64,
}

pub(crate) const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// Blocks that [`Philox::fill_lanes`] computes in parallel.
pub(crate) const LANES: usize = 16;

impl Philox {
    /// Creates the generator of `seed` for one purpose (`stream`).
    pub fn new(seed: u64, stream: u64) -> Self {
        Philox { seed, stream }
    }

    /// Returns the block at `index`: four random words.
    pub fn block(&self, index: u64) -> [u32; 4] {
        let mut counter = [index as u32, (index >> 32) as u32, self.stream as u32, (self.stream >> 32) as u32];
        let mut key = [self.seed as u32, (self.seed >> 32) as u32];
        for _ in 0..ROUNDS {
            let p0 = u64::from(MULTIPLIERS[0]) * u64::from(counter[0]);
            let p1 = u64::from(MULTIPLIERS[1]) * u64::from(counter[2]);
            counter = [
                (p1 >> 32) as u32 ^ counter[1] ^ key[0],
                p1 as u32,
                (p0 >> 32) as u32 ^ counter[3] ^ key[1],
                p0 as u32,
            ];
            key = [key[0].wrapping_add(KEY_STEPS[0]), key[1].wrapping_add(KEY_STEPS[1])];
        }
        counter
    }

    /// Returns the counters of the blocks `index..index + 16`, transposed: word w of block l is `[w][l]`.
    #[inline(always)]
    pub(crate) fn counters(&self, index: u64) -> [[u32; LANES]; 4] {
        let mut c = [[0; LANES], [0; LANES], [self.stream as u32; LANES], [(self.stream >> 32) as u32; LANES]];
        let (low, rest) = c.split_at_mut(1);
        for (l, (low, high)) in low[0].iter_mut().zip(&mut rest[0]).enumerate() {
            let at = index.wrapping_add(l as u64);
            (*low, *high) = (at as u32, (at >> 32) as u32);
        }
        c
    }

    /// Returns the key of each round.
    #[inline(always)]
    pub(crate) fn keys(&self) -> [[u32; 2]; ROUNDS] {
        let mut keys = [[self.seed as u32, (self.seed >> 32) as u32]; ROUNDS];
        for round in 1..ROUNDS {
            let [a, b] = keys[round - 1];
            keys[round] = [a.wrapping_add(KEY_STEPS[0]), b.wrapping_add(KEY_STEPS[1])];
        }
        keys
    }

    /// Computes the blocks `index..index + 16`, transposed: word w of block l is `[w][l]`. Vectorizes where it is
    /// inlined.
    #[inline(always)]
    pub(crate) fn fill_lanes(&self, index: u64) -> [[u32; LANES]; 4] {
        let mut c = self.counters(index);
        for key in self.keys() {
            let mut next = [[0; LANES]; 4];
            for l in 0..LANES {
                let p0 = u64::from(MULTIPLIERS[0]) * u64::from(c[0][l]);
                let p1 = u64::from(MULTIPLIERS[1]) * u64::from(c[2][l]);
                next[0][l] = (p1 >> 32) as u32 ^ c[1][l] ^ key[0];
                next[1][l] = p1 as u32;
                next[2][l] = (p0 >> 32) as u32 ^ c[3][l] ^ key[1];
                next[3][l] = p0 as u32;
            }
            c = next;
        }
        c
    }

    /// Returns one bit for each half of each word of the blocks `index..index + 16`, in the layout of
    /// [`Philox::factors`]: set if the half is at least `threshold`.
    #[inline(always)]
    pub(crate) fn bits(&self, index: u64, threshold: u32) -> [u16; 8] {
        self.factors(index, threshold, 1.0)
            .map(|row| row.iter().enumerate().fold(0, |bits, (lane, &factor)| bits | u16::from(factor > 0.0) << lane))
    }

    /// Returns one factor for each half of each word of the blocks `index..index + 16`, the lower half first: `factor`
    /// if the half is at least `threshold`, otherwise 0. Rows are the halves of word 0, word 1, and so on. Each row has
    /// one column per block.
    #[inline(always)]
    pub(crate) fn factors(&self, index: u64, threshold: u32, factor: f32) -> [[f32; LANES]; 8] {
        let words = self.fill_lanes(index);
        let mut factors = [[0.0; LANES]; 8];
        for (row, factors) in factors.iter_mut().enumerate() {
            for (out, word) in factors.iter_mut().zip(words[row / 2]) {
                let half = (word >> (16 * (row % 2))) & 0xFFFF;
                *out = if half >= threshold { factor } else { 0.0 };
            }
        }
        factors
    }

    /// Returns the `index`-th number of the stream in [0, 1), with 24 random bits.
    pub fn uniform(&self, index: u64) -> f32 {
        (self.block(index / 4)[(index % 4) as usize] >> 8) as f32 * (1.0 / 16_777_216.0)
    }

    /// Returns the `index`-th number of the stream from the standard normal distribution (Box and Muller, 1958).
    pub fn normal(&self, index: u64) -> f32 {
        let [a, b, _, _] = self.block(index);
        let radius = (-2.0 * ((f64::from(a) + 1.0) / 4_294_967_296.0).ln()).sqrt();
        (radius * (std::f64::consts::TAU * f64::from(b) / 4_294_967_296.0).cos()) as f32
    }

    /// Returns a random permutation of `0..n` (Fisher and Yates, 1938, with Durstenfeld's swaps).
    pub fn permutation(&self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            let [a, b, _, _] = self.block(i as u64);
            let wide = (u64::from(a) << 32) | u64::from(b);
            // The bias of the remainder is below n / 2^64.
            order.swap(i, (wide % (i as u64 + 1)) as usize);
        }
        order
    }
}

/// Returns the FNV-1a hash of bytes or larger words (Fowler, Noll and Vo), for example as the stream of a name.
#[inline]
pub fn fnv1a<W: Into<u64>>(words: impl IntoIterator<Item = W>) -> u64 {
    words.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ word.into()).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv1a_matches_its_authors_vectors() {
        let found = ["", "a", "foobar"].map(|text| fnv1a(text.bytes()));
        assert_eq!(found, [0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8]);
        assert_eq!(fnv1a("foobar".chars()), found[2]);
    }

    #[test]
    fn matches_known_answers() {
        // From the test vectors of the authors' Random123 library (kat_vectors, philox4x32 10).
        assert_eq!(Philox::new(0, 0).block(0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            Philox::new(u64::MAX, u64::MAX).block(u64::MAX),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        let stream = 0x0370_7344_1319_8a2e_u64;
        let index = 0x85a3_08d3_243f_6a88_u64;
        let seed = 0x299f_31d0_a409_3822_u64;
        assert_eq!(Philox::new(seed, stream).block(index), [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
    }

    #[test]
    fn fill_lanes_matches_block() {
        let random = Philox::new(9, 1 << 40);
        let index = u64::from(u32::MAX) - 5;
        let lanes = random.fill_lanes(index);
        let block = |l: usize| random.block(index + l as u64);
        assert!((0..LANES).all(|l| block(l) == std::array::from_fn(|w| lanes[w][l])));
    }

    #[test]
    fn moments_are_correct() {
        let random = Philox::new(1, 2);
        let n = 200_000;
        let mean = (0..n).map(|i| f64::from(random.normal(i))).sum::<f64>() / n as f64;
        let square = (0..n).map(|i| f64::from(random.normal(i)).powi(2)).sum::<f64>() / n as f64;
        assert!(mean.abs() < 0.01 && (square - 1.0).abs() < 0.02, "{mean} {square}");
        let uniform = (0..n).map(|i| f64::from(random.uniform(i))).sum::<f64>() / n as f64;
        assert!((uniform - 0.5).abs() < 0.005);
    }

    #[test]
    fn permutation_contains_each_index_once() {
        let mut order = Philox::new(3, 0).permutation(1000);
        assert_ne!(order, (0..1000).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..1000).collect::<Vec<_>>());
    }
}
