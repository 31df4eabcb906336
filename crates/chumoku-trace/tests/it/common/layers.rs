//! Layers with a loss, as files of worked examples.

use serde_json::{Value, json};

/// Returns a layer with norms, a feed-forward network and a dense layer, as `options` and `inputs` ask.
pub(crate) fn layer(inputs: &Value, options: &Value) -> Value {
    let mut file = json!({
        "inputs": {
            "X": [[1, 0.5, -1, 2], [0, 1, 0.25, -0.5], [1, 1, 0, 0.5]],
            "W_Q": [[1, 0, 0.5, 1], [0, 1, -1, 0], [0.5, 0.25, 1, 0], [0, -1, 0, 1]], "b_Q": [0.1, 0, -0.1, 0.2],
            "W_K": [[0, 1, 0.5, 1], [1, 1, -1, 0], [0.5, 0.25, 0, 0], [0, 1, 0, 1]],
            "W_V": [[1, 0, 0, 1], [0, 1, 1, 0], [0.5, 0, 1, 0], [0, -1, 0.25, 1]],
            "W_O": [[1, 0, 0, 0.5], [0, 1, 0, 0], [0, 0.5, 1, 0], [0.25, 0, 0, 1]],
            "W_1": [[1, 0, -1, 0.5, 0.3], [0, 1, 0.5, -1, 0.7], [0.5, 0.5, 0, 1, -0.4], [1, -1, 0, 0.2, 0.1]],
            "b_1": [0.1, -0.2, 0.3, 0, 0.05],
            "W_2": [[0.5, 0, 0.1, 0], [0, 0.5, 0, -1], [1, 0.2, 0, 0], [0, 0.3, -1, 0.4], [0.2, 0, 0.6, 0]],
            "b_2": [0, 0.1, 0, -0.1],
            "gamma": [1, 0.5, 2, 1.5], "gamma_2": [0.5, 1, 1.5, 1],
            "W_class": [[1, 0, -1], [0, 1, 0.5], [0.5, 0.5, 0], [1, -1, 0]], "b_class": [0, 0.1, 0.2],
            "target": [[0, 1, 0]]
        },
        "options": { "num_heads": 2, "causal": true, "pooling": "mean", "activation": "relu" }
    });
    for (key, more) in [("inputs", inputs), ("options", options)] {
        for (name, value) in more.as_object().unwrap() {
            file[key][name] = value.clone();
        }
    }
    file
}

/// Returns layers as networks have them, which use all rules.
pub(crate) fn layers() -> Vec<Value> {
    let gate = json!([[1, 1, 0, 0.4, -0.2], [0, 2, -1, 0.1, 0.3], [0.2, 0, 0.5, 1, 0], [0, 0.1, 0.7, -0.3, 1]]);
    // Two query heads share one key head.
    let narrow = json!([[0, 1], [1, 1], [0.5, 0.25], [0, 1]]);
    vec![
        layer(
            &json!({ "norm_beta": [0, 0.1, 0.2, 0], "norm_beta_2": [0.1, 0, 0, 0.3], "gamma_last": [1, 2, 1, 0.5],
                "norm_beta_last": [0.1, 0, 0, 0] }),
            &json!({ "norm": "pre", "norm_2": "pre", "activation": "gelu", "last_norm": "layer", "rotary_base": 100 }),
        ),
        layer(
            &json!({ "norm_beta": [0, 0.1, 0.2, 0], "W_dense": [[1, 0, 0.5], [0, 1, -1], [0.2, 0, 1], [1, 0.5, 0]],
                "b_dense": [0.1, 0.2, 0], "W_class": [[1, 0, -1], [0, 1, 0.5], [0.5, 0.5, 0]] }),
            &json!({ "norm": "post", "norm_2": "post", "dense_tanh": true, "pooling": "first", "unit_length": true }),
        ),
        layer(
            &json!({ "W_gate": gate, "b_gate": [0.1, 0, 0.2, 0, 0], "W_K": narrow, "W_V": narrow, "gamma_Q": [1, 0.5],
                "gamma_K": [2, 1], "gamma_last": [1, 2, 1, 0.5] }),
            &json!({ "norm": "pre", "rms_norm": true, "norm_2": "pre", "rms_norm_2": true, "activation": "silu",
                "num_key_heads": 1, "rotary_base": 10, "head_norm_epsilon": 0.001, "last_norm": "rms", "pooling": "max" }),
        ),
        layer(
            &json!({ "W_dense": [[1, 0, 0.5], [0, 1, -1], [0.2, 0, 1], [1, 0.5, 0]], "gamma_dense": [1, 0.5, 2],
                "norm_beta_dense": [0, 0.1, 0], "W_class": [[1, 0, -1], [0, 1, 0.5], [0.5, 0.5, 0]] }),
            &json!({ "norm": "post", "norm_2": "post", "activation": "gelu_tanh", "pooling": "last",
                "dense_activation": "relu", "dense_norm": "layer" }),
        ),
        layer(
            &json!({ "v_a": [[[1], [-0.5]], [[0.25], [0.75]]] }),
            &json!({ "score": "additive", "beta": 1.5, "norm": "post", "norm_2": "post" }),
        ),
        bert_embeddings(),
        additive(),
    ]
}

/// A layer with the embeddings of BERT: tokens, positions and token types, and the normalization of their sum.
pub(crate) fn bert_embeddings() -> Value {
    let mut file = layer(
        &json!({
            "ids": [17, 4, 250], "positions": [[0, 0.5, -0.25, 1], [0.5, 0.25, 0, -1], [0.75, -0.5, 0.125, 1]],
            "type_ids": [0, 0, 1], "type_vectors": [[0.1, 0, 0.2, -0.3], [0.1, 0, 0.2, -0.3], [0, 0.4, -0.1, 0.2]],
            "gamma_embedding": [1, 0.5, 2, 1.5], "norm_beta_embedding": [0.1, 0, -0.2, 0.3]
        }),
        &json!({ "embedding_norm": "layer", "epsilon_embedding": 0.001, "norm": "post", "norm_2": "post",
            "activation": "gelu" }),
    );
    let inputs = file["inputs"].as_object_mut().unwrap();
    let x = inputs.remove("X").unwrap();
    inputs.insert("embeddings".into(), x);
    file
}

/// Additive attention to another text, whose vectors are the values.
pub(crate) fn additive() -> Value {
    json!({
        "inputs": {
            "X": [[1, 0.5, -1], [0, 1, 0.25]], "memory": [[1, -1], [0.5, 0.25], [0, 1]],
            "W_Q": [[1, 0, 0.5], [0, 1, -1], [0.5, 0.25, 1]], "b_Q": [0.1, 0, -0.2], "W_K": [[0, 1, 0.5], [1, 1, -1]],
            "v_a": [[1], [-0.5], [0.75]], "W_class": [[1, 0], [-1, 0.5]], "target": [[0, 1], [0.75, 0.25]]
        },
        "options": { "score": "additive" }
    })
}

/// An example with the third step of AdamW, from moments that are not 0.
pub(crate) fn stepped() -> Value {
    let mut file = layers().swap_remove(0);
    file["optimizer"] = json!({ "learning_rate": 0.05, "weight_decay": 0.1, "beta2": 0.99, "step": 3,
        "m": { "b_class": [0.1, -0.2, 0.05] }, "v": { "b_class": [0.01, 0.02, 0.5] } });
    file
}

/// Recurrent networks with a loss of the last token's output, of the mean of all outputs, and of each output. Some
/// start from given outputs and cell states, and one takes a step of AdamW.
pub(crate) fn recurrents() -> Vec<Value> {
    let number = |k: usize| (((k * 37 + 11) % 41) as f64 / 20.0 - 1.0) * 0.8;
    let matrix = |rows: usize, columns: usize, from: usize| -> Value {
        (0..rows).map(|i| (0..columns).map(|j| number(from + i * columns + j)).collect::<Value>()).collect()
    };
    let file = |cell: &str, gates: usize, options: Value, inputs: Value| {
        let width = 2 * gates;
        let mut file = json!({
            "inputs": {
                "X": matrix(4, 3, 0), "W_x": matrix(3, width, 5), "b_x": matrix(1, width, 9)[0], "W_h": matrix(2, width, 14),
                "b_h": matrix(1, width, 23)[0], "W_class": matrix(2, 3, 31), "target": [[0, 1, 0]]
            },
            "options": { "cell": cell }
        });
        for (key, more) in [("inputs", inputs), ("options", options)] {
            for (name, value) in more.as_object().unwrap() {
                file[key][name] = value.clone();
            }
        }
        file
    };
    let each = json!([[1, 0, 0], [0, 1, 0], [0.5, 0.25, 0.25], [0, 0, 1]]);
    let mut all = vec![
        file("rnn", 1, json!({ "pooling": "last" }), json!({})),
        file("rnn", 1, json!({}), json!({ "h_0": [0.3, -0.4], "target": each })),
        file("lstm", 4, json!({ "pooling": "last" }), json!({ "h_0": [0.3, -0.4], "c_0": [-0.2, 0.7] })),
        file("lstm", 4, json!({ "pooling": "mean" }), json!({})),
        file("gru", 3, json!({ "pooling": "last", "unit_length": true }), json!({ "h_0": [0.3, -0.4] })),
        file("gru", 3, json!({}), json!({ "target": each })),
    ];
    all[3]["optimizer"] = json!({ "learning_rate": 0.1, "weight_decay": 0.1 });
    all[4]["optimizer"] = json!({ "learning_rate": 0.1 });
    all
}
