//! Tokens of real tokenizers match those of `tokenizers` on 10,000 lines of real text, including Japanese.
//!
//! `CHUMOKU_CHECKPOINTS` is the folder of checkpoints, `CHUMOKU_DATA` that of data, and `CHUMOKU_PYTHON` a Python with
//! `tokenizers`. The test reports and skips what is missing.

use chumoku::text::{PretrainedTokenizer, WordPieceOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Files of the data folder and how many of their lines are read. They hold reviews, questions, comments with emoji,
/// tweets, plays, JSON with escapes, and Japanese with and without spaces.
const LINES: [(&str, usize); 10] = [
    ("sst2/train.tsv", 1_000),
    ("trec/train.txt", 1_000),
    ("banking77/train.csv", 1_000),
    ("goemotions/train.tsv", 1_500),
    ("wnut17/train.conll", 500),
    ("tinyshakespeare/input.txt", 500),
    ("ja_jrte_sentiment/train.tsv", 2_500),
    ("enja/train.ja", 1_000),
    ("jsts/train.jsonl", 500),
    ("ja_ner/train.jsonl", 500),
];

/// Texts that are rare in data.
const ODD: [&str; 16] = [
    "",
    " ",
    "  two  spaces  ",
    "a\tb\u{a0}c\u{3000}d",
    "ｶﾞ㍿①ﷺ ﬁ",
    "e\u{301}\u{301} é Å \u{212b}",
    "👨‍👩‍👧‍👦🏳️‍🌈",
    "\u{202e}abc\u{feff}\u{200b}x",
    "don't won't I'll we've",
    "1,234.56 0x1F 3e-5",
    "ＡＢＣ１２３",
    "한국어 ไทย العربية עברית हिन्दी",
    "\u{1}\u{7f}\u{ad}",
    "naïve façade Straße İstanbul",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "…—–“”‘’«»",
];

const TOKENIZERS: &str = r#"
import json, sys
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(sys.argv[1])
tokenizer.no_truncation()
tokenizer.no_padding()
# A text that spells a special token is text, unless asked for otherwise.
tokenizer.encode_special_tokens = sys.argv[2] == "text"
texts = json.load(sys.stdin)
json.dump([found.ids for found in tokenizer.encode_batch(texts)], sys.stdout)
"#;

fn path_from_env(variable: &str) -> Option<PathBuf> {
    let found = std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    if found.is_none() {
        eprintln!("SKIPPED: {variable} is not set, so no tokens were compared with those of `tokenizers`");
    }
    found
}

fn texts(data: &Path) -> Vec<String> {
    let mut all: Vec<String> = ODD.map(String::from).into();
    for (name, count) in LINES {
        let path = data.join(name);
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).take(count).collect();
        assert_eq!(lines.len(), count, "{name} has fewer lines");
        all.extend(lines.into_iter().map(String::from));
    }
    all
}

fn expected(python: &Path, tokenizer: &Path, texts: &[String], special: &str) -> Vec<Vec<u32>> {
    let mut child = Command::new(python)
        .args(["-c", TOKENIZERS])
        .arg(tokenizer)
        .arg(special)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    serde_json::to_writer(child.stdin.take().unwrap(), texts).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn assert_tokens(name: &str, tokenizer: &PretrainedTokenizer, texts: &[String], expected: &[Vec<u32>]) {
    let all: Vec<&str> = texts.iter().map(String::as_str).collect();
    let found = tokenizer.encode_all(&all, usize::MAX).unwrap();
    assert_eq!(found.len(), expected.len());
    let differ: Vec<String> = (0..found.len())
        .filter(|&i| found[i].ids != expected[i])
        .map(|i| format!("{:?}: {:?}, tokenizers has {:?}", texts[i], found[i].ids, expected[i]))
        .collect();
    let shown = differ.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(differ.is_empty(), "{name}: {} of {} texts differ:\n{shown}", differ.len(), texts.len());
    // Spans of tokens lie within the text and contain whole characters.
    for (text, encoding) in texts.iter().zip(&found) {
        assert!(encoding.spans.iter().all(|&(start, end)| text.get(start..end).is_some()), "{name}: {text:?}");
    }
    eprintln!("{name}: {} texts, {} tokens", texts.len(), found.iter().map(|e| e.ids.len()).sum::<usize>());
}

#[test]
fn tokens_match_tokenizers() {
    let (Some(checkpoints), Some(data), Some(python)) =
        (path_from_env("CHUMOKU_CHECKPOINTS"), path_from_env("CHUMOKU_DATA"), path_from_env("CHUMOKU_PYTHON"))
    else {
        return;
    };
    if !Command::new(&python).args(["-c", "import tokenizers"]).output().unwrap().status.success() {
        eprintln!("SKIPPED: the Python of CHUMOKU_PYTHON has no tokenizers");
        return;
    }
    let texts = texts(&data);
    assert_eq!(texts.len(), 10_000 + ODD.len());
    for (name, file) in [
        ("minilm", "tokenizer.json"),
        ("e5", "tokenizer.json"),
        ("smollm2", "tokenizer.json"),
        ("wordllama", "l2_supercat_tokenizer_config.json"),
    ] {
        let path = checkpoints.join(name).join(file);
        if !path.is_file() {
            eprintln!("SKIPPED: CHUMOKU_CHECKPOINTS names no folder with {name}, so its tokens were not compared");
            continue;
        }
        let tokenizer = PretrainedTokenizer::read(&path).unwrap();
        let of_text = expected(&python, &path, &texts, "text");
        assert_tokens(name, &tokenizer, &texts, &of_text);
        let mut spelt = texts.clone();
        spelt.push("<|im_start|>user\nhi<|im_end|> <s> [SEP] </s> [MASK]".into());
        let with_special = expected(&python, &path, &spelt, "tokens");
        assert_tokens(name, &tokenizer.clone().parsing_special_tokens(), &spelt, &with_special);
        // Only the vocabulary, without the tokenizer settings.
        let pieces = checkpoints.join(name).join("vocab.txt");
        if pieces.is_file() {
            let tokenizer = PretrainedTokenizer::read_word_pieces(&pieces, WordPieceOptions::default()).unwrap();
            assert_tokens(&format!("{name}, vocab.txt"), &tokenizer, &texts, &of_text);
        }
    }
}
