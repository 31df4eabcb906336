//! A test case of attention, its data, and a function that runs it.

use crate::attention::fence::{Fenced, Side};
use crate::attention::place::{ArrayLayout, AxisOrder, OutputArray, RowShape};
use chumoku_kernels::*;
use testkit::{GuardedBuffer, Random};

/// The options of a call of attention.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Number of queries and keys of each sequence.
    pub(crate) lengths: Vec<(usize, usize)>,
    pub(crate) heads: usize,
    pub(crate) key_heads: usize,
    pub(crate) dim: usize,
    pub(crate) value_dim: usize,
    pub(crate) layout: CaseLayout,
    pub(crate) scale: Option<f64>,
    pub(crate) softcap: Option<f64>,
    pub(crate) causal: Option<Causal>,
    pub(crate) window: Option<(Option<usize>, Option<usize>, Causal)>,
    pub(crate) key_lengths: Option<Vec<usize>>,
    pub(crate) mask: Option<MaskForm>,
    pub(crate) alibi: bool,
    pub(crate) sinks: bool,
    pub(crate) dropout: f32,
    pub(crate) d_log_sum_exp: bool,
    pub(crate) scores: ScoreRange,
    pub(crate) seed: u64,
}

/// The memory layout of the arrays of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaseLayout {
    /// (batch, heads, length, dim), all of them.
    Plain,
    /// (batch, length, heads, dim), all of them.
    RowsFirst,
    /// Each array in a different order, with gaps.
    Mixed,
    Packed,
}

/// The magnitude and distribution of the scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScoreRange {
    /// Small: a few at most.
    Small,
    /// Thousands, so that a running maximum is needed.
    Large,
    /// Increasing with the position of the key.
    Growing,
    /// All far below 0.
    Negative,
}

/// A mask by entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaskForm {
    pub(crate) is_additive: bool,
    pub(crate) rank: usize,
    /// Axes of size 1: (batch, heads, queries, keys).
    pub(crate) ones: [bool; 4],
    /// Axes of full size with stride 0.
    pub(crate) still: [bool; 4],
    pub(crate) has_gaps: bool,
}

impl MaskForm {
    /// Returns a contiguous mask of full shape.
    pub(crate) fn full(is_additive: bool) -> Self {
        MaskForm { is_additive, rank: 4, ones: [false; 4], still: [false; 4], has_gaps: false }
    }
}

impl Case {
    /// Creates a case without options.
    pub(crate) fn of(lengths: &[(usize, usize)], [heads, key_heads]: [usize; 2], [dim, value_dim]: [usize; 2]) -> Self {
        let is_dense = lengths.windows(2).all(|pair| pair[0] == pair[1]);
        Case {
            lengths: lengths.to_vec(),
            heads,
            key_heads,
            dim,
            value_dim,
            layout: if is_dense { CaseLayout::Plain } else { CaseLayout::Packed },
            scale: None,
            softcap: None,
            causal: None,
            window: None,
            key_lengths: None,
            mask: None,
            alibi: false,
            sinks: false,
            dropout: 0.0,
            d_log_sum_exp: false,
            scores: ScoreRange::Small,
            seed: 1,
        }
    }

    fn shape(&self, of_keys: bool, dim: usize) -> RowShape {
        let lengths = self.lengths.iter().map(|&(queries, keys)| if of_keys { keys } else { queries }).collect();
        RowShape { lengths, heads: if of_keys { self.key_heads } else { self.heads }, dim }
    }

    pub(crate) fn query(&self) -> RowShape {
        self.shape(false, self.dim)
    }
    pub(crate) fn key(&self) -> RowShape {
        self.shape(true, self.dim)
    }
    pub(crate) fn value(&self) -> RowShape {
        self.shape(true, self.value_dim)
    }
    pub(crate) fn output(&self) -> RowShape {
        self.shape(false, self.value_dim)
    }

    /// Returns the number of keys of sequence `s` within its key length.
    pub(crate) fn keys(&self, s: usize) -> usize {
        self.key_lengths.as_ref().map_or(self.lengths[s].1, |lengths| lengths[s])
    }

    /// Returns the shape of the mask and the strides of its four axes. Missing axes have size 1 and stride 0.
    pub(crate) fn mask_axes(&self) -> Option<([usize; 4], [usize; 4])> {
        let form = self.mask?;
        let longest = |of: fn(&(usize, usize)) -> usize| self.lengths.iter().map(of).max().unwrap_or(0);
        // Packed sequences may read a corner of a larger mask.
        let more = if self.layout == CaseLayout::Packed { 2 } else { 0 };
        let full = [self.lengths.len(), self.heads, longest(|l| l.0) + more, longest(|l| l.1) + more];
        let (mut shape, mut strides) = ([1; 4], [0; 4]);
        let mut stride = if form.has_gaps { 2 } else { 1 };
        for axis in (4 - form.rank..4).rev() {
            if form.ones[axis] {
                continue;
            }
            shape[axis] = full[axis];
            if !form.still[axis] {
                strides[axis] = stride;
                stride = stride * full[axis] + if form.has_gaps { 3 } else { 0 };
            }
        }
        Some((shape, strides))
    }

    /// Returns the index of a pair in the mask, and in the mask's gradient.
    pub(crate) fn mask_entry(&self, s: usize, h: usize, i: usize, j: usize) -> (usize, usize) {
        let (shape, strides) = self.mask_axes().expect("a mask");
        [s, h, i, j].into_iter().enumerate().fold((0, 0), |(at, place), (axis, index)| {
            let index = if shape[axis] == 1 { 0 } else { index };
            (at + index * strides[axis], place * shape[axis] + index)
        })
    }

    fn orders(&self) -> [AxisOrder; 5] {
        let mixed = [
            AxisOrder::HeadsFirstWithGaps,
            AxisOrder::RowsFirst,
            AxisOrder::RowsFirstWithGaps,
            AxisOrder::HeadsFirst,
            AxisOrder::HeadsFirstWithGaps,
        ];
        match self.layout {
            CaseLayout::Plain => [AxisOrder::HeadsFirst; 5],
            CaseLayout::RowsFirst => [AxisOrder::RowsFirst; 5],
            CaseLayout::Packed => [AxisOrder::Packed; 5],
            CaseLayout::Mixed => std::array::from_fn(|at| mixed[(at + self.seed as usize) % 5]),
        }
    }
}

/// The data of a case, in the order of the tests.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    pub(crate) query: Vec<f64>,
    pub(crate) key: Vec<f64>,
    pub(crate) value: Vec<f64>,
    pub(crate) d_output: Vec<f64>,
    pub(crate) d_log_sum_exp: Vec<f64>,
    /// Entries of the mask as stored in memory.
    pub(crate) bias: Vec<f32>,
    pub(crate) allowed: Vec<bool>,
    pub(crate) slopes: Vec<f32>,
    pub(crate) sinks: Vec<f32>,
}

impl Data {
    pub(crate) fn new(case: &Case) -> Self {
        let mut random = Random::new(case.seed);
        let mut numbers = |shape: &RowShape, size: f64| -> Vec<f64> {
            (0..shape.rows() * shape.dim).map(|_| f64::from((size * random.number()) as f32)).collect()
        };
        let size = if matches!(case.scores, ScoreRange::Large | ScoreRange::Growing) { 40.0 } else { 2.0 };
        let mut query = numbers(&case.query(), size);
        let mut key = numbers(&case.key(), if case.scores == ScoreRange::Large { size } else { 2.0 });
        let (mut value, d_output) = (numbers(&case.value(), 2.0), numbers(&case.output(), 2.0));
        if case.scores != ScoreRange::Small {
            // Exact in bf16, so that scores have the same accuracy at every level.
            [&mut query, &mut key].into_iter().flatten().for_each(|x| *x = bf16::round_from(*x).to_f64());
        }
        for (row, (s, _, j)) in case.key().places().enumerate() {
            let key = &mut key[row * case.dim..][..case.dim];
            match case.scores {
                ScoreRange::Growing => key.iter_mut().for_each(|x| *x *= [0.0625, 1.0, 8.0][j.min(511) / 60 % 3]),
                ScoreRange::Negative => key[0] = -64.0,
                _ => {}
            }
            if j >= case.keys(s) {
                key.fill(f64::NAN);
                value[row * case.value_dim..][..case.value_dim].fill(f64::NAN);
            }
        }
        if case.scores == ScoreRange::Negative {
            query.iter_mut().step_by(case.dim).for_each(|x| *x = 64.0);
        }
        let mut one = |size: f64| (size * random.number()) as f32;
        let d_log_sum_exp = (0..case.query().rows()).map(|_| f64::from(one(1.0))).collect();
        let slopes = (0..case.heads).map(|h| 0.5f32.powi(1 + h as i32)).collect();
        let sinks = (0..case.heads).map(|_| one(3.0)).collect();
        let (mut bias, mut allowed) = (vec![], vec![]);
        if let Some((shape, strides)) = case.mask_axes() {
            let end = (0..4).map(|axis| shape[axis].saturating_sub(1) * strides[axis]).sum::<usize>();
            let len = if shape.contains(&0) { 0 } else { end + 1 };
            (bias, allowed) = (vec![f32::NAN; len], vec![true; len]);
            for at in 0..shape.iter().product() {
                let index: [usize; 4] =
                    std::array::from_fn(|axis| at / shape[axis + 1..].iter().product::<usize>() % shape[axis]);
                let entry = (0..4).map(|axis| index[axis] * strides[axis]).sum::<usize>();
                // Some queries see no key at all.
                allowed[entry] = random.below(4) > 0 && (shape[2] == 1 || index[2] % 7 != 3);
                bias[entry] = if allowed[entry] { random.number() as f32 * 3.0 } else { f32::NEG_INFINITY };
            }
        }
        Data { query, key, value, d_output, d_log_sum_exp, bias, allowed, slopes, sinks }
    }

    /// Rounds the values to `T`.
    pub(crate) fn rounded<T: Element>(&self) -> Self {
        let mut data = self.clone();
        let Data { query, key, value, d_output, .. } = &mut data;
        [query, key, value, d_output].into_iter().flatten().for_each(|x| *x = T::round_from(*x).to_f64());
        data
    }
}

/// The results of attention, in the order of the tests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Results {
    pub(crate) output: Vec<f64>,
    pub(crate) log_sum_exp: Vec<f64>,
    pub(crate) d_query: Vec<f64>,
    pub(crate) d_key: Vec<f64>,
    pub(crate) d_value: Vec<f64>,
    pub(crate) d_mask: Vec<f64>,
    pub(crate) d_sinks: Vec<f64>,
}

impl Results {
    pub(crate) const NAMES: [&str; 7] = ["output", "log_sum_exp", "d_query", "d_key", "d_value", "d_mask", "d_sinks"];

    pub(crate) fn parts(&self) -> [&[f64]; 7] {
        let Results { output, log_sum_exp, d_query, d_key, d_value, d_mask, d_sinks } = self;
        [output, log_sum_exp, d_query, d_key, d_value, d_mask, d_sinks]
    }
}

/// Runs `case` forward and backward with values of type `T`. Inputs are between inaccessible pages, outputs between
/// guard bytes.
pub(crate) fn run<T: Element>(case: &Case, data: &Data, precision: Precision) -> Results {
    let side = if case.seed.is_multiple_of(4) { Side::Before } else { Side::After };
    let orders = case.orders();
    let [query_place, key_place, value_place, output_place] = [
        ArrayLayout::new(case.query(), orders[0]),
        ArrayLayout::new(case.key(), orders[1]),
        ArrayLayout::new(case.value(), orders[2]),
        ArrayLayout::new(case.output(), orders[3]),
    ];
    let d_output_place = ArrayLayout::new(case.output(), orders[4]);
    let [query, key, value, d_output] = [
        query_place.copy_in::<T>(&data.query, side),
        key_place.copy_in::<T>(&data.key, side),
        value_place.copy_in::<T>(&data.value, side),
        d_output_place.copy_in::<T>(&data.d_output, side),
    ];
    let sums = |numbers: &[f64]| numbers.iter().map(|&x| T::Sum::round_from(x)).collect::<Vec<_>>();
    let bias: Vec<T::Sum> = data.bias.iter().map(|&x| T::Sum::round_from(f64::from(x))).collect();
    let (bias, allowed) = (Fenced::new(&bias, side), Fenced::new(&data.allowed, side));
    let (slopes, sinks) = (Fenced::new(&data.slopes, side), Fenced::new(&data.sinks, side));
    let mut args =
        Attention::new(query_place.view(&query), key_place.view(&key), value_place.view(&value)).precision(precision);
    if let Some(scale) = case.scale {
        args = args.scale(scale);
    }
    if let Some(cap) = case.softcap {
        args = args.softcap(cap);
    }
    if let Some(diagonal) = case.causal {
        args = args.causal(diagonal);
    }
    if let Some((left, right, diagonal)) = case.window {
        args = args.window(left, right, diagonal);
    }
    if let Some(lengths) = &case.key_lengths {
        args = args.key_lengths(lengths);
    }
    if case.alibi {
        args = args.alibi(&slopes);
    }
    if case.sinks {
        args = args.sinks(&sinks);
    }
    if case.dropout > 0.0 {
        args = args.dropout(AttentionDropout { rate: case.dropout, random: dropout_random() });
    }
    let mut d_mask_size = 0;
    if let (Some(form), Some((shape, strides))) = (case.mask, case.mask_axes()) {
        let first = 4 - form.rank;
        let (axes, steps) = (&shape[first..], &strides[first..]);
        let is_plain = !form.has_gaps && !(0..4).any(|axis| form.still[axis] && shape[axis] != 1);
        args = args.mask(match (form.is_additive, is_plain) {
            (true, true) => Mask::Additive(MaskView::new(&bias, axes).unwrap()),
            (true, false) => Mask::Additive(MaskView::strided(&bias, axes, steps).unwrap()),
            (false, true) => Mask::Boolean(MaskView::new(&allowed, axes).unwrap()),
            (false, false) => Mask::Boolean(MaskView::strided(&allowed, axes, steps).unwrap()),
        });
        d_mask_size = if form.is_additive { shape.iter().product() } else { 0 };
    }

    let is_packed = query_place.is_packed();
    let order = |s: usize, h: usize, i: usize| {
        // If sequences are packed, the log-sum-exp is (heads, tokens).
        let tokens: usize = case.lengths.iter().map(|l| l.0).sum();
        let before: usize = case.lengths[..s].iter().map(|l| l.0).sum();
        if is_packed { h * tokens + before + i } else { case.query().row(s, h, i) }
    };
    let places: Vec<usize> = case.query().places().map(|(s, h, i)| order(s, h, i)).collect();
    let guarded = |len: usize| GuardedBuffer::filled(len, T::Sum::round_from(f64::NAN), T::Sum::round_from(-4321.0));
    let mut output = OutputArray::<T>::new(output_place.clone());
    let mut log_sum_exp = guarded(case.query().rows());
    args.forward_with_log_sum_exp(output.view(), log_sum_exp.as_mut_slice()).unwrap();
    let output = output.take();
    let log_sum_exp = Fenced::new(&log_sum_exp.into_checked(), side);

    let mut alone = OutputArray::<T>::new(output_place.clone());
    args.forward(alone.view()).unwrap();
    let is_same = alone.take().iter().zip(&output).all(|(a, b)| a.to_bits() == b.to_bits());
    assert!(is_same, "the output depends on whether the log-sum-exp is computed");

    let mut d_lse = vec![0.0; places.len()];
    places.iter().zip(&data.d_log_sum_exp).for_each(|(&place, &d)| d_lse[place] = d);
    let d_lse = Fenced::new(&sums(&d_lse), side);
    let saved_output = output_place.copy_in::<T>(&output, side);
    let saved = BackwardInputs {
        output: output_place.view(&saved_output),
        log_sum_exp: &log_sum_exp,
        d_output: d_output_place.view(&d_output),
        d_log_sum_exp: case.d_log_sum_exp.then_some(&*d_lse),
    };
    let [mut d_query, mut d_key, mut d_value] =
        [query_place.clone(), key_place.clone(), value_place.clone()].map(OutputArray::<T>::new);
    let mut d_mask = guarded(d_mask_size);
    let mut d_sinks = guarded(if case.sinks { case.heads } else { 0 });
    let gradients = Gradients {
        query: d_query.view(),
        key: d_key.view(),
        value: d_value.view(),
        mask: case.mask.is_some_and(|form| form.is_additive).then(|| d_mask.as_mut_slice()),
        sinks: case.sinks.then(|| d_sinks.as_mut_slice()),
    };
    args.backward(saved, gradients).unwrap();
    let wide = |numbers: Vec<T::Sum>| numbers.iter().map(|x| x.to_f64()).collect::<Vec<f64>>();
    Results {
        output,
        log_sum_exp: places.iter().map(|&place| log_sum_exp[place].to_f64()).collect(),
        d_query: d_query.take(),
        d_key: d_key.take(),
        d_value: d_value.take(),
        d_mask: wide(d_mask.into_checked()),
        d_sinks: wide(d_sinks.into_checked()),
    }
}

/// Returns the source of dropout's random numbers in every case.
pub(crate) fn dropout_random() -> Philox {
    Philox::new(3, 4)
}
