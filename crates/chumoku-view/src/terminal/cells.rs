//! Shared parts of the heatmaps: percentages, bars, vertical words.

use crate::width::{display_width, signed_number};
use unicode_segmentation::UnicodeSegmentation;

/// Maximum height of a vertical word in lines.
const MAX_HEADING: usize = 9;

/// Returns the `count` items with the largest values, in their original order.
pub(crate) fn largest_in_order(items: &[usize], count: usize, value: impl Fn(usize) -> f32) -> Vec<usize> {
    let mut sorted = items.to_vec();
    sorted.sort_by(|&a, &b| value(b).total_cmp(&value(a)));
    sorted.truncate(count);
    sorted.sort_unstable();
    sorted
}

pub(crate) fn max_width(texts: &[String]) -> usize {
    texts.iter().map(|text| display_width(text)).max().unwrap_or(0)
}

/// Formats a weight in percent without the percent sign.
pub(crate) fn percent(weight: f32) -> String {
    if weight.is_finite() {
        // A tiny negative sum would otherwise read "-0".
        format!("{:.0}", (100.0 * weight).round().abs())
    } else {
        "nan".to_owned()
    }
}

/// Returns the first round number, as a weight, that is not below the largest weight.
pub(crate) fn rounded_top(most: f32) -> f32 {
    let steps = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0];
    // Half a percent of tolerance for weights that round to the displayed number.
    let top = steps.into_iter().find(|step| most * 100.0 < step + 0.5).unwrap_or(100.0);
    top / 100.0
}

/// Returns a bar for a share of `width` columns, in eighths of a column. Any share above zero is visible.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a terminal's width"
)]
pub(crate) fn filled_bar(share: f32, width: usize) -> String {
    const PARTS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let mut eighths = (share * (width * 8) as f32).round() as usize;
    if share > 0.0 {
        eighths = eighths.max(1);
    }
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(PARTS[eighths % 8 - 1]);
    }
    bar
}

/// Returns the effect that fills a bar: the largest, or 0 if even that is shown as 0 with this many decimals.
pub(crate) fn full_bar_effect(effects: impl Iterator<Item = f32>, digits: usize) -> f32 {
    let largest = effects.map(f32::abs).fold(0.0, f32::max);
    if signed_number(largest, digits).starts_with('+') { largest } else { 0.0 }
}

/// Returns a word as vertical text, one grapheme a line, truncated to the maximum height.
pub(crate) fn vertical_word(word: &str, cell: usize) -> Vec<String> {
    let mut signs: Vec<String> = word
        .graphemes(true)
        .map(|grapheme| match grapheme {
            // The long-vowel mark is horizontal in horizontal text and vertical in vertical text.
            "ー" => "｜".to_owned(),
            // Wider than the column: some scripts join letters into one wide grapheme.
            wide if display_width(wide) >= cell => "…".to_owned(),
            other => other.to_owned(),
        })
        .collect();
    if signs.len() > MAX_HEADING {
        signs.truncate(MAX_HEADING - 1);
        signs.push("…".to_owned());
    }
    signs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_lengths_match_shares() {
        assert_eq!(filled_bar(0.0, 10), "");
        assert_eq!(filled_bar(0.0001, 10), "▏");
        assert_eq!(filled_bar(0.5, 5), "██▌");
        assert_eq!(filled_bar(1.0, 3), "███");
        assert_eq!(filled_bar(7.0, 3), "███");
        assert_eq!(filled_bar(f32::NAN, 3), "");
    }

    #[test]
    fn effects_that_are_all_shown_as_zero_fill_no_bar() {
        let full = |effects: [f32; 2], digits| full_bar_effect(effects.into_iter(), digits);
        assert_eq!(full([0.004, -0.0049], 2), 0.0);
        assert_eq!(full([0.004, -0.0049], 3), 0.0049);
        assert_eq!(full([0.004, -0.006], 2), 0.006);
        assert_eq!(full([0.0, f32::NAN], 2), 0.0);
    }

    #[test]
    fn scale_tops_are_round_and_not_below_the_maximum() {
        assert_eq!(rounded_top(0.004), 0.01);
        assert_eq!(rounded_top(0.38), 0.4);
        assert_eq!(rounded_top(0.404), 0.4, "shown as 40");
        assert_eq!(rounded_top(0.41), 0.5);
        assert_eq!(rounded_top(1.0), 1.0);
    }

    #[test]
    fn largest_items_keep_their_order() {
        let values = [0.1, 0.9, 0.3, 0.9];
        assert_eq!(largest_in_order(&[0, 1, 2, 3], 2, |i| values[i]), [1, 3]);
        assert_eq!(largest_in_order(&[0, 1, 2, 3], 3, |i| values[i]), [1, 2, 3]);
    }

    #[test]
    fn words_are_written_vertically() {
        assert_eq!(vertical_word("コーヒー", 3), ["コ", "｜", "ヒ", "｜"]);
        assert_eq!(vertical_word("e\u{301}a", 3), ["e\u{301}", "a"]);
        assert_eq!(vertical_word("internationally", 3).len(), MAX_HEADING);
    }
}
