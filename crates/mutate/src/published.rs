//! Synthetic folders in the formats of published models: a sentence encoder (BERT), a language model (Qwen3) and a
//! translator (Marian).

use crate::seeds::SeedFile;
use safetensors::{Dtype, tensor::TensorView};
use serde_json::{Value, json};

const WIDTH: usize = 16;
const INNER: usize = 24;
const LAYERS: usize = 2;

fn file(name: &str, bytes: impl Into<Vec<u8>>) -> SeedFile {
    SeedFile { name: name.into(), bytes: bytes.into() }
}

/// Returns small distinct numbers; norm weights are around 1.
fn weights(tensors: &[(String, Vec<usize>)]) -> Vec<u8> {
    let numbers = |at: usize, name: &str, shape: &[usize]| -> Vec<u8> {
        let around = if name.to_lowercase().contains("norm") && name.ends_with("weight") { 1.0 } else { 0.0 };
        let number = |i: usize| around + 0.3 * ((i * 37 + at * 101) as f32 * 0.61).sin();
        (0..shape.iter().product()).flat_map(|i| number(i).to_le_bytes()).collect()
    };
    let bytes: Vec<Vec<u8>> = tensors.iter().enumerate().map(|(at, (name, shape))| numbers(at, name, shape)).collect();
    let views = tensors.iter().zip(&bytes).map(|((name, shape), bytes)| {
        (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes).expect("bytes of the shape"))
    });
    safetensors::serialize(views, None).expect("plain arrays")
}

/// The weight and the bias of a layer.
fn layer(name: &str, outputs: usize, inputs: usize) -> [(String, Vec<usize>); 2] {
    [(format!("{name}.weight"), vec![outputs, inputs]), (format!("{name}.bias"), vec![outputs])]
}

/// A BERT with WordPiece tokens, as written by sentence-transformers.
pub(crate) fn encoder() -> Vec<SeedFile> {
    let pieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nfine\nday\n##s\n,\n3\nand\n.\n";
    let (vocab_size, positions) = (pieces.lines().count(), 20);
    let config = json!({
        "architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu", "hidden_size": WIDTH,
        "intermediate_size": INNER, "layer_norm_eps": 1e-12, "max_position_embeddings": positions,
        "num_attention_heads": 2, "num_hidden_layers": LAYERS, "pad_token_id": 0, "type_vocab_size": 2,
        "vocab_size": vocab_size, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "dtype": "float32",
    });
    let norm = |name: &str| [(format!("{name}.weight"), vec![WIDTH]), (format!("{name}.bias"), vec![WIDTH])];
    let mut tensors: Vec<(String, Vec<usize>)> = [("word", vocab_size), ("position", positions), ("token_type", 2)]
        .map(|(kind, rows)| (format!("embeddings.{kind}_embeddings.weight"), vec![rows, WIDTH]))
        .into();
    tensors.extend(norm("embeddings.LayerNorm"));
    for index in 0..LAYERS {
        let name = |part: &str| format!("encoder.layer.{index}.{part}");
        for part in ["self.query", "self.key", "self.value", "output.dense"] {
            tensors.extend(layer(&name(&format!("attention.{part}")), WIDTH, WIDTH));
        }
        tensors.extend(norm(&name("attention.output.LayerNorm")));
        tensors.extend(layer(&name("intermediate.dense"), INNER, WIDTH));
        tensors.extend(layer(&name("output.dense"), WIDTH, INNER));
        tensors.extend(norm(&name("output.LayerNorm")));
    }
    tensors.extend(layer("pooler.dense", WIDTH, WIDTH));
    let module = |kind: &str, path: &str| json!({ "idx": 0, "path": path, "type": format!("sentence_transformers.models.{kind}") });
    let modules =
        json!([module("Transformer", ""), module("Pooling", "1_Pooling"), module("Normalize", "2_Normalize")]);
    let prompts = json!({ "prompts": { "query": "a fine ", "document": "" }, "default_prompt_name": null });
    vec![
        file("1_Pooling/config.json", json!({ "pooling_mode_mean_tokens": true }).to_string()),
        file("config.json", config.to_string()),
        file("config_sentence_transformers.json", prompts.to_string()),
        file("model.safetensors", weights(&tensors)),
        file("modules.json", modules.to_string()),
        file("sentence_bert_config.json", json!({ "max_seq_length": 16, "do_lower_case": false }).to_string()),
        file("vocab.txt", pieces),
    ]
}

/// The characters that represent bytes in byte-level tokenizers: printable ones represent themselves.
fn letters() -> Vec<char> {
    let is_own = |byte: &u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let mut others = 256..;
    (0..256u32)
        .map(|byte| if is_own(&byte) { byte } else { others.next().unwrap_or_default() })
        .map(|code| char::from_u32(code).unwrap_or_default())
        .collect()
}

/// A Qwen3 with a byte-level tokenizer, special tokens and a chat template.
pub(crate) fn language_model() -> Vec<SeedFile> {
    let merges = [["Ġ", "a"], ["n", "d"], ["Ġa", "nd"], ["Ġ", "d"], ["f", "i"]];
    let mut vocab: Vec<String> = letters().iter().map(char::to_string).collect();
    vocab.extend(merges.iter().map(|pair| pair.concat()));
    let plain = vocab.len();
    let special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
    let added: Vec<Value> = special
        .iter()
        .enumerate()
        .map(|(i, content)| {
            json!({ "id": plain + i, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false, "special": true })
        })
        .collect();
    let vocab: serde_json::Map<String, Value> =
        vocab.into_iter().enumerate().map(|(id, token)| (token, id.into())).collect();
    let cutter = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true });
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": cutter, "post_processor": null, "decoder": cutter,
        "model": { "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                   "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": merges },
    });
    let template = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n\
                    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    let (head, queries, keys) = (8, 4, 2);
    let config = json!({
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "attention_bias": false, "head_dim": head,
        "hidden_act": "silu", "hidden_size": WIDTH, "intermediate_size": INNER, "max_position_embeddings": 64,
        "num_attention_heads": queries, "num_hidden_layers": LAYERS, "num_key_value_heads": keys, "rms_norm_eps": 1e-6,
        "rope_parameters": { "rope_theta": 10000.0, "rope_type": "linear", "factor": 2.0 }, "tie_word_embeddings": true,
        "use_sliding_window": false, "vocab_size": plain + special.len(), "eos_token_id": plain, "dtype": "float32",
    });
    let mut tensors = vec![
        ("model.embed_tokens.weight".to_owned(), vec![plain + special.len(), WIDTH]),
        ("model.norm.weight".to_owned(), vec![WIDTH]),
    ];
    for index in 0..LAYERS {
        let parts = [
            ("input_layernorm", vec![WIDTH]),
            ("post_attention_layernorm", vec![WIDTH]),
            ("self_attn.q_norm", vec![head]),
            ("self_attn.k_norm", vec![head]),
            ("self_attn.q_proj", vec![queries * head, WIDTH]),
            ("self_attn.k_proj", vec![keys * head, WIDTH]),
            ("self_attn.v_proj", vec![keys * head, WIDTH]),
            ("self_attn.o_proj", vec![WIDTH, queries * head]),
            ("mlp.gate_proj", vec![INNER, WIDTH]),
            ("mlp.up_proj", vec![INNER, WIDTH]),
            ("mlp.down_proj", vec![WIDTH, INNER]),
        ];
        tensors.extend(parts.map(|(part, shape)| (format!("model.layers.{index}.{part}.weight"), shape)));
    }
    let settings = json!({ "eos_token": special[0], "bos_token": null, "chat_template": template });
    let ends = json!({ "eos_token_id": [plain, plain + 2] });
    vec![
        file("config.json", config.to_string()),
        file("generation_config.json", ends.to_string()),
        file("model.safetensors", weights(&tensors)),
        file("tokenizer.json", tokenizer.to_string()),
        file("tokenizer_config.json", settings.to_string()),
    ]
}

/// Encodes a bytes field of protocol buffers.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut all = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        all.push(length as u8 | 0x80);
        length >>= 7;
    }
    all.push(length as u8);
    all.extend(bytes);
    all
}

/// A SentencePiece file with a normalization table that maps `A` to `a`.
fn sentence_pieces(pieces: &[&str]) -> Vec<u8> {
    let mut all = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        let kind = match *piece {
            "<unk>" => 2,
            "</s>" => 3,
            _ => 1,
        };
        let score = (-1.0 - at as f32 / 4.0).to_le_bytes();
        all.extend(field(1, &[&field(1, piece.as_bytes())[..], &[2 << 3 | 5], &score, &[3 << 3, kind]].concat()));
    }
    // The units of the table's trie: the child of the root is at its byte, with its value next to it.
    let mut units = [0u32; 80];
    (units[0x41], units[0x40]) = (0x41 | 1 << 8 | 1 << 10, 1 << 31);
    let trie: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let table = [&(trie.len() as u32).to_le_bytes()[..], &trie, b"a\0"].concat();
    all.extend(field(2, &[3 << 3, 1]));
    all.extend(field(3, &[field(1, b"made"), field(2, &table), vec![3 << 3, 1, 4 << 3, 1, 5 << 3, 1]].concat()));
    all
}

/// A Marian translator with SentencePiece files.
pub(crate) fn translator() -> Vec<SeedFile> {
    let pieces = ["</s>", "<unk>", "▁a", "▁fine", "▁day", "s", "▁", ",", "3", "▁and", "4", ".", "f", "i", "n", "e"];
    let vocab_size = pieces.len() + 2;
    let vocabulary: serde_json::Map<String, Value> = pieces
        .iter()
        .chain(&[">>fra<<", "<pad>"])
        .enumerate()
        .map(|(id, piece)| ((*piece).to_owned(), id.into()))
        .collect();
    let pad = vocab_size - 1;
    let config = json!({
        "architectures": ["MarianMTModel"], "model_type": "marian", "activation_function": "swish", "d_model": WIDTH,
        "vocab_size": vocab_size, "decoder_vocab_size": vocab_size, "encoder_layers": LAYERS, "decoder_layers": 1,
        "encoder_attention_heads": 2, "decoder_attention_heads": 4, "encoder_ffn_dim": INNER, "decoder_ffn_dim": INNER,
        "max_position_embeddings": 32, "scale_embedding": true, "static_position_embeddings": true,
        "normalize_before": false, "share_encoder_decoder_embeddings": true, "tie_word_embeddings": true,
        "decoder_start_token_id": pad, "pad_token_id": pad, "eos_token_id": 0, "forced_eos_token_id": 0,
        "bad_words_ids": [[pad]], "dropout": 0.1, "attention_dropout": 0.0, "dtype": "float32",
    });
    let mut tensors = vec![
        ("model.shared.weight".to_owned(), vec![vocab_size, WIDTH]),
        ("final_logits_bias".into(), vec![1, vocab_size]),
    ];
    let norm = |name: &str| [(format!("{name}.weight"), vec![WIDTH]), (format!("{name}.bias"), vec![WIDTH])];
    for (side, layers, attentions) in
        [("encoder", LAYERS, &["self_attn"][..]), ("decoder", 1, &["self_attn", "encoder_attn"])]
    {
        for index in 0..layers {
            let name = |part: &str| format!("model.{side}.layers.{index}.{part}");
            for attention in attentions {
                for part in ["q_proj", "k_proj", "v_proj", "out_proj"] {
                    tensors.extend(layer(&name(&format!("{attention}.{part}")), WIDTH, WIDTH));
                }
                tensors.extend(norm(&name(&format!("{attention}_layer_norm"))));
            }
            tensors.extend(layer(&name("fc1"), INNER, WIDTH));
            tensors.extend(layer(&name("fc2"), WIDTH, INNER));
            tensors.extend(norm(&name("final_layer_norm")));
        }
    }
    let generation = json!({ "bad_words_ids": [[pad]], "eos_token_id": 0, "max_length": 24, "num_beams": 4 });
    let languages = json!({ "source_lang": "eng", "target_lang": "fra", "separate_vocabs": false });
    vec![
        file("config.json", config.to_string()),
        file("generation_config.json", generation.to_string()),
        file("model.safetensors", weights(&tensors)),
        file("source.spm", sentence_pieces(&pieces)),
        file("target.spm", sentence_pieces(&pieces[..12])),
        file("tokenizer_config.json", languages.to_string()),
        file("vocab.json", Value::from(vocabulary).to_string()),
    ]
}
