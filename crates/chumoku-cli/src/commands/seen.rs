//! Rows that a model was trained on, in a file that is to score it.

use crate::args::Eval;
use crate::progress::tell;
use chumoku::data::thousands;
use chumoku::tr;
use chumoku::train::SeenTexts;

/// How many rows have a text that the model was trained on, where that is known; says so if there are any.
pub(super) fn tell_of_seen(args: &Eval, texts: &[&str]) -> anyhow::Result<Option<usize>> {
    let seen = SeenTexts::load(&args.model)?.map(|seen| seen.count(texts));
    if let Some(n) = seen.filter(|&n| n > 0) {
        let rows = thousands(texts.len());
        let n = thousands(n);
        tell(
            ["note", "注記"],
            &tr!(
                "warning: {n} of {rows} rows have a text that the model was trained on or chosen by: their score \
                 says nothing about new texts",
                "警告: {rows} 行のうち {n} 行のテキストは、モデルの学習か選択に使われています。その評価値からは、新しいテキストに\
                 ついて何も分かりません"
            ),
        );
    }
    Ok(seen)
}
