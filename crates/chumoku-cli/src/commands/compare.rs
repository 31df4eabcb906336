//! Implements `chumoku compare`: a transformer next to recurrent networks of its size.

use crate::args::CompareArgs;
use crate::data::{builtin_reviews, load_class_rows, read_options, report_class_rows};
use crate::progress::{TrainProgress, format_duration, print_status};
use crate::report::{align_right, fit, percent, wrap};
use crate::{ExitCode, threads};
use chumoku::compare::{CompareEvent, LENGTHS, NetworkComparison, Verdict, compare};
use chumoku::data::format_thousands;
use chumoku::lang::lang;
use chumoku::train::{TrainOptions, TrainingData};
use chumoku::{Lang, tr};
use chumoku_view::comparison_figure;
use std::fmt::Write as _;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Columns of a line.
const WIDTH: usize = 80;

/// Columns of a verdict, in front of its claim.
const MARGIN: usize = 15;

pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    threads::start_pool(args.threads)?;
    let args = &mut args.clone();
    if let Some(data) = &mut args.data {
        args.reading.buffer_pipe(data)?;
    }
    let data = match &args.data {
        None => {
            args.reading.check_no_file()?;
            builtin_reviews()
        }
        Some(path) => TrainingData::new(&load_class_rows(path, &read_options(&args.reading, true)?)?, None, None)?,
    };
    report_class_rows(&data);
    let mut options = TrainOptions::default();
    options.seed = args.seed;
    options.epochs = args.epochs;
    options.precision = args.precision.into();
    let mut progress = TrainProgress::new(std::time::Instant::now());
    let comparison = compare(&data, &options, &checkpoint_folder(args), &mut |stage| match stage {
        CompareEvent::Training(name) => {
            progress.finish();
            say!("");
            print_status(["training", "学習"], &name);
        }
        CompareEvent::Event(event) => progress.show(event),
        CompareEvent::Timing([sweep, of]) => {
            progress.finish();
            let text = tr!("sweep {sweep} of {of} over all lengths", "すべての長さを通して {of} 回中 {sweep} 回目");
            print_status(["timing", "計測"], &text);
        }
        CompareEvent::TimingEstimated(time) => {
            let time = format_duration(time);
            print_status(["timing", "計測"], &tr!("expected time {time} more", "予想時間 あと {time}"));
        }
        _ => {}
    });
    progress.finish();
    let comparison = comparison?;
    let drawn = args.svg.as_ref().map_or(Ok(()), |path| -> anyhow::Result<()> {
        path.write(comparison_figure(&comparison, lang()).scene().to_svg())?;
        print_status(["wrote", "書き出し"], &path.display().to_string());
        Ok(())
    });
    say!("");
    match args.json {
        true => writeln!(stdout(), "{}", serde_json::to_string(&comparison)?)?,
        false => write!(stdout(), "{}", format_comparison(&comparison))?,
    }
    // The scores took minutes: print them even if the picture cannot be written.
    drawn?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the folder for temporary checkpoints: that of the picture, or else the system's.
fn checkpoint_folder(args: &CompareArgs) -> PathBuf {
    let Some(svg) = &args.svg else { return std::env::temp_dir() };
    let folder = svg.as_path().parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

/// Formats the tables and verdicts in lines of at most 80 columns.
fn format_comparison(c: &NetworkComparison) -> String {
    let mut out = String::new();
    let rows = format_thousands(c.rows);
    let on = match c.scored_on.as_str() {
        "test" => tr!(
            "Networks alone, on {rows} test rows, not used in training:",
            "ネットワーク単独、学習に使っていない {rows} 行での結果:"
        ),
        "valid" => tr!(
            "Networks alone, on {rows} validation rows (optimistic):",
            "ネットワーク単独、検証データ {rows} 行での結果（楽観的な値です）:"
        ),
        _ => tr!(
            "Networks alone, on {rows} training rows (no estimate for new texts):",
            "ネットワーク単独、学習データ {rows} 行での結果\n（新しいテキストについては何も分かりません）:"
        ),
    };
    let _ = writeln!(out, "{on}\n");
    let [parameters, accuracy, macro_f1] = match lang() {
        Lang::En => ["parameters", "accuracy", "macro-F1"],
        Lang::Ja => ["パラメータ", "正解率", "マクロ F1"],
    };
    let _ = writeln!(
        out,
        "{:<30}{}{}{}  {}",
        "",
        align_right(parameters, 11),
        align_right(accuracy, 10),
        align_right(macro_f1, 10),
        lang().pick("95 % interval", "95 % 区間")
    );
    for model in &c.models {
        let [low, high] = model.macro_f1_interval.map(percent);
        let _ = writeln!(
            out,
            "{}{:>11}{:>10}{:>10}  {}",
            fit(&model.name(), 30),
            format_thousands(model.parameters),
            percent(model.accuracy),
            percent(model.macro_f1),
            tr!("{} to {high}", "{}〜{high}", low.trim_end_matches(" %"))
        );
    }
    let [epochs, trained, sizes] = match lang() {
        Lang::En => ["epochs", "trained", "sizes"],
        Lang::Ja => ["エポック", "学習時間", "大きさ"],
    };
    let _ = writeln!(out, "\n{:<30}{}{}  {sizes}", "", align_right(epochs, 8), align_right(trained, 10));
    for model in &c.models {
        let time = format_duration(Duration::from_secs_f64(model.training_seconds));
        let (time, sizes) = (align_right(&time, 10), &model.sizes);
        let _ = writeln!(out, "{}{:>8}{time}  {sizes}", fit(&model.name(), 30), model.epochs);
    }
    let title = tr!(
        "Milliseconds of a training step, {} sequences of one length (medians;\n{}, {}, {} threads):",
        "学習 1 ステップのミリ秒、同じ長さの系列 {} 本（中央値。\n{}、{}、{} スレッド）:",
        c.batch,
        c.precision,
        c.isa,
        c.threads
    );
    let _ = writeln!(out, "\n{title}\n");
    let _ = writeln!(
        out,
        "{}{}",
        fit(lang().pick("length", "長さ"), 30),
        LENGTHS.map(|length| format!("{:>8}", format_thousands(length))).concat()
    );
    for model in &c.models {
        let times = LENGTHS.map(|length| model.milliseconds(length).map_or(String::new(), |ms| format!("{ms:.1}")));
        let _ = writeln!(out, "{}{}", fit(&model.name(), 30), times.map(|ms| format!("{ms:>8}")).concat());
    }
    let seed = c.seed;
    let title = tr!(
        "Common claims about self-attention, and the results here\n(verdicts are about these models with seed {seed}; \
         brackets hold 95 % intervals):",
        "セルフアテンションについての主張と、ここでの結果\n（判定はこのモデル、シード {seed} についてのもの。括弧内は 95 % の区間）:"
    );
    let _ = writeln!(out, "\n{title}\n");
    for claim in &c.claims {
        let verdict = match claim.verdict {
            Verdict::Holds => tr!("holds", "成り立つ"),
            Verdict::DoesNotHold => tr!("does not hold", "成り立たない"),
            Verdict::Open => tr!("not decided", "決まらない"),
        };
        let _ = writeln!(out, "{}{}", fit(&verdict, MARGIN), wrap_verdict(claim.claim.in_lang(lang())));
        let _ = writeln!(out, "{:<MARGIN$}{}", "", wrap_verdict(claim.found.in_lang(lang())));
        if let Some(what) = claim.would_decide.as_ref().map(|message| message.in_lang(lang())) {
            let line = tr!("what would decide it: {what}", "決めるには: {what}");
            let _ = writeln!(out, "{:<MARGIN$}{}", "", wrap_verdict(&line));
        }
    }
    out
}

/// Wraps text into lines that leave room for the verdict.
fn wrap_verdict(text: &str) -> String {
    wrap(text, WIDTH - MARGIN).replace('\n', &format!("\n{}", " ".repeat(MARGIN)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku::compare::{
        ArticleResults, Claim, ComparedNetwork, LocalizedText, MedianInterval, RecurrentLimits, StepTime,
    };
    use chumoku::nn::{BackboneKind, PositionKind};

    #[test]
    fn tables_fit_eighty_columns_and_show_the_scores() {
        let step = |length| StepTime {
            length,
            median_ms: length as f64 + 0.25,
            min_ms: 1.0,
            max_ms: 9e4,
            runs: 5,
            all_ms: vec![],
        };
        let model = |network, position| ComparedNetwork {
            network,
            position,
            sizes: "1 layer, width 1024, both ways".into(),
            width: 1024,
            parameters: 123_456_789,
            accuracy: 1.0,
            macro_f1: 0.98765,
            macro_f1_interval: [0.9, 1.0],
            epochs: 60,
            training_seconds: 3599.0,
            steps: LENGTHS.map(step).to_vec(),
            growth: None,
            is_right: vec![],
        };
        let words = |word: &str| LocalizedText { en: word.repeat(15), ja: word.repeat(15) };
        let claim = |verdict| Claim {
            claim: words("one word "),
            verdict,
            found: words("another word "),
            would_decide: (verdict == Verdict::Open).then(|| words("more rows ")),
        };
        let comparison = NetworkComparison {
            models: vec![
                model(BackboneKind::Transformer, PositionKind::Learned),
                model(BackboneKind::Recurrent(chumoku::RecurrentCell::Lstm), PositionKind::None),
            ],
            batch: 32,
            rows: 12_345,
            scored_on: "test".into(),
            seed: 1,
            precision: "highest",
            isa: "avx512",
            threads: 16,
            limits: RecurrentLimits::default(),
            article: ArticleResults {
                lstm_parameters: 1,
                attention_parameters: 1,
                lstm_ms: 1.0,
                attention_ms: 1.0,
                speedup: MedianInterval { low: 1.0, median: 1.0, high: 1.0 },
            },
            claims: [Verdict::Holds, Verdict::DoesNotHold, Verdict::Open].map(claim).to_vec(),
        };
        let text = format_comparison(&comparison);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        for figure in [
            "123,456,789",
            "100.0 %",
            "98.8 %",
            "90.0 to 100.0 %",
            "60 min",
            "1024.2",
            "does not hold",
            "what would decide it: more rows",
        ] {
            assert!(text.contains(figure), "{figure}: {text}");
        }
        assert!(text.contains("transformer, learned positions") && text.contains("\nLSTM"), "{text}");
    }
}
