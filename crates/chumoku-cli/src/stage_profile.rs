//! Implements `--profile` for whole commands: the time of each stage, and the share of matrix products.

use crate::report::table::table as aligned;
use chumoku::data::format_thousands;
use chumoku::lang::lang;
use chumoku::stage_timer::{self, StageTime};
use chumoku::{sorting, tr};
use chumoku_kernels::Roofline;
use std::time::{Duration, Instant};

/// Runs a command and, if requested, reports its stages on standard error.
pub(crate) fn with_profile<R>(is_requested: bool, work: impl FnOnce() -> anyhow::Result<R>) -> anyhow::Result<R> {
    if !is_requested {
        return work();
    }
    let (start, before) = (Instant::now(), chumoku_kernels::multiply_adds());
    let (result, found) = stage_timer::record_stages(work);
    let (all, multiplied) = (start.elapsed(), chumoku_kernels::multiply_adds() - before);
    if result.is_ok() {
        let threads = chumoku_kernels::num_threads();
        say!("{}", table(&found, all, threads));
        say!("{}", multiply_summary(multiplied, all.as_secs_f64() * threads as f64, Roofline::measure_multipliers()));
    }
    result
}

/// Formats a line for each stage, longest first, and one for the total.
fn table(found: &[StageTime], all: Duration, threads: usize) -> String {
    let mut found = found.to_vec();
    sorting::sort_by_key(&mut found, |stage| std::cmp::Reverse(stage.duration));
    let head = [("stage", "段階"), ("s", "秒"), ("share", "割合"), ("threads busy", "働いたスレッド")];
    let mut rows = vec![head.map(|(en, ja)| lang().pick(en, ja).to_owned())];
    let row = |name: &str, duration: Duration, processor: Option<Duration>| {
        let seconds = duration.as_secs_f64();
        let busy = processor.map(|processor| format!("{:.1}", processor.as_secs_f64() / seconds.max(1e-9)));
        // The system counts hundredths of a second.
        let busy = busy.filter(|_| seconds >= 0.1).unwrap_or_default();
        [name.to_owned(), format!("{seconds:.2}"), format!("{:.1} %", 100.0 * seconds / all.as_secs_f64()), busy]
    };
    rows.extend(
        found.iter().map(|stage| row(lang().pick(stage.name[0], stage.name[1]), stage.duration, stage.processor)),
    );
    let processor: Option<Duration> = found.iter().map(|stage| stage.processor).sum();
    rows.push(row(lang().pick("total", "合計"), all, processor));
    let head = tr!("\nWhere the time went ({threads} threads)\n\n", "\n時間の内訳（{threads} スレッド）\n\n");
    head + aligned(&rows).trim_end()
}

/// Formats the number of multiply-adds, and the least share of the threads' time that they take.
fn multiply_summary(multiply_adds: u64, seconds: f64, (vectors, blocks): (f64, Option<f64>)) -> String {
    let share = |rate: f64| format!("{:.1} %", 100.0 * multiply_adds as f64 / rate / seconds);
    let (millions, vectors) = (format_thousands((multiply_adds / 1_000_000) as usize), share(vectors));
    let blocks = blocks.map(|blocks| {
        let blocks = share(blocks);
        tr!(", {blocks} at the bf16 rate", "、bf16 なら {blocks}")
    });
    let blocks = blocks.unwrap_or_default();
    tr!(
        "\n{millions} million multiply-adds: {vectors} of this time at the peak f32 rate{blocks}",
        "\n積和演算 {millions} 百万回: ピーク性能なら、この時間のうち f32 で {vectors}{blocks}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_threads_are_counted() {
        let ((), found) = stage_timer::record_stages(|| {
            let _stage = stage_timer::begin(stage_timer::TOKENS);
            std::thread::sleep(Duration::from_millis(20));
        });
        let all: Duration = found.iter().map(|stage| stage.duration).sum();
        let text = table(&found, all, 2);
        let shares = text.lines().filter_map(|line| line.split(" %").next()?.rsplit(' ').next()?.parse::<f64>().ok());
        let shares: Vec<f64> = shares.collect();
        let (sum, parts) = shares.split_last().unwrap();
        assert!(*sum == 100.0 && (parts.iter().sum::<f64>() - 100.0).abs() < 0.3, "{text}");
        assert!(text.lines().nth(4).unwrap().starts_with("tokens "), "{text}");
    }

    #[test]
    fn multiply_adds_are_compared_with_peak_rates() {
        let text = multiply_summary(3_000_000_000, 10.0, (1e9, Some(4e9)));
        assert!(
            text.contains("3,000 million") && text.contains("30.0 %") && text.contains("7.5 % at the bf16 rate"),
            "{text}"
        );
        assert!(!multiply_summary(1, 1.0, (1e9, None)).contains("bf16"));
    }
}
