//! Cross-entropy with label smoothing and class weights.
//!
//! Source of label smoothing: Szegedy et al., "Rethinking the Inception Architecture" (2016), section 7; the way it
//! combines with class weights is that of `torch.nn.functional.cross_entropy` (reduction "mean").

use crate::{Error, Real, Result};

/// The options of [`cross_entropy`].
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropy<'a, T> {
    /// Share ε of the target spread over all classes, in 0..=1.
    pub label_smoothing: T,
    /// A weight for each class, 1 if absent.
    pub class_weights: Option<&'a [T]>,
}

/// The mean loss of a batch, and its gradient with respect to the logits.
///
/// With p = softmax(logits), y the label, w the class weights and C classes:
/// `loss_i = −(1 − ε) w_y ln p_y − ε/C · Σ_c w_c ln p_c`, and the batch's loss is `Σ_i loss_i / Σ_i w_{y_i}`.
///
/// # Shapes
/// `logits`, `d_logits` (rows, classes); `labels` (rows,).
///
/// # Errors
/// If there are no rows, a label is not a class, the lengths do not fit or the options are out of range.
pub fn cross_entropy<T: Real>(
    logits: &[T],
    labels: &[u32],
    options: &CrossEntropy<T>,
    d_logits: &mut [T],
) -> Result<T> {
    let rows = labels.len();
    if rows == 0 || logits.is_empty() || !logits.len().is_multiple_of(rows) {
        let problem = format!("expected one row for each of {rows} labels, got {} values", logits.len());
        return Err(Error::value("cross entropy: logits", problem));
    }
    let classes = logits.len() / rows;
    Error::check_length("cross entropy: d_logits", logits.len(), d_logits.len())?;
    if let Some(weights) = options.class_weights {
        Error::check_length("cross entropy: class_weights", classes, weights.len())?;
    }
    if let Some(label) = labels.iter().find(|&&label| label as usize >= classes) {
        return Err(Error::value("cross entropy: labels", format!("expected below {classes}, got {label}")));
    }
    let smoothing = options.label_smoothing;
    if !(smoothing >= T::ZERO && smoothing <= T::ONE) {
        return Err(Error::value("cross entropy: label_smoothing", format!("expected 0 to 1, got {smoothing}")));
    }
    let weight = |class: usize| options.class_weights.map_or(T::ONE, |weights| weights[class]);
    let spread = smoothing / T::of(classes as f64);
    let weights_in_all: T = (0..classes).map(weight).sum();
    let divisor: T = labels.iter().map(|&label| weight(label as usize)).sum();
    let mut loss = T::ZERO;
    let rows = logits.chunks_exact(classes).zip(d_logits.chunks_exact_mut(classes));
    for ((x, dx), &label) in rows.zip(labels) {
        let label = label as usize;
        let largest = x.iter().copied().fold(T::NEG_INFINITY, T::max);
        let log_total = x.iter().map(|&x| (x - largest).exp()).sum::<T>().ln() + largest;
        let certain = (T::ONE - smoothing) * weight(label);
        // −ln p_c = log_total − x_c, and its gradient is p − onehot(c).
        let in_all = certain + spread * weights_in_all;
        for (class, (&x, dx)) in x.iter().zip(dx).enumerate() {
            let target = spread * weight(class) + if class == label { certain } else { T::ZERO };
            loss += target * (log_total - x);
            *dx = ((x - log_total).exp() * in_all - target) / divisor;
        }
    }
    Ok(loss / divisor)
}
