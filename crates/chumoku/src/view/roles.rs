//! What a head does, by figures of its weights: how widely it looks, how far, and at what.
//!
//! Such figures describe heads of trained transformers well (Clark et al. 2019, "What Does BERT Look At?"; Voita et al.
//! 2019): some look at neighbours, some broadly, some pair words up, and many rest on one token that says nothing, a sink,
//! where they have nothing to do.

use crate::lang::Lang;
use serde::Serialize;

/// What a head does, as its figures show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// More than half of all attention goes to one word.
    Sink,
    /// More than half goes to the word itself and its neighbours.
    Local,
    /// Attention is spread almost evenly: entropy from nine tenths of the most that there can be.
    Broad,
    /// Each word gives more than half to one other, as a rule.
    Pairwise,
    /// It goes further, on the mean, than evenly spread attention would.
    Distant,
    /// None of these.
    Mixed,
}

/// The figures of a head over one text. Words are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HeadStatistics {
    /// The layer.
    pub layer: usize,
    /// The head.
    pub head: usize,
    /// What it does.
    pub role: Role,
    /// Mean entropy of the rows by the most that there can be, ln of the words: 1 is spread evenly, 0 is one word.
    pub entropy: f32,
    /// Mean distance of what is looked at, in words.
    pub distance: f32,
    /// Share that goes to the word itself and its neighbours.
    pub nearby: f32,
    /// Share that goes to the word before.
    pub previous: f32,
    /// Share that goes to the first word.
    pub first: f32,
    /// Mean of the largest weight of each row.
    pub strongest: f32,
    /// The word that is looked at most.
    pub sink: usize,
    /// Share that goes to it.
    pub sink_share: f32,
}

/// The figures of a head whose rows are these, each over `words` words or the first of them, which are those that it sees.
pub(super) fn statistics<'a>(
    [layer, head]: [usize; 2],
    words: usize,
    rows: impl Iterator<Item = &'a [f32]>,
) -> HeadStatistics {
    let mut received = vec![0.0f32; words];
    let [mut entropy, mut distance, mut nearby, mut previous, mut strongest] = [0.0f32; 5];
    let (mut count, mut chosen, mut even) = (0, 0, 0.0f32);
    for (i, row) in rows.enumerate() {
        count += 1;
        let (mut largest, mut of_row) = (0.0f32, 0.0f32);
        for (j, &weight) in row.iter().enumerate() {
            received[j] += weight;
            if weight > 0.0 {
                of_row -= weight * weight.ln();
            }
            distance += weight * i.abs_diff(j) as f32;
            previous += if j + 1 == i { weight } else { 0.0 };
            nearby += if i.abs_diff(j) <= 1 { weight } else { 0.0 };
            largest = largest.max(weight);
        }
        strongest += largest;
        // Who sees one word alone has no choice.
        if row.len() > 1 {
            (entropy, chosen) = (entropy + of_row / (row.len() as f32).ln(), chosen + 1);
        }
        // Evenly spread attention goes so far on the mean.
        even += (0..row.len()).map(|j| i.abs_diff(j) as f32).sum::<f32>() / row.len().max(1) as f32;
    }
    let rows = count.max(1) as f32;
    let sink = (0..words).fold(0, |best, j| if received[j] > received[best] { j } else { best });
    let mean = |sum: f32| sum / rows;
    let mut found = HeadStatistics {
        layer,
        head,
        role: Role::Mixed,
        entropy: entropy / chosen.max(1) as f32,
        distance: mean(distance),
        nearby: mean(nearby),
        previous: mean(previous),
        first: mean(received.first().copied().unwrap_or(0.0)),
        strongest: mean(strongest),
        sink,
        sink_share: mean(received.get(sink).copied().unwrap_or(0.0)),
    };
    found.role = match found {
        // Two words leave nothing to tell apart.
        _ if words < 3 => Role::Mixed,
        f if f.sink_share > 0.5 => Role::Sink,
        f if f.entropy >= 0.9 => Role::Broad,
        f if f.nearby > 0.5 => Role::Local,
        f if f.strongest > 0.5 => Role::Pairwise,
        f if f.distance > mean(even) => Role::Distant,
        _ => Role::Mixed,
    };
    found
}

impl Role {
    /// What it is called.
    #[must_use]
    pub fn name(self, lang: Lang) -> &'static str {
        let [en, ja] = match self {
            Role::Sink => ["sink", "集中"],
            Role::Local => ["local", "局所"],
            Role::Broad => ["broad", "広範"],
            Role::Pairwise => ["pairwise", "対"],
            Role::Distant => ["distant", "遠方"],
            Role::Mixed => ["mixed", "混合"],
        };
        lang.pick(en, ja)
    }
}

impl HeadStatistics {
    /// What a role that surprises means.
    #[must_use]
    pub fn explained(&self, lang: Lang) -> Option<&'static str> {
        (self.role == Role::Sink).then(|| {
            lang.pick(
                "A sink does not mean that this word matters: the weights of a row must add up to 1, and a head that finds \
                 nothing rests them on a word that is always there, the first one or a full stop (Clark et al. 2019; Xiao et \
                 al. 2023).",
                "集中は、その語が重要だという意味ではありません。各行の重みの合計は 1 でなければならず、探すものがないヘッドは、\
                 先頭の語や句点など必ずある語に重みを預けます（Clark et al. 2019、Xiao et al. 2023）。",
            )
        })
    }

    /// What it does, with the figure that shows it; `word` is the one that is looked at most.
    #[must_use]
    pub fn to_text(&self, lang: Lang, word: &str) -> String {
        let percent = |share: f32| format!("{:.0} %", 100.0 * share);
        let word = super::phrases::quoted(lang, word);
        let (sink, nearby, strongest) = (percent(self.sink_share), percent(self.nearby), percent(self.strongest));
        let (entropy, distance) = (format!("{:.2}", self.entropy), format!("{:.1}", self.distance));
        match (lang, self.role) {
            (Lang::En, Role::Sink) => {
                format!("sink: {sink} of all attention rests on {word}, as in a head that has nothing to do here")
            }
            (Lang::En, Role::Local) => format!("local: {nearby} goes to the word itself and its neighbours"),
            (Lang::En, Role::Broad) => format!("broad: spread almost evenly, entropy {entropy} of 1"),
            (Lang::En, Role::Pairwise) => format!("pairwise: each word gives {strongest} to one other, on the mean"),
            (Lang::En, Role::Distant) => format!("distant: it looks {distance} words away, on the mean"),
            (Lang::En, Role::Mixed) => {
                format!("mixed: entropy {entropy} of 1, {nearby} nearby, most on {word} ({sink})")
            }
            (Lang::Ja, Role::Sink) => {
                format!("集中: アテンションの {sink} が{word}に集まる（ここでは役目のないヘッドによく見られる）")
            }
            (Lang::Ja, Role::Local) => format!("局所: {nearby} がその語自身と隣の語に向かう"),
            (Lang::Ja, Role::Broad) => format!("広範: ほぼ均等に広がる（エントロピー {entropy}、最大 1）"),
            (Lang::Ja, Role::Pairwise) => format!("対: 各語は平均して {strongest} を一つの語に向ける"),
            (Lang::Ja, Role::Distant) => format!("遠方: 平均して {distance} 語離れた語を見る"),
            (Lang::Ja, Role::Mixed) => {
                format!("混合: エントロピー {entropy}（最大 1）、近傍 {nearby}、最も見られているのは{word}（{sink}）")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: &[&[f32]]) -> HeadStatistics {
        statistics([1, 2], rows[0].len(), rows.iter().copied())
    }

    #[test]
    fn each_role_is_known_by_its_figure() {
        let sink = of(&[&[0.8, 0.1, 0.1, 0.0], &[0.7, 0.3, 0.0, 0.0], &[0.9, 0.0, 0.1, 0.0], &[0.6, 0.2, 0.1, 0.1]]);
        assert_eq!((sink.role, sink.sink, sink.layer, sink.head), (Role::Sink, 0, 1, 2));
        assert!((sink.sink_share - 0.75).abs() < 1e-6 && (sink.first - 0.75).abs() < 1e-6);
        // .7, 0 and .1 of four rows: the word after would get other shares.
        assert!((sink.previous - 0.2).abs() < 1e-6);
        let broad = of(&[&[0.25f32; 4][..]; 4]);
        assert_eq!(broad.role, Role::Broad);
        assert!((broad.entropy - 1.0).abs() < 1e-6 && (broad.distance - 1.25).abs() < 1e-6);
        let local = of(&[&[0.5, 0.5, 0.0, 0.0], &[0.3, 0.4, 0.3, 0.0], &[0.0, 0.3, 0.4, 0.3], &[0.0, 0.0, 0.5, 0.5]]);
        assert_eq!(local.role, Role::Local);
        assert!((local.nearby - 1.0).abs() < 1e-6);
        let pairs = of(&[&[0.0, 0.0, 0.9, 0.1], &[0.1, 0.0, 0.0, 0.9], &[0.9, 0.1, 0.0, 0.0], &[0.1, 0.9, 0.0, 0.0]]);
        assert_eq!(pairs.role, Role::Pairwise);
        assert!((pairs.strongest - 0.9).abs() < 1e-6);
        let far = of(&[
            &[0.0, 0.0, 0.1, 0.2, 0.3, 0.4],
            &[0.0, 0.0, 0.0, 0.4, 0.3, 0.3],
            &[0.4, 0.0, 0.0, 0.0, 0.2, 0.4],
            &[0.4, 0.3, 0.0, 0.0, 0.0, 0.3],
            &[0.4, 0.3, 0.3, 0.0, 0.0, 0.0],
            &[0.4, 0.3, 0.2, 0.1, 0.0, 0.0],
        ]);
        assert_eq!(far.role, Role::Distant, "{far:?}");
        assert_eq!(of(&[&[1.0]]).role, Role::Mixed);
    }

    #[test]
    fn every_role_has_words_in_both_languages() {
        for role in [Role::Sink, Role::Local, Role::Broad, Role::Pairwise, Role::Distant, Role::Mixed] {
            let head = HeadStatistics { role, ..of(&[&[0.25f32; 4][..]; 4]) };
            let [english, japanese] = [Lang::En, Lang::Ja].map(|lang| head.to_text(lang, "w"));
            let is_japanese = |c: char| ('\u{3040}'..='\u{9fff}').contains(&c);
            assert!(!english.contains(is_japanese) && japanese.contains(is_japanese), "{english} {japanese}");
        }
    }
}
