//! Counters and histograms in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Guard that increments a count while it is alive.
#[derive(Debug)]
pub(crate) struct CountGuard {
    count: Arc<AtomicU64>,
    /// The count after the increment.
    pub(crate) number: u64,
}

impl CountGuard {
    pub(crate) fn new(count: &Arc<AtomicU64>) -> Self {
        CountGuard { count: count.clone(), number: count.fetch_add(1, Relaxed) + 1 }
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Relaxed);
    }
}

/// Cumulative counts per bucket bound, and the sum of all values.
#[derive(Debug)]
pub(crate) struct Histogram<const N: usize> {
    bounds: [f64; N],
    counts: [AtomicU64; N],
    all: AtomicU64,
    /// Sum in millionths.
    sum: AtomicU64,
}

impl<const N: usize> Histogram<N> {
    fn new(bounds: [f64; N]) -> Self {
        Histogram {
            bounds,
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            all: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }

    pub(crate) fn add(&self, value: f64) {
        for (bound, count) in self.bounds.iter().zip(&self.counts) {
            if value <= *bound {
                count.fetch_add(1, Relaxed);
            }
        }
        self.all.fetch_add(1, Relaxed);
        self.sum.fetch_add((value * 1e6) as u64, Relaxed);
    }

    fn write(&self, name: &str, help: &str, out: &mut String) {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
        for (bound, count) in self.bounds.iter().zip(&self.counts) {
            let _ = writeln!(out, "{name}_bucket{{le=\"{bound}\"}} {}", count.load(Relaxed));
        }
        let all = self.all.load(Relaxed);
        let sum = self.sum.load(Relaxed) as f64 / 1e6;
        let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {all}\n{name}_sum {sum}\n{name}_count {all}");
    }
}

const SECONDS_BUCKETS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

/// Metrics of the service.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// Requests by endpoint and status.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    /// Seconds from a request's head to its answer.
    pub(crate) seconds: Histogram<11>,
    /// Seconds in the queue.
    pub(crate) waited: Histogram<11>,
    /// Seconds to compute a batch.
    pub(crate) computed: Histogram<11>,
    pub(crate) batch_texts: Histogram<9>,
    pub(crate) connections: Arc<AtomicU64>,
    pub(crate) in_flight: Arc<AtomicU64>,
    pub(crate) reloads: [AtomicU64; 2],
    /// Batches that are being computed.
    pub(crate) computing: Arc<AtomicU64>,
    /// Computations that were cancelled because no client waited for them.
    pub(crate) stopped: AtomicU64,
    /// Number of times that free memory was returned to the system.
    pub(crate) trims: AtomicU64,
}

/// Gauges that are read on request.
#[derive(Debug)]
pub(crate) struct Gauges {
    /// Waiting requests per model, without explanations.
    pub(crate) by_model: Vec<(String, usize)>,
    /// Waiting explanations of all models.
    pub(crate) explanations: usize,
    /// Bytes of requests being read and answers being sent.
    pub(crate) held: u64,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            requests: Mutex::default(),
            seconds: Histogram::new(SECONDS_BUCKETS),
            waited: Histogram::new(SECONDS_BUCKETS),
            computed: Histogram::new(SECONDS_BUCKETS),
            batch_texts: Histogram::new([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0]),
            connections: Arc::default(),
            in_flight: Arc::default(),
            reloads: [AtomicU64::new(0), AtomicU64::new(0)],
            computing: Arc::default(),
            stopped: AtomicU64::new(0),
            trims: AtomicU64::new(0),
        }
    }
}

impl Metrics {
    pub(crate) fn count(&self, place: &'static str, status: u16, took: Duration) {
        *self.requests.lock().unwrap_or_else(PoisonError::into_inner).entry((place, status)).or_default() += 1;
        self.seconds.add(took.as_secs_f64());
    }

    /// Formats all metrics and gauges.
    pub(crate) fn to_text(&self, waiting: &Gauges) -> String {
        let mut out =
            String::from("# HELP chumoku_requests_total Requests answered\n# TYPE chumoku_requests_total counter\n");
        for ((place, status), count) in self.requests.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = writeln!(out, "chumoku_requests_total{{path=\"{place}\",status=\"{status}\"}} {count}");
        }
        self.seconds.write("chumoku_request_seconds", "From a request's head to its answer", &mut out);
        self.waited.write("chumoku_queue_seconds", "Time that requests waited for their model", &mut out);
        self.computed.write("chumoku_batch_seconds", "Time to compute batches", &mut out);
        self.batch_texts.write("chumoku_batch_texts", "Texts computed together", &mut out);
        out.push_str("# HELP chumoku_queue_length Waiting requests\n# TYPE chumoku_queue_length gauge\n");
        for (model, length) in &waiting.by_model {
            let model = model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = writeln!(out, "chumoku_queue_length{{model=\"{model}\"}} {length}");
        }
        for (name, help, value) in [
            ("chumoku_explanations_waiting", "Waiting explanations", waiting.explanations as u64),
            ("chumoku_connections", "Open connections", self.connections.load(Relaxed)),
            ("chumoku_requests_in_flight", "Requests being read or answered", self.in_flight.load(Relaxed)),
            ("chumoku_held_bytes", "Bytes of requests being read and answers being sent", waiting.held),
        ] {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
        }
        for (name, help, value) in [
            ("chumoku_stopped_total", "Computations cancelled because no client waited for them", &self.stopped),
            ("chumoku_trims_total", "Times that free memory was returned to the system", &self.trims),
        ] {
            let value = value.load(Relaxed);
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}");
        }
        out.push_str("# HELP chumoku_reloads_total Model reloads\n# TYPE chumoku_reloads_total counter\n");
        for (result, count) in ["kept_old", "new"].iter().zip(&self.reloads) {
            let _ = writeln!(out, "chumoku_reloads_total{{result=\"{result}\"}} {}", count.load(Relaxed));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative() {
        let metrics = Metrics::default();
        metrics.count("/predict", 200, Duration::from_millis(3));
        metrics.count("/predict", 200, Duration::from_secs(60));
        metrics.count("/predict", 422, Duration::from_millis(1));
        let waiting = Gauges { by_model: vec![("a\"b".into(), 7)], explanations: 2, held: 99 };
        let text = metrics.to_text(&waiting);
        for line in [
            "chumoku_requests_total{path=\"/predict\",status=\"200\"} 2",
            "chumoku_requests_total{path=\"/predict\",status=\"422\"} 1",
            "chumoku_request_seconds_bucket{le=\"0.001\"} 1",
            "chumoku_request_seconds_bucket{le=\"0.0025\"} 1",
            "chumoku_request_seconds_bucket{le=\"0.005\"} 2",
            "chumoku_request_seconds_bucket{le=\"+Inf\"} 3",
            "chumoku_request_seconds_sum 60.004",
            "chumoku_queue_length{model=\"a\\\"b\"} 7",
            "chumoku_explanations_waiting 2",
            "chumoku_held_bytes 99",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
