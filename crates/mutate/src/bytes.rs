//! Random damage to bytes of any kind.

use crate::random::Random;

/// Byte sequences with a special meaning for some parser.
const TRICKY_BYTES: [&[u8]; 42] = [
    b"\"",
    b",",
    b"\t",
    b"\n",
    b"\r\n",
    b"\r",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xfe\xff",
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\x1b[2J",
    b"\x1f\x8b",
    b"PAR1",
    b"PK\x03\x04",
    b"__label__",
    b"__label__ ",
    b"{}",
    b"[[[[",
    b"{\"a\":{\"a\":",
    b"null",
    b"NaN",
    b"-0",
    b"1e999",
    b"-1",
    b"0",
    b"18446744073709551615",
    b"9223372036854775808",
    b"4294967296",
    b"99999999999999999999999999",
    b"0x10",
    b"\\u0000",
    b"\\ud800",
    b"text,label\n",
    b"\xe2\x80\xae",
    b"\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9",
    b"e\xcc\x81",
    b"\xe3\x80\x80",
    b"\xe2\x80\xa8",
];

/// Damages a text in one way that keeps it valid UTF-8.
pub(crate) fn mutate_text(random: &mut Random, text: &mut String) {
    let border = |random: &mut Random, text: &str| {
        let mut at = random.below(text.len() + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let at = border(random, text.as_str());
    let mut end = (at + random.below(300)).min(text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    match random.below(6) {
        0 => drop(text.drain(at..end)),
        1 => text.truncate(at),
        2 => text.insert_str(at, &text[at..end].repeat(*random.choose(&[1, 2, 30, 1000]))),
        3 => {
            let mut lines: Vec<&str> = text.lines().collect();
            let (a, b) = (random.below(lines.len()), random.below(lines.len()));
            if !lines.is_empty() {
                lines.swap(a, b);
            }
            *text = lines.join(random.choose_ref(&["\n", "\r\n", "\r", "\n\n"]));
        }
        _ => {
            let pieces: Vec<&str> =
                TRICKY_BYTES.into_iter().filter_map(|piece| std::str::from_utf8(piece).ok()).collect();
            text.insert_str(at, random.choose_ref(&pieces));
        }
    }
}

/// Damages bytes in one to four ways.
pub(crate) fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..*random.choose(&[1, 1, 1, 2, 4]) {
        mutate_once(random, bytes);
    }
}

fn mutate_once(random: &mut Random, bytes: &mut Vec<u8>) {
    /// Maximum size up to which parts are repeated.
    const MOST: usize = 4 << 20;
    let len = bytes.len();
    let range = |random: &mut Random, most: usize| {
        let start = random.below(len + 1);
        start..start + random.below((len - start).min(most) + 1)
    };
    match random.below(11) {
        0 if len > 0 => bytes[random.below(len)] ^= 1 << random.below(8),
        1 if len > 0 => bytes[random.below(len)] = *random.choose(&[0, 1, 0x7f, 0x80, 0xff, b'"', b'\n', b'{']),
        2 => {
            let range = range(random, 64);
            bytes.drain(range);
        }
        3 => bytes.truncate(random.below(len + 1)),
        4 | 5 => {
            let (at, piece) = (random.below(len + 1), random.choose_ref(&TRICKY_BYTES));
            bytes.splice(at..at, piece.iter().copied());
        }
        6 => {
            let range = range(random, 200);
            let piece = random.choose_ref(&TRICKY_BYTES);
            bytes.splice(range, piece.iter().copied());
        }
        7 if len < MOST => {
            let range = range(random, 2000);
            let times = *random.choose(&[1, 2, 20, 500]);
            let piece = bytes[range.clone()].repeat(times);
            bytes.splice(range.end..range.end, piece);
        }
        8 => {
            let (from, to) = (range(random, 300), random.below(len + 1));
            let piece = bytes[from].to_vec();
            bytes.splice(to..to, piece);
        }
        9 => replace_number(random, bytes),
        _ => {
            let at = random.below(len + 1);
            let some = (0..1 + random.below(16)).map(|_| random.next() as u8).collect::<Vec<u8>>();
            let end = (at + some.len()).min(len);
            bytes.splice(at..end, some);
        }
    }
}

/// Replaces a number in a text by a boundary value.
fn replace_number(random: &mut Random, bytes: &mut Vec<u8>) {
    let starts: Vec<usize> = (0..bytes.len())
        .filter(|&i| bytes[i].is_ascii_digit() && (i == 0 || !bytes[i - 1].is_ascii_digit()))
        .take(10_000)
        .collect();
    if starts.is_empty() {
        return;
    }
    let start = *random.choose(&starts);
    let end = start + bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let new =
        random.choose_ref(&["0", "1", "-1", "2", "65536", "4294967295", "18446744073709551616", "1e308", "0.1", "NaN"]);
    bytes.splice(start..end, new.bytes());
}
