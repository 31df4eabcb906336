//! `predict`: keeps the order, the columns and the format of the input, and answers every text independently.

use crate::common::{Run, TestDir, csv, reviews, shared_model};
use serde_json::{Value, json};

fn predict(place: &TestDir, more: &[&str]) -> Run {
    place.run(&[&["predict", shared_model()], more].concat()).assert_success()
}

/// A row for each of 700 texts (more than one batch), with columns that the model does not use.
fn table() -> Vec<[String; 4]> {
    let rows = reviews(700).into_iter().enumerate();
    rows.map(|(i, (text, label))| [format!("no {i}"), text, label, format!("a, \"b\" {i}")]).collect()
}

#[test]
fn csv_output_keeps_the_order_and_all_columns() {
    let place = TestDir::new();
    let field = |text: &String| format!("\"{}\"", text.replace('"', "\"\""));
    let rows: String = table().iter().map(|row| row.iter().map(field).collect::<Vec<_>>().join(",") + "\n").collect();
    place.write("x.csv", format!("id,text,label,rest\n{rows}"));
    let run = predict(&place, &["--input", "x.csv"]);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines[0], "id,text,label,rest,predicted_label,probability,error");
    assert_eq!(lines.len(), 701);
    for (row, line) in table().iter().zip(&lines[1..]) {
        assert!(line.starts_with(&format!("{},", row[0])), "{line}");
        let rest = format!("{},{},", row[2], field(&row[3]));
        let (_, answer) = line.split_once(&rest).unwrap_or_else(|| panic!("{line}"));
        let (label, p) = answer.split_once(',').unwrap();
        let p: f64 = p.strip_suffix(',').expect("no error").parse().unwrap();
        assert!(["negative", "positive"].contains(&label) && (0.5..=1.0).contains(&p), "{line}");
    }
    assert!(run.stderr.contains("CSV with a header, 4 columns"), "{}", run.stderr);
}

#[test]
fn tsv_and_jsonl_keep_their_format() {
    let place = TestDir::new();
    let tabs: String = table().iter().map(|row| format!("{}\t{}\t{}\n", row[0], row[1], row[2])).collect();
    place.write("x.tsv", &tabs);
    let run = predict(&place, &["--input", "x.tsv"]);
    // The output has a header only if the input has one.
    assert_eq!(run.stdout.lines().count(), 700);
    for (given, got) in tabs.lines().zip(run.stdout.lines()) {
        assert!(got.starts_with(&format!("{given}\t")), "{got}");
        assert_eq!(got.split('\t').count(), 6, "{got}");
    }

    let objects: Vec<Value> =
        table().iter().map(|row| json!({ "z": [1, { "a": null }], "text": row[1], "b": 1.50 })).collect();
    place.write("x.jsonl", objects.iter().map(|object| format!("{object}\n")).collect::<String>());
    let answers = predict(&place, &["--input", "x.jsonl"]).json_lines();
    assert_eq!(answers.len(), 700);
    for (given, got) in objects.iter().zip(&answers) {
        let keys: Vec<&String> = got.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["z", "text", "b", "label", "probability"]);
        assert!(["z", "text", "b"].iter().all(|key| got[*key] == given[*key]), "{got}");
    }
}

/// Labels and probabilities, independent of the format.
fn answers(rows: &[Value]) -> Vec<(Value, Value)> {
    rows.iter().map(|row| (row["label"].clone(), row["probability"].clone())).collect()
}

#[test]
fn an_answer_does_not_depend_on_other_texts_or_their_source() {
    let place = TestDir::new();
    let texts: Vec<String> = reviews(300).into_iter().map(|(text, _)| text).collect();
    let lines = |texts: &[String]| texts.iter().map(|text| format!("{text}\n")).collect::<String>();
    let ask = |input: &[String], more: &[&str]| {
        let args = [&["predict", shared_model(), "--json"], more].concat();
        answers(&place.run_with_input(lines(input).as_bytes(), &args).assert_success().json_lines())
    };
    let all = ask(&texts, &[]);
    assert_eq!(all.len(), 300);
    let mut backwards = ask(&texts.iter().rev().cloned().collect::<Vec<_>>(), &["--threads", "1"]);
    backwards.reverse();
    assert_eq!(backwards, all);
    for i in [0, 7, 150, 299] {
        assert_eq!(ask(&texts[i..=i], &[]), all[i..=i], "alone");
        assert_eq!(answers(&[predict(&place, &["--json", &texts[i]]).json()]), all[i..=i], "as an argument");
    }
    let rows: Vec<(String, String)> = texts.iter().map(|text| (text.clone(), "x".into())).collect();
    place.write("x.csv", csv(&rows).replacen("label", "note", 1));
    assert_eq!(answers(&predict(&place, &["--json", "--input", "x.csv"]).json_lines()), all, "from a file");
}

#[test]
fn standard_input_is_lines_of_text_or_a_file() {
    let place = TestDir::new();
    let run = place.run_with_input("good, cheap\r\n悪い店\n".as_bytes(), &["predict", shared_model()]).assert_success();
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines[0], "text\tlabel\tprobability\terror");
    assert!(lines[1].starts_with("good, cheap\t") && lines[2].starts_with("悪い店\t"), "{run:#?}");
    let input = "{\"text\":\"good\"}\n{\"text\":\"bad\",\"n\":1}\n";
    let rows = place
        .run_with_input(input.as_bytes(), &["predict", shared_model(), "--input", "-"])
        .assert_success()
        .json_lines();
    assert_eq!((rows.len(), &rows[1]["n"]), (2, &json!(1)));
    let run = place
        .run_with_input(csv(&reviews(9)).as_bytes(), &["predict", shared_model(), "--input", "-"])
        .assert_success();
    assert!(run.stdout.starts_with("text,label,predicted_label,probability,error\n"), "{run:#?}");
    assert_eq!(run.stdout.lines().count(), 10);
}

#[test]
fn texts_as_arguments_and_the_top_classes() {
    let place = TestDir::new();
    let run = predict(&place, &["good", "bad\tor\nnot"]);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines.len() == 2 && lines[0].ends_with("\tgood") && lines[1].ends_with("\tbad or not"), "{run:#?}");
    // A larger number returns all classes.
    let rows = predict(&place, &["--json", "--top", "9", "good", "bad"]).json_lines();
    assert_eq!(rows.len(), 2);
    for row in &rows {
        let top = row["top"].as_array().unwrap();
        let p: Vec<f64> = top.iter().map(|class| class["probability"].as_f64().unwrap()).collect();
        assert!(p.len() == 2 && p[0] >= p[1] && (p.iter().sum::<f64>() - 1.0).abs() < 2e-6, "{row}");
        assert_eq!((&row["label"], &row["probability"]), (&top[0]["label"], &top[0]["probability"]));
    }
    place.write("x.csv", csv(&reviews(5)));
    let run = predict(&place, &["--input", "x.csv", "--top", "2"]);
    assert!(run.stdout.starts_with("text,label,predicted_label,probability,label_2,probability_2,error\n"), "{run:#?}");
    for line in run.stdout.lines().skip(1) {
        let fields: Vec<&str> = line.rsplitn(6, ',').collect();
        let p = [fields[1], fields[3]].map(|p| p.parse::<f64>().unwrap());
        assert!((p[0] + p[1] - 1.0).abs() < 2e-6 && fields[2] != fields[4], "{line}");
    }
}

#[test]
fn memory_does_not_grow_with_the_file() {
    let place = TestDir::new();
    let peak = |copies: usize| {
        place.write("x.csv", csv(&vec![reviews(700); copies].concat()));
        let run = place.run_with_peak_memory(&["predict", shared_model(), "--input", "x.csv"]).assert_success();
        assert_eq!(run.stdout.lines().count(), 700 * copies + 1);
        run.peak_bytes
    };
    match (peak(2), peak(14)) {
        (Some(small), Some(large)) => assert!(large < small + (10 << 20), "{small} and {large} bytes"),
        _ => eprintln!("SKIPPED: this system does not tell the peak memory"),
    }
}

#[test]
fn the_json_schema_does_not_depend_on_the_input() {
    let place = TestDir::new();
    let text = "good, and cheap";
    place.write("plain.txt", format!("{text}\n"));
    place.write("labelled.csv", format!("label,text,probability,top\nx,\"{text}\",1,2\n"));
    place.write("x.tsv", format!("id\ttext\n1\t{text}\n"));
    place
        .write("x.jsonl", json!({ "error": 1, "text": text, "label": "y", "input": { "a": null } }).to_string() + "\n");
    place.write("x.ft", format!("__label__z {text}\n"));
    let keys = |row: &Value| row.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let given = predict(&place, &["--json", text]).json();
    assert_eq!(keys(&given), ["text", "label", "probability"]);
    for (more, top) in [(&[][..], false), (&["--top", "1"], true), (&["--top", "2"], true)] {
        for (name, input) in [
            ("plain.txt", None),
            ("labelled.csv", Some(json!({ "label": "x", "text": text, "probability": "1", "top": "2" }))),
            ("x.tsv", Some(json!({ "id": "1", "text": text }))),
            ("x.jsonl", Some(json!({ "error": 1, "text": text, "label": "y", "input": { "a": null } }))),
            ("x.ft", Some(json!({ "label": "z", "text": text }))),
        ] {
            let mut row = predict(&place, &[&["--json", "--input", name], more].concat()).json();
            assert_eq!(row.get("input"), input.as_ref(), "{name}");
            row.as_object_mut().unwrap().remove("input");
            let expected: &[&str] =
                if top { &["text", "label", "probability", "top"] } else { &["text", "label", "probability"] };
            assert_eq!(keys(&row), expected, "{name}");
            assert_eq!(
                (&row["label"], &row["probability"], &row["text"]),
                (&given["label"], &given["probability"], &json!(text))
            );
        }
    }
}

#[test]
fn a_row_without_an_answer_keeps_its_position() {
    let place = TestDir::new();
    let run = place.run_with_input(b"good\n\nbad\n", &["predict", shared_model()]).assert_success();
    let rows: Vec<Vec<&str>> = run.stdout.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows[0], ["text", "label", "probability", "error"]);
    assert_eq!(rows.len(), 4, "{run:#?}");
    assert_eq!((&rows[2][..3], &rows[1][3..], &rows[3][3..]), (&["", "", ""][..], &[""][..], &[""][..]));
    assert!(rows[2][3].starts_with("standard input:2: ") && rows[2][3].contains("empty text"), "{run:#?}");
    assert!(run.stderr.contains("1 row has no answer, the first because: standard input:2"), "{run:#?}");
    assert!(!rows[2][3].contains("--skip-bad-rows"), "advice that does not help: {run:#?}");

    let rows = place
        .run_with_input(b"good\n\nbad\n", &["predict", shared_model(), "--json", "--top", "2"])
        .assert_success()
        .json_lines();
    assert_eq!(rows.len(), 3);
    assert_eq!(
        (&rows[1]["text"], &rows[1]["label"], &rows[1]["probability"]),
        (&json!(""), &Value::Null, &Value::Null)
    );
    assert!(rows[1]["error"].as_str().unwrap().contains("empty text") && rows[1]["top"] == json!([]));
    assert!(rows[0].get("error").is_none() && rows[2]["label"].is_string());

    // Every error of a single row, in every format, among the first rows and much later.
    for far in [0, 600] {
        let many = |row: &str| row.repeat(far);
        for (name, before, bad, after) in [
            ("x.csv", format!("text,n\na fine day,1\n{}", many("fine,2\n")), "too,many,fields\n", "bad,3\n"),
            ("y.csv", format!("text,n\na fine day,1\n{}", many("fine,2\n")), "\"open,1\n", "bad,3\n"),
            ("z.csv", format!("text,n\na fine day,1\n{}", many("fine,2\n")), "  ,1\n", "bad,3\n"),
            ("x.tsv", format!("text\tn\na fine day\t1\n{}", many("fine\t2\n")), "a\tb\tc\n", "bad\t3\n"),
            (
                "x.jsonl",
                format!("{{\"text\":\"fine\"}}\n{}", many("{\"text\":\"a\"}\n")),
                "{\"text\":\n",
                "{\"text\":\"bad\"}\n",
            ),
            (
                "y.jsonl",
                format!("{{\"text\":\"fine\"}}\n{}", many("{\"text\":\"a\"}\n")),
                "{\"text\":[1]}\n",
                "{\"text\":\"bad\"}\n",
            ),
        ] {
            place.write(name, format!("{before}{bad}{after}"));
            let rows = predict(&place, &["--input", name, "--json"]).json_lines();
            assert_eq!(rows.len(), far + 3, "{name}");
            for (at, row) in rows.iter().enumerate() {
                assert_eq!(
                    (row["label"].is_null(), row.get("error").is_some()),
                    (at == far + 1, at == far + 1),
                    "{row}"
                );
            }
            let like = predict(&place, &["--input", name]);
            assert_eq!(like.stdout.lines().count(), far + 3 + usize::from(!name.ends_with("jsonl")), "{name}");
            // With --strict the run stops; the answers so far are written.
            let strict = place.run(&["predict", shared_model(), "--input", name, "--strict"]);
            assert_eq!(
                (strict.code, strict.stdout.lines().count()),
                (2, far + 1 + usize::from(!name.ends_with("jsonl")))
            );
            strict.assert_one_error(&[name]);
            let skipped = predict(&place, &["--input", name, "--skip-bad-rows"]);
            assert_eq!(skipped.stdout.lines().count() + 1, like.stdout.lines().count());
            assert!(skipped.stderr.contains("1 row left out"), "{skipped:#?}");
        }
    }
}

#[test]
fn excel_gets_a_byte_order_mark_on_request() {
    let place = TestDir::new();
    place.write("x.csv", "\u{feff}本文;数\r\n良い;1\r\n");
    let plain = predict(&place, &["--input", "x.csv"]);
    let marked = predict(&place, &["--input", "x.csv", "--bom"]);
    assert!(plain.stdout.starts_with("本文;数;label;probability;error\n良い;1;"), "{plain:#?}");
    assert_eq!(marked.stdout, format!("\u{feff}{}", plain.stdout));
    // The mark is preserved.
    place.write("again.csv", &marked.stdout);
    assert!(predict(&place, &["--input", "again.csv"]).stdout.starts_with("本文;数;label;probability;error;"));
    place.run_rejected(&["predict", shared_model(), "--input", "x.csv", "--bom", "--json"], &["--bom", "--json"]);
    place.write("x.jsonl", "{\"text\":\"good\"}\n");
    place.run_rejected(&["predict", shared_model(), "--input", "x.jsonl", "--bom"], &["--bom", "JSON"]);
}

#[test]
fn unused_columns_are_named() {
    let place = TestDir::new();
    place.write("x.csv", "id,text,label,title\n1,a fine day,x,t\n2,a bad day,y,u\n");
    let run = predict(&place, &["--input", "x.csv"]);
    assert!(run.stderr.contains("not used: column “id”, column “title”"), "{run:#?}");
}

#[test]
fn a_profile_reports_the_stages_and_changes_no_answer() {
    let place = TestDir::new();
    let rows: String = table().iter().map(|row| row[1].replace('\n', " ") + "\n").collect();
    place.write("x.txt", rows);
    let plain = predict(&place, &["--input", "x.txt", "--format", "text"]);
    let profiled = predict(&place, &["--input", "x.txt", "--format", "text", "--profile"]);
    assert_eq!(profiled.stdout, plain.stdout);
    let table: Vec<&str> =
        profiled.stderr.lines().skip_while(|line| !line.starts_with("Where the time went")).collect();
    let share = |stage: &str| -> f64 {
        let line = table.iter().find(|line| line.starts_with(stage)).unwrap_or_else(|| panic!("{stage}: {table:?}"));
        line.split_once(" %").unwrap().0.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let stages = ["reading rows", "tokens", "network", "n-grams", "writing", "the rest"];
    let sum: f64 = stages.iter().map(|stage| share(stage)).sum();
    assert!((sum - share("total")).abs() < 0.4 && share("total") == 100.0, "{table:?}");
    assert!(profiled.stderr.contains("million multiply-adds: "), "{table:?}");
    let japanese = predict(&place, &["--input", "x.txt", "--format", "text", "--profile", "--lang", "ja"]);
    assert!(japanese.stderr.contains("時間の内訳") && japanese.stderr.contains("ネットワーク"), "{}", japanese.stderr);
}
