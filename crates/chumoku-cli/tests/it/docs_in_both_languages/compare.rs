//! Differences between an English page and its Japanese page.

use super::page::{Block, Code, INDENTED, Page, links, without_code};
use std::collections::BTreeSet;

/// Examples that differ on purpose, in English and in Japanese: a multilingual encoder for Japanese texts.
const LOCALIZED: [(&str, &str); 1] =
    [("chumoku train data.csv --from all-MiniLM-L6-v2", "chumoku train data.csv --from multilingual-e5-small")];
/// Starts of output lines of the built-in models, which differ because each language has a model of its own.
const OUTPUT_OF_MODELS: [(&str, &str); 2] = [("first\t99.7 %", "先\t99.2 %"), ("second\t99.6 %", "後\t99.7 %")];
/// A flag of Japanese pages that English ones do not need.
const IN_JAPANESE: &str = "--lang ja";

/// Returns a line for each difference.
pub fn differences(english: &Page, japanese: &Page) -> Vec<String> {
    if english.levels() != japanese.levels() {
        return vec![format!("headings of levels {:?}, in English {:?}", japanese.levels(), english.levels())];
    }
    let mut problems = Vec::new();
    for (english, japanese) in english.sections().into_iter().zip(japanese.sections()) {
        let title = japanese.first().map_or("", Block::text);
        let found = section_differences(english, japanese);
        problems.extend(found.into_iter().map(|problem| format!("“{title}”: {problem}")));
    }
    problems
}

fn kind(block: &Block) -> &'static str {
    match block {
        Block::Heading(..) => "heading",
        Block::Text(_) => "paragraph",
        Block::Row(_) => "row",
        Block::Code(_) => "code",
    }
}

fn section_differences(english: &[Block], japanese: &[Block]) -> Vec<String> {
    let kinds = |blocks: &[Block]| blocks.iter().map(kind).collect::<Vec<_>>();
    if kinds(english) != kinds(japanese) {
        return vec![format!("blocks {:?}, in English {:?}", kinds(japanese), kinds(english))];
    }
    let mut problems = Vec::new();
    // Sentences may change places within a section.
    let (mut english_text, mut japanese_text) = (String::new(), String::new());
    for pair in english.iter().zip(japanese) {
        match pair {
            (Block::Code(english), Block::Code(japanese)) => problems.extend(code_differences(english, japanese)),
            (Block::Row(english), Block::Row(japanese)) => problems.extend(row_differences(english, japanese)),
            (english, japanese) => {
                english_text += &format!(" {}", english.text());
                japanese_text += &format!(" {}", japanese.text());
            }
        }
    }
    problems.extend(set_difference("code", &inline_code(&english_text), &inline_code(&japanese_text)));
    problems.extend(set_difference("links", &link_names(&english_text), &link_names(&japanese_text)));
    if !numbers_agree(&english_text, &japanese_text) {
        let long = |text: &str| numbers(&plain(text)).into_iter().filter(|n| n.len() > 1).collect::<BTreeSet<_>>();
        problems.extend(set_difference("numbers", &long(&english_text), &long(&japanese_text)));
    }
    problems
}

fn row_differences(english: &str, japanese: &str) -> Vec<String> {
    let columns = |row: &str| row.replace("\\|", "").matches('|').count();
    let mut problems = Vec::new();
    if columns(english) != columns(japanese) || !same_numbers(&plain(english), &plain(japanese)) {
        problems.push(format!("numbers or columns of a row\n  {japanese}\n  {english}"));
    }
    problems.extend(set_difference("code of a row", &inline_code(english), &inline_code(japanese)));
    problems.extend(set_difference("links of a row", &link_names(english), &link_names(japanese)));
    problems
}

fn set_difference(what: &str, english: &BTreeSet<String>, japanese: &BTreeSet<String>) -> Option<String> {
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>();
    let (in_english, in_japanese) = (only(english, japanese), only(japanese, english));
    (english != japanese).then(|| format!("{what}: only in English {in_english:?}, only in Japanese {in_japanese:?}"))
}

fn code_differences(english: &Code, japanese: &Code) -> Vec<String> {
    if english.language != japanese.language {
        return vec![format!("code in “{}”, in English “{}”", japanese.language, english.language)];
    }
    let contents = |code: &Code| code.lines.iter().map(|line| content(line)).collect::<Vec<String>>();
    let (a, b) = (contents(english), contents(japanese));
    let is_translated = b.iter().any(|line| is_japanese(line));
    if a.len() != b.len() {
        // Output may wrap elsewhere.
        let is_output = matches!(english.language.as_str(), "" | INDENTED) && !a.iter().any(|line| is_command(line));
        let is_same = is_output && is_translated && same_numbers(&a.join("\n"), &b.join("\n"));
        return if is_same { Vec::new() } else { vec![format!("code of {} lines, in English {}", b.len(), a.len())] };
    }
    let is_output = |line: &str| matches!(english.language.as_str(), "" | "console" | "text") && !is_command(line);
    let mut problems = Vec::new();
    for (a, b) in a.iter().zip(&b) {
        // The words of output are translated, its numbers are not. Indented output has another first word.
        let has_other_start = a.split_whitespace().next() != b.split_whitespace().next();
        let may_be_output = is_translated && (is_output(a) || has_other_start);
        let is_of_models =
            OUTPUT_OF_MODELS.iter().any(|(english, japanese)| a.starts_with(english) && b.starts_with(japanese));
        if !(same_words(a, b, is_translated) || may_be_output && same_numbers(a, b) || is_of_models) {
            problems.push(format!("code\n  {b}\n  {a}"));
        }
    }
    problems
}

fn is_command(line: &str) -> bool {
    ["$ ", "chumoku ", "cargo ", "python"].iter().any(|start| line.starts_with(start))
}

/// Returns whether two lines of code are the same up to Japanese words and quoted texts in the second.
fn same_words(english: &str, japanese: &str, is_translated: bool) -> bool {
    if english == japanese {
        return true;
    }
    let (mut a, mut b): (Vec<&str>, Vec<&str>) = (english.split('"').collect(), japanese.split('"').collect());
    if a.len() == b.len() && a.len() % 2 == 1 {
        for at in (1..a.len()).step_by(2).filter(|&at| is_japanese(japanese.split('"').nth(at).unwrap())) {
            (a[at], b[at]) = ("", "");
        }
    }
    let (a, b) = (a.join("\""), b.join("\""));
    let (a, b): (Vec<&str>, Vec<&str>) = (a.split_whitespace().collect(), b.split_whitespace().collect());
    is_translated && a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a == b || is_japanese(b))
}

/// Returns a line without its comment, bars of a picture, and the flag for Japanese output.
fn content(line: &str) -> String {
    let mut end = line.len();
    for (at, _) in line.match_indices(['#', '/']) {
        let (before, rest) = line.split_at(at);
        let after = rest.strip_prefix('#').or_else(|| rest.strip_prefix("//"));
        let is_free = |text: Option<&str>| text.is_some_and(|text| text.is_empty() || text.starts_with(' '));
        if (before.is_empty() || before.ends_with(' ')) && is_free(after) {
            end = at;
            break;
        }
    }
    let is_bar = |c: char| ('\u{2580}'..='\u{259f}').contains(&c);
    line[..end].replace(&format!(" {IN_JAPANESE}"), "").replace(is_bar, "").trim_end().to_owned()
}

/// Returns whether a text has a Japanese letter.
pub fn is_japanese(text: &str) -> bool {
    let is_letter = |c: char| matches!(c, '\u{3001}' | '\u{3002}' | '\u{3005}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ff01}'..='\u{ff5e}');
    text.contains(is_letter)
}

/// The texts in backquotes that are not Japanese.
fn inline_code(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for code in text.split('`').skip(1).step_by(2).filter(|code| !is_japanese(code) && *code != IN_JAPANESE) {
        let code = LOCALIZED.iter().find(|(_, japanese)| *japanese == code).map_or(code, |(english, _)| *english);
        found.insert(code.replace("../", ""));
    }
    found
}

/// The names of the linked files. Both languages of a page have the same name.
fn link_names(text: &str) -> BTreeSet<String> {
    let name = |target: String| {
        let path = target.split('#').next().unwrap_or_default();
        if path.contains("://") {
            return path.to_owned();
        }
        path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().replace("README.ja", "README")
    };
    links(text).into_iter().map(name).collect()
}

/// Returns a text without code and targets of links.
fn plain(text: &str) -> String {
    let prose = without_code(text);
    let mut parts = prose.split("](");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain += " ";
        plain += part.split_once(')').map_or("", |(_, rest)| rest);
    }
    plain
}

/// Returns whether two texts have the same numbers of more than one digit. English may spell them.
pub fn numbers_agree(english: &str, japanese: &str) -> bool {
    let (english, japanese) = (plain(english), plain(japanese));
    let long = |text: &str| numbers(text).into_iter().filter(|number| number.len() > 1).collect::<BTreeSet<_>>();
    let (a, b) = (long(&english), long(&japanese));
    let spelled = spelled_numbers(&english);
    a.is_subset(&b) && b.difference(&a).all(|number| spelled.contains(number))
}

/// Returns whether two texts have the same numbers, each as often. English may spell some of them.
fn same_numbers(english: &str, japanese: &str) -> bool {
    let (mut a, mut b) = (numbers(english), numbers(japanese));
    a.sort();
    b.sort();
    let spelled = spelled_numbers(english);
    let count = |numbers: &[String], number: &String| numbers.iter().filter(|other| *other == number).count();
    for number in spelled {
        while count(&b, &number) > count(&a, &number) {
            let at = b.iter().position(|other| *other == number).unwrap();
            b.remove(at);
        }
    }
    a == b
}

/// The numbers of a text, without separators of thousands, and with “million” or 万 multiplied.
fn numbers(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((number, after)) = next_number(rest) {
        rest = after;
        let Ok(value) = number.parse::<f64>() else {
            found.push(number);
            continue;
        };
        let unit = |text: &str| {
            let text = text.strip_prefix(' ').unwrap_or(text);
            let units = [("million", 1e6), ("billion", 1e9), ("百万", 1e6), ("万", 1e4), ("億", 1e8)];
            units.into_iter().find_map(|(unit, factor)| Some((text.strip_prefix(unit)?.to_owned(), unit, factor)))
        };
        let Some((after_unit, name, factor)) = unit(after) else {
            found.push(number);
            continue;
        };
        let mut value = value * factor;
        rest = &after[after.len() - after_unit.len()..];
        // 1 億 1,800 万
        let tail = rest.strip_prefix(' ').unwrap_or(rest);
        if name == "億" && tail.starts_with(|c: char| c.is_ascii_digit()) {
            let (small, after) = next_number(tail).unwrap();
            if let (Some((after_unit, "万", factor)), Ok(small)) = (unit(after), small.parse::<f64>()) {
                value += small * factor;
                rest = &after[after.len() - after_unit.len()..];
            }
        }
        // 22.7 million is no exact product.
        found.push(((value * 1e3).round() / 1e3).to_string());
    }
    found
}

/// The first number of a text, without commas, and what follows it.
fn next_number(text: &str) -> Option<(String, &str)> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let text = &text[start..];
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = 0;
    while is_digit(end) || (matches!(bytes.get(end), Some(b',' | b'.')) && is_digit(end + 1)) {
        end += 1;
    }
    Some((text[..end].replace(',', ""), &text[end..]))
}

/// Numbers that an English text may spell and Japanese writes with digits.
fn spelled_numbers(english: &str) -> BTreeSet<String> {
    const WORDS: [(&str, u64); 32] = [
        ("once", 1),
        ("one", 1),
        ("first", 1),
        ("twice", 2),
        ("two", 2),
        ("second", 2),
        ("three", 3),
        ("third", 3),
        ("four", 4),
        ("five", 5),
        ("six", 6),
        ("seven", 7),
        ("eight", 8),
        ("nine", 9),
        ("ten", 10),
        ("tenth", 10),
        ("eleven", 11),
        ("eleventh", 11),
        ("twelve", 12),
        ("sixteen", 16),
        ("twenty", 20),
        ("thirty", 30),
        ("forty", 40),
        ("fifty", 50),
        ("fiftieth", 50),
        ("hundred", 100),
        ("thousand", 1_000),
        ("million", 1_000_000),
        ("millions", 1_000_000),
        ("millionth", 1_000_000),
        ("billion", 1_000_000_000),
        ("billions", 1_000_000_000),
    ];
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let lower = english.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty()).collect();
    let value = |word: &str| WORDS.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
    let mut found = BTreeSet::new();
    for (at, word) in words.iter().enumerate() {
        if let Some(number) = value(word) {
            found.insert(number.to_string());
            let next = words.get(at + 1).and_then(|word| value(word)).filter(|next| *next >= 1_000_000);
            found.extend(next.map(|next| (number * next).to_string()));
        }
    }
    let names = english.split(|c: char| !c.is_ascii_alphabetic()).filter(|name| !name.is_empty());
    for name in names {
        found.extend(MONTHS.iter().position(|month| *month == name).map(|month| (month + 1).to_string()));
    }
    if lower.contains("half a minute") || lower.contains("half an hour") {
        found.insert("30".to_owned());
    }
    found
}
