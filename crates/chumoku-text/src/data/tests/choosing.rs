//! Header detection and column choice.

use super::*;
use crate::row::FeatureRequest;

#[test]
fn headers_are_distinguished_from_data() {
    let folder = Folder::new();
    let header = |content: &str| {
        RowSource::open(&folder.file("a.csv", content), &ReadOptions::default()).unwrap().layout().header
    };
    assert!(header("Text,Label\na b,x\n"));
    assert!(header(",text,label\n0,good one,x\n1,bad one,y\n"));
    assert!(header("0,1\ngood one,x\nbad one,y\n"));
    assert!(header("レビュー,id\nよかった。,1\nいまいち。,2\n"));
    assert!(header("phrase,year\nsome words here,1990\nother words,1991\n"));
    assert!(header("phrase,kind\na b c,x\nd e f,x\ng h i,y\nj k l,y\nm n,x\no p,x\nq r,y\ns t,y\n"));
    assert!(header("text,label\na comment,x\ntext,label\nmore,y\n"), "a header that comes again");
    assert!(!header("great film,1\nbad film,0\nfine film,1\n"));
    assert!(!header("はい。,1\nとても良い宿でした。,0\n"));
    assert!(!header("good food,pos\nbad food,neg\nfine food,pos\n"));
    assert!(!header("comment,so it goes\nquestion,what is it\ncomment,fine then\n"));
    assert!(!header("one text only\nanother text\n"));
    assert!(header("review\none text only\nanother text\n"));
}

#[test]
fn columns_without_known_names_are_chosen_by_content() {
    let folder = Folder::new();
    let mut content = "uuid,when,words,kind\n".to_owned();
    for i in 0..40 {
        let kind = if i % 3 == 0 { "red" } else { "blue" };
        content += &format!("{i:08x}-0000-4000-8000-00{i:08x}ff,2024-01-01 12:00:{i:02},short words {i},{kind}\n");
    }
    let source = RowSource::open(&folder.file("a.csv", &content), &labeled()).unwrap();
    assert_eq!((source.columns().text, source.columns().label), (2, Some(3)));
    assert!(source.describe().ends_with(
        "text = column “words” (the longest and most varied), label = column “kind” (few distinct values); not used: \
             column “uuid”, column “when”"
    ));

    // Options select by name, by name in other case, or by number.
    for (text, label) in [("when", "uuid"), ("WHEN", "UUID"), ("2", "1")] {
        let options = ReadOptions { text: Some(text.into()), label: Some(label.into()), ..labeled() };
        let source = RowSource::open(&folder.path("a.csv"), &options).unwrap();
        assert_eq!((source.columns().text, source.columns().label), (1, Some(0)));
        let message = source.describe();
        assert!(
            message.contains("text = column “when” (as requested), label = column “uuid” (as requested); not used: "),
            "{message}"
        );
    }
    // The clearest name is chosen. The other columns are not used.
    let path = folder.file("b.csv", "title,body,text,category,label\nA,b c,d e,x,1\nF,g h,i j,y,0\n");
    let source = RowSource::open(&path, &labeled()).unwrap();
    assert_eq!((source.columns().text, source.columns().label), (2, Some(4)));
}

#[test]
fn prediction_keeps_all_columns_of_a_labeled_file() {
    let folder = Folder::new();
    let path = folder.file("a.csv", "id,text,label,note\n1,good,x,n1\n2,bad,y,n2\n");
    let source = RowSource::open(&path, &ReadOptions::default()).unwrap();
    assert_eq!(source.layout().columns, ["id", "text", "label", "note"]);
    assert_eq!((source.columns().text, source.columns().label), (1, Some(2)));
    assert_eq!(rows(&path, &ReadOptions::default())[1], ["2", "bad", "y", "n2"]);
}

#[test]
fn feature_columns_come_with_the_text_and_have_no_other_role() {
    let asking = |names: &[&str]| {
        let request = |name: &&str| FeatureRequest { name: (*name).to_owned(), ..FeatureRequest::default() };
        ReadOptions { features: names.iter().map(request).collect(), ..labeled() }
    };
    let folder = Folder::new();
    // Without options, `category` would be the label, and `body` the text.
    let csv = "category,body,words,kind\nx,short,a good one,p\ny,tiny,a bad one,q\nx,small,a fair one,p\n";
    let path = folder.file("a.csv", csv);
    // Features named like the text or the label require explicit options.
    assert!(matches!(RowSource::open(&path, &asking(&["Category", "body"])), Err(DataError::ColumnInUse { .. })));
    let asking = |names: &[&str]| {
        let named = |name: &str| Some(name.to_owned());
        ReadOptions { text: named("words"), label: named("kind"), ..asking(names) }
    };
    let source = RowSource::open(&path, &asking(&["Category", "body"])).unwrap();
    assert_eq!((source.columns().text, source.columns().label), (2, Some(3)));
    assert!(source.describe().contains("feature columns = column “category”, column “body”"), "{}", source.describe());
    let found = load_labeled(&path, &asking(&["body", "category"])).unwrap().examples;
    assert_eq!(found[1].text, "a bad one".as_row().with_values(&["tiny", "y"]));
    assert_eq!(found[1].label, "q");
    // One value for all rows instead of a column.
    let mut options = asking(&["shop", "body"]);
    options.features[0].value = Some("Ueno".into());
    assert_eq!(
        load_labeled(&path, &options).unwrap().examples[0].text,
        "a good one".as_row().with_values(&["Ueno", "short"])
    );
    // Without feature columns a text has no separator, whatever the file holds.
    let path = folder.file("b.csv", "text,label\na\u{1e}b c,x\nd e,y\n");
    assert_eq!(pairs(&path, &labeled())[0].0, "a b c");
    for (names, part) in [(&["label"][..], "other than the text and the label"), (&["text", "text"], "each once")] {
        let text = message(
            "c.csv",
            "text,label\na b,x\nc d,y\n",
            &ReadOptions { text: Some("text".into()), label: Some("label".into()), ..asking(names) },
        );
        assert!(text.contains(part) && text.contains("--columns"), "{text}");
    }
    let text = message("d.txt", "one\ntwo\n", &asking(&["shop"]));
    assert!(text.contains("expected columns with names (“shop”), found plain text"), "{text}");
}
