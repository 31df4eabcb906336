//! Faithfulness of explanations over many texts: how well each method identifies the words that the model's answers
//! depend on, including attention.

use super::attention_collector::{AttentionCollector, FramedText};
use super::attribution::{AttributionMethod, FaithfulnessCurves};
use super::classifier::{log_odds, sum_by_word};
use super::curves::{LAST_LAYER, ROLLOUT, attention_received};
use super::integrated_gradients::{NEGLIGIBLE_GAP, PathIntegrator};
use crate::lang::Lang;
use crate::row::{AsRow, RowRef};
use crate::text::{windows, word_spans};
use crate::text_models::classifier::TextClassifier;
use crate::{Error, Result, tr};
use chumoku_kernels::Philox;
use serde::Serialize;

/// The maximum number of explained texts.
const MAX_TEXTS: usize = 100;
/// The number of bootstrap resamples.
const RESAMPLES: u64 = 1000;

/// A mean with its 95 % bootstrap interval over texts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeanInterval {
    /// The mean.
    pub mean: f32,
    /// The lower end of the interval.
    pub low: f32,
    /// The upper end of the interval.
    pub high: f32,
}

/// The results of word orders by one method.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MethodFaithfulness {
    /// The name of the order, as in [`OrderCurves::order`](super::OrderCurves::order).
    pub order: String,
    /// The mean area under the deletion curve. Smaller is better.
    pub deletion: MeanInterval,
    /// The mean area under the insertion curve. Larger is better.
    pub insertion: MeanInterval,
    /// The area under insertion minus deletion, relative to random orders of the same texts.
    pub gain: MeanInterval,
}

/// The faithfulness of each attribution method for the network's answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Faithfulness {
    /// The number of explained texts.
    pub rows: usize,
    /// The number of given texts.
    pub of: usize,
    /// The number of sampled texts with fewer than two words or more than one window.
    pub unfit: usize,
    /// The seed of the sample.
    pub seed: u64,
    /// The results of each method, random orders last.
    pub orders: Vec<MethodFaithfulness>,
    /// The method with the largest gain, of leave-one-out and integrated gradients.
    pub(crate) best: String,
    /// The gain of attention as a share of the best method's gain. `None` without attention, or if the best method
    /// gains nothing.
    pub(crate) attention_share: Option<MeanInterval>,
    /// The largest completeness gap of integrated gradients, as a share of the change. Gaps up to 0.001 do not count.
    pub largest_gap: f32,
}

impl TextClassifier {
    /// Explains a sample of texts by each method, and compares the deletion and insertion curves with those of
    /// attention and random orders. `progress` receives the number of finished texts, and the total.
    ///
    /// # Errors
    /// If no text has two words and fits into one window.
    pub fn faithfulness<R: AsRow>(
        &self,
        texts: &[R],
        seed: u64,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Faithfulness> {
        let mut paths = PathIntegrator::new(self)?;
        let mut sample: Vec<usize> = Philox::new(seed, 0).permutation(texts.len());
        sample.truncate(MAX_TEXTS);
        sample.sort_unstable();
        let (mut curves, mut largest_gap) = (Vec::new(), 0.0f32);
        for (done, &row) in sample.iter().enumerate() {
            progress(done, sample.len());
            curves.extend(self.curves_by_method(texts[row].as_row(), row as u64, &mut paths, &mut largest_gap)?);
        }
        progress(sample.len(), sample.len());
        if curves.is_empty() {
            return Err(Error::Setting(tr!(
                "none of the {} texts has at least two words and fits into one window: there is nothing to compare",
                "{} 個のテキストに、2 語以上で一度に読めるものがなく、比べられません",
                sample.len()
            )));
        }
        let found = compare_methods(&curves, seed);
        Ok(Faithfulness { of: texts.len(), unfit: sample.len() - curves.len(), largest_gap, ..found })
    }

    /// Computes the curves of one text by every method. `None` if the text is unsuitable.
    fn curves_by_method(
        &self,
        text: RowRef<'_>,
        row: u64,
        paths: &mut PathIntegrator<'_>,
        largest_gap: &mut f32,
    ) -> Result<Option<FaithfulnessCurves>> {
        let encoded = self.tokenizer.encode(text)?;
        let words = word_spans(text, &encoded);
        if words.len() < 2 || windows(encoded.ids.len(), self.window()).len() > 1 {
            return Ok(None);
        }
        let whole = self.predict(&[text])?.remove(0);
        let class = self.config.target.class_to_explain(&whole);
        let odds = |log_p: &[f32]| log_odds(f64::from(log_p[class]).exp());
        let with = odds(&whole.network);
        let without = self.predict_without_words(text, &words, &mut |_, _| {})?;
        let left_out = without.iter().map(|without| (with - odds(&without.network)) as f32);
        let (of_tokens, integral) = paths.integrate(&encoded.ids, class)?;
        // For a negligible change, even a tiny gap is a large share.
        if let Some(share) = integral.gap_share().filter(|_| integral.gap > NEGLIGIBLE_GAP as f32) {
            *largest_gap = largest_gap.max(share);
        }
        let mut orders = vec![
            (AttributionMethod::LeaveOneOut.name(), left_out.collect::<Vec<f32>>()),
            (AttributionMethod::IntegratedGradients.name(), sum_by_word(&of_tokens, &words).collect()),
        ];
        if let Some(encoder) = self.config.model.backbone.transformer() {
            let FramedText { ids, tokens, special_names: around, .. } =
                FramedText::read(text, &self.tokenizer, self.config.max_tokens())?;
            let mut look = AttentionCollector::new(&tokens);
            self.model.trace_layers(&self.params, &ids, &mut |record| look.add(record))?;
            let all = attention_received([&look.attention, &look.derived.rollout], encoder.num_heads, tokens.len());
            let own = around[0].len()..tokens.len() - around[1].len();
            orders.extend([LAST_LAYER, ROLLOUT].into_iter().zip(all.map(|all| all[own.clone()].to_vec())));
        }
        self.curves_of_orders(text, &words, class, &orders, row).map(Some)
    }
}

/// Computes the statistics over all texts.
fn compare_methods(curves: &[FaithfulnessCurves], seed: u64) -> Faithfulness {
    let names: Vec<&str> = curves[0].orders.iter().map(|curve| curve.order.as_str()).collect();
    // [deletion, insertion, gain] of each text, by method.
    let of_method = |method: usize| -> Vec<[f64; 3]> {
        let each = curves.iter().map(|curves| {
            let [own, random] = [&curves.orders[method], &curves.orders[names.len() - 1]];
            let [own, random] = [own, random].map(|curve| [curve.deletion_area, curve.insertion_area].map(f64::from));
            [own[0], own[1], (own[1] - own[0]) - (random[1] - random[0])]
        });
        each.collect()
    };
    let all: Vec<Vec<[f64; 3]>> = (0..names.len()).map(of_method).collect();
    // All methods share the same resamples, so that they can be compared.
    let rows = curves.len();
    let resamples: Vec<Vec<usize>> = (0..RESAMPLES)
        .map(|i| {
            let random = Philox::new(seed, 1 + i);
            (0..rows).map(|row| ((u64::from(random.block(row as u64)[0]) * rows as u64) >> 32) as usize).collect()
        })
        .collect();
    let mean =
        |of: &dyn Fn(usize) -> f64, rows: &[usize]| rows.iter().map(|&row| of(row)).sum::<f64>() / rows.len() as f64;
    let every: Vec<usize> = (0..rows).collect();
    let interval = |of: &dyn Fn(&[usize]) -> f64| {
        let mut found: Vec<f64> = resamples.iter().map(|rows| of(rows)).collect();
        found.sort_by(f64::total_cmp);
        let at = |share: f64| found[(share * (found.len() - 1) as f64).round() as usize] as f32;
        MeanInterval { mean: of(&every) as f32, low: at(0.025), high: at(0.975) }
    };
    let figure = |method: usize, which: usize| interval(&|rows| mean(&|row| all[method][row][which], rows));
    let orders: Vec<MethodFaithfulness> = names
        .iter()
        .enumerate()
        .map(|(method, name)| {
            let [deletion, insertion, gain] = [0, 1, 2].map(|which| figure(method, which));
            MethodFaithfulness { order: (*name).into(), deletion, insertion, gain }
        })
        .collect();
    let best = usize::from(orders[1].gain.mean > orders[0].gain.mean);
    let attention = names.iter().position(|&name| name == LAST_LAYER).filter(|_| orders[best].gain.low > 0.0);
    let gained = |method: usize, rows: &[usize]| mean(&|row| all[method][row][2], rows);
    let attention_share =
        attention.map(|attention| interval(&|rows| gained(attention, rows) / gained(best, rows).max(1e-9)));
    let best = names[best].to_owned();
    Faithfulness { rows, of: rows, unfit: 0, seed, orders, best, attention_share, largest_gap: 0.0 }
}

impl Faithfulness {
    /// Returns a sentence on how far attention can be trusted for this model.
    #[must_use]
    pub fn summary(&self, lang: Lang) -> String {
        let of = |name: &str| self.orders.iter().find(|faith| faith.order == name);
        let Some(attention) = of(LAST_LAYER) else {
            return lang.pick("The network has no attention.", "このネットワークにはアテンションがありません。").into();
        };
        let best = &self.best;
        let Some(share) = self.attention_share else {
            return match lang {
                Lang::En => "No method finds the words behind the answers better than chance: trust neither attention nor word \
                             effects for this model."
                    .into(),
                Lang::Ja => "どの方法も、予測の根拠となる語を偶然以上には見つけません。ここではアテンションも語の影響も根拠とみなせません。".into(),
            };
        };
        let [mean, low, high] = [share.mean, share.low, share.high].map(|x| format!("{:.0}", 100.0 * x));
        match (lang, attention.gain.low > 0.0, share.mean >= 0.5) {
            (Lang::En, false, _) => format!(
                "Attention finds the words behind the answers no better than chance ({mean} % of the gain of {best} over random \
                 order, 95 % interval {low} to {high}): do not read it as the reason for an answer."
            ),
            (Lang::En, true, false) => format!(
                "Attention finds the words behind the answers better than chance, but has only {mean} % of the gain of {best} \
                 over random order (95 % interval {low} to {high}): use {best} instead."
            ),
            (Lang::En, true, true) => format!(
                "Attention finds most of the words behind the answers: it has {mean} % of the gain of {best} over random order \
                 (95 % interval {low} to {high})."
            ),
            (Lang::Ja, false, _) => format!(
                "アテンションは、予測の根拠となる語を偶然以上には見つけません（無作為順からの改善は {best} の {mean} %、95 % 区間 {low}〜{high}）。\
                 予測の理由として読まないでください。"
            ),
            (Lang::Ja, true, false) => format!(
                "アテンションは、予測の根拠となる語を偶然よりは見つけますが、無作為順からの改善は {best} の {mean} % です（95 % 区間 \
                 {low}〜{high}）。{best} を見てください。"
            ),
            (Lang::Ja, true, true) => format!(
                "アテンションは、予測の根拠となる語をおおむね見つけます。無作為順からの改善は {best} の {mean} % です（95 % 区間 {low}〜{high}）。"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::attribution::OrderCurves;
    use super::super::curves::RANDOM_ORDER;
    use super::*;

    /// Texts with given areas by order: leave-one-out, integrated gradients, attention, random.
    fn of(areas: &dyn Fn(usize) -> [[f32; 2]; 4]) -> Faithfulness {
        let names = [
            AttributionMethod::LeaveOneOut.name(),
            AttributionMethod::IntegratedGradients.name(),
            LAST_LAYER,
            RANDOM_ORDER,
        ];
        let curves: Vec<FaithfulnessCurves> = (0..40)
            .map(|row| {
                let curve = |(name, [deletion_area, insertion_area]): (&str, [f32; 2])| OrderCurves {
                    order: name.into(),
                    deletion: Vec::new(),
                    insertion: Vec::new(),
                    deletion_area,
                    insertion_area,
                };
                FaithfulnessCurves { words: Vec::new(), orders: names.into_iter().zip(areas(row)).map(curve).collect() }
            })
            .collect();
        compare_methods(&curves, 1)
    }

    #[test]
    fn attention_is_trusted_as_far_as_it_exceeds_chance() {
        let noise = |row: usize| 0.01 * (row % 5) as f32;
        let found = of(&|row| [[0.4, 0.8 + noise(row)], [0.3, 0.9], [0.5, 0.7], [0.6, 0.6]]);
        assert_eq!(found.best, "integrated gradients");
        assert_eq!(found.rows, 40);
        let share = found.attention_share.unwrap();
        assert!(
            (share.mean - 1.0 / 3.0).abs() < 1e-4 && share.low <= share.mean && share.mean <= share.high,
            "{share:?}"
        );
        assert!(found.summary(Lang::En).contains("only 33 %"), "{}", found.summary(Lang::En));
        let first = &found.orders[0];
        assert!((first.insertion.mean - 0.82).abs() < 1e-5 && first.insertion.low < first.insertion.high, "{first:?}");
        assert!((first.gain.mean - 0.42).abs() < 1e-5, "{first:?}");
        // Equal to random on average, above or below it row by row.
        let odd = |row: usize| if row.is_multiple_of(2) { 0.1 } else { -0.1 };
        let found = of(&|row| [[0.4, 0.8], [0.3, 0.9], [0.6, 0.6 + odd(row)], [0.6, 0.6]]);
        assert!(found.summary(Lang::En).contains("no better than chance"), "{}", found.summary(Lang::En));
        let found = of(&|_| [[0.4, 0.8], [0.3, 0.9], [0.35, 0.85], [0.6, 0.6]]);
        assert!(found.summary(Lang::En).contains("most of the words"), "{}", found.summary(Lang::En));
        let found = of(&|row| [[0.6, 0.6 + odd(row)], [0.7, 0.6], [0.6, 0.6], [0.6, 0.6]]);
        assert!(found.attention_share.is_none() && found.summary(Lang::En).contains("No method"));
    }
}
