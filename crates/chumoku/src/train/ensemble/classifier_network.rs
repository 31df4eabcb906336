//! The tokenizer, plan and initial weights of a classifier's network.

use super::logistic::LogisticRegression;
use crate::model_folder::with_snapshot;
use crate::models::Classifier;
use crate::ngram::NgramTarget;
use crate::pretrained::FineTuningBase;
use crate::row::{AsRow, Row};
use crate::text::{NormalizationForm, SEP, TextTokenizer, TokenizationUnit, TokenizerConfig, unspaced_fraction};
use crate::text_models::classifier::{TextClassifier, tokenizer_for_pairs};
use crate::text_models::generator::TextGenerator;
use crate::train::continued_training::{base_model, combined_rows};
use crate::train::data::base_snapshot::BaseSnapshot;
use crate::train::data::training_data::TrainingData;
use crate::train::settings::options::TrainOptions;
use crate::train::settings::plan::{DataShape, Freeze, Plan};
use crate::{Error, ModelKind, Result, stage_timer, tr};
use std::path::Path;

impl TrainOptions {
    /// Checks that the pretrained model can be read, and that a model of this kind can start from it, before training.
    ///
    /// # Errors
    /// If the folder is missing or damaged, or needs unsupported features, or if all parameters of a language model are
    /// to be frozen.
    pub fn check_from(&self, kind: ModelKind) -> Result<()> {
        let Some(folder) = &self.from else { return Ok(()) };
        if kind != ModelKind::LanguageModel {
            // A base model has been read already.
            return with_snapshot(folder, |folder| match base_model::is_in_chumoku_format(folder) {
                true => Ok(()),
                false => FineTuningBase::read(folder)?.check(),
            });
        }
        if self.freeze == Some(Freeze::All) {
            return Err(Error::Setting(tr!(
                "--freeze all: a language model has no new part to train; freeze fewer layers",
                "--freeze all: 言語モデルには新しく学習する部分がありません。固定する層を減らしてください"
            )));
        }
        TextGenerator::load(folder).map(drop)
    }
}

/// Returns the default kind of tokens: whole words in scripts with spaces, otherwise sub-words. Networks memorize rare
/// words that are split into sub-words, instead of learning from their context (figures in `bench/record`).
fn default_unit(texts: &[&str]) -> TokenizationUnit {
    const UNSPACED: f64 = 0.1;
    if unspaced_fraction(texts.iter().copied()) > UNSPACED {
        TokenizationUnit::Subwords
    } else {
        TokenizationUnit::Words
    }
}

/// A network before training: tokens, plan, and what it starts from.
pub(crate) struct ClassifierNetwork {
    pub(crate) tokenizer: TextTokenizer,
    /// Tokens of the training rows.
    pub(crate) rows: Vec<Vec<u32>>,
    pub(crate) plan: Plan,
    pub(crate) encoder: Option<FineTuningBase>,
    /// The base model, in continued training.
    pub(crate) base: Option<TextClassifier>,
    /// The last layer, if it is a fitted regression. The network then takes no steps.
    pub(crate) head: Option<LogisticRegression>,
}

/// The properties of training data that a network depends on, for all targets.
struct NetworkInputs<'a> {
    /// The training rows.
    train: &'a [Row],
    labels: &'a [String],
    /// The number of training rows of each class or label.
    class_rows: Vec<usize>,
    /// True if a text may have several labels.
    is_set: bool,
    reads_pairs: bool,
    /// The base model, in continued training.
    base: Option<&'a BaseSnapshot>,
}

impl<'a> NetworkInputs<'a> {
    fn new<A: NgramTarget>(data: &'a TrainingData<A>) -> NetworkInputs<'a> {
        NetworkInputs {
            train: &data.train.texts,
            labels: &data.labels,
            class_rows: data.class_rows(),
            is_set: A::IS_SET,
            reads_pairs: data.reads_pairs(),
            base: data.continued.as_ref().map(|further| &further.base),
        }
    }
}

impl ClassifierNetwork {
    /// Builds the network that the options request.
    ///
    /// # Errors
    /// If a pretrained encoder cannot be read, or texts cannot be tokenized.
    pub(crate) fn new<A: NgramTarget>(data: &TrainingData<A>, options: &TrainOptions) -> Result<ClassifierNetwork> {
        ClassifierNetwork::build(&NetworkInputs::new(data), options, false)
    }

    /// Builds a frozen pretrained encoder with a linear layer on its text vectors.
    ///
    /// # Errors
    /// The same as for [`ClassifierNetwork::new`].
    pub(super) fn with_linear_head<A: NgramTarget>(
        data: &TrainingData<A>,
        options: &TrainOptions,
    ) -> Result<ClassifierNetwork> {
        let mut network = ClassifierNetwork::build(&NetworkInputs::new(data), options, true)?;
        network.plan.settings.epochs = 0;
        Ok(network)
    }

    fn build(data: &NetworkInputs<'_>, options: &TrainOptions, has_linear_head: bool) -> Result<ClassifierNetwork> {
        let _stage = stage_timer::begin(stage_timer::TOKENS);
        let mut network = match &options.from {
            None => ClassifierNetwork::from_scratch(data, options)?,
            Some(folder) => match data.base {
                Some(base) => ClassifierNetwork::from_base_model(data, (folder, base), options)?,
                None => ClassifierNetwork::from_encoder(data, folder, options, has_linear_head)?,
            },
        };
        options.overrides.apply_training(&mut network.plan);
        let settings = &mut network.plan.settings;
        options.apply_to(settings);
        if data.is_set {
            // Labels are independent: class weights and label smoothing do not apply.
            settings.label_smoothing = 0.0;
            network.plan.class_weights = None;
        }
        if let Some(weights) = &options.class_weights {
            network.plan.class_weights = Some(weights.for_rows(data.labels, &data.class_rows, data.is_set)?);
        }
        Ok(network)
    }

    /// Builds a network and a tokenizer from the data.
    fn from_scratch(data: &NetworkInputs<'_>, options: &TrainOptions) -> Result<ClassifierNetwork> {
        let reads_pairs = data.reads_pairs;
        let texts: Vec<&str> = data.train.iter().flat_map(|row| row.as_row().texts()).collect();
        let vocab_size = TextTokenizer::suitable_vocab_size(&texts);
        let (unit, min_count) = options.overrides.tokens();
        let unit = unit.or(options.tokens).unwrap_or_else(|| default_unit(&texts));
        let min_frequency = min_count.unwrap_or(2);
        let config = TokenizerConfig { vocab_size, min_frequency, form: NormalizationForm::NfkcLowercase, unit };
        let mut tokenizer = TextTokenizer::train(&texts, &config)?;
        if reads_pairs {
            tokenizer = tokenizer.with_special(&[SEP])?.with_pair_separator();
        }
        let rows = tokenizer.encode_all(data.train)?;
        let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
        let shape = DataShape { lengths: &lengths, class_rows: &data.class_rows, vocab_size: tokenizer.vocab_size() };
        let mut plan = Plan::new(&shape);
        options.overrides.apply_architecture(&mut plan.model);
        let position = options.overrides.positions().unwrap_or(options.position);
        let mut plan = plan.with_network(options.network, position)?;
        if !options.overrides.is_empty() {
            Classifier::new(plan.model.clone()).map_err(|error| {
                let (set, error) = (&options.overrides, Error::from(error));
                Error::Setting(tr!(
                    "--settings {set}: no network has these settings: {error}; give a width that is an even multiple \
                     of heads",
                    "--settings {set}: この設定ではネットワークを作れません: {error}。width は heads の偶数倍にしてください"
                ))
            })?;
        }
        if reads_pairs {
            (plan.model.embeddings.separator, plan.model.embeddings.token_types) = (tokenizer.pair_separator(), 2);
        }
        Ok(ClassifierNetwork { tokenizer, rows, plan, encoder: None, base: None, head: None })
    }

    /// Builds a network from the encoder and tokenizer of a folder, with a new head.
    fn from_encoder(
        data: &NetworkInputs<'_>,
        folder: &Path,
        options: &TrainOptions,
        has_linear_head: bool,
    ) -> Result<ClassifierNetwork> {
        let mut start = with_snapshot(folder, FineTuningBase::read)?;
        let mut freeze = options.freeze;
        if has_linear_head {
            (start.origin, freeze) = (start.origin.with_pooling(start.pooling.0), Some(Freeze::All));
        }
        let mut tokenizer = start.tokenizer.clone();
        let mut model = start.origin.classifier(data.class_rows.len());
        if data.reads_pairs {
            tokenizer = tokenizer_for_pairs(tokenizer, &mut model);
        }
        let rows = tokenizer.encode_all(data.train)?;
        let lengths: Vec<usize> = rows.iter().map(|row| row.len() + tokenizer.special_tokens().len()).collect();
        let shape = DataShape { lengths: &lengths, class_rows: &data.class_rows, vocab_size: model.vocab_size };
        let plan = Plan::fine_tuning(&shape, model, start.origin.model_type(), start.max_tokens).with_freeze(freeze);
        Ok(ClassifierNetwork { tokenizer, rows, plan, encoder: Some(start), base: None, head: None })
    }

    /// Builds a network from a base model, with new outputs in its last layer.
    fn from_base_model(
        data: &NetworkInputs<'_>,
        (folder, base): (&Path, &BaseSnapshot),
        options: &TrainOptions,
    ) -> Result<ClassifierNetwork> {
        let (before, start) = base.read(folder, |folder| {
            let before = TextClassifier::from_snapshot(folder)?;
            // A fine-tuned model is saved in the format of its encoder.
            let start = before.origin.is_some().then(|| FineTuningBase::read(folder)).transpose()?;
            Ok((before, start))
        })?;
        let tokenizer = before.tokenizer.clone();
        let rows = tokenizer.encode_all(data.train)?;
        let frame = if start.is_some() { tokenizer.special_tokens().len() } else { 0 };
        let lengths: Vec<usize> = rows.iter().map(|row| row.len() + frame).collect();
        let shape =
            DataShape { lengths: &lengths, class_rows: &data.class_rows, vocab_size: before.config.model.vocab_size };
        let limit = start.as_ref().map_or(before.config.max_tokens(), |start| start.max_tokens);
        let plan = combined_rows::continued_plan(&before, &shape, limit).with_freeze(options.freeze);
        Ok(ClassifierNetwork { tokenizer, rows, plan, encoder: start, base: Some(before), head: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_whole_words_in_scripts_with_spaces() {
        let (english, japanese) = ("The food was good, and the staff kind.", "料理はおいしく、店員も親切でした。");
        assert_eq!(default_unit(&[english; 10]), TokenizationUnit::Words);
        assert_eq!(default_unit(&[japanese]), TokenizationUnit::Subwords);
        assert_eq!(default_unit(&[english, japanese]), TokenizationUnit::Subwords);
        let quoting = [&[english; 40][..], &["They call it 親切."]].concat();
        assert_eq!(default_unit(&quoting), TokenizationUnit::Words);
    }
}
