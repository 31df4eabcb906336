//! Replacing a model while a program reads its folder: the program reads one model, never a mixture of two.

use crate::common::{HoldPoint, Run, TestDir, csv, reviews};
use crate::service::Server;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::process::{Child, Stdio};

/// Replaces the files of the model in `to` by those in `from`, in the order of training: the configuration comes last.
fn replace_file(place: &TestDir, from: &str, to: &str) {
    let is_file = |name: &String| place.path(from).join(name).is_file() && !name.starts_with('.');
    let mut names: Vec<String> = place.file_names(from).into_iter().filter(is_file).collect();
    names.sort_by_key(|name| name == "config.json");
    for name in place.file_names(to).iter().filter(|name| place.path(to).join(name).is_file() && !names.contains(name))
    {
        fs::remove_file(place.path(to).join(name)).unwrap();
    }
    for name in names {
        let copy = place.path("copy");
        fs::copy(place.path(from).join(&name), &copy).unwrap();
        fs::rename(copy, place.path(to).join(name)).unwrap();
    }
}

/// Starts a command that is held when it opens weights.
fn start_held(place: &TestDir, args: &[&str], hold: &HoldPoint) -> Child {
    let mut command = place.command(args);
    command.envs([hold.environment()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    assert!(
        hold.wait_until_reached_by(&mut child),
        "{args:?} opens no weights: {:#?}",
        Run::from_output(child.wait_with_output().unwrap())
    );
    child
}

/// Runs a command on the folder `model`. Its model `old` is replaced by `new` before the weights are opened for the
/// `nth` time.
fn run_while_replaced(place: &TestDir, args: &[&str], [old, new]: [&str; 2], nth: usize) -> Run {
    let _ = fs::remove_dir_all(place.path("model"));
    place.copy_folder(&place.path(old), "model");
    let hold = HoldPoint::at(&format!("weights:{nth}"));
    let child = start_held(place, args, &hold);
    replace_file(place, new, "model");
    hold.release();
    Run::from_output(child.wait_with_output().unwrap())
}

/// Checks each command while `new` replaces `old`: the output must equal that of `new` alone, and differ from that of
/// `old`.
#[track_caller]
fn check(place: &TestDir, commands: &[&[&str]], models: [&str; 2]) {
    for args in commands {
        let [before, after] = models.map(|name| {
            let _ = fs::remove_dir_all(place.path("model"));
            place.copy_folder(&place.path(name), "model");
            place.run_uncached(args).assert_success().stdout
        });
        assert_ne!(before, after, "{args:?}");
        let run = run_while_replaced(place, args, models, 1).assert_success();
        assert_eq!(run.stdout, after, "{args:?}: {}", run.stderr);
    }
}

/// Two files with the same texts and differently named labels.
fn two_classifiers(more: &[&str]) -> TestDir {
    let place = TestDir::new();
    let rows = reviews(60);
    // The sorted class names of the second file are in the reverse order of the first.
    let renamed = |label: &str| if label == "negative" { "yes" } else { "no" }.to_owned();
    place.write("old.csv", csv(&rows));
    place.write("new.csv", csv(&rows.into_iter().map(|(text, label)| (text, renamed(&label))).collect::<Vec<_>>()));
    for name in ["old", "new"] {
        let data = format!("{name}.csv");
        place.run(&[&["train", &data, "--out", name], more].concat()).assert_success();
    }
    place
}

const TEXT: &str = "Slow, cold and not worth the money.";

#[test]
fn a_classifier_replaced_during_loading_is_never_mixed() {
    let place = two_classifiers(&["--epochs", "1"]);
    let predict: &[&str] = &["predict", "model", "--json", TEXT];
    check(
        &place,
        &[
            predict,
            &["explain", "model", TEXT, "--json", "-"],
            &["info", "model", "--json"],
            &["trace", "--model", "model", "--text", TEXT],
        ],
        ["old", "new"],
    );
    // Training itself replaces the model after a reader has read the configuration, but not the weights.
    let after = place.run_uncached(predict).assert_success().stdout;
    replace_file(&place, "old", "model");
    let hold = HoldPoint::at("weights");
    let child = start_held(&place, predict, &hold);
    place.run_uncached(&["train", "new.csv", "--out", "model", "--force", "--epochs", "1"]).assert_success();
    hold.release();
    assert_eq!(Run::from_output(child.wait_with_output().unwrap()).assert_success().stdout, after);
}

#[test]
fn the_overlap_with_training_rows_belongs_to_the_scored_model() {
    let place = two_classifiers(&["--model", "ngrams"]);
    // The second model was trained on other texts only.
    let others = reviews(120).split_off(60).into_iter().map(|(text, _)| text);
    let rows: Vec<_> = others.enumerate().map(|(i, text)| (text, ["no", "yes"][i % 2].to_owned())).collect();
    place.write("others.csv", csv(&rows));
    place.run(&["train", "others.csv", "--out", "other", "--model", "ngrams"]).assert_success();
    let eval: &[&str] = &["eval", "model", "new.csv", "--json"];
    check(&place, &[eval], ["new", "other"]);
    let run = run_while_replaced(&place, eval, ["new", "other"], 1).assert_success();
    assert_eq!(run.json()["rows_trained_on"], 0);
}

#[test]
fn every_other_kind_replaced_during_loading_is_never_mixed() {
    let place = two_classifiers(&["--model", "ngrams"]);
    check(&place, &[&["predict", "model", "--json", TEXT], &["explain", "model", TEXT, "--json", "-"]], ["old", "new"]);
    // Taggers.
    let sentence = |label: &str, i: usize| {
        let (who, town) = (["Anna", "Ben", "Clara", "Emma"][i % 4], ["Oslo", "Rome", "Kyoto"][i / 4 % 3]);
        format!("{who} B-{label}\nwaits O\nin O\n{town} B-town\n\n")
    };
    for (name, label) in [("old", "person"), ("new", "woman")] {
        place.write("names.conll", (0..36).map(|i| sentence(label, i)).collect::<String>());
        place.run(&["train", "names.conll", "--task", "tag", "--out", &format!("{name}-tagger")]).assert_success();
    }
    check(&place, &[&["predict", "model", "--json", "Anna waits in Rome"]], ["old-tagger", "new-tagger"]);
    // Translators.
    let rows = |word: &str| (0..60).map(|i| format!("number {i}\t{word} {i}\n")).collect::<String>();
    for (name, word) in [("old", "nombre"), ("new", "zahl")] {
        place.write("numbers.tsv", format!("source\ttarget\n{}", rows(word)));
        let out = format!("{name}-translator");
        place.run(&["train", "numbers.tsv", "--task", "translate", "--out", &out, "--epochs", "1"]).assert_success();
    }
    check(&place, &[&["translate", "model", "--json", "number 7"]], ["old-translator", "new-translator"]);
    // Language models.
    for (name, line) in [("old", "to be or not to be\n"), ("new", "all the world is a stage\n")] {
        place.write("plays.txt", line.repeat(120));
        place
            .run(&["train", "plays.txt", "--task", "lm", "--epochs", "1", "--out", &format!("{name}-lm")])
            .assert_success();
    }
    let generate: &[&str] = &["generate", "model", "the", "--max-tokens", "8"];
    check(&place, &[generate], ["old-lm", "new-lm"]);
}

/// Encoders pretrained here, and classifiers built from one, have the format of Hugging Face. The classifiers have two
/// files of weights.
#[test]
fn hugging_face_folders_replaced_during_loading_are_never_mixed() {
    let place = TestDir::with_bert();
    for (name, labels) in [("old", ["neg", "pos"]), ("new", ["x", "a"])] {
        let row = |i: usize| {
            let word = ["bad", "good"][i % 2];
            (format!("the {} was {word} {i}", ["film", "food"][i / 2 % 2]), labels[i % 2].to_owned())
        };
        place.write("data.csv", csv(&(0..80).map(row).collect::<Vec<_>>()));
        place.run(&["train", "data.csv", "--from", "bert", "--out", name, "--epochs", "1"]).assert_success();
        assert!(place.path(name).join("ngrams.safetensors").is_file());
    }
    let predict = ["predict", "model", "--json", "the film was good"];
    check(&place, &[&predict], ["old", "new"]);
    let after = place.run_uncached(&predict).assert_success().stdout;
    assert_eq!(run_while_replaced(&place, &predict, ["old", "new"], 2).assert_success().stdout, after);
    for (name, word) in [("old", "film"), ("new", "food")] {
        let row =
            |i: usize| json!({ "text": format!("the {word} was {} on day {i}", ["good", "bad"][i % 2]) }).to_string();
        place.write("texts.jsonl", (0..120).map(row).collect::<Vec<_>>().join("\n"));
        let out = format!("{name}-encoder");
        place
            .run(&["train", "texts.jsonl", "--task", "mlm", "--text", "text", "--out", &out, "--epochs", "1"])
            .assert_success();
    }
    check(&place, &[&["embed", "model", "the film was good"]], ["old-encoder", "new-encoder"]);
}

#[test]
#[cfg_attr(windows, ignore = "sends a signal of Unix")]
fn a_service_loads_and_reloads_one_model() {
    let place = two_classifiers(&["--model", "ngrams"]);
    let request = json!({ "inputs": TEXT, "full": true });
    let answer = |name: &str| place.run_uncached(&["predict", name, TEXT, "--json"]).assert_success().json();
    let [old, new] = ["old", "new"].map(answer);
    place.copy_folder(&place.path("old"), "model");
    // At the start.
    let hold = HoldPoint::at("weights");
    let (name, value) = hold.environment();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| Server::start_with_environment(&place, &["model"], &[(name, &value)]));
        hold.wait_until_reached();
        replace_file(&place, "new", "model");
        hold.release();
        let mut server = server.join().unwrap();
        assert_eq!(server.post_json("/predict", &request), new);
        server.send_signal("TERM");
        assert_eq!(server.wait_for_exit(), 0);
    });
    // While it runs.
    let hold = HoldPoint::at("weights:2");
    let mut server = Server::start_held(&place, &["model"], &hold);
    assert_eq!(server.post_json("/predict", &request), new);
    replace_file(&place, "old", "model");
    server.send_signal("HUP");
    hold.wait_until_reached();
    // The old model answers meanwhile.
    assert_eq!(server.post_json("/predict", &request), new);
    replace_file(&place, "new", "model");
    replace_file(&place, "old", "model");
    hold.release();
    server.wait_for_line("new model (ngrams)");
    assert_eq!(server.post_json("/predict", &request), old);
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit(), 0);
}

#[test]
fn training_starts_from_one_model() {
    let place = two_classifiers(&["--model", "ngrams"]);
    let rows: Vec<_> = reviews(90).split_off(60).into_iter().map(|(text, _)| (text, "maybe".to_owned())).collect();
    place.write("more.csv", csv(&rows));
    let train = ["train", "more.csv", "--from", "model", "--old", "none", "--out", "further", "--force"];
    let run = run_while_replaced(&place, &train, ["old", "new"], 1);
    let labels = |folder: &str| place.json(&format!("{folder}/config.json"))["labels"].clone();
    assert_eq!((run.assert_success().code, labels("further")), (0, json!(["maybe", "no", "yes"])));
    // This replacement comes too late: the rows belong to the old model.
    let late = run_while_replaced(&place, &train, ["old", "new"], 2);
    assert_eq!(late.code, 2, "{late:#?}");
    late.assert_one_error(&["model", "another model in its place"]);
}

#[test]
fn a_folder_with_a_mixture_of_two_models_is_rejected_in_both_languages() {
    let place = two_classifiers(&["--model", "ngrams"]);
    let mix = |with: &str| {
        let _ = fs::remove_dir_all(place.path("model"));
        place.copy_folder(&place.path("old"), "model");
        fs::copy(place.path(with).join("model.safetensors"), place.path("model/model.safetensors")).unwrap();
    };
    let predict = ["predict", "model", TEXT];
    mix("new");
    place.run_rejected(&predict, &["model.safetensors", "those of another", "copy the whole folder again"]);
    place.run_rejected(
        &["predict", "model", TEXT, "--lang", "ja"],
        &["model.safetensors", "別のモデル", "コピーし直す"],
    );
    // Without the id in one of the two files, mixing cannot be detected, as in folders of older versions.
    mix("old");
    let mut config: Value = place.json("model/config.json");
    let generation = config.as_object_mut().unwrap().remove("chumoku_generation").unwrap();
    assert_eq!(generation.as_str().map(str::len), Some(32));
    fs::File::create(place.path("model/config.json")).unwrap().write_all(config.to_string().as_bytes()).unwrap();
    assert_eq!(
        place.run_uncached(&predict).assert_success().stdout,
        place.run_uncached(&["predict", "old", TEXT]).assert_success().stdout
    );
}

/// The id depends on the model: equal trainings give equal folders, and other data another id.
#[test]
fn equal_models_have_the_same_id() {
    let place = two_classifiers(&["--model", "ngrams"]);
    let id = |folder: &str| place.json(&format!("{folder}/config.json"))["chumoku_generation"].clone();
    place.run_uncached(&["train", "old.csv", "--out", "again", "--model", "ngrams"]).assert_success();
    assert_eq!(id("again"), id("old"));
    assert_ne!(id("new"), id("old"));
    let bytes = fs::read(place.path("old/model.safetensors")).unwrap();
    let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(header.metadata().as_ref().unwrap()["chumoku_generation"], id("old").as_str().unwrap());
}
