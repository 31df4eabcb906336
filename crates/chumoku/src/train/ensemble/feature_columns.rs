//! Feature columns in training: learning their features, and measuring their benefit.

use super::target::ClassifierTarget;
use crate::data::SourceLocation;
use crate::feature_columns::{self, FeatureColumn, MAX_COLUMNS};
use crate::lang::{escape_markdown, lang};
use crate::ngram::NgramModel;
use crate::ngram::NgramTarget;
use crate::ngram::log_loss;
use crate::row::{AsRow, FeatureRequest, Row, RowRef};
use crate::scoring::Rows;
use crate::train::data::label_leaks::label_leak_notes;
use crate::train::data::training_data::TrainingData;
use crate::train::reports::card::reported_rows;
use crate::train::training_loop::train_event::{TrainEvent, topic_label};
use crate::train::training_loop::trainable::Metric;
use crate::{Error, Result, tr};
use serde_json::{Value, json};

/// The minimum number of rows for a statement on the benefit of columns.
const MIN_ROWS: usize = 20;

/// Returns the error of a column, counted from 0, whose kind is unclear.
fn unclear_column_error(
    place_of: &dyn Fn(usize, &str) -> Option<SourceLocation>,
    column: usize,
    unclear: &feature_columns::UnclearColumn,
) -> Error {
    let place = place_of(column, &unclear.cell).map_or(String::new(), |place| format!("{place}: "));
    Error::Setting(format!("{place}{}", unclear.problem))
}

impl<A: NgramTarget> TrainingData<A> {
    /// Learns the feature columns from the training rows. Columns without information are removed from all rows.
    /// `place_of` returns the position of a value of a column, counted from 0, in the training file.
    ///
    /// # Errors
    /// If the kind of a column is unclear.
    pub(crate) fn with_columns(
        mut self,
        requests: &[FeatureRequest],
        place_of: &dyn Fn(usize, &str) -> Option<SourceLocation>,
    ) -> Result<Self> {
        if requests.is_empty() {
            return Ok(self);
        }
        if requests.len() > MAX_COLUMNS {
            let found = requests.len();
            return Err(Error::Setting(tr!(
                "--columns: expected at most {MAX_COLUMNS} columns, found {found}; leave some out",
                "--columns: {MAX_COLUMNS} 列以下のはずですが、{found} 列あります。減らしてください"
            )));
        }
        let mut kept = Vec::new();
        for (at, of) in requests.iter().enumerate() {
            let found: Vec<&str> = self.train.texts.iter().map(|row| row.as_row().value(at)).collect();
            let fitted = feature_columns::fit_column(of, &found)
                .map_err(|unclear| unclear_column_error(place_of, at, &unclear))?;
            self.notes.extend(fitted.notes);
            if let Some(column) = fitted.column {
                kept.push(at);
                self.columns.push(column);
            }
        }
        if kept.len() < requests.len() {
            let keep = |row: &mut Row| {
                let values: Vec<&str> = kept.iter().map(|&at| row.as_row().value(at)).collect();
                *row = row.as_row().with_values(&values);
            };
            [&mut self.train, &mut self.valid, &mut self.test]
                .into_iter()
                .flat_map(|rows| &mut rows.texts)
                .for_each(keep);
        }
        Ok(self.with_column_notes())
    }

    /// Learns the feature columns of a base model from the new training rows. A column that no longer carries
    /// information keeps what the base model learned, so that the layout of rows stays the same.
    ///
    /// # Errors
    /// If values do not fit the kind of their column.
    pub(crate) fn with_base_columns(
        mut self,
        known: (&[FeatureColumn], &[FeatureRequest]),
        place_of: &dyn Fn(usize, &str) -> Option<SourceLocation>,
    ) -> Result<Self> {
        if known.0.is_empty() {
            return Ok(self);
        }
        for (at, (column, request)) in known.0.iter().zip(known.1).enumerate() {
            let found: Vec<&str> = self.train.texts.iter().map(|row| row.as_row().value(at)).collect();
            let fitted = feature_columns::fit_column(request, &found)
                .map_err(|unclear| unclear_column_error(place_of, at, &unclear))?;
            if fitted.column.is_some() {
                self.notes.extend(fitted.notes);
            }
            self.columns.push(fitted.column.unwrap_or_else(|| column.clone()));
        }
        Ok(self.with_column_notes())
    }

    /// Adds notes on unreadable values and on columns that contain the label.
    fn with_column_notes(mut self) -> Self {
        for (part, rows) in [(tr!("validation", "検証"), &self.valid), (tr!("test", "テスト"), &self.test)] {
            for (at, column) in self.columns.iter().enumerate() {
                let all = rows.texts.iter().map(|row| row.as_row().value(at));
                let unread: Vec<&str> = all.filter(|cell| column.is_unreadable(cell)).collect();
                if let Some(first) = unread.first() {
                    let text = column.unreadable_message(unread.len(), first);
                    self.notes.push(tr!("warning: {part} rows, {text}", "警告: {part}データ、{text}"));
                }
            }
        }
        self.notes.extend(label_leak_notes(&self.columns, &self.train.texts, &self.train.labels));
        self
    }

    /// Copies the data with each row mapped by `of_row`, and with these columns.
    fn with_mapped_rows(&self, columns: &[FeatureColumn], of_row: impl Fn(RowRef<'_>) -> Row) -> Self {
        let rows = |rows: &Rows<A>| Rows {
            texts: rows.texts.iter().map(|row| of_row(row.as_row())).collect(),
            labels: rows.labels.clone(),
            weights: rows.weights.clone(),
        };
        TrainingData {
            labels: self.labels.clone(),
            discretizer: self.discretizer.clone(),
            columns: columns.to_vec(),
            train: rows(&self.train),
            valid: rows(&self.valid),
            test: rows(&self.test),
            hierarchy: self.hierarchy.clone(),
            ..TrainingData::default()
        }
    }
}

/// The benefit of feature columns to the n-gram model, on the reported rows.
#[derive(Debug)]
pub(crate) struct ColumnBenefit {
    rows: usize,
    part: &'static str,
    /// The metric with the text alone, with the columns alone, and with both.
    figures: [Metric; 3],
    /// The mean decrease of a row's loss with the columns, and its standard error.
    gain: [f64; 2],
}

impl ColumnBenefit {
    /// Compares the model of full rows with those that `train` fits on the text alone and on the columns alone. None of
    /// the models may have been fitted on validation rows. Returns `None` without columns.
    pub(crate) fn measure<A: ClassifierTarget>(
        data: &TrainingData<A>,
        full_model: &NgramModel,
        train: &mut dyn FnMut(&TrainingData<A>) -> Result<NgramModel>,
    ) -> Result<Option<ColumnBenefit>> {
        if data.columns.is_empty() {
            return Ok(None);
        }
        let text_alone = data.with_mapped_rows(&[], |row| row.without_values().to_row());
        let columns_alone =
            data.with_mapped_rows(&data.columns, |row| "".as_row().with_values(&row.values().collect::<Vec<_>>()));
        let (rows, part) = reported_rows(data);
        let mut logits = vec![full_model.logits_batch(&rows.texts())];
        for data in [&text_alone, &columns_alone] {
            let model = train(data)?;
            logits.push(model.logits_batch(&reported_rows(data).0.texts()));
        }
        let classes = data.labels.len();
        let cut =
            |logits: &'_ Vec<f32>| -> Vec<Vec<f32>> { logits.chunks_exact(classes).map(<[f32]>::to_vec).collect() };
        let [both, text, columns] = [0, 1, 2].map(|i| cut(&logits[i]));
        let figure = |logits: &[Vec<f32>]| {
            A::comparison_metric(&logits.iter().map(Vec::as_slice).collect::<Vec<_>>(), &rows.labels, data)
        };
        let gains: Vec<f64> = rows
            .labels
            .iter()
            .enumerate()
            .map(|(row, answer)| {
                log_loss(&text[row], answer.label_ids(), A::IS_SET)
                    - log_loss(&both[row], answer.label_ids(), A::IS_SET)
            })
            .collect();
        let n = gains.len().max(1) as f64;
        let mean = gains.iter().sum::<f64>() / n;
        let variance = gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        Ok(Some(ColumnBenefit {
            rows: rows.len(),
            part,
            figures: [figure(&text), figure(&columns), figure(&both)],
            gain: [mean, (variance / n).sqrt()],
        }))
    }

    /// Returns `helps`, `harms`, or `open` if the rows show neither.
    fn verdict(&self) -> &'static str {
        let [mean, error] = self.gain;
        if self.rows < MIN_ROWS {
            return "open";
        }
        match mean.abs() > 2.0 * error {
            true if mean > 0.0 => "helps",
            true => "harms",
            false => "open",
        }
    }

    /// Describes the benefit in one sentence.
    pub(crate) fn sentence(&self) -> String {
        let [text, columns, both] = self.figures.each_ref().map(|figure| match figure.is_share {
            true => format!("{:.1} %", 100.0 * figure.value),
            false => format!("{:.3}", figure.value),
        });
        let (name, n) = (self.figures[0].name, crate::lang::wording::format_thousands(self.rows));
        let part = match self.part {
            "test" => lang().pick("test", "テスト"),
            "valid" => lang().pick("validation", "検証"),
            _ => lang().pick("training", "学習"),
        };
        let verdict = match self.verdict() {
            "helps" => lang().pick("the columns help", "列は役に立ちます"),
            "harms" => {
                lang().pick("the columns make the model worse: leave some out", "列は逆効果です。減らしてください")
            }
            _ => lang().pick("these rows do not show that they help", "役に立つとは、この行数では言えません"),
        };
        tr!(
            "{name} of n-grams on {n} {part} rows: text alone {text}, columns alone {columns}, both {both}; {verdict}",
            "{part}データ {n} 行での n-gram の{name}: テキストだけ {text}、列だけ {columns}、両方 {both}。{verdict}"
        )
    }

    /// The entry `columns` of `metrics.json`.
    pub(crate) fn to_json(&self, columns: &[FeatureColumn]) -> Value {
        let [text, both_columns, both] = self.figures.each_ref().map(|figure| figure.value);
        json!({
            "columns": columns.iter().map(|column| json!({ "name": column.name, "kind": column.kind_name() })).collect::<Vec<_>>(),
            "scored_on": self.part,
            "rows": self.rows,
            "figure": self.figures[0].key,
            "text_alone": text,
            "columns_alone": both_columns,
            "both": both,
            "loss_gain": self.gain[0],
            "loss_gain_error": self.gain[1],
            "verdict": self.verdict(),
        })
    }

    /// The section of the model card.
    pub(crate) fn section(&self, columns: &[FeatureColumn]) -> String {
        let mut card = tr!("\n## Feature columns\n\n", "\n## テキスト以外の列\n\n");
        columns.iter().for_each(|column| card += &format!("- {}\n", escape_markdown(&column.describe())));
        card + &format!("\n{}\n", self.sentence())
    }

    /// Reports the benefit.
    pub(crate) fn report(&self, observe: &mut dyn FnMut(TrainEvent<'_>)) {
        observe(TrainEvent::Message(topic_label("columns"), self.sentence()));
    }
}
