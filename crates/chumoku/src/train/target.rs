//! What a classifier learns to answer: one class a text, any number of labels, or a number.

use super::parts::Learnt;
use super::quick_scores;
use super::rehearsed::Rehearsed;
use super::trainable::{Evaluation, Metric};
use super::{Plan, TrainingData};
use crate::label_blend::{LabelBlend, sigmoid, thresholds};
use crate::lang::lang;
use crate::models::Classifier;
use crate::ngram::Answer;
use crate::nn::{Mode, Offsets};
use crate::number::{Measured, NumberBlend};
use crate::params::Params;
use crate::scoring::{largest, mean_loss, micro_f1};
use crate::{Result, tr};
use chumoku_kernels::CrossEntropy;
use chumoku_nn::probability::log_softmax;
use ndarray::Array2;

/// An answer that a network is trained to give.
pub(super) trait Target: Rehearsed {
    /// The loss of some texts, packed, with their answers; its gradient is added.
    fn learn(
        model: &Classifier,
        params: &Params<f32>,
        tokens: (&[u32], &Offsets),
        answers: &[Self],
        plan: &Plan,
        mode: Mode,
        grads: &mut Params<f32>,
    ) -> Result<Learnt>;

    /// What the last layer's bias begins with, by how many of the rows have each class or label; zeros if absent.
    fn bias(class_rows: &[usize], rows: usize) -> Option<Vec<f32>>;

    /// What logits, (texts, outputs), are worth.
    fn evaluate(logits: &Array2<f32>, answers: &[Self], data: &TrainingData<Self>, is_held_out: bool) -> Evaluation;

    /// The same of the n-gram model's logits, behind what else is said of it.
    fn said(logits: &[&[f32]], answers: &[Self], data: &TrainingData<Self>) -> String;

    /// The one figure by which linear models are compared.
    fn worth(logits: &[&[f32]], answers: &[Self], data: &TrainingData<Self>) -> Metric;
}

fn share(name: &'static str, key: &'static str, value: f64) -> Metric {
    Metric { name, key, value, is_share: true }
}

impl Target for u32 {
    fn learn(
        model: &Classifier,
        params: &Params<f32>,
        tokens: (&[u32], &Offsets),
        labels: &[u32],
        plan: &Plan,
        mode: Mode,
        grads: &mut Params<f32>,
    ) -> Result<Learnt> {
        let options = CrossEntropy {
            label_smoothing: plan.settings.label_smoothing,
            class_weights: plan.class_weights.as_deref(),
        };
        let loss = model.loss(params, tokens, labels, &options, mode, grads)?;
        let of_class = |&label: &u32| plan.class_weights.as_ref().map_or(1.0, |w| f64::from(w[label as usize]));
        Ok(Learnt { loss: loss.into(), weight: labels.iter().map(of_class).sum(), tokens: tokens.0.len() })
    }

    fn bias(_class_rows: &[usize], _rows: usize) -> Option<Vec<f32>> {
        None
    }

    fn evaluate(logits: &Array2<f32>, answers: &[u32], data: &TrainingData, is_held_out: bool) -> Evaluation {
        let log_p: Vec<Vec<f32>> = logits.rows().into_iter().map(|row| log_softmax(&row.to_vec())).collect();
        let predicted: Vec<u32> = log_p.iter().map(|row| largest(row)).collect();
        let (accuracy, macro_f1) = quick_scores(answers, &predicted, data.labels.len());
        let metrics = vec![
            share(lang().pick("accuracy", "正解率"), "accuracy", accuracy),
            share(lang().pick("macro-F1", "マクロ F1"), "macro_f1", macro_f1),
        ];
        Evaluation { score: macro_f1, loss: mean_loss(&log_p, answers), metrics, is_held_out }
    }

    fn said(logits: &[&[f32]], answers: &[u32], data: &TrainingData) -> String {
        let predicted: Vec<u32> = logits.iter().map(|row| largest(row)).collect();
        let (accuracy, f1) = quick_scores(answers, &predicted, data.labels.len());
        let [accuracy, f1] = [100.0 * accuracy, 100.0 * f1];
        tr!(
            ", validation accuracy {accuracy:.1} %, macro-F1 {f1:.1} %",
            "、検証データの正解率 {accuracy:.1} %、マクロ F1 {f1:.1} %"
        )
    }

    fn worth(logits: &[&[f32]], answers: &[u32], data: &TrainingData) -> Metric {
        let predicted: Vec<u32> = logits.iter().map(|row| largest(row)).collect();
        let accuracy = quick_scores(answers, &predicted, data.labels.len()).0;
        share(lang().pick("accuracy", "正解率"), "accuracy", accuracy)
    }
}

/// Micro-F1 at the threshold that is best on these rows, and the mean −ln p of a row's labels.
fn best_micro_f1(logits: &[&[f32]], answers: &[Vec<u32>], labels: usize) -> (f64, f64) {
    let probabilities: Vec<Vec<f32>> = logits.iter().map(|row| row.iter().map(|&z| sigmoid(z)).collect()).collect();
    let thresholds = thresholds(&probabilities, answers, labels);
    let blend = LabelBlend { thresholds, ..LabelBlend::attention(labels) };
    let predicted: Vec<Vec<u32>> = probabilities.iter().map(|p| blend.predicted(p)).collect();
    let of_row = |(row, answer): (&&[f32], &Vec<u32>)| crate::ngram::loss_of(row, answer, true);
    let loss = logits.iter().zip(answers).map(of_row).sum::<f64>() / answers.len().max(1) as f64;
    (micro_f1(answers, &predicted), loss)
}

impl Target for Vec<u32> {
    fn learn(
        model: &Classifier,
        params: &Params<f32>,
        tokens: (&[u32], &Offsets),
        labels: &[Vec<u32>],
        _plan: &Plan,
        mode: Mode,
        grads: &mut Params<f32>,
    ) -> Result<Learnt> {
        let loss = model.loss_of_labels(params, tokens, labels, mode, grads)?;
        Ok(Learnt { loss: loss.into(), weight: labels.len() as f64, tokens: tokens.0.len() })
    }

    fn bias(class_rows: &[usize], rows: usize) -> Option<Vec<f32>> {
        // Most labels are rare: from even odds the first epochs would learn nothing but that.
        let log_odds = |&n: &usize| ((n as f64 + 0.5) / ((rows - n) as f64 + 0.5)).ln() as f32;
        Some(class_rows.iter().map(log_odds).collect())
    }

    fn evaluate(
        logits: &Array2<f32>,
        answers: &[Vec<u32>],
        data: &TrainingData<Self>,
        is_held_out: bool,
    ) -> Evaluation {
        let rows: Vec<Vec<f32>> = logits.rows().into_iter().map(|row| row.to_vec()).collect();
        let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
        let (f1, loss) = best_micro_f1(&rows, answers, data.labels.len());
        let of_loss = Metric { name: lang().pick("loss", "損失"), key: "log_loss", value: loss, is_share: false };
        let metrics = vec![of_loss, share(lang().pick("micro-F1", "ミクロ F1"), "micro_f1", f1)];
        Evaluation { score: f1, loss, metrics, is_held_out }
    }

    fn said(logits: &[&[f32]], answers: &[Vec<u32>], data: &TrainingData<Self>) -> String {
        let f1 = 100.0 * best_micro_f1(logits, answers, data.labels.len()).0;
        tr!(", validation micro-F1 {f1:.1} %", "、検証データのミクロ F1 {f1:.1} %")
    }

    fn worth(logits: &[&[f32]], answers: &[Vec<u32>], data: &TrainingData<Self>) -> Metric {
        let f1 = best_micro_f1(logits, answers, data.labels.len()).0;
        share(lang().pick("micro-F1", "ミクロ F1"), "micro_f1", f1)
    }
}

/// The mean absolute error and the mean loss of a row.
fn number_error(logits: &[&[f32]], answers: &[Measured], data: &TrainingData<Measured>) -> (f64, f64) {
    let plain = NumberBlend::attention(data.scale.clone());
    let (mut error, mut loss) = (0.0, 0.0);
    for (z, answer) in logits.iter().zip(answers) {
        let above: Vec<f32> = z.iter().map(|&z| sigmoid(z)).collect();
        error += (plain.estimate(&above).score - answer.number).abs();
        loss += crate::ngram::loss_of(z, answer.numbers(), true);
    }
    let rows = answers.len().max(1) as f64;
    (error / rows, loss / rows)
}

impl Target for Measured {
    fn learn(
        model: &Classifier,
        params: &Params<f32>,
        tokens: (&[u32], &Offsets),
        answers: &[Measured],
        plan: &Plan,
        mode: Mode,
        grads: &mut Params<f32>,
    ) -> Result<Learnt> {
        let sets: Vec<Vec<u32>> = answers.iter().map(|answer| answer.above.clone()).collect();
        Vec::<u32>::learn(model, params, tokens, &sets, plan, mode, grads)
    }

    fn bias(class_rows: &[usize], rows: usize) -> Option<Vec<f32>> {
        Vec::<u32>::bias(class_rows, rows)
    }

    fn evaluate(
        logits: &Array2<f32>,
        answers: &[Measured],
        data: &TrainingData<Measured>,
        is_held_out: bool,
    ) -> Evaluation {
        let rows: Vec<Vec<f32>> = logits.rows().into_iter().map(|row| row.to_vec()).collect();
        let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
        let (error, loss) = number_error(&rows, answers, data);
        let metric = |name, key, value| Metric { name, key, value, is_share: false };
        let metrics = vec![
            metric(lang().pick("loss", "損失"), "log_loss", loss),
            metric(lang().pick("mean absolute error", "平均絶対誤差"), "mean_absolute_error", error),
        ];
        Evaluation { score: -error, loss, metrics, is_held_out }
    }

    fn said(logits: &[&[f32]], answers: &[Measured], data: &TrainingData<Measured>) -> String {
        let (error, _) = number_error(logits, answers, data);
        tr!(", validation mean absolute error {error:.3}", "、検証データの平均絶対誤差 {error:.3}")
    }

    fn worth(logits: &[&[f32]], answers: &[Measured], data: &TrainingData<Measured>) -> Metric {
        let value = number_error(logits, answers, data).0;
        let name = lang().pick("mean absolute error", "平均絶対誤差");
        Metric { name, key: "mean_absolute_error", value, is_share: false }
    }
}
