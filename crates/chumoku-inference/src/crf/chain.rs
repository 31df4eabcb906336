//! A linear-chain conditional random field: probabilities, their gradient, and the best labels (Lafferty, McCallum and
//! Pereira 2001).
//!
//! With emissions e (positions, labels) and transitions w (labels + 1, labels), whose last row is the start,
//!
//! ```text
//! score(y) = Σ_t e[t, y_t] + w[y_{t−1}, y_t]        p(y) = exp(score(y)) / Z
//! ```
//!
//! Z and the marginals come from the forward and backward sums. Each position is scaled to a sum of 1 (Rabiner 1989).
//! This equals the log-space recurrence without a logarithm per step. A transition of −∞ is forbidden: paths with it
//! have probability 0.

/// Transitions between labels, with their exponentials.
#[derive(Clone, Debug)]
pub struct Transitions {
    pub(crate) labels: usize,
    /// (labels + 1, labels), −∞ where forbidden.
    pub(crate) scores: Vec<f64>,
    exp: Vec<f64>,
}

impl Transitions {
    pub(crate) fn new(labels: usize, scores: Vec<f64>) -> Self {
        assert_eq!(scores.len(), (labels + 1) * labels);
        let exp = scores.iter().map(|x| x.exp()).collect();
        Transitions { labels, scores, exp }
    }

    /// Sets the score of one transition.
    pub(crate) fn set(&mut self, at: usize, score: f64) {
        self.scores[at] = score;
        self.exp[at] = score.exp();
    }

    fn row(&self, from: usize) -> &[f64] {
        &self.exp[from * self.labels..][..self.labels]
    }
}

/// The forward and backward sums of a chain.
#[derive(Debug, Default)]
pub struct ForwardBackward {
    /// exp(e − max e), (positions, labels).
    potentials: Vec<f64>,
    forward: Vec<f64>,
    backward: Vec<f64>,
    /// The divisor of the forward sums at each position.
    scales: Vec<f64>,
    pub(crate) log_z: f64,
}

impl ForwardBackward {
    /// Computes the sums of `emissions` (positions, labels). `None` if they are not finite or no path is possible.
    pub(crate) fn new(emissions: &[f32], transitions: &Transitions) -> Option<ForwardBackward> {
        let labels = transitions.labels;
        let n = emissions.len() / labels;
        let mut sums = ForwardBackward {
            potentials: vec![0.0; n * labels],
            forward: vec![0.0; n * labels],
            backward: vec![1.0; n * labels],
            scales: vec![1.0; n],
            log_z: 0.0,
        };
        // forward[t, y] = ψ[t, y] · Σ_x forward[t−1, x] · exp w[x, y], over their sum
        for t in 0..n {
            let here = t * labels..(t + 1) * labels;
            let row = &emissions[here.clone()];
            let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let potentials = &mut sums.potentials[here.clone()];
            potentials.iter_mut().zip(row).for_each(|(p, e)| *p = (f64::from(*e) - f64::from(most)).exp());
            let (before, rest) = sums.forward.split_at_mut(here.start);
            let forward = &mut rest[..labels];
            match t {
                0 => forward.copy_from_slice(transitions.row(labels)),
                _ => {
                    for (x, a) in before[(t - 1) * labels..].iter().enumerate() {
                        forward.iter_mut().zip(transitions.row(x)).for_each(|(f, w)| *f += a * w);
                    }
                }
            }
            forward.iter_mut().zip(potentials.iter()).for_each(|(f, p)| *f *= p);
            let scale: f64 = forward.iter().sum();
            if !scale.is_finite() || scale <= 0.0 {
                return None;
            }
            forward.iter_mut().for_each(|f| *f /= scale);
            sums.scales[t] = scale;
            sums.log_z += scale.ln() + f64::from(most);
        }
        // backward[t, x] = Σ_y exp w[x, y] · ψ[t+1, y] · backward[t+1, y], over the scale of t + 1
        for t in (0..n.saturating_sub(1)).rev() {
            let next = (t + 1) * labels..(t + 2) * labels;
            let scale = sums.scales[t + 1];
            let (before, rest) = sums.backward.split_at_mut(next.start);
            let after: Vec<f64> =
                rest[..labels].iter().zip(&sums.potentials[next]).map(|(b, p)| b * p / scale).collect();
            for (x, b) in before[t * labels..].iter_mut().enumerate() {
                *b = transitions.row(x).iter().zip(&after).map(|(w, a)| w * a).sum();
            }
        }
        Some(sums)
    }

    /// Returns the probability of each label at a position.
    pub(crate) fn marginals(&self, t: usize, labels: usize) -> impl Iterator<Item = f64> {
        let here = t * labels..(t + 1) * labels;
        self.forward[here.clone()].iter().zip(&self.backward[here]).map(|(f, b)| f * b)
    }

    /// Adds the probability of each pair of neighboring labels to `pairs` (labels + 1, labels).
    pub(crate) fn add_pairs(&self, transitions: &Transitions, pairs: &mut [f64]) {
        let labels = transitions.labels;
        for (p, m) in pairs[labels * labels..].iter_mut().zip(self.marginals(0, labels)) {
            *p += m;
        }
        for t in 1..self.scales.len() {
            let here = t * labels..(t + 1) * labels;
            let (psi, b) = (&self.potentials[here.clone()], &self.backward[here]);
            let after: Vec<f64> = psi.iter().zip(b).map(|(p, b)| p * b / self.scales[t]).collect();
            for (x, f) in self.forward[(t - 1) * labels..t * labels].iter().enumerate() {
                let row = pairs[x * labels..][..labels].iter_mut().zip(transitions.row(x)).zip(&after);
                row.for_each(|((p, w), a)| *p += f * w * a);
            }
        }
    }

    /// Returns the probability that the labels from position `start` are `path`, and that the next label is not
    /// `excluded_next`.
    pub(crate) fn probability(
        &self,
        transitions: &Transitions,
        start: usize,
        path: &[usize],
        excluded_next: Option<usize>,
    ) -> f64 {
        let labels = transitions.labels;
        let mut p = self.forward[start * labels + path[0]];
        for (i, two) in path.windows(2).enumerate() {
            let t = start + i + 1;
            p *= transitions.row(two[0])[two[1]] * self.potentials[t * labels + two[1]] / self.scales[t];
        }
        let (last, t) = (path[path.len() - 1], start + path.len());
        if t == self.scales.len() {
            return p;
        }
        let here = t * labels..(t + 1) * labels;
        let ways = transitions.row(last).iter().zip(&self.potentials[here.clone()]).zip(&self.backward[here]);
        let going = ways.enumerate().filter(|(y, _)| Some(*y) != excluded_next).map(|(_, ((w, psi), b))| w * psi * b);
        p * going.sum::<f64>() / self.scales[t]
    }
}

/// Returns the score of a path.
pub(crate) fn path_score(emissions: &[f32], transitions: &Transitions, path: &[usize]) -> f64 {
    let labels = transitions.labels;
    let step = |(t, &y): (usize, &usize)| {
        let from = if t == 0 { labels } else { path[t - 1] };
        f64::from(emissions[t * labels + y]) + transitions.scores[from * labels + y]
    };
    path.iter().enumerate().map(step).sum()
}

/// Returns the path with the highest score (Viterbi 1967). Ties go to the first path.
pub fn viterbi(emissions: &[f32], transitions: &Transitions) -> Vec<usize> {
    let labels = transitions.labels;
    let n = emissions.len() / labels;
    let mut scores = transitions.scores[labels * labels..].to_vec();
    let mut from = vec![0; n * labels];
    for t in 0..n {
        if t > 0 {
            let step = |y: usize| {
                let way = |x: usize| scores[x] + transitions.scores[x * labels + y];
                (1..labels).fold((0, way(0)), |best, x| if way(x) > best.1 { (x, way(x)) } else { best })
            };
            let found: Vec<(usize, f64)> = (0..labels).map(step).collect();
            for (y, (x, score)) in found.into_iter().enumerate() {
                (from[t * labels + y], scores[y]) = (x, score);
            }
        }
        scores.iter_mut().zip(&emissions[t * labels..]).for_each(|(s, e)| *s += f64::from(*e));
    }
    let mut path = vec![0; n];
    let mut label = (1..labels).fold(0, |best, y| if scores[y] > scores[best] { y } else { best });
    for t in (0..n).rev() {
        path[t] = label;
        label = from[t * labels + label];
    }
    path
}

/// Returns the path with the highest score among those with an `allowed` label at each position, and its score. `None`
/// if there is no such path.
pub(crate) fn viterbi_allowed(
    emissions: &[f32],
    transitions: &Transitions,
    allowed: impl Fn(usize, usize) -> bool,
) -> Option<(Vec<usize>, f64)> {
    let labels = transitions.labels;
    let keep = |(at, e): (usize, &f32)| if allowed(at / labels, at % labels) { *e } else { f32::NEG_INFINITY };
    let kept: Vec<f32> = emissions.iter().enumerate().map(keep).collect();
    let path = viterbi(&kept, transitions);
    let score = path_score(&kept, transitions, &path);
    score.is_finite().then_some((path, score))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku_kernels::Philox;

    const LABELS: usize = 3;

    fn chain(n: usize, seed: u64) -> (Vec<f32>, Transitions) {
        let random = Philox::new(seed, 0);
        let emissions = (0..n * LABELS).map(|i| 2.0 * random.normal(i as u64)).collect();
        let mut scores: Vec<f64> =
            (0..(LABELS + 1) * LABELS).map(|i| f64::from(random.normal(1000 + i as u64))).collect();
        // The transition from label 0 to 2, and one from the start.
        scores[2] = f64::NEG_INFINITY;
        scores[LABELS * LABELS + 2] = f64::NEG_INFINITY;
        (emissions, Transitions::new(LABELS, scores))
    }

    fn paths(n: usize) -> impl Iterator<Item = Vec<usize>> {
        (0..LABELS.pow(n as u32)).map(move |k| (0..n).map(|t| k / LABELS.pow(t as u32) % LABELS).collect())
    }

    #[test]
    fn sums_match_the_sums_over_all_paths() {
        for (n, seed) in [(1, 1), (2, 2), (5, 3), (6, 4)] {
            let (emissions, transitions) = chain(n, seed);
            let sums = ForwardBackward::new(&emissions, &transitions).unwrap();
            let p = |path: &[usize]| (path_score(&emissions, &transitions, path) - sums.log_z).exp();
            let total: f64 = paths(n).map(|path| p(&path)).sum();
            assert!((total - 1.0).abs() < 1e-9, "{total}");
            for t in 0..n {
                for (y, found) in sums.marginals(t, LABELS).enumerate() {
                    let expected: f64 = paths(n).filter(|path| path[t] == y).map(|path| p(&path)).sum();
                    assert!((found - expected).abs() < 1e-9, "{n} {t} {y}: {found} {expected}");
                }
            }
            let mut pairs = vec![0.0; (LABELS + 1) * LABELS];
            sums.add_pairs(&transitions, &mut pairs);
            for x in 0..=LABELS {
                for y in 0..LABELS {
                    let count = |path: &Vec<usize>| match x == LABELS {
                        true => f64::from(u8::from(path[0] == y)),
                        false => path.windows(2).filter(|two| two == &[x, y]).count() as f64,
                    };
                    let expected: f64 = paths(n).map(|path| count(&path) * p(&path)).sum();
                    assert!((pairs[x * LABELS + y] - expected).abs() < 1e-9);
                }
            }
            let most = paths(n).max_by(|a, b| p(a).total_cmp(&p(b))).unwrap();
            assert_eq!(viterbi(&emissions, &transitions), most);
            for (at, label) in [(0, 1), (n - 1, 2)] {
                let with = |path: &Vec<usize>| path[at] == label;
                let expected = paths(n).filter(with).max_by(|a, b| p(a).total_cmp(&p(b))).unwrap();
                let found = viterbi_allowed(&emissions, &transitions, |t, y| t != at || y == label);
                assert_eq!(found.map(|(path, _)| path), (p(&expected) > 0.0).then_some(expected));
            }
            if n > 3 {
                let is_span = |path: &Vec<usize>| path[1..3] == [1, 2] && path[3] != 2;
                let expected: f64 = paths(n).filter(is_span).map(|path| p(&path)).sum();
                assert!((sums.probability(&transitions, 1, &[1, 2], Some(2)) - expected).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn gradients_match_finite_differences() {
        let (mut emissions, transitions) = chain(5, 9);
        let path = [0, 1, 2, 2, 1];
        let loss = |emissions: &[f32], transitions: &Transitions| {
            ForwardBackward::new(emissions, transitions).unwrap().log_z - path_score(emissions, transitions, &path)
        };
        let sums = ForwardBackward::new(&emissions, &transitions).unwrap();
        let step = 1.0 / 256.0;
        for i in 0..emissions.len() {
            let (t, y) = (i / LABELS, i % LABELS);
            let gradient = sums.marginals(t, LABELS).nth(y).unwrap() - f64::from(u8::from(path[t] == y));
            let before = emissions[i];
            emissions[i] = before + step;
            let above = loss(&emissions, &transitions);
            emissions[i] = before - step;
            let difference = (above - loss(&emissions, &transitions)) / (2.0 * f64::from(step));
            emissions[i] = before;
            assert!((gradient - difference).abs() < 1e-4, "{gradient} {difference}");
        }
        let mut pairs = vec![0.0; (LABELS + 1) * LABELS];
        sums.add_pairs(&transitions, &mut pairs);
        for at in (0..pairs.len()).filter(|&at| transitions.scores[at].is_finite()) {
            let moved = |by: f64| {
                let mut scores = transitions.scores.clone();
                scores[at] += by;
                loss(&emissions, &Transitions::new(LABELS, scores))
            };
            let taken =
                (0..5).filter(|&t| (if t == 0 { LABELS } else { path[t - 1] }) * LABELS + path[t] == at).count();
            let difference = (moved(1e-4) - moved(-1e-4)) / 2e-4;
            assert!((pairs[at] - taken as f64 - difference).abs() < 1e-6);
        }
    }

    #[test]
    fn infinite_values_have_no_sums() {
        let (mut emissions, transitions) = chain(3, 1);
        emissions[4] = f32::NAN;
        assert!(ForwardBackward::new(&emissions, &transitions).is_none());
        let forbidden = Transitions::new(2, vec![f64::NEG_INFINITY; 6]);
        assert!(ForwardBackward::new(&[0.0; 4], &forbidden).is_none());
    }
}
