//! Markdown as far as the pages use it: headings, paragraphs, lists, tables, code.

/// A block of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// The number of `#`, and the text.
    Heading(usize, String),
    /// A paragraph or an item of a list, on one line.
    Text(String),
    /// A row of a table.
    Row(String),
    Code(Code),
}

/// A block of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The word after the fence, or `INDENTED`.
    pub language: String,
    pub lines: Vec<String>,
}

/// The language of code that is indented and has no fence.
pub const INDENTED: &str = "indented";

/// A page as a list of blocks.
pub struct Page {
    pub blocks: Vec<Block>,
}

impl Page {
    pub fn parse(text: &str) -> Page {
        let lines: Vec<&str> = text.lines().collect();
        let mut page = Page { blocks: Vec::new() };
        let mut paragraph: Vec<&str> = Vec::new();
        let mut in_list = false;
        let mut at = 0;
        while let Some(&line) = lines.get(at) {
            at += 1;
            if let Some(language) = line.trim_start().strip_prefix("```") {
                page.close(&mut paragraph);
                let end = lines[at..].iter().position(|line| line.trim_start().starts_with("```"));
                let end = at + end.unwrap_or_else(|| panic!("code without an end: {line}"));
                let code = lines[at..end].iter().map(|&line| line.to_owned()).collect();
                page.blocks.push(Block::Code(Code { language: language.to_owned(), lines: code }));
                at = end + 1;
            } else if line.starts_with("    ") && paragraph.is_empty() && !in_list {
                let mut code = vec![line[4..].to_owned()];
                while let Some(line) = lines.get(at).filter(|line| line.starts_with("    ")) {
                    code.push(line[4..].to_owned());
                    at += 1;
                }
                page.blocks.push(Block::Code(Code { language: INDENTED.to_owned(), lines: code }));
            } else if line.starts_with('#') {
                page.close(&mut paragraph);
                in_list = false;
                let title = line.trim_start_matches('#');
                page.blocks.push(Block::Heading(line.len() - title.len(), title.trim().to_owned()));
            } else if line.starts_with('|') {
                page.close(&mut paragraph);
                page.blocks.push(Block::Row(line.to_owned()));
            } else if is_item(line.trim_start()) {
                page.close(&mut paragraph);
                in_list = true;
                paragraph.push(line.trim());
            } else if line.trim().is_empty() {
                page.close(&mut paragraph);
                in_list &= lines.get(at).is_some_and(|next| next.starts_with("  ") || is_item(next));
            } else {
                paragraph.push(line.trim());
            }
        }
        page.close(&mut paragraph);
        page
    }

    fn close(&mut self, paragraph: &mut Vec<&str>) {
        if !paragraph.is_empty() {
            self.blocks.push(Block::Text(paragraph.join(" ")));
            paragraph.clear();
        }
    }

    /// Splits the page at its headings. A section begins with its heading, the first one may have none.
    pub fn sections(&self) -> Vec<&[Block]> {
        let starts: Vec<usize> = self
            .blocks
            .iter()
            .enumerate()
            .filter(|(at, block)| *at == 0 || matches!(block, Block::Heading(..)))
            .map(|(at, _)| at)
            .collect();
        let ends = starts.iter().skip(1).copied().chain([self.blocks.len()]);
        starts.iter().zip(ends).map(|(&start, end)| &self.blocks[start..end]).collect()
    }

    /// The levels of the headings.
    pub fn levels(&self) -> Vec<usize> {
        let level = |block: &Block| if let Block::Heading(level, _) = block { Some(*level) } else { None };
        self.blocks.iter().filter_map(level).collect()
    }

    /// The targets of the links outside of code.
    pub fn links(&self) -> Vec<String> {
        self.blocks.iter().flat_map(|block| links(block.text())).collect()
    }

    /// The anchors of the headings, as GitHub makes them.
    pub fn anchors(&self) -> Vec<String> {
        let anchor = |title: &str| -> String {
            let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
            title.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
        };
        let of = |block: &Block| if let Block::Heading(_, title) = block { Some(anchor(title)) } else { None };
        self.blocks.iter().filter_map(of).collect()
    }
}

impl Block {
    /// The text of a heading, a paragraph or a row; nothing of code.
    pub fn text(&self) -> &str {
        match self {
            Block::Heading(_, text) | Block::Text(text) | Block::Row(text) => text,
            Block::Code(_) => "",
        }
    }
}

/// Returns true if a line begins an item of a list.
fn is_item(line: &str) -> bool {
    let after_number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("- ")
        || line.starts_with("* ")
        || (after_number.len() < line.len() && after_number.starts_with(". "))
}

/// Targets of links in a text, outside of code.
pub fn links(text: &str) -> Vec<String> {
    let target = |rest: &str| rest.split_once(')').map(|(target, _)| target.to_owned());
    without_code(text).split("](").skip(1).filter_map(target).collect()
}

/// Returns a text without what is in backquotes.
pub fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}
