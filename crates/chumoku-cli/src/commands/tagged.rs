//! `predict` and `eval` of a tagger.

use super::seen::{tell_of_seen, with_seen};
use super::shard;
use super::stream::{Given, stream_piece};
use super::train::{classify::this_model, tag};
use super::written::{Answering, Form};
use super::{load, model_name, read_options};
use crate::args::{Eval, Predict};
use crate::output::OutputPath;
use crate::report::filled;
use crate::{ExitCode, Usage, harmless};
use chumoku::answers::{self, spanned};
use chumoku::data::{is_conll, load_spans};
use chumoku::lang::lang;
use chumoku::{FoundSpan, TextTagger, tr};
use chumoku_view::{MOST_SPANNED_TEXTS, spans_to_html};
use serde_json::{Map, Value, json};
use std::io::{IsTerminal, Write, stdout};
use std::path::Path;

/// The model, of flags that are for it.
fn checked(args: &Predict) -> anyhow::Result<&'static TextTagger> {
    let flags = [
        ("--top", args.top.is_some()),
        ("--abstain", args.abstain.is_some()),
        ("--threshold, --precision-at-least", args.thresholds.is_asked()),
    ];
    if let Some((flag, _)) = flags.into_iter().find(|(_, is_given)| *is_given) {
        let problem = tr!(
            "{flag}: this model marks spans in texts, and gives a text no class; leave it out",
            "{flag}: このモデルはテキストの中のスパンを示すもので、テキストのクラスは答えません。指定を外してください"
        );
        return Err(Usage(problem).into());
    }
    load::tagger(&args.model, args.precision)
}

/// How rows are answered.
pub(super) fn answering(args: &Predict) -> anyhow::Result<Answering<'static>> {
    Ok(of_rows(checked(args)?, args, |_, _| {}))
}

/// The same, of a model whose answers are `seen` too.
fn of_rows<'a>(
    model: &'a TextTagger,
    args: &Predict,
    mut seen: impl FnMut(&[&str], &[Vec<FoundSpan>]) + Send + 'a,
) -> Answering<'a> {
    let is_json = args.json;
    let form = match is_json {
        true => Form::Objects { unanswered: Map::from_iter([("spans".to_owned(), Value::Null)]) },
        false => Form::columns(&["spans"], args.bom),
    };
    let answer = move |texts: &[&str]| {
        let found = model.predict(texts)?;
        seen(texts, &found);
        let each = texts.iter().zip(&found);
        Ok(each.map(|(text, spans)| vec![if is_json { spanned(text, spans) } else { answers::spans(spans) }]).collect())
    };
    Answering { form, answer: Box::new(answer) }
}

pub(super) fn predict(args: &Predict) -> anyhow::Result<ExitCode> {
    let (model, piece) = shard::beside(args, || checked(args))?;
    let options = read_options(&args.reading, false)?;
    let mut page = Page { place: args.html.as_ref(), model, name: model_name(&args.model), texts: Vec::new(), all: 0 };
    // What comes through a pipe can be read once, and has a text a line or row.
    if let Some(path) = args.input.as_deref().filter(|path| path.is_file())
        && is_conll(path, &options)?
    {
        if piece.is_some() {
            return Err(words(path).into());
        }
        // Words that the file has are kept.
        let rows = load_spans(path, &options)?.examples;
        let found = model.predict_rows(&rows)?;
        page.add(rows.iter().map(|row| row.text.as_str()).zip(&found));
        page.write()?;
        return print(args, rows.iter().map(|row| row.text.as_str()).zip(found));
    }
    let texts = match Given::of("predict", args.input.as_deref(), &args.texts, &args.reading, false)? {
        Given::Texts(texts) => texts,
        Given::Rows(source) => {
            let Answering { form, answer } =
                of_rows(model, args, |texts, found| page.add(texts.iter().copied().zip(found)));
            let ended = stream_piece(*source, form, (args.strict, piece), answer)?;
            page.write()?;
            return Ok(ended);
        }
    };
    let found = model.predict(&texts)?;
    page.add(texts.iter().copied().zip(&found));
    page.write()?;
    print(args, texts.into_iter().zip(found))
}

/// That a file of words is to be divided among runs.
pub(super) fn words(path: &Path) -> Usage {
    Usage(tr!(
        "{}: a file of words and tags (CoNLL) is read as a whole and cannot be divided: give texts, one a line or a row, or use \
         `chumoku predict` without shards or workers",
        "{}: 単語とタグのファイル（CoNLL）は全体をまとめて読むので、分割できません。1 行に 1 つのテキストのファイルにするか、\
         分割もワーカーも使わない `chumoku predict` を使ってください",
        path.display()
    ))
}

/// The page that was asked for, if one was.
struct Page<'a> {
    place: Option<&'a OutputPath>,
    model: &'a TextTagger,
    name: String,
    /// Those that the page has.
    texts: Vec<(String, Vec<FoundSpan>)>,
    /// How many there are.
    all: usize,
}

impl Page<'_> {
    fn add<'t>(&mut self, texts: impl Iterator<Item = (&'t str, &'t Vec<FoundSpan>)>) {
        if self.place.is_some() {
            for (text, spans) in texts {
                self.all += 1;
                if self.texts.len() < MOST_SPANNED_TEXTS {
                    self.texts.push((text.to_owned(), spans.clone()));
                }
            }
        }
    }

    fn write(&self) -> anyhow::Result<()> {
        let Some(place) = self.place else { return Ok(()) };
        let page = spans_to_html(&self.name, (&self.texts, self.all), self.model.labels(), lang());
        Ok(place.write(page)?)
    }
}

fn print<'a>(args: &Predict, rows: impl Iterator<Item = (&'a str, Vec<FoundSpan>)>) -> anyhow::Result<ExitCode> {
    let mut out = stdout().lock();
    let has_colour = super::pictures::colours(out.is_terminal()) != chumoku_view::ColourDepth::None;
    for (text, spans) in rows {
        match args.json {
            true => writeln!(out, "{}", spanned(text, &spans))?,
            false => writeln!(out, "{}", marked(text, &spans, has_colour))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The text with its spans in brackets, or in bold, each with its kind behind it.
fn marked(text: &str, spans: &[FoundSpan], has_colour: bool) -> String {
    let (mut out, mut at) = (String::new(), 0);
    let mut letters = text.chars();
    let mut take = |n: usize| harmless(&letters.by_ref().take(n).collect::<String>()).to_string();
    for found in spans {
        out += &take(found.span.start - at);
        let inside = take(found.span.end - found.span.start);
        let label = harmless(&found.span.label);
        out += &match has_colour {
            true => format!("\u{1b}[1;36m{inside}\u{1b}[0m\u{1b}[2m({label})\u{1b}[0m"),
            false => format!("[{inside}]({label})"),
        };
        at = found.span.end;
    }
    out + &take(usize::MAX)
}

pub(super) fn eval(args: &Eval, seed: u64) -> anyhow::Result<ExitCode> {
    let (model, seen): (&TextTagger, _) = with_seen(&args.model, || load::tagger(&args.model, args.precision))?;
    let data = tag::load(&args.data, &read_options(&args.reading, false)?)?;
    data.check_known_labels(model.labels())?;
    let texts: Vec<&str> = data.examples.iter().map(|row| row.text.as_str()).collect();
    let seen = tell_of_seen(seen.as_ref(), &texts);
    let scores = model.score(&data.examples, seed)?;
    let mut out = stdout().lock();
    if args.json {
        let scores =
            json!({ "rows": scores.rows, "rows_trained_on": seen, "span_f1": scores.all.f1, "scores": scores });
        writeln!(out, "{scores}")?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(warning) = scores.warning() {
        writeln!(out, "{}\n", filled(&warning))?;
    }
    writeln!(out, "{}", tag::comparison(&[(this_model(), &scores)]))?;
    write!(out, "{}", tag::kinds(&scores))?;
    Ok(ExitCode::SUCCESS)
}
