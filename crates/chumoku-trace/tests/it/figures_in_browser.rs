//! Pages of figures in a real browser: no requests, both languages and themes, and the displayed numbers.
//!
//! Needs Chromium or Chrome on the path. Without one, each test prints a notice and passes. Screenshots are in
//! `target/screenshots/`.

use crate::common::browser::{dom, open, visit};
use chumoku_view::{
    AttentionFrame, ExplanationFigures as _, Figure, Film, HeadOrder, Lang, PositionalEncoding, figures_to_html,
    film_to_html,
};
use std::path::Path;
use testkit::exhaustive;

fn page(lang: Lang) -> String {
    let e = crate::common::english();
    let deep = crate::common::deep(&["what", "follows", "each", "word"], true);
    let both = |figure: &dyn Fn(Lang) -> Figure| [Lang::En, Lang::Ja].map(figure);
    let figures = [
        both(&|lang| deep.heatmap(1, 0, lang)),
        both(&|lang| e.lines(0, 1, 0.1, lang)),
        both(&|lang| e.grid(HeadOrder::Entropy, lang)),
        both(&|lang| deep.products(0, 1, [3, 1], lang).expect("a key that is seen")),
        both(&|lang| PositionalEncoding::sinusoidal(24, 16).curves(lang)),
        both(&|lang| PositionalEncoding::sinusoidal(24, 16).similarity(lang)),
    ];
    figures_to_html("</script><script>document.title='owned'</script>", &figures, lang)
}

/// An attribute of the page's root element.
fn root<'a>(dom: &'a str, name: &str) -> Option<&'a str> {
    let tag = dom.split_once("<html")?.1.split('>').next()?;
    tag.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

#[test]
fn figures_page_sends_no_request_and_follows_its_link() {
    for (lang, hash, shown, theme) in [
        (Lang::En, "", "en", "light"),
        (Lang::En, "lang=ja&theme=dark", "ja", "dark"),
        (Lang::Ja, "theme=constructor&lang=__proto__", "ja", "light"),
    ] {
        let Some(visit) = visit(&page(lang), hash, &["--dump-dom".into()]) else { return };
        assert_eq!(visit.said, "", "the console is silent");
        assert!(visit.requests.is_empty(), "{:?}", visit.requests);
        let dom = visit.out;
        assert_eq!(root(&dom, "data-ready"), Some("1"));
        assert_eq!(root(&dom, "data-requests"), Some("0"));
        assert_eq!((root(&dom, "data-error"), root(&dom, "data-violations")), (None, None));
        assert_eq!((root(&dom, "lang"), root(&dom, "data-theme")), (Some(shown), Some(theme)));
        let figures: Vec<&str> =
            dom.split("<div class=\"figure\"").skip(1).map(|f| f.split('>').next().unwrap()).collect();
        assert_eq!(figures.len(), 12);
        for figure in figures {
            let is_shown = figure.contains(&format!("data-lang=\"{shown}\""));
            assert_eq!(figure.contains("hidden"), !is_shown, "{figure}");
        }
        let title = dom.split_once("<title>").unwrap().1;
        assert!(title.starts_with("&lt;/script&gt;") || title.starts_with("</script>"), "{}", &title[..40]);
    }
}

#[test]
fn keys_switch_language_and_theme() {
    // The page's own policy blocks other scripts, so the test adds one of its own after removing the policy.
    let press = "<script>addEventListener('load', () => { for (const key of ['l', 't', 't']) dispatchEvent(new KeyboardEvent('keydown', { key })); })</script></body>";
    let policy = |page: String| match page.split_once("<meta http-equiv=") {
        Some((start, rest)) => format!("{start}{}", rest.split_once('>').expect("the end of the tag").1),
        None => page,
    };
    let page = policy(page(Lang::En)).replace("</body>", press);
    let Some(dom) = dom(&page, "") else { return };
    assert_eq!((root(&dom, "lang"), root(&dom, "data-theme")), (Some("ja"), Some("dark")));
}

#[test]
fn screenshots_of_figures() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("screenshots");
    std::fs::create_dir_all(&folder).expect("a folder for pictures");
    for lang in [Lang::En, Lang::Ja] {
        let is_in = |theme: &&str| exhaustive("chumoku-trace") || (lang == Lang::Ja) == (*theme == "dark");
        for theme in ["light", "dark"].into_iter().filter(is_in) {
            let file = folder.join(format!("figures-{theme}-{}.png", lang.code()));
            let arguments = [format!("--screenshot={}", file.display()), "--window-size=1240,3400".to_owned()];
            if open(&page(lang), &format!("theme={theme}"), &arguments).is_none() {
                return;
            }
            let bytes = std::fs::read(&file).expect("a screenshot");
            assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 40_000, "{} bytes", bytes.len());
            let file = folder.join(format!("film-{theme}-{}.png", lang.code()));
            let arguments = [format!("--screenshot={}", file.display()), "--window-size=1240,1200".to_owned()];
            open(&film_to_html(&film(false), 0, 1, lang), &format!("frame=3&theme={theme}"), &arguments);
            let bytes = std::fs::read(&file).expect("a screenshot");
            assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 20_000, "{} bytes", bytes.len());
        }
    }
}

/// Returns the weights of a film, each different from all others.
fn weight(frame: usize, head: usize, query: usize, key: usize) -> f32 {
    0.01 + 0.2 * frame as f32 + 0.1 * head as f32 + 0.03 * query as f32 + 0.007 * key as f32
}

fn film(causal: bool) -> Film {
    let words = [["The", "<room>", "the", "end"], ["[CLS]", "部屋", "the", "end"]];
    let words = words.map(|words| words.map(String::from).to_vec());
    let frame = |index: usize| AttentionFrame {
        step: 40 * index as u64,
        epoch: index as u64,
        words: words.clone(),
        layers: 1,
        heads: 2,
        causal,
        attention: (0..32).map(|at| weight(index, at / 16, at / 4 % 4, at % 4)).collect(),
    };
    Film { model: "a </script> model".into(), frames: (0..4).map(frame).collect() }
}

/// Returns attributes and texts of the elements of one kind in the player.
fn elements<'a>(dom: &'a str, start: &str, end: &str) -> Vec<&'a str> {
    let player = dom.split_once("id=\"film\"").expect("a player").1.split_once("</section>").expect("its end").0;
    player.split(start).skip(1).map(|part| part.split(end).next().unwrap()).collect()
}

#[test]
fn films_show_every_weight_of_a_frame() {
    for (lang, causal) in [(Lang::En, false), (Lang::Ja, true)] {
        let page = film_to_html(&film(causal), 0, 0, lang);
        let Some(visit) = visit(&page, "head=2&frame=3", &["--dump-dom".into()]) else { return };
        assert_eq!(visit.said, "", "the console is silent");
        assert!(visit.requests.is_empty(), "{:?}", visit.requests);
        let dom = visit.out;
        assert_eq!((root(&dom, "data-error"), root(&dom, "data-violations")), (None, None));
        assert_eq!((root(&dom, "data-frame"), root(&dom, "data-playing")), (Some("3"), Some("0")));
        assert!(dom.contains(
            ["frame 3 of 4: epoch 2, step 80", "4 コマ中 3 コマ目：エポック 2、ステップ 80"][usize::from(causal)]
        ));
        let axis = |name: &str| -> Vec<String> {
            let texts = elements(&dom, &format!("data-axis=\"{name}\">"), "<");
            texts.into_iter().map(String::from).collect()
        };
        assert_eq!(axis("queries"), ["1 The", "2 &lt;room&gt;", "3 the", "4 end"]);
        assert_eq!(axis("keys"), ["1 [CLS]", "2 部屋", "3 the", "4 end"]);
        let titles: Vec<&str> = elements(&dom, "<title>", "</title>");
        assert_eq!(titles.len(), 16);
        for (at, title) in titles.iter().enumerate() {
            let (i, j) = (at / 4, at % 4);
            if causal && j > i {
                assert_eq!(*title, "", "what cannot be seen has no number");
                continue;
            }
            let shown: f64 = title.rsplit([':', '：']).next().unwrap().trim().trim_end_matches(" %").parse().unwrap();
            let expected = 100.0 * f64::from(weight(2, 1, i, j));
            assert!((shown - expected).abs() < 0.005_1, "{title} for {expected}");
            assert!(title.contains(&format!("{} ", i + 1)) && title.contains(&format!("→ {} ", j + 1)), "{title}");
        }
        // Larger weights are darker.
        let shades = elements(&dom, "class=\"s", "\"");
        let expected = (64.0 * weight(2, 1, 3, 3)).round().to_string();
        assert!(shades.contains(&&*expected), "{shades:?}");
    }
}

#[test]
fn films_play_unless_reduced_motion_is_preferred() {
    let page = film_to_html(&film(false), 0, 1, Lang::En);
    let Some(dom) = open(&page, "frame=1&play=1", &["--dump-dom".into()]) else { return };
    assert_eq!((root(&dom, "data-seen"), root(&dom, "data-playing")), (Some("1,2,3,4"), Some("0")));
    // It plays on request, and not before.
    let dom = open(&page, "frame=2", &["--dump-dom".into()]).unwrap();
    assert_eq!(root(&dom, "data-seen"), Some("2"));
    let still = ["--dump-dom", "--force-prefers-reduced-motion"].map(String::from);
    let dom = open(&page, "frame=1&play=1", &still).unwrap();
    assert_eq!(root(&dom, "data-seen"), Some("1"));
}

#[test]
fn keys_button_and_slider_control_a_film() {
    let page = film_to_html(&film(false), 0, 1, Lang::En);
    // A driver script, which the page's own policy would block.
    let drive = |script: &str| {
        let policy = page.split("<meta http-equiv").nth(1).unwrap().split('>').next().unwrap();
        let free = page.replace(&format!("<meta http-equiv{policy}>"), "");
        assert_ne!(free, page);
        let keys = "const key = (key, at = document.body) => at.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true })); \
                    const $ = at => document.querySelector(at);";
        let free = free.replace("</body>", &format!("<script>{keys} {script}</script></body>"));
        let dom = open(&free, "frame=1", &["--dump-dom".into()])?;
        assert_eq!(root(&dom, "data-error"), None);
        let of = |name: &str| root(&dom, name).unwrap_or_default().to_owned();
        Some([of("data-seen"), of("data-playing")])
    };
    let cases = [
        ("key('ArrowRight'); key('End'); key('ArrowLeft'); key('Home'); key('ArrowLeft')", "1,2,4,3,1", "0"),
        // Plays from the first frame to the end; a second key press stops it.
        ("key(' ')", "1,2,3,4", "0"),
        ("key(' '); setTimeout(() => key(' '), 1000)", "1,2", "0"),
        ("$('#film .play').click()", "1,2,3,4", "0"),
        ("$('#film-frame').value = 3; $('#film-frame').dispatchEvent(new Event('input'))", "1,3", "0"),
        // A slider and a button keep their own keys.
        ("key('End', $('#film-frame')); key(' ', $('#film .play'))", "1", "0"),
    ];
    for (script, seen, playing) in cases {
        let Some(found) = drive(script) else { return };
        assert_eq!(found, [seen, playing], "{script}");
    }
}
