//! Flags of commands that draw pictures.

use super::values::{parse_at_least_one, parse_number, parse_up_to_1024, value_or_nothing};
use super::{MultiLabelArgs, Precision, ReadArgs, SetColumnArgs};
use crate::UsageError;
use crate::output::{OutputPath, file_or_standard_output};
use chumoku::explain::{SpanQuery, parse_aligned_tokens};
use chumoku_view::HeadOrder;
use clap::{Args as ClapArgs, ValueEnum};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Output files of a picture.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct PictureArgs {
    /// Write the picture as SVG, with text as outlines
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<OutputPath>,
    /// Write the picture as PNG
    #[arg(long, value_name = "FILE")]
    pub(crate) png: Option<OutputPath>,
    /// Write the picture as PDF, with text as outlines
    #[arg(long, value_name = "FILE")]
    pub(crate) pdf: Option<OutputPath>,
    /// Font file for pictures (default: the best installed font that has Japanese)
    #[arg(long, value_name = "FILE")]
    pub(crate) font: Option<PathBuf>,
}

/// The views of `chumoku explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainView {
    /// Attention weights of one head, words by words
    Heatmap,
    /// Lines between words with at least --threshold attention
    Lines,
    /// All heads as small heatmaps, in the order of --sort
    Grid,
    /// How the score of --query and --key is computed
    Depth,
    /// Derived: attention weights times the norms of the value vectors
    Values,
    /// Derived: attention rollout through the layers, up to --layer
    Rollout,
    /// The whole text, colored by the effect of each word on the answer
    Effects,
    /// Deletion and insertion curves of a classifier with a network: its probability while words are removed and added,
    /// strongest first
    Curves,
}

impl ExplainView {
    /// Returns true if the view shows attention.
    pub(crate) fn shows_attention(self) -> bool {
        !matches!(self, ExplainView::Effects | ExplainView::Curves)
    }
}

/// How the effect of words is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// Read the text again without each word
    #[default]
    LeaveOneOut,
    /// Integrated gradients of a classifier's network, from the mean embedding to the text
    IntegratedGradients,
}

same_values!(Method, chumoku::explain::AttributionMethod: LeaveOneOut, IntegratedGradients);

fn parse_head(text: &str) -> Result<[usize; 2], String> {
    let parts: Vec<Option<usize>> = text.split('.').map(|part| part.parse().ok().filter(|&n| n > 0)).collect();
    match parts[..] {
        [Some(layer), Some(head)] => Ok([layer - 1, head - 1]),
        _ => Err(chumoku::tr!(
            "expected layer.head, counted from 1, such as 2.1",
            "層とヘッドを 2.1 のように点でつないで（1 から）指定してください"
        )),
    }
}

fn parse_dimensions(text: &str) -> Result<RangeInclusive<usize>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let both = first.parse::<usize>().ok().zip(last.parse::<usize>().ok());
    both.filter(|(first, last)| first <= last && *last < 1 << 20).map(|(first, last)| first..=last).ok_or_else(|| {
        chumoku::tr!(
            "expected a dimension, from 0, or a range, such as 0-3, found {}",
            "次元の番号（0 から）か、0-3 のような範囲を指定してください: {}",
            value_or_nothing(text)
        )
    })
}

/// Pairs of aligned tokens of two texts, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AlignedTokens(Vec<[usize; 2]>);

fn parse_aligned(text: &str) -> Result<AlignedTokens, String> {
    parse_aligned_tokens(text).map(AlignedTokens)
}

impl ExplainArgs {
    /// Returns the pairs of `--align`, or `None` without them.
    pub(crate) fn aligned_tokens(&self) -> Option<Vec<[usize; 2]>> {
        let pairs: Vec<[usize; 2]> = self.align.iter().flat_map(|AlignedTokens(pairs)| pairs).copied().collect();
        (!pairs.is_empty()).then_some(pairs)
    }
}

fn parse_span(text: &str) -> Result<SpanQuery, String> {
    let mut parts = text.splitn(3, ':');
    let [start, end] = [(); 2].map(|()| parts.next().and_then(|part| part.parse::<usize>().ok()));
    let label = parts.next().map(str::to_owned);
    match (start, end) {
        (Some(start), Some(end)) if label.as_deref() != Some("") => Ok(SpanQuery { start, end, label }),
        _ => Err(chumoku::tr!(
            "expected the start and end of the span in characters, such as 0:4 or 0:4:person",
            "スパンの開始位置と終了位置（文字数、0 から）を、0:4 や 0:4:person のように指定してください"
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

/// Flags that show a difference.
const COMPARE_ARGS: [&str; 3] = ["compare_text", "compare_head", "compare_model"];

/// Flags for a single text, which exclude `--input`.
const NOT_WITH_INPUT: [&str; 12] = [
    "text",
    "target",
    "html",
    "without",
    "compare_text",
    "compare_head",
    "compare_model",
    "span",
    "patch",
    "align",
    "lens",
    "generate",
];

/// Flags for a single explanation, which exclude `--faithfulness`.
const NOT_WITH_FAITHFULNESS: [&str; 26] = [
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
    "patch",
    "align",
    "lens",
    "generate",
    "html",
    "svg",
    "png",
    "pdf",
    "font",
];

/// Flags for a single text, which exclude `--errors`.
const NOT_WITH_ERRORS: [&str; 25] = [
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
    "patch",
    "align",
    "lens",
    "generate",
    "svg",
    "png",
    "pdf",
    "font",
];

/// Flags of `--errors`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ErrorArgs {
    /// With --errors, number of wrong answers to explain (default: 20)
    #[arg(long, value_name = "N", requires = "errors", value_parser = parse_at_least_one)]
    top: Option<usize>,
    /// Label options of the file of `--errors`.
    #[command(flatten)]
    pub(crate) multi_label: MultiLabelArgs,
}

impl ErrorArgs {
    /// Returns the first flag that was given.
    fn first_flag(&self) -> Option<&'static str> {
        let flags = [
            ("--top", self.top.is_some()),
            ("--labels", !self.multi_label.labels.is_empty()),
            ("--separator", self.multi_label.separator.is_some()),
        ];
        flags.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
    }

    /// Returns the number of errors to explain.
    pub(crate) fn top(&self) -> usize {
        self.top.unwrap_or(20)
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ExplainArgs {
    /// Model folder written by `chumoku train`, or a pretrained model
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Text to explain
    #[arg(value_name = "TEXT", required_unless_present_any = ["input", "faithfulness", "errors"])]
    pub(crate) text: Option<String>,
    /// File of texts to explain: a picture for each line, or with --json - a JSON object for each row
    ///
    /// Pictures go to the folders of --svg, --png and --pdf. The JSON objects hold the effect of each word.
    #[arg(long, value_name = "FILE", conflicts_with_all = NOT_WITH_INPUT)]
    pub(crate) input: Option<PathBuf>,
    /// Compare explanation methods on a sample of a file
    ///
    /// Explains at most 100 rows with every method, and reports which methods, and whether attention, agree with the
    /// classifier's answers.
    #[arg(long, value_name = "FILE", conflicts_with_all = NOT_WITH_FAITHFULNESS)]
    pub(crate) faithfulness: Option<PathBuf>,
    /// With --faithfulness, random seed of the sample (default: 1)
    #[arg(long, value_name = "N", requires = "faithfulness")]
    pub(crate) seed: Option<u64>,
    /// Show the most confident wrong answers on a labeled file, grouped by the words that caused them
    ///
    /// For models that predict classes, labels or numbers.
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = NOT_WITH_ERRORS)]
    pub(crate) errors: Option<Option<PathBuf>>,
    #[command(flatten)]
    pub(crate) error_args: ErrorArgs,
    /// How the file of `--input`, `--faithfulness` or `--errors` is read.
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
    /// Second text: a translation to explain, a text to compare with, or the second text of a pair
    ///
    /// For a translator, the translation (default: its own). For an encoder, the text to compare with. For a model of
    /// text pairs, the second text.
    #[arg(long, value_name = "TEXT")]
    pub(crate) target: Option<String>,
    /// Span to explain, for taggers, such as 0:4 or 0:4:person (default: all marked spans)
    ///
    /// Positions count characters from 0. The model need not have marked the span.
    #[arg(long, value_name = "START:END[:LABEL]", value_parser = parse_span)]
    pub(crate) span: Option<SpanQuery>,
    /// Label to explain, for multi-label models (default: the most probable)
    #[arg(long, value_name = "LABEL")]
    pub(crate) of_label: Option<String>,
    #[command(flatten)]
    pub(crate) set: SetColumnArgs,
    /// How the effect of words is measured
    #[arg(long, value_enum, default_value_t)]
    pub(crate) method: Method,
    /// Layer to show, from 1 (default: the last, or on a page that of the most important head; for a translator, the one that aligns best)
    #[arg(long, value_name = "N", value_parser = parse_at_least_one)]
    pub(crate) layer: Option<usize>,
    /// Head to show, from 1 (default: the first, or on a page the most important one; for a translator, the one that aligns best)
    #[arg(long, value_name = "N", value_parser = parse_at_least_one)]
    pub(crate) head: Option<usize>,
    /// View to draw (the HTML page has all of them)
    #[arg(long, value_enum)]
    pub(crate) view: Option<ExplainView>,
    /// Order of heads for --view grid: place, role, entropy, distance, previous, first, strongest, sink, effect
    #[arg(long, value_name = "ORDER", value_parser = parse_head_order)]
    pub(crate) sort: Option<HeadOrder>,
    /// Smallest attention weight that gets a line, for --view lines (default: 0.1)
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub(crate) threshold: Option<f32>,
    /// Query token for --view depth, from 1 (default: the last)
    #[arg(long, value_name = "N", value_parser = parse_at_least_one)]
    pub(crate) query: Option<usize>,
    /// Key token for --view depth, from 1 (default: the one with the largest weight)
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
    /// Show the difference from another model, for example one trained on the same data
    #[arg(long, value_name = "MODEL")]
    pub(crate) compare_model: Option<PathBuf>,
    /// Replace what the network computes for the text by what it computes for another, place by place (patching)
    ///
    /// For classifiers, taggers, language models and translators with a transformer. Each number says how far the answer
    /// moves: 0 leaves it as it is, 1 gives the answer to the other text. For a tagger, the answer is the tag of one word:
    /// the first whose tag differs, or the one that --span names. For a translator, it is the first token that differs;
    /// encoder and decoder are patched.
    #[arg(long, value_name = "TEXT", conflicts_with_all = COMPARE_ARGS)]
    pub(crate) patch: Option<String>,
    /// With --patch, the tokens of both texts that are aligned, from 1, such as 1-4:1-4,6:7
    ///
    /// Texts with the same number of tokens are aligned by position.
    #[arg(long, value_name = "TOKENS", requires = "patch", value_delimiter = ',', value_parser = parse_aligned)]
    pub(crate) align: Vec<AlignedTokens>,
    /// With a language model, let it write up to N tokens first, and show the attention of each of them too
    #[arg(long, value_name = "N", value_parser = parse_at_least_one, conflicts_with_all = COMPARE_ARGS)]
    pub(crate) generate: Option<usize>,
    /// Show the answer that the model's own head reads after every layer (logit lens)
    #[arg(long)]
    pub(crate) lens: bool,
    /// Write a self-contained HTML page with every layer and head
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<OutputPath>,
    #[command(flatten)]
    pub(crate) pictures: PictureArgs,
    /// Write all numbers as JSON (- for standard output)
    #[arg(long, value_name = "FILE", value_parser = file_or_standard_output())]
    pub(crate) json: Option<OutputPath>,
    /// Precision of matrix products (default: that of training; for published models highest, or high if their weights
    /// are 16-bit)
    #[arg(long, value_enum)]
    pub(crate) precision: Option<Precision>,
    /// Number of threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
}

impl ExplainArgs {
    /// Returns the smallest attention weight that gets a line.
    pub(crate) fn threshold(&self) -> f32 {
        self.threshold.unwrap_or(0.1)
    }

    /// Checks that every flag has an effect on the requested output.
    pub(crate) fn check(&self) -> Result<(), UsageError> {
        // The parser skips the `requires` of a flag when another given flag conflicts with the required one.
        if let (None, Some(flag)) = (&self.errors, self.error_args.first_flag()) {
            refuse!(
                "{flag} is for --errors; add that, or leave {flag} out",
                "{flag} は --errors とともに使います。--errors を付けるか、{flag} を外してください"
            );
        }
        let has_file = self.input.is_some() || self.faithfulness.is_some() || self.errors.is_some();
        if let Some(flag) = self.reading.first_flag().filter(|_| !has_file) {
            refuse!(
                "{flag} is for the file of --input, --faithfulness or --errors; add one of them, or leave {flag} out",
                "{flag} は --input、--faithfulness、--errors のファイルのためのものです。どれかを付けるか、{flag} を外してください"
            );
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

    /// Returns true if the logit lens is shown: by `--lens`, in the JSON, or on the page.
    pub(crate) fn needs_lens(&self) -> bool {
        self.lens || self.json.is_some() || self.html.is_some()
    }

    /// Returns true if the user chose a layer or a head.
    pub(crate) fn names_head(&self) -> bool {
        self.layer.is_some() || self.head.is_some()
    }

    /// Returns true if a difference was requested.
    pub(crate) fn compares(&self) -> bool {
        self.compare_text.is_some() || self.compare_head.is_some() || self.compare_model.is_some()
    }
}

/// The views of `chumoku position`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PositionView {
    /// Positions by dimensions
    Heatmap,
    /// Some dimensions along the positions
    Curves,
    /// Wavelength of each dimension
    Wavelengths,
    /// Similarity of positions
    Similarity,
}

/// A positional encoding that needs no model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EncodingKind {
    /// Sines and cosines that are added to the embeddings
    Sinusoidal,
    /// Angles by which queries and keys are rotated
    Rotary,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PositionArgs {
    /// Positional encoding to show
    #[arg(long, value_enum, default_value = "sinusoidal")]
    pub(crate) kind: EncodingKind,
    /// Show the encoding of a model, learned or fixed: a folder written by `chumoku train`
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kind", "d_model", "base"])]
    pub(crate) model: Option<PathBuf>,
    /// Number of positions
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = parse_at_least_one)]
    pub(crate) length: usize,
    /// Number of dimensions; for rotary positions, those of a head
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = parse_at_least_one)]
    pub(crate) d_model: usize,
    /// Base of rotary wavelengths (default: 10000)
    #[arg(long, value_name = "X", value_parser = parse_number)]
    pub(crate) base: Option<f64>,
    /// Dimensions of the heatmap and the curves, from 0, such as 0-3,10,20 (default: all; for curves, five)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_dimensions)]
    pub(crate) dimensions: Vec<RangeInclusive<usize>>,
    /// View to draw (the HTML page has all of them)
    #[arg(long, value_enum, default_value = "heatmap")]
    pub(crate) view: PositionView,
    /// Write a self-contained HTML page with every view
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
    /// Model folder written by `chumoku train`; to show attention, it must be trained with --watch TEXT
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// With --curves, more autoencoders: shows how well each reconstructs texts, by the width of its bottleneck
    #[arg(value_name = "MORE", requires = "curves")]
    pub(crate) models: Vec<PathBuf>,
    /// Show the learning curves instead: loss and scores by step
    #[arg(long, conflicts_with_all = ["layer", "head"])]
    pub(crate) curves: bool,
    /// Layer to show, from 1 (default: the last)
    #[arg(long, value_name = "N", value_parser = parse_at_least_one)]
    pub(crate) layer: Option<usize>,
    /// Head to show, from 1 (default: the one that changed most)
    #[arg(long, value_name = "N", value_parser = parse_at_least_one)]
    pub(crate) head: Option<usize>,
    /// Write a self-contained HTML page with the film of every head of the layer, or the learning curves
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<OutputPath>,
    #[command(flatten)]
    pub(crate) pictures: PictureArgs,
    /// Write all numbers as JSON (- for standard output)
    #[arg(long, value_name = "FILE", value_parser = file_or_standard_output())]
    pub(crate) json: Option<OutputPath>,
}
