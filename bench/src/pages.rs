//! Pages and pictures of attention: Chumoku's and BertViz's, with the same weights. `pages` writes attention of 12 x 12
//! heads as Chumoku's page and as BertViz's two pages. It opens each in headless Chromium and prints a table for
//! `record/`. `peers/measure_page.py` does the measuring and defines "drawn". PATH is a Python with BertViz, PyTorch
//! and websocket-client. FOLDER of `--scripts` holds the scripts of BertViz's pages (`peers/README.md`). `pictures`
//! draws heatmaps as PNG files.

use crate::flags::Flags;
use crate::programs::{load, root, tool};
use crate::side::{Side, digits, median, with_spread};
use chumoku::data::format_thousands;
use chumoku::tensors::{Tensor, TensorFile};
use chumoku_kernels::Philox;
use chumoku_view::{
    Attribution, DerivedAttention, Explanation, ExplanationFigures as _, ExplanationKind, Fonts, HeadAblation,
    LabelProbability, Lang, QueriesAndKeys, Word, WordPiece, to_html,
};
use rayon::prelude::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Instant;

const LAYERS: usize = 12;
const HEADS: usize = 12;
/// The width of a head's queries and keys.
const WIDTH: usize = 64;
/// An SVG with one line, as the smallest possible page.
const LEAST: &str = "<!doctype html><title>line</title><svg><line x1=0 y1=0 x2=99 y2=99 stroke=red /></svg>";

const ENGLISH: &str = "the film was slow at first , but every scene of its second half moved us more than we had \
                       expected , and the unforgettable music stayed with me for days";
const JAPANESE: &str = "この 映画 は 前半 こそ 退屈 だっ た が 、 後半 の 場面 は どれ も 予想 以上 に 心 を 動かし 、 音楽 も \
                        忘れ られ ない";

struct Pages {
    python: PathBuf,
    scripts: Option<PathBuf>,
    tokens: Vec<usize>,
    runs: usize,
    timeout: usize,
    /// The most seconds to wait for other work to end before a run.
    wait: usize,
    keep: Option<PathBuf>,
    has_peer: bool,
}

/// Writes and measures the pages of each length.
pub(crate) fn run(flags: Flags) -> Result<(), String> {
    let pages = Pages::new(flags)?;
    let (_temporary, folder) = folder(pages.keep.as_deref())?;
    // First, so that missing programs are reported before anything else.
    let (least, mut notes) = pages.least(&folder)?;
    println!("Load of the machine at the start: {}\n", load());
    println!(
        "| tokens | page | bytes | nodes | ms until drawn | by its own clock | peak of the process | JS heap | other work |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    println!("{least}");
    for &tokens in &pages.tokens {
        for note in pages.length(tokens, &folder.join(tokens.to_string()))? {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    println!();
    for note in notes {
        println!("{note}");
    }
    println!("Load of the machine at the end: {}", load());
    Ok(())
}

impl Pages {
    fn new(mut flags: Flags) -> Result<Pages, String> {
        let pages = Pages {
            python: flags.value("--python")?.unwrap_or("python3".into()),
            scripts: flags.value("--scripts")?,
            tokens: flags.numbers("--tokens", &[16, 128, 512])?,
            runs: flags.number("--runs", 5)?,
            timeout: flags.number("--timeout", 120)?,
            wait: flags.value("--wait")?.unwrap_or(0),
            keep: flags.value("--keep")?,
            has_peer: !flags.is_given("--no-peer"),
        };
        flags.end().map(|()| pages)
    }

    /// The row of an almost empty page, and the versions.
    fn least(&self, folder: &Path) -> Result<(String, Vec<String>), String> {
        let page = folder.join("line.html");
        write(&page, LEAST)?;
        let reports = self.measure(&[page], folder)?;
        let row = line("–", "an SVG line, nothing else", &reports[0]);
        let browser = reports[0]["browser"].as_str().unwrap_or("browser unknown");
        Ok((row, vec![format!("Browser: {browser}. {}.", tool("rustc", &["--version"]))]))
    }

    /// The rows of one length, and the notes below the table.
    fn length(&self, tokens: usize, folder: &Path) -> Result<Vec<String>, String> {
        eprintln!("{tokens} tokens: writing the pages");
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let words = words(ENGLISH, 0, tokens);
        let attention = attention(1, tokens);
        let mut notes = Vec::new();
        let mut names = ["Chumoku, all of `explain`", "Chumoku, weights alone"].map(String::from).to_vec();
        let mut files = ["chumoku.html", "chumoku-weights.html"].map(|name| folder.join(name)).to_vec();
        if self.has_peer {
            let shared = folder.join("attention.safetensors");
            write_attention(&shared, &words, &attention)?;
            let mut args = vec![script("bertviz_page.py"), path(&shared), "--out".into(), path(folder)];
            args.extend(self.scripts.iter().flat_map(|scripts| ["--scripts".into(), path(scripts)]));
            for page in Side::new(&self.python, args).run()? {
                let field = |name: &str| page[name].as_str().unwrap_or("unknown").to_owned();
                names.push(format!("BertViz, {}_view", field("view")));
                files.push(field("page").into());
                notes.push(format!("BertViz {}, PyTorch {}.", field("bertviz"), field("torch")));
            }
            notes.extend(self.scripts_note());
        }
        let weights = explanation("Attention of 12 x 12 heads", &words, attention);
        write(&files[1], &to_html(&weights, [0, 0], Lang::En))?;
        write(&files[0], &to_html(&with_all(weights), [0, 0], Lang::En))?;
        eprintln!("{tokens} tokens: measuring");
        for (name, report) in names.iter().zip(self.measure(&files, folder)?) {
            println!("{}", line(&tokens.to_string(), name, &report));
        }
        Ok(notes)
    }

    /// One report per page, in the order of the pages.
    fn measure(&self, files: &[PathBuf], folder: &Path) -> Result<Vec<Value>, String> {
        let mut args = vec![script("measure_page.py"), "--runs".into(), self.runs.to_string()];
        args.extend(["--timeout".into(), self.timeout.to_string(), "--wait".into(), self.wait.to_string()]);
        if self.keep.is_some() {
            args.extend(["--screenshots".into(), path(&folder.join("screenshots"))]);
        }
        args.extend(files.iter().map(|file| path(file)));
        let reports = Side::new(&self.python, args).run()?;
        if reports.len() != files.len() {
            return Err(format!("measure_page.py printed {} objects for {} pages", reports.len(), files.len()));
        }
        if self.keep.is_some() {
            let text: String = reports.iter().map(|report| format!("{report}\n")).collect();
            write(&folder.join("reports.jsonl"), &text)?;
        }
        Ok(reports)
    }

    /// The size of the scripts that BertViz's pages load, as a note.
    fn scripts_note(&self) -> Option<String> {
        let scripts = self.scripts.as_ref()?;
        let files = ["require.js", "d3.min.js", "jquery.min.js"];
        let bytes = files.iter().filter_map(|name| Some(std::fs::metadata(scripts.join(name)).ok()?.len()));
        let bytes = format_thousands(bytes.sum::<u64>() as usize);
        Some(format!("BertViz's pages also load {bytes} bytes of scripts, here from disk and not from the network."))
    }
}

/// An explanation with these words and weights; all other fields are made up.
fn explanation(model: &str, words: &[String], attention: Vec<f32>) -> Explanation {
    let class = |label: &str, probability| LabelProbability { label: label.into(), probability };
    let random = Philox::new(3, words.len() as u64);
    Explanation {
        cut: None,
        kind: ExplanationKind::Classifier,
        model: model.into(),
        text: words[1..].join(" ").into(),
        label: "positive".into(),
        similarity: None,
        number: None,
        levels: Vec::new(),
        probabilities: vec![class("positive", 0.75), class("negative", 0.25)],
        exclusive: true,
        parts: None,
        pieces: words.iter().enumerate().map(|(word, text)| WordPiece { text: text.clone(), word }).collect(),
        words: words.iter().enumerate().map(|(i, text)| Word { text: text.clone(), special: i == 0 }).collect(),
        layers: LAYERS,
        heads: HEADS,
        attention,
        causal: false,
        joining: "sum over keys, mean over queries".into(),
        derived: DerivedAttention::default(),
        depth: None,
        without: Vec::new(),
        attribution: Attribution {
            curves: None,
            integral: None,
            method: "leave-one-out".into(),
            class: "positive".into(),
            unit: "change in log-odds when the word is removed".into(),
            scores: (0..words.len() as u64).map(|i| if i == 0 { 0.0 } else { 0.5 * random.normal(i) }).collect(),
            whole: None,
            beyond: Vec::new(),
        },
        columns: Vec::new(),
        prompt_words: None,
        lens: None,
        residual_path: None,
        patching: None,
    }
}

/// The same with all fields that `explain` gives for a model: derived maps, queries and keys, and the prediction
/// without each head. The values are made up, but have the real size.
fn with_all(mut explanation: Explanation) -> Explanation {
    let tokens = explanation.words.len();
    let vectors = |stream| {
        let random = Philox::new(4, stream);
        (0..(LAYERS * HEADS * tokens * WIDTH) as u64).into_par_iter().map(|i| random.normal(i)).collect::<Vec<f32>>()
    };
    let value_weighted = attention(5, tokens);
    let rollout = value_weighted[..LAYERS * tokens * tokens].to_vec();
    explanation.derived = DerivedAttention { value_weighted, rollout };
    let [queries, keys] = [0, 1].map(vectors);
    explanation.depth =
        Some(QueriesAndKeys { scale: (WIDTH as f64).sqrt().recip(), slopes: None, dim: WIDTH, queries, keys });
    explanation.without = (0..LAYERS * HEADS)
        .map(|index| {
            let positive = Philox::new(6, 0).uniform(index as u64);
            let label = if positive >= 0.5 { "positive" } else { "negative" }.into();
            HeadAblation {
                layer: index / HEADS,
                head: index % HEADS,
                label,
                probabilities: vec![positive, 1.0 - positive],
                whole: None,
                similarity: None,
            }
        })
        .collect();
    explanation
}

/// Weights (layers, heads, tokens, tokens) like those of trained heads. Rows are random. Each head gives other shares
/// to the token itself and its neighbors, and to the first token.
fn attention(seed: u64, tokens: usize) -> Vec<f32> {
    let mut weights = vec![0.0f32; LAYERS * HEADS * tokens * tokens];
    weights.par_chunks_exact_mut(tokens * tokens).enumerate().for_each(|(head, weights)| {
        let random = Philox::new(seed, head as u64);
        let [near, first] = [0, 1].map(|i| 4.0 * Philox::new(seed, 1 << 32).uniform(2 * head as u64 + i));
        for (query, row) in weights.chunks_exact_mut(tokens).enumerate() {
            for (key, weight) in row.iter_mut().enumerate() {
                let distance = query.abs_diff(key) as f32;
                let logit = 1.2 * random.normal((query * tokens + key) as u64) + near * (-0.7 * distance).exp();
                *weight = (logit + if key == 0 { first } else { 0.0 }).exp();
            }
            let sum: f32 = row.iter().sum();
            row.iter_mut().for_each(|weight| *weight /= sum);
        }
    });
    weights
}

/// `[CLS]` and words of a text, `tokens` in all, starting at word `start` and repeating the text.
fn words(text: &str, start: usize, tokens: usize) -> Vec<String> {
    std::iter::once("[CLS]").chain(text.split_whitespace().cycle().skip(start)).take(tokens).map(String::from).collect()
}

/// Writes the file that `bertviz_page.py` reads.
fn write_attention(file: &Path, words: &[String], attention: &[f32]) -> Result<(), String> {
    let shape = [LAYERS, HEADS, words.len(), words.len()];
    let tensor = Tensor::new(&shape, attention.to_vec()).map_err(|error| error.to_string())?;
    let tokens = ("tokens".to_owned(), serde_json::json!(words).to_string());
    let shared = TensorFile { tensors: [("attention".into(), tensor)].into(), metadata: [tokens].into() };
    shared.write(file, &chumoku::output::InputFiles::empty()).map_err(|error| error.to_string())
}

/// A row of the table.
fn line(tokens: &str, name: &str, report: &Value) -> String {
    let number = |field: &str| report[field].as_f64();
    let mebibytes =
        |field: &str| number(field).map_or("–".into(), |x| format!("{} MiB", digits(x / (1 << 20) as f64)));
    let drawn = match (report["status"].as_str(), number("drawn_ms")) {
        (Some("drawn"), Some(ms)) => {
            let [least, most] = ["drawn_ms_least", "drawn_ms_most"].map(|field| whole(number(field)));
            format!("{} ({least} to {most})", whole(Some(ms)))
        }
        (status, _) => {
            let status = match status {
                Some("empty") => "draws nothing",
                Some("timeout") => "does not finish",
                Some("crashed") => "crashes",
                _ => "unknown",
            };
            let problem = report["problem"].as_str().map(|problem| format!(": {problem}"));
            format!("**{status}**{}", problem.unwrap_or_default())
        }
    };
    format!(
        "| {tokens} | {name} | {} | {} | {drawn} | {} | {} | {} | {} |",
        whole(number("bytes")),
        whole(number("nodes")),
        whole(number("own_ms")),
        mebibytes("memory_bytes"),
        mebibytes("heap_bytes"),
        number("others").map_or("–".into(), |share| format!("{:.0} %", 100.0 * share)),
    )
}

/// Draws heatmaps in one process: loads the fonts, then lays out, draws, compresses and writes each picture.
pub(crate) fn pictures(mut flags: Flags) -> Result<(), String> {
    let (count, runs) = (flags.number("--count", 100)?, flags.number("--runs", 3)?);
    let keep = flags.value::<PathBuf>("--keep")?;
    flags.end()?;
    let (_temporary, folder) = folder(keep.as_deref())?;
    // Texts of 14 to 18 words, every other one Japanese.
    let texts: Vec<Explanation> = (0..10)
        .map(|text| {
            let [of, lang] = [[ENGLISH, "English"], [JAPANESE, "Japanese"]][text % 2];
            let words = words(of, text, 14 + text / 2);
            let weights = attention(2 + text as u64, words.len());
            explanation(&format!("{lang} text {}", text / 2 + 1), &words, weights)
        })
        .collect();
    println!("Load of the machine at the start: {}\n", load());
    println!("| pictures | threads | fonts loaded, s | batch with them, s | bytes of a picture, about |");
    println!("|---|---|---|---|---|");
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    for threads in if all == 1 { vec![1] } else { vec![all, 1] } {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| error.to_string())?;
        let (mut loading, mut whole, mut bytes) = (Vec::new(), Vec::new(), 0);
        for _ in 0..runs {
            let start = Instant::now();
            let fonts = Fonts::installed().map_err(|error| error.to_string())?;
            loading.push(start.elapsed().as_secs_f64());
            let draw = |picture: usize| {
                let text = picture % texts.len();
                let head = picture / texts.len();
                let lang = if text.is_multiple_of(2) { Lang::En } else { Lang::Ja };
                let scene = texts[text].heatmap(head % LAYERS, (head / LAYERS + text) % HEADS, lang).scene();
                let png = fonts.png(&scene, 2.0).map_err(|error| error.to_string())?;
                let file = folder.join(format!("{picture:03}.png"));
                std::fs::write(&file, &png).map_err(|error| format!("{}: {error}", file.display()))?;
                Ok(png.len())
            };
            let sizes: Result<Vec<usize>, String> = pool.install(|| (0..count).into_par_iter().map(draw).collect());
            whole.push(start.elapsed().as_secs_f64());
            bytes = sizes?.iter().sum::<usize>() / count;
        }
        whole.sort_by(f64::total_cmp);
        loading.sort_by(f64::total_cmp);
        let (loading, whole) = (digits(median(&loading)), with_spread(&whole));
        println!("| {count} | {threads} | {loading} | {whole} | {} |", format_thousands(bytes));
    }
    println!("\nLoad of the machine at the end: {}", load());
    Ok(())
}

/// The folder to write to: a given one, or a temporary one that is removed when the first value is dropped.
fn folder(keep: Option<&Path>) -> Result<(Option<tempfile::TempDir>, PathBuf), String> {
    match keep {
        Some(folder) => {
            std::fs::create_dir_all(folder).map_err(|error| format!("--keep {}: {error}", folder.display()))?;
            Ok((None, folder.to_owned()))
        }
        None => {
            let temporary = tempfile::tempdir().map_err(|error| format!("a folder for the pages: {error}"))?;
            let folder = temporary.path().to_owned();
            Ok((Some(temporary), folder))
        }
    }
}

/// A script of `peers/`.
fn script(name: &str) -> String {
    path(&root().join("bench/peers").join(name))
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

/// A rounded number with commas between its thousands, or a dash.
fn whole(x: Option<f64>) -> String {
    x.map_or("–".into(), |x| format_thousands(x.round() as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn attention_is_the_same_every_time_and_fits_an_explanation() {
        let tokens = 5;
        let weights = attention(1, tokens);
        assert!(weights == attention(1, tokens) && weights != attention(2, tokens));
        let explanation = explanation("model", &words(ENGLISH, 0, tokens), weights);
        assert_eq!(explanation.validate(), Ok(()));
        assert_eq!(with_all(explanation.clone()).validate(), Ok(()));
        assert_eq!(explanation.text, "the film was slow");
        // No head looks like another.
        assert!(explanation.row(0, 0, 2) != explanation.row(0, 1, 2));
    }

    #[test]
    fn the_peer_gets_the_same_numbers_and_words() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("attention.safetensors");
        let (words, weights) = (words(JAPANESE, 0, 3), attention(1, 3));
        write_attention(&file, &words, &weights).unwrap();
        let back = TensorFile::read(&file).unwrap();
        assert_eq!(back.tensors["attention"].shape(), [12, 12, 3, 3]);
        assert!(back.tensors["attention"].iter().eq(weights.iter().map(|&x| f64::from(x))));
        assert_eq!(back.metadata["tokens"], r#"["[CLS]","この","映画"]"#);
    }

    #[test]
    fn rows_of_the_table() {
        let drawn = json!({
            "bytes": 1234567, "status": "drawn", "nodes": 89, "drawn_ms": 412.6, "drawn_ms_least": 400.2,
            "drawn_ms_most": 1500.0, "own_ms": 300.0, "memory_bytes": 1 << 27, "heap_bytes": null, "problem": null, "others": 0.074,
        });
        assert_eq!(
            line("16", "ours", &drawn),
            "| 16 | ours | 1,234,567 | 89 | 413 (400 to 1,500) | 300 | 128 MiB | – | 7 % |"
        );
        let crashed = json!({ "bytes": 5, "status": "crashed", "nodes": null, "problem": "it ended" });
        assert_eq!(line("512", "theirs", &crashed), "| 512 | theirs | 5 | – | **crashes**: it ended | – | – | – | – |");
    }

    #[test]
    fn without_python_there_is_a_message() {
        let args = ["--python", "no such program", "--tokens", "2"];
        let problem = run(Flags::new(args.map(String::from))).unwrap_err();
        assert!(problem.contains("no such program"), "{problem}");
    }
}
