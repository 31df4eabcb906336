//! Task detection, in particular for labels and pairs.

use super::*;

fn found(name: &str, bytes: impl AsRef<[u8]>) -> (TrainingTask, String) {
    let folder = Folder::new();
    let DetectedTask { task, why } =
        detect_task(&DataFiles::One(folder.file(name, bytes)), &ReadOptions::default()).unwrap();
    (task, why)
}

fn rows(header: &str, row: impl Fn(usize) -> String) -> String {
    let mut out = format!("{header}\n");
    (0..40).for_each(|i| out += &format!("{}\n", row(i)));
    out
}

#[test]
fn pairs_are_detected() {
    let is_pair = |name: &str, bytes: String, why: &str| {
        assert_eq!(found(name, bytes), (TrainingTask::Translate, why.to_owned()))
    };
    let columns = |a: &str, b: &str, why: &str| format!("source = column {a} ({why}), target = column {b} ({why})");
    let sentences = |i: usize| format!("これは文{i}です。\tThis is sentence {i}.");
    is_pair("a.tsv", rows("ja\ten", sentences), &columns("“ja”", "“en”", "its language"));
    is_pair("a.tsv", rows("猫です。\tIt is a cat.", sentences), &columns("1", "2", "one of only two columns"));
    is_pair("a.tsv", rows("source\ttarget", sentences), &columns("“source”", "“target”", "its name"));
    is_pair(
        "a.csv",
        rows("input,output", |i| format!("令和{i}年,{}", 2018 + i) + "年"),
        &columns("“input”", "“output”", "its name"),
    );
    // Few rows.
    let few = "猫がいます。\tThere is a cat.\n犬がいます。\tThere is a dog.\n".to_owned();
    is_pair("a.tsv", few, &columns("1", "2", "one of only two columns"));
    let nested = rows("{\"translation\":{\"de\":\"eins\",\"en\":\"one\"}}", |i| {
        format!("{{\"translation\":{{\"de\":\"Satz {i}\",\"en\":\"Sentence {i}\"}}}}")
    });
    is_pair("a.jsonl", nested, &columns("“de”", "“en”", "its language"));
    // An empty column does not count. Lines that end with a delimiter have one.
    let trailing = rows("left,right,", |i| format!("a text {i},its other {i},"));
    is_pair("a.csv", trailing, &columns("“left”", "“right”", "one of only two text columns"));
    let folder = Folder::new();
    let files = DataFiles::Parallel { source: folder.file("a.ja", "x"), target: folder.file("a.en", "y") };
    assert_eq!(detect_task(&files, &ReadOptions::default()).unwrap().why, "two parallel files");
}

#[test]
fn labels_are_detected() {
    let is_labelled = |name: &str, bytes: String, why: &str| {
        assert_eq!(found(name, bytes), (TrainingTask::Classify, format!("label = column {why}")));
    };
    let stars = |i: usize| format!("a fine text number {i},{}", ["good", "bad", "so so"][i % 3]);
    is_labelled("a.csv", rows("text,label", stars), "“label” (its name)");
    is_labelled("a.csv", rows("a first text,good", stars), "2 (few distinct values)");
    // Names of pairs above repeated values.
    is_labelled("a.csv", rows("source,target", stars), "“target” (its name)");
    is_labelled("a.csv", rows("input,output", stars), "“output” (its name)");
    // A label next to two texts.
    let inference = |i: usize| format!("premise number {i},hypothesis number {i},{}", ["yes", "no"][i % 2]);
    is_labelled("a.csv", rows("question,answer,label", inference), "“label” (its name)");
    // Few rows with short, distinct labels, in both scripts.
    is_labelled("a.csv", "great film to see,good\nterrible film,bad\n".to_owned(), "2 (the only other)");
    is_labelled("a.csv", "とても良い宿でした。,良い\nひどい宿でした。,悪い\n".to_owned(), "2 (the only other)");
    is_labelled("a.csv", "a fine text,3\nanother text,1\n".to_owned(), "2 (the only other)");
    assert_eq!(found("a.txt", "__label__x a\n__label__y b\n").0, TrainingTask::Classify);
}

#[test]
fn text_for_language_models_is_detected() {
    assert_eq!(
        found("a.txt", "Once upon a time\nthere was a text.\n"),
        (TrainingTask::LanguageModel, "plain text without columns".into())
    );
    // Equal numbers of commas do not make plain text a table.
    let poem = rows("a line,and its end", |i| format!("line{i},and its end {i}"));
    let why = "lines that make no table of labels or pairs".to_owned();
    assert_eq!(found("poem.txt", poem), (TrainingTask::LanguageModel, why));
    let documents = rows("{\"text\":\"a first document\"}", |i| format!("{{\"text\":\"document number {i}\"}}"));
    assert_eq!(found("a.jsonl", documents), (TrainingTask::LanguageModel, "text = column “text”, and no label".into()));
}

#[test]
fn files_without_a_clear_task_are_refused() {
    let folder = Folder::new();
    // In a table with one text and other columns, the label is missing. It is not for language modeling.
    let path = folder.file("b.csv", rows("day,mood", |i| format!("2026-11-{i:02},a fine day {i} or a bad one")));
    assert!(detect_task(&DataFiles::One(path), &ReadOptions::default()).is_err());
    let path = folder.file("a.csv", rows("one,two,three", |i| format!("a text {i},a text {i} more,a text {i} less")));
    let error = detect_task(&DataFiles::One(path), &ReadOptions::default()).unwrap_err();
    assert!(
        folder.message(&error).starts_with("a.csv: choosing the text column: expected one clear candidate"),
        "{error}"
    );
}

#[test]
fn two_texts_among_other_columns_need_a_decision() {
    let folder = Folder::new();
    let row = |i: usize| format!("A thing {i},A few words about thing {i},{}.50", 3 * i);
    let file = |header: &str| DataFiles::One(folder.file("a.csv", rows(header, row)));
    let asking = |text: Option<&str>, label: Option<&str>| ReadOptions {
        text: text.map(str::to_owned),
        label: label.map(str::to_owned),
        ..ReadOptions::default()
    };
    let error = detect_task(&file("title,description,price"), &asking(None, None)).unwrap_err();
    assert!(error.is_usage());
    let message = folder.message(&error);
    for part in
        ["a.csv: choosing the task: ", "column “title”, column “description”", "column “price”", "--task translate"]
    {
        assert!(message.contains(part), "{part}: {message}");
    }
    // With names of pairs, or by option, they are a pair.
    let task = |header: &str, options: &ReadOptions| detect_task(&file(header), options).unwrap().task;
    assert_eq!(task("source,target,price", &asking(None, None)), TrainingTask::Translate);
    assert_eq!(task("ja,en,price", &asking(None, None)), TrainingTask::Translate);
    assert_eq!(task("title,description,price", &asking(Some("title"), Some("description"))), TrainingTask::Translate);
}

#[test]
fn a_stream_with_a_column_name_first_is_a_table_of_one_column() {
    let open = |name: &str, content: &'static str| {
        RowSource::from_reader(std::path::Path::new(name), content.as_bytes(), &ReadOptions::default()).unwrap()
    };
    let texts = |source: RowSource| -> Vec<String> {
        let column = source.columns().text;
        source.records().map(|record| record.unwrap().fields[column].clone()).collect()
    };
    let source = open("standard input", "text\nA fine day.\n\"Slow, cold.\"\n");
    let message = source.describe();
    assert!(
        message.contains("CSV with a header, 1 column (its first line names a column); text = column “text”"),
        "{message}"
    );
    assert_eq!(texts(source), ["A fine day.", "Slow, cold."]);
    // Commas outside quotes belong to the texts.
    assert_eq!(texts(open("standard input", "text\nSlow, cold.\nA fine day.\n")), ["Slow, cold.", "A fine day."]);
    // These are lines of text: no rows below, an empty line as in texts, another word, or an extension.
    for (name, content, rows) in [
        ("standard input", "text\n", 1),
        ("standard input", "text\n\nA fine day.\n", 3),
        ("standard input", "Well\nA fine day.\n", 2),
        ("a.txt", "text\nA fine day.\n", 2),
    ] {
        let source = open(name, content);
        assert_eq!(source.layout().format, Format::PlainText, "{content:?}");
        assert_eq!(texts_in_place(source), rows, "{content:?}");
    }
}

fn texts_in_place(source: RowSource) -> usize {
    let mut records = source.records();
    std::iter::from_fn(|| records.next_with_fault().unwrap()).count()
}

#[test]
fn options_decide_the_format() {
    let folder = Folder::new();
    let row = |i: usize| format!("one text {i},two text {i},three text {i},{}", i % 2);
    let path = DataFiles::One(folder.file("a.csv", rows("a,b,c,kind", row)));
    let task = |text: &str, label: &str| {
        let options = ReadOptions { text: Some(text.into()), label: Some(label.into()), ..ReadOptions::default() };
        detect_task(&path, &options).unwrap().task
    };
    assert_eq!((task("a", "c"), task("c", "kind")), (TrainingTask::Translate, TrainingTask::Classify));
}
