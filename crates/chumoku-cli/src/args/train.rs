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

/// The tasks that `train` has, by the names of its flag. What data is for is a [`chumoku::data::Task`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TaskName {
    /// Sort texts into classes
    Classify,
    /// Give each text any number of labels
    Labels,
    /// Tell a number for each text: a rating, a measure
    Score,
    /// Label words: names, terms, parts of speech
    Tag,
    /// Turn texts into texts in another language or form
    Translate,
    /// Continue texts
    Lm,
    /// Pretrain an encoder on unlabelled text, for --from
    Mlm,
}

/// What reads the tokens of a text.
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
    /// No network: the linear model over n-grams alone, trained in seconds
    Ngrams,
}

impl Architecture {
    /// The network; n-grams have none, and what is said of one is of no effect.
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
    /// The kind of classifier.
    pub(crate) fn architecture(&self) -> Architecture {
        self.model.unwrap_or(Architecture::Transformer)
    }
}

/// The figure that answers are chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OptimizedMetric {
    /// The mean F1 of the classes
    #[value(name = "macro-f1")]
    MacroF1,
}

impl From<OptimizedMetric> for Optimize {
    fn from(figure: OptimizedMetric) -> Self {
        match figure {
            OptimizedMetric::MacroF1 => Optimize::MacroF1,
        }
    }
}

/// What tokens are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenUnit {
    /// Parts of words: frequent words whole, rare ones in pieces
    Subwords,
    /// Characters
    Characters,
    /// Whole words; rare ones become “unknown” (not for translators)
    Words,
}

impl From<TokenUnit> for TokenizationUnit {
    fn from(tokens: TokenUnit) -> Self {
        match tokens {
            TokenUnit::Subwords => TokenizationUnit::Subwords,
            TokenUnit::Characters => TokenizationUnit::Characters,
            TokenUnit::Words => TokenizationUnit::Words,
        }
    }
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct TrainArgs {
    /// CSV, TSV, JSONL, JSON, Parquet, Excel (.xlsx) or fastText lines, each also as .gz; - for standard input
    #[arg(value_name = "DATA")]
    pub(crate) data: Option<PathBuf>,
    /// Further training files with the same columns; rows are read in the order of the files
    #[arg(value_name = "MORE")]
    pub(crate) more: Vec<PathBuf>,
    #[arg(long, value_enum)]
    pub(crate) task: Option<TaskName>,
    #[command(flatten)]
    pub(crate) multi_label: MultiLabelArgs,
    /// Kind of classifier; a network is joined with n-grams (default: transformer)
    #[arg(long, value_enum)]
    pub(crate) model: Option<Architecture>,
    /// Start from a pretrained model: a folder with config.json, model.safetensors and tokenizer.json; a classifier or a
    /// tagger from an encoder, a language model from a language model; or train a model of your own further on new rows
    #[arg(long, value_name = "FOLDER")]
    pub(crate) from: Option<PathBuf>,
    /// With --from and a model of your own: the file that it was trained on (default: the one that its folder remembers); none to train
    /// on the new rows alone; or encoder to start from the encoder alone of one that was fine-tuned. Once for each file where it was
    /// trained on several
    #[arg(long, value_name = "FILE", requires = "from")]
    pub(crate) old: Vec<PathBuf>,
    /// With --from, what stays as it is: nothing, embeddings, so many layers with all below them, or all but the new head
    /// (default: embeddings where there are many tokens)
    #[arg(long, value_name = "WHAT", value_parser = parse_freeze, requires = "from")]
    pub(crate) freeze: Option<Freeze>,
    /// With --from, leave the pretrained matrices as they are and train products of this rank that are added to them (LoRA):
    /// less memory and smaller checkpoints; 8 to 64 is usual
    #[arg(long, value_name = "RANK", value_parser = parse_up_to_1024, requires = "from", conflicts_with = "freeze")]
    pub(crate) lora: Option<usize>,
    /// Pretrain an encoder on these texts and the training texts first, and start from it; it stays in a folder beside
    /// the model's
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub(crate) unlabelled: Vec<PathBuf>,
    /// Further columns to learn from beside the text: price,shop,date; what each holds is recognised, or said behind a colon
    /// (number, category, date), as shop:category
    #[arg(long, value_name = "COLS", value_delimiter = ',', value_parser = parse_feature_column)]
    pub(crate) columns: Vec<FeatureRequest>,
    /// How much the rows of each class count: balanced (each class as much), equal (each row as much), or times for some classes,
    /// spam=5,ham=1 (default: rare classes count somewhat more)
    #[arg(long, value_name = "WEIGHTS", value_parser = parse_class_weights)]
    pub(crate) class_weights: Option<ClassWeights>,
    /// Choose answers for this figure on the validation rows. macro-f1 answers rare classes more often, at some cost of accuracy
    /// (default: the most probable class)
    #[arg(long, value_enum, value_name = "FIGURE")]
    pub(crate) optimize: Option<OptimizedMetric>,
    /// Classes or labels stand in a tree: what is between the names of a path, such as / for A/B/C, or a file with the columns child,parent;
    /// none if labels that look like paths are none (default: told from the labels)
    #[arg(long, value_name = "SEPARATOR|FILE")]
    pub(crate) hierarchy: Option<String>,
    /// Search settings on the validation rows first: for a time (30s, 10m, 2h), training included, or for a number of trials; only
    /// where each text has one class
    #[arg(long, value_name = "TIME", value_parser = parse_tune_budget)]
    pub(crate) tune: Option<TuneBudget>,
    /// Settings of classifiers that are otherwise chosen from the data, as --tune prints them: dropout=0.2,words=2 (an unknown name
    /// lists all)
    #[arg(long, value_name = "SETTINGS", value_parser = parse_settings)]
    pub(crate) settings: Option<SettingOverrides>,
    /// What tokens are (default: chosen from the texts)
    #[arg(long, value_enum, value_name = "UNIT")]
    pub(crate) tokens: Option<TokenUnit>,
    /// Tell where the time went: stage by stage, and how much of it was multiplying
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
    /// Maximum number of passes over the data (default: chosen from its size)
    #[arg(long, value_name = "N", value_parser = parse_from_one::<u64>)]
    pub(crate) epochs: Option<u64>,
    /// Cross-validation: train so many times more, each time judged by another part of the training and validation rows, and report
    /// mean and spread
    #[arg(long, value_name = "N", value_parser = parse_folds)]
    pub(crate) folds: Option<usize>,
    /// Decides initial weights, order and dropout: the same seed gives the same model
    #[arg(long, value_name = "N", default_value_t = 42, value_parser = parse_from_zero::<u64>)]
    pub(crate) seed: u64,
    /// Threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
    /// Parts of a batch that are learnt from side by side, 1 to 64; with as many as cores all are busy, and each takes
    /// memory for gradients of its own. Another number is another run, whatever the threads (default: 1, 2 or 4 by the
    /// tokens of a batch)
    #[arg(long, value_name = "N", value_parser = parse_micro_batches)]
    pub(crate) parts: Option<usize>,
    /// How exact matrix products are; lower levels are faster where the processor multiplies bf16 numbers, and the same
    /// elsewhere
    #[arg(long, value_enum, default_value = "medium")]
    pub(crate) precision: Precision,
    /// Continue a run that was stopped or killed
    #[arg(long)]
    pub(crate) resume: bool,
    /// Record the attention to this text before training and after each epoch, for `chumoku film`; for a translator,
    /// give source and target with a tab between them
    #[arg(long, value_name = "TEXT")]
    pub(crate) watch: Option<String>,
    /// Replace the model in the output folder, or start its unfinished run over
    #[arg(long)]
    pub(crate) force: bool,
    /// Print the metrics as one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
