//! The page of a checkup in a real browser: no requests, both languages, filters and search.
//!
//! Needs Chromium or Chrome on the path. Without one, each test prints a notice and passes. Screenshots are in
//! `target/screenshots/`.

use crate::common::browser::{open, visit};
use chumoku::data::ReadOptions;
use chumoku::doctor::{DoctorInput, DoctorOptions, examine};
use chumoku_view::{Lang, doctor_to_html};
use std::path::Path;

const ROWS: &str = "text,label
A soup that was cold </script><script>document.title='owned'</script>,food
The waiter was rude to all of us.,staff
Stale bread and cold soup again.,food
A rude waiter and a slow cook.,staff
the waiter was rude to ALL of us.,food
The cafÃ© has good bread and hot soup.,food
The waiter was kind.,staff
,food
";

/// A name that is markup, where the system allows it.
const FILE: &str = if cfg!(windows) { "&visits;.csv" } else { "<visits>.csv" };

fn page(lang: Lang) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(FILE);
    std::fs::write(&path, ROWS).expect("a file");
    let given = DoctorInput::read(&path, &ReadOptions::default()).expect("rows");
    let checkup = examine(&given, &DoctorOptions::default(), &|_| ()).expect("a checkup");
    doctor_to_html(&given, &checkup, lang)
}

/// An attribute of the page's root element.
fn root<'a>(dom: &'a str, name: &str) -> Option<&'a str> {
    let tag = dom.split_once("<html")?.1.split('>').next()?;
    tag.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

#[test]
fn findings_page_sends_no_request_and_can_be_filtered() {
    for (lang, hash, shown, words) in [
        (Lang::En, "kind=conflict", "2", ["the same text: line 6", "rows, 2 classes"]),
        (Lang::En, "lang=ja&kind=encoding&theme=dark", "1", ["<ins><bdi>The café has", "8 行、2 クラス"]),
        (Lang::Ja, "find=CAF%C3%83&kind=nothing", "1", ["UTF-8 を Latin-1 として読んだ跡", "1 件中 1 件"]),
        (Lang::En, "kind=empty", "1", ["the row has no text", "1 of 1"]),
    ] {
        let Some(visit) = visit(&page(lang), hash, &["--dump-dom".into()]) else { return };
        assert_eq!(visit.said, "", "the console is silent");
        assert!(visit.requests.is_empty(), "{:?}", visit.requests);
        let dom = visit.out;
        assert_eq!((root(&dom, "data-error"), root(&dom, "data-violations")), (None, None), "{hash}");
        assert_eq!((root(&dom, "data-ready"), root(&dom, "data-shown")), (Some("1"), Some(shown)), "{hash}");
        let body = dom.split_once("id=\"doctor\"").expect("the list").1;
        let list = body.split_once("doctor-data").expect("its end").0;
        words.iter().for_each(|word| assert!(list.contains(word), "{hash}: {word}: {list}"));
        let title = dom.split_once("<title>").expect("a title").1;
        assert!(!title.starts_with("owned"), "{}", &title[..40]);
    }
}

#[test]
fn buttons_and_search_field_filter_the_list() {
    // The page's own policy blocks other scripts, so the test adds one of its own after removing the policy.
    let drive = "<script>addEventListener('load', () => { const box = document.getElementById('doctor'); \
                 [...box.querySelectorAll('.bar button')].find(b => b.textContent.startsWith('equal texts')).click(); \
                 const field = box.querySelector('input'); field.value = 'us.'; field.dispatchEvent(new Event('input')); \
                 field.dispatchEvent(new KeyboardEvent('keydown', { key: 'l', bubbles: true })); })</script></body>";
    let page = page(Lang::En);
    let (start, rest) = page.split_once("<meta http-equiv=").expect("a policy");
    let free = format!("{start}{}", rest.split_once('>').expect("the end of the tag").1).replace("</body>", drive);
    let Some(dom) = open(&free, "", &["--dump-dom".into()]) else { return };
    assert_eq!((root(&dom, "lang"), root(&dom, "data-shown"), root(&dom, "data-error")), (Some("en"), Some("2"), None));
}

#[test]
fn screenshots_of_findings() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("screenshots");
    std::fs::create_dir_all(&folder).expect("a folder for pictures");
    for (lang, theme) in [(Lang::En, "light"), (Lang::Ja, "dark")] {
        let file = folder.join(format!("doctor-{theme}-{}.png", lang.code()));
        let arguments = [format!("--screenshot={}", file.display()), "--window-size=1240,1400".to_owned()];
        if open(&page(lang), &format!("theme={theme}"), &arguments).is_none() {
            return;
        }
        let bytes = std::fs::read(&file).expect("a screenshot");
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 20_000, "{} bytes", bytes.len());
    }
}
