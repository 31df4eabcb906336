//! Detects texts that were decoded with the wrong encoding, or only partly decoded from HTML or program code.

/// An encoding fault of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EncodingFault {
    /// U+FFFD in place of undecodable bytes.
    ReplacementCharacter,
    /// UTF-8 decoded as Latin letters: “Ã©” for “é”.
    Utf8AsLatin {
        /// The characters in the text.
        found: String,
        /// The original character.
        was: String,
    },
    /// UTF-8 decoded as Shift_JIS (縺 for the kana), or Shift_JIS decoded as Latin letters.
    JapaneseMojibake(String),
    /// A Windows-1252 character decoded as Latin-1, which has a control character there: the control character and the
    /// original.
    Windows1252AsLatin1([char; 2]),
    /// An HTML entity: `&amp;`.
    HtmlEntity(String),
    /// A Unicode escape sequence: `\u3042`.
    UnicodeEscape(String),
    /// A control character.
    ControlCharacter(char),
}

impl EncodingFault {
    /// Returns the first fault in a text. The most certain kinds are tried first.
    pub(super) fn detect(text: &str) -> Option<EncodingFault> {
        let replaced = || text.contains('\u{FFFD}').then_some(EncodingFault::ReplacementCharacter);
        let latin = || find_misread(text).map(|(found, was)| EncodingFault::Utf8AsLatin { found, was });
        let control = |c: &char| c.is_control() && !['\t', '\n', '\r'].contains(c);
        let windows = || text.chars().find_map(|c| Some([c, windows_1252_char(c)?]));
        replaced()
            .or_else(latin)
            .or_else(|| find_japanese_mojibake(text).map(EncodingFault::JapaneseMojibake))
            .or_else(|| windows().map(EncodingFault::Windows1252AsLatin1))
            .or_else(|| find_between(text, "&", ";", is_entity).map(EncodingFault::HtmlEntity))
            .or_else(|| find_escape(text).map(EncodingFault::UnicodeEscape))
            .or_else(|| text.chars().find(control).map(EncodingFault::ControlCharacter))
    }

    /// Returns the probable original text, if the fault can be undone.
    pub(super) fn repair(&self, text: &str) -> Option<String> {
        match self {
            EncodingFault::Utf8AsLatin { .. } => Some(repair_misread(text)),
            EncodingFault::Windows1252AsLatin1(_) => {
                Some(text.chars().map(|c| windows_1252_char(c).unwrap_or(c)).collect())
            }
            EncodingFault::HtmlEntity(_) => Some(decode_entities(text)).filter(|repaired| repaired != text),
            _ => None,
        }
    }
}

/// The Windows-1252 characters of the bytes 0x80 to 0x9F, where it differs from Latin-1; 0 for unassigned bytes.
const WINDOWS_1252: [u16; 32] = [
    0x20AC, 0, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0, 0x017D, 0, 0,
    0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0, 0x017E, 0x0178,
];

/// Returns the Windows-1252 character at the position of a control character of Latin-1.
fn windows_1252_char(c: char) -> Option<char> {
    let at = u32::from(c).checked_sub(0x80)?;
    let known = *WINDOWS_1252.get(at as usize)?;
    if known == 0 { None } else { char::from_u32(known.into()) }
}

/// Returns the byte that Windows-1252 (or Latin-1) decodes as this character.
fn windows_1252_byte(c: char) -> Option<u8> {
    u8::try_from(u32::from(c)).ok().or_else(|| {
        let at = WINDOWS_1252.iter().position(|&known| known != 0 && u32::from(known) == u32::from(c))?;
        u8::try_from(0x80 + at).ok()
    })
}

/// Decodes the character whose UTF-8 bytes, misread as Windows-1252, begin here. Returns it with the number of misread
/// characters. Outside English, some of these bytes are letters and signs that may stand side by side (`você…”`).
/// `is_strict` rejects such sequences.
fn decode_misread(characters: &[char], is_strict: bool) -> Option<(char, usize)> {
    let first = windows_1252_byte(*characters.first()?)?;
    let length = match first {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => return None,
    };
    let bytes: Vec<u8> = characters.get(..length)?.iter().map_while(|&c| windows_1252_byte(c)).collect();
    let was = std::str::from_utf8(&bytes).ok()?.chars().next().filter(|_| bytes.len() == length)?;
    let is_telling =
        matches!((first, bytes[1]), (0xC2 | 0xC3, _) | (0xE2, 0x80..=0x84) | (0xE3, 0x80..=0x83) | (0xF0, 0x9F));
    // Two misread characters in a row are no accident.
    let is_telling = is_telling || !is_strict || length > 2 && decode_misread(&characters[length..], false).is_some();
    is_telling.then_some((was, length))
}

/// Returns the first misread character: as found, and as it was.
fn find_misread(text: &str) -> Option<(String, String)> {
    if text.is_ascii() {
        return None;
    }
    let characters: Vec<char> = text.chars().collect();
    (0..characters.len()).find_map(|at| {
        let (was, length) = decode_misread(&characters[at..], true)?;
        Some((characters[at..at + length].iter().collect(), was.to_string()))
    })
}

/// Restores all misread characters of the text.
fn repair_misread(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    while at < characters.len() {
        let (c, length) = decode_misread(&characters[at..], false).unwrap_or((characters[at], 1));
        out.push(c);
        at += length;
    }
    out
}

/// Kana in UTF-8 begin with the bytes E3 81, E3 82 and E3 83, which Shift_JIS decodes as these characters. Hardly any
/// word contains them.
const KANA_AS_SHIFT_JIS: [char; 3] = ['縺', '繧', '繝'];
/// Kana in Shift_JIS begin with the bytes 82 and 83, which Windows-1252 decodes as these characters. The first is a low
/// quotation mark, which usually precedes a word; the second is the florin sign.
const SHIFT_JIS_AS_LATIN: [char; 2] = ['\u{201A}', '\u{0192}'];

fn find_japanese_mojibake(text: &str) -> Option<String> {
    let characters: Vec<char> = text.chars().collect();
    let places = |signs: &[char]| (0..characters.len()).filter(|&at| signs.contains(&characters[at])).collect();
    let shown = |at: usize| characters[at..characters.len().min(at + 6)].iter().collect();
    let kana: Vec<usize> = places(&KANA_AS_SHIFT_JIS);
    if kana.len() >= 2 {
        return Some(shown(kana[0]));
    }
    // Each is followed by the second byte of its character.
    let latin: Vec<usize> = places(&SHIFT_JIS_AS_LATIN);
    let close = latin.windows(2).filter(|pair| pair[1] - pair[0] == 2).count();
    (close >= 2).then(|| shown(latin[0]))
}

/// Returns the first substring from `start` to `end` whose content `accepts` returns `true` for.
fn find_between(text: &str, start: &str, end: &str, accepts: fn(&str) -> bool) -> Option<String> {
    text.match_indices(start).find_map(|(at, _)| {
        let inside = &text[at + start.len()..];
        let inside = &inside[..inside.find(end)?];
        accepts(inside).then(|| format!("{start}{inside}{end}"))
    })
}

/// Named entities and their characters.
const ENTITIES: [(&str, char); 14] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", ' '),
    ("hellip", '…'),
    ("ndash", '–'),
    ("mdash", '—'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("eacute", 'é'),
];

/// Decodes an entity, given the text between `&` and `;`.
fn decode_entity(inside: &str) -> Option<char> {
    let number = match inside.strip_prefix('#') {
        None => return ENTITIES.iter().find(|(name, _)| *name == inside).map(|(_, c)| *c),
        Some(number) => match number.strip_prefix(['x', 'X']) {
            Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16),
            None => number.parse(),
        },
    };
    number.ok().and_then(char::from_u32)
}

fn is_entity(inside: &str) -> bool {
    decode_entity(inside).is_some()
}

fn decode_entities(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, behind)) = rest.split_once('&') {
        out.push_str(before);
        match behind.split_once(';').and_then(|(inside, behind)| Some((decode_entity(inside)?, behind))) {
            Some((c, behind)) => {
                out.push(c);
                rest = behind;
            }
            None => {
                out.push('&');
                rest = behind;
            }
        }
    }
    out + rest
}

/// Finds `\u` followed by four hexadecimal digits.
fn find_escape(text: &str) -> Option<String> {
    text.match_indices("\\u").find_map(|(at, _)| {
        let digits = text.get(at + 2..at + 6)?;
        digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| text[at..at + 6].to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misread_letters_are_found_and_repaired() {
        for (broken, whole) in [
            ("The cafÃ© was fine", "The café was fine"),
            ("Donâ€™t go", "Don’t go"),
            ("Â£5 a head", "£5 a head"),
            ("ã\u{81}‚ã\u{81}„", "あい"),
            ("so good ðŸ˜€", "so good 😀"),
        ] {
            let found = EncodingFault::detect(broken).unwrap();
            assert!(matches!(found, EncodingFault::Utf8AsLatin { .. }), "{broken}: {found:?}");
            assert_eq!(found.repair(broken).unwrap(), whole);
        }
        let found = EncodingFault::detect("cafÃ©");
        assert_eq!(found, Some(EncodingFault::Utf8AsLatin { found: "Ã©".into(), was: "é".into() }));
    }

    #[test]
    fn other_encoding_faults_are_found() {
        let found = |text: &str| EncodingFault::detect(text);
        assert_eq!(found("a \u{FFFD} b"), Some(EncodingFault::ReplacementCharacter));
        assert_eq!(found("譌･譛ｬ隱槭〒縺吶ゅ▲縺ｦ"), Some(EncodingFault::JapaneseMojibake("縺吶ゅ▲縺ｦ".into())));
        assert_eq!(
            found("\u{201A}±\u{201A}ñ\u{201A}É\u{201A}¿"),
            Some(EncodingFault::JapaneseMojibake("\u{201A}±\u{201A}ñ\u{201A}É".into()))
        );
        let dash = found("one \u{96} two");
        assert_eq!(dash, Some(EncodingFault::Windows1252AsLatin1(['\u{96}', '–'])));
        assert_eq!(dash.and_then(|dash| dash.repair("one \u{96} two\u{85}")).as_deref(), Some("one – two…"));
        assert_eq!(found("fish &amp; chips"), Some(EncodingFault::HtmlEntity("&amp;".into())));
        assert_eq!(found("it&#39;s"), Some(EncodingFault::HtmlEntity("&#39;".into())));
        assert_eq!(
            found("it&#x27;s").and_then(|broken| broken.repair("it&#x27;s & so;")).as_deref(),
            Some("it's & so;")
        );
        assert_eq!(found("\\u3042\\u3044"), Some(EncodingFault::UnicodeEscape("\\u3042".into())));
        assert_eq!(found("a\u{1b}[0m"), Some(EncodingFault::ControlCharacter('\u{1b}')));
    }

    #[test]
    fn intact_texts_have_no_fault() {
        for text in [
            "naïve café, Ångström, ÀÉÎ",
            "« CAFÉ»",
            "São Paulo, NÃO",
            "“foi você…”",
            "fish & chips; salt",
            "‚so‘ sagte er, ƒ(x)",
            "部屋はとても綺麗でした。ﾃﾚﾋﾞ",
            "C:\\users\\uncle",
            "a\tb\nc",
            "😀 “quoted” – and…",
        ] {
            assert_eq!(EncodingFault::detect(text), None, "{text}");
        }
    }
}
