//! The page of a trace in a real browser: its numbers, requests and printout, its appearance, and keyboard use.
//!
//! Needs Chromium or Chrome on the path. Without one, each test prints a notice and passes. Screenshots are in
//! `target/screenshots/`.

use crate::common::browser::{between, open, visit, without_policy};
use crate::common::layers::{additive, layers, stepped};
use crate::common::traces::{SHOWN, figures, number, odd, one_token, wide};
use crate::common::with;
use chumoku_trace::{Trace, TraceDetail, TraceOptions, WorkedExample, builtin};
use chumoku_view::Lang;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use testkit::exhaustive;

const DOM: &str = "--dump-dom";

fn options(lang: Lang) -> TraceOptions {
    with(TraceOptions::default(), |o| (o.lang, o.size) = (lang, 64))
}

fn all() -> Vec<(&'static str, Trace)> {
    let causal = builtin("causal").unwrap().trace(0).unwrap();
    let step = builtin("training-step").unwrap().trace_backward(0).unwrap();
    vec![("causal", causal), ("step", step), ("odd", odd()), ("one", one_token()), ("wide", wide())]
}

/// Returns the cells of each step's table, row by row.
fn tables<'a>(dom: &'a str, trace: &Trace) -> Vec<Vec<Vec<&'a str>>> {
    fn row(row: &str) -> Vec<&str> {
        row.split("<td").skip(1).filter(|cell| !cell.starts_with(" class=\"more")).collect()
    }
    fn table(step: &str) -> Vec<Vec<&str>> {
        between(step, "<tbody>", "</tbody>").split("<tr>").skip(1).map(row).collect()
    }
    figures(dom, trace).into_iter().map(table).collect()
}

#[test]
fn browser_shows_every_number_without_requests() {
    for (n, (name, trace)) in all().into_iter().enumerate() {
        // Each trace in both languages, or in alternating languages.
        let is_in = |lang: &Lang| exhaustive("chumoku-trace") || (*lang == Lang::Ja) == (n % 2 == 1);
        for lang in [Lang::En, Lang::Ja].into_iter().filter(is_in) {
            let Some(visit) = visit(&trace.to_html(&options(lang)), "weights", &[DOM.into()]) else { return };
            assert_eq!(visit.said, "", "{name}: the console, and with it the security policy");
            assert_eq!(visit.requests, Vec::<String>::new(), "{name}");
            let tables = tables(&visit.out, &trace);
            assert_eq!(tables.len(), trace.steps.len(), "{name}");
            for (step, table) in trace.steps.iter().zip(&tables) {
                assert_eq!(table.len(), step.value.nrows(), "{name}, {}", step.name());
                for (i, row) in table.iter().enumerate() {
                    assert_eq!(row.len(), step.value.ncols(), "{name}, {}, row {i}", step.name());
                    for (j, cell) in row.iter().enumerate() {
                        let (shown, truth) = (number(between(cell, ">", "<")), step.value[[i, j]]);
                        let is_same = shown == truth
                            || (shown.is_nan() && truth.is_nan())
                            || (shown - truth).abs() <= 0.500_001e-4;
                        assert!(is_same, "{name}, {}[{i}, {j}]: {shown} for {truth}", step.name());
                    }
                }
            }
            // The page has its data and the one script whose hash is in the policy.
            assert_eq!(visit.out.matches("<script").count(), 2, "{name}");
            assert!(visit.out.contains("<script type=\"application/json\" id=\"program\">"), "{name}");
            assert!(visit.out.contains("<div class=\"live\" id=\"live\">"), "{name}: the script ran");
        }
    }
}

/// Checks that the test above would notice requests and violations.
#[test]
fn requests_and_violations_are_detected() {
    let image = "<img src=\"http://127.0.0.1:9/asked.png\">";
    let page = one_token().to_html(&options(Lang::En)).replace("</main>", &format!("{image}</main>"));
    let Some(refused) = visit(&page, "", &[DOM.into()]) else { return };
    assert!(refused.said.contains("Content Security Policy") && refused.said.contains("asked.png"), "{}", refused.said);
    assert!(refused.requests.is_empty(), "{:?}", refused.requests);
    let script =
        one_token().to_html(&options(Lang::En)).replace("</main>", "</main><script>document.title = 1</script>");
    let refused = visit(&script, "", &[DOM.into()]).unwrap();
    assert!(refused.said.contains("Content Security Policy"), "{}", refused.said);
    assert!(!refused.out.contains("<title>1</title>"));
    let asked = visit(&without_policy(&page), "", &[DOM.into()]).unwrap();
    assert!(asked.requests.iter().any(|address| address.ends_with("asked.png")), "{:?}", asked.requests);
}

/// Returns the lines that a script, which the test adds, finds on the page; the security policy is removed for it.
fn found(page: &str, script: &str, arguments: &[&str]) -> Option<Vec<String>> {
    let script = format!(
        "<script>addEventListener('load', async () => {{ const log = []; const $ = q => document.querySelector(q);\n\
         const all = q => [...document.querySelectorAll(q)]; {script}\n\
         const out = document.createElement('pre'); out.id = 'log'; out.textContent = log.join('\\n');\n\
         document.body.append(out); }});</script></body>"
    );
    let page = without_policy(page).replace("</body>", &script);
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).chain([DOM.into()]).collect();
    let dom = open(&page, "", &arguments)?;
    let log = between(&dom, "<pre id=\"log\">", "</pre>");
    let log = log.replace("&gt;", ">").replace("&nbsp;", "\u{a0}").replace("&amp;", "&");
    Some(log.lines().map(str::to_owned).collect())
}

#[test]
fn recomputed_numbers_match_a_new_trace() {
    let file = |name: &str| -> Value {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("worked/{name}.json"));
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    };
    let layers = layers();
    let cases = [
        (file("training-step"), 0, "W_1", [0, 2], "-0.75"),
        (stepped(), 1, "X", [2, 1], "0.3125"),
        (layers[2].clone(), 0, "W_K", [1, 0], "-1.5"),
        (layers[1].clone(), 1, "gamma", [0, 3], "1e-1"),
        (layers[3].clone(), 0, "W_dense", [0, 2], "−.5"),
        (additive(), 0, "v_a", [1, 0], "-.25"),
    ];
    let trace = |file: &Value, head| {
        let mut file = file.clone();
        file.as_object_mut().unwrap().remove("claims");
        WorkedExample::parse(&file.to_string()).and_then(|e| e.trace_backward(head)).unwrap()
    };
    for (number, (file, head, name, [i, j], text)) in cases.into_iter().enumerate() {
        let options = with(options(Lang::En), |o| o.digits = [4, 9][number % 2]);
        let page = trace(&file, head).to_html(&options);
        let other = if text == "1e-1" { "7" } else { "1e-1" };
        let script = format!(
            "{SHOWN} const before = shown(); const same = () => shown().filter((line, k) => line != before[k]).length;
             // A single changed share of two classes breaks the sum of 1.
             put('target', 0, 0, '0.5'); log.push(same(), edited()); $('#undo').click(); log.push(same(), edited()); put('{name}', {i}, {j}, '{other}');
             log.push(shown().filter((line, k) => line != before[k]).length > 1, edited());
             $('#undo').click(); log.push(shown().filter((line, k) => line != before[k]).join('|'), edited());
             put('{name}', {i}, {j}, 'one'); log.push(shown().filter((line, k) => line != before[k]).length, edited());
             put('{name}', {i}, {j}, '{text}'); log.push(edited(), ...shown());"
        );
        let Some(log) = found(&page, &script, &[]) else { return };
        assert!(log[1].starts_with(",false,false,"), "{log:?}");
        assert_eq!([&log[0], &log[2], &log[3]], ["1", "0", ",true,true,0"], "{name}");
        // The original number restores every printed number, and an invalid entry changes only its own cell.
        let expected =
            ["true", "edited,false,true,0", "", ",true,true,0", "1", ",false,false,1", "edited,false,true,0"];
        assert_eq!(log[4..11], expected, "{name}");
        let mut new = file.clone();
        let rows = &mut new["inputs"][name];
        let entry = if rows[0].is_array() { &mut rows[i][j] } else { &mut rows[j] };
        *entry = json!(text.replace('−', "-").parse::<f64>().unwrap());
        let new = trace(&new, head);
        let page = new.to_html(&options);
        let expected = found(&page, &format!("{SHOWN} log.push(...shown());"), &[]).unwrap();
        // Every computed step has a card, and so has an input that no step reads.
        assert_eq!(expected.len(), page.matches("<details open class=\"step\"").count(), "{name}");
        let computed = new.steps.iter().filter(|step| step.formula.is_some()).count();
        assert!(
            expected.len() >= computed && expected.len() > 20,
            "{name}: {} cards, {computed} steps",
            expected.len()
        );
        for (found, expected) in log[11..].iter().zip(&expected) {
            assert_eq!(found, expected, "case {number}");
        }
        assert_eq!(log.len() - 11, expected.len());
    }
}

/// With the scale switched off, and in a trace without it, no number is divided by √1. Small operands keep their digits.
#[test]
fn sums_without_a_scale_have_no_root() {
    let inputs = r#"{"X": [[2, 0.000374], [1, 3]], "W_Q": [[1, 0], [0, 1]], "W_K": [[1, 0], [0, 1]], "V": [[1], [2]]}"#;
    let lines = |more: &str| {
        let example = WorkedExample::parse(&format!(r#"{{"inputs": {inputs}{more}}}"#)).unwrap();
        let switch = "const scale = $('#control-scale'); if (scale.checked) scale.click();";
        let script = format!("{SHOWN} {switch} log.push(...shown());");
        found(&example.trace(0).unwrap().to_html(&options(Lang::En)), &script, &[])
    };
    let Some(switched_off) = lines("") else { return };
    assert_eq!(switched_off, lines(r#", "options": {"scale": 1}"#).unwrap());
    for said in ["(2,2)=10=10.0000", "=3.36e-4·1+0.9997·2"] {
        assert!(switched_off.iter().any(|line| line.contains(said)), "{said}: {switched_off:?}");
    }
}

#[test]
fn recurrent_steps_are_recomputed() {
    for (name, matrix, [i, j], text) in
        [("gru-steps", "W_h", [1, 5], 9.0), ("lstm-steps", "X", [0, 1], -2.0), ("rnn-steps", "W_x", [0, 0], 0.25)]
    {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("worked/{name}.json"));
        let mut file: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        file.as_object_mut().unwrap().remove("claims");
        let page = |file: &Value| {
            let trace = WorkedExample::parse(&file.to_string()).and_then(|example| example.trace_backward(0)).unwrap();
            trace.to_html(&options(Lang::En))
        };
        let html = page(&file);
        let ids: Vec<&str> = html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), ids.len(), "{name}: {ids:?}");
        let script = format!("{SHOWN} put('{matrix}', {i}, {j}, '{text}'); log.push(...shown());");
        let Some(found_there) = found(&page(&file), &script, &[]) else { return };
        file["inputs"][matrix][i][j] = json!(text);
        let expected = found(&page(&file), &format!("{SHOWN} log.push(...shown());"), &[]).unwrap();
        assert_eq!(found_there, expected, "{name}");
    }
}

#[test]
fn language_switch_changes_the_shown_language() {
    let script = "
        const seen = () => { const langs = all('.t').filter(t => t.checkVisibility()).map(t => t.lang);
          log.push([...new Set(langs)].join() + ' ' + (langs.length * 2 == all('.t').filter(t => !t.closest('[hidden]')).length)
            + ' ' + $('#weights-2-title').innerText + ' | ' + $('h1').innerText); };
        seen(); $('label[for=ja]').click(); seen(); $('label[for=en]').click(); seen();";
    let japanese = "ja true 18. アテンションの重み (ヘッド 2) | reviews-model: 因果的セルフアテンション、第\u{a0}3\u{a0}層、ヘッド 2";
    let english = "en true 18. Attention weights (head 2) | reviews-model: causal self-attention, layer 3, head 2";
    for (lang, first) in [(Lang::En, english), (Lang::Ja, japanese)] {
        let Some(log) = found(&wide().to_html(&options(lang)), script, &[]) else { return };
        assert_eq!(log, [first, japanese, english]);
    }
}

#[test]
fn example_title_follows_the_language_switch() {
    let script = "
        const seen = () => log.push($('h1').innerText);
        seen(); $('label[for=ja]').click(); seen(); $('label[for=en]').click(); seen();";
    let trace = builtin("film").unwrap().trace(0).unwrap();
    let [english, japanese] = [Lang::En, Lang::Ja].map(|lang| trace.title.in_lang(lang));
    assert_ne!(english, japanese);
    for (lang, first) in [(Lang::En, english), (Lang::Ja, japanese)] {
        let Some(log) = found(&trace.to_html(&options(lang)), script, &[]) else { return };
        assert_eq!(log, [first, japanese, english]);
    }
}

#[test]
fn keyboard_reaches_everything_in_order() {
    let trace = wide();
    let script = "
        // The browser's own order: no element of the page changes it.
        const stops = all('a[href], input, select, summary, button, [tabindex]')
          .filter(e => e.tabIndex >= 0 && !e.disabled && e.checkVisibility() && (e.type != 'radio' || e.checked));
        log.push(stops.filter(e => e.tabIndex > 0).length);
        const kind = e => e.closest('nav') ? 'link' : !e.closest('main') ? e.id || e.className : e.localName === 'summary' ? 'summary'
          : e.isContentEditable ? 'input' : 'number';
        log.push(stops.map(kind).join(' '));
        // One stop leads to each matrix, and arrow keys to its other numbers.
        const figures = all('main figure[id]').filter(e => e.checkVisibility());
        log.push(figures.filter(f => stops.filter(e => f.contains(e)).length != 1).length, figures.length);
        log.push(all('main summary').filter(e => e.checkVisibility() && !stops.includes(e)).length);
        const ids = all('[id]').map(e => e.id); log.push(ids.length - new Set(ids).size);
        log.push(all('nav a').filter(a => !document.getElementById(a.hash.slice(1))).length, all('nav li:not([hidden])').length);
        const named = all('.scroll[role]').filter(e => document.getElementById(e.getAttribute('aria-labelledby'))?.textContent);
        log.push(all('.scroll[role]').length - named.length);
        const skip = $('.skip'); log.push(skip.getBoundingClientRect().bottom > 0);
        skip.focus(); log.push(skip.getBoundingClientRect().top >= 0);
        skip.click(); await new Promise(done => setTimeout(done, 50)); log.push(document.activeElement.id);
        // A link opens what was closed.
        $('#fold').click(); log.push(all('main details[open]').length);
        all('nav li a')[3].click(); await new Promise(done => setTimeout(done, 50));
        const top = document.querySelector(location.hash).getBoundingClientRect().top; log.push(top > -1 && top < innerHeight ? 'in view' : top);
        log.push(document.querySelector(location.hash).checkVisibility());
        $('#unfold').click(); log.push(all('main details:not([open])').length);
        const step = $('.step'); step.querySelector('summary').click(); log.push(step.open);";
    let Some(log) = found(&trace.to_html(&options(Lang::En)), script, &["--window-size=1000,700"]) else { return };
    // Language, theme, options and buttons come before the outline. The outline has one group with a link to each step.
    let before = "skip en theme control-causal control-scale control-max control-beta back play next fold unfold token";
    let links = " link".repeat(2 + trace.steps.len());
    // In the group, the cards of N, Q, K, V and O begin with an input that no earlier card has.
    let symbols = trace.steps.iter().filter(|step| step.formula.is_some()).map(|step| step.symbol.as_str());
    let with_input = ["N", "Q", "K", "V", "O"];
    let card = |symbol: &str| if with_input.contains(&symbol) { " summary input number" } else { " summary number" };
    let stops = format!("{before}{links} summary{}", symbols.map(card).collect::<String>());
    let count = trace.steps.len().to_string();
    let expected = [
        "0", &stops, "0", &count, "0", "0", "0", &count, "0", "false", "true", "steps", "0", "in view", "true", "0",
        "false",
    ];
    assert_eq!(log, expected);
}

#[test]
fn headings_count_the_steps_that_the_options_leave() {
    let trace = builtin("causal").unwrap().trace(0).unwrap();
    let script = "const count = () => log.push(all('.count .t').map(said => said.textContent).join());
        count(); $('#control-causal').click(); count(); $('#control-causal').click(); count();";
    let Some(log) = found(&trace.to_html(&options(Lang::En)), script, &[]) else { return };
    assert_eq!(log, ["15 steps,15 ステップ", "14 steps,14 ステップ", "15 steps,15 ステップ"]);
}

#[test]
fn a_page_says_which_head_it_shows() {
    let page = |name: &str, head: usize| builtin(name).unwrap().trace(head).unwrap().to_html(&options(Lang::En));
    assert!(page("heads", 1).contains("Only the steps of head 2 are shown"));
    assert!(!page("causal", 0).contains("Only the steps of head"));
}

#[test]
fn arrow_keys_move_between_cells() {
    let script = "
        const table = document.getElementById('X'), rows = [...table.querySelectorAll('tbody tr')].map(r => [...r.querySelectorAll('td')]);
        const where = () => rows.map((r, i) => r.map((c, j) => c === document.activeElement ? [i, j] : [])).flat(2).join();
        const press = key => { document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
          log.push(where()); };
        // The whole number is shown before it is changed.
        rows[0][0].focus(); log.push(rows[0][0].textContent); ['Enter', 'ArrowRight', 'ArrowUp', 'ArrowLeft', 'ArrowUp'].forEach(press);
        rows[1][1].focus(); log.push(rows[0][0].textContent);";
    let file = r#"{"inputs": {"X": [[0.123456, 2], [3, 4]], "W_Q": [[1, 0], [0, 1]], "W_K": [[1, 0], [0, 1]]}}"#;
    let page = WorkedExample::parse(file).unwrap().trace(0).unwrap().to_html(&options(Lang::En));
    let Some(log) = found(&page, script, &[]) else { return };
    assert_eq!(log, ["0.123456", "1,0", "1,1", "0,1", "0,0", "0,0", "0.1235"]);
}

/// Checks the WCAG contrast of every text with its background, and that the theme follows the system.
#[test]
fn text_contrast_is_sufficient_in_both_themes() {
    let script = "
        const pen = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
        const rgba = color => { pen.clearRect(0, 0, 1, 1); pen.fillStyle = color; pen.fillRect(0, 0, 1, 1);
          return [...pen.getImageData(0, 0, 1, 1).data]; };
        const light = c => { const [r, g, b] = c.map(x => x / 255).map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
          return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        log.push(getComputedStyle(document.body).backgroundColor);
        // With an open answer, and a token that is followed.
        const token = $('#token'); if (token) { token.value = '2'; token.dispatchEvent(new Event('change')); }
        all('main .result td')[0].click(); $('#next').click();
        let worst = [99, ''], count = 0;
        for (const e of all('body *')) {
          if (!e.checkVisibility() || ![...e.childNodes].some(n => n.nodeType == 3 && n.data.trim())) continue;
          let behind = e; while (rgba(getComputedStyle(behind).backgroundColor)[3] < 255) behind = behind.parentElement;
          const [a, b] = [getComputedStyle(e).color, getComputedStyle(behind).backgroundColor].map(c => light(rgba(c)));
          const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); count++;
          if (contrast < worst[0]) worst = [contrast, e.outerHTML.slice(0, 80)];
        }
        log.push(count, worst[0], worst[1]);";
    for (scheme, page) in [(1, "rgb(245, 244, 240)"), (0, "rgb(17, 21, 27)")] {
        // Each trace in both themes, or in alternating themes.
        let is_in = |n: usize| exhaustive("chumoku-trace") || n % 2 == scheme;
        let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
        for (_, (name, trace)) in all().into_iter().enumerate().filter(|(n, _)| is_in(*n)) {
            let Some(log) = found(&trace.to_html(&options(Lang::En)), script, &[&scheme]) else { return };
            assert_eq!(log[0], page);
            assert!(log[1].parse::<usize>().unwrap() > 50, "{log:?}");
            assert!(log[2].parse::<f64>().unwrap() >= 4.5, "{name}: {log:?}");
        }
    }
}

#[test]
fn print_shows_open_and_closed_steps() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.pdf");
    let pages = |page: &str| -> Option<usize> {
        let _ = fs::remove_file(&file);
        open(page, "", &[format!("--print-to-pdf={}", file.display())])?;
        let bytes = fs::read(&file).unwrap();
        assert!(bytes.starts_with(b"%PDF-"));
        let kinds = bytes.windows(12).filter(|w| w.starts_with(b"/Type /Page") && w[11] != b's');
        Some(kinds.count())
    };
    let trace = builtin("causal").unwrap().trace(0).unwrap();
    let open_steps = trace.to_html(&options(Lang::En));
    let closed_steps = trace.to_html(&with(options(Lang::Ja), |o| o.depth = TraceDetail::Steps));
    assert!(open_steps.contains("<details open class=\"step") && !closed_steps.contains("<details open class=\"step"));
    let Some(count) = pages(&open_steps) else { return };
    assert!((3..=10).contains(&count), "{count} pages");
    assert_eq!(pages(&closed_steps), Some(count));
    // Without the print rule, closed steps would be missing.
    let rule = "details::details-content { content-visibility: visible; display: block; block-size: auto; }";
    assert!(closed_steps.contains(rule));
    assert!(pages(&without_policy(&closed_steps).replace(rule, "")).unwrap() < count);
    // A printed wide matrix is not cut off at the edge of the paper: its rows continue on the next line.
    let script = "log.push(all('.wide :is(td, th)').every(cell => cell.getBoundingClientRect().right <= innerWidth));";
    let wide = wide().to_html(&options(Lang::En)).replace("@media print", "@media all");
    assert_eq!(found(&wide, script, &["--window-size=1032,800"]).unwrap(), ["true"]);
}

#[test]
fn screenshots() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("screenshots");
    fs::create_dir_all(&folder).expect("a folder for screenshots");
    for (theme, scheme) in [("dark", 0), ("light", 1)] {
        let in_full = exhaustive("chumoku-trace");
        for lang in [Lang::En, Lang::Ja].into_iter().filter(|lang| in_full || (*lang == Lang::Ja) == (scheme == 1)) {
            for (name, trace) in all().into_iter().filter(|(name, _)| ["causal", "step", "wide"].contains(name)) {
                let file = folder.join(format!("trace-{name}-{theme}-{}.png", lang.code()));
                // A screenshot from an earlier run must not pass for this one's.
                let _ = fs::remove_file(&file);
                // One of the two languages also in the width of a phone.
                let size = if name == "step" && lang == Lang::Ja { "500,4200" } else { "1100,4200" };
                let arguments = [
                    format!("--screenshot={}", file.display()),
                    format!("--blink-settings=preferredColorScheme={scheme}"),
                    format!("--window-size={size}"),
                ];
                if open(&trace.to_html(&options(lang)), "", &arguments).is_none() {
                    return;
                }
                let bytes = fs::read(&file).expect("the picture");
                assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 40_000, "{} bytes", bytes.len());
            }
        }
    }
    eprintln!("screenshots in {}", folder.display());
}
