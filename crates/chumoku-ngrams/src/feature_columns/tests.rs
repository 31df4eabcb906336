//! Tests of feature columns.

use super::*;
use chumoku_text::row::{AsRow, FeatureRequest};
use proptest::prelude::*;

fn request(name: &str) -> FeatureRequest {
    FeatureRequest { name: name.to_owned(), ..FeatureRequest::default() }
}

fn of_kind(kind: &str) -> FeatureRequest {
    FeatureRequest { kind: Some(kind.to_owned()), ..request("x") }
}

fn fitted_column(cells: &[&str]) -> FeatureColumn {
    fit_column(&request("x"), cells).unwrap().column.unwrap()
}

#[test]
fn missing_words_are_lower_case() {
    assert!(MISSING_WORDS.iter().all(|word| word.to_lowercase() == *word));
}

#[test]
fn kinds_are_detected_from_values() {
    let kinds: [(&[&str], &str); 13] = [
        (&["1,200", "900", "1,050.5", "12,345,678"], "number"),
        (&["12,50", "8,00", "1.200,25"], "number"),
        (&["30-Jul-18", "1-Aug-18"], "date"),
        (&["7/30/18", "12/1/18"], "date"),
        (&["30.07.18", "01.08.19"], "date"),
        (&["1", "2.5", "-3e2", "４"], "number"),
        (&["1", "", "n/a", "2"], "number"),
        (&["2024-01-31", "2024-02-01T10:00:00Z"], "date"),
        (&["31.1.2024", "1.2.2024"], "date"),
        (&["2024年1月31日", "令和6年2月1日"], "date"),
        (&["5 Jan 2024", "January 6, 2024"], "date"),
        (&["Ginza", "Ueno", "Ginza"], "category"),
        (&["A-1", "A-1", "B-2"], "category"),
    ];
    for (cells, kind) in kinds {
        assert_eq!(fitted_column(cells).kind_name(), kind, "{cells:?}");
    }
    let few = fit_column(&of_kind("category"), &["1", "1", "2"]).unwrap().column.unwrap();
    assert_eq!(few.kind, FeatureColumnKind::Category { values: vec!["1".into()] });
}

#[test]
fn unclear_columns_are_errors_with_the_value_and_advice() {
    let wrong = |cells: &[&str], wanted: FeatureRequest| fit_column(&wanted, cells).unwrap_err();
    for cells in [["¥1,200", "¥900"], ["1,200円", "900円"], ["$12", "15"], ["50%", "60%"]] {
        let unclear = wrong(&cells, request("x"));
        assert_eq!(unclear.cell, cells[0]);
        assert!(unclear.problem.contains("x:category") && unclear.problem.contains("1200"), "{}", unclear.problem);
    }
    // A comma has one meaning within a column.
    let mixed = wrong(&["12,50", "1,200.75"], request("x"));
    assert!(mixed.cell == "1,200.75", "{}", mixed.problem);
    let half = wrong(&["1", "2", "call us", "3", "ask"], request("x"));
    assert!(half.cell == "call us" && half.problem.contains("3 of 5"), "{}", half.problem);
    let no_dates = wrong(&["2024-01-31", "soon"], of_kind("date"));
    assert!(no_dates.cell == "soon" && no_dates.problem.contains("a date"), "{}", no_dates.problem);
}

#[test]
fn columns_without_information_are_left_out_with_a_note() {
    for cells in [["", ""], ["7", "7"], ["a", "b"], ["a", "a"], ["2024-01-01", "2024-01-01"]] {
        let found = fit_column(&request("x"), &cells).unwrap();
        assert!(found.column.is_none() && found.notes[0].contains("“x”"), "{cells:?} {:?}", found.notes);
    }
    let mut cells = vec!["5"; 20];
    cells.extend(["6", "none of your business"]);
    let found = fit_column(&request("x"), &cells).unwrap();
    assert!(found.column.is_some() && found.notes[0].contains("1 of 22"), "{:?}", found.notes);
}

fn features(column: &FeatureColumn, cell: &str) -> Vec<(usize, f32)> {
    let mut found = Vec::new();
    column.for_each_feature(cell, |feature, value| found.push((feature, value)));
    found
}

#[test]
fn features_follow_the_formulas() {
    // Mean 2, deviation 1. Neither value starts a step, because there are too few rows.
    let number = fitted_column(&["1", "3"]);
    assert_eq!(features(&number, "4"), [(0, 2.0), (1, 1.0)]);
    assert_eq!(features(&number, "1e9")[0], (0, 3.0), "an outlier counts at most three deviations");
    assert_eq!(features(&number, "n/a"), [(2, 1.0)]);
    let cells: Vec<String> = (1..=100).map(|i| i.to_string()).collect();
    let steps = fitted_column(&cells.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!([features(&steps, "0")[1].0, features(&steps, "11")[1].0, features(&steps, "100")[1].0], [1, 2, 10]);

    let shop = fitted_column(&["Ueno", "Ginza", "Ginza", "Ueno", "Kanda"]);
    assert_eq!(shop.num_features(), 4);
    let of = |cell: &str| features(&shop, cell);
    assert_eq!([of(" Ginza"), of("Ueno"), of("Kanda"), of("")], [0, 1, 2, 3].map(|f| vec![(f, 1.0)]));

    let date = fitted_column(&["2023-01-01", "2024-01-01"]);
    // A Wednesday in January.
    let found = features(&date, "2024-01-31");
    assert_eq!((found[1], found[2], found.len()), ((1, 1.0), (1 + 12 + 3, 1.0), 3));
    let times = fitted_column(&["2023-01-01 09:30", "2024-01-01 18:00"]);
    assert_eq!(features(&times, "2024-01-31 6:05 PM")[3], (1 + 12 + 7 + 18, 1.0));
    assert_eq!(features(&times, "soon"), [(times.num_features() - 1, 1.0)]);
}

#[test]
fn day_first_dates_are_detected_from_the_rows() {
    let column = fitted_column(&["31/12/2023", "01/02/2024"]);
    let ColumnValue::Date(moment) = column.parse("05/03/2024") else { panic!("no date") };
    assert_eq!((moment.date.month, moment.date.day), (3, 5));
    let open = fit_column(&request("x"), &["05/03/2024", "06/03/2024"]).unwrap();
    assert!(open.notes[0].contains("month/day/year"), "{:?}", open.notes);
}

/// A model remembers what a point means, since a single value does not show it.
#[test]
fn points_that_separate_thousands_are_remembered() {
    let prices: Vec<String> = (1..40).map(|i| format!("{i}.{}", 100 + 17 * i)).chain(["800".to_owned()]).collect();
    let prices: Vec<&str> = prices.iter().map(String::as_str).collect();
    let column = fitted_column(&prices);
    let written = serde_json::to_string(&column).unwrap();
    for column in [&column, &serde_json::from_str(&written).unwrap()] {
        assert_eq!(column.parse("1.234"), ColumnValue::Number(1234.0));
        assert_eq!(column.parse("1.234,5"), ColumnValue::Number(1234.5));
    }
    let decimals = fitted_column(&["1.234", "2.5", "800"]);
    assert_eq!(decimals.parse("1.234"), ColumnValue::Number(1.234));
    assert!(!serde_json::to_string(&decimals).unwrap().contains("point_groups"));
}

#[test]
fn numbers_with_separators_are_parsed() {
    let column = fitted_column(&["1,200", "900", "3,000"]);
    let FeatureColumnKind::Number { mean, .. } = &column.kind else { panic!("no number") };
    assert_eq!(*mean, 1700.0);
    assert_eq!(column.parse("12,345"), ColumnValue::Number(12345.0));
    assert_eq!(column.parse("12345"), ColumnValue::Number(12345.0));
    // Two-digit years are read as in POSIX.
    let ColumnValue::Date(moment) = fitted_column(&["30-Jul-18", "1-Aug-18"]).parse("15-Mar-71") else {
        panic!("no date")
    };
    assert_eq!(moment.date.to_string(), "1971-03-15");
}

#[test]
fn only_valid_dates_are_parsed() {
    for cell in ["2023-02-29", "2024-13-01", "2024-00-10", "2024-1", "1-2-3", "12", "2024-01-01 25:00", "2024-01-01 x"]
    {
        assert_eq!(date::parse(cell, false), None, "{cell}");
    }
    for cell in [
        "2024-02-29",
        "2024/2/29",
        "Feb. 29, 2024",
        "29-Feb-2024",
        "29-Feb-24",
        "2/29/24",
        "29.2.24",
        "２０２４年２月２９日",
        "2024-02-29T23:59:59.5+09:00",
    ] {
        let found = date::parse(cell, false).unwrap_or_else(|| panic!("{cell}"));
        assert_eq!(found.date_hour.date.to_string(), "2024-02-29", "{cell}");
    }
}

#[test]
fn absent_values_of_a_row_are_missing() {
    let columns = [fitted_column(&["1", "3"]), fitted_column(&["a", "a", "b"])];
    let (mut indices, mut values) = (Vec::new(), Vec::new());
    push_features(&columns, 0.5, "a text".as_row(), &mut indices, &mut values);
    assert_eq!(indices, [2, 5]);
    push_features(&columns, 0.5, "a text".as_row().with_values(&["3", "a"]).as_row(), &mut indices, &mut values);
    assert_eq!((&indices[2..], &values[2..]), (&[0, 1, 3][..], &[0.5; 3][..]));
}

#[test]
fn invalid_columns_are_rejected() {
    let sound = fitted_column(&["1", "3"]);
    assert!(sound.check().is_ok());
    let number = |deviation: f64, steps: Vec<f64>| FeatureColumn {
        name: "x".into(),
        kind: FeatureColumnKind::Number { mean: 0.0, deviation, steps, has_point_groups: false },
    };
    let values = |values: [&str; 2]| FeatureColumn {
        name: "x".into(),
        kind: FeatureColumnKind::Category { values: values.map(String::from).to_vec() },
    };
    for column in [number(0.0, vec![]), number(f64::NAN, vec![]), number(1.0, vec![2.0, 1.0]), values(["b", "a"])] {
        assert!(column.check().is_err(), "{column:?}");
    }
    assert!(check(std::slice::from_ref(&sound), 0.5).is_ok() && check(std::slice::from_ref(&sound), 0.0).is_err());
    assert!(check(&vec![sound; MAX_COLUMNS + 1], 0.5).is_err());
}

proptest! {
    #[test]
    fn any_values_can_be_fitted_and_read(cells in proptest::collection::vec("\\PC{0,12}|[0-9/.: -]{0,16}|[0-9]{1,4}年[0-9]{1,3}月[0-9]{1,2}日", 1..20), other in "\\PC{0,20}") {
        let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        for requested in [request("x"), of_kind("number"), of_kind("category"), of_kind("date")] {
            let Ok(found) = fit_column(&requested, &cells) else { continue };
            let Some(column) = found.column else { continue };
            prop_assert!(column.check().is_ok());
            for cell in cells.iter().copied().chain([other.as_str()]) {
                let features = features(&column, cell);
                prop_assert!(!features.is_empty());
                prop_assert!(features.iter().all(|(f, x)| *f < column.num_features() && x.is_finite()));
                prop_assert!(features.windows(2).all(|pair| pair[0].0 < pair[1].0));
            }
        }
    }
}
