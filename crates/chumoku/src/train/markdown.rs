//! Text of the data in tables of Markdown.

/// A name of the data's in a cell of a table, on one line and without what a terminal would take for a command.
pub(super) fn cell(name: &str) -> String {
    name.replace(char::is_control, " ").replace('|', "\\|")
}
