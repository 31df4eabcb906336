//! Continued training of the user's own model: its checks, and replay of old rows together with new ones.

use super::TrainParams;
use chumoku::data::ReadOptions;
use chumoku::nn::BackboneKind;
use chumoku::train::{BaseModel, PredictionKind, ReplayData, SourceData, TrainEvent, Training};
use chumoku::{Error, RecurrentCell};
use std::path::Path;

/// Value of `old` that stands for no old rows.
const NO_REPLAY: &str = "none";

/// Reads the base model if `from_pretrained` is the user's own model.
pub(super) fn base_model(run: &TrainParams) -> Result<Option<BaseModel>, Error> {
    let (is_other, is_tagger) = (matches!(run.model.as_str(), "translator" | "language_model"), run.model == "tagger");
    let folder = run.from_pretrained.as_deref().filter(|_| !is_other);
    let known = folder.map(BaseModel::read).transpose()?.flatten();
    // Loading a tagger reports base models of the wrong kind.
    let known = known.filter(|known| !is_tagger || known.predicts == PredictionKind::Spans);
    // Without old rows, a fine-tuned model serves as an encoder to start from.
    let known = known.filter(|known| run.old.is_some() || !known.is_fine_tuned || is_tagger);
    let Some((mut known, folder)) = known.zip(folder) else {
        return match run.old {
            None => Ok(None),
            Some(_) => Err(Error::Setting(
                "old: expected from_pretrained to be a model trained by Chumoku, to which old rows belong; leave old out"
                    .into(),
            )),
        };
    };
    let folder = folder.display();
    let (task, answers) = match known.predicts {
        PredictionKind::Labels => ("labels", "labels"),
        PredictionKind::Number => ("number", "numbers"),
        PredictionKind::Spans => ("class", "spans"),
        _ => ("class", "labels"),
    };
    let is_of_task = run.task == task && is_tagger == (known.predicts == PredictionKind::Spans);
    if run.old.is_none() && is_of_task {
        return Err(Error::Setting(format!(
            "from_pretrained: {folder} is your own model. Give its old rows as fit(X, y, old=(texts, {answers})), so that it does not \
             forget them, or train on the new rows only with old=\"none\" (`chumoku train NEW --from {folder}` reads the old \
             rows again from their file)"
        )));
    }
    let refused = [
        ("y", !is_of_task),
        ("model", run.model != "transformer" && run.model != architecture_name(&known)),
        ("tokens", run.tokens.is_some()),
        ("freeze", run.freeze.is_some() && !known.is_fine_tuned),
        ("lora", run.lora.is_some() && !known.is_fine_tuned),
        ("tune", run.tune.is_some()),
        ("folds", run.folds.is_some()),
    ];
    if let Some((name, _)) = refused.into_iter().find(|(_, is_given)| *is_given) {
        let what = match known.predicts {
            PredictionKind::Labels => "any number of labels per text",
            PredictionKind::Number => "a number per text",
            PredictionKind::Spans => "labeled spans",
            _ => "one class per text",
        };
        return Err(Error::Setting(format!(
            "{name}: your own model ({folder}) keeps its target ({what}) and its tokens when it is trained further, as a whole model"
        )));
    }
    let columns = |names: Vec<&str>| if names.is_empty() { "no columns".to_owned() } else { names.join(", ") };
    let requested = columns(known.columns.iter().map(|column| column.name.as_str()).collect());
    let got = columns(run.columns.iter().map(|(name, _)| name.as_str()).collect());
    if requested != got {
        return Err(Error::Setting(format!(
            "columns: expected {requested}, which {folder} was trained with, got {got}"
        )));
    }
    if let Some(requested) = &run.hierarchy {
        known.set_hierarchy(requested)?;
    }
    if run.pairs != known.reads_pairs {
        let [requested, got] =
            if known.reads_pairs { ["pairs of texts", "single texts"] } else { ["single texts", "pairs"] };
        return Err(Error::Setting(format!("expected {requested}, which {folder} was trained on, got {got}")));
    }
    Ok(Some(known))
}

/// The name of the base model's architecture.
pub(super) fn architecture_name(known: &BaseModel) -> &'static str {
    match known.network {
        None if known.predicts == PredictionKind::Spans => "tagger",
        None => "ngrams",
        Some(BackboneKind::Transformer) => "transformer",
        Some(BackboneKind::Recurrent(RecurrentCell::Lstm)) => "lstm",
        Some(BackboneKind::Recurrent(RecurrentCell::Gru)) => "gru",
        Some(BackboneKind::Recurrent(_)) => "rnn",
    }
}

/// Loads the old rows, if they are replayed, and the new rows. `load` reads a file and labels it with a name.
pub(super) fn continued_data<D: ReplayData>(
    run: &TrainParams,
    known: &BaseModel,
    mut read: ReadOptions,
    load: impl Fn(&Path, &ReadOptions, &str) -> Result<D::File, Error>,
    training: &mut Training<'_>,
) -> Result<D, Error> {
    read.features = known.column_requests();
    // Rows from Python are in temporary files: there is no source to record.
    let load = |file: &Path, name: &str| Ok::<_, Error>(SourceData::new(None, load(file, &read, name)?, [None, None]));
    let mut note = |text: String| (training.observe)(TrainEvent::Message("note", text));
    let old = match run.old.as_deref().filter(|old| *old != Path::new(NO_REPLAY)) {
        None => None,
        Some(file) => Some(D::read_old(known, None, load(file, "old")?)?),
    };
    old.as_ref().and_then(|old: &D| known.changed_rows_note(&old.sha256())).into_iter().for_each(&mut note);
    let mut data = D::add_new(known, old.as_ref(), load(&run.file, "fit(X, y)")?, old.is_some())?;
    let warning = known.seen_held_out_note(&data.new_held_out_texts());
    data.notes().extend(warning);
    data.notes().iter().for_each(|text| note(text.clone()));
    Ok(data)
}
