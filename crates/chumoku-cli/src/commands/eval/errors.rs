//! A CSV table of rows that a model predicts wrongly.

use chumoku::data::{Example, Format, OutputFormat, Record, RecordWriter, TableLayout, escape_formula};
use chumoku::row::AsRow;
use chumoku::{Prediction, sorting};
use serde_json::Value;

const COLUMNS: [&str; 6] = ["line", "text", "label", "predicted", "probability", "probability_of_label"];

/// Writes the wrongly predicted rows as CSV, most confident first.
pub(super) fn to_csv(examples: &[Example], predictions: &[Prediction], labels: &[String]) -> anyhow::Result<Vec<u8>> {
    let layout = TableLayout {
        path: "errors.csv".into(),
        format: Format::Csv { delimiter: ',' },
        header: true,
        columns: COLUMNS.map(String::from).to_vec(),
    };
    let is_wrong = |(example, p): &(&Example, &Prediction)| labels[p.class()] != example.label;
    let sure = |p: &Prediction| p.probabilities[p.class()];
    let mut wrong: Vec<(&Example, &Prediction)> = examples.iter().zip(predictions).filter(is_wrong).collect();
    sorting::sort_by(&mut wrong, |a, b| sure(b.1).total_cmp(&sure(a.1)));
    let mut writer = RecordWriter::new(Vec::new(), &layout, &[], OutputFormat::LikeInput)?;
    for (example, prediction) in wrong {
        let of_label = labels.iter().position(|label| *label == example.label);
        let of_label = of_label.map_or(String::new(), |label| format!("{:.4}", prediction.probabilities[label]));
        let fields = vec![
            example.line.to_string(),
            escape_formula(&example.text.as_row().display()),
            escape_formula(&example.label),
            escape_formula(&labels[prediction.class()]),
            format!("{:.4}", sure(prediction)),
            of_label,
        ];
        writer.write(&Record { line: example.line, fields, object: None }, &[] as &[Value])?;
    }
    Ok(writer.finish()?)
}
