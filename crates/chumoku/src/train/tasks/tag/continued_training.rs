//! Continued training of a tagger: old rows with new ones, and a comparison of both taggers.

use super::TaggerData;
use crate::data::{Span, SpanDataset, SpanExample, SpanUnit};
use crate::row::{AsRow, RowRef};
use crate::scoring::{RatioTerms, SpanScores, ratio_gain};
use crate::text_models::tagger::TextTagger;
use crate::train::continued_training::base_model::BaseModel;
use crate::train::continued_training::combined_rows::{
    AnsweredRows, CombinedRows, SourceData, combine_rows, trained_sources, untrained_labels_note,
};
use crate::train::continued_training::comparison::{
    ModelChange, ModelComparison, NEW_VALID, OLD_VALID, comparison_report,
};
use crate::train::continued_training::replay::{ReplayData, new_rows};
use crate::train::data::base_snapshot::BaseSnapshot;
use crate::{Error, Result, tr};
use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;

/// Additional data for continued training of a tagger.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ContinuedTaggerData {
    /// True if the old rows are replayed.
    pub(crate) replays: bool,
    /// Rows to compare the old and the new tagger on, by [name](crate::train::continued_training::comparison).
    pub(crate) compared: Vec<(&'static str, Vec<SpanExample>)>,
    /// The base tagger.
    pub(super) base: BaseSnapshot,
}

impl AnsweredRows for Vec<SpanExample> {
    type Answer = Vec<Span>;

    fn answers(&self) -> Vec<(RowRef<'_>, &Vec<Span>)> {
        self.iter().map(|row| (row.text.as_row(), &row.spans)).collect()
    }

    fn selected(&self, rows: &[usize]) -> Self {
        rows.iter().map(|&row| self[row].clone()).collect()
    }

    fn followed_by(self, others: Self) -> Self {
        [self, others].concat()
    }
}

impl ReplayData for TaggerData {
    type File = SpanDataset;

    fn path(file: &SpanDataset) -> &Path {
        &file.path
    }

    fn texts(file: &SpanDataset) -> Vec<RowRef<'_>> {
        file.examples.iter().map(|row| row.text.as_row()).collect()
    }

    fn read_old(known: &BaseModel, before: Option<&Self>, file: SourceData<SpanDataset>) -> Result<Self> {
        TaggerData::add_new(known, before, file, true)
    }

    fn add_new(known: &BaseModel, old: Option<&Self>, new: SourceData<SpanDataset>, replays: bool) -> Result<Self> {
        let SourceData { source, train, valid, test } = new;
        let (unit, each_word) = known.spans.unwrap_or((SpanUnit::Words, false));
        if train.has_word_labels != each_word {
            let path = train.path.display();
            return Err(Error::Setting(match each_word {
                true => tr!(
                    "{path}: expected a label for each word, as in the tagger's training rows, found words without a \
                     label; label all words, or train a new tagger on old and new rows together",
                    "{path}: モデルの学習データと同じく、すべての単語にラベルが必要ですが、ない単語があります。すべてに付けるか、元のデータと新しい\
                     データを合わせて学習し直してください"
                ),
                false => tr!(
                    "{path}: expected labeled spans among other words, as in the tagger's training rows, found a \
                     label for each word; label words outside spans as O, or train a new tagger on old and new rows \
                     together",
                    "{path}: モデルの学習データと同じくスパンだけのラベルが必要ですが、すべての単語にラベルがあります。スパンの外は O にするか、\
                     元のデータと新しいデータを合わせて学習し直してください"
                ),
            }));
        }
        let mut labels = known.labels.clone();
        labels.extend(train.kinds().into_keys().map(str::to_owned));
        labels.extend(old.iter().flat_map(|old| old.labels.iter().cloned()));
        labels.sort();
        labels.dedup();
        let parts = TaggerData::split_files(&train, [valid.as_ref(), test.as_ref()], labels)?;
        let of_old = old.map(|old| [&old.train, &old.valid, &old.test].map(Clone::clone)).unwrap_or_default();
        let found = [parts.train, parts.valid, parts.test];
        let CombinedRows { parts: [train, valid, test], compared, note } =
            combine_rows(of_old, found, replays, &train.path)?;
        let mut notes = parts.notes;
        notes.extend(note);
        let sources = trained_sources(source, old.map(|old| &old.sources[..]).filter(|_| replays));
        let kinds: HashSet<&str> = train.iter().flat_map(|row| &row.spans).map(|span| span.label.as_str()).collect();
        let is_learnt: Vec<bool> = parts.labels.iter().map(|label| kinds.contains(label.as_str())).collect();
        notes.extend(untrained_labels_note(&parts.labels, &is_learnt));
        let further = Some(ContinuedTaggerData { replays, compared, base: known.snapshot() });
        Ok(TaggerData { labels: parts.labels, each_word, unit, train, valid, test, notes, sources, continued: further })
    }

    fn num_rows(&self) -> usize {
        self.train.len() + self.valid.len() + self.test.len()
    }

    fn labels(&self) -> &[String] {
        &self.labels
    }

    fn sha256(&self) -> String {
        self.fingerprint()
    }

    fn new_held_out_texts(&self) -> Vec<RowRef<'_>> {
        let compared = self.continued.iter().flat_map(|further| new_rows(&further.compared));
        compared.flatten().map(|row| row.text.as_row()).collect()
    }

    fn notes(&mut self) -> &mut Vec<String> {
        &mut self.notes
    }
}

/// Compares the spans of the old and the new tagger on test rows. Validation rows are excluded, because the final CRF
/// is also fitted on them.
pub(super) fn compare_taggers(
    data: &TaggerData,
    [before, after]: [&TextTagger; 2],
    seed: u64,
) -> Result<Option<(Value, String)>> {
    let Some(further) = &data.continued else { return Ok(None) };
    let is_added = |span: &Span| !before.labels().contains(&span.label);
    let mut found = Vec::new();
    for (rows_of, rows) in &further.compared {
        if matches!(*rows_of, OLD_VALID | NEW_VALID) {
            continue;
        }
        let spans_of = |tagger: &TextTagger| -> Result<Vec<Vec<Span>>> {
            let found = tagger.predict_rows(rows)?;
            Ok(found.into_iter().map(|spans| spans.into_iter().map(|span| span.span).collect()).collect())
        };
        let [was, is] = [spans_of(before)?, spans_of(after)?];
        let compared = compare_spans(rows, [&was, &is], &is_added, seed);
        found.push(ModelChange { rows_of, rows: rows.len(), compared });
    }
    Ok(Some(comparison_report(&found, "span_f1", further.replays)))
}

/// Compares predicted spans before and after. `is_added` returns true for spans of kinds that the old tagger did not
/// know.
fn compare_spans(
    rows: &[SpanExample],
    [was, is]: [&[Vec<Span>]; 2],
    is_added: &dyn Fn(&Span) -> bool,
    seed: u64,
) -> ModelComparison {
    let worth = |predicted: &[Vec<Span>]| {
        let pairs = rows.iter().map(|row| &row.spans[..]).zip(predicted.iter().map(Vec::as_slice));
        let all = SpanScores::of(pairs, seed).all;
        [("span_f1", all.f1), ("precision", all.precision), ("recall", all.recall)].into_iter().collect()
    };
    let part = |predicted: &[Span], truth: &[Span]| {
        let right = predicted.iter().filter(|span| truth.contains(span)).count();
        [2.0 * right as f64, (predicted.len() + truth.len()) as f64]
    };
    let all = is.iter().zip(was).zip(rows);
    let parts: Vec<RatioTerms> = all.map(|((is, was), row)| [part(is, &row.spans), part(was, &row.spans)]).collect();
    let texts: Vec<RowRef<'_>> = rows.iter().map(|row| row.text.as_row()).collect();
    let (gain, interval) = ratio_gain(&parts, &texts, seed);
    let is_taken = |(is, row): &(&Vec<Span>, &SpanExample)| is.iter().any(is_added) && !row.spans.iter().any(is_added);
    let taken_for_new = is.iter().zip(rows).filter(is_taken).count();
    ModelComparison { before: worth(was), after: worth(is), gain, interval, slack: 0.0, taken_for_new }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::continued_training::comparison::Figures;

    fn span(start: usize, end: usize, label: &str) -> Span {
        Span { start, end, label: label.to_owned() }
    }

    fn row(text: &str, spans: Vec<Span>) -> SpanExample {
        SpanExample { text: text.to_owned(), words: Vec::new(), spans, line: 0 }
    }

    #[test]
    fn known_spans_predicted_as_a_new_kind_are_counted() {
        let rows = [
            row("Anna waits", vec![span(0, 4, "person")]),
            row("Oslo is far", vec![span(0, 4, "place")]),
            row("a book", vec![span(2, 6, "thing")]),
            row("nothing", vec![]),
        ];
        let was = [vec![span(0, 4, "person")], vec![span(0, 4, "place")], vec![], vec![]];
        let is = [
            vec![span(0, 4, "person")],
            vec![span(0, 4, "thing")],
            vec![span(2, 6, "thing")],
            vec![span(0, 7, "thing")],
        ];
        let found = compare_spans(&rows, [&was, &is], &|span| span.label == "thing", 1);
        // The town, and the row without spans. The book really is of the new kind.
        assert_eq!(found.taken_for_new, 2);
        let share = |worth: &Figures, name: &str| worth[name];
        assert_eq!((share(&found.before, "precision"), share(&found.before, "recall")), (1.0, 2.0 / 3.0));
        assert_eq!((share(&found.after, "precision"), share(&found.after, "recall")), (0.5, 2.0 / 3.0));
        assert!((found.gain - (4.0 / 7.0 - 0.8)).abs() < 1e-12, "{found:?}");
    }
}
