//! Every user message exists in English and in Japanese: no source contains an English-only sentence.
//!
//! The test looks at strings of two words or more, or of a word and a value, in the library and the command. A string
//! is fine inside `tr!` or `pick`, next to its Japanese (`("Keys", "キー")`), or in the English arm of a match with a
//! Japanese arm. Tests, messages for developers (`expect`, `panic!`) and attributes are skipped, and with them clap's
//! descriptions of options. Kernels and layers are separate libraries whose errors are translated by variant: their
//! messages are English, and `lang::layer_error_message` has the Japanese.

use crate::prose::{Fault, faults};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Strings that stay English: the reason, the file or folder, and the strings.
struct EnglishText {
    reason: &'static str,
    path: &'static str,
    texts: &'static [&'static str],
}

const fn english(why: &'static str, place: &'static str, texts: &'static [&'static str]) -> EnglishText {
    EnglishText { reason: why, path: place, texts }
}

const DOING: &str = "said by `lang::doing`, which has the Japanese of all of them";
const FIELD: &str = "a field of explanations, which pictures translate (`view::phrases::KNOWN`)";
const FORMULA: &str = "a formula";
const LATEX: &str = "LaTeX";
const FONT: &str = "a font";
const PARSED: &str = "looked for in what others say";
const HTTP: &str = "HTTP, which programs speak";
const KEY: &str = "a key, or a command with its flag, before what is wrong with it";
const CAUSE: &str = "ends with a library's own words, which are English; the Japanese leaves them out";
const GRAMMAR: &str = "its values differ as the grammar or the width of its words does";

const STAYS_ENGLISH: &[EnglishText] = &[
    english(
        "verbs of English sentences, next to the Japanese ones",
        "chumoku/src/builtin/pronouns.rs",
        &[
            "stayed near",
            "lay beside",
            "stood behind",
            "sat beside",
            "rested against",
            "remained by",
            "waited behind",
            "leaned against",
        ],
    ),
    english(
        DOING,
        "chumoku-text/src/",
        &["creating the folder", "opening the data", "reading the data", "writing the file"],
    ),
    english(DOING, "chumoku/src/", &["creating a folder in", "creating the folder"]),
    english(DOING, "chumoku-inference/src/", &["reading the tensors", "writing the tensors"]),
    english(DOING, "chumoku-cli/src/", &["creating the folder"]),
    english(
        FIELD,
        "chumoku-inference/src/",
        &[
            "change in cosine similarity when the word is removed",
            "change in log-odds when the word is removed",
            "change in the number when the word is removed",
            "change in the span's log-odds when the word is hidden",
            "integrated gradients",
            "share of the change in log-odds from the mean embedding to the text",
            "sum over keys, mean over queries",
        ],
    ),
    english(
        "abbreviations of both languages",
        "chumoku-view/src/tagger_spans/page.rs",
        &[" (NN {network}, CRF {crf})"],
    ),
    english(
        "a kind in JSON, which `count` translates",
        "chumoku-inference/src/text_models/model_size.rs",
        &["language model"],
    ),
    english(
        FORMULA,
        "chumoku-trace/src/formulas/formula.rs",
        &[
            "gelu({0}) = {0}/2 · (1 + erf({0}/√2))",
            "rotate({{0}}; {minus}position · {{1}}{})",
            "silu({0}) = {0} / (1 + exp(−{0}))",
        ],
    ),
    english(
        LATEX,
        "chumoku-trace/src/formulas/expansion.rs",
        &[
            "\\tfrac{{1}}{{2}}\\cdot {own}\\left(1 + \\mathrm{{erf}}({a}/\\sqrt{{2}})\\right)",
            "\\tfrac{{1}}{{2}}\\cdot {own}\\left(1 + \\tanh\\left(\\sqrt{{2/\\pi}}\\,({a} + 0.044715\\cdot \
             {own}^3)\\right)\\right)",
        ],
    ),
    english(
        LATEX,
        "chumoku-trace/src/formulas/formula.rs",
        &[
            "\\mathrm{gelu}({0}) = \\tfrac{1}{2}{0}\\left(1 + \\mathrm{erf}({0}/\\sqrt{2})\\right)",
            "\\mathrm{{rotate}}\\left({{0}};\\ {dash}\\mathrm{{position}}\\cdot {{1}}{}\\right)",
            "\\textstyle\\sum_i {0}\\odot {1}",
            "({2} - {1}\\,\\textstyle\\sum_j {1}\\odot {2}) / \\lVert {0} \\rVert",
            "\\mathrm{diag}(a) - {a}^{\\top} a,\\ a = \\left({0}\\right)_{{1},:}",
            "\\left({0}\\right)_{i,:} + \\left({1}\\right)_{j,:}",
            "\\sqrt{{1}} \\cdot {0}",
            "{2}\\cdot {0} / (\\sqrt{{1}} + {3})",
            "\\left[{0} > 0\\right]",
            "\\Phi({0}) + {0}\\,\\varphi({0})",
            "\\tfrac{1}{2}(1 + t) + \\tfrac{1}{2}{0}\\,(1 - t^2)\\sqrt{2/\\pi}\\,(1 + 0.134145\\,{0}^2),\\ t = \\tanh\\left(\\sqrt{2/\\pi}\\,({0} + \
             0.044715\\,{0}^3)\\right)",
            "\\sigma({0})\\left(1 + {0}\\,(1 - \\sigma({0}))\\right)",
            "\\overline{{0}^2} + \\varepsilon",
            "\\sigma^2 + \\varepsilon",
            "\\frac{{{g_latex}{center_latex} - {{1}}\\,\\overline{{{g_latex}\\odot {{1}}}}}}{{\\sqrt{{{under_latex}}}}}",
            "\\mathrm{silu}({0}) = {0} / (1 + \\exp(-{0}))",
            "\\tfrac{1}{2}{0}\\left(1 + \\tanh\\left(\\sqrt{2/\\pi}\\,({0} + 0.044715\\,{0}^3)\\right)\\right)",
            "\\textstyle\\sum_i {0}/\\sqrt{n}",
            "{0}/\\lVert {0} \\rVert",
            "{1} \\odot \\frac{{0}}{\\sqrt{\\overline{{0}^2} + \\varepsilon}}",
            "\\frac{{0}}{\\sqrt{\\overline{{0}^2} + \\varepsilon}}",
            "\\frac{{0} - \\mu}{\\sqrt{\\sigma^2 + \\varepsilon}}",
            "\\mathrm{onehot}\\left(\\arg\\max_j {0}\\right)",
            "{0} + (0 \\mid -\\infty)",
        ],
    ),
    english(
        LATEX,
        "chumoku-trace/src/output/latex.rs",
        &[
            "${} \\times {} = {rows} \\times {columns}$",
            "\\begin{{flushleft}}\\small$\\displaystyle {expanded}$\\end{{flushleft}}",
            "\\usepackage{graphicx}\n\\newsavebox{\\whole}\n\\newcommand{\\fitted}[1]{\\sbox{\\whole}{$\\displaystyle #1$}%\n\
             \\ifdim\\wd\\whole>\\linewidth\\resizebox{\\linewidth}{!}{\\usebox{\\whole}}\\else\\usebox{\\whole}\\fi}\n",
            "\\documentclass{{article}}\n\\usepackage{{amsmath,amssymb}}\n\\usepackage[a4paper,landscape,margin=15mm]\
             {{geometry}}\n{fonts}{FIT_TO_PAGE}\\pagestyle{{empty}}\n\\begin{{document}}\n{body}\\end{{document}}\n",
        ],
    ),
    english(FONT, "chumoku-view/src/picture/scene.rs", &["system-ui, sans-serif"]),
    english(
        FONT,
        "chumoku-view/src/picture/draw.rs",
        &[
            "BIZ UDPGothic",
            "DejaVu Sans",
            "Hiragino Kaku Gothic ProN",
            "Hiragino Sans",
            "Liberation Sans",
            "Noto Sans",
            "Noto Sans CJK JP",
            "Noto Sans JP",
            "Noto Serif CJK JP",
            "Source Han Sans JP",
            "Yu Gothic",
        ],
    ),
    english(
        "sacreBLEU's own line, to be compared with it",
        "chumoku-text/src/metrics/bleu.rs",
        &["BLEU = {:.2} {precisions} (BP = {:.3} ratio = {ratio:.3} hyp_len = {hypothesis_length} ref_len = \
             {reference_length})"],
    ),
    english(
        "NumPy's header",
        "chumoku-inference/src/tensors/npy.rs",
        &["{{'descr': '{descr}', 'fortran_order': False, 'shape': ({axes}), }}"],
    ),
    english(
        "the end of a sentence of serde's, which is English",
        "chumoku-trace/src/examples/object.rs",
        &["an object { … }"],
    ),
    english(PARSED, "chumoku-text/src/output/atomic.rs", &[" at path "]),
    english(PARSED, "chumoku-text/src/data/json_lines.rs", &[" at line ", "control character"]),
    english(PARSED, "chumoku-cli/src/usage.rs", &["For more information, try '--help'", "tip: to pass"]),
    english("the English half of clap's errors", "chumoku-cli/src/usage.rs", &["all options: --help"]),
    english(
        "names of columns in files",
        "chumoku-text/src/data/schema_inference/pair_columns.rs",
        &[
            "input text",
            "output text",
            "source sentence",
            "source text",
            "src text",
            "target sentence",
            "target text",
            "tgt text",
        ],
    ),
    english(CAUSE, "chumoku-text/src/data/gzip.rs", &["damage ({error})"]),
    english(CAUSE, "chumoku/src/train/run_folder/checkpoint.rs", &["manifest.json: {error}"]),
    english(GRAMMAR, "chumoku-cli/src/answers/stream.rs", &["{rows} {have} no answer, the first because: {first}"]),
    english(GRAMMAR, "chumoku-cli/src/report/texts.rs", &["perplexity per {name:<9}{value:>9}\n"]),
    english(KEY, "chumoku-trace/src/examples/size_claims.rs", &["claims.{name}: {problem}", "count: {error}"]),
    english(
        "the names of options in files",
        "chumoku-trace/src/examples/options.rs",
        &[
            "score scale causal mask window beta hard num_heads num_key_heads d_k subtract_max residual norm rms_norm epsilon \
             activation norm_2 rms_norm_2 epsilon_2 last_norm epsilon_last embedding_norm epsilon_embedding \
             rotary_base alibi_slopes head_norm_epsilon cell pooling dense_tanh dense_activation dense_norm epsilon_dense unit_length",
        ],
    ),
    english(KEY, "chumoku-cli/src/commands/bench/classifier.rs", &["bench: --lengths {}: {problem}"]),
    english(
        "metadata of a file, which programs and their authors read",
        "chumoku/src/onnx/export/mod.rs",
        &[
            "input_ids: {before}first text, {separator}, second text, {after}",
            "left out with the n-grams: {}",
            "left out: this is the network alone, and `chumoku predict` joins it with n-grams",
            "of the network alone, not those of `chumoku predict`",
            "right; attention_mask is 1 for tokens, 0 behind them",
            "those of `chumoku predict`",
            "tokenizer.json of the model folder",
        ],
    ),
    english("said to programmers", "chumoku-cli/src/commands/bench/classifier.rs", &["logits lie in one piece"]),
    english(
        HTTP,
        "chumoku-server/src/",
        &[
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: \
             {}\r\n\r\n{body}",
            "data: {data}\n\n",
            "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
            "default-src 'none'; script-src{scripts}; style-src{styles}; connect-src 'self'; img-src data:; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'",
            "text/html; charset=utf-8",
            "text/plain; version=0.0.4; charset=utf-8",
        ],
    ),
    english(
        "names of figures in the log",
        "chumoku-server/src/accounting.rs",
        &[" model={model} texts={texts} queue={}ms compute={}ms"],
    ),
    english("the name of a thread", "chumoku-server/src/service.rs", &["model {}", "texts {}"]),
    english("the name of a thread", "chumoku-server/src/workers.rs", &["explain {number}"]),
    english(KEY, "chumoku-server/src/explanation.rs", &["target: {error}"]),
    english(KEY, "chumoku-server/src/handlers.rs", &["abstain: {problem}"]),
    english(PARSED, "chumoku-server/src/request.rs", &["recursion limit"]),
    english("the operating system's number", "chumoku-text/src/lang/mod.rs", &["{known}（os error {number}）"]),
];

/// Files that are entirely English, and the reason.
const ENGLISH_FILES: &[(&str, &str)] = &[
    ("chumoku-server/src/metrics.rs", "names and help of metrics, which programs read"),
    ("chumoku-server/src/endpoints.rs", "the description of an interface, which programs and their authors read"),
];

/// The source files below a folder, without those of tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "tests" {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|ending| ending == "rs") && name != "tests.rs" {
            found.push(path);
        }
    }
    found.sort();
}

#[test]
fn every_message_exists_in_both_languages() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
    let mut files = Vec::new();
    for member in [
        "chumoku-text",
        "chumoku-ngrams",
        "chumoku-inference",
        "chumoku",
        "chumoku-view",
        "chumoku-trace",
        "chumoku-server",
        "chumoku-cli",
    ] {
        sources(&crates.join(member).join("src"), &mut files);
    }
    assert!(files.len() > 100, "{}: where have they gone?", files.len());
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for path in &files {
        let name = path.strip_prefix(crates).expect("a file of a crate").to_string_lossy().replace('\\', "/");
        let source = fs::read_to_string(path).expect("a source file");
        if ENGLISH_FILES.iter().any(|(file, _)| *file == name) {
            assert!(!faults(&source).is_empty(), "{name}: nothing in it is English; take it out of this test");
            continue;
        }
        for found in faults(&source) {
            let entry = |english: &EnglishText| name.starts_with(english.path) && english.texts.contains(&&*found.text);
            match STAYS_ENGLISH.iter().position(entry) {
                Some(entry) => drop(used.insert((entry, found.text))),
                None => wrong.push(format!("{name}:{}: {}: {:?}", found.line, describe_fault(found.fault), found.text)),
            }
        }
    }
    for (entry, english) in STAYS_ENGLISH.iter().enumerate() {
        for text in english.texts.iter().filter(|text| !used.contains(&(entry, String::from(**text)))) {
            wrong.push(format!("{}: {text:?} is no longer there; take it out of this test", english.path));
        }
        assert!(!english.reason.is_empty());
    }
    assert!(wrong.is_empty(), "{} texts are at fault:\n{}", wrong.len(), wrong.join("\n"));
}

fn describe_fault(fault: Fault) -> &'static str {
    match fault {
        Fault::NoJapanese => "say it in Japanese too, with tr! or pick",
        Fault::NotJapanese => "English where the Japanese belongs",
        Fault::ValuesDiffer => "the Japanese does not name the same values",
    }
}

/// The untranslated strings of a source.
fn untranslated(source: &str) -> Vec<String> {
    faults(source).into_iter().map(|found| found.text).collect()
}

#[test]
fn untranslated_english_is_found() {
    let found = |source: &str| assert_eq!(untranslated(source), ["the text is empty"], "{source}");
    found(r#"fn f() { Err("the text is empty".into()) }"#);
    found(r##"const A: &str = r#"the text is empty"#;"##);
    found("const A: &str = \"the text \\\n    is empty\";");
    found(r#"#[error("the text is empty")] struct A;"#);
    found(r#"fn f() { match kind { Kind::A => "the text is empty", Kind::B => lang.pick("a b", "日本語") } }"#);
    found(r#"fn f() { match lang { Lang::En => "the text is empty", _ => "" } }"#);
    found(r#"fn f() { match (lang, x) { (Lang::En, X::A) => "the text is empty", (Lang::Ja, X::B) => "空" } }"#);
    found(r#"fn f() { say("the text is empty", tr!("a", "空")); }"#);
    found(r#"fn f() { tr!("a {}", "日本 {}", format!("the text is empty")) }"#);
    found(r#"fn f() { lang.pick("テキストが空です", "the text is empty") }"#);
    found(r#"fn f() { refuse!("テキストが空です", "the text is empty") }"#);
    found(r#"fn f() { refuse_if!(is_empty(text), "テキストが空です", "the text is empty") }"#);
    assert_eq!(untranslated(r#"fn f() { println!("wrote {}", path); }"#), ["wrote {}"]);
    found(r#"fn f<'a>(c: char) { if c == '"' || c == '\'' { return "the text is empty"; } }"#);
    found(r#"#[cfg(test)] mod tests { const A: &str = "two words"; } const B: &str = "the text is empty";"#);
}

#[test]
fn strings_without_need_of_japanese_are_skipped() {
    let nothing = |source: &str| assert!(untranslated(source).is_empty(), "{source}: {:?}", untranslated(source));
    nothing(r#"fn f() { tr!("the text is empty", "テキストが空です") }"#);
    nothing(r#"fn f() { fault(lang().pick("the text is empty", "テキストが空です")) }"#);
    nothing(r#"fn f() { match lang { Lang::En => "the text is empty", Lang::Ja => "空です" } }"#);
    nothing(
        r#"fn f() { match (lang, n) { (Lang::En, 1) => "1 more row", (Lang::En, _) => "more rows", (Lang::Ja, _) => "" } }"#,
    );
    nothing(r#"fn f() { match name { "the whole text" => "全文", other => other } }"#);
    nothing(r#"const A: (&str, &str) = ("the text is empty", "テキストが空です");"#);
    nothing(r#"fn f() { (format!("at most {MOST} bytes"), format!("{MOST} バイトまで")) }"#);
    nothing(r#"fn f() { Said { en: "the text is empty".into(), ja: "空です".into() } }"#);
    nothing(r#"fn f() { x.expect("the text is empty"); assert!(a, "the text is empty"); }"#);
    nothing(r#"// "the text is empty" /* "#);
    nothing(r#"/* "the text is /* empty */ " */ const A: char = '"';"#);
    nothing(r#"#[arg(help = "the text is empty")] #[cfg(test)] mod tests { const A: &str = "two words"; }"#);
    nothing(r#"const A: &str = "{rows} {columns} <text x=\"1\" y=\"2\">";"#);
    nothing(r#"const A: &str = "{} MiB {x:<5}";"#);
    nothing(r#"const A: &str = "  chumoku explain {place} --html why.html";"#);
}

#[test]
fn both_languages_use_the_same_values() {
    let found = |source: &str| faults(source).into_iter().map(|found| found.fault).collect::<Vec<_>>();
    assert_eq!(found(r#"fn f() { tr!("{rows} of {}", "{} の {row}", all) }"#), [Fault::ValuesDiffer]);
    assert_eq!(found(r#"fn f() { tr!("{} of {}", "{1} の {}", all, b) }"#), []);
    assert_eq!(found(r#"fn f() { tr!("{} of {}", "{} だけ", all, b) }"#), [Fault::ValuesDiffer]);
    assert_eq!(found(r#"fn f() { refuse_if!(n > 1, "{} of {}", "{} だけ", all, b) }"#), [Fault::ValuesDiffer]);
    assert_eq!(found(r#"fn f() { tr!("a {{list}} of {x:?}", "{x} の {{}}") }"#), []);
    // A number with its noun may be a plain number in Japanese.
    assert_eq!(found(r#"fn f() { let rows = format_count(n, "row"); tr!("all {rows}", "全 {n} 行") }"#), []);
    assert_eq!(found(r#"fn f() { let (a, rows) = (n, format_count(n, "row")); tr!("all {rows}", "全 {a} 行") }"#), []);
    assert_eq!(
        found(r#"fn f() { let rows = format_count(n, "row"); tr!("all {rows}", "全行") }"#),
        [Fault::ValuesDiffer]
    );
    assert_eq!(found(r#"fn f() { tr!("{}", "{1} バイト", format_count(bytes, "byte"), bytes) }"#), []);
}
