//! Low-rank updates (LoRA): `W + s·B A` instead of a frozen matrix W, where only the small matrices A and B are
//! trained.
//!
//! Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (2022), equation 3.
//!
//! Layers are unaware of the update. They multiply with the merged matrix, which is computed once after each step. In
//! the backward pass they hand over the factors of W's gradient, from which the gradients of A and B follow without W's
//! own gradient.

use super::{ParamEntry, ParamId, ParamLayout, Params};
use crate::Result;
use chumoku_kernels::{Epilogue, FusedGemm, MatMut, MatRef, OutputInit, Philox, Precision, Real, fnv1a, gemm};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// The rank and the scale of low-rank updates: products of rank `rank`, multiplied by `alpha / rank`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LowRankConfig {
    /// Rows of A and columns of B, capped at the size of the matrix.
    pub rank: usize,
    /// The factor multiplied by the rank, so that changing the rank does not require another learning rate.
    pub alpha: f64,
}

/// The low-rank update of a frozen matrix.
#[derive(Clone, Copy, Debug)]
pub(super) struct LowRankUpdate {
    /// Layout entries of A, (rank, inputs), and B, (outputs, rank).
    a: usize,
    b: usize,
    /// α / rank.
    scale: f64,
    /// Offset of the merged matrix among all merged matrices.
    offset: usize,
}

/// Suffixes of the names of A and B, after the name of their matrix.
const FACTOR_SUFFIXES: [&str; 2] = [".lora_a", ".lora_b"];

impl<T: Real> Params<T> {
    /// Returns a copy with low-rank updates of the frozen matrices that `is_updated` selects by name. A is initialized
    /// from `seed` and its name, uniform in ±1/√inputs. B starts at 0, so nothing changes before the first step.
    ///
    /// [`Params::unfreeze`] merges the updates into their matrices.
    ///
    /// # Panics
    /// If the parameters already have updates.
    #[must_use]
    pub fn with_low_rank(&self, update: LowRankConfig, is_updated: impl Fn(&str) -> bool, seed: u64) -> Self {
        assert!(
            self.layout.entries.iter().all(|entry| entry.low_rank.is_none()),
            "the parameters already have low-rank updates"
        );
        let mut entries = self.layout.entries.clone();
        for entry in &self.layout.entries {
            if let (true, &[outputs, inputs]) = (entry.is_frozen && is_updated(&entry.name), &entry.shape[..]) {
                let rank = update.rank.min(outputs).min(inputs);
                for (part, shape) in FACTOR_SUFFIXES.iter().zip([[rank, inputs], [outputs, rank]]) {
                    let name = format!("{}{part}", entry.name);
                    entries.push(ParamEntry { name, shape: shape.into(), is_frozen: false, ..entry.clone() });
                }
            }
        }
        let scale = update.alpha / update.rank.max(1) as f64;
        let layout = self.layout.with_entries(entries, |entries, places| {
            let mut start = 0;
            for entry in entries {
                let [a, b] = FACTOR_SUFFIXES.map(|part| places.get(&format!("{}{part}", entry.name)).copied());
                if let (Some(a), Some(b)) = (a, b) {
                    entry.low_rank = Some(LowRankUpdate { a, b, scale, offset: start });
                    start += entry.range.len();
                }
            }
        });
        let start = |entry: &ParamEntry| {
            let (random, size) = (Philox::new(seed, fnv1a(entry.name.bytes())), entry.range.len());
            let bound = match entry.name.ends_with(FACTOR_SUFFIXES[0]) {
                true => 1.0 / (entry.shape[1].max(1) as f64).sqrt(),
                false => 0.0,
            };
            (0..size)
                .map(|i| T::round_from(bound * (2.0 * f64::from(random.uniform(i as u64)) - 1.0)))
                .collect::<Vec<T>>()
        };
        self.with_layout(layout, start)
    }

    /// Returns true if any frozen matrix has a low-rank update.
    pub(crate) fn has_low_rank(&self) -> bool {
        self.layout.has_low_rank()
    }

    /// Merges the updates into their matrices now, on all threads, instead of on first use.
    pub fn merge_low_rank(&self) {
        if self.has_low_rank() {
            self.merged_weights.get_or_init(|| self.compute_merged_weights());
        }
    }

    /// Returns a copy in which the updates are merged into their matrices.
    pub(super) fn without_low_rank(&self) -> Self {
        let is_part = |entry: &ParamEntry| FACTOR_SUFFIXES.iter().any(|part| entry.name.ends_with(part));
        let mut entries: Vec<ParamEntry> =
            self.layout.entries.iter().filter(|entry| !is_part(entry)).cloned().collect();
        entries.iter_mut().for_each(|entry| entry.low_rank = None);
        let layout = self.layout.with_entries(entries, |_, _| {});
        self.with_layout(layout, |entry| unreachable!("{} is missing in the original layout", entry.name))
    }

    /// Copies these numbers into another layout that shares some names. `start` initializes all others.
    fn with_layout(&self, layout: ParamLayout, start: impl Fn(&ParamEntry) -> Vec<T>) -> Self {
        let here: HashMap<&str, &ParamEntry> = self.layout.entries.iter().map(|entry| (&*entry.name, entry)).collect();
        let mut params = Params { values: Vec::with_capacity(layout.len), ..Params::empty(Arc::new(layout)) };
        let mut frozen = Vec::new();
        for entry in &params.layout.entries {
            let to = if entry.is_frozen { &mut frozen } else { &mut params.values };
            match here.get(&*entry.name) {
                Some(from) => to.extend_from_slice(self.entry_values(from)),
                None => to.extend(start(entry)),
            }
        }
        params.frozen = Arc::new(frozen);
        params.precision = self.precision;
        params
    }

    /// Computes all merged matrices, one after another.
    pub(super) fn compute_merged_weights(&self) -> Vec<T> {
        let mut sums = Vec::new();
        for entry in &self.layout.entries {
            let (Some(update), &[outputs, inputs]) = (&entry.low_rank, &entry.shape[..]) else { continue };
            let start = sums.len();
            sums.extend_from_slice(&self.frozen[entry.range.clone()]);
            let scale = T::round_from(update.scale);
            let b: Vec<T> = self.factor(update.b).iter().map(|&x| x * scale).collect();
            let a = self.factor(update.a);
            let rank = a.len() / inputs.max(1);
            // The layout guarantees the shapes of all products below.
            let [b, a] = [MatRef::new(&b, outputs, rank), MatRef::new(a, rank, inputs)].map(expect_fit);
            let sum = expect_fit(MatMut::new(&mut sums[start..], outputs, inputs));
            expect_fit(gemm(b, a, OutputInit::Keep, sum, Precision::Highest));
        }
        sums
    }

    fn factor(&self, place: usize) -> &[T] {
        &self.values[self.layout.entries[place].range.clone()]
    }

    /// Returns the merged matrix of an entry with an update.
    pub(super) fn merged_weight(&self, entry: &ParamEntry, update: &LowRankUpdate) -> &[T] {
        &self.merged_weights.get_or_init(|| self.compute_merged_weights())
            [update.offset..update.offset + entry.range.len()]
    }

    /// Adds the gradient `dyᵀ x` of some rows of a matrix W, after `y = x Wᵀ` was computed from `p`. For a low-rank
    /// update, it adds the gradients of A and B instead.
    ///
    /// # Shapes
    /// `dy` (tokens, rows), `x` (tokens, inputs).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub(crate) fn add_weight_gradient(
        &mut self,
        p: &Params<T>,
        id: ParamId,
        rows: Range<usize>,
        dy: MatRef<'_, T>,
        x: MatRef<'_, T>,
    ) -> Result<()> {
        let precision = p.precision;
        if self.is_trained(id) {
            gemm(dy.t(), x, OutputInit::Keep, self.matrix_rows_mut(id, rows), precision)?;
            return Ok(());
        }
        let Some(update) = self.layout.entry(id).low_rank else { return Ok(()) };
        let rank = self.layout.entries[update.a].shape[0];
        let a = MatRef::new(p.factor(update.a), rank, x.cols())?;
        let b = MatRef::new(&p.factor(update.b)[rows.start * rank..rows.end * rank], rows.len(), rank)?;
        let scaled = |a: MatRef<'_, T>, b: MatRef<'_, T>| -> Result<Vec<T>> {
            let mut product =
                FusedGemm { a, b: b.into(), bias: None, epilogue: Epilogue::Identity, precision }.compute()?;
            let scale = T::round_from(update.scale);
            product.iter_mut().for_each(|number| *number *= scale);
            Ok(product)
        };
        // W = W₀ + s B A, dW = dyᵀ x  →  dB = s dW Aᵀ = dyᵀ (s x Aᵀ), dA = s Bᵀ dW = (s dy B)ᵀ x
        let (down, up) = (scaled(x, a.t())?, scaled(dy, b)?);
        let [down, up] = [MatRef::new(&down, x.rows(), rank)?, MatRef::new(&up, dy.rows(), rank)?];
        let [of_a, of_b] = [update.a, update.b].map(|place| self.layout.entries[place].range.clone());
        let d_b = &mut self.values[of_b][rows.start * rank..rows.end * rank];
        gemm(dy.t(), down, OutputInit::Keep, MatMut::new(d_b, rows.len(), rank)?, precision)?;
        gemm(up.t(), x, OutputInit::Keep, MatMut::new(&mut self.values[of_a], rank, x.cols())?, precision)?;
        Ok(())
    }
}

fn expect_fit<R, E: std::fmt::Display>(result: std::result::Result<R, E>) -> R {
    result.unwrap_or_else(|error| unreachable!("shapes of a layout match: {error}"))
}

impl ParamLayout {
    /// Builds a layout of `entries`, which include all entries of this one. `join` gets the index of every name.
    fn with_entries(
        &self,
        mut entries: Vec<ParamEntry>,
        join: impl FnOnce(&mut [ParamEntry], &HashMap<String, usize>),
    ) -> ParamLayout {
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let (mut len, mut frozen) = (0, 0);
        for entry in &mut entries {
            let end = if entry.is_frozen { &mut frozen } else { &mut len };
            entry.range = *end..*end + entry.shape.iter().product::<usize>();
            *end = entry.range.end;
        }
        let names: HashMap<String, usize> =
            entries.iter().enumerate().map(|(place, entry)| (entry.name.clone(), place)).collect();
        join(&mut entries, &names);
        let places = self.entry_indices.iter().map(|&place| names[&self.entries[place].name]).collect();
        ParamLayout { entries, entry_indices: places, len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{Builder, Init};

    #[test]
    fn updates_start_as_no_change_and_can_be_merged() {
        let mut builder = Builder::new();
        let [w, v] = ["w", "v"].map(|name| builder.add(name, &[4, 3], Init::Normal(1.0)));
        let bias = builder.add("bias", &[4], Init::Normal(1.0));
        let plain = Params::<f64>::init(&builder.finish(), 5);
        let update = LowRankConfig { rank: 2, alpha: 6.0 };
        let mut params = plain.freeze(|_| true).with_low_rank(update, |name| name == "w", 9);
        let names: Vec<String> = params.layout().iter().map(|param| param.name.to_owned()).collect();
        assert_eq!(names, ["w.lora_a", "w.lora_b"]);
        assert_eq!(params.values().len(), 2 * 3 + 4 * 2);
        for id in [w, v, bias] {
            assert_eq!(params.slice(id), plain.slice(id));
            assert!(!params.is_trained(id));
        }
        let a = params.values()[..6].to_vec();
        assert!(a.iter().all(|x| x.abs() <= 1.0 / 3f64.sqrt()) && a.iter().any(|x| x.abs() > 0.1), "{a:?}");
        let b: Vec<f64> = (0..8).map(f64::from).collect();
        params.values_mut()[6..].copy_from_slice(&b);
        let expected =
            |i: usize, j: usize| plain.slice(w)[i * 3 + j] + 3.0 * (b[i * 2] * a[j] + b[i * 2 + 1] * a[3 + j]);
        let merged = params.unfreeze();
        assert_eq!(merged.layout().iter().count(), 3);
        for found in [params.slice(w), merged.slice(w)] {
            for (at, found) in found.iter().enumerate() {
                assert!((found - expected(at / 3, at % 3)).abs() < 1e-12);
            }
        }
        assert_eq!((merged.slice(v), merged.slice(bias)), (plain.slice(v), plain.slice(bias)));
        assert_eq!(params.clone().slice(w), params.slice(w));
        // A rank above the matrix size is capped.
        let most = plain.freeze(|_| true).with_low_rank(LowRankConfig { rank: 99, alpha: 6.0 }, |name| name == "w", 9);
        assert_eq!(most.values().len(), 3 * 3 + 4 * 3);
    }

    #[test]
    fn gradients_of_updates_match_central_differences() {
        let mut builder = Builder::new();
        let w = builder.add("w", &[5, 4], Init::Normal(1.0));
        let start = Params::<f64>::init(&builder.finish(), 1).freeze(|_| true);
        let mut params = start.with_low_rank(LowRankConfig { rank: 3, alpha: 2.0 }, |_| true, 2);
        let noise = Philox::new(3, 4);
        params.values_mut().iter_mut().enumerate().for_each(|(i, x)| *x = f64::from(noise.normal(i as u64)));
        let x: Vec<f64> = (0..6 * 4).map(|i| f64::from(noise.normal(100 + i))).collect();
        let dy: Vec<f64> = (0..6 * 5).map(|i| f64::from(noise.normal(200 + i))).collect();
        let [x, dy] = [MatRef::new(&x, 6, 4).unwrap(), MatRef::new(&dy, 6, 5).unwrap()];
        // The loss Σ dy · (x Wᵀ), whose gradient with respect to y is dy.
        let loss = |p: &Params<f64>| -> f64 {
            let w = p.view(w);
            (0..6)
                .flat_map(|t| (0..5).map(move |o| (t, o)))
                .map(|(t, o)| dy.at(t, o) * (0..4).map(|i| x.at(t, i) * w[[o, i]]).sum::<f64>())
                .sum()
        };
        let mut grads = Params::zeros(params.layout());
        // In two parts, like queries and keys.
        let parts: Vec<Vec<f64>> = [0..2, 2..5]
            .map(|rows: Range<usize>| (0..6).flat_map(|t| rows.clone().map(move |o| dy.at(t, o))).collect())
            .into();
        grads.add_weight_gradient(&params, w, 0..2, MatRef::new(&parts[0], 6, 2).unwrap(), x).unwrap();
        grads.add_weight_gradient(&params, w, 2..5, MatRef::new(&parts[1], 6, 3).unwrap(), x).unwrap();
        for at in 0..params.values().len() {
            let mut there = |by: f64| {
                params.values_mut()[at] += by;
                loss(&params)
            };
            let difference = (there(1e-4) - there(-2e-4)) / 2e-4;
            there(1e-4);
            let found = grads.values()[at];
            assert!((found - difference).abs() < 1e-7 * (1.0 + difference.abs()), "{at}: {found} {difference}");
        }
    }
}
