//! Continued training of the user's own model: refused flags, old rows for replay, and the changes of scores.

use crate::args::{Architecture, TaskName, TrainArgs};
use crate::progress::print_status;
use crate::{UsageError, output};
use chumoku::data::{Append, LabelOptions, ReadOptions, format_thousands};
use chumoku::lang::wording::list_names;
use chumoku::lang::{lang, sanitize};
use chumoku::nn::BackboneKind;
use chumoku::train::{BaseModel, DataSource, PredictionKind, ReplayData, SourceData};
use chumoku::{ModelKind, RecurrentCell, tr};
use std::path::{Path, PathBuf};

/// The word that turns replay off.
const NO_REPLAY: &str = "none";

/// The word that keeps only the encoder of a fine-tuned model.
const ENCODER_ONLY: &str = "encoder";

/// Returns the task of a model's target.
fn task_of(tells: PredictionKind) -> TaskName {
    match tells {
        PredictionKind::Labels => TaskName::Labels,
        PredictionKind::Number => TaskName::Score,
        PredictionKind::Spans => TaskName::Tag,
        _ => TaskName::Classify,
    }
}

/// Returns the user's own model named by `--from`, if any, with its task. The architecture is then that of the model.
pub(super) fn base_model(args: &mut TrainArgs) -> anyhow::Result<Option<(BaseModel, TaskName)>> {
    let known = args.from.as_deref().map(BaseModel::read).transpose()?.flatten();
    if known.is_none()
        && let Some(folder) = &args.from
        && let Ok(ModelKind::Translator | ModelKind::Autoencoder) = ModelKind::from_folder(folder)
    {
        let folder = folder.display();
        refuse!(
            "--from {folder}: continued training is not available for translators and autoencoders; train a new model on the old and the new rows together",
            "--from {folder}: 翻訳モデルとオートエンコーダーは追加学習できません。元のデータと新しいデータを合わせて、学習し直してください"
        );
    }
    if uses_encoder_only(args, known.as_ref())? {
        args.old.clear();
        return Ok(None);
    }
    let (Some(mut known), Some(folder)) = (known, &args.from) else {
        if args.old.is_empty() {
            return Ok(None);
        }
        refuse!(
            "--old: only with a model of classes, labels, numbers or spans that `chumoku train` wrote as --from; leave it out",
            "--old: --from に、自分で学習したクラス・ラベル・数値・スパンのモデルのフォルダを指定したときだけ使えます。指定を外してください"
        );
    };
    let folder = folder.display();
    refuse_if!(
        args.data.is_none(),
        "--from {folder}: expected new rows for continued training; name a file",
        "--from {folder}: 追加学習には新しいデータが必要です。ファイルを指定してください"
    );
    let task = task_of(known.predicts);
    let is_other_task =
        args.task.is_some_and(|requested| requested != task) || args.multi_label.is_given() && task != TaskName::Labels;
    let refused = [
        ("--task", is_other_task),
        ("--model", args.model.is_some()),
        ("--freeze", args.freeze.is_some() && !known.is_fine_tuned),
        ("--lora", args.lora.is_some() && !known.is_fine_tuned),
        ("--columns", !args.columns.is_empty()),
        ("--folds", args.folds.is_some()),
        ("--tune", args.tune.is_some()),
    ];
    if let Some((flag, _)) = refused.into_iter().find(|(_, is_given)| *is_given) {
        let what = match known.predicts {
            PredictionKind::Labels => {
                lang().pick("any number of labels per text", "1 テキストにいくつでもラベルを付ける")
            }
            PredictionKind::Number => lang().pick("a number per text", "1 テキスト 1 数値の"),
            PredictionKind::Spans => lang().pick("labels of words", "単語にラベルを付ける"),
            _ => lang().pick("one class per text", "1 テキスト 1 クラスの"),
        };
        let mut problem = tr!(
            "{flag}: continued training of your own model ({folder}) keeps its task ({what}), its columns and its architecture; leave \
             {flag} out",
            "{flag}: 自分で学習したモデル（{folder}）は、{what}モデルのまま、読む列も変えずに、モデル全体を追加学習します。{flag} を外してください"
        );
        if known.is_fine_tuned && known.predicts != PredictionKind::Spans {
            problem += &tr!(
                ", or start from its encoder alone with --old {ENCODER_ONLY}",
                "。エンコーダーだけを使うには --old {ENCODER_ONLY} を指定してください"
            );
        }
        return Err(UsageError(problem).into());
    }
    if let Some(requested) = args.hierarchy.take() {
        known.set_hierarchy(&requested)?;
    }
    args.reading.feature_columns = known.column_requests();
    if let Some(folder) = &args.from {
        args.reading.use_training_source(folder);
    }
    if known.predicts == PredictionKind::Spans || known.is_fine_tuned {
        return Ok(Some((known, task)));
    }
    args.model = Some(match known.network {
        None => Architecture::Ngrams,
        Some(BackboneKind::Transformer) => Architecture::Transformer,
        Some(BackboneKind::Recurrent(RecurrentCell::Lstm)) => Architecture::Lstm,
        Some(BackboneKind::Recurrent(RecurrentCell::Gru)) => Architecture::Gru,
        Some(BackboneKind::Recurrent(_)) => Architecture::Rnn,
    });
    Ok(Some((known, task)))
}

/// Returns true if only the encoder of a fine-tuned model is used: on request, or if the task differs.
fn uses_encoder_only(args: &TrainArgs, known: Option<&BaseModel>) -> anyhow::Result<bool> {
    let is_one = known.is_some_and(|known| known.is_fine_tuned && known.predicts != PredictionKind::Spans);
    if args.old.iter().any(|word| word.as_os_str() == ENCODER_ONLY) {
        if is_one && args.old.len() == 1 {
            return Ok(true);
        }
        refuse!(
            "--old {ENCODER_ONLY}: only by itself, and only with a model of classes, labels or numbers that `chumoku train` fine-tuned from a pretrained \
             encoder as --from; leave it out",
            "--old {ENCODER_ONLY}: ほかの --old とは使えません。--from に、事前学習済みのエンコーダーから自分で学習したクラス・ラベル・数値のモデルを\
             指定したときだけ使えます。指定を外してください"
        );
    }
    let other = |known: &BaseModel| args.task.is_some_and(|task| task != task_of(known.predicts));
    if !(is_one && args.old.is_empty() && known.is_some_and(other)) {
        return Ok(false);
    }
    let folder = args.from.as_deref().unwrap_or(Path::new("")).display();
    let text = tr!(
        "{folder} was trained for another task: starting from its encoder only",
        "{folder} は別の課題のモデルなので、エンコーダーだけを使います"
    );
    print_status(["from", "元"], &text);
    Ok(true)
}

/// Loads a file with options for rows and for labels.
pub(super) type FileLoader<'a, F> = &'a dyn Fn(&Path, &ReadOptions, &LabelOptions) -> anyhow::Result<F>;

/// The source of old rows: a loader of files, or the built-in data.
pub(super) struct OldRowSource<'a, D: ReplayData> {
    pub(super) options: &'a ReadOptions,
    pub(super) load: FileLoader<'a, D::File>,
    /// The built-in data on which a model may have been trained.
    pub(super) built_in: Vec<D>,
}

/// Loads the old rows, and joins them with the new ones.
pub(super) fn continued_data<D: ReplayData<File: Append>>(
    args: &TrainArgs,
    known: &BaseModel,
    new: SourceData<D::File>,
    source: OldRowSource<'_, D>,
) -> anyhow::Result<D> {
    let folder = args.from.as_deref().unwrap_or(Path::new(""));
    let rows = D::texts(&new.train);
    let count_of_new = rows.len();
    if rows.into_iter().any(|row| row.is_pair() != known.reads_pairs) {
        let (new, folder) = (D::path(&new.train).display(), folder.display());
        return Err(UsageError(match known.reads_pairs {
            true => tr!(
                "{new}: expected two texts per row, like the training data of {folder}, found one; name both columns with --text a,b",
                "{new}: {folder} の学習データと同じく各行に 2 つのテキストが必要ですが、1 つです。2 つの列を --text a,b で指定してください"
            ),
            false => tr!(
                "{new}: expected one text per row, like the training data of {folder}, found two; name one column with --text",
                "{new}: {folder} の学習データと同じく各行に 1 つのテキストが必要ですが、2 つあります。1 つの列を --text で指定してください"
            ),
        })
        .into());
    }
    let is_none = |word: &PathBuf| word.as_os_str() == NO_REPLAY;
    refuse_if!(
        args.old.len() > 1 && args.old.iter().any(is_none),
        "--old none: conflicts with the files of other --old flags; leave one of the two out",
        "--old none: ほかのファイルも --old で指定されています。どちらかを外してください"
    );
    let path = D::path(&new.train);
    let same = |old: &PathBuf| old.canonicalize().is_ok_and(|old| path.canonicalize().is_ok_and(|new| new == old));
    if let Some(path) = args.old.iter().find(|path| same(path)) {
        refuse!(
            "--old {}: also the file of new rows; put the added rows into a separate file",
            "--old {}: 新しいデータと同じファイルです。書き足した行だけを別のファイルにしてください",
            path.display()
        );
    }
    let replays = args.old.first().is_none_or(|word| word.as_os_str() != NO_REPLAY);
    let old = match replays {
        true => Some(old_rows::<D>(&args.old, known, folder, &new.train, source)?),
        // Loads the old rows to measure forgetting, if they are available.
        false => old_rows::<D>(&[], known, folder, &new.train, source).ok(),
    };
    if old.is_none() {
        let text = tr!(
            "warning: the old rows cannot be read, so forgetting cannot be measured",
            "警告: 元のデータを読めないため、忘却の程度を測定できません"
        );
        print_status(["note", "注記"], &text);
    }
    let mut data = D::add_new(known, old.as_ref(), new, replays)?;
    let note = known.seen_held_out_note(&data.new_held_out_texts());
    data.notes().extend(note);
    let [old, new] = [old.as_ref().map_or(0, D::num_rows), count_of_new].map(format_thousands);
    let added = added_labels(known, &data);
    let folder = folder.display();
    let text = match replays {
        true => tr!(
            "continued training of {folder} on {old} old rows and {new} new ones; {added}",
            "{folder} を元の {old} 行と新しい {new} 行で追加学習。{added}"
        ),
        false => tr!(
            "continued training of {folder} on {new} new rows only; {added}",
            "{folder} を新しい {new} 行だけで追加学習。{added}"
        ),
    };
    print_status(["from", "元"], &text);
    Ok(data)
}

/// Describes what the model learns in addition: labels, classes or a wider range.
fn added_labels(known: &BaseModel, data: &impl ReplayData) -> String {
    if let Some([least, most]) = data.range() {
        let [low, high] = known.discretizer.range;
        return match low <= least && most <= high {
            true => tr!("numbers from {low} to {high}, as before", "数値の範囲は {low}〜{high} のまま"),
            false => tr!(
                "numbers from {least} to {most} (before: {low} to {high})",
                "数値の範囲は {least}〜{most}（これまでは {low}〜{high}）"
            ),
        };
    }
    let added: Vec<&String> = data.labels().iter().filter(|label| !known.labels.contains(label)).collect();
    let added = (!added.is_empty()).then(|| sanitize(&list_names(&added)));
    match (known.predicts, added) {
        (PredictionKind::Labels | PredictionKind::Spans, None) => tr!("no new label", "新しいラベルなし"),
        (PredictionKind::Labels | PredictionKind::Spans, Some(added)) => {
            tr!("new labels: {added}", "新しいラベル: {added}")
        }
        (_, None) => tr!("no new class", "新しいクラスなし"),
        (_, Some(added)) => tr!("new classes: {added}", "新しいクラス: {added}"),
    }
}

/// Loads the rows that the model was trained on, with their split: from files, or from the built-in data.
fn old_rows<D: ReplayData<File: Append>>(
    given: &[PathBuf],
    known: &BaseModel,
    folder: &Path,
    new: &D::File,
    source: OldRowSource<'_, D>,
) -> anyhow::Result<D> {
    let OldRowSource { options, load, built_in } = source;
    let is_of = |rows: &D| known.was_trained_on(&rows.sha256());
    if given.is_empty()
        && known.sources.is_empty()
        && let Some(rows) = built_in.into_iter().find(|rows| is_of(rows))
    {
        return Ok(rows);
    }
    let (remembered, named) = (known.sources.len(), given.len());
    let mut sources = known.sources.clone();
    if named == remembered {
        for (source, path) in sources.iter_mut().zip(given) {
            source.train = path.to_string_lossy().into_owned();
            source.also.clear();
            // If the files of held-out rows are gone, some rows of this one are held out instead.
            for other in [&mut source.valid, &mut source.test] {
                other.take_if(|name| !Path::new(name).is_file());
            }
        }
    } else if let [path] = given {
        sources = vec![DataSource::new(path, [None, None], options)];
    } else if named > 0 {
        let names: Vec<&str> = known.sources.iter().map(|source| source.train.as_str()).collect();
        let names = names.join(lang().pick(", ", "、"));
        refuse!(
            "--old: expected one file, or one for each training file of {} ({names}), found {named}",
            "--old: 1 つのファイルか、{} の学習に使ったファイル（{names}）と同じ数が必要ですが、{named} 個あります",
            folder.display()
        );
    }
    let how = tr!(
        "it is needed for replay, so that the model does not forget; name it with --old FILE, or train on the new rows only with --old none",
        "モデルに忘れさせないために必要です。--old でファイルを指定するか、--old none で新しいデータだけから学習してください"
    );
    let folder = folder.display();
    refuse_if!(
        sources.is_empty(),
        "--from {folder}: the folder does not record its training file; {how}",
        "--from {folder}: 学習に使ったファイルがフォルダに記録されていません。{how}"
    );
    let mut data: Option<D> = None;
    let mut before: Option<DataSource> = None;
    for source in sources {
        let (mut options, written) = (source.options(), source.label_options());
        options.features = known.column_requests();
        // Later files are read like the first, except for their own options.
        options.training_options = before.as_ref().map(|before| Box::new(before.options()));
        before = Some(before.map_or_else(|| source.clone(), |before| source.clone().with_defaults(&before)));
        let held_out = [&source.valid, &source.test].into_iter().flatten().find(|name| !Path::new(name).is_file());
        if let (true, Some(name)) = (given.is_empty() && Path::new(&source.train).is_file(), held_out) {
            let train = &source.train;
            refuse!(
                "--from {folder}: the file of held-out rows {name} is missing; restore it, or give --old {train} to hold out some of its rows \
                 instead",
                "--from {folder}: 検証・テスト用の {name} がありません。元に戻すか、--old {train} を指定してその一部を代わりに使ってください"
            );
        }
        let read = |name: &str| {
            if given.is_empty() && !Path::new(name).is_file() {
                return Err(anyhow::Error::from(UsageError(tr!(
                    "--from {folder}: the training file {name} is missing; {how}",
                    "--from {folder}: 学習に使った {name} がありません。{how}"
                ))));
            }
            output::add_input(Path::new(name))?;
            load(Path::new(name), &options, &written)
        };
        let mut train = read(&source.train)?;
        for name in &source.also {
            train.append(read(name)?)?;
        }
        D::check_compatible(&train, new)?;
        let [valid, test] = [&source.valid, &source.test].map(|name| name.as_deref().map(read).transpose());
        let files = SourceData::new(Some(source.clone()), train, [valid?, test?]);
        data = Some(D::read_old(known, data.as_ref(), files)?);
    }
    let Some(data) = data else { unreachable!("there is a source") };
    if is_of(&data) {
        return Ok(data);
    }
    if given.is_empty() {
        let names: Vec<String> = known.sources.iter().map(|source| source.train.clone()).collect();
        let (joined, flags) = (names.join(lang().pick(", ", "、")), names.join(" --old "));
        refuse!(
            "--from {folder}: the rows of {joined} have changed since the model was trained; name a file with the original rows with --old FILE, or use \
             the current ones with --old {flags}, or train on the new rows only with --old none; if new rows were added to the file, put them into a \
             separate file",
            "--from {folder}: {joined} の行が、学習に使ったときから変わっています。元の内容のファイルを --old で指定するか、今の内容でよければ\
             --old {flags} と指定するか、--old none で新しいデータだけから学習してください。新しい行を書き足したときは、新しい行だけを別の\
             ファイルにしてください"
        );
    }
    known.changed_rows_note(&data.sha256()).iter().for_each(|note| print_status(["note", "注記"], note));
    Ok(data)
}
