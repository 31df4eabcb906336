//! The exact messages for files and characters that cannot be read.

use super::*;

#[test]
fn missing_files_and_folders() {
    let folder = Folder::new();
    folder.file("train.csv", "x");
    folder.file("notes.md", "x");
    let message = |name: &str| folder.message(&load_labeled(&folder.path(name), &labeled()).unwrap_err());
    assert_eq!(
        message("trian.csv"),
        "trian.csv: opening the data: expected a file, found nothing of that name; did you mean “train.csv”?"
    );
    assert_eq!(
        message("other"),
        "other: opening the data: expected a file, found nothing of that name; check the path"
    );
    assert!(message("part-*.csv").ends_with("; the shell did not expand the pattern: name each file"));
    assert_eq!(
        message("train.csv/x"),
        "train.csv/x: opening the data: expected a file, found nothing of that name; check the path"
    );
    let error = load_labeled(folder.0.path(), &labeled()).unwrap_err().to_string();
    assert!(
        error.ends_with(
            ": opening the data: expected a file, found a folder; name a file inside it, such as “train.csv”"
        ),
        "{error}"
    );
}

#[test]
fn empty_files() {
    let advice = "expected rows, found an empty file; check that it was written or downloaded whole";
    for name in ["a.csv", "a.tsv", "a.jsonl", "a.txt", "a.ft", "a.parquet", "a"] {
        for content in ["", "\n \r\n\t\n", "\u{feff}", "\u{feff}\n"] {
            if name != "a.parquet" || content.is_empty() {
                assert_eq!(message(name, content, &labeled()), format!("{name}: reading the data: {advice}"));
            }
        }
        let zipped = format!("{name}.gz");
        assert_eq!(message(&zipped, gz(""), &labeled()), format!("{zipped}: reading the data: {advice}"));
    }
    let advice = "expected rows below the header (“text”, “label”), found none; check that the file was written whole";
    assert_eq!(message("a.csv", "text,label\n", &labeled()), format!("a.csv: reading the data: {advice}"));
    assert_eq!(
        message("a.tsv.gz", gz("text\tlabel\r\n\r\n"), &labeled()),
        format!("a.tsv.gz: reading the data: {advice}")
    );
}

#[test]
fn text_in_other_encodings() {
    let (sjis, ..) = encoding_rs::SHIFT_JIS.encode("text,label\n良い,1\n、とても良い宿でした。,0\n");
    assert_eq!(
        message("a.csv", &sjis, &labeled()),
        "a.csv:2:1: reading text: expected UTF-8, found other bytes at byte 11 of the file; name its encoding, such as \
         --encoding shift_jis"
    );
    let (euc, ..) = encoding_rs::EUC_JP.encode("とても良い宿でした。\t1\n");
    assert!(message("a.tsv", &euc, &labeled()).ends_with("such as --encoding euc-jp"));
    // ASCII bytes, which are valid UTF-8. encoding_rs cannot write them.
    let jis = "\u{1b}$B$\"$k\u{1b}(B,1\nb,0\n";
    assert!(message("a.csv", jis.as_bytes(), &labeled()).ends_with("such as --encoding iso-2022-jp"));
    let latin = b"\xef\xbb\xbftext,label\nfine,1\ncaf\xe9,0\n";
    assert_eq!(
        message("a.csv", latin, &labeled()),
        "a.csv:3:4: reading text: expected UTF-8, found other bytes at byte 24 of the file; name its encoding, such as \
         --encoding windows-1252"
    );
    // An encoding error is not a row error, so it is never skipped.
    assert!(message("a.csv", latin, &skipping()).starts_with("a.csv:3:4: "));
    assert_eq!(latin[24], 0xe9);

    let options = ReadOptions { encoding: Some("shift_jis".into()), ..labeled() };
    let (mut wrong, at) = (sjis.to_vec(), sjis.len() - 5);
    wrong[at] = 0xff;
    assert_eq!(
        message("a.csv", &wrong, &options),
        format!(
            "a.csv:3: reading text: expected Shift_JIS, found invalid bytes at byte {at} of the file; try \
             another --encoding"
        )
    );
    let options = ReadOptions { encoding: Some("shiftjs".into()), ..labeled() };
    assert_eq!(
        message("a.csv", "x", &options),
        "--encoding shiftjs: expected the name of an encoding (such as shift_jis, euc-jp, windows-1252, utf-16le), \
         found “shiftjs”; did you mean “shift_jis”?"
    );
}

#[test]
fn nul_bytes() {
    let advice = "expected characters, found a NUL byte; is it a binary file, or UTF-16 (--encoding utf-16le)?";
    assert_eq!(message("a.csv", "text,label\né\0,1\n", &labeled()), format!("a.csv:2:2: reading text: {advice}"));
    let utf16: Vec<u8> = "text,label\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(message("a.csv", &utf16, &labeled()), format!("a.csv:1:2: reading text: {advice}"));
}

#[test]
fn damaged_gzip() {
    let content: String = (0..5000).map(|i| format!("text number {},{}\n", i * 7919 % 5000, i % 2)).collect();
    let whole = gz(&content);
    let error = message("a.csv.gz", &whole[..whole.len() / 2], &labeled());
    let (start, rest) = error.split_once(" after line ").unwrap();
    assert_eq!(start, "a.csv.gz: decompressing gzip: expected the end of the stream, found a truncated file");
    let (line, advice) = rest.split_once("; ").unwrap();
    assert!((1000..4999).contains(&line.parse::<u32>().unwrap()), "{error}");
    assert_eq!(advice, "download or compress the file again");

    let advice = "download or compress the file again";
    let expected = "decompressing gzip: expected the end of the stream, found";
    assert_eq!(
        message("a.csv.gz", &whole[..12], &labeled()),
        format!("a.csv.gz: {expected} a truncated file; {advice}")
    );
    let mut damaged = whole.clone();
    let end = damaged.len() - 8;
    damaged[end] ^= 1;
    let error = message("a.csv.gz", &damaged, &labeled());
    assert!(error.starts_with(&format!("a.csv.gz: {expected} damage (")), "{error}");
    // Skipping rows does not skip the rest of a damaged file.
    assert_eq!(message("a.csv.gz", &damaged, &skipping()), error);
}

#[test]
fn unsupported_formats_are_named() {
    let expected =
        "detecting the format: expected CSV, TSV, JSON, JSONL, Parquet, Excel, fastText or plain text, found";
    assert_eq!(
        message("a.xlsx", b"PK\x03\x04\x14\0", &labeled()),
        format!("a.xlsx: {expected} a zip archive; unpack it first")
    );
    assert_eq!(
        message("a.csv.zst", b"\x28\xb5\x2f\xfd\0\0", &labeled()),
        format!("a.csv.zst: {expected} zstd compression; decompress it with zstd -d, or use gzip")
    );
    let mut tar = vec![b'x'; 600];
    tar[257..262].copy_from_slice(b"ustar");
    let message = message("a.tar.gz", gz(&tar), &labeled());
    assert_eq!(message, format!("a.tar.gz: {expected} a tar archive; unpack it first"));
}

#[test]
fn bad_json() {
    let good = "{\"text\":\"a\",\"label\":1}\n";
    let advice = "correct the line, or leave such rows out with --skip-bad-rows";
    assert_eq!(
        message("a.jsonl", format!("{good}\n{{\"text\":\"日本\" \"label\":1}}\n"), &labeled()),
        format!("a.jsonl:3:14: reading JSON: expected one object on the line, found: expected `,` or `}}`; {advice}")
    );
    assert_eq!(
        message("a.jsonl", format!("{good}{{\"text\":\"a\n"), &labeled()),
        format!(
            "a.jsonl:2:10: reading JSON: expected one object on the line, found: EOF while parsing a string; {advice}"
        )
    );
    let list = "write one object per line (jq -c '.[]' does it), or leave such rows out with --skip-bad-rows";
    assert_eq!(
        message("a.jsonl", "[\"a\"]\n[\"b\"]\n", &labeled()),
        format!("a.jsonl:1: reading JSON: expected an object ({{…}}) on each line, found a list; {list}")
    );
    assert_eq!(
        message("a.jsonl", format!("{good}\"text\"\n"), &labeled()),
        "a.jsonl:2: reading JSON: expected an object ({…}) on each line, found a string; write it as {\"text\": …}, or \
         leave such rows out with --skip-bad-rows"
    );
    assert_eq!(
        message("a.jsonl", format!("{good}{{\"text\":\"b\",\"label\":[1,2]}}\n"), &labeled()),
        "a.jsonl:2: reading the label: expected one label, found 2 (“1”, “2”); train with --task labels to predict several, \
         keep one for each text, or leave such rows out with --skip-bad-rows"
    );
    assert_eq!(
        message("a.jsonl", format!("{good}{{\"text\":{{\"en\":\"b\"}},\"label\":1}}\n"), &labeled()),
        "a.jsonl:2: reading the text: expected a string, number or true/false in “text”, found an object; name a \
         value in it by its path, as --text text.en, or choose another column with --text"
    );
}

#[test]
fn messages_escape_control_characters() {
    let message = message(
        "a.jsonl",
        "{\"te\\u001b[31mxt\\n\":\"a b\",\"x\":1}\n",
        &ReadOptions { text: Some("y".into()), ..labeled() },
    );
    assert!(message.contains("“te\\u{1b}[31mxt\\n”"), "{message}");
}
