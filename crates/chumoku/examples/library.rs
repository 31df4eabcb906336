//! The library in two parts: a text classifier from rows to answers, and one attention layer, forward and backward.
//!
//! ```text
//! cargo run --release -p chumoku --example library
//! ```

use chumoku::nn::{AttentionInput, Mode, MultiHeadAttention, MultiHeadAttentionConfig, Offsets};
use chumoku::params::{Builder, Params};
use chumoku::train::{Training, train};
use chumoku::{TextClassifier, builtin};
use ndarray::Array2;

fn classify() -> chumoku::Result<()> {
    let folder = std::env::temp_dir().join("chumoku-library-example");
    let mut training = Training::new(&folder);
    training.options.epochs = Some(10);
    let outcome = train(&builtin::reviews(), training)?;
    println!("{} held-out reviews, accuracy {:.1} %", outcome.test.rows, 100.0 * outcome.test.accuracy);

    let model = TextClassifier::load(&folder)?;
    let texts = ["I would buy it again tomorrow.", "二度と行きません。"];
    for (text, prediction) in texts.iter().zip(model.predict(&texts)?) {
        let class = prediction.class();
        println!("{} {:.3}  {text}", model.labels()[class], prediction.probabilities[class]);
    }
    Ok(())
}

fn attend() -> chumoku::Result<()> {
    let mut builder = Builder::new();
    let attention = MultiHeadAttention::new(&mut builder, MultiHeadAttentionConfig::new(64, 8)?);
    let params = Params::<f32>::init(&builder.finish(), 1);

    // Two sequences, of five tokens and of three: packed, not padded.
    let offsets = Offsets::from_lengths([5, 3]);
    let x = Array2::from_shape_fn((8, 64), |(token, column)| ((token * 64 + column) as f32).sin());
    let input = AttentionInput::self_attention(x.view(), &offsets);
    let (y, cache) = attention.forward(&params, &input, Mode::Eval)?;
    let weights = attention.attention_weights(&input, &cache, 1, 0)?;
    println!("weights of the second sequence, first head:\n{weights:.3}");

    // The gradients of ½ Σ y².
    let mut grads = Params::zeros(params.layout());
    let (dx, _) = attention.backward(&params, &input, &cache, y.view(), Mode::Eval, &mut grads)?;
    println!("gradients: {:?} of the input, {} of the weights", dx.dim(), grads.values().len());
    Ok(())
}

fn main() -> chumoku::Result<()> {
    classify()?;
    attend()
}
