//! Incomplete, damaged or hostile model folders give one clear error line that names the file, and exit code 2. Sizes
//! that a file merely claims allocate no memory.

use crate::common::{TestDir, csv, reviews};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::sync::OnceLock;
use testkit::exhaustive;

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
const TOKENIZER: &str = "tokenizer.json";

/// Two small models, trained on different reviews.
fn trained_model() -> &'static TestDir {
    static PLACE: OnceLock<TestDir> = OnceLock::new();
    PLACE.get_or_init(|| {
        let place = TestDir::shared_by_file("bad_model");
        place.train_small("model", &[]);
        place.write("others.csv", csv(&reviews(300)[100..]));
        place.run(&["train", "others.csv", "--out", "other", "--epochs", "1"]).assert_success();
        place
    })
}

/// A copy of the model with a modification.
fn changed_model(change: impl FnOnce(&TestDir)) -> TestDir {
    let place = TestDir::new();
    for name in [CONFIG, WEIGHTS, TOKENIZER] {
        fs::create_dir_all(place.path("model")).unwrap();
        fs::copy(trained_model().path("model").join(name), place.path("model").join(name)).unwrap();
    }
    place.write("x.csv", csv(&reviews(8)));
    change(&place);
    place
}

/// Checks that every command that reads a model rejects it, names the file, and takes little memory. All commands use
/// the same loader, so a call runs one of three in rotation unless tests are exhaustive.
#[track_caller]
fn check_rejected(place: &TestDir, file: &str, words: &[&str]) {
    let words = [&[file], words].concat();
    let commands: [&[&str]; 3] = [
        &["eval", "model", "x.csv"],
        &["predict", "model", "--input", "x.csv"],
        &["explain", "model", "a fine day", "--html", "page.html"],
    ];
    let turn = words.concat().len() % commands.len();
    for (n, command) in commands.into_iter().enumerate() {
        if n == turn || exhaustive("chumoku-cli") {
            place.run_rejected(command, &words);
        }
    }
    let run = place.run_with_peak_memory(&["predict", "model", "a fine day"]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:#?}");
    run.assert_one_error(&words);
    match run.peak_bytes {
        Some(peak) => assert!(peak < 150 << 20, "held {} MiB", peak >> 20),
        None => eprintln!("SKIPPED: this system does not tell the peak memory"),
    }
}

fn edit_json(place: &TestDir, name: &str, edit: impl FnOnce(&mut Value)) {
    let name = format!("model/{name}");
    let mut value = place.json(&name);
    edit(&mut value);
    place.write(&name, value.to_string());
}

#[test]
fn an_unchanged_copy_works() {
    let place = changed_model(|_| {});
    for args in [&["predict", "model", "a fine day"][..], &["eval", "model", "x.csv"], &["explain", "model", "fine"]] {
        place.run(args).assert_success();
    }
}

#[test]
fn folders_without_a_model() {
    let place = TestDir::new();
    place.write("x.csv", csv(&reviews(40)));
    fs::create_dir(place.path("empty")).unwrap();
    let refused = |model: &str, words: &[&str]| {
        for args in [["predict", model, "text"], ["eval", model, "x.csv"], ["explain", model, "text"]] {
            place.run_rejected(&args, words);
        }
    };
    refused("nowhere", &["nowhere", "no such folder", "chumoku train"]);
    refused("x.csv", &["x.csv", "expected a model folder"]);
    refused("empty", &["empty/config.json", "missing", "chumoku train"]);
    // A run that has not written its model yet.
    place.train_small("half", &["--epochs", "1"]);
    fs::remove_file(place.path("half").join(WEIGHTS)).unwrap();
    refused("half", &["half/model.safetensors", "not finished", "--resume"]);
    fs::remove_file(place.path("half").join(CONFIG)).unwrap();
    refused("half", &["half/config.json", "missing", "--resume"]);
    // A finished run that has lost a file since.
    place.train_small("lossy", &["--epochs", "1"]);
    fs::remove_file(place.path("lossy").join(TOKENIZER)).unwrap();
    refused("lossy", &["lossy/tokenizer.json", "missing, though training finished", "--resume"]);
    place.train_small("lossy", &["--epochs", "1", "--resume"]);
    place.run(&["predict", "lossy", "text"]).assert_success();
}

#[test]
fn missing_truncated_and_replaced_files() {
    for name in [CONFIG, WEIGHTS, TOKENIZER] {
        let file = format!("model/{name}");
        check_rejected(&changed_model(|place| fs::remove_file(place.path(&file)).unwrap()), &file, &["missing"]);
        let bytes = fs::read(trained_model().path(&file)).unwrap();
        for part in [0, 7, bytes.len() / 2, bytes.len() - 3] {
            check_rejected(&changed_model(|place| place.write(&file, &bytes[..part])), &file, &[]);
        }
        check_rejected(&changed_model(|place| place.write(&file, [0xff; 4000])), &file, &[]);
        check_rejected(&changed_model(|place| place.write(&file, "[".repeat(200_000))), &file, &[]);
        check_rejected(&changed_model(|place| place.write(&file, "{}")), &file, &[]);
        // Such entries are reported but not opened: a pipe has no end, and a link leads out of the folder.
        let folder = changed_model(|place| {
            fs::rename(place.path(&file), place.path("elsewhere")).unwrap();
            fs::create_dir(place.path(&file)).unwrap();
        });
        check_rejected(&folder, &file, &["expected a file, found a folder"]);
        #[cfg(unix)]
        {
            let instead = |command: &str| {
                changed_model(|place| {
                    fs::rename(place.path(&file), place.path("elsewhere")).unwrap();
                    place.run_shell(&format!("{command} {file}")).assert_success();
                })
            };
            check_rejected(&instead("mkfifo"), &file, &["expected a file, found a pipe"]);
            check_rejected(&instead("ln -s ../elsewhere"), &file, &["expected a file, found a symbolic link"]);
            check_rejected(&instead("ln -s /dev/zero"), &file, &["expected a file, found a symbolic link"]);
        }
    }
}

#[test]
fn hostile_weight_headers() {
    let file = "model/model.safetensors";
    let bytes = fs::read(trained_model().path(file)).unwrap();
    for length in [u64::MAX, 1 << 62, 1 << 40, 99_999_999, 0, 1] {
        let hostile = [&length.to_le_bytes()[..], &bytes[8..]].concat();
        check_rejected(&changed_model(|place| place.write(file, hostile)), file, &["not a valid safetensors file"]);
    }
    let headers = [
        "not JSON at all".to_owned(),
        r#"{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,99999999999]}}"#.into(),
        r#"{"a":{"dtype":"F32","shape":[18446744073709551615,2],"data_offsets":[0,8]}}"#.into(),
        r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#.into(),
        r#"{"a":{"dtype":"X99","shape":[2],"data_offsets":[0,8]}}"#.into(),
        r#"{"../../a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#.into(),
        format!("{}\u{1b}[31m", "{".repeat(10_000)),
    ];
    for header in headers {
        let hostile = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 8]].concat();
        check_rejected(&changed_model(|place| place.write(file, hostile)), file, &[]);
    }
}

/// Tensors by name: dtype, shape, bytes.
type Tensors = BTreeMap<String, (safetensors::Dtype, Vec<usize>, Vec<u8>)>;

/// Modifies the tensors of the model `name`.
fn edit_tensors(place: &TestDir, name: &str, edit: impl FnOnce(&mut Tensors)) {
    let file = place.path(name).join(WEIGHTS);
    let bytes = fs::read(&file).unwrap();
    let read = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors: Tensors = read
        .tensors()
        .into_iter()
        .map(|(name, view)| (name, (view.dtype(), view.shape().to_vec(), view.data().to_vec())))
        .collect();
    edit(&mut tensors);
    let views = tensors.iter().map(|(name, (dtype, shape, data))| {
        (name.as_str(), safetensors::tensor::TensorView::new(*dtype, shape.clone(), data).unwrap())
    });
    fs::write(&file, safetensors::serialize(views, None).unwrap()).unwrap();
}

fn with_tensors(edit: impl FnOnce(&mut Tensors)) -> TestDir {
    changed_model(|place| edit_tensors(place, "model", edit))
}

#[test]
fn weights_of_wrong_shape_type_or_value() {
    let mut names: Vec<String> = {
        let bytes = fs::read(trained_model().path("model").join(WEIGHTS)).unwrap();
        let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        tensors.names().into_iter().map(str::to_owned).collect()
    };
    assert!(names.len() > 20, "{names:?}");
    names.sort();
    const MISSING: usize = 0;
    const OTHER_DTYPE: usize = 1;
    const NOT_A_NUMBER: usize = 2;
    const INFINITE: usize = 3;
    const SHORTER: usize = 4;
    for (i, name) in names.iter().enumerate() {
        let short = name.trim_start_matches("ngrams.");
        // Each tensor gets one of the faults, and each fault hits several tensors.
        for fault in (MISSING..=SHORTER).filter(|fault| exhaustive("chumoku-cli") || i % 5 == *fault) {
            if name == "ngrams.hashes" && (OTHER_DTYPE..=INFINITE).contains(&fault) {
                continue;
            }
            let bad = with_tensors(|tensors| {
                let (dtype, shape, data) = tensors.get_mut(name).unwrap();
                let last = data.len() - 4;
                match fault {
                    OTHER_DTYPE => *dtype = safetensors::Dtype::I32,
                    NOT_A_NUMBER => data[last..].copy_from_slice(&f32::NAN.to_le_bytes()),
                    INFINITE => data[last..].copy_from_slice(&f32::INFINITY.to_le_bytes()),
                    SHORTER => {
                        data.truncate(data.len() - data.len() / shape[0]);
                        shape[0] -= 1;
                    }
                    _ => drop(tensors.remove(name)),
                }
            });
            let named: &[&str] = match fault {
                OTHER_DTYPE => &["model/model.safetensors", short, "I32"],
                SHORTER => &["model/model.safetensors"],
                _ => &["model/model.safetensors", short],
            };
            bad.run_rejected(&["predict", "model", "text"], named);
        }
    }
}

#[test]
fn tensors_unknown_to_the_configuration() {
    let more = |names: &'static [&'static str]| {
        with_tensors(move |tensors| {
            let bias = tensors["head.bias"].clone();
            names.iter().for_each(|name| drop(tensors.insert((*name).into(), bias.clone())));
        })
    };
    let weights = "model/model.safetensors";
    check_rejected(&more(&["x.weight"]), weights, &["found 1 more: x.weight"]);
    check_rejected(&more(&["ngrams.more"]), weights, &["found 1 more: ngrams.more"]);
    check_rejected(&more(&["f", "e", "d", "c", "b"]), weights, &["found 5 more: b, c, d, e, …"]);
    // A layer missing from the configuration would be missing from every prediction.
    let fewer = changed_model(|place| {
        edit_json(place, CONFIG, |c| {
            let layers = c["num_layers"].as_u64().unwrap();
            assert!(layers > 1, "nothing can be left out of {layers} layers");
            c["num_layers"] = (layers - 1).into();
        });
    });
    check_rejected(&fewer, weights, &["more: encoder.layers."]);
    let no_ngrams = changed_model(|place| edit_json(place, CONFIG, |c| c["ngrams"] = Value::Null));
    check_rejected(&no_ngrams, weights, &["found 5 more: ngrams.bias"]);
}

#[test]
fn tensors_unknown_to_every_kind_of_model() {
    let place = TestDir::new();
    place.train_translator();
    place.train_language_model();
    place.write("reviews.csv", csv(&reviews(100)));
    place.run(&["train", "reviews.csv", "--model", "ngrams", "--out", "ngrams"]).assert_success();
    for (model, command) in [("turn", "translate"), ("lm", "generate"), ("ngrams", "predict")] {
        edit_tensors(&place, model, |tensors| {
            let first = tensors.values().next().unwrap().clone();
            tensors.insert("x.weight".into(), first);
        });
        let words = [&format!("{model}/{WEIGHTS}"), "expected only the tensors of the model", "found 1 more: x.weight"];
        place.run_rejected(&[command, model, "1 2"], &words);
    }
}

#[test]
fn inconsistent_or_oversized_configurations() {
    let config = |edit: fn(&mut Value), file: &str, words: &[&str]| {
        check_rejected(&changed_model(|place| edit_json(place, CONFIG, edit)), file, words);
    };
    let file = "model/config.json";
    config(|c| c["model_type"] = "../../etc/passwd".into(), file, &["model_type"]);
    config(|c| c["num_layers"] = 1_000_000_000_000u64.into(), file, &["num_layers"]);
    config(|c| c["num_layers"] = 0.into(), file, &["num_layers"]);
    config(|c| c["num_layers"] = (-1).into(), file, &["-1"]);
    config(|c| c["max_length"] = u64::MAX.into(), file, &["max_length"]);
    config(|c| c["num_heads"] = 3.into(), file, &["num_heads"]);
    config(|c| c["activation"] = "../../../bin/sh".into(), file, &["activation"]);
    config(|c| c["position"] = "\u{1b}[2Jspiral".into(), file, &["spiral"]);
    config(|c| c["blend"]["attention"] = Value::Null, file, &["null", "line 1"]);
    config(|c| c["blend"]["ngrams"] = (-1).into(), file, &["blend"]);
    config(|c| c["labels"] = json!(["a", "b", "c"]), file, &["labels", "3"]);
    config(|c| c["labels"] = json!(["a", "a"]), file, &["labels", "twice"]);
    config(|c| c["labels"] = json!(["", "a"]), file, &["labels"]);
    config(|c| drop(c.as_object_mut().unwrap().remove("labels")), file, &["labels"]);
    // More classes than the weights have, in both fields.
    let weights = "model/model.safetensors";
    config(
        |c| {
            c["labels"] = json!(["a", "b", "c"]);
            c["num_classes"] = 3.into();
        },
        weights,
        &["head."],
    );
    // Sizes within the limits that the file does not fill.
    config(|c| c["num_layers"] = 1024.into(), weights, &["no tensor encoder.layers."]);
    config(|c| c["d_model"] = 65_536.into(), weights, &["tensor", "as config.json says"]);
    config(|c| c["d_ff"] = (1 << 20).into(), weights, &["tensor", "as config.json says"]);
    config(
        |c| {
            c["position"] = "learned".into();
            c["max_length"] = (1 << 20).into();
        },
        weights,
        &["no tensor position.weight"],
    );
    config(|c| c["vocab_size"] = (1 << 24).into(), "model/tokenizer.json", &["another model"]);
    config(|c| c["ngrams"]["words"] = 99.into(), weights, &["99"]);
}

#[test]
fn tokenizers_of_another_model() {
    let file = "model/tokenizer.json";
    let swapped = |place: &TestDir| {
        fs::copy(trained_model().path("other").join(TOKENIZER), place.path(file)).unwrap();
    };
    check_rejected(&changed_model(swapped), file, &["another model"]);
    let edited = |edit: fn(&mut Value)| changed_model(|place| edit_json(place, TOKENIZER, edit));
    // The same number of tokens, but two are swapped: every prediction would be slightly wrong.
    let exchanged = edited(|t| {
        let vocab = t["model"]["vocab"].as_object_mut().unwrap();
        let ids: Vec<Value> = ["<0x41>", "<0x42>"].map(|token| vocab[token].clone()).to_vec();
        vocab["<0x41>"] = ids[1].clone();
        vocab["<0x42>"] = ids[0].clone();
    });
    check_rejected(&exchanged, file, &["another model"]);
    // A token whose id is outside the embedding.
    let outside = |number: u64| {
        changed_model(|place| {
            edit_json(place, TOKENIZER, |t| {
                let vocab = t["model"]["vocab"].as_object_mut().unwrap();
                let last = vocab.iter().max_by_key(|(_, id)| id.as_u64()).unwrap().0.clone();
                vocab[&last] = number.into();
            });
        })
    };
    check_rejected(&outside(5_000_000), file, &["another model"]);
    check_rejected(&outside(4_000_000_000), file, &["model.vocab", "4000000000"]);
    check_rejected(&edited(|t| t["model"]["type"] = "../../x".into()), file, &[]);
    check_rejected(&edited(|t| t["pre_tokenizer"]["pattern"]["Regex"] = "(((".into()), file, &[]);
    check_rejected(&edited(|t| drop(t["model"]["vocab"].as_object_mut().unwrap().remove("[CLS]"))), file, &[]);
}

#[test]
fn tokenizers_that_would_crash_the_tokenizer_library() {
    let file = "model/tokenizer.json";
    let edited = |edit: &dyn Fn(&mut Value)| changed_model(|place| edit_json(place, TOKENIZER, edit));
    // Each would cause a panic, or take all memory or time, if the library loaded it.
    check_rejected(
        &edited(&|t| t["model"]["continuing_subword_prefix"] = "x".repeat(100).into()),
        file,
        &["subword_prefix"],
    );
    check_rejected(
        &edited(&|t| t["model"]["continuing_subword_prefix"] = "x".repeat(50).into()),
        file,
        &["model.merges[0]"],
    );
    check_rejected(&edited(&|t| t["model"]["end_of_word_suffix"] = "x".repeat(90_000_000).into()), file, &["bytes"]);
    check_rejected(&edited(&|t| t["model"]["unk_token"] = "nowhere".into()), file, &["model.unk_token"]);
    check_rejected(&edited(&|t| t["model"]["vocab"]["a"] = 4_294_967_295u64.into()), file, &["model.vocab"]);
    let grown = json!({ "type": "Sequence", "normalizers":
        vec![json!({ "type": "Replace", "pattern": { "String": "a" }, "content": "aaaaaaaa" }); 40] });
    check_rejected(
        &edited(&|t| t["normalizer"] = grown.clone()),
        file,
        &["normalizer.normalizers[2]", "times as long"],
    );
    let bomb = json!({ "type": "Precompiled", "precompiled_charsmap": "not base64 at all" });
    check_rejected(&edited(&|t| t["normalizer"] = bomb.clone()), file, &["normalizer.precompiled_charsmap", "base64"]);
    check_rejected(&edited(&|t| t["pre_tokenizer"] = json!({ "type": "FixedLength", "length": 0 })), file, &["length"]);
    let slow = r"(?:(?=a)a|a|a)*b";
    check_rejected(&edited(&|t| t["pre_tokenizer"]["pattern"]["Regex"] = slow.into()), file, &["regular expression"]);
    let large = r"(?:\p{L}{1000}){1000}";
    check_rejected(&edited(&|t| t["pre_tokenizer"]["pattern"]["Regex"] = large.into()), file, &["regular expression"]);
    let template = json!([{ "Sequence": { "id": "B", "type_id": 0 } }]);
    check_rejected(&edited(&|t| t["post_processor"]["single"] = template.clone()), file, &["post_processor.single"]);
    check_rejected(&edited(&|t| t["added_tokens"][0]["content"] = "x".repeat(100_000).into()), file, &["added_tokens"]);
    check_rejected(&changed_model(|place| place.write(file, " ".repeat((64 << 20) + 1))), file, &["67108864 bytes"]);
    // The length of texts is not decided by the tokenizer.
    let filled = edited(&|t| {
        t["padding"] = json!({ "strategy": { "Fixed": 1_000_000_000_000u64 }, "direction": "Right",
            "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "[CLS]" });
        t["truncation"] = json!({ "direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 7 });
    });
    let predict = ["predict", "model", "a fine day"];
    assert_eq!(
        filled.run(&predict).assert_success().stdout,
        changed_model(|_| {}).run(&predict).assert_success().stdout
    );
}

#[test]
fn tokenizers_that_fail_in_use() {
    // A decoder that strips more characters from a token than it has.
    let place = TestDir::new();
    place.train_language_model();
    fs::rename(place.path("lm"), place.path("model")).unwrap();
    edit_json(&place, TOKENIZER, |t| {
        t["decoder"] = json!({ "type": "Sequence", "decoders": [
            { "type": "Replace", "pattern": { "Regex": r"[\s\S]" }, "content": " " },
            { "type": "Strip", "content": " ", "start": 0, "stop": 9 }] });
    });
    let run = place.run(&["generate", "model", "to", "--max-tokens", "9", "--temperature", "0"]);
    assert_eq!(run.code, 2, "{run:#?}");
    run.assert_one_error(&["model/tokenizer.json", "is inconsistent"]);
    let run = place.run(&["generate", "model", "to", "--max-tokens", "9", "--temperature", "0", "--lang", "ja"]);
    run.assert_one_error(&["model/tokenizer.json", "矛盾"]);
}

#[test]
fn labels_are_only_names() {
    let labels = ["../../../../tmp/chumoku-was-here", "\u{1b}[31mred\u{7}"];
    let place = changed_model(|place| edit_json(place, CONFIG, |c| c["labels"] = json!(labels)));
    let before = place.file_hashes();
    let run = place.run(&["predict", "model", "a fine day", "--top", "2"]).assert_success();
    assert!(run.stdout.contains(labels[0]), "{run:#?}");
    let shown = place.run(&["explain", "model", "a fine \u{1b}]0;title\u{7} day"]).assert_success();
    for run in [&run, &shown] {
        assert!(!(run.stdout.clone() + &run.stderr).contains(['\u{1b}', '\u{7}']), "control characters: {run:#?}");
    }
    assert_eq!(place.file_hashes(), before);
    assert!(!std::path::Path::new("/tmp/chumoku-was-here").exists());
}

#[test]
fn a_non_finite_loss_is_an_error() {
    let place = TestDir::new();
    place.write("book.txt", (0..200).map(|i| format!("the cat {i} saw a dog.\n")).collect::<String>());
    place.run(&["train", "book.txt", "--task", "lm", "--out", "book", "--epochs", "1"]).assert_success();
    // Finite weights whose products are not finite.
    let mut bytes = fs::read(place.path("book").join(WEIGHTS)).unwrap();
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[header..].chunks_exact_mut(4).for_each(|four| four.copy_from_slice(&3e38f32.to_le_bytes()));
    place.write("book/model.safetensors", bytes);
    for more in [&[][..], &["--json"]] {
        let run = place.run(&[&["eval", "book", "book.txt"], more].concat());
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{run:#?}");
        run.assert_one_error(&["not a finite number", "too large"]);
    }
}
