//! The exact messages for rows, columns and data sets that cannot be used.

use super::*;

const SKIP: &str = "or leave such rows out with --skip-bad-rows";

#[test]
fn ragged_rows() {
    assert_eq!(
        message("a.csv", "text,label\nfine,1\né, no quotes,0\n", &labeled()),
        format!(
            "a.csv:3:14: reading a CSV row: expected 2 columns, as in line 1, found 3; put a text that holds the \
                 delimiter in quotes, {SKIP}"
        )
    );
    assert_eq!(
        message("a.csv", "text,label\nfine,1\nalone\n", &labeled()),
        format!(
            "a.csv:3:6: reading a CSV row: expected 2 columns, as in line 1, found 1; add the missing values, {SKIP}"
        )
    );
    assert_eq!(
        message("a.tsv", "\ntext\tlabel\nfine\t1\na\tb\t0\n", &labeled()),
        format!(
            "a.tsv:4:5: reading a TSV row: expected 2 columns, as in line 2, found 3; take the tabs out of the text, {SKIP}"
        )
    );
    assert_eq!(
        message("a.tsv", "text\tlabel\n\"alone\nnever closed\n", &labeled()),
        format!(
            "a.tsv:2:7: reading a TSV row: expected 2 columns, as in line 1, found 1; add the missing values, {SKIP}"
        )
    );
    let wide = format!("{}\n", "x,".repeat(5000));
    assert_eq!(
        message("a.csv", wide, &labeled()),
        "a.csv:1:8193: reading a header: expected at most 4096 columns, found 5001; is it a table with one text per row?"
    );
}

#[test]
fn quotes_in_csv() {
    let close = format!("close it, write a quote inside quotes twice (\"\"), {SKIP}");
    assert_eq!(
        message("a.csv", "text,label\nfine,1\nx,\"open\nmore,1\nlast,0\n", &labeled()),
        format!(
            "a.csv:3:3: reading a CSV field: expected a closing quote (\") for the one that opens here, found the end \
                 of the file after line 5; {close}"
        )
    );
    assert_eq!(
        message("a.csv", "text,label\n\"He said \"hi\" to me\",1\n", &labeled()),
        format!(
            "a.csv:2:1: reading a CSV field: expected a comma or the end of the line after its closing quote, found “hi\" to me\",1” at 2:11; write a quote inside quotes twice (\"\"), {SKIP}"
        )
    );
}

#[test]
fn bad_rows_are_skipped_on_request() {
    let folder = Folder::new();
    let content = "text,label\ngood,1\n\"open,1\nfine,0\na,b,c\n,1\nlost,\n\"he \"x\" y\",1\nlast,0\n";
    let dataset = load_labeled(&folder.file("a.csv", content), &skipping()).unwrap();
    let kept: Vec<(&str, u64)> = dataset.examples.iter().map(|e| (e.text.as_row().text(), e.line)).collect();
    assert_eq!(kept, [("good", 2), ("fine", 4), ("last", 9)]);
    assert_eq!(dataset.skipped.count, 5);
    // Skipped rows are in file order, whichever error was found first.
    let lines: Vec<u64> = dataset.skipped.rows.iter().map(|row| row.line).collect();
    assert_eq!(lines, [3, 5, 6, 7, 8]);
    let sentence = dataset.skipped.to_string();
    assert!(sentence.starts_with("5 rows left out, the first because: "), "{sentence}");
    assert!(sentence.contains("a.csv:3:"), "{sentence}");

    let content =
        "{\"text\":\"a\",\"label\":1}\nno\n[]\n{\"text\":\"b\",\"label\":{}}\n{\"text\":\"c\"}\n{\"label\":2}\n";
    let dataset = load_labeled(&folder.file("a.jsonl", content), &skipping()).unwrap();
    assert_eq!((dataset.examples.len(), dataset.skipped.count), (1, 5));

    let dataset = load_labeled(&folder.file("a.tsv", "text\tlabel\na\t1\n\"b\nc\t2\nd\n"), &skipping()).unwrap();
    let kept: Vec<&str> = dataset.examples.iter().map(|e| e.text.as_row().text()).collect();
    assert_eq!((kept, dataset.skipped.count), (vec!["a", "c"], 2));

    let sentence = message("a.csv", "text,label\n,1\n,2\n", &skipping());
    assert_eq!(
        sentence,
        format!(
            "a.csv: reading labeled texts: expected rows, found none that can be used (2 rows left out, the first \
                 because: a.csv:2: reading the text: expected some characters, found an empty text); \
                 correct the file or choose other columns with --text and --label"
        )
    );
}

#[test]
fn missing_columns() {
    let content = "id,review,stars\n1,good food,5\n2,bad food,1\n";
    let asking = |text: Option<&str>, label: Option<&str>| ReadOptions {
        text: text.map(str::to_owned),
        label: label.map(str::to_owned),
        ..labeled()
    };
    let among = "found no such column among “id”, “review”, “stars”";
    assert_eq!(
        message("a.csv", content, &asking(Some("reviw"), None)),
        format!("a.csv: choosing the text column: expected “reviw”, {among}; did you mean “review”?")
    );
    assert_eq!(
        message("a.csv", content, &asking(None, Some("4"))),
        format!("a.csv: choosing the label column: expected “4”, {among}; name one of these with --label")
    );
    assert_eq!(
        message("a.csv", "good food,5\nbad food,1\n", &asking(Some("0"), None)),
        "a.csv: choosing the text column: expected “0”, found no such column among columns 1 to 2 (no names; the first \
         row holds “good food”, “5”); name one by its number, as --text 1"
    );
    assert_eq!(
        message("a.csv", content, &asking(Some("review"), Some("2"))),
        "a.csv: choosing the columns: expected the text and the label in two columns, found “review” named for both; \
         change --text or --label"
    );
    assert_eq!(
        message("a.txt", "Plain text.\nMore of it.\n", &labeled()),
        "a.txt: choosing the label column: expected a column of few, repeated values, found only \
         plain text; write a CSV file with a text and a label in each row"
    );
    let unique: String = (0..30).map(|i| format!("text number {i},id{i}\n")).collect();
    assert_eq!(
        message("a.csv", unique, &labeled()),
        "a.csv: choosing the label column: expected a column of few, repeated values, found only columns 1 to 2 (no \
         names; the first row holds “text number 0”, “id0”); name one with --label NAME or number"
    );
    let numbers: String = (0..30).map(|i| format!("{i},{}\n", i * 2)).collect();
    assert_eq!(
        message("a.csv", numbers, &labeled()),
        "a.csv: choosing the text column: expected a column of words, found only column 1 (numbers or signs), column 2 \
         (numbers or signs); name one with --text NAME or number"
    );
}

#[test]
fn ambiguous_columns() {
    let mut content = "left,right,gold,split\n".to_owned();
    for i in 0..20 {
        content += &format!("first words {i},other words {i},{},{}\n", i % 2, i % 4);
    }
    let expected = "a.csv: choosing the text column: expected one clear candidate, found 2 equally likely: column “left”, \
                    column “right”; name one with --text NAME";
    assert_eq!(
        message("a.csv", &content, &labeled()),
        format!("{expected}, or two that belong together, as --text left,right")
    );
    // Models of single texts.
    let folder = Folder::new();
    let error = RowSource::open(&folder.file("a.csv", &content), &labeled()).map(drop).unwrap_err();
    assert_eq!(folder.message(&error), expected);
    let renamed = content.replace("gold", "kind").replace("left", "text");
    assert_eq!(
        message("a.csv", &renamed, &labeled()),
        "a.csv: choosing the label column: expected one clear candidate, found 2 equally likely: column “kind”, column \
         “split”; name one with --label NAME"
    );
    let twice = content.replace("right", "left");
    let options = ReadOptions { text: Some("left".into()), ..labeled() };
    assert_eq!(
        message("a.csv", &twice, &options),
        "a.csv: choosing the text column: expected one clear candidate, found 2 equally likely: column “left”, \
         column “left”; name one by its number, as --text 1"
    );
}

#[test]
fn empty_texts_and_labels() {
    assert_eq!(
        message("a.csv", "text,label\nfine,1\n \u{3000},0\n", &labeled()),
        format!("a.csv:3: reading the text: expected some characters, found an empty text; fill it in, {SKIP}")
    );
    let empty_label = |place: &str, found: &str| {
        format!("{place}: reading the label: expected a class name, found {found}; fill it in, {SKIP}")
    };
    let error = message("a.tsv", "text\tlabel\nfine\t1\nbad\t\n", &labeled());
    assert_eq!(error, empty_label("a.tsv:3", "an empty field"));
    let good = "{\"text\":\"a\",\"label\":1}\n";
    let error = message("a.jsonl", format!("{good}{{\"text\":\"b\"}}\n"), &labeled());
    assert_eq!(error, empty_label("a.jsonl:2", "no key “label”"));
    let error = message("a.jsonl", format!("{good}{{\"text\":\"b\",\"label\":null}}\n"), &labeled());
    assert_eq!(error, empty_label("a.jsonl:2", "null"));
    let error = message("a.ft", "__label__a one\ntwo\n", &labeled());
    assert_eq!(error, empty_label("a.ft:2", "no __label__ on the line"));
    assert_eq!(
        message("a.ft", "__label__a one\n__label__a __label__b two\n", &labeled()),
        format!(
            "a.ft:2: reading the label: expected one label, found 2 (“a”, “b”); train with --task labels to predict several, keep one for each text, {SKIP}"
        )
    );
}

#[test]
fn long_texts() {
    let text = "あ".repeat((16 << 20) / 3 + 1);
    let expected = |place: &str| {
        format!("{place}: reading a text: expected at most 16 MiB, found 16.1 MiB; cut it into shorter texts, {SKIP}")
    };
    assert_eq!(message("a.csv", format!("text,label\nfine,1\n{text},0\n"), &labeled()), expected("a.csv:3"));
    assert_eq!(message("a.tsv", format!("text\tlabel\n{text}\t0\n"), &labeled()), expected("a.tsv:2"));
    assert_eq!(message("a.jsonl", format!("{{\"text\":\"{text}\",\"label\":0}}\n"), &labeled()), expected("a.jsonl:1"));
    assert_eq!(message("a.ft", format!("__label__a {text}\n"), &labeled()), expected("a.ft:1"));
}

#[test]
fn untrainable_data_sets_are_refused() {
    let folder = Folder::new();
    let check = |content: &str| {
        let dataset = load_labeled(&folder.file("a.csv", content), &labeled()).unwrap();
        folder.message(&dataset.check_trainable().unwrap_err())
    };
    assert_eq!(
        check("text,label\ngood,1\n"),
        "a.csv: checking the data: expected at least 4 rows, found 1 row; add more examples"
    );
    assert_eq!(
        check("text,label\na,1\nb,1\nc,1\nd,1\n"),
        "a.csv: checking the data: expected two or more classes, found only “1” in all 4 rows; is column “label” the \
         label? Name another with --label"
    );
    assert_eq!(
        check("a b c,1\nd e f,1\ng h i,1\nj k l,1\n"),
        "a.csv: checking the data: expected two or more classes, found only “1” in all 4 rows; is column 2 the label? \
         Name another with --label"
    );
    let many: String = (0..=MAX_CLASSES).map(|i| format!("text {i},id{i}\n")).collect();
    assert_eq!(
        message("a.csv", format!("text,label\n{many}"), &labeled()),
        "a.csv: checking the data: expected a label column of few, repeated values, found 5000 different values in 5000 \
         rows of column “label”, such as “id0”, “id1”, “id2”; it looks like an identifier; sort the values into a few classes"
    );
    // Only the columns that could be the label are named.
    let mixed: String = (0..80)
        .map(|i| format!("{i},what somebody wrote about {i},{}.5,{}\n", 3 * i, ["good", "bad"][i % 2]))
        .collect();
    let path = folder.file("b.csv", format!("id,comment,amount,verdict\n{mixed}"));
    let options = ReadOptions { label: Some("amount".into()), ..labeled() };
    let error = folder.message(&load_labeled(&path, &options).unwrap().check_trainable().unwrap_err());
    assert!(
        error.ends_with(
            "name another column with --label (such as column “verdict”), or sort the values into a few classes"
        ),
        "{error}"
    );
    let many: String = (0..=5 * MAX_CLASSES).map(|i| format!("text {i},kind {}\n", i / 5)).collect();
    assert_eq!(
        message("a.csv", format!("text,label\n{many}"), &labeled()),
        "a.csv:25002: reading the label: expected at most 5000 classes, found more in column “label”; is it an \
         identifier? Name another column with --label"
    );
}

#[test]
fn labels_unknown_to_training_are_refused() {
    let folder = Folder::new();
    let train = load_labeled(&folder.file("train.csv", "text,label\na,pos\nb,neg\n"), &labeled()).unwrap();
    let test = load_labeled(&folder.file("test.csv", "text,label\nc,pos\nd,Pos\n"), &labeled()).unwrap();
    test.check_known_labels(&["pos", "Pos"]).unwrap();
    assert_eq!(
        folder.message(&test.check_known_labels(&train.labels()).unwrap_err()),
        "test.csv:3: checking the labels: expected a class of the training data (“neg”, “pos”), found “Pos”; did you \
         mean “pos”?; correct it, or add such rows to the training data"
    );
}

#[test]
fn the_first_error_is_reported_accurately() {
    let good = "{\"text\":\"a\",\"label\":\"x\"}\n";
    let text = |found: &str| format!("reading the text: expected some characters, found {found}; fill it in");
    // The label is missing in an earlier row than the text.
    let error = message("a.jsonl", format!("{good}{{\"text\":\"b\"}}\n{{\"label\":\"x\"}}\n"), &labeled());
    assert!(error.starts_with("a.jsonl:2: reading the label: expected a class name, found no key “label”;"), "{error}");
    let error = message("a.jsonl", format!("{good}{{\"label\":\"x\"}}\n{{\"text\":\"b\"}}\n"), &labeled());
    assert!(error.starts_with(&format!("a.jsonl:2: {}", text("no key “text”"))), "{error}");
    let error = message("a.jsonl", format!("{good}{{\"text\":null,\"label\":\"x\"}}\n"), &labeled());
    assert!(error.starts_with(&format!("a.jsonl:2: {}", text("null"))), "{error}");
    let error = message("a.jsonl", format!("{good}{{\"text\":\" \",\"label\":\"x\"}}\n"), &labeled());
    assert!(error.starts_with(&format!("a.jsonl:2: {}", text("an empty text"))), "{error}");
}

#[test]
fn row_errors_are_distinguished_from_other_errors() {
    let folder = Folder::new();
    let error = load_labeled(&folder.file("a.csv", "text,label\n,1\n"), &labeled()).unwrap_err();
    assert!(error.is_row_error());
    let error = load_labeled(&folder.file("a.csv", ""), &labeled()).unwrap_err();
    assert!(!error.is_row_error() && !error.is_broken_pipe());
}
