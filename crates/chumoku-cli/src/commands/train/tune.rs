//! Settings by name and the search for them: checks of flags, and results.

use crate::UsageError;
use crate::args::{Architecture, TaskName, TrainArgs};
use chumoku::tr;
use chumoku::train::Setting;

/// Refuses flags that do not apply to the task or the model.
pub(super) fn check(args: &TrainArgs, task: TaskName) -> anyhow::Result<()> {
    let refused = |problem: String| Err(UsageError(problem).into());
    if args.tune.is_some() && task != TaskName::Classify {
        return refused(tr!(
            "--tune: only for data with one class per text; leave it out, or give --task classify",
            "--tune: 設定を探せるのは 1 テキスト 1 クラスのときだけです。指定を外すか、--task classify を指定してください"
        ));
    }
    let apart = [("--folds", args.folds.is_some()), ("--watch", args.watch.is_some())];
    if let (Some((flag, _)), true) = (apart.into_iter().find(|(_, is_given)| *is_given), args.tune.is_some()) {
        return refused(tr!(
            "--tune: conflicts with {flag}; tune first, then use {flag} with the settings found (--settings)",
            "--tune: {flag} とは一緒に使えません。先にチューニングし、見つかった設定を --settings で {flag} と一緒に指定してください"
        ));
    }
    let Some(set) = &args.settings else { return Ok(()) };
    if !matches!(task, TaskName::Classify | TaskName::Labels | TaskName::Score) {
        return refused(tr!(
            "--settings: only to predict classes, labels or numbers; leave it out",
            "--settings: クラス、複数のラベル、数値の予測だけで使えます。指定を外してください"
        ));
    }
    let is_pretrained = args.from.is_some() || !args.unlabelled.is_empty();
    set.check(args.architecture() != Architecture::Ngrams, is_pretrained)?;
    let twice = [(Setting::Epochs, args.epochs.is_some()), (Setting::Tokens, args.tokens.is_some())];
    match set.settings().find(|setting| twice.contains(&(*setting, true))) {
        Some(setting) => {
            let name = setting.name();
            refused(tr!(
                "--{name}, --settings {name}: the same setting; give one of them",
                "--{name} と --settings {name} は同じ設定です。どちらか一方を指定してください"
            ))
        }
        None => Ok(()),
    }
}

/// The message for Ctrl-C.
pub(super) fn stop_message() -> String {
    tr!(
        "stopping: finished trials are kept, and --resume continues (press again to exit at once)",
        "停止します。済んだ試行は残り、--resume で続けられます（もう一度押すとすぐに終了します）"
    )
}
