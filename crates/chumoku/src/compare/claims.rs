//! Common claims about self-attention and recurrent networks, each checked against measurements on this machine.
//!
//! The claims come from the fifth article of the series that the project follows, on self-attention and text
//! classification. Its comparison gives an LSTM 12.34 ms and self-attention 8.76 ms for 32 sequences of 100 tokens. Its
//! table of parameters and its exercise on cost are checked too.
//!
//! A verdict is given if the figures decide the claim; chance alone makes it wrong in at most 5 of 100 cases. Otherwise
//! the claim stays open, with a note on what would decide it.

use super::median_interval::MedianInterval;
use super::step_time::TimeGrowth;
use super::{ArticleResults, ComparedNetwork};
use crate::lang::wording::format_thousands;
use crate::lang::{Lang, lang};
use crate::nn::{BackboneKind, PositionKind};
use crate::scoring::{AccuracyDifference, EQUIVALENCE_MARGIN, SIGNIFICANCE_LEVEL};
use chumoku_kernels::RecurrentCell;
use serde::{Serialize, Serializer};
use std::fmt;

/// The result of checking a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The claim holds here.
    Holds,
    /// The claim does not hold here.
    DoesNotHold,
    /// The figures do not decide the claim.
    Open,
}

/// A sentence in every language of the interface. Files contain the English one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalizedText {
    /// The English sentence.
    pub en: String,
    /// The Japanese sentence.
    pub ja: String,
}

impl LocalizedText {
    /// Returns the sentence in `lang`.
    pub fn in_lang(&self, lang: Lang) -> &str {
        lang.pick(&self.en, &self.ja)
    }
}

/// Writes the sentence in the language of the process.
impl fmt::Display for LocalizedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.in_lang(lang()))
    }
}

/// Text that is the same in every language.
impl From<&str> for LocalizedText {
    fn from(text: &str) -> LocalizedText {
        LocalizedText { en: text.into(), ja: text.into() }
    }
}

impl Serialize for LocalizedText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.en)
    }
}

/// A claim, its verdict and the evidence.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// The claim itself.
    pub claim: LocalizedText,
    /// The result of the check.
    pub verdict: Verdict,
    /// The figures behind the verdict.
    pub found: LocalizedText,
    /// The measurement that would decide an open claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would_decide: Option<LocalizedText>,
}

impl Claim {
    /// Creates a claim; it is open if `holds` is `None`.
    fn new(
        claim: LocalizedText,
        holds: Option<bool>,
        found: LocalizedText,
        would_decide: impl FnOnce() -> LocalizedText,
    ) -> Claim {
        let verdict = match holds {
            Some(true) => Verdict::Holds,
            Some(false) => Verdict::DoesNotHold,
            None => Verdict::Open,
        };
        Claim { claim, verdict, found, would_decide: holds.is_none().then(would_decide) }
    }

    /// Creates a claim that the figures decide without any chance.
    pub(super) fn certain(claim: LocalizedText, holds: bool, found: LocalizedText) -> Claim {
        let verdict = if holds { Verdict::Holds } else { Verdict::DoesNotHold };
        Claim { claim, verdict, found, would_decide: None }
    }
}

/// Largest distance from 1 of a power that counts as linear.
const LINEAR_TOLERANCE: f64 = 0.15;

/// Checks all claims for which there are figures. `scored_on` says which rows the scores come from.
pub(super) fn check_claims(models: &[ComparedNetwork], article: &ArticleResults, scored_on: &str) -> Vec<Claim> {
    let find = |network: BackboneKind, position| models.iter().find(|m| m.network == network && m.position == position);
    let transformer = find(BackboneKind::Transformer, PositionKind::Sinusoidal);
    let mut claims = article_claims(article).to_vec();
    let is_new = scored_on != "train";
    if let (Some(transformer), Some(lstm)) =
        (transformer, find(BackboneKind::Recurrent(RecurrentCell::Lstm), PositionKind::None))
    {
        claims.push(speed_claim(transformer, lstm));
        claims.push(linear_growth_claim(lstm));
        claims.push(quadratic_growth_claim(transformer));
        claims.push(accuracy_claim(transformer, lstm, is_new));
    }
    if let (Some(sinusoidal), Some(learned)) = (transformer, find(BackboneKind::Transformer, PositionKind::Learned)) {
        claims.push(positions_claim(sinusoidal, learned, is_new));
    }
    claims
}

fn quieter_machine() -> LocalizedText {
    localized!("a quieter machine: runs side by side disagree", "より静かなマシン: 並べて測った時間が揃っていません",)
}

/// Checks which of two models of the same size trains faster.
fn speed_claim(transformer: &ComparedNetwork, lstm: &ComparedNetwork) -> Claim {
    let pairs: Vec<_> = transformer
        .steps
        .iter()
        .filter(|step| step.length < 512)
        .filter_map(|ours| Some((ours, lstm.steps.iter().find(|theirs| theirs.length == ours.length)?)))
        .collect();
    let level = SIGNIFICANCE_LEVEL / pairs.len().max(1) as f64;
    let verdicts = pairs.iter().map(|(ours, theirs)| {
        let ratios = ours.all_ms.iter().zip(&theirs.all_ms).map(|(ours, theirs)| theirs / ours).collect();
        (ours.length, MedianInterval::from_samples(ratios, level).is_above(1.0))
    });
    let verdicts: Vec<(usize, Option<bool>)> = verdicts.collect();
    let at = |verdict: Option<bool>| {
        let lengths: Vec<String> =
            verdicts.iter().filter(|(_, is)| *is == verdict).map(|(n, _)| n.to_string()).collect();
        lengths.join(", ")
    };
    let [faster, slower, open] = [Some(true), Some(false), None].map(at);
    let holds = match (verdicts.is_empty(), slower.is_empty(), open.is_empty()) {
        (false, true, true) => Some(true),
        (_, false, _) => Some(false),
        _ => None,
    };
    let or_none = |lengths: &str| if lengths.is_empty() { "–".to_owned() } else { lengths.to_owned() };
    let [faster, slower, undecided] = [&faster, &slower, &open].map(|lengths| or_none(lengths));
    let found = localized!(
        "models of the same size are faster at lengths: transformer {faster}; LSTM {slower}; undecided {undecided}",
        "同じ大きさのモデルで速い方（長さ別）: トランスフォーマー {faster}、LSTM {slower}、判定できない {undecided}",
    );
    let claim = localized!(
        "self-attention trains faster up to lengths of about 512",
        "長さおよそ 512 まではセルフアテンションの方が速く学習する",
    );
    Claim::new(claim, holds, found, quieter_machine)
}

/// Describes the measured and the expected power of a growth.
fn growth_figures(growth: &TimeGrowth) -> LocalizedText {
    let MedianInterval { low, median, high } = growth.power;
    let (expected, from, to) = (growth.expected, growth.lengths[0], growth.lengths[growth.lengths.len() - 1]);
    let (from, to) = (format_thousands(from), format_thousands(to));
    localized!(
        "from {from} to {to} as length to the power {median:.2} ({low:.2} to {high:.2}); by multiply-adds {expected:.2}",
        "{from} から {to} まで長さの {median:.2} 乗 ({low:.2} から {high:.2})、積和演算の数では {expected:.2} 乗",
    )
}

fn too_few_lengths() -> LocalizedText {
    localized!("too few lengths were timed", "測った長さが足りません")
}

/// Checks whether a recurrent network's time grows linearly with the length.
fn linear_growth_claim(lstm: &ComparedNetwork) -> Claim {
    let claim = localized!("a recurrent network's time grows linearly", "再帰型ネットワークの時間は長さに比例する");
    let Some(growth) = &lstm.growth else {
        return Claim::new(claim, None, too_few_lengths(), || localized!("three lengths at least", "三つ以上の長さ"));
    };
    let above = [1.0 - LINEAR_TOLERANCE, 1.0 + LINEAR_TOLERANCE].map(|power| growth.power.is_above(power));
    let holds = match above {
        [Some(true), Some(false)] => Some(true),
        [Some(false), _] | [_, Some(true)] => Some(false),
        _ => None,
    };
    Claim::new(claim, holds, growth_figures(growth), quieter_machine)
}

/// Checks whether a transformer's time grows with the square of the length, for lengths from its width on.
fn quadratic_growth_claim(transformer: &ComparedNetwork) -> Claim {
    let claim = localized!(
        "self-attention's time grows quadratically beyond the width",
        "セルフアテンションの時間は、幅を超える長さでは長さの二乗で増える",
    );
    let width = format_thousands(transformer.width);
    let Some(growth) = &transformer.growth else {
        return Claim::new(claim, None, too_few_lengths(), || {
            localized!("three lengths from the width of {width} on", "幅 {width} 以上の三つの長さ")
        });
    };
    let mut found = growth_figures(growth);
    if let Some(from) = growth.square_from.map(format_thousands) {
        let rule = localized!(
            "; at width {width} the quadratic term dominates from about {from} on",
            "。幅 {width} では二乗が支配するのは長さおよそ {from} から",
        );
        found = LocalizedText { en: found.en + &rule.en, ja: found.ja + &rule.ja };
    }
    Claim::new(claim, growth.power.is_above(TimeGrowth::QUADRATIC_POWER), found, quieter_machine)
}

/// Checks the claims about the article's own two models.
fn article_claims(article: &ArticleResults) -> [Claim; 2] {
    let ArticleResults { lstm_ms, attention_ms, lstm_parameters, attention_parameters, speedup } = *article;
    let MedianInterval { low, median, high } = speedup;
    let times = localized!(
        "the article's two models, on this machine: LSTM {lstm_ms:.1} ms, attention {attention_ms:.1} ms, {median:.2} times \
         ({low:.2} to {high:.2})",
        "この計算機で記事の二つのモデルは LSTM {lstm_ms:.1} ms、アテンション {attention_ms:.1} ms、{median:.2} 倍 ({low:.2} から \
         {high:.2})",
    );
    let [lstm, attention] = [lstm_parameters, attention_parameters].map(format_thousands);
    let parameters = localized!(
        "the article's two models have {lstm} (LSTM) and {attention} (attention)",
        "記事の二つのモデルは {lstm} 個 (LSTM) と {attention} 個 (アテンション)",
    );
    let fewer = Some(lstm_parameters < attention_parameters);
    [
        Claim::new(
            localized!(
                "self-attention is 1.41 times as fast as an LSTM, forward, 32 sequences of length 100",
                "順伝播、長さ 100 の 32 系列で、セルフアテンションは LSTM の 1.41 倍速い",
            ),
            speedup.is_above(1.41),
            times,
            quieter_machine,
        ),
        Claim::new(
            localized!(
                "the recurrent classifier has fewer parameters, 2,826,498 to 3,150,338",
                "再帰型の分類器の方がパラメータが少ない (2,826,498 対 3,150,338)",
            ),
            fewer,
            parameters,
            quieter_machine,
        ),
    ]
}

/// Describes a difference of accuracy.
fn accuracy_figures(difference: &AccuracyDifference, first: &str, second: &str) -> LocalizedText {
    let [low, value, high] =
        [difference.interval()[0], difference.value(), difference.interval()[1]].map(|x| 100.0 * x);
    let (rows, apart) =
        (format_thousands(difference.rows), format_thousands(difference.first_only + difference.second_only));
    localized!(
        "accuracy of the {first} minus that of the {second}: {value:+.1} points ({low:+.1} to {high:+.1}); only \
         one model is right on {apart} of {rows} rows",
        "正解率の差 ({first} から {second} を引いた値): {value:+.1} ポイント ({low:+.1} から {high:+.1})。{rows} 行のうち一方だけが正しいのは \
         {apart} 行",
    )
}

/// Says which rows would decide the claim: held-out rows, or more of them.
fn rows_needed(
    difference: &AccuracyDifference,
    is_new: bool,
    is_decided: impl Fn(&AccuracyDifference) -> bool,
) -> LocalizedText {
    let unseen = || localized!("rows that were not used for training", "学習に使っていない行");
    if !is_new {
        return unseen();
    }
    match difference.rows_until(is_decided).map(format_thousands) {
        Some(rows) => {
            localized!("about {rows} test rows like these", "同様のテスト行がおよそ {rows} 行",)
        }
        None if difference.first_only == difference.second_only => localized!(
            "no number of such rows: so far both models are equally often right",
            "このような行をいくら増やしても決まりません: 今のところ正しい回数が同じです",
        ),
        None => localized!(
            "no number of such rows: the difference is close to the limit",
            "このような行をいくら増やしても決まりません: 差が判定の境目とほぼ同じです",
        ),
    }
}

fn accuracy_claim(transformer: &ComparedNetwork, lstm: &ComparedNetwork, is_new: bool) -> Claim {
    let difference = AccuracyDifference::compare(&transformer.is_right, &lstm.is_right);
    let decide = |d: &AccuracyDifference| match d.interval() {
        [low, _] if low > 0.0 => Some(true),
        [_, high] if high < 0.0 => Some(false),
        _ => None,
    };
    let claim = localized!("the transformer is more accurate", "トランスフォーマーの方が正確である");
    let holds = decide(&difference).filter(|_| is_new);
    let would_decide = || rows_needed(&difference, is_new, |d| decide(d).is_some());
    Claim::new(claim, holds, accuracy_figures(&difference, "transformer", "LSTM"), would_decide)
}

fn positions_claim(sinusoidal: &ComparedNetwork, learned: &ComparedNetwork, is_new: bool) -> Claim {
    let difference = AccuracyDifference::compare(&sinusoidal.is_right, &learned.is_right);
    let decide = |d: &AccuracyDifference| match d.interval() {
        [low, high] if low >= -EQUIVALENCE_MARGIN && high <= EQUIVALENCE_MARGIN => Some(true),
        [low, high] if low > EQUIVALENCE_MARGIN || high < -EQUIVALENCE_MARGIN => Some(false),
        _ => None,
    };
    let margin = 100.0 * EQUIVALENCE_MARGIN;
    let claim = localized!(
        "sinusoidal and learned positions are about equally accurate (within {margin:.0} points)",
        "正弦波と学習した位置の成績はほぼ等しい ({margin:.0} ポイント以内)",
    );
    let holds = decide(&difference).filter(|_| is_new);
    let would_decide = || rows_needed(&difference, is_new, |d| decide(d).is_some());
    Claim::new(claim, holds, accuracy_figures(&difference, "sinusoidal", "learned"), would_decide)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::StepTime;
    use crate::count::{CountConfig, NetworkKind};
    use Verdict::{DoesNotHold, Holds, Open};

    const LENGTHS: [usize; 6] = [32, 64, 128, 256, 512, 1024];

    /// The time of a step, by its length and the number of the sweep (0 to 10).
    type StepTimeFn<'a> = &'a dyn Fn(f64, usize) -> f64;

    fn model(network: BackboneKind, position: PositionKind, time: StepTimeFn<'_>, right: Vec<bool>) -> ComparedNetwork {
        let step = |n: usize| StepTime::from_runs(n, (0..11).map(|sweep| time(n as f64, sweep)).collect());
        let steps: Vec<StepTime> = LENGTHS.map(step).into();
        let (counted, shortest) = match network {
            BackboneKind::Transformer => (NetworkKind::Transformer, 256),
            BackboneKind::Recurrent(cell) => (NetworkKind::Recurrent(cell), 128),
        };
        let sizes = CountConfig { network: counted, ..CountConfig::default() };
        ComparedNetwork {
            network,
            position,
            sizes: LocalizedText::default(),
            width: 256,
            parameters: 1,
            accuracy: 0.0,
            macro_f1: 0.0,
            macro_f1_interval: [0.0; 2],
            epochs: 1,
            training_seconds: 1.0,
            growth: TimeGrowth::fit(&steps, &sizes, shortest).unwrap(),
            steps,
            is_right: right,
        }
    }

    /// Outcomes of `rows` rows: all right except those in `wrong`.
    fn outcomes(rows: usize, wrong: std::ops::Range<usize>) -> Vec<bool> {
        (0..rows).map(|row| !wrong.contains(&row)).collect()
    }

    fn article(ratio: f64, spread: f64) -> ArticleResults {
        let speedup = MedianInterval { low: ratio - spread, median: ratio, high: ratio + spread };
        let attention_parameters = (1000.0 * ratio) as usize;
        ArticleResults { lstm_parameters: 1000, attention_parameters, lstm_ms: ratio, attention_ms: 1.0, speedup }
    }

    /// Returns the two claims on the scores of three models: transformer, learned positions, LSTM.
    fn score_claims(right: [Vec<bool>; 3], scored_on: &str) -> [Claim; 2] {
        let [ours, learned, lstm] = right;
        let models = [
            model(BackboneKind::Transformer, PositionKind::Sinusoidal, &|n, _| n, ours),
            model(BackboneKind::Transformer, PositionKind::Learned, &|n, _| n, learned),
            model(BackboneKind::Recurrent(RecurrentCell::Lstm), PositionKind::None, &|n, _| n, lstm),
        ];
        let claims = check_claims(&models, &article(1.5, 0.1), scored_on);
        assert_eq!(claims.len(), 7);
        [claims[5].clone(), claims[6].clone()]
    }

    /// Returns the three claims on time: speed, linear growth, quadratic growth.
    fn time_claims(transformer: StepTimeFn<'_>, lstm: StepTimeFn<'_>) -> Vec<Claim> {
        let models = [
            model(BackboneKind::Transformer, PositionKind::Sinusoidal, transformer, vec![]),
            model(BackboneKind::Recurrent(RecurrentCell::Lstm), PositionKind::None, lstm, vec![]),
        ];
        check_claims(&models, &article(1.5, 0.1), "test")[2..5].to_vec()
    }

    fn verdicts(claims: &[Claim]) -> Vec<Verdict> {
        for claim in claims {
            assert_eq!(claim.verdict == Open, claim.would_decide.is_some(), "{claim:?}");
        }
        claims.iter().map(|claim| claim.verdict).collect()
    }

    #[test]
    fn scores_decide_claims_if_there_are_enough_rows() {
        // Equal accuracies with errors on different rows: 100 rows decide nothing, 20,000 show that the models are
        // equal.
        let few = score_claims([outcomes(100, 0..5), outcomes(100, 5..10), outcomes(100, 10..15)], "test");
        assert_eq!(verdicts(&few), [Open, Open]);
        assert!(few[0].would_decide.as_ref().unwrap().en.contains("equally often right"), "{few:?}");
        let hint = &few[1].would_decide.as_ref().unwrap().en;
        assert!(hint.starts_with("about 1,") || hint.starts_with("about 2,"), "{hint}");
        // A lead of one or two points on 100 rows decides nothing either.
        let ahead = score_claims([outcomes(100, 0..5), outcomes(100, 5..11), outcomes(100, 10..17)], "test");
        assert_eq!(verdicts(&ahead), [Open, Open]);
        assert!(ahead[0].would_decide.as_ref().unwrap().en.starts_with("about "), "{ahead:?}");
        let many = || [outcomes(20_000, 0..500), outcomes(20_000, 500..1000), outcomes(20_000, 1000..1500)];
        assert_eq!(verdicts(&score_claims(many(), "test")), [Open, Holds]);
        // Clear differences in both directions.
        let apart =
            |ours, learned, lstm| [outcomes(1000, 0..ours), outcomes(1000, 0..learned), outcomes(1000, 0..lstm)];
        assert_eq!(verdicts(&score_claims(apart(100, 300, 200), "test")), [Holds, DoesNotHold]);
        assert_eq!(verdicts(&score_claims(apart(200, 20, 100), "test")), [DoesNotHold, DoesNotHold]);
        // A certain difference that may be smaller than the margin.
        assert_eq!(verdicts(&score_claims(apart(10, 30, 20), "test")), [Holds, Open]);
        // Training rows decide nothing.
        let seen = score_claims(apart(100, 300, 200), "train");
        assert_eq!(verdicts(&seen), [Open, Open]);
        assert!(seen[0].would_decide.as_ref().unwrap().en.contains("not used"));
        assert_eq!(verdicts(&score_claims(many(), "train"))[1], Open);
    }

    #[test]
    fn times_decide_claims_if_the_runs_agree() {
        let jitter = |sweep: usize| 1.0 + 0.01 * sweep as f64;
        // Exact quadratic and linear growth, with an LSTM that is slower at all short lengths.
        let clean = time_claims(&|n, s| 1e-3 * n * n * jitter(s), &|n, s| 2.0 * n * jitter(s));
        assert_eq!(verdicts(&clean), [Holds, Holds, Holds]);
        let other = time_claims(&|n, s| 3.0 * n * jitter(s), &|n, s| 1e-4 * n * n * jitter(s));
        assert_eq!(verdicts(&other), [DoesNotHold, DoesNotHold, DoesNotHold]);
        // One disturbed sweep of eleven changes nothing. Half of them leave everything open.
        let once = |s: usize| if s == 3 { 30.0 } else { 1.0 };
        let disturbed = time_claims(&|n, s| 1e-3 * n * n * once(s), &|n, _| 2.0 * n);
        assert_eq!(verdicts(&disturbed)[0], Holds);
        let noise = |n: f64, s: usize| if (s + n as usize / 256).is_multiple_of(2) { 40.0 } else { 0.05 };
        let noisy = time_claims(&|n, s| n * n * noise(n, s), &|n, s| n * noise(n, s + 1));
        assert_eq!(verdicts(&noisy), [Open, Open, Open]);
        assert!(noisy.iter().all(|claim| claim.would_decide.as_ref().unwrap().en.contains("quieter machine")));
        // The expected power is printed next to the measured one.
        assert!(
            clean[1].found.en.contains("to the power 1.00 (1.00 to 1.00); by multiply-adds 1.00"),
            "{:?}",
            clean[1]
        );
        assert!(
            clean[2].found.en.contains("at width 256 the quadratic term dominates from about 8,192 on"),
            "{:?}",
            clean[2]
        );
    }

    #[test]
    fn powers_near_one_are_linear_and_powers_near_two_are_quadratic() {
        let of = |power: f64| verdicts(&time_claims(&|n, _| n.powf(power), &|n, _| n.powf(power)))[1..].to_vec();
        for (power, expected) in [
            (0.8, [DoesNotHold, DoesNotHold]),
            (0.9, [Holds, DoesNotHold]),
            (1.1, [Holds, DoesNotHold]),
            (1.2, [DoesNotHold, DoesNotHold]),
            (1.8, [DoesNotHold, DoesNotHold]),
            (1.9, [DoesNotHold, Holds]),
        ] {
            assert_eq!(of(power), expected, "{power}");
        }
    }

    #[test]
    fn more_lengths_need_stronger_evidence_for_each() {
        // One sweep of eleven disagrees, which still decides each length at 5 %.
        let verdict_at = |lengths: &[usize]| {
            let model = |network, position, [usual, disturbed]: [f64; 2]| {
                let times = || (0..11).map(|sweep| if sweep == 3 { disturbed } else { usual }).collect();
                let steps = lengths.iter().map(|&n| StepTime::from_runs(n, times())).collect();
                ComparedNetwork { steps, ..model(network, position, &|n, _| n, vec![]) }
            };
            let transformer = model(BackboneKind::Transformer, PositionKind::Sinusoidal, [1.0, 9.0]);
            let lstm = model(BackboneKind::Recurrent(RecurrentCell::Lstm), PositionKind::None, [2.0, 2.0]);
            speed_claim(&transformer, &lstm).verdict
        };
        assert_eq!(verdict_at(&[32, 64, 128, 256]), Holds);
        assert_eq!(verdict_at(&[32, 64, 96, 128, 256]), Open);
    }

    #[test]
    fn the_articles_models_are_compared_by_interval_and_parameters() {
        let of = |ratio, spread| verdicts(&article_claims(&article(ratio, spread)));
        assert_eq!(of(1.5, 0.05), [Holds, Holds]);
        assert_eq!(of(0.9, 0.05), [DoesNotHold, DoesNotHold]);
        assert_eq!(of(1.4, 0.05), [Open, Holds]);
    }

    #[test]
    fn json_is_english_and_text_is_localized() {
        let claim = &article_claims(&article(1.4, 0.05))[0];
        let json = serde_json::to_value(claim).unwrap();
        assert_eq!(json["verdict"], "open");
        assert_eq!(json["would_decide"], claim.would_decide.as_ref().unwrap().en);
        assert!(claim.claim.in_lang(Lang::Ja).contains("セルフアテンション"));
        assert!(serde_json::to_value(&article_claims(&article(1.4, 0.05))[1]).unwrap().get("would_decide").is_none());
    }
}
