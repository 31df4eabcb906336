//! A simplified syntax tree of Rust: strings and the calls around them.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A token or a bracketed group.
#[derive(Debug, PartialEq)]
pub enum Node {
    /// A name, keyword or number.
    Word(String),
    /// Any other token except strings and brackets.
    Mark(char),
    /// A string literal without escapes.
    Text { text: String, line: usize },
    /// A bracketed group.
    Group { open: char, nodes: Vec<Node> },
}

/// Parses the tokens of a source file. Comments, characters and byte strings are skipped.
pub fn parse(source: &str) -> Vec<Node> {
    nodes(source.parse().unwrap_or_else(|error| panic!("not Rust: {error}: {source}")))
}

fn nodes(tokens: TokenStream) -> Vec<Node> {
    tokens.into_iter().flat_map(node).collect()
}

fn node(token: TokenTree) -> Vec<Node> {
    let open = |delimiter| match delimiter {
        Delimiter::Parenthesis => Some('('),
        Delimiter::Bracket => Some('['),
        Delimiter::Brace => Some('{'),
        Delimiter::None => None,
    };
    match token {
        TokenTree::Group(group) => match open(group.delimiter()) {
            Some(open) => vec![Node::Group { open, nodes: nodes(group.stream()) }],
            None => nodes(group.stream()),
        },
        TokenTree::Ident(name) => vec![Node::Word(name.to_string())],
        TokenTree::Punct(mark) => vec![Node::Mark(mark.as_char())],
        TokenTree::Literal(literal) => {
            let line = literal.span().start().line;
            match syn::Lit::new(literal) {
                syn::Lit::Str(text) => vec![Node::Text { text: text.value(), line }],
                syn::Lit::Int(number) => vec![Node::Word(number.to_string())],
                syn::Lit::Float(number) => vec![Node::Word(number.to_string())],
                _ => Vec::new(),
            }
        }
    }
}
