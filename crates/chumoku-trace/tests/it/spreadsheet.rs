//! Spreadsheets of traces recalculate: every computed number is a formula, and a changed input gives the numbers of a
//! new trace. A small evaluator recalculates them here, and LibreOffice if it is installed.

use crate::common::layers::{layers, recurrents, stepped};
use crate::common::spreadsheet::{Book, Calculated, Cell, CellChange, Place, Value, stripped};
use crate::common::traces::{INFINITE, ODD, infinite, number, odd, one_token};
use crate::common::{Numbers, with};
use chumoku::train::{Training, train};
use chumoku::{TextClassifier, builtin as data};
use chumoku_trace::{HeadSelection, StepKind, Trace, TraceOptions, TraceStep, WorkedExample, builtin, builtin_names};
use chumoku_view::Lang;
use serde_json::{Value as Json, json};
use std::path::Path;
use std::process::Command;
use std::sync::{LazyLock, OnceLock};

static OPTIONS: LazyLock<TraceOptions> =
    LazyLock::new(|| with(TraceOptions::default(), |o| (o.size, o.width) = (64, 240)));

/// A traced file and one of its heads.
struct Case {
    name: String,
    file: Json,
    head: usize,
}

impl Case {
    fn trace(&self) -> Trace {
        example(&self.file).trace(self.head).unwrap_or_else(|problem| panic!("{}: {problem}", self.name))
    }
}

fn example(file: &Json) -> WorkedExample {
    WorkedExample::parse(&file.to_string()).unwrap_or_else(|problem| panic!("{problem}: {file}"))
}

/// Examples with every operation, and heads of every kind.
const RICH: [(&str, &str); 21] = [
    (
        // Rotary positions, ALiBi, a causal mask and γ; two query heads share each key head.
        "grouped",
        r#"{"inputs": {"X": [[1, 2, 3, 4], [2, 1, 0, 1], [0, -1, 1, 2]],
            "W_Q": [[1, 0, 0, 1, 2, 0, 1, 0], [0, 1, 0, 0, 1, 1, 0, 2], [0, 0, 1, 0, 0, 1, 1, 0], [1, 0, 0, 1, 0, 0, 2, 1]],
            "W_K": [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]], "b_K": [0.5, 0, -0.5, 1],
            "W_V": [[1, 0], [0, 1], [1, 1], [0, 2]], "W_O": [[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 2, 1]],
            "b_O": [1, 2, 3, 4], "gamma": [1, 2, 0.5, 1]},
            "options": {"num_heads": 4, "num_key_heads": 2, "rotary_base": 100, "alibi_slopes": [0.5, 0.25, 0.125, 1],
            "causal": true, "scale": 0.3, "norm": "pre"}}"#,
    ),
    (
        // The output is the concatenated heads; no maximum is subtracted.
        "joined",
        r#"{"inputs": {"Q": [[1, 2], [0.5, 1]], "K": [[1, 0], [2, 1], [0, 3]], "V": [[1, 0, 2, 1], [0, 1, 3, 1], [2, 2, 1, 0]]},
            "options": {"num_heads": 2, "subtract_max": false, "mask": [[0, 1, "-inf"], [0.5, 0, 0]]}}"#,
    ),
    (
        "given by head",
        r#"{"inputs": {"Q": [[[1, 2]], [[0, 1]]], "K": [[[1, 0], [1, 1]], [[2, 1], [0, 3]]], "V": [[[1], [2]], [[3], [4]]],
            "W_O": [[1, 2], [3, 4]]}}"#,
    ),
    ("weights by head", r#"{"inputs": {"weights": [[[0.25, 0.75]], [[0.5, 0.5]]], "V": [[1, 2], [3, 4]]}}"#),
    (
        "hard",
        r#"{"inputs": {"Q": [[1, 2], [2, 1]], "K": [[1, 0], [3, 1]], "V": [[1, 0], [0, 1]]},
            "options": {"num_heads": 2, "hard": true, "window": 0}}"#,
    ),
    (
        "memory",
        r#"{"inputs": {"X": [[1, 2], [3, 1]], "memory": [[1, 0, 1], [2, 1, 0], [0, 0, 1]], "W_Q": [[1, 2], [0, 1]],
            "W_K": [[1, 0], [1, 1], [0, 2]], "W_V": [[1, 0], [0, 1], [1, 1]], "W_O": [[1, 0], [0, 1]], "norm_beta": [1, 2],
            "gamma": [2, 1]}, "options": {"num_heads": 2, "norm": "post", "epsilon": 0.00000001, "beta": 0.7}}"#,
    ),
    (
        "RMS norm before",
        r#"{"inputs": {"X": [[3, 4], [0, -1]], "W_Q": [[1, 0], [0, 1]], "W_K": [[1, 0], [1, 1]], "W_V": [[1, 2], [0, 1]],
            "W_O": [[1, 0], [1, 1]], "gamma": [2, 1]},
            "options": {"norm": "pre", "rms_norm": true, "epsilon": 0.000001, "causal": true}}"#,
    ),
    (
        "RMS norm behind",
        r#"{"inputs": {"X": [[3, 4], [0, -1]], "W_Q": [[1, 0], [0, 1]], "W_K": [[1, 0], [1, 1]], "W_V": [[1, 2], [0, 1]]},
            "options": {"norm": "post", "rms_norm": true}}"#,
    ),
    (
        // The second query sees no key, so its maximum score is −∞.
        "nothing seen",
        r#"{"inputs": {"Q": [[1, 2], [0.5, 1]], "K": [[1, 0], [2, 1]], "V": [[1, 0], [0, 1]]},
            "options": {"num_heads": 2, "mask": [[true, true], [false, false]]}}"#,
    ),
    (
        // Norms of heads with γ, and given angles; two query heads share one key head.
        "norms of heads",
        r#"{"inputs": {"X": [[1, 2, 3, 4], [2, 1, 0, 1], [0, -1, 1, 2]], "W_Q": [[1, 0, 0, 1, 2, 0, 1, 0],
            [0, 1, 0, 0, 1, 1, 0, 2], [0, 0, 1, 0, 0, 1, 1, 0], [1, 0, 0, 1, 0, 0, 2, 1]],
            "W_K": [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]], "W_V": [[1, 0], [0, 1], [1, 1], [0, 2]],
            "gamma_Q": [1, 2, 0.5, 1], "gamma_K": [2, 1, 1, 0.5], "rotary_speeds": [0.75, 0.01]},
            "options": {"num_heads": 2, "num_key_heads": 1, "head_norm_epsilon": 0.000001, "causal": true}}"#,
    ),
    (
        "a vector",
        r#"{"inputs": {"weights": [[0.25, 0.75], [1, 0]], "V": [[1, 2], [3, 4]], "hidden": [[1, 2], [3, -4], [0, 1]],
            "W_dense": [[0.1, 0.2, 0.3], [0, 0.4, 0.1]], "b_dense": [0.5, 0, -1]},
            "options": {"pooling": "mean", "dense_tanh": true, "unit_length": true}}"#,
    ),
    (
        "the largest of all rows",
        r#"{"inputs": {"weights": [[0.25, 0.75], [1, 0]], "V": [[1, 2], [3, 4]]},
            "options": {"pooling": "max", "unit_length": true}}"#,
    ),
    (
        "a feed-forward network behind attention",
        r#"{"inputs": {"X": [[1, 2], [3, 1]], "W_Q": [[1, 2], [0, 1]], "W_K": [[1, 0], [1, 1]], "W_V": [[1, 0], [0, 1]],
            "W_1": [[1, 0, -1], [0.5, 1, 2]], "b_1": [0, -1, 0.5], "W_2": [[1, 0], [0, 1], [-1, 1]], "b_2": [0.5, 2],
            "gamma_2": [2, 1], "norm_beta_2": [0.5, 0]},
            "options": {"num_heads": 2, "norm": "post", "activation": "gelu", "norm_2": "post"}}"#,
    ),
    (
        "a gated network",
        r#"{"inputs": {"X": [[1, 2], [3, -1]], "W_1": [[1, 0, -1], [0.5, 1, 2]], "W_gate": [[1, 1, 0], [0, 2, -1]],
            "b_gate": [1, 0, 0.5], "W_2": [[1, 0], [0, 1], [-1, 1]], "gamma_2": [2, 1]},
            "options": {"activation": "silu", "norm_2": "pre", "rms_norm_2": true, "epsilon_2": 0.000001}}"#,
    ),
    (
        "classes of a text",
        r#"{"inputs": {"weights": [[0.25, 0.75], [1, 0]], "V": [[1, 2], [3, 4]], "W_class": [[8, 1], [0, 2]],
            "b_class": [0.5, 0], "target": [[1, 0]]}, "options": {"pooling": "first"}}"#,
    ),
    (
        "classes of tokens",
        r#"{"inputs": {"weights": [[0.25, 0.75], [1, 0]], "V": [[1, 2], [3, 4]], "W_class": [[1, -1, 0], [0, 0.5, 2]],
            "target": [[0.5, 0.25, 0.25], [0, 1, 0]]}}"#,
    ),
    (
        "a classifier's head",
        r#"{"inputs": {"weights": [[0.25, 0.75], [1, 0]], "V": [[1, 2], [3, 5]], "gamma_last": [2, 1], "norm_beta_last": [0, 1],
            "W_dense": [[1, 2, -1], [0, 1, 1]], "b_dense": [0.5, 0, -1], "gamma_dense": [1, 0.5, 2],
            "W_class": [[1, 0], [0, 2], [1, 1]], "target": [[1, 0]]}, "options": {"last_norm": "layer", "pooling": "mean",
            "dense_activation": "gelu", "dense_norm": "rms", "epsilon_dense": 0.001}}"#,
    ),
    (
        // exp(−2000) is 0 and has no logarithm; the first target does not need it.
        "a class without probability",
        r#"{"inputs": {"weights": [[1]], "V": [[1, 0]], "W_class": [[2000, 0], [0, 1]], "target": [[1, 0]]},
            "options": {"pooling": "mean"}}"#,
    ),
    ("the right class without probability", r#"{"inputs": {"logits": [[2000, 0]], "target": [[0.5, 0.5]]}}"#),
    (
        "activations",
        r#"{"inputs": {"weights": [[[0.25, 0.75]], [[0.5, 0.5]]], "V": [[1, 2], [3, -4]], "W_1": [[1, 0, -1], [0.5, 1, 2]],
            "W_2": [[1], [2], [-1]]}, "options": {"activation": "gelu_tanh"}}"#,
    ),
    (
        "embeddings",
        r#"{"inputs": {"embeddings": [[1, 2], [0, 1]], "positions": [[0, 1], [0.5, 0.5]], "W_Q": [[1, 2], [0, 1]],
            "W_K": [[1, 0], [1, 1]], "W_V": [[1, 0], [0, 1]]}, "options": {"causal": true, "residual": true}}"#,
    ),
];

/// Returns every built-in example with matrices and those above, for each head.
fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("worked");
    let built_in = builtin_names()
        .map(|name| (name.to_owned(), std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap()));
    let rich = RICH.iter().map(|(name, file)| ((*name).to_owned(), (*file).to_owned()));
    let mut cases = Vec::new();
    for (name, file) in built_in.chain(rich) {
        let file: Json = serde_json::from_str(&file).unwrap();
        let example = example(&file);
        let heads = (0..).take_while(|head| example.trace(*head).is_ok()).count();
        cases.extend((0..heads).map(|head| Case { name: name.clone(), file: file.clone(), head }));
    }
    assert!(cases.len() >= 24, "{}", cases.len());
    cases
}

/// A trained model.
fn classifier() -> &'static TextClassifier {
    static MODEL: OnceLock<TextClassifier> = OnceLock::new();
    MODEL.get_or_init(|| {
        let mut reviews = data::reviews();
        for rows in [&mut reviews.train, &mut reviews.valid, &mut reviews.test] {
            rows.texts.truncate(40);
            rows.labels.truncate(40);
        }
        let folder = tempfile::tempdir().unwrap();
        let mut training = Training::new(folder.path());
        training.options.epochs = Some(1);
        training.options.overrides = "layers=2,width=32,heads=4".parse().unwrap();
        train(&reviews, training).unwrap();
        TextClassifier::load(folder.path()).unwrap()
    })
}

/// A trace of the model, and the file of its inputs.
fn model() -> &'static (Trace, Case) {
    static MODEL: OnceLock<(Trace, Case)> = OnceLock::new();
    MODEL.get_or_init(|| {
        let trace = Trace::from_model(
            classifier().record("Slow and cold.", HeadSelection { layer: None, head: 1 }).unwrap(),
            "reviews-model",
        )
        .unwrap();
        let heads = 1 + trace.steps.iter().chain(&trace.hidden_steps).filter_map(|step| step.head).max().unwrap();
        assert!(heads > 2, "{heads}");
        let mut inputs = serde_json::Map::new();
        for step in trace.steps.iter().filter(|step| step.formula.is_none()) {
            let rows: Vec<Vec<f64>> = step.value.rows().into_iter().map(|row| row.to_vec()).collect();
            inputs.insert(step.name().to_owned(), json!(rows));
        }
        let is_rotary = trace.steps.iter().any(|step| step.name() == "rotated_Q");
        let is_pre = trace.steps.iter().any(|step| step.name() == "norm");
        let mut options = json!({"num_heads": heads, "norm": if is_pre { "pre" } else { "post" }, "epsilon": 1e-5});
        if is_rotary {
            options["rotary_base"] = json!(10_000.0);
        }
        (options["activation"], options["norm_2"]) = (json!("gelu"), options["norm"].clone());
        // As trained: the mean of the rows, normalized after the last layer.
        options["pooling"] = json!("mean");
        if is_pre {
            options["last_norm"] = json!("layer");
        }
        assert_eq!(trace.steps.last().unwrap().name(), "probabilities");
        let file = json!({"inputs": inputs, "options": options});
        (trace, Case { name: "model".into(), file, head: 1 })
    })
}

/// Returns each step of a trace and the cell of its first number. The displayed head is on the first sheet, the others
/// are on the second.
fn blocks(trace: &Trace) -> Vec<(&TraceStep, Place)> {
    let mut found = Vec::new();
    for (sheet, steps) in [&trace.steps, &trace.hidden_steps].into_iter().enumerate() {
        let mut row = 4;
        for step in steps {
            found.push((step, (sheet, row + 3, 1)));
            row += step.value.nrows() + 4;
        }
    }
    found
}

fn is_near(found: f64, truth: f64) -> bool {
    let is_close = truth.is_finite() && (found - truth).abs() <= 1e-9 * (1.0 + truth.abs());
    found == truth || (found.is_nan() && truth.is_nan()) || is_close
}

/// Checks that every recalculated cell equals the trace, and that weights have their sum next to them.
fn assert_comes_to(name: &str, trace: &Trace, cell: impl Fn(Place) -> f64) {
    for (step, (sheet, top, column)) in blocks(trace) {
        for ((i, j), &truth) in step.value.indexed_iter() {
            let found = cell((sheet, top + i, column + j));
            let title = step.title(Lang::En);
            assert!(is_near(found, truth), "{name}: {title}[{i}, {j}]: the sheet says {found}, the trace {truth}");
        }
        for (i, row) in step
            .value
            .rows()
            .into_iter()
            .enumerate()
            .filter(|_| step.name() == "weights" && step.kind == StepKind::Value)
        {
            let (found, truth) = (cell((sheet, top + i, column + row.len())), row.sum());
            assert!(is_near(found, truth), "{name}: sum of row {i}: the sheet says {found}, the trace {truth}");
        }
    }
}

/// Returns the value of a recalculated cell.
fn shown(sheets: &Calculated<'_>, at: Place) -> f64 {
    match sheets.value(at) {
        Value::Number(x) => x,
        Value::Text(text) => number(&text),
        other => panic!("{at:?}: {other:?}"),
    }
}

/// Returns an input with another number: its step, its place, and the changed file. Always-equal inputs are skipped.
fn changed(case: &Case, trace: &Trace, draw: &mut Numbers) -> ((Place, f64), Case) {
    let mut below = |n: usize| ((draw.next() * n as f32) as usize).min(n - 1);
    // The rows of a target would have another sum.
    let is_free = |step: &TraceStep| step.formula.is_none() && step.kind == StepKind::Value && step.name() != "target";
    let given: Vec<_> = blocks(trace).into_iter().filter(|(step, _)| is_free(step)).collect();
    let (step, (sheet, row, column)) = given[below(given.len())];
    let [i, j] = [below(step.value.nrows()), below(step.value.ncols())];
    let x = (step.value[[i, j]] + f64::from(draw.next()) * 3.0 - 1.0) * 1.25;
    let mut file = case.file.clone();
    let mut matrix = &mut file["inputs"][step.name()];
    if let Some(head) = step.head.filter(|_| matrix[0][0].is_array()) {
        matrix = &mut matrix[head];
    }
    let entry = if matrix[0].is_array() { &mut matrix[i][j] } else { &mut matrix[j] };
    assert!(!entry.is_null(), "{}: {}[{i}][{j}]", case.name, step.name());
    *entry = json!(x);
    (((sheet, row + i, column + j), x), Case { name: case.name.clone(), file, head: case.head })
}

#[test]
fn computed_cells_have_formulas_and_results() {
    let traces = cases().into_iter().map(|case| (case.name.clone(), case.trace()));
    let odds = [("odd", odd()), ("one", one_token()), ("infinite", infinite())].map(|(name, t)| (name.to_owned(), t));
    for (name, trace) in traces.chain(odds).chain([("model".to_owned(), model().0.clone())]) {
        let book = Book::read(&trace.to_xlsx(&OPTIONS).unwrap());
        assert_eq!(book.sheets.len(), if trace.hidden_steps.is_empty() { 1 } else { 2 });
        let mut numbers = 0;
        for (step, (sheet, row, column)) in blocks(&trace) {
            for ((i, j), &truth) in step.value.indexed_iter() {
                let at = (sheet, row + i, column + j);
                let (is_formula, result) = match book.cells.get(&at) {
                    Some(Cell::Formula(_, result)) => (true, number(result)),
                    Some(Cell::Number(x)) => (false, *x),
                    Some(Cell::Text(text)) => (false, number(text)),
                    None => panic!("{name}: {}[{i}, {j}] is missing", step.name()),
                };
                assert_eq!(is_formula, step.formula.is_some(), "{name}: {}[{i}, {j}]", step.name());
                assert!(result == truth || (result.is_nan() && truth.is_nan()), "{name}: {}[{i}, {j}]", step.name());
                numbers += 1;
            }
            if step.name() == "weights" {
                let sums = (0..step.value.nrows()).map(|i| (sheet, row + i, column + step.value.ncols()));
                sums.for_each(|at| assert!(matches!(book.cells[&at], Cell::Formula(..)), "{name}: {at:?}"));
                numbers += step.value.nrows();
            }
        }
        // No other cell holds a number.
        let all = book.cells.values().filter(|cell| !matches!(cell, Cell::Text(_))).count();
        let given = blocks(&trace).into_iter().filter(|(step, _)| step.formula.is_none());
        let texts: usize = given.map(|(step, _)| step.value.iter().filter(|x| !x.is_finite()).count()).sum();
        assert_eq!(all + texts, numbers, "{name}");
    }
}

#[test]
fn formulas_recalculate_after_every_change() {
    let mut draw = Numbers::new(21);
    let (own, of_model) = model();
    let again = of_model.trace();
    assert_eq!(own.steps.len(), again.steps.len(), "the file is the model's");
    for (a, b) in own.steps.iter().chain(&own.hidden_steps).zip(again.steps.iter().chain(&again.hidden_steps)) {
        assert_eq!((a.name(), &a.value), (b.name(), &b.value));
    }
    for case in cases().iter().chain([of_model]) {
        let trace = case.trace();
        let book = Book::read(&trace.to_xlsx(&OPTIONS).unwrap());
        let sheets = book.calculated();
        assert_comes_to(&case.name, &trace, |at| shown(&sheets, at));
        for _ in 0..if case.name == "model" { 2 } else { 12 } {
            let ((at, x), new) = changed(case, &trace, &mut draw);
            let mut book = book.clone();
            assert!(matches!(book.cells.insert(at, Cell::Number(x)), Some(Cell::Number(_))));
            let sheets = book.calculated();
            assert_comes_to(&format!("{} with {x} at {at:?}", case.name), &new.trace(), |at| shown(&sheets, at));
        }
    }
}

/// Examples with gradients, which use every rule, and with steps of AdamW.
fn with_gradients() -> Vec<Case> {
    let heads = r#"{"inputs": {"X": [[1, 0.5, -1, 2], [0, 1, 0.25, -0.5]], "W_Q": [[1, 0], [0, 1], [0.5, 1], [0, 1]],
        "W_K": [[0, 1], [1, 1], [0.5, 0.25], [0, 1]], "b_K": [0.3, 0], "W_V": [[1, 0], [0, 1], [0.5, 0], [0, -1]],
        "W_O": [[1, 0, 0, 0.5], [0, 1, 0, 0]], "W_class": [[1, 0, -1], [0, 1, 0.5], [0.5, 0.5, 0], [1, -1, 0]],
        "target": [[0, 1, 0], [0.5, 0.25, 0.25]]}, "options": {"num_heads": 2, "causal": true, "residual": true}}"#;
    let built_in = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("worked/{name}.json"));
        let mut file: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        file.as_object_mut().unwrap().remove("claims");
        file
    };
    let mut cases = vec![
        Case { name: "review".into(), file: built_in("review-loss"), head: 0 },
        Case { name: "heads backward".into(), file: serde_json::from_str(heads).unwrap(), head: 1 },
        Case { name: "training step".into(), file: built_in("training-step"), head: 0 },
        Case { name: "stepped".into(), file: stepped(), head: 1 },
    ];
    let layers = layers().into_iter().enumerate();
    cases.extend(layers.map(|(i, file)| Case { name: format!("layer {i}"), file, head: 0 }));
    let recurrents = recurrents().into_iter().enumerate();
    cases.extend(recurrents.map(|(i, file)| Case { name: format!("recurrent {i}"), file, head: 0 }));
    cases
}

#[test]
fn gradient_formulas_recalculate_after_every_change() {
    let mut draw = Numbers::new(5);
    for case in with_gradients() {
        let backward = |case: &Case| example(&case.file).trace_backward(case.head).unwrap();
        let (name, trace) = (&case.name, backward(&case));
        let book = Book::read(&trace.to_xlsx(&OPTIONS).unwrap());
        let sheets = book.calculated();
        assert_comes_to(name, &trace, |at| shown(&sheets, at));
        for _ in 0..4 {
            let ((at, x), new) = changed(&case, &trace, &mut draw);
            let mut book = book.clone();
            assert!(matches!(book.cells.insert(at, Cell::Number(x)), Some(Cell::Number(_))));
            let sheets = book.calculated();
            assert_comes_to(&format!("{name} with {x} at {at:?}"), &backward(&new), |at| shown(&sheets, at));
        }
    }
    // Hidden results after the step are on the second sheet.
    let trace = builtin("training-step").unwrap().trace_backward(0).unwrap();
    for (lang, names) in [(Lang::En, ["Trace", "Other steps"]), (Lang::Ja, ["計算のステップ", "ほかのステップ"])]
    {
        let book = Book::read(&trace.to_xlsx(&with(*OPTIONS, |o| o.lang = lang)).unwrap());
        assert_eq!(book.sheets, names);
    }
}

/// In the last layer everything up to the loss follows; below it the arriving gradient is a number that can be changed.
#[test]
fn gradients_of_models_are_formulas() {
    for layer in [Some(0), None] {
        let place = HeadSelection { layer, head: 1 };
        let record = classifier().record_backward("Slow and cold.", place, None).unwrap();
        let trace = Trace::from_model(record, "reviews-model").unwrap();
        let book = Book::read(&trace.to_xlsx(&OPTIONS).unwrap());
        let sheets = book.calculated();
        assert_comes_to("model backward", &trace, |at| shown(&sheets, at));
        let is_given = |step: &TraceStep| step.kind == StepKind::Gradient && step.formula.is_none();
        let blocks = blocks(&trace);
        let given: Vec<_> = blocks.iter().filter(|(step, _)| is_given(step)).collect();
        assert_eq!(given.len(), usize::from(layer.is_some()));
        for (step, at) in blocks {
            let is_formula = matches!(book.cells[&at], Cell::Formula(..));
            assert_eq!(is_formula, step.formula.is_some(), "{}", step.symbol);
        }
    }
}

#[test]
fn nan_cells_are_texts_that_numbers_can_replace() {
    for (name, text) in [("odd", ODD), ("infinite", INFINITE)] {
        let file: Json = serde_json::from_str(text).unwrap();
        let case = Case { name: name.into(), file, head: 0 };
        let trace = case.trace();
        let mut book = Book::read(&trace.to_xlsx(&OPTIONS).unwrap());
        let sheets = book.calculated();
        assert_comes_to(name, &trace, |at| shown(&sheets, at));
        // Numbers replace the texts, and everything follows.
        let mut repaired = case.file.clone();
        for (step, (sheet, row, column)) in blocks(&trace).into_iter().filter(|(step, _)| step.formula.is_none()) {
            for ((i, j), _) in step.value.indexed_iter().filter(|(_, x)| !x.is_finite()) {
                let x = 0.5 + i as f64 - j as f64;
                repaired["inputs"][step.name()][i][j] = json!(x);
                let old = book.cells.insert((sheet, row + i, column + j), Cell::Number(x));
                assert!(matches!(old, Some(Cell::Text(_))), "{name}: {old:?}");
            }
        }
        let sheets = book.calculated();
        let trace = Case { file: repaired, ..case }.trace();
        assert!(
            trace.steps.iter().filter(|step| step.name() == "output").flat_map(|s| &s.value).all(|x| x.is_finite())
        );
        assert_comes_to(&format!("{name}, repaired"), &trace, |at| shown(&sheets, at));
    }
}

#[test]
fn both_sheets_refer_to_each_other() {
    let trace = builtin("heads").unwrap().trace(0).unwrap();
    for (lang, names, said) in [
        (Lang::En, ["Trace", "Other heads"], ["on the sheet “Other heads”", "on the sheet “Trace”"]),
        (Lang::Ja, ["計算のステップ", "ほかのヘッド"], ["シート「ほかのヘッド」", "シート「計算のステップ」"]),
    ] {
        let book = Book::read(&trace.to_xlsx(&with(*OPTIONS, |o| o.lang = lang)).unwrap());
        assert_eq!(book.sheets, names);
        for (sheet, said) in said.into_iter().enumerate() {
            let Cell::Text(note) = &book.cells[&(sheet, 2, 0)] else { panic!("no note") };
            assert!(note.contains(said), "{note}");
        }
        // Formulas refer to the other sheet by its name.
        let joined = book.cells.values().filter(|cell| matches!(cell, Cell::Formula(f, _) if f.contains(names[1])));
        assert_eq!(joined.count(), 3 * 2, "half of 3 × 4 numbers are of the other head");
    }
    let book = Book::read(&builtin("book").unwrap().trace(0).unwrap().to_xlsx(&OPTIONS).unwrap());
    let Cell::Text(note) = &book.cells[&(0, 2, 0)] else { panic!("no note") };
    assert!(!note.contains("other heads") && book.sheets == ["Trace"], "{note}");
}

#[test]
fn large_spreadsheets_of_equal_numbers_are_written() {
    // Searching the whole matrix for each of its numbers once took minutes here.
    let rows = |n: usize| format!("[{}]", vec!["[1]"; n].join(", "));
    let file = format!(r#"{{"inputs": {{"Q": {0}, "K": {0}, "V": {0}}}}}"#, rows(300));
    let bytes = WorkedExample::parse(&file).unwrap().trace(0).unwrap().to_xlsx(&OPTIONS).unwrap();
    let book = Book::read(&bytes);
    assert!(book.cells.values().filter(|cell| matches!(cell, Cell::Formula(..))).count() > 3 * 300 * 300);
}

#[test]
fn oversized_spreadsheets_are_rejected() {
    // 20 heads over 300 words: four matrices of 300 × 300 for each.
    let row = format!("[{}]", vec!["1"; 20].join(", "));
    let rows = format!("[{}]", vec![row.as_str(); 320].join(", "));
    let file = format!(r#"{{"inputs": {{"Q": {rows}, "K": {rows}, "V": {rows}}}, "options": {{"num_heads": 20}}}}"#);
    let trace = WorkedExample::parse(&file).unwrap().trace(0).unwrap();
    let said = trace.to_xlsx(&OPTIONS).unwrap_err().to_string();
    assert!(said.contains("numbers of all heads is larger than programs open (at most 8000000)"), "{said}");
    assert!(said.contains("give a shorter text, or use --format json"), "{said}");
}

#[test]
fn weights_of_large_networks_are_left_out() {
    let row = |n: usize| format!("[{}]", vec!["1"; n].join(", "));
    let rows = |n: usize, columns: usize| format!("[{}]", vec![row(columns).as_str(); n].join(", "));
    let file = |d_ff: usize| {
        let [x, first, second] = [row(1001), rows(1001, d_ff), rows(d_ff, 1001)];
        let inputs = format!(r#""X": [{x}], "W_1": {first}, "W_2": {second}, "b_2": {x}"#);
        format!(r#"{{"inputs": {{{inputs}}}, "options": {{"activation": "relu", "residual": true}}}}"#)
    };
    let trace = WorkedExample::parse(&file(2000)).unwrap().trace(0).unwrap();
    let book = Book::read(&trace.to_xlsx(&OPTIONS).unwrap());
    assert!(book.cells.len() < 20_000, "{}", book.cells.len());
    let said = |book: &Book, text: &str| {
        book.cells.values().filter(|cell| matches!(cell, Cell::Text(own) if own.contains(text))).count()
    };
    assert_eq!(said(&book, "The weights of the feed-forward network are left out, because there are too many"), 1);
    assert_eq!(said(&book, "given, and left out here"), 2);
    let find = |text: &str| book.cells.iter().find(|(_, cell)| matches!(cell, Cell::Text(own) if own.contains(text)));
    // Products with omitted weights are numbers, and what follows from them are formulas.
    let (&(_, inner, _), _) = find("Feed-forward network, first linear layer").unwrap();
    assert_eq!(book.cells[&(0, inner + 3, 1)], Cell::Number(1001.0));
    let (&(_, output, _), _) = find("Feed-forward network, second linear layer").unwrap();
    assert_eq!(book.cells[&(0, output + 3, 1)], Cell::Number(2_002_001.0));
    let (&(_, sum, _), _) = find("Second residual connection").unwrap();
    assert!(matches!(&book.cells[&(0, sum + 3, 1)], Cell::Formula(_, result) if result == "2002002"));
    assert_eq!(shown(&book.calculated(), (0, sum + 3, 1)), 2_002_002.0);
    // A smaller network is complete.
    let trace = WorkedExample::parse(&file(20)).unwrap().trace(0).unwrap();
    let book = Book::read(&trace.to_xlsx(&OPTIONS).unwrap());
    assert_eq!(said(&book, "left out"), 0);
}

/// Returns LibreOffice's numbers of all sheets of some spreadsheets, by file and sheet.
fn by_libreoffice(folder: &Path, names: &[String]) -> impl Fn(&str, &str) -> Vec<Vec<String>> {
    let profile = format!("-env:UserInstallation=file://{}/profile", folder.display());
    // All digits of each number, and every sheet in a file of its own; a formula without a result is computed on load.
    let filter = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,false,false,false,false,-1";
    let output = Command::new("soffice")
        .args([&profile, "--headless", "--convert-to", filter, "--outdir", "."])
        .args(names.iter().map(|name| format!("{name}.xlsx")))
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let folder = folder.to_owned();
    move |name, sheet| {
        let path = folder.join(format!("{name}-{sheet}.csv"));
        let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let records = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(&text[..]).into_records();
        records.map(|record| record.unwrap().iter().map(str::to_owned).collect()).collect()
    }
}

#[test]
fn libreoffice_recalculates_the_same_numbers() {
    if !Command::new("soffice").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: LibreOffice (soffice) is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut draw = Numbers::new(22);
    // Each spreadsheet unchanged and with another input, all in one run of LibreOffice.
    let mut expected: Vec<(String, Trace)> = Vec::new();
    let mut put = |name: String, bytes: Vec<u8>, trace: Trace| {
        std::fs::write(folder.path().join(format!("{name}.xlsx")), bytes).unwrap();
        expected.push((name, trace));
    };
    let (plain, gradients) = (cases(), with_gradients());
    let all = plain.iter().chain([&model().1]).map(|case| (case, false));
    for (number, (case, is_backward)) in all.chain(gradients.iter().map(|case| (case, true))).enumerate() {
        let traced = |case: &Case| match is_backward {
            true => example(&case.file).trace_backward(case.head).unwrap(),
            false => case.trace(),
        };
        let trace = traced(case);
        let bytes = trace.to_xlsx(&OPTIONS).unwrap();
        let ((at, x), new) = changed(case, &trace, &mut draw);
        let name = format!("{number} {}", case.name);
        let change = CellChange { sheet: at.0, cell: format!("{}{}", column(at.2), at.1 + 1), number: x };
        put(format!("{name} changed"), stripped(&bytes, &[change]), traced(&new));
        put(name, stripped(&bytes, &[]), trace);
    }
    for (name, trace) in [("odd", odd()), ("one", one_token()), ("infinite", infinite())] {
        let bytes = stripped(&trace.to_xlsx(&OPTIONS).unwrap(), &[]);
        put(name.to_owned(), bytes, trace);
    }
    let names: Vec<String> = expected.iter().map(|(name, _)| name.clone()).collect();
    let read = by_libreoffice(folder.path(), &names);
    for (name, trace) in expected {
        let is_after = trace.hidden_steps.iter().any(|step| step.kind == StepKind::AfterStep);
        let rest = if is_after { "Other steps" } else { "Other heads" };
        let other = if trace.hidden_steps.is_empty() { Vec::new() } else { read(&name, rest) };
        let sheets = [read(&name, "Trace"), other];
        assert_comes_to(&name, &trace, |(sheet, row, column)| number(&sheets[sheet][row][column]));
    }
}

/// Returns the letters of a column.
fn column(index: usize) -> String {
    let letter = |i: usize| char::from(b'A' + i as u8);
    match index {
        0..26 => letter(index).to_string(),
        _ => format!("{}{}", letter(index / 26 - 1), letter(index % 26)),
    }
}
