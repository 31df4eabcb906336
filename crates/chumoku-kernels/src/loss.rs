//! Cross-entropy of classes, with label smoothing, class weights and row weights, and binary cross-entropy of labels.
//!
//! Source of label smoothing: Szegedy et al., "Rethinking the Inception Architecture" (2016), section 7. It combines
//! with class weights as in `torch.nn.functional.cross_entropy` (reduction "mean"). The weight of a row multiplies its
//! loss and its share of the divisor.

use crate::isa::{self, Simd, SimdOp};
use crate::math::exp;
use crate::number::{Real, implementations};
use crate::threads::{SharedMut, for_each};
use crate::{Error, Result, profile};

/// The options of [`cross_entropy`].
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropy<'a, T> {
    /// Fraction ε of the target that is spread over all classes, in 0..=1.
    pub label_smoothing: T,
    /// A weight for each class; 1 if absent. A class of weight 0 is excluded from the loss.
    pub class_weights: Option<&'a [T]>,
    /// A weight for each row; 1 if absent. Weights of 1 give the same bits as none. A row of weight 0 is excluded from
    /// the loss.
    pub row_weights: Option<&'a [T]>,
}

/// Computes the mean loss of a batch, and its gradient with respect to the logits.
///
/// With p = softmax(logits), y the label, w the class weights, r the row weights and C classes:
/// `loss_i = −(1 − ε) w_y ln p_y − ε/C · Σ_c w_c ln p_c`. The loss of the batch is `Σ_i r_i loss_i / Σ_i r_i w_{y_i}`.
///
/// # Shapes
/// `logits`, `d_logits` (rows, classes); `labels` (rows,).
///
/// # Errors
/// If there are no rows, a label is not a class, the lengths do not match or the options are out of range. Also if the
/// weights leave no row: the divisor `Σ_i r_i w_{y_i}` must be a finite number above 0.
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
    check_weights("cross entropy: class_weights", options.class_weights, classes, "class")?;
    check_weights("cross entropy: row_weights", options.row_weights, rows, "row")?;
    if let Some(label) = labels.iter().find(|&&label| label as usize >= classes) {
        return Err(Error::value("cross entropy: labels", format!("expected below {classes}, got {label}")));
    }
    let smoothing = options.label_smoothing;
    if !(smoothing >= T::ZERO && smoothing <= T::ONE) {
        return Err(Error::value("cross entropy: label_smoothing", format!("expected 0 to 1, got {smoothing}")));
    }
    check_divisor("cross entropy: row_weights and class_weights", options.batch_totals(classes, labels).divisor)?;
    let _timed = profile::memory_bound::<T>("cross-entropy", 2 * logits.len());
    Ok(T::run::<CrossEntropyLoss>((logits, labels, options, d_logits)))
}

/// Computes the mean binary cross-entropy of a multi-label batch, and its gradient with respect to the logits.
///
/// Each label has its own probability `p = 1 / (1 + e⁻ᶻ)`. With y = 1 for the labels of row i and 0 for all others,
/// `loss_i = −Σ_k (y_k ln p_k + (1 − y_k) ln(1 − p_k)) = Σ_k ln(1 + e^{z_k}) − Σ_k y_k z_k`. With row weights r (1 if
/// absent), the loss of the batch is `Σ_i r_i loss_i / Σ_i r_i`. Weights of 1 give the same bits as none. A row of
/// weight 0 is excluded from the loss.
///
/// # Shapes
/// `logits`, `d_logits` (rows, labels); `labels` (rows,): the ids of each row's labels, without repetition.
///
/// # Errors
/// If there are no rows, a label does not exist, the lengths do not match or the weights are out of range. Also if the
/// sum of the weights is 0 or overflows.
pub fn binary_cross_entropy<T: Real>(
    logits: &[T],
    labels: &[Vec<u32>],
    row_weights: Option<&[T]>,
    d_logits: &mut [T],
) -> Result<T> {
    let rows = labels.len();
    if rows == 0 || logits.is_empty() || !logits.len().is_multiple_of(rows) {
        let problem = format!("expected one row for each of {rows} sets of labels, got {} values", logits.len());
        return Err(Error::value("binary cross entropy: logits", problem));
    }
    let classes = logits.len() / rows;
    Error::check_length("binary cross entropy: d_logits", logits.len(), d_logits.len())?;
    check_weights("binary cross entropy: row_weights", row_weights, rows, "row")?;
    if let Some(weights) = row_weights {
        check_divisor("binary cross entropy: row_weights", weights.iter().copied().sum::<T>())?;
    }
    if let Some(label) = labels.iter().flatten().find(|&&label| label as usize >= classes) {
        let problem = format!("expected labels below {classes}, got {label}");
        return Err(Error::value("binary cross entropy: labels", problem));
    }
    let _timed = profile::memory_bound::<T>("binary cross-entropy", 2 * logits.len());
    Ok(T::run::<BinaryCrossEntropyLoss>((logits, labels, row_weights, d_logits)))
}

/// Checks the weights of rows or classes, if there are any.
///
/// # Errors
/// If their number is not `count`, or one is negative or not finite.
fn check_weights<T: Real>(what: &'static str, weights: Option<&[T]>, count: usize, of: &str) -> Result<()> {
    let Some(weights) = weights else { return Ok(()) };
    Error::check_length(what, count, weights.len())?;
    let is_weight = |&weight: &T| weight.is_finite() && weight >= T::ZERO;
    match weights.iter().position(|weight| !is_weight(weight)) {
        None => Ok(()),
        Some(at) => {
            let problem = format!("expected finite numbers of at least 0, got {} in {of} {at}", weights[at]);
            Err(Error::value(what, problem))
        }
    }
}

/// Checks the sum of the weights in a batch, by which the loss is divided.
fn check_divisor<T: Real>(what: &'static str, divisor: T) -> Result<()> {
    if divisor > T::ZERO && divisor.is_finite() {
        return Ok(());
    }
    let problem = format!(
        "expected weights whose sum over the rows is finite and above 0, got {divisor}; leave out a batch without a \
         row of positive weight"
    );
    Err(Error::value(what, problem))
}

implementations! {
    /// Both implementations of [`cross_entropy`].
    CrossEntropyLoss<'a, T>(logits: &'a [T], labels: &'a [u32], options: &'a CrossEntropy<'a, T>, d: &'a mut [T]) -> T {
        fast: cross_entropy_f32,
        reference: reference::cross_entropy,
    }
}

implementations! {
    /// Both implementations of [`binary_cross_entropy`].
    BinaryCrossEntropyLoss<'a, T>(
        logits: &'a [T], labels: &'a [Vec<u32>], weights: Option<&'a [T]>, d: &'a mut [T]
    ) -> T { fast: binary_cross_entropy_f32, reference: reference::binary_cross_entropy }
}

/// Totals that all rows of a batch share.
#[derive(Clone, Copy, Debug)]
struct BatchTotals<T> {
    /// ε/C
    smoothing_per_class: T,
    /// Σ_c w_c
    total_class_weight: T,
    /// Σ_i r_i w_{y_i}
    divisor: T,
}

impl<T: Real> CrossEntropy<'_, T> {
    fn weight(&self, class: usize) -> T {
        self.class_weights.map_or(T::ONE, |weights| weights[class])
    }

    fn row_weight(&self, row: usize) -> T {
        self.row_weights.map_or(T::ONE, |weights| weights[row])
    }

    fn batch_totals(&self, classes: usize, labels: &[u32]) -> BatchTotals<T> {
        let of_row = |(row, &label): (usize, &u32)| self.row_weight(row) * self.weight(label as usize);
        BatchTotals {
            smoothing_per_class: self.label_smoothing / T::round_from(classes as f64),
            total_class_weight: (0..classes).map(|class| self.weight(class)).sum(),
            divisor: labels.iter().enumerate().map(of_row).sum(),
        }
    }
}

/// Approximate number of values in a piece of work.
const PIECE: usize = 1 << 13;

struct CrossEntropyRows<'a> {
    options: &'a CrossEntropy<'a, f32>,
    shared: BatchTotals<f32>,
    /// Index of the first row.
    first: usize,
    logits: &'a [f32],
    labels: &'a [u32],
    d_logits: &'a mut [f32],
    losses: &'a mut [f32],
}

impl SimdOp for CrossEntropyRows<'_> {
    type Output = ();
    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        let CrossEntropyRows { options, shared, first, logits, labels, d_logits, losses } = self;
        let classes = logits.len() / labels.len();
        let rows = logits.chunks_exact(classes).zip(d_logits.chunks_exact_mut(classes));
        for (row, (((x, dx), &label), loss)) in (first..).zip(rows.zip(labels).zip(losses)) {
            let (label, row_weight) = (label as usize, options.row_weight(row));
            let row_divisor = shared.divisor / row_weight;
            let mut largest = simd.splat(f32::NEG_INFINITY);
            for x in x.chunks(S::LANES) {
                largest = simd.max(simd.load_up_to(x, f32::NEG_INFINITY), largest);
            }
            let largest = simd.max_lane(largest);
            let mut total = simd.splat(0.0);
            for x in x.chunks(S::LANES) {
                let x = simd.load_up_to(x, f32::NEG_INFINITY);
                total = simd.add(total, exp(simd, simd.sub(x, simd.splat(largest))));
            }
            let log_total = simd.sum(total).ln() + largest;
            // −ln p_c = log_total − x_c, and its gradient is p − onehot(c).
            let certain = (1.0 - options.label_smoothing) * options.weight(label);
            let (in_all, shift) =
                (certain + shared.smoothing_per_class * shared.total_class_weight, simd.splat(log_total));
            let (mut sum, divisor) = (simd.splat(0.0), simd.splat(row_divisor));
            for at in (0..classes).step_by(S::LANES) {
                let end = classes.min(at + S::LANES);
                // Padding of the last vector adds nothing: its distance is 0.
                let distance = simd.sub(shift, simd.load_up_to(&x[at..end], log_total));
                let target = match options.class_weights {
                    Some(weights) => {
                        simd.mul(simd.load_up_to(&weights[at..end], 0.0), simd.splat(shared.smoothing_per_class))
                    }
                    None => simd.splat(shared.smoothing_per_class),
                };
                sum = simd.mul_add(target, distance, sum);
                let p = exp(simd, simd.sub(simd.splat(0.0), distance));
                let d = simd.div(simd.sub(simd.mul(p, simd.splat(in_all)), target), divisor);
                simd.store_up_to(&mut dx[at..end], d);
            }
            dx[label] -= certain / row_divisor;
            *loss = row_weight * (simd.sum(sum) + certain * (log_total - x[label]));
        }
    }
}

fn cross_entropy_f32(logits: &[f32], labels: &[u32], options: &CrossEntropy<f32>, d_logits: &mut [f32]) -> f32 {
    let classes = logits.len() / labels.len();
    let shared = options.batch_totals(classes, labels);
    let rows = (PIECE / classes).max(1);
    let mut losses = vec![0.0; labels.len()];
    let (d, of_rows) = (SharedMut::new(d_logits), SharedMut::new(&mut losses));
    for_each(labels.len().div_ceil(rows), logits.len() * 16, |piece| {
        let (first, count) = (piece * rows, rows.min(labels.len() - piece * rows));
        // SAFETY: each piece is its own range of rows.
        let (d_logits, losses) = unsafe { (d.slice(first * classes, count * classes), of_rows.slice(first, count)) };
        let (logits, labels) = (&logits[first * classes..][..count * classes], &labels[first..first + count]);
        isa::dispatch(CrossEntropyRows { options, shared, first, logits, labels, d_logits, losses });
    });
    losses.iter().sum::<f32>() / shared.divisor
}

/// Computes in f64 and rounds each gradient once: a batch has few labels, and the loss sums large terms that cancel.
fn binary_cross_entropy_f32(
    logits: &[f32],
    labels: &[Vec<u32>],
    row_weights: Option<&[f32]>,
    d_logits: &mut [f32],
) -> f32 {
    let classes = logits.len() / labels.len();
    let weight = |row: usize| row_weights.map_or(1.0, |weights| f64::from(weights[row]));
    let total: f64 = (0..labels.len()).map(weight).sum();
    let rows = (PIECE / classes).max(1);
    // −Σ_k ln(1 − p_k) of each row.
    let mut without_labels = vec![0.0_f64; labels.len()];
    let (d, of_rows) = (SharedMut::new(d_logits), SharedMut::new(&mut without_labels));
    for_each(labels.len().div_ceil(rows), logits.len() * 128, |piece| {
        let (first, count) = (piece * rows, rows.min(labels.len() - piece * rows));
        // SAFETY: each piece is its own range of rows.
        let (d_logits, sums) = unsafe { (d.slice(first * classes, count * classes), of_rows.slice(first, count)) };
        let of_row = logits[first * classes..].chunks_exact(classes).zip(d_logits.chunks_exact_mut(classes)).zip(sums);
        for (row, ((z, d), sum)) in (first..).zip(of_row) {
            let divisor = total / weight(row);
            for (d, &z) in d.iter_mut().zip(z) {
                *d = (1.0 / ((1.0 + (-f64::from(z)).exp()) * divisor)) as f32;
            }
            for &label in &labels[row] {
                d[label as usize] -= (1.0 / divisor) as f32;
            }
            *sum = z.iter().map(|&z| reference::softplus(f64::from(z))).sum();
        }
    });
    let mut loss = 0.0;
    for (row, (labels, sum)) in labels.iter().zip(without_labels).enumerate() {
        loss += weight(row) * sum;
        labels.iter().for_each(|&label| loss -= weight(row) * f64::from(logits[row * classes + label as usize]));
    }
    (loss / total) as f32
}

/// The reference implementation.
pub(crate) mod reference {
    use super::CrossEntropy;
    use crate::number::Real;

    /// Returns ln(1 + eᶻ), without overflow.
    pub fn softplus(z: f64) -> f64 {
        z.max(0.0) + (-z.abs()).exp().ln_1p()
    }

    /// Computes the mean loss and its gradient with the formula of [`crate::binary_cross_entropy`].
    pub(crate) fn binary_cross_entropy<T: Real>(
        z: &[T],
        labels: &[Vec<u32>],
        row_weights: Option<&[T]>,
        d: &mut [T],
    ) -> T {
        let weight = |row: usize| row_weights.map_or(T::ONE, |weights| weights[row]);
        let total = (0..labels.len()).map(weight).sum::<T>();
        let classes = z.len() / labels.len();
        let mut loss = T::ZERO;
        let rows = z.chunks_exact(classes).zip(d.chunks_exact_mut(classes)).zip(labels);
        for (row, ((z, d), labels)) in rows.enumerate() {
            let divisor = total / weight(row);
            // Without labels: −Σ ln(1 − p), and its gradient is p.
            d.iter_mut().zip(z).for_each(|(d, &z)| *d = T::ONE / ((T::ONE + (-z).exp()) * divisor));
            loss += weight(row) * z.iter().map(|z| T::round_from(softplus(z.to_f64()))).sum::<T>();
            for label in labels.iter().map(|&label| label as usize) {
                loss -= weight(row) * z[label];
                d[label] -= T::ONE / divisor;
            }
        }
        loss / total
    }

    /// Computes the mean loss and its gradient with the formula of [`crate::cross_entropy`].
    pub(crate) fn cross_entropy<T: Real>(x: &[T], labels: &[u32], options: &CrossEntropy<T>, d: &mut [T]) -> T {
        let classes = x.len() / labels.len();
        let shared = options.batch_totals(classes, labels);
        let mut loss = T::ZERO;
        let rows = x.chunks_exact(classes).zip(d.chunks_exact_mut(classes)).zip(labels);
        for (row, ((x, d), &label)) in rows.enumerate() {
            let (label, row_weight) = (label as usize, options.row_weight(row));
            let largest = x.iter().copied().fold(T::NEG_INFINITY, T::max);
            let log_total = x.iter().map(|&x| (x - largest).exp()).sum::<T>().ln() + largest;
            let certain = (T::ONE - options.label_smoothing) * options.weight(label);
            // −ln p_c = log_total − x_c, and its gradient is p − onehot(c).
            let in_all = certain + shared.smoothing_per_class * shared.total_class_weight;
            for (class, (&x, d)) in x.iter().zip(d).enumerate() {
                let target =
                    shared.smoothing_per_class * options.weight(class) + if class == label { certain } else { T::ZERO };
                loss += row_weight * target * (log_total - x);
                *d = ((x - log_total).exp() * in_all - target) / (shared.divisor / row_weight);
            }
        }
        loss / shared.divisor
    }
}
