//! `--profile`: where the time of a step goes, operation by operation, beside what the processor could do.

use super::{milliseconds, wrapped};
use crate::commands::table::table;
use chumoku::data::thousands;
use chumoku::lang::lang;
use chumoku::tr;
use chumoku_kernels::{Limits, Multiplier, Operation, Profile, Spent};
use serde_json::{Value, json};

/// Operations that take less than this share of the threads' time are shown together.
const SMALL: f64 = 0.005;

/// A profile of several steps, the limits it is held against, and the time of a step without it.
pub(super) struct Budget {
    profile: Profile,
    limits: Limits,
    steps: usize,
    threads: usize,
    /// Of a step, without the profile.
    milliseconds: f64,
}

impl Budget {
    pub(super) fn new(profile: Profile, limits: Limits, steps: usize, milliseconds: f64) -> Budget {
        Budget { profile, limits, steps, threads: chumoku_kernels::num_threads(), milliseconds }
    }

    /// Milliseconds of a step, of one thread.
    fn of_step(&self, seconds: f64) -> f64 {
        1e3 * seconds / self.steps as f64
    }

    /// Milliseconds of a step, all threads added.
    fn whole(&self) -> f64 {
        self.of_step(self.profile.seconds) * self.threads as f64
    }

    /// Milliseconds of a step in which threads had nothing to do.
    fn idle(&self) -> f64 {
        self.whole() - self.profile.operations.iter().map(|spent| self.of_step(spent.seconds)).sum::<f64>()
    }

    /// What the profile's times are of those without it.
    fn adds_up(&self) -> f64 {
        self.of_step(self.profile.seconds) / self.milliseconds
    }

    /// The times of multiplying and of passing that bound an operation, in milliseconds of a step.
    fn bounds(&self, spent: &Spent) -> [f64; 2] {
        [self.limits.multiplying(spent), self.limits.passing(spent)].map(|seconds| self.of_step(seconds))
    }

    pub(super) fn json(&self) -> Value {
        let row = |spent: &Spent| {
            let [multiplying, passing] = self.bounds(spent);
            json!({
                "operation": spent.operation.name,
                "sizes": spent.operation.sizes,
                "calls": spent.calls as f64 / self.steps as f64,
                "ms": self.of_step(spent.seconds),
                "meetings": spent.meetings as f64 / self.steps as f64,
                "pieces": spent.pieces as f64 / self.steps as f64,
                "multiply_adds": spent.multiply_adds as f64 / self.steps as f64,
                "multiplier": multiplier(spent.multiplier),
                "multiplied": spent.multiplied as f64 / self.steps as f64,
                "bytes": spent.bytes.iter().sum::<u64>() as f64 / self.steps as f64,
                "ms_multiplying": multiplying,
                "ms_passing": passing,
            })
        };
        json!({
            "steps": self.steps,
            "ms": self.of_step(self.profile.seconds),
            "ms_without_profile": self.milliseconds,
            "ms_idle": self.idle(),
            "operations": self.profile.operations.iter().map(row).collect::<Vec<_>>(),
            "limits": {
                "vectors": self.limits.vectors,
                "blocks": self.limits.blocks,
                "reading": self.limits.reading,
            },
        })
    }

    pub(super) fn text(&self) -> String {
        let (between, operations): (Vec<&Spent>, Vec<&Spent>) =
            self.profile.operations.iter().partition(|spent| spent.operation == Operation::BETWEEN);
        let (small, large): (Vec<&Spent>, Vec<&Spent>) =
            operations.iter().partition(|spent| self.of_step(spent.seconds) < SMALL * self.whole());
        let ms = |spent: &[&Spent]| spent.iter().map(|spent| self.of_step(spent.seconds)).sum();
        let mut rows = vec![head()];
        rows.extend(large.iter().map(|spent| self.row(spent)));
        if !small.is_empty() {
            let n = small.len();
            let name = tr!("{n} operations below 0.5 %", "0.5 % 未満の {n} 演算");
            rows.push(self.plain_row(name, ms(&small)));
        }
        rows.push(self.plain_row(tr!("between operations", "演算の間"), ms(&between)));
        rows.push(self.plain_row(tr!("threads without work", "待っているスレッド"), self.idle()));
        rows.push(self.plain_row(tr!("in all", "合計"), self.whole()));
        let bound: f64 = operations.iter().map(|spent| self.bounds(spent)).map(|[a, b]| a.max(b)).sum();
        if let Some(all) = rows.last_mut() {
            all[5] = milliseconds(bound);
            all[6] = percent(bound / self.whole());
        }
        let (threads, steps) = (self.threads, self.steps);
        let [with, without] = [self.of_step(self.profile.seconds), self.milliseconds].map(milliseconds);
        let share = percent(self.adds_up());
        let meetings = self.profile.operations.iter().map(|spent| spent.meetings).sum::<u64>() as f64;
        let meetings = few_digits(meetings / self.steps as f64);
        let vectors = rate(self.limits.vectors);
        let blocks = self.limits.blocks.map(|blocks| {
            let blocks = rate(blocks);
            tr!(", of bf16 {blocks}", "、bf16 は {blocks}")
        });
        let blocks = blocks.unwrap_or_default();
        let reading = self.limits.reading.map(|(bytes, speed)| {
            let (bytes, speed) = (size(bytes), format!("{:.0}", speed / 1e9));
            tr!("{speed} GB/s of {bytes}", "{bytes} なら {speed} GB/s")
        });
        let reading = reading.join(lang().pick(", ", "、"));
        let reading = wrapped(&tr!("reading {reading}", "読み出しは {reading}"));
        tr!(
            "\nWhere the time goes: milliseconds of all threads ({threads}), means of {steps} steps\n\n\
             {}\n\
             A step took {with} ms with the profile and {without} ms without: {share}.\n\
             Threads met {meetings} times a step.\n\
             Limits of a thread while all work, measured now:\n\
             {vectors} billion multiply-adds a second in f32{blocks}\n\
             {reading}\n\
             (* bounded by multiplying, else by passing operands and results through)\n",
            "\n時間の内訳: 全スレッド（{threads}）の合計ミリ秒、{steps} ステップの平均\n\n\
             {}\n\
             1 ステップは計測つきで {with} ms、なしで {without} ms（{share}）。\n\
             スレッドは 1 ステップに {meetings} 回、互いを待ちました。\n\
             全スレッドが働くときの 1 スレッドの限界（今測った値）:\n\
             積和は f32 で毎秒 {vectors} 十億{blocks}\n\
             {reading}\n\
             （* は積和が、ほかは演算対象と結果の読み書きが限界）\n",
            table(&rows)
        )
    }

    fn row(&self, spent: &Spent) -> Row {
        let ms = self.of_step(spent.seconds);
        let [multiplying, passing] = self.bounds(spent);
        let bytes = spent.bytes.iter().sum::<u64>() as f64 / self.steps as f64;
        let millions = spent.multiply_adds as f64 / self.steps as f64 / 1e6;
        let mark = if multiplying > passing { "*" } else { " " };
        [
            title(spent.operation),
            milliseconds(ms),
            percent(ms / self.whole()),
            if millions > 0.0 { few_digits(millions) } else { String::new() },
            few_digits(bytes / 1e6),
            format!("{}{mark}", milliseconds(multiplying.max(passing))),
            percent(multiplying.max(passing) / ms),
        ]
    }

    fn plain_row(&self, name: String, ms: f64) -> Row {
        let nothing = String::new;
        [name, milliseconds(ms), percent(ms / self.whole()), nothing(), nothing(), nothing(), nothing()]
    }
}

/// Cells of a line.
type Row = [String; 7];

fn head() -> Row {
    let head = [
        ("operation", "演算"),
        ("ms", "ms"),
        ("share", "割合"),
        ("M mul-add", "百万積和"),
        ("MB", "MB"),
        ("limit", "限界"),
        ("reached", "到達"),
    ];
    head.map(|(en, ja)| lang().pick(en, ja).to_owned())
}

fn multiplier(multiplier: Multiplier) -> &'static str {
    match multiplier {
        Multiplier::Vectors => "vectors",
        Multiplier::Blocks => "blocks",
    }
}

/// The name of an operation, with its sizes.
fn title(operation: Operation) -> String {
    let Operation { name, sizes: [a, b] } = operation;
    let name = lang().pick(name, in_japanese(name));
    if a == 0 { name.to_owned() } else { format!("{name} {}x{}", thousands(a), thousands(b)) }
}

fn in_japanese(name: &'static str) -> &'static str {
    match name {
        "product A·B" => "積 A·B",
        "product A·Bᵀ" => "積 A·Bᵀ",
        "product Aᵀ·B" => "積 Aᵀ·B",
        "packing of weights" => "重みの詰め替え",
        "attention" => "アテンション",
        "attention, backward" => "アテンション（逆）",
        "layer norm" => "層正規化",
        "layer norm, backward" => "層正規化（逆）",
        "RMS norm" => "RMS 正規化",
        "RMS norm, backward" => "RMS 正規化（逆）",
        "activation" => "活性化関数",
        "activation, backward" => "活性化関数（逆）",
        "gated product" => "ゲートつき積",
        "gated product, backward" => "ゲートつき積（逆）",
        "dropout" => "ドロップアウト",
        "embedding" => "埋め込み",
        "embedding, backward" => "埋め込み（逆）",
        "cross-entropy" => "交差エントロピー",
        "softmax" => "ソフトマックス",
        "softmax, backward" => "ソフトマックス（逆）",
        "rotary positions" => "回転位置",
        "recurrence" => "再帰",
        "recurrence, backward" => "再帰（逆）",
        "column sums" => "列の和",
        "sum of squares" => "二乗和",
        "clearing" => "消去",
        "weighted sum" => "重みつき和",
        "moving average" => "移動平均",
        other => other,
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Billions a second.
fn rate(rate: f64) -> String {
    few_digits(rate / 1e9)
}

fn few_digits(x: f64) -> String {
    match x {
        ..10.0 => format!("{x:.2}"),
        10.0..100.0 => format!("{x:.1}"),
        _ => thousands(x.round() as usize),
    }
}

fn size(bytes: usize) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mebibytes => format!("{mebibytes} MiB"),
    }
}
