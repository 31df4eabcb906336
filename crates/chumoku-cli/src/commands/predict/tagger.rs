//! Implements `predict` for taggers.

use crate::answers::row_output::RowAnswers;
use crate::answers::shard;
use crate::answers::stream::{CommandInput, StreamOptions, stream};
use crate::args::PredictArgs;
use crate::data::read_options;
use crate::models::model_name;
use crate::output::OutputPath;
use crate::terminal::color_depth;
use crate::{ExitCode, UsageError};
use chumoku::answers::{load_tagger, span_format, span_values, tagged_text_json};
use chumoku::data::{is_conll, load_spans};
use chumoku::lang::{lang, sanitize};
use chumoku::row::RowRef;
use chumoku::{PredictedSpan, TextTagger, tr};
use chumoku_view::{MAX_SPANNED_TEXTS, spans_to_html};
use std::io::{IsTerminal, Write, stdout};
use std::path::Path;

/// Returns a predictor of rows.
pub(super) fn row_predictor(args: &PredictArgs) -> anyhow::Result<RowAnswers<'static>> {
    Ok(row_answers(load_tagger(&args.model, &args.options())?, args.json, |_, _| {}))
}

/// Returns a predictor of rows that also passes its answers to `seen`.
fn row_answers<'a>(
    model: &'a TextTagger,
    as_objects: bool,
    mut observe: impl FnMut(&[&str], &[Vec<PredictedSpan>]) + Send + 'a,
) -> RowAnswers<'a> {
    let answer = move |rows: &[RowRef<'_>]| {
        let texts: Vec<&str> = rows.iter().map(|row| row.text()).collect();
        let found = model.predict(&texts)?;
        observe(&texts, &found);
        Ok(texts.iter().zip(&found).map(|(text, spans)| span_values(text, spans, as_objects)).collect())
    };
    RowAnswers { form: span_format(as_objects), answer: Box::new(answer) }
}

pub(super) fn predict(args: &PredictArgs) -> anyhow::Result<ExitCode> {
    let (model, shard) = shard::load_with_shard(args, || Ok(load_tagger(&args.model, &args.options())?))?;
    let options = read_options(&args.reading, false)?;
    let mut page =
        SpanPage { path: args.html.as_ref(), model, name: model_name(&args.model), texts: Vec::new(), total: 0 };
    // Piped input can be read only once: it has one text per line or row, not CoNLL.
    if let Some(path) = args.input.as_deref().filter(|path| path.is_file())
        && is_conll(path, &options)?
    {
        if shard.is_some() {
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
                row_answers(model, args.json, |texts, found| page.add(texts.iter().copied().zip(found)));
            let options = StreamOptions { format: form, bom: args.bom, strict: args.strict, shard };
            let ended = stream(*source, options, answer)?;
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
