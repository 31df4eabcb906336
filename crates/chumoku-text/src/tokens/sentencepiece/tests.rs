//! Model files built from bytes: settings are applied, and damaged files are refused.

use super::character_map::tests::table;
use super::*;

/// Encodes a varint: seven bits per byte.
fn number(mut n: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while n >= 0x80 {
        bytes.push(n as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
    bytes
}

fn message(field: u64, bytes: &[u8]) -> Vec<u8> {
    [number(field << 3 | 2), number(bytes.len() as u64), bytes.to_vec()].concat()
}

fn setting(field: u64, value: u64) -> Vec<u8> {
    [number(field << 3), number(value)].concat()
}

fn piece(text: &str, score: f32, kind: u64) -> Vec<u8> {
    let score = [&[2 << 3 | 5][..], &score.to_le_bytes()].concat();
    message(1, &[message(1, text.as_bytes()), score, setting(3, kind)].concat())
}

fn pieces() -> Vec<u8> {
    let all = [
        ("<unk>", 0.0, 2),
        ("</s>", 0.0, 3),
        ("▁", -4.0, 1),
        ("▁a", -2.0, 1),
        ("b", -3.0, 1),
        ("ab", -2.5, 1),
        ("▁ab", -3.5, 1),
        ("ee", -2.0, 1),
        ("<br>", 0.0, 4),
        ("c", -1.0, 5),
    ];
    all.into_iter().flat_map(|(text, score, kind)| piece(text, score, kind)).collect()
}

fn sound() -> Vec<u8> {
    let normalizer = message(2, &table());
    [pieces(), message(2, &setting(3, 1)), message(3, &normalizer), message(4, b"unused")].concat()
}

fn refused(bytes: &[u8]) -> String {
    let message = SentencePieceModel::parse(bytes).unwrap_err();
    assert!(!message.contains('\n') && !message.is_empty(), "{message}");
    message
}

#[test]
fn texts_become_the_best_pieces() {
    let model = SentencePieceModel::parse(&sound()).unwrap();
    let cut = |text: &str| model.encode(text).into_iter().map(|cut| cut.piece).collect::<Vec<_>>();
    // −3.5 is more than −2 − 3.
    assert_eq!(cut("ab"), ["▁ab"]);
    assert_eq!(cut("  Ab  a "), ["▁ab", "▁a"]);
    assert_eq!(cut("aab"), ["▁a", "ab"]);
    // A run of unknown characters is one piece. Unused pieces are unknown.
    assert_eq!(cut("acxyzb"), ["▁a", "cxyz", "b"]);
    assert_eq!(cut("日本é"), ["▁", "日本", "ee"]);
    assert_eq!(cut("a<br>b"), ["▁a", "<br>", "b"]);
    assert_eq!(cut(""), [""; 0]);
    assert_eq!(cut("  "), [""; 0]);
    let spans: Vec<_> = model.encode(" é  Ab").into_iter().map(|cut| cut.span).collect();
    assert_eq!(spans, [(1, 1), (1, 3), (3, 7)]);
    assert_eq!(join_pieces(["▁a", "b", "▁ab"].into_iter()), "ab ab");
}

#[test]
fn space_settings_are_applied() {
    let with = |settings: &[Vec<u8>]| SentencePieceModel::parse(&[pieces(), message(3, &settings.concat())].concat());
    let cut = |settings: &[Vec<u8>], text: &str| {
        with(settings).unwrap().encode(text).into_iter().map(|cut| cut.piece).collect::<Vec<_>>()
    };
    assert_eq!(cut(&[setting(3, 0)], "ab"), ["ab"]);
    assert_eq!(cut(&[setting(4, 0)], "a  b"), ["▁a", "▁", "▁", "b"]);
    assert_eq!(cut(&[setting(5, 0)], "a b"), [" a ", "b"]);
}

#[test]
fn damaged_files_are_refused() {
    let sound = sound();
    for end in 0..sound.len() {
        // A file that ends between two fields is a shorter valid file.
        if let Ok(model) = SentencePieceModel::parse(&sound[..end]) {
            model.encode("Ab é <br> xyz");
        }
    }
    let mut flipped = sound.clone();
    for at in 0..sound.len() {
        for bit in [0, 3, 7] {
            flipped[at] ^= 1 << bit;
            if let Ok(model) = SentencePieceModel::parse(&flipped) {
                model.encode("Ab é <br> xyz");
            }
            flipped[at] ^= 1 << bit;
        }
    }
    let with = |more: &[u8]| [&pieces()[..], more].concat();
    assert!(refused(b"").contains("unknown"));
    assert!(refused(b"{}").contains("valid SentencePiece"));
    // A length of 2⁶³ and of 2⁶⁰ bytes, and an endless varint.
    assert!(refused(&[&[10][..], &number(1 << 63)].concat()).contains("valid"));
    assert!(refused(&[&[18][..], &number(1 << 60), b"abc"].concat()).contains("valid"));
    assert!(refused(&[0x80; 40]).contains("valid"));
    assert!(refused(&with(&piece("x", f32::NAN, 1))).contains("finite score"));
    assert!(refused(&with(&piece("x", f32::INFINITY, 1))).contains("finite score"));
    assert!(refused(&with(&piece("", 0.0, 1))).contains("1 to 512 bytes, found 0"));
    assert!(refused(&with(&piece(&"x".repeat(513), 0.0, 1))).contains("found 513"));
    assert!(refused(&with(&piece("ab", 0.0, 1))).contains("“ab” occurs twice"));
    assert!(refused(&with(&piece("<unk2>", 0.0, 2))).contains("found 2"));
    assert!(refused(&with(&message(1, &message(1, &[0xff])))).contains("UTF-8"));
    assert!(refused(&with(&setting(1, 5))).contains("valid"));
    // More than a million pieces.
    let many = [10, 3, 10, 1, b'x'].repeat((1 << 20) + 1);
    assert!(refused(&many).contains("at most 1048576 pieces"));
}

#[test]
fn unsupported_settings_are_refused_by_name() {
    let with = |more: Vec<u8>| refused(&[pieces(), more].concat());
    assert!(with(message(2, &setting(3, 2))).contains("model_type: expected UNIGRAM, found BPE"));
    assert!(with(message(2, &setting(24, 1))).contains("treat_whitespace_as_suffix"));
    assert!(with(message(2, &setting(35, 1))).contains("byte_fallback"));
    assert!(with(message(5, &message(2, &table()))).contains("denormalizer_spec"));
    let map = |bytes: &[u8]| with(message(3, &message(2, bytes)));
    assert!(map(b"abc").contains("precompiled_charsmap"));
    assert!(map(&[255; 4]).contains("precompiled_charsmap"));
    assert!(map(&[&4u32.to_le_bytes()[..], &[0; 4], &[0xff]].concat()).contains("precompiled_charsmap"));
    let long = [&4u32.to_le_bytes()[..], &[0; 4], &[b'x'; 300]].concat();
    assert!(map(&long).contains("300 bytes"));
}

#[test]
fn a_long_text_is_segmented_in_time() {
    // Pieces that contain each other, as long as allowed, and a map in which every unit leads to itself.
    let mut all = pieces();
    (1..512).for_each(|length| all.extend(piece(&"a".repeat(length), -(length as f32), 1)));
    let model = SentencePieceModel::parse(&all).unwrap();
    assert!(model.encode(&"a".repeat(50_000)).len() > 90);
    let unit = u32::from(b'a') | 1 << 8;
    let trie: Vec<u8> = (0..256u32).flat_map(|_| unit.to_le_bytes()).collect();
    let map = [&(trie.len() as u32).to_le_bytes()[..], &trie, b"xyz\0"].concat();
    let model = SentencePieceModel::parse(&[all, message(3, &message(2, &map))].concat()).unwrap();
    model.encode(&"a".repeat(50_000));
}
