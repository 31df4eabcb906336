//! Splits long texts into windows.

use std::ops::Range;

/// Splits `length` tokens into the fewest windows of at most `limit` tokens. The windows are in order, have nearly
/// equal sizes, and cover every token once.
///
/// An empty text has one empty window.
///
/// ```
/// assert_eq!(chumoku_text::tokens::windows(10, 4), [0..4, 4..7, 7..10]);
/// ```
pub fn windows(length: usize, limit: usize) -> Vec<Range<usize>> {
    let count = length.div_ceil(limit.max(1)).max(1);
    let (size, larger) = (length / count, length % count);
    let mut start = 0;
    (0..count)
        .map(|i| {
            let end = start + size + usize::from(i < larger);
            std::mem::replace(&mut start, end)..end
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_every_token_once() {
        for length in 0..200 {
            for limit in 1..20 {
                let windows = windows(length, limit);
                assert_eq!(windows[0].start, 0);
                assert_eq!(windows[windows.len() - 1].end, length);
                assert!(windows.windows(2).all(|w| w[0].end == w[1].start));
                assert!(windows.iter().all(|w| w.len() <= limit));
                let sizes = windows.iter().map(Range::len);
                assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
            }
        }
    }
}
