//! Detects the script of a text from Unicode ranges, and finds unusual ones.

use crate::lang::Lang;
use crate::sorting;
use std::collections::BTreeMap;

/// A script, or scripts that are used together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub(super) enum Script {
    /// Latin.
    Latin,
    /// Greek.
    Greek,
    /// Cyrillic.
    Cyrillic,
    /// Hiragana, Katakana and Han: Japanese, Chinese.
    Japanese,
    /// Hangul.
    Hangul,
    /// Arabic.
    Arabic,
    /// Hebrew.
    Hebrew,
    /// Devanagari and the other scripts of India.
    Indic,
    /// Thai, Lao, Khmer, Burmese.
    SoutheastAsian,
    /// Any other script.
    Other,
}

impl Script {
    /// Returns the script of a letter; `None` for other characters.
    pub(super) fn of(c: char) -> Option<Script> {
        if !c.is_alphabetic() {
            return None;
        }
        Some(match u32::from(c) {
            // The signs ª and º and full-width letters are Latin too.
            0x0000..=0x024F | 0x0250..=0x02AF | 0x1E00..=0x1EFF | 0x2C60..=0x2C7F | 0xA720..=0xA7FF => Script::Latin,
            0xFB00..=0xFB06 | 0xFF21..=0xFF3A | 0xFF41..=0xFF5A => Script::Latin,
            0x0370..=0x03FF | 0x1F00..=0x1FFF => Script::Greek,
            0x0400..=0x052F | 0x1C80..=0x1C8F | 0x2DE0..=0x2DFF | 0xA640..=0xA69F => Script::Cyrillic,
            0x0590..=0x05FF | 0xFB1D..=0xFB4F => Script::Hebrew,
            0x0600..=0x06FF | 0x0750..=0x077F | 0x08A0..=0x08FF | 0xFB50..=0xFDFF | 0xFE70..=0xFEFF => Script::Arabic,
            0x0900..=0x0DFF => Script::Indic,
            0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF => Script::SoutheastAsian,
            0x1100..=0x11FF | 0x3130..=0x318F | 0xA960..=0xA97F | 0xAC00..=0xD7FF => Script::Hangul,
            0x2E80..=0x312F | 0x31A0..=0x31FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF => Script::Japanese,
            0xF900..=0xFAFF | 0xFF66..=0xFF9F | 0x20000..=0x3FFFF => Script::Japanese,
            // Phonetic and mathematical letters belong to no script.
            0x02B0..=0x036F | 0x1D00..=0x1DBF | 0x2070..=0x218F | 0x1D400..=0x1D7FF => return None,
            _ => Script::Other,
        })
    }

    /// Returns the name of the script.
    pub(super) fn name(self, lang: Lang) -> &'static str {
        let (en, ja) = match self {
            Script::Latin => ("Latin", "ラテン文字"),
            Script::Greek => ("Greek", "ギリシャ文字"),
            Script::Cyrillic => ("Cyrillic", "キリル文字"),
            Script::Japanese => ("Han or kana", "漢字・仮名"),
            Script::Hangul => ("Hangul", "ハングル"),
            Script::Arabic => ("Arabic", "アラビア文字"),
            Script::Hebrew => ("Hebrew", "ヘブライ文字"),
            Script::Indic => ("Indic", "インド系文字"),
            Script::SoutheastAsian => ("Thai, Lao, Khmer or Burmese", "タイ文字など"),
            Script::Other => ("another script", "その他の文字"),
        };
        lang.pick(en, ja)
    }
}

/// The scripts of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TextScripts {
    /// The most frequent script; the first in a tie.
    pub(super) dominant: Option<Script>,
    /// Number of letters of the most frequent script.
    pub(super) dominant_letters: usize,
    /// A second script, if at least a fifth of the letters belong to it.
    pub(super) second: Option<Script>,
    /// A word that mixes look-alike letters of two scripts.
    pub(super) lookalike_word: Option<String>,
}

/// Scripts with look-alike letters. (Greek letters are common next to Latin ones: µm, β-test.)
const LOOKALIKE_SCRIPTS: [Script; 2] = [Script::Latin, Script::Cyrillic];

impl TextScripts {
    pub(super) fn detect(text: &str) -> TextScripts {
        let mut counts: BTreeMap<Script, usize> = BTreeMap::new();
        text.chars().filter_map(Script::of).for_each(|script| *counts.entry(script).or_default() += 1);
        let letters: usize = counts.values().sum();
        let mut order: Vec<(Script, usize)> = counts.into_iter().collect();
        sorting::sort_by_key(&mut order, |&(script, count)| (std::cmp::Reverse(count), script));
        let is_seen = |(script, count): &&(Script, usize)| {
            // Names and units are Latin in texts of any script.
            *script != Script::Latin && *count >= MIN_LETTERS && count * 5 >= letters
        };
        let second = order.get(1).filter(is_seen);
        TextScripts {
            dominant: order.first().map(|(script, _)| *script),
            dominant_letters: order.first().map_or(0, |(_, count)| *count),
            second: second.map(|(script, _)| *script),
            lookalike_word: text
                .split(|c: char| !c.is_alphanumeric())
                .find(|word| mixes_lookalikes(word))
                .map(str::to_owned),
        }
    }
}

/// Returns whether a word mixes scripts with look-alike letters.
fn mixes_lookalikes(word: &str) -> bool {
    let count = |script: Script| word.chars().filter(|&c| Script::of(c) == Some(script)).count();
    let [latin, cyrillic] = LOOKALIKE_SCRIPTS.map(count);
    latin > 0 && cyrillic > 0 && latin + cyrillic > 3
}

/// Fewest letters to consider; fewer are an abbreviation or an emoticon: m(_ _)m.
const MIN_LETTERS: usize = 4;
/// Share of the texts below which a script, or a mixture of two, is rare.
const RARE_SHARE: f64 = 0.02;
/// Fewest texts for deciding what is rare.
const MIN_TEXTS: usize = 10;

/// Finds texts with a rare script, a rare mixture of scripts, or look-alike letters.
pub(super) fn odd_scripts(texts: &[&str]) -> Vec<(usize, ScriptFault)> {
    let written: Vec<TextScripts> = texts.iter().map(|text| TextScripts::detect(text)).collect();
    let lettered = written.iter().filter(|written| written.dominant.is_some()).count();
    let mut counts: BTreeMap<[Option<Script>; 2], usize> = BTreeMap::new();
    let key = |written: &TextScripts| [written.dominant, written.second];
    for written in &written {
        *counts.entry([written.dominant, None]).or_default() += 1;
        if written.second.is_some() {
            let mut both = key(written);
            both.sort();
            *counts.entry(both).or_default() += 1;
        }
    }
    let usual = counts.iter().filter(|(key, _)| key[0].is_some() && key[1].is_none());
    let usual = usual.max_by_key(|(_, count)| **count).and_then(|(key, _)| key[0]);
    let is_rare = |count: usize| lettered >= MIN_TEXTS && (count as f64) < (RARE_SHARE * lettered as f64).max(2.0);
    let oddity = |written: &TextScripts, text: &str| {
        if let Some(word) = &written.lookalike_word {
            return Some(ScriptFault::Lookalikes(word.clone()));
        }
        let (most, usual) = (written.dominant?, usual?);
        let is_other = written.dominant_letters >= MIN_LETTERS && !text.chars().any(|c| Script::of(c) == Some(usual));
        if most != usual && is_other && is_rare(counts[&[Some(most), None]]) {
            return Some(ScriptFault::RareScript { found: most, usual });
        }
        let mut both = key(written);
        both.sort();
        let second = written.second?;
        is_rare(counts[&both]).then_some(ScriptFault::RareMixture([most, second]))
    };
    let rows = written.iter().zip(texts).enumerate();
    rows.filter_map(|(row, (written, text))| Some((row, oddity(written, text)?))).collect()
}

/// A script fault of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScriptFault {
    /// A rare script, which most texts do not use.
    RareScript { found: Script, usual: Script },
    /// A rare mixture of two scripts.
    RareMixture([Script; 2]),
    /// A word with letters that only look like those of its script.
    Lookalikes(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_scripts_and_rare_mixtures_are_odd() {
        let mut texts = vec!["部屋は広い"; 60];
        texts.extend(["WiFi が速い WiFi"; 10]);
        texts.extend(["Номер был хорошим", "방이 넓고 좋았습니다 very good", "…", "pаypal の支払い", "m(_ _)mb"]);
        let found = odd_scripts(&texts);
        let script = |found| ScriptFault::RareScript { found, usual: Script::Japanese };
        let expected = [
            (70, script(Script::Cyrillic)),
            (71, script(Script::Hangul)),
            (73, ScriptFault::Lookalikes("pаypal".into())),
        ];
        assert_eq!(found, expected);
        // A file in two languages has no rare script.
        let texts: Vec<&str> = ["good food", "良い食事"].into_iter().cycle().take(20).collect();
        assert_eq!(odd_scripts(&texts), []);
        let mut texts = vec!["all is well here"; 60];
        texts.push("one 二つの言葉 two");
        assert_eq!(odd_scripts(&texts), [(60, ScriptFault::RareMixture([Script::Latin, Script::Japanese]))]);
    }

    #[test]
    fn units_and_greek_letters_are_not_lookalikes() {
        for word in ["µm", "βtest", "αβγ", "naïve", "Ａ級", "mañana", "вода", "pаypal"] {
            assert_eq!(mixes_lookalikes(word), word == "pаypal", "{word}");
        }
        assert_eq!(Script::of('1'), None);
        assert_eq!(Script::of('ー'), Some(Script::Japanese));
    }
}
