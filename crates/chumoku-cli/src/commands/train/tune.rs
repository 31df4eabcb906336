//! Settings by name and the search for them: checks of flags, and results.

use crate::UsageError;
use crate::args::{Architecture, TaskName, TrainArgs};
use crate::report::{align_right, paragraph, wrap};
use chumoku::Lang;
use chumoku::lang::lang;
use chumoku::tr;
use chumoku::train::{Setting, TrialRow, best_trials, gain_sentences};

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

/// Formats the trials, best first, and their gain. Empty without trials.
pub(super) fn format_trials(tuning: &serde_json::Value) -> String {
    const MOST: usize = 8;
    const INDENT: usize = 22;
    const WIDTH: usize = 80;
    let Some(tried) = tuning["trials"].as_u64() else { return String::new() };
    let rows = tuning["valid_rows"].as_u64().unwrap_or_default();
    let [loss, accuracy] = match lang() {
        Lang::En => ["log-loss", "accuracy"],
        Lang::Ja => ["対数損失", "正解率"],
    };
    let [loss, accuracy] = [loss, accuracy].map(|head| align_right(head, 9));
    let mut out = tr!(
        "\nSettings tried: {tried}. The best on the {rows} validation rows:\n\n {loss} {accuracy}  settings\n",
        "\n試した設定: {tried} 通り。検証データ {rows} 行で良かったもの:\n\n {loss} {accuracy}  設定\n"
    );
    for TrialRow { log_loss, accuracy, settings, is_chosen, .. } in best_trials(tuning, MOST) {
        // Wraps long settings at commas.
        let set =
            wrap(&settings.replace(',', ", "), WIDTH - INDENT).replace('\n', &format!("\n{}", " ".repeat(INDENT)));
        let mark = if is_chosen { '*' } else { ' ' };
        out += &format!("{mark}{log_loss:>9.4} {:>8.1} %  {set}\n", 100.0 * accuracy);
    }
    let said = gain_sentences(tuning).join(lang().pick(" ", ""));
    out + "\n" + &paragraph(&said) + "\n"
}
