//! `--profile`: the time of each operation in a step, compared with the limits of the processor.

use super::{format_milliseconds, wrap_list};
use crate::report::percent;
use crate::report::table::table;
use chumoku::data::format_thousands;
use chumoku::lang::lang;
use chumoku::tr;
use chumoku_kernels::{Multiplier, Operation, OperationProfile, Profile, Roofline};
use serde_json::{Value, json};

/// Operations with a smaller share of the threads' time are shown together.
const SMALL_SHARE: f64 = 0.005;

/// Profile of several steps, the limits to compare it with, and the time of a step without profiling.
pub(super) struct StepProfile {
    profile: Profile,
    limits: Roofline,
    steps: usize,
    threads: usize,
    /// Milliseconds of a step without profiling.
    milliseconds: f64,
}

impl StepProfile {
    pub(super) fn new(profile: Profile, limits: Roofline, steps: usize, milliseconds: f64) -> StepProfile {
        StepProfile { profile, limits, steps, threads: chumoku_kernels::num_threads(), milliseconds }
    }

    /// Converts seconds of all steps to milliseconds per step.
    fn ms_per_step(&self, seconds: f64) -> f64 {
        1e3 * seconds / self.steps as f64
    }

    /// Milliseconds of a step, summed over all threads.
    fn total_ms(&self) -> f64 {
        self.ms_per_step(self.profile.seconds) * self.threads as f64
    }

    /// Milliseconds of a step in which threads were idle.
    fn idle_ms(&self) -> f64 {
        self.total_ms() - self.profile.operations.iter().map(|spent| self.ms_per_step(spent.seconds)).sum::<f64>()
    }

    /// Ratio of the time with profiling to that without.
    fn time_ratio(&self) -> f64 {
        self.ms_per_step(self.profile.seconds) / self.milliseconds
    }

    /// Lower bounds of an operation's time from arithmetic and from memory traffic, in milliseconds per step.
    fn bounds_ms(&self, spent: &OperationProfile) -> [f64; 2] {
        [self.limits.multiply_seconds(spent), self.limits.read_seconds(spent)].map(|seconds| self.ms_per_step(seconds))
    }

    pub(super) fn json(&self) -> Value {
        let row = |spent: &OperationProfile| {
            let [multiplying, passing] = self.bounds_ms(spent);
            json!({
                "operation": spent.operation.name,
                "sizes": spent.operation.sizes,
                "calls": spent.calls as f64 / self.steps as f64,
                "ms": self.ms_per_step(spent.seconds),
                "meetings": spent.parallel_regions as f64 / self.steps as f64,
                "pieces": spent.pieces as f64 / self.steps as f64,
                "multiply_adds": spent.multiply_adds as f64 / self.steps as f64,
                "multiplier": multiplier(spent.multiplier),
                "multiplied": spent.hardware_multiply_adds as f64 / self.steps as f64,
                "bytes": spent.bytes.iter().sum::<u64>() as f64 / self.steps as f64,
                "ms_multiplying": multiplying,
                "ms_passing": passing,
            })
        };
        json!({
            "steps": self.steps,
            "ms": self.ms_per_step(self.profile.seconds),
            "ms_without_profile": self.milliseconds,
            "ms_idle": self.idle_ms(),
            "operations": self.profile.operations.iter().map(row).collect::<Vec<_>>(),
            "limits": {
                "vectors": self.limits.vector_rate,
                "blocks": self.limits.block_rate,
                "reading": self.limits.read_rates,
            },
        })
    }

    pub(super) fn text(&self) -> String {
        let (between, operations): (Vec<&OperationProfile>, Vec<&OperationProfile>) =
            self.profile.operations.iter().partition(|spent| spent.operation == Operation::BETWEEN_OPERATIONS);
        let (small, large): (Vec<&OperationProfile>, Vec<&OperationProfile>) =
            operations.iter().partition(|spent| self.ms_per_step(spent.seconds) < SMALL_SHARE * self.total_ms());
        let ms = |spent: &[&OperationProfile]| spent.iter().map(|spent| self.ms_per_step(spent.seconds)).sum();
        let mut rows = vec![header_row()];
        rows.extend(large.iter().map(|spent| self.row(spent)));
        if !small.is_empty() {
            let n = small.len();
            let name = tr!("{n} operations below 0.5 %", "0.5 % 未満の {n} 演算");
            rows.push(self.plain_row(name, ms(&small)));
        }
        rows.push(self.plain_row(tr!("between operations", "演算の間"), ms(&between)));
        rows.push(self.plain_row(tr!("idle threads", "待っているスレッド"), self.idle_ms()));
        rows.push(self.plain_row(tr!("total", "合計"), self.total_ms()));
        let bound: f64 = operations.iter().map(|spent| self.bounds_ms(spent)).map(|[a, b]| a.max(b)).sum();
        if let Some(all) = rows.last_mut() {
            all[5] = format_milliseconds(bound);
            all[6] = percent(bound / self.total_ms());
        }
        let (threads, steps) = (self.threads, self.steps);
        let [with, without] = [self.ms_per_step(self.profile.seconds), self.milliseconds].map(format_milliseconds);
        let share = percent(self.time_ratio());
        let meetings = self.profile.operations.iter().map(|spent| spent.parallel_regions).sum::<u64>() as f64;
        let meetings = few_digits(meetings / self.steps as f64);
        let vectors = billions_per_second(self.limits.vector_rate);
        let blocks = self.limits.block_rate.map(|blocks| {
            let blocks = billions_per_second(blocks);
            tr!(", of bf16 {blocks}", "、bf16 は {blocks}")
        });
        let blocks = blocks.unwrap_or_default();
        let reading = self.limits.read_rates.map(|(bytes, speed)| {
            let (bytes, speed) = (format_bytes(bytes), format!("{:.0}", speed / 1e9));
            tr!("{speed} GB/s of {bytes}", "{bytes} なら {speed} GB/s")
        });
        let reading = reading.join(lang().pick(", ", "、"));
        let reading = wrap_list(&tr!("reading {reading}", "読み出しは {reading}"));
        tr!(
            "\nWhere the time goes: milliseconds of all threads ({threads}), means of {steps} steps\n\n\
             {}\n\
             A step took {with} ms with the profile and {without} ms without: {share}.\n\
             Threads synchronized {meetings} times a step.\n\
             Limits of a thread while all threads work, measured now:\n\
             {vectors} billion multiply-adds a second in f32{blocks}\n\
             {reading}\n\
             (* bounded by arithmetic, otherwise by reading operands and writing results)\n",
            "\n時間の内訳: 全スレッド（{threads}）の合計ミリ秒、{steps} ステップの平均\n\n\
             {}\n\
             1 ステップは計測つきで {with} ms、なしで {without} ms（{share}）。\n\
             スレッドは 1 ステップに {meetings} 回同期しました。\n\
             全スレッドが働くときの 1 スレッドの限界（今測った値）:\n\
             積和は f32 で毎秒 {vectors} 十億{blocks}\n\
             {reading}\n\
             （* は積和が、ほかは演算対象と結果の読み書きが限界）\n",
            table(&rows)
        )
    }

    fn row(&self, spent: &OperationProfile) -> ProfileRow {
        let ms = self.ms_per_step(spent.seconds);
        let [multiplying, passing] = self.bounds_ms(spent);
        let bytes = spent.bytes.iter().sum::<u64>() as f64 / self.steps as f64;
        let millions = spent.multiply_adds as f64 / self.steps as f64 / 1e6;
        let mark = if multiplying > passing { "*" } else { " " };
        [
            operation_title(spent.operation),
            format_milliseconds(ms),
            percent(ms / self.total_ms()),
            if millions > 0.0 { few_digits(millions) } else { String::new() },
            few_digits(bytes / 1e6),
            format!("{}{mark}", format_milliseconds(multiplying.max(passing))),
            percent(multiplying.max(passing) / ms),
        ]
    }

    fn plain_row(&self, name: String, ms: f64) -> ProfileRow {
        let nothing = String::new;
        [name, format_milliseconds(ms), percent(ms / self.total_ms()), nothing(), nothing(), nothing(), nothing()]
    }
}

/// Cells of a table row.
type ProfileRow = [String; 7];

fn header_row() -> ProfileRow {
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

/// Returns the name of an operation with its sizes.
fn operation_title(operation: Operation) -> String {
    let Operation { name, sizes: [a, b] } = operation;
    let name = lang().pick(name, japanese_name(name));
    if a == 0 { name.to_owned() } else { format!("{name} {}x{}", format_thousands(a), format_thousands(b)) }
}

fn japanese_name(name: &'static str) -> &'static str {
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
        "softmax" => "softmax",
        "softmax, backward" => "softmax（逆）",
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

/// Formats a rate in billions per second.
fn billions_per_second(rate: f64) -> String {
    few_digits(rate / 1e9)
}

fn few_digits(x: f64) -> String {
    match x {
        ..10.0 => format!("{x:.2}"),
        10.0..100.0 => format!("{x:.1}"),
        _ => format_thousands(x.round() as usize),
    }
}

fn format_bytes(bytes: usize) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mebibytes => format!("{mebibytes} MiB"),
    }
}
