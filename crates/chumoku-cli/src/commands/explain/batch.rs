//! `chumoku explain --input`: a picture for each line of a file.

use super::model::{Explainer, Model};
use super::{figure, figure_of_alignment, place_in, place_in_alignment};
use crate::Usage;
use crate::args::Explain;
use crate::commands::model_name;
use anyhow::Context;
use chumoku::data::DataError;
use chumoku::view::{Figure, Lang};
use chumoku::{ModelKind, TextTranslator};
use rayon::prelude::*;
use std::path::Path;
use std::process::ExitCode;

/// A picture for each line of a file.
pub(super) fn run(args: &Explain, input: &Path, lang: Lang) -> anyhow::Result<ExitCode> {
    if !args.pictures.any() {
        let problem = "--input draws pictures: name their folder with --png, --svg or --pdf";
        return Err(Usage(problem.into()).into());
    }
    let bytes = std::fs::read_to_string(input)
        .map_err(|error| Usage(format!("reading {}: {error}; expected one text a line, in UTF-8", input.display())))?;
    let lines = bytes.lines().enumerate().map(|(index, line)| (index + 1, line));
    let texts: Vec<(usize, &str)> = lines.filter(|(_, line)| !line.trim().is_empty()).collect();
    if texts.is_empty() {
        return Err(Usage(format!("{}: no text in it; expected one a line", input.display())).into());
    }
    let folders = [&args.pictures.svg, &args.pictures.png, &args.pictures.pdf];
    for folder in folders.into_iter().flatten() {
        std::fs::create_dir_all(folder).map_err(|source| DataError::Output {
            path: folder.clone(),
            doing: "creating the folder",
            source,
        })?;
    }
    let fonts = args.pictures.fonts()?;
    let digits = texts.len().to_string().len().max(3);
    let model = match ModelKind::of(&args.model)? {
        ModelKind::Translator => None,
        _ => Some(Model::load(&args.model)?),
    };
    let translator = if model.is_none() { Some(TextTranslator::load(&args.model)?) } else { None };
    let name = model_name(&args.model);
    let of_text = |text: &str| -> anyhow::Result<Figure> {
        match (&model, &translator) {
            (Some(model), _) => {
                let place = place_in(model, args)?;
                figure(args, &Explainer { model, name: name.clone() }.explain(text)?, place, lang)
            }
            (_, Some(translator)) => {
                let alignment = translator.explain(text, None, &name)?;
                let place = place_in_alignment(&alignment, args)?;
                figure_of_alignment(args, &alignment, place, lang)
            }
            _ => unreachable!("one of the two is loaded"),
        }
    };
    let draw = |(index, (line, text)): (usize, &(usize, &str))| -> anyhow::Result<()> {
        let doing = || format!("line {line} of {}", input.display());
        let scene = of_text(text).with_context(doing)?.scene();
        let place = |folder: &Path, form: &str| folder.join(format!("{:0digits$}.{form}", index + 1));
        args.pictures.draw(&fonts, &scene, place).with_context(doing)?;
        Ok(())
    };
    texts.par_iter().enumerate().try_for_each(draw)?;
    let mut named: Vec<String> = folders.into_iter().flatten().map(|folder| folder.display().to_string()).collect();
    named.dedup();
    say!("wrote {} pictures into {}", texts.len(), named.join(", "));
    Ok(ExitCode::SUCCESS)
}
