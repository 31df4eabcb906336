//! The tag scheme of a chain: labels of units and the spans they encode.

use super::chain::Transitions;
use std::ops::Range;

/// The tag scheme for these kinds of spans: `O`, then `B` and `I` of each kind (IOB2). If every word has a label, the
/// kinds themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagScheme {
    /// Number of labels of spans.
    pub kinds: usize,
    /// True if every unit has a label of its own, so that no span is longer.
    pub each_word: bool,
}

impl TagScheme {
    /// Returns the number of tags.
    pub fn count(self) -> usize {
        if self.each_word { self.kinds } else { 2 * self.kinds + 1 }
    }

    /// Returns `true` if a label may follow another. `from` is `count()` at the start. An `I` may only follow a `B` or
    /// `I` of its kind.
    pub(crate) fn may_follow(self, from: usize, to: usize) -> bool {
        let is_inside = !self.each_word && to > 0 && to.is_multiple_of(2);
        !is_inside || from == to || from == to - 1
    }

    /// Returns the label that continues a span of this kind, if there is one.
    pub(crate) fn inside_tag(self, kind: usize) -> Option<usize> {
        (!self.each_word).then_some(2 * kind + 2)
    }

    /// Returns the labels of a span of this kind and length.
    pub fn span_tags(self, kind: usize, units: usize) -> Vec<usize> {
        match self.each_word {
            true => vec![kind; units],
            false => std::iter::once(2 * kind + 1).chain(std::iter::repeat(2 * kind + 2)).take(units).collect(),
        }
    }

    /// Returns the labels of `units` units with these spans, each given by its units and kind. If every word has a
    /// label, units outside of spans get the first.
    pub fn encode(self, units: usize, spans: &[(Range<usize>, usize)]) -> Vec<usize> {
        let mut labels = vec![0; units];
        for (range, kind) in spans {
            labels[range.clone()].copy_from_slice(&self.span_tags(*kind, range.len()));
        }
        labels
    }

    /// Returns the spans that the labels encode.
    pub fn decode(self, labels: &[usize]) -> Vec<(Range<usize>, usize)> {
        let mut spans: Vec<(Range<usize>, usize)> = Vec::new();
        for (i, &label) in labels.iter().enumerate() {
            match label {
                _ if self.each_word => spans.push((i..i + 1, label)),
                0 => {}
                inside if inside.is_multiple_of(2) => {
                    if let Some((range, _)) = spans.last_mut() {
                        range.end = i + 1;
                    }
                }
                begin => spans.push((i..i + 1, begin / 2)),
            }
        }
        spans
    }

    /// Builds transitions from these scores (count + 1, count), with invalid ones forbidden.
    pub fn transitions(self, scores: &[f32]) -> Transitions {
        let n = self.count();
        let allowed = |at: usize| self.may_follow(at / n, at % n);
        let score = |(at, x): (usize, &f32)| if allowed(at) { f64::from(*x) } else { f64::NEG_INFINITY };
        Transitions::new(n, scores.iter().enumerate().map(score).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_returns_the_encoded_spans() {
        let tags = TagScheme { kinds: 2, each_word: false };
        let spans = vec![(0..2, 1), (2..3, 1), (3..4, 0), (5..8, 0)];
        let labels = tags.encode(9, &spans);
        assert_eq!(labels, [3, 4, 3, 1, 0, 1, 2, 2, 0]);
        assert_eq!(tags.decode(&labels), spans);
        let (outside, begin, inside) = (0, 3, 4);
        assert!(tags.may_follow(begin, inside) && tags.may_follow(inside, inside) && tags.may_follow(inside, begin));
        assert!(!tags.may_follow(outside, inside) && !tags.may_follow(1, inside) && !tags.may_follow(5, inside));
        assert!(!tags.may_follow(2, inside) && tags.may_follow(5, begin) && tags.may_follow(5, outside));
        let words = TagScheme { kinds: 3, each_word: true };
        assert_eq!(words.decode(&[2, 2, 0]), [(0..1, 2), (1..2, 2), (2..3, 0)]);
        assert!(words.may_follow(0, 2) && words.may_follow(3, 2) && words.count() == 3);
    }
}
