//! Finds English strings in sources that have no Japanese counterpart.

#![allow(missing_docs, unreachable_pub, reason = "a test's own")]

mod tokens;

pub use tokens::{Node, parse};

/// Macros and functions that take the same string in English and in Japanese.
const TRANSLATION_CALLS: [&str; 4] = ["tr", "pick", "refuse", "refuse_if"];
/// Messages for developers: a user sees them only after a bug.
const DEVELOPER_CALLS: [&str; 13] = [
    "expect",
    "expect_err",
    "panic",
    "unreachable",
    "todo",
    "unimplemented",
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "include_str",
];
/// Wrappers around a string that do not make it another call's argument.
const WRAPPERS: [&str; 5] = ["format", "from", "Some", "Ok", "Err"];

/// A faulty string.
#[derive(Debug)]
pub struct MessageFault {
    pub line: usize,
    pub text: String,
    pub fault: Fault,
}

/// The fault of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// English without a Japanese counterpart.
    NoJapanese,
    /// English in the position of the Japanese.
    NotJapanese,
    /// English and Japanese with different values.
    ValuesDiffer,
}

/// Finds all faulty strings of a source file.
pub fn faults(source: &str) -> Vec<MessageFault> {
    let nodes = parse(source);
    let mut search = FaultSearch { integers: Vec::new(), found: Vec::new() };
    integer_names(&nodes, &mut search.integers);
    search.search_block(&nodes);
    search.found
}

struct FaultSearch {
    /// Names of numbers that are shown with their noun: `let rows = format_count(n, "row")`.
    integers: Vec<String>,
    found: Vec<MessageFault>,
}

/// Collects the names bound to a result of `format_count` or `pluralize`, alone or in a tuple: `let (a, rows) = (b, format_count(n, "row"))`.
fn integer_names(nodes: &[Node], names: &mut Vec<String>) {
    for statement in nodes.split(|node| *node == Node::Mark(';')) {
        for at in (0..statement.len()).filter(|&at| matches!(&statement[at], Node::Word(word) if word == "let")) {
            match &statement[at + 1..] {
                [Node::Word(name), Node::Mark('='), value @ ..] if is_integer(value) => names.push(name.clone()),
                [Node::Group { nodes: all, .. }, Node::Mark('='), Node::Group { nodes: values, .. }, ..] => {
                    let pairs = split(all).into_iter().zip(split(values));
                    names.extend(
                        pairs.filter(|(_, value)| is_integer(value)).flat_map(|(name, _)| owned_strings(&words(name))),
                    );
                }
                _ => {}
            }
        }
    }
    for node in nodes {
        if let Node::Group { nodes, .. } = node {
            integer_names(nodes, names);
        }
    }
}

/// Returns `true` for a call of `format_count`.
fn is_integer(value: &[Node]) -> bool {
    (1..value.len())
        .any(|at| matches!(value[at], Node::Group { .. }) && ["format_count", "pluralize"].contains(&callee(value, at)))
}

fn owned_strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns `true` for English text, ignoring values, tags and flags: two words or more, or a plain word with a value.
fn is_english(text: &str) -> bool {
    // A command line is the same in every language.
    if has_japanese(text) || text.trim_start().starts_with("chumoku ") {
        return false;
    }
    let rest = without_tags(&without_values(text));
    let words = || rest.split_whitespace().filter(|word| !word.starts_with("--"));
    let has_letters = |word: &str| word.as_bytes().windows(2).any(|pair| pair.iter().all(u8::is_ascii_alphabetic));
    let is_plain = |word: &str| {
        let word = word.trim_matches(['.', ',', ':', ';', '!', '?', '“', '”']);
        word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_lowercase())
    };
    words().filter(|word| has_letters(word)).count() > 1
        || text.contains('{') && text.contains(' ') && words().any(is_plain)
}

fn has_japanese(text: &str) -> bool {
    text.chars().any(|c| matches!(c, '\u{3040}'..='\u{30ff}' | '\u{4e00}'..='\u{9fff}'))
}

/// Removes `<…>` from a text. A tag may begin or end in another string.
fn without_tags(text: &str) -> String {
    let mut out = String::new();
    let mut rest = match (text.find('>'), text.find('<')) {
        (Some(end), start) if start.is_none_or(|start| end < start) && text[..end].contains("=\"") => &text[end + 1..],
        _ => text,
    };
    while let Some(start) = rest.find('<') {
        out.push_str(&rest[..start]);
        let is_tag = rest[start + 1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '!');
        match rest[start..].find('>') {
            Some(end) if is_tag => {
                out.push(' ');
                rest = &rest[start + end + 1..];
            }
            None if is_tag => return out,
            _ => {
                out.push('<');
                rest = &rest[start + 1..];
            }
        }
    }
    out + rest
}

fn without_values(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        out.push_str(&rest[..start]);
        match rest[start..].find('}') {
            Some(end) => rest = &rest[start + end + 1..],
            None => return out + &rest[start..],
        }
    }
    out + rest
}

/// The names of the values in a format string. `{}` gets its index, and `{{` is a brace.
fn placeholders(text: &str) -> Vec<String> {
    let (text, mut next, mut names) = (text.replace("{{", "").replace("}}", ""), 0, Vec::new());
    for value in text.split('{').skip(1) {
        let name = value.split(['}', ':']).next().unwrap_or_default();
        if name.is_empty() {
            names.push(next.to_string());
            next += 1;
        } else {
            names.push(name.to_owned());
        }
    }
    names.sort();
    names.dedup();
    names
}

/// Returns `true` if a pattern selects English and another arm gives the Japanese.
fn has_japanese_arm(pattern: &[Node], arms: &[(&[Node], &[Node])]) -> bool {
    let english = words(pattern);
    let others = |words: &[&str]| -> Vec<String> {
        owned_strings(words).into_iter().filter(|word| !["Lang", "En", "Ja", "_"].contains(&&**word)).collect()
    };
    let all = others(&english);
    english.contains(&"En")
        && arms.iter().any(|(pattern, _)| {
            let japanese = words(pattern);
            japanese.contains(&"Ja") && others(&japanese).iter().all(|word| all.contains(word))
        })
}

/// The words of a pattern, without its guard.
fn words(nodes: &[Node]) -> Vec<&str> {
    let mut all = Vec::new();
    for node in nodes {
        match node {
            Node::Word(word) if word == "if" => break,
            Node::Word(word) => all.push(word.as_str()),
            Node::Group { nodes, .. } => all.extend(words(nodes)),
            _ => {}
        }
    }
    all
}

/// The patterns and bodies of a match; empty if the braces hold something else.
fn match_arms(nodes: &[Node]) -> Vec<(&[Node], &[Node])> {
    let is_arrow = |at: usize| nodes[at..].starts_with(&[Node::Mark('='), Node::Mark('>')]);
    let (mut arms, mut start) = (Vec::new(), 0);
    while let Some(arrow) = (start..nodes.len()).find(|&at| is_arrow(at)) {
        let body = arrow + 2;
        let comma = (body..nodes.len()).find(|&at| nodes[at] == Node::Mark(',')).unwrap_or(nodes.len());
        // A block needs no comma after it.
        let is_block = matches!(nodes.get(body), Some(Node::Group { open: '{', .. }));
        let end = if is_block && nodes.get(body + 1) != Some(&Node::Mark('.')) { body + 1 } else { comma };
        arms.push((&nodes[start..arrow], &nodes[body..end]));
        start = if nodes.get(end) == Some(&Node::Mark(',')) { end + 1 } else { end };
    }
    arms
}

/// Splits nodes at commas.
fn split(nodes: &[Node]) -> Vec<&[Node]> {
    nodes.split(|node| *node == Node::Mark(',')).collect()
}

fn starts(nodes: &[Node], name: &str) -> bool {
    matches!(nodes, [Node::Word(word), Node::Mark(':'), ..] if word == name)
}

/// The name of the macro or function whose arguments begin at `at`.
fn callee(nodes: &[Node], at: usize) -> &str {
    match &nodes[..at] {
        [.., Node::Word(name), Node::Mark('!')] | [.., Node::Word(name)] => name,
        _ => "",
    }
}

/// Returns `true` if the nodes contain Japanese that is not already part of a pair.
fn mentions_japanese(nodes: &[Node]) -> bool {
    nodes.iter().enumerate().any(|(at, node)| match node {
        Node::Text { text, .. } => has_japanese(text),
        Node::Group { nodes: inner, .. } => !TRANSLATION_CALLS.contains(&callee(nodes, at)) && mentions_japanese(inner),
        _ => false,
    })
}

impl FaultSearch {
    /// Searches a file or the inside of braces: statements, fields or match arms.
    fn search_block(&mut self, nodes: &[Node]) {
        let arms = match_arms(nodes);
        if arms.is_empty() {
            let fields = split(nodes);
            let is_pair = fields.windows(2).any(|pair| starts(pair[0], "en") && starts(pair[1], "ja"));
            if !is_pair {
                self.search_nodes(nodes, false);
            }
            return;
        }
        for (pattern, body) in &arms {
            // `"reading" => "読み込み"`.
            self.search_nodes(pattern, mentions_japanese(body));
            if !has_japanese_arm(pattern, &arms) {
                self.search_nodes(body, false);
            }
        }
    }

    /// Searches a sequence of tokens. `is_paired` is true if the Japanese is next to it.
    fn search_nodes(&mut self, nodes: &[Node], is_paired: bool) {
        let mut at = 0;
        while at < nodes.len() {
            match &nodes[at] {
                Node::Mark('#') => {
                    let inner = if nodes.get(at + 1) == Some(&Node::Mark('!')) { at + 2 } else { at + 1 };
                    if let Some(Node::Group { open: '[', nodes: attribute }) = nodes.get(inner) {
                        // Users see only the text of the attribute `#[error("…")]`.
                        if matches!(attribute.first(), Some(Node::Word(name)) if name == "error") {
                            self.search_nodes(attribute, false);
                        }
                        at = if is_test_attribute(attribute) { item_end(nodes, inner + 1) } else { inner + 1 };
                        continue;
                    }
                }
                Node::Text { text, line } if !is_paired && is_english(text) => {
                    self.add_fault(*line, text, Fault::NoJapanese)
                }
                Node::Group { open: '{', nodes } => self.search_block(nodes),
                Node::Group { nodes: inner, .. } => self.search_arguments(callee(nodes, at), inner, is_paired),
                _ => {}
            }
            at += 1;
        }
    }

    /// Searches the arguments of `name`.
    fn search_arguments(&mut self, name: &str, nodes: &[Node], is_paired: bool) {
        if TRANSLATION_CALLS.contains(&name) {
            self.check_pair(nodes, usize::from(name == "refuse_if"), name != "pick");
        } else if !DEVELOPER_CALLS.contains(&name) {
            let is_wrapper = name.is_empty() || WRAPPERS.contains(&name);
            let arguments = split(nodes);
            for (i, argument) in arguments.iter().enumerate() {
                let is_beside = arguments.get(i + 1).is_some_and(|next| mentions_japanese(next));
                self.search_nodes(argument, is_beside || is_paired && is_wrapper);
            }
        }
    }

    /// Checks a pair of English and Japanese and, for a message, its values. The pair is argument `first` and the next.
    fn check_pair(&mut self, nodes: &[Node], first: usize, is_message: bool) {
        let arguments = &split(nodes)[first..];
        let text = |i: usize| match arguments.get(i) {
            Some([Node::Text { text, line }]) => Some((text, *line)),
            _ => None,
        };
        if let Some((ja, line)) = text(1).filter(|(ja, _)| is_english(ja)) {
            self.add_fault(line, ja, Fault::NotJapanese);
        }
        if let (true, Some((en, line)), Some((ja, _))) = (is_message, text(0), text(1))
            && !self.same_values(&placeholders(en), &placeholders(ja), &arguments[2..])
        {
            self.add_fault(line, en, Fault::ValuesDiffer);
        }
        for argument in arguments.iter().skip(2) {
            self.search_nodes(argument, false);
        }
    }

    /// Returns `true` if both languages use the same values. For an English `{rows}`, a number with its noun, Japanese
    /// may use the number under another name.
    fn same_values(&self, en: &[String], ja: &[String], arguments: &[&[Node]]) -> bool {
        let only = |own: &[String], other: &[String]| -> Vec<String> {
            own.iter().filter(|name| !other.contains(name)).cloned().collect()
        };
        let [english, japanese] = [only(en, ja), only(ja, en)];
        let is_number = |name: &String| match name.parse::<usize>() {
            Ok(number) => arguments.get(number).is_some_and(|argument| is_integer(argument)),
            Err(_) => self.integers.contains(name),
        };
        english.len() == japanese.len() && english.iter().all(is_number)
    }

    fn add_fault(&mut self, line: usize, text: &str, fault: Fault) {
        self.found.push(MessageFault { line, text: text.to_owned(), fault });
    }
}

/// Returns `true` for an attribute that marks a test.
fn is_test_attribute(attribute: &[Node]) -> bool {
    match attribute {
        [Node::Word(name)] => name == "test",
        [Node::Word(name), Node::Group { nodes, .. }] => {
            name == "cfg" && matches!(&nodes[..], [Node::Word(what)] if what == "test")
        }
        _ => false,
    }
}

/// The index after the item that begins at `at`: after its braces or semicolon.
fn item_end(nodes: &[Node], at: usize) -> usize {
    let is_end = |node: &Node| matches!(node, Node::Mark(';') | Node::Group { open: '{', .. });
    nodes[at..].iter().position(is_end).map_or(nodes.len(), |length| at + length + 1)
}
