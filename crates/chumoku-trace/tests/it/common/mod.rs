//! Generated explanations: deterministic, and not symmetric in any way.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod browser;
pub(crate) mod draw;
pub(crate) mod expansions;
pub(crate) mod figures;
pub(crate) mod layers;
pub(crate) mod spreadsheet;
pub(crate) mod traces;

use chumoku_view::{
    Alignment, Attribution, ColorDepth, DerivedAttention, EnsembleMembers, Explanation, ExplanationKind, HeadAblation,
    LabelProbability, Lang, QueriesAndKeys, TerminalOptions, TranslationHeadAblation, Word, WordPiece,
};

/// Returns options with a change.
pub(crate) fn with<O>(mut options: O, change: impl FnOnce(&mut O)) -> O {
    change(&mut options);
    options
}

/// Returns options for a terminal of this width.
pub(crate) fn terminal(width: usize, color: ColorDepth, lang: Lang) -> TerminalOptions {
    with(TerminalOptions::default(), |o| (o.width, o.color, o.lang) = (width, color, lang))
}

/// Deterministic pseudo-random numbers from 0 to 1.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1u64 << 24) as f32
    }
}

/// Returns an explanation of a text given as words. Its heads resemble real ones: some attend to the previous word,
/// some to one special word, and some are spread out.
pub(crate) fn example(words: &[&str], layers: usize, heads: usize) -> Explanation {
    let mut numbers = Numbers::new(words.len() as u64 + 7);
    let mut all = vec!["[CLS]"];
    all.extend(words);
    let n = all.len();
    let mut attention = Vec::with_capacity(layers * heads * n * n);
    for layer in 0..layers {
        for head in 0..heads {
            for query in 0..n {
                let scores: Vec<f32> = (0..n)
                    .map(|key| {
                        let shape = match (layer + head) % 4 {
                            0 => -(key as f32 - query as f32).abs() * 0.8,
                            1 if key + 1 == query => 2.5,
                            2 if key == 0 => 2.0,
                            _ => 0.0,
                        };
                        shape + 2.2 * numbers.next()
                    })
                    .collect();
                let total: f32 = scores.iter().map(|s| s.exp()).sum();
                attention.extend(scores.iter().map(|s| s.exp() / total));
            }
        }
    }
    let scores = (0..n).map(|i| match i {
        0 => 0.0,
        _ => {
            let x = numbers.next() * 2.0 - 0.9;
            (x * x * x * 2.4 * 100.0).round() / 100.0
        }
    });
    let scores: Vec<f32> = scores.collect();
    let pieces = all.iter().enumerate().flat_map(|(i, word)| {
        let chars: Vec<char> = word.chars().collect();
        let parts: Vec<String> = if i > 0 && chars.len() > 6 {
            vec![chars[..4].iter().collect(), format!("##{}", chars[4..].iter().collect::<String>())]
        } else {
            vec![(*word).to_owned()]
        };
        parts.into_iter().map(move |text| WordPiece { text, word: i })
    });
    let probability = |label: &str, probability| LabelProbability { label: label.to_owned(), probability };
    // Derived numbers that differ from the weights, and from each other.
    let derived = DerivedAttention {
        value_weighted: by_rows(&attention, n, |key, x| x * (key + 1) as f32),
        rollout: (0..layers)
            .flat_map(|l| by_rows(&attention[l * heads * n * n..][..n * n], n, |key, x| x / (key + 1) as f32))
            .collect(),
    };
    let without = (0..layers * heads).map(|index| {
        let shift = 0.04 * index as f32;
        let probabilities = vec![0.871_23 - 3.0 * shift, 0.098_4 + shift, 0.030_37 + 2.0 * shift];
        let label = if probabilities[2] > probabilities[0] { "negative" } else { "positive" }.to_owned();
        HeadAblation { layer: index / heads, head: index % heads, label, probabilities, whole: None, similarity: None }
    });
    Explanation {
        kind: ExplanationKind::Classifier,
        model: "reviews-model".to_owned(),
        text: words.join(" ").into(),
        cut: None,
        label: "positive".to_owned(),
        similarity: None,
        number: None,
        levels: Vec::new(),
        probabilities: vec![
            probability("positive", 0.871_23),
            probability("neutral", 0.098_4),
            probability("negative", 0.030_37),
        ],
        exclusive: true,
        parts: Some(EnsembleMembers {
            network: vec![probability("positive", 0.913), probability("neutral", 0.07), probability("negative", 0.017)],
            ngrams: vec![probability("positive", 0.782), probability("neutral", 0.16), probability("negative", 0.058)],
            network_weight: 0.68,
            ngram_share: 0.41,
            against: [false; 2],
        }),
        pieces: pieces.collect(),
        words: all.iter().enumerate().map(|(i, word)| Word { text: (*word).to_owned(), special: i == 0 }).collect(),
        layers,
        heads,
        attention,
        causal: false,
        derived,
        depth: None,
        without: without.collect(),
        joining: "sum over keys, mean over queries".to_owned(),
        attribution: Attribution {
            method: "leave-one-out".to_owned(),
            class: "positive".to_owned(),
            unit: "change in log-odds when the word is removed".to_owned(),
            scores,
            whole: None,
            beyond: Vec::new(),
            integral: None,
            curves: None,
        },
        columns: Vec::new(),
        prompt_words: None,
        lens: None,
        residual_path: None,
        patching: None,
    }
}

/// Changes rows of `n` numbers and normalizes them again.
fn by_rows(rows: &[f32], n: usize, change: impl Fn(usize, f32) -> f32) -> Vec<f32> {
    let changed = rows.chunks_exact(n).flat_map(|row| {
        let row: Vec<f32> = row.iter().enumerate().map(|(key, &x)| change(key, x)).collect();
        let sum: f32 = row.iter().sum();
        row.into_iter().map(move |x| x / sum)
    });
    changed.collect()
}

/// Returns an explanation whose weights follow from its queries and keys. A causal one belongs to a language model with
/// an ALiBi slope for each head.
pub(crate) fn deep(words: &[&str], causal: bool) -> Explanation {
    deep_of([2, 3], words, causal)
}

/// Returns [`deep`] with the given numbers of layers and heads.
pub(crate) fn deep_of([layers, heads]: [usize; 2], words: &[&str], causal: bool) -> Explanation {
    let (dim, scale) = (4, 0.5);
    let mut e = example(words, layers, heads);
    let mut numbers = Numbers::new(5);
    let tokens = e.pieces.len();
    let count = layers * heads * tokens * dim;
    let mut draw = || (0..count).map(|_| 4.0 * numbers.next() - 2.0).collect::<Vec<f32>>();
    let (queries, keys) = (draw(), draw());
    let slopes: Option<Vec<Vec<f32>>> =
        causal.then(|| vec![(0..heads).map(|head| 0.5f32.powi(1 + head as i32)).collect(); layers]);
    let n = e.words.len();
    e.attention.clear();
    for index in 0..layers * heads {
        let at = |x: &[f32], token: usize| x[(index * tokens + token) * dim..][..dim].to_vec();
        let slope = slopes.as_ref().map_or(0.0, |slopes| f64::from(slopes[index / heads][index % heads]));
        let mut by_word = vec![0.0f64; n * n];
        for i in 0..tokens {
            let visible = if causal { i + 1 } else { tokens };
            let score = |j: usize| {
                let product = at(&queries, i).into_iter().zip(at(&keys, j)).map(|(q, k)| f64::from(q) * f64::from(k));
                scale * product.sum::<f64>() - slope * i.abs_diff(j) as f64
            };
            let exp: Vec<f64> = (0..visible).map(|j| score(j).exp()).collect();
            let (sum, word) = (exp.iter().sum::<f64>(), e.pieces[i].word);
            let of_word = e.pieces.iter().filter(|piece| piece.word == word).count() as f64;
            for (j, x) in exp.iter().enumerate() {
                by_word[word * n + e.pieces[j].word] += x / sum / of_word;
            }
        }
        e.attention.extend(by_word.iter().map(|&x| x as f32));
    }
    e.derived.value_weighted = by_rows(&e.attention, n, |key, x| x * (key + 1) as f32);
    e.derived.rollout = (0..layers)
        .flat_map(|l| by_rows(&e.attention[l * heads * n * n..][..n * n], n, |key, x| x / (key + 1) as f32))
        .collect();
    e.depth = Some(QueriesAndKeys { scale, slopes, dim, queries, keys });
    if causal {
        e.causal = true;
        e.kind = ExplanationKind::LanguageModel;
        e.parts = None;
    }
    e
}

/// Returns an encoder's explanation of a text compared with another.
pub(crate) fn near() -> Explanation {
    let mut e = english();
    e.kind = ExplanationKind::Encoder;
    (e.parts, e.similarity, e.label) = (None, Some(0.812_34), "A fine film , but for its end .".to_owned());
    e.probabilities.clear();
    e.attribution.class.clone_from(&e.label);
    e.attribution.unit = "change in cosine similarity when the word is removed".to_owned();
    e.attribution.scores.iter_mut().for_each(|score| *score *= 0.1);
    for (index, without) in e.without.iter_mut().enumerate() {
        without.label.clear();
        without.probabilities.clear();
        without.similarity = Some(0.8 - 0.03 * index as f32);
    }
    e
}

pub(crate) fn english() -> Explanation {
    let words = "The film was not good , but I really loved the unforgettable music .";
    example(&words.split(' ').collect::<Vec<_>>(), 2, 4)
}

pub(crate) fn japanese() -> Explanation {
    let words = [
        "この",
        "映画",
        "は",
        "良く",
        "なかっ",
        "た",
        "けれど",
        "、",
        "サウンドトラック",
        "が",
        "とても",
        "好き",
        "だっ",
        "た",
        "。",
    ];
    let mut e = example(&words, 2, 4);
    e.text = words.concat().into();
    e.label = "肯定".to_owned();
    e.attribution.class = "肯定".to_owned();
    let labels = ["肯定", "中立", "否定"];
    let parts = e.parts.as_mut().expect("the example has parts");
    for without in &mut e.without {
        without.label = if without.label == "positive" { "肯定" } else { "否定" }.to_owned();
    }
    for list in [&mut e.probabilities, &mut parts.network, &mut parts.ngrams] {
        for (p, label) in list.iter_mut().zip(labels) {
            p.label = label.to_owned();
        }
    }
    e
}

/// Emoji of several code points, combining marks, full-width Latin, right-to-left scripts, control characters.
pub(crate) fn scripts() -> Explanation {
    let words = [
        "👩‍👩‍👧",
        "🇯🇵",
        "❤️",
        "e\u{301}tude",
        "か\u{3099}く",
        "ＡＢＣ",
        "שלום",
        "مرحبا",
        "\u{301}",
        "a\nb",
        "\u{1b}[31m",
        "\u{202e}abc",
        "ไทย",
        "नमस्ते",
        "",
        "ﷺ",
    ];
    example(&words, 1, 1)
}

/// Hebrew, which is written from right to left.
pub(crate) fn right_to_left() -> Explanation {
    let words = ["הסרט", "לא", "היה", "טוב", ",", "אבל", "אהבתי", "את", "המוזיקה", "."];
    example(&words, 1, 2)
}

pub(crate) fn many(count: usize) -> Explanation {
    let words: Vec<String> =
        (0..count).map(|i| ["attention", "is", "what", "you", "weigh"][i % 5].to_owned() + &i.to_string()).collect();
    example(&words.iter().map(String::as_str).collect::<Vec<_>>(), 1, 2)
}

/// An explanation in which every field tries to escape its context.
pub(crate) fn hostile() -> Explanation {
    let words = [
        "</script><script>document.title='owned'</script>",
        "<!--",
        "<img src=x onerror=document.title='owned'>",
        "@@DATA@@",
        "\u{2028}line\u{2029}",
        "\"}];",
        "&lt;b&gt;",
        "__proto__",
        "\\u003c",
        "]]>",
        "\u{1b}]0;owned\u{7}",
    ];
    let mut e = example(&words, 2, 2);
    let attack = "</SCRIPT ><svg onload=document.title='owned'><!--";
    e.model = format!("model{attack}");
    e.label = format!("label{attack}");
    e.probabilities[0].label = e.label.clone();
    e.probabilities[1].label = "constructor".to_owned();
    e.joining = "__proto__".to_owned();
    e.attribution.method = attack.to_owned();
    e.attribution.class = attack.to_owned();
    e
}

/// An alignment with weights, effects and words that must not run on the page.
pub(crate) fn alignment() -> Alignment {
    let words = |texts: &[&str]| {
        let plain = texts.iter().map(|text| Word { text: (*text).into(), special: false });
        plain.chain([Word { text: "[END]".into(), special: true }]).collect::<Vec<_>>()
    };
    let (source_words, target_words) = (words(&["令", "和", "</script>", "年"]), words(&["2026", "\u{202e}x"]));
    let [rows, columns] = [target_words.len(), source_words.len()];
    let raw = |i: usize| ((i * 37 + 11) % 19 + 1) as f32;
    let attention = (0..2 * 3 * rows).flat_map(|row| {
        let sum: f32 = (0..columns).map(|column| raw(row * columns + column)).sum();
        (0..columns).map(move |column| raw(row * columns + column) / sum)
    });
    let mut alignment = Alignment {
        model: "model".into(),
        source: "令和</script>年".into(),
        target: "2026 \u{202e}x".into(),
        is_given: false,
        is_cut: false,
        lens: None,
        patching: None,
        layers: 2,
        heads: 3,
        log_probabilities: vec![-0.01, -0.7, -2.5],
        effects: (0..rows)
            .map(|row| {
                (0..columns).map(|c| (c + 1 < columns).then_some((row * 5 + c * 3) as f32 % 7.0 - 2.0)).collect()
            })
            .collect(),
        ranking: Vec::new(),
        without: (0..6)
            .map(|index| TranslationHeadAblation {
                layer: index / 3,
                head: index % 3,
                log_probabilities: (0..rows).map(|row| -0.1 * (row + 2 * index + 1) as f32).collect(),
                translation: format!("without {index} </script>"),
            })
            .collect(),
        joining: "sum over keys, mean over queries".into(),
        attention: attention.collect(),
        source_words,
        target_words,
    };
    alignment.ranking = alignment.rank_heads();
    alignment
}

/// Removes color sequences, and fails on any other escape sequence.
pub(crate) fn strip(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        out.push_str(&rest[..at]);
        let code = &rest[at..];
        let end = code.find('m').expect("a color sequence ends in m");
        assert!(code[1..end].starts_with('['), "{:?}", &code[..=end]);
        assert!(code[2..end].chars().all(|c| c.is_ascii_digit() || c == ';'), "{:?}", &code[..=end]);
        rest = &code[end + 1..];
    }
    out + rest
}
