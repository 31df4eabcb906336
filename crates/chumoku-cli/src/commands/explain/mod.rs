//! Implements `chumoku explain`: explains classes of texts, labels of spans, next tokens, similarities of texts and
//! translations.
//!
//! # Files
//!
//! - `batch`: a picture for each line
//! - `errors`: `--errors`
//! - `faithfulness`: `--faithfulness`
//! - `model`: models with attention
//! - `ngrams`: n-gram models
//! - `rows`: `--json -` for each row
//! - `tagger`: taggers

mod batch;
mod errors;
mod faithfulness;
mod model;
mod ngrams;
mod rows;
mod tagger;

use crate::answers::row_output::RowAnswers;
use crate::args::{ExplainArgs, ExplainView};
use crate::data::{columns, pairs};
use crate::models::{load, model_name};
use crate::pictures::FigureOutputs;
use crate::report::paragraph;
use crate::terminal::terminal_options;
use crate::{ExitCode, UsageError, threads};
use chumoku::answers::ModelInputs;
use chumoku::explain::InnerSteps;
use chumoku::row::{AsRow, Row};
use chumoku::train::{network_name, network_sizes};
use chumoku::{FeatureColumn, ModelKind, TextClassifier, TranslateOptions, tr};
use chumoku_view::{
    Alignment, AlignmentFigures as _, Content, Explanation, ExplanationFigures as _, Figure, HeadOrder, Lang,
    alignment_to_html, figures_to_html, render, render_alignment, render_explanation_lens, render_lens,
    render_patching, to_html, to_json,
};
use model::{AttentionModel, Explainer, check_label, check_method, head_names};
use std::io::{Write, stdout};

/// Returns the requested layer and head, counted from 0, after checking them against the model's.
fn layer_and_head(args: &ExplainArgs, [layers, heads]: [usize; 2], default: [usize; 2]) -> anyhow::Result<[usize; 2]> {
    let [layer, head] = [args.layer.unwrap_or(default[0]), args.head.unwrap_or(default[1])];
    refuse_if!(
        layer > layers || head > heads,
        "--layer {layer} --head {head}: this model has layers 1 to {layers} and heads 1 to {heads}",
        "--layer {layer} --head {head}: このモデルの層は 1〜{layers}、ヘッドは 1〜{heads} です"
    );
    Ok([layer - 1, head - 1])
}

/// Returns the first flag that needs attention.
fn attention_flag(args: &ExplainArgs) -> Option<&'static str> {
    let flags = [
        ("--layer", args.layer.is_some()),
        ("--head", args.head.is_some()),
        ("--view", args.view.is_some_and(ExplainView::shows_attention)),
        ("--without", !args.without.is_empty()),
        ("--compare-text", args.compare_text.is_some()),
        ("--compare-head", args.compare_head.is_some()),
        ("--compare-model", args.compare_model.is_some()),
    ];
    flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
}

/// Returns the layer and head of a classifier to show. Recurrent networks have none: both are 0.
fn layer_and_head_in_classifier(model: &TextClassifier, args: &ExplainArgs) -> anyhow::Result<[usize; 2]> {
    let body = &model.config().model.backbone;
    if let Some(encoder) = body.transformer() {
        return layer_and_head(args, [encoder.num_layers, encoder.num_heads], [encoder.num_layers, 1]);
    }
    let (noun, sizes) = (network_name(body.kind()), network_sizes(body, chumoku::lang::lang()));
    if let Some(flag) = attention_flag(args) {
        refuse!(
            "{flag}: this model is a recurrent network, {noun} ({sizes}), and has no attention to show; the effect of each \
             word is shown without {flag}, by --view effects and by --json",
            "{flag}: このモデルは再帰型ネットワーク {noun}（{sizes}）で、表示できるアテンションがありません。各語の影響は {flag} なしの\
             表示、--view effects、--json にあります"
        );
    }
    let residual_flags = [("--lens", args.lens), ("--patch", args.patch.is_some())];
    if let Some((flag, _)) = residual_flags.into_iter().find(|(_, is_given)| *is_given) {
        refuse!(
            "{flag}: only for transformers; this model is a recurrent network, {noun} ({sizes}), and has no residual stream to \
             read; leave {flag} out",
            "{flag}: トランスフォーマーで使えます。このモデルは再帰型ネットワーク {noun}（{sizes}）で、読むべき残差ストリームがありません。\
             {flag} を外してください"
        );
    }
    if args.view.is_some() {
        return Ok([0, 0]);
    }
    say!(
        "{}",
        tr!(
            "note: this model is a recurrent network, {noun} ({sizes}); it has no attention to show",
            "注: このモデルは再帰型ネットワーク {noun}（{sizes}）で、表示できるアテンションがありません"
        )
    );
    Ok([0, 0])
}

/// Returns an explainer of rows as JSON objects, and the inputs of the model.
pub(crate) fn row_explainer(args: &ExplainArgs) -> anyhow::Result<(RowAnswers<'static>, ModelInputs)> {
    args.check()?;
    let kind = ModelKind::from_folder(&args.model)?;
    check_method(args.method, kind)?;
    check_label(args.of_label.as_deref(), kind)?;
    match kind {
        ModelKind::Tagger => Ok((tagger::row_explainer(args)?, ModelInputs::default())),
        _ => rows::row_explainer(args),
    }
}

pub(crate) fn run(mut args: ExplainArgs) -> anyhow::Result<ExitCode> {
    args.reading.use_training_source(&args.model);
    if let Some(Some(file)) = &mut args.errors {
        args.reading.buffer_pipe(file)?;
    }
    let args = &args;
    args.check()?;
    threads::start_pool(args.threads)?;
    let kind = ModelKind::from_folder(&args.model)?;
    check_method(args.method, kind)?;
    check_label(args.of_label.as_deref(), kind)?;
    check_patching(args, kind)?;
    if args.span.is_some() && kind != ModelKind::Tagger {
        return Err(tagger::no_spans(kind).into());
    }
    let lang = chumoku::lang::lang();
    if let Some(file) = &args.errors {
        return errors::run(args, file.as_deref(), lang);
    }
    if let Some(input) = &args.faithfulness {
        return faithfulness::run(args, input, lang);
    }
    if let (Some(input), true) = (&args.input, args.json.is_some()) {
        return match kind {
            ModelKind::Tagger => tagger::explain_rows(args, input),
            _ => rows::run(args, input),
        };
    }
    if let Some(input) = &args.input {
        return batch::run(args, input, lang);
    }
    let text = args.text.as_deref().unwrap_or_default();
    match kind {
        ModelKind::Translator => explain_translation(args, text, lang),
        ModelKind::Ngrams => ngrams::run(args, text, lang),
        ModelKind::Tagger => tagger::run(args, text, lang),
        _ => explain_text(args, text, lang),
    }
}

/// Refuses patching and the logit lens for models without them, and patching without a text.
fn check_patching(args: &ExplainArgs, kind: ModelKind) -> Result<(), UsageError> {
    refuse_if!(
        args.patch.as_ref().is_some_and(|other| other.trim().is_empty()),
        "--patch: the other text is empty; give a text to compare with, or leave --patch out",
        "--patch: もう一方のテキストが空です。比べるテキストを指定するか、--patch を外してください"
    );
    if args.generate.is_some() && kind != ModelKind::LanguageModel {
        let what = kind.describe();
        refuse!(
            "--generate: only for language models; this model is {what}; leave --generate out",
            "--generate: 言語モデルで使えます。このモデルは{what}です。--generate を外してください"
        );
    }
    let flag = match kind {
        ModelKind::Ngrams | ModelKind::Encoder if args.patch.is_some() => "--patch",
        ModelKind::Ngrams | ModelKind::Encoder if args.lens => "--lens",
        _ => return Ok(()),
    };
    let what = kind.describe();
    Err(UsageError(match flag {
        "--patch" => tr!(
            "--patch: only for models with a transformer that give answers; this model is {what}; leave --patch out",
            "--patch: トランスフォーマーがあり、答えを出すモデルで使えます。このモデルは{what}です。--patch を外してください"
        ),
        _ => tr!(
            "--lens: only for models with layers and answers; this model is {what}; leave --lens out",
            "--lens: 層があり、答えを出すモデルで使えます。このモデルは{what}です。--lens を外してください"
        ),
    }))
}

/// Returns the layer and head of a model's self-attention to show.
fn layer_and_head_in(model: &AttentionModel, args: &ExplainArgs) -> anyhow::Result<[usize; 2]> {
    match model {
        AttentionModel::Classifier(model) => layer_and_head_in_classifier(model, args),
        AttentionModel::Generator(model) => {
            let encoder = &model.config().model.encoder;
            layer_and_head(args, [encoder.num_layers, encoder.num_heads], [encoder.num_layers, 1])
        }
        AttentionModel::Encoder(model) => {
            let encoder = &model.model().config().encoder;
            layer_and_head(args, [encoder.num_layers, encoder.num_heads], [encoder.num_layers, 1])
        }
    }
}

/// Explains a class, a next token, or a similarity.
fn explain_text(args: &ExplainArgs, text: &str, lang: Lang) -> anyhow::Result<ExitCode> {
    let model = AttentionModel::load(&args.model, args.precision)?;
    let place = layer_and_head_in(&model, args)?;
    let (text, target) = model.text_and_target(text, args.target.as_deref())?;
    let row = with_set_columns(text, model.columns(), args)?;
    let row = row.as_row();
    let (name, method, label) = (model_name(&args.model), args.method, args.of_label.as_deref());
    let explainer = Explainer { model: &model, target, name, method, label };
    let other = args.patch.as_deref().map(|line| pairs::from_line("--patch", line, model.reads_pairs())).transpose()?;
    let aligned = args.aligned_tokens();
    let steps = InnerSteps {
        has_lens: args.needs_lens(),
        patch: other.as_ref().map(AsRow::as_row),
        aligned: aligned.as_deref(),
    };
    let mut explanation = match (&model, args.generate) {
        (AttentionModel::Generator(model), Some(tokens)) => {
            model.explain_continuation(row.text(), tokens, &explainer.name, &steps)?
        }
        _ => explainer.explain(row, &steps)?,
    };
    match &model {
        AttentionModel::Classifier(model) => {
            explanation.attribution.curves = Some(model.curves(&explanation)?);
            let windows = model.predict(&[row])?.first().map_or(1, |prediction| prediction.windows);
            if windows > 1 {
                let limit = model.window();
                say!(
                    "{}",
                    paragraph(&tr!(
                        "note: the text is longer than the model's window of {limit} tokens. The prediction is the \
                         mean of {windows} windows, and the effect of every word is measured; attention is shown for the words \
                         of the first window.",
                        "注: テキストが、モデルが一度に読む {limit} トークンより長いため、予測は {windows} 個の窓の平均です。影響は\
                         すべての語について測り、アテンションは最初の窓の語について示します。"
                    ))
                );
            }
        }
        AttentionModel::Encoder(model) => {
            if explanation.cut.is_some() {
                let text = tr!(
                    "note: the text is longer than the model's maximum of {} tokens; only the first part of the text is \
                     shown.",
                    "注: テキストが、モデルが読む {} トークンより長いため、最初の部分について示します。",
                    model.max_tokens()
                );
                say!("{}", paragraph(&text));
            }
        }
        AttentionModel::Generator(model) => {
            if explanation.cut.is_some() {
                let text = tr!(
                    "note: the text is longer than the model's maximum of {} tokens; only the last part of the \
                     text is shown.",
                    "注: テキストが、モデルが読む {} トークンより長いため、最後の部分について示します。",
                    model.config().model.max_length
                );
                say!("{}", paragraph(&text));
            }
        }
    }
    show_explanation(args, &explainer, &explanation, place, lang)
}

/// Joins a text with the values of `--set`.
fn with_set_columns(row: Row, columns: &[FeatureColumn], args: &ExplainArgs) -> anyhow::Result<Row> {
    Ok(columns::rows_with_values(vec![row], columns, &args.set)?.remove(0))
}

/// Returns the layer and head of a translator to show. A layer without a head selects its best head, and a head without
/// a layer its best layer.
fn layer_and_head_in_alignment(alignment: &Alignment, args: &ExplainArgs) -> anyhow::Result<[usize; 2]> {
    let best = alignment.ranking.first().map_or([1, 1], |best| [best.layer + 1, best.head + 1]);
    let among = alignment.ranking.iter().find(|found| {
        args.layer.is_none_or(|layer| layer == found.layer + 1) && args.head.is_none_or(|head| head == found.head + 1)
    });
    let default = among.map_or(best, |found| [found.layer + 1, found.head + 1]);
    layer_and_head(args, [alignment.layers, alignment.heads], default)
}

/// Explains where a translation comes from.
fn explain_translation(args: &ExplainArgs, text: &str, lang: Lang) -> anyhow::Result<ExitCode> {
    refuse_if!(
        args.compares(),
        "--compare-text, --compare-head, --compare-model: only classifiers, language models and encoders can show \
             differences",
        "--compare-text、--compare-head、--compare-model: 差を表示できるのは分類モデル、言語モデル、エンコーダーです"
    );
    columns::required_columns(&[], &args.set)?;
    let model = load::translator(&args.model, args.precision)?;
    let aligned = args.aligned_tokens();
    let patch = args.patch.as_deref().map(str::as_row);
    let steps = InnerSteps { has_lens: args.needs_lens(), patch, aligned: aligned.as_deref() };
    let alignment = model.explain_with_steps(text, args.target.as_deref(), &model_name(&args.model), &steps)?;
    if alignment.is_cut {
        let text = tr!(
            "note: the text is longer than the model's maximum of {} tokens; only the words within it are shown.",
            "注: テキストが、モデルが読む {} トークンより長いため、読んだ語について示します。",
            model.config().model.max_length - 1
        );
        say!("{}", paragraph(&text));
    }
    let place = layer_and_head_in_alignment(&alignment, args)?;
    let figure = alignment_figure(args, &alignment, place, lang)?;
    let mut shown_text = match args.view {
        Some(_) => figure.to_text(&terminal_options(lang)),
        None => render_alignment(&alignment, Some(place), &terminal_options(lang)),
    };
    shown_text += &render_patching(alignment.patching.as_ref(), text, &terminal_options(lang));
    if args.lens {
        shown_text += &render_lens(alignment.lens.as_ref(), &terminal_options(lang));
    }
    if !args.without.is_empty() {
        let translated = model.translate_without_heads(&[text], &args.without, &TranslateOptions::default())?;
        let now = translated.first().map_or("", |translation| translation.text());
        let heads = head_names(&args.without, lang);
        shown_text += &match lang {
            Lang::En => format!("\nWithout {heads} of the cross-attention the model writes:\n  {now}\n"),
            Lang::Ja => format!("\nクロスアテンションの{heads}を無効にしたときの訳：\n  {now}\n"),
        };
    }
    let shown = FigureOutputs { html: args.html.as_ref(), json: args.json.as_ref(), text: Some(shown_text) };
    let first = if args.names_head() { place } else { alignment.most_important_head() };
    let page = || Ok(alignment_to_html(&alignment, first, lang));
    shown.write_all(&args.pictures, &figure, page, || alignment.to_json())
}

/// Draws the requested view of a classifier's or language model's attention.
fn figure(args: &ExplainArgs, e: &Explanation, [layer, head]: [usize; 2], lang: Lang) -> anyhow::Result<Figure> {
    let missing = |view: &str| {
        UsageError(tr!(
            "--view {view}: not available for this model: its attention uses more than queries and keys, or it has \
             none",
            "--view {view}: このモデルでは表示できません。アテンションがクエリとキーだけで決まらないか、アテンションがありません"
        ))
    };
    let view = args.view.unwrap_or(if e.layers == 0 { ExplainView::Effects } else { ExplainView::Heatmap });
    Ok(match view {
        ExplainView::Effects => e.effects(lang),
        ExplainView::Curves => e.curves(lang).ok_or_else(|| {
            UsageError(tr!(
                "--view curves: only for classifiers with a network; use --view effects for this model",
                "--view curves: ネットワークを持つ分類モデルで使えます。このモデルには --view effects があります"
            ))
        })?,
        ExplainView::Heatmap => e.heatmap(layer, head, lang),
        ExplainView::Lines => e.lines(layer, head, args.threshold(), lang),
        ExplainView::Grid => e.grid(args.sort.unwrap_or_default(), lang),
        ExplainView::Values => e.value_weighted(layer, head, lang).ok_or_else(|| missing("values"))?,
        ExplainView::Rollout => e.rollout(layer, lang).ok_or_else(|| missing("rollout"))?,
        ExplainView::Depth => {
            let tokens = e.pieces.len();
            for (flag, given) in [("--query", args.query), ("--key", args.key)] {
                if given.is_some_and(|given| given > tokens) {
                    let given = given.unwrap_or_default();
                    refuse!(
                        "{flag} {given}: the text has tokens 1 to {tokens}",
                        "{flag} {given}: テキストのトークンは 1〜{tokens} です"
                    );
                }
            }
            let query = args.query.unwrap_or(tokens) - 1;
            let of = |key: usize| e.products(layer, head, [query, key], lang);
            // The row of the query holds the weights of all keys, whichever key is drawn.
            let first = of(0).ok_or_else(|| missing("depth"))?;
            let Content::ScoreBreakdown(row) = &first.content else { unreachable!("products are shown") };
            let weight = |key: usize| row.row[key].weight;
            let most = (0..row.row.len()).fold(0, |best, key| if weight(key) > weight(best) { key } else { best });
            let key = args.key.map_or(most, |key| key - 1);
            of(key).ok_or_else(|| {
                let (key, query) = (key + 1, query + 1);
                UsageError(tr!(
                    "--key {key}: token {query} sees only itself and the tokens before it; choose 1 to {query}",
                    "--key {key}: トークン {query} が見るのは自分とその前だけです。1〜{query} を指定してください"
                ))
            })?
        }
    })
}

/// Draws the requested view of a translator's attention.
fn alignment_figure(
    args: &ExplainArgs,
    a: &Alignment,
    [layer, head]: [usize; 2],
    lang: Lang,
) -> anyhow::Result<Figure> {
    Ok(match args.view.unwrap_or(ExplainView::Heatmap) {
        ExplainView::Heatmap => a.heatmap(layer, head, lang),
        ExplainView::Lines => a.lines(layer, head, args.threshold(), lang),
        ExplainView::Grid => match args.sort {
            None => a.grid(true, lang),
            Some(HeadOrder::Layer) => a.grid(false, lang),
            Some(_) => {
                refuse!(
                    "--sort: a translator's heads can be sorted by how well they align, or by place; the page has more \
                     orders",
                    "--sort: 翻訳モデルのヘッドは対応付けの良さか位置（place）の順に並びます。ほかの順はページ（--html）にあります"
                );
            }
        },
        ExplainView::Depth
        | ExplainView::Values
        | ExplainView::Rollout
        | ExplainView::Effects
        | ExplainView::Curves => {
            refuse!(
                "--view: a translator's cross-attention has the views heatmap, lines and grid; `chumoku trace` shows \
                 its numbers",
                "--view: 翻訳モデルのクロスアテンションには heatmap、lines、grid があります。数値は `chumoku trace` で表示できます"
            );
        }
    })
}

fn show_explanation(
    args: &ExplainArgs,
    explain: &Explainer<'_>,
    explanation: &Explanation,
    place: [usize; 2],
    lang: Lang,
) -> anyhow::Result<ExitCode> {
    let [layer, head] = place;
    if args.compares() {
        return compare(args, explain, explanation, place, lang);
    }
    let picture = figure(args, explanation, place, lang)?;
    let mut text = match args.view {
        Some(_) => picture.to_text(&terminal_options(lang)),
        None => render(explanation, layer, head, &terminal_options(lang)),
    };
    text += &render_patching(explanation.patching.as_ref(), &explanation.text, &terminal_options(lang));
    if args.lens {
        text += &render_explanation_lens(explanation, &terminal_options(lang));
    }
    if !args.without.is_empty() {
        text += &format!("\n{}\n", explain.without_heads(explanation, &args.without, lang)?);
    }
    let shown = FigureOutputs { html: args.html.as_ref(), json: args.json.as_ref(), text: Some(text) };
    let first = if args.names_head() { place } else { explanation.most_important_head() };
    let page = || Ok(to_html(explanation, first, lang));
    shown.write_all(&args.pictures, &picture, page, || to_json(explanation))
}

/// Shows the difference between two texts, heads or models.
fn compare(
    args: &ExplainArgs,
    explain: &Explainer<'_>,
    explanation: &Explanation,
    place: [usize; 2],
    lang: Lang,
) -> anyhow::Result<ExitCode> {
    refuse_if!(
        args.view.is_some_and(|view| view != ExplainView::Heatmap),
        "--view: a difference is shown as a heatmap",
        "--view: 差は heatmap だけで表示できます"
    );
    let reads_pairs = explain.model.reads_pairs();
    // The other text gets the same column values.
    let given = explanation.full_row();
    let text = match &args.compare_text {
        None => given,
        Some(line) => {
            let other = pairs::from_line("--compare-text", line, reads_pairs)?;
            let cells: Vec<&str> = explanation.columns.iter().map(|column| column.value.as_str()).collect();
            other.as_row().with_values(&cells)
        }
    };
    let (row, steps) = (text.as_row(), InnerSteps::NONE);
    let other = match &args.compare_model {
        None => explain.explain(row, &steps)?,
        Some(folder) => {
            let (model, name) = (AttentionModel::load(folder, args.precision)?, model_name(folder));
            refuse_if!(
                model.reads_pairs() != reads_pairs,
                "--compare-model: {name} and the model do not read the same number of texts; name a model that matches",
                "--compare-model: {name} が一度に読むテキストの数が異なります。同じ数を読むモデルを指定してください"
            );
            let names =
                |columns: &[FeatureColumn]| columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
            refuse_if!(
                names(model.columns()) != names(explain.model.columns()),
                "--compare-model: {name} does not read the same feature columns; name a model that does",
                "--compare-model: {name} が読むテキスト以外の列が異なります。同じ列を読むモデルを指定してください"
            );
            let (target, method, label) = (args.target.as_deref(), args.method, args.of_label.as_deref());
            Explainer { model: &model, target, name, method, label }.explain(row, &steps)?
        }
    };
    refuse_if!(
        other.layers == 0,
        "--compare-model: {} is a recurrent network and has no attention to compare; name a transformer",
        "--compare-model: {} は再帰型ネットワークで、比べるアテンションがありません。トランスフォーマーを指定してください",
        other.model
    );
    let [layer, head] = args.compare_head.unwrap_or(place);
    refuse_if!(
        layer >= other.layers || head >= other.heads,
        "layer {}, head {}: {} has layers 1 to {} and heads 1 to {}; name another with --compare-head",
        "層 {}、ヘッド {}: {} の層は 1〜{}、ヘッドは 1〜{} です。--compare-head で別のものを指定してください",
        layer + 1,
        head + 1,
        other.model,
        other.layers,
        other.heads
    );
    let of = |lang| explanation.difference(place, &other, [layer, head], lang);
    let figure = of(lang)?;
    let page = || Ok(figures_to_html(&figure.title, &[[of(Lang::En)?, of(Lang::Ja)?]], lang));
    let shown = FigureOutputs { html: args.html.as_ref(), json: args.json.as_ref(), text: None };
    shown.write_all(&args.pictures, &figure, page, || figure.to_json())
}

/// Prints the JSON if standard output was requested for it. Otherwise prints the text, and writes the JSON to the named
/// file, if any.
fn print_json_or_text(
    args: &ExplainArgs,
    json: &serde_json::Value,
    text: impl FnOnce() -> String,
) -> anyhow::Result<ExitCode> {
    match &args.json {
        Some(path) if path.is_standard_output() => writeln!(stdout(), "{json}")?,
        other => {
            if let Some(path) = other {
                path.write(format!("{json}\n"))?;
                say!("{}", tr!("wrote {}", "{} を書き出しました", path.display()));
            }
            write!(stdout(), "{}", text())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
