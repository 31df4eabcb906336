//! The figures of an explanation and of an alignment: heatmaps, lines, rollout, and the heads side by side.

use crate::figure::{
    AttentionLines, ColorScale, Content, Figure, FigureAxis, Heatmap, HeatmapGrid, KeyScore, ScoreBreakdown,
    pooling_note,
};
use crate::phrases;
use chumoku::explain::{Alignment, Explanation, HeadStatistics};
use chumoku::lang::Lang;
use chumoku::row::AsRow;
use chumoku::tr_in;

/// Order of the heads in a grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeadOrder {
    /// Layer by layer.
    #[default]
    Layer,
    /// By role.
    Role,
    /// Most concentrated first.
    Entropy,
    /// Largest attention distance first.
    Distance,
    /// Largest share of the previous word first.
    PreviousWord,
    /// Largest share of the first word first.
    FirstWord,
    /// Largest mean of the row maxima first.
    LargestWeight,
    /// Largest share of the most attended word first.
    Sink,
    /// Largest change of the prediction without the head first.
    Effect,
}

/// Returns words as the labels of an axis.
fn word_labels(words: &[super::Word]) -> Vec<String> {
    words.iter().map(|word| word.text.clone()).collect()
}

fn queries_and_keys(lang: Lang) -> [String; 2] {
    match lang {
        Lang::En => ["queries: words that look", "keys: words that are looked at"],
        Lang::Ja => ["クエリ：見る語", "キー：見られる語"],
    }
    .map(String::from)
}

/// Returns a note on numbers that no head computed.
fn derived_note(lang: Lang, text: [&str; 2]) -> Vec<String> {
    vec![match lang {
        Lang::En => format!("Derived: {}", text[0]),
        Lang::Ja => format!("導出値です。{}", text[1]),
    }]
}

/// The figures of an [`Explanation`].
pub trait ExplanationFigures {
    /// The heatmap of a head. All indices count from 0.
    ///
    /// # Panics
    /// If there is no such layer or head.
    #[must_use]
    fn heatmap(&self, layer: usize, head: usize, lang: Lang) -> Figure;

    /// The attention of a head, weighted by the lengths of the value vectors; `None` if that was not computed.
    ///
    /// # Panics
    /// If there is no such layer or head.
    #[must_use]
    fn value_weighted(&self, layer: usize, head: usize, lang: Lang) -> Option<Figure>;

    /// The attention rollout up to a layer; `None` if it was not computed.
    ///
    /// # Panics
    /// If there is no such layer.
    #[must_use]
    fn rollout(&self, layer: usize, lang: Lang) -> Option<Figure>;

    /// Lines between words for the weights of a head at or above a threshold.
    ///
    /// # Panics
    /// If there is no such layer or head.
    #[must_use]
    fn lines(&self, layer: usize, head: usize, threshold: f32, lang: Lang) -> Figure;

    /// The text in colors of the effect of each word, over all windows of a long text.
    #[must_use]
    fn effects(&self, lang: Lang) -> Figure;

    /// The deletion and insertion curves; `None` if they were not measured.
    #[must_use]
    fn curves(&self, lang: Lang) -> Option<Figure>;

    /// All heads in the given order.
    #[must_use]
    fn grid(&self, order: HeadOrder, lang: Lang) -> Figure;

    /// The terms of the score of a query and a key, both counted in tokens from 0. Returns `None` if they are unknown
    /// or the key is masked.
    ///
    /// # Panics
    /// If there is no such layer, head or token.
    #[must_use]
    fn products(&self, layer: usize, head: usize, pair: [usize; 2], lang: Lang) -> Option<Figure>;

    /// The difference between a head of `other` and a head of this explanation: its weights minus these, over the words
    /// that both texts share.
    ///
    /// # Errors
    /// If the texts have no word in common.
    ///
    /// # Panics
    /// If there is no such layer or head.
    fn difference(
        &self,
        place: [usize; 2],
        other: &Explanation,
        other_place: [usize; 2],
        lang: Lang,
    ) -> chumoku::Result<Figure>;
}

impl ExplanationFigures for Explanation {
    fn heatmap(&self, layer: usize, head: usize, lang: Lang) -> Figure {
        assert!(layer < self.layers && head < self.heads);
        let weights = head_matrix(self, &self.attention, layer * self.heads + head);
        Figure {
            title: head_title(self, layer, head, lang),
            subtitle: self.text.as_row().display().into(),
            notes: role_notes(self, layer, head, lang),
            content: Content::Heatmap(attention_heatmap(self, &weights, String::new(), lang)),
            lang,
        }
    }

    fn value_weighted(&self, layer: usize, head: usize, lang: Lang) -> Option<Figure> {
        assert!(layer < self.layers && head < self.heads);
        (!self.derived.value_weighted.is_empty()).then(|| {
            let shares = head_matrix(self, &self.derived.value_weighted, layer * self.heads + head);
            let notes = derived_note(
                lang,
                [
                    "each weight times the length of the value vector after W_O, shared out again in each row (Kobayashi et \
                     al. 2020). A word that is looked at but moves little counts little.",
                    "各重みに、W_O を掛けた後のバリューベクトルの長さを掛け、行ごとに合計 1 にしたもの（Kobayashi et al. 2020）。\
                     よく見られていても動かす量の小さい語は小さくなります。",
                ],
            );
            let name = lang.pick("value-weighted attention", "バリューで重み付けしたアテンション");
            Figure {
                title: format!("{}{}{name}", head_title(self, layer, head, lang), lang.pick(", ", "、")),
                subtitle: self.text.as_row().display().into(),
                notes,
                content: Content::Heatmap(attention_heatmap(self, &shares, String::new(), lang)),
                lang,
            }
        })
    }

    fn rollout(&self, layer: usize, lang: Lang) -> Option<Figure> {
        assert!(layer < self.layers);
        (!self.derived.rollout.is_empty()).then(|| {
            let shares = head_matrix(self, &self.derived.rollout, layer);
            let notes = derived_note(
                lang,
                [
                    "the product over the layers of (mean over heads + identity) / 2 (Abnar and Zuidema 2020). It assumes that \
                     the residual connection counts as much as attention; no layer computed it.",
                    "各層の（ヘッド平均 + 単位行列）÷ 2 の積です（Abnar and Zuidema 2020）。残差接続がアテンションと同じ重さを持つと\
                     仮定しており、どの層が計算した値でもありません。",
                ],
            );
            let title = match lang {
                Lang::En => format!("{}: rollout up to layer {}", self.model, layer + 1),
                Lang::Ja => format!("{}: 第 {} 層までのロールアウト", self.model, layer + 1),
            };
            let content = Content::Heatmap(attention_heatmap(self, &shares, String::new(), lang));
            Figure { title, subtitle: self.text.as_row().display().into(), notes, content, lang }
        })
    }

    fn lines(&self, layer: usize, head: usize, threshold: f32, lang: Lang) -> Figure {
        let Figure { title, subtitle, mut notes, content, .. } = self.heatmap(layer, head, lang);
        let Content::Heatmap(map) = content else { unreachable!("a heatmap is a map") };
        notes.push(threshold_note(lang, threshold, &map.values));
        let words = [map.rows.labels, map.columns.labels];
        Figure {
            title,
            subtitle,
            notes,
            content: Content::Lines(AttentionLines { words, weights: map.values, threshold }),
            lang,
        }
    }

    fn effects(&self, lang: Lang) -> Figure {
        crate::effects::effects_figure(self, lang)
    }

    fn curves(&self, lang: Lang) -> Option<Figure> {
        crate::effects::deletion_insertion_figure(self, lang)
    }

    fn grid(&self, order: HeadOrder, lang: Lang) -> Figure {
        let mut heads = self.head_statistics();
        let effect = |head: &HeadStatistics| self.head_effect(head.layer, head.head).unwrap_or(0.0);
        let key = |head: &HeadStatistics| match order {
            HeadOrder::Layer => 0.0,
            HeadOrder::Role => f32::from(head.role as u8),
            HeadOrder::Entropy => head.entropy,
            HeadOrder::Distance => -head.distance,
            HeadOrder::PreviousWord => -head.previous,
            HeadOrder::FirstWord => -head.first,
            HeadOrder::LargestWeight => -head.strongest,
            HeadOrder::Sink => -head.sink_share,
            HeadOrder::Effect => -effect(head).abs(),
        };
        heads.sort_by(|a, b| key(a).total_cmp(&key(b)));
        let percent = |share: f32| format!("{:.0} %", 100.0 * share);
        let maps = heads.iter().map(|head| {
            let figure = match order {
                HeadOrder::Layer | HeadOrder::Role => head.role.name(lang).to_owned(),
                HeadOrder::Entropy => format!("{:.2}", head.entropy),
                HeadOrder::Distance => format!("{:.1}", head.distance),
                HeadOrder::PreviousWord => percent(head.previous),
                HeadOrder::FirstWord => percent(head.first),
                HeadOrder::LargestWeight => percent(head.strongest),
                HeadOrder::Sink => percent(head.sink_share),
                HeadOrder::Effect if self.similarity.is_some() => crate::signed_number(effect(head), 3),
                HeadOrder::Effect => crate::signed_number(100.0 * effect(head), 1),
            };
            let weights = head_matrix(self, &self.attention, head.layer * self.heads + head.head);
            attention_heatmap(self, &weights, format!("L{}·H{}  {figure}", head.layer + 1, head.head + 1), lang)
        });
        // All heads share one color scale.
        let scale = ColorScale::for_shares(self.words.len(), self.attention.iter());
        let maps: Vec<Heatmap> = maps.map(|map| Heatmap { scale, ..map }).collect();
        let order_name = match order {
            HeadOrder::Effect if self.similarity.is_some() => {
                lang.pick("by change of the cosine without the head", "無効にしたときのコサインの変化順")
            }
            _ => order.name(lang),
        };
        let title = tr_in!("{}: all heads, {order_name}", "{}: すべてのヘッド（{order_name}）", lang, self.model);
        let notes = pooling_note(&maps, lang).into_iter().collect();
        let columns = if order == HeadOrder::Layer { self.heads } else { 0 };
        Figure {
            title,
            subtitle: self.text.as_row().display().into(),
            notes,
            content: Content::HeatmapGrid(HeatmapGrid { maps, columns }),
            lang,
        }
    }

    fn products(&self, layer: usize, head: usize, [query, key]: [usize; 2], lang: Lang) -> Option<Figure> {
        assert!(layer < self.layers && head < self.heads && query < self.pieces.len() && key < self.pieces.len());
        let depth = self.depth.as_ref()?;
        let tokens = self.pieces.len();
        let index = layer * self.heads + head;
        let at = |numbers: &[f32], token: usize| numbers[(index * tokens + token) * depth.dim..][..depth.dim].to_vec();
        let slope = depth.slopes.as_ref().map_or(0.0, |slopes| f64::from(slopes[layer][head]));
        let visible = if self.causal { query + 1 } else { tokens };
        if key >= visible {
            return None;
        }
        let products = |key: usize| ScoreBreakdown {
            tokens: [query, key].map(|token| self.pieces[token].text.clone()),
            query: at(&depth.queries, query),
            key: at(&depth.keys, key),
            scale: depth.scale,
            alibi_penalty: slope * query.abs_diff(key) as f64,
            row: Vec::new(),
            chosen: key,
        };
        let scores: Vec<f64> = (0..visible).map(|key| products(key).score()).collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|score| (score - most).exp()).sum();
        let row = scores.iter().zip(&self.pieces).map(|(&score, piece)| {
            let exponential = (score - most).exp();
            KeyScore { token: piece.text.clone(), score, exponential, weight: exponential / sum }
        });
        let content = Content::ScoreBreakdown(ScoreBreakdown { row: row.collect(), ..products(key) });
        let subtitle = format!("{} {} → {} {}", query + 1, self.pieces[query].text, key + 1, self.pieces[key].text);
        let notes = vec![lang.pick(
            "By sub-word tokens, not words. score = scale × q·k; weight = exp(score − max) / their sum over the row.",
            "語ではなくサブワード単位です。スコア = 係数 × q·k、重み = exp(スコア − 最大) ÷ その行の合計。",
        ).to_owned()];
        Some(Figure { title: head_title(self, layer, head, lang), subtitle, notes, content, lang })
    }

    fn difference(
        &self,
        [layer, head]: [usize; 2],
        other: &Explanation,
        [other_layer, other_head]: [usize; 2],
        lang: Lang,
    ) -> chumoku::Result<Figure> {
        let pairs = common_words(&word_labels(&self.words), &word_labels(&other.words));
        if pairs.is_empty() {
            return Err(chumoku::Error::Setting(chumoku::tr!(
                "the two texts have no word in common: expected at least one to compare",
                "二つのテキストに共通する語がないので、比べられません"
            )));
        }
        let values: Vec<Option<f32>> = pairs
            .iter()
            .flat_map(|q| pairs.iter().map(move |k| (q, k)))
            .map(|(q, k)| {
                let before = self.weight(layer, head, q[0], k[0])?;
                Some(other.weight(other_layer, other_head, q[1], k[1])? - before)
            })
            .collect();
        let most = values.iter().flatten().fold(0.0f32, |most, x| most.max(x.abs()));
        let names: Vec<String> = pairs
            .iter()
            .map(|&[a, b]| match self.words[a].text == other.words[b].text {
                true => self.words[a].text.clone(),
                false => format!("{}/{}", self.words[a].text, other.words[b].text),
            })
            .collect();
        let [rows, columns] =
            queries_and_keys(lang).map(|name| FigureAxis { name, labels: names.clone(), is_numbered: true });
        let of = |e: &Explanation, layer, head| {
            format!("{} “{}”", head_title(e, layer, head, lang), chumoku::lang::show_controls_in_text(&e.text))
        };
        let [minuend, subtrahend] = [of(other, other_layer, other_head), of(self, layer, head)];
        let what = lang.pick(
            "The compared side minus the given text: blue is more, orange less.",
            "比較対象の値から元の文の値を引いた差です。青は増加、橙は減少。",
        );
        let mut notes = vec![what.to_owned()];
        let gone = self.words.len() + other.words.len() - 2 * pairs.len();
        if gone > 0 {
            notes.push(tr_in!(
                "Words of only one of the texts ({gone}) are left out; no cell contains their share.",
                "一方の文にしかない {gone} 語は除いています。その分の割合はどのマスにもありません。",
                lang
            ));
        }
        let map = Heatmap { caption: String::new(), rows, columns, values, scale: ColorScale::Signed(most) };
        let title = lang.pick("Difference of attention", "アテンションの差").to_owned();
        let subtitle = format!("{minuend} − {subtrahend}");
        Ok(Figure { title, subtitle, notes, content: Content::Heatmap(map), lang })
    }
}

fn head_title(explanation: &Explanation, layer: usize, head: usize, lang: Lang) -> String {
    format!("{}: {}", explanation.model, phrases::head_name(lang, layer, head))
}

fn attention_heatmap(explanation: &Explanation, numbers: &[f32], caption: String, lang: Lang) -> Heatmap {
    let n = explanation.words.len();
    let visible = |at: usize| !explanation.causal || at % n <= at / n;
    let [rows, columns] = queries_and_keys(lang).map(|name| FigureAxis {
        name,
        labels: word_labels(&explanation.words),
        is_numbered: true,
    });
    let values = numbers.iter().enumerate().map(|(at, &x)| visible(at).then_some(x)).collect();
    Heatmap { caption, rows, columns, values, scale: ColorScale::for_shares(n, numbers.iter()) }
}

fn head_matrix(explanation: &Explanation, numbers: &[f32], index: usize) -> Vec<f32> {
    let size = explanation.words.len() * explanation.words.len();
    numbers[index * size..(index + 1) * size].to_vec()
}

/// Returns notes on the role of a head and on its most attended word.
fn role_notes(explanation: &Explanation, layer: usize, head: usize, lang: Lang) -> Vec<String> {
    let found = &explanation.head_statistics()[layer * explanation.heads + head];
    let word = explanation.words.get(found.sink).map_or("", |word| word.text.as_str());
    let mut notes = vec![found.describe(lang, &chumoku::lang::show_controls(word))];
    notes.extend(found.caveat(lang).map(String::from));
    notes
}

fn threshold_note(lang: Lang, threshold: f32, weights: &[Option<f32>]) -> String {
    // The percentage as the user gave it: 0.29 is 29, not 28.999999.
    let percent = (1e6 * f64::from(threshold)).round() / 1e4;
    let largest = weights.iter().flatten().fold(0.0f32, |most, &x| most.max(x));
    let most = 100.0 * largest;
    if largest < threshold {
        return match lang {
            Lang::En => format!("No share is {percent} % or more; the largest is {most:.1} %."),
            Lang::Ja => format!("{percent} % 以上の割合はありません。最大は {most:.1} % です。"),
        };
    }
    match lang {
        Lang::En => format!("A line for each share from {percent} % on; the thicker and stronger, the larger."),
        Lang::Ja => format!("{percent} % 以上の割合を線で示します。太く色が強いほど大きい値です。"),
    }
}

/// Returns the index pairs of the words that two texts share, in order: their longest common subsequence. Replaced
/// words between them are paired too if both texts have equally many.
fn common_words(a: &[String], b: &[String]) -> Vec<[usize; 2]> {
    let width = b.len() + 1;
    let mut longest = vec![0usize; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            longest[i * width + j] = match a[i] == b[j] {
                true => longest[(i + 1) * width + j + 1] + 1,
                false => longest[(i + 1) * width + j].max(longest[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut gap) = (0, 0, [0, 0]);
    let mut found = Vec::new();
    let close = |found: &mut Vec<[usize; 2]>, from: [usize; 2], to: [usize; 2]| {
        if to[0] - from[0] == to[1] - from[1] {
            found.extend((from[0]..to[0]).zip(from[1]..to[1]).map(|(i, j)| [i, j]));
        }
    };
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            close(&mut found, gap, [i, j]);
            found.push([i, j]);
            (i, j) = (i + 1, j + 1);
            gap = [i, j];
        } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    close(&mut found, gap, [a.len(), b.len()]);
    found
}

impl HeadOrder {
    /// All orders with their option names.
    pub const ALL: [(&'static str, HeadOrder); 9] = [
        ("place", HeadOrder::Layer),
        ("role", HeadOrder::Role),
        ("entropy", HeadOrder::Entropy),
        ("distance", HeadOrder::Distance),
        ("previous", HeadOrder::PreviousWord),
        ("first", HeadOrder::FirstWord),
        ("strongest", HeadOrder::LargestWeight),
        ("sink", HeadOrder::Sink),
        ("effect", HeadOrder::Effect),
    ];

    fn name(self, lang: Lang) -> &'static str {
        let [en, ja] = match self {
            HeadOrder::Layer => ["layer by layer", "層の順"],
            HeadOrder::Role => ["by role", "役割順"],
            HeadOrder::Entropy => ["by entropy, the most concentrated first", "エントロピーの小さい順"],
            HeadOrder::Distance => ["by distance in words, the furthest first", "距離の遠い順"],
            HeadOrder::PreviousWord => ["by the share of the previous word", "直前の語の割合順"],
            HeadOrder::FirstWord => ["by the share of the first word", "先頭の語の割合順"],
            HeadOrder::LargestWeight => ["by the mean of the largest weights", "最大の重みの平均順"],
            HeadOrder::Sink => ["by the share of the most attended word", "最もよく見られる語の割合順"],
            HeadOrder::Effect => ["by change without the head, in points", "無効にしたときの変化順（ポイント）"],
        };
        lang.pick(en, ja)
    }
}

/// The figures of an [`Alignment`].
pub trait AlignmentFigures {
    /// The heatmap of a head: words of the translation by words of the source. All indices count from 0.
    ///
    /// # Panics
    /// If there is no such layer or head.
    #[must_use]
    fn heatmap(&self, layer: usize, head: usize, lang: Lang) -> Figure;

    /// Lines between words for the weights of a head at or above a threshold.
    ///
    /// # Panics
    /// If there is no such layer or head.
    #[must_use]
    fn lines(&self, layer: usize, head: usize, threshold: f32, lang: Lang) -> Figure;

    /// All heads: layer by layer, or by agreement, the best first.
    #[must_use]
    fn grid(&self, is_ranked: bool, lang: Lang) -> Figure;
}

impl AlignmentFigures for Alignment {
    fn heatmap(&self, layer: usize, head: usize, lang: Lang) -> Figure {
        let content = Content::Heatmap(alignment_heatmap(self, layer, head, String::new(), lang));
        alignment_figure(self, phrases::head_name(lang, layer, head), Vec::new(), content, lang)
    }

    fn lines(&self, layer: usize, head: usize, threshold: f32, lang: Lang) -> Figure {
        let map = alignment_heatmap(self, layer, head, String::new(), lang);
        let note = threshold_note(lang, threshold, &map.values);
        let words = [map.rows.labels, map.columns.labels];
        let content = Content::Lines(AttentionLines { words, weights: map.values, threshold });
        alignment_figure(self, phrases::head_name(lang, layer, head), vec![note], content, lang)
    }

    fn grid(&self, is_ranked: bool, lang: Lang) -> Figure {
        let mut heads = self.ranking.clone();
        if !is_ranked {
            heads.sort_by_key(|head| [head.layer, head.head]);
        }
        let maps = heads.iter().map(|head| {
            let caption = format!("L{}·H{}  {:.0} %", head.layer + 1, head.head + 1, 100.0 * head.agreement);
            alignment_heatmap(self, head.layer, head.head, caption, lang)
        });
        let columns = if is_ranked { 0 } else { self.heads };
        let maps: Vec<Heatmap> = maps.collect();
        let title = lang.pick("all heads of the cross-attention", "クロスアテンションのすべてのヘッド");
        let note = lang.pick(
            "The number is the share of words for which the head looks most at the source word they need most.",
            "数字は、訳文の語のうち、最も必要な原文の語をヘッドが最もよく見ているものの割合です。",
        );
        let notes = [note.to_owned()].into_iter().chain(pooling_note(&maps, lang)).collect();
        alignment_figure(self, title.into(), notes, Content::HeatmapGrid(HeatmapGrid { maps, columns }), lang)
    }
}

fn alignment_heatmap(alignment: &Alignment, layer: usize, head: usize, caption: String, lang: Lang) -> Heatmap {
    assert!(layer < alignment.layers && head < alignment.heads);
    let names = match lang {
        Lang::En => ["target: words of the translation", "source: words of the text"],
        Lang::Ja => ["訳文：書かれる語", "原文：見られる語"],
    };
    let [rows, columns] = [(names[0], &alignment.target_words), (names[1], &alignment.source_words)]
        .map(|(name, words)| FigureAxis { name: name.into(), labels: word_labels(words), is_numbered: true });
    let weights = (0..alignment.target_words.len()).flat_map(|i| alignment.row(layer, head, i));
    let scale = ColorScale::for_shares(alignment.source_words.len(), alignment.attention.iter());
    Heatmap { caption, rows, columns, values: weights.map(|&x| Some(x)).collect(), scale }
}

fn alignment_figure(alignment: &Alignment, title: String, notes: Vec<String>, content: Content, lang: Lang) -> Figure {
    let subtitle = format!("{} → {}", alignment.source, alignment.target);
    Figure { title: format!("{}: {title}", alignment.model), subtitle, notes, content, lang }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_words_are_paired() {
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        let pairs = |a: &str, b: &str| common_words(&words(a), &words(b));
        assert_eq!(pairs("a b c", "a b c"), [[0, 0], [1, 1], [2, 2]]);
        // Replaced words, and words of one text only.
        assert_eq!(pairs("a b c", "a x c"), [[0, 0], [1, 1], [2, 2]]);
        assert_eq!(pairs("it was good", "it was not good"), [[0, 0], [1, 1], [2, 3]]);
        assert_eq!(pairs("a b", "a x y"), [[0, 0]]);
        assert_eq!(pairs("x y", "a b"), [[0, 0], [1, 1]]);
        assert_eq!(pairs("x", "a b"), [[0usize; 2]; 0]);
    }
}
