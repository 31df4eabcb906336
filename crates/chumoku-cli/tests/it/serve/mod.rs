//! The service gives the command's answers, for single and concurrent requests, and answers or rejects every request.
//! Tests that send signals run on Unix.

mod answers;
#[cfg(unix)]
mod ending;
mod limits;
mod pages;
mod refusals;
#[cfg(unix)]
mod reloading;

use crate::common::TestDir;
use serde_json::Value;
use std::sync::OnceLock;

/// A folder with a model of each kind.
fn place() -> &'static TestDir {
    static PLACE: OnceLock<TestDir> = OnceLock::new();
    PLACE.get_or_init(|| {
        let place = TestDir::shared_by_file("serve");
        place.train_small("reviews", &["--epochs", "1"]);
        place.run(&["train", "reviews.csv", "--out", "ngrams", "--model", "ngrams"]).assert_success();
        let rows = (0..60).map(|i| format!("number {i}\tnombre {i}\n")).collect::<String>();
        place.write("numbers.tsv", format!("source\ttarget\n{rows}"));
        place
            .run(&["train", "numbers.tsv", "--task", "translate", "--out", "numbers", "--epochs", "1"])
            .assert_success();
        let [people, deeds] =
            [["the cat", "a dog", "my friend", "the old man"], ["saw", "likes", "never met", "heard"]];
        let line =
            |i: usize| format!("{} {} {}.\n", people[i * 7 % 4], deeds[i * 5 / 4 % 4], people[(i * 3 + i / 9) % 4]);
        place.write("book.txt", (0..400).map(line).collect::<String>());
        place.run(&["train", "book.txt", "--task", "lm", "--out", "book", "--epochs", "1"]).assert_success();
        let sentence = |i: usize| {
            let (who, town) = (["Anna", "Ben", "Clara", "Emma", "Hugo"][i % 5], ["Oslo", "Rome", "Kyoto"][i / 5 % 3]);
            format!("{who} B-person\n{} O\nin O\n{town} B-place\n\n", ["waits", "lives", "works"][i / 15])
        };
        place.write("names.conll", (0..45).map(sentence).collect::<String>());
        place.run(&["train", "names.conll", "--task", "tag", "--out", "names"]).assert_success();
        let bert = TestDir::with_bert();
        place.copy_folder(&bert.path("bert"), "bert");
        place
    })
}

const ALL_MODELS: [&str; 6] = ["reviews", "ngrams", "names", "bert", "numbers", "book"];

/// Parses the JSON output of a command.
fn run_json(args: &[&str]) -> Vec<Value> {
    place().run(args).assert_success().json_lines()
}
