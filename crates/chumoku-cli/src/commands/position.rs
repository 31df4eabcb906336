//! Implements `chumoku position`: positional encodings in numbers.

use crate::args::{EncodingKind, PositionArgs, PositionView};
use crate::models::model_name;
use crate::pictures::FigureOutputs;
use crate::{ExitCode, UsageError};
use chumoku::tr;
use chumoku_view::{Figure, Lang, PositionalEncoding, figures_to_html};

fn encoding(args: &PositionArgs) -> anyhow::Result<PositionalEncoding> {
    /// Larger encodings make no readable picture, and would not fit into memory.
    const MOST: usize = 4096;
    for (flag, given) in [("--length", args.length), ("--d-model", args.d_model)] {
        refuse_if!(
            given > MOST,
            "{flag} {given}: expected 1 to {MOST}",
            "{flag} {given}: 1 から {MOST} まででなければなりません"
        );
    }
    if let Some(folder) = &args.model {
        return Ok(PositionalEncoding::from_model(folder, args.length, &model_name(folder))?);
    }
    match (args.kind, args.base) {
        (EncodingKind::Rotary, base) => Ok(PositionalEncoding::rotary(args.length, args.d_model, base)?),
        (EncodingKind::Sinusoidal, None) => Ok(PositionalEncoding::sinusoidal(args.length, args.d_model)),
        (EncodingKind::Sinusoidal, Some(_)) => {
            let problem = tr!(
                "--base: sinusoidal encodings always use 10000; to choose a base, add --kind rotary",
                "--base: 正弦波の位置符号化では常に 10000 です。--kind rotary を付けてください"
            );
            Err(UsageError(problem).into())
        }
    }
}

/// Refuses pages and pictures with more numbers than viewers can show. The terminal and JSON have no such limit.
fn check_drawn(args: &PositionArgs, encoding: &PositionalEncoding) -> anyhow::Result<()> {
    const MOST: usize = 1 << 19;
    let (length, dimensions) = encoding.table().dim();
    let chosen: usize = args.dimensions.iter().map(|range| range.clone().count()).sum();
    let drawn = if chosen > 0 { chosen } else { dimensions };
    let pictures = &args.pictures;
    let is_picture = pictures.svg.is_some() || pictures.png.is_some() || pictures.pdf.is_some();
    let columns = match (args.html.is_some(), args.view) {
        // The page has every view.
        (true, _) => drawn.max(length),
        (false, PositionView::Heatmap) if is_picture => drawn,
        (false, PositionView::Similarity) if is_picture => length,
        _ => return Ok(()),
    };
    let count = length * columns;
    if count <= MOST {
        return Ok(());
    }
    Err(UsageError(tr!(
        "a picture of {length}×{columns} = {count} numbers is too large to show (at most {MOST}); choose a smaller \
         --length or --d-model, or use --json for the numbers",
        "{length}×{columns} = {count} 個の数値の図は大きすぎて表示できません（上限 {MOST} 個）。--length か --d-model \
         を小さくするか、数値だけなら --json を使ってください"
    ))
    .into())
}

pub(crate) fn run(args: &PositionArgs) -> anyhow::Result<ExitCode> {
    let mut encoding = encoding(args)?;
    let dimensions: Vec<usize> = args.dimensions.iter().cloned().flatten().collect();
    encoding.show_dimensions(&dimensions)?;
    check_drawn(args, &encoding)?;
    let lang = chumoku::lang::lang();
    let figure = match args.view {
        PositionView::Heatmap => encoding.heatmap(lang),
        PositionView::Curves => encoding.curves(lang),
        PositionView::Similarity => encoding.similarity(lang),
        PositionView::Wavelengths => encoding.wavelength_figure(lang).ok_or_else(|| {
            UsageError(tr!(
                "--view wavelengths: learned positions have none; try heatmap, curves or similarity",
                "--view wavelengths: 学習された位置に波長はありません。heatmap、curves、similarity のいずれかにしてください"
            ))
        })?,
    };
    let page = || {
        let [english, japanese] = [Lang::En, Lang::Ja].map(|lang| encoding.figures(lang));
        let figures: Vec<[Figure; 2]> = english.into_iter().zip(japanese).map(|(en, ja)| [en, ja]).collect();
        Ok(figures_to_html(&figure.title, &figures, lang))
    };
    let shown = FigureOutputs { html: args.html.as_ref(), json: args.json.as_ref(), text: None };
    shown.write_all(&args.pictures, &figure, page, || figure.to_json())
}
