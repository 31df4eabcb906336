//! The three views of an explanation show all its numbers, and no text can inject anything.

use crate::common::{strip, terminal, with};
use base64::prelude::{BASE64_STANDARD, Engine};
use chumoku::row::AsRow;
use chumoku_trace::Truncation;
use chumoku_view::{
    ColorDepth, DerivedAttention, EnsembleHeadAblation, Explanation, HeadAblation, Lang, TerminalOptions, from_json,
    render, to_html, to_json,
};
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

const DEPTHS: [ColorDepth; 4] = [ColorDepth::None, ColorDepth::Ansi16, ColorDepth::Ansi256, ColorDepth::TrueColor];

fn examples() -> Vec<Explanation> {
    vec![
        crate::common::english(),
        crate::common::japanese(),
        crate::common::scripts(),
        crate::common::right_to_left(),
        crate::common::many(0),
        crate::common::many(1),
        crate::common::many(45),
        crate::common::many(59),
        crate::common::many(60),
        crate::common::many(130),
        crate::common::hostile(),
        crate::common::deep(&["a", "word", "of", "several", "tokens"], false),
        crate::common::deep(&["what", "follows", "each", "word", "unseen"], true),
    ]
}

/// A masked cell.
const UNSEEN: u32 = u32::MAX;

/// A printed cell of a heatmap; indices count from 1.
#[derive(Debug, PartialEq)]
struct PrintedCell {
    query: usize,
    /// `None` for the sum of all other keys.
    key: Option<usize>,
    number: u32,
}

/// Parses a heatmap.
fn cells(text: &str) -> Vec<PrintedCell> {
    let start = text.find("query ↓").or_else(|| text.find("クエリ↓")).expect("a heatmap");
    let start = text[..start].rfind('\n').map_or(0, |i| i + 1);
    let mut keys: Vec<Option<usize>> = Vec::new();
    let mut found = Vec::new();
    for line in text[start..].lines() {
        let Some((label, cells)) = line.rsplit_once('│') else {
            continue;
        };
        if label.contains('→') {
            keys = cells.split_whitespace().map(|k| k.parse().ok()).collect();
            continue;
        }
        let query = label.split_whitespace().next().and_then(|i| i.parse().ok());
        let query = query.unwrap_or_else(|| panic!("a row without a number: {line:?}"));
        let mut signs: Vec<char> = cells.chars().collect();
        if keys.last() == Some(&None) {
            // The column of all other keys is set apart by one space.
            let wide = (signs.len() - 1) / keys.len();
            assert_eq!(signs.remove(wide * (keys.len() - 1)), ' ', "{line:?}");
        }
        assert_eq!(signs.len() % keys.len(), 0, "{line:?}");
        for (cell, key) in signs.chunks(signs.len() / keys.len()).zip(&keys) {
            let cell: String = cell.iter().collect();
            let digits = cell.trim_start_matches([' ', '░', '▒', '▓', '█']);
            let number = match digits {
                "**" => 100,
                "·" => UNSEEN,
                digits => digits.parse().unwrap_or_else(|_| panic!("{cell:?} in {line:?}")),
            };
            found.push(PrintedCell { query, key: *key, number });
        }
    }
    found
}

#[test]
fn terminal_fits_and_cells_match_the_weights() {
    for e in examples() {
        let n = e.words.len();
        for (layer, head) in [(0, 0), (e.layers - 1, e.heads - 1)] {
            for width in [80, 120] {
                for lang in [Lang::En, Lang::Ja] {
                    let mut plain = Vec::new();
                    for color in DEPTHS {
                        let text = render(&e, layer, head, &terminal(width, color, lang));
                        if color == ColorDepth::None {
                            assert!(!text.contains('\u{1b}'), "an escape without color");
                        } else {
                            assert!(text.contains('\u{1b}'));
                        }
                        let text = strip(&text);
                        for line in text.lines() {
                            assert!(line.width() <= width, "{} columns: {line:?}", line.width());
                            assert!(!line.chars().any(char::is_control), "{line:?}");
                        }
                        plain.push(cells(&text));
                    }
                    assert!(plain.windows(2).all(|two| two[0] == two[1]), "color changed a number");
                    let found = &plain[0];
                    for &PrintedCell { query, key, number } in found {
                        let is_seen = key.is_none_or(|key| e.weight(layer, head, query - 1, key - 1).is_some());
                        assert_eq!(number != UNSEEN, is_seen, "{query} {key:?}");
                        if !is_seen {
                            continue;
                        }
                        let row = e.row(layer, head, query - 1);
                        let weight = match key {
                            Some(key) => row[key - 1],
                            None => {
                                let own = found.iter().filter(|cell| cell.query == query);
                                let keys = own.filter_map(|cell| cell.key);
                                1.0 - keys.map(|key| row[key - 1]).sum::<f32>()
                            }
                        };
                        assert_eq!(f64::from(number), f64::from((100.0 * weight).round().abs()), "{query} {key:?}");
                    }
                    if n <= 60 {
                        assert_eq!(found.len(), n * n, "every cell is shown");
                    } else {
                        assert!(found.len() > 100 && found.iter().any(|cell| cell.key.is_none()));
                    }
                }
            }
        }
    }
}

#[test]
fn terminal_output_fits_narrow_screens() {
    for e in examples() {
        for width in [40, 41, 53, 200] {
            let options = with(TerminalOptions::default(), |o| o.width = width);
            for line in render(&e, 0, 0, &options).lines() {
                assert!(line.width() <= width, "{width}: {line:?}");
            }
        }
    }
}

#[test]
fn terminal_shows_scores_probabilities_and_words() {
    let e = crate::common::english();
    let text = render(&e, 1, 2, &TerminalOptions::default());
    for p in &e.probabilities {
        assert!(text.contains(&format!("{:.1} %", p.probability * 100.0)), "{p:?}\n{text}");
    }
    for (word, score) in e.words.iter().zip(&e.attribution.scores).skip(1) {
        let line = text.lines().find(|l| {
            let mut parts = l.split_whitespace().skip(1);
            parts.next() == Some(&word.text) && parts.next().is_some_and(|s| s.contains('.'))
        });
        let line = line.unwrap_or_else(|| panic!("no line for {word:?}\n{text}"));
        let same: Vec<f32> = line.split_whitespace().filter_map(|s| s.parse().ok()).collect();
        let close =
            |x: &f32| e.words.iter().zip(&e.attribution.scores).any(|(w, s)| w == word && (s - x).abs() <= 0.005);
        assert!(same[1..].iter().any(close), "{score} {line}");
    }
    // Sentences may be wrapped.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = words(&text);
    assert!(text.contains("layer 2 of 2, head 3 of 4"));
    assert!(text.contains("sum over keys, mean over queries"));
    assert!(text.contains("weak evidence"));
    let ja = render(&e, 1, 2, &with(TerminalOptions::default(), |o| o.lang = Lang::Ja));
    let ja = words(&ja).replace(' ', "");
    assert!(ja.contains("第2層（全2層）") && ja.contains("キー側は和、クエリ側は平均"));
}

#[test]
fn terminal_notes_omissions() {
    let text = render(&crate::common::many(130), 0, 0, &TerminalOptions::default());
    assert!(text.contains("The text has 131 words."));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("The 30 words with the largest effect, of 130"));
}

#[test]
fn terminal_marks_what_the_model_wrote() {
    let mut e = crate::common::deep(&["what", "follows", "each", "word", "unseen"], true);
    // Three words after the special token are the prompt.
    e.prompt_words = Some(4);
    assert_eq!(e.written_from(), Some("what follows each".len()));
    let text = render(&e, 0, 0, &terminal(80, ColorDepth::None, Lang::En));
    assert!(text.contains("Prompt: “what follows each”\n"), "{text}");
    assert!(text.contains("Written by the model: “word unseen”\n"), "{text}");
    assert!(text.contains("The model wrote words 5 to 6 itself."), "{text}");
    e.prompt_words = None;
    assert!(e.written_from().is_none());
    assert!(!render(&e, 0, 0, &terminal(80, ColorDepth::None, Lang::En)).contains("Prompt"));
}

#[test]
#[should_panic(expected = "layer 2 and head 0 (counted from 0) of 2 layers and 4 heads")]
fn terminal_rejects_missing_layers() {
    let _ = render(&crate::common::english(), 2, 0, &TerminalOptions::default());
}

#[test]
fn head_effects_belong_to_the_network_alone() {
    let mut e = crate::common::english();
    let [own, whole] = [e.network_probability(&e.label).unwrap(), e.probabilities[0].probability];
    assert!((own - whole).abs() > 0.01, "{own} and {whole} do not differ");
    let without = |probability: f32| vec![probability; e.probabilities.len()];
    let of_whole = EnsembleHeadAblation { label: e.label.clone(), probabilities: without(0.75) };
    let label = e.label.clone();
    let head = HeadAblation {
        layer: 0,
        head: 0,
        label,
        probabilities: without(0.25),
        whole: Some(of_whole),
        similarity: None,
    };
    e.without = vec![head.clone()];
    assert_eq!(e.head_effect(0, 0), Some(0.25 - own));
    // Without a second ensemble member both are the same.
    (e.parts, e.without) = (None, vec![HeadAblation { whole: None, ..head }]);
    assert_eq!(e.head_effect(0, 0), Some(0.25 - whole));
    assert_eq!(e.head_effect(0, 1), None);
}

#[test]
fn json_round_trip_is_exact() {
    for e in examples() {
        let value = to_json(&e);
        assert_eq!(from_json(&value).expect("what to_json wrote"), e);
        // Through text, as on disk.
        let text = value.to_string();
        let again: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(from_json(&again).expect("what to_json wrote"), e);
    }
    let e = crate::common::english();
    let value = to_json(&e);
    let cell = &value["attention"][1][2][3][4];
    assert_eq!(cell.to_string(), e.row(1, 2, 3)[4].to_string(), "the digits of an f32, no more");
    assert_eq!(value["axes"].to_string(), r#"["layer","head","query","key"]"#);
}

#[test]
fn inconsistent_json_is_rejected() {
    let good = to_json(&crate::common::english());
    let refused = |change: &dyn Fn(&mut Value), message: &str| {
        let mut bad = good.clone();
        change(&mut bad);
        let error = from_json(&bad).expect_err(message).to_string();
        assert!(error.contains(message), "{error}");
    };
    refused(&|v| *v = Value::Null, "is a JSON object");
    refused(&|v| v["attention"][0][1][2] = Value::from(1), "not nested");
    refused(&|v| v["attention"][0][1][2][3] = Value::Null, "null where a number");
    refused(&|v| v["attention"][0][1][2][3] = Value::from(0.9), "head 2, query 3 sum to");
    refused(&|v| v["attention"][0][1][2][3] = Value::from(1e30), "not within 0 to 1");
    refused(&|v| v["layers"] = Value::from(3), "2 entries where there should be 3");
    refused(&|v| v["attribution"]["scores"] = Value::from(vec![1.0]), "one score per word");
    refused(&|v| v["pieces"][0]["word"] = Value::from(99), "word index 99");
    refused(&|v| v["label"] = Value::Null, "not an explanation");
    refused(&|v| v["probabilities"][0]["probability"] = Value::from(7), "not within 0 to 1");

    // Patching, the lens and the path of the tokens have a number for each layer, head and token.
    let good = to_json(&crate::page_in_browser::with_inner_steps());
    assert!(from_json(&good).is_ok());
    let damaged = |part: &str, change: &dyn Fn(&mut Value)| {
        let mut bad = good.clone();
        change(&mut bad[part]);
        let error = from_json(&bad).expect_err(part).to_string();
        assert!(error.contains(&format!("\"{part}\" does not fit the 2 layers")), "{error}");
    };
    let shorten = |list: &mut Value| drop(list.as_array_mut().unwrap().pop().unwrap());
    damaged("lens", &|lens| shorten(&mut lens["depths"]));
    damaged("lens", &|lens| shorten(&mut lens["depths"][0]));
    damaged("lens", &|lens| shorten(&mut lens["depths"][1][0]["probabilities"]));
    for list in ["aligned", "residual", "heads", "feed_forward"] {
        damaged("patching", &|patching| shorten(&mut patching[list]));
    }
    damaged("patching", &|patching| patching["aligned"][0][1] = Value::from(99));
    for list in ["ids", "embedding", "position", "residual", "heads", "attention", "feed_forward"] {
        damaged("residual_path", &|path| shorten(&mut path[list]));
    }
}

/// Reads the explanation back from a page; bytes become shares of 255.
fn from_page(page: &str) -> Explanation {
    let open = "<script type=\"application/json\" id=\"data\">";
    let start = page.find(open).expect("the data") + open.len();
    let end = page[start..].find("</script>").expect("its end") + start;
    let mut value: Value = serde_json::from_str(&page[start..end]).expect("JSON");
    let object = value.as_object_mut().expect("an object");
    object.remove("phrases");
    object.insert("attention".into(), Value::Array(Vec::new()));
    if let Some(Value::Object(depth)) = object.get_mut("depth") {
        assert_eq!([&depth["queries"], &depth["keys"]], [&Value::Array(Vec::new()); 2]);
    }
    let mut e: Explanation = serde_json::from_value(value).expect("an explanation");
    let maps = |name: &str| {
        let start = format!("<script type=\"text/plain\" class=\"map\" data-name=\"{name}\" ");
        let mut numbers: Vec<f32> = Vec::new();
        for (index, map) in page.split(&start).skip(1).enumerate() {
            let (attributes, rest) = map.split_once('>').expect("the end of the tag");
            let coded = rest.split("</script>").next().expect("base64");
            let place = match name {
                "rollout" => format!("data-layer=\"{index}\" "),
                _ => format!("data-layer=\"{}\" data-head=\"{}\" ", index / e.heads, index % e.heads),
            };
            assert!(attributes.starts_with(&place), "{attributes}");
            let bytes = BASE64_STANDARD.decode(coded).expect("base64");
            match attributes.ends_with("data-form=\"f32\"") {
                true => numbers.extend(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
                false => numbers.extend(bytes.iter().map(|&b| f32::from(b) / 255.0)),
            }
        }
        numbers
    };
    let [attention, value_weighted, rollout, queries, keys] =
        ["weights", "value_weighted", "rollout", "queries", "keys"].map(maps);
    e.attention = attention;
    e.derived = DerivedAttention { value_weighted, rollout };
    if let Some(depth) = &mut e.depth {
        (depth.queries, depth.keys) = (queries, keys);
    }
    e
}

#[test]
fn page_contains_the_whole_explanation() {
    for e in examples() {
        for lang in [Lang::En, Lang::Ja] {
            let page = to_html(&e, [0; 2], lang);
            assert_eq!(from_page(&page), e);
            assert_eq!(page, to_html(&e, [0; 2], lang), "the same bytes every time");
            assert!(page.contains(&format!("<html lang=\"{}\">", lang.code())));
        }
    }
}

#[test]
fn page_sends_no_request_and_escapes_texts() {
    for mut e in examples() {
        let calm = to_html(&crate::common::english(), [0; 2], Lang::En);
        // A text may contain an address; the page itself may not.
        e.text = e.text.as_row().text().replace("http", "").into();
        e.model = e.model.replace("http", "");
        let page = to_html(&e, [0; 2], Lang::En);
        for count in ["<script", "</script", "<style", "<img", "<link", "<iframe", "<!--", "http:", "https:"] {
            let [here, there] = [&page, &calm].map(|page| {
                let maps = if count.contains("script") { page.matches("class=\"map\"").count() } else { 0 };
                page.to_lowercase().matches(count).count() - maps
            });
            assert_eq!(here, there, "{count}");
        }
        let maps = page.matches("class=\"map\"").count();
        assert_eq!(page.matches("</script>").count(), 2 + maps);
        for absent in ["<img", "<link", "<iframe", "http:", "https:", "\u{2028}"] {
            assert!(!page.contains(absent), "{absent}");
        }
        assert!(page.contains("default-src 'none'; script-src 'sha256-"));
        assert!(!page.contains("unsafe-inline") && !page.contains("unsafe-eval"));
    }
}

#[test]
fn large_pages_keep_only_the_first_head_exact() {
    let e = crate::common::many(800);
    let [first, second] = [&e.attention[..801 * 801], &e.attention[801 * 801..]];
    let page = to_html(&e, [0, 1], Lang::En);
    let shown = from_page(&page);
    let near = |a: &[f32], b: &[f32], most: f32| a.iter().zip(b).all(|(a, b)| (a - b).abs() <= most);
    assert!(near(first, &shown.attention[..801 * 801], 0.5 / 255.0 + 1e-6));
    assert_eq!(second, &shown.attention[801 * 801..]);
    assert_ne!(first, &shown.attention[..801 * 801]);
    // Large derived arrays are left out, but rollout, which has one array for each layer, is kept.
    assert!(shown.derived.value_weighted.is_empty() && shown.derived.rollout == e.derived.rollout);
    assert!(page.contains("\"first_layer\":0,\"first_head\":1"));
}

#[test]
fn very_large_pages_keep_queries_and_keys_of_one_head() {
    // Many heads and words: random heads as wide as those of a few words would take a minute.
    let words = ["a", "word", "of", "several", "tokens"].repeat(8);
    let mut e = crate::common::deep_of([8, 12], &words, false);
    let (maps, tokens) = (e.layers * e.heads, e.pieces.len());
    let with_dim = |e: &mut Explanation, dim: usize| {
        let depth = e.depth.as_mut().expect("queries and keys");
        depth.dim = dim;
        depth.queries = (0..maps * tokens * dim).map(|i| i as f32).collect();
        depth.keys = (0..maps * tokens * dim).map(|i| -1.0 - i as f32).collect();
    };
    let most = (1 << 16) / (maps * tokens);
    // One dimension more than a page holds for all heads.
    with_dim(&mut e, most);
    let shown = from_page(&to_html(&e, [1, 2], Lang::En)).depth.expect("queries and keys");
    assert_eq!(Some(&shown), e.depth.as_ref());
    with_dim(&mut e, most + 1);
    let size = tokens * (most + 1);
    for first in [[0, 0], [0, 2], [1, 0], [1, 1]] {
        let page = to_html(&e, first, Lang::En);
        let index = first[0] * e.heads + first[1];
        let depth = e.depth.as_ref().expect("queries and keys");
        for (name, numbers) in [("queries", &depth.queries), ("keys", &depth.keys)] {
            let start = format!("data-name=\"{name}\" ");
            let found: Vec<&str> = page.split(&start).skip(1).collect();
            assert_eq!(found.len(), 1, "{name} of one head");
            let (attributes, rest) = found[0].split_once('>').unwrap();
            let expected = format!("data-layer=\"{}\" data-head=\"{}\" data-form=\"f32\"", first[0], first[1]);
            assert_eq!(attributes, expected);
            let bytes = BASE64_STANDARD.decode(rest.split('<').next().unwrap()).unwrap();
            let found: Vec<f32> = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
            assert_eq!(found, numbers[index * size..][..size], "{name} of {first:?}");
        }
    }
}

#[test]
fn truncated_texts_are_noted() {
    let mut e = crate::common::english();
    assert!(!to_html(&e, [0; 2], Lang::En).contains("\"cut\":{"));
    e.cut = Some(Truncation { read: 15, tokens: 900, is_end: false });
    let page = to_html(&e, [0; 2], Lang::En);
    for lang in [Lang::En, Lang::Ja] {
        let text = render(&e, 0, 0, &with(TerminalOptions::default(), |o| (o.width, o.lang) = (200, lang)));
        let sentence = text.lines().find(|line| line.contains("900")).expect("a sentence").trim().to_owned();
        assert!(sentence.contains("15") && page.contains(&sentence), "{sentence}");
    }
    assert_eq!(from_json(&to_json(&e)).unwrap().cut, e.cut);
}

#[test]
#[should_panic(expected = "needs 1800 numbers; there are 1799")]
fn page_rejects_arrays_of_wrong_size() {
    let mut e = crate::common::english();
    e.attention.pop();
    let _ = to_html(&e, [0; 2], Lang::En);
}

#[test]
fn pages_open_on_the_most_important_head() {
    // Without patching, it is the head whose absence changes the answer most; the network's own answer counts.
    let mut e = crate::common::english();
    let effect = |e: &Explanation, [layer, head]: [usize; 2]| e.head_effect(layer, head).unwrap().abs();
    let first = e.most_important_head();
    for layer in 0..e.layers {
        for head in 0..e.heads {
            assert!(effect(&e, first) >= effect(&e, [layer, head]), "{layer}, {head}");
        }
    }
    assert_eq!(first, [1, 3]);
    // Without any such number, it is the first head of the last layer.
    e.without.clear();
    assert_eq!(e.most_important_head(), [1, 0]);
}

/// Prose quotes labels and tokens with the quotation marks of its language.
#[test]
fn prose_has_typographic_quotes() {
    for (lang, e) in [(Lang::En, crate::common::english()), (Lang::Ja, crate::common::japanese())] {
        let marks = lang.pick("“", "「");
        let text = render(&e, 1, 2, &terminal(100, ColorDepth::None, lang));
        assert!(text.contains(marks) && !text.contains('"'), "{text}");
        let page = to_html(&e, [1, 2], lang);
        let (_, data) = page.split_once("id=\"data\">").expect("data");
        let data: Value = serde_json::from_str(data.split_once("</script>").expect("its end").0).expect("JSON");
        let mut prose = vec![&data["trust_text"], &data["shares"], &data["roles"]];
        prose.extend(data["head_statistics"].as_array().expect("heads").iter().map(|head| &head["text"]));
        for text in prose.iter().flat_map(|both| ["en", "ja"].map(|code| both[code].as_str().unwrap_or_default())) {
            assert!(!text.contains('"'), "{text}");
        }
    }
}
