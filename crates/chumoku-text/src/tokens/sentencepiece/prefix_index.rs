//! A sorted list of texts, searched byte by byte for prefixes of a text.

/// Sorted texts, each with a number.
#[derive(Clone, Debug, Default)]
pub(super) struct PrefixIndex(Vec<(Box<[u8]>, usize)>);

impl PrefixIndex {
    /// Sorts the texts.
    ///
    /// # Errors
    /// The text that occurs twice.
    pub(super) fn new<'a>(texts: impl Iterator<Item = (&'a str, usize)>) -> Result<PrefixIndex, String> {
        let mut sorted: Vec<(Box<[u8]>, usize)> =
            texts.map(|(text, number)| (text.as_bytes().into(), number)).collect();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(String::from_utf8_lossy(&pair[0].0).into_owned()),
            None => Ok(PrefixIndex(sorted)),
        }
    }

    /// Iterates over the entries that `text` starts with, shortest first, as lengths and numbers.
    pub(super) fn prefixes<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (usize, usize)> + 'a {
        let mut left = &self.0[..];
        let bytes = text.as_bytes().iter().enumerate().map_while(move |(depth, &byte)| {
            // The remaining entries agree up to this depth. Shorter ones come first.
            let begins = |(text, _): &(Box<[u8]>, usize)| text.get(depth).is_none_or(|&other| other < byte);
            left = &left[left.partition_point(begins)..];
            left = &left[..left.partition_point(|(text, _)| text.get(depth) == Some(&byte))];
            let first = left.first()?;
            Some((first.0.len() == depth + 1).then_some((depth + 1, first.1)))
        });
        bytes.flatten()
    }
}
