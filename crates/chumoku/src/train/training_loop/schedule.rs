//! The learning-rate schedule: linear warm-up, then a cosine decay to a twentieth.

/// Returns the learning rate of step `step` (from 1) of `steps`:
///
/// - during warm-up: `peak · step / warmup`
/// - then: `peak · (0.05 + 0.95 · (1 + cos(π · progress)) / 2)`
///
/// Sources: Goyal et al. (2017) for warm-up; Loshchilov and Hutter, "SGDR" (2017) for the cosine.
pub(crate) fn learning_rate(peak: f64, step: u64, warmup: u64, steps: u64) -> f64 {
    if step <= warmup {
        return peak * step as f64 / warmup.max(1) as f64;
    }
    let progress = (step - warmup) as f64 / (steps.saturating_sub(warmup)).max(1) as f64;
    peak * (0.05 + 0.95 * 0.5 * (1.0 + (std::f64::consts::PI * progress.min(1.0)).cos()))
}

#[cfg(test)]
mod tests {
    use super::learning_rate;

    #[test]
    fn the_learning_rate_rises_then_falls() {
        let rate = |step| learning_rate(1.0, step, 10, 110);
        assert_eq!(rate(1), 0.1);
        assert_eq!(rate(10), 1.0);
        assert!((rate(60) - 0.525).abs() < 1e-12);
        assert!((rate(110) - 0.05).abs() < 1e-12);
        assert!((rate(500) - 0.05).abs() < 1e-12);
        assert_eq!(learning_rate(2.0, 1, 0, 1), 2.0 * 0.05);
    }
}
