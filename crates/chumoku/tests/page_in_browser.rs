//! The page in a real browser: the numbers it shows, what it asks of the network, and how it looks.
//!
//! Needs Chromium or Chrome on the path; without one each test says so loudly and passes. Screenshots are in
//! `target/screenshots/`.

mod common;

use std::fs;
use std::path::Path;

use chumoku::view::{Explanation, Lang, alignment_to_html, to_html};
use common::alignment;
use common::browser::{between, dom, open};

/// The value of an attribute of the page's root.
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

/// The table's cells, row by row, without the sums.
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
fn table_holds_the_array_and_nothing_is_requested() {
    let e = common::english();
    let page = to_html(&e, Lang::En);
    for (layer, head) in [(0, 0), (1, 2)] {
        let Some(dom) = dom(&page, &format!("layer={}&head={}&query=4&key=7", layer + 1, head + 1)) else {
            return;
        };
        assert_quiet(&dom);
        assert_table(&dom, &e, layer, head);
        // The sentence on the chosen cell says the very f32.
        let weight = e.row(layer, head, 3)[6];
        let said = between(&dom, "id=\"readout\">", "</p>");
        let digits = said.trim_end_matches('.').rsplit(' ').next().expect("a number");
        assert_eq!(digits.parse::<f32>().expect("a number"), weight, "{said}");
        assert!(said.contains(&format!("{:.2} %", f64::from(weight) * 100.0)), "{said}");
        // Every word's score.
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
fn one_word_and_three_hundred() {
    let one = common::many(0);
    let Some(page) = dom(&to_html(&one, Lang::En), "word=1") else {
        return;
    };
    assert_quiet(&page);
    assert_table(&page, &one, 0, 0);
    let many = common::many(299);
    let Some(page) = dom(&to_html(&many, Lang::Ja), "layer=1&head=2&table=1") else {
        return;
    };
    assert_quiet(&page);
    assert_table(&page, &many, 0, 1);
}

#[test]
fn hostile_texts_stay_texts() {
    let e = common::hostile();
    let Some(dom) = dom(&to_html(&e, Lang::Ja), "lang=constructor&layer=99&head=x&word=-1&query=2&theme=__proto__")
    else {
        return;
    };
    assert_quiet(&dom);
    assert_table(&dom, &e, 0, 0);
    assert!(!between(&dom, "<title>", "</title>").starts_with("owned"));
    for tag in ["<img", "<svg", "<b>", "<!--"] {
        assert!(!dom.contains(tag), "{tag}");
    }
    assert_eq!(dom.matches("<script").count(), 2);
    assert!(dom.contains("&lt;/script&gt;&lt;script&gt;"), "the word is shown as it is");
    for e in [common::scripts(), common::right_to_left(), common::japanese()] {
        let Some(page) = self::dom(&to_html(&e, Lang::En), "lang=ja") else {
            return;
        };
        assert_quiet(&page);
        assert_table(&page, &e, 0, 0);
        assert_eq!(root(&page, "lang"), Some("ja"));
        let flow = if e == common::right_to_left() { "rtl" } else { "ltr" };
        let tiles = between(&page, "id=\"tiles\"", ">");
        assert!(tiles.contains(&format!("dir=\"{flow}\"")), "{tiles}");
    }
}

/// Keys and clicks, by a script that the test adds; for that it has to take the security policy out.
#[test]
fn keys_and_clicks_do_what_the_help_says() {
    let e = common::english();
    let page = to_html(&e, Lang::En);
    let policy = between(&page, "<meta http-equiv", ">").to_owned();
    let page = page.replace(&format!("<meta http-equiv{policy}>"), "");
    let acts = r#"<script>addEventListener('load', () => {
      const log = [], $ = id => document.getElementById(id), said = () => log.push($('readout').textContent + ' @ ' + location.hash);
      const press = (key, at = document.body) => at.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
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
      document.title = 'done';
      const out = document.createElement('pre'); out.id = 'log'; out.textContent = log.join('\n'); document.body.append(out);
    });</script></body>"#;
    let Some(dom) = dom(&page.replace("</body>", acts), "") else {
        return;
    };
    assert_eq!(root(&dom, "data-error"), None);
    let log: Vec<String> =
        between(&dom, "<pre id=\"log\">", "</pre>").lines().map(|l| l.replace("&amp;", "&")).collect();
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
    assert_table(&dom, &e, 0, 3);
}

#[test]
fn screenshots() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("screenshots");
    fs::create_dir_all(&folder).expect("a folder for screenshots");
    for theme in ["light", "dark"] {
        for (lang, e) in [(Lang::En, common::english()), (Lang::Ja, common::japanese())] {
            let file = folder.join(format!("explain-{theme}-{}.png", lang.code()));
            // One from an earlier run must not pass for this one's.
            let _ = fs::remove_file(&file);
            let arguments = [format!("--screenshot={}", file.display()), "--window-size=1240,1850".to_owned()];
            let hash = format!("layer=2&head=1&theme={theme}&query=4&key=3");
            if open(&to_html(&e, lang), &hash, &arguments).is_none() {
                return;
            }
            let bytes = fs::read(&file).expect("the picture");
            assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 40_000, "{} bytes", bytes.len());
        }
    }
    eprintln!("screenshots in {}", folder.display());
}

#[test]
fn an_alignment_shows_every_head_and_effect() {
    let a = alignment();
    for lang in [Lang::En, Lang::Ja] {
        let page = alignment_to_html(&a, lang);
        for (layer, head) in [(0, 0), (1, 2)] {
            let Some(dom) = dom(&page, &format!("layer={}&head={}&table=1", layer + 1, head + 1)) else { return };
            assert_quiet(&dom);
            let shown = table(&dom);
            let expected: Vec<f32> = (0..3).flat_map(|row| a.row(layer, head, row).to_vec()).collect();
            assert_eq!(shown.len(), expected.len());
            for (x, weight) in shown.iter().zip(expected) {
                assert!((x - f64::from(weight)).abs() <= 0.000_050_001, "{x} for {weight}");
            }
            // All heads are there to be chosen.
            assert_eq!(between(&dom, "id=\"heads\"", "</section>").matches("role=\"radio\"").count(), 6);
        }
        let Some(dom) = dom(&page, "show=effect&table=1") else { return };
        assert_quiet(&dom);
        let expected = a.effects.iter().flatten().map(|x| x.map_or("–".to_owned(), |x| format!("{x:.4}")));
        assert_eq!(cells(&dom), expected.collect::<Vec<_>>());
    }
}
