//! Tables for a terminal.

use unicode_width::UnicodeWidthStr;

/// Formats a line for each row: the first column aligned left, the others right.
pub(crate) fn table<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let space = " ".repeat(width - cell.width());
            text += &if column == 0 { format!("{cell}{space}") } else { format!("  {space}{cell}") };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "1", ""], ["積和", "22", "3"]].map(|row| row.map(String::from));
        assert_eq!(table(&rows), "a      1\n積和  22  3\n");
    }
}
