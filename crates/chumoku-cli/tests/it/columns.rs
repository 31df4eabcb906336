//! Feature columns: detected, trained on, used, explained, scored, and rejected.

use crate::common::{DocPage, TestDir, next_random, sha256};
use serde_json::{Value, json};

/// Meals that are "fair" if the text is kind and the price low, or neither. Text or price alone reveal little.
fn rows(n: usize) -> Vec<[String; 5]> {
    let mut state = 5;
    let mut pick = |count: usize| (next_random(&mut state) * count as f64) as usize;
    let (kind, unkind) = (["good", "tasty", "fresh"], ["poor", "bland", "stale"]);
    (0..n)
        .map(|i| {
            let (is_kind, is_cheap) = (pick(2) == 0, pick(3) > 0);
            let word = if is_kind { kind[pick(3)] } else { unkind[pick(3)] };
            let price = if is_cheap { 300 + pick(500) } else { 2000 + pick(4000) };
            let shop = ["Ginza", "Ueno", "Kanda"][pick(3)];
            let day = format!("2024-{:02}-{:02}", 1 + pick(12), 1 + pick(28));
            let label = if is_cheap || is_kind && pick(4) > 0 { "fair" } else { "dear" };
            [format!("The meal number {i} was {word}."), price.to_string(), shop.into(), day, label.into()]
        })
        .collect()
}

const HEADER: &str = "text,price,shop,date,label";

fn csv(rows: &[[String; 5]]) -> String {
    rows.iter().fold(HEADER.to_owned(), |out, row| out + "\n" + &row.join(","))
}

const COLUMNS: [&str; 2] = ["--columns", "price,shop,date"];

fn trained(place: &TestDir, out: &str, more: &[&str]) -> crate::common::Run {
    let rows = rows(500);
    place.write("train.csv", csv(&rows[..400]));
    place.write("test.csv", csv(&rows[400..]));
    let args = ["train", "train.csv", "--test", "test.csv", "--out", out];
    place.run(&[&args[..], &COLUMNS, more].concat()).assert_success()
}

/// The messages without line breaks.
fn reported(run: &crate::common::Run) -> String {
    run.stderr.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn feature_columns_are_used_in_every_command() {
    let place = TestDir::new();
    let run = trained(&place, "model", &["--model", "ngrams"]);
    for part in [
        "feature columns = column “price”, column “shop”, column “date”",
        "“price” number (mean ",
        "“shop” category (3 values and others)",
        "“date” date (year, month, weekday)",
        "text alone ",
        "the columns help",
    ] {
        assert!(reported(&run).contains(part), "{part}: {run:#?}");
    }
    let metrics = place.json("model/metrics.json");
    let of = |key: &str| metrics["columns"][key].as_f64().unwrap();
    assert!(of("both") > of("text_alone") + 0.1 && metrics["columns"]["verdict"] == "helps", "{}", metrics["columns"]);
    assert!(place.read("model/README.md").contains("“shop” category"), "the model card tells of columns");
    let config = place.json("model/config.json");
    let kinds: Vec<&str> =
        config["ngrams"]["columns"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["price", "shop", "date"]);
    assert_eq!(config["ngrams"]["columns"][1]["kind"], json!({ "category": { "values": ["Ginza", "Kanda", "Ueno"] } }));

    // For the same text, the feature values decide. A missing value is reported once.
    let ask = |set: &[&str]| {
        let sets = set.iter().flat_map(|value| ["--set", value]).collect::<Vec<_>>();
        place.run(&[&["predict", "model", "--json", "The meal was bland."][..], &sets].concat()).assert_success()
    };
    let cheap = ask(&["price=350", "shop=Ueno", "date=2024-05-01"]);
    let dear = ask(&["price=5500", "SHOP=Ueno", "date=2024-05-01"]);
    assert_eq!((&cheap.json()["label"], &dear.json()["label"]), (&json!("fair"), &json!("dear")));
    assert_eq!((&cheap.json()["text"], cheap.stderr.as_str()), (&json!("The meal was bland."), ""));
    let partly = ask(&["price=350"]);
    assert_eq!(reported(&partly).matches("treated as missing").count(), 1, "{partly:#?}");
    assert!(
        reported(&partly).contains("“shop”, “date”") && reported(&partly).contains("--set shop=VALUE"),
        "{partly:#?}"
    );
    // An unseen category counts as "other"; an invalid number counts as missing.
    let p = |set: &[&str]| ask(set).json()["probability"].clone();
    let other = ["price=350", "shop=Nowhere", "date=2024-05-01"];
    assert_eq!(p(&other), p(&["price=350", "shop=Elsewhere", "date=2024-05-01"]));
    assert_eq!(p(&["price=n/a"]), p(&[]));
    let plain = place.run(&["predict", "model", "The meal was bland.", "--set", "price=350"]).assert_success();
    assert!(plain.stdout.contains("The meal was bland. | 350"), "{plain:#?}");

    // Files provide the columns by name, in any order; --set replaces one.
    place.write("new.csv", "date,shop,note,text,price\n2024-05-01,Ueno,x,The meal was bland.,350\n");
    let row = place.run(&["predict", "model", "--input", "new.csv", "--json"]).assert_success().json();
    assert_eq!((&row["probability"], &row["text"]), (&cheap.json()["probability"], &json!("The meal was bland.")));
    assert_eq!(row["input"]["shop"], "Ueno");
    place.write("new.jsonl", "{\"text\": \"The meal was bland.\", \"price\": 350, \"date\": \"2024-05-01\"}\n");
    let lines = place
        .run(&["predict", "model", "--input", "new.jsonl", "--json", "--set", "shop=Ueno"])
        .assert_success()
        .json();
    assert_eq!(lines["probability"], cheap.json()["probability"]);
    let missing = place.run(&["predict", "model", "--input", "new.jsonl"]);
    assert_eq!(missing.code, 2);
    for part in ["new.jsonl", "“shop”", "“text”, “price”, “date”", "--set shop=VALUE"] {
        assert!(reported(&missing).contains(part), "{part}: {missing:#?}");
    }
    let eval = place.run(&["eval", "model", "test.csv", "--json", "--errors", "wrong.csv"]).assert_success().json();
    assert_eq!(eval["scores"], metrics["scores"]);
    assert!(!place.read("wrong.csv").contains('\u{1e}'));

    // The words come only from the text.
    let words = |why: &Value| why["words"].as_array().unwrap().iter().map(|w| w["text"].clone()).collect::<Vec<_>>();
    // The effect of each column, in addition to the words.
    let explain = ["explain", "model", "The meal was bland.", "--set", "price=5500", "--set", "shop=Nowhere"];
    let shown = place.run(&explain).assert_success();
    for part in ["Effect of each feature column on “dear”", "price", "Nowhere (other)", "(missing)"] {
        assert!(shown.stdout.contains(part), "{part}: {shown:#?}");
    }
    assert!(shown.stdout.lines().all(|line| line.chars().count() <= 80), "{shown:#?}");
    let why = place.run(&[&explain[..], &["--json", "-"]].concat()).assert_success().json();
    let column = |i: usize| &why["columns"][i];
    assert_eq!(
        (&why["text"], &column(0)["name"], &column(0)["value"]),
        (&json!("The meal was bland."), &json!("price"), &json!("5500"))
    );
    assert!(column(0)["effect"].as_f64().unwrap() > 1.0, "{why}");
    assert_eq!(words(&why), ["The", "meal", "was", "bland", "."].map(Value::from));
    assert_eq!([0, 1, 2].map(|i| column(i)["read_as"].clone()), ["itself", "other", "missing"].map(Value::from));
    assert_eq!(column(2)["effect"], 0.0);
    // The effect equals the change of the predicted log-odds.
    let odds = |p: f64| (p / (1.0 - p)).ln();
    let of = |set: &[&str]| odds(ask(set).json()["probability"].as_f64().unwrap());
    let without = of(&["shop=Nowhere"]);
    let label = &ask(&["shop=Nowhere"]).json()["label"];
    let without = if label == "dear" { without } else { -without };
    let expected = of(&["price=5500", "shop=Nowhere"]) - without;
    assert!((column(0)["effect"].as_f64().unwrap() - expected).abs() < 1e-2, "{expected} {why}");
    let many = place.run(&["explain", "model", "--input", "test.csv", "--json", "-"]).assert_success().json_lines();
    assert!(many.len() == 100 && many[0]["columns"][0]["name"] == "price", "{}", many[0]);
}

#[test]
fn a_network_uses_feature_columns_and_reports_in_both_languages() {
    let place = TestDir::new();
    let run = trained(&place, "model", &["--epochs", "2", "--threads", "1"]);
    assert!(run.stdout.contains("baseline: n-grams"), "{run:#?}");
    let metrics = place.json("model/metrics.json");
    assert!(metrics["accuracy"].as_f64().unwrap() > metrics["columns"]["text_alone"].as_f64().unwrap(), "{metrics}");
    let args = ["explain", "model", "The meal was bland.", "--set", "price=5500", "--set", "shop=Ueno"];
    let page = [&args[..], &["--html", "why.html", "--lang", "ja"]].concat();
    let shown = place.run(&page).assert_success();
    assert!(shown.stdout.contains("テキスト以外の列が「dear」の予測に与える影響"), "{shown:#?}");
    let page = place.read("why.html");
    assert!(page.contains("column_texts") && page.contains("5500"), "the page has the columns");
    let why = place.run(&[&args[..], &["--json", "-"]].concat()).assert_success().json();
    assert_eq!((&why["words"][5]["text"], why["words"].as_array().unwrap().len()), (&json!("."), 6), "{why}");
    assert!(why["columns"][0]["effect"].as_f64().unwrap() > 0.5, "{}", why["columns"]);
    let other = [&args[..], &["--compare-text", "The meal was fresh."]].concat();
    place.run(&other).assert_success();
    // The same bytes for any number of threads, and after kills.
    let again = ["train", "train.csv", "--test", "test.csv", "--out", "killed", "--epochs", "2", "--threads", "2"];
    place.run_despite_kills(&[&again[..], &COLUMNS].concat());
    for name in ["model.safetensors", "config.json", "metrics.json"] {
        let of = |folder: &str| sha256(&place.path(folder).join(name));
        assert_eq!(of("model"), of("killed"), "{name}");
    }
    let onnx = place.run(&["export", "model", "--out", "model.onnx"]).assert_success();
    assert!(reported(&onnx).contains("left out the feature columns"), "{onnx:#?}");
}

#[test]
fn labels_numbers_and_pairs_support_feature_columns() {
    let place = TestDir::new();
    let rows = rows(120);
    let numbers = rows.iter().enumerate().map(|(i, [text, _, shop, ..])| format!("{text},{shop},{}\n", i % 4));
    place.write("numbers.csv", format!("text,shop,stars\n{}", numbers.collect::<String>()));
    let args = ["train", "numbers.csv", "--task", "score", "--columns", "shop", "--epochs", "1", "--out", "numbers"];
    place.run(&args).assert_success();
    let found = place.run(&["predict", "numbers", "--json", "A meal.", "--set", "shop=Ueno"]).assert_success().json();
    assert!(found["score"].is_number(), "{found}");
    assert_eq!(place.run(&["eval", "numbers", "numbers.csv", "--json"]).assert_success().json()["rows"], 120);

    let sets = rows.iter().map(|[text, price, shop, ..]| format!("{text},{price},{shop}|meal\n"));
    place.write("sets.csv", format!("text,price,labels\n{}", sets.collect::<String>()));
    let args = ["train", "sets.csv", "--separator", "|", "--columns", "price", "--epochs", "1", "--out", "sets"];
    let run = place.run(&args).assert_success();
    assert!(reported(&run).contains("“price” number"), "{run:#?}");
    assert!(place.json("sets/metrics.json")["columns"]["figure"] == "micro_f1");
    assert_eq!(
        place.run(&["eval", "sets", "sets.csv", "--separator", "|", "--json"]).assert_success().json()["rows"],
        120
    );

    let pairs = rows.iter().map(|[text, price, shop, _, label]| format!("{text},I paid {price}.,{shop},{label}\n"));
    place.write("pairs.csv", format!("text1,text2,shop,label\n{}", pairs.collect::<String>()));
    place.run(&["train", "pairs.csv", "--columns", "shop", "--model", "ngrams", "--out", "pairs"]).assert_success();
    let found = place
        .run(&["predict", "pairs", "--json", "A meal.", "I paid 350.", "--set", "shop=Ueno"])
        .assert_success()
        .json();
    assert_eq!(found["texts"], json!(["A meal.", "I paid 350."]));
    let args = ["explain", "pairs", "A meal.", "--target", "I paid 350.", "--set", "shop=Ueno", "--json", "-"];
    assert_eq!(place.run(&args).assert_success().json()["columns"][0]["name"], "shop");
}

#[test]
fn the_value_of_columns_is_reported_at_training() {
    let place = TestDir::new();
    let rows = rows(200);
    let with = |name: &str, of: &dyn Fn(usize, &[String; 5]) -> String| {
        let lines = rows.iter().enumerate().map(|(i, row)| format!("{},{},{}\n", row[0], of(i, row), row[4]));
        place.write("rows.csv", format!("text,{name},label\n{}", lines.collect::<String>()));
        place.run(&["train", "rows.csv", "--columns", name, "--model", "ngrams", "--out", "model", "--force"])
    };
    let leak = with("verdict", &|_, row| row[4].to_uppercase()).assert_success();
    assert!(
        reported(&leak).contains("“verdict” alone determines the answer of 100 % of the training rows"),
        "{leak:#?}"
    );
    let id = with("key", &|i, _| format!("K{i}")).assert_success();
    assert!(reported(&id).contains("“key” is left out") && reported(&id).contains("occurs only once"), "{id:#?}");
    // It is not kept: the model requires no columns.
    let plain = place.run(&["predict", "model", "A meal."]).assert_success();
    assert!(plain.stderr.is_empty() && plain.stdout.ends_with("\tA meal.\n"), "{plain:#?}");
    let noise = with("dice", &|i, _| format!("{}", (i * 7919) % 83)).assert_success();
    assert!(reported(&noise).contains("do not show that they help"), "{noise:#?}");
}

#[test]
fn invalid_columns_are_rejected_with_their_position_and_a_remedy() {
    let place = TestDir::new();
    let mut rows = rows(60);
    place.write("rows.csv", csv(&rows));
    let refused = |args: &[&str], parts: &[&str]| {
        let run = place.run(args);
        assert_eq!(run.code, 2, "{run:#?}");
        parts.iter().for_each(|part| assert!(reported(&run).contains(part), "{part}: {run:#?}"));
    };
    refused(&["train", "rows.csv", "--columns", "prise"], &["rows.csv", "“prise”", "did you mean “price”"]);
    refused(&["train", "rows.csv", "--columns", "label", "--label", "label"], &["“label”", "--columns"]);
    refused(&["train", "rows.csv", "--columns", "shop,shop"], &["“shop”", "each once"]);
    refused(&["train", "rows.csv", "--columns", "shop,"], &["names of columns"]);
    refused(&["train", "rows.csv", "--columns", "shop", "--task", "lm"], &["--columns", "classes, labels or numbers"]);
    refused(&["train", "--columns", "shop"], &["--columns"]);
    refused(&["predict", "rows.csv", "x", "--set", "price"], &["price=12"]);
    place.write("lines.txt", "__label__a one\n__label__b two\n__label__a three\n__label__b four\n");
    refused(&["train", "lines.txt", "--columns", "shop"], &["columns with names", "header"]);
    rows.iter_mut().for_each(|row| row[1] = format!("¥{}", row[1]));
    place.write("yen.csv", csv(&rows));
    refused(&["train", "yen.csv", "--columns", "price"], &["yen.csv:", "“¥", "price:category"]);
    let kept =
        place.run(&["train", "yen.csv", "--columns", "price:category,shop", "--model", "ngrams", "--out", "kept"]);
    assert!(reported(&kept.assert_success()).contains("“price”"));
    for (i, row) in rows.iter_mut().enumerate() {
        row[1] = if i % 3 == 0 { "ask".into() } else { format!("{i}") };
    }
    place.write("ask.csv", csv(&rows));
    refused(&["train", "ask.csv", "--columns", "price"], &["ask.csv:2", "“ask”", "leave those fields empty"]);
    place.run(&["train", "rows.csv", "--model", "ngrams", "--out", "plain"]).assert_success();
    refused(&["predict", "plain", "x", "--set", "price=1"], &["reads no feature columns", "--columns price"]);
    refused(&["predict", "kept", "x", "--set", "shap=Ueno"], &["“shop”", "did you mean"]);
}

#[test]
fn the_example_of_the_page_works() {
    let place = TestDir::new();
    let page = DocPage::read("columns.md");
    place.write("meals.csv", page.code_block("csv"));
    let runs = page.run_commands(&place);
    assert!(runs[0].stderr.contains("“shop” category") && runs[0].stderr.contains("“date” date"), "{:#?}", runs[0]);
    assert!(runs[2].stdout.contains("Effect of each feature column on"), "{:#?}", runs[2]);
}

/// Unreadable values count as missing and are reported: in files, in --set, in validation rows.
#[test]
fn unreadable_values_are_reported() {
    let place = TestDir::new();
    let rows = rows(120);
    place.write("rows.csv", csv(&rows));
    let args =
        ["train", "rows.csv", "--columns", "price,date", "--label", "label", "--model", "ngrams", "--out", "model"];
    place.run(&args).assert_success();
    let signed: Vec<[String; 5]> = rows[..5]
        .iter()
        .cloned()
        .map(|mut row| {
            row[1] = format!("¥{}", row[1]);
            row
        })
        .collect();
    place.write("signed.csv", csv(&signed));
    for args in [&["predict", "model", "--input", "signed.csv"][..], &["eval", "model", "signed.csv"]] {
        let output = place.run(args).assert_success().stderr;
        assert!(
            output.contains("column “price”: 5 values are not plain numbers") && output.contains("missing"),
            "{output}"
        );
    }
    place.run_rejected(&["predict", "model", "x", "--set", "price=¥1,100"], &["--set price", "¥1,100", "12.5"]);
    place.run_rejected(&["predict", "model", "x", "--set", "date=2024-02-30"], &["--set date", "expected a date"]);
    assert!(
        place
            .run(&["predict", "model", "x", "--set", "price=n/a", "--set", "date="])
            .assert_success()
            .stderr
            .is_empty()
    );
    let args = [
        "train",
        "rows.csv",
        "--valid",
        "signed.csv",
        "--columns",
        "price",
        "--label",
        "label",
        "--model",
        "ngrams",
        "--out",
        "x",
    ];
    let output = reported(&place.run(&args).assert_success());
    assert!(output.contains("validation rows, column “price”: 5 values"), "{output}");
}

/// Columns are known by name, even if the user gave a number. They exclude the text and the label.
#[test]
fn columns_have_names_and_separators_are_not_allowed_in_texts() {
    let place = TestDir::new();
    let rows = rows(120);
    place.write("rows.csv", csv(&rows));
    place
        .run(&["train", "rows.csv", "--columns", "2", "--label", "label", "--model", "ngrams", "--out", "model"])
        .assert_success();
    let turned = rows.iter().map(|[text, price, shop, date, label]| format!("{shop},{label},{text},{date},{price}\n"));
    place.write("turned.csv", format!("shop,label,text,date,price\n{}", turned.collect::<String>()));
    let eval = |file: &str| place.run(&["eval", "model", file, "--json"]).assert_success().json()["accuracy"].clone();
    assert_eq!(eval("turned.csv"), eval("rows.csv"));
    for column in ["text", "label"] {
        place.run_rejected(
            &["train", "rows.csv", "--columns", column, "--out", "x"],
            &["--columns", column, "--text and --label"],
        );
    }
    place.run_rejected(&["train", "rows.csv", "--columns", "price:", "--out", "x"], &["number, category or date"]);
    // Internal separators of feature values are not part of a text.
    place.run(&["train", "rows.csv", "--label", "label", "--model", "ngrams", "--out", "plain"]).assert_success();
    for model in ["plain", "model"] {
        let answer = |text: &str| place.run(&["predict", model, "--json", text]).assert_success().json();
        let (odd, even) = (answer("good\u{1e}meal\u{1f}bland"), answer("good meal bland"));
        assert_eq!((&odd["text"], &odd["probability"]), (&json!("good meal bland"), &even["probability"]), "{odd}");
    }
    // Constant tenths carry no information, whatever their mean rounds to.
    let same = rows.iter().map(|[text, .., label]| format!("{text},0.1,2024-03-15,{label}\n"));
    place.write("same.csv", format!("text,tax,day,label\n{}", same.collect::<String>()));
    let run = place
        .run(&["train", "same.csv", "--columns", "tax,day", "--model", "ngrams", "--out", "same"])
        .assert_success();
    assert!(reported(&run).contains("“tax” is left out") && reported(&run).contains("“day” is left out"), "{run:#?}");
}
