//! The targets of a classifier: one class a text, any number of labels, or a number.

use crate::blend::binary_blend::{BinaryBlend, fit_thresholds, sigmoid};
use crate::blend::number::{NumberBlend, NumberLabel};
use crate::lang::lang;
use crate::models::Classifier;
use crate::ngram::NgramTarget;
use crate::nn::{Mode, Offsets};
use crate::params::Params;
use crate::scoring::{
    Rows, accuracy_and_macro_f1, argmax, log_loss, micro_f1, weighted_accuracy_and_macro_f1, weighted_mean,
};
use crate::train::continued_training::replay_target::ReplayTarget;
use crate::train::data::training_data::TrainingData;
use crate::train::settings::plan::Plan;
use crate::train::training_loop::micro_batches::{AnswerCount, StepOutput};
use crate::train::training_loop::trainable::{Evaluation, Metric};
use crate::{Result, tr};
use chumoku_kernels::CrossEntropy;
use chumoku_nn::probability::log_softmax;
use ndarray::Array2;

/// An answer that a network can be trained to give.
pub(crate) trait ClassifierTarget: ReplayTarget {
    /// Computes the loss of packed texts with their answers and optional row weights, and adds its gradient to `grads`.
    fn train_step(
        model: &Classifier,
        params: &Params<f32>,
        tokens: (&[u32], &Offsets),
        answers: (&[Self], Option<&[f32]>),
        plan: &Plan,
        mode: Mode,
        grads: &mut Params<f32>,
    ) -> Result<StepOutput>;

    /// Returns the initial bias of the last layer, given the number of rows of each class or label. `None` means zeros.
    fn initial_bias(class_rows: &[usize], rows: usize) -> Option<Vec<f32>>;

    /// Evaluates logits, (texts, outputs), on these rows.
    fn evaluate(logits: &Array2<f32>, rows: &Rows<Self>, data: &TrainingData<Self>, is_held_out: bool) -> Evaluation;

    /// Summarizes the validation scores of the n-gram model's logits, as the end of a sentence.
    fn validation_summary(logits: &[&[f32]], answers: &[Self], data: &TrainingData<Self>) -> String;

    /// The metric for comparing linear models.
    fn comparison_metric(logits: &[&[f32]], answers: &[Self], data: &TrainingData<Self>) -> Metric;
}

fn share(name: &'static str, key: &'static str, value: f64) -> Metric {
    Metric { name, key, value, is_share: true }
}

impl ClassifierTarget for u32 {
    fn train_step(
        model: &Classifier,
        params: &Params<f32>,
        tokens: (&[u32], &Offsets),
        (labels, row_weights): (&[u32], Option<&[f32]>),
        plan: &Plan,
        mode: Mode,
        grads: &mut Params<f32>,
    ) -> Result<StepOutput> {
        let options = CrossEntropy {
            label_smoothing: plan.settings.label_smoothing,
            class_weights: plan.class_weights.as_deref(),
            row_weights,
        };
        let (loss, logits) = model.loss_and_logits(params, tokens, labels, &options, mode, grads)?;
        let of_class = |label: u32| plan.class_weights.as_ref().map_or(1.0, |w| f64::from(w[label as usize]));
        let of_row = |row: usize| row_weights.map_or(1.0, |weights| f64::from(weights[row]));
        let weight = labels.iter().enumerate().map(|(row, &label)| of_row(row) * of_class(label)).sum();
        Ok(StepOutput::new(loss.into(), weight, tokens.0.len()).with_answers(AnswerCount::of_logits(&logits, labels)))
    }

    fn initial_bias(_class_rows: &[usize], _rows: usize) -> Option<Vec<f32>> {
        None
    }

    fn evaluate(logits: &Array2<f32>, rows: &Rows, data: &TrainingData, is_held_out: bool) -> Evaluation {
        let (answers, weights) = (&rows.labels, rows.weights.as_deref());
        let log_p: Vec<Vec<f32>> = logits.rows().into_iter().map(|row| log_softmax(&row.to_vec())).collect();
        let predicted: Vec<u32> = log_p.iter().map(|row| argmax(row)).collect();
        let (accuracy, macro_f1) = weighted_accuracy_and_macro_f1(answers, &predicted, weights, data.labels.len());
        let metrics = vec![
            share(lang().pick("accuracy", "正解率"), "accuracy", accuracy),
            share(lang().pick("macro-F1", "マクロ F1"), "macro_f1", macro_f1),
        ];
        Evaluation { score: macro_f1, loss: log_loss(&log_p, answers, weights), metrics, is_held_out }
    }

    fn validation_summary(logits: &[&[f32]], answers: &[u32], data: &TrainingData) -> String {
        let predicted: Vec<u32> = logits.iter().map(|row| argmax(row)).collect();
        let (accuracy, f1) = accuracy_and_macro_f1(answers, &predicted, data.labels.len());
        let [accuracy, f1] = [100.0 * accuracy, 100.0 * f1];
        tr!(
            ", validation accuracy {accuracy:.1} %, macro-F1 {f1:.1} %",
            "、検証データの正解率 {accuracy:.1} %、マクロ F1 {f1:.1} %"
        )
    }

    fn comparison_metric(logits: &[&[f32]], answers: &[u32], data: &TrainingData) -> Metric {
        let predicted: Vec<u32> = logits.iter().map(|row| argmax(row)).collect();
        let accuracy = accuracy_and_macro_f1(answers, &predicted, data.labels.len()).0;
        share(lang().pick("accuracy", "正解率"), "accuracy", accuracy)
    }
}

/// Returns the micro-F1 at the best threshold for these rows, and the mean −ln p of a row's labels.
fn best_micro_f1(logits: &[&[f32]], (answers, weights): (&[Vec<u32>], Option<&[f32]>), labels: usize) -> (f64, f64) {
    let probabilities: Vec<Vec<f32>> = logits.iter().map(|row| row.iter().map(|&z| sigmoid(z)).collect()).collect();
    let thresholds = fit_thresholds(&probabilities, answers, weights, labels);
    let blend = BinaryBlend { thresholds, ..BinaryBlend::network_only(labels) };
    let predicted: Vec<Vec<u32>> = probabilities.iter().map(|p| blend.predicted_labels(p)).collect();
    let of_row = |(row, answer): (&&[f32], &Vec<u32>)| crate::ngram::log_loss(row, answer, true);
    let loss = weighted_mean(logits.iter().zip(answers).map(of_row), weights);
    (micro_f1(answers, &predicted, weights), loss)
}

impl ClassifierTarget for Vec<u32> {
    fn train_step(
        model: &Classifier,
        params: &Params<f32>,
        tokens: (&[u32], &Offsets),
        (labels, row_weights): (&[Vec<u32>], Option<&[f32]>),
        _plan: &Plan,
        mode: Mode,
        grads: &mut Params<f32>,
    ) -> Result<StepOutput> {
        let loss = model.multi_label_loss(params, tokens, (labels, row_weights), mode, grads)?;
        let sum = |weights: &[f32]| weights.iter().map(|&weight| f64::from(weight)).sum();
        let weight = row_weights.map_or(labels.len() as f64, sum);
        Ok(StepOutput::new(loss.into(), weight, tokens.0.len()))
    }

    fn initial_bias(class_rows: &[usize], rows: usize) -> Option<Vec<f32>> {
        // Most labels are rare: from even odds, the first epochs would learn nothing else.
        let log_odds = |&n: &usize| ((n as f64 + 0.5) / ((rows - n) as f64 + 0.5)).ln() as f32;
        Some(class_rows.iter().map(log_odds).collect())
    }

    fn evaluate(logits: &Array2<f32>, rows: &Rows<Self>, data: &TrainingData<Self>, is_held_out: bool) -> Evaluation {
        let logits: Vec<Vec<f32>> = logits.rows().into_iter().map(|row| row.to_vec()).collect();
        let logits: Vec<&[f32]> = logits.iter().map(Vec::as_slice).collect();
        let (f1, loss) = best_micro_f1(&logits, (&rows.labels, rows.weights.as_deref()), data.labels.len());
        let of_loss = Metric { name: lang().pick("loss", "損失"), key: "log_loss", value: loss, is_share: false };
        let metrics = vec![of_loss, share(lang().pick("micro-F1", "ミクロ F1"), "micro_f1", f1)];
        Evaluation { score: f1, loss, metrics, is_held_out }
    }

    fn validation_summary(logits: &[&[f32]], answers: &[Vec<u32>], data: &TrainingData<Self>) -> String {
        let f1 = 100.0 * best_micro_f1(logits, (answers, None), data.labels.len()).0;
        tr!(", validation micro-F1 {f1:.1} %", "、検証データのミクロ F1 {f1:.1} %")
    }

    fn comparison_metric(logits: &[&[f32]], answers: &[Vec<u32>], data: &TrainingData<Self>) -> Metric {
        let f1 = best_micro_f1(logits, (answers, None), data.labels.len()).0;
        share(lang().pick("micro-F1", "ミクロ F1"), "micro_f1", f1)
    }
}

/// Returns the mean absolute error and the mean loss of a row.
fn number_error(
    logits: &[&[f32]],
    (answers, weights): (&[NumberLabel], Option<&[f32]>),
    data: &TrainingData<NumberLabel>,
) -> (f64, f64) {
    let plain = NumberBlend::network_only(data.discretizer.clone());
    let error = |(z, answer): (&&[f32], &NumberLabel)| {
        let above: Vec<f32> = z.iter().map(|&z| sigmoid(z)).collect();
        (plain.estimate(&above).score - answer.number).abs()
    };
    let loss = |(z, answer): (&&[f32], &NumberLabel)| crate::ngram::log_loss(z, answer.label_ids(), true);
    let rows = || logits.iter().zip(answers);
    (weighted_mean(rows().map(error), weights), weighted_mean(rows().map(loss), weights))
}

impl ClassifierTarget for NumberLabel {
    fn train_step(
        model: &Classifier,
        params: &Params<f32>,
        tokens: (&[u32], &Offsets),
        (answers, row_weights): (&[NumberLabel], Option<&[f32]>),
        plan: &Plan,
        mode: Mode,
        grads: &mut Params<f32>,
    ) -> Result<StepOutput> {
        let sets: Vec<Vec<u32>> = answers.iter().map(|answer| answer.above.clone()).collect();
        Vec::<u32>::train_step(model, params, tokens, (&sets, row_weights), plan, mode, grads)
    }

    fn initial_bias(class_rows: &[usize], rows: usize) -> Option<Vec<f32>> {
        Vec::<u32>::initial_bias(class_rows, rows)
    }

    fn evaluate(
        logits: &Array2<f32>,
        rows: &Rows<NumberLabel>,
        data: &TrainingData<NumberLabel>,
        is_held_out: bool,
    ) -> Evaluation {
        let logits: Vec<Vec<f32>> = logits.rows().into_iter().map(|row| row.to_vec()).collect();
        let logits: Vec<&[f32]> = logits.iter().map(Vec::as_slice).collect();
        let (error, loss) = number_error(&logits, (&rows.labels, rows.weights.as_deref()), data);
        let metric = |name, key, value| Metric { name, key, value, is_share: false };
        let metrics = vec![
            metric(lang().pick("loss", "損失"), "log_loss", loss),
            metric(lang().pick("mean absolute error", "平均絶対誤差"), "mean_absolute_error", error),
        ];
        Evaluation { score: -error, loss, metrics, is_held_out }
    }

    fn validation_summary(logits: &[&[f32]], answers: &[NumberLabel], data: &TrainingData<NumberLabel>) -> String {
        let (error, _) = number_error(logits, (answers, None), data);
        tr!(", validation mean absolute error {error:.3}", "、検証データの平均絶対誤差 {error:.3}")
    }

    fn comparison_metric(logits: &[&[f32]], answers: &[NumberLabel], data: &TrainingData<NumberLabel>) -> Metric {
        let value = number_error(logits, (answers, None), data).0;
        let name = lang().pick("mean absolute error", "平均絶対誤差");
        Metric { name, key: "mean_absolute_error", value, is_share: false }
    }
}
