//! Names of encodings: those of the WHATWG Encoding Standard, and the aliases of Python, pandas, Java and Excel.

use encoding_rs::Encoding;

use super::error::DataError;
use crate::lang::wording::did_you_mean;

/// Aliases, by their letters and digits alone (`iso8859_1` is `iso88591`), and the label in the standard. Spellings
/// that the standard itself has are not listed.
const ALIASES: &[(&[&str], &str)] = &[
    (&["utf8sig", "utf8bom", "utf8withbom", "u8", "utf", "cp65001", "65001", "utf8ucs2", "utf8ucs4"], "utf-8"),
    (&["u16", "utf16", "utf16le", "utf16lebom"], "utf-16le"),
    (&["utf16be", "utf16bebom"], "utf-16be"),
    (&["cp932", "932", "mskanji", "windows932", "win31j", "shiftjis", "shiftjisms"], "shift_jis"),
    (&["eucjp", "ujis", "eucjpms", "eucjpwin", "cp51932", "51932", "cp20932"], "euc-jp"),
    (&["iso2022jp", "jis", "cp50220", "50220", "cp50221", "50221", "cp50222", "50222"], "iso-2022-jp"),
    (&["936", "cp936", "ms936", "windows936", "euccn", "eucgb2312cn"], "gbk"),
    (&["gb180302000", "54936", "cp54936"], "gb18030"),
    (&["950", "cp950", "ms950", "windows950", "big5tw"], "big5"),
    (&["big5hkscs", "hkscs", "cp951"], "big5-hkscs"),
    (
        &["euckr", "949", "cp949", "ms949", "uhc", "ksc5601", "ksc56011987", "ksx1001", "windows949", "cp51949"],
        "euc-kr",
    ),
    (&["latin", "l1", "8859", "cp819", "819", "westeurope", "cp28591", "28591"], "iso-8859-1"),
    (&["ascii", "usascii", "646", "ansi"], "windows-1252"),
    (&["l2", "cp28592", "28592"], "iso-8859-2"),
    (&["l3", "cp28593"], "iso-8859-3"),
    (&["l4", "cp28594"], "iso-8859-4"),
    (&["cyrillic", "cp28595"], "iso-8859-5"),
    (&["cp28596"], "iso-8859-6"),
    (&["greek8", "cp28597"], "iso-8859-7"),
    (&["cp28598"], "iso-8859-8"),
    (&["l5", "cp28599"], "iso-8859-9"),
    (&["l6"], "iso-8859-10"),
    (&["thai", "tis620", "iso885911", "874", "cp874"], "windows-874"),
    (&["latin7", "l7", "cp28603"], "iso-8859-13"),
    (&["latin8", "l8"], "iso-8859-14"),
    (&["latin9", "l9", "cp28605"], "iso-8859-15"),
    (&["latin10", "l10"], "iso-8859-16"),
    (&["macroman", "macwestern", "macosroman", "cp10000", "10000"], "macintosh"),
    (&["maccyrillic", "macukraine", "cp10007"], "x-mac-cyrillic"),
    (&["cp20866", "20866"], "koi8-r"),
    (&["cp21866", "21866"], "koi8-u"),
    (&["1250"], "windows-1250"),
    (&["1251"], "windows-1251"),
    (&["1252"], "windows-1252"),
    (&["1253"], "windows-1253"),
    (&["1254"], "windows-1254"),
    (&["1255"], "windows-1255"),
    (&["1256"], "windows-1256"),
    (&["1257"], "windows-1257"),
    (&["1258"], "windows-1258"),
];

/// Unsupported encodings in the same spelling, with the nearest supported one.
const UNSUPPORTED: &[(&[&str], &str)] = &[
    (&["shiftjis2004", "shiftjisx0213", "sjis2004", "sjisx0213", "sjisx213"], "shift_jis"),
    (&["eucjis2004", "eucjisx0213", "jisx0213"], "euc-jp"),
    (&["iso2022jp1", "iso2022jp2", "iso2022jp2004", "iso2022jp3", "iso2022jpext", "iso2022jp2a"], "iso-2022-jp"),
    (&["johab", "cp1361", "ms1361", "iso2022kr"], "euc-kr"),
    (&["hz", "hzgb", "hzgb2312", "iso2022cn"], "gb18030"),
    (&["koi8t"], "koi8-r"),
    (&["kz1048", "strk10482002", "rk1048", "ptcp154", "cp154", "cyrillicasian", "cp855", "855"], "windows-1251"),
    (
        &["cp437", "437", "cp850", "850", "cp858", "858", "cp860", "cp863", "cp865", "cp1140", "cp037", "cp500"],
        "windows-1252",
    ),
    (&["cp273", "cp1026", "hproman8", "roman8", "maciceland", "palmos"], "windows-1252"),
    (&["cp852", "852", "maclatin2", "maccentraleurope", "maccroatian", "macromania"], "windows-1250"),
    (&["cp737", "cp869", "cp875", "macgreek"], "windows-1253"),
    (&["cp857", "macturkish"], "windows-1254"),
    (&["cp775"], "windows-1257"),
    (&["cp862", "cp856", "cp424"], "windows-1255"),
    (&["cp864", "cp720", "macarabic", "macfarsi"], "windows-1256"),
    (&["utf7", "u7", "utf32", "u32", "utf32le", "utf32be", "cp12000", "utf8mac", "cesu8", "utfebcdic"], "utf-8"),
];

/// Returns the encoding for a name such as `shift_jis`, `cp932` or `utf_8_sig`.
///
/// # Errors
///
/// For an unknown name, an error that suggests a similar one. For an unsupported encoding, an error that names the
/// nearest supported one.
pub(crate) fn encoding_by_name(name: &str) -> Result<&'static Encoding, DataError> {
    let name = name.trim();
    let of_label = |label: &str| Encoding::for_label_no_replacement(label.as_bytes());
    let letters = letters_and_digits(name);
    let listed = |names: &[(&[&str], &'static str)]| {
        names.iter().find(|(names, _)| names.contains(&letters.as_str())).map(|&(_, label)| label)
    };
    if let Some(nearest) = listed(UNSUPPORTED) {
        return Err(DataError::UnsupportedEncoding { label: name.to_owned(), nearest });
    }
    // The standard writes some labels with `_`, some with `-` and some with neither.
    let spelt = [name.to_owned(), name.replace(['_', ' '], "-"), name.replace(['-', ' '], "_"), letters.clone()];
    let standard = spelt.iter().find_map(|label| of_label(label));
    // Names of a family and a number: `iso8859_15`, `iso_8859_15_1999`, `cp1252`, `win_1252`, `windows_1252`.
    let numbered = || {
        let part = letters.strip_prefix("iso8859").map(|part| format!("iso-8859-{part}"));
        let page = ["windows", "win", "cp"].iter().find_map(|family| letters.strip_prefix(family));
        let page = page.map(|page| format!("windows-{page}"));
        [part, page].into_iter().flatten().find_map(|label| of_label(&label))
    };
    let found = standard.or_else(|| listed(ALIASES).and_then(of_label)).or_else(numbered);
    found.ok_or_else(|| DataError::UnknownEncoding { label: name.to_owned(), hint: did_you_mean(name, SUGGESTIONS) })
}

/// Returns the letters and digits of a name in lowercase.
fn letters_and_digits(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// The names that are suggested for typos.
const SUGGESTIONS: [&str; 14] = [
    "utf-8",
    "utf-16le",
    "utf-16be",
    "shift_jis",
    "cp932",
    "euc-jp",
    "iso-2022-jp",
    "windows-1252",
    "latin1",
    "gb18030",
    "gbk",
    "big5",
    "euc-kr",
    "koi8-r",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Names from Python's `encodings.aliases`, pandas and Excel, and the encodings they mean.
    #[test]
    fn common_aliases_are_known() {
        for (names, encoding) in [
            (
                "cp932 CP932 ms932 windows-31j windows_31j sjis s-jis s_jis Shift-JIS shift_jis shiftjis x-sjis mskanji 932",
                "Shift_JIS",
            ),
            ("utf8 UTF-8 utf_8 utf_8_sig utf-8-sig UTF8 u8 cp65001", "UTF-8"),
            ("utf-16 utf_16 utf16 utf-16-le utf_16_le utf16le UTF-16LE unicode", "UTF-16LE"),
            ("utf_16_be utf-16-be utf16be", "UTF-16BE"),
            (
                "latin-1 latin1 latin_1 l1 iso8859_1 iso8859-1 iso-8859-1 ISO_8859-1 8859 cp1252 windows_1252 win1252 ascii us-ascii",
                "windows-1252",
            ),
            ("euc_jp eucjp euc-jp ujis EUC_JP", "EUC-JP"),
            ("iso2022_jp iso-2022-jp iso2022jp csiso2022jp jis", "ISO-2022-JP"),
            ("gbk cp936 936 gb2312 euc-cn", "GBK"),
            ("gb18030 gb18030_2000", "gb18030"),
            ("big5 big5_tw cp950 big5hkscs big5-hkscs", "Big5"),
            ("euc_kr euckr cp949 949 uhc ks_c_5601 ks_c-5601-1987", "EUC-KR"),
            ("koi8_r koi8-r", "KOI8-R"),
            ("koi8_u", "KOI8-U"),
            ("mac_roman macroman mac-roman macintosh", "macintosh"),
            ("mac_cyrillic", "x-mac-cyrillic"),
            ("latin2 iso8859_2 iso-8859-2 l2", "ISO-8859-2"),
            ("iso8859_15 latin9 latin-9 iso-8859-15", "ISO-8859-15"),
            ("cp1250 windows-1250 windows_1250", "windows-1250"),
            ("cp1251", "windows-1251"),
            ("cp866 ibm866", "IBM866"),
            ("tis620 tis-620 iso8859_11 cp874", "windows-874"),
        ] {
            for name in names.split(' ') {
                assert_eq!(encoding_by_name(name).unwrap().name(), encoding, "{name}");
            }
        }
    }

    #[test]
    fn unsupported_encodings_name_the_nearest_supported_one() {
        for (name, nearest) in [
            ("shift_jis_2004", "shift_jis"),
            ("SJISX0213", "shift_jis"),
            ("euc_jisx0213", "euc-jp"),
            ("iso2022_jp_ext", "iso-2022-jp"),
            ("cp437", "windows-1252"),
            ("utf-32", "utf-8"),
            ("johab", "euc-kr"),
        ] {
            let message = encoding_by_name(name).unwrap_err().to_string();
            assert!(message.contains(name) && message.contains(nearest) && message.contains("iconv"), "{message}");
        }
        let message = encoding_by_name("shiftjs").unwrap_err().to_string();
        assert!(message.contains("did you mean “shift_jis”"), "{message}");
        assert!(encoding_by_name("no such thing").is_err());
        assert!(encoding_by_name("").is_err());
    }
}
