//! Implements `chumoku film`: the attention to one text during training, and learning curves.

use crate::ExitCode;
use crate::args::FilmArgs as Args;
use crate::models::{model_name, require_attention};
use crate::pictures::FigureOutputs;
use chumoku::ModelKind;
use chumoku::lang::Lang;
use chumoku_view::{Film, LearningCurves, ReconstructionCurves, figures_to_html, film_to_html};
use serde_json::json;
use std::path::PathBuf;

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.curves {
        return curves(args);
    }
    // Gives a clear error if this is not a model folder.
    require_attention(&args.model)?;
    let film = Film::load(&args.model, &model_name(&args.model))?;
    let [layers, heads] = film.layers_and_heads();
    let layer = args.layer.unwrap_or(layers);
    if layer > layers || args.head.is_some_and(|head| head > heads) {
        let head = args.head.map_or_else(String::new, |head| format!(" --head {head}"));
        refuse!(
            "--layer {layer}{head}: this model has layers 1 to {layers} and heads 1 to {heads}",
            "--layer {layer}{head}: このモデルの層は 1〜{layers}、ヘッドは 1〜{heads} です"
        );
    }
    let layer = layer - 1;
    let head = args.head.map_or_else(|| film.most_changed(layer), |head| head - 1);
    let lang = chumoku::lang::lang();
    let figure = film.strip_figure(layer, head, lang);
    let page = || Ok(film_to_html(&film, layer, head, lang));
    let json = || {
        json!({
            "strip": figure.to_json(),
            "difference": film.difference_figure(layer, head, lang).to_json(),
            "entropies": film.entropy_figure(layer, lang).to_json(),
        })
    };
    let shown = FigureOutputs { html: args.html.as_ref(), json: args.json.as_ref(), text: None };
    shown.write_all(&args.pictures, &figure, page, json)
}

/// Shows the learning curves of a run, or what several autoencoders reconstruct.
fn curves(args: &Args) -> anyhow::Result<ExitCode> {
    // Gives a clear error if this is not a model folder.
    ModelKind::from_folder(&args.model)?;
    let figures = match args.models.is_empty() {
        true => {
            let curves = LearningCurves::load(&args.model, &model_name(&args.model))?;
            [Lang::En, Lang::Ja].map(|lang| curves.figure(lang))
        }
        false => {
            let folders = std::iter::once(&args.model).chain(&args.models).map(PathBuf::as_path);
            let curves = ReconstructionCurves::load(folders)?;
            [Lang::En, Lang::Ja].map(|lang| curves.figure(lang))
        }
    };
    let figure = figures[usize::from(chumoku::lang::lang() == Lang::Ja)].clone();
    let both = [figures];
    let page = || Ok(figures_to_html(&figure.title, &both, figure.lang));
    let shown = FigureOutputs { html: args.html.as_ref(), json: args.json.as_ref(), text: None };
    shown.write_all(&args.pictures, &figure, page, || figure.to_json())
}
