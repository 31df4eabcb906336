//! Every form of a trace shows the numbers of the array: each is parsed back and compared, to the digits shown.

mod common;

use chumoku::trace::{Depth, Trace, TraceOptions, TraceStep, WorkedExample, builtin, builtin_names};
use chumoku::view::{ColourDepth, Lang};
use common::strip;
use common::traces::{number, odd, one_token, wide};
use std::io::Read;
use std::process::Command;

const OPTIONS: TraceOptions =
    TraceOptions { depth: Depth::All, lang: Lang::En, digits: 4, size: 64, width: 240, colour: ColourDepth::None };

/// Traces of all built-in examples, of each head.
fn traces() -> Vec<Trace> {
    let mut all = Vec::new();
    for name in builtin_names() {
        let example = builtin(name).unwrap();
        all.extend((0..).map_while(|head| example.trace(head).ok()));
    }
    assert!(all.len() >= 12, "{}", all.len());
    all
}

/// The numbers of a step as they were shown are those of its matrix.
fn assert_shows(step: &TraceStep, shown: &[Vec<String>], digits: usize) {
    let name = step.name();
    assert_eq!(shown.len(), step.value.nrows(), "{name}: rows");
    for (i, row) in shown.iter().enumerate() {
        assert_eq!(row.len(), step.value.ncols(), "{name}: columns of row {i}: {row:?}");
        for (j, text) in row.iter().enumerate() {
            let (found, truth) = (number(text), step.value[[i, j]]);
            let is_same = found == truth
                || (found.is_nan() && truth.is_nan())
                || (found - truth).abs() <= 0.5000001 * 10f64.powi(-(digits as i32));
            assert!(is_same, "{name}[{i}, {j}]: shown {text}, is {truth}");
        }
    }
}

#[test]
fn the_text_shows_every_number() {
    for trace in traces().iter().chain([&odd()]) {
        let text = trace.to_text(&OPTIONS);
        let mut parts = text.split("\n\n").skip(1);
        for (i, step) in trace.steps.iter().enumerate() {
            let part = parts.next().unwrap();
            assert!(part.starts_with(&format!("{}. ", i + 1)), "{part}");
            assert!(part.contains(&format!("{} × {}", step.value.nrows(), step.value.ncols())), "{part}");
            // The heading, the formula and, unless there is one nameless column, the names of the columns.
            let is_headed = !(step.value.ncols() == 1 && step.letters[1] == "1");
            let lines = part.lines().skip(2 + usize::from(is_headed)).take(step.value.nrows());
            let columns = step.value.ncols();
            let shown: Vec<Vec<String>> = lines
                .map(|line| {
                    let words: Vec<&str> = line.split_whitespace().collect();
                    words[words.len() - columns..].iter().map(|word| (*word).to_owned()).collect()
                })
                .collect();
            assert_shows(step, &shown, 4);
        }
    }
}

#[test]
fn no_line_of_the_text_is_too_wide() {
    for trace in traces().iter().chain([&odd()]) {
        for (width, lang) in [(80, Lang::En), (80, Lang::Ja), (120, Lang::En), (48, Lang::En)] {
            for depth in [Depth::Shapes, Depth::Steps, Depth::All] {
                let text = trace.to_text(&TraceOptions { depth, lang, width, ..OPTIONS });
                for line in text.lines() {
                    let wide = unicode_width(line);
                    assert!(wide <= width, "{wide} columns instead of {width}: {line}");
                    assert!(!line.chars().any(|c| c.is_control() || c == '\u{202e}'), "{line:?}");
                }
            }
        }
    }
}

/// Columns of a terminal: letters of Japanese take two.
fn unicode_width(line: &str) -> usize {
    let wide = |c: char| ('\u{3000}'..='\u{9fff}').contains(&c) || ('\u{ff01}'..='\u{ff60}').contains(&c);
    line.chars().map(|c| if wide(c) { 2 } else { usize::from(!('\u{300}'..='\u{36f}').contains(&c)) }).sum()
}

#[test]
fn markdown_shows_every_number() {
    for trace in traces().iter().chain([&odd()]) {
        let text = trace.to_markdown(&OPTIONS);
        let parts: Vec<&str> = text.split("\n## ").skip(1).collect();
        assert_eq!(parts.len(), trace.steps.len());
        for (step, part) in trace.steps.iter().zip(parts) {
            let rows = part.lines().filter(|line| line.starts_with('|')).skip(2);
            let shown: Vec<Vec<String>> = rows
                .map(|line| {
                    // A bar in a word is escaped.
                    let cells: Vec<&str> = line.trim_end_matches('|').split(" | ").collect();
                    cells[cells.len() - step.value.ncols()..].iter().map(|cell| cell.trim().to_owned()).collect()
                })
                .collect();
            assert_shows(step, &shown, 4);
        }
        assert!(!text.contains("<script"), "{text}");
    }
}

#[test]
fn latex_shows_every_number() {
    for trace in traces().iter().chain([&odd()]) {
        let text = trace.to_latex(&OPTIONS);
        let parts: Vec<&str> = text.split("\\begin{array}").skip(1).collect();
        assert_eq!(parts.len(), trace.steps.len());
        for (step, part) in trace.steps.iter().zip(parts) {
            let body = part.split("\\hline").nth(1).unwrap().split("\\end{array}").next().unwrap();
            let rows = body.split("\\\\").map(str::trim).filter(|row| !row.is_empty());
            let shown: Vec<Vec<String>> = rows
                .map(|row| row.split(" & ").skip(1).map(|cell| cell.trim().replace("\\infty ", "\\infty")).collect())
                .collect();
            assert_shows(step, &shown, 4);
        }
        assert!(!text.contains("\\input{x}"), "{text}");
    }
}

#[test]
fn html_shows_every_number_and_runs_nothing() {
    for trace in traces().iter().chain([&odd()]) {
        let page = trace.to_html(&OPTIONS);
        let parts: Vec<&str> = page.split("<details").skip(1).collect();
        assert_eq!(parts.len(), trace.steps.len());
        for (step, part) in trace.steps.iter().zip(parts) {
            let body = part.split("<tbody>").nth(1).unwrap().split("</tbody>").next().unwrap();
            let shown: Vec<Vec<String>> = body
                .lines()
                .filter(|line| line.starts_with("<tr>"))
                .map(|line| {
                    let cells = line.split("<td").skip(1);
                    cells.map(|cell| cell.split('>').nth(1).unwrap().split('<').next().unwrap().to_owned()).collect()
                })
                .collect();
            assert_shows(step, &shown, 4);
        }
        assert!(!page.contains("<script") && !page.contains("</td><script"), "{page}");
        for lang in ["English", "日本語", "default-src 'none'"] {
            assert!(page.contains(lang));
        }
        assert!(!page.contains("http://") && !page.contains("https://"));
    }
}

#[test]
fn json_holds_every_number_as_it_is() {
    for trace in traces().iter().chain([&odd()]) {
        let json: serde_json::Value = serde_json::from_str(&trace.to_json(Lang::En).to_string()).unwrap();
        let steps = json["steps"].as_array().unwrap();
        assert_eq!(steps.len(), trace.steps.len());
        for (step, shown) in trace.steps.iter().zip(steps) {
            assert_eq!(shown["name"], step.name());
            for ((i, j), &truth) in step.value.indexed_iter() {
                let found = &shown["matrix"][i][j];
                let found = found.as_f64().unwrap_or_else(|| number_word(found.as_str().unwrap()));
                assert!(found == truth || (found.is_nan() && truth.is_nan()), "{}: {found} {truth}", step.name());
            }
        }
    }
}

fn number_word(word: &str) -> f64 {
    word.parse().unwrap()
}

#[test]
fn an_expanded_number_is_worked_out_from_what_is_shown() {
    let mut count = 0;
    for trace in traces().iter().chain([&odd()]) {
        for step in &trace.steps {
            let Some(expansion) = &step.expansion else { continue };
            count += 1;
            let [i, j] = expansion.index;
            assert_eq!(expansion.result, step.value[[i, j]], "{}", step.name());
            let worked = expansion.value();
            let (a, b) = (worked, expansion.result);
            assert!((a - b).abs() <= 1e-9 * (1.0 + b.abs()), "{} of {}: {a} is not {b}", step.name(), trace.title);
        }
    }
    assert!(count > 100, "{count}");
}

#[test]
fn checks_hold_and_what_is_odd_is_said() {
    for trace in traces() {
        for step in &trace.steps {
            assert!(step.checks.iter().all(|check| check.holds), "{}: {:?}", step.name(), step.checks);
        }
        let weights = trace.steps.iter().find(|step| step.name() == "weights").filter(|step| step.formula.is_some());
        assert!(weights.is_none_or(|step| !step.checks.is_empty()));
    }
    let text = odd().to_text(&OPTIONS);
    for said in ["1 row sees nothing: its weights are 0", "not finite", "-∞", "NaN"] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

/// The cells of the first sheet: place, formula, value.
fn cells(xlsx: &[u8]) -> Vec<(String, Option<String>, String)> {
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(xlsx)).unwrap();
    let mut sheet = String::new();
    archive.by_name("xl/worksheets/sheet1.xml").unwrap().read_to_string(&mut sheet).unwrap();
    let inner = |text: &str, tag: &str| {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        text.split(&open).nth(1).and_then(|rest| rest.split(&close).next()).map(str::to_owned)
    };
    sheet
        .split("<c r=\"")
        .skip(1)
        .filter(|cell| !cell.contains("t=\"s\""))
        .map(|cell| {
            (cell.split('"').next().unwrap().to_owned(), inner(cell, "f"), inner(cell, "v").unwrap_or_default())
        })
        .collect()
}

#[test]
fn the_spreadsheet_holds_every_number_and_all_that_is_computed_is_a_formula() {
    for trace in traces() {
        let cells = cells(&trace.to_xlsx(&OPTIONS).unwrap());
        let mut row = 4;
        for step in &trace.steps {
            let first = row + 4;
            for ((i, j), &truth) in step.value.indexed_iter() {
                let place = format!("{}{}", (b'B' + j as u8) as char, first + i);
                let found = cells.iter().find(|(at, ..)| *at == place);
                let Some((_, formula, value)) = found else {
                    // What is not seen is a text.
                    assert!(truth.is_infinite(), "{}: {place} is missing", step.name());
                    continue;
                };
                assert_eq!(value.parse::<f64>().unwrap(), truth, "{} {place}", step.name());
                let is_constant = step.formula.is_none();
                // Of other heads the output stands there as numbers.
                let is_other_head = ["concat", "output"].contains(&step.name()) && formula.is_none();
                assert!(formula.is_none() == is_constant || is_other_head, "{} {place}: {formula:?}", step.name());
            }
            row = first + step.value.nrows();
        }
    }
}

#[test]
fn a_large_spreadsheet_of_equal_numbers_is_made() {
    // Looking through the whole matrix for each of its numbers once took minutes here.
    let rows = |n: usize| format!("[{}]", vec!["[1]"; n].join(", "));
    let file = format!(r#"{{"inputs": {{"Q": {0}, "K": {0}, "V": {0}}}}}"#, rows(300));
    let bytes = WorkedExample::parse(&file).unwrap().trace(0).unwrap().to_xlsx(&OPTIONS).unwrap();
    let made = cells(&bytes);
    assert!(made.iter().filter(|(_, formula, _)| formula.is_some()).count() > 3 * 300 * 300);
}

#[test]
fn formulas_name_what_they_are_of() {
    let trace = builtin("heads").unwrap().trace(0).unwrap();
    let latex: Vec<&str> =
        trace.steps.iter().filter_map(|step| step.formula.as_ref()).map(|f| f.latex.as_str()).collect();
    for formula in [
        "S_{1} = Q_{1} {K_{1}}^{\\top}",
        "S_{\\mathrm{scaled},1} = S_{1} / \\sqrt{2}",
        "A_{1} = E_{1} / z_{1}",
        "H_{1} = A_{1} V_{1}",
    ] {
        assert!(latex.contains(&formula), "{formula}: {latex:?}");
    }
}

/// Runs a program, if there is one; its absence is said.
fn tool(name: &str) -> bool {
    let is_there = Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("SKIPPED: {name} is not installed");
    }
    is_there
}

#[test]
fn libreoffice_comes_to_the_same_numbers_and_follows_a_changed_query() {
    if !tool("soffice") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let recalculated = |name: &str, bytes: &[u8]| -> Vec<Vec<String>> {
        std::fs::write(folder.path().join(format!("{name}.xlsx")), bytes).unwrap();
        let profile = format!("-env:UserInstallation=file://{}/profile", folder.path().display());
        // All digits of each number; a formula without a result is computed on load.
        let output = Command::new("soffice")
            .args([
                &profile,
                "--headless",
                "--convert-to",
                "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,false,false",
            ])
            .args(["--outdir", ".", &format!("{name}.xlsx")])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = std::fs::read_to_string(folder.path().join(format!("{name}.csv"))).unwrap();
        csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(text.as_bytes())
            .records()
            .map(|record| record.unwrap().iter().map(str::to_owned).collect())
            .collect()
    };
    // What the program wrote as results is taken away, so that nothing but the formulas is left to compute them.
    let stripped = |bytes: &[u8], change: &dyn Fn(String) -> String| -> Vec<u8> {
        let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
        let mut out = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for i in 0..archive.len() {
            let mut file = archive.by_index(i).unwrap();
            let mut text = Vec::new();
            file.read_to_end(&mut text).unwrap();
            let name = file.name().unwrap().into_owned();
            out.start_file(&name, zip::write::SimpleFileOptions::default()).unwrap();
            if name == "xl/worksheets/sheet1.xml" {
                let sheet = String::from_utf8(text).unwrap();
                let mut pieces = sheet.split("</f><v>");
                let mut plain = pieces.next().unwrap().to_owned();
                for piece in pieces {
                    plain.push_str("</f>");
                    plain.push_str(piece.split_once("</v>").unwrap().1);
                }
                text = change(plain).into_bytes();
            }
            std::io::Write::write_all(&mut out, &text).unwrap();
        }
        out.finish().unwrap().into_inner()
    };
    for name in ["heads", "causal", "book"] {
        let example = builtin(name).unwrap();
        let trace = example.trace(0).unwrap();
        let bytes = trace.to_xlsx(&OPTIONS).unwrap();
        let sheet = recalculated(name, &stripped(&bytes, &|sheet| sheet));
        let compare = |trace: &Trace, sheet: &[Vec<String>]| {
            let mut row = 4;
            for step in &trace.steps {
                let first = row + 3;
                for ((i, j), &truth) in step.value.indexed_iter() {
                    let text = &sheet[first + i][1 + j];
                    let found = number(text);
                    let is_same = found == truth || (found - truth).abs() <= 1e-9 * (1.0 + truth.abs());
                    assert!(is_same, "{name}: {}[{i}, {j}]: {text} {truth}", step.name());
                }
                row = first + 1 + step.value.nrows();
            }
        };
        compare(&trace, &sheet);
    }
    // Another number in W_Q, in the sheet and in the example: what follows is the same.
    let file = include_str!("../../../examples/worked/book.json");
    let changed = WorkedExample::parse(&file.replacen("[1, 0, 1, 0]", "[7, 0, 1, 0]", 1)).unwrap().trace(0).unwrap();
    let bytes = builtin("book").unwrap().trace(0).unwrap().to_xlsx(&OPTIONS).unwrap();
    let sheet = recalculated(
        "changed",
        &stripped(&bytes, &|sheet| {
            let at = sheet.find("<c r=\"B8\"").unwrap();
            let (before, rest) = sheet.split_at(at);
            assert!(rest.contains("<v>1</v>"));
            format!("{before}{}", rest.replacen("<v>1</v>", "<v>7</v>", 1))
        }),
    );
    let output = changed.steps.last().unwrap();
    let last = sheet.len() - output.value.nrows();
    for ((i, j), &truth) in output.value.indexed_iter() {
        let found = number(&sheet[last + i][1 + j]);
        assert!((found - truth).abs() <= 1e-9 * (1.0 + truth.abs()), "{found} {truth}");
    }
}

#[test]
fn latex_compiles() {
    let found = Command::new("kpsewhich").arg("luatexja.sty").output();
    if !tool("lualatex") || !found.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: no LuaLaTeX with luatexja");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let japanese = TraceOptions { lang: Lang::Ja, ..OPTIONS };
    // Every operation, of the first head, whose number could be taken for a place in a formula.
    let rich = r#"{"inputs": {"X": [[1, 2, 3, 4], [2, 1, 0, 1]], "W_Q": [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]],
        "W_K": [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]], "W_V": [[1, 0], [0, 1], [1, 1], [0, 0]],
        "W_O": [[1, 0, 0, 1], [0, 1, 1, 0]]},
        "options": {"num_heads": 2, "rotary_base": 100, "alibi_slopes": [0.5, 0.25], "causal": true, "scale": 0.3, "norm": "pre"}}"#;
    let rich = WorkedExample::parse(rich).unwrap().trace(0).unwrap();
    assert!(
        rich.steps
            .iter()
            .filter_map(|step| step.formula.as_ref())
            .any(|f| f.latex == "S_{1} = Q'_{1} {K'_{1}}^{\\top}")
    );
    let documents = [
        ("odd", odd().to_latex(&OPTIONS)),
        ("rich", rich.to_latex(&OPTIONS)),
        ("heads1", builtin("heads").unwrap().trace(0).unwrap().to_latex(&OPTIONS)),
        ("heads", builtin("heads").unwrap().trace(1).unwrap().to_latex(&OPTIONS)),
        ("book", builtin("book").unwrap().trace(0).unwrap().to_latex(&japanese)),
    ];
    for (name, text) in documents {
        std::fs::write(folder.path().join(format!("{name}.tex")), text).unwrap();
        let output = Command::new("lualatex")
            .args(["-interaction=nonstopmode", "-halt-on-error", &format!("{name}.tex")])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{name}: {said}");
        assert!(!said.contains("Missing character"), "{name}: {said}");
        assert!(folder.path().join(format!("{name}.pdf")).exists());
    }
}
