//! Implements `chumoku trace`: attention in numbers, step by step.

mod beam_search;
mod merges;
mod saturation;

use crate::args::{AttentionPart, PictureArgs, TraceArgs, TraceFormat};
use crate::models::{load, model_name, require_attention};
use crate::output::{self, OutputPath};
use crate::pictures::OutputFiles;
use crate::terminal::terminal_options;
use crate::{ExitCode, UsageError, threads};
use chumoku::models::TranslatorAttention;
use chumoku::row::Row;
use chumoku::{ModelKind, tr};
use chumoku_trace::{HeadSelection, TraceOptions, builtin, open_example};
use chumoku_view::{Figure, Lang, TerminalOptions, figures_to_html};
use serde_json::Value;
use std::io::{IsTerminal, Write, stdout};

pub(crate) fn run(args: &TraceArgs) -> anyhow::Result<ExitCode> {
    let lang = chumoku::lang::lang();
    args.check_out()?;
    if let (Some(beam), Some(folder), Some(text)) = (args.beam, &args.model, &args.text) {
        return beam_search::run(args, beam, (folder.as_path(), text.as_str()));
    }
    if args.saturation {
        return saturation::run(args);
    }
    if let (true, Some(folder), Some(text)) = (args.tokens, &args.model, &args.text) {
        return merges::run(args, folder, text);
    }
    let trace = build_trace(args)?;
    let size = args.size.unwrap_or(if args.format() == TraceFormat::Html { 64 } else { 12 });
    // A file gets the default options, even if standard output is a terminal.
    let TerminalOptions { width, color: colour, .. } = match output::output_file(&args.out) {
        None => terminal_options(lang),
        Some(_) => TerminalOptions::default(),
    };
    let mut options = TraceOptions::default();
    options.depth = args.depth.into();
    options.lang = lang;
    options.digits = args.digits;
    options.size = size;
    options.width = width;
    options.color = colour;
    let bytes = match args.format() {
        TraceFormat::Text => trace.to_text(&options).into_bytes(),
        TraceFormat::Md => trace.to_markdown(&options).into_bytes(),
        TraceFormat::Html => trace.to_html(&options).into_bytes(),
        TraceFormat::Latex => trace.to_latex(&options).into_bytes(),
        TraceFormat::Json => format!("{}\n", trace.to_json(lang)).into_bytes(),
        TraceFormat::Xlsx => trace.to_xlsx(&options)?,
    };
    refuse_if!(
        output::output_file(&args.out).is_none() && args.format() == TraceFormat::Xlsx && stdout().is_terminal(),
        "--format xlsx: a terminal cannot show a spreadsheet; add --out FILE.xlsx",
        "--format xlsx: 表計算ファイルは端末に表示できません。--out FILE.xlsx を付けてください"
    );
    write_output(&args.out, &bytes)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a figure in the format of the flags, and as SVG if requested.
fn write_figure(
    args: &TraceArgs,
    draw: impl Fn(Lang) -> Figure,
    json: impl FnOnce() -> anyhow::Result<Value>,
) -> anyhow::Result<ExitCode> {
    let lang = chumoku::lang::lang();
    let figure = draw(lang);
    let bytes = match args.format() {
        TraceFormat::Json => format!("{}\n", json()?),
        TraceFormat::Html => figures_to_html(&figure.title, &[[Lang::En, Lang::Ja].map(draw)], lang),
        _ => {
            let options = if output::output_file(&args.out).is_some() {
                TerminalOptions::default()
            } else {
                terminal_options(lang)
            };
            figure.to_text(&options)
        }
    };
    let mut outcome = OutputFiles::default();
    let pictures = PictureArgs { svg: args.svg.clone(), ..PictureArgs::default() };
    pictures.write(&figure, &mut outcome);
    write_output(&args.out, bytes.as_bytes())?;
    outcome.report();
    outcome.result()?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the output to a file, or else to standard output.
fn write_output(out: &Option<OutputPath>, bytes: &[u8]) -> anyhow::Result<()> {
    if let Some(path) = output::output_file(out) {
        path.write(bytes)?;
        say!("{}", tr!("wrote {}", "{} を書き出しました", path.display()));
        return Ok(());
    }
    let mut out = stdout().lock();
    out.write_all(bytes)?;
    // A last line without a line end would be written at exit, where an error is lost.
    out.flush()?;
    Ok(())
}

/// Checks that the flags suit this kind of model.
fn check_flags(args: &TraceArgs, kind: ModelKind) -> anyhow::Result<()> {
    let is_class = kind == ModelKind::Classifier && args.target.is_some();
    let problem = match kind {
        ModelKind::Translator => return Ok(()),
        ModelKind::Encoder if args.backward => tr!(
            "--backward: expected a model with a loss: a classifier, a language model or a translator; this model is {}",
            "--backward: 損失のあるモデル（分類モデル、言語モデル、翻訳モデル）が必要です。このモデルは{}です",
            kind.describe()
        ),
        _ if args.part.is_some() || (args.target.is_some() && !is_class) => {
            let flag = if args.part.is_some() { "--part" } else { "--target" };
            tr!(
                "{flag}: only for translators; this model is {}",
                "{flag}: 翻訳モデルだけで使えます。このモデルは{}です",
                kind.describe()
            )
        }
        _ if is_class && !args.backward => tr!(
            "--target: for a classifier, the class whose gradients --backward shows; add --backward, or leave --target out",
            "--target: 分類モデルでは --backward で勾配を示すクラスです。--backward を付けるか、--target を外してください"
        ),
        _ => return Ok(()),
    };
    Err(UsageError(problem).into())
}

fn missing_second_text() -> UsageError {
    UsageError(tr!(
        "--text: this model reads pairs of texts; give both with a tab between them, as --text \"$(printf 'first\\tsecond')\"",
        "--text: このモデルは 2 つのテキストの組を読みます。--text \"$(printf '1 つ目\\t2 つ目')\" のように、2 つのテキストをタブで区切って\
         指定してください"
    ))
}

/// Traces a model.
fn trace_model(args: &TraceArgs) -> anyhow::Result<chumoku_trace::Trace> {
    // The parser requires both, unless there is an example or a file.
    let (Some(folder), Some(text)) = (&args.model, &args.text) else {
        refuse!(
            "expected --example NAME, --input FILE, or --model DIR --text T",
            "--example NAME、--input FILE、--model DIR --text T のいずれかが必要です"
        );
    };
    threads::start_pool(None)?;
    let place = HeadSelection { layer: args.layer.map(|layer| layer - 1), head: args.head - 1 };
    let (kind, name) = (require_attention(folder)?, model_name(folder));
    check_flags(args, kind)?;
    let target = args.target.as_deref();
    let attention = match kind {
        ModelKind::LanguageModel => {
            let model = load::generator(folder, args.precision)?;
            if args.backward { model.record_backward(text, place)? } else { model.record(text, place)? }
        }
        ModelKind::Encoder => load::embedder(folder, args.precision)?.record(text, place)?,
        ModelKind::Translator => {
            let part = match args.part {
                Some(AttentionPart::Encoder) => TranslatorAttention::Encoder,
                Some(AttentionPart::Decoder) => TranslatorAttention::Decoder,
                Some(AttentionPart::Cross) | None => TranslatorAttention::Cross,
            };
            let model = load::translator(folder, args.precision)?;
            match args.backward {
                true => model.record_backward(text, target, part, place)?,
                false => model.record(text, target, part, place)?,
            }
        }
        // Loading fails with a message for any other kind of model.
        _ => {
            let model = load::classifier(folder, args.precision)?;
            let text = &Row::from_line(text, model.config().reads_pairs()).ok_or_else(missing_second_text)?;
            if args.backward { model.record_backward(text, place, target)? } else { model.record(text, place)? }
        }
    };
    Ok(chumoku_trace::Trace::from_model(attention, &name)?)
}

/// Builds the requested trace.
fn build_trace(args: &TraceArgs) -> anyhow::Result<chumoku_trace::Trace> {
    let (name, example) = match (&args.example, &args.input) {
        (Some(name), _) => (name.clone(), builtin(name)?),
        (None, Some(path)) => (path.display().to_string(), open_example(path)?),
        (None, None) => return trace_model(args),
    };
    let fault = |problem: String| chumoku::Error::Example { action: "tracing", file: name.clone(), problem };
    let trace = match args.backward {
        true => example.trace_backward(args.head - 1),
        false => example.trace(args.head - 1),
    };
    let mut trace = trace.map_err(fault)?;
    if trace.title.is_empty() {
        trace.title = name.into();
    }
    Ok(trace)
}
