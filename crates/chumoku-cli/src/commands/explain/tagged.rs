//! `chumoku explain` of a tagger: why each span is marked, by words and by features.

use super::attention_flag;
use super::model::LeftOut;
use super::rows::open;
use crate::args::{Explain, View};
use crate::commands::pictures::{Shown, terminal_options};
use crate::commands::stream::{Form, stream};
use crate::commands::{columns, load, model_name, not_over};
use crate::{ExitCode, Usage};
use chumoku::data::{ReadOptions, is_conll, load_spans};
use chumoku::explain::{TaggedText, shorten};
use chumoku::{ModelKind, tr};
use chumoku_view::{Lang, render_tagged, tagged_figure, tagged_to_html};
use serde_json::{Map, Value};
use std::io::{Write, stdout};
use std::path::Path;

/// Strongest features of a span that are given row by row.
const FEATURES: usize = 20;

/// Whether every flag is one for a tagger.
pub(super) fn check(args: &Explain) -> anyhow::Result<()> {
    let others = [
        ("--target", args.target.is_some()),
        ("--view curves", args.view == Some(View::Curves)),
        ("--view", args.view.is_some_and(View::is_of_attention)),
    ];
    let flag = attention_flag(args).or(others.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag));
    if let Some(flag) = flag {
        let problem = tr!(
            "{flag}: of a tagger the effects of words and features on its spans are shown, and no attention; leave it out",
            "{flag}: 単語にラベルを付けるモデルについて示すのは、語と特徴がスパンに与える影響で、アテンションはありません。指定を外してください"
        );
        return Err(Usage(problem).into());
    }
    columns::asked_of(&[], &args.set)?;
    Ok(())
}

/// That a span is asked of a model that marks none.
pub(super) fn no_spans(kind: ModelKind) -> Usage {
    Usage(tr!(
        "--span: for a tagger, which marks spans in texts; this model is {}; leave it out",
        "--span: テキストの中のスパンを示すモデルで使えます。このモデルは{}です。指定を外してください",
        kind.describe()
    ))
}

pub(super) fn run(args: &Explain, text: &str, lang: Lang) -> anyhow::Result<ExitCode> {
    check(args)?;
    let model = load::tagger(&args.model, args.precision)?;
    let mut progress = LeftOut::new();
    let tagged = model.explain(text, &model_name(&args.model), args.span.as_ref(), &mut |done, all| {
        progress.show(done, all);
    })?;
    let figure = tagged_figure(&tagged, lang);
    let text = match args.view {
        Some(_) => figure.to_text(&terminal_options(lang)),
        None => render_tagged(&tagged, &terminal_options(lang)),
    };
    let shown = Shown { html: args.html.as_deref(), json: args.json.as_deref(), text: Some(text) };
    shown.show(
        &args.pictures,
        &figure,
        || Ok(tagged_to_html(&tagged, lang)),
        || shorten(serde_json::to_value(&tagged).expect("plain data")),
    )
}

/// An object for each row of a file on standard output, in their order.
pub(super) fn rows(args: &Explain, input: &Path) -> anyhow::Result<ExitCode> {
    check(args)?;
    not_over(input, [("--json", &args.json)])?;
    let model = load::tagger(&args.model, args.precision)?;
    let name = model_name(&args.model);
    // What comes through a pipe can be read once, and has a text a line or row.
    if input.is_file() && is_conll(input, &ReadOptions::default())? {
        let mut out = stdout().lock();
        for row in load_spans(input, &ReadOptions::default())?.examples {
            writeln!(out, "{}", object(model.explain_row(&row, &name, &mut |_, _| {})?))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let unanswered = Map::from_iter([("spans".to_owned(), Value::Null)]);
    stream(open(input, false, Vec::new())?, Form::Objects { unanswered }, false, |texts| {
        let one = |text: &&str| Ok(vec![object(model.explain(text, &name, None, &mut |_, _| {})?)]);
        texts.iter().map(one).collect()
    })
}

/// An explanation without the model's name, which is the same in every row, and with the strongest features of each span.
fn object(mut tagged: TaggedText) -> Value {
    let features =
        tagged.spans.iter_mut().filter_map(|span| span.against.as_mut()).map(|against| &mut against.features);
    features.for_each(|features| features.truncate(FEATURES));
    let mut found = shorten(serde_json::to_value(&tagged).expect("plain data"));
    if let Value::Object(found) = &mut found {
        found.shift_remove("model");
    }
    found
}
