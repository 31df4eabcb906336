//! Implements `chumoku explain --faithfulness`: compares explanation methods with a classifier's answers.

use super::model::AttentionModel;
use super::print_json_or_text;
use crate::ExitCode;
use crate::answers::stream::open_rows;
use crate::args::{ExplainArgs, ReadArgs};
use crate::data::columns::required_columns;
use crate::models::require_attention;
use crate::report::{fit, wrap};
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
            refuse!(
                "--faithfulness: only for classifiers; this model is {}; name the folder of a classifier",
                "--faithfulness: 分類モデルで使えます。このモデルは{}です。分類モデルのフォルダを指定してください",
                kind.describe()
            );
        }
    };
    let reads_pairs = model.config().reads_pairs();
    let beside = required_columns(model.config().columns(), &args.set)?;
    let source = open_rows(input, &ReadArgs { feature_columns: beside, ..args.reading.clone() }, reads_pairs)?;
    let columns = source.columns().clone();
    let mut records = source.records();
    let mut texts = Vec::new();
    while let Some(row) = records.next_with_fault()? {
        // A row that cannot be read has nothing to explain.
        if let (record, None) = row {
            texts.push(columns.row(&record));
        }
    }
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
            "The network's mean probability of its answer while words are removed from a text (smaller is better) and inserted (larger \
         is better), in the order of each method; gain: the difference of the two, minus that of random orders. {rows} of {of} rows, \
         seed {seed}; 95 % intervals in brackets.",
            "テキストから語を順に取り除くとき（小さいほど良い）と、順に加えるとき（大きいほど良い）の、ネットワークの答えの確率の平均。\
         改善は両者の差から無作為順の差を引いたもの。{of} 行中 {rows} 行、シード {seed}。括弧内は 95 % 区間。"
        ),
        80,
    );
    out += "\n\n";
    let heading = [lang.pick("removed", "除去"), lang.pick("inserted", "追加"), lang.pick("gain", "改善")];
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
            " {unfit} rows of the sample were skipped: fewer than two words, or longer than the model's window.",
            " 標本のうち {unfit} 行は、2 語未満か、モデルの窓より長いため除外しました。"
        );
    }
    out += &wrap(&notes, 80);
    out + "\n"
}
