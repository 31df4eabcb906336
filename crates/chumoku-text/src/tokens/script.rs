//! The scripts of a text.

/// Returns whether a character belongs to a script without spaces between words: Han, Hiragana, Katakana, Thai, Lao,
/// Khmer, Myanmar or Tibetan.
pub(crate) fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c),
        0x0E00..=0x0EFF | 0x0F00..=0x0FFF | 0x1000..=0x109F | 0x1780..=0x17FF
        | 0x3005..=0x3007 | 0x3040..=0x30FF | 0x31F0..=0x31FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF
        | 0xF900..=0xFAFF | 0xFF66..=0xFF9F | 0x20000..=0x3FFFF)
}

/// Returns the fraction of letters in scripts without spaces, in a sample of texts; 0 without letters.
pub fn unspaced_fraction<'a>(texts: impl IntoIterator<Item = &'a str>) -> f64 {
    const SAMPLE: usize = 1_000_000;
    let (mut unspaced, mut letters) = (0u64, 0u64);
    for c in texts.into_iter().flat_map(str::chars).filter(|c| c.is_alphabetic()).take(SAMPLE) {
        letters += 1;
        unspaced += u64::from(is_unspaced(c));
    }
    if letters == 0 { 0.0 } else { unspaced as f64 / letters as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_of_unspaced_letters() {
        assert_eq!(unspaced_fraction(["Hello, world 123"]), 0.0);
        assert_eq!(unspaced_fraction(["映画は、とてもよかった。ｶﾅ"]), 1.0);
        assert_eq!(unspaced_fraction(["ab映画"]), 0.5);
        assert_eq!(unspaced_fraction(["123 …"]), 0.0);
    }
}
