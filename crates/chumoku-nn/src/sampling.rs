//! Sampling: choosing the next token from its logits.

use crate::{Error, Result};
use chumoku_kernels::Philox;

/// Settings of sampling.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sampling {
    /// Divides the logits; 0 always takes the most probable token (the first of equal ones).
    pub temperature: f64,
    /// Samples only from the `top_k` most probable tokens; 0 for all.
    pub top_k: usize,
    /// Nucleus sampling: samples only from the fewest most probable tokens whose probabilities add up to `top_p`
    /// (Holtzman et al. 2020).
    pub top_p: f64,
    /// The random seed.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling { temperature: 1.0, top_k: 0, top_p: 1.0, seed: 42 }
    }
}

/// The random stream of sampling.
const SAMPLING_STREAM: u64 = 1 << 59;

impl Sampling {
    /// Checks that every setting is in range.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn check(&self) -> Result<()> {
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return Err(Error::Temperature(self.temperature));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return Err(Error::TopP(self.top_p));
        }
        Ok(())
    }

    /// Returns the probabilities of the tokens that may be sampled, most probable first (the smaller id of equal ones).
    ///
    /// # Errors
    /// If a setting is out of range, or a logit is NaN.
    pub(crate) fn candidates(&self, logits: &[f32]) -> Result<Vec<(u32, f64)>> {
        self.check()?;
        if logits.iter().any(|x| x.is_nan()) {
            return Err(Error::NanLogit);
        }
        let mut all: Vec<(u32, f64)> = (0..).zip(logits.iter().map(|&x| f64::from(x))).collect();
        let likelier = |a: &(u32, f64), b: &(u32, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        let kept = match (self.temperature == 0.0, self.top_k) {
            (true, _) => 1,
            (false, 0) => all.len(),
            (false, k) => k,
        };
        // The order of excluded tokens does not matter.
        if kept < all.len() {
            all.select_nth_unstable_by(kept, likelier);
            all.truncate(kept);
        }
        all.sort_unstable_by(likelier);
        let largest = all.first().map_or(0.0, |&(_, x)| x);
        let temperature = if self.temperature == 0.0 { 1.0 } else { self.temperature };
        // Divide by the sum only after choosing the tokens: with two divisions, rounding could decide where the nucleus
        // ends.
        all.iter_mut().for_each(|(_, x)| *x = ((*x - largest) / temperature).exp());
        let total: f64 = all.iter().map(|(_, p)| p).sum();
        let mut so_far = 0.0;
        let kept = all.iter().take_while(|(_, p)| {
            let is_needed = so_far < self.top_p * total;
            so_far += p;
            is_needed
        });
        let kept = kept.count().max(1).min(all.len());
        all.truncate(kept);
        let total: f64 = all.iter().map(|(_, p)| p).sum();
        all.iter_mut().for_each(|(_, p)| *p /= total);
        Ok(all)
    }

    /// Samples the token at position `index` of the generated text.
    ///
    /// # Errors
    /// If a setting is out of range, a logit is NaN, or there are no logits.
    pub fn sample(&self, logits: &[f32], index: u64) -> Result<u32> {
        let candidates = self.candidates(logits)?;
        let drawn = f64::from(Philox::new(self.seed, SAMPLING_STREAM).uniform(index));
        let mut so_far = 0.0;
        let found = candidates.iter().find(|(_, p)| {
            so_far += p;
            drawn < so_far
        });
        // Rounding may leave the last sum slightly below 1.
        let found = found.or(candidates.last()).map(|&(token, _)| token);
        found.ok_or(Error::NoLogits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 5] = [1.0, 3.0, 2.0, 3.0, -1.0];

    fn ids(sampling: &Sampling) -> Vec<u32> {
        sampling.candidates(&LOGITS).unwrap().into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn top_k_and_top_p_select_the_most_probable_tokens() {
        let all = Sampling::default();
        assert_eq!(ids(&all), [1, 3, 2, 0, 4]);
        assert_eq!(ids(&Sampling { temperature: 0.0, ..all }), [1]);
        assert_eq!(ids(&Sampling { top_k: 3, ..all }), [1, 3, 2]);
        // The probabilities are 0.39, 0.39, 0.14, 0.05 and 0.01.
        assert_eq!(ids(&Sampling { top_p: 0.3, ..all }), [1]);
        assert_eq!(ids(&Sampling { top_p: 0.5, ..all }), [1, 3]);
        assert_eq!(ids(&Sampling { top_p: 0.9, ..all }), [1, 3, 2]);
        // The two remaining tokens have a probability of one half each.
        assert_eq!(ids(&Sampling { top_p: 0.6, top_k: 2, ..all }), [1, 3]);
        assert_eq!(ids(&Sampling { top_p: 0.4, top_k: 2, ..all }), [1]);
    }

    #[test]
    fn probabilities_match_the_softmax() {
        for temperature in [0.5, 1.0, 2.0] {
            let found = Sampling { temperature, ..Sampling::default() }.candidates(&LOGITS).unwrap();
            let total: f64 = LOGITS.iter().map(|&x| (f64::from(x) / temperature).exp()).sum();
            for (id, p) in found {
                let expected = (f64::from(LOGITS[id as usize]) / temperature).exp() / total;
                assert!((p - expected).abs() < 1e-12, "{id}: {p} {expected}");
            }
        }
    }

    #[test]
    fn sampled_frequencies_match_the_probabilities() {
        let sampling = Sampling { temperature: 1.3, top_k: 4, ..Sampling::default() };
        let draws = 20_000u64;
        let mut counts = [0.0; 5];
        for index in 0..draws {
            counts[sampling.sample(&LOGITS, index).unwrap() as usize] += 1.0 / draws as f64;
        }
        for (id, p) in sampling.candidates(&LOGITS).unwrap() {
            // Four standard deviations.
            assert!((counts[id as usize] - p).abs() < 4.0 * (p * (1.0 - p) / draws as f64).sqrt(), "{counts:?}");
        }
        assert_eq!(counts[4], 0.0);
        let other = Sampling { seed: 43, ..sampling };
        assert!((0..100).any(|i| other.sample(&LOGITS, i).unwrap() != sampling.sample(&LOGITS, i).unwrap()));
    }

    #[test]
    fn settings_out_of_range_are_errors() {
        let sampling = Sampling::default();
        for bad in [
            Sampling { temperature: -1.0, ..sampling },
            Sampling { temperature: f64::NAN, ..sampling },
            Sampling { top_p: 0.0, ..sampling },
            Sampling { top_p: 1.1, ..sampling },
        ] {
            assert!(bad.sample(&LOGITS, 0).unwrap_err().to_string().contains("expected"));
        }
        assert!(sampling.sample(&[], 0).is_err());
        assert!(matches!(sampling.sample(&[0.0, f32::NAN], 0), Err(Error::NanLogit)));
    }
}
