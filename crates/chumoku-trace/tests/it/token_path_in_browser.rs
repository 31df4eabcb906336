//! The path of a token through a trace's page, in a real browser: its row in every step, and the lengths of its vectors.
//!
//! Needs Chromium or Chrome on the path. Without one, each test prints a notice and passes.

use crate::common::browser::{between, dom, run_in_frames};
use crate::common::layers::{additive, layers, recurrents};
use crate::common::traces::{figures, number, published_folder};
use crate::common::with;
use chumoku::models::TranslatorAttention;
use chumoku::{TextClassifier, TextTranslator};
use chumoku_trace::{HeadSelection, StepKind, Trace, TraceOptions, WorkedExample, builtin};
use ndarray::{Array1, Axis, Slice};
use serde_json::{Value, json};

fn parse(file: &Value) -> WorkedExample {
    WorkedExample::parse(&file.to_string()).unwrap_or_else(|problem| panic!("{problem}: {file}"))
}

fn page(trace: &Trace, digits: usize) -> String {
    trace.to_html(&with(TraceOptions::default(), |o| (o.digits, o.size) = (digits, 64)))
}

/// A layer of two heads from embeddings and positions to the classes, with words.
fn embedded() -> Value {
    let mut file = layers().swap_remove(0);
    let x = file["inputs"].as_object_mut().unwrap().remove("X").unwrap();
    file["inputs"]["token_vectors"] = x;
    file["inputs"]["ids"] = json!([17, 4, 250]);
    file["inputs"]["positions"] = json!([[0, 1, 0, 1], [0.5, 0.25, 0, 1], [0.75, -0.5, 0.125, 1]]);
    file["tokens"] = json!(["the", "cat", "sat"]);
    file["classes"] = json!(["no", "maybe", "yes"]);
    file
}

/// Writes each step of the path: its name, length or answer, and its numbers; then the marked and the dimmed rows of each figure.
const LOG: &str = "
    const log_path = () => {
      for (const item of all('#token-path li')) {
        const [head, ...rest] = item.children;
        const name = head.querySelector('a, b').textContent;
        log.push([name, head.textContent.includes(' · '), item.querySelector('.long')?.textContent ?? (item.querySelector(':scope > b') ? 'answer ' + item.querySelector(':scope > b').textContent : '-'),
          item.querySelector('small').textContent].join('|'));
      }
    };
    const rows = () => all('figure[id]').map(f => [f.id, f.querySelectorAll('tr[data-token=on]').length, f.querySelectorAll('tr[data-token=off]').length].join());
    const pick = n => { $('#token').value = n; $('#token').dispatchEvent(new Event('change')); };
    const press = key => document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));";

fn value<'a>(trace: &'a Trace, symbol: &str) -> &'a ndarray::Array2<f64> {
    let mut all = trace.steps.iter().chain(&trace.hidden_steps);
    let is_it = |step: &&chumoku_trace::TraceStep| step.kind == StepKind::Value && step.symbol == symbol;
    &all.find(is_it).unwrap_or_else(|| panic!("no {symbol}")).value
}

/// Compares the lengths of the path's steps with those of the trace's rows, each head's contribution with H W_O computed
/// here, and the numbers with the rows.
#[test]
fn steps_of_the_path_have_the_rows_of_the_trace() {
    let layer = ["id", "E", "XE", "P", "X", "N", "H1", "H2", "C", "O", "R", "N2", "F", "R2", "YL", "p", "PC"];
    for (file, recomputes) in [(embedded(), true), (wide(), false)] {
        let trace = parse(&file).trace_backward(0).unwrap();
        let page = page(&trace, 9);
        assert_eq!(page.contains("id=\"play\""), recomputes);
        let script = format!("{LOG} pick(2); log_path();");
        let Some(logs) = run_in_frames(&[(page, script)], 1000) else { return };
        assert_path(&trace, &logs[0], &layer);
    }
}

/// The path through a published translator and through BERT begins with their embeddings.
#[test]
fn paths_of_models_begin_with_their_embeddings() {
    let first = HeadSelection { layer: Some(0), head: 0 };
    let translator = TextTranslator::load(published_folder("marian").path()).unwrap();
    let of_translator = |part| {
        Trace::from_model(translator.record("t5 t9 t30", Some("t7 t8"), part, first).unwrap(), "marian").unwrap()
    };
    let classifier = TextClassifier::load(published_folder("bert_classifier").path()).unwrap();
    let record = classifier.record_backward("t5 t7 t9 t5", first, None).unwrap();
    let end = ["C", "O", "R", "Y", "F", "R2", "Y2"];
    let heads = |count: usize| (1..=count).map(|k| format!("H{k}")).collect::<Vec<_>>();
    let cases = [
        (of_translator(TranslatorAttention::Encoder), vec!["id", "E", "XE", "P", "X"], heads(2), &end[..]),
        (of_translator(TranslatorAttention::Decoder), vec!["id", "E", "XE", "P", "X"], heads(4), &end[..4]),
        (of_translator(TranslatorAttention::Cross), vec!["id", "E", "XE", "P", "XS", "X"], heads(4), &end[..]),
        (
            Trace::from_model(record, "bert").unwrap(),
            vec!["id", "XE", "P", "XP", "t", "ET", "XS", "X"],
            heads(classifier.config().model.backbone.transformer().unwrap().num_heads),
            &["C", "O", "R", "Y", "F", "R2", "Y2", "L", "p", "PC"],
        ),
    ];
    // The sums are explained when they are clicked, down to their addends.
    let script = format!(
        "{LOG} pick(2); log_path(); const program = JSON.parse($('#program').textContent);
         for (const sym of ['X_E', 'X_P', 'X_S', 'X']) {{
           const step = program.steps.find(s => s.sym === sym && s.at && s.op !== 'Given');
           if (!step) continue;
           document.getElementById(step.at).querySelectorAll('tbody tr')[1].querySelectorAll('td')[2].click();
           log.push('why|' + sym + '|' + [...$('#chain li').querySelectorAll('button')].map(b => b.title).join());
         }}"
    );
    let pages: Vec<_> = cases.iter().map(|(trace, ..)| (page(trace, 9), script.clone())).collect();
    let Some(logs) = run_in_frames(&pages, 1000) else { return };
    for ((trace, start, heads, end), log) in cases.iter().zip(&logs) {
        let (why, path): (Vec<String>, Vec<String>) = log.iter().cloned().partition(|line| line.starts_with("why|"));
        let names: Vec<&str> =
            start.iter().copied().chain(heads.iter().map(|h| &h[..])).chain(end.iter().copied()).collect();
        assert_path(trace, &path, &names);
        let sums = if start.contains(&"ET") {
            ["why|X_P|X_E(2,3),P(2,3)", "why|X_S|X_P(2,3),E_T(2,3)"].to_vec()
        } else if start.contains(&"XS") {
            ["why|X_E|E(2,3)", "why|X_S|X_E(2,3),P(2,3)"].to_vec()
        } else {
            ["why|X_E|E(2,3)", "why|X|X_E(2,3),P(2,3)"].to_vec()
        };
        assert_eq!(why[..2], sums, "{why:?}");
        assert_eq!(why.len(), if start.contains(&"ET") { 3 } else { 2 }, "{why:?}");
    }
}

/// Checks the path of the second token.
fn assert_path(trace: &Trace, lines: &[String], expected: &[&str]) {
    let log: Vec<Vec<&str>> = lines.iter().map(|line| line.split('|').collect()).collect();
    let names: Vec<&str> = log.iter().map(|line| line[0]).collect();
    assert_eq!(names, expected, "{lines:?}");
    let w = value(trace, "W_O");
    let shown_symbol = |symbol: &str| symbol.replace(['_', '[', ']'], "");
    let values = || trace.steps.iter().chain(&trace.hidden_steps).filter(|step| step.kind == StepKind::Value);
    let contribution = |k: usize| -> Array1<f64> {
        let head = value(trace, &format!("H[{k}]"));
        let width = head.ncols();
        head.row(1).dot(&w.slice_axis(Axis(0), Slice::from((k - 1) * width..k * width)))
    };
    let mut sum = Array1::zeros(w.ncols());
    for line in &log {
        let row = match line[0].strip_prefix('H').and_then(|k| k.parse().ok()) {
            Some(k) => {
                assert_eq!(line[1], "true", "{line:?}");
                let own = contribution(k);
                sum += &own;
                own
            }
            None => {
                let step = values().find(|step| shown_symbol(&step.symbol) == line[0]).unwrap();
                step.value.row(if step.value.nrows() == 1 { 0 } else { 1 }).to_owned()
            }
        };
        let shown: Vec<f64> = line[3].trim_end_matches("  …").split("  ").map(number).collect();
        assert_eq!(shown.len(), row.len().min(6), "{line:?}");
        assert!(shown.iter().zip(&row).all(|(a, b)| (a - b).abs() < 1e-8), "{line:?} {row}");
        match line[2].strip_prefix("answer ") {
            Some(answer) => {
                let (best, share) =
                    row.indexed_iter().fold((0, 0.0), |best, (i, x)| if *x > best.1 { (i, *x) } else { best });
                let expected = format!("{} {}", best + 1, trace.classes[best]);
                let (label, text) = answer.rsplit_once(' ').unwrap();
                assert!(label == expected && (number(text) - share).abs() < 1e-8, "{line:?}");
            }
            None if ["id", "t"].contains(&line[0]) => assert_eq!((line[2], number(line[3])), ("-", row[0])),
            None => assert!((number(line[2]) - row.dot(&row).sqrt()).abs() < 1e-8, "{line:?} {row}"),
        }
    }
    // The contributions and the bias add up to the output.
    let bias = values().find(|step| step.symbol == "b_O");
    bias.into_iter().for_each(|bias| sum += &bias.value.row(0));
    assert!((&sum - &value(trace, "O").row(1)).iter().all(|x| x.abs() < 1e-12));
}

/// Each step with a row for each token marks one of them and dims the others; parameters stay as they are.
#[test]
fn one_row_of_each_step_is_marked() {
    let mut cases = vec![parse(&embedded()).trace_backward(0).unwrap(), parse(&additive()).trace_backward(0).unwrap()];
    cases.push(parse(&recurrents()[3]).trace(0).unwrap());
    cases.push(builtin("book").unwrap().trace(0).unwrap());
    let script = format!(
        "{LOG} pick(2); log.push(...rows()); pick(''); log.push('none', rows().every(line => line.endsWith(',0,0')));"
    );
    let pages: Vec<_> = cases.iter().map(|trace| (page(trace, 4), script.clone())).collect();
    let Some(logs) = run_in_frames(&pages, 1000) else { return };
    for (trace, log) in cases.iter().zip(&logs) {
        let tokens = value(trace, "X").nrows();
        let (mut marked, mut whole) = (0, 0);
        let none = log.iter().position(|line| line == "none").unwrap();
        assert_eq!(log[none + 1], "true", "{log:?}");
        for line in &log[..none] {
            let parts: Vec<&str> = line.split(',').collect();
            let (id, on, off): (&str, usize, usize) = (parts[0], parts[1].parse().unwrap(), parts[2].parse().unwrap());
            let of_step = id.trim_start_matches("d-");
            let is_parameter = ["W_", "b_", "gamma", "norm_beta", "v_a"].iter().any(|start| of_step.starts_with(start));
            let of_pairs = of_step.starts_with("pair_") || id.starts_with("derivative");
            match (is_parameter, on) {
                (true, _) | (_, 0) => {
                    assert_eq!((on, off), (0, 0), "{line}");
                    whole += 1;
                }
                _ if of_pairs && on > 1 => {
                    assert_eq!(on + off, tokens * on, "{line}");
                    marked += 1;
                }
                _ => {
                    assert_eq!((on, off), (1, tokens - 1), "{line}");
                    marked += 1;
                }
            }
        }
        assert!(marked >= 7 && whole > 1, "{marked}, {whole}: {log:?}");
    }
    // Keys and values of another text are no rows of this one.
    assert!(logs[1].iter().any(|line| line == "K,0,0") && logs[3].iter().any(|line| line == "K,1,3"), "{logs:?}");
    assert!(logs[1].iter().any(|line| line == "pair_tanh,3,3"), "{:?}", logs[1]);
}

#[test]
fn keyboard_row_names_and_options_keep_the_token() {
    let trace = parse(&embedded()).trace(0).unwrap();
    let script = format!(
        "{LOG} const now = () => log.push([$('#token').value, $('#token-path-box').hidden, all('tr[data-token=on]').length > 5].join());
         now(); press(']'); now(); press(']'); now(); press(']'); press(']'); now(); press('['); now();
         // The name of a row chooses its token, and again none.
         const name = document.getElementById('X').querySelectorAll('tbody th')[0]; name.click(); now(); name.click(); now();
         // Numbers follow a change, and so do the marks of new copies.
         pick(3); const before = $('#token-path').textContent; $('#control-causal').click(); log.push($('#token-path').textContent !== before);
         const copies = all('figure.copy').filter(f => f.querySelector('figcaption').textContent === 'S1' && f.querySelectorAll('tr[data-token=on]').length === 1);
         log.push(copies.length > 0);
         const box = all('#token-path li a')[4]; log.push(box.hash, document.getElementById(box.hash.slice(1)) !== null);
         log.push(document.documentElement.scrollWidth <= innerWidth, document.documentElement.dataset.error ?? 'no error');"
    );
    let Some(logs) = run_in_frames(&[(page(&trace, 4), script)], 390) else { return };
    let expected = [
        ",true,false",
        "1,false,true",
        "2,false,true",
        "3,false,true",
        "2,false,true",
        "1,false,true",
        ",true,false",
        "true",
        "true",
        "#X",
        "true",
        "true",
        "no error",
    ];
    assert_eq!(logs[0], expected);
}

#[test]
fn a_link_chooses_the_token_in_both_languages_and_themes() {
    let trace = parse(&embedded()).trace(0).unwrap();
    for (link, lang) in [("token=2&lang=ja&theme=dark", "ja"), ("theme=light&token=2&why=output,2,1", "en")] {
        let Some(dom) = dom(&page(&trace, 4), link) else { return };
        assert!(dom.contains(&format!("<html lang=\"{lang}\"")), "{}", &dom[..300]);
        let list = between(&dom, "<ol id=\"token-path\">", "</ol>");
        assert!(
            list.matches("<li>").count() == 17 && list.contains("残差接続") && list.contains("Residual connection"),
            "{list}"
        );
        assert!(!dom.contains("<div id=\"token-path-box\" hidden"), "the list is shown");
        assert!(dom.matches("<tr data-token=\"on\"").count() > 10);
    }
    // A token that does not exist chooses none, and a single token has no choice.
    let Some(dom) = dom(&page(&trace, 4), "token=9") else { return };
    assert!(!dom.contains("<tr data-token=\"on\""));
    let one = parse(&json!({ "inputs": { "Q": [[1]], "K": [[1]], "V": [[2]] } })).trace(0).unwrap();
    assert!(!page(&one, 4).contains("id=\"token\""));
}

/// Returns the same layer with a feed-forward network that is too wide for a page that recomputes it.
fn wide() -> Value {
    let mut file = embedded();
    let width = 8000;
    let entry = |k: usize| ((k * 37 + 11) % 41) as f64 / 2000.0 - 0.01;
    let matrix = |rows: usize, columns: usize| -> Value {
        (0..rows).map(|i| (0..columns).map(|j| entry(i * columns + j)).collect::<Value>()).collect()
    };
    file["inputs"]["W_1"] = matrix(4, width);
    file["inputs"]["b_1"] = matrix(1, width)[0].clone();
    file["inputs"]["W_2"] = matrix(width, 4);
    file
}

/// A page with too many numbers to recompute marks the rows too, by the keyboard and in a link, under its own policy.
#[test]
fn a_page_that_recomputes_nothing_follows_a_token() {
    let trace = parse(&wide()).trace(0).unwrap();
    let large = page(&trace, 4);
    assert!(large.contains("id=\"token\"") && !large.contains("id=\"play\""));
    let Some(dom) = dom(&large, "token=3&lang=ja") else { return };
    assert!(dom.matches("<tr data-token=\"on\"").count() > 10 && !dom.contains("data-violations"), "{}", &dom[..300]);
    let script = format!(
        "{LOG} press(']'); log.push($('#token').value, rows().includes('output,1,2'), rows().includes('W_Q,0,0'));
         pick(''); log.push(all('[data-token]').length, document.documentElement.dataset.error ?? 'no error');"
    );
    let logs = run_in_frames(&[(large, script)], 390).unwrap();
    assert_eq!(logs[0], ["1", "true", "true", "0", "no error"]);
}

/// The script gives the cells of such a page the classes that other pages have from the start.
#[test]
fn a_page_that_recomputes_nothing_colors_its_numbers() {
    let trace = parse(&wide()).trace(0).unwrap();
    let large = page(&trace, 4);
    assert!(large.contains("<tr data-c=\"") && !large.contains("class=\"p8\""));
    let Some(dom) = dom(&large, "") else { return };
    let mut colored = 0;
    for (step, figure) in trace.steps.iter().zip(figures(&dom, &trace)) {
        let largest = step.value.iter().filter(|x| x.is_finite()).fold(0.0f64, |most, x| most.max(x.abs()));
        for (i, row) in between(figure, "<tbody>", "</tbody>").split("<tr").skip(1).enumerate() {
            let cells = row.split("<td").skip(1).map(|cell| cell.split('>').next().unwrap());
            for (j, tag) in cells.filter(|tag| !tag.contains("more")).enumerate() {
                let x = step.value[[i, j]];
                let expected = match (x.abs() / largest * 8.0).round() {
                    _ if !x.is_finite() => "none".to_owned(),
                    level if level >= 1.0 => format!("{}{level}", if x < 0.0 { 'm' } else { 'p' }),
                    _ => String::new(),
                };
                let classes = tag.split('"').nth(1).unwrap_or("").replace("at", "");
                assert_eq!(classes.trim(), expected, "{}[{i}, {j}]", step.name());
                colored += usize::from(!expected.is_empty());
            }
        }
    }
    assert!(colored > 100, "{colored}");
}

/// The page of a layer of width 128, with 64 rows and columns of each matrix.
#[test]
fn pages_of_wide_layers_are_small() {
    let entry = |k: usize| ((k * 37 + 11) % 83) as f64 / 97.0 - 0.43;
    let matrix = |rows: usize, columns: usize| -> Value {
        (0..rows).map(|i| (0..columns).map(|j| entry(i * columns + j + rows)).collect::<Value>()).collect()
    };
    let vector = || matrix(1, 128)[0].clone();
    let file = json!({
        "inputs": {
            "X": matrix(20, 128), "W_Q": matrix(128, 128), "W_K": matrix(128, 128), "W_V": matrix(128, 128),
            "W_O": matrix(128, 128), "b_Q": vector(), "b_K": vector(), "b_V": vector(), "b_O": vector(),
            "gamma": vector(), "norm_beta": vector(),
        },
        "options": { "num_heads": 4, "causal": true, "norm": "pre" },
    });
    let trace = parse(&file).trace(0).unwrap();
    let page = trace.to_html(&with(TraceOptions::default(), |o| o.size = 64));
    let cells: usize = trace.steps.iter().map(|step| step.value.nrows().min(64) * step.value.ncols().min(64)).sum();
    assert!(
        cells > 20_000 && page.len() < 17 * cells && page.len() <= 600_000,
        "{cells} numbers: {} bytes",
        page.len()
    );
}
