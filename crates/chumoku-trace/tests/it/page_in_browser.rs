//! The page of an explanation in a real browser: its numbers, its requests, and its appearance.
//!
//! Needs Chromium or Chrome on the path. Without one, each test prints a notice and passes. Screenshots are in
//! `target/screenshots/`.

use chumoku::row::{AsRow, Row};
use std::fs;
use std::path::Path;
use testkit::exhaustive;

use crate::common::alignment;
use crate::common::browser::{between, dom, open};
use chumoku::explain::{AnswerPosition, DecoderPatching, LensAnswer, LogitLens, Patching, ResidualNorms};
use chumoku_view::{EnsembleHeadAblation, Explanation, LabelProbability, Lang, alignment_to_html, to_html};

/// An attribute of the page's root element.
fn root<'a>(dom: &'a str, name: &str) -> Option<&'a str> {
    let start = dom.find("<html")?;
    let tag = &dom[start..start + dom[start..].find('>')?];
    let value = tag.split_once(&format!(" {name}=\""))?.1;
    value.split('"').next()
}

fn assert_quiet(dom: &str) {
    assert_eq!(root(dom, "data-ready"), Some("1"), "the page came to its end");
    assert_eq!(root(dom, "data-requests"), Some("0"), "requests");
    assert_eq!(root(dom, "data-error"), None, "errors");
    assert_eq!(root(dom, "data-violations"), None, "violations of the security policy");
}

/// Returns the table's cells, row by row, without the sums.
fn cells(dom: &str) -> Vec<&str> {
    let body = between(between(dom, "<table id=\"numbers\"", "</table>"), "<tbody>", "</tbody>");
    let cells = body.split("<td").skip(1).filter(|cell| !cell.starts_with(" class=\"sum\""));
    cells.map(|cell| between(cell, ">", "<")).collect()
}

fn table(dom: &str) -> Vec<f64> {
    cells(dom).into_iter().map(|cell| cell.parse().expect("a number")).collect()
}

fn assert_table(dom: &str, e: &Explanation, layer: usize, head: usize) {
    let shown = table(dom);
    let n = e.words.len();
    assert_eq!(shown.len(), n * n);
    for (i, x) in shown.iter().enumerate() {
        let weight = f64::from(e.row(layer, head, i / n)[i % n]);
        assert!((x - weight).abs() <= 0.000_050_001, "row {}, column {}: {x} for {weight}", i / n, i % n);
    }
    let sums = between(dom, "<table id=\"numbers\"", "</table>").matches("class=\"sum\">1.0000<").count();
    assert_eq!(sums, n, "every row sums to one");
}

#[test]
fn table_matches_the_array_and_nothing_is_requested() {
    let e = crate::common::english();
    let page = to_html(&e, [0; 2], Lang::En);
    for (layer, head) in [(0, 0), (1, 2)] {
        let Some(dom) = dom(&page, &format!("layer={}&head={}&query=4&key=7", layer + 1, head + 1)) else {
            return;
        };
        assert_quiet(&dom);
        assert_table(&dom, &e, layer, head);
        // The sentence about the chosen cell shows the exact f32.
        let weight = e.row(layer, head, 3)[6];
        let said = between(&dom, "id=\"readout\">", "</p>");
        let digits = said.trim_end_matches('.').rsplit(' ').next().expect("a number");
        assert_eq!(digits.parse::<f32>().expect("a number"), weight, "{said}");
        assert!(said.contains(&format!("{:.2} %", f64::from(weight) * 100.0)), "{said}");
        // The score of every word.
        for score in &e.attribution.scores[1..] {
            let text = if score.abs() < 0.005 { "0.00".to_owned() } else { format!("{score:+.2}").replace('-', "−") };
            assert!(dom.contains(&format!("class=\"score\">{text}<")), "{text}");
        }
        for p in &e.probabilities {
            assert!(dom.contains(&format!("class=\"whole\">{:.1} %<", p.probability * 100.0)));
        }
    }
}

#[test]
fn texts_of_one_and_three_hundred_words_work() {
    let one = crate::common::many(0);
    let Some(page) = dom(&to_html(&one, [0; 2], Lang::En), "word=1") else {
        return;
    };
    assert_quiet(&page);
    assert_table(&page, &one, 0, 0);
    let many = crate::common::many(299);
    // The head that is shown first is exact in a page of any size.
    let Some(page) = dom(&to_html(&many, [0, 1], Lang::Ja), "layer=1&head=2&table=1") else {
        return;
    };
    assert_quiet(&page);
    assert_table(&page, &many, 0, 1);
}

/// Returns a page without the queries of the second layer's second head.
fn without_queries(page: &str) -> String {
    let start = page.find("data-name=\"queries\" data-layer=\"1\" data-head=\"1\"").expect("an array");
    let start = page[..start].rfind("<script").expect("its element");
    let end = start + page[start..].find("</script>").expect("its end");
    [&page[..start], &page[end + "</script>".len()..]].concat()
}

#[test]
fn two_texts_are_shown_one_below_the_other() {
    let mut e = deep(false);
    e.text = Row::pair("A man sleeps.", "It's a man.");
    let Some(dom) = dom(&without_queries(&to_html(&e, [0; 2], Lang::En)), "view=depth&layer=2&head=2") else {
        return;
    };
    assert_quiet(&dom);
    assert!(between(&dom, "id=\"text\"", "</blockquote>").ends_with(">A man sleeps.\nIt's a man."));
    let command = between(&dom, "id=\"depth-command\"", "</");
    assert!(command.contains("'A man sleeps.' --target 'It") && !command.contains('\u{1f}'), "{command}");
}

#[test]
fn hostile_texts_stay_texts() {
    let e = crate::common::hostile();
    let Some(dom) =
        dom(&to_html(&e, [0; 2], Lang::Ja), "lang=constructor&layer=99&head=x&word=-1&query=2&theme=__proto__")
    else {
        return;
    };
    assert_quiet(&dom);
    assert_table(&dom, &e, 0, 0);
    assert!(!between(&dom, "<title>", "</title>").starts_with("owned"));
    for tag in ["<img", "<svg", "<b>", "<!--"] {
        assert!(!dom.contains(tag), "{tag}");
    }
    assert_eq!(dom.matches("<script").count(), 2 + dom.matches("class=\"map\"").count());
    assert!(dom.contains("&lt;/script&gt;&lt;script&gt;"), "the word is shown as it is");
    for e in [crate::common::scripts(), crate::common::right_to_left(), crate::common::japanese()] {
        let Some(page) = self::dom(&to_html(&e, [0; 2], Lang::En), "lang=ja") else {
            return;
        };
        assert_quiet(&page);
        assert_table(&page, &e, 0, 0);
        assert_eq!(root(&page, "lang"), Some("ja"));
        let flow = if e == crate::common::right_to_left() { "rtl" } else { "ltr" };
        let tiles = between(&page, "id=\"tiles\"", ">");
        assert!(tiles.contains(&format!("dir=\"{flow}\"")), "{tiles}");
    }
}

/// Runs a script in the page, without the security policy, and returns the lines that it pushes to `log`. The script
/// may wait. `press` presses a key, and `said` logs the sentence and the link.
fn run(page: &str, hash: &str, script: &str) -> Option<Vec<String>> {
    let policy = between(page, "<meta http-equiv", ">");
    let page = page.replace(&format!("<meta http-equiv{policy}>"), "");
    let script = format!(
        "<script>addEventListener('load', async () => {{
          const log = [], $ = id => document.getElementById(id), said = () => log.push($('readout').textContent + ' @ ' + location.hash);
          const press = (key, at = document.body) => at.dispatchEvent(new KeyboardEvent('keydown', {{ key, bubbles: true, cancelable: true }}));
          {script}
          const out = document.createElement('pre'); out.id = 'log'; out.textContent = log.join('\\n'); document.body.append(out);
        }});</script></body>"
    );
    let dom = dom(&page.replace("</body>", &script), hash)?;
    assert_eq!(root(&dom, "data-error"), None);
    Some(between(&dom, "<pre id=\"log\">", "</pre>").lines().map(|line| line.replace("&amp;", "&")).collect())
}

#[test]
fn keys_and_clicks_match_the_help() {
    let e = crate::common::english();
    let acts = r#"
      press(']'); press('.'); press('.'); said();
      press('ArrowRight', $('stage')); press('ArrowRight', $('stage')); press('ArrowDown', $('stage')); said();
      press('End', $('stage')); said();
      press('Escape'); said();
      document.querySelectorAll('.tile')[5].click(); said();
      press('Escape'); press('l'); press('t'); said();
      press('['); press(','); press('l');
      const box = $('stage').getBoundingClientRect(), canvas = $('map').getBoundingClientRect();
      $('stage').dispatchEvent(new PointerEvent('pointermove', { clientX: canvas.right - 90, clientY: canvas.bottom - 20, bubbles: true })); said();
      log.push($('tip').hidden + ' ' + $('tip').textContent);
      document.querySelectorAll('.thumb')[3].click();
      $('scale').value = 'one'; $('scale').dispatchEvent(new Event('change')); said();
      log.push($('ticks').textContent);
      press('v'); const second = document.documentElement.dataset.view;
      $('view-lines').focus(); press('ArrowRight', $('view-lines'));
      log.push([document.activeElement.id, document.documentElement.dataset.view, $('view-values').tabIndex, $('view-lines').tabIndex, second].join(' '));
      press('o'); const pressed = $('off').getAttribute('aria-pressed'); log.push(pressed + ' ' + $('off-panel').hidden);
      $('sort').value = 'distance'; $('sort').dispatchEvent(new Event('change'));
      document.querySelector('.thumb[aria-checked="true"]').focus(); press('End', document.activeElement);
      log.push([...document.querySelectorAll('.thumb')].at(-1).querySelector('.tag').textContent + ' ' + new URLSearchParams(location.hash.slice(1)).get('sort'));
    "#;
    let Some(log) = run(&to_html(&e, [0; 2], Lang::En), "", acts) else { return };
    let cell = |line: &str, layer: usize, head: usize, query: usize, key: usize| {
        let weight = e.row(layer, head, query)[key];
        let digits = line.split(" @ ").next().and_then(|s| s.trim_end_matches('.').rsplit(' ').next());
        assert_eq!(digits.and_then(|d| d.parse().ok()), Some(weight), "{line}");
        assert!(line.contains(&format!("(word {})", query + 1)), "{line}");
    };
    assert!(log[0].starts_with("Point at a cell") && log[0].contains("#layer=2&head=3&lang=en"), "{}", log[0]);
    cell(&log[1], 1, 2, 1, 1);
    assert!(log[1].contains("query=2&key=2"), "{}", log[1]);
    cell(&log[2], 1, 2, 1, 14);
    assert!(log[3].starts_with("Point at a cell"), "{}", log[3]);
    assert!(log[4].starts_with("“good” looks most at") && log[4].contains("word=6"), "{}", log[4]);
    assert!(log[5].contains("lang=ja&theme=light") && log[5].contains("マス"), "{}", log[5]);
    cell(&log[6], 0, 1, 14, 14);
    assert!(log[7].starts_with("false ") && log[7].contains('→'), "{}", log[7]);
    assert!(log[8].contains("layer=1&head=4") && log[8].contains("scale=one"), "{}", log[8]);
    assert_eq!(log[9], "0 %50 %100 %");
    // Tabs, the next picture, a head switched off, and orders of heads.
    assert_eq!(log[10], "view-values values 0 -1 lines");
    assert_eq!(log[11], "true false");
    assert_eq!(log[12], "L2·H4 distance");
}

#[test]
fn screenshots() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("screenshots");
    fs::create_dir_all(&folder).expect("a folder for screenshots");
    let story = "Once upon a time there was a little girl who lived in a forest";
    let story = crate::common::deep(&story.split(' ').collect::<Vec<_>>(), true);
    let (english, japanese, alignment) = (crate::common::english(), crate::common::japanese(), alignment());
    let all = [("light", Lang::En), ("dark", Lang::Ja), ("dark", Lang::En), ("light", Lang::Ja)];
    let count = if exhaustive("chumoku-trace") { 4 } else { 2 };
    for (theme, lang) in all.into_iter().take(count) {
        let e = lang_pick(lang, &english, &japanese);
        let pages = [
            ("explain", to_html(e, [0; 2], lang), "layer=2&head=1&query=4&key=3"),
            ("explain-lines", to_html(e, [0; 2], lang), "view=lines&word=4&sort=entropy"),
            ("explain-values", to_html(e, [0; 2], lang), "view=values&off=1&head=4&layer=2"),
            ("explain-depth", to_html(&story, [0; 2], lang), "view=depth&from=8&to=3&order=product"),
            ("explain-next", to_html(&story, [0; 2], lang), "layer=2&word=5"),
            ("alignment", alignment_to_html(&alignment, [0; 2], lang), "step=2&off=1"),
            ("alignment-lines", alignment_to_html(&alignment, [0; 2], lang), "view=lines&source=2"),
        ];
        for (name, page, hash) in pages {
            let file = folder.join(format!("{name}-{theme}-{}.png", lang.code()));
            // A screenshot from an earlier run must not pass for this one's.
            let _ = fs::remove_file(&file);
            let arguments = [format!("--screenshot={}", file.display()), "--window-size=1240,1850".to_owned()];
            if open(&page, &format!("{hash}&theme={theme}"), &arguments).is_none() {
                return;
            }
            let bytes = fs::read(&file).expect("the picture");
            assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 40_000, "{name}: {} bytes", bytes.len());
        }
    }
    eprintln!("screenshots in {}", folder.display());
}

fn lang_pick<'a>(lang: Lang, english: &'a Explanation, japanese: &'a Explanation) -> &'a Explanation {
    if lang == Lang::Ja { japanese } else { english }
}

fn sentence(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}

/// A classifier's explanation with sub-words, or a language model's; the weights follow from queries and keys.
fn deep(causal: bool) -> Explanation {
    crate::common::deep(&sentence("A most unforgettable film , but not a short one"), causal)
}

#[test]
fn derived_pictures_match_their_arrays_and_are_labeled() {
    for causal in [false, true] {
        let e = deep(causal);
        let (n, page) = (e.words.len(), to_html(&e, [0; 2], Lang::En));
        let squares = [("values", &e.derived.value_weighted, 5), ("rollout", &e.derived.rollout, 1)];
        for (view, array, index) in squares {
            let Some(dom) = dom(&page, &format!("view={view}&layer=2&head=3&table=1&query=5&key=2")) else { return };
            assert_quiet(&dom);
            let expected = &array[index * n * n..][..n * n];
            let shown = cells(&dom);
            assert_eq!(shown.len(), n * n);
            for (i, (cell, x)) in shown.iter().zip(expected).enumerate() {
                if causal && i % n > i / n {
                    assert_eq!(*cell, "—", "{view}, row {}, column {}", i / n, i % n);
                } else {
                    let number: f64 = cell.parse().expect("a number");
                    assert!((number - f64::from(*x)).abs() < 0.000_051, "{view}: {cell} for {x}");
                }
            }
            assert!(between(&dom, "id=\"view-note\">", "</p>").starts_with("Derived: "), "it says so");
            let said = between(&dom, "id=\"readout\">", "</p>");
            let digits = said.trim_end_matches('.').rsplit(' ').next().expect("a number");
            assert_eq!(digits.parse::<f32>().expect("a number"), expected[4 * n + 1], "{said}");
        }
        // A view without numbers has no tab, and a link to it shows the heatmap.
        let bare = Explanation { derived: chumoku_view::DerivedAttention::default(), depth: None, ..e };
        let Some(dom) = dom(&to_html(&bare, [0; 2], Lang::En), "view=rollout") else { return };
        assert_quiet(&dom);
        assert_eq!(root(&dom, "data-view"), Some("heatmap"));
        for view in ["depth", "values", "rollout"] {
            let tab = between(&dom, &format!("id=\"view-{view}\""), ">");
            assert!(tab.contains("hidden"), "{tab}");
        }
    }
}

/// Returns the score of a query and a key, and the weight, in f64, from the arrays.
fn score_and_weight(e: &Explanation, [layer, head]: [usize; 2], query: usize, key: usize) -> (f64, f64) {
    let depth = e.depth.as_ref().expect("queries and keys");
    let (tokens, index) = (e.pieces.len(), layer * e.heads + head);
    let vector = |numbers: &[f32], token: usize| numbers[(index * tokens + token) * depth.dim..][..depth.dim].to_vec();
    let slope = depth.slopes.as_ref().map_or(0.0, |slopes| f64::from(slopes[layer][head]));
    let score = |j: usize| {
        let pairs = vector(&depth.queries, query).into_iter().zip(vector(&depth.keys, j));
        depth.scale * pairs.map(|(q, k)| f64::from(q) * f64::from(k)).sum::<f64>() - slope * query.abs_diff(j) as f64
    };
    let seen = if e.causal { query + 1 } else { tokens };
    (score(key), score(key).exp() / (0..seen).map(|j| score(j).exp()).sum::<f64>())
}

/// Returns the numbers of a table, row by row; the first cell of a row is a heading.
fn rows(dom: &str, id: &str, part: &str) -> Vec<Vec<String>> {
    let table = between(dom, &format!("id=\"{id}\""), "</table>");
    let body = between(table, &format!("<{part}>"), &format!("</{part}>"));
    let text =
        |cell: &str| cell.split_once('>').map_or("", |(_, rest)| rest.split('<').next().unwrap_or("")).to_owned();
    body.split("<tr").skip(1).map(|row| row.split("<td").skip(1).map(text).collect()).collect()
}

#[test]
fn score_breakdown_matches_its_displayed_sum() {
    for causal in [false, true] {
        let e = deep(causal);
        let page = to_html(&e, [0; 2], Lang::En);
        for (layer, head, query, key) in [(0, 0, 5, 2), (1, 2, 3, 3), (1, 0, 11, 0)] {
            let hash = format!(
                "view=depth&layer={}&head={}&from={}&to={}&order=product",
                layer + 1,
                head + 1,
                query + 1,
                key + 1
            );
            let Some(dom) = dom(&page, &hash) else { return };
            assert_quiet(&dom);
            let (score, weight) = score_and_weight(&e, [layer, head], query, key);
            let found = |name| root(&dom, name).and_then(|x| x.parse::<f64>().ok()).expect("a number");
            assert!((found("data-score") - score).abs() < 1e-12, "{} for {score}", found("data-score"));
            assert!((found("data-weight") - weight).abs() < 1e-12, "{} for {weight}", found("data-weight"));
            // The displayed sum: products, largest first, their sum, the scale, the slope, the score.
            let number = |text: &String| text.parse::<f64>().unwrap_or_else(|_| panic!("{text} is no number"));
            let dims = rows(&dom, "depth-dims", "tbody");
            let products: Vec<f64> = dims.iter().map(|row| number(&row[2])).collect();
            assert_eq!(products.len(), 4);
            assert!(products.is_sorted_by(|a, b| a.abs() >= b.abs()), "{products:?}");
            for row in &dims {
                assert!((number(&row[0]) * number(&row[1]) - number(&row[2])).abs() < 3e-4, "{row:?}");
            }
            let foot = rows(&dom, "depth-dims", "tfoot");
            assert!((number(&foot[0][0]) - products.iter().sum::<f64>()).abs() < 3e-4);
            assert_eq!(foot.last().expect("the score")[0], format!("{score:.4}"));
            assert_eq!(foot.len(), if causal { 4 } else { 3 });
            // The row of scores and its softmax; masked keys have none.
            let row = rows(&dom, "depth-row", "tbody");
            assert_eq!(row.len(), e.pieces.len());
            for (j, shown) in row.iter().enumerate() {
                if causal && j > query {
                    assert_eq!(shown[0], "—");
                    continue;
                }
                let (score, weight) = score_and_weight(&e, [layer, head], query, j);
                assert!((number(&shown[0]) - score).abs() < 5.1e-5 && (number(&shown[3]) - weight).abs() < 5.1e-5);
            }
        }
        // A head without queries in the file explains how to get them.
        let page = without_queries(&page);
        let Some(dom) = dom(&page, "view=depth&layer=2&head=2") else { return };
        assert_quiet(&dom);
        assert_eq!(root(&dom, "data-score"), None);
        let command = between(&dom, "id=\"depth-command\">", "<");
        assert!(command.starts_with("chumoku explain reviews-model ") && command.contains("--layer 2 --head 2"));
        assert!(between(&dom, "id=\"depth-there\"", ">").contains("hidden"));
    }
}

#[test]
fn heads_follow_the_requested_order() {
    let e = deep(false);
    let page = to_html(&e, [0; 2], Lang::En);
    let statistics = e.head_statistics();
    let change = |index: usize| f64::from((e.without[index].probabilities[0] - e.probabilities[0].probability).abs());
    type Figure<'a> = Box<dyn Fn(usize) -> f64 + 'a>;
    let figures: [(&str, Figure); 8] = [
        ("layer", Box::new(|_| 0.0)),
        ("entropy", Box::new(|i| statistics[i].entropy.into())),
        ("distance", Box::new(|i| statistics[i].distance.into())),
        ("previous", Box::new(|i| statistics[i].previous.into())),
        ("first", Box::new(|i| statistics[i].first.into())),
        ("strongest", Box::new(|i| statistics[i].strongest.into())),
        ("sink", Box::new(|i| statistics[i].sink_share.into())),
        ("effect", Box::new(change)),
    ];
    for (sort, figure) in figures {
        let Some(dom) = dom(&page, &format!("sort={sort}")) else { return };
        assert_quiet(&dom);
        let grid = between(&dom, "id=\"thumbs\"", "<p");
        let shown: Vec<&str> = grid.split("class=\"tag\">").skip(1).map(|t| t.split('<').next().unwrap()).collect();
        let mut order: Vec<usize> = (0..6).collect();
        order.sort_by(|&a, &b| figure(b).total_cmp(&figure(a)));
        let expected: Vec<String> = order.iter().map(|i| format!("L{}·H{}", i / 3 + 1, i % 3 + 1)).collect();
        assert_eq!(shown, expected, "{sort}");
        let figures: Vec<&str> =
            grid.split("class=\"figure\">").skip(1).map(|t| t.split('<').next().unwrap()).collect();
        // The displayed number, and half a unit of its last digit.
        let (unit, half) = match sort {
            "entropy" => (1.0, 0.0051),
            "distance" => (1.0, 0.051),
            "effect" => (100.0, 0.051),
            _ => (100.0, 0.51),
        };
        for (shown, &i) in figures.iter().zip(&order).filter(|_| sort != "layer") {
            let digits: f64 = shown.trim_start_matches(['+', '−']).trim_end_matches(" %").parse().expect("a figure");
            assert!((digits - unit * figure(i)).abs() < half, "{sort}: {shown} for {}", figure(i));
        }
    }
}

/// Masked keys of a language model have no weight in the table or in any picture.
#[test]
fn masked_cells_are_hatched() {
    let e = deep(true);
    let n = e.words.len();
    let page = to_html(&e, [0; 2], Lang::En);
    let Some(dom) = dom(&page, "layer=2&head=2&query=3&key=9&theme=light") else { return };
    assert_quiet(&dom);
    for (i, cell) in cells(&dom).into_iter().enumerate() {
        assert_eq!(cell == "—", i % n > i / n, "row {}, column {}: {cell}", i / n, i % n);
        let weight = f64::from(e.row(1, 1, i / n)[i % n]);
        assert!(cell == "—" || (cell.parse::<f64>().unwrap() - weight).abs() < 5.1e-5);
    }
    assert!(between(&dom, "id=\"readout\">", "</p>").contains("cannot look at it"));
    assert!(between(&dom, "id=\"view-note\">", "</p>").contains("hatched"));
    // The colors of a masked cell and of a visible one: in the large picture, the small one, and the saved one.
    let script = r#"
      const colors = (canvas, x, y, w, h) => { const d = canvas.getContext('2d').getImageData(x, y, w, h).data, all = new Set(); for (let i = 0; i < d.length; i += 4) all.add([...d.slice(i, i + 4)].join()); return all; };
      const none = LUTS.light[0].c.join() + ',255';
      const check = (canvas, g, ratio) => {
        const at = (q, k) => colors(canvas, ...[g.x + g.left + k * g.cell + 2, g.y + g.head + q * g.cell + 2, g.cell - 5, g.cell - 5].map(v => Math.round(v * ratio)));
        for (let q = 0; q < n; q++) for (let k = 0; k < n; k++) { const c = at(q, k); if (k > q ? c.size < 3 || c.has(none) : c.size < 1) return `row ${q}, column ${k}: ${[...c].slice(0, 3)}`; }
        return 'ok';
      };
      log.push(check($('map'), { ...G, x: 0, y: 0 }, devicePixelRatio));
      const wide = DOTS / n, small = canvases[4];
      let bad = '';
      for (let q = 0; q < n; q++) for (let k = 0; k < n; k++) { const c = colors(small, k * wide, q * wide, wide, wide); if (k > q ? c.has(none) || c.size !== 2 : c.size !== 1) bad = `${q}, ${k}: ${[...c]}`; }
      log.push(bad || 'ok');
      await new Promise(done => {
        HTMLCanvasElement.prototype.toBlob = function () { log.push(check(this, { ...geometry(900), x: 20, y: 46 }, 2)); done(); };
        $('save').click();
      });
    "#;
    let Some(log) = run(&page, "layer=2&head=2&theme=light", script) else { return };
    assert_eq!(log, ["ok", "ok", "ok"]);
}

#[test]
fn language_model_pages_name_the_next_token() {
    let e = deep(true);
    for (lang, title) in [(Lang::En, "NEXT TOKEN"), (Lang::Ja, "次のトークン")] {
        let Some(dom) = dom(&to_html(&e, [0; 2], lang), "") else { return };
        assert_quiet(&dom);
        assert_eq!(between(&dom, "data-t=\"prediction\">", "<"), title);
        let next = lang_words(lang, "next token", "次のトークン");
        assert!(between(&dom, "id=\"effect-title\">", "<").contains(next));
        assert!(between(&dom, "id=\"classes\"", "</caption>").contains(lang_words(
            lang,
            "next tokens",
            "次のトークン"
        )));
    }
    let Some(dom) = dom(&to_html(&deep(false), [0; 2], Lang::En), "") else { return };
    assert_eq!(between(&dom, "data-t=\"prediction\">", "<"), "PREDICTION");
}

/// Spaces and line feeds of a language model's tokens and text are shown as signs.
#[test]
fn language_model_pages_show_white_space() {
    let mut e = deep(true);
    e.text = e.text.as_row().text().replacen(' ', "\n", 1).into();
    let tokens = ["▁a", "\n", "\t"];
    for (p, token) in e.probabilities.iter_mut().zip(tokens) {
        p.label = token.to_owned();
    }
    (e.label, e.attribution.class) = (tokens[0].to_owned(), tokens[0].to_owned());
    e.pieces[1].text = "▁A".to_owned();
    let Some(dom) = dom(&to_html(&e, [0; 2], Lang::En), "") else { return };
    assert_quiet(&dom);
    assert_eq!(between(&dom, "id=\"label\">", "<"), "“␣a”");
    let classes = between(&dom, "id=\"classes\"", "</table>");
    assert!(["␣a", "↵", "⇥"].iter().all(|token| classes.contains(&format!(">{token}<"))), "{classes}");
    let tiles = between(&dom, "id=\"tiles\"", "id=\"beyond\"");
    assert!(["A", "↵most", "␣unforgettable"].iter().all(|word| tiles.contains(&format!(">{word}<"))), "{tiles}");
    assert!(!between(&dom, "<main", "</main>").contains('▁'));
}

fn lang_words(lang: Lang, english: &'static str, japanese: &'static str) -> &'static str {
    if lang == Lang::Ja { japanese } else { english }
}

#[test]
fn switched_off_heads_show_before_and_after() {
    let e = deep(false);
    let page = to_html(&e, [0; 2], Lang::En);
    for (index, is_same) in [(1, true), (5, false)] {
        let Some(dom) = dom(&page, &format!("off=1&layer={}&head={}", index / 3 + 1, index % 3 + 1)) else { return };
        assert_quiet(&dom);
        let expected: Vec<Vec<String>> = e
            .probabilities
            .iter()
            .zip(&e.without[index].probabilities)
            .map(|(before, after)| {
                let percent = |x: f32| format!("{:.1} %", 100.0 * x);
                let points = format!("{:+.1}", 100.0 * (f64::from(*after) - f64::from(before.probability)));
                vec![percent(before.probability), percent(*after), points.replace('-', "−")]
            })
            .collect();
        assert_eq!(rows(&dom, "off-table", "tbody"), expected);
        let said = between(&dom, "id=\"off-summary\"", "</p>");
        assert_eq!(said.contains("stays “positive”"), is_same, "{said}");
        assert_eq!(said.contains("changes from “positive” to “negative”"), !is_same, "{said}");
    }
    // An ensemble also shows its own probabilities.
    let mut both = e.clone();
    for without in &mut both.without {
        without.whole = Some(EnsembleHeadAblation { label: "neutral".into(), probabilities: vec![0.25, 0.5, 0.125] });
    }
    let Some(dom) = dom(&to_html(&both, [0; 2], Lang::En), "off=1") else { return };
    assert_quiet(&dom);
    let table = rows(&dom, "off-table", "tbody");
    assert!(table.iter().all(|row| row.len() == 6), "{table:?}");
    assert_eq!(table[0][3..], ["87.1 %", "25.0 %", "−62.1"]);
    assert_eq!(between(&dom, "id=\"off-table\"", "</thead>").matches("<th").count(), 1 + 7);
    let without = Explanation { without: Vec::new(), ..e };
    let Some(dom) = self::dom(&to_html(&without, [0; 2], Lang::En), "off=1&sort=effect") else { return };
    assert_quiet(&dom);
    assert!(between(&dom, "id=\"off\"", ">").contains("hidden"));
    assert!(between(&dom, "id=\"off-panel\"", ">").contains("hidden"));
    assert!(!between(&dom, "id=\"sort\"", "</select>").contains("effect"));
}

#[test]
fn encoder_pages_compare_two_texts() {
    let e = crate::common::near();
    let Some(dom) = dom(&to_html(&e, [0; 2], Lang::En), "off=1&layer=1&head=3&sort=effect") else { return };
    assert_quiet(&dom);
    assert_table(&dom, &e, 0, 2);
    assert_eq!(between(&dom, "id=\"label\">", "<"), "0.8123");
    assert!(dom.contains(&format!("<blockquote id=\"target\" dir=\"auto\">{}<", e.label)));
    for score in &e.attribution.scores[1..] {
        let text = if score.abs() < 0.000_5 { "0.000".to_owned() } else { format!("{score:+.3}").replace('-', "−") };
        assert!(dom.contains(&format!("class=\"score\">{text}<")), "{text}");
    }
    let said = between(&dom, "id=\"off-summary\">", "<");
    assert_eq!(said, "Without this head the cosine similarity goes from 0.8123 to 0.7400 (−0.0723).");
    assert_eq!(rows(&dom, "off-table", "tbody"), [["0.8123", "0.7400", "−0.0723"]]);
    let figures = between(&dom, "id=\"thumbs\"", "id=\"thumb-note\"");
    let first = between(figures, "class=\"figure\">", "<");
    assert_eq!(first, "−0.222");
    // Without another text, no word can move the vector further away.
    let itself = Explanation { label: e.text.as_row().text().to_owned(), similarity: Some(1.0), ..e };
    let Some(dom) = crate::common::browser::dom(&to_html(&itself, [0; 2], Lang::Ja), "") else { return };
    assert_quiet(&dom);
    assert!(between(&dom, "id=\"target\"", ">").contains("hidden"));
    assert!(dom.contains("テキストのベクトル"));
}

#[test]
fn lines_show_weights_above_the_threshold() {
    let e = deep(false);
    let n = e.words.len();
    let page = to_html(&e, [0; 2], Lang::En);
    for least in [1, 20, 50] {
        let Some(dom) = dom(&page, &format!("view=lines&layer=2&head=1&least={least}&table=1")) else { return };
        assert_quiet(&dom);
        let weights: Vec<f32> = (0..n * n).map(|i| e.row(1, 0, i / n)[i % n]).collect();
        let expected: Vec<f32> = weights.into_iter().filter(|&x| x * 100.0 >= least as f32).collect();
        let shown: Vec<f64> =
            rows(&dom, "numbers", "tbody").iter().map(|row| row.last().unwrap().parse().unwrap()).collect();
        assert_eq!(shown.len(), expected.len(), "from {least} %");
        for (x, weight) in shown.iter().zip(&expected) {
            assert!((x - f64::from(*weight)).abs() < 5.1e-5, "{x} for {weight}");
        }
        // All words are visible, and so are all lines.
        let drawn = between(&dom, "data-lines=\"", "\"");
        assert_eq!(drawn.parse::<usize>().unwrap(), expected.len());
    }
    let script = r#"
      const stage = $('lines-stage');
      press('ArrowDown', stage); press('ArrowDown', stage); press('ArrowDown', stage); said();
      press('ArrowRight', stage); press('End', stage); said();
      press('Escape'); said();
      $('least').value = 33; $('least').dispatchEvent(new Event('input')); log.push(location.hash);
    "#;
    let Some(log) = run(&page, "view=lines", script) else { return };
    assert!(log[0].starts_with("“most” looks most at") && log[0].contains("word=3"), "{}", log[0]);
    assert!(log[1].starts_with("“one” is looked at most by") && log[1].contains("side=key"), "{}", log[1]);
    assert!(log[2].starts_with("Point at a word"), "{}", log[2]);
    assert!(log[3].contains("least=33"), "{}", log[3]);
}

/// With many numbers, all heads but the first are stored as bytes, and the page does not wait for hidden ones.
#[test]
fn large_texts_open_quickly() {
    let words: Vec<String> = (0..511).map(|i| format!("word{i}")).collect();
    let mut e = crate::common::example(&words.iter().map(String::as_str).collect::<Vec<_>>(), 2, 3);
    // One weight is large, so an error in its scale shows.
    let row = &mut e.attention[(512 + 7) * 512..][..512];
    row.fill(0.1 / 511.0);
    row[6] = 0.9;
    let page = to_html(&e, [1, 1], Lang::En);
    let Some(dom) = dom(&page, "query=8&key=7") else { return };
    assert_quiet(&dom);
    let drawn: f64 = root(&dom, "data-drawn").and_then(|x| x.parse().ok()).expect("a time");
    eprintln!("512 words, 6 heads, {} MB: drawn after {drawn} ms", page.len() / 1_000_000);
    assert!(drawn < 6000.0, "drawn after {drawn} ms");
    assert_eq!(root(&dom, "data-thumbs"), Some("drawn"), "the small pictures follow");
    // The first head is exact; another says that it is not.
    let weight = e.row(1, 1, 7)[6];
    assert!(between(&dom, "id=\"readout\">", "</p>").ends_with(&format!(" {weight}.")), "the f32");
    let Some(dom) = self::dom(&page, "layer=1&head=2&query=8&key=7") else { return };
    assert_quiet(&dom);
    let said = between(&dom, "id=\"readout\">", "</p>").trim_end_matches('.').rsplit_once("≈ ").expect("a sign").1;
    assert!((said.parse::<f32>().unwrap() - e.row(0, 1, 7)[6]).abs() < 0.0026, "{said}");
    assert_eq!(said.len(), 5, "three digits: {said}");
    // The picture scrolls: only a part is on the canvas, and only visible lines are drawn.
    let script = r#"
      log.push($('map').height < 1200 && $('stage').scrollHeight > 9000);
      const start = performance.now();
      for (let i = 0; i < 50; i++) { $('stage').scrollTop = 150 * i; draw(); }
      log.push((performance.now() - start) / 50);
      choose(0, 1); $('stage').scrollTop = 0; draw();
      const box = $('stage').getBoundingClientRect();
      $('stage').dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + G.left + 6.5 * G.cell, clientY: box.top + G.head + 7.5 * G.cell, bubbles: true }));
      log.push($('tip').textContent);
    "#;
    let Some(log) = run(&page, "", script) else { return };
    assert_eq!(log[0], "true");
    assert!(log[2].starts_with("≈ 90.2 %"), "{}", log[2]);
    let Some(dom) = self::dom(&page, "view=lines&least=2") else { return };
    assert_quiet(&dom);
    assert!(between(&dom, "data-lines=\"", "\"").parse::<usize>().is_ok_and(|lines| lines > 0));
}

#[test]
fn hostile_texts_are_safe_in_every_view() {
    let mut e = crate::common::deep(
        &sentence("</script><script>document.title='owned'</script> \u{202e}abc <!-- __proto__"),
        true,
    );
    e.without[0].label = "<img src=x onerror=document.title='owned'>".to_owned();
    e.model = "m'$(x)".to_owned();
    for (lang, view) in [(Lang::En, "lines"), (Lang::Ja, "depth"), (Lang::En, "values"), (Lang::Ja, "rollout")] {
        let hash =
            format!("view={view}&off=1&table=1&sort=constructor&from=99999&to=-1&order=__proto__&least=0&word=2");
        let Some(dom) = dom(&to_html(&e, [0; 2], lang), &hash) else { return };
        assert_quiet(&dom);
        assert_eq!(root(&dom, "data-view"), Some(view));
        assert!(!dom.contains("<img") && !between(&dom, "<title>", "</title>").contains("owned"));
    }
}

#[test]
fn models_without_attention_show_their_words() {
    let mut e = crate::common::english();
    (e.layers, e.heads) = (0, 0);
    (e.attention, e.derived, e.without) = (Vec::new(), chumoku_view::DerivedAttention::default(), Vec::new());
    let Some(dom) = dom(&to_html(&e, [0; 2], Lang::En), "word=3&view=lines") else { return };
    assert_quiet(&dom);
    assert!(between(&dom, "id=\"attention-card\"", ">").contains("hidden"));
    // Neither the evidence nor the help speaks of pictures that the page does not have.
    e.kind = chumoku_view::ExplanationKind::Ngrams;
    (e.parts, e.pieces) = (None, Vec::new());
    for (lang, words) in [(Lang::En, ["ttention", "layer", "query"]), (Lang::Ja, ["アテンション", "層", "クエリ"])]
    {
        let Some(dom) = self::dom(&to_html(&e, [0; 2], lang), "") else { return };
        assert_quiet(&dom);
        let trust = between(&dom, "id=\"trust-card\"", "</section>");
        let help = between(&dom, "<details id=\"help\"", "</details>");
        for word in words {
            assert!(!trust.contains(word) && !help.contains(word), "{word}: {trust} {help}");
        }
        assert!(between(&dom, "id=\"pieces-fold\"", ">").contains("hidden"));
    }
}

/// On a narrow screen, a picture scrolls inside itself and says so.
#[test]
fn wide_pictures_say_that_they_scroll() {
    let words: Vec<String> = (0..24).map(|i| format!("word{i}")).collect();
    let e = crate::common::deep(&words.iter().map(String::as_str).collect::<Vec<_>>(), true);
    let mut a = alignment();
    let long = chumoku_view::Word { text: "a long word of the source".into(), special: false };
    a.source_words[0].clone_from(&long);
    a.target_words[0].clone_from(&long);
    for (page, draw) in [(to_html(&e, [0; 2], Lang::En), "draw()"), (alignment_to_html(&a, [0; 2], Lang::En), "fit()")]
    {
        let script = format!(
            "for (const wide of [false, true]) {{
               document.querySelector('.lookout').style.gridTemplateColumns = 'minmax(0, 1fr)';
               document.querySelector('main').style.width = wide ? '1180px' : '260px';
               {draw};
               const stage = $('stage'), {{ classList, dataset }} = stage.parentElement;
               log.push([stage.scrollWidth > stage.clientWidth + 1, classList.contains('scrolls'), dataset.scrolls].join());
             }}"
        );
        let Some(log) = run(&page, "", &script) else { return };
        assert_eq!(log, ["true,true,Scroll sideways to see all of it →", "false,false,"]);
    }
}

#[test]
fn alignments_show_every_head_and_effect() {
    let a = alignment();
    for lang in [Lang::En, Lang::Ja] {
        let page = alignment_to_html(&a, [0; 2], lang);
        for (layer, head) in [(0, 0), (1, 2)] {
            let Some(dom) = dom(&page, &format!("layer={}&head={}&table=1", layer + 1, head + 1)) else { return };
            assert_quiet(&dom);
            let shown = table(&dom);
            let expected: Vec<f32> = (0..3).flat_map(|row| a.row(layer, head, row).to_vec()).collect();
            assert_eq!(shown.len(), expected.len());
            for (x, weight) in shown.iter().zip(expected) {
                assert!((x - f64::from(weight)).abs() <= 0.000_050_001, "{x} for {weight}");
            }
            // All heads can be chosen.
            assert_eq!(between(&dom, "id=\"heads\"", "</section>").matches("role=\"radio\"").count(), 6);
        }
        let Some(dom) = dom(&page, "show=effect&table=1") else { return };
        assert_quiet(&dom);
        let expected = a.effects.iter().flatten().map(|x| x.map_or("–".to_owned(), |x| format!("{x:.4}")));
        assert_eq!(cells(&dom), expected.collect::<Vec<_>>());
    }
}

#[test]
fn translations_grow_word_by_word() {
    let a = alignment();
    let page = alignment_to_html(&a, [0; 2], Lang::En);
    let state = |dom: &str| {
        let body = between(between(dom, "<table id=\"map\"", "</table>"), "<tbody>", "</tbody>").to_owned();
        let marks = body.split("<tr").skip(1).map(|row| between(row, "", ">").to_owned());
        marks.map(|class| (class.contains("later"), class.contains("newest"))).collect::<Vec<_>>()
    };
    for step in 1..=3 {
        let Some(dom) = dom(&page, &format!("step={step}")) else { return };
        assert_quiet(&dom);
        let expected: Vec<_> = (0..3).map(|row| (row >= step, step < 3 && row == step - 1)).collect();
        assert_eq!(state(&dom), expected, "step {step}");
        assert_eq!(root(&dom, "data-step"), Some(step.to_string().as_str()));
    }
    let script = r#"
      const step = () => document.documentElement.dataset.step, hash = name => new URLSearchParams(location.hash.slice(1)).get(name);
      press(','); log.push(step() + hash('step') + hash('target'));
      press('.'); log.push(step());
      $('step').value = 1; $('step').dispatchEvent(new Event('input')); log.push(step() + hash('target'));
      press('p'); log.push($('play').getAttribute('aria-pressed'));
      await new Promise(done => setTimeout(done, 2500));
      log.push(step() + $('play').getAttribute('aria-pressed'));
    "#;
    let Some(log) = run(&page, "", script) else { return };
    assert_eq!(log, ["222", "3", "11", "true", "3false"]);
}

/// Equal words are told apart by their positions, the sentence covers nothing, and no zero has a sign.
#[test]
fn equal_words_have_positions() {
    let mut a = alignment();
    for word in &mut a.source_words[..3] {
        word.text = "2".to_owned();
    }
    (a.log_probabilities[0], a.without[0].log_probabilities[0]) = (-1e-7, -2e-7);
    let script = "said(); log.push(getComputedStyle($('readout')).position);";
    let Some(log) = run(&alignment_to_html(&a, [0; 2], Lang::En), "target=1&off=1", script) else { return };
    let said = log[0].split(" @ ").next().unwrap();
    assert!(["“2” (word 1, ", "“2” (word 2, ", "“2” (word 3, "].iter().any(|word| said.contains(word)), "{said}");
    assert!(!said.contains("“2” (1") && !said.contains("“2” (2"), "{said}");
    assert_eq!(log[1], "static");
    let Some(dom) = dom(&alignment_to_html(&a, [0; 2], Lang::Ja), "target=1&off=1") else { return };
    assert!(between(&dom, "id=\"readout\">", "</p>").contains(" 番目、"));
    assert_eq!(rows(&dom, "off-table", "tbody")[0], ["0.0000", "0.0000", "0.0000"]);
    let e = crate::common::example(&["two", "two", "one"], 1, 2);
    let Some(dom) = self::dom(&to_html(&e, [0; 2], Lang::En), "word=4") else { return };
    let said = between(&dom, "id=\"readout\">", "</p>");
    assert!(said.contains("“two” (word 2, ") && said.contains("“two” (word 3, "), "{said}");
}

#[test]
fn alignments_have_orders_lines_and_head_ablation() {
    let a = alignment();
    let page = alignment_to_html(&a, [0; 2], Lang::En);
    type Figure = fn(&chumoku_view::AlignedHead) -> f32;
    let figures: [(&str, Figure); 5] = [
        ("agreement", |r| r.agreement),
        ("mass", |r| r.mass),
        ("entropy", |r| r.entropy),
        ("end", |r| r.end),
        ("strongest", |r| r.strongest),
    ];
    for (sort, figure) in figures {
        let Some(dom) = dom(&page, &format!("sort={sort}")) else { return };
        assert_quiet(&dom);
        let list = between(&dom, "id=\"heads\"", "</section>");
        let shown: Vec<&str> = list.split("<b>").skip(1).map(|name| name.split('<').next().unwrap()).collect();
        let mut order: Vec<_> = a.ranking.iter().collect();
        order.sort_by(|x, y| figure(y).total_cmp(&figure(x)));
        let expected: Vec<String> =
            order.iter().map(|r| format!("layer {}, head {}", r.layer + 1, r.head + 1)).collect();
        assert_eq!(shown, expected, "{sort}");
    }
    // Lines and their table.
    let Some(dom) = dom(&page, "view=lines&least=30&table=1&layer=2&head=3&target=0") else { return };
    assert_quiet(&dom);
    let expected: Vec<f32> = (0..3).flat_map(|row| a.row(1, 2, row).to_vec()).filter(|&x| x >= 0.3).collect();
    let shown: Vec<f64> = rows(&dom, "numbers", "tbody").iter().map(|row| row[0].parse().unwrap()).collect();
    assert_eq!(shown.len(), expected.len());
    assert!(shown.iter().zip(&expected).all(|(x, w)| (x - f64::from(*w)).abs() < 5.1e-5));
    assert_eq!(between(&dom, "data-lines=\"", "\""), expected.len().to_string());
    // Without a head.
    let Some(dom) = self::dom(&page, "off=1&layer=2&head=2") else { return };
    assert_quiet(&dom);
    let w = &a.without[4];
    let expected: Vec<Vec<String>> = a
        .log_probabilities
        .iter()
        .zip(&w.log_probabilities)
        .map(|(before, after)| {
            let signed = |x: String| x.replace('-', "−");
            let change = format!("{:+.4}", f64::from(*after) - f64::from(*before));
            vec![signed(format!("{before:.4}")), signed(format!("{after:.4}")), signed(change)]
        })
        .collect();
    assert_eq!(rows(&dom, "off-table", "tbody"), expected);
    assert!(between(&dom, "id=\"off-summary\"", "</p>").contains("without 4 &lt;/script&gt;"));
}

/// An explanation of two layers with patching, a lens and the path of its tokens.
pub(crate) fn with_inner_steps() -> Explanation {
    let mut e = crate::common::english();
    add_inner_steps(&mut e);
    e
}

/// Adds patching, a lens and the path of its tokens to an explanation with at least six heads and five tokens.
fn add_inner_steps(e: &mut Explanation) {
    let tokens: Vec<String> = e.pieces.iter().map(|piece| piece.text.clone()).collect();
    let (count, layers, heads) = (tokens.len(), e.layers, e.heads);
    let mut other_tokens = tokens.clone();
    other_tokens[4] = "really".into();
    let number = |i: usize| (i as f32 * 0.37).sin() * 0.3;
    let mut residual: Vec<f32> = (0..(layers + 1) * count).map(number).collect();
    residual[4] = 1.0;
    let answer = |label: &str, probability| LabelProbability { label: label.into(), probability };
    e.patching = Some(Patching {
        other: "The film was really good , but I really loved the unforgettable music .".into(),
        tokens,
        other_tokens,
        aligned: (0..count).map(|i| [i, i]).collect(),
        answers: [answer("positive", 0.91), answer("negative", 0.77)],
        toward: "negative".into(),
        away: Some("positive".into()),
        position: None,
        differences: [-2.5, 1.25],
        residual,
        heads: (0..layers * heads).map(|i| if i == 5 { 0.83 } else { number(i) }).collect(),
        feed_forward: (0..layers * count).map(number).collect(),
        decoder: None,
    });
    let depth = |l: usize| {
        let shift = 0.4 * l as f32 / layers as f32;
        let p = [0.3 + shift, 0.5 - shift, 0.2];
        let best = usize::from(p[1] > p[0]);
        vec![LensAnswer {
            label: e.probabilities[best].label.clone(),
            probability: p[best],
            last_layer_probability: p[0],
            probabilities: p.to_vec(),
        }]
    };
    e.lens = Some(LogitLens { tokens: Vec::new(), depths: (0..=layers).map(depth).collect() });
    let lengths = |rows: usize| (0..rows * count).map(|i| 1.0 + number(i).abs()).collect::<Vec<f32>>();
    e.residual_path = Some(ResidualNorms {
        ids: (0..count as u32).collect(),
        scale: 8.0,
        embedding: lengths(1),
        position: lengths(1),
        residual: lengths(layers + 1),
        heads: lengths(layers * heads),
        attention: lengths(layers),
        feed_forward: lengths(layers),
    });
}

/// Returns the texts of the cells of a grid, row by row.
fn grid_cells(dom: &str, id: &str) -> Vec<String> {
    let body = between(between(dom, &format!("id=\"{id}\""), "</table>"), "<tbody>", "</tbody>");
    body.split("<td").skip(1).map(|cell| between(cell, ">", "<").replace('−', "-")).collect()
}

#[test]
fn patching_lens_and_path_show_their_numbers() {
    let e = with_inner_steps();
    let page = to_html(&e, [0; 2], Lang::En);
    let Some(dom) = dom(&page, "word=5") else { return };
    assert_quiet(&dom);
    let patching = e.patching.as_ref().expect("patching");
    for (id, numbers) in
        [("patch-residual", &patching.residual), ("patch-heads", &patching.heads), ("patch-ff", &patching.feed_forward)]
    {
        let shown: Vec<f32> = grid_cells(&dom, id).iter().map(|cell| cell.parse().expect("a number")).collect();
        assert_eq!(shown.len(), numbers.len(), "{id}");
        assert!(shown.iter().zip(numbers).all(|(a, b)| (a - b).abs() <= 0.005_001), "{id}: {shown:?}");
    }
    let said = between(&dom, "id=\"patch-summary\">", "</p>");
    assert!(said.contains("head 2 of layer 2") && said.contains("83 %"), "{said}");
    let lens: Vec<String> = grid_cells(&dom, "lens");
    let expected: Vec<String> = e
        .lens
        .iter()
        .flat_map(|lens| &lens.depths)
        .flatten()
        .flat_map(|answer| answer.probabilities.iter().map(|p| format!("{:.1} %", 100.0 * p)))
        .collect();
    assert_eq!(lens, expected);
    // Every vector of the chosen word's token has a bar: table, position, then heads, attention and feed-forward.
    let path = between(&dom, "id=\"token-path\"", "</ol>");
    assert_eq!(path.matches("class=\"bar\"").count(), 3 + e.layers * (e.heads + 3));
    assert!(path.contains(&format!("token {} of the table, × 8.00", e.residual_path.as_ref().expect("a path").ids[4])));
    // Without a chosen word, it is that of the word with the largest effect.
    let scores = &e.attribution.scores;
    let strongest = (1..scores.len()).reduce(|a, b| if scores[b].abs() > scores[a].abs() { b } else { a }).unwrap();
    let first_piece = e.pieces.iter().find(|piece| piece.word == strongest).unwrap();
    let Some(plain) = self::dom(&page, "") else { return };
    assert!(between(&plain, "id=\"path-title\">", "<").contains(first_piece.text.as_str()));
    // The first screen has the sentence on trust; its evidence is folded.
    assert!(between(&dom, "id=\"trust-summary\">", "</span>").len() > 20);
    assert!(!between(&dom, "<details id=\"trust\"", ">").contains("open"));
    // Without them, no card is shown.
    let Some(dom) = self::dom(&to_html(&crate::common::english(), [0; 2], Lang::En), "") else { return };
    for card in ["patch-card", "lens-card", "path-card"] {
        assert!(between(&dom, &format!("id=\"{card}\""), ">").contains("hidden"), "{card}");
    }
}

/// The page of a translation shows patching of encoder and decoder, and the token that is compared.
#[test]
fn patching_of_a_translation_shows_its_numbers() {
    let mut a = alignment();
    let number = |i: usize| (i as f32 * 0.37).sin() * 0.3;
    let names = |texts: [&str; 4]| texts.map(str::to_owned).to_vec();
    let answer = |label: &str| LabelProbability { label: label.into(), probability: 0.75 };
    let patching = Patching {
        other: "令年</script>年".into(),
        tokens: names(["令", "和", "</script>", "[END]"]),
        other_tokens: names(["令", "年", "</script>", "[END]"]),
        aligned: (0..4).map(|i| [i, i]).collect(),
        answers: [answer("x"), answer("y")],
        toward: "y".into(),
        away: Some("x".into()),
        position: Some(AnswerPosition::Token { index: 1, after: "2026 <b>".into() }),
        differences: [-2.5, -2.45],
        residual: (0..12).map(number).collect(),
        heads: (3..9).map(number).collect(),
        feed_forward: (5..13).map(number).collect(),
        decoder: None,
    };
    a.patching = Some(patching.clone());
    // Without numbers of a decoder, which older files lack, there are no maps of it.
    let Some(older) = dom(&alignment_to_html(&a, [0; 2], Lang::En), "") else { return };
    assert_quiet(&older);
    assert!(
        older.contains("The encoder is patched.") && between(&older, "id=\"patch-decoder\"", ">").contains("hidden")
    );
    let decoder = DecoderPatching {
        tokens: ["[START]", "2026", "<b>"].map(str::to_owned).to_vec(),
        residual: (0..9).map(number).collect(),
        heads: (1..5).map(number).collect(),
        cross_heads: [0.1, 0.2, 0.3, 0.93].to_vec(),
        feed_forward: (2..8).map(number).collect(),
    };
    let patching = Patching { decoder: Some(decoder.clone()), ..patching };
    a.patching = Some(patching.clone());
    for (lang, parts) in [
        (
            Lang::En,
            [
                "Patching: what turns",
                "The tokens after “2026 &lt;b&gt;” are compared",
                "Encoder and decoder are patched.",
                "head 2 of the cross-attention in layer 2: with the other text’s values there",
            ],
        ),
        (
            Lang::Ja,
            [
                "パッチング：",
                "訳文が分かれる「2026 &lt;b&gt;」の次のトークン",
                "置き換えるのはエンコーダーとデコーダーの値です。",
                "第&nbsp;2&nbsp;層のクロスアテンションのヘッド 2です。",
            ],
        ),
    ] {
        let Some(dom) = dom(&alignment_to_html(&a, [0; 2], lang), "") else { return };
        assert_quiet(&dom);
        let card = between(&dom, "id=\"patch-card\"", "</section>");
        for part in parts {
            assert!(card.contains(part), "{part}: {card}");
        }
        assert!(card.matches(" hidden").count() == 0, "the small difference has its warning: {card}");
        for (id, numbers) in [
            ("patch-residual", &patching.residual),
            ("patch-heads", &patching.heads),
            ("patch-ff", &patching.feed_forward),
            ("patch-decoder-residual", &decoder.residual),
            ("patch-decoder-heads", &decoder.heads),
            ("patch-decoder-cross", &decoder.cross_heads),
            ("patch-decoder-ff", &decoder.feed_forward),
        ] {
            let shown: Vec<f32> = grid_cells(&dom, id).iter().map(|cell| cell.parse().expect("a number")).collect();
            assert_eq!(shown.len(), numbers.len(), "{id}");
            assert!(shown.iter().zip(numbers).all(|(a, b)| (a - b).abs() <= 0.005_001), "{id}: {shown:?}");
        }
    }
    // The page opens on the strongest head of cross-attention, and a cell of its map opens another.
    assert_eq!(a.most_important_head(), [1, 1]);
    let script = "
      const cell = (l, h) => document.querySelectorAll('#patch-decoder-cross tbody tr')[l].querySelectorAll('td')[h];
      const now = () => [S.layer + 1, S.head + 1].join();
      log.push(now());
      cell(1, 0).click();
      log.push(now());
      document.querySelector('#patch-heads tbody td').click();
      log.push(now());
    ";
    let Some(log) = run(&alignment_to_html(&a, a.most_important_head(), Lang::En), "", script) else { return };
    assert_eq!(log, ["2,2", "2,1", "2,1"]);
    let Some(dom) = dom(&alignment_to_html(&alignment(), [0; 2], Lang::En), "") else { return };
    assert!(between(&dom, "id=\"patch-card\"", ">").contains("hidden"));
}

/// The page opens on the head that patching names, and a click on a head in the map opens that head.
#[test]
fn the_map_of_patched_heads_leads_to_their_attention() {
    let e = with_inner_steps();
    let heads = &e.patching.as_ref().expect("patching").heads;
    let strongest = (0..heads.len()).reduce(|best, i| if heads[i] > heads[best] { i } else { best }).unwrap();
    let first = [strongest / e.heads, strongest % e.heads];
    assert_eq!(e.most_important_head(), first);
    let name = |[layer, head]: [usize; 2]| format!("layer {}, head {}", layer + 1, head + 1);
    let other = [(first[0] + 1) % e.layers, (first[1] + 1) % e.heads];
    let script = format!(
        "const cells = [...document.querySelectorAll('#patch-heads tbody tr')].map(row => [...row.querySelectorAll('td')]);
         const now = () => log.push($('attention-title').textContent, location.hash);
         now();
         cells[{l}][{h}].click(); now();
         log.push($('attention-card').getBoundingClientRect().top < innerHeight, document.activeElement.getAttribute('aria-checked'));
         cells[{a}][{b}].dispatchEvent(new KeyboardEvent('keydown', {{ key: 'Enter', bubbles: true }})); now();
         log.push(getComputedStyle(cells[0][0]).cursor, getComputedStyle(document.querySelector('#patch-ff tbody td')).cursor === 'pointer');
         document.querySelector('#patch-ff tbody td').click(); now();",
        l = other[0], h = other[1], a = first[0], b = first[1]
    );
    let Some(log) = run(&to_html(&e, e.most_important_head(), Lang::En), "", &script) else { return };
    let link = |[layer, head]: [usize; 2]| format!("layer={}&head={}", layer + 1, head + 1);
    assert!(log[0].contains(&name(first)), "{log:?}");
    assert!(log[2].contains(&name(other)) && log[3].contains(&link(other)), "{log:?}");
    assert_eq!(log[4..6], ["true", "true"], "the attention is in view, and its button has the focus: {log:?}");
    assert!(log[6].contains(&name(first)) && log[7].contains(&link(first)), "{log:?}");
    assert_eq!(log[8..10], ["pointer", "false"], "{log:?}");
    assert!(log[10].contains(&name(first)), "other maps open no head: {log:?}");
}

/// No line of a Japanese page breaks inside 第 1 層.
#[test]
fn ordinals_do_not_break() {
    let e = with_inner_steps();
    let Some(dom) = dom(&to_html(&e, [1, 0], Lang::Ja), "") else { return };
    let shown: String =
        dom.split("<script").map(|part| part.split_once("</script>").map_or(part, |(_, rest)| rest)).collect();
    assert!(
        shown.matches("第&nbsp;2&nbsp;層").count() > 3 && !shown.contains("第 2"),
        "{}",
        shown.matches("第 2").count()
    );
}

/// The heading, the sentence and the warning of patching, and the heading of the lens.
fn inner_texts(e: &Explanation) -> Option<[String; 4]> {
    let dom = dom(&to_html(e, [0; 2], Lang::En), "")?;
    assert_quiet(&dom);
    let ids = ["patch-title", "patch-summary", "patch-warning", "lens-title"];
    Some(ids.map(|id| {
        let element = between(&dom, &format!("id=\"{id}\""), "</");
        if element.contains("hidden") { String::new() } else { element.rsplit('>').next().unwrap_or("").to_owned() }
    }))
}

#[test]
fn patching_of_labels_and_equal_answers_is_worded_for_them() {
    let mut e = with_inner_steps();
    let Some([title, summary, warning, _]) = inner_texts(&e) else { return };
    assert_eq!(title, "Patching: what turns “positive” into “negative”?");
    assert!(summary.contains("the answer moves 83 %") && warning.is_empty(), "{summary} {warning}");

    let patching = e.patching.as_mut().expect("patching");
    patching.answers[1].label = "positive".into();
    let Some([title, summary, ..]) = inner_texts(&e) else { return };
    assert_eq!(title, "Patching: both texts get “positive”");
    assert!(summary.contains("the logit of “negative” minus that of “positive” moves 83 %"), "{summary}");

    e.exclusive = false;
    let patching = e.patching.as_mut().expect("patching");
    (patching.away, patching.toward, patching.differences) = (None, "positive".into(), [0.3, 0.35]);
    for depth in &mut e.lens.as_mut().expect("a lens").depths {
        depth[0].label = "positive".into();
    }
    let Some([title, summary, warning, lens]) = inner_texts(&e) else { return };
    assert_eq!(title, "Patching: what changes the probability of “positive”?");
    assert!(summary.contains("the logit of “positive” moves 83 %"), "{summary}");
    assert!(warning.contains("differ by only 0.050"), "{warning}");
    assert_eq!(lens, "The probability of “positive” after every layer (logit lens)");
}

/// Checks the WCAG contrast of numbers with the color of their cells, over the whole scale.
#[test]
fn colored_cells_are_readable_in_both_themes() {
    let mut e = with_inner_steps();
    let patching = e.patching.as_mut().expect("patching");
    let count = patching.residual.len();
    patching.residual.iter_mut().enumerate().for_each(|(i, x)| *x = 2.0 * i as f32 / (count - 1) as f32 - 1.0);
    for head in [&mut patching.heads, &mut patching.feed_forward] {
        let count = head.len();
        head.iter_mut().enumerate().for_each(|(i, x)| *x = 0.45 + 0.3 * i as f32 / count as f32);
    }
    let page = to_html(&e, [0; 2], Lang::En);
    let script = "
        const pen = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
        const light = (...colors) => { for (const color of colors) { pen.fillStyle = color; pen.fillRect(0, 0, 1, 1); }
          const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].map(x => x / 255).map(x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
          return .2126 * r + .7152 * g + .0722 * b; };
        const all = [...document.querySelectorAll('.grid tbody td')].map(cell => {
          const style = getComputedStyle(cell), card = getComputedStyle(cell.closest('.card')).backgroundColor;
          const [a, b] = [light(card, style.backgroundColor), light(card, style.color)];
          return (Math.max(a, b) + .05) / (Math.min(a, b) + .05); });
        log.push(all.length, Math.min(...all));";
    for theme in ["light", "dark"] {
        let Some(log) = run(&page, &format!("theme={theme}"), script) else { return };
        assert!(log[0].parse::<usize>().unwrap() > 60, "{log:?}");
        assert!(log[1].parse::<f64>().unwrap() >= 4.5, "{theme}: {log:?}");
    }
}

/// Marked tokens and outlined cells have a legend, and a wide table scrolls inside itself.
#[test]
fn patching_has_a_legend_and_stays_inside_its_card() {
    let script = "
      document.querySelector('main').style.width = '360px';
      scrollHints();
      const box = $('patch-residual-wide'), cells = [...document.querySelectorAll('#patch-residual td.strongest')];
      log.push(box.scrollWidth > box.clientWidth && box.classList.contains('scrolls') && box.offsetWidth <= 360);
      log.push(cells.length > 0 && cells.every(cell => getComputedStyle(cell).display === 'table-cell'));
      log.push(document.querySelector('.patch-legend').textContent);
      // Tab reaches one cell of each table, arrow keys the others.
      log.push(document.querySelectorAll('#patch-card td[tabindex=\"0\"]').length);
      const first = document.querySelector('#patch-residual tbody td');
      first.focus();
      press('ArrowDown', first);
      log.push(document.activeElement.parentElement.sectionRowIndex, document.activeElement.tabIndex, first.tabIndex);
    ";
    let Some(log) = run(&to_html(&with_inner_steps(), [0; 2], Lang::En), "", script) else { return };
    assert_eq!(log[..2], ["true", "true"]);
    assert!(
        log[2].contains("differs between the two texts") && log[2].contains("largest number of its row"),
        "{}",
        log[2]
    );
    assert_eq!(log[3..], ["3", "1", "0", "-1"]);
}

#[test]
fn several_heads_share_a_picture_of_lines() {
    let e = crate::common::english();
    let page = to_html(&e, [0; 2], Lang::En);
    let count = |hash: &str| -> Option<usize> {
        let dom = dom(&page, &format!("view=lines&least=10&{hash}"))?;
        assert_quiet(&dom);
        let said = between(&dom, "id=\"line-count\">", "</span>").to_owned();
        Some(said.split(' ').next()?.parse().expect("a number"))
    };
    let lines = |head: usize| {
        (0..e.words.len()).flat_map(|q| e.row(1, head, q)).filter(|&&weight| weight >= 0.1 - 1e-9).count()
    };
    let Some(one) = count("layer=2&head=1") else { return };
    assert_eq!(one, lines(0));
    assert_eq!(count("layer=2&head=1&heads=3,4"), Some(lines(0) + lines(2) + lines(3)));
}

/// A page of an encoder with the shape of MiniLM and 60 words stays below 2 MB.
#[test]
fn pages_of_sixty_words_are_small() {
    let words = ["some", "words", "of", "a", "longer", "sentence"].repeat(10);
    let mut e = crate::common::deep_of([6, 12], &words, false);
    let (dim, tokens) = (32, e.pieces.len());
    let depth = e.depth.as_mut().expect("queries and keys");
    depth.dim = dim;
    depth.queries = (0..72 * tokens * dim).map(|i| (i as f32).sin()).collect();
    depth.keys.clone_from(&depth.queries);
    let without = to_html(&e, [5, 0], Lang::En).len();
    add_inner_steps(&mut e);
    let page = to_html(&e, [5, 0], Lang::En);
    assert!(page.len() < 2_000_000, "{} bytes, {without} without inner steps", page.len());
    for name in ["patching", "lens", "residual_path"] {
        assert!(page.contains(&format!("\"{name}\":{{")), "{name}");
    }
    // Values weighted by length are still there.
    assert_eq!(page.matches("data-name=\"value_weighted\"").count(), 72);
}
