//! Excel workbooks, written with `rust_xlsxwriter`, or part by part if they should be damaged.

use rust_xlsxwriter::{ExcelDateTime, Format as Style, Workbook, Worksheet};

use super::*;

/// The name of a sheet, and the function that writes it.
type Sheet<'a> = (&'a str, &'a dyn Fn(&mut Worksheet));

fn book(sheets: &[Sheet<'_>]) -> Vec<u8> {
    let mut book = Workbook::new();
    for (name, fill) in sheets {
        fill(book.add_worksheet().set_name(*name).unwrap());
    }
    book.save_to_buffer().unwrap()
}

fn write(sheet: &mut Worksheet, rows: &[&[&str]]) {
    for (r, row) in rows.iter().enumerate() {
        for (c, value) in row.iter().enumerate().filter(|(_, value)| !value.is_empty()) {
            sheet.write_string(r as u32, c as u16, *value).unwrap();
        }
    }
}

fn reviews(sheet: &mut Worksheet) {
    write(sheet, &[&["review", "stars"], &["良い good", "pos"], &[], &["bad, very", "neg"], &["line\nbreak", "pos"]]);
}

fn read(folder: &Folder, name: &str, bytes: &[u8], options: &ReadOptions) -> (Vec<(String, String)>, String) {
    let path = folder.file(name, bytes);
    let dataset = load_labeled(&path, options).unwrap();
    let description = dataset.description.replace(&*path.display().to_string(), name);
    (
        dataset.examples.into_iter().map(|example| (example.text.as_row().text().to_owned(), example.label)).collect(),
        description,
    )
}

fn owned(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|&(text, label)| (text.to_owned(), label.to_owned())).collect()
}

#[test]
fn a_sheet_is_read_like_csv_whatever_the_file_name() {
    let folder = Folder::new();
    let bytes = book(&[("Data", &reviews)]);
    let rows = owned(&[("良い good", "pos"), ("bad, very", "neg"), ("line\nbreak", "pos")]);
    for (name, bytes) in [("a.xlsx", bytes.clone()), ("a.xlsx.gz", gz(&bytes)), ("a.bin", bytes)] {
        let (found, description) = read(&folder, name, &bytes, &labeled());
        assert_eq!(found, rows, "{name}");
        let gzip = if name.ends_with("gz") { ", gzip" } else { "" };
        let expected =
            format!("{name}: Excel, sheet “Data”, with a header, 2 columns{gzip} (its first bytes); text = ");
        assert!(description.starts_with(&expected), "{description}");
    }
}

#[test]
fn rows_keep_the_numbers_of_excel() {
    let folder = Folder::new();
    let path = folder.file("a.xlsx", book(&[("Data", &reviews)]));
    let dataset = load_labeled(&path, &labeled()).unwrap();
    assert_eq!(dataset.examples.iter().map(|example| example.line).collect::<Vec<_>>(), [2, 4, 5]);
    let place = dataset.location(1).to_string();
    assert!(place.ends_with("a.xlsx, row 4"), "{place}");
}

#[test]
fn the_first_sheet_is_read_unless_another_is_named() {
    let folder = Folder::new();
    let other = |sheet: &mut Worksheet| write(sheet, &[&["text", "label"], &["x", "a"], &["y", "b"]]);
    let bytes = book(&[("Data", &reviews), ("もう一つ", &other), ("Notes", &|_| ())]);
    let (rows, description) = read(&folder, "a.xlsx", &bytes, &labeled());
    assert_eq!(rows.len(), 3);
    assert!(description.contains("sheet “Data” (one of 3; choose another with --sheet NAME)"), "{description}");
    let named = |sheet: &str| ReadOptions { sheet: Some(sheet.to_owned()), ..labeled() };
    assert_eq!(read(&folder, "a.xlsx", &bytes, &named("もう一つ")).0, owned(&[("x", "a"), ("y", "b")]));
    assert_eq!(read(&folder, "a.xlsx", &bytes, &named("data")).0.len(), 3);
    let message = |sheet: &str| folder.message(&load_labeled(&folder.path("a.xlsx"), &named(sheet)).unwrap_err());
    let unknown = message("Date");
    assert!(unknown.contains("choosing the sheet: expected “Date”") && unknown.contains("“Data”"), "{unknown}");
    assert!(message("Notes").contains("empty"), "{}", message("Notes"));
}

#[test]
fn cover_sheets_are_skipped() {
    let table = |sheet: &mut Worksheet| {
        write(sheet, &[&["text", "label"]]);
        for row in 1..=12 {
            sheet.write_string(row, 0, format!("some text {row}")).unwrap();
            sheet.write_string(row, 1, ["x", "y"][row as usize % 2]).unwrap();
        }
    };
    let title = |sheet: &mut Worksheet| write(sheet, &[&["Customer comments 2025"], &[], &["made by the shop"]]);
    let facts = |sheet: &mut Worksheet| {
        write(sheet, &[&["Project", "Reviews"], &["Author", "M. Meier"], &["Date", "2025-03-01"], &["Rows", "12"]]);
    };
    let folder = Folder::new();
    for cover in [("Cover", &title as &dyn Fn(&mut Worksheet)), ("表紙", &facts), ("Sheet1", &title), ("Info", &facts)]
    {
        let (rows, description) = read(&folder, "a.xlsx", &book(&[cover, ("Data", &table)]), &labeled());
        assert_eq!(rows.len(), 12, "{}", cover.0);
        assert!(description.contains("sheet “Data” (one of 2, the first that holds a table"), "{description}");
    }
    // The first table is read, even if another one is larger.
    let (rows, _) = read(&folder, "a.xlsx", &book(&[("Data", &table), ("More", &reviews)]), &labeled());
    assert_eq!(rows.len(), 12);
    let named = ReadOptions { sheet: Some("Cover".into()), ..ReadOptions::default() };
    let path = folder.file("a.xlsx", book(&[("Cover", &title), ("Data", &table)]));
    assert_eq!(RowSource::open(&path, &named).unwrap().records().count(), 2);
}

#[test]
fn values_look_as_in_excel() {
    let folder = Folder::new();
    let fill = |sheet: &mut Worksheet| {
        write(sheet, &[&["text", "label", "day", "price", "seen"], &["one", "", "", "", ""], &["two", "", "", "", ""]]);
        for row in [1, 2] {
            sheet.write_number(row, 1, f64::from(row)).unwrap();
            let day = ExcelDateTime::from_ymd(2024, 5, 17).unwrap();
            sheet.write_with_format(row, 2, &day, &Style::new().set_num_format("d mmm yyyy")).unwrap();
            sheet.write_number(row, 3, 0.1 + 0.2).unwrap();
            sheet.write_boolean(row, 4, true).unwrap();
        }
    };
    let path = folder.file("a.xlsx", book(&[("Data", &fill)]));
    let records = RowSource::open(&path, &labeled()).unwrap().records();
    let rows: Vec<Vec<String>> = records.map(|row| row.unwrap().fields).collect();
    assert_eq!(rows, [["one", "1", "2024-05-17", "0.3", "TRUE"], ["two", "2", "2024-05-17", "0.3", "TRUE"]]);
}

#[test]
fn titles_empty_columns_and_merged_cells_are_handled() {
    let folder = Folder::new();
    let fill = |sheet: &mut Worksheet| {
        sheet.write_string(0, 1, "Feedback, March").unwrap();
        for (r, row) in
            [["text", "label"], ["a fine day", ""], ["a fine night", ""], ["a dull week", "neg"]].iter().enumerate()
        {
            sheet.write_string(r as u32 + 2, 1, row[0]).unwrap();
            if !row[1].is_empty() {
                sheet.write_string(r as u32 + 2, 3, row[1]).unwrap();
            }
        }
        sheet.merge_range(3, 3, 4, 3, "pos", &Style::new()).unwrap();
    };
    let (rows, description) = read(&folder, "a.xlsx", &book(&[("Data", &fill)]), &labeled());
    assert_eq!(rows, owned(&[("a fine day", "pos"), ("a fine night", "pos"), ("a dull week", "neg")]));
    assert!(description.contains("with a header (row 3), 2 columns"), "{description}");
}

#[test]
fn a_value_outside_the_table_is_a_row_error() {
    let folder = Folder::new();
    let fill = |sheet: &mut Worksheet| {
        write(sheet, &[&["text", "label"]]);
        for row in 1..=1_100 {
            sheet.write_string(row, 0, format!("text {row}")).unwrap();
            sheet.write_string(row, 1, if row % 2 == 0 { "a" } else { "b" }).unwrap();
        }
        sheet.write_string(1_050, 5, "look here").unwrap();
    };
    let path = folder.file("a.xlsx", book(&[("Data", &fill)]));
    let message = folder.message(&load_labeled(&path, &labeled()).unwrap_err());
    assert_eq!(
        message,
        "a.xlsx, row 1051: reading an Excel row: expected values in the columns that the first rows have (A, B), found one in \
         cell F1051; clear the cell or give its column a header, or leave such rows out with --skip-bad-rows"
    );
    let dataset = load_labeled(&path, &skipping()).unwrap();
    assert_eq!((dataset.examples.len(), dataset.skipped.count), (1_099, 1));
}

/// Builds a workbook of one sheet from its parts.
fn packed(sheet: &str, strings: &str) -> Vec<u8> {
    use ::zip::write::SimpleFileOptions;
    let parts = [
        ("[Content_Types].xml", "<Types/>"),
        (
            "_rels/.rels",
            "<Relationships><Relationship Id=\"r\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument\" Target=\"xl/workbook.xml\"/></Relationships>",
        ),
        ("xl/workbook.xml", "<workbook><sheets><sheet name=\"S\" sheetId=\"1\" r:id=\"r1\"/></sheets></workbook>"),
        (
            "xl/_rels/workbook.xml.rels",
            "<Relationships><Relationship Id=\"r1\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet\" Target=\"worksheets/sheet1.xml\"/></Relationships>",
        ),
        ("xl/worksheets/sheet1.xml", sheet),
        ("xl/sharedStrings.xml", strings),
    ];
    let mut archive = ::zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, text) in parts {
        archive.start_file(name, SimpleFileOptions::default()).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn sheet(rows: &str) -> String {
    format!("<worksheet><sheetData>{rows}</sheetData></worksheet>")
}

const STRINGS: &str = "<sst><si><t>text</t></si><si><t>label</t></si><si><t>a film</t></si><si><t>good</t></si></sst>";
const ROWS: &str = "<row r=\"1\"><c r=\"A1\" t=\"s\"><v>0</v></c><c r=\"B1\" t=\"s\"><v>1</v></c></row>\
                    <row r=\"2\"><c r=\"A2\" t=\"s\"><v>2</v></c><c r=\"B2\" t=\"s\"><v>3</v></c></row>";

#[test]
fn oversized_parts_are_refused_before_reading() {
    let folder = Folder::new();
    assert_eq!(read(&folder, "a.xlsx", &packed(&sheet(ROWS), STRINGS), &labeled()).0, owned(&[("a film", "good")]));
    let message = |sheet: &str, strings: &str| {
        let error = load_labeled(&folder.file("a.xlsx", packed(sheet, strings)), &labeled()).unwrap_err();
        assert!(error.is_usage(), "{error}");
        folder.message(&error)
    };
    let long = "a".repeat(33 << 20);
    let text = message(&sheet(ROWS), &format!("<sst><si><t>{long}</t></si></sst>"));
    assert!(text.contains("“xl/sharedStrings.xml” has more than 32") && text.contains("without a tag"), "{text}");
    assert!(message(&sheet(&format!("<row><c t=\"str\"><v>{long}</v></c></row>")), STRINGS).contains("without a tag"));
    let claimed = message(&sheet(ROWS), &STRINGS.replace("<sst>", "<sst uniqueCount=\"99999999999\">"));
    assert!(
        claimed.contains("count of shared strings is wrong") && claimed.contains("save the sheet as CSV"),
        "{claimed}"
    );
    // A cell in the last row of the sheet takes no memory.
    let far = message(&sheet(&format!("{ROWS}<row r=\"3\"><c r=\"XFD3\" t=\"s\"><v>0</v></c></row>")), STRINGS);
    assert!(far.contains("row 3: reading a header: expected at most"), "{far}");
    // Neither do many cells with the same long string.
    let shared = format!("<sst><si><t>text</t></si><si><t>label</t></si><si><t>{}</t></si></sst>", &long[..16 << 20]);
    let wide: String = (0..40).map(|_| "<c t=\"s\"><v>2</v></c>").collect();
    let row = message(&sheet(&format!("<row>{wide}</row>")), &shared);
    assert!(row.contains("row 1: reading a row: expected at most 32"), "{row}");
}

#[test]
fn unreadable_workbooks_are_refused_with_advice() {
    let folder = Folder::new();
    let message = |name: &str, bytes: &[u8]| {
        let error = load_labeled(&folder.file(name, bytes), &labeled()).unwrap_err();
        assert!(error.is_usage(), "{error}");
        folder.message(&error)
    };
    let old = [&b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"[..], &[0; 600]].concat();
    let text = message("a.xls", &old);
    assert!(text.contains("(.xls)") && text.contains("save it as an Excel workbook (.xlsx)"), "{text}");
    let name: Vec<u8> = "EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let text = message("a.xlsx", &[old, name].concat());
    assert!(
        text.contains("found a workbook that a password protects") && text.contains("without a password"),
        "{text}"
    );
    let text = message("a.xlsx", b"text,label\na film,good\n");
    assert!(text.contains("reading Excel") && text.contains("no zip archive"), "{text}");
    let ods = b"PK\x03\x04....mimetypeapplication/vnd.oasis.opendocument.spreadsheet";
    assert!(message("a.ods", ods).contains("(.ods); save it as an Excel workbook (.xlsx)"));
    let bytes = book(&[("Data", &reviews)]);
    let text = message("a.xlsx", &bytes[..bytes.len() / 2]);
    assert!(text.contains("reading Excel: expected a whole, undamaged workbook"), "{text}");
    let cut = packed("<worksheet><sheetData><row r=\"1\"><c t=\"s\"><v>0</v></c>", STRINGS);
    assert!(message("a.xlsx", &cut).contains("reading Excel"));
}

#[test]
fn damage_never_panics() {
    let folder = Folder::new();
    let sound = book(&[("Data", &reviews)]);
    let small = packed(&sheet(ROWS), STRINGS);
    for (n, whole) in [sound, small].iter().enumerate() {
        for step in 0..150 {
            let mut bytes = whole.clone();
            let at = (step * 7919 + n) % bytes.len();
            bytes[at] ^= 1 << (step % 8);
            let _ = load_labeled(&folder.file("a.xlsx", bytes), &labeled());
        }
    }
}
