//! Pages of figures in a real browser: nothing is asked for, both languages and themes, and what is shown.
//!
//! Needs Chromium or Chrome on the path; without one each test says so loudly and passes. Screenshots are in
//! `target/screenshots/`.

mod common;

use chumoku::view::{Figure, HeadOrder, Lang, PositionalEncoding, figures_to_html};
use common::browser::{dom, open, visit};
use std::path::Path;

fn page(lang: Lang) -> String {
    let e = common::english();
    let deep = common::deep(&["what", "follows", "each", "word"], true);
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

/// The attribute of the page's root.
fn root<'a>(dom: &'a str, name: &str) -> Option<&'a str> {
    let tag = dom.split_once("<html")?.1.split('>').next()?;
    tag.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

#[test]
fn a_page_of_figures_asks_nothing_and_speaks_the_language_of_its_link() {
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
    // The page's own policy lets no other script run, so the test has one of its own.
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
        for theme in ["light", "dark"] {
            let file = folder.join(format!("figures-{theme}-{}.png", lang.code()));
            let arguments = [format!("--screenshot={}", file.display()), "--window-size=1240,3400".to_owned()];
            if open(&page(lang), &format!("theme={theme}"), &arguments).is_none() {
                return;
            }
            let bytes = std::fs::read(&file).expect("a screenshot");
            assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 40_000, "{} bytes", bytes.len());
        }
    }
}
