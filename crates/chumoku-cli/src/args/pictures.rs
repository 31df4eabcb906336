//! The flags of what is shown in pictures.

use super::values::{parse_at_least_one, parse_number, parse_up_to_1024, value_or_nothing};
use super::{MultiLabelArgs, Precision, ReadArgs, SetColumnArgs};
use crate::UsageError;
use crate::output::{OutputPath, file_or_standard_output};
use chumoku::explain::SpanQuery;
use chumoku_view::HeadOrder;
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

/// Files for a picture.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct PictureArgs {
    /// Write the picture as SVG, its letters as outlines
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<OutputPath>,
    /// Write the picture as PNG
    #[arg(long, value_name = "FILE")]
    pub(crate) png: Option<OutputPath>,
    /// Write the picture as PDF, its letters as outlines
    #[arg(long, value_name = "FILE")]
    pub(crate) pdf: Option<OutputPath>,
    /// The font of pictures, a file (default: the best installed one that has Japanese)
    #[arg(long, value_name = "FILE")]
    pub(crate) font: Option<PathBuf>,
}

/// What is shown of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainView {
    /// Words by words, of one head
    Heatmap,
    /// Lines between words, from --threshold on
    Lines,
    /// All heads, small, by --sort
    Grid,
    /// How the score of --query and --key is computed
    Depth,
    /// Derived: weights times the lengths of the value vectors
    Values,
    /// Derived: attention multiplied through the layers, up to --layer
    Rollout,
    /// The text, all of a long one, in colours of what each word does to the answer
    Effects,
    /// Of a classifier with a network: its probability while words are cut out, and put in, the strongest first
    Curves,
}

impl ExplainView {
    /// Whether it is of attention.
    pub(crate) fn shows_attention(self) -> bool {
        !matches!(self, ExplainView::Effects | ExplainView::Curves)
    }
}

/// How the effect of words is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// The text is read anew without each word
    #[default]
    LeaveOneOut,
    /// Gradients of a classifier's network, added up from the mean embedding to the text
    IntegratedGradients,
}

impl From<Method> for chumoku::explain::AttributionMethod {
    fn from(method: Method) -> Self {
        match method {
            Method::LeaveOneOut => chumoku::explain::AttributionMethod::LeaveOneOut,
            Method::IntegratedGradients => chumoku::explain::AttributionMethod::IntegratedGradients,
        }
    }
}

fn parse_head(text: &str) -> Result<[usize; 2], String> {
    let parts: Vec<Option<usize>> = text.split('.').map(|part| part.parse().ok().filter(|&n| n > 0)).collect();
    match parts[..] {
        [Some(layer), Some(head)] => Ok([layer - 1, head - 1]),
        _ => Err(chumoku::tr!(
            "expected a layer and a head with a point between them, from 1, as 2.1",
            "層とヘッドを 2.1 のように点でつないで（1 から）指定してください"
        )),
    }
}

fn parse_span(text: &str) -> Result<SpanQuery, String> {
    let mut parts = text.splitn(3, ':');
    let [start, end] = [(); 2].map(|()| parts.next().and_then(|part| part.parse::<usize>().ok()));
    let label = parts.next().map(str::to_owned);
    match (start, end) {
        (Some(start), Some(end)) if label.as_deref() != Some("") => Ok(SpanQuery { start, end, label }),
        _ => Err(chumoku::tr!(
            "expected the first character, from 0, and the one behind the last, as 0:4 or 0:4:person",
            "最初の文字（0 から）と最後の次の文字を、0:4 や 0:4:person のように指定してください"
        )),
    }
}

fn parse_head_order(text: &str) -> Result<HeadOrder, String> {
    let names = HeadOrder::ALL.map(|(name, _)| name);
    let found = HeadOrder::ALL.into_iter().find(|(name, _)| *name == text);
    found.map(|(_, order)| order).ok_or_else(|| chumoku::tr!("expected one of {}", "使える値: {}", names.join(", ")))
}

fn parse_share(text: &str) -> Result<f32, String> {
    let share = text.parse::<f32>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| {
        chumoku::tr!(
            "expected a number from 0 to 1, found {}",
            "0 から 1 までの数が必要ですが、{} です",
            value_or_nothing(text)
        )
    })
}

/// What shows a difference.
const COMPARE_ARGS: [&str; 3] = ["compare_text", "compare_head", "compare_model"];

/// What is of one text.
const NOT_WITH_INPUT: [&str; 8] =
    ["text", "target", "html", "without", "compare_text", "compare_head", "compare_model", "span"];

/// What is of one explanation.
const NOT_WITH_FAITHFULNESS: [&str; 22] = [
    "span",
    "of_label",
    "text",
    "input",
    "target",
    "method",
    "layer",
    "head",
    "view",
    "sort",
    "threshold",
    "query",
    "key",
    "without",
    "compare_text",
    "compare_head",
    "compare_model",
    "html",
    "svg",
    "png",
    "pdf",
    "font",
];

/// What is of one text, and not of the errors in a file.
const NOT_WITH_ERRORS: [&str; 21] = [
    "span",
    "of_label",
    "text",
    "input",
    "faithfulness",
    "target",
    "layer",
    "head",
    "view",
    "sort",
    "threshold",
    "query",
    "key",
    "without",
    "compare_text",
    "compare_head",
    "compare_model",
    "svg",
    "png",
    "pdf",
    "font",
];

/// How the errors in a file are found and shown.
#[derive(Debug, ClapArgs)]
pub(crate) struct ErrorArgs {
    /// For --errors: how many wrong answers are explained (default: 20)
    #[arg(long, value_name = "N", requires = "errors", value_parser = parse_at_least_one)]
    top: Option<usize>,
    /// How several labels a text are written, for --errors.
    #[command(flatten)]
    pub(crate) multi_label: MultiLabelArgs,
}

impl ErrorArgs {
    /// The first that is given.
    fn first_flag(&self) -> Option<&'static str> {
        let flags = [
            ("--top", self.top.is_some()),
            ("--labels", !self.multi_label.labels.is_empty()),
            ("--separator", self.multi_label.separator.is_some()),
        ];
        flags.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
    }

    /// How many errors are explained.
    pub(crate) fn top(&self) -> usize {
        self.top.unwrap_or(20)
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ExplainArgs {
    /// A folder that `chumoku train` wrote, or a pretrained one
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// The text
    #[arg(value_name = "TEXT", required_unless_present_any = ["input", "faithfulness", "errors"])]
    pub(crate) text: Option<String>,
    /// Draw a picture for each line of a file, into the folders that --svg, --png and --pdf name; with --json -, print what
    /// each word does for every row of a file, an object a line
    #[arg(long, value_name = "FILE", conflicts_with_all = NOT_WITH_INPUT)]
    pub(crate) input: Option<PathBuf>,
    /// Explain a sample of at most 100 rows of a file by every method, and tell which methods the answers of a classifier bear out,
    /// and whether attention does
    #[arg(long, value_name = "FILE", conflicts_with_all = NOT_WITH_FAITHFULNESS)]
    pub(crate) faithfulness: Option<PathBuf>,
    /// For --faithfulness: the seed of the sample (default: 1)
    #[arg(long, value_name = "N", requires = "faithfulness")]
    pub(crate) seed: Option<u64>,
    /// Show the surest wrong answers of a predictor of classes, labels or numbers on the labelled rows of a file, grouped by the words
    /// that caused them
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = NOT_WITH_ERRORS)]
    pub(crate) errors: Option<Option<PathBuf>>,
    #[command(flatten)]
    pub(crate) error_args: ErrorArgs,
    /// How the file of --input, --faithfulness or --errors is read.
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
    /// For a translator: the translation to explain (default: its own); for an encoder: a text to compare with; for a model
    /// of two texts: the second
    #[arg(long, value_name = "TEXT")]
    pub(crate) target: Option<String>,
    /// For a tagger: the span to explain, marked or not, in characters from 0, such as 0:4 or 0:4:person (default: all that are
    /// marked)
    #[arg(long, value_name = "START:END[:LABEL]", value_parser = parse_span)]
    pub(crate) span: Option<SpanQuery>,
    /// For a model that gives a text any number of labels: the label to explain (default: the most probable)
    #[arg(long, value_name = "LABEL")]
    pub(crate) of_label: Option<String>,
    #[command(flatten)]
    pub(crate) set: SetColumnArgs,
    /// How the effect of words is found
    #[arg(long, value_enum, default_value_t)]
    pub(crate) method: Method,
    /// The layer to show, from 1 (default: the last; of a translator the one that aligns best)
    #[arg(long, value_name = "N", value_parser = parse_at_least_one)]
    pub(crate) layer: Option<usize>,
    /// The head to show, from 1 (default: the first; of a translator the one that aligns best)
    #[arg(long, value_name = "N", value_parser = parse_at_least_one)]
    pub(crate) head: Option<usize>,
    /// What the picture shows (the page has all of these)
    #[arg(long, value_enum)]
    pub(crate) view: Option<ExplainView>,
    /// For the view grid: the order of the heads: place, role, entropy, distance, previous, first, strongest, sink, effect
    #[arg(long, value_name = "ORDER", value_parser = parse_head_order)]
    pub(crate) sort: Option<HeadOrder>,
    /// For the view lines: the smallest share that has a line (default: 0.1)
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub(crate) threshold: Option<f32>,
    /// For the view depth: the token that looks, from 1 (default: the last)
    #[arg(long, value_name = "N", value_parser = parse_at_least_one)]
    pub(crate) query: Option<usize>,
    /// For the view depth: the token that is looked at, from 1 (default: the one with the largest weight)
    #[arg(long, value_name = "N", value_parser = parse_at_least_one)]
    pub(crate) key: Option<usize>,
    /// Switch heads off (layer.head, such as 2.1 or 2.1,3.4) and show the resulting prediction
    #[arg(long, value_name = "HEADS", value_delimiter = ',', value_parser = parse_head, conflicts_with_all = COMPARE_ARGS)]
    pub(crate) without: Vec<[usize; 2]>,
    /// Show the difference from the attention to another text
    #[arg(long, value_name = "TEXT")]
    pub(crate) compare_text: Option<String>,
    /// Show the difference from another head (layer.head, such as 2.1)
    #[arg(long, value_name = "HEAD", value_parser = parse_head)]
    pub(crate) compare_head: Option<[usize; 2]>,
    /// Show the difference from another model, for example of the same data
    #[arg(long, value_name = "MODEL")]
    pub(crate) compare_model: Option<PathBuf>,
    /// Write a page with every layer and head, which opens without a network
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<OutputPath>,
    #[command(flatten)]
    pub(crate) pictures: PictureArgs,
    /// Write all numbers as JSON (- for standard output)
    #[arg(long, value_name = "FILE", value_parser = file_or_standard_output())]
    pub(crate) json: Option<OutputPath>,
    /// How exact matrix products are (default: as the model was trained; of a published one highest, or high where its
    /// weights are stored in 16 bits)
    #[arg(long, value_enum)]
    pub(crate) precision: Option<Precision>,
    /// Threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
}

impl ExplainArgs {
    /// The smallest share that has a line.
    pub(crate) fn threshold(&self) -> f32 {
        self.threshold.unwrap_or(0.1)
    }

    /// Whether each flag is of what is shown.
    pub(crate) fn check(&self) -> Result<(), UsageError> {
        // The parser does not ask for a flag that another one, which is there, excludes.
        if let (None, Some(flag)) = (&self.errors, self.error_args.first_flag()) {
            return Err(UsageError(chumoku::tr!(
                "{flag} is for --errors; add that, or leave {flag} out",
                "{flag} は --errors とともに使います。--errors を付けるか、{flag} を外してください"
            )));
        }
        let has_file = self.input.is_some() || self.faithfulness.is_some() || self.errors.is_some();
        if let Some(flag) = self.reading.first_flag().filter(|_| !has_file) {
            return Err(UsageError(chumoku::tr!(
                "{flag} is for the file of --input, --faithfulness or --errors; add one of them, or leave {flag} out",
                "{flag} は --input、--faithfulness、--errors のファイルのためのものです。どれかを付けるか、{flag} を外してください"
            )));
        }
        let flags = [
            ("--sort", self.sort.is_some(), ExplainView::Grid, "grid"),
            ("--threshold", self.threshold.is_some(), ExplainView::Lines, "lines"),
            ("--query", self.query.is_some(), ExplainView::Depth, "depth"),
            ("--key", self.key.is_some(), ExplainView::Depth, "depth"),
        ];
        match flags.into_iter().find(|&(_, is_given, view, _)| is_given && self.view != Some(view)) {
            Some((flag, _, _, view)) => Err(UsageError(chumoku::tr!(
                "{flag} is for --view {view}; add that, or leave {flag} out",
                "{flag} は --view {view} とともに使います。--view {view} を付けるか、{flag} を外してください"
            ))),
            None => Ok(()),
        }
    }

    /// Whether a difference is asked for.
    pub(crate) fn compares(&self) -> bool {
        self.compare_text.is_some() || self.compare_head.is_some() || self.compare_model.is_some()
    }
}

/// What is shown of positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PositionView {
    /// Positions by dimensions
    Heatmap,
    /// Some dimensions along the positions
    Curves,
    /// The wavelength of each dimension
    Wavelengths,
    /// How alike positions are
    Similarity,
}

/// A positional encoding that needs no model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EncodingKind {
    /// Sines and cosines that are added to the embeddings
    Sinusoidal,
    /// Angles by which queries and keys are turned
    Rotary,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PositionArgs {
    /// The encoding
    #[arg(long, value_enum, default_value = "sinusoidal")]
    pub(crate) kind: EncodingKind,
    /// That of a model instead, trained or fixed: a folder that `chumoku train` wrote
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kind", "d_model", "base"])]
    pub(crate) model: Option<PathBuf>,
    /// Positions
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = parse_at_least_one)]
    pub(crate) length: usize,
    /// Dimensions; of rotary positions those of a head
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = parse_at_least_one)]
    pub(crate) d_model: usize,
    /// The base of rotary wavelengths (default: 10000)
    #[arg(long, value_name = "X", value_parser = parse_number)]
    pub(crate) base: Option<f64>,
    /// What the picture shows (the page has all of these)
    #[arg(long, value_enum, default_value = "heatmap")]
    pub(crate) view: PositionView,
    /// Write a page with every view, which opens without a network
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<OutputPath>,
    #[command(flatten)]
    pub(crate) pictures: PictureArgs,
    /// Write the numbers of the picture as JSON (- for standard output)
    #[arg(long, value_name = "FILE", value_parser = file_or_standard_output())]
    pub(crate) json: Option<OutputPath>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct FilmArgs {
    /// A folder that `chumoku train --watch TEXT` wrote
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// The layer to show, from 1 (default: the last)
    #[arg(long, value_name = "N", value_parser = parse_at_least_one)]
    pub(crate) layer: Option<usize>,
    /// The head to show, from 1 (default: the one that changed most)
    #[arg(long, value_name = "N", value_parser = parse_at_least_one)]
    pub(crate) head: Option<usize>,
    /// Write a page with the film of every head of the layer, which opens without a network
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<OutputPath>,
    #[command(flatten)]
    pub(crate) pictures: PictureArgs,
    /// Write the numbers as JSON (- for standard output)
    #[arg(long, value_name = "FILE", value_parser = file_or_standard_output())]
    pub(crate) json: Option<OutputPath>,
}
