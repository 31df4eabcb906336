//! The ways in which files write several labels per text, and errors in them.

use super::*;

fn options() -> ReadOptions {
    ReadOptions { require_text: true, ..ReadOptions::default() }
}

fn read(name: &str, content: &str, how: &LabelOptions) -> Result<Vec<Vec<String>>, String> {
    let folder = Folder::new();
    let path = folder.file(name, content);
    let sets = load_multi_label(&path, &options(), how).map_err(|error| folder.message(&error))?;
    Ok(sets.examples.into_iter().map(|example| example.labels).collect())
}

fn found(name: &str, content: &str) -> Vec<Vec<String>> {
    read(name, content, &LabelOptions::default()).unwrap()
}

/// Returns the detected task of a file.
fn task(name: &str, content: &str) -> TrainingTask {
    let folder = Folder::new();
    detect_task(&DataFiles::One(folder.file(name, content)), &options()).unwrap().task
}

const THREE: [&[&str]; 4] = [&["sun", "sea"], &["sun"], &["sea", "wind"], &["wind"]];

/// Builds a file whose labels are written by `write`.
fn rows(head: &str, write: impl Fn(&[&str], usize) -> String) -> String {
    let line = |i: usize| write(THREE[i % 4], i) + "\n";
    head.to_owned() + &(0..40).map(line).collect::<String>()
}

fn expected() -> Vec<Vec<String>> {
    (0..40).map(|i| THREE[i % 4].iter().map(|&label| label.to_owned()).collect()).collect()
}

#[test]
fn lists_of_numbers_are_labels_in_label_columns() {
    let number = |label: &str| ["sun", "sea", "wind"].iter().position(|&name| name == label).unwrap().to_string();
    let numbers = |labels: &[&str], between: &str| labels.iter().map(|l| number(l)).collect::<Vec<_>>().join(between);
    let json =
        rows("", |labels, i| format!("{{\"text\": \"a text, number {i}\", \"labels\": [{}]}}", numbers(labels, ",")));
    let python = rows("text\tlabels\n", |labels, i| format!("a text, number {i}\t[{}]", numbers(labels, ", ")));
    let numpy = rows("text\tlabels\n", |labels, i| format!("a text, number {i}\t[{}]", numbers(labels, " ")));
    let expected: Vec<Vec<String>> =
        expected().iter().map(|labels| labels.iter().map(|label| number(label)).collect()).collect();
    for (name, content) in [("a.jsonl", json), ("a.tsv", python), ("b.tsv", numpy)] {
        assert_eq!(task(name, &content), TrainingTask::Labels, "{name}");
        assert_eq!(found(name, &content), expected, "{name}");
    }
    // In other columns they are something else, and lists are never split at commas.
    let boxes = rows("", |labels, i| {
        format!("{{\"text\": \"a text, number {i}\", \"box\": [{}, {}], \"label\": \"{}\"}}", i % 3, i % 2, labels[0])
    });
    assert_ne!(task("a.jsonl", &boxes), TrainingTask::Labels);
    let shares = rows("text\tlabels\n", |labels, i| format!("a text, number {i}\t[0.5, {}.25]", labels.len()));
    assert_ne!(task("a.tsv", &shares), TrainingTask::Labels);
}

#[test]
fn all_forms_give_the_same_labels() {
    let fast = rows("", |labels, i| {
        labels.iter().map(|label| format!("__label__{label} ")).collect::<String>() + &format!("a text, number {i}")
    });
    let separated =
        |separator: &str| rows("text\tlabels\n", |labels, i| format!("a text, number {i}\t{}", labels.join(separator)));
    let quoted = |labels: &[&str], mark: char| {
        labels.iter().map(|label| format!("{mark}{label}{mark}")).collect::<Vec<_>>().join(", ")
    };
    let json =
        rows("", |labels, i| format!("{{\"text\": \"a text, number {i}\", \"tags\": [{}]}}", quoted(labels, '"')));
    let python = rows("text\ttags\n", |labels, i| format!("a text, number {i}\t[{}]", quoted(labels, '\'')));
    let flags = rows("text\tsea\tsun\twind\n", |labels, i| {
        let holds = |label: &str| u8::from(labels.contains(&label));
        format!("a text, number {i}\t{}\t{}\t{}", holds("sea"), holds("sun"), holds("wind"))
    });
    for (name, content) in [
        ("a.txt", fast),
        ("a.tsv", separated(",")),
        ("b.tsv", separated(" | ")),
        ("c.tsv", separated(";")),
        ("a.jsonl", json),
        ("d.tsv", python),
        ("e.tsv", flags),
    ] {
        let mut labels = found(name, &content);
        assert_eq!(task(name, &content), TrainingTask::Labels, "{name}");
        labels.iter_mut().for_each(|labels| labels.sort());
        let mut expected = expected();
        expected.iter_mut().for_each(|labels| labels.sort());
        assert_eq!(labels, expected, "{name}");
    }
}

#[test]
fn single_label_files_are_not_multi_label() {
    let one =
        |label: &dyn Fn(usize) -> String| rows("text\tlabel\n", |_, i| format!("a text, number {i}\t{}", label(i)));
    for content in [
        one(&|i| ["good", "bad"][i % 2].into()),
        // Names that contain a comma, and repeat as a whole.
        one(&|i| ["Paris, France", "Rome, Italy", "Oslo, Norway"][i % 3].into()),
        // A label next to columns of 0 and 1.
        rows("text\tlabel\ta\tb\tc\n", |_, i| {
            format!("a text, number {i}\t{}\t{}\t{}\t{}", ["x", "y"][i % 2], i % 2, i / 2 % 2, i / 4 % 2)
        }),
        // Only two columns of 0 and 1 may mean anything.
        rows("text\tlabel\tread\n", |_, i| format!("a text, number {i}\t{}\t{}", i % 2, i / 2 % 2)),
    ] {
        assert_eq!(task("a.tsv", &content), TrainingTask::Classify, "{content}");
    }
    let content = rows("", |_, i| format!("__label__{} a text, number {i}", ["x", "y"][i % 2]));
    assert_eq!(task("a.txt", &content), TrainingTask::Classify);
}

#[test]
fn options_decide_the_form() {
    let separated = rows("text\tlabel\n", |labels, i| format!("a text, number {i}\t{}", labels.join("/")));
    let how = LabelOptions { separator: Some('/'), ..LabelOptions::default() };
    assert_eq!(read("a.tsv", &separated, &how).unwrap(), expected());
    let flags = rows("text\tfirst\tsecond\tlabel\n", |_, i| format!("a text, number {i}\t{}\t{}\tx", i % 2, i / 2 % 2));
    let how = LabelOptions { columns: vec!["first".into(), "SECOND".into()], ..LabelOptions::default() };
    let labels = read("a.tsv", &flags, &how).unwrap();
    assert_eq!(
        labels[..4],
        [vec![], vec!["first".to_owned()], vec!["second".into()], vec!["first".into(), "second".into()]]
    );
    let how = LabelOptions { columns: vec!["third".into()], ..LabelOptions::default() };
    let problem = read("a.tsv", &flags, &how).unwrap_err();
    assert!(problem.contains("“third”") && problem.starts_with("a.tsv"), "{problem}");
    let problem = read("a.tsv", "text\tlabel\nfine\tx\npoor\ty\ngood\tx\n", &LabelOptions::default()).unwrap_err();
    assert!(problem.contains("--separator") && problem.contains("--labels"), "{problem}");
}

#[test]
fn invalid_labels_have_a_location() {
    let with = |line: &str, head: &str, good: &str| format!("{head}{}{line}\n", good.repeat(30));
    for (name, content, place, says) in [
        (
            "a.jsonl",
            with(
                "{\"text\": \"t\", \"tags\": [\"a\", 3]}",
                "",
                "{\"text\": \"one\", \"tags\": [\"a\", \"b\"]}\n{\"text\": \"two\", \"tags\": [\"b\"]}\n",
            ),
            "a.jsonl:61",
            "a list of texts",
        ),
        ("a.tsv", with("t\t['a", "text\ttags\n", "one\t['a', 'b']\ntwo\t['b']\n"), "", ""),
        (
            "b.tsv",
            with("t\ta,,b", "text\tlabels\n", "one\ta,b\ntwo\tb\nthree\ta\n"),
            "b.tsv:92",
            "names with the separator",
        ),
        ("c.tsv", with("t\t1\t2\t0", "text\ta\tb\tc\n", "one\t1\t0\t1\ntwo\t0\t1\t0\n"), "", ""),
        ("a.txt", with("no label here", "", "__label__a __label__b one\n__label__a two\n"), "a.txt:61", "no __label__"),
    ] {
        let how = match name {
            "c.tsv" => LabelOptions { columns: ["a", "b", "c"].map(String::from).to_vec(), ..LabelOptions::default() },
            _ => LabelOptions { separator: Some(',').filter(|_| name == "b.tsv"), ..LabelOptions::default() },
        };
        let problem = read(name, &content, &how).unwrap_err();
        assert!(problem.contains(place) && problem.contains(says), "{name}: {problem}");
        let folder = Folder::new();
        let skipping = ReadOptions { skip_bad_rows: true, ..options() };
        if !place.is_empty() {
            let sets = load_multi_label(&folder.file(name, &content), &skipping, &how).unwrap();
            assert_eq!(sets.skipped.count, 1, "{name}");
        }
    }
}

/// As in exports: a separator follows the last label too.
#[test]
fn separators_may_end_the_list() {
    let content = rows("text\tlabels\n", |_, i| format!("a text, number {i}\t{};", ["a;b", "b", "a; c", "b;c"][i % 4]));
    for how in [LabelOptions::default(), LabelOptions { separator: Some(';'), ..LabelOptions::default() }] {
        let found = read("a.tsv", &content, &how).unwrap();
        assert_eq!(found[..3], [vec!["a", "b"], vec!["b"], vec!["a", "c"]]);
    }
    let how = LabelOptions { separator: Some(';'), ..LabelOptions::default() };
    let problem = read("a.tsv", &content.replacen("a;b;", "a;b;;", 1), &how).unwrap_err();
    assert!(problem.contains("a.tsv:2") && problem.contains("names with the separator"), "{problem}");
}

#[test]
fn labels_are_distinct_and_training_needs_two() {
    let content = rows("text\tlabels\n", |_, i| format!("a text, number {i}\ta|b|a"));
    let how = LabelOptions { separator: Some('|'), ..LabelOptions::default() };
    assert_eq!(read("a.tsv", &content, &how).unwrap()[0], ["a", "b"]);
    let folder = Folder::new();
    let one = folder.file("one.tsv", rows("text\tlabels\n", |_, i| format!("a text, number {i}\ta")));
    let sets = load_multi_label(&one, &options(), &how).unwrap();
    assert!(sets.check_trainable().unwrap_err().to_string().contains("one.tsv"));
    let sets = load_multi_label(&folder.file("a.tsv", &content), &options(), &how).unwrap();
    assert!(sets.check_trainable().is_ok() && sets.check_known_labels(&["a", "b"]).is_ok());
    let problem = folder.message(&sets.check_known_labels(&["a", "bb"]).unwrap_err());
    assert!(problem.starts_with("a.tsv:2") && problem.contains("“b”") && problem.contains("“bb”"), "{problem}");
}

#[test]
fn an_empty_field_is_a_text_without_labels() {
    let how = LabelOptions { separator: Some('|'), ..LabelOptions::default() };
    let content = "text\tlabels\none\ta|b\ntwo\t\nthree\tb\n";
    assert_eq!(read("a.tsv", content, &how).unwrap(), [vec!["a", "b"], vec![], vec!["b"]]);
    let lists = "{\"text\": \"one\", \"tags\": [\"a\", \"b\"]}\n{\"text\": \"two\", \"tags\": []}\n{\"text\": \"three\", \"tags\": null}\n";
    assert_eq!(found("a.jsonl", lists), [vec!["a", "b"], vec![], vec![]]);
}
