//! Schema inference on messy tables: the reading that is chosen, the next one, and ambiguous cases with the flags that
//! decide.

use super::*;

/// Writes `n` rows below a header.
fn table(header: &str, n: usize, row: impl Fn(usize) -> String) -> String {
    std::iter::once(header.to_owned()).chain((0..n).map(row)).map(|line| line + "\n").collect()
}

const WORDS: [&str; 7] = [
    "kam kaputt an",
    "nie wieder hier bestellt",
    "sehr zufrieden mit der Ware",
    "schnelle Lieferung und gut",
    "war ganz in Ordnung",
    "leider zu klein geraten",
    "gern wieder, alles bestens",
];

fn words(i: usize) -> String {
    format!("{} {i}", WORDS[i * 5 % 7].replace(',', ""))
}

/// Returns the task of a file and the reason, or the message of the error.
fn look(name: &str, content: impl AsRef<[u8]>) -> Result<(TrainingTask, String), String> {
    look_with(name, content, &ReadOptions::default())
}

fn look_with(name: &str, content: impl AsRef<[u8]>, options: &ReadOptions) -> Result<(TrainingTask, String), String> {
    let folder = Folder::new();
    let files = DataFiles::One(folder.file(name, content));
    let found = detect_task(&files, options).map_err(|error| {
        assert!(error.is_usage());
        folder.message(&error)
    })?;
    Ok((found.task, found.why))
}

/// The columns of a file that are chosen by default.
struct Chosen {
    text: String,
    /// The label column, or an empty name.
    label: String,
    description: String,
}

fn chosen(name: &str, content: impl AsRef<[u8]>) -> Chosen {
    let folder = Folder::new();
    let source = RowSource::open(&folder.file(name, content), &ReadOptions { pairs: true, ..labeled() })
        .unwrap_or_else(|error| panic!("{}", folder.message(&error)));
    let layout = source.layout();
    let title = |column: usize| layout.columns[column].clone();
    Chosen {
        text: title(source.columns().text),
        label: source.columns().label.map(title).unwrap_or_default(),
        description: source.describe(),
    }
}

#[test]
fn decimal_commas_are_numbers_and_lists_of_numbers_are_labels() {
    for (name, header, number) in [
        ("a.csv", "Kommentar;Note", &(|i: usize| format!("{},{}", 1 + i % 5, 5 * (i % 2))) as &dyn Fn(usize) -> String),
        ("a.csv", "Text;Preis", &|i| format!("{},{:02}", 3 + i * 7 % 90, i * 13 % 100)),
        ("a.tsv", "avis\tprix", &|i| format!("{},{}", i * 7 % 60, 1 + i * 3 % 9)),
        ("a.csv", "Kommentar;Betrag", &|i| format!("{}.{:03},50", 1 + i % 7, 100 + i * 37 % 800)),
    ] {
        let between = if name == "a.tsv" { '\t' } else { ';' };
        let content = table(header, 60, |i| format!("{}{between}{}", words(i), number(i)));
        assert_eq!(look(name, &content).unwrap().0, TrainingTask::Score, "{header}");
    }
    // Remarks among the numbers are row errors.
    let remarks = table("Kommentar;Note", 60, |i| {
        format!("{};{}", words(i), if i % 30 == 9 { "k.A.".into() } else { format!("{},5", 1 + i * 3 % 5) })
    });
    assert_eq!(look("a.csv", &remarks).unwrap().0, TrainingTask::Score);
    // Quoted, in a comma-separated file.
    let quoted = table("Kommentar,Note", 60, |i| format!("{},\"{},5\"", words(i), 1 + i * 3 % 5));
    assert_eq!(look("a.csv", &quoted).unwrap().0, TrainingTask::Score);
    // In a list of labels, every number is a label and occurs once.
    let lists = table("text\tlabels", 90, |i| {
        format!("{}\t{}", words(i), ["27", "3,10", "2,14,27", "10", "3", "2,3", "14"][i % 7])
    });
    assert_eq!(look("a.tsv", &lists).unwrap().0, TrainingTask::Labels);
    let pairs = table("text\tlabels", 90, |i| format!("{}\t{}", words(i), ["0", "0,3", "2,4", "4", "3", "0,2"][i % 6]));
    assert_eq!(look("a.tsv", &pairs).unwrap().0, TrainingTask::Labels);
    // Commas in texts do not split columns that semicolons separate.
    let content = table("Text, frei;Note", 30, |i| format!("{};{},5", words(i), i % 5));
    let Chosen { text, label, description: said } = chosen("a.csv", content);
    assert_eq!((text.as_str(), label.as_str()), ("Text, frei", "Note"), "{said}");
}

#[test]
fn flag_columns_yield_to_a_label_and_both_are_named() {
    let flags = |header: &str, label: &dyn Fn(usize) -> &'static str| {
        table(header, 60, |i| format!("{},{},{},{},{}", words(i), i % 2, i / 2 % 2, i / 4 % 2, label(i)))
    };
    let content = flags("text,is_weekend,has_link,verified,priority", &|i| ["High", "Low"][i * 7 % 5 % 2]);
    let (task, why) = look("a.csv", &content).unwrap();
    assert_eq!(task, TrainingTask::Classify);
    assert!(why.contains("label = column “priority”"), "{why}");
    assert!(why.contains("--labels is_weekend,has_link,verified"), "{why}");
    // Also in the last column, and with true and false.
    let content = table("body,hasImage,isReply,isPinned,Dept", 60, |i| {
        format!("{},{},{},{},{}", words(i), i % 2 == 0, i / 2 % 2 == 0, i / 4 % 2 == 0, ["Sales", "Care", "IT"][i % 3])
    });
    assert!(look("a.csv", &content).unwrap().1.contains("“Dept”"));
    // Flags next to a column of words are ambiguous.
    let content = flags("text,urgent,billing,spam,queue", &|i| ["front", "back"][i * 7 % 5 % 2]);
    let message = look("a.csv", &content).unwrap_err();
    for part in ["a.csv: choosing what to predict", "--label queue", "--labels urgent,billing,spam"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    // The number of flags does not matter.
    let content = table("text,a,b,c,d,e,f,g,h,outcome", 60, |i| {
        let flags: Vec<String> = (0..8).map(|k| ((i * (k + 3) / 2) % 2).to_string()).collect();
        format!("{},{},{}", words(i), flags.join(","), ["won", "lost"][i * 7 % 5 % 2])
    });
    assert!(look("a.csv", &content).unwrap_err().contains("--label outcome"));
    // Without a column of words they are the labels. Many flags outweigh an attribute.
    let content = table("id,comment_text,toxic,obscene,threat,insult", 60, |i| {
        format!("{i:08x}00000000,{},{},{},{},{}", words(i), i % 2, i / 2 % 2, i / 4 % 2, i / 8 % 2)
    });
    assert_eq!(look("a.csv", &content).unwrap().0, TrainingTask::Labels);
    // One flag in each row is a one-hot class. Yes and no are not labels.
    let content = table("text,sport,news,tech,shop", 60, |i| {
        let one = |k| u8::from(i % 3 == k);
        format!("{},{},{},{},{}", words(i), one(0), one(1), one(2), ["Ost", "West"][i / 3 % 2])
    });
    assert_eq!(look("a.csv", &content).unwrap().0, TrainingTask::Labels);
    let content = table("text,photo,answered,mobile,team", 60, |i| {
        let is = |n: usize| ["No", "Yes"][n % 2];
        format!("{},{},{},{},{}", words(i), is(i), is(i / 2), is(i / 4), ["red", "blue", "green"][i % 3])
    });
    assert!(look("a.csv", &content).unwrap().1.contains("“team”"));
    // A single flag among attributes is ambiguous.
    let content = table("text,is_spam,country", 60, |i| format!("{},{},{}", words(i), i % 2, ["DE", "FR"][i / 3 % 2]));
    let message = look("a.csv", &content).unwrap_err();
    assert!(message.contains("“is_spam”") && message.contains("“country”") && message.contains("--label"), "{message}");
}

#[test]
fn a_measure_next_to_words_is_decided_by_the_caller() {
    let price = |i: usize| format!("{}.{:02}", 3 + i * 7 % 90, i * 13 % 100);
    let product = |i: usize| ["lamp", "chair", "table", "shelf"][i * 7 % 5 % 4];
    for (name, header, row, columns) in [
        (
            "a.csv",
            "review,product,price",
            &(|i: usize| format!("{},{},{}", words(i), product(i), price(i))) as &dyn Fn(usize) -> String,
            ["product", "price"],
        ),
        (
            "a.csv",
            "review,price,product",
            &|i| format!("{},{},{}", words(i), price(i), product(i)),
            ["price", "product"],
        ),
        (
            "a.csv",
            "Kommentar;Filiale;Betrag",
            &|i| format!("{};{};{}", words(i), product(i), price(i).replace('.', ",")),
            ["Filiale", "Betrag"],
        ),
        // Integers that rarely repeat.
        (
            "a.tsv",
            "text\tteam\thours",
            &|i| format!("{}\t{}\t{}", words(i), product(i), i * 37 % 31),
            ["team", "hours"],
        ),
        // Many products, and an attribute instead of them.
        (
            "a.csv",
            "review,item,cost",
            &|i| format!("{},item {},{}", words(i), "x".repeat(1 + i % 45), price(i)),
            ["item", "cost"],
        ),
        ("a.csv", "text,country,price", &|i| format!("{},{},{}", words(i), product(i), price(i)), ["country", "price"]),
    ] {
        let message = look(name, table(header, 100, row)).unwrap_err();
        for column in columns {
            assert!(
                message.contains(&format!("column “{column}”")) && message.contains("--label"),
                "{header}: {message}"
            );
        }
        // A flag decides, and so does the task.
        for (column, task) in columns.map(|column| (column, ["price", "Betrag", "hours", "cost"].contains(&column))) {
            let options = ReadOptions { label: Some(column.into()), ..ReadOptions::default() };
            let (found, _) = look_with(name, table(header, 100, row), &options).unwrap();
            assert_eq!(found, if task { TrainingTask::Score } else { TrainingTask::Classify }, "{header}: {column}");
        }
    }
    // Names decide, and so do columns that cannot be the label.
    for (header, row, task, label) in [
        (
            "review,topic,price",
            &(|i: usize| format!("{},{},{}", words(i), product(i), price(i))) as &dyn Fn(usize) -> String,
            TrainingTask::Classify,
            "topic",
        ),
        (
            "review,product,stars",
            &|i| format!("{},{},{}", words(i), product(i), 1 + i % 5),
            TrainingTask::Score,
            "stars",
        ),
        (
            "text,team,retweet_count",
            &|i| format!("{},{},{}", words(i), product(i), i * 37 % 31),
            TrainingTask::Classify,
            "team",
        ),
        (
            "text,team,lat,lon",
            &|i| format!("{},{},{},{}", words(i), product(i), price(i), price(i + 5)),
            TrainingTask::Classify,
            "team",
        ),
        ("id,text,team", &|i| format!("{},{},{}", 1000 + i, words(i), product(i)), TrainingTask::Classify, "team"),
        (
            "text,team,date",
            &|i| format!("{},{},2025-03-{:02}", words(i), product(i), 1 + i % 28),
            TrainingTask::Classify,
            "team",
        ),
        ("review,price", &|i| format!("{},{}", words(i), price(i)), TrainingTask::Score, "price"),
    ] {
        let (found, why) = look("a.csv", table(header, 100, row)).unwrap();
        assert!(found == task && why.contains(&format!("“{label}”")), "{header}: {found:?} {why}");
    }
    // The next reading is named if it is close.
    let (_, why) =
        look("a.csv", table("text,team,votes", 100, |i| format!("{},{},{}", words(i), product(i), i * 37 % 31)))
            .unwrap();
    assert!(why.contains("“votes”") && why.contains("--task score --label votes"), "{why}");
}

#[test]
fn headers_of_forms_and_exports_are_detected() {
    let forms = table("Timestamp\tYour message\tWhat kind?", 60, |i| {
        format!("3/{}/2025 14:{:02}:05\t{}\t{}", 1 + i % 28, i % 60, words(i), ["spam", "ham"][i * 3 % 7 % 2])
    });
    let Chosen { text, label, description: said } = chosen("forms.tsv", &forms);
    assert_eq!((text.as_str(), label.as_str()), ("Your message", "What kind?"), "{said}");
    let folder = Folder::new();
    let path = folder.file("forms.tsv", &forms);
    let named = |header| ReadOptions { text: Some("2".into()), label: Some("3".into()), header, ..labeled() };
    assert_eq!(load_labeled(&path, &named(None)).unwrap().labels(), ["ham", "spam"]);
    assert_eq!(load_labeled(&path, &named(Some(true))).unwrap().labels(), ["ham", "spam"]);
    assert_eq!(load_labeled(&path, &named(Some(false))).unwrap().labels(), ["What kind?", "ham", "spam"]);
    for (header, row) in [
        (
            "How would you describe your last visit to our shop in a few words?,How satisfied are you overall?",
            &(|i: usize| format!("{},{}", words(i), ["very", "fairly", "not at all"][i % 3]))
                as &dyn Fn(usize) -> String,
        ),
        ("タイムスタンプ,ご意見をお聞かせください。,満足度", &|i| {
            format!("2025/03/{:02} 10:00:00,とても良かったです {i}。,{}", 1 + i % 28, ["満足", "不満"][i % 2])
        }),
        ("Beschreibung des Vorfalls;Dringlichkeit", &|i| format!("{};{}", words(i), ["hoch", "mittel"][i % 2])),
        ("mensaje,spam", &|i| format!("{},{}", words(i), ["spam", "ham"][i % 2])),
    ] {
        let message = chosen("a.csv", table(header, 40, row)).description;
        assert!(message.contains("with a header"), "{message}");
    }
    // A sentence above texts, with a new value above classes, is ambiguous.
    let open =
        table("Bitte beschreiben Sie Ihr Anliegen so genau wie möglich.,Art des Anliegens (Pflichtfeld)", 60, |i| {
            format!("{},{}", words(i), ["x1", "y1"][i % 2])
        });
    let message = message("a.csv", open, &labeled());
    assert!(message.contains("--header yes or --header no"), "{message}");
    // Data rows are not headers.
    for row in [
        &(|i: usize| format!("{},{}", words(i), ["spam", "ham"][i % 2])) as &dyn Fn(usize) -> String,
        &|i| format!("{i},{},{}", words(i), ["spam", "ham"][i % 2]),
        &|i| format!("2025-03-{:02},{},{}", 1 + i % 28, words(i), ["spam", "ham"][i % 2]),
        &|i| format!("{},{}", ["spam", "ham"][i % 2], words(i)),
    ] {
        let message = chosen("a.csv", table(&row(0), 40, |i| row(i + 1))).description;
        assert!(message.contains("without a header"), "{message}");
    }
}

#[test]
fn almost_empty_columns_are_not_candidates() {
    let content = table("v1,v2,,,", 80, |i| {
        let more = if i % 40 == 7 { ",and the rest of a very long message that was cut in two," } else { ",," };
        format!("{},{} more words here{more},", ["ham", "spam"][i * 3 % 7 % 2], words(i))
    });
    let Chosen { text, label, description: said } = chosen("spam.csv", content);
    assert_eq!((text.as_str(), label.as_str()), ("v2", "v1"), "{said}");
    let content = table("Class,Message,Unnamed: 2,Unnamed: 3", 80, |i| {
        format!(
            "{},{},{},",
            ["ham", "spam"][i % 2],
            words(i),
            if i == 3 { "a stray and very long remark here" } else { "" }
        )
    });
    let Chosen { text, label, description: said } = chosen("b.csv", content);
    assert_eq!((text.as_str(), label.as_str()), ("Message", "Class"), "{said}");
}

#[test]
fn identifiers_are_not_chosen_as_text() {
    for (header, id) in [
        ("ticket_id,channel,category", &(|i: usize| format!("TKT-{i:06}")) as &dyn Fn(usize) -> String),
        ("ref,channel,category", &|i| format!("AB{i:04}/X")),
        ("uuid,channel,category", &|i| format!("{i:08x}-0000-4000-8000-00{i:08x}ff")),
        ("mail,channel,category", &|i| format!("user{i}@example.org")),
        ("phone,channel,category", &|i| format!("+49 170 {:07}", i * 76_543 % 9_999_991)),
        ("注文番号,channel,category", &|i| format!("注文{i:05}")),
        ("user id,channel,category", &|i| format!("{}{i}", ["anna", "bob", "carla", "dmitri"][i * 3 % 4])),
    ] {
        let content =
            table(header, 60, |i| format!("{},{},{}", id(i), ["Chat", "Mail"][i / 2 % 2], ["refund", "bug"][i % 2]));
        let message = look("a.csv", &content).unwrap_err();
        for part in ["a.csv: choosing the text column", "identifiers", "“channel”", "--text"] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
    let tweets = table("4,1467810369,Mon Apr 06 22:19:45 PDT 2009,NO_QUERY,user0,a first message here", 60, |i| {
        format!(
            "{},{},Mon Apr 06 22:{:02}:45 PDT 2009,NO_QUERY,user{},{}",
            i % 2 * 4,
            1_467_810_400 + i,
            i % 60,
            i + 1,
            words(i)
        )
    });
    assert_eq!(chosen("tweets.csv", tweets).text, "text");
    // A text column next to identifiers is found.
    let content = table("id,note,kind", 60, |i| format!("A-{i:05},{},{}", words(i), ["x", "y"][i % 2]));
    assert_eq!(chosen("a.csv", content).text, "note");
    // A column named as the text is chosen, and so is the only column besides the label.
    let codes = table("text,label", 60, |i| format!("AB{i:04},{}", ["x", "y"][i % 2]));
    assert_eq!(chosen("a.csv", codes).text, "text");
    let urls =
        table("url,type", 60, |i| format!("http://x{}.org/{}{i},{}", i % 7, "p".repeat(i % 9), ["x", "y"][i % 2]));
    assert_eq!(chosen("a.csv", urls).text, "url");
}

#[test]
fn missing_values_are_not_classes() {
    for word in ["NaN", "nan", "NULL", "null", "N/A", "?", "NA", "<NA>", "#N/A"] {
        let content = table("text,label", 60, |i| format!("{},{}", words(i), ["x", "y", word][i % 3]));
        let message = message("a.csv", &content, &labeled());
        assert!(
            message.starts_with("a.csv:4") && message.contains(word) && message.contains("--missing none"),
            "{message}"
        );
        let folder = Folder::new();
        let path = folder.file("a.csv", &content);
        let dataset = load_labeled(&path, &skipping()).unwrap();
        assert_eq!((dataset.labels(), dataset.skipped.count), (vec!["x".to_owned(), "y".to_owned()], 20));
        let kept = ReadOptions { missing: Some(Vec::new()), ..labeled() };
        assert_eq!(load_labeled(&path, &kept).unwrap().labels().len(), 3, "{word}");
        let (_, gaps) = load_with_incomplete_rows(&path, &labeled()).unwrap();
        assert!(gaps.len() == 20 && gaps.iter().all(|gap| gap.label.is_empty()), "{word}");
    }
    // Many data sets have the class `None`. An option makes it a missing value.
    let content = table("text,stance", 60, |i| format!("{},{}", words(i), ["FAVOR", "AGAINST", "NONE"][i % 3]));
    let folder = Folder::new();
    let path = folder.file("a.csv", &content);
    assert_eq!(load_labeled(&path, &labeled()).unwrap().labels().len(), 3);
    let named = ReadOptions { missing: Some(vec!["none".into()]), ..skipping() };
    assert_eq!(load_labeled(&path, &named).unwrap().labels().len(), 2);
    // Numbers with missing values stay numbers.
    let content = table("text,rating", 60, |i| format!("{},{}", words(i), ["1", "4.5", "?", "3"][i % 4]));
    assert_eq!(look("a.csv", &content).unwrap().0, TrainingTask::Score);
    let folder = Folder::new();
    let scores = load_scores(&folder.file("a.csv", &content), &skipping()).unwrap();
    assert_eq!((scores.examples.len(), scores.skipped.count), (45, 15));
}

#[test]
fn lists_of_one_label_are_classes() {
    let rows = |key: &str, labels: &dyn Fn(usize) -> String| {
        (0..40)
            .map(|i| format!("{{\"id\":{i},\"text\":\"{}\",\"{key}\":{}}}\n", words(i), labels(i)))
            .collect::<String>()
    };
    for key in ["label", "labels", "kind"] {
        let content = rows(key, &|i| format!("[\"{}\"]", ["ham", "spam"][i % 2]));
        let (task, why) = look("a.jsonl", &content).unwrap();
        assert_eq!(task, TrainingTask::Classify, "{key}: {why}");
        let folder = Folder::new();
        assert_eq!(load_labeled(&folder.file("a.jsonl", &content), &labeled()).unwrap().labels(), ["ham", "spam"]);
        // Multi-label loading keeps lists.
        let sets = load_multi_label(&folder.path("a.jsonl"), &labeled(), &LabelOptions::default()).unwrap();
        assert_eq!(sets.examples[1].labels, ["spam"]);
    }
    let content = table("text\tlabel", 40, |i| format!("{}\t['{}']", words(i), ["ham", "spam"][i % 2]));
    assert_eq!(look("a.tsv", &content).unwrap().0, TrainingTask::Classify);
    assert_eq!(pairs(&Folder::new().file("a.tsv", &content), &labeled())[0].1, "ham");
    // Unlabeled texts lack a label. Two labels are an error.
    let content = rows("label", &|i| if i == 5 { "[]".into() } else { format!("[\"{}\"]", ["ham", "spam"][i % 2]) });
    assert!(message("a.jsonl", &content, &labeled()).starts_with("a.jsonl:6"));
    let content = rows("label", &|i| format!("[\"{}\"]", ["ham", "spam"][i % 2]))
        + "{\"text\":\"one more\",\"label\":[\"ham\",\"spam\"]}\n";
    let several = rows("label", &|i| [r#"["ham"]"#, r#"["ham","spam"]"#][i % 2].to_owned());
    assert_eq!(look("a.jsonl", several).unwrap().0, TrainingTask::Labels);
    let message = message("a.jsonl", content.repeat(30), &labeled());
    assert!(message.starts_with("a.jsonl:41") && message.contains("--task labels"), "{message}");
    // Brackets may be part of a class name.
    let content = table("text,label", 40, |i| format!("{},{}", words(i), ["[A]", "[B]"][i % 2]));
    assert_eq!(pairs(&Folder::new().file("a.csv", &content), &labeled())[0].1, "[A]");
}

#[test]
fn a_second_text_column_is_suggested() {
    let content = table("Subject,Description,Priority", 60, |i| {
        format!("{},{} and then some more words {i},{}", words(i), words(i + 3), ["High", "Low"][i % 2])
    });
    let Chosen { text, description: said, .. } = chosen("a.csv", &content);
    assert!(text == "Description" && said.contains("--text Subject,Description"), "{said}");
    let content = content.replace("Subject,Description,Priority", "first part,second part,Priority");
    let message = message("a.csv", content.replace(" and then some more words", ""), &labeled());
    assert!(message.contains("--text first part,second part"), "{message}");
}

#[test]
fn values_inside_objects_have_paths() {
    let content: String = (0..40)
        .map(|i| {
            let kind = ["a", "b"][i % 2];
            format!("{{\"id\":{i},\"message\":{{\"body\":\"{}\",\"meta\":{{\"kind\":\"{kind}\"}}}}}}\n", words(i))
        })
        .collect();
    let Chosen { text, label, description: said } = chosen("a.jsonl", &content);
    assert_eq!((text.as_str(), label.as_str()), ("message.body", "message.meta.kind"), "{said}");
    let folder = Folder::new();
    let path = folder.file("a.jsonl", &content);
    let asking =
        |text: &str, label: &str| ReadOptions { text: Some(text.into()), label: Some(label.into()), ..labeled() };
    assert_eq!(pairs(&path, &asking("message.body", "message.meta.kind"))[1], (words(1), "b".to_owned()));
    // Rows keep their objects.
    let record = RowSource::open(&path, &labeled()).unwrap().records().next().unwrap().unwrap();
    assert_eq!(serde_json::to_string(&record.object).unwrap() + "\n", content.split_inclusive('\n').next().unwrap());
    let message = message("b.jsonl", &content, &asking("message", "message.meta.kind"));
    assert!(message.contains("message.body"), "{message}");
    // A key that contains a point takes precedence over a path.
    let content = "{\"a.b\":\"one text\",\"label\":\"x\"}\n{\"a.b\":\"two text\",\"label\":\"y\"}\n";
    assert_eq!(pairs(&folder.file("c.jsonl", content), &asking("a.b", "label"))[0].0, "one text");
}

#[test]
fn arrays_inside_objects_are_read_or_reported() {
    let rows = |n: usize| {
        let row = |i| format!("{{\"text\": \"{}\", \"label\": \"{}\"}}", words(i), ["x", "y"][i % 2]);
        (0..n).map(row).collect::<Vec<_>>().join(",\n ")
    };
    let folder = Folder::new();
    for (name, content) in [
        ("a.json", format!("{{\"train\": [{}]}}", rows(6))),
        ("b.json", format!("{{\n \"version\": \"1.0\",\n \"n\": 6,\n \"data\": [\n {}\n ]\n}}\n", rows(6))),
        ("c.json", format!("{{\n \"data\": [\n {}\n ],\n \"license\": null\n}}\n", rows(6))),
    ] {
        assert_eq!(pairs(&folder.file(name, content), &labeled()).len(), 6, "{name}");
    }
    for content in [
        format!("{{\"train\": [{}], \"test\": [{}]}}", rows(6).replace('\n', ""), rows(2).replace('\n', "")),
        format!("{{\n\"train\": [{}],\n\"test\": [{}]\n}}", rows(6), rows(2)),
    ] {
        let message = message("a.json", content, &labeled());
        for part in ["“train”", "“test”", "jq .train"] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
}

#[test]
fn web_addresses_must_be_downloaded_first() {
    for name in ["https://example.org/data/train.csv", "s3://bucket/train.parquet", "hf://datasets/x/y.csv"] {
        let error = RowSource::open(Path::new(name), &ReadOptions::default()).err().unwrap();
        assert!(error.is_usage() && error.to_string().contains("download it first"), "{error}");
    }
    let error = RowSource::open(Path::new("c:/no such/file.csv"), &ReadOptions::default()).err().unwrap();
    assert!(error.to_string().contains("nothing of that name"), "{error}");
}

#[test]
fn a_wrong_encoding_is_detected() {
    let content =
        table("text,label", 40, |i| format!("Grüße aus Köln, schön {i},{}", ["x", "y"][i % 2]).replacen(',', "", 1));
    let of = |encoding: &str| ReadOptions { encoding: Some(encoding.into()), ..labeled() };
    for encoding in ["latin-1", "windows-1252", "shift_jis", "iso-8859-15", "utf-16le", "utf-16be"] {
        let message = message("a.csv", &content, &of(encoding));
        assert!(
            message.starts_with("a.csv: ") && message.contains("found UTF-8") && message.contains("--encoding"),
            "{message}"
        );
    }
    // Also if it shows only after the head used for detection.
    let late =
        "text,label\n".to_owned() + &"plain words,x\nmore words,y\n".repeat(10_000) + &content["text,label\n".len()..];
    assert!(message("a.csv", &late, &of("latin-1")).contains("found UTF-8"));
    let latin = encoding_rs::WINDOWS_1252.encode(&content).0;
    assert_eq!(pairs(&Folder::new().file("a.csv", &latin), &of("latin-1")).len(), 40);
    // The description reports text that was decoded as accented Latin letters.
    let russian = table("text,label", 40, |i| format!("Очень хорошая гостиница {i},{}", ["x", "y"][i % 2]));
    let bytes = encoding_rs::WINDOWS_1251.encode(&russian).0;
    let folder = Folder::new();
    let described = |encoding: &str| RowSource::open(&folder.file("a.csv", &bytes), &of(encoding)).unwrap().describe();
    assert!(described("latin-1").contains("check --encoding"), "{}", described("latin-1"));
    assert!(!described("windows-1251").contains("check --encoding"), "{}", described("windows-1251"));
}

#[test]
fn training_options_fill_unset_options_if_they_fit() {
    let folder = Folder::new();
    let mut of = ReadOptions { text: Some("v2".into()), label: Some("v1".into()), ..ReadOptions::default() };
    of.encoding = Some("latin-1".into());
    let like =
        |of: &ReadOptions| ReadOptions { training_options: Some(Box::new(of.clone())), ..ReadOptions::default() };
    let spam =
        table("v1,v2,note", 30, |i| format!("{},{} für dich,{}", ["ham", "spam"][i % 2], words(i), words(i + 1)));
    let latin = encoding_rs::WINDOWS_1252.encode(&spam).0;
    let source = RowSource::open(&folder.file("a.csv", &latin), &like(&of)).unwrap();
    assert_eq!((source.columns().text, source.columns().label), (1, Some(0)));
    assert!(source.layout().header && source.describe().contains("decoded from windows-1252"), "{}", source.describe());
    // UTF-8 stays UTF-8, missing columns are detected, and flags take precedence.
    let source = RowSource::open(&folder.file("b.csv", &spam), &like(&of)).unwrap();
    assert!(!source.describe().contains("decoded"), "{}", source.describe());
    let other = table("text,kind", 30, |i| format!("{},{}", words(i), ["x", "y"][i % 2]));
    assert_eq!(RowSource::open(&folder.file("c.csv", other), &like(&of)).unwrap().columns().text, 0);
    let options = ReadOptions { text: Some("note".into()), ..like(&of) };
    assert_eq!(RowSource::open(&folder.path("b.csv"), &options).unwrap().columns().text, 2);
    // The delimiter, if the file contains it, and the header.
    let of =
        ReadOptions { format: Some(Format::Csv { delimiter: '|' }), header: Some(false), ..ReadOptions::default() };
    let piped = table("one text here|more", 9, |i| format!("{}|{i}", words(i)));
    let source = RowSource::open(&folder.file("d.csv", piped), &like(&of)).unwrap();
    assert!(!source.layout().header && source.layout().columns.len() == 2, "{}", source.describe());
    let source = RowSource::open(&folder.path("c.csv"), &like(&of)).unwrap();
    assert_eq!(source.layout().format, Format::Csv { delimiter: ',' });
    let lines = RowSource::open(&folder.file("e.jsonl", "{\"text\":\"a b\"}\n"), &like(&of)).unwrap();
    assert_eq!(lines.layout().format, Format::JsonLines);
}

#[test]
fn spellings_are_merged_on_request() {
    let content =
        table("text,label", 60, |i| format!("{},{}", words(i), ["ham", "Ham", "HAM ", "spam", "ｓｐａｍ"][i % 5]));
    let folder = Folder::new();
    let path = folder.file("a.csv", &content);
    assert_eq!(load_labeled(&path, &labeled()).unwrap().labels().len(), 5);
    let merging = |known: &[&str]| ReadOptions {
        merge_labels: Some(known.iter().map(|label| (*label).to_owned()).collect()),
        ..labeled()
    };
    assert_eq!(load_labeled(&path, &merging(&[])).unwrap().labels(), ["ham", "spam"]);
    assert_eq!(load_labeled(&path, &merging(&["HAM"])).unwrap().labels(), ["HAM", "spam"]);
    let sets =
        table("text,label", 60, |i| format!("{},{}", words(i), ["sun|Sea", "sea", "Sun|sun", "SEA|wind"][i % 4]));
    let how = LabelOptions { separator: Some('|'), ..LabelOptions::default() };
    let found = load_multi_label(&folder.file("b.csv", sets), &merging(&[]), &how).unwrap();
    assert_eq!(found.labels(), ["Sea", "sun", "wind"]);
    assert_eq!(found.examples[2].labels, ["sun"]);
}

#[test]
fn files_with_the_same_columns_are_concatenated() {
    let folder = Folder::new();
    let rows = |from: usize| move |i: usize| format!("{},{}", words(from + i), ["x", "y"][i % 2]);
    let first = folder.file("a.csv", table("text,label", 20, rows(0)));
    let second = folder.file("b.csv", table("text,label", 20, rows(20)));
    let options = options_for_all_files(&first, std::slice::from_ref(&second), &labeled()).unwrap();
    let mut all = load_labeled(&first, &options).unwrap();
    all.append(load_labeled(&second, &options).unwrap()).unwrap();
    let texts: Vec<Row> = all.examples.iter().map(|example| example.text.clone()).collect();
    assert_eq!(texts, (0..40).map(words).collect::<Vec<_>>());
    for (name, content) in [("c.csv", table("text,kind", 20, rows(0))), ("d.csv", table(&rows(0)(0), 20, rows(1)))] {
        let error = options_for_all_files(&first, &[folder.file(name, content)], &labeled()).unwrap_err();
        assert!(error.is_usage() && folder.message(&error).starts_with(name), "{error}");
        assert!(folder.message(&error).contains("“label”"), "{error}");
    }
    // With names, the order of columns does not matter.
    let swapped = table("label,text", 20, |i| format!("{},{}", ["x", "y"][i % 2], words(i)));
    options_for_all_files(&first, &[folder.file("e.csv", swapped)], &labeled()).unwrap();
}

#[test]
fn files_that_write_numbers_differently_are_not_concatenated() {
    let folder = Folder::new();
    let load = |name: &str, written: &dyn Fn(usize) -> String| {
        let content = table("text;rating", 12, |i| format!("{};{}", words(i), written(i)));
        load_scores(&folder.file(name, content), &labeled()).unwrap()
    };
    let plain = load("plain.csv", &|i| (i % 5).to_string());
    let stars = load("stars.csv", &|i| format!("{} stars", i % 5));
    let of_five = load("five.csv", &|i| format!("{}/5", i % 5));
    let of_ten = load("ten.csv", &|i| format!("{}/10", i % 5));
    // Formats that one file may mix give the same numbers.
    let mut all = plain.clone();
    all.append(load("zero.csv", &|i| format!("{}.0", i % 5))).unwrap();
    all.append(stars.clone()).unwrap();
    let numbers: Vec<f64> = all.examples.iter().map(|example| example.score).collect();
    assert_eq!((numbers.len(), &numbers[..12], &numbers[24..]), (36, &numbers[12..24], &numbers[12..24]));
    // The format of all files before counts, and the message shows a number of both.
    for (mut all, next, shown) in
        [(of_five, of_ten.clone(), ["“0/5”", "“0/10”"]), (all, of_ten, ["“0 stars”", "“0/10”"])]
    {
        let rows = all.examples.len();
        let error = all.append(next).unwrap_err();
        let message = folder.message(&error);
        assert!(error.is_usage() && message.starts_with("ten.csv: reading the numbers"), "{message}");
        assert!(shown.iter().all(|number| message.contains(number)), "{message}");
        assert_eq!(all.examples.len(), rows);
    }
    let comma = load("comma.csv", &|i| format!("{},5", i % 5));
    let error = load("point.csv", &|i| format!("{}.5", i % 5)).append(comma).unwrap_err();
    assert!(folder.message(&error).contains("such as “0.5”, found “0,5”"), "{error}");
}

#[test]
fn rows_are_counted_while_a_file_is_read() {
    let folder = Folder::new();
    let path = folder.file("a.csv", table("text,label", 500, |i| format!("{},{}", words(i), ["x", "y"][i % 2])));
    let options = labeled();
    let mut records = RowSource::open(&path, &options).unwrap().records();
    assert_eq!(options.rows_read.rows(), 0, "rows of the sample are not read yet");
    assert!(records.by_ref().take(450).all(|record| record.is_ok()));
    assert_eq!(options.rows_read.rows(), 450);
    drop(records);
    load_labeled(&path, &options).unwrap();
    assert_eq!((options.rows_read.rows(), &options), (950, &labeled()));
}

#[test]
fn points_of_prices_separate_thousands() {
    let folder = Folder::new();
    let rows = |price: &dyn Fn(usize) -> String| -> String {
        (0..60).map(|i| format!("a room with a view, number {i};{}\n", price(i))).collect()
    };
    let prices =
        |i: usize| if i.is_multiple_of(3) { format!("{} €", 700 + i) } else { format!("{i}.{:03} €", 100 + i) };
    let scores = |name: &str, price: &dyn Fn(usize) -> String| {
        load_scores(&folder.file(name, format!("text;price\n{}", rows(price))), &labeled()).unwrap()
    };
    let thousands = scores("thousands.csv", &prices);
    assert_eq!([thousands.examples[3].score, thousands.examples[4].score], [703.0, 4104.0]);
    let fuel = scores("fuel.csv", &|i| format!("1.{} €", 500 + i));
    assert_eq!(fuel.examples[4].score, 1.504);
    // Both in one data set would mix two scales.
    assert!(fuel.check_number_format(&thousands).is_err());
    // A small file does not show it, so the training file decides, unless there is a decimal point.
    let with = |decimal, name: &str, prices: &str| {
        let training_options = Some(Box::new(ReadOptions { decimal, ..ReadOptions::default() }));
        let options = ReadOptions { training_options, ..labeled() };
        let found = load_scores(&folder.file(name, format!("text,price\n{prices}")), &options).unwrap();
        found.examples.iter().map(|example| example.score).collect::<Vec<_>>()
    };
    let small = "a b,1.111\nc d,2.500\n";
    assert_eq!(thousands.decimal(), Some(','));
    assert_eq!(with(thousands.decimal(), "small.csv", small), [1111.0, 2500.0]);
    assert_eq!(with(fuel.decimal(), "small.csv", small), [1.111, 2.5]);
    assert_eq!(with(thousands.decimal(), "point.csv", "a b,1.111\nc d,2.5\n"), [1.111, 2.5]);
}
