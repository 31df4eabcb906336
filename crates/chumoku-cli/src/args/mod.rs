//! The command line.
//!
//! # Files
//!
//! - `bench`: `bench`
//! - `doctor`: `doctor`
//! - `numbers`: `check`, `trace`, `count`
//! - `pictures`: picture flags
//! - `serve`: `serve`
//! - `shard`: `--shard` and `join`
//! - `train`: `train`
//! - `values`: parsers of flag values
//! - `vectors`: `embed` and `nearest`

mod bench;
mod doctor;
mod numbers;
mod pictures;
mod serve;
mod shard;
mod train;
mod values;
mod vectors;

pub(crate) use bench::{BenchAttentionArgs, BenchClassifierArgs, BenchCommand, Dtype};
pub(crate) use doctor::DoctorArgs;
pub(crate) use numbers::{AttentionPart, CheckArgs, CountArgs, CountedNetwork, TraceArgs, TraceDepth, TraceFormat};
pub(crate) use pictures::{
    EncodingKind, ExplainArgs, ExplainView, FilmArgs, Method, PictureArgs, PositionArgs, PositionView,
};
pub(crate) use serve::{LogFormatArg, ServeArgs};
pub(crate) use shard::{JoinArgs, Shard};
pub(crate) use train::{Architecture, TaskName, TokenUnit, TrainArgs};
pub(crate) use values::LabelThreshold;
pub(crate) use vectors::{EmbedArgs, EmbeddingFormat, NearestArgs};

use crate::output::{NamedFiles, OutputKind, OutputPath};
use chumoku::data::{DataError, LabelOptions, StreamCopies};
use chumoku::row::FeatureRequest;
use chumoku::train::DataSource;
use clap::{Args as ClapArgs, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use shard::parse_shard;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use values::{
    parse_at_least_one, parse_column_value, parse_delimiter, parse_from_one, parse_from_zero, parse_integer,
    parse_label_threshold, parse_number, parse_target_share, parse_up_to_1024,
};

/// Train, use and question transformers on your own text, on any CPU.
#[derive(Debug, Parser)]
#[command(name = "chumoku", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Language of messages, pictures and pages (default: from the environment, for example LANG=ja_JP.UTF-8)
    #[arg(long, value_enum, global = true, value_name = "LANG", display_order = 1000)]
    pub(crate) lang: Option<Language>,
    /// The files that it names.
    #[arg(skip)]
    pub(crate) files: NamedFiles,
}

impl Cli {
    /// The command with its subcommands and flags.
    pub(crate) fn definition() -> clap::Command {
        allow_negative_values(Self::command())
    }

    /// A command line. What stands behind an option that takes a value is its value, a number below zero
    /// too, so that it is refused for what it is.
    pub(crate) fn parse_args(args: Vec<OsString>) -> Result<Self, clap::Error> {
        let mut command = Self::definition();
        let mut matches = command.try_get_matches_from_mut(args)?;
        let files = NamedFiles::from_matches(&command, &matches);
        let args = Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))?;
        Ok(Cli { files, ..args })
    }
}

fn allow_negative_values(command: clap::Command) -> clap::Command {
    let takes_value = |arg: &clap::Arg| !arg.is_positional() && arg.get_action().takes_values();
    let command = command.mut_args(|arg| if takes_value(&arg) { arg.allow_negative_numbers(true) } else { arg });
    command.mut_subcommands(allow_negative_values)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a classifier, translator or language model on a file (without one: on built-in reviews or dates)
    Train(TrainArgs),
    /// Score a model on a file: classes, translations or plain text
    Eval(EvalArgs),
    /// Predict the class of texts, or of every row of a file
    Predict(PredictArgs),
    /// Put together what runs of `predict --shard` wrote, rows in order
    Join(JoinArgs),
    /// Find wrong labels, duplicates and broken texts in a labelled file, and what to label next
    Doctor(DoctorArgs),
    /// Turn texts into vectors with a pretrained encoder
    Embed(EmbedArgs),
    /// Find the rows of a file that mean most nearly what a query does
    Nearest(NearestArgs),
    /// Translate texts, or every row of a file
    Translate(TranslateArgs),
    /// Continue a text
    Generate(GenerateArgs),
    /// Show why a text got its class, what makes it like another, or where a translation comes from: attention, and the
    /// effect of each word
    Explain(ExplainArgs),
    /// Serve models over HTTP, as text-embeddings-inference does
    Serve(ServeArgs),
    /// Write a classifier's network as an ONNX file, for other programs; its n-grams are left out
    Export(ExportArgs),
    /// Compute attention on the tensors of a file, as ONNX's operator Attention defines it
    Attend(AttendArgs),
    /// Show attention in numbers, step by step: of an example, a file, or a layer of a model
    Trace(TraceArgs),
    /// Check the numbers of worked examples of attention, and say where they first go wrong
    Check(CheckArgs),
    /// Show positional encoding: heatmap, curves, wavelengths and similarity of positions
    Position(PositionArgs),
    /// Show how the attention to one text changed in training (after `train --watch TEXT`)
    Film(FilmArgs),
    /// Count parameters, multiply-adds, bytes and memory of every step of a network
    Count(CountArgs),
    /// Train a transformer and recurrent networks of its size on the same data, and compare accuracy and speed
    Compare(CompareArgs),
    /// Measure how fast attention or the classifier is on this machine, on random data
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Show what a model folder holds, or processor, instruction set, threads and versions
    Info(InfoArgs),
}

impl Command {
    /// The kind of its outputs.
    pub(crate) fn outputs(&self) -> OutputKind {
        match self {
            Command::Train(_) => OutputKind::ModelFolder,
            Command::Doctor(_) => OutputKind::Folders,
            Command::Explain(args) if args.input.is_some() => OutputKind::Folders,
            _ => OutputKind::Files,
        }
    }
}

/// How exactly f32 numbers are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Precision {
    /// As exact as f32
    Highest,
    /// Two bf16 terms per number, or better
    High,
    /// One bf16 term per number, or better
    Medium,
}

impl From<Precision> for chumoku::Precision {
    fn from(precision: Precision) -> Self {
        match precision {
            Precision::Highest => chumoku::Precision::Highest,
            Precision::High => chumoku::Precision::High,
            Precision::Medium => chumoku::Precision::Medium,
        }
    }
}

/// How to read a file of text.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct ReadArgs {
    /// The column that holds the text: a name, a number from 1, or a path as message.body; two with a comma, as
    /// Subject,Description
    #[arg(id = "text_column", long = "text", value_name = "COL")]
    pub(crate) text: Option<String>,
    /// The column that holds the label: a name, a number from 1, or a path as meta.kind
    #[arg(long, value_name = "COL")]
    pub(crate) label: Option<String>,
    /// Take the first row as the names of the columns, or as data (default: as the rows look)
    #[arg(long, value_enum, value_name = "WHETHER")]
    pub(crate) header: Option<HeaderMode>,
    /// Values of the label that mean it is missing, as NaN,none; none keeps every value (default: NaN, NULL, N/A, NA, ? and the like)
    #[arg(long, value_name = "VALUES", value_delimiter = ',')]
    pub(crate) missing: Option<Vec<String>>,
    /// Count labels that differ only in letter case, width, white space or hyphens as one
    #[arg(long)]
    pub(crate) merge_labels: bool,
    /// The file's encoding if it is not UTF-8, e.g. cp932, shift_jis, euc-jp, utf-16, windows-1252
    #[arg(long, value_name = "NAME")]
    pub(crate) encoding: Option<String>,
    /// The format (default: recognised from name and content)
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<DataFormat>,
    /// Separator between the fields of a CSV file: one character, or tab
    #[arg(long, value_name = "CHAR", value_parser = parse_delimiter)]
    pub(crate) delimiter: Option<char>,
    /// The sheet of an Excel workbook (default: the first that holds a table)
    #[arg(long, value_name = "NAME")]
    pub(crate) sheet: Option<String>,
    /// Leave out rows that cannot be read or are empty, and count them
    #[arg(long)]
    pub(crate) skip_bad_rows: bool,
    /// What came through pipes.
    #[arg(skip)]
    pub(crate) pipe_buffer: StreamCopies,
    /// The columns beside the text that are read.
    #[arg(skip)]
    pub(crate) feature_columns: Vec<FeatureRequest>,
    /// How the training file of the model was read.
    #[arg(skip)]
    pub(crate) training_source: Option<DataSource>,
}

/// How the first row is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HeaderMode {
    /// As names of the columns
    Yes,
    /// As data
    No,
    /// As the rows below suggest
    Auto,
}

/// What stands beside texts, of a model that reads further columns.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct SetColumnArgs {
    /// For a model that reads further columns: the value of one, price=12, for the texts given or all rows of the file
    #[arg(long = "set", value_name = "COL=VALUE", value_parser = parse_column_value)]
    pub(crate) values: Vec<(String, String)>,
}

/// When a class is the answer.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct ThresholdArgs {
    /// Answer this class where it is at least so probable, and nowhere else: spam=0.8; with several labels a text, a number alone
    /// is for all
    #[arg(long, value_name = "[CLASS=]P", value_parser = parse_label_threshold)]
    pub(crate) threshold: Vec<LabelThreshold>,
    /// The same, from the probability on at which so large a share of the answers is right, by the validation rows: spam=0.95
    #[arg(long, value_name = "[CLASS=]SHARE", value_parser = parse_label_threshold)]
    pub(crate) precision_at_least: Vec<LabelThreshold>,
}

impl ThresholdArgs {
    /// Whether anything was said.
    pub(crate) fn is_given(&self) -> bool {
        !self.threshold.is_empty() || !self.precision_at_least.is_empty()
    }
}

/// How a file writes several labels of a text.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct MultiLabelArgs {
    /// Several labels a text: the columns that are a label each, 1 where it holds
    #[arg(long, value_name = "COLS", value_delimiter = ',', conflicts_with = "separator")]
    labels: Vec<String>,
    /// Several labels a text: what stands between them in the label column
    #[arg(long, value_name = "CHAR", value_parser = parse_delimiter)]
    separator: Option<char>,
}

impl MultiLabelArgs {
    /// As the library takes it.
    pub(crate) fn options(&self) -> LabelOptions {
        LabelOptions { columns: self.labels.clone(), separator: self.separator }
    }

    /// The same for a model whose training file may have written labels in a way of its own.
    pub(crate) fn options_or_remembered(&self, reading: &ReadArgs) -> LabelOptions {
        match reading.training_source.as_ref().filter(|_| !self.is_given() && reading.label.is_none()) {
            Some(source) => source.label_options(),
            None => self.options(),
        }
    }

    /// Whether anything was said.
    pub(crate) fn is_given(&self) -> bool {
        self.options() != LabelOptions::default()
    }
}

impl ReadArgs {
    /// Reads files as the training file of a model was read, where the flags say nothing else.
    pub(crate) fn use_training_source(&mut self, model: &Path) {
        self.training_source = DataSource::newest_of_model(model);
    }

    /// The first flag that is given.
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

    /// Makes data readable twice that comes through a pipe; `-` becomes the name of standard input.
    pub(crate) fn buffer_pipe(&mut self, data: &mut PathBuf) -> Result<(), DataError> {
        *data = self.pipe_buffer.capture(data)?;
        Ok(())
    }
}

/// The format of a data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataFormat {
    /// Fields separated by commas (or --delimiter), quoted where needed
    Csv,
    /// Fields separated by tabs
    Tsv,
    /// One JSON object per line
    Jsonl,
    /// One JSON array, an element a row
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
    /// A folder that `chumoku train` wrote
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// A labelled file; for a predictor of numbers, texts with numbers; for a translator pairs, as a.ja,a.en or a table; for
    /// a language model plain text; - for standard input
    #[arg(value_name = "DATA")]
    pub(crate) data: PathBuf,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
    #[command(flatten)]
    pub(crate) multi_label: MultiLabelArgs,
    #[command(flatten)]
    pub(crate) set: SetColumnArgs,
    /// How exact matrix products are (default: as the model was trained; of a published one highest, or high where its
    /// weights are stored in 16 bits)
    #[arg(long, value_enum)]
    pub(crate) precision: Option<Precision>,
    /// Threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
    #[command(flatten)]
    pub(crate) thresholds: ThresholdArgs,
    #[command(flatten)]
    pub(crate) pictures: PictureArgs,
    /// Write the rows that are answered wrongly to a CSV file, the surest answers first
    #[arg(long, value_name = "FILE")]
    pub(crate) errors: Option<OutputPath>,
    /// Print the scores as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PredictArgs {
    /// A folder that `chumoku train` wrote
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Texts; without texts or --input, standard input is read: lines or a table
    #[arg(value_name = "TEXT")]
    pub(crate) texts: Vec<String>,
    /// A file whose rows get a label and a probability, or a number with its interval; - for standard input; all its columns
    /// are kept
    #[arg(long, value_name = "FILE", conflicts_with = "texts")]
    pub(crate) input: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
    #[command(flatten)]
    pub(crate) set: SetColumnArgs,
    /// Stop at the first row that cannot be answered, instead of leaving its answer empty
    #[arg(long, conflicts_with = "skip_bad_rows")]
    pub(crate) strict: bool,
    /// Begin CSV and TSV output with a byte order mark, so that Excel recognises UTF-8
    #[arg(long, conflicts_with = "json")]
    pub(crate) bom: bool,
    /// Answer only where so large a share of the answers is right, by the validation rows, and the text is like those of
    /// training: 0.95 for 95 %
    #[arg(long, value_name = "SHARE", value_parser = parse_target_share, conflicts_with_all = ["top", "threshold", "precision_at_least"])]
    pub(crate) abstain: Option<f64>,
    #[command(flatten)]
    pub(crate) thresholds: ThresholdArgs,
    /// Give the N most probable classes
    #[arg(long, value_name = "N", value_parser = parse_at_least_one)]
    pub(crate) top: Option<usize>,
    /// Answer one of N parts of the rows, the I-th and every N-th behind it, for `chumoku join` to put together: 2/8
    #[arg(long, value_name = "I/N", value_parser = parse_shard, conflicts_with_all = ["texts", "html"])]
    pub(crate) shard: Option<Shard>,
    /// Of a model that marks spans: write the texts with their spans in colour as an HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<OutputPath>,
    /// Tell where the time went: stage by stage, and how much of it was multiplying
    #[arg(long)]
    pub(crate) profile: bool,
    /// How exact matrix products are (default: as the model was trained; of a published one highest, or high where its
    /// weights are stored in 16 bits)
    #[arg(long, value_enum)]
    pub(crate) precision: Option<Precision>,
    /// Threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TranslateArgs {
    /// A folder that `chumoku train --task translate` wrote, or a published translator (Marian)
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Texts; without texts or --input, standard input is read: lines or a table
    #[arg(value_name = "TEXT")]
    pub(crate) texts: Vec<String>,
    /// A file whose rows get a translation, - for standard input; all its columns are kept
    #[arg(long, value_name = "FILE", conflicts_with = "texts")]
    pub(crate) input: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
    /// Stop at the first row that cannot be translated, instead of leaving its translation empty
    #[arg(long, conflicts_with = "skip_bad_rows")]
    pub(crate) strict: bool,
    /// Begin CSV and TSV output with a byte order mark, so that Excel recognises UTF-8
    #[arg(long, conflicts_with = "json")]
    pub(crate) bom: bool,
    /// Hypotheses followed at a time; 1 takes the most probable token at each step
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = parse_at_least_one)]
    pub(crate) beam: usize,
    /// Exponent of the length normalisation; more favours longer translations
    #[arg(long, value_name = "X", default_value_t = 0.6, value_parser = parse_number)]
    pub(crate) length_penalty: f64,
    /// Print the N best translations of each text with their scores (N is at most --beam)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_at_least_one)]
    pub(crate) n_best: usize,
    /// With --json: where each token of the translation looks in the source, for every layer and head
    #[arg(long, requires = "json")]
    pub(crate) alignment: bool,
    /// How exact matrix products are (default: as the model was trained; of a published one highest, or high where its
    /// weights are stored in 16 bits)
    #[arg(long, value_enum)]
    pub(crate) precision: Option<Precision>,
    /// Threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct GenerateArgs {
    /// A folder that `chumoku train --task lm` wrote, or a published language model (Llama, Mistral, Qwen, GPT-2)
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// What the text begins with (without it: the beginning of a document); for a model with a chat template, what it is
    /// told
    #[arg(value_name = "PROMPT", default_value = "")]
    pub(crate) prompt: String,
    /// Maximum number of tokens to write; the text ends earlier at the end of a document
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = parse_at_least_one)]
    pub(crate) max_tokens: usize,
    /// Randomness: 1 draws from the model's probabilities, lower values prefer likely tokens, 0 takes the most likely
    #[arg(long, value_name = "T", default_value_t = 0.8, value_parser = parse_number)]
    pub(crate) temperature: f64,
    /// Draw from the K most likely tokens only; 0 for all
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = parse_from_zero::<usize>)]
    pub(crate) top_k: usize,
    /// Draw only from the most likely tokens that together reach probability P
    #[arg(long, value_name = "P", default_value_t = 1.0, value_parser = parse_number)]
    pub(crate) top_p: f64,
    /// Decides what is drawn: the same seed gives the same text
    #[arg(long, value_name = "N", default_value_t = 42, value_parser = parse_from_zero::<u64>)]
    pub(crate) seed: u64,
    /// Threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
    /// Continue the prompt as it is, though the model has a chat template
    #[arg(long, conflicts_with = "system")]
    pub(crate) no_chat: bool,
    /// Tell a model with a chat template first what it is to be like
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// How exact matrix products are (default: as the model was trained; of a published one highest, or high where its
    /// weights are stored in 16 bits)
    #[arg(long, value_enum)]
    pub(crate) precision: Option<Precision>,
    /// Print the text as one JSON object when it is complete
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct CompareArgs {
    /// A labelled file (without one: the built-in reviews)
    #[arg(value_name = "DATA")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
    /// Maximum number of passes over the data, for each model (default: chosen from the size of the data)
    #[arg(long, value_name = "N", value_parser = parse_from_one::<u64>)]
    pub(crate) epochs: Option<u64>,
    /// Decides initial weights, order and dropout
    #[arg(long, value_name = "N", default_value_t = 42, value_parser = parse_from_zero::<u64>)]
    pub(crate) seed: u64,
    /// Threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
    /// How exact matrix products are
    #[arg(long, value_enum, default_value = "medium")]
    pub(crate) precision: Precision,
    /// Write a picture of time against length
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<OutputPath>,
    /// Print one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags are named after the operator's attributes, and override those in the file.
#[derive(Debug, ClapArgs)]
pub(crate) struct AttendArgs {
    /// A .safetensors or .npz file with Q, K, V, and maybe attn_mask, past_key, past_value, nonpad_kv_seqlen (or in.Q, …)
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// Write Y (and present_key, present_value, qk_matmul_output if computed) to a .safetensors or .npz file
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<OutputPath>,
    /// A query sees the keys up to its own place only
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = clap::builder::BoolishValueParser::new())]
    pub(crate) is_causal: Option<bool>,
    /// Factor on Q·Kᵀ (default: 1/√dim)
    #[arg(long, value_name = "X", value_parser = parse_number)]
    pub(crate) scale: Option<f64>,
    /// Scores s become X·tanh(s/X) before masks are added; 0 for none
    #[arg(long, value_name = "X", value_parser = parse_number)]
    pub(crate) softcap: Option<f64>,
    /// Query heads, where Q has three axes (batch, length, heads · dim)
    #[arg(long, value_name = "N", value_parser = parse_integer)]
    pub(crate) q_num_heads: Option<i64>,
    /// Heads of K and V, where they have three axes
    #[arg(long, value_name = "N", value_parser = parse_integer)]
    pub(crate) kv_num_heads: Option<i64>,
    /// Also write qk_matmul_output: 0 scaled products, 1 after softcap, 2 after masks, 3 weights
    #[arg(long, value_name = "0..3", value_parser = parse_integer)]
    pub(crate) qk_matmul_output_mode: Option<i64>,
    /// Keys that a query sees before its own place; -1 for all
    #[arg(long, value_name = "N", value_parser = parse_integer)]
    pub(crate) left_window_size: Option<i64>,
    /// Keys that a query sees after its own place; -1 for all
    #[arg(long, value_name = "N", value_parser = parse_integer)]
    pub(crate) right_window_size: Option<i64>,
    /// Compute softmax at least in this type: 1 f32, 10 f16, 11 f64, 16 bf16
    #[arg(long, value_name = "N", value_parser = parse_integer)]
    pub(crate) softmax_precision: Option<i64>,
    /// Threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
}

/// The language in which people are spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    /// English
    En,
    /// Japanese
    Ja,
}

impl From<Language> for chumoku::Lang {
    fn from(lang: Language) -> chumoku::Lang {
        match lang {
            Language::En => chumoku::Lang::En,
            Language::Ja => chumoku::Lang::Ja,
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ExportArgs {
    /// The folder of a classifier: one that `chumoku train` wrote, or a published one
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// The file
    #[arg(short, long, value_name = "FILE", default_value = "model.onnx")]
    pub(crate) out: OutputPath,
    /// Print what was written, and its metadata, as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct InfoArgs {
    /// The model folder; without it, about this machine
    #[arg(value_name = "MODEL")]
    pub(crate) model: Option<PathBuf>,
    /// Print the whole report of the training: every class, the confusion matrix, calibration, all of --abstain
    #[arg(long, requires = "model", conflicts_with = "json")]
    pub(crate) report: bool,
    /// Print as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
