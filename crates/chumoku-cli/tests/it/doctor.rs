//! `chumoku doctor`: wrong labels, duplicates, leaks, broken texts, and suggestions for labeling.

use crate::common::{DocPage, TestDir, csv, next_random, reviews};
use chumoku::data::{ReadOptions, RowSource};
use std::collections::{BTreeMap, BTreeSet};
use unicode_width::UnicodeWidthStr;

/// Rows of a table by their `finding`: line, text, label, suggestion and score.
fn findings(place: &TestDir, name: &str) -> BTreeMap<String, Vec<[String; 6]>> {
    let source = RowSource::open(&place.path(name), &ReadOptions::default()).unwrap();
    let names = ["file", "line", "text", "label", "finding", "suggestion", "score", "reason"];
    assert_eq!(source.layout().columns, names);
    let mut found: BTreeMap<String, Vec<[String; 6]>> = BTreeMap::new();
    for record in source.records() {
        let [file, line, text, label, finding, suggestion, _, reason] = record.unwrap().fields.try_into().unwrap();
        found.entry(finding).or_default().push([file, line, text, label, suggestion, reason]);
    }
    found
}

/// Most flipped labels are among an equal number of most suspicious rows. Neither threads nor the order of rows matter.
#[test]
fn flipped_labels_come_first() {
    let place = TestDir::new();
    let mut rows = reviews(400);
    let names: BTreeSet<String> = rows.iter().map(|(_, label)| label.clone()).collect();
    let names: Vec<String> = names.into_iter().collect();
    assert_eq!(names.len(), 2);
    let (mut state, mut flipped) = (7, BTreeSet::new());
    while flipped.len() < 20 {
        flipped.insert((400.0 * next_random(&mut state)) as usize);
    }
    for &row in &flipped {
        rows[row].1 = names[usize::from(rows[row].1 == names[0])].clone();
    }
    place.write("flipped.csv", csv(&rows));
    let run = place.run(&["doctor", "flipped.csv", "--json", "--threads", "1"]).assert_success();
    let found = run.json();
    let lines = |value: &serde_json::Value| -> Vec<usize> {
        value.as_array().unwrap().iter().map(|line| line.as_u64().unwrap() as usize).collect()
    };
    let ranking = lines(&found["ranking"]);
    assert_eq!(ranking.iter().collect::<BTreeSet<_>>().len(), 400);
    let hits = ranking.iter().take(20).filter(|&&line| flipped.contains(&(line - 2))).count();
    // Chance would give one.
    assert!(hits >= 8, "{hits} of 20");
    let doubts = found["wrong_labels"].as_array().unwrap();
    let noise = found["noise"]["rows"].as_f64().unwrap();
    assert_eq!(found["noise"]["informed"], true);
    assert!(noise > 5.0 && doubts.len() <= noise.round() as usize, "{noise}");
    for doubt in doubts {
        assert_ne!(doubt["label"], doubt["likely"]);
        assert!(doubt["probability"].as_f64() > doubt["given_probability"].as_f64());
        let ngrams = doubt["ngrams"].as_array().unwrap();
        assert!(ngrams.iter().all(|ngram| ngram["effect"].as_f64().unwrap() > 0.0), "{doubt}");
    }
    assert_eq!(place.run(&["doctor", "flipped.csv", "--json", "--threads", "2"]).assert_success().stdout, run.stdout);
    assert_ne!(place.run(&["doctor", "flipped.csv", "--json", "--seed", "1"]).assert_success().stdout, run.stdout);
}

/// The built-in reviews have no wrong labels, and their models are right in four of five. No label is called probably
/// wrong.
#[test]
fn a_weak_model_calls_no_label_wrong() {
    let place = TestDir::new();
    let reviews = concat!(env!("CARGO_MANIFEST_DIR"), "/../chumoku/builtin/reviews.tsv");
    let found = place.run(&["doctor", reviews, "--json"]).assert_success().json();
    let noise = &found["noise"];
    assert!(found["wrong_labels"].as_array().unwrap().is_empty() && noise["weak"] == true, "{noise}");
    let (doubted, alarms) = (noise["doubted"].as_f64().unwrap(), noise["false_alarms"].as_f64().unwrap());
    assert!(doubted > 50.0 && alarms > 0.8 * doubted && alarms <= doubted, "{noise}");
    // All rows are still ranked.
    assert_eq!(found["ranking"].as_array().unwrap().len(), 1000);
    let run = place.run(&["doctor", reviews, "--out", "checkup"]).assert_success();
    assert!(run.stdout.contains("No label is listed as likely wrong"), "{}", run.stdout);
    assert!(!run.stdout.contains("Labels that are likely wrong") && run.stdout.lines().all(|line| line.width() <= 80));
    assert!(!place.read("checkup/doctor.csv").contains("wrong_label"));
    let run = place.run(&["doctor", reviews, "--lang", "ja"]).assert_success();
    assert!(run.stdout.contains("誤報と") && run.stdout.lines().all(|line| line.width() <= 80), "{}", run.stdout);
}

/// A strong model finds one wrong label in twenty, and estimates how many of its findings are false alarms.
#[test]
fn a_strong_model_finds_the_wrong_labels() {
    let place = TestDir::new();
    let mut state = 11;
    let mut pick = |count: usize| (crate::common::next_random(&mut state) * count as f64) as usize;
    let words = [["soup", "bread", "dinner", "cook"], ["train", "ticket", "station", "driver"]];
    let mut flipped = BTreeSet::new();
    let mut text = String::from("text,label\n");
    for row in 0..2000 {
        let class = pick(2);
        let (a, b, is_flipped) = (words[class][pick(4)], words[class][pick(4)], pick(20) == 0);
        text += &format!(
            "the {a} and the {b} in room {row},{}\n",
            ["food", "travel"][(class + usize::from(is_flipped)) % 2]
        );
        if is_flipped {
            flipped.insert(row + 2);
        }
    }
    place.write("flipped.csv", text);
    let found = place.run(&["doctor", "flipped.csv", "--json"]).assert_success().json();
    let named: BTreeSet<usize> = found["wrong_labels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|doubt| doubt["line"].as_u64().unwrap() as usize)
        .collect();
    let hits = named.intersection(&flipped).count();
    assert!(
        10 * hits >= 9 * named.len() && 10 * hits >= 8 * flipped.len(),
        "{hits} of {} of {}",
        named.len(),
        flipped.len()
    );
    let noise = &found["noise"];
    assert!(
        noise["weak"] == false && noise["listed_false_alarms"].as_f64().unwrap() < 0.35 * named.len() as f64,
        "{noise}"
    );
    let run = place.run(&["doctor", "flipped.csv"]).assert_success();
    let expected = format!("Labels listed below as likely wrong: {}. ", named.len());
    assert!(run.stdout.replace('\n', " ").contains(&expected), "{}", run.stdout);
}

/// Writes a file with every kind of finding.
fn everything(place: &TestDir) {
    let mut rows = csv(&reviews(40));
    rows += "The soup of the day was cold and the waiter knew it.,bad\n";
    rows += "the soup of the day was cold  and the waiter knew it.,good\n";
    rows += "The soup of the day was cold and the waiter knew it!,bad\n";
    rows += "=HYPERLINK(\"\"x\"\") is no formula here,good\n".replace("\"\"", "").as_str();
    rows += "A cafÃ© by the river with very good bread,good\n";
    rows += "Номер был очень хорошим и тихим,good\n";
    rows += ",bad\n";
    rows += "A text that nobody gave a label,\n";
    rows += &format!("{},bad\n", "a long evening ".repeat(400));
    rows += "We shall come again for the soup,Good\n";
    place.write("all.csv", rows);
    place.write(
        "test.csv",
        "text,label\nTHE SOUP of the day was cold and the waiter knew it.,bad\nWholly new words here,good\n",
    );
    place.write("new.txt", "We shall come again for the soup\nneither here nor there\n\nneither here nor there!\n");
}

#[test]
fn every_kind_of_finding_is_reported() {
    let place = TestDir::new();
    everything(&place);
    let more = ["--test", "test.csv", "--unlabelled", "new.txt", "--out", "checkup"];
    let run = place.run(&[&["doctor", "all.csv"][..], &more].concat()).assert_success();
    assert!(run.stdout.lines().all(|line| line.width() <= 80), "{}", run.stdout);
    assert!(run.stdout.contains("Rows without a text (1)"), "{}", run.stdout);
    assert!(run.stderr.contains("checkup/doctor.csv") && run.stderr.contains("checkup/doctor.html"), "{}", run.stderr);
    let found = findings(&place, "checkup/doctor.csv");
    let lines = |finding: &str| -> Vec<u64> { found[finding].iter().map(|row| row[1].parse().unwrap()).collect() };
    assert_eq!(lines("conflict"), [42, 43, 44]);
    assert_eq!(found["conflict"][1][4], "bad");
    assert_eq!(found["conflict"][0][4], "", "its own label is the majority's");
    assert_eq!((lines("leak"), &found["leak"][0][0][..]), (vec![2], "test.csv"));
    assert!(found["leak"][0][5].contains("line 42 of all.csv"), "{:?}", found["leak"]);
    assert_eq!(lines("encoding"), [46]);
    assert_eq!(found["encoding"][0][4], "A café by the river with very good bread");
    assert_eq!((lines("script"), lines("empty"), lines("no_label")), (vec![47], vec![48], vec![49]));
    assert_eq!(lines("length"), [50]);
    assert_eq!(lines("odd_label"), [51]);
    assert_eq!((&found["odd_label"][0][3][..], &found["odd_label"][0][4][..]), ("Good", "good"));
    // A repeated text is suggested once, and the other text is already known.
    assert_eq!(found["label_next"].len(), 1);
    assert!(found["label_next"][0][2].starts_with("neither here"), "{:?}", found["label_next"]);
    assert!(!found.contains_key("duplicate"), "{found:?}");
    let page = place.read("checkup/doctor.html");
    assert!(page.contains("<html lang=\"en\">") && page.contains("default-src 'none'") && !page.contains("@@"));
    // In Japanese, with a byte order mark for Excel.
    let run =
        place.run(&[&["doctor", "all.csv", "--lang", "ja", "--bom", "--force"][..], &more].concat()).assert_success();
    assert!(run.stdout.lines().all(|line| line.width() <= 80), "{}", run.stdout);
    let table = place.read("checkup/doctor.csv");
    assert!(table.starts_with("\u{feff}file,line,") && table.contains("テキストがない"), "{table}");
    assert!(place.read("checkup/doctor.html").contains("<html lang=\"ja\">"));
    let json = place.run(&[&["doctor", "all.csv", "--json"][..], &more[..4]].concat()).assert_success().json();
    assert_eq!((&json["rows"], &json["leaks"][0]["of"]), (&50.into(), &42.into()));
}

/// Fields that a spreadsheet would evaluate are escaped.
#[test]
fn formulas_are_text() {
    let place = TestDir::new();
    let rows = ["=1+1 is a sum,a", "=1+1 is a sum,b", "-x,a", "@y and z,b", "plain,a", "words,b"];
    place.write("f.csv", format!("text,label\n{}\n", rows.join("\n")));
    place.run(&["doctor", "f.csv", "--out", "o"]).assert_success();
    let table = place.read("o/doctor.csv");
    assert!(table.contains(",'=1+1 is a sum,a,conflict,"), "{table}");
    assert!(!table.contains(",=") && !table.contains("\n="), "{table}");
}

#[test]
fn unusable_data_is_rejected() {
    let place = TestDir::new();
    place.write("one.csv", "text,label\na b,x\nc d,x\ne f,x\ng h,x\n");
    place.run_rejected(&["doctor", "one.csv"], &["one.csv", "x"]);
    place.write("two.csv", "text,label\na b,x\nc d,y\n");
    place.run_rejected(&["doctor", "two.csv"], &["two.csv", "4 rows"]);
    place
        .write("several.txt", "__label__a __label__b one text\n__label__a two texts\n__label__b three\n__label__a x\n");
    place.run_rejected(&["doctor", "several.txt"], &["several.txt", "several labels"]);
    place.write("fine.csv", csv(&reviews(8)));
    place.run_rejected(&["doctor", "fine.csv", "--folds", "1"], &["--folds", "2 to 100"]);
    place.run_rejected(&["doctor", "fine.csv", "--force"], &["--out"]);
    place.run_rejected(&["doctor", "fine.csv", "--test", "missing.csv"], &["missing.csv"]);
    place.run_rejected(&["doctor", "missing.csv", "--out", "new"], &["missing.csv"]);
    place.run(&["doctor", "fine.csv", "--out", "new"]).assert_success();
    place.run_rejected(&["doctor", "fine.csv", "--out", "new"], &["new/doctor.csv", "--force"]);
    place.write(
        "ids.csv",
        csv(&reviews(40).into_iter().zip(0..).map(|((text, _), i)| (text, format!("id-{i}"))).collect::<Vec<_>>()),
    );
    place.run_rejected(&["doctor", "ids.csv"], &["ids.csv"]);
}

/// A fold may hold all texts of a label, and all rows may share one text.
#[test]
fn few_or_equal_texts_are_accepted() {
    let place = TestDir::new();
    place.write("few.csv", "text,label\na b c,x\nc d e,y\ne f g,x\na b c,x\n");
    place.run(&["doctor", "few.csv", "--folds", "100", "--json"]).assert_success().json();
    place.write("same.csv", "text,label\nA b,x\na b,y\na  b,x\na B,y\n");
    let found = place.run(&["doctor", "same.csv", "--json"]).assert_success().json();
    assert_eq!(found["groups"][0]["lines"], serde_json::json!([2, 3, 4, 5]));
    place.write("signs.csv", "text,label\n…,x\n!!,y\n?,x\n☆,y\n");
    place.run(&["doctor", "signs.csv"]).assert_success();
}

/// Runs the file and the commands of `docs/doctor.md` as given, and compares their output with the page.
#[test]
fn the_page_is_true() {
    let place = TestDir::new();
    let page = DocPage::read("doctor.md");
    place.write("visits.csv", page.code_block("csv"));
    let runs = page.run_commands(&place);
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[0].stdout, page.code_block("text"));
    assert_eq!(runs[1].json()["rows"], 10);
    assert!(place.path("checkup/doctor.html").exists());
}
