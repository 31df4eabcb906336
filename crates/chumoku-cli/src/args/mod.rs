//! The command line.
//!
//! # Files
//!
//! - `bench`: `bench`
//! - `doctor`: `doctor`
//! - `japanese`: help in Japanese
//! - `numbers`: `check`, `trace`, `count`
//! - `pictures`: picture flags
//! - `serve`: `serve`
//! - `shard`: `--shard` and `join`
//! - `train`: `train`
//! - `values`: parsers of flag values
//! - `vectors`: `embed` and `nearest`

/// Converts the values of a flag to those of the library, which have the same names.
macro_rules! same_values {
    ($flag:ident, $library:ty: $($value:ident),+) => {
        impl From<$flag> for $library {
            fn from(value: $flag) -> Self {
                match value {
                    $($flag::$value => Self::$value),+
                }
            }
        }
    };
}

mod bench;
mod doctor;
mod japanese;
mod numbers;
mod pictures;
mod serve;
mod shard;
mod train;
mod values;
mod vectors;

pub(crate) use bench::{BenchAttentionArgs, BenchClassifierArgs, BenchCommand, Dtype};
pub(crate) use doctor::DoctorArgs;
pub(crate) use numbers::{AttentionPart, CheckArgs, CountArgs, TraceArgs, TraceFormat};
pub(crate) use pictures::{
    EncodingKind, ExplainArgs, ExplainView, FilmArgs, Method, PictureArgs, PositionArgs, PositionView,
};
pub(crate) use serve::ServeArgs;
pub(crate) use shard::{JoinArgs, Shard};
pub(crate) use train::{Architecture, BuiltinData, TaskName, TokenUnit, TrainArgs};
pub(crate) use vectors::{EmbedArgs, EmbeddingFormat, NearestArgs};

use crate::UsageError;
use crate::output::{NamedFiles, OutputKind, OutputPath};
use crate::terminal::terminal_options;
use chumoku::answers::{LabelThreshold, PredictOptions, ThresholdOptions};
use chumoku::data::{DataError, LabelOptions, StreamCopies};
use chumoku::row::FeatureRequest;
use chumoku::train::DataSource;
use chumoku::{Lang, lang};
use clap::error::ErrorKind;
use clap::{Args as ClapArgs, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use shard::parse_shard;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use values::{
    parse_at_least_one, parse_column_value, parse_delimiter, parse_from_one, parse_from_zero, parse_integer,
    parse_label_threshold, parse_number, parse_target_share, parse_up_to_1024,
};

/// Maximum number of columns of help.
const MAX_HELP_WIDTH: usize = 100;

/// Train, use and explain transformers on your own text, on any CPU.
#[derive(Debug, Parser)]
#[command(name = "chumoku", bin_name = "chumoku", version, max_term_width = MAX_HELP_WIDTH)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Language of messages, pictures and pages (default: from the environment, for example LANG=ja_JP.UTF-8)
    #[arg(long, value_enum, global = true, value_name = "LANG", display_order = 1000)]
    pub(crate) lang: Option<Language>,
    /// The files that the command line names.
    #[arg(skip)]
    pub(crate) files: NamedFiles,
}

impl Cli {
    /// Returns the command with its subcommands and flags.
    pub(crate) fn definition() -> clap::Command {
        allow_negative_values(Self::command())
    }

    /// Returns the command with its subcommands and flags, described in Japanese.
    pub(crate) fn definition_in_japanese() -> clap::Command {
        japanese::translate(Self::definition())
    }

    /// Parses a command line. A word after an option that takes a value is its value, even if it is a negative number.
    /// The error message can then explain the number.
    pub(crate) fn parse_args(args: Vec<OsString>) -> Result<Self, clap::Error> {
        let mut command = Self::definition();
        let mut matches = command.try_get_matches_from_mut(&args).map_err(|error| Self::translate_help(error, args))?;
        let files = NamedFiles::from_matches(&command, &matches);
        let args = Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))?;
        Ok(Cli { files, ..args })
    }

    /// Replaces help by its Japanese, if that is the user's language, and returns other errors as they are.
    fn translate_help(error: clap::Error, args: Vec<OsString>) -> clap::Error {
        let is_help =
            matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand);
        if lang::lang() == Lang::En || !is_help {
            return error;
        }
        let width = terminal_options(Lang::Ja).width.min(MAX_HELP_WIDTH);
        let command = japanese::lay_out(Self::definition_in_japanese(), width);
        command.try_get_matches_from(args).err().unwrap_or(error)
    }
}

fn allow_negative_values(command: clap::Command) -> clap::Command {
    let takes_value = |arg: &clap::Arg| !arg.is_positional() && arg.get_action().takes_values();
    let command = command.mut_args(|arg| if takes_value(&arg) { arg.allow_negative_numbers(true) } else { arg });
    command.mut_subcommands(allow_negative_values)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a model on a file: classifier, tagger, translator, autoencoder or language model (without a file: on built-in
    /// data)
    Train(Box<TrainArgs>),
    /// Score a model on labeled rows, translations or plain text
    Eval(EvalArgs),
    /// Predict the class, labels, number or spans of texts, or of every row of a file
    Predict(PredictArgs),
    /// Join the outputs of `predict --shard` into one file, rows in order
    Join(JoinArgs),
    /// Find wrong labels, duplicates and broken texts in a labeled file, and texts to label next
    Doctor(DoctorArgs),
    /// Compute text embeddings with a pretrained encoder, or with a classifier or autoencoder trained here
    Embed(EmbedArgs),
    /// Semantic search over a file
    Nearest(NearestArgs),
    /// Translate texts, or every row of a file
    Translate(TranslateArgs),
    /// Continue a text with a language model
    Generate(GenerateArgs),
    /// Show why a model gave its answer: effect of each word, attention, alignment
    Explain(Box<ExplainArgs>),
    /// Serve models over HTTP, compatible with text-embeddings-inference
    Serve(ServeArgs),
    /// Export a classifier's network as an ONNX file, without its n-gram model
    Export(ExportArgs),
    /// Compute attention on the tensors of a file, as ONNX's operator Attention defines it
    Attend(AttendArgs),
    /// Show attention in numbers, step by step: for an example, a file, or a layer of a model
    Trace(TraceArgs),
    /// Check the numbers of worked examples of attention, and find the first wrong step
    Check(CheckArgs),
    /// Show positional encodings: heatmap, curves, wavelengths and similarity of positions
    Position(PositionArgs),
    /// Show how the attention to one text changed in training (after `train --watch TEXT`), or the learning curves
    Film(FilmArgs),
    /// Count parameters, multiply-adds, bytes and memory of every step of a network
    Count(CountArgs),
    /// Train a transformer and recurrent networks of its size on the same data, and compare accuracy and speed
    Compare(CompareArgs),
    /// Measure the speed of attention or of the classifier on this machine, on random data
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Show the contents of a model folder, or processor, instruction set, threads and versions
    Info(InfoArgs),
}

impl Command {
    /// Returns the kind of the command's outputs.
    pub(crate) fn outputs(&self) -> OutputKind {
        match self {
            Command::Train(_) => OutputKind::ModelFolder,
            Command::Doctor(_) => OutputKind::Folders,
            Command::Explain(args) if args.input.is_some() => OutputKind::Folders,
            _ => OutputKind::Files,
        }
    }
}

/// Precision of f32 products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Precision {
    /// As exact as f32
    Highest,
    /// Two bf16 terms per number, or better
    High,
    /// One bf16 term per number, or better
    Medium,
}

same_values!(Precision, chumoku::Precision: Highest, High, Medium);

/// How to read a data file.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct ReadArgs {
    /// Column of the text: a name, a number from 1, or a path such as message.body
    ///
    /// For two columns, separate them with a comma: Subject,Description.
    #[arg(id = "text_column", long = "text", value_name = "COL")]
    pub(crate) text: Option<String>,
    /// Column of the label: a name, a number from 1, or a path such as meta.kind
    #[arg(long, value_name = "COL")]
    pub(crate) label: Option<String>,
    /// Read the first row as column names or as data (default: decided from the rows)
    #[arg(long, value_enum, value_name = "WHETHER")]
    pub(crate) header: Option<HeaderMode>,
    /// Label values that mean "missing", such as NaN,none (default: NaN, NULL, N/A, NA, ? and similar)
    ///
    /// --missing none keeps every value.
    #[arg(long, value_name = "VALUES", value_delimiter = ',')]
    pub(crate) missing: Option<Vec<String>>,
    /// Merge labels that differ only in letter case, width, white space or hyphens
    #[arg(long)]
    pub(crate) merge_labels: bool,
    /// Encoding of the file if it is not UTF-8, such as cp932, shift_jis, euc-jp, utf-16 or windows-1252
    #[arg(long, value_name = "NAME")]
    pub(crate) encoding: Option<String>,
    /// Format of the file (default: recognized from its name and content)
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<DataFormat>,
    /// Field separator of a CSV file: one character, or tab
    #[arg(long, value_name = "CHAR", value_parser = parse_delimiter)]
    pub(crate) delimiter: Option<char>,
    /// Sheet of an Excel workbook (default: the first one with a table)
    #[arg(long, value_name = "NAME")]
    pub(crate) sheet: Option<String>,
    /// Skip rows that are empty or cannot be read, and report their number
    #[arg(long)]
    pub(crate) skip_bad_rows: bool,
    /// Data that came through pipes, kept for a second read.
    #[arg(skip)]
    pub(crate) pipe_buffer: StreamCopies,
    /// The feature columns to read.
    #[arg(skip)]
    pub(crate) feature_columns: Vec<FeatureRequest>,
    /// How the training file of the model was read.
    #[arg(skip)]
    pub(crate) training_source: Option<DataSource>,
}

/// How the first row is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HeaderMode {
    /// Column names
    Yes,
    /// Data
    No,
    /// Decide from the rows
    Auto,
}

/// Values of feature columns, for models that read them.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct SetColumnArgs {
    /// Value of a feature column for all given texts or rows, such as price=12
    #[arg(long = "set", value_name = "COL=VALUE", value_parser = parse_column_value)]
    pub(crate) values: Vec<(String, String)>,
}

/// Thresholds at which a class is predicted.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct ThresholdArgs {
    /// Predict a class only at this probability or above, such as spam=0.8
    ///
    /// For multi-label models, a number alone applies to every label.
    #[arg(long, value_name = "[CLASS=]P", value_parser = parse_label_threshold)]
    pub(crate) threshold: Vec<LabelThreshold>,
    /// Predict a class only where this share of its predictions is right, such as spam=0.95
    ///
    /// The probability threshold is chosen on the validation rows.
    #[arg(long, value_name = "[CLASS=]SHARE", value_parser = parse_label_threshold)]
    pub(crate) precision_at_least: Vec<LabelThreshold>,
}

impl ThresholdArgs {
    /// Returns the thresholds for the library.
    pub(crate) fn options(&self) -> ThresholdOptions {
        ThresholdOptions { thresholds: self.threshold.clone(), precisions: self.precision_at_least.clone() }
    }

    /// Returns true if any threshold was given.
    pub(crate) fn is_given(&self) -> bool {
        self.options().is_given()
    }
}

/// How a file writes several labels per text.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct MultiLabelArgs {
    /// Multi-label data: the label columns, each 1 where its label holds
    #[arg(long, value_name = "COLS", value_delimiter = ',', conflicts_with = "separator")]
    labels: Vec<String>,
    /// Multi-label data: the character between labels in the label column
    #[arg(long, value_name = "CHAR", value_parser = parse_delimiter)]
    separator: Option<char>,
}

impl MultiLabelArgs {
    /// Returns the options for the library.
    pub(crate) fn options(&self) -> LabelOptions {
        LabelOptions { columns: self.labels.clone(), separator: self.separator }
    }

    /// Returns the given options or, without any, those of the model's training file.
    pub(crate) fn options_or_remembered(&self, reading: &ReadArgs) -> LabelOptions {
        match reading.training_source.as_ref().filter(|_| !self.is_given() && reading.label.is_none()) {
            Some(source) => source.label_options(),
            None => self.options(),
        }
    }

    /// Returns true if any option was given.
    pub(crate) fn is_given(&self) -> bool {
        self.options() != LabelOptions::default()
    }
}

impl ReadArgs {
    /// Reads files like the training file of the model, unless flags say otherwise.
    pub(crate) fn use_training_source(&mut self, model: &Path) {
        self.training_source = DataSource::newest_of_model(model);
    }

    /// Reads the columns with these names as the sides of a translator, unless flags or its training file name others.
    pub(crate) fn use_side_names(&mut self, names: &[String]) {
        let of = self.training_source.take().unwrap_or_default();
        self.training_source = Some(of.with_defaults(&DataSource::of_columns(names)));
    }

    /// Returns the first flag that was given.
    pub(crate) fn first_flag(&self) -> Option<&'static str> {
        let flags = [
            ("--text", self.text.is_some()),
            ("--label", self.label.is_some()),
            ("--header", self.header.is_some()),
            ("--missing", self.missing.is_some()),
            ("--merge-labels", self.merge_labels),
            ("--encoding", self.encoding.is_some()),
            ("--format", self.format.is_some()),
            ("--delimiter", self.delimiter.is_some()),
            ("--sheet", self.sheet.is_some()),
            ("--skip-bad-rows", self.skip_bad_rows),
        ];
        flags.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
    }

    /// Refuses flags on reading a file for a command on built-in data.
    pub(crate) fn check_no_file(&self) -> Result<(), UsageError> {
        match self.first_flag() {
            Some(flag) => Err(file_flag_error(flag)),
            None => Ok(()),
        }
    }

    /// Buffers piped data so that it can be read twice; `-` becomes the name of standard input.
    pub(crate) fn buffer_pipe(&mut self, data: &mut PathBuf) -> Result<(), DataError> {
        *data = self.pipe_buffer.capture(data)?;
        Ok(())
    }
}

/// Returns the error for a flag on a file in a command on built-in data.
pub(crate) fn file_flag_error(flag: &str) -> UsageError {
    UsageError(chumoku::tr!(
        "{flag} is for a data file, and the built-in data has none; name a file, or leave {flag} out",
        "{flag} はデータのファイルのためのもので、内蔵のデータでは使えません。ファイルを指定するか、{flag} を外してください"
    ))
}

/// Format of a data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataFormat {
    /// Fields separated by commas (or --delimiter), quoted where needed
    Csv,
    /// Fields separated by tabs
    Tsv,
    /// One JSON object per line
    Jsonl,
    /// One JSON array with an element per row
    Json,
    /// Apache Parquet
    Parquet,
    /// A sheet of an Excel workbook (.xlsx)
    Excel,
    /// `__label__x text`
    Fasttext,
    /// One text per line
    Text,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct EvalArgs {
    /// Model folder written by `chumoku train`
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Data to score the model on; - for standard input
    ///
    /// A labeled file for classifiers and taggers, a file with numbers for predictors of numbers, pairs (a.ja,a.en or a
    /// table) for translators, plain text for language models.
    #[arg(value_name = "DATA")]
    pub(crate) data: PathBuf,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
    #[command(flatten)]
    pub(crate) multi_label: MultiLabelArgs,
    #[command(flatten)]
    pub(crate) set: SetColumnArgs,
    /// Precision of matrix products (default: that of training; for published models highest, or high if their weights
    /// are 16-bit)
    #[arg(long, value_enum)]
    pub(crate) precision: Option<Precision>,
    /// Number of threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
    #[command(flatten)]
    pub(crate) thresholds: ThresholdArgs,
    #[command(flatten)]
    pub(crate) pictures: PictureArgs,
    /// Write the wrongly predicted rows to a CSV file, most confident first
    #[arg(long, value_name = "FILE")]
    pub(crate) errors: Option<OutputPath>,
    /// Print the scores as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PredictArgs {
    /// Model folder written by `chumoku train`
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Texts; without texts or --input, reads lines or a table from standard input
    #[arg(value_name = "TEXT")]
    pub(crate) texts: Vec<String>,
    /// File to predict, row by row; - for standard input
    ///
    /// The output keeps all columns and adds the prediction: label and probability, or number and interval.
    #[arg(long, value_name = "FILE", conflicts_with = "texts")]
    pub(crate) input: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
    #[command(flatten)]
    pub(crate) set: SetColumnArgs,
    /// Stop at the first row that cannot be predicted, instead of leaving its prediction empty
    #[arg(long, conflicts_with = "skip_bad_rows")]
    pub(crate) strict: bool,
    /// Start CSV and TSV output with a byte order mark, so that Excel recognizes UTF-8
    #[arg(long, conflicts_with = "json")]
    pub(crate) bom: bool,
    /// Abstain when unsure: 0.95 keeps 95 % of the given answers right
    ///
    /// The confidence threshold is chosen on the validation rows. The model also abstains on texts that are unlike the
    /// training texts.
    #[arg(long, value_name = "SHARE", value_parser = parse_target_share, conflicts_with_all = ["top", "threshold", "precision_at_least"])]
    pub(crate) abstain: Option<f64>,
    #[command(flatten)]
    pub(crate) thresholds: ThresholdArgs,
    /// Print the N most probable classes
    #[arg(long, value_name = "N", value_parser = parse_at_least_one)]
    pub(crate) top: Option<usize>,
    /// Predict shard I of N, such as 2/8: row I and every N-th row after it
    ///
    /// Use it to divide a file among machines, and `chumoku join` to join the outputs.
    #[arg(long, value_name = "I/N", value_parser = parse_shard, conflicts_with_all = ["texts", "html"])]
    pub(crate) shard: Option<Shard>,
    /// Write an HTML page with the spans in color (taggers only)
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<OutputPath>,
    /// Show how much time each stage took, and what share was matrix products
    #[arg(long)]
    pub(crate) profile: bool,
    /// Precision of matrix products (default: that of training; for published models highest, or high if their weights
    /// are 16-bit)
    #[arg(long, value_enum)]
    pub(crate) precision: Option<Precision>,
    /// Number of threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

impl PredictArgs {
    /// Returns the options for the library.
    pub(crate) fn options(&self) -> PredictOptions {
        PredictOptions {
            top: self.top,
            abstain: self.abstain,
            thresholds: self.thresholds.options(),
            feature_values: self.set.values.clone(),
            precision: self.precision.map(Into::into),
            as_objects: self.json,
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TranslateArgs {
    /// Model folder written by `chumoku train --task translate`, or a published translator (Marian)
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Texts; without texts or --input, reads lines or a table from standard input
    #[arg(value_name = "TEXT")]
    pub(crate) texts: Vec<String>,
    /// File to translate, row by row; - for standard input. The output keeps all columns
    #[arg(long, value_name = "FILE", conflicts_with = "texts")]
    pub(crate) input: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
    /// Stop at the first row that cannot be translated, instead of leaving its translation empty
    #[arg(long, conflicts_with = "skip_bad_rows")]
    pub(crate) strict: bool,
    /// Start CSV and TSV output with a byte order mark, so that Excel recognizes UTF-8
    #[arg(long, conflicts_with = "json")]
    pub(crate) bom: bool,
    /// Beam width of the search; 1 takes the most probable token at each step
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = parse_at_least_one)]
    pub(crate) beam: usize,
    /// Exponent of the length normalization; higher values favor longer translations
    #[arg(long, value_name = "X", default_value_t = 0.6, value_parser = parse_number)]
    pub(crate) length_penalty: f64,
    /// Print the N best translations of each text with their scores (at most --beam)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_at_least_one)]
    pub(crate) n_best: usize,
    /// With --json, add the attention of each translated token to the source, for every layer and head
    #[arg(long, requires = "json")]
    pub(crate) alignment: bool,
    /// Precision of matrix products (default: that of training; for published models highest, or high if their weights
    /// are 16-bit)
    #[arg(long, value_enum)]
    pub(crate) precision: Option<Precision>,
    /// Number of threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct GenerateArgs {
    /// Model folder written by `chumoku train --task lm`, or a published language model (Llama, Mistral, Qwen, GPT-2)
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Start of the text, or the user's message for a model with a chat template (default: start of a document)
    #[arg(value_name = "PROMPT", default_value = "")]
    pub(crate) prompt: String,
    /// Maximum number of tokens to generate; a document may end earlier
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = parse_at_least_one)]
    pub(crate) max_tokens: usize,
    /// Sampling temperature: lower values prefer likely tokens, 0 always takes the most likely one
    #[arg(long, value_name = "T", default_value_t = 0.8, value_parser = parse_number)]
    pub(crate) temperature: f64,
    /// Sample from the K most likely tokens only; 0 for all
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = parse_from_zero::<usize>)]
    pub(crate) top_k: usize,
    /// Sample from the most likely tokens that together reach probability P
    #[arg(long, value_name = "P", default_value_t = 1.0, value_parser = parse_number)]
    pub(crate) top_p: f64,
    /// Random seed: the same seed gives the same text
    #[arg(long, value_name = "N", default_value_t = 42, value_parser = parse_from_zero::<u64>)]
    pub(crate) seed: u64,
    /// Number of threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
    /// Continue the prompt as plain text, even if the model has a chat template
    #[arg(long, conflicts_with = "system")]
    pub(crate) no_chat: bool,
    /// System message for a model with a chat template
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Precision of matrix products (default: that of training; for published models highest, or high if their weights
    /// are 16-bit)
    #[arg(long, value_enum)]
    pub(crate) precision: Option<Precision>,
    /// Print the complete text as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct CompareArgs {
    /// Labeled file (default: the built-in reviews)
    #[arg(value_name = "DATA")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
    /// Maximum number of epochs for each model (default: chosen from the size of the data)
    #[arg(long, value_name = "N", value_parser = parse_from_one::<u64>)]
    pub(crate) epochs: Option<u64>,
    /// Random seed: decides initial weights, order of rows and dropout
    #[arg(long, value_name = "N", default_value_t = 42, value_parser = parse_from_zero::<u64>)]
    pub(crate) seed: u64,
    /// Number of threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
    /// Precision of matrix products
    #[arg(long, value_enum, default_value = "medium")]
    pub(crate) precision: Precision,
    /// Write a picture of time against length as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<OutputPath>,
    /// Print one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags are named after the operator's attributes, and override those in the file.
#[derive(Debug, ClapArgs)]
pub(crate) struct AttendArgs {
    /// A .safetensors or .npz file with Q, K, V and optional attn_mask, past_key, past_value, nonpad_kv_seqlen (or
    /// in.Q, …)
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// Write Y (and present_key, present_value, qk_matmul_output if computed) to a .safetensors or .npz file
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<OutputPath>,
    /// Let each query see only keys up to its own position
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = clap::builder::BoolishValueParser::new())]
    pub(crate) is_causal: Option<bool>,
    /// Factor on Q·Kᵀ (default: 1/√dim)
    #[arg(long, value_name = "X", value_parser = parse_number)]
    pub(crate) scale: Option<f64>,
    /// Replace scores s with X·tanh(s/X) before masks are added; 0 for none
    #[arg(long, value_name = "X", value_parser = parse_number)]
    pub(crate) softcap: Option<f64>,
    /// Number of query heads, if Q has three axes (batch, length, heads · dim)
    #[arg(long, value_name = "N", value_parser = parse_integer)]
    pub(crate) q_num_heads: Option<i64>,
    /// Number of key and value heads, if K and V have three axes
    #[arg(long, value_name = "N", value_parser = parse_integer)]
    pub(crate) kv_num_heads: Option<i64>,
    /// Also write qk_matmul_output: 0 scaled products, 1 after softcap, 2 after masks, 3 weights
    #[arg(long, value_name = "0..3", value_parser = parse_integer)]
    pub(crate) qk_matmul_output_mode: Option<i64>,
    /// Number of keys that a query sees before its own position; -1 for all
    #[arg(long, value_name = "N", value_parser = parse_integer)]
    pub(crate) left_window_size: Option<i64>,
    /// Number of keys that a query sees after its own position; -1 for all
    #[arg(long, value_name = "N", value_parser = parse_integer)]
    pub(crate) right_window_size: Option<i64>,
    /// Compute softmax at least in this type: 1 f32, 10 f16, 11 f64, 16 bf16
    #[arg(long, value_name = "N", value_parser = parse_integer)]
    pub(crate) softmax_precision: Option<i64>,
    /// Number of threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
}

/// Language of messages, pictures and pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    /// English
    En,
    /// Japanese
    Ja,
}

same_values!(Language, chumoku::Lang: En, Ja);

#[derive(Debug, ClapArgs)]
pub(crate) struct ExportArgs {
    /// Folder of a classifier: written by `chumoku train`, or published
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// File to write
    #[arg(short, long, value_name = "FILE", default_value = "model.onnx")]
    pub(crate) out: OutputPath,
    /// Print the properties and metadata of the file as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct InfoArgs {
    /// Model folder; without it, shows information about this machine
    #[arg(value_name = "MODEL")]
    pub(crate) model: Option<PathBuf>,
    /// Print the full training report: every class, confusion matrix, calibration, all levels of --abstain
    #[arg(long, requires = "model", conflicts_with = "json")]
    pub(crate) report: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
