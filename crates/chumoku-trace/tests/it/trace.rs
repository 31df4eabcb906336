//! Every form of a trace shows the numbers of the array: each is parsed back and compared, to the digits shown.

use crate::common::expansions::Evaluate as _;
use crate::common::traces::{figures, infinite, number, odd, one_token, published_folder, wide};
use crate::common::{strip, with};
use chumoku_trace::{Trace, TraceDetail, TraceOptions, TraceStep, WorkedExample, builtin, builtin_names};
use chumoku_view::{ColorDepth, Lang};
use std::process::Command;
use std::sync::LazyLock;

static OPTIONS: LazyLock<TraceOptions> =
    LazyLock::new(|| with(TraceOptions::default(), |o| (o.size, o.width) = (64, 240)));

/// Traces that are hard to show.
fn odds() -> Vec<Trace> {
    vec![odd(), one_token(), infinite()]
}

/// Traces of all built-in examples, for each head.
fn traces() -> Vec<Trace> {
    let mut all = Vec::new();
    for name in builtin_names() {
        let example = builtin(name).unwrap();
        all.extend((0..).map_while(|head| example.trace(head).ok()));
    }
    assert!(all.len() >= 12, "{}", all.len());
    all
}

/// Checks that the displayed numbers of a step are those of its matrix.
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
fn japanese_title_is_used_for_english_if_alone() {
    let of = |title: &str| WorkedExample::parse(&format!("{{{title}\"inputs\": {{\"X\": [[1]]}}}}")).unwrap();
    let both = of("\"title\": \"Film\", \"title_ja\": \"映画\", ").title;
    assert_eq!([Lang::En, Lang::Ja].map(|lang| both.in_lang(lang)), ["Film", "映画"]);
    let japanese = of("\"title_ja\": \"映画\", ").title;
    assert_eq!([Lang::En, Lang::Ja].map(|lang| japanese.in_lang(lang)), ["映画", "映画"]);
    assert!(!japanese.is_empty() && of("").title.is_empty());
}

#[test]
fn text_shows_every_number() {
    for trace in traces().iter().chain(&odds()) {
        let text = trace.to_text(&OPTIONS);
        let mut parts = text.split("\n\n").skip(1);
        for (i, step) in trace.steps.iter().enumerate() {
            let part = parts.next().unwrap();
            assert!(part.starts_with(&format!("{}. ", i + 1)), "{part}");
            assert!(part.contains(&format!("{} × {}", step.value.nrows(), step.value.ncols())), "{part}");
            // The heading, the formula and, unless there is one unnamed column, the names of the columns.
            let is_headed = !(step.value.ncols() == 1 && step.shape_letters[1] == "1");
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
fn lines_fit_and_color_changes_nothing_else() {
    const DEPTHS: [ColorDepth; 3] = [ColorDepth::Ansi16, ColorDepth::Ansi256, ColorDepth::TrueColor];
    for trace in traces().iter().chain(&odds()).chain([&wide()]) {
        for (width, lang) in [(80, Lang::En), (80, Lang::Ja), (120, Lang::En), (48, Lang::En), (40, Lang::Ja)] {
            for depth in [TraceDetail::Shapes, TraceDetail::Steps, TraceDetail::All] {
                let options = with(*OPTIONS, |o| (o.depth, o.lang, o.width) = (depth, lang, width));
                let text = trace.to_text(&options);
                for line in text.lines() {
                    let wide = unicode_width(line);
                    assert!(wide <= width, "{wide} columns instead of {width}: {line}");
                    assert!(!line.chars().any(|c| c.is_control() || c == '\u{202e}'), "{line:?}");
                }
                for color in DEPTHS {
                    let colored = trace.to_text(&with(options, |o| o.color = color));
                    assert_eq!(strip(&colored), text);
                    assert_ne!(colored, text);
                }
            }
        }
        // No space may be left for the formula on a line.
        let steps = trace.to_text(&with(*OPTIONS, |o| (o.depth, o.digits, o.width) = (TraceDetail::Steps, 15, 40)));
        assert!(steps.lines().all(|line| unicode_width(line) <= 40), "{steps}");
        // Numbers are complete, however narrow the terminal and however many digits.
        let options = with(*OPTIONS, |o| (o.digits, o.width) = (15, 40));
        let text = trace.to_text(&options);
        assert!(text.lines().all(|line| unicode_width(line) <= 40), "{text}");
        for step in &trace.steps {
            let all_whole = step.value.iter().all(|x| !x.is_finite() || x.fract() == 0.0);
            if step.value[[0, 0]].is_finite() && !all_whole {
                assert!(text.contains(&format!(" {:.15}", step.value[[0, 0]])), "{}: {text}", step.name());
            }
        }
    }
}

#[test]
fn color_highlights_what_matters() {
    let options = with(TraceOptions::default(), |o| o.color = ColorDepth::Ansi16);
    let wide = wide().to_text(&options);
    let lines: Vec<&str> = wide.lines().collect();
    // The title and each heading, the truncation note, and the note on omitted numbers.
    assert_eq!(lines[0], "\u{1b}[1mreviews-model: causal self-attention, layer 3, head 2\u{1b}[0m");
    assert!(wide.contains("\u{1b}[33mThe text is longer than the model reads: the last 30 of 47 tokens"), "{wide}");
    assert!(wide.contains("\u{1b}[1m18. Attention weights (head 2)\u{1b}[0m"), "{wide}");
    assert!(wide.contains("\u{1b}[2m12 × 6 of 30 × 24 numbers are shown\u{1b}[0m"), "{wide}");
    assert!(wide.contains("\u{1b}[94m✓\u{1b}[0m each row sums to 1"), "{wide}");
    // The largest share has the lightest background and 0 the darkest; a masked key is quiet.
    let weights = wide.split("Attention weights").nth(1).unwrap().lines().nth(3).unwrap();
    assert!(weights.contains("\u{1b}[103;30m") && weights.contains("\u{1b}[40;97m"), "{weights:?}");
    let masked = wide.split("Masked scores").nth(1).unwrap().lines().nth(3).unwrap();
    assert!(
        masked.contains("\u{1b}[2m") && !masked.contains("\u{1b}[33m") && !masked.contains("\u{1b}[4"),
        "{masked:?}"
    );
    // An unexpected NaN or infinity is highlighted, and so is a failed check.
    let odd = odd().to_text(&options);
    assert!(odd.contains("\u{1b}[33m  NaN\u{1b}[0m") || odd.contains("NaN\u{1b}[0m"), "{odd}");
    assert!(
        odd.contains("\u{1b}[33m!\u{1b}[0m \u{1b}[33m1 number is not finite: it is shown as it is\u{1b}[0m"),
        "{odd}"
    );
}

#[test]
fn omissions_are_noted_in_every_form() {
    let wide = wide();
    let options = with(*OPTIONS, |o| (o.size, o.width) = (8, 80));
    let text = wide.to_text(&options);
    let first = part(&text, "1. Input");
    assert!(
        first[2].ends_with("  …") && first[3].ends_with("  …") && first[11].trim_start().starts_with('⋮'),
        "{first:?}"
    );
    assert!(first[12].ends_with(" of 30 × 24 numbers are shown"), "{first:?}");
    // Columns that do not fit are left out too.
    let whole = wide.to_text(&with(*OPTIONS, |o| (o.size, o.width) = (64, 80)));
    let first = part(&whole, "1. Input");
    assert!(first[2].ends_with("  …") && first[33].starts_with("   30 × "), "{first:?}");
    let (fits, all) = (part(&whole, "17. Sums"), wide.to_text(&with(*OPTIONS, |o| (o.size, o.width) = (64, 400))));
    assert!(!fits.iter().any(|line| line.contains("shown") || line.contains('⋮')), "{fits:?}");
    assert!(!all.contains("are shown\n") && !all.contains('⋮'));
    let markdown = wide.to_markdown(&options);
    let first = markdown.split("\n## ").nth(1).unwrap();
    assert_eq!(first.matches(" … |\n").count(), 10, "{first}");
    assert!(first.contains("\n| … |") && first.contains("8 × 8 of 30 × 24 numbers are shown"), "{first}");
    let latex = wide.to_latex(&options);
    let first = latex.split("\\begin{array}").nth(1).unwrap();
    assert_eq!((first.matches("\\cdots").count(), first.matches("\\vdots").count()), (9, 9), "{first}");
    let page = wide.to_html(&options);
    let first = figures(&page, &wide)[0];
    assert_eq!((first.matches('…').count(), first.matches('⋮').count()), (8, 9), "{first}");
    // A failed check is marked.
    let odd = odd();
    assert!(odd.to_markdown(&OPTIONS).contains("- **!** 1 number is not finite"), "{}", odd.to_markdown(&OPTIONS));
    assert!(
        odd.to_html(&OPTIONS).contains("<li class=\"bad\">Q: <span class=\"t\" lang=\"en\">1 number is not finite")
    );
}

#[test]
fn zero_has_no_sign_and_given_weights_keep_their_digits() {
    let trace = |inputs: &str| {
        WorkedExample::parse(&format!("{{\"title\": \"t\", \"inputs\": {inputs}}}")).unwrap().trace(0).unwrap()
    };
    let text = trace(r#"{"Q": [[-0.00001], [0.5]], "K": [[1]], "V": [[1]]}"#).to_text(&OPTIONS);
    assert!(part(&text, "1. Queries")[3].ends_with(" 0.0000") && !text.contains("-0.0000"), "{text}");
    for (weights, sums) in [("[[0.333, 0.333, 0.333]]", true), ("[[0.3, 0.3, 0.3]]", false)] {
        let trace = trace(&format!(r#"{{"weights": {weights}, "V": [[1], [2], [3]]}}"#));
        let step = trace.steps.iter().find(|step| step.name() == "weights").unwrap();
        assert_eq!(step.checks[0].holds, sums, "{weights}: {:?}", step.checks);
    }
}

/// Returns the lines of a step's part of the text.
fn part<'a>(text: &'a str, title: &str) -> Vec<&'a str> {
    let found = text.split("\n\n").find(|part| part.lines().next().is_some_and(|line| line.contains(title)));
    found.unwrap_or_else(|| panic!("no {title}: {text}")).lines().collect()
}

#[test]
fn nan_and_infinities_are_shown_in_every_form() {
    let (odd, one, infinite) = (odd(), one_token(), infinite());
    // A row without visible keys has −∞ throughout, no maximum, and weights 0; an attended NaN shows.
    let text = odd.to_text(&OPTIONS);
    let ends = |title: &str, i: usize, expected: &str| {
        let words: Vec<&str> = part(&text, title)[i].split_whitespace().collect();
        assert!(words.join(" ").ends_with(&format!(" {expected}")), "{title}, line {i}: {words:?}");
    };
    ends("Masked scores", 3, "-∞ -∞ -∞");
    ends("Largest score", 2, "-∞");
    ends("Attention weights", 3, "0.0000 0.0000 0.0000");
    ends("Queries", 3, "1.0000 NaN");
    ends("Keys", 4, "∞ 1");
    let text = infinite.to_text(&OPTIONS);
    let row = |title: &str, i: usize| -> Vec<&str> { part(&text, title)[i].split_whitespace().collect() };
    assert_eq!(row("2. Scores", 3)[1..], ["∞", "1.0000"]);
    assert_eq!(row("Attention weights", 3)[1..], ["NaN", "NaN"]);
    assert_eq!(row("Attention weights", 4)[1..], ["0.0000", "0.0000"]);
    for said in ["1 row sees nothing: its weights are 0", "4 numbers are not finite: they are shown as they are"] {
        assert!(part(&text, "Attention weights").iter().any(|line| line.contains(said)), "{said}: {text}");
    }
    // One line for each step names how many numbers are not finite, except the expected −∞ of a mask.
    let steps = |trace: &Trace, lang: Lang| -> Vec<String> {
        let text = trace.to_text(&with(*OPTIONS, |o| (o.depth, o.lang, o.width) = (TraceDetail::Steps, lang, 120)));
        text.lines().map(str::to_owned).collect()
    };
    let line = |lines: &[String], start: &str| -> String {
        lines.iter().find(|line| line.contains(start)).unwrap_or_else(|| panic!("no {start}: {lines:?}")).clone()
    };
    let [en, ja] = [Lang::En, Lang::Ja].map(|lang| steps(&infinite, lang));
    assert!(line(&en, " S given").ends_with("-0.5000 to 2.0000, 4 not finite"), "{en:?}");
    assert!(line(&ja, " S（入力）").ends_with("-0.5000 〜 2.0000、有限でない数 4 個"), "{ja:?}");
    let odd_steps = steps(&odd, Lang::En);
    assert!(line(&odd_steps, " Q given").ends_with(", 1 not finite"), "{odd_steps:?}");
    let forms = |trace: &Trace, lang: Lang| {
        let options = with(*OPTIONS, |o| o.lang = lang);
        // The page's script can write any number.
        let page = trace.to_html(&options).split("<script").next().unwrap().to_owned();
        [trace.to_text(&options), trace.to_markdown(&options), page, trace.to_latex(&options)]
    };
    for lang in [Lang::En, Lang::Ja] {
        for (form, name) in forms(&odd, lang).iter().zip(["text", "md", "html", "latex"]) {
            let infinity = if name == "latex" { "-\\infty" } else { "-∞" };
            let empty = lang.code() == "en" && form.contains("1 row sees nothing: its weights are 0")
                || lang.code() == "ja" && form.contains("何も見えない行が 1 行あり、重みはすべて 0");
            assert!(form.contains("NaN") && form.contains(infinity) && empty, "{name}: {form}");
        }
        for (form, name) in forms(&one, lang).iter().zip(["text", "md", "html", "latex"]) {
            assert!(!form.contains("NaN") && form.contains("1 × 1") | form.contains("1 \\times 1"), "{name}: {form}");
        }
    }
    let json = infinite.to_json(Lang::En);
    assert_eq!(
        json["steps"][1]["matrix"],
        serde_json::json!([["inf", 1.0], ["-inf", "-inf"], [2.0, "nan"], [0.0, -0.5]])
    );
    let json = one.to_json(Lang::En);
    let weights = json["steps"].as_array().unwrap().iter().find(|step| step["name"] == "weights").unwrap();
    assert_eq!((&weights["matrix"], &weights["shape"]), (&serde_json::json!([[1.0]]), &serde_json::json!([1, 1])));
}

#[test]
fn model_traces_name_their_place_in_both_languages() {
    let trace = wide();
    let (english, japanese) = (
        "reviews-model: causal self-attention, layer 3, head 2",
        "reviews-model: 因果的セルフアテンション、第 3 層、ヘッド 2",
    );
    let cases = [(Lang::En, english, japanese), (Lang::Ja, japanese, english)];
    for (lang, said, other) in cases {
        let options = with(*OPTIONS, |o| o.lang = lang);
        let first = |text: String| text.lines().next().unwrap().to_owned();
        assert_eq!(first(trace.to_text(&options)), said);
        assert_eq!(first(trace.to_markdown(&options)), format!("# {said}"));
        let latex = trace.to_latex(&options);
        assert!(latex.contains(&format!("\\section*{{{said}}}")) && !latex.contains(other), "{latex}");
        let page = trace.to_html(&options);
        assert!(page.contains(&format!("<title>{said} – Chumoku</title>")), "{page}");
        let heading = page.split("<h1>").nth(1).unwrap().split("</h1>").next().unwrap();
        // On a page no line breaks inside 第 3 層.
        let on_page = chumoku_view::join_ordinals(japanese);
        assert!(
            on_page != japanese
                && heading.contains(&format!("lang=\"en\">{english}<"))
                && heading.contains(&format!("lang=\"ja\">{on_page}<"))
        );
        #[cfg(feature = "spreadsheets")]
        {
            let xlsx = shared_strings(&trace.to_xlsx(&options).unwrap());
            assert!(xlsx.iter().any(|text| text == said) && !xlsx.iter().any(|text| text == other), "{xlsx:?}");
        }
        let json = trace.to_json(lang);
        assert_eq!(json["title"], said);
        // Keys and names for programs are the same in all languages.
        let model = serde_json::json!({"name": "reviews-model", "attention": "causal", "layer": 3, "head": 2});
        assert_eq!(json["model"], model);
        assert_eq!(json["cut"]["part"], "last");
        let weights = json["steps"].as_array().unwrap().iter().find(|step| step["name"] == "weights").unwrap();
        assert_eq!((&weights["head"], &weights["symbol"]), (&2.into(), &"A[2]".into()));
        assert_eq!((&json["cut"]["read"], &json["cut"]["tokens"]), (&30.into(), &47.into()));
    }
    // A sum of many terms counts the omitted ones, in both languages.
    let text = trace.to_text(&with(*OPTIONS, |o| o.lang = Lang::Ja));
    assert!(text.contains("…（他 16 項）") && !text.contains("more"), "{text}");
    assert!(builtin("book").unwrap().trace(0).unwrap().to_json(Lang::Ja)["model"].is_null());
}

#[test]
fn grouped_heads_show_their_shared_keys() {
    // Six heads of width 2 share three key heads: heads 1 and 2 the first, 3 and 4 the second, 5 and 6 the third.
    let row = |from: i32, count: i32| format!("{:?}", (from..from + count).collect::<Vec<_>>());
    let rows = |count: i32| format!("[{}, {}]", row(1, count), row(3, count));
    let file = format!(
        r#"{{"inputs": {{"Q": {}, "K": {}, "V": {}}}, "options": {{"num_heads": 6, "num_key_heads": 3, "rotary_base": 100}}}}"#,
        rows(12),
        rows(6),
        rows(6)
    );
    let example = WorkedExample::parse(&file).unwrap();
    for head in 0..6 {
        let trace = example.trace(head).unwrap();
        let of = |name: &str| -> Vec<&TraceStep> {
            trace.steps.iter().filter(|step| step.name() == name && step.head.is_some()).collect()
        };
        let [keys, turned] = [of("K"), of("rotated_K")];
        assert_eq!((keys.len(), turned.len()), (1, 1), "head {}", head + 1);
        let (key, turned) = (keys[0], turned[0]);
        assert_eq!(key.head, Some(head / 2));
        // The first position is not rotated.
        assert_eq!(key.value.row(0), turned.value.row(0), "head {}", head + 1);
        let scores = of("scores")[0].formula.as_ref().unwrap().text.clone();
        assert!(scores.contains(&format!("{}ᵀ", turned.symbol)), "{scores}: {}", turned.symbol);
    }
}

/// Width in columns of a terminal: Japanese letters take two.
fn unicode_width(line: &str) -> usize {
    let wide = |c: char| ('\u{3000}'..='\u{9fff}').contains(&c) || ('\u{ff01}'..='\u{ff60}').contains(&c);
    line.chars().map(|c| if wide(c) { 2 } else { usize::from(!('\u{300}'..='\u{36f}').contains(&c)) }).sum()
}

#[test]
fn markdown_shows_every_number() {
    for trace in traces().iter().chain(&odds()) {
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
    for trace in traces().iter().chain(&odds()) {
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
fn html_shows_every_number_and_runs_only_its_script() {
    for trace in traces().iter().chain(&odds()) {
        let page = trace.to_html(&OPTIONS);
        for (step, part) in trace.steps.iter().zip(figures(&page, trace)) {
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
        // The page has its data and the one script that the policy allows.
        assert_eq!((page.matches("<script").count(), page.matches("</script>").count()), (2, 2), "{page}");
        assert!(page.contains("default-src 'none'; script-src 'sha256-"), "{page}");
        for lang in ["English", "日本語", "default-src 'none'"] {
            assert!(page.contains(lang));
        }
        assert!(!page.contains("http://") && !page.contains("https://"));
    }
}

#[test]
fn html_colors_numbers_and_frames_the_expanded_one() {
    for trace in traces().iter().chain(&odds()) {
        let page = trace.to_html(&OPTIONS);
        for (step, part) in trace.steps.iter().zip(figures(&page, trace)) {
            let body = part.split("<tbody>").nth(1).unwrap().split("</tbody>").next().unwrap();
            let largest = step.value.iter().filter(|x| x.is_finite()).fold(0.0f64, |most, x| most.max(x.abs()));
            for (row, line) in body.lines().filter(|line| line.starts_with("<tr>")).enumerate() {
                for (column, cell) in line.split("<td").skip(1).enumerate() {
                    let tag = cell.split('>').next().unwrap();
                    let mut classes: Vec<&str> = tag.split('"').nth(1).unwrap_or("").split_whitespace().collect();
                    let is_framed = classes.last() == Some(&"at");
                    let framed = step.expansion.as_ref().map(|expansion| expansion.index);
                    assert_eq!(is_framed, framed == Some([row, column]), "{}[{row}, {column}]", step.name());
                    classes.retain(|class| *class != "at");
                    let x = step.value[[row, column]];
                    let expected = match (x.abs() / largest * 8.0).round() {
                        _ if !x.is_finite() => vec!["none".to_owned()],
                        level if level >= 1.0 => vec![format!("{}{level}", if x < 0.0 { 'm' } else { 'p' })],
                        _ => Vec::new(),
                    };
                    assert_eq!(classes, expected, "{}[{row}, {column}]", step.name());
                }
            }
        }
    }
}

#[test]
fn json_contains_every_exact_number() {
    for trace in traces().iter().chain(&odds()) {
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
fn expansions_evaluate_to_their_numbers() {
    let mut count = 0;
    for trace in traces().iter().chain(&odds()) {
        for step in &trace.steps {
            let Some(expansion) = &step.expansion else { continue };
            count += 1;
            let [i, j] = expansion.index;
            assert_eq!(expansion.result, step.value[[i, j]], "{}", step.name());
            let worked = expansion.evaluate();
            let (a, b) = (worked, expansion.result);
            assert!((a - b).abs() <= 1e-9 * (1.0 + b.abs()), "{} of {}: {a} is not {b}", step.name(), trace.title.text);
        }
    }
    assert!(count > 100, "{count}");
}

#[test]
fn checks_hold_and_anomalies_are_noted() {
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

/// Returns the texts of a spreadsheet.
#[cfg(feature = "spreadsheets")]
fn shared_strings(xlsx: &[u8]) -> Vec<String> {
    use std::io::Read;
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(xlsx)).unwrap();
    let mut strings = String::new();
    archive.by_name("xl/sharedStrings.xml").unwrap().read_to_string(&mut strings).unwrap();
    let texts = strings.split("<si>").skip(1);
    texts.map(|text| text.split('>').nth(1).unwrap().split('<').next().unwrap().to_owned()).collect()
}

#[test]
fn formulas_name_their_operands() {
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

/// Returns whether a program is installed; prints a notice if not.
fn tool(name: &str) -> bool {
    let is_there = Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("SKIPPED: {name} is not installed");
    }
    is_there
}

#[test]
fn latex_compiles() {
    let found = Command::new("kpsewhich").arg("luatexja.sty").output();
    if !tool("lualatex") || !found.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: no LuaLaTeX with luatexja");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let japanese = with(*OPTIONS, |o| o.lang = Lang::Ja);
    // Every operation, for the first head, whose number could be mistaken for a placeholder in a formula.
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
    let rms = r#"{"inputs": {"X": [[3, 4], [0, -1]], "W_Q": [[1, 0], [0, 1]], "W_K": [[1, 0], [1, 1]],
        "W_V": [[1, 2], [0, 1]], "gamma": [2, 1]}, "options": {"norm": "pre", "rms_norm": true}}"#;
    let whole = r#"{"inputs": {"Q": [[1, 2], [2, 1]], "K": [[1, 0], [1, 1]], "V": [[1, 2], [0, 1]], "gamma_Q": [2, 1],
        "rotary_speeds": [0.5], "W_dense": [[1, 0], [2, 1]]},
        "options": {"head_norm_epsilon": 0, "pooling": "mean_sqrt_length", "dense_tanh": true, "unit_length": true}}"#;
    let network = |activation: &str| {
        let file = r#"{"inputs": {"X": [[1, 2], [0, -1]], "W_1": [[1, 0, -1], [0, 1, 1]], "W_gate": [[2, 0, 0], [0, 1, 0]],
            "W_2": [[1, 0], [0, 1], [1, 1]], "gamma_2": [2, 1], "norm_beta_2": [1, 0]},
            "options": {"activation": "NAME", "norm_2": "post"}}"#;
        WorkedExample::parse(&file.replace("NAME", activation)).unwrap().trace(0).unwrap().to_latex(&OPTIONS)
    };
    // Wider than a page.
    let row = |of: usize| (0..40).map(|i| ((i * 7 + of) % 11) as f64 / 7.0).collect::<Vec<_>>();
    let wide = serde_json::json!({ "inputs": { "Q": [row(1), row(2)], "K": [row(3), row(5)], "V": [row(4), row(6)] } });
    let wide = WorkedExample::parse(&wide.to_string()).unwrap().trace(0).unwrap();
    let documents = [
        ("wide", wide.to_latex(&with(*OPTIONS, |o| (o.digits, o.size) = (6, 64)))),
        ("relu", network("relu")),
        ("gelu", network("gelu")),
        ("gelu_tanh", network("gelu_tanh")),
        ("silu", network("silu")),
        ("whole", WorkedExample::parse(whole).unwrap().trace(0).unwrap().to_latex(&OPTIONS)),
        ("rms", WorkedExample::parse(rms).unwrap().trace(0).unwrap().to_latex(&OPTIONS)),
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
        assert!(!said.contains("Missing character") && !said.contains("Overfull \\hbox"), "{name}: {said}");
        assert!(folder.path().join(format!("{name}.pdf")).exists());
    }
}

/// Traces a tiny published language model of the golden files.
fn published(name: &str) -> Trace {
    let folder = published_folder(name);
    let model = chumoku::TextGenerator::load(folder.path()).unwrap();
    let place = chumoku_trace::HeadSelection { layer: Some(0), head: 1 };
    let text = "t5 t7 t9 t5 t11 t4 t8 t30 t2 t7 t1 t19";
    let trace = Trace::from_model(model.record(text, place).unwrap(), name).unwrap();
    for (name, difference) in &trace.agreements[0].largest_differences {
        assert!(*difference < 1e-5, "{name}: {difference}");
    }
    assert!(trace.steps.iter().flat_map(|step| &step.checks).all(|check| check.holds));
    trace
}

fn formula<'a>(trace: &'a Trace, name: &str) -> &'a str {
    let step = trace.steps.iter().find(|step| step.name() == name);
    step.and_then(|step| step.formula.as_ref()).map_or("", |formula| &formula.text)
}

#[test]
fn published_language_models_are_traced_with_rms_norms() {
    let trace = published("llama");
    let norm = trace.steps.iter().find(|step| step.name() == "norm").unwrap();
    assert!(norm.formula.as_ref().unwrap().text.contains("mean("), "{:?}", norm.formula);
    assert!(norm.checks.iter().all(|check| check.holds));
}

#[test]
fn norms_of_heads_are_traced() {
    let trace = published("qwen3");
    assert_eq!(formula(&trace, "normalised_Q"), "Q_n[2] = γ_Q · Q[2] / √(mean(Q[2]²) + ε)");
    assert!(formula(&trace, "rotated_Q").starts_with("Q′[2] = rotate(Q_n[2]; position · 1000000"));
    let gamma = trace.steps.iter().find(|step| step.name() == "gamma_K").unwrap();
    assert_eq!(gamma.shape_letters, ["1", "d_k"]);
    assert!(gamma.formula.is_none() && gamma.value.iter().any(|x| *x != 1.0));
}

#[test]
fn scaled_rotary_angles_are_inputs() {
    let trace = published("llama_scaled");
    let speeds = trace.steps.iter().find(|step| step.name() == "rotary_speeds").unwrap();
    assert_eq!((speeds.shape_letters[1].as_str(), speeds.value.nrows()), ("d_k/2", 1));
    let width = 2 * speeds.value.ncols();
    // Fast angles stay; the slowest is an eighth of the angle from the base.
    let of_base = |i: usize| 10000f64.powf(-2.0 * i as f64 / width as f64);
    let last = speeds.value.ncols() - 1;
    assert!((speeds.value[[0, 0]] - 1.0).abs() < 1e-9, "{}", speeds.value);
    assert!((speeds.value[[0, last]] * 8.0 - of_base(last)).abs() < 1e-9 * of_base(last), "{}", speeds.value);
    assert!(formula(&trace, "rotated_Q").ends_with("; position · ω)"), "{}", formula(&trace, "rotated_Q"));
    let turned = trace.steps.iter().find(|step| step.name() == "rotated_K").unwrap();
    let expansion = turned.expansion.as_ref().unwrap();
    assert!((expansion.evaluate() - expansion.result).abs() < 1e-12);
}
