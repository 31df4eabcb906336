//! Training a tagger: a conditional random field (CRF) over the words or characters of texts, and optionally a network
//! that starts from a pretrained encoder.
//!
//! - `card`: the dictionary baseline and the model card
//! - `continued_training`: old and new rows of a tagger
//! - `crf_settings`: settings of the CRF, chosen on the validation rows
//! - `network`: the network of a tagger

mod card;
mod continued_training;
mod crf_settings;
mod network;

use crate::characters::CharacterOffsets;
use crate::crf::{Corpus, Crf, CrfSentence, CrfTrainer, MemberEmissions, TagScheme, TaggerBlend, features};
use crate::data::{self, Example, Span, SpanDataset, SpanExample, SpanUnit};
use crate::lang::wording::quote;
use crate::model_folder::TRAINED_ON;
use crate::row::AsRow;
use crate::scoring::SpanScores;
use crate::text_models::tagger::{TaggerConfig, TextTagger, units_of_row};
use crate::text_models::tagger_network::TaggerNetwork;
use crate::train::data::data_source::DataSource;
use crate::train::run_folder::folder_run::RunResult;
use crate::train::run_folder::run_identity::plan_json;
use crate::train::run_folder::training::{RunContext, Training, held_out_part, write_folder};
use crate::train::training_loop::worker_group::WorkerGroup;
use crate::{Error, ModelKind, Result, checksum, stage_timer, tr};
use chumoku_kernels::parallel;
pub use continued_training::ContinuedTaggerData;
use crf_settings::{CrfChoice, choose_crf_settings};
pub(crate) use network::TaggerPlan;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// The data to train, select and test a tagger.
#[derive(Clone, Debug)]
pub struct TaggerData {
    /// The kinds of spans, sorted.
    pub labels: Vec<String>,
    /// True if every word has a label.
    pub each_word: bool,
    /// The unit that gets a label.
    pub unit: SpanUnit,
    /// Rows for training.
    pub train: Vec<SpanExample>,
    /// Rows for choices, such as the best epoch.
    pub valid: Vec<SpanExample>,
    /// Rows for the reported scores.
    pub test: Vec<SpanExample>,
    /// Notes on peculiarities of the data, for the report.
    pub notes: Vec<String>,
    /// The files of the rows, in order. Empty if they cannot be read again.
    pub sources: Vec<DataSource>,
    /// The rows to compare the tagger with its base model on, in continued training.
    pub continued: Option<ContinuedTaggerData>,
}

impl TaggerData {
    /// Builds the data from files. Validation and test rows without a file of their own are split off the training
    /// file.
    ///
    /// # Errors
    /// If there are too few rows, no spans, or spans of kinds that the training file does not have.
    pub fn new(train: &SpanDataset, valid: Option<&SpanDataset>, test: Option<&SpanDataset>) -> Result<TaggerData> {
        train.check_trainable()?;
        TaggerData::split_files(train, [valid, test], train.kinds().into_keys().map(str::to_owned).collect())
    }

    /// Builds the data for a complete list of kinds.
    fn split_files(
        train: &SpanDataset,
        [valid, test]: [Option<&SpanDataset>; 2],
        labels: Vec<String>,
    ) -> Result<TaggerData> {
        for other in [valid, test].into_iter().flatten() {
            other.check_known_labels(&labels)?;
        }
        let plain =
            |row: &SpanExample| Example { text: row.text.as_str().into(), label: String::new(), line: row.line };
        let rows: Vec<Example> = train.examples.iter().map(plain).collect();
        let share = |given: Option<&SpanDataset>| if given.is_some() { 0.0 } else { 0.1 };
        let split = data::split(&rows, 0, share(valid), share(test));
        let part = |rows: &[usize]| rows.iter().map(|&row| train.examples[row].clone()).collect::<Vec<_>>();
        let own =
            |given: Option<&SpanDataset>, rows: &[usize]| given.map_or_else(|| part(rows), |g| g.examples.clone());
        let mut notes: Vec<String> =
            [Some(train), valid, test].into_iter().flatten().flat_map(|data| data.notes.clone()).collect();
        for (name, other) in [(tr!("validation", "検証"), valid), (tr!("test", "テスト"), test)] {
            let Some(other) = other else { continue };
            let others: Vec<Example> = other.examples.iter().map(plain).collect();
            let (n, of) = (data::shared_texts(&rows, &others).count, others.len());
            if n > 0 {
                notes.push(tr!(
                    "warning: {n} of {of} {name} rows have a text that is also in the training file: their score says nothing \
                     about new texts",
                    "警告: {name}データの {of} 行のうち {n} 行は、テキストが学習ファイルにもあります。その評価値からは、新しいテキスト\
                     について何も分かりません"
                ));
            }
        }
        let unit = SpanUnit::for_texts(train.examples.iter().map(|row| row.text.as_str()));
        notes.extend([Some(train), valid, test].into_iter().flatten().filter_map(|data| split_words_note(data, unit)));
        Ok(TaggerData {
            labels,
            each_word: train.has_word_labels,
            unit,
            train: part(&split.train),
            valid: own(valid, &split.valid),
            test: own(test, &split.test),
            notes,
            sources: Vec::new(),
            continued: None,
        })
    }

    fn tags(&self) -> TagScheme {
        TagScheme { kinds: self.labels.len(), each_word: self.each_word }
    }

    fn sentences(&self, parts: &[&[SpanExample]]) -> Vec<CrfSentence> {
        let sentence = |row: &SpanExample| {
            let units = units_of_row(row, self.unit);
            CrfSentence { features: features(&row.text, &units, self.unit), labels: self.unit_labels(row, &units) }
        };
        parallel::map(&parts.concat(), sentence)
    }

    /// Returns the label of each unit of a row.
    fn unit_labels(&self, row: &SpanExample, units: &[Range<usize>]) -> Vec<usize> {
        let places = unit_positions(&row.text, units);
        let mut free = 0;
        let mut spans = Vec::new();
        for span in &row.spans {
            // A unit shared by two spans belongs to the first.
            let first = places.partition_point(|place| place.1 <= span.start).max(free);
            let end = places.partition_point(|place| place.0 < span.end);
            if first < end {
                let kind = self.labels.binary_search(&span.label).expect("kinds are known");
                spans.push((first..end, kind));
                free = end;
            }
        }
        self.tags().encode(units.len(), &spans)
    }

    /// The SHA-256 of all texts and spans, in order.
    pub(crate) fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for rows in [&self.train, &self.valid, &self.test] {
            hash.update((rows.len() as u64).to_le_bytes());
            for row in rows {
                hash.update((row.text.len() as u64).to_le_bytes());
                hash.update(&row.text);
                for span in &row.spans {
                    hash.update(
                        [span.start as u64, span.end as u64, span.label.len() as u64].map(u64::to_le_bytes).concat(),
                    );
                    hash.update(&span.label);
                }
            }
        }
        checksum::hex(hash.finalize())
    }
}

/// The result of training a tagger.
#[derive(Debug)]
#[non_exhaustive]
pub struct TaggerOutcome {
    /// The saved model.
    pub model: TextTagger,
    /// The content of `metrics.json`.
    pub metrics: Value,
    /// Scores on the test rows.
    pub test: SpanScores,
    /// Scores on the same rows of the CRF alone and of the network alone, if there is a network.
    pub parts: Option<[SpanScores; 2]>,
    /// Scores on the same rows of a dictionary, which marks every name that was a span in training.
    pub dictionary: SpanScores,
    /// True if training was interrupted.
    pub interrupted: bool,
}

/// A trained network with its plan and run.
struct TrainedTaggerNetwork {
    network: TaggerNetwork,
    plan: TaggerPlan,
    ended: RunResult,
}

/// Trains a tagger and writes the model folder `out`.
///
/// Three settings of the CRF are tried; the settings and number of epochs that are best on the validation rows are
/// used.
///
/// With [`TrainOptions::from`](crate::train::TrainOptions::from), a pretrained encoder is also fine-tuned to predict the
/// labels, as reproducibly as [`train`](crate::train::train). The blend of both is fitted on the validation rows.
/// Finally, the CRF is refitted with these rows.
///
/// If the data has [old rows](TaggerData::continued), that folder is the base tagger for continued training. Its
/// network continues from its weights, its CRF is trained from scratch, and the report compares both taggers.
///
/// # Errors
/// If the folder cannot be written, a checkpoint does not fit, or a loss is no longer finite.
///
/// [`Error::Interrupted`] if `stop` was set before there was a network to save. Nothing has been written then.
pub fn train_tagger(data: &TaggerData, mut training: Training<'_>) -> Result<TaggerOutcome> {
    let (context, observe) = training.begin(ModelKind::Tagger)?;
    let RunContext { options, out, stop } = context;
    let before = match (&options.from, &data.continued) {
        (Some(folder), Some(further)) => Some(further.base.read(folder, network::BaseTagger::read)?),
        _ => None,
    };
    let encoder = options.from.as_deref().filter(|_| before.as_ref().is_none_or(|before| before.tagger.has_network()));
    let encoder = encoder.map(|folder| (folder, before.as_ref()));
    if let (Some(WorkerGroup::Worker(_)), Some(encoder)) = (&options.worker_group, encoder) {
        // Only the coordinator trains the CRF.
        return network::train_network(data, encoder, context, observe).and(Err(Error::WorkerFinished));
    }
    let choice = choose_crf_settings(data, options, stop, observe)?;
    let config = TaggerConfig {
        model_type: ModelKind::Tagger.model_type().into(),
        chumoku_version: env!("CARGO_PKG_VERSION").into(),
        labels: data.labels.clone(),
        unit: data.unit,
        each_word: data.each_word,
        network: None,
    };
    let all = [&data.train[..], &data.valid[..]];
    let (model, of_network) = match encoder {
        None => (TextTagger { config, crf: fit_crf(data, &all, choice, options.seed, stop)?, network: None }, None),
        Some(encoder) => {
            let crf = fit_crf(data, &all[..1], choice, options.seed, stop)?;
            let TrainedTaggerNetwork { mut network, plan, ended } =
                network::train_network(data, encoder, context, observe)?;
            let mut model = TextTagger { config, crf, network: None };
            network.config.blend = fit_tagger_blend(&model, &network, data)?;
            // An interrupted run ends without refitting.
            if !ended.interrupted {
                model.crf = fit_crf(data, &all, choice, options.seed, stop)?;
            }
            model.config.network = Some(network.config.clone());
            model.network = Some(network);
            (model, Some((plan, ended)))
        }
    };
    let reporting = stage_timer::begin(stage_timer::REPORT);
    let (rows, part) = held_out_part([&data.train, &data.valid, &data.test], Vec::is_empty);
    let alone = [TaggerBlend::CRF, TaggerBlend::NETWORK];
    let alone = if model.has_network() { &alone[..] } else { &[] };
    let mut scores = model.score_with_blends(rows, &[&[model.blend()][..], alone].concat(), options.seed)?;
    // `None` without a network.
    let parts: Option<[SpanScores; 2]> = scores.split_off(1).try_into().ok();
    let test = scores.remove(0);
    let dictionary = card::dictionary_scores(data, rows, options.seed);
    let interrupted = of_network.as_ref().is_some_and(|(_, ended)| ended.interrupted);
    let mut metrics = json!({
        "chumoku_version": env!("CARGO_PKG_VERSION"),
        "task": "tag",
        "seed": options.seed,
        "interrupted": interrupted,
        "rows": { "train": data.train.len(), "valid": data.valid.len(), "test": data.test.len() },
        "labels": data.labels,
        "files": data.sources,
        "data_sha256": data.fingerprint(),
        "features": model.num_features(),
        "rate": choice.settings.rate,
        "penalty": choice.settings.penalty,
        "epochs": choice.epochs,
        "valid": choice.f1.map(|f1| json!({ "span_f1": f1 })),
        "scored_on": part,
        "span_f1": test.all.f1,
        "scores": test,
        "parts": { "dictionary": dictionary },
        "notes": data.notes,
    });
    if let (Some((plan, ended)), Some([crf, network])) = (&of_network, &parts) {
        let best = ended.state.best;
        metrics["parts"]["crf"] = json!(crf);
        metrics["parts"]["network"] = json!(network);
        metrics["network"] = json!({
            "parameters": model.num_parameters(),
            "steps": ended.state.step,
            "epochs": ended.state.epoch,
            "best_epoch": best.map(|best| best.epoch),
            "valid": best.map(|best| json!({ "span_f1": best.score, "log_loss": best.loss })),
            "blend": plan_json(&model.blend()),
            "plan": plan_json(plan),
        });
    }
    drop(reporting);
    let mut files = model.files()?;
    let texts: Vec<_> = data.train.iter().chain(&data.valid).map(|row| row.text.as_row()).collect();
    let known = data.continued.as_ref().map(|further| further.base.training_texts.clone()).unwrap_or_default();
    files.push((TRAINED_ON, known.with(&texts).to_bytes()));
    let of_network = of_network.as_ref().map(|(plan, ended)| (plan, ended));
    let mut card = card::card(
        &model,
        data,
        of_network,
        card::TaggerScores { test: &test, parts: &parts, dictionary: &dictionary },
        (part, options.seed),
    );
    if let Some(before) = &before
        && let Some((figures, section)) =
            continued_training::compare_taggers(data, [&before.tagger, &model], options.seed)?
    {
        metrics["further"] = figures;
        card += &section;
    }
    let writing = stage_timer::begin(stage_timer::WRITING);
    write_folder(out, files, &metrics, card)?;
    drop(writing);
    Ok(TaggerOutcome { model, metrics, test, parts, dictionary, interrupted })
}

/// Fits a CRF on these rows.
fn fit_crf(data: &TaggerData, rows: &[&[SpanExample]], choice: CrfChoice, seed: u64, stop: &AtomicBool) -> Result<Crf> {
    let corpus = Corpus::new(data.sentences(rows), data.tags());
    let mut fit = CrfTrainer::new(&corpus, choice.settings, seed);
    for _ in 0..choice.epochs {
        fit.train_epoch().ok_or_else(not_finite)?;
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
    }
    Ok(fit.into_model())
}

/// Fits the blend of CRF and network on the validation rows.
fn fit_tagger_blend(model: &TextTagger, network: &TaggerNetwork, data: &TaggerData) -> Result<TaggerBlend> {
    let cut = model.rows_with_units(&data.valid);
    let of_network = network.log_probabilities(&cut)?;
    let rows: Vec<(MemberEmissions, Vec<usize>)> = model
        .member_scores(&cut)?
        .into_iter()
        .zip(of_network)
        .zip(cut.iter().zip(&data.valid))
        .map(|((emissions, network), ((_, units), row))| {
            (MemberEmissions { network, ..emissions }, data.unit_labels(row, units))
        })
        .collect();
    Ok(TaggerBlend::fit(&model.crf, data.tags(), &rows))
}

/// The warning about spans that begin or end within a word, if any.
fn split_words_note(data: &SpanDataset, unit: SpanUnit) -> Option<String> {
    let cut = |row: &SpanExample| -> Vec<Span> {
        let places = unit_positions(&row.text, &units_of_row(row, unit));
        let is_cut = |span: &&Span| {
            let begins = places.binary_search_by_key(&span.start, |place| place.0).is_ok();
            !begins || places.binary_search_by_key(&span.end, |place| place.1).is_err()
        };
        row.spans.iter().filter(is_cut).cloned().collect()
    };
    let found: Vec<Vec<Span>> = data.examples.iter().map(cut).collect();
    let (n, of) =
        (found.iter().map(Vec::len).sum::<usize>(), data.examples.iter().map(|row| row.spans.len()).sum::<usize>());
    let (row, span) = found.iter().enumerate().find_map(|(row, cut)| Some((row, cut.first()?)))?;
    let (start, end) = (span.start, span.end);
    let shown: String = data.examples[row].text.chars().skip(start).take(end - start).collect();
    let (shown, place) = (quote(&shown), data.location(row));
    Some(tr!(
        "warning: {n} of {of} spans begin or end within a word, such as {shown} ({place}, {start} to {end}): training \
         uses whole words; positions count characters, not bytes or UTF-16 units",
        "警告: {of} 個のスパンのうち {n} 個は単語の途中で始まるか終わります（{place} の {start}〜{end}、{shown} など）。単語全体を学習します。\
         位置は文字数で、バイト数や UTF-16 の単位数ではありません"
    ))
}

/// Returns the start and end of each unit, in characters.
fn unit_positions(text: &str, units: &[Range<usize>]) -> Vec<(usize, usize)> {
    let characters = CharacterOffsets::new(text);
    units.iter().map(|unit| (characters.character(unit.start), characters.character(unit.end))).collect()
}

fn not_finite() -> Error {
    Error::NotFinite(tr!(
        "training: the likelihood of a text is not finite; try fewer epochs with --epochs",
        "学習中に、テキストの尤度が有限の値になりませんでした。--epochs でエポック数を減らしてみてください"
    ))
}
