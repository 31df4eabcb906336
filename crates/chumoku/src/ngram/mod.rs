//! TF-IDF n-grams with multinomial logistic regression. (draft)

mod model;
mod solver;
mod sparse;
mod tokens;
mod vocabulary;

pub use model::*;
pub use tokens::NgramScheme;
