//! Implements `chumoku explain --input`: a picture for each line of a file.

use super::model::{AttentionModel, Explainer};
use super::{alignment_figure, attention_flag, figure, layer_and_head_in, layer_and_head_in_alignment, ngrams, tagger};
use crate::ExitCode;
use crate::answers::stream::open_rows;
use crate::args::{DataFormat, ExplainArgs, ExplainView};
use crate::data::columns::{report_missing, required_columns, row_with_values};
use crate::data::pairs;
use crate::models::{load, model_name, require_attention};
use crate::output::OutputPath;
use crate::pictures::OutputFiles;
use crate::progress::RowProgress;
use anyhow::Context;
use chumoku::data::DataError;
use chumoku::explain::InnerSteps;
use chumoku::row::{AsRow, Row, RowRef};
use chumoku::{FeatureColumn, ModelKind, NgramClassifier, TextTagger, TextTranslator, tr};
use chumoku_view::{Figure, Lang};
use rayon::prelude::*;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The model that explains each line; with a network, also the layer and head to show.
enum BatchModel {
    Network(AttentionModel, [usize; 2]),
    Ngrams(&'static NgramClassifier),
    Translator(&'static TextTranslator),
    Tagger(&'static TextTagger, Option<[usize; 2]>),
}

/// Reads texts with their line numbers: the rows of a table, or each nonempty line.
fn read_texts(
    args: &ExplainArgs,
    input: &Path,
    (reads_pairs, columns): (bool, &[FeatureColumn]),
) -> anyhow::Result<Vec<(u64, Row)>> {
    // A text file is a list of texts, not a table, even with commas in it.
    let is_list = input.extension().is_none_or(|extension| extension == "txt" || extension == "text");
    let is_list = is_list && args.reading.first_flag().is_none();
    let mut reading = args.reading.clone();
    if is_list {
        report_missing(columns, &args.set)?;
        reading.format = Some(DataFormat::Text);
    } else {
        reading.feature_columns = required_columns(columns, &args.set)?;
    }
    let source = open_rows(input, &reading, reads_pairs && !is_list)?;
    let columns_of_text = source.columns().clone();
    let (mut texts, mut records) = (Vec::new(), source.records());
    while let Some((record, fault)) = records.next_with_fault()? {
        let text = columns_of_text.row(&record);
        match fault {
            _ if !text.as_row().is_pair() && text.as_row().text().trim().is_empty() => continue,
            Some(fault) => return Err(fault.into()),
            None => {}
        }
        let text = match is_list {
            true => {
                row_with_values(pairs::from_line("--input", text.as_row().text(), reads_pairs)?, columns, &args.set)?
            }
            false => text,
        };
        texts.push((record.line, text));
    }
    refuse_if!(
        texts.is_empty(),
        "{}: the file has no texts; expected one per line",
        "{}: テキストがありません。1 行に 1 つ書いてください",
        input.display()
    );
    Ok(texts)
}

/// Draws a picture for each line of a file.
pub(super) fn run(args: &ExplainArgs, input: &Path, lang: Lang) -> anyhow::Result<ExitCode> {
    refuse_if!(
        !args.pictures.is_any_given(),
        "--input draws pictures: name their folder with --png, --svg or --pdf; or give --json - for numbers",
        "--input は図を描きます。出力先のフォルダを --png、--svg、--pdf で指定するか、数値には --json - を指定してください"
    );
    let kind = ModelKind::from_folder(&args.model)?;
    match (kind, attention_flag(args)) {
        (ModelKind::Tagger, _) | (ModelKind::Ngrams, None) => {}
        (ModelKind::Ngrams, Some(flag)) => return Err(ngrams::no_attention(flag).into()),
        _ => {
            require_attention(&args.model)?;
        }
    }
    let fonts = args.pictures.fonts()?;
    let name = model_name(&args.model);
    let of = match kind {
        ModelKind::Translator => BatchModel::Translator(load::translator(&args.model, args.precision)?),
        ModelKind::Tagger => {
            let (model, place) = tagger::load_checked(args)?;
            BatchModel::Tagger(model, place)
        }
        ModelKind::Ngrams => BatchModel::Ngrams(load::ngrams(&args.model, args.precision)?),
        _ => {
            let model = AttentionModel::load(&args.model, args.precision)?;
            let place = layer_and_head_in(&model, args)?;
            BatchModel::Network(model, place)
        }
    };
    let columns = match &of {
        BatchModel::Network(model, _) => model.columns(),
        BatchModel::Ngrams(model) => model.columns(),
        BatchModel::Translator(_) | BatchModel::Tagger(..) => &[],
    };
    let reads_pairs = match &of {
        BatchModel::Network(model, _) => model.reads_pairs(),
        BatchModel::Ngrams(model) => model.config().reads_pairs(),
        BatchModel::Translator(_) | BatchModel::Tagger(..) => false,
    };
    let texts = read_texts(args, input, (reads_pairs, columns))?;
    let folders = [&args.pictures.svg, &args.pictures.png, &args.pictures.pdf];
    for folder in folders.into_iter().flatten() {
        std::fs::create_dir_all(folder.as_path()).map_err(|source| DataError::Output {
            path: folder.as_path().to_owned(),
            doing: "creating the folder",
            source,
        })?;
    }
    let of_text = |row: RowRef<'_>| -> anyhow::Result<Figure> {
        match &of {
            BatchModel::Network(model, place) => {
                let (method, label) = (args.method, args.of_label.as_deref());
                let explainer = Explainer { model, target: None, name: name.clone(), method, label };
                let mut explanation = explainer.explain(row, &InnerSteps::NONE)?;
                if let (AttentionModel::Classifier(model), Some(ExplainView::Curves)) = (model, args.view) {
                    explanation.attribution.curves = Some(model.curves(&explanation)?);
                }
                figure(args, &explanation, *place, lang)
            }
            BatchModel::Ngrams(model) => {
                figure(args, &model.explain_label(row, &name, args.of_label.as_deref())?, [0, 0], lang)
            }
            BatchModel::Tagger(model, place) => tagger::picture(args, (model, *place), row.text(), lang),
            BatchModel::Translator(translator) => {
                let alignment = translator.explain_with_steps(row.text(), None, &name, &InnerSteps::NONE)?;
                let place = layer_and_head_in_alignment(&alignment, args)?;
                alignment_figure(args, &alignment, place, lang)
            }
        }
    };
    let digits = texts.len().to_string().len().max(3);
    let progress = Mutex::new(RowProgress::new());
    let draw = |(index, (line, text)): (usize, &(u64, Row))| -> anyhow::Result<()> {
        let doing = || tr!("line {line} of {}", "{} の {line} 行目", input.display());
        let scene = of_text(text.as_row()).with_context(doing)?.scene();
        let place = |folder: &OutputPath, form: &str| folder.join(format!("{:0digits$}.{form}", index + 1));
        let mut outcome = OutputFiles::default();
        args.pictures.draw(&fonts, &scene, &mut outcome, place);
        // A thread that panicked while holding the lock had only counted.
        progress.lock().unwrap_or_else(PoisonError::into_inner).add(1);
        outcome.result().with_context(doing)
    };
    // A line that cannot be drawn does not stop the others.
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
