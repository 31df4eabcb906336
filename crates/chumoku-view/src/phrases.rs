//! Sentences of the terminal view in English and Japanese.

use chumoku::Estimate;
use chumoku::explain::Truncation;
use chumoku::lang::{Lang, show_controls, show_controls_in_text};
use chumoku::tr_in;

use chumoku::explain::{
    Attribution, ColumnEffect, ColumnReading, EnsembleMembers, Explanation, ExplanationKind, FaithfulnessCurves,
    OrderCurves, PathIntegral,
};

/// Phrases in the fields of an explanation, with their Japanese translations.
pub(crate) const PHRASES: [(&str, &str); 8] = [
    ("sum over keys, mean over queries", "キー側は和、クエリ側は平均"),
    ("leave-one-out", "一語抜き法（leave-one-out）"),
    ("change in log-odds when the word is removed", "その語を取り除いたときの対数オッズの変化"),
    ("integrated gradients", "積分勾配（integrated gradients）"),
    (
        "share of the change in log-odds from the mean embedding to the text",
        "平均の埋め込みからテキストまでの対数オッズの変化のうち、その語の分",
    ),
    ("change in the span's log-odds when the word is hidden", "その語を隠したときのスパンの対数オッズの変化"),
    ("change in the number when the word is removed", "その語を取り除いたときの数値の変化"),
    ("change in cosine similarity when the word is removed", "その語を取り除いたときのコサイン類似度の変化"),
];

/// Translates a phrase from a field of an explanation. Unknown phrases stay unchanged.
pub(crate) fn translate_phrase(lang: Lang, phrase: &str) -> &str {
    let found = PHRASES.iter().find(|(en, _)| *en == phrase);
    found.map_or(phrase, |(en, ja)| lang.pick(en, ja))
}

pub(crate) fn prediction_heading(lang: Lang, e: &Explanation) -> &'static str {
    match e.kind {
        ExplanationKind::Encoder if e.is_compared_with_itself() => {
            lang.pick("Vector of the text", "テキストのベクトル")
        }
        ExplanationKind::Encoder => lang.pick("Cosine similarity", "コサイン類似度"),
        ExplanationKind::LanguageModel => lang.pick("Next token", "次のトークン"),
        _ => lang.pick("Prediction", "予測"),
    }
}

/// Formats a number with its interval.
pub(crate) fn number_with_interval(lang: Lang, number: Estimate) -> String {
    let [score, low, high] = number.rounded();
    tr_in!("{score} (90 % interval: {low} to {high})", "{score}（90 % 区間: {low}〜{high}）", lang)
}

/// Note on a text that exceeds the model's input length.
pub(crate) fn truncation_note(lang: Lang, cut: &Truncation, kind: ExplanationKind) -> String {
    let (read, tokens) = (cut.read, cut.tokens);
    match (lang, cut.is_end) {
        (Lang::En, false) if kind == ExplanationKind::Encoder => {
            format!("The text has {tokens} tokens. The model read the first {read}, and only these are shown.")
        }
        (Lang::Ja, false) if kind == ExplanationKind::Encoder => format!(
            "このテキストは {tokens} トークンです。モデルが読んだのは最初の {read} トークンで、表示もその部分だけです。"
        ),
        (Lang::En, false) => format!(
            "The text has {tokens} tokens. Attention is shown of the first {read}; the prediction and the \
             effects of words are of the whole."
        ),
        (Lang::Ja, false) => format!(
            "このテキストは {tokens} トークンです。アテンションは最初の {read} トークンのもの、予測と各語の影響はテキスト全体のものです。"
        ),
        (Lang::En, true) => {
            format!("The text has {tokens} tokens. The model read the last {read}, and only these are shown.")
        }
        (Lang::Ja, true) => {
            format!(
                "このテキストは {tokens} トークンです。モデルが読んだのは最後の {read} トークンで、表示もその部分だけです。"
            )
        }
    }
}

/// Says which words of a text the model wrote itself, counted from 1.
pub(crate) fn written_words_note(lang: Lang, first: usize, last: usize) -> String {
    match first == last {
        true => tr_in!("The model wrote word {first} itself.", "{first} 番目の語はモデル自身が書いたものです。", lang),
        false => tr_in!(
            "The model wrote words {first} to {last} itself.",
            "{first}〜{last} 番目の語はモデル自身が書いたものです。",
            lang
        ),
    }
}

pub(crate) fn causal_note(lang: Lang) -> &'static str {
    lang.pick(
        "A word sees itself and the words before it; · marks words it cannot see.",
        "各語が見るのは自分自身とそれより前の語だけです。· は見ることのできない語です。",
    )
}

/// Headings of the probabilities of the ensemble and of its two members.
pub(crate) fn member_headings(lang: Lang, has_attention: bool) -> [&'static str; 3] {
    match (lang, has_attention) {
        (Lang::En, true) => ["together", "transformer", "n-grams"],
        (Lang::En, false) => ["together", "network", "n-grams"],
        (Lang::Ja, true) => ["全体", "トランスフォーマー", "n-gram"],
        (Lang::Ja, false) => ["全体", "ネットワーク", "n-gram"],
    }
}

pub(crate) fn no_attention_note(lang: Lang, kind: ExplanationKind) -> &'static str {
    if kind == ExplanationKind::Ngrams {
        return lang.pick(
            "The model has only n-grams, so there is no attention to show.",
            "このモデルは n-gram だけなので、表示できるアテンションはありません。",
        );
    }
    match lang {
        Lang::En => "The model is a recurrent network, so there is no attention to show.",
        Lang::Ja => "このモデルは再帰型ニューラルネットワークなので、表示できるアテンションはありません。",
    }
}

pub(crate) fn more_classes(
    lang: Lang,
    kind: ExplanationKind,
    [is_number, exclusive]: [bool; 2],
    count: usize,
) -> String {
    if kind == ExplanationKind::LanguageModel {
        return tr_in!("and {count} more of the likeliest tokens", "ほか {count} トークン（確率の高いもの）", lang);
    }
    if is_number {
        return tr_in!("and {count} more thresholds", "ほか {count} 個のしきい値", lang);
    }
    match lang {
        Lang::En if exclusive => format!("and {count} more classes"),
        Lang::En => format!("and {count} more labels"),
        Lang::Ja if exclusive => format!("ほか {count} クラス"),
        Lang::Ja => format!("ほか {count} 個のラベル"),
    }
}

pub(crate) fn effect_heading(lang: Lang, e: &Explanation, class: &str) -> String {
    if e.kind == ExplanationKind::Encoder {
        let heading = match e.is_compared_with_itself() {
            false => lang.pick("Effect of each word on the similarity", "各語が類似度に与える影響"),
            true => lang.pick("Effect of each word on the vector", "各語がベクトルに与える影響"),
        };
        return heading.to_owned();
    }
    tr_in!("Effect of each word on {}", "各語が{}の予測に与える影響", lang, lang.quoted(class))
}

pub(crate) fn effect_note(lang: Lang, e: &Explanation, class: &str) -> String {
    let Attribution { method, unit, .. } = &e.attribution;
    let (method, unit) = (translate_phrase(lang, method), translate_phrase(lang, unit));
    if e.kind == ExplanationKind::Encoder {
        let (itself, target) = (e.is_compared_with_itself(), lang.quoted(class));
        return match (lang, itself) {
            (Lang::En, false) => format!(
                "{method}: {unit}. + (right, blue): the word brings the text nearer to {target}; - (left, orange): it \
                 takes it further away."
            ),
            (Lang::En, true) => format!(
                "{method}: {unit}, between the text with the word and without it. The larger, the more the vector \
                 depends on the word. (--target TEXT compares with another text.)"
            ),
            (Lang::Ja, false) => {
                format!("{method}：{unit}。+（右・青）は{target}に近づける語、-（左・橙）は遠ざける語。")
            }
            (Lang::Ja, true) => format!(
                "{method}：{unit}（その語があるときとないときのベクトルの比較）。値が大きいほど、ベクトルがその語に依存しています。\
                 （別のテキストと比べるには --target を使います。）"
            ),
        };
    }
    let class = lang.quoted(class);
    tr_in!(
        "{method}: {unit}. + (right, blue): the word speaks for {class}; - (left, orange): against it.",
        "{method}：{unit}。+（右・青）は{class}を支持する語、-（左・橙）は{class}に反対する語。",
        lang
    )
}

pub(crate) fn column_heading(lang: Lang, class: &str) -> String {
    let class = lang.quoted(class);
    tr_in!("Effect of each feature column on {class}", "テキスト以外の列が{class}の予測に与える影響", lang)
}

pub(crate) fn column_note(lang: Lang, class: &str) -> String {
    let class = lang.quoted(class);
    tr_in!(
        "Change of the whole predictor's log-odds compared with the same text without this value. + (right, blue): the value speaks \
             for {class}; - (left, orange): against it.",
        "その値が欠けているときと比べた、予測全体の対数オッズの変化。+（右・青）は{class}を支持する値、-（左・橙）は{class}に反対する値。",
        lang
    )
}

/// Formats the value of a feature column, with the model's interpretation if it differs.
pub(crate) fn column_value(lang: Lang, column: &ColumnEffect) -> String {
    let value = show_controls_in_text(&column.value);
    match (lang, column.read_as) {
        (_, ColumnReading::Missing) if value.is_empty() => lang.pick("(missing)", "（欠損）").to_owned(),
        (Lang::En, ColumnReading::Missing) => format!("{value} (missing)"),
        (Lang::Ja, ColumnReading::Missing) => format!("{value}（欠損）"),
        (Lang::En, ColumnReading::Other) => format!("{value} (other)"),
        (Lang::Ja, ColumnReading::Other) => format!("{value}（その他）"),
        _ => value,
    }
}

/// Note on the sum of integrated gradients and its completeness gap.
pub(crate) fn integral_note(lang: Lang, integral: &PathIntegral) -> String {
    let PathIntegral { baseline, text, gap, nodes } = integral;
    let (gap, is_large) = match integral.gap_share() {
        Some(share) => (format!("{:.1} %", 100.0 * share), share > 0.01 && *gap > 1e-3),
        None => (format!("{gap:.3}"), false),
    };
    let [baseline, text] = [*baseline, *text].map(|x| crate::signed_number(x, 2));
    let of_network = tr_in!(
        "The network's own log-odds: {baseline} at the baseline (every token replaced by the mean embedding), {text} for the \
             text; the scores add up to the difference. Completeness gap: {gap}, with {nodes} gradients.",
        "ネットワーク単独の対数オッズは、ベースライン（テキストの各トークンを平均の埋め込みに置き換えたもの）で {baseline}、\
             テキストで {text} です。スコアの和はこの差になります。完全性のずれ: {gap}（勾配 {nodes} 個）。",
        lang
    );
    let warning = lang.pick(
        " The gap is above 1 %: smaller differences between words are not meaningful.",
        "ずれが 1 % を超えているため、これより小さい差は区別できません。",
    );
    if is_large { of_network + warning } else { of_network }
}

/// Returns the name of an order of words.
pub(crate) fn order_name(lang: Lang, order: &str) -> &str {
    match order {
        "attention" => lang.pick("by attention", "アテンション順"),
        "rollout" => lang.pick("by rollout", "ロールアウト順"),
        "random" => lang.pick("at random", "無作為順"),
        _ => translate_phrase(lang, order),
    }
}

/// States the areas under the deletion and insertion curves.
pub(crate) fn curves_note(lang: Lang, curves: &FaithfulnessCurves, class: &str) -> String {
    let Some((own, others)) = curves.orders.split_first() else { return String::new() };
    let class = lang.quoted(class);
    let areas = |area: &dyn Fn(&OrderCurves) -> f32| {
        let of = |curve: &OrderCurves| format!("{} {:.0} %", order_name(lang, &curve.order), 100.0 * area(curve));
        let others: Vec<String> = others.iter().map(of).collect();
        let own = format!("{:.0} %", 100.0 * area(own));
        match lang {
            Lang::En => format!("{own} ({})", others.join(", ")),
            Lang::Ja => format!("{own}（{}）", others.join("、")),
        }
    };
    let [out, back] = [areas(&|curve| curve.deletion_area), areas(&|curve| curve.insertion_area)];
    tr_in!(
        "Does the network's answer rest on these words? The network's probability of {class}, on average while words are removed, the largest \
             effect first: {out}; smaller is better. While they are added: {back}; larger is better.",
        "ネットワークの予測の根拠はこれらの語か：影響の大きい順に語を取り除いていくとき、ネットワークの{class}の確率は平均 {out}で、小さいほど\
             良い説明です。語を加えていくときは平均 {back}で、大きいほど良い説明です。",
        lang
    )
}

/// Says in a sentence how far the effects of words can be trusted: after how many words the network's answer gives way.
pub(crate) fn trust_sentence(lang: Lang, e: &Explanation) -> String {
    let class = lang.quoted(&show_controls(&e.attribution.class));
    let Some((curves, own)) = e.attribution.curves.as_ref().and_then(|curves| Some((curves, curves.orders.first()?)))
    else {
        let text = match e.layers > 0 {
            true => lang.pick(
                "The effect of a word is measured by leaving it out; the attention to it is only a hint.",
                "語の影響は、その語を除いて測った値です。アテンションは手がかりにすぎません。",
            ),
            false => lang.pick(
                "The effect of a word is measured by leaving it out.",
                "語の影響は、その語を除いて測った値です。",
            ),
        };
        return text.to_owned();
    };
    // The number of words after which the probability is nearer to that of an empty text than to that of the text.
    let [text, empty] = [own.deletion.first(), own.deletion.last()].map(|p| p.copied().unwrap_or_default());
    let given_up = |curve: &OrderCurves| {
        let middle = 0.5 * (text + empty);
        curve.deletion.iter().position(|&p| p < middle).map(|step| curves.words[step])
    };
    let words = curves.words.last().copied().unwrap_or_default();
    let Some(first) = given_up(own).filter(|_| text - empty > 0.05) else {
        return tr_in!(
            "Even without any of the {words} words the network's probability of {class} is about the same: the network's answer \
             rests on no word.",
            "{words} 語すべてを除いても、ネットワークの{class}の確率はほとんど変わりません。ネットワークの答えはどの語にも支えられていません。",
            lang
        );
    };
    let others = curves.orders[1..].iter().filter(|order| ["attention", "random"].contains(&order.order.as_str()));
    let others: Vec<String> = others
        .filter_map(|curve| {
            let count = given_up(curve)?;
            Some(match (lang, curve.order.as_str()) {
                (Lang::En, "random") => format!("in random order after {count}"),
                (Lang::Ja, "random") => format!("無作為な順では {count} 語"),
                (Lang::En, _) => format!("in order of attention after {count}"),
                (Lang::Ja, _) => format!("アテンションの大きい順では {count} 語"),
            })
        })
        .collect();
    let others = others.join(lang.pick(", ", "、"));
    let others = if others.is_empty() { others } else { tr_in!("; {others}", "（{others}）", lang) };
    tr_in!(
        "With the words of largest effect left out first, half of the network's certainty of {class} is gone after {first} of {words} \
             words{others}.",
        "影響の大きい語から順に除くと、{words} 語中 {first} 語で、ネットワークの{class}の確信の半分が失われます{others}。",
        lang
    )
}

/// Explains the two effects of a predictor that has two members.
pub(crate) fn two_effects_note(lang: Lang, has_attention: bool) -> String {
    let network = network_name(lang, has_attention);
    tr_in!(
        "The first number and the bar: the {network} by itself. The second: the whole predictor, with the n-gram model.",
        "左の数字と棒は{network}単独、右の数字は n-gram モデルと合わせた予測全体での影響です。",
        lang
    )
}

/// States the share of each ensemble member in the decision: for the class against the runner-up, if classes are
/// mutually exclusive.
pub(crate) fn member_shares_note(
    lang: Lang,
    parts: &EnsembleMembers,
    class: &str,
    next: Option<&str>,
    of_network: &str,
) -> String {
    let [network, ngrams] = [1.0 - parts.ngram_share, parts.ngram_share].map(|share| format!("{:.0} %", 100.0 * share));
    let against = |half: usize| match (parts.against[half], lang) {
        (false, _) => "",
        (true, Lang::En) => " (against it)",
        (true, Lang::Ja) => "（反対）",
    };
    let (first, second) = (against(0), against(1));
    let class = lang.quoted(class);
    let next = next.map(|next| match (lang, lang.quoted(next)) {
        (Lang::En, next) => format!(" against {next}"),
        (Lang::Ja, next) => format!("{next}に対する"),
    });
    let next = next.unwrap_or_default();
    tr_in!(
        "Share of this decision: {of_network} {network}{first}, n-gram model {ngrams}{second}. Each share is the model's weight in the \
             blend times its log-odds for {class}{next}, divided by the sum of both.",
        "この判断への寄与: {of_network} {network}{first}、n-gram モデル {ngrams}{second}。寄与は、{next}{class}の対数オッズに\
             混合の重みを掛けた値が、両者の合計に占める割合です。",
        lang
    )
}

/// Returns the name of the network next to the n-gram model.
pub(crate) fn network_name(lang: Lang, has_attention: bool) -> &'static str {
    match has_attention {
        true => lang.pick("transformer", "トランスフォーマー"),
        false => lang.pick("network", "ネットワーク"),
    }
}

pub(crate) fn strongest_words_note(lang: Lang, shown: usize, all: usize) -> String {
    match lang {
        Lang::En => format!("The {shown} words with the largest effect, of {all}, in text order."),
        Lang::Ja => format!("全 {all} 語のうち、影響の大きい {shown} 語を文中の順に示します。"),
    }
}

pub(crate) fn attention_heading(lang: Lang, e: &Explanation, layer: usize, head: usize) -> String {
    let (l, h) = (layer + 1, head + 1);
    match lang {
        Lang::En => format!("Attention: layer {l} of {}, head {h} of {}", e.layers, e.heads),
        Lang::Ja => format!("アテンション: 第 {l} 層（全 {} 層）、ヘッド {h}（全 {} 個）", e.layers, e.heads),
    }
}

/// Label of the heatmap's corner, between the two axes.
pub(crate) fn heatmap_corner(lang: Lang) -> &'static str {
    lang.pick("query ↓  key →", "クエリ↓ キー→")
}

/// Heading of the column that sums all hidden keys; at most three columns wide.
pub(crate) fn rest_heading(lang: Lang) -> &'static str {
    lang.pick("etc", "他")
}

pub(crate) fn cell_note(lang: Lang) -> &'static str {
    lang.pick(
        "Each row is a word that looks (query), each column a word that is looked at (key). A cell is the \
         percentage of the row's attention that goes to the column; a row sums to 100 (99 or 101 after \
         rounding).",
        "行は「見る語」（クエリ）、列は「見られる語」（キー）です。数字は、行の語のアテンションのうち列の語に\
         向かう割合（%）で、各行の合計は 100 です（四捨五入のため 99 や 101 になることがあります）。",
    )
}

pub(crate) fn top_note(lang: Lang, shown: usize, all: usize) -> String {
    tr_in!(
        "The text has {all} words. Shown are the {shown} that get most attention in this head, in text \
             order; “{}” is what goes to all the others.",
        "全 {all} 語のうち、このヘッドで最も多くアテンションを集めた {shown} 語を文中の順に示します。\
             「{}」はそれ以外の語への合計です。",
        lang,
        rest_heading(lang)
    )
}

pub(crate) fn panel_note(lang: Lang, panel: usize, panels: usize, first: usize, last: usize) -> String {
    match lang {
        Lang::En => format!("Part {panel} of {panels}: keys {first} to {last}"),
        Lang::Ja => format!("{panels} 枚中の {panel} 枚目: キー {first}〜{last}"),
    }
}

pub(crate) fn color_word(lang: Lang, shades: bool) -> &'static str {
    match (lang, shades) {
        (Lang::En, false) => "Color",
        (Lang::En, true) => "Shade",
        (Lang::Ja, false) => "色",
        (Lang::Ja, true) => "濃淡",
    }
}

/// Note after the end of the scale.
pub(crate) fn largest_weight_note(lang: Lang, percent: f32) -> String {
    tr_in!("(the largest here is {percent:.1})", "（ここでの最大は {percent:.1}）", lang)
}

/// Explains the sign that replaces 100.
pub(crate) fn full_sign_note(lang: Lang, sign: &str) -> String {
    tr_in!(" {sign} is 100", " {sign} は 100", lang)
}

pub(crate) fn joining_note(lang: Lang, rule: &str) -> String {
    let rule = translate_phrase(lang, rule);
    tr_in!(
        "Where a word has several sub-word tokens they are joined: {rule}.",
        "一語が複数のサブワードに分かれるときは、まとめて一語とします（{rule}）。",
        lang
    )
}

pub(crate) fn attention_caveat(lang: Lang, kind: ExplanationKind) -> &'static str {
    if kind == ExplanationKind::Encoder {
        return lang.pick(
            "Attention alone is weak evidence of why a model finds texts alike. The score of each word above measures \
             its effect on the vector.",
            "アテンションだけでは、モデルがテキストを似ていると判断した理由の弱い手がかりにしかなりません。ベクトルへの影響を\
             測っているのは、上の語ごとの値です。",
        );
    }
    lang.pick(
        "Attention alone is weak evidence of why a model decides as it does. The score of each word above \
         measures its effect on the prediction.",
        "アテンションだけでは、モデルがそう判断した理由の弱い手がかりにしかなりません。予測への影響を測って\
         いるのは、上の語ごとの値です。",
    )
}

pub(crate) fn top_attention_heading(lang: Lang) -> &'static str {
    lang.pick("Where words look most", "どの語を最もよく見ているか")
}

/// A word that another word attends to.
pub(crate) struct AttendedWord {
    pub(crate) text: String,
    /// True if it is the attending word itself.
    pub(crate) is_itself: bool,
    pub(crate) percent: f32,
}

/// States which two words a word attends to most.
pub(crate) fn top_attention_sentence(lang: Lang, word: &str, attended: [AttendedWord; 2]) -> String {
    let [most, least] = [attended[0].percent, attended[1].percent];
    let [first, second] = attended.map(|attended| match attended.is_itself {
        // Not quoted, because it is not a word of the text.
        true => lang.pick("itself", "自分自身").to_owned(),
        false => lang.quoted(&attended.text),
    });
    let word = lang.quoted(word);
    tr_in!(
        "{word} looks most at {first} ({most:.0} %), then at {second} ({least:.0} %).",
        "{word}が最もよく見ているのは{first}（{most:.0} %）、次は{second}（{least:.0} %）。",
        lang
    )
}

/// Heading of a translation.
pub(crate) fn translation_heading(lang: Lang, is_given: bool) -> &'static str {
    match is_given {
        false => lang.pick("Translation", "訳文"),
        true => lang.pick("Translation, as given", "指定された訳文"),
    }
}

pub(crate) fn roles_heading(lang: Lang) -> &'static str {
    lang.pick("Role of each head in this text", "このテキストでの各ヘッドの役割")
}

pub(crate) fn ranking_heading(lang: Lang) -> &'static str {
    lang.pick("Heads by agreement", "一致率によるヘッドの順位")
}

pub(crate) fn ranking_note(lang: Lang, chance: f32) -> String {
    tr_in!(
        "agreement: the share of words for which a head looks most at the source word that they need most, the one \
             whose absence costs them most, by a tenth of their probability or more (even attention would hit {chance:.0} %). \
             weight: the mean attention on it. ~: no more than by chance, as the same rows reach when shuffled among the words \
             (at most 1 model in 100 has a head without ~ by chance).",
        "一致率: 訳文の語のうち、最も必要な原文の語（抜くと確率が最も下がる語）をヘッドが最もよく見ているものの割合\
             （均等に見るだけなら {chance:.0} %。確率の低下が 1 割未満の語は数えません）。重み: その語へのアテンションの平均。\
             ~: 偶然の範囲（行を語の間で並べ替えても達する値。偶然に ~ が付かないヘッドを持つモデルは 100 個に 1 個以下）。",
        lang
    )
}

pub(crate) fn ranking_columns(lang: Lang) -> [&'static str; 2] {
    match lang {
        Lang::En => ["agreement", "weight"],
        Lang::Ja => ["一致率", "重み"],
    }
}

/// Returns the name of a head; indices count from 0.
pub(crate) fn head_name(lang: Lang, layer: usize, head: usize) -> String {
    let (l, h) = (layer + 1, head + 1);
    tr_in!("layer {l}, head {h}", "第 {l} 層、ヘッド {h}", lang)
}

pub(crate) fn more_heads(lang: Lang, count: usize) -> String {
    match lang {
        Lang::En => format!("and {count} more heads (all are in the page and in the JSON)"),
        Lang::Ja => format!("ほか {count} 個（HTML と JSON にはすべてあります）"),
    }
}

pub(crate) fn alignment_heading(lang: Lang, [layer, head]: [usize; 2], [layers, heads]: [usize; 2]) -> String {
    let (l, h) = (layer + 1, head + 1);
    match lang {
        Lang::En => format!("Cross-attention: layer {l} of {layers}, head {h} of {heads}"),
        Lang::Ja => format!("クロスアテンション: 第 {l} 層（全 {layers} 層）、ヘッド {h}（全 {heads} 個）"),
    }
}

pub(crate) fn alignment_note(lang: Lang) -> &'static str {
    lang.pick(
        "Each row is a word of the translation at the moment when it is written, each column a word of the source. A cell \
         is the percentage of the row's attention that goes to the column.",
        "行は訳文の語（書き出される時点）、列は原文の語です。数字は、行の語のアテンションのうち列の語に向かう割合（%）です。",
    )
}

pub(crate) fn alignment_corner(lang: Lang) -> &'static str {
    lang.pick("target ↓  source →", "訳文↓ 原文→")
}

pub(crate) fn needed_words_heading(lang: Lang) -> &'static str {
    lang.pick("Most needed source words", "最も必要な原文の語")
}

/// States which source word a word needs most. `[with, without]` are percentages.
pub(crate) fn needed_word_sentence(lang: Lang, word: &str, needed: &str, [with, without]: [f32; 2]) -> String {
    let (word, needed) = (lang.quoted(word), lang.quoted(needed));
    tr_in!(
        "{word} needs {needed}: without it, its probability falls from {with:.1} % to {without:.1} %.",
        "{word}に最も必要なのは{needed}。抜くと確率は {with:.1} % から {without:.1} % に下がります。",
        lang
    )
}

pub(crate) fn alignment_caveat(lang: Lang) -> &'static str {
    lang.pick(
        "Attention shows where the model looks, not why it decides. The importance of a word is measured by leaving it \
         out.",
        "アテンションはモデルがどこを見ているかを示すもので、判断の理由を示すものではありません。語の効果は、その語を抜いて\
         測ったものです。",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_those_of_the_network() {
        let curve = OrderCurves {
            order: "leave-one-out".into(),
            deletion: vec![0.9, 0.1],
            insertion: vec![0.1, 0.9],
            deletion_area: 0.5,
            insertion_area: 0.5,
        };
        let curves = FaithfulnessCurves { words: vec![0, 1], orders: vec![curve] };
        let notes = [Lang::En, Lang::Ja].map(|lang| curves_note(lang, &curves, "pos"));
        assert!(notes[0].starts_with("Does the network's answer rest on these words?"), "{}", notes[0]);
        assert!(notes[1].starts_with("ネットワークの予測の根拠"), "{}", notes[1]);
        assert!(two_effects_note(Lang::En, false).contains("the network by itself"));
        assert!(two_effects_note(Lang::En, true).contains("the transformer by itself"));
    }

    #[test]
    fn languages_parse_from_codes() {
        assert_eq!("ja".parse(), Ok(Lang::Ja));
        assert_eq!(Lang::En.code().parse(), Ok(Lang::En));
        assert!("fr".parse::<Lang>().is_err());
    }

    #[test]
    fn unknown_phrases_stay_unchanged() {
        assert_eq!(translate_phrase(Lang::Ja, "leave-one-out"), "一語抜き法（leave-one-out）");
        assert_eq!(translate_phrase(Lang::En, "leave-one-out"), "leave-one-out");
        assert_eq!(translate_phrase(Lang::Ja, "something else"), "something else");
    }
}
