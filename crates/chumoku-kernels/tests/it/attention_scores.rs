//! Scores, weights and statistics on every instruction set, compared with the reference implementation: all options,
//! poisoned masked data, empty rows.

use crate::common::each_isa;
use chumoku_kernels::{
    Attention, AttentionStatistics, Causal, Element, Heads, Mask, MaskView, ScoreStage, TopKeys, bf16, f16,
    reference::{AttentionRow, attention_row},
};
use testkit::{Random, Tolerance, compare};

const CLOSE: Tolerance = Tolerance { relative: 3e-6, absolute: 1e-6 };

/// Data for attention with the options in the bits of `options`.
struct ScoreCase<T> {
    data: [Vec<T>; 3],
    shape: [usize; 7],
    lengths: Vec<usize>,
    boolean: Vec<bool>,
    slopes: Vec<f32>,
    sinks: Vec<f32>,
    options: u64,
}

impl<T: Element> ScoreCase<T> {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let sizes = [0, 1, 2, 7, 16, 33, 70, 130];
        let group = 1 + random.below(3);
        let (batch, key_heads) = (1 + random.below(2), 1 + random.below(2));
        let (queries, keys) = (sizes[random.below(8)], sizes[random.below(8)]);
        let (dim, value_dim) = (1 + random.below(40), 1 + random.below(5));
        let shape = [batch, key_heads * group, key_heads, queries, keys, dim, value_dim];
        let mut numbers = |n: usize| (0..n).map(|_| T::round_from(random.number() * 2.0)).collect::<Vec<T>>();
        let data = [
            numbers(batch * key_heads * group * queries * dim),
            numbers(batch * key_heads * keys * dim),
            numbers(batch * key_heads * keys * value_dim),
        ];
        let heads = key_heads * group;
        ScoreCase {
            data,
            shape,
            lengths: (0..batch).map(|_| random.below(keys + 1)).collect(),
            boolean: (0..heads * queries * keys).map(|_| random.below(4) > 0).collect(),
            slopes: (0..heads).map(|_| random.number() as f32).collect(),
            sinks: random.numbers(heads),
            options: random.bits(),
        }
    }

    fn has(&self, option: u32) -> bool {
        self.options >> option & 1 == 1
    }

    fn check(&self, additive: &[T::Sum], test: impl Fn(&Attention<T>)) {
        let [batch, heads, key_heads, queries, keys, dim, value_dim] = self.shape;
        let query = Heads::bhld(&self.data[0], [batch, heads, queries, dim]).unwrap();
        let key = Heads::bhld(&self.data[1], [batch, key_heads, keys, dim]).unwrap();
        let value = Heads::bhld(&self.data[2], [batch, key_heads, keys, value_dim]).unwrap();
        let mut args = Attention::new(query, key, value).scale(0.3);
        if self.has(0) {
            args = args.softcap(1.5);
        }
        if self.has(1) {
            args = args.key_lengths(&self.lengths);
        }
        let diagonal = [Causal::TopLeft, Causal::BottomRight, Causal::Offset(-3), Causal::Offset(2)];
        let diagonal = diagonal[(self.options >> 10) as usize % 4];
        if self.has(2) {
            args = args.causal(diagonal);
        }
        if self.has(3) {
            args = args.window(Some(5), Some(3), diagonal);
        }
        if self.has(4) {
            args = args.alibi(&self.slopes);
        }
        if self.has(5) {
            args = args.sinks(&self.sinks);
        }
        let mask = match (self.has(6), self.has(7)) {
            (true, true) => Some(Mask::Boolean(MaskView::new(&self.boolean, &[heads, queries, keys]).unwrap())),
            (true, false) => Some(Mask::Additive(MaskView::new(additive, &[heads, queries, keys]).unwrap())),
            _ => None,
        };
        if let Some(mask) = mask {
            args = args.mask(mask);
        }
        test(&args);
    }

    /// Returns an additive mask with −∞ where the boolean mask is false.
    fn additive(&self) -> Vec<T::Sum> {
        let entry = |(n, &allowed): (usize, &bool)| if allowed { (n % 13) as f64 / 7.0 } else { f64::NEG_INFINITY };
        self.boolean.iter().enumerate().map(entry).map(T::Sum::round_from).collect()
    }

    fn sizes(&self, s: usize) -> (usize, usize) {
        (self.shape[3], if self.has(1) { self.lengths[s] } else { self.shape[4] })
    }
}

fn wide<S: Element>(x: &[S]) -> Vec<f64> {
    x.iter().map(|x| x.to_f64()).collect()
}

fn scores<T: Element>(args: &Attention<T>, stage: ScoreStage, s: usize, h: usize, len: usize) -> Vec<f64> {
    let mut scores = vec![T::Sum::round_from(f64::NAN); len];
    args.scores(stage, s, h, &mut scores).unwrap();
    wide(&scores)
}

fn against_reference<T: Element>(seeds: std::ops::Range<u64>, tolerance: Tolerance) {
    for seed in seeds {
        let case = ScoreCase::<T>::new(seed);
        let [batch, heads, _, _, _, _, _] = case.shape;
        case.check(&case.additive(), |args| {
            for (s, h) in (0..batch).flat_map(|s| (0..heads).map(move |h| (s, h))) {
                let (queries, keys) = case.sizes(s);
                let rows: Vec<AttentionRow> = (0..queries).map(|i| attention_row(args, s, h, i)).collect();
                let name = format!("{} {seed} {:?} {s} {h}", T::NAME, case.shape);
                let weights: Vec<f64> = rows.iter().flat_map(|row| row.weights.clone()).collect();
                compare(&name, &wide(&args.weights(s, h).unwrap()), &weights, tolerance).unwrap();
                let score = |score: &Option<f64>| score.unwrap_or(f64::NEG_INFINITY);
                let masked: Vec<f64> = rows.iter().flat_map(|row| row.scores.iter().map(score)).collect();
                compare(&name, &scores(args, ScoreStage::Masked, s, h, queries * keys), &masked, tolerance).unwrap();
                // Scaled and capped scores equal those of attention without masks.
                let plain = Attention::new(args_query(&case), args_key(&case), args_value(&case)).scale(0.3);
                for (stage, plain) in [(ScoreStage::Scaled, plain), (ScoreStage::Capped, plain.softcap(1.5))] {
                    if stage == ScoreStage::Capped && !case.has(0) {
                        continue;
                    }
                    let row = |i| attention_row(&plain, s, h, i).scores.into_iter().take(keys).flatten();
                    let expected: Vec<f64> = (0..queries).flat_map(row).collect();
                    compare(&name, &scores(args, stage, s, h, queries * keys), &expected, tolerance).unwrap();
                }
            }
        });
    }
}

fn args_query<T: Element>(case: &ScoreCase<T>) -> Heads<'_, T> {
    let [batch, heads, _, queries, _, dim, _] = case.shape;
    Heads::bhld(&case.data[0], [batch, heads, queries, dim]).unwrap()
}

fn args_key<T: Element>(case: &ScoreCase<T>) -> Heads<'_, T> {
    let [batch, _, heads, _, keys, dim, _] = case.shape;
    Heads::bhld(&case.data[1], [batch, heads, keys, dim]).unwrap()
}

fn args_value<T: Element>(case: &ScoreCase<T>) -> Heads<'_, T> {
    let [batch, _, heads, _, keys, _, dim] = case.shape;
    Heads::bhld(&case.data[2], [batch, heads, keys, dim]).unwrap()
}

#[test]
fn every_stage_matches_the_reference() {
    each_isa(|_| {
        against_reference::<f32>(0..150, CLOSE);
        against_reference::<bf16>(200..230, CLOSE);
        against_reference::<f16>(300..330, CLOSE);
    });
    against_reference::<f64>(400..430, Tolerance { relative: 1e-14, absolute: 1e-14 });
}

/// Computes statistics from the weights of the reference implementation.
fn expected<T: Element>(args: &Attention<T>, case: &ScoreCase<T>, count: usize) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let [batch, heads, _, queries, keys, _, _] = case.shape;
    let (mut mass, mut entropy, mut top) = (Vec::new(), Vec::new(), Vec::new());
    for (s, h) in (0..batch).flat_map(|s| (0..heads).map(move |h| (s, h))) {
        let mut sums = vec![0.0; keys];
        for i in 0..queries {
            let row = attention_row(args, s, h, i);
            sums.iter_mut().zip(&row.weights).for_each(|(sum, w)| *sum += w);
            entropy.push(-row.weights.iter().filter(|&&w| w > 0.0).map(|w| w * w.ln()).sum::<f64>());
            let mut seen: Vec<f64> =
                row.weights.iter().zip(&row.scores).filter(|(_, s)| s.is_some()).map(|(&w, _)| w).collect();
            seen.sort_by(|a, b| b.total_cmp(a));
            seen.resize(count, 0.0);
            top.extend(seen);
        }
        mass.extend(sums);
    }
    (mass, entropy, top)
}

#[test]
fn statistics_match_the_reference() {
    each_isa(|_| check_statistics());
}

fn check_statistics() {
    for seed in 500..600 {
        let case = ScoreCase::<f32>::new(seed);
        let [batch, heads, _, queries, keys, _, _] = case.shape;
        let count = [0, 1, 3, 50][seed as usize % 4];
        case.check(&case.additive(), |args| {
            let (mut mass, mut entropy) =
                (vec![f32::NAN; batch * heads * keys], vec![f32::NAN; batch * heads * queries]);
            let mut top_keys = vec![Some(usize::MAX); entropy.len() * count];
            let mut top_weights = vec![f32::NAN; entropy.len() * count];
            let run = |mass: &mut [f32], entropy: &mut [f32], keys: &mut [_], weights: &mut [f32]| {
                let top = Some(TopKeys { count, keys, weights });
                args.statistics(AttentionStatistics { mass: Some(mass), entropy: Some(entropy), top }).unwrap();
            };
            run(&mut mass, &mut entropy, &mut top_keys, &mut top_weights);
            let (want_mass, want_entropy, want_top) = expected(args, &case, count);
            let name = |what| format!("{what} {seed} {:?}", case.shape);
            compare(&name("mass"), &mass, &want_mass, Tolerance { relative: 1e-5, absolute: 1e-5 }).unwrap();
            compare(&name("entropy"), &entropy, &want_entropy, Tolerance { relative: 1e-5, absolute: 1e-5 }).unwrap();
            compare(&name("top"), &top_weights, &want_top, CLOSE).unwrap();
            // Each returned key has the returned weight.
            for (row, keys) in top_keys.chunks(count.max(1)).enumerate() {
                let pair = row / queries;
                let weights = attention_row(args, pair / heads, pair % heads, row % queries).weights;
                for (n, key) in keys.iter().enumerate() {
                    let weight = key.map_or(0.0, |key| weights[key]);
                    assert!((weight - f64::from(top_weights[row * count + n])).abs() < 1e-5, "{}", name("key"));
                }
            }
            // The bytes are the same on one thread.
            let (mut mass_1, mut entropy_1) = (mass.clone(), entropy.clone());
            let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
            one.install(|| run(&mut mass_1, &mut entropy_1, &mut top_keys.clone(), &mut top_weights.clone()));
            let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!((bits(&mass), bits(&entropy)), (bits(&mass_1), bits(&entropy_1)));
        });
    }
}

/// A function that sets an option.
type Change<'c> = dyn for<'a> Fn(Attention<'a, f32>) -> Attention<'a, f32> + 'c;

/// Masked NaN and infinity never affect scores, at any stage that masks. Visible ones propagate.
#[test]
fn masked_values_do_not_affect_scores() {
    each_isa(|_| check_masked());
}

fn check_masked() {
    let (queries, keys, dim) = (40, 50, 9);
    let mut random = Random::new(1);
    let query: Vec<f32> = random.numbers(queries * dim);
    let clean: Vec<f32> = random.numbers(keys * dim);
    for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
        let mut poisoned = clean.clone();
        poisoned[30 * dim..].fill(poison);
        let boolean: Vec<bool> = (0..keys).map(|j| j < 30).collect();
        let additive: Vec<f32> = boolean.iter().map(|&b| if b { 0.5 } else { f32::NEG_INFINITY }).collect();
        let lengths = [30];
        let options: [&Change<'_>; 4] = [
            &|args| args.mask(Mask::Boolean(MaskView::new(leak(&boolean), &[keys]).unwrap())),
            &|args| args.mask(Mask::Additive(MaskView::new(leak(&additive), &[1, keys]).unwrap())),
            &|args| args.key_lengths(leak(&lengths)),
            // The last query is at key 29.
            &|args| args.causal(Causal::Offset(-10)),
        ];
        for (n, option) in options.into_iter().enumerate() {
            let value = vec![0.0; keys];
            let value = Heads::bhld(&value, [1, 1, keys, 1]).unwrap();
            let query = Heads::bhld(&query, [1, 1, queries, dim]).unwrap();
            let with = |key| option(Attention::new(query, Heads::bhld(key, [1, 1, keys, dim]).unwrap(), value));
            let (clean, poisoned) = (with(&clean), with(&poisoned));
            let len = queries * if n == 2 { 30 } else { keys };
            for stage in [ScoreStage::Masked, ScoreStage::Weights] {
                assert_eq!(scores(&clean, stage, 0, 0, len), scores(&poisoned, stage, 0, 0, len), "{poison} {n}");
            }
            let entropy = |args: &Attention<f32>| {
                let mut entropy = vec![f32::NAN; queries];
                args.statistics(AttentionStatistics { entropy: Some(&mut entropy), ..Default::default() }).unwrap();
                entropy
            };
            assert_eq!(entropy(&clean), entropy(&poisoned));
        }
    }
    // A visible NaN makes its row NaN, except for the keys that the row does not see.
    let mut poisoned = clean;
    poisoned[3 * dim] = f32::NAN;
    let value = vec![0.0; keys];
    let args = Attention::new(
        Heads::bhld(&query, [1, 1, queries, dim]).unwrap(),
        Heads::bhld(&poisoned, [1, 1, keys, dim]).unwrap(),
        Heads::bhld(&value, [1, 1, keys, 1]).unwrap(),
    )
    .causal(Causal::TopLeft);
    for (i, row) in args.weights(0, 0).unwrap().chunks(keys).enumerate() {
        assert_eq!(row[0].is_nan(), i >= 3, "query {i}");
        assert!(row[i + 1..].iter().all(|&w| w == 0.0), "query {i}");
    }
}

fn leak<T: Clone>(x: &[T]) -> &'static [T] {
    x.to_vec().leak()
}

/// A diagonal beyond the integer range does not wrap around.
#[test]
fn alibi_distances_do_not_overflow() {
    let x = [1.0f32; 6];
    let view = Heads::bhld(&x, [1, 1, 3, 2]).unwrap();
    for offset in [i64::MIN, i64::MAX] {
        let args = Attention::new(view, view, view).alibi(&[1.0]).window(None, None, Causal::Offset(offset));
        let found = scores(&args, ScoreStage::Masked, 0, 0, 9);
        let expected: Vec<f64> = (0..3).flat_map(|i| attention_row(&args, 0, 0, i).scores).flatten().collect();
        compare("scores", &found, &expected, CLOSE).unwrap();
        assert!(found.iter().all(|&score| score < -9e18));
    }
}

#[test]
fn packed_and_empty_sequences() {
    let mut random = Random::new(5);
    let (of_queries, of_keys) = ([0, 3, 3, 8], [0, 5, 9, 9]);
    let (heads, dim) = (2, 4);
    let query: Vec<f32> = random.numbers(8 * heads * dim);
    let key: Vec<f32> = random.numbers(9 * dim);
    let args = Attention::new(
        Heads::packed(&query, &of_queries, heads, dim, heads * dim).unwrap(),
        Heads::packed(&key, &of_keys, 1, dim, dim).unwrap(),
        Heads::packed(&key, &of_keys, 1, dim, dim).unwrap(),
    );
    let (mut mass, mut entropy) = (vec![f32::NAN; heads * 9], vec![f32::NAN; heads * 8]);
    let results = AttentionStatistics { mass: Some(&mut mass), entropy: Some(&mut entropy), top: None };
    args.statistics(results).unwrap();
    for h in 0..heads {
        // The first sequence has three queries and five keys, the second zero and four, the third five and zero.
        assert!((mass[h * 9..h * 9 + 5].iter().sum::<f32>() - 3.0).abs() < 1e-5);
        assert_eq!(mass[h * 9 + 5..(h + 1) * 9], [0.0; 4]);
        assert!(entropy[h * 8..h * 8 + 3].iter().all(|&x| x > 0.0 && x <= f32::ln(5.0) + 1e-6));
        assert_eq!(entropy[h * 8 + 3..(h + 1) * 8], [0.0; 5]);
        assert!(args.weights(1, h).unwrap().is_empty());
        assert!(args.weights(2, h).unwrap().is_empty());
    }
}

#[test]
fn errors_name_the_argument() {
    let x = [0.0f32; 12];
    let view = Heads::bhld(&x, [1, 1, 3, 4]).unwrap();
    let args = Attention::new(view, view, view);
    let error = |result: chumoku_kernels::Result<()>| result.unwrap_err().to_string();
    assert_eq!(
        error(args.weights(0, 1).map(|_| ())),
        "attention: sequence and head: expected below 1 and 1, got 0 and 1"
    );
    assert_eq!(
        error(args.scores(ScoreStage::Scaled, 0, 0, &mut [0.0; 8])),
        "attention: scores: expected 9 values, got 8"
    );
    let (mut mass, mut entropy) = ([0.0; 2], [0.0; 2]);
    let statistics = |results: AttentionStatistics<f32>| error(args.statistics(results));
    assert!(
        statistics(AttentionStatistics { mass: Some(&mut mass), ..Default::default() })
            .starts_with("attention: mass: ")
    );
    assert!(
        statistics(AttentionStatistics { entropy: Some(&mut entropy), ..Default::default() })
            .starts_with("attention: entropy: ")
    );
    let top = TopKeys { count: usize::MAX, keys: &mut [], weights: &mut [] };
    assert!(
        statistics(AttentionStatistics { top: Some(top), ..Default::default() }).starts_with("attention: top keys: ")
    );
    assert!(args.scale(f64::NAN).weights(0, 0).unwrap_err().to_string().contains("scale"));
}
