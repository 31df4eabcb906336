//! Metrics of the old and the new model on the same rows, after continued training.

use super::comparison::{ModelChange, NEW_VALID, OLD_VALID, comparison_report};
use super::replay_target::ReplayTarget;
use crate::Result;
use crate::text_models::predictor::Predictor;
use crate::train::data::training_data::TrainingData;
use serde_json::Value;

/// Compares the predictions of the old and the new model.
///
/// Test rows compare the full models. Validation rows compare the networks alone, because the final n-gram models are
/// also fitted on validation rows. Without a network, validation rows are left out.
pub(crate) fn compare_models<A: ReplayTarget>(
    data: &TrainingData<A>,
    [before, after]: [Predictor<'_>; 2],
    seed: u64,
) -> Result<Option<(Value, String)>> {
    let Some(further) = &data.continued else { return Ok(None) };
    let is_added = |label: u32| !before.labels().contains(&data.labels[label as usize]);
    let mut found = Vec::new();
    for (rows_of, rows) in &further.compared {
        let texts = rows.texts();
        let is_network = matches!(*rows_of, OLD_VALID | NEW_VALID);
        let [was, is] = [before.predict(&texts)?, after.predict(&texts)?];
        if is_network && was.iter().chain(&is).any(|p| p.network.is_empty()) {
            continue;
        }
        let was = A::predictions(before, &was, rows, data, is_network)?;
        let is = A::predictions(after, &is, rows, data, is_network)?;
        let compared = A::compare(data, rows, [&was, &is], &is_added, seed);
        found.push(ModelChange { rows_of, rows: rows.len(), compared });
    }
    Ok(Some(comparison_report(&found, A::FIGURE, further.replays)))
}
