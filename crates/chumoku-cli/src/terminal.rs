//! Size and colors of the terminal.

use chumoku_kernels::system::enable_escape_sequences;
use chumoku_view::{ColorDepth, Lang, TerminalOptions};
use std::io::{IsTerminal, stdout};

/// Returns the options of the terminal; its width is 80 if unknown.
pub(crate) fn terminal_options(lang: Lang) -> TerminalOptions {
    let is_terminal = stdout().is_terminal();
    let width = match terminal_size::terminal_size() {
        Some((width, _)) if is_terminal => usize::from(width.0),
        _ => 80,
    };
    let mut options = TerminalOptions::default();
    options.width = width;
    options.color = color_depth(is_terminal);
    options.lang = lang;
    options
}

/// Returns the color depth of standard output, and prepares a Windows console for colors.
pub(crate) fn color_depth(is_terminal: bool) -> ColorDepth {
    match is_terminal && !enable_escape_sequences() {
        true => ColorDepth::None,
        false => ColorDepth::detect(is_terminal, |name| std::env::var(name).ok()),
    }
}
