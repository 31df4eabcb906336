//! Flags of each command with valid, boundary and senseless values.

use crate::random::Random;

/// The kind of value that a flag takes.
#[derive(Clone, Copy)]
enum FlagValue {
    None,
    /// One of these values.
    OneOf(&'static [&'static str]),
    /// A small whole number.
    Count,
    Real,
    /// A layer and head, or several.
    Heads,
    Text,
    /// An output file.
    Out,
    /// The column of a table.
    Column,
}

use FlagValue::{Column, Count, Heads, None as Alone, OneOf, Out, Real, Text};

type FlagTable = &'static [(&'static str, FlagValue)];

const READING: FlagTable = &[
    ("--text", Column),
    ("--label", Column),
    ("--encoding", OneOf(&["utf-8", "shift_jis", "euc-jp", "utf-16le", "windows-1252", "latin9", "x", "iso-2022-jp"])),
    ("--sheet", Text),
    ("--skip-bad-rows", Alone),
    ("--header", OneOf(&["yes", "no", "auto", "maybe"])),
    ("--missing", OneOf(&["none", "NaN,?", "", ",", "a"])),
    ("--merge-labels", Alone),
];
const PICTURES: FlagTable = &[("--svg", Out), ("--png", Out), ("--pdf", Out), ("--font", Out)];
const EVERYWHERE: FlagTable = &[("--lang", OneOf(&["en", "ja", "de"])), ("--help", Alone), ("--version", Alone)];
const THREADS: FlagTable = &[("--threads", OneOf(&["1", "2", "3", "64", "0", "1025", "-1"]))];

const PRECISION: (&str, FlagValue) = ("--precision", OneOf(&["highest", "high", "medium", "low"]));

const TRAIN: FlagTable = &[
    ("--builtin", OneOf(&["pronouns", "reviews", "dates", "x"])),
    ("--task", OneOf(&["classify", "labels", "score", "tag", "translate", "autoencode", "lm", "mlm"])),
    ("--bottleneck", OneOf(&["1", "8", "0", "1025", "x"])),
    ("--from", OneOf(&["model", "other", "missing", "."])),
    ("--old", OneOf(&["a.csv", "none", "missing"])),
    ("--freeze", OneOf(&["none", "embeddings", "1", "all", "9", "-1"])),
    ("--unlabelled", OneOf(&["a.csv", "notes.txt", "missing"])),
    ("--model", OneOf(&["transformer", "rnn", "lstm", "gru"])),
    ("--class-weights", OneOf(&["balanced", "equal", "a=2", "a=2,b=0", "a", "=", "a=nan", "x=1"])),
    ("--optimize", OneOf(&["macro-f1", "accuracy"])),
    ("--hierarchy", OneOf(&["/", " > ", "none", "a.csv", "missing", "::"])),
    ("--columns", OneOf(&["n", "a", "n:category", "a:number,b", "label", "x", ",", ":date", "n,n"])),
    ("--folds", OneOf(&["2", "3", "1", "101", "-1"])),
    ("--tune", OneOf(&["2", "4", "1s", "0", "10x", "-1"])),
    (
        "--settings",
        OneOf(&["dropout=0.2", "words=1,inside-words=none", "heads=3", "words=2,words=3", "x=1", "=", "c="]),
    ),
    ("--tokens", OneOf(&["subwords", "characters", "words"])),
    ("--seed", Count),
    ("--precision", OneOf(&["highest", "high", "medium"])),
    ("--parts", OneOf(&["1", "3", "64", "0", "65", "-1"])),
    ("--profile", Alone),
    ("--resume", Alone),
    ("--force", Alone),
    ("--watch", Text),
    ("--json", Alone),
];
const PREDICT: FlagTable = &[
    ("--json", Alone),
    ("--top", Count),
    ("--abstain", OneOf(&["0.5", "0.9", "0.9999", "0", "1", "95", "nan", "-1"])),
    ("--threshold", OneOf(&["a=0.5", "b=0.9", "0.3", "0", "a=", "=0.5", "nan", "a=b=0.5"])),
    ("--precision-at-least", OneOf(&["a=0.5", "b=0.9", "0.3", "1", "a=1", "x=0.9"])),
    ("--html", Out),
    ("--set", OneOf(&["n=1", "a=", "=1", "n", "n=1e999", "x=1"])),
    ("--profile", Alone),
    PRECISION,
];
const DOCTOR: FlagTable = &[
    ("--test", OneOf(&["a.csv", "notes.txt", "missing"])),
    ("--unlabelled", OneOf(&["a.csv", "notes.txt", "missing"])),
    ("--folds", OneOf(&["2", "5", "1", "101", "-1"])),
    ("--seed", Count),
    ("--out", Out),
    ("--force", Alone),
    ("--bom", Alone),
    ("--json", Alone),
];
const EMBED: FlagTable = &[
    PRECISION,
    ("--format", OneOf(&["jsonl", "npy", "safetensors", "csv"])),
    ("--prompt", Text),
    ("--no-normalize", Alone),
    ("--out", Out),
];
const NEAREST: FlagTable = &[
    PRECISION,
    ("--top", OneOf(&["1", "3", "0", "18446744073709551615"])),
    ("--prompt", Text),
    ("--corpus-prompt", Text),
    ("--json", Alone),
];
const TRANSLATE: FlagTable = &[
    PRECISION,
    ("--json", Alone),
    ("--alignment", Alone),
    ("--beam", OneOf(&["1", "2", "5", "40", "0"])),
    ("--n-best", OneOf(&["1", "2", "5", "40", "0"])),
    ("--length-penalty", Real),
];
const GENERATE: FlagTable = &[
    PRECISION,
    ("--json", Alone),
    ("--max-tokens", OneOf(&["1", "5", "60", "0", "-1"])),
    ("--temperature", Real),
    ("--top-k", Count),
    ("--top-p", Real),
    ("--seed", Count),
    ("--no-chat", Alone),
    ("--system", Text),
];
const EXPLAIN: FlagTable = &[
    PRECISION,
    ("--target", Text),
    ("--of-label", Text),
    ("--set", OneOf(&["n=1", "a=", "=1", "n", "x=1"])),
    ("--faithfulness", OneOf(&["notes.txt", "model", "missing"])),
    ("--seed", Count),
    ("--errors", OneOf(&["a.csv", "notes.txt", "model", "missing"])),
    ("--top", Count),
    ("--method", OneOf(&["leave-one-out", "integrated-gradients"])),
    ("--layer", Count),
    ("--head", Count),
    ("--view", OneOf(&["heatmap", "lines", "grid", "depth", "values", "rollout", "effects", "curves"])),
    ("--sort", OneOf(&["place", "role", "entropy", "distance", "previous", "first", "strongest", "sink", "effect"])),
    ("--threshold", Real),
    ("--query", Count),
    ("--key", Count),
    ("--without", Heads),
    ("--compare-text", Text),
    ("--compare-head", Heads),
    ("--compare-model", OneOf(&["model", "other", "missing"])),
    ("--patch", Text),
    (
        "--align",
        OneOf(&["1:1", "1-2:1-2", "1-2:1-3", "0:1", "9999:1", "18446744073709551615:1", "1-9999999999:1-9999999999"]),
    ),
    ("--generate", Count),
    ("--lens", Alone),
    ("--html", Out),
    ("--json", Out),
];
const TRACE: FlagTable = &[
    PRECISION,
    ("--format", OneOf(&["text", "md", "html", "latex", "json", "xlsx"])),
    ("--depth", OneOf(&["shapes", "steps", "all"])),
    ("--digits", Count),
    ("--size", Count),
    ("--head", Count),
    ("--layer", Count),
    ("--part", OneOf(&["encoder", "decoder", "cross"])),
    ("--target", Text),
    ("--out", Out),
    ("--backward", Alone),
    ("--beam", OneOf(&["1", "2", "3", "0", "18446744073709551615"])),
    ("--steps", OneOf(&["1", "3", "0", "18446744073709551615"])),
    ("--tokens", Alone),
];
const POSITION: FlagTable = &[
    ("--kind", OneOf(&["sinusoidal", "rotary"])),
    ("--model", OneOf(&["model", "missing"])),
    ("--length", OneOf(&["1", "2", "48", "500", "0", "4097", "18446744073709551615"])),
    ("--d-model", OneOf(&["1", "2", "3", "32", "256", "0", "4097"])),
    ("--base", Real),
    ("--dimensions", OneOf(&["0", "0-3,10", "9999", "3-1", "-", "18446744073709551615"])),
    ("--view", OneOf(&["heatmap", "curves", "similarity", "wavelengths"])),
    ("--html", Out),
    ("--json", Out),
];
const COUNT: FlagTable = &[
    ("--network", OneOf(&["attention", "transformer", "rnn", "lstm", "gru"])),
    ("--batch", Count),
    ("--length", Count),
    ("--keys", Count),
    ("--d-model", Count),
    ("--heads", Count),
    ("--kv-heads", Count),
    ("--head-dim", Count),
    ("--d-ff", Count),
    ("--layers", Count),
    ("--vocab", Count),
    ("--classes", Count),
    ("--hidden", Count),
    ("--bidirectional", Alone),
    ("--no-bias", Alone),
    ("--no-output-projection", Alone),
    ("--json", Alone),
    ("--html", Out),
    ("--svg", Out),
    ("--pdf", Out),
];
const ATTEND: FlagTable = &[
    ("--is-causal", Alone),
    ("--scale", Real),
    ("--softcap", Real),
    ("--q-num-heads", Count),
    ("--kv-num-heads", Count),
    ("--qk-matmul-output-mode", Count),
    ("--left-window-size", Count),
    ("--right-window-size", Count),
    ("--softmax-precision", OneOf(&["1", "10", "11", "16", "0", "-1"])),
    ("-o", Out),
];

fn command_flags(command: &str) -> Vec<(&'static str, FlagValue)> {
    let own: &[FlagTable] = match command {
        "train" => &[READING, THREADS, TRAIN],
        "eval" => &[READING, THREADS, PICTURES, &[("--json", Alone), ("--errors", Out), PRECISION]],
        "predict" => &[READING, THREADS, PREDICT],
        "doctor" => &[READING, THREADS, DOCTOR],
        "embed" => &[READING, THREADS, EMBED],
        "nearest" => &[READING, THREADS, NEAREST],
        "translate" => &[READING, THREADS, TRANSLATE],
        "generate" => &[THREADS, GENERATE],
        "explain" => &[PICTURES, THREADS, EXPLAIN, READING],
        "export" => &[&[("--out", Out), ("--json", Alone)]],
        "trace" => &[TRACE],
        "check" => &[&[("--json", Alone)]],
        "position" => &[PICTURES, POSITION],
        "film" => {
            &[PICTURES, &[("--layer", Count), ("--head", Count), ("--curves", Alone), ("--html", Out), ("--json", Out)]]
        }
        "count" => &[COUNT],
        "attend" => &[THREADS, ATTEND],
        "info" => &[&[("--json", Alone), ("--report", Alone)]],
        _ => &[],
    };
    own.iter().flat_map(|flags| flags.iter().copied()).chain(EVERYWHERE.iter().copied().take(1)).collect()
}

/// Adds some flags of a command, and rarely other flags.
pub(crate) fn add_random_flags(random: &mut Random, command: &str, args: &mut Vec<String>, most: usize) {
    let known = command_flags(command);
    for _ in 0..random.below(most + 1) {
        let (flag, value) = match random.below(60) {
            0 => *random.choose(EVERYWHERE),
            1 => ("--", Alone),
            2 => ("--no-such-flag", Alone),
            3 => ("-", Alone),
            _ if known.is_empty() => continue,
            _ => *random.choose(&known),
        };
        // A repeated flag is an immediate error, so repeat rarely.
        if args.iter().any(|arg| arg == flag) && !random.once_in(20) {
            continue;
        }
        args.push(flag.into());
        if let Some(value) = random_value(random, value) {
            args.push(value);
        }
    }
}

fn random_value(random: &mut Random, value: FlagValue) -> Option<String> {
    if !matches!(value, Alone) && random.once_in(12) {
        return Some(senseless_value(random));
    }
    Some(match value {
        Alone => return None,
        OneOf(choices) => random.choose_ref(choices).into(),
        Count => random
            .choose_ref(&["1", "2", "3", "4", "7", "12", "100", "0", "-1", "4294967296", "18446744073709551615"])
            .into(),
        Real => {
            let choices = ["0", "1", "0.5", "2", "-1", "-0", "1e-300", "1e300", "nan", "inf", "-inf", "0.1", "10000"];
            random.choose_ref(&choices).into()
        }
        Heads => random.choose_ref(&["1.1", "1.2", "2.1", "1.1,1.2", "0.0", "9.9", "1", "1.1.1", "", "1.-1"]).into(),
        Text => random_text(random),
        Out => {
            let choices = [
                "out.x",
                "out.html",
                "out.svg",
                "out.npz",
                "out.safetensors",
                "out.json",
                "-",
                "missing/x",
                ".",
                "",
                "/dev/null",
                "/dev/full",
                "notes.txt/x",
                "model",
                "\u{1b}[2J.html",
                "日本 語.png",
            ];
            random.choose_ref(&choices).into()
        }
        Column => {
            random.choose_ref(&["text", "label", "1", "2", "3", "0", "-1", "source", "target", "Text", ""]).into()
        }
    })
}

fn senseless_value(random: &mut Random) -> String {
    let choices = [
        "",
        " ",
        "-",
        "--",
        "-1",
        "NaN",
        "1e999",
        "0x1",
        "18446744073709551616",
        "\u{1b}[2J",
        "日本語",
        "\u{202e}x",
        "'",
        "\"",
        "$(true)",
        "*",
        "../..",
        "\n",
        "a\tb",
        "٣",
    ];
    match random.once_in(10) {
        true => "x".repeat(1 << random.below(17)),
        false => random.choose_ref(&choices).into(),
    }
}

/// Returns a text as input for a model.
pub(crate) fn random_text(random: &mut Random) -> String {
    let choices = [
        "A fine day by the sea.",
        "料理がおいしく、また来たいです。",
        "3 and 4",
        "",
        " ",
        "\n",
        "\t",
        "a\tb",
        "[CLS]",
        "[UNK][CLS]<0x41>",
        "\u{0}",
        "\u{1b}[2J red",
        "e\u{301}\u{301}\u{301}",
        "👨‍👩‍👧‍👦",
        "\u{202e}evil",
        "\u{feff}x",
        "ﷺ",
        "ｶﾞ㍿",
        "--help",
        "<script>alert(1)</script>",
        "\u{e000}\u{10ffff}",
        "\\documentclass{x} % & # $ _ { } ~ ^",
        "=1+1",
    ];
    // An argument cannot contain NUL.
    let mut text = random.choose_ref(&choices).replace('\0', "\u{1}");
    match random.below(8) {
        0 => text = text.repeat(200),
        1 => text = format!("{text} {}", random.choose_ref(&choices).replace('\0', "")),
        2 => text = format!("{text} ").repeat(40),
        _ => {}
    }
    text
}
