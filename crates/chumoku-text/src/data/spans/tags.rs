//! Word tags, and the spans that they encode.
//!
//! In IOB2 (Ramshaw and Marcus 1995, Tjong Kim Sang and Veenstra 1999), `B-person` starts a span of the kind `person`
//! and `I-person` continues it. `O` is outside of all spans. IOB1 uses `B-` only where two spans of a kind touch. In
//! BIOES (also written BILOU or BMES), the last word of a span has `E-`, and a span of one word has `S-`.
//!
//! Sequences that violate their scheme are read as in conlleval and seqeval: an `I-` after `O` or after another kind
//! starts a span.

use std::ops::Range;

use crate::lang::lang;

/// The position of a word in a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TagPosition {
    Outside,
    Begin,
    Inside,
    End,
    Single,
}

/// A parsed tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    pub(super) position: TagPosition,
    pub(super) kind: &'a str,
}

impl<'a> Tag<'a> {
    /// Parses a tag with a prefix, or `O`. Returns `None` for a plain label.
    pub(super) fn parse_prefixed(tag: &'a str) -> Option<Tag<'a>> {
        let outside = Tag { position: TagPosition::Outside, kind: "" };
        if tag == "O" {
            return Some(outside);
        }
        // A prefix alone, as in segmentation data without kinds.
        let (prefix, kind) = tag.split_once('-').unwrap_or((tag, "_"));
        let part = match prefix {
            "B" => TagPosition::Begin,
            "I" | "M" => TagPosition::Inside,
            "E" | "L" => TagPosition::End,
            "S" | "U" => TagPosition::Single,
            _ => return None,
        };
        (!kind.is_empty()).then_some(Tag { position: part, kind })
    }

    /// Returns whether this tag starts a span if it follows another.
    fn starts_span_after(self, before: Tag<'_>) -> bool {
        let is_new = || {
            matches!(self.position, TagPosition::Begin | TagPosition::Single)
                || matches!(before.position, TagPosition::Outside | TagPosition::End | TagPosition::Single)
                || before.kind != self.kind
        };
        self.position != TagPosition::Outside && is_new()
    }
}

/// A tagging scheme: how the tags of a file encode spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaggingScheme {
    Iob1,
    Iob2,
    Bioes,
    /// Kinds without prefixes, and `O`. Adjacent equal tags are one span.
    Io,
    /// A label for each word.
    Words,
}

impl TaggingScheme {
    /// The name of the scheme for messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            TaggingScheme::Iob1 => "IOB1",
            TaggingScheme::Iob2 => "IOB2",
            TaggingScheme::Bioes => "BIOES",
            TaggingScheme::Io => lang().pick("kinds without B- and I-", "B-・I- なしの種類"),
            TaggingScheme::Words => lang().pick("a label for each word", "単語ごとのラベル"),
        }
    }

    /// Parses a tag of this scheme. Returns `None` for tags of others.
    pub(super) fn parse_tag(self, tag: &str) -> Option<Tag<'_>> {
        match self {
            TaggingScheme::Iob1 | TaggingScheme::Iob2 | TaggingScheme::Bioes => Tag::parse_prefixed(tag),
            TaggingScheme::Io if tag == "O" => Tag::parse_prefixed(tag),
            _ if tag.contains('-') && Tag::parse_prefixed(tag).is_some() => None,
            TaggingScheme::Io => Some(Tag { position: TagPosition::Inside, kind: tag }),
            TaggingScheme::Words => Some(Tag { position: TagPosition::Single, kind: tag }),
        }
    }

    /// Detects the scheme of a file. It has prefixes if at least half of the tags other than `O` have one.
    pub(super) fn detect(sentences: &[Vec<String>]) -> TaggingScheme {
        let tags = || sentences.iter().flatten().filter(|tag| *tag != "O");
        let with_prefix = tags().filter(|tag| Tag::parse_prefixed(tag).is_some()).count();
        if 2 * with_prefix < tags().count() {
            let has_outside = sentences.iter().flatten().any(|tag| tag == "O");
            return if has_outside { TaggingScheme::Io } else { TaggingScheme::Words };
        }
        let (mut inside_first, mut begin_free) = (0, 0);
        for sentence in sentences {
            let mut before = Tag { position: TagPosition::Outside, kind: "" };
            for tag in sentence.iter().filter_map(|tag| Tag::parse_prefixed(tag)) {
                match tag.position {
                    TagPosition::End | TagPosition::Single => return TaggingScheme::Bioes,
                    TagPosition::Inside if tag.starts_span_after(before) => inside_first += 1,
                    // IOB1 uses `B-` only between two spans of a kind, IOB2 at the start of every span.
                    TagPosition::Begin if before.position != TagPosition::Outside && before.kind == tag.kind => {}
                    TagPosition::Begin => begin_free += 1,
                    _ => {}
                }
                before = tag;
            }
        }
        match inside_first > begin_free {
            true => TaggingScheme::Iob1,
            false => TaggingScheme::Iob2,
        }
    }
}

/// Returns the spans of a sentence, in words, and how many of them start irregularly for IOB2.
pub(super) fn tags_to_spans<'a>(tags: &[Tag<'a>]) -> (Vec<(Range<usize>, &'a str)>, usize) {
    let mut spans: Vec<(Range<usize>, &str)> = Vec::new();
    let (mut before, mut odd) = (Tag { position: TagPosition::Outside, kind: "" }, 0);
    for (i, &tag) in tags.iter().enumerate() {
        if tag.starts_span_after(before) {
            odd += usize::from(matches!(tag.position, TagPosition::Inside | TagPosition::End));
            spans.push((i..i, tag.kind));
        }
        if let (true, Some((words, _))) = (tag.position != TagPosition::Outside, spans.last_mut()) {
            words.end = i + 1;
        }
        before = tag;
    }
    (spans, odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The spans that seqeval 1.2.2 returns from `get_entities(tags.split())`, with an inclusive end.
    fn spans(tags: &str) -> Vec<(&str, [usize; 2])> {
        let tags: Vec<Tag<'_>> = tags.split(' ').map(|tag| Tag::parse_prefixed(tag).unwrap()).collect();
        tags_to_spans(&tags).0.into_iter().map(|(words, kind)| (kind, [words.start, words.end - 1])).collect()
    }

    #[test]
    fn spans_match_seqeval() {
        type Found = [(&'static str, [usize; 2])];
        let golden: [(&str, &Found); 10] = [
            ("B-PER I-PER O B-LOC", &[("PER", [0, 1]), ("LOC", [3, 3])]),
            ("I-PER I-PER O I-LOC", &[("PER", [0, 1]), ("LOC", [3, 3])]),
            ("B-PER B-PER I-LOC", &[("PER", [0, 0]), ("PER", [1, 1]), ("LOC", [2, 2])]),
            ("I-PER B-PER I-PER", &[("PER", [0, 0]), ("PER", [1, 2])]),
            ("B-PER I-PER E-PER S-LOC O E-LOC", &[("PER", [0, 2]), ("LOC", [3, 3]), ("LOC", [5, 5])]),
            ("E-PER E-PER I-PER", &[("PER", [0, 0]), ("PER", [1, 1]), ("PER", [2, 2])]),
            ("S-PER I-PER O", &[("PER", [0, 0]), ("PER", [1, 1])]),
            ("O O", &[]),
            ("B-creative-work I-creative-work", &[("creative-work", [0, 1])]),
            ("B I O B", &[("_", [0, 1]), ("_", [3, 3])]),
        ];
        for (tags, expected) in golden {
            assert_eq!(spans(tags), expected, "{tags}");
        }
    }

    #[test]
    fn schemes_are_detected() {
        let scheme = |sentences: &[&str]| {
            let words = |line: &&str| line.split(' ').map(str::to_owned).collect::<Vec<String>>();
            TaggingScheme::detect(&sentences.iter().map(words).collect::<Vec<_>>())
        };
        assert_eq!(scheme(&["B-a I-a O", "O B-b"]), TaggingScheme::Iob2);
        assert_eq!(scheme(&["B-a I-a O", "O I-b"]), TaggingScheme::Iob2);
        assert_eq!(scheme(&["I-a I-a O", "O I-b B-b"]), TaggingScheme::Iob1);
        assert_eq!(scheme(&["I-a B-a B-a O"]), TaggingScheme::Iob1);
        // One error does not change the scheme of a file.
        assert_eq!(scheme(&["I-a I-a O I-b", "I-b O I-a", "O B-a"]), TaggingScheme::Iob1);
        assert_eq!(scheme(&["B-a I-a O B-b", "B-b O B-a", "O I-a"]), TaggingScheme::Iob2);
        assert_eq!(scheme(&["B-a E-a O"]), TaggingScheme::Bioes);
        assert_eq!(scheme(&["U-a O", "B-a L-a"]), TaggingScheme::Bioes);
        assert_eq!(scheme(&["PER PER O"]), TaggingScheme::Io);
        assert_eq!(scheme(&["DET NOUN VERB"]), TaggingScheme::Words);
        assert_eq!(TaggingScheme::Words.parse_tag("B-a"), None);
        assert_eq!(TaggingScheme::Iob2.parse_tag("NOUN"), None);
        // Some part-of-speech tags contain a hyphen.
        assert!(TaggingScheme::Words.parse_tag("-LRB-").is_some());
    }
}
