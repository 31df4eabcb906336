//! Implements `predict` for taggers.

use crate::answers::row_output::{AnswerFormat, RowAnswers};
use crate::answers::shard;
use crate::answers::stream::{CommandInput, stream_shard};
use crate::args::PredictArgs;
use crate::data::read_options;
use crate::models::{load, model_name};
use crate::output::OutputPath;
use crate::terminal::color_depth;
use crate::{ExitCode, UsageError};
use chumoku::answers::{self, tagged_text_json};
use chumoku::data::{is_conll, load_spans};
use chumoku::lang::lang;
use chumoku::lang::sanitize;
use chumoku::{PredictedSpan, TextTagger, tr};
use chumoku_view::{MAX_SPANNED_TEXTS, spans_to_html};
use serde_json::{Map, Value};
use std::io::{IsTerminal, Write, stdout};
use std::path::Path;

/// Loads the model, and checks that the flags suit it.
fn load_checked(args: &PredictArgs) -> anyhow::Result<&'static TextTagger> {
    let flags = [
        ("--top", args.top.is_some()),
        ("--abstain", args.abstain.is_some()),
        ("--threshold, --precision-at-least", args.thresholds.is_given()),
    ];
    if let Some((flag, _)) = flags.into_iter().find(|(_, is_given)| *is_given) {
        let problem = tr!(
            "{flag}: this model marks spans in texts and predicts no classes; leave it out",
            "{flag}: このモデルはテキストの中のスパンを示すもので、テキストのクラスは答えません。指定を外してください"
        );
        return Err(UsageError(problem).into());
    }
    load::tagger(&args.model, args.precision)
}

/// Returns a predictor of rows.
pub(super) fn row_predictor(args: &PredictArgs) -> anyhow::Result<RowAnswers<'static>> {
    Ok(row_answers(load_checked(args)?, args, |_, _| {}))
}

/// Returns a predictor of rows that also passes its answers to `seen`.
fn row_answers<'a>(
    model: &'a TextTagger,
    args: &PredictArgs,
    mut seen: impl FnMut(&[&str], &[Vec<PredictedSpan>]) + Send + 'a,
) -> RowAnswers<'a> {
    let is_json = args.json;
    let form = match is_json {
        true => AnswerFormat::Objects { unanswered: Map::from_iter([("spans".to_owned(), Value::Null)]) },
        false => AnswerFormat::columns(&["spans"], args.bom),
    };
    let answer = move |texts: &[&str]| {
        let found = model.predict(texts)?;
        seen(texts, &found);
        let each = texts.iter().zip(&found);
        Ok(each
            .map(|(text, spans)| vec![if is_json { tagged_text_json(text, spans) } else { answers::spans_json(spans) }])
            .collect())
    };
    RowAnswers { form, answer: Box::new(answer) }
}

pub(super) fn predict(args: &PredictArgs) -> anyhow::Result<ExitCode> {
    let (model, piece) = shard::load_with_shard(args, || load_checked(args))?;
    let options = read_options(&args.reading, false)?;
    let mut page =
        SpanPage { path: args.html.as_ref(), model, name: model_name(&args.model), texts: Vec::new(), total: 0 };
    // Piped input can be read only once: it has one text per line or row, not CoNLL.
    if let Some(path) = args.input.as_deref().filter(|path| path.is_file())
        && is_conll(path, &options)?
    {
        if piece.is_some() {
            return Err(cannot_divide_conll(path).into());
        }
        // Keeps the words of the file.
        let rows = load_spans(path, &options)?.examples;
        let found = model.predict_rows(&rows)?;
        page.add(rows.iter().map(|row| row.text.as_str()).zip(&found));
        page.write()?;
        return print(args, rows.iter().map(|row| row.text.as_str()).zip(found));
    }
    let texts = match CommandInput::open("predict", args.input.as_deref(), &args.texts, &args.reading, false)? {
        CommandInput::Texts(texts) => texts,
        CommandInput::Rows(source) => {
            let RowAnswers { form, answer } =
                row_answers(model, args, |texts, found| page.add(texts.iter().copied().zip(found)));
            let ended = stream_shard(*source, form, (args.strict, piece), answer)?;
            page.write()?;
            return Ok(ended);
        }
    };
    let found = model.predict(&texts)?;
    page.add(texts.iter().copied().zip(&found));
    page.write()?;
    print(args, texts.into_iter().zip(found))
}

/// The error for dividing a CoNLL file among runs.
pub(crate) fn cannot_divide_conll(path: &Path) -> UsageError {
    UsageError(tr!(
        "{}: a file of words and tags (CoNLL) is read as a whole and cannot be divided: give one text per line or row, or use \
         `chumoku predict` without shards or workers",
        "{}: 単語とタグのファイル（CoNLL）は全体をまとめて読むので、分割できません。1 行に 1 つのテキストのファイルにするか、\
         分割もワーカーも使わない `chumoku predict` を使ってください",
        path.display()
    ))
}

/// The requested HTML page, if any.
struct SpanPage<'a> {
    path: Option<&'a OutputPath>,
    model: &'a TextTagger,
    name: String,
    /// Texts shown on the page.
    texts: Vec<(String, Vec<PredictedSpan>)>,
    /// Total number of texts.
    total: usize,
}

impl SpanPage<'_> {
    fn add<'t>(&mut self, texts: impl Iterator<Item = (&'t str, &'t Vec<PredictedSpan>)>) {
        if self.path.is_some() {
            for (text, spans) in texts {
                self.total += 1;
                if self.texts.len() < MAX_SPANNED_TEXTS {
                    self.texts.push((text.to_owned(), spans.clone()));
                }
            }
        }
    }

    fn write(&self) -> anyhow::Result<()> {
        let Some(place) = self.path else { return Ok(()) };
        let page = spans_to_html(&self.name, (&self.texts, self.total), self.model.labels(), lang());
        Ok(place.write(page)?)
    }
}

fn print<'a>(
    args: &PredictArgs,
    rows: impl Iterator<Item = (&'a str, Vec<PredictedSpan>)>,
) -> anyhow::Result<ExitCode> {
    let mut out = stdout().lock();
    let has_colour = color_depth(out.is_terminal()) != chumoku_view::ColorDepth::None;
    for (text, spans) in rows {
        match args.json {
            true => writeln!(out, "{}", tagged_text_json(text, &spans))?,
            false => writeln!(out, "{}", mark_spans(text, &spans, has_colour))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Puts spans in brackets or in bold, each followed by its kind.
fn mark_spans(text: &str, spans: &[PredictedSpan], has_colour: bool) -> String {
    let (mut out, mut at) = (String::new(), 0);
    let mut letters = text.chars();
    let mut take = |n: usize| sanitize(&letters.by_ref().take(n).collect::<String>()).to_string();
    for found in spans {
        out += &take(found.span.start - at);
        let inside = take(found.span.end - found.span.start);
        let label = sanitize(&found.span.label);
        out += &match has_colour {
            true => format!("\u{1b}[1;36m{inside}\u{1b}[0m\u{1b}[2m({label})\u{1b}[0m"),
            false => format!("[{inside}]({label})"),
        };
        at = found.span.end;
    }
    out + &take(usize::MAX)
}
