//! A heatmap for a terminal: vertical words above the columns, and a line for each row.

use super::cells::{percent, vertical_word};
use super::color::{ColorDepth, Painter};
use crate::phrases;
use crate::width::{align_left, align_right, display_width};
use chumoku::lang::Lang;

/// The sign that replaces 100 where it would touch the previous number.
pub(crate) const FULL_SIGN: &str = "**";

/// The sign of a masked key.
const UNSEEN_SIGN: &str = "·";

/// Formats a signed number in hundredths.
fn hundredths(x: f32) -> String {
    match (100.0 * x).round() {
        0.0 => "0".into(),
        x => format!("{x:+}"),
    }
}

/// A block of columns of a heatmap.
pub(crate) struct HeatmapPanel<'a> {
    /// Words of the rows (queries) and of the columns (keys), safe to print.
    pub(crate) words: [&'a [String]; 2],
    /// Returns the weight of a row and a column; `None` for a masked key.
    pub(crate) weight: &'a dyn Fn(usize, usize) -> Option<f32>,
    pub(crate) rows: &'a [usize],
    pub(crate) keys: &'a [usize],
    /// Heading of the last column, which sums all hidden keys; `None` if no key is hidden.
    pub(crate) rest_heading: Option<&'a str>,
    /// Width of a cell in columns.
    pub(crate) cell_width: usize,
    /// Width of a row label in columns.
    pub(crate) label_width: usize,
    /// The weight at the top of the scale.
    pub(crate) scale_top: f32,
    /// Text between the two axes.
    pub(crate) corner: &'a str,
    /// Number of the first row and column: 1 for words, 0 for axes of numbers.
    pub(crate) first_number: usize,
    /// Headings of all columns that replace their numbers, such as chosen dimensions.
    pub(crate) headings: Option<&'a [String]>,
    /// True for signed numbers, which are written in hundredths with a sign.
    pub(crate) is_signed: bool,
}

impl HeatmapPanel<'_> {
    /// Returns the lines of the block.
    pub(crate) fn lines(&self, paint: Painter) -> Vec<String> {
        let mut lines = Vec::new();
        let [row_words, key_words] = self.words;
        let index = row_words.len().to_string().len();
        let gutter = " ".repeat(2 + index + 1 + self.label_width + 1);
        let standing: Vec<Vec<String>> =
            self.keys.iter().map(|&k| vertical_word(&key_words[k], self.cell_width)).collect();
        let height = standing.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            // Words end just above their numbers.
            let signs: String = standing
                .iter()
                .map(|word| match (line + word.len()).checked_sub(height) {
                    Some(i) => align_right(&word[i], self.cell_width),
                    None => " ".repeat(self.cell_width),
                })
                .collect();
            lines.push(format!("{gutter} {signs}"));
        }
        let corner = align_right(self.corner, display_width(&gutter) - 1);
        let number = |&k: &usize| match self.headings {
            Some(headings) => align_right(&headings[k], self.cell_width),
            None => align_right(&(k + self.first_number).to_string(), self.cell_width),
        };
        let mut numbers: String = self.keys.iter().map(number).collect();
        if let Some(rest) = self.rest_heading {
            numbers += &align_right(rest, self.cell_width + 1);
        }
        lines.push(format!("{} {}{}", paint.quiet(&corner), paint.quiet("│"), paint.quiet(&numbers)));

        for &query in self.rows {
            let weights = self.keys.iter().map(|&key| (self.weight)(query, key));
            let digits = |x: f32| match percent(x) {
                full if full.len() >= self.cell_width && paint.is_plain() => FULL_SIGN.to_owned(),
                digits => digits,
            };
            let cell = |weight: Option<f32>| match weight {
                Some(x) if self.is_signed => {
                    paint.signed(x / self.scale_top, &align_right(&hundredths(x), self.cell_width))
                }
                Some(x) => paint.cell(x / self.scale_top, &align_right(&digits(x), self.cell_width)),
                None => paint.quiet(&align_right(UNSEEN_SIGN, self.cell_width)),
            };
            let mut cells: String = weights.clone().map(cell).collect();
            if self.rest_heading.is_some() {
                let shown: f32 = weights.flatten().sum();
                cells += &align_right(&percent((1.0 - shown).max(0.0)), self.cell_width + 1);
            }
            lines.push(format!(
                "  {} {} {}{cells}",
                paint.quiet(&align_right(&(query + self.first_number).to_string(), index)),
                align_left(&row_words[query], self.label_width),
                paint.quiet("│"),
            ));
        }
        lines
    }
}

/// Returns the scale from 0 to `top` and a note on the largest weight `most`. The note is separate if it does not fit
/// on the line.
pub(crate) fn legend(
    lang: Lang,
    color_depth: ColorDepth,
    [width, cell]: [usize; 2],
    [top, largest]: [f32; 2],
) -> (Option<String>, Option<String>) {
    let (paint, shades) = (Painter::new(color_depth), color_depth == ColorDepth::None);
    let word = phrases::color_word(lang, shades);
    let bar: String = if shades {
        "[ ░▒▓█]".to_owned()
    } else {
        let steps = 20;
        (0..steps).map(|i| paint.cell(i as f32 / (steps - 1) as f32, " ")).collect()
    };
    let scale = format!("  {word}  0 {bar} {:.0} %", top * 100.0);
    let mut note = phrases::largest_weight_note(lang, largest * 100.0);
    if shades && percent(largest).len() >= cell {
        note += &phrases::full_sign_note(lang, FULL_SIGN);
    }
    // The colored bar is 20 columns wide, less than the length of its text.
    let used = 2 + display_width(word) + 4 + if shades { 7 } else { 20 } + 6;
    if used + 1 + display_width(&note) <= width {
        (Some(format!("{scale} {note}")), None)
    } else {
        (Some(scale), Some(note))
    }
}
