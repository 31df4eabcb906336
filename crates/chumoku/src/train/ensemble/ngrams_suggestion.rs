//! The suggestion to stop at the n-grams, when a transformer has little to add.

use super::ngrams::train_on_rows;
use super::target::ClassifierTarget;
use crate::ngram::{NgramConfig, NgramModel};
use crate::scoring::{Rows, argmax};
use crate::train::data::training_data::TrainingData;
use crate::train::reports::recorded_accuracies::{error_reduction, range, suggested_encoder};
use crate::train::training_loop::train_event::{TrainEvent, topic_label};
use crate::{Result, tr};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

/// The validation accuracy from which the n-grams are near the ceiling.
const NEAR_CEILING: f64 = 0.97;
/// The minimum number of validation rows and of training rows for a comparison of half the rows with all.
const MIN_ROWS: [usize; 2] = [300, 1000];
/// The maximum gain from twice the rows that counts as none, if chance explains it (one standard error).
const MAX_FLAT_GAIN: f64 = 0.01;

/// Suggests stopping at the n-grams when a transformer has little to add. This is the case near the ceiling, and if the
/// n-grams learn no more from all rows than from half of them. N-grams at chance say nothing about a transformer.
pub(super) fn suggest_ngrams_only<A: ClassifierTarget>(
    data: &TrainingData<A>,
    ngrams: &NgramModel,
    (config, class_weights): (&NgramConfig, Option<&[f32]>),
    stop: &AtomicBool,
    observe: &mut dyn FnMut(TrainEvent<'_>),
) -> Result<()> {
    let Some(by_all) = correct_rows(data, ngrams) else { return Ok(()) };
    let share = |rows: &[bool]| rows.iter().filter(|right| **right).count() as f64 / rows.len() as f64;
    let right = share(&by_all);
    if !is_above_majority(right, data) {
        return Ok(());
    }
    let percent = 100.0 * right;
    let why = if right >= NEAR_CEILING {
        tr!(
            "n-grams alone are right in {percent:.1} % of the validation rows",
            "n-gram だけで検証データの {percent:.1} % が正解です"
        )
    } else if data.valid.len() >= MIN_ROWS[0] && data.train.len() >= MIN_ROWS[1] && data.columns.is_empty() {
        let half = TrainingData { labels: data.labels.clone(), train: half_of_rows(data), ..TrainingData::default() };
        let c = ngrams.report().map_or(config.c_without_validation, |report| report.c);
        let mut config = config.clone();
        (config.c_grid, config.c_without_validation) = (vec![c], c);
        let (half, _) = train_on_rows(&half, (&config, class_weights), stop, observe)?;
        let by_half = correct_rows(data, &half).unwrap_or_default();
        let gain = right - share(&by_half);
        let apart = by_all.iter().zip(&by_half).filter(|(all, half)| all != half).count() as f64;
        if gain > MAX_FLAT_GAIN.min(apart.sqrt() / by_all.len() as f64) {
            return Ok(());
        }
        let points = 100.0 * gain;
        tr!(
            "n-grams learn as much from half of the rows as from all ({points:+.1} points)",
            "n-gram は半分の行でも同じだけ学習します（全行との差 {points:+.1} ポイント）"
        )
    } else {
        return Ok(());
    };
    let of = |shares: [f64; 2]| shares.map(|share| 100.0 * (1.0 - right) * share);
    let [worse, better] = of(range(|set| error_reduction(set.ngrams, set.scratch)));
    let [least, most] = of(range(|set| error_reduction(set.ngrams, set.pretrained)));
    let name = suggested_encoder(&data.train.texts);
    let text = tr!(
        "{why}. To stop here, press Ctrl-C, then use --model ngrams. Going by recorded figures, a transformer from \
         scratch is likely to add \
         {worse:+.1} to {better:+.1} points, a pretrained encoder (--from FOLDER, such as {name}) {least:+.1} to {most:+.1}",
        "{why}。ここで止めるには Ctrl-C のあと --model ngrams を使います。記録から見込まれる差は、ゼロから学習するトランスフォーマーで\
         {worse:+.1}〜{better:+.1} ポイント、事前学習済みエンコーダー（--from フォルダ、{name} など）で {least:+.1}〜{most:+.1} ポイントです"
    );
    observe(TrainEvent::Message(topic_label("offer"), text));
    Ok(())
}

/// Returns for each validation row whether it is correct. `None` unless answers are classes and there are enough rows.
fn correct_rows<A: ClassifierTarget>(data: &TrainingData<A>, ngrams: &NgramModel) -> Option<Vec<bool>> {
    const LEAST_ROWS: usize = 50;
    let texts = data.valid.texts();
    let logits = ngrams.logits_batch(&texts);
    let rows: Vec<&[f32]> = logits.chunks_exact(data.labels.len()).collect();
    let is_of_classes = A::comparison_metric(&rows, &data.valid.labels, data).key == "accuracy";
    let is_right = |(row, answer): (&&[f32], &A)| answer.label_ids().contains(&argmax(row));
    let right = rows.iter().zip(&data.valid.labels).map(is_right).collect();
    (is_of_classes && texts.len() >= LEAST_ROWS).then_some(right)
}

/// Returns whether the accuracy on the validation rows is above that of the most frequent class, by more than two
/// standard errors.
fn is_above_majority<A: ClassifierTarget>(accuracy: f64, data: &TrainingData<A>) -> bool {
    let rows = data.valid.len() as f64;
    let count = |class: u32| data.valid.labels.iter().filter(|answer| answer.label_ids().contains(&class)).count();
    let majority = (0..data.labels.len() as u32).map(count).max().unwrap_or_default() as f64 / rows;
    let deviation = (majority * (1.0 - majority) / rows).sqrt();
    accuracy > majority + 2.0 * deviation
}

/// Returns every second training row of each class.
fn half_of_rows<A: ClassifierTarget>(data: &TrainingData<A>) -> Rows<A> {
    let mut seen: HashMap<&[u32], usize> = HashMap::new();
    let is_in = |row: &usize| {
        let count = seen.entry(data.train.labels[*row].label_ids()).or_default();
        *count += 1;
        *count % 2 == 1
    };
    data.train.select(&(0..data.train.len()).filter(is_in).collect::<Vec<_>>())
}
