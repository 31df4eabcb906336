//! What a classifier's run trains: its tokens, its plan, and the pretrained encoder that it starts from, if any.

use super::further;
use super::known::{self, Base};
use super::{Freeze, Plan, Shape, TrainOptions, TrainingData};
use crate::logistic::Regression;
use crate::model_folder::read_snapshot;
use crate::models::Classifier;
use crate::ngram::Answer;
use crate::pretrained::Start;
use crate::text::{SEP, TextForm, TextTokenizer, TokenizerConfig, Unit, unspaced_share};
use crate::text_classifier::{TextClassifier, for_pairs};
use crate::text_generator::TextGenerator;
use crate::{Error, ModelKind, Result, pair, stages, tr};
use std::path::Path;

impl TrainOptions {
    /// Refuses a pretrained model that cannot be read, or that a model of this kind cannot start from, before anything is
    /// trained.
    ///
    /// # Errors
    /// If the folder is missing or damaged, or asks for what this version does not have; if everything of a language model
    /// is to stay as it is.
    pub fn check_from(&self, kind: ModelKind) -> Result<()> {
        let Some(folder) = &self.from else { return Ok(()) };
        if kind != ModelKind::LanguageModel {
            // One of one's own has been read already.
            return read_snapshot(folder, |folder| match known::is_in_own_form(folder) {
                true => Ok(()),
                false => Start::read(folder)?.check(),
            });
        }
        if self.freeze == Some(Freeze::All) {
            return Err(Error::Setting(tr!(
                "--freeze all: a language model has no new part to train; freeze fewer layers",
                "--freeze all: 言語モデルには新しく学習する部分がありません。凍結する層を減らしてください"
            )));
        }
        TextGenerator::load(folder).map(drop)
    }
}

/// Whole words where spaces tell them apart: spelt in parts, rare words are learnt by heart instead of what stands around
/// them (`bench/record` has the figures). Without spaces parts of words.
fn suitable_unit(texts: &[&str]) -> Unit {
    const UNSPACED: f64 = 0.1;
    if unspaced_share(texts.iter().copied()) > UNSPACED { Unit::Subwords } else { Unit::Words }
}

/// What is trained: tokens, the plan, and what it starts from.
pub(super) struct Network {
    pub(super) tokenizer: TextTokenizer,
    /// Tokens of the training rows.
    pub(super) rows: Vec<Vec<u32>>,
    pub(super) plan: Plan,
    pub(super) start: Option<Start>,
    /// The model that is trained further, if one is.
    pub(super) before: Option<TextClassifier>,
    /// The last layer, where it is a regression that was solved: it takes no steps then.
    pub(super) head: Option<Regression>,
}

/// What a network has to know of training data, whatever their answers are.
struct Facts<'a> {
    train: &'a [String],
    /// The training texts without what stands beside them.
    texts: Vec<&'a str>,
    labels: &'a [String],
    /// Training rows of each class or label.
    class_rows: Vec<usize>,
    /// Whether labels do not exclude each other.
    is_set: bool,
    reads_pairs: bool,
    has_columns: bool,
    /// The model that is trained further, if one is.
    base: Option<&'a Base>,
}

impl<'a> Facts<'a> {
    fn of<A: Answer>(data: &'a TrainingData<A>) -> Facts<'a> {
        Facts {
            train: &data.train.texts,
            texts: data.texts_of(&data.train),
            labels: &data.labels,
            class_rows: data.class_rows(),
            is_set: A::IS_SET,
            reads_pairs: data.reads_pairs(),
            has_columns: !data.columns.is_empty(),
            base: data.further.as_ref().map(|further| &further.base),
        }
    }
}

impl Facts<'_> {
    fn train(&self) -> Vec<&str> {
        self.train.iter().map(String::as_str).collect()
    }
}

impl Network {
    /// What the options ask for.
    ///
    /// # Errors
    /// If a pretrained encoder cannot be read, or texts cannot be cut into tokens.
    pub(super) fn new<A: Answer>(data: &TrainingData<A>, options: &TrainOptions) -> Result<Network> {
        Network::of(&Facts::of(data), options, false)
    }

    /// A pretrained encoder that stays as it is, with one linear layer on the vectors of texts.
    ///
    /// # Errors
    /// As for [`Network::new`].
    pub(super) fn with_linear_head<A: Answer>(data: &TrainingData<A>, options: &TrainOptions) -> Result<Network> {
        let mut network = Network::of(&Facts::of(data), options, true)?;
        network.plan.settings.epochs = 0;
        Ok(network)
    }

    fn of(data: &Facts<'_>, options: &TrainOptions, has_linear_head: bool) -> Result<Network> {
        let _stage = stages::begin(stages::TOKENS);
        let mut network = match &options.from {
            None => Network::from_scratch(data, options)?,
            Some(folder) => match data.base {
                Some(base) => Network::further(data, (folder, base), options)?,
                None => Network::pretrained(data, folder, options, has_linear_head)?,
            },
        };
        options.set.apply(&mut network.plan);
        let settings = &mut network.plan.settings;
        settings.epochs = options.epochs.unwrap_or(settings.epochs);
        settings.precision = options.precision;
        settings.parts = options.parts.unwrap_or(settings.parts);
        if data.is_set {
            // Each label is a question of its own: there are no rare classes to be made up for, nor others to smooth to.
            settings.label_smoothing = 0.0;
            network.plan.class_weights = None;
        }
        if let Some(weights) = &options.class_weights {
            network.plan.class_weights = Some(weights.of_rows(data.labels, &data.class_rows, data.is_set)?);
        }
        Ok(network)
    }

    /// A network and a tokenizer of the data's own.
    fn from_scratch(data: &Facts<'_>, options: &TrainOptions) -> Result<Network> {
        let (all, reads_pairs) = (&data.texts, data.reads_pairs);
        let texts =
            if reads_pairs { all.iter().flat_map(|text| text.split(pair::SEPARATOR)).collect() } else { all.clone() };
        let vocab_size = TextTokenizer::suitable_vocab_size(&texts);
        let (unit, min_count) = options.set.tokens();
        let unit = unit.or(options.tokens).unwrap_or_else(|| suitable_unit(&texts));
        let min_frequency = min_count.unwrap_or(2);
        let config = TokenizerConfig { vocab_size, min_frequency, form: TextForm::Folded, unit };
        let mut tokenizer = TextTokenizer::train(&texts, &config)?;
        if reads_pairs {
            tokenizer = tokenizer.with_special(&[SEP])?.for_pairs();
        }
        if data.has_columns {
            tokenizer = tokenizer.skipping_beside();
        }
        let rows = tokenizer.encode_all(all)?;
        let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
        let shape = Shape { lengths: &lengths, class_rows: &data.class_rows, vocab_size: tokenizer.vocab_size() };
        let mut plan = Plan::new(&shape);
        options.set.shape(&mut plan.model);
        let position = options.set.positions().unwrap_or(options.position);
        let mut plan = plan.with_network(options.network, position)?;
        if !options.set.is_empty() {
            Classifier::new(plan.model.clone()).map_err(|error| {
                let (set, error) = (&options.set, Error::from(error));
                Error::Setting(tr!(
                    "--settings {set}: these make no network: {error}; give a width that is an even multiple of heads",
                    "--settings {set}: この設定ではネットワークを作れません: {error}。width は heads の偶数倍にしてください"
                ))
            })?;
        }
        if reads_pairs {
            (plan.model.input.separator, plan.model.input.token_types) = (tokenizer.between(), 2);
        }
        Ok(Network { tokenizer, rows, plan, start: None, before: None, head: None })
    }

    /// The encoder of a folder, its tokenizer, and a head that is new.
    fn pretrained(data: &Facts<'_>, folder: &Path, options: &TrainOptions, has_linear_head: bool) -> Result<Network> {
        let mut start = read_snapshot(folder, Start::read)?;
        let mut freeze = options.freeze;
        if has_linear_head {
            (start.origin, freeze) = (start.origin.pooled(start.pooling.0), Some(Freeze::All));
        }
        let mut tokenizer = start.tokenizer.clone();
        let mut model = start.origin.classifier(data.class_rows.len());
        if data.reads_pairs {
            tokenizer = for_pairs(tokenizer, &mut model);
        }
        if data.has_columns {
            tokenizer = tokenizer.skipping_beside();
        }
        let rows = tokenizer.encode_all(&data.train())?;
        let lengths: Vec<usize> = rows.iter().map(|row| row.len() + tokenizer.frame().len()).collect();
        let shape = Shape { lengths: &lengths, class_rows: &data.class_rows, vocab_size: model.vocab_size };
        let plan = Plan::fine_tuning(&shape, model, start.origin.model_type(), start.limit).freezing(freeze);
        Ok(Network { tokenizer, rows, plan, start: Some(start), before: None, head: None })
    }

    /// A model of one's own, with what is new in its last layer.
    fn further(data: &Facts<'_>, (folder, base): (&Path, &Base), options: &TrainOptions) -> Result<Network> {
        let (before, start) = base.read(folder, |folder| {
            let before = TextClassifier::of_snapshot(folder)?;
            // The form in which one that was fine-tuned is written again.
            let start = before.origin.is_some().then(|| Start::read(folder)).transpose()?;
            Ok((before, start))
        })?;
        let tokenizer = before.tokenizer.clone();
        let rows = tokenizer.encode_all(&data.train())?;
        let frame = if start.is_some() { tokenizer.frame().len() } else { 0 };
        let lengths: Vec<usize> = rows.iter().map(|row| row.len() + frame).collect();
        let shape =
            Shape { lengths: &lengths, class_rows: &data.class_rows, vocab_size: before.config.model.vocab_size };
        let limit = start.as_ref().map_or(before.config.max_tokens(), |start| start.limit);
        let plan = further::plan(&before, &shape, limit).freezing(options.freeze);
        Ok(Network { tokenizer, rows, plan, start, before: Some(before), head: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_whole_words_where_spaces_tell_them_apart() {
        let (english, japanese) = ("The food was good, and the staff kind.", "料理はおいしく、店員も親切でした。");
        assert_eq!(suitable_unit(&[english; 10]), Unit::Words);
        assert_eq!(suitable_unit(&[japanese]), Unit::Subwords);
        assert_eq!(suitable_unit(&[english, japanese]), Unit::Subwords);
        let quoting = [&[english; 40][..], &["They call it 親切."]].concat();
        assert_eq!(suitable_unit(&quoting), Unit::Words);
    }
}
