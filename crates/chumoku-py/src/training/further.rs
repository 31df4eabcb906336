//! A classifier of one's own that is trained further: what is refused, and its old rows beside the new ones.

use super::Run;
use chumoku::data::{ReadOptions, load_labelled};
use chumoku::nn::Network;
use chumoku::train::{Event, Known, SourceData, Training, TrainingData};
use chumoku::{Cell, Error};
use std::path::Path;

/// In the place of a file of old rows: there are none.
const NONE: &str = "none";

/// The classifier of one's own that is to be trained further, if it is one.
pub(super) fn known(run: &Run) -> Result<Option<Known>, Error> {
    let told = |error| match error {
        Error::Setting(problem) => Error::Setting(problem.replace("--from ", "from_pretrained ")),
        other => other,
    };
    let is_other = matches!(run.model.as_str(), "tagger" | "translator" | "language_model");
    let folder = run.from_pretrained.as_deref().filter(|_| !is_other);
    let known = folder.map(Known::of).transpose().map_err(told)?.flatten();
    let Some((known, folder)) = known.zip(folder) else {
        return match run.old {
            None => Ok(None),
            Some(_) => Err(Error::Setting(
                "old: expected from_pretrained to be a classifier that was trained here, and not from a pretrained encoder: old rows are \
                 those of such a one, which is trained further; leave old out"
                    .into(),
            )),
        };
    };
    let folder = folder.display();
    if run.old.is_none() && run.task == "class" {
        return Err(Error::Setting(format!(
            "from_pretrained: {folder} is a classifier of your own, which learns its old rows again with the new ones, or it would forget \
             them: give them as fit(X, y, old=(texts, labels)), or train on the new rows alone with old=\"none\" (`chumoku train NEW --from \
             {folder}` reads them again from the file that the folder names)"
        )));
    }
    let refused = [
        ("y", run.task != "class"),
        ("model", run.model != "transformer" && run.model != model_of(&known)),
        ("tokens", run.tokens.is_some()),
        ("freeze", run.freeze.is_some()),
        ("lora", run.lora.is_some()),
        ("columns", !run.columns.is_empty()),
        ("hierarchy", run.hierarchy.is_some()),
        ("tune", run.tune.is_some()),
        ("folds", run.folds.is_some()),
    ];
    if let Some((name, _)) = refused.into_iter().find(|(_, is_given)| *is_given) {
        return Err(Error::Setting(format!(
            "{name}: a classifier of your own ({folder}) is trained further as it is: one class a text, its own tokens, the whole model"
        )));
    }
    if run.pairs != known.reads_pairs {
        let [wanted, got] =
            if known.reads_pairs { ["pairs of texts", "single texts"] } else { ["single texts", "pairs"] };
        return Err(Error::Setting(format!("expected {wanted}, which {folder} was trained on, got {got}")));
    }
    Ok(Some(known))
}

/// What its model is called.
pub(super) fn model_of(known: &Known) -> &'static str {
    match known.network {
        None => "ngrams",
        Some(Network::Transformer) => "transformer",
        Some(Network::Recurrent(Cell::Lstm)) => "lstm",
        Some(Network::Recurrent(Cell::Gru)) => "gru",
        Some(Network::Recurrent(_)) => "rnn",
    }
}

/// The old rows, if they are learnt again, and the new ones.
pub(super) fn data(
    run: &Run,
    known: &Known,
    read: &ReadOptions,
    training: &mut Training<'_>,
) -> Result<TrainingData, Error> {
    // Rows of Python are in files for a while: there is nothing to be remembered.
    let load = |file: &Path, name: &str| {
        let mut rows = load_labelled(file, read)?;
        rows.path = name.into();
        Ok::<_, Error>(SourceData::new(None, rows, [None, None]))
    };
    let mut note = |text: String| (training.observe)(Event::Said("note", text));
    let old = match run.old.as_deref().filter(|old| *old != Path::new(NONE)) {
        None => None,
        Some(file) => Some(TrainingData::further(&known.labels, None, &load(file, "old")?, true)?),
    };
    if old.as_ref().is_some_and(|old| !known.was_trained_on(old)) {
        note(
            "warning: the old rows are not those that the model was trained on, in the same parts: some that are held out now it may have \
             learnt from"
                .into(),
        );
    }
    let mut data = TrainingData::further(&known.labels, old.as_ref(), &load(&run.file, "fit(X, y)")?, old.is_some())?;
    data.notes.extend(known.held_out_again(&data));
    data.notes.iter().for_each(|text| note(text.clone()));
    Ok(data)
}
