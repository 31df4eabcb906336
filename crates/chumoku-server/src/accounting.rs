//! Accounting of finished requests: metrics and a log line.

use crate::metrics::CountGuard;
use crate::service::{RequestStats, Service};
use axum::body::{Body, Bytes, HttpBody};
use axum::http::Method;
use hyper::body::{Frame, SizeHint};
use serde_json::Value;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Maximum length of a method's name in the log, because clients choose it.
const MAX_METHOD_CHARS: usize = 16;

/// A request that is being read or answered.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    service: Arc<Service>,
    started: Instant,
    method: String,
    endpoint: &'static str,
    _in_flight: CountGuard,
}

impl RequestRecord {
    pub(crate) fn start(service: &Arc<Service>, method: &Method, place: &'static str) -> RequestRecord {
        let method = method.as_str().chars().take(MAX_METHOD_CHARS).collect();
        let in_flight = CountGuard::new(&service.metrics.in_flight);
        RequestRecord {
            service: service.clone(),
            started: Instant::now(),
            method,
            endpoint: place,
            _in_flight: in_flight,
        }
    }

    /// Counts the request, and logs its status, the reason of an error, and the statistics of its model.
    pub(crate) fn finish(self, status: u16, why: Option<&'static str>, stats: &RequestStats) {
        let (method, place, took) = (&self.method, self.endpoint, self.started.elapsed());
        self.service.metrics.count(place, status, took);
        let milliseconds = |time: Duration| (time.as_secs_f64() * 1e4).round() / 10.0;
        let times = [stats.waited, stats.computed, took].map(milliseconds);
        let of_model = |value: Value| if stats.model.is_empty() { Value::Null } else { value };
        let fields = [
            ("method", method.as_str().into()),
            ("path", place.into()),
            ("status", status.into()),
            ("error_type", why.map_or(Value::Null, Value::from)),
            ("model", of_model(stats.model.as_str().into())),
            ("texts", of_model(stats.texts.into())),
            ("queue_ms", of_model(times[0].into())),
            ("compute_ms", of_model(times[1].into())),
            ("total_ms", times[2].into()),
            ("aborted", if stats.is_aborted { true.into() } else { Value::Null }),
        ];
        self.service.log.request(fields, || {
            let mut line = format!("{method} {place} {status}");
            why.into_iter().for_each(|why| line += &format!(" {why}"));
            if !stats.model.is_empty() {
                let (model, texts) = (&stats.model, stats.texts);
                line += &format!(" model={model} texts={texts} queue={}ms compute={}ms", times[0], times[1]);
            }
            line += &format!(" total={}ms", times[2]);
            line + if stats.is_aborted { " aborted" } else { "" }
        });
    }
}

/// Progress of an answer that is sent while it is computed.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamProgress(Arc<Mutex<StreamState>>);

#[derive(Debug, Default)]
struct StreamState {
    stats: RequestStats,
    since: Option<Instant>,
    error_type: Option<&'static str>,
    is_over: bool,
}

impl StreamProgress {
    fn lock(&self) -> MutexGuard<'_, StreamState> {
        // No code that holds the lock can panic between two states.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the model has started.
    pub(crate) fn start(&self, stats: &RequestStats) {
        let mut steps = self.lock();
        (steps.stats, steps.since) = (stats.clone(), Some(Instant::now()));
    }

    /// Records the end of the answer.
    pub(crate) fn finish(&self, stats: Result<&RequestStats, &'static str>) {
        let mut steps = self.lock();
        steps.is_over = true;
        match stats {
            Ok(stats) => steps.stats = stats.clone(),
            Err(why) => {
                steps.error_type = Some(why);
                steps.stats.computed = steps.since.map_or(Duration::ZERO, |since| since.elapsed());
            }
        }
    }
}

/// A response body that finishes its request record when it has been sent, or when the client has gone.
pub(crate) struct TrackedBody {
    body: Body,
    progress: StreamProgress,
    status: u16,
    record: Option<RequestRecord>,
}

impl TrackedBody {
    pub(crate) fn new(body: Body, course: StreamProgress, status: u16, account: RequestRecord) -> TrackedBody {
        TrackedBody { body, progress: course, status, record: Some(account) }
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        let Some(account) = self.record.take() else { return };
        let mut steps = self.progress.lock();
        if !steps.is_over {
            steps.stats.computed = steps.since.map_or(Duration::ZERO, |since| since.elapsed());
            steps.stats.is_aborted = true;
        }
        account.finish(self.status, steps.error_type, &steps.stats);
    }
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
