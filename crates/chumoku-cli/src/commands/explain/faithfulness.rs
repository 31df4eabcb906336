//! `chumoku explain --faithfulness`: which ways to explain a classifier its answers bear out.

use super::model::{AttentionModel, require_attention};
use super::print_json_or_text;
use super::rows::open_rows;
use crate::args::{ExplainArgs, ReadArgs};
use crate::report::{fit, wrap};
use crate::{ExitCode, UsageError};
use chumoku::explain::{Faithfulness, MeanInterval, MethodFaithfulness, shorten_numbers};
use chumoku::{Lang, tr};
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

pub(super) fn run(args: &ExplainArgs, input: &Path, lang: Lang) -> anyhow::Result<ExitCode> {
    let kind = require_attention(&args.model)?;
    let model = match AttentionModel::load(&args.model, args.precision)? {
        AttentionModel::Classifier(model) => model,
        _ => {
            let problem = tr!(
                "--faithfulness: for a classifier; this model is {}; name the folder of a classifier",
                "--faithfulness: 分類モデルで使えます。このモデルは{}です。分類モデルのフォルダを指定してください",
                kind.describe()
            );
            return Err(UsageError(problem).into());
        }
    };
    let reads_pairs = model.config().reads_pairs();
    let beside = crate::commands::columns::required_columns(model.config().columns(), &args.set)?;
    let source = open_rows(&ReadArgs { feature_columns: beside, ..args.reading.clone() }, input, reads_pairs)?;
    let columns = source.columns().clone();
    let mut records = source.records();
    let mut texts = Vec::new();
    while let Some(row) = records.next_with_fault()? {
        // A row that cannot be read has nothing to explain.
        if let (record, None) = row {
            texts.push(columns.row_text(&record).into_owned());
        }
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut last = Instant::now();
    let found = model.faithfulness(&texts, args.seed.unwrap_or(1), &mut |done, all| {
        if done < all && last.elapsed() > Duration::from_secs(2) {
            last = Instant::now();
            say!("{}", tr!("rows      {done} of {all} explained", "行        {all} 行中 {done} 行を説明しました"));
        }
    })?;
    let json = shorten_numbers(serde_json::to_value(&found)?);
    print_json_or_text(args, &json, || table(&found, lang))
}

fn table(found: &Faithfulness, lang: Lang) -> String {
    let Faithfulness { rows, of, unfit, seed, largest_gap, .. } = found;
    let mut out = wrap(
        &tr!(
            "The network's probability of its answer, on average while words are cut out of a text (the smaller, the better) and put in (the \
         larger, the better), the first in each order first; gain: their difference, minus that of random orders. {rows} of {of} rows, \
         seed {seed}; in brackets 95 % intervals.",
            "テキストから語を順に取り除くとき（小さいほど良い）と、順に加えるとき（大きいほど良い）の、ネットワークの答えの確率の平均。\
         改善は両者の差から無作為順の差を引いたもの。{of} 行中 {rows} 行、シード {seed}。括弧内は 95 % 区間。"
        ),
        80,
    );
    out += "\n\n";
    let heading = [lang.pick("cut out", "除去"), lang.pick("put in", "追加"), lang.pick("gain", "改善")];
    let cells = heading.map(|text| fit(text, 18));
    let _ = writeln!(out, "{}", format!("  {} {}", fit("", 20), cells.join(" ")).trim_end());
    let percent = |MeanInterval { mean, low, high }: MeanInterval| {
        let [mean, low, high] = [mean, low, high].map(|x| 100.0 * x);
        format!("{mean:.1} ({low:.1} – {high:.1})")
    };
    for MethodFaithfulness { order, deletion, insertion, gain } in &found.orders {
        let cells = [*deletion, *insertion, *gain].map(|mean| fit(&percent(mean), 18));
        let _ = writeln!(out, "{}", format!("  {} {}", fit(order, 20), cells.join(" ")).trim_end());
    }
    out += "\n";
    out += &wrap(&found.summary(lang), 80);
    out += "\n";
    let mut notes = tr!(
        "Largest completeness gap of integrated gradients: {:.1} %.",
        "積分勾配の完全性のずれは最大 {:.1} %。",
        100.0 * largest_gap
    );
    if *unfit > 0 {
        notes += &tr!(
            " {unfit} rows of the sample are left out: fewer than two words, or longer than the model reads at a time.",
            " 標本のうち {unfit} 行は、2 語未満か、一度に読める長さを超えるため除きました。"
        );
    }
    out += &wrap(&notes, 80);
    out + "\n"
}
