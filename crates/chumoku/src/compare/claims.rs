//! What is said of self-attention beside recurrent networks, each judged by what was measured here and now.
//!
//! The claims are those of the fifth article of the series that the project follows, on self-attention and text
//! classification: its comparison (an LSTM of 12.34 ms and self-attention of 8.76 ms for 32 sequences of 100 tokens),
//! its table of parameters, and its exercise on cost.

use super::{Article, Compared};
use crate::nn::{Network, PositionKind};
use chumoku_kernels::Cell;
use serde::Serialize;

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is so here.
    Holds,
    /// It is not so here.
    DoesNotHold,
    /// These figures cannot tell.
    Open,
}

/// A claim and what was found.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// What is said.
    pub claim: String,
    /// Whether it is so here.
    pub verdict: Verdict,
    /// The figures that say so.
    pub found: String,
}

fn claim(claim: &str, holds: bool, found: String) -> Claim {
    let verdict = if holds { Verdict::Holds } else { Verdict::DoesNotHold };
    Claim { claim: claim.into(), verdict, found }
}

/// By which power of the length time grows from one length to another.
fn power(model: &Compared, from: usize, to: usize) -> Option<f64> {
    let ratio = model.milliseconds(to)? / model.milliseconds(from)?;
    Some(ratio.ln() / (to as f64 / from as f64).ln())
}

/// Judges all claims for which there are figures.
pub(super) fn judge(models: &[Compared], article: &Article) -> Vec<Claim> {
    let find = |network: Network, position| models.iter().find(|m| m.network == network && m.position == position);
    let transformer = find(Network::Transformer, PositionKind::Sinusoidal);
    let mut claims = own(article).to_vec();
    if let (Some(transformer), Some(lstm)) = (transformer, find(Network::Recurrent(Cell::Lstm), PositionKind::None)) {
        claims.push(speed(transformer, lstm));
        claims.extend(growth(transformer, lstm));
        claims.push(accuracy("the transformer is the more accurate", transformer, lstm));
    }
    if let (Some(sinusoidal), Some(learned)) = (transformer, find(Network::Transformer, PositionKind::Learned)) {
        claims.push(positions(sinusoidal, learned));
    }
    claims
}

/// Which of two models of one size trains faster.
fn speed(transformer: &Compared, lstm: &Compared) -> Claim {
    let times = |length| Some((transformer.milliseconds(length)?, lstm.milliseconds(length)?));
    let short: Vec<usize> = lstm.steps.iter().map(|step| step.length).filter(|&length| length < 512).collect();
    let slower: Vec<String> = short
        .iter()
        .filter(|&&length| times(length).is_some_and(|(ours, theirs)| ours >= theirs))
        .map(usize::to_string)
        .collect();
    let found = match slower.is_empty() {
        true => format!("models of one size: the transformer is faster at all {} lengths", short.len()),
        false => format!("models of one size: the LSTM is faster at length {}", slower.join(", ")),
    };
    claim("self-attention trains faster up to lengths of about 512", slower.is_empty(), found)
}

/// How time grows.
fn growth(transformer: &Compared, lstm: &Compared) -> Vec<Claim> {
    let mut claims = Vec::new();
    if let Some(power) = power(lstm, 256, 1024) {
        let found = format!("from 256 to 1,024 as length to the power {power:.2}");
        claims.push(claim("a recurrent network's time grows linearly", (0.85..1.15).contains(&power), found));
    }
    if let Some(power) = power(transformer, 512, 1024) {
        let found = format!("from 512 to 1,024 as length to the power {power:.2}");
        claims.push(claim("self-attention's grows with the square beyond the width", power > 1.7, found));
    }
    claims
}

/// Of the article's own two models.
fn own(article: &Article) -> [Claim; 2] {
    let Article { lstm_ms, attention_ms, lstm_parameters, attention_parameters } = *article;
    let ratio = lstm_ms / attention_ms;
    let times = format!(
        "the article's two models here: LSTM {lstm_ms:.1} ms, attention {attention_ms:.1} ms, {ratio:.2} times"
    );
    let [lstm, attention] = [lstm_parameters, attention_parameters].map(thousands);
    let parameters = format!("the article's two models have {lstm} (LSTM) and {attention} (attention)");
    [
        claim(
            "self-attention is 1.41 times as fast as an LSTM, forward, 32 sequences of length 100",
            ratio >= 1.41,
            times,
        ),
        claim(
            "the recurrent classifier has fewer parameters, 2,826,498 to 3,150,338",
            lstm_parameters < attention_parameters,
            parameters,
        ),
    ]
}

/// A whole number with commas.
fn thousands(n: usize) -> String {
    match n {
        ..1000 => n.to_string(),
        _ => format!("{},{:03}", thousands(n / 1000), n % 1000),
    }
}

fn percent(model: &Compared) -> String {
    let [low, high] = model.macro_f1_interval;
    format!("{:.1} % ({:.1} to {:.1})", 100.0 * model.macro_f1, 100.0 * low, 100.0 * high)
}

/// Whether the intervals of two macro-F1 have nothing in common.
fn apart(a: &Compared, b: &Compared) -> bool {
    let ([a_low, a_high], [b_low, b_high]) = (a.macro_f1_interval, b.macro_f1_interval);
    a_high < b_low || b_high < a_low
}

fn accuracy(text: &str, transformer: &Compared, lstm: &Compared) -> Claim {
    let found = format!("macro-F1 {} of the transformer, {} of the LSTM", percent(transformer), percent(lstm));
    match apart(transformer, lstm) {
        true => claim(text, transformer.macro_f1 > lstm.macro_f1, found),
        false => Claim { claim: text.into(), verdict: Verdict::Open, found },
    }
}

fn positions(sinusoidal: &Compared, learned: &Compared) -> Claim {
    let found = format!("macro-F1 {} with sinusoidal, {} with learned", percent(sinusoidal), percent(learned));
    claim("sinusoidal and learned positions do about equally well", !apart(sinusoidal, learned), found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::StepTime;

    fn model(network: Network, position: PositionKind, times: &[(usize, f64)], f1: f64) -> Compared {
        let step = |&(length, ms)| StepTime { length, median_ms: ms, min_ms: ms, max_ms: ms, runs: 1 };
        Compared {
            network,
            position,
            sizes: String::new(),
            parameters: 1,
            accuracy: f1,
            macro_f1: f1,
            macro_f1_interval: [f1 - 0.02, f1 + 0.02],
            epochs: 1,
            training_seconds: 1.0,
            steps: times.iter().map(step).collect(),
        }
    }

    fn verdicts(transformer: &[(usize, f64)], lstm: &[(usize, f64)], f1: [f64; 3], ratio: f64) -> Vec<Verdict> {
        let models = [
            model(Network::Transformer, PositionKind::Sinusoidal, transformer, f1[0]),
            model(Network::Transformer, PositionKind::Learned, transformer, f1[1]),
            model(Network::Recurrent(Cell::Lstm), PositionKind::None, lstm, f1[2]),
        ];
        let parameters = (1000.0 * ratio) as usize;
        let article =
            Article { lstm_parameters: 1000, attention_parameters: parameters, lstm_ms: ratio, attention_ms: 1.0 };
        judge(&models, &article).into_iter().map(|claim| claim.verdict).collect()
    }

    #[test]
    fn verdicts_follow_the_figures() {
        use Verdict::{DoesNotHold, Holds, Open};
        let fast = [(128, 1.0), (256, 2.0), (512, 5.0), (1024, 18.0)];
        let slow = [(128, 2.0), (256, 4.0), (512, 8.0), (1024, 16.0)];
        assert_eq!(verdicts(&fast, &slow, [0.8, 0.81, 0.7], 1.5), [Holds; 7]);
        assert_eq!(verdicts(&slow, &fast, [0.8, 0.7, 0.9], 0.9), [DoesNotHold; 7]);
        assert_eq!(verdicts(&fast, &slow, [0.8, 0.8, 0.79], 1.5)[5], Open);
    }

    #[test]
    fn numbers_have_commas() {
        assert_eq!([7, 1000, 2_823_682, 12_000_007].map(thousands), ["7", "1,000", "2,823,682", "12,000,007"]);
    }
}
