//! Accuracies on record (README.md, "How it compares"), and the gains that they suggest for other data.
//!
//! The gains are those of a transformer from scratch over the n-grams, and of a pretrained encoder.

use crate::lang::lang;
use crate::row::{AsRow, Row};
use crate::tr;
use crate::train::settings::options::TrainOptions;

/// Test accuracies on one data set, in %: n-grams, default, and default with a pretrained encoder.
pub(crate) struct AccuracyRecord {
    pub(crate) ngrams: f64,
    pub(crate) scratch: f64,
    pub(crate) pretrained: f64,
}

const fn record(ngrams: f64, scratch: f64, pretrained: f64) -> AccuracyRecord {
    AccuracyRecord { ngrams, scratch, pretrained }
}

/// sst2, trec, banking77 and imdb with all-MiniLM-L6-v2, ja_jrte_sentiment with multilingual-e5-small.
const ACCURACY_RECORDS: [AccuracyRecord; 5] = [
    record(84.1, 84.4, 89.8),
    record(89.8, 90.9, 96.7),
    record(91.7, 92.7, 94.2),
    record(92.3, 92.3, 93.8),
    record(82.6, 82.2, 86.3),
];

/// Returns the smallest and the largest value of a figure over the data sets.
pub(crate) fn range(of: impl Fn(&AccuracyRecord) -> f64) -> [f64; 2] {
    let all = ACCURACY_RECORDS.iter().map(of);
    all.fold([f64::INFINITY, f64::NEG_INFINITY], |[least, most], x| [least.min(x), most.max(x)])
}

/// Returns the share of the errors of `before` that `after` removes.
pub(crate) fn error_reduction(before: f64, after: f64) -> f64 {
    (after - before) / (100.0 - before)
}

/// Suggests a small encoder for these texts: an English one for Latin letters, otherwise a multilingual one.
pub(crate) fn suggested_encoder(texts: &[Row]) -> &'static str {
    const READ: usize = 1000;
    let is_foreign = |c: char| c as u32 >= 0x370 && c.is_alphabetic();
    let is_foreign = |row: &&Row| row.as_row().joined().any(|part| part.contains(is_foreign));
    let foreign = texts.iter().take(READ).filter(is_foreign).count();
    match 20 * foreign > texts.len().min(READ) {
        true => "multilingual-e5-small",
        false => "all-MiniLM-L6-v2",
    }
}

/// Describes the likely gain of a pretrained encoder, given the share of wrong answers. `None` if the gain is too small
/// to mention.
fn encoder_gain_sentence(wrong: f64, texts: &[Row]) -> Option<String> {
    const LEAST_POINTS: f64 = 0.5;
    let shares = range(|set| error_reduction(set.scratch, set.pretrained));
    let [least, most] = shares.map(|share| 100.0 * wrong * share);
    (most >= LEAST_POINTS).then(|| {
        let (name, sets, [low, high]) = (suggested_encoder(texts), ACCURACY_RECORDS.len(), shares.map(|share| 100.0 * share));
        tr!(
            "A pretrained encoder ({name}) removed {low:.0} to {high:.0} % of the errors on {sets} recorded sets, \
             here {least:.1} to {most:.1} points: --from FOLDER.",
            "事前学習済みの {name}（--from フォルダ）なら、{sets} データでの実績（誤り {low:.0}〜{high:.0} % 減）から {least:.1}〜{most:.1} \
             ポイントの向上が見込めます。"
        )
    })
}

/// Adds the likely gain of a pretrained encoder to the advice, unless the run started from one.
pub(crate) fn add_encoder_advice(advice: String, (options, wrong): (&TrainOptions, f64), texts: &[Row]) -> String {
    let points = options.from.is_none().then(|| encoder_gain_sentence(wrong, texts)).flatten();
    match points {
        Some(points) => advice + lang().pick(" ", "") + &points,
        None => advice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures are those of the README, and the sentences follow from them.
    #[test]
    fn expected_gains_follow_from_the_record() {
        let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
        for set in &ACCURACY_RECORDS {
            for figure in [set.ngrams, set.scratch, set.pretrained] {
                assert!(readme.contains(&format!("{figure:.1}")), "{figure}");
            }
        }
        let english = ["A plain text.".into()];
        let sentence = encoder_gain_sentence(0.2, &english).unwrap();
        // 1.5 of 7.7 points on imdb, 5.8 of 9.1 on trec.
        assert!(sentence.contains("all-MiniLM-L6-v2") && sentence.contains("19 to 64 %"), "{sentence}");
        assert!(sentence.contains("here 3.9 to 12.7 points: --from FOLDER"), "{sentence}");
        assert!(encoder_gain_sentence(0.2, &["日本語".into()]).unwrap().contains("multilingual-e5-small"));
        assert_eq!(encoder_gain_sentence(0.005, &english), None);
    }
}
