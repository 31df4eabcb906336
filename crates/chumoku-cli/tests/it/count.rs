//! The output of `count` for networks and model folders.

use crate::common::{TestDir, has_fonts, shared_model, tensors};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// The number of parameters of a model, read from the file header without the formulas.
fn numbers_of(place: &TestDir, model: &str) -> [u64; 2] {
    let bytes = std::fs::read(place.path(model).join("model.safetensors")).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let mut sums = [0, 0];
    for (name, tensor) in header.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__") {
        let size: u64 = tensor["shape"].as_array().unwrap().iter().map(|size| size.as_u64().unwrap()).product();
        sums[usize::from(name.starts_with("ngrams."))] += size;
    }
    sums
}

fn check_folder(place: &TestDir, model: &str, kind: &str, network: &str) {
    let found = place.run(&["count", "--model", model, "--json"]).assert_success().json();
    let [of_network, of_ngrams] = numbers_of(place, model);
    assert_eq!(found["count"]["network"], network);
    assert_eq!(found["count"]["parameters"], of_network, "{model}");
    assert_eq!(found["model"]["kind"], kind);
    assert_eq!([&found["model"]["parameters"], &found["model"]["ngram_numbers"]], [of_network, of_ngrams]);
    let steps = found["count"]["steps"].as_array().unwrap();
    let sum: u64 = steps.iter().map(|s| s["parameters"].as_u64().unwrap() * s["times"].as_u64().unwrap()).sum();
    assert_eq!(sum, of_network, "{model}: the steps' parameters");
    for lang in ["en", "ja"] {
        let text = place.run(&["count", "--model", model, "--lang", lang]).assert_success().stdout;
        assert!(text.contains(&thousands(of_network)), "{text}");
        assert!(of_ngrams == 0 || text.contains(&thousands(of_ngrams)), "{text}");
        assert!(text.lines().all(|line| unicode_width::UnicodeWidthStr::width(line) <= 80), "{text}");
    }
}

fn thousands(n: u64) -> String {
    chumoku::data::format_thousands_wide(n.into())
}

#[test]
fn counts_match_a_classifiers_folder() {
    for (network, more) in [
        ("transformer", &[] as &[&str]),
        ("rnn", &["--model", "rnn"]),
        ("lstm", &["--model", "lstm"]),
        ("gru", &["--model", "gru"]),
    ] {
        let place = TestDir::new();
        place.train_small("model", more);
        check_folder(&place, "model", "classifier", network);
    }
}

#[test]
fn counts_match_the_folders_of_translators_and_language_models() {
    let place = TestDir::new();
    place.train_translator();
    check_folder(&place, "turn", "translator", "encoder-decoder");
    place.train_language_model();
    check_folder(&place, "lm", "language model", "decoder");

    let lengths = ["count", "--model", "turn", "--length", "9", "--target-length", "5", "--batch", "3", "--json"];
    let found = place.run(&lengths).assert_success().json();
    let shape = |part: &str, name: &str| {
        let steps = found["count"]["steps"].as_array().unwrap();
        steps.iter().find(|step| step["part"] == part && step["name"] == name).unwrap()["shape"].clone()
    };
    let heads = shape("cross", "scores")[1].clone();
    assert_eq!(shape("cross", "scores"), serde_json::json!([3, heads, 5, 9]));
    assert_eq!(shape("decoder", "scores"), serde_json::json!([3, heads, 5, 5]));
    assert_eq!(shape("encoder", "scores"), serde_json::json!([3, heads, 9, 9]));

    // A file whose tensors do not match the configuration.
    let mut config = place.json("lm/config.json");
    config["d_ff"] = (config["d_ff"].as_u64().unwrap() + 1).into();
    place.write("lm/config.json", config.to_string());
    place
        .run_rejected(&["count", "--model", "lm"], &["model.safetensors", "numbers in the network's tensors", "found"]);
    place.run_rejected(&["count", "--model", "plays.txt"], &["plays.txt", "expected a model folder"]);
    place.run_rejected(&["count", "--model", "turn", "--d-model", "64"], &["--d-model", "--model"]);
}

#[test]
fn numbers_above_two_to_the_64_are_shown_in_full() {
    let place = TestDir::new();
    let args = ["count", "--length", "10000000", "--d-model", "16384", "--heads", "16"];
    let [n, d] = [10_000_000u128, 16_384];
    let work = 4 * 32 * (2 * n * n * d + 12 * n * d * d);
    let text = place.run(&args).assert_success().stdout;
    assert!(text.contains(&chumoku::data::format_thousands_wide(work)), "{text}");
    let json = place.run(&[&args[..], &["--json"]].concat()).assert_success().stdout;
    assert!(json.contains(&format!(r#""multiply_adds":{work},"bytes":"#)), "{json}");
    assert!(json.contains(&format!(r#""multiply_adds":{},"#, 32 * n * n * d)), "{json}");
    let most = "1000000000";
    let huge = ["count", "--heads", "1", "--batch", most, "--length", most, "--d-model", most, "--d-ff", most];
    place.run_rejected(&[&huge[..], &["--layers", most]].concat(), &["2^128", "use smaller sizes"]);
    place.run_rejected(&["count", "--d-model", "18446744073709551615", "--heads", "1"], &["d_model: expected 1 to"]);
}

#[test]
fn flags_are_used_or_rejected() {
    let place = TestDir::new();
    let parameters = |args: &[&str]| {
        let json = place.run(&[&["count", "--json"], args].concat()).assert_success().json();
        (json["count"]["parameters"].as_u64().unwrap(), json["side_by_side"].clone())
    };
    let article = ["--network", "attention", "--vocab", "10000", "--classes", "2"];
    let (attention, beside) = parameters(&article);
    assert_eq!((attention, &beside[0]["parameters"]), (2_823_682, &2_823_682.into()));
    assert_eq!(beside[2]["parameters"], 3_086_850, "an LSTM of the same width");
    let film = ["--vocab", "50002", "--d-model", "32", "--heads", "2", "--layers", "1", "--classes", "2"];
    assert_eq!(parameters(&[&film[..], &["--no-qkv-bias"]].concat()).0, 1_612_738);
    let (plain, beside) = parameters(&film);
    let no_bias = parameters(&[&film[..], &["--no-bias"]].concat());
    assert_eq!(plain - no_bias.0, 4 * 32 + 128 + 32 + 2);
    // Two bias vectors of the only gate, and the head's.
    let rnn = |beside: &Value| beside[1]["parameters"].as_u64().unwrap();
    assert_eq!(rnn(&beside) - rnn(&no_bias.1), 2 * 32 + 2);
    assert_eq!(parameters(&[&film[..], &["--pre-norm"]].concat()).0 - plain, 64);
    assert_eq!(parameters(&[&film[..], &["--positions", "100"]].concat()).0 - plain, 3200);
    let decoder = ["--network", "decoder", "--vocab", "1000"];
    assert_eq!(parameters(&[&decoder[..], &["--untied"]].concat()).0 - parameters(&decoder).0, 256_000);
    let both = ["--network", "encoder-decoder", "--vocab", "1000"];
    let (joint, beside) = parameters(&both);
    assert_eq!(beside, serde_json::json!([]));
    assert_eq!(parameters(&[&both[..], &["--target-vocab", "500"]].concat()).0 - joint, 128_000);
    let layer = parameters(&[&both[..], &["--decoder-layers", "5"]].concat()).0 - joint;
    assert_eq!(layer, 2 * 4 * (256 * 256 + 256) + 2 * 256 * 1024 + 1024 + 256 + 3 * 512);
    // W_Q with its bias, W_K and v. Attention of the usual 8 heads cannot have this width.
    let additive = ["--network", "additive-attention", "--d-model", "4", "--hidden", "7"];
    let (size, beside) = parameters(&additive);
    assert_eq!((size, beside.as_array().unwrap().len()), (4 * 7 + 7 + 4 * 7 + 7, 1));
    assert_eq!(parameters(&["--network", "additive-attention"]).1[1]["network"], "attention");
    place.run_rejected(
        &[&["count"], &additive[..], &["--kv-heads", "2"]].concat(),
        &["--kv-heads", "additive-attention"],
    );
    // A recurrent network has no heads, so any number of them is accepted.
    let (_, beside) = parameters(&["--network", "gru", "--d-model", "100"]);
    assert_eq!(beside[0]["network"], "rnn");
    // Every network that the help lists.
    for network in
        ["attention", "additive-attention", "transformer", "decoder", "encoder-decoder", "rnn", "lstm", "gru"]
    {
        let json = place.run(&["count", "--json", "--network", network]).assert_success().json();
        assert_eq!(json["count"]["network"], network, "{json}");
    }

    for (args, flag) in [
        (&["--network", "attention", "--layers", "3"][..], "--layers"),
        (&["--network", "attention", "--d-ff", "3"], "--d-ff"),
        (&["--network", "attention", "--pre-norm"], "--pre-norm"),
        (&["--keys", "3"], "--keys"),
        (&["--target-length", "3"], "--target-length"),
        (&["--decoder-layers", "3"], "--decoder-layers"),
        (&["--vocab", "3", "--target-vocab", "3"], "--target-vocab"),
        (&["--vocab", "3", "--untied"], "--untied"),
        (&["--network", "decoder", "--classes", "3"], "--classes"),
        (&["--network", "encoder-decoder", "--hidden", "3"], "--hidden"),
        (&["--network", "decoder", "--bidirectional"], "--bidirectional"),
    ] {
        place.run_rejected(&[&["count"], args].concat(), &[flag, "has no effect on the network"]);
    }
}

#[test]
fn the_output_has_both_languages_and_80_columns() {
    let place = TestDir::new();
    for network in ["attention", "transformer", "decoder", "encoder-decoder", "rnn", "lstm", "gru"] {
        for (lang, words) in
            [("en", ["parameters", "Letters: B sequences (32)"]), ("ja", ["パラメータ", "記号: B 系列 (32)"])]
        {
            let text =
                place.run(&["count", "--network", network, "--vocab", "9000", "--lang", lang]).assert_success().stdout;
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
            assert!(text.lines().all(|line| unicode_width::UnicodeWidthStr::width(line) <= 80), "{text}");
            assert!(text.contains(" MiB") && !text.contains(" MB"), "{text}");
            let is_japanese = text.chars().any(|c| ('ぁ'..='ん').contains(&c));
            assert_eq!(is_japanese, lang == "ja", "{text}");
        }
    }
}

/// The page of a model has its weights: every parameter is in a block, with statistics of all its numbers.
#[test]
fn the_map_of_a_model_has_its_weights() {
    let place = TestDir::new();
    let page = |model: &str| {
        place.run(&["count", "--model", model, "--html", "map.html"]).assert_success();
        place.read("map.html")
    };
    let data = |page: &str| -> Value {
        let (_, data) = page.split_once("id=\"weights-data\">").unwrap();
        serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap()
    };
    let shown = page(shared_model());
    assert!(shown.len() < 600_000, "{} bytes", shown.len());
    let data = data(&shown);
    let tensors = tensors(&Path::new(shared_model()).join("model.safetensors"));
    let samples = data.as_array().unwrap();
    let mut shown_numbers = 0;
    for sample in samples {
        let shape = [0, 1].map(|side| sample["shape"][side].as_u64().unwrap() as usize);
        shown_numbers += shape[0] * shape[1];
        assert!(sample["block"].as_u64().is_some_and(|block| block > 0), "{sample}");
    }
    let names: BTreeSet<&str> = samples.iter().map(|sample| sample["name"].as_str().unwrap()).collect();
    let of_network: usize = tensors
        .iter()
        .filter(|(name, _)| names.contains(name.as_str()))
        .map(|(_, (shape, _))| shape.iter().product::<usize>())
        .sum();
    assert_eq!(shown_numbers, of_network);
    let counted = place.run(&["count", "--model", shared_model(), "--json"]).assert_success().json();
    assert_eq!(counted["model"]["parameters"], shown_numbers);
    let of_name = |name: &str| samples.iter().find(|sample| sample["name"] == name).unwrap();
    let head = of_name("head.weight");
    let (shape, bytes) = &tensors["head.weight"];
    let numbers: Vec<f32> = bytes.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect();
    let least = numbers.iter().fold(f64::INFINITY, |least, &x| least.min(f64::from(x)));
    assert!((head["statistics"][0].as_f64().unwrap() - least).abs() <= 1e-3 * least.abs(), "{head}");
    assert_eq!(head["shape"], serde_json::json!(shape));
    assert!(
        (head["first"][0][1].as_f64().unwrap() - f64::from(numbers[1])).abs() <= 1e-3 * f64::from(numbers[1].abs())
    );
}

/// The named length is the first at which the claim holds, and large sizes have separators.
#[test]
fn the_named_length_and_the_letters_are_exact() {
    let place = TestDir::new();
    let heads = ["--d-model", "64", "--heads", "3", "--kv-heads", "1", "--head-dim", "16", "--batch", "1"];
    let network = [&["count", "--network", "attention"][..], &heads].concat();
    let text = place.run(&network).assert_success().stdout;
    assert!(text.contains("From length 86 on"), "{text}");
    let is_claimed = |length: &str| {
        let json = place.run(&[&network[..], &["--length", length, "--json"]].concat()).assert_success().json();
        let work = |of_attention: bool| -> u64 {
            let steps = json["count"]["steps"].as_array().unwrap().iter();
            let of = steps
                .filter(|step| ["scores", "weighted sum"].contains(&step["name"].as_str().unwrap()) == of_attention);
            of.map(|step| step["multiply_adds"].as_u64().unwrap()).sum()
        };
        work(true) >= work(false)
    };
    assert!(!is_claimed("85") && is_claimed("86"));
    let sizes = ["--batch", "2000", "--length", "4096", "--d-model", "1024", "--vocab", "50002"];
    let large = place.run(&[&["count"][..], &sizes].concat()).assert_success().stdout;
    let words = large.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "transformer: batch 2,000, length 4,096, width 1,024",
        "B sequences (2,000), n tokens (4,096), m keys (4,096), d width (1,024)",
        "f inner width (4,096), V different tokens (50,002)",
    ] {
        assert!(words.contains(said), "{said}: {large}");
    }
}

/// The page and the pictures have a block for every step of the network.
#[test]
fn the_map_has_every_block() {
    let place = TestDir::new();
    if !has_fonts() {
        return;
    }
    let network = ["count", "--network", "encoder-decoder", "--layers", "2", "--json"];
    let files = ["--html", "map.html", "--svg", "map.svg", "--pdf", "map.pdf"];
    let found = place.run(&[&network[..], &files].concat()).assert_success().json();
    let steps = found["count"]["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 40);
    let (page, picture) = (place.read("map.html"), place.read("map.svg"));
    let heading = format!("{} parameters", thousands(found["count"]["parameters"].as_u64().unwrap()));
    assert!(page.contains(&heading) && picture.contains(&heading), "{heading}");
    for (i, step) in steps.iter().enumerate() {
        let name = step["name"].as_str().unwrap();
        assert!(page.contains(&format!(">{} · {name}: ", i + 1)), "{name}");
    }
    assert!(!page.contains(&format!(">{} · ", steps.len() + 1)));
    // The names are drawn as outlines: each block has at least its own.
    let outlines = picture.matches("<path").count();
    assert!(outlines > 2 * steps.len(), "{outlines}");
    let bytes = std::fs::read(place.path("map.pdf")).unwrap();
    assert!(bytes.starts_with(b"%PDF-") && bytes.len() > 10_000, "{} bytes", bytes.len());
    // The page has both languages, and a file that cannot be written is an error.
    assert!(page.contains("ネットワークの地図") && page.contains("Map of the network"));
    place.run_rejected(&["count", "--svg", "nowhere/map.svg"], &["nowhere"]);
}
