//! A recipe book as a key–value store. A query looks up titles and returns recipes: hard attention returns the best
//! one, soft attention a weighted mix.
//!
//!     cargo run --release -p chumoku-nn --example recipe_book

use chumoku_nn::attention::{hard_attention, soft_attention};
use ndarray::array;

fn main() -> chumoku_nn::Result<()> {
    // Features of a title: pasta, soup, oven, sweet.
    let titles = ["lasagne", "tomato soup", "apple pie", "macaroni and cheese"];
    let keys = array![[0.9, 0.1, 0.8, 0.0], [0.0, 1.0, 0.1, 0.1], [0.0, 0.0, 0.9, 1.0], [0.8, 0.0, 0.3, 0.0]];
    // Ingredients in grams: flour, tomatoes, cheese, apples, sugar. Values may be wider than keys.
    let values = array![
        [250.0, 400.0, 200.0, 0.0, 0.0],
        [0.0, 800.0, 0.0, 0.0, 5.0],
        [300.0, 0.0, 0.0, 900.0, 150.0],
        [20.0, 0.0, 250.0, 0.0, 0.0]
    ];
    // “A pasta dish from the oven.”
    let query = array![[1.0, 0.0, 0.7, 0.0]];

    let hard = hard_attention(query.view(), keys.view(), values.view())?;
    println!("hard: the recipe of the best title: {:.0}", hard.output.row(0));
    for beta in [0.5, 2.0, 20.0] {
        let soft = soft_attention(query.view(), keys.view(), values.view(), beta)?;
        let shares =
            titles.iter().zip(soft.weights.row(0)).map(|(title, share)| format!("{title} {:.0} %", 100.0 * share));
        println!("soft, β = {beta}: {}", shares.collect::<Vec<_>>().join(", "));
        println!("  which makes {:.0}", soft.output.row(0));
    }
    Ok(())
}
