//! Decoding: from next-token logits to whole sequences.

use crate::probability::log_sum_exp;
use crate::{Error, Result};
use ndarray::Array2;

/// A model that predicts the next token.
pub trait NextTokenModel {
    /// Returns the logits after appending `ids`, one new token per sequence. `of_source` holds the number of sequences
    /// of each source; the sequences of a source are adjacent.
    ///
    /// # Shapes
    /// `ids` (sequences,) → (sequences, vocabulary).
    ///
    /// # Errors
    /// If the model rejects the tokens.
    fn step(&mut self, ids: &[u32], of_source: &[usize]) -> Result<Array2<f32>>;

    /// Reorders the state: sequence `sequences[i]` becomes sequence i, and source `sources[i]` becomes source i. An
    /// index may occur more than once; missing ones are dropped.
    ///
    /// # Errors
    /// If a sequence or source does not exist.
    fn select(&mut self, sequences: &[usize], sources: &[usize]) -> Result<()>;
}

/// Settings of beam search, which looks for the most probable sequences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BeamSearch {
    /// Beam width: hypotheses kept per step, and the maximum number returned. 1 is greedy decoding.
    pub beam: usize,
    /// α of the length normalization, from −10 to 10. A hypothesis of n tokens, its end included, scores
    /// `ln p / ((5 + n) / 6)^α` (Wu et al. 2016, equation 14). 0 compares plain probabilities, which favors short
    /// sequences.
    pub length_penalty: f64,
    /// The start token and the end token of every sequence.
    pub boundary_tokens: [u32; 2],
}

/// A sequence found by beam search.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    /// Its tokens, without the boundaries.
    pub ids: Vec<u32>,
    /// ln p of its tokens, and of its end token unless it was truncated.
    pub log_probability: f64,
    /// The score that ranks hypotheses.
    pub score: f64,
    /// True if it was stopped at the maximum number of tokens.
    pub is_truncated: bool,
}

/// The fate of a candidate in a step of beam search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CandidateFate {
    /// Kept in the beam and continued.
    Followed,
    /// Ended: the token is the end of the sequence.
    Ended,
    /// Stopped at the maximum number of tokens.
    Cut,
    /// Dropped: other candidates were better.
    Dropped,
}

/// A continuation that beam search considered in one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BeamCandidate {
    /// The parent hypothesis, as an index into the source's hypotheses of the previous step.
    pub parent: usize,
    /// The token that continues it.
    pub token: u32,
    /// ln p of the token, given the parent.
    pub log_probability: f64,
    /// ln p of the whole sequence.
    pub total_log_probability: f64,
    /// The fate of the candidate.
    pub fate: CandidateFate,
    /// The ranking score, if the candidate is a complete sequence.
    pub score: Option<f64>,
}

/// A hypothesis that has not ended.
struct OpenHypothesis {
    ids: Vec<u32>,
    log_probability: f64,
}

impl BeamSearch {
    /// Checks the settings against the size of the vocabulary.
    ///
    /// # Errors
    /// If the beam is 0 or wider than the vocabulary, or the penalty is out of range.
    fn check(&self, vocabulary: usize) -> Result<()> {
        if self.beam == 0 || self.beam > vocabulary {
            return Err(Error::BeamWidth { vocabulary, found: self.beam });
        }
        // Outside this range, the penalty of a long text is not a finite number.
        if !(-10.0..=10.0).contains(&self.length_penalty) {
            return Err(Error::LengthPenalty(self.length_penalty));
        }
        Ok(())
    }

    fn finish(&self, live: OpenHypothesis, is_cut: bool) -> Hypothesis {
        let tokens = live.ids.len() + usize::from(!is_cut);
        let penalty = ((5 + tokens) as f64 / 6.0).powf(self.length_penalty);
        let score = live.log_probability / penalty;
        Hypothesis { ids: live.ids, log_probability: live.log_probability, score, is_truncated: is_cut }
    }

    /// Returns the best sequences for each source, best first. `limits` holds the maximum number of tokens per source.
    ///
    /// A source is done when `beam` hypotheses have ended or all hypotheses have reached the limit. Ties go to the
    /// earlier hypothesis, then to the smaller token. The results of a source do not depend on other sources.
    ///
    /// # Errors
    /// If the beam does not fit the vocabulary, a logit is NaN, or the model returns an error.
    pub fn search(&self, model: &mut impl NextTokenModel, limits: &[usize]) -> Result<Vec<Vec<Hypothesis>>> {
        self.search_observed(model, limits, &mut |_, _| {})
    }

    /// Like [`BeamSearch::search`]. Calls `observe` with the candidates of each source in each step, best first.
    ///
    /// # Errors
    /// Same as for [`BeamSearch::search`].
    pub fn search_observed(
        &self,
        model: &mut impl NextTokenModel,
        limits: &[usize],
        observe: &mut dyn FnMut(usize, &[BeamCandidate]),
    ) -> Result<Vec<Vec<Hypothesis>>> {
        let mut found: Vec<Vec<Hypothesis>> = limits.iter().map(|_| Vec::new()).collect();
        // The unfinished sources, and the hypotheses of each.
        let mut sources: Vec<usize> = (0..limits.len()).collect();
        let mut live: Vec<Vec<OpenHypothesis>> =
            limits.iter().map(|_| vec![OpenHypothesis { ids: Vec::new(), log_probability: 0.0 }]).collect();
        while !sources.is_empty() {
            let last = |live: &OpenHypothesis| live.ids.last().copied().unwrap_or(self.boundary_tokens[0]);
            let ids: Vec<u32> = live.iter().flatten().map(last).collect();
            let of_source: Vec<usize> = live.iter().map(Vec::len).collect();
            let logits = model.step(&ids, &of_source)?;
            self.check(logits.ncols())?;
            let (mut rows, mut kept, mut next) = (Vec::new(), Vec::new(), Vec::new());
            let mut first = 0;
            for (place, hypotheses) in live.iter().enumerate() {
                let (source, before) = (sources[place], rows.len());
                let (mut followed, mut considered) = (Vec::new(), Vec::new());
                for (rank, candidate) in self.best_continuations(hypotheses, &logits, first)?.into_iter().enumerate() {
                    let Continuation { parent: row, token, log_probability } = candidate;
                    let own = log_probability - hypotheses[row].log_probability;
                    let (mut fate, mut score) = (CandidateFate::Dropped, None);
                    let mut ids = hypotheses[row].ids.clone();
                    let is_end = token == self.boundary_tokens[1];
                    if !is_end {
                        ids.push(token);
                    }
                    let (is_cut, live) =
                        (!is_end && ids.len() >= limits[source], OpenHypothesis { ids, log_probability });
                    if is_end || is_cut {
                        // Completed candidates outside the beam are dropped.
                        if rank < self.beam {
                            fate = if is_cut { CandidateFate::Cut } else { CandidateFate::Ended };
                            let hypothesis = self.finish(live, is_cut);
                            score = Some(hypothesis.score);
                            found[source].push(hypothesis);
                        }
                    } else if followed.len() < self.beam {
                        fate = CandidateFate::Followed;
                        followed.push(live);
                        rows.push(first + row);
                    }
                    let sum = log_probability;
                    considered.push(BeamCandidate {
                        parent: row,
                        token,
                        log_probability: own,
                        total_log_probability: sum,
                        fate,
                        score,
                    });
                }
                observe(source, &considered);
                first += hypotheses.len();
                if found[source].len() >= self.beam || followed.is_empty() {
                    rows.truncate(before);
                    found[source].sort_by(|a, b| b.score.total_cmp(&a.score));
                    found[source].truncate(self.beam);
                } else {
                    kept.push(place);
                    next.push(followed);
                }
            }
            if !kept.is_empty() {
                model.select(&rows, &kept)?;
            }
            sources = kept.iter().map(|&place| sources[place]).collect();
            live = next;
        }
        Ok(found)
    }

    /// Returns the best continuations of a source's hypotheses, whose logits start at row `first`. It returns twice the
    /// beam width, so that enough remain when some hypotheses end.
    fn best_continuations(
        &self,
        hypotheses: &[OpenHypothesis],
        logits: &Array2<f32>,
        first: usize,
    ) -> Result<Vec<Continuation>> {
        let mut best: Vec<Continuation> = Vec::new();
        for (row, live) in hypotheses.iter().enumerate() {
            let logits: Vec<f64> = logits.row(first + row).iter().map(|&x| f64::from(x)).collect();
            if logits.iter().any(|x| x.is_nan()) {
                return Err(Error::NanLogit);
            }
            let log_total = log_sum_exp(&logits);
            for (&logit, token) in logits.iter().zip(0..) {
                // Tokens of probability 0 are no continuation.
                if logit == f64::NEG_INFINITY {
                    continue;
                }
                let log_probability = live.log_probability + (logit - log_total);
                let is_better = |other: &Continuation| log_probability > other.log_probability;
                if best.len() < 2 * self.beam || best.last().is_some_and(is_better) {
                    // Insert after equal candidates: they came first.
                    let place = best.partition_point(|other| !is_better(other));
                    best.insert(place, Continuation { parent: row, token, log_probability });
                    best.truncate(2 * self.beam);
                }
            }
        }
        Ok(best)
    }
}

/// A possible next token of a hypothesis.
struct Continuation {
    /// The index of the hypothesis among those of its source.
    parent: usize,
    token: u32,
    /// ln p of the whole sequence.
    log_probability: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::Random;

    const VOCABULARY: usize = 4;
    const BOUNDARY: u32 = 1;

    /// A test model whose logits depend on the source and all tokens so far.
    struct TableModel {
        seed: u64,
        sources: Vec<usize>,
        sequences: Vec<(usize, Vec<u32>)>,
    }

    impl TableModel {
        fn new(seed: u64, sources: usize) -> Self {
            let sequences = (0..sources).map(|source| (source, Vec::new())).collect();
            TableModel { seed, sources: (0..sources).collect(), sequences }
        }
    }

    fn logits(seed: u64, source: usize, ids: &[u32]) -> Vec<f32> {
        let place = ids.iter().fold(seed * 31 + source as u64, |hash, &id| hash * 7 + u64::from(id) + 1);
        let mut random = Random::new(place);
        (0..VOCABULARY).map(|_| 2.0 * random.number() as f32).collect()
    }

    impl NextTokenModel for TableModel {
        fn step(&mut self, ids: &[u32], of_source: &[usize]) -> Result<Array2<f32>> {
            let sources = of_source.iter().zip(&self.sources).flat_map(|(&n, &source)| vec![source; n]);
            assert_eq!(sources.collect::<Vec<_>>(), self.sequences.iter().map(|(s, _)| *s).collect::<Vec<_>>());
            self.sequences.iter_mut().zip(ids).for_each(|((_, sequence), &id)| sequence.push(id));
            let all = self.sequences.iter().flat_map(|(source, ids)| logits(self.seed, *source, ids)).collect();
            Ok(Array2::from_shape_vec((ids.len(), VOCABULARY), all).unwrap())
        }

        fn select(&mut self, sequences: &[usize], sources: &[usize]) -> Result<()> {
            self.sequences = sequences.iter().map(|&s| self.sequences[s].clone()).collect();
            self.sources = sources.iter().map(|&s| self.sources[s]).collect();
            Ok(())
        }
    }

    fn log_p(seed: u64, source: usize, ids: &[u32], token: u32) -> f64 {
        let given = [&[BOUNDARY], ids].concat();
        let logits: Vec<f64> = logits(seed, source, &given).into_iter().map(f64::from).collect();
        logits[token as usize] - log_sum_exp(&logits)
    }

    /// All sequences of at most `limit` tokens, best first.
    fn brute_force(search: &BeamSearch, seed: u64, source: usize, limit: usize) -> Vec<Hypothesis> {
        let (mut all, mut open) = (Vec::new(), vec![(Vec::new(), 0.0)]);
        while let Some((ids, so_far)) = open.pop() {
            for token in 0..VOCABULARY as u32 {
                let log_probability = so_far + log_p(seed, source, &ids, token);
                if token == BOUNDARY {
                    all.push(search.finish(OpenHypothesis { ids: ids.clone(), log_probability }, false));
                    continue;
                }
                let longer = [&ids[..], &[token]].concat();
                if longer.len() == limit {
                    all.push(search.finish(OpenHypothesis { ids: longer, log_probability }, true));
                } else {
                    open.push((longer, log_probability));
                }
            }
        }
        all.sort_by(|a, b| b.score.total_cmp(&a.score));
        all
    }

    fn greedy(seed: u64, source: usize, limit: usize) -> Vec<u32> {
        let mut ids = Vec::new();
        while ids.len() < limit {
            let scores: Vec<f64> = (0..VOCABULARY as u32).map(|token| log_p(seed, source, &ids, token)).collect();
            let best = (0..VOCABULARY).fold(0, |best, i| if scores[i] > scores[best] { i } else { best }) as u32;
            if best == BOUNDARY {
                break;
            }
            ids.push(best);
        }
        ids
    }

    proptest! {
        #[test]
        fn a_beam_of_one_is_greedy(seed in 0u64..1000, limits in prop::collection::vec(1usize..8, 1..5)) {
            let search = BeamSearch { beam: 1, length_penalty: 0.6, boundary_tokens: [BOUNDARY; 2] };
            let found = search.search(&mut TableModel::new(seed, limits.len()), &limits).unwrap();
            for (source, (found, &limit)) in found.iter().zip(&limits).enumerate() {
                prop_assert_eq!(found.len(), 1);
                prop_assert_eq!(&found[0].ids, &greedy(seed, source, limit));
            }
        }

        #[test]
        fn a_source_does_not_depend_on_the_others(seed in 0u64..1000, beam in 1usize..4) {
            let search = BeamSearch { beam, length_penalty: 1.0, boundary_tokens: [BOUNDARY; 2] };
            let limits = [5, 2, 7, 3];
            let all = search.search(&mut TableModel::new(seed, 4), &limits).unwrap();
            for (source, &limit) in limits.iter().enumerate() {
                let mut alone = TableModel::new(seed, source + 1);
                alone.select(&[source], &[source]).unwrap();
                prop_assert_eq!(&search.search(&mut alone, &[limit]).unwrap()[0], &all[source]);
            }
        }
    }

    #[test]
    fn a_beam_that_loses_no_candidate_finds_the_optimum() {
        // There are three tokens besides the end, and sequences have at most two tokens. A beam of VOCABULARY then
        // loses nothing: at most three hypotheses remain after the first step, and all end after the second.
        for seed in 0..200 {
            for length_penalty in [0.0, 0.6, 1.0] {
                let search = BeamSearch { beam: VOCABULARY, length_penalty, boundary_tokens: [BOUNDARY; 2] };
                let found = &search.search(&mut TableModel::new(seed, 1), &[2]).unwrap()[0];
                let all = brute_force(&search, seed, 0, 2);
                assert_eq!(found[0].ids, all[0].ids, "seed {seed}, penalty {length_penalty}: {found:?} {all:?}");
                assert!((found[0].score - all[0].score).abs() < 1e-9);
                assert!(found.windows(2).all(|pair| pair[0].score >= pair[1].score));
            }
        }
    }

    #[test]
    fn observed_candidates_lead_to_the_results() {
        for seed in 0..50 {
            let search = BeamSearch { beam: 2, length_penalty: 0.6, boundary_tokens: [BOUNDARY; 2] };
            let mut steps: Vec<Vec<BeamCandidate>> = Vec::new();
            let mut observe = |source: usize, considered: &[BeamCandidate]| {
                assert_eq!(source, 0);
                steps.push(considered.to_vec());
            };
            let found = search.search_observed(&mut TableModel::new(seed, 1), &[4], &mut observe).unwrap().remove(0);
            assert_eq!(found, search.search(&mut TableModel::new(seed, 1), &[4]).unwrap().remove(0));
            let mut live = vec![Vec::new()];
            let mut ends = Vec::new();
            for considered in &steps {
                assert!(
                    considered.is_sorted_by(|a, b| a.total_log_probability >= b.total_log_probability)
                        && considered.len() <= 4
                );
                assert!(considered.iter().filter(|one| one.fate == CandidateFate::Followed).count() <= 2);
                let mut next = Vec::new();
                for one in considered {
                    let before: &Vec<u32> = &live[one.parent];
                    assert!((one.log_probability - log_p(seed, 0, before, one.token)).abs() < 1e-9);
                    let longer = [&before[..], &[one.token]].concat();
                    match one.fate {
                        CandidateFate::Followed => next.push(longer),
                        CandidateFate::Ended => ends.push((before.clone(), one.score.unwrap())),
                        CandidateFate::Cut => ends.push((longer, one.score.unwrap())),
                        CandidateFate::Dropped => assert!(one.score.is_none()),
                    }
                }
                live = next;
            }
            for hypothesis in &found {
                assert!(ends.contains(&(hypothesis.ids.clone(), hypothesis.score)), "{hypothesis:?} {ends:?}");
            }
        }
    }

    #[test]
    fn invalid_searches_are_errors() {
        let search = |beam, length_penalty| {
            let search = BeamSearch { beam, length_penalty, boundary_tokens: [BOUNDARY; 2] };
            search.search(&mut TableModel::new(1, 1), &[3]).map(|_| ()).unwrap_err().to_string()
        };
        assert!(search(0, 0.6).contains("expected 1 to 4"), "{}", search(0, 0.6));
        assert!(search(5, 0.6).contains("got 5"));
        for penalty in [f64::NAN, f64::INFINITY, 1e308, -10.5] {
            assert!(search(2, penalty).contains("10"), "{}", search(2, penalty));
        }
        struct Broken;
        impl NextTokenModel for Broken {
            fn step(&mut self, ids: &[u32], _: &[usize]) -> Result<Array2<f32>> {
                Ok(Array2::from_elem((ids.len(), 4), f32::NAN))
            }
            fn select(&mut self, _: &[usize], _: &[usize]) -> Result<()> {
                Ok(())
            }
        }
        let search = BeamSearch { beam: 1, length_penalty: 0.6, boundary_tokens: [BOUNDARY; 2] };
        assert!(matches!(search.search(&mut Broken, &[3]), Err(Error::NanLogit)));
    }
}
