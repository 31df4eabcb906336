//! The answers of a trace's page in a real browser: where a number comes from, options of attention, play, and width.
//!
//! Needs Chromium or Chrome on the path. Without one, each test prints a notice and passes. All pages of a test share one
//! run of the browser.

use crate::common::browser::{between, dom, run_in_frames};
use crate::common::layers::{layer, layers, recurrents, stepped};
use crate::common::traces::{SHOWN, number, wide};
use crate::common::{Numbers, with};
use chumoku_trace::{StepKind, Trace, TraceOptions, WorkedExample, builtin};
use serde_json::{Value, json};
use std::collections::HashMap;
use testkit::exhaustive;

fn options(digits: usize) -> TraceOptions {
    with(TraceOptions::default(), |o| (o.digits, o.size) = (digits, 64))
}

fn parse(file: &Value) -> WorkedExample {
    WorkedExample::parse(&file.to_string()).unwrap()
}

/// A function of one number.
type Function = fn(f64) -> f64;

/// An expression as a page spells it: numbers, signs and functions.
struct Expression<'a> {
    rest: &'a str,
}

impl<'a> Expression<'a> {
    fn evaluate(text: &'a str) -> f64 {
        if text == "−∞ (masked)" {
            return f64::NEG_INFINITY;
        }
        let mut own = Expression { rest: text };
        let found = own.sum();
        assert_eq!(own.rest, "", "{text}");
        found
    }

    fn take(&mut self, sign: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(sign) {
            Some(after) => {
                self.rest = after.trim_start();
                true
            }
            None => false,
        }
    }

    fn sum(&mut self) -> f64 {
        let mut found = if self.take("−") { -self.product() } else { self.product() };
        loop {
            if self.take("+") {
                found += self.product();
            } else if self.take("−") {
                found -= self.product();
            } else {
                return found;
            }
        }
    }

    fn product(&mut self) -> f64 {
        let mut found = self.power();
        loop {
            if self.take("·") {
                let factor = self.power();
                // A share of 0 contributes nothing.
                found = if found == 0.0 || factor == 0.0 { 0.0 } else { found * factor };
            } else if self.take("/") {
                found /= self.power();
            } else {
                return found;
            }
        }
    }

    fn power(&mut self) -> f64 {
        let found = self.atom();
        match () {
            () if self.take("²") => found.powi(2),
            () if self.take("³") => found.powi(3),
            () => found,
        }
    }

    fn group(&mut self, close: &str) -> f64 {
        let found = self.sum();
        assert!(self.take(close), "no {close}: {}", self.rest);
        found
    }

    fn atom(&mut self) -> f64 {
        let functions: [(&str, Function); 9] = [
            ("exp", f64::exp),
            ("ln", f64::ln),
            ("tanh", f64::tanh),
            ("erf", erf),
            ("cos", f64::cos),
            ("sin", f64::sin),
            ("σ", |x| 1.0 / (1.0 + (-x).exp())),
            ("Φ", |x| 0.5 + 0.5 * erf(x / 2f64.sqrt())),
            ("φ", |x| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt()),
        ];
        if let Some((_, function)) = functions.iter().find(|(name, _)| self.take(name)) {
            let x = self.atom();
            return function(x);
        }
        if self.take("√") {
            return self.atom().sqrt();
        }
        if self.take("π") {
            return std::f64::consts::PI;
        }
        if self.take("max(") {
            let mut found = self.sum();
            while self.take(",") {
                found = found.max(self.sum());
            }
            assert!(self.take(")"));
            return found;
        }
        // A condition is 1 if it holds.
        if self.take("[") {
            let left = self.sum();
            let is_equal = self.take("=");
            assert!(is_equal || self.take(">"), "{}", self.rest);
            let right = self.group("]");
            return f64::from(if is_equal { left == right } else { left > right });
        }
        if self.take("(") {
            return self.group(")");
        }
        for (name, value) in [("-∞", f64::NEG_INFINITY), ("∞", f64::INFINITY), ("NaN", f64::NAN)] {
            if self.take(name) {
                return value;
            }
        }
        let is_part = |(i, c): (usize, char)| {
            let is_exponent = |c: char| c == 'e' && i > 0;
            let is_sign = c == '-' && (i == 0 || self.rest[..i].ends_with('e'));
            c.is_ascii_digit() || c == '.' || is_exponent(c) || is_sign
        };
        let end = self.rest.char_indices().find(|at| !is_part(*at)).map_or(self.rest.len(), |(i, _)| i);
        let (own, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        own.parse().unwrap_or_else(|_| panic!("no number: {own:?} before {rest:?}"))
    }
}

/// The error function by its series, which is accurate for small numbers.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

#[test]
fn expressions_are_evaluated() {
    for (text, expected) in [
        ("1·2 + (-3)·0.5 − 4", -3.5),
        ("√(3 + 1)·2 / (0.5 − 1)", -8.0),
        ("max(0, -1.5)·3 + exp(0 − 0)²", 1.0),
        ("[0.5 = max(0.5, 0.25)] + [1 > 2]", 1.0),
        ("−(2·3) / 2e-1", -30.0),
        ("2·cos 0 − 1·sin 0 + (-2)² − exp(0)²", 5.0),
    ] {
        assert_eq!(Expression::evaluate(text), expected, "{text}");
    }
    assert!((erf(1.0) - 0.842_700_792_949_715).abs() < 1e-14);
}

/// Returns examples with every operation.
fn examples() -> Vec<(String, Trace)> {
    let mut all: Vec<(String, Trace)> = Vec::new();
    for (number, file) in layers().iter().chain([&stepped()]).chain(&recurrents()).enumerate() {
        all.push((format!("layer {number}"), parse(file).trace_backward(0).unwrap()));
    }
    let second = parse(&layers()[0]).trace_backward(1).unwrap();
    all.push(("second head".into(), second));
    let hard = layer(
        &json!({}),
        &json!({ "hard": true, "alibi_slopes": [0.5, 0.25], "pooling": "mean_sqrt_length", "norm": "post", "norm_2": "post" }),
    );
    all.push(("hard".into(), parse(&hard).trace(1).unwrap()));
    for name in ["book", "causal", "heads", "film", "scaling", "review-loss"] {
        all.push((name.into(), builtin(name).unwrap().trace(0).unwrap()));
    }
    all.push(("training-step".into(), builtin("training-step").unwrap().trace_backward(0).unwrap()));
    all
}

/// Clicks on numbers, and compares the spelled-out expression, its operands and its result with the trace.
#[test]
fn every_clicked_number_is_explained() {
    let mut numbers = Numbers::new(50);
    let mut below = |n: usize| ((f64::from(numbers.next()) * n as f64) as usize).min(n - 1);
    let (mut pages, mut clicks) = (Vec::new(), Vec::new());
    let all = examples();
    assert!(all.len() >= 20, "{}", all.len());
    for (_, trace) in &all {
        let computed: Vec<_> = trace.steps.iter().filter(|step| step.formula.is_some()).collect();
        let own: Vec<_> = (0..50)
            .map(|_| {
                let step = computed[below(computed.len())];
                (step, [below(step.value.nrows().min(64)), below(step.value.ncols().min(64))])
            })
            .collect();
        let wanted: Vec<Value> = own.iter().map(|(step, at)| json!([step.symbol, at[0], at[1]])).collect();
        let script = format!(
            "const program = JSON.parse($('#program').textContent);
             for (const [symbol, i, j] of {}) {{
               const step = program.steps.find(s => s.sym === symbol && s.at), figure = document.getElementById(step.at);
               figure.querySelectorAll('tbody tr')[i].querySelectorAll('td')[j].click();
               const line = $('#chain li').cloneNode(true);
               const buttons = [...line.querySelectorAll('button')].map(b => [b.title, b.textContent]);
               const result = line.querySelector('.result').textContent;
               line.querySelectorAll('b, small, .reason').forEach(e => e.remove());
               const lit = all('figure[id] td.src').map(td => [td.closest('figure').id, td.parentElement.sectionRowIndex,
                 [...td.parentElement.querySelectorAll('td')].indexOf(td)]);
               log.push(JSON.stringify({{ text: line.textContent.replace(/^[\\s=]+|[\\s=]+$/g, ''), buttons, result, lit,
                 title: $('#why-title').textContent, at: Object.fromEntries(program.steps.map(s => [s.sym, s.at])),
                 selected: figure.querySelectorAll('tbody tr')[i].querySelectorAll('td')[j].classList.contains('sel') }}));
             }}",
            Value::Array(wanted)
        );
        pages.push((trace.to_html(&options(15)), script));
        clicks.push(own);
    }
    let Some(logs) = run_in_frames(&pages, 1000) else { return };
    for (((name, trace), clicks), log) in all.iter().zip(&clicks).zip(&logs) {
        assert_eq!(log.len(), clicks.len(), "{name}: {:?}", log.last());
        let values: HashMap<&str, _> = trace
            .steps
            .iter()
            .chain(&trace.hidden_steps)
            .map(|step| (&step.symbol[..], (&step.value, step.kind)))
            .collect();
        let mut count = 0;
        for ((step, at), line) in clicks.iter().zip(log) {
            let said: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{name}: {line}"));
            let (text, truth) = (said["text"].as_str().unwrap(), step.value[*at]);
            let is_within = |a: f64, b: f64, limit: f64| {
                a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= limit * (1.0 + b.abs())
            };
            // Small divisors magnify the rounding of the shown operands.
            let computed = Expression::evaluate(text);
            assert!(
                is_within(computed, truth, 1e-6),
                "{name}, {}{at:?}: {text} = {computed}, not {truth}",
                step.symbol
            );
            // The update of AdamW divides the noise of a gradient that is 0 by ε.
            let is_of_update = |kind: StepKind| matches!(kind, StepKind::Update | StepKind::AfterStep);
            let limit = |kind: StepKind| if is_of_update(kind) { 1e-6 } else { 1e-12 };
            let result = number(said["result"].as_str().unwrap());
            assert!(is_within(result, truth, limit(step.kind)), "{name}, {}{at:?}: {result}, not {truth}", step.symbol);
            assert_eq!(said["selected"], true, "{name}: {line}");
            let title = format!("Why is {}({},{}) = ", step.symbol.replace('_', ""), at[0] + 1, at[1] + 1);
            let plain = |text: &str| text.replace(['[', ']', ',', '_'], "");
            assert!(plain(said["title"].as_str().unwrap()).starts_with(&plain(&title)), "{title}: {line}");
            let lit: Vec<(String, u64, u64)> = said["lit"]
                .as_array()
                .unwrap()
                .iter()
                .map(|cell| {
                    (cell[0].as_str().unwrap().to_owned(), cell[1].as_u64().unwrap(), cell[2].as_u64().unwrap())
                })
                .collect();
            let buttons = said["buttons"].as_array().unwrap();
            count += buttons.len();
            // A masked score, a row that is copied from another token, and a sum over nothing have no operands.
            let is_constant = text.parse::<f64>().is_ok() || text == "−∞ (masked)";
            assert!(!buttons.is_empty() || is_constant, "{name}, {}{at:?} has no operands: {text}", step.symbol);
            for button in buttons {
                let (place, shown) = (button[0].as_str().unwrap(), button[1].as_str().unwrap());
                let (symbol, index) = place.rsplit_once('(').unwrap();
                let (i, j) = index.trim_end_matches(')').split_once(',').unwrap();
                let [i, j] = [i, j].map(|k| k.parse::<usize>().unwrap() - 1);
                let (value, kind) = values.get(symbol).unwrap_or_else(|| panic!("{name}: no {symbol}"));
                let (truth, limit) = (value[[i, j]], limit(*kind));
                assert!(is_within(number(shown), truth, limit), "{name}: {place} is {shown}, not {truth}: {line}");
                // An operand on the page is lit.
                if let Some(figure) = said["at"][symbol].as_str() {
                    assert!(lit.contains(&(figure.to_owned(), i as u64, j as u64)), "{name}: {place} is dark: {line}");
                }
            }
        }
        assert!(count > clicks.len() / 2, "{name}: {count} operands of {} numbers", clicks.len());
    }
}

#[test]
fn answers_lead_down_to_the_inputs() {
    let script = "
        const press = (key, at) => (at ?? document.activeElement).dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
        const cell = (at, i, j) => document.getElementById(at).querySelectorAll('tbody tr')[i].querySelectorAll('td')[j];
        const lines = () => all('#chain li').map(li => li.querySelector('b').textContent).join(' ');
        // Focus asks, arrows move, Enter leads to an input, Escape closes.
        cell('output', 0, 0).focus(); log.push(lines()); press('ArrowRight'); log.push(lines()); press('ArrowDown'); log.push(lines());
        press('Home'); log.push(lines()); press('Enter'); log.push(lines(), document.activeElement.closest('#chain') !== null);
        log.push(all('#chain li').at(-1).textContent.includes(': given'));
        // An operand in an answer is a question too; the chain goes on from there.
        all('#chain li')[1].querySelectorAll('button')[1].click(); log.push(lines(), document.activeElement.textContent);
        press('Escape'); log.push($('#why').hidden, document.activeElement === cell('output', 1, 0), all('.src, .sel').length);
        $('label[for=ja]').click(); cell('output', 0, 0).click(); log.push($('#why-title').textContent);
        // The place of the question is in the address, unless the page has none.
        log.push(document.documentElement.dataset.error ?? 'no error');";
    let page = builtin("book").unwrap().trace(0).unwrap().to_html(&options(4));
    let Some(logs) = run_in_frames(&[(page, script.into())], 1000) else { return };
    let [log] = &logs[..] else { panic!("{logs:?}") };
    assert!(log.len() == 14 && log[13] == "no error", "{log:?}");
    assert_eq!(log[..4], ["O(1,1)", "O(1,2)", "O(2,2)", "O(2,1)"]);
    let down: Vec<&str> = log[4].split(' ').collect();
    let last = down.last().unwrap();
    assert!(down[0] == "O(2,1)" && down.len() >= 3 && (last.starts_with('X') || last.starts_with('W')), "{log:?}");
    assert_eq!(log[5..7], ["true", "true"]);
    let other: Vec<&str> = log[7].split(' ').collect();
    assert!(other.len() == 3 && other[..2] == down[..2], "{log:?}");
    assert_eq!(log[9..12], ["true", "true", "0"], "{log:?}");
    assert!(log[12].starts_with("O(1,1) = ") && log[12].ends_with(" になる理由"), "{log:?}");
}

/// Compares pages whose options were changed with new traces with these options, to the last digit.
#[test]
fn options_give_the_numbers_of_a_new_trace() {
    let count = if exhaustive("chumoku-trace") { 200 } else { 40 };
    let mut numbers = Numbers::new(46);
    let mut next = move || f64::from(numbers.next());
    let (mut pages, mut expected) = (Vec::new(), Vec::new());
    for case in 0..count {
        let mut coin = || next() < 0.5;
        let (has_mask, has_bias, is_hard, has_loss) = (coin(), coin(), case % 9 == 8, case % 2 == 0);
        let [start, end] = [(); 2].map(|()| {
            json!({ "causal": coin(), "max": coin(), "scale": coin(), "mask": coin() && has_mask, "bias": coin() && has_bias })
        });
        let mut between = |low: f64, high: f64| low + (high - low) * next();
        let betas = [(); 2].map(|()| (between(0.05, 3.9) * 20.0).round() / 20.0);
        let (tokens, head_width) = (2 + case % 4, [1, 4][case % 2]);
        let (width, heads) = (2 * head_width, 2);
        let mut matrix = |rows: usize, columns: usize| -> Value {
            let mut number = || (between(-2.0, 2.0) * 1e4).round() / 1e4;
            (0..rows).map(|_| (0..columns).map(|_| number()).collect::<Value>()).collect()
        };
        let mut inputs = json!({ "X": matrix(tokens, 3), "W_Q": matrix(3, width), "W_K": matrix(3, width), "W_V": matrix(3, width) });
        if has_loss {
            inputs["W_class"] = matrix(width, 2);
            inputs["target"] = json!([[0, 1]]);
        }
        let vectors = json!([matrix(head_width, 1), matrix(head_width, 1)]);
        let mask: Value = (0..tokens)
            .map(|i| (0..tokens).map(|j| i == j || (i + 2 * j + case) % 3 != 0).collect::<Value>())
            .collect();
        // The page can take the example's mask and numbers away, but adds none.
        let file = |state: &Value, beta: f64, is_start: bool| {
            let is_on = |key: &str| state[key].as_bool().unwrap();
            let scale = if is_on("scale") { 1.0 / (head_width as f64).sqrt() } else { 1.0 };
            // Every fifth case has the additive score.
            let mut inputs = inputs.clone();
            let is_additive = case % 5 == 4;
            if is_additive {
                inputs["v_a"] = vectors.clone();
            }
            let mut options = json!({ "score": if is_additive { "additive" } else { "dot" }, "num_heads": heads, "causal": is_on("causal"), "subtract_max": is_on("max"), "beta": beta,
                "scale": scale, "hard": is_hard });
            if has_loss {
                options["pooling"] = json!("mean");
            }
            if has_mask && (is_start || is_on("mask")) {
                options["mask"] = mask.clone();
            }
            if has_bias && (is_start || is_on("bias")) {
                options["alibi_slopes"] = json!([0.5, 0.25]);
            }
            json!({ "inputs": inputs, "options": options, "tokens": (0..tokens).map(|i| format!("t{i}")).collect::<Value>() })
        };
        let page = |file: &Value| {
            let example = parse(file);
            let trace = if has_loss && !is_hard { example.trace_backward(case % 2) } else { example.trace(case % 2) };
            trace.unwrap().to_html(&options([4, 9][case % 2]))
        };
        // Jacobians are those of the row with the most keys at the start.
        let log = "log.push(...shown().filter(line => !line.startsWith('jacobian')));";
        let change = format!(
            "const end = {end};
             for (const key of ['causal', 'max', 'scale', 'mask', 'bias']) {{
               const box = document.getElementById('control-' + key);
               if (box && box.checked !== end[key]) {{ box.checked = end[key]; box.dispatchEvent(new Event('input')); }}
             }}
             const beta = $('#control-beta'); beta.value = '{}'; beta.dispatchEvent(new Event('input'));",
            betas[1]
        );
        pages.push((page(&file(&start, betas[0], true)), format!("{SHOWN} {change} {log} log.push(edited());")));
        pages.push((page(&file(&end, betas[1], false)), format!("{SHOWN} {log}")));
        expected.push(format!("case {case}: {start} to {end}, β {betas:?}"));
    }
    let Some(logs) = run_in_frames(&pages, 1000) else { return };
    for (pair, name) in logs.chunks(2).zip(&expected) {
        let [changed, new] = pair else { panic!("{name}") };
        let (state, changed) = changed.split_last().unwrap();
        assert_eq!(state, "edited,false,true,0", "{name}");
        for (found, new) in changed.iter().zip(new) {
            assert_eq!(found, new, "{name}");
        }
        assert_eq!(changed.len(), new.len(), "{name}: {changed:?} and {new:?}");
    }
}

#[test]
fn reset_restores_options() {
    let script = format!(
        "{SHOWN} const before = shown(), beta = $('#control-beta');
         for (const key of ['causal', 'scale', 'max']) $(`#control-${{key}}`).click();
         beta.value = '2.5'; beta.dispatchEvent(new Event('input'));
         log.push(shown().length - before.length, edited(), $('#beta').textContent);
         $('#undo').click(); log.push(shown().length - before.length, shown().filter((line, k) => line !== before[k]).join(), edited(), $('#beta').textContent);
         log.push(['causal', 'scale', 'max'].map(key => $(`#control-${{key}}`).checked).join(), beta.value);
         // The answer about a masked score goes with the mask.
         $('#control-causal').click(); $('#masked tbody td').click(); log.push($('#why').hidden);
         $('#control-causal').click(); log.push($('#why').hidden);"
    );
    let page = builtin("book").unwrap().trace(0).unwrap().to_html(&options(4));
    let Some(logs) = run_in_frames(&[(page, script)], 1000) else { return };
    // A mask and the largest scores are steps of their own.
    assert_eq!(
        logs[0],
        [
            "2",
            "edited,false,true,0",
            "2.5000 (T = 0.4000)",
            "0",
            "",
            ",true,true,0",
            "1 (T = 1)",
            "false,true,false",
            "1",
            "false",
            "true"
        ]
    );
}

#[test]
fn play_goes_through_a_product() {
    let script = "
        const wait = ms => new Promise(done => setTimeout(done, ms));
        const press = key => document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
        const seen = () => log.push([$('#chain b').textContent, all('figure[id] td.now').map(td => td.closest('figure').id).join('·'),
          $('.sum')?.textContent.trim() ?? '-'].join(' '));
        press('.'); seen(); press('.'); seen(); press('.'); seen(); press('.'); seen(); press('.'); seen(); press(','); seen();
        press('p'); log.push($('#play').getAttribute('aria-pressed')); const first = $('#chain').innerHTML;
        for (let k = 0; k < 50 && $('#chain').innerHTML === first; k++) await wait(50);
        log.push($('#chain').innerHTML !== first); press('p'); log.push($('#play').getAttribute('aria-pressed'));
        // Two ticks would have passed.
        const last = $('#chain').innerHTML; await wait(1500); log.push($('#chain').innerHTML === last);";
    let page = builtin("book").unwrap().trace(0).unwrap().to_html(&options(4));
    let Some(logs) = run_in_frames(&[(page, script.into())], 1000) else { return };
    let expected = [
        "Q(1,1) X·W_Q → 1",
        "Q(1,1) X·W_Q → 1",
        "Q(1,1) X·W_Q → 2",
        "Q(1,1) X·W_Q -",
        "Q(1,2) X·W_Q → 0",
        "Q(1,1) X·W_Q -",
        "true",
        "true",
        "false",
        "true",
    ];
    assert_eq!(logs[0], expected);
}

#[test]
fn only_figures_that_say_so_scroll_sideways() {
    let script = "
        await new Promise(done => setTimeout(done, 100));
        log.push(document.documentElement.scrollWidth <= innerWidth ? 'fits' : document.documentElement.scrollWidth);
        // No part of the page is wider than the window, except inside a figure.
        const wide = all('body *').filter(e => e.checkVisibility() && !e.closest('.scroll') && e.getBoundingClientRect().right > innerWidth + 1);
        log.push(wide.slice(0, 5).map(e => e.outerHTML.slice(0, 60)).join());
        const scrolled = all('.scroll').filter(e => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1);
        // The page's observer of widths is older than this one, so that it is called first, and so is the task that it
        // sets. Frames come in real time, however late: messages keep the browser's virtual time from running out.
        let isSeen = false;
        const seen = new ResizeObserver(() => { isSeen = true; }), messages = new MessageChannel();
        all('.scroll').forEach(e => seen.observe(e));
        const tick = () => isSeen || setTimeout(tick, 1);
        tick();
        await new Promise(done => {
          messages.port1.onmessage = () => isSeen ? done() : messages.port2.postMessage(0);
          messages.port2.postMessage(0);
        });
        await new Promise(done => setTimeout(done));
        const silent = scrolled.filter(e => getComputedStyle(e, '::after').content !== '\"↔\"');
        log.push(scrolled.length, silent.length);";
    let step = builtin("training-step").unwrap().trace_backward(0).unwrap();
    let book = builtin("book").unwrap().trace(0).unwrap();
    let pages: Vec<_> =
        [&step, &book, &wide()].map(|trace| (trace.to_html(&options(4)), script.to_owned())).into_iter().collect();
    let Some(logs) = run_in_frames(&pages, 390) else { return };
    for log in &logs {
        assert_eq!([&log[0][..], &log[1]], ["fits", ""], "{log:?}");
        assert_eq!(log[3], "0", "{log:?}");
    }
    assert!(logs[2][2].parse::<usize>().unwrap() > 0, "{logs:?}");
}

#[test]
fn links_choose_theme_language_and_number() {
    let page = builtin("book").unwrap().trace(0).unwrap().to_html(&options(4));
    let Some(dom) = dom(&page, "theme=dark&lang=ja&why=weights,2,3") else { return };
    assert!(dom.contains("data-theme=\"dark\"") && dom.contains("<html lang=\"ja\""), "{}", &dom[..300]);
    let title = dom.split("id=\"why-title\">").nth(1).unwrap().split("</h2>").next().unwrap();
    assert!(title.starts_with("A(2,3) = ") && title.contains("になる理由"), "{title}");
    // The button says its theme, as on the other pages.
    assert_eq!(between(between(&dom, "id=\"theme\"", "/button>"), ">", "<"), "表示: ダーク");
    // A step that is left out has no answers.
    let left_out = self::dom(&page, "why=masked,1,2").unwrap();
    assert!(between(&left_out, "id=\"why\"", ">").contains("hidden"));
    let english = self::dom(&page, "theme=light").unwrap();
    assert_eq!(between(between(&english, "id=\"theme\"", "/button>"), ">", "<"), "Theme: light");
}

/// The limits of the size of a page.
#[test]
fn pages_are_small() {
    let book = builtin("book").unwrap().trace(0).unwrap().to_html(&options(4));
    let step = builtin("training-step").unwrap().trace_backward(0).unwrap();
    assert!(book.len() <= 120_000, "{} bytes", book.len());
    assert_eq!(step.steps.len(), 155);
    let page = step.to_html(&options(4));
    assert!(page.len() <= 600_000, "{} bytes", page.len());
}

#[test]
fn zero_gradients_have_a_reason() {
    let file = layer(&json!({ "b_K": [0.5, 0.25, 0, 1] }), &json!({ "norm": "post", "norm_2": "post" }));
    let page = parse(&file).trace_backward(0).unwrap().to_html(&options(4));
    let (en, ja) = ("softmax ignores such a shift", "softmax はその差に影響されない");
    assert!(page.contains(en) && page.contains(ja));
    // Rotary positions turn the bias by each position.
    let file =
        layer(&json!({ "b_K": [0.5, 0.25, 0, 1] }), &json!({ "rotary_base": 10, "norm": "post", "norm_2": "post" }));
    assert!(!parse(&file).trace_backward(0).unwrap().to_html(&options(4)).contains(en));
}

#[test]
fn expanded_exponentials_are_not_those_of_the_largest_score() {
    for (name, trace) in examples() {
        for step in trace.steps.iter().filter(|step| step.name() == "exponentials") {
            let Some(expansion) = &step.expansion else { continue };
            let has_other = step.value.iter().any(|x| *x != 0.0 && *x != 1.0);
            assert!(!has_other || step.value[expansion.index] != 1.0, "{name}: {expansion:?}");
        }
    }
}
