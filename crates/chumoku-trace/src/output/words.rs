//! Sentences of traces in English and Japanese.

use crate::program::operation::Operation;
use crate::program::quantity::Quantity;
use crate::program::step_kind::StepKind;
use crate::traces::trace_steps::{Agreement, CheckKind, Trace, TraceCheck, TraceStep};
use chumoku::explain::AttentionKind;
use chumoku::lang::Lang;
use chumoku::tr_in;

/// Formats a difference or a tolerance with two digits.
pub(crate) fn two_digits(x: f64) -> String {
    if x == 0.0 { "0".into() } else { format!("{x:.1e}") }
}

impl Trace {
    /// Returns the heading: a worked example's title, or a model's name and the head.
    #[must_use]
    pub(crate) fn heading(&self, lang: Lang) -> String {
        match self.place {
            Some(place) => format!("{}: {}", self.title.in_lang(lang), place.describe(lang)),
            None => self.title.in_lang(lang).to_owned(),
        }
    }
}

impl TraceCheck {
    /// Returns a sentence about the property.
    #[must_use]
    pub fn to_text(&self, lang: Lang) -> String {
        let (x, n) = (two_digits(self.value), self.value as usize);
        match (self.kind, lang, self.holds) {
            (CheckKind::RowsSumToOne, Lang::En, true) => format!("each row sums to 1 (largest difference {x})"),
            (CheckKind::RowsSumToOne, Lang::Ja, true) => format!("各行の和は 1（最大の差 {x}）"),
            (CheckKind::RowsSumToOne, Lang::En, false) => format!("rows do not sum to 1: they are off by up to {x}"),
            (CheckKind::RowsSumToOne, Lang::Ja, false) => format!("和が 1 でない行がある（最大の差 {x}）"),
            (CheckKind::EmptyRows, Lang::En, _) if n == 1 => "1 row sees nothing: its weights are 0".into(),
            (CheckKind::EmptyRows, Lang::En, _) => format!("{n} rows see nothing: their weights are 0"),
            (CheckKind::EmptyRows, Lang::Ja, _) => format!("何も見えない行が {n} 行あり、重みはすべて 0"),
            (CheckKind::LargestIsOne, Lang::En, true) => "the largest of each row is 1, so nothing overflows".into(),
            (CheckKind::LargestIsOne, Lang::Ja, true) => "各行の最大値は 1 なのでオーバーフローしない".into(),
            (CheckKind::LargestIsOne, Lang::En, false) => format!("the largest of a row differs from 1 by {x}"),
            (CheckKind::LargestIsOne, Lang::Ja, false) => format!("行の最大値が 1 と {x} 異なる"),
            (CheckKind::Normalised, Lang::En, true) => {
                format!("before γ and β each row has mean 0 and variance 1 − ε/(variance + ε) (difference {x})")
            }
            (CheckKind::Normalised, Lang::Ja, true) => {
                format!("γ と β の前では各行の平均は 0、分散は 1 − ε/(分散 + ε)（差 {x}）")
            }
            (CheckKind::Normalised, Lang::En, false) => format!("a row's mean or variance is off by {x}"),
            (CheckKind::Normalised, Lang::Ja, false) => format!("行の平均または分散が {x} ずれている"),
            (CheckKind::RmsNormalised, Lang::En, true) => {
                format!("before γ each row's mean square is 1 − ε/(mean square + ε) (difference {x})")
            }
            (CheckKind::RmsNormalised, Lang::Ja, true) => {
                format!("γ の前では各行の二乗平均は 1 − ε/(二乗平均 + ε)（差 {x}）")
            }
            (CheckKind::RmsNormalised, Lang::En, false) => format!("a row's mean square is off by {x}"),
            (CheckKind::RmsNormalised, Lang::Ja, false) => format!("行の二乗平均が {x} ずれている"),
            (CheckKind::UnitLength, Lang::En, true) => format!("its length is 1 (difference {x})"),
            (CheckKind::UnitLength, Lang::Ja, true) => format!("長さは 1（差 {x}）"),
            (CheckKind::UnitLength, Lang::En, false) => format!("its length is off by {x}"),
            (CheckKind::UnitLength, Lang::Ja, false) => format!("長さが 1 から {x} ずれている"),
            (CheckKind::NotFinite, Lang::En, _) if n == 1 => "1 number is not finite: it is shown as it is".into(),
            (CheckKind::NotFinite, Lang::En, _) => format!("{n} numbers are not finite: they are shown as they are"),
            (CheckKind::NotFinite, Lang::Ja, _) => format!("有限でない数が {n} 個あり、そのまま示す"),
        }
    }
}

impl TraceStep {
    /// Returns the label of a step without a formula.
    pub(crate) fn given_text(&self, lang: Lang) -> &'static str {
        match self.kind {
            StepKind::Gradient => lang.pick("given: arrives from above", "入力、上の層から届く勾配"),
            _ => lang.pick("given", "入力"),
        }
    }

    /// Returns the symbol of a step without a formula, with its label.
    pub(crate) fn given_symbol(&self, lang: Lang) -> String {
        tr_in!("{} {}", "{}（{}）", lang, self.symbol, self.given_text(lang))
    }
}

impl Agreement {
    /// Returns a sentence about the differences.
    #[must_use]
    pub fn to_text(&self, lang: Lang) -> String {
        let precision = &self.precision;
        // Parameters have their symbols, all other steps their titles.
        let title = |name| {
            Quantity::from_name(name).map_or(name, |quantity| match quantity.is_parameter() {
                true => quantity.symbol(),
                false => quantity.title(lang),
            })
        };
        let list_of = |differences: &[(&'static str, f64)]| {
            let differences = differences.iter().map(|(name, x)| format!("{} {}", title(*name), two_digits(*x)));
            differences.collect::<Vec<_>>().join(lang.pick(", ", "、"))
        };
        let [list, of_gradients] =
            [&self.largest_differences, &self.largest_gradient_differences].map(|of| list_of(of));
        let more = match (lang, of_gradients.is_empty()) {
            (_, true) => String::new(),
            (Lang::En, _) => format!("; of gradients, relative to the largest number of each: {of_gradients}"),
            (Lang::Ja, _) => format!("。勾配（それぞれの最大値に対する割合）: {of_gradients}"),
        };
        tr_in!(
            "Largest difference from what the model computed at precision {precision}: {list}{more}",
            "モデルが精度 {precision} で計算した値との最大の差: {list}{more}",
            lang
        )
    }
}

/// States which part of a matrix is shown.
pub(crate) fn truncation_note(lang: Lang, shown: [usize; 2], size: [usize; 2]) -> String {
    let [rows, columns] = shown;
    let [all_rows, all_columns] = size;
    match lang {
        Lang::En => format!("{rows} × {columns} of {all_rows} × {all_columns} numbers are shown"),
        Lang::Ja => format!("{all_rows} × {all_columns} 個のうち {rows} × {columns} 個を表示"),
    }
}

/// States the rounding of displayed numbers.
pub(crate) fn rounding_note(lang: Lang, digits: usize) -> String {
    match lang {
        Lang::En => format!("Numbers are computed in double precision and shown with {digits} decimals."),
        Lang::Ja => format!("数値は倍精度で計算し、小数点以下 {digits} 桁で示す。"),
    }
}

/// Explains the list of a token's vectors.
pub(crate) fn path_note(lang: Lang) -> &'static str {
    lang.pick(
        "The row of this token in each step, with the length of its vector. Other rows are dimmed below.",
        "各ステップでのこのトークンの行と、そのベクトルの長さ。下の表では、ほかの行を薄く表示している。",
    )
}

/// Explains the shapes in parentheses.
pub(crate) fn batch_note(lang: Lang) -> &'static str {
    lang.pick(
        "In parentheses: the axes in a batch of B texts, with h heads. Here B = 1. Parameters have no batch axis.",
        "括弧内は、B 個のテキストを一つのバッチにまとめたときの軸（h はヘッド数）。ここでは B = 1。パラメータにバッチの軸はない。",
    )
}

/// States how many words have no sentence about their attention.
pub(crate) fn more_words_note(lang: Lang, count: usize) -> String {
    match lang {
        Lang::En if count == 1 => "and 1 more word".into(),
        Lang::En => format!("and {count} more words"),
        Lang::Ja => format!("他 {count} 語"),
    }
}

/// Explains how to ask and change a page.
pub(crate) fn editing_note(lang: Lang) -> &'static str {
    lang.pick(
        "Click a number, or move to it with the arrow keys: the numbers it comes from light up, and its sum is spelled out. \
         Numbers with a dotted underline are inputs: change one, or an option below, and everything that follows is \
         recomputed. The checks below the steps are hidden after a change.",
        "数値をクリックするか、矢印キーで移動すると、その計算に使われた数値が強調され、計算式が示されます。\
         点線の下線が付いた数値は入力です。入力や下の設定を変えると、そこから導かれる値がすべて計算し直されます。\
         変えた後は、各ステップの下の検査を表示しません。",
    )
}

/// States which head has its steps on the page.
pub(crate) fn heads_note(lang: Lang, head: usize) -> String {
    tr_in!(
        "Only the steps of head {head} are shown; those of the other heads are alike (--head N shows them).",
        "ヘッドごとの計算は、ヘッド {head} のものだけを示します。ほかのヘッドの計算も同じです（--head N で表示）。",
        lang
    )
}

/// States the number of steps of a group.
pub(crate) fn step_count(lang: Lang, count: usize) -> String {
    match lang {
        Lang::En if count == 1 => "1 step".into(),
        Lang::En => format!("{count} steps"),
        Lang::Ja => format!("{count} ステップ"),
    }
}

/// Explains an invalid entry.
pub(crate) fn invalid_entry_note(lang: Lang) -> &'static str {
    lang.pick(
        "An entry is not a number (such as -0.5), or a target does not sum to 1, so it was not used.",
        "数値（-0.5 など）でない入力か、和が 1 でない正解があり、計算には使っていません。",
    )
}

/// Returns the sentences below a step: the most attended words, or the reason of a gradient that is zero.
pub(crate) fn step_sentences(lang: Lang, trace: &Trace, step: &TraceStep) -> Vec<String> {
    let reason = step.zero_reason().map(|reason| reason.to_text(lang).to_owned());
    reading_sentences(lang, trace, step).into_iter().chain(reason).collect()
}

/// Returns the sentences below a step in every form: the most attended words, or what reads a decoder's embeddings.
pub(crate) fn reading_sentences(lang: Lang, trace: &Trace, step: &TraceStep) -> Vec<String> {
    match trace.self_attention_note(lang, step) {
        Some(note) => vec![note.to_owned()],
        None => top_attention_sentences(lang, trace, step),
    }
}

impl Trace {
    /// Says below the embeddings of a decoder's first layer that self-attention lies between them and cross-attention.
    fn self_attention_note(&self, lang: Lang, step: &TraceStep) -> Option<&'static str> {
        let is_cross = self.place.is_some_and(|place| place.attention == AttentionKind::Cross);
        let is_embedding = |of: &&TraceStep| {
            of.kind == StepKind::Value && matches!(of.quantity, Quantity::Embeddings | Quantity::EmbeddingSum)
        };
        let last = self.steps.iter().rev().find(is_embedding)?;
        (is_cross && last.id == step.id).then(|| {
            lang.pick(
                "this layer’s self-attention reads it (--part decoder traces that); its output is X",
                "これを読むのはこの層のセルフアテンション（--part decoder でトレースできる）で、その出力が X",
            )
        })
    }
}

/// The reason of a gradient that is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZeroReason {
    /// A shift of all scores of a row does not change its softmax.
    ShiftOfScores,
    /// The softmax of a single number is 1.
    SingleScore,
}

impl ZeroReason {
    fn to_text(self, lang: Lang) -> &'static str {
        match self {
            ZeroReason::ShiftOfScores => lang.pick(
                "zero: b_K adds the same number to all scores of a row, and softmax ignores such a shift",
                "0 になる理由：b_K は行のすべてのスコアに同じ数を加えるだけで、softmax はその差に影響されない",
            ),
            ZeroReason::SingleScore => lang.pick(
                "zero: the only key of each row always has the weight 1, whatever its score is",
                "0 になる理由：各行にキーが 1 つしかなく、スコアによらず重みは常に 1",
            ),
        }
    }
}

/// Remainders of cancellation are at most this large.
const REMAINDER: f64 = 1e-12;

impl TraceStep {
    /// Returns why all numbers of a gradient are zero; `None` if they are not, or for another reason.
    pub(crate) fn zero_reason(&self) -> Option<ZeroReason> {
        if self.kind != StepKind::Gradient || !self.value.iter().all(|x| x.abs() <= REMAINDER) {
            return None;
        }
        match (self.quantity, &self.operation) {
            (Quantity::BK, _) => Some(ZeroReason::ShiftOfScores),
            (_, Operation::SoftmaxGradient { .. }) if self.value.ncols() == 1 => Some(ZeroReason::SingleScore),
            _ => None,
        }
    }
}

/// Relative difference of weights that are equal but for rounding.
const TIE_MARGIN: f64 = 1e-9;
/// Maximum number of equally attended words that a sentence names.
const MAX_TIED_WORDS: usize = 3;

/// Returns a sentence for each row of weights: the word that it attends to most, or all words if several tie.
fn top_attention_sentences(lang: Lang, trace: &Trace, step: &TraceStep) -> Vec<String> {
    if !step.is_weights() || trace.tokens.is_empty() {
        return Vec::new();
    }
    let quoted = |word: &String| lang.quoted(&chumoku::lang::show_controls(word));
    let say = |(i, word): (usize, &String)| {
        let row = step.value.row(i);
        let share = row.iter().copied().reduce(f64::max).filter(|share| *share > 0.0)?;
        if row.iter().any(|x| x.is_nan()) {
            return None;
        }
        // Equal scores may differ in their last digits.
        let is_largest = |x: f64| x >= share * (1.0 - TIE_MARGIN);
        let keys = row.iter().enumerate().filter(|(_, x)| is_largest(**x)).map(|(j, _)| trace.key_tokens.get(j));
        let keys: Vec<String> = keys.map(|key| key.map(quoted)).collect::<Option<_>>()?;
        Some(top_attention_sentence(lang, &quoted(word), &keys, 100.0 * share))
    };
    trace.tokens.iter().enumerate().take(step.value.nrows()).filter_map(say).collect()
}

/// States the word, or the words, that a word attends to most. Words are quoted.
fn top_attention_sentence(lang: Lang, word: &str, keys: &[String], percent: f64) -> String {
    let more = keys.len().saturating_sub(MAX_TIED_WORDS);
    let shown = &keys[..keys.len() - more];
    match (lang, shown) {
        (Lang::En, [key]) => format!("{word} looks most at {key} ({percent:.1} %)"),
        (Lang::Ja, [key]) => format!("{word}が最もよく見ているのは{key}（{percent:.1} %）"),
        (Lang::En, _) if more > 0 => {
            let (list, words) = (shown.join(", "), if more == 1 { "word" } else { "words" });
            format!("{word} looks equally at {list} and {more} more {words} ({percent:.1} % each)")
        }
        (Lang::En, _) => {
            let (last, others) = shown.split_last().expect("two or more words");
            format!("{word} looks equally at {} and {last} ({percent:.1} % each)", others.join(", "))
        }
        (Lang::Ja, _) => {
            let others = if more > 0 { format!("ほか {more} 語") } else { String::new() };
            format!("{word}は{}{others}を等しく見ている（それぞれ {percent:.1} %）", shown.concat())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_tie_are_named_together() {
        let say = |lang: Lang, count: usize| {
            let keys: Vec<String> = ["a", "b", "c", "d", "e"].iter().take(count).map(|key| lang.quoted(key)).collect();
            top_attention_sentence(lang, &lang.quoted("x"), &keys, 100.0 / count as f64)
        };
        let english = [1, 2, 3, 4, 5].map(|count| say(Lang::En, count));
        let expected = [
            "“x” looks most at “a” (100.0 %)",
            "“x” looks equally at “a” and “b” (50.0 % each)",
            "“x” looks equally at “a”, “b” and “c” (33.3 % each)",
            "“x” looks equally at “a”, “b”, “c” and 1 more word (25.0 % each)",
            "“x” looks equally at “a”, “b”, “c” and 2 more words (20.0 % each)",
        ];
        assert_eq!(english, expected);
        let japanese = [1, 2, 5].map(|count| say(Lang::Ja, count));
        let expected = [
            "「x」が最もよく見ているのは「a」（100.0 %）",
            "「x」は「a」「b」を等しく見ている（それぞれ 50.0 %）",
            "「x」は「a」「b」「c」ほか 2 語を等しく見ている（それぞれ 20.0 %）",
        ];
        assert_eq!(japanese, expected);
    }
}
