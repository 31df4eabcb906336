//! The report of a run: scores and baselines, `metrics.json`, and the model card.

use super::display_names::{network_name, network_sizes};
use crate::Result;
use crate::lang::wording::percent;
use crate::lang::{escape_markdown, lang};
use crate::ngram::NgramTarget;
use crate::nn::BackboneKind;
use crate::prediction::abstention::{
    self, AbstentionCalibration, CoveragePoint, LevelConfidences, guarantee_violation,
};
use crate::scoring::{Advice, Rows, Scores, TreeScores, argmax};
use crate::text_models::classifier::{ClassifierScores, TextClassifier};
use crate::tr;
use crate::train::continued_training::comparison::{figure_name, format_figure};
use crate::train::data::training_data::TrainingData;
use crate::train::run_folder::run_identity::plan_json;
use crate::train::run_folder::training::held_out_part;
use crate::train::settings::options::TrainOptions;
use crate::train::settings::plan::Plan;
use crate::train::training_loop::train_state::TrainState;
use serde_json::{Value, json};
use std::fmt::Write;

/// Scores on the test rows of the ensemble, its members and the majority class.
pub(crate) struct ClassifierReport {
    pub(crate) ensemble: Scores,
    pub(crate) members: [Scores; 3],
    /// Scores of a transformer from scratch, if the network is pretrained.
    pub(crate) from_scratch: Option<Scores>,
    pub(crate) advice: Advice,
    /// The confidence of each row, and whether its answer is correct.
    pub(crate) confidences: Vec<(f32, bool)>,
    /// The same at each level, for classes in a hierarchy.
    pub(crate) levels: Vec<LevelConfidences>,
}

/// Names of [`ClassifierReport::members`] in `metrics.json`.
const MEMBER_NAMES: [&str; 3] = ["attention", "ngrams", "majority"];

impl ClassifierReport {
    /// Scores of the members and baselines, by their name in `metrics.json`.
    pub(crate) fn named_parts(&self) -> Vec<(&'static str, Scores)> {
        let members = MEMBER_NAMES.into_iter().zip(self.members.iter().cloned());
        members.chain(self.from_scratch.iter().map(|scores| ("from_scratch", scores.clone()))).collect()
    }
}

/// Returns the rows for the scores: the test rows, else the validation rows, else the training rows.
pub(crate) fn reported_rows<A: NgramTarget>(data: &TrainingData<A>) -> (&Rows<A>, &'static str) {
    held_out_part([&data.train, &data.valid, &data.test], Rows::is_empty)
}

pub(crate) fn evaluate(
    model: &TextClassifier,
    data: &TrainingData,
    from_scratch: Option<Scores>,
    seed: u64,
) -> Result<ClassifierReport> {
    let (rows, _) = reported_rows(data);
    let ClassifierScores { ensemble: whole, members: [network, ngrams], advice, confidences: sure, levels } =
        model.scores(rows, seed)?;
    let majority = majority_scores(data, rows, seed);
    let advice = advice.or_majority([&whole, &network, &ngrams], &majority);
    Ok(ClassifierReport {
        ensemble: whole,
        members: [network, ngrams, majority],
        from_scratch,
        advice,
        confidences: sure,
        levels,
    })
}

/// Returns the most frequent class of the training rows, the first of several.
pub(crate) fn most_frequent_class(data: &TrainingData) -> usize {
    let counts = data.class_rows();
    (0..counts.len()).fold(0, |best, class| if counts[class] > counts[best] { class } else { best })
}

/// Scores a classifier that always predicts the most frequent class of the training rows. In a hierarchy, it predicts
/// the most frequent node below the node above.
pub(crate) fn majority_scores(data: &TrainingData, rows: &Rows, seed: u64) -> Scores {
    let predicted = vec![most_frequent_class(data) as u32; rows.len()];
    let texts = rows.texts();
    let hierarchy = data.hierarchy.as_ref().map(|tree| {
        let counts: Vec<f32> = data.class_rows().iter().map(|&count| count as f32 / data.train.len() as f32).collect();
        let predicted = vec![tree.predict(&counts) as u32; rows.len()];
        TreeScores::of(tree, &rows.predicted_rows(&predicted, &texts), seed)
    });
    Scores { hierarchy, ..Scores::of(&rows.predicted_rows(&predicted, &texts), &data.labels, None, seed) }
}

/// Returns for each reported row whether the network alone is correct.
pub(crate) fn network_correctness(model: &TextClassifier, data: &TrainingData) -> Result<Vec<bool>> {
    let (rows, _) = reported_rows(data);
    let predictions = model.predict(&rows.texts())?;
    Ok(predictions.iter().zip(&rows.labels).map(|(p, &label)| argmax(&p.network) == label).collect())
}

pub(crate) fn metrics(
    model: &TextClassifier,
    data: &TrainingData,
    options: &TrainOptions,
    plan: &Plan,
    state: &TrainState,
    report: &ClassifierReport,
    interrupted: bool,
) -> Value {
    let (_, part) = reported_rows(data);
    let value = |scores: &Scores| serde_json::to_value(scores).expect("scores are plain data");
    let baselines: serde_json::Map<String, Value> =
        report.named_parts().iter().map(|(name, scores)| ((*name).into(), value(scores))).collect();
    json!({
        "chumoku_version": env!("CARGO_PKG_VERSION"),
        "seed": options.seed,
        "interrupted": interrupted,
        "rows": { "train": data.train.len(), "valid": data.valid.len(), "test": data.test.len() },
        "labels": data.labels,
        "files": data.sources,
        "data_sha256": data.fingerprint(),
        "parameters": model.num_parameters(),
        "steps": state.step,
        "epochs": state.epoch,
        "best_epoch": state.best.map(|best| best.epoch),
        "valid": state.best.map(|best| json!({ "macro_f1": best.score, "log_loss": best.loss })),
        "blend": model.config().blend,
        "scored_on": part,
        "accuracy": report.ensemble.accuracy,
        "macro_f1": report.ensemble.macro_f1,
        "scores": value(&report.ensemble),
        "parts": baselines,
        "advice": report.advice,
        "abstain": abstain_levels(model.config().abstention.as_ref(), (&report.confidences, &report.levels)),
        "risk_coverage": risk_coverage(&report.confidences),
        "plan": plan_json(plan),
        "notes": data.notes,
    })
}

/// The levels of `--abstain` that are reported.
const ABSTAIN_LEVELS: [f64; 5] = [0.8, 0.9, 0.95, 0.98, 0.99];

/// Describes `--abstain` at common levels: the confidence threshold, and the coverage and accuracy on the validation
/// rows and on these rows. If these rows miss a level, the entry `broken` says why.
///
/// For classes in a hierarchy, each level of the tree has its own threshold.
pub(crate) fn abstain_levels(
    calibration: Option<&AbstentionCalibration>,
    (sure, levels): (&[(f32, bool)], &[LevelConfidences]),
) -> Vec<Value> {
    let Some(calibration) = calibration else { return Vec::new() };
    if !levels.is_empty() {
        return ABSTAIN_LEVELS
            .into_iter()
            .filter_map(|level| super::hierarchy_report::abstain_level(calibration, levels, level))
            .collect();
    }
    let of_level = |level: f64| {
        let step = calibration.threshold_for(level)?;
        let answered: Vec<bool> = sure.iter().filter(|row| row.0 >= step.confidence).map(|row| row.1).collect();
        let right = answered.iter().filter(|right| **right).count();
        Some(json!({
            "level": level,
            "confidence": step.confidence,
            "valid": { "covers": step.answered as f64 / calibration.rows.max(1) as f64,
                       "right": 1.0 - step.wrong as f64 / step.answered.max(1) as f64 },
            "covers": answered.len() as f64 / sure.len().max(1) as f64,
            "right": (!answered.is_empty()).then(|| right as f64 / answered.len() as f64),
            "broken": guarantee_violation(right, answered.len(), level),
        }))
    };
    ABSTAIN_LEVELS.into_iter().filter_map(of_level).collect()
}

/// The risk–coverage curve: confidence, share of rows with at least this confidence, and share of errors among them.
pub(crate) fn risk_coverage(sure: &[(f32, bool)]) -> Vec<[f64; 3]> {
    let rows = sure.len().max(1) as f64;
    let point = |step: &CoveragePoint| {
        let answered = step.answered as f64;
        [f64::from(step.confidence), answered / rows, step.wrong as f64 / answered]
    };
    abstention::risk_coverage_curve(sure).iter().map(point).collect()
}

/// Writes the model card, for readers who do not know the model.
pub(crate) fn model_card(
    model: &TextClassifier,
    data: &TrainingData,
    plan: &Plan,
    state: &TrainState,
    report: &ClassifierReport,
    options: &TrainOptions,
    interrupted: bool,
) -> String {
    let mut card = heading(data, &report.ensemble);
    let (body, noun) = (&model.config().model.backbone, network_name(model.config().model.backbone.kind()));
    let (rows, part) = reported_rows(data);
    if interrupted {
        card += &interruption_note(state.epoch);
    }
    card += &tr!(
        "{} ({}, {} parameters) {}, combined with a linear model over n-grams. It classifies texts into {} \
         classes.\n\n",
        "{}（{}、パラメータ {}）を {}、n-gram の線形モデルと組み合わせたものです。テキストを {} クラスに分類します。\n\n",
        match body.kind() {
            BackboneKind::Transformer => tr!("A transformer encoder", "トランスフォーマーのエンコーダー"),
            BackboneKind::Recurrent(_) => tr!("A recurrent network, {noun}", "再帰型ネットワーク {noun}"),
        },
        network_sizes(body, lang()),
        model.num_parameters(),
        training_summary(plan, data.continued.is_some()),
        data.labels.len()
    );
    let alone = tr!("{noun} alone", "{noun}単独");
    let names = [&alone, lang().pick("n-grams alone (baseline)", "n-gram 単独（比較対象）"), majority_name()];
    let mut all: Vec<_> =
        std::iter::once((this_model_name(), &report.ensemble)).chain(names.into_iter().zip(&report.members)).collect();
    let scratch =
        lang().pick("a transformer from scratch (baseline)", "ゼロから学習したトランスフォーマー（比較対象）");
    all.extend(report.from_scratch.iter().map(|scores| (scratch, scores)));
    card += &score_table(rows.len(), part, &all);
    card += &super::hierarchy_report::class_level_section(&all);
    let blend = model.config().blend;
    card += &tr!(
        "\nThe predictor multiplies the {noun}'s probabilities, to the power {:.2}, with the n-gram model's, to the \
         power {:.2}; both powers were fitted on held-out rows, so the probabilities are calibrated on them.\n\n",
        "\n予測は、{noun}の確率の {:.2} 乗と n-gram モデルの確率の {:.2} 乗の積です。どちらの指数も学習から除いた行で求めたもので、確率は\
         その行で較正されています。\n\n",
        blend.network,
        blend.ngrams
    );
    card += &class_table(&report.ensemble);
    card += &data_section(data, options.seed);
    card += &tr!(
        "\n## Limits\n\n{} Answers for texts in another language, style or subject mean little. Texts of more than {} \
         tokens are read whole, in windows whose answers are averaged.{}",
        "\n## 限界\n\n{}言語・文体・話題の異なるテキストへの答えには、ほとんど意味がありません。\
         {} トークンを超えるテキストは、窓に分けて全体を読み、答えを平均します。{}",
        match &plan.fine_tuning {
            None => lang().pick(
                "The model knows nothing but its training rows.",
                "このモデルが知っているのは学習データだけです。",
            ),
            Some(_) => lang().pick(
                "The classes are known from the training rows alone. The language is also known from the texts that \
                 the encoder was pretrained on, including their biases.",
                "クラスについて知っているのは学習データだけですが、言語については、偏りも含めて、エンコーダーの事前学習に使われた\
                 テキストからも学んでいます。",
            ),
        },
        model.window(),
        match body.kind() {
            BackboneKind::Transformer => lang().pick(
                " Weights of attention show where the model looks, not why it decides.",
                "アテンションの重みが示すのはモデルがどこを見ているかであって、判断の理由ではありません。",
            ),
            BackboneKind::Recurrent(_) => "",
        }
    );
    card + &usage_section(data.reads_pairs())
}

/// Describes how the network was trained. `is_further` is true for continued training.
pub(crate) fn training_summary(plan: &Plan, is_further: bool) -> String {
    let version = env!("CARGO_PKG_VERSION");
    if is_further {
        return tr!("trained further with Chumoku {version}", "Chumoku {version} で別のモデルから追加学習し");
    }
    match &plan.fine_tuning {
        None => tr!("trained from scratch with Chumoku {version}", "Chumoku {version} でゼロから学習し"),
        Some(from) if plan.settings.epochs == 0 => tr!(
            "pretrained (type {}), with a logistic regression on its vectors by Chumoku {version}",
            "事前学習済みの状態（種類 {}）のまま、そのベクトルで Chumoku {version} がロジスティック回帰を学習し",
            from.model_type
        ),
        Some(from) => tr!(
            "pretrained (type {}) and fine-tuned with Chumoku {version}",
            "事前学習済みの状態（種類 {}）から Chumoku {version} でファインチューニングし",
            from.model_type
        ),
    }
}

/// The note on an interrupted run.
pub(crate) fn interruption_note(epochs: u64) -> String {
    tr!(
        "**Training was interrupted after {epochs} epochs.** `--resume` continues it.\n\n",
        "**学習は {epochs} エポックで中断されました。** `--resume` で続けられます。\n\n"
    )
}

/// The row label of the model itself.
pub(crate) fn this_model_name() -> &'static str {
    lang().pick("**this model**", "**このモデル**")
}

/// The row label of the majority baseline.
pub(crate) fn majority_name() -> &'static str {
    lang().pick("always the most frequent class (baseline)", "常に最も多いクラス（比較対象）")
}

/// The title, followed by a warning that concerns all figures.
pub(crate) fn heading(data: &TrainingData, scores: &Scores) -> String {
    let labels = label_heading(&data.labels);
    let mut card = tr!("# Text classifier: {labels}\n\n", "# テキスト分類モデル: {labels}\n\n");
    if let Some(warning) = scores.warning() {
        let _ = writeln!(card, "**{warning}**\n");
    }
    card
}

/// Joins labels for a heading, truncated to a readable length.
pub(crate) fn label_heading(labels: &[String]) -> String {
    let labels: String = labels.join(lang().pick(", ", "、")).chars().take(200).collect();
    escape_markdown(&labels)
}

/// The heading of the scores, which names the rows that they are computed on.
pub(crate) fn score_heading(rows: usize, part: &str) -> String {
    let part = match part {
        "test" => tr!("{rows} test rows, which training never saw", "学習に使っていないテストデータ {rows} 行での値:"),
        "valid" => tr!(
            "{rows} validation rows, also used to choose the model, so the figures are optimistic",
            "検証データ {rows} 行での値（学習の選択に使ったため、楽観的な値です）:"
        ),
        _ => tr!(
            "{rows} training rows, because there are no others; this says nothing about new texts",
            "学習データ {rows} 行での値（ほかにデータがないためで、新しいテキストについては何も分かりません）:"
        ),
    };
    tr!("## Scores\n\nOn {part}:\n\n", "## 評価\n\n{part}\n\n")
}

/// The table of scores of several predictors.
pub(crate) fn score_table(rows: usize, part: &str, all: &[(&str, &Scores)]) -> String {
    let mut card = score_heading(rows, part);
    card += lang().pick(
        "| | accuracy | macro-F1 | 95 % interval of macro-F1 |",
        "| | 正解率 | マクロ F1 | マクロ F1 の 95 % 区間 |",
    );
    card += "\n|---|---|---|---|\n";
    for (name, scores) in all {
        let [low, high] = scores.macro_f1_interval;
        let [accuracy, macro_f1, low, high] = [scores.accuracy, scores.macro_f1, low, high].map(percent);
        card += &tr!(
            "| {name} | {accuracy} | {macro_f1} | {low} to {high} |\n",
            "| {name} | {accuracy} | {macro_f1} | {low}〜{high} |\n"
        );
    }
    card
}

/// The score without test rows whose texts are also in the training data, if there are any. `key` is the name of the
/// figure.
pub(crate) fn unseen_section(metrics: &Value, key: &str) -> String {
    let rows = |scores: &Value| scores["rows"].as_u64().unwrap_or_default();
    let unseen = rows(&metrics["unseen"]);
    if unseen == 0 {
        return String::new();
    }
    let of = |scores: &Value| format_figure(key, scores[key].as_f64().unwrap_or_default());
    let [all, without] = [of(&metrics["scores"]), of(&metrics["unseen"])];
    let (leaked, name) = (rows(&metrics["scores"]).saturating_sub(unseen), figure_name(key));
    tr!(
        "\n\nThe texts of {leaked} test rows are also in the training data. Without these rows, the {name} is \
         {without} ({unseen} rows) instead of {all}.\n",
        "\n\nテストデータのうち {leaked} 行は、テキストが学習データにもあります。それらを除いた {unseen} 行での{name}は {without} で、\
         {all} ではありません。\n"
    )
}

/// The entry `optimize` of `metrics.json`: scores with the decision, or without it if the model applies it.
pub(crate) fn decision_json(is_applied: bool, factors: &[f32], scores: &Scores) -> Value {
    json!({ "for": "macro_f1", "applied": is_applied, "factors": factors, "scores": scores })
}

/// Shows how to use the model folder, for single texts or pairs.
pub(crate) fn usage_section(reads_pairs: bool) -> String {
    let [predict, explain] = match reads_pairs {
        false => [lang().pick("\"some text\"", "\"テキスト\""); 2],
        true => [
            lang().pick("\"first text\" \"second text\"", "\"1 つ目\" \"2 つ目\""),
            lang().pick("\"first text\" --target \"second text\"", "\"1 つ目\" --target \"2 つ目\""),
        ],
    };
    tr!(
        "\n\n## Use\n\n```\nchumoku predict THIS_FOLDER {predict}\nchumoku explain THIS_FOLDER {explain}\n```\n",
        "\n\n## 使い方\n\n```\nchumoku predict このフォルダ {predict}\nchumoku explain このフォルダ {explain}\n```\n"
    )
}

/// The table of precision and recall of each class.
pub(crate) fn class_table(scores: &Scores) -> String {
    const MOST: usize = 100;
    let heads = lang().pick("| class | precision | recall | F1 | rows |", "| クラス | 適合率 | 再現率 | F1 | 行数 |");
    let mut card = format!("{heads}\n|---|---|---|---|---|\n");
    for class in scores.classes.iter().take(MOST) {
        let _ = writeln!(
            card,
            "| {} | {} | {} | {} | {} |",
            escape_markdown(&class.label),
            percent(class.precision),
            percent(class.recall),
            percent(class.f1),
            class.rows
        );
    }
    if scores.classes.len() > MOST {
        card += &tr!(
            "\n(the first {MOST} of {} classes; all are in `metrics.json`)\n",
            "\n（{} クラスのうち最初の {MOST} クラス。すべては `metrics.json` にあります）\n",
            scores.classes.len()
        );
    }
    card
}

/// The section on the data.
pub(crate) fn data_section<A: NgramTarget>(data: &TrainingData<A>, seed: u64) -> String {
    let mut card = tr!(
        "\n## Data\n\n{} rows to train on, {} to validate, {} to test. SHA-256 of texts and labels: `{}`. Seed {seed}.\n\n",
        "\n## データ\n\n学習 {} 行、検証 {} 行、テスト {} 行。テキストとラベルの SHA-256: `{}`。シード {seed}。\n\n",
        data.train.len(),
        data.valid.len(),
        data.test.len(),
        data.fingerprint()
    );
    for note in &data.notes {
        let _ = writeln!(card, "- {note}");
    }
    card
}
