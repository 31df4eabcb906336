//! What stands in front of every place: names and keys, routes, the log.

use crate::access::{check_host, check_key};
use crate::places::{self, PAGES, PLACES, counted_as, of_path};
use crate::refusal::{Kind, Refusal};
use crate::replies::{json_reply, reply};
use crate::request::object;
use crate::service::{Service, Told};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use chumoku::tr;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// All routes.
pub(crate) fn router(service: Arc<Service>) -> Router {
    let mut router = Router::new();
    for place in PLACES {
        router = router.route(place.path, post(question));
        router = router.route(&format!("/models/{{name}}{}", place.path), post(question));
    }
    for path in PAGES.iter().map(|(path, _)| *path).chain(["/"]) {
        router = router.route(path, get(page));
    }
    router
        .fallback(nowhere)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(service.clone(), guard))
        .with_state(service)
}

/// Counts something while it is alive.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Relaxed);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Who may ask is let in; what was answered is counted and told.
async fn guard(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let _in_flight = InFlight::new(&service);
    let (path, method) = (request.uri().path().to_owned(), request.method().clone());
    let place = counted_as(&path);
    let mut response = match admit(&service, &path, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    // Refusals of what is OpenAI's have its form.
    if place == "/v1/embeddings"
        && let Some(refusal) = response.extensions_mut().remove::<Refusal>()
    {
        response = refusal.into_openai();
    }
    if service.is_ending() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let (status, took) = (response.status().as_u16(), begun.elapsed());
    service.metrics.count(place, status, took);
    let told = response.extensions_mut().remove::<Told>().unwrap_or_default();
    let why = response.extensions_mut().remove::<Refusal>().map(|refusal| refusal.kind());
    let milliseconds = |time: Duration| (time.as_secs_f64() * 1e4).round() / 10.0;
    let times = [told.waited, told.computed, took].map(milliseconds);
    let of_model = |value: Value| if told.model.is_empty() { Value::Null } else { value };
    let fields = [
        ("method", method.as_str().into()),
        ("path", place.into()),
        ("status", status.into()),
        ("error_type", why.map_or(Value::Null, Value::from)),
        ("model", of_model(told.model.as_str().into())),
        ("texts", of_model(told.texts.into())),
        ("queue_ms", of_model(times[0].into())),
        ("compute_ms", of_model(times[1].into())),
        ("total_ms", times[2].into()),
    ];
    service.log.request(fields, || {
        let mut line = format!("{method} {place} {status}");
        why.into_iter().for_each(|why| line += &format!(" {why}"));
        if !told.model.is_empty() {
            line += &format!(" model={} texts={} queue={}ms compute={}ms", told.model, told.texts, times[0], times[1]);
        }
        line + &format!(" total={}ms", times[2])
    });
    response
}

/// Requests that are being read or answered.
struct InFlight<'a>(&'a Service);

impl<'a> InFlight<'a> {
    fn new(service: &'a Service) -> Self {
        service.metrics.in_flight.fetch_add(1, Relaxed);
        InFlight(service)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.metrics.in_flight.fetch_sub(1, Relaxed);
    }
}

fn admit(service: &Service, path: &str, request: &Request) -> Result<(), Refusal> {
    if let Some(own) = &service.own_host {
        check_host(own, request.headers())?;
    }
    // Whoever watches over the service need not know the key.
    match path {
        "/health" => Ok(()),
        _ => check_key(service.key.as_deref(), request.headers()),
    }
}

/// The name of the model in `/models/NAME/…`.
fn name_in(path: &str) -> Option<String> {
    let (name, _) = path.strip_prefix("/models/")?.split_once('/')?;
    Some(unescaped(name))
}

/// A part of a path with `%20` and its like as what they stand for.
fn unescaped(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while let Some(&byte) = bytes.get(at) {
        let code = bytes.get(at + 1..at + 3).filter(|_| byte == b'%');
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        out.push(code.unwrap_or(byte));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// What is asked with POST.
async fn question(State(service): State<Arc<Service>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    let Some(place) = of_path(path) else { return nowhere().await };
    let arriving = Counted::new(&service.arriving);
    let asked = object(&head.headers, body, &service.limits).await;
    drop(arriving);
    let answered = match asked {
        Ok(asked) => reply(&service, place, name_in(path).as_deref(), &asked).await,
        Err(refusal) => Err(refusal),
    };
    answered.unwrap_or_else(IntoResponse::into_response)
}

/// What is asked with GET.
async fn page(State(service): State<Arc<Service>>, request: Request) -> Response {
    match request.uri().path() {
        "/health" if service.is_ending() => crate::service::ending().into_response(),
        "/health" => json_reply(&json!({ "status": "ok" })),
        "/info" => json_reply(&info(&service)),
        "/metrics" => {
            let queues = service.queues();
            let queues: Vec<(&str, usize)> = queues.iter().map(|(name, length)| (name.as_str(), *length)).collect();
            written(service.metrics.to_text(&queues), "text/plain; version=0.0.4; charset=utf-8")
        }
        "/openapi.json" => json_reply(&places::openapi()),
        "/docs" => written(places::page(), "text/html; charset=utf-8"),
        _ => json_reply(&overview(&service)),
    }
}

fn written(text: String, kind: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert("X-Content-Type-Options", HeaderValue::from_static("nosniff"));
    let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}

/// The names of models, and what can be asked.
fn overview(service: &Service) -> Value {
    let models: Vec<String> = service.models.iter().map(|served| served.loaded().name.clone()).collect();
    let places = PLACES.iter().map(|place| format!("POST {}", place.path));
    let places: Vec<String> = places.chain(PAGES.iter().map(|(path, _)| format!("GET {path}"))).collect();
    json!({ "chumoku": env!("CARGO_PKG_VERSION"), "models": models, "endpoints": places, "docs": "/docs" })
}

/// As text-embeddings-inference tells of the first model, and of each.
fn info(service: &Service) -> Value {
    let models: Vec<_> = service.models.iter().map(|served| served.loaded().info()).collect();
    let mut info = models.first().cloned().unwrap_or_default();
    let limits = &service.limits;
    info.insert("max_concurrent_requests".into(), limits.queue.into());
    info.insert("max_client_batch_size".into(), limits.texts.into());
    info.insert("max_batch_requests".into(), limits.batch_texts.into());
    info.insert("max_input_characters".into(), limits.characters.into());
    info.insert("auto_truncate".into(), false.into());
    info.insert("version".into(), env!("CARGO_PKG_VERSION").into());
    info.insert("models".into(), models.into_iter().map(Value::Object).collect());
    Value::Object(info)
}

async fn nowhere() -> Response {
    Refusal::not_found(tr!(
        "there is nothing here; GET /docs lists the places",
        "ここには何もありません。GET /docs で一覧を見られます"
    ))
    .into_response()
}

async fn wrong_method() -> Response {
    let message = tr!(
        "another method is needed here; GET /docs lists the places",
        "ここでは別のメソッドが必要です。GET /docs で一覧を見られます"
    );
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, Kind::Validation, message).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths_are_read() {
        assert_eq!(name_in("/models/a%20b/predict").as_deref(), Some("a b"));
        assert_eq!(name_in("/models/%E6%98%A0%E7%94%BB/predict").as_deref(), Some("映画"));
        assert_eq!(name_in("/models/50%/predict").as_deref(), Some("50%"));
        assert_eq!(name_in("/predict"), None);
    }
}
