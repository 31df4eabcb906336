//! Deletion and insertion curves (Petsiuk, Das and Saenko 2018, "RISE: Randomized Input Sampling for Explanation of
//! Black-box Models"). They test whether the network's answer depends on the words that an explanation ranks highest.

use super::attention_collector::is_separator;
use super::attribution::{FaithfulnessCurves, OrderCurves};
use super::explanation::Explanation;
use crate::row::{AsRow, Row, RowRef};
use crate::text::{WordSpan, word_spans};
use crate::text_models::classifier::TextClassifier;
use crate::{Error, Result, sorting, tr};
use chumoku_kernels::Philox;

/// The maximum number of steps in a curve.
const MAX_STEPS: usize = 20;
/// The number of random orders that are averaged.
const RANDOM_ORDERS: u64 = 5;
/// The seed of the random orders.
const SEED: u64 = 0x6375_7276;

/// Names of word orders for comparison.
pub(super) const LAST_LAYER: &str = "attention";
pub(super) const ROLLOUT: &str = "rollout";
pub(super) const RANDOM_ORDER: &str = "random";

/// A word order, or several orders that are averaged.
pub(super) struct WordOrder {
    pub(super) name: String,
    pub(super) orders: Vec<Vec<usize>>,
}

impl WordOrder {
    /// Creates an order by descending score. Ties keep the order of the words.
    pub(super) fn by_score(name: &str, numbers: &[f32]) -> WordOrder {
        WordOrder { name: name.into(), orders: vec![sorting::argsort_descending(numbers)] }
    }

    pub(super) fn random(words: usize, stream: u64) -> WordOrder {
        let orders = (0..RANDOM_ORDERS).map(|i| Philox::new(SEED, stream * RANDOM_ORDERS + i).permutation(words));
        WordOrder { name: RANDOM_ORDER.into(), orders: orders.collect() }
    }
}

/// Returns the average attention that each word receives: in the last layer over all words and heads, and by rollout.
///
/// # Shapes
/// `attention` (layers, heads, words, words), `rollout` (layers, words, words) → (words,) each.
pub(super) fn attention_received([attention, rollout]: [&[f32]; 2], heads: usize, words: usize) -> [Vec<f32>; 2] {
    let square = words * words;
    [(attention, heads), (rollout, 1)].map(|(maps, heads)| {
        let mut sum = vec![0.0; words];
        for row in maps[maps.len().saturating_sub(heads * square)..].chunks_exact(words.max(1)) {
            sum.iter_mut().zip(row).for_each(|(sum, weight)| *sum += weight / (heads * words) as f32);
        }
        sum
    })
}

/// Returns the area under a curve over the range 0 to 1.
fn area_under_curve(steps: &[usize], curve: &[f32]) -> f32 {
    let all = steps.last().map_or(1, |&all| all.max(1)) as f32;
    let parts = steps.windows(2).zip(curve.windows(2));
    parts.map(|(at, p)| (at[1] - at[0]) as f32 / all * 0.5 * (p[0] + p[1])).sum()
}

/// Returns the row with only the selected words, each with the space before it.
fn row_with_words(row: RowRef<'_>, words: &[WordSpan], is_left: impl Fn(usize) -> bool) -> Row {
    let (text, gap) = (row.text(), row.gap());
    let (mut first, mut found, mut start) = (None, String::new(), 0);
    for (i, word) in words.iter().enumerate() {
        if gap.as_ref() == Some(&word.bytes) {
            found += &text[start..word.bytes.start];
            first = Some(std::mem::take(&mut found));
        } else if is_left(i) {
            found += &text[start..word.bytes.end];
        }
        start = word.bytes.end;
    }
    let own = match first {
        Some(first) => Row::pair(first.trim_start(), &found),
        None => found.trim_start().into(),
    };
    // Feature columns stay.
    own.as_row().with_values(&row.values().collect::<Vec<_>>())
}

impl TextClassifier {
    /// Computes the deletion and insertion curves of an explanation, and those of attention and random orders for
    /// comparison.
    ///
    /// Words are removed with the space before them. There are no attention curves for texts longer than one window and
    /// for recurrent networks.
    ///
    /// # Errors
    /// If the explanation was made by another model.
    pub fn curves(&self, explanation: &Explanation) -> Result<FaithfulnessCurves> {
        let e = explanation;
        let given = e.full_row();
        let words = word_spans(&e.text, &self.tokenizer.encode(&e.text)?);
        let frame = self.tokenizer.special_tokens();
        let read = frame.prefix.len()..e.words.len().saturating_sub(frame.suffix.len());
        let class = self.config.labels.iter().position(|label| *label == e.attribution.class);
        let Some(class) = class.filter(|_| read.len() + e.attribution.beyond.len() == words.len()) else {
            return Err(Error::Setting(tr!(
                "the explanation belongs to another model: its words or its class differ",
                "この説明は別のモデルのものです。語またはクラスが異なります"
            )));
        };
        let beyond = e.attribution.beyond.iter().map(|word| word.score);
        let scores: Vec<f32> = e.attribution.scores[read.clone()].iter().copied().chain(beyond).collect();
        let mut orders = vec![(e.attribution.method.as_str(), scores)];
        if e.layers > 0 && e.attribution.beyond.is_empty() {
            let of_words = attention_received([&e.attention, &e.derived.rollout], e.heads, e.words.len());
            orders.extend([LAST_LAYER, ROLLOUT].into_iter().zip(of_words.map(|all| all[read.clone()].to_vec())));
        }
        self.curves_of_orders(given.as_row(), &words, class, &orders, 0)
    }

    /// Computes the curves of the orders given by scores, one per word, and of random orders.
    pub(super) fn curves_of_orders(
        &self,
        row: RowRef<'_>,
        words: &[WordSpan],
        class: usize,
        numbers: &[(&str, Vec<f32>)],
        stream: u64,
    ) -> Result<FaithfulnessCurves> {
        // The separator between two texts belongs to neither and stays.
        let places: Vec<usize> = (0..words.len()).filter(|&i| !is_separator(row, &words[i], &self.tokenizer)).collect();
        let own = |numbers: &[f32]| places.iter().map(|&i| numbers[i]).collect::<Vec<f32>>();
        let mut orders: Vec<WordOrder> =
            numbers.iter().map(|(name, numbers)| WordOrder::by_score(name, &own(numbers))).collect();
        orders.push(WordOrder::random(places.len(), stream));
        let count = places.len().clamp(1, MAX_STEPS);
        let steps: Vec<usize> = (0..=count).map(|step| (2 * step * places.len() + count) / (2 * count)).collect();

        // No word removed, then all words, then every step in between.
        let mut texts =
            vec![row_with_words(row, words, |_| true), row_with_words(row, words, |i| !places.contains(&i))];
        let mut rank = vec![usize::MAX; words.len()];
        for order in orders.iter().flat_map(|order| &order.orders) {
            order.iter().enumerate().for_each(|(at, &word)| rank[places[word]] = at);
            for &step in &steps[1..count] {
                texts.push(row_with_words(row, words, |i| rank[i] >= step));
                texts.push(row_with_words(row, words, |i| rank[i] < step || rank[i] == usize::MAX));
            }
        }
        let p: Vec<f32> = self.predict(&texts)?.iter().map(|prediction| prediction.network[class].exp()).collect();
        let (ends, mut between) = p.split_at(2);
        let of_order = |WordOrder { name, orders }: WordOrder| {
            // Sums use f64, so that the mean of equal values is exact.
            let mut sums = [vec![0.0; count + 1], vec![0.0; count + 1]];
            for _ in &orders {
                let (own, rest) = between.split_at(2 * (count - 1));
                between = rest;
                for (which, sum) in sums.iter_mut().enumerate() {
                    let middle = own.iter().skip(which).step_by(2);
                    let all = [&ends[which]].into_iter().chain(middle).chain([&ends[1 - which]]);
                    sum.iter_mut().zip(all).for_each(|(sum, p)| *sum += f64::from(*p));
                }
            }
            let of = |sums: Vec<f64>| sums.iter().map(|sum| (sum / orders.len() as f64) as f32).collect::<Vec<f32>>();
            let curves = sums.map(of);
            let [deletion_area, insertion_area] = curves.each_ref().map(|curve| area_under_curve(&steps, curve));
            let [deletion, insertion] = curves;
            OrderCurves { order: name, deletion, insertion, deletion_area, insertion_area }
        };
        let orders = orders.into_iter().map(of_order).collect();
        Ok(FaithfulnessCurves { words: steps, orders })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_means_over_the_share_of_words() {
        assert_eq!(area_under_curve(&[0, 1, 4], &[1.0, 0.0, 0.0]), 0.125);
        assert_eq!(area_under_curve(&[0, 2], &[0.5, 0.5]), 0.5);
        assert_eq!(area_under_curve(&[0, 0], &[0.5, 0.5]), 0.0);
    }

    #[test]
    fn received_attention_is_the_column_mean_of_the_last_layer() {
        // Two layers of two heads over two words.
        let attention: Vec<f32> = [[9.0; 8], [0.0, 1.0, 0.5, 0.5, 0.25, 0.75, 1.0, 0.0]].concat();
        let rollout = [7.0, 7.0, 7.0, 7.0, 0.5, 0.5, 0.0, 1.0];
        let [last, rolled] = attention_received([&attention, &rollout], 2, 2);
        assert_eq!(last, [0.4375, 0.5625]);
        assert_eq!(rolled, [0.25, 0.75]);
    }

    #[test]
    fn words_are_removed_with_the_space_before_them() {
        let text = " so good, they said";
        let word = |bytes: std::ops::Range<usize>| WordSpan { bytes, tokens: 0..1 };
        let words = [word(1..3), word(4..8), word(8..9), word(10..14), word(15..19)];
        assert_eq!(row_with_words(text.as_row(), &words, |_| true), text.trim_start());
        assert_eq!(row_with_words(text.as_row(), &words, |i| i != 0 && i != 3), "good, said");
        assert_eq!(row_with_words(text.as_row(), &words, |_| false), "");
    }

    #[test]
    fn orders_start_with_the_largest_score() {
        assert_eq!(WordOrder::by_score("x", &[0.5, -2.0, 3.0, 0.5]).orders, [[2, 0, 3, 1]]);
        let random = WordOrder::random(7, 3);
        assert_eq!(random.orders.len() as u64, RANDOM_ORDERS);
        for order in &random.orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..7).collect::<Vec<_>>());
        }
        assert_ne!(random.orders[0], random.orders[1]);
    }
}
