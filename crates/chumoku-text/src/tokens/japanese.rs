//! Word boundaries in Japanese, which has no spaces between words.
//!
//! The segmenter of ICU4X takes the longest match in ICU's dictionary at each position, so はとても may become はと|て|も. This
//! is for display only. It does not affect the tokens that a model reads.

use icu_provider::{DataError, DataErrorKind, DataProvider, DataRequest, DataResponse};
use icu_segmenter::WordSegmenter;
use icu_segmenter::options::WordBreakOptions;
use icu_segmenter::provider::{
    Baked, SegmenterBreakGraphemeClusterV1, SegmenterBreakWordOverrideV1, SegmenterBreakWordV1,
    SegmenterDictionaryAutoV2, SegmenterDictionaryExtendedV2,
};

/// ICU4X data for Japanese and Chinese only. The dictionaries for Burmese, Khmer, Lao and Thai would add 1 MB to the
/// program.
struct JapaneseData;

macro_rules! load_from_icu4x {
    ($($marker:ty),*) => {$(
        impl DataProvider<$marker> for JapaneseData {
            fn load(&self, request: DataRequest) -> Result<DataResponse<$marker>, DataError> {
                Baked.load(request)
            }
        }
    )*};
}
load_from_icu4x!(
    SegmenterBreakGraphemeClusterV1,
    SegmenterBreakWordOverrideV1,
    SegmenterBreakWordV1,
    SegmenterDictionaryAutoV2
);

impl DataProvider<SegmenterDictionaryExtendedV2> for JapaneseData {
    fn load(&self, _: DataRequest) -> Result<DataResponse<SegmenterDictionaryExtendedV2>, DataError> {
        Err(DataErrorKind::IdentifierNotFound.into_error())
    }
}

/// Returns whether a character belongs to Japanese: kanji and kana, including half-width kana.
pub(super) fn is_japanese(c: char) -> bool {
    matches!(u32::from(c),
        0x3005..=0x3007 | 0x3041..=0x3096 | 0x3099..=0x309F | 0x30A1..=0x30FA | 0x30FC..=0x30FF | 0x31F0..=0x31FF
        | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0xFF66..=0xFF9F | 0x20000..=0x3FFFF)
}

/// Returns whether no word starts with this character: small kana, ん, the long vowel mark and voicing marks.
fn cannot_start_word(c: char) -> bool {
    "ぁぃぅぇぉっゃゅょゎんァィゥェォッャュョヮンーゝゞヽヾ々\u{3099}\u{309A}ｧｨｩｪｫｬｭｮｯｰﾞﾟ".contains(c)
}

/// Returns the byte positions at which words start in a run of Japanese characters. The first is 0. Empty for an empty
/// run.
pub(super) fn word_starts(run: &str) -> Vec<usize> {
    let segmenter = WordSegmenter::try_new_dictionary_unstable(&JapaneseData, WordBreakOptions::default());
    let segmenter = segmenter.expect("the data are part of the program");
    let is_border = |&at: &usize| at < run.len() && (at == 0 || !run[at..].starts_with(cannot_start_word));
    segmenter.as_borrowed().segment_str(run).filter(is_border).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(run: &str) -> String {
        let mut beginnings = word_starts(run);
        beginnings.push(run.len());
        beginnings.windows(2).map(|two| &run[two[0]..two[1]]).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn familiar_words_are_segmented() {
        for expected in
            ["今年|最悪|の|旅行", "コーヒー|が", "半信半疑|で", "電話|の|応対|が", "朝食|バイキング|の|種類|が|豊富|で"]
        {
            assert_eq!(cut(&expected.replace('|', "")), expected);
        }
        assert!(cut("二度と行きません").starts_with("二度"), "{}", cut("二度と行きません"));
    }

    #[test]
    fn text_outside_the_dictionary_is_segmented_too() {
        // Empty text, characters that no word starts with, Chinese, and unlisted words. The first word always starts at
        // 0.
        assert!(word_starts("").is_empty());
        for run in ["ー", "ﾟﾊﾟ", "ゝゝ", "んっ", "这部电影很好", "𠮷野家", "か\u{3099}く", "あ".repeat(5_000).as_str()]
        {
            let found = word_starts(run);
            assert_eq!(found[0], 0, "{run}");
            assert!(found.windows(2).all(|two| two[0] < two[1]) && found.iter().all(|&at| run.is_char_boundary(at)));
            assert!(found[1..].iter().all(|&at| !run[at..].starts_with(cannot_start_word)), "{run}");
        }
    }
}
