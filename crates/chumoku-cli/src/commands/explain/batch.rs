//! `chumoku explain --input`: a picture for each line of a file.

use super::model::{Explainer, Model};
use super::{
    attention_flag, figure, figure_of_alignment, ngrams, place_in, place_in_alignment, tagged, with_attention,
};
use crate::ExitCode;
use crate::Usage;
use crate::args::{Explain, View};
use crate::commands::columns::{tell_of_missing, with_values};
use crate::commands::pictures::Outcome;
use crate::commands::{load, model_name, pairs};
use crate::output::OutputPath;
use crate::progress::RowProgress;
use anyhow::Context;
use chumoku::data::DataError;
use chumoku::lang::system;
use chumoku::{ModelKind, NgramClassifier, TextTagger, TextTranslator, tr};
use chumoku_view::{Figure, Lang};
use rayon::prelude::*;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// What explains each line; of a network with the layer and head to show.
enum Of {
    Network(Model, [usize; 2]),
    Ngrams(&'static NgramClassifier),
    Translator(&'static TextTranslator),
    Tagger(&'static TextTagger, Option<[usize; 2]>),
}

/// A picture for each line of a file.
pub(super) fn run(args: &Explain, input: &Path, lang: Lang) -> anyhow::Result<ExitCode> {
    if !args.pictures.any() {
        let problem = tr!(
            "--input draws pictures: name their folder with --png, --svg or --pdf; or give --json - for numbers",
            "--input は図を描きます。出力先のフォルダを --png、--svg、--pdf で指定するか、数値には --json - を指定してください"
        );
        return Err(Usage(problem).into());
    }
    let kind = ModelKind::of(&args.model)?;
    match (kind, attention_flag(args)) {
        (ModelKind::Tagger, _) | (ModelKind::Ngrams, None) => {}
        (ModelKind::Ngrams, Some(flag)) => return Err(ngrams::no_attention(flag).into()),
        _ => {
            with_attention(&args.model)?;
        }
    }
    let bytes = match input.as_os_str() == "-" {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(input),
    };
    let bytes = bytes.map_err(|error| {
        let (input, error) = (input.display(), system(&error));
        Usage(tr!(
            "reading {input}: {error}; expected one text a line, in UTF-8",
            "{input} を読めません: {error}。1 行に 1 つのテキストを UTF-8 で書いてください"
        ))
    })?;
    let lines = bytes.lines().enumerate().map(|(index, line)| (index + 1, line));
    let texts: Vec<(usize, &str)> = lines.filter(|(_, line)| !line.trim().is_empty()).collect();
    if texts.is_empty() {
        let problem = tr!(
            "{}: no text in it; expected one a line",
            "{}: テキストがありません。1 行に 1 つ書いてください",
            input.display()
        );
        return Err(Usage(problem).into());
    }
    let folders = [&args.pictures.svg, &args.pictures.png, &args.pictures.pdf];
    for folder in folders.into_iter().flatten() {
        std::fs::create_dir_all(folder.as_path()).map_err(|source| DataError::Output {
            path: folder.as_path().to_owned(),
            doing: "creating the folder",
            source,
        })?;
    }
    let fonts = args.pictures.fonts()?;
    let digits = texts.len().to_string().len().max(3);
    let name = model_name(&args.model);
    let of = match kind {
        ModelKind::Translator => Of::Translator(load::translator(&args.model, args.precision)?),
        ModelKind::Tagger => {
            let (model, place) = tagged::checked(args)?;
            Of::Tagger(model, place)
        }
        ModelKind::Ngrams => Of::Ngrams(load::ngrams(&args.model, args.precision)?),
        _ => {
            let model = Model::load(&args.model, args.precision)?;
            let place = place_in(&model, args)?;
            Of::Network(model, place)
        }
    };
    let columns = match &of {
        Of::Network(model, _) => model.columns(),
        Of::Ngrams(model) => model.columns(),
        Of::Translator(_) | Of::Tagger(..) => &[],
    };
    tell_of_missing(columns, &args.set)?;
    let of_text = |text: &str| -> anyhow::Result<Figure> {
        match &of {
            Of::Network(model, place) => {
                let text = pairs::of_line("--input", text, model.reads_pairs())?;
                let text = with_values(&text, model.columns(), &args.set)?;
                let (method, label) = (args.method, args.of_label.as_deref());
                let explainer = Explainer { model, target: None, name: name.clone(), method, label };
                let mut explanation = explainer.explain(text.as_ref())?;
                if let (Model::Classifier(model), Some(View::Curves)) = (model, args.view) {
                    explanation.attribution.curves = Some(model.curves(&explanation)?);
                }
                figure(args, &explanation, *place, lang)
            }
            Of::Ngrams(model) => {
                let text = pairs::of_line("--input", text, model.config().reads_pairs())?;
                let text = with_values(&text, model.columns(), &args.set)?;
                figure(args, &model.explain_label(text.as_ref(), &name, args.of_label.as_deref())?, [0, 0], lang)
            }
            Of::Tagger(model, place) => tagged::picture(args, (model, *place), text, lang),
            Of::Translator(translator) => {
                let alignment = translator.explain(text, None, &name)?;
                let place = place_in_alignment(&alignment, args)?;
                figure_of_alignment(args, &alignment, place, lang)
            }
        }
    };
    let progress = Mutex::new(RowProgress::new());
    let draw = |(index, (line, text)): (usize, &(usize, &str))| -> anyhow::Result<()> {
        let doing = || tr!("line {line} of {}", "{} の {line} 行目", input.display());
        let scene = of_text(text).with_context(doing)?.scene();
        let place = |folder: &OutputPath, form: &str| folder.join(format!("{:0digits$}.{form}", index + 1));
        let mut outcome = Outcome::default();
        args.pictures.draw(&fonts, &scene, &mut outcome, place);
        // Whoever panicked while it was held only counted.
        progress.lock().unwrap_or_else(PoisonError::into_inner).add(1);
        outcome.result().with_context(doing)
    };
    // A line that cannot be drawn does not keep the others from being drawn.
    let failed: Vec<anyhow::Error> = texts.par_iter().enumerate().filter_map(|text| draw(text).err()).collect();
    progress.into_inner().unwrap_or_else(PoisonError::into_inner).finish();
    let mut named: Vec<String> = folders.into_iter().flatten().map(|folder| folder.display().to_string()).collect();
    named.dedup();
    let (drawn, into) = (texts.len() - failed.len(), named.join(", "));
    say!(
        "{}",
        match failed.len() {
            0 => tr!("wrote {drawn} pictures into {into}", "{into} に {drawn} 枚の図を書き出しました"),
            _ => tr!(
                "wrote {drawn} of {} pictures into {into}",
                "{into} に {} 枚のうち {drawn} 枚の図を書き出しました",
                texts.len()
            ),
        }
    );
    failed.into_iter().next().map_or(Ok(ExitCode::SUCCESS), Err)
}
