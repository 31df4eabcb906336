//! Flags of `chumoku train`.

use super::values::{
    parse_class_weights, parse_feature_column, parse_folds, parse_freeze, parse_from_one, parse_from_zero,
    parse_micro_batches, parse_settings, parse_tune_budget, parse_up_to_1024,
};
use super::{MultiLabelArgs, Precision, ReadArgs};
use crate::output::OutputPath;
use chumoku::row::FeatureRequest;
use chumoku::text::TokenizationUnit;
use chumoku::train::{ClassWeights, Freeze, SettingOverrides, TuneBudget};
use chumoku::{Optimize, RecurrentCell, nn};
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

/// The values of `--task`. The task that data suggests is a [`chumoku::data::Task`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TaskName {
    /// One class per text
    Classify,
    /// Any number of labels per text
    Labels,
    /// A number per text: a rating, a measurement
    Score,
    /// Labels of words: names, terms, parts of speech
    Tag,
    /// Texts in another language or form
    Translate,
    /// The text itself, reconstructed from a few numbers (--bottleneck)
    Autoencode,
    /// A language model, which continues texts
    Lm,
    /// Pretraining of an encoder on unlabeled text, for --from
    Mlm,
}

/// Architecture of the network that reads the tokens of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Architecture {
    /// A transformer encoder
    Transformer,
    /// A recurrent network of the same size
    Rnn,
    /// A recurrent network with long short-term memory
    Lstm,
    /// A recurrent network with gated recurrent units
    Gru,
    /// No network: the linear n-gram model alone, trained in seconds
    Ngrams,
}

impl Architecture {
    /// Returns the network. N-grams have none: their value has no effect.
    pub(crate) fn network(self) -> nn::BackboneKind {
        match self {
            Architecture::Transformer | Architecture::Ngrams => nn::BackboneKind::Transformer,
            Architecture::Rnn => nn::BackboneKind::Recurrent(RecurrentCell::Rnn),
            Architecture::Lstm => nn::BackboneKind::Recurrent(RecurrentCell::Lstm),
            Architecture::Gru => nn::BackboneKind::Recurrent(RecurrentCell::Gru),
        }
    }
}

impl TrainArgs {
    /// Returns the architecture of the classifier.
    pub(crate) fn architecture(&self) -> Architecture {
        self.model.unwrap_or(Architecture::Transformer)
    }
}

/// The metric that predictions are optimized for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OptimizedMetric {
    /// Mean F1 of the classes
    #[value(name = "macro-f1")]
    MacroF1,
}

same_values!(OptimizedMetric, Optimize: MacroF1);

/// Unit of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenUnit {
    /// Frequent words whole, rare words in pieces
    Subwords,
    /// Characters
    Characters,
    /// Whole words; rare ones become “unknown” (not for translators)
    Words,
}

same_values!(TokenUnit, TokenizationUnit: Subwords, Characters, Words);

/// A built-in data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BuiltinData {
    /// Sentences in the language of --lang: does "it" mean the first or the second noun? Only attention decides
    Pronouns,
    /// 1,000 short reviews, English and Japanese: positive or negative?
    Reviews,
    /// 1,000 random texts with random labels: a model can memorize them, but there is nothing to learn
    CoinFlips,
    /// Dates as people write them, English and Japanese, to translate to ISO 8601
    Dates,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct TrainArgs {
    /// Training data: CSV, TSV, JSONL, JSON, Parquet, Excel (.xlsx) or fastText lines, optionally .gz; - for standard
    /// input
    #[arg(value_name = "DATA")]
    pub(crate) data: Option<PathBuf>,
    /// Further training files with the same columns; rows keep the order of the files
    #[arg(value_name = "MORE")]
    pub(crate) more: Vec<PathBuf>,
    /// Built-in data to train on, without DATA (default: pronouns; with --task translate, dates)
    #[arg(long, value_enum, value_name = "NAME", conflicts_with = "data")]
    pub(crate) builtin: Option<BuiltinData>,
    /// Task of the model (default: recognized from the data)
    #[arg(long, value_enum)]
    pub(crate) task: Option<TaskName>,
    /// Train an autoencoder (--task autoencode) whose decoder sees K numbers of each text, 1 to 1024 (default: 32)
    ///
    /// An affine map turns the mean of the encoder's output into K numbers, and another one maps them back to the model's
    /// width.
    #[arg(long, value_name = "K", value_parser = parse_up_to_1024)]
    pub(crate) bottleneck: Option<usize>,
    #[command(flatten)]
    pub(crate) multi_label: MultiLabelArgs,
    /// Architecture of the classifier; a network is combined with an n-gram model (default: transformer)
    #[arg(long, value_enum)]
    pub(crate) model: Option<Architecture>,
    /// Start from a pretrained model, or continue training your own model
    ///
    /// A pretrained model is a folder with config.json, model.safetensors and tokenizer.json. Classifiers and taggers
    /// start from an encoder, language models from a language model. With a folder written by `chumoku train`, training
    /// continues on the new rows.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) from: Option<PathBuf>,
    /// With --from and a model of your own, the file it was trained on (default: recorded in its folder)
    ///
    /// The old rows are replayed, so that the model does not forget them. `none` trains on the new rows alone.
    /// `encoder` starts from the encoder of a fine-tuned model. Repeat the flag if the model was trained on several
    /// files.
    #[arg(long, value_name = "FILE", requires = "from")]
    pub(crate) old: Vec<PathBuf>,
    /// With --from, parts to freeze: none, embeddings, a number of layers, or all (default: embeddings if there are many
    /// tokens)
    ///
    /// A number freezes that many layers and everything below them. `all` freezes everything but the new head.
    #[arg(long, value_name = "WHAT", value_parser = parse_freeze, requires = "from")]
    pub(crate) freeze: Option<Freeze>,
    /// With --from, train low-rank adapters (LoRA) of this rank and freeze the pretrained matrices
    ///
    /// Needs less memory and writes smaller checkpoints; 8 to 64 is usual.
    #[arg(long, value_name = "RANK", value_parser = parse_up_to_1024, requires = "from", conflicts_with = "freeze")]
    pub(crate) lora: Option<usize>,
    /// Pretrain an encoder on these texts and the training texts first, and start from it
    ///
    /// The encoder is saved in a folder next to the model's.
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub(crate) unlabelled: Vec<PathBuf>,
    /// Feature columns to use in addition to the text, such as price,shop,date
    ///
    /// The type of each column is recognized, or given after a colon (number, category, date): shop:category.
    #[arg(long, value_name = "COLS", value_delimiter = ',', value_parser = parse_feature_column)]
    pub(crate) columns: Vec<FeatureRequest>,
    /// Weight of each class: balanced, equal, or factors such as spam=5,ham=1 (default: rare classes count somewhat more)
    ///
    /// `balanced` gives each class the same weight, `equal` gives each row the same weight.
    #[arg(long, value_name = "WEIGHTS", value_parser = parse_class_weights)]
    pub(crate) class_weights: Option<ClassWeights>,
    /// Optimize predictions for this metric on the validation rows (default: the most probable class)
    ///
    /// macro-f1 predicts rare classes more often, at some cost of accuracy.
    #[arg(long, value_enum, value_name = "FIGURE")]
    pub(crate) optimize: Option<OptimizedMetric>,
    /// Tree of classes or labels: a path separator such as / for A/B/C, or a file with the columns child,parent (default:
    /// recognized from the labels)
    ///
    /// `none` treats labels that look like paths as plain names.
    #[arg(long, value_name = "SEPARATOR|FILE")]
    pub(crate) hierarchy: Option<String>,
    /// Search for good settings first: for a time such as 30s, 10m or 2h (including training), or a number of trials
    ///
    /// The validation rows choose the settings. Only for data with one class per text.
    #[arg(long, value_name = "TIME", value_parser = parse_tune_budget)]
    pub(crate) tune: Option<TuneBudget>,
    /// Settings of a classifier, as --tune prints them, such as dropout=0.2,words=2 (default: chosen from the data)
    ///
    /// An unknown name lists all settings.
    #[arg(long, value_name = "SETTINGS", value_parser = parse_settings)]
    pub(crate) settings: Option<SettingOverrides>,
    /// Unit of tokens (default: chosen from the texts)
    #[arg(long, value_enum, value_name = "UNIT")]
    pub(crate) tokens: Option<TokenUnit>,
    /// Show how much time each stage took, and what share was matrix products
    #[arg(long)]
    pub(crate) profile: bool,
    /// Folder for the model (default: chumoku-model, chumoku-model-2, …)
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<OutputPath>,
    /// Validation rows (default: a tenth of DATA)
    #[arg(long, value_name = "FILE")]
    pub(crate) valid: Option<PathBuf>,
    /// Test rows (default: a tenth of DATA)
    #[arg(long, value_name = "FILE")]
    pub(crate) test: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
    /// Maximum number of epochs (default: chosen from the size of the data)
    #[arg(long, value_name = "N", value_parser = parse_from_one::<u64>)]
    pub(crate) epochs: Option<u64>,
    /// Cross-validation: train on this many folds in addition, and report mean and spread
    ///
    /// Each fold holds out another part of the training and validation rows.
    #[arg(long, value_name = "N", value_parser = parse_folds)]
    pub(crate) folds: Option<usize>,
    /// Random seed: decides initial weights, order of rows and dropout; the same seed gives the same model
    #[arg(long, value_name = "N", default_value_t = 42, value_parser = parse_from_zero::<u64>)]
    pub(crate) seed: u64,
    /// Number of threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
    /// Micro-batches that are computed in parallel, 1 to 64 (default: 1, 2 or 4, depending on the tokens of a batch)
    ///
    /// One for each core keeps all cores busy, but each takes memory for its own gradients. A different number gives a
    /// different model; the number of threads does not.
    #[arg(long, value_name = "N", value_parser = parse_micro_batches)]
    pub(crate) parts: Option<usize>,
    /// Precision of matrix products
    ///
    /// Lower levels are faster on processors that multiply bf16 numbers, and make no difference elsewhere.
    #[arg(long, value_enum, default_value = "medium")]
    pub(crate) precision: Precision,
    /// Resume a run that was stopped or killed
    #[arg(long)]
    pub(crate) resume: bool,
    /// Record the attention to this text before training and after each epoch, for `chumoku film`
    ///
    /// For a translator, give source and target with a tab between them.
    #[arg(long, value_name = "TEXT")]
    pub(crate) watch: Option<String>,
    /// Replace the model in the output folder, or restart its unfinished run
    #[arg(long)]
    pub(crate) force: bool,
    /// Print the metrics as one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
