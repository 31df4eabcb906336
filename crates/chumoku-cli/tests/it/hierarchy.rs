//! Single-label trees: detected, trained, scored at each level, answered down to a confident level, and rejected if
//! invalid.

use crate::common::{DocPage, TestDir, sha256};
use serde_json::Value;
use std::collections::BTreeSet;

/// Paths with the words that reveal them. Rows of plain "home" and "travel" stop at the first level.
const CLASSES: [(&str, &[&str]); 7] = [
    ("home / garden", &["roses", "hedge", "lawn"]),
    ("home/kitchen/knives", &["blade", "knife", "edge"]),
    ("home/kitchen/pots", &["lid", "pan", "kettle"]),
    ("home", &["house", "roof", "floor"]),
    ("travel/plane", &["wing", "airport", "pilot"]),
    ("travel/train", &["rail", "station", "carriage"]),
    ("travel", &["journey", "luggage", "ticket"]),
];

/// A text of each class in turn. Every other text mixes words of two classes below the same top class, so only the top
/// class can be predicted.
fn rows(n: usize, state: &mut u64) -> String {
    let mut pick = |count: usize| (crate::common::next_random(state) * count as f64) as usize;
    let mut out = String::from("label,text\n");
    for i in 0..n {
        let class = pick(7);
        let other = match (i % 2, class) {
            (0, 0..4) => pick(4),
            (0, _) => 4 + pick(3),
            _ => class,
        };
        let (label, own) = CLASSES[class];
        let [first, second] = [own[pick(3)], CLASSES[other].1[pick(3)]];
        let [first, second] = if pick(2) == 0 { [first, second] } else { [second, first] };
        let filler = ["today", "again", "at noon", "as ever"][pick(4)];
        out += &format!("{label},\"the {first} and the {second}, {filler}\"\n");
    }
    out
}

fn write_rows(place: &TestDir, train: usize, test: usize) {
    let mut state = 5;
    place.write("train.csv", rows(train, &mut state));
    place.write("test.csv", rows(test, &mut state));
}

/// Checks nesting: each level extends the previous one and is at most as probable.
fn is_nested(levels: &[Value]) -> bool {
    let name = |level: &Value| level["label"].as_str().unwrap().to_owned();
    let p = |level: &Value| level["probability"].as_f64().unwrap();
    let below =
        |pair: &[Value]| name(&pair[1]).starts_with(&format!("{}/", name(&pair[0]))) && p(&pair[1]) <= p(&pair[0]);
    !name(&levels[0]).contains('/') && levels.windows(2).all(below)
}

fn width(line: &str) -> usize {
    line.chars().map(|c| if c as u32 >= 0x1100 && !"–“”…×".contains(c) { 2 } else { 1 }).sum()
}

#[test]
fn paths_are_predicted_and_scored_at_each_level() {
    let place = TestDir::new();
    write_rows(&place, 600, 150);
    let args = ["train", "train.csv", "--test", "test.csv", "--epochs", "4", "--out", "model"];
    let run = place.run(&args).assert_success();
    assert!(
        run.stderr.contains("labels are paths with / between names: 3 levels of 2, 6, 7 classes; --hierarchy none"),
        "{run:#?}"
    );
    for part in [
        "accuracy by level",
        "macro-F1 by level",
        "hierarchical F1",
        "baseline: n-grams",
        "baseline: most frequent",
        "wrong rows",
    ] {
        assert!(run.stdout.contains(part), "{part}: {run:#?}");
    }
    // Advice is one line of any length.
    let mut lines = run.stdout.lines().filter(|line| !line.starts_with("Advice"));
    assert!(lines.all(|line| width(line) <= 80), "{run:#?}");
    let reports = [["info", "model", "--report"], ["eval", "model", "test.csv"]].map(|args| place.run(&args).stdout);
    assert!(reports.iter().chain([&run.stdout]).all(|report| !report.contains("\n\n\n")), "{run:#?} {reports:#?}");
    let (metrics, config) = (place.json("model/metrics.json"), place.json("model/config.json"));
    assert_eq!(metrics["labels"][1], "home/garden");
    assert_eq!(config["hierarchy"]["nodes"].as_array().unwrap().len(), 8, "{config}");
    let card = place.read("model/README.md");
    assert!(card.contains("level 2 (6)") && card.contains("hierarchical F1"), "{card}");

    // Deeper levels are harder; the last level is the whole path, and every error starts at some level.
    let of = |scores: &Value| -> Vec<f64> {
        let levels = scores["hierarchy"]["levels"].as_array().unwrap();
        levels.iter().map(|level| level["accuracy"].as_f64().unwrap()).collect()
    };
    let whole = of(&metrics["scores"]);
    assert!(whole.len() == 3 && whole.is_sorted_by(|above, below| above >= below) && whole[0] > 0.9, "{whole:?}");
    assert_eq!(Some(whole[2]), metrics["accuracy"].as_f64());
    let wrong: u64 = metrics["scores"]["hierarchy"]["levels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|l| l["first_wrong"].as_u64().unwrap())
        .sum();
    assert_eq!(wrong, ((1.0 - whole[2]) * 150.0).round() as u64);
    for part in ["attention", "ngrams", "majority"] {
        let part = of(&metrics["parts"][part]);
        assert!(part.len() == 3 && part[2] < 1.0, "{part:?}");
    }
    assert!(of(&metrics["parts"]["majority"])[0] < 0.75);

    // The same scores for the file, whose paths have spaces around the names.
    let eval = place.run(&["eval", "model", "test.csv", "--json"]).assert_success().json();
    assert_eq!(eval["scores"], metrics["scores"]);
    assert!(place.run(&["eval", "model", "test.csv"]).assert_success().stdout.contains("accuracy by level"));

    // Predictions are paths, and each of their nodes has its probability.
    let predicted =
        place.run(&["predict", "model", "--input", "test.csv", "--json", "--top", "7"]).assert_success().json_lines();
    let (mut right, mut at_top) = (0, 0);
    for row in &predicted {
        let levels = row["levels"].as_array().unwrap();
        assert!(is_nested(levels) && levels.last().unwrap()["label"] == row["label"], "{row}");
        let truth = row["input"]["label"].as_str().unwrap().replace(" / ", "/");
        right += usize::from(row["label"] == truth);
        at_top += usize::from(levels[0]["label"].as_str() == truth.split('/').next());
        // A node's probability is the sum over the paths through it.
        let top = levels[0]["label"].as_str().unwrap();
        let of_path = |path: &&Value| path["label"].as_str().unwrap().split('/').next() == Some(top);
        let sum: f64 =
            row["top"].as_array().unwrap().iter().filter(of_path).map(|p| p["probability"].as_f64().unwrap()).sum();
        assert!((sum - levels[0]["probability"].as_f64().unwrap()).abs() < 1e-5 && sum > 0.5 - 1e-5, "{row}");
    }
    assert_eq!([right as f64 / 150.0, at_top as f64 / 150.0], [whole[2], whole[0]]);
    let text = "the blade and the knife, today";
    let plain = place.run(&["predict", "model", text]).assert_success();
    assert!(plain.stdout.starts_with("home/kitchen/knives\t"), "{plain:#?}");
    let why = place.run(&["explain", "model", "--json", "-", text]).assert_success().json();
    assert_eq!(why["label"], "home/kitchen/knives");
    assert!(is_nested(why["levels"].as_array().unwrap()), "{}", why["levels"]);
    let why = place.run(&["explain", "model", text]).assert_success();
    assert!(why.stdout.contains("› home/kitchen/knives"), "{why:#?}");

    // The tree changes no weights: with plain names, the model is the same.
    let none = ["--hierarchy", "none", "--out", "none"];
    place.write("tidy.csv", place.read("train.csv").replace(" / ", "/"));
    place.write("tidy-test.csv", place.read("test.csv").replace(" / ", "/"));
    let args = ["train", "tidy.csv", "--test", "tidy-test.csv", "--epochs", "4"];
    let run = place.run(&[&args[..], &none].concat()).assert_success();
    assert!(!run.stdout.contains("level") && !run.stderr.contains("paths"), "{run:#?}");
    assert_eq!(sha256(&place.path("model/model.safetensors")), sha256(&place.path("none/model.safetensors")));
    let plain = place.json("none/config.json");
    assert!(plain.get("hierarchy").is_none() && plain["caution"].get("levels").is_none(), "{plain}");
    assert!(place.json("none/metrics.json")["scores"].get("hierarchy").is_none());

    // An invalid tree.
    let mut config = config;
    config["hierarchy"]["nodes"][1]["parent"] = 1.into();
    place.write("model/config.json", config.to_string());
    place.run_rejected(&["predict", "model", "a text"], &["config.json", "hierarchy", "tree"]);
}

/// With --abstain, a prediction goes down as far as the model is confident, and is right there as often as promised.
#[test]
fn answers_go_down_as_far_as_the_model_is_confident() {
    let place = TestDir::new();
    write_rows(&place, 4000, 1000);
    let args = ["train", "train.csv", "--test", "test.csv", "--model", "ngrams", "--out", "model", "--lang", "ja"];
    let run = place.run(&args).assert_success();
    assert!(run.stdout.contains("段ごとの正解率") && run.stdout.contains("階層 F1"), "{run:#?}");
    assert!(run.stdout.lines().all(|line| width(line) <= 80), "{run:#?}");
    let all = place.run(&["predict", "model", "--input", "test.csv", "--json"]).assert_success().json_lines();
    let run = place.run(&["predict", "model", "--input", "test.csv", "--json", "--abstain", "0.95"]).assert_success();
    assert!(run.stderr.contains("whole paths from") && run.stderr.contains("down to level 1 from"), "{run:#?}");
    let sure = run.json_lines();
    let mut ends = [0; 4];
    let mut right = [0; 4];
    for (before, row) in all.iter().zip(&sure) {
        let levels = row["levels"].as_array().unwrap();
        let whole = before["levels"].as_array().unwrap();
        let truth = row["input"]["label"].as_str().unwrap().replace(" / ", "/");
        let level = levels.len();
        assert_eq!(levels[..], whole[..level]);
        ends[level] += 1;
        match row["label"].as_str() {
            None => assert!(level == 0 && row["abstained"] == true && row["why"] == "unsure", "{row}"),
            Some(label) => {
                assert!(row["abstained"] == false && levels[level - 1]["label"] == label, "{row}");
                let is_whole = level == whole.len() && row["probability"] == before["probability"];
                right[level] += usize::from(if is_whole {
                    truth == label
                } else {
                    truth == label || truth.starts_with(&format!("{label}/"))
                });
            }
        }
    }
    // For half of the texts, little more than the top class can be predicted.
    assert!(ends[1] > 100 && ends[2] > 100 && ends[3] > 100, "{ends:?}");
    let [answered, rightly] = [ends, right].map(|counts| counts[1..].iter().sum::<usize>());
    assert!(answered > 900 && rightly as f64 >= 0.95 * answered as f64, "{ends:?} {right:?}");
    let metrics = place.json("model/metrics.json");
    let promise = metrics["abstain"].as_array().unwrap().iter().find(|promise| promise["level"] == 0.95).unwrap();
    assert!((promise["covers"].as_f64().unwrap() - answered as f64 / 1000.0).abs() < 1e-9, "{promise}");
    let valid = &promise["valid"];
    assert!(valid["right"].as_f64().unwrap() > 0.95 && valid["covers"].as_f64().unwrap() > 0.8, "{promise}");

    // Columns and lines agree.
    let columns = place.run(&["predict", "model", "--input", "test.csv", "--abstain", "0.95"]).assert_success();
    let header = columns.stdout.lines().next().unwrap();
    assert!(header.ends_with("predicted_label,probability,abstained,error"), "{header}");
    let tops = columns.stdout.lines().filter(|line| line.contains("\",home,") || line.contains("\",travel,")).count();
    assert!(tops >= ends[1], "{tops} {ends:?}");
    let texts = ["the lid and the blade, today", "the blade and the knife, today", "quux blorf zzgl"];
    let shown = place.run(&[&["predict", "model", "--abstain", "0.95"][..], &texts].concat()).assert_success();
    let answers: BTreeSet<&str> = shown.stdout.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert!(answers.contains("home/kitchen/knives") && answers.contains("(unlike the training texts)"), "{shown:#?}");
    assert!(answers.iter().any(|label| *label == "home" || *label == "home/kitchen"), "{shown:#?}");
}

#[test]
fn parents_come_from_a_file() {
    let place = TestDir::new();
    let names = ["Sofa", "Chair", "Boots", "Books"];
    let row = |i: usize| format!("{},\"{} number {i} arrived {}\"\n", names[i % 4], names[i % 4].to_lowercase(), i % 9);
    place.write("orders.csv", format!("label,text\n{}", (0..80).map(row).collect::<String>()));
    place.write("parents.csv", "child,parent\nSofa,Seats\nChair,Seats\nSeats,Furniture\nBoots,Shoes\nBooks,\n");
    let args = ["train", "orders.csv", "--model", "ngrams", "--hierarchy", "parents.csv", "--out", "model"];
    let run = place.run(&args).assert_success();
    assert!(run.stderr.contains("3 levels of 3, 3, 4 classes"), "{run:#?}");
    let found = place.run(&["predict", "model", "--json", "sofa number 3 arrived"]).assert_success().json();
    let levels: Vec<&str> = found["levels"].as_array().unwrap().iter().map(|l| l["label"].as_str().unwrap()).collect();
    assert_eq!(levels, ["Furniture", "Seats", "Sofa"]);
    assert_eq!(found["label"], "Sofa");

    let asks = |file: &'static str| ["train", "orders.csv", "--hierarchy", file, "--out", "x"];
    place.write("circle.csv", "child,parent\nSofa,Seats\nSeats,Chair\nChair,Sofa\nBoots,Shoes\nBooks,\n");
    place.run_rejected(
        &asks("circle.csv"),
        &["circle.csv:2", "circle", "“Chair” is below “Sofa” (line 4)", "remove one of these rows"],
    );
    place.write("two.csv", "Sofa,Seats\nChair,Seats\nSofa,Beds\n");
    place.run_rejected(&asks("two.csv"), &["two.csv:3", "“Seats” on line 1", "“Beds” here", "remove one"]);
    place.write("few.csv", "child,parent\nSofas,Seats\nChair,Seats\nBoots,Shoes\nBooks,\n");
    place.run_rejected(&asks("few.csv"), &["orders.csv:2", "“Sofa”", "few.csv", "did you mean “Sofas”", "add a row"]);
    place.write("one.csv", "child\nSofa\nChair\nBoots\nBooks\n");
    place.run_rejected(&asks("one.csv"), &["one.csv: reading parents", "expected two columns", "write child,parent"]);
    place.run_rejected(&asks("nothing.csv"), &["nothing.csv"]);
    place.run_rejected(&asks(""), &["hierarchy: expected"]);
    place.run_rejected(&asks("/"), &["hierarchy: expected", "“/”", "4 labels"]);
    let japanese = place.run(&[&asks("circle.csv")[..], &["--lang", "ja"]].concat());
    assert!(japanese.code == 2 && japanese.stderr.contains("循環"), "{japanese:#?}");
}

#[test]
fn errors_are_reported() {
    let place = TestDir::new();
    write_rows(&place, 80, 10);
    place.write("bad.csv", place.read("train.csv").replacen("home/kitchen/pots", "home//pots", 1));
    let line = place.read("bad.csv").lines().position(|line| line.starts_with("home//pots")).unwrap() + 1;
    let words = [&format!("bad.csv:{line}")[..], "“home//pots”", "--hierarchy none"];
    place.run_rejected(&["train", "bad.csv", "--out", "x"], &words);
    place.write("bad-test.csv", "label,text\nhome/,fine\nhome,fine\n");
    place.run_rejected(&["train", "train.csv", "--test", "bad-test.csv", "--out", "x"], &["bad-test.csv:2", "“home/”"]);
    place.run_rejected(
        &["train", "train.csv", "--task", "score", "--hierarchy", "/", "--out", "x"],
        &["--hierarchy", "--task classify"],
    );
    place.run_rejected(&["train", "--hierarchy", "/", "--out", "x"], &["--hierarchy", "built-in"]);
    // On request, another separator; names keep their spaces.
    let other = place.read("train.csv").replace(" / ", "/").replace('/', " :: ");
    place.write("other.csv", other);
    let args = ["train", "other.csv", "--model", "ngrams", "--hierarchy", "::", "--out", "model"];
    assert!(place.run(&args).assert_success().stderr.contains("with :: between names: 3 levels"));
    assert_eq!(place.json("model/config.json")["labels"][1], "home::garden");
}

/// Runs the file and the commands of `docs/hierarchies.md` as given.
#[test]
fn the_page_is_true() {
    let place = TestDir::new();
    let page = DocPage::read("hierarchies.md");
    place.write("orders.csv", page.code_block("csv"));
    assert_eq!(page.run_commands(&place).len(), 4);
    let labels = &place.json("orders/config.json")["labels"];
    assert_eq!(labels.as_array().unwrap().len(), 5, "{labels}");
}

/// Multi-label trees: a label always comes with its parents, in training, predictions and scores.
#[test]
fn labels_come_with_their_parents() {
    let place = TestDir::new();
    let words = [
        ("home/garden", "roses"),
        ("home/kitchen/pots", "kettle"),
        ("home / kitchen/knives", "blade"),
        ("work", "desk"),
    ];
    let mut state = 11;
    let mut rows = |count: usize, closed: bool| -> String {
        let row = |_| {
            let mut pick = |count: usize| (crate::common::next_random(&mut state) * count as f64) as usize;
            let (first, second) = (pick(4), pick(4));
            let chosen: BTreeSet<usize> = [first, second].into_iter().take(1 + pick(2)).collect();
            let mut labels: Vec<String> = chosen.iter().map(|&i| words[i].0.to_owned()).collect();
            if closed {
                labels = labels.iter().map(|label| label.replace(" / ", "/")).collect();
                labels.extend(labels.clone().iter().filter(|label| label.contains('/')).map(|_| "home".to_owned()));
            }
            let text = chosen.iter().map(|&i| words[i].1).collect::<Vec<_>>().join(" and the ");
            format!(
                "{}\n",
                serde_json::json!({ "text": format!("the {text}, number {}", pick(900)), "labels": labels })
            )
        };
        (0..count).map(row).collect()
    };
    place.write("train.jsonl", rows(400, false));
    place.write("test.jsonl", rows(100, true));
    let args = ["train", "train.jsonl", "--test", "test.jsonl", "--epochs", "3", "--out"];
    let run = place.run(&[&args[..], &["model"]].concat()).assert_success();
    assert!(run.stderr.contains("3 levels of 2, 2, 2 labels") && run.stderr.contains("the ancestors"), "{run:#?}");
    assert!(run.stdout.contains("micro-F1 by level") && run.stdout.lines().all(|line| width(line) <= 80), "{run:#?}");
    let metrics = place.json("model/metrics.json");
    let names = ["home", "home/garden", "home/kitchen", "home/kitchen/knives", "home/kitchen/pots", "work"];
    assert_eq!(metrics["labels"], serde_json::json!(names));
    let levels = metrics["scores"]["levels"].as_array().unwrap();
    let counts: Vec<_> = levels.iter().map(|level| level["labels"].as_u64().unwrap()).collect();
    assert_eq!(counts, [2, 2, 2]);
    assert!(levels.iter().all(|level| level["micro_f1"].as_f64().unwrap() > 0.9), "{metrics}");
    let eval = place.run(&["eval", "model", "test.jsonl", "--json"]).assert_success().json();
    assert_eq!(eval["scores"], metrics["scores"], "rows with and without what is above");
    assert!(place.read("model/README.md").contains("hierarchy of 3 levels"));

    // In every prediction, at any threshold, no label lacks its parent or is more probable than it.
    let mut seen = 0;
    for threshold in [&[][..], &["--threshold", "home/kitchen/pots=0.01"]] {
        let args = ["predict", "model", "--input", "test.jsonl", "--json"];
        for row in place.run(&[&args[..], threshold].concat()).assert_success().json_lines() {
            let found: Vec<(&str, f64)> = row["labels"]
                .as_array()
                .unwrap()
                .iter()
                .map(|l| (l["label"].as_str().unwrap(), l["probability"].as_f64().unwrap()))
                .collect();
            for (label, p) in &found {
                if let Some((parent, _)) = label.rsplit_once('/') {
                    let above = found.iter().find(|(other, _)| *other == parent);
                    assert!(above.is_some_and(|(_, above)| above >= p), "{row}");
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 100, "{seen}");
    let top = place.run(&["predict", "model", "a kettle", "--top", "6", "--json"]).assert_success().json();
    let p = |label: &str| {
        top["labels"].as_array().unwrap().iter().find(|l| l["label"] == label).unwrap()["probability"].as_f64()
    };
    assert!(
        names.iter().filter_map(|n| n.rsplit_once('/').map(|(up, _)| (n, up))).all(|(n, up)| p(n) <= p(up)),
        "{top}"
    );

    // Plain names on request, and invalid paths.
    let plain = place.run(&[&args[..], &["plain", "--hierarchy", "none"]].concat());
    assert!(plain.code == 2 && plain.stderr.contains("“home”"), "{plain:#?}");
    place.write("bad.jsonl", "{\"text\": \"a b\", \"labels\": [\"home//x\", \"work\"]}\n".repeat(40));
    place.run_rejected(&["train", "bad.jsonl", "--hierarchy", "/"], &["bad.jsonl:1", "“home//x”", "--hierarchy none"]);
}
