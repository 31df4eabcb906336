//! Figures: every number in every form equals the array's, to the digits shown.

use crate::common::figures::{alignment, assert_near, causal, figures};
use crate::common::terminal;
use chumoku_view::{
    AlignmentFigures as _, AttentionLine, ColorDepth, ColorScale, Content, ExplanationFigures as _, Figure, HeadOrder,
    Heatmap, Lang, Paint, PositionalEncoding, SceneItem, TextAnchor, figures_to_html,
};
use unicode_width::UnicodeWidthStr;

fn maps(figure: &Figure) -> Vec<&Heatmap> {
    match &figure.content {
        Content::Heatmap(map) => vec![map],
        Content::HeatmapGrid(sheet) => sheet.maps.iter().collect(),
        _ => Vec::new(),
    }
}

/// Returns the cells of tables, row by row.
fn numbers(figure: &Figure) -> Vec<Option<f64>> {
    let cells = figure.tables().into_iter().flat_map(|table| table.rows).flat_map(|(_, cells)| cells);
    cells.filter(|cell| !cell.is_empty()).map(|cell| cell.parse().ok()).collect()
}

#[test]
fn figures_contain_the_arrays() {
    let e = crate::common::english();
    let n = e.words.len();
    let Content::Heatmap(map) = e.heatmap(1, 2, Lang::En).content else { panic!("a map") };
    for i in 0..n {
        for j in 0..n {
            assert_eq!(map.value(i, j), Some(e.row(1, 2, i)[j]));
        }
    }
    let Content::Heatmap(map) = e.value_weighted(1, 3, Lang::En).unwrap().content else { panic!("a map") };
    assert_eq!(map.value(3, 1), Some(e.derived.value_weighted[((4 + 3) * n + 3) * n + 1]));
    let Content::Heatmap(map) = e.rollout(1, Lang::En).unwrap().content else { panic!("a map") };
    assert_eq!(map.value(3, 1), Some(e.derived.rollout[(n + 3) * n + 1]));
    let a = alignment();
    let Content::Heatmap(map) = a.heatmap(0, 1, Lang::En).content else { panic!("a map") };
    assert_eq!((map.rows.labels.len(), map.columns.labels.len()), (3, 4));
    assert_eq!(map.value(2, 1), Some(a.row(0, 1, 2)[1]));
    // Later keys of a causal model are absent.
    let deep = causal();
    let Content::Heatmap(map) = deep.heatmap(0, 0, Lang::En).content else { panic!("a map") };
    assert_eq!((map.value(1, 2), map.value(2, 1)), (None, Some(deep.row(0, 0, 2)[1])));
}

#[test]
fn tables_contain_every_number() {
    for lang in [Lang::En, Lang::Ja] {
        for figure in figures(lang) {
            let mut found = numbers(&figure).into_iter();
            for map in maps(&figure) {
                for i in 0..map.rows.labels.len() {
                    let row: Vec<Option<f32>> = (0..map.columns.labels.len()).map(|j| map.value(i, j)).collect();
                    for value in &row {
                        match (found.next().expect("a cell"), value) {
                            (Some(shown), Some(value)) => assert_near(shown, f64::from(*value), 0.000_05),
                            (None, None) => {}
                            (shown, value) => panic!("{shown:?} for {value:?} in {}", figure.title),
                        }
                    }
                    if matches!(map.scale, ColorScale::Share(_)) {
                        let sum: f64 = row.iter().flatten().map(|&x| f64::from(x)).sum();
                        assert_near(found.next().flatten().expect("a sum"), sum, 0.000_05);
                    }
                }
            }
            match &figure.content {
                Content::Curves(curves) => {
                    for i in 0..curves.x.labels.len() {
                        for (_, series) in &curves.series {
                            let expected = f64::from(series[i]);
                            assert_near(found.next().flatten().expect("a number"), expected, 0.000_05);
                        }
                    }
                }
                Content::ScoreBreakdown(products) => {
                    for d in 0..products.query.len() {
                        let [q, k] = [products.query[d], products.key[d]].map(f64::from);
                        for expected in [q, k, q * k] {
                            assert_near(found.next().flatten().expect("a number"), expected, 0.000_05);
                        }
                    }
                    let sum: f64 = products.products().iter().sum();
                    let penalty = (products.alibi_penalty != 0.0).then_some(-products.alibi_penalty);
                    let sums = [sum, sum * products.scale].into_iter().chain(penalty).chain([products.score()]);
                    sums.for_each(|x| assert_near(found.next().flatten().expect("a sum"), x, 0.000_05));
                    for seen in &products.row {
                        for expected in [seen.score, seen.exponential, seen.weight] {
                            assert_near(found.next().flatten().expect("a number"), expected, 0.000_05);
                        }
                    }
                }
                Content::Lines(lines) => {
                    // The other cell of a row holds a word.
                    for line in lines.visible_lines() {
                        assert!(found.next().expect("a word").is_none());
                        assert_near(found.next().flatten().expect("a share"), f64::from(line.weight), 0.000_05);
                    }
                }
                Content::ColoredText(effects) => {
                    for effect in effects.words.iter().filter_map(|word| word.effect) {
                        assert_near(found.next().flatten().expect("an effect"), effect.into(), 0.000_05);
                    }
                }
                Content::Panels(panels) => {
                    for (_, curves) in &panels.panels {
                        for i in 0..curves.x.labels.len() {
                            for (_, series) in &curves.series {
                                let expected = f64::from(series[i]);
                                assert_near(found.next().flatten().expect("a number"), expected, 0.000_05);
                            }
                        }
                    }
                }
                Content::Heatmap(_) | Content::HeatmapGrid(_) => {}
                other => panic!("nothing here reads the numbers of {other:?}"),
            }
            assert_eq!(found.next(), None, "{}", figure.title);
        }
    }
}

#[test]
fn json_contains_every_exact_number() {
    for figure in figures(Lang::En) {
        let json = figure.to_json();
        assert_eq!(json["title"], figure.title.as_str());
        let of_map = |json: &serde_json::Value, map: &Heatmap| {
            let shown = json["values"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
            let shown: Vec<Option<f32>> = shown.map(|x| x.as_f64().map(|x| x as f32)).collect();
            assert_eq!(shown, map.values);
        };
        match &figure.content {
            Content::Heatmap(map) => of_map(&json["map"], map),
            Content::HeatmapGrid(sheet) => {
                sheet.maps.iter().enumerate().for_each(|(i, map)| of_map(&json["sheet"][i], map));
            }
            Content::Lines(lines) => {
                for (i, AttentionLine { from, to, weight }) in lines.visible_lines().into_iter().enumerate() {
                    let json = &json["lines"];
                    assert_eq!((&json["from"][i], &json["to"][i]), (&from.into(), &to.into()));
                    assert_eq!(json["weights"][i].as_f64().unwrap() as f32, weight);
                }
            }
            Content::Curves(curves) => {
                for (s, (_, series)) in curves.series.iter().enumerate() {
                    let shown = json["curves"]["series"][s]["values"].as_array().unwrap();
                    assert_eq!(shown.iter().map(|x| x.as_f64().unwrap() as f32).collect::<Vec<_>>(), *series);
                }
            }
            Content::ColoredText(effects) => {
                for (i, word) in effects.words.iter().enumerate() {
                    let shown = &json["effects"]["words"][i];
                    assert_eq!(shown["text"], word.text.as_str());
                    assert_eq!(shown["effect"].as_f64().map(|x| x as f32), word.effect);
                }
            }
            Content::Panels(panels) => {
                for (p, (caption, curves)) in panels.panels.iter().enumerate() {
                    let shown = &json["panels"][p];
                    assert_eq!(shown["caption"], caption.as_str());
                    let values = shown["curves"]["series"][1]["values"].as_array().unwrap();
                    let values: Vec<f32> = values.iter().map(|x| x.as_f64().unwrap() as f32).collect();
                    assert_eq!(values, curves.series[1].1);
                }
            }
            Content::ScoreBreakdown(products) => {
                assert_eq!(json["products"]["score"].as_f64(), Some(products.score()));
                assert_eq!(json["products"]["row"][1]["weight"].as_f64(), Some(products.row[1].weight));
            }
            other => panic!("nothing here reads the numbers of {other:?}"),
        }
    }
}

#[test]
fn score_breakdowns_match_the_head_weights() {
    for causal in [false, true] {
        // Each word is one token, so weights between words are weights between tokens.
        let e = crate::common::deep(&["a", "few", "short", "words"], causal);
        assert_eq!(e.pieces.len(), e.words.len());
        for (layer, head, query, key) in [(0, 0, 3, 1), (1, 2, 4, 4), (1, 0, 2, 0)] {
            let figure = e.products(layer, head, [query, key], Lang::En).unwrap();
            let Content::ScoreBreakdown(products) = figure.content else { panic!("products") };
            for (j, seen) in products.row.iter().enumerate() {
                assert_near(seen.weight, f64::from(e.row(layer, head, query)[j]), 1e-6);
            }
            assert_near(products.row[key].score, products.score(), 1e-12);
            assert_eq!(products.row.len(), if causal { query + 1 } else { 5 });
            assert_eq!(products.alibi_penalty != 0.0, causal && query != key);
        }
        assert_eq!(e.products(0, 0, [1, 2], Lang::En).is_none(), causal);
    }
    assert!(crate::common::english().products(0, 0, [0, 0], Lang::En).is_none());
}

#[test]
fn lines_above_the_threshold_are_sorted_by_weight() {
    let e = crate::common::english();
    let Content::Lines(lines) = e.lines(1, 1, 0.1, Lang::En).content else { panic!("lines") };
    let shown = lines.visible_lines();
    let above = (0..e.words.len()).flat_map(|i| e.row(1, 1, i)).filter(|&&x| x >= 0.1).count();
    assert!(above > 3 && shown.len() == above);
    assert!(shown.windows(2).all(|two| two[0].weight >= two[1].weight));
    assert!(shown.iter().all(|line| e.row(1, 1, line.from)[line.to] == line.weight));
}

#[test]
fn heads_follow_the_requested_order() {
    let e = crate::common::english();
    let statistics = e.head_statistics();
    let order = |order: HeadOrder| -> Vec<usize> {
        let Content::HeatmapGrid(sheet) = e.grid(order, Lang::En).content else { panic!("a sheet") };
        let index = |map: &Heatmap| {
            let name = map.caption.split(' ').next().unwrap();
            let (layer, head) = name[1..].split_once("·H").unwrap();
            (layer.parse::<usize>().unwrap() - 1) * e.heads + head.parse::<usize>().unwrap() - 1
        };
        // Each heatmap belongs to the head in its caption.
        for map in &sheet.maps {
            let (layer, head) = (index(map) / e.heads, index(map) % e.heads);
            assert_eq!(map.value(2, 5), Some(e.row(layer, head, 2)[5]));
        }
        sheet.maps.iter().map(index).collect()
    };
    assert_eq!(order(HeadOrder::Layer), (0..8).collect::<Vec<_>>());
    let falls = |head_order: HeadOrder, figure: &dyn Fn(usize) -> f32| {
        let found = order(head_order);
        assert!(found.windows(2).all(|two| figure(two[0]) >= figure(two[1])), "{head_order:?}: {found:?}");
        assert_ne!(found, (0..8).collect::<Vec<_>>(), "{head_order:?}");
    };
    falls(HeadOrder::Entropy, &|i| -statistics[i].entropy);
    falls(HeadOrder::Distance, &|i| statistics[i].distance);
    falls(HeadOrder::PreviousWord, &|i| statistics[i].previous);
    falls(HeadOrder::FirstWord, &|i| statistics[i].first);
    falls(HeadOrder::LargestWeight, &|i| statistics[i].strongest);
    falls(HeadOrder::Sink, &|i| statistics[i].sink_share);
    falls(HeadOrder::Effect, &|i| (e.without[i].probabilities[0] - e.probabilities[0].probability).abs());
}

#[test]
fn differences_cover_shared_words() {
    let [a, b] = ["it was good", "it was not good"].map(|text| {
        let words: Vec<&str> = text.split(' ').collect();
        crate::common::example(&words, 1, 2)
    });
    let Content::Heatmap(map) = a.difference([0, 1], &b, [0, 0], Lang::En).unwrap().content else { panic!("a map") };
    assert_eq!(map.rows.labels, ["[CLS]", "it", "was", "good"]);
    // “good” is word 3 of one text and word 4 of the other.
    assert_eq!(map.value(3, 2), Some(b.row(0, 0, 4)[2] - a.row(0, 1, 3)[2]));
    let same = a.difference([0, 0], &a, [0, 0], Lang::Ja).unwrap();
    assert!(maps(&same)[0].values.iter().all(|x| *x == Some(0.0)));
}

/// Returns the texts of a scene.
fn texts(figure: &Figure) -> Vec<(String, [f64; 2])> {
    let scene = figure.scene();
    scene
        .items
        .into_iter()
        .filter_map(|item| if let SceneItem::Text(t) = item { Some((t.text, t.position)) } else { None })
        .collect()
}

#[test]
fn cells_show_numbers_and_absent_ones_are_hatched() {
    for figure in figures(Lang::En) {
        let Content::Heatmap(map) = &figure.content else { continue };
        let scene = figure.scene();
        let cells: Vec<Option<([f64; 4], Paint, &str)>> = scene
            .items
            .iter()
            .filter_map(|item| match item {
                SceneItem::Rect { area, fill, says } if !says.is_empty() => Some(Some((*area, *fill, says.as_str()))),
                SceneItem::Hatched(_) => Some(None),
                _ => None,
            })
            .collect();
        assert_eq!(cells.len(), map.values.len(), "{}", figure.title);
        let texts = texts(&figure);
        for (cell, value) in cells.iter().zip(&map.values) {
            let (Some(([x, y, w, h], fill, says)), Some(value)) = (cell, value) else {
                assert!(cell.is_none() && value.is_none());
                continue;
            };
            let number = |text: &str| text.replace('−', "-").trim_end_matches(" %").parse::<f64>();
            let shown = number(says.rsplit([' ', ':']).find(|part| *part != "%").unwrap()).unwrap();
            match map.scale {
                ColorScale::Share(top) => {
                    assert_near(shown, 100.0 * f64::from(*value), 0.005_01);
                    assert_eq!(*fill, Paint::Share(value / top));
                }
                ColorScale::Signed(most) => {
                    assert_near(shown, f64::from(*value), 0.000_05);
                    assert_eq!(*fill, Paint::Signed(value / most));
                }
            }
            if *w < 34.0 {
                continue;
            }
            let inside = texts.iter().find(|(_, at)| at[0] > *x && at[0] < x + w && at[1] > *y && at[1] < y + h);
            let (text, _) = inside.unwrap_or_else(|| panic!("no number in a cell of {}", figure.title));
            match text.as_str() {
                "<.01" => assert!(*value > 0.0 && *value < 0.005),
                text => assert_near(number(text).unwrap(), f64::from(*value), 0.005_01),
            }
        }
    }
}

#[test]
fn nothing_is_drawn_outside_a_scene() {
    for lang in [Lang::En, Lang::Ja] {
        for figure in figures(lang) {
            let scene = figure.scene();
            for item in &scene.items {
                let points = match item {
                    SceneItem::Rect { area: [x, y, w, h], .. } | SceneItem::Hatched([x, y, w, h]) => {
                        vec![[*x, *y], [x + w, y + h]]
                    }
                    SceneItem::Line { ends: [a, b, c, d], .. } => vec![[*a, *b], [*c, *d]],
                    SceneItem::Text(text) => vec![text.position],
                    other => panic!("nothing here knows where {other:?} lies"),
                };
                for [x, y] in points {
                    let inside = (0.0..=scene.width).contains(&x) && (0.0..=scene.height).contains(&y);
                    assert!(inside, "{}: {x} {y} of {} {}", figure.title, scene.width, scene.height);
                }
            }
        }
    }
}

#[test]
fn terminal_heatmaps_show_every_cell_within_their_width() {
    for lang in [Lang::En, Lang::Ja] {
        for figure in figures(lang) {
            for width in [80, 120] {
                let depths = [ColorDepth::None, ColorDepth::Ansi16, ColorDepth::Ansi256, ColorDepth::TrueColor];
                for color in depths {
                    let text = figure.to_text(&terminal(width, color, lang));
                    if color != ColorDepth::None {
                        continue;
                    }
                    assert!(!text.contains('\u{1b}'));
                    for line in text.lines() {
                        assert!(line.width() <= width, "{} columns of {width}: {line:?}", line.width());
                    }
                }
                let Content::Heatmap(map) = &figure.content else { continue };
                let text = figure.to_text(&terminal(width, ColorDepth::None, lang));
                let mut shown: Vec<Vec<Option<i32>>> = vec![Vec::new(); map.rows.labels.len()];
                for line in text.lines() {
                    let Some((label, cells)) = line.rsplit_once('│') else { continue };
                    if label.contains('→') {
                        continue;
                    }
                    let row: usize = label.split_whitespace().next().unwrap().parse().unwrap();
                    let row = row + 1 - usize::from(map.rows.is_numbered);
                    let wide = if matches!(map.scale, ColorScale::Share(_)) { 4 } else { 5 };
                    let signs: Vec<char> = cells.chars().collect();
                    for cell in signs.chunks(wide) {
                        let cell: String = cell.iter().filter(|c| !"░▒▓█ ".contains(**c)).collect();
                        let number = || cell.parse().unwrap_or_else(|_| panic!("{cell:?} in {line:?}"));
                        shown[row - 1].push(if cell == "·" { None } else { Some(number()) });
                    }
                }
                for (i, row) in shown.iter().enumerate() {
                    assert_eq!(row.len(), map.columns.labels.len(), "{}", figure.title);
                    for (j, cell) in row.iter().enumerate() {
                        let expected = map.value(i, j).map(|x| (100.0 * x).round() as i32);
                        assert_eq!(*cell, expected, "{} {i} {j}", figure.title);
                    }
                }
            }
        }
    }
}

#[test]
fn scale_of_many_words_ends_above_the_largest_share() {
    let few = crate::common::english().heatmap(0, 0, Lang::En);
    assert_eq!(maps(&few)[0].scale, ColorScale::Share(1.0));
    let many = crate::common::many(60);
    let figure = many.heatmap(0, 1, Lang::En);
    let most = maps(&figure)[0].values.iter().flatten().fold(0.0f32, |most, &x| most.max(x));
    let ColorScale::Share(top) = maps(&figure)[0].scale else { panic!("shares") };
    assert!(top >= most && top < 1.0, "{top} for {most}");
    let at_the_end =
        figure.scene().items.iter().any(|item| matches!(item, SceneItem::Text(text) if text.text == top.to_string()));
    assert!(at_the_end, "the scale says where it ends");
    // All heatmaps of a grid share one scale.
    let grid = many.grid(HeadOrder::Layer, Lang::En);
    assert!(maps(&grid).windows(2).all(|two| two[0].scale == two[1].scale));
}

#[test]
fn causal_models_attend_only_to_earlier_words() {
    let e = causal();
    let figures =
        [e.heatmap(1, 0, Lang::En), e.value_weighted(0, 1, Lang::En).unwrap(), e.rollout(1, Lang::En).unwrap()];
    for figure in &figures {
        let map = maps(figure)[0];
        for i in 0..e.words.len() {
            for j in 0..e.words.len() {
                assert_eq!(map.value(i, j).is_some(), j <= i, "{i} {j}");
            }
        }
    }
}

#[test]
fn small_heatmaps_show_their_head_and_figure() {
    let e = crate::common::english();
    for (name, order) in HeadOrder::ALL {
        let Content::HeatmapGrid(sheet) = e.grid(order, Lang::En).content else { panic!("a sheet") };
        assert_eq!(sheet.columns, if name == "place" { e.heads } else { 0 });
        let mut roles = Vec::new();
        for map in &sheet.maps {
            let (place, figure) = map.caption.split_once("  ").unwrap();
            let (layer, head) = place[1..].split_once("·H").unwrap();
            let [layer, head] = [layer, head].map(|x| x.parse::<usize>().unwrap() - 1);
            let found = &e.head_statistics()[layer * e.heads + head];
            roles.push(found.role as u8);
            let percent = |x: f32| format!("{:.0} %", 100.0 * x);
            let without = e.without.iter().find(|w| [w.layer, w.head] == [layer, head]).unwrap();
            let expected = match name {
                "place" | "role" => found.role.name(Lang::En).to_owned(),
                "entropy" => format!("{:.2}", found.entropy),
                "distance" => format!("{:.1}", found.distance),
                "previous" => percent(found.previous),
                "first" => percent(found.first),
                "strongest" => percent(found.strongest),
                "sink" => percent(found.sink_share),
                "effect" => {
                    let text = format!("{:+.1}", 100.0 * (without.probabilities[0] - e.probabilities[0].probability));
                    if ["+0.0", "-0.0"].contains(&&*text) { "0.0".into() } else { text }
                }
                other => panic!("{other}"),
            };
            assert_eq!(figure, expected, "{name}");
        }
        let differ = |roles: &[u8]| roles.windows(2).filter(|two| two[0] != two[1]).count();
        let mut sorted = roles.clone();
        sorted.sort_unstable();
        assert!(name != "role" || (roles == sorted && differ(&roles) > 0), "{roles:?}");
    }
}

#[test]
fn differences_name_minuend_and_subtrahend() {
    let [a, b] = ["it was good", "it was not good"].map(|text| {
        let words: Vec<&str> = text.split(' ').collect();
        crate::common::example(&words, 1, 2)
    });
    let figure = a.difference([0, 1], &b, [0, 0], Lang::En).unwrap();
    let (first, second) = figure.subtitle.split_once(" − ").unwrap();
    assert!(
        first.ends_with("head 1 “it was not good”") && second.ends_with("head 2 “it was good”"),
        "{first} {second}"
    );
    assert!(figure.notes.concat().contains("(1)"), "{:?}", figure.notes);
    let depth = causal().products(0, 0, [4, 2], Lang::En).unwrap();
    let [query, key] = [4, 2].map(|i| format!("{} {}", i + 1, causal().pieces[i].text));
    assert_eq!(depth.subtitle, format!("{query} → {key}"));
}

#[test]
fn alignment_rows_are_the_translation() {
    let mut a = alignment();
    (a.layers, a.attention) = (2, (0..48).map(|i| [0.1, 0.2, 0.3, 0.4][(i * 7 + i / 4) % 4]).collect());
    a.ranking = a.rank_heads();
    for lang in [Lang::En, Lang::Ja] {
        let figure = a.heatmap(1, 0, lang);
        let map = maps(&figure)[0];
        assert_eq!(map.rows.labels, ["A", "B", "[END]"]);
        assert_eq!(map.columns.labels, ["a", "b", "c", "[END]"]);
        let names = [&map.rows.name, &map.columns.name].map(|name| name.split([':', '：']).next().unwrap());
        assert_eq!(names, if lang == Lang::En { ["target", "source"] } else { ["訳文", "原文"] });
        assert_eq!(map.value(2, 1), Some(a.row(1, 0, 2)[1]));
    }
    let of = |is_ranked: bool| {
        let Content::HeatmapGrid(sheet) = a.grid(is_ranked, Lang::En).content else { panic!("a sheet") };
        let captions: Vec<String> = sheet.maps.iter().map(|map| map.caption[..6].trim().to_owned()).collect();
        (sheet.columns, captions)
    };
    assert_eq!(of(false), (2, ["L1·H1", "L1·H2", "L2·H1", "L2·H2"].map(String::from).to_vec()));
    let ranked = a.ranking.iter().map(|head| format!("L{}·H{}", head.layer + 1, head.head + 1));
    assert_eq!(of(true), (0, ranked.collect()));
}

#[test]
fn scales_run_from_bottom_to_top() {
    for figure in figures(Lang::En) {
        let Some(map) = maps(&figure).first().copied() else { continue };
        let scene = figure.scene();
        let bar: Vec<([f64; 4], f32)> = scene
            .items
            .iter()
            .filter_map(|item| match item {
                SceneItem::Rect { area, fill: Paint::Share(x) | Paint::Signed(x), says }
                    if says.is_empty() && area[2] == 14.0 =>
                {
                    Some((*area, *x))
                }
                _ => None,
            })
            .collect();
        assert_eq!(bar.len(), 48, "{}", figure.title);
        assert!(bar.windows(2).all(|two| two[0].0[1] < two[1].0[1] && two[0].1 > two[1].1));
        let [x, top] = [bar[0].0[0], bar[0].0[1]];
        let beside = texts(&figure).into_iter().filter(|(_, at)| at[0] == x + 20.0 && at[1] >= top);
        let mut labels: Vec<(f64, f32)> =
            beside.filter_map(|(text, at)| Some((at[1], text.replace('−', "-").parse().ok()?))).collect();
        labels.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(labels.len() == 3 && labels.windows(2).all(|two| two[0].1 > two[1].1), "{labels:?}");
        let least = if matches!(map.scale, ColorScale::Share(_)) { 0.0 } else { -labels[0].1 };
        assert_eq!(labels[2].1, least);
    }
}

#[test]
fn lines_fit_narrow_terminals() {
    let many: Vec<String> = (0..30).map(|i| format!("word{i}")).collect();
    let many = crate::common::example(&many.iter().map(String::as_str).collect::<Vec<_>>(), 1, 2);
    for lang in [Lang::En, Lang::Ja] {
        for figure in figures(lang).into_iter().chain([many.grid(HeadOrder::Layer, lang), many.heatmap(0, 1, lang)]) {
            for width in 40..70 {
                let text = figure.to_text(&terminal(width, ColorDepth::None, lang));
                for line in text.lines() {
                    assert!(line.width() <= width, "{} columns of {width}: {line:?}", line.width());
                }
            }
        }
    }
}

#[test]
fn pooling_is_noted_in_every_form() {
    let says = |notes: &str| notes.contains("the largest of several weights");
    for (words, is_pooled, picture) in [(23, false, false), (24, true, false), (63, true, false), (64, true, true)] {
        let texts: Vec<String> = (0..words).map(|i| format!("w{i}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let e = crate::common::example(&texts, 1, 1);
        let mut a = alignment();
        (a.source_words, a.heads) = (e.words.clone(), 1);
        a.attention = vec![1.0 / e.words.len() as f32; 3 * e.words.len()];
        a.ranking.truncate(1);
        a.ranking[0].head = 0;
        for figure in [e.grid(HeadOrder::Layer, Lang::En), a.grid(true, Lang::En)] {
            assert_eq!(says(&figure.notes.concat()), picture, "{words}");
            let text = figure.to_text(&terminal(80, ColorDepth::None, Lang::En));
            assert_eq!(text.matches("the largest of several weights").count(), usize::from(is_pooled), "{words}");
        }
    }
}

#[test]
fn pooled_heatmaps_keep_their_peaks() {
    let texts: Vec<String> = (0..127).map(|i| format!("w{i}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut e = crate::common::example(&texts, 1, 1);
    e.attention = vec![0.001; 128 * 128];
    // Row 10 and column 101 of 128 are row 5 and column 50 of 64.
    e.attention[10 * 128 + 101] = 0.9;
    let scene = e.grid(HeadOrder::Layer, Lang::En).scene();
    let cells = scene.items.iter().filter_map(|item| match item {
        SceneItem::Rect { area, fill: Paint::Share(x), .. } => Some((*area, *x)),
        _ => None,
    });
    let cells: Vec<([f64; 4], f32)> = cells.take(64 * 64).collect();
    let [x0, y0, side, _] = cells[0].0;
    let peak: Vec<&([f64; 4], f32)> = cells.iter().filter(|(_, x)| *x > 0.5).collect();
    assert_eq!(peak.len(), 1);
    assert_near(peak[0].0[0], x0 + 50.0 * side, 1e-6);
    assert_near(peak[0].0[1], y0 + 5.0 * side, 1e-6);
    // With three rows and 128 columns, only the columns are pooled.
    let mut a = alignment();
    (a.source_words, a.heads) = (e.words.clone(), 1);
    a.attention = vec![0.001; 3 * 128];
    a.attention[2 * 128 + 101] = 0.9;
    a.ranking.truncate(1);
    a.ranking[0].head = 0;
    let scene = a.grid(false, Lang::En).scene();
    let cells = scene.items.iter().filter_map(|item| match item {
        SceneItem::Rect { area, fill: Paint::Share(x), .. } => Some((*area, *x)),
        _ => None,
    });
    let cells: Vec<([f64; 4], f32)> = cells.take(3 * 64).collect();
    let ([x0, y0, side, _], peak) = (cells[0].0, cells.iter().find(|(_, x)| *x > 0.5).unwrap());
    assert_near(peak.0[0], x0 + 50.0 * side, 1e-6);
    assert_near(peak.0[1], y0 + 2.0 * side, 1e-6);
}

#[test]
fn large_breakdowns_still_show_sums_and_chosen_key() {
    let deep = causal();
    let Some(Figure { content: Content::ScoreBreakdown(small), .. }) = deep.products(0, 0, [3, 1], Lang::En) else {
        panic!()
    };
    let mut large = small.clone();
    large.query = (0..64).map(|d| d as f32 / 100.0 - 0.3).collect();
    large.key = (0..64).map(|d| 0.5 - d as f32 / 100.0).collect();
    large.row = (0..60).map(|i| chumoku_view::KeyScore { token: format!("t{i}"), ..small.row[1].clone() }).collect();
    for chosen in [2, 39, 40, 59] {
        large.chosen = chosen;
        let figure = Figure {
            title: "t".into(),
            subtitle: String::new(),
            notes: Vec::new(),
            content: Content::ScoreBreakdown(large.clone()),
            lang: Lang::En,
        };
        let scene = figure.scene();
        let all: Vec<&chumoku_view::SceneText> =
            scene.items.iter().filter_map(|item| if let SceneItem::Text(t) = item { Some(t) } else { None }).collect();
        assert!(all.iter().any(|t| t.text == "score"), "{chosen}");
        let score = format!("{:.4}", large.score());
        assert!(all.iter().any(|t| t.text == score), "{score}");
        assert!(all.iter().any(|t| t.text == "…"));
        // Only the chosen row is highlighted.
        let marked: Vec<&str> = all.iter().filter(|t| t.fill == Paint::Series(0)).map(|t| t.text.as_str()).collect();
        assert_eq!(marked[0], format!("{} t{chosen}", chosen + 1));
        assert_eq!(marked.len(), 4);
        for item in &scene.items {
            if let SceneItem::Rect { area, fill: Paint::Signed(part), says } = item {
                let d: usize = says.split(':').next().unwrap().parse().unwrap();
                let product = large.products()[d - 1];
                assert_eq!(product < 0.0, *part < 0.0);
                // Values below 0 extend to the left of the middle, values above 0 to the right.
                let middle = scene
                    .items
                    .iter()
                    .filter_map(|item| match item {
                        SceneItem::Rect { area, fill: Paint::Signed(x), .. } if *x > 0.0 => Some(area[0]),
                        _ => None,
                    })
                    .next()
                    .unwrap();
                let edge = if product < 0.0 { area[0] + area[2] } else { area[0] };
                assert_near(edge, middle, 1e-4);
            }
        }
    }
}

#[test]
fn thresholds_are_shown_as_given() {
    for (threshold, expected) in [(0.1, "from 10 %"), (0.29, "from 29 %"), (0.57, "from 57 %"), (0.005, "from 0.5 %")] {
        let note = crate::common::english().lines(0, 0, threshold, Lang::En).notes.concat();
        assert!(note.contains(expected), "{note}");
    }
}

#[test]
fn lines_start_at_the_query_word() {
    let a = alignment();
    let figure = a.lines(0, 1, 0.35, Lang::En);
    let Content::Lines(lines) = &figure.content else { panic!("lines") };
    assert_eq!(
        lines.words,
        [["A", "B", "[END]"].map(String::from).to_vec(), ["a", "b", "c", "[END]"].map(String::from).to_vec()]
    );
    let scene = figure.scene();
    let at = |name: &str, is_left: bool| {
        let all = texts(&figure).into_iter().filter(|(text, _)| text == name).map(|(_, at)| at);
        all.min_by(|a, b| if is_left { a[0].total_cmp(&b[0]) } else { b[0].total_cmp(&a[0]) }).unwrap()[1]
    };
    let mut count = 0;
    for item in &scene.items {
        let SceneItem::Line { ends: [x1, y1, x2, y2], says, .. } = item else { continue };
        let (from, to) = says.split_once(" → ").unwrap();
        let from = from.split_once(' ').unwrap().1;
        let to = to.split_once(' ').unwrap().1.split_once(':').unwrap().0;
        assert!(x1 < x2);
        assert_near(*y1, at(from, true) - 4.5, 1e-9);
        assert_near(*y2, at(to, false) - 4.5, 1e-9);
        count += 1;
    }
    assert_eq!(count, lines.visible_lines().len());
    let table = &figure.tables()[0];
    for (AttentionLine { from, to, .. }, (name, cells)) in lines.visible_lines().into_iter().zip(&table.rows) {
        assert_eq!(*name, format!("{} {}", from + 1, lines.words[0][from]));
        assert_eq!(cells[0], format!("{} {}", to + 1, lines.words[1][to]));
    }
}

#[test]
fn curves_and_ticks_match_their_values() {
    let figure = PositionalEncoding::sinusoidal(20, 16).wavelength_figure(Lang::En).unwrap();
    let scene = figure.scene();
    let ends: Vec<[f64; 4]> = scene
        .items
        .iter()
        .filter_map(|item| match item {
            SceneItem::Line { ends, says, .. } if !says.is_empty() => Some(*ends),
            _ => None,
        })
        .collect();
    assert_eq!(ends.len(), 7);
    // Larger values have a smaller y, and each pair repeats after √10 times as many positions: a straight line.
    assert!(ends.iter().all(|[_, y1, _, y2]| y1 > y2));
    assert_near(ends[0][1] - ends[0][3], ends[6][1] - ends[6][3], 1e-4);
    // Ticks are at powers of ten; the first wavelength, 6.28, is between 1 and 10.
    let y = |tick: &str| texts(&figure).into_iter().find(|(text, _)| text == tick).unwrap().1[1] - 4.0;
    assert!(y("1") > ends[0][1] && ends[0][1] > y("10"));
    assert!(y("10000") > ends[6][3] && ends[6][3] > y("100000"));
    // Over a few powers of ten there are ticks between them: for 6.28 to 628, from 5 to 1000.
    let figure = PositionalEncoding::rotary(9, 6, Some(1000.0)).unwrap().wavelength_figure(Lang::En).unwrap();
    let texts: Vec<String> = texts(&figure).into_iter().map(|(text, _)| text).collect();
    for tick in ["5", "10", "20", "50", "100", "200", "500", "1000"] {
        assert!(texts.iter().any(|text| text == tick), "{tick}: {texts:?}");
    }
    assert!(["1", "2", "2000"].iter().all(|tick| !texts.iter().any(|text| text == tick)), "{texts:?}");
}

#[test]
fn figures_page_has_tables_in_both_languages_and_one_script() {
    let [english, japanese] = [Lang::En, Lang::Ja].map(figures);
    let pairs: Vec<[Figure; 2]> = english.into_iter().zip(japanese).map(|(en, ja)| [en, ja]).collect();
    let page = figures_to_html("a <title>", &pairs, Lang::Ja);
    assert!(page.contains("<html lang=\"ja\">") && page.contains("a &lt;title&gt;"));
    assert_eq!(page.matches("<svg").count(), 2 * pairs.len());
    // Before the script runs, and without it, one language is visible.
    let hidden = ["en", "ja"].map(|code| page.matches(&format!("data-lang=\"{code}\" hidden>")).count());
    // The figures, and the heading.
    assert_eq!(hidden, [pairs.len() + 1, 0]);
    assert_eq!(page.matches("</script>").count(), 1);
    assert!(page.contains("default-src 'none'; script-src 'sha256-") && !page.contains("unsafe-inline"));
    // The page's own policy would block inline styles.
    assert!(!page.contains(" style=") && !page.contains("<img"));
    let cells: Vec<&str> = page.split("<td>").skip(1).map(|cell| cell.split("</td>").next().unwrap()).collect();
    let expected: Vec<String> = pairs
        .iter()
        .flatten()
        .flat_map(Figure::tables)
        .flat_map(|table| table.rows)
        .flat_map(|(_, cells)| cells)
        .collect();
    assert_eq!(cells.len(), expected.len());
    let unescaped = |cell: &str| {
        cell.replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&#39;", "'")
            .replace("&amp;", "&")
    };
    for (cell, expected) in cells.iter().zip(&expected) {
        let plain: String = expected.chars().map(visible).collect();
        // A combining mark without a letter has a dotted circle.
        let cell = unescaped(cell);
        let is_mark = plain.chars().all(|c| ('\u{300}'..='\u{36f}').contains(&c)) && !plain.is_empty();
        assert_eq!(cell, if is_mark { format!("\u{25cc}{plain}") } else { plain });
    }
}

/// Replaces characters that would control a terminal, end a line or change the direction by visible signs.
fn visible(c: char) -> char {
    match c {
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap(),
        '\u{7f}' => '\u{2421}',
        '\u{2028}' | '\u{2029}' => '\u{2424}',
        '\u{80}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' | '\u{61c}' | '\u{200e}' | '\u{200f}' => '\u{fffd}',
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c => c,
    }
}

#[test]
fn texts_of_score_breakdowns_do_not_overlap() {
    for lang in [Lang::En, Lang::Ja] {
        for words in [&["a"][..], &["incomprehensibilities", "understand", "日本語の長い単語です"]] {
            let deep = crate::common::deep(words, true);
            let last = deep.pieces.len() - 1;
            let figure = deep.products(1, 2, [last, 0], lang).expect("a key that is seen");
            let scene = figure.scene();
            // The estimated width; wide letters are twice as wide as narrow ones.
            let extents: Vec<([f64; 3], &str)> = scene
                .items
                .iter()
                .filter_map(|item| if let SceneItem::Text(text) = item { Some(text) } else { None })
                .map(|text| {
                    let width = text.text.width() as f64 * text.size * 0.55;
                    let from = text.position[0] - if text.anchor == TextAnchor::End { width } else { 0.0 };
                    ([from, from + width, text.position[1]], &*text.text)
                })
                .collect();
            for (i, ([from, to, y], text)) in extents.iter().enumerate() {
                for ([other, end, line], next) in &extents[i + 1..] {
                    let is_beside = to + 2.0 <= *other || end + 2.0 <= *from || (y - line).abs() > 12.0;
                    assert!(is_beside, "{text} and {next}: {from:.0} to {to:.0}, {other:.0} to {end:.0}");
                }
            }
        }
    }
}

/// A colored word of a scene of effects.
#[derive(Debug)]
struct ColoredWord {
    area: [f64; 4],
    fill: Paint,
    tooltip: String,
}

/// Returns the colored words of a scene of effects.
fn colored(figure: &Figure) -> Vec<ColoredWord> {
    let scene = figure.scene();
    let of = |item: SceneItem| match item {
        SceneItem::Rect { area, fill, says } if !says.is_empty() => Some(ColoredWord { area, fill, tooltip: says }),
        _ => None,
    };
    scene.items.into_iter().filter_map(of).collect()
}

#[test]
fn effects_follow_text_order_with_their_colors() {
    let mut e = crate::common::example(&["The", "film", "was", "not", "good", "."], 1, 1);
    e.text = "The film was not good.".into();
    e.attribution.scores = vec![9.0, 0.0, 0.1, -0.2, -2.0, 1.0, 0.5];
    e.attribution.whole = None;
    let words = colored(&e.effects(Lang::En));
    let tooltips: Vec<&str> = words.iter().map(|word| word.tooltip.as_str()).collect();
    // The special token is in no text, so it has no place.
    assert_eq!(
        tooltips,
        ["1 The: 0.00", "2 film: +0.10", "3 was: −0.20", "4 not: −2.00", "5 good: +1.00", "6 .: +0.50"]
    );
    let levels: Vec<Paint> = words.iter().map(|word| word.fill).collect();
    assert_eq!((levels[3], levels[4]), (Paint::Signed(-1.0), Paint::Signed(0.5)));
    for two in words.windows(2) {
        let [[x, y, w, _], [next, below, ..]] = [two[0].area, two[1].area];
        assert!(below > y || next >= x + w, "{two:?}");
    }
    // A period follows its word directly.
    let gap = |i: usize| words[i].area[0] - words[i - 1].area[0] - words[i - 1].area[2];
    assert!(gap(5) < gap(4), "{} {}", gap(5), gap(4));
    // For an ensemble the effects on the whole are shown.
    e.attribution.whole = Some(vec![0.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0]);
    assert_eq!(colored(&e.effects(Lang::En))[3].tooltip, "4 not: +3.00");
}

#[test]
fn long_texts_are_wrapped_completely() {
    let words: Vec<String> = (0..400).map(|i| format!("word{i}")).collect();
    let read: Vec<&str> = words[..10].iter().map(String::as_str).collect();
    let mut e = crate::common::example(&read, 1, 1);
    e.text = words.join(" ").into();
    let beyond = |i: usize| chumoku_view::WordEffect { text: words[i].clone(), score: i as f32, whole: None };
    e.attribution.beyond = (10..400).map(beyond).collect();
    e.attribution.whole = None;
    let figure = e.effects(Lang::En);
    let shown = colored(&figure);
    assert_eq!(shown.len(), 400);
    assert_eq!(shown[399].fill, Paint::Signed(1.0));
    assert!(shown.iter().all(|word| word.area[0] + word.area[2] <= 760.0));
    // Only the strongest words have numbers below them.
    let numbers = texts(&figure).iter().filter(|(text, _)| text == "+399.00").count();
    assert_eq!(numbers, 2, "at the scale's end, and below the word");
    assert!(!texts(&figure).iter().any(|(text, _)| text == "+50.00"));
}

#[test]
fn curve_panels_share_a_scale_and_show_areas() {
    let figure = crate::common::figures::measured().curves(Lang::En).unwrap();
    let texts: Vec<String> = texts(&figure).into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts.iter().filter(|text| *text == "1.00").count(), 2, "{texts:?}");
    for name in ["25 % leave-one-out", "75 % leave-one-out", "50 % by attention", "38 % at random"] {
        assert!(texts.iter().any(|text| text == name), "{name}: {texts:?}");
    }
    assert!(crate::common::english().curves(Lang::En).is_none());
}
