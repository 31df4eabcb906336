//! Rust, as far as texts and the calls they stand in are concerned.

use std::iter::Peekable;
use std::str::Chars;

/// A token, or what stands between brackets.
#[derive(Debug, PartialEq)]
pub enum Node {
    /// A name, keyword or number.
    Word(String),
    /// Anything else but a text or a bracket.
    Mark(char),
    /// A text, with its escapes read.
    Text { text: String, line: usize },
    /// What stands between brackets.
    Group { open: char, nodes: Vec<Node> },
}

/// The tokens of a source file. Comments, characters, lifetimes and byte strings are left out.
pub fn parse(source: &str) -> Vec<Node> {
    let mut reader = Reader { rest: source.chars().peekable(), line: 1 };
    reader.nodes()
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.next();
        self.line += usize::from(c == Some('\n'));
        c
    }

    fn next_if(&mut self, wanted: char) -> bool {
        let is_there = self.rest.peek() == Some(&wanted);
        if is_there {
            self.next();
        }
        is_there
    }

    /// The tokens up to the bracket that closes them, or the end.
    fn nodes(&mut self) -> Vec<Node> {
        let mut nodes = Vec::new();
        while let Some(c) = self.next() {
            match c {
                ')' | ']' | '}' => break,
                '(' | '[' | '{' => nodes.push(Node::Group { open: c, nodes: self.nodes() }),
                '"' => nodes.push(self.text()),
                '\'' => self.character(),
                '/' if self.next_if('/') => while self.next().is_some_and(|c| c != '\n') {},
                '/' if self.next_if('*') => self.comment(),
                c if c.is_alphanumeric() || c == '_' => self.word(c, &mut nodes),
                c if c.is_whitespace() => {}
                c => nodes.push(Node::Mark(c)),
            }
        }
        nodes
    }

    /// A name, or the prefix of a text.
    fn word(&mut self, first: char, nodes: &mut Vec<Node>) {
        let mut word = String::from(first);
        while let Some(&c) = self.rest.peek().filter(|c| c.is_alphanumeric() || **c == '_') {
            word.push(c);
            self.next();
        }
        let is_raw = matches!(word.as_str(), "r" | "br" | "cr");
        let mut hashes = 0;
        while is_raw && self.next_if('#') {
            hashes += 1;
        }
        match word.as_str() {
            "r" | "br" | "cr" if self.next_if('"') => {
                let text = self.raw(hashes);
                nodes.extend((word == "r").then_some(text));
            }
            "b" if self.next_if('"') => drop(self.text()),
            "b" if self.next_if('\'') => self.character(),
            _ => nodes.push(Node::Word(word)),
        }
    }

    /// A text whose quotation mark has been read.
    fn text(&mut self) -> Node {
        let (mut text, line) = (String::new(), self.line);
        while let Some(c) = self.next() {
            match c {
                '"' => break,
                '\\' => match self.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('u' | 'x') => text.push('?'),
                    // The line goes on, without what it is indented by.
                    Some('\n') => while self.rest.next_if(|c| *c == ' ' || *c == '\t').is_some() {},
                    Some(c) => text.push(c),
                    None => {}
                },
                c => text.push(c),
            }
        }
        Node::Text { text, line }
    }

    /// A text without escapes, which ends at a quotation mark and as many hashes.
    fn raw(&mut self, hashes: usize) -> Node {
        let (mut text, line, end) = (String::new(), self.line, format!("\"{}", "#".repeat(hashes)));
        while let Some(c) = self.next() {
            text.push(c);
            if text.ends_with(&end) {
                text.truncate(text.len() - end.len());
                break;
            }
        }
        Node::Text { text, line }
    }

    /// A character, or the apostrophe of a lifetime.
    fn character(&mut self) {
        match self.next() {
            Some('\\') => {
                self.next();
                while self.next().is_some_and(|c| c != '\'') {}
            }
            // Of a lifetime the name is left, which says nothing.
            Some(_) => {
                self.next_if('\'');
            }
            None => {}
        }
    }

    /// A comment of several lines, which may hold others.
    fn comment(&mut self) {
        let mut depth = 1;
        while depth > 0 {
            match self.next() {
                Some('*') if self.next_if('/') => depth -= 1,
                Some('/') if self.next_if('*') => depth += 1,
                Some(_) => {}
                None => return,
            }
        }
    }
}
