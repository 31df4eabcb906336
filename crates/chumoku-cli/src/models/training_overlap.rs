//! Overlap of an evaluation file with the training texts of a model.

use crate::progress::print_status;
use chumoku::data::format_thousands;
use chumoku::row::RowRef;
use chumoku::train::TrainingTexts;
use chumoku::{read_model_folder, tr};
use std::path::Path;

/// Loads the model of a folder, and its training texts if the folder has them.
pub(crate) fn load_with_training_texts<M>(
    folder: &Path,
    mut load: impl FnMut() -> anyhow::Result<M>,
) -> anyhow::Result<(M, Option<TrainingTexts>)> {
    read_model_folder(folder, || Ok((load()?, TrainingTexts::load(folder)?)))
}

/// Counts the rows whose text is among the training texts, if these are known, and warns if there are any.
pub(crate) fn report_training_overlap(training_texts: Option<&TrainingTexts>, texts: &[RowRef<'_>]) -> Option<usize> {
    let overlap = training_texts.map(|training_texts| training_texts.count(texts));
    if let Some(n) = overlap.filter(|&n| n > 0) {
        let rows = format_thousands(texts.len());
        let n = format_thousands(n);
        print_status(
            ["note", "注記"],
            &tr!(
                "warning: {n} of {rows} rows have a text that the model was trained or selected on: their score \
                 is no estimate for new texts",
                "警告: {rows} 行のうち {n} 行のテキストは、モデルの学習か選択に使われています。その評価値からは、新しいテキストに\
                 ついて何も分かりません"
            ),
        );
    }
    overlap
}
