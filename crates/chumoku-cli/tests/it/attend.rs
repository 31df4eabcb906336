//! `chumoku attend`: ONNX's own tests of the operator, file formats, flags, and all errors.

use crate::common::{TestDir, next_random};
use chumoku::output::InputFiles;
use chumoku::tensors::{Tensor, TensorFile};
use std::path::{Path, PathBuf};

/// The operator's own tests: the folder `conformance/onnx_attention` of the shared data. It is not part of the project.
/// A machine without it skips the test with a message.
fn conformance() -> Option<PathBuf> {
    let inside = |shared: &Path| shared.join("conformance").join("onnx_attention");
    let found = match std::env::var_os("CHUMOKU_SHARED_DATA") {
        Some(data) => Path::new(&data).parent().map(inside),
        None => Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .map(|folder| inside(&folder.join("shared")))
            .find(|folder| folder.is_dir()),
    };
    let found = found.filter(|folder| folder.is_dir());
    if found.is_none() {
        println!(
            "SKIPPED: ONNX's tests of Attention not found; set CHUMOKU_SHARED_DATA to the data folder beside them"
        );
    }
    found
}

/// Checks each number within the tolerance of ONNX's tests for f32, and of one rounding for the shorter types.
fn check(name: &str, found: &Tensor, expected: &Tensor) {
    assert_eq!((found.type_name(), found.shape()), (expected.type_name(), expected.shape()), "{name}");
    let relative = match expected {
        Tensor::F16(_) => 2f64.powi(-11),
        Tensor::Bf16(_) => 2f64.powi(-8),
        _ => 1e-3,
    };
    for (n, (x, y)) in found.iter().zip(expected.iter()).enumerate() {
        let close = x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-7 + relative * y.abs();
        assert!(close, "{name}, number {n}: expected {y}, got {x}");
    }
}

#[test]
fn onnx_conformance_tests() {
    let Some(folder) = conformance() else { return };
    let place = TestDir::new();
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "safetensors") {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        place.run(&["attend", path.to_str().unwrap(), "-o", "out.safetensors"]).assert_success();
        let (expected, found) =
            (TensorFile::read(&path).unwrap(), TensorFile::read(&place.path("out.safetensors")).unwrap());
        for (output, expected) in expected.tensors.iter().filter_map(|(n, t)| Some((n.strip_prefix("out.")?, t))) {
            let found = found.tensors.get(output).unwrap_or_else(|| panic!("{name}: no {output}"));
            check(&format!("{name}: {output}"), found, expected);
        }
        count += 1;
    }
    assert!(count > 0, "the folder holds no tests");
    println!("{count} tests of ONNX pass");
}

fn numbers(seed: u64, n: usize) -> Vec<f32> {
    let mut state = seed;
    (0..n).map(|_| (next_random(&mut state) * 2.0 - 1.0) as f32).collect()
}

/// A file with three-axis Q, K and V: two sequences, three queries, four keys, two heads of width 3.
fn place() -> TestDir {
    let place = TestDir::new();
    let mut file = TensorFile::default();
    for (seed, name) in ["Q", "K", "V"].into_iter().enumerate() {
        let length = 3 + usize::from(name != "Q");
        let tensor = Tensor::new(&[2, length, 6], numbers(seed as u64, 2 * length * 6)).unwrap();
        file.tensors.insert(name.to_owned(), tensor);
    }
    file.write(&place.path("x.safetensors"), &InputFiles::empty()).unwrap();
    file.write(&place.path("x.npz"), &InputFiles::empty()).unwrap();
    place
}

const HEADS: [&str; 4] = ["--q-num-heads", "2", "--kv-num-heads", "2"];

fn attend(place: &TestDir, input: &str, flags: &[&str]) -> TensorFile {
    let run = place.run(&[&["attend", input, "-o", "y.safetensors"], &HEADS[..], flags].concat()).assert_success();
    assert!(run.stdout.is_empty() && run.stderr.ends_with("wrote y.safetensors\n"), "{run:#?}");
    TensorFile::read(&place.path("y.safetensors")).unwrap()
}

#[test]
fn both_file_formats() {
    let place = place();
    let expected = attend(&place, "x.safetensors", &["--qk-matmul-output-mode=3"]);
    assert_eq!(expected.tensors.keys().collect::<Vec<_>>(), ["Y", "qk_matmul_output"]);
    assert_eq!(expected.tensors["Y"].shape(), [2, 3, 6]);
    assert_eq!(attend(&place, "x.npz", &["--qk-matmul-output-mode", "3"]), expected);
    place
        .run(&[&["attend", "x.npz", "-o", "y.npz", "--qk-matmul-output-mode", "3"], &HEADS[..]].concat())
        .assert_success();
    assert_eq!(TensorFile::read(&place.path("y.npz")).unwrap(), expected);
    // Results do not depend on the number of threads.
    assert_eq!(attend(&place, "x.npz", &["--qk-matmul-output-mode", "3", "--threads", "1"]), expected);
}

#[test]
fn without_an_output_nothing_is_written() {
    let place = place();
    let before = place.file_hashes();
    let run = place.run(&[&["attend", "x.npz"], &HEADS[..]].concat()).assert_success();
    assert_eq!(place.file_hashes(), before);
    assert!(run.stdout.is_empty(), "{run:#?}");
    assert!(run.stderr.starts_with("Y                 f32 (2, 3, 6), -") && run.stderr.contains("mean"), "{run:#?}");
    assert!(run.stderr.contains("no output file") && run.stderr.contains("-o"), "{run:#?}");
}

/// Each flag has an effect that differs from every other.
#[test]
fn every_flag_has_its_own_effect() {
    let place = place();
    let flags: [&[&str]; 12] = [
        &[],
        &["--is-causal"],
        &["--scale", "2"],
        &["--scale=0"],
        &["--softcap", "0.5"],
        &["--left-window-size", "0"],
        &["--right-window-size", "1"],
        &["--left-window-size=0", "--right-window-size=0"],
        &["--qk-matmul-output-mode", "0"],
        &["--qk-matmul-output-mode", "1", "--softcap", "0.5"],
        &["--qk-matmul-output-mode", "2", "--is-causal"],
        &["--qk-matmul-output-mode", "3"],
    ];
    let outputs: Vec<TensorFile> = flags.iter().map(|flags| attend(&place, "x.npz", flags)).collect();
    for (n, output) in outputs.iter().enumerate() {
        assert!(outputs[..n].iter().all(|other| other != output), "{:?}", flags[n]);
    }
    // These flags have no effect.
    let nothing =
        ["--is-causal=false", "--is-causal=0", "--softcap=0", "--left-window-size=-1", "--softmax-precision=1"];
    for flag in nothing {
        assert_eq!(attend(&place, "x.npz", &[flag]), outputs[0], "{flag}");
    }
    assert_eq!(attend(&place, "x.npz", &["--left-window-size", "-1"]), outputs[0]);
    assert_eq!(attend(&place, "x.npz", &["--is-causal=1"]), outputs[1]);
}

#[test]
fn flags_may_precede_the_file() {
    let place = place();
    let mut file = TensorFile::default();
    for (name, tensor) in TensorFile::read(&place.path("x.npz")).unwrap().tensors {
        file.tensors.insert(format!("in.{name}"), tensor);
    }
    let attributes = r#"{"is_causal": 1, "q_num_heads": 2, "kv_num_heads": 2, "softcap": 0.5}"#;
    file.metadata.insert("attributes".into(), attributes.into());
    file.write(&place.path("in.safetensors"), &InputFiles::empty()).unwrap();
    let run = |flags: &[&str]| {
        place.run(&[&["attend", "in.safetensors", "-o", "y.npz"], flags].concat()).assert_success();
        TensorFile::read(&place.path("y.npz")).unwrap()
    };
    assert_eq!(run(&[]), attend(&place, "x.npz", &["--is-causal", "--softcap", "0.5"]));
    assert_eq!(run(&["--is-causal=false"]), attend(&place, "x.npz", &["--softcap", "0.5"]));
    assert_eq!(run(&["--is-causal=no", "--softcap", "0"]), attend(&place, "x.npz", &[]));
    let error = ["attend", "in.safetensors", "--kv-num-heads", "3"];
    place.run_rejected(&error, &["in.safetensors", "K: expected 3 numbers in a head as Q, got 2"]);
}

#[test]
fn unusable_files_and_flags_are_rejected() {
    let place = place();
    let with = |name: &str, tensor: Tensor| {
        let mut file = TensorFile::read(&place.path("x.npz")).unwrap();
        file.tensors.insert(name.to_owned(), tensor);
        file.write(&place.path("bad.safetensors"), &InputFiles::empty()).unwrap();
    };
    let refuses = |input: &str, flags: &[&str], words: &[&str]| {
        place.run_rejected(&[&["attend", input], flags].concat(), words);
    };
    refuses("none.npz", &[], &["none.npz", "(os error 2)"]);
    refuses(".", &[], &["expected a name that ends in .safetensors or .npz"]);
    refuses("x.npz", &["-o", "y.txt"], &["y.txt", ".safetensors or .npz"]);
    refuses("x.npz", &[], &["x.npz", "q_num_heads", "required"]);
    refuses("x.npz", &["--q-num-heads", "4", "--kv-num-heads", "2"], &["q_num_heads", "width 6", "4"]);
    refuses("x.npz", &[&HEADS[..], &["--scale", "nan"]].concat(), &["scale", "NaN"]);
    refuses("x.npz", &[&HEADS[..], &["--scale", "-1"]].concat(), &["scale", "-1"]);
    for flag in ["--scale", "--softcap", "--left-window-size", "--softmax-precision", "--is-causal"] {
        place.run_rejected(&["attend", "x.npz", &format!("{flag}=x")], &[flag, "'x'"]);
    }
    refuses("x.npz", &[&HEADS[..], &["--qk-matmul-output-mode", "4"]].concat(), &["qk_matmul_output_mode", "4"]);
    refuses("x.npz", &[&HEADS[..], &["-o", "no/such/y.npz"]].concat(), &["no/such/y.npz"]);

    let zeros = |shape: &[usize]| Tensor::new(shape, vec![0.0f32; shape.iter().product()]).unwrap();
    with("attn_mask", zeros(&[7]));
    refuses("bad.safetensors", &HEADS, &["bad.safetensors", "attn_mask", "(2, 2, 3, 4)", "[7]"]);
    with("mask", zeros(&[4]));
    refuses("bad.safetensors", &HEADS, &["mask: expected one of the names Q, K, V, attn_mask", "rename"]);
    with("Q", Tensor::new(&[2, 3, 6], vec![chumoku::bf16::ONE; 36]).unwrap());
    refuses("bad.safetensors", &[&HEADS[..], &["-o", "y.npz"]].concat(), &["y.npz", "bf16", ".safetensors"]);
    refuses("bad.safetensors", &HEADS, &["K", "expected bf16 as Q, got f32"]);
    place.write("bad.npz", b"PK");
    refuses("bad.npz", &HEADS, &["bad.npz: reading .npz", "write or download the file again"]);
    place.write("bad.safetensors", [0xff; 32]);
    refuses("bad.safetensors", &HEADS, &["bad.safetensors: reading safetensors"]);
}

/// Four megabytes of queries and keys have four terabytes of scores. Y alone, with a window of one key, is quick.
#[test]
fn outputs_too_large_for_memory_are_rejected_before_the_work() {
    let place = TestDir::new();
    let zeros = || Tensor::new(&[1, 1, 1_000_000, 1], vec![0.0f32; 1_000_000]).unwrap();
    let mut file = TensorFile::default();
    for name in ["Q", "K", "V"] {
        file.tensors.insert(name.to_owned(), zeros());
    }
    file.write(&place.path("long.safetensors"), &InputFiles::empty()).unwrap();
    let window = ["attend", "long.safetensors", "--left-window-size=0", "--right-window-size=0"];
    let expected = [
        "long.safetensors: qk_matmul_output: with shape [1, 1, 1000000, 1000000] the results need 4.0 TB of memory",
        "are free; leave qk_matmul_output_mode out, or give fewer queries or keys at a time",
    ];
    place.run_rejected(&[&window[..], &["--qk-matmul-output-mode", "0", "-o", "y.npz"]].concat(), &expected);
    place.run(&window).assert_success();
}

/// An existing file is replaced atomically.
#[test]
fn existing_files_are_replaced_atomically() {
    let place = place();
    place.write("y.safetensors", "of yesterday");
    attend(&place, "x.npz", &[]);
    place.write("y.safetensors", "of yesterday");
    let args = [&["attend", "x.npz", "-o", "y.safetensors"], &HEADS[..], &["--scale", "inf"]].concat();
    place.run_rejected(&args, &["scale"]);
    assert_eq!(place.read("y.safetensors"), "of yesterday");
}
