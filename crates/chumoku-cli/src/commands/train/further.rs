//! A classifier of one's own that is trained further: what is refused, its old rows beside the new ones, and what became of them.

use crate::args::{Model, TaskName, Train};
use crate::progress::tell;
use crate::report::{filled, fit, percent, right};
use crate::{Usage, harmless};
use chumoku::data::{Dataset, ReadOptions, thousands};
use chumoku::lang::lang;
use chumoku::lang::wording::listed;
use chumoku::nn::Network;
use chumoku::train::{Known, Source, SourceData, TrainingData, name_of_rows};
use chumoku::{Cell, ModelKind, builtin, pair, tr};
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The word that leaves the old rows out.
const NONE: &str = "none";

/// The classifier of one's own that `--from` names, if it does; the kind of model is then its own.
pub(super) fn of(args: &mut Train) -> anyhow::Result<Option<Known>> {
    let known = args.from.as_deref().map(Known::of).transpose()?.flatten();
    if known.is_none()
        && let Some(folder) = &args.from
        && matches!(ModelKind::of(folder), Ok(ModelKind::Tagger | ModelKind::Translator))
    {
        return Err(Usage(tr!(
            "--from {}: taggers and translators are not trained further; train anew on the old and the new rows together",
            "--from {}: 単語にラベルを付けるモデルと翻訳モデルは追加学習できません。元のデータと新しいデータを合わせて、学習し直してください",
            folder.display()
        ))
        .into());
    }
    let (Some(known), Some(folder)) = (known, &args.from) else {
        if args.old.is_empty() {
            return Ok(None);
        }
        return Err(Usage(tr!(
            "--old: only where --from holds a classifier that was trained here, and not from a pretrained encoder; leave it out",
            "--old: --from に、自分で学習した（事前学習済みのエンコーダーから始めたのではない）分類器のフォルダを指定したときだけ使えます。\
             指定を外してください"
        ))
        .into());
    };
    let folder = folder.display();
    if args.data.is_none() {
        return Err(Usage(tr!(
            "--from {folder}: expected new rows to train the classifier further on; give a file",
            "--from {folder}: 追加学習には新しいデータが必要です。ファイルを指定してください"
        ))
        .into());
    }
    let is_other_task = args.task.is_some_and(|task| task != TaskName::Classify) || args.several.is_asked();
    let refused = [
        ("--task", is_other_task),
        ("--model", args.model.is_some()),
        ("--freeze", args.freeze.is_some()),
        ("--lora", args.lora.is_some()),
        ("--columns", !args.columns.is_empty()),
        ("--hierarchy", args.hierarchy.is_some()),
        ("--folds", args.folds.is_some()),
        ("--tune", args.tune.is_some()),
    ];
    if let Some((flag, _)) = refused.into_iter().find(|(_, is_given)| *is_given) {
        return Err(Usage(tr!(
            "{flag}: a classifier of your own ({folder}) is trained further as it is: one class a text, the whole model; leave {flag} out",
            "{flag}: 自分で学習した分類器（{folder}）は、1 テキスト 1 クラスのまま、モデル全体を追加学習します。{flag} を外してください"
        ))
        .into());
    }
    args.model = Some(match known.network {
        None => Model::Ngrams,
        Some(Network::Transformer) => Model::Transformer,
        Some(Network::Recurrent(Cell::Lstm)) => Model::Lstm,
        Some(Network::Recurrent(Cell::Gru)) => Model::Gru,
        Some(Network::Recurrent(_)) => Model::Rnn,
    });
    Ok(Some(known))
}

/// How a labelled file is read.
type Read = fn(&Path, &ReadOptions) -> anyhow::Result<Dataset>;

/// The old rows, from files that `load` reads, and the new ones.
pub(super) fn data(
    args: &Train,
    known: &Known,
    options: &ReadOptions,
    new: &SourceData,
    load: Read,
) -> anyhow::Result<TrainingData> {
    let folder = args.from.as_deref().unwrap_or(Path::new(""));
    if new.train.examples.iter().any(|example| pair::parts(&example.text).is_some() != known.reads_pairs) {
        let (new, folder) = (new.train.path.display(), folder.display());
        return Err(Usage(match known.reads_pairs {
            true => tr!(
                "{new}: expected two texts a row, as {folder} was trained on, found one; name both columns with --text a,b",
                "{new}: {folder} の学習データと同じく各行に 2 つのテキストが必要ですが、1 つです。2 つの列を --text a,b で指定してください"
            ),
            false => tr!(
                "{new}: expected one text a row, as {folder} was trained on, found two; name one column with --text",
                "{new}: {folder} の学習データと同じく各行に 1 つのテキストが必要ですが、2 つあります。1 つの列を --text で指定してください"
            ),
        })
        .into());
    }
    let is_none = |word: &PathBuf| word.as_os_str() == NONE;
    if args.old.len() > 1 && args.old.iter().any(is_none) {
        return Err(Usage(tr!(
            "--old none: other files are given with --old too; leave one of the two out",
            "--old none: ほかのファイルも --old で指定されています。どちらかを外してください"
        ))
        .into());
    }
    let same = |path: &PathBuf| {
        path.canonicalize().is_ok_and(|path| new.train.path.canonicalize().is_ok_and(|new| new == path))
    };
    if let Some(path) = args.old.iter().find(|path| same(path)) {
        return Err(Usage(tr!(
            "--old {}: that is the file of new rows too; put the rows that were added into a file of their own",
            "--old {}: 新しいデータと同じファイルです。書き足した行だけを別のファイルにしてください",
            path.display()
        ))
        .into());
    }
    let replays = args.old.first().is_none_or(|word| word.as_os_str() != NONE);
    let old = match replays {
        true => Some(old_rows(&args.old, known, folder, (options, load))?),
        // To see what is forgotten, where they can be had.
        false => old_rows(&[], known, folder, (options, load)).ok(),
    };
    if old.is_none() {
        let text = tr!(
            "warning: the old rows cannot be read again, so what the model forgets cannot be seen",
            "警告: 元のデータを読めないため、モデルが忘れたことは確かめられません"
        );
        tell(["note", "注記"], &text);
    }
    let mut data = TrainingData::further(&known.labels, old.as_ref(), new, replays)?;
    data.notes.extend(known.held_out_again(&data));
    let count = |data: &TrainingData| data.train.len() + data.valid.len() + data.test.len();
    let [old, new] = [old.as_ref().map_or(0, count), new.train.examples.len()].map(thousands);
    let added: Vec<&String> = data.labels.iter().filter(|label| !known.labels.contains(label)).collect();
    let added = match added.is_empty() {
        true => tr!("no new class", "新しいクラスなし"),
        false => tr!("new classes: {}", "新しいクラス: {}", harmless(&listed(&added))),
    };
    let folder = folder.display();
    let text = match replays {
        true => tr!(
            "{folder} is trained further on {old} old rows and {new} new ones; {added}",
            "{folder} を元の {old} 行と新しい {new} 行で追加学習。{added}"
        ),
        false => tr!(
            "{folder} is trained further on {new} new rows alone; {added}",
            "{folder} を新しい {new} 行だけで追加学習。{added}"
        ),
    };
    tell(["from", "元"], &text);
    Ok(data)
}

/// The rows that the model was trained on, in the parts that they were in.
fn old_rows(
    given: &[PathBuf],
    known: &Known,
    folder: &Path,
    (options, load): (&ReadOptions, Read),
) -> anyhow::Result<TrainingData> {
    if given.is_empty() && known.sources.is_empty() {
        let reviews = builtin::reviews();
        if known.was_trained_on(&reviews) {
            return Ok(reviews);
        }
    }
    let (remembered, named) = (known.sources.len(), given.len());
    let mut sources = known.sources.clone();
    if named == remembered {
        for (source, path) in sources.iter_mut().zip(given) {
            source.train = path.to_string_lossy().into_owned();
            // Where the files of held-out rows are gone, some rows of this one are held out in their place.
            for other in [&mut source.valid, &mut source.test] {
                other.take_if(|name| !Path::new(name).is_file());
            }
        }
    } else if let [path] = given {
        sources = vec![Source::new(path, [None, None], options)];
    } else if named > 0 {
        let names: Vec<&str> = known.sources.iter().map(|source| source.train.as_str()).collect();
        let names = names.join(lang().pick(", ", "、"));
        return Err(Usage(tr!(
            "--old: expected one file, or one for each that {} was trained on ({names}), found {named}",
            "--old: 1 つのファイルか、{} の学習に使ったファイル（{names}）と同じ数が必要ですが、{named} 個あります",
            folder.display()
        ))
        .into());
    }
    let how = tr!(
        "it is needed so that the model does not forget; give it with --old FILE, or train on the new rows alone with --old none",
        "モデルに忘れさせないために必要です。--old でファイルを指定するか、--old none で新しいデータだけから学習してください"
    );
    let folder = folder.display();
    if sources.is_empty() {
        return Err(Usage(tr!(
            "--from {folder}: the folder does not say which file it was trained on; {how}",
            "--from {folder}: 学習に使ったファイルがフォルダに記録されていません。{how}"
        ))
        .into());
    }
    let mut data: Option<TrainingData> = None;
    for source in sources {
        let options = source.options();
        let held_out = [&source.valid, &source.test].into_iter().flatten().find(|name| !Path::new(name).is_file());
        if let (true, Some(name)) = (given.is_empty() && Path::new(&source.train).is_file(), held_out) {
            let train = &source.train;
            return Err(Usage(tr!(
                "--from {folder}: {name}, whose rows were held out, is not there; put it back, or give --old {train} to hold out some of its rows \
                 in their place",
                "--from {folder}: 検証・テスト用の {name} がありません。元に戻すか、--old {train} を指定してその一部を代わりに使ってください"
            ))
            .into());
        }
        let read = |name: &str| {
            if given.is_empty() && !Path::new(name).is_file() {
                return Err(anyhow::Error::from(Usage(tr!(
                    "--from {folder}: {name}, which it was trained on, is not there; {how}",
                    "--from {folder}: 学習に使った {name} がありません。{how}"
                ))));
            }
            load(Path::new(name), &options)
        };
        let train = read(&source.train)?;
        let [valid, test] = [&source.valid, &source.test].map(|name| name.as_deref().map(read).transpose());
        let files = SourceData::new(Some(source.clone()), train, [valid?, test?]);
        data = Some(TrainingData::further(&known.labels, data.as_ref(), &files, true)?);
    }
    let data = data.unwrap_or_default();
    if known.was_trained_on(&data) {
        return Ok(data);
    }
    if given.is_empty() {
        let names: Vec<String> = known.sources.iter().map(|source| source.train.clone()).collect();
        let (joined, asked) = (names.join(lang().pick(", ", "、")), names.join(" --old "));
        return Err(Usage(tr!(
            "--from {folder}: the rows of {joined} are no longer those that it was trained on; give them as they were with --old FILE, or as \
             they are now with --old {asked}, or train on the new rows alone with --old none; where new rows were added to it, put them into a \
             file of their own",
            "--from {folder}: {joined} の行が、学習に使ったときから変わっています。元の内容のファイルを --old で指定するか、今の内容でよければ\
             --old {asked} と指定するか、--old none で新しいデータだけから学習してください。新しい行を書き足したときは、新しい行だけを別の\
             ファイルにしてください"
        ))
        .into());
    }
    let text = tr!(
        "warning: the old rows are not those that the model was trained on, in the same parts: some that are held out now it may have \
         learnt from",
        "警告: 元のデータが、モデルの学習に使ったものと同じではありません。いま検証やテストに使う行を、モデルは学習したかもしれません"
    );
    tell(["note", "注記"], &text);
    Ok(data)
}

/// What became of old and new rows; nothing where no model was trained further.
pub(super) fn shown(further: &Value) -> String {
    let Some(changes) = further["changes"].as_array() else { return String::new() };
    let headings = match lang() {
        chumoku::Lang::En => ["rows", "before", "after", "gain, 95 % interval"],
        chumoku::Lang::Ja => ["行数", "前", "後", "増減と 95 % 区間"],
    };
    let [before, after] = [headings[1], headings[2]].map(|heading| right(heading, 8));
    let rows = right(headings[0], 6);
    let title = tr!("Accuracy before and after", "追加学習前後の正解率");
    let mut taken_for_new = 0;
    let mut out = format!("\n{} {rows} {before} {after}  {}\n", fit(&title, 28), headings[3]);
    for change in changes {
        let figure = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let [before, after] = ["before", "after"].map(|when| right(&percent(figure(&change[when]["accuracy"])), 8));
        let [low, high] = [0, 1].map(|end| format!("{:+.1}", 100.0 * figure(&change["interval"][end])));
        let gain = right(&format!("{:+.1}", 100.0 * figure(&change["gain"])), 5);
        let rows = right(&thousands(change["rows"].as_u64().unwrap_or_default() as usize), 6);
        let name = fit(&format!("  {}", name_of_rows(change["rows_of"].as_str().unwrap_or_default())), 28);
        let interval = tr!("{low} to {high}", "{low}〜{high}");
        if change["rows_of"].as_str().is_some_and(|name| name.starts_with("old")) {
            taken_for_new = taken_for_new.max(change["taken_for_new"].as_u64().unwrap_or_default());
        }
        let _ = writeln!(out, "{name} {rows} {before} {after}  {gain} ({interval})");
    }
    if further["forgets"] == true {
        let mut text = tr!(
            "warning: on old rows the model is worse than before, by more than chance explains.",
            "警告: 元のデータでの正解率が、偶然では説明できないほど下がりました。"
        );
        if taken_for_new > 0 {
            let rows = thousands(taken_for_new as usize);
            text += &tr!(" It takes {rows} of them for new classes.", "{rows} 行は新しいクラスと判定されています。");
        }
        if further["replays"] != true {
            text += &tr!(
                " Without --old none it learns the old rows again.",
                "--old none を外すと、元のデータも学習します。"
            );
        }
        out += &format!("\n{}\n", filled(&text));
    }
    out
}
