//! `chumoku compare`: a transformer beside recurrent networks of its size.

use super::read_options;
use super::train::classify;
use crate::args::Compare;
use crate::progress::{Progress, duration};
use crate::report::{fit, percent};
use crate::threads;
use chumoku::compare::{Comparison, LENGTHS, Stage, Verdict, compare, to_svg};
use chumoku::data::AtomicOutput;
use chumoku::data::thousands;
use chumoku::train::{TrainOptions, TrainingData};
use std::fmt::Write as _;
use std::io::{Write, stdout};
use std::process::ExitCode;
use std::time::Duration;

/// Columns of a line.
const WIDTH: usize = 80;

pub(crate) fn run(args: &Compare) -> anyhow::Result<ExitCode> {
    threads::start(args.threads)?;
    // Before minutes of work: a place that cannot be written to.
    let svg = args.svg.as_deref().map(AtomicOutput::create).transpose()?;
    let data = match &args.data {
        None => classify::built_in(),
        Some(path) => TrainingData::new(&classify::load(path, &read_options(&args.reading, true))?, None, None)?,
    };
    classify::describe(&data);
    let options = TrainOptions {
        seed: args.seed,
        epochs: args.epochs,
        precision: args.precision.into(),
        ..TrainOptions::default()
    };
    let mut progress = Progress::new();
    let comparison = compare(&data, &options, &mut |stage| match stage {
        Stage::Training(name) => {
            progress.finish();
            say!("\ntraining  {name}");
        }
        Stage::Event(event) => progress.show(event),
        Stage::Timing(length) => {
            progress.finish();
            say!("timing    steps of length {}", thousands(length));
        }
    });
    progress.finish();
    let comparison = comparison?;
    if let Some((path, file)) = args.svg.as_ref().zip(svg) {
        file.commit_with(to_svg(&comparison).as_bytes())?;
        say!("wrote     {}", path.display());
    }
    say!("");
    match args.json {
        true => writeln!(stdout(), "{}", serde_json::to_string(&comparison)?)?,
        false => write!(stdout(), "{}", text(&comparison))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The tables and what they say, in lines of at most 80 columns.
fn text(c: &Comparison) -> String {
    let mut out = String::new();
    let rows = match c.scored_on.as_str() {
        "test" => "rows that training never saw",
        "valid" => "validation rows: optimistic figures",
        _ => "training rows: these figures say nothing about new texts",
    };
    let _ = writeln!(out, "Networks alone, on {} {rows}:\n", thousands(c.rows));
    let _ = writeln!(out, "{:<30}{:>11}{:>10}{:>10}  95 % interval", "", "parameters", "accuracy", "macro-F1");
    for model in &c.models {
        let [low, high] = model.macro_f1_interval.map(percent);
        let _ = writeln!(
            out,
            "{}{:>11}{:>10}{:>10}  {} to {}",
            fit(&model.name(), 30),
            thousands(model.parameters),
            percent(model.accuracy),
            percent(model.macro_f1),
            low.trim_end_matches(" %"),
            high
        );
    }
    let _ = writeln!(out, "\n{:<30}{:>8}{:>10}  sizes", "", "epochs", "trained");
    for model in &c.models {
        let time = duration(Duration::from_secs_f64(model.training_seconds));
        let _ = writeln!(out, "{}{:>8}{time:>10}  {}", fit(&model.name(), 30), model.epochs, model.sizes);
    }
    let _ = writeln!(
        out,
        "\nMilliseconds of a training step, {} sequences of one length (medians;\n{}, {}, {} threads):\n",
        c.batch, c.precision, c.isa, c.threads
    );
    let _ =
        writeln!(out, "{}{}", fit("length", 30), LENGTHS.map(|length| format!("{:>8}", thousands(length))).concat());
    for model in &c.models {
        let times = LENGTHS.map(|length| model.milliseconds(length).map_or(String::new(), |ms| format!("{ms:.1}")));
        let _ = writeln!(out, "{}{}", fit(&model.name(), 30), times.map(|ms| format!("{ms:>8}")).concat());
    }
    let _ = writeln!(out, "\nWhat is said of self-attention, and what came out here:\n");
    for claim in &c.claims {
        let verdict = match claim.verdict {
            Verdict::Holds => "holds",
            Verdict::DoesNotHold => "does not hold",
            Verdict::Open => "cannot be told",
        };
        let _ = writeln!(out, "{verdict:<16}{}", wrapped(&claim.claim));
        let _ = writeln!(out, "{:<16}{}", "", wrapped(&format!("({})", claim.found)));
    }
    out
}

/// Words in lines that leave room for the verdict.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = &lines[lines.len() - 1];
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH - 16 {
            lines.push(String::new());
        }
        let last = lines.len() - 1;
        let gap = if lines[last].is_empty() { "" } else { " " };
        lines[last] += &format!("{gap}{word}");
    }
    lines.join(&format!("\n{}", " ".repeat(16)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku::compare::{Article, Claim, Compared, StepTime};
    use chumoku::nn::{Network, PositionKind};

    #[test]
    fn tables_fit_and_show_the_figures() {
        let step = |length| StepTime { length, median_ms: length as f64 + 0.25, min_ms: 1.0, max_ms: 9e4, runs: 5 };
        let model = |network, position| Compared {
            network,
            position,
            sizes: "1 layer, width 1024, both ways".into(),
            parameters: 123_456_789,
            accuracy: 1.0,
            macro_f1: 0.98765,
            macro_f1_interval: [0.9, 1.0],
            epochs: 60,
            training_seconds: 3599.0,
            steps: LENGTHS.map(step).to_vec(),
        };
        let claim = |verdict| Claim { claim: "one word ".repeat(20), verdict, found: "another word ".repeat(15) };
        let comparison = Comparison {
            models: vec![
                model(Network::Transformer, PositionKind::Learned),
                model(Network::Recurrent(chumoku::Cell::Lstm), PositionKind::None),
            ],
            batch: 32,
            rows: 12_345,
            scored_on: "test".into(),
            seed: 1,
            precision: "highest",
            isa: "avx512",
            threads: 16,
            article: Article { lstm_parameters: 1, attention_parameters: 1, lstm_ms: 1.0, attention_ms: 1.0 },
            claims: [Verdict::Holds, Verdict::DoesNotHold, Verdict::Open].map(claim).to_vec(),
        };
        let text = text(&comparison);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        for figure in ["123,456,789", "100.0 %", "98.8 %", "90.0 to 100.0 %", "60 min", "1024.2", "does not hold"] {
            assert!(text.contains(figure), "{figure}: {text}");
        }
        assert!(text.contains("transformer, learned positions") && text.contains("\nLSTM"), "{text}");
    }

    #[test]
    fn lines_are_wrapped_at_words() {
        let text = "a claim of several words ".repeat(9);
        let lines = wrapped(text.trim());
        assert!(lines.lines().all(|line| line.trim_start().chars().count() <= WIDTH - 16), "{lines}");
        assert_eq!(lines.split_whitespace().collect::<Vec<_>>(), text.split_whitespace().collect::<Vec<_>>());
    }
}
