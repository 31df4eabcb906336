//! Static embeddings in the formats of sentence-transformers' `StaticEmbedding` and model2vec.

use chumoku::explain::HeadSelection;
use chumoku::pretrained::EncoderCheckpoint;
use chumoku::text::PretrainedTokenizer;
use chumoku::train::TrainOptions;
use chumoku::{EmbedOptions, ModelKind, TextEmbedder};
use chumoku_kernels::f16;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use testkit::Random;

const VOCAB: usize = 12;
const WIDTH: usize = 6;

/// BERT's tokenizer, whose special tokens must not be added here.
fn tokenizer() -> Value {
    let pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "##s", "was", "good", "bad", ".", "▁"];
    let vocab: serde_json::Map<_, _> =
        pieces.iter().enumerate().map(|(id, &piece)| (piece.into(), id.into())).collect();
    let special = |id: usize| {
        json!({ "id": id, "content": pieces[id], "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true })
    };
    json!({
        "version": "1.0",
        "added_tokens": [special(0), special(1), special(2), special(3)],
        "normalizer": { "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                        "strip_accents": null, "lowercase": true },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": { "type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2] },
        "decoder": null,
        "model": { "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                   "max_input_chars_per_word": 100, "vocab": vocab }
    })
}

/// Writes the table under this name, and the tokenizer. Returns the table.
fn write_table(folder: &Path, name: &str) -> Vec<f32> {
    let mut random = Random::new(5);
    let table: Vec<f32> = (0..VOCAB * WIDTH).map(|_| random.number() as f32).collect();
    let bytes: Vec<u8> = table.iter().flat_map(|x| x.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F32, vec![VOCAB, WIDTH], &bytes).unwrap();
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("model.safetensors"), safetensors::serialize([(name, view)], None).unwrap()).unwrap();
    fs::write(folder.join("tokenizer.json"), tokenizer().to_string()).unwrap();
    table
}

fn write_modules(folder: &Path, path: &str, more: &[Value]) {
    let first = json!({ "idx": 0, "name": "0", "path": path, "type": "sentence_transformers.models.StaticEmbedding" });
    let modules: Vec<&Value> = std::iter::once(&first).chain(more).collect();
    fs::write(folder.join("modules.json"), json!(modules).to_string()).unwrap();
}

/// Returns the mean of rows of a table, in f64.
fn mean(table: &[f32], width: usize, ids: &[u32]) -> Vec<f64> {
    let of_column = |column: usize| {
        let sum: f64 = ids.iter().map(|&id| f64::from(table[id as usize * width + column])).sum();
        sum / ids.len().max(1) as f64
    };
    (0..width).map(of_column).collect()
}

#[track_caller]
fn check(model: &TextEmbedder, text: &str, expected: &[f64]) {
    let found = model.embed(&[text], EmbedOptions::default()).unwrap().vectors;
    assert_eq!(found.ncols(), expected.len());
    for (&found, &expected) in found.row(0).iter().zip(expected) {
        assert!((f64::from(found) - expected).abs() < 1e-6, "{text:?}: {found} {expected}");
    }
}

#[test]
fn a_text_is_the_mean_of_its_tokens_vectors() {
    let folder = tempfile::tempdir().unwrap();
    // In a subfolder, in the folder itself, and there under model2vec's name.
    for (path, name) in [("0_StaticEmbedding", "embedding.weight"), ("", "embedding.weight"), (".", "embeddings")] {
        let table = write_table(&folder.path().join(path), name);
        write_modules(folder.path(), path, &[]);
        assert_eq!(ModelKind::from_folder(folder.path()).unwrap(), ModelKind::Encoder);
        let model = TextEmbedder::load(folder.path(), None).unwrap();
        assert_eq!(model.embedding_dim(), WIDTH);
        check(&model, "The films was good.", &mean(&table, WIDTH, &[4, 5, 6, 7, 8, 10]));
        check(&model, "zzz bad", &mean(&table, WIDTH, &[1, 9]));
        check(&model, "", &[0.0; WIDTH]);
    }
}

#[test]
fn vectors_are_normalized_if_the_folder_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let table = write_table(folder.path(), "embeddings");
    let normalize =
        json!({ "idx": 1, "name": "1", "path": "1_Normalize", "type": "sentence_transformers.models.Normalize" });
    write_modules(folder.path(), ".", &[normalize]);
    fs::write(folder.path().join("config.json"), r#"{"model_type": "model2vec", "normalize": true}"#).unwrap();
    assert_eq!(ModelKind::from_folder(folder.path()).unwrap(), ModelKind::Encoder);
    let model = TextEmbedder::load(folder.path(), None).unwrap();
    let mut expected = mean(&table, WIDTH, &[9, 5]);
    let length = expected.iter().map(|x| x * x).sum::<f64>().sqrt();
    expected.iter_mut().for_each(|x| *x /= length);
    check(&model, "bad film", &expected);
}

#[test]
fn folders_without_a_valid_table_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let message = || TextEmbedder::load(folder.path(), None).unwrap_err().to_string();
    // An additional tensor, as in model2vec's vocabularies with fewer vectors.
    let numbers = [0; 4 * VOCAB * WIDTH];
    let table = TensorView::new(Dtype::F32, vec![VOCAB, WIDTH], &numbers).unwrap();
    let mapping = TensorView::new(Dtype::I64, vec![WIDTH * VOCAB / 2], &numbers).unwrap();
    let both = safetensors::serialize([("embeddings", table), ("mapping", mapping)], None).unwrap();
    write_table(folder.path(), "embeddings");
    write_modules(folder.path(), ".", &[]);
    fs::write(folder.path().join("model.safetensors"), both).unwrap();
    assert!(message().contains("mapping"), "{}", message());
    // No table.
    write_table(folder.path(), "weights");
    fs::write(folder.path().join("config.json"), r#"{"model_type": "model2vec"}"#).unwrap();
    assert!(message().contains("embedding.weight"), "{}", message());
    // A pooling module, although static embeddings are already pooled.
    write_table(folder.path(), "embeddings");
    let pooling = json!({ "idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling" });
    write_modules(folder.path(), ".", &[pooling]);
    assert!(message().contains("Pooling"), "{}", message());
    // More tokens than rows.
    write_modules(folder.path(), ".", &[]);
    let mut cutting = tokenizer();
    cutting["model"]["vocab"]["more"] = VOCAB.into();
    fs::write(folder.path().join("tokenizer.json"), cutting.to_string()).unwrap();
    assert!(message().contains("tokenizer.json"), "{}", message());
}

#[test]
fn attention_cannot_be_explained() {
    let folder = tempfile::tempdir().unwrap();
    write_table(folder.path(), "embeddings");
    write_modules(folder.path(), ".", &[]);
    let model = TextEmbedder::load(folder.path(), None).unwrap();
    let explained = model.explain("the film", None, "m").unwrap_err().to_string();
    let recorded = model.record("the film", HeadSelection::default()).unwrap_err().to_string();
    assert!(explained.contains("no attention") && recorded == explained, "{explained} {recorded}");
}

#[test]
fn static_vectors_cannot_be_fine_tuned() {
    let folder = tempfile::tempdir().unwrap();
    write_table(folder.path(), "embeddings");
    write_modules(folder.path(), ".", &[]);
    let mut options = TrainOptions::default();
    options.from = Some(folder.path().to_owned());
    let error = options.check_from(ModelKind::Classifier).unwrap_err().to_string();
    assert!(error.contains("static vectors"), "{error}");
}

/// Uses real vectors, which are not in the repository.
#[test]
fn real_text_vectors_are_means_of_the_table() {
    const FILES: [&str; 2] = ["l2_supercat_256.safetensors", "l2_supercat_tokenizer_config.json"];
    let folder = std::env::var_os("CHUMOKU_CHECKPOINTS").map(|folder| PathBuf::from(folder).join("wordllama"));
    let Some(real) = folder.filter(|folder| folder.join(FILES[0]).is_file()) else {
        eprintln!("SKIPPED: CHUMOKU_CHECKPOINTS names no folder with wordllama, so no real static vectors were read");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for (from, to) in FILES.into_iter().zip(["model.safetensors", "tokenizer.json"]) {
        fs::copy(real.join(from), folder.path().join(to)).unwrap();
    }
    write_modules(folder.path(), "", &[]);
    let bytes = fs::read(real.join(FILES[0])).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let tensor = tensors.tensor("embedding.weight").unwrap();
    let table: Vec<f32> = tensor.data().as_chunks().0.iter().map(|&x| f16::from_le_bytes(x).to_f32()).collect();
    let model = TextEmbedder::load(folder.path(), None).unwrap();
    let tokenizer = PretrainedTokenizer::read(&folder.path().join("tokenizer.json")).unwrap();
    for text in ["The capital of France is Paris.", "  two  spaces ", "日本語の文", "x"] {
        // The tokenizer file adds <s> before texts; static embeddings are looked up without it.
        let ids = &tokenizer.encode(text, usize::MAX).unwrap().ids[1..];
        check(&model, text, &mean(&table, tensor.shape()[1], ids));
    }
    let checkpoint = EncoderCheckpoint::read(folder.path(), None).unwrap();
    assert_eq!(checkpoint.params.values().len(), table.len());
}
