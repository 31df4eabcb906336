//! Roles of heads, from statistics of their weights: entropy, distance and targets of attention.
//!
//! Such statistics describe the heads of trained transformers well (Clark et al. 2019, "What Does BERT Look At?"; Voita
//! et al. 2019). Some heads attend to neighbors, and some pair words. Many rest on one token without content, a sink,
//! when they have nothing to do. Heads with random weights show such statistics too. A head gets a role only if its
//! statistic exceeds that of random heads ([`super::random_heads`]).

use super::random_heads::{HeadShape, RANDOM_HEADS, RandomHeads, sampled_queries};
use super::statistics::measure_rows;
use crate::lang::Lang;
use serde::Serialize;

/// The role of a head, by its statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum HeadRole {
    /// More than half of all attention goes to one word.
    Sink,
    /// More than half goes to the word itself and its neighbors.
    Local,
    /// Most words give more than half to one other word, and different words to different ones.
    Pairwise,
    /// The mean distance exceeds that of uniform attention.
    Distant,
    /// None of these, or not more than random heads show.
    Mixed,
}

/// The statistics of a head over one text. Words are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HeadStatistics {
    /// The layer.
    pub layer: usize,
    /// The head.
    pub head: usize,
    /// The role.
    pub role: HeadRole,
    /// The mean entropy of the rows, as a share of the maximum, the logarithm of the number of words. 1 is uniform, 0
    /// is a single word.
    pub entropy: f32,
    /// The mean distance between query and key, in words.
    pub distance: f32,
    /// The share on the word itself and its neighbors.
    pub(crate) nearby: f32,
    /// The share on the previous word.
    pub previous: f32,
    /// The share on the first word.
    pub first: f32,
    /// The mean of the largest weight in each row.
    pub strongest: f32,
    /// The word with the most attention.
    pub sink: usize,
    /// The share on this word.
    pub sink_share: f32,
}

/// The entropy from which attention without a role counts as spread out.
const SPREAD_OUT: f32 = 0.7;

/// The share of one word from which attention without a role goes mostly to that word.
const MAJORITY: f32 = 0.5;

/// Computes the statistics and role of a head. `row` returns the weights of each query word.
pub(crate) fn head_statistics<'a>(
    [layer, head]: [usize; 2],
    shape: &HeadShape,
    row: impl Fn(usize) -> &'a [f32],
) -> HeadStatistics {
    let words = shape.tokens.len();
    let all = measure_rows(words, (0..words).map(|i| (i, row(i))));
    let mut found = HeadStatistics {
        layer,
        head,
        role: HeadRole::Mixed,
        entropy: all.entropy,
        distance: all.distance,
        nearby: all.nearby,
        previous: all.previous,
        first: all.first,
        strongest: all.strongest,
        sink: all.sink,
        sink_share: all.sink_share,
    };
    let is = [
        (HeadRole::Sink, all.sink_share > 0.5),
        (HeadRole::Local, all.nearby > 0.5),
        (HeadRole::Pairwise, all.strongest > 0.5),
        (HeadRole::Distant, all.distance > all.even_distance),
    ];
    // Two words are too few for a role.
    if words >= 3 && is.iter().any(|(_, is)| *is) {
        // Random heads of long texts use only some of the rows. The comparison uses the same rows.
        let compared = sampled_queries(words, shape.tokens.iter().sum());
        let of_some = measure_rows(words, compared.into_iter().map(|i| (i, row(i))));
        let chance = RandomHeads::for_shape(shape).largest_figures(of_some.entropy);
        let exceeds = of_some.role_figures().into_iter().zip(chance).map(|(figure, chance)| figure > chance);
        let role = is.into_iter().zip(exceeds).find(|((_, is), exceeds)| *is && *exceeds);
        found.role = role.map_or(HeadRole::Mixed, |((role, _), _)| role);
    }
    found
}

/// Returns a sentence on how roles are separated from chance.
#[must_use]
pub fn role_rule(lang: Lang) -> String {
    match lang {
        Lang::En => format!(
            "A role is named only if its statistic exceeds that of {RANDOM_HEADS} random heads. These have the same number of \
             tokens, the same width and equally concentrated rows. By chance, at most 1 head in 100 gets a role."
        ),
        Lang::Ja => format!(
            "役割を示すのは、同じ形（トークン数、幅、重みの集中度）の無作為なヘッド {RANDOM_HEADS} 個のどれよりも値が大きい場合\
             だけです。偶然に役割が付くヘッドは 100 個に 1 個以下です。"
        ),
    }
}

impl HeadRole {
    /// The name of the role.
    #[must_use]
    pub fn name(self, lang: Lang) -> &'static str {
        let [en, ja] = match self {
            HeadRole::Sink => ["sink", "集中"],
            HeadRole::Local => ["local", "局所"],
            HeadRole::Pairwise => ["pairwise", "対"],
            HeadRole::Distant => ["distant", "遠方"],
            HeadRole::Mixed => ["no pattern", "傾向なし"],
        };
        lang.pick(en, ja)
    }
}

impl HeadStatistics {
    /// Returns a caveat on roles that are easily misread.
    #[must_use]
    pub fn caveat(&self, lang: Lang) -> Option<&'static str> {
        (self.role == HeadRole::Sink).then(|| {
            lang.pick(
                "A sink does not mean that this word matters: the weights of a row must add up to 1, and a head that finds \
                 nothing rests them on a word that is always there, the first one or a full stop (Clark et al. 2019; Xiao et \
                 al. 2023).",
                "集中は、その語が重要だという意味ではありません。各行の重みの合計は 1 でなければならず、探すものがないヘッドは、\
                 先頭の語や句点など必ずある語に重みを預けます（Clark et al. 2019、Xiao et al. 2023）。",
            )
        })
    }

    /// Describes the role with its statistic in a sentence without a full stop. `word` is the word with the most attention.
    #[must_use]
    pub fn describe(&self, lang: Lang, word: &str) -> String {
        let percent = |share: f32| format!("{:.0} %", 100.0 * share);
        let word = lang.quoted(word);
        let (sink, nearby, strongest) = (percent(self.sink_share), percent(self.nearby), percent(self.strongest));
        let distance = format!("{:.1}", self.distance);
        match (lang, self.role) {
            (Lang::En, HeadRole::Sink) => {
                format!("{sink} of all attention rests on {word}, as in a head that has nothing to look for here")
            }
            (Lang::En, HeadRole::Local) => {
                format!("Words look at themselves and their neighbors: {nearby} of the attention goes there")
            }
            (Lang::En, HeadRole::Pairwise) => {
                format!("Each word looks at one other word, to which it gives {strongest} on average")
            }
            (Lang::En, HeadRole::Distant) => format!("Words look far away: {distance} words on average"),
            (Lang::En, HeadRole::Mixed) if self.entropy >= SPREAD_OUT => {
                "No clear pattern; attention is spread out".to_owned()
            }
            (Lang::En, HeadRole::Mixed) if self.sink_share >= MAJORITY => {
                format!("Most of the attention, {sink}, goes to {word}")
            }
            (Lang::En, HeadRole::Mixed) => format!("No clear pattern; {word} receives most, {sink} of the attention"),
            (Lang::Ja, HeadRole::Sink) => {
                format!("アテンションの {sink} が{word}に集まっています（ここでは役目のないヘッドによく見られます）")
            }
            (Lang::Ja, HeadRole::Local) => format!("各語は自分自身と隣の語を見ています（アテンションの {nearby}）"),
            (Lang::Ja, HeadRole::Pairwise) => format!("各語は別の一語を見ています（平均 {strongest}）"),
            (Lang::Ja, HeadRole::Distant) => format!("平均 {distance} 語離れた語を見ています"),
            (Lang::Ja, HeadRole::Mixed) if self.entropy >= SPREAD_OUT => {
                "はっきりした傾向はなく、アテンションは広く分散しています".to_owned()
            }
            (Lang::Ja, HeadRole::Mixed) if self.sink_share >= MAJORITY => {
                format!("アテンションの大半（{sink}）が{word}に向かっています")
            }
            (Lang::Ja, HeadRole::Mixed) => format!("はっきりした傾向はなく、最も見られているのは{word}です（{sink}）"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chumoku_kernels::Philox;

    fn of(rows: &[Vec<f32>]) -> HeadStatistics {
        let causal = rows[0].len() < rows.len();
        head_statistics([1, 2], &HeadShape { tokens: vec![1; rows.len()], dim: 16, causal }, |i| &rows[i])
    }

    /// Rows with `most` on one word each. The rest is uniform over the visible words.
    fn built(n: usize, causal: bool, most: f32, target: impl Fn(usize) -> usize) -> Vec<Vec<f32>> {
        let row = |i: usize| {
            let visible = if causal { i + 1 } else { n };
            let mut row = vec![if visible > 1 { (1.0 - most) / (visible - 1) as f32 } else { 1.0 }; visible];
            if visible > 1 {
                row[target(i).min(visible - 1)] = most;
            }
            row
        };
        (0..n).map(row).collect()
    }

    #[test]
    fn constructed_heads_get_their_role() {
        for n in [16, 24, 60] {
            let previous = |i: usize| i.saturating_sub(1);
            for (rows, role) in [
                (built(n, false, 0.85, previous), HeadRole::Local),
                (built(n, true, 0.85, previous), HeadRole::Local),
                (built(n, false, 0.85, |_| 0), HeadRole::Sink),
                (built(n, true, 0.85, |_| 0), HeadRole::Sink),
                // Pairs of distant words.
                (built(n, false, 0.85, |i| if i % 4 < 2 { i + 2 } else { i - 2 }), HeadRole::Pairwise),
                // Each half attends to the far end of the other.
                (built(n, false, 0.85, |i| if i < n / 2 { n - 1 - i % 3 } else { i % 3 }), HeadRole::Distant),
            ] {
                let found = of(&rows);
                assert_eq!(found.role, role, "{n} {found:?}");
                assert_eq!((found.layer, found.head), (1, 2));
            }
        }
        // Uniform attention and too few words have no role.
        assert_eq!(of(&vec![vec![0.05; 20]; 20]).role, HeadRole::Mixed);
        assert_eq!(of(&[vec![0.9, 0.1], vec![0.9, 0.1]]).role, HeadRole::Mixed);
    }

    #[test]
    fn a_head_without_a_role_has_a_sentence_on_its_strongest_word() {
        let head = of(&[vec![0.9, 0.1], vec![0.9, 0.1]]);
        assert_eq!(head.describe(Lang::En, "cat"), "Most of the attention, 90 %, goes to “cat”");
        assert_eq!(head.describe(Lang::Ja, "猫"), "アテンションの大半（90 %）が「猫」に向かっています");
        let even = of(&vec![vec![0.25f32; 4]; 4]);
        assert_eq!(even.describe(Lang::En, "cat"), "No clear pattern; attention is spread out");
    }

    /// A head with random weights over random tokens at learned positions. Unlike the heads of [`RandomHeads`], it
    /// projects the same x: `x W_Q` and `x W_K`.
    fn untrained(n: usize, causal: bool, factor: f32, random: &Philox) -> Vec<Vec<f32>> {
        let (width, dim) = (32, 16);
        let x: Vec<f32> = (0..n * width).map(|i| random.normal(i as u64)).collect();
        let [query, key] = [1u64, 2].map(|part| {
            let weight = |i: usize, j: usize| random.normal((part << 32) + (i * dim + j) as u64);
            let w: Vec<Vec<f32>> = (0..width).map(|i| (0..dim).map(|j| weight(i, j)).collect()).collect();
            let of = |token: usize, j: usize| (0..width).map(|i| x[token * width + i] * w[i][j]).sum::<f32>();
            (0..n).map(|token| (0..dim).map(|j| of(token, j)).collect()).collect::<Vec<Vec<f32>>>()
        });
        let score = |i: usize, j: usize| {
            let product: f32 = query[i].iter().zip(&key[j]).map(|(a, b)| a * b).sum();
            factor * product / (width as f32 * (dim as f32).sqrt())
        };
        let row = |i: usize| {
            let exp: Vec<f32> = (0..if causal { i + 1 } else { n }).map(|j| score(i, j).exp()).collect();
            let sum: f32 = exp.iter().sum();
            exp.into_iter().map(|x| x / sum).collect()
        };
        (0..n).map(row).collect()
    }

    #[test]
    fn hardly_any_random_head_gets_a_role() {
        let (mut all, mut named) = (0, 0);
        for (n, causal) in [(6, false), (12, false), (12, true), (25, false), (40, true)] {
            for index in 0..240 {
                let factor = [0.5, 1.0, 3.0, 8.0][index % 4];
                let random = Philox::new(index as u64, 900 + n as u64 + u64::from(causal));
                named += usize::from(of(&untrained(n, causal, factor, &random)).role != HeadRole::Mixed);
                all += 1;
            }
        }
        assert!(all >= 1_000 && named * 100 <= 2 * all, "{named} of {all}");
    }

    #[test]
    fn statistics_match_their_definitions() {
        let rows: Vec<Vec<f32>> = vec![
            vec![0.8, 0.1, 0.1, 0.0],
            vec![0.7, 0.3, 0.0, 0.0],
            vec![0.9, 0.0, 0.1, 0.0],
            vec![0.6, 0.2, 0.1, 0.1],
        ];
        let sink = of(&rows);
        assert!((sink.sink, sink.layer, sink.head) == (0, 1, 2));
        assert!((sink.sink_share - 0.75).abs() < 1e-6 && (sink.first - 0.75).abs() < 1e-6);
        // The weights .7, 0 and .1 of four rows. The word after would get other shares.
        assert!((sink.previous - 0.2).abs() < 1e-6);
        let even = of(&vec![vec![0.25f32; 4]; 4]);
        assert!((even.entropy - 1.0).abs() < 1e-6 && (even.distance - 1.25).abs() < 1e-6);
    }

    #[test]
    fn every_role_has_words_in_both_languages() {
        for role in [HeadRole::Sink, HeadRole::Local, HeadRole::Pairwise, HeadRole::Distant, HeadRole::Mixed] {
            let head = HeadStatistics { role, ..of(&vec![vec![0.25f32; 4]; 4]) };
            let [english, japanese] = [Lang::En, Lang::Ja].map(|lang| head.describe(lang, "w"));
            let is_japanese = |c: char| ('\u{3040}'..='\u{9fff}').contains(&c);
            assert!(!english.contains(is_japanese) && japanese.contains(is_japanese), "{english} {japanese}");
        }
    }
}
