//! Implements `chumoku explain` for taggers: why each span is marked, by words and by features.

use super::model::ExplainProgress;
use super::{attention_flag, layer_and_head, rows};
use crate::answers::row_output::RowAnswers;
use crate::answers::stream::{StreamOptions, open_rows, stream};
use crate::args::{ExplainArgs, ExplainView};
use crate::data::{columns, read_options};
use crate::models::{load, model_name};
use crate::pictures::FigureOutputs;
use crate::terminal::terminal_options;
use crate::{ExitCode, UsageError};
use chumoku::answers::AnswerFormat;
use chumoku::data::{is_conll, load_spans};
use chumoku::explain::{InnerSteps, TaggedText, shorten_numbers};
use chumoku::nn::EncoderConfig;
use chumoku::row::{AsRow, RowRef};
use chumoku::{ModelKind, TextTagger, tr};
use chumoku_view::{Figure, Lang, render_lens, render_patching, render_tagged, tagged_figure, tagged_to_html};
use serde_json::Value;
use std::io::{Write, stdout};
use std::path::Path;

/// Number of features per span, strongest first.
const MAX_FEATURES: usize = 20;

/// Checks that every flag suits a tagger with or without attention.
fn check(args: &ExplainArgs, has_attention: bool) -> anyhow::Result<()> {
    let others = [
        ("--target", args.target.is_some()),
        ("--view curves", args.view == Some(ExplainView::Curves)),
        ("--without", !args.without.is_empty()),
        ("--compare-text, --compare-head, --compare-model", args.compares()),
    ];
    let other = others.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag);
    if let Some(flag) = other {
        refuse!(
            "{flag}: not available for taggers, which show the effects of words and features on their spans and, with a network, \
             attention; leave it out",
            "{flag}: 単語にラベルを付けるモデルでは使えません。示すのは、語と特徴がスパンに与える影響と、ネットワークがあればそのアテンションです。\
             指定を外してください"
        );
    }
    let steps = [("--lens", args.lens), ("--patch", args.patch.is_some())].into_iter().find(|(_, is_given)| *is_given);
    let flag = attention_flag(args).or(steps.map(|(flag, _)| flag));
    if let (Some(flag), false) = (flag, has_attention) {
        refuse!(
            "{flag}: this tagger has no network and no attention; taggers trained with --from have. Leave {flag} out",
            "{flag}: このモデルは条件付き確率場だけで、アテンションがありません。--from で学習したモデルにはあります。{flag} を外してください"
        );
    }
    columns::required_columns(&[], &args.set)?;
    Ok(())
}

/// Loads the model, and returns the layer and head of its network to show, if it has one.
pub(super) fn load_checked(args: &ExplainArgs) -> anyhow::Result<(&'static TextTagger, Option<[usize; 2]>)> {
    let model = load::tagger(&args.model, args.precision)?;
    check(args, model.has_network())?;
    let encoder = model.config().network.as_ref().map(|network| &network.model.encoder.encoder);
    let place = |encoder: &EncoderConfig| {
        layer_and_head(args, [encoder.num_layers, encoder.num_heads], [encoder.num_layers, 1])
    };
    Ok((model, encoder.map(place).transpose()?))
}

/// Draws the requested picture: attention, or effects of words.
pub(super) fn picture(
    args: &ExplainArgs,
    (model, place): (&TextTagger, Option<[usize; 2]>),
    text: &str,
    lang: Lang,
) -> anyhow::Result<Figure> {
    let name = model_name(&args.model);
    match place.filter(|_| args.view.is_some_and(ExplainView::shows_attention)) {
        Some(place) => {
            let attention = model.attention(text, &name)?.expect("a network has attention");
            super::figure(args, &attention, place, lang)
        }
        None => {
            let span = args.span.as_ref();
            let tagged = model.explain_with_steps(text, &name, span, &InnerSteps::NONE, &mut |_, _| {})?;
            Ok(tagged_figure(&tagged, lang))
        }
    }
}

/// The error for a span of a model that is not a tagger.
pub(super) fn no_spans(kind: ModelKind) -> UsageError {
    UsageError(tr!(
        "--span: only for taggers; this model is {}; leave it out",
        "--span: テキストの中のスパンを示すモデルで使えます。このモデルは{}です。指定を外してください",
        kind.describe()
    ))
}

pub(super) fn run(args: &ExplainArgs, text: &str, lang: Lang) -> anyhow::Result<ExitCode> {
    let (model, place) = load_checked(args)?;
    let (mut progress, name) = (ExplainProgress::new(), model_name(&args.model));
    let aligned = args.aligned_tokens();
    let patch = args.patch.as_deref().map(str::as_row);
    let steps = InnerSteps { has_lens: args.needs_lens(), patch, aligned: aligned.as_deref() };
    let mut show = |done, all| progress.show(done, all);
    let tagged = model.explain_with_steps(text, &name, args.span.as_ref(), &steps, &mut show)?;
    let figure = match args.view.is_some_and(ExplainView::shows_attention) {
        true => picture(args, (model, place), text, lang)?,
        false => tagged_figure(&tagged, lang),
    };
    let mut shown_text = match args.view {
        Some(_) => figure.to_text(&terminal_options(lang)),
        None => render_tagged(&tagged, &terminal_options(lang)),
    };
    shown_text += &render_patching(tagged.patching.as_ref(), text, &terminal_options(lang));
    if args.lens {
        shown_text += &render_lens(tagged.lens.as_ref(), &terminal_options(lang));
    }
    let shown = FigureOutputs { html: args.html.as_ref(), json: args.json.as_ref(), text: Some(shown_text) };
    let page = || {
        let attention = model.attention(text, &name)?;
        Ok(tagged_to_html(&tagged, attention.as_ref().zip(place), lang))
    };
    shown.write_all(&args.pictures, &figure, page, || {
        shorten_numbers(serde_json::to_value(&tagged).expect("plain data"))
    })
}

/// Prints one object per row, in the order of the file.
pub(super) fn explain_rows(args: &ExplainArgs, input: &Path) -> anyhow::Result<ExitCode> {
    rows::check(args)?;
    let (model, _) = load_checked(args)?;
    let name = model_name(&args.model);
    // Piped input can be read only once: it has one text per line or row, not CoNLL.
    let options = read_options(&args.reading, false)?;
    if input.is_file() && is_conll(input, &options)? {
        let mut out = stdout().lock();
        for row in load_spans(input, &options)?.examples {
            writeln!(out, "{}", object(model.explain_row(&row, &name, &mut |_, _| {})?))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let answering = row_answers(model, name);
    stream(open_rows(input, &args.reading, false)?, StreamOptions::new(answering.form), answering.answer)
}

/// Returns an explainer of rows.
pub(super) fn row_explainer(args: &ExplainArgs) -> anyhow::Result<RowAnswers<'static>> {
    rows::check(args)?;
    let (model, _) = load_checked(args)?;
    Ok(row_answers(model, model_name(&args.model)))
}

fn row_answers(model: &'static TextTagger, name: String) -> RowAnswers<'static> {
    let answer = move |rows: &[RowRef<'_>]| {
        let one = |row: &RowRef<'_>| Ok(vec![object(model.explain(row.text(), &name, None, &mut |_, _| {})?)]);
        rows.iter().map(one).collect()
    };
    RowAnswers { form: AnswerFormat::objects(&["spans"]), answer: Box::new(answer) }
}

/// Returns an explanation without the model's name, which is the same in every row, and with the strongest features of
/// each span.
fn object(mut tagged: TaggedText) -> Value {
    let features =
        tagged.spans.iter_mut().filter_map(|span| span.against.as_mut()).map(|against| &mut against.features);
    features.for_each(|features| features.truncate(MAX_FEATURES));
    let mut found = shorten_numbers(serde_json::to_value(&tagged).expect("plain data"));
    if let Value::Object(found) = &mut found {
        found.shift_remove("model");
    }
    found
}
