//! The report of a tagger: a dictionary baseline, and the model card.

use super::TaggerData;
use super::network::TaggerPlan;
use crate::data::{Span, SpanExample};
use crate::lang::wording::format_thousands;
use crate::lang::{escape_markdown, lang};
use crate::scoring::{SpanScore, SpanScores};
use crate::text_models::tagger::{TextTagger, units_of_row};
use crate::train::reports::card::{interruption_note, label_heading, score_heading};
use crate::train::run_folder::folder_run::RunResult;
use crate::{sorting, tr};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// Scores a dictionary, which marks every sequence of units that was a span in training with its most frequent kind.
/// Longer sequences take precedence.
pub(super) fn dictionary_scores(data: &TaggerData, rows: &[SpanExample], seed: u64) -> SpanScores {
    let mut names: HashMap<String, Vec<usize>> = HashMap::new();
    let slice = |row: &SpanExample, start: usize, end: usize| -> String {
        row.text.chars().skip(start).take(end - start).collect()
    };
    for row in data.train.iter().chain(&data.valid) {
        for span in &row.spans {
            let kind = data.labels.binary_search(&span.label).unwrap_or_default();
            let counts = names.entry(slice(row, span.start, span.end)).or_insert_with(|| vec![0; data.labels.len()]);
            counts[kind] += 1;
        }
    }
    let lengths: HashSet<usize> = names.keys().map(|name| name.chars().count()).collect();
    let mut lengths: Vec<usize> = lengths.into_iter().collect();
    sorting::sort_by_key(&mut lengths, |&n| std::cmp::Reverse(n));
    let find = |row: &SpanExample| {
        let letters: Vec<(usize, char)> = row.text.char_indices().collect();
        let byte = |at: usize| letters.get(at).map_or(row.text.len(), |(at, _)| *at);
        let units = units_of_row(row, data.unit);
        let (starts, ends): (HashSet<usize>, HashSet<usize>) = units.iter().map(|unit| (unit.start, unit.end)).unzip();
        let (mut found, mut at) = (Vec::new(), 0);
        while at < letters.len() {
            let fits = |n: &&usize| {
                at + **n <= letters.len()
                    && starts.contains(&byte(at))
                    && ends.contains(&byte(at + **n))
                    && names.contains_key(&row.text[byte(at)..byte(at + **n)])
            };
            match lengths.iter().find(fits) {
                None => at += 1,
                Some(&n) => {
                    let counts = &names[&row.text[byte(at)..byte(at + n)]];
                    let kind = (0..counts.len()).fold(0, |best, k| if counts[k] > counts[best] { k } else { best });
                    found.push(Span { start: at, end: at + n, label: data.labels[kind].clone() });
                    at += n;
                }
            }
        }
        found
    };
    let found: Vec<Vec<Span>> = rows.iter().map(find).collect();
    SpanScores::of(rows.iter().map(|row| &row.spans[..]).zip(found.iter().map(Vec::as_slice)), seed)
}

/// Scores on the reported rows.
pub(super) struct TaggerScores<'a> {
    pub(super) test: &'a SpanScores,
    /// The scores of the CRF and of the network alone, if there is a network.
    pub(super) parts: &'a Option<[SpanScores; 2]>,
    pub(super) dictionary: &'a SpanScores,
}

/// Writes the model card.
pub(super) fn card(
    model: &TextTagger,
    data: &TaggerData,
    of_network: Option<(&TaggerPlan, &RunResult)>,
    TaggerScores { test, parts, dictionary }: TaggerScores<'_>,
    (part, seed): (&str, u64),
) -> String {
    let labels = label_heading(&data.labels);
    let mut card = tr!("# Tagger: {labels}\n\n", "# 単語にラベルを付けるモデル: {labels}\n\n");
    if let Some((_, ended)) = of_network.filter(|(_, ended)| ended.interrupted) {
        card += &interruption_note(ended.state.epoch);
    }
    if let Some(warning) = test.warning() {
        let _ = writeln!(card, "**{warning}**\n");
    }
    let (features, version) = (format_thousands(model.num_features()), env!("CARGO_PKG_VERSION"));
    card += &match of_network {
        None => tr!(
            "A conditional random field over {features} features, trained from scratch with Chumoku {version}; no network.\n\n",
            "{features} 個の特徴による条件付き確率場（CRF）です。Chumoku {version} でゼロから学習しました。ネットワークは使っていません。\n\n"
        ),
        Some((plan, _)) => {
            let (kind, parameters) = (&plan.fine_tuning.model_type, format_thousands(model.num_parameters()));
            let shares = model.blend();
            let how = match data.continued {
                None => tr!("fine-tuned with Chumoku {version}", "Chumoku {version} でファインチューニングし"),
                Some(_) => tr!(
                    "fine-tuned and trained further with Chumoku {version}",
                    "ファインチューニングののち Chumoku {version} で追加学習し"
                ),
            };
            tr!(
                "A pretrained encoder ({kind}, {parameters} parameters), {how}, combined with a conditional random \
                 field over {features} features. The network has weight {:.2}, the conditional random field {:.2}; \
                 both were fitted on the validation rows.\n\n",
                "事前学習済みのエンコーダー（{kind}、パラメータ {parameters}）を {how}、{features} 個の特徴による条件付き確率場（CRF）と組み合わせた\
                 ものです。検証データで決めた重みは、ネットワークが {:.2}、CRF が {:.2} です。\n\n",
                shares.network,
                shares.crf
            )
        }
    };
    card += &score_heading(test.rows, part);
    card += lang().pick("| | precision | recall | F1 | spans |", "| | 適合率 | 再現率 | F1 | スパン |");
    card += "\n|---|---|---|---|---|\n";
    let mut row = |name: &str, score: &SpanScore| {
        let [p, r, f] = [score.precision, score.recall, score.f1].map(|x| format!("{:.1} %", 100.0 * x));
        let _ = writeln!(card, "| {} | {p} | {r} | {f} | {} |", escape_markdown(name), score.spans);
    };
    row(lang().pick("**this model**", "**このモデル**"), &test.all);
    if let Some([crf, network]) = parts {
        row(lang().pick("network alone", "ネットワーク単独"), &network.all);
        row(lang().pick("conditional random field alone", "条件付き確率場（CRF）単独"), &crf.all);
    }
    row(
        lang().pick("names from the training rows only (baseline)", "学習データにある名前だけ（比較対象）"),
        &dictionary.all,
    );
    test.kinds.iter().for_each(|kind| row(&kind.label, kind));
    card += &tr!(
        "\n## Data\n\n{} rows to train on, {} to validate, {} to test. SHA-256 of texts and spans: `{}`. Seed {seed}.\n",
        "\n## データ\n\n学習 {} 行、検証 {} 行、テスト {} 行。テキストとスパンの SHA-256: `{}`。シード {seed}。\n",
        data.train.len(),
        data.valid.len(),
        data.test.len(),
        data.fingerprint()
    );
    for (i, note) in data.notes.iter().enumerate() {
        let _ = writeln!(card, "{}- {note}", if i == 0 { "\n" } else { "" });
    }
    let limits = match of_network {
        None => tr!(
            "The model knows nothing but its training rows. It finds other names only by their form and context.",
            "このモデルが知っているのは学習データだけです。学習データにない名前は、語形と前後の語だけで判断します。"
        ),
        Some(_) => tr!(
            "Besides its training rows, the model uses what the encoder learned from its pretraining texts, including \
             their errors and biases.",
            "学習データのほかに、エンコーダーが事前学習のテキストから得たことを、その誤りや偏りも含めて使います。"
        ),
    };
    card + &tr!(
        "\n## Limits\n\n{limits} Labels in texts of another language, style or subject are unreliable.\n\n## \
         Use\n\n```\nchumoku predict THIS_FOLDER \"some text\"\n```\n",
        "\n## 限界\n\n{limits}言語・文体・話題の異なるテキストでは、印はあてになりません。\n\n## 使い方\n\n```\nchumoku predict このフォルダ \"テキスト\"\n```\n"
    )
}
